"""The bytes of a file, unpacked as they are read where its name ends in .gz or .zst."""

from __future__ import annotations

import gzip
import io
import itertools
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, AnyStr, cast

from truecal.io import source
from truecal.io.failures import failure, need

PACKED = {".gz": "gzip", ".zst": "zstd"}


def split_suffix(path: str) -> tuple[str, str, str | None]:
    """Stem, suffix in lower case, and how the file is packed: 'a/b.csv.gz' gives 'b', '.csv', 'gzip'.

    >>> from truecal.io.streams import split_suffix
    >>> split_suffix("runs/model.CSV.gz"), split_suffix("model.npz")
    (('model', '.csv', 'gzip'), ('model', '.npz', None))
    """
    name = Path(path)
    packed = PACKED.get(name.suffix.lower())
    inner = Path(name.stem) if packed and Path(name.stem).suffix else name
    return inner.stem, inner.suffix.lower(), packed


def arrow_file(path: str, mapped: bool = False) -> Any:
    """A file as arrow reads it; arrow opens names in UTF-8 only, the bytes of others are mapped by Python."""
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
    packed = split_suffix(path)[2]
    if packed == "gzip":
        return cast(IO[bytes], gzip.open(path, "rb"))
    return open(path, "rb") if packed is None else cast(IO[bytes], io.BufferedReader(arrow_file(path)))


def bounded_lines(path: str, stream: IO[AnyStr], longest: int, unit: str) -> Iterator[tuple[int, AnyStr]]:
    """Numbers and lines of a file, none of them longer than a line of its format can be."""
    for number in itertools.count(1):
        line = stream.readline(longest)
        if not line:
            return
        if len(line) == longest:
            raise failure(path, f"expected lines of at most {longest} {unit}, line {number} is longer")
        yield number, line


def whole(path: str, most: int) -> bytes:
    """All bytes of a file of at most `most`, which does not unpack to much more than it stores."""
    with byte_stream(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise failure(path, f"expected at most {most} bytes of text, it has more: save it as .jsonl, csv or parquet")
    source.check_expansion(path, len(data), os.path.getsize(path), "the text")
    return data
