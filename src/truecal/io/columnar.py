"""Tables of typed columns: parquet, feather and arrow, read in batches into one array."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from truecal.core.types import Array
from truecal.io.column_rules import INCOMPLETE_OPTION, Request, check_names
from truecal.io.declared import check_batches, check_pages, column_chunks
from truecal.io.failures import FileError, NoRowsError, failure, need, parsing, quote
from truecal.io.label_values import LONGEST_LABEL, Values, as_values, check_texts
from truecal.io.limits import Budget
from truecal.io.prediction_file import Floats
from truecal.io.roles import NUMBER, VECTOR, Forms, Peek
from truecal.io.source import Source, floats
from truecal.io.streams import arrow_file, read_ahead

ROWS_AT_ONCE = 1 << 16
LISTS_AT_ONCE = 1 << 12
FEWEST_COLUMNS = 16  # read in one pass over a file; a wide table takes at most as many passes
MOST_COLUMNS = 100_000
LABEL_BYTES, OBJECT_BYTES = 48, 64  # that a label, and a value of Python, take until they are numbers
_CACHED_ROWS = 1 << 12
PEEKED_ROWS, PEEKED_CELLS, PEEKED_COLUMNS = 1000, 200_000, 32  # looked at, to tell what columns are
_PLAIN = re.compile(r"0|-?[1-9][0-9]{0,17}")  # a whole number as it is usually written


@dataclass(frozen=True)
class Table:
    """A table that has been opened but not read: the types of its columns, and how to read some of them in batches.

    `batches(columns, as_text)` yields the columns of some rows; `as_text` asks for text where the file leaves the
    choice. `passes`: reading some columns costs no more than these, so that a few at a time keep memory low.
    """

    path: str
    types: dict[str, Any]
    batches: Callable[[Sequence[str], bool], Iterator[list[Any]]]
    n_rows: int | None = None  # None: known only after reading
    passes: bool = True
    budget: Budget | None = None  # of what is read of the file; None for rows that are in memory
    by_column: bool = False  # numbers of a column lie side by side, which costs no turning of typed columns
    forms: Forms | None = None  # what the columns hold, where that is known
    peek: Peek | None = None  # the first rows, where batches would cost more
    mixed: Callable[[str, Sequence[str]], Iterator[list[Any]]] | None = None
    """As `batches`, of one column as text and then of others as they are, where a pass costs much."""


def open_table(table: Table, named: bool = True) -> Source:
    """A table as a source, once its columns are as they should be."""
    if not table.types:
        raise failure(table.path, "the table has no columns")
    if len(table.types) > MOST_COLUMNS:
        raise failure(table.path, f"expected at most {MOST_COLUMNS} columns, got {len(table.types)}")

    def numbers(columns: Sequence[str], gaps: bool) -> Floats:
        if len(columns) == 1 and _is_vector(table.types[columns[0]]):
            return _vectors(table, columns[0], gaps)
        matrix = _matrix(table, columns, gaps)
        return matrix[:, 0] if len(columns) == 1 else matrix

    def values(name: str) -> Values:
        soft = _is_vector(table.types[name])
        return as_values(table.path, _vectors(table, name), name) if soft else _label_column(table, name)

    def objects(name: str) -> list[Any]:
        found: list[Any] = []
        for (array,) in table.batches([name], True):
            _charge(table, OBJECT_BYTES * len(array))
            found += _listed(array)
        if not found:
            raise NoRowsError(failure(table.path, "the table has no rows"))
        return found

    def together(label: str, columns: Sequence[str]) -> tuple[Values, Floats] | None:
        try:
            return _labels_and_numbers(table, label, columns)
        except FileError:
            return None

    def peek(names: Sequence[str]) -> dict[str, list[Any]] | None:
        rows = min(PEEKED_ROWS, PEEKED_CELLS // max(1, len(names)))
        if rows < 10:
            return None
        found: dict[str, list[Any]] = {}
        for start in range(0, len(names), PEEKED_COLUMNS):  # a reader of many columns holds a page of each
            few = list(names[start : start + PEEKED_COLUMNS])
            try:
                arrays = next(iter(table.batches(few, True)), [])
            except FileError:  # what is wrong is said where it is read
                return None
            found |= {name: _listed(_spread(array, rows)) for name, array in zip(few, arrays, strict=False)}
        return found

    forms = table.forms or _forms(table)
    both = None if table.mixed is None else together
    seen = table.peek or (peek if table.n_rows != 0 else None)
    return Source(table.path, "column", forms, numbers, values, named, objects=objects, peek=seen, together=both)


def _spread(array: Any, rows: int) -> Any:
    """Some values spread over all, which may be sorted by their labels."""
    step = -(-len(array) // rows)
    return array if step < 2 else array.take(_codes(range(0, len(array), step)))


def _charge(table: Table, size: int) -> None:
    if table.budget is not None:
        table.budget.charge(size, "the labels")


def _listed(array: Any) -> list[Any]:
    """The values of an array as Python has them; equal texts of a dictionary are one object."""
    if not need("pyarrow", "cli", "tables").types.is_dictionary(array.type):
        found: list[Any] = array.to_pylist()
        return found
    codes = array.indices.to_pylist()
    used = sorted({code for code in codes if code is not None})
    texts = dict(zip(used, array.dictionary.take(_codes(used)).to_pylist(), strict=True))
    return [None if code is None else texts[code] for code in codes]


def _codes(used: Any) -> Any:
    pyarrow = need("pyarrow", "cli", "tables")
    codes = np.asarray(used, dtype=np.int64)  # as a buffer: pyarrow.array would load pandas
    return pyarrow.Array.from_buffers(pyarrow.int64(), len(codes), [None, pyarrow.py_buffer(codes)])


def _forms(table: Table) -> Forms:
    """What each column holds."""
    with parsing(table.path, "column types with names in UTF-8"):
        return {
            name: NUMBER if _is_number(kind) else VECTOR if _is_vector(kind) else f"values of type {kind}"
            for name, kind in table.types.items()
        }


def _is_number(kind: Any) -> bool:
    types = need("pyarrow", "cli", "tables").types
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_decimal(kind))


def _is_text(kind: Any) -> bool:
    types = need("pyarrow", "cli", "tables").types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _is_vector(kind: Any) -> bool:
    types = need("pyarrow", "cli", "tables").types
    kind = getattr(kind, "storage_type", kind)
    return (types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)) and _is_number(
        kind.value_type
    )


def _matrix(table: Table, columns: Sequence[str], gaps: bool = False) -> Floats:
    """Columns of numbers as one (n, k) array: some columns, and of these some rows, at a time."""
    for kind in {table.types[name] for name in columns}:
        if not _is_number(kind):
            name = next(name for name in columns if table.types[name] == kind)
            raise failure(table.path, f"expected numbers in column {quote(name)}, its type is {kind}")
    rows = _Rows(table, len(columns), [table.types[name] for name in columns])
    step = max(FEWEST_COLUMNS, -(-len(columns) // FEWEST_COLUMNS)) if table.passes else len(columns)
    for first in range(0, len(columns), step):
        names = columns[first : first + step]
        start = 0
        for arrays in table.batches(names, False):
            start = rows.put_columns(start, _all_numbers(table.path, arrays, names, start, gaps), first)
        rows.end(start)
    return rows.array


def as_numpy(array: Any) -> Array:
    """An arrow array as numpy has it; where that is possible without arrow's own way, which loads pandas."""
    types = need("pyarrow", "cli", "tables").types
    if not array.null_count and (types.is_integer(array.type) or types.is_floating(array.type)):
        return np.from_dlpack(array)
    found: Array = array.to_numpy(zero_copy_only=False)
    return found


