"""Several files of the same samples."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prediction_files import PROBA, log, npz, sample, write
from truecal.io import FileError, Predictions, check_same_samples, distinct_names, read_predictions


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
        "c.npz: the labels differ from those of a.npz: at row 1 it has 0 where a.npz has 1"
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
    assert (
        differs(a, c)
        == f"{wrong}: the labels differ from those of {first}: at row 1 it has 'dog' where {first} has 'cat'"
    )
    assert f"'cat' is in {first} and not in {alien}" in differs(a, d)


def test_sample_logs_must_hold_the_same_documents(tmp_path: Path) -> None:
    a = read_predictions(log(tmp_path / "a.jsonl", sample(0, 0, [-1, -2]), sample(1, 0, [-1, -2])))
    b = read_predictions(log(tmp_path / "b.jsonl", sample(0, 0, [-1, -2]), sample(5, 0, [-1, -2])))
    c = read_predictions(log(tmp_path / "c.jsonl", sample(1, 0, [-1, -2, -3]), sample(0, 0, [-3, -2])))
    assert "the 'doc_id' values differ from those of" in differs(a, b) and "(5 at row 1)" in differs(a, b)
    assert "the numbers of choices differ from those of" in differs(a, c) and "at row 1 it has 3 where" in differs(a, c)


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
    assert (
        differs(bare, a, shuffled)
        == "s.npz: the labels differ from those of a.npz: at row 0 it has 1 where a.npz has 0"
    )
    x, y = (predictions(name, ids=np.array(ids)) for name, ids in (("x", [1, 2, 3]), ("y", [1, 3, 2])))
    assert differs(bare, x, y) == "y: the doc_id values differ from those of x: at row 1 it has 3 where x has 2"
    x, y = (predictions(name, n_choices=np.array(counts)) for name, counts in (("x", [2, 2, 1]), ("y", [2, 2, 2])))
    assert "y: the numbers of choices differ from those of x" in differs(bare, x, y)
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
    assert f"the classes differ from those of {forth}" in differs(several[0], several[1], read_predictions(alien))


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
    assert "in another coding: row 1 has 7 where" in message and "but row 0 has 7 where that has 'dog'" in message
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
