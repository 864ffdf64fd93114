"""Text tables: csv, tsv and JSON, parsed by arrow; where that fails, a slower second look finds the place."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TextIO

import numpy as np

from truecal.io.array_files import BARE, Entry, open_arrays
from truecal.io.column_rules import HEADER_OPTION, Request, check_names
from truecal.io.columnar import MOST_COLUMNS, PEEKED_CELLS, PEEKED_ROWS, Table, open_table
from truecal.io.containers import inside, split_member
from truecal.io.failures import FileError, NoRowsError, failure, listing, need, parsing, quote
from truecal.io.harness import LONGEST_LINE as LONGEST_JSON_LINE
from truecal.io.harness import json_lines
from truecal.io.limits import Budget, TooLargeError
from truecal.io.roles import is_called, scale_of
from truecal.io.source import Source
from truecal.io.streams import arrow_file, bounded_lines, byte_stream, whole_json

LONGEST_LINE = 1 << 24  # characters
BLOCK_BYTES = 1 << 20  # parsed at once, and more where the first row is long; a row must fit
SPREAD, SPREAD_BYTES = 50, 1 << 22  # times as many rows, of files of so many bytes
SAMPLED_ROWS = 1000  # looked at to tell the decimal mark
DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?")
MARKED = re.compile(rf"{THOUSANDS.pattern}|[+-]?[0-9]+(?:[.,][0-9]+)?\s?%")
"""Numbers with percent signs, or commas between thousands."""
_SCALAR = re.compile(r"np\.float(?:16|32|64)\(([^()]*)\)")
_LIST = re.compile(r"\s*\[\s*\[?\s*(?:[-+.0-9]|nan|inf|np\.|$)", re.IGNORECASE)  # of numbers
_CELL = 9  # bytes that a cell of a table takes, at least
ENCODING = "utf-8-sig"  # UTF-8, with or without the mark some spreadsheets put first


@dataclass(frozen=True)
class Head:
    """The first lines of a text table: names, an example row, and where the rows begin."""

    names: tuple[str, ...]  # the numbers of the columns where there is no header
    example: tuple[str, ...]
    delimiter: str
    lines: int  # lines up to and including the header, 0 where there is none
    decimal: str = "."


def open_csv(request: Request) -> Source:
    """A table of numbers where the name or the first row says so, of lists where that has [...], else of text."""
    path = request.path
    pyarrow = need("pyarrow", "cli", "csv files")
    head = _head(request)
    text, number = pyarrow.string(), pyarrow.float64()
    types: dict[str, Any] = {}
    for name, cell in zip(head.names, head.example, strict=True):
        told = name in (request.proba_columns or ()) or scale_of(name) is not None or is_called(name, "confidence")
        plain = _is_number(cell, head.decimal) or MARKED.fullmatch(cell.strip()) is not None
        types[name] = number if told or cell.strip() == "" or plain else text
        if _LIST.match(cell) or (told and (_is_vector(cell) or cell.lstrip().startswith("["))):
            types[name] = pyarrow.list_(number)

    def batches(columns: Sequence[str], as_text: bool) -> Iterator[list[Any]]:
        return _batches(path, head, {name: text if as_text else types[name] for name in columns})

    def mixed(label: str, columns: Sequence[str]) -> Iterator[list[Any]]:
        return _batches(path, head, {label: text} | {name: types[name] for name in columns})

    rows = min(PEEKED_ROWS, max(10, PEEKED_CELLS // len(head.names)))
    sampled = cache(lambda: _spread(path, head, rows))

    def peek(names: Sequence[str]) -> dict[str, list[Any]]:
        places = [head.names.index(name) for name in names]
        cells = sampled()
        plain = [[_unmarked(row[j], head.decimal) for row in cells] for j in places]
        return dict(zip(names, plain, strict=True))

    table = Table(path, types, batches, passes=False, budget=request.budget, mixed=mixed, peek=peek)
    source = open_table(table, named=head.lines > 0)
    notes: tuple[str, ...] = ("decimal commas",) if head.decimal == "," else ()
    percent = [
        n for n, cell in zip(head.names, head.example, strict=True) if MARKED.fullmatch(cell.strip()) and "%" in cell
    ]
    notes += (f"percent signs in {listing(percent)}: divided by 100",) if percent else ()
    return replace(source, notes=(*source.notes, *notes))


def _unmarked(cell: str, decimal: str) -> str:
    """A number as Python writes it: 0.667 of 66.7% or 66,7%, 6668.93 of 6,668.93, 0.25 of 0,25."""
    if MARKED.fullmatch(cell.strip()) is None:
        return cell.replace(",", ".") if decimal == "," else cell
    number = cell.strip().rstrip("% ")
    number = number.replace(",", "" if THOUSANDS.fullmatch(number) else ".")
    return repr(float(number) / 100) if "%" in cell else number


def _is_number(cell: str, decimal: str = ".") -> bool:
    try:
        float(cell if decimal == "." else cell.replace(decimal, ".", 1))
    except ValueError:
        return False
    return "_" not in cell


def _is_vector(cell: str) -> bool:
    """Several numbers with spaces between them."""
    parts = cell.split()
    return len(parts) > 1 and all(map(_is_number, parts))


def _is_fraction(cell: str, decimal: str = ".") -> bool:
    """A number that is no whole number as a name would be."""
    return _is_number(cell, decimal) and not cell.strip().isdecimal()


def _head(request: Request) -> Head:
    path = request.path
    delimiter = _delimiter(path)
    decimal = _decimal(path, delimiter)
    records = _records(path, delimiter)
    first, second = next(records, None), next(records, None)
    if first is None:
        raise failure(path, "the file is empty; expected a header and rows")
    lines, cells = first
    if len(cells) > MOST_COLUMNS:
        raise failure(path, f"expected at most {MOST_COLUMNS} columns, got {len(cells)}")
    if second is not None and len(cells) == len(second[1]) - 1 and _has_row_names(path, delimiter):
        cells = ["", *cells]
    if not _is_header(request, cells, None if second is None else second[1], delimiter, decimal):
        return Head(tuple(str(j) for j in range(len(cells))), tuple(cells), delimiter, 0, decimal)
    names = _numbered_twins(tuple(cell.strip() for cell in cells))
    check_names(path, names)
    if any("\n" in name or "\r" in name for name in names):
        raise failure(path, "a column name has a line break; expected all names on one line")
    if second is None:
        raise NoRowsError(failure(path, "there are no rows below the header"))
    if len(second[1]) != len(names):
        raise failure(path, f"expected {len(names)} cells at row 0 (line {second[0]}), got {len(second[1])}")
    return Head(names, tuple(second[1]), delimiter, lines, decimal)


def _has_row_names(path: str, delimiter: str) -> bool:
    """Whether rows begin with a name that the header has not, as R writes them: all differ, and no row ends blank."""
    rows = [cells for _, cells in itertools.islice(_records(path, delimiter), 1, SAMPLED_ROWS)]
    return len({cells[0] for cells in rows}) == len(rows) > 1 and all(cells[-1].strip() for cells in rows)


def _numbered_twins(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names as pandas reads them: a second x is x.1, but for names that say labels or predictions."""
    seen: Counter[str] = Counter()
    found = []
    for name in names:
        told = scale_of(name) is not None or is_called(name, "truth", "label", "weak label", "prediction", "confidence")
        found.append(f"{name}.{seen[name]}" if seen[name] and not told else name)
        seen[name] += 1
    return tuple(found)


