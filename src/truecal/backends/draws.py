"""Labels drawn from predictions and counted on the way, in compiled loops: no draw is ever held as an array.

The random number of row i in draw d is a hash of the seed and of d·n + i (SplitMix64), so that the number of threads
changes nothing.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from .arrays import Array
from .numba import entry, inner
from .numpy import THREADS, row_shares

_STEP = 24  # classes between two cumulative sums that are kept: the others are added up as they are passed


class ClassDraws(NamedTuple):
    """Per draw: Σ w by atom where the top class came, Σ of `linear` there, Σ w log p_y, Σ w² p_y, Σ w by class, and
    Σ (base − Σ w)² over the cells of single classes."""

    atoms: Array
    linear: Array
    logs: Array
    squares: Array
    rates: Array
    cells: Array


def cumulative(p: Array) -> Array:
    """(n, blocks): the cumulative probability at the end of every block of classes."""
    starts = np.arange(0, p.shape[1], _STEP)
    return np.cumsum(np.add.reduceat(p, starts, axis=1, dtype=np.float64), axis=1)


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
    sums, w = cumulative(p), np.ones(n) if weights is None else weights
    cells = np.zeros((0, 0), np.int32) if code is None else code

    def work(share: slice) -> None:
        out = tuple(x[share] for x in found)
        _class_draws(p, sums, w, top, atom, linear, cells, base, clip, np.uint64(seed), first + share.start, *out)

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
    return float(z >> np.uint64(11)) * 2.0**-53


@inner
def _label(row: Array, sums: Array, u: float) -> int:
    """The class whose part of [0, 1) holds u, where the probabilities lie side by side; never one of probability 0."""
    u *= sums[-1]
    b = 0
    while b < len(sums) - 1 and u >= sums[b]:
        b += 1
    j = b * _STEP
    stop = min(len(row), j + _STEP)
    total = row[j] + (sums[b - 1] if b > 0 else 0.0)
    while u >= total and j < stop - 1:
        j += 1
        total += row[j]
    while row[j] <= 0.0 and j > 0:  # rounding may leave u behind the last one
        j -= 1
    return j


@entry
def _class_draws(
    p: Array,
    cumulative: Array,
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
    n = len(p)
    counted = np.zeros(len(base))
    for d in range(len(logs)):
        counted[:] = 0.0
        for i in range(n):
            j = _label(p[i], cumulative[i], _uniform(seed, (first + d) * n + i))
            w = weights[i]
            chance = float(p[i, j])
            logs[d] += w * np.log(max(chance, clip))
            squares[d] += w * w * chance
            rates[d, j] += w
            if len(code):
                counted[code[i, j]] += w
            if j == top[i]:
                atoms[d, atom[i]] += w
                for f in range(3):
                    forms[d, f] += linear[i, f]
        for c in range(len(base)):
            cells[d] += (base[c] - counted[c]) ** 2


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
