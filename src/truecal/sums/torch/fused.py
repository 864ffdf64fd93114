"""Whole steps of a raw error in one pass each, in Triton: what torch would do in dozens of small ones.

Kernels leave what they find in one array of float64, `numbers`, that begins as zeros: whether a row is wrong, how often
the top class came (in lanes), and from `HEAD` on the numbers of an error. Nothing here waits for the device.
"""

# Triton has no types, and compiles what it decorates: annotations there would be read as its own.
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton import TritonError as TritonError

HEAD = 64
"""Where the numbers of an error begin: 0 says whether a row is wrong, 1 to LANES how often the top class came."""
LANES = 32
"""Copies of the sums of a single view, so that few additions meet in one place."""
CHECK = {"columns": 256, "numbers": 512, "num_warps": 2}
WALK = {"rows_each": 128, "tile_rows": 4, "tile_columns": 64, "num_warps": 1}
"""Shapes of the two passes over all predictions; `benchmarks.gpu --shapes` times others. With a loop that fetched ahead
(num_stages=3) the comparisons with numpy on an H200 found a wrong sum of float64, so no loop here does."""


@triton.jit
def interval(u, upper, m, mask, steps: tl.constexpr):
    """The first interval whose upper end is at least u."""
    left = tl.zeros_like(u).to(tl.int32)
    right = left + (m - 1)
    for _ in range(steps):
        middle = (left + right) // 2
        beyond = u > tl.load(upper + middle, mask=mask, other=0.0)
        left, right = tl.where(beyond, middle + 1, left), tl.where(beyond, right, middle)
    return left


