"""Null bands: the range of an error if the predictor were calibrated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from ..core.result import Result
from ..core.rules import bins_text
from ..core.types import Array
from .binned_sample import BinnedSample
from .checks import check_band_draws, p_of_draws
from .null import calibrated_world, draws_pvalue, simulate


@final
@dataclass(frozen=True, repr=False, eq=False)
class NullBand(Result):
    """An error, and its range for a calibrated predictor with the same reports."""

    estimate: float
    low: float
    high: float
    pvalue: float
    level: float
    n_bins: int | None
    n_resamples: int
    null: str
    n_samples: int
    name: str

    def __repr__(self) -> str:
        bins = "" if self.n_bins is None else f", {bins_text(self.n_bins)}"
        return (
            f"Null band, {self.name}{bins}, {self.n_samples} samples, {self.n_resamples} resamples\n"
            f"  error {self.estimate:.4g}; if calibrated, {self.level:.0%} of values lie in "
            f"[{self.low:.4g}, {self.high:.4g}] ({p_of_draws(self.pvalue, self.n_resamples)})\n  null: {self.null}"
        )


def null_bands(frozen: BinnedSample, level: float, draws: int, seed: int) -> tuple[NullBand, ...]:
    """The band of an l1 error at each bin count: quantiles over outcomes drawn from the reports."""
    check_band_draws(draws, level)
    world = calibrated_world(frozen)
    simulated = simulate(world, draws, seed)
    low, high = null_quantiles(simulated.drawn, level)
    rows, name = frozen.sample.rows, frozen.error.symbol
    found = []
    for c, m in enumerate(frozen.counts):
        chance = draws_pvalue(simulated.observed[c], simulated.drawn[:, c])
        at = float(simulated.observed[c]), float(low[c]), float(high[c]), float(chance)
        found.append(NullBand(*at, level, m, draws, world.null, rows, name))
    return tuple(found)


def null_quantiles(drawn: Array, level: float) -> tuple[Array, Array]:
    """Order statistics of draws (draws, ...) between which a calibrated predictor's value lies with chance `level` or
    more: the r-th smallest and the r-th largest, r = ⌊(B + 1)(1 − level)/2⌋."""
    rank = check_band_draws(len(drawn), level)
    ordered = np.sort(drawn, axis=0)
    return ordered[rank - 1], ordered[-rank]
