"""What the workers of a cluster read: parquet tables, Dask DataFrames and Dask arrays as partitions of rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from ..core.data import shown
from ..core.extras import require
from ..core.types import Array
from ..io.agreement import distinct_names
from ..io.dataset import Dataset, left_out_files, open_dataset, table_of
from ..io.failures import FileError, NoRowsError, failure, one_line, parsing, path_text
from ..kinds import BINARY, CLASSES
from ..kinds.inputs import Inputs
from .files import Batch, Pass, agreeing, count_rows, inputs_of, observe_rows
from .stream import Stream

MOST_ROWS, FEWEST_ROWS = 1 << 20, 1 << 17
"""A partition of a parquet table has about a 32nd of the rows, in whole groups of rows, but no more and no fewer."""


class PartitionError(FileError):
    """A partition that could not be measured: which one, and why."""


def title(i: int, parts: int, where: str) -> str:
    """The name of a partition in messages."""
    return f"partition {i} of {parts} ({where})"


OF_FRAME = "of the DataFrame"
Compute = Callable[[Any], Any]
Streams = Sequence[Stream]


@dataclass(frozen=True, eq=False)
class WorkPart:
    """Some rows: what to call them, where they begin if that is known, and what a worker gets in either pass."""

    where: str
    start: int
    observed: tuple[Any, ...]
    counted: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class Work:
    """The same rows of one or several models, in partitions, and how a worker puts those into streams."""

    names: tuple[str, ...]
    heads: tuple[Inputs, ...]
    """Some rows of each model, or none: what kind of predictions they are."""
    n_rows: int | None
    partitions: tuple[WorkPart, ...]
    observe: Callable[..., None]
    """observe(streams, step, start, *data): every `step`-th row, without labels."""
    count: Callable[..., None]
    """count(streams, *data)."""
    notes: tuple[str, ...] = ()


# -- parquet --------------------------------------------------------------------------------------------------------


def file_work(
    sources: Sequence[Any], names: Sequence[str] | None, part_rows: int | None, options: dict[str, Any]
) -> Work:
    """Parquet tables, divided after groups of rows of the first; each is a file, a folder or a glob."""
    datasets = [one if isinstance(one, Dataset) else open_dataset(one, **options) for one in sources]
    first = datasets[0]
    for other in datasets[1:]:
        if other.n_rows != first.n_rows:
            raise failure(other.path, f"expected {first.n_rows} rows as in {first.path}, got {other.n_rows}")
    heads = [dataset.first() for dataset in datasets]
    parts = []
    rows = part_rows or min(max(first.n_rows // 32, FEWEST_ROWS), MOST_ROWS)  # whoever counts: the same partitions
    for start, stop in pairwise(first.breaks(rows)):
        data = tuple(dataset.part(start, stop) for dataset in datasets)
        files = data[0].files
        more = f" and {len(files) - 1} more" if len(files) > 1 else ""
        where = f"rows {start} to {stop - 1}, {path_text(os.path.basename(files[0]))}{more}"
        parts.append(WorkPart(where, start, data, data))
    return Work(
        names=tuple(names or distinct_names(heads)),
        heads=tuple(inputs_of(head, None) for head in heads),
        n_rows=first.n_rows,
        partitions=tuple(parts),
        observe=_observe_files,
        count=_count_files,
        notes=tuple(left_out_files(datasets)),
    )


def _observe_files(streams: Streams, step: int, start: int, *parts: Dataset) -> None:
    observe_rows(streams, Pass(parts, every=step, first=start).counted(0, 1))


def _count_files(streams: Streams, *parts: Dataset) -> None:
    count_rows(streams, Pass(parts).counted(0, 1))


# -- DataFrames -----------------------------------------------------------------------------------------------------


def frame_work(frames: Sequence[Any], names: Sequence[str], compute: Compute, options: dict[str, Any]) -> Work:
    """Dask DataFrames, whose columns are found as those of files are; several must be divided alike."""
    arrow = require("pyarrow", "scale")
    parts = {name: frame.npartitions for name, frame in zip(names, frames, strict=True)}
    if len(set(parts.values())) > 1:
        raise ValueError(f"DataFrames must be divided into the same partitions, got {parts}")
    schemas = [arrow.Schema.from_pandas(frame._meta_nonempty, preserve_index=False) for frame in frames]
    tables = [table_of(schema, name, **options) for schema, name in zip(schemas, names, strict=True)]
    needed = [frame[list(table.columns)] for frame, table in zip(frames, tables, strict=True)]
    read = [arrow.schema([s.field(name) for name in t.columns]) for s, t in zip(schemas, tables, strict=True)]
    reader = FrameReader(tuple(tables), tuple(read))
    pieces = zip(*(frame.to_delayed() for frame in needed), strict=True)
    return Work(
        names=tuple(names),
        heads=reader.heads(_first_rows(needed, compute)),
        n_rows=None,
        partitions=tuple(WorkPart(OF_FRAME, 0, data, data) for data in pieces),
        observe=reader.observe,
        count=reader.count,
    )


def _first_rows(frames: Sequence[Any], compute: Compute) -> tuple[Any, ...]:
    """Some rows of each: those of the first partition that has any."""
    for i in range(frames[0].npartitions):
        try:
            found = tuple(compute(frame.partitions[i].head(64, compute=False)) for frame in frames)
        except Exception as error:  # whatever makes the partition may raise anything
            raise PartitionError(f"{title(i, frames[0].npartitions, OF_FRAME)}: {one_line(error, 600)}") from error
        if all(len(rows) for rows in found):
            return found
    raise ValueError("the DataFrame has no rows")


@dataclass(frozen=True, eq=False)
class FrameReader:
    """Reads pandas partitions of tables with given columns."""

    tables: tuple[Dataset, ...]
    schemas: tuple[Any, ...]

    def heads(self, frames: Sequence[Any]) -> tuple[Inputs, ...]:
        return tuple(inputs_of(read, weights) for read, weights in self._batch(frames))

    def observe(self, streams: Streams, step: int, start: int, *frames: Any) -> None:
        observe_rows(streams, self._rows(frames), step, start)

    def count(self, streams: Streams, *frames: Any) -> None:
        count_rows(streams, self._rows(frames))

    def _rows(self, frames: Sequence[Any]) -> Iterator[tuple[int, Batch]]:
        if any(len(frame) for frame in frames):  # filters leave partitions without rows
            with suppress(NoRowsError):
                yield 0, self._batch(frames)

    def _batch(self, frames: Sequence[Any]) -> Batch:
        arrow = require("pyarrow", "scale")
        batch = []
        for frame, table, schema in zip(frames, self.tables, self.schemas, strict=True):
            with parsing(table.path, "columns of the same types in every partition"):
                rows = arrow.RecordBatch.from_pandas(frame, schema=schema, preserve_index=False)
            batch.append(table.judged(rows))
        return agreeing(tuple(batch)) if len(batch) > 1 else tuple(batch)


# -- arrays ---------------------------------------------------------------------------------------------------------


def array_work(y_true: Any, models: Mapping[str, Any], weights: Any) -> Work:
    """Dask arrays of labels and of each model's predictions, divided as the first model's rows are."""
    first = next(iter(models.values()))
    reports = [_by_rows(array, name, first) for name, array in models.items()]
    others = [_by_rows(y_true, "y_true", first)]
    others += [] if weights is None else [_by_rows(weights, "sample_weight", first)]
    sizes = first.chunks[0]
    known = not np.isnan(sizes).any()
    if known and not sum(sizes):
        raise ValueError("the arrays have no rows")
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int) if known else np.zeros(len(sizes), dtype=int)
    parts = []
    for start, size, y, *p in zip(starts, sizes, zip(*others, strict=True), *reports, strict=True):
        where = f"rows {start} to {start + int(size) - 1}" if known else "of the arrays"
        parts.append(WorkPart(where, int(start), tuple(p), (y[0], y[1] if len(y) > 1 else None, *p)))
    return Work(
        names=tuple(models),
        heads=tuple(_no_rows(array) for array in models.values()),
        n_rows=int(sum(sizes)) if known else None,
        partitions=tuple(parts),
        observe=_observe_arrays,
        count=_count_arrays,
    )


def _by_rows(array: Any, name: str, first: Any) -> list[Any]:
    """The chunks of an array: whole rows, as many as in those of the first model."""
    if not require("dask", "scale").is_dask_collection(array) or not hasattr(array, "chunks"):
        raise TypeError(f"{name} must be a Dask array, got {shown(array)}")
    if array.ndim > 1:
        array = array.rechunk({1: -1})
    if array.numblocks[0] != first.numblocks[0] or array.chunks[0] != first.chunks[0]:
        if np.isnan([*array.chunks[0], *first.chunks[0]]).any():
            if array.numblocks[0] != first.numblocks[0]:
                raise ValueError(f"{name} must be divided as the predictions are, into {first.numblocks[0]} chunks")
        elif len(array) != len(first):
            raise ValueError(f"{name} must have {len(first)} rows as the predictions have, got {len(array)}")
        else:
            array = array.rechunk({0: first.chunks[0]})
    return list(array.to_delayed().ravel())


def _no_rows(array: Any) -> Inputs:
    if array.shape[1:] in ((), (2,)):
        return Inputs(BINARY, np.zeros(0, dtype=bool), np.zeros(0))
    if array.ndim != 2 or np.isnan(array.shape[1]):
        raise ValueError(f"predictions must have shape (n,) or (n, k), got {array.shape}")
    return Inputs(CLASSES, np.zeros(0, dtype=int), np.zeros((0, array.shape[1])))


def _observe_arrays(streams: Streams, step: int, start: int, *reports: Array) -> None:
    for stream, p in zip(streams, reports, strict=True):
        stream.observe(p[-start % step :: step])


def _count_arrays(streams: Streams, y_true: Array, weights: Array | None, *reports: Array) -> None:
    for stream, p in zip(streams, reports, strict=True):
        stream.update(y_true, p, sample_weight=weights)
