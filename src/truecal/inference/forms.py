"""The forms of a calibration test, all computed in the same draws: sums, slopes, bins, neighbourhoods, classes.

Every form is a statistic of outcomes given the predictions, large where they disagree: the square of a weighted sum of
residuals (rank one), the sum over bins of their squares over their variances (Hosmer and Lemeshow 1980), or U over
Poisson cuts. One scalar prediction per row (binary, or the confidence) has Σ r, Σ r·logit u, the automatic number of
quantile bins, and U of Poisson cuts of width .02 and .1 on a grid of cells; several classes add the temperature score Σ
(E_p[log p] − log p_y), the class rates and classwise U. Predictions and outcomes are arrays of numpy, or tensors beside
each other on a GPU.
"""

# What is made of arrays or tensors is seen as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammainccinv

from ..core.arrays import (
    HOST,
    LIBRARY,
    cell_totals,
    compiled_loops,
    device_backend,
    doubled,
    row_products,
    run_sums,
    to_device_of,
    top_class_and_value,
)
from ..core.cells import middle_cells
from ..core.data import wide_blocks
from ..core.dispatch import DISPATCH, THREADS, row_shares
from ..core.rules import auto_bins, quantile_cuts
from ..core.types import Array

CLIP = 1e-6  # logits and logs are cut here: a function of the predictions, so the level stays exact
_GRID = 128  # cells for the Poisson kernels
_MOST_CODES = 1 << 23  # with more predictions than this, single classes are looked at through their rates alone
_CELLS_PER_ROW = 100  # with more cells than this a row, single classes hold nothing that meets
RANK_ONE, RATES, BINS, CLASSES, NEAR = 4.0, 2.0, 2.0, 1.0, 0.5


@dataclass(frozen=True)
class Form:
    """The name of a form, and its share of the level of the test."""

    name: str
    share: float
    signed: bool = False


def _poisson_form(sums: Array, kernel: Array) -> Array:
    """Per row, Σ_ab s_a s_b exp(−distance of a and b/width), in one pass over the atoms: exp is a product of steps.

    No product of matrices: those of a linear algebra library wait for each other where threads draw side by side."""
    if not isinstance(sums, np.ndarray):
        return row_products(sums @ kernel, sums)
    columns = np.ascontiguousarray(sums.T)
    before, total = np.zeros(len(sums)), np.zeros(len(sums))
    for step, own in zip(np.concatenate([[0.0], kernel]), columns, strict=True):
        before *= step
        total += own * (own + 2 * before)
        before += own
    return total


def _class_cells(p: Array, m: int) -> Array:
    """(n, k): the quantile cell of each row and class, those of class j from j·m on."""
    xp, (n, k) = LIBRARY[type(p)], p.shape
    code = xp.empty((n, k), dtype=xp.int32 if isinstance(p, HOST) else xp.int64, device=p.device)
    large = isinstance(p, HOST) and p.size >= DISPATCH.compiled_spread and p.dtype.name in ("float32", "float64")
    loops = compiled_loops("_spreads") if large and m < n else None
    if loops is None:
        for j in range(k):
            order = xp.argsort(p[:, j], stable=True)
            code[order, j] = middle_cells(p[:, j], order, m) + j * m
        return code
    cuts = quantile_cuts(n, m)

    def work(columns: slice) -> None:
        for j in range(columns.start, columns.stop):
            code[:, j] = loops.quantile_cells(np.ascontiguousarray(p[:, j]), cuts)
            code[:, j] += np.int32(j * m)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, row_shares(k, THREADS)))
    return code


