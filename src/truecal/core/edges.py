"""Edges of intervals: read from the user, made from a bin count, and looked up where there are too many to list."""

from __future__ import annotations

from typing import Any

import numpy as np

from .cells import Runs
from .data import as_array, rounding_slack, shown
from .sample import Bounds
from .types import Array

MOST_EDGES = 1 << 20  # more equal intervals than this are looked up, never listed


def needed(bounds: Bounds | None) -> Bounds:
    """The range of the reports, without which equal-width bins cannot be."""
    if bounds is None:
        raise ValueError("equal-width bins need range=(low, high), because the reports are not probabilities")
    return bounds


def equal_edges(j: Array, m: int, bounds: Bounds, dtype: np.dtype[Any]) -> Array:
    """Edge number j of m: j/m first, so that 0.7 with ten bins meets exactly the double 0.7."""
    low, high = bounds
    return np.asarray((low + (high - low) * (j / m)).astype(dtype))


def crowded_runs(ordered: Array, m: int, bounds: Bounds) -> Runs:
    """Runs of equal-width intervals too many to list: each report finds its own.

    The interval of u is the first whose right edge is at least u; a guess from u·m is moved until that holds.
    """
    low, high = bounds
    cell = np.clip(np.ceil((ordered.astype(np.float64) - low) / (high - low) * m) - 1, 0, m - 1).astype(np.int64)
    while (below := (cell < m - 1) & (ordered > equal_edges(cell + 1, m, bounds, ordered.dtype))).any():
        cell += below
    while (above := (cell > 0) & (ordered <= equal_edges(cell, m, bounds, ordered.dtype))).any():
        cell -= above
    start = np.concatenate([[0], np.flatnonzero(cell[1:] != cell[:-1]) + 1])
    return Runs(start, cell[start], m)


def covered(edges: Array) -> tuple[Array, Array]:
    """The least and the largest report that edges (..., m + 1) cover: a report may lie outside by rounding alone."""
    low, high = edges[..., 0], edges[..., -1]
    slack = rounding_slack(edges) * np.maximum(np.abs(low), np.abs(high))
    return np.asarray(low - slack), np.asarray(high + slack)


def read_edges(values: Any, most: int) -> Array:
    """Finite edges in order, in at most so many dimensions; those of a row may repeat."""
    array = np.asarray(as_array(values, "edges"))
    if array.dtype.kind not in "biuf":
        raise TypeError(f"edges must be numbers, got {shown(values)}")
    array = array.astype(np.float64)
    if not 1 <= array.ndim <= most or array.shape[-1] < 2 or not array.size or not np.isfinite(array).all():
        raise ValueError(f"edges must be at least two finite increasing numbers, got {shown(values)}")
    if not (np.diff(array, axis=-1) >= 0).all():
        raise ValueError(f"edges must not decrease within a row, got {shown(values)}")
    return array


def nested(array: Array) -> tuple[Any, ...]:
    """Rows of an array as tuples."""
    return tuple(map(tuple, array.tolist())) if array.ndim == 2 else tuple(array.tolist())


def interval_index(values: Array, edges: Array) -> Array:
    """The interval (e_{j−1}, e_j] of each value, 0-based; values at or below the first inner edge are in the first."""
    return np.searchsorted(edges[1:-1], values, side="left")


_OCTAVES, _STEPS = 32, 9  # buckets reach down to 2^-32, with 2^9 of them between a power of two and the next

_FEW_VIEWS = 64  # more views than this have tables of their own in a size that follows their bins


class IntervalLookup:
    """`interval_index` for edges that are used again and again, on values in [0, 1]: a table instead of a search.

    Non-negative floats order like their bits, so the leading bits of a value are its bucket, and the table has the
    first interval of each bucket. Where one edge lies in a bucket, a comparison decides; where several do, a search.
    Where it is one of many `views`, each with edges of its own, its table takes about 100 bytes a bin.
    """

    def __init__(self, edges: Array, views: int = 1) -> None:
        self._edges = edges
        size = edges.dtype.itemsize
        self._bits = np.dtype(f"i{size}")
        one = int(np.ones(1, dtype=edges.dtype).view(self._bits)[0])
        steps = _STEPS if views <= _FEW_VIEWS else min(_STEPS, len(edges).bit_length() - 1)
        self.shift = np.finfo(edges.dtype).nmant - steps
        self.base = (one >> self.shift) - (_OCTAVES << steps)
        """The leading bits of the first bucket."""
        low = (np.arange(self.base, (one >> self.shift) + 2, dtype=self._bits) << self.shift).view(edges.dtype)
        low[0] = 0.0
        self.first = interval_index(low[:-1], edges).astype(np.int32)
        """The first interval of each bucket."""
        last = interval_index(np.nextafter(low[1:], edges.dtype.type(0)), edges)
        self._upper = np.append(edges[1:-1], np.asarray(np.inf, dtype=edges.dtype))
        crowded = last > self.first + 1
        self._crowded = crowded if crowded.any() else None

    def __call__(self, values: Array) -> Array:
        bucket = values.view(self._bits) >> self.shift
        bucket -= self.base
        np.maximum(bucket, 0, out=bucket)
        cell = self.first.take(bucket)
        cell += values > self._upper.take(cell)
        if self._crowded is not None:
            rows = np.flatnonzero(self._crowded.take(bucket))
            cell[rows] = interval_index(values[rows], self._edges)
        return cell
