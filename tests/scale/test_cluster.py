"""Rows counted by many workers give what one stream gives, whoever counts them, and whoever dies of it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.io import FileError

pa = pytest.importorskip("pyarrow")
pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
pd = pytest.importorskip("pandas")
import dask  # noqa: E402  # after importorskip
import dask.array as da  # noqa: E402  # after importorskip
import dask.dataframe as dd  # noqa: E402  # after importorskip
from pyarrow import feather, parquet  # noqa: E402  # after importorskip

from truecal.io.dataset import open_dataset  # noqa: E402  # after importorskip
from truecal.scale import cluster as module  # noqa: E402  # after importorskip
from truecal.scale.cluster import WORKER_SETTINGS, local_client  # noqa: E402  # after importorskip

cluster: Any = module  # what a test hands in need not be of the right type
K = 3
ERRORS = ("classwise", "confidence", "confidence_l1")


def world(n: int = 900, factor: float = 1.4, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, K))
    p, q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (z, factor * z))
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), q


def frame(y: Any, p: Any, **more: Any) -> Any:
    return pd.DataFrame({"label": y, **{f"prob_{j}": p[:, j] for j in range(K)}, **more})


def arrays(*of: Any, chunks: Any = (200, 1, 399, 300)) -> list[Any]:
    return [da.from_array(x, chunks=(chunks, *x.shape[1:])) for x in of]


def written(folder: Path, rows: Any, cuts: Any, group: int = 70) -> Path:
    """A folder of parquet files cut at some rows, each in groups of rows."""
    folder.mkdir()
    for i, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(rows)], strict=True)):
        table = pa.Table.from_pandas(rows.iloc[a:b], preserve_index=False)
        parquet.write_table(table, folder / f"part-{i}.parquet", row_group_size=group)
    return folder


def one_stream(y: Any, p: Any, w: Any = None, **options: Any) -> tc.Stream:
    """The same in one process and one batch."""
    stream = tc.stream(ERRORS, **options)
    if not stream.frozen:
        stream.observe(p)
        stream.freeze()
    stream.update(y, p, sample_weight=w)
    return stream


def assert_same(found: tc.Evaluation, wanted: tc.Evaluation) -> None:
    """Counts and edges are equal, sums agree to 12 digits."""
    assert found.n_samples == wanted.n_samples
    for name, one in wanted.reliability.items():
        ours, theirs = found.reliability[name].table, one.table
        assert ours.edges is not None and theirs.edges is not None and np.array_equal(ours.edges, theirs.edges)
        if ours.weight_sq is None:
            assert np.array_equal(ours.count, theirs.count)
        np.testing.assert_allclose(ours.count, theirs.count, rtol=1e-12)
        np.testing.assert_allclose(ours.residual, theirs.residual, rtol=0, atol=1e-12 * ours.rows)
    for first, second in zip(found.errors, wanted.errors, strict=True):
        assert (first.error, first.n_bins) == (second.error, second.n_bins)
        numbers = [[x.U, x.gap, x.score, x.U_low, x.U_high] for x in (first, second)]
        mine, his = ([x for x in row if x is not None] for row in numbers)
        np.testing.assert_allclose(mine, his, rtol=1e-9)
        assert first.value == pytest.approx(second.value, rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("edges", [None, "uniform"])
def test_arrays_frames_and_files_equal_one_stream(tmp_path, edges):
    y, p = world()
    wanted = one_stream(y, p, n_bins=6, edges=edges).result()
    options: dict[str, Any] = {"n_bins": 6, "edges": edges}
    assert_same(cluster.evaluate(*arrays(y, p), **options), wanted)
    rows = frame(y, p)
    folder = written(tmp_path / "preds", rows, (333, 333, 700))
    for source, more in ((dd.from_pandas(rows, npartitions=4), {}), (folder, {"part_rows": 150})):
        found = cluster.evaluate(source, **options, **more)
        assert_same(found, wanted)
        passes = "one pass" if edges else "two passes"
        assert any(f"by threads of one process, {passes}" in note for note in found.notes)
    assert found.name == "preds"


def test_weights_labels_and_one_probability(tmp_path):
    y, p = world()
    w = np.random.default_rng(1).random(900)
    w[:200] = 0  # a partition in which no row counts
    wanted = one_stream(y, p, w, n_bins=5, edges="uniform").result()
    names = np.array(["b", "a", "c"])
    labels, proba, weights = arrays(names[y], p, w)
    found = cluster.evaluate(labels, proba, sample_weight=weights, labels=names, n_bins=5, edges="uniform")
    assert_same(found, wanted)
    table = dd.from_pandas(frame(y, p, w=w), npartitions=9)
    assert_same(cluster.evaluate(table, weight="w", n_bins=5, edges="uniform"), wanted)
    binary = tc.stream(("binary", "binary_l1"), n_bins=5, edges="uniform")
    binary.update(y == 0, p[:, 0])
    found = cluster.evaluate(*arrays(y == 0, p[:, 0]), n_bins=5, edges="uniform")
    assert_same(found, binary.result())


def test_automatic_bins_unknown_sizes_and_empty_partitions():
    y, p = world()
    wanted = one_stream(y, p, n_bins="auto").result()
    rows = dd.from_pandas(frame(y, p, row=np.arange(900)), npartitions=4)
    kept = rows[rows.row >= 450]  # two partitions are left without a row
    found = cluster.evaluate(kept)
    assert found.n_samples == 450 and found.row("confidence").n_bins == tc.Quantile("auto").auto(450, 1)
    unknown = [rows["label"].values, rows[[f"prob_{j}" for j in range(K)]].values]
    assert np.isnan(unknown[1].shape[0])
    found = cluster.evaluate(*unknown, errors=ERRORS[:2])
    assert found.row("classwise").value == pytest.approx(wanted.row("classwise").value, rel=1e-12)
    uniform = cluster.evaluate(rows, edges="uniform")  # how many bins is known after a pass
    assert uniform.row("confidence").n_bins == wanted.row("confidence").n_bins
    assert any("two passes" in note for note in uniform.notes)
    assert not any("sketched" in note for note in uniform.notes)


def test_two_runs_have_the_same_edges(rng):
    """Sketches keep as many rows as a stream's do: of fewer rows than that nothing is left to chance."""
    p = rng.dirichlet(np.ones(3), 30_000)
    y = (p.cumsum(axis=1) > rng.random((30_000, 1))).argmax(axis=1)
    data = da.from_array(y, chunks=7000), da.from_array(p, chunks=(7000, 3))
    first, second = (module.evaluate(*data, errors=["classwise", "confidence"]) for _ in range(2))
    for one, two in zip(first.errors, second.errors, strict=True):
        assert_close(one.value, two.value)
    assert_close(first.score, tc.score(y, p), tolerance=1e-3)


