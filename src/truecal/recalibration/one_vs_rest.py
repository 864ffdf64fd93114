"""Maps of one number to one number, fitted for each class against the rest: Platt, beta and Venn-Abers scaling."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from truecal.core.parameters import described
from truecal.recalibration.base import (
    Float64s,
    Logits,
    ProbabilityMap,
    ValidationData,
    check_number,
    normalise,
    probabilities_of,
)

HEAVIEST = 1e100  # the weight of a new sample beside which no other counts
FARTHEST = 745.0  # log-odds beyond it, where exp underflows, are read as it
SEPARABLE = (
    "found no best map: a class can be told apart from the rest without error, and larger coefficients fit ever "
    "better; PlattScaling and VennAbers have an optimum on such data"
)


def log_odds(logits: Logits) -> Float64s:
    """log p_r / (1 − p_r) of each class r; of two classes z_1 − z_0 and its negative."""
    z = logits.values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        if z.shape[1] == 2:
            difference = z[:, 1] - z[:, 0]
            found = np.column_stack([-difference, difference])
        else:
            shifted = z - logits.top[:, None]
            e = np.exp(shifted)
            top, rows = np.argmax(shifted, axis=1), np.arange(len(z))
            rest = e.sum(axis=1, keepdims=True) - e
            others = e.copy()
            others[rows, top] = 0
            rest[rows, top] = others.sum(axis=1)  # next to 1 the difference would have lost its digits
            found = shifted - np.log(rest)
    return np.asarray(np.clip(found, -FARTHEST, FARTHEST))


class OneVsRest(ProbabilityMap):
    """Abstract: a map of the log-odds of each class, then rows divided by their sums; of two classes one map."""

    @abstractmethod
    def _fit_one(self, scores: Float64s, outcome: NDArray[np.bool_], weight: Float64s, unit: float) -> Any:
        """Fit the map of one class; `_apply` takes the result."""

    @abstractmethod
    def _apply(self, fitted: Any, scores: Float64s) -> Float64s:
        """Return the probabilities of the class after its map."""

    def _fit(self, data: ValidationData) -> None:
        scores = log_odds(data.logits)
        present = np.bincount(data.y, minlength=scores.shape[1]) > 0
        columns = [1] if scores.shape[1] == 2 else range(scores.shape[1])
        self.maps_: list[Any] = [
            self._fit_one(scores[:, r], data.y == r, data.weight, data.unit)
            if present[r] and present[np.arange(len(present)) != r].any()
            else None
            for r in columns
        ]

    def _columns(self, logits: Logits, apply: Callable[[Any, Float64s], Float64s]) -> tuple[list[Float64s], Float64s]:
        """Per map its result, or the probability of a class without a map; and all probabilities before the maps."""
        scores, p = log_odds(logits), probabilities_of(logits)
        each = enumerate(self.maps_, start=len(self.maps_) == 1)  # one map is that of class 1 of two
        return [p[:, r] if f is None else apply(f, scores[:, r]) for r, f in each], p

    def _probabilities(self, logits: Logits) -> Float64s:
        columns, p = self._columns(logits, self._apply)
        if len(columns) == 1:
            return np.column_stack([1 - columns[0], columns[0]])
        return normalise(np.column_stack(columns), p)


def sigmoid(x: Float64s) -> Float64s:
    """1 / (1 + exp −x), without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x > 0, 1, small) / (1 + small))


