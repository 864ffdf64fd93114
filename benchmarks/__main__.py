"""All benchmarks, one after the other: python -m benchmarks [--small]."""

from __future__ import annotations

import runpy
import sys

COSTS = ("waiting", "peers", "core", "inference", "recalibration", "maps", "scale", "cluster", "sql", "segmentation")
RATES = ("calibration", "monitor", "kinds", "language")
"""Simulations, here with few samples: their pages name the commands that make their tables, which take longer."""

if __name__ == "__main__":
    given = sys.argv[1:]
    for name in (*COSTS, *RATES):
        print(f"\n== {name} " + "=" * (70 - len(name)), flush=True)
        sys.argv[1:] = ["--small"] if name in RATES else given
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
        sys.stdout.flush()
