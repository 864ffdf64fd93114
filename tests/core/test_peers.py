"""Agreement with other libraries wherever the definitions coincide, and the places where they do not, with reasons."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from sklearn.calibration import calibration_curve
from torchmetrics.functional.classification import binary_calibration_error, multiclass_calibration_error

import truecal as tc

with warnings.catch_warnings():  # what these packages say on import is not ours to fix
    warnings.simplefilter("ignore")
    import calibration as uncertainty_calibration
    from netcal.metrics import ECE


@pytest.fixture
def sample(rng):
    p = rng.dirichlet(np.ones(5), 3000)
    sharper = p**1.5 / (p**1.5).sum(axis=1, keepdims=True)
    y = (sharper.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
    return y, p


def usual_ece(y, p, m):
    return tc.confidence_error(y, p, norm="l1", strategy="uniform", n_bins=m)


@pytest.mark.parametrize("m", [5, 15, 100])
def test_torchmetrics_multiclass(sample, m):
    """On confidences that lie on no edge the bins are the same; torchmetrics sums in float32."""
    y, p = sample
    peer = float(multiclass_calibration_error(torch.tensor(p), torch.tensor(y), 5, n_bins=m, norm="l1"))
    assert usual_ece(y, p, m) == pytest.approx(peer, rel=1e-5)


def test_torchmetrics_binary(sample):
    y, p = sample
    peer = float(binary_calibration_error(torch.tensor(p[:, 0]), torch.tensor((y == 0) * 1), n_bins=15, norm="l1"))
    mine = tc.binary_error(y == 0, p[:, 0], norm="l1", strategy="uniform", n_bins=15)
    assert mine == pytest.approx(peer, rel=1e-6)


@pytest.mark.parametrize("m", [5, 15, 100])
def test_netcal(sample, m):
    y, p = sample
    assert usual_ece(y, p, m) == pytest.approx(ECE(m).measure(p, y), rel=1e-12)


@pytest.mark.parametrize("m", [5, 15, 30])
def test_uncertainty_calibration_marginal_l2(sample, m):
    """Its squared plug-in with equal-mass bins divides by bin sizes; those are n/m here, so it is m times LinCE^cw."""
    y, p = sample
    peer = uncertainty_calibration.lower_bound_scaling_ce(p, y, p=2, debias=False, num_bins=m, mode="marginal")
    assert tc.classwise_error(y, p, n_bins=m, scale="bins") == pytest.approx(peer**2, rel=1e-12)


def test_scikit_learn_bins(sample):
    y, p = sample
    outcome, report = calibration_curve(y == 0, p[:, 0], n_bins=10)
    table = tc.CalibrationError(tc.Binary(), tc.EqualWidth(10)).tables(y == 0, p[:, 0])[0]
    filled = table.count[0] > 0
    np.testing.assert_allclose(table.mean_outcome[0, filled], outcome, rtol=1e-12)
    np.testing.assert_allclose(table.mean_report[0, filled], report, rtol=1e-12)


def test_reports_on_an_edge_are_where_peers_part():
    """Quarters with four bins, which every dtype holds exactly: (a, b] puts .25 in the first bin, [a, b) in the second.

    The paper closes intervals on the right, and so do we and scikit-learn; torchmetrics and netcal close them on the
    left, which moves every report on an edge one bin up.
    """
    u, y = np.array([0.25, 0.3]), np.array([1, 0])
    apart = (abs(0.25 - 1) + abs(0.3 - 0)) / 2
    pooled = abs(0.25 - 1 + 0.3) / 2
    assert tc.binary_error(y, u, norm="l1", strategy="uniform", n_bins=4) == pytest.approx(apart)
    assert len(calibration_curve(y, u, n_bins=4)[0]) == 2
    peer = float(binary_calibration_error(torch.tensor(u), torch.tensor(y), n_bins=4, norm="l1"))
    assert peer == pytest.approx(pooled)
    assert ECE(4).measure(u, y) == pytest.approx(pooled)


def test_round_confidences_follow_the_paper_to_the_letter():
    """Confidences j/20 with ten bins, by hand: (j−1)/10 < c <= j/10, with 0 in the first."""
    confidence = np.arange(21) / 20
    correct = np.arange(21) % 3 == 0
    mine = tc.top_label_error(correct, confidence, norm="l1", strategy="uniform", n_bins=10)
    by_hand = 0.0
    for j in range(1, 11):
        inside = (np.arange(21) > 2 * (j - 1)) & (np.arange(21) <= 2 * j) | ((j == 1) & (np.arange(21) == 0))
        by_hand += abs((confidence - correct)[inside].sum()) / 21
    assert mine == pytest.approx(by_hand, rel=1e-12)


def test_plug_in_values_from_the_literature():
    """Kumar et al.: .5 four times and .6 five times with label sums 1 and 4; plug-in l1 = 2/9, plug-in l2² = .05."""
    u = np.array([0.5] * 4 + [0.6] * 5)
    y = np.array([1, 0, 0, 0, 1, 1, 1, 1, 0])
    table = tc.CalibrationError(tc.Binary(), tc.rules.Exact()).tables(y, u)[0]
    assert tc.binary_error(y, u, norm="l1", strategy="exact") == pytest.approx(2 / 9)
    assert (table.residual**2 / table.count).sum() / 9 == pytest.approx(0.05)
