"""Temperature scaling, ensemble temperature scaling, and the identity."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from truecal.core.arrays import HOST, LIBRARY
from truecal.recalibration.base import (
    Codes,
    Float64s,
    Floats,
    Logits,
    ProbabilityMap,
    ScoreMap,
    ValidationData,
    blocks,
    device_logits,
    on_host,
    softmax_of,
)

from ..core.parameters import described

DECREMENT = 1e-11  # nats: predicted gain of the last Newton step, which is still taken
SLACK = 1e-9  # nats: distance from an optimum at T = 0 or T = infinity at which the temperature is bounded
GONE = -800.0  # exp of it and of everything below is 0
START_ROWS = 2048
MAX_PASSES = 500  # a guard: the hardest problems need a few dozen
NEAREST = 1e-300  # logits closer than this would need an inverse temperature beyond the largest number
LARGEST = float(np.finfo(np.float64).max)
RANGE = (0.05, 5.0)  # the range that EnsembleTemperatureScaling searches, as its authors do

CONSTANT = "every row of logits is constant: all temperatures give the same probabilities, and 1 is kept"
SEPARABLE = (
    "no validation sample is misclassified: the cross-entropy falls all the way to temperature 0; "
    f"the temperature is bounded where it is within {SLACK:g} of its infimum"
)
CHANCE = (
    "the validation labels do not agree with the logits better than by chance: the cross-entropy falls all the "
    "way to an infinite temperature (uniform probabilities); the temperature is bounded where it is within "
    f"{SLACK:g} of that limit"
)


@dataclass(frozen=True)
class Slopes:
    """The first two derivatives of the mean cross-entropy f at the inverse temperature b: b f'(b) and b² f''(b).

    In units of b nothing overflows, for logits of any size; f is convex.
    """

    first: float
    second: float

    @property
    def step(self) -> float:
        """Newton's step over b; infinite where the curvature has vanished."""
        if self.second > 0:
            return -self.first / self.second
        return float(np.copysign(np.inf, -self.first)) if self.first else 0.0

    @property
    def converged(self) -> bool:
        return abs(self.step) <= 1e-5 and abs(self.first * self.step) <= 2 * DECREMENT


def label_gap(data: ValidationData) -> Float64s:
    """The logit of each row's own class, less the largest of the row."""
    if not isinstance(data.logits.values, HOST):
        # a module loaded by name
        return device_logits().own_logits(data.logits.values, data.y) - data.logits.top  # type: ignore[no-any-return]  # an array or a tensor
    return np.asarray(data.logits.values[np.arange(len(data.y)), data.y] - data.logits.top)


def exponents(logits: Logits, b: float) -> Iterator[tuple[slice, Any, Any]]:
    """Blocks of rows, where they lie: x = b (z - max z), at least GONE, and exp x."""
    if not isinstance(logits.values, HOST):
        yield from device_logits().exponents(logits.values, b)
        return
    parts = blocks(*logits.values.shape)
    room = np.empty((2, parts[0].stop, logits.values.shape[1]))  # for all of them: they stay in the cache
    for rows in parts:
        x, e = room[:, : rows.stop - rows.start]
        np.subtract(logits.values[rows], logits.top[rows, None], out=x)
        x *= b
        np.maximum(x, GONE, out=x)
        yield rows, x, np.exp(x, out=e)


def slopes_at(data: ValidationData, b: float) -> Slopes:
    """One pass over the logits: the derivatives of the mean of log sum_j exp(x_ij) - x_iy, x = b (z - max z)."""
    sums, vecdot = np.zeros(2), LIBRARY[type(data.logits.values)].linalg.vecdot
    with np.errstate(over="ignore"):  # to -inf, whose exponential is the right 0
        label = b * label_gap(data)
        for rows, x, e in exponents(data.logits, b):
            total = e.sum(1)
            mean = vecdot(e, x) / total
            x *= x
            variance = vecdot(e, x) / total - mean * mean
            mean, variance = on_host(mean), on_host(variance)
            sums += np.array([mean - label[rows], variance]) @ data.weight[rows]
    first, second = (sums / data.weight.sum()).tolist()
    return Slopes(first, second)


