"""Rows of several files are matched by an identifier that they share, and never silently by their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from truecal.io import FileError, check_same_samples, read_column, read_predictions

IDS = np.array([7, 3, 11, 5])
PROBA = np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4], [0.3, 0.7]])
LABELS = np.array([0, 1, 0, 1])
SHUFFLED = np.array([2, 0, 3, 1])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    predictions().to_csv("preds.csv", index=False)
    answers().to_csv("answers.csv", index=False)
    return tmp_path


def same(found: Any, expected: Any) -> bool:
    return bool(np.array_equal(found, expected))


def predictions() -> pd.DataFrame:
    return pd.DataFrame({"id": IDS, "prob_0": PROBA[:, 0], "prob_1": PROBA[:, 1]})


def answers() -> pd.DataFrame:
    return pd.DataFrame({"id": IDS, "label": LABELS}).iloc[SHUFFLED]


def refused(labels: pd.DataFrame, **options) -> str:
    labels.to_csv("bad.csv", index=False)
    with pytest.raises(FileError) as caught:
        read_predictions("preds.csv", labels="bad.csv", **options)
    return str(caught.value)


def test_labels_in_another_order(folder):
    read = read_predictions("preds.csv", labels="answers.csv")
    assert same(read.y_true, LABELS)
    assert "rows of answers.csv matched by 'id' (4 of 4 were in another place)" in read.notes
    assert not same(read_predictions("preds.csv", labels="answers.csv", id_column=False).y_true, LABELS)


def test_a_named_column_and_the_only_other_column(folder):
    renamed = answers().rename(columns={"id": "case", "label": "outcome"})
    renamed.to_csv("renamed.csv", index=False)
    predictions().rename(columns={"id": "case"}).to_parquet("preds.parquet")
    read = read_predictions("preds.parquet", labels="renamed.csv", id_column="case")
    assert same(read.y_true, LABELS)
    with pytest.raises(FileError, match="expected a column named 'nowhere' to match rows by"):
        read_predictions("preds.parquet", labels="answers.csv", id_column="nowhere")


def test_any_unique_column_of_one_name_will_do(folder):
    texts = np.array(["a", "b", "c", "d"])
    predictions().drop(columns="id").assign(question=texts).to_csv("preds.csv", index=False)
    answers().drop(columns="id").assign(question=texts[SHUFFLED]).to_csv("answers.csv", index=False)
    assert same(read_predictions("preds.csv", labels="answers.csv").y_true, LABELS)


def test_ids_of_arrays(folder):
    np.savez("preds.npz", probs=PROBA, ids=IDS)
    np.savez("answers.npz", labels=LABELS[SHUFFLED], ids=IDS[SHUFFLED])
    assert same(read_predictions("preds.npz", labels="answers.npz").y_true, LABELS)
    assert read_predictions("preds.npz").y_true is None  # ids are no labels


def test_codings_of_one_identifier(folder):
    labels = answers()
    labels["id"] = labels["id"].map(lambda i: f"{i}.0")
    labels.to_csv("answers.csv", index=False)
    assert same(read_predictions("preds.csv", labels="answers.csv").y_true, LABELS)
    texts = np.array(["07", "7", "11", "5"])
    predictions().assign(id=texts).to_csv("preds.csv", index=False)
    answers().assign(id=texts[SHUFFLED]).to_csv("answers.csv", index=False)
    assert same(read_predictions("preds.csv", labels="answers.csv").y_true, LABELS)


def test_a_missing_identifier_is_named(folder):
    odd = answers().replace({"id": {5: 99}})
    said = refused(odd)
    assert "1 of 4 only in preds.csv (5 at row 3) and 1 of 4 only in bad.csv (99 at row 2)" in said
    assert said.endswith("pass id_column=False (--no-id)")


def test_an_extra_row_is_named(folder):
    extra = pd.concat([answers(), pd.DataFrame({"id": [99], "label": [1]})])
    assert "1 of 5 only in bad.csv (99 at row 4)" in refused(extra)


@pytest.mark.parametrize("named", [None, "id"])
def test_a_duplicate_is_named(folder, named):
    twice = answers().replace({"id": {5: 11}})
    assert "bad.csv: duplicate 'id', so rows cannot be matched: 11 is at row 0 and at row 2" in refused(
        twice, id_column=named
    )


def test_an_empty_identifier_is_named(folder):
    gone = answers().astype({"id": object})
    gone.iloc[1, 0] = None
    assert "expected a value at row 1, column 'id', it is missing" in refused(gone)


def test_an_index_of_pandas_is_matched_only_when_named(folder):
    predictions().drop(columns="id").to_csv("preds.csv")
    answers().drop(columns="id").to_csv("answers.csv")  # its index is shuffled, or was numbered before
    with pytest.raises(FileError, match=r"the index '' of the files is in different orders, 4 of 4 .* \(--id\) ''"):
        read_predictions("preds.csv", labels="answers.csv")
    assert same(read_predictions("preds.csv", labels="answers.csv", id_column="").y_true, LABELS)
    answers().drop(columns="id").sort_index().to_csv("answers.csv")
    assert same(read_predictions("preds.csv", labels="answers.csv").y_true, LABELS)


def test_clusters_in_the_same_order_are_no_identifiers(folder):
    predictions().assign(id=[1, 1, 2, 2]).to_csv("preds.csv", index=False)
    answers().assign(id=[1, 1, 2, 2], label=LABELS).to_csv("answers.csv", index=False)
    assert same(read_predictions("preds.csv", labels="answers.csv").y_true, LABELS)


def test_models_in_different_orders(folder):
    predictions().assign(label=LABELS).to_csv("a.csv", index=False)
    predictions().assign(label=LABELS).iloc[SHUFFLED].to_csv("b.csv", index=False)
    a, b = check_same_samples([read_predictions("a.csv"), read_predictions("b.csv")])
    assert same(a.proba, b.proba) and same(a.y_true, b.y_true)
    assert b.notes[-1].startswith("rows of b.csv matched by 'id'")
    with pytest.raises(FileError, match=r"the labels differ from those of a\.csv"):
        check_same_samples([read_predictions("a.csv"), read_predictions("b.csv")], id_column=False)


def test_models_in_different_orders_with_gaps(folder):
    first = predictions().assign(label=LABELS)
    second = first.iloc[SHUFFLED].copy()
    first.iloc[0, 1:3] = np.nan  # id 7
    second.iloc[0, 1:3] = np.nan  # id 11
    first.to_csv("a.csv", index=False)
    second.to_csv("b.csv", index=False)
    read = [read_predictions(name, drop_incomplete=True) for name in ("a.csv", "b.csv")]
    a, b = check_same_samples(read)
    assert same(a.proba, PROBA[[1, 3]]) and same(b.proba, PROBA[[1, 3]])


def test_groups_in_another_order(folder):
    pd.DataFrame({"id": IDS[SHUFFLED], "patient": SHUFFLED}).to_csv("patients.csv", index=False)
    read = read_predictions("preds.csv", labels="answers.csv")
    assert read_column("patients.csv", rows=4, of=read).tolist() == [0, 1, 2, 3]


def test_a_sample_log_and_its_labels(folder):
    lines = [f'{{"doc_id": {i}, "filtered_resps": [[-1.0, false], [-2.0, false]]}}' for i in range(4)]
    Path("log.jsonl").write_text("\n".join(lines))
    pd.DataFrame({"doc_id": SHUFFLED, "label": LABELS[SHUFFLED]}).to_csv("answers.csv", index=False)
    assert same(read_predictions("log.jsonl", labels="answers.csv").y_true, LABELS)