def _all_numbers(path: str, arrays: Sequence[Any], names: Sequence[str], start: int, gaps: bool) -> list[Array]:
    """The numbers of several columns; floats that are all there are taken as they lie, thousands at once."""
    types = need("pyarrow", "cli", "tables").types
    kind = arrays[0].type
    if (types.is_float32(kind) or types.is_float64(kind)) and all(a.type == kind and not a.null_count for a in arrays):
        with parsing(path, f"numbers in {len(arrays)} columns"):
            return [np.from_dlpack(array) for array in arrays]
    return [_numbers(path, array, name, start, gaps) for name, array in zip(names, arrays, strict=True)]


def _numbers(path: str, array: Any, name: str, start: int, gaps: bool) -> Array:
    pyarrow = need("pyarrow", "cli", "tables")
    if not gaps:
        _refuse_missing(path, array, name, start)
    with parsing(path, f"numbers in column {quote(name)}"):
        if pyarrow.types.is_decimal(array.type) or array.null_count:  # missing ones become NaN
            array = array.cast(pyarrow.float64())
        values = as_numpy(array)
    return floats(path, values, f"column {quote(name)}")


def _vectors(table: Table, name: str, gaps: bool = False) -> Floats:
    """A column of equally long lists as one (n, k) array."""
    compute = need("pyarrow.compute", "cli", "tables")
    path, where, start = table.path, f"column {quote(name)}", 0
    rows: _Rows | None = None
    for (array,) in table.batches([name], False):
        lists = getattr(array, "storage", array)
        if not gaps:
            _refuse_missing(path, lists, name, start)
        there: Array = lists.is_valid().to_numpy(zero_copy_only=False)
        lengths: Array = as_numpy(compute.list_value_length(lists.drop_null()))
        if len(lengths) == 0 and rows is None:
            start += len(there)  # how wide these rows are, the first list will say
            continue
        if rows is None:
            rows = _Rows(table, int(lengths[0]), [lists.type.value_type])
            rows.put(0, np.full((start, rows.width), np.nan))
        if rows.width == 0:
            raise failure(path, f"row {start} of {where} is an empty list")
        if (lengths != rows.width).any():
            odd = int(np.argmax(lengths != rows.width))
            what = f"row {start + np.flatnonzero(there)[odd]} of {where} has {lengths[odd]}"
            raise failure(path, f"expected {rows.width} values per row as in the first row, {what}")
        with parsing(path, f"lists of numbers in {where}"):
            flat = lists.drop_null().flatten()
        if not gaps:
            _refuse_missing(path, flat, name, start, per_row=rows.width)
        block = as_numpy(flat).reshape(-1, rows.width)
        if not there.all():
            full = np.full((len(there), rows.width), np.nan)
            full[there] = block
            block = full
        start = rows.put(start, block)
    if rows is None:
        raise NoRowsError(failure(path, "the table has no rows"))
    rows.end(start)
    return rows.array


