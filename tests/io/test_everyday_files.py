"""Files as people have them: no header, rounded, percentages, gaps, packed, JSON, soft labels; and the wrong ones."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from prediction_files import LABELS, PROBA, log, npz, refusal, sample, write
from truecal.io import check_same_samples, read_column, read_labels, read_predictions

ROWS = "0.25,0.75\n0.5,0.5\n1,0\n"

# ---------------------------------------------------------------- csv with and without a header


@pytest.mark.parametrize(
    ("text", "rows", "note"),
    [
        (ROWS, 3, "2 columns '0', '1' (there is no header)"),
        ("1,0\n0.5,0.5\n", 2, "there is no header"),
        ("0,1\n0.25,0.75\n", 1, "one per class"),  # as pandas numbers columns, above fractions
        (",0,1\n0,0.25,0.75\n1,0.5,0.5\n", 2, "one per class"),  # with its index
        ("0,1,2\n1,0,0\n", 1, "one per class"),
        ("0.1,0.2,0.7\n0,0,1\n", 2, "there is no header"),
        ("a,b\n0.25,0.75\n", 1, "one per class"),
        ("0.25\n0.5\n", 2, "the column '0' (there is no header)"),
    ],
)
def test_no_row_is_lost_to_a_header_that_is_none(tmp_path: Path, text: str, rows: int, note: str) -> None:
    read = read_predictions(write(tmp_path / "a.csv", text))
    assert read.n == rows and note in read.notes[0]


def test_ten_thousand_lines_are_ten_thousand_rows(tmp_path: Path, rng: np.random.Generator) -> None:
    proba = rng.dirichlet([1, 1, 1], size=10_000)
    np.savetxt(tmp_path / "p.csv", proba, delimiter=",")
    np.savetxt(tmp_path / "y.csv", np.arange(10_000) % 3, fmt="%d")
    read = read_predictions(tmp_path / "p.csv", labels=tmp_path / "y.csv")
    assert read.n == 10_000 and np.allclose(read.probabilities(), proba)
    assert read.y_true is not None and read.y_true[:4].tolist() == [0, 1, 2, 0] and read.classes is None


def test_a_first_line_that_could_be_either_is_asked_about(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "0,1\n1,0\n")
    assert "whether the first line, '0,1', is a header or a row: pass header=True or header=False" in refusal(path)
    assert read_predictions(path, header=True).n == 1
    assert read_predictions(path, header=False).n == 2


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("0\n1\n1\n", [0, 1, 1]),
        ("0\n0\n1\n1\n", [0, 1, 1]),  # as pandas writes a series without a name
        ("y\n0\n1\n1\n", [0, 1, 1]),
        ("1\n0\n1\n", [1, 0, 1]),
        (",0\n0,1\n1,0\n2,1\n", [1, 0, 1]),  # and with its index
    ],
)
def test_labels_alone_are_counted_against_the_rows(tmp_path: Path, text: str, labels: list[int]) -> None:
    predictions = write(tmp_path / "p.csv", ROWS)
    read = read_predictions(predictions, labels=write(tmp_path / "y.csv", text))
    assert read.y_true is not None and read.y_true.tolist() == labels


def test_names_alone_are_counted_against_the_rows(tmp_path: Path) -> None:
    predictions = write(tmp_path / "p.csv", "cat,dog\n0.25,0.75\n0.5,0.5\n")
    for text in ("dog\ncat\n", "animal\ndog\ncat\n"):
        read = read_predictions(predictions, labels=write(tmp_path / "y.csv", text))
        assert read.y_true is not None and read.y_true.tolist() == [1, 0]
    alone = write(tmp_path / "z.csv", "0\n1\n")
    with pytest.raises(ValueError, match="is a header or a row"):
        read_labels(alone)
    assert read_labels(alone, header=False).tolist() == [0, 1]


def test_columns_without_names_go_by_their_numbers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "1,0.25,0.75\n0,0.5,0.5\n")
    assert "row 0 of the class columns sums to 2" in refusal(path)
    text = write(tmp_path / "b.csv", "cat,0.25,0.75\ndog,0.5,0.5\n")
    assert "in 0, got values of type string: if it holds the labels, name it with label_column" in refusal(text)
    read = read_predictions(path, label_column="0")
    assert read.y_true is not None and read.y_true.tolist() == [1, 0] and read.n_classes == 2 and read.classes is None


# ---------------------------------------------------------------- what the numbers are


def test_probabilities_are_no_logits(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", PROBA)
    assert "every row is in [0, 1] and sums to 1: these are probabilities" in refusal(tmp_path / "a.npy", logits=True)
    named = read_predictions(npz(tmp_path / "b.npz", logits=PROBA, labels=LABELS))
    assert named.kind == "probabilities" and named.notes[0].endswith("every row sums to 1")
    np.save(tmp_path / "c.npy", np.log(PROBA + 0.1))
    assert read_predictions(tmp_path / "c.npy", logits=True).kind == "logits"


def test_rounded_probabilities_are_normalized_on_request(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,prob_a,prob_b,prob_c\na,0.33,0.33,0.33\nb,0.01,0.99,0.01\n")
    assert refusal(path).endswith("If they are rounded probabilities, pass normalize=True (--normalize)")
    read = read_predictions(path, normalize=True)
    assert np.allclose(read.probabilities().sum(axis=1), 1) and np.allclose(read.probabilities()[0], 1 / 3)
    assert "rows divided by their sums, which run from 0.99 to 1.01" in read.notes
    scores = write(tmp_path / "b.csv", "label,prob_a,prob_b\na,0.9,0.8\n")
    assert "normalize" not in refusal(scores)
    assert "expected rows that sum to about 1 (within 0.1)" in refusal(scores, normalize=True)
    assert "row 0 sums to 1.7" in refusal(scores, normalize=True)
    one = write(tmp_path / "c.csv", "label,prob\n1,0.9\n")
    assert "expected probabilities of all classes for normalize=True" in refusal(one, normalize=True)


def test_percentages_are_never_guessed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "correct,confidence\n1,80\n0,0.5\n")
    assert refusal(path).endswith("row 0 has 80.0: if they are percentages, pass percent=True (--percent)")
    read = read_predictions(path, percent=True)
    assert read.confidence is not None and read.confidence.tolist() == [0.8, 0.005]
    small = write(tmp_path / "b.csv", "correct,confidence\n1,0.9\n0,0.5\n")
    assert read_predictions(small, percent=True).confidence[1] == 0.005  # type: ignore[index]  # the caller's word
    wide = write(tmp_path / "c.csv", "label,prob_a,prob_b\na,25,75\n")
    assert "percentages" in refusal(wide)
    assert read_predictions(wide, percent=True).probabilities().tolist() == [[0.25, 0.75]]
    logits = write(tmp_path / "d.csv", "label,logit_a,logit_b\na,25,75\n")
    assert "expected probabilities or confidences for percent=True" in refusal(logits, percent=True)


def test_scores_are_probabilities_unless_said_otherwise(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "y_true,y_score,text\n1,0.75,some words\n0,0.5,others\n")
    read = read_predictions(path)
    assert read.kind == "probabilities" and read.proba is not None and read.proba.tolist() == [0.75, 0.5]
    wide = write(tmp_path / "b.csv", "label,score_cat,score_dog\ndog,0.25,0.75\n")
    assert read_predictions(wide).classes == ("cat", "dog")
    margin = write(tmp_path / "c.csv", "label,score\n1,2.5\n0,-1\n")
    assert "if they are logits, pass logits=True" in refusal(margin)
    assert read_predictions(margin, logits=True).logits is not None
    graded = write(tmp_path / "d.csv", "correct,confidence,score\n1,0.5,7\n")
    assert read_predictions(graded).kind == "top_label"
    unclear = write(tmp_path / "e.csv", "label,score,age\n1,0.5,31\n")
    assert "--columns score --label-column label" in refusal(unclear)  # nothing says which is the prediction
    assert read_predictions(unclear, proba_columns="score").n == 1


# ---------------------------------------------------------------- labels


def test_labels_that_count_from_one(tmp_path: Path) -> None:
    path = npz(tmp_path / "a.npz", probs=PROBA, labels=LABELS + 1)
    assert "it counts from 1: pass label_base=1 (--label-base 1)" in refusal(path)
    read = read_predictions(path, label_base=1)
    assert read.y_true is not None and read.y_true.tolist() == LABELS.tolist()
    zero = npz(tmp_path / "b.npz", probs=PROBA, labels=LABELS)
    assert "expected labels 1 to 2 in key 'labels', row 1 has 0" in refusal(zero, label_base=1)
    with pytest.raises(ValueError, match="label_base: expected 0 or 1, got 2"):
        read_predictions(path, label_base=2)


def test_soft_labels_may_be_a_column_per_class(tmp_path: Path) -> None:
    """In the order of the classes of the predictions, whatever theirs is; one-hot columns are labels."""
    path = tmp_path / "soft.csv"
    path.write_text("label_cat,label_dog,prob_dog,prob_cat\n0.25,0.75,0.6,0.4\n1,0,0.3,0.7\n")
    read = read_predictions(path)
    assert read.classes == ("dog", "cat") and read.y_true is not None
    assert read.y_true.tolist() == [[0.75, 0.25], [0.0, 1.0]]
    assert "labels from the columns 'label_dog', 'label_cat' (one per class, by their names)" in read.notes
    path.write_text("target.cat,target.dog,prob_dog,prob_cat\n0,1,0.6,0.4\n1,0,0.3,0.7\n")
    one_hot = read_predictions(path)
    assert one_hot.y_true is not None and one_hot.y_true.tolist() == [0, 1]
    path.write_text("label_cat,label_dog,prob_dog,prob_cat\n0.2,0.2,0.6,0.4\n1,0,0.3,0.7\n")
    assert "that sum to 1" in refusal(path)
    path.write_text("label_cat,label_bird,prob_dog,prob_cat\n0.2,0.8,0.6,0.4\n")
    assert read_predictions(path).y_true is None  # other classes: no family


def test_soft_labels_are_handed_on(tmp_path: Path) -> None:
    soft = np.array([[0.1, 0.9], [0.5, 0.5], [1, 0]])
    np.save(tmp_path / "y.npy", soft)
    bare = npz(tmp_path / "p.npz", probs=PROBA)
    read = read_predictions(bare, labels=tmp_path / "y.npy")
    assert read.y_true is not None and read.y_true.tolist() == soft.tolist()
    assert "soft labels: a share of each class in every row" in read.notes
    assert read_labels(tmp_path / "y.npy").shape == (3, 2)
    table = pa.table({"label": soft.tolist(), "prob_a": PROBA[:, 0], "prob_b": PROBA[:, 1]})
    parquet.write_table(table, tmp_path / "a.parquet")
    own = read_predictions(tmp_path / "a.parquet")
    assert own.y_true is not None and own.y_true.tolist() == soft.tolist()
    assert len(check_same_samples([read, own])) == 2
    one_hot = read_predictions(bare, labels=np.eye(2, dtype=int)[LABELS])
    assert one_hot.y_true is not None and one_hot.y_true.tolist() == LABELS.tolist()
    assert "row 0 of labels sums to 4" in refusal(bare, labels=np.array([[3, 1], [2, 2], [0, 4]]))
    other = read_predictions(bare, labels=soft[:, ::-1])
    with pytest.raises(ValueError, match=r"the labels differ from those of .*: at row 0"):
        check_same_samples([read, other])


def test_soft_labels_follow_the_class_order(tmp_path: Path) -> None:
    soft = np.array([[0.1, 0.9]])
    first = read_predictions(write(tmp_path / "a.csv", "cat,dog\n0.25,0.75\n"), labels=soft)
    other = read_predictions(write(tmp_path / "b.csv", "dog,cat\n0.75,0.25\n"), labels=soft[:, ::-1])
    _, turned = check_same_samples([first, other])
    assert turned.y_true is not None and turned.y_true.tolist() == soft.tolist()


# ---------------------------------------------------------------- gaps


def test_rows_without_a_prediction_are_refused_or_dropped(tmp_path: Path) -> None:
    gaps = np.array([[0.25, 0.75], [np.nan, np.nan], [0.5, 0.5]])
    lists = [None if np.isnan(row).any() else row.tolist() for row in gaps]
    npz(tmp_path / "a.npz", probs=gaps, labels=LABELS)
    write(tmp_path / "b.csv", "label,prob_0,prob_1\n1,0.25,0.75\n0,,\n1,0.5,0.5\n")
    columns = {"prob_0": pa.array(gaps[:, 0], from_pandas=True), "prob_1": pa.array(gaps[:, 1], from_pandas=True)}
    parquet.write_table(pa.table({"label": LABELS, **columns}), tmp_path / "c.parquet")
    parquet.write_table(pa.table({"label": LABELS, "probs": lists}), tmp_path / "d.parquet")
    records = [{"label": int(y), "probs": row} for y, row in zip(LABELS, lists, strict=True)]
    write(tmp_path / "e.json", json.dumps(records))
    log(tmp_path / "f.jsonl", *records)
    for name in ("a.npz", "b.csv", "c.parquet", "d.parquet", "e.json", "f.jsonl"):
        message = refusal(tmp_path / name)
        assert "row 1" in message and "drop_incomplete=True (--drop-incomplete)" in message
        read = read_predictions(tmp_path / name, drop_incomplete=True)
        assert read.n == 2 and read.n_rows == 3 and read.rows is not None and read.rows.tolist() == [0, 2]
        assert read.probabilities().tolist() == [[0.25, 0.75], [0.5, 0.5]]
        assert read.y_true is not None and read.y_true.tolist() == [1, 1]
        assert "1 of 3 rows dropped: they have no prediction" in read.notes
        again = read_predictions(tmp_path / name, drop_incomplete=True, labels=LABELS)
        assert again.y_true is not None and again.y_true.tolist() == [1, 1]


def test_the_first_rows_may_be_the_missing_ones(tmp_path: Path) -> None:
    table = pa.table({"label": [0] * 5000, "probs": [None] * 4999 + [[0.25, 0.75]]})
    parquet.write_table(table, tmp_path / "a.parquet")
    read = read_predictions(tmp_path / "a.parquet", drop_incomplete=True)
    assert read.n == 1 and read.probabilities().tolist() == [[0.25, 0.75]]
    parquet.write_table(table.slice(0, 10), tmp_path / "b.parquet")
    assert refusal(tmp_path / "b.parquet", drop_incomplete=True)


def test_stated_confidences_may_be_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "label,prediction,confidence\ncat,cat,90\ndog,cat,\ndog,dog,60\n")
    read = read_predictions(path, percent=True, drop_incomplete=True)
    assert read.correct is not None and read.correct.tolist() == [True, True] and read.n == 2
    assert "none of 1 rows has a prediction" in refusal(
        write(tmp_path / "b.csv", "correct,confidence\n1,\n"), drop_incomplete=True
    )


def test_rows_are_named_as_they_are_numbered_in_the_file(tmp_path):
    """Two rows before the bad one are left out."""
    lines = ["label,prob_a,prob_b", "a,,", "a,0.5,0.5", "b,,", "b,0.5,0.5", "c,0.5,0.5"]
    path = write(tmp_path / "gaps.csv", "\n".join(lines) + "\n")
    assert "row 4: 'c' is not one of the classes" in refusal(path, drop_incomplete=True)
    path = write(tmp_path / "sums.csv", "\n".join([*lines[:-1], "b,0.9,0.9"]) + "\n")
    assert "row 4 of the class columns sums to" in refusal(path, drop_incomplete=True)


def test_files_with_gaps_are_compared_on_the_rows_of_all(tmp_path: Path) -> None:
    one = write(tmp_path / "a.csv", "label,prob_0,prob_1\n0,,\n1,0.25,0.75\n0,0.5,0.5\n1,0.1,0.9\n")
    two = write(tmp_path / "b.csv", "label,prob_0,prob_1\n0,0.9,0.1\n1,0.2,0.8\n0,,\n1,0.3,0.7\n")
    whole = npz(tmp_path / "c.npz", probs=np.full((4, 2), 0.5), labels=np.array([0, 1, 0, 1]))
    several = check_same_samples([read_predictions(path, drop_incomplete=True) for path in (one, two, whole)])
    for read in several:
        assert read.rows is not None and read.rows.tolist() == [1, 3]
        assert read.y_true is not None and read.y_true.tolist() == [1, 1]
    assert several[1].probabilities().tolist() == [[0.2, 0.8], [0.3, 0.7]]
    assert "2 rows dropped: other files have no prediction for them" in several[2].notes
    rest = write(tmp_path / "e.csv", "label,prob_0,prob_1\n0,0.9,0.1\n1,,\n0,,\n1,,\n")
    with pytest.raises(ValueError, match="no row has a prediction in every file"):
        check_same_samples([read_predictions(path, drop_incomplete=True) for path in (one, rest)])
    short = npz(tmp_path / "d.npz", probs=np.full((3, 2), 0.5), labels=np.array([0, 1, 0]))
    with pytest.raises(ValueError, match=r"expected 4 rows as in .*, got 3"):
        check_same_samples([several[0], read_predictions(short)])


# ---------------------------------------------------------------- JSON, compressed text


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        ('[{"label": "dog", "probs": {"cat": 0.25, "dog": 0.75}}]', ("cat", "dog")),
        ('{"label": [1], "probs": [[0.25, 0.75]]}', None),
        ('[{"y_true": 1, "prob_0": 0.25, "prob_1": 0.75, "text": "some words"}]', ("0", "1")),
    ],
)
def test_shapes_of_json(tmp_path: Path, text: str, classes: tuple[str, ...] | None) -> None:
    read = read_predictions(write(tmp_path / "a.json", text))
    assert read.probabilities().tolist() == [[0.25, 0.75]] and read.classes == classes
    assert read.y_true is not None and read.y_true.tolist() == [1]
    if text.startswith("["):
        line = read_predictions(write(tmp_path / "a.jsonl", text[1:-1]))
        assert line.probabilities().tolist() == [[0.25, 0.75]] and line.classes == classes


def test_bare_lists_in_json(tmp_path: Path) -> None:
    labels = write(tmp_path / "y.json", "[1, 0]")
    read = read_predictions(write(tmp_path / "a.json", "[[0.25, 0.75], [0.5, 0.5]]"), labels=labels)
    assert read.n == 2 and read.y_true is not None and read.y_true.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"a": 1}', "expected a list of objects, or an object of lists"),
        ("a.json", "[1, [2]]", "expected a list of numbers, of equally long lists of numbers, or of objects"),
        ("a.json", '{"probs": [[0.5, 0.5]], "label": [1, 2]}', "columns of one type and the same length"),
        ("a.json", "{", "expected JSON, but it cannot be read"),
        ("a.jsonl", '{"label": 1, "probs": [0.5, 0.5]}\n{"label": 1,', "expected a JSON object on line 2"),
        ("a.jsonl", '{"label": 1, "probs": [0.5, 0.5]}\n[1]', "expected a JSON object on line 2, got [1]"),
        ("a.jsonl", '{"label": 1, "probs": [0.5, 0.5]}\n{"label": 1, "probs": "x"}', "expected a JSON object on each"),
        ("a.csv.gz", "label,prob\n1,0.5\n", "expected a .gz archive, but it does not start like one"),
        ("a.npz.gz", "x", "only text is read from archives: unpack it"),
    ],
)
def test_wrong_json_and_archives(tmp_path: Path, name: str, text: str, message: str) -> None:
    assert message in refusal(write(tmp_path / name, text))


def test_packed_text_is_named_without_its_suffixes(tmp_path: Path) -> None:
    path = write(tmp_path / "model.csv.gz", gzip.compress(b"label,prob_a,prob_b\na,0.5,0.5\nb,0.5,x\n"))
    assert "expected a number at row 1 (line 3), column 'prob_b', got 'x'" in refusal(path)
    path = write(tmp_path / "model.csv.gz", gzip.compress(b"label,prob\n1,0.5\n"))
    assert read_predictions(path).name == "model"
    logs = write(tmp_path / "log.jsonl.gz", gzip.compress(json.dumps(sample(0, 1, [-1, -2])).encode()))
    assert read_predictions(logs).kind == "choices"


@pytest.mark.slow
def test_packed_text_that_expands_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truecal.io.limits.SMALL", 1 << 16)
    monkeypatch.setattr("truecal.io.limits.available_memory", lambda: 1 << 22)
    rows = write(tmp_path / "a.csv.gz", gzip.compress(b"label,prob\n" + b"1,0.5\n" * 1_000_000))
    assert "expected data that fit in memory (2" in refusal(rows)
    text = write(tmp_path / "a.json.gz", gzip.compress(b" " * 10_000_000))
    assert "expected data that fit in memory (2.01 MB may be used), with the text the file of" in refusal(text)


# ---------------------------------------------------------------- columns beside the predictions


def test_one_column_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "patient,weight,prob\n7,0.5,0.25\n8,1.5,0.75\n")
    assert read_column(path, "patient").tolist() == [7, 8]
    assert read_column(path, "weight", numbers=True).tolist() == [0.5, 1.5]
    alone = write(tmp_path / "g.csv", "7\n8\n")
    assert read_column(alone, rows=2).tolist() == [7, 8]
    with pytest.raises(ValueError, match="expected 3 rows as in the predictions, got 2"):
        read_column(alone, rows=3)


# ---------------------------------------------------------------- logs of language models


def test_choices_normalized_by_length_as_the_harness_does(tmp_path: Path) -> None:
    prompts = [["Q", " a"], ["Q", " longer"]]
    record = sample(0, 1, [-2, -6], arguments=prompts, acc=0.0, acc_norm=1.0)
    path = log(tmp_path / "a.jsonl", record)
    plain, per_character = read_predictions(path), read_predictions(path, length_normalized=True)
    assert plain.logit_matrix().tolist() == [[-2, -6]]
    assert per_character.logit_matrix().tolist() == [[-2, -1]]
    assert "log-likelihoods per character" in per_character.notes[0]
    contrary = log(tmp_path / "b.jsonl", {**record, "acc_norm": 0.0})
    assert "to agree with 'acc_norm' of the log" in refusal(contrary, length_normalized=True)
    bare = log(tmp_path / "c.jsonl", sample(0, 1, [-2, -6]))
    assert "expected the texts of the choices in 'arguments' on line 1" in refusal(bare, length_normalized=True)
    assert "normalize and percent cannot be used with a sample log" in refusal(path, percent=True)
    elsewhere = read_predictions(path, labels=[2], label_base=1)
    assert elsewhere.y_true is not None and elsewhere.y_true.tolist() == [1]
    table = write(tmp_path / "d.csv", "label,prob\n1,0.5\n")
    assert "expected a .jsonl sample log" in refusal(table, length_normalized=True)


def inspect_log(monkeypatch: pytest.MonkeyPatch, *samples: Any, status: str = "success") -> None:
    """inspect_ai's reader, as far as it is used here."""
    library = ModuleType("inspect_ai.log")
    library.read_eval_log = lambda path: SimpleNamespace(samples=samples, status=status)  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "inspect_ai", ModuleType("inspect_ai"))
    monkeypatch.setitem(sys.modules, "inspect_ai.log", library)


