"""Intervals of a mean loss, and of a mean loss difference, that keep their level when few outcomes surprise.

Where nearly every row is predicted right, the losses seen hardly vary, and a t interval is far too short. But given the
predictions, row i's value d_i(y) is known for every label y that could have come. As Agresti and Coull do for a
proportion, z²/2 rows are added at `hi` and z²/2 at `lo`, z of the joint level; mean and variance of the n + z² rows
give the interval. With q the mean of the predictions, row i's own range is mean ± sd of d_i(y) over labels in
proportion to q_y(1 − q_y): for two classes exactly its two values; for many, labels that nobody believes in do not
decide. hi and lo are means over rows by how much each can surprise, Σ_y q_y(1 − q_y) times that sd.

Those means believe the predictions. An over-confident model's surprises cost more than it expects: rows that it is sure
of hardly enter hi. A loss without a bound, the cross-entropy, therefore has an upper end of at least
mean − ln(α/2)/n · Σ range·high/Σ range: surprises that have not been seen come at a rate of up to −ln(α/2)/n, and cost
what a row's own range says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ..core.arrays import HOST, LIBRARY, at_columns, compiled_loops, doubled, indices
from ..core.data import both_classes
from ..core.dispatch import DISPATCH
from ..core.losses import LOSSES
from ..core.result import Result
from ..core.sample import unit_weights
from ..core.types import Array, Groups
from ..core.words import p_text

_BLOCK = 1 << 17  # numbers

INFINITE = "a loss is infinite: an observed label had probability 0"
UNBOUNDED = "a prediction gives a possible label probability 0, so its loss is unbounded"
FEW_ROWS = 10.0
ROUNDING = 1e-12
"""A difference of losses that is smaller comes from the order of sums."""
SCARCE = "the loss is unbounded, and fewer than ten rows make up most of its variance"
NO_BOUND = "the outcomes are unbounded: valid only if the sample contains rare large losses"


@dataclass(frozen=True)
class Values:
    """Per row: a loss or a difference of two, where it would lie if its label surprised, and how much it can surprise.

    `high` is None where nothing bounds the outcomes.
    """

    value: Array
    high: Array | None = None
    low: Array | None = None
    surprise: Array | None = None
    most: float = np.inf
    """The largest that a label could have given."""

    def take(self, rows: Array | slice) -> Values:
        """Some of the rows."""
        high, low, surprise = (None if x is None else x[rows] for x in (self.high, self.low, self.surprise))
        return replace(self, value=self.value[rows], high=high, low=low, surprise=surprise)


@dataclass(frozen=True)
class Losses:
    """The values of many rows, computed in blocks of rows, so that millions of rows need no array of all."""

    number: int
    of: Callable[[slice], Values]
    step: int = _BLOCK
    """Rows of a block."""
    least: float = -np.inf
    """The least that a mean of them can be; from it on, the largest is what a label could have given."""
    unbounded: bool = False

    def __iter__(self) -> Iterator[tuple[slice, Values]]:
        """Blocks of rows and their values."""
        for start in range(0, self.number, self.step):
            rows = slice(start, min(self.number, start + self.step))
            yield rows, self.of(rows)


def given_values(value: Array) -> Losses:
    """Losses of rows without their values for other labels."""
    return Losses(len(value), lambda rows: Values(value[rows]))


def loss_values(y: Array, first: Array, second: Array | None, loss: str | Callable[[Array], Array]) -> Losses:
    """Return losses of one model, or first minus second, with their ranges; (n,) probabilities are of class 1 of two.

    Labels to which both of two models give probability 0 are left out of the range.
    """
    least, unbounded = 0.0 if second is None else -np.inf, loss == "cross_entropy"
    if second is None and isinstance(loss, str) and (compiled := _compiled(loss, y, first)) is not None:
        return Losses(len(first), compiled, _BLOCK, least, unbounded)
    table = LOSSES[loss].by_label if isinstance(loss, str) else loss

    def of(rows: slice) -> Values:
        mean = a = float_columns(first[rows])
        each = table(a)
        if second is not None:
            b = float_columns(second[rows])
            with np.errstate(invalid="ignore"):  # where both are infinite
                each = each - table(b)
            mean = (a + b) / 2
        came, xp = y[rows], LIBRARY[type(each)]
        if came.ndim == 1:
            value = at_columns(each, indices(came))
        else:  # the mean over a label distribution; labels of share 0 do not count, whatever they cost
            value = (came * xp.where(came > 0, each, 0.0)).sum(axis=1)
        high, low, surprise = _row_ranges(xp.where(xp.isnan(each), 0.0, each), mean)
        return Values(value, high, low, surprise, float(each.max()))

    block = _BLOCK if isinstance(first, HOST) else DISPATCH.device_numbers >> 2
    step = max(1, block // (first.shape[1] if first.ndim == 2 else 2))
    return Losses(len(first), of, step, least, unbounded)


def _compiled(loss: str, y: Array, proba: Array) -> Callable[[slice], Values] | None:
    """The same values in compiled loops, for many labels of several classes where numba is installed."""
    if not isinstance(proba, HOST) or proba.size < DISPATCH.compiled_reports or proba.ndim == 1 or proba.shape[1] == 2:
        return None
    loops = compiled_loops("_columns")
    if loops is None or y.ndim == 2 or loss not in loops.KINDS or proba.dtype.name not in ("float32", "float64"):
        return None
    return lambda rows: Values(*loops.row_losses(loss, y[rows], proba[rows]))


def view_losses(outcomes: Array, first: Array, second: Array | None, shares: Array | None = None) -> Losses:
    """Σ_j (p_j − y_j)²/k of rows with several labels, or first minus second. How the labels of a row depend on each
    other is unknown, so its range is that of all labels surprising at once. `outcomes` (n,) are the losses themselves,
    where outcomes have weights; `shares` is what each view counts."""
    each = 1.0 if shares is None else shares

    def of(rows: slice) -> Values:
        y, mean = outcomes[rows].astype(np.float64), first[rows].astype(np.float64)
        absent, present = np.square(mean), np.square(1 - mean)
        if second is not None:
            other = second[rows].astype(np.float64)
            absent, present, mean = absent - np.square(other), present - np.square(1 - other), (mean + other) / 2
        value = y
        if y.ndim == 2:
            value = np.square(first[rows] - y) - (0.0 if second is None else np.square(second[rows] - y))
            value = (each * value).mean(axis=1)
        high, low = ((each * x).mean(axis=1) for x in (np.maximum(absent, present), np.minimum(absent, present)))
        surprise = (each * np.maximum(2 * mean * (1 - mean), 0.0)).mean(axis=1)
        return Values(value, high, low, surprise, float(high.max()) if y.ndim == 2 else np.inf)

    step = max(1, _BLOCK // first.shape[1])
    return Losses(len(first), of, step, 0.0 if second is None else -np.inf)


def float_columns(proba: Array) -> Array:
    """Distributions over classes in float64; of one probability per row both columns."""
    return doubled(proba if proba.ndim == 2 else both_classes(proba), copy=True)  # type: ignore[no-any-return]  # an array or a tensor


def _row_ranges(each: Array, mean: Array) -> tuple[Array, Array, Array]:
    """Mean + sd and mean − sd of each row's values over labels in proportion to q(1 − q), and Σ q(1 − q)."""
    xp = LIBRARY[type(each)]
    share = xp.clip(mean * (1 - mean), 0.0, None)
    surprise = share.sum(axis=1)
    if each.shape[1] == 2 and xp.isfinite(each).all():  # mean ± sd are the two values themselves
        return xp.amax(each, 1), xp.amin(each, 1), surprise
    share[surprise <= 0] = 1.0  # predictions of exactly 0 and 1: every label alike
    share /= share.sum(axis=1, keepdims=True)
    endless = xp.isinf(each).any(axis=1)
    finite = xp.where(xp.isinf(each), 0.0, each)
    centre = xp.linalg.vecdot(share, finite)
    sd = xp.sqrt(xp.linalg.vecdot(share, xp.square(finite - centre[:, None])))
    sd[endless] = np.inf
    return centre + sd, centre - sd, surprise


