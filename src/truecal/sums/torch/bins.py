"""Bins between cuts of ordered rows: their sums, and what the orders of equal reports leave open.

Vocabulary as in `sums.plain`: a *view* is one scalar report per row, a *cut* a position between two neighbours of
the sorted reports; the *block* of a cut holds the reports that equal the one just before it. Sums over runs are
differences of cumulative sums in float64.
"""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

# mypy: disable-error-code="arg-type"

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...core.averages import AveragedRule
from ...core.dispatch import Dispatch
from ...core.sample import Sample
from ...core.table import BinTable, PointBlock, PointSums
from .tensors import row_sums, tiles, views_of


@dataclass(frozen=True)
class Cut:
    """Where bins end, (views or 1, bins) positions, and the block at each end: first, last (both the end: no block)."""

    end: Tensor
    first: Tensor
    last: Tensor

    @property
    def share(self) -> Tensor:
        """The share of the block that lies before the end; of an empty block, none."""
        return (self.end - self.first).double() / (self.last - self.first).clamp(min=1)

    @staticmethod
    def plain(end: Tensor) -> Cut:
        """Ends that divide no block, or whose rows keep their order."""
        return Cut(end, end, end)


def table_between(build: Any, c: int, rows: Sequence[Tensor], cut: Cut) -> BinTable:
    """The bins between the ends, from cumulative sums of the rows in order, (views, n + 1) each."""
    views = len(rows[0])
    end, first, last = (x.expand(views, -1) for x in (cut.end, cut.first, cut.last))
    blocks = [(x.gather(1, first), x.gather(1, last)) for x in rows]
    upto = [low + (high - low) * cut.share for low, high in blocks]
    sums = [steps_of(x) for x in upto]
    outcome, residual, own, *weight = sums
    count = weight[0] if weight else steps_of(end.double())
    if cut.first is cut.last:
        return build.table(c, (count, outcome, residual, own), zeros_like(count), **weight_sq(weight))
    parts = [high - low for low, high in blocks]
    variance = tie_variance(end, first, last, parts[1], parts[2])
    of_weight = tie_variance(end, first, last, parts[3], parts[4]) if weight else None
    more = weight_sq(weight) | {"weight_variance": of_weight}
    return build.table(c, (count, outcome, residual, own), variance, **more)


def weight_sq(weight: Sequence[Tensor]) -> dict[str, Any]:
    return {"weight_sq": weight[1] if weight else None}


def zeros_like(other: Tensor) -> Tensor:
    return other.new_zeros(()).expand_as(other)


def steps_of(x: Tensor) -> Tensor:
    """Differences of neighbours along the last axis, the first from 0."""
    return torch.diff(x, prepend=x.new_zeros(()).expand(*x.shape[:-1], 1))


def run_sums(x: Tensor, starts: Tensor) -> Tensor:
    """Sums over runs of the last axis, each from its start to the next one's."""
    ends = torch.nn.functional.pad(starts[1:], (0, 1), value=x.shape[-1])
    return steps_of(x.cumsum(-1)[..., ends - 1])


def counted(cells: Tensor, weights: Any, size: int) -> Tensor:
    """Per row of (draws, n) cells, how many, or how much weight, there is in each of so many cells."""
    weight = cells.new_ones((), dtype=torch.float64) if weights is None else weights
    return weight.new_zeros(len(cells), size).scatter_add_(1, cells, weight.expand_as(cells))


def cell_totals(cell: Tensor, values: Sequence[Tensor], m: int) -> Any:
    """(values, m) sums of several vectors by cell, on the host."""
    sums = torch.zeros(len(values), m, dtype=torch.float64, device=cell.device)
    for place, each in enumerate(values):
        sums[place].index_add_(0, cell, each.double())
    return sums.cpu().numpy()


def summed(rows: Sequence[Tensor], order: Tensor) -> list[Tensor]:
    """Cumulative sums of the rows in an order, from 0: (views, n + 1)."""
    return [torch.nn.functional.pad(x.gather(1, order.expand_as(x)).cumsum(1), (1, 0)) for x in rows]


