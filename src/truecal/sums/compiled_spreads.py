"""The sums behind the interval of a gap, one view at a time in compiled loops: `inference.spread` has the formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import Array
from .compiled import entry, inner, reordered

_FEW = 4  # thresholds that are passed one by one
_NEAREST_0, _NEAREST_1 = 2.0**-100, 2.0**-54  # reports nearer than this share a bucket
_BLOCK = 1 << 10  # reports looked at together


def quantile_cells(column: Array, cuts: Array, together: bool = False) -> Array:
    """The cell of each report of a view between cuts of their order, without a sort of all of them.

    Equal reports share the cell of the middle one (`core.cells.block_bin`), or of the first with `together`.
    """
    cell = np.empty(len(column), dtype=np.uint16 if len(cuts) < (1 << 16) else np.uint32)
    buckets = 1 << (12 if len(cuts) <= 64 else 15 if len(cuts) <= 1024 else 16)
    _quantile_cells(column, column.view(f"i{column.itemsize}"), cuts, together, buckets, cell)
    return cell


@entry
def _quantile_cells(column: Array, bits: Array, cuts: Array, together: bool, buckets: int, cell: Array) -> None:
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
            _find_thresholds(here, before, cuts, first[b], first[b + 1], together, thresholds)
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
def _find_thresholds(
    ordered: Array, before: int, cuts: Array, e: int, last: int, together: bool, thresholds: Array
) -> None:
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
        stop, home, middle = e, e, before + (begin + end - 1) // 2
        while stop < last and cuts[stop] < before + end:
            stop += 1
        while not together and home < stop and cuts[home] <= middle:
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
) -> tuple[Array, Array]:
    """`_cell_sums` of a view in `inference.view_sums`, and the w·residual of each block and cell (`shape`).

    Without weights each row counts 1.
    """
    sums, table = np.zeros((shape[1], 9)), np.zeros(shape)
    _view_sums(column, labels, label, weights, cell, block, unit_sq, sums, table)
    return np.ascontiguousarray(sums.T), table


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
) -> None:
    plain = len(weights) == 0
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
        here[8] += w * surprise
        table[block[i], cell[i]] += x


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
