"""How many draws a result may spend: a fixed model of what a draw costs, so that the plan depends on sizes alone."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.rules import ArgmaxQuantile, BinningRule, Halfspaces
from ..core.sample import Sample

MOST_DRAWS = 999
FEWEST_DRAWS = 99
"""A p-value from fewer draws could not reach 1%, and a 95% band would rest on the two most extreme draws."""

MOST_REPORTS = 1 << 23
"""Resampling several views holds an order of the rows per view; with more reports than this that is too much memory."""

# Seconds per draw and: row with several views, row with one, cell.
_LABEL, _COIN, _CELL = 2e-7, 7e-8, 3e-8
# Seconds per draw and row that a kernel adds: sorting labels once per direction, whatever their number; or one view.
_SORT, _PREFIX = 3e-7, 1.5e-8
# Seconds per report of a diagram: the exact law of its bins, and one draw, for which only ties and weights have a use.
_EXACT, _BAND = 2e-6, 2e-8
_PATIENCE = 10  # how far the fewest draws may exceed the plan where they are all there is: one view, and bands


@dataclass(frozen=True)
class Plan:
    """What one model may spend: exactly `draws` on everything, or about `seconds` on each error when draws is None."""

    draws: int | None = None
    seconds: float = 1.0

    def simulation(self, rule: BinningRule, sample: Sample) -> tuple[tuple[int, ...] | None, int]:
        """The bin counts to resample and the number of draws; 0 draws when even the fewest cost too much.

        Large bin counts of many classes cost most, and are dropped first. Counts are None for rules without any.
        """
        counts = rule.counts
        if self.draws is not None:
            return counts, self.draws
        kept = None if counts is None else tuple(sorted(counts))
        if sample.views > 1 and sample.reports.size > MOST_REPORTS:
            return kept, 0
        while True:
            draws = min(MOST_DRAWS, int(self.seconds / draw_cost(rule, sample, kept)))
            if draws >= FEWEST_DRAWS:
                return kept, draws
            if sample.views == 1 and _PATIENCE * draws >= FEWEST_DRAWS:
                return kept, FEWEST_DRAWS
            if kept is None or len(kept) <= 1:
                return kept, 0
            kept = kept[:-1]

    def bands(self, sample: Sample) -> int:
        """Draws for the consistency bands of a diagram, 0 where bands would be far beyond the plan.

        Bands are exact without draws unless there are ties or weights, which sizes do not show: the draws are for them.
        """
        if self.draws is not None:
            return self.draws
        reports = sample.rows * sample.views
        if _EXACT * reports > _PATIENCE * self.seconds:
            return 0
        return min(MOST_DRAWS, max(FEWEST_DRAWS, int(self.seconds / (_BAND * reports))))


def draw_cost(rule: BinningRule, sample: Sample, counts: tuple[int, ...] | None) -> float:
    """About how many seconds one draw of outcomes and its statistic take."""
    n, views = sample.rows, sample.views
    rows = n * (_COIN if views == 1 else _LABEL)
    if counts is None:
        directions = rule.n_directions if isinstance(rule, Halfspaces) else 1
        return rows + n * (_PREFIX if views == 1 else _SORT * directions)
    per_bin = views if isinstance(rule, ArgmaxQuantile) else 1  # its bins are counted within each class
    return rows + _CELL * views * sum(min(n, m * per_bin) for m in counts)
