"""Cell sums with numpy: sorted runs with exact tie averages, and fixed intervals without a sort.

Vocabulary: a *view* is one scalar report per row; *marked* rows are those whose outcome is 1 (or 0, with complement);
a *cut* is a position between two neighbours of the sorted reports; a *segment* lies between two cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.edges import interval_index

GRID = 1 << 16
_TILE_ROWS = 512  # rows of a transposition tile: source lines and target lines both stay in cache
_RUN_ROWS = 1 << 16


@dataclass(frozen=True)
class RunSums:
    """Sums over the runs between cuts, for V views, and the tie block at each cut.

    `sums` holds count, outcome, residual and where asked for residual², (3 or 4, V, E + 1). Where a cut splits a block
    of equal reports, all but the count are expectations over all orders of the block, and first[v, e], last[v, e],
    marked[v, e] give the block's place and its number of marked rows (0 elsewhere).
    """

    cuts: Array
    sums: Array
    first: Array | None = None
    last: Array | None = None
    marked: Array | None = None


def run_sums(x: Array, starts: Array) -> Array:
    """Sums of x[..., starts[j]:starts[j+1]] along the last axis, in float64, zero for empty runs."""
    size = x.shape[-1]
    inside = int(np.searchsorted(starts, size))  # reduceat takes no start at the very end
    sums = np.add.reduceat(x, starts[:inside], axis=-1, dtype=np.float64)
    empty = np.append(starts[1:inside], size) <= starts[:inside]
    if empty.any():
        sums[..., empty] = 0.0
    if inside < len(starts):
        sums = np.concatenate([sums, np.zeros((*x.shape[:-1], len(starts) - inside))], axis=-1)
    return np.asarray(sums)


def run_sums_of(formula: Callable[[Array], Array], x: Array, starts: Array) -> Array:
    """`run_sums` of a formula of a long vector, a block at a time, so that its values are never all there."""
    if len(x) <= _RUN_ROWS:
        return run_sums(formula(x), starts)
    sums = np.zeros((*formula(x[:0]).shape[:-1], len(starts)))
    for begin in range(0, len(x), _RUN_ROWS):
        end = min(len(x), begin + _RUN_ROWS)
        first = max(0, int(np.searchsorted(starts, begin, side="right")) - 1)
        stop = int(np.searchsorted(starts, end))
        here = np.maximum(starts[first:stop] - begin, 0)
        sums[..., first:stop] += run_sums(formula(x[begin:end]), here)
    return sums


def transposed_tile(matrix: Array, columns: slice, dtype: np.dtype[Any]) -> Array:
    """matrix[:, columns].T as a contiguous copy."""
    source = matrix[:, columns]
    tile = np.empty((source.shape[1], source.shape[0]), dtype=dtype)
    for start in range(0, source.shape[0], _TILE_ROWS):
        rows = slice(start, start + _TILE_ROWS)
        tile[:, rows] = source[rows].T
    return tile


def few_row_segments(ordered: Array, came: Array, cuts: Array, *, ties: str, squares: bool = False) -> RunSums:
    """Segment sums of many views with few rows each: reports (V, n), sorted, and their outcomes.

    A row takes the mean over its block of equal reports where a cut divides one: sums are then expectations over
    orders.
    """
    views, n = ordered.shape
    place, width = np.arange(n), len(cuts) + 1
    new = np.ones((views, n + 1), dtype=np.bool_)  # after the last row too
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=new[:, 1:-1])
    tied = ~new[:, cuts]
    residual = ordered.astype(np.float64) - came
    parts = [came, residual, np.square(residual)][: 2 + squares]
    cell = np.searchsorted(cuts, place, side="right")
    moved, blocks = np.broadcast_to(cuts, tied.shape), tuple[Array, ...]()
    if tied.any():
        begin = np.maximum.accumulate(np.where(new[:, :-1], place, 0), axis=1)
        after = np.minimum.accumulate(np.where(new, np.arange(n + 1), n)[:, ::-1], axis=1)[:, ::-1]
        if ties == "together":
            moved, cell = np.where(tied, after[:, cuts], cuts), cell[begin]
        else:
            block = begin + n * np.arange(views)[:, None]
            rows = np.bincount(block.ravel(), minlength=views * n)
            sums = [np.bincount(block.ravel(), part.ravel(), views * n) for part in parts]
            parts = [(each / np.maximum(rows, 1))[block] for each in sums]
            at = np.minimum(cuts, n - 1)
            marked = np.where(tied, sums[0].reshape(views, n)[np.arange(views)[:, None], begin[:, at]], 0.0)
            split = marked > 0  # a block without a marked row is the same in every order
            if split.any():
                blocks = np.where(split, begin[:, at], 0.0), np.where(split, after[:, cuts], 1.0), marked
    return RunSums(moved, sums_by_view(cell, (None, *parts), views, width), *blocks)


def sums_by_view(cell: Array, parts: Sequence[Array | None], views: int, cells: int) -> Array:
    """Sums of values (V, n) by view and cell; None counts rows."""
    flat = (cell + cells * np.arange(views)[:, None]).ravel()
    every = [np.bincount(flat, None if part is None else part.ravel(), views * cells) for part in parts]
    return np.stack(every).astype(np.float64).reshape(-1, views, cells)


def indicator_segments(
    ordered: Array, marked: Array, cuts: Array, *, ties: str, complement: bool = False, squares: bool = False
) -> tuple[Array, ...]:
    """One view of reports in [0, 1] with 0/1 outcomes: segment sums from sorted values alone.

    `ordered` holds all reports, sorted (it is overwritten), `marked` those of marked rows. Returns
    (cuts, first, last, block_marked, count, outcome, residual and, with squares, residual²); the blocks are empty when
    no cut needs them. The residual is summed as distances to the nearest of 0 and 1, so that nearly perfect reports
    keep their digits.
    """
    n = len(ordered)
    place = np.minimum(np.maximum(cuts, 1), n - 1)
    value = ordered[place]
    tied = (ordered[place - 1] == value) & (cuts > 0) & (cuts < n)
    whole = np.searchsorted(marked, value)
    whole[cuts <= 0] = 0
    whole[cuts >= n] = len(marked)
    part = np.zeros(len(cuts))
    first = last = block = np.empty(0)
    if tied.any():
        if ties == "together":
            cuts = cuts.copy()
            cuts[tied] = np.searchsorted(ordered, value[tied], side="right")
            whole[tied] = np.searchsorted(marked, value[tied], side="right")
        else:
            block = np.zeros(len(cuts))
            block[tied] = np.searchsorted(marked, value[tied], side="right") - whole[tied]
            split = np.flatnonzero(block > 0)  # a block without a marked row is the same in every order
            first, last = np.zeros(len(cuts)), np.ones(len(cuts))
            first[split] = np.searchsorted(ordered, value[split])
            last[split] = np.searchsorted(ordered, value[split], side="right")
            part[split] = block[split] * (cuts[split] - first[split]) / (last[split] - first[split])
    high = int(np.searchsorted(ordered, ordered.dtype.type(0.5), side="right"))
    ordered[high:] -= 1  # exact: floats in [1/2, 1] minus 1
    ends = np.append(cuts, n)
    starts = np.concatenate([[0], cuts])
    distance = run_sums_of(np.asarray, ordered, starts)
    count = (ends - starts).astype(np.float64)
    near_one = np.diff(np.maximum(ends, high), prepend=high)
    marks = np.diff(whole + part, prepend=0.0, append=len(marked))
    outcome = count - marks if complement else marks
    sums: tuple[Array, ...] = (count, outcome, distance + (near_one - outcome))
    if squares:
        surprise = _surprises(ordered, high, starts, marked, whole, part, value, complement)
        sums = (*sums, run_sums_of(lambda x: np.square(x, dtype=np.float64), ordered, starts) + surprise)
    return cuts, first, last, block, *sums


def _surprises(
    ordered: Array,
    high: int,
    starts: Array,
    marked: Array,
    whole: Array,
    part: Array,
    value: Array,
    complement: bool,
) -> Array:
    """Per segment, by how much residual² exceeds the squared distances to the nearest of 0 and 1: |2u − 1| for each row
    whose outcome is the farther one.

    `ordered` holds u up to place `high` and u − 1 after it. Marked rows (outcome 1, or 0 with complement) on the far
    side are such rows; on the near side they are taken off all rows there, exactly 0 where none is left, so that nearly
    perfect reports keep their digits.
    """
    middle = int(np.searchsorted(marked, marked.dtype.type(0.5), side="right"))
    share = np.abs(2 * value.astype(np.float64) - 1) * part
    below = value <= 0.5
    low = _Side(marked[:middle], np.minimum(whole, middle), np.where(below, part, 0), np.where(below, share, 0))
    top = _Side(marked[middle:], np.maximum(whole - middle, 0), np.where(below, 0, part), np.where(below, 0, share))
    if complement:
        far, near, every, sign, begin = top, low, ordered[:high], -2.0, np.minimum(starts, high)
    else:
        far, near, every, sign, begin = low, top, ordered[high:], 2.0, np.maximum(starts - high, 0)
    rows = np.diff(np.append(begin, len(every)))
    grid, rest = run_sums_of(lambda x: np.stack(grid_part(1 + sign * x.astype(np.float64))), every, begin)
    near_grid, near_rest = near.sums()
    left = (grid - near_grid) / GRID + (rest - near_rest)
    far_grid, far_rest = far.sums()
    return np.asarray(far_grid / GRID + far_rest + np.where(rows == near.rows(), 0.0, left))


@dataclass(frozen=True)
class _Side:
    """Marked rows on one side of 1/2: their reports, how many lie before each cut, and what cuts divide blocks into."""

    values: Array
    before: Array
    part: Array
    share: Array

    def rows(self) -> Array:
        """How many lie in each segment, in expectation over orders of ties."""
        return np.diff(self.before + self.part, prepend=0.0, append=len(self.values))

    def sums(self) -> tuple[Array, Array]:
        """Sums of |2u − 1| in each segment, as grid part and rest."""
        starts = np.concatenate([[0], self.before])
        grid, rest = run_sums_of(
            lambda u: np.stack(grid_part(np.abs(2 * u.astype(np.float64) - 1))), self.values, starts
        )
        return grid, rest + np.diff(self.share, prepend=0.0, append=0.0)


def grid_part(values: Array) -> tuple[Array, Array]:
    """values = grid/2^16 + rest, exactly: whole numbers, whose sums are exact, and rests below 2^-17.

    Summing a million reports one after the other rounds each time, always the same way if they are equal. Summed in two
    parts, the large one has no rounding at all and the small one hardly any to lose.
    """
    values = values.astype(np.float64)
    grid = np.rint(values * GRID)
    return grid, values - grid / GRID


def cell_sums(cell: Array, values: Array, marks: Array, cells: int, squares: bool = False) -> tuple[Array, ...]:
    """Count, outcome and residual sums (with squares, residual² too) of the rows of each cell."""
    grid, rest = grid_part(values)
    count = np.bincount(cell, minlength=cells).astype(np.float64)
    outcome = np.bincount(cell, weights=marks, minlength=cells)
    whole = np.bincount(cell, weights=grid, minlength=cells) / GRID
    sums = (count, outcome, (whole - outcome) + np.bincount(cell, weights=rest, minlength=cells))
    if not squares:
        return sums
    return *sums, np.bincount(cell, weights=np.square(values.astype(np.float64) - marks), minlength=cells)


def stack_segments(rows: Sequence[tuple[Array, ...]]) -> RunSums:
    """Views that share their number of cuts, as one block."""
    cuts = np.stack([row[0] for row in rows])
    sums = np.stack([np.stack(row[4:]) for row in rows], axis=1)
    if not any(row[3].any() for row in rows):
        return RunSums(cuts, sums)
    width = cuts.shape[1]
    defaults = (np.zeros(width), np.ones(width), np.zeros(width))
    blocks = [np.stack([row[1 + i] if row[3].size else defaults[i] for row in rows]) for i in range(3)]
    return RunSums(cuts, sums, *blocks)


def tie_variance(segments: RunSums, left: Array, right: Array, lower: Array, upper: Array) -> Array:
    """Variance of each bin's sum over the orders of the tie blocks at its two ends.

    left and right index the bin's cuts among the segments' cuts (−1: the end of the sample), lower and upper are its
    first and last place. A block of t rows, P of them marked, that gives s rows to the bin adds
    s·(P/t)·(1 − P/t)·(t − s)/(t − 1); a block that covers the whole bin counts once.
    """
    if segments.first is None or segments.last is None or segments.marked is None:
        return np.zeros((len(segments.cuts), len(left)))
    views = np.arange(len(segments.cuts))[:, None]

    def block(index: Array) -> tuple[Array, Array, Array]:
        inside = index >= 0
        assert segments.first is not None and segments.last is not None and segments.marked is not None
        return (
            segments.first[views, index],
            segments.last[views, index],
            np.where(inside, segments.marked[views, index], 0.0),
        )

    first_l, last_l, marked_l = block(left)
    first_r, last_r, marked_r = block(right)
    same = (marked_l > 0) & (marked_r > 0) & (first_l == first_r)
    from_left = _hypergeometric(np.minimum(last_l, upper) - lower, last_l - first_l, marked_l)
    from_right = _hypergeometric(upper - np.maximum(first_r, lower), last_r - first_r, marked_r)
    return np.asarray(from_left + np.where(same, 0.0, from_right))


def _hypergeometric(drawn: Array, size: Array, marked: Array) -> Array:
    share = marked / size
    drawn = np.clip(drawn, 0.0, size)
    return np.asarray(drawn * share * (1 - share) * (size - drawn) / np.maximum(size - 1, 1))


def fixed_cells(matrix: Array, labels: Array, edges: Array, squares: bool = False) -> tuple[Array, ...]:
    """Count, outcome and residual sums (with squares, residual² too) of every column over fixed intervals, without a
    sort: arrays (k, m).

    Few entries of a row exceed the first inner edge, so only those are looked up; the rest of each column is summed
    as it stands. All sums are of `grid_part`s.
    """
    n, k = matrix.shape
    m = len(edges) - 1
    every, low = np.zeros((4, k * m)), np.zeros((3, k))
    (count, whole, rest, own), (low_whole, low_rest, low_own) = every, low
    step = max(1, (1 << 18) // k)
    for start in range(0, n, step):
        block = np.ascontiguousarray(matrix[start : start + step], dtype=edges.dtype)
        flat = np.flatnonzero(block.reshape(-1) > edges[1]) if m > 1 else np.empty(0, dtype=np.intp)
        values = block.reshape(-1)[flat]
        cell = (flat % k) * m + interval_index(values, edges)
        grid, small = grid_part(block)
        parts = [(grid, whole, low_whole), (small, rest, low_rest)]
        if squares:
            residual = block.astype(np.float64)
            residual[np.arange(len(block)), labels[start : start + step]] -= 1.0
            parts.append((np.square(residual, out=residual), own, low_own))
        count += np.bincount(cell, minlength=k * m)
        for part, cells, columns in parts:
            cells += np.bincount(cell, weights=part.reshape(-1)[flat], minlength=k * m)
            part.reshape(-1)[flat] = 0.0
            columns += part.sum(axis=0)
    count, whole, rest, own = every.reshape(4, k, m)
    count[:, 0] += n - count.sum(axis=1)
    every.reshape(4, k, m)[1:, :, 0] += low
    mine = matrix[np.arange(n), labels].astype(edges.dtype, copy=False)
    outcome = np.bincount(labels * m + interval_index(mine, edges), minlength=k * m).reshape(k, m).astype(np.float64)
    sums = (count, outcome, (whole / GRID - outcome) + rest)
    return (*sums, own) if squares else sums


def view_cells(values: Array, marks: Array, edges: Array, squares: bool = False) -> tuple[Array, ...]:
    """Count, outcome and residual (with squares, residual²) sums of one view over fixed intervals: arrays (1, m)."""
    sums = cell_sums(interval_index(values, edges), values, marks, len(edges) - 1, squares)
    return tuple([x[None] for x in sums])
