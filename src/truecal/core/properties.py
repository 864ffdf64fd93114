"""What is being checked: each property turns labels and probabilities into scalar reports and outcomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..backends.numpy import top_class_and_value
from .data import (
    as_array,
    check_binary_outcomes,
    check_bounds,
    check_multiclass,
    check_pair,
    check_reports,
    check_same_length,
    check_weights,
)
from .rules import Bounds

Array = NDArray[Any]


@dataclass(frozen=True)
class Sample:
    """Reports and outcomes of one property, validated: d scalar views of n rows.

    reports is (n,) or (n, d). Outcomes are either `marks` (bools for one view; class indices for d views, where view j
    is 1 in the rows with index j) or `values`, real numbers of the shape of reports. `joint` views are the coordinates
    of one vector and share their cells; other views have cells of their own and are averaged.
    """

    reports: Array
    marks: Array | None = None
    values: Array | None = None
    weights: Array | None = None
    joint: bool = False
    bounds: Bounds | None = (0.0, 1.0)
    wrong: Array | None = None
    """For confidence: which top classes were wrong, the source of its correction."""
    distributions: bool = False
    """Whether each row of reports is a distribution over classes."""
    kind: str = ""
    """The name of the property, so that tables of different ones are not mixed."""

    @property
    def rows(self) -> int:
        return len(self.reports)

    @property
    def views(self) -> int:
        return self.reports.shape[1] if self.reports.ndim == 2 else 1

    @property
    def total_weight(self) -> float:
        return float(self.rows if self.weights is None else self.weights.sum())

    @property
    def total_weight_sq(self) -> float:
        return float(self.rows if self.weights is None else np.square(self.weights).sum())

    @property
    def wrong_weight_sq(self) -> float:
        """Σ w²(1 − z): what the confidence correction adds to n²·error."""
        if self.wrong is None:
            return 0.0
        return float(self.wrong.sum() if self.weights is None else np.square(self.weights)[self.wrong].sum())

    def view(self, j: int) -> Array:
        """The reports of view j."""
        return self.reports if self.reports.ndim == 1 else self.reports[:, j]

    def outcome(self, columns: slice) -> Array:
        """Outcomes of the views in `columns`, as (views, n) float64."""
        if self.values is not None:
            return np.asarray(np.atleast_2d(self.values.T)[columns], dtype=np.float64)
        assert self.marks is not None
        if self.reports.ndim == 1:
            return np.atleast_2d(self.marks).astype(np.float64)
        return np.asarray(self.marks[None, :] == np.arange(self.views)[columns, None], dtype=np.float64)

    def loss(self) -> Array:
        """Per row, |u − φ(y)|² (divided by the number of views where those are averaged), plus 1 − z for confidence.

        This is the loss whose mean is n·error for a calibrated predictor, and always n·error − U.
        """
        total = np.zeros(self.rows)
        width = max(1, (1 << 18) // max(1, self.views))
        for start in range(0, self.rows, width):
            rows = slice(start, start + width)
            residual = self._residual_rows(rows)
            total[rows] = np.einsum("ij,ij->i", residual, residual)
        if not self.joint:
            total /= self.views
        return total if self.wrong is None else total + self.wrong

    def _residual_rows(self, rows: slice) -> Array:
        reports = self.reports[rows].astype(np.float64).reshape(-1, self.views)
        if self.values is not None:
            return np.asarray(reports - self.values[rows].reshape(reports.shape))
        assert self.marks is not None
        marks = self.marks[rows]
        if self.reports.ndim == 1:
            reports[:, 0] -= marks
        else:
            reports[np.arange(len(reports)), marks] -= 1.0
        return reports


class Property(ABC):
    """A claim that can be checked: reports u_i about the expectation of outcomes φ(y_i)."""

    vector = False

    @abstractmethod
    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        """Validate the user's arrays and express them as scalar views."""


def _multiclass(y_true: Any, y_proba: Any, sample_weight: Any, labels: Any) -> tuple[Array, Array, Array | None]:
    y, proba = check_multiclass(y_true, y_proba, labels)
    return y, proba, check_weights(sample_weight, len(y))


@final
@dataclass(frozen=True)
class Binary(Property):
    """φ(y) = 1[y = pos_label]; the report is the probability of the positive class."""

    pos_label: Any = 1

    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        if labels is not None:
            raise ValueError("labels cannot apply to one probability per row; name the positive class with pos_label")
        reports = check_reports(y_proba, "y_prob")
        marks = check_binary_outcomes(y_true, self.pos_label)
        n = check_same_length(y_true=marks, y_prob=reports)
        return Sample(reports, marks=marks, weights=check_weights(sample_weight, n), kind="binary")


