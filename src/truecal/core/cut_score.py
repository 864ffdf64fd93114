"""What the score adds to the loss: the squared gap of the two cells beside a cut, averaged over all cuts by rank.

For a cut, both sides B add λ_B (|S_B|² − the part of pairs left out), λ_B = n_B / (number of pairs that count).
This is the squared gap of two cells, and every such score is truthful. Cuts lie between fixed cells, the same for every
sample and source, so that memory, streams, GPUs and SQL give one number; a cut counts by the rows between it and its
neighbours, so that the number hardly depends on the cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np

from .arrays import HOST, LIBRARY
from .edges import needed
from .rules import FixedRule
from .sample import Bounds
from .table import BinTable
from .types import Array

_EVEN, _HALVINGS, _PER_HALVING = 64, 20, 2


def _inner() -> Array:
    """Steps of 1/64 from 1/16 to 15/16, two per halving nearer to 0 and 1: all are numbers of float32."""
    parts = np.arange(_PER_HALVING) / _PER_HALVING
    low = np.concatenate([2.0**-k * (1 + parts) for k in range(_HALVINGS, 4, -1)])
    even = np.arange(_EVEN // 16, _EVEN - _EVEN // 16 + 1) / _EVEN
    return np.concatenate([low, even, 1 - low[::-1]])


_EDGES = np.concatenate([[0.0], _inner(), [1.0]])
CELLS = len(_EDGES) - 1


@final
@dataclass(frozen=True)
class ScoreCells(FixedRule):
    """The fixed cells between which the score cuts, finer towards both ends of the range."""

    most_cells = CELLS
    n_cells = CELLS

    def edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        low, high = needed(bounds)
        return ((low + (high - low) * _EDGES).astype(dtype),)


SCORE_CELLS = ScoreCells()


class Sides(NamedTuple):
    """Sums of the cells below and above the cut after each cell, (2, views, cells)."""

    squares: Any
    """Σ over the pairs that are left out of w·residual · w·residual: of single rows, or of rows of one cluster."""
    weights: Any
    """The same of w·w."""
    most: Any
    """The most that the weights of pairs left out add up to for one row: its own weight, or that of its cluster."""

    def plus(self, other: Sides) -> Sides:
        """Those of both, whose rows meet in no pair that is left out."""
        most = np.maximum(self.most, other.most)
        return Sides(self.squares + other.squares, self.weights + other.weights, most)


def both_sides(x: Array) -> Any:
    """(2, ..., cells): sums below and above the cut after each cell."""
    below = x.cumsum(-1)
    return LIBRARY[type(x)].stack([below, below[..., -1:] - below])


def single_rows(table: BinTable) -> Sides:
    """Pairs of a row with itself."""
    assert table.residual_sq is not None
    weight_sq = both_sides(table.cell_weight_sq)
    xp = LIBRARY[type(weight_sq)]
    # The largest weight of a cell is at most the largest of all and at most √Σ w².
    most = xp.clip(xp.sqrt(xp.clip(weight_sq, 0.0, None)), None, table.totals.largest)
    return Sides(both_sides(table.residual_sq), weight_sq, most)


def clusters(residual: Array, weight: Array) -> Sides:
    """Pairs of rows of one cluster, from (clusters, views, cells) sums of each cluster and cell."""
    sums, weights = both_sides(residual), both_sides(weight)
    return Sides(np.square(sums).sum(1), np.square(weights).sum(1), weights.max(1))


_PAIRED = 1e-9  # of the squared weight of a side; less is the rounding of one row, or of one cluster


def gap_over_cuts(table: BinTable, left_out: Sides | None = None) -> Any:
    """The squared gap averaged over all cuts, summed over views: what the score adds to the loss.

    λ_B = min(W_B / Σ of the pairs' weights, 1 / most): no row's own coefficient is negative, so that no lie gains.
    """
    out = single_rows(table) if left_out is None else left_out
    sums, weight = both_sides(table.residual), both_sides(table.count)
    xp = LIBRARY[type(sums)]
    pairs = weight * weight - out.weights
    met = pairs > _PAIRED * (weight * weight + table.totals.weight_sq)
    rate = weight / xp.where(met, pairs, 1.0)
    most = xp.where(met, out.most, 1.0)
    rate = xp.where(met, xp.where(rate * most > 1.0, 1.0 / most, rate), 0.0)
    found = (rate * (sums * sums - out.squares)).sum(0)
    # The rank of a cut is the weight below it. Before the first row as after the last one all rows are one cell.
    whole, rank = found[..., -1:], weight[0]
    steps = xp.concatenate([rank[..., :1], rank[..., 1:] - rank[..., :-1]], -1)
    before = xp.concatenate([whole, found[..., :-1]], -1)
    averaged = (steps * (found + before)).sum(-1) / (2 * table.totals.weight**2)
    total = averaged.sum() if table.shares is None else (table.shares * averaged).sum()
    return float(total) if isinstance(total, HOST) else total