def _is_header(request: Request, cells: list[str], below: list[str] | None, delimiter: str, decimal: str) -> bool:
    """Whether the first line holds names: no fraction among them, and numbers only as pandas numbers its columns.

    In a file of labels alone, and wherever else the first line could be either, the number of rows decides, or the
    caller; no row is ever lost to a guess.
    """
    if request.header is not None:
        return request.header
    texts = [cell.strip() for cell in cells]
    if any(_is_fraction(text, decimal) for text in texts):
        return False
    if len(texts) > 1:
        rest = texts[1:] if texts[0] == "" else texts  # pandas leaves the name of its index blank
        if not all(text.isdecimal() for text in rest):
            return True
        if rest != [str(j) for j in range(len(rest))]:  # 1400,1300 above 0.49,0.52 are names of models
            return min(map(int, rest)) > 1 and all(_is_fraction(c, decimal) and float(c) <= 1 for c in below or ("",))
        if len(texts) > 2 or any(_is_fraction(cell, decimal) for cell in below or ()):
            return True
    elif is_called(texts[0], "truth", "label"):
        return True
    if request.rows is not None:
        return sum(1 for _ in _records(request.path, delimiter)) == request.rows + 1
    if len(texts) == 1 and texts[0] != "0":
        return not texts[0].isdecimal()
    shown = quote(delimiter.join(texts))
    raise request.refuse(f"cannot tell whether the first line, {shown}, is a header or a row: {HEADER_OPTION}")


