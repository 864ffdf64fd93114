"""A csv file is parsed once: the labels and numbers of reading them one after the other, and its errors."""

from __future__ import annotations

import numpy as np
import pytest

from closeness import assert_close
from truecal.io import FileError, columnar, read_predictions, text_tables

pytest.importorskip("pyarrow")

ROWS = ["0,.2,.3,.5", "2,.1,.1,.8", "1,.25,.5,.25", "0,.6,.2,.2"]
NAMED = ["a,.2,.3,.5", "c,.1,.1,.8", "b,.25,.5,.25", "a,.6,.2,.2"]


def content(rows, names="label,prob_0,prob_1,prob_2"):
    return "\n".join([names, *(rows * 40), ""])


@pytest.fixture
def passes(monkeypatch):
    """The columns of each pass over the file."""
    found, parsed = [], text_tables._batches

    def batches(path, head, types):
        found.append(list(types))
        return parsed(path, head, types)

    monkeypatch.setattr(text_tables, "_batches", batches)
    return found


def separately(monkeypatch, path, **options):
    """What reading labels and numbers one after the other gives."""

    def refused(*_):
        raise FileError("not in one pass")

    with monkeypatch.context() as patched:
        patched.setattr(columnar, "_labels_and_numbers", refused)
        return read_predictions(path, **options)


@pytest.mark.parametrize(
    ("text", "times"),
    [
        (content(ROWS), 1),
        (content(NAMED, "label,prob_a,prob_b,prob_c"), 1),
        (content([row.replace("0,", "0.0,", 1) for row in ROWS]), 1),
        (content([f" {row[0]} {row[1:]}" for row in ROWS]), 1),
        (content([f"0{row}" for row in ROWS], "label,prob_00,prob_01,prob_02"), 1),
        (content([f"0{row}" for row in ROWS]), 1),
        (content([f'"{row[0]}"{row[1:]}' for row in ROWS]), 1),
        (content([row.replace(",", ";").replace(".", "0,") for row in ROWS], "label;prob_0;prob_1;prob_2"), 1),
        (content([f"{row[0]},{row.split(',')[1]}" for row in NAMED[:1] + NAMED[2:3]], "label,confidence"), None),
        (content([f'{row[0]},"[{row[2:]}]"'.replace(".", "0.") for row in ROWS], "label,probs"), 2),
    ],
)
def test_one_pass_gives_the_labels_and_numbers_of_two(tmp_path, monkeypatch, passes, text, times):
    path = tmp_path / "a.csv"
    path.write_text(text)
    if times is None:  # no predicted labels
        with pytest.raises(FileError) as one:
            separately(monkeypatch, path)
        with pytest.raises(FileError) as other:
            read_predictions(path)
        assert str(one.value) == str(other.value)
        return
    wanted = separately(monkeypatch, path)
    passes.clear()
    found = read_predictions(path)
    assert len(passes) == times
    assert_close(found.proba, wanted.proba)
    np.testing.assert_array_equal(found.y_true, wanted.y_true)
    np.testing.assert_array_equal(found.label_values, wanted.label_values)
    assert np.asarray(found.label_values).dtype == np.asarray(wanted.label_values).dtype
    assert (found.notes, found.classes) == (wanted.notes, wanted.classes)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("x,.2,.3,.5", "column 'label', row 100: 'x' is not one of the classes"),
        (",.2,.3,.5", "expected a value at row 100, column 'label', it is missing"),
        ("9,.2,.3,.5", "row 100 has 9"),
        ("1,.2,.3,", "expected a value at row 100, column 'prob_2', it is missing"),
        ("1,.2,.3,abc", "expected a number at row 100 (line 102), column 'prob_2', got 'abc'"),
        ("1,.2,.3", "expected 4 cells at row 100 (line 102), got 3"),
        ("1,.2,.3,.9", "row 100 of the class columns sums to 1.4"),
    ],
)
def test_one_pass_finds_the_faults_of_two(tmp_path, monkeypatch, row, words):
    lines = content(ROWS).splitlines()
    lines[101] = row
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(FileError) as wanted:
        separately(monkeypatch, path)
    with pytest.raises(FileError) as found:
        read_predictions(path)
    assert str(found.value) == str(wanted.value) and words in str(found.value)


def test_one_pass_over_several_batches(tmp_path, monkeypatch, passes, rng):
    monkeypatch.setattr(text_tables, "BLOCK_BYTES", 1 << 10)
    p = rng.dirichlet(np.ones(3), 500)
    labels = np.array(["cat", "dog", "bird"])[rng.integers(0, 3, 500)]
    labels[:200] = "dog"  # batches know different labels
    rows = [f"{name},{','.join(map(repr, map(float, row)))}" for name, row in zip(labels, p, strict=True)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["label,prob_cat,prob_dog,prob_bird", *rows]))
    found = read_predictions(path)
    assert len(passes) == 1
    assert_close(found.proba, p)
    np.testing.assert_array_equal(np.array(found.classes)[found.y_true], labels)
