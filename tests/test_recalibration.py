"""Recalibration maps: the optimum of each, its hard cases, scikit-learn's own checks, and the choice among maps."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.calibration
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

import truecal as tc
from truecal.recalibration import (
    CanonicalRecalibration,
    DirichletScaling,
    HistogramBinning,
    Identity,
    IsotonicOneVsRest,
    MatrixScaling,
    ScalingBinning,
    TemperatureScaling,
    VectorScaling,
    select_recalibration,
)
from truecal.recalibration import temperature as temperature_module

MAPS = (
    Identity,
    TemperatureScaling,
    VectorScaling,
    MatrixScaling,
    DirichletScaling,
    IsotonicOneVsRest,
    HistogramBinning,
    ScalingBinning,
    CanonicalRecalibration,
)
AFFINE = (VectorScaling, MatrixScaling, DirichletScaling)


def draw(n=400, k=5, scale=3.0, true_temperature=1.7, seed=0):
    """Logits whose labels follow softmax(logits / true_temperature)."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * scale
    return z, (z / true_temperature + rng.gumbel(size=z.shape)).argmax(axis=1)


# -- temperature: the optimum --------------------------------------------------------------------------------------


def cross_entropy(z, y, b, w=None):
    """Mean cross-entropy at inverse temperature b, in extended precision, straight from its definition."""
    z = np.asarray(z, dtype=np.longdouble)
    gaps = (z - z.max(axis=1, keepdims=True)) * np.longdouble(b)
    loss = np.log(np.exp(gaps).sum(axis=1)) - gaps[np.arange(len(y)), y]
    return float(np.average(loss, weights=w))


def least_cross_entropy(z, y, w=None):
    """The infimum over b > 0: a grid over the whole range of float64, refined around its best point."""
    low, high, points = -320 * np.log(10), 320 * np.log(10), 101
    for _ in range(14):
        grid = np.linspace(low, high, points)
        values = [cross_entropy(z, y, np.exp(np.longdouble(g)), w) for g in grid]
        best = int(np.argmin(values))
        low, high, points = grid[max(best - 1, 0)], grid[min(best + 1, points - 1)], 11
    return values[best]


def scaled_slope(z, y, b):
    """b times the derivative of the mean cross-entropy by b: zero at an interior optimum, and free of units."""
    gaps = z - z.max(axis=1, keepdims=True)
    return b * ((softmax(b * gaps, axis=1) * gaps).sum(axis=1) - gaps[np.arange(len(y)), y]).mean()


def almost_separable():
    z = np.array([[1.0, 0.0]] * 999 + [[1e-3, 0.0]])
    return z, np.array([0] * 999 + [1])


def mixed_magnitudes():
    z, y = draw(60, 4)
    z[::7] *= 1e12
    return z, y


def excluded_classes():
    z, y = draw(200, 5)
    z[::3, 4] = -np.inf
    y[(y == 4) & np.isneginf(z[:, 4])] = 0
    return z, y


def with_offsets():
    z, y = draw(100, 3)
    return z + np.random.default_rng(1).normal(size=(100, 1)) * 1e6, y


HARD = {
    "ordinary": draw(),
    "one row, misclassified, above its mean": (np.array([[3.0, 1.0, -2.0]]), np.array([1])),
    "one row, misclassified": (np.array([[3.0, 1.0, -2.0]]), np.array([2])),
    "one row, two classes, misclassified": (np.array([[3.0, 1.0]]), np.array([1])),
    "almost separable": almost_separable(),
    "mixed magnitudes": mixed_magnitudes(),
    "1e4": (draw()[0] * 1e4, draw()[1]),
    "1e30": (draw()[0] * 1e30, draw()[1]),
    "1e300": (draw()[0] * 1e299, draw()[1]),
    "largest floats": (np.array([[1e308, 0.0], [1e308, 0.0], [-2e307, 8e307]]), np.array([0, 1, 1])),
    "1e-30": (draw()[0] * 1e-30, draw()[1]),
    "1e-200": (draw()[0] * 1e-200, draw()[1]),
    "separable": (draw()[0], draw()[0].argmax(axis=1)),
    "separable, tied": (np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 0.0]]), np.array([0, 1])),
    "separable, hardly any row tells": (np.array([[1.0, 0.0]] + [[0.0, 0.0]] * 9), np.zeros(10, int)),
    "separable, gaps from 1e-9 to 1": (np.array([[1.0, 0.0], [0.0, 1e-9], [1e-4, 0.0]]), np.array([0, 1, 0])),
    "worse than chance": (draw()[0], draw()[0].argmin(axis=1)),
    "float16": (draw()[0].astype(np.float16), draw()[1]),
    "float16, large": ((draw()[0] * 5000).astype(np.float16), draw()[1]),
    "float32, temperature beyond float32": ((draw()[0] * 1e35).astype(np.float32), draw()[0].argmin(axis=1)),
    "float32, temperature below float32": ((draw()[0] * 1e-37).astype(np.float32), draw()[0].argmax(axis=1)),
    "float32, 1e30": ((draw()[0] * 1e30).astype(np.float32), draw()[1]),
    "integers": (np.rint(draw()[0]).astype(int), draw()[1]),
    "excluded classes": excluded_classes(),
    "row offsets": with_offsets(),
    "two classes": draw(k=2),
    "many classes": draw(300, 200),
    "one class present": (draw()[0], np.full(400, 2)),
}
BOUNDED = {
    "float32, temperature beyond float32": "chance",
    "float32, temperature below float32": "no validation sample is misclassified",
    "one row, misclassified": "chance",
    "one row, two classes, misclassified": "chance",
    "worse than chance": "chance",
    "separable": "no validation sample is misclassified",
    "separable, tied": "no validation sample is misclassified",
    "separable, hardly any row tells": "no validation sample is misclassified",
    "separable, gaps from 1e-9 to 1": "no validation sample is misclassified",
}


def fit_temperature(name):
    z, y = HARD[name]
    if name in BOUNDED:
        with pytest.warns(ConvergenceWarning, match=BOUNDED[name]):
            return TemperatureScaling().fit(z, y)
    return TemperatureScaling().fit(z, y)  # a warning is an error here


@pytest.mark.parametrize("name", HARD)
def test_temperature_reaches_the_global_minimum(name):
    z, y = HARD[name]
    scaling = fit_temperature(name)
    assert 0 < scaling.temperature_ < np.inf
    assert cross_entropy(z, y, 1 / np.longdouble(scaling.temperature_)) <= least_cross_entropy(z, y) + 1e-8


@pytest.mark.parametrize("name", HARD)
def test_probabilities_agree_with_the_temperature_and_keep_the_order_of_classes(name):
    z, _ = HARD[name]
    scaling = fit_temperature(name)
    p = scaling.predict_proba(z)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    gaps = np.asarray(z, np.longdouble) - np.asarray(z, np.longdouble).max(axis=1, keepdims=True)
    expected = np.exp(gaps / np.longdouble(scaling.temperature_))
    expected = (expected / expected.sum(axis=1, keepdims=True)).astype(float)
    np.testing.assert_allclose(p, expected, rtol=0, atol=1e-9 if p.dtype == np.float64 else 1e-5)
    logits = scaling.transform(z)
    assert not np.isnan(logits).any() and not np.isposinf(logits).any()
    assert (logits[np.arange(len(z)), z.argmax(axis=1)] == logits.max(axis=1)).all()


