"""The score is truthful and the gap is a description: laws over every truthful error, rule, tie setting and weight."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import reference as ref
import truecal
from closeness import assert_close
from truecal.core.rules import auto_bins
from worlds import (
    bounded,
    classes_of,
    cumulated,
    expected,
    in_classes,
    is_multiclass,
    label_table,
    over_all_outcomes,
    times,
    variants,
    worlds_and_lies,
)

pytestmark = pytest.mark.slow

tc: Any = truecal  # what a test hands in need not be of the right type

TRUTHFUL = [(i, in_classes(bounded(m))) for i, m in variants(classes=3) if m.truthful]
TINY = 1e-12


def by_id(cases):
    return pytest.mark.parametrize("metric", [m for _, m in cases], ids=[i for i, _ in cases])


def score_of(metric, weights=None):
    return lambda y, p: metric(y, p, scale="score", sample_weight=weights)


@pytest.mark.heavy
@over_all_outcomes(TRUTHFUL)
def test_no_misreport_lowers_the_expected_score(metric):
    """Every kind of lie, in worlds of ties, of pairs and of sharp chances; the error itself meets all worlds."""
    scored = score_of(metric)
    for truth, lies in worlds_and_lies(metric)[:5:2]:
        honest = expected(scored, truth, truth)
        for lie in lies[:9]:
            assert honest <= expected(scored, truth, lie) + TINY


@pytest.mark.heavy
@over_all_outcomes([(i, m) for i, m in TRUTHFUL if i.split("-", 1)[1] in ("quantile", "uniform", "two-bin", "argmax")])
def test_no_misreport_lowers_the_expected_score_with_weights(metric):
    for truth, lies in worlds_and_lies(metric)[1:4:2]:
        for weights in ([1.0, 2.0, 0.5, 3.0], [10.0, 0.1, 0.1, 0.1]):
            scored = score_of(metric, np.array(weights[: len(truth)]))
            honest = expected(scored, truth, truth)
            assert all(honest <= expected(scored, truth, lie) + TINY for lie in lies[:9])


@pytest.mark.heavy
def test_weights_that_look_at_the_reports_reward_a_lie():
    """Outside its domain the law fails, as it should: chances (.5, .9), weights equal to the reports."""

    def peeks(y, u):
        return tc.score(y, u, error="binary", n_bins=1, sample_weight=np.maximum(u, 1e-9))

    truth = np.array([0.5, 0.9])
    lies = [np.array([a, b]) for a in np.linspace(0.02, 0.98, 25) for b in np.linspace(0.02, 0.98, 25)]
    assert min(expected(peeks, truth, lie) for lie in lies) < expected(peeks, truth, truth) - 1e-3


def test_the_gap_alone_rewards_knowing_nothing():
    """A constant base rate has no gap at all, so the gap must never be what a model is ranked by."""
    rng = np.random.default_rng(0)
    chances = rng.random(4000)
    y = rng.random(4000) < chances
    knows = tc.CalibrationError(tc.Binary(), tc.Quantile("auto"))
    constant = np.full(4000, y.mean())
    slightly_off = np.clip(chances + 0.05, 0, 1)
    assert abs(knows.decompose(y, constant).gap) < 1 < knows.decompose(y, slightly_off).gap
    assert knows(y, slightly_off, scale="score") < knows(y, constant, scale="score")


def test_the_expected_gap_squared_prefers_a_lie():
    def gap_sq(y, u):
        metric = tc.CalibrationError(tc.Binary(), tc.Quantile(2))
        return metric.parts(metric.read(y, u))[0].gap_sq

    truth = np.array([0.1, 0.1, 0.9, 0.9])
    lie = np.array([0.5, 0.5, 0.5, 0.5])
    sharper = np.array([0.0, 0.2, 0.8, 1.0])
    honest = expected(gap_sq, truth, truth)
    assert honest == pytest.approx(0.0, abs=TINY)  # unbiased: 0 at the truth, and below it elsewhere
    assert min(expected(gap_sq, truth, x) for x in (lie, sharper)) < honest - 1e-3


PARTITIONS = [
    *(tc.Quantile(2), tc.Quantile(3), tc.Quantile(6), tc.Quantile(2, ties="together"), tc.Quantile(2, ties="row")),
    *(tc.EqualWidth(1), tc.EqualWidth(3), tc.EqualWidth(50), tc.rules.Exact()),
]


def _cells(metric, reports) -> list[list[int]]:
    """The partitions whose scores a rule averages, each as one cell per row."""
    rule, n = metric.binning, len(reports)
    if isinstance(rule, tc.Quantile) and metric.ties == "average":
        orders = permutations(range(n))
        place = [sorted(order, key=lambda i: reports[i]) for order in orders]
        return [[ref.quantile_bin(order.index(i) + 1, rule.n_bins, n) for i in range(n)] for order in place]
    if isinstance(rule, tc.Quantile):
        return [ref.quantile_bins(reports, rule.n_bins, metric.ties)]
    if isinstance(rule, tc.EqualWidth):
        return [ref.interval_bins(reports, ref.edges_of(rule.n_bins, reports.dtype))]
    return [ref.exact_bins(reports)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", PARTITIONS, ids=repr)
def test_the_score_is_loss_plus_gap_squared_by_plain_loops(rule, weighted, rng):
    """(1/n) Σ_B [Σ r² + (S² − Σ r²)/(n_B − 1)], the mean over the orders of equal reports; lone rows add r²."""
    for tied in (False, True):
        u = rng.integers(1, 4, 6) / 4 if tied else rng.random(6)
        y = rng.random(6) < 0.5
        w = rng.random(6) + 0.1 if weighted and not (tied and isinstance(rule, tc.Quantile)) else None
        metric = tc.CalibrationError(tc.Binary(), rule)
        gaps = [ref.gap_sq(cells, (u - y)[:, None], w) for cells in _cells(metric, u)]
        loss = np.average((u - y) ** 2, weights=w)
        parts = metric.parts(metric.read(y, u, sample_weight=w))[0]
        assert parts.score == pytest.approx(loss + np.mean(gaps), rel=1e-12)
        if not np.isnan(parts.gap_sq):
            assert parts.score - loss == pytest.approx(parts.gap_sq, abs=1e-14)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_two_bin_score_is_the_mean_over_its_cuts(weighted, rng):
    u, w = np.sort(rng.random(7)), rng.random(7) + 0.1 if weighted else None
    y = rng.random(7) < u
    ends = np.concatenate([[0.0], u, [1.0]])
    gaps = [ref.gap_sq([int(i >= j) for i in range(7)], (u - y)[:, None], w) for j in range(8)]
    wanted = np.average((u - y) ** 2, weights=w) + np.diff(ends) @ gaps
    assert tc.score(y, u, error="binary_two_bin", sample_weight=w) == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_scores_are_in_units_of_the_brier_score(k, rng):
    """Brier + the squared gaps summed over classes, halved for two; the whole distribution has one gap."""
    p = rng.dirichlet(np.ones(k), 60)
    y = rng.integers(0, k, 60)
    onehot = np.eye(k)[y]
    unit = 0.5 if k == 2 else 1.0
    brier = unit * np.square(p - onehot).sum(axis=1).mean()
    assert tc.brier(y, p) == pytest.approx(brier, rel=1e-12)
    own = [ref.gap_sq(ref.interval_bins(p[:, r], ref.edges_of(4, float)), (p - onehot)[:, r : r + 1]) for r in range(k)]
    classwise = tc.CalibrationError(tc.Classwise(), tc.EqualWidth(4))
    assert classwise(y, p, scale="score") == pytest.approx(brier + unit * sum(own), rel=1e-12)
    whole = tc.CalibrationError(tc.Full(), tc.rules.KdTree(4))
    joint = ref.gap_sq(ref.kd_bins(p, 4), p - onehot)
    assert whole(y, p, scale="score") == pytest.approx(brier + unit * joint, rel=1e-12)


def test_a_constant_no_longer_beats_the_truth_in_exact_cells(rng):
    """With the share m/n of U a constant of 1/2 won in half of the samples; loss + gap² has no such exchange rate."""
    wins = 0
    for _ in range(40):
        chances = rng.random(200).round(1)
        y = rng.random(200) < chances
        wins += tc.score(y, np.full(200, 0.5), error=EXACT) < tc.score(y, chances, error=EXACT)
    assert wins == 0


EXACT = tc.CalibrationError(tc.Binary(), tc.rules.Exact())


def test_equal_width_bins_in_one_corner_mean_the_same_gap(rng):
    """Reports in (.96, 1] fill one of 15 bins: the score is loss + gap² there too."""
    u = 0.96 + 0.04 * rng.random(3000)
    y = rng.random(3000) < u - 0.05
    corner = tc.CalibrationError(tc.Binary(), tc.EqualWidth(15)).decompose(y, u)
    assert corner.score - corner.loss == pytest.approx((corner.gap / 100) ** 2, rel=1e-12)
    assert 0.03 < corner.gap / 100 < 0.07


def _sample(metric, rng, n=40):
    k = classes_of(metric)
    proba = rng.dirichlet(np.ones(k), n)
    y = rng.integers(0, k, n)
    if metric.property.kind == "survival":
        return times(y, metric, rng.integers(1, 4, (n, k - 1)) / 2), cumulated(proba)
    if metric.property.label_by_label:
        return label_table(rng, n, k, tied=False)
    if metric.property.kind == "distribution":
        return y, cumulated(proba)
    if is_multiclass(metric):
        return y, proba
    return (y == 0).astype(int), proba[:, 0]


def test_automatic_bins_depend_on_sizes_alone():
    assert [auto_bins(n) for n in (300, 1000, 5000, 50_000)] == [10, 16, 30, 76]
    assert auto_bins(5000, 100) == 190
    assert auto_bins(4) == 2 and auto_bins(20, 1000) == 4
    rng = np.random.default_rng(0)
    y, p = rng.integers(0, 3, 500), rng.dirichlet(np.ones(3), 500)
    for error, m in (("classwise", auto_bins(500, 3)), ("confidence", auto_bins(500))):
        assert_close(tc.score(y, p, error=error), tc.score(y, p, error=error, n_bins=m))
    assert_close(tc.score(y, p, error="confidence_two_bin"), tc.score(y, p, error="confidence_two_bin", n_bins=None))


def test_the_order_of_the_score_hardly_depends_on_the_bins(rng):
    """Temperatures of one model: the usual ECE and n·error change places with the bins, the score does not."""
    logits = 2 * rng.standard_normal((3000, 10))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((3000, 1))).sum(axis=1)
    models = [p**t / (p**t).sum(axis=1, keepdims=True) for t in (0.8, 0.9, 1.0, 1.1, 1.25)]
    counts = (5, 20, 200)
    scores = np.array([tc.score(y, m, error="confidence", n_bins=counts) for m in models])
    orders = np.argsort(scores, axis=0)
    assert (orders == orders[:, :1]).all() and orders[0, 0] == 2


# -- what a table refuses ----------------------------------------------------------------------------------------------

KINDS = {
    "binary": tc.CalibrationError(tc.Binary(), tc.EqualWidth(5)),
    "classwise": tc.CalibrationError(tc.Classwise(), tc.EqualWidth(5)),
    "confidence": tc.CalibrationError(tc.Confidence(), tc.EqualWidth(5)),
    "full": tc.CalibrationError(tc.Full(), tc.rules.KdTree(4)),
    "linear": tc.CalibrationError(tc.Linear([0.0, 1.0, 0.4]), tc.EqualWidth(5)),
    "other linear": tc.CalibrationError(tc.Linear([0.0, 1.0, 0.5]), tc.EqualWidth(5)),
    "outcomes": tc.CalibrationError(tc.properties.Outcomes((0.0, 1.0)), tc.EqualWidth(5)),
}


@pytest.mark.parametrize("of", KINDS)
@pytest.mark.parametrize("read_by", KINDS)
def test_a_table_is_read_by_its_own_property_alone(of, read_by, rng):
    table = KINDS[of].tables(*_sample(KINDS[of], rng))[0]
    if of == read_by:
        assert KINDS[of].of_table(table) > 0
        return
    with pytest.raises(ValueError, match="expected a table of"):
        KINDS[read_by].of_table(table)
    with pytest.raises(ValueError, match="expected a table of"):
        KINDS[read_by].parts_of_table(table)


def test_a_table_is_read_at_its_own_bins_and_ties_alone(rng):
    y, p = _sample(tc.ERRORS["confidence"], rng)
    five = tc.ERRORS["confidence"].with_bins(5)
    table = five.tables(y, p)[0]
    with pytest.raises(ValueError, match=r"expected a table of the cells of Quantile\(n_bins=4, ties='average'\)"):
        tc.ERRORS["confidence"].of_table(table)
    with pytest.raises(ValueError, match="expected a table of the cells of"):
        tc.CalibrationError(tc.Confidence(), tc.Quantile(5, ties="row")).of_table(table)
    with pytest.raises(ValueError, match="expected a table of the cells of EqualWidth"):
        tc.CalibrationError(tc.Confidence(), tc.EqualWidth(5)).of_table(table)
    assert five.of_table(table) == pytest.approx(five(y, p), rel=1e-12)
    correct = p.argmax(axis=1) == y  # the same property, from less
    assert tc.ERRORS["top_label"].with_bins(5).of_table(table) == pytest.approx(
        tc.ERRORS["top_label"].with_bins(5)(correct, p.max(axis=1)), rel=1e-12
    )
    with pytest.raises(TypeError, match="expected a BinTable, got int"):
        five.of_table(3)
    with pytest.raises(ValueError, match="the table is empty"):
        tc.CalibrationError(tc.Binary(), tc.EqualWidth(5)).of_table(tc.BinTable.empty(tc.Binary(), tc.EqualWidth(5)))


def test_everything_is_read_off_merged_tables_with_weights(rng):
    metric = tc.CalibrationError(tc.Classwise(), tc.EqualWidth(7))
    y, p = _sample(metric, rng, n=60)
    w = rng.random(60) * np.repeat([1.0, 1e6], 30)  # parts whose weights have different units
    whole = metric.parts(metric.read(y, p, sample_weight=w))[0]
    rows = np.split(np.arange(60), [10, 30, 31])
    tables = [metric.tables(y[r], p[r], sample_weight=w[r])[0] for r in rows]
    merged = tc.BinTable.empty(tc.Classwise(), tc.EqualWidth(7), views=3)
    for table in tables:
        merged = merged.merge(table)
    np.testing.assert_allclose(metric.parts_of_table(merged), whole, rtol=1e-10)
    plain = metric.tables(y[:5], p[:5])[0].merge(metric.tables(y[5:], p[5:], sample_weight=np.ones(55))[0])
    np.testing.assert_allclose(metric.parts_of_table(plain), metric.parts(metric.read(y, p))[0], rtol=1e-11)


def test_poisson_cuts_have_a_gap_of_pair_sums_and_a_share_of_U(rng):
    u = rng.random(30)
    y = rng.random(30) < u
    r = u - y
    distance = np.abs(u[:, None] - u)
    off = np.exp(-distance / 0.2) - np.eye(30)
    metric = tc.CalibrationError(tc.Binary(), tc.Poisson(0.2))
    parts = metric.parts(metric.read(y, u))[0]
    assert parts.gap_sq == pytest.approx(r @ off @ r / off.sum(), rel=1e-9)
    assert parts.score == pytest.approx(parts.loss + 5 / 30 * parts.U, rel=1e-12)


@pytest.mark.parametrize("rule", [tc.TwoBin(), tc.Poisson(0.1), tc.Quantile(5), tc.EqualWidth(5)], ids=repr)
@pytest.mark.parametrize("weight", [1.0, 0.3, 0.7, 1e-3])
def test_a_single_row_has_no_gap_whatever_its_weight(rule: Any, weight: float) -> None:
    """There is no second row to meet; the square of a weight may round either way."""
    parts = tc.CalibrationError(tc.Binary(), rule).decompose([1], [0.37], sample_weight=[weight])
    assert parts.gap is None
