"""One table in every container: packed, in other encodings, with comments, in parts, as pandas writes JSON, piped."""

from __future__ import annotations

import bz2
import io
import lzma
import pickle
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io

from closeness import assert_close
from prediction_files import refusal
from truecal.cli.app import run
from truecal.io import FileError, read_predictions

N = 40
rng = np.random.default_rng(0)
P = rng.uniform(size=N).round(4)
Y = (rng.uniform(size=N) < P).astype(int)
FRAME = pd.DataFrame({"label": Y, "prob": P})
TEXT = FRAME.to_csv(index=False)


def zipped(path: Path, **members: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)


def taped(path: Path, mode: Any) -> None:
    with tarfile.open(path, mode) as archive:
        about = tarfile.TarInfo("preds.csv")
        about.size = len(TEXT)
        archive.addfile(about, io.BytesIO(TEXT.encode()))


def parts(path: Path) -> None:
    path.mkdir()
    for j in range(4):
        FRAME[10 * j : 10 * (j + 1)].to_csv(path / f"part-{j}.csv", index=False)


def arff(path: Path) -> None:
    lines = ["% by hand", "@RELATION x", "@attribute 'label' {0,1}", "@ATTRIBUTE prob numeric", "@DATA"]
    path.write_text("\n".join([*lines, *TEXT.splitlines()[1:3], "% more", *TEXT.splitlines()[3:], ""]))


