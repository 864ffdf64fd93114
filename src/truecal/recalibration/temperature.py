"""Temperature scaling: one number, found exactly, in about three passes over the logits."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]

from truecal.recalibration.base import Codes, Float64s, Floats, Logits, ScoreMap, blocks

DECREMENT = 1e-11  # nats: predicted gain of the last Newton step, which is still taken
SLACK = 1e-9  # nats: distance from an optimum at T = 0 or T = infinity at which the temperature is bounded
START_ROWS = 2048
MAX_PASSES = 500  # halving the exponent's range alone needs far fewer


@dataclass(frozen=True)
class Slopes:
    """The cross-entropy and its first two derivatives at one inverse temperature."""

    value: float
    first: float
    second: float

    @property
    def step(self) -> float:
        """Newton's step; infinite where the curvature has vanished."""
        if self.second > 0:
            return -self.first / self.second
        return float(np.copysign(np.inf, -self.first))

    @property
    def decrement(self) -> float:
        return abs(self.first * self.step) / 2 if self.first else 0.0


@dataclass(frozen=True)
class Problem:
    """Mean cross-entropy as a convex function of the inverse temperature b.

    With d_ij = (z_ij - max_j z_ij) / unit it is the mean of log sum_j exp(b d_ij) - b d_iy.
    """

    logits: Logits
    y: Codes
    weight: Float64s
    spans: Float64s  # largest minus smallest possible logit of each row, over unit
    unit: float  # 1, or the power of two that keeps squares of extreme logits within float64

    def take(self, rows: Codes) -> Problem:
        return Problem(self.logits.take(rows), self.y[rows], self.weight[rows], self.spans[rows], self.unit)

    def at(self, b: float) -> Slopes:
        """One pass over the logits in blocks that stay in the cache."""
        n, k = self.logits.values.shape
        parts = blocks(n, k)
        gaps, powers = np.empty((parts[0].stop, k)), np.empty((parts[0].stop, k))
        excluded, sums = self.logits.excluded, np.zeros(3)
        with np.errstate(over="ignore"):  # b d may overflow to -inf, whose exponential is the right 0
            for rows in parts:
                d, e = gaps[: rows.stop - rows.start], powers[: rows.stop - rows.start]
                self._gaps(rows, d)
                np.multiply(d, b, out=e)
                np.exp(e, out=e)
                if excluded:
                    d[np.isneginf(d)] = 0  # its weight e is 0, and 0 times infinity is not
                label = d[np.arange(len(d)), self.y[rows]]
                total = e.sum(axis=1)
                mean = np.vecdot(e, d) / total
                np.multiply(d, d, out=d)
                variance = np.vecdot(e, d) / total - mean * mean
                sums += np.array([np.log(total) - b * label, mean - label, variance]) @ self.weight[rows]
        return Slopes(*(sums / self.weight.sum()).tolist())

    def excess_at(self, b: float) -> tuple[float, float]:
        """For separable data: the cross-entropy less its infimum, and its slope, to full relative precision."""
        sums = np.zeros(2)
        with np.errstate(over="ignore"):
            for rows in blocks(*self.logits.values.shape):
                d = np.empty(self.logits.values[rows].shape)
                self._gaps(rows, d)
                e = np.where(d == 0, 0.0, np.exp(b * d))  # the largest logits alone make the infimum
                ties = np.count_nonzero(d == 0, axis=1)
                d[np.isneginf(d)] = 0
                rest = e.sum(axis=1)
                sums += np.array([np.log1p(rest / ties), np.vecdot(e, d) / (ties + rest)]) @ self.weight[rows]
        excess, slope = sums / self.weight.sum()
        return float(excess), float(slope)

    def _gaps(self, rows: slice, out: Float64s) -> None:
        values, top = self.logits.values[rows], self.logits.top[rows, None]
        if self.unit == 1:
            np.subtract(values, top, out=out)
        else:
            np.divide(values, self.unit, out=out)
            out -= top / self.unit


def make_problem(logits: Logits, y: Codes, weight: Float64s) -> Problem:
    label = logits.values[np.arange(len(y)), y]
    if np.isneginf(label).any():
        row = int(np.argmax(np.isneginf(label)))
        raise ValueError(
            f"row {row}: the logit of its own class (column {int(y[row])}) is -inf, "
            "so its cross-entropy is infinite at every temperature"
        )
    bottom = logits.bottom
    if logits.excluded:
        bottom = np.where(np.isneginf(bottom), logits.top, bottom)
        for i in np.flatnonzero(np.isneginf(logits.bottom)):
            row_values = logits.values[i]
            bottom[i] = row_values[row_values > -np.inf].min()
    half = float(np.max(logits.top / 2 - bottom / 2))  # halves, because the difference itself may overflow
    unit = 1.0 if half == 0 or 1e-100 < half < 1e100 else float(2.0 ** np.floor(np.log2(half)))
    return Problem(logits, y, weight, logits.top / unit - bottom / unit, unit)


def minimise(problem: Problem, start: float, smallest: float) -> tuple[float, bool]:
    """The minimiser b >= smallest, and whether it is the bound: Newton inside a bracket of the derivative's root."""
    low, high, b = smallest, np.inf, max(start, smallest)
    low_seen, last = False, np.inf
    for _ in range(MAX_PASSES):
        here = problem.at(b)
        step = here.step
        if here.first >= 0 and b == smallest:
            return b, True
        if abs(step) <= 1e-5 * b and here.decrement <= DECREMENT:
            return max(b + step, smallest), False
        if here.first < 0:
            low, low_seen = b, True
        else:
            high = b
        if high / low - 1 < 1e-15:
            break
        target = b + step
        if target <= low and not low_seen:
            b, last = low, np.inf
        elif np.isinf(high):
            b, last = min(target, 32 * b), abs(step)
        elif low < target < high and abs(step) <= last / 2:
            b, last = target, abs(step)
        else:
            b, last = float(np.sqrt(low) * np.sqrt(high)), np.inf
    return b, False


