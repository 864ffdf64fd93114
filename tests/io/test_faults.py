"""Wrong files: one line that names the file, what was expected, what came, and where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest
import safetensors.numpy

from prediction_files import LABELS, PROBA, WRITERS, npz, refusal, write
from truecal.io import FileError, read_predictions
from truecal.io.containers import FORMATS


def test_names_of_files(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.npz") == "file not found"
    (tmp_path / "folder.npz").mkdir()
    assert refusal(tmp_path / "folder.npz") == "expected a file, but it is a folder"
    assert "expected a file name that ends in one of .npz," in refusal(write(tmp_path / "a.docx", "x"))
    assert refusal(write(tmp_path / "a.csv", "")) == "the file is empty"
    os.mkfifo(tmp_path / "pipe.csv")
    assert refusal(tmp_path / "pipe.csv") == "expected a file, but it is a pipe or a device"
    with pytest.raises(FileError, match="cannot be opened"):
        read_predictions("a\0b.npz")
    odd = tmp_path / "<script>alert(1)\n.csv"
    assert read_predictions(write(odd, "label,prob\n1,0.5\n")).name == "<script>alert(1)"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,prob\n1,0.5\n")
    path.chmod(0)
    assert refusal(path) == "the file cannot be opened (Permission denied)"


def test_a_file_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.csv", "label,prob\n1,0.5\n")

    def deny(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", deny)
    with pytest.raises(FileError, match=r"a.csv: the file cannot be opened \(Permission denied\)"):
        read_predictions(path)


def test_files_under_a_wrong_name(tmp_path: Path) -> None:
    good: dict[str, bytes] = {}
    for name, writer in WRITERS.items():
        writer(tmp_path / name, PROBA, LABELS, "probs")
        good.setdefault(Path(name).suffix, (tmp_path / name).read_bytes())
    zips = {".npz", ".pt", ".pth"}
    tables = (
        {".parquet", ".pq"},
        {".feather", ".arrow", ".ipc"},
        {".csv", ".tsv", ".txt", ".arff"},
        {".jsonl", ".ndjson", ".jevl"},
    )
    for named in set(FORMATS) - {".eval"}:  # read by a library of its own
        for came, content in good.items():
            same = any({named, came} <= group for group in (zips - {".npz"}, *tables)) or named == came
            if not same:
                assert refusal(write(tmp_path / f"wrong{named}", content))
    message = refusal(write(tmp_path / "wrong.npz", good[".parquet"]))
    assert message == "expected a .npz file, but it starts like a parquet file"


def test_a_header_length_that_looks_like_a_pickle(tmp_path: Path) -> None:
    """A safetensors file begins with the length of its header: 640 reads like the start of a pickle."""
    path = tmp_path / "a.safetensors"
    for length in range(400):
        data = safetensors.numpy.save({"probs": PROBA, "labels": LABELS}, metadata={"note": "x" * length})
        if data.startswith(b"\x80\x02"):
            break
    assert read_predictions(write(path, data)).n == 3


@pytest.mark.parametrize("name", WRITERS)
def test_truncated_files(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name, PROBA, LABELS, "probs")
    content = (tmp_path / name).read_bytes()
    text = name.endswith(("csv", "tsv", "jsonl"))  # cut between two rows, it is a shorter table
    cuts = {1, len(content) // 3 + 3 * name.endswith("jsonl"), len(content) // 2} | (
        set() if text else {len(content) - 1}
    )
    for cut in cuts:
        path = write(tmp_path / f"cut-{name}", content[:cut])
        if name == "stream.ipc" and cut == len(content) - 1:
            continue  # a stream may end without its closing mark
        assert refusal(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", WRITERS)
def test_missing_numbers_are_named_by_row_and_column(tmp_path: Path, name: str, bad: float) -> None:
    proba = PROBA.copy()
    proba[1, 0] = bad
    WRITERS[name](tmp_path / name, proba, LABELS, "probs")
    message = refusal(tmp_path / name)
    assert "row 1" in message and ("nan" in message or "infinite" in message)
    if "lists" not in name and name.endswith(("csv", "tsv", "parquet", "feather", "ipc")) and np.isnan(bad):
        assert message.startswith("expected a number at row 1, column 'prob_0', got nan")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("label,prob_a,prob_b\na,0.5,0.5\nb,0.5,x\n", "expected a number at row 1 (line 3), column 'prob_b', got 'x'"),
        ("label,prob_a,prob_b\na,0.5,0.5\nb,0.5\n", "expected 3 cells at row 1 (line 3), got 2"),
        ("label,prob_a,prob_b\na,0.5,0.5,0\n", "expected 3 cells at row 0 (line 2), got 4"),
        ("label,prob_a,prob_b\na,0.5,0.5\nb,,0.5\n", "expected a value at row 1, column 'prob_a', it is missing"),
        ("label,prob_a,prob_b\n,0.5,0.5\n", "expected a value at row 0, column 'label', it is missing"),
        ("label,prob_a,prob_a\na,0.5,0.5\n", "expected every column name once, 'prob_a' appears 2 times"),
        ("label,p_1,p1\n1,0.5,0.5\n", "expected every class name once, '1' appears 2 times"),
        ("label,prob_a,prob_b\n", "there are no rows below the header"),
        ("label,prob_a,prob_b\na,0.5,0.6\n", "row 0 of the class columns sums to 1.1"),
        ("label,prob_a,prob_b\na,-0.5,1.5\n", "with -0.5 at column 0"),
        ("label,text\na,b\n", "expected predictions: a column called probs or logits"),
        ("label,confidence\na,0.5\n", "expected with 'confidence' a column correct or is_correct, or prediction"),
        ("prediction,confidence\na,0.5\n", "expected a label for each predicted label"),
        ("correct,confidence\n1,1.5\n", "expected confidences in [0, 1] in column 'confidence', row 0 has 1.5"),
        ("correct,confidence\n2,0.5\n", "expected true or false (1 or 0) in column 'correct', but row 0"),
        ("label,prediction,confidence\na,1,0.5\n", "are coded differently: row 0 has 'a' and 1"),
        ("label,probs\n1,\"[0.5, 0.5]\"\n1,\"[0.5]\"\n", "expected 2 values per row as in the first row, row 1"),
        ("label,probs\n1,\"[0.5, true]\"\n", "expected a list of numbers such as [0.1, 0.9] at row 0, column 'probs'"),
        ("label,probs\n1,[]\n", "row 0 of column 'probs' is an empty list"),
    ],
)  # fmt: skip
def test_bad_tables(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(write(tmp_path / "a.csv", text))


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    late = b"label,prob\n" + b"1,0.5\n" * 200_000 + b"\xff,0.5\n"  # beyond what tells the encoding
    assert "expected text in UTF-8" in refusal(write(tmp_path / "a.csv", late))
    assert "it contains NUL bytes" in refusal(write(tmp_path / "b.csv", "label,prob\n1,0.5\n".encode("utf-32")[4:]))
    assert read_predictions(write(tmp_path / "c.csv", "\ufefflabel,prob\n1,0.5\n")).n == 1


def test_typed_columns_of_a_wrong_type(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"label": [0], "prob_a": ["x"], "prob_b": [0.5]}), tmp_path / "a.parquet")
    assert refusal(tmp_path / "a.parquet") == "expected numbers in column 'prob_a', its type is string"
    parquet.write_table(pa.table({"label": [1.5], "prob_a": [0.5], "prob_b": [0.5]}), tmp_path / "b.parquet")
    assert "expected whole numbers or names in column 'label', row 0 has 1.5" in refusal(tmp_path / "b.parquet")
    missing = pa.table({"label": [0, 1], "prob_a": [0.5, None], "prob_b": [0.5, 0.5]})
    parquet.write_table(missing, tmp_path / "c.parquet")
    assert refusal(tmp_path / "c.parquet").startswith("expected a value at row 1, column 'prob_a', it is missing: see")
    twice = pa.Table.from_arrays([pa.array([0])] * 2, names=["label", "label"])
    feather.write_feather(twice, str(tmp_path / "d.feather"))
    assert "expected every column name once, 'label' appears 2 times" in refusal(tmp_path / "d.feather")
    empty = pa.table({"label": pa.array([], pa.int64()), "probs": pa.array([], pa.list_(pa.float32()))})
    parquet.write_table(empty, tmp_path / "e.parquet")
    assert "no rows" in refusal(tmp_path / "e.parquet")


@pytest.mark.parametrize("dtype", [complex, "M8[ns]", "U3", bool])
def test_arrays_of_a_wrong_dtype(tmp_path: Path, dtype: Any) -> None:
    path = npz(tmp_path / "a.npz", probs=np.ones((3, 2)).astype(dtype), labels=LABELS)
    assert refusal(path)


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    assert refusal(npz(tmp_path / "a.npz", probs=np.ones((3, 2, 2)), labels=LABELS))
    assert "expected at least one row" in refusal(npz(tmp_path / "b.npz", probs=np.ones((0, 2))))
    assert refusal(npz(tmp_path / "c.npz", probs=np.float64(1), labels=LABELS))
    np.save(tmp_path / "d.npy", LABELS)
    assert "pass labels with labels=" in refusal(tmp_path / "d.npy")
    assert "expected a .jsonl sample log" in refusal(npz(tmp_path / "e.npz", probs=PROBA), kind="choices")


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on linux")
@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.feather", "stream.ipc", "a.npz"])
def test_names_that_are_no_utf8(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name, PROBA, LABELS, "probs")
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")).with_suffix(Path(name).suffix)
    (tmp_path / name).rename(odd)
    read = read_predictions(odd)
    assert read.n == 3 and read.name.isprintable()


LITTLE_MEMORY = """
import resource, sys
import numpy, pyarrow.csv, pyarrow.parquet, pyarrow.compute
from truecal.io import FileError, read_predictions
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmSize")).split()[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), resource.RLIM_INFINITY))
try:
    read_predictions(sys.argv[1])
except FileError as error:
    print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by the system's own means")
@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_too_little_memory_is_said_with_what_was_needed(tmp_path: Path, name: str) -> None:
    proba = np.full((5_000_000, 2), 0.5, dtype=np.float32)
    np.save(tmp_path / name, proba) if name.endswith("npy") else np.savez(tmp_path / name, probs=proba)
    del proba
    run = subprocess.run([sys.executable, "-c", LITTLE_MEMORY, tmp_path / name], capture_output=True, text=True)
    assert run.stdout.count("\n") == 1, run.stderr
    assert "it needs more memory than there is (Unable to allocate 38.1 MiB" in run.stdout
