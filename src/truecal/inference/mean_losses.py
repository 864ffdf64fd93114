"""Intervals of a mean loss, and of a mean loss difference, that keep their level when few outcomes surprise.

Where nearly every row is predicted right, the losses seen hardly vary, and a t interval is far too short. But given the
predictions, row i's value d_i(y) is known for every label y that could have come. As Agresti and Coull do for a
proportion, z²/2 rows are added at `hi` and z²/2 at `lo`, z of the joint level; mean and variance of the n + z² rows
give the interval. With q the mean of the predictions, row i's own range is mean ± sd of d_i(y) over labels in
proportion to q_y(1 − q_y): for two classes exactly its two values; for many, labels that nobody believes in do not
decide. hi and lo are means over rows by how much each can surprise, Σ_y q_y(1 − q_y) times that sd.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ..core.data import row_blocks
from ..core.result import Result
from ..core.sample import unit_weights
from ..core.types import Array, Groups
from .options import per_unit

_BLOCK = 1 << 18

INFINITE = "a loss is infinite: what came had probability 0"
UNBOUNDED = "a label that may come has probability 0 in a prediction, and nothing bounds what it would cost"
FEW_ROWS = 10.0
SCARCE = "fewer than ten rows carry the spread of a loss that has no bound of its own"
NO_BOUND = "nothing bounds the outcomes: right only if rare large losses are in the sample"


def _brier(p: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", p, p)[:, None] + 1 - 2 * p)


def _cross_entropy(p: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(p))


def _classification(p: Array) -> Array:
    out = np.ones(p.shape)
    out[np.arange(len(p)), p.argmax(axis=1)] = 0.0
    return out


def _confidence(p: Array, correction: float = 1.0) -> Array:
    rows, top = np.arange(len(p)), p.argmax(axis=1)
    c = p[rows, top]
    out = np.repeat((correction + c * c)[:, None], p.shape[1], axis=1)
    out[rows, top] = np.square(1 - c)
    return out


LOSS_TABLES: dict[str, Callable[[Array], Array]] = {
    "classification_error": _classification,
    "cross_entropy": _cross_entropy,
    "brier": _brier,
    "spherical": lambda p: 1 - p / np.sqrt(np.einsum("ij,ij->i", p, p))[:, None],
    "confidence_loss": _confidence,
    "uncorrected_confidence": lambda p: _confidence(p, 0.0),
    "classwise": lambda p: _brier(p) / p.shape[1],
    "binary": lambda p: _brier(p) / 2,
}
"""For each loss, (n, k): the loss of every row for every label that could come."""


@dataclass(frozen=True)
class Values:
    """Per row: a loss or a difference of two, where it would lie if its label surprised, and how much it can surprise.

    `high` is None where nothing bounds the outcomes.
    """

    value: Array
    high: Array | None = None
    low: Array | None = None
    surprise: Array | None = None
    ends: tuple[float, float] = (-np.inf, np.inf)
    """What a mean of them can be: of one model's losses, from 0 to the largest that a label could have given."""
    unbounded: bool = False

    def take(self, rows: Array) -> Values:
        """Some of the rows."""
        high, low, surprise = (None if x is None else x[rows] for x in (self.high, self.low, self.surprise))
        return replace(self, value=self.value[rows], high=high, low=low, surprise=surprise)

    def trouble(self, w: Array) -> str:
        """Why there is no interval, or what it rests on; nothing where all is well."""
        if not np.isfinite(self.value).all():
            return INFINITE
        if self.high is None or self.low is None or self.surprise is None:
            return NO_BOUND
        if not (np.isfinite(self.high).all() and np.isfinite(self.low).all()):
            return UNBOUNDED
        carried = w * self.surprise * (self.high - self.low)
        few = self.unbounded and carried.sum() ** 2 < FEW_ROWS * np.square(carried).sum()
        return SCARCE if few else ""


def loss_values(y: Array, first: Array, second: Array | None, loss: str | Callable[[Array], Array]) -> Values:
    """Losses of one model, or first minus second, with their ranges, in blocks of rows.

    Labels to which both of two models give probability 0 are left out of the range.
    """
    table = LOSS_TABLES[loss] if isinstance(loss, str) else loss
    n, k = first.shape
    value, high, low, surprise = (np.empty(n) for _ in range(4))
    most = 0.0
    for rows in row_blocks(n, k, _BLOCK):
        mean = a = first[rows].astype(np.float64)
        each = table(a)
        if second is not None:
            b = second[rows].astype(np.float64)
            with np.errstate(invalid="ignore"):  # where both are infinite
                each = each - table(b)
            mean = (a + b) / 2
        if y.ndim == 1:
            value[rows] = each[np.arange(len(a)), y[rows]]
        else:  # the mean over a label distribution; labels of share 0 do not count, whatever they cost
            value[rows] = (y[rows] * np.where(y[rows] > 0, each, 0.0)).sum(axis=1)
        most = max(most, float(each.max()))
        high[rows], low[rows], surprise[rows] = _row_ranges(np.where(np.isnan(each), 0.0, each), mean)
    ends = (0.0, most) if second is None else (-np.inf, np.inf)
    return Values(value, high, low, _by_range(surprise, high, low), ends, loss == "cross_entropy")