def approach_zero_temperature(problem: Problem, start: float) -> float:
    """For separable data: the inverse temperature whose cross-entropy is SLACK above its unattained infimum.

    log(f(b) - inf f) is convex and decreasing, so Newton's steps from the left never pass the answer.
    """
    b, excess, slope = start, *problem.excess_at(start)
    while b > 0 and excess < SLACK:  # to the left of the answer
        b /= 32
        excess, slope = problem.excess_at(b)
    if b == 0:
        return start  # so few rows tell classes apart that every temperature is within SLACK
    for _ in range(MAX_PASSES):
        distance = float(np.log(excess / SLACK))
        if distance < 1e-9:
            break
        b += distance * excess / -slope
        excess, slope = problem.excess_at(b)
    return b


def start_rows(n: int) -> Codes | None:
    """A fixed sample of rows on which a search is cheap, or None where all of them are few."""
    if n < 4 * START_ROWS:
        return None
    return np.sort(np.random.default_rng(0).choice(n, START_ROWS, replace=False))


def best_temperature(logits: Logits, y: Codes, weight: Float64s) -> float:
    """The temperature of least cross-entropy, bounded (with a warning) where the optimum is at infinity."""
    problem = make_problem(logits, y, weight)
    span = float(problem.spans.max())
    if span == 0:
        warnings.warn(
            "every row of logits is constant: all temperatures give the same probabilities, and 1 is kept",
            ConvergenceWarning,
            stacklevel=4,
        )
        return 1.0
    start = 1 / float(np.median(problem.spans[problem.spans > 0]))
    smallest = SLACK / span  # here the cross-entropy differs from that of T = infinity by SLACK at most
    separable = bool(np.all(logits.values[np.arange(len(y)), y] == logits.top))
    sample = start_rows(len(y))
    if separable:
        b = approach_zero_temperature(problem, start)
        warnings.warn(
            "no validation sample is misclassified: the cross-entropy falls all the way to temperature 0; "
            f"the temperature is bounded where it is within {SLACK:g} of its infimum",
            ConvergenceWarning,
            stacklevel=4,
        )
        return positive(problem.unit, b)
    if sample is not None:
        part = problem.take(sample)
        if not np.all(logits.values[sample, y[sample]] == logits.top[sample]):
            start, _ = minimise(part, start, smallest)
    b, bounded = minimise(problem, start, smallest)
    if bounded:
        warnings.warn(
            "the validation labels do not agree with the logits better than by chance: the cross-entropy falls all the "
            "way to an infinite temperature (uniform probabilities); the temperature is bounded where it is within "
            f"{SLACK:g} of that limit",
            ConvergenceWarning,
            stacklevel=4,
        )
    return positive(problem.unit, b)


def positive(unit: float, b: float) -> float:
    """unit / b within the positive floats: only logits beyond 1e307 have a best temperature that is no float."""
    limits = np.finfo(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        return float(np.clip(np.float64(unit) / b, limits.tiny, limits.max))


class TemperatureScaling(ScoreMap):
    """Divide the logits by one temperature T > 0, the minimiser of the cross-entropy on validation data.

    p = softmax(z / T); the cross-entropy is convex in 1/T, so a bracketed Newton iteration finds its global minimum.
    Guo et al., On Calibration of Modern Neural Networks, ICML 2017.

    Two kinds of data have their optimum at infinity; there the temperature is bounded, within 1e-9 nats of the best
    cross-entropy, with a ConvergenceWarning: no sample misclassified (T tends to 0), and labels that agree with the
    logits no better than chance (T tends to infinity). The order of the classes never changes.

    Parameters: `labels`, the class of each column (default: y holds column indices); `space` and `floor`, see
    `from_probabilities`. Attributes: `temperature_`, `classes_`, `n_features_in_`.

    >>> import truecal as tc
    >>> logits = [[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    >>> scaling = tc.TemperatureScaling().fit(logits, [0, 0, 1, 1])      # right three times in four
    >>> round(scaling.temperature_, 6)                                   # 2 / log 3
    1.820478
    >>> scaling.predict_proba([[2.0, 0.0]]).round(6).tolist()
    [[0.75, 0.25]]
    """

    def __init__(self, *, labels: ArrayLike | None = None, space: str = "logits", floor: float | None = None) -> None:
        self.labels = labels
        self.space = space
        self.floor = floor

    def _fit(self, logits: Logits, y: Codes, weight: Float64s) -> None:
        self.temperature_ = best_temperature(logits, y, weight)

    def _logits(self, logits: Logits) -> Floats:
        return divide(logits, self.temperature_)


def divide(logits: Logits, temperature: float) -> Floats:
    """Logits over the temperature; where that overflows, less their row maximum, which changes no probability."""
    dtype = np.promote_types(logits.values.dtype, np.float32)
    largest = float(np.finfo(dtype).max)
    size = max(float(np.abs(logits.top).max()), float(np.abs(logits.bottom[np.isfinite(logits.bottom)]).max(initial=0)))
    if size <= largest * min(temperature, 1.0) and dtype.type(temperature) > 0 and np.isfinite(dtype.type(temperature)):
        return np.asarray(np.divide(logits.values, dtype.type(temperature), dtype=dtype))
    with np.errstate(over="ignore"):
        gaps = logits.values.astype(np.float64) - logits.top[:, None]
        return np.asarray((gaps / temperature).astype(dtype))
