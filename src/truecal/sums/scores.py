"""The score of a sample: its loss and the squared gap averaged over all cuts, with pairs that depend left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..core.cut_score import CELLS, SCORE_CELLS, Sides, both_sides, clusters, gap_over_cuts
from ..core.dispatch import DISPATCH, Dispatch
from ..core.edges import interval_index
from ..core.sample import Sample
from ..core.types import Array, Groups
from .tabulate import map_tables, measurable, stacked_tables

_MOST = 1 << 22  # sums of clusters that are held at a time


def score_sample(sample: Sample) -> Sample:
    """The sample as the score sees it: views by themselves, and reports without a range in that of the sample."""
    if sample.joint:
        sample = replace(sample, joint=False)
    if sample.bounds is None:
        low, high = float(sample.reports.min()), float(sample.reports.max())
        sample = replace(sample, bounds=(low, high) if low < high else (low - 0.5, low + 0.5))
    return sample


def squares_and_gap(
    sample: Sample, left_out: Sides | None = None, dispatch: Dispatch = DISPATCH
) -> tuple[float, float]:
    """Σ w|r|² and the squared gap averaged over cuts, both summed over views."""
    sample = measurable(score_sample(sample), SCORE_CELLS)
    if sample.rows == 1:  # no pair
        return float(sample.residual_sq.sum()) if sample.weights is None else sample.totals.residual_sq, 0.0
    if left_out is not None:
        (table,) = stacked_tables(sample, SCORE_CELLS, "together", dispatch=dispatch)
        found = [(table.loss_total, gap_over_cuts(table, left_out))]
    else:
        found = map_tables(
            sample,
            SCORE_CELLS,
            "together",
            lambda tables: (tables[0].loss_total, gap_over_cuts(tables[0])),
            squares=True,
            dispatch=dispatch,
        )
    squares, gaps = zip(*found, strict=True)
    whole = sum(map(float, squares)) if sample.weights is None else sample.totals.residual_sq
    return whole, sum(map(float, gaps))


def of_clusters(sample: Sample, groups: Groups) -> Sides:
    """Pairs of rows of one cluster, with the weights of the sample."""
    found = None
    for residual, weight in cluster_tables(sample, groups):
        part = clusters(residual, weight)
        found = part if found is None else found.plus(part)
    assert found is not None
    return found


def cluster_tables(sample: Sample, groups: Groups) -> Iterator[tuple[Array, Array]]:
    """Σ w·residual and Σ w of each cluster and cell of the score, (clusters, views, cells), some clusters at a time."""
    sample = score_sample(sample.on_host())
    group, number = groups
    step = max(1, _MOST // (CELLS * sample.views))
    order = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[order], np.arange(0, number + step, step))
    for first, (start, stop) in enumerate(pairwise(ends)):
        rows = order[start:stop]
        part, own = sample.take(rows), group[rows] - first * step
        few = min(step, number - first * step)
        yield tuple(np.stack(each, axis=1) for each in zip(*_by_view(part, own, few), strict=True))  # type: ignore[misc]


def _by_view(sample: Sample, group: Array, number: int) -> Iterator[tuple[Array, Array]]:
    for j, cell in enumerate(view_cells(sample)):
        place = group * CELLS + cell
        sums = (sample.residuals(slice(j, j + 1))[0], sample.row_weights)
        residual, weight = (np.bincount(place, x, number * CELLS).reshape(number, CELLS) for x in sums)
        yield residual, weight


def view_cells(sample: Sample) -> Iterator[Array]:
    """The cell of the score of each row, view by view."""
    (edges,) = SCORE_CELLS.edges(sample.bounds, sample.dtype)
    return (interval_index(sample.view(j).astype(sample.dtype, copy=False), edges) for j in range(sample.views))


def of_near_rows(sample: Sample, time: Array, overlap: int) -> Sides:
    """Pairs of rows less than `overlap` apart in time."""
    sample = score_sample(sample.on_host())
    order = np.argsort(time, kind="stable")
    sample, time = sample.take(order), time[order]
    w = sample.row_weights
    squares, weights = np.zeros((2, 2, sample.views, CELLS))
    for j, cell in enumerate(view_cells(sample)):
        r = sample.residuals(slice(j, j + 1))[0]
        for lag in range(overlap):
            near = time[lag:] - time[: len(time) - lag] < overlap
            early, late = np.flatnonzero(near), lag + np.flatnonzero(near)
            ends = np.minimum(cell[early], cell[late]), np.maximum(cell[early], cell[late])
            for out, x in ((squares, r), (weights, w)):
                product = x[early] * x[late] * (1 if lag == 0 else 2)
                out[0, j] += np.bincount(ends[1], product, CELLS)  # both rows are below a cut from there on
                out[1, j] += np.bincount(ends[0], product, CELLS)
    squares, weights = (_sides_of_pairs(x) for x in (squares, weights))
    heaviest = (2 * overlap - 1) * float(w.max())
    return Sides(squares, weights, np.full_like(weights, heaviest))


def _sides_of_pairs(sums: Array) -> Array:
    """Pairs below and above the cut after each cell, from their sums by upper and by lower end."""
    return np.stack([sums[0].cumsum(-1), both_sides(sums[1])[1]])


def by_fold(sample: Sample, folds: Groups) -> Iterator[tuple[float, Sample]]:
    """Each fold with its share of the weight: predictions of one fold depend on the labels of the others."""
    for fold in range(folds[1]):
        part = sample.take(np.flatnonzero(folds[0] == fold))
        if part.total_weight > 0:
            yield part.total_weight / sample.total_weight, part
