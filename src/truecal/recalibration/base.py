"""Base classes of recalibration maps: they read logits or probabilities, labels and weights, then fit and apply."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from truecal.core.arrays import HOST, LIBRARY, device_backend, on_cpu, on_device
from truecal.core.data import (
    as_array,
    check_logits,
    check_probabilities,
    check_reports,
    check_weights,
    row_blocks,
    shown,
)
from truecal.core.frames import refuse_reordered
from truecal.core.labels import check_labels
from truecal.core.row_kernels import softmax

Floats = NDArray[np.floating[Any]]
Float64s = NDArray[np.float64]
Codes = NDArray[np.intp]

BLOCK_BYTES = 1 << 20  # a float64 block of this size stays in the cache between the steps of a pass
FLOOR = 1e-12  # probabilities below it are read as it
ROUNDING = 1e-6  # how far outside [0, 1] a probability may lie
ROW_SUM_SLACK = 1e-2  # how far from 1 a row of probabilities may sum, in half precision too


@dataclass(frozen=True)
class Logits:
    """Validated logits: no NaN, no +inf, at least one finite value per row; -inf means probability 0."""

    values: Floats
    top: Float64s  # the largest value of each row
    bottom: Float64s  # the smallest value of each row; -inf where a class is excluded
    rows: Codes  # the numbers of the rows as given, for messages

    @property
    def excluded(self) -> bool:
        return bool(np.isneginf(self.bottom).any())

    def take(self, rows: NDArray[Any]) -> Logits:
        return Logits(self.values[rows], self.top[rows], self.bottom[rows], self.rows[rows])


@dataclass(frozen=True)
class ValidationData:
    """Validation data: logits, the column of each label, and positive weights below 2.

    The weights as given were unit * weight, which matters beside a prior alone.
    """

    logits: Logits
    y: Codes
    weight: Float64s
    unit: float = 1.0

    def take(self, rows: NDArray[Any]) -> ValidationData:
        return ValidationData(self.logits.take(rows), self.y[rows], self.weight[rows], self.unit)


def blocks(n: int, k: int) -> list[slice]:
    """Row slices of n rows such that a float64 block of k columns stays in the cache."""
    return list(row_blocks(n, 8 * k, BLOCK_BYTES))


def device_logits() -> Any:
    """The module for logits on a GPU, which needs torch."""
    return importlib.import_module("truecal.recalibration.device_logits")


def on_host(x: Any) -> Any:
    """A tensor of results as numpy's."""
    return x.cpu().numpy() if not isinstance(x, HOST) else x


def read_logits(values: Floats) -> Logits:
    """Return logits with the extremes of their rows; raises where a value cannot be a logit."""
    n, k = values.shape
    top, bottom = np.empty(n), np.empty(n)
    for rows in blocks(n, k):
        np.max(values[rows], axis=1, out=top[rows])
        np.min(values[rows], axis=1, out=bottom[rows])
    if not np.isfinite(top).all():
        check_logits(values, "X")  # raises, naming the place
    return Logits(values, top, bottom, np.arange(n))


def softmax_of(values: Floats) -> Floats:
    """The softmax of each row, for logits of any size."""
    if not isinstance(values, HOST):
        return values.softmax(1)  # type: ignore[no-any-return, attr-defined]  # a tensor
    with np.errstate(over="ignore"):  # the difference of two huge logits is -inf, whose exponential is the right 0
        return softmax(values)


FLOORED = 1e-8  # what floors add to the sum of a row


def probabilities_of(logits: Logits) -> Float64s:
    """The softmax of logits in float64; equal probabilities with a floor stay equal."""
    values = logits.values.astype(np.float64)
    with np.errstate(over="ignore"):
        p = np.exp(values)
    summed = np.abs(p.sum(axis=1, keepdims=True) - 1) < FLOORED  # division by sums that differ would split ties
    return p if summed.all() else np.where(summed, p, softmax_of(values))


def check_number(value: Any, name: str, expected: str, *, low: float = 0.0, high: float = np.inf) -> float:
    """Return a real number in [low, high), or raise an error with the words of `expected`."""
    message = f"{name} must be {expected}, got {shown(value)}"
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        raise TypeError(message)
    number = float(value)
    if not low <= number < high:
        raise ValueError(message)
    return number


