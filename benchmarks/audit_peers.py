"""The table of docs/audit.md: calibration metrics of other libraries and our own, each audited in the same way.

python -m benchmarks.audit_peers --out docs/audit.md        (make audit-table installs the peers first)
python -m benchmarks.audit_peers --only netcal --budget quick
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import truecal as tc
from truecal.cli.callables import find_metric
from truecal.io import write_atomic


@dataclass(frozen=True)
class Peer:
    """A metric of a library, of which lower values are better, and how it is called."""

    library: str
    metric: str
    options: dict[str, Any] = field(default_factory=dict)
    how: dict[str, Any] = field(default_factory=dict)


FIRST, BINARY, THREE = {"convention": "preds_first"}, {"classes": 2, "binary": "column"}, {"classes": 3}
_TORCHMETRICS = "torchmetrics.functional.classification"
PEERS = (
    *(
        Peer("torchmetrics", f"{_TORCHMETRICS}:{kind}_calibration_error", {**options, "norm": norm}, {**FIRST, **how})
        for kind, options, how in (("binary", {}, BINARY), ("multiclass", {"num_classes": 3}, THREE))
        for norm in ("l1", "l2", "max")
    ),
    *(Peer("netcal", f"netcal.metrics:{name}.measure", {"bins": 10}, FIRST) for name in ("ECE", "ACE", "MCE")),
    Peer("netcal", "netcal.metrics:MMCE.measure", {}, FIRST),
    Peer("scikit-learn", "sklearn.metrics:brier_score_loss", {}, BINARY),
    Peer("scikit-learn", "sklearn.metrics:log_loss", {"labels": [0, 1]}, BINARY),
    Peer("relplot", "relplot:smECE", {}, {**FIRST, **BINARY}),
    *(
        Peer("uncertainty-calibration", f"calibration:{name}", {}, FIRST)
        for name in ("get_ece", "get_ece_em", "get_calibration_error", "get_top_calibration_error")
    ),
    *(
        Peer("MAPIE", f"mapie.metrics.calibration:{name}", {}, BINARY if "ece" not in name else {})
        for name in ("expected_calibration_error", "top_label_ece", "kolmogorov_smirnov_statistic")
    ),
    *(
        Peer("calibre", f"calibre.metrics:{name}", {}, BINARY)
        for name in ("expected_calibration_error", "maximum_calibration_error", "mean_calibration_error", "brier_score")
    ),
    *(
        Peer("probcal", f"probcal.metrics:{name}", {}, BINARY)
        for name in ("ece", "ece_debiased", "ece_sweep", "smooth_ece", "skce", "ici", "e50", "e90", "brier_score")
    ),
    *(
        Peer("torch-uncertainty", f"torch_uncertainty.metrics.classification:{name}", options, {**FIRST, **THREE})
        for name, options in (
            ("CalibrationError", {"task": "multiclass", "num_classes": 3}),
            ("AdaptiveCalibrationError", {"task": "multiclass", "num_classes": 3}),
        )
    ),
    *(Peer("truecal", name) for name in tc.ERRORS),
)


@dataclass(frozen=True)
class Row:
    """An audited metric, or why it was not."""

    peer: Peer
    report: tc.AuditReport | None
    problem: str = ""


def audited(peer: Peer, budget: str) -> Row:
    try:
        metric, options = find_metric(peer.metric, dict(peer.options))
        report = tc.audit(metric, metric_options=options, budget=budget, **peer.how)
    except (ValueError, TypeError, ImportError) as problem:
        return Row(peer, None, str(problem))
    return Row(peer, replace(report, metric=peer.metric))


def version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _cell(text: object) -> str:
    return " ".join(str(text).replace("|", "\\|").split())


def line(row: Row) -> str:
    options = ", ".join(f"{name}={value!r}" for name, value in row.peer.options.items())
    name = f"`{row.peer.metric.rpartition(':')[2]}`{f' ({options})' if options else ''}"
    if row.report is None:
        return f"| {_cell(name)} | not audited | {_cell(row.problem[:160])} | | | | |"
    proof, report = row.report.proof, row.report
    failed = [f"{c.name} ({c.detail})" for c in report.checks if not c.passed and c.name != "no_gain"]
    where = (
        f"{proof.rows} row{'s' * (proof.rows > 1)}, {proof.classes} classes"
        if proof
        else _cell(report.summary.partition(": ")[0])
    )
    numbers = (f"{x:.4g}" for x in (proof.expected_truth, proof.expected_lie, proof.gain)) if proof else ("", "", "")
    pays = "; ".join(finding.name for finding in report.findings[:4])
    cells = [name, report.verdict, f"{where}; {pays}" if pays else where, *numbers, "; ".join(failed)]
    return f"| {' | '.join(map(_cell, cells))} |"


HEAD = """| metric | verdict | smallest world, what pays | truth | lie | gain | failed checks |
| --- | --- | --- | --- | --- | --- | --- |"""
INTRO = """# The audit of calibration metrics

Made by `make audit-table`; every row by `tc.audit` with budget "{budget}" and seed 0. How to read it:
[Auditing a metric](auditing.md). A metric that is gamed may still be a fine description of a sample: the verdict is
about what happens when it is what one is rewarded by.
"""


def page(rows: Sequence[Row], budget: str) -> str:
    """The whole page: a table for each library, then a script for each proof."""
    parts = [INTRO.format(budget=budget)]
    for library in dict.fromkeys(row.peer.library for row in rows):
        own = [row for row in rows if row.peer.library == library]
        parts += [f"## {library} {version(library)}", "\n".join([HEAD, *map(line, own)])]
    parts.append("## Check it yourself")
    for row in rows:
        if row.report is not None and row.report.proof is not None and ":" in row.peer.metric:
            parts += [f"`{row.peer.metric}`:", f"```\n{row.report.snippet()}\n```"]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Audit calibration metrics of several libraries.")
    parser.add_argument("--out", help="the page to write; standard output without it")
    parser.add_argument("--only", help="one library")
    parser.add_argument("--budget", default="default", choices=("quick", "default", "thorough"))
    given = parser.parse_args()
    rows = []
    for peer in PEERS:
        if given.only in (None, peer.library) and (
            peer.library == "truecal" or version(peer.library) != "not installed"
        ):
            rows.append(audited(peer, given.budget))
            print(line(rows[-1]), file=sys.stderr, flush=True)
    text = page(rows, given.budget)
    if given.out:
        write_atomic(given.out, text)
    else:
        print(text)


if __name__ == "__main__":
    main()
