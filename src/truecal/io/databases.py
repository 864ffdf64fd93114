"""Tables inside other files: SQLite and DuckDB databases, and sheets of Excel workbooks. FILE::NAME names one."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from truecal.io.array_files import zip_members
from truecal.io.child import in_child
from truecal.io.column_rules import Request, check_names
from truecal.io.columnar import Table, checked_table, open_table
from truecal.io.containers import split_member
from truecal.io.failures import NoRowsError, failure, listing, need, parsing, quote
from truecal.io.roles import scale_of
from truecal.io.source import Source
from truecal.io.text_tables import open_flat

SQLITE = b"SQLite format 3\x00"
DUCKDB = b"DUCK"  # at byte 8
_EXPECTED = {"sqlite": "a SQLite database", "duckdb": "a DuckDB database"}


def open_database(request: Request) -> Source:
    """One table or view of a SQLite or DuckDB database, opened for reading only; of its columns those are read that
    the rules choose."""
    need("pyarrow", "cli", "databases")
    path, wanted = split_member(request.path)
    with open(path, "rb") as stream:
        start = stream.read(16)
    if start == SQLITE:
        kind = "sqlite"
        need("sqlite3", "cli", "SQLite databases")  # some builds of Python come without
    elif start[8:12] == DUCKDB:
        kind = "duckdb"
        need("duckdb", "duckdb", "DuckDB databases")
    else:
        raise request.refuse("expected a SQLite or DuckDB database, but it does not start like one")
    about, peeked = _ask(request, kind, "tables", wanted=wanted)
    name = _chosen(request, [(name, view) for name, view in about["tables"]], wanted, "table")
    if peeked is None or not peeked.num_columns:
        raise request.refuse(f"the table {quote(name)} has no columns")
    odd, tops = about["odd"], dict(zip(peeked.column_names, about["tops"], strict=True))
    view = dict(map(tuple, about["tables"]))[name]
    held: list[Any] = []
    check_names(request.path, peeked.column_names)
    peeked = checked_table(request.path, peeked)

    def rows(columns: list[str]) -> Any:
        above = list(dict.fromkeys(tops[column] for column in columns))
        asked = {"wanted": name, "view": view, "columns": columns, "tops": above}
        found, table = _ask(request, kind, "rows", **asked)
        _refuse_texts(request, found.get("texts", {}))
        return checked_table(request.path, table)

    def batches(columns: Sequence[str], as_text: bool) -> Iterator[list[Any]]:
        for column in columns:
            if tops[column] in odd:
                raise request.refuse(f"the column {quote(column)} cannot be read ({odd[tops[column]]})")
        if view and not held:  # a query that is run again may give its rows in another order
            held.append(rows([column for column in tops if tops[column] not in odd]))
        table = held[0].select(list(columns)) if held else rows(list(columns))
        for batch in table.to_batches():
            yield batch.columns

    def peek(names: Sequence[str]) -> dict[str, list[Any]]:
        return {name: peeked.column(name).to_pylist() for name in names}

    types = dict(zip(peeked.column_names, peeked.schema.types, strict=True))
    opened = Table(request.path, types, batches, about.get("rows"), passes=False, budget=request.budget, peek=peek)
    return open_table(opened)


def _refuse_texts(request: Request, texts: Mapping[str, tuple[int, str]]) -> None:
    """Refuse text among the numbers of a column whose name, or the caller, says that it holds numbers."""
    for column, (row, text) in texts.items():
        if scale_of(column) is not None or column in (request.proba_columns or ()):
            place = f"row {row}, column {quote(column)}"
            raise request.refuse(f"expected a number at {place}, got the text {quote(text)}")


def _ask(request: Request, kind: str, task: str, **options: Any) -> tuple[dict[str, Any], Any]:
    path, _ = split_member(request.path)
    with _settled(path) if kind == "sqlite" else _as_it_is(path) as (place, immutable):
        asked = {"kind": kind, "path": place, "immutable": immutable, **options}
        modules = ("duckdb",) if kind == "duckdb" else ("sqlite3",)
        return in_child(request.path, _EXPECTED[kind], request.budget, task, modules=modules, **asked)


@contextmanager
def _as_it_is(path: str) -> Iterator[tuple[str, bool]]:
    yield str(Path(path).absolute()), True


@contextmanager
def _settled(path: str) -> Iterator[tuple[str, bool]]:
    """A SQLite database that nothing is written beside: itself, or a copy where changes wait in another file."""
    waiting = [f"{path}{end}" for end in ("-wal", "-journal")]
    waiting = [file for file in waiting if os.path.exists(file) and os.path.getsize(file)]
    if not waiting:
        yield str(Path(path).absolute()), True
        return
    with tempfile.TemporaryDirectory(prefix="truecal-") as folder:
        copy = Path(folder, "copy")
        with parsing(path, "a database that can be copied"):
            for file in (path, *waiting):
                shutil.copyfile(file, f"{copy}{file.removeprefix(path)}")
        yield str(copy), False


def open_workbook(request: Request) -> Source:
    """A sheet of a workbook: names in its first row, then one row per sample; the first sheet where none is named."""
    need("python_calamine", "excel", "Excel workbooks")
    need("pyarrow", "cli", "tables")
    path, wanted = split_member(request.path)
    for member in zip_members(path, "an Excel workbook"):
        request.budget.check(member.file_size, quote(member.filename))
    place, modules = str(Path(path).absolute()), ("python_calamine",)
    asked: dict[str, Any] = {"path": place, "wanted": wanted, "modules": modules}
    about, table = in_child(request.path, "an Excel workbook", request.budget, "workbook", **asked)
    sheets = about["sheets"]
    if wanted is None and sheets:
        name = sheets[0]
    else:
        name = _chosen(request, [(sheet, False) for sheet in sheets], wanted, "sheet")
    if table is None:
        words = f"expected names and rows below them in the sheet {quote(name)}, found {about['rows']} rows"
        raise NoRowsError(failure(request.path, words))
    check_names(request.path, table.column_names)
    _refuse_texts(request, about["texts"])
    note = f"the sheet {quote(name)}" + (f", the first of {len(sheets)}" if wanted is None and len(sheets) > 1 else "")
    return open_flat(request, table, (note,))


def _chosen(request: Request, found: list[tuple[str, bool]], wanted: str | None, what: str) -> str:
    """The table or sheet that is named, or the only one; a view runs a query of the file, and has to be named."""
    path, _ = split_member(request.path)
    names, tables = [name for name, _ in found], [name for name, view in found if not view]
    if wanted is None and len(tables) == 1:
        return tables[0]
    if wanted is None or wanted not in names:
        problem = f"found {listing(names)}" if wanted is None else f"{quote(wanted)} is not among {listing(names)}"
        example = f": name one, {shlex.quote(f'{path}::{names[0]}')}" if names else ""
        raise request.refuse(f"expected one {what}, {problem}{example}")
    return wanted


OPENERS = {"excel": (open_workbook, b"PK\x03\x04"), "database": (open_database, b"")}
