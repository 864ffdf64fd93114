"""Squared errors before and after isotonic regression."""

from __future__ import annotations

import numpy as np

from .losses import weighted_mean
from .sample import Sample


def squared_errors(sample: Sample, j: int) -> list[float]:
    """Mean squared errors of the predictions of one view, of their isotonic regression, and of the base rate."""
    from scipy.optimize import isotonic_regression

    u = sample.view(j).astype(np.float64)
    outcome = sample.outcome(slice(j, j + 1))[0]
    w = sample.row_weights
    counted = w > 0
    u, outcome, w = u[counted], outcome[counted], w[counted]
    _, block = np.unique(u, return_inverse=True)
    mass = np.bincount(block, weights=w)
    rate = np.bincount(block, weights=w * outcome) / mass
    fitted = isotonic_regression(rate, weights=mass).x[block]
    base = np.full(len(u), w @ outcome / w.sum())
    return [weighted_mean(np.square(x - outcome), w) for x in (u, fitted, base)]
