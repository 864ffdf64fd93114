"""How often tests and intervals of survival predictions are wrong where the censoring is estimated.

    python -m benchmarks.survival                       # every cell, some half an hour
    python -m benchmarks.survival --samples 40 --rows 200 1000

Event times are exponential with a rate of exp(.8x + .7z), x normal and z a coin; a share of the rows is censored at
exponential times, whose rate may be exp(2z) times higher. Horizons are the times by which 10%, 20% and 30% of rows have
the event. One model reports the true risks, the other those of rates 1.5 times as high; the truth about both is known.
Writes results/survival/rates.csv: a share p of N samples has a standard error of √(p(1 − p)/N).
"""

from __future__ import annotations

import argparse
import csv
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

import truecal as tc
from truecal.core.types import Array

FOLDER = Path(__file__).parent.parent / "results" / "survival"
CENSORED = (0.2, 0.5, 0.8)
ROWS = (200, 1000, 5000)
WAYS = ("independent", "by z, ignored", "by z, in strata")
HEADS = (
    "censored,way,rows,test rejects the true risks,test rejects rates × 1.5,gap of the truth covered,"
    "gap of rates × 1.5 covered,loss covered,loss difference covered,Brier bias,largest se,samples,seed"
)


class World(NamedTuple):
    """Rates by row, and those of the censoring before they are multiplied by `scale`."""

    horizons: Array
    scale: float


def world(censored: float, depends: bool) -> World:
    """Horizons and the rate of censoring that give these shares in a large sample."""
    rng = np.random.default_rng(0)
    rate, more, _ = drawn(rng, 200_000, depends)
    return World(
        np.array([brentq(lambda t, s=share: np.mean(-np.expm1(-rate * t)) - s, 1e-6, 99) for share in (0.1, 0.2, 0.3)]),
        brentq(lambda c: np.mean(c * more / (c * more + rate)) - censored, 1e-9, 1e6),
    )


def drawn(rng: np.random.Generator, n: int, depends: bool) -> tuple[Array, Array, Array]:
    """Rates of the event, of the censoring before it is scaled, and z."""
    x, z = rng.standard_normal(n), rng.integers(0, 2, n)
    return np.exp(0.8 * x + 0.7 * z), np.exp(2.0 * z * depends), z


def checked(n: int, censored: float, way: str, seed: int, made: World) -> tuple[float, ...]:
    """What one sample shows of both models: whether claims hold, and how far the Brier score is from its mean."""
    rng = np.random.default_rng(seed)
    rate, more, z = drawn(rng, n, way != WAYS[0])
    event, end = rng.exponential(1 / rate), rng.exponential(1 / (made.scale * more))
    true, high = (-np.expm1(-k * rate[:, None] * made.horizons) for k in (1.0, 1.5))
    strata = z if way == WAYS[2] else None
    data = np.minimum(event, end), event <= end
    found = tc.compare(data, {"true": true, "high": high}, horizons=made.horizons, censoring_by=strata, n_resamples=199)
    own, off = found.evaluations["true"], found.evaluations["high"]
    shares = tc.properties.Survival(made.horizons).shares
    shares = np.ones(3) if shares is None else shares
    bins = np.array_split(np.argsort(rate), off.row("survival").n_bins or 1)
    squares = [len(b) / n * np.square((high - true)[b].mean(axis=0)) for b in bins]
    gap = 100 * math.sqrt(float(np.sum(squares, axis=0) @ shares) / 3)
    means = [float(((np.square(u - true) + true * (1 - true)) @ shares).mean() / 3) for u in (true, high)]
    pair = next(p for p in found.pairs if p.error == "survival")
    sign = 1 if pair.first == "true" else -1
    assert own.test is not None and off.test is not None and own.gap is not None and off.gap is not None
    ends = own.loss("ipcw_brier")
    return (
        own.test.pvalue <= 0.05,
        off.test.pvalue <= 0.05,
        own.gap.low <= 0,
        off.gap.low <= gap <= off.gap.high,
        (ends.low or 0) <= means[0] <= (ends.high or 0),
        pair.loss.low <= sign * (means[0] - means[1]) <= pair.loss.high,
        ends.value - means[0],
    )


def rows(samples: int, sizes: list[int]) -> Iterator[list[object]]:
    """One line per cell."""
    for cell, (censored, way, n) in enumerate((c, w, n) for n in sizes for c in CENSORED for w in WAYS):
        made, first = world(censored, way != WAYS[0]), 1_000_000 * (cell + 1)
        kept = []
        for i in range(samples):
            try:
                kept.append(checked(n, censored, way, first + i, made))
            except ValueError as error:  # few rows may not reach the last horizon
                if "largest usable horizon" not in str(error):
                    raise
        shares = np.array(kept, dtype=float)
        rates = shares.mean(axis=0)
        se = float(np.sqrt(rates[:6] * (1 - rates[:6]) / len(kept)).max())
        yield [censored, way, n, *(f"{x:.3f}" for x in rates[:6]), f"{rates[6]:+.4f}", f"{se:.3f}", len(kept), first]


def main() -> None:
    parser = argparse.ArgumentParser(description="Rates of survival predictions with an estimated censoring.")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--rows", type=int, nargs="*", default=list(ROWS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "rates.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(HEADS.split(","))
        for row in rows(given.samples, given.rows):
            out.writerow(row)
            file.flush()
            print(*row, sep=",", flush=True)


if __name__ == "__main__":
    main()
