"""The resampling test beside a naive loop over the error itself, in one run, as ratios.

    python -m benchmarks.inference            # n = 10,000 and k = 100 among others, under a minute
    python -m benchmarks.inference --small    # small sizes only

The naive loop draws labels by inverting the cumulative probabilities of all rows, then calls the
error on each draw, which sorts and bins again. Both give U for every draw; the loop is timed on a few draws and scaled
to the number of resamples. "same U" checks that both compute the same statistic of the observed labels.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from truecal import calibration_test
from truecal.kinds.named_errors import get_error
from truecal.sums.errors import CalibrationError

RESAMPLES = 999
LOOP_DRAWS = 5
TARGET = 12.0

ROWS = (
    ("classwise", 15, 1_000, 10),
    ("classwise", 15, 10_000, 100),
    ("confidence", 15, 10_000, 100),
    ("full", 15, 10_000, 100),
)


def draw(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Reports of a sharp predictor, and labels drawn from them."""
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(k, 0.1), n)
    return naive_labels(rng, p), p


def naive_labels(rng: np.random.Generator, p: np.ndarray) -> np.ndarray:
    return (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1).clip(max=p.shape[1] - 1)


def by_loop(error: CalibrationError, p: np.ndarray, draws: int) -> float:
    """Seconds for `draws` resamples, each through the error's own call."""
    rng = np.random.default_rng(1)
    start = time.perf_counter()
    for _ in range(draws):
        error.decompose(naive_labels(rng, p), p)
    return time.perf_counter() - start


def by_truecal(error: CalibrationError, y: np.ndarray, p: np.ndarray) -> tuple[float, float]:
    start = time.perf_counter()
    test = calibration_test(y, p, error=error, n_resamples=RESAMPLES)
    return time.perf_counter() - start, test.details[0].U or 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="leave out n = 10,000")
    small = parser.parse_args().small
    print(f"{'error':<12}{'bins':>5}{'n':>8}{'k':>5}{'loop':>10}{'truecal':>10}{'ratio':>8}  same U")
    for name, m, n, k in ROWS:
        if small and n >= 10_000:
            continue
        error = get_error(name, m)
        y, p = draw(n, k)
        loop = by_loop(error, p, LOOP_DRAWS) * RESAMPLES / LOOP_DRAWS
        ours, statistic = by_truecal(error, y, p)
        same = abs(statistic - error.decompose(y, p).U) < 1e-10
        print(f"{name:<12}{m:>5}{n:>8}{k:>5}{loop:>9.2f}s{ours:>9.2f}s{loop / ours:>7.1f}x  {same}")
        if (name, m, n, k) == ROWS[1]:
            print(f"{'':<12}target at this size: at least {TARGET:g}x, {'met' if loop / ours >= TARGET else 'MISSED'}")


if __name__ == "__main__":
    main()
