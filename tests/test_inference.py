"""Inference against its definitions: G matrices written out, rows really deleted, all outcomes really listed."""

from __future__ import annotations

import json
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy import stats

import reference
import truecal as tc
from truecal.core.cells import pieces as make_pieces
from truecal.core.errors import get_error
from truecal.core.rules import resolve_ties
from truecal.inference import (
    calibration_test,
    confidence_interval,
    consistency_bands,
    mean_gap,
    noise_of_U,
    null_band,
    paired_difference,
)
from truecal.inference import null as null_module
from truecal.inference.calibration import null_quantiles
from truecal.inference.null import calibrated_world, draw_labels, simulate
from truecal.inference.poisson_binomial import poisson_binomial

TIED = np.array([0.2, 0.5, 0.5, 0.5, 0.7, 0.7, 0.7, 0.7, 0.7, 0.1, 0.9, 0.9, 0.33])
SPREAD = np.array([0.05, 0.11, 0.23, 0.31, 0.42, 0.44, 0.58, 0.63, 0.71, 0.79, 0.83, 0.94])


def us_of(error, sample):
    """The U part at each bin count."""
    return np.array([parts.U for parts in error.parts(sample)])


def rows_of(k: int, n: int, seed: int, tied: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities, with many equal entries when tied."""
    rng = np.random.default_rng(seed)
    p = rng.integers(1, 5, (n, k)).astype(float) if tied else rng.dirichlet(np.ones(k), n)
    p /= p.sum(axis=1, keepdims=True)
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1), p


# -- the definitions: G for one view ----------------------------------------------------------------------------------


def scalar_chance(reports, rule, m) -> np.ndarray:
    if isinstance(rule, tc.Quantile):
        if resolve_ties(rule, "l2") == "average":
            g = reference.quantile_average(list(reports), m)
        else:
            g = reference.same_bin(reference.quantile_bins(list(reports), m, rule.ties))
    elif isinstance(rule, tc.EqualWidth):
        g = reference.same_bin(reference.interval_bins(reports, reference.edges_of(m, reports.dtype)))
    elif isinstance(rule, tc.Edges):
        g = reference.same_bin(reference.interval_bins(reports, rule.values))
    elif isinstance(rule, tc.Exact):
        g = reference.same_bin(reference.exact_bins(reports))
    elif isinstance(rule, tc.TwoBin):
        g = reference.two_bin(reports)
    else:
        g = reference.poisson(reports, rule.theta)
    return np.array([[float(x) for x in row] for row in g])


def vector_chance(rows, rule, m) -> np.ndarray:
    if isinstance(rule, tc.ArgmaxQuantile):
        g = reference.argmax_quantile(rows, m, resolve_ties(rule, "l2"))
    elif isinstance(rule, tc.KdTree):
        g = reference.same_bin(reference.kd_bins(rows, m))
    elif isinstance(rule, tc.Halfspaces):
        keys = list(rule.keys(rows))
        g = np.mean([[[float(x) for x in row] for row in reference.two_bin(key)] for key in keys], axis=0)
    else:
        g = reference.same_bin(reference.exact_bins(rows))
    return np.array([[float(x) for x in row] for row in g])


def definition(error, y, p, m) -> list[tuple[np.ndarray, np.ndarray]]:
    """The error as pieces (weight·G, residuals (n, d)), from the definitions."""
    n = len(y)
    if isinstance(error.property, tc.Full):
        return [(vector_chance(p, error.binning, m), p - np.eye(p.shape[1])[y])]
    if isinstance(error.property, tc.Classwise):
        k = p.shape[1]
        return [
            (scalar_chance(p[:, r], error.binning, m) / k, (p[:, r] - (np.asarray(y) == r))[:, None]) for r in range(k)
        ]
    if isinstance(error.property, tc.Confidence):
        pairs = reference.confidence_pairs(y, p)
        c, z = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
        return [(scalar_chance(c, error.binning, m), (c - z)[:, None])]
    return [(scalar_chance(p, error.binning, m), (p - np.asarray(y)).reshape(n, 1))]


def losses_of(error, y, p) -> np.ndarray:
    if isinstance(error.property, tc.Full):
        return np.array([float(x) for x in reference.brier(y, p)])
    if isinstance(error.property, tc.Classwise):
        return np.array([float(x) for x in reference.brier(y, p)]) / p.shape[1]
    if isinstance(error.property, tc.Confidence):
        return np.array([float(x) for x in reference.confidence_loss(y, p)])
    return (p - np.asarray(y)) ** 2


def parts_of(pieces, losses, w, keep, groups) -> tuple[float, float, float]:
    """Loss, mean over pairs from different groups θ, and within part of the rows in `keep`, by plain sums with the G of
    the whole sample."""
    apart = (groups[:, None] != groups[None, :])[np.ix_(keep, keep)]
    pair_sum = inside = 0.0
    for g, r in pieces:
        inner = (r * w[:, None]) @ (r * w[:, None]).T * g
        inner = inner[np.ix_(keep, keep)]
        pair_sum += inner[apart].sum()
        inside += inner[~apart].sum() - np.trace(inner)
    mass = np.outer(w[keep], w[keep])[apart].sum()
    squares = (w[keep] ** 2).sum()
    return float((w[keep] ** 2 @ losses[keep]) / squares), pair_sum / mass, inside / squares


SCALAR_RULES = [
    *[tc.Quantile(m, ties=t) for m in (1, 2, 3, 5, 40) for t in ("average", "together", "row")],
    tc.Quantile((2, 3, 5, 8)),
    tc.EqualWidth(4),
    tc.EqualWidth((2, 3, 10)),
    tc.Edges([0, 0.3, 0.55, 1]),
    tc.Exact(),
    tc.TwoBin(),
    tc.Poisson(0.15),
]
VECTOR_RULES = [
    *[tc.ArgmaxQuantile(m, ties=t) for m in (1, 2, 3) for t in ("average", "together", "row")],
    tc.ArgmaxQuantile((1, 2, 4)),
    tc.KdTree((2, 4)),
    tc.Halfspaces(3),
    tc.Exact(),
]


def counts(rule):
    return rule.counts or (None,)


@pytest.mark.parametrize("reports", [TIED, SPREAD, np.full(6, 0.5), TIED.astype(np.float32)], ids=str)
@pytest.mark.parametrize("rule", SCALAR_RULES, ids=repr)
def test_frozen_forms_are_the_matrix_G(rule, reports):
    rng = np.random.default_rng(1)
    n = len(reports)
    y = rng.random(n) < reports
    sample = tc.Binary().read(y.astype(int), reports)
    (piece,) = make_pieces(sample, rule, resolve_ties(rule, "l2"))
    r = rng.normal(size=(3, n))
    s = rng.random(n)
    group = np.arange(n) % 4
    for c, m in enumerate(counts(rule)):
        g = scalar_chance(reports, rule, m)
        off = g - np.diag(np.diag(g))
        assert np.diag(g) == pytest.approx(1.0)
        np.testing.assert_allclose(piece.cells.pairs(r)[c], [v @ off @ v for v in r], atol=1e-12)
        np.testing.assert_allclose(piece.cells.influence(r)[c], [v * (off @ v) for v in r], atol=1e-12)
        np.testing.assert_allclose(piece.cells.pairs_of_squares(s)[c], s @ off**2 @ s, atol=1e-12)
        inside = [sum(v[group == a] @ off[np.ix_(group == a, group == a)] @ v[group == a] for v in r) for a in range(4)]
        np.testing.assert_allclose(piece.cells.within(r, group, 4)[c], inside, atol=1e-12)


@pytest.mark.parametrize("rule", VECTOR_RULES, ids=repr)
def test_vector_forms_are_the_matrix_G(rule):
    y, p = rows_of(3, 14, 2)
    sample = tc.Full().read(y, p)
    pieces = list(make_pieces(sample, rule, resolve_ties(rule, "l2")))
    r = np.random.default_rng(0).normal(size=(3, 14))
    for c, m in enumerate(counts(rule)):
        g = vector_chance(p, rule, m)
        off = g - np.diag(np.diag(g))
        pairs = sum(piece.weight * piece.cells.pairs(r)[c] for piece in pieces)
        np.testing.assert_allclose(pairs, [v @ off @ v for v in r], atol=1e-12)
        influence = sum(piece.weight * piece.cells.influence(r)[c] for piece in pieces)
        np.testing.assert_allclose(influence, [v * (off @ v) for v in r], atol=1e-12)


def test_tie_orders_listed_one_by_one_give_the_same_G():
    """The formula for divided blocks against every order of the rows, so that it does not rest on itself."""
    reports = [0.3, 0.5, 0.5, 0.5, 0.8, 0.8]
    sample = tc.Binary().read([0, 1] * 3, reports)
    for m in (2, 3, 4, 5):
        g = np.array([[float(x) for x in row] for row in reference.quantile_average_by_orders(reports, m)])
        (piece,) = make_pieces(sample, tc.Quantile(m), "average")
        for i, j in product(range(6), repeat=2):
            if i != j:
                r = np.zeros((1, 6))
                r[0, [i, j]] = 1.0
                assert piece.cells.pairs(r)[0, 0] == pytest.approx(2 * g[i, j], abs=1e-12)


# -- one U, everywhere ------------------------------------------------------------------------------------------------


def arguments(name: str, tied: bool = True):
    """Outcomes and reports of the kind that a named error takes, and a sampler where outcomes are bare."""
    y, p = rows_of(4, 40, 7, tied)
    if name.startswith(("binary", "top_label")):
        return (y == 0).astype(int), p[:, 0], None
    if name.startswith("linear"):
        return (y == 0).astype(float), p[:, 0], lambda rng: (rng.random(40) < p[:, 0]).astype(float)
    return y, p, None


SQUARED = [name for name, error in tc.ERRORS.items() if error.norm == "l2"]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SQUARED)
def test_test_interval_and_decomposition_share_one_U(name, weighted):
    error = get_error(name) if tc.ERRORS[name].binning.counts is None else get_error(name, (2, 6, 50))
    y, p, sampler = arguments(name)
    w = np.random.default_rng(0).random(40) if weighted else None
    expected = error.decompose(y, p, sample_weight=w)
    test = calibration_test(y, p, error=error, resamples=19, sampler=sampler, sample_weight=w)
    np.testing.assert_allclose([d.U for d in test.details], np.atleast_1d(expected.U), atol=1e-12)
    for what, value in (("U", expected.U), ("loss", expected.loss), ("error", expected.error)):
        draw = None if what == "loss" else sampler
        found = confidence_interval(y, p, error=error, what=what, resamples=39, sampler=draw, sample_weight=w)
        found = found if isinstance(found, tuple) else (found,)
        values = np.broadcast_to(value, len(found))
        np.testing.assert_allclose([ci.estimate for ci in found], values, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("name", [n for n in tc.ERRORS if not n.startswith("linear")])
def test_statistics_of_draws_are_the_errors_of_drawn_outcomes(name, tied, weighted):
    """The fast path, which only counts labels in cells, against the error itself on each drawn outcome."""
    error = get_error(name) if tc.ERRORS[name].binning.counts is None else get_error(name, (1, 3, 9))
    y, p, _ = arguments(name, tied)
    w = np.random.default_rng(0).random(40) if weighted else None
    world = calibrated_world(error, error.read(y, p, sample_weight=w))
    drawn = simulate(world, 6, seed=3).drawn
    outcomes = world.draw(np.random.default_rng(3), 6)
    for values, outcome in zip(drawn, outcomes, strict=True):
        if isinstance(error.property, tc.Confidence):
            top = p.argmax(axis=1)
            outcome = np.where(outcome, top, (top + 1) % 4)
        sample = error.read(outcome.astype(int), p, sample_weight=w)
        expected = error.of(sample) if error.norm == "l1" else us_of(error, sample)
        np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("prop", "rule"),
    [
        (tc.Classwise(), tc.Poisson(0.2)),
        (tc.Classwise(), tc.Exact()),
        (tc.Classwise(), tc.Quantile((2, 5), ties="together")),
        (tc.Classwise(), tc.Quantile((2, 5), ties="row")),
        (tc.Confidence(), tc.Poisson(0.2)),
        (tc.Full(), tc.KdTree((2, 4))),
        (tc.Full(), tc.Exact()),
    ],
    ids=repr,
)
def test_draws_under_other_rules(prop, rule, weighted):
    error = tc.CalibrationError(prop, rule)
    y, p = rows_of(4, 30, 8)
    w = np.random.default_rng(0).random(30) if weighted else None
    world = calibrated_world(error, error.read(y, p, sample_weight=w))
    drawn = simulate(world, 4, seed=3).drawn
    for values, outcome in zip(drawn, world.draw(np.random.default_rng(3), 4), strict=True):
        top = p.argmax(axis=1)
        labels = np.where(outcome, top, (top + 1) % 4) if isinstance(prop, tc.Confidence) else outcome
        expected = us_of(error, error.read(labels, p, sample_weight=w))
        np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("phi", [[0.0, 1.0, 3.0, -1.0], [[0, 1], [1, 1], [2, 0], [0, 0]]], ids=["scalar", "vector"])
def test_linear_properties_draw_whole_labels(phi):
    y, p = rows_of(4, 30, 5)
    rule = tc.KdTree(4) if np.ndim(phi) == 2 else tc.Quantile(4)
    error = tc.CalibrationError(tc.Linear(phi), rule)
    world = calibrated_world(error, error.read(y, p))
    drawn = simulate(world, 5, seed=1).drawn
    labels = draw_labels(np.random.default_rng(1), p, 5)
    expected = [us_of(error, error.read(label, p)) for label in labels]
    np.testing.assert_allclose(drawn, expected, atol=1e-12)
    test = calibration_test(y, p, error=error, resamples=99)
    assert (test.closed_form_sd is None) == (np.ndim(phi) == 2)
    assert test.direction is not None and test.direction.confidence


def test_blocks_do_not_change_the_draws(monkeypatch):
    y, p, _ = arguments("binary")
    whole = calibration_test(y, p, error="binary", resamples=50)
    monkeypatch.setattr(null_module, "_BLOCK", 130)
    pieces = calibration_test(y, p, error="binary", resamples=50)
    assert pieces.pvalue == whole.pvalue and pieces.null_sd == pytest.approx(whole.null_sd, rel=1e-12)


def test_label_blocks_give_the_same_law(monkeypatch):
    y, p = rows_of(3, 60, 3)
    whole = noise_of_U(y, p, n_bins=3, resamples=2000)
    monkeypatch.setattr(null_module, "_BLOCK", 500)
    monkeypatch.setattr(null_module, "_CDF_ENTRIES", 16)
    pieces = noise_of_U(y, p, n_bins=3, resamples=2000)
    assert pieces.sd == pytest.approx(whole.sd, rel=0.12)  # each sd has a relative error of about 2-3%


def test_labels_are_drawn_from_the_rows():
    p = np.array([[0.0, 0.2, 0.8, 0.0], [1.0, 0.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]], dtype=np.float32)
    labels = draw_labels(np.random.default_rng(0), p, 20_000)
    share = np.stack([(labels == r).mean(axis=0) for r in range(4)], axis=1)
    assert np.abs(share - p).max() < 5 * 0.5 / np.sqrt(20_000)
    assert (share[p == 0] == 0).all()


def test_a_class_without_chance_is_not_drawn_even_at_the_edge():
    class Zeros:
        def random(self, shape):
            return np.zeros(shape)

    p = np.array([[0.0, 0.0, 1.0], [0.0, 0.4, 0.6]])
    assert draw_labels(Zeros(), p, 1).tolist() == [[2, 1]]


# -- null moments: every outcome listed -------------------------------------------------------------------------------


def enumerate_null(error, p, k):
    """Chance and (U per count, loss) of every outcome vector, each label drawn from its row."""
    n = len(p)
    chances, us, losses = [], [], []
    for y in product(range(k), repeat=n):
        rows = p if p.ndim == 2 else np.stack([1 - p, p], axis=1)
        chances.append(np.prod(rows[np.arange(n), list(y)]))
        parts = error.decompose(list(y), p)
        us.append(np.atleast_1d(parts.U))
        losses.append(parts.loss)
    return np.array(chances), np.array(us), np.array(losses)


@pytest.mark.parametrize(
    "rule",
    [tc.Quantile((1, 2, 3, 4, 9)), tc.Quantile(2, ties="row"), tc.EqualWidth(3), tc.TwoBin(), tc.Poisson(0.3)],
    ids=repr,
)
@pytest.mark.parametrize("reports", [[0.2, 0.5, 0.5, 0.5, 0.7, 0.7, 0.9], [0.1, 0.25, 0.4, 0.55, 0.7, 0.9]], ids=str)
def test_closed_form_moments_are_those_of_all_outcomes(rule, reports):
    error = tc.CalibrationError(tc.Binary(), rule)
    p = np.array(reports)
    chance, us, losses = enumerate_null(error, p, 2)
    noise = noise_of_U([0] * len(p), p, error=error)
    np.testing.assert_allclose(chance @ us, 0.0, atol=1e-13)
    np.testing.assert_allclose(np.atleast_1d(noise.sd), np.sqrt(chance @ us**2), atol=1e-12)
    assert noise.loss == pytest.approx(chance @ losses, abs=1e-13)
    assert noise.method == "exact"
    # n·LinCE = loss + U: its variance is n⁻² Σ s(1 − 4s) plus that of U, which the loss does not correlate with
    s = p * (1 - p)
    score = losses[:, None] + us
    variance = chance @ score**2 - (chance @ score) ** 2
    np.testing.assert_allclose(
        variance, (s * (1 - 4 * s)).sum() / len(p) ** 2 + np.atleast_1d(noise.sd) ** 2, atol=1e-12
    )


def test_closed_form_moments_of_the_corrected_confidence_error():
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.7, 0.1], [0.5, 0.25, 0.25], [0.1, 0.0, 0.9], [0.34, 0.33, 0.33]])
    error = get_error("confidence", (1, 2))
    chance, us, losses = enumerate_null(error, p, 3)
    noise = noise_of_U([0] * 5, p, error=error)
    np.testing.assert_allclose(noise.sd, np.sqrt(chance @ us**2), atol=1e-12)
    assert noise.loss == pytest.approx(chance @ losses)
    c = p.max(axis=1)
    assert noise.loss == pytest.approx((1 - c**2).mean())
    assert chance @ losses**2 - noise.loss**2 == pytest.approx((4 * c**3 * (1 - c)).sum() / 25)


@pytest.mark.parametrize("name", ["classwise", "full", "classwise_two_bin"])
def test_resampled_moments_and_pvalue_are_near_those_of_all_outcomes(name):
    y = [2, 2, 0, 1, 2]
    p = np.array([[0.5, 0.3, 0.2], [0.2, 0.7, 0.1], [0.5, 0.25, 0.25], [0.1, 0.0, 0.9], [0.34, 0.33, 0.33]])
    error = get_error(name) if name.endswith("two_bin") else get_error(name, 2)
    chance, us, losses = enumerate_null(error, p, 3)
    test = calibration_test(y, p, error=error, resamples=20_000)
    sd = float(np.sqrt(chance @ us[:, 0] ** 2))
    assert test.null_mean == pytest.approx(0.0, abs=5 * sd / np.sqrt(20_000))
    assert test.null_sd == pytest.approx(sd, rel=0.05)
    exact = chance @ (us[:, 0] >= error.decompose(y, p).U - 1e-12)
    assert test.pvalue == pytest.approx(exact, abs=5 * 0.5 / np.sqrt(20_000))
    noise = noise_of_U(y, p, error=error)
    assert noise.loss == pytest.approx(chance @ losses)
    assert test.closed_form_sd is None and noise.method == "999 resamples"


def test_equal_values_count_as_at_least_as_large():
    """All reports 1/2 and one bin: U depends on the number of ones only, so that draws often tie with the observed."""
    n = 8
    test = calibration_test([1] * 3 + [0] * 5, [0.5] * n, error="binary", n_bins=1, resamples=4999)
    exact = 1 - comb(n, 4) / 2**n  # |ones − 4| >= 1
    assert test.pvalue == pytest.approx(exact, abs=5 * 0.5 / np.sqrt(5000))


def test_certain_reports_that_came_true_have_pvalue_one():
    y, p = np.array([0, 1, 1, 0]), np.array([0.0, 1.0, 1.0, 0.0])
    assert calibration_test(y, p, error="binary", n_bins=2).pvalue == 1.0
    assert calibration_test(y, np.stack([1 - p, p], axis=1), n_bins=(1, 2)).pvalue == 1.0


def test_as_many_bins_as_rows_have_no_pairs_and_say_nothing():
    y, p = rows_of(3, 12, 0)
    test = calibration_test(y, p, n_bins=(3, 12, 400))
    assert [d.U for d in test.details[1:]] == [0.0, 0.0] and test.details[1].null_sd == 0.0
    assert calibration_test(y, p, n_bins=(12, 400)).pvalue == 1.0
    assert test.pvalue == test.details[0].pvalue == calibration_test(y, p, n_bins=3).pvalue  # silent counts add nothing
    found = confidence_interval(y, p, n_bins=400)
    assert (found.low, found.estimate, found.high) == (0.0, 0.0, 0.0)


def test_a_single_row_with_weight_has_no_pairs_and_pvalue_one():
    y, p = rows_of(3, 20, 0)
    w = np.eye(1, 20)[0]
    for n_bins in (4, (2, 4)):
        assert calibration_test(y, p, n_bins=n_bins, sample_weight=w, resamples=19).pvalue == 1.0
    assert calibration_test([1], [[0.2, 0.8]], resamples=19).pvalue == 1.0
    assert mean_gap([1], [[0.2, 0.8]]).word == "no clear direction"


def test_several_bin_counts_are_one_test():
    y, p = rows_of(3, 50, 1)
    test = calibration_test(y, p, n_bins=(2, 5, 10), resamples=199)
    assert test.n_bins == (2, 5, 10) and [d.n_bins for d in test.details] == [2, 5, 10]
    assert test.pvalue >= min(d.pvalue for d in test.details)
    alone = calibration_test(y, p, n_bins=5, resamples=199)
    assert alone.pvalue == test.details[1].pvalue and alone.statistic == pytest.approx(test.details[1].U)


def test_the_test_says_which_null_it_tests():
    y, p = rows_of(3, 30, 1)
    assert "full conditional calibration given the reports" in calibration_test(y, p, resamples=9).null
    assert "top class" in calibration_test(y, p, error="confidence", resamples=9).null
    assert "u_i" in calibration_test(y == 0, p[:, 0], error="binary", resamples=9).null
    assert "null:" in repr(calibration_test(y, p, resamples=9))


# -- intervals: rows really deleted -----------------------------------------------------------------------------------


def literal(error, y, p, m, w, groups):
    """Loss, U and their jackknife standard errors from rows left out one group at a time, with G as it was."""
    pieces, losses = definition(error, y, p, m), losses_of(error, y, p)
    everything = np.arange(len(y))
    loss, theta, inside = parts_of(pieces, losses, w, everything, groups)
    scale = np.outer(w, w)[groups[:, None] != groups[None, :]].sum() / (w**2).sum()
    without = [parts_of(pieces, losses, w, everything[groups != g], groups) for g in np.unique(groups)]
    a, u, v = np.array(without).T
    u = u * scale
    units = len(without)

    def se(values):
        return np.sqrt((units - 1) / units * ((values - values.mean()) ** 2).sum())

    return {
        "loss": (loss, se(a)),
        "U": (theta * scale, se(u)),
        "within": (inside, se(v)),
        "score": (loss + theta * scale + inside, se(a + u + v)),
    }


CASES = [
    (
        "classwise",
        tc.Classwise(),
        [*SCALAR_RULES[:6], tc.Quantile((2, 5)), tc.EqualWidth(4), tc.TwoBin(), tc.Poisson(0.2)],
    ),
    (
        "confidence",
        tc.Confidence(),
        [tc.Quantile(2), tc.Quantile(3, ties="row"), tc.EqualWidth(5), tc.TwoBin(), tc.Poisson()],
    ),
    ("full", tc.Full(), VECTOR_RULES),
]


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("prop", "rule"), [(prop, rule) for _, prop, rules in CASES for rule in rules], ids=repr)
def test_jackknife_is_literal_deletion_with_frozen_bins(prop, rule, weighted, clustered):
    y, p = rows_of(3, 15, 11)
    rng = np.random.default_rng(5)
    w = rng.random(15) + 0.1 if weighted else np.ones(15)
    groups = rng.integers(0, 6, 15) if clustered else np.arange(15)
    error = tc.CalibrationError(prop, rule)
    for what in ("loss", "U", "score", "within") if clustered else ("loss", "U", "score"):
        found = confidence_interval(
            y,
            p,
            error=error,
            what=what,
            sample_weight=w if weighted else None,
            groups=groups if clustered else None,
            resamples=39,
        )
        for ci, m in zip(found if isinstance(found, tuple) else (found,), counts(rule), strict=True):
            estimate, se = literal(error, y, p, m, w, groups)[what]
            assert ci.estimate == pytest.approx(estimate, abs=1e-12)
            assert ci.se == pytest.approx(se, abs=1e-12)


def test_error_and_score_are_one_interval_at_two_scales():
    y, p = rows_of(3, 40, 2)
    score = confidence_interval(y, p, what="score", n_bins=6)
    error = confidence_interval(y, p, what="error", n_bins=6)
    assert (error.low * 40, error.high * 40, error.se * 40) == pytest.approx((score.low, score.high, score.se))


def test_the_upper_end_reaches_further_by_kappa():
    """κ = n⁻¹ Σ_{i≠j} G r² r² / Σ r², by hand for one view; with G², blocks that cuts divide would get m times less."""
    u = np.repeat(TIED, 5)
    y = (np.random.default_rng(0).random(len(u)) < u).astype(int)
    ci = confidence_interval(y, u, error="binary", n_bins=5)
    g = scalar_chance(u, tc.Quantile(5), 5)
    np.fill_diagonal(g, 0.0)
    r2 = (u - y) ** 2
    kappa = r2 @ g @ r2 / r2.sum() / len(y)
    t = stats.t.ppf(0.975, len(y) - 1)
    assert ci.note == ""
    assert ci.low == pytest.approx(ci.estimate - t * ci.se)
    assert ci.high == pytest.approx(ci.estimate + t * ci.se + t * t * kappa)


@pytest.mark.parametrize("error", ["binary", "binary_two_bin"])
def test_few_bins_say_what_they_do_instead(error):
    y, p, _ = arguments("binary")
    ci = confidence_interval(y, p, error=error, n_bins=2 if error == "binary" else None)
    band = null_band(y, p, error=error, n_bins=2 if error == "binary" else None)
    assert "exact null" in ci.method and "too seldom" in ci.note and "exact null" in repr(ci)
    assert ci.low <= ci.estimate - band.high + 1e-12 and ci.high >= ci.estimate - band.low - 1e-12
    clustered = confidence_interval(
        y, p, error=error, n_bins=2 if error == "binary" else None, groups=np.arange(40) // 2
    )
    assert "no exact null" in clustered.note and clustered.method == "delete-a-cluster jackknife"
    many = confidence_interval(y, p, error="binary", n_bins=5)
    assert many.note == "" and many.method == "delete-one jackknife"


def test_clusters_split_the_error_into_three_parts():
    """n·error = loss + U + within; each cluster's rows being copies, U is that of one copy times the copies."""
    rng = np.random.default_rng(3)
    u = rng.random(30)
    y = (rng.random(30) < u).astype(int)
    groups = np.repeat(np.arange(30), 4)
    whole = tc.decompose(np.repeat(y, 4), np.repeat(u, 4), error="binary", n_bins=5)
    once = tc.decompose(y, u, error="binary", n_bins=5)
    found = confidence_interval(np.repeat(y, 4), np.repeat(u, 4), error="binary", n_bins=5, groups=groups)
    assert found.estimate == pytest.approx(4 * once.U)
    assert found.within == pytest.approx(3 * whole.loss) and "within clusters" in repr(found)
    assert whole.loss + found.estimate + found.within == pytest.approx(120 * whole.error)
    one = confidence_interval(y, u, error="binary", n_bins=5)
    assert one.within is None
    assert found.se == pytest.approx(4 * one.se)
    difference = paired_difference(
        np.repeat(y, 4), np.repeat(u, 4), np.full(120, 0.5), error="binary", n_bins=5, groups=groups
    )
    three = (difference.loss, difference.U, difference.within)
    assert difference.D.estimate == pytest.approx(sum(part.estimate for part in three))
    assert "within clusters" in repr(difference)
    assert paired_difference(y, u, 1 - u, error="binary", n_bins=5).within is None


def test_rows_without_weight_are_no_units():
    """Fixed cells: rows of weight 0 change nothing at all, neither in intervals nor in gaps, rows or clusters."""
    y, p = rows_of(2, 120, 5, tied=False)
    u, w = p[:, 1], np.r_[np.ones(90), np.zeros(30)]
    error = tc.CalibrationError(tc.Binary(), tc.EqualWidth(5))
    groups = np.r_[np.arange(90) // 2, np.arange(30) + 100]
    for cluster in (False, True):
        for what in ("U", "loss", "score"):
            both = [
                confidence_interval(
                    y[:n],
                    u[:n],
                    error=error,
                    what=what,
                    sample_weight=w[:n],
                    groups=groups[:n] if cluster else None,
                )
                for n in (120, 90)
            ]
            assert (both[0].low, both[0].high, both[0].se) == pytest.approx((both[1].low, both[1].high, both[1].se))
        gaps = [
            mean_gap(y[:n], u[:n], error="binary", sample_weight=w[:n], groups=groups[:n] if cluster else None)
            for n in (120, 90)
        ]
        assert (gaps[0].se, gaps[0].pvalue) == pytest.approx((gaps[1].se, gaps[1].pvalue))
    parts = [paired_difference(y[:n], u[:n], u[:n] ** 2, error=error, sample_weight=w[:n]).U for n in (120, 90)]
    assert parts[0].pvalue == pytest.approx(parts[1].pvalue)


@pytest.mark.parametrize("power", [-170, 170, -300, 300])
def test_the_unit_of_the_weights_does_not_matter(power):
    y, p = rows_of(3, 40, 2)
    w = np.random.default_rng(0).random(40) + 0.1
    for call in (
        lambda w: calibration_test(y, p, n_bins=5, sample_weight=w, resamples=99).to_dict(),
        lambda w: confidence_interval(y, p, n_bins=5, sample_weight=w).to_dict(),
        lambda w: confidence_interval(y, p, n_bins=5, sample_weight=w, what="error").to_dict(),
        lambda w: paired_difference(y, p, p[::-1], n_bins=5, sample_weight=w).U.to_dict(),
        lambda w: mean_gap(y, p, sample_weight=w).to_dict(),
        lambda w: {"sd": noise_of_U(y, p, error="confidence", sample_weight=w).sd},
        lambda w: {"low": null_band(y, p, sample_weight=w, resamples=99).low},
    ):
        usual, extreme = call(w), call(w * 10.0**power)
        for key, value in usual.items():
            if isinstance(value, float):
                assert extreme[key] == pytest.approx(value, rel=1e-9)


def test_an_offset_of_phi_changes_nothing():
    y, p = rows_of(3, 40, 2, tied=False)
    rule = tc.Quantile(5)
    plain, moved = (
        noise_of_U(y, p, error=tc.CalibrationError(tc.Linear(np.array([0.0, 1.0, 2.0]) + offset), rule)).sd
        for offset in (0.0, 1e9)
    )
    assert moved == pytest.approx(plain, rel=1e-6)


def test_too_few_surprises_are_said():
    """One wrong in a hundred sharp rows: whether its bin holds another says next to nothing; at 1/2 all is well."""
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(3), np.ones(97)].astype(int)
    found = confidence_interval(y, rng.uniform(0.985, 0.999, 100), error="binary", n_bins=15)
    assert "not to be trusted" in found.note and "surprising" in repr(found)
    assert found.high >= 0.02  # 3 in 100 may well be 7 in 100, for which E[U] = 100/15 · .062²
    good = confidence_interval(rng.integers(0, 2, 100), rng.uniform(0.4, 0.6, 100), error="binary", n_bins=15)
    assert good.note == ""
    both = paired_difference(y, rng.uniform(0.985, 0.999, 100), np.full(100, 0.5), error="binary", n_bins=15)
    assert "U part not to be trusted" in both.note
    none = confidence_interval(np.ones(50, int), rng.uniform(0.985, 0.999, 50), error="top_label", n_bins=5)
    assert "not to be trusted" in none.note and none.high > 0


def test_few_bins_of_bare_outcomes_need_a_sampler_for_the_exact_null():
    y, p, sampler = arguments("linear")
    assert "no exact null" in confidence_interval(y, p, error="linear", n_bins=2).note
    assert "exact null" in confidence_interval(y, p, error="linear", n_bins=2, sampler=sampler).method


def test_l1_gets_a_band_and_the_reason_but_no_interval():
    y, p = rows_of(3, 60, 0)
    found = confidence_interval(y, p, error="confidence_l1", n_bins=5)
    assert found.low is None and found.high is None and found.se is None
    assert found.band.low <= found.band.high and "no interval" in found.note and "no interval" in repr(found)
    assert found.estimate == pytest.approx(tc.confidence_error(y, p, n_bins=5, norm="l1", strategy="uniform"))
    several = confidence_interval(y, p, error="confidence_l1", n_bins=(5, 9))
    assert [f.n_bins for f in several] == [5, 9]
    with pytest.raises(ValueError, match="no loss part"):
        confidence_interval(y, p, error="confidence_l1", what="loss")
    with pytest.raises(ValueError, match="use null_band"):
        calibration_test(y, p, error="confidence_l1")
    with pytest.raises(ValueError, match="no paired difference"):
        paired_difference(y, p, p, error="confidence_l1")
    with pytest.raises(ValueError, match="use null_band"):
        noise_of_U(y, p, error="confidence_l1")


# -- two predictors ---------------------------------------------------------------------------------------------------


def pair_of_predictors(seed: int = 0, n: int = 80):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), n)
    y = np.array([rng.choice(3, p=row) for row in p])
    return y, p, 0.6 * p + 0.4 * rng.dirichlet(np.ones(3), n)


