"""Whether a theorem of the paper keeps two models in one order at every number of bins: bias against losses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import add
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from ..core.result import Result
from ..evidence.values import ErrorValue
from ..inference.mean_losses import IntervalEstimate

if TYPE_CHECKING:
    from .decision_curve import CurveDifference

Condition = Literal["applies", "does not apply", "cannot be told"]


class Within(NamedTuple):
    """An estimate and the ends of its interval; infinite where nothing is known."""

    estimate: float
    low: float
    high: float

    @property
    def state(self) -> Condition:
        """The state that the sign of a margin implies."""
        return "applies" if self.low >= 0 else "does not apply" if self.high < 0 else "cannot be told"


@dataclass(frozen=True)
class OrderAt:
    """The theorem at one number of bins: the bias ρ of the better model and what is left of the gap of the losses."""

    n_bins: int | None
    rho: Within
    margin: Within

    @property
    def condition(self) -> Condition:
        return self.margin.state


@dataclass(frozen=True, repr=False)
class SameOrder(Result):
    """Whether the errors of two models are in the order of their losses at every number of bins.

    The paper's theorem of approximate order: n·error = loss of the recalibrated model + ρ, ρ ≥ 0, at every number of
    bins. Where ρ of the model with the lower loss is at most the gap of the losses of the two recalibrated models, its
    expected error is the lower one. `loss_gap` is that gap and `at` has ρ and the margin loss_gap − ρ at each number
    of bins. Recalibrated losses are losses less the squared calibration gap.

    `decisions`, of one event, is the difference of the net benefits: for whom the predictions of `better`, as they are,
    are better to act on. Where both models are calibrated and it is so for every decision maker, `better` dominates the
    other by Blackwell's order, and the order is the same at every number of bins.
    """

    better: str
    worse: str
    error: str
    loss_gap: Within
    at: tuple[OrderAt, ...]
    level: float
    decisions: CurveDifference | None = None
    derived = ("condition", "sentence")

    @property
    def condition(self) -> Condition:
        """It applies where it does so at every number of bins, and does not where it fails at one."""
        found = {one.condition for one in self.at}
        return "does not apply" if "does not apply" in found else found.pop() if len(found) == 1 else "cannot be told"

    @property
    def sentence(self) -> str:
        """One sentence about the errors, and one about decision makers where they were asked for."""
        return self._of_errors + ("" if self.decisions is None else f"; {self.decisions.sentence}")

    @property
    def _of_errors(self) -> str:
        pair = f"{self.better} and {self.worse}"
        found = {word: [one.n_bins for one in self.at if one.condition == word] for word in get_args(Condition)}
        bins = {word: _bins(counts) for word, counts in found.items() if counts}
        if self.condition == "applies":
            return f"the order of {pair} is the same {bins['applies']}: the theorem applies"
        if self.condition == "cannot be told":
            applies = f"; the theorem applies {bins['applies']}" if "applies" in bins else ""
            told = f"cannot be told {bins[self.condition]}: the intervals are too wide"
            return f"whether the order of {pair} is the same {told}{applies}"
        return (
            f"the order of {pair} may change with the bins: the theorem does not apply {bins['does not apply']}, where "
            f"the calibration bias of {self.better} exceeds the gap of the losses"
        )

    def __repr__(self) -> str:
        lines = [self._of_errors, f"  loss gap after recalibration {_shown(self.loss_gap)}"]
        for one in self.at:
            bins = "no bins" if one.n_bins is None else f"{one.n_bins} bins"
            lines.append(f"  {bins:>9}: ρ of {self.better} {_shown(one.rho)}, {one.condition}")
        return "\n".join(lines if self.decisions is None else [*lines, self.decisions.sentence])


def _bins(counts: Sequence[int | None]) -> str:
    """Numbers of bins in words."""
    *some, last = [str(m) for m in counts if m is not None] or [""]
    if not last:
        return "without bins"
    return f"at {', '.join(some)} and {last} bins" if some else f"at {last} bins"


def _shown(found: Within) -> str:
    return f"{found.estimate:.4g} [{found.low:.4g}, {found.high:.4g}]"


def gap_squared(row: ErrorValue) -> Within:
    """How much lower the loss is after recalibration: the squared gap at a row's number of bins, at least 0."""
    return Within(*[max(0.0, end * abs(end)) / 1e4 for end in _ends(row, "gap")])


def order_at(loss: IntervalEstimate, better: ErrorValue, of_better: Within, of_worse: Within) -> OrderAt:
    """The theorem at one number of bins: `loss` is that of the worse model less that of the better one.

    n·error = loss + U, so ρ of the better model is U plus its squared gap. The latter is in the gap of the recalibrated
    losses too and cancels: the margin is the gap of the losses less U of the better model, less the squared gap of the
    worse. Ends of intervals are added: standard errors of a sum are at most the sum of standard errors.
    """
    u = Within(*[max(0.0, end) for end in _ends(better, "U")])
    rho = Within(*map(add, u, of_better))
    margin = (
        loss.estimate - u.estimate - of_worse.estimate,
        loss.low - u.high - of_worse.high,
        loss.high - u.low - of_worse.low,
    )
    return OrderAt(better.n_bins, rho, Within(*margin))


def recalibrated_gap(loss: IntervalEstimate, of_better: Within, of_worse: Within) -> Within:
    """The gap of the losses of both models after recalibration: the worse less the better."""
    return Within(
        loss.estimate - of_worse.estimate + of_better.estimate,
        loss.low - of_worse.high + of_better.low,
        loss.high - of_worse.low + of_better.high,
    )


def _ends(row: ErrorValue, name: str) -> list[float]:
    """A field of a row with its interval; nothing but its sign is known where one of them is missing."""
    found = [getattr(row, name), getattr(row, f"{name}_low"), getattr(row, f"{name}_high")]
    return [0.0, 0.0, math.inf] if None in found or any(map(math.isnan, found)) else found
