"""Trains many traces, several at a time, and keeps every finished one, so that a killed run goes on where it was."""

from __future__ import annotations

import csv
import json
import math
import multiprocessing
import os
import re
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path, PurePosixPath
from queue import Empty
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from truecal.io import atomic_path, write_atomic

Row = dict[str, Any]


@dataclass(frozen=True)
class Trace:
    """One training run: a model trained on a fraction of the data for a number of epochs."""

    model: str
    fraction: float
    epochs: int
    cost: float = 1.0  # relative work of one epoch, for the order of work and the time left
    source: str = ""  # where its logits are stored, for a trace that was trained elsewhere

    @property
    def name(self) -> str:
        """A file name, unique among the traces of an experiment."""
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


class Trainer(Protocol):
    """Data plus a way to train on it; a dataset of one's own is one such class."""

    y_validation: NDArray[np.intp]
    y_test: NDArray[np.intp]

    def train(self, trace: Trace, state: Path | None = None) -> Iterator[Checkpoint]:
        """Yield every epoch in order. ``state`` is a file where the trainer may save itself after each epoch, before
        it yields it; finding one, it begins by yielding the epoch saved there."""
        ...


@dataclass(frozen=True)
class Job:
    """What a worker needs: how to open the trainer, how to score a checkpoint, where results go."""

    open: Callable[[], Trainer]
    score: Callable[[Checkpoint, Trainer], Row]
    store: Store
    deadline: float = math.inf
    keep_logits: bool = False


@dataclass(frozen=True)
class Progress:
    """How far a run is, after each epoch."""

    trace: str
    epoch: int
    epochs: int
    finished: int
    traces: int
    share: float
    seconds_left: float


class Stopped(Exception):
    """The time limit came before the work was done; finished traces and saved epochs are kept."""


def write_rows(path: Path, rows: Sequence[Row]) -> None:
    """Rows as csv; numbers in their shortest exact form, so reading gives the same bits back."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as temporary, temporary.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def read_rows(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True)
class Store:
    """One experiment's folder: a csv per finished trace, the merged table, and what unfinished traces left."""

    folder: Path

    @property
    def table(self) -> Path:
        return self.folder / "checkpoints.csv"

    def finished(self, traces: Iterable[Trace]) -> dict[str, list[Row]]:
        """The complete traces: from their own files, or from a merged table that came alone."""
        wanted = {trace.name: trace for trace in traces}
        found: dict[str, list[Row]] = {}
        if self.table.is_file():
            for row in read_rows(self.table):
                found.setdefault(str(row["trace"]), []).append(row)
        for name in wanted:
            if self._rows(name).is_file():
                found[name] = read_rows(self._rows(name))
        return {
            name: rows
            for name, rows in found.items()
            if name in wanted and [row["epoch"] for row in rows] == list(range(1, wanted[name].epochs + 1))
        }

    def finish(self, trace: Trace, rows: Sequence[Row]) -> None:
        write_rows(self._rows(trace.name), rows)
        self.state(trace).unlink(missing_ok=True)
        self._partial(trace).unlink(missing_ok=True)

    def state(self, trace: Trace) -> Path:
        return self.folder / "partial" / f"{trace.name}.state"

    def save_partial(self, trace: Trace, rows: Sequence[Row]) -> None:
        write_rows(self._partial(trace), rows)

    def load_partial(self, trace: Trace) -> list[Row]:
        """Rows of the epochs before the saved state; without both there is nothing to go on from."""
        if self.state(trace).is_file() and self._partial(trace).is_file():
            return read_rows(self._partial(trace))
        return []

    def merge(self, traces: Sequence[Trace]) -> list[Row]:
        """Write the merged table of all finished traces, in the experiment's order, and return its rows."""
        found = self.finished(traces)
        rows = [row for trace in traces for row in found.get(trace.name, [])]
        if rows:
            write_rows(self.table, rows)
        return rows

    def save_logits(self, trace: Trace, checkpoint: Checkpoint) -> None:
        folder = self.folder / "logits" / trace.name
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "trace.json", json.dumps({"model": trace.model, "fraction": trace.fraction}))
        with atomic_path(folder / f"epoch-{checkpoint.epoch:04d}.npz") as temporary:
            np.savez_compressed(temporary, validation=checkpoint.validation, test=checkpoint.test)

    def _rows(self, name: str) -> Path:
        return self.folder / "traces" / f"{name}.csv"

    def _partial(self, trace: Trace) -> Path:
        return self.folder / "partial" / f"{trace.name}.csv"


