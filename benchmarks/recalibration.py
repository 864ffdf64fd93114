"""Temperature scaling beside scikit-learn's and torch's L-BFGS, and beside one softmax, in one run, as ratios.

    python benchmarks/recalibration.py            # all sizes, about 2 GB of memory
    python benchmarks/recalibration.py --small    # without n = 50,000, k = 1,000

Every row solves the same problem to its optimum; "excess" is the cross-entropy above the best one found in the row's
size. "softmax" is one in-place float64 softmax over the same array: the unit of cost.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import sklearn.calibration
import torch

from truecal.recalibration import TemperatureScaling

SIZES = ((2_000, 10), (10_000, 100), (50_000, 1_000))


def draw(n: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Logits three times too wide, labels from their softmax at temperature 1.7."""
    rng = np.random.default_rng(0)
    z = 3 * rng.normal(size=(n, k))
    y = np.concatenate([(part / 1.7 + rng.gumbel(size=part.shape)).argmax(1) for part in np.array_split(z, 20)])
    return z, y


def softmax_in_place(z: np.ndarray) -> None:
    z -= z.max(axis=1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(axis=1, keepdims=True)


def by_truecal(z: np.ndarray, y: np.ndarray) -> float:
    return TemperatureScaling().fit(z, y).temperature_


def by_scikit_learn(z: np.ndarray, y: np.ndarray) -> float:
    return 1 / float(sklearn.calibration._TemperatureScaling().fit(z, y).beta_)


def by_torch(z: np.ndarray, y: np.ndarray) -> float:
    logits, labels = torch.from_numpy(z), torch.from_numpy(y)
    b = torch.ones((), dtype=torch.float64, requires_grad=True)
    solver = torch.optim.LBFGS([b], max_iter=50, tolerance_grad=1e-7, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        solver.zero_grad()
        loss = torch.nn.functional.cross_entropy(logits * b, labels)
        loss.backward()
        return loss

    solver.step(closure)
    return 1 / b.item()


def methods() -> dict[str, Callable[[np.ndarray, np.ndarray], float]]:
    """The peers at hand; scikit-learn's estimator is private to it, and says so where a version lacks it."""
    found = {"truecal": by_truecal, "scikit-learn": by_scikit_learn, "torch L-BFGS": by_torch}
    if not hasattr(sklearn.calibration, "_TemperatureScaling"):
        del found["scikit-learn"]
        print(f"scikit-learn left out: version {sklearn.__version__} has no sklearn.calibration._TemperatureScaling")
    return found


def cross_entropy(z: np.ndarray, y: np.ndarray, temperature: float) -> float:
    total = 0.0
    for rows in np.array_split(np.arange(len(y)), max(1, z.size // 1_000_000)):
        gaps = (z[rows] - z[rows].max(axis=1, keepdims=True)) / temperature
        total += float((np.log(np.exp(gaps).sum(axis=1)) - gaps[np.arange(len(rows)), y[rows]]).sum())
    return total / len(y)


def best_of(repeats: int, run: Callable[[], float]) -> tuple[float, float]:
    """The least time of several runs, and the answer."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        answer = run()
        times.append(time.perf_counter() - start)
    return min(times), answer


def softmax_time(z: np.ndarray, repeats: int) -> float:
    times = []
    for _ in range(repeats):
        copy = z.copy()
        start = time.perf_counter()
        softmax_in_place(copy)
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="leave out the largest size")
    sizes = SIZES[:-1] if parser.parse_args().small else SIZES
    peers = methods()
    print(f"{'n':>7} {'k':>5}  {'method':<13} {'seconds':>8} {'x truecal':>9} {'x softmax':>9} {'T':>10} {'excess':>8}")
    for n, k in sizes:
        z, y = draw(n, k)
        unit = softmax_time(z, 5)
        few = 2 if n * k > 10**7 else 5
        repeats = {"truecal": 5, "scikit-learn": few, "torch L-BFGS": few}
        found = {name: best_of(repeats[name], partial(method, z, y)) for name, method in peers.items()}
        losses = {name: cross_entropy(z, y, t) for name, (_, t) in found.items()}
        print(f"{n:>7} {k:>5}  {'softmax':<13} {unit:>8.4f} {unit / found['truecal'][0]:>9.2f} {1:>9.2f}")
        for name, (seconds, t) in found.items():
            ratio = seconds / found["truecal"][0]
            excess = losses[name] - min(losses.values())
            print(
                f"{'':>13}  {name:<13} {seconds:>8.4f} {ratio:>9.2f} {seconds / unit:>9.2f} {t:>10.7f} {excess:>8.1e}"
            )


if __name__ == "__main__":
    main()