CONTAINERS: dict[str, Callable[[Path], object]] = {
    "a.csv.bz2": lambda p: p.write_bytes(bz2.compress(TEXT.encode())),
    "a.csv.xz": lambda p: p.write_bytes(lzma.compress(TEXT.encode())),
    "a.csv.zip": lambda p: zipped(p, **{"a.csv": TEXT}),
    "mac.zip": lambda p: zipped(p, **{"a.csv": TEXT, "__MACOSX/._a.csv": "x"}),
    "a.tar": lambda p: taped(p, "w"),
    "a.tar.gz": lambda p: taped(p, "w:gz"),
    "a.tgz": lambda p: taped(p, "w:gz"),
    "parts": parts,
    "utf16.csv": lambda p: p.write_bytes(TEXT.encode("utf-16")),
    "utf16.tsv": lambda p: p.write_bytes(TEXT.replace(",", "\t").encode("utf-16")),
    "comments.csv": lambda p: p.write_text(f"# made by hand\n# 2024\n{TEXT}# the end\n"),
    "savetxt.csv": lambda p: np.savetxt(p, FRAME, delimiter=",", header="label,prob", fmt=("%d", "%.4f")),
    "write_table.txt": lambda p: FRAME.to_csv(p, sep=" ", quoting=2, index_label=False),
    "excel.csv": lambda p: p.write_text(f"sep=;\n{TEXT.replace(',', ';')}"),
    "preds.dat": lambda p: p.write_text(TEXT),
    "predictions": lambda p: p.write_text(TEXT.replace(",", "\t")),
    "preds.log": lambda p: FRAME.to_json(p, orient="records", lines=True),
    "a.arff": arff,
    "a.mat": lambda p: scipy.io.savemat(p, {"label": Y.astype(float), "prob": P}),
    **{
        f"{orient}.json": lambda p, orient=orient: FRAME.to_json(p, orient=orient)  # type: ignore[misc]
        for orient in ("split", "records", "index", "columns", "table")
    },
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_one_table_in_every_container(tmp_path: Path, name: str) -> None:
    CONTAINERS[name](tmp_path / name)
    read = read_predictions(tmp_path / name)
    assert read.proba is not None and read.y_true is not None
    assert_close(read.proba, P)
    assert np.array_equal(read.y_true, Y)
    assert ("one table in 4 files" in str(read.notes)) == (name == "parts")


def test_names_in_latin_1(tmp_path: Path) -> None:
    text = "label,prob_é,prob_ü\né,0.25,0.75\nü,0.5,0.5\n"
    (tmp_path / "a.csv").write_bytes(text.encode("latin-1"))
    read = read_predictions(tmp_path / "a.csv")
    assert read.classes == ("é", "ü") and "the text is in cp1252, not in UTF-8" in read.notes


def test_a_line_keeps_its_number_below_comments(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("# a\n# b\nlabel,prob\n1,0.5\n0,x\n")
    assert "row 1 (line 5), column 'prob', got 'x'" in refusal(tmp_path / "a.csv")


def test_rows_of_an_object_of_objects_and_lists_beside_settings(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"q7": {"label": 1, "prob": 0.75}, "q9": {"label": 0, "prob": 0.5}}')
    assert read_predictions(tmp_path / "a.json").proba.tolist() == [0.75, 0.5]  # type: ignore[union-attr]
    (tmp_path / "b.json").write_text('{"config": {"lr": 1}, "y_true": [1, 0], "y_prob": [0.75, 0.5]}')
    read = read_predictions(tmp_path / "b.json")
    assert read.y_true.tolist() == [1, 0] and "left out: 'config'" in read.notes  # type: ignore[union-attr]
    (tmp_path / "c.json").write_text('{"model": "a", "rows": [{"label": 1, "prob": 0.75}, {"label": 0, "prob": 0.5}]}')
    assert "the rows are the list 'rows'" in read_predictions(tmp_path / "c.json").notes


def test_archives_of_several_files(tmp_path: Path) -> None:
    zipped(tmp_path / "a.zip", **{"one.csv": TEXT, "two.csv": TEXT})
    assert "found 'one.csv', 'two.csv': name one, such as" in refusal(tmp_path / "a.zip")
    assert read_predictions(f"{tmp_path / 'a.zip'}::two.csv").name == "two"
    zipped(tmp_path / "b.zip", **{"one.npy": "x"})
    assert refusal(tmp_path / "b.zip").startswith("only text is read from archives: unpack it, and name the .npy file")


def test_models_in_a_folder_are_no_parts_of_a_table(tmp_path: Path) -> None:
    for name in ("forest.csv", "linear.csv"):
        (tmp_path / name).write_text(TEXT)
    assert "expected a file, but it is a folder" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("held", "line"),
    [
        ((Y, P), "np.savez"),
        ({"y_true": Y, "y_prob": P}, "np.savez"),
        (FRAME, "pd.read_pickle"),
    ],
)
def test_a_pickle_under_any_name_has_a_line_that_works(tmp_path: Path, held: object, line: str) -> None:
    path = tmp_path / "preds.bin"
    path.write_bytes(pickle.dumps(held))
    message = refusal(path)
    assert line in message
    code = message.partition("python -c '")[2].rpartition("'")[0]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    (made,) = [p for p in tmp_path.iterdir() if p != path]
    read = read_predictions(made)
    assert np.array_equal(read.y_true, Y)  # type: ignore[arg-type]
    assert_close(read.proba, P)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "https://example.org/a/preds.csv",
            "run curl -L -o preds.csv https://example.org/a/preds.csv, then give preds.csv",
        ),
        ("s3://bucket/preds.parquet", "run aws s3 cp s3://bucket/preds.parquet ., then give preds.parquet"),
    ],
)
def test_what_is_elsewhere_is_downloaded_first(name: str, line: str) -> None:
    with pytest.raises(FileError) as caught:
        read_predictions(Path(name))
    assert line in str(caught.value)


def test_other_formats_have_a_line_that_converts_them(tmp_path: Path) -> None:
    FRAME.to_stata(tmp_path / "a.dta", write_index=False)
    message = refusal(tmp_path / "a.dta")
    code = message.partition("python -c '")[2].rpartition("'")[0]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
    assert_close(read_predictions(tmp_path / "a.csv").proba, P)
    (tmp_path / "b.rds").write_bytes(b"x")
    assert "Rscript -e 'write.csv(readRDS(" in refusal(tmp_path / "b.rds")


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    monkeypatch.setattr("sys.argv", ["truecal", "evaluate", "-"])
    assert run() == 0
    assert "stdin: 40 samples" in capsys.readouterr().out
