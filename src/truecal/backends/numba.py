"""Cell sums in compiled loops, for large samples where numba is installed: the numbers of backends/numpy.py, sooner.

Vocabulary as there. A *bucket* holds reports with the same leading bits. For quantile bins these are bits of the
distance to the nearest of 0 and 1: reports in a bucket share their exponent, so that sums of their leading digits are
exact, and buckets are fine near both ends.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .arrays import Array
from .numpy import IntervalLookup, Segments

numba: Any = importlib.import_module("numba")  # a library without types

_NEAREST_0, _NEAREST_1 = 2.0**-100, 2.0**-54  # reports nearer than this share a bucket
_BLOCK = 1 << 10  # reports looked at together
_CHUNK = 1 << 16  # rows of a view whose blocks are summed at a time
_LINE = 8  # numbers that memory hands over at once
_ENTRIES = 1 << 18  # entries of a matrix that are copied at a time
_LOW_HALF = (1 << 32) - 1
_FAR = 1 << 62  # more than rows
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
    """Say that what was kept on disk cannot be used, and have the next process compile it again."""
    where = "its folder"
    with suppress(Exception):  # parts of numba that may change; the next process would say it again
        where = kept._cache.cache_path
        kept._cache.flush()
    warnings.warn(
        f"compiled code in numba's cache, {where}, is damaged ({type(problem).__name__}) and was compiled again",
        RuntimeWarning,
        stacklevel=3,
    )


def column_segments(
    columns: Array, labels: Array, first: int, cuts: Array, *, ties: str, squares: bool = False
) -> Segments:
    """Sums between shared cuts of the views in `columns` (V, n), of which row v is marked where the label is first + v.

    Two passes over each view: counts and sums of its buckets; then the reports of buckets that hold a cut are gathered
    and sorted. Residuals are summed as distances to the nearest of 0 and 1, so that nearly perfect reports keep their
    digits.
    """
    views = len(columns)
    sums = np.zeros((3 + squares, views, len(cuts) + 1))
    blocks = np.zeros((4, views, len(cuts)))  # cut, and first, last and marked of the tie block at it
    blocks[0], blocks[2] = cuts, 1.0
    _column_segments(
        columns,
        columns.view(f"i{columns.itemsize}"),
        np.ascontiguousarray(labels, dtype=np.int64),
        first,
        np.ascontiguousarray(cuts, dtype=np.int64),
        ties == "together",
        squares,
        1 << (12 if len(cuts) <= 64 else 15 if len(cuts) <= 1024 else 16),
        sums,
        blocks,
    )
    moved = blocks[0].astype(cuts.dtype)
    return Segments(moved, sums, *blocks[1:]) if blocks[3].any() else Segments(moved, sums)


@entry
def _column_segments(
    columns: Array,
    bits: Array,
    labels: Array,
    first: int,
    cuts: Array,
    together: bool,
    squares: bool,
    buckets: int,
    sums: Array,
    blocks: Array,
) -> None:
    views, n = columns.shape
    bucket = np.empty(n, dtype=np.uint16)
    rows, ends = _rows_by_label(labels, first, views)
    begin = 0
    for v in range(views):
        frame = _frame(columns[v], bits[v], buckets)
        count, totals = _buckets(columns[v], bits[v], labels, first + v, frame, squares, bucket, buckets)
        marks = np.zeros(buckets, dtype=np.int32)
        for i in range(begin, ends[v]):
            marks[bucket[rows[i]]] += np.int32(1)
        begin = ends[v]
        starts, ordered, packed = _split_buckets(columns[v], bits[v], labels, first + v, bucket, count, cuts)
        half = (frame[2] >> frame[1]) - frame[0]
        _assemble(count, totals, marks, half, starts, ordered, packed, cuts, together, sums[:, v], blocks[:, v])


@inner
def _rows_by_label(labels: Array, first: int, views: int) -> Any:
    """The rows of the labels first, first + 1, ..., one label after the other, and where each ends."""
    place = np.zeros(views + 1, dtype=np.int64)
    for label in labels:
        if first <= label < first + views:
            place[label - first + 1] += 1
    for v in range(views):
        place[v + 1] += place[v]
    rows = np.empty(place[-1], dtype=np.int64)
    for i in range(len(labels)):
        own = labels[i] - first
        if 0 <= own < views:
            rows[place[own]] = i
            place[own] += 1
    return rows, place


@inner
def _fold(reports: Array, folded: Array) -> None:
    """The distance to the nearest of 0 and 1, exactly; 1/2 counts from 1."""
    one = folded.dtype.type(1)
    for i in range(len(reports)):
        u = reports[i]
        folded[i] = u if u < 0.5 else one - u


@inner
def _frame(column: Array, bits: Array, buckets: int) -> Any:
    """How reports fall into buckets: the first one, how many bits are shifted out, and the bits of 1/2.

    The bits of a distance from 0, and those of a distance from 1 counted down from twice the bits of 1/2, never
    decrease with the report.
    """
    least: Any = bits[0]
    most: Any = bits[0]
    for b in bits:
        least, most = min(least, b), max(most, b)
    ends = np.empty(5, dtype=column.dtype)
    ends.view(bits.dtype)[0], ends.view(bits.dtype)[1] = max(least, 0), max(most, 0)
    ends[2], ends[3], ends[4] = 0.5, _NEAREST_0, _NEAREST_1
    folded = np.empty(5, dtype=column.dtype)
    _fold(ends, folded)
    keys: Any = folded.view(bits.dtype).astype(np.int64)
    low, high, middle, nearest_0, nearest_1 = keys[0], keys[1], keys[2], keys[3], keys[4]
    low = 2 * middle - low if ends[0] >= 0.5 else low
    high = 2 * middle - high if ends[1] >= 0.5 else high
    if high > nearest_0:
        low = max(low, nearest_0)
    high = min(high, 2 * middle - nearest_1)
    shift = 0
    while (high >> shift) - (low >> shift) >= buckets:
        shift += 1
    return low >> shift, shift, middle


@inner
def _place(column: Array, folded: Array, bits: Array, frame: Any, most: int, bucket: Array) -> None:
    """The bucket of each report, from the bits of its distance to the nearest of 0 and 1."""
    kind = bits.dtype.type
    low, shift, twice, last = kind(frame[0]), kind(frame[1]), kind(2 * frame[2]), kind(most - 1)
    for i in range(len(column)):
        key: Any = max(bits[i], kind(0))  # below 0 or above 1 by a rounding: as 0 and 1
        key = twice - key if column[i] >= 0.5 else key
        bucket[i] = min(max((key >> shift) - low, kind(0)), last)


@inner
def _buckets(
    column: Array, bits: Array, labels: Array, label: int, frame: Any, squares: bool, bucket: Array, buckets: int
) -> Any:
    """The bucket of each report; and for each bucket the number of its reports, the sums of the leading and of the last
    digits of their distances, and with squares the same of residual²."""
    count = np.zeros(buckets, dtype=np.int32)
    totals = np.zeros((4 if squares else 2, buckets))
    folded = np.empty(_BLOCK, dtype=column.dtype)
    whole = folded.view(bits.dtype)
    for start in range(0, len(column), _BLOCK):
        stop = min(len(column), start + _BLOCK)
        here, at = column[start:stop], bucket[start:stop]
        _fold(here, folded)
        _place(here, folded, whole, frame, buckets, at)
        if column.itemsize == 4:  # at most 24 digits: leading ones only
            for i in range(len(here)):
                count[at[i]] += np.int32(1)
                totals[0, at[i]] += folded[i]
        else:
            for i in range(len(here)):
                count[at[i]] += np.int32(1)
                _add_digits(totals[:2], at[i], folded[i])
        if squares:
            for i in range(len(here)):
                far = (labels[start + i] == label) != (here[i] >= 0.5)
                residual = 1 - np.float64(folded[i]) if far else np.float64(folded[i])
                _add_digits(totals[2:], at[i], residual * residual)
    return count, totals


@inner
def _add_digits(sums: Array, place: int, value: float) -> None:
    """Add the leading 24 digits of a number to one sum, where nothing is rounded, and the others to another."""
    scaled = value * _HALVES
    leading = scaled - (scaled - value)
    sums[0, place] += leading
    sums[1, place] += value - leading


@inner
def _split_buckets(
    column: Array, bits: Array, labels: Array, label: int, bucket: Array, count: Array, cuts: Array
) -> Any:
    """The buckets with a cut inside: where each starts (−1: no cut), its reports in order, and those with outcomes
    as their last bit."""
    starts, split = np.full(len(count), -1, dtype=np.int32), np.zeros(len(count), dtype=np.bool_)
    every = np.empty(min(len(cuts), len(count)), dtype=np.int32)  # those buckets
    before, size, e, number = 0, 0, 0, 0
    for b in range(len(count)):
        while e < len(cuts) and cuts[e] <= before:
            e += 1
        before += count[b]
        if e < len(cuts) and cuts[e] < before:
            starts[b], split[b] = size, True
            size += count[b]
            every[number] = b
            number += 1
    ordered = np.zeros(size + 1, dtype=column.dtype)
    whole = ordered.view(bits.dtype)
    ordered[size] = -ordered[size]  # -0.0: below it, the larger the bits, the smaller the report
    least = np.int64(whole[size])
    packed, place = np.empty(size, dtype=np.int64), starts.copy()
    for i in _chosen(split, bucket, size):
        key = np.int64(bits[i])
        packed[place[bucket[i]]] = 2 * (key if key >= 0 else least - key - 1) + (labels[i] == label)
        place[bucket[i]] += 1
    for b in every[:number]:
        _sort(packed[starts[b] : starts[b] + count[b]])
    for i in range(size):
        key = packed[i] >> 1
        whole[i] = key if key >= 0 else least - key - 1
    return starts, ordered, packed


@inner
def _chosen(split: Array, bucket: Array, size: int) -> Array:
    """The rows in buckets that are split: every row is written down, and only those stay (no branch to guess)."""
    rows = np.empty(size + 1, dtype=np.int32)
    place = 0
    for i in range(len(bucket)):
        rows[place] = i
        place += split[bucket[i]]
    return rows[:size]


@inner
def _sort(values: Array) -> None:
    """Shell's sort, whose last round is insertion: buckets are short, and this one compiles soon."""
    gap = 1
    while 9 * gap < len(values):
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, len(values)):
            value, j = values[i], i
            while j >= gap and values[j - gap] > value:
                values[j] = values[j - gap]
                j -= gap
            values[j] = value
        gap //= 3


