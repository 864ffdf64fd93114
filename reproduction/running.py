"""Trains traces, several at a time, and measures their checkpoints, so that a killed run goes on where it was."""

from __future__ import annotations

import math
import multiprocessing
import os
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from queue import Empty
from typing import Any

from reproduction.traces import Checkpoint, Labels, Row, Store, Trace, Trainer

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


class Stopped(Exception):
    """The time limit came before the work was done; finished traces and saved epochs are kept."""


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
    kept_in = job.store if job.keep_logits else None
    rows: list[Future[Row]] = []
    begun = time.monotonic()
    for checkpoint in trainer.train(trace, state):
        if not rows:  # a trainer that starts over replaces all that was kept
            rows = [_Here().submit(dict, row) for row in kept[: checkpoint.epoch - 1]]
        if checkpoint.epoch != len(rows) + 1:
            raise RuntimeError(f"{trace.name}: expected epoch {len(rows) + 1}, the trainer gave {checkpoint.epoch}")
        rows.append(scorer.submit(_row, job.score, kept_in, trace, checkpoint, trainer.y_validation, trainer.y_test))
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


def _row(
    score: Score, kept_in: Store | None, trace: Trace, checkpoint: Checkpoint, y_validation: Labels, y_test: Labels
) -> Row:
    if kept_in is not None:
        kept_in.save_logits(trace, checkpoint)
    row = {"trace": trace.name, "model": trace.model, "fraction": trace.fraction, "epoch": checkpoint.epoch}
    if checkpoint.train_loss is not None:
        row["train_loss"] = checkpoint.train_loss
    return row | score(checkpoint, y_validation, y_test)


def run_traces(
    job: Job, traces: Sequence[Trace], *, processes: int = 1, progress: Callable[[Progress], None] | None = None
) -> list[Row]:
    """Train whatever is not finished yet and return the merged rows; raise `Stopped` at the deadline."""
    found = job.store.finished(traces)
    todo = [trace for trace in traces if trace.key not in found]
    meter = _Meter(traces, set(found))

    def seen(key: str, epoch: int) -> None:
        now = meter.count(key, epoch)
        if progress is not None:
            progress(now)
        if meter.is_finished(key):
            job.store.merge(traces)  # so that the table is whole up to here whatever happens next

    processes = min(processes, len(todo))
    with _one_thread_each():
        if processes > 1:
            _run_in_processes(job, todo, seen, processes)
        elif todo:
            with _scorer(job) as scorer:
                _train_all(job, job.open(), scorer, partial(_Plan(todo).take, 0), seen)
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


def _scorer(job: Job) -> Executor:
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(job.scorers, context, initializer=_watch_parent) if job.scorers else _Here()


def _train_all(
    job: Job, trainer: Trainer, scorer: Executor, take: Callable[[], Trace | None], report: Callable[[str, int], None]
) -> None:
    """One worker: trace after trace, without waiting for the measurements of the last one."""
    finishing: list[Future[None]] = []
    with ThreadPoolExecutor(1) if job.scorers else _Here() as behind:
        while (trace := take()) is not None:
            finish = run_trace(job, trainer, trace, partial(report, trace.key), scorer)
            finishing.append(behind.submit(finish))
    for done in finishing:
        done.result()


def choose(todo: Sequence[Trace], own_model: str | None, others: Iterable[str]) -> Trace:
    """The next trace for a worker, from the first piece: of the model it holds, else of the model with most work left
    that nobody holds; the longest of them."""
    held = set(others)
    todo = [trace for trace in todo if trace.piece == min(other.piece for other in todo)]
    work: defaultdict[str, float] = defaultdict(float)
    for trace in todo:
        work[trace.model] += trace.work
    model = own_model if own_model in work else max(work, key=lambda name: (name not in held, work[name]))
    return max((trace for trace in todo if trace.model == model), key=lambda trace: trace.work)


