"""Binning rules: functions of the reports alone, each giving cells and a positive semidefinite form on their sums.

A rule never receives an outcome, so no rule can depend on one; that is the whole condition for truthfulness.
Four families, by what they need to look at:

- `FixedRule`: the cells are intervals given in advance (`EqualWidth`, `Edges`);
- `RankRule`: the cells are runs of the sorted reports (`Quantile`, `Exact`);
- `AveragedRule`: the closed form of an average over random partitions (`TwoBin`, `Poisson`, either `OnGrid`);
- `VectorRule`: cells for vector reports (`ArgmaxQuantile`, `ArgmaxEdges`, `KdTree`, `KMeans`; `Halfspaces` averages
  over directions).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Literal, final

import numpy as np

from ..backends import (
    beside,
    device_backend,
    is_tensor,
    median,
    namespace,
    on_cpu,
    row_products,
    stable_order,
    top_class_and_value,
    where_true,
)
from ..backends.numpy import interval_index
from .data import as_array, check_positive_int, check_seed, shown, working_dtype
from .sample import Bounds
from .types import Array

Ties = Literal["auto", "average", "together", "row"]
BinCounts = int | Sequence[int] | Literal["auto"] | Array
"""What n_bins may be: a count, several, or "auto", chosen from the numbers of rows and classes alone."""

DEFAULT_BINS = 15  # of equal width, as everybody's ECE has them; squared errors choose theirs by the rows
FORM_BLOCK = 1 << 16  # points of an average over cuts that are looked at together
_MOST_EDGES = 1 << 20  # more equal intervals than this are looked up, never listed
MOST_BINS = 10**8
MOST_DIRECTIONS = 10**4  # each costs a pass over the rows, and the average has long settled
TIES = ("auto", "average", "together", "row")


def read_bins(n_bins: BinCounts) -> int | tuple[int, ...] | Literal["auto"]:
    """One bin count, or a tuple of them, each a whole number of at least 1; or "auto"."""
    if isinstance(n_bins, np.ndarray) and n_bins.ndim == 0:
        n_bins = n_bins.item()
    if isinstance(n_bins, str) and n_bins == "auto":
        return "auto"
    if isinstance(n_bins, (str, bytes)) or not isinstance(n_bins, (Sequence, np.ndarray)):
        return check_positive_int(n_bins, "n_bins", MOST_BINS)
    counts = tuple(check_positive_int(m, "n_bins", MOST_BINS) for m in n_bins)
    if not counts:
        raise ValueError("n_bins must hold at least one count, got an empty sequence")
    return counts


def bins_text(n_bins: int | tuple[int, ...] | None) -> str:
    """ "15 bins", "5, 20 and 2000 bins", or nothing for a rule without bins."""
    if n_bins is None:
        return "no bin count"
    *rest, last = n_bins if isinstance(n_bins, tuple) else (n_bins,)
    if rest:
        return ", ".join(map(str, rest)) + f" and {last} bins"
    return "1 bin" if last == 1 else f"{last} bins"


def auto_bins(rows: int, views: int = 1) -> int:
    """m = (n·v)^(2/5), between 2 and n/5, for v averaged views: near the least error of the gap over many worlds.

    Reports and outcomes play no part, so an error at this count stays truthful.

    >>> from truecal.core.rules import auto_bins
    >>> auto_bins(5000), auto_bins(5000, 100)
    (30, 190)
    """
    return int(max(2, min(round((rows * views) ** 0.4), rows // 5)))


class BinningRule:
    """What every rule offers: how many bins were asked for, if it has bins at all."""

    n_bins: Any = None
    """What was asked for: a count, a tuple of them, or "auto"; None for a rule without any."""

    @property
    def counts(self) -> tuple[int, ...] | None:
        """The requested bin counts, or None for a rule without any."""
        if self.n_bins == "auto":
            raise ValueError("n_bins='auto' has no count before it meets a sample; see `at`")
        return self.n_bins if self.n_bins is None or self.several else (int(self.n_bins),)

    @property
    def has_counts(self) -> bool:
        """Whether the rule takes a number of bins."""
        return self.n_bins is not None

    @property
    def several(self) -> bool:
        """Whether a sequence of counts was asked for, so that answers are arrays."""
        return isinstance(self.n_bins, tuple)

    def at(self, rows: int, views: int) -> BinningRule:
        """The rule with its number of bins: "auto" becomes the count for so many rows and views."""
        return self.with_bins(self.auto(rows, views)) if self.n_bins == "auto" else self

    def auto(self, rows: int, views: int) -> int:
        """The automatic count of bins."""
        return auto_bins(rows, views)

    def with_bins(self, n_bins: BinCounts) -> BinningRule:
        """The same rule at another bin count, or at several."""
        if not self.has_counts:
            raise ValueError(f"n_bins={shown(n_bins)} cannot apply: {self!r} has no bin count")
        return replace(self, n_bins=read_bins(n_bins))  # type: ignore[type-var]  # a rule with counts is a dataclass

    def each(self) -> tuple[BinningRule, ...]:
        """The rule at each of its bin counts alone."""
        return (self,) if self.counts is None else tuple(self.with_bins(m) for m in self.counts)


@dataclass(frozen=True)
class CountedRule(BinningRule):
    """A rule that is told how many bins to make."""

    n_bins: int | Sequence[int] | Literal["auto"] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_bins", read_bins(self.n_bins))
        check_ties(getattr(self, "ties", "auto"))


class FixedRule(BinningRule):
    """Intervals (e_{j−1}, e_j] given in advance; the first also holds its left end."""

    @abstractmethod
    def edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        """For each requested count, all edges in the dtype of the reports."""

    def of_view(self, view: int) -> FixedRule:
        """The rule of one of several views: the same for all, unless each has edges of its own."""
        return self

    def cut(self, ordered: Array, bounds: Bounds | None) -> tuple[Runs, ...]:
        """For each requested count, the runs of sorted reports that share an interval."""
        every = self.edges(bounds, ordered.dtype)
        return tuple(Runs.between(np.searchsorted(ordered, e[1:-1], side="right"), len(ordered)) for e in every)


class RankRule(BinningRule):
    """Runs of the sorted reports."""

    @abstractmethod
    def cuts(self, ordered: Array) -> tuple[Array, ...]:
        """For each requested count, the positions between which the sorted reports form one cell."""

    def shared_cuts(self, n: int) -> tuple[Array, ...] | None:
        """The cuts when they depend on the number of reports only, else None."""
        return None


@dataclass(frozen=True)
class Runs:
    """The cells of one bin count that hold rows, as runs of sorted rows: cell `place[j]` begins at `start[j]`."""

    start: Array
    place: Array
    total: int
    """The number of all cells, empty ones too."""

    @staticmethod
    def between(cuts: Array, rows: int) -> Runs:
        """The runs between cuts; cells without rows are left out."""
        every = np.concatenate([[0], cuts, [rows]]).astype(np.int64)
        place = np.flatnonzero(every[1:] > every[:-1])
        return Runs(every[place], place, len(cuts) + 1)


class AveragedRule(BinningRule):
    """An average over random partitions of the line, through its closed form."""

    def places(self, reports: Array, bounds: Bounds | None) -> Array:
        """Where reports sit on the line."""
        return np.asarray(reports, dtype=np.float64)

    @abstractmethod
    def running(self, bounds: Bounds | None) -> RunningForm:
        """The form before its first point."""

    def mean_cells(self, bounds: Bounds | None) -> float | None:
        """The mean number m of cells, where the score takes the share min(1, m/n) of U; None where it is the mean of
        loss + gap² over the cuts."""
        return None

    def form(self, points: Array, sums: Array, bounds: Bounds | None) -> Array:
        """S'GS for each row S of `sums`, whose columns sit at the sorted `points`."""
        running = self.running(bounds)
        for start in range(0, len(points), FORM_BLOCK):
            block = slice(start, start + FORM_BLOCK)
            running.add(points[block], sums[:, block])
        return running.value


