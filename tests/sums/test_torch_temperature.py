"""Temperature scaling of logits on a GPU, on CPU tensors that say they are there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

import truecal
from on_device import OnDevice

tc: Any = truecal


def logits(n: int = 200, k: int = 4, seed: int = 0):
    rng = np.random.default_rng(seed)
    z = 2 * rng.standard_normal((n, k))
    p = np.exp(z / 1.7)
    y = (p.cumsum(1) / p.sum(1, keepdims=True) < rng.random((n, 1))).sum(1)
    return z, y


def temperatures(z, y, w=None) -> tuple[float, float]:
    """On the CPU, and of tensors."""
    here = tc.TemperatureScaling().fit(z, y, sample_weight=w)
    weights = None if w is None else OnDevice(w)
    return here.temperature_, tc.TemperatureScaling().fit(OnDevice(z), OnDevice(y), sample_weight=weights).temperature_


def test_the_temperature_is_that_of_the_cpu():
    z, y = logits()
    for w in (None, np.linspace(0, 2, 200)):
        here, there = temperatures(z, y, w)
        assert isinstance(there, float) and there == pytest.approx(here, rel=1e-9)
    here, there = temperatures(z.astype(np.float32), y)
    assert there == pytest.approx(here, rel=1e-6)
    here, there = temperatures(*logits(20_000, 3))  # enough rows for a start on some of them
    assert there == pytest.approx(here, rel=1e-9)
    z[5, 0 if y[5] else 1] = -np.inf
    here, there = temperatures(z, y)
    assert there == pytest.approx(here, rel=1e-9)


@pytest.mark.parametrize("labels", ["right", "opposite"])
def test_where_the_optimum_is_at_infinity(labels):
    z, _ = logits(40)
    y = z.argmax(1) if labels == "right" else z.argmin(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        here, there = temperatures(z, y)
    assert there == pytest.approx(here, rel=1e-6)


def test_tensors_are_mapped_to_tensors():
    z, y = logits()
    scaling = tc.TemperatureScaling().fit(OnDevice(z), OnDevice(y))
    p = scaling.predict_proba(OnDevice(z))
    assert isinstance(p, torch.Tensor)
    np.testing.assert_allclose(p, scaling.predict_proba(z), rtol=1e-12)
    assert isinstance(scaling.transform(OnDevice(z)), torch.Tensor)
    assert scaling.predict(OnDevice(z)).tolist() == scaling.predict(z).tolist()
    with pytest.raises(ValueError, match="3 features"):
        scaling.transform(OnDevice(z[:, :3]))


def test_bad_logits_are_refused_in_the_words_of_the_cpu():
    z, y = logits()
    z[7, 2] = np.nan
    with pytest.raises(ValueError, match="X has nan at row 7, column 2"):
        tc.TemperatureScaling().fit(OnDevice(z), OnDevice(y))
    with pytest.raises(ValueError, match="looks like probabilities"):
        tc.TemperatureScaling().fit(OnDevice(np.full((4, 2), 0.5)), OnDevice([0, 1, 0, 1]))


def test_other_maps_are_fitted_on_the_cpu_and_give_tensors():
    z, y = logits()
    found = tc.recalibration.VectorScaling().fit(OnDevice(z), OnDevice(y)).predict_proba(OnDevice(z))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found, tc.recalibration.VectorScaling().fit(z, y).predict_proba(z), rtol=1e-9)
