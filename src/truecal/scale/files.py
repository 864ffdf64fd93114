"""evaluate and compare on tables larger than memory: one or two passes over checked batches of their rows."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, final

import numpy as np

from ..core import dispatch
from ..core.data import check_weights
from ..core.rules import BinCounts
from ..core.types import Array
from ..evidence.kept_rows import MOST_BYTES, MOST_ROWS
from ..evidence.stream_plan import UNIFORM, at_rows, read_plan, refuse_baseline, refuse_other_edges
from ..io.agreement import check_same_samples, distinct_names
from ..io.column_rules import choose_label
from ..io.dataset import Dataset, left_out_files
from ..io.failures import FileError, NoRowsError, counted_from, failure
from ..io.prediction_file import Predictions
from ..kinds import BINARY, CLASSES, COMPOSED, TOP_LABEL, Kind
from ..kinds.inputs import Inputs
from ..results.comparison import Comparison
from ..results.evaluation import Evaluation
from .stream import BLOCKS, Stream, compare_streams

Progress = Callable[[float], None]
Batch = tuple[tuple[Predictions, Array | None], ...]

FIRST_GROUPS = 16
"""Of a table with enough groups of rows the first pass reads so many parts, spread evenly, and nothing else."""

MOST_LANES, LANE_BYTES = 4, 1 << 25
"""So many batches are counted side by side, if the sums of all but the first fit into so much memory."""

SOME_NOTE = (
    "quantile bins have edges from {} of the predictions, spread evenly: a standard deviation of {}% of the rows off"
)


def evaluate_dataset(dataset: Dataset, *, name: str | None = None, level: float = 0.95, **options: Any) -> Evaluation:
    """`evaluate` of a table in batches; what needs the rows is left out. For the options see `run_streams`."""
    (stream,), notes = run_streams([dataset], **options)
    return stream.result(level=level, name=name or dataset.name).with_notes(notes)


def compare_datasets(datasets: Sequence[Dataset], *, level: float = 0.95, **options: Any) -> Comparison:
    """`compare` of tables of the same rows, read in step; what needs the rows is left out."""
    first = [dataset.first() for dataset in datasets]
    streams, notes = run_streams(datasets, **options)
    return compare_streams(dict(zip(distinct_names(first), streams, strict=True)), level).with_notes(notes)


def run_streams(
    datasets: Sequence[Dataset],
    *,
    errors: Sequence[str] | None = None,
    n_bins: BinCounts = "auto",
    one_pass: bool = False,
    blocks: int = BLOCKS,
    progress: Progress | None = None,
) -> tuple[list[Stream], tuple[str, ...]]:
    """A stream of each table and notes on how they were read. `one_pass` takes bins of equal width; quantile bins cost
    a first pass, over some of the rows, spread evenly over the table."""
    rows = {dataset.n_rows for dataset in datasets}
    if len(rows) > 1:
        other = next(dataset for dataset in datasets if dataset.n_rows != datasets[0].n_rows)
        raise failure(other.path, f"expected {datasets[0].n_rows} rows as in {datasets[0].path}, got {other.n_rows}")
    run = Pass(tuple(datasets), progress, time.perf_counter())
    edges = UNIFORM if one_pass else None
    streams = [
        new_stream(inputs_of(dataset.first(), None), run.n_rows, errors, n_bins, edges, blocks) for dataset in datasets
    ]
    passes = 1 if all(stream.frozen for stream in streams) else 2
    if passes == 2:
        for stream, kept in zip(streams, _first_pass(run), strict=True):
            for reports in kept:
                stream.look_at(reports)
            stream.freeze(run.n_rows)
    count_rows(streams, run.counted(passes - 1, passes))
    return streams, run.notes(passes, streams)


def _first_pass(run: Pass) -> list[list[Array]]:
    """Predictions of rows that are spread evenly over the tables, for each of them; labels are not looked at."""
    most = max(1, min(MOST_ROWS, MOST_BYTES // sum(dataset.row_bytes for dataset in run.datasets)))
    if spans := _some_groups(run, max(1, most // FIRST_GROUPS)):
        some = replace(run, datasets=tuple(dataset.some(spans) for dataset in run.datasets))
        try:
            return _kept(some, most)
        except FileError:
            pass  # a pass over all rows says what is wrong, and in which of them
    return _kept(run, most)


def _some_groups(run: Pass, rows: int) -> list[tuple[int, int]]:
    """Groups of so many rows or a little more, where there are many: parquet reads only these."""
    if not all(dataset.in_groups for dataset in run.datasets):
        return []
    every = list(pairwise(run.datasets[0].breaks(rows)))
    if len(every) <= FIRST_GROUPS:
        return []
    return [every[(2 * i + 1) * len(every) // (2 * FIRST_GROUPS)] for i in range(FIRST_GROUPS)]


def _kept(run: Pass, most: int) -> list[list[Array]]:
    """The predictions of so many rows at most, for each table."""
    kept: list[list[Array]] = [[] for _ in run.datasets]
    for start, batch in replace(run, every=-(-run.n_rows // most)).counted(0, 2):
        with counted_from(start):
            for own, (read, weights) in zip(kept, batch, strict=True):
                own.append(inputs_of(read, weights).reports)
    return kept


def first_step(n_rows: int | None) -> int:
    """The step between observed rows; 1 where the number of rows is unknown."""
    return 1 if n_rows is None else -(-n_rows // MOST_ROWS)


def first_notes(stream: Stream, n_rows: int | None) -> list[str]:
    """A note on the number of predictions behind quantile edges, unless it is all."""
    kept = stream.first_pass.number
    return [some_note(kept)] if 0 < kept < (n_rows or stream.observed) else []


def some_note(observed: int) -> str:
    """A note on edges from so many predictions, with the error of the middle edge."""
    return SOME_NOTE.format(observed, f"{50 / observed**0.5:.1f}".removeprefix("0"))


def observe_rows(streams: Sequence[Stream], rows: Iterable[tuple[int, Batch]], step: int = 1, first: int = 0) -> None:
    """The first pass: every so many-th row, labels unseen; the first is row number `first` of the table."""
    for start, batch in rows:
        with counted_from(start):
            for stream, (read, weights) in zip(streams, batch, strict=True):
                chosen = slice(-(first + start) % step, None, step)
                if len(reports := np.ascontiguousarray(inputs_of(read, weights).reports[chosen])):
                    stream.look_at(reports)


def count_rows(streams: Sequence[Stream], rows: Iterable[tuple[int, Batch]]) -> None:
    """The second pass, over frozen edges; several batches side by side, where more than one thread may run."""
    if dispatch.THREADS > 1:
        _count_in_lanes(streams, rows)
        return
    for start, batch in rows:
        _count(streams, start, batch, streams[0].rows)


def _count_in_lanes(streams: Sequence[Stream], rows: Iterable[tuple[int, Batch]]) -> None:
    """Batches take turns in several lanes, which are counted side by side while the next batch is read and checked;
    which lane a batch goes to does not depend on how fast they are."""
    counted, lanes = streams[0].rows, [streams]
    waiting: deque[Future[None]] = deque()
    with ThreadPoolExecutor(MOST_LANES) as pool:
        for i, (start, batch) in enumerate(_after(waiting, rows)):
            if i == 1:
                waiting.popleft().result()  # the first batch tells how much memory a lane takes
                lanes += [[stream.without_rows() for stream in streams] for _ in range(_more_lanes(streams))]
            elif len(waiting) == len(lanes):
                waiting.popleft().result()
            waiting.append(pool.submit(_count, lanes[i % len(lanes)], start, batch, counted))
            counted += batch[0][0].n
        for left in waiting:
            left.result()
    for lane in lanes[1:]:
        for stream, more in zip(streams, lane, strict=True):
            stream.absorb(more)


def _after(waiting: Iterable[Future[None]], rows: Iterable[tuple[int, Batch]]) -> Iterator[tuple[int, Batch]]:
    """The rows; where some cannot be read, what is wrong with those before them, which are still counted, is said."""
    try:
        yield from rows
    except FileError:
        for earlier in waiting:
            earlier.result()
        raise


def _more_lanes(streams: Sequence[Stream]) -> int:
    """How many lanes there are threads and memory for, beside the first."""
    held = sum(tally.nbytes for stream in streams for tally in stream.tallies.values())
    return min(dispatch.THREADS, MOST_LANES, 1 + LANE_BYTES // held) - 1


def _count(streams: Sequence[Stream], start: int, batch: Batch, counted: int) -> None:
    """Count a batch whose rows begin at row `start` of the table, after so many that counted."""
    with counted_from(start):
        for stream, (read, weights) in zip(streams, batch, strict=True):
            try:
                stream.count(inputs_of(read, weights), counted, threads=1)
            except FileError:
                raise
            except (ValueError, TypeError) as error:
                raise failure(read.path, str(error)) from error


def new_stream(
    inputs: Inputs, n_rows: int | None, errors: Sequence[str] | None, n_bins: BinCounts, edges: Any, blocks: int
) -> Stream:
    """A stream for predictions of one kind, its automatic numbers of bins those for so many rows, where that is
    known. `edges` are those of `stream`."""
    names = tuple(errors or inputs.kind.stream_errors)
    check_applies(names, inputs.kind)
    refuse_other_edges(edges, names)
    entries: list[Any] = []
    for name in names:  # the usual ECE keeps its 15 bins unless others are asked for
        automatic = isinstance(n_bins, str) and COMPOSED[name].norm == "l1"
        entries += read_plan(name, None if automatic else n_bins, edges)
    if n_rows is None:
        return Stream(tuple(entries), blocks, None, 1)
    return Stream(at_rows(entries, n_rows, inputs.n_classes or 1, blocks), blocks, None, 1).expect(n_rows)


def check_applies(names: Sequence[str], kind: Kind) -> None:
    """Refuse errors that cannot be measured on predictions of this kind, or not in batches."""
    possible = kind.measures(COMPOSED)
    for name in names:
        refuse_baseline(name)
        if name not in possible:
            expected = ", ".join(possible)
            raise ValueError(f"{name!r} cannot be used with {kind.name} predictions; expected some of {expected}")


def inputs_of(read: Predictions, weights: Array | None) -> Inputs:
    """Checked predictions as measures take them."""
    nothing = weights is not None and not weights.any()  # a batch in which no row counts is a batch all the same
    try:
        checked = weights if nothing else check_weights(weights, read.n)
    except ValueError as error:
        raise failure(read.path, str(error)) from error
    if read.top_only:
        if read.correct is None:
            raise failure(read.path, "expected labels, or whether each top class was right")
        assert read.confidence is not None
        return Inputs(TOP_LABEL, read.correct, read.confidence, checked)
    if read.y_true is None:
        how = choose_label(read.unused, read.can_label)
        raise failure(read.path, f"the table has no labels; {how}")
    if read.one_number and read.y_true.ndim == 1:
        positive = read.probabilities()[:, 1].copy() if read.proba is None else read.proba
        return Inputs(BINARY, read.y_true == 1, positive, checked)
    proba = read.probabilities()
    if proba.shape[1] == 2 and read.y_true.ndim == 1:
        return Inputs(BINARY, read.y_true == 1, np.ascontiguousarray(proba[:, 1]), checked)
    return Inputs(CLASSES, read.y_true, proba, checked, known=read.facts)


def agreeing(batch: Batch) -> Batch:
    """The same rows of several tables, held against each other; weights are those of the first that has some."""
    weights = next((w for _, w in batch if w is not None), None)
    return tuple((read, weights) for read in check_same_samples([read for read, _ in batch]))


@final
@dataclass(frozen=True, eq=False)
class Pass:
    """A pass over tables of the same rows, in step; over every so many-th row alone, the first being number `first`."""

    datasets: tuple[Dataset, ...]
    progress: Progress | None = None
    began: float = 0.0
    every: int = 1
    first: int = 0

    @property
    def n_rows(self) -> int:
        return self.datasets[0].n_rows

    def counted(self, done: int, passes: int) -> Iterator[tuple[int, Batch]]:
        """Batches of all tables, held against each other where there are several; the first row of each beside it, and
        progress after it. `done` of the passes lie behind."""
        size = min(dataset.batch_rows for dataset in self.datasets) if len(self.datasets) > 1 else None
        start = 0
        for stored in zip(*(dataset.record_batches(size) for dataset in self.datasets), strict=True):
            chosen = range(-(self.first + start) % self.every, len(stored[0]), self.every)
            with suppress(NoRowsError):
                if chosen:
                    whole = self.every == 1
                    yield start, self._judged(stored, start) if whole else self._judged_some(stored, start, chosen)
            start += len(stored[0])
            if self.progress is not None:
                self.progress((done + start / self.n_rows) / passes)

    def _judged(self, stored: Sequence[Any], start: int) -> Batch:
        batch = tuple(dataset.judged(rows, start) for dataset, rows in zip(self.datasets, stored, strict=True))
        if len(batch) == 1:
            return batch
        with counted_from(start):
            return agreeing(batch)

    def _judged_some(self, stored: Sequence[Any], start: int, chosen: range) -> Batch:
        places = np.arange(chosen.start, chosen.stop, chosen.step)
        try:
            return self._judged([rows.take(places) for rows in stored], start)
        except NoRowsError:
            raise
        except FileError:
            self._judged(stored, start)  # what is wrong is said of a row of the table
            raise

    def notes(self, passes: int, streams: Sequence[Stream]) -> tuple[str, ...]:
        """How the tables were read, and what of them was not measured."""
        seconds = time.perf_counter() - self.began
        files = sum(len(dataset.files) for dataset in self.datasets)
        speed = self.n_rows * len(self.datasets) / max(seconds, 1e-9)
        what = f"read in batches: {files} file{'s' * (files > 1)}, {'two passes' if passes == 2 else 'one pass'}"
        notes = [f"{what}, {speed:,.0f} rows per second"]
        observed = int(streams[0].settings["observed"])
        if passes == 2 and observed < streams[0].rows:
            notes.append(some_note(observed))
        return (*notes, *left_out_files(self.datasets), *left_out_rows(self.n_rows, streams[0].rows))


def left_out_rows(n_rows: int | None, measured: int) -> list[str]:
    """A note on rows that were not measured, where there are any."""
    missing = 0 if n_rows is None else n_rows - measured
    return [f"{missing} of {n_rows} rows dropped: they have no prediction"] if missing else []
