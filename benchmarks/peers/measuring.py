"""What a contestant costs at one size, measured in a process of its own.

    python -m benchmarks.peers.measuring MODULE CONTESTANT

imports what the contestant needs, reads requests (task, folder of the data, bins, budget) as lines of JSON, and answers
each from a new process, forked for it, which loads the data and measures a few rows, then all of them, to warm up: what
a library loads for large data only does not count, unless the first call takes so long that it has to. Memory is what
that process and its children hold at most during a call, beyond what they held before it; where the system does not say
(it is Linux's /proc that does) it is null. A first call longer than the budget ends the process by the signal of its
alarm.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from .data import load

CALLS = 5
"""The fastest of so many calls counts,"""
ENOUGH = 3.0
"""or of as many as begin within so many seconds."""
LONG = 10.0
"""A first call of more seconds than this is the only one."""
WARM_UP_ROWS = 5000
START_UP = 180
"""Seconds that data, warm-up and a cluster's start may take beside the budget."""
MEMORY = 8 << 30
"""More bytes than this are refused to a process, which then says so and does not take the machine down."""

Cell = dict[str, Any]
Prepare = Callable[[Any], Callable[[], float]]


# -- what the system says of this process and its children -------------------------------------------------------------


def _processes() -> list[int]:
    """This process and all that descend from it."""
    found, parents = [os.getpid()], {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # a process may end in the meantime
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _megabytes(pid: int, what: str) -> float:
    """VmRSS is held now, VmHWM was held at most."""
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(lines[what].split()[0]) / 1024


def _cpu_seconds(pids: list[int]) -> float:
    """Processor time of all threads of this process, and of its children (whose clocks have coarse ticks)."""
    ticks = 0
    for pid in pids[1:]:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _release() -> None:
    """Hand back what was freed: memory that a call finds in the process already would not be seen."""
    gc.collect()
    with suppress(AttributeError):  # a call of glibc
        ctypes.CDLL(None).malloc_trim(0)


def with_peak(call: Callable[[], Any]) -> tuple[Any, float | None]:
    """What a call returns, and the most memory in MB that it held beyond what was held before."""
    _release()
    if not Path("/proc/self/clear_refs").exists():
        return call(), None
    pids = _processes()
    before = {pid: _megabytes(pid, "VmRSS") for pid in pids}
    for pid in pids:
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak so far is forgotten
    result = call()
    return result, sum(max(0.0, _megabytes(pid, "VmHWM") - before[pid]) for pid in pids)


# -- one cell ----------------------------------------------------------------------------------------------------------


def timed(call: Callable[[], float]) -> tuple[float, float, float]:
    """The value, wall-clock seconds and processor seconds of one call."""
    pids = _processes()
    cpu, began = _cpu_seconds(pids), time.perf_counter()
    value = call()
    seconds = time.perf_counter() - began
    return value, seconds, _cpu_seconds(pids) - cpu


def measure(prepare: Prepare, folder: Path, bins: int, budget: float) -> Cell:
    """The fastest of several calls, the memory of the first that counts, and the value."""
    signal.signal(signal.SIGALRM, _not_ready)
    signal.setitimer(signal.ITIMER_REAL, START_UP)
    data = load(folder, bins)
    prepare(data.head(WARM_UP_ROWS))()
    call = prepare(data)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # from here on it ends the process
    signal.setitimer(signal.ITIMER_REAL, budget)
    found, peak = with_peak(lambda: timed(call))
    signal.setitimer(signal.ITIMER_REAL, 0)
    if found[1] <= LONG:
        found, peak = with_peak(lambda: timed(call))
    calls = [found]
    while len(calls) < CALLS and sum(seconds for _, seconds, _ in calls) < ENOUGH:
        calls.append(timed(call))
    values, *each = zip(*calls, strict=True)
    seconds, cpu = map(min, each)
    return {"value": values[0], "seconds": seconds, "cpu_seconds": cpu, "peak_mb": peak, "calls": len(calls)}


def _not_ready(*_: Any) -> None:
    raise TimeoutError(f"not ready after {START_UP} seconds")


def _problem(found: Exception) -> Cell:
    said = " ".join(str(found).split())[:300]
    return {"problem": f"{type(found).__name__}: {said}" if said else type(found).__name__}


# -- requests and answers ----------------------------------------------------------------------------------------------


def answer(prepare: Prepare, folder: str, bins: int, budget: float, to: int) -> None:
    """Measure in this process, and write what came."""
    os.setsid()  # a session of its own: whoever it starts can be ended with it
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    try:
        found = measure(prepare, Path(folder), bins, budget)
    except Exception as problem:  # a peer that cannot do a size is named with its message
        found = _problem(problem)
    signal.setitimer(signal.ITIMER_REAL, 0)
    with open(to, "w") as pipe:
        json.dump(found, pipe)


def ended(pid: int, budget: float) -> Cell:
    """Why a process had nothing to say."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code == -signal.SIGALRM:
        return {"over": budget, "tried": True}
    return {"problem": f"ended by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"}


def main(module: str, contestant: str) -> None:
    warnings.simplefilter("ignore")
    tasks, missing = importlib.import_module(module), None
    try:
        for name in tasks.IMPORTS.get(contestant, ()):
            importlib.import_module(name)
    except ImportError as problem:
        missing = _problem(problem)
    for request in sys.stdin:
        task, folder, bins, budget = json.loads(request)
        if missing is not None:
            print(json.dumps(missing), flush=True)
            continue
        hear, say = os.pipe()
        pid = os.fork()
        if pid == 0:
            answer(tasks.TASKS[task].contestants[contestant], folder, bins, budget, say)
            return
        os.close(say)
        with open(hear) as pipe:
            said = pipe.read()
        found = json.loads(said) if said else None
        reason = ended(pid, budget)
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # a cluster's workers, where it did not end them
        print(json.dumps(found or reason), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
