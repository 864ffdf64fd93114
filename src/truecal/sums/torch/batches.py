"""Batches added to sums over fixed cells: the host reads nothing, and bad rows are noted on the device for later."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import importlib
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core.edges import covered
from ...core.rules import BinningRule
from .kernels import attempt, kernels_for
from .reading import HALVES, row_tolerance, slack_of, within

CHECKS = ("range", "sum", "label", "weight", "edges")
"""What may be wrong with a batch, in the order in which it is reported."""
NOTED = ("zero", "minus one")
"""Labels of one event: 0 or −1 is the other label beside 1, never both."""
_MOST_WEIGHT = 2.0**400  # sums of squares of larger weights have no number
_NUMBERS = 1 << 24  # predictions that are added at a time


class BatchSums(NamedTuple):
    """What is kept of all batches: float64 tensors on one device."""

    cells: Tensor
    """(5, views, cells): Σ w, Σ w·outcome, Σ w·residual, Σ (w·residual)², Σ w²."""
    totals: Tensor
    """Rows, Σ w, Σ w², Σ w(1 − z), Σ w²(1 − z), Σ w|r|²; z is whether the top class came, of confidence alone."""
    largest: Tensor
    """The largest weight."""
    refused: Tensor
    """For each of CHECKS the number of the first batch that failed it, and for each of NOTED that of the first batch
    with such a label; infinite where there is none."""


@dataclass(frozen=True)
class Batch:
    """Predictions (n, k), or (n,) of one event, with labels and weights (n,), and how they are counted."""

    reports: Tensor
    labels: Tensor
    weights: Tensor | None
    rule: BinningRule
    top: bool
    """Whether the top class is measured, not every class or the one event."""
    ignore: int | None
    number: int
    """The number of the batch among all, from 1 on."""


class _Edges(NamedTuple):
    inner: Tensor
    """The ends between cells, one row or one per view."""
    upper: Tensor
    """The upper ends of the cells, the last one infinite."""
    span: Tensor
    """The least and the largest report that the cells cover, (2, 1) or (2, views); infinite where all are covered."""


def add_batch(sums: BatchSums, batch: Batch) -> BatchSums:
    """The sums with a batch: new tensors, or the same ones where a kernel adds in place."""
    fused = kernels_for(batch.reports)
    if fused is not None and _is_plain(sums, batch):
        found = attempt(fused, batch.reports.device, lambda: add_fused(sums, batch))
        if found is not None:
            return found
    step = max(1, _NUMBERS // max(1, batch.reports[:1].numel()))
    for start in range(0, len(batch.reports), step):
        sums = _added(sums, batch, slice(start, start + step))
    return sums


def _is_plain(sums: BatchSums, batch: Batch) -> bool:
    """Whether the kernel reads such rows: floats, whole labels, the same cells for every class."""
    floats = batch.reports.dtype in (torch.float32, torch.float64, *HALVES)
    here = sums.cells.device == batch.reports.device == batch.labels.device
    whole = batch.labels.dtype in (torch.int64, torch.int32, torch.bool)
    return floats and here and whole and not batch.rule.per_view


def add_fused(sums: BatchSums, batch: Batch) -> BatchSums:
    """One launch of the kernel, which adds in place."""
    kernel = importlib.import_module("truecal.sums.torch.fused_batches")
    reports, labels, event = batch.reports, batch.labels.contiguous(), batch.reports.ndim == 1
    edges = _edges(batch.rule, _working(reports), reports.device)
    weights = None if batch.weights is None else batch.weights.double().contiguous()
    limits = (row_tolerance(reports), slack_of(reports))
    about = (batch.ignore, float(batch.number))
    labels = labels.view(torch.uint8) if labels.dtype == torch.bool else labels
    matrix = reports[:, None] if event else reports
    kernel.add_batch(matrix, labels, weights, edges.upper, edges.span, sums, *limits, *about, batch.top, event)
    return sums


def _working(x: Tensor) -> torch.dtype:
    """The precision in which reports are compared with edges: half as float32, whole numbers as float64."""
    if not x.is_floating_point():
        return torch.float64
    return torch.promote_types(x.dtype, torch.float32)


@lru_cache(maxsize=64)
def _edges(rule: Any, dtype: torch.dtype, device: torch.device) -> _Edges:
    (edges,) = rule.table_edges((0.0, 1.0), np.dtype(f"f{dtype.itemsize}"))
    ends = np.stack(np.broadcast_arrays(-np.inf, np.inf) if rule.has_counts else covered(edges.astype(np.float64)))
    upper = np.append(edges[..., 1:-1], np.full_like(edges[..., :1], np.inf), axis=-1)
    with torch.inference_mode(False):
        made = (
            torch.as_tensor(np.ascontiguousarray(x), device=device)
            for x in (edges[..., 1:-1], upper, ends.reshape(2, -1))
        )
        return _Edges(*made)


def _added(sums: BatchSums, batch: Batch, rows: slice) -> BatchSums:
    """The same with torch alone, for some rows."""
    p, y = batch.reports[rows], batch.labels[rows]
    if not y.is_floating_point() and y.dtype != torch.bool:
        y = y.long()
    tolerance = row_tolerance(p)
    x = p.to(_working(p))
    edges = _edges(batch.rule, x.dtype, x.device)
    w = torch.ones(len(x), dtype=torch.float64, device=x.device)
    w = w if batch.weights is None else batch.weights[rows].double()
    kept = None
    if batch.ignore is not None:
        kept = y != batch.ignore
        y, w = y.where(kept, 1), w.where(kept, 0.0)  # 1 is a label everywhere
        x = x.where(kept if x.ndim == 1 else kept[:, None], 1.0 if x.ndim == 1 else 1.0 / x.shape[1])
    fine = [within(x, -slack_of(p), 1 + slack_of(p))]
    fine.append(torch.ones_like(fine[0]) if x.ndim == 1 else within(x.sum(1), 1 - tolerance, 1 + tolerance))
    u, z, fine_labels, noted = _views(x, y, batch.top)
    largest = w.amax()
    fine += [fine_labels, (w.amin() >= 0) & (largest <= _MOST_WEIGHT), _covered(u, edges.span), *noted]
    number = torch.where(torch.stack(fine), torch.inf, float(batch.number)).double()
    r = u.double() - z
    each = w[:, None]
    every = [each.expand_as(r), each * z, each * r, (each * r).square(), (each * each).expand_as(r)]
    cells = sums.cells.flatten(1).index_add(
        1, _places(u, edges.inner, sums.cells.shape[2]), torch.stack(every).flatten(1)
    )
    ones = torch.ones_like(w) if kept is None else kept.double()
    wrong = (1 - z[:, 0]) if batch.top else torch.zeros_like(w)
    totals = torch.stack([ones, w, w * w, w * wrong, w * w * wrong, w * r.square().sum(1)]).sum(1)
    return BatchSums(
        cells.view_as(sums.cells),
        sums.totals + totals,
        torch.maximum(sums.largest, largest),
        torch.minimum(sums.refused, number),
    )


def _views(x: Tensor, y: Tensor, top: bool) -> tuple[Tensor, Tensor, Tensor, list[Tensor]]:
    """Reports and outcomes (float64) as (n, views), whether all labels are right, and whether none is one of NOTED."""
    if x.ndim == 1:
        came, zero = y == 1, y == 0
        minus = torch.zeros_like(zero) if y.dtype == torch.bool else y == -1
        return x[:, None], came.double()[:, None], (came | zero | minus).all(), [~zero.any(), ~minus.any()]
    fine = within(y, 0, x.shape[1] - 1)
    if y.is_floating_point():
        fine = fine & (y == y.floor()).all()
    none = [torch.ones_like(fine)] * len(NOTED)
    if not top:
        return x, (y[:, None] == torch.arange(x.shape[1], device=x.device)).double(), fine, none
    confidence, first = x.max(1, keepdim=True)
    return confidence, (first == y[:, None]).double(), fine, none


def _places(u: Tensor, inner: Tensor, m: int) -> Tensor:
    """The cell of each report among those of all views, (n · views,)."""
    views = u.shape[1]
    shared = inner.ndim == 1
    cell = torch.bucketize(u.contiguous(), inner) if shared else torch.searchsorted(inner, u.T.contiguous()).T
    return (cell + m * torch.arange(views, device=u.device)).reshape(-1)


def _covered(u: Tensor, span: Tensor) -> Tensor:
    return ((u >= span[0]) & (u <= span[1])).all()
