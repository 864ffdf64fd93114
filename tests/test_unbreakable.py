"""What attacks found, each by its name: work that grew without bound, numbers that were none, errors without words."""

from __future__ import annotations

import json
import tracemalloc
import warnings
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fuzz_api
import truecal as tc

RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(3), 60)
Y = RNG.integers(0, 3, 60)
U = RNG.random(60)
Z = (RNG.random(60) < U).astype(int)


BY_TEMPERATURE = ("DirichletScaling", "MatrixScaling", "ScalingBinning", "TemperatureScaling", "VectorScaling")


def refuses(call: Callable[[], Any], words: str, kind: type[Exception] = ValueError) -> None:
    with pytest.raises(kind, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


# -- work and memory ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.9999, 0.9999999999999999, 1 - 1e-12])
def test_a_level_that_would_need_endless_draws_is_refused(level: float) -> None:
    for call in (tc.evaluate, tc.gap, tc.confidence_interval, tc.analysis.consistency_bands):
        refuses(lambda call=call: call(Y, P, level=level), "level must be at most 0.999")  # type: ignore[misc]  # a default binds the loop's value


def test_draws_are_bounded() -> None:
    refuses(lambda: tc.calibration_test(Y, P, n_resamples=10**9), "resamples must be at most 100,000")


def peak_megabytes(call: Callable[[], Any]) -> float:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        lambda m: tc.classwise_error(Y, P, n_bins=m),
        lambda m: tc.classwise_error(Y, P, n_bins=m, strategy="uniform"),
        lambda m: tc.binary_error(Z, U, n_bins=m, strategy="uniform", sample_weight=np.ones(60)),
        lambda m: tc.full_error(Y, P, n_bins=m),
        lambda m: tc.full_error(Y, P, strategy="kd", n_bins=m),
        lambda m: tc.evaluate(Z, U, n_bins=m, diagram_bins=m, n_resamples=39),
        lambda m: tc.calibration_test(Y, P, error="classwise", n_bins=m, n_resamples=39),
    ],
)
def test_bins_that_cannot_hold_a_row_cost_nothing(call: Callable[[int], Any]) -> None:
    assert peak_megabytes(lambda: call(10**8)) < 60


def test_more_bins_than_any_memory_are_refused() -> None:
    refuses(lambda: tc.binary_error(Z, U, n_bins=2**31), "n_bins must be at most 100,000,000")


@pytest.mark.slow
@pytest.mark.heavy
def test_memory_follows_the_rows() -> None:
    def peak(n: int) -> float:
        p = RNG.random(n)
        return peak_megabytes(lambda: tc.evaluate(RNG.random(n) < p, p, n_resamples=39))

    assert (
        peak(600_000) - peak(300_000) < 250 * 300_000 / 1e6
    )  # bytes for each row more; the test looks at so many only


# -- numbers -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_row_without_weight_may_have_an_infinite_loss() -> None:
    p, y, w = P.copy(), Y.copy(), np.ones(60)
    p[0], y[0], w[0] = [1.0, 0.0, 0.0], 1, 0.0
    assert tc.cross_entropy(y, p, sample_weight=w) == pytest.approx(tc.cross_entropy(y[1:], p[1:]))
    assert np.isfinite(tc.evaluate(y, p, sample_weight=w).loss("cross_entropy").value)
    result = tc.compare(y, {"a": p, "b": p[:, ::-1]}, sample_weight=w)
    json.dumps(result.to_dict(), allow_nan=False)


@pytest.mark.parametrize("size", [1e200, 1e-200, 5e307])
def test_outcome_values_whose_squares_are_no_numbers_are_refused(size: float) -> None:
    values, reports = RNG.uniform(-1, 1, 60) * size, RNG.uniform(-1, 1, 60) * size
    for call in (tc.linear_error, tc.losses.linear_loss):
        refuses(lambda call=call: call(values, reports), "outcomes .*rescale")  # type: ignore[misc]  # a default binds the loop's value
    refuses(lambda: tc.gap(values, reports, error="linear"), "outcomes .*rescale")
    refuses(lambda: tc.CalibrationError(tc.Linear(values[:3]), tc.Quantile(5)), "phi .*rescale")