def read_weights(sample_weight: Any, n: int) -> tuple[Float64s, float]:
    """Return weights over a power of two, so that the largest lies in [1, 2) and no sum overflows; and the power.

    The power comes from the weights as given: `check_weights` may choose a unit of its own, on which no error depends,
    but a prior does.
    """
    sample_weight = on_cpu(sample_weight)
    weight = check_weights(sample_weight, n)
    if weight is None:
        return np.ones(n), 1.0
    exponents = [int(np.frexp(float(w.max()))[1]) - 1 for w in (weight, as_array(sample_weight, "sample_weight"))]
    return np.asarray(np.ldexp(weight, -exponents[0])), float(np.ldexp(1.0, exponents[1]))


class Classifier(ClassifierMixin):  # type: ignore[misc]  # scikit-learn is untyped
    """Abstract: a classifier whose accuracy is not computed on rows in another order."""

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy, as of every classifier of scikit-learn."""
        refuse_reordered(X=X, y=y, sample_weight=sample_weight)
        return float(super().score(X, y, sample_weight))


@dataclass(eq=False, repr=False, kw_only=True)
# scikit-learn is untyped
class Recalibrator(Classifier, OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Abstract: fit(X, y) on validation data, then transform (logits) and predict_proba (probabilities) elsewhere.

    X has one column per class, or one dimension: the score or probability of class 1 of two. It holds logits (any
    numbers whose softmax is the prediction; log-probabilities are logits too), or probabilities for an estimator made
    by `from_probabilities`. y holds column indices 0..k-1, or values of `labels`, where labels[j] is the class of
    column j; labels are sorted, because scikit-learn's scorers rely on sorted classes_.
    """

    labels: ArrayLike | None = None
    space: str = "logits"
    floor: float | None = None
    refuses_probabilities: ClassVar[bool] = True  # where one number per row must be a logit
    takes_tensors: ClassVar[bool] = False  # whether the map is fitted and applied where logits on a GPU lie

    @classmethod
    def from_probabilities(cls, **params: Any) -> Self:
        """The same map for an X of probabilities: its logits are log max(p, floor).

        `floor` (default 1e-12) keeps a probability of 0, or next to it, from being a loss that alone decides the fit.
        `transform` still returns logits.
        """
        return cls(space="probabilities", **params)

    @abstractmethod
    def _fit(self, data: ValidationData) -> None:
        """Learn the map."""

    @abstractmethod
    def _logits(self, logits: Logits) -> Floats:
        """The map, as logits."""

    @abstractmethod
    def _probabilities(self, logits: Logits) -> Floats:
        """The map, as probabilities."""

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on validation data, which must not be the data the result is evaluated on."""
        refuse_reordered(X=X, y=y, sample_weight=sample_weight)
        fitted = copy(self)  # this one stays as it was if anything below fails
        fitted._fit(fitted._validation(X, y, sample_weight, reset=True))
        self.__dict__ = fitted.__dict__
        return self

    def _validation(self, X: Any, y: Any, sample_weight: ArrayLike | None, *, reset: bool) -> ValidationData:
        """Return the checked rows to fit; `reset` where they are the first."""
        logits = self._read(X, reset=reset)
        if self.space == "logits":
            _refuse_probabilities(logits, type(self).__name__)
        n, k = logits.values.shape
        data = ValidationData(logits, self._read_labels(y, n, k), *read_weights(sample_weight, n))
        kept = data.weight > 0  # a row of weight zero must not move a bin edge or decide that the data are separable
        return data if kept.all() else data.take(kept)

    def transform(self, X: Any) -> Floats:
        """Recalibrated logits, (n, k): their softmax is predict_proba(X)."""
        check_is_fitted(self)
        return _to_device_of(X, self._logits(self._read(X, reset=False)))

    def predict_proba(self, X: Any) -> Floats:
        """Recalibrated probabilities, (n, k), columns in the order of classes_."""
        check_is_fitted(self)
        return _to_device_of(X, self._probabilities(self._read(X, reset=False)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of largest recalibrated probability; the first one wins a tie."""
        check_is_fitted(self)
        logits = self._logits(self._read(X, reset=False))
        top = logits.argmax(1).cpu().numpy() if not isinstance(logits, HOST) else np.argmax(logits, axis=1)
        return np.asarray(self.classes_[top])

    def _read(self, X: Any, *, reset: bool) -> Logits:
        if self.space not in ("logits", "probabilities"):
            raise ValueError(f"space must be 'logits' or 'probabilities', got {shown(self.space)}")
        X = self._two_columns(X, reset=reset)
        if on_device(X) and self.takes_tensors and self.space == "logits" and self.floor is None:
            validate_data(self, X, reset=reset, skip_check_array=True)
            return device_logits().read_logits(X)  # type: ignore[no-any-return]  # a module loaded by name
        if self.space == "logits" and self.floor is not None:
            raise ValueError(
                f"floor={shown(self.floor)} cannot be used with logits, which have no smallest probability; "
                f"for an X of probabilities use {type(self).__name__}.from_probabilities(floor={shown(self.floor)})"
            )
        values = self._values(on_cpu(X), reset=reset)
        return read_logits(self._log_floor(values) if self.space == "probabilities" else np.asarray(values))

    def _two_columns(self, X: Any, *, reset: bool) -> Any:
        """One number per row, that of class 1 of two, as two columns; any X after a fit on columns as it is."""
        if reset:
            self.one_column_ = False
        elif not self.one_column_:
            return X
        if isinstance(X, str) or getattr(X, "ndim", None) not in (None, 1):
            return X
        if not hasattr(X, "ndim") and not (isinstance(X, (list, tuple)) and X and isinstance(X[0], (Real, np.generic))):
            return X
        column = as_array(on_cpu(X), "X")
        if column.ndim != 1 or column.dtype.kind not in "fiub" or len(column) == 0:
            return X
        column = column if column.dtype.kind == "f" else column.astype(np.float64)
        self.one_column_ = True
        if self.space == "probabilities":
            check_reports(column, "X")
            return np.column_stack([1 - column, column])
        if reset and self.refuses_probabilities and column.min() >= 0 and column.max() <= 1:
            name = type(self).__name__
            raise ValueError(
                f"X looks like probabilities (one number per row, all in [0, 1]), and {name}() takes logits: "
                f"use {name}.from_probabilities(), or give the logits"
            )
        return np.column_stack([np.zeros_like(column), column])

    def _values(self, X: Any, *, reset: bool) -> Floats:
        """X as a floating array of one column per class, its width and column names those seen by fit."""
        if not (isinstance(X, (np.ndarray, list, tuple)) or hasattr(X, "to_numpy") or hasattr(X, "toarray")):
            X = as_array(X, "X")  # tensors, which scikit-learn cannot read or reads with loss (bfloat16), and no arrays
        validate_data(self, X, reset=reset, dtype="numeric", ensure_all_finite=False)
        values = as_array(X, "X")  # scikit-learn lets hidden values of masked arrays, decimals and dates through
        if values.shape[1] < 2:
            raise ValueError(
                "X must have one column per class, at least two, got n_features = 1; "
                "a score of class 1 of two has one dimension, X[:, 0]"
            )
        if values.dtype in (np.float16, np.float32, np.float64):
            return values
        with np.errstate(over="ignore"):  # beyond float64 is infinite, which is refused by its place
            return values.astype(np.float64)

    def _log_floor(self, values: Floats) -> Floats:
        floor = FLOOR
        if self.floor is not None:
            expected, least = "a number strictly between 0 and 1", float(np.nextafter(0, 1))
            floor = check_number(self.floor, "floor", expected, low=least, high=1)
        smallest = max(float(np.finfo(values.dtype).smallest_subnormal), floor)
        p = check_probabilities(values, "X")
        return np.asarray(np.log(np.maximum(p, p.dtype.type(smallest))))

    def _read_labels(self, y: Any, n: int, k: int) -> Codes:
        if y is None:
            raise ValueError("This estimator requires y to be passed, but the target y is None")
        y = column_or_1d(as_array(on_cpu(y), "y"), warn=True)
        if len(y) != n:
            raise ValueError(f"numbers of rows disagree: X has {n}, y has {len(y)}")
        if y.dtype.kind == "f" and (fractional := y != np.floor(y)).any():
            row = int(np.argmax(fractional))
            raise ValueError(f"Unknown label type: continuous; y must hold classes, got {y[row]!s} at row {row}")
        if self.labels is None:
            self.classes_ = np.arange(k)
            return check_labels(y.astype(np.int64) if y.dtype == bool and k == 2 else y, k, name="y")
        names = as_array(self.labels, "labels")
        _refuse_recoded(y, names, k)
        codes = check_labels(y, k, labels=names, name="y")
        _refuse_unsorted(names)
        self.classes_ = names
        return codes


