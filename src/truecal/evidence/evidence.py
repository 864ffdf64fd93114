"""Evidence: the measurements of one model, the same for every source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..core.types import Array, Groups
from ..inference.binned_sample import BinnedSample
from ..inference.calibration_result import CalibrationTest
from ..inference.direction import MeanGap
from ..inference.gaps import Gap
from ..inference.mean_losses import IntervalEstimate
from ..inference.paired import block_loss_part, differing, loss_part
from ..inference.spread import Spread
from ..inference.thresholds import Discrimination
from ..kinds import Kind
from ..kinds.kind import Scale
from .values import ErrorValue, LossValue, Reliability
from .views import ViewValue


@dataclass(eq=False)
class Evidence:
    """Measurements of one model from memory, a stream, a query or sampled answers.

    What a source cannot give is None or empty, and a note tells why. `spreads` and `binned` (in memory) or
    `block_losses` (where the rows are gone) are what pairs of models are compared by.
    """

    kind: Kind
    n_samples: int
    n_classes: int | None
    level: float
    direction: MeanGap
    losses: tuple[LossValue, ...] = ()
    errors: list[ErrorValue] = field(default_factory=list)
    gaps: dict[str, Gap] = field(default_factory=dict)
    test: CalibrationTest | None = None
    reliability: dict[str, Reliability] = field(default_factory=dict)
    views: tuple[ViewValue, ...] = ()
    """Every label, class or threshold of the main error."""
    discrimination: tuple[Discrimination, ...] = ()
    sampling: Any = None
    """Of sampled answers: how many there are, and the naive confidence."""
    notes: list[str] = field(default_factory=list)
    scale: Scale | None = None
    """What the mean place of outcomes that have an order is in their units."""
    copies: int = 0
    """Rows that repeat others in predictions and label."""
    binned: dict[str, BinnedSample] = field(default_factory=dict)
    spreads: dict[str, dict[int | None, Spread]] = field(default_factory=dict)
    block_losses: dict[str, tuple[Array, Array, str]] = field(default_factory=dict)
    """Σ w·loss and Σ w of each block of rows, by error, and why not to trust them."""
    known: dict[tuple[str, int], float] = field(default_factory=dict)
    """In how many rows other models differ, by error."""

    def note(self, text: str) -> None:
        """Add a note, once."""
        if text not in self.notes:
            self.notes.append(text)

    def add_gap(self, name: str, gap: Gap) -> None:
        """Add the gap of an error."""
        self.gaps[name] = gap

    def loss_difference(
        self, error: str, other: Evidence, level: float, groups: Groups | None, comparisons: int = 1
    ) -> IntervalEstimate | None:
        """The loss of an error minus that of another model, with an interval joint over so many comparisons."""
        if error in self.block_losses:
            (mine, weight, few), (theirs, _, fewer) = self.block_losses[error], other.block_losses[error]
            return block_loss_part(mine - theirs, weight, level, comparisons, few or fewer)
        if error not in self.binned:
            return None
        return loss_part(self.binned[error], other.binned[error], level, groups, comparisons)

    def differing(self, error: str, other: Evidence, groups: Groups | None) -> float:
        """In how many rows or clusters another model has another loss, effectively; infinite where rows are gone."""
        if error not in self.binned or error not in other.binned:
            return float("inf")
        key = (error, id(other.binned[error]))
        if key not in self.known:
            self.known[key] = differing(self.binned[error], other.binned[error], groups)
        return self.known[key]