def test_bounded_temperatures_are_on_the_right_side():
    assert fit_temperature("separable").temperature_ < 0.1
    assert fit_temperature("worse than chance").temperature_ > 1e8
    np.testing.assert_allclose(fit_temperature("worse than chance").predict_proba(HARD["ordinary"][0]), 0.2, atol=1e-8)


def test_closed_form():
    z = [[2.0, 0.0]] * 3 + [[0.0, 2.0]]
    assert TemperatureScaling().fit(z, [0, 0, 1, 1]).temperature_ == pytest.approx(2 / np.log(3), rel=1e-12)


def test_recovers_the_true_temperature():
    z, y = draw(20_000, 10, true_temperature=2.5)
    assert TemperatureScaling().fit(z, y).temperature_ == pytest.approx(2.5, rel=0.03)


@given(seed=st.integers(0, 10_000), k=st.integers(2, 6), exponent=st.integers(-20, 20), n=st.integers(2, 40))
@settings(max_examples=60, deadline=None)
def test_the_derivative_vanishes_at_any_interior_optimum(seed, k, exponent, n):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, k)) * 10.0**exponent
    y = rng.integers(0, k, n)
    gaps = z - z.max(axis=1, keepdims=True)
    label = gaps[np.arange(n), y]
    if (label == 0).all() or (gaps.mean(axis=1) - label).mean() >= 0:
        return
    assert abs(scaled_slope(z, y, 1 / TemperatureScaling().fit(z, y).temperature_)) <= 1e-7


@given(seed=st.integers(0, 10_000), decades=st.sampled_from([3, 30, 290]), ragged=st.booleans(), excluded=st.booleans())
@settings(max_examples=40, deadline=None)
def test_rows_of_any_magnitudes_together(seed, decades, ragged, excluded):
    """Each row (or entry) has its own magnitude, over up to 580 decades; labels are right with a random frequency."""
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 20), rng.integers(2, 5)
    z = rng.normal(size=(n, k)) * 10.0 ** rng.uniform(-decades, decades, size=(n, k if ragged else 1))
    y = np.where(rng.random(n) < rng.random(), z.argmax(axis=1), rng.integers(0, k, n))
    if excluded:
        drop = rng.random((n, k)) < 0.3
        drop[np.arange(n), y] = False
        z[drop] = -np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scaling = TemperatureScaling().fit(z, y)
    assert cross_entropy(z, y, 1 / np.longdouble(scaling.temperature_)) <= least_cross_entropy(z, y) + 1e-8


def test_the_temperature_scales_with_the_logits_and_ignores_row_constants():
    z, y = draw()
    t = TemperatureScaling().fit(z, y).temperature_
    assert TemperatureScaling().fit(z * 64, y).temperature_ == pytest.approx(64 * t, rel=1e-12)
    assert TemperatureScaling().fit(z + np.arange(400)[:, None], y).temperature_ == pytest.approx(t, rel=1e-9)


def test_a_large_problem_starts_on_a_sample_and_needs_few_full_passes(monkeypatch):
    z, y = draw(40_000, 6)
    calls, slopes_at = [], temperature_module.slopes_at

    def counted(data, b):
        calls.append(len(data.y))
        return slopes_at(data, b)

    monkeypatch.setattr(temperature_module, "slopes_at", counted)
    t = TemperatureScaling().fit(z, y).temperature_
    assert calls.count(40_000) <= 3
    assert min(calls) == temperature_module.START_ROWS
    assert abs(scaled_slope(z, y, 1 / t)) <= 1e-9


def test_a_sample_that_misleads_does_not_change_the_answer():
    z, y = draw(10_000, 3)
    rows = temperature_module.start_rows(10_000)
    y[rows] = z[rows].argmin(axis=1)  # the sample alone would say: worse than chance
    t = TemperatureScaling().fit(z, y).temperature_
    assert abs(scaled_slope(z, y, 1 / t)) <= 1e-9
    y[rows] = z[rows].argmax(axis=1)  # and here: separable
    t = TemperatureScaling().fit(z, y).temperature_
    assert abs(scaled_slope(z, y, 1 / t)) <= 1e-9


def test_weights_are_replications_and_zero_weights_are_absent():
    z, y = draw(300)
    w = np.random.default_rng(3).integers(0, 4, 300)
    weighted = TemperatureScaling().fit(z, y, sample_weight=w).temperature_
    repeated = TemperatureScaling().fit(np.repeat(z, w, axis=0), np.repeat(y, w)).temperature_
    assert weighted == pytest.approx(repeated, rel=1e-9)
    wrong = z.argmax(axis=1) != y
    with pytest.warns(ConvergenceWarning, match="misclassified"):
        TemperatureScaling().fit(z, y, sample_weight=~wrong * 1.0)


def test_equal_to_scikit_learn():
    if not hasattr(sklearn.calibration, "_TemperatureScaling"):
        pytest.skip(
            f"scikit-learn {sklearn.__version__} has no sklearn.calibration._TemperatureScaling, a private class"
        )
    z, y = draw(2000, 20)
    theirs = sklearn.calibration._TemperatureScaling().fit(z, y)
    assert TemperatureScaling().fit(z, y).temperature_ == pytest.approx(1 / float(theirs.beta_), rel=1e-6)


def test_equal_to_torch():
    torch = pytest.importorskip("torch")
    z, y = draw(2000, 20)
    ours = TemperatureScaling().fit(z, y).temperature_
    logits, labels = torch.tensor(z), torch.tensor(y)
    b = torch.ones((), dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS(
        [b], max_iter=100, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure():
        solver.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits * b, labels)
        loss.backward()
        return loss

    solver.step(closure)
    assert ours == pytest.approx(1 / b.item(), rel=1e-6)
    tensors = TemperatureScaling().fit(logits, labels)
    assert tensors.temperature_ == ours
    half = TemperatureScaling().fit(logits.bfloat16(), labels)
    assert half.temperature_ == pytest.approx(ours, rel=0.01)
    assert type(half.predict_proba(logits.bfloat16())) is np.ndarray
    coarse = torch.softmax(logits, dim=1).bfloat16()  # rows sum to 1 within 1e-2 only
    from_coarse = TemperatureScaling.from_probabilities().fit(coarse, labels)
    assert from_coarse.temperature_ == pytest.approx(ours, rel=0.05)


def test_constant_rows_say_nothing():
    with pytest.warns(ConvergenceWarning, match="every row of logits is constant"):
        scaling = TemperatureScaling().fit(np.ones((4, 3)), [0, 1, 2, 0])
    assert scaling.temperature_ == 1


def test_a_label_of_probability_zero_is_an_error():
    with pytest.raises(ValueError, match=r"row 1: the logit of its own class \(column 0\) is -inf"):
        TemperatureScaling().fit([[0.0, 1.0], [-np.inf, 0.0]], [0, 0])


# -- affine maps ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", AFFINE)
def test_a_strong_pull_gives_temperature_scaling(cls):
    z, y = draw()
    pulled = cls(l2=1e12).fit(z, y).predict_proba(z)
    np.testing.assert_allclose(pulled, TemperatureScaling().fit(z, y).predict_proba(z), atol=1e-9)


@pytest.mark.parametrize("cls", AFFINE)
def test_affine_maps_minimise_what_they_say(cls):
    """The documented objective, written out, rises in random directions from the fitted point."""
    z, y = draw(200, 3)
    fitted = cls(l2=0.7).fit(z, y)
    x = log_softmax(z, axis=1) if cls is DirichletScaling else z
    m, t = x.mean(axis=0), TemperatureScaling().fit(z, y).temperature_
    s = np.sqrt(((x - m) ** 2).mean())

    def objective(coef, intercept):
        matrix = np.diag(coef) if coef.ndim == 1 else coef
        loss = -log_softmax(x @ matrix.T + intercept, axis=1)[np.arange(200), y].sum()
        off, at_middle = coef - (np.ones(3) if coef.ndim == 1 else np.eye(3)) / t, matrix @ m + intercept - m / t
        at_middle = at_middle - at_middle.mean()  # a constant added to all classes is no map
        return loss + 0.35 * (s**2 * (off**2).sum() + (at_middle**2).sum())

    best = objective(fitted.coef_, fitted.intercept_)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-3):
        for _ in range(20):
            there = objective(
                fitted.coef_ + size * rng.normal(size=fitted.coef_.shape), fitted.intercept_ + size * rng.normal(size=3)
            )
            assert there > best


