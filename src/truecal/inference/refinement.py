"""refinement: a mean loss split into miscalibration, discrimination and uncertainty, by isotonic recalibration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.data import as_array
from ..core.isotonic import squared_errors
from ..core.properties import Binary, Classwise
from ..core.result import Result
from ..core.rules import Quantile
from ..sums.errors import CalibrationError
from .checks import check_level
from .gaps import Gap, gaps_of


@final
@dataclass(frozen=True, repr=False, eq=False)
class Refinement(Result):
    """loss = miscalibration − discrimination + uncertainty, each a mean squared error (per class, averaged).

    `uncertainty` is the loss of the base rate, `discrimination` what the order of the predictions takes off it, and
    `miscalibration` what the predictions lose against their best monotone recalibration. That map is fitted to the same
    outcomes, so miscalibration is never negative and above 0 for a calibrated model; `gap` is debiased.
    """

    loss: float
    miscalibration: float
    discrimination: float
    uncertainty: float
    gap: Gap
    n_samples: int

    def __repr__(self) -> str:
        return (
            f"loss {self.loss:.4g} = miscalibration {self.miscalibration:.4g} − discrimination "
            f"{self.discrimination:.4g} + uncertainty {self.uncertainty:.4g}\n{self.gap!r}"
        )


def refinement(
    y_true: Any, y_proba: Any, *, pos_label: Any = 1, level: float = 0.95, sample_weight: Any = None, labels: Any = None
) -> Refinement:
    """The CORP split of the squared error: loss = miscalibration − discrimination + uncertainty.

    For the probability of one class, or for each class's probability and averaged (Brier/k). The calibrated version of
    a prediction is its isotonic regression on the outcomes. Dimitriadis, Gneiting and Jordan, arXiv 2008.03033.

    >>> import truecal as tc
    >>> split = tc.analysis.refinement([0, 0, 1, 1], [.2, .4, .3, .9])
    >>> round(split.miscalibration - split.discrimination + split.uncertainty - split.loss, 12)
    0.0
    """
    y_proba = as_array(y_proba, "y_proba")
    property = Binary(pos_label) if y_proba.ndim == 1 else Classwise()
    sample = property.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    loss, calibrated, base = np.mean([squared_errors(sample, j) for j in range(sample.views)], axis=0).tolist()
    (about,) = gaps_of(CalibrationError(property, Quantile("auto")), sample, check_level(level), None)
    return Refinement(loss, loss - calibrated, base - calibrated, base, about, sample.rows)
