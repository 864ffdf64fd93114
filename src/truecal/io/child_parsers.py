"""Parsers that a file could make abort, in a process of their own: SQLite, DuckDB and Excel workbooks.

The script stands alone: it imports nothing of truecal, so that it starts fast. It reads one line of JSON, answers with
one, and sends a table after it as an Arrow stream. `in_child` of `truecal.io.child` runs it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from typing import Any
from urllib.parse import quote

ROWS = 1 << 16
PEEKED = 1000
LONGEST_CELL = 1 << 20  # bytes of a text in SQLite


Texts = dict[str, tuple[int, str]]
"""For columns of numbers and text: the first row with text, and the text."""


def _typed(cells: list[Any], name: str, start: int, texts: Texts) -> Any:
    """Cells of a column as an array; numbers and text together are text, which is noted."""
    import pyarrow

    if any(isinstance(cell, str) for cell in cells) and not all(isinstance(cell, str | None) for cell in cells):
        row = next(i for i, cell in enumerate(cells) if isinstance(cell, str))
        texts.setdefault(name, (start + row, cells[row][:200]))
        cells = [_text(cell) for cell in cells]
    return pyarrow.array(cells)


def _text(cell: Any) -> str | None:
    return None if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell)


def _column(pieces: list[Any], name: str, texts: Texts) -> Any:
    """The pieces of a column with the one type that all of them have or fit in."""
    import pyarrow

    types = [piece.type for piece in pieces]
    different = {kind for kind in types if not pyarrow.types.is_null(kind)}
    if len(different) <= 1:
        kind = next(iter(different), pyarrow.null())
    elif all(pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) for kind in different):
        kind = pyarrow.float64()
    elif any(pyarrow.types.is_string(kind) for kind in different):
        kind = pyarrow.string()
        i = next(i for i, found in enumerate(types) if found == kind)
        texts.setdefault(name, (sum(map(len, pieces[:i])), str(pieces[i][0].as_py())[:200]))
        pieces = [
            piece if pyarrow.types.is_string(piece.type) else pyarrow.array([_text(v) for v in piece.to_pylist()], kind)
            for piece in pieces
        ]
    else:
        raise ValueError(f"values of several types in the column {name!r}")
    return pyarrow.chunked_array([piece.cast(kind) for piece in pieces], kind)


def _identifier(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _sqlite(task: dict[str, Any]) -> Any:
    """A SQLite database, which nothing is written to, nor beside."""
    import sqlite3

    place = f"file:{quote(task['path'])}?mode=ro{'&immutable=1' if task['immutable'] else ''}"
    database = sqlite3.connect(place, uri=True)
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_CELL)
    database.execute("PRAGMA trusted_schema = OFF")  # views of the file run no functions
    return database


SQLITE_TABLES = (
    "SELECT name, type = 'view' FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
)
DUCKDB_TABLES = "SELECT table_name, table_type = 'VIEW' FROM information_schema.tables WHERE table_schema = 'main'"


def _duckdb(task: dict[str, Any]) -> Any:
    """A DuckDB database, whose views read no other files; nothing is written beside it."""
    import duckdb

    config: dict[str, Any] = {"enable_external_access": "false", "threads": "1", "temp_directory": ""}
    if task["limit"]:
        config["memory_limit"] = f"{max(1 << 20, task['limit'] // 2)}B"
    return duckdb.connect(task["path"], read_only=True, config=config)


def _tables(task: dict[str, Any], database: Any) -> list[list[Any]]:
    listed = SQLITE_TABLES if task["kind"] == "sqlite" else DUCKDB_TABLES
    return [[name, bool(view)] for name, view in database.execute(listed).fetchall()]


def tables(task: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The tables and views of a database, and of the one that is wanted, or the only table, its columns."""
    with closing(OPEN[task["kind"]](task)) as database:
        found = _tables(task, database)
        only = [name for name, view in found if not view]
        wanted: str = task["wanted"] or (only[0] if len(only) == 1 else "")
        about: dict[str, Any] = {"tables": found}
        if wanted not in [name for name, _ in found]:
            return about, None
        cursor = database.execute(f"SELECT * FROM {_identifier(wanted)} LIMIT 0")
        names = [column[0] for column in cursor.description]
        if task["kind"] == "duckdb":
            (about["rows"],) = database.execute(f"SELECT count(*) FROM {_identifier(wanted)}").fetchone()
        peeked, about["odd"] = _peeked(task["kind"], database, wanted, names)
        about["tops"] = [name for name in names for _ in _flat(peeked.select([name])).column_names]
        return about, _flat(peeked)


