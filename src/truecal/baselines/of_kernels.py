"""Measures by kernels on predictions: MMCE of the confidence, and the squared kernel error of whole distributions."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.averages import Poisson
from ..core.data import shown
from ..core.properties import Confidence, Full, TopLabel
from ..core.sample import Sample
from ..core.types import Array
from ..sums.errors import CalibrationError
from .baseline import Baseline, check_flag

MOST_ROWS = 20_000
"""Every pair of rows is visited: n² products."""
_BLOCK_ENTRIES = 1 << 20
_MEDIAN_ROWS = 1000


def mmce(sample: Sample, *, theta: Any, corrected: Any) -> float:
    """n⁻² Σ_ij (c_i − z_i)(c_j − z_j) exp(−|c_i − c_j|/θ): its root, or with n⁻² Σ(1 − z_i) added, as it is."""
    corrected = check_flag(corrected, "corrected")
    squared = float(CalibrationError(Confidence(), Poisson(theta), corrected=corrected).of(sample)[0])
    return squared if corrected else max(0.0, squared) ** 0.5


def skce(sample: Sample, *, bandwidth: Any, unbiased: Any) -> float:
    """The mean of exp(−‖p_i − p_j‖/ν)⟨p_i − e_i, p_j − e_j⟩ over all pairs, or over those of two different rows."""
    from scipy.spatial.distance import cdist

    unbiased = check_flag(unbiased, "unbiased")
    if sample.rows > MOST_ROWS:
        raise ValueError(f"the kernel error visits every pair of rows: at most {MOST_ROWS:,} rows, got {sample.rows:,}")
    sample = sample.on_host()
    p = sample.reports.astype(np.float64)
    residual, scale = sample.residuals(slice(None)).T, _bandwidth(bandwidth, p)
    total = 0.0
    step = max(1, _BLOCK_ENTRIES // sample.rows)
    for start in range(0, sample.rows, step):
        rows = slice(start, start + step)
        total += float(np.vdot(residual[rows], np.exp(-cdist(p[rows], p) / scale) @ residual))
    pairs = sample.total_weight**2
    if unbiased:
        if np.count_nonzero(sample.row_weights) < 2:
            raise ValueError(
                "the unbiased kernel error takes pairs of different rows: expected two rows or more, got 1"
            )
        total -= float(np.square(residual).sum())
        pairs -= sample.total_weight_sq
    return total / pairs


def _bandwidth(bandwidth: Any, p: Array) -> float:
    """The number itself, or the median distance of different predictions, at most 1,000 of them evenly spaced."""
    from scipy.spatial.distance import pdist

    if isinstance(bandwidth, str) and bandwidth == "median":
        few = np.unique(p, axis=0)
        few = few[np.linspace(0, len(few) - 1, min(len(few), _MEDIAN_ROWS)).astype(int)]
        if len(few) == 1:
            return 1.0  # one prediction only: every kernel value is 1, whatever the bandwidth
        return float(np.median(pdist(few)))
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, (int, float)) or not 0 < bandwidth < np.inf:
        raise ValueError(f"bandwidth must be a positive number or 'median', got {shown(bandwidth)}")
    return float(bandwidth)


_UNIT_KERNEL = "a positive semidefinite kernel of the predictions alone, 1 on its diagonal: bias² plus a fixed variance"

KERNELS = (
    Baseline(
        "mmce",
        "MMCE",
        Confidence(),
        definition=(
            "(n⁻² Σ_ij (c_i − z_i)(c_j − z_j) exp(−|c_i − c_j|/0.4))^½, c the confidence, z whether "
            "the top class was right"
        ),
        reference="Kumar, Sarawagi, Jain 2018 (ICML, PMLR 80)",
        reason="a root is taken, and for three or more classes it pays to change which class is on top",
        compute=mmce,
        settings=(("theta", 0.4), ("corrected", False)),
        takes=(Confidence, TopLabel),
    ),
    Baseline(
        "mmce_corrected",
        "MMCE², corrected",
        Confidence(),
        definition="MMCE squared plus n⁻² Σ(1 − z_i): the confidence error under Poisson cuts of rate 1/0.4",
        reference="Kumar, Sarawagi, Jain 2018 (ICML, PMLR 80), corrected as in arXiv 2510.06388",
        truthful=True,
        reason=(
            "squared, with a kernel that is 1 on its diagonal, and the correction makes naming the likeliest class "
            "optimal"
        ),
        compute=mmce,
        settings=(("theta", 0.4), ("corrected", True)),
        takes=(Confidence, TopLabel),
    ),
    Baseline(
        "skce",
        "SKCE",
        Full(),
        definition=(
            "n⁻² Σ_ij exp(−‖p_i − p_j‖/ν) ⟨p_i − e_{y_i}, p_j − e_{y_j}⟩, ν the median distance of different "
            "predictions"
        ),
        reference="Widmann, Lindsten, Zachariah 2019, arXiv 1910.11385 (biased estimator)",
        truthful=True,
        reason=_UNIT_KERNEL,
        compute=skce,
        settings=(("bandwidth", "median"), ("unbiased", False)),
        takes=(Full,),
    ),
    Baseline(
        "skce_unbiased",
        "SKCE, unbiased",
        Full(),
        definition="the same mean over pairs of different rows, Σ_{i≠j} / (n(n − 1)): needs two rows, can be negative",
        reference="Widmann, Lindsten, Zachariah 2019, arXiv 1910.11385 (unbiased estimator)",
        reason="opposite biases in two rows with like predictions make it negative; the truth is at 0 on average",
        compute=skce,
        settings=(("bandwidth", "median"), ("unbiased", True)),
        takes=(Full,),
    ),
)
