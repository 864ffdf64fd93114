"""How often intervals and bands of decision curves miss, and how often they claim a gain that is none.

    python -m benchmarks.decision_bands                       # every cell, some twenty minutes
    python -m benchmarks.decision_bands --samples 40 --rows 200

The log-odds of the event are a + 1.2x, x normal; a gives the share of events. Models "a" and "b" report them plus
noise .8 of their own, so they are equally good at every threshold; "best" reports the true risks; "coin" reports noise
that knows nothing. Thresholds are 1% to 99%, and the truth at each is computed on a grid of quantiles.
Writes results/decisions/bands.csv: a share p of N samples has a standard error of √(p(1 − p)/N).
"""

from __future__ import annotations

import argparse
import csv
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri

import truecal as tc
from truecal.core.types import Array
from truecal.results.decision_curve import Band, DecisionCurve

FOLDER = Path(__file__).parent.parent / "results" / "decisions"
EVENTS = (0.01, 0.05, 0.3)
ROWS = (200, 1000, 5000)
SLOPE, NOISE, CLUSTER = 1.2, 0.8, 10
WAYS = ("rows", "clusters of 10", "prevalence .1")
T = np.arange(1, 100) / 100
HEADS = (
    "events,way,rows,smallest interval coverage at a threshold where 1% are acted on,net benefit in its band,"
    "loss in its band,difference of best and a in its band,equal models told apart,a coin called useful,"
    "largest se,samples,seed"
)


@cache
def intercept(events: float) -> float:
    x = ndtri((np.arange(20_000) + 0.5) / 20_000)
    return float(brentq(lambda a: expit(a + SLOPE * x).mean() - events, -20, 5))


@cache
def truth(events: float, target: float) -> dict[str, Array]:
    """Net benefit at each threshold, by model, in a population where a share `target` has the event."""
    a = intercept(events)
    x = ndtri((np.arange(4000) + 0.5) / 4000)[:, None]
    e = NOISE * ndtri((np.arange(500) + 0.5) / 500)
    risk = expit(a + SLOPE * x)
    found = {}
    for name, p in (("a", expit(a + SLOPE * x + e)), ("best", risk)):
        order = np.argsort(p, axis=None)
        of = np.broadcast_to(risk, p.shape).ravel()[order]
        first = np.searchsorted(p.ravel()[order], T)
        hits, false = (np.append(np.cumsum(s[::-1])[::-1], 0.0)[first] / p.size for s in (of, 1 - of))
        found[name] = target / events * hits - T / (1 - T) * (1 - target) / (1 - events) * false
    return found


def drawn(n: int, events: float, way: str, seed: int) -> tuple[Array, dict[str, Array], Array | None]:
    """Outcomes, models and clusters, whose rows are alike: they share their risk and, mostly, their outcome."""
    rng = np.random.default_rng(seed)
    units = n // CLUSTER if way == WAYS[1] else n
    copies = n // units
    a = intercept(events)
    x, first, second = (np.repeat(v, copies) for v in rng.standard_normal((3, units)))
    u = np.repeat(rng.random(units), copies)
    if copies > 1:
        u = np.where(rng.random(n) < 0.5, u, rng.random(n))
    odds = a + SLOPE * x
    models = {"a": odds + NOISE * first, "b": odds + NOISE * second, "best": odds}
    models["coin"] = a + NOISE * np.repeat(rng.standard_normal(units), copies)
    return (
        u < expit(odds),
        {name: expit(v) for name, v in models.items()},
        np.repeat(np.arange(units), copies) if copies > 1 else None,
    )


def inside(band: Band, wanted: Array, some: Array) -> bool:
    return bool(((band.band_low <= wanted + 1e-12) & (wanted - 1e-12 <= band.band_high))[some].all())


def checked(n: int, events: float, way: str, seed: int) -> tuple[Array, Array]:
    """Whether the claims of one sample hold, and at which thresholds the interval of `a` holds the truth."""
    y, models, clusters = drawn(n, events, way, seed)
    target = 0.1 if way == WAYS[2] else None
    truths = truth(events, target or events)
    known = {"thresholds": T, "groups": clusters, "prevalence": target, "n_resamples": 499, "seed": seed}
    own: DecisionCurve = tc.decision_curve(y, models["a"], **known)
    pair: DecisionCurve = tc.decision_curve(y, {"best": models["best"], "a": models["a"]}, **known)
    equal: DecisionCurve = tc.decision_curve(y, {"a": models["a"], "b": models["b"]}, **known)
    coin: DecisionCurve = tc.decision_curve(y, models["coin"], **known)
    net, every = own.curves[0].net_benefit, np.ones(len(T), bool)
    losses = (1 - T) * ((target or events) - truths["a"])
    claims = np.array(
        [
            inside(net, truths["a"], every),
            inside(own.curves[0].loss, losses, every),
            inside(pair.differences[0].difference, truths["best"] - truths["a"], every),
            equal.differences[0].pvalue <= 0.05,
            bool(coin.curves[0].useful),
        ],
        dtype=float,
    )
    return claims, ((net.low <= truths["a"] + 1e-12) & (truths["a"] - 1e-12 <= net.high)).astype(float)


@cache
def acted(events: float) -> Array:
    """The thresholds at which model a acts on at least 1% of the rows."""
    x = ndtri((np.arange(4000) + 0.5) / 4000)
    odds = intercept(events) + np.hypot(SLOPE, NOISE) * x
    return np.array([(expit(odds) >= t).mean() >= 0.01 for t in T])


def rows(samples: int, sizes: list[int]) -> Iterator[list[object]]:
    """One line per cell."""
    for cell, (way, events, n) in enumerate((w, e, n) for w in WAYS for e in EVENTS for n in sizes):
        seed, claims, covered, none = 1_000_000 * (cell + 1), [], [], 0
        for i in range(samples):
            try:
                one = checked(n, events, way, seed + i)
            except ValueError as error:  # rare outcomes: a sample may have no event, which is refused
                if "has the event" not in str(error) and "without the event" not in str(error):
                    raise
                none += 1
                continue
            claims.append(one[0])
            covered.append(one[1])
        rates = np.mean(claims, axis=0)
        least = float(np.mean(covered, axis=0)[acted(events)].min())
        every = np.array([least, *rates])
        se = float(np.sqrt(every * (1 - every) / len(claims)).max())
        yield [events, way, n, *(f"{x:.3f}" for x in every), f"{se:.3f}", len(claims), seed]


def main() -> None:
    parser = argparse.ArgumentParser(description="Coverage of the intervals and bands of decision curves.")
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--rows", type=int, nargs="*", default=list(ROWS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "bands.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(HEADS.split(","))
        for row in rows(given.samples, given.rows):
            out.writerow(row)
            file.flush()
            print(*row, sep=",", flush=True)


if __name__ == "__main__":
    main()
