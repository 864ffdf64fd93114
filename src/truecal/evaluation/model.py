"""evaluate: one model's losses, errors with gap and score, calibration test and reliability tables."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from ..backends.arrays import on_cpu
from ..baselines import ERRORS
from ..core.data import as_array, check_positive_int, shown
from ..core.errors import COMPOSED
from ..core.extras import require
from ..core.frames import refuse_reordered
from ..core.parameters import described
from ..core.result import Result, html_text, plain, table_html
from ..core.rules import BinCounts, read_bins
from ..core.types import Array, Groups
from ..inference.calibration import CalibrationTest
from ..inference.direction import MeanGap
from ..inference.features import columns_of, has_columns
from ..inference.gaps import Gap
from ..inference.inputs import Inputs, Progress, Task, check_by, check_errors, group_numbers, one_to_one, read_inputs
from ..inference.options import check_draws, check_groups, check_level
from ..inference.segments import Segments, segments_of
from ..inference.thresholds import Discrimination, discrimination
from .budget import MOST_REPORTS, Plan, fewest_draws
from .diagram import reliability_svg
from .estimators import check_X, predicted
from .images import dense_rows
from .measuring import ErrorValue, LossValue, Measured, Reliability, Settings, main_property, measure, notions
from .ranking import ECE_NAMES
from .views import ViewValue
from .words import LOSS_TITLES, gap_text, sum_text

if TYPE_CHECKING:
    from .sampled import Sampling
    from .verdict import Standing, Verdict

DIAGRAM_BINS = 15
MANY_SUBGROUPS = 20  # of so many subgroups, most must have a few rows each
FEW_IN_SUBGROUP = 5
MOST_ORDERED = 1 << 20
"""Of more rows the confidences are not put in order: discrimination is left out."""
MOST_VIEWS_SHOWN = 5

# Errors left out unless they are named, by the number of predictions above which they would dominate the work.
HEAVY = {"full_halfspace": 0, "full": MOST_REPORTS, "full_l1": MOST_REPORTS, "classwise_two_bin": MOST_REPORTS}


class Measurement(Result):
    """Abstract: what has been measured of one model or of several, with notes on it."""

    notes: tuple[str, ...]

    def with_notes(self, notes: Sequence[str]) -> Self:
        """The same with these notes after its own, such as which files the predictions were read from."""
        if isinstance(notes, str) or not isinstance(notes, Sequence) or not all(isinstance(n, str) for n in notes):
            raise TypeError(f"notes must be a sequence of texts, got {shown(notes)}")
        # every Measurement is a dataclass
        return replace(self, notes=(*self.notes, *notes))  # type: ignore[type-var]

    def log_to(self, run: Any, *, prefix: str = "truecal", step: int | None = None) -> None:
        """Log numbers, the table and the HTML page to `run`: mlflow, wandb, or a run of one of them.

        Numbers are called `prefix`/score, `prefix`/gap and so on; those of each model of a comparison, and of each
        subgroup, `prefix`/name/score.
        """
        # By name: results are below the adapters that know the frameworks.
        importlib.import_module("truecal.adapters.tracking").log_result(self, run, prefix=prefix, step=step)


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

    @property
    def error_names(self) -> tuple[str, ...]:
        """The errors measured, in order."""
        return tuple(dict.fromkeys(row.error for row in self.errors))

    @property
    def headline(self) -> str:
        """The truthful error that ranks models: classwise, binary, confidence or top_label."""
        names = self.error_names
        chosen = next((name for name in notions() if name in names), None)
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
        wanted = ERRORS[self.headline].property.directed().kind
        shown = next((name for name in self.gaps if COMPOSED[name].property.kind == wanted), self.headline)
        return self.gaps.get(shown) or next(iter(self.gaps.values()), None)

    @property
    def ece(self) -> float | None:
        """The usual ECE, at 15 bins of equal width unless others were asked for."""
        name = next((name for name in ECE_NAMES if name in self.error_names), None)
        return None if name is None else self.row(name).value

    @property
    def verdict(self) -> Verdict:
        """Three short sentences: how well it predicts, whether it is calibrated, and its ECE."""
        from .verdict import give_verdict

        return give_verdict({self.name: self}, {})

    def rows(self, error: str) -> tuple[ErrorValue, ...]:
        """The entries of one error, one per bin count."""
        found = tuple(row for row in self.errors if row.error == error)
        if not found:
            raise ValueError(f"{shown(error)} was not measured here; expected one of {', '.join(self.error_names)}")
        return found

    def row(self, error: str) -> ErrorValue:
        """The entry of one error at the bin count that summaries show."""
        rows = self.rows(error)
        return next((row for row in rows if row.headline), rows[0])

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
        property = main_property(self.kind)
        return property.rates_title, property.rates_text(*means, self.accuracy, self.n_classes or 2)

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
        return "samples" if self.sampling is None else "questions"

    @property
    def width_text(self) -> str:
        """The number of classes, labels or thresholds, such as "3 classes"."""
        if self.sampling is not None:
            return self.sampling.answers_text
        return "top class only" if self.n_classes is None else f"{self.n_classes} {main_property(self.kind).columns}"

    @property
    def view_lines(self) -> list[str]:
        """The labels, classes or thresholds that are farthest off, one line each."""
        views = self.views
        if self.kind == "distribution":  # of many thresholds those that are surely off
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


@described("An Evaluation.")
def evaluate(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: BinCounts = "auto",
    errors: Sequence[str] | None = None,
    labels: Any = None,
    pos_label: Any = 1,
    task: Task = "auto",
    thresholds: Any = None,
    ignore_index: int | None = None,
    class_axis: int | None = None,
    by: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    folds: Any = None,
    level: float = 0.95,
    n_resamples: int | None = None,
    seed: int = 0,
    diagram_bins: int = DIAGRAM_BINS,
    name: str = "model",
    progress: Progress | None = None,
    X: Any = None,
    features: Any = None,
    advise: bool = False,
) -> Evaluation:
    """Measure one model: accuracy, losses, the gap in points, a calibration test, the score, and every error.

    `y_proba` is (n, k), or (n,) for the probability of `pos_label`, or TopPredictions(correct, confidence) with
    y_true=None, for which only confidence errors apply. `by` gives each row a subgroup and measures each as well (the
    outcome itself raises: given the outcome, every model looks miscalibrated); `groups` gives each row a cluster: U and
    the gap then take pairs of rows from different clusters, and the calibration test and bands, which need independent
    rows, are left out. `folds` gives each row its fold where predictions are cross-validated: the test is then combined
    from tests of the folds, and the gap takes pairs of rows of one fold. Tests and directions of subgroups are
    corrected for their number. n_bins "auto" is chosen from the numbers of rows and classes alone, and values at 5, 20
    and 2000 bins are added. `errors` defaults to every composed member of ERRORS that applies, less the costliest ones
    for very large inputs. `n_resamples=None` plans up to 999 draws by size. `progress` is called with the share done.
    `y_proba` may be a fitted classifier; `X` then holds the rows to predict. With task="ordered" the columns are
    classes in their order, the score is RPS + gap², and predictions are too high or too low on that scale. With
    task="multilabel" several labels may apply to a row: `y_true` is a 0/1 table or one list of labels per row, and
    `views` lists the labels, worst first; a 0/1 table whose rows do not all sum to 1 needs no task. With `thresholds`
    the forecasts are distributions of a number, `y_true` holds numbers, and the score is CRPS + gap². Images or
    sequences, such as probabilities (N, C, H, W) or (N, H, W, C) with labels (N, H, W), are read as one row per pixel
    whose label is not `ignore_index`, and images are the groups. With `features` every segment of them is tested as
    well, as by `tc.segments`. `advise` adds at most three lines on what to do: recalibrate, look at a segment, accept
    above a threshold, or collect more rows.

    >>> import truecal as tc
    >>> y, p = [0, 1, 1, 0, 1, 1, 0, 1], [.1, .6, .7, .3, .9, .4, .2, .8]
    >>> result = tc.evaluate(y, p, n_bins=2, errors=["binary"], n_resamples=99)
    >>> row = result.errors[0]
    >>> abs(row.loss + row.U - 8 * row.value) < 1e-12
    True
    """
    check_X(X, [y_proba])
    y_proba, classes = predicted(y_proba, X, "y_proba")
    labels = classes if labels is None else labels
    images = dense_rows(y_true, {"": y_proba}, groups, ignore_index, class_axis)
    if images is not None:
        y_true, groups, y_proba = images.y_true, images.groups, images.models[""]
        by, sample_weight = images.of_rows(by, "by"), images.of_rows(sample_weight, "sample_weight")
    refuse_reordered(y_true=y_true, groups=groups, by=by, folds=folds)
    options: dict[str, Any] = {"labels": labels, "pos_label": pos_label, "task": task, "thresholds": thresholds}
    inputs = read_inputs(y_true, y_proba, sample_weight=sample_weight, **options)
    inputs = with_folds(inputs if groups is None else inputs.on_host(), folds)
    settings = read_settings(inputs, n_bins, errors, level, n_resamples, seed, diagram_bins)
    settings = replace(settings, view_names=view_names(labels, inputs), per_view=images is not None)
    settings = settings if images is None else replace(settings, notes=(*settings.notes, images.note))
    check_progress(progress)
    clusters = check_groups(groups, inputs.n_samples)
    subgroups = read_subgroups(by, y_true, inputs)
    result = evaluate_inputs(inputs, settings, name, clusters, subgroups, progress)[0]
    judge_subgroups({result.name: result})
    if features is not None:
        found = segments_of(
            inputs, features, level=settings.level, draws=n_resamples, seed=settings.seed, clusters=clusters
        )
        result = replace(result, segments=found)
    if advise:
        from .advice import advise as advice

        result = replace(result, advice=advice(result, inputs, clusters))
    return result


def view_names(labels: Any, inputs: Inputs) -> tuple[str, ...] | None:
    """The names of the columns, or the thresholds, as texts."""
    if inputs.thresholds:
        return tuple(f"{t:.4g}" for t in inputs.thresholds)
    return None if labels is None else tuple(map(str, as_array(labels, "labels").tolist()))


def with_folds(inputs: Inputs, folds: Any) -> Inputs:
    """The same predictions, with the fold of each row."""
    return (
        inputs
        if folds is None
        else replace(inputs.on_host(), folds=group_numbers(check_by(folds, inputs.n_samples, "folds")))
    )


def judge_subgroups(evaluations: Mapping[str, Evaluation]) -> None:
    """Correct the tests of subgroups over all of them, and over all models."""
    from .verdict import standings

    parts = {(model, key): part for model, found in evaluations.items() for key, part in found.subgroups.items()}
    for (model, key), standing in standings(parts, next(iter(evaluations.values())).level).items():
        evaluations[model].subgroups[key] = replace(parts[model, key], standing=standing)


def read_settings(
    inputs: Inputs,
    n_bins: Any,
    errors: Any,
    level: Any,
    n_resamples: Any,
    seed: Any,
    diagram_bins: Any,
    models: int = 1,
    seconds: float = 1.0,
) -> Settings:
    """Validate the options that all models share."""
    names = check_errors(errors, inputs)
    notes: tuple[str, ...] = ()
    if errors is None:
        size = inputs.n_reports * models
        heavy = [name for name in names if size > HEAVY.get(name, size)]
        names = tuple(name for name in names if name not in heavy)
        if large := [name for name in heavy if HEAVY[name]]:
            notes = (
                "skipped because they are costly at this size (name them in errors= to measure "
                f"them): {', '.join(large)}",
            )
    bins: Any = "auto" if n_bins is None else read_bins(n_bins)
    check_draws(1 if n_resamples is None else n_resamples, seed)
    level = check_level(level)
    return Settings(
        names=names,
        n_bins=None if bins == "auto" else tuple(sorted({*np.atleast_1d(bins).tolist()})),
        level=level,
        seed=int(seed),
        plan=Plan(n_resamples, seconds, fewest_draws(models, level)),
        diagram_bins=check_positive_int(diagram_bins, "diagram_bins"),
        notes=notes,
    )


def check_progress(progress: Any) -> None:
    """A function of the share done, or None."""
    if progress is not None and not callable(progress):
        raise TypeError(f"progress must be a callable that takes the share of the work done, got {shown(progress)}")


def evaluate_inputs(
    inputs: Inputs,
    settings: Settings,
    name: str,
    clusters: Groups | None,
    subgroups: Mapping[str, Array],
    progress: Progress | None = None,
    *,
    keep: bool = False,
    models: int = 1,
) -> tuple[Evaluation, Measured]:
    """An Evaluation of validated predictions with one more per subgroup, and all that was measured on the way."""
    found = measure(inputs, settings, clusters, progress, keep=keep)
    notes = tuple(found.notes)
    if inputs.kind == "top_label":
        notes = ("only the top class is known: only confidence errors and two losses apply", *notes)
    if len(subgroups) > 1:
        notes += (f"tests and directions of subgroups are corrected for their number, {len(subgroups)}",)
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
        views=found.views,
        subgroups={},
        discrimination=_discrimination(inputs, settings, clusters),
    )
    looks = models * len(subgroups)
    if len(subgroups) > 1:
        plan = replace(settings.plan, fewest=fewest_draws(looks, settings.level))
        settings = replace(settings, plan=plan, looks=looks)
    for key, rows in subgroups.items():
        part = inputs.take(rows)
        if part.weights is not None and not part.weights.any():
            raise ValueError(f"sample_weight is zero in every row of subgroup {key}")
        own = None if clusters is None else group_numbers(clusters[0][rows])
        result.subgroups[key], _ = evaluate_inputs(part, settings, key, own, {})
    return result, found


def _discrimination(inputs: Inputs, settings: Settings, clusters: Groups | None) -> tuple[Discrimination, ...]:
    if inputs.n_samples > MOST_ORDERED:
        return ()
    found = discrimination(inputs, settings.level, clusters)
    inputs.forget("confidence")
    return found


def read_subgroups(by: Any, y_true: Any, inputs: Inputs) -> dict[str, Array]:
    """The rows of each subgroup; refused where the subgroups are the outcomes under other names."""
    if by is None:
        return {}
    outcomes = [np.asarray(on_cpu(inputs.y))]
    if inputs.kind == "top_label" and y_true is not None:
        outcomes.append(as_array(on_cpu(y_true), "y_true"))  # the labels too, where only the top class is measured
    found: dict[str, Array] = {}
    for column, values in columns_of(by) if has_columns(by) else [("", by)]:
        name = f"by[{column!r}]" if column else "by"
        groups = check_by(values, inputs.n_samples, name)
        if any(one_to_one(groups, outcome) for outcome in outcomes):
            raise ValueError(
                f"{name} is the outcome under another name: given the outcome, every model looks miscalibrated, even "
                "the true probabilities; group by something known before the outcome"
            )
        values, sizes = np.unique(groups, return_counts=True)
        if len(values) > MANY_SUBGROUPS and np.median(sizes) < FEW_IN_SUBGROUP:
            raise ValueError(
                f"{name} has {len(values)} distinct values in {len(groups)} rows, most with fewer than "
                f"{FEW_IN_SUBGROUP} rows; for numbers use features= (--segments), which divides them into quantile bins"
            )
        start = f"{column}: " if column else ""
        found |= {f"{start}{value}": np.flatnonzero(groups == value) for value in values}
    return found