def tie_variance(end: Tensor, first: Tensor, last: Tensor, total: Tensor, squares: Tensor) -> Tensor:
    """Variance of each bin's sum over the orders of the blocks at its two ends.

    A block of t rows with sum R and sum of squares Q that gives s rows to the bin adds s(t − s)/(t²(t − 1))·(tQ − R²);
    a block that covers the whole bin counts once.
    """
    size = (last - first).double()
    spread = (size * squares - total.square()).clamp(min=0) / (size.square() * (size - 1)).clamp(min=1)
    start, (old_first, old_last, old_size, old_spread) = (
        _before(end),
        (_before(x) for x in (first, last, size, spread)),
    )
    from_left = torch.minimum(old_last, end) - start
    from_right = end - torch.maximum(first, start)
    same = (old_first == first) & (old_last > start)
    left = from_left * (old_size - from_left) * old_spread
    right = from_right * (size - from_right) * spread
    return left + right.masked_fill(same, 0.0)


def _before(x: Tensor) -> Tensor:
    """What the bin before has, 0 for the first."""
    return torch.nn.functional.pad(x[..., :-1], (1, 0))


Tables = tuple[BinTable, ...]


def vector_tables(build: Any) -> Iterator[Tables]:
    """Tables of the coordinates of vectors, which share their cells."""
    sample = build.sample
    found = build.rule.partition(sample.reports)
    cuts = [_cut(found, cuts, build.ties) for cuts in found.cuts]
    for tile in tiles(sample, build.dispatch.device_numbers >> 2):
        rows = summed(row_sums(sample, tile), found.order[None])
        yield tuple(table_between(build, c, rows, cut) for c, cut in enumerate(cuts))


def _cut(partition: Any, cuts: Tensor, ties: str) -> Cut:
    """The ends of the bins of one count, with their blocks."""
    n = len(partition.order)
    end = torch.cat([cuts, cuts.new_tensor([n])])
    if partition.tied is None or ties == "row":
        return Cut.plain(end[None])
    place = torch.arange(n, device=end.device)
    first = torch.where(partition.tied, 0, place).cummax(0).values[end - 1]
    begins = torch.cat([torch.where(partition.tied, n, place), end[-1:]])
    last = begins.flip(0).cummin(0).values.flip(0)[end]
    return Cut.plain(last[None]) if ties == "together" else Cut(end[None], first[None], last[None])


def point_sums(sample: Sample, rule: Any, dispatch: Dispatch) -> Iterator[PointSums]:
    """The sums of a few views at a time, in the order of their points."""
    for tile in tiles(sample, dispatch.device_numbers >> 2):
        points, order = views_of(sample, tile).contiguous().sort(dim=1)
        yield _in_order(rule, sample.bounds, points.double(), order, row_sums(sample, tile))


def _in_order(rule: AveragedRule, bounds: Any, points: Tensor, order: Tensor, rows: Sequence[Tensor]) -> PointSums:
    """Points (views or 1, n) with the rows, given in their own order, in that of the points."""
    _, residual, squares, *weights = rows
    order = order.expand_as(residual)
    weight = weights[0].gather(1, order) if weights else residual.new_ones(1, 1).expand_as(residual)
    largest = float(weights[0].max()) if weights else 1.0
    block = PointBlock(points, residual.gather(1, order), weight, squares.gather(1, order), weight.square())
    return PointSums(rule, bounds, partial(iter, [block]), largest)


def search_rows(table: Tensor, row: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Where values[i] would go in the sorted table[row[i]]: before its equals, and after them."""
    width = table.shape[1]
    flat = table.reshape(-1)
    begin = torch.cat([row, row]) * width
    wanted = torch.cat([value, value])
    after = torch.zeros_like(begin, dtype=torch.bool)
    after[len(row) :] = True
    low, high = begin, begin + width
    for _ in range(width.bit_length()):
        middle = (low + high) // 2
        found = flat[middle.clamp(max=len(flat) - 1)]
        right = ((found < wanted) | (after & (found == wanted))) & (middle < high)
        low, high = torch.where(right, middle + 1, low), torch.where(right, high, middle)
    place = low - begin
    return place[: len(row)], place[len(row) :]
