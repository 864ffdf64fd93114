"""Isotonic regression of each class against the rest, by scikit-learn."""

from __future__ import annotations

import numpy as np
from sklearn.isotonic import IsotonicRegression

from truecal.recalibration.base import Float64s, Logits, ProbabilityMap, ValidationData, normalise, probabilities_of


class IsotonicOneVsRest(ProbabilityMap):
    """For each class r the best non-decreasing map of p_r to the frequency of r, then rows divided by their sums.

    Zadrozny and Elkan, Transforming classifier scores into accurate multiclass probability estimates, KDD 2002. A
    class that no validation sample has keeps its predicted probability; a row whose maps are all 0 stays as it was.

    Parameters: `labels`, `space`, `floor` as in TemperatureScaling. Attributes: `maps_`, one IsotonicRegression per
    class (None for an absent class), `classes_`.

    >>> import truecal as tc
    >>> p = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]
    >>> isotonic = tc.IsotonicOneVsRest.from_probabilities().fit(p, [0, 0, 0, 1, 1])
    >>> isotonic.predict_proba([[0.9, 0.1]]).tolist()
    [[0.75, 0.25]]
    """

    def _fit(self, data: ValidationData) -> None:
        p, y = probabilities_of(data.logits), data.y
        present = np.bincount(y, minlength=p.shape[1]) > 0
        self.maps_ = [
            IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p[:, r], y == r, data.weight)
            if seen
            else None
            for r, seen in enumerate(present)
        ]

    def _probabilities(self, logits: Logits) -> Float64s:
        p = probabilities_of(logits)
        columns = [p[:, r] if f is None else f.predict(p[:, r]) for r, f in enumerate(self.maps_)]
        return normalise(np.column_stack(columns), p)
