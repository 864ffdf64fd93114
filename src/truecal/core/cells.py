"""Cells: the quadratic form of a rule, frozen at the reports, for tables and inference alike.

G_ij is the chance that rows i and j share a cell, over whatever the rule averages (orders of ties, random cuts). As a
rule sees reports only, G stays the same when outcomes are redrawn or rows are left out; all inference rests on that.

Two shapes of G cover every rule. Bins: rows fall into *atoms* (runs of rows that always go together, or a block of
equal reports that a cut divides), and with a(i) the atom of row i

    G_ij = Σ_B M_Ba M_Bb + 1[a = b]·d_a   for i ≠ j in atoms a, b,     M_Ba = the share of atom a that goes to bin B.

A block of t rows that gives s_B of them to bin B has M_Ba = s_B/t and, for two of its rows, the exact chance
g_a = Σ_B s_B(s_B − 1)/(t(t − 1)) of meeting, so d_a = g_a − Σ_B (s_B/t)². Whole atoms have M = 1, g = 1, d = 0.
Where a row needs one bin, as in tests and intervals, the rule for ties is `block_bin`: a block of equal reports goes
whole to the bin of its middle row, or with ties="together" to that of its first.

Kernels (two-bin, Poisson): G_ij is a function of |u_i − u_j|, summed by one pass over the sorted reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Protocol, final

import numpy as np

from .arrays import HOST, LIBRARY, on_cpu, places_among, to_device_of
from .data import row_blocks
from .sample import Bounds
from .types import Array


@dataclass(frozen=True)
class Runs:
    """The cells of one bin count that hold rows, as runs of sorted rows: cell `place[j]` begins at `start[j]`."""

    start: Array
    place: Array
    total: int
    """The number of all cells, empty ones too."""

    @staticmethod
    def between(cuts: Array, rows: int) -> Runs:
        """The runs between cuts; cells without rows are left out."""
        every = np.concatenate([[0], cuts, [rows]]).astype(np.int64)
        place = np.flatnonzero(every[1:] > every[:-1])
        return Runs(every[place], place, len(cuts) + 1)


@dataclass(frozen=True)
class Partition:
    """Rows in an order in which each cell is a run: cell j holds order[cuts[j−1]:cuts[j]]; arrays or tensors.

    `tied[i]` says that sorted row i has the same key as the row before it, so that a cut between them is arbitrary.
    """

    order: Array
    cuts: tuple[Array, ...]
    tied: Array | None = None

    @staticmethod
    def from_cells(cell: Array) -> Partition:
        """Cells given as one label per row."""
        order = LIBRARY[type(cell)].argsort(cell, stable=True)
        ordered = cell[order]
        return Partition(order, (LIBRARY[type(ordered)].where(ordered[1:] != ordered[:-1])[0] + 1,))


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
    split: bool
    """Whether a cut divides some block of equal reports."""
    home: Array
    """The bin of each atom, as `block_bin` has it: the one that holds its middle row."""
    alone: bool = False
    """No bin holds two rows: there are no pairs, and every pair sum is exactly 0 rather than a rounding error."""

    @property
    def number(self) -> int:
        """How many bins hold rows."""
        return len(self.occupied)

    def sums(self, atoms: Array) -> Array:
        """Bin sums (bins, ...) of atom sums (atoms, ...)."""
        return atoms if self.share is None else np.asarray(self.share @ atoms)

    def table(self, atoms: Array) -> Array:
        """(columns, cells): bin sums of atom sums (atoms, columns), each at its place."""
        return self.placed(atoms if self.share is None else self.share @ atoms)

    def placed(self, values: Array) -> Array:
        """(columns, cells): values of the bins that hold rows; crowds of empty bins are left out."""
        if self.total == (full := len(self.occupied)) or self.total > max(1 << 20, 8 * full):
            return np.ascontiguousarray(values.T)
        whole = np.zeros((values.shape[1], self.total))
        whole[:, self.occupied] = values.T
        return whole

    def tie_variance(self, atoms: Array, squares: Array, sizes: Array) -> Array:
        """(bins, v): the variance of a bin's sum over the orders of divided blocks.

        A block of t rows with sum R and sum of squares Q that gives s of them to the bin adds
        s(t − s)/(t²(t − 1))·(tQ − R²).
        """
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
            found = values(rows)
            if len(atom) < number:  # few rows of many values: all at once
                flat = atom + len(sums) * np.arange(number)[:, None]
                sums += np.bincount(flat.ravel(), np.ravel(found), sums.size).reshape(number, -1).T
                continue
            for v, each in enumerate(found):
                sums[:, v] += np.bincount(atom, each, len(sums))
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


class Kernel(Protocol):
    """G_ij as a function of the distance between two scalar keys: the closed form of an average over random cuts."""

    def form(self, points: Array, sums: Array, bounds: Bounds | None) -> Array:
        """S'GS for each row S of `sums`, whose columns are at the sorted `points`."""

    def unit_points(self, points: Array, bounds: Bounds | None) -> Array:
        """Keys in the units of the kernel."""

    def others(self, points: Array, r: Array) -> Array:
        """(v, n): Σ_{j≠i} G_ij r_j for sorted keys in units of the kernel."""

    def before(self, points: Array, r: Array, first: Array) -> Array:
        """Per row, Σ_j G_ij r_j over the rows j before it in its run; `first` marks the first row of each run."""

    def squared_form(self, points: Array, s: Array) -> float:
        """Σ_ij G_ij² s_i s_j, for sorted keys in units of the kernel."""


