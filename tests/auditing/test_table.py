"""Worlds, lies and exact expectations, each held against plain loops."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import truecal
from truecal.auditing.expectations import Frame, chances, expectation, tabulate
from truecal.auditing.lasting import draw
from truecal.auditing.metric import CallForm, Meter, Metric
from truecal.auditing.worlds import WAYS, as_floats, grid, grid_predictions, lies, matrix, worlds
from worlds import expected

tc: Any = truecal  # what a test hands in need not be of the right type


def metric_of(call, **form):
    return Metric(call, CallForm(**form), Meter(10**6, None))


@pytest.mark.parametrize(("n", "k"), [(1, 2), (4, 2), (1, 3), (3, 3), (2, 5)])
def test_worlds_and_lies_are_distributions_and_lies_differ_from_the_truth(n, k):
    kinds = set()
    for world in worlds(n, k).values():
        for rows in (world, *(lie for _, lie in lies(world))):
            assert rows.shape == (n, k)
            assert all(isinstance(value, Fraction) and value >= 0 for value in rows.ravel())
            assert all(row.sum() == 1 for row in rows)
        assert all((lie != world).any() for _, lie in lies(world))
        kinds |= {kind for kind, _ in lies(world)}
    assert kinds <= set(WAYS) and (n < 3 or kinds == set(WAYS))


def test_the_world_of_the_paper_is_there():
    assert worlds(1, 3)["split"].tolist() == [[Fraction(1, 3), Fraction(1, 2), Fraction(1, 6)]]
    assert as_floats(worlds(4, 2)["pairs"])[:, 1].tolist() == [0.1, 0.1, 0.9, 0.9]


@pytest.mark.parametrize(("n", "k"), [(3, 2), (2, 3)])
def test_expectations_are_those_of_plain_loops(n, k):
    call = tc.ERRORS["classwise"]
    given = list(worlds(n, k).values())[:4]
    table = tabulate(metric_of(call), given)
    for w, world in enumerate(given):
        for u, rows in enumerate(given):
            loops = expected(call, as_floats(world), as_floats(rows))
            assert table.expected[w, u] == pytest.approx(loops, rel=1e-12)
            assert table.gains[w, u] == pytest.approx(table.expected[w, w] - table.expected[w, u])
    np.testing.assert_allclose(table.chances.sum(axis=1), 1)


def test_certain_rows_cost_no_outcomes():
    call, frame = tc.ERRORS["binary"].with_bins(3), Frame(2, 1)
    world, lie = matrix([["1/2", "1/2"], ["0.9", "0.1"]]), matrix([["0.6", "0.4"]] * 2)
    table = tabulate(metric_of(call, binary="column"), [world, lie], frame)
    assert table.rows == 5 and len(table.outcomes) == 4
    full = [as_floats(frame.around(rows))[:, 1] for rows in (world, lie)]
    assert full[0].tolist() == [0, 0, 0.5, 0.1, 1]
    assert table.expected[0, 1] == pytest.approx(expected(call, full[0], full[1]), rel=1e-12)


def test_impossible_outcomes_do_not_count_and_infinite_ones_do():
    certain, half, three = [0.0, 1.0], [0.5, 0.5], [0.25, 0.75]
    values = np.array([[math.inf, 1.0], [2.0, 3.0], [math.nan, 1.0]])
    found = expectation(np.array([certain, half, three]), values)
    np.testing.assert_array_equal(found[0], [1.0, 3.0, 1.0])
    np.testing.assert_array_equal(found[1], [math.inf, 2.5, math.nan])


def test_log_loss_may_be_infinite_and_is_no_gain():
    table = tabulate(metric_of(tc.cross_entropy), grid_predictions(grid(2, 2), 1))
    assert np.isneginf(table.gains).any() and not np.isnan(table.gains).any() and not table.convicted.any()


def test_a_grid_has_every_distribution_once():
    points = grid(3, 4)
    assert len(points) == 15 == len(set(map(tuple, points))) and all(sum(p) == 1 for p in points)
    assert sum(1 for _ in grid_predictions(points, 2)) == 225


def test_chances_are_exact():
    world = matrix([["1/3", "2/3"], ["1/7", "6/7"]])
    outcomes = Frame().outcomes(2, 2)
    assert chances(world, outcomes).tolist() == [Fraction(c, 21) for c in (1, 6, 2, 12)]


def test_drawn_outcomes_have_the_chances_of_the_world(rng):
    world = matrix([["0.2", "0.3", "0.5"], ["1", "0", "0"], ["0", "0", "1"]])
    found = draw(world, 20_000, rng)
    shares = np.stack([(found == j).mean(axis=0) for j in range(3)], axis=1)
    np.testing.assert_allclose(shares, as_floats(world), atol=0.015)
    assert set(found[:, 1]) == {0} and set(found[:, 2]) == {2}


def test_logits_and_columns_are_made_from_the_same_chances():
    rows = matrix([["0.2", "0.8"]])
    assert CallForm(binary="column").predictions(rows).tolist() == [0.8]
    np.testing.assert_allclose(CallForm(input="logits").predictions(rows), np.log([[0.2, 0.8]]))
    np.testing.assert_allclose(CallForm(input="logits", binary="column").predictions(rows), [np.log(4)])
