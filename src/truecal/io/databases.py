"""Tables inside other files: SQLite and DuckDB databases, and sheets of Excel workbooks. FILE::NAME names one."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote as url_quote

from truecal.io.array_files import zip_members
from truecal.io.column_rules import Request, check_names
from truecal.io.containers import split_member
from truecal.io.failures import NoRowsError, failure, listing, need, parsing, quote
from truecal.io.roles import scale_of
from truecal.io.source import Source, check_expansion
from truecal.io.text_tables import open_flat

SQLITE = b"SQLite format 3\x00"
DUCKDB = b"DUCK"  # at byte 8
NUMBERS = (int, float)


def open_database(request: Request) -> Source:
    """One table or view of a SQLite or DuckDB database, opened for reading only."""
    path, wanted = split_member(request.path)
    with open(path, "rb") as stream:
        start = stream.read(16)
    if start == SQLITE:
        return open_flat(request, _sqlite_table(request, path, wanted))
    if start[8:12] == DUCKDB:
        return open_flat(request, _duckdb_table(request, path, wanted))
    raise request.refuse("expected a SQLite or DuckDB database, but it does not start like one")


def _sqlite_table(request: Request, path: str, wanted: str | None) -> Any:
    import sqlite3  # some builds of Python come without

    pyarrow = need("pyarrow", "cli", "databases")
    place = f"file:{url_quote(str(Path(path).absolute()))}?mode=ro"
    with parsing(request.path, "a SQLite database"), closing(sqlite3.connect(place, uri=True)) as database:
        database.execute("PRAGMA trusted_schema = OFF")  # views of the file run no functions
        listed = "SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
        found = [(name, kind == "view") for name, kind in database.execute(listed)]
        name = _chosen(request, found, wanted, "table")
        cursor = database.execute(f"SELECT * FROM {_identifier(name)}")
        names = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
    check_names(request.path, names)
    return _table(request, pyarrow, names, rows)


def _duckdb_table(request: Request, path: str, wanted: str | None) -> Any:
    duckdb = need("duckdb", "duckdb", "DuckDB databases")
    config = {"enable_external_access": "false"}  # views of the file read no other files
    with parsing(request.path, "a DuckDB database"), duckdb.connect(path, read_only=True, config=config) as database:
        listed = "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'main'"
        found = [(name, kind == "VIEW") for name, kind in database.execute(listed).fetchall()]
        name = _chosen(request, found, wanted, "table")
        return database.sql(f"SELECT * FROM {_identifier(name)}").to_arrow_table()


def open_workbook(request: Request) -> Source:
    """A sheet of a workbook: names in its first row, then one row per sample; the first sheet where none is named."""
    calamine = need("python_calamine", "excel", "Excel workbooks")
    pyarrow = need("pyarrow", "cli", "tables")
    path, wanted = split_member(request.path)
    for member in zip_members(path, "an Excel workbook"):
        check_expansion(path, member.file_size, member.compress_size, quote(member.filename))
    with parsing(request.path, "an Excel workbook"):
        book = calamine.CalamineWorkbook.from_path(path)
        sheets = list(book.sheet_names)
        name = (
            sheets[0]
            if wanted is None and sheets
            else _chosen(request, [(sheet, False) for sheet in sheets], wanted, "sheet")
        )
        rows = book.get_sheet_by_name(name).to_python()
    rows = [row for row in rows if any(cell != "" for cell in row)]
    if len(rows) < 2:
        words = f"expected names and rows below them in the sheet {quote(name)}, found {len(rows)} rows"
        raise NoRowsError(failure(request.path, words))
    names = [str(cell).strip() for cell in rows[0]]
    check_names(request.path, names)
    note = f"the sheet {quote(name)}" + (f", the first of {len(sheets)}" if wanted is None and len(sheets) > 1 else "")
    cells = [[None if cell == "" else cell for cell in row] for row in rows[1:]]
    return open_flat(request, _table(request, pyarrow, names, cells), (note,))


def _identifier(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _chosen(request: Request, found: list[tuple[str, bool]], wanted: str | None, what: str) -> str:
    """The table or sheet that is named, or the only one; a view runs a query of the file, and has to be named."""
    path, _ = split_member(request.path)
    names, tables = [name for name, _ in found], [name for name, view in found if not view]
    if wanted is None and len(tables) == 1:
        return tables[0]
    if wanted is None or wanted not in names:
        problem = f"found {listing(names)}" if wanted is None else f"{quote(wanted)} is not among {listing(names)}"
        example = f": name one, {path}::{names[0]}" if names else ""
        raise request.refuse(f"expected one {what}, {problem}{example}")
    return wanted


def _table(request: Request, pyarrow: Any, names: list[str], rows: list[Any]) -> Any:
    """Rows of Python values as a table; a column of numbers and text is text, or wrong where its name says numbers."""
    columns = {}
    for j, name in enumerate(names):
        cells = [row[j] for row in rows]
        if any(isinstance(cell, str) for cell in cells) and not all(isinstance(cell, str | None) for cell in cells):
            if scale_of(name) is not None or name in (request.proba_columns or ()):
                row = next(i for i, cell in enumerate(cells) if isinstance(cell, str))
                place = f"row {row}, column {quote(name)}"
                raise request.refuse(f"expected a number at {place}, got the text {quote(cells[row])}")
            cells = [None if cell is None else f"{cell:g}" if isinstance(cell, float) else str(cell) for cell in cells]
        with parsing(request.path, f"values of one type in column {quote(name)}"):
            columns[name] = pyarrow.array(cells)
    return pyarrow.table(columns)
