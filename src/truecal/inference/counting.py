"""U of many draws of class labels without writing residuals out: what a label adds depends on its own row alone.

For bins, a draw only moves counts between atoms. For kernels, with r_i = p_i − e_{y_i} (times the weight w_i),

    Σ_{i≠j} G_ij ⟨r_i, r_j⟩ = Σ_{i≠j} G_ij ⟨p_i, p_j⟩ − 2 Σ_i Σ_{j≠i} G_ij p_{j, y_i} + Σ_{i≠j, y_i = y_j} G_ij,

a constant, a gather from a table made once, and sums over pairs of equal labels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ..core.cells import BinCells, Bins, KernelCells, Piece, pairs_in_runs
from ..core.sample import Sample
from ..core.types import Array


@dataclass(frozen=True)
class LabelCounts:
    """Class labels and bins: the residual sum of an atom is Σ w·p minus the weight of its rows that drew the class.

    One flat index runs over (view, atom); `code` says where a row with label y is counted. The own terms Σ_i g_i r_i²
    need only p_{i, y_i}: |p − e_y|² = |p|² + 1 − 2 p_y.
    """

    sample: Sample
    atoms: Array
    offset: Array
    base: Array
    own: Array
    bins: tuple[Bins, ...]
    weight: float
    l1: bool

    @staticmethod
    def of(sample: Sample, pieces: list[Piece], norm: str) -> LabelCounts:
        forms: list[BinCells] = [p.cells for p in pieces]  # type: ignore[misc]  # the caller chose pieces with bins
        atoms = np.stack([form.atom for form in forms], axis=1)
        offset = np.cumsum([0, *(len(form.sizes) for form in forms)])[:-1]
        base, own = _report_sums(sample, pieces)
        repeat = sample.views if sample.joint else 1
        bins = tuple(_flat_bins(parts, repeat) for parts in zip(*(form.bins for form in forms), strict=True))
        return LabelCounts(sample, atoms, offset, base, own, bins, pieces[0].weight, norm == "l1")

    def code(self, labels: Array) -> Array:
        """The flat index at which each row is counted."""
        if self.sample.joint:
            return np.asarray(self.atoms[:, 0].astype(np.int64) * self.sample.views + labels)
        flat = np.arange(len(labels)) * self.atoms.shape[1] + labels
        return np.asarray(self.atoms.reshape(-1)[flat] + self.offset[labels])

    def statistic(self, drawn: Array) -> Array:
        """(draws, counts) values of pairs, or of absolute sums, times the weight of a view."""
        w = self.sample.weights
        sums = np.empty((len(self.base), len(drawn)))
        own = np.empty((len(self.bins), len(drawn)))
        rows = np.arange(self.sample.rows) * self.sample.views
        flat_reports = self.sample.reports.reshape(-1)
        for place, labels in enumerate(drawn):
            code = self.code(labels)
            sums[:, place] = np.bincount(code, weights=w, minlength=len(self.base))
            if self.l1:
                continue
            change = 1.0 - 2.0 * flat_reports[rows + labels].astype(np.float64)
            if w is not None:
                change *= w * w
            for c, flat in enumerate(self.bins):
                own[c, place] = self.own[c] + (change @ flat.together[code] if flat.split else change.sum())
        np.subtract(self.base[:, None], sums, out=sums)
        if self.l1:
            values = np.stack([np.abs(b.sums(sums)).sum(axis=0) for b in self.bins])
        else:
            values = np.stack([b.pairs(sums, q) for b, q in zip(self.bins, own, strict=True)])
        return np.asarray(values.T * self.weight)


def _report_sums(sample: Sample, pieces: list[Piece]) -> tuple[Array, Array]:
    """Flat atom sums of w·p, and per bin count Σ_i g_i w_i² p_i² over all views."""
    base, own = [], np.zeros(len(pieces[0].cells.bins))  # type: ignore[union-attr]  # pieces with bins
    for piece in pieces:
        form = piece.cells
        assert isinstance(form, BinCells)
        parts = []
        for tile in piece.tiles(sample.rows):
            weighted = sample.reports[:, tile].T.astype(np.float64) * sample.row_weights
            parts.append(form.atom_sums(weighted))
            squares = form.atom_sums(np.square(weighted)).sum(axis=1)
            own += [b.together @ squares for b in form.bins]
        base.append(np.concatenate(parts, axis=1).reshape(-1))
    return np.concatenate(base), own


def _flat_bins(parts: tuple[Bins, ...], repeat: int) -> Bins:
    """Bins of several views as one block, or the bins of a vector repeated for each of its coordinates."""
    together = np.repeat(np.concatenate([b.together for b in parts]), repeat)
    extra = np.repeat(np.concatenate([b.extra for b in parts]), repeat)
    occupied = np.arange(sum(b.number for b in parts) * repeat)
    alone = all(b.alone for b in parts)
    if all(b.share is None for b in parts):
        return Bins(None, together, extra, occupied, len(occupied), bool(extra.any()), alone)
    blocks = [sparse.eye_array(b.number) if b.share is None else b.share for b in parts]
    share = sparse.block_diag(blocks, format="csr") if len(blocks) > 1 else blocks[0]
    if repeat > 1:
        share = sparse.kron(share, sparse.eye_array(repeat), format="csr")
    return Bins(sparse.csr_array(share), together, extra, occupied, len(occupied), bool(extra.any()), alone)


@dataclass(frozen=True)
class LabelKernels:
    """Class labels and kernels: one sort of the rows by (label, key) per draw and key."""

    sample: Sample
    forms: tuple[KernelCells, ...]
    ranks: Array
    """(n, keys): the place of each row in the order of each key."""
    field: Array
    """(n, k): w_i Σ_{j≠i} G_ij w_j p_jc, with the weights of the pieces."""
    constant: float
    weight: float

    @staticmethod
    def of(sample: Sample, pieces: list[Piece]) -> LabelKernels:
        # the caller chose pieces with kernels
        forms: tuple[KernelCells, ...] = tuple(p.cells for p in pieces)  # type: ignore[misc]
        w = sample.row_weights
        ranks = np.empty((sample.rows, len(forms)), dtype=np.int64)
        field = np.zeros((sample.rows, sample.views))
        constant = 0.0
        for place, piece in enumerate(pieces):
            form = piece.cells
            assert isinstance(form, KernelCells)
            ranks[form.order, place] = np.arange(sample.rows)
            for tile in piece.tiles(sample.rows):
                weighted = sample.reports[:, tile].T.astype(np.float64) * w
                others = piece.weight * form.others(weighted)
                constant += float(np.einsum("vi,vi->", weighted, others))
                field[:, tile] += (w * others).T
        return LabelKernels(sample, forms, ranks, field, constant, pieces[0].weight)

    def statistic(self, drawn: Array) -> Array:
        """(draws, 1) pair sums."""
        rows = np.arange(self.sample.rows)
        keys = len(self.forms) if self.sample.joint else 1
        points = np.stack([form.unit_points for form in self.forms])
        out = np.empty((len(drawn), 1))
        for place, labels in enumerate(drawn):
            total = self.constant - 2 * float(self.field[rows, labels].sum())
            for key in range(keys):
                total += self.weight * self._equal_labels(labels.astype(np.int64), key, points)
            out[place] = total
        return out

    def _equal_labels(self, labels: Array, key: int, points: Array) -> float:
        """Σ_{i≠j, y_i = y_j} w_i w_j G_ij, for one key of all rows or for each class by its own key."""
        n = len(labels)
        own = np.full(n, key) if self.sample.joint else labels
        rank = self.ranks[np.arange(n), own]
        rows = np.argsort(labels * n + rank)
        at = points[own[rows], rank[rows]]
        return float(pairs_in_runs(self.forms[0].rule, labels[rows], at, self.sample.row_weights[rows]).sum())
