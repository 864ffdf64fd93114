"""Which libraries agree on which data sets: runs the peers that are installed and writes results/conformance.

python -m benchmarks.conformance            run, store the results and write the page
python -m benchmarks.conformance --page     the page alone, from the stored results
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from conformance import TOLERANCE, Outcome, check, measures, sets
from truecal.io import write_atomic

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "conformance.json"
PAGE = HERE.parent / "results" / "conformance" / "RESULTS.md"


@dataclass(frozen=True)
class Peer:
    """A function of a library, as the few lines that call it, and the measure that it is held against."""

    library: str
    name: str
    measure: str
    code: str
    """Defines `metric(y, p)`; `p` is the probability of class 1 where the measure looks at the event."""


def _torchmetrics(kind: str, norm: str, measure: str) -> Peer:
    classes = "" if kind == "binary" else "num_classes=p.shape[1], "
    code = f"""import torch
from torchmetrics.functional.classification import {kind}_calibration_error

def metric(y, p):
    return {kind}_calibration_error(torch.tensor(p), torch.tensor(y), {classes}n_bins=15, norm="{norm}")"""
    return Peer("torchmetrics", f'{kind}_calibration_error(norm="{norm}")', measure, code)


def _netcal(name: str, options: str, measure: str) -> Peer:
    code = f"""from netcal.metrics import {name}

def metric(y, p):
    return {name}({options}).measure(p, y)"""
    return Peer("netcal", f"{name}({options})", measure, code)


def _function(library: str, module: str, call: str, measure: str) -> Peer:
    name = call.partition("(")[0].split()[-1]
    return Peer(library, call, measure, f"from {module} import {name}\n\ndef metric(y, p):\n    return {call}")


_COUNTED = """from sklearn.calibration import calibration_curve

def metric(y, p):
    true, predicted = calibration_curve(y, p, n_bins=15)
    counts = np.bincount(np.searchsorted(np.linspace(0, 1, 16)[1:-1], p))
    return np.sum(np.abs(true - predicted) * counts[counts > 0]) / len(y)"""
_LARGEST = """from sklearn.calibration import calibration_curve

def metric(y, p):
    true, predicted = calibration_curve(y, p, n_bins=15)
    return np.max(np.abs(true - predicted))"""
_ROOT = """from calibration import get_top_calibration_error

def metric(y, p):
    return get_top_calibration_error(p, y, p=2, debias=True) ** 2"""

PEERS = (
    _torchmetrics("multiclass", "l1", "ece"),
    _torchmetrics("multiclass", "max", "mce"),
    _torchmetrics("binary", "l1", "binary_ece"),
    _torchmetrics("binary", "max", "binary_mce"),
    _netcal("ECE", "15", "binary_ece"),
    _netcal("MCE", "15", "binary_mce"),
    _netcal("ECE", "15", "ece"),
    _netcal("MCE", "15", "mce"),
    _netcal("MMCE", "", "mmce"),
    _netcal("ACE", "15", "ace"),
    _function("uncertainty-calibration", "calibration", "get_ece(p, y, num_bins=15)", "ece"),
    _function("uncertainty-calibration", "calibration", "get_ece_em(p, y, num_bins=15)", "ece_equal_mass"),
    Peer("uncertainty-calibration", "get_top_calibration_error(p, y) ** 2", "debiased_squared", _ROOT),
    _function("relplot", "relplot", "smECE(p, y)", "smooth_ece"),
    _function("relplot", "relplot.metrics", "binnedECE(p, y, 15)", "binary_ece"),
    Peer("scikit-learn", "calibration_curve(n_bins=15), gaps weighted by counts", "binary_ece", _COUNTED),
    Peer("scikit-learn", "calibration_curve(n_bins=15), the largest gap", "binary_mce", _LARGEST),
)


def run() -> dict[str, Any]:
    """Every peer over every set without weights, and the versions seen."""
    found = []
    for peer in PEERS:
        scope: dict[str, Any] = {"np": np}
        exec(peer.code, scope)  # the lines above, which the page prints
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcomes = check(scope["metric"], peer.measure)
        found.append({**asdict(peer), "outcomes": [_plain(outcome) for outcome in outcomes]})
        print(f"{peer.library} {peer.name}: {sum(o.agrees() for o in outcomes)} of {len(outcomes)} agree", flush=True)
    versions = {library: importlib.metadata.version(library) for library in dict.fromkeys(p.library for p in PEERS)}
    return {"versions": versions, "peers": found}


def _plain(outcome: Outcome) -> dict[str, Any]:
    found = outcome.found
    value = None if found is None else found if math.isfinite(found) else str(found)
    expected = outcome.expected if math.isfinite(outcome.expected) else str(outcome.expected)
    return {"set": outcome.set, "expected": expected, "found": value, "reason": outcome.reason}


def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text("utf-8"))
    return found


# -- the page ----------------------------------------------------------------------------------------------------------

INTRO = """# Conformance: do implementations agree?

