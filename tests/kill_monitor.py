"""`truecal monitor` killed at random times and continued: the evidence is that of runs that nobody killed.

Every day one file is new and one has grown. A run over both is killed by SIGKILL, at any time of its life, as it
writes its state or just after, and then repeated to its end. `python -m tests.kill_monitor --kills 60 --seed 7` kills
as often as wanted; the tests kill a few times.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

ROWS = 200
"""New rows in each of the two files per day."""
LONGEST = 300.0
"""Seconds that no run takes."""
COMMAND = (sys.executable, "-W", "ignore", "-c", "from truecal.cli import main; main()", "monitor")


def write_days(folder: Path, days: int, rng: np.random.Generator) -> None:
    """The content of every day: one file each, and one that grows; slightly over-confident predictions."""
    z = rng.normal(0, 1.5, 2 * ROWS * days)
    y = (rng.random(len(z)) < 1 / (1 + np.exp(-z))).astype(int)
    p = 1 / (1 + np.exp(-1.15 * z))
    lines = [f"{label},{chance:.6f}\n" for label, chance in zip(y, p, strict=True)]
    half = len(lines) // 2
    for day in range(days):
        (folder / f"day{day:03}.csv").write_text("label,prob\n" + "".join(lines[day * ROWS : (day + 1) * ROWS]))
        (folder / f"log{day:03}.csv").write_text("label,prob\n" + "".join(lines[half : half + (day + 1) * ROWS]))


def run_days(
    data: Path, work: Path, days: int, rng: np.random.Generator | None
) -> tuple[list[dict[str, object]], Counter[str]]:
    """What the monitor reports after every day, and where the kills hit; without `rng` nothing is killed."""
    hits: Counter[str] = Counter()
    reports = []
    longest = 1.0
    for day in range(days):
        (work / "log.csv").write_bytes((data / f"log{day:03}.csv").read_bytes())
        files = (str(data / f"day{day:03}.csv"), str(work / "log.csv"))
        call = (*COMMAND, *files, "--state", str(work / "state.npz"), "--json", str(work / "now.json"))
        while rng is not None:
            hit = _killed(call, work, rng, longest)
            hits[hit] += 1
            if hit != "finished":
                break
        start = time.monotonic()
        ended = subprocess.run(call, capture_output=True, text=True, timeout=LONGEST)
        longest = max(longest, time.monotonic() - start) if day else time.monotonic() - start
        if ended.returncode not in (0, 3):
            raise RuntimeError(f"day {day}: exit code {ended.returncode}: {ended.stdout}{ended.stderr}")
        reports.append(json.loads((work / "now.json").read_text()))
    return reports, hits


def _killed(call: tuple[str, ...], work: Path, rng: np.random.Generator, longest: float) -> str:
    """Start a run and kill it: by the clock, as it writes its state or as it has written it; where it was hit."""
    state = work / "state.npz"
    before, stamp = _content(state), _stamp(state)
    aim = rng.choice(["clock", "writes", "written"])
    started = subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if aim == "clock":
            time.sleep(rng.uniform(0, longest))
        else:
            known = _hidden(work)
            while started.poll() is None and _stamp(state) == stamp:
                if aim == "writes" and any(_stamp(path)[1] for path in _hidden(work) - known):
                    break
                time.sleep(0.0001)
            time.sleep(rng.choice([0, 0, 0.001, 0.003]))
    finally:
        started.kill()
        started.wait()
    if started.returncode >= 0:
        return "finished"
    if _content(state) != before:
        return "after its state was written"
    return "while it wrote" if _hidden(work) else "before it wrote"


def _stamp(path: Path) -> tuple[int, int]:
    """When a file was changed, and how large it is; zeros where there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def _hidden(work: Path) -> set[Path]:
    """Temporary files, which are beside the file that they become."""
    return {path for path in work.iterdir() if path.name.startswith(".") and not path.name.endswith(".lock")}


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def main(given: list[str] | None = None) -> int:
    """Exit code 0 when every day ended as it does without kills."""
    parser = argparse.ArgumentParser(prog="python -m tests.kill_monitor", description="Kills of truecal monitor.")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(given)
    rng = np.random.default_rng(asked.seed)
    with tempfile.TemporaryDirectory() as name:
        data, calm, killed = (Path(name) / part for part in ("data", "calm", "killed"))
        for folder in (data, calm, killed):
            folder.mkdir()
        write_days(data, asked.kills, rng)
        expected, _ = run_days(data, calm, asked.kills, None)
        found, hits = run_days(data, killed, asked.kills, rng)
    finished = hits.pop("finished", 0)
    said = ", ".join(f"{number} {where}" for where, number in sorted(hits.items()))
    print(f"{hits.total()} kills: {said}; {finished} runs had finished and were started again")
    different = [day for day in range(asked.kills) if _evidence(expected[day]) != _evidence(found[day])]
    print(f"final: {_evidence(expected[-1])} without kills, {_evidence(found[-1])} with")
    print(f"{asked.kills} days, {len(different)} with other evidence{f': {different}' if different else ''}")
    return 1 if different or hits.total() != asked.kills else 0


def _evidence(report: dict[str, object]) -> tuple[object, ...]:
    return report["n_samples"], report["evalue"], report["since"]


if __name__ == "__main__":
    sys.exit(main())
