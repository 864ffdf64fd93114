"""The default test looks at several forms in the same draws: exact level by listing all outcomes, and true words."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import expit, logit

import truecal as tc
from inference_cases import draw_labels, rows_of, softmax
from truecal import calibration_test
from truecal.core.rules import auto_bins
from truecal.inference import forms as forms_module
from truecal.inference.checks import p_of_draws
from truecal.inference.forms import ClassForms, Form, ScalarForms
from truecal.inference.joint import combined, farthest, words
from truecal.inference.null import draws_pvalue
from truecal.inference.omnibus import omnibus_test

pytestmark = pytest.mark.slow


def outcomes_of(u, w):
    """Every outcome of binary predictions with its chance, and the forms of each."""
    every = np.array(list(product((0.0, 1.0), repeat=len(u))))
    chance = np.prod(np.where(every > 0, u, 1 - u), axis=1)
    forms = ScalarForms.of(u, w)
    return forms.forms, forms.values(every[:, forms.order])[0], chance


def labels_of(p, w):
    n, k = p.shape
    every = np.array(list(product(range(k), repeat=n)))
    chance = np.prod(p[np.arange(n), every], axis=1)
    forms = ClassForms.of(p, w)
    return forms.forms, forms.values(every)[0], chance


@pytest.mark.heavy
@pytest.mark.parametrize(
    "made",
    [
        outcomes_of(np.array([0.3, 0.5, 0.8]), None),
        outcomes_of(np.array([0.4, 0.4, 0.9]), np.array([1.0, 3.0, 0.5])),
        labels_of(np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]), None),
        labels_of(np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]]), np.array([2.0, 1.0])),
    ],
    ids=["binary", "ties-weights", "classes", "classes-weights"],
)
def test_the_level_is_exact_over_all_outcomes_and_all_draws(made):
    """Three draws: every way the observed outcome and the draws can turn out, with its chance; P(p ≤ j/4) ≤ j/4."""
    forms, values, chance = made
    total = np.zeros(5)
    for rows in product(range(len(chance)), repeat=3):
        # exchangeable rows: every place of the four may be the observed one, so three are listed and one is summed out
        for last in range(len(chance)):
            every = [*rows, last]
            weight = chance[every].prod()
            largest = combined(values[every], forms).max(axis=1)
            p = draws_pvalue(float(largest[0]), largest[1:])
            total[round(4 * p)] += weight
    assert total.sum() == pytest.approx(1.0)
    assert (np.cumsum(total) <= np.arange(5) / 4 + 1e-9).all()
    assert np.cumsum(total)[1] > 0.02  # and it can reject


def test_scalar_forms_are_their_formulas():
    rng = np.random.default_rng(0)
    n = 60
    u, w = rng.random(n), rng.random(n) + 0.5
    y = (rng.random((4, n)) < u).astype(float)
    forms = ScalarForms.of(u, w)
    assert [form.name for form in forms.forms] == [
        *("mean", "slope", "5 bins", "neighbours within 0.02", "neighbours within 0.1")
    ]
    values, signed = forms.values(y[:, forms.order])
    for row, found, sums in zip(y, values, signed, strict=True):
        r = w * (u - row)
        assert sums == pytest.approx([r.sum(), r @ logit(u)])
        assert found[:2] == pytest.approx([r.sum() ** 2, (r @ logit(u)) ** 2])
        cell = ((np.argsort(np.argsort(u)) + 1) * 5 - 1) // n
        sums_in, variance = np.bincount(cell, r, 5), np.bincount(cell, w * w * u * (1 - u), 5)
        assert found[2] == pytest.approx((sums_in**2 / variance).sum())
        for place, theta in ((3, 0.02), (4, 0.1)):  # fewer rows than cells of the grid: exact
            kernel = np.exp(-np.abs(u[:, None] - u) / theta)
            assert found[place] == pytest.approx(r @ kernel @ r - r @ r)


def test_class_forms_are_their_formulas():
    rng = np.random.default_rng(1)
    n, k = 50, 4
    p, w = rng.dirichlet(np.ones(k), n), rng.random(n) + 0.5
    y = draw_labels(rng, p)
    forms = ClassForms.of(p, w)
    values, signed = forms.values(y[None])
    found = dict(zip([form.name for form in forms.forms], values[0], strict=True))
    r = w[:, None] * (p - np.eye(k)[y])
    own = np.square(r).sum()
    score = w @ ((p * np.log(p)).sum(axis=1) - np.log(p[np.arange(n), y]))
    assert found["temperature"] == pytest.approx(score**2) and signed[0, 2] == pytest.approx(score)
    assert found["class frequencies"] == pytest.approx(np.square(r.sum(axis=0)).sum() - own)
    m = auto_bins(n, k)
    cells = [((np.argsort(np.argsort(p[:, j])) + 1) * m - 1) // n for j in range(k)]
    squares = sum(np.square(np.bincount(c, r[:, j], m)).sum() for j, c in enumerate(cells))
    assert found[f"per class, {m} bins"] == pytest.approx(squares - own)
    c = w * (p.max(axis=1) - (p.argmax(axis=1) == y))
    assert found["confidence: mean"] == pytest.approx(c.sum() ** 2)


def test_very_many_predictions_leave_single_classes_to_their_rates(monkeypatch):
    y, p = rows_of(3, 200, 0)
    assert "per class" in calibration_test(y, p, n_resamples=19).details[-1].name
    monkeypatch.setattr(forms_module, "_MOST_CODES", 599)
    assert calibration_test(y, p, n_resamples=19).details[-1].name == "class frequencies"


def test_equal_predictions_go_whole_to_one_cell():
    u = np.repeat([0.1, 0.5, 0.9], [3, 20, 3])
    forms = ScalarForms.of(u, None)
    assert all(len(set(np.flatnonzero(forms.starts == s))) <= 1 for s in forms.starts)
    assert not (set(forms.starts.tolist()) & set(range(4, 23)))  # no cut inside the block of .5


# -- the strongest violation -


def sampled(distort, n=3000, k=None, seed=0):
    rng = np.random.default_rng(seed)
    if k is None:
        u = rng.beta(0.5, 0.5, n)
        return (rng.random(n) < distort(u)).astype(int), u
    z = 1.5 * rng.normal(size=(n, k))
    return draw_labels(rng, softmax(distort(z))), softmax(z)


@pytest.mark.parametrize(
    ("distort", "k", "said"),
    [
        (lambda u: expit(logit(u) - 0.5), None, "probabilities are too high overall"),
        (lambda u: expit(logit(u) + 0.5), None, "probabilities are too low overall"),
        (lambda u: expit(logit(u) / 1.5), None, "probabilities are too extreme"),
        (lambda u: expit(logit(u) * 1.5), None, "probabilities are not extreme enough"),
        (lambda u: u + u * (1 - u) * np.cos(16 * np.pi * u), None, "probabilities and outcomes differ"),
        (lambda z: z / 1.4, 30, "over-confident"),
        (lambda z: z * 1.4, 30, "under-confident"),
        (lambda z: z + 0.4 * (np.arange(10) % 2), 10, "some classes are predicted too often, others too rarely"),
    ],
)
def test_the_result_says_what_is_wrong(distort, k, said):
    found = calibration_test(*sampled(distort, k=k), n_resamples=199)
    assert found.at_floor and found.strongest.startswith(said)
    assert (
        (said in repr(found) or found.standing.why in repr(found))
        and found.n_bins is None
        and found.name == "several forms"
    )


def test_every_form_has_words_of_its_own():
    y, p = rows_of(3, 300, 0, tied=False)
    names = {detail.name for detail in calibration_test(y, p, n_resamples=9).details}
    names |= {detail.name for detail in calibration_test((y == 0).astype(int), p[:, 0], n_resamples=9).details}
    for name in names:
        high, low = words(name, 1.0), words(name, -1.0)
        signed = name.endswith(("mean", "slope", "temperature"))
        assert (high != low) == signed
    assert words("confidence: mean", 1.0) == "over-confident"
    assert words("confidence: slope", -1.0) == "high confidence is too low"
    assert words("confidence: 5 bins", 0.0) == "confidence and accuracy differ (5 bins)"


def test_two_columns_are_one_probability():
    y, p = rows_of(2, 200, 3, tied=False)
    both, one = calibration_test(y, p, n_resamples=99), calibration_test(y, p[:, 1], n_resamples=99)
    assert both.pvalue == one.pvalue and both.strongest == one.strongest


def test_confidences_alone_are_tested_by_their_own_forms():
    y, p = rows_of(3, 200, 3, tied=False)
    sample = tc.TopLabel().read(y == p.argmax(axis=1), p.max(axis=1))
    found = omnibus_test(sample, 99, 0)
    assert all(detail.name.startswith("confidence: ") for detail in found.details) and "top class" in found.null


def test_weights_enter_every_form():
    """The rows that are off have no weight: nothing is found; they have all the weight: it is."""
    rng = np.random.default_rng(0)
    u = rng.random(1000)
    y = np.r_[rng.random(500) < u[:500], rng.random(500) < u[500:] ** 3].astype(int)
    first = np.r_[np.ones(500), np.full(500, 1e-9)]
    assert calibration_test(y, u, sample_weight=first, n_resamples=199).pvalue > 0.05
    assert calibration_test(y, u, sample_weight=first[::-1], n_resamples=199).pvalue == 0.005


def test_a_row_far_from_all_others_is_as_loud_as_it_is_far():
    """With moments of all rows, one far row would make its own spread: 30 and 3000 sd would be equally loud."""
    forms = (Form("one", 1.0),)
    draws = np.random.default_rng(0).normal(size=(199, 1))
    near, far = (combined(np.concatenate([[[x]], draws]), forms) for x in (30.0, 3000.0))
    assert 50 < near[0, 0] < far[0, 0] and near[1:].max() < 10


def test_of_forms_beyond_all_doubt_the_simplest_is_named():
    forms = (Form("simple", 4.0), Form("detailed", 0.5))
    assert farthest(np.array([50.0, 200.0]), forms) == 0
    assert farthest(np.array([9.0, 12.0]), forms) == 1 and farthest(np.array([9.0, 200.0]), forms) == 1


def test_a_form_that_never_moves_is_silent():
    forms = (Form("still", 4.0), Form("moves", 1.0))
    values = np.column_stack([np.full(20, 3.0), np.arange(20.0)[::-1]])
    loud = combined(values, forms)
    assert (loud[:, 0] == np.log(4.0)).all() and loud[0, 1] == loud[:, 1].max()
    np.testing.assert_allclose(combined(values[::-1], forms), loud[::-1])  # all rows are treated alike


def test_a_subset_of_very_many_rows_is_tested_and_said(monkeypatch):
    y, u = sampled(lambda u: u**2, n=5000)
    monkeypatch.setattr("truecal.inference.omnibus.MOST_ROWS", 1000)
    found = calibration_test(y, u, n_resamples=99)
    assert (found.n_samples, found.tested) == (5000, 1000) and found.pvalue == 0.01
    assert "5000 samples (1000 of them, chosen at random)" in repr(found)


def test_blocks_of_draws_do_not_change_the_test(monkeypatch):
    y, u = sampled(lambda u: u, n=200)
    whole = calibration_test(y, u, n_resamples=99)
    monkeypatch.setattr("truecal.inference.omnibus._BLOCK", 1500)
    assert calibration_test(y, u, n_resamples=99) == whole


def test_pvalues_at_the_floor_are_bounds():
    assert p_of_draws(0.005, 199) == "p ≤ 0.005" and p_of_draws(0.032, 999) == "p = 0.032"
    found = calibration_test(*sampled(lambda u: u**3), n_resamples=199)
    assert found.at_floor and found.pvalue_text == "p ≤ 0.005" and "p ≤ 0.005, together" in repr(found)
    assert "mean; p ≤ 0.005" in repr(found) and "p = 0.005" not in repr(found)
    band = tc.confidence_interval(*sampled(lambda u: u**3), error="binary_l1", n_resamples=199).band
    assert "(p ≤ 0.005)" in repr(band)
    fine = calibration_test(*sampled(lambda u: u), n_resamples=199)
    assert not fine.at_floor and fine.pvalue_text.startswith("p = ")