def test_matrix_scaling_without_a_pull_is_multinomial_logistic_regression():
    z, y = draw(2000, 3)
    ours = MatrixScaling(l2=1e-9).fit(z, y).predict_proba(z)
    theirs = LogisticRegression(C=1e9, tol=1e-10, max_iter=5000).fit(z, y).predict_proba(z)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_vector_scaling_repairs_a_bias_that_no_temperature_can():
    z, y = draw(5000, 3, true_temperature=1)
    biased = z + np.array([3.0, 0.0, 0.0])
    temperature = TemperatureScaling().fit(biased, y)
    vector = VectorScaling().fit(biased, y)
    assert (
        tc.cross_entropy(y, vector.predict_proba(biased)) < tc.cross_entropy(y, temperature.predict_proba(biased)) - 0.1
    )
    np.testing.assert_allclose(vector.intercept_ - vector.intercept_[1], [-3, 0, 0], atol=0.3)


def test_dirichlet_scaling_ignores_row_constants():
    z, y = draw()
    shifted = z + np.arange(400)[:, None]
    first, second = DirichletScaling().fit(z, y), DirichletScaling().fit(shifted, y)
    np.testing.assert_allclose(first.predict_proba(z), second.predict_proba(shifted), atol=1e-9)


@pytest.mark.parametrize("cls", AFFINE)
def test_affine_maps_refuse_what_they_cannot_use(cls):
    with pytest.raises(ValueError, match=f"row 1 has a logit of -inf: {cls.__name__} multiplies logits"):
        cls().fit([[0.0, 1.0], [0.0, -np.inf]], [0, 0])
    with pytest.raises(ValueError, match="l2 must be a finite number of at least 0, got -1"):
        cls(l2=-1).fit(*draw())
    with pytest.warns(ConvergenceWarning, match="stopped after max_iter=2 iterations"):
        cls(max_iter=2).fit(*draw())


@pytest.mark.parametrize("option", ["l2", "max_iter"])
@pytest.mark.parametrize("cls", AFFINE)
def test_affine_options_must_be_numbers(cls, option):
    with pytest.raises(TypeError, match=f"{option} must be a .*number of at least [01], got 'a'"):
        cls(**{option: "a"}).fit(*draw())


@pytest.mark.parametrize("scale", [1e100, 1e155, 1e200, 1e300])
@pytest.mark.parametrize("cls", AFFINE)
def test_affine_maps_of_huge_logits(cls, scale):
    """Scaling all logits changes no vector or matrix map, nor a Dirichlet map once log p is linear in them."""
    z, y = draw()
    expected = cls().fit(z * 1e30, y).predict_proba(z * 1e30)
    np.testing.assert_allclose(cls().fit(z * scale, y).predict_proba(z * scale), expected, atol=1e-6)


@pytest.mark.parametrize("cls", AFFINE)
def test_affine_maps_of_the_largest_floats_and_of_new_rows_far_away(cls):
    z, y = draw()
    largest = z / np.abs(z).max() * np.finfo(float).max
    small = z * (1e-6 if cls is DirichletScaling else 1e-30)  # the logarithm of p forgets differences of 1e-16
    for X, new in ((largest, largest), (z, largest), (small, z)):
        fitted = cls().fit(X, y)
        p = fitted.predict_proba(new)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert not np.isnan(fitted.transform(new)).any()


@given(seed=st.integers(0, 10_000), decades=st.sampled_from([3, 30, 290]), ragged=st.booleans())
@settings(max_examples=40, deadline=None)
def test_affine_maps_of_rows_of_any_magnitudes_together(seed, decades, ragged):
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 20), rng.integers(2, 5)
    z = rng.normal(size=(n, k)) * 10.0 ** rng.uniform(-decades, decades, size=(n, k if ragged else 1))
    y = np.where(rng.random(n) < rng.random(), z.argmax(axis=1), rng.integers(0, k, n))
    for cls in AFFINE:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            p = cls().fit(z, y).predict_proba(z)
        assert np.isfinite(p).all()
        np.testing.assert_allclose(p.sum(axis=1), 1)


def separable():
    z, _ = draw(300, 3)
    return z, z.argmax(axis=1)


def separable_but_not_by_the_logits():
    z, y = separable()
    return z + np.array([4.0, 0.0, 0.0]), y


def one_class_separable():
    z = log_softmax(draw(300, 3)[0], axis=1)
    return z, np.where(z[:, 0] > -0.7, 0, np.random.default_rng(0).integers(1, 3, 300))


def one_class_absent():
    z, y = draw(300, 3)
    return z, np.where(y == 2, 1, y)


