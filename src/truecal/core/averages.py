"""Averages over random partitions of the line, through their closed forms: `TwoBin`, `Poisson`, either `OnGrid`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, final

import numpy as np

from .arrays import LIBRARY
from .cells import KernelCells
from .data import check_positive_int, shown, working_dtype
from .edges import MOST_EDGES, interval_index, needed
from .parameters import described
from .rules import BinningRule, EqualWidth
from .sample import Bounds, Reports
from .types import Array

FORM_BLOCK = 1 << 16  # points of an average over cuts that are looked at together


class AveragedRule(BinningRule):
    """An average over random partitions of the line, through its closed form."""

    averages = True
    compiled = ""
    """The compiled loop over sorted 0/1 outcomes in `sums.compiled_order`, where there is one."""

    def kernel(self) -> AveragedRule:
        """The rule whose kernel this is, on the places that reports have here."""
        return self

    def places(self, reports: Array, bounds: Bounds | None) -> Array:
        """Where reports sit on the line."""
        return np.asarray(reports, dtype=np.float64)

    @abstractmethod
    def running(self, bounds: Bounds | None) -> RunningForm:
        """The form before its first point."""

    def form(self, points: Array, sums: Array, bounds: Bounds | None) -> Array:
        """S'GS for each row S of `sums`, whose columns sit at the sorted `points`."""
        running = self.running(bounds)
        for start in range(0, len(points), FORM_BLOCK):
            block = slice(start, start + FORM_BLOCK)
            running.add(points[block], sums[:, block])
        return running.value

    def view_cells(self, seen: Reports, ties: str, j: int) -> KernelCells:
        reports = seen.view(j).astype(working_dtype(seen.values), copy=False)
        order = np.argsort(reports, kind="stable")
        return KernelCells(self.kernel(), order, self.places(reports[order], seen.bounds), seen.bounds)

    def unit_points(self, points: Array, bounds: Bounds | None) -> Array:
        """Sorted points in units of the kernel; a rule with one is a `Kernel`, which tests and intervals need."""
        raise TypeError(f"{self!r} has no closed form for intervals and tests; use TwoBin or Poisson")


class RunningForm(ABC):
    """A quadratic form of sums at sorted points, added up block by block: no more than a block of them is held.

    Points and sums are arrays of numpy or tensors of torch; views share their points, or each has its own row.
    """

    @abstractmethod
    def add(self, points: Array, sums: Array) -> None:
        """The next points, none smaller than the last, and (views, points) sums at them."""

    @property
    @abstractmethod
    def value(self) -> Array:
        """S'GS of each view."""


@final
@dataclass(frozen=True)
class TwoBin(AveragedRule):
    """Averaged two-bin error (ATB): one cut uniform on the range, two bins; G(u, v) = 1 − |u − v|.

    With prefix sums L_j of the sorted residuals and gaps w_j, n²·error = Σ_j w_j (L_j² + (T − L_j)²).
    """

    reference = "Hartline, Hu, Wu 2026, COLT, PMLR 336:3185"
    text = "the two sides of a cut, averaged over all cuts"
    compiled = "two_bin"

    def running(self, bounds: Bounds | None) -> RunningForm:
        if bounds is None:
            raise ValueError("the two-bin rule needs range=(low, high), because the reports are not probabilities")
        return _RunningTwoBin(bounds)

    def streamed(self) -> BinningRule:
        return OnGrid(self)

    def unit_points(self, points: Array, bounds: Bounds | None) -> Array:
        if bounds is None:
            raise ValueError("the two-bin rule needs range=(low, high), because the reports are not probabilities")
        return np.asarray((points - bounds[0]) / (bounds[1] - bounds[0]))

    def others(self, points: Array, r: Array) -> Array:
        mass, moment = np.cumsum(r, axis=1), np.cumsum(points * r, axis=1)
        distance = points * (2 * mass - mass[:, -1:]) - (2 * moment - moment[:, -1:])
        return np.asarray(mass[:, -1:] - distance - r)

    def before(self, points: Array, r: Array, first: Array) -> Array:
        start = np.maximum.accumulate(np.where(first, np.arange(len(r)), 0))
        mass, moment = (np.concatenate([[0.0], np.cumsum(x)[:-1]]) for x in (r, points * r))
        return np.asarray((1 - points) * (mass - mass[start]) + (moment - moment[start]))

    def squared_form(self, points: Array, s: Array) -> float:
        # (1 − d)² = 1 − 2d + d², and Σ s_i s_j d² is twice the total times a variance.
        total, near = float(s.sum()), float(self.form(points, s[None], (0.0, 1.0))[0])
        centred = points - (s @ points) / total if total > 0 else points
        return float(2 * near - total**2 + 2 * total * (s @ np.square(centred)))


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
        self._second = self._second + LIBRARY[type(sums)].linalg.vecdot(prefix[:, :-1], before)[:, None]
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
    steps: Array = LIBRARY[type(points)].empty_like(points)
    steps[..., :1] = points[..., :1] - last
    steps[..., 1:] = points[..., 1:] - points[..., :-1]
    return steps


