"""The exact law of a number of ones."""

from __future__ import annotations

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
        chance = _convolved(self.chance[None], other.chance[None])[0]
        there = np.flatnonzero(chance > _NOTHING)
        return Law(self.first + other.first + int(there[0]), chance[there[0] : there[-1] + 1])


def poisson_binomial(chances: Array) -> Law:
    """The distribution of the number of ones among independent 0/1 draws."""
    found = None
    for start in range(0, len(chances), _BLOCK):
        law = Law(0, _law(chances[start : start + _BLOCK]))
        found = law if found is None else found.plus(law)
    return Law(0, np.ones(1)) if found is None else found


def _law(chances: Array) -> Array:
    """The law of a few draws, by convolving neighbours, then theirs."""
    chances = chances.astype(np.float64)
    laws = np.stack([1 - chances, chances])
    while laws.shape[1] > 1 and len(laws) <= _SHORT:
        laws = _paired(laws.T).T
        first, second = laws[:, ::2], laws[:, 1::2]
        width = len(laws)
        laws = np.zeros((2 * width - 1, first.shape[1]))
        for ones in range(width):
            laws[ones : ones + width] += first * second[ones]
    laws = laws.T
    while len(laws) > 1:
        laws = _paired(laws)
        laws = _convolved(laws[::2], laws[1::2])
    return np.asarray(laws[0, : len(chances) + 1].clip(0.0))


def _paired(laws: Array) -> Array:
    """An even number of laws: one more of certainly nothing, where it is odd."""
    return np.concatenate([laws, np.eye(1, laws.shape[1])]) if len(laws) % 2 else laws


def _convolved(first: Array, second: Array) -> Array:
    from scipy import fft

    width = first.shape[1] + second.shape[1] - 1
    size = fft.next_fast_len(width, real=True)
    both = fft.rfft(first, size, axis=1) * fft.rfft(second, size, axis=1)
    return np.asarray(fft.irfft(both, size, axis=1)[:, :width])
