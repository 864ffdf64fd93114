"""Measures of clinical statistics: Hosmer-Lemeshow, Spiegelhalter, Cox, the index of smooth curves, and CORP."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..core.data import shown
from ..core.losses import weighted_mean
from ..core.properties import Binary
from ..core.sample import Sample
from ..core.types import Array
from ..sums.tabulate import whole_tables
from .baseline import Baseline, check_flag, of_each_view, sums_by_value
from .of_bins import one_rule

CLIP = 1e-12
"""Probabilities 0 and 1 have no log-odds: Cox's regression takes them as this far from the end."""
MOST_CURVE_POINTS = 512
"""The smooth curve is fitted at every distinct prediction up to this many, else at that many quantiles of them."""
_NEWTON_STEPS = 100


def hosmer_lemeshow(sample: Sample, *, n_bins: Any) -> float:
    """Σ_g (O_g − E_g)² / (E_g (1 − E_g/n_g)) over groups of equal numbers of rows, equal predictions together."""
    table = whole_tables(sample, one_rule("quantile", n_bins), "together")[0]
    filled = table.count > 0
    n, expected, squares = table.count[filled], table.report[filled], table.residual[filled] ** 2
    variance = np.maximum(expected * (1 - expected / n), 0.0)
    return sum(map(_ratio, squares.tolist(), variance.tolist())) / sample.views


def _ratio(square: float, variance: float) -> float:
    """square/variance; where predictions allow no variance, 0 if nothing was off and infinite otherwise."""
    if variance > 0:
        return square / variance
    return math.inf if square > 0 else 0.0


@of_each_view
def spiegelhalter(u: Array, y: Array, w: Array, *, distance: Any) -> float:
    """Σ (y_i − u_i)(1 − 2u_i) / (Σ (1 − 2u_i)² u_i(1 − u_i))^½: its size, or with its sign."""
    score = float(((y - u) * (1 - 2 * u)).sum())
    z = math.copysign(math.sqrt(_ratio(score**2, float(((1 - 2 * u) ** 2 * u * (1 - u)).sum()))), score)
    return abs(z) if check_flag(distance, "distance") else z


@of_each_view
def cox_slope(u: Array, y: Array, w: Array, *, distance: Any) -> float:
    """b of the logistic regression of y on a + b·logit(u): |b − 1|, or b; infinite where there is no such b."""
    odds, mass, positive = _odds(u, y, w)
    came, not_came = odds[positive > 0], odds[mass - positive > 0]
    overlap = came.size and not_came.size and came.min() < not_came.max() and not_came.min() < came.max()
    slope = float(_on_odds(odds, mass, positive, with_slope=True)[1]) if overlap else math.inf
    return abs(slope - 1) if check_flag(distance, "distance") else slope


@of_each_view
def cox_intercept(u: Array, y: Array, w: Array, *, distance: Any) -> float:
    """a of the logistic regression of y on a + logit(u): |a|, or a; infinite where all outcomes are the same."""
    odds, mass, positive = _odds(u, y, w)
    if positive.sum() in (0.0, mass.sum()):
        intercept = math.inf if positive.any() else -math.inf
    else:
        intercept = float(_on_odds(odds, mass, positive, with_slope=False)[0])
    return abs(intercept) if check_flag(distance, "distance") else intercept


def _odds(u: Array, y: Array, w: Array) -> tuple[Array, ...]:
    """Distinct log-odds, their weight, and the weight of those whose outcome came."""
    clipped = np.clip(u, CLIP, 1 - CLIP)
    return sums_by_value(np.log(clipped) - np.log1p(-clipped), w, w * y)


def _on_odds(odds: Array, mass: Array, positive: Array, with_slope: bool) -> Array:
    """Intercept and slope of largest likelihood, from (0, 1), or the intercept beside a slope of 1."""
    columns = np.column_stack([np.ones_like(odds), odds])[:, : 1 + with_slope]
    offset = np.zeros_like(odds) if with_slope else odds
    return logistic_fit(columns, offset, mass, positive, np.array([0.0, 1.0])[: 1 + with_slope])[0]