def answered(name: str, value: object, confidence: object = None, **more: Any) -> SimpleNamespace:
    score = SimpleNamespace(value=value, metadata=None if confidence is None else {"confidence": confidence})
    defaults = {"epoch": 1, "metadata": {}, "choices": None, "target": "A", "output": SimpleNamespace(choices=[])}
    return SimpleNamespace(id=name, scores={"match": score}, **{**defaults, **more})


def chosen(name: str, target: str, **chances: float) -> SimpleNamespace:
    tops = [SimpleNamespace(token=f" {letter}", logprob=np.log(p)) for letter, p in chances.items()]
    tokens = [SimpleNamespace(token="ANSWER:", top_logprobs=None), SimpleNamespace(token=" A", top_logprobs=tops)]
    output = SimpleNamespace(choices=[SimpleNamespace(logprobs=SimpleNamespace(content=tokens))])
    return answered(name, "C", choices=["x", "y"], target=target, output=output)


def test_stated_confidences_of_inspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.json", '{"version": 2, "status": "error", "eval": {"eval_id": "x"}}')
    inspect_log(monkeypatch, answered("b", "I", 60), answered("a", "C", 80), status="error")
    read = read_predictions(path, percent=True)
    assert read.kind == "top_label" and read.confidence is not None and read.confidence.tolist() == [0.8, 0.6]
    assert read.correct is not None and read.correct.tolist() == [True, False]
    assert "the status of the log is 'error'" in read.notes
    inspect_log(monkeypatch, answered("a", "C", 0.8), answered("b", 1))
    assert "drop_incomplete=True" in refusal(path)
    assert read_predictions(path, drop_incomplete=True).n == 1
    inspect_log(monkeypatch, answered("a", "P", 0.8))
    assert "expected a score of C or I, or 1 or 0, for sample 'a', got 'P'" in refusal(path)
    inspect_log(monkeypatch, answered("a", "C", "sure"))
    assert "expected numbers in 'confidence' of the metadata" in refusal(path)
    inspect_log(monkeypatch)
    assert "the log has no samples" in refusal(path)


def test_choices_of_inspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = npz(tmp_path / "a.npz", x=PROBA).rename(tmp_path / "a.eval")
    inspect_log(monkeypatch, chosen("a", "A", A=0.75, B=0.25), chosen("b", "B", A=0.5, B=0.25))
    read = read_predictions(path)
    assert read.kind == "choices" and np.allclose(read.probabilities(), [[0.75, 0.25], [2 / 3, 1 / 3]])
    assert read.y_true is not None and read.y_true.tolist() == [0, 1]
    inspect_log(monkeypatch, chosen("a", "A", A=0.75))
    assert "expected logprobs of all 2 choices of sample 'a', 'B' not among the top ones" in refusal(path)
    inspect_log(monkeypatch, answered("a", "C"))
    assert "sample 'a' has neither" in refusal(path)


def test_a_missing_inspect_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = npz(tmp_path / "a.npz", x=PROBA).rename(tmp_path / "a.eval")
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(ImportError, match=r'needs inspect_ai: pip install "truecal\[inspect\]"'):
        read_predictions(path)
