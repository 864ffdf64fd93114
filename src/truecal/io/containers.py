"""The container of a file: packing, suffix of the content, and how text is read."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import mmap
import os
import re
import shlex
import tarfile
import zipfile
from codecs import BOM_UTF16_BE, BOM_UTF16_LE, getincrementaldecoder
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

from truecal.io.failures import failure, listing, need, parsing, quote

FORMATS = {
    **{".npz": "npz", ".npy": "npy", ".json": "json", ".xlsx": "excel", ".mat": "matlab", ".eval": "inspect"},
    **dict.fromkeys((".csv", ".tsv", ".txt", ".arff"), "csv"),
    **dict.fromkeys((".jsonl", ".ndjson", ".jevl"), "jsonl"),
    **dict.fromkeys((".parquet", ".pq"), "parquet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "arrow"),
    **dict.fromkeys((".pt", ".pth"), "torch"),
    **dict.fromkeys((".db", ".sqlite", ".sqlite3", ".duckdb"), "database"),
    ".safetensors": "safetensors",
}
"""The format that each suffix is of."""
TEXT = ("csv", "json", "jsonl")
_FRAME = 'python -c \'import pandas as pd; pd.{read}("{path}").to_csv("{stem}.csv", index=False)\''
_ARRAYS = (
    'python -c \'import h5py, numpy as np; f = h5py.File("{path}"); '
    'np.savez("{stem}.npz", **{{k: v[()] for k, v in f.items() if hasattr(v, "shape")}})\''
)
_LOADED = 'Rscript -e \'x <- load("{path}"); write.csv(get(x[1]), "{stem}.csv", row.names = FALSE)\''
CONVERTED = {
    **dict.fromkeys((".rda", ".rdata"), _LOADED),
    ".rds": 'Rscript -e \'write.csv(readRDS("{path}"), "{stem}.csv", row.names = FALSE)\'',
    **dict.fromkeys((".h5", ".hdf5", ".hdf"), _ARRAYS),
    **{
        suffix: _FRAME.replace("{read}", read)
        for suffix, read in (
            (".dta", "read_stata"),
            (".sav", "read_spss"),
            (".sas7bdat", "read_sas"),
            (".xpt", "read_sas"),
            (".xls", "read_excel"),
            (".ods", "read_excel"),
            (".orc", "read_orc"),
        )
    },
}
"""The line that converts a file of a format that is not read."""
_STARTS = (
    (b"\x93NUMPY", ".npy"),
    (b"PAR1", ".parquet"),
    (b"ARROW1", ".arrow"),
    (b"SQLite format 3\x00", ".sqlite"),
    (b"MATLAB 5.0", ".mat"),
    (b"\x89HDF", ".h5"),
    (b"RDX", ".rda"),
    *((bytes([0x80, version]), ".pkl") for version in (2, 3, 4, 5)),
)
_PACKED = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"BZh", "bz2"), (b"\xfd7zXZ\x00", "xz"))
_OPENERS: dict[str, Callable[[str], Any]] = {"gzip": gzip.open, "bz2": bz2.open, "xz": lzma.open}
_SUFFIXES = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz", ".zip": "zip", ".tar": "tar", ".tgz": "tar"}
_LOOKED = 1 << 20  # bytes that tell encodings and comments
LONGEST = 1 << 24  # characters of a line


class Inside(NamedTuple):
    """The name of what is in a file, its suffix in lower case, how it is packed, and which members are read."""

    stem: str
    suffix: str
    packed: str | None = None
    members: tuple[str, ...] = ()


def split_member(path: str) -> tuple[str, str | None]:
    """The file and the table, sheet or member in it that FILE::NAME names; a file of that whole name is itself.

    >>> from truecal.io.containers import split_member
    >>> split_member("runs.db::predictions"), split_member("runs.db")
    (('runs.db', 'predictions'), ('runs.db', None))
    """
    file, mark, member = path.rpartition("::")
    return (file, member) if mark and file and member and not os.path.exists(path) else (path, None)


def by_name(path: str) -> Inside:
    """What a file is by its name alone."""
    name = Path(path)
    packed = _SUFFIXES.get(name.suffix.lower())
    inner = Path(name.stem) if packed and Path(name.stem).suffix else name
    if packed and inner.suffix.lower() == ".tar":
        inner, packed = Path(inner.stem), "tar"
    return Inside(inner.stem, inner.suffix.lower(), packed)


def inside(path: str) -> Inside:
    """What a file is by its name, or by its first bytes where the name does not tell.

    >>> from truecal.io.containers import inside
    >>> inside("runs/model.CSV.gz")[:3], inside("model.npz")[:3]
    (('model', '.csv', 'gzip'), ('model', '.npz', None))
    """
    path, member = split_member(path)
    plain = by_name(path)
    if (
        (plain.suffix not in FORMATS and plain.suffix not in CONVERTED)
        or plain.packed in ("zip", "tar")
        or os.path.isdir(path)
    ):
        with suppress(OSError, ValueError):
            about = os.stat(path)
            plain = _looked(path, plain, member, about.st_mtime_ns, about.st_size)
    return plain._replace(stem=member) if member and not plain.members else plain


@lru_cache(256)
def _looked(path: str, plain: Inside, member: str | None, *_: int) -> Inside:
    """The container by the first bytes of a file."""
    if os.path.isdir(path):
        members = _parts(path)
        suffix = inside(os.path.join(path, members[0])).suffix if members else ""
        return Inside(Path(path).stem, suffix, "folder" if members else None, members)
    if not os.path.isfile(path):
        return plain
    if plain.packed in ("zip", "tar"):
        names = _members(path, plain.packed)
        names = (member,) if member in names else names
        first = Path(names[0] if names else plain.stem)
        return Inside(first.stem, first.suffix.lower() if len(names) == 1 else "", plain.packed, names)
    with open(path, "rb") as stream:
        start = stream.read(4096)
    packed = plain.packed or next((how for magic, how in _PACKED if start.startswith(magic)), None)
    if packed in _OPENERS:
        with parsing(path, f"a {packed} archive"), unpacked(path, Inside("", "", packed)) as stream:
            start = stream.read(4096)
    found = next((suffix for magic, suffix in _STARTS if start.startswith(magic)), None) or _zipped(path, start)
    if found is None and not set(start) & {*range(1, 9), *range(14, 27)} and re.search(rb"[,;\t|\[{]", start):
        text = start.replace(b"\x00", b"").decode("latin-1").lstrip("\xef\xbb\xbf\xff\xfe \t\r\n")
        found = ".arff" if text[:9].lower() == "@relation" else ".json" if text[:1] in ("[", "{") else ".csv"
        found = ".jsonl" if re.match(r"\{[^\n]*\}\s*\n\s*\{", text) else found
    return Inside(Path(path).stem, found or plain.suffix, packed)


def _zipped(path: str, start: bytes) -> str | None:
    if not start.startswith(b"PK\x03\x04") or not zipfile.is_zipfile(path):
        return None
    names = zipfile.ZipFile(path).namelist()
    if all(name.endswith(".npy") for name in names):
        return ".npz"
    return ".xlsx" if "xl/workbook.xml" in names else ".pt" if any(n.endswith("data.pkl") for n in names) else None


def _members(path: str, packed: str) -> tuple[str, ...]:
    """The files in an archive that may hold predictions."""
    with parsing(path, f"a {packed} archive"):
        if packed == "zip":
            with zipfile.ZipFile(path) as archive:
                names = [member.filename for member in archive.infolist() if not member.is_dir()]
        else:
            with tarfile.open(path) as tape:
                names = [member.name for member in tape.getmembers() if member.isfile()]
    shown = [name for name in names if not Path(name).name.startswith((".", "_")) and "__MACOSX" not in name]
    return tuple([n for n in shown if Path(n).suffix.lower() in FORMATS] or shown)


def _parts(folder: str) -> tuple[str, ...]:
    """The text files of a folder that are parts of one table: their names differ by numbers alone."""
    names = sorted(n for n in os.listdir(folder) if not n.startswith((".", "_")) and os.path.isfile(f"{folder}/{n}"))
    tables = [n for n in names if FORMATS.get(inside(os.path.join(folder, n)).suffix) in ("csv", "jsonl")]
    alike = {re.sub(r"[0-9]+|(?<=-)[0-9a-f-]{20,}", "#", name) for name in tables}
    return tuple(tables) if len(alike) == 1 < len(tables) == len(names) else ()


def check_members(path: str, found: Inside) -> None:
    """Refuse archives of several files, and arrays and workbooks in archives."""
    if found.packed not in ("zip", "tar", "gzip", "zstd", "bz2", "xz"):
        return
    if found.packed in ("zip", "tar") and len(found.members) != 1:
        how = (
            ""
            if not found.members
            else f": name one, such as {shlex.quote(f'{split_member(path)[0]}::{found.members[0]}')}"
        )
        raise failure(path, f"expected an archive of one file, found {listing(found.members)}{how}")
    if found.suffix in FORMATS and FORMATS[found.suffix] not in TEXT:
        raise failure(path, f"only text is read from archives: unpack it, and name the {found.suffix} file")


def said(path: str) -> tuple[str, ...]:
    """Notes on how a file was read."""
    found = inside(path)
    how = dialect(path, found)
    notes = [f"one table in {len(found.members)} files: {listing(found.members)}"] if found.packed == "folder" else []
    notes += [f"the text is in {how.encoding}, not in UTF-8"] if how and how.encoding != "utf-8-sig" else []
    return tuple(notes)


def unpacked(path: str, found: Inside) -> IO[bytes]:
    """The bytes of the only file in an archive, of the parts of a folder, or of a file as it is."""
    path, _ = split_member(path)
    if found.packed == "folder":
        return _stream(_joined(path, found.members))
    if found.packed in _OPENERS:
        return cast(IO[bytes], _OPENERS[found.packed](path))
    if found.packed == "zstd":
        return cast(IO[bytes], io.BufferedReader(arrow_unpacked(path, found)))
    if found.packed is None:
        return open(path, "rb")
    with parsing(path, f"a {found.packed} archive"):
        if found.packed == "zip":
            return zipfile.ZipFile(path).open(found.members[0])
        return _stream(_taped(path, found.members[0]))


def _taped(path: str, name: str) -> Generator[bytes]:
    with tarfile.open(path) as tape, cast(IO[bytes], tape.extractfile(name)) as stream:
        while block := stream.read(1 << 20):
            yield block


def arrow_unpacked(path: str, found: Inside, mapped: bool = False) -> Any:
    """A file as arrow reads it; arrow opens names in UTF-8 only, the bytes of others are mapped by Python."""
    pyarrow = need("pyarrow", "cli", "tables")
    if found.packed not in (None, "gzip", "zstd", "bz2"):
        return pyarrow.PythonFile(unpacked(path, found), mode="r")
    try:
        path.encode()
        file = pyarrow.memory_map(path) if mapped else pyarrow.OSFile(path)
    except UnicodeEncodeError:
        with open(path, "rb") as stream:
            file = pyarrow.BufferReader(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    return file if found.packed is None else pyarrow.CompressedInputStream(file, found.packed)


def _joined(folder: str, members: Sequence[str]) -> Generator[bytes]:
    """The lines of text files one after the other, the header once."""
    first = b""
    for name in members:
        path = os.path.join(folder, name)
        with unpacked(path, inside(path)) as stream:
            head = stream.readline(LONGEST)
            first = first or head
            if head != first and path.endswith(".csv") and not re.search(rb"[0-9]", head):
                raise failure(path, f"expected the header of {quote(members[0])}, got {quote(head)}")
            yield head if name == members[0] or head != first or head[:1] in b"{[" else b"\n"
            while block := stream.read(1 << 20):
                yield block
            yield b"\n"


# -- text --------------------------------------------------------------------------------------------------------------


class Dialect(NamedTuple):
    """How text is written, where it is not UTF-8 with a table alone."""

    encoding: str
    arff: bool = False
    header: bool = False  # the last comment before the table names its columns


def dialect(path: str, found: Inside) -> Dialect | None:
    """The encoding of a text file and whether it has comments; None where it is UTF-8 without any."""
    if FORMATS.get(found.suffix) not in TEXT:
        return None
    with suppress(OSError, ValueError):
        about = os.stat(split_member(path)[0])
        return _dialect(path, found, about.st_mtime_ns, about.st_size)
    return None


@lru_cache(256)
def _dialect(path: str, found: Inside, *_: int) -> Dialect | None:
    try:
        with unpacked(path, found) as stream:
            start = stream.read(_LOOKED)
    except Exception:  # an archive that is cut short: reading it gives the message
        return None
    encoding = "utf-8-sig"
    if start.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        encoding = "utf-16"
    elif b"\x00" in start[:4096]:
        return None
    else:
        try:
            getincrementaldecoder("utf-8")().decode(start)
        except UnicodeDecodeError:
            encoding = "cp1252"
    text = start.decode(encoding, "replace").lstrip()
    if encoding == "cp1252" and any(ord(c) < 32 and c not in "\t\r\n\f" for c in text):
        return None
    arff, lines = found.suffix == ".arff", list(text.splitlines()[:200])
    if FORMATS[found.suffix] != "csv" or not (text.startswith("#") or text[:4].lower() == "sep=" or arff):
        return None if encoding == "utf-8-sig" else Dialect(encoding)
    row = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")), 0)
    cells = [[len(lines[i].split(mark)) for mark in ",;\t|"] for i in (row - 1, row)] if row else [[], []]
    named = bool(row) and cells[0] == cells[1] and max(cells[0]) > 1 and not _are_numbers(lines[row - 1])
    return Dialect(encoding, arff, named and _are_numbers(lines[row]))


def _are_numbers(line: str) -> bool:
    return re.fullmatch(r"[-+0-9.eE,;|\s]*", line.lstrip("# ")) is not None


def as_table(path: str, stream: IO[bytes], how: Dialect) -> IO[bytes]:
    """The same text as UTF-8, with blank lines in the place of comments."""

    def made() -> Generator[bytes]:
        with io.TextIOWrapper(stream, how.encoding, errors="replace", newline="") as text:
            lines = iter(lambda: text.readline(LONGEST), "")
            yield from (line.encode() for line in (_arff(path, lines) if how.arff else _uncommented(lines, how.header)))

    return _stream(made())


def _uncommented(lines: Iterator[str], header: bool) -> Iterator[str]:
    last, begun = "", False
    for line in lines:
        if line.startswith("#") or (not begun and line[:4].lower() == "sep="):
            if header and not begun:  # known only once the next line is there
                yield "\n" if last else ""
                last = line
            else:
                yield "\n"
            continue
        if last and not begun:
            yield last.lstrip("# ")
        begun = begun or bool(line.strip())
        yield line


def _arff(path: str, lines: Iterator[str]) -> Iterator[str]:
    """The data of an attribute-relation file as a table with a header."""
    names: list[str] = []
    for line in lines:
        if (found := re.match(r"\s*@attribute\s+('(?:[^'\\]|\\.)*'|\"[^\"]*\"|\S+)", line, re.IGNORECASE)) is not None:
            names.append(found[1].strip("'\""))
        if re.match(r"\s*@data", line, re.IGNORECASE):
            yield _row(names)
            break
        yield "\n"
    for line in lines:
        if line.startswith("{"):
            raise failure(path, "expected a dense ARFF file, this one is sparse: save it as csv")
        if line.startswith("%") or not line.strip():
            yield "\n"
            continue
        quoted = csv.reader([line], quotechar="'" if "'" in line else '"', escapechar="\\", skipinitialspace=True)
        yield _row(["" if cell.strip() == "?" else cell.strip() for cell in next(quoted)])


def _row(cells: Sequence[str]) -> str:
    made = io.StringIO()
    csv.writer(made, lineterminator="\n").writerow(cells)
    return made.getvalue()


def _stream(pieces: Generator[bytes]) -> IO[bytes]:
    return cast(IO[bytes], io.BufferedReader(_Pieces(pieces)))


class _Pieces(io.RawIOBase):
    """Bytes as they are made, as a stream."""

    def __init__(self, pieces: Generator[bytes]) -> None:
        self._pieces, self._left = pieces, b""

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._pieces.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = piece
        found, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(found)] = found
        return len(found)
