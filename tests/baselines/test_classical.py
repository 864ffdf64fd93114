"""The regression of Cox where it has no finite answer, and the lie that its users would profit from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import truecal
from closeness import assert_close
from truecal.baselines import BASELINES
from worlds import expected

tc: Any = truecal


def test_values_as_clinicians_read_them():
    """Outcomes drawn at odds halved on the log scale: the slope is a half, and the mean is right."""
    rng = np.random.default_rng(4)
    odds = 4 * rng.standard_normal(40_000)
    u, y = 1 / (1 + np.exp(-odds)), rng.random(40_000) < 1 / (1 + np.exp(-odds / 2))
    slope = BASELINES["cox_slope"].with_options(distance=False)(y, u)
    assert slope == pytest.approx(0.5, abs=0.02)
    assert BASELINES["cox_slope"](y, u) == pytest.approx(1 - slope)
    z = BASELINES["spiegelhalter"].with_options(distance=False)(y, u)
    assert z > 10
    assert_close(BASELINES["spiegelhalter"](y, u), z, 1)
    low = BASELINES["cox_intercept"].with_options(distance=False)(np.zeros_like(y), u)
    assert low == -math.inf


@pytest.mark.parametrize(
    ("y", "u"),
    [
        ([0, 0, 1, 1], [0.1, 0.2, 0.7, 0.9]),  # separated
        ([0, 1, 0, 1], [0.1, 0.5, 0.5, 0.9]),  # separated but for a tie
        ([1, 1, 0, 0], [0.1, 0.2, 0.7, 0.9]),  # separated the other way
        ([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5]),  # nothing to regress on
        ([1, 1, 1, 1], [0.1, 0.2, 0.7, 0.9]),  # one outcome
    ],
)
def test_a_slope_that_is_not_there_is_infinite(y, u):
    assert BASELINES["cox_slope"](y, u) == math.inf


def test_certain_predictions_have_an_intercept():
    assert BASELINES["cox_intercept"]([0, 1, 0, 1], [0.0, 1.0, 0.5, 0.5]) == pytest.approx(0.0, abs=1e-6)
    assert BASELINES["cox_intercept"]([0, 1, 0, 0], [0.0, 1.0, 0.5, 0.5]) > 5


def test_a_lie_beats_the_truth_by_the_slope():
    """Certain outcomes and two open ones: the truth always separates, a blur that overlaps has slope 0."""
    truth = np.array([0, 1, 0, 1, 0.5, 0.5])
    lie = np.array([0.6, 0.4, 0.4, 0.6, 0.5, 0.5])
    assert expected(BASELINES["cox_slope"], truth, truth) == math.inf
    assert expected(BASELINES["cox_slope"], truth, lie) == pytest.approx(1.0, abs=1e-6)


def test_a_lie_beats_the_truth_by_the_intercept():
    truth = np.array([0, 1, 0.5, 0.5])
    honest = expected(BASELINES["cox_intercept"], truth, truth)
    assert honest > 2 + expected(BASELINES["cox_intercept"], truth, np.full(4, 0.5))


def test_predictions_that_allow_no_variance():
    """Certain and right costs nothing, certain and wrong everything."""
    for name in ("hosmer_lemeshow", "spiegelhalter"):
        assert BASELINES[name]([0, 1, 1], [0.0, 1.0, 1.0]) == 0
        assert BASELINES[name]([0, 1, 0], [0.0, 1.0, 1.0]) == math.inf
