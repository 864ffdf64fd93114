"""rows_needed: how many rows it takes to see a gap of so many points."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.special import chdtri, chndtr, ndtri

from ..core.data import as_array, check_probabilities, check_reports, shown
from ..core.parameters import described
from .forms import BINS, NEAR, RANK_ONE

_MOST = 10**12
SHARES = 2 * RANK_ONE + BINS + 2 * NEAR
"""Of the level of the test of one probability per row, those of all forms."""


@described(
    "The number of rows.",
    gap="The gap in points that is to be seen.",
    power="The chance of seeing it.",
    alpha="The level of the test.",
    y_proba="Predictions like those to come; sure predictions need fewer rows. Default: as if all were 1/2.",
    shape='"any": off by the gap on the root-mean-square over bins, in whatever direction; "level": too high or too '
    "low (over- or under-confident) by the gap on average, which takes fewer rows.",
)
def rows_needed(
    gap: float = 2.0,
    power: float = 0.8,
    *,
    alpha: float = 0.05,
    y_proba: Any = None,
    shape: Literal["any", "level"] = "any",
) -> int:
    """Return how many rows the calibration test needs to see a gap of so many points.

    Computed for the calibration test of one probability per row, which shares its level α among five forms: the mean
    gap has a = 4α/11, the bins 2α/11. "level", by the mean gap: n = (z_{1−a/2} + z_power)²·s/gap², with s = mean
    p(1 − p). "any", by the squared gap over the automatic number of bins m = n^(2/5): n times it over s is about
    χ²_m − m if calibrated, and noncentral by n·gap²/s if not. Smooth shapes need fewer rows.

    >>> import truecal as tc
    >>> tc.rows_needed(gap=5), tc.rows_needed(gap=5, shape="level"), tc.rows_needed(gap=2)
    (3094, 1027, 27069)
    """
    points = _between(gap, "gap", 100.0) / 100
    power, alpha = _between(power, "power", 1.0), _between(alpha, "alpha", 1.0)
    if shape not in ("any", "level"):
        raise ValueError(f"shape must be 'any' or 'level', got {shown(shape)}")
    s = 0.25 if y_proba is None else _variance(y_proba)
    if shape == "level":
        share = alpha * RANK_ONE / SHARES
        needed = float((ndtri(1 - share / 2) + ndtri(power)) ** 2 * s / points**2)
        return int(np.clip(np.ceil(needed), 10, _MOST))
    low, high = 10, _MOST
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _seen(middle, points, s, alpha * BINS / SHARES) >= power else (middle + 1, high)
    return low


def _seen(n: int, gap: float, s: float, alpha: float) -> float:
    """The chance that the squared gap exceeds the quantile of a calibrated one."""
    m = max(2.0, n**0.4)
    return float(1 - chndtr(chdtri(m, alpha), m, min(n * gap**2 / s, 1e5)))


def _variance(y_proba: Any) -> float:
    """The mean p(1 − p) of one probability per row, or of the confidence."""
    array = as_array(y_proba, "y_proba")
    p = check_probabilities(array).max(axis=1) if array.ndim == 2 else check_reports(array, "y_proba")
    return max(float(np.mean(p * (1 - p))), 1e-6)


def _between(value: Any, name: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not 0 < value < most:
        raise ValueError(f"{name} must be one number between 0 and {most:g}, got {shown(value)}")
    return float(value)
