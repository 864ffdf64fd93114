"""Losses of every row."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...core.sample import Sample
from ..numpy import DISPATCH


def losses(name: str, sample: Sample) -> Tensor:
    """One of the losses of `core.losses` for every row of labels (or label distributions) and distributions."""
    y: Any = sample.labels
    p: Any = sample.distributions
    step = max(1, DISPATCH.device_numbers // p.shape[1])
    blocks = [(y[i : i + step], p[i : i + step].double()) for i in range(0, len(y), step)]
    return torch.cat([_LOSSES[name](*block) for block in blocks])


def _own(y: Tensor, p: Tensor) -> Tensor:
    """The probability of the label that came."""
    return (y * p).sum(1) if y.ndim == 2 else p.gather(1, y[:, None])[:, 0]


def _top(y: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """The largest probability, and whether its class came."""
    confidence, top = p.max(1)
    return confidence, (y.gather(1, top[:, None])[:, 0] if y.ndim == 2 else (y == top).double())


def _cross_entropy(y: Tensor, p: Tensor) -> Tensor:
    return (-torch.xlogy(y, p).sum(1) if y.ndim == 2 else -_own(y, p).log()) + 0.0


def _brier(y: Tensor, p: Tensor) -> Tensor:
    residual = p - y if y.ndim == 2 else p.scatter_add(1, y[:, None], -torch.ones_like(p[:, :1]))
    return residual.square().sum(1)


def _confidence_loss(y: Tensor, p: Tensor) -> Tensor:
    confidence, right = _top(y, p)
    return (1 - right) + (confidence - right).square()


_LOSSES = {
    "classification_error": lambda y, p: 1 - _top(y, p)[1],
    "cross_entropy": _cross_entropy,
    "brier": _brier,
    "spherical": lambda y, p: 1 - _own(y, p) / p.square().sum(1).sqrt(),
    "confidence_loss": _confidence_loss,
}
