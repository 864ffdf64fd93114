"""Folders as people have them: measured as in memory, or refused in words; nothing is left out without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal as tc
from truecal.baselines import BASELINES
from truecal.io import FileError

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402  # after importorskip

from truecal.io import dataset as module  # noqa: E402  # after importorskip
from truecal.io.dataset import open_dataset  # noqa: E402  # after importorskip
from truecal.scale.files import compare_datasets, evaluate_dataset  # noqa: E402  # after importorskip

NAMES = np.array(["ant", "bee", "cow"])


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(module, "BATCH_ROWS", 100)


def world(n: int = 600) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 2, 3], n)
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=2), p


def written(folder: Path, cuts: Any, **columns: Any) -> Path:
    """A folder of parquet files, cut at some rows."""
    whole = pa.table(columns)
    folder.mkdir()
    for i, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(whole)], strict=True)):
        parquet.write_table(whole.slice(a, b - a), folder / f"part-{i}.parquet", row_group_size=70)
    return folder


def probabilities(p: Any, names: Any = NAMES) -> dict[str, Any]:
    return {f"prob_{name}": pa.array(p[:, j], from_pandas=True) for j, name in enumerate(names)}


def value(folder: Path, **options: Any) -> float:
    found = evaluate_dataset(open_dataset(folder, **options), n_bins=5, one_pass=True)
    return found.row("confidence").value


@pytest.mark.slow
def test_labels_as_people_store_them(tmp_path):
    y, p = world()
    wanted = tc.CalibrationError(tc.Confidence(), tc.EqualWidth(5))(y, p)
    words = NAMES[y]
    for i, (labels, names) in enumerate(
        (
            (pa.array(words).dictionary_encode(), NAMES),
            (pa.array(words, pa.large_string()), NAMES),
            (pa.array(y.astype(str)), range(3)),
            (pa.array(y, pa.int8()), range(3)),
        )
    ):
        folder = written(tmp_path / str(i), (0, 150, 150, 400), label=labels, **probabilities(p, names))
        assert value(folder) == pytest.approx(wanted, rel=1e-12)  # also with files that have no rows
    turned = pa.DictionaryArray.from_arrays(pa.array(2 - y, pa.int8()), pa.array(NAMES[::-1]))  # the same words
    other = written(tmp_path / "turned", (77,), label=turned, **probabilities(p))
    both = compare_datasets([open_dataset(tmp_path / "0"), open_dataset(other)], n_bins=5, one_pass=True)
    assert both.evaluations["turned"].row("confidence").value == pytest.approx(wanted, rel=1e-12)


def test_shares_of_labels(tmp_path):
    _, p = world()
    soft = np.random.default_rng(1).dirichlet([1, 1, 1], 600)
    shares = {f"label_{name}": soft[:, j] for j, name in enumerate(NAMES)}
    folder = written(tmp_path / "soft", (250,), **shares, **probabilities(p))
    wanted = tc.CalibrationError(tc.Confidence(), tc.EqualWidth(5))(soft, p)
    assert value(folder) == pytest.approx(wanted, rel=1e-12)


def test_rows_without_predictions_are_dropped_and_counted(tmp_path):
    y, p = world()
    gaps = p.copy()
    gaps[:230] = np.nan  # the first rows, and whole batches
    gaps[555, 1] = np.nan
    full, holes = (
        written(tmp_path / name, (300,), label=NAMES[y], **probabilities(x))
        for name, x in (("full", p), ("gaps", gaps))
    )
    with pytest.raises(FileError, match=r"expected a value at row 0, column 'prob_ant', it is missing"):
        value(holes)
    kept = np.isfinite(gaps).all(axis=1)
    wanted = tc.CalibrationError(tc.Confidence(), tc.EqualWidth(5))(y[kept], p[kept])
    found = evaluate_dataset(open_dataset(holes, drop_incomplete=True), n_bins=5, one_pass=True)
    assert found.row("confidence").value == pytest.approx(wanted, rel=1e-12)
    assert "231 of 600 rows dropped: they have no prediction" in found.notes
    tables = [open_dataset(x, drop_incomplete=True) for x in (full, holes)]
    both = compare_datasets(tables, n_bins=5, one_pass=True)
    assert both.n_samples == 369 and both.evaluations["full"].row("confidence").value == pytest.approx(wanted)
    none = written(tmp_path / "none", (), label=NAMES[y], **probabilities(np.full((600, 3), np.nan)))
    with pytest.raises(FileError, match="none of 600 rows has a prediction"):
        evaluate_dataset(open_dataset(none, drop_incomplete=True))


def test_files_that_do_not_fit_are_named(tmp_path):
    y, p = world()
    columns = {"label": y, **probabilities(p, range(3))}
    folder = written(tmp_path / "preds", (300,), **columns)
    (folder / "old.csv").write_text("label,prob_0,prob_1,prob_2\n")
    found = evaluate_dataset(open_dataset(folder), n_bins=5, one_pass=True)
    assert any("not read, because of another format: " in note and "old.csv" in note for note in found.notes)
    assert evaluate_dataset(open_dataset(folder / "*.parquet"), n_bins=5).name == "preds"
    part = folder / "part-1.parquet"
    parquet.write_table(pa.table(columns).drop_columns(["prob_2"]), part)
    with pytest.raises(FileError, match=r"part-1.parquet: expected a column 'prob_2' as in the first file, found"):
        value(folder)
    dataset = open_dataset(folder)
    part.unlink()
    with pytest.raises(FileError, match=r"part-1.parquet"):
        evaluate_dataset(dataset)
    (folder / "part-0.parquet").unlink()
    with pytest.raises(FileError, match=r"expected parquet or arrow files, found .*old.csv.*one by one"):
        open_dataset(folder)


def test_weights_are_refused_with_their_file_and_row(tmp_path):
    y, p = world()
    w = np.where(np.arange(600) == 333, -1.0, 1.0)
    folder = written(tmp_path / "preds", (300,), label=y, w=w, **probabilities(p, range(3)))
    with pytest.raises(FileError, match=r"preds: .*negative, got -1 at row 333$"):
        value(folder, weight="w")


def test_a_bad_row_is_named_by_its_number_in_the_table_and_in_its_file(tmp_path):
    y, p = world()
    p[555, 2] = np.nan
    columns = {"label": y, **probabilities(p, range(3))}
    folder = written(tmp_path / "row 7", (200, 400), **columns)
    with pytest.raises(FileError, match=r"row 7: expected a value at row 555,.* \(row 155 of .*part-2.parquet\)$"):
        value(folder)
    single = written(tmp_path / "single", (), **columns) / "part-0.parquet"
    with pytest.raises(FileError, match=r"part-0.parquet: expected a value at row 555,.*\(--drop-incomplete\)$"):
        list(open_dataset(single).batches())
    p[555] = p[554]
    same = written(tmp_path / "same", (), label=y, **probabilities(p, range(3)))
    y[511] = (y[511] + 1) % 3
    other = written(tmp_path / "other", (), label=y, **probabilities(p, range(3)))
    with pytest.raises(FileError, match=r"other: the labels differ from those of .*same: at row 511 it has"):
        compare_datasets([open_dataset(same), open_dataset(other)])


@pytest.mark.parametrize("name", tc.ERRORS)
def test_every_error_is_streamed_or_refused_in_words(name):
    y, p = world(300)
    if name in BASELINES or name.startswith(("linear", "survival")):
        with pytest.raises(ValueError, match=f"'{name}' cannot be streamed"):
            tc.stream(name)
        with pytest.raises(ValueError, match="cannot be streamed"):
            tc.stream(tc.ERRORS[name])
        return
    numbers = name.startswith("distribution")
    options: dict[str, Any] = {"thresholds": range(p.shape[1] - 1)} if numbers else {}
    stream = tc.stream(name, **options)
    if numbers:
        p = p.cumsum(axis=1)[:, :-1].clip(0, 1)
    elif stream.kind.name == "multilabel":
        y = np.eye(p.shape[1])[y]
    elif stream.kind.name not in ("multiclass", "ordered"):
        y, p = (y == 0).astype(int), p[:, 0]
    if not stream.frozen:
        stream.observe(p)
    stream.freeze()
    stream.update(y[:100], p[:100])
    stream.update(y[100:], p[100:])
    entry = stream.entries[0]
    in_memory = float(entry.error.of(entry.error.read(y, p))[0])
    assert stream.result().row(name).value == pytest.approx(in_memory, rel=1e-12)
    with pytest.raises(ValueError, match="cannot merge streams"):
        stream.merge(tc.stream(name, blocks=8, **options))


def test_an_arrow_stream_is_refused_by_its_name(tmp_path):
    """pyarrow's datasets know Arrow files alone, and would say that it is no such file."""
    y, p = world()
    whole = pa.table({"label": NAMES[y], **probabilities(p)})
    with pa.OSFile(str(tmp_path / "data-0.arrow"), "wb") as file, pa.ipc.new_stream(file, whole.schema) as writer:
        writer.write_table(whole)
    with pytest.raises(FileError, match=r"data-0\.arrow: expected an Arrow file, but this is an Arrow stream"):
        open_dataset(tmp_path)