def logistic_fit(columns: Array, offset: Array, mass: Array, positive: Array, beta: Array) -> tuple[Array, Array]:
    """Coefficients of largest likelihood and its information, by Newton's steps, halved where they lose."""

    def likelihood(beta: Array) -> float:
        eta = offset + columns @ beta
        return float(positive @ eta - mass @ np.logaddexp(0, eta))

    best = likelihood(beta)
    hessian = np.eye(len(beta))
    for _ in range(_NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(offset + columns @ beta, -700, 700)))
        hessian = (columns * (mass * chance * (1 - chance))[:, None]).T @ columns
        step = np.linalg.lstsq(hessian, columns.T @ (positive - mass * chance), rcond=None)[0]
        while (found := likelihood(beta + step)) < best and np.abs(step).max() > 1e-12:
            step = step / 2
        if np.abs(step).max() <= 1e-10 * (1 + np.abs(beta).max()) or found < best:
            break
        beta, best = beta + step, found
    return beta, hessian


@of_each_view
def curve_distance(u: Array, y: Array, w: Array, *, statistic: Any, span: Any) -> float:
    """The mean, or a quantile, of |f(u_i) − u_i|, f the local quadratic regression of outcomes on predictions."""
    gap = curve_gaps(u, y, w, _check_span(span))
    if statistic == "mean":
        return float(w @ gap / w.sum())
    if isinstance(statistic, bool) or not isinstance(statistic, (int, float)) or not 0 <= statistic <= 1:
        raise ValueError(f"statistic must be 'mean' or a quantile between 0 and 1, got {shown(statistic)}")
    return float(np.quantile(gap, statistic))


def curve_gaps(u: Array, y: Array, w: Array, span: float) -> Array:
    """|f(u_i) − u_i| of every row."""
    values, place = np.unique(u, return_inverse=True)
    return np.asarray(np.abs(local_quadratic(u, y, w, values, span) - values)[place])


def _check_span(span: Any) -> float:
    if isinstance(span, bool) or not isinstance(span, (int, float)) or not 0 < span <= 1:
        raise ValueError(f"span must be a share of the rows, above 0 and at most 1, got {shown(span)}")
    return float(span)


def local_quadratic(u: Array, y: Array, w: Array, at: Array, span: float) -> Array:
    """Loess of degree 2 at increasing points: at each, weighted least squares over the nearest share of the rows.

    Weights (1 − (d/h)³)³ of the distance d, h that of the last of the nearest rows. Past MOST_CURVE_POINTS points it is
    fitted at evenly spaced ones of them and interpolated between. Where fewer values than coefficients are near, the
    degree is what they determine.
    """
    fitted_at = at
    if len(at) > MOST_CURVE_POINTS:
        fitted_at = at[np.unique(np.linspace(0, len(at) - 1, MOST_CURVE_POINTS).round().astype(int))]
    near = max(1, math.floor(len(u) * span + 1e-5))
    ordered = np.sort(u)
    x, mass, positive = sums_by_value(u, w, w * y)
    rate = positive / mass
    fitted = [value @ rate[inside] for inside, value in local_rows(ordered, x, mass, fitted_at, near)]
    return np.interp(at, fitted_at, fitted)


def local_rows(ordered: Array, x: Array, mass: Array, at: Array, near: int) -> Iterator[tuple[Array, Array]]:
    """At each point, which distinct predictions count, and the coefficients of their outcome rates."""
    for point in at.tolist():
        distance, reach = np.abs(x - point), _reach(ordered, point, near)
        inside = (distance < reach) | (distance == 0)
        d = (x - point)[inside] / (reach or 1.0)
        cube = np.abs(d * d * d)
        root = np.sqrt(mass[inside] * (1 - cube) * (1 - cube) * (1 - cube))
        columns = np.column_stack((np.ones_like(d), d, d * d)[: min(3, len(d))]) * root[:, None]
        yield inside, np.linalg.pinv(columns, rcond=np.finfo(float).eps * len(d))[0] * root


def _reach(ordered: Array, point: float, near: int) -> float:
    """The distance of the near-th nearest row: the nearest ones are a run of the rows in order, found by halving."""
    low, high = 0, len(ordered) - near
    while low < high:
        middle = (low + high) // 2
        if point - ordered[middle] > ordered[middle + near] - point:
            low = middle + 1
        else:
            high = middle
    return float(max(point - ordered[low], ordered[low + near - 1] - point))


@of_each_view
def corp(u: Array, y: Array, w: Array) -> float:
    """The squared error less that of the isotonic regression of outcomes on predictions, averaged over classes."""
    from scipy.optimize import isotonic_regression

    values, mass, outcome = sums_by_value(u, w, w * y)
    fitted = isotonic_regression(outcome / mass, weights=mass).x[np.searchsorted(values, u)]
    return weighted_mean(np.square(u - y), w) - weighted_mean(np.square(fitted - y), w)