def _delimiter(path: str) -> str:
    """A tab for .tsv, else a comma; a first line without commas may use semicolons, tabs, bars, or spaces in a .txt.

    Commas may also be decimal: then another mark separates numbers, as many in every line.
    """
    suffix = inside(path).suffix
    if suffix == ".tsv":
        return "\t"
    with parsing(path, "text in UTF-8"), _text(path) as stream:
        lines = list(itertools.islice((line.strip("\r\n") for line in _bounded(path, stream) if line.strip()), 20))
    header = lines[0] if lines else ""
    marks = [mark for mark in (";", "\t", "|") if mark in header]
    if "," not in header:
        counts = [len(cells) for cells in csv.reader((line.strip() for line in lines), delimiter=" ")]
        even = len(set(counts[1:] or counts)) == 1 and counts[-1] - counts[0] in (0, 1)
        spaces = suffix == ".txt" and even and counts[-1] > 1
        return marks[0] if marks else " " if spaces else ","
    for mark in marks:
        cells = header.split(mark)
        even = all(line.count(mark) == header.count(mark) for line in lines)
        if even and all(_is_number(cell, ",") for cell in cells):
            return mark
    return ","


def _decimal(path: str, delimiter: str) -> str:
    """The decimal mark: a comma where a column has numbers such as 0,25 and no other text, in the first rows."""
    sample = _sample(path, delimiter, SAMPLED_ROWS)
    rows = sample[1:] or sample
    for column in zip(*(cells for cells in rows if len(cells) == len(rows[0])), strict=True):
        texts = [cell.strip() for cell in column if cell.strip()]
        decimal = [text for text in texts if DECIMAL_COMMA.fullmatch(text)]
        if not all(map(THOUSANDS.fullmatch, decimal)) and all(_is_number(text, ",") for text in texts):
            return ","
    return "."


def _sample(path: str, delimiter: str, most: int) -> list[list[str]]:
    """The cells of the first records, fewer of long ones."""
    found, held = [], 0
    for _, cells in itertools.islice(_records(path, delimiter), most):
        found.append(cells)
        held += sum(map(len, cells)) + 8 * len(cells)
        if held > LONGEST_LINE:
            break
    return found


