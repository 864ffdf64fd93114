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

from ...core.data import working_dtype
from ...core.edges import covered
from ...core.sample import Sample
from ...core.table import BinTable, TableSums
from .bins import Cut, summed, table_between, vector_tables, weight_sq, zeros_like
from .reading import within
from .tensors import like, row_sums, tiles_of, views_of

Tables = tuple[BinTable, ...]


def tables(build: Any) -> Iterator[Tables]:
    """The tables of a sample, a few views at a time; `build` knows the sample, the rule, ties and what is asked for."""
    sample, rule = build.sample, build.rule
    if sample.joint:
        yield from vector_tables(build)
    elif rule.fixed and listed(build):
        yield interval_tables(build)
    else:
        for tile in tiles_of(max(sample.rows, _bins(build)), sample.views, build.dispatch.device_numbers >> 2):
            yield _sorted_tables(build, tile)


def _bins(build: Any) -> int:
    """How many quantile bins a view has at all counts together, which may be more than rows; 0 for other rules."""
    rule = build.rule
    return sum(min(m, build.sample.rows) for m in rule.counts or ()) if rule.open else 0


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


_LANES = 64  # copies of a row of cells among which sums are spread, so that few additions meet in one place


def listed(build: Any) -> bool:
    """Whether all cells of all views can be held at once; else each report looks for its own, in order."""
    if max(build.rule.counts or (1,)) > 1 << 20:
        return False
    edges = sum(len(e) for e in build.edges)
    return bool(edges * build.sample.views <= max(1 << 22, build.sample.reports.numel()))


def intervals(x: Tensor, edges: Any) -> Tensor:
    """The interval (e_{j−1}, e_j] of each report."""
    return torch.bucketize(x.contiguous(), like(edges[1:-1], x))


def interval_tables(build: Any) -> Tables:
    """All views over fixed intervals, without a sort, over the union of all edges."""
    sample = build.sample
    refuse_outside(sample, build.rule)
    every = build.edges
    union = every[0] if len(every) == 1 else np.unique(np.concatenate(every))
    sums = _interval_sums(sample, union, build.dispatch.device_numbers >> 2)
    found = []
    for c, edges in enumerate(every):
        here = sums
        if len(edges) != len(union):
            index = like(np.searchsorted(edges[1:-1], union[1:], side="left"), sums)
            here = sums.new_zeros(*sums.shape[:-1], len(edges) - 1).index_add_(2, index, sums)
        more = weight_sq([here[0], here[4]] if len(here) > 4 else ())
        found.append(build.table(c, here[:4], zeros_like(here[0]), edges=edges, **more))
    return tuple(found)


def refuse_outside(sample: Sample, rule: Any) -> None:
    """Given edges must cover every report."""
    if rule.has_counts:
        return
    reports: Any = sample.reports
    (edges,) = rule.edges(sample.bounds, working_dtype(reports))
    low, high = covered(edges)
    if not bool(within(reports, float(low), float(high))):
        host = sample.on_host()
        rule.refuse_outside(host.seen, host.reports)


def _interval_sums(sample: Sample, edges: Any, budget: int) -> Tensor:
    """count, outcome, residual and residual² sums (with weights, those of weight² too): (4 or 5, views, intervals)."""
    m = len(edges) - 1
    total: Any = 0.0
    for start in range(0, sample.rows, step := max(1, budget // sample.views)):
        rows = slice(start, start + step)
        part = sample.take(rows)
        outcome, residual, own, *weight = row_sums(part, slice(0, sample.views))
        count = weight[0] if weight else torch.ones_like(outcome)
        every = [count, outcome, residual, own, *weight[1:]]
        total = total + _added(every, intervals(views_of(part, slice(0, sample.views)), edges), m)
    return total


def _added(rows: Sequence[Tensor], cell: Tensor, m: int) -> Tensor:
    """Sums of rows (views, n) by cell: those of the first cell, where most are, as what the others leave."""
    views, n = cell.shape
    lanes = _LANES if views == 1 else 1
    rest = (cell > 0).reshape(-1).nonzero()[:, 0] if views > 1 else torch.arange(n, device=cell.device)
    place = rest // n * m + cell.reshape(-1)[rest]
    place += torch.arange(len(rest), device=cell.device) % lanes * (views * m)
    found = []
    for x in rows:
        flat = x.reshape(-1)[rest]
        sums = x.new_zeros(lanes * views * m).index_add_(0, place, flat).view(lanes, views, m).sum(0)
        if views > 1:
            sums[:, 0] += x.sum(1) - sums.sum(1)
        found.append(sums)
    return torch.stack(found)
