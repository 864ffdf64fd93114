"""Vector, matrix and Dirichlet scaling: each minimises what it says, for logits of any size."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

import truecal as tc
from recalibration_cases import AFFINE, draw
from truecal.recalibration import DirichletScaling, MatrixScaling, TemperatureScaling, VectorScaling


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


@pytest.mark.slow
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


@pytest.mark.slow
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
@pytest.mark.slow
@pytest.mark.parametrize("cls", AFFINE)
def test_an_optimum_that_is_not_attained_is_reported(cls, data):
    z, y = data()
    if (cls, data) == (DirichletScaling, separable_but_not_by_the_logits):
        z = log_softmax(z, axis=1)
    with pytest.warns(ConvergenceWarning, match=f"{cls.__name__}.*no best map.*l2") as caught:
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
    with pytest.warns(ConvergenceWarning, match="DirichletScaling did not converge: a further step would gain"):
        DirichletScaling().fit(z * 1e-30, y)


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1e-3, 1, 1e3])
@pytest.mark.parametrize("cls", AFFINE)
def test_an_attained_optimum_is_not_reported(cls, scale):
    for seed in range(5):
        z, y = draw(300, 3, seed=seed)
        cls(l2=0).fit(z * scale, y)
    z, y = separable()
    y[0] = (y[0] + 1) % 3
    cls(l2=1e-3).fit(z * scale, y)


@pytest.mark.parametrize("cls", AFFINE)
def test_weights_beside_which_the_pull_vanishes_are_an_optimum_not_attained(cls):
    """One row that outweighs all others and the pull: the Hessian is zero to the last digit, and no step is taken."""
    z, y = draw(12, 3)
    weight = np.where(np.arange(12) == 5, 1e289, 1e-30)
    with pytest.warns(ConvergenceWarning, match=f"{cls.__name__} "):
        fitted = cls().fit(z, y, sample_weight=weight)
    p = fitted.predict_proba(z)
    assert np.isfinite(p).all() and p[5].argmax() == y[5]
