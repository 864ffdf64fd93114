"""The measuring core against the floor of its own arithmetic and against peers, in one run, as ratios.

    python -m benchmarks.core             # n = 50,000 x k = 1,000 and n = 1,000,000 x k = 10; about 2 GB of memory
    python -m benchmarks.core --small     # a tenth of the classes
    python -m benchmarks.core --growth    # also draw cost against n, k, bins and ties to bench-out/growth.png

Contestants of a row are timed in turns and the least time of each counts, so that a busy machine slows both alike.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

import truecal as tc

Call = Callable[[], object]


def softmax_sample(n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """float32 softmax rows and labels drawn from them."""
    rng = np.random.default_rng(seed)
    p = 2 * rng.standard_normal((n, k), dtype=np.float32)
    np.exp(p, out=p)
    p /= p.sum(axis=1, keepdims=True)
    y = np.empty(n, dtype=np.intp)
    for rows in np.array_split(np.arange(n), 50):
        y[rows] = (p[rows].cumsum(axis=1) < rng.random((len(rows), 1))).sum(axis=1).clip(0, k - 1)
    return y, p


def in_turns(repeats: int, **calls: Call) -> dict[str, float]:
    """Least seconds of each call, timed in turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def peak_bytes(call: Call) -> int:
    """Most memory allocated at one time by a call, beyond what was there before."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def row(what: str, ratio: float, bound: str, seconds: float) -> None:
    print(f"{what:<66} {ratio:>9.2f} {bound:>10} {seconds:>9.3f}", flush=True)


def classwise(n: int, k: int, repeats: int) -> None:
    y, p = softmax_sample(n, k)
    columns = np.ascontiguousarray(p.T)
    times = in_turns(
        repeats,
        floor=lambda: np.sort(columns, axis=1),
        quantile=lambda: tc.classwise_error(y, p),
        uniform=lambda: tc.classwise_error(y, p, strategy="uniform"),
        two_bin=lambda: tc.classwise_error(y, p, strategy="two_bin"),
        many=lambda: tc.classwise_error(y, p, n_bins=range(2, 52)),
    )
    size = f"n={n:,} k={k:,} float32"
    floor, quantile = times["floor"], times["quantile"]
    row(f"classwise quantile / np.sort of ready rows, {size}", quantile / floor, "<= 1.5", quantile)
    row("classwise equal-width / quantile", times["uniform"] / quantile, "<= 0.6", times["uniform"])
    row("classwise two-bin / np.sort", times["two_bin"] / floor, "<= 2.5", times["two_bin"])
    row("50 bin counts / one", times["many"] / quantile, "<= 1.6", times["many"])
    peer = uncertainty_calibration_seconds(y, p)
    row("uncertainty-calibration marginal (20 classes, scaled) / ours", peer / quantile, ">= 100", peer)
    peak = peak_bytes(lambda: tc.classwise_error(y, p))
    row("peak extra memory / input", peak / p.nbytes, "<= 0.25", 0.0)


def uncertainty_calibration_seconds(y: np.ndarray, p: np.ndarray) -> float:
    """Its marginal error on 20 classes, scaled to all of them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import calibration

    some = p[:, :20].astype(np.float64)
    labels = np.where(y < 20, y, 0)
    start = time.perf_counter()
    calibration.lower_bound_scaling_ce(some, labels, p=2, debias=False, num_bins=15, mode="marginal")
    return (time.perf_counter() - start) * p.shape[1] / 20


def confidence(n: int, k: int, repeats: int) -> None:
    import torch
    from torchmetrics.functional.classification import multiclass_calibration_error

    y, p = softmax_sample(n, k)
    rows = np.arange(n)
    preds, target = torch.from_numpy(p), torch.from_numpy(y)
    times = in_turns(
        repeats,
        floor=lambda: p[rows, p.argmax(axis=1)],
        ours=lambda: tc.confidence_error(y, p),
        usual=lambda: tc.confidence_error(y, p, norm="l1", strategy="uniform"),
        torchmetrics=lambda: multiclass_calibration_error(preds, target, k, n_bins=15),
    )
    size = f"n={n:,} k={k} float32"
    row(f"confidence / argmax and one gather, {size}", times["ours"] / times["floor"], "<= 1.3", times["ours"])
    row(
        "torchmetrics (usual ECE) / ours (corrected, quantile)",
        times["torchmetrics"] / times["ours"],
        ">= 1.5",
        times["torchmetrics"],
    )
    row("torchmetrics (usual ECE) / ours (usual ECE)", times["torchmetrics"] / times["usual"], "", times["usual"])


def growth(path: Path) -> None:
    """Cost per report over n, k, number of bins and ties: a straight line means no cliff."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 4, figsize=(16, 3.8), layout="constrained", sharey=True)
    sweeps = {
        "rows n (k = 50)": [(n, 50, 15, 0) for n in (1_000, 3_000, 10_000, 30_000, 100_000)],
        "classes k (n = 5,000)": [(5_000, k, 15, 0) for k in (2, 10, 30, 100, 300, 1000)],
        "bins m (n = 20,000, k = 50)": [(20_000, 50, m, 0) for m in (2, 15, 100, 1_000, 10_000, 100_000)],
        "distinct values (n = 20,000, k = 50)": [(20_000, 50, 15, d) for d in (1, 2, 10, 100, 1_000, 10_000)],
    }
    for ax, (title, cases) in zip(axes, sweeps.items(), strict=True):
        for strategy in ("quantile", "uniform", "two_bin"):
            xs, ys = [], []
            for n, k, m, distinct in cases:
                y, p = softmax_sample(n, k)
                if distinct:
                    p = np.round(p * distinct) / distinct
                    p[:, 0] += 1 - p.sum(axis=1)
                    keep = (p[:, 0] >= 0) & (p[:, 0] <= 1)
                    y, p = y[keep], p[keep]
                if len(y) == 0 or (strategy == "two_bin" and "bins" in title):
                    continue
                options = {} if strategy == "two_bin" else {"n_bins": m}
                call = partial(tc.classwise_error, y, p, strategy=strategy, **options)
                xs.append({"r": n, "c": k, "b": m, "d": distinct}[title[0]])
                ys.append(in_turns(3, call=call)["call"] / p.size * 1e9)
            if xs:
                ax.plot(xs, ys, marker="o", label=strategy)
        ax.set(xscale="log", yscale="log", xlabel=title)
        ax.grid(alpha=0.3)
    axes[0].set_ylabel("nanoseconds per report")
    axes[0].legend()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)
    print(f"growth drawn to {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="a tenth of the classes and rows")
    parser.add_argument("--growth", action="store_true", help="draw cost against size")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(f"{'':<66} {'ratio':>9} {'target':>10} {'seconds':>9}")
    classwise(50_000, 100 if options.small else 1_000, options.repeats)
    confidence(100_000 if options.small else 1_000_000, 10, 2 * options.repeats)
    if options.growth:
        growth(Path("bench-out") / "growth.png")


if __name__ == "__main__":
    main()
