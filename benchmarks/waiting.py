"""What people wait for, beside a floor or a peer that does the least of it in the same run.

    python -m benchmarks.waiting                # ten minutes on two cores, 2 GB of disk
    python -m benchmarks.waiting --small        # few rows, to check that everything runs
    python -m benchmarks.waiting evaluate csv   # some of the lines, by a part of their names

Seconds and processor seconds of all threads and processes, the least of three runs in which contestants take turns.
Calls in Python are measured after a first one, which loads compiled code; first calls, the command line, polars, DuckDB
and pyarrow in processes of their own, with their start.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .sql import BINS, NAMES, duckdb_ece, polars_ece

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


Task = Callable[[], Cost]
ROUNDS = 3


def in_turns(tasks: dict[str, Task]) -> dict[str, Cost]:
    """The least cost of each task; they take turns, so that all wait for the same neighbours."""
    found = [{name: task() for name, task in tasks.items()} for _ in range(ROUNDS)]
    return {name: (min(each[name][0] for each in found), min(each[name][1] for each in found)) for name in tasks}


def call(task: Callable[[], Any]) -> Task:
    """The cost of a call in this process, after a first one."""
    task()

    def once() -> Cost:
        began, used = time.perf_counter(), time.process_time()
        task()
        return time.perf_counter() - began, time.process_time() - used

    return once


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def process(*arguments: str, **settings: str) -> Task:
    """The cost of Python with these arguments and settings of the environment."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | settings

    def once() -> Cost:
        began, used = time.perf_counter(), _children()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
        return time.perf_counter() - began, _children() - used

    return once


def cli(*arguments: str) -> Task:
    """The cost of the command line."""
    return process("-m", "truecal", *arguments)


FIRST = """
import numpy as np, time
import truecal as tc
from benchmarks.waiting import predictions
y, p = predictions({n}, 10)
tc.evaluate(y, p)"""
SAMPLE = """
import numpy
from benchmarks.waiting import predictions
predictions({n}, 10)"""
LIBRARIES = "import numpy, pyarrow"
CSV_POLARS = """
import polars
polars.read_csv({path!r})"""
CSV_BATCHES = """
import polars
for batch in polars.scan_csv({path!r}).collect_batches(): pass"""


def starts(folder: Path) -> Iterator[tuple[str, Callable[[], dict[str, Cost]]]]:
    """The first call of a process, in a new environment too, and the command line on 100 rows."""

    def first(n: int) -> dict[str, Cost]:
        empty = str(folder / "cache")  # where numba finds nothing that an earlier process compiled
        return in_turns(
            {
                "truecal": process("-c", FIRST.format(n=n)),
                "in a new environment": process("-c", FIRST.format(n=n), NUMBA_CACHE_DIR=empty),
                "the rows alone": process("-c", SAMPLE.format(n=n)),
                "with scipy": process("-c", SAMPLE.format(n=n) + "\nimport scipy.special, scipy.sparse"),
            }
        )

    def few(suffix: str) -> dict[str, Cost]:
        import pandas as pd

        y, p = predictions(100, 3)
        frame, path = pd.DataFrame(p, columns=["p0", "p1", "p2"]).assign(label=y), str(folder / f"few{suffix}")
        if suffix == ".csv":
            frame.to_csv(path, index=False)
        elif suffix == ".jsonl":
            frame.to_json(path, orient="records", lines=True)
        else:
            frame.to_excel(path, index=False)
        return in_turns({"truecal": cli("evaluate", path), LIBRARIES: process("-c", LIBRARIES)})

    for n in (1000, 10_000):
        yield f"first tc.evaluate, {n:,} x 10", lambda n=n: first(n)
    for suffix in (".csv", ".jsonl", ".xlsx"):
        yield f"{suffix[1:]}, 100 rows", lambda suffix=suffix: few(suffix)


