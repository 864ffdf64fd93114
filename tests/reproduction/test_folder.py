"""A run's folder in bad shape: damaged, foreign or in use, and every refusal names the file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reproduction.__main__ import main
from reproduction.folder import FORMAT, claim, locked, read_run_file
from reproduction.presets import from_folder
from reproduction.run import reproduce
from reproduction.summary import read_run, summarise
from reproduction.traces import Store, Trace, read_rows, write_rows

import truecal as tc
from reproduction_tables import made_up_table
from truecal.io import FileError

RUN: dict[str, Any] = {
    "preset": "tiny",
    "title": "A run",
    "warm_up": 0.9,
    "beside_paper": False,
    "settings": {"seed": 1},
    "notes": [],
    "traces": {"within": ["a-100.0"]},
}


def test_a_run_says_its_version_and_format(tmp_path: Path) -> None:
    claim(tmp_path, RUN)
    found = read_run_file(tmp_path)
    assert (found["truecal"], found["format"]) == (tc.__version__, FORMAT)
    claim(tmp_path, RUN)  # the same run goes on


def test_a_folder_without_a_format_and_of_another_version_goes_on(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(RUN | {"truecal": "0.0.1", "notes": ["by hand"]}))
    claim(tmp_path, RUN)
    assert read_run_file(tmp_path)["notes"] == ["by hand"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "cannot be read"),
        (b"{", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[1, 2]", "expected the description of a run, got a list"),
        (b"{}", "expected 'preset' in the description of a run, got None"),
        (json.dumps(RUN | {"notes": None}).encode(), "expected 'notes'"),
        (json.dumps(RUN | {"warm_up": "x"}).encode(), "expected 'warm_up'"),
        (json.dumps(RUN | {"traces": {"../up": []}}).encode(), "expected the traces of each experiment"),
        (json.dumps(RUN | {"traces": {"within": 5}}).encode(), "expected the traces of each experiment"),
        (json.dumps(RUN | {"format": FORMAT + 1}).encode(), "written by a later truecal"),
    ],
)
def test_a_damaged_or_foreign_description_is_refused_before_anything_is_written(
    tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / "run.json").write_bytes(content)
    for call in (lambda: reproduce("tiny", out=tmp_path), lambda: summarise(tmp_path)):
        with pytest.raises(FileError, match=words) as caught:
            call()
        assert "run.json" in str(caught.value) and "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert (tmp_path / "run.json").read_bytes() == content


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xfe\x00", "cannot be read"),
        (b'trace,epoch\n"a', "cannot be read"),
        (b"trace,epoch\na,1,2\n", "expected a value for each of its columns in every row, but row 0 lacks some"),
        (b"trace,epoch\na,1\nb\n", "row 1 lacks some"),
        (b"x,y\n1,2\n", "it has no column epoch, trace"),
        (b"", "it has no column epoch, trace"),
    ],
)
def test_a_damaged_table_is_refused_by_its_name(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "checkpoints.csv"
    path.write_bytes(content)
    with pytest.raises(FileError, match=words) as caught:
        read_rows(path)
    assert str(path) in str(caught.value)


def _rows(trace: Trace) -> list[dict[str, Any]]:
    return [{"trace": trace.name, "epoch": epoch, "value": 0.5} for epoch in range(1, trace.epochs + 1)]


def test_a_damaged_merged_table_blocks_no_trace_and_is_put_aside(tmp_path: Path) -> None:
    store, done, missing = (
        Store(tmp_path),
        Trace("a", 1.0, 2, experiment="within"),
        Trace("b", 1.0, 2, experiment="within"),
    )
    store.finish(done, _rows(done))
    table = tmp_path / "within" / "checkpoints.csv"
    table.write_bytes(b"x,y\n1,2\n")
    assert list(store.finished([done, missing])) == [done.key]
    assert store.merge([done, missing]) == _rows(done)
    assert read_rows(table) == _rows(done)
    assert (tmp_path / "within" / "checkpoints.damaged.csv").read_bytes() == b"x,y\n1,2\n"


def test_a_damaged_trace_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    store, trace = Store(tmp_path), Trace("a", 1.0, 2, experiment="within")
    store.finish(trace, _rows(trace))
    path = tmp_path / "within" / "traces" / "a-100.0.csv"
    path.write_bytes(b"\x00")
    with pytest.raises(FileError, match=r"a-100\.0\.csv: "):
        store.merge([trace])
    assert not (tmp_path / "within" / "checkpoints.csv").exists()


def _without(table: Any) -> Any:
    return table.drop(columns="brier")


def _with_text(table: Any) -> Any:
    return table.astype({"brier": object}).assign(brier=["text", *table["brier"][1:]])


@pytest.mark.parametrize(
    ("change", "words"), [(_without, "column 'brier', there is none"), (_with_text, "got 'text' at row 0")]
)
def test_a_foreign_table_is_refused_by_its_file_and_column(
    tmp_path: Path, change: Callable[..., Any], words: str
) -> None:
    claim(tmp_path, RUN)
    rows = change(made_up_table()).to_dict("records")
    write_rows(tmp_path / "within" / "checkpoints.csv", rows)
    with pytest.raises(FileError, match=words) as caught:
        read_run(tmp_path)
    assert "checkpoints.csv" in str(caught.value)


def test_two_runs_never_work_in_one_folder(tmp_path: Path) -> None:
    pytest.importorskip("filelock")
    with locked(tmp_path), pytest.raises(FileError, match=r"run\.lock: another run is using this folder"):
        reproduce("tiny", out=tmp_path)
    assert list(tmp_path.iterdir()) == []  # the lock is gone, and the second run wrote nothing
    with locked(tmp_path):
        pass


def _stored(root: Path) -> Path:
    folder = root / "within" / "logits" / "a"
    folder.mkdir(parents=True)
    arrays = {"validation": np.zeros((4, 3)), "test": np.zeros((5, 3))}
    np.savez(root / "labels.npz", validation=np.zeros(4, dtype=int), test=np.zeros(5, dtype=int))
    np.savez(folder / "epoch-0001.npz", **arrays)  # type: ignore[arg-type]  # its stub takes arrays for a flag
    (folder / "trace.json").write_text('{"model": "a", "fraction": 1.0}')
    return folder


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("trace.json", b"[]", "expected the model and the fraction of a trace, got a list"),
        ("trace.json", b"{", "cannot be read"),
        ("trace.json", b'{"fraction": "x"}', "expected a fraction in"),
        ("epoch-0001.npz", b"PK\x03\x04", "cannot be read"),
        ("epoch-0001.npz", b"text", "cannot be read"),
    ],
)
def test_stored_logits_that_are_damaged_are_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    folder = _stored(tmp_path / "in")
    (folder / name).write_bytes(content)
    with pytest.raises(FileError, match=words) as caught:
        reproduce(from_dir=tmp_path / "in", out=tmp_path / "out")
    assert name in str(caught.value)


def test_stored_labels_that_are_text_are_named(tmp_path: Path) -> None:
    _stored(tmp_path)
    np.savez(tmp_path / "labels.npz", validation=np.array(["a"] * 4), test=np.zeros(5, dtype=int))
    with pytest.raises(FileError, match=r"labels\.npz: expected numbers, got dtype <U1 in 'validation'"):
        from_folder(tmp_path).open()


def test_the_command_says_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text("{}")
    assert main(["tiny", "--out", str(tmp_path)]) == 1
    (tmp_path / "file").touch()
    assert main(["tiny", "--out", str(tmp_path / "file")]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2 and all(line.startswith("error: ") for line in said)


@pytest.mark.heavy
def test_the_results_in_the_repository_are_still_read(tmp_path: Path) -> None:
    shipped = Path(__file__).parents[2] / "results"
    for run in ("letter", "cifar100", "cifar100-long"):
        shutil.copytree(shipped / run, tmp_path / run)
        description, tables = read_run(tmp_path / run)
        assert tables and description["preset"]
