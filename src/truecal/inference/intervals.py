"""How sure are we of an error, and of the difference of two? Delete-one and delete-a-cluster jackknife, bins frozen.

With G frozen, h_i = r_i Σ_{j≠i} G_ij r_j and P = Σ h_i = n·U, leaving row i out changes P by −2 h_i (a cluster C by
−2 Σ_{i∈C} h_i + Σ_{i≠j∈C} G_ij r_i r_j), so all leave-one-out values come from one pass. What is left out changes the
number of pairs too; the mean over pairs θ = P/(n(n−1)) does not depend on it, and U = (n−1)·θ.

The spread of U grows with its mean: near E[U] = e its variance is Var₀ + 4κe, κ = n⁻¹ Σ_{i≠j} G_ij² r_i² r_j² / Σ r²
(for m equal bins κ = loss/m). A low U thus comes with a low se, and U ± t·se would miss above. On the scale of the
square root the spread is constant, which moves the interval by t²κ: its upper end reaches that much further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ..binning import AveragedRule, Exact, Halfspaces
from ..errors import CalibrationError, get_error
from ..properties import Outcomes, Sample
from ..table import resolve_ties
from .frozen import Piece, column_tiles, frozen_pieces, residuals
from .null import Sampler, calibrated_world, simulate
from .results import Result, bins_text, check_draws, check_groups, check_level, counts_of
from .testing import NullBand, null_band, null_quantiles

Array = NDArray[Any]
What = Literal["U", "loss", "error", "score"]

WHOLE: tuple[What, What, What] = ("loss", "U", "score")
FEW_BINS = 5
"""Below this many bins the jackknife alone covers too seldom under calibration, and the exact null is used as well."""
L1_REASON = (
    "absolute bin sums have no interval: near calibration their sampling distribution is folded at zero and their bias "
    "is as large as their spread, so neither jackknife nor bootstrap covers; this is the band of a calibrated predictor"
)


# -- leave-one-out values ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LeftOut:
    """Loss and U (per bin count) of all rows, and of all rows but one unit; U is scaled to the whole sample's size."""

    loss: float
    U: Array
    losses_without: Array
    Us_without: Array
    kappa: Array

    @property
    def units(self) -> int:
        return len(self.losses_without)


def leave_out(metric: CalibrationError, sample: Sample, groups: tuple[Array, int] | None) -> LeftOut:
    """Every leave-one-out value of the loss part and the U part, in O(n) after one sort per view."""
    pairs, removed, kappa = _pair_sums(metric, sample, groups)
    w = np.ones(sample.rows) if sample.weights is None else sample.weights
    losses = sample.loss()
    if sample.wrong is not None and not metric.corrected:
        losses = losses - sample.wrong
    each = [w, w * w, w * w * losses]
    if groups is not None:
        each = [np.bincount(groups[0], weights=x, minlength=groups[1]) for x in each]
    rest_w, rest_sq, rest_loss = (x.sum() - x for x in each)
    total_sq = sample.total_weight_sq
    mass = sample.total_weight**2 - total_sq  # Σ_{i≠j} w_i w_j
    rest_mass = rest_w**2 - rest_sq
    if not (rest_mass > 0).all() or mass <= 0:
        raise ValueError(
            f"an interval needs at least three rows with weight, and no unit that holds all: n={sample.rows}"
        )
    loss = float(each[2].sum() / total_sq)
    without = (pairs[:, None] - removed) / rest_mass * (mass / total_sq)
    return LeftOut(loss, pairs / total_sq, rest_loss / rest_sq, without, kappa / total_sq)


def _pair_sums(
    metric: CalibrationError, sample: Sample, groups: tuple[Array, int] | None
) -> tuple[Array, Array, Array]:
    """(counts,) pair sums P, (counts, units) what leaving a unit out takes from them, and n·κ per count."""
    counts = metric.binning.results
    spread, own = np.zeros(counts), 0.0
    removed = np.zeros((counts, sample.rows if groups is None else groups[1]))
    pairs = np.zeros(counts)
    for piece in frozen_pieces(sample, metric.binning, resolve_ties(metric.binning, metric.norm)):
        for tile in column_tiles(piece.columns, sample.rows):
            r = residuals(sample, tile)
            own += piece.weight * float(np.square(r).sum())
            spread += _weighted_squares(piece, r, metric)
            h = piece.weight * piece.form.influence(r).sum(axis=1)
            pairs += h.sum(axis=1)
            if groups is None:
                removed += 2 * h
                continue
            for c in range(counts):
                removed[c] += 2 * np.bincount(groups[0], weights=h[c], minlength=groups[1])
            removed -= piece.weight * piece.form.within(r, *groups)
    if isinstance(metric.binning, Halfspaces):
        spread = np.square(spread)
    if sample.views > 1:
        spread = 2 * spread  # residuals of different classes of one row are correlated: at most this much
    return pairs, removed, spread / own if own > 0 else np.zeros(counts)


