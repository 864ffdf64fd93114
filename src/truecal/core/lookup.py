"""The interval of each value: by search, or by a table where edges are used again and again."""

from __future__ import annotations

import numpy as np

from .arrays import Array


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
