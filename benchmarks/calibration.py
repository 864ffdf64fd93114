"""How sure are we? Coverage, level, power and the choice of bins, measured; the rates of results/conclusions.

    python -m benchmarks.calibration --samples 500     # the tables of the page, some minutes
    python -m benchmarks.calibration                   # 100 samples a cell
    python -m benchmarks.calibration coverage power    # some of the tables

Worlds have known chances (tests/calibration_worlds.py), seeds are fixed, and everything measured goes through public
functions, or for many models at once through what `compare` calls. Output is Markdown.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
from scipy import stats
from tests.calibration_worlds import (
    BINARY_POWER,
    Cell,
    binary,
    classes,
    coverage,
    equal_models,
    labels,
    powered,
    tempered,
)

import truecal as tc
from truecal.inference.binned_sample import BinnedSample
from truecal.inference.paired import loss_part

DRAWS = 10  # sets of predictions in a cell of the coverage grid, each with samples/10 sets of outcomes


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    head = list(head)
    print("| " + " | ".join(head) + " |\n|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print()


# -- coverage of the gap ----------------------------------------------------------------------------------------------

SIZES = (300, 2000, 10_000)
GRID: dict[str, Callable[[str, int], Cell]] = {
    "one probability": lambda world, n: Cell("binary", world, n),
    "confidence, 10 classes": lambda world, n: Cell("confidence", world, n, 10),
    "per class, 3 classes": lambda world, n: Cell("classwise", world, n, 3),
    "per class, 10 classes": lambda world, n: Cell("classwise", world, n, 10),
    "lognormal weights": lambda world, n: Cell("binary", world, n, weights="lognormal"),
    "one row in ten weighs 20": lambda world, n: Cell("binary", world, n, weights="one in ten"),
    "clusters of 5": lambda world, n: Cell("binary", world, n, clusters=5),
    "clusters of 20": lambda world, n: Cell("binary", world, n, clusters=20),
    "two-bin rule, 3 classes": lambda world, n: Cell("classwise", world, n, 3, rule=tc.TwoBin()),
    "Poisson rule, 3 classes": lambda world, n: Cell("classwise", world, n, 3, rule=tc.Poisson(0.1)),
}
WORLDS = ("calibrated", "T1.35", "T2", "shift")


def coverage_table(samples: int) -> None:
    print("### Coverage of the 95% interval of the gap\n")
    head = ["", *(f"{world}, n = {n:,}" for world in WORLDS for n in SIZES)]
    rows, shares = [], []
    for name, cell in GRID.items():
        row = [name]
        for world in WORLDS:
            for n in SIZES:
                if "rule" in name and n > 2000:
                    row.append("")
                    continue
                found = coverage(cell(world, n), DRAWS, max(1, samples // DRAWS))
                shares.append(found.share)
                row.append(
                    f"{found.share:.3f}".removeprefix("0") + ("*" if found.withheld > 0.02 * found.trials else "")
                )
        rows.append(row)
    table(head, rows)
    print(
        f"{len(shares)} cells of {samples} samples: {min(shares):.3f} to {max(shares):.3f}, mean {np.mean(shares):.3f}."
    )
    print("(*: withheld in more than 2% of the samples.)\n")


def sharp_table(samples: int) -> None:
    print("### Sharp predictions, nearly all close to 0 and 1\n")
    rows = []
    for kind, k in (("binary", 2), ("confidence", 10), ("classwise", 3)):
        for world in ("calibrated", "T1.35", "T0.75"):
            for n in SIZES:
                found = coverage(Cell(kind, f"sharp {world}", n, k), DRAWS, max(1, samples // DRAWS))
                numbers = (found.share, found.withheld / found.trials, found.wrong / found.trials)
                rows.append([kind, world, f"{n:,}", f"{found.gap:.1f}", *(f"{x:.3f}" for x in numbers)])
    head = ("", "world", "n", "gap in points", "held by the interval", "withheld", "wrong and not withheld")
    table(head, rows)


# -- intervals from blocks of rows -----------------------------------------------------------------------------------


def blocks_table(samples: int) -> None:
    print("### Coverage of 95% intervals of a stream, from 64 blocks of rows: gap, and loss\n")
    rows = []
    for kind, k in (("binary", 2), ("confidence", 10), ("classwise", 10)):
        for n in (2000, 10_000, 50_000):
            row = [kind, f"{n:,}"]
            for world in WORLDS:
                gap, loss, withheld = stream_coverage(kind, world, n, k, DRAWS, max(1, samples // DRAWS))
                row.append(f"{gap:.3f}{'*' if withheld > 0.02 else ''}, {loss:.3f}")
            rows.append(row)
    table(("", "n", *WORLDS), rows)
    print("(*: withheld in more than 2% of the samples.)\n")


def stream_coverage(kind: str, world: str, n: int, k: int, draws: int, each: int) -> tuple[float, float, float]:
    """Shares of intervals that hold the gap² and the loss expected given the predictions, and of those withheld."""
    rng = np.random.default_rng([7, n, k])
    found = []
    for _ in range(draws):
        u, q = predictions(kind, world, n, k, rng)
        empty = tc.stream(kind, n_bins=tc.Quantile("auto").at(n, k if kind == "classwise" else 1).counts[0])
        empty.observe(u)
        empty.freeze()
        gap_sq, loss = expected(kind, u, q, np.array(empty.rule(kind).values))
        for _ in range(each):
            y = (rng.random(n) < q).astype(int) if kind == "binary" else labels(rng, q)
            stream = empty.merge(empty)
            stream.update(y, u)
            result = stream.result()
            gap, lost = result.gaps[kind], result.loss("confidence_loss" if kind == "confidence" else "brier")
            low, high = (np.sign(x) * (x / 100) ** 2 for x in (gap.low, gap.high))
            found.append((low <= gap_sq <= high, lost.low <= loss <= lost.high, bool(gap.note)))
    shares = np.mean(found, axis=0)
    return float(shares[0]), float(shares[1]), float(shares[2])


def stream_loss_table(samples: int) -> None:
    print("### Coverage of 95% intervals of the losses of a stream, one calibrated probability a row\n")
    names = ("classification_error", "cross_entropy", "brier", "spherical")
    rows = []
    for mean, sd in ((0.0, 2.0), (6.0, 2.0), (7.0, 0.5)):
        for n in (700, 2000, 10_000):
            rng = np.random.default_rng([11, n])
            held: dict[str, list[bool]] = {name: [] for name in names}
            misses = []
            for _ in range(samples):
                q = 1 / (1 + np.exp(-(mean + sd * rng.standard_normal(n))))
                y = (rng.random(n) < q).astype(int)
                misses.append(int(np.sum((q > 0.5) != y)))
                stream = tc.stream("binary", n_bins=10, edges="uniform")
                stream.update(y, q)
                result, both = stream.result(), np.column_stack([1 - q, q])
                for name in names:
                    came = [tc.LOSSES[name](np.full(n, label), both, per_example=True) for label in (0, 1)]
                    loss, truth = result.loss(name), float(np.mean((1 - q) * came[0] + q * came[1]))
                    if loss.low is not None and loss.high is not None:
                        held[name].append(loss.low <= truth <= loss.high)
            given = len(held["brier"]) / samples
            shares = [f"{np.mean(found):.3f}" if len(found) >= 20 else "" for found in held.values()]
            rows.append([f"N({mean:g}, {sd:g}²)", f"{n:,}", f"{np.median(misses):.0f}", f"{given:.2f}", *shares])
    table(("logits", "n", "misses", "given", *names), rows)


def expected(kind: str, u: np.ndarray, q: np.ndarray, edges: np.ndarray) -> tuple[float, float]:
    """The gap² of the chances over frozen edges, and the mean loss, both given the predictions."""
    if kind == "confidence":
        top, rows = u.argmax(axis=1), np.arange(len(u))
        c, z = u[rows, top], q[rows, top]
        views, loss = [(z, c)], np.mean(1 + c**2 - 2 * c * z)
    elif kind == "binary":
        views, loss = [(q, u)], 2 * np.mean(u**2 - 2 * u * q + q)
    else:
        views, loss = list(zip(q.T, u.T, strict=True)), np.mean((u**2 - 2 * u * q).sum(axis=1) + 1)
    errors = [
        tc.CalibrationError(tc.properties.Outcomes((0.0, 1.0)), tc.Edges(edges[j : j + 1])) for j in range(len(views))
    ]
    gaps = [error.parts(error.read(*view))[0].gap_sq for error, view in zip(errors, views, strict=True)]
    return float(np.mean(gaps)), float(loss)


# -- loss comparisons -------------------------------------------------------------------------------------------------


def loss_table(samples: int) -> None:
    print("### Equal models called different: the t interval, and the interval used here (nominal .05)\n")
    rows = []
    for models in (2, 5, 20):
        for n in (100, 300, 1000):
            row = [str(models), f"{n:,}"]
            for miss in (0.001, 0.01, 0.05):
                rng = np.random.default_rng([models, n, int(1000 * miss)])
                trials = samples if models < 20 else max(20, samples // 5)
                told = np.array([told_apart(*equal_models(n, models, miss, rng)) for _ in range(trials)])
                row += [f"{x:.3f}" for x in told.mean(axis=0)]
            rows.append(row)
    table(("models", "n", *(f"{what}, {m}" for m in ("0.1% missed", "1%", "5%") for what in ("t", "here"))), rows)


def told_apart(y: np.ndarray, models: list[np.ndarray]) -> tuple[bool, bool]:
    """Whether the model with the smallest loss is called better than another one: by t intervals, and by ours."""
    losses = [tc.brier(y, p, per_example=True) for p in models]
    best = int(np.argmin([loss.mean() for loss in losses]))
    pairs = len(models) * (len(models) - 1) // 2
    full = tc.ERRORS["full"].with_bins(1)
    frozen = [BinnedSample.of(full, full.read(y, p)) for p in models]
    by_t = here = False
    for j in range(len(models)):
        if j == best:
            continue
        difference = losses[j] - losses[best]
        spread = difference.std(ddof=1)
        t = stats.t.isf(0.025 / pairs, len(y) - 1) * spread / np.sqrt(len(y))
        by_t |= bool(abs(difference.mean()) > t)
        here |= loss_part(frozen[j], frozen[best], 0.95, None, comparisons=pairs).beyond_noise  # as compare does
    return by_t, here


# -- the test ---------------------------------------------------------------------------------------------------------


def power_table(samples: int) -> None:
    print("### Share of samples rejected at level .05 (199 draws)\n")
    rows = []
    for name in BINARY_POWER:
        rng = np.random.default_rng(11)
        rows.append(
            [f"one probability, n = 500, {name}", *rejected(lambda rng, n=name: powered(n, 500, rng), rng, samples)]
        )
    for k, t in ((3, 1.35), (10, 1.2), (100, 1.1)):
        rng = np.random.default_rng(21)
        world = f"{k} classes, n = 500, temperature {t}"
        rows.append([world, *rejected(lambda rng, k=k, t=t: tempered(t, 500, k, rng), rng, max(20, samples // 2))])
    table(("world", "U at 15 bins", "several forms"), rows)
    print("### Cost of the test of several forms, in tests of U at 5, 20 and 2000 bins (999 draws)\n")
    table(("n", "one probability", "3 classes", "10 classes", "100 classes"), list(cost_rows()))


def rejected(sample: Callable[..., tuple], rng: np.random.Generator, samples: int) -> list[str]:
    both = np.zeros(2)
    for seed in range(samples):
        y, p = sample(rng)
        one = tc.calibration_test(y, p, n_bins=15, n_resamples=199, seed=seed).pvalue
        both += (one <= 0.05, tc.calibration_test(y, p, n_resamples=199, seed=seed).pvalue <= 0.05)
    return [f"{x:.2f}" for x in both / samples]


def cost_rows() -> Iterable[list[str]]:
    for n in (500, 2000, 10_000):
        row = [f"{n:,}"]
        for k in (2, 3, 10, 100):
            rng = np.random.default_rng(1)
            y, p = tempered(1.0, n, k, rng)
            data = (y, p[:, 1]) if k == 2 else (y, p)
            bins = (5, 20, min(2000, n))
            usual, several = (
                min(timed(partial(tc.calibration_test, *data, **options)) for _ in range(1 if n * k > 10**5 else 3))
                for options in ({"n_bins": bins}, {})
            )
            row.append(f"{several / usual:.2f}")
        yield row


def timed(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


# -- the number of bins -----------------------------------------------------------------------------------------------


def bins_table(samples: int) -> None:
    print('### n_bins="auto" against other numbers of bins: root mean square error of gap², in units of the best\n')
    counts = (3, 5, 10, 15, 30, 60, 120, 250)
    rows = []
    for kind, k, sizes in (("binary", 1, (300, 1000, 5000, 50_000)), ("classwise", 10, (1000, 5000))):
        for n in sizes:
            usable = tuple(m for m in counts if m <= n // 3)
            errors = np.mean([bin_errors(kind, world, n, k, usable, samples) for world in WORLDS[1:]], axis=0)
            automatic = tc.Quantile("auto").at(n, k).counts[0]
            name = "one probability" if kind == "binary" else f"per class, {k} classes"
            cells = [f"{e:.2f}" for e in errors[1:]] + [""] * (len(counts) - len(usable))
            rows.append([name, f"{n:,}", f"{errors[0]:.2f} ({automatic})", *cells])
    table(("", "n", "auto (bins)", *map(str, counts)), rows)


def bin_errors(kind: str, world: str, n: int, k: int, counts: tuple[int, ...], samples: int) -> np.ndarray:
    """Root mean square error of gap² at auto and at each count against the mean squared bias, over the best of all."""
    rng = np.random.default_rng([n, k])
    found = []
    trials = max(10, min(samples, 400_000 // (n * k)))
    truth = np.mean([np.mean(np.square(np.subtract(*predictions(kind, world, 50_000, k, rng)))) for _ in range(2)])
    for _ in range(trials):
        u, q = predictions(kind, world, n, k, rng)
        y = (rng.random(n) < q).astype(int) if kind == "binary" else labels(rng, q)
        gaps = [tc.decompose(y, u, error=kind, n_bins=m).gap for m in ("auto", counts)]
        gap = np.concatenate([np.atleast_1d(g) for g in gaps]) / 100
        found.append(np.sign(gap) * gap**2 - truth)
    rmse = np.sqrt(np.mean(np.square(found), axis=0))
    return rmse / rmse.min()


def predictions(kind: str, world: str, n: int, k: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    return binary(world, n, rng) if kind == "binary" else classes(world, n, k, rng)


TABLES = {
    "coverage": coverage_table,
    "sharp": sharp_table,
    "blocks": blocks_table,
    "stream-losses": stream_loss_table,
    "losses": loss_table,
    "power": power_table,
    "bins": bins_table,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", choices=[*TABLES, []], help="which tables; all unless named")
    parser.add_argument("--samples", type=int, default=100, help="samples in each cell")
    parser.add_argument("--small", action="store_true", help="20 samples in each cell")
    options = parser.parse_args()
    for name in options.tables or TABLES:
        TABLES[name](20 if options.small else options.samples)


if __name__ == "__main__":
    main()
