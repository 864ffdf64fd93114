"""The resumable store and its workers: whatever interrupts a run, the next one ends with the same table."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from reproduction.running import Job, Progress, Stopped, choose, run_traces
from reproduction.traces import Checkpoint, Store, Trace, read_rows, write_rows

from closeness import assert_close

TRACES = [Trace(model, fraction, 3, cost=fraction) for model in ("a", "b") for fraction in (0.5, 1.0)]


class Counting:
    """A trainer whose logits are a formula, which counts its epochs and saves itself after each of them."""

    def __init__(self, fail_at: tuple[str, int] | None = None, save: bool = False) -> None:
        self.fail_at, self.save = fail_at, save
        self.trained: list[tuple[str, int]] = []
        self.y_validation = self.y_test = np.array([0, 1], dtype=np.intp)

    def train(self, trace: Trace, state: Path | None = None) -> Iterator[Checkpoint]:
        done = int(state.read_text()) if self.save and state is not None and state.is_file() else 0
        for epoch in range(max(done, 1), trace.epochs + 1):
            if epoch != done:
                self.trained.append((trace.name, epoch))
            if self.fail_at == (trace.name, epoch):
                raise OSError("the disk is full")
            if self.save and state is not None:
                state.write_text(str(epoch))
            logits = np.outer([1.0, -1.0], [trace.fraction, epoch / 7])
            yield Checkpoint(epoch, logits, logits + len(trace.model))


def score(checkpoint: Checkpoint, y_validation: object, y_test: object) -> dict[str, float]:
    return {"third": float(checkpoint.test.sum()) / 3, "epoch_again": checkpoint.epoch}


def test_rows_survive_the_csv_to_the_last_bit(tmp_path: Path) -> None:
    rows = [{"trace": 'x,"y"', "epoch": 3, "value": 0.1 + 0.2}, {"trace": "z", "epoch": 4, "value": 1e-300}]
    write_rows(tmp_path / "deep" / "rows.csv", rows)
    assert read_rows(tmp_path / "deep" / "rows.csv") == rows


def test_names_tell_traces_apart() -> None:
    names = [Trace("net@64+freeze4", i / 40, 1).name for i in range(1, 41)]
    assert len(set(names)) == 40
    assert names[0] == "net@64+freeze4-002.5" and sorted(names) == names
    assert "/" not in Trace("hub/net", 0.5, 1).name


def test_rows_in_the_order_planned(tmp_path: Path) -> None:
    rows = run_traces(Job(Counting, score, Store(tmp_path)), TRACES)
    assert [(row["trace"], row["epoch"]) for row in rows] == [(t.name, e) for t in TRACES for e in (1, 2, 3)]
    assert rows[0]["model"] == "a" and rows[0]["fraction"] == 0.5
    assert read_rows(tmp_path / "checkpoints.csv") == rows


@pytest.mark.parametrize("save", [False, True])
def test_a_failure_costs_the_trace_in_progress_at_most(tmp_path: Path, save: bool) -> None:
    expected = run_traces(Job(Counting, score, Store(tmp_path / "whole")), TRACES)
    store = Store(tmp_path / "broken")
    with pytest.raises(OSError, match="disk is full"):
        run_traces(Job(partial(Counting, ("b-100.0", 3), save), score, store), TRACES)
    trainer = Counting(save=save)
    assert run_traces(Job(lambda: trainer, score, store), TRACES) == expected
    repeated = [epoch for name, epoch in trainer.trained if name == "b-100.0"]
    assert repeated == ([3] if save else [1, 2, 3])
    assert {name for name, _ in trainer.trained} == {"b-100.0", "b-050.0"}  # model a was finished before


def test_finished_work_is_not_repeated(tmp_path: Path) -> None:
    store = Store(tmp_path)
    rows = run_traces(Job(Counting, score, store), TRACES)
    trainer = Counting()
    assert run_traces(Job(lambda: trainer, score, store), TRACES) == rows
    assert trainer.trained == []


def test_the_merged_table_alone_is_enough(tmp_path: Path) -> None:
    """What came back from another machine: only complete traces count."""
    rows = run_traces(Job(Counting, score, Store(tmp_path / "there")), TRACES)
    write_rows(tmp_path / "here" / "checkpoints.csv", rows[:-1])
    trainer = Counting()
    assert run_traces(Job(lambda: trainer, score, Store(tmp_path / "here")), TRACES) == rows
    assert {name for name, _ in trainer.trained} == {TRACES[-1].name}


def test_partial_rows_without_a_state_are_dropped(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.save_partial(TRACES[0], [{"trace": "a-050.0", "epoch": 1, "third": 99.0}])
    assert all(row["third"] != 99.0 for row in run_traces(Job(partial(Counting, None, True), score, store), TRACES))


@pytest.mark.slow
def test_processes_give_the_same_table(tmp_path: Path) -> None:
    alone = run_traces(Job(Counting, score, Store(tmp_path / "one")), TRACES)
    seen: list[Progress] = []
    rows = run_traces(Job(Counting, score, Store(tmp_path / "two")), TRACES, processes=2, progress=seen.append)
    assert_close(rows, alone, 1)
    assert read_rows(tmp_path / "two" / "checkpoints.csv") == rows
    assert len(seen) == 12
    assert seen[-1].share == pytest.approx(1.0) and seen[-1].finished == seen[-1].traces == 4
    assert seen[-1].seconds_left == pytest.approx(0.0)
    assert all(a.share < b.share for a, b in itertools.pairwise(seen))


@pytest.mark.heavy
@pytest.mark.parametrize("processes", [1, 2])
def test_measuring_behind_the_training_gives_the_same_table(tmp_path: Path, processes: int) -> None:
    alone = run_traces(Job(Counting, score, Store(tmp_path / "one")), TRACES)
    job = Job(partial(Counting, None, True), score, Store(tmp_path / "behind"), scorers=2)
    assert run_traces(job, TRACES, processes=processes) == alone
    assert not (tmp_path / "behind" / "partial").exists()  # nothing is saved in between


@pytest.mark.slow
def test_finished_traces_outlive_a_failure_while_they_are_measured(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(OSError, match="disk is full"):
        run_traces(Job(partial(Counting, ("b-050.0", 2)), score, store, scorers=1), TRACES)
    assert set(store.finished(TRACES)) == {"a-050.0", "a-100.0", "b-100.0"}


def test_experiments_have_folders_of_their_own(tmp_path: Path) -> None:
    arms = [replace(trace, experiment=arm) for arm in ("within-x", "within-y") for trace in TRACES]
    rows = run_traces(Job(Counting, score, Store(tmp_path)), arms)
    assert len(rows) == 24
    assert read_rows(tmp_path / "within-x" / "checkpoints.csv") == rows[:12] == rows[12:]
    (tmp_path / "within-y" / "traces" / "a-050.0.csv").unlink()
    (tmp_path / "within-y" / "checkpoints.csv").unlink()
    assert {key for key in Store(tmp_path).finished(arms) if key.startswith("within-y")} == {
        "within-y/a-100.0", "within-y/b-050.0", "within-y/b-100.0",
    }  # fmt: skip


def test_a_trace_of_the_within_model_experiment_is_not_trained_again(tmp_path: Path) -> None:
    own = [replace(trace, experiment="within") for trace in TRACES[:2]]
    run_traces(Job(Counting, score, Store(tmp_path)), own)
    trainer = Counting()
    arm = replace(TRACES[0], experiment="cross", learning_rate=0.5)  # other training under the same name
    cross = [arm, replace(TRACES[1], experiment="cross"), replace(TRACES[2], experiment="cross")]
    run_traces(Job(lambda: trainer, score, Store(tmp_path)), cross)
    assert {name for name, _ in trainer.trained} == {"a-050.0", "b-050.0"}
    assert {row["trace"] for row in read_rows(tmp_path / "cross" / "checkpoints.csv")} == {
        trace.name for trace in cross
    }


def test_rows_that_lack_a_column_leave_it_empty(tmp_path: Path) -> None:
    first, second = {"trace": "a", "epoch": 1}, {"trace": "a", "epoch": 2, "new": 0.5}
    write_rows(tmp_path / "rows.csv", [first, second])
    assert read_rows(tmp_path / "rows.csv") == [{**first, "new": None}, second]


@pytest.mark.slow
def test_a_workers_error_reaches_the_caller(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="the disk is full"):
        run_traces(Job(partial(Counting, ("a-100.0", 2)), score, Store(tmp_path)), TRACES, processes=2)


class Dying(Counting):
    """Ends its whole process without a word."""

    def train(self, trace: Trace, state: Path | None = None) -> Iterator[Checkpoint]:
        os._exit(7)
        yield


@pytest.mark.heavy
def test_a_killed_worker_is_noticed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="exit code 7"):
        run_traces(Job(Dying, score, Store(tmp_path)), TRACES, processes=2)


@pytest.mark.slow
def test_deadline_in_processes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(Stopped, match="4 not begun"):
        run_traces(Job(Counting, score, store, deadline=time.time() - 1), TRACES, processes=2)
    assert store.finished(TRACES) == {}


def test_a_trainer_that_skips_or_stops_early_is_an_error(tmp_path: Path) -> None:
    class Short(Counting):
        def train(self, trace: Trace, state: Path | None = None) -> Iterator[Checkpoint]:
            yield from list(super().train(trace, state))[:2]

    class Skipping(Counting):
        def train(self, trace: Trace, state: Path | None = None) -> Iterator[Checkpoint]:
            yield from list(super().train(trace, state))[::2]

    with pytest.raises(RuntimeError, match="expected 3 epochs, the trainer gave 2"):
        run_traces(Job(Short, score, Store(tmp_path / "a")), TRACES)
    with pytest.raises(RuntimeError, match="expected epoch 2, the trainer gave 3"):
        run_traces(Job(Skipping, score, Store(tmp_path / "b")), TRACES)


def test_choice_of_the_next_trace() -> None:
    small, large = Trace("small", 1.0, 10, cost=1.0), Trace("large", 1.0, 10, cost=3.0)
    half = Trace("large", 0.5, 10, cost=1.5)
    assert choose([small, half, large], None, []) == large
    assert choose([small, half, large], "small", []) == small  # its kernels are tuned
    assert choose([small, half], None, ["large"]) == small  # nobody holds it yet
    assert choose([half], "small", ["large"]) == half  # better to help than to wait
    later = replace(large, piece=1)
    assert choose([later, small], "large", []) == small  # the first piece first


WATCHED = """
import os, sys, time
sys.path[:0] = {paths!r}
from pathlib import Path
from test_traces import Counting, score, TRACES
from reproduction.running import Job, run_traces
from reproduction.traces import Store
class Slow(Counting):
    def train(self, trace, state=None):
        Path({folder!r}, f"pid-{{os.getpid()}}").touch()
        time.sleep(60)
        yield
if __name__ == "__main__":
    run_traces(Job(Slow, score, Store(Path({folder!r}))), TRACES, processes=2)
"""


@pytest.mark.heavy
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "watched.py"
    here = Path(__file__).parent
    script.write_text(WATCHED.format(paths=[str(here), str(here.parent), str(here.parents[1])], folder=str(tmp_path)))
    parent = subprocess.Popen([sys.executable, str(script)])
    try:
        workers = wait_for(lambda: [int(path.name[4:]) for path in tmp_path.glob("pid-*")], 2)
    finally:
        parent.kill()
        parent.wait()
    wait_for(lambda: [pid for pid in workers if not alive(pid)], 2)


def wait_for(look: Callable[[], list[int]], count: int) -> list[int]:
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = look()
        if len(found) >= count:
            return list(found)
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {count} processes")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.is_file() and status.read_text().rsplit(")", 1)[1].split()[0] == "Z")  # nobody reaps an orphan
