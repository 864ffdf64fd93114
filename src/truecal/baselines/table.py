"""The table of every measure in docs/measures.md, made from ERRORS: `python -m truecal.baselines.table`."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.errors import CalibrationError
from ..core.properties import Binary, Classwise, Confidence, Full, Property, TopLabel
from ..core.rules import ArgmaxQuantile, BinningRule, EqualWidth, Halfspaces, TwoBin
from . import ERRORS, Baseline

_ASPECTS: dict[type[Property], tuple[str, str]] = {
    Binary: ("one probability", "u − y"),
    Classwise: ("each class", "p^(r) − 1[y = r]"),
    Confidence: ("top class", "c − z"),
    TopLabel: ("top class, given (correct?, confidence)", "c − z"),
    Full: ("whole distribution", "p − e_y"),
}
_OURS = "Lu, Wu, Hartline, Hu 2025, arXiv 2510.06388"
_NOT_SHOWN = ("cox_slope",)
"""Measures that have no finite expected value in small worlds: whether they can be gamed is not shown."""
_TWO_BIN = "Hartline, Hu, Wu 2026, COLT, PMLR 336:3185"


def rows() -> list[tuple[str, ...]]:
    """Name, what it looks at, definition, reference, truthful and why, one row for each member of ERRORS."""
    return [_row(name, measure) for name, measure in ERRORS.items()]


def _row(name: str, measure: CalibrationError | Baseline) -> tuple[str, ...]:
    aspect, residual = _ASPECTS.get(type(measure.property), ("any expectation", "u − φ(y)"))
    if isinstance(measure, Baseline):
        title, definition, reference = measure.title, measure.definition, measure.reference
    else:
        title, definition = measure.symbol, _definition(measure, residual)
        reference = _TWO_BIN if isinstance(measure.binning, TwoBin) else _OURS
    truthful = "not shown" if name in _NOT_SHOWN else "yes" if measure.truthful else "no"
    return f"`{name}`", title, aspect, definition, reference, truthful, measure.reason


def _definition(error: CalibrationError, residual: str) -> str:
    """The formula of a composed error in words."""
    left, right = ("|", "|") if error.norm == "l1" else ("(", ")²")
    if isinstance(error.property, Full):
        left, right = "‖", "‖₁" if error.norm == "l1" else "‖²"
    mean = "the mean over classes r of " if isinstance(error.property, Classwise) else ""
    sums = f"{mean}{'n⁻¹' if error.norm == 'l1' else 'n⁻²'} Σ_B {left}Σ_{{i∈B}} ({residual}){right}"
    return f"{sums}{' + n⁻² Σ(1 − z_i)' if error.corrected else ''} over {_cells(error.binning)}"


def _cells(rule: BinningRule) -> str:
    if isinstance(rule, TwoBin):
        return "the two sides of a cut, averaged over all cuts"
    if isinstance(rule, Halfspaces):
        return f"the two sides of a cut along a direction, averaged over all cuts and {rule.n_directions} directions"
    count = "automatic" if rule.n_bins == "auto" else rule.n_bins
    kind = "equal width" if isinstance(rule, EqualWidth) else "equal numbers of rows"
    within = " within each predicted class" if isinstance(rule, ArgmaxQuantile) else ""
    return f"{count} bins of {kind}{within}"


def markdown(verdicts: Mapping[str, str] | None = None) -> str:
    """The table as Markdown, with what the audit says of each measure where that is known."""
    head = ("name", "known as", "looks at", "definition", "reference", "truthful", "why", "audit")
    found = verdicts or {}
    body = [(*row, found.get(row[0].strip("`"), "–")) for row in rows()]
    # a bar in a formula would end its cell
    lines = [head, ("---",) * len(head), *(tuple(cell.replace("|", r"\|") for cell in row) for row in body)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    print(markdown())
