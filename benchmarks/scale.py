"""Tables larger than memory: a stream against only scanning the same columns with pyarrow, in one run.

    python -m benchmarks.scale                        # 10 million rows, some minutes
    python -m benchmarks.scale --rows 100_000_000     # the full size: 6 GB of disk, half an hour
    python -m benchmarks.scale --small

One parquet file of (label, 10 float32 probabilities) is written first. Every measurement is a process of its own; scans
and streams take turns, and shares are of medians, against two ways to scan: pyarrow's datasets, and batches of a file,
which read the same pages with less memory. Memory is the peak of the process, libraries and all.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = 10
STEP = 1 << 20
ROUNDS = 3
SCANS = ("pyarrow's dataset scan", "pyarrow's batches of a file")
STREAMS: dict[str, dict[str, Any]] = {
    "confidence and ECE, one pass": {"errors": ("confidence", "confidence_l1"), "one_pass": True},
    "confidence and ECE, quantile bins": {"errors": ("confidence", "confidence_l1")},
    "per class, 15 bins, one pass": {"errors": ("classwise",), "n_bins": 15, "one_pass": True},
    "as the command line does": {},
}


def write(path: Path, rows: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(0)
    schema = pa.schema([("label", pa.int32()), *((f"prob_{j}", pa.float32()) for j in range(CLASSES))])
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, STEP):
            n = min(STEP, rows - start)
            proba = np.exp(1.5 * rng.standard_normal((n, CLASSES), dtype=np.float32))
            proba /= proba.sum(axis=1, keepdims=True)
            came = (proba.cumsum(axis=1) < rng.random((n, 1), dtype=np.float32)).sum(axis=1).clip(max=CLASSES - 1)
            columns = [came.astype(np.int32), *(np.ascontiguousarray(proba[:, j]) for j in range(CLASSES))]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=STEP)


def run(task: str, path: str) -> None:
    """One measurement, in this process: seconds and peak memory as JSON."""
    if task == SCANS[0]:
        import pyarrow.dataset

        began = time.perf_counter()  # imports are not the point, here and below
        for _ in pyarrow.dataset.dataset(path).to_batches(batch_size=1 << 17):
            pass
    elif task == SCANS[1]:
        from pyarrow import parquet

        began = time.perf_counter()
        for _ in parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20).iter_batches(batch_size=1 << 17):
            pass
    else:
        from truecal.core.arrays import compiled_loops
        from truecal.io.dataset import open_dataset
        from truecal.scale.files import evaluate_dataset

        compiled_loops()
        began = time.perf_counter()
        evaluate_dataset(open_dataset(path), **STREAMS[task])
    seconds = time.perf_counter() - began
    print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def measured(task: str, path: Path) -> tuple[float, float]:
    command = [sys.executable, "-m", "benchmarks.scale", "--task", task, "--file", str(path)]
    seconds, memory = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return seconds, memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--small", action="store_true", help="one round of a million rows")
    parser.add_argument("--folder", type=Path, default=None, help="where the file is written, for a while")
    parser.add_argument("--task", choices=[*SCANS, *STREAMS], help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        run(options.task, options.file)
        return
    rows, rounds = (10**6, 1) if options.small else (options.rows, options.rounds)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        path = Path(folder, "predictions.parquet")
        write(path, rows)
        print(f"{rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB of parquet, medians of {rounds}\n", flush=True)
        print("| | rows a second | of the dataset scan | of batches | peak memory, MB |")
        print("| --- | ---: | ---: | ---: | ---: |")
        times: dict[str, list[float]] = {}
        peak: dict[str, float] = {}
        for _ in range(rounds):
            for task in (*SCANS, *STREAMS):
                seconds, memory = measured(task, path)
                times.setdefault(task, []).append(seconds)
                peak[task] = max(memory, peak.get(task, 0.0))
        for task, found in times.items():
            seconds = statistics.median(found)
            shares = (f"{statistics.median(times[scan]) / seconds:.2f}" for scan in SCANS)
            print(f"| {task} | {rows / seconds:,.0f} | {' | '.join(shares)} | {peak[task]:.0f} |")


if __name__ == "__main__":
    main()
