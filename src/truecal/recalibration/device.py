"""Logits on a GPU: what a temperature needs of each row is summed beside them, and one number per row comes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from truecal.backends.numpy import DISPATCH
from truecal.backends.torch import tensor
from truecal.core.data import check_logits
from truecal.recalibration.base import Float64s, Logits
from truecal.recalibration.temperature import GONE


def read_logits(X: Any) -> Logits:
    """Validated logits that stay where they are; the extremes of their rows come along as numpy's."""
    values = tensor(X)
    if values.ndim != 2 or values.shape[0] == 0 or values.shape[1] < 2 or not values.is_floating_point():
        values = torch.as_tensor(check_logits(values.cpu(), "X"), device=values.device)
    if values.dtype not in (torch.float32, torch.float64):
        values = values.float()
    least, most = torch.aminmax(values, dim=1)
    top, bottom = most.double().cpu().numpy(), least.double().cpu().numpy()
    if not np.isfinite(top).all():
        check_logits(values.cpu(), "X")  # raises, naming the place
    return Logits(values, top, bottom, np.arange(len(values)))  # type: ignore[arg-type]  # a tensor of values


def _by_rows(values: Tensor, b: float, formula: Callable[[Tensor, Tensor], list[Tensor]]) -> list[Float64s]:
    """Numbers per row of x = b (z − max z), at least GONE, and its exponential, a block of rows at a time."""
    parts = []
    step = max(1, (DISPATCH.device_numbers >> 2) // values.shape[1])
    for start in range(0, len(values), step):
        z = values[start : start + step].double()
        x = ((z - z.amax(1, keepdim=True)) * b).clamp(min=GONE)
        parts.append(torch.stack(formula(x, x.exp())))
    return list(torch.cat(parts, 1).cpu().numpy())


def row_moments(values: Tensor, b: float) -> list[Float64s]:
    """Mean and variance of x under the softmax of x, per row."""

    def formula(x: Tensor, e: Tensor) -> list[Tensor]:
        total = e.sum(1)
        mean = (e * x).sum(1) / total
        return [mean, (e * x * x).sum(1) / total - mean.square()]

    return _by_rows(values, b, formula)


def row_excess(values: Tensor, b: float) -> list[Float64s]:
    """Per row, how many logits are the largest, and over all others Σ exp x and Σ x exp x."""

    def formula(x: Tensor, e: Tensor) -> list[Tensor]:
        rest = e.masked_fill(x == 0, 0.0)
        return [(x == 0).sum(1).double(), rest.sum(1), (rest * x).sum(1)]

    return _by_rows(values, b, formula)


def own_logits(values: Tensor, y: Any) -> Float64s:
    """The logit of each row's own class."""
    place = torch.as_tensor(y, device=values.device)[:, None]
    return values.gather(1, place)[:, 0].double().cpu().numpy()


def smallest(values: Tensor) -> Float64s:
    """The smallest finite logit of each row."""
    return values.masked_fill(values.isinf(), torch.inf).amin(1).double().cpu().numpy()
