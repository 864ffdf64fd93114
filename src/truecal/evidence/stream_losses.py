"""Losses that no table holds, added up over the rows of a stream and over its label-blind blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.data import both_classes, row_blocks
from ..core.losses import LOSSES
from ..core.sample import Totals
from ..core.types import Array
from ..inference.blocks import block_mean
from ..kinds.inputs import Inputs
from .stream_table import by_block
from .values import LossValue

_ROW_BYTES = 1 << 22  # rows of a block stay in cache while each loss is taken of them
FEWEST = 10
"""With fewer rows predicted wrong (or right) the blocks show nothing of how far losses could have strayed."""
SCARCE = f"fewer than {FEWEST} rows were predicted wrong, or right: blocks of rows do not show how far losses stray"
_FEWEST_CARRY = 1 / 16
"""Of even blocks about a third carry the spread, (Σ d²)²/Σ d⁴ of their deviations d; of very few nothing is said."""


def summed_losses() -> tuple[str, ...]:
    """The losses that no table holds, in the order of their sums."""
    return tuple([name for name, loss in LOSSES.items() if loss.streamed])


@final
@dataclass(frozen=True, eq=False)
class LossSums:
    """Σ w·loss of each of `summed_losses` over each block of rows, and Σ w: (losses + 1, blocks)."""

    sums: Array
    infinite: int = 0
    """Rows whose cross-entropy is infinite: the observed label had probability 0."""
    bounded: bool = True
    """Whether every label that could have come had some probability."""

    @staticmethod
    def of(inputs: Inputs, blocks: int, start: int, facts: Any = None) -> LossSums | None:
        """The sums of some rows, the first of which is row number `start` of its stream, from the facts of these rows
        where they are known; None where there are no probabilities of classes that exclude each other."""
        if not inputs.kind.class_losses:
            return None
        if facts is not None:
            return _sums(_each(facts.own, facts.squares), facts.least > 0, max(blocks, 1)).turned(start)
        wide = 1 if inputs.reports.ndim == 1 else inputs.reports.shape[1]
        found = LossSums(np.zeros((len(summed_losses()) + 1, max(blocks, 1))))
        for rows in row_blocks(inputs.n_samples, 8 * wide, _ROW_BYTES):
            found = found.plus(found._some(inputs.take(rows)).turned(start + rows.start))
        return found

    def _some(self, inputs: Inputs) -> LossSums:
        """The sums of a few rows, the first of which is in the first block."""
        y, proba, w = inputs.y, inputs.reports, inputs.weights
        if proba.ndim == 1:
            y, proba = y.astype(np.intp), both_classes(proba)
        each = [LOSSES[name].per_row(y, proba) for name in summed_losses()]
        each.append(np.ones(len(y)))
        if w is not None:  # a row that does not count may have an infinite loss
            each = [np.multiply(w, value, out=np.zeros(len(w)), where=w > 0) for value in each]
            proba = proba[w > 0]
        return _sums(each, not proba.size or bool(proba.min() > 0), self.sums.shape[1])

    def plus(self, other: LossSums) -> LossSums:
        """Both, where the blocks of `other` are in their places already."""
        both = self.sums + other.sums
        return LossSums(both, self.infinite + other.infinite, self.bounded and other.bounded)

    def turned(self, rows: int) -> LossSums:
        """The same rows when so many others come before them."""
        sums = np.roll(self.sums, rows % self.sums.shape[1], axis=1)
        return LossSums(sums, self.infinite, self.bounded)

    def in_block(self, unit: int) -> LossSums:
        """All rows as one of the blocks."""
        sums = np.zeros_like(self.sums)
        sums[:, unit % self.sums.shape[1]] = self.sums.sum(axis=1)
        return LossSums(sums, self.infinite, self.bounded)

    def value(self, name: str, level: float | None) -> LossValue:
        """One of the losses with its interval, none where nothing bounds what a label would have cost."""
        total, weight = self.sums[summed_losses().index(name)], self.sums[-1]
        mean = float(total.sum() / weight.sum())
        if name == "cross_entropy" and (self.infinite or not self.bounded or _few_carry(total, weight, mean)):
            level = None
        return with_interval(name, mean, total, weight, level)


def _each(own: Array, squares: Array) -> list[Array]:
    """Every loss of each row from p_y and Σ p_r², and its weight of 1."""
    formulas = [loss.streamed for loss in LOSSES.values() if loss.streamed is not None]
    return [*(formula(own, squares) for formula in formulas), np.ones(len(own))]


def _sums(each: list[Array], bounded: bool, blocks: int) -> LossSums:
    """The sums of the losses of some rows, the first of which is in the first block."""
    sums = np.stack([by_block(value, blocks) for value in each])
    infinite = 0 if np.isfinite(sums).all() else sum(int(np.isinf(value).sum()) for value in each)
    return LossSums(sums, infinite, bounded)


def with_interval(name: str, mean: float, total: Array, weight: Array, level: float | None) -> LossValue:
    """A mean loss and its interval from the sums of blocks of rows, if one is asked for and there are enough blocks."""
    low = high = None
    if level is not None:
        ends = block_mean(total, weight, level)[1:]
        low, high = ends if np.isfinite(ends[0]) else (None, None)
    return LossValue(name, mean, low, high)


def is_scarce(totals: Totals) -> bool:
    """Whether fewer rows than `FEWEST` were predicted wrong, or right; (Σ w)²/Σ w² of them, where they have weights."""
    wrong = (totals.wrong, totals.wrong_sq)
    right = (totals.weight - totals.wrong, totals.weight_sq - totals.wrong_sq)
    return any(weight**2 < FEWEST * squares or squares <= 0 for weight, squares in (wrong, right))


def _few_carry(total: Array, weight: Array, mean: float) -> bool:
    """Whether few blocks make up most of the variance of an unbounded loss."""
    squares = np.square((total - weight * mean) / weight.max())  # whatever the unit of the weights
    blocks = int(np.count_nonzero(weight))
    return float(squares.sum()) ** 2 < _FEWEST_CARRY * blocks * float(np.square(squares).sum())
