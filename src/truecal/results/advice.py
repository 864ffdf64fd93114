"""What should I do now? At most three lines, drawn from what was measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..baselines import ERRORS
from ..core.types import Groups
from ..core.words import points_text
from ..inference.features import ALL_ROWS
from ..inference.planning import rows_needed
from ..inference.repair import FEWEST, NONE, REFIT, repair_of
from ..inference.thresholds import threshold_of
from ..kinds.inputs import Inputs

if TYPE_CHECKING:
    from .evaluation import Evaluation

MOST_LINES = 3
RISK = DELTA = 0.05
SEEN = 2.0
"""A gap in points that people care about."""


def advise(result: Evaluation, inputs: Inputs, clusters: Groups | None) -> tuple[str, ...]:
    """Recalibrate, look at a segment, accept above a threshold, collect more rows: what applies, at most three."""
    plain = not inputs.soft and inputs.weights is None
    lines = [*_recalibrate(result, inputs, clusters), *_segment(result)]
    if plain:
        lines += _threshold(inputs, clusters)
    lines += _collect(result, inputs)
    return tuple(lines[:MOST_LINES]) or ("Nothing to do: no finding asks for it.",)


def _recalibrate(result: Evaluation, inputs: Inputs, clusters: Groups | None) -> list[str]:
    off = result.gap is not None and not result.gap.note and result.gap.low > 0
    rejected = result.test is not None and result.test.pvalue <= 1 - result.level
    if not (off or rejected) or inputs.soft or clusters is not None or inputs.n_samples < FEWEST:
        return []
    found = repair_of(inputs)
    if found.best == NONE:
        return []
    before, after = found.candidate(NONE), found.candidate(found.best)
    how = "fit a new map (truecal recalibrate)" if found.best == REFIT else f"apply {found.map.text}"
    if ERRORS[result.headline].property.in_order:  # the candidates are scored as classes without an order
        return [f"Recalibrate: {how}."]
    gap = f"gap {points_text(before.gap)} → {points_text(after.gap)} points, " if after.gap < before.gap else ""
    return [f"Recalibrate: {how}; {gap}score {before.score:.4f} → {after.score:.4f} on rows it was not fitted on."]


def _segment(result: Evaluation) -> list[str]:
    found = [] if result.segments is None else [finding.segment for finding in result.segments.findings]
    found = [segment for segment in found if segment.name != ALL_ROWS]  # which the other lines speak of
    if not found:
        return []
    worst, more = found[0], len(found) - 1
    others = f" ({more} more finding{'s' * (more > 1)})" if more else ""
    return [f"Look at {worst.text}{others}."]


def _threshold(inputs: Inputs, clusters: Groups | None) -> list[str]:
    found = threshold_of(inputs, RISK, DELTA, clusters)
    if found.threshold is None or found.coverage >= 1:
        return []
    return [
        f"Accept predictions with a confidence of at least {found.threshold:.3g}: {found.coverage:.0%} of rows, "
        f"error at most {RISK:.0%} with probability {1 - DELTA:.0%}."
    ]


def _collect(result: Evaluation, inputs: Inputs) -> list[str]:
    gap = result.gap
    if gap is None or result.as_row.standing.answer == "no" or gap.low > 0 or (gap.high <= SEEN and not gap.note):
        return []
    needed = rows_needed(SEEN, y_proba=inputs.kind.confidence(inputs.reports))
    more = needed - inputs.n_samples
    if more <= 0:
        return []
    return [f"Collect {more:,} more rows to see a gap of {SEEN:g} points with a chance of 80%."]