def test_the_loss_part_is_the_paired_t_interval():
    y, a, b = pair_of_predictors()
    found = paired_difference(y, a, b, error="full", n_bins=3)
    usual = stats.ttest_rel(tc.brier(y, a, per_example=True), tc.brier(y, b, per_example=True))
    interval = usual.confidence_interval(0.95)
    assert found.loss.pvalue == pytest.approx(usual.pvalue)
    assert (found.loss.low, found.loss.high) == pytest.approx((interval.low, interval.high))


def test_parts_add_up_and_swap_sign():
    y, a, b = pair_of_predictors()
    for one, other in zip(
        paired_difference(y, a, b, n_bins=(5, 9)), paired_difference(y, b, a, n_bins=(5, 9)), strict=True
    ):
        assert one.D.estimate == pytest.approx(one.loss.estimate + one.U.estimate)
        direct = get_error("classwise", one.n_bins)
        assert one.D.estimate == pytest.approx(80 * (direct(y, a) - direct(y, b)))
        for part in ("loss", "U", "D"):
            x, z = getattr(one, part), getattr(other, part)
            assert (x.estimate, x.low, x.high, x.pvalue) == pytest.approx((-z.estimate, -z.high, -z.low, z.pvalue))


@pytest.mark.parametrize("clustered", [False, True])
def test_the_U_part_is_the_jackknife_of_the_difference(clustered):
    y, a, b = pair_of_predictors(n=18)
    groups = np.arange(18) % 5 if clustered else np.arange(18)
    error = get_error("classwise", 5)
    found = paired_difference(y, a, b, error=error, groups=groups if clustered else None)
    thetas = []
    for p in (a, b):
        pieces, losses = definition(error, y, p, 5), losses_of(error, y, p)
        keep = [np.arange(18)[groups != g] for g in np.unique(groups)]
        scale = (groups[:, None] != groups[None, :]).sum() / 18
        thetas.append(np.array([scale * parts_of(pieces, losses, np.ones(18), rows, groups)[1] for rows in keep]))
    d = thetas[0] - thetas[1]
    assert found.U.se == pytest.approx(np.sqrt((len(d) - 1) / len(d) * ((d - d.mean()) ** 2).sum()))


