"""paired_difference: two predictors on the same rows; who predicts better, and who is closer to calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Unpack, final, overload

import numpy as np
from scipy.special import stdtr

from ..core.arrays import HOST, on_cpu
from ..core.data import shown
from ..core.parameters import described
from ..core.result import Result
from ..core.rules import BinCounts, bins_text
from ..core.types import Array, Groups
from ..core.words import p_text
from ..kinds.functions import Counts, OneCount
from ..sums.errors import CalibrationError
from .binned_sample import BinnedSample, where_inferred
from .blocks import block_se
from .checks import Options, check_groups, check_level, read_error
from .loss_parts import joint_se, loss_influence, own_losses
from .mean_losses import IntervalEstimate, mean_interval, t_estimate
from .spread import Spread, paired_spread, spreads


@final
@dataclass(frozen=True, repr=False, eq=False)
class PairedDifference(Result):
    """First minus second on the same rows: mean loss, squared gap, U, and D = n·(error_a − error_b).

    With clusters U and the gap are of pairs between clusters.
    """

    loss: IntervalEstimate
    gap_sq: IntervalEstimate
    U: IntervalEstimate
    D: IntervalEstimate
    level: float
    names: tuple[str, str]
    n_bins: int | None
    n_samples: int
    name: str

    @property
    def conclusions(self) -> tuple[str, str]:
        """Which model predicts better, by the loss, and which is closer to calibrated, by the gap."""
        words = []
        for part, what, says in (
            (self.loss, "loss", "{} predicts better than {}: smaller loss"),
            (self.gap_sq, "calibration", "{} is closer to calibrated than {}: smaller gap"),
        ):
            if part.note:
                words.append(f"no conclusion about {what}: {part.note}")
            elif part.beyond_noise:
                words.append(says.format(*(self.names[::-1] if part.estimate > 0 else self.names)))
            else:
                words.append(f"no significant difference in {what} ({p_text(part.pvalue)})")
        return words[0], words[1]

    def __repr__(self) -> str:
        a, b = self.names
        bins = "" if self.n_bins is None else f", {bins_text(self.n_bins)}"
        loss, gap = self.conclusions
        lines = [
            f"{a} − {b}, {self.name}{bins}, {self.n_samples} samples, {self.level:.0%} intervals",
            f"  loss  {self.loss!r}: {loss}",
            f"  gap²  {self.gap_sq!r}: {gap}",
            f"  U     {self.U!r}",
            f"  n·error {self.D!r}",
        ]
        return "\n".join(lines)


class _Options(Options, total=False):
    names: tuple[str, str]


@overload
def paired_difference(
    y_true: Any, a: Any, b: Any, *, n_bins: OneCount = "auto", **options: Unpack[_Options]
) -> PairedDifference: ...
@overload
def paired_difference(
    y_true: Any, a: Any, b: Any, *, n_bins: Counts, **options: Unpack[_Options]
) -> tuple[PairedDifference, ...]: ...
@described("A PairedDifference, or a tuple of them for several bin counts.")
def paired_difference(
    y_true: Any,
    a: Any,
    b: Any,
    *,
    error: str | CalibrationError | None = None,
    n_bins: BinCounts | None = None,
    level: float = 0.95,
    groups: Any = None,
    overlap: int = 1,
    sample_weight: Any = None,
    labels: Any = None,
    names: tuple[str, str] = ("a", "b"),
) -> PairedDifference | tuple[PairedDifference, ...]:
    """Two predictors on the same rows: the differences of their mean losses and squared gaps, with intervals.

    The loss part tells which predicts better (w-weighted losses), the gap which is closer to calibrated. U and
    D = n·(error_a − error_b) are the paper's numbers. Units are rows, or clusters with
    `groups`. The models' bins may differ: gaps can be compared across them. One result per bin count.

    >>> import truecal as tc
    >>> y = [0, 1, 1, 0, 1, 0, 1, 1] * 5
    >>> good, flat = [.1, .8, .7, .2, .9, .3, .8, .6] * 5, [.6] * 40
    >>> tc.paired_difference(y, good, flat, error="binary", n_bins=5, names=("good", "flat")).conclusions[0]
    'good predicts better than flat: smaller loss'
    """
    level = check_level(level)
    if not isinstance(names, (tuple, list)) or len(names) != 2 or not all(isinstance(name, str) for name in names):
        raise ValueError(f"names must be two strings, got {shown(names)}")
    metric = read_error(error, n_bins, a)
    if metric.norm == "l1":
        raise ValueError(
            "norm='l1' errors have no loss part and no interval, so no paired difference; use a squared one"
        )
    samples = [metric.read(y_true, p, sample_weight=sample_weight, labels=labels) for p in (a, b)]
    clusters = check_groups(groups, samples[0].rows, y_true=y_true, overlap=overlap)
    samples = [where_inferred(metric, sample, clusters) for sample in samples]
    if any(isinstance(sample.reports, HOST) for sample in samples):
        samples = [sample.on_host() for sample in samples]
    first, second = (BinnedSample.of(metric, sample) for sample in samples)
    loss = loss_part(first, second, level, clusters)
    gaps, us = ([spreads(frozen, clusters, of) for frozen in (first, second)] for of in ("gap", "U"))
    differ = differing(first, second, clusters)
    found = tuple(
        PairedDifference(
            loss=loss,
            gap_sq=spread_part(gaps[0][c], gaps[1][c], level, differ),
            U=spread_part(us[0][c], us[1][c], level, differ),
            D=total_part(first, second, us[0][c], us[1][c], level, clusters),
            level=level,
            names=(names[0], names[1]),
            n_bins=m,
            n_samples=samples[0].rows,
            name=metric.symbol,
        )
        for c, m in enumerate(first.counts)
    )
    return found if metric.binning.several else found[0]


def loss_part(
    first: BinnedSample, second: BinnedSample, level: float, groups: Groups | None, comparisons: int = 1
) -> IntervalEstimate:
    """The difference of mean losses, joint over so many comparisons."""
    values = own_losses(first, second)
    return mean_interval(values, first.sample.weights, groups, level, comparisons)


def block_loss_part(
    difference: Array, weight: Array, level: float, comparisons: int = 1, note: str = ""
) -> IntervalEstimate:
    """The difference of mean losses from sums over blocks of rows, joint over so many comparisons.

    `note` says why the blocks are unreliable.
    """
    estimate, se, freedom = block_se(difference, weight)
    if not se > 0:
        why = "the difference is the same in every block" if se == 0 else "fewer than three blocks of rows"
        return IntervalEstimate(estimate, -np.inf, np.inf, np.nan, np.nan, why)
    return t_estimate(estimate, se, freedom, (1 - level) / comparisons, comparisons, note)


FEWEST_DIFFERING = 10.0
"""With fewer rows, or clusters, whose losses differ, differences of gaps are withheld."""


def differing(first: BinnedSample, second: BinnedSample, groups: Groups | None) -> float:
    """The effective number of rows, or clusters, in which two models differ: (Σ d²)²/Σ d⁴, d the difference of losses.

    A few rows move the gap of every bin that they leave or enter, as if all rows of these differed."""
    squares = fourths = 0.0
    by_cluster = np.zeros(0 if groups is None else groups[1])
    for rows, values in own_losses(first, second):
        w = np.asarray(on_cpu(first.sample.row_weights[rows]))
        d = np.where(w > 0, w * np.asarray(on_cpu(values.value)), 0.0)
        if groups is not None:
            by_cluster += np.bincount(groups[0][rows], d, groups[1])
            continue
        d *= d
        squares, fourths = squares + float(d.sum()), fourths + float(d @ d)
    if groups is not None:
        squares, fourths = (float((by_cluster**power).sum()) for power in (2, 4))
    return squares**2 / max(fourths, 1e-300) if squares > 0 else np.inf


def spread_part(a: Spread, b: Spread, level: float, differ: float = np.inf) -> IntervalEstimate:
    """The difference of two gaps or Us on the same rows, of which so many differ."""
    low, high, se, note = paired_spread(a, b, level)
    if differ < FEWEST_DIFFERING:
        note = note or f"the models differ in about {max(1, round(differ))} rows only"
    return IntervalEstimate(a.theta - b.theta, low, high, se, _pvalue(a.theta - b.theta, se, a), note)


def _pvalue(estimate: float, se: float, spread: Spread) -> float:
    if not se > 0:
        return 1.0 if estimate == 0 else 0.0
    return float(2 * stdtr(spread.freedom, -abs(estimate) / se))


def total_part(
    first: BinnedSample, second: BinnedSample, a: Spread, b: Spread, level: float, groups: Groups | None
) -> IntervalEstimate:
    """Return D, the difference of n·error, whose losses and Us vary together, row by row."""
    losses = loss_influence(first, groups, 2) - loss_influence(second, groups, 2)
    d = a - b
    se = joint_se(losses, d)
    w = first.sample.row_weights**2
    gap = first.sample.loss(bool(first.error.corrected)) - second.sample.loss(bool(second.error.corrected))
    estimate = d.theta + float(w @ gap / w.sum())
    half = d.quantile(level) * se
    return IntervalEstimate(estimate, estimate - half, estimate + half, se, _pvalue(estimate, se, d), a.note or b.note)
