"""Sums over views, cells and units that intervals of gap² and U need; `spread.py` has the formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from ..core.arrays import LIBRARY, cell_totals, indices, to_device_of
from ..core.cells import KernelCells, Piece
from ..core.data import wide_blocks
from ..core.sample import EVERY, Sample
from ..core.table import pair_rates
from ..core.types import Array, Groups
from .binned_sample import BinnedSample
from .checks import TimeBlocks, effective_number, per_unit

Of = Literal["gap", "U"]

MOST_KEPT = 1 << 17
"""With more rows than this, what each of them adds is recomputed for every use."""
BLOCKS = 64
_UNIT_NUMBERS = 4  # that a unit has while a block of them is looked at
FEW_ENTRIES = 1 << 16
"""So many rows of views are looked at together."""
FEW_BLOCKS = 16  # for kernels of several views, where a block costs a pass over all rows
_MOST_WAITING = 1 << 13  # cells of views whose blocks are multiplied at once
MORE = 4.0  # surprises added where they are scarce: about as many as may be expected where none was seen


@dataclass(frozen=True, eq=False)
class Units:
    """Rows or clusters with their weights, looked at a block at a time."""

    weights: Array

    def blocks(self) -> Iterable[slice]:
        """Slices of units that are processed together."""
        return wide_blocks(self.weights, len(self.weights), _UNIT_NUMBERS)

    @cached_property
    def total(self) -> float:
        return float(self.weights.sum())

    @cached_property
    def effective(self) -> float:
        """Kish's effective number, (Σ w)²/Σ w²."""
        return effective_number(self.weights)

    def squares(self, values: Callable[[slice], Array], mean: float) -> float:
        """Σ of squared values, each less its weight's share of `mean`."""
        share, found = mean / self.total, 0.0
        for units in self.blocks():
            rest = values(units) - share * self.weights[units]
            found += float((rest * rest).sum())
        return found


@dataclass(frozen=True, eq=False)
class Views:
    """Bin, weight and w·residual of the rows of one view, or of several with few rows, at one bin count."""

    sample: Sample
    columns: slice
    atom: Array
    """(n,), or (views, n) of several: the atom of each row."""
    homes: Sequence[Array]
    """Per view, the bin of each atom."""
    x: Array | None = None
    """(views, n): w·residual of several views; None to make those of one when they are asked for."""

    @cached_property
    def starts(self) -> Array:
        """The first bin of each view, and the number of all: no two views share one."""
        return np.cumsum([0, *[int(home.max()) + 1 for home in self.homes]])

    def of(self, rows: slice) -> tuple[Array, Array, Array]:
        """Bin, weight and w·residual of some rows, view after view."""
        w = self.sample.row_weights[rows]
        if self.x is None:
            return self.homes[0][self.atom[rows]], w, self.sample.residuals(self.columns, rows)[0]
        cell = np.stack([home[atom] for home, atom in zip(self.homes, self.atom, strict=True)])
        return (cell + self.starts[:-1, None]).ravel(), np.tile(w, len(cell)), self.x.ravel()


_ADDED = (
    "theta", "v", "slope", "norm", "plain_norm", "meet", "meet_sq", "even_v", "even_c", "pair_weight"
)  # fmt: skip


