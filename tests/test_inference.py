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
from truecal.errors import get_error
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
from truecal.inference.bands import poisson_binomial
from truecal.inference.frozen import frozen_pieces
from truecal.inference.null import calibrated_world, draw_labels, simulate
from truecal.table import resolve_ties

TIED = np.array([0.2, 0.5, 0.5, 0.5, 0.7, 0.7, 0.7, 0.7, 0.7, 0.1, 0.9, 0.9, 0.33])
SPREAD = np.array([0.05, 0.11, 0.23, 0.31, 0.42, 0.44, 0.58, 0.63, 0.71, 0.79, 0.83, 0.94])


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


def parts_of(pieces, losses, w, keep) -> tuple[float, float]:
    """Loss and mean over pairs θ of the rows in `keep`, by plain sums with the G of the whole sample."""
    pair_sum = 0.0
    for g, r in pieces:
        inner = (r * w[:, None]) @ (r * w[:, None]).T * g
        inner = inner[np.ix_(keep, keep)]
        pair_sum += inner.sum() - np.trace(inner)
    mass = w[keep].sum() ** 2 - (w[keep] ** 2).sum()
    return float((w[keep] ** 2 @ losses[keep]) / (w[keep] ** 2).sum()), pair_sum / mass


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
    (piece,) = frozen_pieces(sample, rule, resolve_ties(rule, "l2"))
    r = rng.normal(size=(3, n))
    s = rng.random(n)
    group = np.arange(n) % 4
    for c, m in enumerate(counts(rule)):
        g = scalar_chance(reports, rule, m)
        off = g - np.diag(np.diag(g))
        assert np.diag(g) == pytest.approx(1.0)
        np.testing.assert_allclose(piece.form.pairs(r)[c], [v @ off @ v for v in r], atol=1e-12)
        np.testing.assert_allclose(piece.form.influence(r)[c], [v * (off @ v) for v in r], atol=1e-12)
        np.testing.assert_allclose(piece.form.pairs_of_squares(s)[c], s @ off**2 @ s, atol=1e-12)
        inside = [sum(v[group == a] @ off[np.ix_(group == a, group == a)] @ v[group == a] for v in r) for a in range(4)]
        np.testing.assert_allclose(piece.form.within(r, group, 4)[c], inside, atol=1e-12)


@pytest.mark.parametrize("rule", VECTOR_RULES, ids=repr)
def test_vector_forms_are_the_matrix_G(rule):
    y, p = rows_of(3, 14, 2)
    sample = tc.Full().read(y, p)
    pieces = list(frozen_pieces(sample, rule, resolve_ties(rule, "l2")))
    r = np.random.default_rng(0).normal(size=(3, 14))
    for c, m in enumerate(counts(rule)):
        g = vector_chance(p, rule, m)
        off = g - np.diag(np.diag(g))
        pairs = sum(piece.weight * piece.form.pairs(r)[c] for piece in pieces)
        np.testing.assert_allclose(pairs, [v @ off @ v for v in r], atol=1e-12)
        influence = sum(piece.weight * piece.form.influence(r)[c] for piece in pieces)
        np.testing.assert_allclose(influence, [v * (off @ v) for v in r], atol=1e-12)


def test_tie_orders_listed_one_by_one_give_the_same_G():
    """The formula for divided blocks against every order of the rows, so that it does not rest on itself."""
    reports = [0.3, 0.5, 0.5, 0.5, 0.8, 0.8]
    sample = tc.Binary().read([0, 1] * 3, reports)
    for m in (2, 3, 4, 5):
        g = np.array([[float(x) for x in row] for row in reference.quantile_average_by_orders(reports, m)])
        (piece,) = frozen_pieces(sample, tc.Quantile(m), "average")
        for i, j in product(range(6), repeat=2):
            if i != j:
                r = np.zeros((1, 6))
                r[0, [i, j]] = 1.0
                assert piece.form.pairs(r)[0, 0] == pytest.approx(2 * g[i, j], abs=1e-12)


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
        found = confidence_interval(y, p, error=error, what=what, resamples=19, sampler=sampler, sample_weight=w)
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
    world = calibrated_world(error, error.read(y, p, sample_weight=w), p, None)
    drawn = simulate(world, 6, seed=3).drawn
    outcomes = world.draw(np.random.default_rng(3), 6)
    for values, outcome in zip(drawn, outcomes, strict=True):
        if isinstance(error.property, tc.Confidence):
            top = p.argmax(axis=1)
            outcome = np.where(outcome, top, (top + 1) % 4)
        sample = error.read(outcome.astype(int), p, sample_weight=w)
        expected = error.of(sample) if error.norm == "l1" else error.split(sample)[2]
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
    world = calibrated_world(error, error.read(y, p, sample_weight=w), p, None)
    drawn = simulate(world, 4, seed=3).drawn
    for values, outcome in zip(drawn, world.draw(np.random.default_rng(3), 4), strict=True):
        top = p.argmax(axis=1)
        labels = np.where(outcome, top, (top + 1) % 4) if isinstance(prop, tc.Confidence) else outcome
        expected = error.split(error.read(labels, p, sample_weight=w))[2]
        np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("phi", [[0.0, 1.0, 3.0, -1.0], [[0, 1], [1, 1], [2, 0], [0, 0]]], ids=["scalar", "vector"])