@inner
def _assemble(
    count: Array,
    totals: Array,
    marks: Array,
    half: int,
    starts: Array,
    ordered: Array,
    packed: Array,
    cuts: Array,
    together: bool,
    sums: Array,
    blocks: Array,
) -> None:
    """From buckets to segments: whole buckets enter as sums, divided ones report by report."""
    parts = np.zeros((5, len(cuts) + 1))  # above 1/2, distance, residual², and what rounding took from the last two
    before, e, b = 0, 0, 0
    while b < len(count):
        while e < len(cuts) and cuts[e] <= before:
            e += 1
        if starts[b] >= 0:
            here = slice(starts[b], starts[b] + count[b])
            e = _spread(ordered[here], packed[here], b >= half, before, e, cuts, together, sums, blocks, parts)
            before += count[b]
            b += 1
            continue
        stop = cuts[e] if e < len(cuts) else _FAR
        rows, marked, above, total, lost = 0, 0, 0, 0.0, 0.0
        while b < len(count) and starts[b] < 0 and before + rows < stop:
            sign = -1 if b >= half else 1
            rows += count[b]
            marked += marks[b]
            above += count[b] if b >= half else 0
            total, lost = _two_sum(total, lost + sign * totals[1, b], sign * totals[0, b])
            if len(sums) == 4:
                _add(parts, 2, e, totals[2, b], totals[3, b])
            b += 1
        before += rows
        sums[0, e] += rows
        sums[1, e] += marked
        parts[0, e] += above
        _add(parts, 1, e, total, lost)
    for e in range(len(cuts) + 1):
        sums[2, e] = parts[1, e] + ((parts[0, e] - sums[1, e]) + parts[3, e])
        if len(sums) == 4:
            sums[3, e] = parts[2, e] + parts[4, e]