@pytest.mark.parametrize("size", [1e50, 1e-50])
def test_outcome_values_in_any_sensible_unit_give_the_same_gap(size: float) -> None:
    values, reports = RNG.uniform(-1, 1, 60), RNG.uniform(-1, 1, 60)
    here, there = tc.gap(values, reports, error="linear"), tc.gap(values * size, reports * size, error="linear")
    assert there.points == pytest.approx(here.points * size, rel=1e-9, abs=0)
    json.dumps(there.to_dict(), allow_nan=False)


@pytest.mark.parametrize("error", ["classwise", "classwise_two_bin", "full"])
def test_weights_of_any_range_give_numbers(error: str) -> None:
    w = 10.0 ** RNG.uniform(-300, 300, 60)
    assert np.isfinite(tc.score(Y, P, error=error, sample_weight=w))
    json.dumps(tc.gap(Y, P, error=error, sample_weight=w).to_dict(), allow_nan=False)
    json.dumps(tc.evaluate(Y, P, sample_weight=w / 1e200, errors=[error]).to_dict(), allow_nan=False)


def test_weights_that_double_precision_cannot_hold_are_refused() -> None:
    refuses(lambda: tc.brier(Y, P, sample_weight=np.full(60, np.longdouble("1e4000"))), "sample_weight has an infinite")
    refuses(lambda: tc.brier(Y, P, sample_weight=np.full(60, np.longdouble("1e-4000"))), "sample_weight .* all zero")


@pytest.mark.slow
@pytest.mark.parametrize("size", [1e-310, 1e200, 1e308])
def test_logits_of_any_size_give_probabilities_or_words(size: float) -> None:
    logits = RNG.uniform(-1, 1, (60, 3)) * size
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for name in fuzz_api.MAPS:
            if name in BY_TEMPERATURE and size < 1e-300:
                refuses(lambda name=name: fuzz_api.PUBLIC[name]().fit(logits, Y), "multiply X by a constant")  # type: ignore[misc]  # a default binds the loop's value
                continue
            proba = fuzz_api.PUBLIC[name]().fit(logits, Y).predict_proba(logits)
            np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-9)


def test_one_huge_logit_among_tiny_ones_is_fitted() -> None:
    logits = RNG.uniform(-1, 1, (60, 2)) * 1e-310
    logits[0, 1] = 1e308
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert tc.TemperatureScaling().fit(logits, Y % 2).temperature_ > 0


def test_the_direction_of_predictions_next_to_certain_has_a_pvalue() -> None:
    u = np.full(40, 1e-17)
    found = tc.analysis.mean_gap(np.ones(40, dtype=int), u, error="binary", groups=np.arange(40))
    assert 0 <= found.pvalue <= 1


# -- words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", [Decimal("0.5"), Fraction(1, 2), date(2020, 1, 1), object(), 1j, np.datetime64(1, "D")]
)
def test_objects_that_are_no_numbers_are_refused_by_their_place(value: Any) -> None:
    refuses(lambda: tc.binary_error([0, 1], [value, value]), "y_proba must hold numbers", TypeError)
    refuses(lambda: tc.evaluate([value, value], [0.5, 0.5]), "y_true must hold numbers", TypeError)


class Odd:
    def __repr__(self) -> str:
        return "two\nlines" * 100


class Worse:
    def __repr__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("value", [Odd(), Worse()])
def test_a_message_shows_any_value_on_one_line(value: Any) -> None:
    refuses(lambda: tc.evaluate(Y, P, level=value), "level must lie")
    refuses(lambda: tc.classwise_error(Y, P, n_bins=value), "n_bins must be a whole number", TypeError)
    refuses(lambda: tc.binary_error([0, 1], [value, value]), "y_proba must hold numbers", TypeError)


