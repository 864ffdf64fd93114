"""The tables of a sample of tensors, a few views at a time: which family builds them."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.rules import BinningRule
from ...core.table import BinTable, TableSums
from .bins import Cut, summed, table_between, weight_sq, zeros_like
from .intervals import interval_tables, intervals, listed
from .quantiles import quantile_tables
from .rows import row_sums, tiles_of, views_of
from .tensors import like
from .vectors import vector_tables

Tables = tuple[BinTable, ...]


def tables(build: Any) -> Iterator[Tables]:
    """The tables of a sample, a few views at a time; `build` knows the sample, the rule, ties and what is asked for."""
    sample, rule = build.sample, build.rule
    if sample.joint:
        yield from vector_tables(build)
    elif rule.fixed and listed(build):
        yield interval_tables(build)
    elif rule.open and not (build.squares or build.needs_cells):
        for tile in tiles_of(max(sample.rows, _bins(build)), sample.views, build.dispatch.device_numbers):
            yield quantile_tables(build, tile)
    else:
        for tile in tiles_of(max(sample.rows, _bins(build)), sample.views, build.dispatch.device_numbers >> 2):
            yield _sorted_tables(build, tile)


def _bins(build: Any) -> int:
    """How many quantile bins a view has at all counts together, which may be more than rows; 0 for other rules."""
    rule = build.rule
    return sum(min(m, build.sample.rows) for m in rule.counts or ()) if rule.open else 0


def has(rule: BinningRule) -> bool:
    """Whether the rule is measured here; frozen cells of single views and classes are left to numpy."""
    return rule.on_device


def on_host(table: BinTable) -> BinTable:
    """The same table in numpy's arrays."""
    parts: dict[str, Any] = {name: part for name, part in vars(table).items() if isinstance(part, Tensor)}
    return replace(table, **{name: part.cpu().numpy() for name, part in parts.items()})


def as_numbers(pieces: Sequence[Sequence[TableSums]]) -> list[list[TableSums]]:
    """Moments as plain numbers, all of them in one transfer."""
    found = [x for piece in pieces for moments in piece for x in moments if isinstance(x, Tensor)]
    numbers = iter(torch.stack(found).tolist())
    return [[TableSums(*(next(numbers) if isinstance(x, Tensor) else x for x in m)) for m in piece] for piece in pieces]


def _sorted_tables(build: Any, columns: slice) -> Tables:
    """Views in the order of their reports, whatever the rule, weights and outcomes."""
    sample, rule = build.sample, build.rule
    x, order = views_of(sample, columns).contiguous().sort(dim=1, stable=True)
    rows = row_sums(sample, columns)
    if rule.open:
        upto = summed(rows, order)
        cuts = [_rank_cut(x, end, build.ties) for end in _ends(build, x)]
        return tuple(table_between(build, c, upto, cut) for c, cut in enumerate(cuts))
    cells = [intervals(x, edges) for edges in build.edges] or [x]
    return tuple(_cells_table(build, c, cell, order, rows) for c, cell in enumerate(cells))


def _ends(build: Any, other: Tensor) -> list[Tensor]:
    """For each bin count, the positions at which quantile bins end, (1, bins)."""
    n = build.sample.rows
    return [like(np.append(cuts, n)[None], other) for cuts in build.rule.shared_cuts(n)]


def _rank_cut(x: Tensor, end: Tensor, ties: str) -> Cut:
    """Ends among sorted reports with their blocks, under a treatment of ties."""
    if ties == "row":
        return Cut.plain(end)
    value = x[:, end[0] - 1]
    last = torch.searchsorted(x, value, right=True)
    return Cut.plain(last) if ties == "together" else Cut(end, torch.searchsorted(x, value), last)


def _cells_table(build: Any, c: int, cell: Tensor, order: Tensor, rows: Sequence[Tensor]) -> BinTable:
    """Runs of equal numbers `cell` (views, n), in order, are the cells; empty ones are left out."""
    place = torch.nn.functional.pad((cell[:, 1:] != cell[:, :-1]).cumsum(1), (1, 0))
    width = int(place.max()) + 1
    ones = torch.ones_like(rows[0])
    every = [x.gather(1, order) for x in rows] if len(rows) > 3 else [ones, *(x.gather(1, order) for x in rows)]
    sums = [x.new_zeros(len(x), width).scatter_add_(1, place, x) for x in every]
    if len(rows) > 3:
        sums = [sums[3], *sums[:3], sums[4]]
    return build.table(c, sums[:4], zeros_like(sums[0]), **weight_sq([sums[0], *sums[4:]][: len(rows) - 3]))