def _row_ranges(each: Array, mean: Array) -> tuple[Array, Array, Array]:
    """Mean + sd and mean − sd of each row's values over labels in proportion to q(1 − q), and Σ q(1 − q)."""
    share = np.maximum(mean * (1 - mean), 0.0)
    surprise = share.sum(axis=1)
    if each.shape[1] == 2 and np.isfinite(each).all():  # mean ± sd are the two values themselves
        return each.max(axis=1), each.min(axis=1), surprise
    share[surprise <= 0] = 1.0  # predictions of exactly 0 and 1: every label alike
    share /= share.sum(axis=1, keepdims=True)
    endless = np.isinf(each).any(axis=1)
    finite = np.where(np.isinf(each), 0.0, each)
    centre = np.einsum("ij,ij->i", share, finite)
    sd = np.sqrt(np.einsum("ij,ij->i", share, np.square(finite - centre[:, None])))
    sd[endless] = np.inf
    return centre + sd, centre - sd, surprise


def top_label_table(u: Array, correction: float = 1.0) -> Array:
    """(n, 2): the confidence loss of rows with confidence u if the top class is wrong, and if it is right."""
    return np.column_stack([correction + u * u, np.square(1 - u)])


def top_label_values(z: tuple[Array, Array], c: tuple[Array, Array], correction: float = 1.0) -> Values:
    """The difference of confidence losses where only (correct?, confidence) of each model is known."""
    first, second = (top_label_table(u.astype(np.float64), correction) for u in c)
    came = [np.where(right, table[:, 1], table[:, 0]) for right, table in zip(z, (first, second), strict=True)]
    high, low = first[:, 0] - second[:, 1], first[:, 1] - second[:, 0]
    mean = (c[0].astype(np.float64) + c[1]) / 2
    return Values(came[0] - came[1], high, low, _by_range(2 * mean * (1 - mean), high, low))


def _by_range(surprise: Array, high: Array, low: Array) -> Array:
    with np.errstate(invalid="ignore"):
        spread = high - low
        weight = surprise * spread
    return weight if np.any(weight > 0) else spread  # predictions of exactly 0 and 1: by their spread alone


