"""Forecasts of a number and several labels per row, found by the names of columns as people write them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.io import FileError
from truecal.io.forecast_files import read_forecasts, read_label_sets, read_label_tables, read_outcomes

pytest.importorskip("pyarrow")
Y = [3.0, 5.5, 4.0]
QUANTILES = [[1.0, 3.0, 4.0], [2.0, 5.0, 9.0], [3.0, 4.0, 4.5]]
LEVELS = [0.1, 0.5, 0.9]
AT = np.array([2.0, 3.5, 5.0])


def csv(path: Any, names: list[str], rows: Any) -> Any:
    lines = [",".join(names), *(",".join(str(cell) for cell in row) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


def parquet(path: Any, columns: dict[str, Any]) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    "names",
    [
        ["q0.1", "q0.5", "q0.9"],
        ["q_0.1", "q_0.5", "q_0.9"],
        ["quantile_0.1", "quantile_0.5", "quantile_0.9"],
        ["p10", "p50", "p90"],
        ["q10", "q50", "q90"],
        ["P10", "P50", "P90"],
        ["percentile_10", "percentile_50", "percentile_90"],
        ["0.1", "0.5", "0.9"],
        ["10%", "50%", "90%"],
    ],
)
def test_columns_of_quantiles_have_their_levels_in_their_names(tmp_path, names):
    rows = [[i, y, *q] for i, (y, q) in enumerate(zip(Y, QUANTILES, strict=True))]
    text = csv(tmp_path / "a.csv", ["id", "y", *names], rows)
    found = read_forecasts(text, header=True)
    assert_close(found.forecast.at(AT), tc.forecasts.quantiles(QUANTILES, LEVELS).at(AT))
    assert found.y_true is not None and found.y_true.tolist() == Y
    columns = {"y": Y} | {name: [q[j] for q in QUANTILES] for j, name in enumerate(names)}
    backwards = dict(reversed(columns.items()))
    found = read_forecasts(parquet(tmp_path / "a.parquet", backwards))
    assert_close(found.forecast.at(AT), tc.forecasts.quantiles(QUANTILES, LEVELS).at(AT))
    assert "outcomes beyond the outer quantiles count as impossible" in found.note


@pytest.mark.parametrize(
    ("names", "make"),
    [
        (["member_1", "member_2", "member_3"], tc.forecasts.ensemble),
        (["ens1", "ens2", "ens3"], tc.forecasts.ensemble),
        (["sample.0", "sample.1", "sample.2"], tc.forecasts.ensemble),
    ],
)
def test_columns_of_members(tmp_path, names, make):
    rows = [[*q, y] for y, q in zip(Y, QUANTILES, strict=True)]
    found = read_forecasts(csv(tmp_path / "a.csv", [*names, "observed"], rows))
    assert_close(found.forecast.at(AT), make(QUANTILES).at(AT))


def test_mean_and_standard_deviation_and_cdf_values(tmp_path):
    rows = [[1.0, 0.5, 2], [2.0, 1.5, 3], [0.0, 2.0, 1]]
    for mean, sd in (("mean", "std"), ("mu", "sigma"), ("loc", "scale")):
        found = read_forecasts(csv(tmp_path / "a.csv", [mean, sd, "y"], rows))
        assert_close(found.forecast.at(AT), tc.forecasts.normal([1.0, 2.0, 0.0], [0.5, 1.5, 2.0]).at(AT))
    np.savez(tmp_path / "a.npz", mean=[1.0, 2.0, 0.0], sd=[0.5, 1.5, 2.0], y=Y)
    found = read_forecasts(tmp_path / "a.npz")
    assert_close(found.forecast.at(AT), tc.forecasts.normal([1.0, 2.0, 0.0], [0.5, 1.5, 2.0]).at(AT))
    values = [[0.1, 0.6, 1.0], [0.0, 0.2, 0.9]]
    table = csv(tmp_path / "b.csv", ["y", "cdf_10", "cdf_-2", "cdf_4"], [[1, c, a, b] for a, b, c in values])
    found = read_forecasts(table)
    assert_close(found.forecast.at(AT), tc.forecasts.cdf(values, [-2, 4, 10]).at(AT))


@pytest.mark.parametrize(
    ("names", "options", "words"),
    [
        (["a", "b", "c"], {}, "expected quantiles .q0.1, q0.5 or p10, p50"),
        (["q1", "q2", "q3"], {}, "levels or numbers of quantiles. pass --levels"),
        (["q0.1", "mean", "std"], {"columns": ["no"]}, "expected a column named 'no'"),
        (["p50", "p10", "mean", "std"], {}, "found quantiles and mean and standard deviation: name the columns"),
        (["p10", "p90"], {}, "quantiles cross in row 0"),
        (["mean", "std"], {}, "sd must not be negative"),
    ],
)
def test_forecasts_that_cannot_be_read_say_why(tmp_path, names, options, words):
    table = csv(tmp_path / "a.csv", ["y", *names], [[1, 5, *[-4] * (len(names) - 1)]])
    with pytest.raises(FileError, match=words):
        read_forecasts(table, **options)


def test_outcomes_are_found_or_named(tmp_path):
    table = csv(tmp_path / "a.csv", ["rain", "p10", "p90"], [[1, 0, 2], [2, 0, 3]])
    with pytest.raises(FileError, match="expected one column of outcomes"):
        read_forecasts(table)
    found = read_forecasts(table, label_column="rain")
    assert found.y_true is not None and found.y_true.tolist() == [1.0, 2.0]
    assert read_outcomes(csv(tmp_path / "y.csv", ["mm"], [[1.5], [2.5]])).tolist() == [1.5, 2.5]
    assert read_forecasts(table, columns=["p10", "p90"], levels=[0.05, 0.95], label_column="rain").forecast


# -- several labels per row --------------------------------------------------------------------------------------------

P = [[0.25, 0.5, 0.75], [0.5, 0.25, 0.125], [0.75, 0.75, 0.5], [0.5, 0.5, 0.5]]
SETS = [["a", "c"], [], ["b"], ["a", "b", "c"]]
TABLE = [[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]]


@pytest.mark.parametrize(
    "written",
    [";".join, "|".join, " ".join, ", ".join, json.dumps, repr],
    ids=["semicolons", "bars", "spaces", "commas", "json", "python"],
)
def test_lists_of_labels_in_a_csv(tmp_path, written):
    def quoted(text: str) -> str:
        doubled = text.replace('"', '""')
        return f'"{doubled}"'

    rows = [[*p, quoted(written(labels))] for p, labels in zip(P, SETS, strict=True)]
    for name in ("labels", "label", "y"):
        found = read_label_tables(csv(tmp_path / "a.csv", ["p_a", "p_b", "p_c", name], rows))
        assert found.y_true.tolist() == TABLE and found.names == ("a", "b", "c")
        assert found.numbers.tolist() == P


def test_lists_of_labels_in_other_files(tmp_path):
    columns = {f"p_{name}": [row[j] for row in P] for j, name in enumerate("abc")}
    assert read_label_tables(parquet(tmp_path / "a.parquet", columns | {"labels": SETS})).y_true.tolist() == TABLE
    indices = [[ord(name) - ord("a") for name in labels] for labels in SETS]
    found = read_label_tables(parquet(tmp_path / "b.parquet", {"labels": indices, "probs": P}))
    assert found.y_true.tolist() == TABLE and found.names is None
    lines = [
        json.dumps({"labels": labels, "probs": dict(zip("abc", p, strict=True))})
        for labels, p in zip(SETS, P, strict=True)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert read_label_tables(tmp_path / "a.jsonl").y_true.tolist() == TABLE
    np.savez(tmp_path / "a.npz", y=TABLE, probs=P)
    assert read_label_tables(tmp_path / "a.npz").y_true.tolist() == TABLE


@pytest.mark.parametrize("prefix", ["label_", "y_", "target_"])
def test_columns_of_labels_are_in_the_order_of_the_predictions(tmp_path, prefix):
    names = ["p_a", "p_b", "p_c", f"{prefix}c", f"{prefix}a", f"{prefix}b"]
    rows = [[*p, t[2], t[0], t[1]] for p, t in zip(P, TABLE, strict=True)]
    found = read_label_tables(csv(tmp_path / "a.csv", names, rows))
    assert np.asarray(found.y_true).tolist() == TABLE


def test_labels_in_another_file(tmp_path):
    rows = [[";".join(labels)] for labels in SETS]
    rows[1] = ['""']  # a row of a csv is not empty
    path = csv(tmp_path / "y.csv", ["labels"], rows)
    assert read_label_sets(path, None, 3, ("a", "b", "c")).tolist() == TABLE
    table = csv(tmp_path / "t.csv", ["label_a", "label_b", "label_c"], TABLE)
    assert np.asarray(read_label_sets(table, None, 3, ("a", "b", "c"))).tolist() == TABLE


@pytest.mark.parametrize(
    ("names", "row", "words"),
    [
        (["p_a", "p_b", "labels"], [0.5, 0.5, "a;z"], "labels among 'a', 'b' in the column 'labels', row 0 has 'a;z'"),
        (["p_a", "p_b", "more"], [0.5, 0.5, "a"], "expected labels: columns such as label_a and label_b"),
        (["label_a", "label_b", "text"], [1, 0, "x"], "predictions"),
    ],
)
def test_labels_that_cannot_be_read_say_why(tmp_path, names, row, words):
    with pytest.raises(FileError, match=words):
        read_label_tables(csv(tmp_path / "a.csv", names, [row, row]))
