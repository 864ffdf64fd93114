"""What evaluate and compare cost as data grow: seconds, and peak memory beside that of the arrays handed in.

python -m benchmarks.sizes            # every size, one process each, a line per size
python -m benchmarks.sizes binary-1e6 # some of them
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

BLOCK = 1 << 18  # data are made in blocks, so that their making does not set the peak
Data = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def _binary(n: int) -> Data:
    rng = np.random.default_rng(0)
    p, y = rng.random(n), np.empty(n, dtype=np.int64)
    for start in range(0, n, BLOCK):
        rows = slice(start, min(n, start + BLOCK))
        y[rows] = rng.random(rows.stop - start) < p[rows] ** 1.2
    return y, p


def _single(n: int) -> Data:
    y, p = _binary(n)
    return y, p.astype(np.float32)


def _classes(n: int, k: int) -> Data:
    """Peaked float32 distributions."""
    rng = np.random.default_rng(0)
    proba, y = np.empty((n, k), dtype=np.float32), rng.integers(0, k, n)
    step = max(1, BLOCK // k)
    for start in range(0, n, step):
        block = rng.standard_exponential((min(step, n - start), k), dtype=np.float32) ** 4
        proba[start : start + step] = block / block.sum(axis=1, keepdims=True)
    y[::2] = proba.argmax(axis=1)[::2]
    return y, proba


SIZES: dict[str, Callable[[], Data]] = {
    "binary-1e5": lambda: _binary(100_000),
    "binary-1e6": lambda: _binary(1_000_000),
    "binary-8e6": lambda: _binary(8_000_000),
    "float32-8e6": lambda: _single(8_000_000),
    "binary-2e7": lambda: _binary(20_000_000),
    "compare-2e6": lambda: _binary(2_000_000),
    "compare-8e6": lambda: _binary(8_000_000),
    "1e6x10": lambda: _classes(1_000_000, 10),
    "50x10000": lambda: _classes(50, 10_000),
    "2000x20000": lambda: _classes(2_000, 20_000),
    "50000x1000": lambda: _classes(50_000, 1_000),
}


def _peak() -> float:
    """The most memory this process has held, in MB (ru_maxrss is in kilobytes, on macOS in bytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)


def _measure(name: str) -> None:
    import truecal as tc

    tc.evaluate(*_binary(1000))  # libraries are loaded before the clock starts
    y, proba = SIZES[name]()
    models = {"a": proba}
    if name.startswith("compare"):
        models["b"] = np.square(proba)
    arrays = (y.nbytes + sum(p.nbytes for p in models.values())) / 1e6
    before, begun = _peak(), time.perf_counter()
    if len(models) > 1:
        tc.compare(y, models)
    else:
        tc.evaluate(y, proba)
    seconds, more = time.perf_counter() - begun, _peak() - before
    print(f"{name:>12}: {seconds:6.1f} s, arrays {arrays:6.0f} MB, peak {more:+6.0f} MB ({1 + more / arrays:.1f}x)")


def main(names: list[str]) -> None:
    """Each size in a process of its own, so that no peak hides behind another."""
    if len(names) == 1:
        _measure(names[0])
        return
    for name in names or SIZES:
        subprocess.run([sys.executable, "-m", "benchmarks.sizes", name], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
