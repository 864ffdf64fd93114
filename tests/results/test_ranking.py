"""Orders of models, held against their definitions written as plain loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from truecal.results.ranking import dominance, flips, ranks, tied

small_losses = st.integers(1, 7).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=2), min_size=n, max_size=n)
)


def dominates(a, b):
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(x < y for x, y in zip(a, b, strict=True))


def longest_chain_length(rows):
    """Every subset, as a definition: the largest one that the order puts in a line."""
    best = 0
    for size in range(1, len(rows) + 1):
        for subset in itertools.combinations(rows, size):
            if all(dominates(a, b) or dominates(b, a) for a, b in itertools.combinations(subset, 2)):
                best = size
    return best


@given(small_losses)
@settings(deadline=None)
def test_dominance_is_its_definition(rows):
    result = dominance(rows)
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            assert result.order[i, j] == dominates(a, b)
    assert all(result.order[i, j] for i, j in itertools.pairwise(result.chain))
    assert len(result.chain) == longest_chain_length(rows)


@given(small_losses, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_chain_has_the_same_losses_whatever_the_order_of_rows(rows, random):
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert [rows[i] for i in dominance(rows).chain] == [shuffled[i] for i in dominance(shuffled).chain]


def test_dominance_when_sums_of_losses_round_to_a_tie_or_are_infinite():
    tiny = dominance([[1.0, 1e20], [0.0, 1e20]])
    assert tiny.chain == (1, 0)
    infinite = dominance({"worst": [0.5, np.inf], "best": [0.4, np.inf], "finite": [0.6, 1.0]})
    assert infinite.chain_names == ("best", "worst")
    assert not infinite.order[2].any()


@pytest.mark.slow
def test_dominance_of_many_models_in_blocks_equals_one_comparison_of_all():
    rng = np.random.default_rng(0)
    losses = rng.normal(size=(1500, 1)) + 0.3 * rng.normal(size=(1500, 5))
    result = dominance(losses)
    expected = (losses[:, None] <= losses[None]).all(-1) & (losses[:, None] < losses[None]).any(-1)
    np.testing.assert_array_equal(result.order, expected)
    assert len(result.chain) > 20
    assert result.comparable == pytest.approx(expected.sum() / (1500 * 1499 / 2))


def test_dominance_shows_and_exports_names():
    result = dominance({"<b>": [0.1, 0.2], "c": [0.2, 0.3]})
    assert repr(result) == "Dominance of 2 models: 100% of pairs comparable, longest chain of 2: <b> < c"
    assert "<b>" not in result._repr_html_()
    assert result.to_dict() == {"names": ["<b>", "c"], "order": [[False, True], [False, False]], "chain": ["<b>", "c"]}
    assert result.to_pandas().loc["<b>", "c"]


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([[0.1, np.nan]], "NaN at row 0, column 1"),
        ([0.1, 0.2], r"shape \(n_models, n_losses\)"),
        ({"a": [1.0], "b": [1.0, 2.0]}, "every model needs the same losses"),
        ({}, "not be empty"),
    ],
)
def test_dominance_refuses(losses, words):
    with pytest.raises(ValueError, match=words):
        dominance(losses)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_ranks_are_scipys_average_ranks(values):
    np.testing.assert_array_equal(ranks(values), stats.rankdata(values))


def test_ranks_work_along_the_last_axis():
    assert ranks([[2, 1], [5, 5]]).tolist() == [[2.0, 1.0], [1.5, 1.5]]


@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_flips_are_their_definition(counts, models, seed):
    table = np.random.default_rng(seed).integers(0, 3, size=(counts, models))
    expected = [
        [i, j]
        for i, j in itertools.combinations(range(models), 2)
        if any(row[i] < row[j] for row in table) and any(row[i] > row[j] for row in table)
    ]
    assert flips(table).tolist() == expected


def test_flips_of_many_models_cross_the_blocks():
    n = 1200
    table = np.stack([np.arange(n), np.arange(n)[::-1]])
    assert len(flips(table)) == n * (n - 1) // 2


def test_an_equal_value_at_one_count_is_no_flip():
    assert len(flips([[0.1, 0.1], [0.1, 0.2]])) == 0


def test_values_that_differ_by_rounding_are_one():
    assert len(flips([[0.1, 0.1 + 1e-9], [0.1 + 1e-9, 0.1]])) == 0
    assert len(flips([[0.1, 0.1 + 1e-6], [0.1 + 1e-6, 0.1]])) == 1
    table = [[3e-7, 0.0, -1.0, np.inf, 3e-7 * (1 + 1e-8), -1.0 + 1e-8, np.inf], [1, 2, 3, 4, 5, 6, 7.0]]
    assert tied(table).tolist() == [[3e-7, 0.0, -1.0, np.inf, 3e-7, -1.0, np.inf], [1, 2, 3, 4, 5, 6, 7]]
    assert tied([0.5]).tolist() == [0.5]
