"""The score is truthful and the gap is a description: laws over every truthful error, rule, tie setting and weight."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import reference as ref
import truecal
from closeness import assert_close
from truecal.core.rules import auto_bins
from truecal.sums.scores import of_clusters, of_near_rows
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
        return tc.score(y, u, error="binary", sample_weight=np.maximum(u, 1e-9))

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


@pytest.mark.parametrize("how", ["plain", "weights", "ties", "clusters", "weighted clusters", "near rows"])
def test_the_score_is_the_loss_and_the_gap_of_every_cut_by_plain_loops(how, rng):
    for n in (2, 3, 7, 25):
        u = rng.integers(1, 4, n) / 4 if how == "ties" else rng.random(n) ** 2
        y = rng.random(n) < 0.5
        w = rng.random(n) + 0.1 if "weight" in how else None
        groups = rng.integers(0, 3, n) if "clusters" in how else None
        near = 3 if how == "near rows" else 1
        error = tc.CalibrationError(tc.Binary(), tc.Quantile())
        sample, left_out = error.read(y, u, sample_weight=w), None
        if groups is not None:
            left_out = of_clusters(sample, (groups, 3))
        if near > 1:
            left_out = of_near_rows(sample, np.arange(n), near)
        wanted = np.average((u - y) ** 2, weights=w) + ref.gap_over_cuts(u, u - y, w, groups, near)
        assert_close(error.score(sample, left_out), wanted)


@pytest.mark.parametrize("k", [2, 3, 7])
def test_scores_are_in_units_of_the_brier_score(k, rng):
    """Brier + the squared gaps summed over classes, halved for two; the whole distribution has one gap."""
    p = rng.dirichlet(np.ones(k), 60)
    y = rng.integers(0, k, 60)
    onehot = np.eye(k)[y]
    unit = 0.5 if k == 2 else 1.0
    brier = unit * np.square(p - onehot).sum(axis=1).mean()
    assert tc.brier(y, p) == pytest.approx(brier, rel=1e-12)
    added = unit * sum(ref.gap_over_cuts(p[:, r], (p - onehot)[:, r]) for r in range(k))
    for error in ("classwise", tc.CalibrationError(tc.Classwise(), tc.EqualWidth(4)), "full"):
        assert_close(tc.score(y, p, error=error), brier + added)


def test_a_constant_never_beats_the_truth(rng):
    wins = 0
    for _ in range(40):
        chances = rng.random(200).round(1)
        y = rng.random(200) < chances
        wins += tc.score(y, np.full(200, 0.5)) < tc.score(y, chances)
    assert wins == 0


def test_the_score_does_not_depend_on_bins(rng):
    y, p = rng.integers(0, 3, 500), rng.dirichlet(np.ones(3), 500)
    wanted = tc.score(y, p)
    for rule in (tc.Quantile((5, 20)), tc.EqualWidth(7), tc.rules.Exact(), tc.TwoBin()):
        assert tc.CalibrationError(tc.Classwise(), rule)(y, p, scale="score") == wanted
    found = tc.evaluate(y, p, n_bins=(3, 40), n_resamples=99)
    assert {row.score for row in found.rows("classwise")} == {found.score}
    assert_close(found.score, wanted)


@pytest.mark.parametrize("groups", [np.repeat(np.arange(40), 10), None], ids=["clusters", "near rows"])
def test_a_lie_inside_clusters_does_not_pay(groups):
    """Rows of a cluster share their outcome: with all pairs, ±.1 in turn wins in every sample; now it loses."""
    rng = np.random.default_rng(3)
    error = tc.CalibrationError(tc.Binary(), tc.Quantile())
    all_pairs: list[float] = []
    kept: list[float] = []
    for _ in range(100):
        chances = np.repeat(0.2 + 0.6 * rng.random(40), 10)
        y = np.repeat(rng.random(40) < chances[::10], 10)
        lie = chances + np.tile([0.1, -0.1], 200)
        for found, out in ((all_pairs, False), (kept, True)):
            scores = []
            for u in (chances, lie):
                sample = error.read(y, u)
                left_out = None
                if out:
                    clusters = of_clusters(sample, (groups, 40)) if groups is not None else None
                    left_out = clusters or of_near_rows(sample, np.arange(400), 10)
                scores.append(error.score(sample, left_out))
            found.append(scores[1] - scores[0])
    assert np.mean(kept) > 3 * np.std(kept) / 10
    assert np.mean(all_pairs) < np.mean(kept)


def test_no_lie_gains_where_rows_of_a_cluster_share_their_outcome():
    """Every outcome of two clusters of two rows: with all pairs a lie gains, with pairs of both clusters none does."""
    error, groups = tc.CalibrationError(tc.Binary(), tc.Quantile()), np.array([0, 0, 1, 1])
    gains = {True: 0, False: 0}
    for chances in ((0.5, 0.5), (0.3, 0.8)):

        def expected_score(u, chances=chances, out=True):
            total = 0.0
            for y in product((0, 1), repeat=2):
                weight = float(np.prod([c if came else 1 - c for c, came in zip(chances, y, strict=True)]))
                sample = error.read(np.repeat(y, 2), np.asarray(u))
                total += weight * error.score(sample, of_clusters(sample, (groups, 2)) if out else None)
            return total

        for out in (True, False):
            truth = expected_score(np.repeat(chances, 2), out=out)
            for lie in product((0.0, 0.2, 0.3, 0.5, 0.8, 1.0), repeat=4):
                gains[out] += expected_score(lie, out=out) < truth - TINY
    assert gains[True] == 0 and gains[False] > 0


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


def test_poisson_cuts_have_a_gap_of_pair_sums(rng):
    u = rng.random(30)
    y = rng.random(30) < u
    r = u - y
    distance = np.abs(u[:, None] - u)
    off = np.exp(-distance / 0.2) - np.eye(30)
    metric = tc.CalibrationError(tc.Binary(), tc.Poisson(0.2))
    parts = metric.parts(metric.read(y, u))[0]
    assert parts.gap_sq == pytest.approx(r @ off @ r / off.sum(), rel=1e-9)


@pytest.mark.parametrize("rule", [tc.TwoBin(), tc.Poisson(0.1), tc.Quantile(5), tc.EqualWidth(5)], ids=repr)
@pytest.mark.parametrize("weight", [1.0, 0.3, 0.7, 1e-3])
def test_a_single_row_has_no_gap_whatever_its_weight(rule: Any, weight: float) -> None:
    """There is no second row to meet; the square of a weight may round either way."""
    parts = tc.CalibrationError(tc.Binary(), rule).decompose([1], [0.37], sample_weight=[weight])
    assert parts.gap is None
