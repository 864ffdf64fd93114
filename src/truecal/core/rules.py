"""Binning rules: functions of the reports alone, each giving cells and a positive semidefinite form on their sums.

A rule never receives an outcome, so no rule can depend on one; that is the whole condition for truthfulness.
Four families, by what they need to look at:

- `FixedRule`: the cells are intervals given in advance (`EqualWidth`, `Edges`);
- `RankRule`: the cells are runs of the sorted reports (`Quantile`, `Exact`);
- `AveragedRule` (averages.py): the closed form of an average over random partitions;
- `VectorRule` (vectors.py): cells for vector reports.

A rule answers for itself: its cells, its bin count, how a stream counts it. No other code asks which rule it is.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal, final

import numpy as np

from .arrays import HOST, LIBRARY, sorted_values
from .cells import Cells, Partition, Piece, Runs, atoms_of, equal_run, partition_cells, rank_atoms, sorted_cells
from .data import check_positive_int, shown, working_dtype
from .edges import MOST_EDGES, covered, crowded_runs, equal_edges, needed, nested, read_edges
from .parameters import described
from .sample import Bounds, Reports
from .types import Array

Ties = Literal["auto", "average", "together", "row"]
BinCounts = int | Sequence[int] | Literal["auto"] | Array
"""What n_bins may be: a count, several, or "auto", chosen from the numbers of rows and classes alone."""

DEFAULT_BINS = 15  # of equal width, as everybody's ECE has them; squared errors choose theirs by the rows
MOST_BINS = 10**8
TIES = ("auto", "average", "together", "row")


def read_bins(n_bins: BinCounts) -> int | tuple[int, ...] | Literal["auto"]:
    """One bin count, or a tuple of them, each a whole number of at least 1; or "auto"."""
    if isinstance(n_bins, np.ndarray) and n_bins.ndim == 0:
        n_bins = n_bins.item()
    if isinstance(n_bins, str) and n_bins == "auto":
        return "auto"
    if isinstance(n_bins, (str, bytes)) or not isinstance(n_bins, (Sequence, np.ndarray)):
        return check_positive_int(n_bins, "n_bins", MOST_BINS)
    counts = tuple(n_bins)
    for m in counts:
        if type(m) is not int or not 0 < m <= MOST_BINS:
            counts = tuple([check_positive_int(m, "n_bins", MOST_BINS) for m in n_bins])
            break
    if not counts:
        raise ValueError("n_bins must hold at least one count, got an empty sequence")
    return counts


def bins_text(n_bins: int | tuple[int, ...] | None) -> str:
    """ "15 bins", "5, 20 and 2000 bins", or nothing for a rule without bins."""
    if n_bins is None:
        return "no bin count"
    *rest, last = n_bins if isinstance(n_bins, tuple) else (n_bins,)
    if rest:
        return ", ".join(map(str, rest)) + f" and {last} bins"
    return "1 bin" if last == 1 else f"{last} bins"


def auto_bins(rows: int, views: int = 1) -> int:
    """m = (n·v)^(2/5), between 2 and n/5, for v averaged views: near the least error of the gap over many worlds.

    Reports and outcomes play no part, so an error at this count stays truthful.

    >>> from truecal.rules import auto_bins
    >>> auto_bins(5000), auto_bins(5000, 100)
    (30, 190)
    """
    return int(max(2, min(round((rows * views) ** 0.4), rows // 5)))


class BinningRule:
    """What every rule offers."""

    n_bins: Any = None
    """What was asked for: a count, a tuple of them, or "auto"; None for a rule without any."""
    fixed = False
    """Whether the cells are intervals given in advance."""
    open = False
    """Whether the cells are quantiles of the reports: a stream has to look at predictions before it can count."""
    averages = False
    """Whether the rule is an average over partitions: a quadratic form, without a table of bins."""
    of_vectors = False
    """Whether it cuts vector reports. Other rules cut the line; `Exact` does both."""
    of_scalars = True
    per_view = False
    """Whether each view has its own edges."""
    on_device = True
    """Whether GPU tensors are measured where they are."""
    n_cells: Any = None
    """The number of bins of given edges."""
    reference = "Lu, Wu, Hartline, Hu 2025, arXiv 2510.06388"
    """Where errors over its cells were described first."""
    most_cells = 1
    """How many cells the requested counts ask for, whatever the number of rows."""

    @cached_property
    def counts(self) -> tuple[int, ...] | None:
        """The requested bin counts, or None for a rule without any."""
        if self.n_bins == "auto":
            raise ValueError("n_bins='auto' has no count before it meets a sample; see `at`")
        return self.n_bins if self.n_bins is None or isinstance(self.n_bins, tuple) else (int(self.n_bins),)

    @property
    def has_counts(self) -> bool:
        """Whether the rule takes a number of bins."""
        return self.n_bins is not None

    @property
    def several(self) -> bool:
        """Whether a sequence of counts was asked for, so that answers are arrays."""
        return isinstance(self.n_bins, tuple)

    def at(self, rows: int, views: int) -> BinningRule:
        """The rule with its number of bins: "auto" becomes the count for so many rows and views."""
        return self.with_bins(self.auto(rows, views)) if self.n_bins == "auto" else self

    def auto(self, rows: int, views: int) -> int:
        """The automatic count of bins."""
        return auto_bins(rows, views)

    def with_bins(self, n_bins: BinCounts) -> BinningRule:
        """The same rule at another bin count, or at several."""
        if self.n_bins is None:
            raise ValueError(f"n_bins={shown(n_bins)} cannot be used: {self!r} has no bin count")
        return replace(self, n_bins=n_bins)  # type: ignore[type-var]  # a rule with counts is a dataclass

    @property
    def text(self) -> str:
        """The cells in words."""
        return f"{'automatic' if self.n_bins == 'auto' else self.n_bins} bins of equal numbers of rows"

    def each(self) -> tuple[BinningRule, ...]:
        """The rule at each of its bin counts alone."""
        return (self,) if self.counts is None else tuple(self.with_bins(m) for m in self.counts)

    @cached_property
    def _singles(self) -> dict[str, tuple[BinningRule, ...]]:
        return {}

    def singles(self, ties: str) -> tuple[BinningRule, ...]:
        """The rule of each table: at one bin count, with a treatment of ties."""
        if ties not in self._singles:
            tied = {"ties": ties} if hasattr(self, "ties") else {}
            each = [replace(one, **tied) if tied else one for one in self.each()]  # type: ignore[type-var]  # a dataclass
            self._singles[ties] = tuple(each)
        return self._singles[ties]

    # -- cells -------------------------------------------------------------------------------------------------------

    def refuse_misfit(self, seen: Reports) -> None:
        """Vector reports need cells for vectors, scalar reports need cells on the line."""
        if seen.joint and not self.of_vectors:
            raise ValueError(f"{self!r} bins scalars; vector reports need ArgmaxQuantile, KdTree or Exact")
        if not seen.joint and not self.of_scalars:
            raise ValueError(
                f"{self!r} bins vectors; scalar reports need Quantile, EqualWidth, Edges, TwoBin, Poisson or Exact"
            )

    def pieces(self, seen: Reports, ties: str, columns: slice | None = None) -> Iterator[Piece]:
        """The error's form as a weighted sum: one piece per view, or one for all views of a vector."""
        self.refuse_misfit(seen)
        columns = slice(0, seen.views) if columns is None else columns
        if seen.joint:
            yield Piece(partition_cells(self.partition(seen.values), ties), columns, 1.0)
        else:
            for j in range(*columns.indices(seen.views)):
                yield Piece(self.view_cells(seen, ties, j), slice(j, j + 1), seen.weight(j))

    def view_cells(self, seen: Reports, ties: str, j: int) -> Cells:
        """The cells of one view."""
        raise NotImplementedError  # rules of vectors: `refuse_misfit` lets no scalar report get here

    def partition(self, reports: Array) -> Partition:
        """The rows of vector reports in an order in which every cell is a run."""
        raise NotImplementedError  # rules of the line: `refuse_misfit` lets no vector report get here

    def shared_cuts(self, n: int) -> tuple[Array, ...] | None:
        """The cuts of n sorted reports, when they depend on their number only; else None."""
        return None

    def table_edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> tuple[Array, ...] | None:
        """For each requested count, the edges that a table knows; None where the cells come from the reports."""
        return None

    def refuse_outside(self, seen: Reports, reports: Array) -> None:
        """Given edges must cover every report."""

    # -- streams -----------------------------------------------------------------------------------------------------

    def streamed(self) -> BinningRule | None:
        """The rule by which a stream counts batches; None where the cells need all predictions at once."""
        return None

    @property
    def counted(self) -> BinningRule:
        """The cells that rows are counted in: those of the rule, or the grid under an average over cuts."""
        return self

    def midpoints(self, bounds: Bounds | None) -> Array | None:
        """Where the counted cells of an average over cuts are; None for bins."""
        return None

    def frozen(self, edges: Array) -> BinningRule:
        """The rule with edges for good, where it was open."""
        return self

    def joint_index(self, reports: Array) -> Array | None:
        """The cell of each row, where all views of a vector share it."""
        return None

    def ranked(self, reports: Array, top: Array) -> list[Array]:
        """What an open rule sorts: the reports of each view."""
        return [reports] if reports.ndim == 1 else list(reports.T)

    def width(self, classes: int) -> int:
        """Into how many times its number of bins it cuts each view of so many classes."""
        return 1


