"""Platt, beta and Venn-Abers scaling beside the libraries of their authors, and maps of one column."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.calibration import _SigmoidCalibration
from sklearn.exceptions import ConvergenceWarning
from sklearn.isotonic import IsotonicRegression

import truecal as tc
from closeness import assert_close
from recalibration_cases import MAPS, draw


def binary(n: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores whose true log-odds are 0.6 s - 0.3, and outcomes."""
    rng = np.random.default_rng(seed)
    s = 2 * rng.normal(size=n)
    return s, (rng.random(n) < 1 / (1 + np.exp(0.3 - 0.6 * s))).astype(int)


def test_platt_is_that_of_scikit_learn():
    s, y = binary()
    theirs = _SigmoidCalibration().fit(s, y)
    ours = tc.PlattScaling().fit(s, y)
    np.testing.assert_allclose(ours.predict_proba(s)[:, 1], theirs.predict(s), atol=1e-4)
    assert ours.maps_[0][0] == pytest.approx(-theirs.a_, abs=1e-3)


def test_platt_of_separable_scores_is_finite():
    p = tc.PlattScaling().fit([-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1]).predict_proba([-9.0, 9.0])
    assert ((p > 0) & (p < 1)).all()


@pytest.mark.parametrize("seed", range(3))
def test_beta_is_that_of_its_authors(seed):
    betacal = pytest.importorskip("betacal")
    s, y = binary(2000, seed)
    p = 1 / (1 + np.exp(-s))
    theirs = betacal.BetaCalibration("abm").fit(p.reshape(-1, 1), y)
    ours = tc.BetaScaling.from_probabilities().fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p)[:, 1], theirs.predict(p), atol=2e-3)


def test_beta_never_turns_the_order_around():
    s, y = binary(400)
    a, b, _ = tc.BetaScaling().fit(s, 1 - y).maps_[0]
    assert a >= 0 and b >= 0
    with pytest.warns(ConvergenceWarning, match="BetaScaling found no best map"):
        tc.BetaScaling().fit([-2.0, -1.0, 1.0, 2.0], [0, 0, 1, 1])


@pytest.mark.filterwarnings("ignore:All-NaN slice")  # of the library, where predictions repeat
@pytest.mark.parametrize("digits", [1, 9])
def test_venn_abers_is_that_of_its_authors(digits):
    venn_abers = pytest.importorskip("venn_abers")
    s, y = binary(300)
    p = np.round(1 / (1 + np.exp(-s)), digits)
    new = np.round(1 / (1 + np.exp(-binary(200, 1)[0])), digits)
    theirs = venn_abers.VennAbers()
    theirs.fit(np.column_stack([1 - p, p]), y)
    expected, pair = theirs.predict_proba(np.column_stack([1 - new, new]))
    ours = tc.VennAbers.from_probabilities().fit(p, y)
    np.testing.assert_allclose(ours.intervals(new)[:, 1], pair, atol=1e-9)
    np.testing.assert_allclose(ours.predict_proba(new), expected, atol=1e-9)


def test_venn_abers_is_two_isotonic_regressions():
    s, y = binary(60)
    s = np.round(s, 1)
    new = np.concatenate([s[:10], [-9.0, 9.0, 0.05]])
    found = tc.VennAbers().fit(s, y).intervals(new)[:, 1]
    for score, pair in zip(new, found, strict=True):
        for label in (0, 1):
            curve = IsotonicRegression(y_min=0, y_max=1).fit(np.append(s, score), np.append(y, label))
            assert_close(pair[label], curve.predict([score])[0])


def test_venn_abers_with_weights_is_that_of_repeated_rows():
    s, y = binary(80)
    times = np.random.default_rng(1).integers(1, 4, 80)
    weighted = tc.VennAbers().fit(s, y, sample_weight=times).intervals(s)
    repeated = tc.VennAbers().fit(np.repeat(s, times), np.repeat(y, times)).intervals(s)
    np.testing.assert_allclose(weighted, repeated, atol=1e-12)


@pytest.mark.parametrize("cls", [tc.PlattScaling, tc.BetaScaling, tc.VennAbers])
def test_they_repair_an_overconfident_model(cls):
    z, y = draw(4000, 4, true_temperature=3.0)
    fitted = cls().fit(z[:2000], y[:2000])
    before = tc.recalibration.Identity().fit(z, y).predict_proba(z[2000:])
    after = fitted.predict_proba(z[2000:])
    assert tc.brier(y[2000:], after) < tc.brier(y[2000:], before) - 0.05
    assert tc.gap(y[2000:], after).points < 5


@pytest.mark.slow
@pytest.mark.parametrize("cls", MAPS)
def test_one_column_is_two(cls):
    s, y = binary()
    p = 1 / (1 + np.exp(-s))
    one, two = cls().fit(s, y), cls().fit(np.column_stack([np.zeros_like(s), s]), y)
    assert_close(one.predict_proba(s), two.predict_proba(np.column_stack([np.zeros_like(s), s])))
    for given in (p, p.tolist(), pd.Series(p), torch.tensor(p), p.astype(np.float32)):
        fitted = cls.from_probabilities().fit(given, y)
        assert fitted.predict_proba(given).shape == (len(y), 2)
    assert_close(
        cls.from_probabilities().fit(p, y).predict_proba(p[:7]),
        cls.from_probabilities().fit(np.column_stack([1 - p, p]), y).predict_proba(np.column_stack([1 - p, p])[:7]),
    )


def test_one_column_of_probabilities_is_no_logit():
    s, y = binary()
    p = 1 / (1 + np.exp(-s))
    with pytest.raises(ValueError, match=r"X looks like probabilities .*TemperatureScaling\.from_probabilities\(\)"):
        tc.TemperatureScaling().fit(p, y)
    tc.PlattScaling().fit(p, y)  # any score will do
    with pytest.raises(ValueError, match=r"X.*\[0, 1\]"):
        tc.TemperatureScaling.from_probabilities().fit(s, y)
    with pytest.raises(ValueError, match=r"one dimension, X\[:, 0\]"):
        tc.TemperatureScaling().fit(s[:, None], y)
