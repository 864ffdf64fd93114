"""Intervals of a mean loss, and of a mean loss difference, that keep their level when few outcomes surprise.

Where nearly every row is predicted right, the losses seen hardly vary, and a t interval is far too short. But given the
predictions, row i's value d_i(y) is known for every label y that could have come. As Agresti and Coull do for a
proportion, z²/2 rows are added at `hi` and z²/2 at `lo`, where a surprising label would have put the value: with p̄ the
mean of the predictions, m_iy = p̄_iy(1 − p̄_iy) and s_i = Σ_y m_iy, they are the means over rows of c_i ± σ_i, the mean
and sd of d_i(y) under m_i/s_i, weighted by s_i·σ_i. Mean and variance of the n + z² rows then give the interval, z of
the joint level.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

Array = NDArray[Any]
Groups = tuple[Array, int]
_BLOCK = 1 << 21

INFINITE = "a loss is infinite: what came had probability 0"
UNBOUNDED = "what one model calls possible has probability 0 in another, so nothing bounds what it would cost"
CARRIED_BY_FEW = "fewer than 10 rows carry the spread of a loss without a bound"
_FEW_CARRIERS = 10
NO_BOUND = "nothing bounds the outcomes: right only if rare large losses are in the sample"


def _brier(p: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->i", p, p)[:, None] + 1 - 2 * p)


def _spherical(p: Array) -> Array:
    return np.asarray(1 - p / np.sqrt(np.einsum("ij,ij->i", p, p))[:, None])


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
    "spherical": _spherical,
    "confidence_loss": _confidence,
    "uncorrected_confidence": lambda p: _confidence(p, 0.0),
    "classwise": lambda p: _brier(p) / p.shape[1],
    "binary": lambda p: _brier(p) / 2,
}
"""For each loss, (n, k): the loss of every row for every label that could come."""


@dataclass(frozen=True)
class Values:
    """Per row: a loss or a difference of two, where a surprising label would have put it (high, low), and how much the
    row can surprise. `high` is None where nothing bounds the outcomes."""

    value: Array
    high: Array | None = None
    low: Array | None = None
    surprise: Array | None = None
    few_matter: bool = False
    """For a loss without a bound: a few rows may carry all of its spread."""

    def carriers(self, w: Array) -> float:
        """How many rows carry the spread: (Σ c)²/Σ c², c = w·s·σ²."""
        if self.high is None or self.low is None or self.surprise is None:
            return 0.0
        c = w * self.surprise * (self.high - self.low)
        return float(c.sum() ** 2 / (c @ c)) if np.any(c) else float("inf")

    @property
    def trouble(self) -> str:
        """Why there is no interval, or what it rests on; nothing where all is well."""
        if not np.isfinite(self.value).all():
            return INFINITE
        if self.high is None or self.low is None:
            return NO_BOUND
        return "" if np.isfinite(self.high).all() and np.isfinite(self.low).all() else UNBOUNDED

    def counted(self, rows: Array) -> Values:
        """Some of the rows."""
        high, low, surprise = (None if x is None else x[rows] for x in (self.high, self.low, self.surprise))
        return Values(self.value[rows], high, low, surprise, self.few_matter)


def loss_values(y: Array, first: Array, second: Array | None, loss: str | Callable[[Array], Array]) -> Values:
    """Losses of one model, or first minus second, with where surprises would put them, in blocks of rows.

    Classes to which all predictions give probability 0 are left out.
    """
    table = LOSS_TABLES[loss] if isinstance(loss, str) else loss
    n, k = first.shape
    value, high, low, surprise = (np.empty(n) for _ in range(4))
    step = max(1, _BLOCK // k)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        mean = a = first[rows].astype(np.float64)
        each = table(a)
        if second is not None:
            b = second[rows].astype(np.float64)
            with np.errstate(invalid="ignore"):  # where both are infinite
                each = each - table(b)
            mean = (a + b) / 2
        value[rows] = each[np.arange(len(a)), y[rows]]
        high[rows], low[rows], surprise[rows] = _surprised(np.where(np.isnan(each), 0.0, each), mean)
    return Values(value, high, low, _by_range(surprise, high, low), loss == "cross_entropy")


def _surprised(each: Array, mean: Array) -> tuple[Array, Array, Array]:
    """c + σ and c − σ of each row's values under m ∝ p̄(1 − p̄), and s = Σ p̄(1 − p̄)."""
    m = np.maximum(mean * (1 - mean), 0.0)
    s = m.sum(axis=1)
    m[s <= 0] = 1.0  # predictions of exactly 0 and 1: every label alike
    m /= m.sum(axis=1, keepdims=True)
    infinite = np.isinf(each).any(axis=1)
    each = np.where(np.isinf(each), 0.0, each)
    centre = np.einsum("ij,ij->i", m, each)
    sd = np.sqrt(np.einsum("ij,ij->i", m, np.square(each - centre[:, None])))
    return np.where(infinite, np.inf, centre + sd), np.where(infinite, -np.inf, centre - sd), s


def top_label_values(z: tuple[Array, Array], c: tuple[Array, Array], correction: float = 1.0) -> Values:
    """The difference of confidence losses where only (correct?, confidence) of each model is known."""
    wrong, right, came = [], [], []
    for correct, confidence in zip(z, c, strict=True):
        u = confidence.astype(np.float64)
        wrong.append(correction + u * u)
        right.append(np.square(1 - u))
        came.append(np.where(correct, right[-1], wrong[-1]))
    high, low = wrong[0] - right[1], right[0] - wrong[1]
    mean = (c[0].astype(np.float64) + c[1]) / 2
    return Values(came[0] - came[1], high, low, _by_range(2 * mean * (1 - mean), high, low))


