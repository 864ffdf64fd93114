"""null_band: the range of an error if the predictor were calibrated."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from ..core.parameters import described
from ..core.result import Result
from ..core.rules import BinCounts, bins_text
from ..core.types import Array
from ..sums.errors import CalibrationError
from .binned_sample import BinnedSample
from .checks import check_band_draws, check_draws, check_level, p_of_draws, read_error, shown_bins
from .null import Sampler, calibrated_world, draws_pvalue, simulate


@final
@dataclass(frozen=True, repr=False, eq=False)
class NullBand(Result):
    """An error, and its range for a calibrated predictor with the same reports."""

    estimate: float | Array
    low: float | Array
    high: float | Array
    pvalue: float | Array
    level: float
    statistic: str
    n_bins: int | tuple[int, ...] | None
    n_resamples: int
    null: str
    n_samples: int
    name: str

    def each(self) -> tuple[NullBand, ...]:
        """The band of each bin count alone."""
        bins = self.n_bins if isinstance(self.n_bins, tuple) else (self.n_bins,)
        columns = (np.atleast_1d(v).tolist() for v in (self.estimate, self.low, self.high, self.pvalue))
        return tuple(
            replace(self, n_bins=m, estimate=e, low=low, high=high, pvalue=p)
            for m, e, low, high, p in zip(bins, *columns, strict=True)
        )

    def __repr__(self) -> str:
        lines = [f"Null band, {self.name}, {self.n_samples} samples, {self.n_resamples} resamples"]
        for one in self.each():
            where = "" if one.n_bins is None else f"{bins_text(one.n_bins)}: "
            lines.append(
                f"  {where}{self.statistic} {one.estimate:.4g}; if calibrated, {self.level:.0%} of values lie in "
                f"[{one.low:.4g}, {one.high:.4g}] ({p_of_draws(float(one.pvalue), self.n_resamples)})"
            )
        lines.append(f"  null: {self.null}")
        return "\n".join(lines)


@described("A NullBand.")
def null_band(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "confidence_l1",
    n_bins: BinCounts | None = None,
    level: float = 0.95,
    n_resamples: int = 999,
    seed: int = 0,
    sample_weight: Any = None,
    labels: Any = None,
    sampler: Sampler | None = None,
) -> NullBand:
    """The range of an error if the predictor were calibrated: quantiles over outcomes drawn from the reports.

    For l1 errors the value is the error itself, which is far from 0 even for a calibrated predictor; for l2 errors it
    is U. The p-value is that of the resampling test on the same value, with exact level.

    >>> import truecal as tc
    >>> band = tc.analysis.null_band([1, 0, 1, 0], [.5, .5, .5, .5], error="binary_l1", n_bins=1)  # |2 − ones|/4
    >>> band.estimate, band.low, band.high
    (0.0, 0.0, 0.5)
    """
    draws, seed = check_draws(n_resamples, seed)
    level = check_level(level)
    metric = read_error(error, n_bins)
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels).on_host()
    return null_band_of(BinnedSample.of(metric, sample), level, draws, seed, sampler)


def null_band_of(frozen: BinnedSample, level: float, draws: int, seed: int, sampler: Sampler | None = None) -> NullBand:
    """The band of an error with its cells."""
    check_band_draws(draws, level)
    error, sample = frozen.error, frozen.sample
    world = calibrated_world(frozen, sampler)
    simulated = simulate(world, draws, seed)
    low, high = null_quantiles(simulated.drawn, level)
    each = [draws_pvalue(o, d) for o, d in zip(simulated.observed, simulated.drawn.T, strict=True)]
    estimate, lowest, highest, chance = map(error.present, (simulated.observed, low, high, np.array(each)))
    what = "error" if error.norm == "l1" else "U"
    about = (level, what, shown_bins(error), draws, world.null, sample.rows, error.symbol)
    return NullBand(estimate, lowest, highest, chance, *about)


def null_quantiles(drawn: Array, level: float) -> tuple[Array, Array]:
    """Order statistics of draws (draws, ...) between which a calibrated predictor's value lies with chance `level` or
    more: the r-th smallest and the r-th largest, r = ⌊(B + 1)(1 − level)/2⌋."""
    rank = check_band_draws(len(drawn), level)
    ordered = np.sort(drawn, axis=0)
    return ordered[rank - 1], ordered[-rank]
