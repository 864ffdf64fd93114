"""Files of named arrays: npy, npz, torch and safetensors."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from truecal.core.data import as_array
from truecal.io.columns import (
    CLASSES_NAMES,
    Layout,
    Request,
    check_names,
    find_label,
    find_layout,
    settle,
)
from truecal.io.contents import Contents, as_hits, check_confidence, check_expansion, floats
from truecal.io.failures import failure, listing, need, parsing, quote
from truecal.io.labels import Values, as_values, numbers_if_whole

Array = npt.NDArray[Any]

BARE = "the array"  # stands for the name an array without a name does not have
NPY_MAGIC = b"\x93NUMPY"
LONGEST_NPY_HEADER = 10_000  # characters; a plain array needs about a hundred
LONGEST_SAFETENSORS_HEADER = 10_000_000


@dataclass(frozen=True)
class Entry:
    """One array of a file, described before it is loaded."""

    shape: tuple[int, ...]
    kind: str  # numpy's letter: f, i, u, b, U, ...
    load: Callable[[], Array]


def read_npy(request: Request, with_labels: bool) -> Contents:
    return contents(request, open_npy(request.path), with_labels)


def read_npz(request: Request, with_labels: bool) -> Contents:
    return contents(request, open_npz(request.path), with_labels)


def read_torch(request: Request, with_labels: bool) -> Contents:
    return contents(request, open_torch(request.path), with_labels)


def read_safetensors(request: Request, with_labels: bool) -> Contents:
    return contents(request, open_safetensors(request.path), with_labels)


def contents(request: Request, entries: Mapping[str, Entry], with_labels: bool) -> Contents:
    """Find labels and predictions among the arrays; load only those. `with_labels`: labels come from elsewhere too."""
    if list(entries) == [BARE]:
        return _bare(request, entries[BARE])
    label, label_rule = _label_key(request, entries, with_labels)
    lists = [name for name, entry in entries.items() if len(entry.shape) == 2 and entry.kind in "fiu"]
    numeric = [name for name, entry in entries.items() if len(entry.shape) == 1 and entry.kind == "f"]
    odd = {name: _described(entry) for name, entry in entries.items() if name not in {*lists, *numeric}}
    layout = find_layout(request, list(entries), label=label, numeric=numeric, lists=lists, odd=odd, what="key")
    notes = [] if label is None else [f"labels from the key {quote(label)} ({label_rule})"]
    labels = None if label is None else as_values(request.path, entries[label].load(), f"key {quote(label)}")
    where = "" if label is None else f"key {quote(label)}"
    if layout.kind == "top_label":
        return _top_label(request, entries, Contents(layout, labels=labels, label_where=where, notes=tuple(notes)))
    if len(layout.columns) > 1:
        raise failure(request.path, f"expected one array of predictions, got {listing(layout.columns)}")
    classes, class_notes = _class_names(request, entries)
    matrix = floats(request.path, entries[layout.columns[0]].load(), f"key {quote(layout.columns[0])}")
    return Contents(layout, matrix, classes, labels, where, notes=(*notes, *class_notes))


def _described(entry: Entry) -> str:
    kinds = {"f": "numbers", "i": "whole numbers", "u": "whole numbers", "b": "booleans", "U": "text", "S": "text"}
    return f"it holds {kinds.get(entry.kind, 'something else')} of shape {entry.shape}"


def label_array(request: Request, entries: Mapping[str, Entry]) -> tuple[Values, str]:
    """The labels of a file that may hold nothing else, and where they were."""
    if len(entries) == 1 and request.label_column is None:
        key = next(iter(entries))
    else:
        found, _ = _label_key(request, entries, with_labels=False)
        if found is None:
            raise failure(request.path, f"expected an array called labels, found {listing(entries)}")
        key = found
    where = key if key == BARE else f"key {quote(key)}"
    return as_values(request.path, entries[key].load(), where), where


def _bare(request: Request, entry: Entry) -> Contents:
    """An array without a name: the caller's word, or the default, says what it is."""
    if entry.kind != "f":
        what = f"it holds one array of dtype kind {entry.kind!r} and shape {entry.shape}"
        raise failure(
            request.path, f"expected an array of predictions (floating-point), {what}: labels go to labels= (--labels)"
        )
    for given in (request.label_column, *(request.proba_columns or ())):
        if given is not None:
            raise failure(request.path, f"expected an array named {quote(given)}, it holds one array without a name")
    if request.kind in ("top_label", "choices"):
        raise failure(request.path, f"expected named arrays for kind={request.kind!r}, it holds one without a name")
    scale, sure = settle(request, None, "")
    layout = Layout(scale, (BARE,), sure=sure, note=f"{scale} from the only array of the file")
    return Contents(layout, floats(request.path, entry.load(), BARE))