def top_label_table(u: Array, correction: float = 1.0) -> Array:
    """(n, 2): the confidence loss of rows with confidence u if the top class is wrong, and if it is right."""
    return LIBRARY[type(u)].column_stack([correction + u * u, (1 - u) ** 2])  # type: ignore[no-any-return]  # an array or a tensor


def top_label_values(z: tuple[Array, Array], c: tuple[Array, Array], correction: float = 1.0) -> Losses:
    """The difference of confidence losses where only (correct?, confidence) of each model is known."""

    def of(rows: slice) -> Values:
        u, v = (doubled(confidence[rows]) for confidence in c)
        first, second = top_label_table(u, correction), top_label_table(v, correction)
        where = LIBRARY[type(u)].where
        came = [where(right[rows], t[:, 1], t[:, 0]) for right, t in zip(z, (first, second), strict=True)]
        mean = (u + v) / 2
        return Values(came[0] - came[1], first[:, 0] - second[:, 1], first[:, 1] - second[:, 0], 2 * mean * (1 - mean))

    return Losses(len(c[0]), of)


@final
@dataclass(frozen=True, repr=False, eq=False)
class IntervalEstimate(Result):
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
        """Whether the interval leaves out 0 and may be trusted; differences of rounding errors are none."""
        return not self.note and not self.low <= 0 <= self.high and abs(self.estimate) > ROUNDING

    def turned(self) -> IntervalEstimate:
        """The part of the difference taken the other way round."""
        return IntervalEstimate(-self.estimate, -self.high, -self.low, self.se, self.pvalue, self.note)

    def __repr__(self) -> str:
        if not np.isfinite(self.se):
            return f"{self.estimate:+.4g} (no interval: {self.note})"
        return f"{self.estimate:+.4g} [{self.low:+.4g}, {self.high:+.4g}] (se {self.se:.2g}, {p_text(self.pvalue)})"