def _to_device_of(X: Any, found: Floats) -> Floats:
    """Return what a map found as a tensor on the device of X, where X is on a GPU."""
    if not on_device(X) or not isinstance(found, HOST):
        return found
    backend = device_backend()
    return backend.like(found, backend.tensor(X))  # type: ignore[no-any-return]  # a module loaded by name


def _refuse_probabilities(logits: Logits, name: str) -> None:
    """Raise where rows look like probabilities: their softmax would be a nearly uniform prediction."""
    if logits.bottom.min() < -ROUNDING or logits.top.max() > 1 + ROUNDING:
        return
    sums = logits.values.sum(axis=1, dtype=LIBRARY[type(logits.values)].float64)
    if (abs(sums - 1) <= ROW_SUM_SLACK).all():
        raise ValueError(
            f"X looks like probabilities (entries in [0, 1], every row sums to 1), and {name}() takes logits: "
            f"use {name}.from_probabilities(), or give the logits"
        )


def _refuse_recoded(y: NDArray[Any], names: NDArray[Any], k: int) -> None:
    """Raise where column indices are given for names: scikit-learn numbers the classes that occur, and where one is
    missing these numbers are not columns."""
    if y.dtype.kind not in "iu" or names.dtype.kind == "b" or y.size == 0 or y.min() < 0 or y.max() >= k:
        return
    known = np.zeros(len(y), bool) if names.dtype.kind in "US" else np.isin(y, names)
    if not known.all():
        row = int(np.argmin(known))
        raise ValueError(
            f"y has {y[row]} at row {row}, which is not in labels: all of y is in 0..{k - 1}, like column indices. "
            "Give the classes themselves, or leave out labels= and give column indices. "
            "cross_val_predict(method='predict_proba') numbers the classes before it fits: "
            "give it an estimator without labels= and np.searchsorted(labels, y) for y"
        )


