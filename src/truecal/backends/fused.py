"""Whole steps of a raw error in one pass each, in Triton: what torch would do in dozens of small ones."""

# Triton has no types, and compiles what it decorates: annotations there would be read as its own.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_LANES = 32  # copies of the counts of a single view, so that few additions meet in one place
_FEW_CUTS = 128  # with more cuts than this, one cumulative sum beats a sum for each run


@triton.jit
def _check(
    matrix,
    labels,
    status,
    top,
    right,
    n,
    k,
    row_stride,
    column_stride,
    tolerance,
    slack,
    lanes,
    tile_rows: tl.constexpr,
    tile_columns: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * tile_rows + tl.arange(0, tile_rows)
    inside = row < n
    total = tl.zeros((tile_rows, tile_columns), matrix.dtype.element_ty)
    least, best = total, total - 1
    place = tl.zeros((tile_rows, tile_columns), tl.int32)
    for start in range(0, k, tile_columns):
        column = start + tl.arange(0, tile_columns)
        here = inside[:, None] & (column[None, :] < k)
        u = tl.load(matrix + row[:, None] * row_stride + column[None, :] * column_stride, mask=here, other=0.0)
        total += u
        least = tl.minimum(least, u)
        place = tl.where(u > best, column[None, :], place)
        best = tl.maximum(best, u)
    most = tl.max(best, 1)
    y = tl.load(labels + row, mask=inside, other=0)
    fine = (tl.abs(tl.sum(total, 1) - 1) <= tolerance) & (tl.min(least, 1) >= -slack) & (most - 1 <= slack)
    fine = fine & (y >= 0) & (y < k)
    tl.store(status, 1, mask=tl.sum((inside & (fine == 0)).to(tl.int32), 0) > 0)
    first = tl.min(tl.where(best == most[:, None], place, k), 1)
    hit = inside & (first == y)
    tl.atomic_add(status + 1 + tl.program_id(0) % lanes, tl.sum(hit.to(tl.int32), 0), sem="relaxed")
    tl.store(top + row, most, mask=inside)
    tl.store(right + row, hit.to(tl.uint8), mask=inside)


def check(matrix: Tensor, labels: Tensor, tolerance: float, slack: float) -> tuple[Tensor, Tensor, Tensor]:
    """One pass over distributions and class indices: its status, the top probabilities, and whether their class came.

    Nothing waits for the device here; `verdict` reads the status.
    """
    n, k = matrix.shape
    status = torch.zeros(1 + _LANES, dtype=torch.int32, device=matrix.device)
    top = torch.empty(n, dtype=matrix.dtype, device=matrix.device)
    right = torch.empty(n, dtype=torch.bool, device=matrix.device)
    columns = min(512, max(16, triton.next_power_of_2(k)))
    rows = 512 // columns
    about = (matrix, labels, status, top, right.view(torch.uint8), n, k, *matrix.stride(), tolerance, slack, _LANES)
    _check[(triton.cdiv(n, rows),)](*about, rows, columns, num_warps=2)
    return status, top, right


def verdict(status: Tensor) -> tuple[bool, int]:
    """Whether everything was fine, and how often the top class came."""
    bad, *hits = status.tolist()
    return not bad, sum(hits)


@triton.jit
def _walk(
    matrix,
    labels,
    upper,
    residual,
    n,
    k,
    m,
    row_stride,
    column_stride,
    steps: tl.constexpr,
    rows_each: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_columns: tl.constexpr,
):
    column = tl.program_id(1) * tile_columns + tl.arange(0, tile_columns)
    first = tl.load(upper)
    low = tl.zeros((tile_rows, tile_columns), tl.float64)
    for offset in range(0, rows_each, tile_rows):
        row = tl.program_id(0).to(tl.int64) * rows_each + offset + tl.arange(0, tile_rows)
        inside = (row[:, None] < n) & (column[None, :] < k)
        u = tl.load(matrix + row[:, None] * row_stride + column[None, :] * column_stride, mask=inside, other=0.0)
        y = tl.load(labels + row, mask=row < n, other=-1)
        wide = u.to(tl.float64)
        r = tl.where(column[None, :] == y[:, None], wide - 1.0, wide)
        high = inside & (u > first)
        low += tl.where(high, 0.0, r)
        if tl.max(tl.max(high.to(tl.int32), 1), 0) > 0:
            left = tl.zeros((tile_rows, tile_columns), tl.int32)
            right = left + (m - 1)
            for _ in range(steps):
                middle = (left + right) // 2
                beyond = u > tl.load(upper + middle, mask=high, other=0.0)
                left = tl.where(beyond, middle + 1, left)
                right = tl.where(beyond, right, middle)
            tl.atomic_add(residual + column[None, :] * m + left, r, mask=high, sem="relaxed")
    tl.atomic_add(residual + column * m, tl.sum(low, 0), mask=column < k, sem="relaxed")


_WALK: dict[str, Any] = {"rows_each": 64, "tile_rows": 4, "tile_columns": 32, "num_warps": 1}


def interval_residuals(matrix: Tensor, labels: Tensor, upper: Tensor) -> Tensor:
    """Σ (u − outcome) of every column of (n, k) probabilities over intervals with these upper ends: (k, m) float64.

    Few entries of a row exceed the first end: those find their interval and are added there; all others stay in
    registers, as a sum for each column.
    """
    (n, k), m = matrix.shape, len(upper)
    residual = torch.zeros(k, m, dtype=torch.float64, device=matrix.device)
    grid = (triton.cdiv(n, _WALK["rows_each"]), triton.cdiv(k, _WALK["tile_columns"]))
    steps = (m - 1).bit_length()
    _walk[grid](matrix, labels, upper, residual, n, k, m, *matrix.stride(), steps=steps, **_WALK)
    return residual


@triton.jit
def _cells(reports, marks, upper, residual, n, m, stride, lanes, steps: tl.constexpr, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = row < n
    u = tl.load(reports + row * stride, mask=inside, other=0.0)
    r = u.to(tl.float64) - tl.load(marks + row, mask=inside, other=0).to(tl.float64)
    left = tl.zeros((block,), tl.int32)
    right = left + (m - 1)
    for _ in range(steps):
        middle = (left + right) // 2
        beyond = u > tl.load(upper + middle)
        left, right = tl.where(beyond, middle + 1, left), tl.where(beyond, right, middle)
    tl.atomic_add(residual + row % lanes * m + left, r, mask=inside, sem="relaxed")


def view_residuals(reports: Tensor, marks: Tensor, upper: Tensor) -> Tensor:
    """Σ (u − outcome) of one view over intervals with these upper ends: (1, m) float64."""
    n, m = len(reports), len(upper)
    residual = torch.zeros(_LANES, m, dtype=torch.float64, device=reports.device)
    about = (reports, marks.view(torch.uint8), upper, residual, n, m, *reports.stride(), _LANES)
    _cells[(triton.cdiv(n, 256),)](*about, steps=(m - 1).bit_length(), block=256)
    return residual.sum(0, keepdim=True)


@triton.jit
def _runs(ordered, ends, cut, n, views, cuts, steps, block: tl.constexpr):
    view, j = tl.program_id(0).to(tl.int64), tl.program_id(1)
    row = ordered + view * n
    begin = tl.load(ends + j - 1, mask=j > 0, other=0)
    end = tl.load(ends + j)
    sums = tl.zeros((block,), tl.float64)
    for start in range(begin, end, block):
        place = start + tl.arange(0, block)
        sums += tl.load(row + place, mask=place < end, other=0.0).to(tl.float64)
    value = tl.load(row + end - 1)
    low, high = end * 0, end - 1
    past_low, past_high = end, end * 0 + n
    for _ in range(steps):
        middle = (low + high) // 2
        below = tl.load(row + middle) < value
        low, high = tl.where(below, tl.minimum(middle + 1, high), low), tl.where(below, high, middle)
        middle = (past_low + past_high) // 2
        equal = (past_low < past_high) & (tl.load(row + tl.minimum(middle, n - 1)) <= value)
        past_low, past_high = tl.where(equal, middle + 1, past_low), tl.where(equal, past_high, middle)
    here, plane = cut + view * cuts + j, (view * 0 + views) * cuts
    tl.store(here, value.to(tl.float64))
    tl.store(here + plane, low.to(tl.float64))
    tl.store(here + 2 * plane, past_low.to(tl.float64))
    tl.store(here + 3 * plane, tl.sum(sums, 0))


@triton.jit
def _hits(
    reports,
    marks,
    value,
    counts,
    n,
    views,
    cuts,
    first_view,
    row_stride,
    column_stride,
    lanes,
    steps: tl.constexpr,
    matrix: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    mark = tl.load(marks + row, mask=row < n, other=-1).to(tl.int64)
    if matrix:
        view = mark - first_view
        hit = (row < n) & (view >= 0) & (view < views)
        own = tl.load(reports + row * row_stride + mark * column_stride, mask=hit, other=0.0).to(tl.float64)
    else:
        view = mark * 0
        hit = (row < n) & (mark == 1)
        own = tl.load(reports + row * row_stride, mask=hit, other=0.0).to(tl.float64)
    low = tl.zeros((block,), tl.int32)
    high = low + cuts
    past_low, past_high = low, high
    for _ in range(steps):
        middle = (low + high) // 2
        found = tl.load(value + view * cuts + middle, mask=hit & (low < high), other=0.0)
        right = (low < high) & (found < own)
        low, high = tl.where(right, middle + 1, low), tl.where(right, high, middle)
        middle = (past_low + past_high) // 2
        found = tl.load(value + view * cuts + middle, mask=hit & (past_low < past_high), other=0.0)
        right = (past_low < past_high) & (found <= own)
        past_low, past_high = tl.where(right, middle + 1, past_low), tl.where(right, past_high, middle)
    lane = (
        tl.program_id(0).to(tl.int64) % lanes * 2
    )  # how many lie below the value at a cut, and how many at most there
    one = tl.full((block,), 1.0, tl.float64)
    tl.atomic_add(counts + (lane * views + view) * (cuts + 1) + past_low, one, mask=hit, sem="relaxed")
    tl.atomic_add(counts + ((lane + 1) * views + view) * (cuts + 1) + low, one, mask=hit, sem="relaxed")


@triton.jit
def _upto(x, index, cuts, few: tl.constexpr):
    """Sums of x[0..index]; with many cuts x holds them already."""
    if few == 0:
        found = tl.load(x + index, mask=index >= 0, other=0.0)
    else:
        place = tl.arange(0, few)
        every = tl.load(x + place, mask=place < cuts, other=0.0)
        found = tl.sum(tl.where(place[None, :] <= index[:, None], every[None, :], 0.0), 1)
    return found


@triton.jit
def _at_cut(index, view, views, cuts, ends, cut, counts, lanes, together: tl.constexpr, few: tl.constexpr):
    there = index >= 0
    here, plane = cut + view * cuts, (view * 0 + views) * cuts
    end = tl.load(ends + index, mask=there, other=0).to(tl.float64)
    first = tl.load(here + plane + index, mask=there, other=0.0)
    last = tl.load(here + 2 * plane + index, mask=there, other=0.0)
    total = _upto(here + 3 * plane, index, cuts, few)
    below, at_most = total * 0, total * 0
    for lane in range(lanes):
        below += _upto(counts + (2 * lane * views + view) * (cuts + 1), index, cuts, few)
        at_most += _upto(counts + ((2 * lane + 1) * views + view) * (cuts + 1), index, cuts, few)
    size, marked = last - first, at_most - below
    if together:
        residual = total + (last - end) * tl.load(here + index, mask=there, other=0.0) - at_most
        spread = total * 0
    else:
        residual = total - (below + marked * (end - first) / tl.maximum(size, 1.0))
        spread = tl.maximum(size * marked - marked * marked, 0.0) / tl.maximum(size * size * (size - 1), 1.0)
    return end, first, last, residual, spread


@triton.jit
def _bins(
    upper,
    lower,
    ends,
    cut,
    counts,
    out,
    bins,
    views,
    cuts,
    lanes,
    together: tl.constexpr,
    absolute: tl.constexpr,
    few: tl.constexpr,
    block: tl.constexpr,
):
    view = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * block + tl.arange(0, block)
    here = tl.load(upper + j, mask=j < bins, other=0)
    there = tl.load(lower + j, mask=j < bins, other=-1)
    end, f, t, upto, spread = _at_cut(here, view, views, cuts, ends, cut, counts, lanes, together, few)
    start, f0, t0, before, spread0 = _at_cut(there, view, views, cuts, ends, cut, counts, lanes, together, few)
    s = upto - before
    if absolute:
        found = tl.abs(s)
    else:
        from_left = tl.minimum(t0, end) - start
        from_right = end - tl.maximum(f, start)
        same = (f0 == f) & (t0 > start)
        ties = from_left * (t0 - f0 - from_left) * spread0
        found = s * s + ties + tl.where(same, 0.0, from_right * (t - f - from_right) * spread)
    tl.store(out + view * bins + j, found, mask=j < bins)


def quantile_bins(
    ordered: Tensor,
    reports: Tensor,
    marks: Tensor,
    first_view: int,
    ends: Tensor,
    upper: Tensor,
    lower: Tensor,
    *,
    together: bool,
    absolute: bool,
) -> Tensor:
    """Per view and bin, the expected square of its sum over the orders of equal reports, or its size: (views, bins).

    `ordered` are the sorted reports (views, n); bins lie between places `lower` (−1: the beginning) and `upper` among
    the cuts at `ends`. The mathematics is that of `backends.torch._quantile_tables`.
    """
    (views, n), cuts = ordered.shape, len(ends)
    few = triton.next_power_of_2(cuts) if cuts <= _FEW_CUTS else 0
    cut = _cuts(ordered, ends, bool(few))
    matrix = reports.ndim == 2
    lanes = 1 if matrix else _LANES
    counts = torch.zeros(lanes, 2, views, cuts + 1, dtype=torch.float64, device=ordered.device)
    strides = reports.stride() if matrix else (*reports.stride(), 0)
    rows = marks if matrix else marks.view(torch.uint8)
    about = (reports, rows, cut, counts, n, views, cuts, first_view, *strides, lanes)
    _hits[(triton.cdiv(n, 256),)](*about, steps=cuts.bit_length(), matrix=matrix, block=256)
    if not few:
        counts, lanes = counts.sum(0).cumsum(2), 1
    bins, block = len(upper), 16 if few else 128
    out = torch.empty(views, bins, dtype=torch.float64, device=ordered.device)
    options: dict[str, Any] = {"together": together, "absolute": absolute, "few": few, "block": block}
    grid = (views, triton.cdiv(bins, block))
    _bins[grid](upper, lower, ends, cut, counts, out, bins, views, cuts, lanes, **options)
    return out


def _cuts(ordered: Tensor, ends: Tensor, few: bool) -> Tensor:
    """For every cut: the report before it, the first and last place of its equals, and the sum of its run (few cuts)
    or of all reports before it, (4, views, cuts) in float64."""
    (views, n), cuts = ordered.shape, len(ends)
    if few:
        cut = torch.empty(4, views, cuts, dtype=torch.float64, device=ordered.device)
        _runs[(views, cuts)](ordered, ends, cut, n, views, cuts, n.bit_length(), block=1024)
        return cut
    value = ordered[:, ends - 1]
    first, last = torch.searchsorted(ordered, value), torch.searchsorted(ordered, value, right=True)
    total = ordered.cumsum(1, dtype=torch.float64)[:, ends - 1]
    return torch.stack([value.double(), first.double(), last.double(), total])
