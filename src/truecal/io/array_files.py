"""Files of named arrays: npy, npz and safetensors."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import IO, Any

import numpy as np

from truecal.core.data import as_array
from truecal.core.types import Array
from truecal.io.column_rules import CLASS_AXIS_OPTION, Request, check_names
from truecal.io.failures import failure, listing, need, parsing, quote
from truecal.io.label_values import Values, as_values
from truecal.io.prediction_file import Floats
from truecal.io.roles import NUMBER, VECTOR, WHOLE, is_called
from truecal.io.source import Dense, Source, floats

BARE = "the array"  # stands for the name an array without a name does not have
SUMS_TO_ONE = 0.01  # how far from 1 probabilities along the axis of the classes may sum
MOST_ARRAYS = 1000
LONGEST_NPY_HEADER = 10_000  # characters; a plain array needs about a hundred
LONGEST_SAFETENSORS_HEADER = 10_000_000

_MATRICES = (
    "double",
    "single",
    "char",
    "logical",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_KINDS = {"f": "numbers", "i": "whole numbers", "u": "whole numbers", "b": "booleans", "U": "text", "S": "text"}


@dataclass(frozen=True)
class Entry:
    """One array of a file, described before it is loaded."""

    shape: tuple[int, ...]
    kind: str  # numpy's letter: f, i, u, b, U, ...
    load: Callable[[], Array]
    itemsize: int = 8

    @property
    def nbytes(self) -> int:
        """Bytes that reading it takes: whole numbers become doubles, and each text an object."""
        return math.prod(self.shape) * (self.itemsize if self.kind == "f" else 8 + self.itemsize)

    @property
    def form(self) -> str:
        if len(self.shape) == 2 and self.kind in "fiu":
            return VECTOR
        if len(self.shape) == 1 and self.kind in "fiu":
            return NUMBER if self.kind == "f" else WHOLE
        return f"{_KINDS.get(self.kind, 'something else')} of shape {self.shape}"


def flattened(request: Request, entries: Mapping[str, Entry]) -> tuple[dict[str, Entry], Dense | None]:
    """Predictions of pixels or tokens, and their labels, with a row for each; other arrays as they are."""
    found = dict(entries)
    if request.rows is not None:  # labels of predictions whose number of rows is known
        for name, entry in entries.items():
            if len(entry.shape) > 1 and entry.kind in "iub" and math.prod(entry.shape) == request.rows:
                found[name] = Entry((request.rows,), entry.kind, _raveled(entry), entry.itemsize)
    large = {name: entry for name, entry in entries.items() if len(entry.shape) > 2 and entry.kind == "f"}
    if not large:
        return found, None
    first = next(iter(large))
    axis = _class_axis(request, first, large[first], entries)
    shape = large[first].shape
    rows = shape if axis is None else tuple(np.delete(shape, axis).tolist())
    n = math.prod(rows)
    for name, entry in entries.items():
        if name in large and entry.shape == shape:
            flat = (n,) if axis is None else (n, shape[axis])
            found[name] = Entry(flat, "f", _rows_of(entry, axis), entry.itemsize)
        elif entry.shape == rows and entry.kind in "iub":
            found[name] = Entry((n,), entry.kind, _raveled(entry), entry.itemsize)
    return found, Dense(shape, axis, rows)


def _raveled(entry: Entry) -> Callable[[], Array]:
    return lambda: entry.load().ravel()


def _rows_of(entry: Entry, axis: int | None) -> Callable[[], Array]:
    def load() -> Array:
        array = entry.load()
        if axis is None:
            return array.ravel()
        rows = math.prod(np.delete(array.shape, axis).tolist())
        return np.moveaxis(array, axis, -1).reshape(rows, array.shape[axis])

    return load


def _class_axis(request: Request, name: str, entry: Entry, entries: Mapping[str, Entry]) -> int | None:
    """The axis of the classes, None where there is a probability per pixel: as the caller says, by the shape of the
    labels, by the number of class names, or the only one along which everything sums to 1."""
    shape = entry.shape
    wanted = request.class_axis
    if wanted is not None:
        if not -len(shape) <= wanted < len(shape):
            raise request.refuse(f"expected an axis of the shape {shape}, got {CLASS_AXIS_OPTION} {wanted}")
        return wanted % len(shape)
    axes = sorted({0 if len(shape) == 3 else 1, 1, len(shape) - 1})
    labels = [*request.label_shapes, *(e.shape for key, e in entries.items() if key != name and e.kind in "iub")]
    fits = [axis for axis in axes if tuple(np.delete(shape, axis).tolist()) in labels]
    if not fits and shape in labels:
        return None
    if len(fits) != 1:
        names = [e.shape[0] for key, e in entries.items() if is_called(key, "classes") and len(e.shape) == 1]
        fits = [axis for axis in fits or axes if shape[axis] in names] or fits
    if len(fits) != 1:
        array = floats(request.path, entry.load(), quote(name))
        if array.size and array.min() >= 0 and array.max() <= 1:
            off = {axis: float(abs(array.sum(axis=axis, dtype=np.float64) - 1).max()) for axis in fits or axes}
            fits = [axis for axis, value in off.items() if value <= SUMS_TO_ONE]
    if len(fits) != 1:
        where = f"which axis of {quote(name)}, shape {shape}, has the classes"
        raise request.refuse(f"cannot tell {where}: pass {CLASS_AXIS_OPTION}, one of {listing(fits or axes)}")
    return fits[0]


def open_arrays(request: Request, entries: Mapping[str, Entry]) -> Source:
    """The arrays of a file as a source; keys are loaded one by one."""
    path = request.path
    entries, dense = flattened(request, entries)

    def where(name: str) -> str:
        return BARE if name == BARE else f"key {quote(name)}"

    def load(name: str) -> Array:
        request.budget.charge(entries[name].nbytes, where(name))
        return entries[name].load()

    def numbers(names: Sequence[str], gaps: bool) -> Floats:  # gaps are NaN already
        loaded = [floats(path, load(name), where(name)) for name in names]
        if len(loaded) == 1:
            return loaded[0]
        if any(array.shape != loaded[0].shape or array.ndim != 1 for array in loaded):
            raise failure(path, f"expected one number per row in each of {listing(names)}")
        return np.stack(loaded, axis=1)

    def values(name: str) -> Values:
        return as_values(path, load(name), where(name))

    forms = {name: entry.form for name, entry in entries.items()}
    return Source(path, "key", forms, numbers, values, named=list(entries) != [BARE], dense=dense)


def open_npy(request: Request) -> Source:
    path = request.path
    with open(path, "rb") as stream:
        shape, fortran, dtype = _npy_header(path, stream, "the file")
        start = stream.tell()
    _check_size(path, shape, dtype, os.path.getsize(path) - start, "the file")

    def load() -> Array:
        with parsing(path, "a numpy array"), open(path, "rb") as stream:
            stream.seek(start)
            flat = np.fromfile(stream, dtype=dtype, count=math.prod(shape))
            return flat.reshape(shape, order="F" if fortran else "C")

    return open_arrays(request, {BARE: Entry(shape, dtype.kind, load, dtype.itemsize)})


def open_matlab(request: Request) -> Source:
    """The matrices of a .mat file of version 5 to 7; one column, or one row, is one number per row."""
    from scipy.io import loadmat, whosmat

    path = request.path
    with parsing(path, "a MATLAB file of version 7 or earlier (save it with -v7)"):
        declared = whosmat(path)
        plain = {name: math.prod(shape) for name, shape, kind in declared if kind in _MATRICES}
    request.budget.charge(9 * sum(plain.values()), "the matrices")
    with parsing(path, "a MATLAB file of version 7 or earlier (save it with -v7)"):
        found = {name: np.asarray(array) for name, array in loadmat(path, variable_names=list(plain)).items()}
        found = {name: array for name, array in found.items() if not name.startswith("__")}
    flat = {name: array.ravel() if 1 in array.shape and array.ndim == 2 else array for name, array in found.items()}
    arrays = {name: array for name, array in flat.items() if array.dtype.kind in "fiubU"}
    if not arrays:
        raise failure(path, f"expected matrices of numbers, found {listing([name for name, _, _ in declared])}")
    whole = {n: _whole(a) if a.ndim == 1 else a for n, a in arrays.items()}  # MATLAB saves whole numbers as floats
    return open_arrays(request, {n: Entry(a.shape, a.dtype.kind, lambda a=a: a) for n, a in whole.items()})  # type: ignore[misc]


def _whole(array: Array) -> Array:
    whole = array.dtype.kind == "f" and bool((array == np.floor(array)).all()) and bool((abs(array) < 2**53).all())
    return array.astype(np.int64) if whole else array


def label_shapes(labels: Any) -> tuple[tuple[int, ...], ...]:
    """The shapes of arrays of whole numbers that a caller gave as labels, in an .npy or .npz file or as they are."""
    if not isinstance(labels, (str, os.PathLike)):
        return (tuple(labels.shape),) if hasattr(labels, "shape") else ()
    path = os.fsdecode(labels)
    if not os.path.isfile(path) or not path.endswith((".npy", ".npz")):
        return ()
    if path.endswith(".npz"):
        return tuple(entry.shape for entry in npz_entries(path).values() if entry.kind in "iub")
    with open(path, "rb") as stream:
        shape, _, dtype = _npy_header(path, stream, "the file")
    return (shape,) if dtype.kind in "iub" else ()


def open_npz(request: Request) -> Source:
    entries = npz_entries(request.path)
    if not entries:
        raise failure(request.path, "the archive is empty: expected arrays called probs or logits, and labels")
    return open_arrays(request, entries)


def npz_entries(path: str) -> dict[str, Entry]:
    """The arrays of an npz archive by name, described before any is loaded, and checked before it is trusted."""
    entries = {}
    members = zip_members(path, "an npz archive of arrays", "array")
    if len(members) > MOST_ARRAYS:
        raise failure(path, f"expected at most {MOST_ARRAYS} arrays, got {len(members)}")
    with parsing(path, "an npz archive of arrays"), zipfile.ZipFile(path) as archive:
        for member in members:
            if not member.filename.endswith(".npy"):
                raise failure(path, f"expected arrays only (as numpy.savez writes), found {quote(member.filename)}")
            entries[member.filename.removesuffix(".npy")] = _npz_entry(path, archive, member)
    return entries


class ListedZip(zipfile.ZipFile):
    """A zip archive whose members were listed before: reading that list again for each of many takes quadratic time."""

    def _RealGetContents(self) -> None:
        pass


def zip_members(path: str, expected: str, what: str | None = None) -> list[zipfile.ZipInfo]:
    """What a zip archive holds; `what` it is, where every name may stand there only once."""
    with parsing(path, expected), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    if what is not None:
        check_names(path, [member.filename for member in members], what)
    return members


def _npz_entry(path: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Entry:
    name = quote(member.filename)
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise failure(path, f"expected plain or deflated arrays, {name} uses another compression")
    with parsing(path, "an npz archive of arrays"), archive.open(member) as stream:
        shape, _, dtype = _npy_header(path, stream, name)
        stored = member.file_size - stream.tell()
    _check_size(path, shape, dtype, stored, name)

    def load() -> Array:
        with parsing(path, f"an array in {name}"), ListedZip(path) as archive, archive.open(member) as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False, max_header_size=LONGEST_NPY_HEADER)
            stream.read(1)  # reaching the end is what makes zipfile compare the checksum
            return array

    return Entry(shape, dtype.kind, load, dtype.itemsize)


def _check_size(path: str, shape: tuple[int, ...], dtype: np.dtype[Any], stored: int, what: str) -> None:
    declared = math.prod(shape) * dtype.itemsize
    if declared != stored:
        raise failure(path, f"expected {declared} bytes of data ({dtype}, shape {shape}), {what} has {stored}")


def _npy_header(path: str, stream: IO[bytes], what: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and dtype, from a header that may be hostile: bounded in length, never unpickled."""
    with parsing(path, "a numpy array"):
        version = np.lib.format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise failure(path, f"expected a plain array in {what}, its format version is {version}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream, max_header_size=LONGEST_NPY_HEADER)
    if dtype.hasobject:
        raise failure(path, f"expected numbers or text in {what}, but it holds pickled objects, which are never loaded")
    if dtype.kind not in "fiubUS" or dtype.subdtype is not None:
        raise failure(path, f"expected numbers or text in {what}, got dtype {dtype}")
    if any(not isinstance(size, int) or isinstance(size, bool) or size < 0 for size in shape):
        raise failure(path, f"expected a shape of whole numbers in {what}, got {shape}")
    return shape, fortran, dtype


def open_safetensors(request: Request) -> Source:
    path = request.path
    library = need("safetensors", "torch", "safetensors files")
    with open(path, "rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
    if length > min(LONGEST_SAFETENSORS_HEADER, os.path.getsize(path) - 8):
        raise failure(path, f"expected a safetensors header within the file, it declares {length} bytes")
    opened = cache(partial(library.safe_open, path))  # each opening reads the whole header
    with parsing(path, "a safetensors file"):
        file = opened("numpy")
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118  # it does not iterate
        described = {name: (part.get_shape(), part.get_dtype()) for name, part in slices.items()}
    if not described:
        raise failure(path, "the file is empty: expected tensors called probs or logits, and labels")
    return open_arrays(request, {n: _safetensors_entry(path, n, *about, opened) for n, about in described.items()})


def _safetensors_entry(path: str, name: str, shape: list[int], dtype: str, opened: Callable[[str], Any]) -> Entry:
    framework = "pt" if dtype == "BF16" else "numpy"  # numpy has no bfloat16

    def load() -> Array:
        if framework == "pt":
            need("torch", "torch", "bfloat16 tensors")
        with parsing(path, f"numbers in {quote(name)}"):
            return as_array(opened(framework).get_tensor(name), name)

    kind = {"F": "f", "B": "f", "I": "i", "U": "u"}.get(dtype[:1], "V")
    form = "b" if dtype == "BOOL" else "V" if dtype.startswith("F8") else kind
    return Entry(tuple(shape), form, load, 4 if dtype == "BF16" else 8)


OPENERS = {
    **{"npz": (open_npz, b"PK\x03\x04"), "npy": (open_npy, b"\x93NUMPY")},
    **{"safetensors": (open_safetensors, b""), "matlab": (open_matlab, b"MATLAB")},
}