@pytest.mark.slow
def test_models_are_compared(tmp_path):
    y, p = world()
    _, q = world(factor=2.5)
    streams = {"calm": one_stream(y, p, n_bins=6), "sharp": one_stream(y, q, n_bins=6)}
    tables = {"calm": frame(y, p), "sharp": frame(y, q)[["prob_2", "label", "prob_0", "prob_1"]]}
    labels, *proba = arrays(y, p, q)
    folders = {
        name: written(tmp_path / name, t, cuts)
        for (name, t), cuts in zip(tables.items(), [(100,), (450, 460)], strict=True)
    }
    for i, data in enumerate(
        (
            (labels, dict(zip(tables, proba, strict=True))),
            ({name: dd.from_pandas(table, npartitions=3) for name, table in tables.items()},),
            (folders,),
            (list(folders.values()),),
        )
    ):
        found = cluster.compare(*data, n_bins=6, **{"part_rows": 200} if i > 1 else {})
        assert found.names == ("calm", "sharp")
        for name, stream in streams.items():
            assert_same(found.evaluations[name], stream.result())
        assert found.pair("calm", "sharp", "confidence").loss.beyond_noise
    other = y.copy()
    other[700] = (other[700] + 1) % K
    folders["other"] = written(tmp_path / "other", frame(other, q), ())
    with pytest.raises(
        FileError, match=r"partition 2 of 4 \(rows 590 to 869, .*the labels differ from those of .*at row 110"
    ):
        cluster.compare([folders["calm"], folders["other"]], n_bins=6, part_rows=280)


@pytest.mark.slow
def test_the_tree_keeps_the_blocks_of_one_stream():
    y, p = world()
    many = cluster.evaluate(*arrays(y, p, chunks=(9,) * 100), n_bins=4, edges="uniform")
    assert_same(many, one_stream(y, p, n_bins=4, edges="uniform").result())


def test_small_tables_are_divided_too(tmp_path, monkeypatch):
    monkeypatch.setattr("truecal.scale.partitions.FEWEST_ROWS", 100)
    folder = written(tmp_path / "preds", frame(*world()), (300, 600), group=50)
    found = cluster.evaluate(folder, n_bins=4, edges="uniform")
    assert any("counted in 9 partitions" in note for note in found.notes)


