"""Cells of vectors: orders of the rows in which each cell is a run."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.rules import ArgmaxQuantile, Exact, KdTree, KMeans, VectorRule, _cuts_within
from ...core.table import BinTable
from .bins import Cut, summed, table_between
from .rows import row_sums, tiles
from .tensors import like

Tables = tuple[BinTable, ...]


@dataclass(frozen=True)
class _Order:
    """Rows in an order in which each cell is a run, as `core.rules.Partition`, in tensors."""

    order: Tensor
    cuts: tuple[Tensor, ...]
    tied: Tensor | None = None

    @staticmethod
    def from_cells(cell: Tensor) -> _Order:
        order = cell.argsort(stable=True)
        ordered = cell[order]
        return _Order(order, ((ordered[1:] != ordered[:-1]).nonzero()[:, 0] + 1,))

    def cut(self, cuts: Tensor, ties: str) -> Cut:
        """The ends of the bins of one count, with their blocks."""
        n = len(self.order)
        end = torch.cat([cuts, cuts.new_tensor([n])])
        if self.tied is None or ties == "row":
            return Cut.plain(end[None])
        place = torch.arange(n, device=end.device)
        first = torch.where(self.tied, 0, place).cummax(0).values[end - 1]
        begins = torch.cat([torch.where(self.tied, n, place), end[-1:]])
        last = begins.flip(0).cummin(0).values.flip(0)[end]
        return Cut.plain(last[None]) if ties == "together" else Cut(end[None], first[None], last[None])


def vector_tables(build: Any) -> Iterator[Tables]:
    sample = build.sample
    found = _partition(build.rule, sample.reports)
    cuts = [found.cut(cuts, build.ties) for cuts in found.cuts]
    for tile in tiles(sample, build.dispatch.device_numbers >> 2):
        rows = summed(row_sums(sample, tile), found.order[None])
        yield tuple(table_between(build, c, rows, cut) for c, cut in enumerate(cuts))


def _partition(rule: VectorRule, reports: Tensor) -> _Order:
    if isinstance(rule, ArgmaxQuantile):
        return _argmax_quantiles(rule, reports)
    if isinstance(rule, KdTree):
        return _kd_tree(rule, reports)
    if isinstance(rule, KMeans):
        return _Order.from_cells(_k_means(rule, reports.double()))
    assert isinstance(rule, Exact)
    return _Order.from_cells(torch.unique(reports, dim=0, return_inverse=True)[1])


def _argmax_quantiles(rule: ArgmaxQuantile, reports: Tensor) -> _Order:
    confidence, top = reports.max(1)
    order = confidence.argsort(stable=True)
    order = order[top[order].argsort(stable=True)]
    sizes = torch.bincount(top, minlength=reports.shape[1]).cpu().numpy()
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    cuts = tuple(like(_cuts_within(starts, sizes, m), reports) for m in rule.counts or ())
    value, group = confidence[order], top[order]
    same = (value[1:] == value[:-1]) & (group[1:] == group[:-1])
    return _Order(order, cuts, torch.nn.functional.pad(same, (1, 0)))


def _kd_tree(rule: KdTree, reports: Tensor) -> _Order:
    """As `core.rules._kd_levels`: median splits of the widest coordinate."""
    depths = [int(m - 1).bit_length() for m in rule.counts or ()]
    runs = [torch.arange(len(reports), device=reports.device)]
    levels = [runs[0][:0]]
    for _ in range(max(depths)):
        runs = [half for run in runs for half in _split_at_median(reports, run) if len(half)]
        levels.append(like(np.cumsum([len(run) for run in runs])[:-1], reports))
    return _Order(torch.cat(runs), tuple(levels[depth] for depth in depths))


def _split_at_median(reports: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    here = reports[rows]
    least, most = torch.aminmax(here, dim=0)
    column = here[:, (most - least).argmax()]
    ordered = column.sort().values
    middle = (ordered[(len(rows) - 1) // 2] + ordered[len(rows) // 2]) / 2
    left = column <= middle
    return rows[left], rows[~left]


def _k_means(rule: KMeans, points: Tensor) -> Tensor:
    """The cluster of each row: scipy's iteration from the same rows, until the mean distance settles."""
    distinct = torch.unique(points, dim=0)
    clusters = min(int(rule.n_bins), len(distinct))  # type: ignore[arg-type]  # one count
    chosen = np.random.default_rng(rule.seed).choice(len(distinct), clusters, replace=False)
    centres = distinct[like(chosen, points)]
    last = float("inf")
    while True:
        distance, cell = torch.cdist(points, centres, compute_mode="donot_use_mm_for_euclid_dist").min(1)
        mean = float(distance.mean())
        size = torch.bincount(cell, minlength=len(centres))
        sums = torch.zeros_like(centres).index_add_(0, cell, points)
        centres = (sums / size[:, None])[size > 0]
        if last - mean <= 1e-5:
            break
        last = mean
    return torch.cdist(points, centres, compute_mode="donot_use_mm_for_euclid_dist").argmin(1)
