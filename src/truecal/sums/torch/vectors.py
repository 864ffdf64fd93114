"""Cells of vectors: their tables, from orders of the rows in which each cell is a run."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from ...core.table import BinTable
from .bins import Cut, summed, table_between
from .rows import row_sums, tiles

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
