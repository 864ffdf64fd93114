"""Python calls of one warm call of the public functions: how many, of what, and across which packages.

python -m benchmarks.calls               # evaluate and compare of 1,000 rows x 3 classes
python -m benchmarks.calls evaluate      # one of them
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

import truecal as tc

LISTED = 40


class Calls:
    """Counts of a call: functions of truecal that are entered, by name, and entries from one package into another."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.elsewhere = 0
        self.functions: Counter[str] = Counter()
        self.changes: Counter[tuple[str, str]] = Counter()
        threading.setprofile(self._enter)
        sys.setprofile(self._enter)
        try:
            call()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _enter(self, frame: FrameType, event: str, _: Any) -> None:
        package = _package(frame)
        if event != "call" or not package:
            self.elsewhere += event == "call"
            return
        self.functions[f"{frame.f_globals['__name__']}:{frame.f_code.co_firstlineno} {frame.f_code.co_qualname}"] += 1
        caller = frame.f_back
        while caller is not None and not _package(caller):
            caller = caller.f_back
        if caller is not None and _package(caller) != package:
            self.changes[_package(caller), package] += 1


def _package(frame: FrameType) -> str:
    """The package of truecal of a frame, empty where it belongs to none."""
    name = str(frame.f_globals.get("__name__", ""))
    return name.split(".")[1] if name.startswith("truecal.") else ""


def sample(n: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels and the probabilities of two models."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(k), n), rng.dirichlet(np.ones(k), n)
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1), p, (p + q) / 2


def count(name: str) -> Calls:
    """The calls of a warm evaluation, or of a warm comparison of two models."""
    y, p, q = sample(1000, 3)
    measured: dict[str, Callable[[], object]] = {
        "evaluate": lambda: tc.evaluate(y, p),
        "compare": lambda: tc.compare(y, {"a": p, "b": q}),
    }
    measured[name]()
    return Calls(measured[name])


def main() -> None:
    for name in sys.argv[1:] or ("evaluate", "compare"):
        found = count(name)
        calls, changes = found.functions.total(), found.changes.total()
        print(f"{name}: {calls:,} calls, {changes:,} changes of package; {found.elsewhere:,} calls in other libraries")
        for function, times in found.functions.most_common(LISTED):
            print(f"{times:>8,}  {function}")
        for (before, after), times in found.changes.most_common(12):
            print(f"{times:>8,}  {before} -> {after}")


if __name__ == "__main__":
    main()
