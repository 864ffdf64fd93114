"""Spark in local mode beside one process: `tc.sql` over parquet files, and the bytes that come back.

    python -m benchmarks.spark --rows 2000000            # needs pyspark and a JRE
    python -m benchmarks.spark --small

The rows are written as parquet files once. Spark reads them with all cores of this machine in a separate JVM, so its
times are those of the clock; DuckDB, Polars and `tc.stream` read the same files in this process. All give the same
numbers over bins of equal width.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sql import BINS, NAMES, watched_bytes, write_files


def measure(files: str, rounds: int) -> None:
    import ibis
    import pyarrow.parquet as pq
    from pyspark.sql import SparkSession

    import truecal as tc

    session = (
        SparkSession.builder.master("local[*]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    session.read.parquet(str(Path(files).parent)).createOrReplaceTempView("predictions")
    spark = ibis.pyspark.connect(session)
    duck, bear = ibis.duckdb.connect(), ibis.polars.connect()
    tables = {
        "Spark, local[*]": spark.table("predictions"),
        "DuckDB": duck.read_parquet(files),
        "Polars": bear.read_parquet(files),
    }
    moved = watched_bytes()
    options: dict[str, Any] = {
        "n_bins": BINS,
        "edges": "uniform",
        "errors": ["classwise", "confidence", "confidence_l1"],
    }

    def streamed() -> Any:
        stream = tc.stream(options["errors"], n_bins=BINS, edges="uniform")
        for path in sorted(Path(files).parent.glob("*.parquet")):
            for batch in pq.ParquetFile(path).iter_batches(1 << 18):
                p = np.column_stack([batch.column(name).to_numpy() for name in NAMES])
                stream.update(batch.column("y").to_numpy(), p)
        return stream.result()

    tasks: dict[str, Callable[[], Any]] = {
        name: lambda table=table: tc.sql.evaluate(table, label="y", proba=NAMES, id="id", **options)
        for name, table in tables.items()
    }
    tasks["one process, tc.stream"] = streamed
    print("| engine | seconds | bytes back | score |\n| --- | ---: | ---: | ---: |")
    for name, task in tasks.items():
        best, score, back = float("inf"), 0.0, 0
        for _ in range(rounds):
            moved.clear()
            start = time.perf_counter()
            score = float(task().score or 0.0)
            best, back = min(best, time.perf_counter() - start), sum(moved)
        print(f"| {name} | {best:.1f} | {f'{back:,}' if back else ''} | {score:.12f} |", flush=True)
    session.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--files", type=Path, help="a folder for the parquet files; default: a temporary one")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    try:
        import pyspark  # noqa: F401  # its absence is said before rows are made
    except ImportError:
        print("not measured: pip install pyspark")
        return
    warnings.simplefilter("ignore")  # Ibis calls old names of its engines
    rows, each = (20_000, 10_000) if given.small else (given.rows, 500_000)
    with tempfile.TemporaryDirectory() as folder:
        measure(write_files(given.files or Path(folder), rows, each), 1 if given.small else given.rounds)


if __name__ == "__main__":
    main()
