"""Operations on numpy arrays and torch tensors, and backends that are loaded when they are needed."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
HOST: Any = (np.ndarray, np.generic, float, int)  # what numpy holds; anything else that is measured is a tensor
_CUDA = (2, 10, 13)  # how DLPack numbers CUDA, ROCm and managed memory


def on_device(x: Any) -> bool:
    """Whether an array lies in the memory of a GPU, where `truecal.sums.torch` measures it: torch, CuPy, JAX."""
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


def on_cpu(x: Any) -> Any:
    """An array where numpy can read it: one in the memory of a GPU is copied, anything else stays as it is."""
    return device_backend().on_cpu(x) if not isinstance(x, HOST) and on_device(x) else x


class _Libraries(dict[type, Any]):
    """The library whose functions take an array, by the type of the array: torch for a tensor, else numpy."""

    def __missing__(self, kind: type) -> Any:
        self[kind] = np if issubclass(kind, HOST) else importlib.import_module("torch")
        return self[kind]


LIBRARY = _Libraries()


def doubled(x: Any, *, copy: bool = False) -> Any:
    """Numbers as float64, copied where asked for."""
    return x.to(LIBRARY[type(x)].float64, copy=copy) if not isinstance(x, HOST) else x.astype(np.float64, copy=copy)


def row_products(a: Any, b: Any) -> Any:
    """Σ_j a_ij b_ij of each row, in float64."""
    if not isinstance(a, HOST):
        return LIBRARY[type(a)].linalg.vecdot(doubled(a), doubled(b))
    return np.einsum("ij,ij->i", a, b, dtype=np.float64)


def top_class_and_value(x: Any) -> tuple[Any, Any]:
    """Index (the lowest on ties) and value of the largest entry of each row; (n,) are those of class 1 of two."""
    if not isinstance(x, HOST) and x.ndim == 1:
        return (x > 1 - x).long(), LIBRARY[type(x)].maximum(x, 1 - x)
    if not isinstance(x, HOST):
        value, index = x.max(1)
        return index, value
    found: tuple[Any, Any] = importlib.import_module("truecal.core.row_kernels").top_class_and_value(x)
    return found


def median(x: Any) -> Any:
    """The median of a vector, half-way between the two in the middle."""
    if isinstance(x, HOST):
        return np.median(x)
    ordered = x.sort().values
    return (ordered[(len(x) - 1) // 2] + ordered[len(x) // 2]) / 2


def at_columns(x: Any, columns: Any) -> Any:
    """The entry of each row in its column."""
    return x[LIBRARY[type(x)].arange(len(x), device=columns.device), columns]


def indices(x: Any) -> Any:
    """Whole numbers or bools of any width as indices."""
    return x.long() if not isinstance(x, HOST) else x.astype(np.intp)


def run_sums(x: Any, starts: Any) -> Any:
    """Sums over runs of the last axis, each from its start to the next one's."""
    return device_backend().run_sums(x, starts) if not isinstance(x, HOST) else np.add.reduceat(x, starts, axis=-1)


def ones(n: int, other: Any) -> Any:
    """So many ones in float64, beside another array: one number, read again and again."""
    if isinstance(other, HOST):
        return np.broadcast_to(np.ones(1), n)
    return other.new_ones(1, dtype=LIBRARY[type(other)].float64).expand(n)


def sorted_values(x: Any) -> Any:
    """A vector in order."""
    return x.sort().values if not isinstance(x, HOST) else np.sort(x)


def places_among(ordered: Any, values: Any, *, right: bool = False) -> Any:
    """Where values would go in a sorted vector: before their equals, or after them."""
    if not isinstance(ordered, HOST):
        return LIBRARY[type(ordered)].searchsorted(ordered, values.contiguous(), right=right)
    return np.searchsorted(ordered, values, side="right" if right else "left")


def cell_totals(cell: Any, values: Any, m: int) -> Array:
    """(values, m) sums of several vectors by cell, as an array of numpy."""
    if not isinstance(cell, HOST):
        return device_backend().cell_totals(cell, values, m)  # type: ignore[no-any-return]  # a module loaded by name
    if len(values) == 1:
        return np.bincount(cell, values[0], m)[None]
    return np.array([np.bincount(cell, each, m) for each in values])


def to_device_of(array: Any, other: Any) -> Any:
    """An array of numpy as one of the library of another, where that lies."""
    return device_backend().like(array, other) if not isinstance(other, HOST) else array


def device_backend() -> Any:
    """`truecal.sums.torch`, which is loaded when the first tensor is measured."""
    return importlib.import_module("truecal.sums.torch")


@cache
def compiled_loops(part: str = "") -> Any:
    """Loops compiled by numba, of `truecal.sums.compiled` or of a part such as "_order"; None without numba.

    They are loaded when the first large sample needs them.
    """
    try:
        return importlib.import_module(f"truecal.sums.compiled{part}")
    except (ImportError, OSError):  # its library may not fit into the memory that is left
        return None
