"""How often measures pick the better of two models: Brier score, score, log loss, ECE and gap on a few hundred rows.

    python -m benchmarks.right_picks [--samples 400]

The better model has the lower expected Brier score, computed from the true probabilities of many rows. Seeds are fixed;
results/conclusions/right-picks.csv keeps the shares with their standard errors.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import expit, softmax

import truecal as tc

from .conclusions import compared, rated

Array = np.ndarray[Any, Any]
Models = tuple[Array, Array, Array]
"""True probabilities, and what both models predict; model one is meant to be the better one."""
SEED, MANY = 20_261_119, 200_000
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def smoothed(z: Array, sd: float) -> Array:
    """The mean of the true probability over the part of the logit that a model does not see."""
    return np.asarray(expit(z[:, None] + sd * NODES) @ (WEIGHTS / WEIGHTS.sum()))


def information(n: int, rng: np.random.Generator) -> Models:
    a, b, c = rng.normal(size=(3, n)) * [[1.2], [0.45], [0.8]]
    return expit(a + b + c), smoothed(a + b, 0.8), smoothed(a, np.hypot(0.45, 0.8))


def wiggles(n: int, rng: np.random.Generator) -> Models:
    u = rng.random(n)
    return u, *(np.clip(u + size * np.sin(25 * u), 0, 1) for size in (0.08, 0.11))


def noise(n: int, rng: np.random.Generator) -> Models:
    z, e = rng.normal(size=(2, n)) * [[1.5], [1.0]]
    return expit(z), expit(z + 0.4 * e), expit(z + 0.55 * e)


def shift(n: int, rng: np.random.Generator) -> Models:
    z = 1.5 * rng.normal(size=n)
    return expit(z), expit(z + 0.15), expit(z + 0.35)


def temperature(n: int, rng: np.random.Generator) -> Models:
    z = 1.5 * rng.normal(size=n)
    return expit(z), expit(1.2 * z), expit(1.5 * z)


def sharp_or_calibrated(n: int, rng: np.random.Generator) -> Models:
    """All information at the wrong temperature, against a calibrated model with less."""
    a, b = rng.normal(size=(2, n)) * [[1.5], [0.55]]
    return expit(a + b), expit(1.6 * (a + b)), smoothed(a, 0.55)


def classes(k: int) -> Callable[[int, np.random.Generator], Models]:
    """Noise in the logits against a little more noise and confidence."""

    def made(n: int, rng: np.random.Generator) -> Models:
        z, e = 2 * rng.normal(size=(n, k)), rng.normal(size=(n, k))
        return softmax(z, 1), softmax(z + 0.3 * e, 1), softmax(1.1 * z + 0.35 * e, 1)

    return made


WORLDS: dict[str, Callable[[int, np.random.Generator], Models]] = {
    "calibrated, more or less information": information,
    "two wiggles": wiggles,
    "noise": noise,
    "shift": shift,
    "temperature 1.2 or 1.5": temperature,
    "over-confident or less informed": sharp_or_calibrated,
    "3 classes": classes(3),
    "10 classes": classes(10),
    "100 classes": classes(100),
}
MEASURES: dict[str, Callable[[Array, Array], float]] = {
    "Brier": lambda y, p: float(np.mean(np.sum(np.square(p - np.eye(p.shape[1])[y]), axis=1))),
    "score": lambda y, p: float(tc.score(y, p)),
    "log loss": lambda y, p: float(tc.cross_entropy(y, np.clip(p, 1e-12, 1))),
    "ECE": lambda y, p: float(tc.ece(y, p)),
    "gap": lambda y, p: float(tc.gap(y, p).points),
}


def both_columns(p: Array) -> Array:
    return p if p.ndim == 2 else np.column_stack([1 - p, p])


def labels(p: Array, rng: np.random.Generator) -> Array:
    return np.minimum((p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1), p.shape[1] - 1)


def expected(truth: Array, p: Array, seed: int) -> tuple[float, float]:
    """Expected Brier score and score, from many rows."""
    brier = float(np.mean(np.sum(np.square(p - truth) + truth * (1 - truth), axis=1)))
    y = labels(truth, np.random.default_rng(seed))
    return brier, float(tc.score(y, p))


def picks(world: str, n: int, samples: int) -> tuple[dict[str, float], bool]:
    """How often each measure picks the better model, and whether score and Brier score agree on which that is."""
    many = MANY if "classes" not in world else MANY // 10
    truth, one, two = map(both_columns, WORLDS[world](many, np.random.default_rng(SEED)))
    (brier_one, score_one), (brier_two, score_two) = (expected(truth, p, SEED) for p in (one, two))
    better = brier_one < brier_two
    right = dict.fromkeys(MEASURES, 0)
    for i in range(samples):
        rng = np.random.default_rng([SEED, i])
        truth, one, two = map(both_columns, WORLDS[world](n, rng))
        y = labels(truth, rng)
        for name, measure in MEASURES.items():
            right[name] += (measure(y, one) < measure(y, two)) == better
    return {name: count / samples for name, count in right.items()}, better == (score_one < score_two)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=400)
    samples = parser.parse_args().samples
    rows = []
    for world in WORLDS:
        for n in (200, 1000):
            found, agree = picks(world, n, samples)
            each = [x for name in MEASURES for x in rated(found[name], samples)]
            rows.append([world, n, *each, "same" if agree else "other", SEED, samples])
    heads = [x for name in MEASURES for x in (name, f"{name} se")]
    about = ["world", "n", *heads, "order by expected score", "seed", "samples"]
    compared("right-picks", "How often measures pick the better of two models", about, rows)


if __name__ == "__main__":
    main()
