"""evaluate: one model's losses, errors with gap and score, calibration test and reliability tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..baselines.by_name import check_errors
from ..core.arrays import on_cpu
from ..core.data import as_array, check_positive_int, shown
from ..core.frames import columns_of, has_columns
from ..core.parameters import described
from ..core.result import on_one_line
from ..core.rules import BinCounts, read_bins
from ..core.types import Array, Groups
from ..core.words import IS_OUTCOME
from ..evidence.budget import MOST_REPORTS, Plan
from ..evidence.evidence import Evidence
from ..evidence.memory import Settings, measure
from ..inference.checks import check_bins, check_draws, check_groups, check_level, take_clusters
from ..inference.omnibus import fewest_draws
from ..kinds.images import dense_rows
from ..kinds.inputs import Inputs, Progress, Task, check_by, group_numbers, one_to_one, read_inputs
from .assembly import judge_subgroups, make_evaluation
from .estimators import check_X, predicted
from .evaluation import Evaluation

DIAGRAM_BINS = 15
MANY_SUBGROUPS = 20  # of so many subgroups, most must have a few rows each
FEW_IN_SUBGROUP = 5

# Errors left out unless they are named, by the number of predictions above which they would dominate the work.
HEAVY = {"full": MOST_REPORTS, "full_l1": MOST_REPORTS, "classwise_two_bin": MOST_REPORTS}


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
    horizons: Any = None,
    survival: bool = False,
    censoring_by: Any = None,
    ignore_index: int | None = None,
    class_axis: int | None = None,
    by: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    overlap: int = 1,
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
    the gap then take pairs of rows from different clusters, the test flips the signs of whole clusters, and bands,
    which need independent rows, are left out. With `overlap=h` rows are in time order and the outcomes of h consecutive
    rows overlap, as in forecasts h steps ahead: test and intervals use blocks of 2h to 3h rows. `folds` gives each row
    its fold where predictions are cross-validated: the test is then combined from tests of the folds, and the gap takes
    pairs of rows of one fold. Tests and directions of subgroups are corrected for their number. n_bins "auto" is chosen
    from the numbers of rows and classes alone, and values at 5, 20 and 2000 bins are added. `errors` defaults to every
    composed member of ERRORS that applies, less the costliest ones for very large inputs. `n_resamples=None` plans up
    to 999 draws by size. `progress` is called with the share done. `y_proba` may be a fitted classifier; `X` then holds
    the rows to predict. With task="ordered" the columns are classes in their order, the score is RPS + gap², and
    predictions are too high or too low on that scale. With task="multilabel" several labels may apply to a row:
    `y_true` is a 0/1 table or one list of labels per row, and `views` lists the labels, worst first; a 0/1 table whose
    rows do not all sum to 1 needs no task. With `thresholds` the forecasts are distributions of a number, `y_true`
    holds numbers, and the score is CRPS + gap². With `horizons`, `y_true` is (time, event) of rows that may be
    censored, and `y_proba` the risk of the event by each horizon: the score is IPCW Brier + gap². Images or sequences,
    such as probabilities (N, C, H, W) or (N, H, W, C) with labels (N, H, W), are read as one row per pixel whose label
    is not `ignore_index`, and images are the groups. With `features` every segment of them is tested as well, as by
    `tc.segments`. `advise` adds at most three lines on what to do: recalibrate, look at a segment, accept above a
    threshold, or collect more rows.

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
    options: dict[str, Any] = {"labels": labels, "pos_label": pos_label, "task": task, "thresholds": thresholds}
    options |= {"horizons": horizons, "survival": survival, "censoring_by": censoring_by}
    inputs = read_inputs(y_true, y_proba, sample_weight=sample_weight, **options)
    if advise and not inputs.soft:
        inputs.check_one_label("advise")
    inputs = with_folds(inputs if groups is None and overlap == 1 else inputs.on_host(), folds)
    settings = read_settings(inputs, n_bins, errors, level, n_resamples, seed, diagram_bins)
    settings = replace(settings, view_names=view_names(labels, inputs), per_view=images is not None)
    settings = settings if images is None else replace(settings, notes=(*settings.notes, images.note))
    check_progress(progress)
    clusters = check_groups(groups, inputs.n_samples, overlap=overlap)
    subgroups = read_subgroups(by, y_true, inputs)
    result = evaluate_inputs(inputs, settings, name, clusters, subgroups, progress)[0]
    judge_subgroups({result.name: result})
    if features is not None:
        from ..inference.segments import segments_of

        options = {"level": settings.level, "draws": n_resamples, "seed": settings.seed, "clusters": clusters}
        found = segments_of(inputs, features, classes=settings.view_names, **options)
        result = replace(result, segments=found)
    if advise:
        from .advice import advise as advice

        result = replace(result, advice=advice(result, inputs, clusters))
    return result


def view_names(labels: Any, inputs: Inputs) -> tuple[str, ...] | None:
    """The names of the columns, as texts."""
    names = None if labels is None else list(map(on_one_line, as_array(labels, "labels").tolist()))
    return inputs.kind.view_names(inputs.thresholds, names)


def with_folds(inputs: Inputs, folds: Any) -> Inputs:
    """The same predictions, with the fold of each row."""
    return (
        inputs
        if folds is None
        else replace(inputs.on_host(), folds=group_numbers(check_by(folds, inputs.n_samples, "folds")))
    )


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
        names = tuple([name for name in names if name not in heavy])
        if large := [name for name in heavy if HEAVY[name]]:
            notes = (
                "skipped because they are costly at this size (name them in errors= to measure "
                f"them): {', '.join(large)}",
            )
    bins: Any = "auto" if n_bins is None else read_bins(n_bins)
    if isinstance(bins, tuple):
        check_bins(bins, inputs.n_samples, inputs.n_reports // inputs.n_samples)
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
) -> tuple[Evaluation, Evidence]:
    """An Evaluation of validated predictions with one more per subgroup, and the evidence it is made from."""
    evidence = measure(inputs, settings, clusters, progress, keep=keep)
    looks = models * len(subgroups)
    own_settings = settings
    if len(subgroups) > 1:
        evidence.note(f"tests and directions of subgroups are corrected for their number, {len(subgroups)}")
        plan = replace(settings.plan, fewest=fewest_draws(looks, settings.level))
        own_settings = replace(settings, plan=plan, looks=looks)
    parts = {}
    for key, rows in subgroups.items():
        part = inputs.take(rows)
        if part.weights is not None and not part.weights.any():
            raise ValueError(f"sample_weight is zero in every row of subgroup {key}")
        own = take_clusters(clusters, rows)
        parts[key] = make_evaluation(measure(part, own_settings, own), key)
    return make_evaluation(evidence, name, parts), evidence


def read_subgroups(by: Any, y_true: Any, inputs: Inputs) -> dict[str, Array]:
    """The rows of each subgroup; refused where the subgroups are the outcomes under other names."""
    if by is None:
        return {}
    outcomes = inputs.kind.outcomes(inputs.y)
    if inputs.kind.top_only and y_true is not None:
        outcomes.append(as_array(on_cpu(y_true), "y_true"))  # the labels too, where only the top class is measured
    found: dict[str, Array] = {}
    for column, values in columns_of(by) if has_columns(by) else [("", by)]:
        name = f"by[{column!r}]" if column else "by"
        groups = check_by(values, inputs.n_samples, name)
        if any(one_to_one(groups, outcome) for outcome in outcomes):
            raise ValueError(f"{name} {IS_OUTCOME}")
        values, sizes = np.unique(groups, return_counts=True)
        if len(values) > MANY_SUBGROUPS and np.median(sizes) < FEW_IN_SUBGROUP:
            raise ValueError(
                f"{name} has {len(values)} distinct values in {len(groups)} rows, most with fewer than "
                f"{FEW_IN_SUBGROUP} rows; for numbers use features= (--segments), which divides them into quantile bins"
            )
        start = f"{column}: " if column else ""
        found |= {on_one_line(f"{start}{value}"): np.flatnonzero(groups == value) for value in values}
    return found
