"""The calibration test draws many labels in compiled loops: the same statistics as of arrays of the same labels."""

from __future__ import annotations

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.core import dispatch
from truecal.core.arrays import compiled_loops
from truecal.core.rules import auto_bins
from truecal.inference import omnibus
from truecal.inference.forms import ClassForms, ScalarForms

pytest.importorskip("numba", reason="loops are compiled with numba")


def uniforms(seed, n, first, draws):
    """SplitMix64 with Python's whole numbers."""
    mask, out = (1 << 64) - 1, np.empty((draws, n))
    for d in range(draws):
        for i in range(n):
            z = (seed + ((first + d) * n + i + 1) * 0x9E3779B97F4A7C15) & mask
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
            out[d, i] = ((z ^ (z >> 31)) >> 11) * 2.0**-53
    return out


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [3, 24, 60])
def test_class_forms_of_compiled_draws_are_those_of_the_same_labels(rng, k, weighted):
    n, draws = 150, 4
    p = rng.dirichlet(np.full(k, 0.3), n)
    p[:20, 1] = 0.0
    p /= p.sum(axis=1, keepdims=True)
    forms = ClassForms.of(p, rng.uniform(0.5, 2, n) if weighted else None)
    cdf = np.cumsum(p, axis=1)
    labels = (uniforms(7, n, 3, draws)[:, :, None] * cdf[:, -1:] >= cdf).sum(axis=2).clip(0, k - 1)
    for found, wanted in zip(forms.drawn(7, 3, draws), forms.values(labels), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_scalar_forms_of_compiled_draws_are_those_of_the_same_outcomes(rng, weighted):
    n, draws = 200, 5
    u = rng.random(n).round(2)
    forms = ScalarForms.of(u, rng.uniform(0.5, 2, n) if weighted else None)
    outcomes = (uniforms(1, n, 0, draws) < u[forms.order]).astype(float)
    for found, wanted in zip(forms.drawn(u[forms.order], 1, 0, draws), forms.values(outcomes), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_the_number_of_threads_changes_nothing(rng, monkeypatch):
    u = rng.random(500)
    forms = ScalarForms.of(u, None)
    found = forms.drawn(u[forms.order], 0, 0, 7)[0]
    monkeypatch.setattr(compiled_loops("_draws"), "THREADS", 1)
    assert_close(forms.drawn(u[forms.order], 0, 0, 7)[0], found)
    assert_close(forms.drawn(u[forms.order], 0, 3, 4)[0], found[3:])  # in several blocks


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 4])
def test_a_large_test_decides_as_a_small_one(rng, monkeypatch, k):
    p = rng.dirichlet(np.ones(k), 3000)
    y = (p.cumsum(axis=1) > rng.random((3000, 1))).argmax(axis=1)
    sharp = p**1.5
    sharp /= sharp.sum(axis=1, keepdims=True)
    plain = [tc.calibration_test(y, q, n_resamples=199).pvalue for q in (p, sharp)]
    monkeypatch.setattr(omnibus, "DISPATCH", dispatch.Dispatch(compiled_draws=1))
    compiled = [tc.calibration_test(y, q, n_resamples=199).pvalue for q in (p, sharp)]
    assert plain[1] == compiled[1] == pytest.approx(1 / 200)
    assert abs(plain[0] - compiled[0]) < 0.2 and compiled[0] > 0.01


def test_draws_stop_where_they_cannot_reject(rng):
    u = rng.random(400)
    y = rng.random(400) < u
    settled = tc.calibration_test(y, u, n_resamples=999)
    assert settled.pvalue > omnibus.SETTLED and settled.n_resamples == omnibus.FIRST_DRAWS
    wrong = tc.calibration_test(y, np.sqrt(u), n_resamples=999)
    assert wrong.n_resamples == 999 and wrong.pvalue == pytest.approx(0.001)
    assert auto_bins(400) > 1


@pytest.mark.heavy
def test_the_level_holds_where_draws_stop(monkeypatch):
    """P(p ≤ α) is at most α below and above the p-value at which draws stop."""
    rng = np.random.default_rng(5)
    monkeypatch.setattr(omnibus, "FIRST_DRAWS", 19)
    found = []
    for seed in range(600):
        u = rng.random(60)
        y = rng.random(60) < u
        found.append(tc.calibration_test(y, u, n_resamples=99, seed=seed).pvalue)
    for alpha in (0.05, 0.1, 0.2, 0.3, 0.5):
        assert np.mean(np.array(found) <= alpha) < alpha + 3 * np.sqrt(alpha * (1 - alpha) / 600), alpha
