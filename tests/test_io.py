"""Prediction files in, results out: round trips, column rules, faults and their one-line errors, atomic writes."""

from __future__ import annotations

import io
import json
import os
import pickle
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from truecal.io import (
    FileError,
    Predictions,
    atomic_path,
    check_same_samples,
    distinct_names,
    read_labels,
    read_predictions,
    write_atomic,
)
from truecal.io.reading import FORMATS

pa = pytest.importorskip("pyarrow")
torch = pytest.importorskip("torch")
safetensors_numpy = pytest.importorskip("safetensors.numpy")
import pyarrow.csv as arrow_csv  # noqa: E402  # after importorskip
import pyarrow.feather as feather  # noqa: E402  # after importorskip
import pyarrow.parquet as parquet  # noqa: E402  # after importorskip

Array = np.ndarray[Any, Any]

PROBA = np.array([[0.25, 0.75], [0.5, 0.5], [0.125, 0.875]])
LABELS = np.array([1, 0, 1])


def refusal(path: Path, **options: Any) -> str:
    """What the FileError says after the path; also that it names the path and is one line."""
    with pytest.raises(FileError) as caught:
        read_predictions(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message.removeprefix(f"{path}: ")


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def table(proba: Array, labels: Array, prefix: str = "prob_") -> pa.Table:
    return pa.table({"label": labels, **{f"{prefix}{j}": proba[:, j] for j in range(proba.shape[1])}})


# ---------------------------------------------------------------- round trips


def write_npz(path: Path, proba: Array, labels: Array, key: str) -> None:
    np.savez(path, **{key: proba, "labels": labels})


def write_wide(save: Callable[[pa.Table, Path], None]) -> Callable[[Path, Array, Array, str], None]:
    return lambda path, proba, labels, key: save(
        table(proba, labels, {"probs": "prob_", "logits": "logit_"}[key]), path
    )


def save_stream(of: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, of.schema) as writer:
        writer.write_table(of, max_chunksize=2)


def write_lists(save: Callable[[pa.Table, Path], None]) -> Callable[[Path, Array, Array, str], None]:
    def writer(path: Path, proba: Array, labels: Array, key: str) -> None:
        flat = pa.array(proba.ravel())
        vectors = pa.FixedSizeListArray.from_arrays(flat, proba.shape[1])
        save(pa.table({"label": labels, key: vectors}), path)

    return writer


def write_torch(path: Path, proba: Array, labels: Array, key: str) -> None:
    torch.save({key: torch.from_numpy(proba.copy()), "labels": torch.from_numpy(labels.copy())}, path)


def save_parquet(of: pa.Table, path: Path) -> None:
    parquet.write_table(of, path, row_group_size=2)


def save_feather(of: pa.Table, path: Path) -> None:
    feather.write_feather(of, str(path), chunksize=2)


def save_tsv(of: pa.Table, path: Path) -> None:
    arrow_csv.write_csv(of, path, arrow_csv.WriteOptions(delimiter="\t"))


WRITERS: dict[str, Callable[[Path, Array, Array, str], None]] = {
    "a.npz": write_npz,
    "packed.npz": lambda path, proba, labels, key: np.savez_compressed(path, **{key: proba, "labels": labels}),
    "a.csv": write_wide(lambda of, path: arrow_csv.write_csv(of, path)),
    "a.tsv": write_wide(save_tsv),
    "a.parquet": write_wide(save_parquet),
    "lists.pq": write_lists(save_parquet),
    "a.feather": write_wide(save_feather),
    "lists.arrow": write_lists(save_feather),
    "stream.ipc": write_wide(save_stream),
    "a.pt": write_torch,
    "a.pth": write_torch,
    "a.safetensors": lambda path, proba, labels, key: safetensors_numpy.save_file(
        {key: np.ascontiguousarray(proba), "labels": labels}, path
    ),
}


def test_no_format_is_forgotten() -> None:
    elsewhere = {".npy", ".jsonl", ".ndjson"}  # arrays without names, and sample logs: tested below
    assert {Path(name).suffix for name in WRITERS} | elsewhere == set(FORMATS)


@st.composite
def labelled(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """Logits in float32 or float64, their softmax in the same precision, and labels."""
    n, k = draw(st.integers(1, 7)), draw(st.integers(2, 5))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    width = 32 if dtype == np.float32 else 64
    logits = draw(hnp.arrays(dtype, (n, k), elements=st.floats(-30, 30, width=width)))
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return logits, exp / exp.sum(axis=1, keepdims=True), draw(hnp.arrays(np.int64, n, elements=st.integers(0, k - 1)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_is_read(folder: Path, name: str) -> None:
    @settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(data=labelled(), key=st.sampled_from(["probs", "logits"]))
    def run(data: tuple[Array, Array, Array], key: str) -> None:
        logits, proba, labels = data
        sent = proba if key == "probs" else logits
        WRITERS[name](folder / name, sent, labels, key)
        read = read_predictions(folder / name)
        got = read.proba if key == "probs" else read.logits
        assert read.kind == ("probabilities" if key == "probs" else "logits")
        assert got is not None and read.y_true is not None
        assert got.dtype == (np.float64 if name.endswith(("csv", "tsv")) else sent.dtype)
        assert np.array_equal(got.astype(sent.dtype), sent)  # text spells floats so that they come back exactly
        assert np.array_equal(read.y_true, labels) and read.y_true.dtype == np.intp
        assert read.name == Path(name).stem
        assert np.allclose(read.probabilities(), proba, atol=1e-6)

    run()


@settings(max_examples=25, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=labelled(), fortran=st.booleans())
def test_arrays_without_names_round_trip(folder: Path, data: tuple[Array, Array, Array], fortran: bool) -> None:
    logits, proba, labels = data
    np.save(folder / "p.npy", np.asfortranarray(proba) if fortran else proba)
    np.save(folder / "z.npy", logits)
    np.save(folder / "y.npy", labels)
    read = read_predictions(folder / "p.npy", labels=folder / "y.npy")
    assert np.array_equal(read.probabilities(), proba) and np.array_equal(read.y_true, labels)
    assert np.array_equal(read_predictions(folder / "z.npy", logits=True, labels=labels).logits, logits)


@settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.lists(st.floats(-60, 0), min_size=2, max_size=5), min_size=1, max_size=6),
    style=st.sampled_from(["filtered", "nested", "numbers", "both"]),
    picks=st.lists(st.integers(0, 100), min_size=6, max_size=6),
)
def test_sample_logs_round_trip(folder: Path, rows: list[list[float]], style: str, picks: list[int]) -> None:
    answers = [pick % len(row) for pick, row in zip(picks, rows, strict=False)]
    lines = []
    for i, (row, answer) in reversed(list(enumerate(zip(rows, answers, strict=True)))):
        record: dict[str, Any] = {"doc_id": i, "doc": {}, "target": str(answer)}
        if style in ("filtered", "both"):
            record["filtered_resps"] = [[str(v), "False"] for v in row]
        if style in ("nested", "both"):
            record["resps"] = [[[str(v), "False"]] for v in row]
        if style == "numbers":
            record["filtered_resps"] = [[v, False] for v in row]
        lines.append(json.dumps(record))
    read = read_predictions(write(folder / "s.jsonl", "\n".join(lines)))
    assert read.kind == "choices" and read.proba is not None and read.n_choices is not None and read.ids is not None
    assert read.y_true is not None and read.y_true.tolist() == answers  # in the order of doc_id, not of lines
    assert read.ids.tolist() == list(range(len(rows)))
    assert read.n_choices.tolist() == [len(row) for row in rows]
    for i, row in enumerate(rows):
        exp = np.exp(np.array(row) - max(row))
        assert np.allclose(read.proba[i, : len(row)], exp / exp.sum())
        assert not read.proba[i, len(row) :].any()
    ragged = len({len(row) for row in rows}) > 1
    assert read.supports == (("confidence",) if ragged else ("confidence", "classwise", "full"))
    assert any("do not apply" in note for note in read.notes) == ragged


def test_top_label_files_round_trip(tmp_path: Path) -> None:
    names = np.array(["cat", "dog", "cat"])
    guesses = np.array(["cat", "cat", "cat"])
    confidence = np.array([0.5, 0.75, 1.0], dtype=np.float32)
    columns = {"label": names, "prediction": guesses, "confidence": confidence}
    np.savez(tmp_path / "a.npz", **columns)
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    arrow_csv.write_csv(pa.table(columns), tmp_path / "a.csv")
    hits = pa.table({"correct": [True, False, True], "confidence": confidence})
    parquet.write_table(hits, tmp_path / "hits.parquet")
    arrow_csv.write_csv(hits, tmp_path / "hits.csv")
    for name in ("a.npz", "a.parquet", "a.csv", "hits.parquet", "hits.csv"):
        read = read_predictions(tmp_path / name)
        assert read.kind == "top_label" and read.supports == ("confidence",)
        assert read.correct is not None and read.correct.tolist() == [True, False, True]
        assert read.confidence is not None and read.confidence.tolist() == [0.5, 0.75, 1.0]
        assert read.y_true is None and read.n == 3 and read.n_classes is None
        assert any("only confidence errors apply" in note for note in read.notes)
        with pytest.raises(FileError, match=r"expected probabilities of all classes"):
            read.probabilities()


# ---------------------------------------------------------------- which columns, and what they are


@pytest.mark.parametrize(
    ("header", "row", "kind", "classes", "rule"),
    [
        ("label,prob_a,prob_b", "b,0.25,0.75", "probabilities", ("a", "b"), "by the prefix 'prob'"),
        ("Target,P_a,p_b", "b,0.25,0.75", "probabilities", ("a", "b"), "by the prefix 'p'"),
        ("y_true,proba_0,proba_1", "1,0.25,0.75", "probabilities", ("0", "1"), "by the prefix 'proba'"),
        ("label,p1,p2", "2,0.25,0.75", "probabilities", ("1", "2"), "by the prefix 'p'"),
        ("label,logit_a,logit_b,confidence", "b,-3,4,0.9", "logits", ("a", "b"), "by the prefix 'logit'"),
        ("label,log_prob_a,log_prob_b", "b,-3,-4", "logits", ("a", "b"), "by the prefix 'log_prob'"),
        ("id,label,a,b", "7,b,0.25,0.75", "probabilities", ("a", "b"), "one per class"),
        ("y,a,p", "p,0.25,0.75", "probabilities", ("a", "p"), "one per class"),
        ("label,x,y", "y,0.25,0.75", "probabilities", ("x", "y"), "one per class"),
        ("label,prob,age", "1,0.75,31", "probabilities", None, "of class 1"),
        ("y,p", "1,0.75", "probabilities", None, "of class 1"),
        ("label,prob_1", "1,0.75", "probabilities", None, "of class 1"),
        (",label,prob_a,prob_b,p_value", "0,b,0.25,0.75,3", "probabilities", ("a", "b"), "by the prefix 'prob'"),
    ],
)
def test_columns_are_found_by_their_names(
    tmp_path: Path, header: str, row: str, kind: str, classes: tuple[str, ...] | None, rule: str
) -> None:
    read = read_predictions(write(tmp_path / "a.csv", f"{header}\n{row}\n"))
    assert (read.kind, read.classes) == (kind, classes)
    assert rule in read.notes[0]
    assert read.y_true is not None and read.y_true.tolist() == [1]
    if kind == "probabilities":
        assert read.probabilities().tolist() == [[0.25, 0.75]]


def test_columns_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "truth,target,u,v,prob_a,prob_b\n0,1,0.5,0.5,0.25,0.75\n")
    assert "found 'truth', 'target': name one with label_column" in refusal(path)
    read = read_predictions(path, label_column="target", proba_columns=["u", "v"])
    assert read.classes == ("u", "v") and read.probabilities().tolist() == [[0.5, 0.5]]
    assert "expected a column named 'w', found 'truth'" in refusal(
        path, label_column="target", proba_columns=["u", "w"]
    )
    assert "expected every proba_columns name once" in refusal(path, label_column="target", proba_columns=["u", "u"])


def test_logits_and_probabilities_are_never_guessed(tmp_path: Path) -> None:
    both = tmp_path / "both.npz"
    np.savez(both, probs=PROBA, logits=np.log(PROBA), labels=LABELS)
    assert "found both ('probs', 'logits'): say logits=True (--logits)" in refusal(both)
    assert read_predictions(both, logits=True).kind == "logits"
    assert read_predictions(both, kind="probabilities").kind == "probabilities"
    named = tmp_path / "named.npz"
    np.savez(named, probs=PROBA, labels=LABELS)
    assert "expected logits as logits=True (--logits) says, the name of key 'probs' says probabilities" in refusal(
        named, logits=True
    )
    wide = write(tmp_path / "wide.csv", "label,prob_a,prob_b\na,0.5,0.5\n")
    assert "the column prefix 'prob' says probabilities" in refusal(wide, logits=True)
    silent = write(tmp_path / "silent.csv", "label,a,b\na,2.5,-1\n")
    assert "if they are logits, say logits=True" in refusal(silent)
    assert read_predictions(silent, logits=True).kind == "logits"
    with pytest.raises(ValueError, match="contradict each other"):
        read_predictions(named, logits=True, kind="probabilities")
    with pytest.raises(ValueError, match=r"kind: expected one of .*, got 'probs'"):
        read_predictions(named, kind="probs")


def test_two_families_of_columns_need_a_word(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,prob_a,prob_b,logit_a,logit_b\na,0.5,0.5,1,1\n")
    assert "expected one family of prediction columns" in refusal(path)
    assert read_predictions(path, logits=True).logits is not None
    assert read_predictions(path, kind="probabilities").proba is not None


def test_arrays_without_telling_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", PROBA, LABELS)
    read = read_predictions(tmp_path / "a.npz")
    assert read.y_true is not None and read.y_true.tolist() == LABELS.tolist()
    assert "the only one with a vector per row" in read.notes[0]
    assert "the only array with one whole number per row" in read.notes[1]
    np.savez(tmp_path / "b.npz", features=np.ones((3, 4)), scores=PROBA, labels=LABELS)
    assert "expected one key of predictions, found 'features', 'scores'" in refusal(tmp_path / "b.npz")
    assert read_predictions(tmp_path / "b.npz", proba_columns="scores").n_classes == 2


def test_one_number_per_row_is_class_one(tmp_path: Path) -> None:
    np.savez(tmp_path / "p.npz", probs=PROBA[:, 1], labels=LABELS.astype(bool))
    np.savez(tmp_path / "z.npz", logits=np.array([0.0, 2.0, -1.0]), labels=LABELS)
    read = read_predictions(tmp_path / "p.npz")
    assert read.probabilities().tolist() == PROBA.tolist()
    assert read.y_true is not None and read.y_true.tolist() == LABELS.tolist()
    sigmoid = 1 / (1 + np.exp(-np.array([0.0, 2.0, -1.0])))
    assert np.allclose(read_predictions(tmp_path / "z.npz").probabilities()[:, 1], sigmoid)


def test_half_precision_stays(tmp_path: Path) -> None:
    half = torch.tensor(PROBA, dtype=torch.bfloat16)
    torch.save({"probs": half, "labels": torch.tensor(LABELS)}, tmp_path / "a.pt")
    np.savez(tmp_path / "a.npz", probs=PROBA.astype(np.float16), labels=LABELS)
    parquet.write_table(table(PROBA.astype(np.float16), LABELS), tmp_path / "a.parquet")
    for name, dtype in (("a.pt", np.float32), ("a.npz", np.float16), ("a.parquet", np.float16)):
        read = read_predictions(tmp_path / name)
        assert read.probabilities().dtype == dtype and np.array_equal(read.probabilities(), PROBA)


# ---------------------------------------------------------------- labels


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_labels_are_names_or_indices(tmp_path: Path) -> None:
    def labels(header: str, *rows: str) -> list[int]:
        read = read_predictions(write(tmp_path / "a.csv", "\n".join([header, *rows])))
        assert read.y_true is not None
        return list(read.y_true)

    assert labels("label,prob_b,prob_a", "a,0.5,0.5", "b,0.5,0.5") == [1, 0]  # by name, in column order
    assert labels("label,prob_b,prob_a", "0,0.5,0.5", "1,0.5,0.5") == [0, 1]  # by index
    assert labels("label,prob_1,prob_2", "1,0.5,0.5", "2,0.5,0.5") == [0, 1]  # numbered classes: by name
    assert labels("label,prob_1,prob_0", "1,0.5,0.5", "0,0.5,0.5") == [1, 0]  # columns 0 and 1, in this order
    assert labels("label,prob_01,prob_02", "02,0.5,0.5", "01,0.5,0.5") == [1, 0]
    assert labels("label,prob_True,prob_False", "True,0.5,0.5", "False,0.5,0.5") == [0, 1]
    assert labels("label,prob_a,prob_b", "1.0,0.5,0.5", "0.0,0.5,0.5") == [1, 0]
    assert labels("label, prob_a, prob_b", " b, 0.5, 0.5", "a , 0.5, 0.5") == [1, 0]
    assert labels("label,prob_NA,prob_null", "null,0.5,0.5", "NA,0.5,0.5") == [1, 0]


def test_names_in_arrays(tmp_path: Path) -> None:
    named = npz(tmp_path / "a.npz", probs=PROBA, labels=np.array(["b", "a", "b"]), classes=np.array(["a", "b"]))
    read = read_predictions(named)
    assert read.classes == ("a", "b") and read.y_true is not None and read.y_true.tolist() == [1, 0, 1]
    torch.save({"probs": torch.tensor(PROBA), "labels": torch.tensor(LABELS), "classes": ["a", "b"]}, tmp_path / "a.pt")
    assert read_predictions(tmp_path / "a.pt").classes == ("a", "b")
    categories = pa.table(
        {"label": pa.array(["b", "a"]).dictionary_encode(), "prob_a": [0.5, 1.0], "prob_b": [0.5, 0.0]}
    )
    parquet.write_table(categories, tmp_path / "a.parquet")
    got = read_predictions(tmp_path / "a.parquet").y_true
    assert got is not None and got.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.array([1, 2, 2]), "expected class indices 0 to 1 in key 'labels', it counts from 1"),
        (np.array([0, 1, 5]), "must be a column index in 0..1, got 5 at row 2"),
        (np.array([0, 1, -1]), "got -1 at row 2"),
        (np.array([0.0, 1.0, 0.5]), "expected whole numbers or names in key 'labels', row 2 has 0.5"),
        (np.array([0.0, np.nan, 1.0]), "row 1 has nan"),
        (np.array(["a", "b", "a"]), "the columns have no names"),
        (np.array([0, 1]), "expected a label for each of 3 rows, key 'labels' has 2"),
        (
            np.array([[0, 1], [1, 0], [0, 1]]),
            "expected one label per row in key 'labels', got an array of shape (3, 2)",
        ),
        (np.array([0, 1, 1], dtype=complex), "got dtype complex128"),
    ],
)
def test_bad_labels(tmp_path: Path, labels: Array, message: str) -> None:
    assert message in refusal(npz(tmp_path / "a.npz", probs=PROBA, labels=labels))


