"""The one generator of cells: a rule's quadratic form frozen at the reports, for tables and inference alike.

G_ij is the chance that rows i and j share a cell, over whatever the rule averages (orders of ties, random cuts). As a
rule sees reports only, G stays the same when outcomes are drawn anew or rows are left out; all inference rests on that.

Two shapes of G cover every rule. Bins: rows fall into *atoms* (runs of rows that always go together, or a block of
equal reports that a cut divides), and with a(i) the atom of row i

    G_ij = Σ_B M_Ba M_Bb + 1[a = b]·d_a   for i ≠ j in atoms a, b,     M_Ba = the share of atom a that goes to bin B.

A block of t rows that gives s_B of them to bin B has M_Ba = s_B/t and, for two of its rows, the exact chance
g_a = Σ_B s_B(s_B − 1)/(t(t − 1)) of meeting, so d_a = g_a − Σ_B (s_B/t)². Whole atoms have M = 1, g = 1, d = 0.
Kernels (two-bin, Poisson): G_ij is a function of |u_i − u_j|, summed by one pass over the sorted reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .data import rounding_slack, row_blocks, working_dtype
from .rules import (
    AveragedRule,
    BinningRule,
    Edges,
    FixedRule,
    Halfspaces,
    OnGrid,
    Partition,
    Poisson,
    RankRule,
    Runs,
    TwoBin,
    VectorRule,
    decayed_prefix,
)
from .sample import Bounds, Sample
from .types import Array

Blocks = Callable[[Array], tuple[Array, Array]]
"""For sorted places, where the block of equal reports that each lies in begins and ends."""


@dataclass(frozen=True)
class Bins:
    """The non-empty bins of one bin count over atoms: M as a sparse (bins, atoms) matrix (None: each atom is a bin)."""

    share: Any
    together: Array
    """g: the chance that two rows of an atom meet."""
    extra: Array
    """d: how much that chance differs from what the shares alone would give."""
    occupied: Array
    """The place of each non-empty bin among all bins."""
    total: int
    """The number of all bins, empty ones too."""
    alone: bool = False
    """No bin holds two rows: there are no pairs, and every pair sum is exactly 0 rather than a rounding error."""

    @property
    def number(self) -> int:
        """How many bins hold rows."""
        return len(self.occupied)

    @property
    def split(self) -> bool:
        """Whether a cut divides some block of equal reports."""
        return bool(self.extra.any())

    def sums(self, atoms: Array) -> Array:
        """Bin sums (bins, ...) of atom sums (atoms, ...)."""
        return atoms if self.share is None else np.asarray(self.share @ atoms)

    def tie_variance(self, atoms: Array, squares: Array, sizes: Array) -> Array:
        """(bins, v): the variance of a bin's sum over the orders of divided blocks.

        A block of t rows with sum R and sum of squares Q that gives s of them to the bin adds
        s(t − s)/(t²(t − 1))·(tQ − R²).
        """
        if not self.split:
            return np.zeros((self.number, atoms.shape[1]))
        t = sizes[:, None].astype(np.float64)
        spread = np.maximum(t * squares - np.square(atoms), 0.0) / np.maximum(t - 1, 1)
        divided = self.share.copy()
        divided.data = divided.data * (1 - divided.data)
        return np.asarray(divided @ spread)

    def pairs(self, atoms: Array, own: Array) -> Array:
        """Per column, Σ_B (Σ_a M_Ba A_a)² + Σ_a d_a A_a² − own, where own = Σ_i g_i r_i²."""
        if self.alone:
            return np.zeros(atoms.shape[1])
        s = self.sums(atoms)
        total = np.einsum("bj,bj->j", s, s) - own
        if self.split:
            total += np.einsum("a,aj,aj->j", self.extra, atoms, atoms)
        return np.asarray(total)


SUMMED_ROWS = 1 << 16  # rows summed at once: partial sums keep digits, and no copy of all rows is made


@final
@dataclass(frozen=True)
class BinCells:
    """Bins over atoms, at one or several bin counts that share them."""

    atom: Array
    """The atom of each row, in as few bytes as their number allows: with millions of rows nothing else is kept."""
    sizes: Array
    """The rows of each atom."""
    bins: tuple[Bins, ...]

    @staticmethod
    def in_order(order: Array, starts: Array, bins: tuple[Bins, ...]) -> BinCells:
        """Atoms that are runs of ordered rows."""
        sizes = np.diff(np.append(starts, len(order)))
        atom = np.empty(len(order), dtype=np.min_scalar_type(len(starts)))
        atom[order] = np.repeat(np.arange(len(starts), dtype=atom.dtype), sizes)
        return BinCells(atom, sizes, bins)

    @property
    def order(self) -> Array:
        """The rows atom by atom."""
        return np.argsort(self.atom, kind="stable")

    def atom_sums(self, residuals: Array) -> Array:
        """(atoms, v) sums of residuals (v, n) given in the rows' own order."""
        return self.sums_of(lambda rows: residuals[:, rows], len(residuals))

    def sums_of(self, values: Callable[[slice], Array], number: int = 1) -> Array:
        """(atoms, number) sums of values of the rows, which are asked for a block of rows at a time."""
        sums = np.zeros((len(self.sizes), number))
        for start in range(0, len(self.atom), SUMMED_ROWS):
            rows = slice(start, start + SUMMED_ROWS)
            atom = self.atom[rows].astype(np.intp)
            for v, each in enumerate(values(rows)):
                sums[:, v] += np.bincount(atom, each, len(self.sizes))
        return sums

    def pairs(self, residuals: Array) -> Array:
        """(counts, v): Σ_{i≠j} G_ij r_i r_j for each row of residuals (v, n)."""
        atoms = self.atom_sums(residuals)
        squares = self.atom_sums(np.square(residuals))
        return np.stack([b.pairs(atoms, b.together @ squares) for b in self.bins])

    def absolute(self, residuals: Array) -> Array:
        """(counts, v): Σ_B |Σ_{i∈B} r_i|."""
        atoms = self.atom_sums(residuals)
        return np.stack([np.abs(b.sums(atoms)).sum(axis=0) for b in self.bins])

    def within(self, residuals: Array, group: Array, groups: int) -> Array:
        """(counts, groups): Σ_{i≠j} G_ij r_i r_j over pairs inside each group, summed over the rows of residuals."""
        from scipy import sparse

        atom = self.atom.astype(np.int64)
        out = np.zeros((len(self.bins), groups))
        for r in residuals:
            sums = sparse.coo_array((r, (group, atom)), shape=(groups, len(self.sizes))).tocsr()
            for place, b in enumerate(self.bins):
                if b.alone:
                    continue
                cells = sums if b.share is None else sums @ b.share.T
                out[place] += np.asarray(cells.multiply(cells).sum(axis=1)).reshape(-1)
                out[place] += sums.multiply(sums) @ b.extra
                out[place] -= np.bincount(group, weights=b.together[atom] * r * r, minlength=groups)
        return out

    def pairs_of_squares(self, s: Array) -> Array:
        """(counts,): Σ_{i≠j} G_ij² s_i s_j. Two atoms meet in at most one bin, so G² is again of this shape."""
        atoms = self.atom_sums(s[None, :])[:, 0]
        own = self.atom_sums(np.square(s)[None, :])[:, 0]
        out = []
        for b in self.bins:
            inside = b.together**2 @ (atoms**2 - own)
            if b.share is None or b.alone:
                out.append(0.0 if b.alone else inside)
                continue
            share = b.share.power(2)
            across = np.square(share @ atoms).sum() - (share.power(2) @ np.square(atoms)).sum()
            out.append(inside + across)
        return np.array(out)