def _weighted_squares(piece: Piece, r: Array, metric: CalibrationError) -> Array:
    """A piece's part of Σ G_ij² r_i² r_j²: views add up as variances do, directions as standard deviations at most."""
    pairs = sum(piece.form.pairs_of_squares(np.square(row)) for row in r)
    pairs = np.maximum(pairs, 0.0)
    return np.asarray(
        piece.weight * np.sqrt(pairs) if isinstance(metric.binning, Halfspaces) else piece.weight**2 * pairs
    )


def jackknife_se(without: Array) -> float:
    """sqrt((G − 1)/G Σ (θ_(−g) − mean)²) over the G leave-one-out values."""
    units = len(without)
    return float(np.sqrt((units - 1) / units * np.square(without - without.mean()).sum()))


# -- one predictor ----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False)
class Interval(Result):
    """An estimate and its interval; for l1 errors no interval but a null band, and the reason in `note`."""

    what: str
    estimate: float
    low: float | None
    high: float | None
    se: float | None
    level: float
    method: str
    note: str
    n_bins: int | None
    n_samples: int
    name: str
    band: NullBand | None = None

    def __repr__(self) -> str:
        bins = "" if self.n_bins is None else f", {bins_text(self.n_bins)}"
        head = f"{self.what} of {self.name}{bins}, {self.n_samples} samples: {self.estimate:.4g}"
        if self.low is None or self.high is None or self.se is None:
            assert self.band is not None
            band = f"  if calibrated, {self.level:.0%} of values lie in [{self.band.low:.4g}, {self.band.high:.4g}]"
            return f"{head}\n{band}\n  {self.note}"
        text = f"{head}, {self.level:.0%} interval [{self.low:.4g}, {self.high:.4g}] (se {self.se:.2g}, {self.method})"
        return text + (f"\n  {self.note}" if self.note else "")


@overload
def confidence_interval(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "classwise",
    n_bins: int | None = None,
    level: float = 0.95,
    groups: Any = None,
    what: What = "U",
    sample_weight: Any = None,
    labels: Any = None,
    sampler: Sampler | None = None,
    resamples: int = 999,
    seed: int = 0,
) -> Interval: ...
@overload
def confidence_interval(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "classwise",
    n_bins: Sequence[int],
    level: float = 0.95,
    groups: Any = None,
    what: What = "U",
    sample_weight: Any = None,
    labels: Any = None,
    sampler: Sampler | None = None,
    resamples: int = 999,
    seed: int = 0,
) -> tuple[Interval, ...]: ...
def confidence_interval(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "classwise",
    n_bins: int | Sequence[int] | None = None,
    level: float = 0.95,
    groups: Any = None,
    what: What = "U",
    sample_weight: Any = None,
    labels: Any = None,
    sampler: Sampler | None = None,
    resamples: int = 999,
    seed: int = 0,
) -> Interval | tuple[Interval, ...]:
    """Interval for the expected U ("U"), loss part ("loss"), error ("error") or n·error ("score"); one per bin count.

    Delete-one jackknife with the bins as they are, U_(−i) ∝ n·U − 2 r_i Σ_{j≠i} G_ij r_j, in O(n); `groups` leaves out
    whole clusters. Its se² is about twice too large for a calibrated predictor and right for a miscalibrated one; the
    upper end reaches t²κ further, since U varies more where its mean is larger (κ is loss/m for m equal bins). Below
    five bins, and for averages over cuts, the jackknife alone covers too seldom under calibration: there the interval
    is the wider of it and the one that inverts the exact null, U minus the null's quantiles. l1 errors get a null band.

    >>> import truecal as tc
    >>> y, p = [0, 1, 1, 0, 1, 0, 1, 1], [.1, .6, .7, .3, .9, .4, .8, .5]
    >>> ci = tc.confidence_interval(y, p, error="binary", n_bins=5)
    >>> ci.low < ci.estimate < ci.high
    True
    """
    level = check_level(level)
    draws, seed = check_draws(resamples, seed)
    if what not in ("U", "loss", "error", "score"):
        raise ValueError(f"what must be 'U', 'loss', 'error' or 'score', got {what!r}")
    metric = get_error(error, n_bins)
    if metric.norm == "l1":
        return _l1_bands(metric, y_true, y_proba, level, what, sample_weight, labels, sampler, draws, seed)
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    clusters = check_groups(groups, sample.rows)
    left = leave_out(metric, sample, clusters)
    few = [what != "loss" and few_bins(metric, m) for m in counts_of(metric.binning)]
    null: Array | None = None
    if any(few) and clusters is None and (sampler is not None or not isinstance(metric.property, Outcomes)):
        null = simulate(calibrated_world(metric, sample, y_proba, sampler), draws, seed).drawn
    found = tuple(
        interval_of(metric, sample, left, c, what, level, clusters is not None, null if few[c] else None, few[c])
        for c in range(len(few))
    )
    return found if metric.binning.several else found[0]