class _Rows:
    """One (n, width) array that batches are written into; it grows where the number of rows is not known."""

    def __init__(self, table: Table, width: int, types: Iterable[Any]) -> None:
        kinds = need("pyarrow", "cli", "tables").types
        # The widest floating type of the columns; whole numbers and decimals count as float64.
        size = max(2 if kinds.is_float16(t) else 4 if kinds.is_float32(t) else 8 for t in types)
        self.path, self.n_rows, self.width, self.row_bytes = table.path, table.n_rows, width, size * width
        self.budget, self.charged = table.budget, 0
        self._check(table.n_rows or 0)
        with parsing(table.path, "a table that fits in memory"):
            order: Literal["C", "F"] = "F" if table.by_column else "C"
            self.array: Array = np.empty((table.n_rows or 0, width), dtype=f"f{size}", order=order)

    def _check(self, count: int) -> None:
        size = count * self.row_bytes
        if self.budget is not None and size > self.charged:
            self.budget.charge(size - self.charged, "the columns of numbers")
            self.charged = size

    def put(self, start: int, block: Array) -> int:
        """Write some rows; the row that comes next."""
        stop = self._reach(start + len(block))
        self.array[start:stop] = block
        return stop

    def put_columns(self, start: int, columns: Sequence[Array], first: int) -> int:
        """Write some columns of some rows, so few at a time that they stay in cache; the row that comes next."""
        stop = self._reach(start + len(columns[0]))
        for row in range(start, stop, _CACHED_ROWS):
            rows = self.array[row : min(row + _CACHED_ROWS, stop)]
            for j, column in enumerate(columns, first):
                rows[:, j] = column[row - start : row - start + len(rows)]
        return stop

    def _reach(self, stop: int) -> int:
        """Enlarge the arrays for rows up to this one."""
        if stop > len(self.array):
            if self.n_rows is not None:
                raise failure(self.path, f"expected {self.n_rows} rows, found more")
            room = stop + len(self.array) // 8
            self._check(room)
            with parsing(self.path, "a table that fits in memory"):  # in place, and by little: joining pieces doubles
                self.array.resize((room, self.width), refcheck=False)
        return stop

    def end(self, count: int) -> None:
        """End these columns; the first ones set the number of rows."""
        if self.n_rows is None:
            self.n_rows = count
            self.array.resize((count, self.width), refcheck=False)
        if count != self.n_rows:
            raise failure(self.path, f"expected {self.n_rows} rows, found {count}")