def mean_interval(
    losses: Losses,
    weights: Array | None,
    groups: Groups | None,
    level: float,
    comparisons: int = 1,
    *,
    test: bool = True,
) -> IntervalEstimate:
    """The w-weighted mean with its interval, over rows or clusters; none (infinite ends) where a loss is unbounded.

    `test`: with the p-value of a mean of 0, which takes most of the time.
    """
    w = None if weights is None else unit_weights(weights)["weights"]
    sums = _Sums(None if groups is None else np.zeros((2, groups[1])))
    for rows, values in losses:
        own = LIBRARY[type(values.value)].ones_like(values.value) if w is None else w[rows]
        cluster = None if groups is None else groups[0][rows]
        if w is not None and not own.all():  # a row that does not count may have an infinite loss
            counted = own > 0
            values, own = values.take(counted), own[counted]
            cluster = None if cluster is None else cluster[counted]
        sums.add(values, own, cluster)
    trouble = sums.trouble(losses.unbounded)
    estimate = sums.total / sums.weight
    if trouble in (INFINITE, UNBOUNDED, SCARCE):
        return IntervalEstimate(estimate, -np.inf, np.inf, np.nan, np.nan, trouble)
    alpha = (1 - level) / comparisons
    if trouble:
        return _t_interval(sums.units, estimate, alpha, comparisons, trouble)
    units = Units.of(sums)
    z = float(-ndtri(alpha / 2))
    centre, se = map(float, units.ends(z * z))
    half = float(units.factor(z)) * se
    low, high = max(centre - half, losses.least), min(centre + half, np.inf if losses.least < 0 else sums.most)
    by, by_high = sums.by[1, :2].tolist()
    if losses.unbounded and losses.least >= 0 and by > 0:
        unseen = float(-np.log(alpha / 2) / units.effective * by_high / by)
        high = max(high, min(estimate + unseen, sums.most))
    low, high = min(low, estimate), max(high, estimate)
    return IntervalEstimate(estimate, low, high, se, min(1.0, comparisons * units.pvalue()) if test else np.nan)


