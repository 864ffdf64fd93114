"""Input that once went wrong: bins without number, hidden values, huge and tiny logits, things that are no numbers."""

from __future__ import annotations

import datetime
import tracemalloc
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array, csr_matrix
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from closeness import assert_close
from recalibration_cases import AFFINE, BINNED, MAPS, draw
from truecal.recalibration import (
    CanonicalRecalibration,
    HistogramBinning,
    Identity,
    ScalingBinning,
    StructuredMatrixScaling,
    StructuredVectorScaling,
    TemperatureScaling,
    select_recalibration,
)

pytestmark = pytest.mark.slow

SCALING = (TemperatureScaling, *AFFINE, ScalingBinning, StructuredVectorScaling, StructuredMatrixScaling)


def assert_predicts(fitted, z):
    p = fitted.predict_proba(z)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    logits = fitted.transform(z)
    assert not np.isnan(logits).any() and not np.isposinf(logits).any()


# -- bins ----------------------------------------------------------------------------------------------------------


def with_strategies(classes):
    quantile: list[tuple[type, dict[str, str]]] = [(cls, {}) for cls in classes]
    return quantile + [(cls, {"strategy": "uniform"}) for cls in classes if cls is not CanonicalRecalibration]


@pytest.mark.parametrize(("cls", "options"), with_strategies(BINNED))
@pytest.mark.parametrize("n_bins", [10**8, 2**31, 2**62])
def test_more_bins_than_rows_cost_what_the_rows_cost(cls, options, n_bins):
    z, y = draw(20, 3)
    tracemalloc.start()
    try:
        fitted = cls(n_bins=n_bins, **options).fit(z, y)
        assert_predicts(fitted, draw(50, 3, seed=1)[0])
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("cls", BINNED)
def test_as_many_quantile_bins_as_rows_are_as_many_as_there_can_be(cls):
    z, y = draw(30, 3)
    new = draw(200, 3, seed=1)[0]
    expected = cls(n_bins=30).fit(z, y).predict_proba(new)
    assert_close(cls(n_bins=2**40).fit(z, y).predict_proba(new), expected)


@pytest.mark.parametrize("n_bins", [61, 97, 1000, 4096, 99_991])
@pytest.mark.parametrize("options", [{}, {"scaling": Identity()}], ids=["HistogramBinning", "ScalingBinning"])
def test_equal_width_bins_without_rows_are_left_out_and_change_nothing(options, n_bins):
    """On the edges and beside them: 15 rows have a short list of edges, the same rows many times over a full one."""
    grid = np.array([1 / 61, 7 / 97, 0.123, 0.25, 0.5])
    first = np.concatenate([grid, np.nextafter(grid, 0), np.nextafter(grid, 1)])
    new = np.concatenate([np.linspace(0.001, 0.999, 4001), first])
    p, p_new, y = np.column_stack([first, 1 - first]), np.column_stack([new, 1 - new]), np.arange(15) % 2
    binning = (ScalingBinning if options else HistogramBinning).from_probabilities(
        n_bins=n_bins, strategy="uniform", **options
    )
    short, times = clone(binning).fit(p, y), n_bins // 15 + 1
    full = binning.fit(np.tile(p, (times, 1)), np.tile(y, times))
    assert len(short.edges_[0]) <= 60 and len(full.edges_[0]) == n_bins - 1
    np.testing.assert_allclose(short.predict_proba(p_new), full.predict_proba(p_new), atol=1e-12)


@pytest.mark.parametrize("n_bins", [10**30, 0, -1])
@pytest.mark.parametrize("cls", BINNED)
def test_bin_counts_out_of_range_are_refused(cls, n_bins):
    with pytest.raises(ValueError, match=r"n_bins must be at (most 9,223|least 1)"):
        cls(n_bins=n_bins).fit(*draw(20, 3))


