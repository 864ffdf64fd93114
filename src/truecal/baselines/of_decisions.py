"""Measures of what decisions lose: U-calibration, calibration decision loss, decision and projected calibration."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.data import as_array
from ..core.properties import Binary, Full
from ..core.sample import Sample
from ..core.types import Array
from .baseline import Baseline, of_each_view, sums_by_value
from .without_bins import lipschitz_sup


@of_each_view
def u_calibration(u: Array, y: Array, w: Array) -> float:
    """max over thresholds v of the regret against the best constant under the V-shaped loss −sign(p − v)(y − v).

    For a threshold v the regret is 2·max(Σ_{u_i ≤ v} (y_i − v), Σ_{u_i > v} (v − y_i)), largest at predictions.
    """
    values, mass, outcome = sums_by_value(u, w, w * y)
    below = np.cumsum(outcome) - values * np.cumsum(mass)
    above = values * np.cumsum(mass[::-1])[::-1] - np.cumsum(outcome[::-1])[::-1]
    return float(2 * max(0.0, below.max(), above.max()) / w.sum())


@of_each_view
def decision_loss(u: Array, y: Array, w: Array) -> float:
    """max over v of Σ_q n_q |ȳ_q − v| 1[v between q and ȳ_q] / (n·max(v, 1 − v)), q the distinct predictions.

    Between two ends of such intervals, and ½, this is a ratio of linear functions, hence largest at an end: each piece
    is looked at from inside, at both of its ends.
    """
    values, mass, outcome = sums_by_value(u, w, w * y)
    rate = outcome / mass
    low, high, sign = np.minimum(values, rate), np.maximum(values, rate), np.sign(rate - values)
    points, place = np.unique(np.concatenate([low, high, [0.5]]), return_inverse=True)
    begin, end = place[: len(low)], place[len(low) : 2 * len(low)]

    def inside(amount: Array) -> Array:
        """The sum, piece by piece, of the amounts of the intervals that hold the piece."""
        steps = np.bincount(begin, amount, len(points)) - np.bincount(end, amount, len(points))
        return np.cumsum(steps)[:-1]

    constant, slope = inside(sign * outcome), inside(-sign * mass)
    ends = [(constant + slope * v) / np.maximum(v, 1 - v) for v in (points[:-1], points[1:])]
    return float(max([0.0, *(piece.max() for piece in ends if piece.size)]) / w.sum())


def decision_calibration(sample: Sample, *, losses: Any) -> float:
    """Σ_a |Σ_{i: action a} w_i ⟨ℓ_a, p_i − e_{y_i}⟩| / Σw, each row taking the action its prediction says is best."""
    sample = sample.on_host()
    p = sample.reports.astype(np.float64)
    matrix = _actions(losses, sample.views, "losses", default=1 - np.eye(sample.views))
    action = (p @ matrix.T).argmin(axis=1)
    surprise = (sample.residuals(slice(None)).T * matrix[action]).sum(axis=1)
    return float(np.abs(np.bincount(action, surprise, len(matrix))).sum() / sample.total_weight)


def projected_smooth(sample: Sample, *, directions: Any) -> float:
    """max over directions a of the smooth calibration error of ⟨a, p⟩ as a prediction of ⟨a, e_y⟩."""
    sample = sample.on_host()
    matrix = _actions(directions, sample.views, "directions", default=np.eye(sample.views))
    p, residual = sample.reports.astype(np.float64), -sample.residuals(slice(None)).T
    sups = [lipschitz_sup(*sums_by_value(_along(p, a), residual @ a)) for a in matrix]
    return max(sups) / sample.total_weight


def _along(p: Array, direction: Array) -> Array:
    """⟨a, p_i⟩ class by class, so that equal rows give equal numbers."""
    total = np.zeros(len(p))
    for r, a in enumerate(direction.tolist()):
        total += a * p[:, r]
    return total


def _actions(given: Any, k: int, name: str, default: Array) -> Array:
    """A row of k numbers in [−1, 1] for each action or direction; None is the default."""
    if given is None:
        return default
    matrix = np.asarray(as_array(given, name))
    if matrix.ndim != 2 or matrix.shape[1] != k or len(matrix) == 0 or matrix.dtype.kind not in "biuf":
        raise ValueError(f"{name} must have a row of {k} numbers (one per class) for each, got shape {matrix.shape}")
    matrix = matrix.astype(np.float64)
    bad = ~(np.abs(matrix) <= 1)  # also true for NaN
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(f"{name} must lie between −1 and 1, got {matrix[row, column]} at row {row}, column {column}")
    return matrix


DECISIONS = (
    Baseline(
        "u_calibration",
        "U-calibration, V-shaped losses",
        Binary(),
        definition=(
            "max over v of the mean regret against the best constant under the loss −sign(p − v)(y − v), that is "
            "(2/n)·max(Σ_{u_i ≤ v} (y_i − v), Σ_{u_i ≥ v} (v − y_i)); at least half of the supremum over all bounded "
            "proper losses"
        ),
        reference="Kleinberg, Paes Leme, Schneider, Teng 2023, arXiv 2307.00729",
        truthful=False,
        reason=(
            "a maximum over losses of a regret that sees the labels: predictions on one side of most thresholds "
            "regret less"
        ),
        compute=u_calibration,
    ),
    Baseline(
        "calibration_decision_loss",
        "Calibration decision loss, V-shaped payoffs",
        Binary(),
        definition=(
            "max over v of Σ_q (n_q/n) |ȳ_q − v| / max(v, 1 − v) over distinct predictions q with v between q and "
            "their outcome frequency ȳ_q: what recalibration would gain; at least half of the supremum over all "
            "payoffs in [0, 1]"
        ),
        reference="Hu, Wu 2024, arXiv 2404.13503",
        truthful=False,
        reason="each distinct prediction is recalibrated by its own labels: pooled predictions leave less to gain",
        compute=decision_loss,
    ),
    Baseline(
        "decision_calibration",
        "Decision calibration error",
        Full(),
        definition=(
            "Σ_a |n⁻¹ Σ_{rows that choose a} ⟨ℓ_a, p_i − e_{y_i}⟩|, the action a of least expected loss by the "
            "prediction; `losses` has a row of k losses for each action, by default those of naming a class (1, and 0 "
            "if right)"
        ),
        reference="Zhao, Kim, Sahoo, Ma, Ermon 2021, arXiv 2107.05719",
        truthful=False,
        reason="absolute sums over actions reward predictions that lead everyone to one action",
        compute=decision_calibration,
        settings=(("losses", None),),
        takes=(Full,),
    ),
    Baseline(
        "projected_smooth_calibration",
        "Projected smooth calibration error",
        Full(),
        definition=(
            "max over given directions a of sup |n⁻¹ Σ η(⟨a, p_i⟩) ⟨a, e_{y_i} − p_i⟩| over 1-Lipschitz η within ±1; "
            "`directions` has a row of k numbers within ±1 for each, by default one for each class"
        ),
        reference="Gopalan, Hu, Rothblum 2024, arXiv 2402.07821",
        truthful=False,
        reason="a supremum over weightings and directions of the same noise: pooling leaves fewer to choose from",
        compute=projected_smooth,
        settings=(("directions", None),),
        takes=(Full,),
    ),
)