def few_bins(metric: CalibrationError, m: int | None) -> bool:
    """Whether the jackknife alone is not enough: few bins, or a kernel, which acts like one or two bins."""
    if isinstance(metric.binning, (AveragedRule, Halfspaces)):
        return True
    return m is not None and m < FEW_BINS and not isinstance(metric.binning, Exact)


def interval_of(
    metric: CalibrationError,
    sample: Sample,
    left: LeftOut,
    c: int,
    what: What,
    level: float,
    clustered: bool,
    null: Array | None,
    few: bool,
) -> Interval:
    values, estimate = _target(left, c, what)
    size = sample.total_weight**2 / sample.total_weight_sq if what == "error" else 1.0
    se = jackknife_se(values)
    t = float(stdtrit(left.units - 1, (1 + level) / 2))
    below, above = t * se, t * se
    if what != "loss":
        above += t * t * float(left.kappa[c])
    method = "delete-a-cluster jackknife" if clustered else "delete-one jackknife"
    note = ""
    if null is not None:
        low, high = null_quantiles(null[:, c], level)
        below, above = max(below, float(high)), max(above, -float(low))
        method = "exact null, or delete-one jackknife where wider"
        note = "few bins: the jackknife alone covers too seldom here; quantiles of U under calibration widen it"
    elif few:
        why = "clusters have" if clustered else "bare outcomes have"
        note = f"few bins: the jackknife alone covers too seldom under calibration, and {why} no exact null to widen it"
    return Interval(
        what=what,
        estimate=estimate / size,
        low=(estimate - below) / size,
        high=(estimate + above) / size,
        se=se / size,
        level=level,
        method=method,
        note=note,
        n_bins=counts_of(metric.binning)[c],
        n_samples=sample.rows,
        name=metric.symbol,
    )


def _target(left: LeftOut, c: int, what: What) -> tuple[Array, float]:
    """Leave-one-out values and the whole value of what is asked for, on the scale of the loss."""
    if what == "loss":
        return left.losses_without, left.loss
    if what == "U":
        return left.Us_without[c], float(left.U[c])
    return left.losses_without + left.Us_without[c], left.loss + float(left.U[c])


def _l1_bands(
    metric: CalibrationError,
    y_true: Any,
    y_proba: Any,
    level: float,
    what: What,
    sample_weight: Any,
    labels: Any,
    sampler: Sampler | None,
    resamples: int,
    seed: int,
) -> Interval | tuple[Interval, ...]:
    if what not in ("U", "error"):
        raise ValueError(f"what={what!r} cannot apply: norm='l1' errors have no loss part")
    found = []
    for m in counts_of(metric.binning):
        one = metric if metric.binning.counts is None or m is None else metric.with_bins(m)
        band = null_band(
            y_true,
            y_proba,
            error=one,
            level=level,
            resamples=resamples,
            seed=seed,
            sample_weight=sample_weight,
            labels=labels,
            sampler=sampler,
        )
        estimate = float(np.asarray(band.estimate))
        found.append(
            Interval(
                "error", estimate, None, None, None, level, "none", L1_REASON, m, band.n_samples, metric.symbol, band
            )
        )
    return tuple(found) if metric.binning.several else found[0]


# -- two predictors ---------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False)
class Part(Result):
    """One part of a difference: estimate, interval, standard error and two-sided p-value."""

    estimate: float
    low: float
    high: float
    se: float
    pvalue: float

    def __repr__(self) -> str:
        return f"{self.estimate:+.4g} [{self.low:+.4g}, {self.high:+.4g}] (se {self.se:.2g}, p = {self.pvalue:.3g})"