@pytest.mark.parametrize(
    "data",
    [separable, separable_but_not_by_the_logits, one_class_separable, one_class_absent],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("cls", AFFINE)
def test_an_optimum_that_is_not_attained_is_reported(cls, data):
    z, y = data()
    if (cls, data) == (DirichletScaling, separable_but_not_by_the_logits):
        z = log_softmax(z, axis=1)
    with pytest.warns(ConvergenceWarning, match=f"{cls.__name__}.*not attained.*l2") as caught:
        fitted = cls(l2=0).fit(z, y)
    assert [warning.filename for warning in caught] == [__file__]
    assert np.isfinite(fitted.predict_proba(z)).all()
    if data is not separable:
        cls(l2=1).fit(z, y)  # a warning is an error here


@pytest.mark.parametrize("cls", AFFINE)
def test_a_pull_towards_a_temperature_that_is_no_optimum_is_reported(cls):
    """The answer then hangs on where the temperature was bounded."""
    with pytest.warns(ConvergenceWarning, match=f"{cls.__name__} is pulled towards .* no validation sample") as caught:
        cls().fit(*separable())
    assert [warning.filename for warning in caught] == [__file__]


def test_a_search_that_fails_is_reported():
    """Logits whose differences the logarithm of p forgets: what is left of them is rounding."""
    z, y = draw()
    with pytest.warns(ConvergenceWarning, match="DirichletScaling did not converge: a further step promises"):
        DirichletScaling().fit(z * 1e-30, y)


@pytest.mark.parametrize("scale", [1e-3, 1, 1e3])
@pytest.mark.parametrize("cls", AFFINE)
def test_an_attained_optimum_is_not_reported(cls, scale):
    for seed in range(5):
        z, y = draw(300, 3, seed=seed)
        cls(l2=0).fit(z * scale, y)
    z, y = separable()
    y[0] = (y[0] + 1) % 3
    cls(l2=1e-3).fit(z * scale, y)


# -- maps of probabilities -----------------------------------------------------------------------------------------


def test_isotonic_is_scikit_learns_in_each_class():
    z, y = draw(300, 3)
    p = softmax(z, axis=1)
    columns = [IsotonicRegression(out_of_bounds="clip").fit_transform(p[:, r], y == r) for r in range(3)]
    expected = np.column_stack(columns) / np.sum(columns, axis=0)[:, None]
    np.testing.assert_allclose(IsotonicOneVsRest().fit(z, y).predict_proba(z), expected, atol=1e-12)


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_histogram_binning_against_a_plain_loop(strategy):
    z, y = draw(103, 3)
    p = softmax(z, axis=1)
    fitted = HistogramBinning(n_bins=7, strategy=strategy).fit(z, y)
    expected = np.empty_like(p)
    for r in range(3):
        if strategy == "uniform":
            cell = [min(j for j in range(7) if v <= (j + 1) / 7) for v in p[:, r]]
        else:
            rank = {i: place for place, i in enumerate(sorted(range(103), key=lambda i, r=r: p[i, r]))}
            cell = [((rank[i] + 1) * 7 - 1) // 103 for i in range(103)]
        for i in range(103):
            members = [h for h in range(103) if cell[h] == cell[i]]
            expected[i, r] = sum(y[h] == r for h in members) / len(members)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(z), expected, atol=1e-12)


def test_scaling_binning_averages_the_smooth_map_and_not_the_labels():
    z, y = draw(400, 2)
    fitted = ScalingBinning(n_bins=8).fit(z, y)
    smooth = TemperatureScaling().fit(z, y).predict_proba(z)[:, 1]
    order = np.argsort(smooth)
    means = np.concatenate([np.full(50, smooth[order[i : i + 50]].mean()) for i in range(0, 400, 50)])
    np.testing.assert_allclose(fitted.predict_proba(z)[order, 1], means, atol=1e-12)
    for other in (LogisticRegression(), "temperature", TemperatureScaling):
        with pytest.raises(TypeError, match="scaling must be a recalibration estimator, got"):
            ScalingBinning(other).fit(z, y)
    with pytest.raises(ValueError, match="scaling must be an estimator of logits without labels"):
        ScalingBinning(TemperatureScaling.from_probabilities()).fit(z, y)


def test_canonical_recalibration_is_the_mean_outcome_of_each_cell():
    z, y = draw(310, 4)
    p = softmax(z, axis=1)
    fitted = CanonicalRecalibration(n_bins=3).fit(z, y).predict_proba(z)
    order = np.lexsort((p.max(axis=1), p.argmax(axis=1)))
    top = p.argmax(axis=1)[order]
    for r in range(4):
        rows = order[top == r]
        cells = ((np.arange(len(rows)) + 1) * 3 - 1) // len(rows)
        for j in range(3):
            inside = rows[cells == j]
            np.testing.assert_allclose(fitted[inside], np.tile(np.eye(4)[y[inside]].mean(axis=0), (len(inside), 1)))


def test_canonical_recalibration_does_not_raise_a_truthful_error():
    """The theorem on a world where it can be seen: few distinct reports, each wrong; the mean over fresh samples."""
    rng = np.random.default_rng(5)
    reported = np.log([[0.8, 0.1, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
    truth = np.array([[0.5, 0.3, 0.2], [0.3, 0.3, 0.4], [0.1, 0.2, 0.7]])

    def sample(n):
        kind = rng.integers(0, 3, n)
        return reported[kind], (rng.random((n, 1)) > truth[kind].cumsum(axis=1)).sum(axis=1)

    fitted = CanonicalRecalibration(n_bins=5).fit(*sample(20_000))
    np.testing.assert_allclose(fitted.predict_proba(reported), truth, atol=0.02)
    for name in ("classwise", "confidence", "full", "classwise_two_bin"):
        before, after = [], []
        for _ in range(40):
            z, y = sample(200)
            before.append(tc.ERRORS[name](y, softmax(z, axis=1)))
            after.append(tc.ERRORS[name](y, fitted.predict_proba(z)))
        assert np.mean(after) < np.mean(before)


def test_smoothing_keeps_every_class_possible():
    z, y = draw(60, 10)
    assert (CanonicalRecalibration().fit(z, y).predict_proba(z) == 0).any()
    fitted = CanonicalRecalibration(smoothing=1.0).fit(z, y)
    assert (fitted.predict_proba(z) > 0).all()
    np.testing.assert_allclose(fitted.predict_proba(z).sum(axis=1), 1)
    with pytest.raises(ValueError, match="smoothing must be a finite number of at least 0, got -1"):
        CanonicalRecalibration(smoothing=-1).fit(z, y)
    with pytest.raises(TypeError, match="smoothing must be a finite number of at least 0, got 'a'"):
        CanonicalRecalibration(smoothing="a").fit(z, y)


def test_reports_where_nothing_was_learned_stay():
    low = np.log([[0.6, 0.4], [0.7, 0.3], [0.65, 0.35]])
    new = np.log([[0.05, 0.95]])
    kept = softmax(new, axis=1)
    np.testing.assert_allclose(CanonicalRecalibration().fit(low, [0, 0, 1]).predict_proba(new), kept)
    uniform = HistogramBinning(n_bins=4, strategy="uniform").fit(low, [0, 0, 1])
    np.testing.assert_allclose(uniform.predict_proba(new), kept)


@pytest.mark.parametrize("cls", [HistogramBinning, ScalingBinning])
def test_bad_bins_are_refused(cls):
    with pytest.raises(ValueError, match="n_bins must be at least 1, got 0"):
        cls(n_bins=0).fit(*draw())
    with pytest.raises(ValueError, match="strategy must be 'quantile' or 'uniform', got 'kmeans'"):
        cls(strategy="kmeans").fit(*draw())


@pytest.mark.parametrize("cls", [HistogramBinning, ScalingBinning, CanonicalRecalibration])
def test_more_bins_than_samples(cls):
    z, y = draw(10, 3)
    p = cls(n_bins=50).fit(z, y).predict_proba(draw(100, 3, seed=1)[0])
    np.testing.assert_allclose(p.sum(axis=1), 1)


# -- what all maps share -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", MAPS)
def test_transform_and_predict_proba_agree(cls):
    z, y = draw()
    new = draw(seed=9)[0]
    fitted = cls().fit(z, y)
    p = fitted.predict_proba(new)
    assert p.shape == new.shape
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(softmax(fitted.transform(new), axis=1), p, atol=1e-12)
    assert (fitted.predict(new) == p.argmax(axis=1)).all()


@pytest.mark.parametrize("cls", MAPS)
def test_a_class_absent_from_validation_keeps_its_column(cls):
    z, y = draw(300, 4)
    rows = y != 2
    fitted = cls().fit(z[rows], y[rows])
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
    p = fitted.predict_proba(z)
    assert p.shape == (300, 4)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    if cls is not CanonicalRecalibration:  # whose cells say 0 unless smoothed
        assert (p[:, 2] > 0).any()


@pytest.mark.parametrize("cls", MAPS)
def test_probabilities_enter_by_name(cls):
    z, y = draw()
    p = softmax(z, axis=1)
    from_p = cls.from_probabilities().fit(p, y)
    if cls not in (VectorScaling, MatrixScaling):  # which depend on the constant of a row, as their papers have it
        np.testing.assert_allclose(from_p.predict_proba(p), cls().fit(z, y).predict_proba(z), atol=1e-7)
    from_log = cls().fit(np.log(p), y)
    np.testing.assert_allclose(from_p.predict_proba(p), from_log.predict_proba(np.log(p)), atol=1e-12)
    with pytest.raises(ValueError, match=r"X must hold probabilities.*these look like logits"):
        from_p.predict_proba(z)


@pytest.mark.parametrize("cls", MAPS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_probabilities_of_exactly_zero(cls, dtype):
    p = np.array([[1, 0, 0], [0, 0.5, 0.5], [0.5, 0.5, 0], [0.25, 0.5, 0.25]] * 5, dtype)
    y = np.array([0, 1, 1, 2] * 5)
    y[0] = 1  # what came had probability zero
    out = cls.from_probabilities().fit(p, y).predict_proba(p)
    assert np.isfinite(out).all()
    np.testing.assert_allclose(out.sum(axis=1), 1, rtol=1e-5)


def test_the_floor_is_the_smallest_number_or_what_is_asked():
    p = np.array([[1.0, 0.0], [0.25, 0.75]])
    lowest = Identity.from_probabilities().fit(p, [0, 1]).transform(p)
    np.testing.assert_allclose(lowest, [[0, np.log(5e-324)], [np.log(0.25), np.log(0.75)]])
    floored = Identity.from_probabilities(floor=0.01).fit(p, [0, 1]).transform(p)
    np.testing.assert_allclose(floored, np.log([[1, 0.01], [0.25, 0.75]]))
    with pytest.raises(ValueError, match="floor must be a number strictly between 0 and 1, got 2"):
        Identity.from_probabilities(floor=2).fit(p, [0, 1])
    with pytest.raises(TypeError, match="floor must be a number strictly between 0 and 1, got 'a'"):
        Identity.from_probabilities(floor="a").fit(p, [0, 1])
    with pytest.raises(ValueError, match="space must be 'logits' or 'probabilities', got 'log'"):
        Identity(space="log").fit(p, [0, 1])


@pytest.mark.parametrize("cls", MAPS)
def test_labels_name_the_columns(cls):
    z, y = draw(300, 3)
    names = np.array(["ant", "cat", "dog"])
    by_index = cls().fit(z, y)
    by_name = cls(labels=names).fit(z, names[y])
    np.testing.assert_array_equal(by_name.predict_proba(z), by_index.predict_proba(z))
    assert (by_name.predict(z) == names[by_index.predict(z)]).all()
    assert by_name.classes_.tolist() == names.tolist()
    assert by_name.score(z, names[y]) == pytest.approx(by_index.score(z, y))
    repeated = clone(by_name)
    assert repeated.get_params()["labels"] is names or (repeated.get_params()["labels"] == names).all()


def test_scikit_learn_scores_the_same_by_name_and_by_index():
    z, y = draw(300, 3)
    names = np.array(["ant", "cat", "dog"])
    by_index, by_name = TemperatureScaling().fit(z, y), TemperatureScaling(labels=names).fit(z, names[y])
    for metric in ("neg_log_loss", "neg_brier_score", "roc_auc_ovr", "accuracy"):
        assert get_scorer(metric)(by_name, z, names[y]) == pytest.approx(get_scorer(metric)(by_index, z, y), rel=1e-12)


@pytest.mark.parametrize("cls", MAPS)
def test_labels_out_of_order_are_refused_and_the_message_says_how_to_reorder(cls):
    """scikit-learn's scorers take classes_ for sorted: in any other order they pair columns with wrong classes."""
    z, y = draw(300, 3)
    names = np.array(["cat", "dog", "ant"])
    with pytest.raises(ValueError, match=r"labels must be sorted.*'ant' \(column 2\) after 'dog'.*X\[:, order\]"):
        cls(labels=names).fit(z, names[y])
    order = np.argsort(names)  # what the message says
    fitted = cls(labels=names[order]).fit(z[:, order], names[y])
    assert fitted.classes_.tolist() == ["ant", "cat", "dog"]
    right = -np.log(np.clip(fitted.predict_proba(z[:, order])[:, np.argsort(order)][np.arange(300), y], 1e-15, 1))
    assert get_scorer("neg_log_loss")(fitted, z[:, order], names[y]) == pytest.approx(-right.mean(), rel=1e-6)


@pytest.mark.parametrize("labels", [[3, 1, 2], [True, False], [0.0, -1.0]])
def test_labels_of_any_kind_must_be_sorted(labels):
    with pytest.raises(ValueError, match="labels must be sorted"):
        Identity(labels=labels).fit(np.zeros((2, len(labels))), labels[:2])


@pytest.mark.parametrize("labels", [["ant", "cat", "dog"], [10, 20, 30], [1, 2, 3]])
def test_cross_val_predict_recodes_the_labels_and_the_message_names_the_way_around(labels):
    z, y = draw(300, 3)
    names = np.array(labels)
    named = TemperatureScaling(labels=names)
    with pytest.raises(ValueError, match=r"not in labels.*cross_val_predict.*np\.searchsorted\(labels, y\)"):
        cross_val_predict(named, z, names[y], method="predict_proba")
    out = cross_val_predict(TemperatureScaling(), z, np.searchsorted(names, names[y]), method="predict_proba")
    np.testing.assert_array_equal(out, cross_val_predict(TemperatureScaling(), z, y, method="predict_proba"))
    assert (cross_val_predict(named, z, names[y]) == names[out.argmax(axis=1)]).all()  # predict is not recoded


def test_two_classes_by_truth_value():
    z, y = draw(200, 2)
    by_bool = cross_val_predict(TemperatureScaling(labels=[False, True]), z, y == 1, method="predict_proba")
    np.testing.assert_array_equal(by_bool, cross_val_predict(TemperatureScaling(), z, y, method="predict_proba"))


@pytest.mark.parametrize("cls", MAPS)
def test_a_failed_fit_changes_nothing(cls):
    z, y = draw(100, 3)
    fitted = cls().fit(z, y)
    before = fitted.predict_proba(z)
    for X, bad in ((np.column_stack([z, z]), ["a"] * 100), (pd.DataFrame(z, columns=list("abc")), y + 5)):
        with pytest.raises((TypeError, ValueError)):
            fitted.fit(X, bad)
        assert not hasattr(fitted, "feature_names_in_")
        np.testing.assert_array_equal(fitted.predict_proba(z), before)
    fresh = cls()
    with pytest.raises(ValueError, match="column index"):
        fresh.fit(z, y + 5)
    assert vars(fresh) == vars(cls())


@pytest.mark.parametrize("cls", MAPS)
def test_a_floor_cannot_apply_to_logits(cls):
    with pytest.raises(ValueError, match=r"floor=0\.1 cannot apply to logits.*from_probabilities\(floor=0\.1\)"):
        cls(floor=0.1).fit(*draw())


@pytest.mark.parametrize(
    ("labels", "y", "kind", "message"),
    [
        (None, [0, 3], ValueError, r"y must be a column index in 0\.\.2, got 3 at row 1"),
        (None, [1, 3], ValueError, "1-based coding"),
        (None, ["a", "b"], TypeError, r"y holds strings; pass labels="),
        (None, [0.5, 1.0], ValueError, "Unknown label type: continuous; y must hold classes, got 0.5 at row 0"),
        (["a", "b"], ["a", "b"], ValueError, "labels must name the 3 columns"),
        (["a", "b", "c"], ["a", "d"], ValueError, "y has d at row 1, which is not in labels"),
        (["a", "b", "c"], [0, 7], TypeError, "labels hold <U1 and y holds int64: expected the same kind"),
        ([5, 6, 7], [5, 1], ValueError, "y has 1 at row 1, which is not in labels$"),
        (None, [0, 1, 2], ValueError, "numbers of rows disagree: X has 2, y has 3"),
        (None, None, ValueError, "requires y to be passed"),
    ],
)
def test_labels_that_do_not_fit_the_columns(labels, y, kind, message):
    with pytest.raises(kind, match=message):
        TemperatureScaling(labels=labels).fit([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0]], y)


@pytest.mark.parametrize(
    ("z", "message"),
    [
        ([[0.0, np.nan], [0.0, 1.0]], "X has nan at row 0, column 1"),
        ([[0.0, 1.0], [np.inf, 1.0]], "X has inf at row 1, column 0"),
        ([[0.0, 1.0], [-np.inf, -np.inf]], "X row 1 is -inf in every column"),
        ([[0.0], [1.0]], "one column per class, at least two, got n_features = 1"),
        ([0.0, 1.0], "Expected 2D array, got 1D array"),
    ],
)
@pytest.mark.parametrize("cls", MAPS)
def test_logits_that_are_none(cls, z, message):
    with pytest.raises(ValueError, match=message):
        cls().fit(z, [0, 1])


def test_weights_are_validated():
    z, y = draw(4, 2)
    for weights, message in (([1, 1, 1, -1], "negative"), ([0, 0, 0, 0], "all zero"), ([1, 1], "shape")):
        with pytest.raises(ValueError, match=message):
            TemperatureScaling().fit(z, y, sample_weight=weights)


@pytest.mark.parametrize("size", [1e-300, 1e-10, 1e300, 1e307])
@pytest.mark.parametrize("cls", MAPS)
def test_weights_of_any_size(cls, size):
    """Only the ratios of weights matter, except beside a prior, whose weight is then given in the same unit."""
    z, y = draw(300, 3)
    w = np.random.default_rng(3).random(300) + 0.1
    prior = {"l2": 1.0} if cls in AFFINE else {"smoothing": 1.0} if cls is CanonicalRecalibration else {}
    scaled = {name: value * size for name, value in prior.items()}
    expected = cls(**prior).fit(z, y, sample_weight=w).predict_proba(z)
    np.testing.assert_allclose(
        cls(**scaled).fit(z, y, sample_weight=w * size).predict_proba(z), expected, rtol=1e-6, atol=1e-9
    )


def test_priors_beside_weights_of_any_size():
    z, y = draw(300, 3)
    tiny, huge = np.full(300, 1e-320), np.full(300, 1e307)
    for cls in AFFINE:
        expected = TemperatureScaling().fit(z, y).predict_proba(z)
        np.testing.assert_allclose(cls().fit(z, y, sample_weight=tiny).predict_proba(z), expected, atol=1e-6)
        expected = cls(l2=0).fit(z, y).predict_proba(z)
        np.testing.assert_allclose(cls().fit(z, y, sample_weight=huge).predict_proba(z), expected, atol=1e-6)
    canonical = CanonicalRecalibration(smoothing=1.0)
    expected = CanonicalRecalibration().fit(z, y).predict_proba(z)
    np.testing.assert_allclose(canonical.fit(z, y, sample_weight=huge).predict_proba(z), expected, atol=1e-300)
    cells = canonical.fit(z, y, sample_weight=tiny).predict_proba(z)  # each cell at its mean report
    assert (cells > 0).all() and np.abs(cells - softmax(z, axis=1)).mean() < 0.1


def test_a_weight_that_vanishes_beside_the_largest_is_zero():
    z, y = draw(300, 3)
    w = np.where(np.arange(300) < 200, 1e300, 1e-300)
    for cls in MAPS:
        np.testing.assert_array_equal(
            cls().fit(z, y, sample_weight=w).predict_proba(z),
            cls().fit(z[:200], y[:200], sample_weight=w[:200]).predict_proba(z),
        )


def test_data_frames_and_column_names():
    z, y = draw(50, 3)
    plain = TemperatureScaling().fit(z, y)
    frame = pd.DataFrame(z, columns=["a", "b", "c"])
    for X in (frame, pl.DataFrame(frame), frame.to_numpy().tolist()):
        assert TemperatureScaling().fit(X, pd.Series(y)).temperature_ == plain.temperature_
    named = TemperatureScaling().fit(frame, y)
    assert named.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        named.predict_proba(frame[["b", "a", "c"]])
    assert named.set_output(transform="pandas").transform(frame).columns.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("cls", MAPS)
def test_inputs_are_left_alone_and_an_unfitted_map_says_so(cls):
    z, y = draw(40, 3)
    before = z.copy()
    with pytest.raises(NotFittedError):
        cls().transform(z)
    cls().fit(z, y).predict_proba(z)
    np.testing.assert_array_equal(z, before)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_floating_type_stays_and_half_precision_is_widened(dtype):
    z, y = draw(40, 3)
    expected = np.float32 if dtype != np.float64 else np.float64
    fitted = TemperatureScaling().fit(z.astype(dtype), y)
    assert fitted.transform(z.astype(dtype)).dtype == expected
    assert fitted.predict_proba(z.astype(dtype)).dtype == expected
    np.testing.assert_allclose(fitted.transform(z), z / fitted.temperature_)


# -- scikit-learn's own checks -------------------------------------------------------------------------------------

COLUMNS = "its data have fewer columns than classes, or labels that are not column indices: not logits of classes"
ABSENT = "a class that no validation sample has keeps its column and may still be predicted"
ACCURACY = "its columns are not scores of the classes, so no map of them can be accurate"
INAPPLICABLE = {
    "check_estimators_overwrite_params": COLUMNS,
    "check_estimators_fit_returns_self": COLUMNS,
    "check_readonly_memmap_input": COLUMNS,
    "check_sample_weights_pandas_series": COLUMNS,
    "check_sample_weights_not_an_array": COLUMNS,
    "check_sample_weights_shape": COLUMNS,
    "check_sample_weights_not_overwritten": COLUMNS,
    "check_classifier_data_not_an_array": COLUMNS,
    "check_classifiers_classes": "strings need labels=, as everywhere in truecal: the order of columns is not guessed",
    "check_classifiers_train": ACCURACY,
}
EDGES = "weights never move a bin edge: a bin holds equally many rows, whatever they weigh"


def run_check(estimator, check, listed):
    """A listed check must fail, so that the list cannot grow stale (xfail would say the same, twenty times slower)."""
    if check.func.__name__ in listed:
        with pytest.raises((AssertionError, TypeError, ValueError)):
            check(estimator)
    else:
        check(estimator)


def inapplicable(estimator):
    listed = dict(INAPPLICABLE)
    if isinstance(estimator, (TemperatureScaling, Identity, ScalingBinning)):
        listed["check_classifiers_one_label"] = ABSENT
    if isinstance(estimator, ScalingBinning):
        listed["check_sample_weight_equivalence_on_dense_data"] = EDGES
    return listed


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
@parametrize_with_checks([cls() for cls in MAPS])
def test_scikit_learn_checks(estimator, check):
    run_check(estimator, check, inapplicable(estimator))


class AnyFeatures:
    """Lets scikit-learn's data through: a naive Bayes classifier turns any features into one logit per class."""

    def fit(self, X, y, sample_weight=None):
        self._given = (y, sample_weight)
        try:
            return super().fit(X, y, sample_weight)
        finally:
            del self._given

    def _values(self, X, *, reset):
        values = super()._values(X, reset=reset)
        if reset:
            y, weight = self._given
            if y is None:
                raise ValueError("requires y to be passed, but the target y is None")
            self._model = GaussianNB().fit(values, y, weight)
            if len(self._model.classes_) < 2:
                raise ValueError("one class only")
        with np.errstate(divide="ignore"):  # a class whose samples all weigh nothing has prior 0, logit -inf
            return self._model.predict_joint_log_proba(values)

    def _read_labels(self, y, n, k):
        codes = super()._read_labels(np.searchsorted(self._model.classes_, np.asarray(y)), n, k)
        self.classes_ = self._model.classes_
        return codes


WITH_MODEL = []
for _cls in MAPS:
    _name = f"{_cls.__name__}OfNaiveBayes"
    globals()[_name] = type(_name, (AnyFeatures, _cls), {"__module__": __name__, "__init__": _cls.__init__})
    WITH_MODEL.append(globals()[_name]())


def inapplicable_with_model(estimator):
    listed = {}
    if not isinstance(estimator, (IsotonicOneVsRest, HistogramBinning, CanonicalRecalibration)):
        listed["check_sample_weight_equivalence_on_dense_data"] = (
            "naive Bayes smooths its variances without the weights; the maps alone pass this check"
        )
    if isinstance(estimator, AFFINE):
        listed["check_classifiers_one_label_sample_weights"] = "naive Bayes gives -inf there, which affine maps refuse"
    return listed


@pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore::sklearn.exceptions.SkipTestWarning"
)
@parametrize_with_checks(WITH_MODEL)
def test_scikit_learn_checks_on_data_of_any_width(estimator, check):
    run_check(estimator, check, inapplicable_with_model(estimator))


def test_warnings_point_at_the_call():
    for scaling, data in ((TemperatureScaling(), ([[2.0, 0.0]], [0])), (VectorScaling(max_iter=1), draw())):
        with pytest.warns(ConvergenceWarning) as caught:
            scaling.fit(*data)
        assert [warning.filename for warning in caught] == [__file__]


def test_importing_truecal_does_not_import_scikit_learn():
    code = "import sys, truecal; sys.exit('sklearn' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_scikit_learn_is_named():
    code = "import sys; sys.modules['sklearn'] = None; import truecal.recalibration"
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert 'pip install "truecal[recalibration]"' in result.stderr


# -- the choice among maps -----------------------------------------------------------------------------------------


def overconfident(n, rng):
    truth = 2 * rng.normal(size=(n, 5))
    return 2.5 * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


PAIR = {"temperature": TemperatureScaling(), "pooled": CanonicalRecalibration(n_bins=1)}


@pytest.mark.parametrize("n_bins", [15, 100])
def test_ece_chooses_the_worse_map_and_a_truthful_error_the_better_one(n_bins):
    """Both at the same bin count; chance would be 10 of 20 each."""
    wins = {"confidence_l1": 0, "classwise": 0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        parts = (*overconfident(2000, rng), *overconfident(500, rng))
        for error in wins:
            chosen = select_recalibration(PAIR, *parts, error=error, n_bins=n_bins, allow_untruthful=True)
            wins[error] += chosen.name == "temperature"
    assert wins["confidence_l1"] <= 5
    assert wins["classwise"] >= 15


def test_the_scores_are_the_errors_of_the_fitted_maps():
    rng = np.random.default_rng(0)
    fit, select = overconfident(400, rng), overconfident(300, rng)
    chosen = select_recalibration(PAIR, *fit, *select, n_bins=7)
    assert [s.error for s in chosen.scores] == sorted(s.error for s in chosen.scores)
    for score in chosen.scores:
        p = clone(PAIR[score.name]).fit(*fit).predict_proba(select[0])
        assert score.error == pytest.approx(tc.classwise_error(select[1], p, n_bins=7))
        assert score.loss + score.U == pytest.approx(300 * score.error)
    assert chosen.name == chosen.scores[0].name
    np.testing.assert_array_equal(
        chosen.best.predict_proba(select[0]), clone(PAIR[chosen.name]).fit(*fit).predict_proba(select[0])
    )
    assert not hasattr(PAIR["temperature"], "temperature_")  # candidates are cloned
    assert chosen.n_samples == 300 and chosen.truthful


def test_a_selection_can_be_read_and_stored():
    rng = np.random.default_rng(0)
    chosen = select_recalibration(
        [Identity(), TemperatureScaling()], *overconfident(200, rng), *overconfident(100, rng)
    )
    assert "TemperatureScaling, chosen by LinCE^cw at 15 bins (truthful) on 100 samples" in repr(chosen)
    assert repr(chosen).splitlines()[1].lstrip().startswith("TemperatureScaling  loss ")
    assert chosen._repr_html_().startswith("<pre>")
    assert json.loads(json.dumps(chosen.to_dict()))["scores"][1]["name"] == "Identity"
    assert chosen.to_pandas().index.tolist() == ["TemperatureScaling", "Identity"]


def test_named_labels_reach_the_score():
    rng = np.random.default_rng(0)
    fit, select = overconfident(200, rng), overconfident(100, rng)
    names = np.array(list("vwxyz"))
    plain = select_recalibration([TemperatureScaling()], *fit, *select)
    named = select_recalibration([TemperatureScaling(labels=names)], fit[0], names[fit[1]], select[0], names[select[1]])
    assert named.scores == plain.scores


@pytest.mark.parametrize("error", ["confidence_l1", "classwise_l1", "confidence_uncorrected", "full_l1"])
def test_an_untruthful_error_is_refused_unless_allowed(error):
    rng = np.random.default_rng(0)
    parts = (*overconfident(200, rng), *overconfident(100, rng))
    with pytest.raises(ValueError, match=r"is not truthful .* can prefer the worse map.*allow_untruthful=True"):
        select_recalibration(PAIR, *parts, error=error)
    assert not select_recalibration(PAIR, *parts, error=error, allow_untruthful=True).truthful


def test_a_callable_must_say_that_it_is_truthful():
    rng = np.random.default_rng(0)
    parts = (*overconfident(200, rng), *overconfident(100, rng))

    def mine(y, p):
        return tc.brier(y, p)

    with pytest.raises(ValueError, match="error mine is not truthful"):
        select_recalibration(PAIR, *parts, error=mine)
    mine.truthful = True
    assert select_recalibration(PAIR, *parts, error=mine).name == "temperature"


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"error": "nope"}, ValueError, "error must be one of"),
        ({"error": 3}, TypeError, "error must be a name in ERRORS, a CalibrationError or a callable, got 3"),
        ({"error": "binary"}, ValueError, "does not take one probability per class"),
        ({"n_bins": (5, 20)}, ValueError, "choosing needs one bin count"),
        ({"error": lambda y, p: 0.0, "n_bins": 5}, ValueError, "n_bins cannot apply to a callable"),
        ({"candidates": {1: Identity()}}, TypeError, "the name of a candidate must be a string, got 1"),
        ({"candidates": []}, ValueError, "candidates is empty"),
        ({"candidates": [Identity(), Identity()]}, ValueError, "candidates has several of Identity"),
        ({"candidates": {"lr": LogisticRegression()}}, TypeError, "candidate 'lr' must be a recalibration estimator"),
    ],
)
def test_select_refuses(options, kind, message):
    rng = np.random.default_rng(0)
    candidates = options.pop("candidates", PAIR)
    with pytest.raises(kind, match=message):
        select_recalibration(candidates, *overconfident(50, rng), *overconfident(50, rng), **options)


