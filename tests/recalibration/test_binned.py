"""Maps of probabilities: isotonic, histogram and scaling-binning, canonical recalibration."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import truecal as tc
from recalibration_cases import draw
from truecal.recalibration import (
    CanonicalRecalibration,
    HistogramBinning,
    IsotonicOneVsRest,
    ScalingBinning,
    TemperatureScaling,
)


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
            rank = {i: place for place, i in enumerate(sorted(range(103), key=p[:, r].__getitem__))}
            cell = [((rank[i] + 1) * 7 - 1) // 103 for i in range(103)]
        for i in range(103):
            members = [h for h in range(103) if cell[h] == cell[i]]
            expected[i, r] = sum(y[h] == r for h in members) / len(members)
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(z), expected, atol=1e-12)


def test_batches_of_histogram_binning_are_one_fit():
    z, y = draw(103, 3)
    y[y == 2] = 1  # an absent class
    weight = np.random.default_rng(0).integers(0, 3, 103).astype(float)
    whole = HistogramBinning(n_bins=7, strategy="uniform").fit(z, y, weight)
    parts = HistogramBinning(n_bins=7, strategy="uniform").fit(z[:5], y[:5])  # a fit starts afresh
    for rows in np.array_split(np.arange(103), 4):
        parts.partial_fit(z[rows], y[rows], sample_weight=weight[rows])
    np.testing.assert_allclose(parts.predict_proba(z), whole.predict_proba(z), atol=1e-12)
    np.testing.assert_allclose(parts.means_, whole.means_, atol=1e-12)
    with pytest.raises(ValueError, match="X has 2 features"):
        parts.partial_fit(z[:, :2], y)
    with pytest.raises(AttributeError) as caught:
        HistogramBinning().partial_fit(z, y)
    assert "partial_fit needs strategy='uniform': 'quantile' edges need all rows" in str(caught.value.__cause__)


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


@pytest.mark.slow
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
    for wrong, kind in ((-1, ValueError), ("a", TypeError)):
        with pytest.raises(kind, match=f"smoothing must be a finite number of at least 0, got {wrong!r}"):
            fitted.set_params(smoothing=wrong).fit(z, y)


def test_predictions_where_nothing_was_learned_stay():
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


def test_canonical_recalibration_can_be_worse_on_a_sample():
    """The theorem is about E[y | prediction]; an estimate of it is noisy, here where the predictions are calibrated."""
    worse = 0
    for seed in range(20):
        z, y = draw(2000, 3, true_temperature=1.0, seed=seed)
        p = softmax(z[300:], axis=1)
        mapped = CanonicalRecalibration().fit(z[:300], y[:300]).predict_proba(z[300:])
        worse += tc.classwise_error(y[300:], mapped) > tc.classwise_error(y[300:], p)
    assert worse >= 15


def test_equal_votes_stay_equal_whatever_the_other_classes_have():
    """A floor under zeros changes the sums of rows: each class has the curve of its votes as they are."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet([0.4] * 4, size=400)
    votes = np.array([rng.multinomial(10, share) for share in shares]) / 10
    y = (shares.cumsum(axis=1) < rng.random((400, 1))).sum(axis=1)
    columns = [IsotonicRegression(y_min=0, y_max=1).fit(votes[:, r], y == r).predict(votes[:, r]) for r in range(4)]
    wanted = np.column_stack(columns) / np.sum(columns, axis=0)[:, None]
    found = tc.recalibration.IsotonicOneVsRest.from_probabilities().fit(votes, y)
    assert np.isfinite(wanted).all() and (votes == 0).any()
    assert all(curve is not None and len(curve.X_thresholds_) <= 11 for curve in found.maps_)
    np.testing.assert_allclose(found.predict_proba(votes), wanted, atol=1e-9)
