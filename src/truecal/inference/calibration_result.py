"""The result of a calibration test: its p-value, gap and forms, and the answer to "calibrated?"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, final

from ..core.result import Result
from ..core.words import p_text, points_text
from ..kinds.own_levels import NAME as OWN_LEVELS
from .checks import p_of_draws

FEWEST = 3
"""With fewer rows no gap has an interval."""
NAMED = 0.1  # with a larger p-value no violation is named


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
    """Whether the interval of the gap excludes 0 and a direction is clear, so that no reason is needed."""
    rows: str = "these rows"
    """How many rows there are, such as "20 rows"."""
    widest: tuple[str, float] | None = None
    """Of labels that are tested one by one, the one with the largest upper end of its gap, and that end."""

    @property
    def answer(self) -> Literal["yes", "no", "undecided", "untested"]:
        """The answer to "calibrated?": undecided where the data allow a gap of more than `TOLERABLE` points,
        of one label or of all."""
        most = 0.0 if self.widest is None else self.widest[1]
        if self.state == "not rejected" and self.allows is not None and max(self.allows, most) <= TOLERABLE:
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
        return f"{self.rows} allow a gap of up to {self.up_to}"

    @property
    def up_to(self) -> str:
        """The gap that keeps the question open, such as "13 points (label 15)"."""
        if self.widest is not None and self.allows is not None and self.allows <= TOLERABLE:
            return f"{points_text(self.widest[1])} points ({self.widest[0]})"
        return f"{points_text(self.allows)} points"

    @property
    def words(self) -> str:
        """ "no (p ≤ 0.005)", "yes (p = 0.40)" or "undecided: 20 rows allow a gap of up to 26 points"."""
        p = f" (p {self.p})" if self.p and self.answer != "undecided" else ""
        return f"{self.answer}{p}" + (f": {self.why}" if self.why else "")


@final
@dataclass(frozen=True, repr=False, eq=False)
class FormDetail(Result):
    """One form of the test with its own p-value, not corrected for the others."""

    name: str
    pvalue: float
    U: float | None = None
    n_bins: int | None = None
    null_sd: float | None = None
    low: float = 0.0
    """Where this form rejects, how many points the probabilities are off at least, at the level of all forms."""

    @property
    def text(self) -> str:
        """The name of the form, with U and its noise where it has one."""
        if self.U is None:
            return self.name
        return f"{self.name}: U {self.U:+.4g}, if calibrated ± {self.null_sd:.4g}"

    def __repr__(self) -> str:
        return f"{self.text}; {p_text(self.pvalue)}"


@final
@dataclass(frozen=True, repr=False, eq=False)
class CalibrationTest(Result):
    """The outcome of a calibration test; `pvalue` has exact level at every n under `null`.

    `strongest` describes the strongest violation; `details` holds every form that was tested. `gap`, `low` and `high`
    are the gap in points and its interval, where there is one. `standing` answers "calibrated?" as `evaluate` does.
    With `max_gap`, in points, `verdict` is "yes" where `high` is at most `max_gap`, "no" where `low` exceeds it, and
    "undecided" otherwise; `sentence` is the result as text.
    """

    pvalue: float
    strongest: str
    null: str
    n_bins: int | tuple[int, ...] | None
    n_resamples: int
    details: tuple[FormDetail, ...]
    n_samples: int
    tested: int
    """How many rows the test looked at: all, or as many as were chosen at random."""
    name: str
    settled: bool = False
    """Whether draws stopped early, because the p-value is far from rejecting."""
    looks: int = 1
    """Of how many tests, one per label, the p-value is the smallest, corrected."""
    folds: int = 0
    """Of cross-validated predictions, how many folds were tested: then `pvalue` is min(1, 2·mean of theirs)."""
    max_gap: float | None = None
    gap: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    """Why the interval of the gap is unreliable."""
    level: float = 0.95
    """The test rejects at p ≤ 1 − level."""
    low_gap: float = 0.0
    """Where the forms that reject are about the gap that is printed, that gap is at least so many points; else 0."""
    reason: str = ""
    """Where the test rejects, the strongest violation with its own number of points."""
    widest: tuple[str, float] | None = None
    """Of labels that are tested one by one, the one with the largest upper end of its gap, and that end."""
    direction: str = ""
    """The direction of the gap, where one is clear."""

    @property
    def floor(self) -> float:
        """The smallest p-value that so many draws can give."""
        return (2 if self.folds else self.looks) / (1 + self.n_resamples)

    @property
    def at_floor(self) -> bool:
        """Whether no draw was as extreme: the p-value is then a bound, not a value."""
        return self.pvalue <= 1.0000001 * self.floor

    @property
    def pvalue_text(self) -> str:
        """ "p = 0.032", or "p ≤ 0.001" where no draw was as extreme."""
        return p_text(self.pvalue, self.at_floor)

    @property
    def passed(self) -> bool | None:
        """Whether the gap is at most `max_gap`: None where the data cannot tell, or where there is no `max_gap`."""
        if self.max_gap is None or self.low is None or self.high is None or self.note:
            return None
        return True if self.high <= self.max_gap else False if self.low > self.max_gap else None

    @property
    def standing(self) -> Standing:
        """Whether the model is calibrated, and why not: the p-value and the interval of the gap together."""
        rejected = self.pvalue <= 1 - self.level
        state: Literal["rejected", "not rejected", "too few draws", "too few rows"]
        state = "rejected" if rejected else "not rejected"
        if not self.n_resamples:
            state = "too few rows"
        elif not self.settled and self.floor > 1 - self.level:  # draws stop early only where p is large
            state = "too few draws"
        rows = f"{self.n_samples} rows"
        found = Standing(state, self.pvalue, self.at_floor, self.reason, rows=rows, widest=self.widest)
        if self.gap is None and self.n_samples >= FEWEST:  # an error without a gap: the p-value alone decides
            return replace(found, allows=0.0, seen=True)
        if self.note or self.low is None or self.high is None or self.high != self.high:
            return found
        seen = self.low > 0 and self.name != OWN_LEVELS and self.direction != ""
        return replace(found, allows=self.high, seen=seen)

    @property
    def verdict(self) -> Literal["yes", "no", "undecided", "untested"]:
        """Whether the model is calibrated; with `max_gap`, whether its gap is at most that."""
        if self.max_gap is None:
            return self.standing.answer
        return "undecided" if self.passed is None else "yes" if self.passed else "no"

    @property
    def sentence(self) -> str:
        """The result as text."""
        if self.max_gap is None or self.gap is None or self.low is None or self.high is None:
            return f"undecided: {self.null}" if not self.n_resamples else self.standing.words
        limit = f"{self.max_gap:g} points"
        unit = " The limit is in percentage points: 5 for five points." if 0 < self.max_gap < 0.5 else ""
        if self.note:
            return f"The gap cannot be compared with {limit}: its interval is {self.note}.{unit}"
        gap = f"The gap of {points_text(self.gap)} points [{points_text(self.low)}, {points_text(self.high)}]"
        if self.passed is None:
            return f"{gap} may be below or above {limit}: take more rows.{unit}"
        return f"{gap} is at most {limit}." if self.passed else f"{gap} exceeds {limit}.{unit}"

    def __repr__(self) -> str:
        some = "" if self.tested == self.n_samples else f" ({self.tested} of them, chosen at random)"
        lines = [f"calibration test of {self.n_samples} samples{some}"]
        lines += [] if self.max_gap is None else [f"  {self.sentence}"]
        if self.gap is not None and self.low is not None and self.high is not None:
            size = f"[{points_text(self.low)}, {points_text(self.high)}]" if not self.note else "(interval unreliable)"
            lines.append(f"  gap           {points_text(self.gap)} points {size}")
        if not self.n_resamples:
            return "\n".join([*lines, f"  calibrated?   undecided: {self.null}"])
        lines.append(f"  calibrated?   {self.standing.words}")
        if self.pvalue <= NAMED and self.strongest and not (self.standing.answer == "no" and self.standing.why):
            lines.append(f"  strongest violation: {self.strongest}")
        joint = ", together" if len(self.details) > 1 else ""
        lines.append(f"  {self.name}, {self.n_resamples} draws: {self.pvalue_text}{joint}")
        lines += [f"    {detail.text}; {p_of_draws(detail.pvalue, self.n_resamples)}" for detail in self.details]
        lines.append(f"  null hypothesis: {self.null}")
        return "\n".join(lines)