@inner
def _spread(
    ordered: Array,
    packed: Array,
    above: bool,
    before: int,
    e: int,
    cuts: Array,
    together: bool,
    sums: Array,
    blocks: Array,
    parts: Array,
) -> int:
    """Add a divided bucket, one block of equal reports after the other; the segment that its end lies in."""
    begin = 0
    while begin < len(ordered):
        u, stop, marked = np.float64(ordered[begin]), begin, 0
        while stop < len(ordered) and ordered[stop] == ordered[begin]:
            marked += packed[stop] & 1
            stop += 1
        size = stop - begin
        distance = u - 1 if above else u
        squares = (marked * (u - 1) ** 2 + (size - marked) * u**2) / size if len(sums) == 4 else 0.0
        while e < len(cuts) and cuts[e] <= before + begin:
            e += 1
        if size == 1:
            sums[0, e] += 1
            sums[1, e] += marked
            parts[0, e] += above
            _add(parts, 1, e, distance, 0.0)
            if len(sums) == 4:
                _add(parts, 2, e, squares, 0.0)
            begin = stop
            continue
        place = begin
        while place < stop:
            cut = stop
            if not together and e < len(cuts):
                cut = min(stop, cuts[e] - before)
            rows = cut - place
            sums[0, e] += rows
            sums[1, e] += marked * rows / size
            parts[0, e] += rows * above
            _add(parts, 1, e, rows * distance, 0.0)
            _add(parts, 2, e, rows * squares, 0.0)
            place = cut
            while e < len(cuts) and cuts[e] < before + stop and (together or cuts[e] == before + place):
                if together:
                    blocks[0, e] = before + stop
                else:
                    blocks[1, e], blocks[2, e], blocks[3, e] = before + begin, before + stop, marked
                e += 1
        begin = stop
    return e


