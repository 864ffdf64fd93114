"""A batch of distributions or of chances of one event, added to sums over fixed cells in one launch of Triton."""

# Triton has no types, and compiles what it decorates: annotations there would be read as its own.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl
from torch import Tensor
from triton import TritonError as TritonError

from .fused import interval, work_of

TOP = {"columns": 256, "numbers": 512, "num_warps": 2}
EACH = {"columns": 128, "numbers": 1024, "num_warps": 4}
"""Shapes of the tiles where the top class is measured, and where every class is."""


@triton.jit
def _refuse(refused, kind: tl.constexpr, bad, number):
    """Note the number of the batch, unless an earlier one was noted; every program writes the same number."""
    tl.store(refused + kind, number, mask=(bad > 0) & (number < tl.load(refused + kind)))


@triton.jit(do_not_specialize=["n"])  # the last batch of an epoch is compiled for nothing else
def _add(
    matrix,
    labels,
    weights,
    upper,
    span,
    cells,
    totals,
    largest,
    refused,
    n,
    k,
    m,
    row_stride,
    column_stride,
    tolerance,
    slack,
    ignored,
    number,
    work: tl.constexpr,
    top: tl.constexpr,
    weighted: tl.constexpr,
    ignoring: tl.constexpr,
    event: tl.constexpr,
    steps: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_columns: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * tile_rows + tl.arange(0, tile_rows)
    y = tl.load(labels + row, mask=row < n, other=0).to(tl.int64)
    kept = row < n
    if ignoring:
        kept = kept & (y != ignored)
    w = kept.to(tl.float64)
    if weighted:
        w = tl.load(weights + row, mask=kept, other=0.0)
    low, high, first = tl.load(span), tl.load(span + 1), tl.load(upper)
    total = tl.zeros((tile_rows, tile_columns), work)
    least, best = total, total - 1
    place = tl.zeros((tile_rows, tile_columns), tl.int32)
    own = tl.zeros((tile_rows,), tl.float64)
    outside = tl.zeros((tile_rows, tile_columns), tl.int32)
    wide = w[:, None]
    plane = tl.zeros((), tl.int64) + m
    each: tl.constexpr = not (top or event)
    if each:
        plane = plane * k
    for start in range(0, k, tile_columns):
        column = start + tl.arange(0, tile_columns)
        here = kept[:, None] & (column[None, :] < k)
        across = column.to(tl.int64) * column_stride  # beyond 32 bits in a large matrix that is transposed
        u = tl.load(matrix + row[:, None] * row_stride + across[None, :], mask=here, other=0.0).to(work)
        total += u
        least = tl.where(u < least, u, least)  # a NaN fails the sum
        place = tl.where(u > best, column[None, :], place)
        best = tl.where(u > best, u, best)
        if each:
            outside = outside | (here & ((u < low) | (u > high))).to(tl.int32)
            came = (column[None, :] == y[:, None]) & here
            z = came.to(tl.float64)
            r = tl.where(here, u.to(tl.float64) - z, 0.0)
            own += tl.sum(r * r, 1)
            # Most entries are in the first cell: those of a tile are added up before they are sent to it.
            near = here & (u <= first)
            at = column.to(tl.int64) * m
            inside = column < k
            some = tl.where(near, wide, 0.0)
            tl.atomic_add(cells + at, tl.sum(some, 0), mask=inside, sem="relaxed")
            tl.atomic_add(cells + 2 * plane + at, tl.sum(some * r, 0), mask=inside, sem="relaxed")
            tl.atomic_add(cells + 3 * plane + at, tl.sum(some * r * some * r, 0), mask=inside, sem="relaxed")
            tl.atomic_add(cells + 4 * plane + at, tl.sum(some * some, 0), mask=inside, sem="relaxed")
            far = here & (u > first)
            cell = at[None, :] + interval(u, upper, m, far, steps)
            whole = tl.where(here, wide, 0.0)
            tl.atomic_add(cells + cell, whole, mask=far, sem="relaxed")
            tl.atomic_add(cells + 2 * plane + cell, whole * r, mask=far, sem="relaxed")
            tl.atomic_add(cells + 3 * plane + cell, whole * r * whole * r, mask=far, sem="relaxed")
            tl.atomic_add(cells + 4 * plane + cell, whole * whole, mask=far, sem="relaxed")
            home = at[None, :] + tl.where(far, cell - at[None, :], 0)
            tl.atomic_add(cells + plane + home, whole, mask=came, sem="relaxed")
    most = tl.max(best, 1)
    hit = kept & (y == 1)
    if not event:
        hit = kept & (tl.min(tl.where(best == most[:, None], place, k), 1) == y)
    wrong = tl.zeros((tile_rows,), tl.float64)
    if not each:
        z = hit.to(tl.float64)
        r = tl.where(kept, most.to(tl.float64) - z, 0.0)
        own = r * r
        wrong = tl.where(kept, 1 - z, 0.0)
        cell = interval(most, upper, m, kept, steps)
        tl.atomic_add(cells + cell, w, mask=kept, sem="relaxed")
        tl.atomic_add(cells + plane + cell, w * z, mask=hit, sem="relaxed")
        tl.atomic_add(cells + 2 * plane + cell, w * r, mask=kept, sem="relaxed")
        tl.atomic_add(cells + 3 * plane + cell, w * r * w * r, mask=kept, sem="relaxed")
        tl.atomic_add(cells + 4 * plane + cell, w * w, mask=kept, sem="relaxed")
        _refuse(refused, 4, tl.max((kept & ((most < low) | (most > high))).to(tl.int32), 0), number)
    else:
        _refuse(refused, 4, tl.max(tl.max(outside, 1), 0), number)
    ranged = (tl.min(least, 1) >= -slack) & (most - 1 <= slack) & (tl.sum(total, 1) == tl.sum(total, 1))
    _refuse(refused, 0, tl.max((kept & (ranged == 0)).to(tl.int32), 0), number)
    if event:
        _refuse(refused, 2, tl.max((kept & ((y < -1) | (y > 1))).to(tl.int32), 0), number)
        _refuse(refused, 5, tl.max((kept & (y == 0)).to(tl.int32), 0), number)
        _refuse(refused, 6, tl.max((kept & (y == -1)).to(tl.int32), 0), number)
    else:
        summed = tl.abs(tl.sum(total, 1) - 1) <= tolerance
        _refuse(refused, 1, tl.max((kept & (summed == 0)).to(tl.int32), 0), number)
        _refuse(refused, 2, tl.max((kept & ((y < 0) | (y >= k))).to(tl.int32), 0), number)
    if weighted:
        heaviest = tl.max(tl.where(kept, w, 0.0), 0)
        odd = kept & ((w >= 0) & (w <= 2.582249878086908589655919172003e120) == 0)
        _refuse(refused, 3, tl.max(odd.to(tl.int32), 0), number)
        tl.atomic_max(largest, heaviest, mask=heaviest > 0, sem="relaxed")
    else:
        heaviest = tl.load(largest)  # every program writes 1 unless more is there
        tl.store(largest, heaviest * 0 + 1, mask=(tl.sum(kept.to(tl.int32), 0) > 0) & (heaviest < 1))
    tl.atomic_add(totals, tl.sum(kept.to(tl.float64), 0), sem="relaxed")
    tl.atomic_add(totals + 1, tl.sum(w, 0), sem="relaxed")
    tl.atomic_add(totals + 2, tl.sum(w * w, 0), sem="relaxed")
    if top:
        tl.atomic_add(totals + 3, tl.sum(w * wrong, 0), sem="relaxed")
        tl.atomic_add(totals + 4, tl.sum(w * w * wrong, 0), sem="relaxed")
    tl.atomic_add(totals + 5, tl.sum(w * own, 0), sem="relaxed")


def add_batch(
    matrix: Tensor,
    labels: Tensor,
    weights: Tensor | None,
    upper: Tensor,
    span: Tensor,
    sums: Any,
    tolerance: float,
    slack: float,
    ignore: int | None,
    number: float,
    top: bool,
    event: bool,
) -> None:
    """Adds rows of distributions (n, k), or of one event (n, 1), to the `Sums` of `batches`; cells have these ends."""
    (n, k), m = matrix.shape, len(upper)
    shape = TOP if top or event else EACH
    columns = min(shape["columns"], max(16, triton.next_power_of_2(k)))
    rows = max(1, shape["numbers"] // columns)
    arrays = (matrix, labels, sums.cells if weights is None else weights, upper, span, *sums)
    numbers = (n, k, m, *matrix.stride(), tolerance, slack, 0 if ignore is None else ignore, number)
    how: dict[str, Any] = {"top": top, "weighted": weights is not None, "ignoring": ignore is not None, "event": event}
    tile: dict[str, Any] = {"steps": (m - 1).bit_length(), "tile_rows": rows, "tile_columns": columns}
    _add[(triton.cdiv(n, rows),)](*arrays, *numbers, work=work_of(matrix), **how, **tile, num_warps=shape["num_warps"])