def _t_interval(units: Moments, estimate: float, alpha: float, comparisons: int, note: str) -> IntervalEstimate:
    freedom = max(units.number - 1, 1)
    seen, _ = units.about(estimate)
    se = float(np.sqrt(seen * units.number / freedom) / units.weight)
    if se <= 1e-12 * abs(estimate):
        return IntervalEstimate(estimate, -np.inf, np.inf, np.nan, np.nan, "the difference is the same in every row")
    return t_estimate(estimate, se, freedom, alpha, comparisons, note)


def t_estimate(
    estimate: float, se: float, freedom: int, alpha: float, comparisons: int = 1, note: str = ""
) -> IntervalEstimate:
    """An estimate with its t interval at level 1 − alpha, and a p-value corrected for so many comparisons."""
    half = float(stdtrit(freedom, 1 - alpha / 2)) * se
    pvalue = min(1.0, comparisons * float(2 * stdtr(freedom, -abs(estimate) / se)))
    return IntervalEstimate(estimate, estimate - half, estimate + half, se, pvalue, note)


@dataclass(frozen=True)
class Moments:
    """Of rows or clusters with totals t = w·value: sums about their mean, which add up whatever the blocks.

    Means and sums of values may be arrays, with one entry per threshold of a decision.
    """

    number: int = 0
    """How many have weight."""
    weight: float = 0.0
    weight_sq: float = 0.0
    mean: Any = 0.0
    """Σ t/Σ w."""
    seen: Any = 0.0
    """Σ (t − w·mean)²."""
    product: Any = 0.0
    """Σ (t − w·mean)·w."""

    @staticmethod
    def of(total: Array, weight: Array) -> Moments:
        whole = float(weight.sum())
        mean = float(total.sum()) / whole if whole > 0 else 0.0
        deviation = total - weight * mean
        seen, product = float((deviation * deviation).sum()), float((deviation * weight).sum())
        return Moments(int((weight != 0).sum()), whole, float((weight * weight).sum()), mean, seen, product)

    def about(self, mean: Any) -> tuple[Any, Any]:
        """`seen` and `product` about another mean."""
        moved = mean - self.mean
        seen = self.seen - 2 * moved * self.product + moved**2 * self.weight_sq
        return np.maximum(seen, 0.0), self.product - moved * self.weight_sq

    def plus(self, other: Moments) -> Moments:
        """The sums of both."""
        if not self.number:
            return other
        whole = self.weight + other.weight
        mean = (self.mean * self.weight + other.mean * other.weight) / whole if whole > 0 else 0.0
        (seen, product), (more, another) = self.about(mean), other.about(mean)
        weight_sq = self.weight_sq + other.weight_sq
        number = self.number + other.number
        return Moments(number, whole, weight_sq, mean, float(seen + more), product + another)


