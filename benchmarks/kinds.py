"""Coverage of gap intervals and level of tests for several labels, ordered classes, distributions and images.

    python -m benchmarks.kinds --simulations 200
    python -m benchmarks.kinds --level --simulations 2000 --rows 100 300    # the tests of calibrated worlds alone

Worlds are calibrated, or too sharp by a known amount; the labels of a row and the pixels of an image depend on each
other. Coverage is the share of samples whose 95% interval holds the gap that the same bins have without noise.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr

import truecal as tc
from truecal.inference.label_tests import label_test
from truecal.inference.omnibus import omnibus_test
from truecal.properties import Cumulative, Distribution, Labelwise, Outcomes
from truecal.sums.errors import signed_root

WORLDS = ("calibrated", "too sharp")


def label_world(rng: np.random.Generator, n: int, sharp: float) -> tuple[Any, Any, Any, Any]:
    """Six labels that share a hidden cause: a Gaussian copula of correlation .8."""
    mu = expit(1.5 * rng.standard_normal((n, 6)) - 0.5)
    common, own = rng.standard_normal((n, 1)), rng.standard_normal((n, 6))
    y = ndtr(np.sqrt(0.8) * common + np.sqrt(0.2) * own) < mu
    reports = expit(sharp * logit(mu))
    return y, reports, mu, Labelwise()


def ordered_world(rng: np.random.Generator, n: int, sharp: float) -> tuple[Any, Any, Any, Any]:
    p = rng.dirichlet([1.0, 2.0, 1.5, 1.0, 0.5], n)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, 4)
    reports = p**sharp / (p**sharp).sum(axis=1, keepdims=True)
    return y, reports, p.cumsum(axis=1)[:, :-1].clip(0, 1), Cumulative()


EVEN, UNEVEN = np.linspace(-4, 4, 17), np.sinh(np.linspace(-2.1, 2.1, 17))


def number_world(rng: np.random.Generator, n: int, sharp: float, at: Any = EVEN) -> tuple[Any, Any, Any, Any]:
    mean, sd = 2 * rng.standard_normal(n), rng.uniform(0.5, 1.5, n)
    y = rng.normal(mean, sd)
    return y, tc.forecasts.normal(mean, sd / sharp), tc.forecasts.normal(mean, sd).at(at), Distribution(at)


KINDS = {
    "multilabel": label_world,
    "ordered": ordered_world,
    "distribution": number_world,
    "distribution, unequal steps": partial(number_world, at=UNEVEN),
}


def noiseless_gap(metric: Any, sample: Any, mu: Any, n_bins: int) -> float:
    """The gap of the same bins where every outcome is replaced by its expectation."""
    squares = []
    for j in range(sample.views):
        scalar = tc.CalibrationError(Outcomes((0.0, 1.0)), tc.Quantile(n_bins))
        squares.append(scalar.parts(scalar.read(mu[:, j], sample.view(j)))[0].gap_sq)
    return 100 * signed_root(float(np.average(squares, weights=sample.shares)))


def rates(make: Any, name: str, n: int, sharp: float, simulations: int, draws: int, seed: int) -> dict[str, Any]:
    covered = trusted = rejected = 0
    for i in range(simulations):
        rng = np.random.default_rng([seed, i])
        y, reports, mu, property = make(rng, n, sharp)
        metric = tc.CalibrationError(property, tc.Quantile())
        gap: Any = tc.gap(y, reports, error=metric)
        true = noiseless_gap(metric, metric.read(y, reports), mu, gap.n_bins)
        trusted += not gap.note
        covered += bool(gap.low <= true + 1e-9 and true - 1e-9 <= gap.high and not gap.note)
        thresholds = getattr(property, "thresholds", None)
        options: dict[str, Any] = {"thresholds": thresholds} if thresholds else {"task": name}
        found = tc.evaluate(y, reports, n_resamples=draws, diagram_bins=5, seed=i, **options)  # draws differ
        rejected += bool(found.test is not None and found.test.pvalue <= 0.05)
    return {"covered": covered / max(trusted, 1), "trusted": trusted / simulations, "rejected": rejected / simulations}


def levels(kinds: dict[str, Any], rows: list[int], simulations: int, draws: int) -> None:
    """How often the test rejects calibrated predictions at 5% and at 20%."""
    print("| predictions | rows | samples | rejects at 5% | at 20% | standard errors |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, make in kinds.items():
        for n in rows:
            found = np.empty(simulations)
            for i in range(simulations):
                y, reports, _, property = make(np.random.default_rng([2, n, i]), n, 1.0)
                sample = property.read(y, reports)
                if name == "multilabel":
                    found[i] = label_test(sample, lambda _: draws, i, [str(j) for j in range(sample.views)])[0].pvalue
                else:
                    found[i] = omnibus_test(sample, draws, i).pvalue
            shares = [float(np.mean(found <= alpha)) for alpha in (0.05, 0.2)]
            errors = " and ".join(f"{np.sqrt(a * (1 - a) / simulations):.3f}" for a in (0.05, 0.2))
            print(f"| {name} | {n} | {simulations:,} | {shares[0]:.3f} | {shares[1]:.3f} | {errors} |", flush=True)


def image_rates(sharp: float, simulations: int, seed: int) -> dict[str, Any]:
    """24 images of 16 × 16 pixels of three classes: all pixels of an image move together in what they get wrong."""
    covered = 0
    for i in range(simulations):
        rng = np.random.default_rng([seed, i])
        p = rng.dirichlet([1.0, 1.0, 1.0], (24, 16, 16))
        common, own = rng.standard_normal((24, 1, 1)), rng.standard_normal((24, 16, 16))
        u = ndtr(np.sqrt(0.3) * common + np.sqrt(0.7) * own)
        y = (p.cumsum(axis=-1) < u[..., None]).sum(axis=-1).clip(0, 2)
        q = p**sharp / (p**sharp).sum(axis=-1, keepdims=True)
        stream = tc.stream("classwise", n_bins=10, edges="uniform")
        for image in range(24):
            stream.update(y[image : image + 1], q[image : image + 1], class_axis=-1)
        gap: Any = stream.result().gap
        rows, mu = q.reshape(-1, 3), p.reshape(-1, 3)
        scalar = tc.CalibrationError(Outcomes((0.0, 1.0)), tc.EqualWidth(10))
        true = np.mean([scalar.parts(scalar.read(mu[:, j], rows[:, j]))[0].gap_sq for j in range(3)])
        points = 100 * signed_root(float(true))
        covered += bool(gap.low <= points + 1e-9 and points - 1e-9 <= gap.high)
    return {"covered": covered / simulations, "trusted": 1.0, "rejected": float("nan")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--draws", type=int, default=199)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--level", action="store_true", help="only the tests of calibrated worlds")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--small", action="store_true", help="few samples, to see that everything runs")
    options = parser.parse_args()
    if options.small:
        options.simulations, options.rows = 5, [100]
    kinds = {name: KINDS[name] for name in options.kinds}
    if options.level:
        levels(kinds, options.rows, options.simulations, options.draws)
        return
    print("| predictions | rows | world | covered | trusted | test rejects at 5% |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, make in kinds.items():
        for n in options.rows:
            for world, sharp in zip(WORLDS, (1.0, 1.5), strict=True):
                start = time.monotonic()
                row = rates(make, name, n, sharp, options.simulations, options.draws, 1)
                _print(name, n, world, row, time.monotonic() - start)
    for world, sharp in zip(WORLDS, (1.0, 1.5), strict=True):
        start = time.monotonic()
        _print("images", 24, world, image_rates(sharp, options.simulations, 2), time.monotonic() - start)


def _print(name: str, n: int, world: str, row: dict[str, Any], seconds: float) -> None:
    test = "–" if row["rejected"] != row["rejected"] else f"{row['rejected']:.3f}"
    print(
        f"| {name} | {n} | {world} | {row['covered']:.3f} | {row['trusted']:.2f} | {test} |  <!-- {seconds:.0f} s -->",
        flush=True,
    )


if __name__ == "__main__":
    main()