@final
@dataclass(frozen=True)
class KernelCells:
    """A kernel of the distance between scalar keys."""

    rule: Any
    """A `Kernel`: an average over cuts."""
    order: Array
    points: Array
    bounds: Bounds | None

    def pairs(self, residuals: Array) -> Array:
        """(1, v): Σ_{i≠j} G_ij r_i r_j for each row of residuals (v, n)."""
        whole = self.rule.form(self.points, residuals[:, self.order], self.bounds)
        return np.asarray(whole - np.einsum("vi,vi->v", residuals, residuals))[None, :]

    def others(self, residuals: Array) -> Array:
        """(v, n): Σ_{j≠i} G_ij r_j."""
        field = np.empty_like(residuals)
        field[:, self.order] = self.rule.others(self.unit_points, residuals[:, self.order])
        return field

    @property
    def unit_points(self) -> Array:
        """The sorted keys in units of the kernel: the range for two bins, θ for Poisson cuts."""
        return np.asarray(self.rule.unit_points(self.points, self.bounds))

    def within(self, residuals: Array, group: Array, groups: int) -> Array:
        """(1, groups): Σ_{i≠j} G_ij r_i r_j over pairs inside each group, summed over the rows of residuals."""
        place = np.argsort(group[self.order], kind="stable")
        rows = self.order[place]
        each = np.zeros(len(rows))
        for r in residuals:
            each += pairs_in_runs(self.rule, group[rows], self.unit_points[place], r[rows])
        return np.bincount(group[rows], weights=each, minlength=groups)[None, :]

    def pairs_of_squares(self, s: Array) -> Array:
        """(1,): Σ_{i≠j} G_ij² s_i s_j."""
        return np.array([self.rule.squared_form(self.unit_points, s[self.order]) - float(np.square(s).sum())])


def pairs_in_runs(rule: Kernel, run: Array, points: Array, r: Array) -> Array:
    """Per row, 2 r_i Σ_j G_ij r_j over the rows j before it in its run; runs are sorted, and points within runs."""
    first = np.concatenate([[True], run[1:] != run[:-1]])
    return np.asarray(2 * r * rule.before(points, r, first))


Cells = BinCells | KernelCells