def shuffled(z, y):
    order = np.random.default_rng(1).permutation(len(y))
    return z[order], y[order]


def with_replacement(z, y):
    rows = np.random.default_rng(2).integers(0, len(y), len(y))
    return z[rows], y[rows]


REUSED = {
    "equal": lambda z, y: (z.copy(), y.copy()),
    "lists": lambda z, y: (z.tolist(), y.tolist()),
    "shuffled": shuffled,
    "subset": lambda z, y: (z[:50], y[:50]),
    "drawn with replacement": with_replacement,
    "labels of another type": lambda z, y: (z, y.astype(np.int8)),
    "data frame": lambda z, y: (pd.DataFrame(z), pd.Series(y)),
    "half of it": lambda z, y: (np.concatenate([z[:50], -z[:50]]), np.concatenate([y[:50], y[:50]])),
}
REUSED_IN_ANOTHER_TYPE = {
    "float32": lambda z, y: (z.astype(np.float32), y),
    "float16": lambda z, y: shuffled(z.astype(np.float16), y),
    "next float": lambda z, y: (np.nextafter(z, 1e9), y),
}
WERE_FITTED_ON = r"\d+ of the \d+ selection rows are among the rows fitted on.*split the validation data in two"


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e300])
@pytest.mark.parametrize("how", REUSED)
def test_rows_that_were_fitted_on_are_refused_in_any_form(how, scale):
    z, y = overconfident(100, np.random.default_rng(0))
    with pytest.raises(ValueError, match=WERE_FITTED_ON):
        select_recalibration(PAIR, z * scale, y, *REUSED[how](z * scale, y))


