"""evaluate and compare on tables larger than memory: one or two passes over checked batches of their rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.data import check_weights
from ..core.errors import COMPOSED
from ..core.rules import BinCounts
from ..core.types import Array
from ..evaluation.comparison import Comparison
from ..evaluation.inputs import PROPERTIES, Inputs, Kind
from ..evaluation.model import Evaluation
from ..io.agreement import check_same_samples, distinct_names
from ..io.dataset import Dataset
from ..io.failures import FileError, failure
from ..io.predictions import Predictions
from .plan import UNIFORM, at_rows, read_plan
from .reading import compare_streams
from .stream import BLOCKS, Stream

Progress = Callable[[float], None]
Batch = tuple[tuple[Predictions, Array | None], ...]

DEFAULT_ERRORS: dict[Kind, tuple[str, ...]] = {
    "multiclass": ("classwise", "confidence", "confidence_l1"),
    "binary": ("binary", "confidence_l1"),
    "top_label": ("top_label", "top_label_l1"),
}
SKETCHED = 1 << 20
"""About so many rows are sketched, spread evenly over the table: more would not move the edges visibly."""


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
    a first pass, over about a million rows of predictions spread evenly over the table."""
    rows = {dataset.n_rows for dataset in datasets}
    if len(rows) > 1:
        other = next(dataset for dataset in datasets if dataset.n_rows != datasets[0].n_rows)
        raise failure(other.path, f"expected {datasets[0].n_rows} rows as in {datasets[0].path}, got {other.n_rows}")
    run = _Run(tuple(datasets), progress, time.perf_counter())
    head = [_inputs(dataset.first(), None) for dataset in datasets]
    streams = [_new_stream(inputs, run.n_rows, errors, n_bins, one_pass, blocks) for inputs in head]
    passes = 1 if all(stream.frozen for stream in streams) else 2
    if passes == 2:
        _sketch(run, streams)
    for start, batch in run.counted(passes - 1, passes):
        try:
            for stream, (read, weights) in zip(streams, batch, strict=True):
                stream.count(_inputs(read, weights))
        except (ValueError, TypeError) as error:
            raise FileError(f"{error} (rows are counted from row {start})" if start else str(error)) from error
    return streams, run.notes(passes)


def _new_stream(
    inputs: Inputs, n_rows: int, errors: Sequence[str] | None, n_bins: BinCounts, one_pass: bool, blocks: int
) -> Stream:
    """A stream for predictions of one kind, its automatic numbers of bins those for so many rows."""
    names = tuple(errors or DEFAULT_ERRORS[inputs.kind])
    for name in names:
        if name not in inputs.error_names():
            kind = inputs.kind.replace("_", "-")
            raise ValueError(f"{name!r} cannot apply to {kind} predictions; expected some of {inputs.error_names()}")
    edges = UNIFORM if one_pass else None
    entries: list[Any] = []
    for name in names:  # the usual ECE keeps its 15 bins unless others are asked for
        automatic = isinstance(n_bins, str) and COMPOSED[name].norm == "l1"
        entries += read_plan(name, None if automatic else n_bins, edges)
    views = {p.kind: inputs.n_classes or 1 for p in PROPERTIES[inputs.kind]} | {"confidence": 1, "binary": 1}
    return Stream(at_rows(entries, n_rows, views), blocks, None, 1)


def _sketch(run: _Run, streams: Sequence[Stream]) -> None:
    """The first pass: every so many-th row, labels unseen, then frozen edges."""
    step = max(1, run.n_rows // SKETCHED)
    for start, batch in run.counted(0, 2):
        for stream, (read, weights) in zip(streams, batch, strict=True):
            stream.look_at(np.ascontiguousarray(_inputs(read, weights).reports[(-start) % step :: step]))
    for stream in streams:
        stream.freeze(run.n_rows)


def _inputs(read: Predictions, weights: Array | None) -> Inputs:
    """Checked predictions as measures take them."""
    checked = None if weights is None else check_weights(weights, read.n)
    if read.kind == "top_label":
        if read.correct is None:
            raise failure(read.path, "expected labels, or whether each top class was right")
        assert read.confidence is not None
        return Inputs("top_label", read.correct, read.confidence, checked)
    if read.y_true is None:
        raise failure(read.path, "expected labels in the table, found none: name their column with --label-column")
    if read.one_number and read.proba is not None and read.y_true.ndim == 1:
        return Inputs("binary", read.y_true == 1, read.proba, checked)
    return Inputs("multiclass", read.y_true, read.probabilities(), checked)


class _Run:
    """The passes over tables of the same rows, in step."""

    def __init__(self, datasets: tuple[Dataset, ...], progress: Progress | None, began: float) -> None:
        self.datasets, self.progress, self.began = datasets, progress, began
        self.n_rows = datasets[0].n_rows

    def batches(self) -> Iterator[Batch]:
        """Batches of all tables, held against each other where there are several."""
        if len(self.datasets) == 1:
            yield from ((one,) for one in self.datasets[0].batches())
            return
        size = min(dataset.batch_rows for dataset in self.datasets)
        for batch in zip(*(dataset.batches(rows=size) for dataset in self.datasets), strict=True):
            weights = next((w for _, w in batch if w is not None), None)
            yield tuple((read, weights) for read in check_same_samples([read for read, _ in batch]))

    def counted(self, done: int, passes: int) -> Iterator[tuple[int, Batch]]:
        """The first row of each batch beside it, and progress after it; `done` of the passes lie behind."""
        start = 0
        batches = self.batches()
        while True:
            try:
                batch = next(batches, None)
            except FileError as error:
                if not start or "counted from row" in str(error):
                    raise
                raise FileError(f"{error} (rows are counted from row {start})") from error
            if batch is None:
                return
            yield start, batch
            read = batch[0][0]
            start += read.n_rows or read.n
            if self.progress is not None:
                self.progress((done + start / self.n_rows) / passes)

    def notes(self, passes: int) -> tuple[str, ...]:
        seconds = time.perf_counter() - self.began
        files = sum(len(dataset.files) for dataset in self.datasets)
        speed = self.n_rows * len(self.datasets) / max(seconds, 1e-9)
        what = f"read in batches: {files} file{'s' * (files > 1)}, {'two passes' if passes == 2 else 'one pass'}"
        notes = [f"{what}, {speed:,.0f} rows a second"]
        if passes == 2:
            notes.append(
                "quantile bins have edges sketched from the predictions: equal in size to about .1% of the rows"
            )
        return tuple(notes)