@dataclass(frozen=True, eq=False)
class ScalarForms:
    """Forms of r = w(u − o), o 0/1 with chance u, for blocks of outcomes (draws, n) in sorted order."""

    forms: tuple[Form, ...]
    order: Array
    starts: Array
    base: Array
    weights: Array | None
    bins: tuple[Array, Array]
    """The first atom of each bin, and 1/sd of its sum if calibrated."""
    kernels: tuple[Array, ...]
    """Of Poisson cuts: exp(−distance/width) between atoms and those before them; on a GPU between all atoms."""
    linear: Array
    """(n, 3): what an outcome of 1 takes from Σ r, from Σ r·logit u and from Σ r² (adds to it)."""
    constant: Array

    @staticmethod
    def of(u: Array, weights: Array | None, prefix: str = "") -> ScalarForms:
        u = doubled(u)
        xp, n = LIBRARY[type(u)], len(u)
        m = min(auto_bins(n, 1), _GRID)
        widths = (0.02, 0.1)
        order = xp.argsort(u, stable=True)
        cells = [middle_cells(u, order, count) for count in (m, min(n, _GRID))]
        change = u != u
        change[0] = True
        for cell in cells:
            change[1:] |= cell[1:] != cell[:-1]
        starts = xp.where(change)[0]
        ordered, w = u[order], None if weights is None else weights[order]
        one = xp.ones_like(u) if w is None else w
        where = run_sums(ordered, starts) / run_sums(xp.ones_like(u), starts)
        inside = xp.clip(ordered, CLIP, 1 - CLIP)
        logit = xp.log(inside / (1 - inside))
        forms = [Form(prefix + "mean", RANK_ONE, True), Form(prefix + "slope", RANK_ONE, True)]
        forms += [Form(f"{prefix}{m} bins", BINS)]
        forms += [Form(f"{prefix}neighbours within {t}", NEAR) for t in widths]
        own = cells[0][starts]
        change = own == own
        change[1:] = own[1:] != own[:-1]
        first = xp.where(change)[0]
        variance = run_sums(run_sums(one * one * ordered * (1 - ordered), starts), first)
        variance = xp.maximum(variance, 1e-12 * variance.max())  # a bin of certain rows that are wrong is loud
        apart = np.diff(where) if isinstance(u, HOST) else abs(where[:, None] - where)
        return ScalarForms(
            tuple(forms),
            order,
            starts,
            run_sums(one * ordered, starts),
            w,
            (first, 1 / xp.sqrt(xp.where(variance > 0, variance, xp.ones_like(variance)))),
            tuple(xp.exp(-apart / t) for t in widths),
            xp.stack([one, one * logit, one * one * (1 - 2 * ordered)], 1),
            xp.stack([_inner(one, ordered), _inner(one, ordered * logit), _inner(one**2, ordered**2)]),
        )

    def values(self, outcomes: Array) -> tuple[Array, Array]:
        """(draws, forms) statistics, and the signed sums behind the first two."""
        weighted = outcomes if self.weights is None else outcomes * self.weights
        return self.read(run_sums(weighted, self.starts), _times(outcomes, self.linear))

    def drawn(self, chances: Array, seed: int, first: int, draws: int) -> tuple[Array, Array]:
        """The same of draws number `first` and on of outcomes with these chances, in compiled loops."""
        weights = np.ones(len(chances)) if self.weights is None else self.weights
        about = (self.linear, len(self.starts), seed, first, draws)
        return self.read(*compiled_loops("_draws").event_draws(chances, weights, self.atom, *about))

    @cached_property
    def atom(self) -> Array:
        """The atom of each sorted row."""
        return np.repeat(np.arange(len(self.starts)), np.diff(np.append(self.starts, len(self.order))))

    def dispersion(self, outcomes: Array) -> Array:
        """Per form, how many times the variance if calibrated that of outcomes in sorted order is, 1 or more: Σ f²r²
        about the means of bins, over its mean, f the logits of the slope and 1 of all others."""
        one, (squares, expected) = self.linear[:, 0], self._squares(outcomes)
        f = np.square(self.linear[:, 1] / np.where(one > 0, one, 1.0))
        sums = ((_inner(each, squares), _inner(each, expected)) for each in (np.ones(len(f)), f))
        level, slope = (max(1.0, float(seen) / max(float(wanted), 1e-300)) for seen, wanted in sums)
        return np.array([slope if form.name.endswith("slope") else level for form in self.forms])

    def _squares(self, outcomes: Array) -> tuple[Array, Array]:
        """w²r² of outcomes in sorted order about the means of their bins, and its mean if calibrated."""
        w, squares = self.linear[:, 0], np.square(self.linear[:, 0])
        u = (1 - self.linear[:, 2] / np.where(squares > 0, squares, 1.0)) / 2
        first = np.append(self.starts, len(w))[np.append(self.bins[0], len(self.starts))]
        rows = np.diff(first)
        mean = np.add.reduceat(w * (u - outcomes), first[:-1]) / np.maximum(np.add.reduceat(w, first[:-1]), 1e-300)
        mean, more = np.where(rows > 1, mean, 0.0), np.where(rows > 1, rows / np.maximum(rows - 1, 1), 1.0)
        residuals = u - outcomes - np.repeat(mean, rows)
        return squares * np.square(residuals) * np.repeat(more, rows), squares * u * (1 - u)

    def sizes(self, outcomes: Array) -> tuple[Array, Array]:
        """Of outcomes in sorted order, the rms miscalibration that each form shows, and its noise in its own units."""
        one = np.ones(len(outcomes)) if self.weights is None else self.weights
        mass, total, used = run_sums(one, self.starts), one.sum(), one > 0
        slope = np.square(self.linear[used, 1]) @ (1 / one[used])
        values, signed = (x[0] for x in self.values(outcomes[None]))
        own = float(self.constant[2] + outcomes @ self.linear[:, 2])
        sums = self.base - run_sums(one * outcomes, self.starts)
        weight = run_sums(mass, self.bins[0])
        in_bins = np.square(run_sums(sums, self.bins[0])) / np.where(weight > 0, weight, 1.0)
        found = [abs(signed[0]) / total, abs(signed[1]) / np.sqrt(max(slope, CLIP) * total)]
        found.append(np.sqrt(in_bins.sum() / total))
        for kernel, value in zip(self.kernels, values[3:], strict=True):
            place = np.concatenate([[0.0], np.cumsum(-np.log(kernel))])
            widest = float((np.exp(-abs(place[:, None] - place)) @ mass).max())
            found.append(np.sqrt(max(value + own, 0.0) / (widest * total)))
        return np.array(found), np.array([0.0] * 3 + [own] * len(self.kernels))

    def noise_in_bins(self, outcomes: Array, tail: float) -> float:
        """How much Σ S²/Σw over the bins noise alone reaches with this chance, of outcomes in sorted order.

        Squared residuals count as expected, times the dispersion, and where a bin has more of them than two standard
        deviations beyond that, as many as are beyond: predictions of 0 and 1 expect none.
        """
        squares, variance = self._squares(outcomes)
        turned = np.square(self.linear[:, 2])  # r² is w²u² or w²(1 − u)²
        sums = (squares, variance, turned * variance / np.maximum(np.square(self.linear[:, 0]), 1e-300))
        seen, expected, fourth, weight = (
            run_sums(run_sums(np.ascontiguousarray(x), self.starts), self.bins[0]) for x in (*sums, self.linear[:, 0])
        )
        expected = expected * float(self.dispersion(outcomes)[0])
        beyond = np.maximum(seen - expected - 2 * np.sqrt(fourth), 0.0)
        each = (expected + beyond) / np.where(weight > 0, weight, np.inf)
        mean, half = each.sum(), np.square(each).sum()
        return float(gammainccinv(mean**2 / (2 * half), tail) * 2 * half / mean) if mean > 0 else 0.0

    def read(self, atoms: Array, linear: Array) -> tuple[Array, Array]:
        """Statistics of sums over outcomes of 1: of their weights by atom, and of their linear forms."""
        sums = self.base - atoms
        own = self.constant[2] + linear[:, 2]
        signed = self.constant[:2] - linear[:, :2]
        columns = [signed[:, 0] ** 2, signed[:, 1] ** 2]
        scaled = run_sums(sums, self.bins[0]) * self.bins[1]
        columns.append(row_products(scaled, scaled))
        columns += [_poisson_form(sums, kernel) - own for kernel in self.kernels]
        return LIBRARY[type(sums)].stack(columns, 1), signed