def test_a_predictor_does_not_differ_from_itself():
    y, a, _ = pair_of_predictors()
    found = paired_difference(y, a, a)
    assert (found.loss.estimate, found.U.estimate, found.loss.pvalue, found.U.pvalue) == (0.0, 0.0, 1.0, 1.0)
    assert "no difference in loss" in repr(found) and "no difference in calibration" in repr(found)


def test_rows_that_differ_alike_give_no_pvalue():
    found = paired_difference([1, 1, 1], [0.4] * 3, [0.9] * 3, error="binary", n_bins=1)
    assert found.loss.degenerate and np.isnan(found.loss.pvalue) and np.isinf(found.loss.high)
    assert "no conclusion about loss" in found.conclusions[0] and "degenerate" in repr(found)
    assert found.loss.to_dict()["pvalue"] is None
    assert "degenerate" in confidence_interval([1] * 3, [0.4] * 3, error="binary", n_bins=5, what="loss").note


def test_words_keep_loss_and_calibration_apart():
    """A sharper predictor with equal calibration wins on the loss part, and nothing is said about its calibration."""
    rng = np.random.default_rng(0)
    n = 3000
    q = rng.beta(0.4, 0.4, n)
    y = (rng.random(n) < q).astype(int)
    found = paired_difference(y, q, np.full(n, y.mean()), error="binary", names=("sharp", "flat"))
    loss, u = found.conclusions
    assert loss == "sharp predicts better than flat: smaller loss"
    assert "no difference in calibration" in u
    loss_line = repr(found).splitlines()[1]
    assert "calibrat" not in loss_line and "better calibrated" not in repr(found)
    z = np.log(q.clip(1e-9, 1 - 1e-9) / (1 - q.clip(1e-9, 1 - 1e-9)))
    off = paired_difference(y, 1 / (1 + np.exp(-z / 4)), q, error="binary", names=("off", "true"))
    assert off.conclusions[1] == "true is closer to calibrated than off: smaller U"


