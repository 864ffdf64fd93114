"""OnDevice: a CPU tensor that says it lies on a GPU, so that tests go the way of GPU tensors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch


class OnDevice:
    """Public functions take it for a tensor on a GPU, and everything they do with it happens on the CPU."""

    def __init__(self, array: Any) -> None:
        self._tensor = array if isinstance(array, torch.Tensor) else torch.as_tensor(np.asarray(array))
        self.device = SimpleNamespace(type="cuda")
        self.shape, self.ndim = self._tensor.shape, self._tensor.ndim

    def detach(self) -> torch.Tensor:
        return self._tensor

    def cpu(self) -> torch.Tensor:
        return self._tensor
