"""What one model's numbers mean, in three sentences that can be forwarded to people who do not read tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.words import points_text

if TYPE_CHECKING:
    from .evaluation import Evaluation

SMALL = 2.0
"""A gap of so many points that nobody acts on."""


def explanation(found: Evaluation) -> tuple[str, ...]:
    """Three sentences: the rates, whether the difference is chance, and what follows."""
    rates = found.about.rates_text(found.direction.mean_report, found.direction.mean_outcome, found.scale)
    first = f"{rates}: it is {found.direction.sized}." if found.direction.sized else f"{rates}."
    return first, *_rest(found)


def _rest(found: Evaluation) -> tuple[str, ...]:
    standing, gap = found.as_row.standing, found.gap
    rows = standing.rows[:1].upper() + standing.rows[1:]
    if standing.answer == "untested":
        return ("Calibration was not tested.",)
    if standing.answer == "undecided":
        if standing.allows is None:
            return (f"{rows} are too few to tell whether its probabilities can be trusted.", "Collect more rows.")
        most = points_text(standing.allows)
        return (
            f"{rows} cannot tell whether its probabilities can be trusted: they may be off by {most} points.",
            "Collect more rows before anyone relies on them.",
        )
    if standing.answer == "yes":
        return (
            f"{rows} show no more than chance: its probabilities are typically off by at most "
            f"{points_text(standing.allows)} points.",
            "They can be used as they are.",
        )
    p = standing.pvalue or 0.0
    often = "less than one sample in 10,000" if p < 1e-4 else f"about one sample in {round(1 / p):,}"
    chance = f"This is more than chance, which would look so in {often}"
    second = f"{chance}. What is off: {standing.why}." if standing.why else f"{chance}."
    if gap is None or gap.note:
        return second, "Recalibrate it before anyone relies on its probabilities."
    size = f"Its probabilities are typically {points_text(gap.points)} points off"
    between = f"(between {points_text(gap.low)} and {points_text(gap.high)})"
    act = "which is too little to act on" if gap.high <= SMALL else "so recalibrate it before anyone relies on them"
    return second, f"{size} {between}, {act}."
