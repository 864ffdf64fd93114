"""Triton's kernels, where they can be used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import torch
from torch import Tensor

Found = TypeVar("Found")

failed: set[torch.device] = set()
"""Devices on which a kernel could not be compiled; torch alone gives the same numbers."""


def kernels_for(reports: Tensor) -> Any:
    """The kernels in Triton, where there are any and the tensor is on the device to which they are sent.

    They add in any order: where torch is told to use deterministic algorithms, torch alone is used.
    """
    if torch.are_deterministic_algorithms_enabled():
        return None
    if not reports.is_cuda or reports.device.index != torch.cuda.current_device() or reports.device in failed:
        return None
    return _kernels(reports.device)


@lru_cache(maxsize=16)
def _kernels(device: torch.device) -> Any:
    """The module of the kernels, if Triton is there and can compile: it also needs a C compiler, and a recent GPU."""
    try:
        fused = importlib.import_module("truecal.sums.torch.fused")
        numbers = torch.zeros(fused.HEAD, dtype=torch.float64, device=device)
        fused.check(
            torch.full((1, 2), 0.5, device=device), torch.zeros(1, dtype=torch.int64, device=device), 1.0, 1.0, numbers
        )
    except Exception:  # whatever Triton's tools raise; torch alone gives the same numbers
        return None
    return fused


def attempt(fused: Any, device: torch.device, work: Callable[[], Found | None]) -> Found | None:
    """The result of work with the kernels; None where one cannot be compiled, after which none is used."""
    try:
        return work()
    except fused.TritonError:
        failed.add(device)
        return None
