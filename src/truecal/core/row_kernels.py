"""Kernels over the rows of a numpy matrix: the top class and softmax."""

from __future__ import annotations

import numpy as np

from .arrays import Array
from .dispatch import over_rows

_COLUMN_ROWS = 16384

_SOFTMAX_ROWS = 4096

_SMALL_K, _MANY_ROWS = 48, 1 << 11
"""Of at least so many rows of fewer classes, a running maximum over columns beats argmax over short rows."""


def top_class(matrix: Array) -> Array:
    """Index of the largest entry of each row, the lowest index on ties."""
    return top_class_and_value(matrix)[0]


def top_class_and_value(matrix: Array) -> tuple[Array, Array]:
    """Index (the lowest on ties) and value of the largest entry of each row; (n,) are those of class 1 of two."""
    if matrix.ndim == 1:
        other = 1 - matrix
        index = (matrix > other).view(np.uint8)
        return index, np.maximum(other, matrix, out=other)
    n, k = matrix.shape
    if k > _SMALL_K or n < _MANY_ROWS:
        index = np.asarray(matrix.argmax(axis=1))
        return index, np.asarray(matrix[np.arange(n), index])
    index, value = np.zeros(n, dtype=np.uint8), np.empty(n, dtype=matrix.dtype)

    def work(share: slice) -> None:
        columns = np.empty((k, min(n, _COLUMN_ROWS)), dtype=matrix.dtype)
        above = np.empty(columns.shape[1], dtype=np.bool_)
        for start in range(share.start, share.stop, _COLUMN_ROWS):
            rows = slice(start, min(share.stop, start + _COLUMN_ROWS))
            width = rows.stop - start
            np.copyto(columns[:, :width], matrix[rows].T)
            _running_maximum(columns[:, :width], above[:width], index[rows], value[rows])

    over_rows(n, matrix.size, work)
    return index, value


def _running_maximum(columns: Array, above: Array, index: Array, value: Array) -> None:
    """Column by column: j·[column j is larger] replaces the index, since j only grows, and bytes combine cheaply."""
    step = above.view(np.uint8)
    value[:] = columns[0]
    for j in range(1, len(columns)):
        np.greater(columns[j], value, out=above)
        np.multiply(step, np.uint8(j), out=step)
        np.maximum(index, step, out=index)
        np.maximum(value, columns[j], out=value)


def softmax(logits: Array) -> Array:
    """p_r = exp z_r / Σ_s exp z_s per row, a block of rows at a time: one new array and little beside it."""
    proba = np.empty_like(logits)
    for start in range(0, len(logits), _SOFTMAX_ROWS):
        rows = slice(start, start + _SOFTMAX_ROWS)
        block = proba[rows]
        np.subtract(logits[rows], logits[rows].max(axis=1, keepdims=True), out=block)
        np.exp(block, out=block)
        block /= block.sum(axis=1, keepdims=True)
    return proba
