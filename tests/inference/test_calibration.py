"""The calibration test on U: one statistic everywhere, draws from the predictions, every outcome listed."""

from __future__ import annotations

from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from inference_cases import arguments, rows_of, us_of
from truecal import calibration_test
from truecal.analysis import mean_gap
from truecal.inference import null as null_module
from truecal.inference.binned_sample import BinnedSample
from truecal.inference.null import calibrated_world, draw_labels, simulate
from truecal.kinds.named_errors import COMPOSED, get_error

confidence_interval: Any = tc.confidence_interval  # its overloads want literal options
OTHER = ("labelwise", "distribution", "survival")
SQUARED = [name for name, error in COMPOSED.items() if error.norm == "l2" and name not in OTHER]
"""Errors of labels; those of several labels are tested label by label, and of distributions in tests of kinds."""


def world_of(error, y, p, w=None, sampler=None):
    return calibrated_world(BinnedSample.of(error, error.read(y, p, sample_weight=w)), sampler)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SQUARED)
def test_test_interval_and_decomposition_share_one_U(name, weighted):
    error = get_error(name) if not tc.ERRORS[name].binning.has_counts else get_error(name, (2, 6, 50))
    y, p, sampler = arguments(name)
    if name == "linear":
        error = tc.CalibrationError(tc.properties.Outcomes((0.0, 1.0)), error.binning)
    w = np.random.default_rng(0).random(40) if weighted else None
    expected = error.decompose(y, p, sample_weight=w)
    test = calibration_test(y, p, error=error, n_resamples=19, sampler=sampler, sample_weight=w)
    assert [d.U for d in test.details] == pytest.approx(np.atleast_1d(expected.U).tolist(), abs=1e-12)
    for what, value in (("U", expected.U), ("score", expected.score), ("error", expected.error)):
        found = confidence_interval(y, p, error=error, what=what, sample_weight=w)
        found = found if isinstance(found, tuple) else (found,)
        np.testing.assert_allclose([ci.estimate for ci in found], np.broadcast_to(value, len(found)), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", [n for n in COMPOSED if not n.startswith(("linear", *OTHER))])
def test_statistics_of_draws_are_the_errors_of_drawn_outcomes(name, tied, weighted):
    """The fast path, which only counts labels in cells, against the error itself on each drawn outcome."""
    error = get_error(name) if not tc.ERRORS[name].binning.has_counts else get_error(name, (1, 3, 9))
    y, p, _ = arguments(name, tied)
    w = np.random.default_rng(0).random(40) if weighted else None
    world = world_of(error, y, p, w)
    drawn = simulate(world, 6, seed=3).drawn
    outcomes = world.draw(np.random.default_rng(3), 6)
    for values, outcome in zip(drawn, outcomes, strict=True):
        if isinstance(error.property, tc.Confidence):
            top = p.argmax(axis=1)
            outcome = np.where(outcome, top, (top + 1) % 4)
        if name.startswith("ordinal"):  # drawn as the views, 1[y <= j]
            outcome = 3 - outcome.sum(axis=1)
        sample = error.read(outcome.astype(int), p, sample_weight=w)
        expected = error.of(sample) if error.norm == "l1" else us_of(error, sample)
        np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("prop", "rule"),
    [
        (tc.Classwise(), tc.Poisson(0.2)),
        (tc.Classwise(), tc.rules.Exact()),
        (tc.Classwise(), tc.Quantile((2, 5), ties="together")),
        (tc.Classwise(), tc.Quantile((2, 5), ties="row")),
        (tc.Confidence(), tc.Poisson(0.2)),
        (tc.Full(), tc.rules.KdTree((2, 4))),
        (tc.Full(), tc.rules.Exact()),
    ],
    ids=repr,
)
def test_draws_under_other_rules(prop, rule, weighted):
    error = tc.CalibrationError(prop, rule)
    y, p = rows_of(4, 30, 8)
    w = np.random.default_rng(0).random(30) if weighted else None
    world = world_of(error, y, p, w)
    drawn = simulate(world, 4, seed=3).drawn
    for values, outcome in zip(drawn, world.draw(np.random.default_rng(3), 4), strict=True):
        top = p.argmax(axis=1)
        labels = np.where(outcome, top, (top + 1) % 4) if isinstance(prop, tc.Confidence) else outcome
        expected = us_of(error, error.read(labels, p, sample_weight=w))
        np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("phi", [[0.0, 1.0, 3.0, -1.0], [[0, 1], [1, 1], [2, 0], [0, 0]]], ids=["scalar", "vector"])
def test_linear_properties_draw_whole_labels(phi):
    y, p = rows_of(4, 30, 5)
    rule = tc.rules.KdTree(4) if np.ndim(phi) == 2 else tc.Quantile(4)
    error = tc.CalibrationError(tc.Linear(phi), rule)
    drawn = simulate(world_of(error, y, p), 5, seed=1).drawn
    labels = draw_labels(np.random.default_rng(1), p, 5)
    expected = [us_of(error, error.read(label, p)) for label in labels]
    np.testing.assert_allclose(drawn, expected, atol=1e-12)


