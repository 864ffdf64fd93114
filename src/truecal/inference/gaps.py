"""gap: how far probabilities are off, in points, with an interval and a direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack, final, overload

from ..core.data import check_weights
from ..core.parameters import described
from ..core.result import Result
from ..core.rules import BinCounts, bins_text
from ..core.sample import Sample
from ..core.types import Groups
from ..core.words import points_text
from ..kinds.functions import Counts, OneCount
from ..kinds.own_levels import own_levels
from ..sums.errors import CalibrationError, signed_root
from .binned_sample import BinnedSample, where_inferred
from .checks import Options, check_groups, check_level, read_error
from .direction import NO_DIRECTION, MeanGap, gap_of
from .level_tests import OWN
from .spread import Spread, spreads


@final
@dataclass(frozen=True, repr=False, eq=False)
class Gap(Result):
    """How far predictions are from observed frequencies, in probability points: root mean square over bins.

    `points` is debiased: near 0 for a calibrated model at every number of rows and bins, and negative where outcomes
    agree by chance better than expected. It is a lower bound of what finer bins would show: a bin hides deviations that
    change sign inside it. It describes a model and must not rank models: a constant base rate has gap 0.
    Rank by the loss. `note` says why an interval is unreliable, and is empty otherwise.
    """

    points: float
    low: float
    high: float
    direction: str
    level: float
    n_bins: int | None
    n_samples: int
    name: str
    note: str = ""

    def __repr__(self) -> str:
        bins = "" if self.n_bins is None else f", {bins_text(self.n_bins)}"
        size = f"{points_text(self.points)} points {gap_interval(self) or '(interval unreliable)'}"
        text = (
            f"gap of {size}, {self.direction} ({self.name}{bins}, {self.n_samples} samples, {self.level:.0%} interval)"
        )
        return text + (f"\n  {self.note}" if self.note else "")


@overload
def gap(y_true: Any, y_proba: Any, *, n_bins: OneCount = None, **options: Unpack[Options]) -> Gap: ...
@overload
def gap(y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[Options]) -> tuple[Gap, ...]: ...
@described("A Gap, or a tuple of them for several bin counts.")
def gap(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError | None = None,
    n_bins: BinCounts | None = None,
    level: float = 0.95,
    groups: Any = None,
    overlap: int = 1,
    sample_weight: Any = None,
    labels: Any = None,
) -> Gap | tuple[Gap, ...]:
    """The calibration gap in points: √ of Σ_B n_B ĝ_B/Σ n_B, ĝ_B the mean product of two residuals of a bin.

    The same quantity at every number of rows, so it may be compared between models and samples. With `groups` only
    pairs of rows from different clusters count, with `overlap` only pairs that are so many rows apart. Described by
    Kumar et al., arXiv 1909.10155.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> chances = rng.random(5000)
    >>> y = rng.random(5000) < chances
    >>> shifted = tc.gap(y, np.clip(chances + .1, 0, 1), error="binary")
    >>> 8 < shifted.low < shifted.points < shifted.high < 12, shifted.direction
    (True, 'too high')
    """
    level = check_level(level)
    if error is None and (own := own_levels(y_true, y_proba)) is not None:
        clusters = check_groups(groups, len(own), overlap=overlap)
        metric = OWN if n_bins is None else OWN.with_bins(n_bins)
        found = gaps_of(metric, own.sample(check_weights(sample_weight, len(own))), level, clusters, direction=False)
        return found if metric.binning.several else found[0]
    metric = read_error(error, n_bins, y_proba, of_gap=True)
    if metric.norm == "l1":
        raise ValueError("the gap is that of a squared error; norm='l1' errors have none")
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    clusters = check_groups(groups, sample.rows, y_true=y_true, overlap=overlap)
    found = gaps_of(metric, sample, level, clusters)
    return found if metric.binning.several else found[0]


def gaps_of(
    metric: CalibrationError, sample: Sample, level: float, clusters: Groups | None, direction: bool = True
) -> tuple[Gap, ...]:
    """The gap of a validated sample at each bin count; without `direction` none is named."""
    sample = where_inferred(metric, sample, clusters)
    frozen = BinnedSample.of(metric, sample)
    named = direction_of(metric, sample, clusters) if direction else None
    word = "no direction" if named is None else named.word
    return tuple(
        gap_from(spread, word, level, m, sample.rows, metric.symbol)
        for spread, m in zip(spreads(frozen, clusters), frozen.counts, strict=True)
    )


def gap_from(spread: Spread, word: str, level: float, n_bins: int | None, n_samples: int, name: str) -> Gap:
    """The gap of a spread, on the scale of points."""
    low, high, _ = spread.interval(level)
    points, low, high = [100 * signed_root(x) for x in (spread.theta, low, high)]
    return Gap(points, low, high, word, level, n_bins, n_samples, name, spread.note)


def agreeing(gap: Gap, rejected: bool, low: float) -> Gap:
    """The gap whose interval excludes 0, and that has a direction, only where a test rejects, which shows `low` points.

    The lower end is that of the interval where this is above 0 as well; else that of the forms."""
    if gap.low != gap.low:
        return gap
    if not rejected:
        word = gap.direction if gap.direction == "no direction" else NO_DIRECTION
        return replace(gap, low=min(gap.low, 0.0), high=max(gap.high, 0.0), direction=word)
    low = gap.low if gap.low > 0 else max(gap.low, low)
    return replace(gap, points=max(gap.points, low), low=low, high=max(gap.high, low))


def widest(names: Sequence[str], gaps: Sequence[Gap]) -> tuple[str, float] | None:
    """The label with the largest upper end of its gap, among intervals that can be trusted."""
    ends = [(name, gap.high) for name, gap in zip(names, gaps, strict=True) if not gap.note and gap.high == gap.high]
    return max(ends, key=lambda end: end[1], default=None)


def direction_of(metric: CalibrationError, sample: Sample, groups: Groups | None) -> MeanGap | None:
    """Return the direction: of one prediction per row, of the confidence for classes, None for vectors."""
    property = metric.property.direction_property()
    if property is not metric.property:
        y, given = (sample.values, sample.reports) if sample.labels is None else (sample.labels, sample.distributions)
        assert y is not None and given is not None
        sample = property.sample(y, given, sample.weights)
    return None if sample.views > 1 else gap_of(sample, groups)


def gap_interval(gap: Gap) -> str:
    """ "[4.5, 6.5]", or nothing where no interval is reliable."""
    return "" if gap.note else f"[{points_text(gap.low)}, {points_text(gap.high)}]"


def gap_text(gap: Gap) -> str:
    """ "5.4 points [4.5, 6.5], over-confident"."""
    word = "" if gap.direction in ("no clear direction", "no direction") else f", {gap.direction}"
    return f"{points_text(gap.points)} points {gap_interval(gap) or '(interval unreliable)'}{word}"