def _peeked(kind: str, database: Any, table: str, names: Sequence[str]) -> tuple[Any, dict[str, str]]:
    """The first rows, column by column where some column cannot be read; and what is wrong with those."""
    import pyarrow

    arrays, odd = [], {}
    for name in names:
        column, place = _identifier(name), _identifier(table)
        try:
            query = f"SELECT {column} FROM {place} LIMIT {PEEKED}"
            if kind == "duckdb":
                array = database.execute(query).to_arrow_table().column(0).combine_chunks()
            else:
                cells = [cell for (cell,) in database.execute(query)]
                array = _typed(cells, name, 0, {})
                if cells and pyarrow.types.is_null(array.type):
                    there = f"SELECT {column} FROM {place} WHERE {column} IS NOT NULL LIMIT {PEEKED}"
                    array = array.cast(_typed([cell for (cell,) in database.execute(there)], name, 0, {}).type)
        except Exception as error:
            odd[name] = str(error)[:200] or type(error).__name__
            array = pyarrow.nulls(0)
        arrays.append(array)
    rows = max((len(array) for array in arrays), default=0)
    arrays = [array if len(array) == rows else pyarrow.nulls(rows) for array in arrays]
    return pyarrow.Table.from_arrays(arrays, names=list(names)), odd


def _flat(table: Any) -> Any:
    """A table with the fields of structures as columns."""
    import pyarrow

    while any(pyarrow.types.is_struct(kind) for kind in table.schema.types):
        table = table.flatten()
    return table


def rows(task: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Some columns of a table, and only those."""
    import pyarrow

    database = OPEN[task["kind"]](task)
    listed = ", ".join(_identifier(name) for name in task["tops"])
    # Rows of every query in one order: an index that covers some columns would give another.
    order = " NOT INDEXED" if task["kind"] == "sqlite" and not task["view"] else ""
    cursor = database.execute(f"SELECT {listed} FROM {_identifier(task['wanted'])}{order}")
    if task["kind"] == "duckdb":
        reader = (getattr(cursor, "to_arrow_reader", None) or cursor.fetch_record_batch)(ROWS)  # its name until 1.4
        schema = _flat(reader.schema.empty_table()).select(task["columns"]).schema
        found = (_flat(pyarrow.Table.from_batches([batch])).select(task["columns"]) for batch in reader)
        return {}, pyarrow.RecordBatchReader.from_batches(
            schema, (part for table in found for part in table.to_batches(ROWS))
        )
    texts: Texts = {}
    pieces: list[list[Any]] = [[] for _ in task["columns"]]
    start = 0
    while batch := cursor.fetchmany(ROWS):
        for j, name in enumerate(task["columns"]):
            pieces[j].append(_typed([row[j] for row in batch], name, start, texts))
        start += len(batch)
    columns = [_column(found, name, texts) for found, name in zip(pieces, task["columns"], strict=True)]
    return {"texts": texts}, pyarrow.Table.from_arrays(columns, names=task["columns"])


def workbook(task: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """A sheet of a workbook: names in its first row that is not empty, then rows."""
    import pyarrow
    import python_calamine

    book = python_calamine.CalamineWorkbook.from_path(task["path"])
    sheets = list(book.sheet_names)
    wanted = task["wanted"] or (sheets[0] if sheets else None)
    if wanted not in sheets:
        return {"sheets": sheets}, None
    found = [row for row in book.get_sheet_by_name(wanted).to_python() if any(cell != "" for cell in row)]
    about = {"sheets": sheets, "rows": len(found)}
    if len(found) < 2:
        return about, None
    names = [str(cell).strip() for cell in found[0]]
    texts: Texts = {}
    columns = ([None if row[j] == "" else row[j] for row in found[1:]] for j in range(len(names)))
    arrays = [_typed(cells, name, 0, texts) for cells, name in zip(columns, names, strict=True)]
    return {**about, "texts": texts}, pyarrow.Table.from_arrays(arrays, names=names)


OPEN = {"sqlite": _sqlite, "duckdb": _duckdb}
TASKS = {"tables": tables, "rows": rows, "workbook": workbook}


def _limit(size: int) -> None:
    """Let the process take so many bytes more than it has; where the system has no such limit, none is set."""
    with suppress(ImportError, OSError, ValueError, StopIteration):
        import resource

        with open("/proc/self/status") as lines:
            used = 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmSize:")))
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = used + size if hard == resource.RLIM_INFINITY else min(hard, used + size)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _sent(table: Any) -> Iterator[Any]:
    import pyarrow

    yield from table.to_batches(max_chunksize=ROWS) if isinstance(table, pyarrow.Table) else table


def main() -> None:
    """Read a task, send what was found."""
    task = json.loads(sys.stdin.readline())
    sys.path[:] = task["sys_path"]
    import pyarrow

    for module in task["modules"]:
        __import__(module)
    _limit(task["limit"])
    out = sys.stdout.buffer
    try:
        about, table = TASKS[task["task"]](task)
    except Exception as error:
        words = "it needs more memory than may be used" if isinstance(error, MemoryError) else str(error)[:1000]
        about, table = {"error": words or type(error).__name__}, None
    out.write(json.dumps({**about, "table": table is not None}).encode() + b"\n")
    out.flush()
    if table is not None:
        with pyarrow.ipc.new_stream(out, table.schema) as writer:
            for batch in _sent(table):
                writer.write_batch(batch)
        out.flush()


if __name__ == "__main__":
    main()