# -- sign, size, diagrams ---------------------------------------------------------------------------------------------


def test_mean_gap_has_sign_size_and_usual_error():
    y, p = rows_of(3, 200, 4, tied=False)
    found = mean_gap(y, p)
    gap = p.max(axis=1) - (p.argmax(axis=1) == y)
    assert found.gap == pytest.approx(gap.mean()) and found.se == pytest.approx(gap.std(ddof=1) / np.sqrt(200))
    over = mean_gap(np.zeros(50, int), np.tile([0.1, 0.9], (50, 1)))
    assert over.word == "over-confident" and over.gap == pytest.approx(0.9)
    assert mean_gap([1] * 9, [0.4] * 9, error="binary").word == "too low"
    assert calibration_test(y, p, resamples=9).direction == found
    groups = np.repeat(np.arange(100), 2)
    both = mean_gap(y, p, groups=groups)
    sums = (gap - gap.mean()).reshape(-1, 2).sum(axis=1)
    assert both.se == pytest.approx(np.sqrt(100 / 99 * (sums**2).sum()) / 200)


@pytest.mark.parametrize(("n", "report"), [(50, 0.99), (20, 0.95), (3, 0.99), (7, 0.5), (40, 0.02)])
def test_a_calibrated_sample_rarely_gets_a_direction_exactly(n, report):
    """Every number of ones with its binomial chance: the share of samples with a word is at most 5%."""
    words = [mean_gap([1] * k + [0] * (n - k), [report] * n, error="binary").word for k in range(n + 1)]
    chance = stats.binom.pmf(np.arange(n + 1), n, report)
    named = np.array([word != "no clear direction" for word in words])
    assert chance @ named <= 0.05
    assert named.any() == (min(report, 1 - report) ** n <= 0.025)
    tail = np.minimum(stats.binom.cdf(np.arange(n + 1), n, report), stats.binom.sf(np.arange(n + 1) - 1, n, report))
    assert (named == (2 * tail <= 0.05)).all()


