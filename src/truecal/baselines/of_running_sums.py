"""Measures of cumulative sums: steps, Kolmogorov-Smirnov and the range, over predictions in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.properties import Binary, Confidence
from ..core.types import Array
from .baseline import Baseline, of_each_view, subsets, sums_by_value

_EXACT_SUBSETS = 10
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
    chosen = subsets(len(u), draws, seed, _EXACT_SUBSETS)
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
        truthful=False,
        reason=_MAXIMUM,
        compute=largest_step,
    ),
    Baseline(
        "step_calibration",
        "Step calibration error (ECCE-MAD)",
        Binary(),
        definition="max_v |n⁻¹ Σ_{u_i ≤ v} (y_i − u_i)|",
        reference="Qiao, Zhao 2025, arXiv 2503.02384; Arrieta-Ibarra et al. 2022, arXiv 2205.09680",
        truthful=False,
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
        truthful=False,
        reason=(
            "truthful up to a constant factor only: drawing subsets adds noise that no misreport can "
            "remove, and some gain "
            "remains"
        ),
        compute=step_subsampled,
        settings=(("draws", 256), ("seed", 0)),
    ),
    Baseline(
        "ecce_range",
        "ECCE-R (cutoff calibration error)",
        Binary(),
        definition="max − min over v of n⁻¹ Σ_{u_i ≤ v} (y_i − u_i): the largest |n⁻¹ Σ (y_i − u_i)| over an interval",
        reference="Arrieta-Ibarra et al. 2022, arXiv 2205.09680; Rossellini et al. 2025, arXiv 2502.19851",
        truthful=False,
        reason=_MAXIMUM,
        compute=step_range,
    ),
)
