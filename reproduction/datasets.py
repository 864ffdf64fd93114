"""The experiments' data: labelled arrays, split once by a seed into training, validation and test."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from truecal.cli.letter import Split, Splits


def nested_subset(n: int, fraction: float, seed: int) -> NDArray[np.intp]:
    """The first ``round(fraction * n)`` rows (at least one) of one seeded permutation of n rows.

    A smaller fraction is always a part of a larger one, and rows that come sorted by class are mixed.
    """
    if not 0 < fraction <= 1:
        raise ValueError(f"a training fraction must be in (0, 1], got {fraction!r}")
    return np.random.default_rng([seed, n]).permutation(n)[: max(1, round(fraction * n))]


def cifar100(folder: str | Path, seed: int = 42) -> Splits:
    """CIFAR-100 from its standard ``cifar-100-python`` folder, images as uint8 (n, 3, 32, 32).

    The official training images stay whole; the official test images are permuted by ``seed``: the first half is
    for validation, the other for test. ``folder`` is that folder or the one that holds it.
    """
    root = Path(folder)
    if not (root / "train").is_file() and (root / "cifar-100-python").is_dir():
        root = root / "cifar-100-python"
    (names,) = _read_plain_pickle(root / "meta", "fine_label_names")
    classes = tuple(name.decode() if isinstance(name, bytes) else str(name) for name in names)
    train, held_out = (_cifar_part(root / part, len(classes)) for part in ("train", "test"))
    validation, test = held_out.cut(seed, len(held_out) // 2)
    return Splits(train, validation, test, classes)


def _cifar_part(path: Path, n_classes: int) -> Split:
    images, given = _read_plain_pickle(path, "data", "fine_labels")
    if not isinstance(images, _Array) or images.value.dtype != np.uint8 or images.value.shape[1:] != (3072,):
        raise ValueError(f"{path}: expected 'data' to be a uint8 array of shape (n, 3072)")
    given = given.value.tolist() if isinstance(given, _Array) else given
    if not isinstance(given, list) or not all(type(label) is int and 0 <= label < n_classes for label in given):
        raise ValueError(f"{path}: expected 'fine_labels' to be a list of integers from 0 to {n_classes - 1}")
    if len(given) != len(images.value):
        raise ValueError(f"{path}: {len(images.value)} images but {len(given)} labels")
    return Split(images.value.reshape(-1, 3, 32, 32), np.asarray(given, dtype=np.intp))


def _read_plain_pickle(path: Path, *keys: str) -> list[Any]:
    """What a pickled dictionary of arrays, lists, numbers and strings, and of nothing else, holds under the keys."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file; expected the cifar-100-python layout (train, test, meta)")
    with path.open("rb") as file:
        try:
            content = _PlainUnpickler(file, encoding="bytes").load()
        except Exception as problem:  # a hostile or damaged file can fail anywhere inside the unpickler
            raise ValueError(f"{path}: not a plain pickle of arrays, lists and strings ({problem})") from problem
    if not isinstance(content, dict):
        raise ValueError(f"{path}: expected a dictionary, found {type(content).__name__}")
    spelt = {key: key if key in content else key.encode() for key in keys}
    for key, spelling in spelt.items():
        if spelling not in content:
            raise ValueError(f"{path}: expected a dictionary with the key {key!r}, found {sorted(map(str, content))}")
    return [content[spelling] for spelling in spelt.values()]


class _Dtype:
    """Stands in for numpy.dtype while unpickling: fixed-width numbers only, so no state can corrupt a real dtype."""

    def __init__(self, code: str | bytes, align: object = False, copy: object = False) -> None:
        text = code.decode() if isinstance(code, bytes) else str(code)
        if text not in {"b1", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"}:
            raise pickle.UnpicklingError(f"arrays of type {text!r} are refused")
        self.value = np.dtype(text)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode() if isinstance(state[1], bytes) else state[1]
        if order not in {"|", "<", ">", "="} or any(part is not None for part in state[2:5]):
            raise pickle.UnpicklingError("structured arrays are not allowed")
        self.value = self.value.newbyteorder(order)  # type: ignore[arg-type]  # a byte order that was checked above


class _Array:
    """Stands in for numpy.ndarray while unpickling: built from its bytes alone."""

    value: NDArray[Any]

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, fortran, raw = state
        self.fill(raw, dtype, shape, "F" if fortran else "C")

    def fill(self, raw: Any, dtype: object, shape: tuple[int, ...], order: Any) -> None:
        if not isinstance(dtype, _Dtype) or not isinstance(raw, bytes | bytearray):
            raise pickle.UnpicklingError("an array must come as its raw bytes and a plain type")
        self.value = np.frombuffer(raw, dtype.value).reshape(shape, order=order).copy()  # writable


_NDARRAY = object()  # names the class in a pickle's opcodes; not callable, so it builds nothing by itself


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    if kind is not _NDARRAY:
        raise pickle.UnpicklingError("only plain arrays are rebuilt")
    return _Array()


def _frombuffer(raw: Any, dtype: object, shape: tuple[int, ...], order: Any, axes: object = None) -> _Array:
    array = _Array()
    array.fill(raw, dtype, shape, order)
    return array


def _encode(text: str, encoding: str) -> bytes:
    """How Python 3 writes bytes into old pickles; only that one encoding is honoured."""
    if encoding not in {"latin1", b"latin1"}:
        raise pickle.UnpicklingError(f"the encoding {encoding!r} is refused")
    return text.encode("latin1")


class _PlainUnpickler(pickle.Unpickler):
    """Knows the handful of names that arrays and strings need, bound to stand-ins; refuses every other name."""

    _KNOWN: dict[tuple[str, str], Any] = {  # noqa: RUF012  (constant by convention)
        ("numpy", "ndarray"): _NDARRAY,
        ("numpy", "dtype"): _Dtype,
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy.core.numeric", "_frombuffer"): _frombuffer,
        ("numpy._core.numeric", "_frombuffer"): _frombuffer,
        ("_codecs", "encode"): _encode,
    }

    def find_class(self, module: str, name: str) -> Any:
        try:
            return self._KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}") from None
