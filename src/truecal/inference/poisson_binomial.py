"""The exact distribution of the number of ones among independent draws with different chances (Poisson binomial)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.types import Array

_BLOCK = 1 << 16  # draws whose law is made at once
_SHORT = 17  # up to so many values, laws are multiplied out; longer ones are convolved by Fourier transforms
_AT_ONCE = 256  # products small enough for one thread: those of a library would wait busily for each other
_MANY = 512  # more draws have their law from its characteristic function


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


def poisson_binomial(chances: Array) -> Law:
    """The distribution of the number of ones among independent 0/1 draws."""
    if len(chances) > _MANY:
        return _from_waves(chances)
    return Law(0, _law(chances) if len(chances) else np.ones(1))


def _from_waves(chances: Array) -> Law:
    """The law of many draws, from its characteristic function: all but e^-40 of it lies in a window around its mean,
    and few frequencies have more than e^-40 of it."""
    mean, variance = float(chances.sum(dtype=np.float64)), float((chances * (1.0 - chances)).sum(dtype=np.float64))
    half = 14.0 + math.sqrt(200.0 + 80.0 * variance)  # by Bernstein's inequality
    first, size = max(0, int(mean - half)), 1 << int(2 * half + 1).bit_length()
    turn, waves = 2 * np.pi / size, np.arange(size // 2 + 1)
    waves = waves[variance * (1 - np.cos(turn * waves)) <= 40]
    found, shift = np.ones(len(waves), dtype=complex), first
    for start in range(0, len(chances), _BLOCK):
        some = chances[start : start + _BLOCK]
        laws = _together(some, _SHORT)
        middle = round(float(some.mean()) * (len(laws) - 1))  # powers near 0 are the most exact
        angles = turn * np.outer(waves, np.arange(len(laws)) - middle)
        for few in range(0, laws.shape[1], _AT_ONCE):
            part = np.ascontiguousarray(laws[:, few : few + _AT_ONCE])
            found *= (np.cos(angles) @ part - 1j * (np.sin(angles) @ part)).prod(axis=1)
        shift -= middle * laws.shape[1]
    found *= np.exp(1j * turn * (waves * shift % size))
    return Law(first, np.fft.irfft(found, size)[: len(chances) + 1 - first].clip(0.0))


def quantiles_of_runs(chances: Array, sizes: Array, levels: Sequence[float]) -> Array:
    """(runs, levels): the quantiles of the number of ones in each run of draws, all runs at once where they are small.

    Runs are padded to the longest with draws that are never one, so that one pass makes all their laws.
    """
    longest, ends = int(sizes.max(initial=0)), np.cumsum(sizes)
    if longest > _MANY or len(sizes) * longest > min(_BLOCK, 2 * len(chances)):
        laws = (poisson_binomial(run) for run in np.split(chances, ends[:-1]))  # one at a time
        return np.array([[law.quantile(level) for level in levels] for law in laws], dtype=np.float64)
    padded = np.zeros((len(sizes), longest))
    padded[np.arange(longest) < sizes[:, None]] = chances
    reached = np.cumsum(_law(padded), axis=-1)
    ones = np.stack([np.count_nonzero(reached < level, axis=-1) for level in levels], axis=-1)
    return np.asarray(np.minimum(ones, sizes[:, None]), dtype=np.float64)


def _law(chances: Array) -> Array:
    """The law of a few draws, along the last axis."""
    laws = _together(chances, chances.shape[-1] + 1)
    return np.asarray(np.moveaxis(laws[: chances.shape[-1] + 1, ..., 0], 0, -1).clip(0.0))


def _together(chances: Array, width: int) -> Array:
    """(ones, ..., draws): the laws of neighbours, then of theirs, until they have so many values."""
    chances = chances.astype(np.float64)
    laws = np.stack([1 - chances, chances])
    while laws.shape[-1] > 1 and len(laws) < width:
        if laws.shape[-1] % 2:  # one more law, of certainly nothing
            nothing = np.zeros((*laws.shape[:-1], 1))
            nothing[0] = 1.0
            laws = np.concatenate([laws, nothing], axis=-1)
        first, second, ones = laws[..., ::2], laws[..., 1::2], len(laws)
        if ones > _SHORT:
            laws = np.moveaxis(_convolved(np.moveaxis(first, 0, -1), np.moveaxis(second, 0, -1)), -1, 0)
            continue
        laws = np.zeros((2 * ones - 1, *first.shape[1:]))
        for j in range(ones):
            laws[j : j + ones] += first * second[j]
    return laws


def _convolved(first: Array, second: Array) -> Array:
    """Laws along the last axis, added up."""
    width = first.shape[-1] + second.shape[-1] - 1
    size = 1 << (width - 1).bit_length()  # numpy's transform, not scipy's, which takes longer to load
    both = np.fft.rfft(first, size) * np.fft.rfft(second, size)
    return np.asarray(np.fft.irfft(both, size)[..., :width])
