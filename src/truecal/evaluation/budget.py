"""How many draws a result may spend: a fixed model of what a draw costs, so that the plan depends on sizes alone."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.sample import Sample

MOST_DRAWS = 999
FEWEST_DRAWS = 99
"""A p-value from fewer draws could not reach 1%, and a 95% band would rest on the two most extreme draws."""

MOST_REPORTS = 1 << 23
"""With more predictions than this, the costliest errors wait to be named."""
MOST_DIAGRAMS = 500
"""With more classes than this, diagrams of single classes have no bands."""

_LABEL, _COIN = 2e-7, 7e-8  # seconds per draw and row of the test: several classes, one probability
_SUM = 2e-7  # and of a null band
_EXACT, _BAND = 2e-6, 2e-8  # per prediction of a diagram: the exact distribution of its bins, and one draw
_PATIENCE = 10  # how far the fewest draws may exceed the plan where they are all there is


def fewest_draws(models: int, level: float) -> int:
    """Draws with which a p-value, corrected for so many models, can fall to half of what rejects.

    >>> from truecal.evaluation.budget import fewest_draws
    >>> fewest_draws(1, .95), fewest_draws(11, .95)
    (99, 440)
    """
    return max(FEWEST_DRAWS, min(10 * MOST_DRAWS, round(2 * models / (1 - level))))


@dataclass(frozen=True)
class Plan:
    """What one model may spend: exactly `draws` on everything, or about `seconds` on each part when draws is None."""

    draws: int | None = None
    seconds: float = 1.0
    fewest: int = FEWEST_DRAWS
    """Draws of the test below which it could not decide."""

    def test(self, sample: Sample, most_rows: int) -> int:
        """Draws for the calibration test, which looks at no more than `most_rows` rows."""
        if self.draws is not None:
            return self.draws
        rows = min(sample.rows, most_rows)
        return max(self.fewest, self._affordable(rows * (_COIN if sample.views == 1 else _LABEL)))

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
