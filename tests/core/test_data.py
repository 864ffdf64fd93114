"""What may be handed in, and the one clear error for what may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

import truecal
from closeness import assert_close
from truecal.core.data import as_array, check_logits

tc: Any = truecal  # what a test hands in need not be of the right type

Y = [0, 1, 2, 1]
P = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5], [0.5, 0.3, 0.2]])
VALUE = tc.classwise_error(Y, P, n_bins=2)


class Wrapped:
    """Anything with __array__."""

    def __init__(self, array):
        self.array = np.asarray(array)

    def __array__(self, dtype=None, copy=None):
        return self.array if dtype is None else self.array.astype(dtype)


class Capsule:
    """Anything with DLPack and nothing else."""

    def __init__(self, array):
        self._array = np.asarray(array)

    def __dlpack__(self, **options):
        return self._array.__dlpack__()

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize(
    ("labels", "matrix"),
    [
        (list, lambda a: a.tolist()),
        (tuple, np.asfortranarray),
        (pd.Series, pd.DataFrame),
        (lambda y: pd.Series(y, dtype="category").astype("int64"), pd.DataFrame),
        (pl.Series, lambda a: pl.DataFrame(a, schema=["a", "b", "c"])),
        (pa.array, lambda a: pa.table({str(j): a[:, j] for j in range(3)})),
        (lambda y: pa.chunked_array([y[:1], y[1:]]), lambda a: pa.record_batch({str(j): a[:, j] for j in range(3)})),
        (torch.tensor, torch.tensor),
        (torch.tensor, lambda a: torch.tensor(a, requires_grad=True)),
        (Wrapped, Wrapped),
        (Capsule, Capsule),
        (lambda y: np.array(y, dtype=object), lambda a: a.astype(object)),
        (lambda y: np.array(y, dtype=float), lambda a: a),
        (lambda y: np.array(y)[:, None], lambda a: a),
    ],
)
def test_every_kind_of_array_gives_the_same_number(labels, matrix):
    assert tc.classwise_error(labels(Y), matrix(P), n_bins=2) == pytest.approx(VALUE, rel=1e-14)


def test_half_precision_is_computed_in_float32_and_summed_in_float64():
    p = np.random.default_rng(0).dirichlet(np.ones(50), 200)
    half = p.astype(np.float16)
    y = np.random.default_rng(1).integers(0, 50, 200)
    assert tc.classwise_error(y, half) == pytest.approx(tc.classwise_error(y, half.astype(np.float64)), rel=1e-9)
    brain = torch.tensor(p).to(torch.bfloat16)
    assert tc.brier(y, brain) == pytest.approx(tc.brier(y, p), rel=0.02)


def test_one_hot_integers_are_probabilities():
    assert tc.classwise_error([0, 1], np.eye(2, dtype=np.int64), n_bins=1) == 0.0


def test_polars_and_pandas_list_columns():
    column = pd.Series([row.tolist() for row in P])
    assert tc.classwise_error(Y, column, n_bins=2) == pytest.approx(VALUE, rel=1e-14)


LOGITS = np.log(P)
BAD = [
    (lambda: tc.classwise_error(Y, LOGITS), ValueError, r"row 0 of .* sums to .* look like logits .* apply softmax"),
    (lambda: tc.classwise_error(Y, 3 * P - 1), ValueError, r"row .* of y_proba sums.*at column \d"),
    (lambda: tc.classwise_error(Y, 100 * P), ValueError, r"look like percentages; divide by 100"),
    (lambda: tc.classwise_error(Y, P * 0.9), ValueError, r"row 0 of y_proba sums to 0\.9; .*\(within 0\.001\)"),
    (lambda: tc.classwise_error(Y, P * 3), ValueError, r"row 0 of y_proba sums to 3, "),
    (lambda: tc.classwise_error(Y, np.where(P == 0.8, np.nan, P)), ValueError, r"NaN at row 1, column 1"),
    (lambda: tc.classwise_error(Y, np.where(P == 0.8, np.inf, P)), ValueError, r"infinite value at row 1, column 1"),
    (lambda: tc.classwise_error(P, Y), ValueError, r"look swapped; labels come first"),
    (lambda: tc.brier(P, Y), ValueError, r"look swapped; labels come first"),
    (lambda: tc.classwise_error([0, 1, 3, 1], P), ValueError, r"column indices from 0 to 2; row 2 has 3"),
    (lambda: tc.classwise_error([0, -1, 2, 1], P), ValueError, r"row 1 has -1"),
    (lambda: tc.classwise_error([1, 2, 3, 2], P), ValueError, r"1-based coding; expected 0\.\.2"),
    (lambda: tc.classwise_error([0, 1.5, 2, 1], P), ValueError, r"class indices, got 1\.5 at row 1"),
    (lambda: tc.classwise_error([0, np.nan, 2, 1], P), ValueError, r"class indices, got nan at row 1"),
    (lambda: tc.classwise_error(list("abca"), P), TypeError, r"holds strings; pass labels="),
    (lambda: tc.classwise_error([True, False, True, True], P[:, :2]), ValueError, r"row 0 of .* sums to 0\.9"),
    (lambda: tc.classwise_error([True, False], [[0.5, 0.5], [0.1, 0.9]]), TypeError, r"holds bools; pass labels="),
    (lambda: tc.classwise_error(list("abcx"), P, labels=list("abc")), ValueError, r"has x at row 3, which is not in"),
    (lambda: tc.classwise_error(list("abca"), P, labels=list("ab")), ValueError, r"labels must name the 3 columns"),
    (lambda: tc.classwise_error(list("abca"), P, labels=list("aba")), ValueError, r"distinct, got a twice"),
    (lambda: tc.classwise_error(Y, P, labels=list("abc")), TypeError, r"expected the same kind"),
    (lambda: tc.classwise_error(Y[:3], P), ValueError, r"y_true has 3, y_proba has 4"),
    (lambda: tc.classwise_error([], np.empty((0, 3))), ValueError, r"y_proba is empty"),
    (lambda: tc.classwise_error(Y, P[:, 0]), ValueError, r"shape \(n_samples, n_classes\), got shape \(4,\)"),
    (lambda: tc.classwise_error(Y, P[:, :1]), ValueError, r"at least two columns"),
    (lambda: tc.classwise_error(np.eye(3)[Y][:, :2], P), ValueError, r"y_true has 2 columns and y_proba has 3"),
    (lambda: tc.classwise_error(Y, P, n_bins=0), ValueError, r"n_bins must be at least 1, got 0"),
    (lambda: tc.classwise_error(Y, P, n_bins=-3), ValueError, r"n_bins must be at least 1, got -3"),
    (lambda: tc.classwise_error(Y, P, n_bins=2.5), TypeError, r"n_bins must be a whole number .* got 2\.5"),
    (lambda: tc.classwise_error(Y, P, n_bins=True), TypeError, r"n_bins must be a whole number"),
    (lambda: tc.classwise_error(Y, P, n_bins="5"), TypeError, r"n_bins must be a whole number"),
    (lambda: tc.classwise_error(Y, P, n_bins=[]), ValueError, r"at least one count"),
    (lambda: tc.classwise_error(Y, P, n_bins=[5, 0]), ValueError, r"got 0"),
    (lambda: tc.classwise_error(Y, P, strategy="kmeans"), ValueError, r"strategy must be one of 'quantile'"),
    (lambda: tc.classwise_error(Y, P, strategy="two_bin", n_bins=5), ValueError, r"n_bins=5 cannot be used"),
    (lambda: tc.classwise_error(Y, P, strategy="uniform", ties="row"), ValueError, r"ties='row' cannot be used"),
    (lambda: tc.classwise_error(Y, P, strategy=tc.Quantile(3), n_bins=5), ValueError, r"n_bins=5 cannot be used"),
    (lambda: tc.classwise_error(Y, P, ties="sometimes"), ValueError, r"ties must be one of"),
    (lambda: tc.classwise_error(Y, P, norm="l3"), ValueError, r"norm must be 'l1' or 'l2', got 'l3'"),
    (
        lambda: tc.classwise_error(Y, P, norm="l1", ties="average"),
        ValueError,
        r"'average' cannot be used with norm='l1'",
    ),
    (lambda: tc.classwise_error(Y, P, norm="l1", strategy="two_bin"), ValueError, r"norm='l1' cannot be used"),
    (lambda: tc.classwise_error(Y, P, scale="big"), ValueError, r"scale must be one of .*, 'score', got 'big'"),
    (lambda: tc.confidence_error(Y, P, norm="l1", corrected=True), ValueError, r"corrected=True cannot be used"),
    (lambda: tc.CalibrationError(tc.Binary(), tc.TwoBin(), corrected=True), ValueError, r"has no correction"),
    (lambda: tc.classwise_error(Y, P, sample_weight=[1, 1, -1, 1]), ValueError, r"not be negative, got -1 at row 2"),
    (lambda: tc.classwise_error(Y, P, sample_weight=[0, 0, 0, 0]), ValueError, r"must not be all zero"),
    (lambda: tc.classwise_error(Y, P, sample_weight=[1, 1]), ValueError, r"sample_weight must have shape \(4,\)"),
    (lambda: tc.classwise_error(Y, P, sample_weight=[1, np.nan, 1, 1]), ValueError, r"NaN at row 1"),
    (lambda: tc.classwise_error(Y, np.array([[{}, 1], [1, 2]], dtype=object)), TypeError, r"object array with \{\}"),
    (lambda: tc.classwise_error(None, P), TypeError, r"y_true must be an array, got None"),
    (lambda: tc.classwise_error(Y, P.astype(complex)), TypeError, r"numbers or strings, got dtype complex128"),
    (lambda: tc.classwise_error(Y, "probabilities"), ValueError, r"y_proba must have shape"),
    (lambda: tc.classwise_error(Y, [[0.5, 0.5], [1.0]]), TypeError, r"y_proba could not be read as an array"),
    (lambda: tc.full_error(Y, P, strategy="voronoi"), ValueError, r"strategy must be one of 'argmax'"),
    (lambda: tc.full_error(Y, P, strategy=tc.Quantile(3)), ValueError, r"bins scalars; vector reports need"),
    (lambda: tc.full_error(Y, P, strategy="exact", n_bins=3), ValueError, r"n_bins=3 cannot be used"),
    (lambda: tc.classwise_error(Y, P, strategy=tc.rules.KdTree(3)), ValueError, r"bins vectors; scalar reports need"),
    (lambda: tc.classwise_error(Y, P, strategy=tc.Edges([0, 0.4, 0.6])), ValueError, r"do not cover .* row 0"),
    (lambda: tc.Edges([0, 0.5, 0.5, 1]), ValueError, r"finite increasing numbers"),
    (lambda: tc.Poisson(theta=0), ValueError, r"theta must be a positive number, got 0"),
    (lambda: tc.binary_error([0, 1], [0.2, 1.2]), ValueError, r"y_proba must lie in \[0, 1\], got 1\.2 at row 1"),
    (lambda: tc.binary_error([0, 1], [20, 80]), ValueError, r"percentages must be divided by 100"),
    (lambda: tc.binary_error([0, 1], [[0.2, 0.8], [0.3, 0.8]]), ValueError, r"row 1 of .* sums to 1\.1"),
    (lambda: tc.binary_error([0, 1, 2], [0.2, 0.8, 0.1]), ValueError, r"two classes, one of them pos_label=1"),
    (lambda: tc.binary_error(["no", "yes"], [0.2, 0.8]), TypeError, r"pass the positive class as pos_label"),
    (lambda: tc.binary_error(["no", "yes"], [0.2, 0.8], pos_label="ja"), ValueError, r"one of them pos_label='ja'"),
    (lambda: tc.binary_error([1, 2], [0.2, 0.8]), ValueError, r"not 0 and 1: recode them"),
    (lambda: tc.binary_error([0, 1], [0.5, 0.5], sample_weight=[1]), ValueError, r"sample_weight must have shape"),
    (lambda: tc.top_label_error([0, 2], [0.5, 0.5]), ValueError, r"only true/false or 1/0.*got 2 at row 1"),
    (lambda: tc.classwise_error([0, 1, 2**70, 1], P), ValueError, r"y_true holds a number too large"),
    (lambda: tc.classwise_error(Y, P * 1e308), ValueError, r"row .* of y_proba sums.*expected probabilities"),
    (lambda: tc.classwise_error(Y, P, n_bins={5, 20}), TypeError, r"n_bins must be a whole number"),
    (lambda: tc.classwise_error(Y, P, n_bins=10**13), ValueError, r"n_bins must be at most 100,000,000"),
    (lambda: tc.Edges(["a", "b"]), TypeError, r"edges must be numbers"),
    (lambda: tc.Poisson(theta=True), TypeError, r"theta must be a positive number"),
    (lambda: tc.binary_error([0, 0], [0.2, 0.8], pos_label=7), ValueError, r"one of them pos_label=7, got 0 at row 0"),
    (lambda: tc.binary_error([0, 1], [0.2, 0.8], pos_label=[1]), TypeError, r"pos_label must be one class"),
    (lambda: tc.binary_error([0, 1, 5], [0.2, 0.8, 0.1]), ValueError, r"got 5 at row 2"),
    (lambda: tc.linear_error([1.0, 2], [1.0, 2], range=(-1e308, 1e308)), ValueError, r"pair low < high"),
    (lambda: tc.linear_error([[1.0], [2.0, 3.0]], [1.0, 2]), TypeError, r"outcomes could not be read"),
    (lambda: tc.classwise_error({"a": 1}, P), TypeError, r"y_true must be an array, got dict"),
    (lambda: tc.classwise_error(Y, (row for row in P)), TypeError, r"y_proba must be an array, got generator"),
    (lambda: tc.classwise_error(torch.tensor(Y).to_sparse(), P), TypeError, r"y_true could not be read"),
    (lambda: tc.classwise_error(["a", None, "b", "b"], P), TypeError, r"no value \(None\) at row 1"),
    (lambda: tc.classwise_error(pd.Series(["a", "b", None, "b"]), P, labels=list("abc")), TypeError, r"at row 2"),
    (lambda: tc.classwise_error(pl.Series(["a", "b", None, "b"]), P, labels=list("abc")), TypeError, r"at row 2"),
    (lambda: tc.classwise_error(pa.array([0, 1, None, 1]), P), TypeError, r"y_true has no value at row 2"),
    (lambda: tc.classwise_error(np.array(["a", 1, "b", "b"], object), P), TypeError, r"with 1 \(int\) at row 1"),
    (
        lambda: tc.analysis.tabulate(tc.Binary(), tc.Quantile(2), [0, 1], [0.5, 0.5], norm="l3"),
        ValueError,
        r"norm must be",
    ),
    (lambda: tc.ERRORS["classwise_two_bin"].tables(Y, P), ValueError, r"has no table of bins"),
    (lambda: tc.top_label_error([0, 1], [0.5, -0.5]), ValueError, r"confidence must lie in \[0, 1\]"),
    (lambda: tc.linear_error([1.0, 2], [1.0, 2], strategy="uniform"), ValueError, r"need range=\(low, high\)"),
    (lambda: tc.linear_error([1.0, 2], [1.0, 2], strategy="two_bin"), ValueError, r"needs range=\(low, high\)"),
    (lambda: tc.linear_error([1.0, 2], [1.0, 2], range=(0, 1)), ValueError, r"reports must lie in \[0, 1\], got 2"),
    (lambda: tc.linear_error([1.0, 2], [1.0, 2], range=(1, 0)), ValueError, r"pair low < high"),
    (lambda: tc.linear_error([1.0, 2], [1.0, 2, 3]), ValueError, r"same shape, got \(2,\) and \(3,\)"),
    (lambda: tc.linear_error(P, P, strategy="quantile"), ValueError, r"strategy must be one of 'kd', 'exact'"),
    (lambda: tc.CalibrationError(tc.Linear([1.0, 2]), tc.TwoBin())(Y, P), ValueError, r"phi has 2 classes"),
    (lambda: tc.Linear([[np.nan], [1]]), ValueError, r"phi has NaN"),
    (lambda: tc.decompose(Y, P, error="ece"), ValueError, r"error must be one of 'classwise'"),
    (lambda: tc.decompose(Y, P, error="classwise_l1"), ValueError, r"norm='l1' has no loss part"),
    (lambda: tc.brier(Y, P, sample_weight=[1, 1, 1, 1], per_example=True), ValueError, r"cannot be used with per_ex"),
    (lambda: tc.CalibrationError(tc.Quantile(3), tc.Binary()), TypeError, r"property must be"),
    (lambda: tc.CalibrationError(tc.Binary(), 15), TypeError, r"binning must be a rule such as Quantile"),
    (lambda: check_logits([[0.0, np.nan]]), ValueError, r"logits has nan at row 0, column 1"),
    (lambda: check_logits([[-np.inf, -np.inf]]), ValueError, r"row 0 is -inf in every column"),
    (lambda: tc.classwise_error(Y, np.ma.masked_equal(P, 0.8)), ValueError, r"masked entries"),
]


@pytest.mark.parametrize(("call", "kind", "words"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_bad_input_gets_one_clear_error(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_every_kind_of_arrow_array():
    names = ["ant", "bee", "cat"]
    labels = pa.array([names[i] for i in Y])
    for y in (labels, labels.dictionary_encode(), pa.chunked_array([labels])):
        assert tc.classwise_error(y, P, labels=names, n_bins=2) == pytest.approx(VALUE, rel=1e-14)
    lists = pa.array(P.tolist())
    assert tc.classwise_error(pa.array(Y), lists, n_bins=2) == pytest.approx(VALUE, rel=1e-14)
    assert_close(
        tc.top_label_error(pa.array([True, False]), [0.5, 0.6], n_bins=1),
        tc.top_label_error([1, 0], [0.5, 0.6], n_bins=1),
    )


def test_variable_width_strings_and_bytes():
    names = np.array(["ant", "bee", "cat"], dtype=np.dtypes.StringDType())
    assert_close(tc.brier(names[Y], P, labels=["ant", "bee", "cat"]), tc.brier(Y, P))
    assert tc.binary_error(np.array([b"n", b"y"]), [0.2, 0.8], pos_label="y", n_bins=1) == pytest.approx(0.0)


def test_rounding_outside_the_simplex_is_rounding():
    tc.brier([0, 1], np.array([[1 + 2.3e-16, 0.0], [-1e-17, 1.0]]))
    assert tc.classwise_error([0, 1], np.array([[1 + 2.3e-16, -1e-17], [0.0, 1.0]]), strategy="uniform") < 1e-30
    with pytest.raises(ValueError, match=r"with 1\.00001 at column 0"):
        tc.brier([0], np.array([[1.00001, 0.0]]))


@pytest.mark.parametrize("size", [1e-200, 1e200, 1e306])
def test_the_unit_of_weights_does_not_matter(size):
    w = np.array([1.0, 2.0, 3.0, 4.0])
    for call in (tc.classwise_error, tc.confidence_error, tc.full_error):
        value = call(Y, P, sample_weight=w * size, n_bins=2)
        assert value == pytest.approx(call(Y, P, sample_weight=w, n_bins=2), rel=1e-12)


def test_negative_zero_is_zero():
    p = np.array([[-0.0, 1.0], [1.0, -0.0]])
    assert tc.classwise_error([1, 0], p, strategy="uniform", n_bins=4) == 0.0
    assert tc.classwise_error([1, 0], p, n_bins=2) == 0.0


def test_rows_may_be_off_by_rounding_and_no_more():
    p = np.array([[0.3335, 0.3333, 0.3335]])
    tc.brier([0], p)
    with pytest.raises(ValueError, match=r"row 0 of .* sums to"):
        tc.brier([0], p + 0.001)


def test_labels_may_be_bools_numbers_or_strings_with_names():
    p = np.array([[0.2, 0.8], [0.6, 0.4]])
    value = tc.brier([1, 0], p)
    assert_close(tc.brier([True, False], p, labels=[False, True]), value)
    assert_close(tc.brier([7, 3], p, labels=[3, 7]), value)
    assert_close(tc.brier(["yes", "no"], p, labels=["no", "yes"]), value)


def test_binary_takes_bools_and_signs():
    value = tc.binary_error([0, 1], [0.2, 0.8], n_bins=1)
    assert_close(tc.binary_error([False, True], [0.2, 0.8], n_bins=1), value)
    assert_close(tc.binary_error([-1, 1], [0.2, 0.8], n_bins=1), value)
    assert_close(tc.binary_error(["n", "y"], [0.2, 0.8], n_bins=1, pos_label="y"), value)
    assert tc.binary_error([0, 0], [0.2, 0.8], n_bins=1) == pytest.approx(0.25)


def test_arrays_on_another_device_are_refused():
    with pytest.raises(TypeError, match=r"on device meta; move it to the CPU"):
        as_array(torch.empty(3, device="meta"), "y_true")
