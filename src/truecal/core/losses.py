"""Proper losses of probabilistic predictions: per example first, mean last; one formula for arrays and tensors."""

# A formula returns what its arrays are, of numpy or torch, which mypy sees as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal, overload

import numpy as np

from .arrays import LIBRARY, at_columns, doubled, on_device, row_products, top_class_and_value
from .data import check_pair, check_weights, wide_blocks
from .frames import matching_rows
from .labels import check_multiclass
from .losses_by_label import confidence_losses, cross_entropies, mistakes, sphericals, squares
from .parameters import described_text
from .properties import Classwise, Full, Outcomes
from .sample import unit_weights
from .types import Array

_PARAMETERS = ("y_true", "y_proba", "sample_weight", "per_example", "labels")


class Loss:
    """A named loss, called as loss(y_true, y_proba, *, sample_weight=None, per_example=False, labels=None).

    y_proba is (n, k), or (n,) for the probability of label 1 of two.
    y_true holds labels, or label distributions (n, k) such as shares of human votes: the loss is then its expectation
    over them, or for squared losses the squared distance. Predictions on a GPU stay there, and so do the
    losses of single examples.
    """

    def __init__(
        self,
        formula: Callable[[Array, Array], Array],
        by_label: Callable[[Array], Array],
        *,
        streamed: Callable[[Array, Array], Array] | None = None,
    ) -> None:
        self._formula = formula
        self.by_label = by_label
        """(n, k): the loss of each row for each possible label, from distributions (n, k) in float64."""
        self.streamed = streamed
        """Where a stream adds it up by itself, because no table holds it: the loss from p_y and Σ p_r²."""
        self.name = self.__name__ = formula.__name__
        self.__module__ = formula.__module__
        self.__doc__ = described_text(formula.__doc__ or "", _PARAMETERS, "The mean loss, or that of every row.")

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
    @matching_rows
    def __call__(
        self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, per_example: bool = False, labels: Any = None
    ) -> float | Array:
        if on_device(y_proba):
            sample = Classwise().read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
            assert sample.labels is not None and sample.distributions is not None
            return _finish(self._formula(sample.labels, sample.distributions), sample.weights, per_example)
        y, proba = check_multiclass(y_true, y_proba, labels)
        weights = check_weights(sample_weight, len(y))
        return _finish(self._formula(y, proba), weights, per_example)


def define_loss(
    by_label: Callable[[Array], Array], *, streamed: Callable[[Array, Array], Array] | None = None
) -> Callable[[Callable[[Array, Array], Array]], Loss]:
    return lambda formula: Loss(formula, by_label, streamed=streamed)


def _finish(values: Array, weights: Array | None, per_example: bool) -> float | Array:
    if per_example:
        if weights is not None:
            raise ValueError("sample_weight cannot be used with per_example=True: the values are not averaged")
        return values
    return weighted_mean(values, weights)


def weighted_mean(values: Array, weights: Array | None) -> float:
    """Σ w·x/Σ w over the rows with weight: a row that does not count may have an infinite loss."""
    if weights is None:
        return float(values.mean())
    scaled = unit_weights(weights)["weights"]
    counted = scaled > 0
    return float((values[counted] * scaled[counted]).sum() / scaled[counted].sum())


def _blocks(proba: Array) -> Iterable[slice]:
    """Runs of rows that are written out in float64 together."""
    return wide_blocks(proba, len(proba), proba.shape[1])


def _own(y: Array, proba: Array) -> Array:
    """The probability of the label that came, in float64."""
    return row_products(y, proba) if y.ndim == 2 else doubled(at_columns(proba, y))


def _top(y: Array, proba: Array) -> tuple[Array, Array]:
    """The largest probability, and whether its class came (with soft labels, how much of it), in float64."""
    top, confidence = top_class_and_value(proba)
    return doubled(confidence), doubled(y == top if y.ndim == 1 else at_columns(y, top))


