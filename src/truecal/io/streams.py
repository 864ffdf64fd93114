"""The bytes of a file, unpacked and decoded as they are read."""

from __future__ import annotations

import io
import itertools
import json
import os
import zlib
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import IO, Any, AnyStr, TypeVar, cast

from truecal.io.containers import arrow_unpacked, as_table, dialect, inside, unpacked
from truecal.io.failures import failure, need, one_line, parsing
from truecal.io.limits import Budget

_LONGEST_LINE = 1 << 26  # bytes that a last line may have
MOST_JSON = 1 << 28  # bytes of a .json file, which is parsed as a whole
Batch = TypeVar("Batch")
_WHOLE: ContextVar[tuple[str, int] | None] = ContextVar("_WHOLE", default=None)


@contextmanager
def whole_lines(path: str) -> Iterator[int | None]:
    """Within the block a text file ends with its last line break: a line that is still being written comes later.

    Yields how many bytes are whole lines, None where nothing is left for later. A last line that is a whole JSON object
    counts without its line break.
    """
    with parsing(path, "lines of text"):
        size, rest = _whole_size(path)
    if not rest or (inside(path).suffix in (".jsonl", ".ndjson") and _is_object(rest)):
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
        if inside(path).packed is None and stream.seekable():
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
    """A file as arrow reads it."""
    found = inside(path)
    if _cut(path) is not None or dialect(path, found) is not None:
        return need("pyarrow", "cli", "tables").PythonFile(byte_stream(path), mode="r")
    return arrow_unpacked(path, found, mapped)


def byte_stream(path: str) -> IO[bytes]:
    """A file as Python reads it: unpacked, text in UTF-8 and without comments."""
    found = inside(path)
    how = dialect(path, found)
    stream = unpacked(path, found)
    stream = stream if how is None else as_table(path, stream, how)
    cut = _cut(path)
    return stream if cut is None else cast(IO[bytes], io.BufferedReader(_Beginning(stream, cut)))


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


def whole_json(
    path: str, budget: Budget, most: int = MOST_JSON, hint: str = "save it as .jsonl, csv or parquet"
) -> Any:
    """What a JSON file holds, of at most a size, once what its values take in memory is charged."""
    with parsing(path, "JSON"), byte_stream(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise failure(path, f"expected at most {most} bytes of text, but it has more: {hint}")
    lists, objects, values = (data.count(mark) for mark in (b"[", b"{", b","))
    budget.charge(len(data) + 72 * lists + 232 * objects + 40 * values, "the text")
    with parsing(path, "JSON"):
        return json.loads(data)


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