_CONSTANT = "predicting the base rate leaves the curve a single point, with less noise to follow"
_CURVE = (
    "f the local quadratic regression of outcomes on predictions (loess, degree 2, tricube weights over the nearest "
    "75% of rows, fitted at up to 512 predictions)"
)
_AUSTIN = "Austin, Steyerberg 2019, doi 10.1002/sim.8281"

CLASSICAL = (
    Baseline(
        "hosmer_lemeshow",
        "Hosmer-Lemeshow statistic",
        Binary(),
        definition=(
            "Σ_g (O_g − E_g)² / (E_g(1 − E_g/n_g)) over ten groups of equal numbers of rows, O the number of events "
            "and E the sum of predictions; infinite where certain predictions fail"
        ),
        reference="Hosmer, Lemeshow 1980, doi 10.1080/03610928008827941",
        truthful=False,
        reason="each group is divided by the variance that the predictions imply: a larger one lowers it",
        compute=hosmer_lemeshow,
        settings=(("n_bins", 10),),
        weighted=False,
    ),
    Baseline(
        "spiegelhalter",
        "Spiegelhalter's |z|",
        Binary(),
        definition="|Σ (y_i − u_i)(1 − 2u_i)| / (Σ (1 − 2u_i)² u_i(1 − u_i))^½; `distance=False` gives z itself",
        reference="Spiegelhalter 1986, doi 10.1002/sim.4780050506",
        truthful=False,
        reason="predictions of ½ have weight 0, so predicting ½ throughout scores 0",
        compute=spiegelhalter,
        settings=(("distance", True),),
        weighted=False,
    ),
    Baseline(
        "cox_slope",
        "Cox calibration slope, |b − 1|",
        Binary(),
        definition=(
            "|b − 1| of the logistic regression of outcomes on a + b·logit(prediction), largest likelihood; infinite "
            "where that has no finite b (outcomes separated, or all the same); `distance=False` gives b"
        ),
        reference="Cox 1958, doi 10.1093/biomet/45.3-4.562",
        truthful=False,
        reason="a ratio of noisy sums: sharp true predictions separate the outcomes and have no slope, blurred ones do",
        compute=cox_slope,
        settings=(("distance", True),),
    ),
    Baseline(
        "cox_intercept",
        "Calibration in the large, |a|",
        Binary(),
        definition=(
            "|a| of the logistic regression of outcomes on a + logit(prediction); infinite where all outcomes are the "
            "same; `distance=False` gives a"
        ),
        reference="Cox 1958, doi 10.1093/biomet/45.3-4.562",
        truthful=False,
        reason="only the mean matters: predicting the base rate has the smallest intercept",
        compute=cox_intercept,
        settings=(("distance", True),),
    ),
    Baseline(
        "ici",
        "Integrated calibration index",
        Binary(),
        definition=f"the mean of |f(u_i) − u_i|, {_CURVE}",
        reference=_AUSTIN,
        truthful=False,
        reason=_CONSTANT,
        compute=curve_distance,
        settings=(("statistic", "mean"), ("span", 0.75)),
    ),
    Baseline(
        "e50",
        "E50",
        Binary(),
        definition=f"the median of |f(u_i) − u_i|, {_CURVE}",
        reference=_AUSTIN,
        truthful=False,
        reason=_CONSTANT,
        compute=curve_distance,
        settings=(("statistic", 0.5), ("span", 0.75)),
        weighted=False,
    ),
    Baseline(
        "e90",
        "E90",
        Binary(),
        definition=f"the 90% quantile of |f(u_i) − u_i|, {_CURVE}",
        reference=_AUSTIN,
        truthful=False,
        reason=_CONSTANT,
        compute=curve_distance,
        settings=(("statistic", 0.9), ("span", 0.75)),
        weighted=False,
    ),
    Baseline(
        "corp",
        "CORP miscalibration",
        Binary(),
        definition=("the mean squared error less that of the isotonic regression of outcomes on predictions"),
        reference="Dimitriadis, Gneiting, Jordan 2021, arXiv 2008.03033",
        truthful=False,
        reason="the isotonic map is fitted to the same labels: pooled predictions leave it less noise to fit",
        compute=corp,
    ),
)
