"""Data sets with the value of every measure, and a runner for other implementations.

Each set is a JSON file of labels, predictions, perhaps weights, and values; `sets()` reads them and `check` runs a
callable over them. `python -m conformance module:callable --measure ece` does so from the command line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, final

import numpy as np

from truecal.auditing.metric import CallForm, Convention, Meter, Metric, find_form
from truecal.core.types import Array

Aspect = Literal["event", "classes"]
TOLERANCE = 1e-5
"""Relative to the larger of the value and 1/16: what sums in single precision may be off by."""


@final
@dataclass(frozen=True, eq=False)
class DataSet:
    """Labels, predictions of each class, perhaps weights, and the value of each measure: None where it has none."""

    name: str
    about: str
    y_true: Array
    y_proba: Array
    sample_weight: Array | None
    values: Mapping[str, float | None]

    def inputs(self, aspect: Aspect) -> tuple[Array, Array]:
        """Labels and (n, k) predictions: of all classes, or of the event "class 1" and its complement."""
        if aspect == "classes":
            return self.y_true, self.y_proba
        u = self.y_proba[:, 1]
        return (self.y_true == 1).astype(np.int64), np.stack([1 - u, u], axis=1)


@final
@dataclass(frozen=True)
class Outcome:
    """The value of a callable for one data set, and the stored value."""

    set: str
    expected: float
    found: float | None
    """None where the callable raised."""
    reason: str = ""

    def agrees(self, tolerance: float = TOLERANCE) -> bool:
        """Whether both values are the same up to a tolerance."""
        if self.found is None:
            return False
        if not (math.isfinite(self.found) and math.isfinite(self.expected)):
            return self.found == self.expected
        return abs(self.found - self.expected) <= tolerance * max(abs(self.expected), 1 / 16)


@cache
def measures() -> dict[str, dict[str, Any]]:
    """Every measure by name: its definition, and whether it looks at all classes or at the event "class 1"."""
    found: dict[str, dict[str, Any]] = json.loads(_folder().joinpath("measures.json").read_text("utf-8"))
    return found


@cache
def sets() -> tuple[DataSet, ...]:
    """The data sets in the order of their files."""
    places = sorted((p for p in _folder().iterdir() if p.name[:1].isdigit()), key=lambda place: place.name)
    return tuple(_read(json.loads(place.read_text("utf-8"))) for place in places)


def _folder() -> Any:
    return files("conformance").joinpath("sets")


def _read(stored: dict[str, Any]) -> DataSet:
    weights = stored["sample_weight"]
    return DataSet(
        stored["name"],
        stored["about"],
        np.array(stored["y_true"], dtype=np.int64),
        np.array(stored["y_proba"], dtype=np.float64),
        None if weights is None else np.array(weights, dtype=np.float64),
        {name: math.inf if value == "inf" else value for name, value in stored["values"].items()},
    )


def check(
    metric: Callable[..., Any],
    measure: str,
    *,
    convention: Convention = "y_true_first",
    metric_options: Mapping[str, Any] | None = None,
    weight_option: str | None = None,
) -> list[Outcome]:
    """Run a callable over every data set on which the measure has a value.

    The callable takes labels and predictions (predictions first with convention="preds_first") as numpy arrays or
    tensors, two classes as a matrix or as the second column; the form is found by trying. `weight_option` is the
    keyword of its weights; without it sets with weights are left out.

    >>> import truecal as tc
    >>> from conformance import check
    >>> all(outcome.agrees() for outcome in check(tc.ERRORS["ece"], "ece", weight_option="sample_weight"))
    True
    """
    if measure not in measures():
        raise ValueError(f"measure must be one of {', '.join(measures())}, got {measure!r}")
    found = []
    for data in sets():
        expected = data.values[measure]
        if expected is None or (data.sample_weight is not None and weight_option is None):
            continue
        options = dict(metric_options or {})
        if data.sample_weight is not None and weight_option is not None:
            options[weight_option] = data.sample_weight
        found.append(_outcome(metric, options, data, measures()[measure]["aspect"], expected, convention))
    return found


def _outcome(
    metric: Callable[..., Any],
    options: dict[str, Any],
    data: DataSet,
    aspect: Aspect,
    expected: float,
    convention: Convention,
) -> Outcome:
    y, p = data.inputs(aspect)
    meter = Meter(10**9, None)
    plain = {name: value for name, value in options.items() if not isinstance(value, np.ndarray)}
    wanted = CallForm(convention=convention, array="auto", binary="auto")
    form = find_form(lambda *both: metric(*both, **plain), p.shape[1], wanted, meter)
    if isinstance(form, str):
        return Outcome(data.name, expected, None, form)
    value = Metric(lambda *both: metric(*both, **options), form, meter).attempt(y, form.predictions(p))
    if isinstance(value, Exception):
        return Outcome(data.name, expected, None, f"{type(value).__name__}: {' '.join(str(value).split())[:200]}")
    return Outcome(data.name, expected, float(value))
