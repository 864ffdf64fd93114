"""Every contestant at every size, each in a process of its own, within a budget: the results as plain JSON types."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from .data import BATCH, save
from .measuring import CALLS, ENOUGH, MEMORY, Cell

ROOT = Path(__file__).resolve().parents[2]
TASKS_MODULE = "benchmarks.peers.contestants"
OURS = ("truecal", "numpy", "scipy", "numba", "torch", "dask")
PEERS = ("torchmetrics", "netcal", "uncertainty-calibration", "relplot")


class Size(NamedTuple):
    """How many rows, classes and bins."""

    rows: int
    classes: int
    bins: int


class Plan(NamedTuple):
    """The sizes of a run: for each of rows, classes and bins how it grows while the others stay."""

    sweeps: Mapping[str, tuple[Size, ...]]

    def sizes(self, grows: tuple[str, ...]) -> list[Size]:
        """Every size once, small ones first."""
        every = {size for name in grows for size in self.sweeps[name]}
        return sorted(every, key=lambda size: (size.rows * size.classes, size))


def _plan(rows: tuple[int, ...], classes: tuple[int, ...], bins: tuple[int, ...], fixed: int) -> Plan:
    return Plan(
        {
            "rows": tuple(Size(n, 10, 20) for n in rows),
            "classes": tuple(Size(fixed, k, 20) for k in classes),
            "bins": tuple(Size(fixed, 10, m) for m in bins),
        }
    )


FULL = _plan((10**4, 10**5, 10**6, 10**7), (2, 10, 100, 1000), (5, 20, 200, 2000), fixed=50_000)
SMALL = _plan((10**3, 10**4, 10**5), (2, 10, 50), (5, 20, 200), fixed=10_000)


class Contestants:
    """Processes that answer requests, one for each contestant, started when it is first asked."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Contestants:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            with process:  # closes its input, which ends it, and waits
                pass

    def ask(self, contestant: str, task: str, folder: Path, bins: int, budget: float) -> Cell:
        """One cell: what it costs, that it ran over the budget, or why there is nothing."""
        process = self._processes.get(contestant) or self._start(contestant)
        assert process.stdin and process.stdout
        process.stdin.write(json.dumps([task, str(folder), bins, budget]) + "\n")
        process.stdin.flush()
        said = process.stdout.readline()
        if not said:
            raise RuntimeError(f"the process of {contestant} ended with {process.wait()}")
        found: Cell = json.loads(said)
        return found

    def _start(self, contestant: str) -> subprocess.Popen[str]:
        process = self._processes[contestant] = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.peers.measuring", self._module, contestant],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return process


def run(plan: Plan, budget: float, module: str = TASKS_MODULE) -> Iterator[Cell]:
    """All cells; contestants at one size take turns, and whoever was cut off is not tried at a larger one."""
    tasks = importlib.import_module(module).TASKS
    wanted = sorted(((size, name) for name, task in tasks.items() for size in plan.sizes(task.grows)), key=_effort)
    beyond: dict[tuple[str, str], list[Size]] = {}
    with Contestants(module) as contestants:
        for (rows, classes), group in groupby(wanted, key=lambda pair: pair[0][:2]):
            with tempfile.TemporaryDirectory() as folder:
                save(Path(folder), rows, classes)
                for size, task in group:
                    for name in tasks[task].contestants:
                        about: Cell = {"task": task, "contestant": name, **size._asdict()}
                        stops = beyond.setdefault((task, name), [])
                        if any(all(a >= b for a, b in zip(size, stop, strict=True)) for stop in stops):
                            yield about | {"over": budget, "tried": False}
                            continue
                        found = contestants.ask(name, task, Path(folder), size.bins, budget)
                        if "over" in found:
                            stops.append(size)
                        yield about | found


def _effort(wanted: tuple[Size, str]) -> tuple[int, Size]:
    """Small sizes first."""
    return wanted[0].rows * wanted[0].classes, wanted[0]


def about_the_run(budget: float) -> dict[str, Any]:
    """What a reader needs to know of where and how it was measured."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "python": sys.version.split()[0],
        "cores": os.cpu_count(),
        "versions": {name: _version(name) for name in (*OURS, *PEERS)},
        "budget": budget,
        "calls": CALLS,
        "enough": ENOUGH,
        "batch": BATCH,
        "memory_limit_gb": MEMORY >> 30,
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