def _by_range(surprise: Array, high: Array, low: Array) -> Array:
    with np.errstate(invalid="ignore"):
        spread = high - low
        weight = surprise * spread
    return weight if np.any(weight > 0) else spread  # predictions of exactly 0 and 1: by their spread alone


@dataclass(frozen=True)
class MeanInterval:
    """A mean, its interval, its standard error and two-sided p-value (of a mean of 0), joint over comparisons."""

    estimate: float
    low: float
    high: float
    se: float
    pvalue: float
    note: str = ""


def mean_interval(
    values: Values, weights: Array | None, groups: Groups | None, level: float, comparisons: int = 1
) -> MeanInterval:
    """The w-weighted mean with its interval, over rows or clusters; none (infinite ends) where a loss is unbounded."""
    w = np.ones(len(values.value)) if weights is None else weights
    counted = w > 0
    if not counted.all():  # a row that does not count may have an infinite loss
        values = values.counted(counted)
        groups = None if groups is None else (groups[0][counted], groups[1])
        w = w[counted]
    trouble = values.trouble
    estimate = float(w @ values.value / w.sum())
    if not trouble and values.few_matter and values.carriers(w) < _FEW_CARRIERS:
        trouble = CARRIED_BY_FEW
    if trouble in (INFINITE, UNBOUNDED, CARRIED_BY_FEW):
        return MeanInterval(estimate, -np.inf, np.inf, np.nan, np.nan, trouble)
    units = _Units.of(values, w, groups)
    alpha = (1 - level) / comparisons
    if trouble:
        return _t_interval(units, estimate, alpha, comparisons, trouble)
    z = float(-ndtri(alpha / 2))
    centre, se = units.ends(z * z)
    half = units.factor(z) * se
    low, high = min(centre - half, estimate), max(centre + half, estimate)
    return MeanInterval(estimate, low, high, se, min(1.0, comparisons * units.pvalue()))


def _t_interval(units: _Units, estimate: float, alpha: float, comparisons: int, note: str) -> MeanInterval:
    deviation = units.total - units.weight * estimate
    number = int(np.count_nonzero(units.weight))
    freedom = max(number - 1, 1)
    se = float(np.sqrt(np.square(deviation).sum() * number / freedom) / units.weight.sum())
    if se <= 1e-12 * abs(estimate):
        return MeanInterval(estimate, -np.inf, np.inf, np.nan, np.nan, "the difference is the same in every row")
    half = float(stdtrit(freedom, 1 - alpha / 2)) * se
    pvalue = min(1.0, comparisons * float(2 * stdtr(freedom, -abs(estimate) / se)))
    return MeanInterval(estimate, estimate - half, estimate + half, se, pvalue, note)


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

    @cached_property
    def _moments(self) -> tuple[float, float, float, float, float]:
        """Σ T, Σ W, Σ T², Σ T·W and Σ W²: all that ends need of the units."""
        t, w = self.total, self.weight
        return float(t.sum()), float(w.sum()), float(t @ t), float(t @ w), float(w @ w)

    def _squares_about(self, centre: float) -> float:
        """Σ (T − W·centre)²."""
        _, _, tt, tw, ww = self._moments
        return max(tt - 2 * centre * tw + centre * centre * ww, 0.0)

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
            total, weight = (np.bincount(groups[0], weights=x, minlength=groups[1]) for x in (total, w))
            size = float(np.square(weight).sum() / np.square(w).sum())
        return _Units(total, weight, float(np.square(w).sum() / w.sum()), size, own, hi, lo)

    def factor(self, z: float) -> float:
        """The t quantile at the level of the normal quantile z, with the effective number of units."""
        _, weight, _, _, squares = self._moments
        return float(-stdtrit(max(weight**2 / squares - 1, 1.0), float(ndtr(-z))))

    def ends(self, zz: float) -> tuple[float, float]:
        """Centre and standard error after z²/2 pseudo-rows at hi and at lo."""
        v = self.pseudo
        total, weight, *_ = self._moments
        if self.size > 1:  # design effect, drawn towards clusters that go together by z² pseudo-surprises
            prior = zz * (v * (self.hi - self.lo) / 2) ** 2
            seen = self._squares_about(total / weight)
            effect = (seen + self.size * prior) / (self.own + prior) if self.own + prior > 0 else 1.0
            v *= min(max(effect, 1.0), self.size)
        whole = weight + v * zz
        centre = (total + v * zz * (self.hi + self.lo) / 2) / whole
        squares = self._squares_about(centre)
        squares += v * v * zz / 2 * ((self.hi - centre) ** 2 + (self.lo - centre) ** 2)
        return float(centre), float(np.sqrt(squares) / whole)

    def pvalue(self) -> float:
        """2(1 − Φ(z)) at the least z whose interval touches 0; the pseudo-rows grow with z."""
        if not np.any(self.total) and self.hi == self.lo == 0:
            return 1.0

        def beyond(z: float) -> bool:
            centre, se = self.ends(z * z)
            return abs(centre) > self.factor(z) * se

        grid = np.linspace(0.02, 8, 200).tolist()
        inside = next((i for i, z in enumerate(grid) if not beyond(z)), None)
        if inside is None:
            return float(2 * ndtr(-grid[-1]))
        low, high = (grid[inside - 1] if inside else 0.0), grid[inside]
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if beyond(middle) else (low, middle)
        return float(2 * ndtr(-high))