@final
@dataclass(frozen=True, repr=False, eq=False)
class Part(Result):
    """An estimate, such as one part of a difference, with its interval and two-sided p-value (of 0).

    `note` says why not to trust it, or what it rests on.
    """

    estimate: float
    low: float
    high: float
    se: float
    pvalue: float
    note: str = ""

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval leaves out 0 and may be trusted."""
        return not self.note and not self.low <= 0 <= self.high

    def turned(self) -> Part:
        """The part of the difference taken the other way round."""
        return Part(-self.estimate, -self.high, -self.low, self.se, self.pvalue, self.note)

    def __repr__(self) -> str:
        if not np.isfinite(self.se):
            return f"{self.estimate:+.4g} (no interval: {self.note})"
        return f"{self.estimate:+.4g} [{self.low:+.4g}, {self.high:+.4g}] (se {self.se:.2g}, p = {self.pvalue:.3g})"


def mean_interval(
    values: Values, weights: Array | None, groups: Groups | None, level: float, comparisons: int = 1
) -> Part:
    """The w-weighted mean with its interval, over rows or clusters; none (infinite ends) where a loss is unbounded."""
    w = np.ones(len(values.value)) if weights is None else unit_weights(weights)["weights"]
    counted = w > 0
    if not counted.all():  # a row that does not count may have an infinite loss
        values = values.take(counted)
        groups = None if groups is None else (groups[0][counted], groups[1])
        w = w[counted]
    trouble = values.trouble(w)
    estimate = float(w @ values.value / w.sum())
    if trouble in (INFINITE, UNBOUNDED, SCARCE):
        return Part(estimate, -np.inf, np.inf, np.nan, np.nan, trouble)
    units = _Units.of(values, w, groups)
    alpha = (1 - level) / comparisons
    if trouble:
        return _t_interval(units, estimate, alpha, comparisons, trouble)
    z = float(-ndtri(alpha / 2))
    centre, se = map(float, units.ends(z * z))
    half = float(units.factor(z)) * se
    low, high = max(centre - half, values.ends[0]), min(centre + half, values.ends[1])
    low, high = min(low, estimate), max(high, estimate)
    return Part(estimate, low, high, se, min(1.0, comparisons * units.pvalue()))


def _t_interval(units: _Units, estimate: float, alpha: float, comparisons: int, note: str) -> Part:
    deviation = units.total - units.weight * estimate
    number = int(np.count_nonzero(units.weight))
    freedom = max(number - 1, 1)
    se = float(np.sqrt(np.square(deviation).sum() * number / freedom) / units.weight.sum())
    if se <= 1e-12 * abs(estimate):
        return Part(estimate, -np.inf, np.inf, np.nan, np.nan, "the difference is the same in every row")
    half = float(stdtrit(freedom, 1 - alpha / 2)) * se
    pvalue = min(1.0, comparisons * float(2 * stdtr(freedom, -abs(estimate) / se)))
    return Part(estimate, estimate - half, estimate + half, se, pvalue, note)


@dataclass(frozen=True)
class _Units:
    """Rows or clusters: w·value and w of each, and what a pseudo-row is."""

    total: Array
    weight: Array
    pseudo: float
    """The weight of a pseudo-row before the design effect."""
    size: float
    """Effective rows per cluster."""
    own: float
    """Σ of squares of rows about their mean."""
    hi: float
    lo: float

    @staticmethod
    def of(values: Values, w: Array, groups: Groups | None) -> _Units:
        hi = lo = 0.0
        if values.high is not None and values.low is not None and values.surprise is not None:
            by = w * values.surprise
            if by.sum() > 0:
                hi, lo = float(by @ values.high / by.sum()), float(by @ values.low / by.sum())
        total, weight, own, size = w * values.value, w, 0.0, 1.0
        if groups is not None:
            own = float(np.square(total - w * (total.sum() / w.sum())).sum())
            total, weight = (per_unit(x, groups) for x in (total, w))
            size = float(np.square(weight).sum() / np.square(w).sum())
        return _Units(total, weight, float(np.square(w).sum() / w.sum()), size, own, hi, lo)

    @cached_property
    def mean(self) -> float:
        return float(self.total.sum() / self.weight.sum())

    @cached_property
    def moments(self) -> tuple[float, float, float]:
        """Σ of squares about the mean, Σ of their products with the weights, and Σ of squared weights."""
        deviation = self.total - self.weight * self.mean
        return float(deviation @ deviation), float(deviation @ self.weight), float(self.weight @ self.weight)

    def factor(self, z: Any) -> Any:
        """The t quantile at the level of the normal quantile z, with as many degrees as effective units, less one."""
        freedom = max(float(self.weight.sum() ** 2 / self.moments[2]) - 1, 1.0)
        return -stdtrit(freedom, ndtr(-z))

    def ends(self, zz: Any) -> tuple[Any, Any]:
        """Centre and standard error after z²/2 pseudo-rows at hi and at lo."""
        v: Any = self.pseudo
        seen, product, squared = self.moments
        if self.size > 1:  # design effect, drawn towards clusters that go together by z² pseudo-surprises
            prior = zz * (v * (self.hi - self.lo) / 2) ** 2
            effect = (seen + self.size * prior) / np.maximum(self.own + prior, 1e-300)
            v = v * np.clip(effect, 1.0, self.size)
        whole = self.weight.sum() + v * zz
        centre = (self.total.sum() + v * zz * (self.hi + self.lo) / 2) / whole
        moved = centre - self.mean
        squares = np.maximum(seen - 2 * moved * product + moved**2 * squared, 0.0)
        squares += v * v * zz / 2 * ((self.hi - centre) ** 2 + (self.lo - centre) ** 2)
        return centre, np.sqrt(squares) / whole

    def pvalue(self) -> float:
        """2(1 − Φ(z)) at the least z whose interval touches 0; the pseudo-rows grow with z."""
        if not np.any(self.total) and self.hi == self.lo == 0:
            return 1.0
        low, high = 0.0, 8.0
        for _ in range(5):  # a grid of a hundred, and a finer one between the two neighbours of the crossing
            grid = np.linspace(low, high, 101)[1:]
            centre, se = self.ends(grid * grid)
            inside = np.flatnonzero(np.abs(centre) <= self.factor(grid) * se)
            if not len(inside):
                break
            place = int(inside[0])
            low, high = float(grid[place - 1]) if place else low, float(grid[place])
        return float(2 * ndtr(-high))