def excess_at(data: ValidationData, b: float) -> tuple[float, float]:
    """For separable data: the cross-entropy less its infimum, and b times its slope, to full relative precision."""
    sums, vecdot = np.zeros(2), LIBRARY[type(data.logits.values)].linalg.vecdot
    with np.errstate(over="ignore"):
        for rows, x, e in exponents(data.logits, b):
            z = data.logits.values[rows]
            largest = z == LIBRARY[type(z)].amax(z, axis=1, keepdims=True)
            e[largest] = 0  # they alone make the infimum, the mean log of their number
            ties, rest, moment = map(on_host, (largest.sum(1), e.sum(1), vecdot(e, x)))
            sums += np.array([np.log1p(rest / ties), moment / (ties + rest)]) @ data.weight[rows]
    excess, slope = (sums / data.weight.sum()).tolist()
    return excess, slope


def minimise(data: ValidationData, start: float, smallest: float) -> tuple[float, bool]:
    """The minimiser b >= smallest, and whether it is the bound: Newton inside a bracket of the derivative's root."""
    low, high, b = smallest, np.inf, max(start, smallest)
    low_seen, last, growth = False, np.inf, 2.0
    for passes in range(MAX_PASSES):
        here = slopes_at(data, b)
        if here.first >= 0 and b == smallest:
            return b, True
        if here.converged:
            return max(b * (1 + here.step), smallest), False
        if here.first < 0:
            low, low_seen = b, True
        else:
            high = b
        if high / low - 1 < 1e-15:
            break
        target = min(b * (1 + here.step), LARGEST)
        if target <= low and not low_seen:
            b, last = low, np.inf
        elif np.isinf(high) and passes < 8 and target <= 32 * b:
            b = target
        elif np.isinf(high):  # on an exponential tail Newton's steps do not grow: find the other end of the bracket
            b, growth = min(growth * b, LARGEST), min(growth * growth, 1e150)
        elif low < target < high and abs(target - b) <= last / 2:
            b, last = target, abs(target - b)
        else:
            b, last = float(np.sqrt(low) * np.sqrt(high)), np.inf
    return b, False


def approach_zero_temperature(data: ValidationData, start: float) -> float:
    """For separable data: the inverse temperature whose cross-entropy is SLACK above its unattained infimum.

    log(f(b) - inf f) is convex and decreasing, so Newton's steps from the left never pass the answer.
    """
    b, excess, slope = start, *excess_at(data, start)
    while b > 0 and excess < SLACK:  # to the left of the answer
        b /= 32
        excess, slope = excess_at(data, b)
    if b == 0:
        return start  # so few rows tell classes apart that every temperature is within SLACK
    for _ in range(MAX_PASSES):
        distance = float(np.log(excess / SLACK))
        if distance < 1e-9 or b == LARGEST:
            break
        step = distance * excess / -slope if slope else 1e16  # no slope: far to the left, where it underflows
        b = min(b * (1 + step), LARGEST)
        excess, slope = excess_at(data, b)
        if excess == 0:
            break  # gaps so small that one step of a float passes them
    return b


def start_rows(n: int) -> Codes | None:
    """A fixed sample of rows on which a search is cheap, or None where all of them are few."""
    if n < 4 * START_ROWS:
        return None
    return np.sort(np.random.default_rng(0).choice(n, START_ROWS, replace=False))


def row_spans(logits: Logits) -> Float64s:
    """Largest minus smallest possible logit of each row."""
    bottom = logits.bottom
    if logits.excluded:
        if not isinstance(logits.values, HOST):
            return np.asarray(logits.top - device_logits().smallest(logits.values))
        bottom = np.min(logits.values, axis=1, where=np.isfinite(logits.values), initial=np.inf)
    return np.asarray(logits.top - bottom)