@final
@dataclass(frozen=True)
class KernelCells:
    """A kernel of the distance between scalar keys: the closed form of an average over random cuts."""

    rule: TwoBin | Poisson
    order: Array
    points: Array
    bounds: Bounds | None

    def pairs(self, residuals: Array) -> Array:
        """(1, v): Σ_{i≠j} G_ij r_i r_j for each row of residuals (v, n)."""
        whole = self.rule.form(self.points, residuals[:, self.order], self.bounds)
        return np.asarray(whole - np.einsum("vi,vi->v", residuals, residuals))[None, :]

    def others(self, residuals: Array) -> Array:
        """(v, n): Σ_{j≠i} G_ij r_j, a sum over the rows before and one over the rows after."""
        r, u = residuals[:, self.order], self.unit_points
        field = np.empty_like(residuals)
        if isinstance(self.rule, Poisson):
            decay = np.exp(-np.diff(u, prepend=u[0]))
            after = decayed_prefix(np.append(1.0, decay[:0:-1]), r[:, ::-1])[:, ::-1]
            field[:, self.order] = decayed_prefix(decay, r) + after
        else:
            mass, moment = np.cumsum(r, axis=1), np.cumsum(u * r, axis=1)
            distance = u * (2 * mass - mass[:, -1:]) - (2 * moment - moment[:, -1:])
            field[:, self.order] = mass[:, -1:] - distance - r
        return field

    @property
    def unit_points(self) -> Array:
        """The sorted keys in units of the kernel: the range for two bins, θ for Poisson cuts."""
        if isinstance(self.rule, Poisson):
            return np.asarray(self.points / self.rule.theta)
        if self.bounds is None:
            raise ValueError("the two-bin rule needs range=(low, high), because the reports are not probabilities")
        return np.asarray((self.points - self.bounds[0]) / (self.bounds[1] - self.bounds[0]))

    def within(self, residuals: Array, group: Array, groups: int) -> Array:
        """(1, groups): Σ_{i≠j} G_ij r_i r_j over pairs inside each group, summed over the rows of residuals."""
        place = np.argsort(group[self.order], kind="stable")
        rows = self.order[place]
        each = np.zeros(len(rows))
        for r in residuals:
            each += pairs_in_runs(self.rule, group[rows], self.unit_points[place], r[rows])
        return np.bincount(group[rows], weights=each, minlength=groups)[None, :]

    def pairs_of_squares(self, s: Array) -> Array:
        """(1,): Σ_{i≠j} G_ij² s_i s_j, from (1 − d)² = 1 − 2d + d² or from the kernel at half the scale."""
        ordered = s[None, self.order]
        own = float(np.square(s).sum())
        if isinstance(self.rule, Poisson):
            return np.asarray(Poisson(self.rule.theta / 2).form(self.points, ordered, None) - own)
        total, u = float(s.sum()), self.unit_points
        near = float(self.rule.form(u, ordered, (0.0, 1.0))[0])
        centred = u - (ordered[0] @ u) / total if total > 0 else u  # Σ s_i s_j d² is twice total times a variance
        return np.array([2 * near - total**2 + 2 * total * (ordered[0] @ np.square(centred)) - own])


