"""A table that grows by batches of rows: its sums without rounding, and the sums of 64 label-blind blocks of rows.

Row i of a stream belongs to block i mod B, so a block knows nothing of labels or predictions. Merging puts the rows of
one stream after those of another: its blocks are turned by the rows that came before, and the blocks are those of one
stream over all rows, however the rows were divided.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple, TypeVar, final
from weakref import WeakKeyDictionary

import numpy as np

from ..core import dispatch
from ..core import edges as core_edges
from ..core.cut_score import Sides
from ..core.data import working_dtype
from ..core.edges import covered, interval_index
from ..core.rules import BinningRule
from ..core.sample import Bounds, Sample
from ..core.table import BinTable
from ..core.types import Array
from ..sums import plain as kernels
from ..sums.tabulate import in_unit, refuse_exponent

SUMS = ("count", "outcome", "residual", "residual_sq", "weight_sq")
TOTALS = ("weight", "weight_sq", "wrong", "wrong_sq", "residual_sq")
BLOCK_SUMS = ("weight", "wrong", "loss")
_SHARED = 1 << 18  # reports that are worth several threads
_ROWS = 1 << 16  # at a time: they stay in cache, and their residuals may be added up as they stand
_LOOKED_UP = 1 << 11  # fewer reports are not worth a table to look up their intervals
_MADE: WeakKeyDictionary[BinningRule, dict[Any, Any]] = WeakKeyDictionary()

Made = TypeVar("Made")


class Blocks(NamedTuple):
    """The rows in B blocks: residual sums (B, views, cells), and Σ w, Σ w(1 − z), Σ w|r|² of each block, (3, B)."""

    residual: Array
    sums: Array

    def turned(self, rows: int) -> Blocks:
        """The blocks of the same rows when so many others come before them, as arrays of their own."""
        step = rows % len(self.residual)
        return Blocks(np.roll(self.residual, step, axis=0), np.roll(self.sums, step, axis=1))

    def add(self, other: Blocks) -> Blocks:
        """These, with others added to them."""
        np.add(self.residual, other.residual, out=self.residual)
        np.add(self.sums, other.sums, out=self.sums)
        return self

    @staticmethod
    def empty(blocks: int, views: int, cells: int) -> Blocks:
        return Blocks(np.zeros((blocks, views, cells)), np.zeros((len(BLOCK_SUMS), blocks)))

    def copied(self) -> Blocks:
        return Blocks(self.residual.copy(), self.sums.copy())

    def of(self, name: str) -> Array:
        """One of the sums, per block."""
        return np.asarray(self.sums[BLOCK_SUMS.index(name)])


@final
@dataclass(frozen=True, eq=False)
class StreamTable:
    """A table, what rounding has taken from its sums so far (two-sum), and its blocks of rows (None: not kept)."""

    table: BinTable
    lost: dict[str, Array]
    blocks: Blocks | None = None
    left_out: Sides | None = None
    """Of the cells of the score: the pairs of rows of one cluster, where rows come in clusters."""

    @staticmethod
    def of(table: BinTable, blocks: Blocks | None = None) -> StreamTable:
        """One batch: nothing is lost yet."""
        return StreamTable(table, {}, blocks)

    def merge(self, other: StreamTable) -> StreamTable:
        """Both, as if the rows of `other` came after; neither is changed."""
        blocks = None if other.blocks is None else other.blocks.turned(self.table.rows)
        return self.plus(replace(other, blocks=blocks))

    def plus(self, other: StreamTable) -> StreamTable:
        """Both, where the blocks of `other` are in their places already; these are overwritten."""
        if self.blocks is None or other.blocks is None:
            return self._merge_tables(other)
        return replace(self._merge_tables(other), blocks=other.blocks.add(self.blocks))

    def in_block(self, unit: int, blocks: int) -> StreamTable:
        """Rows of one block, as one of so many blocks."""
        assert self.blocks is not None
        made = Blocks.empty(blocks, *self.blocks.residual.shape[1:])
        made.residual[unit % blocks], made.sums[:, unit % blocks] = self.blocks.residual[0], self.blocks.sums[:, 0]
        return replace(self, blocks=made)

    def with_rows(self, table: BinTable) -> StreamTable:
        """With the table of more rows, whose blocks have been counted already."""
        return replace(self._merge_tables(StreamTable.of(table)), blocks=self.blocks)

    def _merge_tables(self, other: StreamTable) -> StreamTable:
        table = self.table.merge(other.table)
        parts, more, both = (_sums(t, weighted=table.weight_sq is not None) for t in (self.table, other.table, table))
        lost = {}
        for name, total in both.items():
            taken = _two_sum_error(parts[name], more[name], total)
            lost[name] = self.lost.get(name, 0.0) + other.lost.get(name, 0.0) + taken
        left_out = [each for each in (self.left_out, other.left_out) if each is not None]
        return StreamTable(table, lost, None, reduce(Sides.plus, left_out) if left_out else None)

    @property
    def nbytes(self) -> int:
        """About the memory it takes: blocks take the most."""
        return self.table.count.nbytes * (1 + (0 if self.blocks is None else len(self.blocks.residual)))

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


def check_cells(sample: Sample, rule: BinningRule) -> None:
    """Refuse cells that are not of these predictions or do not cover them, and weights whose squares are no numbers."""
    rule.refuse_misfit(sample.seen)
    refuse_exponent(sample.weight_exponent)
    rule.joint_index(sample.reports[:0])  # edges of other numbers of classes are refused
    if rule.has_counts or sample.joint:
        return
    edges = edges_of(rule, sample.bounds, working_dtype(sample.reports))
    low, high = covered(edges)
    if (sample.reports.min(axis=0) < low).any() or (sample.reports.max(axis=0) > high).any():
        for j in range(sample.views):
            rule.of_view(j).refuse_outside(sample.seen, sample.view(j))  # type: ignore[attr-defined]  # edges


def tally(
    sample: Sample,
    rule: BinningRule,
    blocks: int,
    start: int,
    *,
    before: StreamTable | None = None,
    compiled: Any = None,
    threads: int | None = None,
) -> StreamTable:
    """The table of some rows over cells that cover them, the first of which is row number `start` of its stream; with
    those `before`, whose blocks are overwritten. `compiled` is the module of compiled loops, where they are wanted,
    and `threads` the most that these take, by default all."""
    edges = edges_of(rule, sample.bounds, working_dtype(sample.reports))
    cells = edges.shape[-1] - 1 if rule.fixed else edges.size - len(edges)
    kept = before.blocks if before is not None else None
    kept = Blocks.empty(blocks or 1, sample.views, cells) if kept is None else kept
    plain = compiled is None or sample.marks is None or sample.weights is not None or not rule.fixed
    fast = partial(_add_compiled, compiled, threads or dispatch.THREADS)
    whole = (_add_plainly if plain or edges.dtype.itemsize > 8 else fast)(sample, rule, edges, kept, start)
    _add_block_sums(sample, kept, start)
    about: dict[str, Any] = {"joint": sample.joint, "bounds": sample.bounds, "edges": edges, "shares": sample.shares}
    if sample.weights is not None:
        about["weight_sq"] = whole[4]
    count, outcome, total, own = whole[:4]
    kind, totals = sample.kind, sample.totals
    table = in_unit(BinTable(kind, rule, count, outcome, total, np.zeros_like(count), own, totals, **about), sample)
    return StreamTable.of(table, kept if blocks else None) if before is None else before.with_rows(table)


def _add_compiled(
    module: Any, threads: int, sample: Sample, rule: BinningRule, edges: Array, kept: Blocks, start: int
) -> Array:
    """Add the rows to their blocks; the sums of their cells, (4, views, cells)."""
    reports = sample.reports.reshape(-1, sample.views)
    columns = reports.T
    if columns.dtype != edges.dtype or not columns.flags.c_contiguous:
        columns = kernels.transposed_tile(reports, slice(0, sample.views), edges.dtype)
    first = 0 if sample.reports.ndim == 2 else 1  # bools are labels 0 and 1

    tables = _once(rule, edges.dtype, lambda: module.interval_tables(np.atleast_2d(edges)))

    def add(views: slice) -> tuple[Array, Array]:
        loss = np.zeros(len(kept.residual))
        whole = module.add_blocks(columns, sample.marks, first, tables, start, views, kept.residual, loss)
        return whole, loss

    threads = min(threads, sample.views) if columns.size >= _SHARED else 1
    shares = dispatch.row_shares(sample.views, threads)
    if threads == 1:
        found = [add(share) for share in shares]
    else:
        with ThreadPoolExecutor(threads) as pool:
            found = list(pool.map(add, shares))
    kept.sums[BLOCK_SUMS.index("loss")] += sum(loss for _, loss in found)
    return np.concatenate([whole for whole, _ in found], axis=1)


def _add_plainly(sample: Sample, rule: BinningRule, edges: Array, kept: Blocks, start: int) -> Array:
    """The same with numpy, for weights, soft labels and vectors too: (5, views, cells), the last Σ w²."""
    blocks, _, cells = kept.residual.shape
    whole = np.zeros((5, sample.views, cells))
    for rows in (slice(a, min(a + _ROWS, sample.rows)) for a in range(0, sample.rows, _ROWS)):
        part = sample if rows == slice(0, sample.rows) else sample.take(rows)
        block = _blocks_of(rows, start, blocks)
        joint = rule.joint_index(part.reports)
        for j in range(sample.views):
            cell = _cell(part, rule, edges, j) if joint is None else joint
            x = part.residuals(slice(j, j + 1))[0]
            by_block = np.bincount(block * cells + cell, x, blocks * cells).reshape(blocks, cells)
            kept.residual[:, j] += np.ldexp(by_block, sample.weight_exponent) if sample.weight_exponent else by_block
            whole[SUMS.index("residual"), j] += by_block.sum(axis=0)
            _add_view(whole[:, j], part, j, cell, x)
            if part.weights is None:
                share = 1.0 if part.shares is None else part.shares[j]
                kept.sums[BLOCK_SUMS.index("loss")] += share * np.bincount(block, x * x, blocks)
    return whole


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


def _blocks_of(rows: slice, start: int, blocks: int) -> Array:
    """The block of each row, one after the other and over again."""
    return np.resize((start + rows.start + np.arange(blocks)) % blocks, rows.stop - rows.start)


def by_block(values: Array, blocks: int) -> Array:
    """Σ over every `blocks`-th row, from each of the first on."""
    whole = len(values) - len(values) % blocks
    sums = values[:whole].reshape(-1, blocks).sum(axis=0, dtype=np.float64)
    sums[: len(values) - whole] += values[whole:]
    return np.asarray(sums)


def _add_block_sums(sample: Sample, kept: Blocks, start: int) -> None:
    """Add Σ w, Σ w(1 − z) and with weights Σ w|r|² of each block, in the unit of the weights as given."""
    w, blocks = sample.weights, len(kept.residual)
    sums = np.zeros_like(kept.sums)
    sums[0] = by_block(sample.row_weights, blocks)
    if sample.wrong is not None:
        sums[1] = by_block(sample.wrong if w is None else w * sample.wrong, blocks)
    if w is not None:
        sums[2] = by_block(w * sample.residual_sq, blocks)
    kept.sums[:] += np.roll(np.ldexp(sums, sample.weight_exponent), start % blocks, axis=1)


def edges_of(rule: BinningRule, bounds: Bounds | None, dtype: np.dtype[Any]) -> Array:
    """The edges in the dtype of the reports: one row, or one for each view or argmax class."""
    return _once(rule, (bounds, dtype), lambda: (rule.table_edges(bounds, dtype) or ())[0])


def _cell(sample: Sample, rule: BinningRule, edges: Array, view: int) -> Array:
    values = sample.view(view).astype(edges.dtype)
    views = len(edges) if edges.ndim == 2 else 1
    own = edges[view] if edges.ndim == 2 else edges
    if len(values) < _LOOKED_UP:
        return interval_index(values, own)
    return _once(rule, (view % views, edges.dtype), lambda: core_edges.IntervalLookup(own, views))(values)


def _once(rule: BinningRule, key: Any, make: Callable[[], Made]) -> Made:
    """What is made of the edges of a rule, made once and kept as long as something is counted by the rule."""
    made = _MADE.setdefault(rule, {})
    if key not in made:
        made[key] = make()
    return made[key]  # type: ignore[no-any-return]  # a key stands for one type
