"""Sample: reports and outcomes of one property, validated once and handed on to tables, cells and inference."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from .arrays import HOST, LIBRARY, device_backend, doubled, ones, row_products, to_device_of
from .data import wide_blocks, working_dtype
from .types import Array

Bounds = tuple[float, float]
EVERY = slice(None)
_LEAST_WEIGHT = 2.0**-100


@dataclass(frozen=True)
class Totals:
    """Sums over all rows, in the unit of the weights as given."""

    rows: int = 0
    weight: float = 0.0
    """W = Σ w."""
    weight_sq: float = 0.0
    """Σ w²."""
    largest: float = 0.0
    """The largest weight."""
    wrong: float = 0.0
    """Σ w(1 − z), for confidence."""
    wrong_sq: float = 0.0
    """Σ w²(1 − z): what the confidence correction adds to n²·error."""
    residual_sq: float = 0.0
    """Σ w|r|², summed over views; 0 where all weights are 1, so that it is the sum of the cells' residual_sq."""

    def merge(self, other: Totals) -> Totals:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return Totals(**sums | {"largest": max(self.largest, other.largest)})

    def in_unit(self, exponent: int) -> Totals:
        """The same totals where a weight of 1 becomes 2^exponent."""
        powers = {"weight": 1, "weight_sq": 2, "largest": 1, "wrong": 1, "wrong_sq": 2, "residual_sq": 1}
        return replace(self, **{name: getattr(self, name) * 2.0 ** (p * exponent) for name, p in powers.items()})


@dataclass(frozen=True, eq=False)
class Reports:
    """What a rule may see of a sample: its reports, and never an outcome."""

    values: Array
    joint: bool
    bounds: Bounds | None
    distributions: bool
    """Whether each row is a distribution over classes."""
    shares: Array | None = None
    """What each view counts in their mean, 1 on average; None where all count the same."""

    @cached_property
    def views(self) -> int:
        return self.values.shape[1] if self.values.ndim == 2 else 1

    def view(self, j: int) -> Array:
        """The reports of view j."""
        return self.values if self.values.ndim == 1 else self.values[:, j]

    def weight(self, j: int) -> float:
        """The weight of view j in the mean over views."""
        return (1.0 if self.shares is None else float(self.shares[j])) / self.views


