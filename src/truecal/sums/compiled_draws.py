"""Labels drawn from predictions and counted on the way, in compiled loops: no draw is ever held as an array.

The random number of row i in draw d is a hash of the seed and of d·n + i (SplitMix64), so that the number of threads
changes nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Array
from ..core.dispatch import THREADS, row_shares
from .compiled import entry, inner

_NUMBERS = 1 << 12  # probabilities of the rows that all draws pass before the next rows: they stay in cache
_CLASSES = 32  # compared at one time: in a row of registers, and without a branch to guess
_COUNTED = 1 << 19  # sums of single cells that are kept at one time, over all draws


class ClassDraws(NamedTuple):
    """Per draw: Σ w by atom where the top class came, Σ of `linear` there, Σ w log p_y, Σ w² p_y, Σ w by class, and
    Σ (base − Σ w)² over the cells of single classes."""

    atoms: Array
    linear: Array
    logs: Array
    squares: Array
    rates: Array
    cells: Array


def class_draws(
    p: Array,
    weights: Array | None,
    about: tuple[Array, Array, Array, int],
    code: Array | None,
    base: Array,
    clip: float,
    seed: int,
    first: int,
    draws: int,
) -> ClassDraws:
    """Draws number `first` and on of labels from the rows of p; `about` are the top class, atom, linear forms of each
    row, and the number of atoms; `code` the cell of each row and class among `base`."""
    top, atom, linear, atoms = about
    n, k = p.shape
    found = ClassDraws(*(np.zeros((draws, *shape)) for shape in ((atoms,), (3,), (), (), (k,), ())))
    w = np.ones(n) if weights is None else weights
    cells = np.zeros((0, 0), np.int32) if code is None else code

    def work(share: slice) -> None:
        out = tuple(x[share] for x in found)
        _class_draws(p, w, top, atom, linear, cells, base, clip, np.uint64(seed), first + share.start, *out)

    _over_draws(draws, work)
    return found


def event_draws(
    u: Array, weights: Array, atom: Array, linear: Array, atoms: int, seed: int, first: int, draws: int
) -> Any:
    """The first two sums of `ClassDraws`, for events with chances u."""
    found = np.zeros((draws, atoms)), np.zeros((draws, 3))

    def work(share: slice) -> None:
        _event_draws(u, weights, atom, linear, np.uint64(seed), first + share.start, *(x[share] for x in found))

    _over_draws(draws, work)
    return found


def _over_draws(draws: int, work: Any) -> None:
    if THREADS == 1 or draws < 2:
        work(slice(0, draws))
        return
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, row_shares(draws, THREADS)))


@inner
def _uniform(seed: Any, place: int) -> float:
    """A number in [0, 1): SplitMix64 of the seed and the place."""
    z = seed + np.uint64(place + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(np.int64(z >> np.uint64(11))) * 2.0**-53


@inner
def _add_up(p: Array, sums: Array, blocks: Array) -> None:
    """Per row, the cumulative probabilities, infinite from the last class that may come on, and their total: a column
    of `sums` for a row of few classes, a row of it for many, which also have those at the end of each block of classes
    but the last."""
    k = p.shape[1]
    few = k <= _CLASSES
    for i in range(len(p)):
        total, last = 0.0, 0
        for j in range(k):
            total += p[i, j]
            sums[(j, i) if few else (i, j)] = total
            if p[i, j] > 0.0:
                last = j
        for j in range(last, k):
            sums[(j, i) if few else (i, j)] = np.inf
        sums[(k, i) if few else (i, k)] = total
        for b in range(blocks.shape[1]):
            blocks[i, b] = sums[i, (b + 1) * _CLASSES - 1]


@inner
def _labels(sums: Array, blocks: Array, k: int, seed: Any, place: int, u: Array, labels: Array) -> None:
    """The class whose part of [0, 1) holds the number of each row, where the probabilities lie side by side: as many
    as end at it or before. Never one of probability 0. Few classes are compared for many rows at one time, which
    processors do four rows at a time; of many classes the last of each block comes first, then one block."""
    few = k <= _CLASSES
    for i in range(len(labels)):
        u[i] = _uniform(seed, place + i) * sums[(k, i) if few else (i, k)]
        labels[i] = 0
    if few:
        for c in range(k):
            for i in range(len(labels)):
                labels[i] += u[i] >= sums[c, i]
        return
    for i in range(len(labels)):
        begin = 0
        for b in range(blocks.shape[1]):
            begin += u[i] >= blocks[i, b]
        begin *= _CLASSES
        j = begin
        for c in range(begin, min(k, begin + _CLASSES)):
            j += u[i] >= sums[i, c]
        labels[i] = j


@entry
def _class_draws(
    p: Array,
    weights: Array,
    top: Array,
    atom: Array,
    linear: Array,
    code: Array,
    base: Array,
    clip: float,
    seed: Any,
    first: int,
    atoms: Array,
    forms: Array,
    logs: Array,
    squares: Array,
    rates: Array,
    cells: Array,
) -> None:
    """All draws pass some rows before the next ones are looked at, and cells are counted for a group of draws."""
    (n, k), draws = p.shape, len(logs)
    size = max(1, min(n, _NUMBERS // k))
    group = max(1, min(draws, _COUNTED // max(1, len(base))))
    kept = k <= group  # the logs of all probabilities, rather than of those drawn
    sums, blocks = np.empty((k + 1, size) if k <= _CLASSES else (size, k + 1)), np.empty((size, (k - 1) // _CLASSES))
    chances = np.empty((size, k, 2))  # each beside its log: they are read together
    u, labels = np.empty(size), np.empty(size, dtype=np.int64)
    counted = np.empty((group, len(base)))
    bins = len(base) // k
    for begin in range(0, draws, group):
        end = min(draws, begin + group)
        counted[:] = 0.0
        for start in range(0, n, size):
            stop = min(n, start + size)
            _add_up(p[start:stop], sums, blocks)
            for i in range(start, stop):
                for j in range(k):
                    chances[i - start, j, 0] = p[i, j]
                    if kept:
                        chances[i - start, j, 1] = np.log(max(np.float64(p[i, j]), clip))
            for d in range(begin, end):
                _labels(sums, blocks, k, seed, (first + d) * n + start, u, labels[: stop - start])
                # Short loops: one loop over all sums, or a branch on whether the top class came, takes twice as long.
                score, square, slope, own = 0.0, 0.0, 0.0, 0.0
                for at in range(stop - start):
                    w, chance = weights[start + at], chances[at, labels[at]]
                    score += w * (chance[1] if kept else np.log(max(chance[0], clip)))
                    square += w * w * chance[0]
                for at in range(stop - start):
                    u[at] = labels[at] == top[start + at]
                in_atom, in_cell = atoms[d], counted[d - begin]
                for i in range(start, stop):
                    came = u[i - start]
                    in_atom[atom[i]] += came * weights[i]
                    slope += came * linear[i, 1]
                    own += came * linear[i, 2]
                if len(code):
                    for i in range(start, stop):
                        in_cell[code[i, labels[i - start]]] += weights[i]
                else:
                    for i in range(start, stop):
                        rates[d, labels[i - start]] += weights[i]
                logs[d] += score
                squares[d] += square
                forms[d, 1] += slope
                forms[d, 2] += own
        for d in range(begin, end):
            forms[d, 0] = atoms[d].sum()  # the first linear form of a row is its weight
            for c in range(len(base)):
                rates[d, c // bins] += counted[d - begin, c]
                cells[d] += (base[c] - counted[d - begin, c]) ** 2


@entry
def _event_draws(
    u: Array, weights: Array, atom: Array, linear: Array, seed: Any, first: int, atoms: Array, forms: Array
) -> None:
    n = len(u)
    for d in range(len(forms)):
        for i in range(n):
            if _uniform(seed, (first + d) * n + i) < u[i]:
                atoms[d, atom[i]] += weights[i]
                for f in range(3):
                    forms[d, f] += linear[i, f]