@pytest.mark.parametrize("n_bins", [2.5, "a", True, None])
@pytest.mark.parametrize("cls", BINNED)
def test_bin_counts_that_are_none_are_refused(cls, n_bins):
    with pytest.raises(TypeError, match="n_bins must be a whole number of at least 1, got"):
        cls(n_bins=n_bins).fit(*draw(20, 3))


# -- values that are hidden, and things that are no numbers ---------------------------------------------------------


@pytest.mark.parametrize("cls", MAPS)
def test_hidden_values_of_masked_arrays_are_refused(cls):
    z, y = draw(30, 3)
    rows = np.arange(30) == 4
    hidden = np.ma.masked_array(z, mask=np.zeros_like(z, bool))
    hidden[4, 1] = np.ma.masked
    fitted = cls().fit(np.ma.masked_array(z), y)  # nothing is masked
    for attempt in (lambda: cls().fit(hidden, y), lambda: fitted.predict_proba(hidden)):
        with pytest.raises(ValueError, match="X has masked entries; every row must have a value"):
            attempt()
    with pytest.raises(ValueError, match="y has masked entries"):
        cls().fit(z, np.ma.masked_array(y, mask=rows))
    with pytest.raises(ValueError, match="sample_weight has masked entries"):
        cls().fit(z, y, np.ma.masked_array(np.ones(30), mask=rows))
    with pytest.raises(ValueError, match="labels has masked entries"):
        cls(labels=np.ma.masked_array([0, 1, 2], mask=[False, True, False])).fit(z, y)


def test_masked_probabilities_and_selections_are_refused():
    z, y = draw(60, 3)
    p = np.ma.masked_array(softmax(z, axis=1), mask=z > 3)
    with pytest.raises(ValueError, match="X has masked entries"):
        TemperatureScaling.from_probabilities().fit(p, y)
    with pytest.raises(ValueError, match="logits_select has masked entries"):
        select_recalibration(
            [TemperatureScaling()], z[:30], y[:30], np.ma.masked_array(z[30:], mask=z[30:] > 3), y[30:]
        )


Z, Y = draw(30, 3)
NO_NUMBERS = {
    "decimals": (np.vectorize(Decimal)(Z), r"X must hold numbers.*Decimal.*at row 0, column 0"),
    "lists of decimals": (np.vectorize(Decimal)(Z).tolist(), r"X must hold numbers.*Decimal.*at row 0, column 0"),
    "frame of decimals": (pd.DataFrame(np.vectorize(Decimal)(Z)), r"X must hold numbers.*Decimal"),
    "fractions": (np.vectorize(Fraction)(Z), r"X must hold numbers.*Fraction.*at row 0, column 0"),
    "dates": ([[datetime.date(2020, 1, 1)] * 3] * 30, r"X must hold numbers.*datetime\.date"),
    "times": (np.full((30, 3), np.datetime64("2020-01-01")), r"X must hold numbers.*datetime64"),
    "durations": (np.full((30, 3), np.timedelta64(1, "s")), r"X must hold numbers.*timedelta64"),
    "objects": (np.full((30, 3), object()), "must be a string or a real number, not 'object'"),
    "missing": (
        pd.DataFrame(Z).astype(object).mask(Z > 3, None).to_numpy(),
        r"X has no value \(None\) at row \d+, column \d",
    ),
    "missing in a frame": (pd.DataFrame(Z).astype("Float64").mask(Z > 3), r"X has no value \(<NA>\) at row"),
    "sparse matrix": (csr_matrix(Z), "Sparse data was passed for X, but dense data is required"),
    "sparse array": (csr_array(Z), "Sparse data was passed for X, but dense data is required"),
    "lazy frame": (pl.DataFrame(Z).lazy(), r"X is a LazyFrame that is not computed yet; call \.collect\(\) first"),
    "none": (None, "X must be an array, got None"),
    "dict": ({"a": 1}, "X must be an array, got dict"),
    "generator": ((row for row in Z), "X must be an array, got generator"),
}


