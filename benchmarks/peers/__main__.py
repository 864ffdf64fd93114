"""truecal beside other libraries: python -m benchmarks.peers.

    python -m benchmarks.peers              every size; results and picture go to bench-out/
    python -m benchmarks.peers --small      few rows: does everything run?
    python -m benchmarks.peers --write      every size; also the tables of benchmarks/README.md and the
                                            picture of docs/, from this run
    python -m benchmarks.peers --page       tables and picture once more, from the stored run

Every contestant at every size is a process of its own; one line is printed for each when it is done.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from truecal.io import write_atomic

from . import page, picture
from .contestants import TASKS
from .measuring import Cell
from .running import FULL, ROOT, SMALL, Plan, about_the_run, run

BUDGET = 60.0
PICTURE = ROOT / "docs" / "peers.png"
OUT = Path("bench-out")


def printed(plan: Plan, budget: float) -> list[Cell]:
    """All cells of a run, each printed when it is there."""
    cells: list[Cell] = []
    for cell in run(plan, budget):
        if cell["contestant"] == next(iter(TASKS[cell["task"]].contestants)):
            first = cell
        cells.append(cell)
        print(page.line(cell, first), flush=True)
    return cells


def measure(plan: Plan, budget: float) -> dict[str, Any]:
    began = time.monotonic()
    results = about_the_run(budget) | {"cells": printed(plan, budget)}
    return results | {"minutes": round((time.monotonic() - began) / 60, 1)}


def show(results: dict[str, Any], plan: Plan) -> None:
    """The tables on the screen, results and picture in bench-out."""
    print("\n" + page.details(results, plan), flush=True)
    OUT.mkdir(exist_ok=True)
    write_atomic(OUT / "peers.json", json.dumps(results, indent=1) + "\n")
    picture.draw(results, plan, OUT / "peers.png")
    print(f"\n{results['minutes']} minutes; results in {OUT / 'peers.json'}, drawn in {OUT / 'peers.png'}", flush=True)


def write(results: dict[str, Any]) -> None:
    page.write(results)
    picture.draw(results, FULL, PICTURE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--small", action="store_true", help="few rows")
    size.add_argument("--write", action="store_true", help="keep the results: benchmarks/README and picture")
    size.add_argument("--page", action="store_true", help="tables and picture from the stored results, measure nothing")
    parser.add_argument("--budget", type=float, default=BUDGET, help="seconds after which a first call is cut off")
    options = parser.parse_args()
    if options.page:
        write(page.stored())
        return
    plan = SMALL if options.small else FULL
    results = measure(plan, options.budget)
    show(results, plan)
    if options.write:
        write_atomic(page.RESULTS, json.dumps(results, indent=1) + "\n")
        write(results)


if __name__ == "__main__":
    main()
