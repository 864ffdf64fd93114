"""Evaluation: one model, measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ..baselines import ERRORS
from ..core.data import shown
from ..core.extras import require
from ..core.result import Pictured, html_text, plain, table_html
from ..core.words import count_text
from ..evidence.of_answers import Sampling
from ..evidence.values import ErrorValue, LossValue, Reliability, errors_with_gap
from ..evidence.views import ViewValue
from ..inference.calibration_result import CalibrationTest, Standing
from ..inference.direction import MeanGap
from ..inference.gaps import Gap
from ..inference.thresholds import Discrimination
from ..kinds import COMPOSED, KINDS, Kind
from ..kinds.kind import Scale
from .columns import Row, lines, record
from .diagram import reliability_svg
from .explain import explanation
from .first_screen import first_screen, subgroup_table, view_table
from .measurement import Measurement
from .verdict import Verdict, give_verdict

if TYPE_CHECKING:
    from ..inference.segments import Segments


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation(Pictured, Measurement):
    """One model, measured.

    `losses`, `errors` (one entry per error and bin count), `gaps` (by notion: the confidence, and each class or the
    positive one), `test` (is it calibrated?), `direction` (mean confidence minus accuracy), `reliability` (by error),
    `views` (of several labels or ordered classes: every label, worst first, or threshold), `subgroups` (with by=; each
    has its own n, so they are never ranked), `segments` (with features=), `discrimination` (whether the confidence
    orders right before wrong predictions, which is not calibration), `advice` (with advise=True), `notes`. `standing`:
    for a subgroup, the result of its test, corrected for the number of subgroups. `sampling`: of sampled answers
    (`from_samples`), how many there are and the naive confidence. `scale`: of outcomes that have an order, their units.
    """

    name: str
    kind: str
    n_samples: int
    n_classes: int | None
    level: float
    losses: tuple[LossValue, ...]
    errors: tuple[ErrorValue, ...]
    gaps: dict[str, Gap]
    test: CalibrationTest | None
    direction: MeanGap
    reliability: dict[str, Reliability]
    notes: tuple[str, ...] = ()
    views: tuple[ViewValue, ...] = ()
    subgroups: dict[str, Evaluation] = field(default_factory=dict)
    standing: Standing | None = None
    segments: Segments | None = None
    discrimination: tuple[Discrimination, ...] = ()
    advice: tuple[str, ...] = ()
    sampling: Sampling | None = None
    scale: Scale | None = None

    @cached_property
    def _rows(self) -> dict[str, tuple[ErrorValue, ...]]:
        """The entries of each error, in order."""
        found: dict[str, tuple[ErrorValue, ...]] = {}
        for row in self.errors:
            found[row.error] = (*found.get(row.error, ()), row)
        return found

    @cached_property
    def error_names(self) -> tuple[str, ...]:
        """The errors measured, in order."""
        return tuple(self._rows)

    @cached_property
    def headline(self) -> str:
        """The truthful error that ranks models: classwise, binary, confidence or top_label."""
        names = self.error_names
        chosen = next((name for name in errors_with_gap() if name in names), None)
        return chosen or next((row.error for row in self.errors if row.ranks), names[0])

    @property
    def accuracy(self) -> float:
        """How often the top class was right; NaN where there is none."""
        found = next((value for value in self.losses if value.name == "classification_error"), None)
        return float("nan") if found is None else 1 - found.value

    @property
    def brier(self) -> float | None:
        """The Brier score, where predictions have one."""
        return next((value.value for value in self.losses if value.name == "brier"), None)

    @property
    def pvalue(self) -> float | None:
        """The p-value of the calibration test; None where there is no test."""
        return self.as_row.standing.pvalue

    @property
    def score(self) -> float | None:
        """The score of the headline error, lower is better; None where no truthful error was measured."""
        return self.row(self.headline).score

    @property
    def score_gap(self) -> float | None:
        """What miscalibration adds: the score minus its loss, the Brier score or that of the confidence."""
        if self.score is None or self.main_loss is None or not self.scored_by_loss:
            return None
        return self.score - self.main_loss.value

    @cached_property
    def main_loss(self) -> LossValue | None:
        """The loss that models are ordered by: that of the score where it has a name, or else the Brier score."""
        name = ERRORS[self.headline].property.loss_name or "brier"
        return next((value for value in self.losses if value.name == name), None)

    @property
    def ranking_loss(self) -> float:
        """The number that models are ordered by: the loss of the headline error, in the units of its name."""
        if self.main_loss is not None and self.scored_by_loss:
            return self.main_loss.value
        loss = self.row(self.headline).loss
        return self.loss("confidence_loss").value if loss is None else loss

    @property
    def scored_by_loss(self) -> bool:
        """Whether the main loss is the one in the score."""
        return bool(ERRORS[self.headline].property.loss_name)

    @cached_property
    def gap_name(self) -> str | None:
        """The error whose gap is shown: that of the confidence, or of the one probability there is."""
        wanted = ERRORS[self.headline].property.direction_property().kind
        known = [name for name in self.gaps if COMPOSED[name].property.kind == wanted]
        return next((name for name in (*known, self.headline, *self.gaps) if name in self.gaps), None)

    @property
    def gap(self) -> Gap | None:
        """The gap in points of the confidence, or of the one probability there is."""
        return None if self.gap_name is None else self.gaps[self.gap_name]

    @property
    def about(self) -> Kind:
        """The kind of the predictions, as an object."""
        return KINDS[self.kind]

    @cached_property
    def ece_name(self) -> str | None:
        """The error that people call ECE for these predictions, where it was measured."""
        usual = self.about.usual_ece
        return usual if usual in self.error_names else None

    @property
    def ece(self) -> float | None:
        """The usual ECE, at 15 bins of equal width unless others were asked for."""
        return None if self.ece_name is None else self.row(self.ece_name).value

    @property
    def verdict(self) -> Verdict:
        """Whether it is calibrated, as a sentence."""
        return give_verdict({self.name: self}, {})

    def rows(self, error: str) -> tuple[ErrorValue, ...]:
        """The entries of one error, one per bin count."""
        if error not in self._rows:
            raise ValueError(f"{shown(error)} was not measured here; expected one of {', '.join(self.error_names)}")
        return self._rows[error]

    def row(self, error: str) -> ErrorValue:
        """The entry of one error at the bin count that summaries show."""
        rows = self.rows(error)
        shown = [row for row in rows if row.headline]
        return shown[0] if shown else rows[0]

    def loss(self, name: str) -> LossValue:
        """One of the losses by name."""
        found = next((value for value in self.losses if value.name == name), None)
        if found is None:
            raise ValueError(
                f"{name!r} is not available for these predictions; expected one of "
                f"{', '.join(v.name for v in self.losses)}"
            )
        return found

    @property
    def as_row(self) -> Row:
        """What the columns of this model are read from."""
        return Row(self, self.standing or Standing("untested"))

    def rows_of_columns(self) -> list[Row]:
        """What the columns of this model are read from."""
        return [self.as_row]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: every column and every field; numbers that JSON lacks (infinite, undefined) become None."""
        whole: dict[str, Any] = plain(record(self.as_row)) | super().to_dict() | {"headline": self.headline}
        words = plain(self.direction.direction) | {"word": self.direction.word}
        return whole | {"direction": plain(self.direction) | words}

    def to_pandas(self, what: Literal["errors", "views"] = "errors") -> Any:
        """One row per error and bin count; with subgroups, theirs too, told apart by the column `subgroup`.

        "views": one row per label or threshold.
        """
        pd = require("pandas", "pandas")
        if what == "views":
            return pd.DataFrame([view.to_row() for view in self.views])
        if what != "errors":
            raise ValueError(f"what must be errors or views, got {shown(what)}")
        rows = [{"subgroup": None, "n_samples": self.n_samples} | asdict(row) for row in self.errors]
        for name, part in self.subgroups.items():
            rows += [{"subgroup": name, "n_samples": part.n_samples} | asdict(row) for row in part.errors]
        frame = pd.DataFrame(rows)
        return frame if self.subgroups else frame.drop(columns="subgroup")

    @property
    def size_text(self) -> str:
        """Rows and classes, such as "2000 samples, 3 classes"."""
        width = self.about.width_text(self.n_classes) if self.sampling is None else self.sampling.answers_text
        return f"{count_text(self.n_samples)} {self.about.row_word}, {width}"

    @property
    def says(self) -> str:
        """Mean prediction and observed frequency, and how far they are apart where that is clear."""
        found = self.direction
        rates = self.about.says_text(found.mean_report, found.mean_outcome, self.scale)
        return f"{rates}: {found.sized}" if found.sized else rates

    def explain(self) -> str:
        """What the numbers mean, in three sentences for people who do not read tables.

        >>> import numpy as np, truecal as tc
        >>> rng = np.random.default_rng(0)
        >>> chances = rng.random(2000)
        >>> y = rng.random(2000) < chances
        >>> print(tc.evaluate(y, chances**2, n_resamples=99).explain())  # doctest: +ELLIPSIS
        On average it says 33...%, and that happens ...% of the time: it is too low by ... points.
        This is more than chance: a calibrated model looks so in at most one sample in 100.
        Its probabilities are typically ... points off (between ... and ...), so recalibrate it before ...
        """
        return "\n".join(explanation(self))

    def __repr__(self) -> str:
        return "\n".join(first_screen(self))

    def _repr_html_(self) -> str:
        facts = table_html(lines(self.as_row))
        tables = [view_table(self)] if self.views else []
        for heads, rows in [*tables, *([subgroup_table(self)] if self.subgroups else [])]:
            facts += table_html(rows, [head.title for head in heads])
        if self.segments is not None:
            facts += self.segments._repr_html_()
        if self.advice:
            facts += "".join(f"<p><b>→ {html_text(line)}</b></p>" for line in self.advice)
        notes = "".join(f"<p>{html_text(note)}</p>" for note in self.notes)
        picture = f'<div style="overflow-x: auto">{reliability_svg(self)}</div>'
        head = f"<p>{html_text(self.name)}: {self.size_text}<br>{html_text(self.says)}</p>"
        return f"{head}{facts}{picture}{notes}"