def logistic(
    features: Float64s, target: Float64s, share: Float64s, least: float | None = None, start: Any = 1.0
) -> Float64s:
    """The coefficients, and last the intercept, of least cross-entropy Σ share (log(1 + exp x) − target x).

    No coefficient is below `least`; the search starts at the coefficients `start` and the intercept 0.
    """
    size = np.maximum(np.sqrt(share @ np.square(features)), 1e-12)  # scaled, not centred: bounds keep their meaning
    design = np.column_stack([features / size, np.ones(len(features))])

    def value_and_slope(theta: Float64s) -> tuple[float, Float64s]:
        x = design @ theta
        value = share @ (np.log1p(np.exp(-np.abs(x))) + ((x > 0) - target) * x)
        return float(value), np.asarray((share * (sigmoid(x) - target)) @ design)

    origin = np.append(np.asarray(start) * size, 0.0)
    bounds = [(least, None)] * len(size) + [(None, None)]
    options: Any = {"maxiter": 2000, "maxfun": 8000, "ftol": 0.0, "gtol": 1e-10, "maxcor": 20}
    found: Any = minimize(value_and_slope, origin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(np.append(found.x[:-1] / size, found.x[-1]))


@described(smoothing="How many samples each target adds, 1 in Platt's method.")
@dataclass(eq=False, repr=False, kw_only=True)
class PlattScaling(OneVsRest):
    """A straight line through the log-odds, p = 1 / (1 + exp(−(a s + b))), for each class against the rest.

    Platt, Probabilistic outputs for support vector machines, 1999, with his targets (n₊ + 1) / (n₊ + 2) and
    1 / (n₋ + 2) in place of 1 and 0, so that an optimum always exists (`smoothing` 1; 0 has none of it). Of two classes
    the score s is the difference of the logits, or X itself where X has one dimension. A class without validation
    samples keeps its probability.

    Attributes: `maps_`, the (a, b) of each class, one for two classes; `classes_`.

    >>> import truecal as tc
    >>> scores = [-3.0, -1.0, -0.5, 0.5, 1.0, 3.0]
    >>> scaling = tc.PlattScaling().fit(scores, [0, 0, 1, 0, 1, 1])
    >>> scaling.predict_proba([2.0]).shape
    (1, 2)
    """

    smoothing: float = 1.0
    refuses_probabilities: ClassVar[bool] = False  # any score will do

    def _fit_one(self, scores: Float64s, outcome: NDArray[np.bool_], weight: Float64s, unit: float) -> Float64s:
        smoothing = check_number(self.smoothing, "smoothing", "a finite number of at least 0")
        with np.errstate(over="ignore", divide="ignore"):  # an infinite ratio leaves nothing to the prior
            prior = np.float64(smoothing) / unit
            away = [1 / (weight[side].sum() / prior + 2) if prior else 0.0 for side in (outcome, ~outcome)]
        target = np.where(outcome, 1 - away[0], away[1])
        return logistic(scores[:, None], target, weight / weight.sum())

    def _apply(self, fitted: Float64s, scores: Float64s) -> Float64s:
        return sigmoid(fitted[0] * scores + fitted[1])


@described()
class BetaScaling(OneVsRest):
    """p' = 1 / (1 + exp(−(a log p − b log(1 − p) + c))) with a, b ≥ 0, for each class against the rest.

    Kull, Silva Filho and Flach, Beta calibration, AISTATS 2017: it contains the identity (a = b = 1, c = 0) and, unlike
    PlattScaling, bends the two ends apart. Where a class can be told apart without error there is no best map, which a
    ConvergenceWarning reports. A class without validation samples keeps its probability.

    Attributes: `maps_`, the (a, b, c) of each class, one for two classes; `classes_`.

    >>> import truecal as tc
    >>> p = [0.1, 0.2, 0.4, 0.6, 0.8, 0.9]
    >>> scaling = tc.BetaScaling.from_probabilities().fit(p, [0, 0, 1, 0, 1, 1])
    >>> scaling.predict_proba([0.3]).shape
    (1, 2)
    """

    def _fit_one(self, scores: Float64s, outcome: NDArray[np.bool_], weight: Float64s, unit: float) -> Float64s:
        if scores[~outcome].max() < scores[outcome].min():
            warnings.warn(f"{type(self).__name__} {SEPARABLE}", ConvergenceWarning, stacklevel=5)
        return logistic(_beta_features(scores), outcome.astype(np.float64), weight / weight.sum(), least=0.0)

    def _apply(self, fitted: Float64s, scores: Float64s) -> Float64s:
        return sigmoid(_beta_features(scores) @ fitted[:2] + fitted[2])


def _beta_features(scores: Float64s) -> Float64s:
    """log p and −log(1 − p) of log-odds."""
    return np.column_stack([-np.logaddexp(0, -scores), np.logaddexp(0, scores)])


@described()
class QuadraticScaling(OneVsRest):
    """A parabola of the log-odds, p = 1 / (1 + exp(−(a s + b s² + c))), for each class against the rest.

    Berta, Holzmüller, Jordan and Bach, Structured matrix scaling for multi-class calibration, AISTATS 2026: right where
    the scores of each class are normal with a spread that differs. Where the fit turns around, its order does too.
    Where a class can be told apart without error there is no best map, which a ConvergenceWarning reports. A class
    without validation samples keeps its probability.

    Attributes: `maps_`, the (a, b, c) of each class, one for two classes; `classes_`.

    >>> import truecal as tc
    >>> scores = [-3.0, -1.0, -0.5, 0.5, 1.0, 3.0]
    >>> tc.recalibration.QuadraticScaling().fit(scores, [0, 0, 1, 0, 1, 1]).predict_proba([2.0]).shape
    (1, 2)
    """

    def _fit_one(self, scores: Float64s, outcome: NDArray[np.bool_], weight: Float64s, unit: float) -> Float64s:
        features = np.column_stack([scores, np.square(scores)])
        found = logistic(features, outcome.astype(np.float64), weight / weight.sum(), start=[1.0, 0.0])
        if (((features @ found[:2] + found[2]) > 0) == outcome).all():
            warnings.warn(f"{type(self).__name__} {SEPARABLE}", ConvergenceWarning, stacklevel=5)
        return found

    def _apply(self, fitted: Float64s, scores: Float64s) -> Float64s:
        return sigmoid(fitted[0] * scores + fitted[1] * np.square(scores) + fitted[2])


@described()
class VennAbers(OneVsRest):
    """Isotonic regression twice, once with the new sample as 0 and once as 1: p₁ / (1 − p₀ + p₁).

    Vovk and Petej, Venn-Abers predictors, UAI 2014 (the inductive form; the two fits for all scores take one pass, as
    in Vovk, Petej and Fedorova, NeurIPS 2015). Of p₀ and p₁ one is calibrated, whatever the scores are, so that
    `intervals` shows how much the validation data leave open. For each class against the rest, then rows divided by
    their sums. A class without validation samples keeps its probability.

    Attributes: `maps_`, for each class its scores with p₀ and p₁ at each, one for two classes; `classes_`.

    >>> import truecal as tc
    >>> scores = [-3.0, -1.0, -0.5, 0.5, 1.0, 3.0]
    >>> scaling = tc.VennAbers().fit(scores, [0, 0, 1, 0, 1, 1])
    >>> scaling.intervals([2.0]).tolist()[0][1]
    [0.5, 1.0]
    """

    refuses_probabilities = False  # the order alone counts

    def intervals(self, X: Any) -> Float64s:
        """(n, k, 2): p₀ and p₁ of each class; the k probabilities come from these."""
        check_is_fitted(self)
        found, _ = self._columns(self._read(X, reset=False), _both)
        pairs = [np.column_stack([q, q]) if q.ndim == 1 else q for q in found]
        return np.stack(pairs if len(pairs) > 1 else [1 - pairs[0][:, ::-1], pairs[0]], axis=1)

    def _fit_one(self, scores: Float64s, outcome: NDArray[np.bool_], weight: Float64s, unit: float) -> Any:
        found, place = np.unique(scores, return_inverse=True)
        mass = np.bincount(place, weights=weight).astype(np.float64)
        total = np.bincount(place, weights=weight * outcome).astype(np.float64)
        with np.errstate(over="ignore"):
            one = min(float(np.float64(1) / unit), HEAVIEST)
        return found, added(mass, total, 0.0, one), added(mass, total, 1.0, one)

    def _apply(self, fitted: Any, scores: Float64s) -> Float64s:
        low, high = np.clip(_both(fitted, scores), 0.0, 1.0).T
        high = np.maximum(low, high)  # but for rounding
        return np.asarray(high / (1 - low + high))


def _both(fitted: Any, scores: Float64s) -> Float64s:
    """p₀ and p₁: a new score counts as the next known one below, if its label is 0, or above, if it is 1."""
    known, low, high = fitted
    below = np.searchsorted(known, scores, side="right")
    above = np.searchsorted(known, scores, side="left")
    return np.column_stack([np.append(0.0, low)[below], np.append(high, 1.0)[above]])


def added(mass: Float64s, total: Float64s, label: float, one: float = 1.0) -> Float64s:
    """For each place the value there of isotonic regression with one more sample of this label at that place, of
    weight `one`.

    The regression is the slopes of the greatest convex minorant of the cumulative sums. The new sample moves all points
    from its place on by (1, label), so that its value is the slope of the bridge between the hull of the points before
    and the hull of those from there on: from each end the bridge walks along the hulls until it touches both.
    """
    x, y = np.append(0.0, np.cumsum(mass)), np.append(0.0, np.cumsum(total))
    before, after = _hull(x, y), len(x) - 1 - _hull(-x[::-1], y[::-1])[::-1]
    left, right = np.arange(len(mass)), np.arange(1, len(mass) + 1)

    def slope(a: NDArray[Any], b: NDArray[Any]) -> Float64s:
        return np.asarray((y[b] - y[a] + one * label) / (x[b] - x[a] + one))  # in this order: `one` may be tiny

    moving = np.ones(len(mass), dtype=np.bool_)
    while moving.any():
        a, b = left[moving], right[moving]
        further = after[b]
        on = (further != b) & (slope(a, further) <= slope(a, b))
        b = np.where(on, further, b)
        back = before[a]
        off = (back != a) & (slope(back, b) >= slope(a, b))
        left[moving], right[moving] = np.where(off, back, a), b
        moving[np.flatnonzero(moving)[~(on | off)]] = False
    return slope(left, right)


def _hull(x: Float64s, y: Float64s) -> NDArray[np.intp]:
    """For each point the one before it on the lower hull of the points up to it; the first has itself."""
    before = np.zeros(len(x), dtype=np.intp)
    hull: list[int] = [0]
    xs, ys = x.tolist(), y.tolist()
    for j in range(1, len(xs)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (ys[b] - ys[a]) * (xs[j] - xs[b]) < (ys[j] - ys[b]) * (xs[b] - xs[a]):
                break
            hull.pop()
        before[j] = hull[-1]
        hull.append(j)
    return before