def _refuse_missing(
    path: str, array: Any, name: str, start: int, per_row: int = 1, hint: str = f": see {INCOMPLETE_OPTION}"
) -> None:
    if array.null_count:
        row = start + int(np.argmax(array.is_null().to_numpy(zero_copy_only=False))) // per_row
        raise failure(path, f"expected a value at row {row}, column {quote(name)}, it is missing{hint}")


def _labels_and_numbers(table: Table, label: str, columns: Sequence[str]) -> tuple[Values, Floats] | None:
    """A column of labels and columns of numbers in one pass over the table; None where some are neither."""
    assert table.mixed is not None
    if label in columns or _is_vector(table.types[label]) or not all(_is_number(table.types[c]) for c in columns):
        return None
    rows = _Rows(table, len(columns), [table.types[name] for name in columns])
    pieces: list[tuple[Array, list[str]]] = []
    start = 0
    for text, *arrays in read_ahead(table.mixed(label, columns), 2):
        _charge(table, LABEL_BYTES * len(text))
        _refuse_missing(table.path, text, label, start)
        coded = text.dictionary_encode()
        pieces.append((as_numpy(coded.indices), coded.dictionary.to_pylist()))
        start = rows.put_columns(start, _all_numbers(table.path, arrays, columns, start, False), 0)
    rows.end(start)
    distinct = {text for _, texts in pieces for text in texts}
    check_texts(table.path, distinct, f"column {quote(label)}")
    plain = all(_PLAIN.fullmatch(text) for text in distinct)  # another spelling of a number may be a name
    kind: Any = np.int64 if plain else object
    named = (np.array([int(text) if plain else text for text in texts], kind)[codes] for codes, texts in pieces)
    return np.concatenate(list(named)), rows.array[:, 0] if len(columns) == 1 else rows.array


def _label_column(table: Table, name: str) -> Values:
    """A column of labels: whole numbers, booleans or text."""
    pieces: list[Array] = []
    start = 0
    for (array,) in table.batches([name], True):
        _charge(table, LABEL_BYTES * len(array))
        pieces.append(_label_piece(table.path, array, name, start))
        start += len(array)
    if start == 0:
        raise NoRowsError(failure(table.path, "the table has no rows"))
    joined = np.concatenate([piece for piece in pieces if len(piece)])
    return joined if joined.dtype == object else as_values(table.path, joined, f"column {quote(name)}")


def _label_piece(path: str, array: Any, name: str, start: int) -> Array:
    pyarrow = need("pyarrow", "cli", "tables")
    types, where = pyarrow.types, f"column {quote(name)}"
    _refuse_missing(path, array, name, start, hint="")
    with parsing(path, f"labels in {where}"):
        if types.is_dictionary(array.type):
            kind = array.type.value_type
            if types.is_string(kind) or types.is_large_string(kind):
                return _texts(path, array, name, start)
            array = array.dictionary_decode()
            _refuse_missing(path, array, name, start, hint="")
        if types.is_decimal(array.type):
            array = array.cast(pyarrow.float64())
        kind = array.type
        if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
            return _texts(path, array.dictionary_encode(), name, start)
    if not (types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind)):
        raise failure(path, f"expected whole numbers or names in {where}, its type is {kind}")
    return as_numpy(array)


def _texts(path: str, coded: Any, name: str, start: int) -> Array:
    """One Python text per different label, not per row."""
    compute = need("pyarrow.compute", "cli", "tables")
    codes = as_numpy(coded.indices)
    used, places = np.unique(codes, return_inverse=True)
    different = coded.dictionary.take(_codes(used))
    if different.null_count:
        _refuse_missing(path, different.take(_codes(places.ravel())), name, start, hint="")
    longest = compute.max(compute.utf8_length(different)).as_py() or 0
    check_texts(path, [] if longest <= LONGEST_LABEL else different.to_pylist(), f"column {quote(name)}")
    texts: Array = np.array([*different.to_pylist(), ""], dtype=object)
    return np.asarray(texts[places.ravel()], dtype=object)


