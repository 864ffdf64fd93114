"""Tensors that torch.save wrote, read without torch: its pickle may name tensors and their numbers, nothing else."""

from __future__ import annotations

import io
import math
import os
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truecal.core.types import Array
from truecal.io.array_files import BARE, Entry, ListedZip, open_arrays, zip_members
from truecal.io.column_rules import Request
from truecal.io.failures import failure, parsing, quote
from truecal.io.roles import is_called
from truecal.io.source import Source

LONGEST_PICKLE = 1 << 24  # bytes; those of plain tensors have some hundred for each
BFLOAT16 = "bfloat16"
_DTYPES = {
    "Float": "f4",
    "Double": "f8",
    "Half": "f2",
    "BFloat16": BFLOAT16,
    "Long": "i8",
    "Int": "i4",
    "Short": "i2",
    "Char": "i1",
    "Byte": "u1",
    "Bool": "?",
    "ComplexFloat": "c8",
    "ComplexDouble": "c16",
}
_ODD = ("_rebuild_sparse_tensor", "_rebuild_qtensor", "_rebuild_nested_tensor", "_rebuild_meta_tensor_no_storage")


@dataclass(frozen=True)
class Tensor:
    """A tensor as the file describes it: its numbers stay there until they are asked for; `odd` is no plain one."""

    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    dtype: str = "f4"
    key: str = ""
    offset: int = 0
    odd: str = ""

    @property
    def size(self) -> int:
        """Bytes of one number in the file."""
        return 2 if self.dtype == BFLOAT16 else np.dtype(self.dtype).itemsize

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.size


@dataclass(frozen=True)
class _Storage:
    dtype: str
    key: str


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *_: Any) -> Tensor:
    sizes = (offset, *shape, *strides)
    if not isinstance(storage, _Storage) or len(shape) != len(strides) or len(shape) > 32:
        raise pickle.UnpicklingError("a tensor without numbers")
    if any(type(size) is not int or not 0 <= size < 2**62 for size in sizes):
        raise pickle.UnpicklingError("a tensor of no shape")
    odd = "" if storage.dtype else "of an unknown type of numbers"
    return Tensor(tuple(shape), tuple(strides), storage.dtype or "f4", storage.key, offset, odd)


def _odd(name: str) -> Callable[..., Tensor]:
    return lambda *_: Tensor(odd=name.removeprefix("_rebuild_").removesuffix("_tensor").replace("qtensor", "quantized"))


def _first(found: Any, *_: Any) -> Any:
    """A parameter is its tensor, and a layout its name."""
    return found


