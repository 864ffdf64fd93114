"""From a sample and a rule to tables: a few views at a time, over threads, stacked and in the unit of the weights."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..core.arrays import device_backend, on_device
from ..core.cells import Piece
from ..core.data import shown
from ..core.dispatch import DISPATCH, Dispatch
from ..core.frames import matching_rows
from ..core.properties import Property
from ..core.rules import BinningRule, resolve_ties
from ..core.sample import Sample, Totals
from ..core.table import BinTable, PointSums, TableSums, table_sums
from .building import Builder, Tables, kernel_points

Reduced = TypeVar("Reduced")

_MOST_CELLS = 1 << 27  # numbers in one array of a table to look at
_POWERS = dict.fromkeys(("count", "outcome", "residual"), 1) | dict.fromkeys(
    ("tie_variance", "residual_sq", "weight_sq", "weight_variance"), 2
)
"""The arrays of a table, with the power of the weight that each is a sum of."""


@matching_rows
def tabulate(
    property: Property,
    binning: BinningRule,
    y_true: Any,
    y_proba: Any,
    *,
    norm: str = "l2",
    sample_weight: Any = None,
    labels: Any = None,
) -> Tables:
    """The tables of a sample, one per bin count of the rule (views padded with empty cells to a common width).

    `norm` only decides what ties="auto" means for a quantile rule: averages for l2, together for l1.

    >>> import truecal as tc
    >>> tc.analysis.tabulate(tc.Binary(), tc.Quantile(2, ties="together"), [0, 1, 0, 1], [.5] * 4)[0].count.tolist()
    [[4.0, 0.0]]
    """
    if not isinstance(property, Property) or not isinstance(binning, BinningRule):
        raise TypeError(
            f"property and binning must be a property and a rule, got {shown(property)} and {shown(binning)}"
        )
    sample = property.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    return whole_tables(sample, binning, resolve_ties(binning, norm))


def whole_tables(
    sample: Sample, rule: BinningRule, ties: str, cells: Iterable[Piece] | None = None, dispatch: Dispatch = DISPATCH
) -> Tables:
    """Tables of all views of a validated sample, one per bin count, in the unit of the weights as given."""
    if rule.averages:
        raise ValueError(f"{rule!r} averages over all cuts and has no table of bins; use Quantile or EqualWidth")
    rule = rule.at(sample.rows, sample.views)
    sample = measurable(sample, rule)
    if rule.most_cells * sample.views > _MOST_CELLS:
        raise ValueError(f"a table of {sample.views:,} x {rule.most_cells:,} cells is too large; use fewer bins")
    return tuple(in_unit(table, sample) for table in stacked_tables(sample, rule, ties, cells, dispatch))


def stacked_tables(
    sample: Sample, rule: BinningRule, ties: str, cells: Iterable[Piece] | None = None, dispatch: Dispatch = DISPATCH
) -> Tables:
    """The same in the unit of the sample's weights, for a rule at its bin counts."""
    parts = map_tables(sample, rule, ties, lambda tables: tables, squares=True, cells=cells, dispatch=dispatch)
    if sample.tensors:
        parts = [tuple(device_backend().on_host(table) for table in part) for part in parts]
    return parts[0] if len(parts) == 1 else tuple(map(_stack, zip(*parts, strict=True)))


def measurable(sample: Sample, rule: BinningRule) -> Sample:
    """The sample where the rule is measured: predictions on a GPU come to the CPU for rules that are only there."""
    if not sample.tensors or (rule.on_device and sample.shares is None):
        return sample
    return sample.on_host()


def _stack(parts: Sequence[BinTable]) -> BinTable:
    """The views of several tables, in one."""
    shapes = [part.count.shape for part in parts]
    shape = (sum([views for views, _ in shapes]), max([cells for _, cells in shapes]))
    columns: dict[str, Any] = dict.fromkeys(_POWERS)
    for name in _POWERS:
        row = 0
        for part, (views, cells) in zip(parts, shapes, strict=True):
            array = getattr(part, name)
            if array is not None:
                if columns[name] is None:
                    columns[name] = np.zeros(shape)
                columns[name][row : row + views, :cells] = array
            row += views
    shares = None if parts[0].shares is None else np.concatenate([part.shares for part in parts])
    return replace(parts[0], **columns, shares=shares)


def in_unit(table: BinTable, sample: Sample) -> BinTable:
    """The table with weights as the user gave them, so that tables of different samples can be merged."""
    if sample.weights is None or sample.weight_exponent == 0:
        return table
    refuse_exponent(sample.weight_exponent)
    return scaled(table, sample.weight_exponent)


def scaled(table: BinTable, exponent: int) -> BinTable:
    """The table as if every weight were 2^exponent times as large."""
    found: dict[str, Any] = {
        name: np.ldexp(getattr(table, name), power * exponent)
        for name, power in _POWERS.items()
        if getattr(table, name) is not None
    }
    return replace(table, totals=table.totals.in_unit(exponent), **found)


def refuse_exponent(exponent: int) -> None:
    """Squares of the weights as given must be numbers; the largest weight is about 2^exponent."""
    if abs(exponent) > 400:
        raise ValueError(
            "sample_weight is too large or too small: rescale it, so that its squares are finite and not 0"
        )


