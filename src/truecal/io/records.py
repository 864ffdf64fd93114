"""Records in JSON: one object per line (jsonl), a list of objects, or an object of lists."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from truecal.io.arrays import BARE, Entry, open_arrays
from truecal.io.columnar import Table, open_table
from truecal.io.columns import Request, check_names
from truecal.io.failures import FileError, failure, need, parsing, quote
from truecal.io.harness import LONGEST_LINE, json_lines
from truecal.io.source import Source
from truecal.io.streams import arrow_file, whole

MOST_TEXT = 1 << 28  # bytes of a .json file, which is parsed as a whole


def open_jsonl(request: Request) -> Source:
    """Lines of objects, parsed by arrow; where that fails, a second look finds the line."""
    arrow_json = need("pyarrow.json", "cli", "json files")
    block = min(max(1 << 20, os.path.getsize(request.path) + 1), LONGEST_LINE)
    try:
        with parsing(request.path, "a JSON object on each line"), arrow_file(request.path) as stream:
            table = arrow_json.read_json(stream, arrow_json.ReadOptions(use_threads=False, block_size=block))
    except FileError:
        for _ in json_lines(request):
            pass
        raise
    return _open(request, table)


def open_json(request: Request) -> Source:
    """A list of objects or an object of lists as a table, a list of numbers or of lists of numbers as an array."""
    pyarrow = need("pyarrow", "cli", "json files")
    with parsing(request.path, "JSON"):
        found = json.loads(whole(request.path, MOST_TEXT))
    if isinstance(found, list) and found and all(isinstance(row, dict) for row in found):
        keys = dict.fromkeys(key for row in found for key in row)
        found = {key: [row.get(key) for row in found] for key in keys}
    elif isinstance(found, list) and found:
        with parsing(request.path, "a list of numbers, of equally long lists of numbers, or of objects"):
            array = np.array(found)
        return open_arrays(request, {BARE: Entry(array.shape, array.dtype.kind, lambda: array)})
    if not isinstance(found, dict) or not all(isinstance(column, list) for column in found.values()):
        raise failure(request.path, f"expected a list of objects, or an object of lists, got {quote(found)}")
    with parsing(request.path, "columns of one type and the same length"):
        table = pyarrow.table(found)
    return _open(request, table)


def _open(request: Request, table: Any) -> Source:
    """The table with objects inside objects as columns of their own: {"probs": {"cat": 0.2}} is probs.cat."""
    pyarrow = need("pyarrow", "cli", "json files")
    with parsing(request.path, "names and text in UTF-8"):
        while any(pyarrow.types.is_struct(kind) for kind in table.schema.types):
            table = table.flatten()
        table.validate(full=True)
        types = dict(zip(table.column_names, table.schema.types, strict=True))
        names = table.column_names
    check_names(request.path, names)

    def batches(columns: Sequence[str], as_text: bool) -> Iterator[list[Any]]:
        for batch in table.select(columns).to_batches():
            yield batch.columns

    return open_table(Table(request.path, types, batches, table.num_rows, passes=False))
