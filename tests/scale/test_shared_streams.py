"""Streams that broke: shared by threads, with more bins than memory, and from states that were crafted."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import truecal as tc
from truecal.evidence import stream_state as sums
from truecal.evidence import stream_table as tally_module
from truecal.io import FileError
from truecal.io.state_files import read_state, write_state


def from_threads(update: Any, threads: int = 4, batches: int = 10, rows: int = 50) -> int:
    """Batches from several threads at once; how many rows they had."""
    together = threading.Barrier(threads, timeout=20)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        together.wait()
        for _ in range(batches):
            p = rng.random(rows)
            update((rng.random(rows) < p).astype(int), p)

    running = [threading.Thread(target=work, args=(seed,)) for seed in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return threads * batches * rows


def test_threads_that_share_a_stream_lose_no_rows(monkeypatch):
    """Each tally lets the others run in its middle, which lost rows, or left a stream torn, before."""
    tally = tally_module.tally

    def slow(*given: Any, **options: Any) -> Any:
        found = tally(*given, **options)
        threading.Event().wait(0.001)
        return found

    monkeypatch.setattr(sums, "tally", slow)
    stream = tc.stream("binary", n_bins=10, edges="uniform")
    rows = from_threads(stream.update)
    assert stream.rows == rows and stream.table("binary").count.sum() == rows


def test_copies_have_locks_of_their_own():
    stream = tc.stream("binary", n_bins=5, edges="uniform")
    stream.update([1, 0], [0.7, 0.2])
    for other in (copy.deepcopy(stream), pickle.loads(pickle.dumps(stream)), stream.merge(stream)):
        assert other._lock is not stream._lock
        with stream._lock:
            thread = threading.Thread(target=other.update, args=([1], [0.5]))
            thread.start()
            thread.join(20)
        assert other.rows in (3, 5)


def test_merges_in_both_directions_at_once_end():
    a, b = (tc.stream("binary", n_bins=5, edges="uniform") for _ in range(2))
    for stream in (a, b):
        stream.update([1, 0], [0.7, 0.2])
    done = []
    pairs = [threading.Thread(target=lambda x=x, y=y: done.append(x.merge(y).rows)) for x, y in ((a, b), (b, a)) * 20]
    for thread in pairs:
        thread.start()
    for thread in pairs:
        thread.join(20)
    assert done == [4] * 40


@pytest.mark.slow
def test_a_metric_shared_by_threads_loses_no_rows():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchmetrics")
    from truecal.adapters.torchmetrics import CalibrationMetric

    metric = CalibrationMetric("binary", n_bins=10)
    plus = torch.Tensor.__add__

    def slow(a: Any, b: Any) -> Any:
        threading.Event().wait(0.0005)
        return plus(a, b)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.Tensor, "__add__", slow)
        rows = from_threads(lambda y, p: metric.update(torch.tensor(p), torch.tensor(y)))
        assert metric.table.rows == rows and metric.table.count.sum() == rows
        rows += from_threads(lambda y, p: metric(torch.tensor(p), torch.tensor(y)))
    assert metric.table.rows == rows and metric.table.count.sum() == rows
    clone: Any = metric.clone()
    assert pickle.loads(pickle.dumps(metric)).table.rows == clone.table.rows == rows


# -- sizes -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sums_past_memory_are_refused_by_size():
    with pytest.raises(ValueError, match=r"n_bins=100000000 is too many for 'binary': .* would take 71.0 GiB"):
        tc.stream("binary", n_bins=10**8, edges="uniform")
    with pytest.raises(ValueError, match=r"n_bins=100000000 is too many for 'classwise'"):
        tc.stream("classwise", n_bins=10**8)
    stream = tc.stream("classwise", n_bins=10**5, edges="uniform")
    with pytest.raises(ValueError, match=r"'classwise' of 1000 classes: .* would take 71.0 GiB .* per bin and class"):
        stream.update([0], np.full((1, 1000), 0.001))
    stream.update([0], [[0.5, 0.5]])  # the refused batch left no trace
    assert stream.rows == 1


def test_metrics_past_memory_are_refused_by_size():
    pytest.importorskip("torchmetrics")
    from truecal.adapters.torchmetrics import CalibrationMetric

    with pytest.raises(ValueError, match=r"n_bins=100000 and num_classes=1000000 are too many: .* would take"):
        CalibrationMetric("classwise", num_classes=10**6, n_bins=10**5)


# -- crafted states ----------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 80)
    stream = tc.stream(("classwise", "confidence"), n_bins=4, edges="uniform", blocks=8)
    for _ in range(2):
        stream.update(rng.integers(0, 3, 80), p, sample_weight=rng.random(80))
    path = tmp_path / "s.npz"
    stream.save(path)
    return (path, *read_state(path, "stream", 3))


NAMES = ("0.count", "0.residual", "1.weight_sq", "0.blocks.residual", "1.blocks.sums", "0.lost.cells.outcome")


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", NAMES)
def test_sums_that_are_no_numbers_are_refused_by_name(saved, name, value):
    path, about, arrays = saved
    changed = arrays[name].copy()
    changed.flat[0] = value
    write_state(path, "stream", 3, about, {**arrays, name: changed})
    with pytest.raises(FileError, match=rf"s.npz: the state of a stream is damaged: '{name}' has values that are not"):
        tc.Stream.load(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tallies", [[float("nan")] * 7] * 2),
        ("tallies", 5),
        ("losses", 5),
        ("shape", [3, "float99"]),
        ("blocks", "many"),
        ("entries", [["classwise", {"name": "EqualWidth", "options": {"n_bins": 10**8}}, 10**8]]),
        ("entries", [["nope", {"name": "EqualWidth", "options": {"n_bins": 4}}, 4]]),
        ("rows", -4),
        ("sketches", [[1]]),
        ("observed", "many"),
    ],
)
def test_fields_that_no_stream_writes_are_refused_by_name(saved, name, value):
    path, about, arrays = saved
    write_state(path, "stream", 3, {**about, name: value}, arrays)
    with pytest.raises(FileError, match=rf"s.npz: the state of a stream is damaged: '({name}|nope)"):
        tc.Stream.load(path)


@pytest.mark.parametrize("blocks", [64_000_000, 2, -1, 1.5, True])
def test_a_state_has_no_more_blocks_than_a_stream(blocks, tmp_path):
    """Intervals compare every two blocks: 64,000,000 of them take petabytes."""
    path = tmp_path / "s.npz"
    tc.stream("binary").save(path)
    about, arrays = read_state(path, "stream", 3)
    write_state(path, "stream", 3, about | {"blocks": blocks}, arrays)
    with pytest.raises(FileError, match=r"s.npz: the state of a stream is damaged: 'blocks' .*from 4 to 4096"):
        tc.Stream.load(path)
