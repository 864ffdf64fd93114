"""Rows in another order are refused by every public function, for every argument by row, in every form.

The calls are generated from the signatures of all public names: an argument that is in neither list below fails, so
that a new one cannot be forgotten.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import truecal as tc
from truecal.baselines import BASELINES
from truecal.core.frames import refuse_reordered

BY_ROW = """
    y_true y_proba sample_weight groups by features folds time models a b correct confidence outcomes reports forecast
    X y logits_fit y_fit answers questions reference stated judge human texts losses mean sd members source censoring_by
"""
OTHER = """
    error errors n_bins labels pos_label task thresholds ignore_index class_axis level advise n_resamples seed
    sampler max_gap progress diagram_bins name names strategy norm ties scale corrected range per_example what classes
    property binning method estimator guard candidates allow_untruthful pairs bins min_rows cost risk delta words
    normalize title view ax label style edges blocks values levels grid n p_new logits_select y_select alpha shape gap
    power y_train phi space comparison higher_is_better seconds metric budget metric_options convention
    input binary array of prevalence fit_params resource overlap horizons survival
"""
"""Options, and arguments of one entry per class, level or edge, or whose rows are others than those of the labels."""
MAKERS: dict[str, Callable[[], Any]] = {
    "Monitor": tc.monitor,
    "Stream": tc.stream,
    "CalibrationError": lambda: tc.ERRORS["binary"],
    "Baseline": lambda: next(iter(BASELINES.values())),
    "CalibratedClassifier": lambda: tc.recalibration.CalibratedClassifier(LogisticRegression()),
}
"""How objects are made whose classes take arguments."""
N = 12
ORDER = np.random.default_rng(0).permutation(N)
LABELS = [f"row {i}" for i in range(N)]


def modules() -> list[ModuleType]:
    return [tc, *(getattr(tc, name) for name in dir(tc) if inspect.ismodule(getattr(tc, name)))]


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public function, the methods of public classes and objects that take rows, and their names."""
    seen: set[int] = set()
    for module in modules():
        for name in dir(module):
            value = getattr(module, name)
            if name.startswith("_") or inspect.ismodule(value) or id(value) in seen or module is tc.sql:
                continue
            seen.add(id(value))
            full = f"{module.__name__}.{name}"
            if isinstance(value, type):
                names = [m for m in dir(value) if m == "__call__" or not m.startswith("_")]
                names = [] if hasattr(tc.properties, name) else names  # the callers of properties have checked the rows
                found = [(m, inspect.getattr_static(value, m)) for m in names]
                methods = [m for m, there in found if inspect.isfunction(there) and len(rows_of(there)) > 1]
                yield from ((f"{full}.{m}", getattr(MAKERS.get(name, value)(), m)) for m in methods)
            elif callable(value):
                yield full, value


def rows_of(function: Callable[..., Any]) -> list[str]:
    """Its arguments by row; a reader of files names columns by the same words."""
    names = inspect.signature(function).parameters
    return [] if "path" in names else [name for name in names if name in BY_ROW.split()]


CALLED = {name: function for name, function in public() if len(rows_of(function)) > 1}
FORMS: dict[str, Callable[[Any], Any]] = {
    "series": lambda index: pd.Series(np.linspace(0.1, 0.9, N), index=index),
    "frame": lambda index: pd.DataFrame(
        {"cat": np.linspace(0.1, 0.9, N), "dog": np.linspace(0.9, 0.1, N)}, index=index
    ),
    "mapping": lambda index: {"region": pd.Series(np.arange(N), index=index)},
    "list": lambda index: [pd.Series(np.arange(N), index=index)],
    "top class": lambda index: tc.TopPredictions(pd.Series(np.arange(N) % 2, index=index), np.linspace(0.1, 0.9, N)),
}


def refuses(function: Callable[..., Any], first: str, other: str, form: str) -> bool:
    """Whether a call is refused, of which one argument has the rows of another in another order."""
    parameters = inspect.signature(function).parameters
    given: dict[str, Any] = {
        name: None
        for name, p in parameters.items()
        if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
    }
    given |= {first: FORMS["series"](LABELS), other: FORMS[form](pd.Index(LABELS)[ORDER])}
    try:
        function(**given)
    except Exception as error:  # other errors say what else is wrong with such a call
        return isinstance(error, ValueError) and "have the same index in another order" in str(error)
    return False


def test_every_argument_of_a_public_function_is_known():
    unknown = {
        (name, argument)
        for name, function in public()
        for argument in inspect.signature(function).parameters
        if rows_of(function) and argument not in (BY_ROW + OTHER).split()
    }
    assert not unknown, "say in this file whether these hold one entry per row"
    assert len(CALLED) >= 50


@pytest.mark.parametrize("name", CALLED)
def test_rows_in_another_order_are_refused(name: str):
    function = CALLED[name]
    first, *others = rows_of(function)
    missed = [(other, form) for other in others for form in FORMS if not refuses(function, first, other, form)]
    assert not missed


def test_the_law_finds_a_function_that_forgets():
    def forgets(y_true: Any, y_proba: Any) -> float:
        return float(np.mean(np.asarray(y_true) - np.asarray(y_proba)))

    assert not refuses(forgets, "y_true", "y_proba", "series")


def test_rows_in_the_same_order_are_measured():
    rng = np.random.default_rng(1)
    y, p = pd.Series(rng.integers(0, 2, N), index=LABELS), pd.Series(rng.random(N), index=LABELS)
    other = pd.Series(rng.random(N), index=[f"other {i}" for i in range(N)])
    assert tc.ece(y, p) == tc.ece(y.to_numpy(), p.to_numpy())
    assert tc.ece(y, other) == tc.ece(y.to_numpy(), other.to_numpy())
    by = {"region": pd.Series(np.arange(N) % 2, index=LABELS)}
    assert len(tc.evaluate(y, p, by=by, n_resamples=19).subgroups) == 2


def test_an_endless_list_is_looked_into_a_little():
    endless: list[Any] = []
    endless.append(endless)
    refuse_reordered(y_true=endless, y_proba=pd.Series([1.0]))
