"""BinTable, the one small table every error and diagram reads, and `tabulate`, which builds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..backends import numpy as cpu
from .data import working_dtype
from .properties import Property, Sample
from .rules import (
    AveragedRule,
    BinningRule,
    Edges,
    FixedRule,
    Halfspaces,
    Partition,
    RankRule,
    TwoBin,
    VectorRule,
)

Array = NDArray[Any]
Reduced = TypeVar("Reduced")

_THREADS = cpu.THREADS
_PARALLEL_ENTRIES = 1 << 20  # below this many reports, starting threads costs more than it saves
_TILE_COLUMNS = 64
_UNSORTED_BINS = 256  # with more bins than this, and than classes, most reports exceed 1/m and must be looked up
_UNSORTED_CELLS = 1 << 18  # with more cells than this, clearing them for each block of rows costs more than sorting
_RADIX_ROWS = 1 << 13  # from here on, grouping by leading bits beats a full sort
_LONG_VIEW = 1 << 15  # from here on, one view is cheaper to bucket than to sort


@dataclass(frozen=True, eq=False)
class BinTable:
    """Per view and cell: Σ w, Σ w·outcome, Σ w·residual, Σ (w·residual)², and the variance left by tie orders.

    Arrays have shape (views, cells). A commutative monoid: `BinTable.empty(edges, views)` and `merge`, which refuses
    different cells. `edges` are the fixed edges of the cells, or None when the cells came from the sample itself;
    `points` are the reports at which the cells of an averaged rule sit.
    """

    count: Array
    outcome: Array
    residual: Array
    tie_variance: Array
    residual_sq: Array | None
    rows: int
    weight: float
    weight_sq: float
    wrong_weight_sq: float = 0.0
    joint: bool = False
    edges: Array | None = None
    points: Array | None = None
    kind: str = ""

    @staticmethod
    def empty(edges: Any, views: int = 1, *, joint: bool = False) -> BinTable:
        """The table of no rows over the cells between `edges`, which merges with that of any sample over them."""
        inner = np.asarray(Edges(edges).values)
        zeros = np.zeros((views, len(inner) - 1))
        return BinTable(zeros, zeros, zeros, zeros, zeros, 0, 0.0, 0.0, joint=joint, edges=inner)

    def merge(self, other: BinTable) -> BinTable:
        """The table of both samples together."""
        self._refuse_different_cells(other)
        if self.rows == 0:
            return other
        squares = None
        if self.residual_sq is not None and other.residual_sq is not None:
            squares = self.residual_sq + other.residual_sq
        return replace(
            self,
            count=self.count + other.count,
            outcome=self.outcome + other.outcome,
            residual=self.residual + other.residual,
            tie_variance=self.tie_variance + other.tie_variance,
            residual_sq=squares,
            rows=self.rows + other.rows,
            weight=self.weight + other.weight,
            weight_sq=self.weight_sq + other.weight_sq,
            wrong_weight_sq=self.wrong_weight_sq + other.wrong_weight_sq,
        )

    def _refuse_different_cells(self, other: BinTable) -> None:
        if not isinstance(other, BinTable):
            raise TypeError(f"a table merges with a table, got {type(other).__name__}")
        if self.edges is None or other.edges is None:
            raise ValueError(
                "cannot merge: the cells of at least one table come from its own reports; "
                "use fixed cells, EqualWidth or Edges"
            )
        if self.joint != other.joint or self.count.shape[0] != other.count.shape[0]:
            raise ValueError(f"cannot merge tables of {self.count.shape[0]} and {other.count.shape[0]} views")
        if self.kind and other.kind and self.kind != other.kind:
            raise ValueError(f"cannot merge a table of {self.kind} reports with one of {other.kind} reports")
        if self.rows and other.rows and self.edges.dtype != other.edges.dtype:
            raise ValueError(f"cannot merge: edges were compared in {self.edges.dtype} and in {other.edges.dtype}")
        dtype = self.edges.dtype if self.rows else other.edges.dtype
        if not np.array_equal(self.edges.astype(dtype), other.edges.astype(dtype)):
            raise ValueError(f"cannot merge tables over different cells: edges {self.edges} and {other.edges}")

    @property
    def report(self) -> Array:
        """Σ w·report per view and cell."""
        return np.asarray(self.outcome + self.residual)

    @property
    def mean_report(self) -> Array:
        """Mean report per view and cell, NaN where the cell is empty."""
        return _ratio(self.report, self.count)

    @property
    def mean_outcome(self) -> Array:
        """Mean outcome per view and cell, NaN where the cell is empty."""
        return _ratio(self.outcome, self.count)

    def absolute(self) -> Array:
        """Per view, Σ over cells of |Σ w·residual|."""
        return np.asarray(np.abs(self.residual).sum(axis=1))

    def squared(self, rule: BinningRule, bounds: tuple[float, float] | None = (0.0, 1.0)) -> Array:
        """Per view, the rule's quadratic form of the cell sums: S'GS, plus what the orders of ties add on average."""
        if isinstance(rule, (AveragedRule, Halfspaces)):
            form = rule if isinstance(rule, AveragedRule) else TwoBin()
            assert self.points is not None
            return form.form(self.points, self.residual, bounds)
        squares = np.einsum("vj,vj->v", self.residual, self.residual)
        return np.asarray(squares + self.tie_variance.sum(axis=1))


def _ratio(numerator: Array, denominator: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(denominator > 0, numerator / denominator, np.nan))


def tabulate(
    property: Property,
    binning: BinningRule,
    y_true: Any,
    y_proba: Any,
    *,
    norm: str = "l2",
    sample_weight: Any = None,
    labels: Any = None,
) -> tuple[BinTable, ...]:
    """The tables of a sample, one per bin count of the rule (views padded with empty cells to a common width).

    `norm` only decides what ties="auto" means for a quantile rule: averages for l2, together for l1.

    >>> import truecal as tc
    >>> tc.tabulate(tc.Binary(), tc.Quantile(2, ties="together"), [0, 1, 0, 1], [.5] * 4)[0].count.tolist()
    [[4.0, 0.0]]
    """
    sample = property.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    return full_tables(sample, binning, resolve_ties(binning, norm))


def full_tables(sample: Sample, rule: BinningRule, ties: str) -> tuple[BinTable, ...]:
    """Whole tables with squares, one per bin count, of a validated sample."""
    if isinstance(rule, (AveragedRule, Halfspaces)):
        raise ValueError(f"{rule!r} averages over all cuts and has no table of bins; use Quantile or EqualWidth")
    parts = map_tables(sample, rule, ties, lambda tables: tables, squares=True)
    return tuple(_stack([part[i] for part in parts]) for i in range(len(parts[0])))


def _stack(parts: Sequence[BinTable]) -> BinTable:
    """The views of several tables, in one."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.count.shape[1] for part in parts)

    def column(name: str) -> Any:
        arrays = [getattr(part, name) for part in parts]
        if any(a is None for a in arrays):
            return None
        return np.concatenate([np.pad(a, ((0, 0), (0, width - a.shape[1]))) for a in arrays])

    names = ("count", "outcome", "residual", "tie_variance", "residual_sq")
    return replace(parts[0], points=None, **{name: column(name) for name in names})


