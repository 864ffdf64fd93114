"""Quantiles of predictions in a few kilobytes, mergeable: the edges that a second pass will count by.

Edges come from predictions alone and are frozen before a label is read, so the errors over them are exactly truthful;
only the balance of the bins is approximate (KLL sketches of Apache DataSketches: Karnin, Lang, Liberty, 2016).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

import numpy as np

from ..core.extras import require
from ..core.sample import Bounds
from ..core.types import Array

ACCURACY, LARGEST = 4000, 65535
"""KLL's k, and the largest there is: up to k rows are kept as they are, so that quantiles are exact and the same in
every run; of more, coins decide which stay, and at 4000 bins are as large as asked for to about .1% of the rows."""


def _kind() -> Any:
    try:
        return require("datasketches", "scale").kll_doubles_sketch
    except ImportError as error:
        if error.name != "datasketches" or sys.version_info < (3, 14):
            raise
        raise ImportError(  # the extra leaves it out, so that everything else can be installed
            "quantile bins of a stream need datasketches, which has no wheel for Python 3.14 yet: "
            "pip install datasketches builds it with a C++ compiler; edges='uniform' and given edges do without",
            name="datasketches",
        ) from error


class EdgeSource(Protocol):
    """Distributions of predictions, however they were counted, from which quantile edges are read."""

    def edges(self, n_bins: int, bounds: Bounds) -> Array:
        """(views, n_bins + 1) edges between bins of about equal numbers of rows."""

    def tied(self, edges: Array) -> bool:
        """Whether one of the inner edges is a prediction of many rows."""


@final
@dataclass(frozen=True, eq=False)
class Sketch:
    """The distributions of several views of predictions, each as a KLL sketch."""

    views: tuple[Any, ...]

    @staticmethod
    def empty(views: int, accuracy: int = ACCURACY) -> Sketch:
        kind = _kind()
        return Sketch(tuple(kind(accuracy) for _ in range(views)))

    @staticmethod
    def of_bytes(parts: Iterable[bytes]) -> Sketch:
        """A sketch as `to_bytes` stored it."""
        kind = _kind()
        return Sketch(tuple(kind.deserialize(part) for part in parts))

    def to_bytes(self) -> list[bytes]:
        """Each view in DataSketches' own format."""
        return [bytes(view.serialize()) for view in self.views]

    def __reduce__(self) -> tuple[Any, ...]:
        return Sketch.of_bytes, (self.to_bytes(),)

    def add(self, columns: Sequence[Array]) -> None:
        """More predictions, one array for each view."""
        for view, values in zip(self.views, columns, strict=True):
            view.update(np.require(values, np.float64, ["C", "W"]))  # it refuses arrays that are read-only

    def copied(self) -> Sketch:
        """A copy."""
        return Sketch.of_bytes(self.to_bytes())

    def merge(self, other: Sketch) -> Sketch:
        """The sketch of both; neither is changed."""
        merged = self.copied()
        for view, more in zip(merged.views, other.views, strict=True):
            view.merge(more)
        return merged

    def edges(self, n_bins: int, bounds: Bounds) -> Array:
        """(views, n_bins + 1): edges between bins of about equal numbers of rows, from one end of the range to the
        other. A value that many rows share may be several edges in a row: the bins between them stay empty."""
        return np.stack([_edges(view, n_bins, bounds) for view in self.views])

    def tied(self, edges: Array) -> bool:
        """Whether one of the inner edges is a prediction of many rows: of more than half a bin."""

        def share(view: Any, edge: float) -> float:
            return float(view.get_rank(edge, True) - view.get_rank(edge, False))

        few = 0.5 / (edges.shape[1] - 1)
        filled = (pair for pair in zip(self.views, edges, strict=True) if not pair[0].is_empty())
        return any(share(view, edge) > few for view, row in filled for edge in np.unique(row[1:-1]).tolist())


@final
@dataclass(frozen=True, eq=False)
class Kept:
    """The distributions of several views by the predictions themselves, in order, where few enough were kept."""

    views: tuple[Array, ...]

    @staticmethod
    def of(columns: Iterable[Array]) -> Kept:
        """Of predictions in any order."""
        return Kept(tuple(np.sort(column) for column in columns))

    def edges(self, n_bins: int, bounds: Bounds) -> Array:
        """As those of a sketch that has lost nothing."""
        rows = []
        for view in self.views:
            inner = view[np.maximum(np.arange(1, n_bins) * len(view) // n_bins - 1, 0)] if len(view) else None
            ends = np.linspace(*bounds, n_bins + 1)  # of a class that is never on top any edges will do
            rows.append(ends if inner is None else np.concatenate([[bounds[0]], np.clip(inner, *bounds), [bounds[1]]]))
        return np.stack(rows)

    def tied(self, edges: Array) -> bool:
        """As of a sketch."""
        few = 0.5 / (edges.shape[1] - 1)
        for view, row in zip(self.views, edges, strict=True):
            inner = np.unique(row[1:-1]).astype(view.dtype)
            rows = np.searchsorted(view, inner, side="right") - np.searchsorted(view, inner)
            if (rows > few * len(view)).any():
                return True
        return False


def _edges(view: Any, n_bins: int, bounds: Bounds) -> Array:
    if view.is_empty():  # a class that is never on top: any edges will do
        return np.linspace(*bounds, n_bins + 1)
    cuts = (np.arange(1, n_bins) * view.n) // n_bins
    ranks = np.maximum(cuts - 0.5, 0.0) / view.n  # half a row below, so that rounding cannot pass to the next
    inner = np.maximum.accumulate(view.get_quantiles(ranks.tolist(), True)) if len(ranks) else np.empty(0)
    return np.concatenate([[bounds[0]], np.clip(inner, *bounds), [bounds[1]]])