@dataclass(frozen=True, eq=False)
class Sample:
    """Reports and outcomes of one property, validated: d scalar views of n rows.

    reports is (n,) or (n, d). Outcomes are either `marks` (bools for one view; class indices for d views, where view j
    is 1 in the rows with index j) or `values`, real numbers of the shape of reports. `joint` views are the coordinates
    of one vector and share their cells; other views have cells of their own and are averaged. All arrays are of numpy,
    or all are torch tensors on one device.
    """

    kind: str
    """The name of the property, so that tables of different ones are not mixed."""
    reports: Array
    marks: Array | None = None
    values: Array | None = None
    weights: Array | None = None
    """In units of 2^weight_exponent, a power of two near the largest: no digit changes, and no power overflows."""
    weight_exponent: int = 0
    joint: bool = False
    event: bool = False
    """Whether reports are probabilities of one event, the same for every model."""
    bounds: Bounds | None = (0.0, 1.0)
    variance: Array | None = None
    """Of positions on a scale and of weighted outcomes: the variance of each outcome under calibration."""
    wrong: Array | None = None
    """What the loss has beyond the squared residual, the source of the correction. For confidence: which top classes
    were wrong (with soft labels, how much). Of weighted outcomes: what their weights, not squared, leave."""
    distributions: Array | None = None
    """The distributions over classes that the reports come from, where they do: labels of a calibrated world. (n,) are
    probabilities of class 1 of two."""
    labels: Array | None = None
    """The class that came in each row, or its label distribution, beside `distributions`."""
    shares: Array | None = None
    """What each view counts in their mean, 1 on average; None where all count the same. An array of numpy."""

    @cached_property
    def seen(self) -> Reports:
        """What a rule may see."""
        return Reports(self.reports, self.joint, self.bounds, self.distributions is self.reports, self.shares)

    @cached_property
    def tensors(self) -> bool:
        """Whether its arrays are torch tensors, not those of numpy."""
        return not isinstance(self.reports, HOST)

    @cached_property
    def plain(self) -> bool:
        """Whether it has 0/1 outcomes of single views without weights, whose sums are known from sorted values."""
        return self.marks is not None and self.weights is None and not self.joint

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The floating dtype in which its reports are compared with edges."""
        return working_dtype(self.reports)

    @cached_property
    def rows(self) -> int:
        return len(self.reports)

    @cached_property
    def views(self) -> int:
        return self.reports.shape[1] if self.reports.ndim == 2 else 1

    @cached_property
    def averaged(self) -> int:
        """What sums over views are divided by: their number, or 1 for the coordinates of one vector."""
        return 1 if self.joint else self.views

    @cached_property
    def row_weights(self) -> Array:
        """The weight of each row, 1 where none are given."""
        return ones(self.rows, self.reports) if self.weights is None else self.weights

    @cached_property
    def totals(self) -> Totals:
        """Sums over all rows in the unit of the sample's weights."""
        return Totals(
            rows=self.rows,
            weight=self.total_weight,
            weight_sq=self.total_weight_sq,
            largest=1.0 if self.weights is None else float(self.weights.max()),
            wrong=self.wrong_weight,
            wrong_sq=self.wrong_weight_sq,
            residual_sq=0.0 if self.weights is None else float(self.weights @ self.residual_sq),
        )

    @cached_property
    def total_weight(self) -> float:
        return float(self.rows if self.weights is None else self.weights.sum())

    @cached_property
    def total_weight_sq(self) -> float:
        return float(self.rows if self.weights is None else (self.weights**2).sum())

    @property
    def size(self) -> float:
        """W²/Σw², which is n for equal weights: what multiplies an error to put it on the scale of its loss."""
        return self.total_weight**2 / self.total_weight_sq

    @cached_property
    def wrong_weight(self) -> float:
        """Σ w(1 − z)."""
        if self.wrong is None:
            return 0.0
        return float(self.wrong.sum() if self.weights is None else (self.weights * self.wrong).sum())

    @property
    def wrong_weight_sq(self) -> float:
        """Σ w²(1 − z): what the confidence correction adds to n²·error."""
        if self.wrong is None or self.weights is None:
            return self.wrong_weight
        return float((self.weights**2 * self.wrong).sum())

    def view(self, j: int) -> Array:
        """The reports of view j."""
        return self.reports if self.reports.ndim == 1 else self.reports[:, j]

    def outcome(self, columns: slice, rows: Array | slice = EVERY) -> Array:
        """Outcomes of the views in `columns`, as (views, rows) float64."""
        if not isinstance(self.reports, np.ndarray):
            return device_backend().outcome(self.take(rows), columns)
        if self.values is not None:
            return np.asarray(np.atleast_2d(self.values[rows].T)[columns], dtype=np.float64)
        assert self.marks is not None
        marks = self.marks[rows]
        if self.reports.ndim == 1:
            return np.atleast_2d(marks).astype(np.float64)
        return np.asarray(marks[None, :] == np.arange(self.views)[columns, None], dtype=np.float64)

    def residuals(self, columns: slice, rows: slice = EVERY, outcome: Array | None = None) -> Array:
        """w·(report − outcome) of some views, as (views, rows) float64; outcomes that are known are not looked up."""
        if not isinstance(self.reports, np.ndarray):
            return device_backend().residuals(self.take(rows), columns)
        reports = self.reports[None, rows] if self.reports.ndim == 1 else self.reports[rows, columns].T
        r = reports.astype(np.float64)
        r -= self.outcome(columns, rows) if outcome is None else outcome
        return r if self.weights is None else r * self.weights[rows]

    @cached_property
    def residual_sq(self) -> Array:
        """Per row, |u − φ(y)|², summed over the views, each times its share."""
        blocks = (self._residual_rows(rows) for rows in wide_blocks(self.reports, self.rows, self.views))
        total: Array = LIBRARY[type(self.reports)].concatenate([self.square_sums(block) for block in blocks])
        return total

    def square_sums(self, residuals: Array) -> Array:
        """Per row of (n, views) residuals, the sum of their squares, each view times its share."""
        weighted = residuals if self.shares is None else residuals * to_device_of(self.shares, residuals)
        sums: Array = row_products(weighted, residuals)
        return sums

    def loss(self, corrected: bool = True) -> Array:
        """Per row, |u − φ(y)|² (divided by the number of views where those are averaged), plus 1 − z for confidence.

        This is the loss whose mean is n·error for a calibrated predictor, and always n·error − U.
        """
        total = self.residual_sq / self.averaged
        return total if self.wrong is None or not corrected else total + self.wrong

    def _residual_rows(self, rows: slice) -> Array:
        reports: Array = doubled(self.reports[rows], copy=True).reshape(-1, self.views)
        if self.values is not None:
            return reports - self.values[rows].reshape(reports.shape)
        assert self.marks is not None
        marks = self.marks[rows]
        if self.reports.ndim == 1:
            reports[:, 0] -= doubled(marks)
        else:
            reports[LIBRARY[type(reports)].arange(len(reports), device=marks.device), marks] -= 1.0
        return reports

    def take(self, rows: Array | slice) -> Sample:
        """Some of the rows."""
        return self._each(lambda part: part[rows])

    def on_host(self) -> Sample:
        """The sample in numpy's arrays, for what is not computed on a GPU; confidences travel without their matrix."""
        if not self.tensors:
            return self
        light = replace(self, distributions=None, labels=None) if self.wrong is not None else self
        return light._each(lambda part: part.cpu().numpy())

    def _each(self, change: Callable[[Any], Array]) -> Sample:
        names = ("reports", "marks", "values", "weights", "wrong", "variance", "distributions", "labels")
        parts: dict[str, Any] = {name: getattr(self, name) for name in names}
        same = {id(part): None if part is None else change(part) for part in parts.values()}  # what is shared stays so
        changed: dict[str, Any] = {name: same[id(part)] for name, part in parts.items()}
        return replace(self, **changed)


def unit_weights(weights: Array | None) -> dict[str, Any]:
    """Weights in units of the power of two just above the largest, and its exponent, as a Sample takes them.

    A weight below 2^-100 of that is 0: no digit of a sum could show it, and inverse fourth powers of it have no number.
    """
    if weights is None:
        return {}
    exponent = math.frexp(float(weights.max()))[1]
    half = exponent // 2  # a power of two below 2^-1022 is no number
    scaled = weights * 2.0**-half * 2.0 ** (half - exponent)
    scaled[scaled < _LEAST_WEIGHT] = 0.0
    return {"weights": scaled, "weight_exponent": exponent}
