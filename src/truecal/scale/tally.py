"""A table that grows by batches of rows: its sums without rounding, and the sums of 64 label-blind blocks of rows.

Row i of a stream belongs to block i mod B, so a block knows nothing of labels or predictions. Merging puts the rows of
one stream after those of another: its blocks are turned by the rows that came before, and the blocks are those of one
stream over all rows, however the rows were divided.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, final

import numpy as np

from ..backends import numpy as kernels
from ..core.cells import refuse_misfit, refuse_outside_edges
from ..core.data import working_dtype
from ..core.rules import ArgmaxEdges, BinningRule, FixedRule
from ..core.sample import Bounds, Sample
from ..core.table import BinTable, Totals
from ..core.tabulate import in_unit, whole_tables
from ..core.types import Array

SUMS = ("count", "outcome", "residual", "residual_sq", "weight_sq")
TOTALS = ("weight", "weight_sq", "wrong", "wrong_sq", "residual_sq")
BLOCK_SUMS = ("weight", "wrong", "loss")
_ROWS = 1 << 16  # at a time: they stay in cache, and their residuals may be added up as they stand


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
    edges = edges_of(rule, sample.bounds, working_dtype(sample.reports))
    cells = edges.shape[-1] - 1 if isinstance(rule, FixedRule) else edges.size - len(edges)
    whole, residual = np.zeros((5, sample.views, cells)), np.zeros((blocks, sample.views, cells))
    sums = np.zeros((3, blocks))
    for rows in (slice(a, min(a + _ROWS, sample.rows)) for a in range(0, sample.rows, _ROWS)):
        part = sample if rows == slice(0, sample.rows) else sample.take(rows)
        block = (start % blocks + np.arange(rows.start, rows.stop)) % blocks
        joint = rule.index(part.reports) if isinstance(rule, ArgmaxEdges) else None
        for j in range(sample.views):
            cell = _cell(part, rule, edges, j) if joint is None else joint
            x = part.residuals(slice(j, j + 1))[0]
            by_block = np.bincount(block * cells + cell, x, blocks * cells).reshape(blocks, cells)
            residual[:, j] += by_block
            whole[SUMS.index("residual"), j] += by_block.sum(axis=0)
            _add_view(whole[:, j], part, j, cell, x)
            if part.weights is None:
                sums[2] += np.bincount(block, x * x, blocks)
        sums += _block_sums(part, block, blocks)
    count, outcome, total, own, weight_sq = whole
    about: dict[str, Any] = {"joint": sample.joint, "bounds": sample.bounds, "edges": edges}
    if sample.weights is not None:
        about["weight_sq"] = weight_sq
    kind, totals = sample.kind, Totals.of(sample)
    table = in_unit(BinTable(kind, rule, count, outcome, total, np.zeros_like(count), own, totals, **about), sample)
    return Tally.of(table, Blocks(np.ldexp(residual, sample.weight_exponent), sums))


def _add_view(whole: Array, sample: Sample, j: int, cell: Array, residual: Array) -> None:
    """Add Σ w, Σ w·outcome, Σ (w·r)² and with weights Σ w² of the rows of each cell, for one view."""
    cells = whole.shape[1]
    if sample.marks is not None and sample.weights is None:
        marks = sample.marks if sample.reports.ndim == 1 else sample.marks == j
        both = np.bincount(2 * cell + marks, minlength=2 * cells).reshape(-1, 2)
        whole[0] += both.sum(axis=1)
        whole[1] += both[:, 1]
    else:
        w = sample.row_weights
        for place, values in ((0, w), (1, w * sample.outcome(slice(j, j + 1))[0]), (4, np.square(w))):
            whole[place] += np.bincount(cell, values, cells)
    whole[3] += np.bincount(cell, residual * residual, cells)


def _block_sums(sample: Sample, block: Array, blocks: int) -> Array:
    """(3, blocks): Σ w, Σ w(1 − z) and with weights Σ w|r|² of each block, in the unit of the weights as given."""
    w = sample.weights
    sums = np.zeros((3, blocks))
    sums[0] = np.bincount(block, w, blocks)
    if sample.wrong is not None:
        sums[1] = np.bincount(block, sample.wrong if w is None else w * sample.wrong, blocks)
    if w is not None:
        sums[2] = np.bincount(block, w * sample.residual_sq, blocks)
    return np.ldexp(sums, sample.weight_exponent)


def edges_of(rule: BinningRule, bounds: Bounds | None, dtype: np.dtype[Any]) -> Array:
    """The edges in the dtype of the reports: one row, or one for each view or argmax class."""
    if isinstance(rule, ArgmaxEdges):
        return rule.edges(dtype)
    assert isinstance(rule, FixedRule)
    return rule.edges(bounds, dtype)[0]


def _cell(sample: Sample, rule: BinningRule, edges: Array, view: int) -> Array:
    assert isinstance(rule, FixedRule)
    values = sample.view(view).astype(edges.dtype)
    refuse_outside_edges(sample, rule.of_view(view), values)
    own = edges[view] if edges.ndim == 2 else edges
    return _lookup(own.tobytes(), own.dtype.str)(values)


@lru_cache(maxsize=2048)
def _lookup(edges: bytes, dtype: str) -> kernels.IntervalLookup:
    return kernels.IntervalLookup(np.frombuffer(edges, dtype=dtype))
