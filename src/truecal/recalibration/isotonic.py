"""Isotonic regression of each class against the rest, by scikit-learn."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.isotonic import IsotonicRegression

from truecal.recalibration.base import Codes, Float64s, Logits, ProbabilityMap, normalise, reports


class IsotonicOneVsRest(ProbabilityMap):
    """For each class r the best non-decreasing map of p_r to the frequency of r, then rows divided by their sums.

    Zadrozny and Elkan, Transforming classifier scores into accurate multiclass probability estimates, KDD 2002. A
    class that no validation sample has keeps its reported probability; a row whose maps are all 0 keeps its report.

    Parameters: `labels`, `space`, `floor` as in TemperatureScaling. Attributes: `maps_`, one IsotonicRegression per
    class (None for an absent class), `classes_`.

    >>> import truecal as tc
    >>> p = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]
    >>> isotonic = tc.IsotonicOneVsRest.from_probabilities().fit(p, [0, 0, 0, 1, 1])
    >>> isotonic.predict_proba([[0.9, 0.1]]).tolist()
    [[0.75, 0.25]]
    """

    def __init__(self, *, labels: ArrayLike | None = None, space: str = "logits", floor: float | None = None) -> None:
        self.labels = labels
        self.space = space
        self.floor = floor

    def _fit(self, logits: Logits, y: Codes, weight: Float64s, unit: float) -> None:
        p = reports(logits)
        present = np.bincount(y, minlength=p.shape[1]) > 0
        self.maps_ = [
            IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p[:, r], y == r, weight) if seen else None
            for r, seen in enumerate(present)
        ]

    def _probabilities(self, logits: Logits) -> Float64s:
        p = reports(logits)
        columns = [p[:, r] if f is None else f.predict(p[:, r]) for r, f in enumerate(self.maps_)]
        return normalise(np.column_stack(columns), p)