def open_parquet(request: Request) -> Source:
    parquet = need("pyarrow.parquet", "cli", "parquet files")
    path = request.path
    weighed: set[str] = set()
    chunks = cache(partial(column_chunks, path))

    def opened_file(**options: Any) -> Any:
        # Pages are decoded when asked for: buffering a row group ahead would double what a wide table needs.
        return parquet.ParquetFile(arrow_file(path), pre_buffer=False, buffer_size=1 << 16, **options)

    inner: dict[str, tuple[str, str]] = {}
    with parsing(path, "a parquet file"):
        file = opened_file()
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
        counts = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    if min([n_rows, *counts]) < 0 or sum(counts) != n_rows:
        raise failure(
            path, "expected a parquet file, but its row groups do not have the number of rows that it declares"
        )

    def batches(columns: Sequence[str], as_text: bool) -> Iterator[list[Any]]:
        size = LISTS_AT_ONCE if any(_is_vector(types[name]) for name in columns) else ROWS_AT_ONCE
        stored = list(dict.fromkeys(inner.get(name, (name,))[0] for name in columns))
        fresh = [name for name in stored if name not in weighed]
        check_pages(path, chunks(), fresh, request.budget)
        weighed.update(fresh)
        texts = [name for name in columns if as_text and _is_text(types[name])]
        with parsing(path, "a parquet file"):  # texts stay coded: a few bytes may be many long ones
            opened = opened_file(metadata=file.metadata, read_dictionary=texts) if texts else file
            found = opened.iter_batches(batch_size=size, columns=stored, use_threads=False)
        return ([_part(batch, *inner.get(name, (name,))) for name in columns] for batch in checked(path, found))

    types = table_types(path, schema)
    for name in [name for name, kind in types.items() if need("pyarrow", "cli", "tables").types.is_struct(kind)]:
        parts = {f"{name}.{field.name}": field for field in types.pop(name)}  # probability.values, as Spark writes it
        inner |= {part: (name, field.name) for part, field in parts.items()}
        types |= {part: field.type for part, field in parts.items()}
    check_names(path, list(types))
    return open_table(Table(path, types, batches, n_rows, budget=request.budget))


def _part(batch: Any, name: str, inner: str | None = None) -> Any:
    """A column of a batch, or a field of one that has structs."""
    column = batch.column(name)
    return column if inner is None else need("pyarrow.compute", "cli", "tables").struct_field(column, inner)


def table_types(path: str, schema: Any) -> dict[str, Any]:
    with parsing(path, "column names in UTF-8"):  # arrow decodes them when they are asked for
        names, types = list(schema.names), list(schema.types)
    check_names(path, names)
    return dict(zip(names, types, strict=True))


def checked(path: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Batches of whole rows, each checked before its bytes are trusted."""
    iterator = iter(batches)
    while True:
        with parsing(path, "a table that can be read to its end"):
            batch = next(iterator, None)
            if batch is None:
                return
            batch.validate(full=True)
        yield batch


def checked_table(path: str, table: Any) -> Any:
    """A table in memory, once its bytes are known to be as they should be."""
    with parsing(path, "names and text in UTF-8"):
        table.validate(full=True)
    return table


def is_arrow_file(path: str) -> bool:
    """Whether it is an Arrow IPC file, not a stream."""
    with open(path, "rb") as stream:
        magic = stream.read(6)
    if magic[:4] == b"FEA1":
        raise failure(path, "feather version 1 is not supported: save the file again as version 2 (arrow)")
    return magic == b"ARROW1"


def open_arrow(request: Request) -> Source:
    """Arrow IPC files (feather version 2) and streams, told apart by their first bytes."""
    pyarrow = need("pyarrow", "cli", "arrow files")
    path = request.path
    is_file = is_arrow_file(path)
    check_batches(path, is_file, request.budget)
    opened = pyarrow.ipc.open_file if is_file else pyarrow.ipc.open_stream
    with parsing(path, "an arrow file or stream"), arrow_file(path) as stream:
        schema = opened(stream).schema

    def batches(columns: Sequence[str], as_text: bool) -> Iterator[list[Any]]:
        with arrow_file(path, mapped=is_file) as stream:
            with parsing(path, "an arrow file or stream"):
                wanted = [schema.get_field_index(name) for name in columns]
                reader = opened(stream, options=pyarrow.ipc.IpcReadOptions(included_fields=wanted))
                count = reader.num_record_batches if is_file else 0
            for batch in checked(path, (reader.get_batch(i) for i in range(count)) if is_file else reader):
                yield [batch.column(name) for name in columns]
        # Arrow makes room for a whole batch even if it reads few columns into it, and keeps the pages it has touched:
        # without this, pass after pass would fill that room.
        pyarrow.default_memory_pool().release_unused()

    types = table_types(path, schema)
    return open_table(Table(path, types, batches, passes=is_file, budget=request.budget))


OPENERS = {"parquet": (open_parquet, b"PAR1"), "arrow": (open_arrow, b"")}
