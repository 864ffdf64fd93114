"""Worlds for segments, thresholds and estimates: how often what they promise holds, here and in the benchmarks."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr

import truecal as tc

Array = np.ndarray[Any, np.dtype[Any]]
Rng = np.random.Generator
ALPHA = 0.05


# -- segments ----------------------------------------------------------------------------------------------------------


def features(kind: str, rng: Rng) -> tuple[int, dict[str, Array], bool]:
    """Rows, columns, and whether pairs are looked at: about 10, 80 or 1,000 segments, of equal or unequal sizes."""
    if kind == "10":
        return 1000, {"a": rng.integers(0, 9, 1000)}, False
    if kind == "10 unequal":
        return 2000, {"a": np.minimum(rng.geometric(0.35, 2000), 9).astype(str)}, False
    if kind == "80":
        return 6000, {name: rng.integers(0, 8, 6000) for name in "ab"}, True
    if kind == "80 unequal, overlapping":
        a = np.minimum(rng.geometric(0.3, 6000), 8)
        b = np.where(rng.random(6000) < 0.7, a, np.minimum(rng.geometric(0.3, 6000), 8))
        return 6000, {"a": a, "b": b, "c": a // 2, "d": rng.normal(size=6000) + 0.5 * a}, True
    assert kind == "1,000"
    return 20_000, {name: rng.integers(0, 13, 20_000).astype(str) for name in "abcd"}, True


SEGMENTS = ("10", "10 unequal", "80", "80 unequal, overlapping", "1,000")


def chances(kind: str, n: int, rng: Rng) -> Array:
    """True chances: spread over (0, 1), or of something rare."""
    return rng.beta(0.3, 12, n) if kind == "rare" else expit(rng.normal(0, 1.5, n))


def segment_level(kind: str, of: str, samples: int, draws: int = 199) -> tuple[float, float, float]:
    """How many segments; the share of calibrated samples with a finding, and with an unadjusted p ≤ .05 somewhere."""
    rng = np.random.default_rng([len(kind), len(of), 5])
    wrong, plain, compared = 0, 0, 0
    for seed in range(samples):
        n, columns, pairs = features(kind, rng)
        u = chances(of, n, rng)
        y = (rng.random(n) < u).astype(int)
        found = tc.segments(y, u, columns, pairs=pairs, n_resamples=draws, seed=seed)
        wrong += bool(found.findings)
        compared = found.compared
        gaps = np.array([abs(s.gap) / 100 * s.rows for s in found.segments])
        own = np.array(
            [np.sqrt(max(s.mean_prediction * (1 - s.mean_prediction), 1e-9) * s.rows) for s in found.segments]
        )
        plain += bool((2 * ndtr(-gaps / own) <= ALPHA).any())  # binomial at the mean prediction: wider than the truth
    return compared, wrong / samples, plain / samples


def segment_power(kind: str, points: float, samples: int, draws: int = 199) -> tuple[float, float, float]:
    """One value of a feature off by so many points: the share of samples in which it, or its part, is the first
    finding; the mean number of findings, and of significant segments."""
    rng = np.random.default_rng([len(kind), 6])
    right, findings, significant = 0, 0, 0
    for seed in range(samples):
        n, columns, pairs = features(kind, rng)
        u = rng.uniform(0.2, 0.8, n)
        off = columns["a"].astype(str) == "1"
        y = (rng.random(n) < np.where(off, u - points / 100, u)).astype(int)
        found = tc.segments(y, u, columns, pairs=pairs, n_resamples=draws, seed=seed)
        right += bool(found.findings) and found.findings[0].segment.name.startswith("a = 1")
        findings += len(found.findings)
        significant += sum(segment.finding is not None for segment in found.segments)
    return right / samples, findings / samples, significant / samples


def segment_directions(temperature: float, kind: str, samples: int, draws: int = 199) -> tuple[float, float]:
    """Shares of samples with a wrong level named, and with an interval that leaves out its mean, where all predictions
    are too extreme by a temperature."""
    rng = np.random.default_rng([len(kind), 7])
    wrong, missed = 0, 0
    for seed in range(samples):
        n, columns, pairs = features(kind, rng)
        q = expit(rng.normal(0, 1.5, n))
        u = expit(temperature * logit(q))
        y = (rng.random(n) < q).astype(int)
        found = tc.segments(y, u, columns, pairs=pairs, n_resamples=draws, seed=seed)
        right = tc.segments(y, u, columns, pairs=pairs, n_resamples=1)  # the same segments, for their rows
        true = _mean_gaps(columns, pairs, u, q, {s.name for s in right.segments})
        wrong += any(
            ("too high" in s.direction and true[s.name] <= 0) or ("too low" in s.direction and true[s.name] >= 0)
            for s in found.segments
        )
        missed += any(not s.low <= 100 * true[s.name] <= s.high for s in found.segments)
    return wrong / samples, missed / samples


def _mean_gaps(columns: dict[str, Array], pairs: bool, u: Array, q: Array, names: set[str]) -> dict[str, float]:
    from truecal.inference.features import group_rows, read_features

    groups = group_rows(read_features(columns, len(u), 5, 50), len(u), pairs, 50)
    gaps = groups.sums((u - q)[:, None])[:, 0] / groups.rows
    return {name: float(gap) for name, gap in zip(groups.names, gaps, strict=True) if name in names}


# -- thresholds --------------------------------------------------------------------------------------------------------

CONFIDENCES = ("spread", "over-confident", "two values", "rounded", "not monotone")


def confidences(kind: str, n: int, rng: Rng) -> tuple[Array, Array]:
    """Confidence of the top class, and the chance that it is right."""
    if kind == "two values":
        c = rng.choice([0.7, 0.98], n)
        return c, np.where(c > 0.9, 0.94, 0.7)  # the surest rows are just not sure enough for a risk of .05
    c = 0.5 + 0.5 * rng.beta(2, 1, n)
    if kind == "rounded":
        c = np.round(c, 1)
        return c, np.clip(c - 0.03, 0.5, 1)
    if kind == "over-confident":
        return c, 0.5 + 0.9 * (c - 0.5)
    if kind == "not monotone":
        return c, np.where(c > 0.97, 0.93, c)
    return c, c


def threshold_rates(
    kind: str, n: int, samples: int, risk: float = 0.1, delta: float = 0.1
) -> tuple[float, float, float]:
    """The share of samples whose threshold breaks the promise; mean coverage, and the largest that keeps it."""
    rng = np.random.default_rng([len(kind), n, 8])
    c, right = confidences(kind, 400_000, np.random.default_rng(1))
    order = np.argsort(-c, kind="stable")
    ordered, rate = c[order], np.cumsum(1 - right[order]) / np.arange(1, len(c) + 1)
    last = np.append(ordered[1:] != ordered[:-1], True)  # equal confidences are accepted together
    kept = np.flatnonzero(last & (rate <= risk))
    best = (float(kept[-1]) + 1) / len(c) if len(kept) else 0.0
    broken, coverage = 0, 0.0
    for _ in range(samples):
        c, right = confidences(kind, n, rng)
        found = tc.threshold(None, tc.TopPredictions(rng.random(n) < right, c), risk=risk, delta=delta)
        if found.threshold is not None:
            place = int(np.searchsorted(-ordered, -found.threshold + 1e-12, side="right"))
            broken += bool(rate[min(place, len(rate)) - 1] > risk)
            coverage += found.coverage
    return broken / samples, coverage / samples, best


# -- estimates ---------------------------------------------------------------------------------------------------------

POPULATIONS = ("calibrated", "over-confident", "rare errors", "sure and wrong", "useless")


def population(kind: str, n: int, rng: Rng) -> tuple[Array, Array]:
    """Predictions of two classes, and the chances of the second."""
    if kind in ("rare errors", "sure and wrong"):
        z = rng.choice([-1, 1], n) * rng.normal(6, 1, n)
        p = expit(z)
        return p, p if kind == "rare errors" else 0.01 + 0.98 * p
    p = rng.beta(0.5, 0.5, n)
    if kind == "useless":
        return p, np.full(n, 0.3)
    return p, expit(0.5 * logit(p)) if kind == "over-confident" else p


def estimate_rates(kind: str, n: int, samples: int, N: int = 5000) -> dict[str, tuple[float, float, float, float]]:
    """Per quantity: coverage of the 95% interval, its width over that of the labelled rows alone, coverage of those,
    and the naive estimate's error in points."""
    rng = np.random.default_rng([len(kind), n, 9])
    p, q = population(kind, 1_000_000, np.random.default_rng(1))
    hit = np.where(p > 0.5, q, 1 - q)
    truth = {
        "accuracy": hit.mean(),
        "positive rate": q.mean(),
        "Brier score": (q * (1 - p) ** 2 + (1 - q) * p**2).mean(),
        "expected cost": np.where(p > 1 / 6, (1 - q) * 1.0, q * 5.0).mean(),
    }
    found = {name: np.zeros(5) for name in truth}
    for _ in range(samples):
        p, q = population(kind, n + N, rng)
        y = (rng.random(n) < q[:n]).astype(int)
        result = tc.estimate(y, p[:n], p[n:], cost=(1, 5))
        for name, true in truth.items():
            one = result[name]
            found[name] += [
                one.low <= true <= one.high,
                one.high - one.low,
                one.labelled_high - one.labelled_low,
                one.labelled_low <= true <= one.labelled_high,
                100 * (one.naive - true),
            ]
    means = {name: sums / samples for name, sums in found.items()}
    return {name: (m[0], m[1] / max(m[2], 1e-12), m[3], m[4]) for name, m in means.items()}