@dataclass(frozen=True)
class CountedRule(BinningRule):
    """A rule with a number of bins."""

    n_bins: int | Sequence[int] | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_bins", read_bins(self.n_bins))
        check_ties(getattr(self, "ties", "auto"))


class FixedRule(BinningRule):
    """Intervals (e_{j−1}, e_j] given in advance; the first also holds its left end."""

    fixed = True

    @abstractmethod
    def edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        """For each requested count, all edges in the dtype of the reports."""

    def of_view(self, view: int) -> FixedRule:
        """The rule of one of several views: the same for all, unless each has its own edges."""
        return self

    def cut(self, ordered: Array, bounds: Bounds | None) -> tuple[Runs, ...]:
        """For each requested count, the runs of sorted reports that share an interval."""
        every = self.edges(bounds, ordered.dtype)
        return tuple([Runs.between(np.searchsorted(ordered, e[1:-1], side="right"), len(ordered)) for e in every])

    def view_cells(self, seen: Reports, ties: str, j: int) -> Cells:
        reports = seen.view(j).astype(working_dtype(seen.values), copy=False)
        ordered, rule = np.sort(reports), self.of_view(j)
        rule.refuse_outside(seen, reports)
        starts, bins = atoms_of(len(ordered), rule.cut(ordered, seen.bounds), None)
        return sorted_cells(reports, starts, ordered, bins)

    def table_edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> tuple[Array, ...] | None:
        return self.edges(bounds, dtype)

    def streamed(self) -> BinningRule | None:
        return self