def _refuse_unsorted(names: NDArray[Any]) -> None:
    down = np.flatnonzero(names[1:] < names[:-1])
    if down.size:
        j = int(down[0]) + 1
        raise ValueError(
            f"labels must be sorted, as scikit-learn's scorers take classes_ to be, got {names[j].item()!r} "
            f"(column {j}) after {names[j - 1].item()!r}; reorder the columns: order = np.argsort(labels), then "
            "X[:, order] and np.sort(labels)"
        )


class ScoreMap(Recalibrator):
    """Abstract: a map that makes logits; its probabilities are their softmax."""

    def _probabilities(self, logits: Logits) -> Floats:
        return softmax_of(self._logits(logits))


class ProbabilityMap(Recalibrator):
    """Abstract: a map that makes probabilities; its logits are their logarithms, -inf for a probability of 0."""

    def _logits(self, logits: Logits) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self._probabilities(logits)))


def normalise(scores: Float64s, fallback: Float64s) -> Float64s:
    """Rows divided by their sums; a row of zeros, about which nothing was learned, keeps its prediction."""
    total = scores.sum(axis=1, keepdims=True)
    empty = total[:, 0] <= 0
    if empty.any():
        scores = np.where(empty[:, None], fallback, scores)
        total = scores.sum(axis=1, keepdims=True)
    return np.asarray(scores / total)
