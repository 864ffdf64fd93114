"""How sure are we of an error? Jackknife intervals for its parts, and null bands for errors that have none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from ..core.errors import CalibrationError
from ..core.properties import Outcomes
from ..core.result import Result
from ..core.sample import Sample
from .calibration import NullBand, null_band, null_quantiles
from .jackknife import (
    ROUNDING,
    SCARCE_NOTE,
    LeftOut,
    What,
    few_bins,
    jackknife_se,
    leave_out,
    scarce,
    target,
)
from .null import Sampler, calibrated_world, simulate
from .options import (
    bins_text,
    check_band_draws,
    check_draws,
    check_groups,
    check_level,
    counts_of,
    read_error,
)

Array = NDArray[Any]
L1_REASON = (
    "absolute bin sums have no interval: near calibration their sampling distribution is folded at zero and their bias "
    "is as large as their spread, so neither jackknife nor bootstrap covers; this is the band of a calibrated predictor"
)


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
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    if sampler is not None:
        _refuse_idle_sampler(metric, sample, groups, any(few))
    clusters = check_groups(groups, sample.rows)
    left = leave_out(metric, sample, clusters)
    if what not in ("loss", "within") and not isinstance(metric.property, Outcomes):
        few = [f or scarce(left, c) for c, f in enumerate(few)]
    null: Array | None = None
    if any(few) and clusters is None and (sampler is not None or not isinstance(metric.property, Outcomes)):
        check_band_draws(draws, level)
        null = simulate(calibrated_world(metric, sample, sampler), draws, seed).drawn
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
    values, estimate = target(left, c, what)
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


ALIKE = "all units are alike: the standard error is degenerate and the interval no interval"


def _few_note(metric: CalibrationError, clustered: bool, widened: bool) -> str:
    if widened:
        return "few bins: the jackknife alone covers too seldom here; quantiles of U under calibration widen it"
    why = "clusters have" if clustered else "bare outcomes have"
    return f"few bins: the jackknife alone covers too seldom under calibration, and {why} no exact null to widen it"


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