@pytest.mark.parametrize("how", REUSED_IN_ANOTHER_TYPE)
def test_rows_that_were_fitted_on_are_refused_in_any_type(how):
    z, y = overconfident(100, np.random.default_rng(0))
    again = REUSED_IN_ANOTHER_TYPE[how](z, y)
    for parts in ((z, y, *again), (*again, z, y)):
        with pytest.raises(ValueError, match=WERE_FITTED_ON):
            select_recalibration(PAIR, *parts)


def test_a_few_shared_rows_are_a_warning():
    rng = np.random.default_rng(0)
    (z, y), (z_other, y_other) = overconfident(200, rng), overconfident(100, rng)
    z_other[40:43], y_other[40:43] = z[:3], y[:3]
    with pytest.warns(UserWarning, match="3 of the 100 selection rows are among the rows fitted on") as caught:
        select_recalibration(PAIR, z, y, z_other, y_other)
    assert [warning.filename for warning in caught] == [__file__]


def test_equal_reports_with_other_labels_are_not_the_same_rows():
    z, y = overconfident(100, np.random.default_rng(0))
    select_recalibration(PAIR, z, y, z, (y + 1) % 5)  # a warning is an error here


@pytest.mark.parametrize("levels", [2, 30, 300, 3000])
@pytest.mark.parametrize("n_fit", [40, 100, 900])
def test_reports_of_few_values_coincide_by_chance_and_are_let_through(levels, n_fit):
    """Rows drawn from a few reports coincide between the parts as often as within them: no sample was used twice."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(levels, 3))

        def part(n, rng=rng, z=z):
            rows = rng.integers(0, levels, n)
            return z[rows], (z[rows] + rng.gumbel(size=(n, 3))).argmax(axis=1)

        fit, select = part(n_fit), part(100)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\d of the 100 selection rows")  # one digit: at most 9
            select_recalibration([Identity()], *fit, *select)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_never_wins(value):
    rng = np.random.default_rng(0)
    parts = (*overconfident(200, rng), *overconfident(100, rng))

    def mine(y, p):
        return value if p.max() > 0.999 else tc.brier(y, p)

    with pytest.raises(ValueError, match=rf"mine of candidate 'none' is {value}: expected a finite number"):
        select_recalibration({"pooled": PAIR["pooled"], "none": Identity()}, *parts, error=mine, allow_untruthful=True)
    for answer in ("a", np.zeros(2), None):
        with pytest.raises(TypeError, match="mine of candidate 'none' must be one number, got"):
            select_recalibration({"none": Identity()}, *parts, error=named_mine(answer), allow_untruthful=True)


def named_mine(answer):
    def mine(y, p):
        return answer

    return mine


def test_a_callable_gets_column_indices_whatever_the_labels():
    rng = np.random.default_rng(0)
    fit, select = overconfident(200, rng), overconfident(100, rng)
    names = np.array(list("vwxyz"))
    named = {name: clone(estimator).set_params(labels=names) for name, estimator in PAIR.items()}
    plain = select_recalibration(PAIR, *fit, *select, error=tc.brier, allow_untruthful=True)
    by_name = select_recalibration(
        named, fit[0], names[fit[1]], select[0], names[select[1]], error=tc.brier, allow_untruthful=True
    )
    assert by_name.scores == plain.scores
    wrong = names[select[1]]
    wrong[3] = "q"
    with pytest.raises(ValueError, match="y_select has q at row 3, which is not in labels"):
        select_recalibration(named, fit[0], names[fit[1]], select[0], wrong, error=tc.brier, allow_untruthful=True)
    with pytest.raises(ValueError, match="numbers of rows disagree: logits_select has 100, y_select has 50"):
        select_recalibration(PAIR, *fit, select[0], select[1][:50], error=tc.brier, allow_untruthful=True)
