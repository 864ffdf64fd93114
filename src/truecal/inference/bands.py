"""Consistency bands for reliability diagrams: the range of each bin's mean outcome under calibration."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from scipy.special import ndtri

from ..core.cells import SUMMED_ROWS, BinCells, Bins
from ..core.data import check_positive_int, shown
from ..core.parameters import described
from ..core.properties import Property
from ..core.result import Result
from ..core.sample import Sample
from ..core.types import Array
from ..sums.errors import CalibrationError
from .binned_sample import BinnedSample
from .checks import check_draws, check_level, read_error
from .null import null_quantiles
from .poisson_binomial import poisson_binomial, quantiles_of_runs

_BLOCK = 1 << 22
MOST_DRAWN = 10**6
"""Classes times draws for bands of weighted rows."""


@final
@dataclass(frozen=True, repr=False, eq=False)
class ConsistencyBands(Result):
    """Per view and bin: rows, mean report, mean outcome, and the interval of the mean outcome under calibration.

    Arrays have shape (views, bins), bin by bin those of the error's table; empty bins have NaN. `classes` names the
    column of each view, or is None for a single view.
    """

    count: Array
    mean_report: Array
    mean_outcome: Array
    low: Array
    high: Array
    level: float
    classes: tuple[int, ...] | None
    n_bins: int | None
    name: str

    @property
    def outside(self) -> Array:
        """Which bins have a mean outcome outside their band."""
        with np.errstate(invalid="ignore"):
            slack = 1e-12
            return np.asarray((self.mean_outcome < self.low - slack) | (self.mean_outcome > self.high + slack))

    def __repr__(self) -> str:
        bins = int(np.isfinite(self.mean_report).sum())
        return (
            f"{self.level:.0%} consistency bands, {self.name}: {int(self.outside.sum())} of {bins} bins outside, "
            f"at most {(1 - self.level) * bins:.2g} expected if calibrated"
        )


@described("ConsistencyBands.")
def consistency_bands(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError | None = None,
    n_bins: int | None = None,
    level: float = 0.95,
    classes: Any = None,
    n_resamples: int = 999,
    seed: int = 0,
    sample_weight: Any = None,
    labels: Any = None,
) -> ConsistencyBands:
    """Return per bin the range of the mean outcome if the reports were right, at the given level for each bin.

    The number of outcomes in a bin is then a sum of independent 0/1 draws with the reports as chances, and the band
    is between the exact quantiles of that sum. Classwise errors give one row of bins per class, or for the columns in
    `classes` only. Where equal reports straddle a boundary their outcomes are shared out between the bins, as in the
    error itself; there, and with weights, quantiles are those of `n_resamples` draws.

    >>> import truecal as tc
    >>> bands = tc.analysis.consistency_bands([1] * 10, [.3] * 10, error="binary", n_bins=1)  # Binomial(10, .3)
    >>> bands.low.tolist(), bands.high.tolist(), bands.outside.tolist()
    ([[0.0]], [[0.6]], [[True]])
    """
    draws, seed = check_draws(n_resamples, seed)
    level = check_level(level)
    if n_bins is not None:
        check_positive_int(n_bins, "n_bins")
    metric = read_error(error, n_bins, y_proba, of_gap=True)
    if metric.binning.several:
        raise ValueError("consistency_bands draws one diagram: pass one n_bins, not several")
    if not metric.has_gap and not metric.property.of_classes:
        raise ValueError("consistency_bands needs 0/1 outcomes; linear properties have no bands")
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels).on_host()
    views = len(_chosen(sample, classes))
    if sample.weights is not None and views * draws > MOST_DRAWN:
        raise ValueError(
            f"n_resamples={draws:,} draws of weighted rows for {views:,} classes: pass classes=, or fewer draws; their "
            f"product may be at most {MOST_DRAWN:,}"
        )
    return bands_of(BinnedSample.of(metric, sample), 0, level, draws, seed, classes)


def bands_of(
    frozen: BinnedSample, place: int, level: float, draws: int, seed: int, classes: Any = None
) -> ConsistencyBands:
    """The bands at bin count number `place` of an error with its cells."""
    metric, sample = frozen.error, frozen.sample
    chosen = _chosen(sample, classes)
    normal = None if metric.property.of_classes else float(-ndtri((1 - level) / 2))
    rng = np.random.default_rng(seed)
    rows = []
    for piece in frozen:
        if not isinstance(piece.cells, BinCells):
            raise ValueError(f"consistency_bands needs bins; {metric.binning!r} averages over cuts")
        for j in range(piece.columns.start, piece.columns.stop):
            if j in chosen:
                if normal is not None:
                    rows.append(_normal_band(metric.property, sample, piece.cells, place, j, normal))
                    continue
                rows.append(_view_band(sample, piece.cells, place, j, draws, level, rng))
    width = max([row.shape[1] for row in rows])
    wide = [np.pad(row, ((0, 0), (0, width - row.shape[1])), constant_values=np.nan) for row in rows]
    count, report, outcome, low, high = np.stack(wide, axis=1)
    if sample.weight_exponent > 900:
        raise ValueError("sample_weight is too large for its sums to be finite: rescale it")
    count = np.ldexp(count, sample.weight_exponent)
    names = chosen if sample.views > 1 else None
    counts = metric.binning.counts
    m = None if counts is None else counts[place]
    return ConsistencyBands(count, report, outcome, low, high, level, names, m, metric.symbol)


def _chosen(sample: Sample, classes: Any) -> tuple[int, ...]:
    if classes is None:
        return tuple(range(sample.views))
    if sample.views == 1:
        raise ValueError("classes cannot be used: this error has one view")
    values = np.atleast_1d(classes)
    if values.ndim != 1 or values.dtype.kind not in "iu" or ((values < 0) | (values >= sample.views)).any():
        raise ValueError(f"classes must be columns in 0..{sample.views - 1}, got {shown(classes)}")
    return tuple(sorted({int(v) for v in values}))


def _view_band(
    sample: Sample, form: BinCells, place: int, j: int, draws: int, level: float, rng: np.random.Generator
) -> Array:
    """(5, bins): count, mean report, mean outcome, low and high of one view."""
    u, bins = sample.view(j), form.bins[place]

    def observed(rows: slice) -> Array:
        w, outcome = sample.row_weights[rows], sample.outcome(slice(j, j + 1), rows)[0]
        return np.stack([w, w * u[rows].astype(np.float64), w * outcome])

    count, report, came = bins.sums(form.sums_of(observed, 3)).T
    if bins.split and sample.weights is None:
        low, high = null_quantiles(_divided_draws(u, form, bins, draws, rng), level)
    elif sample.weights is not None:
        step = 1 if sample.rows > SUMMED_ROWS else max(1, _BLOCK // sample.rows)

        def drawn(number: int, rows: slice) -> Array:
            w = sample.row_weights[rows]
            return np.asarray(w * (rng.random((number, len(w))) < u[rows].astype(np.float64)))

        sizes = [min(step, draws - start) for start in range(0, draws, step)]
        sums = [bins.sums(form.sums_of(partial(drawn, size), size)).T for size in sizes]
        low, high = null_quantiles(np.concatenate(sums), level)
    else:
        sizes = count.round().astype(np.int64)
        slack = 1e-12  # the convolutions are exact to about this much
        tails = (1 - level) / 2 - slack, (1 + level) / 2 - slack
        low, high = quantiles_of_runs(u[form.order], sizes, tails).T
    with np.errstate(invalid="ignore", divide="ignore"):  # bins of weight 0 have no mean
        means = [np.where(count > 0, x / count, np.nan) for x in (report, came, low, high)]
    filled = np.full((5, bins.total), np.nan)
    filled[0] = 0.0
    filled[:, bins.occupied] = [count, *means]
    return filled


def _normal_band(property: Property, sample: Sample, form: BinCells, place: int, j: int, z: float) -> Array:
    """(5, bins) as `_view_band`, of weighted outcomes: intervals from the variance of their sums."""
    assert sample.variance is not None
    bins, w, u = form.bins[place], sample.row_weights, sample.view(j).astype(np.float64)
    home = bins.occupied[bins.home][form.atom]
    sums = [np.bincount(home, x, bins.total) for x in (w, w * u, np.square(w) * sample.variance[:, j])]
    filled = np.full((5, bins.total), np.nan)
    filled[0] = count = sums[0]
    for b in np.flatnonzero(count > 0):
        report, half = sums[1][b] / count[b], z * np.sqrt(sums[2][b]) / count[b]
        came = property.observed(sample, np.flatnonzero(home == b))[j]
        filled[1:, b] = report, came, max(report - half, 0.0), min(report + half, 1.0)
    return filled


def _divided_draws(u: Array, form: BinCells, bins: Bins, draws: int, rng: np.random.Generator) -> Array:
    """(draws, bins): drawn sums of outcomes, where cuts divide blocks of equal reports between bins.

    The rows that are in one bin come by the exact law of their number of ones, and those of a divided block, of which
    each bin has its share, by a binomial number: draws cost nothing per row.
    """
    share, divided = bins.share.tocsc(), bins.extra != 0
    home = np.where(divided, bins.number, share.indices[share.indptr[:-1]]).astype(np.min_scalar_type(bins.number))
    row_bin, sums = home[form.atom], np.empty((draws, bins.number))
    for b in range(bins.number):
        law = poisson_binomial(u[row_bin == b].astype(np.float64))
        sums[:, b] = law.first + np.searchsorted(np.cumsum(law.chance[:-1]), rng.random(draws), side="right")
    shared = np.flatnonzero(row_bin == bins.number)
    chance = np.zeros(len(form.sizes))
    chance[form.atom[shared]] = u[shared].clip(0.0, 1.0)
    ones = rng.binomial(form.sizes[divided], chance[divided], (draws, int(divided.sum())))
    return np.asarray(sums + (share[:, divided] @ ones.T).T)
