"""Label distributions, such as shares of human votes: outcomes of the linear property, and losses to match."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truecal

tc: Any = truecal  # what a test hands in need not be of the right type

RNG = np.random.default_rng(5)
P = RNG.dirichlet(np.ones(4), 300)
Y = RNG.integers(0, 4, 300)
VOTES = np.array([RNG.multinomial(5, p) / 5 for p in P])
W = RNG.random(300)


@pytest.mark.parametrize("call", [tc.classwise_error, tc.confidence_error, tc.full_error])
@pytest.mark.parametrize("scale", ["raw", "score"])
@pytest.mark.parametrize("weights", [None, W])
def test_certain_votes_are_labels(call, scale, weights):
    hard = call(Y, P, n_bins=7, scale=scale, sample_weight=weights)
    assert call(np.eye(4)[Y], P, n_bins=7, scale=scale, sample_weight=weights) == pytest.approx(hard, rel=1e-12)


@pytest.mark.parametrize("loss", tc.LOSSES.values(), ids=tc.LOSSES)
def test_losses_of_certain_votes_are_those_of_labels(loss):
    np.testing.assert_allclose(loss(np.eye(4)[Y], P, per_example=True), loss(Y, P, per_example=True), rtol=1e-12)


def test_losses_of_votes_are_their_definitions():
    top = P.argmax(axis=1)
    right, c = VOTES[np.arange(300), top], P.max(axis=1)
    assert tc.brier(VOTES, P) == pytest.approx(np.square(P - VOTES).sum(axis=1).mean())
    assert tc.cross_entropy(VOTES, P) == pytest.approx(-(VOTES * np.log(P)).sum(axis=1).mean())
    assert tc.classification_error(VOTES, P) == pytest.approx(1 - right.mean())
    assert tc.losses.confidence_loss(VOTES, P) == pytest.approx((1 - right + np.square(c - right)).mean())


def test_classwise_votes_are_a_linear_property_of_each_class():
    each = [tc.linear_error(VOTES[:, j], P[:, j], n_bins=9) for j in range(4)]
    assert tc.classwise_error(VOTES, P, n_bins=9) == pytest.approx(np.mean(each), rel=1e-12)


@pytest.mark.slow
def test_evaluate_measures_votes_and_withholds_what_needs_labels():
    found = tc.evaluate(VOTES, P)
    assert found.loss("brier").value == pytest.approx(tc.brier(VOTES, P))
    assert found.test is None and any("labels are distributions" in note for note in found.notes)
    assert abs(found.gap.points) < 5
    with pytest.raises(ValueError, match="needs one label per row"):
        tc.calibration_test(VOTES, P)
    sharp = P**3 / (P**3).sum(axis=1, keepdims=True)
    assert tc.compare(VOTES, {"fair": P, "sharp": sharp}).verdict.best == ("fair",)


def test_votes_are_validated_as_probabilities_are():
    with pytest.raises(ValueError, match=r"row 0 of y_true sums to 1\.1"):
        tc.brier(VOTES * 1.1, P)
    with pytest.raises(ValueError, match="y_true has 4 columns and y_proba has 3"):
        tc.brier(VOTES, P[:, :3] / P[:, :3].sum(axis=1, keepdims=True))
    with pytest.raises(ValueError, match="labels cannot be used: y_true has a column per class"):
        tc.brier(VOTES, P, labels=["a", "b", "c", "d"])
