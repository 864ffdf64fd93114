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
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path, PurePosixPath
from queue import Empty, Queue, SimpleQueue
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from truecal.io import atomic_path, write_atomic

Row = dict[str, Any]
Labels = NDArray[np.intp]


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
    def key(self) -> str:
        """Unique among all traces of a run."""
        return f"{self.experiment}/{self.name}" if self.experiment else self.name

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


Score = Callable[[Checkpoint, Labels, Labels], Row]


@dataclass(frozen=True)
class Job:
    """What a worker needs: how to open the trainer, how to measure a checkpoint, where results go.

    With ``scorers`` a worker has that many processes that measure behind the training, which then saves no epochs: a
    trace is kept whole or not at all.
    """

    open: Callable[[], Trainer]
    score: Score
    store: Store
    deadline: float = math.inf
    keep_logits: bool = False
    scorers: int = 0


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


TABLE = "checkpoints.csv"


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
    """A run's folder; per experiment a csv per finished trace, the merged table, and what unfinished traces left."""

    root: Path

    def folder(self, trace: Trace) -> Path:
        return self.root / trace.experiment

    def finished(self, traces: Iterable[Trace]) -> dict[str, list[Row]]:
        """The complete traces by their keys: from their own files, or from a merged table that came alone."""
        found: dict[str, list[Row]] = {}
        tables: dict[Path, dict[str, list[Row]]] = {}
        for trace in traces:
            folder = self.folder(trace)
            if self._rows(trace).is_file():
                rows = read_rows(self._rows(trace))
            else:
                if folder not in tables:
                    tables[folder] = _by_trace(folder / TABLE)
                rows = tables[folder].get(trace.name, [])
            if [row["epoch"] for row in rows] == list(range(1, trace.epochs + 1)):
                found[trace.key] = rows
        return found

    def finish(self, trace: Trace, rows: Sequence[Row]) -> None:
        write_rows(self._rows(trace), rows)
        self.state(trace).unlink(missing_ok=True)
        self._partial(trace).unlink(missing_ok=True)

    def state(self, trace: Trace) -> Path:
        return self.folder(trace) / "partial" / f"{trace.name}.state"

    def save_partial(self, trace: Trace, rows: Sequence[Row]) -> None:
        write_rows(self._partial(trace), rows)

    def load_partial(self, trace: Trace) -> list[Row]:
        """Rows of the epochs before the saved state; without both there is nothing to go on from."""
        if self.state(trace).is_file() and self._partial(trace).is_file():
            return read_rows(self._partial(trace))
        return []

    def merge(self, traces: Sequence[Trace]) -> list[Row]:
        """Write each experiment's table of finished traces, in the order planned, and return all their rows."""
        found = self.finished(traces)
        tables: dict[Path, list[Row]] = {}
        for trace in traces:
            tables.setdefault(self.folder(trace), []).extend(found.get(trace.key, []))
        for folder, rows in tables.items():
            if rows:
                write_rows(folder / TABLE, rows)
        return [row for rows in tables.values() for row in rows]

    def save_logits(self, trace: Trace, checkpoint: Checkpoint) -> None:
        folder = self.folder(trace) / "logits" / trace.name
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "trace.json", json.dumps({"model": trace.model, "fraction": trace.fraction}))
        with atomic_path(folder / f"epoch-{checkpoint.epoch:04d}.npz") as temporary:
            np.savez_compressed(temporary, validation=checkpoint.validation, test=checkpoint.test)

    def _rows(self, trace: Trace) -> Path:
        return self.folder(trace) / "traces" / f"{trace.name}.csv"

    def _partial(self, trace: Trace) -> Path:
        return self.folder(trace) / "partial" / f"{trace.name}.csv"


def _by_trace(table: Path) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in read_rows(table) if table.is_file() else []:
        found.setdefault(str(row["trace"]), []).append(row)
    return found


