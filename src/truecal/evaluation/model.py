"""evaluate: one model's losses, errors with gap and score, calibration test and reliability tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backends import on_cpu
from ..core.data import as_array, check_positive_int, shown
from ..core.extras import require
from ..core.frames import refuse_reordered
from ..core.result import Result, plain, table_html
from ..core.rules import BinCounts, read_bins
from ..core.types import Array
from .budget import MOST_REPORTS, Plan, fewest_draws
from .inputs import Inputs, check_by, check_errors, read_inputs
from .measuring import NOTIONS, ErrorValue, LossValue, Measured, Progress, Reliability, Settings, measure
from .ranking import ECE_NAMES

if TYPE_CHECKING:
    from ..inference.calibration import CalibrationTest
    from ..inference.direction import MeanGap
    from ..inference.gaps import Gap
    from .verdict import Verdict


DIAGRAM_BINS = 15

# Errors left out unless they are named, by the number of predictions above which they would dominate the work.
HEAVY = {"full_halfspace": 1 << 18, "full": MOST_REPORTS, "full_l1": MOST_REPORTS, "classwise_two_bin": MOST_REPORTS}


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation(Result):
    """One model, measured.

    `losses`, `errors` (one entry per error and bin count), `gaps` (by notion: the confidence, and each class or the
    positive one), `test` (is it calibrated?), `direction` (mean confidence minus accuracy), `reliability` (by error),
    `subgroups` (with by=; each has its own n, so they are never ranked), `notes`.
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
    subgroups: dict[str, Evaluation] = field(default_factory=dict)

    @property
    def error_names(self) -> tuple[str, ...]:
        """The errors measured, in order."""
        return tuple(dict.fromkeys(row.error for row in self.errors))

    @property
    def headline(self) -> str:
        """The truthful error that ranks models: classwise, binary, confidence or top_label."""
        names = self.error_names
        chosen = next((name for name in NOTIONS if name in names), None)
        return chosen or next((row.error for row in self.errors if row.ranks), names[0])

    @property
    def accuracy(self) -> float:
        """How often the top class was right."""
        return 1 - self.loss("classification_error").value

    @property
    def score(self) -> float | None:
        """What to rank by, lower is better: that of the headline error; None where no truthful one was measured."""
        return self.row(self.headline).score

    @property
    def gap(self) -> Gap | None:
        """The gap of the confidence, in points, or of the one probability there is."""
        names = ("binary", "confidence", "top_label", "classwise")
        return next((self.gaps[name] for name in names if name in self.gaps), None)

    @property
    def ece(self) -> float | None:
        """The usual ECE, at 15 bins of equal width unless others were asked for."""
        name = next((name for name in ECE_NAMES if name in self.error_names), None)
        return None if name is None else self.row(name).value

    @property
    def verdict(self) -> Verdict:
        """How well it predicts, whether it is calibrated, and what ECE says: three short sentences."""
        from .verdict import give_verdict

        return give_verdict({self.name: self}, {})

    def rows(self, error: str) -> tuple[ErrorValue, ...]:
        """The entries of one error, one per bin count."""
        found = tuple(row for row in self.errors if row.error == error)
        if not found:
            raise ValueError(f"{shown(error)} was not measured here; expected one of {', '.join(self.error_names)}")
        return found

    def row(self, error: str) -> ErrorValue:
        """The entry of one error at the bin count that summaries speak of."""
        rows = self.rows(error)
        return next((row for row in rows if row.headline), rows[0])

    def loss(self, name: str) -> LossValue:
        """One of the losses by name."""
        found = next((value for value in self.losses if value.name == name), None)
        if found is None:
            raise ValueError(f"{name!r} is not defined here; expected one of {', '.join(v.name for v in self.losses)}")
        return found

    def with_notes(self, notes: Sequence[str]) -> Evaluation:
        """The same evaluation with these notes after its own, such as which file the predictions were read from."""
        return replace(self, notes=(*self.notes, *check_notes(notes)))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; numbers that JSON lacks (infinite losses, undefined means) become None."""
        more = {"headline": self.headline, "accuracy": self.accuracy, "score": self.score, "ece": self.ece}
        whole: dict[str, Any] = super().to_dict() | plain(more)
        return whole | {"direction": plain(self.direction) | {"word": self.direction.word}}

    def to_pandas(self) -> Any:
        """One row per error and bin count; with subgroups, theirs too, told apart by the column `subgroup`."""
        pd = require("pandas", "pandas")
        rows = [{"subgroup": None, "n_samples": self.n_samples} | asdict(row) for row in self.errors]
        for name, part in self.subgroups.items():
            rows += [{"subgroup": name, "n_samples": part.n_samples} | asdict(row) for row in part.errors]
        frame = pd.DataFrame(rows)
        return frame if self.subgroups else frame.drop(columns="subgroup")

    def log_to(self, run: Any, *, prefix: str = "truecal", step: int | None = None) -> None:
        """Log numbers, the table of errors and the HTML page to `run`: mlflow, wandb, or a run of one of them.

        Numbers are called `prefix`/score, `prefix`/gap and so on, those of subgroups `prefix`/name/score.
        """
        from ..adapters.tracking import log_result

        log_result(self, run, prefix=prefix, step=step)

    @property
    def summary(self) -> tuple[tuple[str, str], ...]:
        """What a person reads first: name and value of each fact."""
        facts = [("right", f"{self.accuracy:.1%}")]
        if any(value.name == "brier" for value in self.losses):
            facts.append(("Brier", f"{self.loss('brier').value:.4g}"))
        if self.gap is not None:
            facts.append(("gap", gap_text(self.gap)))
        facts.append(("calibrated?", calibrated_text(self.test, self.level)))
        if self.score is not None:
            facts.append(("score", f"{self.score:.5g} (lower is better)"))
        if self.ece is not None:
            facts.append(("ECE", f"{self.ece:.4g}"))
        return tuple(facts)

    def __repr__(self) -> str:
        classes = "top class only" if self.n_classes is None else f"{self.n_classes} classes"
        lines = [f"{self.name}: {self.n_samples} samples, {classes}"]
        lines += [f"  {name:<12}{value}" for name, value in self.summary]
        lines += [f"  note: {note}" for note in self.notes]
        for name, part in self.subgroups.items():
            facts = ", ".join(f"{key} {value}" for key, value in part.summary)
            lines.append(f"  subgroup {name}, {part.n_samples} samples: {facts}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        facts = table_html(self.summary)
        if self.subgroups:
            names = [name for name, _ in self.summary]
            parts = ((key, str(part.n_samples), dict(part.summary)) for key, part in self.subgroups.items())
            rows = ([key, n, *(said.get(name, "") for name in names)] for key, n, said in parts)
            facts += table_html(rows, ("subgroup", "samples", *names))
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        return f"<p>{escape(self.name)}: {self.n_samples} samples</p>{facts}{notes}"


def points_text(value: float | None) -> str:
    """Points as people read them: "5.4", "25", and "0.0" where chance alone made the gap negative.

    >>> from truecal.evaluation.model import points_text
    >>> points_text(5.42), points_text(25.2), points_text(-.3)
    ('5.4', '25', '0.0')
    """
    if value is None:
        return ""
    return f"{max(0.0, value):.{1 if value < 9.95 else 0}f}"


def gap_interval(gap: Gap) -> str:
    """ "[4.5, 6.5]", or nothing where no interval is to be trusted."""
    return "" if gap.note else f"[{points_text(gap.low)}, {points_text(gap.high)}]"


def gap_text(gap: Gap) -> str:
    """ "5.4 points [4.5, 6.5], over-confident"."""
    word = "" if gap.direction in ("no clear direction", "no direction") else f", {gap.direction}"
    return f"{points_text(gap.points)} points {gap_interval(gap) or '(no interval to be trusted)'}{word}"


def calibrated_text(test: CalibrationTest | None, level: float) -> str:
    """ "no (p ≤ .001)", "not rejected (p = .43)" or "untested"."""
    if test is None:
        return "untested"
    said = "no" if test.pvalue <= 1 - level else "not rejected"
    return f"{said} ({test.pvalue_text})"


def check_notes(notes: Any) -> tuple[str, ...]:
    """Notes as a tuple of texts; a single text would become one note per letter and is refused."""
    if isinstance(notes, str) or not isinstance(notes, Sequence) or not all(isinstance(note, str) for note in notes):
        raise TypeError(f"notes must be a sequence of texts, got {shown(notes)}")
    return tuple(notes)


def evaluate(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: BinCounts = "auto",
    errors: Sequence[str] | None = None,
    labels: Any = None,
    pos_label: Any = 1,
    by: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
    resamples: int | None = None,
    seed: int = 0,
    diagram_bins: int = DIAGRAM_BINS,
    name: str = "model",
    progress: Progress | None = None,
) -> Evaluation:
    """Measure one model: accuracy and losses, the gap in points, whether it is calibrated, the score, and every error.

    `y_proba` is (n, k), or (n,) for the probability of `pos_label`, or TopPredictions(correct, confidence) with
    y_true=None, for which only confidence errors apply. `by` gives each row a subgroup and measures each as well (the
    outcome itself is refused: given the outcome, every model looks miscalibrated); `groups` gives each row a cluster:
    U and the gap then take pairs of rows from different clusters, and the calibration test and bands, which need
    independent rows, are withheld. n_bins "auto" is chosen from the numbers of rows and classes alone, and values at 5,
    20 and 2000 bins stand beside it. `errors` defaults to every composed member of ERRORS that applies, less the
    costliest ones for very large inputs. `resamples=None` plans up to 999 draws by size. `progress` is called with
    the share done.

    >>> import truecal as tc
    >>> y, p = [0, 1, 1, 0, 1, 1, 0, 1], [.1, .6, .7, .3, .9, .4, .2, .8]
    >>> result = tc.evaluate(y, p, n_bins=2, errors=["binary"], resamples=99)
    >>> row = result.errors[0]
    >>> abs(row.loss + row.U - 8 * row.value) < 1e-12
    True
    """
    refuse_reordered(y_true=y_true, groups=groups, by=by)
    inputs = read_inputs(y_true, y_proba, labels=labels, pos_label=pos_label, sample_weight=sample_weight)
    settings = read_settings(inputs, n_bins, errors, level, resamples, seed, diagram_bins)
    check_progress(progress)
    clusters = read_clusters(groups, inputs.n_samples)
    subgroups = None if by is None else read_subgroups(by, y_true, inputs)
    result, _ = evaluate_inputs(inputs, settings, name, clusters, progress)
    if subgroups is not None:
        result = with_subgroups(result, inputs, settings, clusters, subgroups)
    return result


def read_settings(
    inputs: Inputs,
    n_bins: Any,
    errors: Any,
    level: Any,
    resamples: Any,
    seed: Any,
    diagram_bins: Any,
    models: int = 1,
    seconds: float = 1.0,
) -> Settings:
    """Validate the options that all models share."""
    from ..inference.options import check_draws, check_level

    names = check_errors(errors, inputs)
    notes: tuple[str, ...] = ()
    if errors is None:
        size = inputs.reports.size * models
        heavy = [name for name in names if size > HEAVY.get(name, size)]
        names = tuple(name for name in names if name not in heavy)
        if heavy:
            notes = (f"not measured unless named in errors, for their cost at this size: {', '.join(heavy)}",)
    check_draws(1 if resamples is None else resamples, seed)
    level = check_level(level)
    return Settings(
        names=names,
        n_bins=_sorted_bins(n_bins),
        level=level,
        seed=int(seed),
        plan=Plan(resamples, seconds, fewest_draws(models, level)),
        diagram_bins=check_positive_int(diagram_bins, "diagram_bins"),
        notes=notes,
    )


def check_progress(progress: Any) -> None:
    """A function of the share done, or None."""
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a function of the share done, got {shown(progress)}")


def _sorted_bins(n_bins: Any) -> tuple[int, ...] | None:
    bins = "auto" if n_bins is None else read_bins(n_bins)
    if isinstance(bins, str):
        return None
    return tuple(sorted(set(bins))) if isinstance(bins, tuple) else (bins,)


def read_clusters(groups: Any, n: int) -> Array | None:
    """The cluster of each row, or None."""
    from ..inference.options import check_groups

    clusters = check_groups(groups, n)
    return None if clusters is None else clusters[0]


def evaluate_inputs(
    inputs: Inputs,
    settings: Settings,
    name: str,
    clusters: Array | None,
    progress: Progress | None = None,
    *,
    keep: bool = False,
) -> tuple[Evaluation, Measured]:
    """An Evaluation of validated predictions, and all that was measured on the way."""
    found = measure(inputs, settings, clusters, progress, keep=keep)
    notes = tuple(found.notes)
    if inputs.kind == "top_label":
        notes = ("only the top class is known: only confidence errors and two losses apply", *notes)
    assert found.direction is not None
    result = Evaluation(
        name=str(name),
        kind=inputs.kind,
        n_samples=inputs.n_samples,
        n_classes=inputs.n_classes,
        level=settings.level,
        losses=found.losses,
        errors=tuple(found.errors),
        gaps=found.gaps,
        test=found.test,
        direction=found.direction,
        reliability=found.reliability,
        notes=notes,
    )
    return result, found


def read_subgroups(by: Any, y_true: Any, inputs: Inputs) -> Array:
    """One subgroup per row; refused where the subgroups are the outcomes under other names."""
    groups = check_by(by, inputs.n_samples, "by")
    outcomes = [inputs.y]
    if inputs.kind == "top_label" and y_true is not None:
        outcomes.append(as_array(on_cpu(y_true), "y_true"))  # the labels too, where only the top class is measured
    if any(_one_to_one(groups, outcome) for outcome in outcomes):
        raise ValueError(
            "by gives each outcome a subgroup of its own: given the outcome, every model looks miscalibrated, even the "
            "true probabilities; group by something known before the outcome"
        )
    return groups


def _one_to_one(groups: Array, outcomes: Array) -> bool:
    """Whether two vectors, of at least two values each, name the same parts of the rows."""
    if groups.shape != outcomes.shape:
        return False
    _, first = np.unique(groups, return_inverse=True)
    _, second = np.unique(outcomes, return_inverse=True)
    pairs = len(set(zip(first.reshape(-1).tolist(), second.reshape(-1).tolist(), strict=True)))
    return bool(2 <= pairs == first.max() + 1 == second.max() + 1)


def with_subgroups(
    result: Evaluation, inputs: Inputs, settings: Settings, clusters: Array | None, groups: Array
) -> Evaluation:
    """The evaluation with one more per subgroup, in sorted order."""
    parts = {}
    for value in np.unique(groups):
        rows = np.flatnonzero(groups == value)
        part = inputs.take(rows)
        if part.weights is not None and not part.weights.any():
            raise ValueError(f"sample_weight is zero in every row of subgroup {value!s}")
        own = None if clusters is None else clusters[rows]
        parts[str(value)] = evaluate_inputs(part, settings, str(value), own)[0]
    return replace(result, subgroups=parts)
