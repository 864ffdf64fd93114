"""Raw errors in a few steps of Triton, from the user's tensors to the numbers, which come back in one transfer."""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...core.dispatch import DISPATCH, Dispatch
from ...core.rules import BinningRule, FixedRule, quantile_cuts
from ...core.sample import Sample, Totals
from ...core.table import TableSums
from ...core.types import Array
from .device_tables import refuse_outside
from .kernels import attempt, kernels_for
from .reading import PlainRows, plain_rows
from .tensors import fetched, tensor, tiles_of

_MOST_CELLS = 1 << 22  # numbers in one array of cells that a raw error may make
_MOST_SPARE = 1 << 18  # numbers that are kept for the next call
_MOST_SENT = 1 << 13  # numbers that travel sooner than they are added up on the device

Found = tuple[BinningRule, Totals, int, list[TableSums]]
"""The rule at its bin counts, the totals of a sample, how many views are averaged, and the sums of its bins."""


def raw_error_sums(error: Any, y_true: Any, y_proba: Any, sample_weight: Any, labels: Any) -> Found | None:
    """What a raw error is made of, where Triton has a short way there from class indices and distributions; else None.

    The check of the rows and the sums are under way together and read together: numbers that come from rows which turn
    out to be wrong are thrown away, and None sends them to the checks that say what is wrong.
    """
    if sample_weight is not None or labels is not None or error.ties == "row":
        return None
    if not (error.property.device_shortcut and error.binning.has_counts and error.binning.of_scalars):
        return None
    reports = tensor(y_proba)
    fused = kernels_for(reports)
    rows = None if fused is None else plain_rows(y_true, reports)
    if rows is None:
        return None
    return attempt(fused, reports.device, lambda: _measured(error, rows, fused))


def _measured(error: Any, rows: PlainRows, fused: Any) -> Found | None:
    n, k = rows.reports.shape
    confidence = error.property.picks_outcome
    views = 1 if confidence else k
    rule = error.binning.at(n, views)
    work = _Work(fused, error.ties == "together", error.norm == "l1")
    if rule.open:
        found = work.quantiles(rows.reports, rows.labels, rule, rows, confidence=confidence)
    elif _cells(rule) * views > _MOST_CELLS:
        return None
    else:
        bounds = error.property.bounds
        found = work.intervals(rows.reports, rows.labels, rule, bounds, rows, confidence=confidence)
    if found is None:
        return None
    wrong = n - found.hits if confidence else 0.0
    return rule, Totals(n, n, n, 1.0, wrong, wrong), views, work.moments(found)


def raw_moments(
    sample: Sample, rule: BinningRule, ties: str, norm: str, dispatch: Dispatch, fused: Any = None
) -> list[TableSums] | None:
    """The squared, or absolute, sums of the bins of a validated sample at each count; None without a short way there.

    There is one for 0/1 outcomes without weights, over quantile bins and fixed intervals.
    """
    fused = fused or kernels_for(sample.reports)  # type: ignore[arg-type]  # a tensor
    if fused is None or sample.joint or sample.marks is None or sample.weights is not None or ties == "row":
        return None
    work = _Work(fused, ties == "together", norm == "l1", dispatch)
    reports: Any = sample.reports
    marks = sample.marks.contiguous()  # type: ignore[attr-defined]  # a tensor, which the kernels read in one go
    device = reports.device
    if rule.open:
        return attempt(fused, device, lambda: work.moments(work.quantiles(reports, marks, rule)))
    if rule.fixed and _cells(rule) * sample.views <= _MOST_CELLS:
        refuse_outside(sample, rule)
        return attempt(fused, device, lambda: work.moments(work.intervals(reports, marks, rule, sample.bounds)))
    return None


# -- what the bins of all counts are -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Cuts:
    """All cuts of all counts, and for each bin the places of its two ends among them (−1: the beginning)."""

    ends: Tensor
    upper: Tensor
    lower: Tensor
    starts: Array
    """Where the bins of each count begin."""


@lru_cache(maxsize=16)
def _cuts(n: int, counts: tuple[int, ...], device: torch.device) -> _Cuts:
    every = [np.append(quantile_cuts(n, m), n) for m in counts]
    union = np.unique(np.concatenate(every))
    upper = [np.searchsorted(union, ends) for ends in every]
    lower = [np.concatenate([[-1], places[:-1]]) for places in upper]
    ends, high, low = (torch.as_tensor(x, device=device) for x in (union, np.concatenate(upper), np.concatenate(lower)))
    return _Cuts(ends, high, low, _starts(upper))


