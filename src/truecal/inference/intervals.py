"""How sure are we of an error, and of the difference of two? Delete-one and delete-a-cluster jackknife, bins frozen.

With G frozen, h_i = r_i Σ_{j≠i} G_ij r_j and P = Σ h_i = n·U, leaving row i out changes P by −2 h_i, so all
leave-one-out values come from one pass. What is left out changes the number of pairs too; the mean over pairs
θ = P/(n(n−1)) does not depend on it, and U = (n−1)·θ.

Clusters. Rows of one cluster are not independent, so r_i r_j has no mean of 0 for them even under calibration: with c
copies of each row their pairs add up to (c − 1) losses. U then takes pairs of rows from different clusters only, and
the rest is a part of its own: n·error = loss + U + within, within = n⁻¹ Σ_C Σ_{i≠j∈C} G_ij r_i r_j. Leaving cluster C
out takes 2 Σ_{i∈C} h_i − 2 within_C from the pairs between clusters.

The spread of U grows with its mean: near E[U] = e its variance is Var₀ + 4κe, κ = n⁻¹ Σ_{i≠j} G_ij r_i² r_j² / Σ r²
(for m equal bins κ = loss/m). A low U thus comes with a low se, and U ± t·se would miss above. On the scale of the
square root the spread is constant, which moves the interval by t²κ: its upper end reaches that much further.

That needs enough surprising outcomes. A sharp predictor's r² sits in a few rows; unless several of them share a bin, U,
its se and κ are all near 0 whatever the truth. Where fewer than `SCARCE` pairs of surprises are expected to meet, the
upper end solves (e − U)² = t²(se² + 4κ₀e), with κ₀ that of the surprises spread evenly and four more, and a note says
that the interval is not to be trusted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, final, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ..binning import AveragedRule, Exact, Halfspaces
from ..errors import CalibrationError
from ..properties import Outcomes, Sample
from ..table import resolve_ties
from .frozen import Form, column_tiles, frozen_pieces, residuals
from .null import Sampler, calibrated_world, simulate
from .results import (
    Result,
    bins_text,
    check_band_draws,
    check_draws,
    check_groups,
    check_level,
    counts_of,
    in_scale,
    read_error,
)
from .testing import NullBand, null_band, null_quantiles

Array = NDArray[Any]
What = Literal["U", "loss", "within", "error", "score", "sum"]
"""A part, loss + U ("sum"), or all parts together, as n·error ("score") or as the raw error."""

FEW_BINS = 5
"""Below this many bins the jackknife alone covers too seldom under calibration, and the exact null is used as well."""
SCARCE = 15
"""With fewer pairs of surprising outcomes expected to share a bin, no interval for U is to be trusted."""
ROUNDING = 1e-12
L1_REASON = (
    "absolute bin sums have no interval: near calibration their sampling distribution is folded at zero and their bias "
    "is as large as their spread, so neither jackknife nor bootstrap covers; this is the band of a calibrated predictor"
)


# -- leave-one-out values ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Loss, U and within part (per bin count) of all rows, and of all rows but one unit; U at the whole sample's size.

    Units are the rows with weight, or the clusters with weight.
    """

    loss: float
    U: Array
    within: Array
    losses_without: Array
    Us_without: Array
    withins_without: Array
    kappa: Array
    kappa_even: Array
    """κ₀: the surprises, and four more, spread evenly over the bins; at least that of single pairs that meet."""
    surprises: Array
    """How many pairs of surprising outcomes are expected to share a bin."""
    clustered: bool

    @property
    def units(self) -> int:
        return len(self.losses_without)


