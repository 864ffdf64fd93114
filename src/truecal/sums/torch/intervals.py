"""Fixed intervals: sums by cell, without a sort."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.data import working_dtype
from ...core.edges import covered
from ...core.sample import Sample
from ...core.table import BinTable
from .bins import weight_sq, zeros_like
from .reading import within
from .rows import row_sums, views_of
from .tensors import like

Tables = tuple[BinTable, ...]

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
