"""Tables of typed columns: parquet, feather and arrow, read in pieces into one array."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truecal.io.columns import LABEL_OPTION, Request, check_names, find_label, find_layout
from truecal.io.contents import Contents, as_hits, check_confidence, check_expansion, floats
from truecal.io.failures import failure, need, parsing, quote
from truecal.io.labels import Values, as_values, numbers_if_whole, text_values
from truecal.io.predictions import Floats

Array = npt.NDArray[Any]
Block = tuple[int, int, list[Any]]  # first row, first column, one arrow array per column
Blocks = Callable[
    [Sequence[str], bool], Iterator[Block]
]  # columns, and whether to read them as text where that can be chosen

PIECE_BYTES = 1 << 22  # what is decoded at once beside the result
ROWS_AT_ONCE = 1 << 12
COLUMNS_AT_ONCE = 16  # written together: one column at a time would touch a cache line per number
MOST_COLUMNS = 100_000


@dataclass(frozen=True)
class Table:
    """A table that has been opened but not read: what its columns are, and how to read some of them."""

    path: str
    names: tuple[str, ...]
    types: dict[str, Any]
    n_rows: int | None  # None: known only after reading
    blocks: Blocks


def read_parquet(request: Request, with_labels: bool) -> Contents:
    return contents(request, open_parquet(request.path), with_labels)


def read_arrow(request: Request, with_labels: bool) -> Contents:
    return contents(request, open_arrow(request.path), with_labels)


def contents(request: Request, table: Table, with_labels: bool) -> Contents:
    """Find labels and predictions among the columns; read only those. `with_labels`: labels come from elsewhere too."""
    label = find_label(request, table.names, weak=not with_labels)
    numeric = {name for name, kind in table.types.items() if is_number(kind)}
    lists = {name for name, kind in table.types.items() if is_vector(kind)}
    odd = {name: f"its type is {kind}" for name, kind in table.types.items() if name not in numeric | lists}
    layout = find_layout(request, table.names, label=label, numeric=numeric, lists=lists, odd=odd)
    base = Contents(layout)
    if label is not None:
        rule = "named by label_column" if request.label_column is not None else "by its name"
        note = f"labels from the column {quote(label)} ({rule})"
        labels = label_column(table, label)
        base = replace(base, labels=labels, label_where=f"column {quote(label)}", notes=(note,))
    if layout.kind == "top_label":
        return _top_label(table, base)
    if len(layout.columns) == 1 and is_vector(table.types[layout.columns[0]]):
        return replace(base, matrix=_vectors(table, layout.columns[0]))
    matrix = _matrix(table, layout.columns)
    return replace(base, matrix=matrix[:, 0] if len(layout.columns) == 1 else matrix, classes=layout.classes)


def label_values(request: Request, table: Table) -> tuple[Values, str]:
    """The labels of a file that may hold nothing else, and where they were."""
    only = table.names[0] if len(table.names) == 1 and request.label_column is None else None
    name = only or find_label(request, table.names)
    if name is None:
        raise failure(request.path, f"expected a column called label: name it with {LABEL_OPTION}")
    return label_column(table, name), f"column {quote(name)}"


def _top_label(table: Table, base: Contents) -> Contents:
    layout, path = base.layout, table.path
    name = layout.confidence or ""
    confidence = check_confidence(path, _matrix(table, (name,))[:, 0], f"column {quote(name)}")
    base = replace(base, confidence=confidence)
    if layout.correct is not None:
        where = f"column {quote(layout.correct)}"
        return replace(base, correct=as_hits(path, label_column(table, layout.correct), where))
    return replace(base, predicted=numbers_if_whole(label_column(table, layout.prediction or "")))


def is_number(kind: Any) -> bool:
    types = need("pyarrow", "cli", "tables").types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))


def is_vector(kind: Any) -> bool:
    pyarrow = need("pyarrow", "cli", "tables")
    types = pyarrow.types
    if isinstance(kind, pyarrow.BaseExtensionType):
        return is_vector(kind.storage_type)
    if not (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)):
        return False
    return is_number(kind.value_type)


def _matrix(table: Table, columns: Sequence[str]) -> Floats:
    """Columns of numbers as one (n, k) array, filled piece by piece."""
    for name in columns:
        if not is_number(table.types[name]):
            raise failure(table.path, f"expected numbers in column {quote(name)}, its type is {table.types[name]}")
    dtype = _common_dtype([table.types[name] for name in columns])
    sink = _Sink(table, len(columns), dtype)
    for start, first, arrays in table.blocks(columns, False):
        named = zip(columns[first : first + len(arrays)], arrays, strict=True)
        sink.put(start, first, [_numbers(table.path, array, name, start) for name, array in named])
    return sink.result()


def _vectors(table: Table, name: str) -> Floats:
    """A column of equally long lists as one (n, k) array."""
    kind = table.types[name]
    sink: _Sink | None = None
    for start, _, (array,) in table.blocks([name], False):
        storage = array.storage if hasattr(array, "storage") else array
        _refuse_missing(table.path, storage, name, start)
        lengths = _lengths(storage)
        if len(lengths) == 0:
            continue
        width = int(lengths[0]) if sink is None else sink.width
        if (lengths != width).any():
            row = int(np.argmax(lengths != width))
            what = f"row {start + row} of column {quote(name)} has {lengths[row]}"
            raise failure(table.path, f"expected {width} values per row as in the first row, {what}")
        if width == 0:
            raise failure(table.path, f"expected values in column {quote(name)}, row {start} is an empty list")
        if sink is None:
            storage_kind = kind.storage_type if hasattr(kind, "storage_type") else kind
            sink = _Sink(table, width, _common_dtype([storage_kind.value_type]))
        with parsing(table.path, f"lists of numbers in column {quote(name)}"):
            flat = storage.flatten()
        _refuse_missing(table.path, flat, name, start, per_row=width)
        values = flat.to_numpy(zero_copy_only=False)
        sink.put_rows(start, values.reshape(-1, width))
    if sink is None:
        raise failure(table.path, "expected at least one row, the table has none")
    return sink.result()


def _lengths(lists: Any) -> Array:
    compute = need("pyarrow.compute", "cli", "tables")
    result: Array = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    return result


class _Sink:
    """One array that the pieces of a table are written into; it grows where the number of rows is not known."""

    def __init__(self, table: Table, width: int, dtype: np.dtype[Any]) -> None:
        self.path, self.n_rows, self.width = table.path, table.n_rows, width
        self.filled = 0
        size = (table.n_rows or 0) * width * dtype.itemsize
        check_expansion(table.path, size, os.path.getsize(table.path), "the table")
        with parsing(table.path, "a table that fits in memory"):
            self.array = np.empty((table.n_rows or 0, width), dtype=dtype)

    def put(self, start: int, first: int, columns: Sequence[Array]) -> None:
        """Some columns of some rows."""
        rows = self._rows(start, len(columns[0]))
        for j in range(0, len(columns), COLUMNS_AT_ONCE):
            group = columns[j : j + COLUMNS_AT_ONCE]
            self.array[rows, first + j : first + j + len(group)] = np.stack(group, axis=1)
        self.filled += len(columns[0]) * len(columns)

    def put_rows(self, start: int, values: Array) -> None:
        """Whole rows."""
        self.array[self._rows(start, len(values))] = values
        self.filled += values.size

    def _rows(self, start: int, count: int) -> slice:
        if start + count > len(self.array):
            if self.n_rows is not None:
                raise failure(self.path, f"expected {self.n_rows} rows, found more")
            with parsing(self.path, "a table that fits in memory"):  # in place, and by little: joining pieces doubles
                self.array.resize((start + count + len(self.array) // 8, self.width), refcheck=False)
        return slice(start, start + count)

    def result(self) -> Floats:
        if self.n_rows is None:
            self.array.resize((self.filled // self.width, self.width), refcheck=False)
        if self.filled != self.array.size:
            raise failure(self.path, f"expected {self.array.size} numbers, found {self.filled}")
        return self.array


def _common_dtype(kinds: Iterable[Any]) -> np.dtype[Any]:
    """The widest floating type of the columns; whole numbers and decimals count as float64."""
    types = need("pyarrow", "cli", "tables").types
    sizes = {2 if types.is_float16(k) else 4 if types.is_float32(k) else 8 for k in kinds}
    return np.dtype(f"f{max(sizes)}")


def _numbers(path: str, array: Any, name: str, start: int) -> Array:
    pyarrow = need("pyarrow", "cli", "tables")
    _refuse_missing(path, array, name, start)
    with parsing(path, f"numbers in column {quote(name)}"):
        if pyarrow.types.is_decimal(array.type):
            array = array.cast(pyarrow.float64())
        values: Array = array.to_numpy(zero_copy_only=False)
    return floats(path, values, f"column {quote(name)}")


def _refuse_missing(path: str, array: Any, name: str, start: int, per_row: int = 1) -> None:
    if array.null_count:
        row = start + int(np.argmax(array.is_null().to_numpy(zero_copy_only=False))) // per_row
        raise failure(path, f"expected a value at row {row}, column {quote(name)}, it is missing")


def label_column(table: Table, name: str) -> Values:
    """A column of labels: whole numbers, booleans or text."""
    values = [_label_piece(table.path, arrays[0], name, start) for start, _, arrays in table.blocks([name], True)]
    values = [v for v in values if len(v)]
    if not values:
        raise failure(table.path, "expected at least one row, the table has none")
    where = f"column {quote(name)}"
    joined = np.concatenate(values)
    return joined if joined.dtype == object else as_values(table.path, joined, where)


def _label_piece(path: str, array: Any, name: str, start: int) -> Array:
    pyarrow = need("pyarrow", "cli", "tables")
    types = pyarrow.types
    where = f"column {quote(name)}"
    with parsing(path, f"labels in {where}"):
        if types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if types.is_decimal(array.type):
            array = array.cast(pyarrow.float64())
    _refuse_missing(path, array, name, start)
    kind = array.type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        with parsing(path, f"labels in {where}"):
            texts = array.to_pylist()
        return text_values(path, texts, where)
    if not (types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind)):
        raise failure(path, f"expected whole numbers or names in {where}, its type is {kind}")
    values: Array = array.to_numpy(zero_copy_only=False)
    return values


def open_parquet(path: str) -> Table:
    parquet = need("pyarrow.parquet", "cli", "parquet files")
    with parsing(path, "a parquet file"):
        # Pages are decoded when asked for: buffering a row group ahead would double what a wide table needs.
        file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)
        schema = file.schema_arrow
        names = tuple(schema.names)
        rows = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    _check_columns(path, names)
    if any(count < 0 for count in rows):
        raise failure(path, "expected a parquet file, a row group declares a negative number of rows")

    def blocks(columns: Sequence[str], as_text: bool) -> Iterator[Block]:
        start = 0
        for group, count in enumerate(rows):
            yield from _row_group(path, file, group, columns, start, count)
            start += count

    return Table(path, names, dict(zip(names, schema.types, strict=True)), sum(rows), blocks)


def _row_group(path: str, file: Any, group: int, columns: Sequence[str], start: int, count: int) -> Iterator[Block]:
    """Some columns at a time, so that little more than the result is in memory; one column, some rows at a time."""
    if len(columns) == 1:
        with parsing(path, "a parquet file"):
            batches = file.iter_batches(batch_size=ROWS_AT_ONCE, row_groups=[group], columns=list(columns))
        yield from _in_order(path, batches, columns, start)
        return
    step = max(1, PIECE_BYTES // (8 * max(1, count)))
    for first in range(0, len(columns), step):
        wanted = list(columns[first : first + step])
        with parsing(path, "a parquet file"):
            piece = file.read_row_group(group, columns=wanted, use_threads=False)
            arrays = [piece.column(name).combine_chunks() for name in wanted]
            arrays = [a.chunk(0) if hasattr(a, "chunks") else a for a in arrays]
        if any(len(array) != count for array in arrays):
            raise failure(path, f"expected {count} rows in row group {group}, found another number")
        yield start, first, arrays


def _in_order(path: str, batches: Iterable[Any], columns: Sequence[str], start: int) -> Iterator[Block]:
    """Batches of whole rows, each checked before its bytes are trusted."""
    iterator = iter(batches)
    while True:
        with parsing(path, "a table that can be read to its end"):
            batch = next(iterator, None)
            if batch is None:
                return
            batch.validate(full=True)
            arrays = [batch.column(name) for name in columns]
        yield start, 0, arrays
        start += batch.num_rows


def open_arrow(path: str) -> Table:
    """Arrow IPC files (feather version 2) and streams, told apart by their first bytes."""
    pyarrow = need("pyarrow", "cli", "arrow files")
    with open(path, "rb") as stream:
        magic = stream.read(6)
    if magic[:4] == b"FEA1":
        raise failure(path, "expected feather version 2 (arrow), it is version 1: save it again")
    is_file = magic == b"ARROW1"
    with parsing(path, "an arrow file or stream"), pyarrow.OSFile(path) as stream:
        schema = (pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(stream).schema
        names = tuple(schema.names)
    _check_columns(path, names)
    # Counting first (reading one narrow column) lets the numbers go straight to their place in one array.
    narrow = min(range(len(names)), key=lambda i: (is_vector(schema.types[i]), i))
    counts = [len(arrays[0]) for _, _, arrays in _ipc_blocks(path, [names[narrow]], [narrow], is_file)]

    def blocks(columns: Sequence[str], as_text: bool) -> Iterator[Block]:
        # Some columns at a time, as for parquet; a stream cannot skip what is not wanted, so it is read once.
        step = max(1, PIECE_BYTES // (8 * max([1, *counts]))) if is_file else len(columns)
        for first in range(0, len(columns), step):
            wanted = columns[first : first + step]
            indices = [schema.get_field_index(name) for name in wanted]
            for start, _, arrays in _ipc_blocks(path, wanted, indices, is_file):
                yield start, first, arrays

    return Table(path, names, dict(zip(names, schema.types, strict=True)), sum(counts), blocks)


def _ipc_blocks(path: str, columns: Sequence[str], indices: list[int], is_file: bool) -> Iterator[Block]:
    pyarrow = need("pyarrow", "cli", "arrow files")
    with pyarrow.memory_map(path) if is_file else pyarrow.OSFile(path) as stream:
        with parsing(path, "an arrow file or stream"):
            options = pyarrow.ipc.IpcReadOptions(included_fields=indices)
            reader = (pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream)(stream, options=options)
            count = reader.num_record_batches if is_file else 0
        batches = (reader.get_batch(i) for i in range(count)) if is_file else reader
        yield from _in_order(path, batches, columns, 0)
    # Arrow makes room for a whole batch even if it reads few columns into it, and keeps the pages it has touched:
    # without this, pass after pass would fill that room.
    pyarrow.default_memory_pool().release_unused()


def _check_columns(path: str, names: Sequence[str]) -> None:
    if not names:
        raise failure(path, "expected columns, the table has none")
    if len(names) > MOST_COLUMNS:
        raise failure(path, f"expected at most {MOST_COLUMNS} columns, got {len(names)}")
    check_names(path, names)
