"""Cells that a stream can freeze: edges of each view, of each argmax class, and averages over the cuts of a grid."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import truecal as tc

EDGES = np.array([[0, 0.3, 0.3, 1], [0, 0.2, 0.5, 1], [0, 0.4, 0.6, 1]])


def sample(n: int = 40) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    p = rng.multinomial(10, [0.3, 0.3, 0.4], n) / 10  # many reports on an edge
    return rng.integers(0, 3, n), p, rng.random(n)


def bin_of(value: float, edges: Any) -> int:
    """The first bin (a, b] that holds the value, or the first of all for its left end."""
    return next((j for j, (a, b) in enumerate(pairwise(edges)) if a < value <= b), 0)


@pytest.mark.parametrize("weighted", [False, True])
def test_edges_of_each_view_are_loops_over_rows(weighted):
    y, p, w = sample()
    w = w if weighted else np.ones(len(y))
    total = 0.0
    for j in range(3):
        for b in range(3):
            rows = [i for i in range(len(y)) if bin_of(p[i, j], EDGES[j]) == b]
            total += sum(w[i] * (p[i, j] - (y[i] == j)) for i in rows) ** 2
    error = tc.CalibrationError(tc.Classwise(), tc.Edges(EDGES))
    found = error(y, p, sample_weight=w if weighted else None)
    assert found == pytest.approx(total / 3 / w.sum() ** 2, rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_argmax_edges_are_loops_over_rows(weighted):
    y, p, w = sample()
    w = w if weighted else np.ones(len(y))
    sums = np.zeros((3, 3, 3))
    for i in range(len(y)):
        top = int(np.argmax(p[i]))
        sums[top, bin_of(p[i, top], EDGES[top])] += w[i] * (p[i] - np.eye(3)[y[i]])
    error = tc.CalibrationError(tc.Full(), tc.rules.ArgmaxEdges(EDGES))
    found = error(y, p, sample_weight=w if weighted else None)
    assert found == pytest.approx(np.square(sums).sum() / w.sum() ** 2, rel=1e-12)


@pytest.mark.parametrize("rule", [tc.TwoBin(), tc.Poisson(0.3)])
def test_on_a_grid_is_the_mean_over_cuts_between_its_cells(rule):
    """The definition: draw cuts among the inner edges of the grid, sum squares over the parts, average."""
    rng, N = np.random.default_rng(0), 5
    u = np.array([0.0, 0.2, 0.21, 0.4, 0.55, 0.6, 0.99, 1.0])
    y = rng.integers(0, 2, len(u))
    cell = np.array([bin_of(x, np.arange(N + 1) / N) for x in u])
    wanted = 0.0
    for cuts in product([False, True], repeat=N - 1):
        if isinstance(rule, tc.TwoBin):
            chance = 1 / N if sum(cuts) <= 1 else 0.0
        else:
            cut = 1 - np.exp(-1 / (N * rule.theta))
            chance = float(np.prod([cut if c else 1 - cut for c in cuts]))
        part = np.concatenate([[0], np.cumsum(cuts)])[cell]
        wanted += chance * sum(float((u - y)[part == b].sum()) ** 2 for b in set(part.tolist()))
    error = tc.CalibrationError(tc.Binary(), tc.rules.OnGrid(rule, N))
    assert error(y, u) == pytest.approx(wanted / len(u) ** 2, rel=1e-12)


def test_a_fine_grid_is_close_to_the_rule_itself():
    rng = np.random.default_rng(1)
    u = rng.random(500)
    y = rng.random(500) < u**2
    for rule in (tc.TwoBin(), tc.Poisson(0.1)):
        exact, grid = (tc.CalibrationError(tc.Binary(), r)(y, u) for r in (rule, tc.rules.OnGrid(rule)))
        assert grid == pytest.approx(exact, rel=1e-3) and grid != exact


@pytest.mark.slow
def test_truth_is_optimal_over_argmax_edges():
    """All 27 outcomes of three rows: nobody gains by another report."""
    error = tc.CalibrationError(tc.Full(), tc.rules.ArgmaxEdges(EDGES))
    rng = np.random.default_rng(2)

    def expected(truth: Any, report: Any) -> float:
        outcomes = product(range(3), repeat=3)
        return sum(np.prod([truth[i, c] for i, c in enumerate(y)]) * error(list(y), report) for y in outcomes)

    for _ in range(4):
        truth = rng.dirichlet([1, 1, 1], 3)
        best = expected(truth, truth)
        for lie in (rng.dirichlet([1, 1, 1], 3), np.full((3, 3), 1 / 3), truth[::-1], np.eye(3)[truth.argmax(axis=1)]):
            assert expected(truth, lie) >= best - 1e-12


def test_refused_in_words():
    y, p, _ = sample()
    for make, words in (
        (lambda: tc.Edges([[0, 0.5, 0.4, 1]]), "must not decrease"),
        (lambda: tc.Edges(np.zeros((1, 2, 3))), "finite increasing"),
        (lambda: tc.CalibrationError(tc.Classwise(), tc.Edges(EDGES[:2]))(y, p), "edges has rows for 2 views"),
        (lambda: tc.CalibrationError(tc.Classwise(), tc.Edges(EDGES / 2))(y, p), "do not cover the prediction"),
        (lambda: tc.CalibrationError(tc.Full(), tc.rules.ArgmaxEdges(EDGES[:2]))(y, p), "edges has rows for 2 classes"),
        (lambda: tc.rules.ArgmaxEdges([0, 1]), "one row per class"),
        (lambda: tc.CalibrationError(tc.Binary(), tc.rules.OnGrid(tc.TwoBin()), "l1"), "norm='l1' cannot be used"),
    ):
        with pytest.raises(ValueError, match=words):
            make()
    with pytest.raises(TypeError, match="OnGrid takes"):
        tc.rules.OnGrid(tc.Quantile(3))  # type: ignore[arg-type]  # what a user may hand in