def test_a_partition_is_read_by_one_thread(tmp_path, monkeypatch):
    """Others are read at the same time."""
    folder = written(tmp_path / "preds", frame(*world()), (300, 600))
    monkeypatch.setattr("truecal.io.dataset.read_ahead", None)
    threads: list[bool] = []
    read = parquet.ParquetFile.iter_batches

    def noted(self: Any, **options: Any) -> Any:
        threads.append(options["use_threads"])
        return read(self, **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", noted)
    dataset = open_dataset(folder)
    threads.clear()
    cluster.evaluate(dataset, n_bins=4, edges="uniform", part_rows=100)
    assert threads and not any(threads)


@pytest.mark.slow
def test_edges_are_stored_before_a_label_is_counted(tmp_path):
    y, p = world()
    wrong = y.copy()
    wrong[650] = 7
    state = tmp_path / "state.npz"
    with pytest.raises(FileError, match=r"partition 3 of 4 \(rows 600 to 899\): .*7"):
        cluster.evaluate(*arrays(wrong, p), n_bins=6, out=state)
    stored = tc.Stream.load(state)
    assert stored.frozen and stored.rows == 0
    found = cluster.evaluate(*arrays(y, p), edges=state, out=state)
    assert any("one pass" in note for note in found.notes)
    assert_same(found, one_stream(y, p, n_bins=6).result())
    assert tc.Stream.load(state).rows == 900
    again = cluster.evaluate(*arrays(y, p), edges=found)  # the edges are in the result as well
    assert_close(again.row("classwise"), found.row("classwise"), 1)
    with pytest.raises(ValueError, match="errors and n_bins cannot be used"):
        cluster.evaluate(*arrays(y, p), edges=state, n_bins=3)
    with pytest.raises(ValueError, match="'classwise' cannot be used with binary predictions"):
        cluster.evaluate(*arrays(y == 0, p[:, 0]), edges=state)
    unread = da.from_delayed(dask.delayed(pytest.fail)("rows were read"), (900, K), float)
    with pytest.raises(FileError, match=r"nowhere does not exist"):
        cluster.evaluate(arrays(y)[0], unread, n_bins=6, out=tmp_path / "nowhere" / "state.npz")
    cluster.compare(arrays(y)[0], {"a": arrays(p)[0], "b": arrays(p)[0]}, n_bins=6, out=tmp_path / "two")
    both = cluster.compare(arrays(y)[0], {"a": arrays(p)[0], "b": arrays(p)[0]}, edges=tmp_path / "two")
    assert_same(both.evaluations["b"], found)


def test_partitions_are_named(tmp_path):
    y, p = world()
    folder = written(tmp_path / "preds", frame(y, p), (300, 600), group=300)
    dataset = open_dataset(folder)
    good = (folder / "part-1.parquet").read_bytes()
    (folder / "part-1.parquet").write_bytes(good[:2000] + b"\0" * 900 + good[2900:])
    with pytest.raises(FileError, match=r"partition 1 of 3 \(rows 300 to 599, part-1.parquet\): .*part-1.parquet"):
        cluster.evaluate(dataset, n_bins=4, part_rows=1)
    (folder / "part-1.parquet").unlink()
    with pytest.raises(FileError, match=r"partition 1 of 3 .*part-1.parquet"):
        cluster.evaluate(dataset, n_bins=4, part_rows=1)
    parquet.write_table(pa.Table.from_pandas(frame(y[:9], p[:9])), folder / "part-1.parquet")
    with pytest.raises(FileError, match=r"partition 1 of 3 .*expected 300 rows as before, found 9"):
        cluster.evaluate(dataset, n_bins=4, part_rows=1)

    def part(i: int) -> Any:
        if i == 2:
            raise OSError("the disk is gone")
        return frame(y, p)

    table = dd.from_map(part, range(4), meta=frame(y[:1], p[:1]))
    with pytest.raises(FileError, match=r"partition 2 of 4 \(of the DataFrame\): the disk is gone"):
        cluster.evaluate(table, n_bins=4)
    with pytest.raises(FileError, match=r"partition 0 of 1 \(of the DataFrame\): the disk is gone"):
        cluster.evaluate(table.partitions[2:3], n_bins=4)


def test_a_partition_of_another_type_is_named():
    """float32 where the other eleven are float64: the second of the two that met, eight at a time."""
    y, p = world()
    for i, named in ((0, 1), (2, 2), (8, 9), (11, 11)):
        parts = [part.astype(np.float32 if j == i else float) for j, part in enumerate(np.split(p, 12))]
        mixed = da.concatenate([da.from_delayed(dask.delayed(part), part.shape, float) for part in parts])
        words = rf"partition {named} of 12 .* and those before it: .*float\d\d of 3 classes and float\d\d of 3 classes"
        with pytest.raises(FileError, match=words):
            cluster.evaluate(da.from_array(y, chunks=75), mixed, n_bins=4, edges="uniform")


@pytest.mark.parametrize(("deadly", "number"), [("truecal-count", 1), ("made_of", 3)])
def test_a_partition_that_kills_every_worker_is_named(monkeypatch, deadly, number):
    """Whether counting it is deadly or making it, from parts of other numbers: the second has parts 2 and 3."""
    rows = frame(*world())

    def made_of(i: int) -> Any:
        return rows[150 * i : 150 * (i + 1)]

    compute = cluster._Scheduler.compute

    def dies(self: Any, task: Any) -> Any:
        names = [str(key) for key in task.__dask_graph__()]
        if not any(name.startswith("truecal") for name in names):
            return compute(self, task)  # a few rows, to see what they are
        which = next(name for name in names if deadly in name and re.search(rf"[-, ]{number}\)?$", name))
        raise distributed.KilledWorker(which, SimpleNamespace(address="tcp://worker"), 3)

    monkeypatch.setattr(cluster._Scheduler, "compute", dies)
    table = dd.from_map(made_of, range(6), meta=rows[:0]).repartition(npartitions=3)
    with pytest.raises(FileError, match=r"partition 1 of 3 \(of the DataFrame\): every worker that ran it died"):
        cluster.evaluate(table, n_bins=4, edges="uniform")


def test_a_failure_of_no_partition_is_passed_on(monkeypatch):
    """As it was: an error that is its own cause keeps those busy for ever who look for the first one."""

    def fails(*_: Any) -> Any:
        raise RuntimeError("no room for a table")

    monkeypatch.setattr(cluster, "_merge", fails)
    with pytest.raises(RuntimeError, match="no room for a table") as found:
        cluster.evaluate(*arrays(*world()), n_bins=4, edges="uniform")
    assert found.value.__cause__ is None


def test_what_cannot_be_measured_is_refused(tmp_path):
    y, p = world()
    labels, proba = arrays(y, p)
    table = dd.from_pandas(frame(y, p), npartitions=2)
    unread = da.from_delayed(dask.delayed(pytest.fail)("rows were read"), (900,), float)
    uniform = {"n_bins": 4, "edges": "uniform"}
    for call, error, words in (
        (lambda: cluster.evaluate(y), TypeError, "for arrays in memory there is truecal.evaluate"),
        (lambda: cluster.evaluate(y, proba), TypeError, "y_true must be a Dask array"),
        (lambda: cluster.evaluate(labels[:800], proba), ValueError, "y_true must have 900 rows"),
        (lambda: cluster.evaluate(labels, proba, weight="w"), TypeError, "weight: these options apply to tables"),
        (lambda: cluster.evaluate(table, sample_weight=labels), ValueError, "sample_weight= is for arrays"),
        (lambda: cluster.evaluate(table, pos_label=2), ValueError, "pos_label= is for arrays"),
        (lambda: cluster.evaluate(table, part_rows=9), ValueError, "part_rows= is for files"),
        (lambda: cluster.evaluate(table, colour=9), TypeError, "colour: unknown option"),
        (lambda: cluster.evaluate(table, weight="w"), FileError, "weights named 'w'"),
        (lambda: cluster.evaluate(labels, proba, blocks=2), ValueError, "blocks must be 0"),
        (lambda: cluster.evaluate(labels, proba, errors=["binary"]), ValueError, "cannot be used with multiclass"),
        (lambda: cluster.evaluate(table[table.label > 5]), ValueError, "no rows"),
        (lambda: cluster.evaluate(labels[:0], proba[:0]), ValueError, "no rows"),
        (lambda: cluster.evaluate(labels[labels > 5], proba[labels > 5]), ValueError, "no rows"),
        (lambda: cluster.evaluate(labels[labels > 5], proba[labels > 5], **uniform), ValueError, "no rows"),
        (lambda: cluster.evaluate(unread, unread, level=95), ValueError, "level must lie strictly between 0 and 1"),
        (lambda: cluster.compare(unread, {"a": unread}, level=95), ValueError, "level must lie strictly"),
        (lambda: cluster.evaluate(labels, proba, client="tcp://host:1"), TypeError, "client must be a distributed.Cl"),
        (lambda: cluster.compare(labels, [proba, proba]), TypeError, "names and their predictions"),
        (lambda: cluster.evaluate(tmp_path / "none"), FileError, "file not found"),
        (lambda: cluster.compare(table), TypeError, "compare expects names"),
        (lambda: cluster.compare({"a": table, "b": table.repartition(npartitions=1)}), ValueError, "same partitions"),
    ):
        with pytest.raises(error, match=words):
            call()
    feather.write_feather(frame(y, p), tmp_path / "preds.feather")
    with pytest.raises(FileError, match="expected parquet files, which can be read in parts"):
        cluster.evaluate(tmp_path / "preds.feather")


# -- separate processes -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def client():
    with local_client(2) as found:
        yield found


def settings_of_worker() -> list[Any]:
    from truecal.core.dispatch import THREADS

    return [THREADS, *(os.environ.get(name) for name in WORKER_SETTINGS)]


@pytest.mark.heavy
def test_workers_are_set_up_for_counting(client):
    wanted = [1, *map(str, WORKER_SETTINGS.values())]
    assert list(client.run(settings_of_worker).values()) == [wanted, wanted]
    with pytest.raises(ValueError, match="workers must be at least 1"), local_client(0):
        pass


def dying(i: int, folder: str, kill: bool) -> Any:
    """Partition i; once, in the second pass, the worker that makes the sixth is killed."""
    rng = np.random.default_rng(i)
    z = 1.5 * rng.normal(size=(300, 3))
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    rows = pd.DataFrame({"label": rng.integers(0, 3, 300), **{f"prob_{j}": p[:, j] for j in range(3)}})
    if not os.path.exists(os.path.join(folder, "state.npz")):
        return rows  # edges are not stored yet: the first pass
    with open(os.path.join(folder, f"made-{i}"), "a") as made:
        made.write("x")
    if kill and i == 5:
        try:
            os.close(os.open(os.path.join(folder, "killed"), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return rows
        os.kill(os.getpid(), signal.SIGKILL)
    return rows


@pytest.mark.heavy
def test_a_killed_worker_changes_nothing(tmp_path, client):
    results = []
    for kill in (False, True):
        folder = tmp_path / f"kill-{kill}"
        folder.mkdir()
        first = dying(0, str(folder), False)
        table = dd.from_map(dying, range(10), folder=str(folder), kill=kill, meta=first.iloc[:0])
        results.append(cluster.evaluate(table, n_bins=7, client=client, out=folder / "state.npz"))
        assert (folder / "killed").exists() == kill
        counted = sum(len((folder / f"made-{i}").read_text()) for i in range(10))
        assert counted > 10 if kill else counted == 10
    assert_same(results[1], results[0])
    assert any("by a Dask cluster, two passes" in note for note in results[1].notes)


@pytest.mark.heavy
def test_processes_equal_threads_and_name_what_is_missing(tmp_path, client):
    y, p = world()
    folder = written(tmp_path / "preds", frame(y, p), (300, 600), group=100)
    with client.as_current():
        found = cluster.evaluate(folder, n_bins=5, part_rows=100)
    assert any("by a Dask cluster" in note for note in found.notes)
    assert_same(found, one_stream(y, p, n_bins=5).result())
    dataset = open_dataset(folder)
    (folder / "part-2.parquet").unlink()
    with pytest.raises(FileError, match=r"partition [678] of 9 \(rows .00 to .99, part-2.parquet\)"):
        cluster.evaluate(dataset, n_bins=5, part_rows=100, client=client)


def test_a_scheduler_that_is_gone_is_one_line(monkeypatch):
    distributed = pytest.importorskip("distributed")
    y, p = world()
    with distributed.Client(n_workers=1, processes=False, dashboard_address=None, set_as_default=False) as lost:
        pass  # it is closed now
    with pytest.raises(ConnectionError, match=r"connection to the Dask scheduler was lost .*: nothing was measured"):
        cluster.evaluate(*arrays(y, p), client=lost, n_bins=4)

    class Gone:
        def compute(self, task: Any) -> Any:
            raise distributed.client.FutureCancelledError("merge", "scheduler-connection-lost")

    monkeypatch.setattr(cluster, "_checked_client", lambda client: client)
    with pytest.raises(ConnectionError, match="connection to the Dask scheduler was lost"):
        cluster.evaluate(*arrays(y, p), client=Gone(), n_bins=4)
