"""What a stream measures of each row of distributions over classes, in one compiled pass over their columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import Array
from .compiled import entry, inner, reordered

_BLOCK = 1 << 10  # rows whose numbers stay in cache while one column after the other passes


class RowFacts(NamedTuple):
    """Of each row of `numbers` the largest entry p_t, its place t (the lowest index on ties) and Σ p_r² in float64; the
    least and the largest entry of all, and how many rows do not sum to 1."""

    numbers: Array
    confidence: Array
    top: Array
    squares: Array
    least: float
    most: float
    off: int

    def of_labels(self, labels: Array) -> tuple[Array, Array]:
        """Whether t is the label of each row, and p of the label in float64; labels are indices below k."""
        right, own = np.empty(len(labels), np.bool_), np.empty(len(labels))
        _of_labels(self.numbers.T, np.ascontiguousarray(labels, dtype=np.int64), self.top, right, own)
        return right, own


def row_facts(numbers: Array, tolerance: float = 1e-3) -> RowFacts:
    """The facts of rows (n, k) whose columns lie side by side; sums may be off by a tolerance."""
    n = len(numbers)
    confidence, top, squares = np.empty(n, numbers.dtype), np.empty(n, np.int32), np.empty(n)
    found = _row_facts(numbers.T, tolerance, confidence, top, squares)
    return RowFacts(numbers, confidence, top, squares, *found)


@entry
def _row_facts(columns: Array, tolerance: float, confidence: Array, top: Array, squares: Array) -> Any:
    k, n = columns.shape
    low, total = np.empty(_BLOCK, dtype=columns.dtype), np.empty(_BLOCK)
    least, most, off = np.inf, -np.inf, 0
    for begin in range(0, n, _BLOCK):
        here = slice(begin, min(n, begin + _BLOCK))
        rows = here.stop - begin
        confidence[here], low[:rows] = columns[0, here], columns[0, here]
        top[here], squares[here], total[:rows] = 0, 0.0, 0.0
        for v in range(k):
            _add_column(columns[v, here], v, confidence[here], top[here], low, squares[here], total)
        for i in range(rows):
            off += not abs(total[i] - 1.0) <= tolerance  # so that NaN is off
        least, most = min(least, np.float64(low[:rows].min())), max(most, np.float64(confidence[here].max()))
    return least, most, off


@inner
def _add_column(column: Array, v: int, best: Array, top: Array, low: Array, squares: Array, total: Array) -> None:
    """Without branches, so that several rows are done at a time."""
    for i in range(len(column)):
        x = column[i]
        above = x > best[i]
        top[i] = v if above else top[i]
        best[i] = x if above else best[i]
        low[i] = x if x < low[i] else low[i]
        squares[i] += np.float64(x) * np.float64(x)
        total[i] += np.float64(x)


@entry
def _of_labels(columns: Array, labels: Array, top: Array, right: Array, own: Array) -> None:
    for i in range(len(labels)):
        right[i] = top[i] == labels[i]
        own[i] = columns[labels[i], i]


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
    each, share = np.empty(p.shape[1]), np.empty(p.shape[1])
    most = -np.inf
    for i in range(len(p)):
        surprise = _shares(p[i], share)
        found[3, i] = surprise
        if surprise <= 0.0:  # predictions of exactly 0 and 1: every label alike
            share[:], surprise = 1.0, float(len(share))
        if kind == 1:
            most = _logarithms(p[i], each, most)
            found[0, i] = each[y[i]]
            found[1, i], found[2, i] = _range(each, share, surprise)
        else:
            found[0, i], centre, sd, most = _closed(kind, p[i], y[i], share, surprise, most)
            found[1, i], found[2, i] = centre + sd, centre - sd
    return most


@reordered
def _shares(p: Array, share: Array) -> float:
    """How much each label can surprise, and their sum."""
    total = 0.0
    for j in range(len(p)):
        chance = np.float64(p[j])
        share[j] = chance * (1.0 - chance) if 0.0 < chance < 1.0 else 0.0
        total += share[j]
    return total


@inner
def _closed(kind: int, p: Array, y: int, share: Array, total: float, most: float) -> Any:
    """Loss, its mean and sd over all labels, and the largest of these labels and `most`, where it is linear in p, or
    has one value for the top class and another for all others."""
    if kind in (2, 3):
        squares, mean, square = _linear(p, share, total)
        unit, at_0 = (2.0, squares + 1.0) if kind == 2 else (1.0 / np.sqrt(squares), 1.0)
        for j in range(len(p)):
            loss = at_0 - unit * np.float64(p[j])
            if loss > most:  # seldom, so that no entry waits for the one before it
                most = loss
        return at_0 - unit * np.float64(p[y]), at_0 - unit * mean, unit * np.sqrt(square), most
    top = _top(p)
    c = np.float64(p[top])
    wrong, right = (1.0, 0.0) if kind == 0 else (1.0 + c * c, (1.0 - c) ** 2)
    q = share[top] / total
    sd = (wrong - right) * np.sqrt(q * (1.0 - q))
    return right if y == top else wrong, wrong - (wrong - right) * q, sd, max(most, wrong)


@inner
def _top(p: Array) -> int:
    top, highest = 0, p[0]
    for j in range(len(p)):
        if p[j] > highest:  # as above
            top, highest = j, p[j]
    return top


@reordered
def _linear(p: Array, share: Array, total: float) -> Any:
    """Σ p², and the mean and the variance of p by these shares."""
    squares, mean = 0.0, 0.0
    for j in range(len(p)):
        squares += np.float64(p[j]) * np.float64(p[j])
        mean += share[j] * np.float64(p[j])
    mean /= total
    square = 0.0
    for j in range(len(p)):
        away = np.float64(p[j]) - mean
        square += share[j] * away * away
    return squares, mean, square / total


@inner
def _logarithms(p: Array, each: Array, most: float) -> float:
    """−log p of every label, and the largest of these and `most`."""
    for j in range(len(p)):
        each[j] = -np.log(np.float64(p[j])) if p[j] > 0.0 else np.inf
        if each[j] > most:
            most = each[j]
    return most


@reordered
def _range(each: Array, share: Array, total: float) -> Any:
    """Mean + sd and mean − sd by these shares; without a bound where a loss has none."""
    centre, endless = 0.0, 0
    for j in range(len(each)):
        endless += each[j] == np.inf
        centre += share[j] * (0.0 if each[j] == np.inf else each[j])
    centre /= total
    square = 0.0
    for j in range(len(each)):
        away = (0.0 if each[j] == np.inf else each[j]) - centre
        square += share[j] * away * away
    sd = np.inf if endless > 0 else np.sqrt(square / total)
    return centre + sd, centre - sd