def pairs_in_runs(rule: TwoBin | Poisson, run: Array, points: Array, r: Array) -> Array:
    """Per row, 2 r_i Σ_j G_ij r_j over the rows j before it in its run; runs are sorted, and points within runs."""
    first = np.concatenate([[True], run[1:] != run[:-1]])
    if isinstance(rule, Poisson):
        with np.errstate(over="ignore"):  # the step back from one run to the next is masked
            decay = np.where(first, 0.0, np.exp(-np.diff(points, prepend=points[0])))
        return np.asarray(2 * r * decayed_prefix(decay, r[None, :])[0])
    start = np.maximum.accumulate(np.where(first, np.arange(len(r)), 0))
    mass, moment = (np.concatenate([[0.0], np.cumsum(x)[:-1]]) for x in (r, points * r))
    before, moment_before = mass - mass[start], moment - moment[start]
    return np.asarray(2 * r * ((1 - points) * before + moment_before))


Cells = BinCells | KernelCells


@dataclass(frozen=True)
class Piece:
    """Cells, the views they are summed over, and their weight in the error."""

    cells: Cells
    columns: slice
    weight: float

    def tiles(self, rows: int, budget: int = 1 << 22) -> Iterator[slice]:
        """The views of the piece, a few at a time, so that a tile of residuals stays within `budget` numbers."""
        width = max(1, budget // max(1, rows))
        stop = self.columns.stop
        return (slice(j, min(j + width, stop)) for j in range(self.columns.start, stop, width))


def pieces(sample: Sample, rule: BinningRule, ties: str, columns: slice | None = None) -> Iterator[Piece]:
    """The error's form as a weighted sum: one piece per view, one for all views of a vector, one per direction."""
    refuse_misfit(sample, rule)
    columns = slice(0, sample.views) if columns is None else columns
    if isinstance(rule, Halfspaces):
        for key in rule.keys(sample.reports):
            order = np.argsort(key, kind="stable")
            yield Piece(KernelCells(TwoBin(), order, key[order], (0.0, 1.0)), columns, 1 / rule.n_directions)
    elif sample.joint:
        assert isinstance(rule, VectorRule)
        yield Piece(_partition_cells(rule.partition(sample.reports), ties), columns, 1.0)
    else:
        for j in range(*columns.indices(sample.views)):
            yield Piece(_view_cells(sample, rule, ties, j), slice(j, j + 1), 1 / sample.views)


def refuse_misfit(sample: Sample, rule: BinningRule) -> None:
    """Vector reports need cells for vectors, scalar reports need cells on the line."""
    if isinstance(rule, Halfspaces) and sample.distributions is not sample.reports:
        raise ValueError("half-spaces need reports that are distributions over classes; use KdTree for other vectors")
    if sample.joint and not isinstance(rule, (VectorRule, Halfspaces)):
        raise ValueError(
            f"{rule!r} bins scalars; vector reports need ArgmaxQuantile, KdTree, KMeans, Halfspaces or Exact"
        )
    if isinstance(rule, Edges) and rule.per_view and len(rule.values) != sample.views:
        raise ValueError(f"edges are of {len(rule.values)} views, the reports have {sample.views}")
    if not sample.joint and isinstance(rule, (VectorRule, Halfspaces)) and not isinstance(rule, RankRule):
        raise ValueError(
            f"{rule!r} bins vectors; scalar reports need Quantile, EqualWidth, Edges, TwoBin, Poisson or Exact"
        )


def refuse_outside_edges(sample: Sample, rule: FixedRule, reports: Array) -> None:
    """Given edges must cover every report."""
    if not isinstance(rule, Edges):
        return
    (edges,) = rule.edges(sample.bounds, reports.dtype)
    ends = edges.reshape(-1)
    low, high = covered(ends)
    if reports.size and (reports.min() < low or reports.max() > high):
        place = np.argwhere((sample.reports < low) | (sample.reports > high))[0]
        where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
        value = sample.reports[tuple(place)]
        span = f"edges run from {ends[0]:g} to {ends[-1]:g}"
        raise ValueError(f"{span} and do not cover the prediction {value:g} at {where}")


def covered(edges: Array) -> tuple[Array, Array]:
    """The least and the largest report that edges (..., m + 1) cover: a report may lie outside by rounding alone."""
    low, high = edges[..., 0], edges[..., -1]
    slack = rounding_slack(edges) * np.maximum(np.abs(low), np.abs(high))
    return np.asarray(low - slack), np.asarray(high + slack)


def _view_cells(sample: Sample, rule: BinningRule, ties: str, j: int) -> Cells:
    reports = sample.view(j).astype(working_dtype(sample.reports), copy=False)
    if isinstance(rule, AveragedRule):
        kernel = rule.rule if isinstance(rule, OnGrid) else rule
        if not isinstance(kernel, (TwoBin, Poisson)):
            raise TypeError(f"{rule!r} has no closed form for intervals and tests; use TwoBin or Poisson")
        order = np.argsort(reports, kind="stable")
        return KernelCells(kernel, order, rule.places(reports[order], sample.bounds), sample.bounds)
    if isinstance(rule, RankRule) and ties == "row":
        order = np.argsort(reports, kind="stable")
        return _partition_cells(Partition(order, rule.cuts(reports[order])), ties)
    ordered = np.sort(reports)
    if isinstance(rule, FixedRule):
        refuse_outside_edges(sample, rule.of_view(j), reports)
        starts, bins = _atoms(len(ordered), rule.of_view(j).cut(ordered, sample.bounds), None)
    else:
        assert isinstance(rule, RankRule)
        starts, bins = _rank_atoms(len(ordered), rule.cuts(ordered), lambda places: _equal(ordered, places), ties)
    # Equal reports share their atom, so that a report finds it by its value and no order of the rows is needed.
    atom = np.empty(len(reports), dtype=np.min_scalar_type(len(starts)))
    first = ordered[starts]
    for rows in row_blocks(len(reports), 32):
        atom[rows] = np.searchsorted(first, reports[rows], side="right") - 1
    return BinCells(atom, np.diff(np.append(starts, len(ordered))), bins)


def _equal(ordered: Array, places: Array) -> tuple[Array, Array]:
    """For places among sorted values, where the values equal to theirs begin and end."""
    values = ordered[places]
    return np.searchsorted(ordered, values), np.searchsorted(ordered, values, side="right")


def _partition_cells(partition: Partition, ties: str) -> BinCells:
    tied = partition.tied
    blocks: Blocks | None = None
    if tied is not None:
        begins = np.append(np.flatnonzero(~tied), len(tied))

        def blocks(places: Array) -> tuple[Array, Array]:
            block = np.searchsorted(begins, places, side="right") - 1
            return begins[block], begins[block + 1]

    return BinCells.in_order(partition.order, *_rank_atoms(len(partition.order), partition.cuts, blocks, ties))


def _rank_atoms(n: int, every: tuple[Array, ...], blocks: Blocks | None, ties: str) -> tuple[Array, tuple[Bins, ...]]:
    if ties == "together" and blocks is not None:
        every = tuple(whole_blocks(cuts, blocks, n) for cuts in every)
    return _atoms(n, tuple(Runs.between(cuts, n) for cuts in every), blocks if ties == "average" else None)


def whole_blocks(cuts: Array, blocks: Blocks, n: int) -> Array:
    """Move every cut inside a tie block to the block's end: the block stays with the bin of its first place."""
    begin, end = blocks(np.minimum(cuts, n - 1))
    return np.where((begin < cuts) & (cuts < n), end, cuts)


def _atoms(n: int, every: tuple[Runs, ...], blocks: Blocks | None) -> tuple[Array, tuple[Bins, ...]]:
    """Where atoms start, for all counts at once: runs between all cuts, where a divided block is one atom."""
    starts = np.unique(np.concatenate([runs.start for runs in every]))
    if blocks is not None:
        begin, end = blocks(starts)
        divided = begin < starts
        starts = np.unique(np.concatenate([starts[~divided], begin[divided], end[divided]]))
        starts = starts[starts < n]
    return starts, tuple(_bins(starts, runs, n) for runs in every)


def _bins(starts: Array, runs: Runs, n: int) -> Bins:
    """M, g and d of the bins at `runs`, for atoms at `starts`: overlaps of two divisions of the places 0..n."""
    lower = runs.start
    places = np.union1d(starts, lower)
    overlap = np.diff(np.append(places, n)).astype(np.float64)
    atom = np.searchsorted(starts, places, side="right") - 1
    size = np.diff(np.append(starts, n)).astype(np.float64)
    atoms = len(starts)
    chance = np.bincount(atom, weights=overlap * (overlap - 1), minlength=atoms) / np.maximum(size * (size - 1), 1)
    chance[size == 1] = 1.0
    share = overlap / size[atom]
    extra = chance - np.bincount(atom, weights=share * share, minlength=atoms)
    extra[np.bincount(atom, minlength=atoms) == 1] = 0.0
    alone = bool(np.diff(np.append(lower, n)).max() <= 1)
    if len(places) == atoms and len(lower) == atoms:
        return Bins(None, chance, extra, runs.place, runs.total, alone)
    from scipy import sparse

    cell = np.searchsorted(lower, places, side="right") - 1
    matrix = sparse.csr_array((share, (cell, atom)), shape=(len(lower), atoms))
    return Bins(matrix, chance, extra, runs.place, runs.total, alone)
