"""No recalibration, as an estimator: the candidate every other map has to beat."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from truecal.recalibration.base import Codes, Float64s, Floats, Logits, ScoreMap


class Identity(ScoreMap):
    """Leave the logits as they are; put it among the candidates of `select_recalibration`.

    Parameters: `labels`, `space`, `floor` as in TemperatureScaling. Attribute: `classes_`.

    >>> import truecal as tc
    >>> tc.Identity.from_probabilities().fit([[0.9, 0.1]], [0]).predict_proba([[0.7, 0.3]]).round(12).tolist()
    [[0.7, 0.3]]
    """

    def __init__(self, *, labels: ArrayLike | None = None, space: str = "logits", floor: float | None = None) -> None:
        self.labels = labels
        self.space = space
        self.floor = floor

    def _fit(self, logits: Logits, y: Codes, weight: Float64s, unit: float) -> None:
        pass

    def _logits(self, logits: Logits) -> Floats:
        return logits.values.astype(np.promote_types(logits.values.dtype, np.float32))
