"""Text of a file is text wherever it is shown: on a terminal, in CSV, in Python, in suggested commands."""

from __future__ import annotations

import inspect
import io
import json
import os
import pickle
import shlex
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from rich.text import Text

import truecal as tc
from prediction_files import refusal, write
from truecal.core.result import Result, clean
from truecal.core.tables import csv_text
from truecal.inference.repair import PredictionMap
from truecal.io import read_predictions
from truecal.io.containers import CONVERTED
from truecal.io.refused import converted_error, missing_error
from truecal.render.terminal import QuietConsole

HOSTILE = "a\x1b[31m\x07\u202eb\u2028c"
QUOTES = "a'; touch mark; '\"$(touch mark)`touch mark`.pkl"


def hidden(text: str) -> set[str]:
    return {c for c in text if c != "\n" and clean(c) != c and c not in "\t\r"}


def texts(result: Any) -> Iterator[tuple[str, str]]:
    """Every text that a result gives without further arguments, by the name of the method."""
    for name in (*dir(type(result)), "__repr__", "__str__", "_repr_html_"):
        method = inspect.getattr_static(type(result), name, None)
        if (name.startswith("_") and not name.endswith("_")) or not inspect.isfunction(method):
            continue
        needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty and p.name != "self"]
        if not any(p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in needed) and name != "plot":
            found = getattr(result, name)()
            if isinstance(found, str):
                yield name, found


@pytest.mark.slow
def test_results_show_no_control_characters() -> None:
    rng = np.random.default_rng(0)
    p, table = rng.random(200), rng.dirichlet(np.ones(3), 200)
    y = rng.random(200) < p
    by = {HOSTILE: np.where(rng.random(200) < 0.5, HOSTILE, "plain")}
    names = [HOSTILE, "=1+1", "<b>"]
    classes = np.array(names)[rng.integers(0, 3, 200)]
    results = [
        tc.evaluate(y, p, by=by, n_resamples=19, name=HOSTILE),
        tc.evaluate(classes, table, labels=names, features=by, n_resamples=19, name=HOSTILE),
        tc.compare(y, {HOSTILE: p, "other": 1 - p}, by=by, n_resamples=19),
        tc.segments(y, p, {HOSTILE: by[HOSTILE]}, n_resamples=19),
        tc.calibration_test(classes, table, labels=names),
        tc.gap(classes, table, labels=names),
    ]
    shown = {(type(result).__name__, name): text for result in results for name, text in texts(result)}
    assert {"explain", "to_latex", "to_markdown", "__repr__", "_repr_html_"} <= {name for _, name in shown}
    assert {key for key, text in shown.items() if hidden(text)} == set()
    assert not any("<b>" in text for (_, name), text in shown.items() if name == "_repr_html_")


def test_a_result_that_forgets_is_cleaned() -> None:
    @dataclass(frozen=True, repr=False)
    class Forgets(Result):
        name: str

        def __repr__(self) -> str:
            return f"the model {self.name}\nis fine"

    assert repr(Forgets(HOSTILE)) == f"the model {clean(HOSTILE)}\nis fine"
    assert Forgets(HOSTILE).to_dict() == {"name": HOSTILE}


@pytest.mark.parametrize("text", [HOSTILE, Text(HOSTILE)])
def test_a_terminal_gets_no_control_characters(text: Any) -> None:
    out = io.StringIO()
    QuietConsole(file=out, width=100, markup=False).print(text)
    assert not hidden(out.getvalue()) and "\ufffd" in out.getvalue()


def test_csv_has_no_formulas_and_no_control_characters() -> None:
    text = csv_text([{"=name": HOSTILE, "value": -1.5}, {"=name": "@sum", "value": "-1.5"}])
    assert text == f"'=name,value\n{clean(HOSTILE)},-1.5\n'@sum,-1.5\n"


def run_as_told(line: str, folder: Path) -> None:
    """What a shell makes of a suggested command, without running the program that it names."""
    words = shlex.split(line)
    quoted = f"printf '%s\\n' {line}"
    shown = subprocess.run(["sh", "-c", quoted], capture_output=True, text=True, cwd=folder, check=True).stdout
    assert shown == "".join(f"{word}\n" for word in words)
    assert not (folder / "mark").exists()


def test_commands_in_messages_are_quoted(tmp_path: Path) -> None:
    path = tmp_path / QUOTES
    path.write_bytes(pickle.dumps({"probs": [0.5]}))
    line = refusal(path).partition("convert it: ")[2]
    run_as_told(line, tmp_path)
    program, option, code = shlex.split(line)
    assert (program, option) == ("python", "-c") and "touch mark" in code
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    assert not (tmp_path / "mark").exists() and path.with_suffix(".npz").exists()
    (tmp_path / "sub").mkdir()
    pointer = write(tmp_path / "sub" / "'; touch mark;'.csv", b"version https://git-lfs.github.com/spec/v1\n")
    run_as_told(refusal(pointer).partition(": run ")[2], tmp_path)
    for suffix in CONVERTED:
        line = CONVERTED[suffix]
        run_as_told(str(converted_error(QUOTES + suffix, line)).rpartition(" with ")[2], tmp_path)
    for url in ("https://a.b/'; touch mark; '.csv", "s3://b/$(touch mark).csv"):
        run_as_told(str(missing_error(url)).rpartition(": run ")[2].rpartition(", then give")[0], tmp_path)


