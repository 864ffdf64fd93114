"""Losses of rows in compiled loops: the values and ranges of the plain path."""

from __future__ import annotations

import numpy as np
import pytest

from closeness import assert_close
from truecal.core import dispatch
from truecal.core.losses import LOSSES
from truecal.inference import mean_losses

pytest.importorskip("numba", reason="loops are compiled with numba")


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compiled_losses_are_those_of_the_plain_path(rng, monkeypatch, loss, dtype):
    p = rng.dirichlet(np.full(7, 0.3), 400)
    p[:20] = np.eye(7)[rng.integers(0, 7, 20)]  # certain
    p[20:40, 2] = 0.0
    p[40:60] = 1 / 7  # ties
    p = (p / p.sum(axis=1, keepdims=True)).astype(dtype)
    y = rng.integers(0, 7, 400)
    plain = mean_losses.loss_values(y, p, None, loss).of(slice(None))
    monkeypatch.setattr(mean_losses, "DISPATCH", dispatch.Dispatch(compiled_reports=1))
    made = mean_losses.loss_values(y, p, None, loss)
    assert made.step == mean_losses._BLOCK  # compiled
    found = made.of(slice(None))
    for name in ("value", "high", "low", "surprise", "most"):
        one, other = (np.asarray(getattr(values, name)) for values in (found, plain))
        np.testing.assert_array_equal(np.isinf(one), np.isinf(other))
        assert_close(np.where(np.isinf(one), 0, one), np.where(np.isinf(other), 0, other))
    wanted = mean_losses.mean_interval(made, None, None, 0.95)
    assert np.isnan(wanted.se) == (loss == "cross_entropy")
