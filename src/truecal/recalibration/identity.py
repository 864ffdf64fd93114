"""No recalibration, as an estimator: the candidate every other map has to beat."""

from __future__ import annotations

import numpy as np

from truecal.recalibration.base import Floats, Logits, ScoreMap, ValidationData


class Identity(ScoreMap):
    """Leave the logits as they are; put it among the candidates of `select_recalibration`.

    Parameters: `labels`, `space`, `floor` as in TemperatureScaling. Attribute: `classes_`.

    >>> import truecal as tc
    >>> tc.Identity.from_probabilities().fit([[0.9, 0.1]], [0]).predict_proba([[0.7, 0.3]]).round(12).tolist()
    [[0.7, 0.3]]
    """

    def _fit(self, data: ValidationData) -> None:
        pass

    def _logits(self, logits: Logits) -> Floats:
        return logits.values.astype(np.promote_types(logits.values.dtype, np.float32))
