"""Sizes from which one way to the same sums is faster than another, and work shared out over threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

_OWN_THREADS = os.environ.get("OMP_NUM_THREADS", "")  # how other libraries are told; a Dask worker is told 1

THREADS = min(8, int(_OWN_THREADS) if _OWN_THREADS.isdecimal() and int(_OWN_THREADS) else os.cpu_count() or 1)


@dataclass(frozen=True)
class Dispatch:
    """From which sizes on one way to the same sums is faster than another."""

    threads: int = THREADS
    parallel_views: int = 1 << 20
    """With fewer reports, starting threads for tiles of views costs more than it saves."""
    parallel_rows: int = 1 << 22
    """The same for shares of rows, which do less work each."""
    tile_columns: int = 32
    few_rows: int = 1 << 10
    """With no more rows, views are sorted and summed together."""
    few_reports: int = 1 << 17
    """So many reports of them at one time."""
    sorted_rows: int = 1 << 12
    """From so many rows of one view on, fixed intervals are cut out of sorted reports, not looked up row by row."""
    unsorted_bins: int = 256
    """With more bins than this, and than classes, most reports exceed 1/m and must be looked up."""
    unsorted_cells: int = 1 << 18
    """With more cells than this, clearing them for each block of rows costs more than sorting; compiled loops clear
    eight times as many, once."""
    compiled_reports: int = 1 << 23
    """From here on, loops compiled by numba, where that is installed, save more than the half second of loading it."""
    compiled_spread: int = 1 << 20
    """The same for the intervals of gaps, which cost more."""
    compiled_stream: int = 1 << 23
    """The same for a stream: from so many reports on, those that came and those known to come."""
    compiled_rows: int = 1 << 26
    """From so many reports of a file on, its rows are checked and looked at in one compiled pass."""
    compiled_draws: int = 25_000_000
    """From so many labels on, draws of the calibration test are made and counted in compiled loops: also the 99 draws
    of the most rows that it takes."""
    device_numbers: int = 1 << 26
    """On a GPU, so many reports are sorted at one time, and a quarter as many rows written out in float64."""


DISPATCH = Dispatch()


def over_rows(n: int, entries: int, work: Callable[[slice], None]) -> None:
    """Run `work` on all rows at once, or on one share of the rows per thread where there is enough to do."""
    if entries < DISPATCH.parallel_rows or THREADS == 1:
        work(slice(0, n))
        return
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, row_shares(n, THREADS)))


def row_shares(n: int, threads: int) -> list[slice]:
    """Consecutive slices of rows, one for each thread."""
    return [slice(i * n // threads, (i + 1) * n // threads) for i in range(threads)]
