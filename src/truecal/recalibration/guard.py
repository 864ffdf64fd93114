"""Measure the gain of a map over no map, on rows that the map was not fitted on."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from truecal.core.arrays import on_cpu
from truecal.core.data import as_array
from truecal.core.losses_by_label import squares
from truecal.core.result import Result
from truecal.inference.repair import gain_of, nats
from truecal.recalibration.base import Float64s, Floats, Recalibrator, on_host

FOLDS = 5


@final
@dataclass(frozen=True, repr=False, eq=False)
class Guard(Result):
    """The mean gain of a map over no map on unseen rows, with standard errors: log loss in nats, and Brier score.

    The map is worth keeping if its gain in log loss exceeds one standard error, and its Brier score is not worse by
    more than one.
    """

    name: str
    gain: float
    standard_error: float
    brier_gain: float
    brier_standard_error: float
    n_samples: int
    derived = ("keeps",)

    @property
    def keeps(self) -> bool:
        """Whether the map is worth keeping."""
        return self.gain > self.standard_error and self.brier_gain >= -self.brier_standard_error

    @property
    def sentence(self) -> str:
        """The gain and its standard error, in a sentence without its full stop."""
        gain = f"{self.name} gains {self.gain:.4f} ± {self.standard_error:.4f} nats of log loss per unseen row"
        if self.gain > self.standard_error and not self.keeps:
            worse = f"and makes their Brier score worse by {-self.brier_gain:.4f} ± {self.brier_standard_error:.4f}"
            return f"{gain} {worse}"
        return f"{gain}, {'more' if self.keeps else 'not more'} than one standard error"

    def __repr__(self) -> str:
        return self.sentence


def judge(name: str, y: NDArray[Any], before: Floats, after: Floats, weight: Any = None) -> Guard:
    """The guard of predictions of rows that a map was not fitted on; y holds column indices."""
    before, after = (np.asarray(on_host(p), dtype=np.float64) for p in (before, after))
    gain, brier = (gain_of(y, before, after, loss, weight) for loss in (nats, squares))
    # the ends that decide
    errors = gain.estimate - gain.low, brier.high - brier.estimate
    return Guard(name, gain.estimate, errors[0], brier.estimate, errors[1], len(y))


def unseen(estimator: Recalibrator, X: Any, y: Any, weight: Any = None) -> Float64s:
    """Predictions of every row by a map that was fitted on the other four fifths of the rows."""
    X, y = as_array(on_cpu(X), "X"), as_array(on_cpu(y), "y").reshape(-1)
    if X.ndim == 0 or len(X) != len(y):
        raise ValueError(f"numbers of rows disagree: X has shape {X.shape}, y has {len(y)}")
    fold = np.random.default_rng(0).permutation(len(y)) % FOLDS
    weight = None if weight is None else as_array(on_cpu(weight), "sample_weight")
    found: dict[int, Any] = {}
    for f in np.unique(fold).tolist():
        fit, rows = (fold != f, fold == f) if len(y) > 1 else (fold == f, fold == f)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            part = clone(estimator).fit(X[fit], y[fit], None if weight is None else weight[fit])
            found[f] = on_host(part.predict_proba(X[rows]))
    p = np.empty((len(y), next(iter(found.values())).shape[1]))
    for f, values in found.items():
        p[fold == f] = values
    return p
