"""Promises in worlds where it is known whether they hold: segments, the monitor's change, gates, intervals, forecasts.

Every function takes the number of samples and gives shares or means; tests use few samples, `benchmarks/conclusions.py`
many.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, ndtri

import truecal as tc

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