def run_trace(
    job: Job, trainer: Trainer, trace: Trace, report: Callable[[int], None], scorer: Executor
) -> Callable[[], None]:
    """Train one trace and hand each epoch to the scorer; raise `Stopped` when the next one would pass the deadline.

    The function that comes back waits for the measurements and stores them.
    """
    state = None if job.scorers else job.store.state(trace)
    kept = job.store.load_partial(trace)
    if state is not None:
        state.parent.mkdir(parents=True, exist_ok=True)
        if not kept:
            state.unlink(missing_ok=True)
    rows: list[Future[Row]] = []
    begun = time.monotonic()
    for checkpoint in trainer.train(trace, state):
        if not rows:  # a trainer that starts over replaces all that was kept
            rows = [_Here().submit(dict, row) for row in kept[: checkpoint.epoch - 1]]
        if checkpoint.epoch != len(rows) + 1:
            raise RuntimeError(f"{trace.name}: expected epoch {len(rows) + 1}, the trainer gave {checkpoint.epoch}")
        rows.append(scorer.submit(_row, job.score, trace, checkpoint, trainer.y_validation, trainer.y_test))
        if job.keep_logits:
            job.store.save_logits(trace, checkpoint)
        if checkpoint.epoch == trace.epochs:
            break
        if state is not None and state.is_file():
            job.store.save_partial(trace, [row.result() for row in rows])
        report(checkpoint.epoch)
        took, begun = time.monotonic() - begun, time.monotonic()
        if time.time() + 1.3 * took > job.deadline:
            raise Stopped(trace.name)
    if len(rows) != trace.epochs:
        raise RuntimeError(f"{trace.name}: expected {trace.epochs} epochs, the trainer gave {len(rows)}")

    def finish() -> None:
        job.store.finish(trace, [row.result() for row in rows])
        report(trace.epochs)

    return finish


def _row(score: Score, trace: Trace, checkpoint: Checkpoint, y_validation: Labels, y_test: Labels) -> Row:
    row = {"trace": trace.name, "model": trace.model, "fraction": trace.fraction, "epoch": checkpoint.epoch}
    if checkpoint.train_loss is not None:
        row["train_loss"] = checkpoint.train_loss
    return row | score(checkpoint, y_validation, y_test)