@dataclass(frozen=True)
class _Intervals:
    """The upper ends of the intervals between all edges of all counts, the last one open, and for each bin where it
    begins and ends among them."""

    upper: Tensor
    low: Tensor
    high: Tensor
    first: tuple[Array, ...]
    """For each count, where its bins begin, as numpy's."""
    starts: Array
    """Where the bins of each count begin."""


@lru_cache(maxsize=16)
def _intervals(rule: FixedRule, bounds: Any, dtype: torch.dtype, device: torch.device) -> _Intervals:
    every = rule.edges(bounds, np.dtype(f"f{max(4, dtype.itemsize)}"))
    union = every[0] if len(every) == 1 else np.unique(np.concatenate(every))
    upper = torch.as_tensor(np.append(union[1:-1], union.dtype.type(np.inf)), device=device)
    first = tuple(np.searchsorted(union, edges[:-1]) for edges in every)
    last = [np.searchsorted(union, edges[1:]) for edges in every]
    low, high = (torch.as_tensor(np.concatenate(side), device=device) for side in (first, last))
    return _Intervals(upper, low, high, first, _starts(first))


def _cells(rule: Any) -> int:
    """How many intervals a view has at all counts together."""
    return sum(rule.counts or (rule.n_cells,))


def _kept(make: Any, size: int, *about: Any) -> Any:
    """What a function makes, which it keeps on the device for the next call unless it is large."""
    return make(*about) if size <= _MOST_SPARE else make.__wrapped__(*about)


def _starts(bins: Any) -> Array:
    return np.cumsum([0, *(len(each) for each in bins[:-1])])


# -- the steps ---------------------------------------------------------------------------------------------------------


class _Read(NamedTuple):
    """Numbers read from the device: how often the top class came, and the sum over the bins of each count."""

    hits: float
    sums: Array


