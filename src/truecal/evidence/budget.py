"""How many draws a result may spend: a fixed model of what a draw costs, so that the plan depends on sizes alone."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.sample import Sample
from ..inference.omnibus import FEWEST_PLANNED, MOST_PLANNED, planned_draws

MOST_DRAWS, FEWEST_DRAWS = MOST_PLANNED, FEWEST_PLANNED
"""With fewer draws a 95% band would rest on the two most extreme ones."""

MOST_REPORTS = 1 << 23
"""With more predictions than this, the costliest errors wait to be named."""
MOST_DIAGRAMS = 500
"""With more classes than this, diagrams of single classes have no bands."""

_SUM = 2e-7  # seconds per draw and row of a null band
_EXACT, _BAND = 2e-6, 2e-8  # per prediction of a diagram: the exact distribution of its bins, and one draw
_PATIENCE = 10  # how far the fewest draws may exceed the plan where they are all there is


@dataclass(frozen=True)
class Plan:
    """What one model may spend: exactly `draws` on everything, or about `seconds` on each part when draws is None."""

    draws: int | None = None
    seconds: float = 1.0
    fewest: int = FEWEST_DRAWS
    """Draws of the test below which it could not decide."""

    def test(self, sample: Sample) -> int:
        """Draws for the calibration test."""
        return max(self.fewest, planned_draws(sample, self.seconds)) if self.draws is None else self.draws

    def null_band(self, sample: Sample) -> int:
        """Draws for the null band of an l1 error of one view, 0 where even the fewest cost too much."""
        if self.draws is not None:
            return self.draws
        cost = sample.rows * _SUM
        return 0 if cost * FEWEST_DRAWS > 2 * self.seconds else self._affordable(cost)

    def _affordable(self, cost: float) -> int:
        return int(min(MOST_DRAWS, max(FEWEST_DRAWS, self.seconds / cost)))

    def bands(self, sample: Sample) -> int:
        """Draws for the consistency bands of a diagram, 0 where bands would be far beyond the plan.

        Bands are exact without draws unless there are ties or weights, which sizes do not show: the draws are for them.
        """
        if self.draws is not None:
            return self.draws
        reports = sample.rows * sample.views
        if _EXACT * reports > _PATIENCE * self.seconds or sample.views > MOST_DIAGRAMS:
            return 0
        return self._affordable(_BAND * reports)
