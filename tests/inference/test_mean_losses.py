"""Intervals of mean losses: ranges and pseudo-rows by plain loops, their p-value, and when to withhold."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import truecal as tc
from closeness import assert_close
from inference_cases import rows_of, softmax
from truecal.inference.mean_losses import (
    INFINITE,
    NO_BOUND,
    SCARCE,
    UNBOUNDED,
    given_values,
    loss_values,
    mean_interval,
    top_label_values,
)

K = 3
Y, A = rows_of(K, 40, 3, tied=False)
B = rows_of(K, 40, 9, tied=False)[1]
ONE = {
    "classification_error": lambda p, y: float(y != int(np.argmax(p))),
    "cross_entropy": lambda p, y: -math.log(p[y]),
    "brier": lambda p, y: sum((p[r] - (r == y)) ** 2 for r in range(K)),
    "full": lambda p, y: sum((p[r] - (r == y)) ** 2 for r in range(K)),
    "spherical": lambda p, y: 1 - p[y] / math.sqrt(sum(v * v for v in p)),
    "confidence_loss": lambda p, y: (1 - max(p)) ** 2 if y == int(np.argmax(p)) else 1 + max(p) ** 2,
    "uncorrected_confidence": lambda p, y: (1 - max(p)) ** 2 if y == int(np.argmax(p)) else max(p) ** 2,
    "classwise": lambda p, y: sum((p[r] - (r == y)) ** 2 for r in range(K)) / K,
}

TABLES = {name: loss.by_label for name, loss in tc.LOSSES.items()} | {
    "full": lambda p: tc.Full().losses_by_label(p, False),
    "uncorrected_confidence": lambda p: tc.Confidence().losses_by_label(p, False),
    "classwise": lambda p: tc.Classwise().losses_by_label(p, False),
}


def test_every_table_holds_the_loss_of_every_label():
    assert set(ONE) == set(TABLES)
    for name, loss in ONE.items():
        np.testing.assert_allclose(TABLES[name](A), [[loss(p, y) for y in range(K)] for p in A], atol=1e-14)
    for name, public in tc.LOSSES.items():
        np.testing.assert_allclose(
            loss_values(Y, A, None, name).of(slice(None)).value, public(Y, A, per_example=True), atol=1e-14
        )


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("name", list(ONE))
def test_ranges_are_mean_and_sd_over_the_labels_that_may_come(name, paired):
    losses = loss_values(Y, A, B if paired else None, TABLES[name])
    found = losses.of(slice(None))
    assert found.high is not None and found.low is not None and found.surprise is not None
    for i, (a, b) in enumerate(zip(A, B, strict=True)):
        d = [ONE[name](a, y) - (ONE[name](b, y) if paired else 0.0) for y in range(K)]
        q = (a + b) / 2 if paired else a
        share = [v * (1 - v) for v in q]
        s = sum(share)
        centre = sum(m * x for m, x in zip(share, d, strict=True)) / s
        sd = math.sqrt(sum(m * (x - centre) ** 2 for m, x in zip(share, d, strict=True)) / s)
        assert (found.value[i], found.high[i], found.low[i]) == pytest.approx((d[Y[i]], centre + sd, centre - sd))
        assert found.surprise[i] == pytest.approx(s)
    assert (losses.least == -math.inf) == paired


def test_for_two_classes_the_range_is_the_two_values():
    u = np.random.default_rng(0).random(20)
    p = np.column_stack([1 - u, u])
    found = loss_values(np.zeros(20, int), p, None, "brier").of(slice(None))
    table = TABLES["brier"](p)
    assert found.high is not None and found.low is not None
    np.testing.assert_allclose(found.high, table.max(axis=1))
    np.testing.assert_allclose(found.low, table.min(axis=1))


def by_loops(values, w, groups, level, comparisons=1):
    """Centre and ends of the interval, with the pseudo-rows written out."""
    n = len(values.value)
    by = [w[i] * values.surprise[i] * (values.high[i] - values.low[i]) for i in range(n)]
    hi = sum(b * x for b, x in zip(by, values.high, strict=True)) / sum(by)
    lo = sum(b * x for b, x in zip(by, values.low, strict=True)) / sum(by)
    z = stats.norm.isf((1 - level) / comparisons / 2)
    names = sorted(set(groups))
    total = [sum(w[i] * values.value[i] for i in range(n) if groups[i] == g) for g in names]
    weight = [sum(w[i] for i in range(n) if groups[i] == g) for g in names]
    v = sum(x * x for x in w) / sum(w)
    size = sum(x * x for x in weight) / sum(x * x for x in w)
    if size > 1:
        mean = sum(total) / sum(weight)
        own = sum((w[i] * (values.value[i] - mean)) ** 2 for i in range(n))
        prior = z * z * (v * (hi - lo) / 2) ** 2
        seen = sum((t - x * mean) ** 2 for t, x in zip(total, weight, strict=True))
        v *= min(max((seen + size * prior) / (own + prior), 1.0), size)
    whole = sum(weight) + v * z * z
    centre = (sum(total) + v * z * z * (hi + lo) / 2) / whole
    squares = sum((t - x * centre) ** 2 for t, x in zip(total, weight, strict=True))
    squares += v * v * z * z / 2 * ((hi - centre) ** 2 + (lo - centre) ** 2)
    se = math.sqrt(squares) / whole
    freedom = sum(weight) ** 2 / sum(x * x for x in weight) - 1
    t = stats.t.isf((1 - level) / comparisons / 2, freedom)
    return centre - t * se, centre + t * se, se


@pytest.mark.parametrize("comparisons", [1, 10])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["brier", "confidence_loss", "cross_entropy"])
def test_the_interval_is_that_of_rows_and_pseudo_rows(name, weighted, clustered, comparisons):
    rng = np.random.default_rng(1)
    w = rng.uniform(0.2, 2.0, 40) if weighted else np.ones(40)
    groups = rng.integers(0, 12, 40) if clustered else np.arange(40)
    losses = loss_values(Y, A, B, name)
    values = losses.of(slice(None))
    found = mean_interval(losses, w if weighted else None, (groups, 12) if clustered else None, 0.9, comparisons)
    low, high, se = by_loops(values, w, groups, 0.9, comparisons)
    assert found.estimate == pytest.approx(np.average(values.value, weights=w))
    assert (found.low, found.high, found.se) == pytest.approx(
        (min(low, found.estimate), max(high, found.estimate), se), rel=1e-9
    )


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("comparisons", [1, 3])
def test_the_pvalue_is_the_level_at_which_the_interval_touches_zero(comparisons, clustered):
    groups = (np.arange(40) // 2, 20) if clustered else None
    values = loss_values(Y, A, B, "brier")
    found = mean_interval(values, None, groups, 0.95, comparisons)
    assert 0 < found.pvalue < 1
    inside, outside = (mean_interval(values, None, groups, 1 - found.pvalue * f, comparisons) for f in (0.999, 1.001))
    assert inside.low <= 0 <= inside.high
    assert not outside.low <= 0 <= outside.high


def test_every_row_its_own_cluster_is_no_cluster():
    values = loss_values(Y, A, B, "brier")
    alone, grouped = (mean_interval(values, None, g, 0.95) for g in (None, (np.arange(40), 40)))
    assert vars(alone) == pytest.approx(vars(grouped))


def test_with_ample_surprises_it_is_the_t_interval():
    rng = np.random.default_rng(0)
    p = softmax(rng.normal(size=(4000, 4)))
    y = rng.integers(0, 4, 4000)
    values = loss_values(y, p, softmax(rng.normal(size=(4000, 4))), "brier")
    found = mean_interval(values, None, None, 0.95)
    usual = stats.ttest_1samp(values.of(slice(None)).value, 0.0).confidence_interval(0.95)
    width = float(usual.high - usual.low)
    assert (found.low, found.high) == pytest.approx((usual.low, usual.high), abs=0.01 * width)


def test_two_models_that_never_missed_cannot_be_told_apart():
    """A hundred rows, all right: the losses differ in every row alike, and a t interval would be a point."""
    y = np.ones(100, int)
    one, two = (np.tile([1 - u, u], (100, 1)) for u in (0.99, 0.98))
    values = loss_values(y, one, two, "brier")
    assert values.of(slice(None)).value.std() < 1e-15
    found = mean_interval(values, None, None, 0.95)
    assert found.low < 0 < found.high and found.pvalue > 0.2


def test_identical_models_differ_by_exactly_nothing():
    found = mean_interval(loss_values(Y, A, A, "brier"), None, None, 0.95)
    assert (found.estimate, found.low, found.high, found.pvalue, found.note) == (0.0, 0.0, 0.0, 1.0, "")


def test_the_interval_of_one_loss_stays_where_a_loss_can_be():
    sharp = np.tile([0.001, 0.999], (50, 1))
    for y in (np.ones(50, int), np.zeros(50, int)):
        for name in TABLES:
            found = mean_interval(loss_values(y, sharp, None, TABLES[name]), None, None, 0.95)
            assert 0 <= found.low <= found.estimate <= found.high <= TABLES[name](sharp).max() + 1e-12
    right = mean_interval(loss_values(np.ones(50, int), sharp, None, "classification_error"), None, None, 0.95)
    assert right.low == 0.0 and 0.02 < right.high < 0.15  # none wrong in fifty is no certainty of none


def test_losses_without_a_bound_are_withheld():
    p = np.array([[1.0, 0.0], [0.4, 0.6], [0.5, 0.5], [0.3, 0.7]])
    q = np.full((4, 2), 0.5)
    assert (
        mean_interval(loss_values(np.array([1, 1, 0, 1]), p, None, "cross_entropy"), None, None, 0.95).note == INFINITE
    )
    for other in (None, q):
        found = mean_interval(loss_values(np.array([0, 1, 0, 1]), p, other, "cross_entropy"), None, None, 0.95)
        assert (
            found.note == UNBOUNDED and np.isinf(found.low) and np.isnan(found.pvalue) and np.isfinite(found.estimate)
        )
    both = loss_values(np.array([0, 1, 0, 1]), p, p, "cross_entropy")
    assert mean_interval(both, None, None, 0.95).note == ""  # a label that both exclude is left out
    assert mean_interval(loss_values(np.array([0, 1, 0, 1]), p, q, "brier"), None, None, 0.95).note == ""


def test_an_unbounded_loss_that_few_rows_carry_is_withheld():
    n = 200
    p, q = np.full((n, 2), 0.5), np.full((n, 2), 0.5)
    p[:5] = [1e-6, 1 - 1e-6]
    y = np.ones(n, int)
    assert mean_interval(loss_values(y, p, q, "cross_entropy"), None, None, 0.95).note == SCARCE
    assert mean_interval(loss_values(y, p, q, "brier"), None, None, 0.95).note == ""


def test_rows_without_weight_may_have_an_infinite_loss():
    p = np.array([[1.0, 0.0], *[[0.4, 0.6]] * 30])
    y = np.ones(31, int)
    w = np.r_[0.0, np.ones(30)]
    found = mean_interval(loss_values(y, p, None, "cross_entropy"), w, None, 0.95)
    alone = mean_interval(loss_values(y[1:], p[1:], None, "cross_entropy"), None, None, 0.95)
    assert (found.note, found.low, found.high) == ("", pytest.approx(alone.low), pytest.approx(alone.high))


def test_real_outcomes_have_a_t_interval_that_says_what_it_rests_on():
    x = np.random.default_rng(0).normal(1.0, 1.0, 50)
    found = mean_interval(given_values(x), None, None, 0.95)
    usual = stats.ttest_1samp(x, 0.0)
    assert found.note == NO_BOUND and found.pvalue == pytest.approx(usual.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(usual.confidence_interval(0.95)))
    same = mean_interval(given_values(np.full(5, 0.3)), None, None, 0.95)
    assert np.isinf(same.high) and "same in every row" in same.note


def test_of_top_classes_alone_each_model_may_be_right_or_wrong():
    z, c = (np.array([True, False]), np.array([True, True])), (np.array([0.9, 0.8]), np.array([0.6, 0.7]))
    found = top_label_values(z, c).of(slice(None))
    assert found.value == pytest.approx([0.01 - 0.16, 1.64 - 0.09])
    assert found.high == pytest.approx([1.81 - 0.16, 1.64 - 0.09]) and found.low == pytest.approx(
        [0.01 - 1.36, 0.04 - 1.49]
    )


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["spherical", "cross_entropy", "classification_error"])
def test_blocks_of_rows_do_not_matter(name, weighted, clustered):
    whole = loss_values(Y, A, B, name)
    pieces = replace(whole, step=3)
    assert len(list(pieces)) == 14
    w = np.append(0.0, np.random.default_rng(0).uniform(0.2, 2.0, 39)) if weighted else None
    groups = (np.arange(40) // 3, 14) if clustered else None
    one, many = (mean_interval(losses, w, groups, 0.95) for losses in (whole, pieces))
    assert one.note == many.note == ""
    for part in ("estimate", "low", "high", "se", "pvalue"):
        assert getattr(one, part) == pytest.approx(getattr(many, part), rel=1e-11), part


def test_one_probability_per_row_stands_for_two_classes():
    u = np.random.default_rng(0).random(30).astype(np.float32)
    y = u > 0.3
    for name in ("brier", "cross_entropy", "confidence_loss"):
        one = loss_values(y, u, u[::-1], name).of(slice(None))
        a, b = (np.column_stack([1 - p, p]) for p in (u, u[::-1]))
        two = loss_values(y.astype(int), a, b, name).of(slice(None))
        assert_close(one.value, two.value, 1)
        assert_close(one.high, two.high, 1)


def test_a_difference_of_rounding_errors_is_none(rng):
    """Equal predictions in another memory layout differ by 1e-18 in their losses: neither model is better."""
    p = rng.dirichlet([1, 1, 1], 300)
    y = (p.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    again = np.asfortranarray(p * (1 + 2e-16))
    found = tc.compare(y, {"a": p, "b": again}, n_resamples=99)
    assert found.pair("a", "b").lower_loss is None and "no significant difference" in found.verdict.sentences[0]
