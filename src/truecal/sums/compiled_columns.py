"""What a stream measures of each row of distributions over classes, in one compiled pass over their columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.arrays import Array
from .compiled import entry, inner

_BLOCK = 1 << 10  # rows whose numbers stay in cache while one column after the other passes


class RowFacts(NamedTuple):
    """Of each row the largest entry p_t (t is the lowest index on ties), whether t is the label y, p_y and Σ p_r² in
    float64; and the least entry of all."""

    confidence: Array
    right: Array
    own: Array
    squares: Array
    least: float


def row_facts(columns: Array, labels: Array) -> RowFacts:
    """The facts of the rows of `columns` (k, n), a row of it for each class; their labels are indices below k."""
    n = columns.shape[1]
    confidence, right, own, squares = np.empty(n, columns.dtype), np.empty(n, np.bool_), np.empty(n), np.empty(n)
    least = _row_facts(columns, np.ascontiguousarray(labels, dtype=np.int64), confidence, right, own, squares)
    return RowFacts(confidence, right, own, squares, float(least))


@entry
def _row_facts(columns: Array, labels: Array, confidence: Array, right: Array, own: Array, squares: Array) -> float:
    k, n = columns.shape
    top, low = np.empty(_BLOCK, dtype=np.int32), np.empty(_BLOCK, dtype=columns.dtype)
    least = np.inf
    for begin in range(0, n, _BLOCK):
        here = slice(begin, min(n, begin + _BLOCK))
        rows = here.stop - begin
        confidence[here], low[:rows] = columns[0, here], columns[0, here]
        top[:rows], squares[here] = 0, 0.0
        for v in range(k):
            _add_column(columns[v, here], v, confidence[here], top, low, squares[here])
        for i in range(rows):
            label = labels[begin + i]
            own[begin + i] = columns[label, begin + i]
            right[begin + i] = top[i] == label
        least = min(least, np.float64(low[:rows].min()))
    return least


@inner
def _add_column(column: Array, v: int, best: Array, top: Array, low: Array, squares: Array) -> None:
    """Without branches, so that several rows are done at a time."""
    for i in range(len(column)):
        x = column[i]
        above = x > best[i]
        top[i] = v if above else top[i]
        best[i] = x if above else best[i]
        low[i] = x if x < low[i] else low[i]
        squares[i] += np.float64(x) * np.float64(x)
