"""Baselines next to the libraries that have them: equal where definitions agree, and how far apart elsewhere."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

import truecal
from truecal.baselines import BASELINES

with warnings.catch_warnings():  # what these packages say on import is not ours to fix
    warnings.simplefilter("ignore")
    import calibration as uncertainty_calibration
    from netcal.metrics import ACE, MCE, MMCE

tc: Any = truecal


@pytest.fixture
def sample(rng):
    p = rng.dirichlet(np.ones(5), 1500)
    sharper = p**1.5 / (p**1.5).sum(axis=1, keepdims=True)
    y = (sharper.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1)
    return y, p


@pytest.mark.parametrize("m", [5, 15])
def test_the_largest_gap_of_torchmetrics_and_netcal(sample, m):
    y, p = sample
    mine = BASELINES["mce"].with_options(n_bins=m)(y, p)
    peer = float(multiclass_calibration_error(torch.tensor(p), torch.tensor(y), 5, n_bins=m, norm="max"))
    assert mine == pytest.approx(peer, rel=1e-5)
    assert mine == pytest.approx(MCE(m).measure(p, y), rel=1e-12)


def test_mmce_of_netcal(sample):
    y, p = sample
    assert BASELINES["mmce"](y, p) == pytest.approx(MMCE().measure(p, y), rel=1e-9)


def test_ace_of_netcal_is_another_measure(sample):
    """netcal's ACE is the plain mean over equal-width bins of the confidence: neither adaptive nor by class."""
    y, p = sample
    assert abs(ACE(15).measure(p, y) - BASELINES["ace"](y, p)) > 0.01


@pytest.mark.parametrize("m", [5, 30])
def test_the_debiased_error_of_uncertainty_calibration(sample, m):
    """Its root, cut at 0, over equal-mass bins; on predictions without ties the bins are the same."""
    y, p = sample
    mine = replace(BASELINES["debiased_squared"], property=tc.Binary()).with_options(n_bins=m)(y == 0, p[:, 0])
    bins = uncertainty_calibration.utils.get_equal_bins(p[:, 0].tolist(), num_bins=m)
    data = list(zip(p[:, 0].tolist(), (y == 0).astype(int).tolist(), strict=True))
    peer = uncertainty_calibration.utils.unbiased_square_ce(uncertainty_calibration.utils.bin(data, bins))
    assert mine == pytest.approx(peer, rel=1e-9)


@pytest.mark.parametrize("n", [300, 3000])
def test_smooth_ece_of_relplot(n, rng):
    """relplot halves its interval ten times and weighs by a density on a coarser grid: it stays within .003."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        relplot = pytest.importorskip("relplot")
    u = rng.beta(1.5, 1.0, n)
    for power in (1.0, 1.6):
        y = (rng.random(n) < u**power).astype(float)
        assert BASELINES["smooth_ece"](y, u) == pytest.approx(float(relplot.smECE(u, y)), abs=3e-3)


def test_the_curve_of_cleveland_s_loess(rng):
    """The same to rounding where every prediction is fitted; R's default interpolates and is near."""
    loess = pytest.importorskip("skmisc.loess").loess
    u = rng.beta(2, 3, 100)
    y = (rng.random(100) < u**1.3).astype(float)
    for surface, allowed in (("direct", 1e-12), ("interpolate", 2e-3)):
        model = loess(u, y, span=0.75, degree=2, surface=surface)
        model.fit()
        peer = np.abs(model.outputs.fitted_values - u)
        assert BASELINES["ici"](y, u) == pytest.approx(peer.mean(), rel=allowed, abs=allowed)
