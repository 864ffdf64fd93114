"""Quantile bins on a GPU in Triton: cuts of sorted reports, counts of the rows between them, and their sums."""

# As in fused.py, Triton has no types.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from .fused import LANES

_FEW_CUTS = 128  # with more cuts than this, one cumulative sum beats a sum for each run


@triton.jit
def _run(ordered, ends, cut, n, views, cuts, search, view, j, block: tl.constexpr):
    """One cut of one view: the report before it, the first and last place of its equals, and the sum of its run."""
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
    for _ in range(search):
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
def _count(
    ordered,
    ends,
    cut,
    reports,
    marks,
    counts,
    n,
    views,
    cuts,
    runs,
    search,
    first_view,
    row_stride,
    column_stride,
    steps: tl.constexpr,
    matrix: tl.constexpr,
    lanes: tl.constexpr,
    run_block: tl.constexpr,
    block: tl.constexpr,
):
    """The first `runs` programs look at a cut each; all others count rows with outcome 1, by their own report."""
    program = tl.program_id(0).to(tl.int64)
    if program < runs:
        _run(ordered, ends, cut, n, views, cuts, search, program // cuts, program % cuts, run_block)
    else:
        row = (program - runs) * block + tl.arange(0, block)
        mark = tl.load(marks + row, mask=row < n, other=-1).to(tl.int64)
        if matrix:
            view = mark - first_view
            hit = (row < n) & (view >= 0) & (view < views)
            own = tl.load(reports + row * row_stride + mark * column_stride, mask=hit, other=0.0)
        else:
            view = mark * 0
            hit = (row < n) & (mark == 1)
            own = tl.load(reports + row * row_stride, mask=hit, other=0.0)
        low = tl.zeros((block,), tl.int32)
        high = low + cuts
        past_low, past_high = low, high
        for _ in range(steps):
            middle = (low + high) // 2
            there = hit & (low < high)
            end = tl.load(ends + middle, mask=there, other=1)
            right = there & (tl.load(ordered + view * n + end - 1, mask=there, other=0.0) < own)
            low, high = tl.where(right, middle + 1, low), tl.where(right, high, middle)
            middle = (past_low + past_high) // 2
            there = hit & (past_low < past_high)
            end = tl.load(ends + middle, mask=there, other=1)
            right = there & (tl.load(ordered + view * n + end - 1, mask=there, other=0.0) <= own)
            past_low, past_high = tl.where(right, middle + 1, past_low), tl.where(right, past_high, middle)
        lane = program % lanes * 2  # how many lie below the value at a cut, and how many at most there
        one = tl.full((block,), 1.0, tl.float64)
        tl.atomic_add(counts + (lane * views + view) * (cuts + 1) + past_low, one, mask=hit, sem="relaxed")
        tl.atomic_add(counts + ((lane + 1) * views + view) * (cuts + 1) + low, one, mask=hit, sem="relaxed")


@triton.jit
def _sum_of_lanes(counts, side, view, views, cuts, lanes: tl.constexpr, few: tl.constexpr):
    """The counts of one view between few cuts: how many lie below each (side 0), or at most there (1)."""
    lane, place = tl.arange(0, lanes), tl.arange(0, few)
    rows = ((2 * lane + side) * views + view) * (cuts + 1)
    return tl.sum(tl.load(counts + rows[:, None] + place[None, :], mask=place[None, :] < cuts, other=0.0), 0)


@triton.jit
def _upto(x, index, few: tl.constexpr):
    """Sums of x[0..index]; with many cuts x points to them already."""
    if few == 0:
        found = tl.load(x + index, mask=index >= 0, other=0.0)
    else:
        place = tl.arange(0, few)
        found = tl.sum(tl.where(place[None, :] <= index[:, None], x[None, :], 0.0), 1)
    return found


@triton.jit
def _at_cut(
    index, view, views, cuts, ends, cut, totals, below_each, at_most_each, together: tl.constexpr, few: tl.constexpr
):
    there = index >= 0
    here, plane = cut + view * cuts, (view * 0 + views) * cuts
    end = tl.load(ends + index, mask=there, other=0).to(tl.float64)
    first = tl.load(here + plane + index, mask=there, other=0.0)
    last = tl.load(here + 2 * plane + index, mask=there, other=0.0)
    total = _upto(totals, index, few)
    below, at_most = _upto(below_each, index, few), _upto(at_most_each, index, few)
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
    begin: tl.constexpr,
    together: tl.constexpr,
    absolute: tl.constexpr,
    lanes: tl.constexpr,
    few: tl.constexpr,
    block: tl.constexpr,
):
    blocks = (bins + block - 1) // block
    view = (tl.program_id(0) // blocks).to(tl.int64)
    j = tl.program_id(0) % blocks * block + tl.arange(0, block)
    here = tl.load(upper + j, mask=j < bins, other=0)
    there = tl.load(lower + j, mask=j < bins, other=-1)
    totals = cut + 3 * (view * 0 + views) * cuts + view * cuts
    if few == 0:
        below, at_most = counts + view * (cuts + 1), counts + (views + view) * (cuts + 1)
    else:
        below = _sum_of_lanes(counts, 0, view, views, cuts, lanes, few)
        at_most = _sum_of_lanes(counts, 1, view, views, cuts, lanes, few)
        place = tl.arange(0, few)
        totals = tl.load(totals + place, mask=place < cuts, other=0.0)
    end, f, t, upto, spread = _at_cut(here, view, views, cuts, ends, cut, totals, below, at_most, together, few)
    start, f0, t0, before, spread0 = _at_cut(there, view, views, cuts, ends, cut, totals, below, at_most, together, few)
    s = upto - before
    if absolute:
        found = tl.abs(s)
    else:
        from_left = tl.minimum(t0, end) - start
        from_right = end - tl.maximum(f, start)
        same = (f0 == f) & (t0 > start)
        ties = from_left * (t0 - f0 - from_left) * spread0
        found = s * s + ties + tl.where(same, 0.0, from_right * (t - f - from_right) * spread)
    tl.store(out + begin + view * bins + j, found, mask=j < bins)


def quantile_bins(
    ordered: Tensor,
    reports: Tensor,
    marks: Tensor,
    first_view: int,
    places: tuple[Tensor, Tensor, Tensor],
    counts: Tensor,
    out: Tensor,
    begin: int,
    *,
    together: bool,
    absolute: bool,
) -> None:
    """Per view and bin, the expected square of its sum over the orders of equal reports, or its size: (views, bins)
    from place `begin` of `out` on.

    `ordered` are the sorted reports, (views, n) or those of one view; `places` are the ends of the cuts, and for each
    bin the places `upper` and `lower` (−1: the beginning) of its ends among them; `counts` are zeros, as many as
    `counts_size` says.
    The mathematics is that of `QuantileDraws`.
    """
    ends, upper, lower = places
    matrix, cuts, bins = reports.ndim == 2, len(ends), len(upper)
    views, n = ordered.shape if matrix else (1, len(ordered))
    lanes = 1 if matrix else LANES
    few = triton.next_power_of_2(cuts) if cuts <= _FEW_CUTS else 0
    if few:
        cut, runs = torch.empty(4, views, cuts, dtype=torch.float64, device=ordered.device), views * cuts
    else:
        cut, runs = _cuts(ordered.view(views, n), ends), 0
    arrays = (ordered, ends, cut, reports, marks if matrix else marks.view(torch.uint8), counts)
    sizes = (
        n,
        views,
        cuts,
        runs,
        n.bit_length(),
        first_view,
        *(reports.stride() if matrix else (*reports.stride(), 0)),
    )
    constants: dict[str, Any] = {"steps": cuts.bit_length(), "matrix": matrix, "run_block": 1024, "block": 256}
    _count[(runs + triton.cdiv(n, 256),)](*arrays, *sizes, lanes=lanes, **constants)
    if not few:
        counts, lanes = counts.view(lanes, 2, views, cuts + 1).sum(0).cumsum(2), 1
    block = 16 if few else 128
    constants = {"begin": begin, "together": together, "absolute": absolute, "few": few, "block": block}
    grid = (views * triton.cdiv(bins, block),)  # a second dimension would end at 65,535
    _bins[grid](upper, lower, ends, cut, counts, out, bins, views, cuts, lanes=lanes, **constants)


def counts_size(views: int, cuts: int, *, matrix: bool = False) -> int:
    """How many zeros `quantile_bins` counts in."""
    return (1 if matrix else LANES) * 2 * views * (cuts + 1)


def _cuts(ordered: Tensor, ends: Tensor) -> Tensor:
    """For every cut: the report before it, the first and last place of its equals, and the sum of all reports before
    it, (4, views, cuts) in float64."""
    value = ordered[:, ends - 1]
    first, last = torch.searchsorted(ordered, value), torch.searchsorted(ordered, value, right=True)
    total = ordered.cumsum(1, dtype=torch.float64)[:, ends - 1]
    return torch.stack([value.double(), first.double(), last.double(), total])