class RunningForm(ABC):
    """A quadratic form of sums at sorted points, added up block by block: no more than a block of them is held.

    Points and sums are arrays of numpy or tensors of torch; views share their points, or each has a row of its own.
    """

    @abstractmethod
    def add(self, points: Array, sums: Array) -> None:
        """The next points, none smaller than the last, and (views, points) sums at them."""

    @property
    @abstractmethod
    def value(self) -> Array:
        """S'GS of each view."""


class VectorRule(BinningRule):
    """Cells for reports that are vectors."""

    @abstractmethod
    def partition(self, reports: Array) -> Partition:
        """The rows in an order in which every cell is a run."""


@dataclass(frozen=True)
class Partition:
    """Rows in an order in which each cell is a run: cell j holds order[cuts[j−1]:cuts[j]]; arrays or tensors.

    `tied[i]` says that sorted row i has the same key as the row before it, so that a cut between them is arbitrary.
    """

    order: Array
    cuts: tuple[Array, ...]
    tied: Array | None = None

    @staticmethod
    def from_cells(cell: Array) -> Partition:
        """Cells given as one label per row."""
        order = stable_order(cell)
        ordered = cell[order]
        return Partition(order, (where_true(ordered[1:] != ordered[:-1]) + 1,))


def quantile_cuts(n: int, m: int) -> Array:
    """Ends of the first m−1 of m quantile bins: the sample at 1-based place i is in bin ceil(i·m/n).

    With as many bins as rows or more, every row has a bin of its own, and the empty bins between them are left out.
    """
    if m >= n:
        return np.arange(1, n, dtype=np.int64)
    return (np.arange(1, m, dtype=np.int64) * n) // m


