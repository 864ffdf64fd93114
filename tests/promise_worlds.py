"""Promises in worlds where it is known whether they hold: segments, the monitor's change, gates, intervals, forecasts.

Every function takes the number of samples and gives shares or means; tests use few samples, `benchmarks/conclusions.py`
many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import binom, norm

import truecal as tc
from truecal.inference.omnibus import omnibus_test
from truecal.inference.thresholds import _passed

Array = np.ndarray[Any, np.dtype[Any]]
Rng = np.random.Generator
ALPHA = 0.05


# -- segments ---------------------------------------------------------------------------------------------------------

CLUSTERED = {
    "60 clusters of 40 rows": (60, 40, 0.0, 0.3),
    "60 clusters of 40 rows, rare": (60, 40, -4.0, 0.3),
    "20 clusters of 50 rows": (20, 50, 0.0, 0.3),
    "20 clusters of 100 rows, rare": (20, 100, -4.0, 0.3),
    "2,000 clusters of 1 row, rare": (2000, 1, -4.0, 0.0),
}
"""Clusters, their rows, the mean logit of the chances, and how outcomes of a cluster are correlated."""


def clustered_rows(name: str, off: float, rng: Rng) -> tuple[Array, Array, dict[str, Array], Array]:
    """Outcomes that are correlated in clusters, their chances (one segment off by so much), features, clusters."""
    clusters, rows, level, shared = CLUSTERED[name]
    group = np.repeat(np.arange(clusters), rows)
    q = expit(rng.normal(level, 1, len(group)))
    features = {
        "of the cluster": rng.integers(0, 3, clusters)[group],
        "of the row": rng.integers(0, 4, len(group)),
        "number": rng.normal(size=len(group)),
    }
    noise = np.sqrt(shared) * rng.normal(size=clusters)[group] + np.sqrt(1 - shared) * rng.normal(size=len(group))
    u = np.where(features["of the row"] == 1, np.clip(q - off, 0.001, 0.999), q)
    return (ndtri(q) + noise > 0).astype(int), u, features, group


def clustered_segments(name: str, samples: int, off: float = 0.0) -> float:
    """The share of samples in which some segment is significant."""
    rng = np.random.default_rng(5)
    found = 0
    for seed in range(samples):
        y, u, features, group = clustered_rows(name, off, rng)
        result = tc.segments(y, u, features, groups=group, n_resamples=199, seed=seed)
        found += any(segment.pvalue <= ALPHA for segment in result.segments)
    return found / samples


SHARP = ((1e-5, 0.02), (1e-3, 0.02), (0.02, 0.02), (0.3, 0.35))
"""One prediction for all rows, and the chance."""


def sharp_segments(said: float, true: float, samples: int, rows: int = 2000) -> tuple[float, float]:
    """The share of samples in which the intervals of all segments hold the gap, and their mean width in points."""
    rng = np.random.default_rng(6)
    held, width = 0, 0.0
    for seed in range(samples):
        features = {"a": rng.integers(0, 6, rows), "b": rng.integers(0, 5, rows)}
        y = (rng.random(rows) < true).astype(int)
        found = tc.segments(y, np.full(rows, said), features, n_resamples=199, seed=seed).segments
        held += all(segment.low <= 100 * (said - true) <= segment.high for segment in found)
        width += float(np.mean([segment.high - segment.low for segment in found]))
    return held / samples, width / samples


# -- the monitor's change ---------------------------------------------------------------------------------------------


def change(first: int, second: int, t: float, samples: int) -> dict[str, float]:
    """Two days, of which the second has its logits multiplied by t: shares of alarms, of these with an interval that
    holds the first row of the second day, and with advice to apply a temperature within a fifth of t."""
    rng = np.random.default_rng([first, second, 31])
    alarms = held = advised = 0
    off = []
    for _ in range(samples):
        z = rng.normal(0, 1.5, first + second)
        y = (rng.random(len(z)) < expit(z)).astype(int)
        p = expit(np.where(np.arange(len(z)) < first, 1.0, t) * z)
        monitor = tc.monitor()
        monitor.update(y[:first], p[:first], time="day1.csv")
        now = monitor.update(y[first:], p[first:], time="day2.csv")
        if not now.alarm:
            continue
        alarms += 1
        if (change := getattr(now, "change", None)) is not None:
            held += change.low <= first <= change.high
            off.append(abs(change.row - first))
        try:
            advice = monitor.advise(y, p)
        except ValueError:
            continue
        advised += advice.best == "temperature" and abs(1 / advice.map.slopes[0] / t - 1) <= 0.2
    return {
        "alarms": alarms / samples,
        "interval holds the change": held / max(1, alarms),
        "rows off, median": float(np.median(off)) if off else float("nan"),
        "advises a temperature within 20%": advised / max(1, alarms),
    }


# -- gates ------------------------------------------------------------------------------------------------------------

GATES = (
    "very good",
    "very bad",
    "flat at the risk",
    "calibrated",
    "rising, then a jump",
    "bad at the top",
    "ties",
    "two atoms",
    "alternating",
)


def gate_rows(name: str, n: int, risk: float, rng: Rng) -> tuple[Array, Array]:
    """Confidences, and the chances of errors."""
    c, u = 0.5 + 0.5 * rng.beta(2, 1, n), rng.random(n)
    if name == "very good":
        return 1 - 0.02 * u, np.full(n, risk / 10)
    if name == "very bad":
        return 0.7 + 0.3 * u, np.full(n, 0.4)
    if name == "flat at the risk":
        return c, np.full(n, risk)
    if name == "rising, then a jump":
        return u, np.where(u > 0.4, risk * 0.5 * (1 - u) / 0.6, 0.5)
    if name == "bad at the top":
        return u, np.where(u > 0.97, min(1.0, 4 * risk), risk * 0.4)
    if name == "ties":
        return np.round(c, 1), np.clip(1 - np.round(c, 1), 0.2 * risk, 1)
    if name == "two atoms":
        c = np.where(u < 0.5, 0.98, 0.7)
        return c, np.where(c > 0.9, risk * 0.5, 0.3)
    if name == "alternating":
        return u, np.where((10 * u).astype(int) % 2 == 1, risk * 0.3, risk * 1.5)
    assert name == "calibrated"
    return c, 1 - c


def gates(name: str, n: int, risk: float, samples: int, delta: float = 0.05) -> tuple[float, float, float, float]:
    """The share of samples whose gate breaks its promise, mean coverage, the best coverage with known chances, and the
    expected coverage of the best single test with known chances, which no way of choosing tests can pass by much."""
    rng = np.random.default_rng([n, round(risk * 100), 3])
    c, chance = gate_rows(name, 200_000, risk, np.random.default_rng(1))
    order = np.argsort(-c, kind="stable")
    ordered, rate = c[order], np.cumsum(chance[order]) / np.arange(1, len(c) + 1)
    kept = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True) & (rate <= risk + 1e-9))
    best = (float(kept[-1]) + 1) / len(c) if len(kept) else 0.0
    rows = np.arange(1, n + 1)
    most = binom.ppf(delta, rows, risk)
    most = np.where(binom.cdf(most, rows, risk) <= delta, most, most - 1)
    known = binom.cdf(most, rows, rate[np.minimum(rows * len(c) // n, len(c)) - 1]) * rows / n
    broken, coverage = 0, 0.0
    for _ in range(samples):
        c, chance = gate_rows(name, n, risk, rng)
        found = tc.threshold(None, tc.TopPredictions(rng.random(n) >= chance, c), risk=risk, delta=delta)
        if found.threshold is not None:
            place = int(np.searchsorted(-ordered, -found.threshold + 1e-12, side="right"))
            broken += bool(rate[min(place, len(rate)) - 1] > risk + 1e-9)
            coverage += found.coverage
    return broken / samples, coverage / samples, best, float(known.max())


def all_outcomes(rows: int) -> Array:
    """(2^rows, rows): whether each row is wrong."""
    return ((np.arange(2**rows)[:, None] >> np.arange(rows)) & 1).astype(bool)


def worst_level(passed: Array, sizes: Array, risk: float, trials: int, rng: Rng) -> float:
    """The largest probability, over patterns of chances of an error, that a test rejects whose mean chance is at least
    the risk. `passed` has a row for each of all outcomes. Every pattern is improved by moves from row to row."""
    rows = int(np.log2(len(passed)))
    outcomes = all_outcomes(rows)

    def level(chance: Array) -> float:
        null = chance.cumsum()[sizes - 1] >= risk * sizes - 1e-12
        return float(np.where(outcomes, chance, 1 - chance).prod(axis=1) @ passed[:, null].any(axis=1))

    worst = level(np.full(rows, risk))
    for trial in range(trials):
        chance = rng.choice([0.0, risk, 1.0], rows) if trial % 2 else rng.random(rows) * rng.choice([risk, 2 * risk])
        if trial % 3:  # some test is at the risk, or nearly
            size = rng.choice(sizes)
            chance[:size] = np.clip(chance[:size] + risk - chance[:size].mean(), 0, 1)
        found = level(chance)
        for _ in range(10):
            i, j = rng.choice(rows, 2, replace=False)
            moved, by = chance.copy(), rng.random() * min(chance[j], 1 - chance[i])
            moved[i], moved[j] = chance[i] + by, chance[j] - by
            if (now := level(moved)) > found:
                chance, found = moved, now
        worst = max(worst, found)
    return worst


def gate_plans(rows: int, plans: int, trials: int = 40) -> tuple[float, float]:
    """The share of random plans of tests in which some pattern of chances breaks the promise with a probability above
    delta, and the largest of these probabilities over delta: exact, over all outcomes of so many rows."""
    rng = np.random.default_rng([rows, 47])
    counts = all_outcomes(rows).cumsum(axis=1)
    above, largest = 0, 0.0
    for _ in range(plans):
        sizes = np.sort(rng.choice(np.arange(1, rows + 1), int(rng.integers(2, 7)), replace=False))
        risk, delta = float(rng.choice([0.2, 0.3, 0.4, 0.5, 0.6])), float(rng.choice([0.05, 0.1, 0.2]))
        budget = delta * (
            sizes / sizes[-1] if rng.random() < 0.5 else np.append(np.sort(rng.random(len(sizes) - 1)), 1.0)
        )
        seen, place = np.unique(counts[:, sizes - 1], axis=0, return_inverse=True)
        passed = np.array([_passed(one, sizes, budget, risk) for one in seen])[place.reshape(-1)]
        level = worst_level(passed, sizes, risk, trials, rng) / delta
        above, largest = above + (level > 1 + 1e-9), max(largest, level)
    return above / plans, largest


# -- intervals of an error, and pairs that hardly differ ---------------------------------------------------------------


def error_intervals(t: float, n: int, samples: int) -> float:
    """The share of 95% intervals that hold the expected raw error; logits are multiplied by t."""
    rng = np.random.default_rng([n, round(10 * t), 41])
    held = 0
    for _ in range(samples):
        z = rng.normal(0, 1.5, n)
        q, u = expit(z), expit(t * z)
        found = tc.confidence_interval((rng.random(n) < q).astype(int), u, error="binary", what="error", n_bins=10)
        cells = np.array_split(np.argsort(u, kind="stable"), 10)
        expected = (sum((u[cell] - q[cell]).sum() ** 2 for cell in cells) + (q * (1 - q)).sum()) / n**2
        assert found.low is not None and found.high is not None
        held += found.low <= expected <= found.high
    return held / samples


def few_rows_differ(differ: int, samples: int, n: int = 1000) -> float:
    """The share of samples in which one of two models is called closer to calibrated; both are off by the same amount,
    in opposite directions, in so many rows."""
    rng = np.random.default_rng([differ, 43])
    found = 0
    for _ in range(samples):
        q = rng.uniform(0.3, 0.7, n)
        y = (rng.random(n) < q).astype(int)
        off = np.where(np.arange(n) < differ, 0.29, 0.0)
        pair = tc.paired_difference(y, q + off, q - off, error="binary")
        found += pair.gap_sq.beyond_noise
    return found / samples


# -- forecasts of a number ---------------------------------------------------------------------------------------------

FORECASTS = (
    *("3 quantiles", "5 quantiles", "9 quantiles", "99 quantiles"),
    *("10 members", "50 members", "200 members"),
)
_LEVELS = {3: (0.1, 0.5, 0.9), 5: (0.05, 0.25, 0.5, 0.75, 0.95)}


def forecasts(name: str, n: int, samples: int) -> dict[str, float]:
    """Shares rejected of perfect forecasts, tested as F at thresholds and at their own levels, and of forecasts with .7
    of the spread and shifted by .3 of it; and shares in which test and interval of the gap disagree."""
    rng, number = np.random.default_rng([n, 61]), int(name.split()[0])
    levels = np.array(_LEVELS.get(number, np.arange(1, number + 1) / (number + 1)))
    at = np.linspace(-8, 8, 41)
    found = dict.fromkeys(("perfect, interpolated", "perfect", "spread × .7", "shift .3", "contradictions"), 0.0)
    for seed in range(samples):
        mean, sd = 2 * rng.normal(size=n), np.exp(0.4 * rng.normal(size=n))
        y = mean + sd * rng.standard_normal(n)
        for kind, spread, shift in (("perfect", 1.0, 0.0), ("spread × .7", 0.7, 0.0), ("shift .3", 1.0, 0.3)):
            forecast: Any
            if "members" in name:
                noise = rng.standard_normal((n, number))
                forecast = tc.forecasts.ensemble((mean + shift * sd)[:, None] + spread * sd[:, None] * noise)
            else:
                values = (mean + shift * sd)[:, None] + spread * sd[:, None] * norm.ppf(levels)
                forecast = tc.forecasts.quantiles(values, levels)
            test = tc.calibration_test(y, forecast, n_resamples=199, seed=seed)
            rejected = test.pvalue <= ALPHA
            found[kind] += rejected
            found["contradictions"] += not rejected and (test.low or 0.0) > 0
            if kind == "perfect":
                plain = tc.properties.Distribution(at).read(y, forecast.at(at))
                found["perfect, interpolated"] += omnibus_test(plain, 99, seed).pvalue <= ALPHA
    return {kind: count / samples for kind, count in found.items()}
