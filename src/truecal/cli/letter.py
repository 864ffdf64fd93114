"""The bundled Letter data, split once by a seed into training, validation and test."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Split:
    """One part of a dataset: inputs ``X`` (one row per sample) and integer labels ``y``."""

    X: NDArray[Any]
    y: NDArray[np.intp]

    def __len__(self) -> int:
        return len(self.y)

    def cut(self, seed: int, *ends: int) -> list[Split]:
        """The rows, permuted by ``seed``, in parts that end there."""
        order = np.random.default_rng(seed).permutation(len(self))
        return [Split(self.X[rows], self.y[rows]) for rows in np.split(order, ends)]


@dataclass(frozen=True)
class Splits:
    """A dataset in its three parts; ``classes[j]`` is the name of label j."""

    train: Split
    validation: Split
    test: Split
    classes: tuple[str, ...]

    @property
    def n_classes(self) -> int:
        return len(self.classes)


def letter(seed: int = 42) -> Splits:
    """Letter Recognition (D. Slate, UCI, CC BY 4.0), bundled: 16 integer features, 26 classes.

    The 20,000 rows are permuted by ``seed`` and cut into 10,000 for training, 5,000 for validation, 5,000 for test.

    >>> data = letter()
    >>> len(data.train), len(data.validation), len(data.test), data.n_classes
    (10000, 5000, 5000, 26)
    """
    with files("truecal.cli").joinpath("letter.csv.gz").open("rb") as packed, gzip.open(packed, "rt") as text:
        rows = np.loadtxt(text, dtype=str, delimiter=",", skiprows=1)
    classes, labels = np.unique(rows[:, -1], return_inverse=True)
    data = Split(rows[:, :-1].astype(np.float64), labels.astype(np.intp))
    train, validation, test = data.cut(seed, 10_000, 15_000)
    return Splits(train, validation, test, tuple(map(str, classes)))
