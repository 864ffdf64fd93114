"""Losses of every row for every label that could come: (n, k) from distributions (n, k)."""

from __future__ import annotations

import numpy as np

from .types import Array


def squares(p: Array) -> Array:
    """Σ_r (p_r − 1[r = j])² for label j."""
    return np.asarray(np.einsum("ij,ij->i", p, p)[:, None] + 1 - 2 * p)


def cross_entropies(p: Array) -> Array:
    """−ln p_j."""
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(p))


def mistakes(p: Array) -> Array:
    """1, and 0 for the top class."""
    out = np.ones(p.shape)
    out[np.arange(len(p)), p.argmax(axis=1)] = 0.0
    return out


def sphericals(p: Array) -> Array:
    """1 − p_j / ||p||₂."""
    return np.asarray(1 - p / np.sqrt(np.einsum("ij,ij->i", p, p))[:, None])


def confidence_losses(p: Array, correction: float = 1.0) -> Array:
    """(c − z)², and the correction where z = 0."""
    rows, top = np.arange(len(p)), p.argmax(axis=1)
    c = p[rows, top]
    out = np.repeat((correction + c * c)[:, None], p.shape[1], axis=1)
    out[rows, top] = np.square(1 - c)
    return out
