"""Affine maps of logits: one scale per class, a full matrix, or a full matrix on log-probabilities."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg
from sklearn.exceptions import ConvergenceWarning

from truecal.core.data import check_positive_int
from truecal.core.parameters import described
from truecal.recalibration.base import (
    Codes,
    Float64s,
    Floats,
    Logits,
    ScoreMap,
    ValidationData,
    check_number,
    softmax_of,
)
from truecal.recalibration.temperature import LARGEST, SEPARABLE, best_temperature

STEEPEST = 1e100  # the steepest centre: a step function already, and its square is still a number
STRONGEST = 1e100  # the strongest penalty: the centre to the last digit, and its products are still numbers
FLAT = 0.1  # how far the last Newton step may move a score; 1 where the optimum is not attained, 0 where it is
_PULL = "The pull towards temperature scaling, by the objective of AffineMap."
Change = Callable[[Float64s], Float64s]
CONVERGED = 1e-8  # nats: what the last Newton step may promise


@dataclass(eq=False, repr=False, kw_only=True)
class AffineMap(ScoreMap):
    """Abstract: softmax(W x + c), W and c by penalised cross-entropy, pulled towards temperature scaling.

    The objective is sum_i w_i CE_i + (l2 / 2) (s² |W - I/T|² + |W m + c - m/T|²), T the fitted temperature, m the mean
    of x and s its root mean square distance from m: convex, with one minimum, in which a class that no validation
    sample has keeps a positive probability. l2 -> infinity is temperature scaling.
    """

    l2: float = 1.0
    max_iter: int = 1000
    diagonal: ClassVar[bool] = False

    def _features(self, logits: Logits) -> Float64s:
        """The finite x of softmax(W x + c)."""
        if logits.excluded:
            row = int(logits.rows[np.argmax(np.isneginf(logits.bottom))])
            raise ValueError(
                f"row {row} has a logit of -inf: {type(self).__name__} multiplies logits and needs finite ones; "
                "use TemperatureScaling, or from_probabilities, whose floor makes them finite"
            )
        return logits.values.astype(np.float64)

    def _fit(self, data: ValidationData) -> None:
        l2 = check_number(self.l2, "l2", "a finite number of at least 0")
        max_iter = check_positive_int(self.max_iter, "max_iter")
        x, weight = self._features(data.logits), data.weight
        temperature, no_optimum = best_temperature(data)
        inverse = 1 / temperature
        exponent = int(np.frexp(np.abs(x).max())[1])
        x = np.ldexp(x, -exponent)  # below 1: squares and differences of the largest floats would overflow
        with np.errstate(over="ignore"):
            inverse = min(float(np.ldexp(inverse, exponent)), STEEPEST)
        share = weight / weight.sum()
        middle = share @ x
        x -= middle  # centred and scaled, the problem is as well conditioned as the data allow
        size = float(np.sqrt(share @ np.mean(x * x, axis=1))) or 1.0
        x /= size
        k = x.shape[1]
        level = (middle - middle.mean()) * inverse
        identity = np.ones(k) if self.diagonal else np.eye(k)
        penalty = min(l2 / data.unit / float(weight.sum()), STRONGEST)
        centre = np.concatenate([identity.ravel() * (inverse * size), level])
        objective = Objective(x, data.y, share, identity.shape, centre, penalty)
        theta, self.n_iter_, trouble = objective.minimise(max_iter)
        if trouble is None and no_optimum == SEPARABLE:  # an infinite temperature is a centre like any other
            trouble = f"is pulled towards a temperature that is not optimal: {SEPARABLE}"
        if trouble:
            warnings.warn(f"{type(self).__name__} {trouble}", ConvergenceWarning, stacklevel=3)
        coef, intercept = objective.split(theta)
        coef = coef / size
        self.coef_: Float64s = np.ldexp(coef, -exponent)
        self.intercept_: Float64s = intercept - scale(middle[None], coef)[0]

    def _logits(self, logits: Logits) -> Floats:
        x = self._features(logits)
        with np.errstate(over="ignore", invalid="ignore"):
            scores = scale(x, self.coef_) + self.intercept_
        far = ~np.isfinite(scores).all(axis=1)
        if far.any():
            scores[far] = self._far(x[far])
        return scores

    def _far(self, x: Float64s) -> Float64s:
        """W x + c where that overflows: less the row maximum, which changes no probability; -inf is out of reach."""
        peak = np.abs(x).max(axis=1, keepdims=True)
        scores = scale(x / peak, self.coef_) + self.intercept_ / peak
        with np.errstate(over="ignore"):
            return np.asarray((scores - scores.max(axis=1, keepdims=True)) * peak)


def scale(x: Float64s, coef: Float64s) -> Float64s:
    """W x in each row, for a W given in full or by its diagonal."""
    return np.asarray(x * coef if coef.ndim == 1 else x @ coef.T)


@dataclass(frozen=True)
class Objective:
    """Penalised mean cross-entropy of an affine map, with its gradient and the products of its Hessian.

    Its argument theta holds the entries of W, in full or its diagonal, and then c.
    """

    x: Float64s
    y: Codes
    share: Float64s  # weights that sum to 1
    shape: tuple[int, ...]  # of W, (k, k) or (k,)
    centre: Float64s  # the theta it is pulled towards
    penalty: float | Float64s  # one number, or one per entry of theta

    def split(self, theta: Float64s) -> tuple[Float64s, Float64s]:
        k = self.x.shape[1]
        return theta[:-k].reshape(self.shape), theta[-k:]

    def _scores(self, theta: Float64s) -> Float64s:
        coef, intercept = self.split(theta)
        return scale(self.x, coef) + intercept

    def _pull_back(self, slopes: Float64s) -> Float64s:
        by_coef = np.einsum("ij,ij->j", self.x, slopes) if len(self.shape) == 1 else slopes.T @ self.x
        return np.concatenate([by_coef.ravel(), slopes.sum(axis=0)])

    def value_and_slope(self, theta: Float64s) -> tuple[float, Float64s]:
        rows = np.arange(len(self.y))
        scores = self._scores(theta)
        scores -= scores.max(axis=1, keepdims=True)
        label = scores[rows, self.y]
        np.exp(scores, out=scores)
        sums = scores.sum(axis=1)
        off = theta - self.centre
        value = self.share @ (np.log(sums) - label) + off @ (self.penalty * off) / 2
        scores *= (self.share / sums)[:, None]
        scores[rows, self.y] -= self.share
        return float(value), self._pull_back(scores) + self.penalty * off

    def hessian(self, theta: Float64s) -> LinearOperator:
        p = softmax_of(self._scores(theta))

        def product(direction: Float64s) -> Float64s:
            slopes = self._scores(direction.ravel())
            slopes -= np.vecdot(p, slopes)[:, None]
            slopes *= p
            slopes *= self.share[:, None]
            return self._pull_back(slopes) + self.penalty * direction.ravel()

        return LinearOperator((len(theta), len(theta)), matvec=product, dtype=np.float64)

    def coordinates(self) -> tuple[Change, Change]:
        """How coordinates in which the Hessian of a full matrix is near the identity become thetas, and slopes them.

        The Hessian is about (variance of each class) x (second moments of the features), plus the penalty.
        """
        k = self.x.shape[1]
        if len(self.shape) == 1:
            return np.copy, np.copy
        x = np.column_stack([self.x, np.ones(len(self.x))])
        curvature, axes = np.linalg.eigh((x.T * self.share) @ x)
        often = np.bincount(self.y, self.share, k) * 0.9 + 0.1 / k
        size = 1 / np.sqrt(np.outer(often * (1 - often), np.maximum(curvature, 1e-12)) + np.mean(self.penalty))

        def to_theta(place: Float64s) -> Float64s:
            found = (place.reshape(k, k + 1) * size) @ axes.T
            return np.concatenate([found[:, :-1].ravel(), found[:, -1]])

        def to_slope(slope: Float64s) -> Float64s:
            return np.asarray((np.column_stack(self.split(slope)) @ axes * size).ravel())

        return to_theta, to_slope

    def minimise(self, max_iter: int) -> tuple[Float64s, int, str | None]:
        """L-BFGS as far as differences of the objective can be told apart, then Newton steps, which see further.

        Returns the point, the number of L-BFGS iterations, and what is wrong with the point, if anything.
        """
        to_theta, to_slope = self.coordinates()

        def value_and_slope(place: Float64s) -> tuple[float, Float64s]:
            value, slope = self.value_and_slope(self.centre + to_theta(place))
            return value, to_slope(slope)

        flat = float(np.clip(np.sqrt(CONVERGED * np.min(self.penalty)), 1e-9, 1e-7))  # the penalty bounds what is left
        options: Any = {"maxiter": max_iter, "maxfun": 4 * max_iter, "ftol": 0.0, "gtol": flat, "maxcor": 20}
        origin = np.zeros_like(self.centre)
        found: Any = minimize(value_and_slope, origin, jac=True, method="L-BFGS-B", options=options)
        theta = self.centre + to_theta(found.x)
        slope = self.value_and_slope(theta)[1]
        if found.nit >= max_iter:
            return theta, int(found.nit), f"stopped after max_iter={max_iter} iterations, before it converged"
        size = (len(theta),) * 2
        near = LinearOperator(size, matvec=lambda slope: to_theta(to_slope(slope.ravel())), dtype=np.float64)
        with np.errstate(all="ignore"):  # a Hessian of zeros has no step: one that is not finite is never taken
            for _ in range(2):
                step, _ = cg(self.hessian(theta), -slope, rtol=1e-4, maxiter=50, M=near)
                gain = -float(slope @ step) / 2
                slope_there = self.value_and_slope(theta + step)[1]
                if not np.abs(slope_there).max() < np.abs(slope).max():
                    break
                theta, slope = theta + step, slope_there
            return theta, int(found.nit), self.trouble(theta, step, gain, found.message)

    def trouble(self, theta: Float64s, step: Float64s, gain: float, message: str) -> str | None:
        """What is wrong with theta, given the last Newton step and the gain it predicted.

        Near a minimum Newton's steps vanish. Where the cross-entropy falls without end it falls exponentially, and
        there a Newton step moves some score by about 1 however small the slope has become.
        """
        moved = np.ptp(self._scores(step), axis=1).max()
        if np.isfinite(moved) and not gain < CONVERGED:
            return f"did not converge: a further step would gain {gain:.1e} nats ({message})"
        if (not np.any(self.penalty) and self.separates(theta)) or not moved < FLAT:
            return (
                "found no best map: some classes can be told "
                "apart without error, or are absent, and larger coefficients fit ever better; raise l2"
            )
        return None

    def separates(self, theta: Float64s) -> bool:
        """Whether no row has a higher score than its label's: then larger multiples of theta are ever better."""
        scores = self._scores(theta)
        label = scores[np.arange(len(self.y)), self.y]
        return bool((label == scores.max(axis=1)).all() and (label > scores.min(axis=1)).any())


