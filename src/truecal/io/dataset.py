"""Predictions larger than memory: a parquet or arrow file, or a folder or glob of them, read in checked batches."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from glob import escape, glob, has_magic
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from truecal.core.arrays import compiled_loops
from truecal.core.dispatch import DISPATCH
from truecal.core.types import Array
from truecal.io.column_rules import Request
from truecal.io.columnar import Table, checked, is_arrow_file, open_table, table_types
from truecal.io.containers import FORMATS, inside
from truecal.io.failures import NoRowsError, counted_from, failure, listing, need, parsing, path_text, quote, readable
from truecal.io.label_values import Values, numbers_if_whole
from truecal.io.prediction_file import Predictions
from truecal.io.read_file import file_format, is_found, judge
from truecal.io.refused import missing_error
from truecal.io.roles import Forms
from truecal.io.source import ROUNDED, Found, Source, extract, found_in
from truecal.io.streams import arrow_file, read_ahead

STREAMED = {"parquet": "parquet", "arrow": "ipc"}
"""The formats that can be read in batches, as pyarrow calls them."""
_STREAM = (
    "expected an Arrow file, but this is an Arrow stream, which cannot be read in parts: save it as parquet, or with "
    "pyarrow.feather; alone, and with enough --memory, it is read as a whole"
)
BATCH_ROWS = 1 << 17
BATCH_BYTES = 1 << 24  # of predictions in a batch: wide tables come in fewer rows
AHEAD_BYTES, MOST_AHEAD = 1 << 26, 16  # of batches that have been read and wait


@dataclass(frozen=True, eq=False)
class Dataset:
    """One model's predictions in one table, opened but not read."""

    request: Request
    name: str
    n_rows: int
    row_bytes: int
    """What a row takes in memory, by the first rows."""
    files: tuple[str, ...]
    _dataset: Any
    _types: dict[str, Any]
    columns: tuple[str, ...]
    """Those that are read: labels, predictions, weights."""
    _head: Any
    weight: str | None = None
    left_out: tuple[str, ...] = ()
    """Prediction files of other formats beside those of the table."""
    spans: tuple[tuple[int, int], ...] | None = None
    """For some rows of a table: where they begin and end, in the order of its files."""
    file_rows: tuple[int, ...] | None = None
    """For some rows of a table: the rows of each of its files when it was divided."""
    _metadata: tuple[Any, ...] = ()
    """Of each parquet file, as opening it gave it."""

    @property
    def path(self) -> str:
        return self.request.path

    def head(self) -> Any:
        """A few rows as they are stored."""
        return next(self._checked(64))

    def first(self) -> Predictions:
        """The first rows with predictions, which say what kind they are."""
        with suppress(NoRowsError):
            return self.judged(self._head)[0]
        for read, _ in self.batches():
            return read
        raise failure(self.path, f"none of {self.n_rows} rows has a prediction")

    @cached_property
    def _groups(self) -> tuple[tuple[int, ...], ...]:
        """The rows of each group of rows, for each file: what parquet can read by itself."""
        if not self._is_parquet:
            raise failure(self.path, "expected parquet files, which can be read in parts")
        return tuple(_group_rows(file) for file in self._metadata)

    @cached_property
    def _found(self) -> Found:
        """Which columns hold labels and predictions: the same in every batch."""
        return found_in(self.request, _source(self.path, self._types, None), False)

    @cached_property
    def _file_ends(self) -> list[int]:
        """Where in the table each file ends."""
        return list(accumulate(sum(file) for file in self._groups))

    @property
    def in_groups(self) -> bool:
        """Whether some of the rows can be read by themselves."""
        return self._is_parquet and not self._is_part

    def breaks(self, rows: int) -> tuple[int, ...]:
        """Where the table can be divided into parts of `rows` rows or a little more: after whole groups of rows."""
        ends = list(accumulate(size for file in self._groups for size in file))
        found = [0]
        for end in ends:
            if end - found[-1] >= rows:
                found.append(end)
        return (*found, *ends[-1:]) if found[-1] != ends[-1] else tuple(found)

    def part(self, start: int, stop: int) -> Dataset:
        """Some of the rows as a separate table, small enough to be sent to a worker."""
        first, last = bisect_right(self._file_ends, start), bisect_left(self._file_ends, stop)
        begin = self._file_ends[first - 1] if first else 0
        files = tuple(os.path.abspath(file) for file in self.files[first : last + 1])  # for readers in other folders
        rows = tuple(sum(file) for file in self._groups[first : last + 1])
        mine: dict[str, Any] = {"files": files, "file_rows": rows, "spans": ((start - begin, stop - begin),)}
        return replace(self, **mine, n_rows=stop - start, _dataset=None, _head=None, _metadata=())

    def some(self, spans: Sequence[tuple[int, int]]) -> Dataset:
        """Some of the rows, those from each first to before each last one, read as the whole table is."""
        rows = tuple(sum(file) for file in self._groups)
        return replace(self, spans=tuple(spans), file_rows=rows, n_rows=sum(stop - start for start, stop in spans))

    def batches(self, rows: int | None = None) -> Iterator[tuple[Predictions, Array | None]]:
        """Checked predictions and weights of some rows after the other, at most `rows` at a time."""
        start = 0
        for batch in self.record_batches(rows):
            with suppress(NoRowsError):
                yield self.judged(batch, start)
            start += len(batch)

    def record_batches(self, rows: int | None = None) -> Iterator[Any]:
        """The rows as they are stored; `rows` asks for exactly so many at a time, so that several datasets go in
        step."""
        size = rows or self.batch_rows
        found = 0
        for batch in _of_size(self._read_ahead(size), size) if rows else self._read_ahead(size):
            yield batch
            found += len(batch)
        if found != self.n_rows:
            raise failure(self.path, f"expected {self.n_rows} rows, found {found}")

    def whole(self) -> tuple[Predictions, Array | None]:
        """All rows at once, for tables that fit in memory."""
        return self.judged(next(self.record_batches(self.n_rows)))

    @property
    def batch_rows(self) -> int:
        return max(64, min(BATCH_ROWS, BATCH_BYTES // self.row_bytes))

    @property
    def _is_part(self) -> bool:
        """Whether other parts are read at the same time, so that one thread is enough for this one."""
        return self.spans is not None and not self._metadata

    def _read_ahead(self, size: int) -> Iterator[Any]:
        """Of a whole table some batches are read while earlier ones are measured, or while libraries load."""
        batches = self._checked(size)
        if self._is_part:
            yield from batches
            return
        yield from read_ahead(batches, max(1, min(MOST_AHEAD, AHEAD_BYTES // (size * self.row_bytes))))

    def _checked(self, size: int) -> Iterator[Any]:
        for path, found in self._stored(size):
            yield from (batch for batch in checked(path, found) if len(batch))

    def _stored(self, size: int) -> Iterator[tuple[str, Iterator[Any]]]:
        """The batches of each file; of parquet by page, as its datasets hold whole groups of rows."""
        columns = list(self.columns)
        if not self._is_parquet:
            with parsing(self.path, "a table that can be read to its end"):
                yield self.path, self._dataset.to_batches(columns=columns, batch_size=size, batch_readahead=2)
            return
        parquet = need("pyarrow.parquet", "cli", "parquet files")
        begin = 0
        for i, path in enumerate(self.files):
            known = self._metadata[i] if self._metadata else None
            with parsing(path, "a parquet file"):
                file = parquet.ParquetFile(arrow_file(path), metadata=known, pre_buffer=False, buffer_size=1 << 18)
                names = file.schema_arrow.names
                present = set(names)
                rows = _group_rows(file.metadata)
            for name in columns:
                if name not in present:
                    raise failure(path, f"expected a column {quote(name)} as in the first file, found {listing(names)}")
            if self.file_rows is not None and sum(rows) != self.file_rows[i]:
                raise failure(path, f"expected {self.file_rows[i]} rows as before, found {sum(rows)}")
            groups, kept = _overlapping(rows, begin, self.spans)
            begin += sum(rows)
            if not groups and self.spans is not None:
                continue
            with parsing(path, "a parquet file"):
                threads = not self._is_part
                found = file.iter_batches(batch_size=size, row_groups=groups, columns=columns, use_threads=threads)
            yield path, found if self.spans is None else _within(found, kept)

    @property
    def _is_parquet(self) -> bool:
        return FORMATS[inside(self.files[0]).suffix] == "parquet"

    def judged(self, batch: Any, start: int = 0) -> tuple[Predictions, Array | None]:
        """Checked predictions and weights of a batch of rows as they are stored; the first is row `start`."""
        with counted_from(start, self._in_file):
            source = _source(self.path, self._types, batch, self._found.forms)
            parts = extract(self.request, source, False, self._found)
            read = judge(self.name, self.request, replace(parts, facts=self._facts(parts.numbers)), None)
            if self.weight is None:
                return read, None
            weights = source.numbers((self.weight,), False)
            return read, weights if read.rows is None else weights[read.rows]

    def _facts(self, numbers: Array) -> Any:
        """What is to be known of each row, in one compiled pass, where there are many."""
        large = numbers.ndim == 2 and self.n_rows * numbers.shape[1] >= DISPATCH.compiled_rows
        loops = compiled_loops("_columns") if large and numbers.dtype.itemsize >= 4 else None
        return loops.row_facts(numbers, ROUNDED) if loops is not None and numbers.T.flags.c_contiguous else None

    def _in_file(self, row: int) -> str:
        """Where a row of a table in several files lies, for a message."""
        if len(self.files) < 2 or self._is_part or not self._is_parquet:
            return ""
        i = bisect_right(self._file_ends, row)
        return f" (row {row - (self._file_ends[i - 1] if i else 0)} of {path_text(self.files[i])})"


def is_dataset(path: str | os.PathLike[str]) -> bool:
    """Whether a name stands for one table in several files: a folder, or a glob."""
    place = os.fsdecode(path)
    return (os.path.isdir(place) and inside(place).packed != "folder") or (
        not os.path.exists(place) and has_magic(place)
    )


def can_stream(path: str | os.PathLike[str]) -> bool:
    """Whether predictions at a path can be read in batches, by its name."""
    place = os.fsdecode(path)
    return is_dataset(place) or FORMATS.get(inside(place).suffix) in STREAMED


def open_dataset(path: str | os.PathLike[str], *, weight: str | None = None, **options: Any) -> Dataset:
    """Open a table, find its labels and predictions by the rules of `read_predictions`, and read nothing yet.

    >>> import pathlib, tempfile
    >>> import pyarrow, pyarrow.parquet
    >>> from truecal.io.dataset import open_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for part in range(3):
    ...         table = pyarrow.table({"label": [0, 1], "prob": [.25, .5]})
    ...         pyarrow.parquet.write_table(table, pathlib.Path(folder, f"part-{part}.parquet"))
    ...     dataset = open_dataset(folder)
    ...     (dataset.n_rows, [read.proba.tolist() for read, _ in dataset.batches(rows=4)])
    (6, [[0.25, 0.5, 0.25, 0.5], [0.25, 0.5]])
    """
    place = os.fsdecode(path)
    files, left_out = _files(place)
    form = file_format(files[0])
    for other in files[1:]:
        if file_format(other) != form:
            raise failure(other, f"expected a file like {files[0]}, but it has another format")
    for file in files if form == "arrow" else ():
        if not is_arrow_file(file):
            raise failure(file, _STREAM)
    dataset: Any = None
    metadata: tuple[Any, ...] = ()
    with parsing(place, "tables of one form" if len(files) > 1 else f"{'an' if form == 'arrow' else 'a'} {form} file"):
        if form == "parquet":  # pyarrow.dataset would load pandas
            parquet = need("pyarrow.parquet", "cli", "tables")
            metadata = tuple(parquet.read_metadata(arrow_file(file)) for file in files)
            n_rows, schema = sum(file.num_rows for file in metadata), metadata[0].schema.to_arrow_schema()
        else:
            dataset = need("pyarrow.dataset", "cli", "tables").dataset(list(files), format=STREAMED[form])
            n_rows, schema = int(dataset.count_rows()), dataset.schema
        types = table_types(place, schema)
    if not n_rows:
        raise NoRowsError(failure(place, "the table has no rows"))
    name = readable(_folder_name(place) if is_dataset(place) else inside(place).stem)
    opened = _opened(Request(place, **options), name, types, weight)
    opened = replace(opened, n_rows=n_rows, files=files, left_out=left_out, _dataset=dataset, _metadata=metadata)
    head = opened.head()
    return replace(opened, _head=head, row_bytes=max(1, head.nbytes // len(head)))


def read_table_column(path: str | os.PathLike[str], name: str, *, numbers: bool = False) -> Values:
    """One column of a table in several files: groups, or weights where `numbers`."""
    place = os.fsdecode(path)
    files, _ = _files(place)
    arrow = need("pyarrow.dataset", "cli", "tables")
    with parsing(place, "tables of one form"):
        dataset = arrow.dataset(list(files), format=STREAMED[file_format(files[0])])
        types = table_types(place, dataset.schema)
    if name not in types:
        raise failure(place, f"expected a column named {quote(name)}, found {listing(types)}")
    with parsing(place, "a table that can be read to its end"):
        (batch,) = dataset.to_table(columns=[name]).combine_chunks().to_batches()
        batch.validate(full=True)
    source = _source(place, types, batch)
    return source.numbers((name,), False) if numbers else numbers_if_whole(source.values(name))


def _source(path: str, types: dict[str, Any], batch: Any, forms: Forms | None = None) -> Source:
    """Rows as they are stored, as readers take them; none where only the columns are of interest."""

    def one(columns: Sequence[str], as_text: bool) -> Iterator[list[Any]]:
        places = {name: j for j, name in enumerate(batch.schema.names)}
        yield [batch.column(places[name]) for name in columns]

    rows = 0 if batch is None else len(batch)
    return open_table(Table(path, types, one, rows, False, by_column=True, forms=forms))


def table_of(schema: Any, name: str, *, weight: str | None = None, **options: Any) -> Dataset:
    """A table without files whose rows come from elsewhere as record batches of a schema, for `judged`."""
    return _opened(Request(name, **options), name, table_types(name, schema), weight)


def _opened(request: Request, name: str, types: dict[str, Any], weight: str | None) -> Dataset:
    """A table of columns of these types, among which labels and predictions are found."""
    found = found_in(request, _source(request.path, types, None), False)
    layout = found.layout
    names = (found.label, *found.family, *(layout.columns or (layout.confidence,)), layout.prediction, layout.correct)
    columns = tuple(dict.fromkeys(name for name in (*names, weight) if name is not None))
    if weight is not None and weight not in types:
        raise failure(request.path, f"expected a column of weights named {quote(weight)}, found none")
    return Dataset(request, name, 0, 1, (), None, types, columns, None, weight)


def _files(place: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The files of a table: itself, those of a folder, or those that a glob matches, in the order of their names; and
    prediction files of other formats that are not among them."""
    if not is_dataset(place):
        if not os.path.lexists(place):
            raise missing_error(place)
        return (place,), ()
    pattern = os.path.join(escape(place), "**", "*") if os.path.isdir(place) else place
    found = [name for name in glob(pattern, recursive=True) if os.path.isfile(name)]
    known = sorted({name for name in found if not os.path.basename(name).startswith((".", "_")) and is_found(name)})
    files = tuple(name for name in known if FORMATS.get(inside(name).suffix) in STREAMED)
    others = tuple(os.path.basename(name) for name in known if name not in files)
    if not files:
        came = f"{listing(others)}: such files are read one by one" if others else "none"
        raise failure(place, f"expected parquet or arrow files, found {came}")
    return files, others


def _folder_name(place: str) -> str:
    """What to call a table in several files: its folder, or the last one of a glob that is no pattern."""
    plain = [part for part in Path(place).parts if not has_magic(part)]
    return Path(plain[-1]).stem if plain else "predictions"


def left_out_files(datasets: Sequence[Dataset]) -> list[str]:
    """Notes on files in the folders of tables that are not read."""
    return [
        f"{path_text(d.path)}: not read, because of another format: {listing(d.left_out)}"
        for d in datasets
        if d.left_out
    ]


def _group_rows(metadata: Any) -> tuple[int, ...]:
    """The rows of each group of rows of a parquet file."""
    return tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))


def _overlapping(
    sizes: Sequence[int], begin: int, spans: Sequence[tuple[int, int]] | None
) -> tuple[list[int], list[tuple[int, int]]]:
    """Which groups of a file, whose first row is row `begin` of the table, hold rows of some spans; and where among the
    rows of these groups they are. None stands for all rows."""
    if spans is None:
        return list(range(len(sizes))), []
    groups: list[int] = []
    kept: list[tuple[int, int]] = []
    before = 0
    for i, (first, last) in enumerate(pairwise(accumulate(sizes, initial=begin))):
        inside = [(max(start, first), min(stop, last)) for start, stop in spans if start < last and stop > first]
        if inside:
            groups.append(i)
            kept += [(before + start - first, before + stop - first) for start, stop in inside]
            before += last - first
    return groups, kept


def _within(batches: Iterator[Any], kept: Sequence[tuple[int, int]]) -> Iterator[Any]:
    """The rows that lie in some spans, which are in order."""
    place = 0
    for batch in batches:
        for start, stop in kept:
            if start < place + len(batch) and stop > place:
                first = max(start - place, 0)
                yield batch.slice(first, min(stop - place, len(batch)) - first)
        place += len(batch)
        if place >= kept[-1][1]:
            return


def _of_size(batches: Iterator[Any], size: int) -> Iterator[Any]:
    """The same rows in batches of exactly `size`, but for the last."""
    arrow = need("pyarrow", "cli", "tables")
    waiting: list[Any] = []
    held = 0
    for batch in batches:
        waiting.append(batch)
        held += len(batch)
        while held >= size:
            table = arrow.Table.from_batches(waiting)
            yield table.slice(0, size).combine_chunks().to_batches()[0]
            rest = table.slice(size)
            waiting, held = rest.to_batches(), len(rest)
    if held:
        yield arrow.Table.from_batches(waiting).combine_chunks().to_batches()[0]