def in_memory(small: bool) -> Iterator[tuple[str, Callable[[], dict[str, Cost]]]]:
    """evaluate and calibration_test of arrays."""
    import truecal as tc

    def beside(task: Callable[[Any, Any], Any], n: int, k: int) -> dict[str, Cost]:
        y, p = predictions(n, k)
        floors: dict[str, Callable[[], Any]] = {"np.sort": lambda: np.sort(p, axis=0), "reading": p.sum}
        tasks = {"truecal": lambda: task(y, p), **floors}
        return in_turns({name: call(each) for name, each in tasks.items()})

    def ece(n: int) -> dict[str, Cost]:
        import torch
        from torchmetrics.functional.classification import multiclass_calibration_error

        y, p = predictions(n, 10)
        given = torch.from_numpy(p), torch.from_numpy(y).long()
        peer = call(lambda: multiclass_calibration_error(*given, num_classes=10, n_bins=15))
        return in_turns({"truecal": call(lambda: tc.ece(y, p)), "torchmetrics": peer})

    def models(n: int, k: int, number: int) -> dict[str, Cost]:
        rng = np.random.default_rng(0)
        y, each = rng.integers(0, k, n), {f"m{i}": rng.dirichlet(np.ones(k), n) for i in range(number)}
        one = each["m0"]
        tasks: dict[str, Callable[[], Any]] = {
            "truecal": lambda: tc.compare(y, each),
            "one evaluate": lambda: tc.evaluate(y, one),
        }
        return in_turns({name: call(task) for name, task in tasks.items()})

    for n, k in ((10_000, 10), (1_000_000, 10), (50_000, 1000)):
        n = n // 100 if small else n
        yield f"tc.evaluate, {n:,} x {k:,}", lambda n=n, k=k: beside(tc.evaluate, n, k)
    n = 10_000 if small else 1_000_000
    yield f"tc.calibration_test, {n:,} x 10", lambda: beside(tc.calibration_test, n, 10)
    yield f"tc.ece, {n:,} x 10, float32", lambda: ece(n)
    yield "tc.compare, 20 models, 1 x 5,000", lambda: models(1, 5000, 20)
    yield "tc.compare, 50 models, 200 x 10", lambda: models(200, 10, 50)


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
        beside = {name: process("-c", code.format(path=path)) for name, code in peers.items()}
        return in_turns({"truecal": mine, **beside})

    def defaults() -> dict[str, Cost]:
        path = path_of(table, n, 10)
        memory, workers = ("--memory", "1MB"), ("--workers", "2")
        return in_turns(
            {
                "truecal": cli("evaluate", path, *memory),
                "--workers 2": cli("evaluate", path, *workers),
                "dataset scan": process("-c", SCAN.format(path=path)),
            }
        )

    def classes() -> dict[str, Cost]:
        path = path_of(matrix, wide, 1000)
        return in_turns(
            {
                "truecal": cli("evaluate", path, "--memory", "1MB"),
                "one pass": cli("evaluate", path, "--one-pass"),
                "dataset scan": process("-c", SCAN.format(path=path)),
            }
        )

    def comma() -> dict[str, Cost]:
        path = path_of(text, rows, 10)
        peers = {"pyarrow's read": CSV, "polars' read": CSV_POLARS, "polars in batches": CSV_BATCHES}
        beside = {name: process("-c", code.format(path=path)) for name, code in peers.items()}
        return in_turns({"truecal": cli("evaluate", path), **beside})

    def dask() -> dict[str, Cost]:
        from truecal.scale.cluster import evaluate, local_client

        path = path_of(table, n, 10)
        with local_client(1) as one, local_client(2) as two:
            clients = {"truecal": two, "one worker": one}
            return in_turns({name: _on(client, lambda c: evaluate(path, client=c)) for name, client in clients.items()})

    def sql(engine: str) -> dict[str, Cost]:
        import ibis

        import truecal as tc

        path, backend = path_of(table, n, 10), ibis.duckdb.connect() if engine == "DuckDB" else ibis.polars.connect()
        rows = backend.read_parquet(path)
        asked: dict[str, Any] = {"label": "label", "proba": NAMES, "errors": ["confidence_l1"], "losses": False}
        by_hand = {"DuckDB": lambda: duck(path), "Polars": lambda: bear(path)}[engine]
        mine = call(lambda: tc.sql.evaluate(rows, n_bins=BINS, edges="uniform", **asked))
        return in_turns({"truecal": mine, "by hand": call(by_hand)})

    yield f"parquet, {n:,} x 10, ECE only, one pass", ece
    yield f"parquet, {n:,} x 10, defaults", defaults
    yield f"parquet, {wide:,} x 1,000, two passes", classes
    yield f"csv, {rows:,} x 10", comma
    yield f"Dask, 2 workers, parquet, {n:,} x 10", dask
    for engine in ("DuckDB", "Polars"):
        yield f"tc.sql, {engine}, parquet, {n:,} x 10, ECE", lambda engine=engine: sql(engine)


def _on(client: Any, task: Callable[[Any], Any]) -> Task:
    """The cost of a call with its workers, after a first one."""
    task(client)

    def once() -> Cost:
        before, began, mine = sum(client.run(time.process_time).values()), time.perf_counter(), time.process_time()
        task(client)
        seconds, mine = time.perf_counter() - began, time.process_time() - mine
        return seconds, mine + sum(client.run(time.process_time).values()) - before

    return once


def duck(path: str) -> Any:
    """The ECE by hand in DuckDB."""
    import duckdb

    rows = duckdb.connect()
    rows.execute(f"CREATE VIEW predictions AS SELECT *, label AS y FROM read_parquet('{path}')")
    return rows.execute(duckdb_ece()).fetchall()


def bear(path: str) -> Any:
    """The ECE by hand in Polars."""
    import polars as pl

    return polars_ece(pl.scan_parquet(path).rename({"label": "y"})).collect(engine="streaming")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="lines to measure, by parts of their names")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    print("| what a person runs | seconds | processor seconds | beside it: seconds (processor seconds) |")
    print("| --- | ---: | ---: | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        lines = (*starts(place), *in_memory(given.small), *files(place, given.small))
        for line, task in lines:
            if given.parts and not any(part in line for part in given.parts):
                continue
            (_, (wall, cpu)), *peers = task().items()
            beside = ", ".join(f"{name} {a:.3g} ({b:.3g})" for name, (a, b) in peers)
            print(f"| {line} | {wall:.3g} | {cpu:.3g} | {beside} |", flush=True)


if __name__ == "__main__":
    main()
