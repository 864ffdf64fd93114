"""Averages over cuts: every row is a point, and all points of a few views are held at once."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...core.cells import refuse_misfit
from ...core.rules import AveragedRule, Halfspaces, Poisson, TwoBin, decayed_prefix
from ...core.sample import Sample
from ...core.table import Moments
from ..numpy import Dispatch
from .rows import row_sums, tiles, views_of


def point_moments(sample: Sample, rule: AveragedRule | Halfspaces, dispatch: Dispatch) -> list[Moments]:
    """What an average over cuts needs, a few views at a time: every row is a point, and all of them are held."""
    refuse_misfit(sample, rule)
    found = []
    if isinstance(rule, Halfspaces):
        keys: Any = rule.keys(sample.reports)
        for key in keys:
            points, order = key.sort(stable=True)
            for tile in tiles(sample, dispatch.device_numbers >> 2):
                found.append(_of_points(TwoBin(), (0.0, 1.0), points[None], order[None], row_sums(sample, tile)))
        return found
    for tile in tiles(sample, dispatch.device_numbers >> 2):
        points, order = views_of(sample, tile).contiguous().sort(dim=1, stable=True)
        found.append(_of_points(rule, sample.bounds, points.double(), order, row_sums(sample, tile)))
    return found


def _of_points(rule: AveragedRule, bounds: Any, points: Tensor, order: Tensor, rows: Sequence[Tensor]) -> Moments:
    """As `core.table.PointSums.moments`, for points (views or 1, n) and rows in their own order."""
    residual, own = rows[1].gather(1, order.expand_as(rows[1])), rows[2].sum(1)
    weight = rows[3].gather(1, order.expand_as(residual)) if len(rows) > 3 else torch.ones_like(residual)
    squared = _form(rule, bounds, points, residual)
    whole = _form(rule, bounds, points, weight)
    pairs = whole - weight.square().sum(1)
    pairs = torch.where(pairs > 1e-9 * whole, pairs, 0.0)  # a single row meets no other
    gaps = torch.where(pairs > 0, (squared - own) / pairs, torch.nan)
    return Moments(squared=squared.sum(), own=own.sum(), gap_sq=gaps.sum(), pair_weight=pairs.sum())


def _form(rule: AveragedRule, bounds: Any, points: Tensor, sums: Tensor) -> Tensor:
    """S'GS of each row of sums: the rule's running form, with all points at once."""
    if isinstance(rule, Poisson):
        decay = torch.exp(-torch.diff(points, prepend=points[:, :1]) / rule.theta)
        carried: Any = decayed_prefix(decay, sums)  # type: ignore[arg-type]  # tensors in place of arrays
        smooth: Tensor = (sums * (sums + 2 * carried)).sum(1)
        return smooth
    rule.running(1, bounds)  # refuses a missing range
    low, high = bounds
    gaps = torch.cat([torch.diff(points), high - points[:, -1:]], 1) / (high - low)
    centred = sums.cumsum(1)
    half = centred[:, -1:] / 2
    centred = centred - half  # L − T/2 keeps the sum free of cancellation
    first = (points[:, 0] - low) / (high - low) * half[:, 0].square()
    whole: Tensor = 2 * (first + (gaps * centred.square()).sum(1)) + 2 * half[:, 0].square()
    return whole
