"""What each public parameter means, in one table: docstrings take their words from here, so that they cannot drift."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from .frames import matching_rows

Described = TypeVar("Described", bound=Callable[..., Any])

SHARED = {
    "y_true": "Labels: column indices 0..k−1, or names with `labels`; or (n, k) label distributions.",
    "y_proba": "Probabilities: (n, k), one column per class, or (n,) for the positive class of two. Arrays, lists, "
    "data frames or tensors.",
    "labels": "The class of each column, for labels that are names. Default: column indices.",
    "pos_label": "The label whose probability a single column holds.",
    "sample_weight": "One non-negative weight per row. It must depend on neither labels nor predictions.",
    "n_bins": 'The number of bins, several numbers, or "auto", which follows from the numbers of rows and classes. '
    "Several numbers give an array, in one pass.",
    "strategy": 'How bins are made: "quantile" (equal numbers of rows), "uniform" (equal width), "two_bin" or '
    '"poisson" (averages over cuts), "exact" (one bin per distinct prediction), or a rule.',
    "norm": '"l2" for the squared error, which is truthful, or "l1" for the usual ECE.',
    "ties": 'Equal predictions at a bin boundary: "average" over all orders (default for l2), "together" (default for '
    'l1) or "row", in the order of rows.',
    "scale": '"raw"; "loss" for n·error = loss + U; "bins" for error times bins; "score" for loss + gap².',
    "corrected": "Whether the correction of the confidence error is added. Default: for l2.",
    "error": 'A name in `tc.ERRORS` or a CalibrationError. Default: "binary" for two classes, "classwise" for more; '
    'for a gap "confidence".',
    "task": '"ordered" for classes in their order, "multilabel" for labels of which several may apply. Default: '
    "classes without an order.",
    "ignore_index": "The label of pixels or tokens that are left out, such as 255 or −100.",
    "class_axis": "The axis of the classes in predictions of images or sequences, where their shape does not say it.",
    "forecast": "Forecasts of a number: those of `tc.forecasts`, frozen distributions of scipy, or (n, thresholds) "
    "chances of at most each threshold.",
    "thresholds": "Increasing numbers, fixed before forecasts and outcomes are seen, or from training outcomes by "
    "`tc.forecasts.thresholds(y_train)`.",
    "horizons": "Increasing times at which the risk of an event is predicted; `y_true` is then (time, event).",
    "survival": "Whether `y_proba` holds survival functions instead of risks: arrays (n, horizons), step functions of "
    "scikit-survival, or a table of lifelines.",
    "censoring_by": "The stratum of each row, or a table of columns, where censoring depends on them.",
    "errors": "Names in `tc.ERRORS`. Default: all that apply.",
    "level": "The confidence level of intervals.",
    "groups": "The cluster of each row, where rows are not independent.",
    "overlap": "How many consecutive rows have outcomes that overlap, where rows are in time order: the horizon of a "
    "forecast, in rows.",
    "by": "The subgroup of each row, known before the outcome, or a table of several such columns. Tests are corrected "
    "for the number of subgroups.",
    "features": "Columns known before the outcome: a data frame, a mapping of names to columns, or an array. Text and "
    "few values are categories, other numbers are cut into quantile bins.",
    "advise": "Whether to add at most three lines on what to do now.",
    "folds": "The fold of each row, for predictions from cross-validation.",
    "n_resamples": "The number of draws. More draws give finer p-values.",
    "seed": "The seed of draws; the same seed gives the same result.",
    "sampler": "A function of a numpy Generator that returns outcomes drawn with the predictions as means.",
    "max_gap": "The gap in points that can be tolerated.",
    "progress": "A function that is called with the share of the work done.",
    "diagram_bins": "The number of bins of reliability diagrams.",
    "name": "The name of the model in tables and sentences.",
    "names": "The names of the two models in sentences.",
    "X": "The rows that fitted classifiers predict, where those are given instead of probabilities.",
    "per_example": "Whether to return the loss of every row instead of their mean.",
    "correct": "Whether the top class was right, per row.",
    "confidence": "The probability of the top class, per row.",
    "outcomes": "Outcome values φ(y), (n,) or (n, d).",
    "reports": "Predicted expectations of the outcomes, in the same shape.",
    "range": "The range of the predictions, (low, high), for rules that need one.",
    "models": "Names and their predictions.",
    "classes": "The numbers of classes to look at, or the columns to draw.",
    "edges": 'Where bins end: "uniform", edges, a table or an Evaluation with frozen edges, or a mapping of error '
    "names to these.",
    "blocks": "The number of label-blind blocks of rows behind intervals; 0 for no intervals.",
    "alpha": "The largest chance of a false alarm, however often one looks.",
    "reference": "Labels and predictions of an accepted model, whose miscalibration then counts as usual.",
    "what": 'What the interval is for: "U", "error", "score", "gap_sq".',
    "a": "Predictions of the first model.",
    "b": "Predictions of the second model.",
    "space": '"logits" or "probabilities": what the map takes.',
    "floor": "The smallest probability that is read; smaller ones count as this.",
    "l2": "The strength of the penalty on parameters, or several to choose from.",
    "max_iter": "The most iterations of the solver.",
    "smoothing": "Whether targets are smoothed as Platt does.",
    "estimator": "A fitted classifier.",
    "y": "The labels of X.",
    "method": "The name of a recalibration map, or a map.",
    "candidates": "Names and recalibration maps to choose from.",
    "logits_fit": "Logits that the maps are fitted on.",
    "y_fit": "Their labels.",
    "logits_select": "Logits on which the choice is made. Default: those of `logits_fit`, in five folds.",
    "y_select": "Their labels.",
    "guard": "Whether predictions stay as they are unless the map gains more than one standard error on unseen rows.",
    "allow_untruthful": "Whether an error that is not truthful may choose.",
    "metric": "A function of labels and predictions.",
    "convention": "The order of its arguments.",
    "higher_is_better": "Whether a larger value is better.",
    "metric_options": "Keyword arguments of the metric.",
    "binary": "How the metric takes two classes.",
    "array": "Which arrays the metric takes.",
    "input": "Whether the metric takes probabilities or logits.",
    "budget": "How many calls of the metric to make.",
    "seconds": "The time limit for everything.",
    "measure": "A name in `tc.ERRORS` or `tc.LOSSES`, or one of their members.",
    "options": "Further options of the measure.",
    "property": "What is checked, such as `Classwise()`.",
    "binning": "A rule, such as `Quantile(15)`.",
    "phi": "The value, or vector, of each class.",
    "theta": "The mean distance between two cuts.",
    "values": "Increasing edges, or one row of them per class.",
}
"""The words of each parameter name; a function may have its own."""


def described(returns: str = "", **own: str) -> Callable[[Described], Described]:
    """Put a numpydoc section of parameters into a docstring, before its examples; functions check the order of rows."""

    def add(thing: Described) -> Described:
        names = [name for name in inspect.signature(thing).parameters if name not in ("self", "cls")]
        thing.__doc__ = described_text(thing.__doc__ or "", names, returns, own)
        return matching_rows(thing) if inspect.isfunction(thing) else thing  # type: ignore[return-value]  # of the same type

    return add


def described_text(text: str, names: Iterable[str], returns: str = "", own: Mapping[str, str] | None = None) -> str:
    """A docstring with its parameters and what is returned, before its examples."""
    body, prompt, examples = inspect.cleandoc(text).partition("\n>>> ")
    words = {name: (own or {}).get(name) or SHARED[name] for name in names}
    lines = [
        f"{name}\n{textwrap.fill(said, 116, initial_indent='    ', subsequent_indent='    ')}"
        for name, said in words.items()
    ]
    parts = [body.rstrip()]
    parts += ["Parameters\n----------\n" + "\n".join(lines)] if lines else []
    parts += [f"Returns\n-------\n{returns}"] if returns else []
    parts += ["Examples\n--------\n>>> " + examples] if prompt else []
    return "\n\n".join(parts)
