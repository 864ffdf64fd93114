"""The answer to "calibrated?", from the test and the interval of the gap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, final

from ..core.words import p_text, points_text

TOLERABLE = 10.0
"""A model that is not rejected is called calibrated only where its gap is at most so many points."""


@final
@dataclass(frozen=True)
class Standing:
    """The calibration test of one model, corrected for the number of models.

    `pvalue` is corrected over the models by Holm's step-down method, so that the chance of rejecting any calibrated one
    of them stays at 1 − level; `at_floor`: no draw was as extreme, and the p-value is a bound. "too few draws" means
    that even the smallest p-value that the draws allow would not reject.
    """

    state: Literal["rejected", "not rejected", "untested", "too few draws", "too few rows"]
    pvalue: float | None = None
    at_floor: bool = False
    reason: str = ""
    """Where the test rejects, the strongest violation with its own number of points."""
    allows: float | None = None
    """The upper end of the interval of the gap in points, where it can be trusted."""
    seen: bool = False
    """Whether the interval of the gap excludes 0, so that the gap is the reason."""
    rows: str = "these rows"
    """How many rows there are, such as "20 rows"."""

    @property
    def answer(self) -> Literal["yes", "no", "undecided", "untested"]:
        """The answer to "calibrated?": undecided where the data allow a gap of more than `TOLERABLE` points."""
        if self.state == "not rejected" and self.allows is not None and self.allows <= TOLERABLE:
            return "yes"
        if self.state in ("untested", "too few draws"):
            return "untested"
        return "no" if self.state == "rejected" else "undecided"

    @property
    def p(self) -> str:
        """ "≤ 0.005" or "= 0.40"; empty without a test."""
        if self.pvalue is None or self.answer == "untested":
            return ""
        return p_text(self.pvalue, self.at_floor).removeprefix("p ")

    @property
    def why(self) -> str:
        """The reason of a "no" that the gap does not show, or what keeps the question open."""
        if self.answer == "no":
            return "" if self.seen else self.reason
        if self.answer != "undecided":
            return self.state if self.state == "too few draws" else ""
        if self.allows is None:
            return "too few rows"
        return f"{self.rows} allow a gap of up to {points_text(self.allows)} points"

    @property
    def words(self) -> str:
        """ "no (p ≤ 0.005)", "yes (p = 0.40)" or "undecided: 20 rows allow a gap of up to 26 points"."""
        p = f" (p {self.p})" if self.p and self.answer != "undecided" else ""
        return f"{self.answer}{p}" + (f": {self.why}" if self.why else "")