def _label_key(request: Request, entries: Mapping[str, Entry], with_labels: bool) -> tuple[str | None, str]:
    key = find_label(request, list(entries), "key", weak=not with_labels)
    if key is not None:
        return key, "named by label_column" if request.label_column is not None else "by its name"
    whole = [name for name, entry in entries.items() if len(entry.shape) == 1 and entry.kind in "iu"]
    if len(whole) == 1 and not with_labels and whole[0] not in CLASSES_NAMES:
        return whole[0], "the only array with one whole number per row"
    return None, ""


def _class_names(request: Request, entries: Mapping[str, Entry]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    key = next((name for name in entries if name.lower() in CLASSES_NAMES), None)
    if key is None:
        return None, ()
    values = as_values(request.path, entries[key].load(), f"key {quote(key)}")
    classes = tuple(str(v) for v in values.tolist())
    check_names(request.path, classes, "class")
    return classes, (f"class names from the key {quote(key)}",)


def _top_label(request: Request, entries: Mapping[str, Entry], base: Contents) -> Contents:
    layout, path = base.layout, request.path

    def load(name: str) -> Array:
        array = entries[name].load()
        return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array

    confidence_key = layout.confidence or ""
    confidence = floats(path, load(confidence_key), f"key {quote(confidence_key)}")
    if confidence.ndim != 1:
        raise failure(path, f"expected one confidence per row in {quote(confidence_key)}, got shape {confidence.shape}")
    base = replace(base, confidence=check_confidence(path, confidence, f"key {quote(confidence_key)}"))
    if layout.correct is not None:
        where = f"key {quote(layout.correct)}"
        return replace(base, correct=as_hits(path, as_values(path, load(layout.correct), where), where))
    where = f"key {quote(layout.prediction)}"
    return replace(base, predicted=numbers_if_whole(as_values(path, load(layout.prediction or ""), where)))


def open_npy(path: str) -> dict[str, Entry]:
    with open(path, "rb") as stream:
        shape, fortran, dtype = _npy_header(path, stream, "the file")
        start = stream.tell()
    stored = os.path.getsize(path) - start
    declared = math.prod(shape) * dtype.itemsize
    if declared != stored:
        raise failure(path, f"expected {declared} bytes of data ({dtype}, shape {shape}), the file has {stored}")

    def load() -> Array:
        with parsing(path, "a numpy array"), open(path, "rb") as stream:
            stream.seek(start)
            flat = np.fromfile(stream, dtype=dtype, count=math.prod(shape))
            return flat.reshape(shape, order="F" if fortran else "C")

    return {BARE: Entry(shape, dtype.kind, load)}


def open_npz(path: str) -> dict[str, Entry]:
    with parsing(path, "an npz archive of arrays"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    check_names(path, [member.filename for member in members], "array")
    entries = {}
    for member in members:
        if not member.filename.endswith(".npy"):
            raise failure(path, f"expected arrays only (as numpy.savez writes), found {quote(member.filename)}")
        entries[member.filename.removesuffix(".npy")] = _npz_entry(path, member)
    if not entries:
        raise failure(path, "expected arrays called probs or logits, and labels, the archive is empty")
    return entries


def _npz_entry(path: str, member: zipfile.ZipInfo) -> Entry:
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise failure(path, f"expected plain or deflated arrays, {quote(member.filename)} is packed in another way")
    check_expansion(path, member.file_size, member.compress_size, quote(member.filename))
    with parsing(path, "an npz archive of arrays"), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
        shape, _, dtype = _npy_header(path, stream, quote(member.filename))
        stored = member.file_size - stream.tell()
    declared = math.prod(shape) * dtype.itemsize
    if declared != stored:
        what = f"{quote(member.filename)} ({dtype}, shape {shape})"
        raise failure(path, f"expected {declared} bytes of data in {what}, the archive has {stored}")

    def load() -> Array:
        expected = f"an array in {quote(member.filename)}"
        with parsing(path, expected), zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False, max_header_size=LONGEST_NPY_HEADER)
            stream.read(1)  # reaching the end is what makes zipfile compare the checksum
            return array

    return Entry(shape, dtype.kind, load)


def _npy_header(path: str, stream: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and dtype, from a header that may be hostile: bounded in length, never unpickled."""
    with parsing(path, "a numpy array"):
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise failure(path, f"expected a plain array in {what}, its format version is {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream, max_header_size=LONGEST_NPY_HEADER)
    if dtype.hasobject:
        raise failure(path, f"expected numbers or text in {what}, it holds pickled objects, which are never loaded")
    if dtype.kind not in "fiubUS" or dtype.subdtype is not None:
        raise failure(path, f"expected numbers or text in {what}, got dtype {dtype}")
    if any(not isinstance(size, int) or isinstance(size, bool) or size < 0 for size in shape):
        raise failure(path, f"expected a shape of whole numbers in {what}, got {shape}")
    return shape, fortran, dtype


def open_torch(path: str) -> dict[str, Entry]:
    torch = need("torch", "torch", "torch files")
    _check_torch_archive(path)
    refused = "tensors as torch.save writes them (anything else is pickled code, which is never run)"
    with parsing(path, refused):
        found = torch.load(path, map_location="cpu", weights_only=True)
    tensors = {BARE: found} if isinstance(found, torch.Tensor) else found
    if not isinstance(tensors, dict) or not tensors:
        raise failure(path, f"expected a tensor or a dict of tensors, got a {type(found).__name__}")
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise failure(path, f"expected names as keys of the dict, got {quote(name)}")
        if name.lower() in CLASSES_NAMES and isinstance(tensor, (list, tuple)):
            continue
        if not isinstance(tensor, torch.Tensor):
            raise failure(path, f"expected tensors only, the key {quote(name)} holds a {type(tensor).__name__}")
    return {name: _torch_entry(path, torch, name, tensor) for name, tensor in tensors.items()}


def _check_torch_archive(path: str) -> None:
    """torch.save writes an uncompressed zip; anything else would be parsed by older, less careful code."""
    with parsing(path, "a zip archive as torch.save writes (torch 1.6 or later)"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    check_names(path, [member.filename for member in members], "record")
    size = os.path.getsize(path)
    packed = any(member.compress_type != zipfile.ZIP_STORED for member in members)
    if packed or sum(member.file_size for member in members) > size:
        raise failure(path, "expected an uncompressed archive as torch.save writes, it declares more than it stores")


def _torch_entry(path: str, torch: Any, name: str, tensor: Any) -> Entry:
    if isinstance(tensor, (list, tuple)):  # class names
        return Entry((len(tensor),), "U", lambda: np.array([str(v) for v in tensor]))
    if tensor.layout != torch.strided or tensor.device.type != "cpu" or tensor.is_quantized:
        raise failure(path, f"expected plain dense tensors, {quote(name)} is {tensor.layout} on {tensor.device}")
    if tensor.numel() * tensor.element_size() > os.path.getsize(path):
        raise failure(path, f"expected a tensor within the file's size, {quote(name)} declares {tuple(tensor.shape)}")

    def load() -> Array:
        with parsing(path, f"numbers in {quote(name)}"):
            return as_array(tensor, name)

    kind = "f" if tensor.dtype.is_floating_point else "b" if tensor.dtype == torch.bool else "i"
    return Entry(tuple(tensor.shape), "c" if tensor.dtype.is_complex else kind, load)


def open_safetensors(path: str) -> dict[str, Entry]:
    library = need("safetensors", "torch", "safetensors files")
    _check_safetensors_header(path)
    with parsing(path, "a safetensors file"), library.safe_open(path, framework="numpy") as file:
        # safetensors files have keys() but do not iterate
        described = {name: (file.get_slice(name).get_shape(), file.get_slice(name).get_dtype()) for name in file.keys()}  # noqa: SIM118
    if not described:
        raise failure(path, "expected tensors called probs or logits, and labels, the file has none")
    return {name: _safetensors_entry(path, name, shape, dtype) for name, (shape, dtype) in described.items()}


def _check_safetensors_header(path: str) -> None:
    with open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
    if length > min(LONGEST_SAFETENSORS_HEADER, os.path.getsize(path) - 8):
        raise failure(path, f"expected a safetensors header within the file, it declares {length} bytes")


def _safetensors_entry(path: str, name: str, shape: list[int], dtype: str) -> Entry:
    framework = "pt" if dtype == "BF16" else "numpy"  # numpy has no bfloat16

    def load() -> Array:
        if framework == "pt":
            need("torch", "torch", "bfloat16 tensors")
        library = need("safetensors", "torch", "safetensors files")
        with parsing(path, f"numbers in {quote(name)}"), library.safe_open(path, framework=framework) as file:
            return as_array(file.get_tensor(name), name)

    kind = {"F": "f", "B": "f", "I": "i", "U": "u"}.get(dtype[:1], "V")
    return Entry(tuple(shape), "b" if dtype == "BOOL" else "V" if dtype.startswith("F8") else kind, load)
