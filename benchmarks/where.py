"""Segments, thresholds and estimates: how often what they promise holds; the rates of results/conclusions.

    python -m benchmarks.where                         # all of them, some ten minutes
    python -m benchmarks.where segments thresholds     # some of them
    python -m benchmarks.where --samples 40            # fewer samples

Worlds and shares are those of tests/where_worlds.py; seeds are fixed. Output is Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable

import numpy as np
from tests import where_worlds as worlds

import truecal as tc

from .calibration import table
from .conclusions import compared, rated, share


def segments(samples: int) -> None:
    print("### Calibrated segments: samples with a finding, and with some unadjusted p ≤ .05\n")
    rows = []
    for kind in worlds.SEGMENTS:
        for of in ("spread", "rare"):
            compared, wrong, plain = worlds.segment_level(kind, of, samples)
            rows.append([kind, of, f"{compared:,.0f}", share(wrong), share(plain)])
    table(("segments", "chances", "compared", "a finding", "some unadjusted p"), rows)
    print("### One value of a feature off: it is the first finding; findings and significant segments per sample\n")
    rows = []
    for kind, points in (("10", 8), ("10", 15), ("80", 5), ("80", 8), ("80", 12), ("1,000", 8)):
        some = max(10, samples // 10) if kind == "1,000" else max(20, samples // 3)
        right, findings, significant = worlds.segment_power(kind, points, some)
        rows.append([kind, f"{points}", share(right), f"{findings:.2f}", f"{significant:.1f}"])
    table(("segments", "points", "found first", "findings", "significant"), rows)
    print(
        "### Predictions too extreme everywhere: a wrong level named, an interval that misses (all segments together)\n"
    )
    rows = []
    for t in (1.0, 1.6, 3.0):
        wrong, missed = worlds.segment_directions(t, "80", max(20, samples // 3))
        rows.append([f"T {t:g}", share(wrong), share(missed)])
    table(("world", "wrong level", "interval misses"), rows)


def time_of_segments(samples: int) -> None:
    print("### Seconds: 100,000 rows, 20 features, pairs, 999 draws\n")
    rng = np.random.default_rng(0)
    features = {f"f{j}": rng.normal(size=100_000) for j in range(20)}
    u = rng.random(100_000)
    began, used = time.perf_counter(), time.process_time()
    found = tc.segments(rng.random(100_000) < u, u, features)
    row = [f"{found.compared:,}", f"{time.perf_counter() - began:.1f}", f"{time.process_time() - used:.1f}"]
    table(("segments", "seconds", "of processor time"), [row])


def thresholds(samples: int) -> None:
    rows = []
    for kind in worlds.CONFIDENCES:
        for n in (60, 200, 1000, 5000):
            for level in (0.1, 0.05):
                broken, coverage, best = worlds.threshold_rates(kind, n, 3 * samples, level, level)
                cells = (*rated(broken, 3 * samples), f"{coverage:.2f}", f"{best:.2f}")
                rows.append([kind, n, level, *cells, f"{len(kind)}; {n}; 8", 3 * samples])
    heads = ("confidence", "n", "risk and delta", "promise broken", "se", "mean coverage", "best coverage")
    compared("thresholds", "Thresholds: broken promises and coverage", (*heads, "seed", "samples"), rows)


def estimates(samples: int) -> None:
    print("### Estimates: coverage of 95% intervals (width over that of the labelled rows alone), 5,000 new rows\n")
    rows = []
    names = ("accuracy", "positive rate", "Brier score", "expected cost")
    for kind in worlds.POPULATIONS:
        for n in (30, 100, 1000, 5000):
            found = worlds.estimate_rates(kind, n, samples)
            cells = [f"{share(found[name][0])} ({found[name][1]:.2f})" for name in names]
            rows.append([kind, f"{n:,}", *cells, f"{found['accuracy'][3]:+.1f}"])
    table(("model", "n", *names, "naive accuracy off by"), rows)


TABLES = {f.__name__.replace("_", "-"): f for f in (segments, time_of_segments, thresholds, estimates)}


def main(chosen: Iterable[str], samples: int) -> None:
    for name in chosen:
        TABLES[name](samples)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], default=[])
    parser.add_argument("--samples", type=int, default=300)
    given = parser.parse_args()
    main(given.tables or TABLES, given.samples)
