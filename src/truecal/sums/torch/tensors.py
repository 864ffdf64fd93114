"""Arrays from elsewhere as tensors, without a copy where their memory can be shared."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.arrays import on_device


def tensor(x: Any) -> Tensor:
    """A tensor over the memory of x, which lies on a device already: torch's own, or anything with DLPack."""
    if hasattr(x, "detach"):
        return x.detach()
    backwards = min(getattr(x, "strides", None) or (0,)) < 0  # as CuPy's x[::-1]: torch would end the process
    return torch.from_dlpack(x.copy() if backwards else x)


def like(array: Any, other: Tensor) -> Tensor:
    """A numpy array as a tensor beside another."""
    return torch.as_tensor(np.ascontiguousarray(array), device=other.device)


def fetched(x: Tensor) -> Any:
    """A small tensor as an array of numpy: it travels once all that was sent to its device is done."""
    return x.cpu().numpy()


def on_cpu(x: Any) -> Any:
    """A tensor on the CPU; anything else as it is."""
    return tensor(x).cpu() if is_here(x) else x


def is_here(x: Any) -> bool:
    return isinstance(x, Tensor) or on_device(x)
