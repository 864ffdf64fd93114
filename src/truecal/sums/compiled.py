"""Sums over fixed intervals in compiled loops, for large samples where numba is installed: those of numpy, sooner.

Vocabulary of backends/numpy.py. Sums over sorted reports are in ordered.py.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..core.arrays import Array
from ..core.edges import IntervalLookup

numba: Any = importlib.import_module("numba")  # a library without types

_BLOCK = 1 << 10  # reports looked at together
_CHUNK = 1 << 16  # rows of a view whose blocks are summed at a time
_LINE = 8  # numbers that memory hands over at once
_LONG = 64  # entries of a row that are looked at together
_MOST_BUCKETS = 15  # as a power of two
_ENTRIES = 1 << 18  # entries of a matrix that are copied at a time
_LOW_HALF = (1 << 32) - 1
_HALVES = float((1 << 29) + 1)  # parts 53 digits into the leading 24 and the rest (Veltkamp)

Function = TypeVar("Function", bound=Callable[..., Any])


def inner(function: Function) -> Function:
    """A function that only compiled ones call: it becomes part of them."""
    return numba.njit(nogil=True)(function)  # type: ignore[no-any-return]  # numba has no types


def reordered(function: Function) -> Function:
    """The same where sums may be added up in any order, so that several additions run side by side."""
    return numba.njit(nogil=True, fastmath={"reassoc", "contract"})(function)  # type: ignore[no-any-return]  # as above


def entry(function: Function) -> Function:
    """A function that is compiled once and kept on disk, or compiled in each process where nothing can be kept."""
    plain = numba.njit(nogil=True)(function)
    try:
        kept = numba.njit(nogil=True, cache=True)(function)
    except RuntimeError:  # no folder for it
        return plain  # type: ignore[no-any-return]  # numba has no types

    chosen = kept

    def call(*arguments: Any) -> Any:
        nonlocal chosen
        try:
            return chosen(*arguments)
        except OSError:  # the folder has gone or is full
            return plain(*arguments)
        except Exception as problem:  # what was kept is damaged: unpickling it may raise anything
            if chosen is plain:
                raise
            chosen = plain
            result = plain(*arguments)
            _discard(kept, problem)
            return result

    return call  # type: ignore[return-value]  # called alike


def _discard(kept: Any, problem: Exception) -> None:
    """Warn that the cache on disk cannot be used, and have the next process compile again."""
    where = "its folder"
    with suppress(Exception):  # parts of numba that may change; the next process would say it again
        where = kept._cache.cache_path
        kept._cache.flush()
    warnings.warn(
        f"compiled code in numba's cache, {where}, is damaged ({type(problem).__name__}) and was compiled again",
        RuntimeWarning,
        stacklevel=3,
    )


@inner
def two_sum(total: float, lost: float, value: float) -> Any:
    """total + value, and `lost` with what rounding takes from it (Knuth)."""
    new = total + value
    back = new - total
    return new, lost + ((total - (new - back)) + (value - back))


def fixed_cells(matrix: Array, labels: Array, edges: Array, squares: bool = False) -> tuple[Array, ...]:
    """`fixed_cells` of plain.py, compiled; without squares only residuals.

    Where a row has many entries few of them are large, so small ones are summed as they stand and the others looked up.
    """
    n, k = matrix.shape
    inner = np.append(edges[1:-1], edges.dtype.type(np.inf))
    sums = np.zeros((5, k, len(inner)))  # count, outcome, residual, its last digits, residual²
    low = np.zeros((4, k))  # small entries: outcomes, leading and last digits, and squares
    large = min(inner[0], edges.dtype.type(0.5)) if k >= _LONG else edges.dtype.type(-np.inf)
    buckets = 1 << min(_MOST_BUCKETS, (16 * len(inner)).bit_length())
    first = np.searchsorted(_bucket(inner[:-1], buckets), np.arange(buckets + 1))
    first[-1] = len(inner) - 1
    whole = matrix.flags.c_contiguous and matrix.dtype == edges.dtype
    step = n if whole else max(1, _ENTRIES // k)
    for start in range(0, n, step):
        block = np.ascontiguousarray(matrix[start : start + step], dtype=edges.dtype)
        own = np.ascontiguousarray(labels[start : start + step], dtype=np.int64)
        _fixed_cells(block, own, large, inner, first, squares, sums, low)
    count, outcome, residual, rest, own_sq = sums
    residual += rest
    residual[:, 0] += (low[1] - low[0]) + low[2]
    if not squares:
        return residual[:, :0], residual[:, :0], residual
    count[:, 0] += n - count.sum(axis=1)
    outcome[:, 0] += low[0]
    own_sq[:, 0] += low[3]
    return count, outcome, residual, own_sq


def _bucket(edges: Array, buckets: int) -> Array:
    """The bucket of each edge: it never decreases with the number."""
    return np.asarray(np.clip(edges * buckets, 0, buckets - 1), dtype=np.int64)


@entry
def _fixed_cells(
    block: Array, labels: Array, large: Any, inner: Array, first: Array, squares: bool, sums: Array, low: Array
) -> None:
    k = block.shape[1]
    parts = np.ones(k // _LONG + 1, dtype=np.int32)
    for i in range(len(block)):
        row, own = block[i], labels[i]
        if k >= _LONG:
            _add_small(row, large, squares, low[1], low[2], low[3])
            _count_large(row, large, parts)
        for part in range(len(parts)):
            if parts[part] > 0:
                for j in range(part * _LONG, min(k, (part + 1) * _LONG)):
                    if row[j] > large:
                        _add_large(row[j], j, j == own, inner, first, squares, sums)
        if not row[own] > large:
            low[0, own] += 1.0
            low[3, own] += 1.0 - 2.0 * np.float64(row[own])


@inner
def _count_large(row: Array, large: Any, parts: Array) -> None:
    """How many entries of each part of a row are large. As numbers, and not as yes or no, they are counted in vector
    instructions."""
    for part in range(len(row) // _LONG):
        found = np.int32(0)
        for j in range(_LONG):
            found += np.int32(row[part * _LONG + j] > large)
        parts[part] = found


@inner
def _add_small(row: Array, large: Any, squares: bool, whole: Array, rest: Array, own: Array) -> None:
    """Add the small entries of a row to the sums of their columns, as outcomes of 0."""
    if row.itemsize == 4:  # at most 24 digits: leading ones only
        for j in range(len(row)):
            whole[j] += 0.0 if row[j] > large else np.float64(row[j])
    else:
        for j in range(len(row)):
            value = 0.0 if row[j] > large else np.float64(row[j])
            scaled = value * _HALVES
            leading = scaled - (scaled - value)
            whole[j] += leading
            rest[j] += value - leading
    if squares:
        for j in range(len(row)):
            value = 0.0 if row[j] > large else np.float64(row[j])
            own[j] += value * value


@inner
def _add_large(report: Any, j: int, marked: bool, inner: Array, first: Array, squares: bool, sums: Array) -> None:
    """Add an entry to the sums of its column; buckets of equal width tell the first and the last interval it can be
    in."""
    buckets = len(first) - 1
    place = min(max(int(report * buckets), 0), buckets - 1)
    cell = _search(report, inner, first[place], first[place + 1])
    residual = np.float64(report) - np.float64(marked)
    if inner.itemsize == 4 and not marked:  # as above
        sums[2, j, cell] += residual
    else:
        scaled = residual * _HALVES
        leading = scaled - (scaled - residual)
        sums[2, j, cell] += leading
        sums[3, j, cell] += residual - leading
    if squares:
        sums[0, j, cell] += 1.0
        sums[1, j, cell] += np.float64(marked)
        sums[4, j, cell] += residual * residual


@inner
def _search(report: float, upper: Array, low: Any, high: Any) -> Any:
    """The interval of a report, from `low` to `high`, among those that end at `upper`."""
    while low < high:
        middle = (low + high) >> 1
        if report > upper[middle]:
            low = middle + 1
        else:
            high = middle
    return low


def add_blocks(
    columns: Array,
    labels: Array,
    first: int,
    tables: IntervalTables,
    start: int,
    views: slice,
    residual: Array,
    loss: Array,
) -> Array:
    """Sums over fixed intervals of some of the views in `columns` (V, n), of which row v is marked where the label is
    first + v; row i belongs to block start + i.

    `tables` are those of one row of edges, or of a row for each view of `columns`. Returns count, outcome, residual and
    residual² of the chosen views, (4, views, m); adds residuals to those of each block, `residual` (B, V, m), and
    residual² to `loss` (B,).
    """
    starts, upper, base, shift = tables
    if len(upper) > 1:
        starts, upper = starts[views], upper[views]
    whole = np.zeros((4, views.stop - views.start, residual.shape[2]))
    bits = columns.view(f"i{columns.itemsize}")
    labels = np.ascontiguousarray(labels, dtype=np.int32)
    begin = views.start
    _add_blocks(columns, bits, labels, first, begin, starts, upper, base, shift, start, whole, residual, loss)
    return whole


class IntervalTables(NamedTuple):
    """Per view the first interval of each bucket of an `IntervalLookup`, and the upper ends of intervals."""

    starts: Array
    upper: Array
    base: int
    shift: int


def interval_tables(edges: Array) -> IntervalTables:
    """The tables of some edges, (1, m + 1) or a row for each view."""
    views = len(edges)
    lookup = IntervalLookup(edges[0], views)
    starts = np.empty((views, len(lookup.first) + 1), dtype=np.uint32)
    for own, row in zip(starts, edges, strict=True):
        own[:-1] = IntervalLookup(row, views).first
    starts[:, 0], starts[:, -1] = 0, edges.shape[1] - 2  # whatever lies below, and above
    upper = edges[:, 1:].copy()
    upper[:, -1] = np.inf
    return IntervalTables(starts, upper, lookup.base, lookup.shift)


@entry
def _add_blocks(
    columns: Array,
    bits: Array,
    labels: Array,
    first: int,
    first_view: int,
    starts: Array,
    upper: Array,
    base: int,
    shift: int,
    start: int,
    whole: Array,
    residual: Array,
    loss: Array,
) -> None:
    """A chunk of rows of one view at a time: intervals in the order of the rows, then sums block by block, which keeps
    those of a block in cache. Sums over a chunk are short enough to be added up as they stand."""
    blocks, n, cells = residual.shape[0], columns.shape[1], residual.shape[2]
    codes = np.empty(min(n, _CHUNK), dtype=np.uint32)
    count, sums = np.zeros(cells, dtype=np.int64), np.zeros((cells, 2))
    for place in range(whole.shape[1]):
        v, at = first_view + place, place if len(upper) > 1 else 0
        for begin in range(0, n, _CHUNK):
            here = slice(begin, min(n, begin + _CHUNK))
            reports = columns[v, here]
            _find_intervals(reports, bits[v, here], starts[at], upper[at], base, shift, codes)
            _mark(labels[here], first + v, codes)
            for b in range(min(blocks, len(reports))):
                block = (start + begin + b) % blocks
                loss[block] += _add_block(reports, codes, b, blocks, count, sums, residual[block, v])
            for cell in range(cells):
                whole[0, place, cell] += count[cell] & _LOW_HALF
                whole[1, place, cell] += count[cell] >> 32
                whole[2, place, cell] += sums[cell, 0]
                whole[3, place, cell] += sums[cell, 1]
                count[cell], sums[cell, 0], sums[cell, 1] = 0, 0.0, 0.0


@inner
def _find_intervals(
    reports: Array, bits: Array, starts: Array, upper: Array, base: int, shift: int, codes: Array
) -> None:
    """The interval of each report: two comparisons from the start of its bucket on, and a search where it holds more
    edges. Branches that nothing can guess would cost more than all the rest."""
    kind = bits.dtype.type
    last, lowest, away = kind(len(starts) - 2), kind(base), kind(shift)
    bucket = np.empty(_BLOCK, dtype=np.uint16)
    for begin in range(0, len(reports), _BLOCK):
        stop = min(len(reports), begin + _BLOCK)
        here, keys, found = reports[begin:stop], bits[begin:stop], codes[begin:stop]
        for i in range(len(here)):
            bucket[i] = min(max((keys[i] >> away) - lowest, kind(0)), last)
        for i in range(len(here)):
            cell: Any = starts[bucket[i]]
            cell += np.uint32(here[i] > upper[cell])
            cell += np.uint32(here[i] > upper[cell])
            if here[i] > upper[cell]:
                cell = np.uint32(_search(here[i], upper, np.int64(cell), np.int64(starts[bucket[i] + 1])))
            found[i] = cell


@inner
def _mark(labels: Array, label: int, codes: Array) -> None:
    """From intervals to codes: twice the interval, plus the outcome."""
    own = np.int32(label)
    for i in range(len(labels)):
        codes[i] = np.uint32(2) * codes[i] + np.uint32(labels[i] == own)


@inner
def _add_block(
    reports: Array, codes: Array, first: int, step: int, count: Array, sums: Array, residual: Array
) -> float:
    """Add every so many-th row, those of a block, to the sums of their cells; marked ones are counted in the upper half
    of a number."""
    if len(residual) * step <= len(reports) * _LINE:  # most of it is needed: in order it comes from memory sooner
        for cell in range(0, len(residual), _LINE):
            residual[cell] += 0.0
    loss = 0.0
    for i in range(np.uint32(first), np.uint32(len(reports)), np.uint32(step)):
        cell, marked = codes[i] >> np.uint32(1), codes[i] & np.uint32(1)
        r = np.float64(reports[i]) - np.float64(marked)
        count[cell] += np.int64(1) + (np.int64(marked) << 32)
        sums[cell, 0] += r
        sums[cell, 1] += r * r
        residual[cell] += r
        loss += r * r
    return loss
