"""Evaluation: one model, measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from ..baselines import ERRORS
from ..core.data import shown
from ..core.extras import require
from ..core.result import html_text, plain, table_html
from ..core.words import LOSS_TITLES, sum_text
from ..evidence.sampled_answers import Sampling
from ..evidence.values import ErrorValue, LossValue, Reliability, errors_with_gap
from ..evidence.views import ViewValue
from ..inference.calibration import CalibrationTest
from ..inference.direction import MeanGap
from ..inference.gaps import Gap, gap_text
from ..inference.segments import Segments
from ..inference.thresholds import Discrimination
from ..kinds import COMPOSED, KINDS, Kind
from .diagram import reliability_svg
from .measurement import Measurement

if TYPE_CHECKING:
    from .verdict import Standing, Verdict

MOST_VIEWS_SHOWN = 5


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation(Measurement):
    """One model, measured.

    `losses`, `errors` (one entry per error and bin count), `gaps` (by notion: the confidence, and each class or the
    positive one), `test` (is it calibrated?), `direction` (mean confidence minus accuracy), `reliability` (by error),
    `views` (of several labels or ordered classes: every label, worst first, or threshold), `subgroups` (with by=; each
    has its own n, so they are never ranked), `segments` (with features=), `discrimination` (whether the confidence
    orders right before wrong predictions, which is not calibration), `advice` (with advise=True), `notes`. `standing`:
    for a subgroup, the result of its test, corrected for the number of subgroups. `sampling`: of sampled answers
    (`from_samples`), how many there are and the naive confidence.
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

    @cached_property
    def _rows(self) -> dict[str, tuple[ErrorValue, ...]]:
        """The entries of each error, in order."""
        found: dict[str, tuple[ErrorValue, ...]] = {}
        for row in self.errors:
            found[row.error] = (*found.get(row.error, ()), row)
        return found

    @property
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
    def score(self) -> float | None:
        """The score of the headline error, lower is better; None where no truthful error was measured."""
        return self.row(self.headline).score

    @property
    def score_gap(self) -> float | None:
        """What miscalibration adds: the score minus its loss, the Brier score or that of the confidence."""
        loss = self._score_loss
        return None if self.score is None or loss is None else self.score - loss.value

    @property
    def _score_loss(self) -> LossValue | None:
        """The loss in the score: the Brier score, or for the confidence alone its own loss."""
        name = ERRORS[self.headline].property.loss_name
        return next((value for value in self.losses if value.name == name), None)

    @property
    def main_loss(self) -> LossValue | None:
        """The loss that people know by name: that of the score, or else the Brier score."""
        own = ERRORS[self.headline].property.loss_name
        name = own if own in LOSS_TITLES else "brier"
        return next((value for value in self.losses if value.name == name), None)

    @property
    def gap(self) -> Gap | None:
        """The gap of the confidence, in points, or of the one probability there is."""
        wanted = ERRORS[self.headline].property.direction_property().kind
        shown = next((name for name in self.gaps if COMPOSED[name].property.kind == wanted), self.headline)
        return self.gaps.get(shown) or next(iter(self.gaps.values()), None)

    @property
    def about(self) -> Kind:
        """The kind of the predictions, as an object."""
        return KINDS[self.kind]

    @property
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
        """Three short sentences: how well it predicts, whether it is calibrated, and its ECE."""
        from .verdict import give_verdict

        return give_verdict({self.name: self}, {})

    def rows(self, error: str) -> tuple[ErrorValue, ...]:
        """The entries of one error, one per bin count."""
        if error not in self._rows:
            raise ValueError(f"{shown(error)} was not measured here; expected one of {', '.join(self.error_names)}")
        return self._rows[error]

    def row(self, error: str) -> ErrorValue:
        """The entry of one error at the bin count that summaries show."""
        rows = self.rows(error)
        return rows[0] if rows[0].headline else next((row for row in rows if row.headline), rows[0])

    def loss(self, name: str) -> LossValue:
        """One of the losses by name."""
        found = next((value for value in self.losses if value.name == name), None)
        if found is None:
            raise ValueError(
                f"{name!r} is not available for these predictions; expected one of "
                f"{', '.join(v.name for v in self.losses)}"
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; numbers that JSON lacks (infinite losses, undefined means) become None."""
        more = {"headline": self.headline, "accuracy": self.accuracy, "score": self.score, "ece": self.ece}
        whole: dict[str, Any] = super().to_dict() | plain(more)
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
    def summary(self) -> tuple[tuple[str, str], ...]:
        """The facts of the short text: name and value."""
        facts = [self._rates]
        if self.main_loss is not None:
            facts.append((LOSS_TITLES[self.main_loss.name], f"{self.main_loss.value:.4g}"))
        if self.gap is not None:
            facts.append(("gap", gap_text(self.gap)))
        if self.score is not None:
            facts.append(("score", self.score_text))
        facts.append(("calibrated?", self.verdict.standings[self.name].words))
        if self.ece is not None:
            facts.append(("ECE", f"{self.ece:.4g}"))
        return tuple(facts)

    @property
    def _rates(self) -> tuple[str, str]:
        """Mean confidence and accuracy; of one probability the mean prediction, the observed frequency and accuracy."""
        means = self.direction.mean_report, self.direction.mean_outcome
        return self.about.rates_title, self.about.rates_text(*means, self.accuracy, self.n_classes or 2)

    @property
    def opening(self) -> str:
        """Predicted and observed rates, in a sentence or two."""
        score = "" if self.score is None else f" Score {self.score_text}."
        name, rates = self._rates
        return f"{name.capitalize()} {rates}.{score}"

    @property
    def score_text(self) -> str:
        """The score as a sum, "0.4456 = Brier 0.4321 + 0.0135"."""
        if self.score is None or self._score_loss is None:
            return "" if self.score is None else f"{self.score:.4g}"
        name = LOSS_TITLES.get(self._score_loss.name, "loss")
        return f"{sum_text(self.score, name, self._score_loss.value)} (lower is better)"

    @property
    def size_text(self) -> str:
        """The number of rows, such as "2000 samples"."""
        return f"{self.n_samples} {self.row_word}"

    @property
    def row_word(self) -> str:
        """What rows are: samples, or questions that were answered several times."""
        return self.about.row_word

    @property
    def width_text(self) -> str:
        """The number of classes, labels or thresholds, such as "3 classes"."""
        return self.about.width_text(self.n_classes) if self.sampling is None else self.sampling.answers_text

    @property
    def view_lines(self) -> list[str]:
        """The labels, classes or thresholds that are farthest off, one line each."""
        views = self.views
        if self.about.listed_surest_first:
            views = tuple(sorted(views, key=lambda view: 0.0 if view.gap.note else -view.gap.low))
        rest = len(views) - MOST_VIEWS_SHOWN
        return [*map(str, views[:MOST_VIEWS_SHOWN]), *([f"and {rest} more in .views"] if rest > 0 else [])]

    def __repr__(self) -> str:
        lines = [f"{self.name}: {self.size_text}, {self.width_text}"]
        lines += [f"  {name:<12}{value}" for name, value in self.summary]
        lines += [f"  {line}" for line in self.view_lines]
        lines += [f"  note: {note}" for note in self.notes]
        for name, part in self.subgroups.items():
            facts = ", ".join(f"{key} {value}" for key, value in part.summary)
            lines.append(f"  subgroup {name}, {part.n_samples} samples: {facts}")
        if self.segments is not None:
            lines += [f"  {self.segments.headline}", *(f"    {line}" for line in self.segments.lines())]
        lines += [f"  → {line}" for line in self.advice]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        facts = table_html(self.summary)
        if self.subgroups:
            names = [name for name, _ in self.summary]
            parts = ((key, str(part.n_samples), dict(part.summary)) for key, part in self.subgroups.items())
            rows = ([key, n, *(said.get(name, "") for name in names)] for key, n, said in parts)
            facts += table_html(rows, ("subgroup", "samples", *names))
        if self.segments is not None:
            facts += self.segments._repr_html_()
        if self.advice:
            facts += "".join(f"<p><b>→ {html_text(line)}</b></p>" for line in self.advice)
        notes = "".join(f"<p>{html_text(note)}</p>" for note in self.notes)
        picture = f'<div style="overflow-x: auto">{reliability_svg(self.reliability, self.name)}</div>'
        return f"<p>{html_text(self.name)}: {self.size_text}</p>{facts}{picture}{notes}"

    def plot(self, *, ax: Any = None, **options: Any) -> Any:
        """The reliability diagram, by `truecal.plots.reliability`; returns the matplotlib Axes."""
        return require("truecal.plots", "plots").reliability(self, ax=ax, **options)
