"""Is this predictor calibrated? The resampling test on U, the noise of U, and the null band of any error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..core.cells import pieces
from ..core.errors import CalibrationError
from ..core.properties import Binary, Confidence, Outcomes, TopLabel
from ..core.result import Result
from ..core.sample import Sample
from .direction import MeanGap, gap_of
from .null import Draws, Sampler, World, calibrated_world, simulate
from .options import (
    bins_text,
    check_band_draws,
    check_draws,
    check_level,
    counts_of,
    read_error,
    shown_bins,
)

Array = NDArray[Any]

_ROUNDING = 1e-10  # draws that equal the observed value up to rounding count as at least as large


@final
@dataclass(frozen=True, repr=False, eq=False)
class CountDetail(Result):
    """U at one bin count, and its distribution under calibration."""

    n_bins: int | None
    U: float
    pvalue: float
    null_mean: float
    null_sd: float
    closed_form_sd: float | None

    def __repr__(self) -> str:
        bins = "" if self.n_bins is None else f"{bins_text(self.n_bins)}: "
        exact = "" if self.closed_form_sd is None else f", closed form ± {self.closed_form_sd:.4g}"
        return f"{bins}U {self.U:+.4g}; if calibrated {self.null_mean:+.2g} ± {self.null_sd:.4g}{exact}"


@final
@dataclass(frozen=True, repr=False, eq=False)
class CalibrationTest(Result):
    """The outcome of a calibration test; `pvalue` has exact level at every n under `null`.

    `statistic` is U for one bin count and the largest standardised U for several; `details` holds U, its own p-value
    and its null moments per bin count.
    """

    pvalue: float
    statistic: float
    null_mean: float
    null_sd: float
    closed_form_mean: float | None
    closed_form_sd: float | None
    null: str
    n_bins: int | tuple[int, ...] | None
    resamples: int
    details: tuple[CountDetail, ...]
    direction: MeanGap | None
    n_samples: int
    name: str

    def __repr__(self) -> str:
        lines = [f"Calibration test, {self.name}, {self.n_samples} samples, {self.resamples} resamples"]
        lines += [f"  {detail!r}" for detail in self.details]
        joint = "" if len(self.details) == 1 else f" for all bin counts together (largest U/sd {self.statistic:.3g})"
        lines.append(f"  p = {self.pvalue:.3g}{joint}")
        if self.direction is not None:
            lines.append(f"  {self.direction!r}")
        lines.append(f"  null: {self.null}")
        return "\n".join(lines)


def calibration_test(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "classwise",
    n_bins: int | Sequence[int] | None = None,
    resamples: int = 999,
    seed: int = 0,
    sample_weight: Any = None,
    labels: Any = None,
    sampler: Sampler | None = None,
) -> CalibrationTest:
    """Test of calibration with exact level at every sample size, on U = n⁻¹ Σ_{i≠j} G_ij ⟨r_i, r_j⟩.

    Outcomes are drawn from the reports, the bins stay as they are, and p = (1 + #{U* ≥ U})/(1 + resamples). Several
    bin counts are tested at once through the largest U divided by its null sd, in the same draws. The null is stated in
    the result: labels drawn from the whole of p_i are calibrated in full, not only for the property under test. Rows
    must be independent; bare (outcomes, reports) need `sampler`, a function of a numpy Generator that returns outcomes.

    >>> import truecal as tc
    >>> test = tc.calibration_test([1, 1, 0, 1, 1, 1], [.1, .2, .2, .1, .3, .2], error="binary", n_bins=1)
    >>> test.pvalue < .01
    True
    """
    draws, seed = check_draws(resamples, seed)
    metric = read_error(error, n_bins)
    if metric.norm == "l1":
        raise ValueError("calibration_test works on U, which norm='l1' errors do not have; use null_band for them")
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    world = calibrated_world(metric, sample, sampler)
    simulated = simulate(world, draws, seed)
    exact = closed_form_sd(world)
    details = _details(metric, simulated, exact)
    one = details[0] if len(details) == 1 else None
    standard = _standardised(simulated)
    largest, drawn = float(standard.observed.max()), standard.drawn.max(axis=1)
    return CalibrationTest(
        pvalue=_pvalue(largest, drawn) if one is None else one.pvalue,
        statistic=largest if one is None else one.U,
        null_mean=float(drawn.mean()) if one is None else one.null_mean,
        null_sd=float(drawn.std()) if one is None else one.null_sd,
        closed_form_mean=None if exact is None or one is None else 0.0,
        closed_form_sd=None if one is None else one.closed_form_sd,
        null=world.null,
        n_bins=shown_bins(metric),
        resamples=draws,
        details=details,
        direction=_direction(metric, sample, y_true, y_proba, labels),
        n_samples=sample.rows,
        name=metric.symbol,
    )


def _details(metric: CalibrationError, draws: Draws, exact: Array | None) -> tuple[CountDetail, ...]:
    return tuple(
        CountDetail(
            n_bins=m,
            U=float(draws.observed[c]),
            pvalue=_pvalue(draws.observed[c], draws.drawn[:, c]),
            null_mean=float(draws.drawn[:, c].mean()),
            null_sd=float(draws.drawn[:, c].std()),
            closed_form_sd=None if exact is None else float(exact[c]),
        )
        for c, m in enumerate(counts_of(metric.binning))
    )


def _pvalue(observed: float, drawn: Array) -> float:
    """(1 + #{drawn ≥ observed})/(1 + draws), counting as equal what differs by rounding only."""
    slack = _ROUNDING * max(abs(float(observed)), float(np.abs(drawn).max()))
    return float((1 + np.count_nonzero(drawn >= observed - slack)) / (1 + len(drawn)))


def _standardised(draws: Draws) -> Draws:
    """Divided by the root mean square over observed and drawn values together: the observed one keeps no special place,
    so the largest over bin counts is exchangeable and the level stays exact (the null mean of U is 0). Counts at which
    U is always 0, such as a bin for every row, have nothing to say and are left out unless all are such."""
    square = (np.square(draws.drawn).sum(axis=0) + np.square(draws.observed)) / (1 + len(draws.drawn))
    speaks = square > 0 if square.any() else np.ones(len(square), dtype=bool)
    scale = np.sqrt(np.where(square > 0, square, 1.0))[speaks]
    return Draws(draws.observed[speaks] / scale, draws.drawn[:, speaks] / scale)


def _direction(metric: CalibrationError, sample: Sample, y_true: Any, y_proba: Any, labels: Any) -> MeanGap | None:
    if sample.views > 1 or not isinstance(metric.property, (Binary, Outcomes, TopLabel, Confidence)):
        if isinstance(metric.property, Outcomes):
            return None
        sample = Confidence().read(y_true, y_proba, sample_weight=sample.weights, labels=labels)
    return gap_of(sample)


def closed_form_sd(world: World) -> Array | None:
    """sd of U under calibration per bin count, Var U = 2 n⁻² Σ_{i≠j} G_ij² s_i s_j; None where outcomes are vectors."""
    if world.variance is None:
        return None
    sample, rule = world.sample, world.error.binning
    s = world.variance if sample.weights is None else world.variance * np.square(sample.weights)
    pairs = sum(p.weight * p.cells.pairs_of_squares(s) for p in pieces(sample, rule, world.error.ties))
    return np.asarray(np.sqrt(2 * np.maximum(pairs, 0.0)) / sample.total_weight_sq)


# -- how noisy is U? --------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False, eq=False)
class Noise(Result):
    """The sd of U under calibration at the chosen bin count(s), the loss expected under calibration, and their ratio.

    `relative` is how much of n·error is noise that says nothing about calibration. At a fixed number of bins it does
    not shrink with n; more bins shrink it.
    """

    sd: float | Array
    loss: float
    relative: float | Array
    n_bins: int | tuple[int, ...] | None
    method: str
    n_samples: int
    name: str

    def __repr__(self) -> str:
        bins = self.n_bins if isinstance(self.n_bins, tuple) else (self.n_bins,)
        lines = [f"Noise of U under calibration, {self.name}, {self.n_samples} samples ({self.method})"]
        for m, sd, share in zip(bins, np.atleast_1d(self.sd), np.atleast_1d(self.relative), strict=True):
            where = "" if m is None else f"{bins_text(m)}: "
            lines.append(f"  {where}sd {sd:.4g}, {share:.1%} of the loss {self.loss:.4g}")
        return "\n".join(lines)


def noise_of_U(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "classwise",
    n_bins: int | Sequence[int] | None = None,
    sample_weight: Any = None,
    labels: Any = None,
    sampler: Sampler | None = None,
    resamples: int = 999,
    seed: int = 0,
) -> Noise:
    """How far U strays from 0 if the predictor is calibrated: Var U = 2 n⁻² Σ_{i≠j} G_ij² s_i s_j, s_i = u_i(1 − u_i).

    Exact for scalar reports; for several views (classwise, full) the sd of `resamples` draws. `loss` is the mean loss
    that a calibrated predictor with these reports expects, and `relative` = sd/loss. Labels are not used.

    >>> import truecal as tc
    >>> noise = tc.noise_of_U([0, 1, 0, 1], [.5, .5, .5, .5], error="binary", n_bins=1)
    >>> round(noise.sd, 6), noise.loss
    (0.306186, 0.25)
    """
    draws, seed = check_draws(resamples, seed)
    metric = read_error(error, n_bins)
    if metric.norm == "l1":
        raise ValueError("noise_of_U is about U, which norm='l1' errors do not have; use null_band for them")
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    world = calibrated_world(metric, sample, sampler)
    exact = closed_form_sd(world)
    method = "exact"
    if exact is None:
        exact = np.sqrt(np.square(simulate(world, draws, seed).drawn).mean(axis=0))
        method = f"{draws} resamples"
    loss = _expected_loss(world, draws, seed)
    several = metric.binning.several
    sd = exact if several else float(exact[0])
    relative = exact / loss if loss > 0 else np.zeros_like(exact)
    return Noise(
        sd, loss, relative if several else float(relative[0]), shown_bins(metric), method, sample.rows, metric.symbol
    )


def _expected_loss(world: World, resamples: int, seed: int) -> float:
    """The mean associated loss under calibration, weighted by w² as the loss part is."""
    sample, metric = world.sample, world.error
    w = np.ones(sample.rows) if sample.weights is None else np.square(sample.weights)
    if world.variance is not None:
        per_row = world.variance
        if metric.corrected:
            per_row = per_row + 1 - sample.reports.astype(np.float64)
    elif world.indices:
        squares = np.einsum("ij,ij->i", sample.reports, sample.reports, dtype=np.float64)
        per_row = (1 - squares) / (1 if sample.joint else sample.views)
    else:  # drawn outcomes of unknown law: the mean over draws
        rng = np.random.default_rng(seed)
        reports = sample.reports.astype(np.float64)
        total = np.zeros(sample.rows)
        for _ in range(resamples):
            total += np.square(reports - world.draw(rng, 1)[0]).reshape(sample.rows, -1).sum(axis=1)
        per_row = total / resamples
    return float(w @ per_row / w.sum())


# -- null band --------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False, eq=False)
class NullBand(Result):
    """An error, and the range in which a calibrated predictor with the same reports would find it."""

    estimate: float | Array
    low: float | Array
    high: float | Array
    pvalue: float | Array
    level: float
    statistic: str
    n_bins: int | tuple[int, ...] | None
    resamples: int
    null: str
    n_samples: int
    name: str

    def __repr__(self) -> str:
        bins = self.n_bins if isinstance(self.n_bins, tuple) else (self.n_bins,)
        lines = [f"Null band, {self.name}, {self.n_samples} samples, {self.resamples} resamples"]
        columns = (np.atleast_1d(v) for v in (self.estimate, self.low, self.high, self.pvalue))
        for m, e, low, high, p in zip(bins, *columns, strict=True):
            where = "" if m is None else f"{bins_text(m)}: "
            lines.append(
                f"  {where}{self.statistic} {e:.4g}; if calibrated, {self.level:.0%} of values lie in "
                f"[{low:.4g}, {high:.4g}] (p = {p:.3g})"
            )
        lines.append(f"  null: {self.null}")
        return "\n".join(lines)


def null_band(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "confidence_l1",
    n_bins: int | Sequence[int] | None = None,
    level: float = 0.95,
    resamples: int = 999,
    seed: int = 0,
    sample_weight: Any = None,
    labels: Any = None,
    sampler: Sampler | None = None,
) -> NullBand:
    """Where an error would lie if the predictor were calibrated: quantiles over outcomes drawn from the reports.

    For l1 errors the value is the error itself, which is far from 0 even for a calibrated predictor; for l2 errors it
    is U. The p-value is that of the resampling test on the same value, with exact level.

    >>> import truecal as tc
    >>> band = tc.null_band([1, 0, 1, 0], [.5, .5, .5, .5], error="binary_l1", n_bins=1)  # |2 − ones|/4
    >>> band.estimate, band.low, band.high
    (0.0, 0.0, 0.5)
    """
    draws, seed = check_draws(resamples, seed)
    level = check_level(level)
    check_band_draws(draws, level)
    metric = read_error(error, n_bins)
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    world = calibrated_world(metric, sample, sampler)
    simulated = simulate(world, draws, seed)
    low, high = null_quantiles(simulated.drawn, level)
    pvalue = np.array([_pvalue(o, d) for o, d in zip(simulated.observed, simulated.drawn.T, strict=True)])
    values = (simulated.observed, low, high, pvalue)
    # floats for one count, arrays for several
    estimate, low, high, pvalue = values if metric.binning.several else (float(v[0]) for v in values)  # type: ignore[assignment]
    return NullBand(
        estimate=estimate,
        low=low,
        high=high,
        pvalue=pvalue,
        level=level,
        statistic="error" if metric.norm == "l1" else "U",
        n_bins=shown_bins(metric),
        resamples=draws,
        null=world.null,
        n_samples=sample.rows,
        name=metric.symbol,
    )


def null_quantiles(drawn: Array, level: float) -> tuple[Array, Array]:
    """Order statistics of draws (draws, ...) between which a calibrated predictor's value lies with chance `level` or
    more, the draws being random too."""
    rank = check_band_draws(len(drawn), level)
    ends = np.partition(drawn, [rank - 1, len(drawn) - rank], axis=0)
    return ends[rank - 1], ends[len(drawn) - rank]