@dataclass(frozen=True)
class Piece:
    """Cells, the views they are summed over, and their weight in the error."""

    cells: Cells
    columns: slice
    weight: float

    def at(self, place: int) -> Piece:
        """The piece at one of its bin counts."""
        cells = self.cells
        assert isinstance(cells, BinCells)
        return replace(self, cells=replace(cells, bins=(cells.bins[place],)))

    def tiles(self, rows: int, budget: int = 1 << 22) -> Iterable[slice]:
        """The views of the piece, a few at a time, so that a tile of residuals stays within `budget` numbers."""
        width = max(1, budget // max(1, rows))
        stop = self.columns.stop
        if stop - self.columns.start <= width:
            return (self.columns,)
        return (slice(j, min(j + width, stop)) for j in range(self.columns.start, stop, width))


def sorted_cells(reports: Array, starts: Array, ordered: Array, bins: tuple[Bins, ...]) -> BinCells:
    """Cells whose atoms begin at `starts` of the sorted reports. Equal reports share their atom, so that a report finds
    it by its value and no order of the rows is needed."""
    sizes = np.diff(np.append(starts, len(ordered)))
    if not isinstance(reports, HOST):
        first = ordered[to_device_of(starts, ordered)]
        return BinCells(places_among(first, reports, right=True) - 1, sizes, bins)
    first, atom = ordered[starts], np.empty(len(reports), dtype=np.min_scalar_type(len(starts)))
    for rows in row_blocks(len(reports), 32):
        atom[rows] = np.searchsorted(first, reports[rows], side="right") - 1
    return BinCells(atom, sizes, bins)


def equal_run(ordered: Array, places: Array) -> tuple[Array, Array]:
    """For places among sorted values, where the values equal to theirs begin and end."""
    if isinstance(ordered, HOST):
        values = ordered[places]
        return np.searchsorted(ordered, values), np.searchsorted(ordered, values, side="right")
    values = ordered[to_device_of(places, ordered)]
    begin, end = (places_among(ordered, values, right=right) for right in (False, True))
    return np.asarray(on_cpu(begin)), np.asarray(on_cpu(end))


def block_bin(begin: Array, end: Array, n: Any, m: Any) -> Array:
    """Return the quantile bin, of m, of a block of equal reports from sorted place `begin` to `end` of n.

    >>> from truecal.core.cells import block_bin
    >>> [block_bin(begin, end, 10, 5) for begin, end in ((0, 2), (2, 9), (9, 10))]
    [0, 2, 4]
    """
    middle = (begin + end - 1) // 2
    found: Array = ((middle + 1) * m - 1) // n
    return found


def middle_cells(u: Array, order: Array, m: int) -> Array:
    """Return the quantile bin, of m, of each row of u in order; equal reports share one (`block_bin`)."""
    n, ordered = len(u), u[order]
    new = ordered == ordered
    new[1:] = ordered[1:] != ordered[:-1]
    starts = LIBRARY[type(new)].where(new)[0]
    ends = LIBRARY[type(u)].concatenate([starts[1:], 0 * starts[:1] + n])
    found: Array = block_bin(starts, ends, n, m)[new.cumsum(0) - 1]
    return found


def partition_cells(partition: Partition, ties: str) -> BinCells:
    tied = partition.tied
    blocks: Blocks | None = None
    if tied is not None:
        begins = np.append(np.flatnonzero(~tied), len(tied))

        def blocks(places: Array) -> tuple[Array, Array]:
            block = np.searchsorted(begins, places, side="right") - 1
            return begins[block], begins[block + 1]

    return BinCells.in_order(partition.order, *rank_atoms(len(partition.order), partition.cuts, blocks, ties))


def rank_atoms(n: int, every: tuple[Array, ...], blocks: Blocks | None, ties: str) -> tuple[Array, tuple[Bins, ...]]:
    """Where the atoms of sorted rows start, and the bins over them at each count."""
    cuts = np.concatenate(every)
    if blocks is None or ties == "row" or not ((blocks(np.minimum(cuts, n - 1))[0] < cuts) & (cuts < n)).any():
        if len(cuts) > MOST_SHARED:
            return atoms_of(n, tuple([Runs.between(each, n) for each in every]), None)
        return _shared_atoms(n, *[np.asarray(each, np.int64).tobytes() for each in every])
    if ties == "together":
        every = tuple(whole_blocks(each, blocks, n) for each in every)
    return atoms_of(n, tuple([Runs.between(each, n) for each in every]), blocks if ties == "average" else None)


MOST_SHARED = 1 << 16
"""More cuts than this are not kept for the next view."""


@lru_cache(maxsize=16)
def _shared_atoms(n: int, *cuts: bytes) -> tuple[Array, tuple[Bins, ...]]:
    """Atoms and bins where no cut divides a block: the same for all views of so many rows."""
    return atoms_of(n, tuple([Runs.between(np.frombuffer(each, np.int64), n) for each in cuts]), None)


def whole_blocks(cuts: Array, blocks: Blocks, n: int) -> Array:
    """Move every cut inside a tie block to the block's end: the block stays with the bin of its first place."""
    begin, end = blocks(np.minimum(cuts, n - 1))
    return np.where((begin < cuts) & (cuts < n), end, cuts)


def atoms_of(n: int, every: tuple[Runs, ...], blocks: Blocks | None) -> tuple[Array, tuple[Bins, ...]]:
    """Where atoms start, for all counts at once: runs between all cuts, where a divided block is one atom."""
    starts = _union([runs.start for runs in every])
    if blocks is not None:
        begin, end = blocks(starts)
        divided = begin < starts
        starts = _union([starts[~divided], begin[divided], end[divided]])
        starts = starts[starts < n]
    return starts, tuple([_bins(starts, runs, n) for runs in every])


def _union(places: list[Array]) -> Array:
    """All places once, in order: sorting a few runs is quicker than the hash table of np.unique."""
    every = np.sort(np.concatenate(places), kind="stable")
    new = np.ones(len(every), dtype=np.bool_)
    np.not_equal(every[1:], every[:-1], out=new[1:])
    return every[new]


def _bins(starts: Array, runs: Runs, n: int) -> Bins:
    """M, g and d of the bins at `runs`, for atoms at `starts`: overlaps of two divisions of the places 0..n."""
    lower = runs.start
    places = _union([starts, lower])
    overlap = np.diff(np.append(places, n)).astype(np.float64)
    atom = np.searchsorted(starts, places, side="right") - 1
    size = np.diff(np.append(starts, n)).astype(np.float64)
    atoms = len(starts)
    chance = np.bincount(atom, weights=overlap * (overlap - 1), minlength=atoms) / np.maximum(size * (size - 1), 1)
    chance[size == 1] = 1.0
    share = overlap / size[atom]
    extra = chance - np.bincount(atom, weights=share * share, minlength=atoms)
    extra[np.bincount(atom, minlength=atoms) == 1] = 0.0
    alone, split = bool(np.diff(np.append(lower, n)).max() <= 1), bool(extra.any())
    home = np.searchsorted(lower, starts + (size.astype(np.intp) - 1) // 2, side="right") - 1
    if len(places) == atoms and len(lower) == atoms:
        return Bins(None, chance, extra, runs.place, runs.total, split, home, alone)
    from scipy import sparse

    ends = np.append(np.searchsorted(places, lower), len(places))
    matrix = sparse.csr_array((share, atom, ends), shape=(len(lower), atoms))
    return Bins(matrix, chance, extra, runs.place, runs.total, split, home, alone)
