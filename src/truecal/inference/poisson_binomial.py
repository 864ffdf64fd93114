"""The exact law of a number of ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def poisson_binomial(chances: Array) -> Array:
    """The distribution of the number of ones among independent 0/1 draws, by convolving neighbours, then theirs."""
    from scipy import fft

    laws = np.stack([1 - chances, chances], axis=1)
    while len(laws) > 1:
        if len(laws) % 2:
            laws = np.concatenate([laws, np.eye(1, laws.shape[1])])
        width = 2 * laws.shape[1] - 1
        size = fft.next_fast_len(width, real=True)
        transformed = fft.rfft(laws, size, axis=1)
        laws = fft.irfft(transformed[::2] * transformed[1::2], size, axis=1)[:, :width]
    return np.asarray(laws[0, : len(chances) + 1].clip(0.0))