def test_a_direction_that_agreement_alone_would_give_is_not_given():
    found = mean_gap([1, 1, 1], [0.99] * 3, error="binary")
    assert found.word == "no clear direction" and np.isnan(found.se) and "without a standard error" in repr(found)
    assert found.pvalue == 1.0
    bare = mean_gap([0.5] * 4, [0.7] * 4, error="linear")  # no null is known, and nothing varies
    assert bare.word == "no clear direction"
    one = mean_gap([1] * 40, [0.8] * 40, error="binary", groups=[7] * 40)  # one cluster is one surprise at most
    assert one.word == "no clear direction" and one.pvalue >= 0.4 and np.isnan(one.se)
    certain = mean_gap([0] * 4, [1.0] * 4, error="binary", sample_weight=[1, 2, 3, 4])
    assert certain.word == "too high"


def test_many_rows_use_the_normal_distribution_and_agree_with_the_exact_law():
    rng = np.random.default_rng(0)
    u = rng.uniform(0.3, 0.7, 5000)
    y = rng.random(5000) < u + 0.015
    ones, law = y.sum(), poisson_binomial(u)
    exact = 2 * min(law[: ones + 1].sum(), law[ones:].sum())
    assert mean_gap(y.astype(int), u, error="binary").pvalue == pytest.approx(exact, rel=0.1)