def leave_out(metric: CalibrationError, sample: Sample, groups: tuple[Array, int] | None) -> LeftOut:
    """Every leave-one-out value of the loss part, the U part and the within part, in O(n) after one sort per view."""
    sample = in_scale(sample)
    sums = _pair_sums(metric, sample, groups)
    w = np.ones(sample.rows) if sample.weights is None else sample.weights
    losses = sample.loss()
    if sample.wrong is not None and not metric.corrected:
        losses = losses - sample.wrong
    each = [w, w * w, w * w * losses]
    if groups is not None:
        each = [np.bincount(groups[0], weights=x, minlength=groups[1]) for x in each]
    units = each[0] > 0
    unit_w, unit_sq, unit_loss = (x[units] for x in each)
    removed, inside = sums.removed[:, units], sums.within[:, units]
    rest_w, rest_sq, rest_loss = (x.sum() - x for x in (unit_w, unit_sq, unit_loss))
    own = np.square(unit_w)
    mass = unit_w.sum() ** 2 - own.sum()  # Σ w_i w_j over rows of different units
    rest_mass = np.square(rest_w) - (own.sum() - own)
    total_sq = sample.total_weight_sq
    if len(unit_w) < 3 or not (rest_mass > 0).all():
        raise ValueError(
            f"an interval needs at least three {'rows' if groups is None else 'clusters'} with weight, and no unit "
            f"that holds all: n={sample.rows}"
        )
    return LeftOut(
        loss=float(unit_loss.sum() / total_sq),
        U=sums.between / total_sq,
        within=inside.sum(axis=1) / total_sq,
        losses_without=rest_loss / rest_sq,
        Us_without=(sums.between[:, None] - removed) / rest_mass * (mass / total_sq),
        withins_without=(inside.sum(axis=1, keepdims=True) - inside) / rest_sq,
        kappa=sums.kappa / total_sq,
        kappa_even=sums.kappa_even / total_sq,
        surprises=sums.surprises,
        clustered=groups is not None,
    )


def cluster_parts(metric: CalibrationError, sample: Sample, groups: tuple[Array, int]) -> tuple[Array, Array]:
    """U over pairs from different clusters, and the within part, per bin count; for any number of clusters."""
    sample = in_scale(sample)
    sums = _pair_sums(metric, sample, groups)
    return sums.between / sample.total_weight_sq, sums.within.sum(axis=1) / sample.total_weight_sq


@dataclass(frozen=True, eq=False)
class _PairSums:
    """Per bin count: pairs between units, what leaving each unit out takes from them, pairs within each unit, n·κ,
    n·κ₀, and expected pairs of surprises."""

    between: Array
    removed: Array
    within: Array
    kappa: Array
    kappa_even: Array
    surprises: Array


def _pair_sums(metric: CalibrationError, sample: Sample, groups: tuple[Array, int] | None) -> _PairSums:
    counts = metric.binning.results
    shape = (counts, sample.rows if groups is None else groups[1])
    removed, within = np.zeros(shape), np.zeros(shape)
    pairs, spread, even, surprises = (np.zeros(counts) for _ in range(4))
    own = own_more = 0.0
    directions = isinstance(metric.binning, Halfspaces)  # one form, the mean of several: adds up, where views average
    largest = 1.0 if sample.weights is None else float(np.square(sample.weights).max())
    more, jump = _MORE * largest / sample.views, 0.0
    for piece in frozen_pieces(sample, metric.binning, resolve_ties(metric.binning, metric.norm)):
        square = piece.weight if directions else piece.weight**2
        jump = largest / 2 * (1.0 if directions else piece.weight)  # two surprises that meet move n·U by 2: 4nκ ≥ 2
        meet = _mean_chance(piece.form, sample)
        for tile in column_tiles(piece.columns, sample.rows):
            r = residuals(sample, tile)
            energy = np.square(r).sum(axis=1)
            own += piece.weight * float(energy.sum())
            own_more += piece.weight * float((energy + more).sum())
            spread += square * piece.form.pairs(np.square(r)).sum(axis=1)
            even += square * meet * float(np.square(energy + more).sum())
            surprises += (piece.weight if directions else 1.0) * meet * _surprise_pairs(sample, tile, groups)
            h = piece.weight * piece.form.influence(r).sum(axis=1)
            pairs += h.sum(axis=1)
            if groups is None:
                removed += 2 * h
                continue
            for c in range(counts):
                removed[c] += 2 * np.bincount(groups[0], weights=h[c], minlength=groups[1])
            within += piece.weight * piece.form.within(r, *groups)
    inside = within.sum(axis=1)
    # Residuals of different classes of one row are correlated, and those of one cluster: at most about this much.
    factor = (2.0 if sample.views > 1 else 1.0) * np.maximum(1.0, 1.0 + inside / own if own > 0 else 1.0)
    kappa = factor * np.maximum(spread, 0.0) / own if own > 0 else np.zeros(counts)
    kappa_even = np.maximum(factor * even / own_more, jump)
    return _PairSums(pairs - inside, removed - 2 * within, within, kappa, kappa_even, surprises)


_MORE = 4.0  # about as many more surprises as may be expected where none was seen (95% bound: 3.7)


def _mean_chance(form: Form, sample: Sample) -> Array:
    """Per bin count, the mean of G_ij over pairs of rows with weight: 1/m for m equal bins."""
    used = np.ones(sample.rows) if sample.weights is None else (sample.weights > 0).astype(np.float64)
    n = used.sum()
    return np.asarray(form.pairs(used[None])[:, 0] / max(1.0, n * (n - 1)))


