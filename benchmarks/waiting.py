"""What people wait for, beside a floor or a peer that does the least of it in the same run.

    python -m benchmarks.waiting                # ten minutes on two cores, 2 GB of disk
    python -m benchmarks.waiting --small        # few rows, to check that everything runs
    python -m benchmarks.waiting evaluate csv   # some of the lines, by a part of their names

Seconds and processor seconds of all threads and processes, the least of two runs. Calls in Python are measured after
a first one, which loads compiled code; the command line, polars, DuckDB and pyarrow in processes of their own, with
their start.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .sql import NAMES

STEP = 1 << 18
Cost = tuple[float, float]
POLARS = """
import polars as pl
from benchmarks.sql import polars_ece
polars_ece(pl.scan_parquet({path!r}).rename({{"label": "y"}})).collect(engine="streaming")"""
DUCKDB = """
import duckdb
from benchmarks.sql import duckdb_ece
duckdb.sql("CREATE VIEW predictions AS SELECT *, label AS y FROM read_parquet('{path}')")
duckdb.sql(duckdb_ece()).fetchall()"""
SCAN = """
import pyarrow.dataset
for batch in pyarrow.dataset.dataset({path!r}).to_batches(): pass"""
CSV = """
import pyarrow.csv
pyarrow.csv.read_csv({path!r})"""


def predictions(n: int, k: int, seed: int = 0) -> tuple[Any, Any]:
    """Labels and somewhat over-confident float32 probabilities."""
    rng = np.random.default_rng(seed)
    p, y = np.empty((n, k), dtype=np.float32), np.empty(n, dtype=np.int32)
    for start in range(0, n, STEP):
        z = 2 * rng.standard_normal((min(STEP, n - start), k), dtype=np.float32)
        true, told = (np.exp(each) / np.exp(each).sum(axis=1, keepdims=True) for each in (z, 1.2 * z))
        came = (true.cumsum(axis=1) < rng.random((len(z), 1), dtype=np.float32)).sum(axis=1)
        p[start : start + STEP], y[start : start + STEP] = told, came.clip(max=k - 1)
    return y, p


def write(path: Path, n: int, k: int) -> str:
    """A table of a label and probabilities, in parquet or csv."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    names = NAMES if k == len(NAMES) else [f"p{j}" for j in range(k)]
    writer: Any = None
    step = max(1, STEP * 10 // k)
    for i, start in enumerate(range(0, n, step)):
        y, p = predictions(min(step, n - start), k, i)
        table = pa.table({"label": y, **{name: np.ascontiguousarray(p[:, j]) for j, name in enumerate(names)}})
        if writer is None:
            kind = csv.CSVWriter if path.suffix == ".csv" else parquet.ParquetWriter
            writer = kind(path, table.schema)
        writer.write_table(table)
    writer.close()
    return str(path)


def call(task: Callable[[], Any]) -> Cost:
    """The cost of a call in this process, after a first one."""
    task()
    return min(_once(task) for _ in range(2))


def _once(task: Callable[[], Any]) -> Cost:
    began, used = time.perf_counter(), time.process_time()
    task()
    return time.perf_counter() - began, time.process_time() - used


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def process(*arguments: str) -> Cost:
    """The cost of Python with these arguments."""

    def once() -> Cost:
        began, used = time.perf_counter(), _children()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began, _children() - used

    return min(once() for _ in range(2))


def cli(*arguments: str) -> Cost:
    """The cost of the command line."""
    return process("-m", "truecal", *arguments)


def in_memory(small: bool) -> Iterator[tuple[str, Callable[[], dict[str, Cost]]]]:
    """evaluate and calibration_test of arrays."""
    import truecal as tc

    def to_device_of(task: Callable[[Any, Any], Any], n: int, k: int) -> dict[str, Cost]:
        y, p = predictions(n, k)
        floors: dict[str, Callable[[], Any]] = {"np.sort": lambda: np.sort(p, axis=0), "reading": p.sum}
        return {"truecal": call(lambda: task(y, p))} | {name: call(floor) for name, floor in floors.items()}

    for n, k in ((10_000, 10), (1_000_000, 10), (50_000, 1000)):
        n = n // 100 if small else n
        yield f"tc.evaluate, {n:,} x {k:,}", lambda n=n, k=k: to_device_of(tc.evaluate, n, k)
    n = 10_000 if small else 1_000_000
    yield f"tc.calibration_test, {n:,} x 10", lambda: to_device_of(tc.calibration_test, n, 10)


def files(folder: Path, small: bool) -> Iterator[tuple[str, Callable[[], dict[str, Cost]]]]:
    """The command line on tables larger than memory, and on csv."""
    n, wide, rows = (20_000, 1000, 5000) if small else (20_000_000, 1_000_000, 5_000_000)
    table, matrix, text = folder / "long.parquet", folder / "wide.parquet", folder / "long.csv"

    def path_of(path: Path, n: int, k: int) -> str:
        return str(path) if path.exists() else write(path, n, k)

    def ece() -> dict[str, Cost]:
        path = path_of(table, n, 10)
        peers = {"polars": POLARS, "DuckDB": DUCKDB, "dataset scan": SCAN}
        mine = cli("evaluate", path, "--errors", "confidence_l1", "--one-pass")
        return {"truecal": mine} | {name: process("-c", code.format(path=path)) for name, code in peers.items()}

    def defaults() -> dict[str, Cost]:
        path = path_of(table, n, 10)
        memory, workers = ("--memory", "1MB"), ("--workers", "2")
        return {
            "truecal": cli("evaluate", path, *memory),
            "--workers 2": cli("evaluate", path, *workers),
            "dataset scan": process("-c", SCAN.format(path=path)),
        }

    def classes() -> dict[str, Cost]:
        path = path_of(matrix, wide, 1000)
        return {
            "truecal": cli("evaluate", path, "--memory", "1MB"),
            "one pass": cli("evaluate", path, "--one-pass"),
            "dataset scan": process("-c", SCAN.format(path=path)),
        }

    def comma() -> dict[str, Cost]:
        path = path_of(text, rows, 10)
        return {"truecal": cli("evaluate", path), "pyarrow's read": process("-c", CSV.format(path=path))}

    yield f"parquet, {n:,} x 10, ECE only, one pass", ece
    yield f"parquet, {n:,} x 10, defaults", defaults
    yield f"parquet, {wide:,} x 1,000, two passes", classes
    yield f"csv, {rows:,} x 10", comma


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="lines to measure, by parts of their names")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    print("| what a person runs | seconds | processor seconds | beside it: seconds (processor seconds) |")
    print("| --- | ---: | ---: | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for line, task in (*in_memory(given.small), *files(Path(folder), given.small)):
            if given.parts and not any(part in line for part in given.parts):
                continue
            (_, (wall, cpu)), *peers = task().items()
            beside = ", ".join(f"{name} {a:.3g} ({b:.3g})" for name, (a, b) in peers)
            print(f"| {line} | {wall:.3g} | {cpu:.3g} | {beside} |", flush=True)


if __name__ == "__main__":
    main()
