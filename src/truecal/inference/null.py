"""Outcomes drawn as if the reports were right, and the statistics they give on bins that do not change.

Sorting happens once, in the frozen forms; a draw of labels then costs one gather and one count, whatever the number of
classes. Draws come in blocks of bounded memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..data import check_probabilities
from ..errors import CalibrationError
from ..properties import Linear, Sample
from ..table import resolve_ties
from .frozen import Bins, BinsForm, Piece, column_tiles, frozen_pieces

Array = NDArray[Any]
Sampler = Callable[[np.random.Generator], Any]

_BLOCK = 1 << 22  # numbers held at once per array of a block of draws
_CDF_ENTRIES = 1 << 15  # cumulative probabilities searched at once: they stay in cache

BERNOULLI = (
    "given all reports, the top class of row i is right with probability c_i, independently (c_i its confidence)"
)
POSITIVE = "given all reports, outcome i is 1 with probability u_i, independently"
CATEGORICAL = (
    "full conditional calibration given the reports: label i is drawn from the whole of p_i, independently "
    "(stronger than being right view by view)"
)
GIVEN = "outcomes are drawn by the sampler that was passed, with the reports as they are"


@dataclass(frozen=True)
class World:
    """A validated sample together with how to draw its outcomes under calibration."""

    error: CalibrationError
    sample: Sample
    draw: Callable[[np.random.Generator, int], Array]
    """(generator, size) -> (size, n) marks, or (size, n) or (size, n, d) values."""
    null: str
    variance: Array | None
    """Per row, the variance of the scalar outcome under calibration; None where outcomes are not scalar."""

    @property
    def indices(self) -> bool:
        """Whether a draw is a class index per row."""
        return self.sample.marks is not None and self.sample.reports.ndim == 2


def calibrated_world(error: CalibrationError, sample: Sample, y_proba: Any, sampler: Sampler | None) -> World:
    """How outcomes look if the reports are right; bare (outcomes, reports) do not say, so they need a sampler."""
    if sampler is not None:
        if sample.values is None:
            raise ValueError("sampler cannot apply: labels are drawn from the reported probabilities themselves")
        return World(error, sample, _from_sampler(sampler, sample), GIVEN, None)
    if isinstance(error.property, Linear):
        proba, phi = check_probabilities(y_proba), error.property.phi
        variance = None
        if phi.ndim == 1:
            whole = proba.astype(np.float64)
            variance = np.maximum(whole @ np.square(phi) - np.square(whole @ phi), 0.0)
        return World(error, sample, lambda rng, b: phi[draw_labels(rng, proba, b)], CATEGORICAL, variance)
    if sample.values is not None:
        raise ValueError(
            "outcomes and reports alone do not say how outcomes vary under calibration: pass sampler=, a function of a "
            "numpy Generator that returns one array of outcomes drawn with the reports as their means"
        )
    if sample.reports.ndim == 2:
        return World(error, sample, lambda rng, b: draw_labels(rng, sample.reports, b), CATEGORICAL, None)
    u = sample.reports.astype(np.float64)
    null = POSITIVE if sample.wrong is None else BERNOULLI
    return World(error, sample, lambda rng, b: rng.random((b, len(u))) < u, null, u * (1 - u))


def _from_sampler(sampler: Sampler, sample: Sample) -> Callable[[np.random.Generator, int], Array]:
    def draw(rng: np.random.Generator, size: int) -> Array:
        out = np.empty((size, *sample.reports.shape))
        for place in range(size):
            values = np.asarray(sampler(rng), dtype=np.float64)
            if values.shape != sample.reports.shape or not np.isfinite(values).all():
                raise ValueError(
                    f"sampler must return finite outcomes of shape {sample.reports.shape}, got shape {values.shape}"
                )
            out[place] = values
        return out

    return draw


def draw_labels(rng: np.random.Generator, proba: Array, size: int) -> Array:
    """(size, n) labels, row i from the distribution proba[i] (normalised), by inverting its cumulative sums."""
    n, k = proba.shape
    labels = np.empty((size, n), dtype=np.min_scalar_type(k))
    step = max(1, _CDF_ENTRIES // k)
    for start in range(0, n, step):
        cdf = np.cumsum(proba[start : start + step], axis=1, dtype=np.float64)
        cdf /= cdf[:, -1:]
        offset = np.arange(len(cdf), dtype=np.float64)[:, None]
        flat = (cdf + offset).reshape(-1)  # one sorted array: row i lives in [i, i + 1]
        found = np.searchsorted(flat, rng.random((len(cdf), size)) + offset, side="right")
        found -= (offset * k).astype(found.dtype)
        labels[:, start : start + step] = np.minimum(found, k - 1).T
    return labels


# -- statistics of draws ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """Statistics of the observed outcomes and of draws under calibration, by one code path; arrays have one column per
    bin count. For l2 the statistic is U, for l1 the error itself."""

    observed: Array
    drawn: Array


def simulate(world: World, resamples: int, seed: int) -> Draws:
    """The statistic of the observed outcomes and of `resamples` draws."""
    rng = np.random.default_rng(seed)
    ties = resolve_ties(world.error.binning, world.error.norm)
    pieces = list(frozen_pieces(world.sample, world.error.binning, ties))
    statistic = _statistic(world, pieces)
    observed = world.sample.values if world.sample.values is not None else world.sample.marks
    assert observed is not None
    first = statistic(observed[None])
    rest = [statistic(world.draw(rng, size)) for size in _block_sizes(world, pieces, resamples)]
    return Draws(first[0], np.concatenate(rest))


def _block_sizes(world: World, pieces: list[Piece], resamples: int) -> Iterator[int]:
    per_draw = world.sample.rows * (world.sample.views if world.sample.values is not None else 1)
    if world.indices and isinstance(pieces[0].form, BinsForm):
        atoms = sum(len(p.form.starts) * (p.columns.stop - p.columns.start) for p in pieces)  # type: ignore[union-attr]
        per_draw = max(per_draw, 2 * atoms)
    size = max(1, min(resamples, _BLOCK // per_draw))
    return (min(size, resamples - start) for start in range(0, resamples, size))


def _statistic(world: World, pieces: list[Piece]) -> Callable[[Array], Array]:
    """A function of a block of draws that gives (draws, counts) statistics."""
    scale = world.sample.total_weight if world.error.norm == "l1" else world.sample.total_weight_sq
    if world.indices and all(isinstance(p.form, BinsForm) for p in pieces):
        count = _LabelCounts.of(world.sample, pieces, world.error.norm)
        return lambda drawn: count.statistic(drawn) / scale
    return lambda drawn: _dense(world, pieces, drawn) / scale


def _dense(world: World, pieces: list[Piece], drawn: Array) -> Array:
    """Any rule, any outcome: residuals written out, a few views at a time."""
    sample, l1 = world.sample, world.error.norm == "l1"
    total: Array | float = 0.0
    for piece in pieces:
        for tile in column_tiles(piece.columns, sample.rows * len(drawn)):
            r = _drawn_residuals(sample, world.indices, drawn, tile)
            views = r.shape[1]
            form: Any = piece.form
            values = (form.absolute if l1 else form.pairs)(r.reshape(-1, sample.rows))
            total = total + piece.weight * values.reshape(len(values), len(drawn), views).sum(axis=2)
    return np.asarray(total).T


def _drawn_residuals(sample: Sample, indices: bool, drawn: Array, columns: slice) -> Array:
    """(draws, views, n) residuals of some views."""
    if sample.reports.ndim == 1:
        r = (sample.reports.astype(np.float64) - drawn)[:, None, :]
    else:
        reports = sample.reports[:, columns].T.astype(np.float64)
        if indices:
            r = reports - (drawn[:, None, :] == np.arange(columns.start, columns.stop)[:, None])
        else:
            r = reports - np.moveaxis(drawn[:, :, columns], 1, 2)
    return r if sample.weights is None else r * sample.weights


@dataclass(frozen=True)
class _LabelCounts:
    """Class labels and bins: the residual sum of an atom is Σ w·p minus the weight of its rows that drew the class.

    One flat index runs over (view, atom); `code` says where a row with label y is counted. The own terms Σ_i g_i r_i²
    need only p_{i, y_i}: |p − e_y|² = |p|² + 1 − 2 p_y.
    """

    sample: Sample
    atoms: Array
    offset: Array
    stride: int
    base: Array
    together: tuple[Array, ...]
    own: tuple[float, ...]
    bins: tuple[Any, ...]
    weight: float
    l1: bool

    @staticmethod
    def of(sample: Sample, pieces: list[Piece], norm: str) -> _LabelCounts:
        forms: list[BinsForm] = [p.form for p in pieces]  # type: ignore[misc]
        joint = sample.joint
        views = sample.views
        atoms = np.stack([form.atom for form in forms], axis=1)
        sizes = np.array([len(form.starts) for form in forms])
        offset = np.arange(views) if joint else np.concatenate([[0], np.cumsum(sizes)[:-1]])
        counts = len(forms[0].bins)
        w = np.ones(sample.rows) if sample.weights is None else sample.weights
        base, own = _report_sums(sample, pieces, w)
        together = tuple(np.concatenate([f.bins[c].together for f in forms]) for c in range(counts))
        if joint:
            together = tuple(np.repeat(g, views) for g in together)
        bins = tuple(_flat_bins([f.bins[c] for f in forms], views if joint else 1) for c in range(counts))
        stride = views if joint else 1
        return _LabelCounts(
            sample, atoms, offset, stride, base, together, tuple(own), bins, pieces[0].weight, norm == "l1"
        )

    def code(self, labels: Array) -> Array:
        """The flat index at which each row is counted."""
        if self.sample.joint:
            return np.asarray(self.atoms[:, 0].astype(np.int64) * self.stride + labels)
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
            for c, (g, flat) in enumerate(zip(self.together, self.bins, strict=True)):
                own[c, place] = self.own[c] + (change @ g[code] if flat.split else change.sum())
        np.subtract(self.base[:, None], sums, out=sums)
        if self.l1:
            values = np.stack([np.abs(b.sums(sums)).sum(axis=0) for b in self.bins])
        else:
            values = np.stack([b.pairs(sums, q) for b, q in zip(self.bins, own, strict=True)])
        return np.asarray(values.T * self.weight)


def _report_sums(sample: Sample, pieces: list[Piece], w: Array) -> tuple[Array, Array]:
    """Flat atom sums of w·p, and per bin count Σ_i g_i w_i² p_i² over all views."""
    base, own = [], np.zeros(len(pieces[0].form.bins))  # type: ignore[union-attr]
    for piece in pieces:
        form = piece.form
        assert isinstance(form, BinsForm)
        parts = []
        for tile in column_tiles(piece.columns, sample.rows):
            weighted = sample.reports[:, tile].T.astype(np.float64) * w
            parts.append(form.atom_sums(weighted))
            squares = form.atom_sums(np.square(weighted)).sum(axis=1)
            own += [b.together @ squares for b in form.bins]
        base.append(np.concatenate(parts, axis=1).reshape(-1))
    return np.concatenate(base), own


def _flat_bins(parts: list[Any], repeat: int) -> Any:
    """Bins of several views as one block, or the bins of a vector repeated for each of its coordinates."""
    together = np.repeat(np.concatenate([b.together for b in parts]), repeat)
    extra = np.repeat(np.concatenate([b.extra for b in parts]), repeat)
    number = sum(b.number for b in parts) * repeat
    alone = all(b.alone for b in parts)
    if all(b.share is None for b in parts):
        return Bins(None, together, extra, number, alone)
    blocks = [sparse.eye_array(b.number) if b.share is None else b.share for b in parts]
    share = sparse.block_diag(blocks, format="csr") if len(blocks) > 1 else blocks[0]
    if repeat > 1:
        share = sparse.kron(share, sparse.eye_array(repeat), format="csr")
    return Bins(sparse.csr_array(share), together, extra, number, alone)
