"""Small worlds and every way to misreport them, with exact expectations by listing all outcomes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

import truecal
from truecal.core.errors import COMPOSED

tc: Any = truecal  # what a test hands in need not be of the right type

SCALAR_RULES = {
    "quantile": tc.Quantile(2),
    "quantile-together": tc.Quantile(2, ties="together"),
    "quantile-row": tc.Quantile(2, ties="row"),
    "quantile-many": tc.Quantile(9),
    "uniform": tc.EqualWidth(3),
    "edges": tc.Edges([0, 0.3, 0.55, 1]),
    "exact": tc.Exact(),
    "two-bin": tc.TwoBin(),
    "poisson": tc.Poisson(0.2),
}
VECTOR_RULES = {
    "argmax": tc.ArgmaxQuantile(2),
    "argmax-together": tc.ArgmaxQuantile(2, ties="together"),
    "argmax-row": tc.ArgmaxQuantile(2, ties="row"),
    "kd": tc.KdTree(2),
    "kmeans": tc.KMeans(2),
    "halfspaces": tc.Halfspaces(3),
    "exact": tc.Exact(),
}
AVERAGED = ("two-bin", "poisson", "halfspaces")


def rules_for(metric: tc.CalibrationError) -> dict:
    """Every rule that applies to the metric's property and norm."""
    rules = VECTOR_RULES if isinstance(metric.property, tc.Full) else SCALAR_RULES
    return {name: rule for name, rule in rules.items() if metric.norm == "l2" or name not in AVERAGED}


def kind(metric: tc.CalibrationError) -> tuple:
    """What makes an error itself, whatever its bins."""
    return type(metric.property).__name__, metric.norm, metric.corrected


def variants() -> list:
    """(id, metric) for every kind of composed error, and for Linear(phi), under every rule that applies to it."""
    out = {}
    for metric in COMPOSED.values():
        for rule_name, rule in rules_for(metric).items():
            corrected = metric.corrected if isinstance(metric.property, (tc.Confidence, tc.TopLabel)) else "auto"
            name = f"{metric.symbol}[{kind(metric)[0]}]-{rule_name}"
            out[name] = tc.CalibrationError(metric.property, rule, metric.norm, corrected)
    for rule_name, rule in SCALAR_RULES.items():
        for norm in ("l2", "l1"):
            if rule_name != "edges" and (norm == "l2" or rule_name not in AVERAGED):
                name = f"{'LinCE' if norm == 'l2' else 'LinECE'}_φ[Linear]-{rule_name}"
                out[name] = tc.CalibrationError(tc.Linear([0.0, 1.0, 0.4, 0.7]), rule, norm)
    for rule_name in ("kd", "kmeans", "exact"):
        phi = [[0.0, 1.0], [1.0, 0.3], [0.5, 0.5], [0.2, 0.9]]
        out[f"LinCE_φ[Linear vector]-{rule_name}"] = tc.CalibrationError(tc.Linear(phi), VECTOR_RULES[rule_name])
    return list(out.items())


def is_multiclass(metric: tc.CalibrationError) -> bool:
    return isinstance(metric.property, (tc.Classwise, tc.Confidence, tc.Full, tc.Linear))


def bounded(metric: tc.CalibrationError) -> tc.CalibrationError:
    """Bare outcomes need a range for rules on an interval."""
    if type(metric.property).__name__ == "Outcomes":
        return tc.CalibrationError(type(metric.property)((0.0, 1.0)), metric.binning, metric.norm)
    return metric


def expected(metric, truth, reports) -> float:
    """E over independent y_i ~ truth_i of the metric; truth is (n, k), or (n,) for one probability per row."""
    truth = np.asarray(truth, dtype=float)
    two = np.stack([1 - truth, truth], axis=1) if truth.ndim == 1 else truth
    total = 0.0
    for outcome in product(range(two.shape[1]), repeat=len(two)):
        chance = np.prod(two[np.arange(len(two)), outcome])
        if chance > 0:
            total += chance * metric(np.array(outcome), reports)
    return float(total)


def multiclass_worlds() -> list[np.ndarray]:
    rng = np.random.default_rng(7)
    return [
        np.full((3, 3), 1 / 3),
        np.array([[1 / 3, 1 / 2, 1 / 6]] * 3),
        np.array([[0.9, 0.05, 0.05], [0.9, 0.05, 0.05], [0.1, 0.8, 0.1]]),
        np.array([[0.98, 0.01, 0.01], [0.01, 0.01, 0.98], [0.4, 0.35, 0.25]]),
        rng.dirichlet([0.3] * 3, 3),
        rng.dirichlet([1] * 3, 3),
        rng.dirichlet([10] * 3, 3),
    ]


def binary_worlds() -> list[np.ndarray]:
    rng = np.random.default_rng(8)
    return [
        np.full(4, 0.5),
        np.arange(1, 5) / 4,
        np.array([0.1, 0.1, 0.9, 0.9]),
        np.array([0.02, 0.03, 0.97, 0.5]),
        rng.random(4),
    ]


def multiclass_lies(truth: np.ndarray) -> list[np.ndarray]:
    """Pool, shrink, sharpen, round, jitter, snap, swap the top two, uniform, another row's truth, anything."""
    rng = np.random.default_rng(9)
    n, k = truth.shape
    uniform = np.full((n, k), 1 / k)
    swapped = truth.copy()
    for row in swapped:
        a, b = np.argsort(-row, kind="stable")[:2]
        row[[a, b]] = row[[b, a]]
    jitter = np.clip(truth + 1e-6 * rng.standard_normal(truth.shape), 1e-9, None)
    lies = [
        np.tile(truth.mean(axis=0), (n, 1)),
        uniform,
        0.7 * truth + 0.3 * uniform,
        truth**2,
        np.round(truth, 1) + 1e-12,
        jitter,
        swapped,
        truth[::-1],
        np.eye(k)[truth.argmax(axis=1)],
        *(rng.dirichlet([a] * k, n) for a in (0.3, 1, 10)),
    ]
    return [lie / lie.sum(axis=1, keepdims=True) for lie in lies]


def binary_lies(truth: np.ndarray) -> list[np.ndarray]:
    rng = np.random.default_rng(10)
    return [
        np.full_like(truth, truth.mean()),
        np.full_like(truth, 0.5),
        0.7 * truth + 0.15,
        np.round(truth, 1),
        np.clip(truth + 1e-6 * rng.standard_normal(len(truth)), 0, 1),
        np.clip(truth + np.array([0.1, -0.1] * (len(truth) // 2)), 0, 1),
        (truth > 0.5).astype(float),
        np.minimum(truth, 1 / 3),
        truth[::-1].copy(),
        rng.random(len(truth)),
    ]


def classes_of(metric) -> int:
    return len(metric.property.phi) if isinstance(metric.property, tc.Linear) else 3


def with_classes(rows: np.ndarray, k: int) -> np.ndarray:
    """The same worlds with classes added that take a tenth of the chance each."""
    more = np.full((len(rows), k - rows.shape[1]), 0.1)
    return np.hstack([rows * (1 - more.sum(axis=1, keepdims=True)), more])


def worlds_and_lies(metric):
    if is_multiclass(metric):
        worlds = [with_classes(truth, classes_of(metric)) for truth in multiclass_worlds()]
        return [(truth, multiclass_lies(truth)) for truth in worlds]
    return [(truth, binary_lies(truth)) for truth in binary_worlds()]