def test_blocks_do_not_change_the_draws(monkeypatch):
    y, p, _ = arguments("binary")
    whole = calibration_test(y, p, error="binary", n_resamples=50)
    monkeypatch.setattr(null_module, "_BLOCK", 130)
    pieces = calibration_test(y, p, error="binary", n_resamples=50)
    assert_close(pieces.pvalue, whole.pvalue)
    assert pieces.details[0].null_sd == pytest.approx(whole.details[0].null_sd, rel=1e-12)


@pytest.mark.slow
def test_label_blocks_give_the_same_law(monkeypatch):
    y, p = rows_of(3, 60, 3)
    whole = calibration_test(y, p, n_bins=3, n_resamples=2000).details[0].null_sd
    monkeypatch.setattr(null_module, "_BLOCK", 500)
    monkeypatch.setattr(null_module, "_CDF_ENTRIES", 16)
    pieces = calibration_test(y, p, n_bins=3, n_resamples=2000).details[0].null_sd
    assert pieces == pytest.approx(whole, rel=0.12)  # each sd has a relative error of about 2-3%


def test_labels_are_drawn_from_the_rows():
    p = np.array([[0.0, 0.2, 0.8, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]], dtype=np.float32)
    labels = draw_labels(np.random.default_rng(0), p, 20_000)
    share = np.stack([(labels == r).mean(axis=0) for r in range(4)], axis=1)
    assert np.abs(share - p).max() < 5 * 0.5 / np.sqrt(20_000)
    assert (share[p == 0] == 0).all()


def test_a_class_without_chance_is_not_drawn_even_at_the_edge():
    class Zeros(np.random.Generator):
        def random(self, shape):  # type: ignore[override]  # only what the draws call
            return np.zeros(shape)

    p = np.array([[0.0, 0.0, 1.0], [0.0, 0.4, 0.6]])
    assert draw_labels(Zeros(np.random.PCG64(0)), p, 1).tolist() == [[2, 1]]


# -- null moments: every outcome listed -------------------------------------------------------------------------------


def enumerate_null(error, p, k):
    """Chance and (U per count, loss) of every outcome vector, each label drawn from its row."""
    n = len(p)
    chances, us, losses = [], [], []
    for y in product(range(k), repeat=n):
        rows = p if p.ndim == 2 else np.stack([1 - p, p], axis=1)
        chances.append(np.prod(rows[np.arange(n), list(y)]))
        parts = error.decompose(list(y), p)
        us.append(np.atleast_1d(parts.U))
        losses.append(parts.loss)
    return np.array(chances), np.array(us), np.array(losses)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [tc.Quantile((1, 2, 3, 4, 9)), tc.Quantile(2, ties="row"), tc.EqualWidth(3), tc.TwoBin(), tc.Poisson(0.3)],
    ids=repr,
)
@pytest.mark.parametrize("reports", [[0.2, 0.5, 0.5, 0.5, 0.7, 0.7, 0.9], [0.1, 0.25, 0.4, 0.55, 0.7, 0.9]], ids=str)
def test_closed_form_moments_are_those_of_all_outcomes(rule, reports):
    error = tc.CalibrationError(tc.Binary(), rule)
    p = np.array(reports)
    chance, us, losses = enumerate_null(error, p, 2)
    s = p * (1 - p)
    pieces = BinnedSample.of(error, error.read([0] * len(p), p))
    squares = 2 * sum(piece.weight * piece.cells.pairs_of_squares(s) for piece in pieces) / len(p) ** 2
    np.testing.assert_allclose(chance @ us, 0.0, atol=1e-13)
    np.testing.assert_allclose(squares, chance @ us**2, atol=1e-12)
    assert s.mean() == pytest.approx(chance @ losses, abs=1e-13)
    # n·LinCE = loss + U: its variance is n⁻² Σ s(1 − 4s) plus that of U, which the loss does not correlate with
    both = losses[:, None] + us
    variance = chance @ both**2 - (chance @ both) ** 2
    np.testing.assert_allclose(variance, (s * (1 - 4 * s)).sum() / len(p) ** 2 + squares, atol=1e-12)


@pytest.mark.slow
def test_closed_form_moments_of_the_corrected_confidence_error():
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.7, 0.1], [0.5, 0.25, 0.25], [0.1, 0.0, 0.9], [0.34, 0.33, 0.33]])
    error = get_error("confidence", (1, 2))
    chance, _, losses = enumerate_null(error, p, 3)
    c = p.max(axis=1)
    assert chance @ losses == pytest.approx((1 - c**2).mean())
    assert chance @ losses**2 - (chance @ losses) ** 2 == pytest.approx((4 * c**3 * (1 - c)).sum() / 25)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["classwise", "full", "classwise_two_bin"])
