"""Traces and their checkpoints, and the folder that keeps every finished one."""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from truecal.io import FileError, atomic_path, write_atomic
from truecal.io.failures import failure, parsing

Row = dict[str, Any]
Labels = NDArray[np.intp]
WITHIN, CROSS = "within", "cross"
KINDS = (WITHIN, CROSS)


def kind(experiment: str) -> str:
    """Whether an experiment is within one model or across models: its name, up to the first hyphen."""
    return experiment.partition("-")[0]


def heading(experiment: str) -> str:
    """An experiment in words.

    >>> heading("within-lr0.02")
    'Within one model, learning rate 0.02'
    """
    arm = experiment.partition("-lr")[2]
    words = "Across models" if kind(experiment) == CROSS else "Within one model"
    return f"{words}, learning rate {arm}" if arm else words


@dataclass(frozen=True)
class Trace:
    """One training run: a model trained on a fraction of the data for a number of epochs."""

    model: str
    fraction: float
    epochs: int
    cost: float = 1.0  # relative work of one epoch, for the order of work and the time left
    source: str = ""  # where its logits are stored, for a trace that was trained elsewhere
    learning_rate: float | None = None  # where it is not the trainer's own
    piece: int = 0  # pieces are trained one after the other, so that a run that is stopped has whole pieces
    experiment: str = ""

    @property
    def work(self) -> float:
        return self.cost * self.epochs

    @property
    def key(self) -> str:
        """Unique among all traces of a run."""
        return f"{self.experiment}/{self.name}" if self.experiment else self.name

    def elsewhere(self) -> tuple[Trace, ...]:
        """The trace of the within-model experiment that is this one: same name, hence same seeds, and same epochs."""
        if self.experiment != CROSS or self.source or self.learning_rate is not None:
            return ()
        return (replace(self, experiment=WITHIN),)

    @property
    def name(self) -> str:
        """A file name, unique among the traces of an experiment; it seeds the trace, so arms that differ in the
        learning rate alone see the same images in the same order."""
        if self.source:
            return PurePosixPath(self.source).name
        model = re.sub(r"[^A-Za-z0-9._@+-]", "-", self.model)
        return f"{model}-{100 * self.fraction:05.1f}"


@dataclass(frozen=True)
class Checkpoint:
    """What a trainer yields after an epoch: logits (not probabilities) on the two held-out parts."""

    epoch: int
    validation: NDArray[Any]
    test: NDArray[Any]
    train_loss: float | None = None  # mean cross-entropy of the epoch's batches, where the trainer knows it


class Trainer(Protocol):
    """Data plus a way to train on it; a dataset of one's own is one such class."""

    y_validation: Labels
    y_test: Labels

    def train(self, trace: Trace, state: Path | None = None) -> Iterator[Checkpoint]:
        """Yield every epoch in order. ``state`` is a file where the trainer may save itself after each epoch, before
        it yields it; finding one, it begins by yielding the epoch saved there."""
        ...


TABLE = "checkpoints.csv"


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Rows as csv, empty where a row lacks a column; numbers in their shortest exact form, so reading gives the same
    bits back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = dict.fromkeys(column for row in rows for column in row)
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(columns), lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def read_rows(path: Path) -> list[Row]:
    """The rows of a table of checkpoints; FileError where it is none."""
    rows: list[Row] = []
    with parsing(path, "a table of checkpoints"), path.open(newline="", encoding="utf-8") as file:
        table = csv.DictReader(file, strict=True)
        columns = table.fieldnames or ()
        for row in table:
            if None in row or None in row.values():
                raise failure(
                    path, f"expected a value for each of its columns in every row, but row {len(rows)} lacks some"
                )
            rows.append({key: _number(value) for key, value in row.items()})
    if missing := {"trace", "epoch"} - set(columns):
        raise failure(path, f"expected a table of checkpoints, but it has no column {', '.join(sorted(missing))}")
    return rows


def _number(text: str) -> Any:
    if not text:
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True)
class Store:
    """A run's folder; per experiment a csv per finished trace, the merged table, and what unfinished traces left."""

    root: Path

    def folder(self, trace: Trace) -> Path:
        return self.root / trace.experiment

    def finished(self, traces: Iterable[Trace]) -> dict[str, list[Row]]:
        """The complete traces by their keys: from their own files, or from a merged table that came alone."""

        @cache
        def merged(folder: Path) -> dict[str, list[Row]]:
            return _by_trace(folder / TABLE) or {}  # one that is damaged blocks no trace: it is made anew from them

        found: dict[str, list[Row]] = {}
        for trace in traces:
            rows: list[Row] = []
            for same in (trace, *trace.elsewhere()):
                own = self._file(same, "traces", ".csv")
                rows = rows or (read_rows(own) if own.is_file() else merged(self.folder(same)).get(same.name, []))
            if [row["epoch"] for row in rows] == list(range(1, trace.epochs + 1)):
                found[trace.key] = rows
        return found

    def finish(self, trace: Trace, rows: Sequence[Row]) -> None:
        write_rows(self._file(trace, "traces", ".csv"), rows)
        self.state(trace).unlink(missing_ok=True)
        self._file(trace, "partial", ".csv").unlink(missing_ok=True)

    def state(self, trace: Trace) -> Path:
        return self._file(trace, "partial", ".state")

    def save_partial(self, trace: Trace, rows: Sequence[Row]) -> None:
        write_rows(self._file(trace, "partial", ".csv"), rows)

    def load_partial(self, trace: Trace) -> list[Row]:
        """Rows of the epochs before the saved state; without both there is nothing to go on from."""
        rows = self._file(trace, "partial", ".csv")
        return read_rows(rows) if self.state(trace).is_file() and rows.is_file() else []

    def merge(self, traces: Sequence[Trace]) -> list[Row]:
        """Write each experiment's table of finished traces, in the order planned, and return all their rows."""
        found = self.finished(traces)
        tables: dict[Path, list[Row]] = defaultdict(list)
        for trace in traces:
            tables[self.folder(trace) / TABLE] += found.get(trace.key, [])
        for table, rows in tables.items():
            if rows and _by_trace(table) is None:
                table.replace(table.with_name(f"{table.stem}.damaged{table.suffix}"))  # perhaps the only copy of a run
            if rows:
                write_rows(table, rows)
        return [row for rows in tables.values() for row in rows]

    def save_logits(self, trace: Trace, checkpoint: Checkpoint) -> None:
        folder = self._file(trace, "logits")
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "trace.json", json.dumps({"model": trace.model, "fraction": trace.fraction}))
        arrays: Any = {"validation": checkpoint.validation, "test": checkpoint.test}
        if checkpoint.train_loss is not None:
            arrays["train_loss"] = checkpoint.train_loss
        with atomic_path(folder / f"epoch-{checkpoint.epoch:04d}.npz") as temporary:
            np.savez_compressed(temporary, **arrays)

    def _file(self, trace: Trace, part: str, suffix: str = "") -> Path:
        return self.folder(trace) / part / f"{trace.name}{suffix}"


def _by_trace(table: Path) -> dict[str, list[Row]] | None:
    """The rows of each trace in a merged table; None where there is one that cannot be read."""
    found: dict[str, list[Row]] = defaultdict(list)
    try:
        for row in read_rows(table) if table.is_file() else ():
            found[str(row["trace"])].append(row)
    except FileError:
        return None
    return found