def run_trace(job: Job, trainer: Trainer, trace: Trace, report: Callable[[int], None]) -> None:
    """Train and score one trace, epoch by epoch; raise `Stopped` when the next epoch would pass the deadline."""
    kept = job.store.load_partial(trace)
    state = job.store.state(trace)
    if not kept:
        state.unlink(missing_ok=True)
    state.parent.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    begun = time.monotonic()
    for checkpoint in trainer.train(trace, state):
        if not rows:
            rows = kept[: checkpoint.epoch - 1]  # a trainer that starts over replaces all of them
        if checkpoint.epoch != len(rows) + 1:
            raise RuntimeError(f"{trace.name}: expected epoch {len(rows) + 1}, the trainer gave {checkpoint.epoch}")
        description = {"trace": trace.name, "model": trace.model, "fraction": trace.fraction}
        rows.append({**description, "epoch": checkpoint.epoch, **job.score(checkpoint, trainer)})
        if job.keep_logits:
            job.store.save_logits(trace, checkpoint)
        if checkpoint.epoch == trace.epochs:
            break
        if state.is_file():
            job.store.save_partial(trace, rows)
        report(checkpoint.epoch)
        took, begun = time.monotonic() - begun, time.monotonic()
        if time.time() + 1.3 * took > job.deadline:
            raise Stopped(trace.name)
    if len(rows) != trace.epochs:
        raise RuntimeError(f"{trace.name}: expected {trace.epochs} epochs, the trainer gave {len(rows)}")
    job.store.finish(trace, rows)
    report(trace.epochs)


def run_traces(
    job: Job, traces: Sequence[Trace], *, processes: int = 1, progress: Callable[[Progress], None] | None = None
) -> list[Row]:
    """Train whatever is not finished yet and return the merged rows; raise `Stopped` at the deadline."""
    found = job.store.finished(traces)
    todo = [trace for trace in traces if trace.name not in found]
    meter = _Meter(traces, set(found), progress)

    def seen(name: str, epoch: int) -> None:
        meter.report(name, epoch)
        if meter.is_finished(name):
            job.store.merge(traces)  # so that the table is whole up to here whatever happens next

    if processes <= 1 or len(todo) <= 1:
        _run_here(job, todo, seen)
    else:
        _run_in_processes(job, todo, seen, min(processes, len(todo)))
    with suppress(OSError):  # nothing there, or another run's unfinished trace
        (job.store.folder / "partial").rmdir()
    return job.store.merge(traces)


def choose(todo: Sequence[Trace], own_model: str | None, others: Iterable[str]) -> Trace:
    """The next trace for a worker: of the model it holds, else of the model with most work left that nobody holds."""
    held = set(others)
    work: dict[str, float] = {}
    for trace in todo:
        work[trace.model] = work.get(trace.model, 0.0) + trace.cost * trace.epochs
    model = own_model if own_model in work else max(work, key=lambda name: (name not in held, work[name]))
    return max((trace for trace in todo if trace.model == model), key=lambda trace: trace.cost * trace.epochs)


