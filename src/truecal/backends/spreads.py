"""The sums behind the interval of a gap, one view at a time in compiled loops: `inference.spread` has the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array
from .numba import _BLOCK, _chosen, _fold, _frame, _place, _sort, entry, inner, reordered

_FEW = 4  # thresholds that are passed one by one


MOST, FIRST, MIDDLE = 0, 1, 2
"""Where a block of equal reports that cuts divide goes: to the cell with most of it, its first, or its middle one."""


def quantile_cells(column: Array, cuts: Array, to: int) -> Array:
    """The cell of each report of a view between cuts of their order, without a sort of all of them."""
    cell = np.empty(len(column), dtype=np.uint16 if len(cuts) < (1 << 16) else np.uint32)
    buckets = 1 << (12 if len(cuts) <= 64 else 15 if len(cuts) <= 1024 else 16)
    _quantile_cells(column, column.view(f"i{column.itemsize}"), cuts, to, buckets, cell)
    return cell


@entry
def _quantile_cells(column: Array, bits: Array, cuts: Array, to: int, buckets: int, cell: Array) -> None:
    n, bucket = len(column), np.empty(len(column), dtype=np.uint16)
    frame = _frame(column, bits, buckets)
    count = np.zeros(buckets, dtype=np.int32)
    folded = np.empty(_BLOCK, dtype=column.dtype)
    for begin in range(0, n, _BLOCK):
        stop = min(n, begin + _BLOCK)
        _fold(column[begin:stop], folded)
        _place(column[begin:stop], folded, folded.view(bits.dtype), frame, buckets, bucket[begin:stop])
        for i in range(begin, stop):
            count[bucket[i]] += np.int32(1)
    first, starts, split, size = _divided(count, cuts)
    values, place = np.empty(size, dtype=column.dtype), starts.copy()
    rows = _chosen(split, bucket, size)
    for i in rows:
        values[place[bucket[i]]] = column[i]
        place[bucket[i]] += 1
    thresholds = np.empty(len(cuts), dtype=column.dtype)
    thresholds[:] = np.inf  # of cuts between buckets
    before = 0
    for b in range(buckets):
        if split[b]:
            here = values[starts[b] : starts[b] + count[b]]
            _sort(here)
            _find_thresholds(here, before, cuts, first[b], first[b + 1], to, thresholds)
        before += count[b]
    for i in range(n):
        cell[i] = first[bucket[i]]
    for i in rows:
        cell[i] = _passed(column[i], thresholds, first[bucket[i]], first[bucket[i] + 1])


@inner
def _divided(count: Array, cuts: Array) -> Any:
    """Per bucket: how many cuts are at its begin or before, where its reports start among those of buckets with a cut
    inside, and whether it is one; and how many reports those hold."""
    first, starts = np.empty(len(count) + 1, dtype=np.int64), np.zeros(len(count), dtype=np.int64)
    split = np.zeros(len(count), dtype=np.bool_)
    before, e, size = 0, 0, 0
    for b in range(len(count)):
        while e < len(cuts) and cuts[e] <= before:
            e += 1
        first[b] = e
        before += count[b]
        if e < len(cuts) and cuts[e] < before:
            starts[b], split[b] = size, True
            size += count[b]
            while e < len(cuts) and cuts[e] < before:
                e += 1
    first[len(count)] = len(cuts)
    return first, starts, split, size


@inner
def _find_thresholds(ordered: Array, before: int, cuts: Array, e: int, last: int, to: int, thresholds: Array) -> None:
    """The least report behind each cut inside a bucket, where blocks of equal ones are whole."""
    far = ordered.dtype.type(np.inf)
    while e < last and cuts[e] < before + len(ordered):
        at = cuts[e] - before
        value, begin, end = ordered[at], at, at
        while begin > 0 and ordered[begin - 1] == value:
            begin -= 1
        while end < len(ordered) and ordered[end] == value:
            end += 1
        if begin == at:
            thresholds[e] = value
            e += 1
            continue
        stop, home, most, start = e, e, 0, begin
        while stop < last and cuts[stop] < before + end:
            if cuts[stop] - before - start > most:
                home, most = stop, cuts[stop] - before - start
            start = cuts[stop] - before
            stop += 1
        if end - start > most:
            home = stop
        if to != MOST:
            middle, home = before + (begin + end - 1) // 2, e
            while to == MIDDLE and home < stop and cuts[home] <= middle:
                home += 1
        for cut in range(e, stop):
            thresholds[cut] = value if cut < home else ordered[end] if end < len(ordered) else far
        e = stop


@inner
def _passed(value: float, thresholds: Array, low: int, high: int) -> int:
    """How many thresholds are at the value or below: `low` at least, `high` at most."""
    while high - low > _FEW:
        middle = (low + high) >> 1
        if value >= thresholds[middle]:
            low = middle + 1
        else:
            high = middle
    while low < high and value >= thresholds[low]:
        low += 1
    return low


def view_sums(
    column: Array, labels: Array, label: int, weights: Array, cell: Array, block: Array, unit_sq: float, shape: Any
) -> tuple[Array, Array, float, float]:
    """`_cell_sums` of a view in `inference.spread`, the w·residual of each block and cell (`shape`), and over all rows
    Σ surprise and Σ w·surprise. Without weights each row counts 1."""
    sums, table, both = np.zeros((shape[1], 8)), np.zeros(shape), np.zeros(2)
    _view_sums(column, labels, label, weights, cell, block, unit_sq, sums, table, both)
    return np.ascontiguousarray(sums.T), table, float(both[0]), float(both[1])


@entry
def _view_sums(
    column: Array,
    labels: Array,
    label: int,
    weights: Array,
    cell: Array,
    block: Array,
    unit_sq: float,
    sums: Array,
    table: Array,
    both: Array,
) -> None:
    one, two, plain = 0.0, 0.0, len(weights) == 0
    for i in range(len(column)):
        w = 1.0 if plain else weights[i]
        x = w * (np.float64(column[i]) - (1.0 if labels[i] == label else 0.0))
        own = x * x
        surprise = min(w, 4.0 * (own / unit_sq) / w) if w > 0.0 else 0.0
        here = sums[cell[i]]
        here[0] += 1.0 if w > 0.0 else 0.0
        here[1] += w
        here[2] += w * w
        here[3] += x
        here[4] += own
        here[5] += own * own
        here[6] += surprise
        here[7] += surprise * surprise
        table[block[i], cell[i]] += x
        one += surprise
        two += w * surprise
    both[0], both[1] = one, two


def add_influence(
    column: Array, labels: Array, label: int, weights: Array, cell: Array, about: tuple[Array, ...], h: Array
) -> float:
    """Σ of squares of pull·(x − w·mean)·(weight − w) over the rows of a view; rate·x·(total − x) is added to h, unless
    that is empty. `about` are pull, mean, weight, rate and total of each cell."""
    each = np.ascontiguousarray(np.stack(about, axis=1))
    return float(_add_influence(column, labels, label, weights, cell, each, h))


@entry
def _add_influence(
    column: Array, labels: Array, label: int, weights: Array, cell: Array, about: Array, h: Array
) -> float:
    total, plain = 0.0, len(weights) == 0
    for i in range(len(column)):
        w = 1.0 if plain else weights[i]
        x = w * (np.float64(column[i]) - (1.0 if labels[i] == label else 0.0))
        here = about[cell[i]]
        each = here[0] * (x - w * here[1]) * (here[2] - w)
        total += each * each
        if len(h):
            h[i] += here[3] * x * (here[4] - x)
    return total


def add_products(table: Array, rates: Array, whole: Array) -> None:
    """Add Σ_c rate_c·x_ac·x_bc of blocks a and b to `whole`. Not by a linear algebra library, whose threads wait for
    each other where views are summed side by side."""
    _add_products(table, rates, whole)


@entry
def _add_products(table: Array, rates: Array, whole: Array) -> None:
    scaled = np.empty(len(rates))
    for a in range(len(table)):
        for c in range(len(rates)):
            scaled[c] = rates[c] * table[a, c]
        for b in range(a + 1):
            found = _dot(scaled, table[b])
            whole[a, b] += found
            if a != b:
                whole[b, a] += found


@reordered
def _dot(a: Array, b: Array) -> float:
    total = 0.0
    for c in range(len(a)):
        total += a[c] * b[c]
    return total