@define_loss(mistakes)
def classification_error(y: Array, proba: Array) -> Array:
    """1 − z with z = 1[y = argmax p]; the lowest index wins a tie.

    >>> import truecal as tc
    >>> tc.classification_error([0, 1], [[.7, .3], [.6, .4]])
    0.5
    """
    return 1.0 - _top(y, proba)[1]


def _cross_entropy_of(own: Array, squares: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return -LIBRARY[type(own)].log(own) + 0.0


@define_loss(cross_entropies, streamed=_cross_entropy_of)
def cross_entropy(y: Array, proba: Array) -> Array:
    """−ln p_y; infinite where the observed label has probability 0.

    >>> import truecal as tc
    >>> round(tc.cross_entropy([0, 1], [[.5, .5], [.5, .5]]), 6)
    0.693147
    """
    xp = LIBRARY[type(proba)]
    with np.errstate(divide="ignore", invalid="ignore"):
        if y.ndim == 2:
            logs = (xp.where(y[rows] > 0, y[rows] * xp.log(doubled(proba[rows])), 0.0) for rows in _blocks(proba))
            return -xp.concatenate([each.sum(axis=1) for each in logs]) + 0.0
        own = _own(y, proba)
        return _cross_entropy_of(own, own)


def _briers(p: Array) -> Array:
    if p.shape[1] == 2:
        return LIBRARY[type(p)].column_stack([p[:, 1] ** 2, (1 - p[:, 1]) ** 2])
    return squares(p) * Full().score_unit(p.shape[1])


@define_loss(_briers)
def brier(y: Array, proba: Array) -> Array:
    """Σ_r (p_r − 1[y = r])², halved for two classes: (p − y)², as in scikit-learn. At most 2, for two classes 1.

    >>> import truecal as tc
    >>> round(tc.brier([0], [[.8, .2]]), 6), round(tc.brier([0], [.2]), 6)
    (0.04, 0.04)
    >>> round(tc.brier([0], [[.8, .1, .1]]), 6)
    0.06
    """
    if proba.shape[1] == 2 and y.ndim == 1:  # as streams and SQL have it: two float32 columns seldom sum to 1
        return (doubled(proba[:, 1]) - doubled(y == 1)) ** 2
    return Full().sample(y, proba).residual_sq * Full().score_unit(proba.shape[1])


def _spherical_of(own: Array, squares: Array) -> Array:
    root = squares.sqrt() if hasattr(squares, "sqrt") else np.sqrt(squares)  # tensors and columns of SQL have their own
    return 1.0 - own / root


@define_loss(sphericals, streamed=_spherical_of)
def spherical(y: Array, proba: Array) -> Array:
    """1 − p_y / ||p||₂.

    >>> import truecal as tc
    >>> round(tc.losses.spherical([1], [[.6, .4]]), 6)
    0.4453
    """
    blocks = (doubled(proba[rows]) for rows in _blocks(proba))
    squares = LIBRARY[type(proba)].concatenate([row_products(block, block) for block in blocks])
    return _spherical_of(_own(y, proba), squares)


@define_loss(confidence_losses)
def confidence_loss(y: Array, proba: Array) -> Array:
    """1 − z + (c − z)² with c the largest probability and z whether its class is right: the loss of ConfCE^corr.

    >>> import truecal as tc
    >>> round(tc.losses.confidence_loss([0, 1], [[.8, .2], [.8, .2]]), 6)
    0.84
    """
    confidence, correct = _top(y, proba)
    return (1.0 - correct) + (confidence - correct) ** 2


@overload
def linear_loss(
    outcomes: Any, reports: Any, *, sample_weight: Any = None, per_example: Literal[False] = False
) -> float: ...
@overload
def linear_loss(outcomes: Any, reports: Any, *, sample_weight: Any = None, per_example: Literal[True]) -> Array: ...
@matching_rows
def linear_loss(outcomes: Any, reports: Any, *, sample_weight: Any = None, per_example: bool = False) -> float | Array:
    """||u − φ(y)||² of any linear property: outcome values and reports, both (n,) or (n, d).

    >>> import truecal as tc
    >>> tc.losses.linear_loss([1.0, 3.0], [2.0, 3.0])
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