def resolve_ties(rule: BinningRule, norm: str) -> str:
    """The tie treatment of a rule under a norm: "auto" is "average" for l2 and "together" for l1."""
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm must be 'l1' or 'l2', got {shown(norm)}")
    ties = getattr(rule, "ties", "auto")
    if norm == "l1" and ties == "average":
        raise ValueError("ties='average' cannot apply to norm='l1', which has no closed form; use 'together' or 'row'")
    if ties != "auto":
        return str(ties)
    return "average" if norm == "l2" else "together"


def check_ties(ties: Any) -> Ties:
    """One of the four ways to treat equal reports at a quantile boundary."""
    if ties not in TIES:
        raise ValueError(f"ties must be one of {', '.join(map(repr, TIES))}, got {shown(ties)}")
    return ties  # type: ignore[no-any-return]  # a member of TIES, which mypy cannot see


@final
@dataclass(frozen=True)
class Quantile(CountedRule, RankRule):
    """m bins of equal numbers of rows: sorted place i (from 1) goes to bin ceil(i·m/n).

    ties: "average" (exact expectation over all orders of equal reports; the l2 default), "together" (equal reports go
    to the bin of the first of them; the l1 default), "row" (the order of rows, the paper to the letter).
    """

    ties: Ties = "auto"

    def cuts(self, ordered: Array) -> tuple[Array, ...]:
        return self.shared_cuts(len(ordered))

    def shared_cuts(self, n: int) -> tuple[Array, ...]:
        return tuple(quantile_cuts(n, m) for m in self.counts or ())


@final
@dataclass(frozen=True)
class EqualWidth(CountedRule, FixedRule):
    """m bins ((j−1)/m, j/m] of equal width, 0 in the first; over (a, b) when reports live there."""

    n_bins: int | Sequence[int] | Literal["auto"] = DEFAULT_BINS

    def edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        return tuple(_edge(np.arange(m + 1), m, _needed(bounds), dtype) for m in self.counts or ())

    def cut(self, ordered: Array, bounds: Bounds | None) -> tuple[Runs, ...]:
        if max(self.counts or (1,)) <= _MOST_EDGES:
            return super().cut(ordered, bounds)
        return tuple(_crowded(ordered, m, _needed(bounds)) for m in self.counts or ())