def map_tables(
    sample: Sample,
    rule: BinningRule,
    ties: str,
    reduce: Callable[[tuple[BinTable, ...]], Reduced],
    *,
    squares: bool = False,
) -> list[Reduced]:
    """Build the tables of a sample a few views at a time and reduce each piece at once, so that memory stays small.

    Each piece is a tuple of tables, one per bin count; the pieces come in the order of the views.
    """
    refuse_misfit(sample, rule)
    plain = sample.marks is not None and sample.weights is None and not sample.joint and not squares
    if plain and isinstance(rule, FixedRule):
        edges = _union_of_edges(sample, rule)
        few = len(edges) <= max(_UNSORTED_BINS, sample.views) and len(edges) * sample.views <= _UNSORTED_CELLS
        if sample.reports.ndim == 1 or few:
            return [reduce(_fixed_tables(sample, rule, edges))]
    make = _plain_tables if plain and ties != "row" else _general_tables
    if isinstance(rule, Halfspaces):
        return [reduce(tables) for tables in _halfspace_tables(sample, rule)]
    shared = rule.partition(sample.reports) if sample.joint and isinstance(rule, VectorRule) else None

    def work(columns: slice) -> list[Reduced]:
        return [reduce(tables) for tables in make(sample, rule, ties, columns, shared)]

    tiles = list(_tiles(sample))
    if len(tiles) == 1 or sample.reports.size < _PARALLEL_ENTRIES or _THREADS == 1:
        return [item for tile in tiles for item in work(tile)]
    with ThreadPoolExecutor(_THREADS) as pool:
        return [item for items in pool.map(work, tiles) for item in items]


