"""One model's predictions as `evaluate` and `compare` take them in, and which errors and losses they allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..backends.numpy import top_class
from ..core.data import (
    as_array,
    check_labels,
    check_probabilities,
    check_same_length,
    check_weights,
    refuse_swapped,
)
from ..core.errors import ERRORS
from ..core.losses import LOSSES
from ..core.properties import Binary, Classwise, Confidence, Full, Property, TopLabel

Array = NDArray[Any]
Kind = Literal["multiclass", "binary", "top_label"]

PROPERTIES: dict[Kind, tuple[type[Property], ...]] = {
    "multiclass": (Classwise, Confidence, Full),
    "binary": (Binary, Confidence),
    "top_label": (TopLabel,),
}
"""What each kind of predictions can be checked for."""

TOP_LABEL_LOSSES = ("classification_error", "confidence_loss")
"""The losses that need no more than whether the top class was right, and its confidence."""


@dataclass(frozen=True, eq=False)
class TopPredictions:
    """Predictions of which only the top class is known: whether it was right, and the confidence it was given."""

    correct: Any
    confidence: Any


@dataclass(frozen=True, eq=False)
class Inputs:
    """Validated predictions of one model.

    kind "multiclass": `y` class indices and `reports` (n, k); "binary": `y` bools and `reports` the probability of the
    positive class; "top_label": `y` whether the top class was right and `reports` its confidence.
    """

    kind: Kind
    y: Array
    reports: Array
    weights: Array | None = None

    @property
    def n_samples(self) -> int:
        return len(self.y)

    @property
    def n_classes(self) -> int | None:
        """The number of classes, None where only the top class is known."""
        if self.kind == "top_label":
            return None
        return 2 if self.kind == "binary" else int(self.reports.shape[1])

    def error_names(self) -> tuple[str, ...]:
        """The members of ERRORS that these predictions can be measured by, in its order."""
        return tuple(name for name, e in ERRORS.items() if isinstance(e.property, PROPERTIES[self.kind]))

    def arguments(self, error: str) -> tuple[Array, Array]:
        """The labels and reports that the named error takes."""
        if self.kind == "binary" and not isinstance(ERRORS[error].property, Binary):
            return self._two_columns()
        return self.y, self.reports

    def per_example_losses(self) -> dict[str, Array]:
        """The losses of LOSSES that are defined here, per row."""
        if self.kind == "top_label":
            wrong = 1.0 - self.y
            values = (wrong, wrong + np.square(self.reports.astype(np.float64) - self.y))
            return dict(zip(TOP_LABEL_LOSSES, values, strict=True))
        y, proba = self._two_columns() if self.kind == "binary" else (self.y, self.reports)
        return {name: loss(y, proba, per_example=True) for name, loss in LOSSES.items()}

    def top_label(self) -> Inputs:
        """The same predictions, reduced to their top class."""
        if self.kind == "top_label":
            return self
        y, proba = self._two_columns() if self.kind == "binary" else (self.y, self.reports)
        top = top_class(proba)
        return Inputs("top_label", y == top, proba[np.arange(len(proba)), top], self.weights)

    def take(self, rows: Array) -> Inputs:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, y=self.y[rows], reports=self.reports[rows], weights=weights)

    def _two_columns(self) -> tuple[Array, Array]:
        return self.y.astype(np.intp), np.column_stack([1 - self.reports, self.reports])


def read_inputs(
    y_true: Any, y_proba: Any, *, labels: Any = None, pos_label: Any = 1, sample_weight: Any = None
) -> Inputs:
    """Validate one model: (n, k) distributions, (n,) probabilities of the positive class, or TopPredictions."""
    if isinstance(y_proba, TopPredictions):
        return _read_top(y_proba, sample_weight)
    if y_true is None:
        if isinstance(y_proba, tuple) and len(y_proba) == 2:
            return _read_top(TopPredictions(*y_proba), sample_weight)
        raise TypeError("y_true is None: then y_proba must be TopPredictions(correct, confidence), or that pair")
    array = as_array(y_proba, "y_proba")
    if array.ndim == 1 and np.ndim(y_true) == 1:
        sample = Binary(pos_label).read(y_true, array, sample_weight=sample_weight, labels=labels)
        return Inputs("binary", np.asarray(sample.marks), sample.reports, sample.weights)
    refuse_swapped(y_true, array)
    proba = check_probabilities(y_proba)
    y = check_labels(y_true, proba.shape[1], labels)
    n = check_same_length(y_true=y, y_proba=proba)
    return Inputs("multiclass", y, proba, check_weights(sample_weight, n))


def _read_top(top: TopPredictions, sample_weight: Any) -> Inputs:
    sample = TopLabel().read(top.correct, top.confidence, sample_weight=sample_weight)
    return Inputs("top_label", np.asarray(sample.marks), sample.reports, sample.weights)


def check_errors(errors: Any, inputs: Inputs) -> tuple[str, ...]:
    """The errors to compute: all that apply, or the named ones, each of which must apply."""
    possible = inputs.error_names()
    if errors is None:
        return possible
    if isinstance(errors, str) or not isinstance(errors, Sequence) or not errors:
        raise TypeError(f"errors must be a sequence of names such as ('classwise', 'confidence'), got {errors!r}")
    for name in errors:
        if name not in possible:
            kind = inputs.kind.replace("_", "-")
            raise ValueError(f"{name!r} cannot apply to {kind} predictions; expected some of {', '.join(possible)}")
    return tuple(dict.fromkeys(errors))


def default_bins(n_samples: int) -> tuple[int, ...]:
    """The bin counts when none are given: the paper's 5, 20 and 2000, each at most two fifths of the rows.

    Few bins show smooth miscalibration, many bins leave little noise in U; beyond 2n/5 bins hardly any bin would hold
    two rows, and U could say nothing.

    >>> from truecal.evaluation.inputs import default_bins
    >>> default_bins(5000), default_bins(100), default_bins(10)
    ((5, 20, 2000), (5, 20, 40), (4,))
    """
    most = max(1, 2 * n_samples // 5)
    return tuple(sorted({min(m, most) for m in (5, 20, 2000)}))


def check_groups(values: Any, n: int, name: str) -> Array:
    """One group per row, as an array of numbers or strings."""
    array = as_array(values, name)
    if array.shape != (n,):
        raise ValueError(f"{name} must give one group per row, shape ({n},), got shape {array.shape}")
    return array
