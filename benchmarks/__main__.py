"""All benchmarks, one after the other: python -m benchmarks [--small]."""

from __future__ import annotations

import runpy
import sys

SCRIPTS = ("peers", "core", "inference", "calibration", "monitor", "recalibration", "scale", "cluster")

if __name__ == "__main__":
    for name in SCRIPTS:
        print(f"\n== {name} " + "=" * (70 - len(name)), flush=True)
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=True)
        sys.stdout.flush()
