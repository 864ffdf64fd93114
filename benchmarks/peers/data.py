"""The data of all contestants: somewhat over-confident predictions, made once for each size and read from disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BATCH = 8192
"""Rows in a batch, for whoever takes batches."""
BLOCK = 1 << 20
"""Predictions made at a time, so that making them needs little memory."""
SHARPENED = 1.3


@dataclass(frozen=True)
class Data:
    """Labels, float32 probabilities of every class, and the number of bins."""

    y: Array
    p: Array
    bins: int

    @property
    def classes(self) -> int:
        return int(self.p.shape[1])

    def head(self, rows: int) -> Data:
        return Data(self.y[:rows], self.p[:rows], self.bins)

    def batches(self) -> Iterator[tuple[Array, Array]]:
        for start in range(0, len(self.y), BATCH):
            yield self.y[start : start + BATCH], self.p[start : start + BATCH]


def make(rows: int, classes: int) -> tuple[Array, Array]:
    """Labels drawn from softmax rows, and sharper rows as predictions."""
    rng = np.random.default_rng([rows, classes])
    y, p = np.empty(rows, dtype=np.int64), np.empty((rows, classes), dtype=np.float32)
    step = max(1, BLOCK // classes)
    for start in range(0, rows, step):
        z = 2 * rng.standard_normal((min(step, rows - start), classes), dtype=np.float32)
        part = slice(start, start + len(z))
        y[part] = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
        sharp = np.exp(SHARPENED * (z - z.max(axis=1, keepdims=True)))
        p[part] = sharp / sharp.sum(axis=1, keepdims=True)
    return y, p


def save(folder: Path, rows: int, classes: int) -> None:
    y, p = make(rows, classes)
    np.save(folder / "y.npy", y)
    np.save(folder / "p.npy", p)


def load(folder: Path, bins: int) -> Data:
    return Data(np.load(folder / "y.npy"), np.load(folder / "p.npy"), bins)