class RankRule(BinningRule):
    """Runs of the sorted reports."""

    @abstractmethod
    def cuts(self, ordered: Array) -> tuple[Array, ...]:
        """For each requested count, the positions between which the sorted reports form one cell."""

    def view_cells(self, seen: Reports, ties: str, j: int) -> Cells:
        reports = seen.view(j)
        if isinstance(reports, HOST):
            reports = reports.astype(working_dtype(seen.values), copy=False)
        if ties == "row":
            order = np.argsort(reports, kind="stable")
            return partition_cells(Partition(order, self.cuts(reports[order])), ties)
        ordered = sorted_values(reports)
        starts, bins = rank_atoms(len(ordered), self.cuts(ordered), lambda places: equal_run(ordered, places), ties)
        return sorted_cells(reports, starts, ordered, bins)


class VectorRule(BinningRule):
    """Cells for reports that are vectors."""

    of_vectors = True
    of_scalars = False


def quantile_cuts(n: int, m: int) -> Array:
    """Ends of the first m−1 of m quantile bins: the sample at 1-based place i is in bin ceil(i·m/n).

    With as many bins as rows or more, every row has its own bin, and the empty bins between them are left out.
    """
    if m >= n:
        return np.arange(1, n, dtype=np.int64)
    return (np.arange(1, m, dtype=np.int64) * n) // m


@lru_cache(maxsize=16)
def _quantile_cuts(n: int, counts: tuple[int, ...]) -> tuple[Array, ...]:
    """Quantile cuts for several bin counts, cached because every view needs them."""
    every = tuple([quantile_cuts(n, m) for m in counts])
    for cuts in every:
        cuts.flags.writeable = False
    return every


def resolve_ties(rule: BinningRule, norm: str) -> str:
    """The tie treatment of a rule under a norm: "auto" is "average" for l2 and "together" for l1."""
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm must be 'l1' or 'l2', got {shown(norm)}")
    ties = getattr(rule, "ties", "auto")
    if norm == "l1" and ties == "average":
        raise ValueError(
            "ties='average' cannot be used with norm='l1', which has no closed form; use 'together' or 'row'"
        )
    if ties != "auto":
        return str(ties)
    return "average" if norm == "l2" else "together"


def check_ties(ties: Any) -> Ties:
    """One of the four ways to treat equal reports at a quantile boundary."""
    if ties not in TIES:
        raise ValueError(f"ties must be one of {', '.join(map(repr, TIES))}, got {shown(ties)}")
    return ties  # type: ignore[no-any-return]  # a member of TIES, which mypy cannot see