def test_unknown_names_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,prob_a,prob_b\na,0.5,0.5\nc,0.5,0.5\n")
    assert refusal(path) == "expected labels of column 'label' among the classes 'a', 'b', row 1 has 'c'"
    path = write(tmp_path / "b.csv", "label,prob_1,prob_2\n1,0.5,0.5\n0,0.5,0.5\n")
    assert "has 0 at row 1, which is not in labels (the class columns are '1', '2')" in refusal(path)
    path = npz(tmp_path / "c.npz", probs=PROBA, labels=LABELS, classes=np.array(["a", "b", "c"]))
    assert "expected 2 class names, one per column, got 3" in refusal(path)
    path = npz(tmp_path / "d.npz", probs=PROBA, labels=LABELS, classes=np.array(["a", "a"]))
    assert "expected every class name once, 'a' appears 2 times" in refusal(path)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv", ".parquet", ".feather", ".pt", ".safetensors"])
def test_labels_from_a_file_of_their_own(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"y{suffix}"
    {
        ".npy": lambda: np.save(path, LABELS),
        ".npz": lambda: np.savez(path, anything=LABELS),
        ".csv": lambda: write(path, "animal\n1\n0\n1\n"),
        ".parquet": lambda: parquet.write_table(pa.table({"animal": LABELS}), path),
        ".feather": lambda: feather.write_feather(pa.table({"animal": LABELS, "label": LABELS}), str(path)),
        ".pt": lambda: torch.save(torch.tensor(LABELS), path),
        ".safetensors": lambda: safetensors_numpy.save_file({"labels": LABELS}, path),
    }[suffix]()
    np.savez(tmp_path / "p.npz", probs=PROBA)
    assert read_predictions(tmp_path / "p.npz").y_true is None
    read = read_predictions(tmp_path / "p.npz", labels=path)
    assert read.y_true is not None and read.y_true.tolist() == LABELS.tolist()
    assert f"labels from {path}" in read.notes
    assert read_labels(path).tolist() == LABELS.tolist()


def test_given_labels_meet_the_files_own(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", probs=PROBA, labels=LABELS)
    assert read_predictions(path, labels=LABELS).y_true is not None
    assert "expected the same labels in key 'labels' and in labels, row 1 has 0 and 1" in refusal(
        path, labels=[1, 1, 1]
    )
    assert "expected a label for each of 3 rows, labels has 2" in refusal(path, labels=[1, 0])
    two = write(tmp_path / "y.csv", "animal,colour\ncat,red\ndog,red\ncat,red\n")
    named = npz(tmp_path / "n.npz", probs=PROBA, classes=np.array(["dog", "cat"]))
    read = read_predictions(named, labels=two, label_column="animal")
    assert read.y_true is not None and read.y_true.tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="expected labels as a path"):
        read_predictions(named, labels=[1, 0, 1], label_column="animal")
    top = write(tmp_path / "top.csv", "label,prediction,confidence\n1,1,0.5\n0,1,0.5\n")
    assert "expected the same labels in column 'label' and in labels, row 1 has '0' and 1" in refusal(
        top, labels=[1, 1]
    )


# ---------------------------------------------------------------- sample logs


def log(path: Path, *records: dict[str, Any]) -> Path:
    return write(path, "\n".join(json.dumps(record) for record in records))


def sample(doc_id: int, target: object, scores: list[float], **more: Any) -> dict[str, Any]:
    return {"doc_id": doc_id, "target": target, "filtered_resps": [[str(v), "False"] for v in scores], **more}


def arguments(*texts: str) -> dict[str, Any]:
    return {f"gen_args_{i}": {"arg_0": "Question", "arg_1": text} for i, text in enumerate(texts)}


def answers(path: Path, **options: Any) -> list[int]:
    read = read_predictions(path, **options)
    assert read.y_true is not None
    return list(read.y_true)


def test_targets_as_texts_of_choices(tmp_path: Path) -> None:
    path = log(
        tmp_path / "a.jsonl",
        sample(0, "no", [-1, -2], arguments=arguments(" yes", " no")),
        sample(1, "yes", [-1, -2], arguments=[["Question", " yes"], ["Question", " no"]]),
    )
    assert answers(path) == [1, 0]


def test_acc_decides_between_index_and_text(tmp_path: Path) -> None:
    """Choices that are numbers: '1' may be the second choice, or the choice that reads 1."""
    choices = arguments(" 1", " 0")
    unclear = log(tmp_path / "a.jsonl", sample(0, "1", [-1, -2], arguments=choices))
    assert "it fits as index and as text of a choice" in refusal(unclear)
    assert answers(log(tmp_path / "b.jsonl", sample(0, "1", [-1, -2], arguments=choices, acc=1.0))) == [0]
    assert answers(log(tmp_path / "c.jsonl", sample(0, "1", [-1, -2], arguments=choices, acc=0.0))) == [1]


def test_target_that_contradicts_acc(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", sample(0, 0, [-1, -2], acc=1.0), sample(1, 1, [-1, -2], acc=1.0))
    assert "expected 'target' to agree with 'acc' of the log, line 2 has target 1 and acc 1" in refusal(path)
    assert answers(path, label_column="target") == [0, 1]
    assert answers(path, labels=[1, 1]) == [1, 1]


def test_two_choices_with_a_shared_target(tmp_path: Path) -> None:
    """A task that varies the prompt: the target is the continuation both choices share, acc tells the answer."""
    shared = [["He", " ran"], ["She", " ran"]]
    path = log(
        tmp_path / "a.jsonl",
        sample(0, "ran", [-1, -2], arguments=shared, acc=1.0),
        sample(1, "ran", [-1, -2], arguments=shared, acc=0.0),
        sample(2, "ran", [-2, -1], arguments=shared, acc=1.0),
    )
    assert answers(path) == [0, 1, 1]


def test_unconditional_requests_are_left_out(tmp_path: Path) -> None:
    interleaved = [["Q", " a"], ["", " a"], ["Q", " b"], ["", " b"]]
    appended = [["Q", " a"], ["Q", " b"], ["", " a"], ["", " b"]]
    for prompts, scores in ((interleaved, [-1, -9, -2, -9]), (appended, [-1, -2, -9, -9])):
        path = log(tmp_path / "a.jsonl", sample(0, 1, scores, arguments=prompts, acc_mutual_info=0.0))
        read = read_predictions(path)
        assert read.logits is not None and read.logits.tolist() == [[-1, -2]]
    bare = log(tmp_path / "b.jsonl", sample(0, 1, [-1, -2, -9, -9], acc_mutual_info=0.0))
    assert "expected the prompts of 2 requests per choice (acc_mutual_info) on line 1" in refusal(bare)


def test_filters_repeat_documents(tmp_path: Path) -> None:
    first, second = sample(0, 0, [-1, -2], filter="none"), sample(0, 0, [-5, -2], filter="other")
    read = read_predictions(log(tmp_path / "a.jsonl", first, second))
    assert read.n == 1 and read.logits is not None and read.logits.tolist() == [[-1, -2]]
    assert "only the lines with filter 'none' were used" in read.notes
    assert "expected every doc_id once, 0 is on lines 1 and 2" in refusal(log(tmp_path / "b.jsonl", first, first))


def test_labels_of_a_document_key(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", sample(0, "?", [-1, -2, -3], doc={"gold": 2}))
    assert "got '?': name the key with label_column (--label-column), or give labels" in refusal(path)
    assert answers(path, label_column="doc.gold") == [2]
    assert "expected the key 'doc.answer' on line 1" in refusal(path, label_column="doc.answer")
    assert "expected an index below 3 at row 0" in refusal(
        log(tmp_path / "b.jsonl", sample(0, 0, [-1, -2, -3]), sample(1, 0, [-1] * 5)), labels=[3, 4]
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "expected a JSON object on line 1, it cannot be read"),
        ("[1]", "expected a JSON object on line 1, got [1]"),
        (
            '{"doc_id": 0, "resps": [["text"]]}',
            "expected two or more choices (a multiple-choice task) on line 1, got 1",
        ),
        ('{"doc_id": 0, "resps": [["text"], ["b"]]}', "expected a log-likelihood on line 1, choice 0, got ['text']"),
        ('{"doc_id": 0, "resps": [[NaN, false], [-1, false]]}', "expected a log-likelihood on line 1, choice 0"),
        ('{"doc_id": 0, "resps": [[[-1, 1], [-2, 1]], [[-1, 1]]]}', "expected one response per choice on line 1"),
        ('{"doc_id": "a", "resps": [[-1, 1], [-2, 1]]}', "expected a whole number as doc_id on line 1, got 'a'"),
        ('{"doc_id": 0, "resps": [[-Infinity, 1], [-Infinity, 1]]}', "every choice has -inf"),
        ('{"prediction": 1}', "expected the key 'filtered_resps' on line 1, found 'prediction'"),
    ],
)
def test_bad_sample_logs(tmp_path: Path, line: str, message: str) -> None:
    assert message in refusal(write(tmp_path / "a.jsonl", line))


# ---------------------------------------------------------------- faults


def test_names_of_files(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.npz") == "expected a file, there is none"
    (tmp_path / "folder.npz").mkdir()
    assert refusal(tmp_path / "folder.npz") == "expected a file, it is a folder"
    assert "expected a file name that ends in one of .npz," in refusal(write(tmp_path / "a.xlsx", "x"))
    assert refusal(write(tmp_path / "a.csv", "")) == "expected a file with content, it is empty"
    os.mkfifo(tmp_path / "pipe.csv")
    assert refusal(tmp_path / "pipe.csv") == "expected a file, it is a pipe or a device"
    with pytest.raises(FileError, match="cannot be opened"):
        read_predictions("a\0b.npz")
    odd = tmp_path / "<script>alert(1)\n.csv"
    assert read_predictions(write(odd, "label,prob\n1,0.5\n")).name == "<script>alert(1)"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="permissions do not bind this user")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,prob\n1,0.5\n")
    path.chmod(0)
    assert refusal(path) == "expected a file, it cannot be opened (Permission denied)"


def test_a_file_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.csv", "label,prob\n1,0.5\n")

    def deny(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", deny)
    with pytest.raises(FileError, match=r"a.csv: expected a file, it cannot be opened \(Permission denied\)"):
        read_predictions(path)


def test_files_under_a_wrong_name(tmp_path: Path) -> None:
    good: dict[str, bytes] = {}
    for name, writer in WRITERS.items():
        writer(tmp_path / name, PROBA, LABELS, "probs")
        good.setdefault(Path(name).suffix, (tmp_path / name).read_bytes())
    zips = {".npz", ".pt", ".pth"}
    tables = {".parquet", ".pq"}, {".feather", ".arrow", ".ipc"}, {".csv", ".tsv"}
    for named in FORMATS:
        for came, content in good.items():
            same = any({named, came} <= group for group in (zips - {".npz"}, *tables)) or named == came
            if not same:
                assert "expected" in refusal(write(tmp_path / f"wrong{named}", content))
    message = refusal(write(tmp_path / "wrong.npz", good[".parquet"]))
    assert message == "expected a .npz file, it starts like a parquet file"


def test_a_header_length_that_looks_like_a_pickle(tmp_path: Path) -> None:
    """A safetensors file begins with the length of its header: 640 reads like the start of a pickle."""
    path = tmp_path / "a.safetensors"
    for length in range(400):
        data = safetensors_numpy.save({"probs": PROBA, "labels": LABELS}, metadata={"note": "x" * length})
        if data.startswith(b"\x80\x02"):
            break
    assert read_predictions(write(path, data)).n == 3


@pytest.mark.parametrize("name", WRITERS)
def test_truncated_files(tmp_path: Path, name: str) -> None:
    WRITERS[name](tmp_path / name, PROBA, LABELS, "probs")
    content = (tmp_path / name).read_bytes()
    text = name.endswith(("csv", "tsv"))
    cuts = {1, len(content) // 3, len(content) // 2} | (set() if text else {len(content) - 1})
    for cut in cuts:
        path = write(tmp_path / f"cut-{name}", content[:cut])
        if name == "stream.ipc" and cut == len(content) - 1:
            continue  # a stream may end without its closing mark
        assert "expected" in refusal(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("name", WRITERS)
def test_missing_numbers_are_named_by_row_and_column(tmp_path: Path, name: str, bad: float) -> None:
    proba = PROBA.copy()
    proba[1, 0] = bad
    WRITERS[name](tmp_path / name, proba, LABELS, "probs")
    message = refusal(tmp_path / name)
    assert "row 1" in message and ("nan" in message or "infinite" in message)
    if "lists" not in name and name.endswith(("csv", "tsv", "parquet", "feather", "ipc")) and np.isnan(bad):
        assert message == "expected a number at row 1, column 'prob_0', got nan"


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
        ("label,prob_a,prob_b\n", "expected rows below the header, there are none"),
        ("label,prob_a,prob_b\na,0.5,0.6\n", "row 0 sums to 1.1"),
        ("label,prob_a,prob_b\na,-0.5,1.5\n", "has -0.5 at column 0"),
        ("label,text\na,b\n", "expected predictions: a column called probs or logits"),
        ("label,confidence\na,0.5\n", "expected beside 'confidence' a column correct or is_correct, or prediction"),
        ("prediction,confidence\na,0.5\n", "expected a label beside each predicted label"),
        ("correct,confidence\n1,1.5\n", "expected confidences in [0, 1] in column 'confidence', row 0 has 1.5"),
        ("correct,confidence\n2,0.5\n", "expected true or false (1 or 0) in column 'correct', row 0"),
        ("label,prediction,confidence\na,1,0.5\n", "in the same coding, row 0 has 'a' and 1"),
        ("label,probs\n1,\"[0.5, 0.5]\"\n1,\"[0.5]\"\n", "expected 2 values per row as in the first row, row 1"),
        ("label,probs\n1,\"[0.5 0.5]\"\n", "expected a list of numbers such as [0.1, 0.9] at row 0, column 'probs'"),
        ("label,probs\n1,\"[0.5, true]\"\n", "expected a list of numbers such as [0.1, 0.9] at row 0, column 'probs'"),
        ("label,probs\n1,[]\n", "expected values in column 'probs', row 0 is an empty list"),
    ],
)  # fmt: skip
def test_bad_tables(tmp_path: Path, text: str, message: str) -> None:
    assert message in refusal(write(tmp_path / "a.csv", text))


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    assert "expected text in UTF-8" in refusal(write(tmp_path / "a.csv", b"label,prob\n\xff,0.5\n"))
    assert "it holds zero bytes" in refusal(write(tmp_path / "b.csv", "label,prob\n1,0.5\n".encode("utf-16")))
    assert read_predictions(write(tmp_path / "c.csv", "\ufefflabel,prob\n1,0.5\n")).n == 1


def test_typed_columns_of_a_wrong_type(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"label": [0], "prob_a": ["x"], "prob_b": [0.5]}), tmp_path / "a.parquet")
    assert refusal(tmp_path / "a.parquet") == "expected numbers in column 'prob_a', its type is string"
    parquet.write_table(pa.table({"label": [0.5], "prob_a": [0.5], "prob_b": [0.5]}), tmp_path / "b.parquet")
    assert "expected whole numbers or names in column 'label', row 0 has 0.5" in refusal(tmp_path / "b.parquet")
    missing = pa.table({"label": [0, 1], "prob_a": [0.5, None], "prob_b": [0.5, 0.5]})
    parquet.write_table(missing, tmp_path / "c.parquet")
    assert refusal(tmp_path / "c.parquet") == "expected a value at row 1, column 'prob_a', it is missing"
    twice = pa.Table.from_arrays([pa.array([0])] * 2, names=["label", "label"])
    feather.write_feather(twice, str(tmp_path / "d.feather"))
    assert "expected every column name once, 'label' appears 2 times" in refusal(tmp_path / "d.feather")
    empty = pa.table({"label": pa.array([], pa.int64()), "probs": pa.array([], pa.list_(pa.float32()))})
    parquet.write_table(empty, tmp_path / "e.parquet")
    assert "expected at least one row" in refusal(tmp_path / "e.parquet")


