"""What the pages of parquet files and the batches of Arrow files unpack to, read before arrow makes room for it."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from truecal.io.failures import parsing
from truecal.io.limits import SMALL, Budget

_RATIOS = {0: 1, 1: 24, 2: 1040, 5: 256, 7: 256}
"""How many times its size a page can unpack to at most, plain or with Snappy, GZIP and LZ4; other codecs know no bound
that helps."""
_MOST_RATIO = 1 << 16
Bytes = mmap.mmap | bytes


@contextmanager
def _mapped(path: str) -> Iterator[Bytes]:
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


# -- parquet -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chunk:
    """A column of a group of rows, as the end of a parquet file describes it."""

    column: int
    name: str
    codec: int
    start: int
    size: int


def column_chunks(path: str) -> list[Chunk]:
    """The columns of all groups of rows; pyarrow would abort where its statistics do not fit a column."""
    found = []
    with parsing(path, "a parquet file"), _mapped(path) as data:
        end = len(data) - 8
        footer, _ = _thrift(data, end - int.from_bytes(data[end : end + 4], "little"))
        for group in footer[4]:
            for j, chunk in enumerate(group[1]):
                about = chunk[3]
                start = min(about[9], about.get(11) or about[9])
                found.append(Chunk(j, about[3][0].decode(), about[4], start, about[7]))
    return found


def check_pages(path: str, chunks: Iterable[Chunk], columns: Sequence[str], budget: Budget) -> None:
    """Charge the largest page of each column, and refuse lists that memory cannot hold."""
    wanted = set(columns)
    large = [c for c in chunks if c.name in wanted and c.size * _RATIOS.get(c.codec, _MOST_RATIO) > SMALL]
    largest: dict[int, int] = {}
    if large:
        with parsing(path, "a parquet file"), _mapped(path) as data:
            for chunk in large:
                most, values = _largest_page(data, chunk)
                budget.check(8 * values, "a group of rows")
                largest[chunk.column] = max(largest.get(chunk.column, 0), most)
    budget.charge(sum(largest.values()), "the largest pages")


def _largest_page(data: Bytes, chunk: Chunk) -> tuple[int, int]:
    """Bytes of the largest page of a column in a group of rows, unpacked, and the number of values in all pages."""
    start, end, most, values = chunk.start, chunk.start + chunk.size, 0, 0
    while start < end:
        header, start = _thrift(data, start)
        inner: dict[int, Any] = next((header[key] for key in (5, 7, 8) if isinstance(header.get(key), dict)), {})
        count = inner.get(1, 0)
        most = max(most, header[2] + 8 * count)
        values += count if 7 not in header else 0
        start += max(1, header[3])
    return most, values


def _varint(data: Bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
        if shift > 63:
            raise ValueError("a number that is too long")


def _zigzag(data: Bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _thrift(data: Bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The values of a structure in Thrift's compact protocol, by their numbers."""
    found: dict[int, Any] = {}
    number = 0
    if depth > 8:
        raise ValueError("structures inside structures")
    while kind := data[at]:
        at += 1
        if kind >> 4:
            number += kind >> 4
        else:
            number, at = _zigzag(data, at)
        if number in found:  # which of them counts is left open
            raise ValueError("a field that is there twice")
        kind &= 0x0F
        found[number], at = (kind == 1, at) if kind < 3 else _value(data, at, kind, depth)  # a boolean is its kind
    return found, at + 1


def _value(data: Bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2, 3):
        return data[at], at + 1
    if kind in (4, 5, 6):
        return _zigzag(data, at)
    if kind == 7:  # a double, which nobody asks for
        return None, at + 8
    if kind == 8:
        size, at = _varint(data, at)
        return data[at : at + size], at + size
    if kind == 9:
        count, kind, at = data[at] >> 4, data[at] & 0x0F, at + 1
        if count == 15:
            count, at = _varint(data, at)
        values = []
        for _ in range(count):
            value, at = _thrift(data, at, depth + 1) if kind == 12 else _value(data, at, kind, depth + 1)
            values.append(value)
        return values, at
    if kind == 12:
        return _thrift(data, at, depth + 1)
    raise ValueError(f"values of kind {kind}")


