"""Temperature scaling: it reaches the global optimum, and says so where there is none."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import sklearn.calibration
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning

from recalibration_cases import draw
from truecal.recalibration import TemperatureScaling
from truecal.recalibration import temperature as temperature_module


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
    "differences beyond the largest float": (np.array([[1.7e308, -1.7e308]] * 100), np.arange(100) // 99),
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
    "many classes": draw(100, 100),
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.heavy
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
