"""Measures that clinical papers report of predicted risks, each with an interval, and flexible calibration curves.

Intervals of intercept and slope come from the information of their regression, or with clusters from the sums of the
scores of each cluster. Those of O:E, the C statistic and the scaled Brier score come from the influence of each row or
cluster. The loess curve is linear in the outcomes, so that its covariance between points is known; draws with it give
its band and the intervals of ICI, E50, E90 and Emax. Where the band holds the diagonal, the lower ends count no
deviation: noise alone makes these measures larger than 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import expit, stdtrit

from ..baselines.baseline import sums_by_value
from ..baselines.clinical import CLIP, curve_gaps, local_rows, logistic_fit
from ..core.losses_by_label import squares
from ..core.types import Array, Groups
from .acting import critical, pointwise
from .checks import per_unit
from .mean_losses import loss_values, mean_interval
from .thresholds import _auroc, _interval

SPAN = 0.75
POINTS = 128
"""Points of a flexible curve and its band; ICI and its like are computed at up to 512."""
KNOTS = (0.05, 0.275, 0.5, 0.725, 0.95)
"""Quantiles of the log-odds at which the spline has its knots."""
TITLES = {
    "oe_ratio": "O:E ratio",
    "intercept": "calibration intercept",
    "slope": "calibration slope",
    "c_statistic": "C statistic",
    "brier": "Brier score",
    "scaled_brier": "scaled Brier (IPA)",
    "ici": "ICI",
    "e50": "E50",
    "e90": "E90",
    "emax": "Emax",
}
"""The measures in the order in which they are reported."""
_DRAWS = 1999


@final
@dataclass(frozen=True)
class RiskMeasure:
    """One measure with its interval; `ideal` is its value for calibrated predictions, where it has one."""

    name: str
    value: float
    low: float | None
    high: float | None
    ideal: float | None = None

    @property
    def title(self) -> str:
        """The name as people write it."""
        return TITLES[self.name]


@final
@dataclass(frozen=True, eq=False)
class FlexibleCurve:
    """Observed frequency against predicted risk, with a band: that of loess holds at all points at once, that of the
    restricted cubic spline at each."""

    risk: Array
    loess: Array
    loess_low: Array
    loess_high: Array
    spline: Array
    spline_low: Array
    spline_high: Array


def simple_measures(y: Array, p: Array, groups: Groups | None, level: float) -> list[RiskMeasure]:
    """O:E, calibration intercept and slope, the C statistic, Brier score and scaled Brier score."""
    z, n, event = _quantile(level, groups), len(y), y.astype(np.float64)

    def se(influence: Array) -> float:
        each = per_unit(influence, groups)
        return float(np.sqrt(np.square(each).sum() * len(each) / max(1, len(each) - 1)))

    def add(name: str, value: Any, half: Any, ideal: float | None = None) -> None:
        found.append(RiskMeasure(name, float(value), float(value - half), float(value + half), ideal))

    ratio = float(event.sum() / p.sum())
    spread = float(np.exp(z * se(event / event.sum() - p / p.sum())))
    found = [RiskMeasure("oe_ratio", ratio, ratio / spread, ratio * spread, 1.0)]
    one, odds = np.ones(n), _odds(p)
    beta, covariance = _regression(one[:, None], odds, event, groups)
    add("intercept", beta[0], z * np.sqrt(covariance[0, 0]), 0.0)
    beta, covariance = _regression(np.column_stack([one, odds]), 0 * odds, event, groups)
    if odds[y].min() >= odds[~y].max() or odds[y].max() <= odds[~y].min():
        found.append(RiskMeasure("slope", float("inf"), None, None, 1.0))  # separated: no finite slope
    else:
        add("slope", beta[1], z * np.sqrt(covariance[1, 1]), 1.0)
    order = np.argsort(-p, kind="stable")
    block = np.cumsum(np.append(True, np.diff(p[order]) != 0)) - 1
    c, influence = _auroc(1 - event[order], one, block)
    clusters = None if groups is None else (groups[0][order], groups[1])
    found.append(RiskMeasure("c_statistic", c, *_interval(c, influence, clusters, z)))
    loss = mean_interval(loss_values(y, p, None, lambda u: squares(u) / 2), None, groups, level)
    found.append(RiskMeasure("brier", loss.estimate, loss.low, loss.high))
    rate = event.mean()
    base, row = rate * (1 - rate), np.square(p - event)
    half = z * se((row - loss.estimate) / base - loss.estimate / base**2 * (np.square(event - rate) - base)) / n
    scaled = 1 - loss.estimate / base
    found.append(RiskMeasure("scaled_brier", scaled, scaled - half, min(1.0, scaled + half)))
    return found


def _odds(p: Array) -> Array:
    clipped = np.clip(p, CLIP, 1 - CLIP)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def _quantile(level: float, groups: Groups | None) -> float:
    """The normal quantile, or the t quantile of few clusters."""
    return pointwise(level) if groups is None else float(stdtrit(groups[1] - 1, (1 + level) / 2))


def _regression(columns: Array, offset: Array, event: Array, groups: Groups | None) -> tuple[Array, Array]:
    """Coefficients of a logistic regression and their covariance; the second is that of the log-odds."""
    start = np.zeros(columns.shape[1])
    start[1:2] = 1.0
    beta, information = logistic_fit(columns, offset, np.ones(len(event)), event, start)
    inverse = np.linalg.pinv(information)
    if groups is None:
        return beta, inverse
    residual = event - expit(offset + columns @ beta)
    scores = np.column_stack([per_unit(column * residual, groups) for column in columns.T])
    return beta, inverse @ (scores.T @ scores) @ inverse * groups[1] / (groups[1] - 1)


def flexible(
    y: Array, p: Array, groups: Groups | None, level: float, seed: int
) -> tuple[FlexibleCurve, list[RiskMeasure]]:
    """The flexible curves, and ICI, E50, E90 and Emax."""
    event, one = y.astype(np.float64), np.ones(len(y))
    values, mass, positive = sums_by_value(p, one, event)
    ranks = np.linspace(0, len(values) - 1, POINTS // 2).round().astype(int)  # some by rank, some evenly apart
    apart = np.searchsorted(values, np.linspace(values[0], values[-1], POINTS // 2))
    points = values[np.unique(np.append(ranks, apart).clip(0, len(values) - 1))]
    coefficients = np.zeros((len(points), len(values)))
    rows = local_rows(np.sort(p), values, mass, points, max(1, int(np.floor(len(p) * SPAN + 1e-5))))
    for j, (inside, row) in enumerate(rows):
        coefficients[j, inside] = row
    fit = coefficients @ (positive / mass)
    smooth = np.clip(np.interp(values, points, fit), 0.0, 1.0)
    if groups is None:  # binomial variances, or sums of residuals of each cluster
        covariance = (coefficients * (smooth * (1 - smooth) / mass)) @ coefficients.T
    else:
        place = np.searchsorted(values, p)
        residual = (event - smooth[place]) / mass[place]
        sums = np.array([per_unit(row[place] * residual, groups) for row in coefficients])
        covariance = sums @ sums.T * groups[1] / (groups[1] - 1)
    noise = covariance + 1e-10 * max(float(np.diag(covariance).max()), 1e-30) * np.eye(len(points))
    draws = np.linalg.cholesky(noise) @ np.random.default_rng(seed).standard_normal((len(points), _DRAWS))
    sd = np.sqrt(np.diag(noise))
    wide = critical(np.abs(draws / sd[:, None]).max(axis=0), level) * sd
    ends = (np.clip(fit - wide, 0, 1), np.clip(fit + wide, 0, 1))
    curve = FlexibleCurve(points, fit, *ends, *_spline(p, event, points, groups, level))
    weight = np.bincount(np.searchsorted((points[1:] + points[:-1]) / 2, values), mass, len(points)) / len(p)
    off = (fit - points)[:, None]
    sizes = np.maximum(np.abs(off) + np.sign(off) * draws, 0.0)  # of the deviations, with the error of the curve
    least = np.where(np.abs(off) > wide[:, None], sizes, 0.0)
    gap, tail = curve_gaps(p, event, one, SPAN), (1 - level) / 2
    found = []
    for name, share in (("ici", None), ("e50", 0.5), ("e90", 0.9), ("emax", 1.0)):
        value = float(gap.mean() if share is None else np.quantile(gap, share))
        low = float(np.quantile(_summary(least, weight, share), tail))
        high = float(np.quantile(_summary(sizes, weight, share), 1 - tail))
        found.append(RiskMeasure(name, value, min(value, low), max(value, high), 0.0))
    return curve, found


def _summary(sizes: Array, weight: Array, quantile: float | None) -> Array:
    """The weighted mean of each column, or a quantile."""
    if quantile is None:
        return np.asarray(weight @ sizes)
    order = np.argsort(sizes, axis=0)
    share = np.cumsum(weight[order], axis=0)
    place = np.minimum((share < quantile * (1 - 1e-12)).sum(axis=0), len(sizes) - 1)
    return np.asarray(np.take_along_axis(sizes, np.take_along_axis(order, place[None], 0), 0)[0])


def _spline(p: Array, event: Array, points: Array, groups: Groups | None, level: float) -> tuple[Array, Array, Array]:
    """Logistic regression on a restricted cubic spline of the log-odds, with its band at each point."""
    odds = _odds(p)
    knots = np.unique(np.quantile(odds, KNOTS))
    beta, covariance = _regression(_spline_columns(odds, knots), 0 * odds, event, groups)
    here = _spline_columns(_odds(points), knots)
    half = _quantile(level, groups) * np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", here, covariance, here), 0.0))
    eta = here @ beta
    return expit(eta), expit(eta - half), expit(eta + half)


def _spline_columns(x: Array, knots: Array) -> Array:
    """1, x and a cubic term per inner knot, linear beyond the outer ones (Harrell); a line where knots are few."""
    columns = [np.ones_like(x), x]
    if len(knots) >= 3:
        last, before, width = knots[-1], knots[-2], knots[-1] - knots[0]

        def cube(knot: float) -> Array:
            return np.asarray(np.maximum((x - knot) / width, 0.0) ** 3)

        for knot in knots[:-2]:
            ends = cube(before) * (last - knot) - cube(last) * (before - knot)
            columns.append(cube(knot) - ends / (last - before))
    return np.column_stack(columns)