def test_the_bound_for_weights_and_clusters_is_above_the_exact_tail():
    """All outcomes of ten rows listed, rows alone or in perfectly dependent pairs: the bound exceeds the true tail."""
    u, w = np.full(5, 0.8), np.array([1.0, 2.0, 0.5, 1.5, 1.0])
    for pairs in (False, True):
        copies = 2 if pairs else 1
        groups = np.repeat(np.arange(5), copies) if pairs else None
        outcomes = list(product((0, 1), repeat=5))
        found = [
            mean_gap(
                np.repeat(y, copies),
                np.repeat(u, copies),
                error="binary",
                sample_weight=np.repeat(w, copies),
                groups=groups,
            )
            for y in outcomes
        ]
        gaps, bounds = np.array([f.gap for f in found]), np.array([f.pvalue for f in found])
        chance = np.array([np.prod(np.where(y, u, 1 - u)) for y in outcomes])
        for gap, bound in zip(gaps, bounds, strict=True):
            side = gaps >= gap - 1e-12 if gap > 0 else gaps <= gap + 1e-12
            assert bound >= min(1.0, 2 * chance @ side) - 1e-9
        assert bounds.min() < 0.05  # and it is not idle


def test_mean_gap_weights_are_means_of_weighted_rows():
    u, y, w = np.array([0.9, 0.4, 0.6]), np.array([1, 0, 1]), np.array([1.0, 2.0, 0.5])
    found = mean_gap(y, u, error="binary", sample_weight=w)
    assert found.gap == pytest.approx(np.average(u - y, weights=w))