@dataclass(eq=False)
class _Sums:
    """The sums over rows that an interval needs, added block by block."""

    clusters: Array | None
    """(2, clusters): w·value and w of each cluster."""
    rows: Moments = Moments()
    total: float = 0.0
    weight: float = 0.0
    most: float = 0.0
    infinite: bool = False
    bounded: bool = True
    finite: bool = True
    by: Any = 0.0
    """Σ b, Σ b·high, Σ b·low, Σ b·range and Σ (b·range)² with b = w·surprise·range, and with b = w·range."""

    def add(self, values: Values, w: Array, cluster: Array | None) -> None:
        total = w * values.value
        self.total += float(total.sum())
        self.weight += float(w.sum())
        self.most = max(self.most, values.most)
        isfinite = LIBRARY[type(values.value)].isfinite
        if not isfinite(values.value).all():
            self.infinite = True
            return
        self.rows = self.rows.plus(Moments.of(total, w))
        if cluster is not None and self.clusters is not None:
            self.clusters += [np.bincount(cluster, x, self.clusters.shape[1]) for x in (total, w)]
        if values.high is None or values.low is None or values.surprise is None:
            self.bounded = False
            return
        if not (isfinite(values.high).all() and isfinite(values.low).all()):
            self.finite = False
            return
        spread = values.high - values.low
        stack = LIBRARY[type(spread)].stack
        sums = stack([spread, spread * values.high, spread * values.low, spread * spread])
        each = stack([w * values.surprise, w])[:, None] * sums
        self.by = self.by + np.column_stack([each.sum(2).tolist(), (each[:, 3] ** 2).sum(1).tolist()])

    @cached_property
    def ranges(self) -> Array:
        """Sums by how much each row can surprise; where predictions are exactly 0 and 1, by its range alone."""
        return np.asarray(self.by[0] if self.by[0, 0] > 0 else self.by[1])

    @property
    def units(self) -> Moments:
        """The sums of rows, or of clusters where there are any."""
        return self.rows if self.clusters is None else Moments.of(*self.clusters)

    def trouble(self, unbounded: bool) -> str:
        """Why there is no interval, or why a t interval takes its place; empty otherwise."""
        if self.infinite:
            return INFINITE
        if not self.bounded:
            return NO_BOUND
        if not self.finite:
            return UNBOUNDED
        carried, carried_sq = self.ranges[3:]
        return SCARCE if unbounded and carried**2 < FEW_ROWS * carried_sq else ""


@dataclass(frozen=True)
class Units:
    """Sums of rows or clusters with the weight and values of pseudo-rows."""

    units: Moments
    pseudo: float
    """The weight of a pseudo-row before the design effect."""
    size: Any
    """Effective rows per cluster."""
    own: Any
    """Σ of squares of rows about their mean."""
    hi: Any
    lo: Any

    @staticmethod
    def of(sums: _Sums) -> Units:
        rows, (by, high, low) = sums.rows, sums.ranges[:3].tolist()
        hi, lo = (high / by, low / by) if by > 0 else (0.0, 0.0)
        units = sums.units
        size = 1.0 if sums.clusters is None else units.weight_sq / rows.weight_sq
        return Units(units, rows.weight_sq / rows.weight, size, rows.seen, hi, lo)

    @cached_property
    def effective(self) -> float:
        """The effective number of rows or clusters."""
        return self.units.weight**2 / self.units.weight_sq

    def factor(self, z: Any) -> Any:
        """The t quantile at the level of the normal quantile z, with as many degrees as effective units, less one."""
        freedom = max(self.effective - 1, 1.0)
        return -stdtrit(freedom, ndtr(-z))

    def ends(self, zz: Any) -> tuple[Any, Any]:
        """Centre and standard error after z²/2 pseudo-rows at hi and at lo."""
        v: Any = self.pseudo
        units = self.units
        if np.any(self.size > 1):  # design effect, drawn towards clusters that go together by z² pseudo-surprises
            prior = zz * (v * (self.hi - self.lo) / 2) ** 2
            effect = (units.seen + self.size * prior) / np.maximum(self.own + prior, 1e-300)
            v = v * np.clip(effect, 1.0, self.size)
        whole = units.weight + v * zz
        centre = (units.mean * units.weight + v * zz * (self.hi + self.lo) / 2) / whole
        squares, _ = units.about(centre)
        squares = squares + v * v * zz / 2 * ((self.hi - centre) ** 2 + (self.lo - centre) ** 2)
        return centre, np.sqrt(squares) / whole

    def pvalue(self) -> float:
        """2(1 − Φ(z)) at the least z whose interval touches 0; the pseudo-rows grow with z."""
        if self.units.mean == self.units.seen == self.hi == self.lo == 0:
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
