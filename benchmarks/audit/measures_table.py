"""What ERRORS measure: `python -m benchmarks.audit.measures_table` prints the table in docs/measures.md."""

from __future__ import annotations

from collections.abc import Mapping

from truecal import ERRORS, CalibrationError
from truecal.baselines import BASELINES, Baseline

_NOT_SHOWN = ("cox_slope",)
"""Measures that have no finite expected value in small worlds: whether they can be gamed is not shown."""


def rows() -> list[tuple[str, ...]]:
    """Name, what it looks at, definition, reference, truthful and why, one row for each member of ERRORS."""
    return [_row(name, measure) for name, measure in ERRORS.items()]


def _row(name: str, measure: CalibrationError | Baseline) -> tuple[str, ...]:
    aspect = measure.property.asks
    if isinstance(measure, Baseline):
        title, definition, reference = measure.title, measure.definition, measure.reference
    else:
        title, definition = measure.symbol, _definition(measure)
        reference = measure.binning.reference
    truthful = "not shown" if name in _NOT_SHOWN else "yes" if measure.truthful else "no"
    return f"`{name}`", title, aspect, definition, reference, truthful, measure.reason


def _definition(error: CalibrationError) -> str:
    """The formula of a composed error in words."""
    left, right = ("|", "|") if error.norm == "l1" else ("(", ")²")
    if error.property.vector:
        left, right = "‖", "‖₁" if error.norm == "l1" else "‖²"
    mean, residual = error.property.mean_text, error.property.residual_text
    sums = f"{mean}{'n⁻¹' if error.norm == 'l1' else 'n⁻²'} Σ_B {left}Σ_{{i∈B}} ({residual}){right}"
    return f"{sums}{f' + {error.property.correction_text}' if error.corrected else ''} over {error.binning.text}"


def markdown(verdicts: Mapping[str, str] | None = None) -> str:
    """The measures by name as Markdown, with what the audit says of each where that is known."""
    head = ("name", "known as", "reference", "truthful", "audit")
    found = verdicts or {}
    body = [
        (f"`{name}`", title, reference, truthful, found.get(name, "–"))
        for (name, (_, title, _, _, reference, truthful, _)) in zip(ERRORS, rows(), strict=True)
        if name in BASELINES  # formula and reason are in the API reference
    ]
    # a bar in a formula would end its cell
    lines = [head, ("---",) * len(head), *(tuple(cell.replace("|", r"\|") for cell in row) for row in body)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    print(markdown())
