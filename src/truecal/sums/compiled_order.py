"""Sums over sorted reports in compiled loops, between cuts and over all cuts: the numbers of plain numpy, sooner.

Vocabulary of backends/numpy.py. `ordered` (V, n) holds the reports of V views, each sorted, and `marked` those of their
marked rows, sorted, view after view: those of view v end at ends[v].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import Array
from .compiled import entry, inner, reordered, two_sum
from .plain import RunSums

_BLOCK = 1 << 10  # numbers added up as they stand: longer sums keep what rounding takes


def column_segments(
    ordered: Array, marked: Array, ends: Array, cuts: Array, *, ties: str, squares: bool = False
) -> RunSums:
    """Sums between cuts that all views share: `indicator_segments` of backends/numpy.py for several views."""
    views = len(ordered)
    sums = np.zeros((3 + squares, views, len(cuts) + 1))
    blocks = np.zeros((4, views, len(cuts)))  # cut, and first, last and marked of the tie block at it
    blocks[0], blocks[2] = cuts, 1.0
    _column_segments(ordered, marked, ends, ties == "together", squares, sums, blocks)
    moved = blocks[0].astype(cuts.dtype)
    return RunSums(moved, sums, *blocks[1:]) if blocks[3].any() else RunSums(moved, sums)


@entry
def _column_segments(
    ordered: Array, marked: Array, ends: Array, together: bool, squares: bool, sums: Array, blocks: Array
) -> None:
    begin = 0
    for v in range(len(ordered)):
        own = marked[begin : ends[v]]
        begin = ends[v]
        _count(ordered[v], own, together, squares, sums[:, v], blocks[:, v])
        _add_distances(ordered[v], blocks[0, v], squares, sums[:, v])
        if squares:
            _add_far_above(ordered[v], own, blocks[0, v], sums[3, v])


@inner
def _count(ordered: Array, marked: Array, together: bool, squares: bool, sums: Array, blocks: Array) -> None:
    """Rows and marked rows between cuts, and where cuts divide equal reports; with squares, by how much residual² of
    marked rows up to 1/2 exceeds the squared distance to the nearest of 0 and 1: 1 − 2u."""
    n, k, e, last_cut, last_marks, last_far = len(ordered), 0, 0, 0, 0.0, 0.0
    cuts = blocks.shape[1]
    while e <= cuts:
        cut = int(blocks[0, e]) if e < cuts else n
        stop = k if e < cuts else len(marked)
        while stop < len(marked) and marked[stop] < ordered[cut]:
            stop += 1
        far, marks = 0.0, float(stop)
        if e < cuts and ordered[cut - 1] == ordered[cut]:
            value = ordered[cut]
            equal = _after(marked, value, stop)
            end = _after(ordered, value, cut)
            if together:
                cut, stop, marks = end, equal, float(equal)
                blocks[0, e] = end
            elif equal > stop:
                first = _before(ordered, value, 0)
                blocks[1, e], blocks[2, e], blocks[3, e] = first, end, equal - stop
                part = (equal - stop) * (cut - first) / (end - first)
                marks += part
                far = part * (1 - 2 * np.float64(value)) if value <= 0.5 else 0.0
        sums[0, e], sums[1, e] = cut - last_cut, marks - last_marks
        if squares:
            sums[3, e] = _far_below(marked[k:stop]) + (far - last_far)
        k, last_cut, last_marks, last_far = stop, cut, marks, far
        e += 1


@inner
def _before(ordered: Array, value: Any, low: int) -> int:
    """How many of the sorted numbers are less, of which there are `low` at least."""
    high = len(ordered)
    while low < high:
        middle = (low + high) >> 1
        if ordered[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _after(ordered: Array, value: Any, low: int) -> int:
    """How many of the sorted numbers are not greater, of which there are `low` at least."""
    high = len(ordered)
    while low < high:
        middle = (low + high) >> 1
        if ordered[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _far_below(marked: Array) -> float:
    """Σ (1 − 2u) of sorted reports up to 1/2."""
    total, lost = 0.0, 0.0
    for u in marked:
        if u > 0.5:
            break
        total, lost = two_sum(total, lost, 1 - 2 * np.float64(u))
    return total + lost


@inner
def _add_far_above(ordered: Array, marked: Array, cuts: Array, own: Array) -> None:
    """The same of unmarked rows above 1/2, 2u − 1, one block of equal reports after the other: where nearly all rows
    are marked, those that are not keep their digits."""
    i, k, e, total, lost = _after(ordered, 0.5, 0), _after(marked, 0.5, 0), 0, 0.0, 0.0
    while i < len(ordered):
        stop, marks = i + 1, 0
        while stop < len(ordered) and ordered[stop] == ordered[i]:
            stop += 1
        while k < len(marked) and marked[k] == ordered[i]:
            k += 1
            marks += 1
        rows = stop - i
        far = (2 * np.float64(ordered[i]) - 1) * (rows - marks) / rows
        while i < stop:
            while e < len(cuts) and cuts[e] <= i:
                own[e] += total + lost
                total, lost = 0.0, 0.0
                e += 1
            end = stop if e == len(cuts) else min(stop, int(cuts[e]))
            total, lost = two_sum(total, lost, (end - i) * far)
            i = end
    own[e] += total + lost


@inner
def _add_distances(ordered: Array, cuts: Array, squares: bool, sums: Array) -> None:
    """Residuals as distances to the nearest of 0 and 1, so that nearly perfect reports keep their digits."""
    middle = _after(ordered, 0.5, 0)
    begin = 0
    for e in range(len(cuts) + 1):
        end = int(cuts[e]) if e < len(cuts) else len(ordered)
        low, top = ordered[begin : min(end, middle)], ordered[max(begin, middle) : end]
        sums[2, e] = _total(low, 0.0, False) + _total(top, 1.0, False) + (len(top) - sums[1, e])
        if squares:
            sums[3, e] += _total(low, 0.0, True) + _total(top, 1.0, True)
        begin = max(begin, end)


@inner
def _total(reports: Array, origin: float, squares: bool) -> float:
    """Σ (u − origin), or of its squares."""
    total, lost = 0.0, 0.0
    for begin in range(0, len(reports), _BLOCK):
        block = reports[begin : begin + _BLOCK]
        total, lost = two_sum(total, lost, _sum_of_squares(block, origin) if squares else _sum(block, origin))
    return total + lost


@reordered
def _sum(reports: Array, origin: float) -> float:
    total = 0.0
    for i in range(len(reports)):
        total += np.float64(reports[i]) - origin
    return total


@reordered
def _sum_of_squares(reports: Array, origin: float) -> float:
    total = 0.0
    for i in range(len(reports)):
        total += (np.float64(reports[i]) - origin) ** 2
    return total


def two_bin(ordered: Array, marked: Array, ends: Array, low: float, high: float) -> Array:
    """Per view, Σ_j w_j (L_j² + (T − L_j)²) over all cuts of the range; core/averages.py explains `TwoBin`."""
    found = np.empty(len(ordered))
    _two_bin(ordered, marked, ends, low, high, found)
    return found


@entry
def _two_bin(ordered: Array, marked: Array, ends: Array, low: float, high: float, found: Array) -> None:
    n, k = ordered.shape[1], 0
    for v in range(len(ordered)):
        i, k_end, last, prefix, first, second = 0, ends[v], low, 0.0, 0.0, 0.0
        while i < n:
            block, some, more = min(n, i + _BLOCK), 0.0, 0.0  # of Σ w·L and Σ w·L²
            while i < block:
                u, stop, marks = float(ordered[v, i]), i + 1, 0
                while stop < n and ordered[v, stop] == ordered[v, i]:
                    stop += 1
                while k < k_end and marked[k] == ordered[v, i]:
                    k += 1
                    marks += 1
                step = (u - last) * prefix
                some += step
                more += step * prefix
                prefix += (stop - i - marks) * u + marks * (u - 1)
                i, last = stop, u
            first += some
            second += more
        step = (high - last) * prefix
        first, second = (first + step) / (high - low), (second + step * prefix) / (high - low)
        found[v] = 2 * second - 2 * prefix * first + prefix * prefix