@described(l2=_PULL)
class VectorScaling(AffineMap):
    """One scale and one intercept per class: softmax(w * z + c). Guo et al., ICML 2017.

    Adding a constant to a row of logits changes the answer, as it does in the original. Attributes: `coef_` (k,),
    `intercept_` (k,), `n_iter_`, `classes_`.

    >>> import truecal as tc
    >>> logits = [[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    >>> tc.recalibration.VectorScaling().fit(logits, [0, 0, 1, 1]).predict_proba(logits).shape
    (4, 2)
    """

    diagonal = True


@described(l2=_PULL)
class MatrixScaling(AffineMap):
    """A full matrix and an intercept: softmax(W z + c), multinomial logistic regression on the logits.

    Guo et al., ICML 2017. k² + k numbers: with few samples per class raise `l2` (see AffineMap), or choose a smaller
    map. Attributes as in VectorScaling, with `coef_` (k, k).

    >>> import truecal as tc
    >>> logits = [[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    >>> tc.recalibration.MatrixScaling().fit(logits, [0, 0, 1, 1]).coef_.shape
    (2, 2)
    """


@described(l2=_PULL)
class DirichletScaling(AffineMap):
    """A full matrix and an intercept on log-probabilities: softmax(W log p + c).

    Kull et al., Beyond temperature scaling, NeurIPS 2019. Unlike MatrixScaling it does not change when a constant is
    added to a row of logits. Attributes as in MatrixScaling.

    >>> import truecal as tc
    >>> p = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]
    >>> scaling = tc.recalibration.DirichletScaling.from_probabilities().fit(p, [0, 0, 1, 1])
    >>> bool(scaling.predict_proba([[0.9, 0.1]])[0, 0] < 0.9)            # right two times in three, not nine in ten
    True
    """

    def _features(self, logits: Logits) -> Float64s:
        with np.errstate(over="ignore"):
            x = np.maximum(super()._features(logits) - logits.top[:, None], -LARGEST)
        return np.asarray(x - np.log(np.exp(x).sum(axis=1, keepdims=True)))