def test_sparse_and_lazy_predictions_are_told_what_to_do() -> None:
    for make in (scipy.sparse.csr_matrix, scipy.sparse.coo_array):
        refuses(lambda make=make: tc.evaluate(Y, make(P)), r"y_proba is sparse .* \.toarray\(\)", TypeError)  # type: ignore[misc]  # a default binds the loop's value
    polars = pytest.importorskip("polars")
    refuses(lambda: tc.evaluate(Y, polars.DataFrame(P).lazy()), r"LazyFrame .* \.collect\(\)", TypeError)


def test_a_subgroup_that_is_missing_is_named_by_its_row() -> None:
    by = np.where(np.arange(60) == 7, np.nan, 1.0)
    refuses(lambda: tc.evaluate(Z, U, by=by), "by has NaN at row 7")
    refuses(lambda: tc.compare(Z, {"a": U}, by=by), "by has NaN at row 7")


def test_masked_rows_and_masked_values_in_lists_are_refused() -> None:
    row = np.ma.masked_array([0.2, 0.3, 0.5], [False, True, False])
    refuses(lambda: tc.classwise_error(Y, [row] * 60), "y_proba has masked entries")
    refuses(lambda: tc.binary_error(Z, [np.ma.masked, *U[1:]]), "y_proba(a)? has masked entries")
    refuses(lambda: tc.evaluate(Z, [np.ma.masked, *U[1:]]), "y_proba has masked entries")
    refuses(lambda: tc.classwise_error(Y, [[np.ma.masked, 0.5, 0.5]] * 60), "y_proba has masked entries")


def test_any_text_may_be_the_name_of_a_model() -> None:
    names = ("__proto__", "constructor", "</script>", "\n", "")
    result = tc.compare(Y, dict.fromkeys(names, P), errors=["confidence"], n_resamples=39)
    read = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    shown = ["__proto__", "constructor", "</script>", "␊", ""]
    assert list(read["evaluations"]) == [row["model"] for row in read["leaderboard"]] == shown


# -- random calls ------------------------------------------------------------------------------------------------------


def test_every_public_name_is_called_or_known_not_to_be() -> None:
    assert {*fuzz_api.CALLED, *fuzz_api.RESULTS} == set(fuzz_api.PUBLIC)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.heavy)])
def test_random_calls_end_in_a_result_or_in_one_line(seed: int) -> None:
    assert list(fuzz_api.run(seed, range(1500))) == []


@pytest.mark.parametrize("size", [1e-9, 1e6])
@pytest.mark.parametrize("strategy", [tc.Quantile(5), tc.TwoBin()], ids=repr)
def test_the_interval_of_scarce_surprises_has_the_unit_of_the_outcomes(size, strategy):
    """Prices in euros or in millions: all but two outcomes come as predicted, and the interval is the same in both."""
    rng = np.random.default_rng(0)
    u = rng.random(200)
    came = u + np.where(np.arange(200) < 2, 0.4, 0.0)

    def found(unit: float) -> Any:
        error = tc.CalibrationError(tc.properties.Outcomes(range=(0.0, 2 * unit)), strategy)
        return tc.confidence_interval(came * unit, u * unit, error=error, what="gap_sq", n_bins=None)

    here, there = found(1.0), found(size)
    assert here.note == there.note != ""
    assert (there.low, there.high) == pytest.approx((here.low * size**2, here.high * size**2), rel=1e-9, abs=0)


def test_what_random_calls_found_is_said_in_words() -> None:
    refuses(lambda: tc.labelwise_error(np.eye(2, dtype=int), np.eye(2), labels=np.array(0.5)), "labels has 1 names")
    refuses(lambda: tc.from_samples(np.ma.masked, [True], questions=[1]), "answers must be a list", TypeError)
    refuses(lambda: tc.gap(Z, U, error="survival"), "error cannot be measured without horizons")
    weights = np.where(np.arange(60) < 30, 1e-200, 1e200)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tc.segments(Y, P, {"a": np.arange(60) < 30}, sample_weight=weights, min_rows=1, n_resamples=39)
