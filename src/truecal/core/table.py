"""BinTable: the one small table that every error, loss part, gap, score and diagram is read off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from .arrays import HOST, LIBRARY
from .averages import AveragedRule
from .data import shown
from .properties import Property
from .rules import BinningRule
from .sample import Bounds, Totals
from .types import Array


class TableSums(NamedTuple):
    """What numbers need of the cells, summed over views: squares, absolute sums, own terms, gaps and pair weights.

    Those of a table on a GPU stay there until they are added up.
    """

    squared: Any = 0.0
    absolute: Any = 0.0
    own: Any = 0.0
    gap_sq: Any = 0.0
    pair_weight: Any = 0.0


@dataclass(frozen=True, eq=False)
class BinTable:
    """Per view and cell, the sums of a sample that everything is read off; arrays have shape (views, cells).

    A table knows its property and the rule of its cells, at one bin count with its treatment of ties, and refuses to be
    merged with, or read as, another. It is a commutative monoid: `BinTable.empty(property, rule)` and `merge`, for
    cells that are fixed in advance. `edges` are those of the cells, None when the cells came from the sample itself.
    """

    kind: str
    """The property: what the predictions were checked for."""
    rule: BinningRule
    count: Array
    """Σ w; like `outcome` it may hold no cells where only an error was asked for."""
    outcome: Array
    """Σ w·outcome."""
    residual: Array
    """Σ w·(report − outcome)."""
    tie_variance: Array
    """What the orders of equal reports leave open: the variance of `residual` over them."""
    residual_sq: Array | None
    """Σ (w·residual)²; None where only an error was asked for."""
    totals: Totals
    weight_sq: Array | None = None
    """Σ w²; None where all weights are 1, so that it is the count."""
    weight_variance: Array | None = None
    """The variance of `count` over the orders of equal reports, None where it is 0."""
    joint: bool = False
    bounds: Bounds | None = (0.0, 1.0)
    edges: Array | None = None
    shares: Array | None = None
    """(views,): what each view counts in their mean, 1 on average; None where all count the same."""

    @staticmethod
    def empty(property: Property, binning: BinningRule, *, views: int = 1, dtype: Any = np.float64) -> BinTable:
        """The table of no rows over fixed cells; reports will be compared with the edges in this dtype.

        >>> import truecal as tc
        >>> tc.BinTable.empty(tc.Classwise(), tc.EqualWidth(5), views=3).count.shape
        (3, 5)
        """
        edges = _fixed_edges(property, binning, np.dtype(dtype), "of an empty table")
        if edges.ndim == 2 and len(edges) != views:
            raise ValueError(f"edges has rows for {len(edges)} views, expected {views}")
        zeros = np.zeros((views, edges.shape[-1] - 1))
        where: dict[str, Any] = {"joint": property.vector, "bounds": property.bounds, "edges": edges}
        where["shares"] = property.shares
        return BinTable(property.kind, binning, zeros, zeros, zeros, zeros, zeros, Totals(), **where)

    def view(self, j: int) -> BinTable:
        """One view by itself, as a table of one probability per row."""
        one = slice(j, j + 1)
        names = ("count", "outcome", "residual", "tie_variance", "residual_sq", "weight_sq", "weight_variance")
        parts: dict[str, Any] = {name: None if (x := getattr(self, name)) is None else x[one] for name in names}
        edges = self.edges if self.edges is None or self.edges.ndim == 1 else self.edges[one]
        return replace(self, **parts, edges=edges, shares=None)

    @property
    def rows(self) -> int:
        return self.totals.rows

    @property
    def views(self) -> int:
        return len(self.count)

    def merge(self, other: BinTable) -> BinTable:
        """The table of both samples together."""
        self._refuse_other(other)
        if self.rows == 0:
            return other
        names = ("count", "outcome", "residual", "tie_variance")
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        if self.residual_sq is not None and other.residual_sq is not None:
            sums["residual_sq"] = self.residual_sq + other.residual_sq
        if self.weight_sq is not None or other.weight_sq is not None:
            sums["weight_sq"] = self.cell_weight_sq + other.cell_weight_sq
            first, second = (replace(table.totals, residual_sq=table.loss_total) for table in (self, other))
            return replace(self, totals=first.merge(second), **sums)
        return replace(self, totals=self.totals.merge(other.totals), **sums)

    def _refuse_other(self, other: BinTable) -> None:
        if not isinstance(other, BinTable):
            raise TypeError(f"a table can only be merged with a table, got {type(other).__name__}")
        if self.kind != other.kind:
            raise ValueError(f"cannot merge a table of {self.kind} predictions with one of {other.kind} predictions")
        if self.edges is None or other.edges is None:
            raise ValueError(
                "cannot merge: the cells of at least one table come from its own predictions; "
                "use fixed cells, EqualWidth or Edges"
            )
        if self.joint != other.joint or self.views != other.views:
            raise ValueError(f"cannot merge tables of {self.views} and {other.views} views")
        if not _same(self.shares, other.shares):
            raise ValueError("cannot merge tables of different thresholds")
        if self.rows and other.rows and self.edges.dtype != other.edges.dtype:
            raise ValueError(f"cannot merge: edges were compared in {self.edges.dtype} and in {other.edges.dtype}")
        dtype = self.edges.dtype if self.rows else other.edges.dtype
        if not np.array_equal(self.edges.astype(dtype), other.edges.astype(dtype)):
            raise ValueError(f"cannot merge tables over different cells: edges {self.edges} and {other.edges}")

    # -- what is in a cell --------------------------------------------------------------------------------------------

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

    @cached_property
    def cell_weight_sq(self) -> Array:
        """Σ w² per view and cell."""
        return self.count if self.weight_sq is None else self.weight_sq

    @property
    def loss_total(self) -> float:
        """Σ w|r|², summed over views, each times its share."""
        assert self.residual_sq is not None
        return self.totals.residual_sq if self.weight_sq is not None else float(self.over_views(self.residual_sq))

    def over_views(self, values: Array) -> Any:
        """The sum of (views,) or (views, cells) values, each view times its share."""
        if self.shares is None:
            return values.sum()
        return (self.shares @ values).sum()

    # -- what is read off it ------------------------------------------------------------------------------------------

    @cached_property
    def moments(self) -> TableSums:
        """All sums over cells and views."""
        return table_sums([self])[0]

    def _grid_moments(self) -> TableSums:
        """The same where the cells are those of a grid between which an average cuts."""
        assert self.residual_sq is not None
        rule: Any = self.rule
        points = rule.midpoints(self.bounds)
        found = []
        shares = np.ones(self.views) if self.shares is None else self.shares
        each = (self.residual, self.count, self.residual_sq, self.cell_weight_sq, shares)
        for r, w, own, w_sq, share in zip(*each, strict=True):
            block = PointBlock(points, r[None], w[None], own[None], w_sq[None])
            sums = PointSums(rule, self.bounds, partial(iter, [block]), self.totals.largest, float(share))
            found.append(sums.moments())
        return TableSums(*np.sum(found, axis=0).tolist())


def table_sums(tables: Sequence[BinTable], only: str = "") -> list[TableSums]:
    """Return the sums of the tables of one sample at each bin count; `only` those of a raw error, "l1" or "l2"."""
    if tables[0].rule.averages:
        return [table._grid_moments() for table in tables]
    if only:
        terms = [abs(t.residual) if only == "l1" else t.residual * t.residual + t.tie_variance for t in tables]
        whole = [x.sum() if t.shares is None else (t.shares @ x).sum() for t, x in zip(tables, terms, strict=True)]
        whole = list(map(float, whole)) if isinstance(whole[0], HOST) else whole
        return [TableSums(absolute=x) if only == "l1" else TableSums(squared=x) for x in whole]
    one, xp = tables[0], LIBRARY[type(tables[0].count)]
    parts = [
        xp.stack([t.count, t.residual, t.tie_variance, t.residual_sq, t.count if t.weight_sq is None else t.weight_sq])
        for t in tables
    ]
    weight, residual, variance, own, weight_sq = xp.concatenate(parts, -1)
    squares, pairs, bound = residual * residual + variance, weight * weight - weight_sq, weight_sq
    if one.weight_sq is not None:
        varies = [xp.zeros_like(t.count) if t.weight_variance is None else t.weight_variance for t in tables]
        of_weight = xp.concatenate(varies, -1)
        pairs = pairs + of_weight
        # Which rows of a divided block are in a cell depends on their order: no sum of the cell bounds their weight.
        bound = xp.where(of_weight > 0, one.totals.largest**2, weight_sq)
    # A single row leaves only rounding, of its own square or of the running sums it was cut from.
    pairs = pairs * (pairs > 1e-13 * (one.totals.weight * weight + one.totals.weight_sq))
    rates = pair_rates(weight, bound, pairs, one.totals.largest)
    gaps = rates * (squares - own) / one.totals.weight
    every = xp.stack([squares, abs(residual), own, gaps, pairs * (rates > 0)])
    every = every.sum(1) if one.shares is None else one.shares @ every
    found, start = [], 0
    for part in parts:
        sums = every[:, start : start + part.shape[-1]].sum(1)
        found.append(TableSums(*(sums.tolist() if isinstance(sums, HOST) else sums)))
        start += part.shape[-1]
    return found


def _same(a: Array | None, b: Array | None) -> bool:
    return a is b or (a is not None and b is not None and np.array_equal(a, b))


def _number(x: Any) -> Any:
    return float(x) if isinstance(x, HOST) else x


_PAIRED = 1e-9  # of a cell's squared weight; a single row leaves only rounding of w·w − w²


def has_pairs(weight: Array, pair_weight: Array) -> Array:
    """Whether a cell holds two rows or more."""
    return pair_weight > _PAIRED * weight * weight


def pair_rates(weight: Array, weight_sq: Array, pair_weight: Array, largest: float) -> Array:
    """λ_B: what the product of two residuals of cell B counts in gap², 0 for a cell without a pair.

    W_B/(W_B² − Σ_B w²), which is 1/(n_B − 1) without weights, at most 1/max_B w. The largest weight of a cell is at
    most the largest of all and at most √Σ_B w², so no column of largest weights is needed.
    """
    xp = LIBRARY[type(weight)]
    met = pair_weight > _PAIRED * weight * weight
    most = xp.clip(xp.sqrt(xp.clip(weight_sq, 0.0, None)), None, largest)
    safe = xp.where(met, pair_weight, 1.0)
    rate = xp.where(met, weight / safe, 0.0)
    rates: Array = xp.where(rate * most > 1.0, 1.0 / xp.where(most > 0, most, 1.0), rate)
    return rates


class PointBlock(NamedTuple):
    """Some of the points of an average over cuts: where they are, and what the rows there add up to."""

    points: Array
    residual: Array
    """(views, points) Σ w·residual."""
    weight: Array
    """Σ w, (1, points), or (views, points) where each view has its own points."""
    own: Array
    """(views, points) Σ (w·residual)²."""
    weight_sq: Array
    """Σ w², of the shape of `weight`."""

    @property
    def sums(self) -> tuple[Array, Array, Array, Array]:
        return self.residual, self.own, self.weight, self.weight_sq


@dataclass(frozen=True)
class PointSums:
    """What a table is to bins, for an average over cuts. Its cells are the points themselves, as many as there may be
    rows, so they are read block by block and never held."""

    rule: AveragedRule
    bounds: Bounds | None
    blocks: Callable[[], Iterator[PointBlock]]
    largest: float = 1.0
    """The largest weight of a row."""
    share: float = 1.0
    """What its view counts in the mean over views."""
    squared: float | None = None
    """The form itself, where a compiled loop has summed it."""

    def squared_moments(self) -> TableSums:
        """Sums for a squared error."""
        if self.squared is not None:
            return TableSums(squared=self.share * float(self.squared))
        squared = self.rule.running(self.bounds)
        for block in self.blocks():
            squared.add(block.points, block.residual)
        return TableSums(squared=_number(self.share * squared.value.sum()))

    def moments(self) -> TableSums:
        """Everything numbers need; per view, gap² = Σ_{i≠j} G_ij r_i r_j / Σ_{i≠j} G_ij w_i w_j."""
        squared, weight = self.rule.running(self.bounds), self.rule.running(self.bounds)
        totals: list[Any] = [0.0] * 4
        for block in self.blocks():
            squared.add(block.points, block.residual)
            weight.add(block.points, block.weight)
            totals = [total + x.sum(1)[:, None] for total, x in zip(totals, block.sums, strict=True)]
        own, value, met = totals[1][:, 0], squared.value, weight.value
        pairs = met - totals[3][:, 0]
        pairs[pairs <= 1e-9 * met] = 0.0  # a single row meets no other, whatever its own square rounds to
        pair_weight = LIBRARY[type(pairs)].broadcast_to(pairs, own.shape)
        gaps = _ratio(value - own, pair_weight)
        totals = [self.share * x.sum() for x in (value, 0.0 * own, own, gaps, pair_weight)]
        return TableSums(*(map(float, totals) if isinstance(own, HOST) else totals))


def _ratio(numerator: Array, denominator: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio: Array = LIBRARY[type(numerator)].where(denominator > 0, numerator / denominator, np.nan)
    return ratio


def _fixed_edges(property: Property, binning: BinningRule, dtype: np.dtype[Any], what: str) -> Array:
    """The edges of cells that are known in advance, at one bin count."""
    if not isinstance(binning, BinningRule) or not binning.fixed or binning.several:
        raise ValueError(
            f"binning of a table {what} must fix its cells in advance, one bin count of EqualWidth or Edges, "
            f"got {shown(binning)}"
        )
    (edges,) = binning.table_edges(property.bounds, dtype) or ()
    return edges
