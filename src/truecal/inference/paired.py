"""How sure are we of a difference? Two predictors on the same rows, the loss part and the U part each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from ..core.errors import CalibrationError
from ..core.result import Result
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
from .options import (
    bins_text,
    check_groups,
    check_level,
    counts_of,
    read_error,
)

Array = NDArray[Any]


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
    samples = [metric.read(y_true, p, sample_weight=sample_weight, labels=labels) for p in (a, b)]
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
    (values_a, a), (values_b, b) = (target(left, c, what) for left in (first, second))
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
