"""The audit of one library, in the environment that has it: python -m benchmarks.audit.run netcal netcal.json.

Every script that the page prints is run here, in a namespace of its own, and must say what the audit said.
"""

from __future__ import annotations

import importlib.metadata
import io
import json
import math
import re
import sys
import time
import warnings
from contextlib import redirect_stdout
from dataclasses import asdict, replace
from typing import Any

import numpy as np

import truecal as tc
from truecal.io import write_atomic

from .contracts import Check, check_contracts
from .metrics import PEERS, Audited, ours
from .scripts import checks_script, one_bin_check, proof_script

BUDGETS = (4_000, 20_000)
"""A metric that the first does not convict is audited again with the second."""
SECONDS = 600.0


def audit_library(library: str) -> dict[str, Any]:
    """Every metric of the library as plain JSON types, with the versions it was seen with."""
    rows = [row for row in (*PEERS, *(ours() if library == "truecal" else ())) if row.library == library]
    return {
        "library": library,
        "version": tc.__version__ if library == "truecal" else importlib.metadata.version(library),
        "date": time.strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        "with": {name: _version(name) for name in ("numpy", "scipy", "scikit-learn", "torch")},
        "truecal": tc.__version__,
        "metrics": [_row(row) for row in rows],
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _row(row: Audited) -> dict[str, Any]:
    start = time.monotonic()
    found: dict[str, Any] = {"name": row.name, "what": row.what, "code": row.code, "bug": row.bug}
    try:
        report, checks, budget = _audit(row)
    except ValueError as problem:
        found["problem"] = " ".join(str(problem).split())
        print(f"{row.library} {row.name}: {found['problem'][:200]}", file=sys.stderr, flush=True)
        return found
    found |= {"audit": report.to_dict() | {"checks": [asdict(check) for check in checks]}, "budget": budget}
    if report.proof is not None:
        proof = report.proof
        script = proof_script(report.snippet(), row.code)
        slack = 1e-6
        found |= {"script": script, "output": _confirmed(script, proof, slack)}
        if report.lasting is not None:
            script = proof_script(report.snippet(lasting=True), row.code)
            found |= {"lasting_script": script, "lasting_output": _confirmed(script, report.lasting, 1e-6)}
    checks = [check for check in checks if not check.passed]
    failed = [check.name for check in checks]
    if checks:
        script = checks_script(report, row, failed)
        found |= {"checks_script": script, "checks_output": _seen(script, checks)}
    taken = time.monotonic() - start
    print(f"{row.library} {row.name} ({taken:.0f} s): {report.summary}; {failed}", file=sys.stderr, flush=True)
    return found


def _audit(row: Audited) -> tuple[tc.results.AuditReport, list[Check], int]:
    scope: dict[str, Any] = {"np": np}
    exec(row.code, scope)  # the lines of metrics.py, which the page prints
    metric = scope["metric"]
    budget = 0
    for budget in BUDGETS:
        with redirect_stdout(io.StringIO()):
            options: dict[str, Any] = {"classes": row.classes, "binary": row.binary, "outcomes": row.outcomes}
            report = tc.audit(metric, **options, budget=budget, seconds=SECONDS)
        if report.verdict == "gamed":
            break
    with redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        checks = check_contracts(metric, report.forms, report.seed)
        checks += [_one_bin(row, metric)] if row.one_bin else []
    return replace(report, metric=f"{row.library} {row.name}"), checks, budget


def _one_bin(row: Audited, metric: Any) -> Check:
    """With one bin the value is |mean prediction − frequency|; if not, some rows were left out or put apart."""
    y, p, expected = one_bin_check(row)
    try:
        value = float(metric(y, p, n_bins=1))
    except Exception as problem:  # a library may refuse a single bin
        return Check("one_bin", True, f"one bin is refused: {type(problem).__name__}")
    said = f"with one bin {value:.6g}, and |mean prediction − frequency| is {expected:.6g}"
    return Check("one_bin", math.isclose(value, expected, rel_tol=1e-5), said)


def _run(script: str) -> str:
    """What a script prints, run by itself."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(script, {})
    return printed.getvalue().strip()


def _seen(script: str, checks: list[Check]) -> str:
    """What the script prints; a number that a check was told must be among it, unless the metric draws its numbers."""
    told = [re.match(r"gives (\S+) and raises nothing", check.detail) for check in checks]
    wanted = {match[1] for match in told if match}
    for _ in range(3):  # what a metric makes of NaN may depend on where its numbers lie in memory
        output = _run(script)
        words = re.findall(r"[-+.\d]+(?:e[-+]\d+)?", output)
        if wanted <= {f"{float(word):.6g}" for word in words if _is_number(word)}:
            return output
    if {"deterministic", "refuses_nan"} & {check.name for check in checks}:
        return output  # of NaN some metrics make another number in every call
    raise RuntimeError(f"the checks were told {wanted}; the script prints\n{output}")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _confirmed(script: str, said: Any, slack: float) -> str:
    """What the script prints, which must be the two expected values that the audit said."""
    output = _run(script)
    _, truth, _, lie = output.splitlines()[-1].split()
    both = np.array([float(truth), float(lie)])
    if not np.allclose(both, [said.expected_truth, said.expected_lie], rtol=1e-6, atol=slack):
        raise RuntimeError(f"the script prints {output}, the audit says {said}")
    return output.splitlines()[-1]


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if sys.argv[1] == "torch-uncertainty":
        from . import torchvision_cpu  # noqa: F401  # declares operators as it is imported
    write_atomic(sys.argv[2], json.dumps(audit_library(sys.argv[1]), indent=1, ensure_ascii=False) + "\n")
