"""The losses of rows and their ranges in compiled loops: the formulas are in inference/mean_losses.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import Array
from .numba import entry, reordered

KINDS = ("classification_error", "cross_entropy", "brier", "spherical", "confidence_loss")
"""The losses that are known here, by name."""


def row_losses(kind: str, y: Array, p: Array) -> tuple[Array, Array, Array, Array, float]:
    """Per row of distributions over three classes or more: the loss of label y, mean + sd and mean − sd of the losses
    of all labels in proportion to p(1 − p), and Σ p(1 − p); and the largest loss of all."""
    found = np.empty((4, len(p)))
    most = _row_losses(KINDS.index(kind), np.ascontiguousarray(y, dtype=np.int64), p, found)
    return (*found, most)


@entry
def _row_losses(kind: int, y: Array, p: Array, found: Array) -> float:
    n, k = p.shape
    each, share = np.empty(k), np.empty(k)
    most = -np.inf
    for i in range(n):
        surprise = _shares(p[i], share)
        _by_label(kind, p[i], each)
        found[0, i], found[3, i] = each[y[i]], surprise
        most = max(most, each.max())
        if surprise <= 0.0:  # predictions of exactly 0 and 1: every label alike
            share[:] = 1.0
        found[1, i], found[2, i] = _range(each, share)
    return most


@reordered
def _shares(p: Array, share: Array) -> float:
    """How much each label can surprise, and their sum."""
    total = 0.0
    for j in range(len(p)):
        share[j] = max(np.float64(p[j]) * (1.0 - np.float64(p[j])), 0.0)
        total += share[j]
    return total


@reordered
def _by_label(kind: int, p: Array, each: Array) -> None:
    """The loss of every label that could come."""
    k = len(p)
    top, squares = 0, 0.0
    for j in range(k):
        squares += np.float64(p[j]) * np.float64(p[j])
        top = j if p[j] > p[top] else top
    if kind == 0:
        each[:] = 1.0
        each[top] = 0.0
    elif kind == 1:
        for j in range(k):
            each[j] = -np.log(np.float64(p[j])) if p[j] > 0.0 else np.inf
    elif kind == 2:
        for j in range(k):
            each[j] = squares + 1.0 - 2.0 * np.float64(p[j])
    elif kind == 3:
        norm = np.sqrt(squares)
        for j in range(k):
            each[j] = 1.0 - np.float64(p[j]) / norm
    else:
        c = np.float64(p[top])
        each[:] = 1.0 + c * c
        each[top] = (1.0 - c) ** 2


@reordered
def _range(each: Array, share: Array) -> Any:
    """Mean + sd and mean − sd by these shares; without a bound where a loss has none."""
    total, centre, endless = 0.0, 0.0, False
    for j in range(len(each)):
        endless |= each[j] == np.inf
        total += share[j]
        centre += share[j] * (0.0 if each[j] == np.inf else each[j])
    centre /= total
    square = 0.0
    for j in range(len(each)):
        away = (0.0 if each[j] == np.inf else each[j]) - centre
        square += share[j] * away * away
    sd = np.inf if endless else np.sqrt(square / total)
    return centre + sd, centre - sd