@described()
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

    def streamed(self) -> BinningRule:
        return OnGrid(self)

    def unit_points(self, points: Array, bounds: Bounds | None) -> Array:
        return np.asarray(points / self.theta)

    def others(self, points: Array, r: Array) -> Array:
        decay = np.exp(-np.diff(points, prepend=points[0]))
        after = decayed_prefix(np.append(1.0, decay[:0:-1]), r[:, ::-1])[:, ::-1]
        return np.asarray(decayed_prefix(decay, r) + after)

    def before(self, points: Array, r: Array, first: Array) -> Array:
        with np.errstate(over="ignore"):  # the step back from one run to the next is masked
            decay = np.where(first, 0.0, np.exp(-np.diff(points, prepend=points[0])))
        return np.asarray(decayed_prefix(decay, r[None, :])[0])

    def squared_form(self, points: Array, s: Array) -> float:
        return float(Poisson(0.5).form(points, s[None], None)[0])  # exp(−d)² is the kernel at half the scale


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
        self._value = self._value + LIBRARY[type(sums)].linalg.vecdot(sums, sums + 2 * carried)
        self._carried, self._last = carried[:, -1:] + sums[:, -1:], points[..., -1:]

    def _decay(self, distance: Array) -> Array:
        with np.errstate(over="ignore"):  # a tiny θ cuts everywhere: exp(−inf) is the right 0
            decay: Array = LIBRARY[type(distance)].exp(-distance / self._theta)
        return decay

    @property
    def value(self) -> Array:
        value: Array = self._value
        return value


def decayed_prefix(decay: Array, sums: Array) -> Array:
    """A_j = (A_{j−1} + S_{j−1})·decay_j with A_0 = 0, by doubling: stable for every θ, since no factor exceeds 1."""
    factor = 1.0 * decay
    carried: Array = LIBRARY[type(sums)].zeros_like(sums)
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
    on_device = False

    def __post_init__(self) -> None:
        if not isinstance(self.rule, (TwoBin, Poisson)):
            raise TypeError(f"OnGrid takes TwoBin() or Poisson(theta), got {shown(self.rule)}")
        check_positive_int(self.cells, "cells", MOST_EDGES)

    def kernel(self) -> AveragedRule:
        return self.rule

    def streamed(self) -> BinningRule:
        return self

    @property
    def counted(self) -> BinningRule:
        return EqualWidth(self.cells)

    def edges(self, bounds: Bounds | None, dtype: np.dtype[Any]) -> Array:
        """The edges of the grid in the dtype of the reports."""
        return EqualWidth(self.cells).edges(bounds, dtype)[0]

    def midpoints(self, bounds: Bounds | None) -> Array:
        """Where the cells are."""
        low, high = needed(bounds)
        return np.asarray(low + (high - low) * ((np.arange(self.cells) + 0.5) / self.cells))

    def places(self, reports: Array, bounds: Bounds | None) -> Array:
        return np.asarray(self.midpoints(bounds)[interval_index(reports, self.edges(bounds, reports.dtype))])

    def running(self, bounds: Bounds | None) -> RunningForm:
        return self.rule.running(bounds)
