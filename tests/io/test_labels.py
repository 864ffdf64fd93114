"""Labels as files write them: names, indices, booleans, in the file or apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest
import safetensors.numpy
import torch

from prediction_files import LABELS, PROBA, Array, npz, refusal, write
from truecal.io import FileError, read_labels, read_predictions


def test_labels_are_names_or_indices(tmp_path: Path) -> None:
    def labels(header: str, *rows: str) -> list[int]:
        read = read_predictions(write(tmp_path / "a.csv", "\n".join([header, *rows])))
        assert read.y_true is not None
        return list(read.y_true)

    assert labels("label,prob_b,prob_a", "a,0.5,0.5", "b,0.5,0.5") == [1, 0]  # by name, in column order
    path = write(tmp_path / "b.csv", "label,prob_b,prob_a\n0,0.5,0.5\n1,0.5,0.5\n")  # which is 1 is not told
    assert "cannot tell which of 'b', 'a' the label '0' in column 'label' means: pass positive" in refusal(path)
    for positive, indices in (("a", [0, 1]), ("b", [1, 0]), ("prob_b", [1, 0])):
        assert list(read_predictions(path, positive=positive).y_true) == indices  # type: ignore[arg-type]  # not None
    assert labels("label,prob_no,prob_Yes", "0,0.5,0.5", "1,0.5,0.5") == [0, 1]
    assert labels("label,prob_yes,prob_no", "False,0.5,0.5", "True,0.5,0.5") == [1, 0]
    assert labels("label,pos,neg", "1,0.5,0.5", "-1,0.5,0.5") == [0, 1]
    assert labels("Democrat_Won,Democrat_WinProbability,Republican_WinProbability", "1,0.5,0.5", "0,0.5,0.5") == [0, 1]
    assert labels("label,prob_1,prob_2", "1,0.5,0.5", "2,0.5,0.5") == [0, 1]  # numbered classes: by name
    assert labels("label,prob_1,prob_0", "1,0.5,0.5", "0,0.5,0.5") == [1, 0]  # columns 0 and 1, in this order
    assert labels("label,prob_01,prob_02", "02,0.5,0.5", "01,0.5,0.5") == [1, 0]
    assert labels("label,prob_True,prob_False", "True,0.5,0.5", "False,0.5,0.5") == [0, 1]
    assert labels("label,prob_0,prob_1", "1.0,0.5,0.5", "0.0,0.5,0.5") == [1, 0]
    assert labels("label, prob_a, prob_b", " b, 0.5, 0.5", "a , 0.5, 0.5") == [1, 0]
    assert labels("label,prob_NA,prob_null", "null,0.5,0.5", "NA,0.5,0.5") == [1, 0]


def test_label_1_of_two_words(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(size=200)
    below_chance = np.where(rng.uniform(size=200) < 1 - p, "b", "a")

    def read(labels: Array, columns: tuple[str, ...] = ("prob",), **how: str) -> tuple[list[str], tuple[str, ...]]:
        table = pd.DataFrame({"label": labels}).assign(**dict.fromkeys(columns[:-1], 1 - p), **{columns[-1]: p})
        table.assign(**decided).to_csv(tmp_path / "a.csv", index=False)
        found = read_predictions(tmp_path / "a.csv", **how)  # type: ignore[arg-type]  # positive
        assert found.y_true is not None
        return sorted(set(labels[np.asarray(found.y_true) == 1])), found.notes

    decided: dict[str, Array] = {}
    for columns in (("prob",), ("prob_0", "prob_1")):  # nothing else tells
        ones, notes = read(below_chance, columns)
        assert ones == ["a"]
        assert any("larger probabilities: if label 1 is 'b', pass positive (--positive) b" in note for note in notes)
        assert read(below_chance, columns, positive="b")[0] == ["b"]
    with pytest.raises(FileError, match="against the labels"):  # names tell, and are not overridden
        read(np.where(below_chance == "b", "yes", "no"))
    decided = {"predicted": np.where(p > 0.5, "b", "a")}  # predicted labels tell
    with pytest.raises(FileError, match="against the labels"):
        read(below_chance)
    ones, notes = read(np.where(rng.uniform(size=200) < p, "b", "a"))
    assert ones == ["b"] and "label 1 = 'b', which is predicted where the probability is large" in notes
    decided = {}
    with pytest.raises(FileError, match=r"pass --positive [ab] or --positive [ab]$"):
        read(rng.choice(["a", "b"], size=200))


def test_two_labels_beside_a_score_that_is_never_below_one_half(tmp_path: Path) -> None:
    target, label = [0, 1] * 10, [0, 1, 1, 1] * 5
    table = pd.DataFrame({"age": range(20), "target": target, "Label": label, "Score": np.linspace(0.5, 0.9, 20)})
    table.to_csv(tmp_path / "pycaret.csv", index=False)
    read = read_predictions(tmp_path / "pycaret.csv")
    assert read.correct is not None and read.correct.mean() == 0.75
    table.assign(Label=target).to_csv(tmp_path / "same.csv", index=False)
    assert "expected predictions" in refusal(tmp_path / "same.csv")


def test_a_class_prediction_is_no_outcome(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "winprobability,win_classprediction,win_groundtruth\n0.3,1,0\n0.1,0,1\n0.6,1,1\n")
    read = read_predictions(tmp_path / "a.csv")
    assert read.y_true is not None and read.y_true.tolist() == [0, 1, 1]


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
        (np.array([1, 2, 2]), "expected class indices 0 to 1 in key 'labels', but it counts from 1"),
        (np.array([0, 1, 5]), "must hold column indices from 0 to 1; row 2 has 5"),
        (np.array([0, 1, -1]), "row 2 has -1"),
        (np.array([0.0, 1.0, 1.5]), "expected whole numbers or names in key 'labels', row 2 has 1.5"),
        (np.array([0.0, np.nan, 1.0]), "row 1 has nan"),
        (np.array(["a", "b", "a"]), "the columns have no names"),
        (np.array([0, 1]), "expected a label for each of 3 rows, key 'labels' has 2"),
        (
            np.array([[0, 1, 0], [1, 0, 0], [0, 1, 0]]),
            "expected one label per row in key 'labels', or 2 shares, got shape (3, 3)",
        ),
        (np.array([0, 1, 1], dtype=complex), "got dtype complex128"),
    ],
)
def test_bad_labels(tmp_path: Path, labels: Array, message: str) -> None:
    assert message in refusal(npz(tmp_path / "a.npz", probs=PROBA, labels=labels))


def test_unknown_names_are_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,prob_a,prob_b\na,0.5,0.5\nc,0.5,0.5\n")
    assert refusal(path) == "column 'label', row 1: 'c' is not one of the classes 'a', 'b'"
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
        ".safetensors": lambda: safetensors.numpy.save_file({"labels": LABELS}, path),
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
    with pytest.raises(ValueError, match="pass labels as a path"):
        read_predictions(named, labels=[1, 0, 1], label_column="animal")
    top = write(tmp_path / "top.csv", "label,prediction,confidence\n1,1,0.5\n0,1,0.5\n")
    assert "expected the same labels in column 'label' and in labels, row 1 has '0' and 1" in refusal(
        top, labels=[1, 1]
    )
