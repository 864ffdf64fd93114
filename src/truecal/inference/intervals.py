"""Intervals of an error and its parts, and null bands for errors that have no interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Unpack, final, overload

import numpy as np
from scipy.special import stdtrit

from ..core.data import shown
from ..core.parameters import described
from ..core.result import Result
from ..core.rules import BinCounts, bins_text
from ..core.types import Array, Groups
from ..kinds.functions import Counts, OneCount
from ..sums.errors import CalibrationError
from .binned_sample import BinnedSample, where_inferred
from .checks import Options, check_draws, check_groups, check_level, pairs_left_out, read_error
from .loss_parts import loss_influence, own_losses, with_losses
from .mean_losses import mean_interval
from .null import NullBand, null_bands
from .spread import Spread, spreads

What = Literal["gap_sq", "U", "loss", "score", "error", "within"]
L1_REASON = (
    "absolute bin sums have no interval: near calibration their sampling distribution is folded at zero and their bias "
    "is as large as their spread, so neither jackknife nor bootstrap covers; this is the band of a calibrated predictor"
)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Interval(Result):
    """An estimate and its interval; l1 errors have a null band instead, and the reason in `note`."""

    what: str
    estimate: float
    low: float | None
    high: float | None
    se: float | None
    level: float
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
        text = f"{head}, {self.level:.0%} interval [{self.low:.4g}, {self.high:.4g}] (se {self.se:.2g})"
        if self.within is not None and self.what == "U":
            text += f"\n  pairs within clusters add {self.within:+.4g} to n·error, which is not miscalibration"
        return text + (f"\n  {self.note}" if self.note else "")


class _Options(Options, total=False):
    what: What
    n_resamples: int
    seed: int


@overload
def confidence_interval(
    y_true: Any, y_proba: Any, *, n_bins: OneCount = None, **options: Unpack[_Options]
) -> Interval: ...
@overload
def confidence_interval(
    y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[_Options]
) -> tuple[Interval, ...]: ...
@described("An Interval, or a tuple of them for several bin counts.")
def confidence_interval(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError | None = None,
    n_bins: BinCounts | None = None,
    level: float = 0.95,
    groups: Any = None,
    overlap: int = 1,
    what: What = "U",
    sample_weight: Any = None,
    labels: Any = None,
    n_resamples: int = 999,
    seed: int = 0,
) -> Interval | tuple[Interval, ...]:
    """Interval for the expected U, squared gap ("gap_sq"), mean loss ("loss"), score or raw error; one per bin count.

    Bins are frozen. U and gap² solve (θ − μ)² ≤ t²(v + cμ), since their variance grows with their mean, in O(n). Losses
    get pseudo-rows as Agresti and Coull's, which keep the level where few outcomes surprise. `groups` takes whole
    clusters as units: U then takes pairs of rows from different clusters, n·error = loss + U + within, and "within",
    pairs inside clusters, mixes dependence with calibration. `note` says where an interval is unreliable. l1
    errors get a null band (from `n_resamples` draws).

    >>> import truecal as tc
    >>> ci = tc.confidence_interval([1] * 30 + [0] * 30, [.9] * 60, error="binary", n_bins=5)
    >>> ci.low > 0  # nine in ten promised, five in ten came
    True
    """
    level = check_level(level)
    draws, seed = check_draws(n_resamples, seed)
    if what not in ("gap_sq", "U", "loss", "within", "error", "score"):
        raise ValueError(f"what must be 'U', 'gap_sq', 'loss', 'score', 'error' or 'within', got {shown(what)}")
    metric = read_error(error, n_bins, y_proba)
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    if metric.norm == "l1":
        if groups is not None or overlap != 1:
            raise ValueError("groups cannot be used, nor overlap: norm='l1' errors get a null band of independent rows")
        found = _l1_bands(BinnedSample.of(metric, sample.on_host()), level, what, draws, seed)
    else:
        clusters = check_groups(groups, sample.rows, y_true=y_true, overlap=overlap)
        if what == "within" and clusters is None:
            raise ValueError("what='within' is the part of pairs inside clusters: pass groups")
        found = intervals(BinnedSample.of(metric, where_inferred(metric, sample, clusters)), what, level, clusters)
    return found if metric.binning.several else found[0]


def intervals(frozen: BinnedSample, what: What, level: float, groups: Groups | None) -> tuple[Interval, ...]:
    """One interval per bin count of a squared error."""
    if what == "loss":
        whole = mean_interval(own_losses(frozen), frozen.sample.weights, groups, level)
        found = [(whole.estimate, whole.low, whole.high, whole.se, whole.note)] * len(frozen.counts)
    elif what == "within":
        assert groups is not None
        found = [_within_interval(inside, level) for inside in within_parts(frozen, groups)]
    else:
        every = spreads(frozen, groups, "gap" if what in ("gap_sq", "score") else "U")
        found = [_spread_interval(frozen, c, spread, what, level, groups) for c, spread in enumerate(every)]
    inside = [None] * len(found) if groups is None else within_parts(frozen, groups).sum(axis=1).tolist()
    return tuple(
        Interval(what, *numbers[:4], level, numbers[4], m, frozen.sample.rows, frozen.error.symbol, None, part)
        for numbers, m, part in zip(found, frozen.counts, inside, strict=True)
    )


def _spread_interval(
    frozen: BinnedSample, c: int, spread: Spread, what: What, level: float, groups: Groups | None
) -> tuple[float, float, float, float, str]:
    if what in ("gap_sq", "U"):
        return spread.theta, *spread.interval(level), spread.note
    parts, sample = frozen.parts[c], frozen.sample
    loss = mean_interval(own_losses(frozen), sample.weights, groups, level)
    if what == "score":
        unit = frozen.error.property.score_unit(sample.views)
        low, high, se = with_losses(loss, loss_influence(frozen, groups, 1), spread, level)
        centre = frozen.error.score(sample, pairs_left_out(sample, groups))
        return centre, centre + unit * low, centre + unit * high, unit * se, spread.note
    # loss and U vary together by an unknown amount: their intervals are added, as if they did wholly
    _, _, se = with_losses(loss, loss_influence(frozen, groups, 2), spread, level)
    low, high, _ = spread.interval(level)
    size, down, up = sample.size, loss.estimate - loss.low + spread.theta - low, loss.high - loss.estimate + high
    up -= spread.theta
    return parts.error, parts.error - down / size, parts.error + up / size, se / size, spread.note


def within_parts(frozen: BinnedSample, groups: Groups) -> Array:
    """(counts, clusters): what pairs of rows inside each cluster add to n·error."""
    sample = frozen.sample
    total = np.zeros((len(frozen.counts), groups[1]))
    for piece in frozen:
        for tile in piece.tiles(sample.rows):
            total += piece.weight * piece.cells.within(sample.residuals(tile), *groups)
    return total / sample.total_weight_sq


def _within_interval(inside: Array, level: float) -> tuple[float, float, float, float, str]:
    units = len(inside)
    estimate = float(inside.sum())
    se = float(np.sqrt(units / (units - 1) * np.square(inside - inside.mean()).sum()))
    half = float(stdtrit(units - 1, (1 + level) / 2)) * se
    return estimate, estimate - half, estimate + half, se, ""


def _l1_bands(frozen: BinnedSample, level: float, what: What, draws: int, seed: int) -> tuple[Interval, ...]:
    if what not in ("U", "error"):
        raise ValueError(f"what={shown(what)} cannot be used: norm='l1' errors have no loss part")
    bands = null_bands(frozen, level, draws, seed)
    rows, symbol = frozen.sample.rows, frozen.error.symbol
    return tuple(
        Interval("error", b.estimate, None, None, None, level, L1_REASON, m, rows, symbol, b)
        for b, m in zip(bands, frozen.counts, strict=True)
    )
