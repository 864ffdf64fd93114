"""Kernel regression: a smooth curve through scattered points, with its bandwidth chosen by leaving one out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_BLOCK_BYTES = 1 << 20  # a block of the kernel stays in cache
_NEGLIGIBLE = 1e-140  # against a largest weight of 1; its square is still a normal number, and fast
_OCTAVES = 10  # bandwidths from the range of x down to 1/1024 of it
_STEPS = 4  # candidates per octave


@dataclass(frozen=True, eq=False)
class Curve:
    """A smoothed curve: its values y at x, and the bandwidth h of the Gaussian kernel."""

    x: Array
    y: Array
    bandwidth: float


def kernel_regression(x: Any, y: Any, *, at: Any = 200, bandwidth: float | None = None) -> Curve:
    """Nadaraya-Watson regression: f(t) = Σ_i K((t − x_i)/h) y_i / Σ_i K((t − x_i)/h), K Gaussian.

    `at` is the number of evenly spaced points over the range of x, or the points themselves. Without `bandwidth`, h is
    the candidate with the least leave-one-out squared error, out of 41 from the range of x down to 1/1024 of it, four
    to an octave (the largest on ties).

    >>> from reproduction.smoothing import kernel_regression
    >>> kernel_regression([0, 1, 2], [1, 1, 1], at=[.5, 1.5]).y.tolist()
    [1.0, 1.0]
    """
    points, values = _read(x, y)
    if bandwidth is None:
        bandwidth = leave_one_out_bandwidth(points, values)
    if not (np.isfinite(bandwidth) and bandwidth > 0):
        raise ValueError(f"bandwidth must be a positive number, got {bandwidth!r}")
    where = np.linspace(points.min(), points.max(), int(at)) if np.ndim(at) == 0 else np.asarray(at, dtype=np.float64)
    fitted = np.empty(len(where))
    for rows in _blocks(len(where), len(points)):
        squares = np.square(where[rows, None] - points)
        fitted[rows] = _mean(np.exp((squares.min(axis=1, keepdims=True) - squares) / (2 * bandwidth**2)), values)
    return Curve(where, fitted, float(bandwidth))


def leave_one_out_bandwidth(x: Any, y: Any) -> float:
    """The bandwidth with the least Σ_i (y_i − f_{−i}(x_i))², f_{−i} fitted without point i.

    Squaring a Gaussian kernel divides its h² by two, so each octave of candidates costs two products per pair, no
    exponential. Weights are taken relative to the nearest other point, which leaves f unchanged and never underflows.
    """
    points, values = _read(x, y)
    spread = float(np.ptp(points))
    if spread == 0 or len(points) < 3:
        return spread if spread > 0 else 1.0
    candidates = spread * 2.0 ** (-np.arange(_OCTAVES * _STEPS + 1) / _STEPS)
    errors = np.zeros(len(candidates))
    for rows in _blocks(len(points), len(points)):
        squares = np.square(points[rows, None] - points)
        squares[np.arange(len(squares)), np.arange(len(points))[rows]] = np.inf
        excess = squares.min(axis=1, keepdims=True) - squares
        for first in range(_STEPS // 2):
            kernel = np.exp(excess / (2 * candidates[first] ** 2))
            for j in range(first, len(candidates), _STEPS // 2):
                errors[j] += np.square(values[rows] - _mean(kernel, values)).sum()
                kernel[kernel < _NEGLIGIBLE] = 0.0
                np.multiply(kernel, kernel, out=kernel)
    return float(candidates[np.argmin(errors)])


def _blocks(n: int, width: int) -> list[slice]:
    step = max(1, _BLOCK_BYTES // (8 * width))
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]


def _read(x: Any, y: Any) -> tuple[Array, Array]:
    points, values = (np.asarray(v, dtype=np.float64) for v in (x, y))
    if points.ndim != 1 or points.shape != values.shape or points.size == 0:
        raise ValueError(f"x and y must be one-dimensional and of one length, got {points.shape} and {values.shape}")
    if not (np.isfinite(points).all() and np.isfinite(values).all()):
        raise ValueError("x and y must be finite")
    return points, values


def _mean(kernel: Array, values: Array) -> Array:
    sums = kernel @ np.column_stack([values, np.ones(len(values))])
    return np.asarray(sums[:, 0] / sums[:, 1])
