"""compare: several models on the same samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..core.arrays import HOST
from ..core.parameters import described
from ..core.rules import BinCounts
from ..inference.checks import check_groups
from ..kinds.images import dense_rows
from ..kinds.inputs import Inputs, Progress, Task, read_inputs
from .assembly import judge_subgroups
from .comparison import Comparison, make_comparison
from .estimators import check_X, common_classes, predicted
from .evaluate import (
    DIAGRAM_BINS,
    check_progress,
    evaluate_inputs,
    read_settings,
    read_subgroups,
    view_names,
    with_folds,
)
from .same_order import SameOrder

_SECONDS = 2.0  # resampling per part, shared by all models
_LEAST_SECONDS = 0.15  # and at least this for each


@described("A Comparison.")
def compare(
    y_true: Any,
    models: Mapping[str, Any],
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
    progress: Progress | None = None,
    X: Any = None,
) -> Comparison:
    """Compare models on the same samples: which predicts better, which is miscalibrated, by how much, and how certain.

    `models` maps names to what `evaluate` takes as y_proba. If any model is TopPredictions(correct, confidence), all
    are reduced to their top class and only confidence errors apply. n_resamples=None plans the draws within about two
    seconds per error for all models together, at least 99 or none; the notes list what was left out. Models may
    also be fitted classifiers; `X` then holds the rows to predict.

    >>> import truecal as tc
    >>> y = [0, 1, 1, 0, 1, 1, 0, 1] * 5
    >>> good, flat = [.1, .8, .7, .2, .9, .6, .3, .8] * 5, [.6] * 40
    >>> result = tc.compare(y, {"good": good, "flat": flat}, n_bins=(2, 5), n_resamples=99)
    >>> result.dominance.chain_names
    ('good', 'flat')
    """
    models, labels = _predictions(models, X, labels)
    images = dense_rows(y_true, models, groups, ignore_index, class_axis)
    if images is not None:
        y_true, groups, models = images.y_true, images.groups, images.models
        by, sample_weight = images.of_rows(by, "by"), images.of_rows(sample_weight, "sample_weight")
    options: dict[str, Any] = {"labels": labels, "pos_label": pos_label, "task": task, "thresholds": thresholds}
    options |= {"horizons": horizons, "survival": survival, "censoring_by": censoring_by}
    inputs, notes = read_models(y_true, models, options, sample_weight)
    if groups is not None or overlap != 1 or not all(not isinstance(model.reports, HOST) for model in inputs.values()):
        inputs = {name: model.on_host() for name, model in inputs.items()}
    inputs = {name: with_folds(model, folds) for name, model in inputs.items()}
    first = next(iter(inputs.values()))
    for model in inputs.values():
        subgroups = read_subgroups(by, y_true, model)
    seconds = max(_LEAST_SECONDS, _SECONDS / len(inputs))
    settings = read_settings(first, n_bins, errors, level, n_resamples, seed, diagram_bins, len(inputs), seconds)
    settings = replace(settings, view_names=view_names(labels, first), per_view=images is not None)
    notes += [] if images is None else [images.note]
    check_progress(progress)
    clusters = check_groups(groups, first.n_samples, overlap=overlap)
    evaluations, evidence = {}, {}
    for i, (name, model) in enumerate(inputs.items()):
        inner = None if progress is None else _share(progress, i, len(inputs))
        found = evaluate_inputs(model, settings, name, clusters, subgroups, inner, keep=True, models=len(inputs))
        evaluations[name], evidence[name] = found
    judge_subgroups(evaluations)
    if progress is not None:
        progress(1.0)
    return make_comparison(evaluations, evidence, clusters, settings.level, notes)


@described("A SameOrder: ρ of the better model and what is left of the gap of the losses, at each number of bins.")
def same_order(
    y_true: Any,
    a: Any,
    b: Any,
    *,
    error: str | None = None,
    n_bins: BinCounts = "auto",
    labels: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
    names: tuple[str, str] = ("a", "b"),
) -> SameOrder:
    """Whether two models keep their order: at every number of bins, and for every decision maker.

    The paper's theorem of approximate order compares ρ, the calibration bias of the model with the lower loss, with the
    gap of the losses. Predictions of one event are also compared by the net benefit of acting on them at thresholds of
    1% to 99%: a lower loss at each is Blackwell's order, where both are calibrated.

    >>> import truecal as tc
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> u = rng.random(5000)
    >>> y, flat = rng.random(5000) < u, np.full(5000, .5)
    >>> found = tc.analysis.same_order(y, u, flat, n_bins=(100, 1000), names=("true", "flat"))
    >>> found.condition, found.decisions.sentence
    ('applies', 'true is better than flat for thresholds 0.08 and 0.1 to 0.93; elsewhere no difference can be told')
    """
    options: dict[str, Any] = {"labels": labels, "sample_weight": sample_weight, "groups": groups, "level": level}
    more: dict[str, Any] = {"errors": None if error is None else [error], "n_resamples": 1}  # no test is read
    models = dict(zip(names, (a, b), strict=True))
    result = compare(y_true, models, n_bins=n_bins, **more, **options)
    found = result.same_order(names[0], names[1], error)
    if not result.evaluations[names[0]].about.one_event:
        return found
    from .decision_curve import decision_curve  # it reads models as compare does

    ordered = {name: models[name] for name in (found.better, found.worse)}
    return replace(found, decisions=decision_curve(y_true, ordered, **options).differences[0])


def _share(progress: Progress, i: int, models: int) -> Progress:
    return lambda done: progress((i + done) / models)


def _predictions(models: Any, X: Any, labels: Any) -> tuple[Any, Any]:
    """What the models predict, and the classes of the columns."""
    if not isinstance(models, Mapping):
        return models, labels
    check_X(X, models.values())
    found = {name: predicted(model, X, f"model {name!r}") for name, model in models.items()}
    classes = {str(name): of for name, (_, of) in found.items() if of is not None}
    return {name: given for name, (given, _) in found.items()}, common_classes(classes, labels)


def read_models(
    y_true: Any, models: Any, options: dict[str, Any], sample_weight: Any
) -> tuple[dict[str, Inputs], list[str]]:
    """Validate every model, name the one that is wrong, and bring all to one kind."""
    if not isinstance(models, Mapping):
        example = "{'a': proba_a}"
        raise TypeError(f"models must map names to predictions, for example {example}, got {type(models).__name__}")
    if not models:
        raise ValueError("models is empty: expected at least one name with its predictions")
    found: dict[str, Inputs] = {}
    for key, predictions in models.items():
        name = str(key)
        if name in found:
            raise ValueError(f"two models are called {name!r}")
        try:
            found[name] = read_inputs(y_true, predictions, sample_weight=sample_weight, **options)
        except (ValueError, TypeError) as error:
            raise type(error)(f"model {name!r}: {error}") from error
    notes = []
    tops = [name for name, model in found.items() if model.kind.top_only]
    if tops:
        found = {name: model.top_label() for name, model in found.items()}
        notes.append(
            f"only the top class is known for {', '.join(tops)}: only confidence errors and two losses are compared"
        )
    _refuse_different_samples(found)
    return found, notes


def _refuse_different_samples(found: Mapping[str, Inputs]) -> None:
    """Errors on different samples have no order: refuse other row counts, kinds and numbers of classes by name."""
    head, first = next(iter(found.items()))
    for name, model in found.items():
        if model.n_samples != first.n_samples:
            raise ValueError(
                f"models must predict the same samples: {head!r} has {first.n_samples} rows, {name!r} {model.n_samples}"
            )
        if (model.kind, model.n_classes) != (first.kind, first.n_classes):
            raise ValueError(
                f"models must predict the same classes: {head!r} is {first.kind} with {first.n_classes} classes, "
                f"{name!r} is {model.kind} with {model.n_classes}"
            )
