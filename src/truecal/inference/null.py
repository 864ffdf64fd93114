"""Draw outcomes as if the reports were right: U or the l1 error of each draw on fixed bins, and null bands.

Sorting happens once, in the frozen forms; a draw of labels then costs one gather and one count, whatever the number of
classes. Draws come in blocks of bounded memory.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse

from ..core.cells import BinCells, Bins, Piece
from ..core.data import row_blocks, shown
from ..core.result import Result
from ..core.rules import bins_text
from ..core.sample import Sample
from ..core.types import Array
from .binned_sample import BinnedSample
from .checks import check_band_draws, p_of_draws

Sampler = Callable[[np.random.Generator], Any]

_BLOCK = 1 << 22  # numbers held at once per array of a block of draws
MOST_ADDED = 10**10
"""Draws times sums of cells times bin counts: some ten seconds."""
_NOTHING = 1e-13  # U this small beside the largest loss of a row is a rounding error
_ROUNDING = 1e-10  # draws that equal the observed value up to rounding count as at least as large
_CDF_ENTRIES = 1 << 15  # cumulative probabilities searched at once: they stay in cache
_FEW_CLASSES = 32  # compared one by one; of more classes the one that came is searched for

BERNOULLI = "the top class of row i is correct with probability c_i, its confidence, independently of other rows"
POSITIVE = "outcome i is 1 with probability u_i, its prediction, independently of other rows"
CATEGORICAL = "label i is drawn from the predicted probabilities p_i, independently of other rows"
LABEL_BY_LABEL = (
    "each label applies to row i with probability p_i, independently of other rows; labels of a row may depend on "
    "each other"
)
GIVEN = "outcomes are drawn by the sampler"


@dataclass(frozen=True)
class World:
    """A validated sample together with how to draw its outcomes under calibration."""

    frozen: BinnedSample
    draw: Callable[[np.random.Generator, int], Array]
    """(generator, size) -> (size, n) marks, or (size, n) or (size, n, d) values."""
    null: str

    @property
    def indices(self) -> bool:
        """Whether a draw is a class index per row."""
        return self.frozen.sample.marks is not None and self.frozen.sample.reports.ndim == 2


def calibrated_world(frozen: BinnedSample, sampler: Sampler | None = None) -> World:
    """Return how outcomes are drawn under calibration; (outcomes, reports) alone need a sampler from the user."""
    error, sample = frozen.error, frozen.sample
    if sampler is not None and not callable(sampler):
        raise TypeError(f"sampler must be a function of a random generator, got {shown(sampler)}")
    if sampler is not None:
        if sample.values is None:
            raise ValueError("sampler cannot be used: labels are drawn from the reported probabilities themselves")
        return World(frozen, _from_sampler(sampler, sample), GIVEN)
    proba, property = sample.distributions, error.property
    if proba is not None and property.drawn(np.zeros(1, int), proba.shape[-1]) is not None:
        k = proba.shape[1]
        return World(frozen, lambda rng, b: np.asarray(property.drawn(draw_labels(rng, proba, b), k)), CATEGORICAL)
    if sample.values is not None:
        raise ValueError(
            "the distribution of outcomes under calibration is unknown: pass sampler=, a function "
            "of a numpy Generator that returns one array of outcomes drawn with the predictions as their means"
        )
    if sample.reports.ndim == 2:
        return World(frozen, lambda rng, b: draw_labels(rng, sample.reports, b), CATEGORICAL)
    u = sample.reports.astype(np.float64)
    null = POSITIVE if sample.wrong is None else BERNOULLI
    return World(frozen, lambda rng, b: rng.random((b, len(u))) < u, null)


def device_draws() -> Any:
    """The module that draws on a GPU, which needs torch."""
    return importlib.import_module("truecal.inference.device_draws")


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
    labels = np.zeros((size, n), dtype=np.min_scalar_type(k))
    for rows in row_blocks(n, k, _CDF_ENTRIES):
        cdf = np.cumsum(proba[rows], axis=1, dtype=np.float64)
        cdf /= cdf[:, -1:]
        if k <= _FEW_CLASSES:
            chance = rng.random((len(cdf), size))
            for column in cdf.T[:-1]:
                labels[:, rows] += (chance >= column[:, None]).T
            continue
        offset = np.arange(len(cdf), dtype=np.float64)[:, None]
        flat = (cdf + offset).reshape(-1)  # one sorted array: row i lives in [i, i + 1]
        found = np.searchsorted(flat, rng.random((len(cdf), size)) + offset, side="right")
        found -= (offset * k).astype(found.dtype)
        labels[:, rows] = np.minimum(found, k - 1).T
    return labels


# -- statistics of draws ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """Statistics of the observed outcomes and of draws under calibration, by one code path; arrays have one column per
    bin count. For l2 the statistic is U, for l1 the error itself."""

    observed: Array
    drawn: Array


def simulate(world: World, n_resamples: int, seed: int) -> Draws:
    """The statistic of the observed outcomes and of `n_resamples` draws."""
    rng = np.random.default_rng(seed)
    found = list(world.frozen)
    statistic = _statistic(world, found)
    observed = world.frozen.sample.values if world.frozen.sample.values is not None else world.frozen.sample.marks
    assert observed is not None
    (first,) = statistic(observed[None])
    rest = np.concatenate([statistic(world.draw(rng, size)) for size in _block_sizes(world, found, n_resamples)])
    return Draws(first, rest) if world.frozen.error.norm == "l1" else snapped(first, rest, world.frozen.sample)


def snapped(observed: Array, drawn: Array, sample: Sample) -> Draws:
    """U of observed and drawn outcomes; what rounding leaves of 0 is 0, and ties with other zeros."""
    floor = _NOTHING * float(sample.loss().max())
    return Draws(*(np.where(np.abs(values) <= floor, 0.0, values) for values in (observed, drawn)))


def draws_pvalue(observed: float, drawn: Array) -> float:
    """(1 + #{drawn ≥ observed})/(1 + draws), counting as equal what differs by rounding only."""
    slack = _ROUNDING * max(abs(float(observed)), float(np.abs(drawn).max()))
    return float((1 + np.count_nonzero(drawn >= observed - slack)) / (1 + len(drawn)))


def standardised(draws: Draws) -> Draws:
    """Values over their root mean square, of observed and drawn ones together.

    The observed one has no special place, so the largest over columns is exchangeable and the level stays exact (the
    null mean of U is 0). A column that is always 0, such as U with a bin for every row, counts as −inf.
    """
    unit = np.frexp(np.maximum(abs(draws.drawn).max(axis=0), abs(draws.observed)))[1]  # squares of 2^unit may be none
    square = (np.square(np.ldexp(draws.drawn, -unit)).sum(axis=0) + np.square(np.ldexp(draws.observed, -unit))) / (
        1 + len(draws.drawn)
    )
    speaks = square > 0
    scale = np.ldexp(np.sqrt(np.where(speaks, square, 1.0)), unit)
    silent = 0.0 if not speaks.any() else -np.inf
    observed, drawn = (np.where(speaks, x / scale, silent) for x in (draws.observed, draws.drawn))
    return Draws(observed, drawn)


def _block_sizes(world: World, parts: list[Piece], n_resamples: int) -> Iterator[int]:
    per_draw = world.frozen.sample.rows * (world.frozen.sample.views if world.frozen.sample.values is not None else 1)
    if world.indices and isinstance(parts[0].cells, BinCells):
        # pieces with bins
        atoms = sum(len(p.cells.sizes) * (p.columns.stop - p.columns.start) for p in parts)  # type: ignore[union-attr]
        per_draw = max(per_draw, 2 * atoms)
        counts = len(parts[0].cells.bins)
        if counts > 1 and (work := n_resamples * atoms * counts) > MOST_ADDED:
            raise ValueError(
                f"n_resamples={n_resamples:,} draws of these predictions and bin counts are {work:.1g} additions: take "
                f"fewer bin counts, or at most {max(1, n_resamples * MOST_ADDED // work):,} draws"
            )
    size = max(1, min(n_resamples, _BLOCK // per_draw))
    return (min(size, n_resamples - start) for start in range(0, n_resamples, size))


def _statistic(world: World, parts: list[Piece]) -> Callable[[Array], Array]:
    """A function of a block of draws that gives (draws, counts) statistics."""
    scale = world.frozen.sample.total_weight if world.frozen.error.norm == "l1" else world.frozen.sample.total_weight_sq
    if world.indices and all(isinstance(p.cells, BinCells) for p in parts):
        count = LabelCounts.of(world.frozen.sample, parts, world.frozen.error.norm)
        return lambda drawn: count.statistic(drawn) / scale
    return lambda drawn: _dense(world, parts, drawn) / scale


def _dense(world: World, parts: list[Piece], drawn: Array) -> Array:
    """Residuals written out, a few views at a time: for outcomes that are no labels, and for averages over cuts."""
    sample, l1 = world.frozen.sample, world.frozen.error.norm == "l1"
    total: Array | float = 0.0
    for piece in parts:
        for tile in piece.tiles(sample.rows * len(drawn)):
            r = _drawn_residuals(sample, drawn, tile)
            views = r.shape[1]
            cells: Any = piece.cells
            values = (cells.absolute if l1 else cells.pairs)(r.reshape(-1, sample.rows))
            total = total + piece.weight * values.reshape(len(values), len(drawn), views).sum(axis=2)
    return np.asarray(total).T


def _drawn_residuals(sample: Sample, drawn: Array, columns: slice) -> Array:
    """(draws, views, n) residuals of some views, of 0/1 outcomes, class labels or values."""
    if sample.reports.ndim == 1:
        r = (sample.reports.astype(np.float64) - drawn)[:, None, :]
    else:
        labels = drawn.ndim == 2
        views = np.arange(columns.start, columns.stop)[:, None]
        outcomes = drawn[:, None, :] == views if labels else np.moveaxis(drawn[:, :, columns], 1, 2)
        r = sample.reports[:, columns].T.astype(np.float64) - outcomes
    return r if sample.weights is None else r * sample.weights


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
    occupied, nowhere = np.arange(sum(b.number for b in parts) * repeat), np.zeros(0, np.intp)
    alone = all(b.alone for b in parts)
    if all(b.share is None for b in parts):
        return Bins(None, together, extra, occupied, len(occupied), bool(extra.any()), nowhere, alone)
    blocks = [sparse.eye_array(b.number) if b.share is None else b.share for b in parts]
    share = sparse.block_diag(blocks, format="csr") if len(blocks) > 1 else blocks[0]
    if repeat > 1:
        share = sparse.kron(share, sparse.eye_array(repeat), format="csr")
    return Bins(sparse.csr_array(share), together, extra, occupied, len(occupied), bool(extra.any()), nowhere, alone)


# -- null bands --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False, eq=False)
class NullBand(Result):
    """An error, and its range for a calibrated predictor with the same reports."""

    estimate: float
    low: float
    high: float
    pvalue: float
    level: float
    n_bins: int | None
    n_resamples: int
    null: str
    n_samples: int
    name: str

    def __repr__(self) -> str:
        bins = "" if self.n_bins is None else f", {bins_text(self.n_bins)}"
        return (
            f"Null band, {self.name}{bins}, {self.n_samples} samples, {self.n_resamples} resamples\n"
            f"  error {self.estimate:.4g}; if calibrated, {self.level:.0%} of values lie in "
            f"[{self.low:.4g}, {self.high:.4g}] ({p_of_draws(self.pvalue, self.n_resamples)})\n  null: {self.null}"
        )


def null_bands(frozen: BinnedSample, level: float, draws: int, seed: int) -> tuple[NullBand, ...]:
    """The band of an l1 error at each bin count: quantiles over outcomes drawn from the reports."""
    check_band_draws(draws, level)
    world = calibrated_world(frozen)
    simulated = simulate(world, draws, seed)
    low, high = null_quantiles(simulated.drawn, level)
    rows, name = frozen.sample.rows, frozen.error.symbol
    found = []
    for c, m in enumerate(frozen.counts):
        chance = draws_pvalue(simulated.observed[c], simulated.drawn[:, c])
        at = float(simulated.observed[c]), float(low[c]), float(high[c]), float(chance)
        found.append(NullBand(*at, level, m, draws, world.null, rows, name))
    return tuple(found)


def null_quantiles(drawn: Array, level: float) -> tuple[Array, Array]:
    """Order statistics of draws (draws, ...) between which a calibrated predictor's value lies with chance `level` or
    more: the r-th smallest and the r-th largest, r = ⌊(B + 1)(1 − level)/2⌋."""
    rank = check_band_draws(len(drawn), level)
    ordered = np.sort(drawn, axis=0)
    return ordered[rank - 1], ordered[-rank]