# -- Arrow -------------------------------------------------------------------------------------------------------------


def check_batches(path: str, is_file: bool, budget: Budget) -> None:
    """Charge what the largest batch of an Arrow file or stream unpacks to, and all of its dictionaries."""
    largest = dictionaries = 0
    with parsing(path, "an arrow file or stream"), _mapped(path) as data:
        for size, is_dictionary in _unpacked(data, is_file):
            dictionaries += size if is_dictionary else 0
            largest = max(largest, 0 if is_dictionary else size)
    budget.charge(largest + dictionaries, "the largest batch")


def _unpacked(data: Bytes, is_file: bool) -> Iterator[tuple[int, bool]]:
    """What each batch unpacks to, 0 where it is not packed; and whether it holds a dictionary."""
    if is_file:
        footer = len(data) - 10 - struct.unpack_from("<i", data, len(data) - 10)[0]
        table = _Table.root(data, footer)
        for field in (2, 3):
            at, count = table.vector(field)
            for i in range(count):
                yield _message(data, struct.unpack_from("<q", data, at + 24 * i)[0])[:2]
        return
    at = 0
    while at + 4 <= len(data):
        size, is_dictionary, at = _message(data, at)
        if at < 0:
            return
        yield size, is_dictionary


class _Table:
    """A table of a flatbuffer."""

    def __init__(self, data: Bytes, at: int) -> None:
        self.data, self.at = data, at
        self.fields = at - struct.unpack_from("<i", data, at)[0]
        self.count = (struct.unpack_from("<H", data, self.fields)[0] - 4) // 2

    @classmethod
    def root(cls, data: Bytes, at: int) -> _Table:
        return cls(data, at + struct.unpack_from("<I", data, at)[0])

    def place(self, field: int) -> int:
        """Where a field is, 0 where it is left out."""
        if field >= self.count:
            return 0
        offset: int = struct.unpack_from("<H", self.data, self.fields + 4 + 2 * field)[0]
        return self.at + offset if offset else 0

    def inner(self, field: int) -> _Table | None:
        at = self.place(field)
        return _Table(self.data, at + struct.unpack_from("<I", self.data, at)[0]) if at else None

    def vector(self, field: int) -> tuple[int, int]:
        """Where the entries of a vector begin, and how many there are."""
        at = self.place(field)
        if not at:
            return 0, 0
        at += struct.unpack_from("<I", self.data, at)[0]
        return at + 4, struct.unpack_from("<I", self.data, at)[0]


def _message(data: Bytes, at: int) -> tuple[int, bool, int]:
    """What the batch of a message unpacks to, whether it is a dictionary, and where the next one is; -1 at the end."""
    size: int = struct.unpack_from("<i", data, at)[0]
    at += 4
    if size == -1:
        size = struct.unpack_from("<i", data, at)[0]
        at += 4
    if size <= 0:
        return 0, False, -1
    message, body = _Table.root(data, at), at + size
    kind, length = message.place(1), message.place(3)
    after = body + (struct.unpack_from("<q", data, length)[0] if length else 0)
    is_dictionary = bool(kind) and data[kind] == 2
    if not kind or data[kind] not in (2, 3):
        return 0, False, max(after, body)
    batch = message.inner(2)
    if is_dictionary and batch is not None:
        batch = batch.inner(1)
    if batch is None or not batch.place(3):
        return 0, is_dictionary, max(after, body)
    first, count = batch.vector(2)
    unpacked = 0
    for i in range(count):
        offset, packed = struct.unpack_from("<qq", data, first + 16 * i)
        if packed >= 8 and body + offset + 8 <= len(data):
            declared = struct.unpack_from("<q", data, body + offset)[0]
            unpacked += packed if declared == -1 else max(0, declared)
    return unpacked, is_dictionary, max(after, body)
