"""Tables in, through the same names: columns are classes, rows go by position, contradictions are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import truecal as tc
from closeness import assert_close

RNG = np.random.default_rng(1)
NAMES = ["cat", "dog", "emu"]
P = RNG.dirichlet(np.ones(3), 60)
CODES = np.array([RNG.choice(3, p=row) for row in P])
Y = np.array(NAMES)[CODES]
ORDER = [2, 0, 1]
TABLES = {
    "pandas": lambda names, p: pd.DataFrame(p, columns=names),
    "polars": lambda names, p: pl.DataFrame(p, schema=[str(name) for name in names]),
    "pyarrow": lambda names, p: pa.table({str(name): column for name, column in zip(names, p.T, strict=True)}),
}
VECTORS: dict[str, Any] = {
    "pandas": pd.Series,
    "polars": pl.Series,
    "pyarrow": lambda values: pa.chunked_array([pa.array(values[:20]), pa.array(values[20:])]),
}


@pytest.mark.slow
@pytest.mark.parametrize("library", TABLES)
def test_columns_are_classes_in_any_order(library):
    table = TABLES[library]([NAMES[j] for j in ORDER], P[:, ORDER])
    y = VECTORS[library](Y)
    for measure in (tc.brier, tc.classwise_error, tc.score, tc.ERRORS["full"], tc.ERRORS["ece"]):
        assert measure(y, table) == pytest.approx(measure(CODES, P), rel=1e-12)
    whole, named = tc.evaluate(CODES, P, n_resamples=99), tc.evaluate(y, table, n_resamples=99)
    assert named.score == pytest.approx(whole.score, rel=1e-12)
    assert tc.gap(y, table).points == pytest.approx(tc.gap(CODES, P).points, rel=1e-9)
    assert tc.compare(y, {"a": table, "b": table}, n_resamples=99).n_samples == 60


@pytest.mark.parametrize("library", TABLES)
def test_numbers_as_names_are_numbers(library):
    table = TABLES[library](ORDER, P[:, ORDER])
    assert tc.brier(VECTORS[library](CODES), table) == pytest.approx(tc.brier(CODES, P), rel=1e-12)
    counted = TABLES[library]([1, 2, 3], P)
    assert_close(tc.brier(CODES + 1, counted), tc.brier(CODES, P))


@pytest.mark.parametrize("library", TABLES)
def test_names_that_are_no_classes_say_nothing(library):
    table = TABLES[library](["p_cat", "p_dog", "p_emu"], P)
    assert_close(tc.brier(CODES, table), tc.brier(CODES, P))
    assert_close(tc.brier(Y, table, labels=NAMES), tc.brier(CODES, P))
    with pytest.raises(TypeError, match=r"y_true holds strings; pass labels="):
        tc.brier(Y, table)


@pytest.mark.parametrize("library", TABLES)
def test_labels_that_contradict_the_columns_are_refused(library):
    table = TABLES[library](NAMES, P)
    assert_close(tc.brier(Y, table, labels=NAMES), tc.brier(CODES, P))
    words = r"column 0 is 'dog' by labels and 'cat' by its name; leave out labels"
    for call in (tc.brier, tc.evaluate, tc.classwise_error):
        with pytest.raises(ValueError, match=words):
            call(Y, table, labels=["dog", "cat", "emu"])


def test_label_distributions_have_the_columns_of_the_predictions():
    votes = pd.DataFrame(np.eye(3)[CODES], columns=NAMES)
    assert tc.brier(votes, pd.DataFrame(P, columns=NAMES)) == pytest.approx(tc.brier(CODES, P), rel=1e-12)
    with pytest.raises(ValueError, match="same columns in another order"):
        tc.brier(votes, pd.DataFrame(P[:, ORDER], columns=[NAMES[j] for j in ORDER]))


def test_rows_go_by_position_when_the_indexes_are_strangers():
    y = pd.Series(Y, index=np.arange(100, 160))
    p = pd.DataFrame(P, columns=NAMES)
    w = pd.Series(np.ones(60), index=np.arange(100, 160))
    assert tc.brier(y, p, sample_weight=w) == pytest.approx(tc.brier(CODES, P), rel=1e-12)


def test_the_same_index_in_another_order_is_refused():
    y, p = pd.Series(Y), pd.DataFrame(P, columns=NAMES)
    turned = p.iloc[::-1]
    mixed = pd.Series(np.arange(60) % 7).iloc[::-1]
    calls = {
        "y_true and y_proba": (
            lambda: tc.brier(y, turned),
            lambda: tc.classwise_error(y, turned),
            lambda: tc.evaluate(y, turned),
            lambda: tc.binary_error(pd.Series(CODES == 0), turned["cat"]),
            lambda: tc.calibration_test(y, turned),
        ),
        "y_true and models\\['b'\\]": (lambda: tc.compare(y, {"a": p, "b": turned}),),
        "y_true and sample_weight": (
            lambda: tc.brier(y, p, sample_weight=mixed),
            lambda: tc.evaluate(y, p, sample_weight=mixed),
        ),
        "y_true and groups": (
            lambda: tc.evaluate(y, p, groups=mixed),
            lambda: tc.compare(y, {"a": p}, groups=mixed),
            lambda: tc.gap(y, p, groups=mixed),
            lambda: tc.analysis.mean_gap(y, p, groups=mixed),
            lambda: tc.confidence_interval(y, p, groups=mixed),
            lambda: tc.paired_difference(y, p, p, groups=mixed),
        ),
        "y_true and by": (lambda: tc.evaluate(y, p, by=mixed), lambda: tc.compare(y, {"a": p}, by=mixed)),
    }
    for who, each in calls.items():
        for call in each:
            with pytest.raises(ValueError, match=f"{who} have the same index in another order.*matched by position"):
                call()
    assert tc.brier(y, turned.loc[y.index]) == pytest.approx(tc.brier(CODES, P), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("library", VECTORS)
def test_every_vector_may_be_a_column(library):
    make = VECTORS[library]
    weights, groups, by = RNG.random(60) + 0.5, np.arange(60) % 12, np.array(["x", "y"])[np.arange(60) % 2]
    plain = tc.evaluate(CODES == 0, P[:, 0], sample_weight=weights, groups=groups, by=by, errors=["binary"])
    found = tc.evaluate(
        make(CODES == 0),
        make(P[:, 0]),
        sample_weight=make(weights),
        groups=make(groups),
        by=make(by),
        errors=["binary"],
    )
    assert_close(found, plain, 1)


def test_results_go_into_any_table():
    rows = tc.evaluate(CODES, P, n_resamples=99).to_dict()["errors"]
    assert pl.DataFrame(rows).height == pa.Table.from_pylist(rows).num_rows == len(pd.DataFrame(rows)) == len(rows)