def best_temperature(data: ValidationData) -> tuple[float, str | None]:
    """Return the temperature of least cross-entropy; and a warning where the optimum is at 0 or infinity."""
    logits = data.logits
    if max(np.abs(logits.top).max(), -logits.bottom.min(where=np.isfinite(logits.bottom), initial=0)) > LARGEST / 4:
        quarter = replace(logits, values=logits.values / 4, top=logits.top / 4, bottom=logits.bottom / 4)
        temperature, trouble = best_temperature(replace(data, logits=quarter))  # whose differences are numbers
        return min(4 * temperature, LARGEST), trouble
    label = label_gap(data)
    if np.isneginf(label).any():
        row = int(np.argmax(np.isneginf(label)))
        raise ValueError(
            f"X row {logits.rows[row]}: the logit of its own class (column {data.y[row]}) is -inf, "
            "so its cross-entropy is infinite at every temperature"
        )
    spans = row_spans(logits)
    if not spans.any():
        return 1.0, CONSTANT
    if spans.max() < NEAREST:
        raise ValueError(
            f"the logits of no row of X differ by more than {spans.max():.1e}, which no temperature of float64 can "
            "resolve: multiply X by a constant first, here and wherever the map is used"
        )
    half = float(np.median(spans[spans > 0] / 2))  # halved: a median adds two values, which may overflow
    start = min(0.5 / max(half, 0.5 / LARGEST), LARGEST)
    if not label.any():
        return _inverse(approach_zero_temperature(data, start)), SEPARABLE
    smallest = SLACK / float(spans.max())  # the cross-entropy differs from that of T = infinity by SLACK at most
    sample = start_rows(len(data.y))
    if sample is not None and label[sample].any():
        start, _ = minimise(data.take(sample), start, smallest)
    b, bounded = minimise(data, start, smallest)
    return _inverse(b), CHANCE if bounded else None


def _inverse(b: float) -> float:
    """1 / b within the positive floats."""
    with np.errstate(over="ignore", divide="ignore"):
        return float(np.clip(1 / np.float64(b), np.finfo(np.float64).tiny, LARGEST))


@described()
class Identity(ScoreMap):
    """Leave the logits as they are; put it among the candidates of `select_recalibration`.

    >>> import truecal as tc
    >>> identity = tc.recalibration.Identity.from_probabilities().fit([[0.9, 0.1]], [0])
    >>> identity.predict_proba([[0.7, 0.3]]).round(12).tolist()
    [[0.7, 0.3]]
    """

    def _fit(self, data: ValidationData) -> None:
        pass

    def _logits(self, logits: Logits) -> Floats:
        return logits.values.astype(np.promote_types(logits.values.dtype, np.float32))


@described()
class TemperatureScaling(ScoreMap):
    """Divide the logits by one temperature T > 0, the minimiser of the cross-entropy on validation data.

    p = softmax(z / T); the cross-entropy is convex in 1/T, so a bracketed Newton iteration finds its global minimum.
    Guo et al., On Calibration of Modern Neural Networks, ICML 2017.

    Two kinds of data have their optimum at infinity; there the temperature is bounded, within 1e-9 nats of the best
    cross-entropy, with a ConvergenceWarning: no sample misclassified (T tends to 0), and labels that agree with the
    logits no better than chance (T tends to infinity). The order of the classes never changes. Logits on a GPU are
    summed there, and mapped to tensors.

    Attributes: `temperature_`, `classes_`, `n_features_in_`.

    >>> import truecal as tc
    >>> logits = [[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    >>> scaling = tc.TemperatureScaling().fit(logits, [0, 0, 1, 1])      # right three times in four
    >>> round(scaling.temperature_, 6)                                   # 2 / log 3
    1.820478
    >>> scaling.predict_proba([[2.0, 0.0]]).round(6).tolist()
    [[0.75, 0.25]]
    """

    takes_tensors: ClassVar[bool] = True

    def _fit(self, data: ValidationData) -> None:
        self.temperature_, trouble = best_temperature(data)
        if trouble:
            warnings.warn(trouble, ConvergenceWarning, stacklevel=3)

    def _logits(self, logits: Logits) -> Floats:
        return divide(logits, self.temperature_)