@pytest.mark.parametrize("what", NO_NUMBERS)
def test_what_is_no_array_of_numbers_is_refused_in_words(what):
    X, message = NO_NUMBERS[what]
    with pytest.raises(TypeError, match=message):
        TemperatureScaling().fit(X, Y)
    with pytest.raises(TypeError, match=message):
        HistogramBinning().fit(Z, Y).predict_proba(X)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ([Decimal(1)] * 30, r"Decimal\('1'\) \(Decimal\) at row 0"),
        ([datetime.date(2020, 1, 1)] * 30, r"\(date\) at row 0"),
        ([object()] * 30, r"\(object\) at row 0"),
        (csr_matrix(np.ones((30, 1))), r"is sparse \(csr_matrix\); make it dense first, with \.toarray\(\)"),
        ([None] * 30, r"has no value \(None\) at row 0"),
    ],
)
def test_labels_and_weights_that_are_none_are_refused_in_words(given, kind):
    with pytest.raises(TypeError, match=f"y .*{kind}"):
        TemperatureScaling().fit(Z, given)
    with pytest.raises(TypeError, match=f"sample_weight .*{kind}"):
        TemperatureScaling().fit(Z, Y, given)


# -- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e200, 1e300, 1e-200, 1e-299])
@pytest.mark.parametrize("cls", MAPS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_logits_of_any_size_give_finite_probabilities(cls, scale):
    for fitted_on, new in ((Z * scale, Z), (Z, Z * scale)):
        fitted = cls().fit(fitted_on, Y)
        assert_predicts(fitted, fitted_on)
        assert_predicts(fitted, new)


@pytest.mark.parametrize("cls", MAPS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_differences_beyond_the_largest_float(cls):
    z = np.array([[1.7e308, -1.7e308, 0.0], [-1.7e308, 1.7e308, 1.0], [1.7e308, 0.0, -1.7e308]] * 3)
    fitted = cls().fit(z, [0, 0, 1] * 3)
    assert_predicts(fitted, z)
    assert_predicts(fitted, Z)


@pytest.mark.parametrize("scale", [1e-310, 1e-320, 5e-324])
@pytest.mark.parametrize("cls", MAPS)
def test_logits_too_small_to_scale_are_refused_and_others_stay_finite(cls, scale):
    if cls in SCALING:
        with pytest.raises(ValueError, match="which no temperature of float64 can resolve: multiply X by a constant"):
            cls().fit(Z * scale, Y)
    else:
        assert_predicts(cls().fit(Z * scale, Y), Z * scale)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert_predicts(cls().fit(Z, Y), Z * scale)


def test_numbers_beyond_float64_are_refused_by_place():
    huge = Z.astype(np.longdouble)
    huge[2, 1] = np.longdouble("1e4000")
    if not np.isfinite(huge).all():
        pytest.skip("long double is no wider than float64 here")
    with pytest.raises(ValueError, match="X has inf at row 2, column 1"):
        TemperatureScaling().fit(huge, Y)


# -- rows of weight zero -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", MAPS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_of_weight_zero_are_absent(cls):
    z, y = draw(60, 3)
    odd = np.array([[-np.inf, 0.0, 0.0]])  # of an infinite loss, or no logits for an affine map
    z, y = np.concatenate([odd, z]), np.concatenate([[0], y])
    weight = np.r_[0.0, np.random.default_rng(0).integers(0, 3, 60)]
    kept = weight > 0
    fitted = cls().fit(z, y, weight)
    expected = cls().fit(z[kept], y[kept], weight[kept])
    assert_close(fitted.predict_proba(z[kept]), expected.predict_proba(z[kept]))


def test_messages_name_the_row_as_given_beside_rows_of_weight_zero():
    z, y = draw(5, 3)
    z[3, y[3]] = -np.inf
    weight = [0, 0, 1, 1, 1]
    with pytest.raises(ValueError, match="row 3: the logit of its own class"):
        TemperatureScaling().fit(z, y, weight)
    for cls in AFFINE:
        with pytest.raises(ValueError, match="row 3 has a logit of -inf"):
            cls().fit(z, y, weight)
