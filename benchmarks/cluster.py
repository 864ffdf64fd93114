"""A cluster: one worker process against two, what moves between them, and how even sketched bins are.

    python -m benchmarks.cluster            # some minutes; run it on a quiet machine with two cores or more
    python -m benchmarks.cluster --small

The rows are made by the workers themselves, so that no disk and no network is in the way: what is timed is drawing,
sketching and counting. Both clusters are up before the clock starts and take turns. Beside wall-clock times stand the
processor seconds of the workers, which other work on the machine changes little: those of one worker over those of the
busier of two are the speed-up that two free cores would show, but for what the scheduler takes.
"""

from __future__ import annotations

import argparse
import os
import pickle
import statistics
import time
from typing import Any

import numpy as np

CLASSES = 10
ROUNDS = 3
ACCURACIES = (200, 1000, 4000, 16000)


def block(rows: int, seed: int) -> tuple[Any, Any]:
    """Labels and predictions of some rows."""
    rng = np.random.default_rng(seed)
    proba = np.exp(1.5 * rng.standard_normal((rows, CLASSES), dtype=np.float32))
    proba /= proba.sum(axis=1, keepdims=True)
    came = (proba.cumsum(axis=1) < rng.random((rows, 1), dtype=np.float32)).sum(axis=1).clip(max=CLASSES - 1)
    return came, proba


def arrays(rows: int, chunk: int) -> tuple[Any, Any]:
    """The same rows as Dask arrays whose chunks are made where they are needed."""
    import dask
    import dask.array as da

    pieces = [dask.delayed(block)(chunk, seed) for seed in range(rows // chunk)]
    labels = [da.from_delayed(piece[0], (chunk,), int) for piece in pieces]
    proba = [da.from_delayed(piece[1], (chunk, CLASSES), np.float32) for piece in pieces]
    return da.concatenate(labels), da.concatenate(proba)


def cpu_seconds(client: Any) -> list[float]:
    """Processor time that each worker has used."""
    return list(client.run(time.process_time).values())


def speed_up(rows: int, rounds: int) -> None:
    from distributed import Client, LocalCluster

    from truecal.scale import cluster

    y, p = arrays(rows, rows // 16)
    wall: dict[int, list[float]] = {1: [], 2: []}
    busy: dict[int, list[list[float]]] = {1: [], 2: []}
    sizes: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, **sizes) as one, LocalCluster(n_workers=2, **sizes) as two:
        clients = {1: Client(one, set_as_default=False), 2: Client(two, set_as_default=False)}
        for client in clients.values():  # imports are not the point
            cluster.evaluate(y[:1000], p[:1000], n_bins=100, client=client)
        for _ in range(rounds):
            for workers, client in clients.items():
                before, began = cpu_seconds(client), time.perf_counter()
                cluster.evaluate(y, p, n_bins=100, client=client)
                seconds = time.perf_counter() - began
                used = [b - a for a, b in zip(before, cpu_seconds(client), strict=True)]
                wall[workers].append(seconds)
                busy[workers].append(used)
        for client in clients.values():
            client.close()
    load = os.getloadavg()[0]
    print(f"{rows:,} rows of {CLASSES} classes in 16 partitions, 100 bins, two passes, medians of {rounds}")
    print(f"{os.cpu_count()} cores, {load:.1f} processes wanted one during the last minute\n")
    print("| workers | seconds | processor seconds, all workers | of the busiest |\n| --- | --- | --- | --- |")
    middle = {workers: statistics.median(found) for workers, found in wall.items()}
    most = {workers: statistics.median(max(used) for used in found) for workers, found in busy.items()}
    for workers, found in busy.items():
        every = statistics.median(sum(used) for used in found)
        print(f"| {workers} | {middle[workers]:.2f} | {every:.2f} | {most[workers]:.2f} |")
    print(f"\nspeed-up {middle[1] / middle[2]:.2f}; by processor seconds of the busiest worker {most[1] / most[2]:.2f}")


def moved() -> None:
    """Bytes of what a task gives back, per class and bin, and of a sketch per class."""
    import truecal as tc

    print("| what moves | bytes per class and bin |\n| --- | --- |")
    y, p = block(20_000, 0)
    for blocks in (64, 16, 0):
        stream = tc.stream("classwise", n_bins=100, edges="uniform", blocks=blocks)
        stream.update(y, p)
        print(f"| table with {blocks} blocks | {len(pickle.dumps(stream)) / (100 * CLASSES):.0f} |")
    print(flush=True)


def balance(rows: int, repeats: int) -> None:
    """KLL's k against how far bins of sketched edges are from equal shares of the rows."""
    from datasketches import kll_doubles_sketch

    rng = np.random.default_rng(0)
    print(f"{rows:,} rows in 100 bins: shares of the rows against 1%; {repeats} sketches merged from 16 parts")
    print("| k | bytes a class | typical, points | largest, points | largest at an edge, points |")
    print("| --- | --- | --- | --- | --- |")
    values = rng.random(rows)  # ranks are all that matters
    for k in ACCURACIES:
        off, edge, size = [], [], 0
        for _ in range(repeats):
            merged = kll_doubles_sketch(k)
            for part in np.array_split(values, 16):
                one = kll_doubles_sketch(k)
                one.update(part)
                merged.merge(one)
            edges = np.array([0.0, *merged.get_quantiles((np.arange(1, 100) / 100).tolist()), 1.0])
            shares = np.histogram(values, edges)[0] / rows
            off.append(100 * np.abs(shares - 0.01))
            edge.append(100 * np.abs(np.cumsum(shares)[:-1] - np.arange(1, 100) / 100).max())
            size = max(size, len(merged.serialize()))
        every = np.concatenate(off)
        print(f"| {k} | {size:,} | {np.median(every):.4f} | {every.max():.4f} | {max(edge):.4f} |", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", action="store_true", help="one round of few rows")
    small = parser.parse_args().small
    balance(10**5 if small else 10**6, 2 if small else 5)
    moved()
    speed_up(800_000 if small else 4_000_000, 1 if small else ROUNDS)


if __name__ == "__main__":
    main()
