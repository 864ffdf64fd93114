"""The experiments' data: labelled arrays, split once by a seed into training, validation and test."""

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
    text = gzip.decompress(files("truecal.lab").joinpath("data/letter.csv.gz").read_bytes()).decode("ascii")
    rows = [line.split(",") for line in text.splitlines()[1:]]
    features = np.array([row[:-1] for row in rows], dtype=np.int64).astype(np.float64)
    classes, labels = np.unique([row[-1] for row in rows], return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(rows))
    parts = (order[:10_000], order[10_000:15_000], order[15_000:])
    train, validation, test = (Split(features[part], labels[part].astype(np.intp)) for part in parts)
    return Splits(train, validation, test, tuple(str(name) for name in classes))
