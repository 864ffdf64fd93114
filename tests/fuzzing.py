"""What the fuzzers share: numbered cases, where a failure happened, and their command line."""

from __future__ import annotations

import argparse
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

Run = Callable[[int, range], Iterator[tuple[int, str]]]


def failure(what: str, error: Exception) -> str:
    """One line about a case that failed, with the last place inside truecal."""
    frames = reversed(traceback.extract_tb(error.__traceback__))
    place = next((f"{Path(f.filename).name}:{f.lineno}" for f in frames if "truecal" in f.filename), "")
    return f"{what}: {type(error).__name__} {place}: {str(error)[:300]}"


def main(name: str, description: str, cases: int, unit: str, run: Run, given: list[str] | None) -> int:
    """Run the cases asked for and print those that fail, each with the options that repeat it; 1 if any did."""
    parser = argparse.ArgumentParser(prog=f"python -m tests.{name}", description=description)
    parser.add_argument("--cases", type=int, default=cases)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    asked = parser.parse_args(given)
    failed = 0
    for number, what in run(asked.seed, range(asked.first, asked.first + asked.cases)):
        failed += 1
        print(f"--seed {asked.seed} --first {number} --cases 1: {what}", flush=True)
    print(f"{asked.cases} {unit}, {failed} failed")
    return 1 if failed else 0