@final
@dataclass(frozen=True)
class Classwise(Property):
    """k scalar properties φ_r(y) = 1[y = r] of the reports p^(r), each with bins of its own, averaged over r."""

    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        y, proba, weights = _multiclass(y_true, y_proba, sample_weight, labels)
        return Sample(proba, marks=y, weights=weights, distributions=True, kind="classwise")


@final
@dataclass(frozen=True)
class Full(Property):
    """φ(y) = e_y: the whole distribution at once, with cells for vectors."""

    vector = True

    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        y, proba, weights = _multiclass(y_true, y_proba, sample_weight, labels)
        return Sample(proba, marks=y, weights=weights, joint=True, distributions=True, kind="full")


@final
@dataclass(frozen=True)
class Confidence(Property):
    """The probability of the top class (lowest index on ties) against whether it is right: the outcome depends on the
    report, which is why the squared error needs its correction Σ(1 − z)/n²."""

    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        y, proba, weights = _multiclass(y_true, y_proba, sample_weight, labels)
        top, confidence = top_class_and_value(proba)
        return _top_label_sample(confidence, y.astype(top.dtype, copy=False) == top, weights)  # indices of one width


@final
@dataclass(frozen=True)
class TopLabel(Property):
    """Confidence, for those who only have (correct?, confidence of the top class)."""

    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        if labels is not None:
            raise ValueError("labels cannot apply: top_label_error takes whether each top class was correct")
        confidence = check_reports(y_proba, "confidence")
        correct = _check_correct(y_true)
        n = check_same_length(correct=correct, confidence=confidence)
        return _top_label_sample(confidence, correct.astype(bool), check_weights(sample_weight, n))


def _check_correct(correct: Any) -> Array:
    array = np.asarray(as_array(correct, "correct"))
    if array.ndim != 1:
        raise ValueError(f"correct must be one-dimensional, got shape {array.shape}")
    known = np.isin(array, (0, 1)) if array.dtype.kind in "biuf" else np.zeros(len(array), dtype=np.bool_)
    if not known.all():
        row = int(np.argmin(known))
        raise ValueError(
            "correct must hold only true/false or 1/0, whether the top class was right, and comes before confidence; "
            f"got {array[row]!s} at row {row}"
        )
    return array


def _top_label_sample(confidence: Array, correct: Array, weights: Array | None) -> Sample:
    return Sample(confidence, marks=correct, weights=weights, wrong=~correct, kind="confidence")


@final
@dataclass(frozen=True, eq=False)
class Linear(Property):
    """Any linear property: φ maps class j to row j of `phi`, (k,) or (k, d); the report is Σ_r p_r φ(r)."""

    phi: Array

    def __init__(self, phi: Any) -> None:
        array = np.asarray(as_array(phi, "phi"))
        if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or len(array) < 2:
            raise ValueError(f"phi must give each class (two or more) a number or a vector, got shape {array.shape}")
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            raise ValueError("phi must be finite")
        object.__setattr__(self, "phi", array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array)

    @property
    def vector(self) -> bool:  # type: ignore[override]  # known only with phi
        return self.phi.ndim == 2

    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        y, proba, weights = _multiclass(y_true, y_proba, sample_weight, labels)
        if proba.shape[1] != len(self.phi):
            raise ValueError(f"phi has {len(self.phi)} classes and y_proba has {proba.shape[1]} columns")
        reports = _mean_values(proba, self.phi)
        low, high = float(self.phi.min()), float(self.phi.max())
        bounds = (low, high) if low < high else (low - 0.5, low + 0.5)
        return Sample(reports, values=self.phi[y], weights=weights, joint=self.vector, bounds=bounds, kind="linear")


def _mean_values(proba: Array, phi: Array) -> Array:
    """Σ_r p_r φ(r), one class after the other: a matrix product may round equal rows differently, and part ties."""
    total = np.zeros((len(proba), *phi.shape[1:]))
    for r, value in enumerate(phi):
        column = proba[:, r].astype(np.float64)
        total += column * value if phi.ndim == 1 else column[:, None] * value
    return total


@final
@dataclass(frozen=True)
class Outcomes(Property):
    """A linear property given directly: outcome values φ(y_i) and reports about their expectation, (n,) or (n, d)."""

    range: Bounds | None = None
    vector_valued: bool = False

    @property
    def vector(self) -> bool:  # type: ignore[override]  # known only with the data
        return self.vector_valued

    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        if labels is not None:
            raise ValueError("labels cannot apply to outcome values")
        bounds = None if self.range is None else check_bounds(self.range)
        values, reports = check_pair(y_true, y_proba, bounds)
        weights = check_weights(sample_weight, len(reports))
        return Sample(reports, values=values, weights=weights, joint=reports.ndim == 2, bounds=bounds, kind="linear")
