"""Predictions that are kept for quantile edges: every so many-th row, in memory that does not grow, mergeable.

Edges come from predictions alone and are frozen before a label is read, so the errors over them are exactly truthful;
only the balance of the bins is approximate: of n rows kept, the edge at quantile q is √(q(1 − q)/n) of the rows off.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, final

import numpy as np

from ..core.sample import Bounds
from ..core.types import Array

MOST_ROWS, MOST_BYTES = 1 << 16, 1 << 27
"""So many rows are kept at most, or fewer whose predictions take so much memory."""


class EdgeSource(Protocol):
    """Distributions of predictions, however they were counted, from which quantile edges are read."""

    def edges(self, n_bins: int, bounds: Bounds) -> Array:
        """(views, n_bins + 1) edges between bins of about equal numbers of rows."""

    def tied(self, edges: Array) -> bool:
        """Whether one of the inner edges is a prediction of many rows."""


@final
class KeptRows:
    """Rows of a first pass: row 0, `stride`, 2·`stride` and so on; where they become too many every second one goes."""

    def __init__(self, rows: Array | None = None, stride: int = 1, observed: int = 0) -> None:
        self._blocks = [] if rows is None else [rows]
        self.number = 0 if rows is None else len(rows)
        """How many rows are kept."""
        self.stride, self.observed = stride, observed

    @property
    def rows(self) -> Array:
        """The rows that are kept."""
        if len(self._blocks) > 1:
            self._blocks = [np.concatenate(self._blocks)]
        return self._blocks[0]

    def add(self, reports: Array) -> None:
        """Observe more predictions."""
        chosen = reports[-self.observed % self.stride :: self.stride]
        self.observed += len(reports)
        if len(chosen):
            self._append(chosen.copy())

    def _append(self, rows: Array) -> None:
        self._blocks.append(rows)
        self.number += len(rows)
        while self.number > max(1, min(MOST_ROWS, MOST_BYTES // rows[:1].nbytes)):
            self._thin(2)

    def _thin(self, every: int) -> None:
        self._blocks, self.stride = [self.rows[::every]], self.stride * every
        self.number = len(self._blocks[0])

    def merge(self, other: KeptRows) -> KeptRows:
        """The rows of both, as evenly spread; neither is changed."""
        parts = [KeptRows(part.rows, part.stride, part.observed) for part in (self, other) if part.number]
        stride = max([part.stride for part in parts], default=1)
        both = KeptRows(None, stride, self.observed + other.observed)
        for part in parts:
            part._thin(stride // part.stride)
            both._append(part.rows)
        return both


@final
@dataclass(frozen=True, eq=False)
class SortedViews:
    """The distributions of several views by their predictions, in order."""

    views: tuple[Array, ...]

    @staticmethod
    def of(columns: Iterable[Array]) -> SortedViews:
        """Of predictions in any order."""
        return SortedViews(tuple(np.sort(column) for column in columns))

    def edges(self, n_bins: int, bounds: Bounds) -> Array:
        """(views, n_bins + 1): edges between bins of about equal numbers of rows, from one end of the range to the
        other. A value that many rows share may be several edges in a row: the bins between them stay empty."""
        rows = []
        for view in self.views:
            inner = view[np.maximum(np.arange(1, n_bins) * len(view) // n_bins - 1, 0)] if len(view) else None
            ends = np.linspace(*bounds, n_bins + 1)  # of a class that is never on top any edges will do
            rows.append(ends if inner is None else np.concatenate([[bounds[0]], np.clip(inner, *bounds), [bounds[1]]]))
        return np.stack(rows)

    def tied(self, edges: Array) -> bool:
        """Whether one of the inner edges is a prediction of many rows: of more than half a bin."""
        few = 0.5 / (edges.shape[1] - 1)
        for view, row in zip(self.views, edges, strict=True):
            inner = np.unique(row[1:-1]).astype(view.dtype)
            rows = np.searchsorted(view, inner, side="right") - np.searchsorted(view, inner)
            if (rows > few * len(view)).any():
                return True
        return False