def map_tables(
    sample: Sample,
    rule: BinningRule,
    ties: str,
    reduce: Callable[[Tables], Reduced],
    *,
    squares: bool = False,
    cells: Iterable[Piece] | None = None,
    dispatch: Dispatch = DISPATCH,
) -> list[Reduced]:
    """Build the tables of a sample a few views at a time and reduce each piece at once, so that memory stays small.

    Each piece is a tuple of tables, one per bin count; the pieces come in the order of the views. Without `squares` the
    tables hold only the sums of a raw error. `cells` of the same rule, where they are made already, are read.
    """
    build = Builder(sample, rule, ties, squares, dispatch)
    if cells is not None and not sample.tensors:
        return [reduce(tables) for tables in build.piece_tables(cells)]
    rule.refuse_misfit(sample.seen)
    if sample.tensors:
        return [reduce(tables) for tables in device_backend().tables(build)]
    if build.unsorted:
        return [reduce(build.unsorted_tables())]
    make = build.general_tables if build.needs_cells else build.plain_tables
    return _over_tiles(sample, rule, dispatch, lambda tile: [reduce(tables) for tables in make(tile)])


def map_points(
    sample: Sample,
    rule: BinningRule,
    reduce: Callable[[PointSums], Reduced],
    *,
    cells: Iterable[Piece] | None = None,
    dispatch: Dispatch = DISPATCH,
) -> list[Reduced]:
    """The same for averages over cuts: the sums of a few views at a time, read point by point."""
    rule.refuse_misfit(sample.seen)
    if sample.tensors:
        return [reduce(sums) for sums in device_backend().point_sums(sample, rule, dispatch)]
    if cells is not None:
        return [reduce(sums) for piece in cells for sums in kernel_points(sample, piece)]
    if sample.plain:
        build = Builder(sample, rule, "", False, dispatch)
        return _over_tiles(sample, rule, dispatch, lambda tile: [reduce(sums) for sums in build.plain_points(tile)])

    def general(tile: slice) -> list[Reduced]:
        return [reduce(s) for piece in rule.pieces(sample.seen, "", tile) for s in kernel_points(sample, piece)]

    return _over_tiles(sample, rule, dispatch, general)


def _over_tiles(
    sample: Sample, rule: BinningRule, dispatch: Dispatch, work: Callable[[slice], list[Reduced]]
) -> list[Reduced]:
    """What `work` gives for each tile of views, in their order."""
    cells = rule.most_cells * len(rule.counts or (1,))
    tiles = [slice(0, sample.views)] if sample.joint else _tiles(sample, cells, dispatch)
    if len(tiles) == 1 or sample.reports.size < dispatch.parallel_views or dispatch.threads == 1:
        return [item for tile in tiles for item in work(tile)]
    with ThreadPoolExecutor(dispatch.threads) as pool:
        return [item for items in pool.map(work, tiles) for item in items]


def _tiles(sample: Sample, cells: int, dispatch: Dispatch) -> list[slice]:
    """Runs of views small enough that all threads together hold about an eighth of the reports."""
    width = max(1, min(dispatch.tile_columns, sample.views // (8 * dispatch.threads)))
    if sample.reports.size < dispatch.parallel_views:
        few = dispatch.few_reports // max(sample.rows, cells)
        width = min(max(dispatch.tile_columns, few), sample.views)
    return [slice(j, min(j + width, sample.views)) for j in range(0, sample.views, width)]


class Raw(NamedTuple):
    """What a raw error is made of."""

    rule: BinningRule
    """The rule at its bin counts."""
    totals: Totals
    averaged: int
    """What sums over views are divided by."""
    moments: list[TableSums]
    """One per bin count."""


def raw_error_sums(error: Any, y_true: Any, y_proba: Any, sample_weight: Any = None, labels: Any = None) -> Raw:
    """Return the sums of a raw error from the user's arrays; a GPU checks and sums plain ones in the same pass."""
    if on_device(y_proba):
        quick = device_backend().raw_error_sums(error, y_true, y_proba, sample_weight, labels)
        if quick is not None:
            return Raw(*quick)
    sample = error.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    rule = error.binning.at(sample.rows, sample.views)
    return Raw(rule, sample.totals, sample.averaged, moments(sample, rule, error.ties, error.norm))


def moments(
    sample: Sample,
    rule: BinningRule,
    ties: str,
    norm: str,
    *,
    squares: bool = False,
    cells: Iterable[Piece] | None = None,
    dispatch: Dispatch = DISPATCH,
) -> list[TableSums]:
    """The moments of a sample at each bin count; without `squares` only those of a raw error.

    `cells` of the same rule, where they are made already, are read.
    """
    sample = measurable(sample, rule)
    if sample.tensors and not squares and not rule.averages:
        quick = device_backend().raw_moments(sample, rule, ties, norm, dispatch)
        if quick is not None:
            return quick  # type: ignore[no-any-return]  # a module loaded by name
    if rule.averages:
        of_points = PointSums.moments if squares else PointSums.squared_moments
        pieces = [[found] for found in map_points(sample, rule, of_points, cells=cells, dispatch=dispatch)]
    else:
        read = partial(table_sums, only="" if squares else norm)
        pieces = map_tables(sample, rule, ties, read, squares=squares, cells=cells, dispatch=dispatch)
    if sample.tensors:
        pieces = device_backend().as_numbers(pieces)
    return [TableSums(*np.sum(column, axis=0).tolist()) for column in zip(*pieces, strict=True)]