class StructuredMap(AffineMap):
    """Abstract: softmax(W log q + c), q the predictions after temperature scaling, W near I and c near 0.

    With q mixed with 1 / (n + 1) of the uniform distribution, the objective is the mean cross-entropy plus
    l2 k / n (|diag(W) - 1|² + |c|²), and for a full matrix l2 k (k - 1) / n |W off the diagonal|².
    """

    def _features(self, logits: Logits) -> Float64s:
        with np.errstate(over="ignore"):
            p = softmax_of((logits.values.astype(np.float64) - logits.top[:, None]) / self.temperature_)
        return np.asarray(np.log((1 - self.mixed_) * p + self.mixed_ / p.shape[1]))

    def _fit(self, data: ValidationData) -> None:
        l2 = check_number(self.l2, "l2", "a finite number of at least 0")
        max_iter = check_positive_int(self.max_iter, "max_iter")
        self.temperature_, _ = best_temperature(data)
        weight = data.weight / data.weight.sum()
        with np.errstate(over="ignore"):
            n = float(data.unit * data.weight.sum())
        self.mixed_ = 1 / (n + 1)
        x = self._features(data.logits)
        k = x.shape[1]
        identity = np.ones(k) if self.diagonal else np.eye(k)
        strength = np.ones(k) if self.diagonal else np.where(identity > 0, 1.0, k - 1.0)
        penalty = np.minimum(2 * l2 * k / n * np.append(strength.ravel(), np.ones(k)), STRONGEST)
        centre = np.append(identity.ravel(), np.zeros(k))
        objective = Objective(x, data.y, weight, identity.shape, centre, penalty)
        theta, self.n_iter_, trouble = objective.minimise(max_iter)
        if trouble:
            warnings.warn(f"{type(self).__name__} {trouble}", ConvergenceWarning, stacklevel=3)
        self.coef_, self.intercept_ = objective.split(theta)