class _Meter:
    """Counts epochs by their cost and tells how much time is left at the pace so far."""

    def __init__(
        self, traces: Sequence[Trace], done: Iterable[str], progress: Callable[[Progress], None] | None
    ) -> None:
        self._traces = {trace.name: trace for trace in traces}
        self._epochs = {name: trace.epochs if name in done else 0 for name, trace in self._traces.items()}
        self._progress = progress
        self._begun = time.monotonic()
        self._before = self._share()

    def report(self, name: str, epoch: int) -> None:
        self._epochs[name] = epoch
        if self._progress is None:
            return
        share, elapsed = self._share(), time.monotonic() - self._begun
        gained = share - self._before
        left = elapsed * (1 - share) / gained if gained > 0 else math.inf
        finished = sum(map(self.is_finished, self._traces))
        trace = self._traces[name]
        self._progress(Progress(name, epoch, trace.epochs, finished, len(self._traces), share, left))

    def is_finished(self, name: str) -> bool:
        return self._epochs[name] == self._traces[name].epochs

    def _share(self) -> float:
        total = sum(trace.cost * trace.epochs for trace in self._traces.values())
        return sum(trace.cost * self._epochs[name] for name, trace in self._traces.items()) / total if total else 1.0


def _run_here(job: Job, todo: list[Trace], seen: Callable[[str, int], None]) -> None:
    remaining, model = list(todo), None
    trainer = job.open() if remaining else None
    while remaining:
        assert trainer is not None
        trace = choose(remaining, model, ())
        remaining.remove(trace)
        model = trace.model
        run_trace(job, trainer, trace, partial(seen, trace.name))


def _run_in_processes(job: Job, todo: list[Trace], seen: Callable[[str, int], None], processes: int) -> None:
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    messages: Any = context.Queue()
    inboxes = [context.SimpleQueue() for _ in range(processes)]
    arguments = [(number, job, inbox, messages) for number, inbox in enumerate(inboxes)]
    workers = [context.Process(target=_work, args=given, daemon=True) for given in arguments]
    remaining = list(todo)
    models: dict[int, str] = {}
    stopped: list[str] = []
    with _one_thread_each():
        for worker in workers:
            worker.start()
    running = set(range(processes))
    try:
        while running:
            try:
                number, kind, payload = messages.get(timeout=1.0)
            except Empty:
                _check_alive(workers, running)
                continue
            if kind == "epoch":
                seen(*payload)
            elif kind == "ready" and remaining and time.time() < job.deadline:
                trace = choose(remaining, models.get(number), [m for n, m in models.items() if n != number])
                remaining.remove(trace)
                models[number] = trace.model
                inboxes[number].put(trace)
            elif kind == "ready":
                inboxes[number].put(None)
            elif kind == "stopped":
                stopped.append(payload)
            elif kind == "end":
                running.discard(number)
            else:
                raise RuntimeError(f"a worker failed:\n{payload}")
        for worker in workers:
            worker.join()
    finally:
        for worker in workers:
            worker.kill()
    if stopped or remaining:
        raise Stopped(f"{len(stopped)} traces in progress, {len(remaining)} not begun")


def _check_alive(workers: Sequence[Any], running: Iterable[int]) -> None:
    for number in running:
        if workers[number].exitcode not in (None, 0):
            raise RuntimeError(f"a worker died with exit code {workers[number].exitcode}; run again to go on")


def _work(number: int, job: Job, inbox: Any, messages: Any) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        trainer = job.open()
        while True:
            messages.put((number, "ready", None))
            trace = inbox.get()
            if trace is None:
                break
            try:
                run_trace(job, trainer, trace, partial(_send_epoch, messages, number, trace.name))
            except Stopped:
                messages.put((number, "stopped", trace.name))
                break
        messages.put((number, "end", None))
    except BaseException:
        messages.put((number, "failed", traceback.format_exc()))


def _send_epoch(messages: Any, number: int, name: str, epoch: int) -> None:
    messages.put((number, "epoch", (name, epoch)))


def _end_with_parent() -> None:
    """A killed parent cannot stop its workers, so they watch it themselves."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class _one_thread_each:
    """While workers start, tell their numerical libraries to use one thread: the processes are the parallelism."""

    NAMES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self.NAMES}
        os.environ.update(dict.fromkeys(self.NAMES, "1"))

    def __exit__(self, *_: object) -> None:
        for name, value in self._before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