class _Reader(pickle._Unpickler):  # its memo is a dict, which a number cannot make grow
    """Builds tensors, lists, dicts, numbers and text; every other name in the pickle is refused, and nothing runs."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if module == "torch._utils":
            if name == "_rebuild_tensor_v2":
                return _tensor
            if name in ("_rebuild_parameter", "_rebuild_parameter_with_state"):
                return _first
            if name in (*_ODD, "_rebuild_tensor_v3"):
                return _odd(name)
        if (module, name) == ("torch", "Size"):
            return tuple
        if (module, name) == ("torch.serialization", "_get_layout"):
            return _first
        if module in ("torch", "torch.storage") and name.endswith("Storage"):
            return _Storage(_DTYPES.get(name.removesuffix("Storage"), ""), "")
        if module == "torch" and name.isidentifier() and name != "load":  # a dtype or a layout, as its name
            return f"torch.{name}"
        raise pickle.UnpicklingError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> _Storage:
        if (
            not isinstance(pid, tuple)
            or len(pid) < 3
            or not isinstance(pid[1], _Storage)
            or not isinstance(pid[2], str)
        ):
            raise pickle.UnpicklingError("a storage of another kind")
        return _Storage(pid[1].dtype, pid[2])


def open_torch(request: Request) -> Source:
    """A tensor, a dict of tensors, or a list of batches."""
    path = request.path
    records = _records(path)
    with parsing(path, "a tensor file"), zipfile.ZipFile(path) as archive:
        (root,) = {name.removesuffix("/data.pkl") for name in records if name.endswith("/data.pkl")}
        big = f"{root}/byteorder" in records and archive.read(f"{root}/byteorder") == b"big"
        with archive.open(f"{root}/data.pkl") as stream:
            code = stream.read(LONGEST_PICKLE + 1)
    if len(code) > LONGEST_PICKLE:
        raise failure(path, "expected tensors, it holds more names than any file of tensors has")
    refused = "tensors as torch.save writes them (anything else is pickled code, which is never run)"
    with parsing(path, refused):
        found = _Reader(io.BytesIO(code)).load()
    tensors = {BARE: found} if isinstance(found, Tensor) else found
    if isinstance(tensors, (list, tuple)):
        tensors = _joined_batches(tensors)
    if not isinstance(tensors, dict) or not tensors:
        raise failure(path, f"expected a tensor or a dict of tensors, got a {type(found).__name__}")
    for name in tensors:
        if not isinstance(name, str):
            raise failure(path, f"expected names as keys of the dict, got a {type(name).__name__}")

    def load(tensor: Tensor) -> Array:
        with parsing(path, "the numbers of tensors"), ListedZip(path) as archive:
            return _numbers(archive.read(records[f"{root}/data/{tensor.key}"]), tensor, big)

    return open_arrays(request, {name: _entry(path, name, one, load) for name, one in tensors.items()})


def _records(path: str) -> dict[str, zipfile.ZipInfo]:
    """The members by name of an uncompressed zip, as torch.save writes it."""
    members = zip_members(path, "a zip archive as torch.save writes (torch 1.6 or later)", "record")
    packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    if packed or sum(member.file_size for member in members) > os.path.getsize(path):
        raise failure(path, "expected an uncompressed archive as torch.save writes, it declares more than it stores")
    return {member.filename: member for member in members}


def _numbers(data: bytes, tensor: Tensor, big: bool) -> Array:
    """The numbers of a tensor from those of its storage."""
    order = ">" if big else "<"
    whole: Array = np.frombuffer(data, dtype=order + ("u2" if tensor.dtype == BFLOAT16 else tensor.dtype))
    last = tensor.offset + sum(step * (size - 1) for step, size in zip(tensor.strides, tensor.shape, strict=True))
    if math.prod(tensor.shape) and not last < len(whole):
        raise ValueError("a tensor reaches beyond its storage")
    steps = tuple(step * whole.itemsize for step in tensor.strides)
    view = np.lib.stride_tricks.as_strided(whole[tensor.offset :], tensor.shape, steps, writeable=False)
    if tensor.dtype == BFLOAT16:  # the upper half of a float32
        return np.asarray((view.astype(np.uint32) << 16).view(np.float32))
    return np.array(view, dtype=whole.dtype.newbyteorder("="), order="C")


def _joined_batches(batches: Sequence[Any]) -> dict[Any, Any]:
    """A list of batches, each a tensor, a dict of tensors or a pair (predictions, labels), as one of each."""
    if all(isinstance(batch, dict) and set(batch) == set(batches[0]) for batch in batches) and batches:
        return {key: [batch[key] for batch in batches] for key in batches[0]}
    pair = batches if len(batches) == 2 and _is_pair(batches) else None
    if pair is not None:
        return {"outputs": pair[0], "labels": pair[1]}
    if batches and all(isinstance(batch, (list, tuple)) and _is_pair(batch) for batch in batches):
        return {"outputs": [batch[0] for batch in batches], "labels": [batch[1] for batch in batches]}
    return {BARE: list(batches)}


def _is_pair(found: Sequence[Any]) -> bool:
    """Whether two tensors are predictions and the labels of the same rows."""
    if len(found) != 2 or not all(isinstance(part, Tensor) and part.shape for part in found):
        return False
    return found[0].shape[0] == found[1].shape[0] and _kind(found[0]) == "f" and _kind(found[1]) != "f"


def _kind(tensor: Tensor) -> str:
    """numpy's letter for its numbers."""
    if tensor.dtype == BFLOAT16:
        return "f"
    return np.dtype(tensor.dtype).kind


def _entry(path: str, name: str, found: Any, load: Callable[[Tensor], Array]) -> Entry:
    where = f"the key {quote(name)}"
    if (
        is_called(name, "classes")
        and isinstance(found, (list, tuple))
        and all(isinstance(v, (str, int)) for v in found)
    ):
        return Entry((len(found),), "U", lambda: np.array([str(v) for v in found]))
    several = isinstance(found, (list, tuple)) and len(found) > 0 and all(isinstance(part, Tensor) for part in found)
    parts = list(found) if several else [found]
    if not isinstance(parts[0], Tensor):
        raise failure(path, f"expected tensors only, {where} holds a {type(found).__name__}")
    for part in parts:
        if part.odd:
            raise failure(path, f"expected plain dense tensors, {quote(name)} is {part.odd}")
    first: Tensor = parts[0]
    if sum(part.nbytes for part in parts) > os.path.getsize(path):
        what = "tensors" if several else "a tensor"
        raise failure(path, f"expected {what} within the file's size, {quote(name)} declares {first.shape}")
    if not several:
        return Entry(first.shape, _kind(first), lambda: load(first), max(4, first.size))
    odd = next((i for i, part in enumerate(parts) if part.shape[1:] != first.shape[1:]), None)
    if odd is not None or len({part.dtype for part in parts}) > 1:
        shapes = f"{first.shape} and batch {odd} has {parts[odd or 0].shape}"
        raise failure(path, f"expected batches of one width in {where}, batch 0 has the shape {shapes}")
    join: Any = np.concatenate if first.shape else np.stack
    shape = (sum(part.shape[0] for part in parts), *first.shape[1:]) if first.shape else (len(parts),)
    return Entry(shape, _kind(first), lambda: np.asarray(join([load(part) for part in parts])), max(4, first.size))


OPENERS = {"torch": (open_torch, b"PK\x03\x04")}
