"""Measures without bins: smooth ECE, smooth calibration error, distance to calibration, and cumulative sums."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np

from ..core.properties import Binary, Confidence
from ..core.types import Array
from .baseline import Baseline, of_each_view, subsets, sums_by_value

GRID = 1 << 13
"""Smooth ECE puts residuals on a grid of this many steps: an error of the order of 1/GRID."""
NARROWEST = 4 / GRID
MOST_VALUES = 20_000
"""The best partition into intervals looks at every pair of distinct predictions."""
_EXACT_SUBSETS = 8


# -- smooth ECE --------------------------------------------------------------------------------------------------------


@of_each_view
def smooth_ece(u: Array, y: Array, w: Array) -> float:
    """The σ with ∫_0^1 |Σ_i w_i (u_i − y_i) K_σ(u_i, t)| dt / Σw = σ, K_σ the Gaussian reflected at 0 and 1.

    The integral falls as σ grows, so there is one such σ; below NARROWEST the integral itself is returned.
    """
    from scipy.optimize import brentq

    coefficients = _cosines(_on_grid(u, w * (u - y) / w.sum()))
    smallest = _smoothed_size(coefficients, NARROWEST)
    if smallest <= NARROWEST:
        return smallest
    return float(brentq(lambda sigma: _smoothed_size(coefficients, sigma) - sigma, NARROWEST, 1.0 + 1e-9, xtol=1e-9))


def _on_grid(u: Array, mass: Array) -> Array:
    """Mass at points of [0, 1], each shared by the two grid points around it so that its mean place is kept."""
    place = u * GRID
    left = np.minimum(place.astype(np.int64), GRID - 1)
    share = place - left
    return np.bincount(left, mass * (1 - share), GRID + 1) + np.bincount(left + 1, mass * share, GRID + 1)


def _cosines(mass: Array) -> Array:
    """Σ_j mass_j cos(πk t_j): in these terms the reflected Gaussian is a factor exp(−(πkσ)²/2)."""
    from scipy.fft import dct

    halved = mass / 2
    halved[[0, -1]] = mass[[0, -1]]
    return np.asarray(dct(halved, type=1))


def _smoothed_size(coefficients: Array, sigma: float) -> float:
    """∫_0^1 |the smoothed mass|, by trapezoids."""
    from scipy.fft import dct

    damped = coefficients * np.exp(-((np.pi * sigma * np.arange(GRID + 1)) ** 2) / 2)
    height = np.abs(dct(damped, type=1))
    return float((height.sum() - (height[0] + height[-1]) / 2) / GRID)


# -- smooth calibration error ------------------------------------------------------------------------------------------


@of_each_view
def smooth_calibration(u: Array, y: Array, w: Array) -> float:
    """sup |Σ_i w_i η(u_i)(y_i − u_i)| / Σw over η with |η| ≤ 1 and |η(a) − η(b)| ≤ |a − b|."""
    values, sums = sums_by_value(u, w * (y - u))
    return lipschitz_sup(values, sums) / float(w.sum())


def lipschitz_sup(values: Array, sums: Array) -> float:
    """max Σ_j η_j s_j over |η_j| ≤ 1 and |η_j − η_{j+1}| ≤ v_{j+1} − v_j, v in order: a linear programme on a chain.

    F(η), the best so far with the last weight η, is concave and piecewise linear. The next step lets η move by the gap
    (pieces that rise shift left, pieces that fall shift right) and adds s·η (the top moves over the breakpoints whose
    slopes change sign). A breakpoint holds its place less the shift of its side, and by how much the slope falls there.
    """
    best = shift = previous = 0.0
    rising: list[tuple[float, float]] = []  # left of the top, the nearest first; places with the sign turned
    falling: list[tuple[float, float]] = []  # right of the top, the nearest first
    for value, s in zip(values.tolist(), sums.tolist(), strict=True):
        shift += value - previous if rising or falling else 0.0
        previous = value
        if s > 0:
            best += _climb(falling, rising, shift, s)
        elif s < 0:
            best += _climb(rising, falling, shift, -s)
    return best


def _climb(ahead: list[tuple[float, float]], behind: list[tuple[float, float]], shift: float, slope: float) -> float:
    """What the maximum gains when `slope` is added in the direction of `ahead`; breakpoints passed change sides.

    By symmetry both directions are one: places are measured along the way, and the end of the way is at 1.
    """
    gain = here = 0.0  # slope·η is nothing at η = 0, and is followed from there to the new top
    while slope > 0:
        if not ahead or ahead[0][0] + shift >= 1.0:
            gain += slope * (1.0 - here)
            heappush(behind, (-1.0 - shift, slope))
            return gain
        place, drop = heappop(ahead)
        there = place + shift
        gain += slope * (there - here)
        here, passed = there, min(slope, drop)
        heappush(behind, (-there - shift, passed))
        if drop > passed:
            heappush(ahead, (place, drop - passed))
        slope -= passed
    return gain


@of_each_view
def smooth_subsampled(u: Array, y: Array, w: Array, *, draws: Any, seed: Any) -> float:
    """The mean over subsets of the rows of the smooth calibration error of the subset, as a share of all rows."""
    order = np.lexsort((w, y, u))
    values, place = np.unique(u[order], return_inverse=True)
    residual = (w * (y - u))[order]
    chosen = subsets(len(u), draws, seed, _EXACT_SUBSETS)
    sums = (np.bincount(place, residual * row, len(values)) for row in chosen)
    return float(np.mean([lipschitz_sup(values, s) for s in sums]) / w.sum())


# -- distance to calibration -------------------------------------------------------------------------------------------


@of_each_view
def interval_calibration(u: Array, y: Array, w: Array) -> float:
    """min over partitions into intervals I of Σ_I (|Σ_{i∈I} w_i (u_i − y_i)| + width(I)·Σ_{i∈I} w_i) / Σw."""
    values, sums, mass = sums_by_value(u, w * (u - y), w)
    if len(values) > MOST_VALUES:
        raise ValueError(
            f"the best partition looks at every pair of distinct predictions: at most {MOST_VALUES:,} of them, "
            f"got {len(values):,}; round the predictions"
        )
    total, weight = (np.concatenate([[0.0], np.cumsum(x)]) for x in (sums, mass))
    best = np.zeros(len(values) + 1)
    for j in range(1, len(values) + 1):  # the last interval holds values i..j−1
        width = values[j - 1] - values[:j]
        best[j] = (best[:j] + np.abs(total[j] - total[:j]) + width * (weight[j] - weight[:j])).min()
    return float(best[-1] / weight[-1])


_SUPREMUM = "a supremum over weightings of the same noise: pooling leaves fewer weightings to choose from"
_SUBSETS = (
    "truthful up to a constant factor only: drawing subsets adds noise that no misreport can remove, and some gain "
    "remains"
)

SMOOTH = (
    Baseline(
        "smooth_ece",
        "Smooth ECE",
        Binary(),
        definition=(
            "the σ at which ∫ |mean residual smoothed by a Gaussian of width σ, reflected at 0 and 1| equals σ; on a "
            "grid of 8,192 steps"
        ),
        reference="Błasiok, Nakkiran 2023, arXiv 2309.12236",
        reason="absolute smoothed residuals reward pooling, as absolute bin sums do",
        compute=smooth_ece,
    ),
    Baseline(
        "smooth_calibration",
        "Smooth calibration error",
        Binary(),
        definition=(
            "sup |n⁻¹ Σ η(u_i)(y_i − u_i)| over 1-Lipschitz η: [0, 1] → [−1, 1]; exact, as a linear programme on a "
            "chain"
        ),
        reference="Kakade, Foster 2008 (JCSS 74); Błasiok et al. 2023, arXiv 2211.16886",
        reason=_SUPREMUM,
        compute=smooth_calibration,
    ),
    Baseline(
        "smooth_calibration_subsampled",
        "Subsampled smooth calibration error (SSCE)",
        Binary(),
        definition=(
            "the mean over all subsets of rows of sup |Σ_{i in the subset} η(u_i)(y_i − u_i)| / n: all subsets up to "
            "8 rows, else the mean of 64 seeded ones"
        ),
        reference="Haghtalab, Qiao, Yang, Zhao 2024, arXiv 2407.13979",
        reason=_SUBSETS,
        compute=smooth_subsampled,
        settings=(("draws", 64), ("seed", 0)),
    ),
    Baseline(
        "distance_to_calibration",
        "Distance to calibration, interval bound",
        Binary(),
        definition=(
            "min over partitions of [0, 1] into intervals of Σ_I |n⁻¹ Σ_{i∈I} (u_i − y_i)| + width(I)·n_I/n; exact, "
            "and an upper bound of the mean |u − q| to the nearest calibrated q"
        ),
        reference="Błasiok, Gopalan, Hu, Nakkiran 2023, arXiv 2211.16886 (interval calibration error)",
        reason=(
            "absolute sums of intervals chosen by the labels: the noise of the truth counts, a pooled prediction has "
            "less"
        ),
        compute=interval_calibration,
    ),
)


_EXACT_STEPS = 10
_BLOCK_ENTRIES = 1 << 22


def _cumulative(u: Array, y: Array, w: Array) -> Array:
    """C_0 = 0 and C_j = Σ_{u_i ≤ v_j} w_i (y_i − u_i) / Σw for the distinct predictions v_1 < v_2 < …"""
    _, sums = sums_by_value(u, w * (y - u))
    return np.asarray(np.concatenate([[0.0], np.cumsum(sums)]) / w.sum())


@of_each_view
def largest_step(u: Array, y: Array, w: Array) -> float:
    """max_v |Σ_{u_i ≤ v} w_i (y_i − u_i)| / Σw."""
    return float(np.abs(_cumulative(u, y, w)).max())


@of_each_view
def step_range(u: Array, y: Array, w: Array) -> float:
    """max − min of the cumulative sums: the largest |Σ| over rows with predictions in some interval."""
    return float(np.ptp(_cumulative(u, y, w)))


@of_each_view
def step_subsampled(u: Array, y: Array, w: Array, *, draws: Any, seed: Any) -> float:
    """The mean over subsets of the rows of the largest step of the subset, as a share of all rows."""
    order = np.lexsort((w, y, u))
    ends = np.append(np.flatnonzero(np.diff(u[order])), len(u) - 1)
    residual = (w * (y - u))[order]
    chosen = subsets(len(u), draws, seed, _EXACT_STEPS)
    block = max(1, _BLOCK_ENTRIES // len(u))
    parts = (chosen[start : start + block] for start in range(0, len(chosen), block))
    largest = [np.abs(np.cumsum(part * residual, axis=1)[:, ends]).max(axis=1) for part in parts]
    return float(np.concatenate(largest).mean() / w.sum())


_MAXIMUM = "a maximum over thresholds of the same noise: pooling leaves fewer thresholds"

CUMULATIVE = (
    Baseline(
        "kolmogorov_smirnov",
        "Kolmogorov-Smirnov error",
        Confidence(),
        definition="max_v |n⁻¹ Σ_{c_i ≤ v} (z_i − c_i)|, c the confidence, z whether the top class was right",
        reference="Gupta et al. 2021, arXiv 2006.12800",
        reason=_MAXIMUM,
        compute=largest_step,
    ),
    Baseline(
        "step_calibration",
        "Step calibration error (ECCE-MAD)",
        Binary(),
        definition="max_v |n⁻¹ Σ_{u_i ≤ v} (y_i − u_i)|",
        reference="Qiao, Zhao 2025, arXiv 2503.02384; Arrieta-Ibarra et al. 2022, arXiv 2205.09680",
        reason=_MAXIMUM,
        compute=largest_step,
    ),
    Baseline(
        "step_calibration_subsampled",
        "Subsampled step calibration error",
        Binary(),
        definition=(
            "the mean over all subsets of rows of max_v |Σ_{i in the subset, u_i ≤ v} (y_i − u_i)| / n: all subsets "
            "up to 10 rows, else the mean of 256 seeded ones"
        ),
        reference="Qiao, Zhao 2025, arXiv 2503.02384",
        reason=_SUBSETS,
        compute=step_subsampled,
        settings=(("draws", 256), ("seed", 0)),
    ),
    Baseline(
        "ecce_range",
        "ECCE-R (cutoff calibration error)",
        Binary(),
        definition="max − min over v of n⁻¹ Σ_{u_i ≤ v} (y_i − u_i): the largest |n⁻¹ Σ (y_i − u_i)| over an interval",
        reference="Arrieta-Ibarra et al. 2022, arXiv 2205.09680; Rossellini et al. 2025, arXiv 2502.19851",
        reason=_MAXIMUM,
        compute=step_range,
    ),
)