@final
@dataclass(frozen=True, repr=False)
class PairedDifference(Result):
    """First minus second on the same rows: the loss part, the U part, and their sum D = n·(error_a − error_b)."""

    loss: Part
    U: Part
    D: Part
    level: float
    names: tuple[str, str]
    method: str
    note: str
    n_bins: int | None
    n_samples: int
    name: str

    @property
    def conclusions(self) -> tuple[str, str]:
        """What the loss part says (who predicts better) and what the U part says (who is closer to calibrated)."""
        a, b = self.names
        cut = 1 - self.level
        loss = f"no difference in loss beyond noise (p = {self.loss.pvalue:.3g})"
        if self.loss.pvalue < cut:
            winner, other = (b, a) if self.loss.estimate > 0 else (a, b)
            loss = f"{winner} predicts better than {other}: smaller loss"
        u = f"no difference in calibration beyond noise (p = {self.U.pvalue:.3g})"
        if self.U.pvalue < cut:
            winner, other = (b, a) if self.U.estimate > 0 else (a, b)
            u = f"{winner} is closer to calibrated than {other}: smaller U"
        return loss, u

    def __repr__(self) -> str:
        a, b = self.names
        bins = "" if self.n_bins is None else f", {bins_text(self.n_bins)}"
        loss, u = self.conclusions
        lines = [
            f"{a} − {b}, {self.name}{bins}, {self.n_samples} samples, {self.level:.0%} intervals, {self.method}",
            f"  loss  {self.loss!r}: {loss}",
            f"  U     {self.U!r}: {u}",
            f"  sum   {self.D!r}",
        ]
        return "\n".join(lines + ([f"  {self.note}"] if self.note else []))


@overload
def paired_difference(
    y_true: Any,
    a: Any,
    b: Any,
    *,
    error: str | CalibrationError = "classwise",
    n_bins: int | None = None,
    level: float = 0.95,
    groups: Any = None,
    sample_weight: Any = None,
    labels: Any = None,
    names: tuple[str, str] = ("a", "b"),
) -> PairedDifference: ...
@overload
def paired_difference(
    y_true: Any,
    a: Any,
    b: Any,
    *,
    error: str | CalibrationError = "classwise",
    n_bins: Sequence[int],
    level: float = 0.95,
    groups: Any = None,
    sample_weight: Any = None,
    labels: Any = None,
    names: tuple[str, str] = ("a", "b"),
) -> tuple[PairedDifference, ...]: ...
def paired_difference(
    y_true: Any,
    a: Any,
    b: Any,
    *,
    error: str | CalibrationError = "classwise",
    n_bins: int | Sequence[int] | None = None,
    level: float = 0.95,
    groups: Any = None,
    sample_weight: Any = None,
    labels: Any = None,
    names: tuple[str, str] = ("a", "b"),
) -> PairedDifference | tuple[PairedDifference, ...]:
    """Two predictors on the same rows: n·(error_a − error_b) = (loss_a − loss_b) + (U_a − U_b), each with interval.

    The loss part says who predicts better (for unweighted rows its interval is the paired t interval), the U part who
    is closer to calibrated; the sum mixes both. Jackknife over rows, or over clusters with `groups`; bins frozen. One
    result per bin count.

    >>> import truecal as tc
    >>> y = [0, 1, 1, 0, 1, 0, 1, 1]
    >>> good, flat = [.1, .8, .7, .2, .9, .3, .8, .6], [.6] * 8
    >>> diff = tc.paired_difference(y, good, flat, error="binary", n_bins=5)
    >>> round(diff.loss.estimate + diff.U.estimate - diff.D.estimate, 12)
    0.0
    """
    level = check_level(level)
    if len(tuple(names)) != 2 or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names must be two strings, got {names!r}")
    metric = get_error(error, n_bins)
    if metric.norm == "l1":
        raise ValueError(
            "norm='l1' errors have no loss part and no interval, so no paired difference; use a squared one"
        )
    samples = [metric.read(y_true, p, sample_weight=sample_weight, labels=labels) for p in (a, b)]
    clusters = check_groups(groups, samples[0].rows)
    first, second = (leave_out(metric, sample, clusters) for sample in samples)
    method = "jackknife over rows" if clusters is None else "jackknife over clusters"
    found = []
    for c, m in enumerate(counts_of(metric.binning)):
        loss, u, both = (paired_part(first, second, c, what, level) for what in WHOLE)
        note = ""
        if few_bins(metric, m):
            note = "few bins: the U part is nearly all noise, and its interval covers too seldom near calibration"
        found.append(
            PairedDifference(
                loss, u, both, level, (names[0], names[1]), method, note, m, samples[0].rows, metric.symbol
            )
        )
    return tuple(found) if metric.binning.several else found[0]


def paired_part(first: LeftOut, second: LeftOut, c: int, what: What, level: float) -> Part:
    (values_a, a), (values_b, b) = (_target(left, c, what) for left in (first, second))
    se = jackknife_se(values_a - values_b)
    freedom = first.units - 1
    half = float(stdtrit(freedom, (1 + level) / 2)) * se
    estimate = a - b
    distance = abs(estimate) / se if se > 0 else (np.inf if estimate else 0.0)
    pvalue = float(2 * stdtr(freedom, -distance))
    return Part(estimate, estimate - half, estimate + half, se, pvalue)