def test_resampled_moments_and_pvalue_are_near_those_of_all_outcomes(name):
    y = [2, 2, 0, 1, 2]
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.7, 0.1], [0.5, 0.25, 0.25], [0.1, 0.0, 0.9], [0.34, 0.33, 0.33]])
    error = get_error(name) if name.endswith("two_bin") else get_error(name, 2)
    chance, us, _ = enumerate_null(error, p, 3)
    draws = 5000
    test = calibration_test(y, p, error=error, n_resamples=draws)
    sd = float(np.sqrt(chance @ us[:, 0] ** 2))
    assert test.details[0].null_sd == pytest.approx(sd, rel=0.1)
    exact = chance @ (us[:, 0] >= error.decompose(y, p).U - 1e-12)
    assert test.pvalue == pytest.approx(exact, abs=5 * 0.5 / np.sqrt(draws))


def test_equal_values_count_as_at_least_as_large():
    """All reports 1/2 and one bin: U depends on the number of ones only, so that draws often tie with the observed."""
    n = 8
    test = calibration_test([1] * 3 + [0] * 5, [0.5] * n, error="binary", n_bins=1, n_resamples=4999)
    exact = 1 - comb(n, 4) / 2**n  # |ones − 4| >= 1
    assert test.pvalue == pytest.approx(exact, abs=5 * 0.5 / np.sqrt(5000))


def test_certain_predictions_that_came_true_have_pvalue_one():
    y, p = np.array([0, 1, 1, 0]), np.array([0.0, 1.0, 1.0, 0.0])
    both = np.stack([1 - p, p], axis=1)
    assert calibration_test(y, p, error="binary", n_bins=2).pvalue == 1.0
    assert calibration_test(y, both, n_bins=(1, 2)).pvalue == 1.0
    assert calibration_test(y, p).pvalue == calibration_test(y, both).pvalue == 1.0
    assert calibration_test([0, 1, 2], np.eye(3)).pvalue == 1.0


def test_as_many_bins_as_rows_have_no_pairs_and_say_nothing():
    y, p = rows_of(3, 12, 0)
    test = calibration_test(y, p, n_bins=(3, 12, 400))
    assert [d.U for d in test.details[1:]] == [0.0, 0.0] and test.details[1].null_sd == 0.0
    assert calibration_test(y, p, n_bins=(12, 400)).pvalue == 1.0
    assert_close(test.details[0].pvalue, test.pvalue)
    assert_close(calibration_test(y, p, n_bins=3).pvalue, test.pvalue)  # silent counts add nothing
    found = confidence_interval(y, p, n_bins=400)
    assert abs(found.estimate) < 1e-15 and "unreliable" in found.note


def test_a_single_row_with_weight_has_no_pairs_and_pvalue_one():
    y, p = rows_of(3, 20, 0)
    w = np.eye(1, 20)[0]
    for n_bins in (4, (2, 4)):
        assert calibration_test(y, p, n_bins=n_bins, sample_weight=w, n_resamples=19).pvalue == 1.0
    assert calibration_test([1], [[0.2, 0.8]], error="classwise", n_resamples=19).pvalue == 1.0
    assert mean_gap([1], [[0.2, 0.8]]).word == "no clear direction"


def test_several_bin_counts_are_one_test():
    y, p = rows_of(3, 50, 1)
    test = calibration_test(y, p, n_bins=(2, 5, 10), n_resamples=199)
    assert test.n_bins == (2, 5, 10) and [d.n_bins for d in test.details] == [2, 5, 10]
    assert test.pvalue >= min(d.pvalue for d in test.details) and test.strongest in ("2 bins", "5 bins", "10 bins")
    alone = calibration_test(y, p, n_bins=5, n_resamples=199)
    assert_close(alone.pvalue, test.details[1].pvalue)
    assert_close(alone.details[0].U, test.details[1].U, 1)


def test_the_test_says_which_null_it_tests():
    y, p = rows_of(3, 30, 1)
    for error in (None, "classwise"):
        null = calibration_test(y, p, n_resamples=9, error=error).null
        assert "drawn from the predicted probabilities" in null
    assert "top class" in calibration_test(y, p, error="confidence", n_resamples=9).null
    assert "u_i" in calibration_test(y == 0, p[:, 0], error="binary", n_resamples=9).null
    assert "u_i" in calibration_test((y == 0).astype(int), p[:, 0], n_resamples=9).null
    assert "null hypothesis:" in repr(calibration_test(y, p, n_resamples=9))


@pytest.mark.parametrize("k", [2, 3, 10])
def test_few_classes_are_drawn_as_many_are(monkeypatch, k):
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.full(k, 0.3), 400)
    p[:100, 0], p[100:200, -1] = 0.0, 0.0
    few = draw_labels(np.random.default_rng(0), p, 50)
    monkeypatch.setattr(null_module, "_FEW_CLASSES", 0)
    assert np.array_equal(few, draw_labels(np.random.default_rng(0), p, 50))
    assert (p[np.arange(400), few] > 0).all()
    assert abs((few == 0).mean() - (p[:, 0] / p.sum(axis=1)).mean()) < 0.02


def test_one_row_per_bin_says_why_it_cannot_reject():
    rng = np.random.default_rng(0)
    found = tc.calibration_test((rng.random(40) < 0.9).astype(int), rng.random(40), error="binary", n_bins=40)
    assert found.pvalue == 1 and "no two rows share a bin, so that p = 1" in found.sentence
    assert "undecided" in repr(found)
