"""Losses of every row for every label that could come: (n, k) from distributions (n, k), arrays or tensors."""

# What is made of arrays or tensors is seen as Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np

from .arrays import HOST, LIBRARY, row_products, top_class_and_value
from .types import Array


def _squared_norms(p: Array) -> Array:
    """Σ_r p_r² of each row, in its own precision."""
    return np.einsum("ij,ij->i", p, p) if isinstance(p, HOST) else row_products(p, p)


def squares(p: Array) -> Array:
    """Σ_r (p_r − 1[r = j])² for label j."""
    return _squared_norms(p)[:, None] + 1 - 2 * p


def cross_entropies(p: Array) -> Array:
    """−ln p_j."""
    with np.errstate(divide="ignore"):
        return -LIBRARY[type(p)].log(p)


def mistakes(p: Array) -> Array:
    """1, and 0 for the top class."""
    xp = LIBRARY[type(p)]
    out = xp.ones_like(p, dtype=xp.float64)
    out[xp.arange(len(p), device=p.device), top_class_and_value(p)[0]] = 0.0
    return out


def sphericals(p: Array) -> Array:
    """1 − p_j / ||p||₂."""
    return 1 - p / LIBRARY[type(p)].sqrt(_squared_norms(p))[:, None]


def confidence_losses(p: Array, correction: float = 1.0) -> Array:
    """(c − z)², and the correction where z = 0."""
    xp = LIBRARY[type(p)]
    top, c = top_class_and_value(p)
    out = xp.ones_like(p) * (correction + c * c)[:, None]
    out[xp.arange(len(p), device=p.device), top] = (1 - c) ** 2
    return out
