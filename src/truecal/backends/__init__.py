"""Builders of cell sums, one file for each array library."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np

_CUDA = (2, 10, 13)  # how DLPack numbers CUDA, ROCm and managed memory


def on_device(x: Any) -> bool:
    """Whether an array lies in the memory of a GPU, where `truecal.backends.torch` measures it: torch, CuPy, JAX."""
    if isinstance(x, np.ndarray):
        return False
    if hasattr(x, "detach") and hasattr(x, "device"):
        return bool(x.device.type == "cuda")
    if not hasattr(x, "__dlpack_device__"):
        return False
    try:
        return int(x.__dlpack_device__()[0]) in _CUDA
    except Exception:  # what a stranger's object does when it is asked is not known; reading it will say
        return False


def is_tensor(x: Any) -> bool:
    """Whether an array of a sample or a table is a torch tensor, not one of numpy."""
    return not isinstance(x, (np.ndarray, np.generic, float, int))


def namespace(x: Any) -> Any:
    """The library whose functions take the array: torch for a tensor, else numpy."""
    return importlib.import_module("torch") if is_tensor(x) else np


def device_backend() -> Any:
    """`truecal.backends.torch`, which is loaded when the first tensor is measured."""
    return importlib.import_module("truecal.backends.torch")


@cache
def compiled_backend() -> Any:
    """`truecal.backends.numba`, which is loaded when the first large sample is measured; None without numba."""
    try:
        return importlib.import_module("truecal.backends.numba")
    except ImportError:
        return None