def run_traces(
    job: Job,
    traces: Sequence[Trace],
    *,
    processes: int = 1,
    threads: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> list[Row]:
    """Train whatever is not finished yet and return the merged rows; raise `Stopped` at the deadline.

    Several traces are trained at a time in ``processes`` of their own, or in ``threads`` of this one: kernels of
    several threads share a GPU at the same moment, those of processes take turns.
    """
    found = job.store.finished(traces)
    todo = [trace for trace in traces if trace.key not in found]
    meter = _Meter(traces, set(found), progress)

    def seen(key: str, epoch: int) -> None:
        meter.report(key, epoch)
        if meter.is_finished(key):
            job.store.merge(traces)  # so that the table is whole up to here whatever happens next

    with _one_thread_each():
        if min(max(processes, threads), len(todo)) <= 1:
            _run_here(job, todo, seen)
        elif threads > 1:
            _run_in_threads(job, todo, seen, min(threads, len(todo)))
        else:
            _run_in_processes(job, todo, seen, min(processes, len(todo)))
    for trace in traces:
        with suppress(OSError):  # nothing there, or an unfinished trace
            (job.store.folder(trace) / "partial").rmdir()
    return job.store.merge(traces)


class _Here(Executor):
    """Does what is submitted at once."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(function(*arguments, **options))
        return done


@contextmanager
def _scorer(job: Job) -> Iterator[Executor]:
    if not job.scorers:
        yield _Here()
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(job.scorers, context, initializer=_watch_parent) as pool:
        yield pool


def _train_all(
    job: Job, trainer: Trainer, scorer: Executor, take: Callable[[], Trace | None], report: Callable[[str, int], None]
) -> None:
    """One worker: trace after trace, without waiting for the measurements of the last one."""
    finishing: list[Future[None]] = []
    with ThreadPoolExecutor(1) as behind:
        executor = behind if job.scorers else _Here()
        while (trace := take()) is not None:
            finish = run_trace(job, trainer, trace, partial(report, trace.key), scorer)
            finishing.append(executor.submit(finish))
    for done in finishing:
        done.result()


def choose(todo: Sequence[Trace], own_model: str | None, others: Iterable[str]) -> Trace:
    """The next trace for a worker, from the first piece: of the model it holds, else of the model with most work left
    that nobody holds; the longest of them."""
    held = set(others)
    todo = [trace for trace in todo if trace.piece == min(other.piece for other in todo)]
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
        self._traces = {trace.key: trace for trace in traces}
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

    def take() -> Trace | None:
        nonlocal model
        if not remaining:
            return None
        trace = choose(remaining, model, ())
        remaining.remove(trace)
        model = trace.model
        return trace

    if remaining:
        with _scorer(job) as scorer:
            _train_all(job, job.open(), scorer, take, seen)


def _run_in_threads(job: Job, todo: list[Trace], seen: Callable[[str, int], None], threads: int) -> None:
    trainer = job.open()
    messages: Any = Queue()
    inboxes = [SimpleQueue[Trace | None]() for _ in range(threads)]
    with _scorer(job) as scorer:
        for number, inbox in enumerate(inboxes):
            arguments = (number, job, trainer, scorer, inbox, messages)
            threading.Thread(target=_work, args=arguments, daemon=True).start()
        _serve(job, todo, seen, inboxes, messages, lambda running: None)


def _run_in_processes(job: Job, todo: list[Trace], seen: Callable[[str, int], None], processes: int) -> None:
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    messages: Any = context.Queue()
    inboxes = [context.SimpleQueue() for _ in range(processes)]
    arguments = [(number, job, inbox, messages) for number, inbox in enumerate(inboxes)]
    workers = [context.Process(target=_work_in_process, args=given) for given in arguments]
    for worker in workers:
        worker.start()
    try:
        _serve(job, todo, seen, inboxes, messages, partial(_check_alive, workers))
        for worker in workers:
            worker.join()
    finally:
        for worker in workers:
            worker.kill()


def _serve(
    job: Job,
    todo: list[Trace],
    seen: Callable[[str, int], None],
    inboxes: Sequence[Any],
    messages: Any,
    check: Callable[[Iterable[int]], None],
) -> None:
    """Give workers their traces until all is done, and pass on what they report."""
    remaining = list(todo)
    models: dict[int, str] = {}
    stopped: list[str] = []
    running = set(range(len(inboxes)))
    while running:
        try:
            number, kind, payload = messages.get(timeout=1.0)
        except Empty:
            check(running)
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
    if stopped or remaining:
        raise Stopped(f"{len(stopped)} traces in progress, {len(remaining)} not begun")


def _check_alive(workers: Sequence[Any], running: Iterable[int]) -> None:
    for number in running:
        if workers[number].exitcode not in (None, 0):
            raise RuntimeError(f"a worker died with exit code {workers[number].exitcode}; run again to go on")


def _work_in_process(number: int, job: Job, inbox: Any, messages: Any) -> None:
    _watch_parent()
    try:
        trainer = job.open()
        with _scorer(job) as scorer:
            _work(number, job, trainer, scorer, inbox, messages)
    except BaseException:
        messages.put((number, "failed", traceback.format_exc()))


def _work(number: int, job: Job, trainer: Trainer, scorer: Executor, inbox: Any, messages: Any) -> None:
    def take() -> Trace | None:
        messages.put((number, "ready", None))
        given: Trace | None = inbox.get()
        return given

    def report(key: str, epoch: int) -> None:
        messages.put((number, "epoch", (key, epoch)))

    try:
        try:
            _train_all(job, trainer, scorer, take, report)
        except Stopped as trace:
            messages.put((number, "stopped", str(trace)))
        messages.put((number, "end", None))
    except BaseException:
        messages.put((number, "failed", traceback.format_exc()))


def _watch_parent() -> None:
    """A killed parent cannot stop its processes, so they watch it themselves."""
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


class _one_thread_each:
    """While workers start, tell their numerical libraries to use one thread: the workers are the parallelism."""

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