@described()
@final
@dataclass(frozen=True)
class Quantile(CountedRule, RankRule):
    """m bins of equal numbers of rows: sorted place i (from 1) goes to bin ceil(i·m/n).

    ties: "average" (exact expectation over all orders of equal reports; the l2 default), "together" (equal reports go
    to the bin of the first of them; the l1 default), "row" (the order of rows, the paper to the letter).
    """

    ties: Ties = "auto"
    open = True

    def cuts(self, ordered: Array) -> tuple[Array, ...]:
        return self.shared_cuts(len(ordered))

    def streamed(self) -> BinningRule:
        return self

    def frozen(self, edges: Array) -> BinningRule:
        return Edges(edges)

    def shared_cuts(self, n: int) -> tuple[Array, ...]:
        return _quantile_cuts(n, self.counts or ())


@described()
@final
@dataclass(frozen=True)
class EqualWidth(CountedRule, FixedRule):
    """m bins ((j−1)/m, j/m] of equal width, 0 in the first; over (a, b) when reports live there."""

    n_bins: int | Sequence[int] | Literal["auto"] = DEFAULT_BINS

    @property
    def text(self) -> str:
        return f"{'automatic' if self.n_bins == 'auto' else self.n_bins} bins of equal width"

    @property
    def most_cells(self) -> int:  # type: ignore[override]  # known only with its counts
        return max(self.counts or (1,))

    def edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        within = needed(bounds)
        return tuple([equal_edges(np.arange(m + 1), m, within, dtype) for m in self.counts or ()])

    def cut(self, ordered: Array, bounds: Bounds | None) -> tuple[Runs, ...]:
        if max(self.counts or (1,)) <= MOST_EDGES:
            return super().cut(ordered, bounds)
        return tuple(crowded_runs(ordered, m, needed(bounds)) for m in self.counts or ())


@described()
@final
@dataclass(frozen=True)
class Edges(FixedRule):
    """Bins (e_{j−1}, e_j] between given edges, which must cover every report.

    One row of increasing edges serves every view. Several rows, (views, m + 1), give each view its own, such as frozen
    quantiles of each class; there neighbours may be equal: that bin stays empty, and m stays what was asked for.
    """

    values: tuple[Any, ...]

    def __init__(self, values: Any) -> None:
        array = read_edges(values, 2)
        if array.ndim == 1 and not (np.diff(array) > 0).all():
            raise ValueError(f"edges must be at least two finite increasing numbers, got {shown(values)}")
        object.__setattr__(self, "values", nested(array))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Thousands of edges of each view are looked through once, not whenever their sums are looked up."""
        return hash(self.values)

    @property
    def per_view(self) -> bool:  # type: ignore[override]  # known only with its edges
        return isinstance(self.values[0], tuple)

    def refuse_misfit(self, seen: Reports) -> None:
        super().refuse_misfit(seen)
        if self.per_view and len(self.values) != seen.views:
            raise ValueError(f"edges has rows for {len(self.values)} views, but the reports have {seen.views}")

    def refuse_outside(self, seen: Reports, reports: Array) -> None:
        (edges,) = self.edges(seen.bounds, reports.dtype)
        ends = edges.reshape(-1)
        low, high = covered(ends)
        if reports.size and (reports.min() < low or reports.max() > high):
            place = np.argwhere((seen.values < low) | (seen.values > high))[0]
            where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
            value = seen.values[tuple(place)]
            span = f"edges run from {ends[0]:g} to {ends[-1]:g}"
            raise ValueError(f"{span} and do not cover the prediction {value:g} at {where}")

    def of_view(self, view: int) -> FixedRule:
        return Edges([self.values[view]]) if self.per_view else self

    def edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        return (np.asarray(self.values, dtype=dtype),)

    def cut(self, ordered: Array, bounds: Bounds | None) -> tuple[Runs, ...]:
        (edges,) = self.edges(bounds, ordered.dtype)
        inner = edges.reshape(-1, edges.shape[-1])[0, 1:-1]
        return (Runs.between(np.searchsorted(ordered, inner, side="right"), len(ordered)),)

    @property
    def on_device(self) -> bool:  # type: ignore[override]  # known only with its edges
        return not self.per_view

    @property
    def n_cells(self) -> int:
        """The number of bins of a view."""
        return len(self.values[0] if self.per_view else self.values) - 1


@final
@dataclass(frozen=True)
class Exact(RankRule, VectorRule):
    """One bin per distinct report, scalar or vector."""

    of_scalars = True

    def cuts(self, ordered: Array) -> tuple[Array, ...]:
        return (np.flatnonzero(ordered[1:] != ordered[:-1]) + 1,)

    def partition(self, reports: Array) -> Partition:
        along: dict[str, Any] = {"axis" if isinstance(reports, HOST) else "dim": 0}
        cell: Array = LIBRARY[type(reports)].unique(reports, return_inverse=True, **along)[1]
        return Partition.from_cells(cell.reshape(-1))
