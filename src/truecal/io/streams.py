"""The bytes of a file, unpacked as they are read where its name ends in .gz or .zst."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import mmap
import os
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import IO, Any, AnyStr, TypeVar, cast

from truecal.io import source
from truecal.io.failures import failure, need, one_line, parsing

PACKED = {".gz": "gzip", ".zst": "zstd"}
_LONGEST_LINE = 1 << 26  # bytes that a last line may have
Batch = TypeVar("Batch")
_WHOLE: ContextVar[tuple[str, int] | None] = ContextVar("_WHOLE", default=None)


def split_member(path: str) -> tuple[str, str | None]:
    """The file and the table or sheet in it that FILE::NAME names; a file of that whole name is itself.

    >>> from truecal.io.streams import split_member
    >>> split_member("runs.db::predictions"), split_member("runs.db")
    (('runs.db', 'predictions'), ('runs.db', None))
    """
    file, mark, member = path.rpartition("::")
    return (file, member) if mark and file and member and not os.path.exists(path) else (path, None)


def split_suffix(path: str) -> tuple[str, str, str | None]:
    """Stem, suffix in lower case, and how the file is packed: 'a/b.csv.gz' gives 'b', '.csv', 'gzip'.

    >>> from truecal.io.streams import split_suffix
    >>> split_suffix("runs/model.CSV.gz"), split_suffix("model.npz")
    (('model', '.csv', 'gzip'), ('model', '.npz', None))
    """
    path, member = split_member(path)
    name = Path(path)
    packed = PACKED.get(name.suffix.lower())
    inner = Path(name.stem) if packed and Path(name.stem).suffix else name
    return member or inner.stem, inner.suffix.lower(), packed


@contextmanager
def whole_lines(path: str) -> Iterator[int | None]:
    """Within the block a text file ends with its last line break: a line that is still being written comes later.

    Yields how many bytes are whole lines, None where nothing is left for later. A last line that is a whole JSON object
    counts without its line break.
    """
    with parsing(path, "lines of text"):
        size, rest = _whole_size(path)
    if not rest or (split_suffix(path)[1] in (".jsonl", ".ndjson") and _is_object(rest)):
        yield None
        return
    token = _WHOLE.set((path, size))
    try:
        yield size
    finally:
        _WHOLE.reset(token)


def _whole_size(path: str) -> tuple[int, bytes]:
    """How many bytes a file has up to its last line break, unpacked, and the bytes after it."""
    size, rest = 0, b""
    with byte_stream(path) as stream:
        if split_suffix(path)[2] is None:
            end = stream.seek(0, os.SEEK_END)
            stream.seek(max(0, end - 1))
            if stream.read(1) in (b"\n", b"\r", b""):
                return end, b""
            size = stream.seek(max(0, end - _LONGEST_LINE))
        while block := stream.read(1 << 20):
            rest += block
            whole = 1 + max(rest.rfind(b"\n"), rest.rfind(b"\r"))
            size, rest = size + whole, rest[whole:]
            if len(rest) > _LONGEST_LINE:
                raise failure(path, f"expected lines of at most {_LONGEST_LINE} bytes, but the last is longer")
    return size, rest


def _is_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _cut(path: str) -> int | None:
    """How many bytes of a file count, where its last line is left for later."""
    cut = _WHOLE.get()
    return cut[1] if cut is not None and cut[0] == path else None


def arrow_file(path: str, mapped: bool = False) -> Any:
    """A file as arrow reads it; arrow opens names in UTF-8 only, the bytes of others are mapped by Python."""
    if _cut(path) is not None:
        return need("pyarrow", "cli", "tables").PythonFile(byte_stream(path), mode="r")
    return _arrow_unpacked(path, mapped)


def _arrow_unpacked(path: str, mapped: bool = False) -> Any:
    pyarrow = need("pyarrow", "cli", "tables")
    packed = split_suffix(path)[2]
    try:
        path.encode()
        file = pyarrow.memory_map(path) if mapped else pyarrow.OSFile(path)
    except UnicodeEncodeError:
        with open(path, "rb") as stream:
            file = pyarrow.BufferReader(mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
    return file if packed is None else pyarrow.CompressedInputStream(file, packed)


def byte_stream(path: str) -> IO[bytes]:
    """A file as Python reads it."""
    stream = _unpacked(path)
    cut = _cut(path)
    return stream if cut is None else cast(IO[bytes], io.BufferedReader(_Beginning(stream, cut)))


def _unpacked(path: str) -> IO[bytes]:
    packed = split_suffix(path)[2]
    if packed == "gzip":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return open(path, "rb") if packed is None else cast(IO[bytes], io.BufferedReader(_arrow_unpacked(path)))


class _Beginning(io.RawIOBase):
    """The first bytes of a stream, as a stream."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._left = stream, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._stream.read(min(len(buffer), self._left))
        buffer[: len(found)] = found
        self._left -= len(found)
        return len(found)

    def close(self) -> None:
        self._stream.close()
        super().close()


def bounded_lines(path: str, stream: IO[AnyStr], longest: int, unit: str) -> Iterator[tuple[int, AnyStr]]:
    """Numbers and lines of a file, none of them longer than a line of its format can be."""
    for number in itertools.count(1):
        try:
            line = stream.readline(longest)
        except (EOFError, OSError, zlib.error) as error:  # an archive that is cut short, or no archive
            raise failure(path, f"line {number} cannot be read as text ({one_line(error, 200)})") from error
        if not line:
            return
        if len(line) == longest:
            raise failure(path, f"expected lines of at most {longest} {unit}, but line {number} is longer")
        yield number, line


def whole(path: str, most: int) -> bytes:
    """All bytes of a file of at most `most`, which does not unpack to much more than it stores."""
    with byte_stream(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise failure(
            path, f"expected at most {most} bytes of text, but it has more: save it as .jsonl, csv or parquet"
        )
    source.check_expansion(path, len(data), os.path.getsize(path), "the text")
    return data


def read_ahead(batches: Iterator[Batch], ahead: int) -> Iterator[Batch]:
    """The same batches; so many are made in another thread while earlier ones are in use."""
    context = copy_context()  # a thread has none of the settings of its caller

    def one() -> Batch | None:
        return context.run(lambda: next(batches, None))

    with ThreadPoolExecutor(1) as reader:
        waiting = deque(reader.submit(one) for _ in range(ahead))
        try:
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(reader.submit(one))
                yield batch
        finally:
            for left in waiting:
                left.cancel()