def test_bands_of_equal_reports_are_binomial_quantiles():
    n = 60
    bands = consistency_bands([0, 1] * 30, [0.3] * n, error="binary", n_bins=1)
    low, high = stats.binom.ppf([0.025, 0.975], n, 0.3) / n
    assert (bands.low[0, 0], bands.high[0, 0]) == pytest.approx((low, high))
    assert bands.mean_outcome[0, 0] == 0.5 and bands.outside.all()


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10])
def test_the_law_of_a_bin_count_is_that_of_all_outcomes(n):
    u = np.random.default_rng(n).random(n)
    law = np.zeros(n + 1)
    for y in product((0, 1), repeat=n):
        law[sum(y)] += np.prod(np.where(y, u, 1 - u))
    np.testing.assert_allclose(poisson_binomial(u), law, atol=1e-14)


def test_drawn_bands_agree_with_exact_ones():
    """Equal weights change nothing but the method: the drawn quantiles lie within one outcome of the exact ones."""
    y, u = rows_of(2, 90, 3, tied=False)
    exact = consistency_bands(y, u[:, 1], error="binary", n_bins=3)
    drawn = consistency_bands(y, u[:, 1], error="binary", n_bins=3, sample_weight=np.full(90, 2.0), resamples=9999)
    assert np.abs(exact.low - drawn.low).max() <= 1.01 / 30 and np.abs(exact.high - drawn.high).max() <= 1.01 / 30
    np.testing.assert_allclose(exact.mean_outcome, drawn.mean_outcome)


def test_bands_share_the_bins_of_the_error():
    y, p = rows_of(3, 50, 6)
    bands = consistency_bands(y, p, error="classwise", n_bins=4)
    (table,) = get_error("classwise", 4).tables(y, p)
    np.testing.assert_allclose(bands.mean_report, table.mean_report)
    np.testing.assert_allclose(bands.mean_outcome, table.mean_outcome, atol=1e-12)
    assert bands.classes == (0, 1, 2) and (bands.low <= bands.mean_report + 1e-12).all()
    fixed = tc.CalibrationError(tc.Confidence(), tc.EqualWidth(9))  # its low bins are empty
    shared = consistency_bands(y, p, error=fixed)
    np.testing.assert_allclose(shared.mean_report, fixed.tables(y, p)[0].mean_report)
    np.testing.assert_allclose(shared.count, fixed.tables(y, p)[0].count)
    one = consistency_bands(y, p, error="classwise", n_bins=4, classes=[2])
    np.testing.assert_allclose(one.mean_report[0], table.mean_report[2])
    assert one.classes == (2,)


