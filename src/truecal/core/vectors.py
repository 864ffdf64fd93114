"""Rules that cut vector reports: `ArgmaxQuantile`, `ArgmaxEdges` and `KdTree`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .arrays import LIBRARY, median, on_cpu, to_device_of, top_class_and_value
from .cells import Partition
from .data import working_dtype
from .edges import interval_index, nested, read_edges
from .rules import BinningRule, CountedRule, Ties, VectorRule, auto_bins
from .sample import Bounds
from .types import Array


@final
@dataclass(frozen=True)
class ArgmaxQuantile(CountedRule, VectorRule):
    """Within each argmax class, n_bins quantile bins of the confidence."""

    @property
    def text(self) -> str:
        return f"{super().text} within each predicted class"

    ties: Ties = "auto"
    open = True

    def streamed(self) -> BinningRule:
        return self

    def frozen(self, edges: Array) -> BinningRule:
        return ArgmaxEdges(edges)

    def ranked(self, reports: Array, top: Array) -> list[Array]:
        """The confidence within each argmax class."""
        confidence = reports[np.arange(len(reports)), top]
        return [confidence[top == j] for j in range(reports.shape[1])]

    def width(self, classes: int) -> int:
        return classes

    def partition(self, reports: Array) -> Partition:
        top, confidence = top_class_and_value(reports)
        order = LIBRARY[type(confidence)].argsort(confidence, stable=True)
        order = order[LIBRARY[type(top)].argsort(top[order], stable=True)]
        sizes = np.asarray(on_cpu(LIBRARY[type(top)].bincount(top, minlength=reports.shape[1])))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        cuts = tuple([to_device_of(_cuts_within(starts, sizes, m), reports) for m in self.counts or ()])
        value, group = confidence[order], top[order]
        tied: Array = group != group
        tied[1:] = (value[1:] == value[:-1]) & (group[1:] == group[:-1])
        return Partition(order, cuts, tied)

    def auto(self, rows: int, views: int) -> int:
        return max(1, round(auto_bins(rows, views) / views))


def _cuts_within(starts: Array, sizes: Array, m: int) -> Array:
    """The cuts of m quantile bins inside each of several runs, and between the runs; bins without rows are left out."""
    bins = np.minimum(sizes, m)
    run = np.repeat(np.arange(len(bins)), bins)
    place = np.arange(1, len(run) + 1) - (bins.cumsum() - bins)[run]
    return np.asarray(starts[run] + place * sizes[run] // bins[run])[:-1]


@final
@dataclass(frozen=True)
class ArgmaxEdges(VectorRule):
    """Within each argmax class j, bins of the confidence between the edges of row j: `ArgmaxQuantile`, frozen.

    `values` is (k, m + 1) and does not decrease within a row; cell j·m + b is bin b of argmax class j.
    """

    values: tuple[tuple[float, ...], ...]
    on_device = False

    def __init__(self, values: Any) -> None:
        array = read_edges(values, 2)
        if array.ndim != 2:
            raise ValueError(f"edges must have one row per class, got shape {array.shape}")
        object.__setattr__(self, "values", nested(array))

    @property
    def n_cells(self) -> int:
        """The number of bins within a class."""
        return len(self.values[0]) - 1

    def streamed(self) -> BinningRule:
        return self

    def width(self, classes: int) -> int:
        return classes

    def edges(self, dtype: np.dtype[Any]) -> Array:
        """All edges in the dtype of the reports."""
        return np.asarray(self.values, dtype=dtype)

    def table_edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        return (self.edges(dtype),)

    def joint_index(self, reports: Array) -> Array:
        if reports.shape[1] != len(self.values):
            raise ValueError(
                f"edges has rows for {len(self.values)} classes, but reports have {reports.shape[1]} columns"
            )
        top, confidence = top_class_and_value(reports)
        edges, cell = self.edges(working_dtype(reports)), np.empty(len(reports), dtype=np.intp)
        confidence = confidence.astype(edges.dtype, copy=False)
        for j, row in enumerate(edges):
            mine = np.flatnonzero(top == j)
            cell[mine] = j * self.n_cells + interval_index(confidence[mine], row)
        return cell

    def partition(self, reports: Array) -> Partition:
        cell = self.joint_index(reports)
        order = np.argsort(cell, kind="stable")
        inner = np.arange(1, self.n_cells * len(self.values))
        return Partition(order, (np.searchsorted(cell[order], inner, side="left"),))


@final
@dataclass(frozen=True)
class KdTree(CountedRule, VectorRule):
    """Median splits of the widest coordinate to depth ceil(log2 n_bins); at most the median goes left."""

    def partition(self, reports: Array) -> Partition:
        depths = [int(m - 1).bit_length() for m in self.counts or ()]
        order, levels = _kd_levels(reports, max(depths))
        return Partition(order, tuple(levels[min(depth, len(levels) - 1)] for depth in depths))


def _kd_levels(reports: Array, depth: int) -> tuple[Array, list[Array]]:
    """Row order of the deepest tree, and the cuts at every depth: deeper trees refine shallower ones."""
    xp = LIBRARY[type(reports)]
    runs = [xp.arange(len(reports), device=reports.device)]
    levels = [runs[0][:0]]
    for _ in range(depth):
        runs = [half for run in runs for half in _split_at_median(reports, run) if len(half)]
        levels.append(to_device_of(np.cumsum([len(run) for run in runs])[:-1], reports))
    return xp.concatenate(runs), levels


def _split_at_median(reports: Array, rows: Array) -> tuple[Array, Array]:
    xp, here = LIBRARY[type(reports)], reports[rows]
    column = here[:, xp.argmax(xp.amax(here, axis=0) - xp.amin(here, axis=0))]
    left = column <= median(column)
    return rows[left], rows[~left]
