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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from ..core.types import Array, Groups
from .mean_losses import IntervalEstimate, Losses, Moments, Units, Values, mean_interval

Way = int | str
"""The number of a model, "all", "none" or "perfect"."""
Terms = list[tuple[Array, Any]]
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
        square, size = w * w, 2 * steps

        def joint(first: Array, second: Array) -> Array:
            counts = np.bincount(first * size + second, square, size * size).reshape(size, size)
            return _at_least(_at_least(counts, steps).T, steps).T

        rows = np.pad(np.block([[joint(a, b) for b in cells] for a in cells]), (0, 1))
        sums = np.append(np.concatenate([_at_least(np.bincount(c, w, size), steps) for c in cells]), 0.0)
        units = rows if groups is None else _of_clusters(cells, w, groups, steps)
        return Acting(thresholds, sums, rows, units, prevalence, n if groups is None else groups[1])

    def place(self, way: Way, event: int, model: int = 0) -> Array:
        """Entries, per threshold, of a way to act; "all" and "perfect" mean the outcomes of a model."""
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
    cluster, size = groups[0][order], 2 * steps
    found = np.zeros((size * len(cells),) * 2)
    step = max(1, _BLOCK // len(found))
    for start in range(0, groups[1], step):
        number = min(step, groups[1] - start)
        some = order[slice(*np.searchsorted(cluster, [start, start + number]))]
        codes = [cell[some] * number + groups[0][some] - start for cell in cells]
        counts = [np.bincount(code, w[some], size * number).reshape(size, number) for code in codes]
        totals = np.concatenate([_at_least(part, steps) for part in counts])
        found += totals @ totals.T
    return np.pad(found, (0, 1))


class _Part(NamedTuple):
    """A sample whose mean, times a factor, is a part of a contrast: all rows, or those with or without the event."""

    factor: Any
    value: Terms
    total: Terms
    differ: Terms
    """Rows that are decided differently."""
    highest: Any
    lowest: Any


@dataclass(frozen=True, eq=False)
class Contrast:
    """D(a, b) at every threshold: its variances and intervals."""

    acting: Acting
    a: Way
    b: Way

    @cached_property
    def _ways(self) -> list[tuple[Array, Array, Array]]:
        """Of rows without and with the event: entries of those that a acts on, that b acts on, and of all of them."""
        own = [way for way in (self.a, self.b) if isinstance(way, int)] or [0]
        place = self.acting.place
        return [(place(self.a, e, own[0]), place(self.b, e, own[-1]), place("all", e, own[0])) for e in (0, 1)]

    @cached_property
    def alike(self) -> Array:
        """At which thresholds no row is decided differently."""
        return np.asarray(self._different <= 0)

    @property
    def _different(self) -> Array:
        differ: list[Terms] = [[(a, 1.0), (b, -1.0)] for a, b, _ in self._ways]
        return np.asarray(sum(_form(self.acting.rows, terms, terms) for terms in differ))

    @cached_property
    def _parts(self) -> list[_Part]:
        o, pi = self.acting.thresholds / (1 - self.acting.thresholds), self.acting.prevalence
        (a0, b0, t0), (a1, b1, t1) = self._ways
        without: Terms = [(a0, 1.0), (b0, -1.0)]
        with_: Terms = [(a1, 1.0), (b1, -1.0)]
        perfect = self.a == "perfect"
        plus, minus = self._signs()
        if pi is not None:
            ends = [(1.0, 0.0), (0.0, -1.0)] if perfect else [(plus, -minus)] * 2
            parts = ((pi, with_, t1), ((pi - 1) * o, without, t0))
            return [_Part(c, x, [(t, 1.0)], x, *end) for (c, x, t), end in zip(parts, ends, strict=True)]
        value: Terms = [*with_, (a0, -o), (b0, o)]
        total: Terms = [(t1, 1.0), (t0, 1.0)]
        # of perfect and a model every row, by what it may lose: o where it is acted on, else 1
        differ = [*total, (b1, o - 1), (b0, o - 1)] if perfect else [*with_, *without]
        return [_Part(1.0, value, total, differ, *self._range(o, plus, minus))]

    def _signs(self) -> tuple[float, float]:
        """Whether a may act where b does not, and the other way round; 0 and 0 where both always act alike."""
        if self.alike.all() and isinstance(self.a, int) and isinstance(self.b, int):  # copies of one model
            return 0.0, 0.0
        return float(self.b not in ("all", "perfect")), float(self.a not in ("all", "perfect") and self.b != "none")

    def _range(self, o: Array, plus: float, minus: float) -> tuple[Array, Array]:
        """The highest and lowest value, averaged over the rows on which the decisions differ."""
        rows, sums = self.acting.rows, self.acting.sums
        if self.a == "perfect":  # a row acted on costs o or nothing, another one 1 or nothing
            totals = [t[0] for _, _, t in self._ways]
            every = sum(rows[t, t] for t in totals)
            share = sum(np.diag(rows)[b] for b in (self.acting.place(self.b, event) for event in (0, 1))) / every
            # where nearly all rows are acted on, a miss is rare and costs 1/o times more than a false alarm: highest
            # values are averaged by size, with a row more of both, or the interval would end below misses not seen
            one = every / sum(sums[t] for t in totals) ** 2
            false_alarm, miss = (share + one) * o, 1 - share + one
            return (false_alarm * o + miss) / (false_alarm + miss), np.zeros(len(o))
        squares, nets = self._different, sum(rows[a, t] - rows[b, t] for a, b, t in self._ways)
        least = 1e-9 * float(max(rows.max(), 1e-300))
        up, down = plus * ((squares + nets) / 2 + least), minus * ((squares - nets) / 2 + least)
        every = np.maximum(up + down, 1e-300)
        return (up + down * o) / every, -(up * o + down) / every

    def _mean(self, part: _Part) -> tuple[float, Array]:
        """The weight of a sample and its mean."""
        sums = self.acting.sums
        weight = float(sum(sums[i[0]] for i, _ in part.total))
        return weight, sum(c * sums[i] for i, c in part.value) / weight

    @cached_property
    def estimate(self) -> Array:
        return np.asarray(sum(part.factor * self._mean(part)[1] for part in self._parts))

    def terms(self) -> Terms:
        """Entries and coefficients whose sum over a row or cluster is its influence on the estimate."""
        found: Terms = []
        for part in self._parts:
            weight, mean = self._mean(part)
            share = part.factor / weight * np.ones(len(mean))
            found += [(i, share * c) for i, c in part.value] + [(i, -share * mean * c) for i, c in part.total]
        return found

    def sd(self) -> Array:
        """The standard error, without pseudo-rows."""
        return np.sqrt(np.maximum(_form(self.acting.units, self.terms(), self.terms()), 0.0))

    @cached_property
    def _units(self) -> list[Units]:
        """Rows or clusters of each sample, and what its pseudo-rows are."""
        found, n = [], self.acting.n_units
        for part in self._parts:
            (_, value, total, differ, hi, lo), (weight, mean) = part, self._mean(part)
            made, sizes = [], []
            for matrix in (self.acting.rows, self.acting.units):
                square, across = float(_form(matrix, total, total)[0]), _form(matrix, value, total)
                product = across - mean * square
                seen = _form(matrix, value, value) - mean * (product + across)
                made.append(Moments(n, weight, square, mean, np.maximum(seen, 0.0), product))
                # effective rows per cluster, of those that are decided differently: where none is, of all rows
                one = 0.0 if self.a == "perfect" and self.acting.prevalence is None else 1 / n
                sizes.append(_form(matrix, differ, differ) + one * square)
            size = np.maximum(sizes[1] / np.maximum(sizes[0], 1e-300), 1.0)
            found.append(Units(made[1], made[0].weight_sq / weight, size, made[0].seen, hi, lo))
        return found

    def ends(self, z: Any) -> tuple[Array, Array]:
        """Centre and half width of the intervals at the level of a normal quantile, or of one per threshold."""
        centre: Any = 0.0
        square: Any = 0.0
        alone: Any = 0.0
        for part, units in zip(self._parts, self._units, strict=True):
            middle, se = units.ends(z * z)
            centre, square = centre + part.factor * middle, square + (part.factor * se) ** 2
            alone = alone + part.factor**2 * units.units.seen / units.units.weight**2
        if len(self._parts) == 2:  # clusters may have rows of both samples
            square = square + np.maximum(self.sd() ** 2 - alone, 0.0)
        factor = np.maximum.reduce([np.broadcast_to(units.factor(z), np.shape(square)) for units in self._units])
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


def _form(matrix: Array, first: Terms, second: Terms) -> Array:
    """Σ c·d·matrix[i, j] at every threshold."""
    return np.asarray(sum(c * d * matrix[i, j] for i, c in first for j, d in second))


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
        size: Terms = [(i, np.abs(c)) for i, c in terms]
        seen = _form(matrix, terms, terms) > 1e-12 * _form(np.abs(matrix), size, size)  # else it is a rounding error
        sd = np.sqrt(_form(ridged, terms, terms)[seen])
        prepared.append([(i[seen], c[seen] / sd) for i, c in terms])
    rng = np.random.default_rng(seed)
    found = np.zeros((draws, len(contrasts)))
    step = max(1, _BLOCK // len(matrix))
    for start in range(0, draws, step):
        sums = root @ rng.standard_normal((len(free), min(step, draws - start)))
        for k, terms in enumerate(prepared):
            process = np.abs(sum(c[:, None] * sums[i] for i, c in terms))
            found[start : start + step, k] = process.max(axis=0, initial=0.0)
    return found


def critical(maxima: Array, level: float) -> float:
    """The normal quantile of a simultaneous band from draws of the maximum."""
    rank = min(int(np.ceil((len(maxima) + 1) * level)), len(maxima))
    return max(float(np.partition(maxima, rank - 1)[rank - 1]), pointwise(level))


def pointwise(level: float) -> float:
    """The normal quantile of an interval at one threshold."""
    return float(-ndtri((1 - level) / 2))


def familywise(z: Array, maxima: Array) -> Array:
    """p-values of contrasts beyond 0 by so much, among all contrasts and thresholds of the draws."""
    above = len(maxima) - np.searchsorted(np.sort(maxima), z, side="left")
    return np.asarray(np.maximum((1 + above) / (1 + len(maxima)), 2 * ndtr(-z)))


def best_use(
    y: Array, p: Array, share: float, w: Array, groups: Groups | None, level: float
) -> tuple[float, IntervalEstimate, IntervalEstimate]:
    """Acting on the share of rows with the highest predictions: the lowest of these, and the shares of the events that
    are among them, and of them that are events. Of equal predictions at the end each counts in part."""
    order = np.argsort(-p, kind="stable")
    place = int(np.searchsorted(np.cumsum(w[order]), share * w.sum() * (1 - 1e-12)))
    cut = float(p[order[min(place, len(p) - 1)]])
    above, at = p > cut, p == cut
    acted = above + np.clip((share * w.sum() - w[above].sum()) / w[at].sum(), 0.0, 1.0) * at
    if not (w * acted).sum() > 0:
        raise ValueError(f"resource {share:g} acts on no row")
    one, event = np.ones(len(y)), y.astype(np.float64)

    def mean(value: Array, counted: Array) -> IntervalEstimate:
        rows = Losses(len(y), lambda s: Values(value[s], one[s], 0 * one[s], one[s], 1.0), step=len(y), least=0.0)
        return mean_interval(rows, w * counted, groups, level)

    return cut, mean(acted, event), mean(event, acted)