@inner
def _add(parts: Array, which: int, e: int, value: float, rest: float) -> None:
    """Add value + rest to a sum, and what rounding takes from it to the one two rows below."""
    parts[which, e], parts[which + 2, e] = _two_sum(parts[which, e], parts[which + 2, e] + rest, value)


@inner
def _two_sum(total: float, lost: float, value: float) -> Any:
    """total + value, and `lost` with what rounding takes from it (Knuth)."""
    new = total + value
    back = new - total
    return new, lost + ((total - (new - back)) + (value - back))


def fixed_cells(matrix: Array, labels: Array, edges: Array, squares: bool = False) -> tuple[Array, ...]:
    """`fixed_cells` of backends/numpy.py: few entries of a row exceed the first inner edge, the others are summed as
    they stand."""
    n, k = matrix.shape
    sums = np.zeros((5, k, len(edges) - 1))  # count, outcome, residual, its last digits, residual²
    low = np.zeros((3, k))  # the same of small entries: leading and last digits, and squares
    inner = np.append(edges[1:-1], edges.dtype.type(np.inf))
    step = max(1, _ENTRIES // k)
    for start in range(0, n, step):
        block = np.ascontiguousarray(matrix[start : start + step], dtype=edges.dtype)
        _fixed_cells(
            block, np.ascontiguousarray(labels[start : start + step], dtype=np.int64), inner, squares, sums, low
        )
    sums[0, :, 0] += n - sums[0].sum(axis=1)
    for place, part in zip((2, 3, 4), low, strict=True):
        sums[place, :, 0] += part
    count, outcome, residual, rest, own = sums
    return (count, outcome, residual + rest, own) if squares else (count, outcome, residual + rest)


@entry
def _fixed_cells(block: Array, labels: Array, inner: Array, squares: bool, sums: Array, low: Array) -> None:
    for i in range(len(block)):
        own = labels[i]
        _add_entries(block[i], 0, own, inner, squares, sums, low)
        _add_entries(block[i], own + 1, block.shape[1], inner, squares, sums, low)
        cell = _search(block[i, own], inner, 0, len(inner) - 1)
        residual = np.float64(block[i, own]) - 1
        sums[0, own, cell] += 1.0 if cell else 0.0
        sums[1, own, cell] += 1.0
        _add_digits(sums[2:4, own], cell, residual)
        sums[4, own, cell] += residual * residual


@inner
def _add_entries(row: Array, begin: int, end: int, inner: Array, squares: bool, sums: Array, low: Array) -> None:
    """Entries of classes that did not come."""
    first = inner[0]
    if row.itemsize == 4:  # at most 24 digits: leading ones only
        for j in range(begin, end):
            low[0, j] += np.float64(row[j]) if row[j] <= first else 0.0
    else:
        for j in range(begin, end):
            value = np.float64(row[j]) if row[j] <= first else 0.0
            scaled = value * _HALVES
            leading = scaled - (scaled - value)
            low[0, j] += leading
            low[1, j] += value - leading
    if squares:
        for j in range(begin, end):
            value = np.float64(row[j]) if row[j] <= first else 0.0
            low[2, j] += value * value
    for j in range(begin, end):
        if row[j] > first:
            cell = _search(row[j], inner, 0, len(inner) - 1)
            sums[0, j, cell] += 1.0
            _add_digits(sums[2:4, j], cell, np.float64(row[j]))
            sums[4, j, cell] += np.float64(row[j]) ** 2


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