def _spread(path: str, head: Head, rows: int) -> list[list[str]]:
    """Records over all of a small file, whose rows may be sorted by their labels; the first ones of a large file."""
    small = os.path.getsize(split_member(path)[0]) <= SPREAD_BYTES if os.path.isfile(split_member(path)[0]) else False
    found = _sample(path, head.delimiter, rows * SPREAD if small else rows)[int(head.lines > 0) :]
    found = [cells for cells in found if len(cells) == len(head.names)]
    return found[:: max(1, -(-len(found) // rows))]


def _text(path: str) -> TextIO:
    return io.TextIOWrapper(byte_stream(path), encoding=ENCODING, newline="")


def _bounded(path: str, stream: TextIO) -> Iterator[str]:
    return (line for _, line in bounded_lines(path, stream, LONGEST_LINE, "characters"))


def _records(path: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every record that is not blank."""
    with _text(path) as stream:
        reader = csv.reader(_bounded(path, stream), delimiter=delimiter)
        while True:
            with parsing(path, f"text in UTF-8 with cells separated by {delimiter!r}, at line {reader.line_num + 1}"):
                record = next(reader, None)
            if record is None:
                return
            if record:
                yield reader.line_num, record


def _batches(path: str, head: Head, types: dict[str, Any]) -> Iterator[list[Any]]:
    """Batches of rows, parsed by arrow; lists come as text and are parsed here."""
    arrow_csv = need("pyarrow.csv", "cli", "csv files")
    compute = need("pyarrow.compute", "cli", "csv files")
    pyarrow = need("pyarrow", "cli", "csv files")
    string = pyarrow.string()
    marked = {name for name, cell in zip(head.names, head.example, strict=True) if MARKED.fullmatch(cell.strip())}
    parsed = {n: string if hasattr(kind, "value_type") or n in marked else kind for n, kind in types.items()}
    block = BLOCK_BYTES + 16 * sum(len(cell) + 1 for cell in head.example)
    reader: Any = None
    start = 0
    while True:
        try:
            with parsing(path, "a table of text"):
                reader = reader or arrow_csv.open_csv(
                    arrow_file(path),
                    read_options=arrow_csv.ReadOptions(
                        use_threads=False, block_size=block, column_names=head.names, skip_rows=head.lines
                    ),
                    parse_options=arrow_csv.ParseOptions(delimiter=head.delimiter, newlines_in_values=True),
                    convert_options=arrow_csv.ConvertOptions(
                        column_types=parsed,
                        include_columns=list(types),
                        decimal_point=head.decimal,
                        null_values=[""],  # NA and null may be names of classes
                        strings_can_be_null=True,
                    ),
                )
                batch = next(iter(reader), None)
        except FileError as error:
            raise _fault(path, head, types) or error from error.__cause__
        if batch is None:
            return
        arrays = batch.columns
        for j, (name, kind) in enumerate(types.items()):
            if parsed[name] == string:
                arrays[j] = compute.utf8_trim_whitespace(arrays[j])  # as for numbers and for the header
                if head.decimal == ",":  # the label 2,0 is the number 2
                    arrays[j] = compute.replace_substring_regex(arrays[j], "^([+-]?[0-9]+),(0*)$", r"\1.\2")
            if name in marked and kind != string:
                arrays[j] = pyarrow.array(_marked(path, arrays[j].to_pylist(), name, start, head.decimal), type=kind)
            elif kind != parsed[name]:
                arrays[j] = _lists(path, arrays[j], name, start, kind)
        yield arrays
        start += batch.num_rows


def _marked(path: str, cells: list[str | None], name: str, start: int, decimal: str) -> list[float | None]:
    """Numbers with percent signs or commas between thousands."""
    plain = [None if cell is None else _unmarked(cell, decimal) for cell in cells]
    odd = next((i for i, cell in enumerate(plain) if cell is not None and not _is_number(cell)), None)
    if odd is not None:
        raise failure(path, f"expected a number at row {start + odd}, column {quote(name)}, got {quote(cells[odd])}")
    return [None if cell is None else float(cell) for cell in plain]


def _fault(path: str, head: Head, types: dict[str, Any]) -> FileError | None:
    """The first record that has too many or too few cells, or text where a number belongs."""
    numbers = [j for j, name in enumerate(head.names) if name in types and str(types[name]) == "double"]
    records = _records(path, head.delimiter)
    if head.lines:
        next(records, None)
    for row, (line, cells) in enumerate(records):
        place = f"row {row} (line {line})"
        if len(cells) != len(head.names):
            return failure(path, f"expected {len(head.names)} cells at {place}, got {len(cells)}")
        for j in numbers:
            if cells[j].strip() and not _is_number(cells[j], head.decimal):
                where = f"{place}, column {quote(head.names[j])}"
                return failure(path, f"expected a number at {where}, got {quote(cells[j])}")
    return None


def _as_json(text: str) -> str:
    """A list as Python or numpy prints it: [0.1 0.9], [np.float64(0.1), np.float64(0.9)], or 0.1 0.9."""
    plain = _SCALAR.sub(r"\1", text).strip()
    inner = plain.removeprefix("[").removesuffix("]").strip()
    if plain.startswith("[") and ("," in plain or not _is_vector(inner)):
        return plain
    return f"[{', '.join(repr(float(part)) for part in inner.split())}]"


def _lists(path: str, texts: Any, name: str, start: int, kind: Any) -> Any:
    """Cells such as [0.1, 0.9]; a missing cell stays missing and is reported with the others."""
    rows: list[list[float] | None] = []
    for i, text in enumerate(texts.to_pylist()):
        wanted = f"a list of numbers such as [0.1, 0.9] at row {start + i}, column {quote(name)}"
        if text is not None and "..." in text:
            raise failure(
                path, f"expected {wanted}, but numpy has shortened it to {quote(text)}: save the array as .npz"
            )
        with parsing(path, wanted):
            values = None if text is None else json.loads(_as_json(text))
        while isinstance(values, list) and len(values) == 1 and isinstance(values[0], list):
            values = values[0]
        if text is not None and not (isinstance(values, list) and all(type(v) in (int, float) for v in values)):
            raise failure(path, f"expected {wanted}, got {quote(text)}")
        # A whole number of hundreds of digits is no float; it is reported as infinite.
        rows.append(values and [float(v) if isinstance(v, float) or abs(v) < 1e300 else math.inf for v in values])
    return need("pyarrow", "cli", "csv files").array(rows, type=kind)


# -- JSON --------------------------------------------------------------------------------------------------------------


def open_jsonl(request: Request) -> Source:
    """Lines of objects, parsed by arrow; where that fails, a second look finds the line."""
    try:
        return open_flat(request, _json_table(request))
    except TooLargeError:
        raise
    except FileError:
        for _ in json_lines(request):
            pass
        raise


def _json_table(request: Request) -> Any:
    """The objects as a table. Every line has a cell in every column that any line names, which a few lines could abuse:
    lines have the keys of the first ones, or all keys are counted before the table is made."""
    path = request.path
    size = rows = commas = 0
    with parsing(path, "lines of text"), byte_stream(path) as stream:
        while block := stream.read(1 << 20):
            size, rows, commas = size + len(block), rows + block.count(b"\n"), commas + block.count(b",")
            request.budget.check(size, "the text")
    first: list[bytes] = []
    with byte_stream(path) as stream:
        for _, line in bounded_lines(path, stream, LONGEST_JSON_LINE, "bytes"):
            first.append(line)
            if len(first) >= SAMPLED_ROWS or sum(map(len, first)) > BLOCK_BYTES:
                break
    paths: dict[str, bool] = {}
    for _, record in itertools.islice(json_lines(request), len(first)):
        _add_paths(record, "", False, paths)

    def needed() -> int:
        lists = sum(paths.values())
        return size + _CELL * ((rows + 1) * (len(paths) - lists) + (rows + commas + 1) * lists)

    request.budget.check(needed(), "the columns of all lines")
    arrow_json = need("pyarrow.json", "cli", "json files")
    options, table = arrow_json.ParseOptions(), None
    if len(first) < rows:
        with suppress(FileError), parsing(path, "lines with the same keys"), arrow_file(path) as whole:
            schema = _parsed_lines(path, io.BytesIO(b"".join(first)), options).schema
            known = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
            table = _parsed_lines(path, whole, known)
    if table is None:
        for _, record in json_lines(request) if len(first) < rows else ():
            _add_paths(record, "", False, paths)
        request.budget.check(needed(), "the columns of all lines")
        with parsing(path, "a JSON object on each line"), arrow_file(path) as whole:
            table = _parsed_lines(path, whole, options)
    request.budget.charge(table.nbytes, "the columns of all lines")
    return table


def _parsed_lines(path: str, stream: Any, options: Any) -> Any:
    arrow_json = need("pyarrow.json", "cli", "json files")
    block = min(max(1 << 20, os.path.getsize(split_member(path)[0]) + 1), LONGEST_JSON_LINE)
    return arrow_json.read_json(stream, arrow_json.ReadOptions(use_threads=False, block_size=block), options)


def _add_paths(value: Any, path: str, in_list: bool, paths: dict[str, bool]) -> None:
    """The keys of an object and of those inside it, and whether they are within a list."""
    for key, inner in value.items() if isinstance(value, dict) else ():
        place = f"{path}\0{key}"
        paths[place] = in_list
        _add_paths(inner, place, in_list, paths)
    for inner in value if isinstance(value, list) else ():
        if isinstance(inner, (dict, list)):
            _add_paths(inner, path, True, paths)


def open_json(request: Request) -> Source:
    """A list of objects or an object of lists as a table, a list of numbers or of lists of numbers as an array."""
    pyarrow = need("pyarrow", "cli", "json files")
    found = whole_json(request.path, request.budget)
    if isinstance(found, dict) and {"results", "configs"} <= set(found):
        raise failure(
            request.path,
            "expected a sample log of lm-evaluation-harness, but this file has only its results: run lm_eval with "
            "--log_samples --output_path DIR and give the file DIR/**/samples_TASK_DATE.jsonl",
        )
    found, left_out = _records_of(found, request.budget)
    if isinstance(found, list) and found and all(_is_scored(row) for row in found):
        return replace(open_flat(request, pyarrow.table(_scored(request, found))), unordered=True)
    if isinstance(found, list) and found:
        with parsing(request.path, "a list of numbers, of equally long lists of numbers, or of objects"):
            array = np.array(found)
        return open_arrays(request, {BARE: Entry(array.shape, array.dtype.kind, lambda: array)})
    if not isinstance(found, dict) or not all(isinstance(column, list) for column in found.values()):
        shown = quote(found)
        if isinstance(found, dict) and not any(isinstance(value, (list, dict)) for value in found.values()):
            shown += ": results without samples; write the label and the predicted probabilities of each row"
        raise failure(request.path, f"expected a list of objects, or an object of lists, got {shown}")
    with parsing(request.path, "columns of one type and the same length"):
        table = pyarrow.table(found)
    return open_flat(request, table, left_out)


def _records_of(found: Any, budget: Budget) -> tuple[Any, tuple[str, ...]]:
    """The columns of a JSON table in any form that pandas writes, and what else was beside them."""
    rows: Any
    notes: tuple[str, ...] = ()
    if isinstance(found, dict):
        rows, columns = found.get("data"), found.get("columns")
        lists = {key: value for key, value in found.items() if isinstance(value, list) and value}
        tables = [key for key, value in lists.items() if isinstance(value[0], dict)]
        if isinstance(rows, list) and isinstance(columns, list) and all(isinstance(row, list) for row in rows):
            return {str(name): list(cells) for name, cells in zip(columns, zip(*rows, strict=True), strict=True)}, ()
        if isinstance(rows, list) and {"schema", "data"} == set(found):
            found = rows
        elif len(found) > 1 and all(isinstance(value, dict) and value for value in found.values()):
            keys, inner = list(found), list(found.values())
            alike = all(list(value) == list(inner[0]) for value in inner) and not all(map(_is_number, keys))
            if alike and (all(map(_is_number, inner[0])) or len(inner[0]) > len(inner)):  # columns of rows
                return {key: list(value.values()) for key, value in found.items()}, ()
            found = [{"id": key} | value if "id" not in value else value for key, value in found.items()]
        elif len(tables) == 1 and len(lists[tables[0]]) > 1:
            notes, found = (f"the rows are the list {quote(tables[0])}",), lists[tables[0]]
        elif lists and len({len(value) for value in lists.values()}) == 1 and len(lists) < len(found):
            notes, found = (f"left out: {listing([key for key in found if key not in lists])}",), lists
    if isinstance(found, list) and found and all(isinstance(row, dict) for row in found):
        names = dict.fromkeys(key for row in found for key in row)
        budget.charge(24 * len(names) * len(found), "the columns of all objects")
        return {name: [row.get(name) for row in found] for name in names}, notes
    return found, notes


def _is_scored(row: Any) -> bool:
    """Whether a row is as a text-classification pipeline gives it: [{"label": ..., "score": ...}, ...]."""
    return (
        isinstance(row, list) and bool(row) and all(isinstance(x, dict) and {"label", "score"} <= set(x) for x in row)
    )


def _scored(
    request: Request, rows: list[list[dict[str, Any]]], word: str = "score", keys: tuple[str, str] = ("label", "score")
) -> dict[str, list[Any]]:
    """A column per label, with the score of each row."""
    names = list(dict.fromkeys(str(x[keys[0]]) for x in rows[0]))
    columns: dict[str, list[Any]] = {f"{word}_{name}": [] for name in names}
    for number, row in enumerate(rows):
        scores = {str(x[keys[0]]): x[keys[1]] for x in row}
        if len(row) != len(names) or set(scores) != set(names):
            odd = next(iter(set(scores) ^ set(names)), "a label twice")
            wanted = f"each of the {len(names)} labels of row 0 once in every row"
            raise failure(request.path, f"expected {wanted}, but row {number} differs by {quote(odd)}: pass top_k=None")
        for name in names:
            columns[f"{word}_{name}"].append(scores[name])
    numbered = all(re.fullmatch("LABEL_[0-9]+", name) for name in names)  # as models without names of classes say
    return {key.replace("LABEL_", "", 1) if numbered else key: scores for key, scores in columns.items()}


def _pair(kind: Any) -> tuple[str, str] | None:
    """The names of the text and of the number in lists of both, such as {"label": "cat", "prob": 0.5}."""
    types = need("pyarrow", "cli", "json files").types
    if not types.is_list(kind) or not types.is_struct(kind.value_type) or kind.value_type.num_fields != 2:
        return None
    texts = [field.name for field in kind.value_type if types.is_string(field.type)]
    numbers = [field.name for field in kind.value_type if types.is_floating(field.type)]
    return (texts[0], numbers[0]) if texts and numbers else None


def open_flat(request: Request, table: Any, notes: tuple[str, ...] = ()) -> Source:
    """The table with objects inside objects as columns of their own: {"probs": {"cat": 0.2}} is probs.cat."""
    pyarrow = need("pyarrow", "cli", "json files")
    with parsing(request.path, "names and text in UTF-8"):
        while any(pyarrow.types.is_struct(kind) for kind in table.schema.types):
            table = table.flatten()
        table.validate(full=True)
        for name, kind in zip(table.column_names, table.schema.types, strict=True):
            if (keys := _pair(kind)) is not None and None not in (rows := table.column(name).to_pylist()) and all(rows):
                table = table.drop_columns([name])
                for each, scores in _scored(request, rows, name, keys).items():
                    table = table.append_column(each, pyarrow.array(scores))
        for name, kind in zip(table.column_names, table.schema.types, strict=True):
            if pyarrow.types.is_string(kind) and (scale_of(name) is not None or is_called(name, "confidence")):
                cells = table.column(name).to_pylist()
                if all(cell is None or _is_number(cell) or MARKED.fullmatch(cell.strip()) for cell in cells):
                    plain = [None if cell is None else float(_unmarked(cell, ".")) for cell in cells]
                    table = table.set_column(table.column_names.index(name), name, pyarrow.array(plain))
        types = dict(zip(table.column_names, table.schema.types, strict=True))
        names = table.column_names
    check_names(request.path, names)

    def batches(columns: Sequence[str], as_text: bool) -> Iterator[list[Any]]:
        for batch in table.select(columns).to_batches():
            yield batch.columns

    opened = Table(request.path, types, batches, table.num_rows, passes=False, budget=request.budget)
    return replace(open_table(opened), notes=notes)


OPENERS = {"csv": (open_csv, b""), "json": (open_json, b""), "jsonl": (open_jsonl, b"")}
