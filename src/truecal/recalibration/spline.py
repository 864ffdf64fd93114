"""Spline scaling: a natural cubic spline of the log-odds of each class, with a prior that favours the identity."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression

from truecal.core.parameters import described
from truecal.recalibration.base import Float64s
from truecal.recalibration.one_vs_rest import OneVsRest, sigmoid

PENALTIES = np.logspace(-4, 4, 17)
PRIOR_WEIGHT = 20.0  # samples on the identity count as much as so many rows
_TAIL = 10 ** np.linspace(-8, -2, 19)[:-1]
PRIOR = np.concatenate([_TAIL, np.linspace(0.01, 0.99, 99), 1 - _TAIL[::-1]])
PRIOR_SHARES = np.concatenate([np.full(18, 1 / 18), np.ones(99), np.full(18, 1 / 18)]) / 101
MOST_KNOTS, SEED = 30, 42


@described(monotone="Whether a spline that falls somewhere is made flat there.")
@dataclass(eq=False, repr=False, kw_only=True)
class SplineScaling(OneVsRest):
    """A natural cubic spline of the log-odds, for each class against the rest, then rows divided by their sums.

    Lucena, Spline-based probability calibration, 2018, with the knots, the prior on the identity (20 rows) and the
    penalties of his package; the penalty of least cross-entropy on a fifth of the rows is chosen, then all rows are
    fitted. Where the spline falls, isotonic regression of its values makes it flat, which brings it closer to every
    increasing map; `monotone=False` leaves it as it is. A class without validation samples keeps its probability.

    Attributes: `maps_`, a Curve or an IsotonicRegression per class, one for two classes; `classes_`.

    >>> import truecal as tc
    >>> p = [0.1, 0.2, 0.4, 0.6, 0.8, 0.9]
    >>> scaling = tc.recalibration.SplineScaling.from_probabilities().fit(p, [0, 0, 1, 0, 1, 1])
    >>> scaling.predict_proba([0.3]).shape
    (1, 2)
    """

    monotone: bool = True

    def _fit_one(self, scores: Float64s, outcome: NDArray[np.bool_], weight: Float64s, unit: float) -> Any:
        least = float(sigmoid(scores.min(keepdims=True))[0])
        least = max(min(2.0 ** (np.round(np.log2(min(least, PRIOR[0]))) - 1), 1e-4), 1e-16)
        far = float(-logit(least))
        s, place = np.clip(scores, -far, far), logit(np.clip(PRIOR, least, 1 - least))
        knots = np.unique(np.append(_knots(scores), logit(np.linspace(0.1, 0.9, 9))).clip(-far, far))
        X = basis(np.append(s, place), knots)
        y = np.append(outcome.astype(np.float64), PRIOR)
        w = np.append(np.minimum(weight * unit, 1e100), PRIOR_WEIGHT * PRIOR_SHARES)
        unseen = np.append(_fold(outcome), np.zeros(len(PRIOR), np.bool_))
        beta, losses = np.zeros(len(knots)), []
        beta[1] = 1.0
        for penalty in PENALTIES[::-1]:  # from the smoothest on, each starts at the one before
            beta = fit(X[~unseen], y[~unseen], w[~unseen], penalty, beta)
            t = X[unseen] @ beta
            loss = np.logaddexp(0, t) - y[unseen] * t
            losses.append(float(np.average(loss, weights=w[unseen])) if unseen.any() else 0.0)
        penalty = float(PENALTIES[::-1][np.argmin(np.round(losses, 4))])  # of equal losses the smoothest
        curve = Curve(knots, fit(X, y, w, penalty, beta), far, penalty)
        values = curve.predict(scores)
        if not self.monotone or (np.diff(values[np.argsort(scores)]) >= 0).all():
            return curve
        return IsotonicRegression(out_of_bounds="clip").fit(scores, values, weight)

    def _apply(self, fitted: Curve | IsotonicRegression, scores: Float64s) -> Float64s:
        return sigmoid(fitted.predict(scores))


@dataclass(frozen=True, eq=False)
class Curve:
    """A natural cubic spline of log-odds, which are read within ±far."""

    knots: Float64s
    coef: Float64s
    far: float
    penalty: float

    def predict(self, scores: Float64s) -> Float64s:
        """Log-odds after the curve."""
        return np.asarray(basis(np.clip(scores, -self.far, self.far), self.knots) @ self.coef)


def _knots(scores: Float64s) -> Float64s:
    """Both ends and at most 28 other scores, drawn as the package of the method draws them."""
    found = np.unique(scores)
    if len(found) <= MOST_KNOTS:
        return found
    others: list[float] = found[1:-1].tolist()
    random.Random(SEED).shuffle(others)
    return np.array([found[0], found[-1], *others[: MOST_KNOTS - 2]])


def _fold(outcome: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A fifth of the rows of each outcome, drawn as the package of the method draws them."""
    unseen = np.zeros(len(outcome), np.bool_)
    for label in (0, 1):
        rows = np.flatnonzero(outcome == label)
        np.random.RandomState(SEED).shuffle(rows)
        fifth = len(rows) / 5
        unseen[rows[: int(np.round(fifth))] if label == 0 else rows[int(np.round(fifth * 4)) :]] = True
    return unseen


def basis(x: Float64s, knots: Float64s) -> Float64s:
    """1, x and the natural cubic functions of the knots (Hastie, Tibshirani and Friedman, equation 5.4)."""
    cubes = np.maximum(x[:, None] - knots, 0.0) ** 3
    d = (cubes[:, :-1] - cubes[:, -1:]) / (knots[-1] - knots[:-1])
    return np.column_stack([np.ones_like(x), x, d[:, :-1] - d[:, -1:]])


def fit(X: Float64s, y: Float64s, w: Float64s, penalty: float, start: Float64s) -> Float64s:
    """The b of least Σ w (log(1 + exp X b) − y X b) / n + penalty |b|² / len(b), by Newton's method from a start."""
    ridge = 2 * penalty / len(start)
    n = float(w.sum()) + len(PRIOR) - PRIOR_WEIGHT  # each sample on the identity counts as one here

    def value(b: Float64s) -> float:
        t = X @ b
        return float(w @ (np.logaddexp(0, t) - y * t) / n + ridge / 2 * (b @ b))

    b, here = start, value(start)
    for _ in range(100):
        p = expit(X @ b)
        slope = (w * (p - y)) @ X / n + ridge * b
        hessian = (X.T * (w * p * (1 - p) / n)) @ X
        hessian[np.diag_indices(len(b))] += ridge
        size = np.sqrt(hessian.diagonal())
        step = cho_solve(cho_factor(hessian / np.outer(size, size)), slope / size) / size
        if (slope @ step) < 1e-14:
            return np.asarray(b - step)
        share = 1.0
        while (there := value(b - share * step)) > here - 1e-4 * share * (slope @ step) and share > 1e-8:
            share /= 2
        b, here = b - share * step, there
    return b