def test_null_band_of_the_usual_ece():
    y, p = rows_of(3, 80, 6, tied=False)
    band = null_band(y, p, error="confidence_l1", n_bins=(5, 10), resamples=99)
    np.testing.assert_allclose(band.estimate, tc.confidence_error(y, p, n_bins=(5, 10), norm="l1", strategy="uniform"))
    assert (band.low > 0).all()  # a calibrated predictor never shows an ECE of 0
    assert "if calibrated" in repr(band)


@pytest.mark.parametrize("draws", [39, 59, 99, 199])
@pytest.mark.parametrize("level", [0.95, 0.9])
def test_bands_of_draws_keep_their_level(draws, level):
    """One more value of the same law lies strictly between the ends with chance 1 − 2r/(B + 1) at least."""
    low, high = null_quantiles(np.arange(draws, dtype=float)[::-1], level)
    rank = int(low) + 1
    assert high == draws - rank
    assert 1 - 2 * rank / (draws + 1) >= level - 1e-12 > 1 - 2 * (rank + 1) / (draws + 1)


# -- results and bad input --------------------------------------------------------------------------------------------


def test_results_are_plain_numbers_and_escaped_text():
    y, p = rows_of(3, 40, 0)
    results = [
        calibration_test(y, p, n_bins=(3, 5), resamples=9),
        confidence_interval(y, p),
        confidence_interval(y, p, error="confidence_l1", resamples=39),
        paired_difference(y, p, p, names=("<a>", "b")),
        paired_difference([1] * 3, [0.9] * 3, [0.4] * 3, error="binary"),  # no standard error
        noise_of_U(y, p, n_bins=(3, 5), resamples=9),
        null_band(y, p, resamples=39),
        consistency_bands(y, p, resamples=39),
        consistency_bands(y, p, error=tc.CalibrationError(tc.Confidence(), tc.EqualWidth(9))),  # empty bins
        calibration_test([1], [[0.2, 0.8]], resamples=9),
        mean_gap(y, p),
        mean_gap([1], [[0.2, 0.8]]),
    ]
    for result in results:
        assert json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert result._repr_html_().startswith("<pre>") and "<a>" not in result._repr_html_()


def test_same_seed_same_answer_other_seed_other_draws():
    y, p = rows_of(3, 40, 0)
    for call in (
        lambda seed: noise_of_U(y, p, n_bins=(3, 5), resamples=9, seed=seed),
        lambda seed: null_band(y, p, n_bins=(3, 5), resamples=39, seed=seed),
        lambda seed: confidence_interval(y, p, error="confidence_l1", resamples=39, seed=seed),
        lambda seed: consistency_bands(y, p, error="classwise", sample_weight=np.arange(1, 41), seed=seed),
    ):
        assert call(4) == call(4) != call(5) and len({call(4), call(4)}) == 1
    assert calibration_test(y, p, seed=4) == calibration_test(y, p, seed=4)
    assert calibration_test(y, p, seed=4).null_sd != calibration_test(y, p, seed=5).null_sd


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda y, p: calibration_test(y, p, resamples=0), "resamples must be at least 1"),
        (lambda y, p: calibration_test(y, p, seed=-1), "seed must be a whole number"),
        (lambda y, p: calibration_test(y, p, sampler=lambda rng: y), "sampler cannot apply"),
        (lambda y, p: calibration_test(p[:, 0], p[:, 1], error="linear"), "pass sampler="),
        (
            lambda y, p: calibration_test(p[:, 0], p[:, 1], error="linear", sampler=lambda rng: [1.0]),
            "finite outcomes of shape",
        ),
        (lambda y, p: calibration_test(y, p, error="nonsense"), "error must be one of"),
        (lambda y, p: confidence_interval(y, p, level=95), "level must lie strictly between"),
        (lambda y, p: confidence_interval(y, p, what="V"), "what must be"),
        (lambda y, p: confidence_interval(y, p, groups=[1, 2]), "groups must give each of the 12 rows"),
        (lambda y, p: confidence_interval(y, p, groups=np.arange(12) % 2), "at least three clusters"),
        (lambda y, p: confidence_interval(y[:2], p[:2], n_bins=5), "at least three rows"),
        (lambda y, p: paired_difference(y, p, p, names=("a",)), "names must be two strings"),
        (lambda y, p: paired_difference(y, p, p[:5]), "numbers of rows disagree"),
        (lambda y, p: consistency_bands(y, p, error="classwise_two_bin"), "averages over cuts"),
        (lambda y, p: consistency_bands(y, p, error="classwise", classes=7), "classes must be columns in 0..2"),
        (lambda y, p: consistency_bands(y, p, error="confidence", classes=0), "classes cannot apply"),
        (lambda y, p: consistency_bands(p[:, 0], p[:, 1], error="linear"), "needs 0/1 outcomes"),
        (lambda y, p: confidence_interval(y, p, error="confidence_l1", groups=np.arange(12)), "groups cannot apply"),
        (lambda y, p: confidence_interval(y, p, what="within"), "pass groups"),
        (lambda y, p: confidence_interval(y, p, n_bins=15, sampler=lambda rng: 1 / 0), "sampler cannot apply"),
        (
            lambda y, p: confidence_interval(p[:, 0], p[:, 1], error="linear", n_bins=5, sampler=lambda rng: 1 / 0),
            "sampler cannot apply: it is for",
        ),
        (
            lambda y, p: confidence_interval(
                p[:, 0], p[:, 1], error="linear", n_bins=2, groups=np.arange(12), sampler=lambda rng: 1 / 0
            ),
            "sampler cannot apply: with groups",
        ),
        (lambda y, p: noise_of_U(y, p, sampler=lambda rng: y), "sampler cannot apply"),
        (lambda y, p: calibration_test(y, p, n_bins=(5, 3, 5)), "different counts, got 5 twice"),
        (lambda y, p: confidence_interval(y, p, n_bins=(5, 5)), "different counts"),
        (lambda y, p: paired_difference(y, p, p, n_bins=(5, 5)), "different counts"),
        (lambda y, p: noise_of_U(y, p, n_bins=(5, 5)), "different counts"),
        (lambda y, p: null_band(y, p, n_bins=(5, 5)), "different counts"),
        (lambda y, p: null_band(y, p, resamples=1), "at least resamples=39, got 1"),
        (lambda y, p: null_band(y, p, resamples=18, level=0.9), "at least resamples=19, got 18"),
        (lambda y, p: confidence_interval(y, p, n_bins=2, resamples=9), "at least resamples=39"),
        (
            lambda y, p: confidence_interval(y, p, n_bins=5, sample_weight=np.eye(2, 12).sum(axis=0)),
            "at least three rows with weight",
        ),
    ],
)
def test_bad_input_gets_one_clear_error(call, words):
    y, p = rows_of(3, 12, 0)
    with pytest.raises((ValueError, TypeError), match=words):
        call(y, p)