def test_linear_properties_draw_whole_labels(phi):
    y, p = rows_of(4, 30, 5)
    rule = tc.KdTree(4) if np.ndim(phi) == 2 else tc.Quantile(4)
    error = tc.CalibrationError(tc.Linear(phi), rule)
    world = calibrated_world(error, error.read(y, p), p, None)
    drawn = simulate(world, 5, seed=1).drawn
    labels = draw_labels(np.random.default_rng(1), p, 5)
    expected = [error.split(error.read(label, p))[2] for label in labels]
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
    loss, theta = parts_of(pieces, losses, w, everything)
    scale = (w.sum() ** 2 - (w**2).sum()) / (w**2).sum()
    without = [parts_of(pieces, losses, w, everything[groups != g]) for g in np.unique(groups)]
    a = np.array([x for x, _ in without])
    u = np.array([x * scale for _, x in without])
    units = len(without)

    def se(values):
        return np.sqrt((units - 1) / units * ((values - values.mean()) ** 2).sum())

    return {"loss": (loss, se(a)), "U": (theta * scale, se(u)), "score": (loss + theta * scale, se(a + u))}


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
    for what in ("loss", "U", "score"):
        found = confidence_interval(
            y,
            p,
            error=error,
            what=what,
            sample_weight=w if weighted else None,
            groups=groups if clustered else None,
            resamples=9,
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
    """κ = n⁻¹ Σ_{i≠j} G² r² r² / Σ r², by hand for one view."""
    y = (np.random.default_rng(0).random(len(TIED)) < TIED).astype(int)
    ci = confidence_interval(y, TIED, error="binary", n_bins=5)
    g = scalar_chance(TIED, tc.Quantile(5), 5)
    np.fill_diagonal(g, 0.0)
    r2 = (TIED - y) ** 2
    kappa = r2 @ g**2 @ r2 / r2.sum() / len(y)
    t = stats.t.ppf(0.975, len(y) - 1)
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
        thetas.append(np.array([17 * parts_of(pieces, losses, np.ones(18), rows)[1] for rows in keep]))
    d = thetas[0] - thetas[1]
    assert found.U.se == pytest.approx(np.sqrt((len(d) - 1) / len(d) * ((d - d.mean()) ** 2).sum()))


def test_a_predictor_does_not_differ_from_itself():
    y, a, _ = pair_of_predictors()
    found = paired_difference(y, a, a)
    assert (found.loss.estimate, found.U.estimate, found.loss.pvalue, found.U.pvalue) == (0.0, 0.0, 1.0, 1.0)
    assert "no difference in loss" in repr(found) and "no difference in calibration" in repr(found)


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


# -- results and bad input --------------------------------------------------------------------------------------------


def test_results_are_plain_numbers_and_escaped_text():
    y, p = rows_of(3, 40, 0)
    results = [
        calibration_test(y, p, n_bins=(3, 5), resamples=9),
        confidence_interval(y, p),
        confidence_interval(y, p, error="confidence_l1", resamples=9),
        paired_difference(y, p, p, names=("<a>", "b")),
        noise_of_U(y, p, n_bins=(3, 5), resamples=9),
        null_band(y, p, resamples=9),
        consistency_bands(y, p, resamples=9),
        mean_gap(y, p),
    ]
    for result in results:
        assert json.loads(json.dumps(result.to_dict()))
        assert result._repr_html_().startswith("<pre>") and "<a>" not in result._repr_html_()


def test_same_seed_same_answer_other_seed_other_draws():
    y, p = rows_of(3, 40, 0)
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
    ],
)
def test_bad_input_gets_one_clear_error(call, words):
    y, p = rows_of(3, 12, 0)
    with pytest.raises((ValueError, TypeError), match=words):
        call(y, p)
