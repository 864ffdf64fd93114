"""The scripts that the page prints: a proof, and the checks that a metric fails, with numpy and the metric alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import indent
from typing import Any

import numpy as np

import truecal as tc

from .metrics import Audited

_TRIED = """

def tried(y, p):
    try:
        return float(metric(y, p))
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}"[:100]


"""
_SAMPLE = """for k in CLASSES:
    rng = np.random.default_rng([0, k])
    p = np.diff(np.rint(rng.dirichlet([2.0] * k, 60).cumsum(axis=1) * 2**16) / 2**16, axis=1, prepend=0)
    y = np.arange(60) % k
"""
_COLUMN = "    p = p[:, 1] if k == 2 else p\n"
_ORDERS = """orders = [rng.permutation(60) for _ in range(20)]
values = [tried(y[order], rows[order]) for order in orders]
print(k, "classes, NAME: from", min(values), "to", max(values))"""
_BAD = """bad = p.copy()
bad.reshape(60, -1)[2, 0] = np.VALUE
print(k, "classes, NAME:", tried(y, bad))"""
_CHECKS = {
    "finite": 'print(k, "classes, NAME:", tried(y, p), tried(y, np.repeat(p[:3], 20, axis=0)))',
    "deterministic": 'print(k, "classes, NAME:", tried(y, p), tried(y, p), tried(y, p))',
    "leaves_input_alone": 'kept = p.copy()\ntried(y, p)\nprint(k, "classes, NAME:", np.array_equal(p, kept))\np = kept',
    "row_order": f"rows = p\n{_ORDERS}",
    "row_order_with_ties": f"rows = np.repeat(p[:3], 20, axis=0)\n{_ORDERS}",
    "class_names": 'if p.ndim == 2:\n    print(k, "classes, NAME:", tried(y, p), tried(k - 1 - y, p[:, ::-1].copy()))',
    "refuses_nan": _BAD.replace("VALUE", "nan"),
    "refuses_infinite": _BAD.replace("VALUE", "inf"),
    "refuses_bad_rows": """bad = p.copy()
bad[2] = 1.3 if p.ndim == 1 else 0.9
print(k, "classes, NAME:", tried(y, bad))""",
    "refuses_empty": 'print(k, "classes, NAME:", tried(y[:0], p[:0]))',
    "single_class": 'print(k, "classes, NAME:", tried(np.zeros_like(y), p))',
}
"""For each check the lines that show it, on the audit's own sample."""


def proof_script(script: str, code: str) -> str:
    """The audit's script, with the lines that define the metric in the place of its name."""
    return re.sub(r"^metric = \.\.\..*$", lambda _: f"{code}\n", script, count=1, flags=re.MULTILINE)


def one_bin_check(row: Audited) -> tuple[Any, Any, float]:
    """Labels, predictions from 0 to 1 with both ends, and |mean prediction − frequency| of them."""
    y, u = np.array([0, 1, 0, 1, 1, 1, 0]), np.array([0.0, 0.25, 0.375, 0.625, 0.75, 0.875, 1.0])
    if row.binary == "column" and row.one_bin == "positive":
        return y, u, float(abs(np.mean(u - y)))
    p = np.stack([1 - u, u], axis=1)
    return y, p, float(abs(np.mean(p.max(axis=1) - (p.argmax(axis=1) == y))))


def checks_script(report: tc.results.AuditReport, row: Audited, failed: Sequence[str]) -> str:
    """A script that shows every failed check, for each number of classes."""
    parts = ["import numpy as np\n", row.code, _TRIED]
    shown = [_CHECKS[name].replace("NAME", name) for name in failed if name in _CHECKS]
    if shown:
        column = any(form.binary == "column" for form in report.forms.values())
        parts += [_SAMPLE.replace("CLASSES", repr(tuple(report.forms))), _COLUMN if column else ""]
        parts += [indent(lines, "    ") + "\n" for lines in shown]
    if "one_bin" in failed:
        y, p, expected = one_bin_check(row)
        parts.append(
            f"y, p = np.array({y.tolist()}), np.array({p.tolist()})\n"
            f'print("one_bin:", float(metric(y, p, n_bins=1)), "expected:", {expected!r})'
        )
    return "".join(parts).strip()