class _Meter:
    """Counts epochs by their cost and tells how much time is left at the pace so far."""

    def __init__(self, traces: Sequence[Trace], done: Iterable[str]) -> None:
        self._traces = {trace.key: trace for trace in traces}
        self._epochs = {name: trace.epochs if name in done else 0 for name, trace in self._traces.items()}
        self._begun = time.monotonic()
        self._before = self._share()

    def count(self, name: str, epoch: int) -> Progress:
        self._epochs[name] = epoch
        share, elapsed = self._share(), time.monotonic() - self._begun
        gained = share - self._before
        left = elapsed * (1 - share) / gained if gained > 0 else math.inf
        finished = sum(map(self.is_finished, self._traces))
        return Progress(name, epoch, self._traces[name].epochs, finished, len(self._traces), share, left)

    def is_finished(self, name: str) -> bool:
        return self._epochs[name] == self._traces[name].epochs

    def _share(self) -> float:
        total = sum(trace.work for trace in self._traces.values())
        return sum(trace.cost * self._epochs[name] for name, trace in self._traces.items()) / total if total else 1.0


class _Plan:
    """The traces that nobody has taken yet, and which model each worker holds."""

    def __init__(self, todo: Sequence[Trace]) -> None:
        self.remaining = list(todo)
        self._models: dict[int, str] = {}

    def take(self, worker: int) -> Trace | None:
        if not self.remaining:
            return None
        others = [model for number, model in self._models.items() if number != worker]
        trace = choose(self.remaining, self._models.get(worker), others)
        self.remaining.remove(trace)
        self._models[worker] = trace.model
        return trace


def _run_in_processes(job: Job, todo: Sequence[Trace], seen: Callable[[str, int], None], processes: int) -> None:
    context = multiprocessing.get_context("spawn")  # a forked process cannot use CUDA
    messages: Any = context.Queue()
    inboxes = [context.SimpleQueue() for _ in range(processes)]
    workers = [context.Process(target=_work, args=(i, job, inbox, messages)) for i, inbox in enumerate(inboxes)]
    plan, stopped, running = _Plan(todo), 0, set(range(processes))
    for worker in workers:
        worker.start()
    try:
        while running:
            try:
                number, what, payload = messages.get(timeout=1.0)
            except Empty:
                for code in (workers[number].exitcode for number in running):
                    if code not in (None, 0):
                        raise RuntimeError(f"a worker died with exit code {code}; run again to continue") from None
                continue
            if what == "epoch":
                seen(*payload)
            elif what == "ready":
                inboxes[number].put(plan.take(number) if time.time() < job.deadline else None)
            elif what == "stopped":
                stopped += 1
            elif what == "end":
                running.discard(number)
            else:
                raise RuntimeError(f"a worker failed:\n{payload}")
        for worker in workers:
            worker.join()
    finally:
        for worker in workers:
            worker.kill()
    if stopped or plan.remaining:
        raise Stopped(f"{stopped} traces in progress, {len(plan.remaining)} not begun")


def _work(number: int, job: Job, inbox: Any, messages: Any) -> None:
    def send(what: str, payload: Any = None) -> None:
        messages.put((number, what, payload))

    def take() -> Trace | None:
        send("ready")
        given: Trace | None = inbox.get()
        return given

    _watch_parent()
    try:
        trainer = job.open()
        with _scorer(job) as scorer:
            try:
                _train_all(job, trainer, scorer, take, lambda key, epoch: send("epoch", (key, epoch)))
            except Stopped:
                send("stopped")
        send("end")
    except BaseException:  # an interrupt too: the parent must hear of every end
        send("failed", traceback.format_exc())


def _watch_parent() -> None:
    """A killed parent cannot stop its processes, so they watch it themselves."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        wait([] if parent is None else [parent.sentinel])
        os._exit(1)

    if parent is not None:
        threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """While workers start, tell their numerical libraries to use one thread: the workers are the parallelism."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ[name] for name in names if name in os.environ}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name in names:
            del os.environ[name]
        os.environ.update(before)
