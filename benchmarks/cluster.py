"""A cluster: one worker process against two, what moves between them, and how even the bins of a first pass are.

    python -m benchmarks.cluster            # some minutes; run it on a quiet machine with two cores or more
    python -m benchmarks.cluster --small

Parquet files are written first and read from the system's cache: decoding, checking, observing and counting them is
what is timed. Both clusters are up before the clock starts. Plain processes without Dask that do the same work on the
same partitions, each its share and nothing merged, take turns with them: what two of those reach over one is what two
cores can give at all. Beside wall-clock times stand processor seconds, which other work on the machine changes less:
those of one process over those of the busier of two are the speed-up that two free cores would show.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import pickle
import statistics
import tempfile
import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

CLASSES = 10
BINS = 100
ROUNDS = 3


def block(rows: int, seed: int) -> tuple[Any, Any]:
    """Labels and predictions of some rows."""
    rng = np.random.default_rng(seed)
    proba = np.exp(1.5 * rng.standard_normal((rows, CLASSES), dtype=np.float32))
    proba /= proba.sum(axis=1, keepdims=True)
    came = (proba.cumsum(axis=1) < rng.random((rows, 1), dtype=np.float32)).sum(axis=1).clip(max=CLASSES - 1)
    return came, proba


def write(folder: Path, rows: int, files: int = 8) -> None:
    """Parquet files of (label, probabilities), of two partitions each."""
    import pyarrow as pa
    from pyarrow import parquet

    each = rows // files
    for i in range(files):
        y, p = block(each, i)
        columns = {"label": y.astype(np.int32), **{f"prob_{j}": np.ascontiguousarray(p[:, j]) for j in range(CLASSES)}}
        parquet.write_table(pa.table(columns), folder / f"part-{i}.parquet", row_group_size=each // 2)


class Used(NamedTuple):
    """Seconds by the clock, and processor seconds of each process."""

    wall: float
    busy: list[float]
    parts: dict[str, float]
    """Processor seconds of all processes together, by what they did."""


def plain(folder: str, part_rows: int, share: int, of: int, ready: Any, results: Any) -> None:
    """One of `of` processes: both passes over every `of`-th partition; then what reading them once takes."""
    from truecal.scale.files import Pass, first_step, new_stream
    from truecal.scale.partitions import file_work

    work = file_work([folder], None, part_rows, {})
    mine = work.partitions[share::of]

    def observe(parts: Any) -> Any:
        stream = new_stream(work.heads[0], work.n_rows, None, BINS, None, 64)
        for part in parts:
            work.observe([stream], first_step(work.n_rows), part.start, *part.observed)
        return stream.freeze(work.n_rows).without_rows()

    def count(stream: Any, parts: Any) -> None:
        for part in parts:
            work.count([stream], *part.counted)

    count(observe(mine[:1]), mine[:1])  # imports are not the point
    ready.wait()
    began, times = time.perf_counter(), [time.process_time()]
    stream = observe(mine)
    times.append(time.process_time())
    count(stream, mine)
    times.append(time.process_time())
    seconds = time.perf_counter() - began
    for part in mine:
        deque(Pass(part.counted).counted(0, 1), maxlen=0)
    times.append(time.process_time())
    results.put((seconds, np.diff(times).tolist()))


def without_dask(folder: str, part_rows: int, processes: int) -> Used:
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(processes), context.Queue()
    started = [
        context.Process(target=plain, args=(folder, part_rows, share, processes, ready, results))
        for share in range(processes)
    ]
    for process in started:
        process.start()
    found = [results.get(timeout=600) for _ in started]
    for process in started:
        process.join()
    observing, counting, reading = np.sum([parts for _, parts in found], axis=0).tolist()
    parts = {"reading, twice": 2 * reading, "observing": observing - reading, "counting": counting - reading}
    return Used(max(seconds for seconds, _ in found), [parts[0] + parts[1] for _, parts in found], parts)


def with_dask(folder: str, part_rows: int, client: Any) -> Used:
    from truecal.scale import cluster

    before, mine, began = cpu_seconds(client), time.process_time(), time.perf_counter()
    cluster.evaluate(folder, n_bins=BINS, part_rows=part_rows, client=client)
    seconds, mine = time.perf_counter() - began, time.process_time() - mine
    busy = [b - a for a, b in zip(before, cpu_seconds(client), strict=True)]
    return Used(seconds, busy, {"client and scheduler": mine})


def cpu_seconds(client: Any) -> list[float]:
    """Processor time that each worker has used."""
    return list(client.run(time.process_time).values())


def speed_up(folder: str, rows: int, part_rows: int, rounds: int) -> None:
    from truecal.scale.cluster import local_client

    found: dict[tuple[str, int], list[Used]] = {}
    with local_client(1) as one, local_client(2) as two:
        clients = {1: one, 2: two}
        for client in clients.values():
            with_dask(folder, part_rows, client)  # imports, and the files into the system's cache
        for _ in range(rounds):
            for n, client in clients.items():
                found.setdefault(("plain processes", n), []).append(without_dask(folder, part_rows, n))
                found.setdefault(("Dask workers", n), []).append(with_dask(folder, part_rows, client))
    show_speed_up(found, rows, part_rows, rounds)


def show_speed_up(found: dict[tuple[str, int], list[Used]], rows: int, part_rows: int, rounds: int) -> None:
    load = os.getloadavg()[0]
    print(f"{rows:,} rows of {CLASSES} classes in partitions of {part_rows:,}, {BINS} bins, two passes")
    print(f"medians of {rounds}; {os.cpu_count()} cores, {load:.1f} processes wanted one during the last minute\n")
    print("| | seconds | processor seconds, all together | of the busiest |\n| --- | --- | --- | --- |")
    wall, most = {}, {}
    for key, runs in sorted(found.items(), reverse=True):
        wall[key] = statistics.median(run.wall for run in runs)
        most[key] = statistics.median(max(run.busy) for run in runs)
        every = statistics.median(sum(run.busy) for run in runs)
        print(f"| {key[1]} {key[0]} | {wall[key]:.2f} | {every:.2f} | {most[key]:.2f} |")
    print("\n| two over one | by the clock | by processor seconds |\n| --- | --- | --- |")
    gains = {name: [t[name, 1] / t[name, 2] for t in (wall, most)] for name in ("plain processes", "Dask workers")}
    for name, (clock, processor) in gains.items():
        print(f"| {name} | {clock:.2f} | {processor:.2f} |")
    shares = [dask / floor for dask, floor in zip(gains["Dask workers"], gains["plain processes"], strict=True)]
    print(f"| Dask, of what plain processes reach | {shares[0]:.0%} | {shares[1]:.0%} |\n")
    print("| part of one process's work | processor seconds |\n| --- | --- |")
    parts = [run.parts for run in found["plain processes", 1]]
    middle = {name: statistics.median(part[name] for part in parts) for name in parts[0]}
    workers = statistics.median(sum(run.busy) for run in found["Dask workers", 1])
    client = statistics.median(run.parts["client and scheduler"] for run in found["Dask workers", 2])
    middle |= {"Dask's worker and merging": workers - sum(middle.values()), "Dask's client and scheduler": client}
    for name, seconds in middle.items():
        print(f"| {name} | {seconds:.2f} |")


def moved() -> None:
    """Bytes of what a task gives back, per class and bin."""
    import truecal as tc

    print("| what moves | bytes per class and bin |\n| --- | --- |")
    y, p = block(20_000, 0)
    for blocks in (64, 16, 0):
        stream = tc.stream("classwise", n_bins=100, edges="uniform", blocks=blocks)
        stream.update(y, p)
        print(f"| table with {blocks} blocks | {len(pickle.dumps(stream)) / (100 * CLASSES):.0f} |")
    print(flush=True)


def balance(rows: int, repeats: int) -> None:
    """How far bins are from equal shares of the rows, where edges come from the rows that a first pass keeps."""
    from truecal.evidence.kept_rows import KeptRows, SortedViews

    rng = np.random.default_rng(0)
    print(f"{rows:,} rows in 100 bins: shares of the rows against 1%; {repeats} repeats, merged from 16 parts")
    print("| rows kept | typical, points | largest, points | largest at an edge, points |")
    print("| --- | --- | --- | --- |")
    off, edge, kept = [], [], KeptRows()
    for _ in range(repeats):
        values, kept = rng.random(rows), KeptRows()
        for part in np.array_split(values, 16):
            one = KeptRows()
            one.add(part)
            kept = kept.merge(one)
        (edges,) = SortedViews.of([kept.rows]).edges(100, (0.0, 1.0))
        shares = np.histogram(values, edges)[0] / rows
        off.append(100 * np.abs(shares - 0.01))
        edge.append(100 * np.abs(np.cumsum(shares)[:-1] - np.arange(1, 100) / 100).max())
    every = np.concatenate(off)
    print(f"| {kept.number:,} | {np.median(every):.4f} | {every.max():.4f} | {max(edge):.4f} |\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="one round of few rows")
    parser.add_argument("--rows", type=int, default=8_000_000, help="of the speed-up")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--speed-up", action="store_true", help="the speed-up alone")
    options = parser.parse_args()
    small = options.small
    if not options.speed_up:
        balance(10**5 if small else 10**6, 2 if small else 5)
        moved()
    rows, rounds = (800_000, 1) if small else (options.rows, options.rounds)
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows)
        speed_up(folder, rows, rows // 16, rounds)


if __name__ == "__main__":
    main()
