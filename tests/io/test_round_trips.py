"""What is written in a format is read back, in every format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from prediction_files import WRITERS, Array, npz, write
from truecal.io import FileError, read_predictions
from truecal.io.containers import FORMATS, TEXT, inside


def test_no_format_is_forgotten() -> None:
    elsewhere = {".npy", ".ndjson", ".eval"}  # arrays without names below, ndjson is jsonl, logs elsewhere
    elsewhere |= {".jevl"}  # in test_decision_logs
    elsewhere |= {".txt", ".xlsx", ".db", ".sqlite", ".sqlite3", ".duckdb"}  # in test_first_try
    elsewhere |= {".arff", ".mat"}  # in test_containers
    assert {inside(name).suffix for name in WRITERS} | elsewhere == set(FORMATS)


@st.composite
def labelled(draw: st.DrawFn) -> tuple[Array, Array, Array]:
    """Logits in float32 or float64, their softmax in the same precision, and labels."""
    n, k = draw(st.integers(1, 7)), draw(st.integers(2, 5))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    finite = st.floats(-30, 30, width=32) if dtype == np.float32 else st.floats(-30, 30)
    logits = draw(hnp.arrays(dtype, (n, k), elements=finite))
    exp = np.exp(logits - logits.max(axis=1, keepdims=True))
    return logits, exp / exp.sum(axis=1, keepdims=True), draw(hnp.arrays(np.int64, n, elements=st.integers(0, k - 1)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITERS)
def test_what_is_written_is_read(folder: Path, name: str) -> None:
    @settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(data=labelled(), key=st.sampled_from(["probs", "logits"]))
    def run(data: tuple[Array, Array, Array], key: str) -> None:
        logits, proba, labels = data
        sent = proba if key == "probs" else logits
        WRITERS[name](folder / name, sent, labels, key)
        read = read_predictions(folder / name)
        got = read.proba if key == "probs" else read.logits
        assert read.kind == ("probabilities" if key == "probs" else "logits")
        assert got is not None and read.y_true is not None
        assert got.dtype == (np.float64 if FORMATS[inside(name).suffix] in TEXT else sent.dtype)
        assert np.array_equal(got.astype(sent.dtype), sent)  # text spells floats so that they come back exactly
        assert np.array_equal(read.y_true, labels) and read.y_true.dtype == np.intp
        assert read.name == inside(name).stem
        assert np.allclose(read.probabilities(), proba, atol=1e-6)

    run()


@settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=labelled(), fortran=st.booleans())
def test_arrays_without_names_round_trip(folder: Path, data: tuple[Array, Array, Array], fortran: bool) -> None:
    logits, proba, labels = data
    np.save(folder / "p.npy", np.asfortranarray(proba) if fortran else proba)
    np.save(folder / "z.npy", logits)
    np.save(folder / "y.npy", labels)
    read = read_predictions(folder / "p.npy", labels=folder / "y.npy")
    assert np.array_equal(read.probabilities(), proba)
    assert read.y_true is not None and np.array_equal(read.y_true, labels)
    assert np.array_equal(read_predictions(folder / "z.npy", logits=True, labels=labels).logit_matrix(), logits)


@settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
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
    npz(tmp_path / "a.npz", **columns)
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
