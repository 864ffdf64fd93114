"""Tables larger than memory: the same numbers as in memory, in step, and refused in words."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.io import FileError

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402  # after importorskip

from truecal.core import dispatch  # noqa: E402  # after importorskip
from truecal.io import dataset as module  # noqa: E402  # after importorskip
from truecal.io.dataset import open_dataset  # noqa: E402  # after importorskip
from truecal.scale import files  # noqa: E402  # after importorskip
from truecal.scale.files import Pass, compare_datasets, count_rows, evaluate_dataset, run_streams  # noqa: E402
from truecal.scale.stream import Stream  # noqa: E402  # after importorskip


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "BATCH_ROWS", 100)


def world(n: int = 700, k: int = 3, factor: float = 1.0, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    p, q = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (z, factor * z))
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), q


def table(y: Any, p: Any, **more: Any) -> Any:
    columns = {f"prob_{'abc'[j]}": p[:, j] for j in range(p.shape[1])}
    return pa.table({"label": np.array(list("abc"))[y], **columns, **more})


def written(folder: Path, whole: Any, parts: int = 1, name: str = "preds") -> Path:
    """A parquet file, or a folder of several."""
    if parts == 1:
        parquet.write_table(whole, folder / f"{name}.parquet", row_group_size=130 if len(whole) < 1000 else 1 << 16)
        return folder / f"{name}.parquet"
    (folder / name).mkdir()
    for i, rows in enumerate(np.array_split(np.arange(len(whole)), parts)):
        parquet.write_table(whole.slice(rows[0], len(rows)), folder / name / f"part-{i}.parquet", row_group_size=90)
    (folder / name / "_SUCCESS").write_text("")
    return folder / name


@pytest.mark.parametrize("parts", [1, 3])
def test_a_file_and_a_folder_equal_memory(tmp_path, parts):
    y, p = world(factor=1.4)
    dataset = open_dataset(written(tmp_path, table(y, p), parts))
    assert dataset.n_rows == 700 and len(dataset.files) == parts
    found = evaluate_dataset(dataset, n_bins=(5, 8), one_pass=True)
    for name in ("classwise", "confidence", "confidence_l1"):
        error = tc.CalibrationError(tc.ERRORS[name].property, tc.EqualWidth((5, 8)), tc.ERRORS[name].norm)
        wanted = error(y, p)
        np.testing.assert_allclose([row.value for row in found.rows(name)], wanted, rtol=1e-12)
    assert found.accuracy == pytest.approx((p.argmax(axis=1) == y).mean()) and found.name == "preds"
    assert any("one pass" in note for note in found.notes)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_batches_side_by_side_count_as_one_after_the_other(tmp_path, monkeypatch, weighted):
    """Rows without a prediction among them: blocks go on counting after those that are left out."""
    y, p = world(factor=1.4)
    p[[3, 250, 251, 680]] = np.nan
    more = {"w": np.random.default_rng(1).random(len(y))} if weighted else {}
    file = written(tmp_path, table(y, p, **more))
    found = {}
    for lanes in (1, 3):
        monkeypatch.setattr(dispatch, "THREADS", lanes)
        dataset = open_dataset(file, weight="w" if weighted else None, drop_incomplete=True)
        (found[lanes],), notes = run_streams([dataset], n_bins=5)
        assert not any("edges" in note for note in notes)  # those of all predictions there are
    assert found[3].rows == found[1].rows == 696 and found[3].losses is not None and found[1].losses is not None
    np.testing.assert_allclose(found[3].losses.sums, found[1].losses.sums, rtol=1e-13)
    for key, wanted in found[1].tallies.items():
        tally = found[3].tallies[key]
        assert (tally.blocks is None) == (wanted.blocks is None)
        if tally.blocks is not None and wanted.blocks is not None:
            np.testing.assert_allclose(tally.blocks.sums, wanted.blocks.sums, rtol=1e-13)
            np.testing.assert_allclose(tally.blocks.residual, wanted.blocks.residual, atol=1e-13)
        for name in ("count", "outcome", "residual", "residual_sq"):
            np.testing.assert_allclose(getattr(tally.whole(), name), getattr(wanted.whole(), name), atol=1e-12)
    assert str(found[3].result().gap) == str(found[1].result().gap)


def test_lanes_are_as_many_as_memory_allows(tmp_path, monkeypatch):
    monkeypatch.setattr(dispatch, "THREADS", 8)
    made = []
    without = Stream.without_rows

    def counted(stream: Stream) -> Stream:
        made.append(stream)
        return without(stream)

    monkeypatch.setattr(Stream, "without_rows", counted)
    dataset = open_dataset(written(tmp_path, table(*world())))
    for room, more in ((1 << 25, files.MOST_LANES - 1), (0, 0)):
        monkeypatch.setattr(files, "LANE_BYTES", room)
        evaluate_dataset(dataset, n_bins=5)
        assert len(made) == more
        made.clear()


def test_the_first_bad_row_is_named_whichever_lane_it_is_in(tmp_path, monkeypatch):
    """Two batches lie outside frozen edges: what is said is about the first of them."""
    monkeypatch.setattr(dispatch, "THREADS", 3)
    y, p = world()
    p = 0.9 * p + 0.1 / 3
    p[[250, 350]] = [0.995, 0.004, 0.001]
    dataset = open_dataset(written(tmp_path, table(y, p)))
    stream = tc.stream("confidence", edges=[0.2, 0.5, 0.99])
    with pytest.raises(FileError, match=r"the prediction 0.995 at row 250$"):
        count_rows([stream], Pass((dataset,)).counted(0, 1))


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_bad_weight_is_named_before_a_bad_row_that_follows(tmp_path, monkeypatch, lanes):
    """Weights are looked at when a batch is counted, rows when it is read."""
    monkeypatch.setattr(dispatch, "THREADS", lanes)
    y, p = world()
    p[333, 1], weights = 3.0, np.ones(len(y))
    weights[250] = -1.0
    dataset = open_dataset(written(tmp_path, table(y, p, w=weights)), weight="w")
    with pytest.raises(FileError, match=r"sample_weight.*at row 250$"):
        evaluate_dataset(dataset, one_pass=True)


def test_quantile_bins_take_two_passes_and_are_those_of_memory(tmp_path):
    y, p = world(factor=1.4)
    shares: list[float] = []
    dataset = open_dataset(written(tmp_path, table(y, p), 2))
    found = evaluate_dataset(dataset, n_bins=6, progress=shares.append)
    for name in ("classwise", "confidence"):
        metric = tc.CalibrationError(tc.ERRORS[name].property, tc.Quantile(6, ties="together"))
        assert found.row(name).value == pytest.approx(metric(y, p), rel=1e-12)  # few rows: the sketch is exact
    assert shares == sorted(shares) and shares[-1] == 1.0 and len(shares) >= 14
    auto = evaluate_dataset(dataset)
    assert auto.row("classwise").n_bins == round((3 * 700) ** 0.4) and auto.row("confidence_l1").n_bins == 15
    assert any("two passes" in note for note in auto.notes) and not any("edges" in note for note in auto.notes)


def test_two_runs_have_the_same_edges(tmp_path, monkeypatch):
    """More rows than a sketch keeps: those that it sees are few enough."""
    monkeypatch.setattr(module, "BATCH_ROWS", 1 << 16)
    rng = np.random.default_rng(0)
    p = rng.random(140_000)
    one = pa.table({"label": (rng.random(len(p)) < p).astype(int), "prob": p})
    dataset = open_dataset(written(tmp_path, one))
    first, second = (evaluate_dataset(dataset) for _ in range(2))
    assert_close([row.value for row in first.errors], [row.value for row in second.errors], 1)
    assert any("edges from 46667 of the predictions" in note for note in first.notes)
    sizes = first.reliability["binary"].table.count
    assert sizes.min() / sizes.mean() > 0.6 and sizes.max() / sizes.mean() < 1.5


def test_arrow_globs_weights_logits_and_one_probability(tmp_path):
    y, p = world()
    w = np.linspace(0.5, 2, 700)
    for i, rows in enumerate((slice(0, 300), slice(300, 700))):
        feather.write_feather(table(y[rows], p[rows], weight=w[rows]), tmp_path / f"w{i}.feather")
    found = evaluate_dataset(open_dataset(tmp_path / "w*.feather", weight="weight"), n_bins=5, one_pass=True)
    wanted = tc.CalibrationError(tc.Confidence(), tc.EqualWidth(5))(y, p, sample_weight=w)
    assert found.row("confidence").value == pytest.approx(wanted, rel=1e-12)
    logits = pa.table({"label": y, **{f"logit_{j}": np.log(p[:, j]) for j in range(3)}})
    by_logits = evaluate_dataset(
        open_dataset(written(tmp_path, logits)), n_bins=5, one_pass=True, errors=["confidence"]
    )
    plain = tc.CalibrationError(tc.Confidence(), tc.EqualWidth(5))(y, p)
    assert by_logits.row("confidence").value == pytest.approx(plain, rel=1e-9)
    one = pa.table({"label": (y == 0).astype(int), "prob": p[:, 0]})
    binary = evaluate_dataset(open_dataset(written(tmp_path, one, name="one")), n_bins=5, one_pass=True)
    wanted = tc.CalibrationError(tc.Binary(), tc.EqualWidth(5))((y == 0).astype(int), p[:, 0])
    assert binary.row("binary").value == pytest.approx(wanted, rel=1e-12)
    assert binary.loss("brier").value == pytest.approx(tc.brier((y == 0).astype(int), np.c_[1 - p[:, 0], p[:, 0]]))


@pytest.mark.slow
def test_models_are_compared_in_step(tmp_path):
    y, p = world(3000)
    _, q = world(3000, factor=2.0)
    turned = pa.table({name: table(y, q)[name] for name in ("prob_c", "label", "prob_a", "prob_b")})
    datasets = [open_dataset(written(tmp_path, *x)) for x in ((table(y, p), 1, "calm"), (turned, 4, "sharp"))]
    found = compare_datasets(datasets, n_bins=10)
    memory = tc.compare(y, {"calm": p, "sharp": q}, n_bins=10, errors=["classwise", "confidence"], n_resamples=99)
    assert found.names == ("calm", "sharp") and [row["model"] for row in found.leaderboard()] == ["calm", "sharp"]
    for name in ("classwise", "confidence"):
        one, other = found.pair("calm", "sharp", name), memory.pair("calm", "sharp", name)
        assert one.loss.estimate == pytest.approx(other.loss.estimate, rel=1e-9)
        assert one.loss.se == pytest.approx(other.loss.se, rel=0.35) and one.loss.beyond_noise
        assert one.gap_sq.estimate == pytest.approx(other.gap_sq.estimate, rel=0.1)
        assert one.gap_sq.se == pytest.approx(other.gap_sq.se, rel=0.35)
    assert found.verdict.sentences[0].startswith("calm predicts best")
    assert found.to_dict()["pairs"]


def test_other_rows_are_refused(tmp_path):
    y, p = world()
    first = open_dataset(written(tmp_path, table(y, p), 1, "first"))
    fewer = open_dataset(written(tmp_path, table(y[:600], p[:600]), 1, "fewer"))
    with pytest.raises(FileError, match=r"fewer.parquet: expected 700 rows as in .*first.parquet, got 600"):
        compare_datasets([first, fewer])
    other = y.copy()
    other[550] = (other[550] + 1) % 3
    differs = open_dataset(written(tmp_path, table(other, p), 1, "differs"))
    with pytest.raises(FileError, match=r"the labels differ from those of .* at row 550 it has"):
        compare_datasets([first, differs], n_bins=3, one_pass=True)


def test_damage_and_nonsense_are_refused_in_words(tmp_path):
    y, p = world()
    bad = p.copy()
    bad[333, 1] = 3.0
    with pytest.raises(FileError, match=r"row 333 of the class columns sums to"):
        evaluate_dataset(open_dataset(written(tmp_path, table(y, bad), 1, "bad")), one_pass=True)
    with pytest.raises(FileError, match="expected parquet or arrow files, found none"):
        open_dataset(tmp_path / "nothing*.parquet")
    with pytest.raises(FileError, match="weights named 'w'"):
        open_dataset(written(tmp_path, table(y, p), 1, "good"), weight="w")
    whole = (tmp_path / "good.parquet").read_bytes()
    (tmp_path / "torn.parquet").write_bytes(whole[:3000] + b"\x00" * 400 + whole[3400:])
    with pytest.raises(FileError, match=r"torn.parquet"):
        evaluate_dataset(open_dataset(tmp_path / "torn.parquet"), one_pass=True)
    empty = table(y, p).slice(0, 0)
    with pytest.raises(FileError, match="no rows"):
        open_dataset(written(tmp_path, empty, 1, "empty"))
    with pytest.raises(ValueError, match="'binary' cannot be used with multiclass predictions"):
        evaluate_dataset(open_dataset(tmp_path / "good.parquet"), errors=["binary"])
    no_labels = table(y, p).drop_columns(["label"])
    with pytest.raises(FileError, match="the table has no labels"):
        evaluate_dataset(open_dataset(written(tmp_path, no_labels, 1, "bare")))
    renamed = table(y, p).rename_columns(["answer", *table(y, p).column_names[1:]])
    with pytest.raises(
        FileError,
        match=r"no labels; columns that can hold them: 'answer': pass --label-column answer, or --labels FILE$",
    ):
        evaluate_dataset(open_dataset(written(tmp_path, renamed, 1, "renamed")))


@pytest.mark.slow
def test_the_first_pass_reads_some_groups_of_many(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FIRST_GROUPS", 3)
    monkeypatch.setattr(files, "MOST_ROWS", 300)
    p = rng.dirichlet(np.ones(3), 1000)
    y = rng.integers(0, 3, 1000)
    path = tmp_path / "groups.parquet"
    parquet.write_table(table(y, p), path, row_group_size=100)
    (stream,), _ = run_streams([open_dataset(path)], n_bins=5)
    seen = np.concatenate([p[start : start + 100] for start in (100, 500, 800)])
    wanted = tc.stream(("classwise", "confidence"), n_bins=5)
    wanted.observe(seen)
    wanted.freeze(1000)
    wanted.update(y, p)
    assert stream.settings["observed"] == 300
    assert_close(stream.result().row("classwise").value, wanted.result().row("classwise").value)
    p[550, 1] = 3.0
    parquet.write_table(table(y, p), path, row_group_size=100)
    with pytest.raises(FileError, match="row 550"):
        run_streams([open_dataset(path)], n_bins=5)


def test_spans_of_rows_are_those_of_the_whole_table(tmp_path):
    y, p = world(700)
    for parts in (1, 3):
        dataset = open_dataset(written(tmp_path, table(y, p), parts, f"spans{parts}"))
        spans = [(0, 10), (120, 140), (200, 260), (695, 700)]  # across groups of rows and files
        some = dataset.some(spans)
        assert some.n_rows == 95
        found = np.concatenate([read.proba for read, _ in some.batches()])
        assert_close(found, np.concatenate([p[a:b] for a, b in spans]))
        part = dataset.part(125, 560)
        assert_close(np.concatenate([read.proba for read, _ in part.batches(rows=50)]), p[125:560])


def test_the_first_pass_of_tables_whose_groups_differ_takes_the_same_rows(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FIRST_GROUPS", 2)
    monkeypatch.setattr(files, "MOST_ROWS", 200)
    (y, p), (_, q) = world(700), world(700, factor=1.5)
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for path, proba, size in zip(paths, (p, q), (100, 37), strict=True):
        parquet.write_table(table(y, proba), path, row_group_size=size)
    streams, notes = run_streams([open_dataset(path) for path in paths], n_bins=5)
    for stream, proba in zip(streams, (p, q), strict=True):
        wanted = tc.stream(("classwise", "confidence"), n_bins=5)
        wanted.observe(np.concatenate([proba[100:200], proba[500:600]]))
        wanted.freeze(700)
        wanted.update(y, proba)
        assert_close(stream.result().row("classwise").value, wanted.result().row("classwise").value)
    assert any("edges from 200 of the predictions, spread evenly: a standard deviation of 3.5%" in n for n in notes)


def test_many_classes_have_the_same_edges_in_every_run_and_keep_little(rng, tmp_path, monkeypatch):
    p = rng.dirichlet(np.ones(70), 5000).astype(np.float32)
    y = rng.integers(0, 70, 5000)
    path = tmp_path / "wide.parquet"
    columns = {f"p{j}": np.ascontiguousarray(p[:, j]) for j in range(70)}
    parquet.write_table(pa.table({"label": y, **columns}), path, row_group_size=500)
    one, other = (run_streams([open_dataset(path)], n_bins=5)[0][0] for _ in range(2))
    assert one.settings["observed"] == 5000 and one.rule("classwise") == other.rule("classwise")
    ordered = np.sort(p, axis=0)
    assert_close(np.asarray(one.rule("classwise").values)[:, 1:-1], ordered[[999, 1999, 2999, 3999]].T)
    dataset = open_dataset(path)
    monkeypatch.setattr(files, "MOST_BYTES", dataset.row_bytes * 640)
    monkeypatch.setattr(files, "FIRST_GROUPS", 4)
    (few,), _ = run_streams([dataset], n_bins=5)
    assert few.settings["observed"] == 500  # every 4th of 4 groups of 500 rows
    wanted = np.sort(np.concatenate([p[a : a + 500] for a in (500, 1500, 3000, 4000)])[::4], axis=0)
    assert_close(np.asarray(few.rule("classwise").values)[:, 1:-1], wanted[[99, 199, 299, 399]].T)


def test_columns_of_several_types_and_of_one_are_the_same_numbers(tmp_path):
    y, p = world(300)
    plain = open_dataset(written(tmp_path, table(y, p), 1, "plain"))
    mixed = table(y, p)
    mixed = mixed.set_column(2, "prob_b", mixed["prob_b"].cast(pa.decimal128(20, 17)))
    mixed = open_dataset(written(tmp_path, mixed, 1, "mixed"))
    a, b = (np.concatenate([read.proba for read, _ in one.batches()]) for one in (plain, mixed))
    assert_close(a, b)


@pytest.mark.slow
def test_a_table_is_counted_without_libraries_that_take_long_to_load(tmp_path):
    y, p = world(300)
    path = written(tmp_path, table(y, p))
    code = f"""
import sys
from truecal.scale.files import evaluate_dataset
from truecal.io.dataset import open_dataset
evaluate_dataset(open_dataset({str(path)!r}), one_pass=True)
print(*(name for name in ("pandas", "scipy.optimize", "pyarrow.dataset", "dask", "matplotlib") if name in sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_small_table_is_read_few_batches_ahead(tmp_path, monkeypatch):
    asked: list[int] = []

    def seen(batches, ahead):
        asked.append(ahead)
        return batches

    monkeypatch.setattr(module, "read_ahead", seen)
    dataset = open_dataset(written(tmp_path, table(*world())))
    assert sum(len(batch) for batch in dataset.record_batches(rows=4)) == 700
    assert asked == [module.MOST_AHEAD]