@dataclass(eq=False)
class ViewSums:
    """The sums over views at one bin count."""

    sample: Sample
    groups: Groups | None
    of: Of
    theta: float = 0.0
    v: float = 0.0
    slope: float = 0.0
    norm: float = 0.0
    plain_norm: float = 0.0
    meet: float = 0.0
    meet_sq: float = 0.0
    even_v: float = 0.0
    even_c: float = 0.0
    pair_weight: float = 0.0
    influence: Callable[[slice], Array] = field(init=False)
    H: Array = field(init=False)
    by: Units = field(init=False)
    block: Array = field(init=False)

    def __post_init__(self) -> None:
        sample = self.sample
        self.averaged, self.several = sample.averaged, sample.views > 1
        self.largest = 1.0 if sample.weights is None else float(sample.weights.max())
        self.unit_sq = _unit(sample) ** 2
        self.by = Units(sample.row_weights if self.groups is None else per_unit(sample.row_weights, self.groups))
        self.block = _blocks(self.by)
        self.H = np.zeros((int(self.block.max()) + 1,) * 2)
        self._waiting: list[tuple[Array, Array]] = []
        self.lasting = False
        if self.several or self.groups is not None or sample.rows <= MOST_KEPT:
            self._keep()

    def _keep(self) -> None:
        """Keep the influence of each unit instead of recomputing it for every use."""
        self.lasting, self.h = True, 0.0 * self.by.weights
        self.influence = self.h.__getitem__

    def add_views(self, views: Views) -> None:
        """Add views in blocks of rows, so that millions of rows need no copies."""
        every = _Entries.of(views, self.groups)
        entries = list(every) if every.number <= FEW_ENTRIES else every
        m, blocks = int(views.starts[-1]), len(self.H)
        sums, table = np.zeros((9, m)), np.zeros(blocks * m)
        for cell, unit, w, x in entries:
            sums += _cell_sums(cell, w, x, m, self.unit_sq)
            table += cell_totals(indices(self.block[unit]) * m + cell, [x], blocks * m)[0]
        share = np.ones(1) if self.sample.shares is None else self.sample.shares[views.columns]
        about = self._add_sums(sums, views.starts, share, every.by_row, every.left)
        self._waiting.append((table.reshape(blocks, m), about[3]))
        if len(self._waiting) * m > _MOST_WAITING:
            self.add_waiting()
        if self.sample.tensors:
            about = tuple([to_device_of(y, self.sample.reports) for y in about])
        pulls, means, weights, rates, totals = about
        start, units = 0, len(self.by.weights)
        slope = np.zeros(0 if self.groups is None else units * len(views.homes))
        for cell, unit, w, x in entries:
            each = pulls[cell] * (x - w * means[cell]) * (weights[cell] - w)
            if self.groups is None:
                self.slope += 4 * float((each * each).sum())
            else:  # of a cluster in a view
                of_view = np.searchsorted(views.starts, cell, side="right") - 1
                slope += np.bincount(unit + units * of_view, each, len(slope))
            own = x * x if every.left is None else every.left[2][start : start + len(x)]
            start += len(x)
            if not self.lasting:
                continue
            own_part = rates[cell] * (x * totals[cell] - own)
            if isinstance(unit, slice):
                self.h[unit] += own_part
            else:
                self.h += np.bincount(unit, own_part, units)
        if not self.lasting:
            self.influence = partial(_row_influence, views, rates, totals)
        self.slope += 4 * float(slope @ slope)

    def add_cells(self, loops: Any, column: Array, labels: Array, label: int, cell: Array, m: int) -> None:
        """Add one view in compiled loops, from its reports, all labels, its class, and its cells."""
        weights = np.zeros(0) if self.sample.weights is None else self.sample.weights
        row = (column, labels, label, weights, cell)
        sums, table = loops.view_sums(*row, self.block, self.unit_sq, (len(self.H), m))
        about = self._add_sums(sums, np.array([0, m]), np.ones(1))
        loops.add_products(table, about[3], self.H)
        self.slope += 4 * loops.add_influence(*row, about, self.h if self.lasting else np.zeros(0))
        if not self.lasting:
            views = Views(self.sample, slice(0, 1), cell, [np.arange(m)])
            self.influence = partial(_row_influence, views, *about[3:])

    def _add_sums(
        self,
        sums: Array,
        starts: Array,
        shares: Array,
        by_row: tuple[Array, Array] | None = None,
        left: tuple[Array, Array, Array] | None = None,
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Add the sums of the cells of views; return pull, mean, weight, rate and total of each cell.

        `left`: what pairs of rows give that are left out, where these are not those of one unit.
        """
        rows, weight, weight_sq, total, own, fourth, surprises, surprises_sq, weighted = sums
        left_weight, left_own = (weight_sq, own) if left is None else left[:2]
        mass = np.where(rows >= 2, np.maximum(weight * weight - left_weight, 0.0), 0.0)
        sizes = np.diff(starts)
        share = np.repeat(np.broadcast_to(shares, len(sizes)), sizes)
        a = share * self._coefficients(weight, weight_sq, mass)
        self.theta += float(a @ (total * total - left_own))
        self.pair_weight += float(share @ mass) / self.averaged
        self.v += 2 * float((a * a) @ (own * own - fourth))
        bias = over(*((own, weight_sq) if by_row is None else by_row))
        self.norm += float((a * bias * bias) @ mass)
        self.plain_norm += float(a @ mass)
        of_view = np.add.reduceat(np.stack([weight, own, surprises, weighted]), starts[:-1], axis=1)
        whole, own_whole, one, two = np.repeat(of_view, sizes, axis=1)
        met = 0.5 * np.maximum(np.square(surprises) - surprises_sq, 0.0) * over(one, two) ** 2
        self.meet += float((a * a) @ met)
        self.meet_sq += float((a**4) @ met)
        largest_sq = self.unit_sq * self.largest**2
        even_v, even_c = even_parts(a, weight, weight / whole, own_whole, self.averaged, self.several, largest_sq)
        self.even_v += even_v
        self.even_c += even_c
        return a * bias, over(total, weight), weight, a, total

    def apart(self) -> ViewSums:
        """Return sums of the same sample that start at 0, for other views."""
        other = copy(self)
        for name in _ADDED:
            setattr(other, name, 0.0)
        other.H, other._waiting = np.zeros_like(self.H), []
        if self.lasting:
            other._keep()
        return other

    def add(self, other: ViewSums) -> None:
        """Add the sums of other views."""
        other.add_waiting()
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.H += other.H
        self.h += other.h

    def add_waiting(self) -> None:
        """Add the pairs of blocks of many views in one product, which is faster than many small ones."""
        if self._waiting:
            tables, rates = zip(*self._waiting, strict=True)
            table = np.concatenate(tables, axis=1) * np.sqrt(np.concatenate(rates))
            self.H += table @ table.T  # of one array: half the products
            self._waiting.clear()

    def _coefficients(self, weight: Array, weight_sq: Array, mass: Array) -> Array:
        if self.of == "U":
            return np.full(len(weight), 1.0 / (self.averaged * self.sample.total_weight_sq))
        if self.groups is not None:  # the plain ratio: a cap would hide the gap where one cluster is large
            return over(weight, mass) / (self.averaged * self.by.total)
        return pair_rates(weight, weight_sq, mass, self.largest) / (self.averaged * self.by.total)

    def add_kernel(self, piece: Piece, frozen: BinnedSample) -> None:
        """Add one piece of an average over cuts, by its kernel."""
        cells, sample = piece.cells, frozen.sample
        assert isinstance(cells, KernelCells)
        w = sample.row_weights
        if not self.lasting:
            self._keep()
        mass = float(w @ cells.others(w[None])[0])
        if self.groups is not None:
            mass -= float(cells.within(w[None], *self.groups).sum())
        if mass <= 0:  # no two rows, or clusters, with weight
            return
        self.pair_weight += piece.weight * mass
        scale = piece.weight / (mass if self.of == "gap" else float(np.square(w).sum()))
        one = sample.views == 1 and self.groups is None
        blocks = len(self.H) if one else min(FEW_BLOCKS, len(self.H))
        if len(self.H) != blocks:
            self.block, self.H = self.block % blocks, np.zeros((blocks, blocks))
        block = self.block if self.groups is None else self.block[self.groups[0]]
        for tile in piece.tiles(sample.rows):
            for x in sample.residuals(tile):
                others = cells.others(x[None])[0]
                self._add_kernel_view(cells, x, others, scale, block)
        if one:
            self.v += 2 * scale**2 * float(cells.pairs_of_squares(np.square(sample.residuals(slice(0, 1))[0]))[0])

    def _add_kernel_view(self, cells: KernelCells, x: Array, others: Array, scale: float, block: Array) -> None:
        w, squares = self.sample.row_weights, np.square(x)
        each = scale * x * others
        if self.groups is not None:
            within = cells.within(x[None], *self.groups)[0]
            each = per_unit(each, self.groups) - scale * within
        self.h += each
        self.theta += float(each.sum())
        near = cells.others(np.stack([squares, w * w, w])) + np.stack([squares, w * w, w])
        bias, mean = over(near[0], near[1]), over(others + x, near[2])
        pull = cells.others((w * bias)[None])[0]
        moved = per_unit(scale * (x - w * mean) * pull, self.groups)
        self.slope += 4 * float(moved @ moved)
        self.norm += scale * float((w * bias) @ pull)
        self.plain_norm += scale * float(w @ (near[2] - w))
        surprise = _surprise(w, squares / self.unit_sq)
        one, two = surprise.sum(), float(w @ surprise)
        if two > 0:
            pairs = 0.5 * float(cells.pairs_of_squares(surprise)[0]) * (one / two) ** 2
            self.meet, self.meet_sq = self.meet + scale**2 * pairs, self.meet_sq + scale**4 * pairs
        even = (squares.sum() + MORE * self.unit_sq * np.square(w).max()) * w / w.sum()
        self.even_v += 2 * scale**2 * float(cells.pairs_of_squares(even)[0])
        self.even_c += 4 * scale**2 * float(even @ np.square(near[2] - w))
        parts = np.zeros((len(self.H), len(x)))
        parts[block, np.arange(len(x))] = x
        self.H += scale * (cells.others(parts) + parts) @ parts.T


def even_parts(
    a: Array, weight: Array, part: Array, own: Any, averaged: int, several: bool, largest_sq: float
) -> tuple[float, float]:
    """v and c·norm of views if the surprises seen in each, and a few more, were spread evenly over its weight.

    `part`: the share of a cell in the weight of its view; `own`: the sum of squares of its view.
    """
    more = MORE * (2.0 / averaged if several else 1.0) * largest_sq
    spread = (own + more) * part
    return 2 * float((a * a) @ (spread * spread)), 4 * float((a * a) @ (spread * np.square(weight)))


def _blocks(by: Units) -> Array:
    """The block of each unit, in turn; units without weight are none."""
    blocks, before = min(BLOCKS, max(1, int((by.weights != 0).sum()))), 0
    xp = LIBRARY[type(by.weights)]
    out = xp.empty(len(by.weights), dtype=xp.uint8, device=by.weights.device)
    for units in by.blocks():
        number = before + (by.weights[units] > 0).cumsum(0)
        out[units] = xp.clip(number - 1, 0, None) % blocks
        before = int(number[-1])
    return out  # type: ignore[no-any-return]  # an array or a tensor


def _row_influence(views: Views, a: Array, total: Array, rows: slice) -> Array:
    cell, _, x = views.of(rows)
    return a[cell] * x * (total[cell] - x)  # type: ignore[no-any-return]  # an array or a tensor


def over(numerator: Array, denominator: Array) -> Array:
    """The ratio, 0 where there is nothing to divide by."""
    some, where = denominator > 0, LIBRARY[type(denominator)].where
    return where(some, numerator / where(some, denominator, 1.0), 0.0)  # type: ignore[no-any-return]  # an array or a tensor


def _unit(sample: Sample) -> float:
    """The range of outcomes: of their bounds where there are any, else of those observed."""
    if sample.values is None or sample.bounds is not None:
        low, high = sample.bounds or (0.0, 1.0)
        return high - low
    return float(sample.values.max() - sample.values.min()) or 1.0


def _surprise(w: Array, squares: Array) -> Array:
    """The surprise of each row: 1 at a prediction of 1/2, near 0 at .99 if the event came."""
    return LIBRARY[type(w)].minimum(w, 4 * over(squares, w))  # type: ignore[no-any-return]  # an array or a tensor


def _cell_sums(cell: Array, w: Array, x: Array, m: int, unit_sq: float) -> Array:
    """(9, m) sums over the entries of each cell."""
    squares = x * x
    surprise = _surprise(w, squares / unit_sq)
    every = (w > 0, w, w * w, x, squares, squares * squares, surprise, surprise * surprise, w * surprise)
    return cell_totals(cell, every, m)


@dataclass(frozen=True)
class _Entries:
    """Views by (unit, cell): their rows, or per cluster the sums of its rows in a cell."""

    number: int
    entry: Callable[[slice], tuple[Array, Array, Array]]
    """Cell, weight and x of some entries."""
    near: Array
    unit: Array | None = None
    by_row: tuple[Array, Array] | None = None
    """With clusters, per cell: Σ (w·residual)² and Σ w² over rows."""
    left: tuple[Array, Array, Array] | None = None
    """Of rows in time, what pairs of rows give that are too close: per cell weights and residuals, and per entry."""

    @staticmethod
    def of(views: Views, groups: Groups | None) -> _Entries:
        sample, several = views.sample, len(views.homes)
        if groups is None:
            unit = None if several == 1 else np.tile(np.arange(sample.rows), several)
            return _Entries(sample.rows * several, views.of, sample.reports, unit)
        label, w, x = views.of(EVERY)
        m, group = int(views.starts[-1]), np.tile(groups[0], several)
        key, entry = np.unique(label.astype(np.int64) * groups[1] + group, return_inverse=True)
        cell, (weight, sums) = key // groups[1], (np.bincount(entry.reshape(-1), y) for y in (w, x))
        by_row = np.bincount(label, np.square(x), m), np.bincount(label, np.square(w), m)

        def entries(part: slice) -> tuple[Array, Array, Array]:
            return cell[part], weight[part], sums[part]

        left = None
        if isinstance(groups, TimeBlocks):
            near_w, near_x = groups.near(label, w, x)
            each, close = entry.reshape(-1), x * near_x
            left = (
                np.bincount(label, w * near_w, m),
                np.bincount(label, close, m),
                np.bincount(each, close),
            )
        return _Entries(len(key), entries, sums, key % groups[1], by_row, left)

    def __iter__(self) -> Iterator[tuple[Array, Any, Array, Array]]:
        """Blocks of (cell, unit, weight, x); without clusters the units of a block are its rows."""
        for part in wide_blocks(self.near, self.number, _UNIT_NUMBERS):
            cell, w, x = self.entry(part)
            yield cell, part if self.unit is None else self.unit[part], w, x
