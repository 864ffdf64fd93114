"""Kernel regression, held against its definition written as a plain loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reproduction.smoothing import kernel_regression, leave_one_out_bandwidth


def plain_regression(x, y, t, h):
    weights = [math.exp(-((t - xi) ** 2) / (2 * h * h)) for xi in x]
    return sum(w * yi for w, yi in zip(weights, y, strict=True)) / sum(weights)


def test_kernel_regression_is_its_formula():
    rng = np.random.default_rng(2)
    x, y = rng.random(30), rng.random(30)
    curve = kernel_regression(x, y, at=[0.1, 0.5, 0.9], bandwidth=0.2)
    assert curve.y.tolist() == pytest.approx([plain_regression(x, y, t, 0.2) for t in (0.1, 0.5, 0.9)])


def test_leave_one_out_takes_the_candidate_with_the_least_error():
    rng = np.random.default_rng(3)
    x = rng.random(40)
    y = np.sin(6 * x) + 0.1 * rng.normal(size=40)

    def error(h):
        return sum((y[i] - plain_regression(np.delete(x, i), np.delete(y, i), x[i], h)) ** 2 for i in range(len(x)))

    # Narrower candidates underflow in the plain loop; the best is far from there for this many points.
    candidates = np.ptp(x) * 2.0 ** (-np.arange(25) / 4)
    best = min(candidates, key=error)
    assert leave_one_out_bandwidth(x, y) == pytest.approx(best)
    assert best < np.ptp(x) / 4


def test_kernel_regression_far_from_every_point_keeps_the_nearest_value():
    curve = kernel_regression([0.0, 1.0], [3.0, 5.0], at=[0.2, 0.8], bandwidth=1e-4)
    assert curve.y.tolist() == [3.0, 5.0]


def test_kernel_regression_of_equal_points_is_their_mean():
    assert kernel_regression([1.0, 1.0, 1.0], [1.0, 2.0, 6.0], at=[1.0]).y.tolist() == pytest.approx([3.0])


def test_kernel_regression_refuses():
    with pytest.raises(ValueError, match="of one length"):
        kernel_regression([1, 2], [1])
    with pytest.raises(ValueError, match="finite"):
        kernel_regression([1, np.nan], [1, 2])
    with pytest.raises(ValueError, match="positive number"):
        kernel_regression([1, 2], [1, 2], bandwidth=0)
