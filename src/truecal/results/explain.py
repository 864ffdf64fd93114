"""What one model's numbers mean, in three sentences that can be forwarded to people who do not read tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.words import points_text

if TYPE_CHECKING:
    from .evaluation import Evaluation

SMALL = 2.0
"""A gap of so many points that nobody acts on."""


def explanation(found: Evaluation) -> tuple[str, ...]:
    """Three sentences: the rates, whether the difference is chance, and what follows."""
    rates = found.about.rates_text(found.direction.mean_report, found.direction.mean_outcome, found.scale)
    off = found.direction.sized + _ends(found)
    return (f"{rates}: it is {off}." if off else f"{rates}."), *_rest(found)


def _ends(found: Evaluation) -> str:
    """What is said and what happens in the first and the last bin, where means do not show the direction."""
    diagram = found.reliability.get(found.headline)
    direction = found.direction.direction
    if not found.about.one_event or direction.level or not direction.spread or diagram is None:
        return ""
    said, came = (np.asarray(x)[0] for x in (diagram.mean_report, diagram.mean_outcome))
    used = np.flatnonzero(np.isfinite(said) & np.isfinite(came))
    (low, came_low), (high, came_high) = ((f"{said[i]:.0%}", f"{came[i]:.0%}") for i in (used[0], used[-1]))
    return f" (where it says {high}, {came_high} happen, and where it says {low}, {came_low})"


def _rest(found: Evaluation) -> tuple[str, ...]:
    standing, gap = found.as_row.standing, found.gap
    rows = standing.rows[:1].upper() + standing.rows[1:]
    if standing.answer == "untested":
        return (f"Calibration was not tested{standing.why and f': {standing.why}'}.",)
    if standing.answer == "undecided":
        if standing.allows is None:
            return (f"{rows} are too few to tell whether its probabilities can be trusted.", "Collect more rows.")
        return (
            f"{rows} cannot tell whether its probabilities can be trusted: they may be off by up to {standing.up_to}.",
            "Collect more rows before anyone relies on them.",
        )
    if standing.answer == "yes":
        return (
            f"{rows} show no more than chance: its probabilities are typically off by at most "
            f"{points_text(standing.allows)} points.",
            "Its probabilities can be used as they are.",
        )
    p = standing.pvalue or 0.0
    bound = "at most" if standing.at_floor else "about"
    often = "less than one sample in 10,000" if p < 1e-4 else f"{bound} one sample in {round(1 / p):,}"
    second = f"This is more than chance: a calibrated model looks so in {often}."
    if standing.why:
        second = f"{second} What is off: {standing.why}."
    if gap is None or gap.note or (standing.why and gap.low <= 0):
        return second, "Recalibrate it before anyone relies on its probabilities."
    size = f"Its probabilities are typically {points_text(gap.points)} points off"
    between = f"(between {points_text(gap.low)} and {points_text(gap.high)})"
    act = "which is too little to act on" if gap.high <= SMALL else "so recalibrate it before anyone relies on them"
    return second, f"{size} {between}, {act}."
