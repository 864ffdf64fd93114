"""One pass over a matrix of probabilities on a GPU, in Triton: sums of every class over fixed intervals."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS, _COLUMNS, _ROWS_EACH = 16, 128, 256  # of a tile in registers, and rows that one program walks through


@triton.jit  # type: ignore[misc]  # Triton is untyped
def _walk(  # type: ignore[no-untyped-def]  # compiled by Triton, whose types these are
    matrix,
    upper,
    count,
    total,
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
        high = inside & (u > first)
        low += tl.where(high, 0.0, u).to(tl.float64)
        left = tl.zeros((tile_rows, tile_columns), tl.int32)
        right = left + (m - 1)
        for _ in range(steps):
            middle = (left + right) // 2
            beyond = u > tl.load(upper + middle, mask=high, other=0.0)
            left = tl.where(beyond, middle + 1, left)
            right = tl.where(beyond, right, middle)
        place = column[None, :] * m + left
        tl.atomic_add(total + place, u.to(tl.float64), mask=high, sem="relaxed")
        tl.atomic_add(count + place, tl.full((tile_rows, tile_columns), 1.0, tl.float64), mask=high, sem="relaxed")
    tl.atomic_add(total + column * m, tl.sum(low, 0), mask=column < k, sem="relaxed")


def interval_sums(matrix: Tensor, inner: Tensor) -> tuple[Tensor, Tensor]:
    """Count and Σ u of every column of (n, k) probabilities over the intervals between inner edges: (k, m) float64.

    Few entries of a row exceed the first inner edge: those find their interval and are added there; all others stay in
    registers, as a sum for each column.
    """
    (n, k), m = matrix.shape, len(inner) + 1
    upper = torch.cat([inner, inner.new_full((1,), torch.inf)])
    sums = torch.zeros(2, k, m, dtype=torch.float64, device=matrix.device)
    grid = (triton.cdiv(n, _ROWS_EACH), triton.cdiv(k, _COLUMNS))
    options: dict[str, Any] = {"rows_each": _ROWS_EACH, "tile_rows": _ROWS, "tile_columns": _COLUMNS}
    count, total = sums[0], sums[1]
    _walk[grid](matrix, upper, count, total, n, k, m, *matrix.stride(), steps=(m - 1).bit_length(), **options)
    count[:, 0] = n - count.sum(1)
    return count, total
