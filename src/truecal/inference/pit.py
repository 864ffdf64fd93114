"""PIT histogram and coverage: what people usually look at, as descriptions; neither can rank forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.data import as_array, check_positive_int, check_same_length
from ..core.parameters import described
from ..core.result import Result
from ..core.types import Array
from ..kinds.numbers import Forecast, Quantiles, ScipyForecast

GAMEABLE = (
    "descriptions, not scores: useless forecasts, with half of the intervals infinite and half empty, have perfect "
    "coverage; rank by the score"
)
LEVELS = (0.5, 0.8, 0.9)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Pit(Result):
    """Shares of rows whose F(y) lies in each of equal bins of [0, 1], and how often central intervals hold y.

    `coverage` maps the nominal level of central intervals to how often they held the outcome. `truthful` is False: a
    flat histogram and perfect coverage can be had by forecasts that know nothing.
    """

    shares: Array
    coverage: dict[float, float]
    n_samples: int
    truthful: bool = False

    def __repr__(self) -> str:
        held = ", ".join(f"{level:.0%} intervals held {share:.1%}" for level, share in self.coverage.items())
        bars = " ".join(f"{share:.1%}" for share in self.shares)
        return f"PIT of {self.n_samples} rows: {bars} (flat: {1 / len(self.shares):.1%})\n  {held}\n  {GAMEABLE}"


@described(
    "A Pit.",
    y_true="Outcomes, one number per row.",
    forecast="A forecast of `tc.forecasts`, or a frozen distribution of scipy.",
    n_bins="The number of bins of the histogram.",
)
def pit(y_true: Any, forecast: Any, *, n_bins: int = 10) -> Pit:
    """The histogram of F(y), which is flat for calibrated forecasts, and the coverage of central intervals.

    Both can be gamed: see the cheat in the documentation. Where F jumps at y, the middle of the jump counts. Dawid,
    JRSS A 1984; Gneiting, Balabdaoui and Raftery, JRSS B 2007.

    >>> import numpy as np, truecal as tc
    >>> y = np.random.default_rng(0).standard_normal(1000)
    >>> found = tc.forecasts.pit(y, tc.forecasts.normal(np.zeros(1000), np.ones(1000)))
    >>> {level: round(share, 1) for level, share in found.coverage.items()}
    {0.5: 0.5, 0.8: 0.8, 0.9: 0.9}
    """
    made = forecast if isinstance(forecast, Forecast) else ScipyForecast(forecast)
    y = np.asarray(as_array(y_true, "y_true"), dtype=np.float64)
    check_same_length(y_true=y, forecast=np.empty(len(made)))
    points = np.column_stack([np.nextafter(y, -np.inf), y])
    low, high = made.at(points).T
    value = (low + high) / 2
    bins = check_positive_int(n_bins, "n_bins")
    shares = np.bincount(np.minimum((value * bins).astype(int), bins - 1), minlength=bins) / len(y)
    tails = {level: ((1 - level) / 2, (1 + level) / 2) for level in LEVELS}
    if isinstance(made, Quantiles):  # beyond the outer quantiles nothing is said
        least, most = made.levels[0] - 1e-9, made.levels[-1] + 1e-9
        tails = {level: (a, b) for level, (a, b) in tails.items() if a >= least and b <= most}
    coverage = {level: float(((value >= a - 1e-9) & (value <= b + 1e-9)).mean()) for level, (a, b) in tails.items()}
    return Pit(shares, coverage, len(y))
