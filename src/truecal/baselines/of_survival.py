"""Measures of survival predictions: D-calibration and one-calibration, for censored times."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import LIBRARY
from ..core.cells import middle_cells
from ..core.data import check_positive_int
from ..core.sample import Sample
from ..core.types import Array
from ..kinds.censoring import event_share
from ..kinds.survival import Survival
from .baseline import Baseline

ROUNDING = 1e-12
"""A difference of shares as small as this is 0."""


def d_calibration(sample: Sample, *, n_bins: Any) -> float:
    """Σ_b (N_b − n/k)²/(n/k) over k equal bins of S_i(X_i); a censored row is shared out over what is left of it.

    Curves are linear between horizons, and follow-up ends at the last one.
    """
    k = check_positive_int(n_bins, "n_bins")
    s, came = _at_own_time(sample)
    place = np.minimum(np.floor(s * k), k - 1).astype(np.intp)
    counts = np.bincount(place[came], minlength=k).astype(np.float64)
    s, place = s[~came], place[~came]
    below = np.divide(1.0, k * s, out=np.zeros(len(s)), where=s > 0)
    own = np.where(s > 0, 1 - place * below, 1.0)
    counts += np.bincount(place, own, k)
    counts[:-1] += np.bincount(place, below, k)[:0:-1].cumsum()[::-1]
    usual = sample.rows / k
    return float(np.square(counts - usual).sum() / usual)


def _at_own_time(sample: Sample) -> tuple[Array, Array]:
    """S_i(X_i) of every row, and whether its event came by then; at the last horizon for longer times."""
    y, u = sample.labels, sample.distributions
    assert y is not None and u is not None
    at = np.append(0.0, y["at"][0])
    risk = np.column_stack([np.zeros(len(u)), np.maximum.accumulate(u, axis=1)])
    time = np.minimum(y["time"], at[-1])
    right = np.clip(np.searchsorted(at, time, side="left"), 1, len(at) - 1)
    rows = np.arange(len(u))
    share = (time - at[right - 1]) / (at[right] - at[right - 1])
    return 1 - (risk[rows, right - 1] * (1 - share) + risk[rows, right] * share), y["came"][:, -1]


def one_calibration(sample: Sample, *, n_bins: Any) -> float:
    """Σ_g n_g (KM_g(t) − ū_g)²/(ū_g(1 − ū_g)) over groups of equal numbers of rows by their risk, averaged over t."""
    m, y = check_positive_int(n_bins, "n_bins"), sample.labels
    assert y is not None
    total = 0.0
    for j, t in enumerate(y["at"][0].tolist()):
        u = sample.view(j).astype(np.float64)
        group = _groups(u, m)
        for g in np.unique(group):
            rows = group == g
            size, mean = np.count_nonzero(rows), float(u[rows].mean())
            came = event_share(y["time"][rows], y["event"][rows], np.ones(size), np.array([t]))
            total += square_ratio(float(came[0]) - mean, mean * (1 - mean) / size)
    return total / sample.views


def square_ratio(difference: float, variance: float) -> float:
    """difference²/variance; where risks of 0 and 1 allow no variance, 0 if they are right and infinite otherwise."""
    if abs(difference) < ROUNDING:
        return 0.0
    return difference**2 / float(variance) if variance > 0 else np.inf  # numpy's floats warn of overflow


def _groups(u: Array, m: int) -> Array:
    """The quantile group of each row; equal risks share one."""
    order = LIBRARY[type(u)].argsort(u, stable=True)
    group = np.empty(len(u), dtype=np.intp)
    group[order] = middle_cells(u, order, min(m, len(u)))
    return group


TIMES = (
    Baseline(
        "d_calibration",
        "D-calibration",
        Survival(),
        definition=(
            "Σ_b (N_b − n/k)²/(n/k), N_b the rows whose S_i(X_i) lies in bin b of k equal bins of [0, 1]; a censored "
            "row is shared out in proportion to what lies below its S_i(X_i); linear between horizons, and follow-up "
            "ends at the last one"
        ),
        reference="Haider, Hoehn, Davis, Greiner 2020, JMLR 21(85)",
        reason="counts that any set of curves can make equal: predictions that know nothing score perfectly",
        compute=d_calibration,
        settings=(("n_bins", 10),),
        takes=(Survival,),
        weighted=False,
    ),
    Baseline(
        "one_calibration",
        "One-calibration (D'Agostino-Nam)",
        Survival(),
        definition=(
            "the mean over horizons t of Σ_g n_g (KM_g(t) − ū_g)²/(ū_g(1 − ū_g)) over groups of equal numbers of rows "
            "by their risk u, KM_g the Kaplan-Meier estimate of P(T ≤ t) in the group"
        ),
        reference="D'Agostino, Nam 2003, Handbook of Statistics 23",
        reason="the variance it divides by comes from the predictions: moderate risks make it larger",
        compute=one_calibration,
        settings=(("n_bins", 10),),
        takes=(Survival,),
        weighted=False,
    ),
)
