"""Which columns and keys are labels and predictions, and what the numbers in them are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch

from prediction_files import LABELS, PROBA, refusal, table, write
from truecal.io import read_predictions


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
        ("label,y_prob", "1,0.75", "probabilities", None, "of class 1"),
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
    path = write(tmp_path / "a.csv", "truth,target,u,v,prob_a,prob_b\na,b,0.5,0.5,0.25,0.75\n")
    assert "found 'truth', 'target': name one with label_column" in refusal(path)
    other = write(tmp_path / "b.csv", "truth,target,u,v,prob_a,prob_b\na,u,0.5,0.5,0.25,0.75\n")
    read = read_predictions(other, label_column="target", proba_columns=["u", "v"])
    assert read.classes == ("u", "v") and read.probabilities().tolist() == [[0.5, 0.5]]
    assert "expected a column named 'w', found 'truth'" in refusal(
        path, label_column="target", proba_columns=["u", "w"]
    )
    assert "expected every proba_columns name once" in refusal(path, label_column="target", proba_columns=["u", "u"])


def test_logits_and_probabilities_are_never_guessed(tmp_path: Path) -> None:
    both = tmp_path / "both.npz"
    np.savez(both, probs=PROBA, logits=np.log(PROBA), labels=LABELS)
    assert "found both ('probs', 'logits'): pass logits=True (--logits)" in refusal(both)
    assert read_predictions(both, logits=True).kind == "logits"
    assert read_predictions(both, kind="probabilities").kind == "probabilities"
    named = tmp_path / "named.npz"
    np.savez(named, probs=PROBA, labels=LABELS)
    assert "logits=True (--logits) means logits, but the name of key 'probs' means probabilities" in refusal(
        named, logits=True
    )
    wide = write(tmp_path / "wide.csv", "label,prob_a,prob_b\na,0.5,0.5\n")
    assert "the column prefix 'prob' means probabilities" in refusal(wide, logits=True)
    silent = write(tmp_path / "silent.csv", "label,a,b\na,2.5,-1\n")
    assert "if they are logits, pass logits=True" in refusal(silent)
    assert read_predictions(silent, logits=True).kind == "logits"
    with pytest.raises(ValueError, match="contradict each other"):
        read_predictions(named, logits=True, kind="probabilities")
    with pytest.raises(ValueError, match=r"kind: expected one of .*, got 'probs'"):
        read_predictions(named, kind="probs")  # type: ignore[arg-type]  # what no type checker lets through


def test_two_families_of_columns_need_a_word(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,prob_a,prob_b,logit_a,logit_b\na,0.5,0.5,1,1\n")
    assert "expected one set of prediction columns" in refusal(path)
    assert read_predictions(path, logits=True).logits is not None
    assert read_predictions(path, kind="probabilities").proba is not None


def test_arrays_without_telling_names(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", PROBA, LABELS)
    read = read_predictions(tmp_path / "a.npz")
    assert read.y_true is not None and read.y_true.tolist() == LABELS.tolist()
    assert "the only one with a vector per row" in read.notes[0]
    assert "the only array with one whole number per row" in read.notes[1]
    np.savez(tmp_path / "b.npz", features=np.ones((3, 4)), outputs=PROBA, labels=LABELS)
    assert "expected one key of predictions, found 'features', 'outputs'" in refusal(tmp_path / "b.npz")
    assert read_predictions(tmp_path / "b.npz", proba_columns="outputs").n_classes == 2


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
