"""Trains scikit-learn's multi-layer perceptrons on tabular data and yields every epoch's logits."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from reproduction.datasets import Splits, nested_subset
from reproduction.traces import Checkpoint, Trace


class MLPTrainer:
    """A model ``mlp-64-32`` has hidden layers of 64 and 32 rectified units; Adam at its usual rate, batches of 32."""

    def __init__(self, data: Splits, seed: int) -> None:
        self.data, self.seed = data, seed
        self.y_validation, self.y_test = data.validation.y, data.test.y

    def train(self, trace: Trace, state: Path | None = None) -> Iterator[Checkpoint]:
        """Yield each epoch; a trace takes seconds, so nothing is saved in between."""
        from sklearn.neural_network import MLPClassifier
        from threadpoolctl import threadpool_limits

        rows = nested_subset(len(self.data.train), trace.fraction, self.seed)
        X, y = self.data.train.X[rows], self.data.train.y[rows]
        centre, spread = X.mean(axis=0), X.std(axis=0) + 1e-9
        X, validation, test = ((part - centre) / spread for part in (X, self.data.validation.X, self.data.test.X))
        network = MLPClassifier(
            hidden_layer_sizes=hidden_layers(trace.model),
            batch_size=min(32, len(y)),
            random_state=(self.seed + zlib.crc32(trace.name.encode())) % 2**32,
        )
        for epoch in range(1, trace.epochs + 1):
            with threadpool_limits(1):  # sums have one order, so that a rerun gives the same table
                network.partial_fit(X, y, classes=np.arange(self.data.n_classes))
                checkpoint = Checkpoint(epoch, logits(network, validation), logits(network, test), network.loss_)
            yield checkpoint


def hidden_layers(model: str) -> tuple[int, ...]:
    """The hidden layers' widths in a model's name.

    >>> hidden_layers("mlp-64-32")
    (64, 32)
    """
    kind, *widths = model.split("-")
    if kind != "mlp" or not widths or not all(width.isdigit() and int(width) > 0 for width in widths):
        raise ValueError(f"expected a model such as 'mlp-64' or 'mlp-64-32', got {model!r}")
    return tuple(int(width) for width in widths)


def logits(network: Any, X: NDArray[np.float64]) -> NDArray[np.float64]:
    """The last layer before the softmax, which scikit-learn does not give out."""
    values = X
    for weights, bias in zip(network.coefs_[:-1], network.intercepts_[:-1], strict=True):
        values = np.maximum(values @ weights + bias, 0)
    return np.asarray(values @ network.coefs_[-1] + network.intercepts_[-1])
