"""Proper losses of probabilistic predictions: per example first, mean last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

from ..backends import device_backend, on_device
from ..backends.numpy import top_class_and_value
from .data import check_multiclass, check_pair, check_weights, row_blocks
from .frames import refuse_reordered
from .properties import Classwise, Full, Outcomes
from .sample import unit_weights
from .types import Array


class Loss:
    """A named loss, called as loss(y_true, y_proba, *, sample_weight=None, per_example=False, labels=None).

    y_true holds labels, or label distributions (n, k) such as shares of human votes: the loss is then its expectation
    over them, and for squared losses the squared distance from them. Predictions on a GPU stay there, and so do the
    losses of single examples.
    """

    def __init__(self, formula: Callable[[Array, Array], Array]) -> None:
        self._formula = formula
        self.name = self.__name__ = formula.__name__
        self.__doc__ = formula.__doc__

    def __repr__(self) -> str:
        return f"<loss {self.name}>"

    def per_row(self, y: Array, proba: Array) -> Array:
        """The loss of every row of validated arrays."""
        return self._formula(y, proba)

    def __reduce__(self) -> str:
        return self.name  # by its name in this module, so that other processes find the same loss

    @overload
    def __call__(
        self,
        y_true: Any,
        y_proba: Any,
        *,
        sample_weight: Any = None,
        per_example: Literal[False] = False,
        labels: Any = None,
    ) -> float: ...
    @overload
    def __call__(
        self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, per_example: Literal[True], labels: Any = None
    ) -> Array: ...
    @overload
    def __call__(
        self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, per_example: bool, labels: Any = None
    ) -> float | Array: ...
    def __call__(
        self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, per_example: bool = False, labels: Any = None
    ) -> float | Array:
        refuse_reordered(y_true=y_true, y_proba=y_proba, sample_weight=sample_weight)
        if on_device(y_proba):
            sample = Classwise().read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
            return _finish(device_backend().losses(self.name, sample), sample.weights, per_example)
        y, proba = check_multiclass(y_true, y_proba, labels)
        weights = check_weights(sample_weight, len(y))
        return _finish(self._formula(y, proba), weights, per_example)


def _finish(values: Array, weights: Array | None, per_example: bool) -> float | Array:
    if per_example:
        if weights is not None:
            raise ValueError("sample_weight cannot apply with per_example=True: the values are not averaged")
        return values
    return weighted_mean(values, weights)


def weighted_mean(values: Array, weights: Array | None) -> float:
    """Σ w·x/Σ w over the rows with weight: a row that does not count may have an infinite loss."""
    if weights is None:
        return float(values.mean())
    scaled = unit_weights(weights)["weights"]
    counted = scaled > 0
    return float((values[counted] * scaled[counted]).sum() / scaled[counted].sum())


def _own(y: Array, proba: Array) -> Array:
    """The probability of the label that came, in float64."""
    if y.ndim == 2:
        return np.asarray(np.einsum("ij,ij->i", y, proba, dtype=np.float64))
    return np.asarray(proba[np.arange(len(y)), y], dtype=np.float64)


def _top(y: Array, proba: Array) -> tuple[Array, Array]:
    top, confidence = top_class_and_value(proba)
    right = y == top if y.ndim == 1 else y[np.arange(len(y)), top]
    return confidence.astype(np.float64), right


@Loss
def classification_error(y: Array, proba: Array) -> Array:
    """1 − z with z = 1[y = argmax p]; the lowest index wins a tie.

    >>> import truecal as tc
    >>> tc.classification_error([0, 1], [[.7, .3], [.6, .4]])
    0.5
    """
    return np.asarray(1.0 - _top(y, proba)[1], dtype=np.float64)


@Loss
def cross_entropy(y: Array, proba: Array) -> Array:
    """−ln p_y; infinite where the label that came was given probability 0.

    >>> import truecal as tc
    >>> round(tc.cross_entropy([0, 1], [[.5, .5], [.5, .5]]), 6)
    0.693147
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        if y.ndim == 2:
            return np.asarray(-np.where(y > 0, y * np.log(proba.astype(np.float64)), 0.0).sum(axis=1)) + 0.0
        return np.asarray(-np.log(_own(y, proba))) + 0.0


@Loss
def brier(y: Array, proba: Array) -> Array:
    """Σ_r (p_r − 1[y = r])², between 0 and 2: the loss of full calibration, and k times that of classwise.

    >>> import truecal as tc
    >>> round(tc.brier([0], [[.8, .2]]), 6)
    0.08
    """
    return Full().sample(y, proba).residual_sq


@Loss
def spherical(y: Array, proba: Array) -> Array:
    """1 − p_y / ||p||₂.

    >>> import truecal as tc
    >>> round(tc.spherical([1], [[.6, .4]]), 6)
    0.4453
    """
    squares = np.empty(len(y))
    for rows in row_blocks(len(y), proba.shape[1] * 8):
        block = proba[rows].astype(np.float64)
        squares[rows] = np.einsum("ij,ij->i", block, block)
    return np.asarray(1.0 - _own(y, proba) / np.sqrt(squares))


@Loss
def confidence_loss(y: Array, proba: Array) -> Array:
    """1 − z + (c − z)² with c the largest probability and z whether its class came: the loss of ConfCE^corr.

    >>> import truecal as tc
    >>> round(tc.confidence_loss([0, 1], [[.8, .2], [.8, .2]]), 6)
    0.84
    """
    confidence, correct = _top(y, proba)
    return np.asarray((1.0 - correct) + np.square(confidence - correct))


@overload
def linear_loss(
    outcomes: Any, reports: Any, *, sample_weight: Any = None, per_example: Literal[False] = False
) -> float: ...
@overload
def linear_loss(outcomes: Any, reports: Any, *, sample_weight: Any = None, per_example: Literal[True]) -> Array: ...
def linear_loss(outcomes: Any, reports: Any, *, sample_weight: Any = None, per_example: bool = False) -> float | Array:
    """||u − φ(y)||² of any linear property: outcome values and reports, both (n,) or (n, d).

    >>> import truecal as tc
    >>> tc.linear_loss([1.0, 3.0], [2.0, 3.0])
    0.5
    """
    if on_device(reports):
        sample = Outcomes().read(outcomes, reports, sample_weight=sample_weight)
        return _finish(sample.residual_sq, sample.weights, per_example)
    values, u = check_pair(outcomes, reports, None)
    residual = (u.astype(np.float64) - values).reshape(len(u), -1)
    return _finish(np.einsum("ij,ij->i", residual, residual), check_weights(sample_weight, len(u)), per_example)


LOSSES: dict[str, Loss] = {
    loss.name: loss for loss in (classification_error, cross_entropy, brier, spherical, confidence_loss)
}
"""The five losses of the paper by name, in its order."""