@pytest.mark.parametrize("dtype", [complex, "M8[ns]", "U3", bool])
def test_arrays_of_a_wrong_dtype(tmp_path: Path, dtype: Any) -> None:
    path = npz(tmp_path / "a.npz", probs=np.ones((3, 2)).astype(dtype), labels=LABELS)
    assert "expected" in refusal(path)


def test_shapes_that_do_not_fit(tmp_path: Path) -> None:
    assert "expected" in refusal(npz(tmp_path / "a.npz", probs=np.ones((3, 2, 2)), labels=LABELS))
    assert "expected at least one row" in refusal(npz(tmp_path / "b.npz", probs=np.ones((0, 2))))
    assert "expected" in refusal(npz(tmp_path / "c.npz", probs=np.float64(1), labels=LABELS))
    np.save(tmp_path / "d.npy", LABELS)
    assert "labels go to labels=" in refusal(tmp_path / "d.npy")
    assert "expected a .jsonl sample log" in refusal(npz(tmp_path / "e.npz", probs=PROBA), kind="choices")


# ---------------------------------------------------------------- files that mean harm


class Trap:
    """Unpickling it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (str(self.mark),))


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    trap = np.array([Trap(mark)] * 3, dtype=object)
    np.savez(tmp_path / "a.npz", probs=PROBA, labels=trap)
    np.save(tmp_path / "a.npy", trap, allow_pickle=True)
    torch.save({"probs": torch.tensor(PROBA), "labels": Trap(mark)}, tmp_path / "a.pt")
    torch.save(
        {"probs": torch.tensor(PROBA), "labels": Trap(mark)}, tmp_path / "b.pth", _use_new_zipfile_serialization=False
    )
    write(tmp_path / "c.npy", pickle.dumps(Trap(mark)))
    write(tmp_path / "c.pt", pickle.dumps(Trap(mark)))
    assert "pickled objects, which are never loaded" in refusal(tmp_path / "a.npz")
    assert "pickled objects, which are never loaded" in refusal(tmp_path / "a.npy")
    assert "pickled code, which is never run" in refusal(tmp_path / "a.pt")
    for name in ("b.pth", "c.npy", "c.pt"):
        assert "it starts like a pickle, which is never loaded" in refusal(tmp_path / name)
    assert not mark.exists()
    with pytest.raises(ValueError, match="pickle"):  # the trap is real: numpy would have to be allowed to spring it
        np.load(tmp_path / "a.npz")["labels"]
    np.load(tmp_path / "a.npz", allow_pickle=True)["labels"]
    assert mark.exists()


def npy_header(shape: str, descr: str = "<f4", padding: int = 0) -> bytes:
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode() + b" " * padding + b"\n"
    return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header


def archive(path: Path, content: bytes, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr("probs.npy", content)
    return path


def test_headers_that_declare_too_much(tmp_path: Path) -> None:
    huge = npy_header("(1000000000000, 1000)")
    assert "expected 4000000000000000 bytes of data" in refusal(write(tmp_path / "a.npy", huge))
    assert "expected 4000000000000000 bytes of data" in refusal(archive(tmp_path / "a.npz", huge))
    long = npy_header("(1, 2)", padding=10**6)
    assert "expected a numpy array, it cannot be read" in refusal(write(tmp_path / "b.npy", long))
    deep = b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000
    assert "expected a numpy array, it cannot be read" in refusal(write(tmp_path / "c.npy", deep))
    assert "packed in another way" in refusal(archive(tmp_path / "d.npz", huge, zipfile.ZIP_LZMA))
    assert "expected a safetensors header within the file" in refusal(
        write(tmp_path / "a.safetensors", (10**15).to_bytes(8, "little") + b"{}")
    )


def test_an_archive_that_grows_a_thousandfold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truecal.io.contents.GIBIBYTE", 1 << 20)  # the limit itself, at a size a test can write
    proba = np.zeros((1 << 20, 2), dtype=np.float32)
    proba[:, 0] = 1
    np.savez_compressed(tmp_path / "a.npz", probs=proba)
    assert "expected an array in proportion to the file, 'probs.npy' declares 8388736 bytes" in refusal(
        tmp_path / "a.npz"
    )
    columns = {"label": np.zeros(1 << 20, dtype=np.int8), "prob_a": proba[:, 0], "prob_b": proba[:, 1]}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", compression="zstd")
    assert "expected an array in proportion to the file, the table declares" in refusal(tmp_path / "a.parquet")


def test_tensors_larger_than_their_file(tmp_path: Path) -> None:
    torch.save({"probs": torch.zeros(1).expand(10**9, 1000), "labels": torch.tensor(LABELS)}, tmp_path / "a.pt")
    assert "expected a tensor within the file's size, 'probs' declares (1000000000, 1000)" in refusal(tmp_path / "a.pt")
    torch.save({"probs": torch.eye(3).to_sparse()}, tmp_path / "b.pt")
    assert "expected plain dense tensors" in refusal(tmp_path / "b.pt")
    torch.save({"probs": torch.tensor(PROBA), "epoch": 3}, tmp_path / "c.pt")
    assert "expected tensors only, the key 'epoch' holds a int" in refusal(tmp_path / "c.pt")
    torch.save([torch.tensor(PROBA)], tmp_path / "d.pt")
    assert "expected a tensor or a dict of tensors, got a list" in refusal(tmp_path / "d.pt")


def test_absurd_text(tmp_path: Path) -> None:
    assert "expected at most 100000 columns" in refusal(write(tmp_path / "a.csv", ",".join(map(str, range(200_000)))))
    assert "expected" in refusal(write(tmp_path / "b.csv", "label,prob_a,prob_b\n" + "x" * (1 << 20) + ",1,0\n"))
    assert "expected 3 cells at row 0" in refusal(write(tmp_path / "c.csv", "label,prob_a,prob_b\n" + "1," * 100_000))
    assert "is longer" in refusal(write(tmp_path / "d.csv", "a" * (1 << 24)))
    quoted = 'label,prob_a,prob_b\na,0.5,0.5\n"' + "b,0.5,0.5\n" * 50_000
    assert "expected" in refusal(write(tmp_path / "e.csv", quoted))


def test_names_twice_in_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    content = io.BytesIO()
    np.save(content, PROBA)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("probs.npy", content.getvalue())
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("probs.npy", content.getvalue())
    assert "expected every array name once, 'probs.npy' appears 2 times" in refusal(path)


def test_a_damaged_byte_in_an_archive_is_noticed(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", probs=PROBA, labels=LABELS)
    content = bytearray(path.read_bytes())
    at = content.index(PROBA.tobytes())
    content[at : at + 16] = np.array([0.75, 0.25]).tobytes()  # still probabilities: only the checksum can tell
    assert "CRC" in refusal(write(path, bytes(content)))


def test_advice_to_trust_a_file_is_never_passed_on(tmp_path: Path) -> None:
    long = write(tmp_path / "a.npy", b"\x93NUMPY\x02\x00" + (20_000).to_bytes(4, "little") + b" " * 20_000)
    assert "its header is longer than that of any plain array" in refusal(long)
    torch.save({"probs": torch.ones(2, 2), "x": Path("y")}, tmp_path / "a.pt")
    for message in (refusal(long), refusal(tmp_path / "a.pt")):
        assert not any(word in message for word in ("allow_pickle", "weights_only", "max_header_size", "trust"))


def test_predictions_that_cannot_be_used_are_described(tmp_path: Path) -> None:
    deep = npz(tmp_path / "a.npz", probs=PROBA[None], labels=LABELS, features=PROBA)
    assert refusal(deep).endswith("in the key 'probs', it holds numbers of shape (1, 3, 2)")
    words = npz(tmp_path / "b.npz", probs=PROBA.astype(str), labels=LABELS)
    assert refusal(words).endswith("in the key 'probs', it holds text of shape (3, 2)")
    save_parquet(pa.table({"label": LABELS, "probs": ["a", "b", "c"]}), tmp_path / "c.parquet")
    assert refusal(tmp_path / "c.parquet").endswith("in the column 'probs', its type is string")
    assert read_predictions(deep, proba_columns="features").n == 3  # a word of the caller settles it


def test_messages_name_the_options_of_the_command_line_too(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([[2.0, -1.0]]))
    assert "logits=True (--logits)" in refusal(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", LABELS)
    assert "labels= (--labels)" in refusal(tmp_path / "b.npy")
    both = npz(tmp_path / "c.npz", probs=PROBA, logits=PROBA, labels=LABELS)
    assert "logits=True (--logits)" in refusal(both) and "proba_columns (--columns)" in refusal(both)
    labels = npz(tmp_path / "d.npz", probs=PROBA, labels=LABELS, target=LABELS)
    assert "label_column (--label-column)" in refusal(labels)
    assert "drop logits=True (--logits)" in refusal(npz(tmp_path / "e.npz", probs=PROBA, labels=LABELS), logits=True)
    top = write(tmp_path / "f.csv", "prediction,confidence\na,0.5\n")
    assert "label_column (--label-column), or give labels (--labels)" in refusal(top)


def test_notes_show_columns_that_are_no_classes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,cat,dog,eel,fox,age\ncat,1,2,3,4,50\ndog,1,2,3,4,60\neel,3,2,1,0,7\n")
    notes = read_predictions(path, logits=True).notes
    assert any("5 columns 'cat', 'dog', 'eel', 'fox', 'age' (the numeric" in note for note in notes)
    assert "2 of 5 classes never occur as a label: 'fox', 'age'" in notes
    wide = npz(tmp_path / "b.npz", logits=np.zeros((2, 20)), labels=np.array([0, 1]))
    assert any(note.endswith("10, 11, 12, 13, … (18 in all)") for note in read_predictions(wide).notes)
    full = read_predictions(npz(tmp_path / "c.npz", probs=PROBA, labels=LABELS))
    assert not any("never" in note for note in full.notes)


# ---------------------------------------------------------------- several files


def predictions(path: str, y_true: Any = None, **more: Any) -> Predictions:
    more.setdefault("proba", np.full((3, 2), 0.5))
    return Predictions(
        Path(path).stem, path, "probabilities", y_true=None if y_true is None else np.array(y_true), **more
    )


def differs(*several: Predictions) -> str:
    with pytest.raises(FileError) as caught:
        check_same_samples(several)
    return str(caught.value)


def test_files_of_the_same_samples(tmp_path: Path) -> None:
    a = predictions("a.npz", [0, 1, 1])
    assert check_same_samples([]) == ()
    assert check_same_samples([a, predictions("b.npz"), a])[0] is a
    assert differs(a, a, predictions("c.npz", [0, 0, 1])) == (
        "c.npz: expected the labels of a.npz, at row 1 it has 0 where a.npz has 1"
    )
    short = predictions("d.npz", [0, 1], proba=np.full((2, 2), 0.5))
    assert differs(a, short) == "d.npz: expected 3 rows as in a.npz, got 2"
    wide = predictions("e.npz", [0, 1, 1], proba=np.full((3, 4), 0.25))
    assert differs(a, wide) == "e.npz: expected 2 classes as in a.npz, got 4"


def test_class_order_is_brought_to_the_first_files(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", "label,prob_cat,prob_dog\ndog,0.25,0.75\ncat,1,0\n")
    other = write(tmp_path / "b.csv", "label,prob_dog,prob_cat\ndog,0.5,0.5\ncat,0,1\n")
    wrong = write(tmp_path / "c.csv", "label,prob_dog,prob_cat\ndog,0.5,0.5\ndog,0,1\n")
    alien = write(tmp_path / "d.csv", "label,prob_dog,prob_cow\ndog,0.5,0.5\ndog,0,1\n")
    a, b, c, d = (read_predictions(path) for path in (first, other, wrong, alien))
    aligned = check_same_samples([a, b])[1]
    assert aligned.classes == a.classes and aligned.y_true is not None and aligned.y_true.tolist() == [1, 0]
    assert aligned.probabilities().tolist() == [[0.5, 0.5], [1, 0]]
    assert differs(a, c) == f"{wrong}: expected the labels of {first}, at row 1 it has 'dog' where {first} has 'cat'"
    assert f"'cat' is in {first} and not in {alien}" in differs(a, d)


def test_sample_logs_must_hold_the_same_documents(tmp_path: Path) -> None:
    a = read_predictions(log(tmp_path / "a.jsonl", sample(0, 0, [-1, -2]), sample(1, 0, [-1, -2])))
    b = read_predictions(log(tmp_path / "b.jsonl", sample(0, 0, [-1, -2]), sample(5, 0, [-1, -2])))
    c = read_predictions(log(tmp_path / "c.jsonl", sample(1, 0, [-1, -2, -3]), sample(0, 0, [-3, -2])))
    assert "expected the doc_id values of" in differs(a, b) and "at row 1 it has 5 where" in differs(a, b)
    assert "expected the numbers of choices of" in differs(a, c) and "at row 1 it has 3 where" in differs(a, c)


def test_top_label_files_are_compared_by_written_labels(tmp_path: Path) -> None:
    a = read_predictions(write(tmp_path / "a.csv", "label,prediction,confidence\n1,1,0.5\n0,1,0.5\n"))
    b = read_predictions(write(tmp_path / "b.csv", "label,prediction,confidence\n1,1,0.5\n2,1,0.5\n"))
    full = read_predictions(npz(tmp_path / "c.npz", probs=PROBA[:2], labels=np.array([1, 1])))
    assert "at row 1 it has 2 where" in differs(a, b)
    assert "at row 1 it has 1 where" in differs(a, full)
    hits = read_predictions(write(tmp_path / "d.csv", "correct,confidence\n1,0.5\n0,0.5\n"))
    assert len(check_same_samples([a, hits])) == 2


def test_every_field_is_held_against_the_first_file_that_has_it(tmp_path: Path) -> None:
    bare, a, shuffled = predictions("bare.npy"), predictions("a.npz", [0, 1, 1]), predictions("s.npz", [1, 0, 1])
    assert differs(bare, a, shuffled) == "s.npz: expected the labels of a.npz, at row 0 it has 1 where a.npz has 0"
    x, y = (predictions(name, ids=np.array(ids)) for name, ids in (("x", [1, 2, 3]), ("y", [1, 3, 2])))
    assert differs(bare, x, y) == "y: expected the doc_id values of x, at row 1 it has 3 where x has 2"
    x, y = (predictions(name, n_choices=np.array(counts)) for name, counts in (("x", [2, 2, 1]), ("y", [2, 2, 2])))
    assert "y: expected the numbers of choices of x" in differs(bare, x, y)
    top = Predictions("t", "t.csv", "top_label", confidence=np.ones(3), correct=np.ones(3, dtype=bool))
    wide = predictions("w.npz", proba=np.full((3, 4), 0.25))
    assert differs(top, bare, wide) == "w.npz: expected 2 classes as in bare.npy, got 4"


def test_class_order_is_that_of_the_first_file_that_names_classes(tmp_path: Path) -> None:
    np.save(tmp_path / "bare.npy", np.array([[0.25, 0.75], [1, 0]]))
    forth = write(tmp_path / "f.csv", "label,prob_cat,prob_dog\ndog,0.25,0.75\ncat,1,0\n")
    back = write(tmp_path / "b.csv", "label,prob_dog,prob_cat\ndog,0.75,0.25\ncat,0,1\n")
    numbered = write(tmp_path / "n.csv", "label,prob_1,prob_0\n1,0.75,0.25\n0,0,1\n")
    several = check_same_samples([read_predictions(p) for p in (tmp_path / "bare.npy", forth, back, numbered)])
    for read in several:
        assert read.probabilities().tolist() == [[0.25, 0.75], [1, 0]]
    assumed = f"no class names: its columns are taken to be in the class order of {forth} ('cat', 'dog')"
    assert [assumed in read.notes for read in several] == [True, False, False, True]
    alien = write(tmp_path / "d.csv", "label,prob_dog,prob_cow\ndog,0.5,0.5\ndog,0,1\n")
    assert f"expected the classes of {forth}" in differs(several[0], several[1], read_predictions(alien))


def test_columns_named_by_numbers_are_put_in_their_order(tmp_path: Path) -> None:
    order = sorted(range(11), key=str)  # as text: 0, 1, 10, 2, ...
    rows = np.arange(22.0).reshape(2, 11)
    header = ",".join(f"logit_{j}" for j in order)
    lines = "\n".join(
        f"{label}," + ",".join(str(row[j]) for j in order) for label, row in zip((10, 2), rows, strict=True)
    )
    read = read_predictions(write(tmp_path / "a.csv", f"label,{header}\n{lines}\n"))
    assert read.logits is not None and (read.logits == rows).all() and read.classes == tuple(map(str, range(11)))
    assert read.y_true is not None and read.y_true.tolist() == [10, 2]
    assert "columns were put in the order of their numbers" in read.notes
    from_one = read_predictions(write(tmp_path / "b.csv", "label,prob_2,prob_1\n2,0.75,0.25\n"))
    assert from_one.classes == ("2", "1")  # names, not indices: left as they are


def test_labels_as_names_and_as_numbers(tmp_path: Path) -> None:
    named = read_predictions(write(tmp_path / "a.csv", "label,prob_cat,prob_dog\ndog,0.25,0.75\ncat,1,0\n"))
    index = read_predictions(npz(tmp_path / "b.npz", probs=PROBA[:2], labels=np.array([1, 1])))
    for first, other in ((named, index), (index, named)):
        message = differs(first, other)
        assert f"{index.path} has no class names" in message and "at row 1 it has class" in message
    assert "it has class 1 where" in differs(named, index) and "has class 0 ('cat')" in differs(named, index)
    header = "label,prediction,confidence\n"
    codes = read_predictions(write(tmp_path / "c.csv", f"{header}7,7,0.5\n3,7,0.5\n"))  # 7 is dog, 3 is cat
    wrong = read_predictions(write(tmp_path / "d.csv", f"{header}7,7,0.5\n7,7,0.5\n"))
    assert len(check_same_samples([named, codes])) == len(check_same_samples([codes, named])) == 2
    message = differs(named, wrong)
    assert "in another coding, row 1 has 7 where" in message and "but row 0 has 7 where that has 'dog'" in message
    names = read_predictions(write(tmp_path / "e.csv", f"{header}dog,dog,0.5\ndog,dog,0.5\n"))
    assert "at row 1 it has 'dog' where" in differs(codes, named, names)


def test_names_are_told_apart_by_folders() -> None:
    files = [predictions(p) for p in ("x/m1/p.npz", "x/m2/p.npz", "y/m2/p.npz")]
    assert distinct_names(files) == ("x/m1/p", "x/m2/p", "y/m2/p")
    assert distinct_names([predictions("a/p.npz"), predictions("a/q.npz")]) == ("p", "q")
    assert distinct_names([predictions("p.npz"), predictions("p.npz"), predictions("q.npz")]) == ("p (1)", "p (2)", "q")
    assert distinct_names([predictions("p.npz"), predictions("p.npz"), predictions("p (1).npz")])[2] == "p (1)"
    assert len(set(distinct_names([predictions("p.npz"), predictions("p.npz"), predictions("p (1).npz")]))) == 3
    assert distinct_names([predictions("x/p.npz"), predictions("x/p.csv")]) == ("p.npz", "p.csv")
    assert distinct_names([predictions("/p.npz"), predictions("y/p.npz")]) == ("/p", "y/p")
    assert distinct_names([]) == ()


def test_names_that_collide_leave_the_others_alone() -> None:
    long = "m" * 300
    files = [predictions(f"{long}{end}.npz") for end in "ab"] + [predictions("runs/small.npz")]
    one, two, small = distinct_names(files)
    assert small == "small" and one != two and max(len(one), len(two)) < 210


def test_names_never_carry_control_characters(tmp_path: Path) -> None:
    names = distinct_names([predictions(f"\x1b[31m{folder}/p.npz") for folder in ("a", "b\x9b\u202e")])
    assert all(name.isprintable() for name in names) and len(set(names)) == 2
    path = tmp_path / "\x1b]0;title\x07.npz"
    read = read_predictions(npz(path, probs=PROBA, labels=np.zeros(len(PROBA), dtype=int)))
    assert read.name.isprintable() and "title" in read.name
    with pytest.raises(FileError) as caught:
        read_predictions(tmp_path / "\x1b[2J.npz")
    assert str(caught.value).isprintable()
    labels = tmp_path / "\x1b[2Jy.npy"
    np.save(labels, np.zeros(len(PROBA), dtype=int))
    assert all(note.isprintable() for note in read_predictions(path, labels=labels).notes)
    other = predictions("\x1b[1mb.csv", proba=PROBA[:, ::-1], classes=("b", "a"))
    bare = predictions("c.npy", proba=PROBA)
    assert all(note.isprintable() for p in check_same_samples([other, bare]) for note in p.notes)
    for odd in (os.fsdecode(b"\xff\xfe.npz"), " .npz", "\x1b.npz"):
        (name,) = distinct_names([predictions(odd)])
        assert name.strip() and name.isprintable()


# ---------------------------------------------------------------- results out


@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_nothing_half_written_is_left(tmp_path: Path, before: str | None, error: type[BaseException]) -> None:
    path = tmp_path / "out.json"
    if before is not None:
        path.write_text(before)
    expected = FileError if error is OSError else error

    def stopped() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise error("stop")

    with pytest.raises(expected):
        stopped()
    assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else ["out.json"])
    assert before is None or path.read_text() == before


def test_an_interrupt_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "out.json"
    write_atomic(path, "old")

    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, "new")
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_atomic_writes(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    write_atomic(path, "é")
    write_atomic(str(path), b"\x00\xff")
    assert path.read_bytes() == b"\x00\xff"
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    link = tmp_path / "link.txt"
    link.symlink_to(path)
    write_atomic(link, "through")
    assert link.is_symlink() and path.read_text() == "through"
    write_atomic(os.devnull, "nothing")
    with atomic_path(tmp_path / "figure.png") as temporary:
        assert temporary.suffix == ".png" and temporary.parent == tmp_path
        temporary.write_bytes(b"x")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["figure.png", "link.txt", "out.txt"]


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="expected a file to write, it is a folder"):
        write_atomic(tmp_path, "x")
    with pytest.raises(FileError, match="which does not exist"):
        write_atomic(tmp_path / "no" / "out.txt", "x")


# ---------------------------------------------------------------- what reading costs


@pytest.mark.parametrize(("name", "module", "extra"), [
    ("a.parquet", "pyarrow.parquet", "cli"),
    ("a.feather", "pyarrow", "cli"),
    ("a.csv", "pyarrow", "cli"),
    ("a.pt", "torch", "torch"),
    ("a.safetensors", "safetensors", "torch"),
])  # fmt: skip
def test_a_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str, extra: str
) -> None:
    WRITERS[name](tmp_path / name, PROBA, LABELS, "probs")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'needs {module.partition(".")[0]}: pip install "truecal\[{extra}\]"'):
        read_predictions(tmp_path / name)


def test_importing_loads_numpy_alone() -> None:
    code = "import sys, truecal.io; print(*{m.partition('.')[0] for m in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"pyarrow", "torch", "scipy", "pandas", "safetensors"} & set(loaded)


MAKE = """
import sys, numpy as np, pyarrow as pa, pyarrow.parquet as pq, pyarrow.feather as pf
rng = np.random.default_rng(0)
proba = rng.random((60_000, 600), dtype=np.float32)
proba /= proba.sum(axis=1, keepdims=True)
label = rng.integers(0, 600, 60_000)
if "lists" in sys.argv[1]:
    table = pa.table({"label": label, "probs": pa.FixedSizeListArray.from_arrays(pa.array(proba.ravel()), 600)})
else:
    table = pa.table({"label": label, **{f"prob_{j}": proba[:, j] for j in range(600)}})
pf.write_feather(table, sys.argv[1]) if sys.argv[1].endswith("feather") else pq.write_table(table, sys.argv[1])
"""
READ = """
import sys, numpy as np
import pyarrow.parquet, pyarrow.compute
from truecal.io import read_predictions

def peak():  # unlike getrusage, not inherited from the process that started this one
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))

before = peak()
read = read_predictions(sys.argv[1])
after = peak()
assert read.proba.dtype == np.float32 and read.proba.shape == (60_000, 600)
print((after - before) / read.proba.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("name", ["wide.parquet", "lists.parquet", "wide.feather"])
def test_reading_needs_little_more_than_the_array(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    subprocess.run([sys.executable, "-c", MAKE, path], check=True)
    run = subprocess.run([sys.executable, "-c", READ, path], check=True, capture_output=True, text=True)
    assert 1 <= float(run.stdout) <= 2.2  # times the array itself, the array included