def refuse_misfit(sample: Sample, rule: BinningRule) -> None:
    """Vector reports need cells for vectors, scalar reports need cells on the line."""
    if isinstance(rule, Halfspaces) and not sample.distributions:
        raise ValueError("half-spaces need reports that are distributions over classes; use KdTree for other vectors")
    if sample.joint and not isinstance(rule, (VectorRule, Halfspaces)):
        raise ValueError(
            f"{rule!r} bins scalars; vector reports need ArgmaxQuantile, KdTree, KMeans, Halfspaces or Exact"
        )
    if not sample.joint and isinstance(rule, (VectorRule, Halfspaces)) and not isinstance(rule, RankRule):
        raise ValueError(
            f"{rule!r} bins vectors; scalar reports need Quantile, EqualWidth, Edges, TwoBin, Poisson or Exact"
        )


def _tiles(sample: Sample) -> Iterator[slice]:
    """Runs of views small enough that all threads together hold about an eighth of the reports."""
    width = max(1, min(_TILE_COLUMNS, sample.views // (8 * _THREADS)))
    if sample.reports.size < _PARALLEL_ENTRIES:
        width = min(_TILE_COLUMNS, sample.views)
    return (slice(j, min(j + width, sample.views)) for j in range(0, sample.views, width))


def _table(sample: Sample, sums: Sequence[Array] | Array, variance: Array, **more: Any) -> BinTable:
    """A table of the (count, outcome, residual) sums of some views of a sample."""
    count, outcome, residual = sums
    return BinTable(
        count,
        outcome,
        residual,
        variance,
        more.pop("residual_sq", None),
        sample.rows,
        sample.total_weight,
        sample.total_weight_sq,
        sample.wrong_weight_sq,
        sample.joint,
        kind=sample.kind,
        **more,
    )


# -- 0/1 outcomes without weights: sorted values are enough -----------------------------------------------------------


def _plain_tables(
    sample: Sample, rule: BinningRule, ties: str, columns: slice, shared: Partition | None
) -> Iterator[tuple[BinTable, ...]]:
    long = sample.reports.ndim == 1 and sample.rows >= _LONG_VIEW
    if long and isinstance(rule, RankRule) and (cuts := rule.shared_cuts(sample.rows)) is not None:
        yield _long_view_tables(sample, cuts, ties)
        return
    marked = _marked_reports(sample, columns)
    dtype = working_dtype(sample.reports)
    if sample.reports.ndim == 1:
        reports = np.array(sample.reports, dtype=dtype)[None, :]
    else:
        reports = cpu.transposed_tile(sample.reports, columns, dtype)
    if isinstance(rule, RankRule) and (cuts := rule.shared_cuts(sample.rows)) is not None:
        yield _shared_cut_tables(sample, reports, marked, cuts, ties)
        return
    reports.sort(axis=1)
    if isinstance(rule, AveragedRule):
        for row, (marks, complement) in zip(reports, marked, strict=True):
            yield (_points_table(sample, row, marks, complement),)
    elif isinstance(rule, FixedRule):
        yield _sorted_interval_tables(sample, rule, reports, marked)
    else:
        assert isinstance(rule, RankRule)
        for row, own in zip(reports, marked, strict=True):
            yield _shared_cut_tables(sample, row[None, :], [own], rule.cuts(row), ties)


def refuse_outside_edges(sample: Sample, rule: FixedRule, reports: Array) -> None:
    if not isinstance(rule, Edges):
        return
    low, high = (reports.dtype.type(rule.values[i]) for i in (0, -1))
    if reports.size and (reports.min() < low or reports.max() > high):
        place = np.argwhere((sample.reports < low) | (sample.reports > high))[0]
        where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
        value = sample.reports[tuple(place)]
        raise ValueError(f"edges run from {low:g} to {high:g} and do not cover the report {value:g} at {where}")


def _marked_reports(sample: Sample, columns: slice) -> list[tuple[Array, bool]]:
    """Per view, the sorted reports of its marked rows; of the unmarked ones (complement) where those are fewer."""
    assert sample.marks is not None
    dtype = working_dtype(sample.reports)
    if sample.reports.ndim == 1:
        complement = bool(2 * np.count_nonzero(sample.marks) > sample.rows)
        chosen = ~sample.marks if complement else sample.marks
        return [(np.sort(sample.reports[chosen].astype(dtype, copy=False)), complement)]
    first, stop, _ = columns.indices(sample.views)
    rows = np.flatnonzero((sample.marks >= first) & (sample.marks < stop))
    label = sample.marks[rows]
    own = sample.reports[rows, label].astype(dtype, copy=False)
    order = np.lexsort((own, label))
    ends = np.cumsum(np.bincount(label - first, minlength=stop - first))
    return [(part, False) for part in np.split(own[order], ends[:-1])]


def _points_table(sample: Sample, ordered: Array, marked: Array, complement: bool) -> BinTable:
    """Every distinct report is a cell of its own."""
    starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    values = ordered[starts]
    points = values.astype(np.float64)
    count = np.diff(np.append(starts, sample.rows)).astype(np.float64)
    marks = np.diff(np.searchsorted(marked, values), append=len(marked)).astype(np.float64)
    outcome = count - marks if complement else marks
    grid, rest = cpu.grid_part(points)
    residual = (count * grid / cpu.GRID - outcome) + count * rest
    sums = (count[None, :], outcome[None, :], residual[None, :])
    return _table(sample, sums, np.broadcast_to(0.0, sums[0].shape), points=points)


def _shared_cut_tables(
    sample: Sample, reports: Array, marked: Sequence[tuple[Array, bool]], cuts: tuple[Array, ...], ties: str
) -> tuple[BinTable, ...]:
    """Views whose cuts are the same positions: one pass over the union of all cuts, then runs of segments per count."""
    union = cuts[0] if len(cuts) == 1 else np.unique(np.concatenate(cuts))
    order = (lambda row: cpu.order_at(row, union)) if sample.rows >= _RADIX_ROWS else np.sort
    segments = cpu.stack_segments(
        [
            cpu.indicator_segments(order(row), marks, union, ties=ties, complement=complement)
            for row, (marks, complement) in zip(reports, marked, strict=True)
        ]
    )
    return tuple(_coarsen(sample, segments, union, c) for c in cuts)


def _long_view_tables(sample: Sample, cuts: tuple[Array, ...], ties: str) -> tuple[BinTable, ...]:
    """One long view: as above, without sorting what lies between the cuts."""
    assert sample.marks is not None
    union = cuts[0] if len(cuts) == 1 else np.unique(np.concatenate(cuts))
    reports = sample.reports.astype(working_dtype(sample.reports), copy=False)
    segments = cpu.stack_segments([cpu.bucketed_segments(reports, sample.marks, union, ties=ties)])
    return tuple(_coarsen(sample, segments, union, c) for c in cuts)


def _coarsen(sample: Sample, segments: cpu.Segments, union: Array, cuts: Array) -> BinTable:
    """The bins between `cuts`, as runs of the segments between the union of all cuts."""
    index = np.arange(len(cuts)) if union is cuts else np.searchsorted(union, cuts)
    sums = segments.sums
    if union is not cuts:
        sums = cpu.run_sums(sums, np.concatenate([[0], index + 1]))
    left, right = np.concatenate([[-1], index]), np.append(index, -1)
    lower, upper = np.concatenate([[0], cuts]), np.append(cuts, sample.rows)
    return _table(sample, sums, cpu.tie_variance(segments, left, right, lower, upper))


def _union_of_edges(sample: Sample, rule: FixedRule) -> Array:
    refuse_outside_edges(sample, rule, sample.reports)
    every = rule.edges(sample.bounds, working_dtype(sample.reports))
    return every[0] if len(every) == 1 else np.unique(np.concatenate(every))


def _fixed_tables(sample: Sample, rule: FixedRule, union: Array) -> tuple[BinTable, ...]:
    """All views over fixed intervals without a sort: row blocks, in parallel, over the union of all edges."""
    assert sample.marks is not None
    kernel = cpu.fixed_cells if sample.reports.ndim == 2 else cpu.fixed_view
    reports, marks, n = sample.reports, sample.marks, sample.rows
    pieces = [slice(i * n // _THREADS, (i + 1) * n // _THREADS) for i in range(_THREADS)]
    if reports.size < _PARALLEL_ENTRIES or reports.ndim == 1:
        parts = [kernel(reports, marks, union)]
    else:
        with ThreadPoolExecutor(len(pieces)) as pool:
            parts = list(pool.map(lambda rows: kernel(reports[rows], marks[rows], union), pieces))
    return _interval_tables(sample, rule, union, [np.sum([part[i] for part in parts], axis=0) for i in range(3)])


def _sorted_interval_tables(
    sample: Sample, rule: FixedRule, ordered: Array, marked: Sequence[tuple[Array, bool]]
) -> tuple[BinTable, ...]:
    """A few views over many fixed intervals: edges become cuts of the sorted reports, which never split equal ones."""
    union = _union_of_edges(sample, rule)
    segments = cpu.stack_segments(
        [
            cpu.indicator_segments(
                row, marks, np.searchsorted(row, union[1:-1], side="right"), ties="together", complement=complement
            )
            for row, (marks, complement) in zip(ordered, marked, strict=True)
        ]
    )
    return _interval_tables(sample, rule, union, list(segments.sums))


def _interval_tables(sample: Sample, rule: FixedRule, union: Array, whole: list[Array]) -> tuple[BinTable, ...]:
    """The tables of each bin count, from sums over the intervals between the union of all edges."""
    tables = []
    for edges in rule.edges(sample.bounds, union.dtype):
        starts = np.searchsorted(union, edges[:-1])
        sums = whole if len(edges) == len(union) else [cpu.run_sums(x, starts) for x in whole]
        tables.append(_table(sample, sums, np.zeros_like(sums[0]), edges=edges))
    return tuple(tables)


# -- weights, real outcomes, row order, vectors ------------------------------------------------------------------------


def _general_tables(
    sample: Sample, rule: BinningRule, ties: str, columns: slice, shared: Partition | None
) -> Iterator[tuple[BinTable, ...]]:
    if shared is not None:
        yield _partition_tables(sample, rule, shared, ties, columns)
        return
    for j in range(*columns.indices(sample.views)):
        one = slice(j, j + 1)
        reports = sample.view(j).astype(working_dtype(sample.reports), copy=False)
        if isinstance(rule, AveragedRule):
            order = np.argsort(reports, kind="stable")
            yield (_ordered_points_table(sample, order, reports[order].astype(np.float64), one),)
        elif isinstance(rule, FixedRule):
            refuse_outside_edges(sample, rule, reports)
            edges = rule.edges(sample.bounds, reports.dtype)
            order = np.argsort(reports, kind="stable")
            cuts = tuple(np.searchsorted(reports[order], e[1:-1], side="right") for e in edges)
            tables = _partition_tables(sample, rule, Partition(order, cuts), "row", one)
            yield tuple(replace(t, edges=e) for t, e in zip(tables, edges, strict=True))
        else:
            assert isinstance(rule, RankRule)
            order = np.argsort(reports, kind="stable")
            ordered = reports[order]
            tied = np.concatenate([[False], ordered[1:] == ordered[:-1]])
            yield _partition_tables(sample, rule, Partition(order, rule.cuts(ordered), tied), ties, one)


def _partition_tables(
    sample: Sample, rule: BinningRule, partition: Partition, ties: str, columns: slice
) -> tuple[BinTable, ...]:
    x = _ordered_sums(sample, partition.order, columns)
    tables = []
    for cuts in partition.cuts:
        if ties == "together" and partition.tied is not None:
            cuts = whole_blocks(cuts, partition.tied)
        sums, variance = cpu.weighted_segments(x, cuts, partition.tied if ties == "average" else None)
        tables.append(_table(sample, sums[:3], variance, residual_sq=sums[3]))
    return tuple(tables)


def whole_blocks(cuts: Array, tied: Array) -> Array:
    """Move every cut inside a tie block to the block's end: the block stays with the bin of its first place."""
    ends = np.append(np.flatnonzero(~tied), len(tied))
    return np.asarray(ends[np.searchsorted(ends, cuts)])


def _ordered_sums(sample: Sample, order: Array, columns: slice) -> Array:
    """(weight, weight·outcome, weight·residual, (weight·residual)²) per view and sorted place."""
    reports = sample.reports[:, None] if sample.reports.ndim == 1 else sample.reports[:, columns]
    reports = reports[order].T.astype(np.float64)
    outcome = sample.outcome(columns)[:, order]
    weights = np.ones(sample.rows) if sample.weights is None else sample.weights[order]
    residual = weights * (reports - outcome)
    return np.stack([np.broadcast_to(weights, residual.shape), weights * outcome, residual, residual * residual])


def _ordered_points_table(sample: Sample, order: Array, points: Array, columns: slice) -> BinTable:
    x = _ordered_sums(sample, order, columns)
    starts = np.concatenate([[0], np.flatnonzero(points[1:] != points[:-1]) + 1])
    if len(starts) < len(points):
        x, points = cpu.run_sums(x, starts), points[starts]
    return _table(sample, x[:3], np.zeros_like(x[0]), residual_sq=x[3], points=points)


def _halfspace_tables(sample: Sample, rule: Halfspaces) -> Iterator[tuple[BinTable, ...]]:
    """One table per direction and run of coordinates; the error is their mean over directions."""
    for key in rule.keys(sample.reports):
        order = np.argsort(key, kind="stable")
        for columns in _tiles(sample):
            yield (_ordered_points_table(sample, order, key[order], columns),)


def resolve_ties(rule: BinningRule, norm: str) -> str:
    """The tie treatment of a rule under a norm: "auto" is "average" for l2 and "together" for l1."""
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm must be 'l1' or 'l2', got {norm!r}")
    ties = getattr(rule, "ties", "auto")
    if norm == "l1" and ties == "average":
        raise ValueError("ties='average' cannot apply to norm='l1', which has no closed form; use 'together' or 'row'")
    if ties != "auto":
        return str(ties)
    return "average" if norm == "l2" else "together"