def divide(logits: Logits, temperature: float) -> Floats:
    """Logits over the temperature; where that overflows, less their row maximum, which changes no probability."""
    if not isinstance(logits.values, HOST):
        gaps: Any = logits.values
        # tensors
        return ((gaps.double() - gaps.amax(1, keepdim=True)) / temperature).to(gaps.dtype)  # type: ignore[no-any-return]  # an array or a tensor
    dtype = np.promote_types(logits.values.dtype, np.float32)
    least, most = float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)
    finite = logits.bottom[np.isfinite(logits.bottom)]
    size = max(float(np.abs(logits.top).max()), float(np.abs(finite).max(initial=0)))
    if least <= temperature <= most and size <= most * min(temperature, 1.0):
        return np.asarray(np.divide(logits.values, dtype.type(temperature), dtype=dtype))
    with np.errstate(over="ignore"):
        gaps = logits.values.astype(np.float64) - logits.top[:, None]
        return np.asarray((gaps / temperature).astype(dtype))


@described()
class EnsembleTemperatureScaling(ProbabilityMap):
    """The best mixture of predictions after temperature scaling, predictions as they are, and equal probabilities.

    Zhang, Kailkhura and Han, Mix-n-Match, ICML 2020: a temperature between 0.05 and 5 and then three weights, both of
    least Brier score. The order of the classes never changes.

    Attributes: `temperature_`, `weights_` (of the three in this order), `classes_`.

    >>> import truecal as tc
    >>> logits = [[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [0.0, 2.0]]
    >>> ensemble = tc.recalibration.EnsembleTemperatureScaling().fit(logits, [0, 0, 1, 1])
    >>> ensemble.predict_proba([[2.0, 0.0]]).round(4).tolist()
    [[0.75, 0.25]]
    """

    def _fit(self, data: ValidationData) -> None:
        share, rows = data.weight / data.weight.sum(), np.arange(len(data.y))
        with np.errstate(over="ignore"):
            z = np.maximum(data.logits.values - data.logits.top[:, None], -LARGEST / 1e3)

        def value_and_slope(temperature: Float64s) -> tuple[float, Float64s]:
            p = softmax_of(z / temperature[0])
            off = p.copy()
            off[rows, data.y] -= 1
            rise = (p * (np.vecdot(p, z)[:, None] - z) * off).sum(axis=1) / temperature[0] ** 2
            return float(share @ np.square(off).sum(axis=1)), np.array([2 * share @ rise])

        options: Any = {"ftol": 0.0, "gtol": 1e-12}
        found = minimize(value_and_slope, np.ones(1), jac=True, method="L-BFGS-B", bounds=[RANGE], options=options)
        self.temperature_ = float(found.x[0])
        members = self._members(data.logits)
        products = np.einsum("i,aij,bij->ab", share, members, members)
        self.weights_ = best_shares(products, members[:, rows, data.y] @ share)

    def _members(self, logits: Logits) -> Float64s:
        values = logits.values.astype(np.float64)
        p = softmax_of(values)
        return np.stack(
            [softmax_of(divide(replace(logits, values=values), self.temperature_)), p, 0 * p + 1 / p.shape[1]]
        )

    def _probabilities(self, logits: Logits) -> Float64s:
        return np.minimum(np.tensordot(self.weights_, self._members(logits), 1), 1.0)


def best_shares(products: Float64s, gains: Float64s) -> Float64s:
    """The w of least w·products·w − 2 gains·w with w ≥ 0 and Σ w = 1: the best of the optima of each set of members."""
    best, least = gains, float("inf")
    for size in range(1, len(gains) + 1):
        for members in map(list, combinations(range(len(gains)), size)):
            system = np.ones((size + 1, size + 1))
            system[:size, :size], system[size, size] = products[np.ix_(members, members)], 0
            found = np.linalg.lstsq(system, np.append(gains[members], 1.0))[0][:size]
            w = np.zeros(len(gains))
            w[members] = found
            value = float(w @ products @ w - 2 * gains @ w)
            if found.min() >= 0 and value < least:
                best, least = w, value
    return best