def test_nothing_is_written_beside_a_database(tmp_path: Path) -> None:
    """In WAL mode opening a file for reading makes two files beside it; rows in such a file count."""
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE t (label INT, prob REAL)")
        database.executemany("INSERT INTO t VALUES (?, ?)", [(i % 2, 0.25) for i in range(20)])
        database.commit()
        waiting = sorted(os.listdir(tmp_path))
        assert waiting == ["a.db", "a.db-shm", "a.db-wal"]
        assert read_predictions(path).n == 20
        assert sorted(os.listdir(tmp_path)) == waiting
    assert read_predictions(path).n == 20
    assert os.listdir(tmp_path) == ["a.db"]


def test_rows_of_a_database_are_in_one_order(tmp_path: Path) -> None:
    """An index that covers the labels would give them in another order than the predictions."""
    rng = np.random.default_rng(0)
    p, y = rng.random(500), rng.integers(0, 2, 500)
    with closing(sqlite3.connect(tmp_path / "a.db")) as database:
        database.execute("CREATE TABLE t (label INT, prob REAL)")
        database.execute("CREATE INDEX i ON t (label)")
        database.execute("CREATE INDEX j ON t (prob DESC)")
        database.executemany("INSERT INTO t VALUES (?, ?)", zip(y.tolist(), p.tolist(), strict=True))
        database.commit()
    read = read_predictions(tmp_path / "a.db", label_column="label")
    assert np.array_equal(read.y_true, y) and np.array_equal(read.proba, p)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n_classes", float("inf")),
        ("n_classes", 10**9),
        ("slopes", [0]),
        ("slopes", [1e308]),
        ("offsets", [float("nan")]),
        ("knots", [[0.5, 2.0]]),
        ("kind", []),
        ("kind", "nonsense"),
    ],
)
def test_maps_that_no_run_writes_are_refused(tmp_path: Path, field: str, value: Any) -> None:
    PredictionMap("temperature", "multiclass", 3, slopes=(0.5,)).save(tmp_path / "map.json")
    assert tc.load_map(tmp_path / "map.json").predict_proba([[0.2, 0.3, 0.5]]).shape == (1, 3)
    about = json.loads((tmp_path / "map.json").read_text())
    (tmp_path / "map.json").write_text(json.dumps({**about, field: value}))
    with pytest.raises(ValueError, match="expected a map as truecal writes it"):
        tc.load_map(tmp_path / "map.json")


def test_the_list_of_many_arrays_is_read_a_few_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for each array takes quadratic time."""
    torch, safetensors = pytest.importorskip("torch"), pytest.importorskip("safetensors")
    arrays = {"labels": np.arange(60) % 2, "probs": np.full((60, 2), 0.5)}
    arrays |= {f"feature{i}": np.full(60, float(i)) for i in range(200)}
    np.savez(tmp_path / "a.npz", **arrays)  # type: ignore[arg-type]
    torch.save({name: torch.tensor(array) for name, array in arrays.items()}, tmp_path / "a.pt")
    safetensors.numpy.save_file(arrays, tmp_path / "a.safetensors")
    lists: list[str] = []
    for owner, name in ((zipfile.ZipFile, "_RealGetContents"), (safetensors, "safe_open")):
        whole = getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *given, whole=whole: [lists.append(""), whole(*given)][1])  # type: ignore[func-returns-value]
    wide = ",".join(name for name in arrays if name.startswith("feature"))
    for suffix in (".npz", ".pt", ".safetensors"):
        lists.clear()
        refusal(tmp_path / f"a{suffix}", proba_columns=wide)
        assert 0 < len(lists) <= 6


def test_an_archive_of_many_arrays_is_refused_at_once(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **{f"a{i}": np.zeros(1) for i in range(1200)})  # type: ignore[arg-type]
    assert "expected at most 1000 arrays, got 1200" in refusal(tmp_path / "a.npz")


FLIPPED = """
import sys
from pathlib import Path
from truecal.io import FileError, read_predictions
path = Path(sys.argv[1])
good = path.read_bytes()
foot = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
for bit in range(8 * foot, 8 * (foot + 90), 3):
    changed = bytearray(good)
    changed[bit // 8] ^= 1 << bit % 8
    path.write_bytes(changed)
    try:
        read_predictions(path)
    except FileError:
        pass
"""


@pytest.mark.slow
def test_statistics_that_do_not_fit_a_column_do_not_end_the_process(tmp_path: Path) -> None:
    """pyarrow aborts where Python asks it for the description of such a column."""
    rows = pa.table(
        {"label": ["cat", "dog"] * 2, "prob_cat": [0.25, 0.5, 0.75, 1.0], "prob_dog": [0.75, 0.5, 0.25, 0.0]}
    )
    parquet.write_table(rows, tmp_path / "a.parquet")
    command = [sys.executable, "-c", FLIPPED, str(tmp_path / "a.parquet")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-500:]
