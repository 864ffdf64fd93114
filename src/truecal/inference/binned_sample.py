"""BinnedSample: an error and a sample with its cells, computed once for all tests and intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from ..core.cells import Piece
from ..core.dispatch import DISPATCH
from ..core.rules import BinningRule
from ..core.sample import Sample
from ..core.table import BinTable, TableSums, table_sums
from ..core.types import Array, Groups
from ..sums.building import Tables
from ..sums.errors import CalibrationError, ErrorTerms
from ..sums.tabulate import in_unit, stacked_tables, whole_tables
from .checks import check_bins

_LONG = 1 << 15  # rows from which tables are read faster off sorted values than off cells
MOST_KEPT = 1 << 23
"""Cells hold an order of the rows per view; with more reports than this they are recomputed for each use."""
MOST_CELLS = 1 << 18
"""Tables of more cells than this, and than one for 12 reports, are read view by view and not kept."""


@dataclass(frozen=True, eq=False)
class SampleCells:
    """The cells of a sample under a rule, made once where they are small enough to keep."""

    sample: Sample
    rule: BinningRule
    ties: str

    @cached_property
    def _kept(self) -> list[Piece]:
        return list(self.rule.pieces(self.sample.seen, self.ties))

    @cached_property
    def recomputed(self) -> bool:
        return self.sample.views > 1 and self.sample.rows * self.sample.views > MOST_KEPT

    def __iter__(self) -> Iterator[Piece]:
        return self.rule.pieces(self.sample.seen, self.ties) if self.recomputed else iter(self._kept)

    def at(self, counts: tuple[int, ...]) -> Iterator[Piece]:
        """The cells, where they are recomputed with these bin counts alone."""
        if not self.recomputed or not counts or not self.rule.has_counts:
            return iter(self)
        return self.rule.with_bins(counts if self.rule.several else counts[0]).pieces(self.sample.seen, self.ties)

    @property
    def for_tables(self) -> list[Piece] | None:
        """The cells where tables should read them: tables would have to make the same, or they are made already; but
        one long view is read faster, and in less memory, by value."""
        sample = self.sample
        few = self.rule.fixed and sample.views > 1 and sample.rows <= DISPATCH.few_rows  # summed without cells
        if sample.tensors or self.recomputed or few:
            return None
        long = sample.views == 1 and sample.rows >= _LONG
        wanted = self.ties == "row" or not sample.plain or ("_kept" in vars(self) and not long)
        return self._kept if wanted else None

    @cached_property
    def tables(self) -> Tables | None:
        """The tables at every bin count, made once for numbers and diagrams: where cells are made and tables small, or
        on a GPU, where they need a sort of every view."""
        sample, rule, views = self.sample, self.rule, self.sample.views
        cells, there = self.for_tables, sample.tensors
        size = max(MOST_CELLS, sample.rows * views // 12)
        small = sum(rule.counts or (sample.rows,)) * views <= (MOST_KEPT if there else size)
        large = rule.open and views > 1 and sample.rows * views > MOST_KEPT  # a table of each would sort again
        wanted = rule.open if there else cells is not None or large
        if rule.averages or not small or not wanted:
            return None
        return stacked_tables(sample, rule, self.ties, cells)

    @cached_property
    def sums(self) -> list[TableSums] | None:
        """The sums of these tables."""
        return None if self.tables is None else table_sums(self.tables)


def where_inferred(error: CalibrationError, sample: Sample, groups: Groups | None = None) -> Sample:
    """Return the sample on the device of its intervals: a GPU for quantile bins of classes, else the CPU."""
    there = error.binning.open and error.ties != "row" and error.property.of_classes
    plain = groups is None and not sample.joint and sample.shares is None
    return sample if there and plain else sample.on_host()


@dataclass(frozen=True, eq=False)
class BinnedSample:
    """An error with its bin counts, a validated sample, and its cells, which do not depend on outcomes."""

    error: CalibrationError
    sample: Sample
    cells: SampleCells

    @staticmethod
    def of(error: CalibrationError, sample: Sample, cells: SampleCells | None = None) -> BinnedSample:
        """The error with its automatic bin count resolved for the sample; cells of the same rule may be shared."""
        error = error.at(sample)
        check_bins(error.counts, sample.rows, sample.views)
        return BinnedSample(error, sample, cells or SampleCells(sample, error.binning, error.ties))

    def __iter__(self) -> Iterator[Piece]:
        return iter(self.cells)

    @cached_property
    def parts(self) -> tuple[ErrorTerms, ...]:
        """Error, loss, U and gap at each bin count."""
        if self.cells.sums is not None:
            return self.error.parts_of(self.cells.sums, self.sample.totals, self.sample.averaged)
        return self.error.parts(self.sample, cells=self.cells.for_tables)

    @cached_property
    def values(self) -> Array:
        """The raw error at each bin count."""
        return self.error.of(self.sample, cells=self.cells.for_tables)

    @property
    def on_host(self) -> BinnedSample:
        """Return the same on the CPU, for what is not computed on a GPU."""
        return BinnedSample.of(self.error, self.sample.on_host()) if self.sample.tensors else self

    def table(self, place: int) -> BinTable:
        """The table of bins at one of the bin counts."""
        rule, ties, cells = self.error.binning, self.error.ties, self.cells.for_tables
        if self.cells.tables is not None:
            return in_unit(self.cells.tables[place], self.sample)
        if cells is None:
            return whole_tables(self.sample, rule.each()[place], ties)[0]
        return whole_tables(self.sample, rule.each()[place], ties, [piece.at(place) for piece in cells])[0]

    @cached_property
    def counts(self) -> tuple[int | None, ...]:
        """The requested bin counts; (None,) for a rule without any."""
        return self.error.counts
