"""Net benefit and the loss L_t of acting at a threshold: estimates, and bands at each threshold and over all of them.

Who acts where the prediction is at least t loses t by a false alarm and 1 − t by a miss: L_t. Every quantity here is a
difference D(a, b) = mean of (a acts − b acts)(y − o(1 − y)), o = t/(1 − t), of two ways to act: the net benefit of
a model is its difference to acting on nobody, and L_t = (1 − t)·D(perfect, model), where perfect acts on the events
alone. So all of them are linear in the weights of rows with and without the event that a model acts on at t. One matrix
of second moments of those sums gives every variance, and draws of normal sums with that matrix, which is the multiplier
bootstrap with normal multipliers, the quantiles of a maximum over thresholds.

Intervals add pseudo-rows (truecal.inference.mean_losses): few rows may act at a threshold, and events may be rare.
With the prevalence of another population, rows with and without the event are two samples, and each has pseudo-rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from ..core.types import Array, Groups
from .mean_losses import IntervalEstimate, Losses, Moments, Units, Values, mean_interval

Terms = list[tuple[Array, Array]]
"""Entries of the sums and coefficients, per threshold."""
MOST_POINTS = 2000
"""Thresholds times models: the matrix of second moments has a row for each, with and without the event."""
_BLOCK = 1 << 21  # numbers
_HIGHEST = 12.0  # a normal quantile beyond every p-value that draws can tell


@dataclass(frozen=True, eq=False)
class Acting:
    """How much weight every model acts on at every threshold, by outcome, and the second moments of these sums.

    Entry 0 of a model is the sum over all rows, entry j that over rows with a prediction of at least threshold j. The
    last entry is 0: acting on nobody.
    """

    thresholds: Array
    models: int
    sums: Array
    rows: Array
    """Second moments over rows."""
    units: Array
    """Second moments over clusters, or over rows."""
    prevalence: float | None
    n_units: int

    @staticmethod
    def of(
        outcomes: Sequence[Array],
        predictions: Sequence[Array],
        thresholds: Array,
        weights: Array | None = None,
        groups: Groups | None = None,
        prevalence: float | None = None,
    ) -> Acting:
        """The sums of validated predictions; each model may have outcomes of its own."""
        n, steps = len(predictions[0]), len(thresholds) + 1
        w = np.ones(n) if weights is None else weights
        cells = [
            np.searchsorted(thresholds.astype(np.result_type(p, np.float32)), p, side="right")
            + steps * y.astype(np.intp)
            for y, p in zip(outcomes, predictions, strict=True)
        ]
        size = 2 * steps * len(cells)
        rows = np.zeros((size + 1, size + 1))
        square = w * w
        for k, first in enumerate(cells):
            for m, second in enumerate(cells[: k + 1]):
                joint = np.bincount(first * 2 * steps + second, square, (2 * steps) ** 2)
                block = _at_least(_at_least(joint.reshape(2 * steps, 2 * steps), steps).T, steps).T
                a, b = 2 * steps * k, 2 * steps * m
                rows[a : a + 2 * steps, b : b + 2 * steps] = block
                rows[b : b + 2 * steps, a : a + 2 * steps] = block.T
        sums = np.append(np.concatenate([_at_least(np.bincount(c, w, 2 * steps), steps) for c in cells]), 0.0)
        units = rows if groups is None else _of_clusters(cells, w, groups, steps)
        return Acting(thresholds, len(cells), sums, rows, units, prevalence, n if groups is None else groups[1])

    def place(self, way: int | str, event: int, model: int = 0) -> Array:
        """Entries, per threshold, of a way to act: the number of a model, "all", "none" or "perfect"."""
        steps = len(self.thresholds)
        if way == "none" or (way == "perfect" and not event):
            return np.full(steps, len(self.sums) - 1)
        base = (steps + 1) * (2 * (way if isinstance(way, int) else model) + event)
        return base + (np.arange(1, steps + 1) if isinstance(way, int) else np.zeros(steps, dtype=np.intp))


def _at_least(counts: Array, steps: int) -> Array:
    """Along the first axis, sums over the cells from each threshold on, of rows without and with the event."""
    parts = counts.reshape(2, steps, *counts.shape[1:])[:, ::-1].cumsum(axis=1)[:, ::-1]
    return np.asarray(parts.reshape(counts.shape))


def _of_clusters(cells: Sequence[Array], w: Array, groups: Groups, steps: int) -> Array:
    """Second moments of the sums of clusters, some clusters at a time."""
    order = np.argsort(groups[0], kind="stable")
    cluster = groups[0][order]
    size = 2 * steps * len(cells)
    found = np.zeros((size + 1, size + 1))
    step = max(1, _BLOCK // size)
    for start in range(0, groups[1], step):
        number = min(step, groups[1] - start)
        some = order[slice(*np.searchsorted(cluster, [start, start + number]))]
        parts = []
        for cell in cells:
            code = cell[some] * number + groups[0][some] - start
            parts.append(_at_least(np.bincount(code, w[some], 2 * steps * number).reshape(2 * steps, number), steps))
        totals = np.concatenate(parts)
        found[:size, :size] += totals @ totals.T
    return found


@dataclass(frozen=True, eq=False)
class Contrast:
    """D(a, b) at every threshold: its sums, variances and intervals."""

    acting: Acting
    a: int | str
    b: int | str

    @property
    def _models(self) -> tuple[int, int]:
        """Whose outcomes "all" and "perfect" mean."""
        own = [way for way in (self.a, self.b) if isinstance(way, int)] or [0]
        return own[0], own[-1]

    def _ends_of(self, event: int) -> tuple[Array, Array]:
        first, second = self._models
        return self.acting.place(self.a, event, first), self.acting.place(self.b, event, second)

    @property
    def odds(self) -> Array:
        t = self.acting.thresholds
        return np.asarray(t / (1 - t))

    def _totals(self) -> tuple[int, int]:
        """Entries of the sums over all rows without and with the event."""
        model = self._models[0]
        return tuple(int(self.acting.place("all", event, model)[0]) for event in (0, 1))  # type: ignore[return-value]

    def net(self, event: int) -> Array:
        """The weight that a acts on and b does not, less the other way round."""
        a, b = self._ends_of(event)
        return np.asarray(self.acting.sums[a] - self.acting.sums[b])

    @property
    def shares(self) -> tuple[float, float]:
        """What a row without the event, and one with it, counts in a mean."""
        without, with_ = (float(self.acting.sums[i]) for i in self._totals())
        if self.acting.prevalence is None:
            return 1 / (without + with_), 1 / (without + with_)
        return (1 - self.acting.prevalence) / without, self.acting.prevalence / with_

    @cached_property
    def estimate(self) -> Array:
        without, with_ = self.shares
        return with_ * self.net(1) - self.odds * without * self.net(0)

    def centring(self) -> tuple[Array, Array]:
        """What is subtracted from a row without the event, and from one with it, in the influence of that row."""
        if self.acting.prevalence is None:
            share = self.estimate * self.shares[0]
            return share, share
        without, with_ = (float(self.acting.sums[i]) for i in self._totals())
        return -self.odds * self.shares[0] * self.net(0) / without, self.shares[1] * self.net(1) / with_

    def terms(self) -> Terms:
        """Entries and coefficients whose sum over a row or cluster is its influence on the estimate."""
        (a0, b0), (a1, b1) = self._ends_of(0), self._ends_of(1)
        without, with_ = self.shares
        low, high = self.centring()
        t0, t1 = (np.full(len(a0), i) for i in self._totals())
        positive, negative = np.full(len(a1), with_), self.odds * without
        return [(a1, positive), (b1, -positive), (a0, -negative), (b0, negative), (t1, -high), (t0, -low)]

    def sd(self) -> Array:
        """The standard error, without pseudo-rows."""
        return np.sqrt(np.maximum(_form(self.acting.units, self.terms(), self.terms()), 0.0))

    @cached_property
    def alike(self) -> Array:
        """At which thresholds no row is decided differently."""
        return np.asarray(sum(_square(self.acting.rows, *self._ends_of(event)) for event in (0, 1)) <= 0)

    def _signs(self) -> tuple[float, float]:
        """Whether a may act where b does not, and the other way round; 0 and 0 where both always act alike."""
        if self.alike.all() and isinstance(self.a, int) and isinstance(self.b, int):  # copies of one model
            return 0.0, 0.0
        return float(self.b not in ("all", "perfect")), float(self.a not in ("all", "perfect") and self.b != "none")

    @cached_property
    def _strata(self) -> list[tuple[Array | float, Units]]:
        """Samples whose means make the estimate, with their factors: all rows, or those with and without the event."""
        one = np.ones(len(self.acting.thresholds))
        (a0, b0), (a1, b1) = self._ends_of(0), self._ends_of(1)
        t0, t1 = (np.full(len(a0), i) for i in self._totals())
        plus, minus = self._signs()
        sums = self.acting.sums
        if self.acting.prevalence is None:
            value = [(a1, one), (b1, -one), (a0, -self.odds), (b0, self.odds)]
            hi, lo = self._range(plus, minus)
            total = [(t1, one), (t0, one)]
            differ = [(a1, one), (b1, -one), (a0, one), (b0, -one)]
            if self.a == "perfect":  # every row, by what it may lose: o where it is acted on, else 1
                differ = [*total, (b1, self.odds - 1), (b0, self.odds - 1)]
            return [(1.0, self._units(value, total, hi, lo, differ))]
        found: list[tuple[Array | float, Units]] = []
        for a, b, t, factor, perfect in (
            (a1, b1, t1, self.shares[1] * sums[t1[0]], 1.0),
            (a0, b0, t0, -self.odds * self.shares[0] * sums[t0[0]], 0.0),
        ):
            if self.a == "perfect":
                hi, lo = perfect * one, (perfect - 1) * one
            else:
                hi, lo = plus * one, -minus * one
            found.append((factor, self._units([(a, one), (b, -one)], [(t, one)], hi, lo, [(a, one), (b, -one)])))
        return found

    def _range(self, plus: float, minus: float) -> tuple[Array, Array]:
        """The highest and lowest value, averaged over the rows on which the decisions differ."""
        o, rows = self.odds, self.acting.rows
        if self.a == "perfect":  # a row acted on costs o or nothing, another one 1 or nothing
            acted = sum(np.diag(rows)[self.acting.place(self.b, event)] for event in (0, 1))
            every = sum(rows[i, i] for i in self._totals())
            share, one = acted / every, every / sum(self.acting.sums[i] for i in self._totals()) ** 2
            # where nearly all rows are acted on, a miss is rare and costs 1/o times more than a false alarm: highest
            # values are averaged by size, with a row more of both, or the interval would end below misses not seen
            false_alarm, miss = (share + one) * o, 1 - share + one
            return (false_alarm * o + miss) / (false_alarm + miss), np.zeros(len(o))
        squares = sum(_square(rows, *self._ends_of(event)) for event in (0, 1))
        nets = sum(
            rows[a, t] - rows[b, t] for (a, b), t in zip(map(self._ends_of, (0, 1)), self._totals(), strict=True)
        )
        least = 1e-9 * float(max(rows.max(), 1e-300))
        up, down = plus * ((squares + nets) / 2 + least), minus * ((squares - nets) / 2 + least)
        every = np.maximum(up + down, 1e-300)
        return (up + down * o) / every, -(up * o + down) / every

    def _units(self, value: Terms, total: Terms, hi: Array, lo: Array, differ: Terms) -> Units:
        sums, rows, units = self.acting.sums, self.acting.rows, self.acting.units
        weight = float(sum(sums[i[0]] for i, _ in total))
        mean = sum(c * sums[i] for i, c in value) / weight
        made = []
        for matrix in (rows, units):
            square = float(_form(matrix, total, total)[0])
            product = _form(matrix, value, total) - mean * square
            seen = _form(matrix, value, value) - mean * (product + _form(matrix, value, total))
            made.append(Moments(self.acting.n_units, weight, square, mean, np.maximum(seen, 0.0), product))
        # effective rows per cluster, of those that are decided differently: where none is, of all rows
        one = 0.0 if self.a == "perfect" and self.acting.prevalence is None else 1 / self.acting.n_units
        size, own = (_form(m, differ, differ) + one * _form(m, total, total) for m in (units, rows))
        size = np.maximum(size / np.maximum(own, 1e-300), 1.0)
        return Units(made[1], made[0].weight_sq / weight, size, made[0].seen, hi, lo)

    def ends(self, z: Any) -> tuple[Array, Array]:
        """Centre and half width of the intervals at the level of a normal quantile, or of one per threshold."""
        centre: Any = 0.0
        square: Any = 0.0
        strata = self._strata
        for factor, units in strata:
            middle, se = units.ends(z * z)
            centre, square = centre + factor * middle, square + (factor * se) ** 2
        if len(strata) == 2:  # clusters may have rows of both samples
            square = square + np.maximum(self.sd() ** 2 - sum((f * _se(u)) ** 2 for f, u in strata), 0.0)
        factor = np.maximum.reduce([np.broadcast_to(units.factor(z), np.shape(square)) for _, units in strata])
        return centre, factor * np.sqrt(square)

    def interval(self, z: float) -> tuple[Array, Array]:
        """Ends at the level of a normal quantile; they hold the estimate."""
        centre, half = self.ends(z)
        return np.minimum(centre - half, self.estimate), np.maximum(centre + half, self.estimate)

    def beyond(self) -> Array:
        """The normal quantile at which the interval of each threshold begins to touch 0."""
        low, high = np.zeros(len(self.acting.thresholds)), np.full(len(self.acting.thresholds), _HIGHEST)
        for _ in range(45):
            middle = (low + high) / 2
            centre, half = self.ends(middle)
            apart = np.abs(centre) > half
            low, high = np.where(apart, middle, low), np.where(apart, high, middle)
        return np.asarray(low)


def _se(units: Units) -> Array:
    return np.asarray(np.sqrt(units.units.seen) / units.units.weight)


def _square(matrix: Array, a: Array, b: Array) -> Array:
    return np.asarray(matrix[a, a] - 2 * matrix[a, b] + matrix[b, b])


def _form(matrix: Array, first: Terms, second: Terms) -> Array:
    """Σ c·d·matrix[i, j] at every threshold."""
    total: Any = 0.0
    for i, c in first:
        for j, d in second:
            total = total + c * d * matrix[i, j]
    return np.asarray(total)


def largest(contrasts: Sequence[Contrast], draws: int, seed: int) -> Array:
    """(draws, contrasts): the largest |D − estimate|/se over the thresholds, of normal sums with the second moments."""
    matrix = contrasts[0].acting.units
    free = np.flatnonzero(np.diag(matrix) > 0)
    ridged = matrix.copy()
    ridged[free, free] += 1e-11 * float(np.diag(matrix).max()) * len(free)
    root = np.zeros((len(matrix), len(free)))
    root[free] = np.linalg.cholesky(ridged[np.ix_(free, free)])
    prepared = []
    for contrast in contrasts:
        terms = contrast.terms()
        size = [(i, np.abs(c)) for i, c in terms]
        seen = _form(matrix, terms, terms) > 1e-12 * _form(np.abs(matrix), size, size)  # else it is a rounding error
        sd = np.sqrt(_form(ridged, terms, terms)[seen])
        prepared.append([(i[seen], c[seen] / sd) for i, c in terms])
    rng = np.random.default_rng(seed)
    found = np.zeros((draws, len(contrasts)))
    for rows in _blocks(draws, len(matrix)):
        sums = root @ rng.standard_normal((len(free), rows.stop - rows.start))
        for k, terms in enumerate(prepared):
            if len(terms[0][0]):
                process = sum(c[:, None] * sums[i] for i, c in terms)
                found[rows, k] = np.abs(process).max(axis=0)
    return found


def _blocks(draws: int, size: int) -> Iterator[slice]:
    step = max(1, _BLOCK // size)
    for start in range(0, draws, step):
        yield slice(start, min(draws, start + step))


def critical(maxima: Array, level: float) -> float:
    """The normal quantile of a simultaneous band from draws of the maximum."""
    rank = int(np.ceil((len(maxima) + 1) * level))
    worst = float(np.partition(maxima, rank - 1)[rank - 1]) if rank <= len(maxima) else float(maxima.max())
    return max(worst, pointwise(level))


def pointwise(level: float) -> float:
    """The normal quantile of an interval at one threshold."""
    return float(-ndtri((1 - level) / 2))


def familywise(z: Array, maxima: Array) -> Array:
    """p-values of contrasts beyond 0 by so much, among all contrasts and thresholds of the draws."""
    ordered = np.sort(maxima)
    above = len(ordered) - np.searchsorted(ordered, z, side="left")
    return np.asarray(np.maximum((1 + above) / (1 + len(ordered)), 2 * ndtr(-z)))


def best_use(
    y: Array, p: Array, share: float, weights: Array | None, groups: Groups | None, level: float
) -> tuple[float, IntervalEstimate, IntervalEstimate]:
    """Acting on the share of rows with the highest predictions: the lowest of these, and the shares of the events that
    are among them, and of them that are events. Of equal predictions at the end each counts in part."""
    w = np.ones(len(p)) if weights is None else weights
    order = np.argsort(-p, kind="stable")
    place = int(np.searchsorted(np.cumsum(w[order]), share * w.sum() * (1 - 1e-12)))
    cut = float(p[order[min(place, len(p) - 1)]])
    above, at = p > cut, p == cut
    part = (share * w.sum() - w[above].sum()) / w[at].sum()
    acted = above + np.clip(part, 0.0, 1.0) * at
    event = y.astype(np.float64)
    if not (w * acted).sum() > 0:
        raise ValueError(f"resource {share:g} acts on no row")

    def mean(value: Array, counted: Array) -> IntervalEstimate:
        one = np.ones(len(value))
        rows = Losses(
            len(value), lambda s: Values(value[s], one[s], 0 * one[s], one[s], 1.0), step=len(value), least=0.0
        )
        return mean_interval(rows, w * counted, groups, level)

    return cut, mean(acted, event), mean(event, acted)