def _surprise_pairs(sample: Sample, columns: slice, groups: tuple[Array, int] | None) -> float:
    """½ Σ K² over views, K = Σ min(1, 4r²) the number of surprising outcomes; one a cluster at most, Kish's by weight.

    A row at 1/2 is worth one, a row at .99 that came true next to nothing. Outcomes that are not 0/1 are measured by
    the largest residual, so that a few outliers count as few.
    """
    plain = replace(sample, weights=None)
    r = np.abs(residuals(plain, columns))
    unit = 1.0 if sample.values is None else np.maximum(r.max(axis=1, keepdims=True), np.finfo(float).tiny)
    each = np.minimum(1.0, 4 * np.square(r / unit))
    w = np.ones(sample.rows) if sample.weights is None else np.square(sample.weights)
    total = 0.0
    for row in each:
        one, two = w * row, w * w * row
        if groups is not None:
            one, two = (_largest(x, *groups) for x in (one, two))
        total += 0.5 * (float(one.sum() ** 2 / two.sum()) ** 2 if two.any() else 0.0)
    return total


def _largest(values: Array, group: Array, groups: int) -> Array:
    out = np.zeros(groups)
    np.maximum.at(out, group, values)
    return out


def jackknife_se(without: Array) -> float:
    """sqrt((G − 1)/G Σ (θ_(−g) − mean)²) over the G leave-one-out values."""
    units = len(without)
    return float(np.sqrt((units - 1) / units * np.square(without - without.mean()).sum()))


