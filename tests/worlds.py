"""Every kind of error under every rule, and expectations over the small worlds of the audit by plain loops."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import truecal
from truecal.auditing.metric import CallForm
from truecal.auditing.worlds import lies, worlds
from truecal.kinds.named_errors import COMPOSED

tc: Any = truecal  # what a test hands in need not be of the right type

SCALAR_RULES = {
    "quantile": tc.Quantile(2),
    "quantile-together": tc.Quantile(2, ties="together"),
    "quantile-row": tc.Quantile(2, ties="row"),
    "quantile-many": tc.Quantile(9),
    "uniform": tc.EqualWidth(3),
    "edges": tc.Edges([0, 0.3, 0.55, 1]),
    "exact": tc.rules.Exact(),
    "two-bin": tc.TwoBin(),
    "poisson": tc.Poisson(0.2),
    "two-bin-grid": tc.rules.OnGrid(tc.TwoBin(), 8),
    "poisson-grid": tc.rules.OnGrid(tc.Poisson(0.2), 8),
}
VECTOR_RULES = {
    "argmax": tc.rules.ArgmaxQuantile(2),
    "argmax-together": tc.rules.ArgmaxQuantile(2, ties="together"),
    "argmax-row": tc.rules.ArgmaxQuantile(2, ties="row"),
    "kd": tc.rules.KdTree(2),
    "exact": tc.rules.Exact(),
}
COMMON = ("quantile", "argmax")  # rules that make quick meets in sums over all outcomes
FAMILIES = ("uniform", "kd")  # those that make test meets beside them; CI meets all
AVERAGED = ("two-bin", "poisson", "two-bin-grid", "poisson-grid")


def rules_for(metric: tc.CalibrationError) -> dict:
    """Every rule that applies to the metric's property and norm."""
    rules = VECTOR_RULES if isinstance(metric.property, tc.Full) else SCALAR_RULES
    return {name: rule for name, rule in rules.items() if metric.norm == "l2" or name not in AVERAGED}


def kind(metric: tc.CalibrationError) -> tuple:
    """What makes an error itself, whatever its bins."""
    return type(metric.property).__name__, metric.norm, metric.corrected


def variants(classes: int = 4) -> list:
    """(id, metric) for every kind of composed error, and for Linear(phi), under every rule that applies to it.

    ``classes`` is how many values phi has, and one more than thresholds of numbers, which fix a number of classes.
    """
    out = {}
    for metric in COMPOSED.values():
        for rule_name, rule in rules_for(metric).items():
            corrected = metric.corrected if isinstance(metric.property, (tc.Confidence, tc.TopLabel)) else "auto"
            name = f"{metric.symbol}[{kind(metric)[0]}]-{rule_name}"
            property = metric.property
            if property.kind == "distribution":
                property = tc.properties.Distribution([0.0, 1.5, 2.0][: classes - 1])  # unequal steps
            if property.kind == "survival":
                property = tc.properties.Survival([1.0, 2.0, 4.0][: classes - 1])
            out[name] = tc.CalibrationError(property, rule, metric.norm, corrected)
    for rule_name, rule in SCALAR_RULES.items():
        for norm in ("l2", "l1"):
            if rule_name != "edges" and (norm == "l2" or rule_name not in AVERAGED):
                name = f"{'LinCE' if norm == 'l2' else 'LinECE'}_φ[Linear]-{rule_name}"
                out[name] = tc.CalibrationError(tc.Linear([0.0, 1.0, 0.4, 0.7][:classes]), rule, norm)
    for rule_name in ("kd", "exact"):
        phi = [[0.0, 1.0], [1.0, 0.3], [0.5, 0.5], [0.2, 0.9]][:classes]
        out[f"LinCE_φ[Linear vector]-{rule_name}"] = tc.CalibrationError(tc.Linear(phi), VECTOR_RULES[rule_name])
    return list(out.items())


def over_all_outcomes(cases: list) -> pytest.MarkDecorator:
    """Parametrise `metric` by (id, metric), for laws that sum over all outcomes: slow together but for common rules.
    Two labels have the most outcomes."""
    marks: dict[str, tuple] = dict.fromkeys((*SCALAR_RULES, *VECTOR_RULES), (pytest.mark.heavy,))
    marks |= dict.fromkeys(FAMILIES, (pytest.mark.slow,)) | dict.fromkeys(COMMON, ())

    def marked(name: str) -> tuple:
        return (pytest.mark.heavy,) if "[Labelwise]" in name else marks.get(name.partition("-")[2], ())

    return pytest.mark.parametrize("metric", [pytest.param(m, id=i, marks=marked(i)) for i, m in cases])


def is_multiclass(metric: tc.CalibrationError) -> bool:
    return metric.property.of_distributions


LABEL_SETS = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
"""The outcomes of a row with two labels, which are four classes."""