def _needed(bounds: Bounds | None) -> Bounds:
    if bounds is None:
        raise ValueError("equal-width bins need range=(low, high), because the reports are not probabilities")
    return bounds


def _edge(j: Array, m: int, bounds: Bounds, dtype: np.dtype[Any]) -> Array:
    """Edge number j of m: j/m first, so that 0.7 with ten bins meets exactly the double 0.7."""
    low, high = bounds
    return np.asarray((low + (high - low) * (j / m)).astype(dtype))


def _crowded(ordered: Array, m: int, bounds: Bounds) -> Runs:
    """So many intervals that most are empty: each report looks for its own, and no edge is made that nobody needs.

    The interval of u is the first whose right edge is at least u; a guess from u·m is moved until that holds.
    """
    low, high = bounds
    cell = np.clip(np.ceil((ordered.astype(np.float64) - low) / (high - low) * m) - 1, 0, m - 1).astype(np.int64)
    while (below := (cell < m - 1) & (ordered > _edge(cell + 1, m, bounds, ordered.dtype))).any():
        cell += below
    while (above := (cell > 0) & (ordered <= _edge(cell, m, bounds, ordered.dtype))).any():
        cell -= above
    start = np.concatenate([[0], np.flatnonzero(cell[1:] != cell[:-1]) + 1])
    return Runs(start, cell[start], m)


