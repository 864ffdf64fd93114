"""Intervals of U and gap²: their variance under calibration, and how it grows with the miscalibration.

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
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..core.arrays import compiled_loops, to_device_of
from ..core.cells import Piece, block_bin
from ..core.data import working_dtype
from ..core.dispatch import DISPATCH
from ..core.sample import EVERY, Sample
from ..core.types import Array, Groups
from ..sums.plain import transposed_tile
from .binned_sample import BinnedSample
from .checks import TimeBlocks
from .view_sums import FEW_ENTRIES, Of, Units, Views, ViewSums

_TILE = 1 << 22  # reports of the views that one core holds at a time
SCARCE_PAIRS = 15.0
"""With fewer effective pairs of surprising outcomes in one cell, no interval is reliable."""
FEW_UNITS = 10.0
"""With fewer effective units (Kish's (Σ size)²/Σ size²), neither."""
SCARCE_NOTE = "unreliable: too few surprising outcomes share a bin; take more rows or fewer bins"
FEW_NOTE = "unreliable: too few rows or clusters"


@dataclass(eq=False)
class Spread:
    """The sums of one interval; those of two models on the same rows can be subtracted."""

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
    stretch: float = 1.0
    """By what variances of sums over units grow because neighbouring units depend on each other."""
    _known: dict[float, tuple[float, float, float]] = field(default_factory=dict, init=False)

    def __sub__(self, other: Spread) -> Spread:
        """The spread of a difference on the same rows and blocks."""

        def influence(units: slice) -> Array:
            return self.influence(units) - other.influence(units)

        return Spread(self.theta - other.theta, influence, self.H - other.H, self.by, stretch=self.stretch)

    @property
    def h(self) -> Array:
        """The influence of each unit on θ."""
        return self.influence(EVERY)

    @property
    def freedom(self) -> float:
        """Degrees of freedom: effective units, or blocks of them, less one."""
        return max(1.0, min(self.by.effective, len(self.H)) - 1.0)

    @property
    def centred(self) -> Array:
        """The influence of each unit, less its share of θ by weight."""
        return self.h - self.theta / self.by.total * self.by.weights

    @cached_property
    def jackknife(self) -> float:
        """V, of expectation 2v + cμ."""
        return 4 * self.stretch * self.by.squares(self.influence, self.theta)

    @property
    def note(self) -> str:
        """Why the interval is unreliable; empty otherwise."""
        if self.by.effective < FEW_UNITS or len(self.H) < 4:
            return FEW_NOTE
        return SCARCE_NOTE if self.pairs < SCARCE_PAIRS else ""

    def quantile(self, level: float) -> float:
        return float(stdtrit(self.freedom, (1 + level) / 2))

    def variances(self) -> tuple[float, float]:
        """v, and the jackknife's V."""
        v = self.stretch**2 * _interaction(self.H) if self.v_exact is None else self.v_exact
        return max(v, 0.0), self.jackknife

    def interval(self, level: float) -> tuple[float, float, float]:
        """Return low, high and standard error; where surprises are scarce, as if they were spread evenly."""
        if level in self._known:
            return self._known[level]
        v, whole = self.variances()
        root = np.sqrt(v)
        c = (max(whole - 2 * v, 0.0) + self.c0 * root) / (max(self.theta, 0.0) + root) if root > 0 else self.c0
        if self.pairs < SCARCE_PAIRS:
            v, c = max(v, self.even[0]), max(c, self.even[1])
        low, high = _solve(self.theta, v, c, self.quantile(level))
        self._known[level] = low, high, float(np.sqrt(v + c * max(self.theta, 0.0)))
        return self._known[level]


def paired_spread(a: Spread, b: Spread, level: float) -> tuple[float, float, float, str]:
    """Return low, high and se of θ_a − θ_b on the same rows and blocks, and why the interval is unreliable.

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
    frozen: BinnedSample,
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
    places = range(len(chosen)) if frozen.cells.recomputed else chosen

    def add(some: list[tuple[Any, int]]) -> None:
        every, columns = [cells for cells, _ in some], slice(some[0][1], some[-1][1] + 1)
        atoms = every[0].atom if len(some) == 1 else np.stack([cells.atom for cells in every])
        x = None if len(some) == 1 else sample.residuals(columns)
        for c, place, own in zip(chosen, places, sums, strict=True):
            if folds is None:
                homes = [to_device_of(cells.bins[place].home, sample.reports) for cells in every]
                own.add_views(Views(sample, columns, atoms, homes, x))
            else:
                cell = fold_bins(sample.view(columns.start), folds, frozen.counts[c] or 1)
                own.add_views(Views(sample, columns, cell, [np.arange(int(cell.max()) + 1)]))

    compiled = _compiled(frozen, chosen) if groups is None and folds is None else None
    if compiled is not None:
        compiled.add_to(sums)
    else:
        pieces = frozen.cells.at(tuple([m for m in map(frozen.counts.__getitem__, chosen) if m is not None]))
        large = sample.rows * sample.views >= DISPATCH.parallel_views and not sample.tensors
        if frozen.error.binning.averages:
            _while_next_is_made(partial(sums[0].add_kernel, frozen=frozen), pieces, large)
        else:
            alone = sample.tensors or folds is not None or isinstance(groups, TimeBlocks)
            most = 1 if alone else max(1, FEW_ENTRIES // sample.rows)
            _while_next_is_made(add, _some_views(pieces, most), large)
    one = sample.views == 1 and groups is None
    thetas: list[float | None] = [None] * len(chosen)
    if groups is None and folds is None:  # the estimates themselves are exact over orders of ties
        thetas = [frozen.parts[c].gap_sq if of == "gap" else frozen.parts[c].U for c in chosen]
    return tuple([spread_of(s, theta, one) for s, theta in zip(sums, thetas, strict=True)])


def spread_of(sums: ViewSums, theta: float | None, exact: bool) -> Spread:
    """The spread that these sums give, with the exact estimate where it is known."""
    sums.add_waiting()
    np.fill_diagonal(sums.H, 0.0)
    twice = 2.0 if sums.several else 1.0  # classes of one row vary against each other: up to about twice
    return Spread(
        theta=sums.theta if theta is None or not np.isfinite(theta) else theta,
        influence=sums.influence,
        H=sums.H,
        by=sums.by,
        v_exact=sums.v if exact else None,
        c0=twice * sums.slope / sums.norm if sums.norm > 0 else 0.0,
        pairs=sums.meet**2 / sums.meet_sq if sums.meet_sq > 0 else 0.0,
        even=(sums.even_v, sums.even_c / sums.plain_norm if sums.plain_norm > 0 else 0.0),
        unit=sums.pair_weight / sums.sample.total_weight_sq,
        stretch=sums.groups.stretch if isinstance(sums.groups, TimeBlocks) else 1.0,
    )


def _some_views(pieces: Iterable[Piece], most: int) -> Iterator[list[tuple[Any, int]]]:
    """The cells and number of each view, so many views at a time."""
    some: list[tuple[Any, int]] = []
    for piece in pieces:
        for j in range(piece.columns.start, piece.columns.stop):
            some.append((piece.cells, j))
            if len(some) == most:
                yield some
                some = []
    if some:
        yield some


def _while_next_is_made(add: Callable[[Any], None], pieces: Iterable[Any], large: bool) -> None:
    """Add the pieces in their order, each while the cells of the next one are computed."""
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
    together: bool
    """Whether a block of equal reports goes to the cell of its first row, not of its middle one."""

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
                cell = self.loops.quantile_cells(column, cuts, self.together)
                own.add_cells(self.loops, column, self.labels, j + one, cell, len(cuts) + 1)
        return sums

    @cached_property
    def labels(self) -> Array:
        """The class of each row; whether the event came is 0 or 1."""
        assert self.sample.marks is not None
        return self.sample.marks.astype(np.int32)


def _compiled(frozen: BinnedSample, chosen: tuple[int, ...]) -> _Compiled | None:
    """The loops for this sample, where it is large and its cuts depend on the number of rows alone."""
    sample, rule, ties = frozen.sample, frozen.error.binning, frozen.error.ties
    intervals = sample.marks is not None and not sample.joint and ties in ("average", "together")
    if sample.tensors or sample.shares is not None or not intervals:  # cells are no intervals of one probability
        return None
    if sample.reports.size < DISPATCH.compiled_spread:
        return None
    cuts = rule.shared_cuts(sample.rows)
    if cuts is None or working_dtype(sample.reports).itemsize > 8:
        return None
    loops = compiled_loops("_spreads")
    if loops is None:
        return None
    return _Compiled(loops, sample, tuple(cuts[c] for c in chosen), ties == "together")


def fold_bins(reports: Array, folds: Groups, n_bins: int) -> Array:
    """The quantile bin of each row within its fold; equal reports share one (`block_bin`).

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
    before = (np.cumsum(size) - size)[own]
    cell = block_bin(starts - before, ends - before, size[own], bins[own]) + (np.cumsum(bins) - bins)[own]
    out = np.empty(len(order), dtype=np.intp)
    out[order] = cell[np.cumsum(new) - 1]
    return out
