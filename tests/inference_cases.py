"""What tests of inference share: samples with and without ties, and the matrix G of every rule by definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import reference
import truecal as tc
from truecal.core.rules import resolve_ties

Array = np.ndarray[Any, np.dtype[Any]]

TIED = np.array([0.2, 0.5, 0.5, 0.5, 0.7, 0.7, 0.7, 0.7, 0.7, 0.1, 0.9, 0.9, 0.33])
SPREAD = np.array([0.05, 0.11, 0.23, 0.31, 0.42, 0.44, 0.58, 0.63, 0.71, 0.79, 0.83, 0.94])

SCALAR_RULES = [
    *[tc.Quantile(m, ties=t) for m in (1, 2, 3, 5, 40) for t in ("average", "together", "row")],
    tc.Quantile((2, 3, 5, 8)),
    tc.EqualWidth(4),
    tc.EqualWidth((2, 3, 10)),
    tc.Edges([0, 0.3, 0.55, 1]),
    tc.rules.Exact(),
    tc.TwoBin(),
    tc.Poisson(0.15),
]
VECTOR_RULES = [
    *[tc.rules.ArgmaxQuantile(m, ties=t) for m in (1, 2, 3) for t in ("average", "together", "row")],
    tc.rules.ArgmaxQuantile((1, 2, 4)),
    tc.rules.KdTree((2, 4)),
    tc.rules.Exact(),
]


def softmax(z: Array) -> Array:
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def draw_labels(rng: np.random.Generator, p: Array) -> Array:
    """One label per row, from its distribution."""
    return (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1).clip(max=p.shape[1] - 1)


def rows_of(k: int, n: int, seed: int, tied: bool = True) -> tuple[Array, Array]:
    """Labels and probabilities, with many equal entries when tied."""
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 5, (n, k)).astype(float) if tied else rng.dirichlet(np.ones(k), n)
    p /= p.sum(axis=1, keepdims=True)
    return draw_labels(rng, p), p


def world(n: int = 400, k: int = 4, seed: int = 0) -> tuple[Array, Array]:
    """Logits, and labels drawn from their softmax."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    return z, (softmax(z).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


def arguments(name: str, tied: bool = True) -> tuple[Array, Array, Callable[[np.random.Generator], Any] | None]:
    """Outcomes and predictions of the kind that a named error takes, and a sampler where outcomes are bare."""
    y, p = rows_of(4, 40, 7, tied)
    if name.startswith(("binary", "top_label")):
        return (y == 0).astype(int), p[:, 0], None
    if name.startswith("linear"):
        return (y == 0).astype(float), p[:, 0], lambda rng: (rng.random(40) < p[:, 0]).astype(float)
    return y, p, None


def counts(rule: Any) -> tuple[int | None, ...]:
    return rule.counts or (None,)


def us_of(error: tc.CalibrationError, sample: Any) -> Array:
    """The U part at each bin count."""
    return np.array([parts.U for parts in error.parts(sample)])


def scalar_chance(reports: Array, rule: Any, m: int | None) -> Array:
    """G of scalar predictions: the chance that two rows share a cell."""
    g: Any
    if isinstance(rule, tc.Quantile):
        assert m is not None
        if resolve_ties(rule, "l2") == "average":
            g = reference.quantile_average(list(reports), m)
        else:
            g = reference.same_bin(reference.quantile_bins(list(reports), m, rule.ties))
    elif isinstance(rule, tc.EqualWidth):
        assert m is not None
        g = reference.same_bin(reference.interval_bins(reports, reference.edges_of(m, reports.dtype)))
    elif isinstance(rule, tc.Edges):
        g = reference.same_bin(reference.interval_bins(reports, rule.values))
    elif isinstance(rule, tc.rules.Exact):
        g = reference.same_bin(reference.exact_bins(reports))
    elif isinstance(rule, tc.TwoBin):
        g = reference.two_bin(reports)
    else:
        g = reference.poisson(reports, rule.theta)
    return np.array([[float(x) for x in row] for row in g])


def vector_chance(rows: Array, rule: Any, m: int | None) -> Array:
    """G of whole distributions."""
    g: Any
    if isinstance(rule, tc.rules.ArgmaxQuantile):
        assert m is not None
        g = reference.argmax_quantile(rows, m, resolve_ties(rule, "l2"))
    elif isinstance(rule, tc.rules.KdTree):
        assert m is not None
        g = reference.same_bin(reference.kd_bins(rows, m))
    else:
        g = reference.same_bin(reference.exact_bins(rows))
    return np.array([[float(x) for x in row] for row in g])
