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
    """So many intervals that most are empty: each report looks for its own, and no edge is made that nobody needs.

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
