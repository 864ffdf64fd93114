"""The exact law of a number of ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BLOCK = 1 << 16  # draws whose law is made at once
_SHORT = 17  # up to so many values, laws are multiplied out; longer ones are convolved by Fourier transforms
_NOTHING = 1e-15  # what those leave of 0


@dataclass(frozen=True)
class Law:
    """The distribution of a number of ones: chance[j] is that of first + j of them."""

    first: int
    chance: Array

    def at_most(self, ones: int) -> float:
        return float(self.chance[: max(0, ones + 1 - self.first)].sum())

    def at_least(self, ones: int) -> float:
        return float(self.chance[max(0, ones - self.first) :].sum())

    def quantile(self, level: float) -> int:
        """The fewest ones that are reached with this chance."""
        place = int(np.searchsorted(np.cumsum(self.chance), level))
        return self.first + min(place, len(self.chance) - 1)

    def plus(self, other: Law) -> Law:
        """The law of both numbers together, without the ends that nothing reaches."""
        chance = _convolved(self.chance, other.chance)
        there = np.flatnonzero(chance > _NOTHING)
        return Law(self.first + other.first + int(there[0]), chance[there[0] : there[-1] + 1])


def poisson_binomial(chances: Array) -> Law:
    """The distribution of the number of ones among independent 0/1 draws."""
    found = None
    for start in range(0, len(chances), _BLOCK):
        law = Law(0, _law(chances[start : start + _BLOCK]))
        found = law if found is None else found.plus(law)
    return Law(0, np.ones(1)) if found is None else found


def quantiles_of_runs(chances: Array, sizes: Array, levels: Sequence[float]) -> Array:
    """(runs, levels): the quantiles of the number of ones in each run of draws, all runs at once where they are small.

    Runs are padded to the longest with draws that are never one, so that one pass makes all their laws.
    """
    longest, ends = int(sizes.max(initial=0)), np.cumsum(sizes)
    if len(sizes) * longest > min(_BLOCK, 2 * len(chances)):
        laws = (poisson_binomial(run) for run in np.split(chances, ends[:-1]))  # one at a time
        return np.array([[law.quantile(level) for level in levels] for law in laws], dtype=np.float64)
    padded = np.zeros((len(sizes), longest))
    padded[np.arange(longest) < sizes[:, None]] = chances
    reached = np.cumsum(_law(padded), axis=-1)
    ones = np.stack([np.count_nonzero(reached < level, axis=-1) for level in levels], axis=-1)
    return np.asarray(np.minimum(ones, sizes[:, None]), dtype=np.float64)


def _law(chances: Array) -> Array:
    """The law of a few draws, along the last axis, by convolving neighbours, then theirs."""
    chances = chances.astype(np.float64)
    laws = np.stack([1 - chances, chances])  # (ones, ..., draws)
    while laws.shape[-1] > 1:
        if laws.shape[-1] % 2:  # one more law, of certainly nothing
            nothing = np.zeros((*laws.shape[:-1], 1))
            nothing[0] = 1.0
            laws = np.concatenate([laws, nothing], axis=-1)
        first, second, width = laws[..., ::2], laws[..., 1::2], len(laws)
        if width > _SHORT:
            laws = np.moveaxis(_convolved(np.moveaxis(first, 0, -1), np.moveaxis(second, 0, -1)), -1, 0)
            continue
        laws = np.zeros((2 * width - 1, *first.shape[1:]))
        for ones in range(width):
            laws[ones : ones + width] += first * second[ones]
    return np.asarray(np.moveaxis(laws[: chances.shape[-1] + 1, ..., 0], 0, -1).clip(0.0))


def _convolved(first: Array, second: Array) -> Array:
    """Laws along the last axis, added up."""
    width = first.shape[-1] + second.shape[-1] - 1
    size = 1 << (width - 1).bit_length()  # numpy's transform, not scipy's, which takes longer to load
    both = np.fft.rfft(first, size) * np.fft.rfft(second, size)
    return np.asarray(np.fft.irfft(both, size)[..., :width])
