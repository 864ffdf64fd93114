"""Quantile bins of 0/1 outcomes without weights, from sorted values alone."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...core.sample import Sample
from ...core.table import BinTable
from .bins import Cut, steps_of, tie_variance, zeros_like
from .rows import views_of
from .tensors import like

Tables = tuple[BinTable, ...]


def quantile_tables(build: Any, columns: slice) -> Tables:
    """0/1 outcomes without weights: of the rows only the reports are sorted, and outcomes are counted by their values.

    With L the report before a cut at place c, and its block from `first` to `last`, a row with outcome 1 lies before
    the cut if its report is below L, and with chance (c − first)/(last − first) if it equals L.
    """
    sample = build.sample
    n = sample.rows
    x = views_of(sample, columns).contiguous().sort(dim=1).values
    every = [np.append(cuts, n) for cuts in build.rule.shared_cuts(n)]
    union = every[0] if len(every) == 1 else np.unique(np.concatenate(every))
    end = like(union, x)[None]
    place = end[0] - 1
    value = x[:, place]
    total = x.cumsum(1, dtype=torch.float64)[:, place]
    below, upto = _counted(sample, columns, value)
    cut = Cut(end, torch.searchsorted(x, value), torch.searchsorted(x, value, right=True))
    if build.ties == "together":
        total = total + (cut.last - end) * value.double()
        cut, hits, marked = Cut.plain(cut.last), upto, None
    else:
        marked = upto - below
        hits = below + marked * cut.share
    count = cut.end.expand_as(hits).double()
    return _coarse_tables(build, every, union, torch.stack([count, hits, total - hits]), cut, marked)


def _coarse_tables(
    build: Any, every: Sequence[Any], union: Any, upto: Tensor, cut: Cut, marked: Tensor | None
) -> Tables:
    """The tables of every bin count, side by side, from sums up to the union of all their cuts."""
    if len(every) > 1:
        index = like(np.concatenate([np.searchsorted(union, ends) for ends in every]), upto)
        upto, marked = upto[..., index], None if marked is None else marked[:, index]
        cut = Cut(*(x[:, index] for x in (cut.end, cut.first, cut.last)))
    starts = np.cumsum([0, *(len(ends) for ends in every)])
    sums = steps_of(upto)
    variance = None if marked is None else tie_variance(cut.end, cut.first, cut.last, marked, marked)
    found = []
    for c, (start, stop) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        here = sums[..., start:stop]
        ties = zeros_like(here[0]) if variance is None else variance[:, start:stop]
        if start:  # the first bin begins at 0, where the one before it in line belongs to another count
            here = torch.cat([upto[..., start : start + 1], here[..., 1:]], -1)
        if start and variance is not None:
            assert marked is not None
            one = slice(start, start + 1)
            ends = (x[:, one] for x in (cut.end, cut.first, cut.last, marked, marked))
            ties = torch.cat([tie_variance(*ends), ties[:, 1:]], -1)
        found.append(build.table(c, here, ties))
    return tuple(found)


def _counted(sample: Sample, columns: slice, value: Tensor) -> tuple[Tensor, Tensor]:
    """Per view and cut, how many rows with outcome 1 have a report below, and at most, the value at the cut."""
    reports: Any = sample.reports
    marks: Any = sample.marks
    views, cuts = value.shape
    if reports.ndim == 1:
        row, own, weight = torch.zeros_like(marks, dtype=torch.long), reports.contiguous(), marks.double()
        at_most = torch.searchsorted(value[0], own)
        below = torch.searchsorted(value[0], own, right=True)
    else:
        own = reports.gather(1, marks[:, None])[:, 0]
        weight = ((marks >= columns.start) & (marks < columns.stop)).double()
        row = (marks - columns.start).clamp(0, views - 1)
        at_most, below = search_rows(value, row, own)
    width = cuts + 1
    counts = value.new_zeros(2, views * width, dtype=torch.float64)
    counts[0].index_add_(0, row * width + below, weight)
    counts[1].index_add_(0, row * width + at_most, weight)
    found = counts.view(2, views, width)[..., :-1].cumsum(-1)
    return found[0], found[1]


def search_rows(table: Tensor, row: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Where values[i] would go in the sorted table[row[i]]: before its equals, and after them."""
    width = table.shape[1]
    flat = table.reshape(-1)
    begin = torch.cat([row, row]) * width
    wanted = torch.cat([value, value])
    after = torch.zeros_like(begin, dtype=torch.bool)
    after[len(row) :] = True
    low, high = begin, begin + width
    for _ in range(width.bit_length()):
        middle = (low + high) // 2
        found = flat[middle.clamp(max=len(flat) - 1)]
        right = ((found < wanted) | (after & (found == wanted))) & (middle < high)
        low, high = torch.where(right, middle + 1, low), torch.where(right, high, middle)
    place = low - begin
    return place[: len(row)], place[len(row) :]