def _times(outcomes: Array, linear: Array) -> Array:
    """Many rows times few columns, on this thread: threads of a library wait busily for each other between calls."""
    if not isinstance(outcomes, HOST):
        return outcomes @ linear
    return np.asarray(np.einsum("...n,kn->...k", outcomes, np.ascontiguousarray(linear.T)))


def _inner(a: Array, b: Array) -> Any:
    """The inner product of two values of each row, on this thread as well."""
    return np.einsum("n,n->", a, b) if isinstance(a, HOST) else a @ b


@dataclass(frozen=True, eq=False)
class ClassForms:
    """Forms of class labels: those of the confidence, the temperature score, class rates, and classwise U."""

    forms: tuple[Form, ...]
    proba: Array
    weights: Array | None
    top: Array
    scalar: ScalarForms
    entropy: Array
    """Per row, w·E_p[log p]."""
    code: Array | None
    """(n, k): the cell of row i among those of class y; None where single classes are looked at by rates alone."""
    base: Array
    rates: Array
    own: float

    @staticmethod
    def of(proba: Array, weights: Array | None) -> ClassForms:
        p = proba  # in its own precision: a copy of many rows and classes would be the largest thing here
        xp, (n, k) = LIBRARY[type(p)], p.shape
        top, confidence = top_class_and_value(p)
        one = doubled(confidence == confidence) if weights is None else weights
        scalar = ScalarForms.of(confidence, weights, "confidence: ")
        m = min(auto_bins(n, k), _CELLS_PER_ROW * n // k)
        forms = [*scalar.forms, Form("temperature", RANK_ONE, True), Form("class frequencies", RATES)]
        code: Array | None = None
        base: Array = one[:0]
        if n * k <= _MOST_CODES and m > 1:
            forms.append(Form(f"per class, {m} bins", CLASSES))
            code = _class_cells(p, m)
            base = to_device_of(cell_totals(code.ravel(), [(one[:, None] * p).ravel()], k * m)[0], one)
        entropy, squares = xp.empty_like(one), xp.empty_like(one)
        rates: Any = 0.0
        for rows in wide_blocks(p, n, k):
            block = doubled(p[rows])
            entropy[rows] = row_products(block, xp.log(xp.clip(block, CLIP, None)))
            squares[rows] = row_products(block, block)
            rates = rates + one[rows] @ block
        own = float(one**2 @ (squares + 1))
        return ClassForms(tuple(forms), p, weights, top, scalar, one * entropy, code, base, rates, own)

    def drawn(self, seed: int, first: int, draws: int) -> tuple[Array, Array]:
        """The statistics of draws number `first` and on of labels, in compiled loops."""
        about = (self.top, *self._by_row, len(self.scalar.starts))
        found = compiled_loops("_draws").class_draws(
            self.proba, self.weights, about, self.code, self.base, CLIP, seed, first, draws
        )
        scalar, signed = self.scalar.read(found.atoms, found.linear)
        score = self.entropy.sum() - found.logs
        own = self.own - 2 * found.squares
        rates = self.rates - found.rates
        columns = [score**2, row_products(rates, rates) - own]
        if self.code is not None:
            columns.append(found.cells - own)
        return np.column_stack([scalar, *columns]), np.column_stack([signed, score])

    @cached_property
    def _by_row(self) -> tuple[Array, Array]:
        """The atom and the linear forms of each row."""
        atom, linear = np.empty(len(self.top), np.int64), np.empty((len(self.top), 3))
        atom[self.scalar.order], linear[self.scalar.order] = self.scalar.atom, self.scalar.linear
        return atom, linear

    def values(self, labels: Array) -> tuple[Array, Array]:
        """(draws, forms) statistics of (draws, n) labels, and the signed sums of overall, slope and temperature."""
        xp, (n, k) = LIBRARY[type(labels)], self.proba.shape
        flat = labels + xp.arange(n, dtype=xp.int64, device=labels.device) * k
        chance = doubled(xp.take(self.proba, flat))
        log, square = xp.log(xp.clip(chance, CLIP, None)), chance
        if self.weights is not None:
            log, square = log * self.weights, chance * self.weights**2
        score = self.entropy.sum() - log.sum(1)
        own = self.own - 2 * square.sum(1)
        scalar, signed = self.scalar.values(doubled(labels == self.top)[:, self.scalar.order])
        columns = [score**2, self._squares(labels, self.rates) - own]
        if self.code is not None:
            columns.append(self._squares(xp.take(self.code, flat), self.base) - own)
        return xp.column_stack([scalar, *columns]), xp.column_stack([signed, score])

    def sizes(self, labels: Array) -> tuple[Array, Array]:
        """Return sizes and noise as `ScalarForms` does; of single classes the root mean square over all classes."""
        n, k = self.proba.shape
        one = np.ones(n) if self.weights is None else self.weights
        found, noise = self.scalar.sizes(doubled(labels == self.top)[self.scalar.order])
        values, signed = (x[0] for x in self.values(labels[None]))
        spread = 0.0
        for rows in wide_blocks(self.proba, n, k):
            spread += float(_inner(one[rows], np.log(np.clip(doubled(self.proba[rows]), CLIP, None)).var(axis=1)))
        at = len(self.scalar.forms)
        own = self.own - 2 * float(_inner(one**2, self.proba[np.arange(n), labels]))
        total = one.sum()
        more = [abs(signed[-1]) / np.sqrt(max(spread, CLIP) * k * k * total)]
        more.append(abs(self.class_sums(labels)).max() / total)
        if self.code is not None:
            more.append(np.sqrt(max(values[at + 2] + own, 0.0) * (len(self.base) / k) / k) / total)
        return np.append(found, more), np.append(noise, [0.0, own, own][: len(more)])

    def dispersion(self, labels: Array) -> Array:
        """Return dispersions as `ScalarForms` does; of classes that of the confidence."""
        found = self.scalar.dispersion(doubled(labels == self.top)[self.scalar.order])
        one = np.ones(len(labels)) if self.weights is None else self.weights
        seen = expected = 0.0
        for rows in wide_blocks(self.proba, *self.proba.shape):
            p = doubled(self.proba[rows])
            log, squares = np.log(np.clip(p, CLIP, None)), np.square(one[rows])
            mean = row_products(p, log)
            seen += float(_inner(squares, np.square(mean - log[np.arange(len(p)), labels[rows]])))
            expected += float(_inner(squares, row_products(p, np.square(log)) - np.square(mean)))
        temperature = max(1.0, seen / max(expected, 1e-300))
        more = [temperature if form.name == "temperature" else found[0] for form in self.forms[len(found) :]]
        return np.append(found, more)

    def noise_in_bins(self, labels: Array, tail: float) -> float:
        """Return the noise in the bins of the confidence."""
        return self.scalar.noise_in_bins(doubled(labels == self.top)[self.scalar.order], tail)

    def class_sums(self, labels: Array) -> Array:
        """Per class, Σ w·(predicted − observed)."""
        return np.asarray(self.rates - np.bincount(labels, weights=self.weights, minlength=len(self.rates)))

    def _squares(self, cells: Array, base: Array) -> Array:
        """Σ over cells of (predicted − observed)², draw by draw."""
        if not isinstance(cells, np.ndarray):
            sums = base - device_backend().counted(cells, self.weights, len(base))
            return row_products(sums, sums)
        out = np.empty(len(cells))
        for place, cell in enumerate(cells):
            sums = base - np.bincount(cell, weights=self.weights, minlength=len(base))
            out[place] = sums @ sums
        return out
