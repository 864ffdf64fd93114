"""A table that grows by batches of rows: its sums without rounding, and the sums of 64 label-blind blocks of rows.

Row i of a stream belongs to block i mod B, so a block knows nothing of labels or predictions. Merging puts the rows of
one stream after those of another: its blocks are turned by the rows that came before, and the blocks are those of one
stream over all rows, however the rows were divided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from ..backends import numpy as kernels
from ..core.cells import refuse_misfit, refuse_outside_edges
from ..core.data import working_dtype
from ..core.rules import ArgmaxEdges, BinningRule, FixedRule
from ..core.sample import Bounds, Sample
from ..core.table import BinTable, Totals
from ..core.tabulate import in_unit, whole_tables

Array = NDArray[Any]

SUMS = ("count", "outcome", "residual", "residual_sq", "weight_sq")
TOTALS = ("weight", "weight_sq", "wrong", "wrong_sq", "residual_sq")
BLOCK_SUMS = ("weight", "wrong", "loss")


class Blocks(NamedTuple):
    """The rows in B blocks: residual sums (B, views, cells), and Σ w, Σ w(1 − z), Σ w|r|² of each block, (3, B)."""

    residual: Array
    sums: Array

    def turned(self, rows: int) -> Blocks:
        """The blocks of the same rows when so many others come before them."""
        step = rows % len(self.residual)
        return Blocks(np.roll(self.residual, step, axis=0), np.roll(self.sums, step, axis=1)) if step else self

    def plus(self, other: Blocks) -> Blocks:
        return Blocks(self.residual + other.residual, self.sums + other.sums)

    def add(self, other: Blocks) -> None:
        """The same in place: beside it a batch needs no second copy of what may be large."""
        np.add(self.residual, other.residual, out=self.residual)
        np.add(self.sums, other.sums, out=self.sums)

    def copied(self) -> Blocks:
        return Blocks(self.residual.copy(), self.sums.copy())

    def of(self, name: str) -> Array:
        """One of the sums, per block."""
        return np.asarray(self.sums[BLOCK_SUMS.index(name)])


@final
@dataclass(frozen=True, eq=False)
class Tally:
    """A table, what rounding has taken from its sums so far (two-sum), and its blocks of rows (None: not kept)."""

    table: BinTable
    lost: dict[str, Array]
    blocks: Blocks | None = None

    @staticmethod
    def of(table: BinTable, blocks: Blocks | None = None) -> Tally:
        """One batch: nothing is lost yet."""
        return Tally(table, {}, blocks)

    def merge(self, other: Tally) -> Tally:
        """Both, as if the rows of `other` came after; neither is changed."""
        blocks = None
        if self.blocks is not None and other.blocks is not None:
            blocks = self.blocks.plus(other.blocks.turned(self.table.rows))
        return replace(self._merge_tables(other), blocks=blocks)

    def add(self, other: Tally) -> Tally:
        """Both, where the blocks of `other` are in their places already; those of this tally are overwritten."""
        if self.blocks is not None and other.blocks is not None:
            self.blocks.add(other.blocks)
        return replace(self._merge_tables(other), blocks=self.blocks)

    def _merge_tables(self, other: Tally) -> Tally:
        table = self.table.merge(other.table)
        parts, more, both = (_sums(t, weighted=table.weight_sq is not None) for t in (self.table, other.table, table))
        lost = {}
        for name, total in both.items():
            taken = _two_sum_error(parts[name], more[name], total)
            lost[name] = self.lost.get(name, 0.0) + other.lost.get(name, 0.0) + taken
        return Tally(table, lost)

    def whole(self) -> BinTable:
        """The table, with what was lost."""
        if not self.lost:
            return self.table
        cells: dict[str, Any] = {}
        totals: dict[str, Any] = {}
        for name, total in _sums(self.table, weighted=self.table.weight_sq is not None).items():
            kind, _, field = name.partition(".")
            (cells if kind == "cells" else totals)[field] = total + self.lost[name]
        totals = {name: float(value) for name, value in totals.items()}
        return replace(self.table, totals=replace(self.table.totals, **totals), **cells)


def _sums(table: BinTable, weighted: bool) -> dict[str, Array]:
    """Every sum of a table by name; a table without weights among others with them has weights of 1."""
    assert table.residual_sq is not None
    cells = {f"cells.{name}": getattr(table, name) for name in SUMS[:4]}
    totals = {f"totals.{name}": np.asarray(getattr(table.totals, name)) for name in TOTALS}
    if weighted:
        cells["cells.weight_sq"] = table.cell_weight_sq
        totals["totals.residual_sq"] = np.asarray(table.loss_total)
    return cells | totals


def _two_sum_error(a: Array, b: Array, total: Array) -> Array:
    """a + b − fl(a + b), exactly (Knuth)."""
    back = total - a
    return np.asarray((a - (total - back)) + (b - back))


def tally(sample: Sample, rule: BinningRule, blocks: int, start: int) -> Tally:
    """The table of some rows over fixed cells, the first of which is row number `start` of its stream."""
    if not blocks:
        return Tally.of(whole_tables(sample, rule, "together")[0])
    refuse_misfit(sample, rule)
    block = (start + np.arange(sample.rows)) % blocks
    edges = edges_of(rule, sample.bounds, working_dtype(sample.reports))
    joint = rule.index(sample.reports) if isinstance(rule, ArgmaxEdges) else None
    cells = edges.shape[-1] - 1 if joint is None else edges.size - len(edges)
    whole, residual = np.zeros((5, sample.views, cells)), np.zeros((blocks, sample.views, cells))
    for j in range(sample.views):
        cell = _cell(sample, rule, edges, j) if joint is None else joint
        for what, part in enumerate(_view_sums(sample, j, block * cells + cell, blocks * cells)):
            whole[what, j] = part.reshape(blocks, cells).sum(axis=0)
            if what == SUMS.index("residual"):
                residual[:, j] = part.reshape(blocks, cells)
    count, outcome, total, own, weight_sq = whole
    about: dict[str, Any] = {"joint": sample.joint, "bounds": sample.bounds, "edges": edges}
    if sample.weights is not None:
        about["weight_sq"] = weight_sq
    kind, totals = sample.kind, Totals.of(sample)
    table = in_unit(BinTable(kind, rule, count, outcome, total, np.zeros_like(count), own, totals, **about), sample)
    return Tally.of(table, Blocks(np.ldexp(residual, sample.weight_exponent), _block_sums(sample, block, blocks)))


def _view_sums(sample: Sample, j: int, key: Array, size: int) -> Iterator[Array]:
    """Σ w, Σ w·outcome, Σ w·r, Σ (w·r)² and with weights Σ w² of one view, for each value of the key."""
    if sample.marks is not None and sample.weights is None:
        marks = sample.marks if sample.reports.ndim == 1 else sample.marks == j
        yield from kernels.cell_sums(key, sample.view(j), marks, size, squares=True)
        return
    view, w = slice(j, j + 1), sample.row_weights
    residual = sample.residuals(view)[0]
    for values in (w, w * sample.outcome(view)[0], residual, np.square(residual), np.square(w)):
        yield np.bincount(key, values, size)


def _block_sums(sample: Sample, block: Array, blocks: int) -> Array:
    """(3, blocks): Σ w, Σ w(1 − z) and Σ w|r|² of each block, in the unit of the weights as given."""
    w = sample.row_weights
    wrong = np.zeros(sample.rows) if sample.wrong is None else sample.wrong
    sums = [np.bincount(block, w * values, blocks) for values in (np.ones(sample.rows), wrong, sample.residual_sq)]
    return np.ldexp(np.stack(sums), sample.weight_exponent)


def edges_of(rule: BinningRule, bounds: Bounds | None, dtype: np.dtype[Any]) -> Array:
    """The edges in the dtype of the reports: one row, or one for each view or argmax class."""
    if isinstance(rule, ArgmaxEdges):
        return rule.edges(dtype)
    assert isinstance(rule, FixedRule)
    return rule.edges(bounds, dtype)[0]


def _cell(sample: Sample, rule: BinningRule, edges: Array, view: int) -> Array:
    assert isinstance(rule, FixedRule)
    values = sample.view(view).astype(edges.dtype, copy=False)
    refuse_outside_edges(sample, rule.of_view(view), values)
    return kernels.interval_index(values, edges[view] if edges.ndim == 2 else edges)