@triton.jit
def _check(
    matrix,
    labels,
    numbers,
    top,
    right,
    upper,
    n,
    k,
    m,
    row_stride,
    column_stride,
    tolerance,
    slack,
    work: tl.constexpr,
    lanes: tl.constexpr,
    head: tl.constexpr,
    steps: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_columns: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * tile_rows + tl.arange(0, tile_rows)
    inside = row < n
    total = tl.zeros((tile_rows, tile_columns), work)
    least, best = total, total - 1
    place = tl.zeros((tile_rows, tile_columns), tl.int32)
    for start in range(0, k, tile_columns):
        column = start + tl.arange(0, tile_columns)
        here = inside[:, None] & (column[None, :] < k)
        across = column.to(tl.int64) * column_stride  # beyond 32 bits in a large matrix that is transposed
        u = tl.load(matrix + row[:, None] * row_stride + across[None, :], mask=here, other=0.0)
        u = u.to(work)
        total += u
        least = tl.minimum(least, u)
        place = tl.where(u > best, column[None, :], place)
        best = tl.maximum(best, u)
    most = tl.max(best, 1)
    y = tl.load(labels + row, mask=inside, other=0)
    fine = (tl.abs(tl.sum(total, 1) - 1) <= tolerance) & (tl.min(least, 1) >= -slack) & (most - 1 <= slack)
    fine = fine & (y >= 0) & (y < k)
    tl.store(numbers, 1.0, mask=tl.sum((inside & (fine == 0)).to(tl.int32), 0) > 0)
    first = tl.min(tl.where(best == most[:, None], place, k), 1)
    hit = inside & (first == y)
    lane = tl.program_id(0) % lanes
    tl.atomic_add(numbers + 1 + lane, tl.sum(hit.to(tl.int32), 0).to(tl.float64), sem="relaxed")
    if steps < 0:
        tl.store(top + row, most, mask=inside)
        tl.store(right + row, hit.to(tl.uint8), mask=inside)
    else:
        cell = interval(most, upper, m, inside, steps)
        residual = most.to(tl.float64) - hit.to(tl.float64)
        tl.atomic_add(numbers + head + lane * m + cell, residual, mask=inside, sem="relaxed")


def check(matrix: Tensor, labels: Tensor, tolerance: float, slack: float, numbers: Tensor) -> tuple[Tensor, Tensor]:
    """One pass over distributions and class indices: the top probabilities, and whether their class came."""
    n = len(matrix)
    top = torch.empty(n, dtype=torch.promote_types(matrix.dtype, torch.float32), device=matrix.device)
    right = torch.empty(n, dtype=torch.bool, device=matrix.device)
    _launch_check(matrix, labels, tolerance, slack, numbers, (top, right.view(torch.uint8), numbers, 1), -1)
    return top, right


def check_and_count(
    matrix: Tensor, labels: Tensor, tolerance: float, slack: float, numbers: Tensor, upper: Tensor
) -> None:
    """The same pass, and Σ (top probability − whether its class came) over intervals: (LANES, m) from HEAD on."""
    m = len(upper)
    _launch_check(matrix, labels, tolerance, slack, numbers, (numbers, numbers, upper, m), (m - 1).bit_length())


def _launch_check(
    matrix: Tensor, labels: Tensor, tolerance: float, slack: float, numbers: Tensor, about: Any, steps: int
) -> None:
    n, k = matrix.shape
    columns = min(CHECK["columns"], max(16, triton.next_power_of_2(k)))
    rows = max(1, CHECK["numbers"] // columns)
    top, right, upper, m = about
    sizes = (n, k, m, *matrix.stride(), tolerance, slack)
    tile: dict[str, Any] = {"tile_rows": rows, "tile_columns": columns}
    constants = {"work": work_of(matrix), "lanes": LANES, "head": HEAD, "steps": steps, **tile}
    grid = (triton.cdiv(n, rows),)
    _check[grid](matrix, labels, numbers, top, right, upper, *sizes, **constants, num_warps=CHECK["num_warps"])


def work_of(x: Tensor) -> Any:
    """The precision in which probabilities are compared: half as float32."""
    return tl.float64 if x.dtype == torch.float64 else tl.float32


@triton.jit
def _walk(
    matrix,
    labels,
    upper,
    residual,
    sums,
    numbers,
    n,
    k,
    m,
    row_stride,
    column_stride,
    slack,
    work: tl.constexpr,
    checked: tl.constexpr,
    apart: tl.constexpr,
    steps: tl.constexpr,
    rows_each: tl.constexpr,
    tile_rows: tl.constexpr,
    tile_columns: tl.constexpr,
):
    tiles = tl.cdiv(k, tile_columns)  # neighbours read the same rows
    column = tl.program_id(0) % tiles * tile_columns + tl.arange(0, tile_columns)
    across = column.to(tl.int64) * column_stride  # beyond 32 bits in a large matrix that is transposed
    begin = (tl.program_id(0) // tiles).to(tl.int64) * rows_each
    place = tl.arange(0, tile_rows)
    first = tl.load(upper)
    low = tl.zeros((tile_rows, tile_columns), tl.float64)
    least = tl.zeros((tile_rows, tile_columns), work)
    most = least
    for offset in range(0, rows_each, tile_rows):
        row = begin + offset + place
        inside = (row[:, None] < n) & (column[None, :] < k)
        u = tl.load(matrix + row[:, None] * row_stride + across[None, :], mask=inside, other=0.0)
        u = u.to(work)
        if checked:
            least, most = tl.minimum(least, u), tl.maximum(most, u)
            tl.atomic_add(sums + row, tl.sum(u, 1).to(tl.float64), mask=row < n, sem="relaxed")
        if apart:
            r = u
        else:
            y = tl.load(labels + row, mask=row < n, other=-1)
            r = tl.where(column[None, :] == y[:, None], u - 1, u)
        high = u > first
        low += tl.where(high, 0.0, r).to(tl.float64)
        left = tl.max(tl.max(high.to(tl.int32), 1), 0)
        while left > 0:  # one entry of each column at a time: few columns have any, hardly one has two
            chosen = tl.min(tl.where(high, place[:, None], tile_rows), 0)
            pick = place[:, None] == chosen[None, :]
            value, amount = tl.sum(tl.where(pick, u, 0.0), 0), tl.sum(tl.where(pick, r, 0.0), 0)
            cell = interval(value, upper, m, chosen < tile_rows, steps)
            here = residual + column * m + cell
            tl.atomic_add(here, amount.to(tl.float64), mask=chosen < tile_rows, sem="relaxed")
            high = high & (pick == 0)
            left = tl.max(tl.max(high.to(tl.int32), 1), 0)
    tl.atomic_add(residual + column * m, tl.sum(low, 0), mask=column < k, sem="relaxed")
    if checked:
        odd = (least < -slack) | (most - 1 > slack)
        tl.store(numbers, 1.0, mask=tl.max(tl.max(odd.to(tl.int32), 1), 0) > 0)
    if tl.program_id(0) % tiles == 0:  # once for each row
        row = begin + tl.arange(0, rows_each)
        y = tl.load(labels + row, mask=row < n, other=0)
        fine = (y >= 0) & (y < k)
        if checked:
            tl.store(numbers, 1.0, mask=tl.max((fine == 0).to(tl.int32), 0) > 0)
        if apart:
            here = (row < n) & fine
            own = tl.load(matrix + row * row_stride + y.to(tl.int64) * column_stride, mask=here, other=0.0).to(work)
            cell = interval(own, upper, m, here, steps)
            one = tl.full((rows_each,), -1.0, tl.float64)
            tl.atomic_add(residual + y * m + cell, one, mask=here, sem="relaxed")


def interval_residuals(
    matrix: Tensor,
    labels: Tensor,
    upper: Tensor,
    residual: Tensor,
    sums: Tensor | None,
    slack: float,
    numbers: Tensor,
) -> None:
    """Adds Σ (u − outcome) of every column of (n, k) probabilities over intervals with these upper ends to (k, m).

    Few entries of a row exceed the first end: those find their interval and are added there; all others stay in
    registers, as a sum for each column. Outcomes are taken off apart from the predictions, except in float64: sums of
    float32 have digits to spare for it. With `sums` the rows are checked: entries and labels in the same pass, and the
    sums of the rows are added to `sums` for `finish` to look at.
    """
    (n, k), m = matrix.shape, len(upper)
    grid = (triton.cdiv(k, WALK["tile_columns"]) * triton.cdiv(n, WALK["rows_each"]),)
    arrays = (matrix, labels, upper, residual, numbers if sums is None else sums, numbers)
    checked, apart = sums is not None, matrix.dtype != torch.float64
    how: dict[str, Any] = {"work": work_of(matrix), "checked": checked, "apart": apart, "steps": (m - 1).bit_length()}
    _walk[grid](*arrays, n, k, m, *matrix.stride(), slack, **how, **WALK)


@triton.jit
def _finish(
    residual,
    low,
    high,
    sums,
    numbers,
    bins,
    views,
    m,
    rows,
    tolerance,
    head: tl.constexpr,
    absolute: tl.constexpr,
    block: tl.constexpr,
):
    j = tl.program_id(0)
    if j < bins:
        begin, end = tl.load(low + j), tl.load(high + j)
        total = tl.zeros((block,), tl.float64)
        for start in range(0, views, block):
            view = start + tl.arange(0, block)
            r = tl.zeros((block,), tl.float64)
            for place in range(begin, end):
                r += tl.load(residual + view.to(tl.int64) * m + place, mask=view < views, other=0.0)
            total += tl.abs(r) if absolute else r * r
        tl.store(numbers + head + j, tl.sum(total, 0))
    else:
        row = (j - bins).to(tl.int64) * block + tl.arange(0, block)
        each = tl.load(sums + row, mask=row < rows, other=1.0)
        fine = tl.abs(each - 1) <= tolerance
        tl.store(numbers, 1.0, mask=tl.sum((fine == 0).to(tl.int32), 0) > 0)


def finish(
    residual: Tensor,
    views: int,
    m: int,
    low: Tensor,
    high: Tensor,
    sums: Tensor | None,
    tolerance: float,
    numbers: Tensor,
    *,
    absolute: bool,
) -> None:
    """Per bin, between places `low` and `high` of the intervals, the squares or sizes of (views, m) sums, summed over
    views, from HEAD on; and whether the sums of rows are 1."""
    bins = len(low)
    rows = 0 if sums is None else len(sums)
    grid = (bins + triton.cdiv(rows, 1024),)
    about = (residual, low, high, numbers if sums is None else sums, numbers, bins, views, m, rows, tolerance)
    _finish[grid](*about, head=HEAD, absolute=absolute, block=1024)


@triton.jit
def _cells(
    reports,
    marks,
    upper,
    numbers,
    n,
    m,
    stride,
    lanes: tl.constexpr,
    head: tl.constexpr,
    steps: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    inside = row < n
    u = tl.load(reports + row * stride, mask=inside, other=0.0)
    r = u.to(tl.float64) - tl.load(marks + row, mask=inside, other=0).to(tl.float64)
    cell = interval(u, upper, m, inside, steps)
    tl.atomic_add(numbers + head + row % lanes * m + cell, r, mask=inside, sem="relaxed")


def view_residuals(reports: Tensor, marks: Tensor, upper: Tensor, numbers: Tensor) -> None:
    """Σ (u − outcome) of one view over intervals with these upper ends: (LANES, m) from HEAD on."""
    n, m = len(reports), len(upper)
    about = (reports, marks.view(torch.uint8), upper, numbers, n, m, *reports.stride())
    _cells[(triton.cdiv(n, 256),)](*about, lanes=LANES, head=HEAD, steps=(m - 1).bit_length(), block=256)