class OverLabelSets:
    """An error of several labels as one of classes: every set of labels is a class, however the labels depend."""

    def __init__(self, metric: tc.CalibrationError) -> None:
        self.metric = metric

    def __getattr__(self, name: str) -> Any:
        return getattr(self.metric, name)

    def __call__(self, y, p, **options) -> float:
        return float(self.metric(LABEL_SETS[y], p @ LABEL_SETS, **options))

    def read(self, y, p):
        return self.metric.read(LABEL_SETS[y], p @ LABEL_SETS)


class OverThresholds(OverLabelSets):
    """An error of distributions of a number as one of classes: outcome j exceeds j of the thresholds 0, 1, ..."""

    def __call__(self, y, p, **options) -> float:
        return float(self.metric(y, cumulated(p), **options))

    def read(self, y, p):
        return self.metric.read(y, cumulated(p))


class OverTimes(OverThresholds):
    """An error of risks at horizons as one of classes: the event comes before horizon j and after the others."""

    def __call__(self, y, p, **options) -> float:
        return float(self.metric(times(y, self.metric), cumulated(p), **options))

    def read(self, y, p):
        return self.metric.read(times(y, self.metric), cumulated(p))


def times(y, metric, weights=1.0) -> np.ndarray:
    """Times before horizon y, known at every horizon, with what they count."""
    at = np.array([*metric.property.horizons, 9.0])
    out = np.zeros(len(y), [("time", float), ("event", bool), ("weights", float, (len(at) - 1,))])
    out["time"], out["event"], out["weights"] = at[y] - 0.5, True, weights
    return out


def cumulated(p) -> np.ndarray:
    """F at the thresholds from the chances of the intervals between them."""
    return p.cumsum(axis=1)[:, :-1].clip(0.0, 1.0)


def in_classes(metric: tc.CalibrationError) -> Any:
    """The error as one of class labels and distributions, where it is one of label tables or of numbers."""
    if metric.property.kind == "distribution":
        return OverThresholds(metric)
    if metric.property.kind == "survival":
        at = metric.property.horizons or (1.0, 2.0)
        return OverTimes(replace(metric, property=tc.properties.Survival(at)))
    return OverLabelSets(metric) if metric.property.label_by_label else metric


def label_table(rng, n: int, k: int, tied: bool) -> tuple:
    """Labels that apply and their probabilities, (n, k) each; tied: probabilities are multiples of 1/8."""
    p = rng.integers(0, 9, (n, k)) / 8 if tied else rng.random((n, k))
    return (rng.random((n, k)) < p).astype(int), p


def bounded(metric: tc.CalibrationError) -> tc.CalibrationError:
    """Bare outcomes need a range for rules on an interval."""
    if type(metric.property).__name__ == "Outcomes":
        return tc.CalibrationError(type(metric.property)((0.0, 1.0)), metric.binning, metric.norm)
    return metric


def expected(metric, truth, reports) -> float:
    """E over independent y_i ~ truth_i of the metric; truth is (n, k), or (n,) for one probability per row."""
    truth = np.asarray(truth, dtype=float)
    two = np.stack([1 - truth, truth], axis=1) if truth.ndim == 1 else truth
    reports = np.ascontiguousarray(reports)
    values = _values(metric, reports.tobytes(), (two.shape[1],) * len(two))
    total = 0.0
    for outcome in product(range(two.shape[1]), repeat=len(two)):
        chance = np.prod(two[np.arange(len(two)), outcome])
        if chance > 0:
            if np.isnan(values[outcome]):
                values[outcome] = metric(np.array(outcome), reports)
            total += chance * values[outcome]
    return float(total)


@lru_cache(maxsize=20_000)
def _values(metric, reports: bytes, outcomes: tuple[int, ...]) -> np.ndarray:
    """What the metric gives for these predictions, per outcome, to be filled in.

    No value depends on the chances, and the same predictions come up in many worlds and laws.
    """
    return np.full(outcomes, np.nan)


def classes_of(metric) -> int:
    if isinstance(metric, OverTimes):
        return len(metric.property.horizons) + 1
    if isinstance(metric, OverThresholds):
        return len(metric.property.thresholds) + 1
    if isinstance(metric, OverLabelSets):
        return len(LABEL_SETS)
    return len(metric.property.phi) if isinstance(metric.property, tc.Linear) else 3


def worlds_and_lies(metric):
    """(truth, one lie of each kind) in the metric's form: three rows of classes, or one probability for four rows."""
    multiclass = is_multiclass(metric) or isinstance(metric, OverLabelSets)
    found = worlds(3, classes_of(metric)) if multiclass else worlds(4, 2)
    form = CallForm(binary="matrix" if multiclass else "column")
    return [
        (form.predictions(truth), [form.predictions(lie) for lie in dict(lies(truth)).values()])
        for truth in list(found.values())[: 7 if multiclass else 6]
    ]
