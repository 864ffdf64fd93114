"""Read logits on a GPU, and compute there what a temperature needs: one number per row comes back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from truecal.core.data import check_logits, row_blocks
from truecal.core.dispatch import DISPATCH
from truecal.recalibration.base import Float64s, Logits
from truecal.recalibration.temperature import GONE
from truecal.sums.torch import tensor


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


def exponents(values: Tensor, b: float) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Blocks of rows: x = b (z − max z), at least GONE, and exp x."""
    for rows in row_blocks(len(values), values.shape[1], DISPATCH.device_numbers >> 2):
        z = values[rows].double()
        x = ((z - z.amax(1, keepdim=True)) * b).clamp(min=GONE)
        yield rows, x, x.exp()


def own_logits(values: Tensor, y: Any) -> Float64s:
    """The logit of each row's own class."""
    place = torch.as_tensor(y, device=values.device)[:, None]
    return values.gather(1, place)[:, 0].double().cpu().numpy()


def smallest(values: Tensor) -> Float64s:
    """The smallest finite logit of each row."""
    return values.masked_fill(values.isinf(), torch.inf).amin(1).double().cpu().numpy()