@final
@dataclass(frozen=True)
class Edges(FixedRule):
    """Bins (e_{j−1}, e_j] between given edges, which must cover every report.

    One row of increasing edges serves every view. Several rows, (views, m + 1), give each view its own, such as frozen
    quantiles of each class; there neighbours may be equal: that bin stays empty, and m stays what was asked for.
    """

    values: tuple[Any, ...]

    def __init__(self, values: Any) -> None:
        array = _read_edges(values, 2)
        if array.ndim == 1 and not (np.diff(array) > 0).all():
            raise ValueError(f"edges must be at least two finite increasing numbers, got {shown(values)}")
        object.__setattr__(self, "values", _nested(array))

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Thousands of edges of each view are looked through once, not whenever their sums are looked up."""
        return hash(self.values)

    @property
    def per_view(self) -> bool:
        """Whether each view has edges of its own."""
        return isinstance(self.values[0], tuple)

    def of_view(self, view: int) -> FixedRule:
        return Edges([self.values[view]]) if self.per_view else self

    def edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> tuple[Array, ...]:
        return (np.asarray(self.values, dtype=dtype),)

    def cut(self, ordered: Array, bounds: Bounds | None) -> tuple[Runs, ...]:
        (edges,) = self.edges(bounds, ordered.dtype)
        inner = edges.reshape(-1, edges.shape[-1])[0, 1:-1]
        return (Runs.between(np.searchsorted(ordered, inner, side="right"), len(ordered)),)

    @property
    def n_cells(self) -> int:
        """The number of bins of a view."""
        return len(self.values[0] if self.per_view else self.values) - 1


def _read_edges(values: Any, most: int) -> Array:
    """Finite edges in order, in at most so many dimensions; those of a row may repeat."""
    array = np.asarray(as_array(values, "edges"))
    if array.dtype.kind not in "biuf":
        raise TypeError(f"edges must be numbers, got {shown(values)}")
    array = array.astype(np.float64)
    if not 1 <= array.ndim <= most or array.shape[-1] < 2 or not array.size or not np.isfinite(array).all():
        raise ValueError(f"edges must be at least two finite increasing numbers, got {shown(values)}")
    if not (np.diff(array, axis=-1) >= 0).all():
        raise ValueError(f"edges must not decrease within a row, got {shown(values)}")
    return array


def _nested(array: Array) -> tuple[Any, ...]:
    return tuple(map(tuple, array.tolist())) if array.ndim == 2 else tuple(array.tolist())


@final
@dataclass(frozen=True)
class Exact(RankRule, VectorRule):
    """One bin per distinct report, scalar or vector."""

    def cuts(self, ordered: Array) -> tuple[Array, ...]:
        return (np.flatnonzero(ordered[1:] != ordered[:-1]) + 1,)

    def partition(self, reports: Array) -> Partition:
        along: dict[str, Any] = {"dim" if is_tensor(reports) else "axis": 0}
        cell: Array = namespace(reports).unique(reports, return_inverse=True, **along)[1]
        return Partition.from_cells(cell.reshape(-1))


@final
@dataclass(frozen=True)
class TwoBin(AveragedRule):
    """Averaged two-bin error (ATB): one cut uniform on the range, two bins; G(u, v) = 1 − |u − v|.

    With prefix sums L_j of the sorted residuals and gaps w_j, n²·error = Σ_j w_j (L_j² + (T − L_j)²).
    """

    def running(self, bounds: Bounds | None) -> RunningForm:
        if bounds is None:
            raise ValueError("the two-bin rule needs range=(low, high), because the reports are not probabilities")
        return _RunningTwoBin(bounds)


@final
class _RunningTwoBin(RunningForm):
    """Σ_j w_j (L_j² + (T − L_j)²) = 2 Σ w L² − 2T Σ w L + T², since the gaps w add up to 1.

    No digits are lost: Σ w L² is at most the value itself, and |T Σ w L| at most √2 times it.
    """

    def __init__(self, bounds: Bounds) -> None:
        self._low, self._high = bounds
        self._last: Any = self._low
        self._prefix: Any = 0.0  # this and the next, once there are points: (views, 1)
        self._first: Any = 0.0
        self._second: Any = 0.0

    def add(self, points: Array, sums: Array) -> None:
        gaps = _steps(points, self._last) / (self._high - self._low)
        prefix = sums.cumsum(1)  # after each point
        prefix += self._prefix
        self._add_gap(gaps[..., :1])
        before = prefix[:, :-1] * gaps[..., 1:]
        self._first = self._first + before.sum(1)[:, None]
        self._second = self._second + row_products(prefix[:, :-1], before)[:, None]
        self._prefix, self._last = prefix[:, -1:] + 0.0, points[..., -1:]

    def _add_gap(self, gap: Any) -> None:
        """The gap after the last point so far."""
        self._first = self._first + gap * self._prefix
        self._second = self._second + gap * self._prefix**2

    @property
    def value(self) -> Array:
        gap, total = (self._high - self._last) / (self._high - self._low), self._prefix
        value: Array = 2 * (self._second + gap * total**2) - 2 * total * (self._first + gap * total) + total**2
        return value[:, 0]


def _steps(points: Array, last: Any) -> Array:
    """The distance of each point from the one before it, of the first from `last`."""
    steps: Array = namespace(points).empty_like(points)
    steps[..., :1] = points[..., :1] - last
    steps[..., 1:] = points[..., 1:] - points[..., :-1]
    return steps


@final
@dataclass(frozen=True)
class Poisson(AveragedRule):
    """Cuts of a Poisson process of rate 1/θ: no cut between u and v with chance exp(−|u − v|/θ), the Laplace kernel."""

    theta: float = 0.1

    def __post_init__(self) -> None:
        if isinstance(self.theta, bool) or not isinstance(self.theta, Real):
            raise TypeError(f"theta must be a positive number, got {shown(self.theta)}")
        if not 0 < self.theta < float("inf"):
            raise ValueError(f"theta must be a positive number, got {shown(self.theta)}")
        object.__setattr__(self, "theta", float(self.theta))

    def running(self, bounds: Bounds | None) -> RunningForm:
        return _RunningPoisson(self.theta)

    def mean_cells(self, bounds: Bounds | None) -> float | None:
        if bounds is None:
            raise ValueError("the number of Poisson cuts needs range=(low, high), since reports are not probabilities")
        return max(1.0, (bounds[1] - bounds[0]) / self.theta)


@final
class _RunningPoisson(RunningForm):
    """Σ_j S_j (S_j + 2A_j), A_j = (A_{j−1} + S_{j−1}) exp(−(u_j − u_{j−1})/θ)."""

    def __init__(self, theta: float) -> None:
        self._theta = theta
        self._last: Any = None  # this and the next, once there are points: (views, 1)
        self._carried: Any = None  # A + S at the last point
        self._value: Any = 0.0

    def add(self, points: Array, sums: Array) -> None:
        carried = decayed_prefix(self._decay(_steps(points, points[..., :1])), sums)
        if self._carried is not None:
            carried = carried + self._carried * self._decay(points - self._last)
        self._value = self._value + row_products(sums, sums + 2 * carried)
        self._carried, self._last = carried[:, -1:] + sums[:, -1:], points[..., -1:]

    def _decay(self, distance: Array) -> Array:
        with np.errstate(over="ignore"):  # a tiny θ cuts everywhere: exp(−inf) is the right 0
            decay: Array = namespace(distance).exp(-distance / self._theta)
        return decay

    @property
    def value(self) -> Array:
        value: Array = self._value
        return value


def decayed_prefix(decay: Array, sums: Array) -> Array:
    """A_j = (A_{j−1} + S_{j−1})·decay_j with A_0 = 0, by doubling: stable for every θ, since no factor exceeds 1."""
    factor = 1.0 * decay
    carried: Array = namespace(sums).zeros_like(sums)
    carried[:, 1:] = sums[:, :-1] * decay[..., 1:]
    factor[..., :1] = 0.0
    step = 1
    while step < factor.shape[-1] and factor[..., step:].any():
        carried[:, step:] += carried[:, :-step] * factor[..., step:]
        factor[..., step:] = factor[..., step:] * factor[..., :-step]
        factor[..., :step] = 0.0
        step *= 2
    return carried


@final
@dataclass(frozen=True)
class OnGrid(AveragedRule):
    """An average over cuts that fall only between the cells of an equal-width grid, so that sums over cells are enough.

    TwoBin: of N cells one of N − 1 inner edges is the cut, or none is, each with chance 1/N, so G = 1 − |a − b|/N for
    cells a and b. Poisson: each inner edge is a cut with chance 1 − exp(−1/(Nθ)). Both are averages of partitions made
    without outcomes, hence exactly truthful, and the kernel of the rule itself between the midpoints of the cells.
    """

    rule: TwoBin | Poisson
    cells: int = 4096

    def __post_init__(self) -> None:
        if not isinstance(self.rule, (TwoBin, Poisson)):
            raise TypeError(f"OnGrid takes TwoBin() or Poisson(theta), got {shown(self.rule)}")
        check_positive_int(self.cells, "cells", _MOST_EDGES)

    def edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> Array:
        """The edges of the grid in the dtype of the reports."""
        return EqualWidth(self.cells).edges(bounds, dtype)[0]

    def midpoints(self, bounds: Bounds | None) -> Array:
        """Where the cells sit."""
        low, high = _needed(bounds)
        return np.asarray(low + (high - low) * ((np.arange(self.cells) + 0.5) / self.cells))

    def places(self, reports: Array, bounds: Bounds | None) -> Array:
        return np.asarray(self.midpoints(bounds)[interval_index(reports, self.edges(bounds, reports.dtype))])

    def running(self, bounds: Bounds | None) -> RunningForm:
        return self.rule.running(bounds)

    def mean_cells(self, bounds: Bounds | None) -> float | None:
        return self.rule.mean_cells(bounds)


@final
@dataclass(frozen=True)
class ArgmaxQuantile(CountedRule, VectorRule):
    """Within each argmax class, n_bins quantile bins of the confidence."""

    ties: Ties = "auto"

    def partition(self, reports: Array) -> Partition:
        top, confidence = top_class_and_value(reports)
        order = stable_order(confidence)
        order = order[stable_order(top[order])]
        sizes = np.asarray(on_cpu(namespace(top).bincount(top, minlength=reports.shape[1])))
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        cuts = tuple(beside(_cuts_within(starts, sizes, m), reports) for m in self.counts or ())
        value, group = confidence[order], top[order]
        tied: Array = group != group
        tied[1:] = (value[1:] == value[:-1]) & (group[1:] == group[:-1])
        return Partition(order, cuts, tied)

    def auto(self, rows: int, views: int) -> int:
        return max(1, round(auto_bins(rows, views) / views))


def _cuts_within(starts: Array, sizes: Array, m: int) -> Array:
    """The cuts of m quantile bins inside each of several runs, and between the runs; bins without rows are left out."""
    runs = zip(starts.tolist(), sizes.tolist(), strict=True)
    cuts = np.concatenate([start + np.append(quantile_cuts(size, m), size) for start, size in runs if size])
    return np.unique(cuts)[:-1]


@final
@dataclass(frozen=True)
class ArgmaxEdges(VectorRule):
    """Within each argmax class j, bins of the confidence between the edges of row j: `ArgmaxQuantile`, frozen.

    `values` is (k, m + 1) and does not decrease within a row; cell j·m + b is bin b of argmax class j.
    """

    values: tuple[tuple[float, ...], ...]

    def __init__(self, values: Any) -> None:
        array = _read_edges(values, 2)
        if array.ndim != 2:
            raise ValueError(f"edges must have one row per class, got shape {array.shape}")
        object.__setattr__(self, "values", _nested(array))

    @property
    def n_cells(self) -> int:
        """The number of bins within a class."""
        return len(self.values[0]) - 1

    def edges(self, dtype: np.dtype[Any]) -> Array:
        """All edges in the dtype of the reports."""
        return np.asarray(self.values, dtype=dtype)

    def index(self, reports: Array) -> Array:
        """The cell of each row."""
        if reports.shape[1] != len(self.values):
            raise ValueError(f"edges are of {len(self.values)} classes, reports have {reports.shape[1]}")
        top, confidence = top_class_and_value(reports)
        edges, cell = self.edges(working_dtype(reports)), np.empty(len(reports), dtype=np.intp)
        confidence = confidence.astype(edges.dtype, copy=False)
        for j, row in enumerate(edges):
            mine = np.flatnonzero(top == j)
            cell[mine] = j * self.n_cells + interval_index(confidence[mine], row)
        return cell

    def partition(self, reports: Array) -> Partition:
        cell = self.index(reports)
        order = np.argsort(cell, kind="stable")
        inner = np.arange(1, self.n_cells * len(self.values))
        return Partition(order, (np.searchsorted(cell[order], inner, side="left"),))


@final
@dataclass(frozen=True)
class KdTree(CountedRule, VectorRule):
    """Median splits of the widest coordinate to depth ceil(log2 n_bins); at most the median goes left."""

    def partition(self, reports: Array) -> Partition:
        depths = [int(m - 1).bit_length() for m in self.counts or ()]
        order, levels = _kd_levels(reports, max(depths))
        return Partition(order, tuple(levels[min(depth, len(levels) - 1)] for depth in depths))


def _kd_levels(reports: Array, depth: int) -> tuple[Array, list[Array]]:
    """Row order of the deepest tree, and the cuts at every depth: deeper trees refine shallower ones."""
    xp = namespace(reports)
    runs = [xp.arange(len(reports), device=reports.device)]
    levels = [runs[0][:0]]
    for _ in range(depth):
        runs = [half for run in runs for half in _split_at_median(reports, run) if len(half)]
        levels.append(beside(np.cumsum([len(run) for run in runs])[:-1], reports))
    return xp.concatenate(runs), levels


def _split_at_median(reports: Array, rows: Array) -> tuple[Array, Array]:
    xp, here = namespace(reports), reports[rows]
    column = here[:, xp.argmax(xp.amax(here, axis=0) - xp.amin(here, axis=0))]
    left = column <= median(column)
    return rows[left], rows[~left]


@final
@dataclass(frozen=True)
class KMeans(CountedRule, VectorRule):
    """Clusters of the reports by k-means (scipy's, seeded): cells follow where the reports are, never the outcomes."""

    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.several:
            raise ValueError(f"n_bins of KMeans must be one number of clusters, got {shown(self.n_bins)}")
        check_seed(self.seed)

    def partition(self, reports: Array) -> Partition:
        if is_tensor(reports):  # scipy's iteration, which takes no tensors, is done again there
            return Partition.from_cells(device_backend().k_means(self, reports))
        from scipy.cluster.vq import kmeans, vq

        points = np.asarray(reports, dtype=np.float64)
        distinct = np.unique(points, axis=0)
        clusters = min(int(self.n_bins), len(distinct))  # type: ignore[arg-type]  # one count, see __post_init__
        rng = np.random.default_rng(self.seed)
        start = distinct[rng.choice(len(distinct), clusters, replace=False)]
        return Partition.from_cells(vq(points, kmeans(points, start)[0])[0])


@final
@dataclass(frozen=True)
class Halfspaces(BinningRule):
    """Random half-spaces: the two-bin average along seeded Gaussian directions w, of (w·p − min w)/(max w − min w).

    Each direction gives a kernel with unit diagonal that depends on reports only, so their mean is exactly truthful
    for any number of directions.
    """

    n_directions: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive_int(self.n_directions, "n_directions", MOST_DIRECTIONS)
        check_seed(self.seed)

    def keys(self, reports: Array) -> Iterator[Array]:
        """One scalar in [0, 1] per row, direction by direction."""
        rng = np.random.default_rng(self.seed)
        for _ in range(self.n_directions):
            direction = rng.standard_normal((reports.shape[1],))
            low, high = direction.min(), direction.max()
            along = device_backend().times(reports, direction) if is_tensor(reports) else reports @ direction
            yield namespace(reports).clip((along - low) / (high - low), 0.0, 1.0)


SCALAR_STRATEGIES: dict[str, type[BinningRule]] = {
    "quantile": Quantile,
    "uniform": EqualWidth,
    "two_bin": TwoBin,
    "poisson": Poisson,
    "exact": Exact,
}
VECTOR_STRATEGIES: dict[str, type[BinningRule]] = {
    "argmax": ArgmaxQuantile,
    "kd": KdTree,
    "halfspace": Halfspaces,
    "exact": Exact,
}


def read_rule(
    strategy: Any,
    n_bins: BinCounts | None,
    ties: Ties,
    *,
    names: dict[str, type[BinningRule]] = SCALAR_STRATEGIES,
) -> BinningRule:
    """The rule behind a strategy name, or the rule object itself; an option that cannot apply raises."""
    check_ties(ties)
    if isinstance(strategy, BinningRule):
        if n_bins is not None:
            raise ValueError(
                f"n_bins={shown(n_bins)} cannot apply: strategy is the rule {shown(strategy)}, which has its own"
            )
        if ties != "auto":
            raise ValueError(
                f"ties={shown(ties)} cannot apply: strategy is the rule {shown(strategy)}; set ties on the rule"
            )
        return strategy
    if not isinstance(strategy, str) or strategy not in names:
        known = ", ".join(map(repr, names))
        raise ValueError(f"strategy must be one of {known} or a rule object, got {shown(strategy)}")
    kind = names[strategy]
    options: dict[str, Any] = {}
    if n_bins is not None:
        if kind.n_bins is None:
            raise ValueError(f"n_bins={shown(n_bins)} cannot apply: strategy={shown(strategy)} has no bin count")
        options["n_bins"] = read_bins(n_bins)
    if ties != "auto":
        if not hasattr(kind, "ties"):
            raise ValueError(f"ties={shown(ties)} cannot apply: strategy={shown(strategy)} has no ties to break")
        options["ties"] = ties
    return kind(**options)
