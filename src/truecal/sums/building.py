"""One sample and one rule: every way to their tables, which differ in speed and memory and in nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..core import dispatch
from ..core.arrays import compiled_loops
from ..core.averages import FORM_BLOCK
from ..core.cells import BinCells, KernelCells, Piece
from ..core.dispatch import Dispatch
from ..core.edges import interval_index
from ..core.rules import BinningRule
from ..core.sample import Sample
from ..core.table import BinTable, PointBlock, PointSums
from ..core.types import Array
from . import plain as kernels

Tables = tuple[BinTable, ...]
_FEW_CELLS, _TILE_REPORTS = 1 << 20, 1 << 20


@dataclass(frozen=True)
class Cuts:
    """Cuts of sorted reports at one or several bin counts."""

    all: Array
    bins: tuple[tuple[Array | None, Array, Array, Array, Array], ...]
    """Per count: where its bins start among the segments between all cuts (None: they are the segments), the cuts at
    both ends of each bin, −1 for the ends of the sample, and its first and last place."""

    @staticmethod
    def of(every: tuple[Array, ...], rows: int) -> Cuts:
        union = every[0] if len(every) == 1 else np.unique(np.concatenate(every))
        bins = []
        for cuts in every:
            index = np.searchsorted(union, cuts)
            starts = None if len(cuts) == len(union) else np.concatenate([[0], index + 1])
            left, right = np.concatenate([[-1], index]), np.append(index, -1)
            bins.append((starts, left, right, np.concatenate([[0], cuts]), np.append(cuts, rows)))
        return Cuts(union, tuple(bins))


@dataclass(frozen=True)
class Builder:
    """One sample, one rule: everything the ways to its tables share."""

    sample: Sample
    rule: BinningRule
    ties: str
    squares: bool
    dispatch: Dispatch

    @cached_property
    def rules(self) -> tuple[BinningRule, ...]:
        return self.rule.singles(self.ties)

    def table(self, c: int, sums: Sequence[Array] | Array, variance: Array, **more: Any) -> BinTable:
        """A table of the (count, outcome, residual, residual²) sums of some views, at bin count number c."""
        count, outcome, residual, *rest = sums
        about = {"joint": self.sample.joint, "bounds": self.sample.bounds} | more
        own = rest[0] if rest else None
        kind, rule = self.sample.kind, self.rules[c]
        return BinTable(kind, rule, count, outcome, residual, variance, own, self.sample.totals, **about)

    # -- 0/1 outcomes without weights: values are enough, their order is not needed -----------------------------------

    @cached_property
    def few_edges(self) -> bool:
        """Whether the edges of fixed intervals can be listed."""
        return max(self.rule.counts or (1,)) <= self.dispatch.unsorted_cells

    @cached_property
    def unsorted(self) -> bool:
        """Whether fixed intervals are counted row by row, without a sort."""
        if self.needs_cells or not self.rule.fixed or not self.few_edges:
            return False
        if self.rule.per_view:
            return False
        if self.sample.reports.ndim == 1:
            return self.sample.rows < self.dispatch.sorted_rows
        edges, views, most = sum(map(len, self.edges)), self.sample.views, self.dispatch.unsorted_cells
        if self.compiled:
            return edges * views <= 8 * most
        return edges <= max(self.dispatch.unsorted_bins, views) and edges * views <= most

    @cached_property
    def compiled(self) -> bool:
        """Whether compiled loops are there and the sample is large enough to load them."""
        return self.sample.reports.size >= self.dispatch.compiled_reports and compiled_loops() is not None

    @cached_property
    def needs_cells(self) -> bool:
        """Whether tables need the order of the rows; else values will do."""
        return not self.sample.plain or self.ties == "row"

    @cached_property
    def edges(self) -> tuple[Array, ...]:
        """For each bin count, all edges of fixed intervals."""
        return self.rule.table_edges(self.sample.bounds, self.sample.dtype) or ()

    @cached_property
    def shared_cuts(self) -> Cuts | None:
        """The cuts of sorted reports that all views share."""
        every = self.rule.shared_cuts(self.sample.rows)
        return None if every is None else Cuts.of(every, self.sample.rows)

    def _union(self) -> Array:
        self.rule.refuse_outside(self.sample.seen, self.sample.reports)
        every = self.edges
        return every[0] if len(every) == 1 else np.unique(np.concatenate(every))

    def unsorted_tables(self) -> Tables:
        """All views over fixed intervals: row blocks, in parallel, over the union of all edges."""
        sample, union = self.sample, self._union()
        reports, marks = sample.reports, sample.marks
        assert marks is not None
        if reports.ndim == 1:
            parts = [kernels.view_cells(reports.astype(union.dtype, copy=False), marks, union, self.squares)]
        elif reports.size < self.dispatch.parallel_views:
            parts = [kernels.fixed_cells(reports, marks, union, self.squares)]
        else:
            shares = dispatch.row_shares(sample.rows, self.dispatch.threads)
            fixed_cells = compiled_loops().fixed_cells if self.compiled else kernels.fixed_cells
            with ThreadPoolExecutor(len(shares)) as pool:
                parts = list(pool.map(lambda s: fixed_cells(reports[s], marks[s], union, self.squares), shares))
        return self._interval_tables(union, [np.sum(part, axis=0) for part in zip(*parts, strict=True)])

    def _interval_tables(self, union: Array, whole: Sequence[Array]) -> Tables:
        """The tables of each bin count, from sums over the intervals between the union of all edges."""
        tables = []
        for c, edges in enumerate(self.edges):
            sums = whole if len(edges) == len(union) else self._runs(whole, np.searchsorted(union, edges[:-1]))
            tables.append(self.table(c, sums, np.zeros_like(sums[2]), edges=edges))
        return tuple(tables)

    def plain_tables(self, columns: slice) -> Iterator[Tables]:
        """Tables from sorted values."""
        rule, cuts = self.rule, self.shared_cuts
        if cuts is not None and self.compiled:
            yield self._compiled_tables(columns, cuts)
            return
        if cuts is not None and self.few_rows:
            segments = kernels.few_row_segments(
                *self._sorted_outcomes(columns), cuts.all, ties=self.ties, squares=self.squares
            )
            yield self._coarsened(segments, cuts)
            return
        if rule.fixed and (rule.per_view or not self.few_edges):
            yield from self.general_tables(columns)
            return
        if rule.fixed and self.few_rows:
            yield self._few_interval_tables(columns)
            return
        marked = self._marked_reports(columns)
        reports = self._own_reports(columns)
        reports.sort(axis=1)
        if cuts is not None:
            yield self._coarsened(self._segments(reports, marked, [cuts.all] * len(reports), self.ties), cuts)
        elif rule.fixed:  # edges become cuts of the sorted reports, which never split equals
            union = self._union()
            ends = [np.searchsorted(row, union[1:-1], side="right") for row in reports]
            yield self._interval_tables(union, list(self._segments(reports, marked, ends, "together").sums))
        else:
            for row, own in zip(reports, marked, strict=True):
                cuts = Cuts.of(rule.cuts(row), len(row))  # type: ignore[attr-defined]  # a rule of ranks
                yield self._coarsened(self._segments(row[None], [own], [cuts.all], self.ties), cuts)

    def plain_points(self, columns: slice) -> Iterator[PointSums]:
        """The sums of averages over cuts, view by view, from sorted values."""
        rule: Any = self.rule
        if self.few_rows:
            yield self._few_points(*self._sorted_outcomes(columns))
            return
        reports = self._own_reports(columns)
        reports.sort(axis=1)
        squared: Sequence[Any] = [None] * len(reports)
        if self.compiled and rule.compiled:
            every, ends = self._marked_by_view(columns)
            squared = getattr(compiled_loops("_order"), rule.compiled)(reports, every, ends, *self.sample.bounds or ())
            marked = [(own, False) for own in np.split(every, ends[:-1])]
        else:
            marked = self._marked_reports(columns)
        for row, (own, complement), found in zip(reports, marked, squared, strict=True):
            blocks = partial(_point_blocks, row, own, complement, self._places)
            yield PointSums(rule, self.sample.bounds, blocks, squared=found)

    def _few_points(self, reports: Array, came: Array) -> PointSums:
        """The same of many views with few rows each: a point per row."""
        residual, one = reports.astype(np.float64) - came, np.ones(reports.shape)
        block = PointBlock(self._places(reports), residual, one, np.square(residual), one)
        rule: Any = self.rule
        return PointSums(rule, self.sample.bounds, lambda: iter((block,)))

    @cached_property
    def few_rows(self) -> bool:
        """Whether views are looked at together, since each has few rows."""
        return self.sample.reports.ndim == 2 and self.sample.rows <= self.dispatch.few_rows

    def _sorted_outcomes(self, columns: slice) -> tuple[Array, Array]:
        """The sorted reports of some views, and whether the outcome of each is 1."""
        reports = self._own_reports(columns)
        order = np.argsort(reports, axis=1, kind="stable")
        return np.take_along_axis(reports, order, axis=1), self._came(columns, order)

    def _came(self, columns: slice, rows: Any) -> Array:
        """Whether the outcome of each row is 1 in some views."""
        views = np.arange(*columns.indices(self.sample.views))
        return np.asarray(np.asarray(self.sample.marks)[rows] == views[:, None])

    def _places(self, values: Array) -> Array:
        """Where reports sit on the line."""
        rule: Any = self.rule
        return np.asarray(rule.places(values, self.sample.bounds))

    def _own_reports(self, columns: slice) -> Array:
        """The reports of some views, as rows of an array that may be overwritten."""
        reports, dtype = self.sample.reports, self.sample.dtype
        if reports.ndim == 1:
            return np.array(reports, dtype=dtype)[None, :]
        return kernels.transposed_tile(reports, columns, dtype)

    def _marked_reports(self, columns: slice) -> list[tuple[Array, bool]]:
        """Per view, the sorted reports of its marked rows; of the unmarked ones (complement) where those are fewer."""
        sample = self.sample
        assert sample.marks is not None
        if sample.reports.ndim == 1 and 2 * np.count_nonzero(sample.marks) > sample.rows:
            return [(self._sorted_where(~sample.marks), True)]
        own, ends = self._marked_by_view(columns)
        return [(part, False) for part in np.split(own, ends[:-1])]

    def _sorted_where(self, rows: Array) -> Array:
        places = np.flatnonzero(rows)  # without branches: to pick by marks takes seven times as long
        own = self.sample.reports[places].astype(self.sample.dtype, copy=False)
        own.sort()
        return own

    def _marked_by_view(self, columns: slice) -> tuple[Array, Array]:
        """The sorted reports of marked rows, view after view, and where those of each end."""
        sample = self.sample
        assert sample.marks is not None
        if sample.reports.ndim == 1:
            own = self._sorted_where(sample.marks)
            return own, np.array([len(own)])
        first, stop, _ = columns.indices(sample.views)
        own, starts = self._marked_by_label
        return own[starts[first] : starts[stop]], starts[first + 1 : stop + 1] - starts[first]

    @cached_property
    def _marked_by_label(self) -> tuple[Array, Array]:
        """The report that each row has for its own label, sorted by label and report, and where those of each start."""
        reports, labels = self.sample.reports, np.asarray(self.sample.marks)
        own = reports[np.arange(len(labels)), labels].astype(self.sample.dtype, copy=False)
        small = labels.astype(np.min_scalar_type(self.sample.views))  # sorted sooner
        own, ends = own[np.argsort(small, kind="stable")], np.cumsum(np.bincount(labels, minlength=self.sample.views))
        for part in np.split(own, ends[:-1]):
            part.sort()
        return own, np.concatenate([[0], ends])

    def _segments(
        self, ordered: Array, marked: Sequence[tuple[Array, bool]], cuts: Sequence[Array], ties: str
    ) -> kernels.RunSums:
        """The sums between the cuts of each view, from sorted values."""
        views = zip(ordered, marked, cuts, strict=True)
        segments = partial(kernels.indicator_segments, ties=ties, squares=self.squares)
        return kernels.stack_segments([segments(row, own, cut, complement=rest) for row, (own, rest), cut in views])

    def _compiled_tables(self, columns: slice, cuts: Cuts) -> Tables:
        """The same in compiled loops."""
        reports = self._own_reports(columns)
        reports.sort(axis=1)
        segments = compiled_loops("_order").column_segments(
            reports, *self._marked_by_view(columns), cuts.all, ties=self.ties, squares=self.squares
        )
        return self._coarsened(segments, cuts)

    def _coarsened(self, segments: kernels.RunSums, cuts: Cuts) -> Tables:
        """The bins at each count, as runs of the segments between all cuts."""
        tables = []
        for c, (starts, *ends) in enumerate(cuts.bins):
            sums = segments.sums if starts is None else self._runs(segments.sums, starts)
            tables.append(self.table(c, sums, kernels.tie_variance(segments, *ends)))
        return tuple(tables)

    def _runs(self, sums: Sequence[Array] | Array, starts: Array) -> Sequence[Array] | Array:
        """Sums over runs of finer cells; an error needs only those of residuals."""
        if self.squares:
            return kernels.run_sums(np.asarray(sums), starts)
        residual = kernels.run_sums(sums[2], starts)
        return residual[:, :0], residual[:, :0], residual

    # -- weights, real outcomes, row order, vectors: the cells that inference uses -------------------------------------

    def general_tables(self, columns: slice) -> Iterator[Tables]:
        """Tables from the one generator of cells, or of fixed intervals where views have few rows."""
        rule = self.rule
        if rule.fixed and not rule.per_view and not self.sample.joint and self.few_edges and self.few_rows:
            return iter((self._few_interval_tables(columns),))
        return self.piece_tables(rule.pieces(self.sample.seen, self.ties, columns))

    def _few_interval_tables(self, columns: slice) -> Tables:
        """Tables of many views with few rows each over fixed intervals."""
        sample, rule = self.sample, self.rule
        rule.refuse_outside(sample.seen, sample.reports)
        reports, weighted, tables = self._own_reports(columns), sample.weights is not None, []
        parts = list(self._row_sums(columns, slice(None)).reshape(5, *reports.shape))[: 5 if weighted else 4]
        shares = None if sample.shares is None else sample.shares[columns]
        for c, edges in enumerate(self.edges):
            cell = interval_index(reports, edges)
            sums = kernels.sums_by_view(cell, parts, len(reports), len(edges) - 1)
            more = {"weight_sq": sums[4] if weighted else None, "edges": edges, "shares": shares}
            tables.append(self.table(c, sums[:4], np.zeros_like(sums[2]), **more))
        return tuple(tables)

    def piece_tables(self, pieces: Iterable[Piece]) -> Iterator[Tables]:
        """The tables of pieces, a few views at a time: those of several small pieces where all have the same bins."""
        same: list[tuple[BinCells, slice]] = []
        for piece in pieces:
            assert isinstance(piece.cells, BinCells)
            few = (1 + len(same)) * max(self.sample.rows, sum([bins.total for bins in piece.cells.bins])) <= _FEW_CELLS
            if same and not (few and piece.cells.bins is same[0][0].bins):
                yield self._bin_tables(same)
                same = []
            *tiles, last = piece.tiles(self.sample.rows, _TILE_REPORTS)
            for tile in tiles:
                yield self._bin_tables([(piece.cells, tile)])
            same.append((piece.cells, last))
        if same:
            yield self._bin_tables(same)

    def _row_sums(self, columns: slice, rows: slice) -> Array:
        """weight, weight·outcome, weight·residual, (weight·residual)² and weight² of each view, for some rows."""
        outcome, w = self.sample.outcome(columns, rows), self.sample.row_weights[rows]
        residual = self.sample.residuals(columns, rows, outcome)
        parts = (w, w * outcome, residual, np.square(residual), np.square(w))
        return np.concatenate([np.broadcast_to(part, residual.shape) for part in parts])

    def _bin_tables(self, pieces: Sequence[tuple[BinCells, slice]]) -> Tables:
        """The tables of consecutive views over the same bins, which hold other rows in each piece."""
        cells, weighted = pieces[0][0], self.sample.weights is not None
        columns = slice(pieces[0][1].start, pieces[-1][1].stop)
        views, rows = columns.stop - columns.start, self.sample.rows
        if len(pieces) == 1:
            atoms = cells.sums_of(partial(self._row_sums, columns), 5 * views).reshape(-1, 5, views)
        else:  # of a view each
            parts = list(self._row_sums(columns, slice(None)).reshape(5, views, rows))
            place = np.stack([each.atom for each, _ in pieces])
            atoms = np.moveaxis(kernels.sums_by_view(place, parts, views, len(cells.sizes)), -1, 0)
        weight, _, residual, own, weight_sq = np.moveaxis(atoms, 1, 0)
        flat = atoms.reshape(len(atoms), -1)
        shares = None if self.sample.shares is None else self.sample.shares[columns]
        edges, tables = () if self.rule.open or not self.few_edges else self.edges, []
        for c, bins in enumerate(cells.bins):
            sums = bins.table(flat).reshape(5, views, -1)
            variance, of_weight = np.zeros_like(sums[0]), None
            if bins.split:
                variance = bins.placed(bins.tie_variance(residual, own, cells.sizes))
            if bins.split and weighted:
                of_weight = bins.placed(bins.tie_variance(weight, weight_sq, cells.sizes))
            more = {"weight_sq": sums[4] if weighted else None, "weight_variance": of_weight, "shares": shares}
            tables.append(self.table(c, sums[:4], variance, edges=edges[c] if edges else None, **more))
        return tuple(tables)


def _point_blocks(
    ordered: Array, marked: Array, complement: bool, places: Callable[[Array], Array]
) -> Iterator[PointBlock]:
    """Sorted reports of 0/1 outcomes, with those of marked rows (unmarked ones: complement): a point per value."""
    start, before = 0, 0
    while start < len(ordered):
        here = ordered[start : start + FORM_BLOCK]
        starts = np.concatenate([[0], np.flatnonzero(here[1:] != here[:-1]) + 1])
        values = here[starts]
        stop = int(np.searchsorted(ordered, values[-1], side="right"))  # equal reports are never in two blocks
        count = np.diff(np.append(starts, stop - start)).astype(np.float64)
        ends = np.searchsorted(marked, values, side="right")
        marks = np.diff(ends, prepend=before).astype(np.float64)
        outcome = count - marks if complement else marks
        points = values.astype(np.float64, copy=False)
        grid, rest = kernels.grid_part(points)
        residual = (count * grid / kernels.GRID - outcome) + count * rest
        own = outcome * np.square(points - 1) + (count - outcome) * np.square(points)
        yield PointBlock(places(values), residual[None], count[None], own[None], count[None])
        start, before = stop, int(ends[-1])


def kernel_points(sample: Sample, piece: Piece) -> Iterator[PointSums]:
    """Weights, real outcomes and directions: the sums of the cells that inference uses, a point per row."""
    cells = piece.cells
    assert isinstance(cells, KernelCells)
    for tile in piece.tiles(sample.rows, 1 << 20):
        residual = sample.residuals(tile)
        largest = 1.0 if sample.weights is None else float(sample.weights.max())
        share = 1.0 if sample.shares is None else float(sample.shares[tile.start])  # then a piece is one view
        blocks = partial(_row_blocks, cells, residual, sample.weights)
        yield PointSums(cells.rule, cells.bounds, blocks, largest, share)


def _row_blocks(cells: KernelCells, residual: Array, weights: Array | None) -> Iterator[PointBlock]:
    for start in range(0, len(cells.order), FORM_BLOCK):
        rows = cells.order[start : start + FORM_BLOCK]
        r, w = residual[:, rows], np.ones(len(rows)) if weights is None else weights[rows]
        yield PointBlock(cells.points[start : start + FORM_BLOCK], r, w[None], r * r, (w * w)[None])