# -- one predictor ----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False, eq=False)
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
    within: float | None = None
    """With clusters: the part of n·error from pairs of rows of one cluster, which U leaves out."""

    def __repr__(self) -> str:
        bins = "" if self.n_bins is None else f", {bins_text(self.n_bins)}"
        head = f"{self.what} of {self.name}{bins}, {self.n_samples} samples: {self.estimate:.4g}"
        if self.low is None or self.high is None or self.se is None:
            assert self.band is not None
            band = f"  if calibrated, {self.level:.0%} of values lie in [{self.band.low:.4g}, {self.band.high:.4g}]"
            return f"{head}\n{band}\n  {self.note}"
        text = f"{head}, {self.level:.0%} interval [{self.low:.4g}, {self.high:.4g}] (se {self.se:.2g}, {self.method})"
        if self.within is not None and self.what == "U":
            text += f"\n  pairs within clusters add {self.within:+.4g} to n·error, and say nothing about calibration"
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

    Delete-one jackknife with the bins as they are, U_(−i) ∝ n·U − 2 r_i Σ_{j≠i} G_ij r_j, in O(n). `groups` leaves out
    whole clusters, and U then takes pairs of rows from different clusters only: n·error = loss + U + within, of which
    "within", pairs inside clusters, mixes dependence with calibration. The se² is about twice too large for a
    calibrated predictor and right for a miscalibrated one; the upper end reaches t²κ further, since U varies more where
    its mean is larger (κ is loss/m for m equal bins). Below five bins, and for averages over cuts, the jackknife alone
    covers too seldom under calibration: there the interval is the wider of it and the one that inverts the exact null,
    U minus the null's quantiles; so it is, with a note,
    where too few outcomes were surprising to see miscalibration. l1 errors get a null band. `sampler` is for bare
    outcomes at fewer than five bins.

    >>> import truecal as tc
    >>> ci = tc.confidence_interval([1] * 30 + [0] * 30, [.9] * 60, error="binary", n_bins=5)
    >>> ci.low > 0  # nine in ten promised, five in ten came
    True
    """
    level = check_level(level)
    draws, seed = check_draws(resamples, seed)
    if what not in ("U", "loss", "within", "error", "score"):
        raise ValueError(f"what must be 'U', 'loss', 'within', 'error' or 'score', got {what!r}")
    metric = read_error(error, n_bins)
    if metric.norm == "l1":
        if groups is not None:
            raise ValueError("groups cannot apply: norm='l1' errors get a null band of independent rows, no interval")
        return _l1_bands(metric, y_true, y_proba, level, what, sample_weight, labels, sampler, draws, seed)
    if what == "within" and groups is None:
        raise ValueError("what='within' is the part of pairs inside clusters: pass groups")
    few = [what not in ("loss", "within") and few_bins(metric, m) for m in counts_of(metric.binning)]
    sample = in_scale(metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels))
    if sampler is not None:
        _refuse_idle_sampler(metric, sample, groups, any(few))
    clusters = check_groups(groups, sample.rows)
    left = leave_out(metric, sample, clusters)
    if what not in ("loss", "within") and not isinstance(metric.property, Outcomes):
        few = [f or scarce(left, c) for c, f in enumerate(few)]
    null: Array | None = None
    if any(few) and clusters is None and (sampler is not None or not isinstance(metric.property, Outcomes)):
        check_band_draws(draws, level)
        null = simulate(calibrated_world(metric, sample, y_proba, sampler), draws, seed).drawn
    found = tuple(
        interval_of(metric, sample, left, c, what, level, None if null is None or not use else null[:, c])
        for c, use in enumerate(few)
    )
    return found if metric.binning.several else found[0]


def _refuse_idle_sampler(metric: CalibrationError, sample: Sample, groups: Any, few: bool) -> None:
    if not isinstance(metric.property, Outcomes):
        raise ValueError("sampler cannot apply: labels are drawn from the reported probabilities themselves")
    if groups is not None:
        raise ValueError("sampler cannot apply: with groups there is no exact null to draw from")
    if not few:
        raise ValueError(
            "sampler cannot apply: it is for U, error or score with fewer than five bins, or averaged cuts"
        )


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
    null: Array | None,
) -> Interval:
    """The interval at bin count number c, widened by draws of its U under calibration where those are given."""
    values, estimate = _target(left, c, what)
    size = sample.total_weight**2 / sample.total_weight_sq if what == "error" else 1.0
    se = jackknife_se(values)
    t = float(stdtrit(left.units - 1, (1 + level) / 2))
    below, above = t * se, t * se
    method = "delete-a-cluster jackknife" if left.clustered else "delete-one jackknife"
    notes = []
    m = counts_of(metric.binning)[c]
    if what not in ("loss", "within"):
        above += t * t * float(left.kappa[c])
        if scarce(left, c):
            shift = 2 * t * t * float(left.kappa_even[c])
            above = max(above, shift + float(np.hypot(shift, t * se)))
            notes.append(SCARCE_NOTE)
        if null is not None:
            low, high = null_quantiles(null, level)
            below, above = max(below, float(high)), max(above, -float(low))
            method = "exact null, or delete-one jackknife where wider"
        if few_bins(metric, m):
            notes.append(_few_note(metric, left.clustered, null is not None))
    elif se <= ROUNDING * abs(estimate):
        notes.append(ALIKE)
    return Interval(
        what=what,
        estimate=estimate / size,
        low=(estimate - below) / size,
        high=(estimate + above) / size,
        se=se / size,
        level=level,
        method=method,
        note="; ".join(notes),
        n_bins=m,
        n_samples=sample.rows,
        name=metric.symbol,
        within=float(left.within[c]) if left.clustered else None,
    )


SCARCE_NOTE = (
    "not to be trusted: too few surprising outcomes share a bin for U or its spread to be seen; "
    "take more rows or fewer bins"
)
ALIKE = "all units are alike: the standard error is degenerate and the interval no interval"


def scarce(left: LeftOut, c: int) -> bool:
    """Whether too few surprising outcomes meet for an interval of U; where no two rows meet, U is 0 and needs none."""
    return bool(left.surprises[c] < SCARCE and (left.U[c] != 0 or np.any(left.Us_without[c] != 0)))


def _few_note(metric: CalibrationError, clustered: bool, widened: bool) -> str:
    if widened:
        return "few bins: the jackknife alone covers too seldom here; quantiles of U under calibration widen it"
    why = "clusters have" if clustered else "bare outcomes have"
    return f"few bins: the jackknife alone covers too seldom under calibration, and {why} no exact null to widen it"


def _target(left: LeftOut, c: int, what: What) -> tuple[Array, float]:
    """Leave-one-out values and the whole value of what is asked for, on the scale of the loss."""
    if what == "loss":
        return left.losses_without, left.loss
    if what == "U":
        return left.Us_without[c], float(left.U[c])
    if what == "within":
        return left.withins_without[c], float(left.within[c])
    if what == "sum":
        return left.losses_without + left.Us_without[c], left.loss + float(left.U[c])
    values = left.losses_without + left.Us_without[c] + left.withins_without[c]
    return values, left.loss + float(left.U[c]) + float(left.within[c])


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
@dataclass(frozen=True, repr=False, eq=False)
class Part(Result):
    """One part of a difference: estimate, interval, standard error and two-sided p-value.

    Where all units differ alike there is no spread to judge by: `degenerate`, an unbounded interval and no p-value.
    """

    estimate: float
    low: float
    high: float
    se: float
    pvalue: float

    @property
    def degenerate(self) -> bool:
        return not np.isfinite(self.se)

    def __repr__(self) -> str:
        if self.degenerate:
            return f"{self.estimate:+.4g} (all units differ alike: the standard error is degenerate)"
        return f"{self.estimate:+.4g} [{self.low:+.4g}, {self.high:+.4g}] (se {self.se:.2g}, p = {self.pvalue:.3g})"


@final
@dataclass(frozen=True, repr=False, eq=False)
class PairedDifference(Result):
    """First minus second on the same rows: the loss part, the U part, and their sum D = n·(error_a − error_b).

    With clusters U is of pairs between clusters, pairs inside them are the part `within`, and D is the sum of three.
    """

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
    within: Part | None = None

    @property
    def conclusions(self) -> tuple[str, str]:
        """What the loss part says (who predicts better) and what the U part says (who is closer to calibrated)."""
        cut = 1 - self.level
        words = []
        for part, what, says in (
            (self.loss, "loss", "{} predicts better than {}: smaller loss"),
            (self.U, "calibration", "{} is closer to calibrated than {}: smaller U"),
        ):
            if part.degenerate:
                words.append(f"no conclusion about {what}: all units differ alike, so nothing is known of the spread")
            elif part.pvalue < cut:
                words.append(says.format(*(self.names[::-1] if part.estimate > 0 else self.names)))
            else:
                words.append(f"no difference in {what} beyond noise (p = {part.pvalue:.3g})")
        return words[0], words[1]

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
        if self.within is not None:
            lines.insert(3, f"  within clusters {self.within!r}: dependence and calibration mixed, no conclusion")
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
    is closer to calibrated; the sum mixes both. Jackknife over rows, or over clusters with `groups`, where U takes
    pairs from different clusters only and the pairs inside them are a third part, `within`. Bins are frozen. One result
    per bin count.

    >>> import truecal as tc
    >>> y = [0, 1, 1, 0, 1, 0, 1, 1] * 5
    >>> good, flat = [.1, .8, .7, .2, .9, .3, .8, .6] * 5, [.6] * 40
    >>> tc.paired_difference(y, good, flat, error="binary", n_bins=5, names=("good", "flat")).conclusions[0]
    'good predicts better than flat: smaller loss'
    """
    level = check_level(level)
    if len(tuple(names)) != 2 or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names must be two strings, got {names!r}")
    metric = read_error(error, n_bins)
    if metric.norm == "l1":
        raise ValueError(
            "norm='l1' errors have no loss part and no interval, so no paired difference; use a squared one"
        )
    samples = [in_scale(metric.read(y_true, p, sample_weight=sample_weight, labels=labels)) for p in (a, b)]
    clusters = check_groups(groups, samples[0].rows)
    first, second = (leave_out(metric, sample, clusters) for sample in samples)
    method = "jackknife over rows" if clusters is None else "jackknife over clusters"
    found = []
    for c, m in enumerate(counts_of(metric.binning)):
        loss, u, both, within = (
            paired_part(first, second, c, what, level) for what in ("loss", "U", "score", "within")
        )
        notes = []
        if few_bins(metric, m):
            notes.append(
                "few bins: the U part is nearly all noise, and its interval covers too seldom near calibration"
            )
        if scarce(first, c) or scarce(second, c):
            notes.append(f"U part {SCARCE_NOTE}")
        found.append(
            PairedDifference(
                loss=loss,
                U=u,
                D=both,
                level=level,
                names=(names[0], names[1]),
                method=method,
                note="; ".join(notes),
                n_bins=m,
                n_samples=samples[0].rows,
                name=metric.symbol,
                within=None if clusters is None else within,
            )
        )
    return tuple(found) if metric.binning.several else found[0]


def paired_part(first: LeftOut, second: LeftOut, c: int, what: What, level: float) -> Part:
    """The difference of one part; a spread of 0 beside a difference that is not is no evidence, and is said so."""
    (values_a, a), (values_b, b) = (_target(left, c, what) for left in (first, second))
    se = jackknife_se(values_a - values_b)
    estimate = a - b
    least = ROUNDING * max(abs(a), abs(b))
    if se <= least:
        if abs(estimate) > least:
            return Part(estimate, -np.inf, np.inf, np.nan, np.nan)
        return Part(estimate, estimate, estimate, se, 1.0)
    freedom = first.units - 1
    half = float(stdtrit(freedom, (1 + level) / 2)) * se
    return Part(estimate, estimate - half, estimate + half, se, float(2 * stdtr(freedom, -abs(estimate) / se)))
