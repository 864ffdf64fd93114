"""How far U and the gap stray: the variance that is there under calibration, and how it grows with the miscalibration.

Both are sums over pairs of different rows (or clusters: *units*) that share a cell,

    θ = Σ_views Σ_B a_B Σ_{C≠D} X_BC X_BD,     X_BC = Σ w·residual of unit C in cell B,

with a_B = 1/(k Σw²) for U and a_B = λ_B/(k W) for gap², λ_B as in the score (`core.table.pair_rates`). Given the
reports, Var θ ≈ v + c·μ at E θ = μ: v is there under calibration, c·μ grows with the bias.

    h_C = what unit C adds, Σ h = θ;   V = 4 Σ (h_C − θ W_C/W)², the jackknife's estimate, of expectation 2v + cμ
    v   = 2 Σ_B a_B² Σ_{C≠D} X_BC² X_BD² for one view; for several views, whose residuals depend on each other, and for
          clusters: the interaction part of the pairs between 64 blocks of units that do not look at labels
    c₀  = the slope c if the bias of each cell were proportional to its mean squared residual (a shift of the logits)
    c   = (max(V − 2v, 0) + c₀√v)/(max(θ, 0) + √v)

and an interval is all μ with (θ − μ)² ≤ t²(v + c·max(μ, 0)), its upper end at least 0, as Wilson's for a proportion.
Rows of equal reports that a cut divides count for the cell that holds most of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit

from ..backends.arrays import beside, cell_totals, compiled_spreads, dot, indices, namespace, ones
from ..backends.numpy import DISPATCH, transposed_tile
from ..core.cells import BinCells, KernelCells, Piece
from ..core.data import wide_blocks, working_dtype
from ..core.errors import Parts
from ..core.sample import EVERY, Sample
from ..core.table import pair_rates
from ..core.types import Array, Groups
from .frozen import Frozen
from .options import effective_number, per_unit

Of = Literal["gap", "U"]

MOST_KEPT = 1 << 17
"""With more rows than this, what each of them adds is recomputed for every use."""
BLOCKS = 64
_UNIT_NUMBERS = 4  # that a unit has while a block of them is looked at
FEW_BLOCKS = 16  # for kernels of several views, where a block costs a pass over all rows
_TILE = 1 << 22  # reports of the views that one core holds at a time
_MOST_WAITING = 1 << 16  # cells of views whose blocks are multiplied at once
SCARCE_PAIRS = 15.0
"""With fewer effective pairs of surprising outcomes in one cell, no interval is reliable."""
FEW_UNITS = 10.0
"""With fewer effective units (Kish's (Σ size)²/Σ size²), neither."""
MORE = 4.0  # surprises added where they are scarce: about as many as may be expected where none was seen
SCARCE_NOTE = "unreliable: too few surprising outcomes share a bin; take more rows or fewer bins"
FEW_NOTE = "unreliable: too few rows or clusters"


@dataclass(frozen=True, eq=False)
class Units:
    """Rows or clusters with their weights, None where each row counts 1, looked at a block at a time."""

    number: int
    weights: Array | None
    near: Array = field(default_factory=lambda: np.zeros(0))
    """An array beside which numbers are made: of numpy, or a tensor."""

    def blocks(self) -> Iterable[slice]:
        """Units that are looked at together."""
        return wide_blocks(self.near, self.number, _UNIT_NUMBERS)

    def weight(self, units: slice = EVERY) -> Array:
        """The weights of some units."""
        if self.weights is not None:
            return self.weights[units]
        return ones(len(range(*units.indices(self.number))), self.near)  # type: ignore[no-any-return]  # an array

    @property
    def total(self) -> float:
        return float(self.number if self.weights is None else self.weights.sum())

    @property
    def effective(self) -> float:
        """Kish's effective number, (Σ w)²/Σ w²."""
        return float(self.number) if self.weights is None else effective_number(self.weights)

    def squares(self, values: Callable[[slice], Array], mean: float) -> float:
        """Σ of squared values, each less its weight's share of `mean`."""
        share, found = mean / self.total, 0.0
        for units in self.blocks():
            rest = values(units) - share * self.weight(units)
            found += dot(rest, rest)
        return found


@dataclass(eq=False)
class Spread:
    """The sums behind one interval; h and H of two models on the same rows can be subtracted."""

    theta: float
    influence: Callable[[slice], Array]
    """h of some units: kept, or recomputed where there are millions of them."""
    H: Array
    by: Units
    v_exact: float | None = None
    c0: float = 0.0
    pairs: float = 0.0
    """Effective number of pairs of surprising outcomes that share a cell."""
    even: tuple[float, float] = (0.0, 0.0)
    """v and c if the surprises seen, and a few more, were spread evenly."""
    unit: float = 0.0
    """What U would be if the squared gap were 1 in every cell."""

    def __sub__(self, other: Spread) -> Spread:
        """The spread of a difference on the same rows and blocks."""

        def influence(units: slice) -> Array:
            return self.influence(units) - other.influence(units)

        return Spread(self.theta - other.theta, influence, self.H - other.H, self.by)

    @property
    def h(self) -> Array:
        """What each unit adds to θ."""
        return self.influence(EVERY)

    @property
    def units(self) -> float:
        """Kish's effective number of units."""
        return self.by.effective

    @property
    def freedom(self) -> float:
        """Degrees of freedom: effective units, or blocks of them, less one."""
        return max(1.0, min(self.units, len(self.H)) - 1.0)

    @property
    def centred(self) -> Array:
        """What each unit adds, less its share by weight."""
        return self.h - self.theta / self.by.total * self.by.weight()

    @cached_property
    def jackknife(self) -> float:
        """V, of expectation 2v + cμ."""
        return 4 * self.by.squares(self.influence, self.theta)

    @property
    def note(self) -> str:
        """Why no claim rests on this, or nothing."""
        if self.units < FEW_UNITS or len(self.H) < 4:
            return FEW_NOTE
        return SCARCE_NOTE if self.pairs < SCARCE_PAIRS else ""

    def quantile(self, level: float) -> float:
        return float(stdtrit(self.freedom, (1 + level) / 2))

    def variances(self) -> tuple[float, float]:
        """v, and the jackknife's V."""
        v = _interaction(self.H) if self.v_exact is None else self.v_exact
        return max(v, 0.0), self.jackknife

    def interval(self, level: float) -> tuple[float, float, float]:
        """Low, high and standard error; where surprises are scarce as wide as evenly spread ones would make it."""
        v, whole = self.variances()
        root = np.sqrt(v)
        c = (max(whole - 2 * v, 0.0) + self.c0 * root) / (max(self.theta, 0.0) + root) if root > 0 else self.c0
        if self.pairs < SCARCE_PAIRS:
            v, c = max(v, self.even[0]), max(c, self.even[1])
        low, high = _solve(self.theta, v, c, self.quantile(level))
        return low, high, float(np.sqrt(v + c * max(self.theta, 0.0)))


def paired_spread(a: Spread, b: Spread, level: float) -> tuple[float, float, float, str]:
    """Low, high and se of θ_a − θ_b on the same rows and blocks, and why no claim rests on it.

    Where one of the two is unreliable the interval also holds every difference of the two wide ones.
    """
    d = a - b
    v, whole = d.variances()
    se = float(np.sqrt(max(v, whole - v, 0.0)))
    half = d.quantile(level) * se
    low, high, note = d.theta - half, d.theta + half, a.note or b.note
    if note:
        (low_a, high_a, _), (low_b, high_b, _) = a.interval(level), b.interval(level)
        low, high = min(low, low_a - high_b), max(high, high_a - low_b)
    return low, high, se, note


def _interaction(H: Array) -> float:
    """v from the pairs between blocks: H_ab = mean + α_a + α_b + e_ab, and v is what the e add to θ."""
    blocks = len(H)
    if blocks < 2:
        return 0.0
    row = H.sum(axis=1)
    half = row.sum() / 2
    grow = blocks / (blocks - 1)  # pairs inside blocks are missing
    if blocks < 4:
        return 2 * float(np.square(row - row.mean()).sum()) * grow**2
    alpha = (blocks * row - 2 * half) / (blocks * (blocks - 2))
    rest = H - 2 * half / (blocks * (blocks - 1)) - alpha[:, None] - alpha
    np.fill_diagonal(rest, 0.0)
    return 2 * float(np.square(rest).sum()) / (blocks - 3) * (blocks - 1) * grow


def _solve(theta: float, v: float, c: float, t: float) -> tuple[float, float]:
    """All μ with (θ − μ)² ≤ t²(v + c·max(μ, 0)); the upper end at least 0."""
    sd = t * np.sqrt(v)
    middle = theta + t * t * c / 2
    root = np.sqrt(max(t * t * (v + c * theta) + (t * t * c / 2) ** 2, 0.0))
    low = theta - sd if theta <= sd else middle - root
    high = theta + sd if theta < -sd else middle + root
    return float(low), float(max(high, 0.0))


def spreads(
    frozen: Frozen,
    groups: Groups | None = None,
    of: Of = "gap",
    counts: tuple[int, ...] | None = None,
    folds: Groups | None = None,
) -> tuple[Spread, ...]:
    """The spread of gap² or of U at all bin counts or those numbered in `counts`, in O(n) a view after the sort.

    With `folds` each fold has its own quantile bins: predictions of one fold depend on the labels of the others, so
    that only pairs of rows of the same fold say something about calibration.
    """
    sample = frozen.sample
    chosen = tuple(range(len(frozen.counts))) if counts is None else counts
    sums = [ViewSums(sample, groups, of) for _ in chosen]
    labels_of = range(len(chosen)) if frozen.cells.recomputed else chosen

    def add(piece: Piece) -> None:
        if isinstance(piece.cells, KernelCells):
            sums[0].add_kernel(piece, frozen)
            return
        homes = _homes(piece.cells, labels_of) if folds is None else [np.zeros(0)] * len(chosen)
        for j in range(piece.columns.start, piece.columns.stop):
            for c, own, home in zip(chosen, sums, homes, strict=True):
                atom = piece.cells.atom
                if folds is not None:
                    atom = fold_bins(sample.view(j), folds, frozen.counts[c] or 1)
                    home = np.arange(int(atom.max()) + 1)
                own.add_view(View(sample, j, atom, home))

    compiled = _compiled(frozen, chosen) if groups is None and folds is None else None
    if compiled is not None:
        compiled.add_to(sums)
    else:
        pieces = frozen.cells.at(tuple(m for m in (frozen.counts[c] for c in chosen) if m is not None))
        large = sample.rows * sample.views >= DISPATCH.parallel_views and not sample.tensors
        _while_next_is_made(add, pieces, large)
    one = sample.views == 1 and groups is None
    pooled = groups is None and folds is None
    thetas = [_theta(frozen.parts[c], of) if pooled else None for c in chosen]
    return tuple(s.spread(theta, one) for s, theta in zip(sums, thetas, strict=True))


def _while_next_is_made(add: Callable[[Piece], None], pieces: Iterable[Piece], large: bool) -> None:
    """Add up the pieces in their order, each while the cells of the next one are made."""
    if not large:
        for piece in pieces:
            add(piece)
        return
    with ThreadPoolExecutor(1) as pool:
        last: Future[None] | None = None
        for piece in pieces:
            if last is not None:
                last.result()
            last = pool.submit(add, piece)
        if last is not None:
            last.result()


@dataclass(frozen=True, eq=False)
class _Compiled:
    """Quantile bins of many 0/1 outcomes: cells and sums of each view in compiled loops, the views on all cores."""

    loops: Any
    sample: Sample
    cuts: tuple[Array, ...]
    """Of each bin count, between the sorted reports."""
    to: int
    """Where a block of equal reports goes."""

    def add_to(self, sums: list[ViewSums]) -> None:
        """Add all views to the sums of each bin count."""
        views, rows = self.sample.views, self.sample.rows
        width = min(max(1, _TILE // rows), -(-views // DISPATCH.threads))
        tiles = [slice(j, min(views, j + width)) for j in range(0, views, width)]
        if len(tiles) == 1:
            self._add_tile(sums, tiles[0])
            return
        with ThreadPoolExecutor(DISPATCH.threads) as pool:
            for found in pool.map(lambda tile: self._add_tile([own.apart() for own in sums], tile), tiles):
                for own, more in zip(sums, found, strict=True):
                    own.add(more)

    def _add_tile(self, sums: list[ViewSums], tile: slice) -> list[ViewSums]:
        reports, dtype = self.sample.reports, working_dtype(self.sample.reports)
        one = reports.ndim == 1
        columns = np.ascontiguousarray(reports, dtype)[None] if one else transposed_tile(reports, tile, dtype)
        for column, j in zip(columns, range(tile.start, tile.stop), strict=True):
            for own, cuts in zip(sums, self.cuts, strict=True):
                cell = self.loops.quantile_cells(column, cuts, self.to)
                own.add_cells(self.loops, column, self.labels, j + one, cell, len(cuts) + 1)
        return sums

    @cached_property
    def labels(self) -> Array:
        """The class of each row; whether the event came is 0 or 1."""
        assert self.sample.marks is not None
        return self.sample.marks.astype(np.int32)


def _compiled(frozen: Frozen, chosen: tuple[int, ...]) -> _Compiled | None:
    """The loops for this sample, where it is large and its cuts depend on the number of rows alone."""
    sample, rule, ties = frozen.sample, frozen.error.binning, frozen.error.ties
    if sample.tensors or sample.shares is not None or needs_cells_by_row(sample, ties):
        return None
    if sample.reports.size < DISPATCH.compiled_spread:
        return None
    cuts = rule.shared_cuts(sample.rows)
    if cuts is None or working_dtype(sample.reports).itemsize > 8:
        return None
    loops = compiled_spreads()
    if loops is None:
        return None
    to = loops.FIRST if ties == "together" else loops.MOST
    return _Compiled(loops, sample, tuple(cuts[c] for c in chosen), to)


def needs_cells_by_row(sample: Sample, ties: str) -> bool:
    """Whether cells are no intervals of one probability: real outcomes, vectors, ties by row."""
    return sample.marks is None or sample.joint or ties not in ("average", "together")


def _theta(parts: Parts, of: Of) -> float:
    """The estimate itself, exact over orders of ties."""
    return parts.gap_sq if of == "gap" else parts.U


def fold_bins(reports: Array, folds: Groups, n_bins: int) -> Array:
    """The quantile bin of each row within its fold; a block of equal reports goes whole to the bin of its middle.

    A fold of n_f of the n rows has n_bins·(n_f/n)^(2/5) bins, as the automatic count has, and at least two rows a bin.
    """
    fold, number = folds
    order = np.lexsort((reports, fold))
    ordered, home = reports[order], fold[order]
    size = np.bincount(fold, minlength=number)
    bins = np.clip(np.rint(n_bins * (size / len(fold)) ** 0.4), 1, np.maximum(size // 2, 1)).astype(np.intp)
    new = np.r_[True, (ordered[1:] != ordered[:-1]) | (home[1:] != home[:-1])]
    starts = np.flatnonzero(new)
    ends = np.append(starts[1:], len(order))
    own = home[starts]
    middle = (starts + ends - 1) // 2 - (np.cumsum(size) - size)[own]
    cell = ((middle + 1) * bins[own] - 1) // size[own] + (np.cumsum(bins) - bins)[own]
    out = np.empty(len(order), dtype=np.intp)
    out[order] = cell[np.cumsum(new) - 1]
    return out


def _homes(cells: BinCells, counts: Iterable[int]) -> list[Array]:
    """For each of these bin counts the bin of every atom: of a divided block, the one with its largest share."""
    out = []
    for bins in (cells.bins[c] for c in counts):
        if bins.share is None:
            out.append(np.arange(len(cells.sizes)))
        else:
            shares = bins.share.tocsc()  # every atom has a share in some bin
            column = np.repeat(np.arange(shares.shape[1]), np.diff(shares.indptr))
            largest = np.flatnonzero(shares.data == np.maximum.reduceat(shares.data, shares.indptr[:-1])[column])
            out.append(shares.indices[largest[np.searchsorted(column[largest], np.arange(shares.shape[1]))]])
    return out


@dataclass(frozen=True, eq=False)
class View:
    """One view at one bin count: the bin, the weight and w·residual of its rows, made when they are asked for."""

    sample: Sample
    view: int
    atom: Array
    home: Array

    @property
    def cells(self) -> int:
        return int(self.home.max()) + 1

    def of(self, rows: slice) -> tuple[Array, Array, Array]:
        """Bin, weight and w·residual of some rows."""
        x = self.sample.residuals(slice(self.view, self.view + 1), rows)[0]
        return beside(self.home, x)[self.atom[rows]], self.sample.weights_of(rows), x


_ADDED = (
    "theta", "v", "slope", "norm", "plain_norm", "meet", "meet_sq", "even_v", "even_c", "pair_weight"
)  # fmt: skip


@dataclass(eq=False)
class ViewSums:
    """What is added up over the views, at one bin count."""

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
        self.by = Units(sample.rows, sample.weights, sample.reports)
        if self.groups is not None:
            self.by = Units(self.groups[1], per_unit(sample.row_weights, self.groups), sample.reports)
        self.block = _blocks(self.by)
        self.H = np.zeros((int(self.block.max()) + 1,) * 2)
        self._waiting: list[tuple[Array, Array]] = []
        self.lasting = False
        if self.several or self.groups is not None or sample.rows <= MOST_KEPT:
            self._keep()

    def _keep(self) -> None:
        """Keep what each unit adds, instead of recomputing it when it is asked for."""
        self.lasting, self.h = True, 0.0 * ones(self.by.number, self.sample.reports)
        self.influence = self.h.__getitem__

    def add_view(self, view: View) -> None:
        """One view, in blocks of rows, so that millions need no copies of them."""
        entries = _Entries.of(view, self.groups)
        m, blocks = entries.cells, len(self.H)
        sums, table, one, two = np.zeros((8, m)), np.zeros(blocks * m), 0.0, 0.0
        for cell, unit, w, x in entries:
            found, ones, twos = _cell_sums(cell, w, x, m, self.unit_sq)
            sums, one, two = sums + found, one + ones, two + twos
            table += cell_totals(indices(self.block[unit]) * m + cell, [x], blocks * m)[0]
        share = 1.0 if self.sample.shares is None else float(self.sample.shares[view.view])
        about = self._add_sums(sums, one, two, entries.by_row, share)
        self._waiting.append((table.reshape(blocks, m), about[3]))
        if sum(len(rates) for _, rates in self._waiting) > _MOST_WAITING:
            self._add_waiting()
        slope = np.zeros(0 if self.groups is None else self.by.number)
        if self.sample.tensors:
            about = tuple([beside(y, self.sample.reports) for y in about])
        pulls, means, weights, rates, totals = about
        for cell, unit, w, x in entries:
            each = pulls[cell] * (x - w * means[cell]) * (weights[cell] - w)
            if self.groups is None:
                self.slope += 4 * dot(each, each)
            else:
                slope += np.bincount(unit, each, self.by.number)
            own_part = rates[cell] * x * (totals[cell] - x) if self.lasting else None
            if own_part is not None and self.groups is None:
                self.h[unit] += own_part
            elif own_part is not None:
                self.h += np.bincount(unit, own_part, len(self.h))
        if not self.lasting:
            self.influence = partial(_row_influence, view, rates, totals)
        self.slope += 4 * float(slope @ slope)

    def add_cells(self, loops: Any, column: Array, labels: Array, label: int, cell: Array, m: int) -> None:
        """One view, in compiled loops: its reports, the classes that came and the one in question, and its cells."""
        weights = np.zeros(0) if self.sample.weights is None else self.sample.weights
        row = (column, labels, label, weights, cell)
        sums, table, one, two = loops.view_sums(*row, self.block, self.unit_sq, (len(self.H), m))
        about = self._add_sums(sums, one, two, None)
        loops.add_products(table, about[3], self.H)
        self.slope += 4 * loops.add_influence(*row, about, self.h if self.lasting else np.zeros(0))
        if not self.lasting:
            view = View(self.sample, 0, cell, np.arange(m))
            self.influence = partial(_row_influence, view, *about[3:])

    def _add_sums(
        self, sums: Array, one: float, two: float, by_row: tuple[Array, Array] | None, share: float = 1.0
    ) -> tuple[Array, Array, Array, Array, Array]:
        """Add what the cells of a view say, from `_cell_sums`; pull, mean, weight, rate and total of each cell."""
        rows, weight, weight_sq, total, own, fourth, surprises, surprises_sq = sums
        mass = np.where(rows >= 2, np.maximum(weight * weight - weight_sq, 0.0), 0.0)
        a = share * self._coefficients(weight, weight_sq, mass)
        self.theta += float(a @ (total * total - own))
        self.pair_weight += share * float(mass.sum()) / self.averaged
        self.v += 2 * float((a * a) @ (own * own - fourth))
        bias = over(*((own, weight_sq) if by_row is None else by_row))
        self.norm += float((a * bias * bias) @ mass)
        self.plain_norm += float(a @ mass)
        if two > 0:
            met = 0.5 * np.maximum(np.square(surprises) - surprises_sq, 0.0) * (one / two) ** 2
            self.meet += float((a * a) @ met)
            self.meet_sq += float((a**4) @ met)
        largest_sq = self.unit_sq * self.largest**2
        even_v, even_c = even_parts(a, weight, float(own.sum()), self.averaged, self.several, largest_sq)
        self.even_v += even_v
        self.even_c += even_c
        return a * bias, over(total, weight), weight, a, total

    def apart(self) -> ViewSums:
        """Sums of other views, which start at nothing."""
        other = copy(self)
        for name in _ADDED:
            setattr(other, name, 0.0)
        other.H, other._waiting = np.zeros_like(self.H), []
        if self.lasting:
            other._keep()
        return other

    def add(self, other: ViewSums) -> None:
        """Those of both, of several views."""
        other._add_waiting()
        for name in _ADDED:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.H += other.H
        self.h += other.h

    def _add_waiting(self) -> None:
        """One product for the blocks of many views: small ones would be shared among threads at a loss."""
        if self._waiting:
            tables, rates = zip(*self._waiting, strict=True)
            table = np.concatenate(tables, axis=1) * np.sqrt(np.concatenate(rates))
            self.H += table @ table.T  # of one array: half the products
            self._waiting.clear()

    def _coefficients(self, weight: Array, weight_sq: Array, mass: Array) -> Array:
        if self.of == "U":
            return np.full(len(weight), 1.0 / (self.averaged * self.sample.total_weight_sq))
        largest = self.largest if self.groups is None else float(self.by.weight().max())
        return pair_rates(weight, weight_sq, mass, largest) / (self.averaged * self.by.total)

    def add_kernel(self, piece: Piece, frozen: Frozen) -> None:
        """One piece of an average over cuts: the same sums through its kernel."""
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

    def spread(self, theta: float | None, exact: bool) -> Spread:
        """All of it, with the exact estimate where it is known."""
        self._add_waiting()
        np.fill_diagonal(self.H, 0.0)
        twice = 2.0 if self.several else 1.0  # classes of one row vary against each other: up to about twice
        return Spread(
            theta=self.theta if theta is None or not np.isfinite(theta) else theta,
            influence=self.influence,
            H=self.H,
            by=self.by,
            v_exact=self.v if exact else None,
            c0=twice * self.slope / self.norm if self.norm > 0 else 0.0,
            pairs=self.meet**2 / self.meet_sq if self.meet_sq > 0 else 0.0,
            even=(self.even_v, self.even_c / self.plain_norm if self.plain_norm > 0 else 0.0),
            unit=self.pair_weight / self.sample.total_weight_sq,
        )


def even_parts(
    a: Array, weight: Array, own: float, averaged: int, several: bool, largest_sq: float
) -> tuple[float, float]:
    """v and c·norm of one view if the surprises seen, and a few more, were spread evenly over the weight."""
    more = MORE * (2.0 / averaged if several else 1.0) * largest_sq
    spread = (own + more) * weight / weight.sum()
    return 2 * float((a * a) @ (spread * spread)), 4 * float((a * a) @ (spread * np.square(weight)))


def _blocks(by: Units) -> Array:
    """The block of each unit, in turn; units without weight are none."""
    counted = by.number if by.weights is None else int((by.weights != 0).sum())
    blocks, before = min(BLOCKS, max(1, counted)), 0
    xp = namespace(by.near)
    out = xp.empty(by.number, dtype=xp.uint8, device=by.near.device)
    for units in by.blocks():
        number = before + (by.weight(units) > 0).cumsum(0)
        out[units] = xp.clip(number - 1, 0, None) % blocks
        before = int(number[-1])
    return out  # type: ignore[no-any-return]  # an array or a tensor


def _row_influence(view: View, a: Array, total: Array, rows: slice) -> Array:
    cell, _, x = view.of(rows)
    return a[cell] * x * (total[cell] - x)  # type: ignore[no-any-return]  # an array or a tensor


def over(numerator: Array, denominator: Array) -> Array:
    """The ratio, 0 where there is nothing to divide by."""
    some, where = denominator > 0, namespace(denominator).where
    return where(some, numerator / where(some, denominator, 1.0), 0.0)  # type: ignore[no-any-return]  # an array or a tensor


def _unit(sample: Sample) -> float:
    """How far apart outcomes can be, or where nothing bounds them, are: 1 for classes, whatever for values."""
    if sample.values is None or sample.bounds is not None:
        low, high = sample.bounds or (0.0, 1.0)
        return high - low
    return float(sample.values.max() - sample.values.min()) or 1.0


def _surprise(w: Array, squares: Array) -> Array:
    """A row at 1/2 is worth one surprise, a row at .99 that came true next to nothing."""
    return namespace(w).minimum(w, 4 * over(squares, w))  # type: ignore[no-any-return]  # an array or a tensor


def _cell_sums(cell: Array, w: Array, x: Array, m: int, unit_sq: float) -> tuple[Array, float, float]:
    """(8, m) sums over the entries of each cell, and of all entries Σ surprise and Σ w·surprise."""
    squares = x * x
    surprise = _surprise(w, squares / unit_sq)
    every = (w > 0, w, w * w, x, squares, squares * squares, surprise, surprise * surprise)
    return cell_totals(cell, every, m), float(surprise.sum()), dot(w, surprise)


@dataclass(frozen=True)
class _Entries:
    """One view by (unit, cell): the rows themselves, or what the rows of a cluster add to a cell."""

    cells: int
    number: int
    entry: Callable[[slice], tuple[Array, Array, Array]]
    """Cell, weight and x of some entries."""
    near: Array
    unit: Array | None = None
    by_row: tuple[Array, Array] | None = None
    """With clusters, per cell: Σ (w·residual)² and Σ w² over rows."""

    @staticmethod
    def of(view: View, groups: Groups | None) -> _Entries:
        m = view.cells
        if groups is None:
            return _Entries(m, view.sample.rows, view.of, view.sample.reports)
        label, w, x = view.of(EVERY)
        key, entry = np.unique(label.astype(np.int64) * groups[1] + groups[0], return_inverse=True)
        cell, (weight, sums) = key // groups[1], (np.bincount(entry.reshape(-1), y) for y in (w, x))
        by_row = np.bincount(label, np.square(x), m), np.bincount(label, np.square(w), m)

        def entries(part: slice) -> tuple[Array, Array, Array]:
            return cell[part], weight[part], sums[part]

        return _Entries(m, len(key), entries, sums, key % groups[1], by_row)

    def __iter__(self) -> Iterator[tuple[Array, Any, Array, Array]]:
        """Blocks of (cell, unit, weight, x); without clusters the units of a block are its rows."""
        for part in wide_blocks(self.near, self.number, _UNIT_NUMBERS):
            cell, w, x = self.entry(part)
            yield cell, part if self.unit is None else self.unit[part], w, x