@described(l2="A factor on the penalty.")
class StructuredVectorScaling(StructuredMap):
    """Temperature scaling, then one scale and one intercept per class, pulled to 1 and 0 (SVS).

    Berta, Holzmüller, Jordan and Bach, Structured matrix scaling for multi-class calibration, AISTATS 2026
    (arXiv 2511.03685), with its ridge penalty, which falls with the number of rows. A class without validation samples
    keeps a positive probability, and so does one whose logit is -inf.

    Attributes: `temperature_`, `coef_` (k,), `intercept_` (k,), `n_iter_`, `classes_`.

    >>> import truecal as tc
    >>> logits = [[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    >>> tc.recalibration.StructuredVectorScaling().fit(logits, [0, 0, 1, 1]).predict_proba(logits).shape
    (4, 2)
    """

    diagonal = True


@described(l2="A factor on the penalty.")
class StructuredMatrixScaling(StructuredMap):
    """Temperature scaling, then a full matrix and an intercept, pulled to the identity and 0 (SMS).

    Of many classes the entries off the diagonal are held k - 1 times as strongly as the rest, so that k² of them do no
    harm. Reference and attributes as in StructuredVectorScaling, with `coef_` (k, k).

    >>> import truecal as tc
    >>> logits = [[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    >>> tc.recalibration.StructuredMatrixScaling().fit(logits, [0, 0, 1, 1]).coef_.shape
    (2, 2)
    """
