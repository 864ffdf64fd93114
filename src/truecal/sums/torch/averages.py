"""Averages over cuts: every row is a point, and all points of a few views are held at once; `core.rules` reads them."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="arg-type"

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from torch import Tensor

from ...core.averages import AveragedRule, TwoBin
from ...core.dispatch import Dispatch
from ...core.sample import Sample
from ...core.table import PointBlock, PointSums
from .rows import row_sums, tiles, views_of


def point_sums(sample: Sample, rule: Any, dispatch: Dispatch) -> Iterator[PointSums]:
    """The sums of a few views at a time, in the order of their points."""
    if rule.shared_kernel:
        keys: Any = rule.keys(sample.reports)
        for key in keys:
            points, order = key.sort()
            for tile in tiles(sample, dispatch.device_numbers >> 2):
                yield _in_order(TwoBin(), (0.0, 1.0), points[None], order[None], row_sums(sample, tile))
        return
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