Two libraries that report "ECE" can disagree: at bin edges, on ties, on a prediction of exactly 1. {sets} small data
sets show where. Each has the value of every [measure](../../docs/measures.md), {measures} in all, as JSON
(`conformance/sets/`), for any library to use.

| library | function | compared with | agrees on | largest differences |
| --- | --- | --- | ---: | --- |
"""

WHY = """
Sets without weights, with {versions}. A difference is not a mistake: definitions differ.

- **Edges.** truecal, scikit-learn and uncertainty-calibration have bins (a, b]. torchmetrics and relplot have [a,
  b) and a separate bin for 1; netcal has [a, b) with the last bin closed.
- **Two classes.** Of two columns netcal uses class 1, the others the confidence. netcal raises if a class never
  occurs.
- **Equal mass.** uncertainty-calibration uses other cuts where 15 does not divide the number of rows.
- **Estimates.** relplot's grid is coarser; uncertainty-calibration clips the debiased error at 0.
- **Names.** netcal's ACE is the mean gap over equal-width bins of the confidence.

## Check your own implementation

```
python -m conformance netcal.metrics:ECE.measure --measure binary_ece --convention preds_first -k bins=15
python -m conformance my_package.metrics:ece --measure ece --weights sample_weight
python -m conformance --list
```

The callable takes labels and predictions as arrays or tensors. One line per data set tells whether the value agrees
to 1e-5. The exit code is 0 if all agree and 3 if not. In a test suite:

```python
>>> import truecal as tc
>>> from conformance import check
>>> all(outcome.agrees() for outcome in check(tc.ERRORS["ece"], "ece", weight_option="sample_weight"))
True

```

A data set has `y_true`, `y_proba`, `sample_weight` or null, and `values`: "inf" where a measure is infinite, null
where it has none. `binary_ece` and `binary_mce` are those of class 1. `about` says what a set is for. All bin
counts are 15. `--list` shows the measures; `python -m benchmarks.conformance` measures the libraries again.
"""


def page(results: dict[str, Any]) -> str:
    """results/conformance/RESULTS.md."""
    versions = ", ".join(f"{library} {version}" for library, version in results["versions"].items())
    intro = INTRO.format(sets=len(sets()), measures=len(measures()))
    return "".join([intro, *map(_line, results["peers"]), WHY.format(versions=versions)])


def _line(peer: dict[str, Any]) -> str:
    outcomes = [Outcome(o["set"], float(o["expected"]), _number(o["found"]), o["reason"]) for o in peer["outcomes"]]
    good = sum(outcome.agrees(TOLERANCE) for outcome in outcomes)
    others = [outcome for outcome in outcomes if not outcome.agrees(TOLERANCE)]
    raised = [outcome.set for outcome in others if outcome.found is None]
    off = {
        outcome.set: abs((outcome.found or 0.0) - outcome.expected) for outcome in others if outcome.found is not None
    }
    worst = sorted(off, key=lambda name: (-off[name], name))
    shown = [f"{name} ({off[name]:.2g})" if math.isfinite(off[name]) else f"{name} (no number)" for name in worst[:5]]
    shown += [f"and {len(worst) - 5} more"] * (len(worst) > 5)
    shown += [f"raises on {', '.join(raised)}"] * bool(raised)
    where = "; ".join(shown) or "–"
    name = peer["name"].replace("|", r"\|")
    return f"| {peer['library']} | `{name}` | `{peer['measure']}` | {good} of {len(outcomes)} | {where} |\n"


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--page", action="store_true", help="write the page from the stored results, run nothing")
    if not parser.parse_args().page:
        write_atomic(RESULTS, json.dumps(run(), indent=1, ensure_ascii=False) + "\n")
    write_atomic(PAGE, page(stored()))


if __name__ == "__main__":
    main()
