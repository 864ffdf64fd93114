"""What is usual for this model: maps of its predictions that a reference sample allows, weighted by how well they fit.

With a reference the question is no longer "are labels drawn from the predictions?" but "do they still follow the map of
predictions that the reference shows?". The map, q_j ∝ p_j^b·e^{s·1[j = anchor]}, is known only as well as the reference
can tell, so the null is a mixture: (b, s) from their posterior given the reference, on a grid of four standard errors.
Its next prediction is the mean over the maps, weighted by the reference and by all rows since. Whatever the number of
rows, an error of the fit is not mistaken for a change; and no map that the reference excludes is ever learnt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from ..core.data import row_blocks
from ..core.types import Array
from .eprocesses import Rows, log_mapped, powers_apart

RADIUS, STEP = 4.0, 0.4
"""The grid of maps in standard errors around the best fit."""
STEEPEST, FARTHEST = 4.0, 8.0
"""No map has |log b| or |s| beyond these, whatever the reference shows: temperatures of .02 to 55."""
FITTED = 3.0, 5.0
"""The best fit is looked for within these; one at their border explains the reference as well as it can, and no
better."""
_SLOPE = 1e-3  # a step for second differences of a smooth function


@final
@dataclass(frozen=True, eq=False)
class Maps:
    """A grid of maps: the slopes b (B,), the shifts s (B, S) and the logarithms of their weights (B, S)."""

    slopes: Array
    shifts: Array
    log_weights: Array

    @property
    def allowed(self) -> bool:
        """Whether all maps are of the family, and one of them has any weight."""
        slack = 1e-9
        steep = (self.slopes < np.exp(-STEEPEST - slack)) | (self.slopes > np.exp(STEEPEST + slack))
        far = np.abs(self.shifts) > FARTHEST + slack
        return not steep.any() and not far.any() and bool(np.isfinite(self.log_weights.max()))

    def apply(self, rows: Rows) -> tuple[Rows, Maps]:
        """The rows with the null's predictions, each made of the rows before it alone, and the maps after them."""
        logs = self._log_likelihoods(rows)
        earlier = np.concatenate([np.zeros_like(logs[:1]), logs.cumsum(axis=0)])
        weights = _normalised(self.log_weights + earlier)
        mapped = replace(rows, proba=self._mean(rows, weights[:-1]))
        after = self.log_weights + earlier[-1]
        return mapped, replace(self, log_weights=after - after.max())

    def typical(self, rows: Rows) -> Array:
        """The predictions by today's weights."""
        weights = _normalised(self.log_weights[None])
        return np.concatenate([self._mean(rows.take(part), weights) for part in _blocks(rows)])

    def _log_likelihoods(self, rows: Rows) -> Array:
        """(n, B, S): log q(y) of each row under each map; rows that no map can explain say nothing about them."""
        pairs = zip(self.slopes, self.shifts, strict=True)
        logs = np.stack([log_mapped(rows, float(slope), shifts) for slope, shifts in pairs], axis=1)
        logs[rows.impossible] = 0.0
        return logs

    def _mean(self, rows: Rows, weights: Array) -> Array:
        """Σ_maps w·q, (n, k), for weights of each row or of all; what the model holds possible stays possible."""
        proba = np.zeros_like(rows.proba)
        for b, slope in enumerate(self.slopes):
            powers, of_anchor = powers_apart(rows, float(slope))
            lift = np.exp(self.shifts[b])
            share = weights[:, b] / (powers.sum(axis=1)[:, None] + lift * of_anchor[:, None])
            proba += powers * share.sum(axis=1)[:, None]
            proba[rows.number, rows.anchor] += of_anchor * (share @ lift)
        proba = np.where(rows.proba > 0, np.maximum(proba, np.finfo(np.float64).tiny), 0.0)
        return np.asarray(proba / proba.sum(axis=1, keepdims=True))


def _normalised(logs: Array) -> Array:
    """e^logs with sum 1 over the last two axes."""
    weights = np.exp(logs - logs.max(axis=(-2, -1), keepdims=True))
    return np.asarray(weights / weights.sum(axis=(-2, -1), keepdims=True))


def _blocks(rows: Rows) -> list[slice]:
    return list(row_blocks(len(rows.y), 8 * (rows.proba.shape[1] + 400)))


def fit_maps(rows: Rows) -> Maps:
    """The maps that a reference allows: the posterior of (log b, s) under independent standard normal priors."""
    from scipy.optimize import minimize

    def surprise(x: Array) -> float:
        slope, shift = float(np.exp(x[0])), x[1:]
        parts = (log_mapped(rows.take(part), slope, shift).sum() for part in _blocks(rows))
        return float(x @ x / 2 - sum(parts))

    best = np.asarray(minimize(surprise, np.zeros(2), method="L-BFGS-B", bounds=[(-most, most) for most in FITTED]).x)
    root = np.linalg.cholesky(_spread(_curvature(surprise, best)))
    z = np.arange(-RADIUS, RADIUS + STEP / 2, STEP)
    log_slopes = best[0] + root[0, 0] * z
    shifts = best[1] + root[1, 0] * z[:, None] + root[1, 1] * z
    prior = -(np.square(log_slopes)[:, None] + np.square(shifts)) / 2
    outside = (np.abs(log_slopes) > STEEPEST)[:, None] | (np.abs(shifts) > FARTHEST)
    prior[outside | (np.square(z)[:, None] + np.square(z) > RADIUS**2)] = -np.inf
    maps = Maps(np.exp(np.clip(log_slopes, -STEEPEST, STEEPEST)), np.clip(shifts, -FARTHEST, FARTHEST), prior)
    logs = sum((maps._log_likelihoods(rows.take(part)).sum(axis=0) for part in _blocks(rows)), start=prior)
    return replace(maps, log_weights=logs - logs.max())


def _spread(curvature: Array) -> Array:
    """The covariance of a fit, no wider than that of the prior: less curvature than the prior's is no information.

    The likelihood is not concave in log b, so that a flat reference may have none, or less than none, in a direction.
    """
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    return np.asarray(vectors / np.maximum(values, 1.0) @ vectors.T)


def _curvature(f: Callable[[Array], float], at: Array) -> Array:
    """Second differences of a function of two numbers."""
    a, b = _SLOPE * np.eye(2)
    corners = [[f(at + x + y) - f(at + x - y) - f(at - x + y) + f(at - x - y) for y in (a, b)] for x in (a, b)]
    return np.array(corners) / (4 * _SLOPE**2)