@dataclass(frozen=True)
class _Work:
    """The steps of one error: nothing waits for the device before the numbers are read, once, at the end.

    With `rows` they are checked on the way, and None says that they are wrong; `confidence` measures their top classes.
    """

    fused: Any
    together: bool
    absolute: bool
    dispatch: Dispatch = DISPATCH

    @property
    def ranks(self) -> Any:
        """The kernels of quantile bins, loaded where there is Triton."""
        return importlib.import_module("truecal.sums.torch.fused_quantiles")

    def moments(self, found: _Read | None) -> list[TableSums]:
        assert found is not None
        return [TableSums(absolute=x) if self.absolute else TableSums(squared=x) for x in found.sums.tolist()]

    def quantiles(
        self, reports: Any, marks: Any, rule: Any, rows: PlainRows | None = None, *, confidence: bool = False
    ) -> _Read | None:
        counts_asked = rule.counts or ()
        cuts = _kept(_cuts, sum(counts_asked), len(marks), counts_asked, reports.device)
        one = confidence or reports.ndim == 1
        sizes = [self.fused.HEAD + _even(len(cuts.upper)), self.ranks.counts_size(1, len(cuts.ends)) if one else 0]
        numbers, counts = _taken(sizes, reports.device)
        if rows is not None:
            top, right = self.fused.check(*rows, numbers)
            reports, marks = (top, right) if confidence else (reports, marks)
        if one:
            ordered = reports.sort().values
            self._bins(ordered, reports, marks, 0, cuts, counts, numbers, self.fused.HEAD)
        else:
            numbers[self.fused.HEAD :][: len(cuts.upper)] = self._bins_of_views(reports, marks, cuts)
        found = self._read(numbers)
        return None if found is None else _Read(found[0], np.add.reduceat(found[1][: len(cuts.upper)], cuts.starts))

    def _bins_of_views(self, reports: Tensor, marks: Tensor, cuts: _Cuts) -> Tensor:
        """The value of every bin, summed over the columns of reports."""
        total: Any = 0.0
        bins = len(cuts.upper)
        for tile in tiles_of(max(len(reports), bins), reports.shape[1], self.dispatch.device_numbers):
            ordered = reports[:, tile].T.contiguous().sort(dim=1).values
            views = len(ordered)
            sizes = [self.ranks.counts_size(views, len(cuts.ends), matrix=True), views * bins]
            counts, out = _zeros(sum(sizes), reports.device).split_with_sizes(sizes)
            self._bins(ordered, reports, marks, tile.start, cuts, counts, out, 0)
            total = total + out.view(views, bins).sum(0)
        return total

    def _bins(self, ordered: Tensor, *about: Any) -> None:
        reports, marks, first_view, cuts, counts, out, begin = about
        how = {"together": self.together, "absolute": self.absolute}
        places = (cuts.ends, cuts.upper, cuts.lower)
        self.ranks.quantile_bins(ordered, reports, marks, first_view, places, counts, out, begin, **how)

    def intervals(
        self,
        reports: Any,
        marks: Any,
        rule: Any,
        bounds: Any,
        rows: PlainRows | None = None,
        *,
        confidence: bool = False,
    ) -> _Read | None:
        found = _kept(_intervals, _cells(rule), rule, bounds, reports.dtype, reports.device)
        if confidence or reports.ndim == 1:
            return self._intervals_of_view(reports, marks, found, rows)
        (n, k), m, bins = reports.shape, len(found.upper), len(found.low)
        sizes = [self.fused.HEAD + _even(bins), _even(k * m), 0 if rows is None else n]
        numbers, residual, sums = _taken(sizes, reports.device)
        totals, tolerance, slack = (None, 0.0, 0.0) if rows is None else (sums, rows.tolerance, rows.slack)
        self.fused.interval_residuals(reports, marks, found.upper, residual, totals, slack, numbers)
        about = (residual, k, m, found.low, found.high, totals, tolerance, numbers)
        self.fused.finish(*about, absolute=self.absolute)
        read = self._read(numbers)
        return None if read is None else _Read(read[0], np.add.reduceat(read[1][:bins], found.starts))

    def _intervals_of_view(
        self, reports: Tensor, marks: Any, found: _Intervals, rows: PlainRows | None
    ) -> _Read | None:
        m, head, lanes = len(found.upper), self.fused.HEAD, self.fused.LANES
        (numbers,) = _taken([head + lanes * m], reports.device)
        if rows is not None:
            self.fused.check_and_count(*rows, numbers, found.upper)
        else:
            self.fused.view_residuals(reports, marks, found.upper, numbers)
        if lanes * m > _MOST_SENT:
            numbers = torch.cat([numbers[:head], numbers[head:].view(lanes, m).sum(0)])
        read = self._read(numbers)
        if read is None:
            return None
        residual = read[1].reshape(-1, m).sum(axis=0)
        bins = [np.add.reduceat(residual, first) for first in found.first]
        return _Read(read[0], np.array([np.abs(x).sum() if self.absolute else x @ x for x in bins]))

    def _read(self, numbers: Tensor) -> tuple[float, Array] | None:
        """The one transfer: how often the top class came, and what comes after the head; None where a row is wrong."""
        _make_ready()
        found: Array = fetched(numbers)
        if found[0]:
            return None
        return float(found[1 : 1 + self.fused.LANES].sum()), found[self.fused.HEAD :]


def _even(size: int) -> int:
    """The next size after which an array begins where 16 bytes do."""
    return size + size % 2


class _Spare(threading.local):
    """Arrays for the calls of a thread, in turn: while one is in use the one before becomes zeros for the next call, at
    a time when the device is busy anyway."""

    zeros: Tensor | None = None
    used: Tensor | None = None
    before: Tensor | None = None


_spare = _Spare()


def _taken(sizes: Sequence[int], device: torch.device) -> Sequence[Tensor]:
    """Arrays of zeros, side by side in one: that of the thread where it fits."""
    size = sum(sizes)
    found, _spare.zeros = _spare.zeros, None  # a call that breaks off leaves none
    if found is None or found.shape[0] != size or found.device != device:
        found, _spare.used = _zeros(size, device), None
    _spare.before, _spare.used = _spare.used, found if size <= _MOST_SPARE else None
    return found.split_with_sizes(sizes)


def _make_ready() -> None:
    """Zeros for a next call like the present one; before its numbers are read, which waits for them too."""
    if (used := _spare.used) is not None:
        _spare.zeros = _zeros(len(used), used.device) if _spare.before is None else _spare.before.zero_()


def _zeros(size: int, device: torch.device) -> Tensor:
    """Zeros to add to; outside inference mode torch would not write to what was made inside."""
    with torch.inference_mode(False):
        return torch.zeros(size, dtype=torch.float64, device=device)
