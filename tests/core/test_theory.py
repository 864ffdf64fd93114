"""The theorems of the paper as executed laws: exact sums over all outcomes, and simulation only for the limits."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import truecal
from truecal.baselines import BASELINES
from worlds import (
    SCALAR_RULES,
    bounded,
    expected,
    in_classes,
    is_multiclass,
    over_all_outcomes,
    variants,
    worlds_and_lies,
)

pytestmark = pytest.mark.slow

tc: Any = truecal  # what a test hands in need not be of the right type

TRUTHFUL = [(name, in_classes(bounded(metric))) for name, metric in variants(classes=3) if metric.truthful]
TRUTHFUL_BASELINES = [
    *((name, metric) for name, metric in BASELINES.items() if metric.truthful),
    ("skce-fixed", BASELINES["skce"].with_options(bandwidth=0.3)),
    ("mmce_corrected-narrow", BASELINES["mmce_corrected"].with_options(theta=0.05)),
]
NO_EXPECTATION = ("cox_slope", "cox_intercept")  # infinite in most worlds: see tests/baselines/test_classical.py
UNTRUTHFUL = [name for name, metric in tc.ERRORS.items() if not metric.truthful and name not in NO_EXPECTATION]
TINY = 1e-13


# -- 1. truthfulness and the bias-variance identity --------------------------------------------------------------------


@pytest.mark.heavy
@over_all_outcomes(TRUTHFUL + TRUTHFUL_BASELINES)
def test_no_misreport_beats_the_truth(metric):
    assert metric.truthful
    for truth, lies in worlds_and_lies(metric):
        honest = expected(metric, truth, truth)
        for lie in lies:
            assert expected(metric, truth, lie) >= honest - TINY


@pytest.mark.parametrize("name", UNTRUTHFUL)
def test_some_misreport_beats_the_truth_where_an_error_is_marked_untruthful(name):
    metric = in_classes(bounded(tc.ERRORS[name]))
    assert any(
        expected(metric, truth, truth) - expected(metric, truth, lie) > 1e-3
        for truth, lies in worlds_and_lies(metric)
        for lie in lies
    )


def test_pooling_fools_the_usual_error_by_the_stated_amount():
    truth = np.array([0.1, 0.1, 0.9, 0.9])
    metric = tc.CalibrationError(tc.Binary(), tc.EqualWidth(15), norm="l1")
    assert round(expected(metric, truth, truth), 4) == 0.1620
    assert round(expected(metric, truth, np.full(4, 0.5)), 4) == 0.0819


SEVERAL_VIEWS = (
    tc.Classwise,
    tc.properties.Cumulative,
    tc.properties.Labelwise,
    tc.properties.Distribution,
    tc.properties.Survival,
)


def views_of(metric, truth, reports) -> tuple:
    """(n, views): the reports, and the means of outcomes and of their squares under the truth."""
    n, k = truth.shape
    samples = [metric.read(np.full(n, r), reports) for r in range(k)]
    values = np.stack([sample.outcome(slice(0, sample.views)).T for sample in samples])
    chances = truth.T[:, :, None]
    return samples[0].reports, (chances * values).sum(axis=0), (chances * values**2).sum(axis=0)


def mean_part(metric, truth, reports) -> float:
    """The error when every outcome is replaced by its expectation: the bias term n⁻² Σ G <b_i, b_j>."""
    outcomes = type(tc.ERRORS["linear"].property)
    if isinstance(metric.property, tc.Confidence):
        top = reports.argmax(axis=1)
        rows = np.arange(len(top))
        scalar = tc.CalibrationError(outcomes((0.0, 1.0)), metric.binning)
        return scalar(truth[rows, top], reports[rows, top])
    if isinstance(metric.property, tc.Linear):
        phi = metric.property.phi
        own = metric.read(np.zeros(len(truth), dtype=int), reports).reports
        return tc.CalibrationError(outcomes((0.0, 1.0)), metric.binning)(truth @ phi, own)
    if isinstance(metric.property, SEVERAL_VIEWS):
        scalar = tc.CalibrationError(outcomes((0.0, 1.0)), metric.binning)
        own, mean, _ = views_of(metric, truth, reports)
        return float(np.mean([scalar(mean[:, r], own[:, r]) for r in range(own.shape[1])]))
    return tc.CalibrationError(outcomes((0.0, 1.0)), metric.binning)(truth, reports)


def variance_part(metric, truth, reports) -> float:
    """n⁻² Σ E|φ(y_i) − μ_i|², which no report can change; for confidence n⁻² Σ (1 − q_i²), q_i of the reported top."""
    n = len(truth)
    if isinstance(metric.property, tc.Confidence):
        q = truth[np.arange(n), reports.argmax(axis=1)]
        return float((1 - q**2).sum() / n**2)
    if isinstance(metric.property, tc.TopLabel):
        return float((truth * (1 - truth) + (1 - truth)).sum() / n**2)
    if isinstance(metric.property, tc.Linear):
        phi = metric.property.phi.reshape(truth.shape[1], -1)
        return float((truth @ phi**2 - (truth @ phi) ** 2).sum() / n**2)
    if isinstance(metric.property, SEVERAL_VIEWS):
        _, mean, second = views_of(metric, truth, reports)
        return float((second - mean**2).mean(axis=1).sum() / n**2)
    return float((truth * (1 - truth)).sum() / n**2)


IDENTITY = [(i, m) for i, m in TRUTHFUL if "argmax" not in i]


@over_all_outcomes(IDENTITY)
def test_expected_error_is_bias_squared_plus_a_variance_no_report_moves(metric):
    for truth, lies in worlds_and_lies(metric)[:4]:
        for reports in (truth, *lies[:6]):
            parts = mean_part(metric, truth, reports) + variance_part(metric, truth, reports)
            assert expected(metric, truth, reports) == pytest.approx(parts, rel=1e-10, abs=1e-15)


def factor_of_nonempty_bins(y, u) -> float:
    """A known offender: the squared error times the number of bins that are not empty."""
    table = tc.CalibrationError(tc.Binary(), tc.EqualWidth(4)).tables(y, u)[0]
    return float(table.moments.squared * (table.count > 0).sum() / len(u) ** 2)


def size_normalised(y, u) -> float:
    """Another: squares divided by the size of the bin."""
    table = tc.CalibrationError(tc.Binary(), tc.EqualWidth(4)).tables(y, u)[0]
    filled = table.count > 0
    return float((table.residual[filled] ** 2 / table.count[filled]).sum() / len(u))


def debiased(y, u) -> float:
    """And the U-statistic alone."""
    metric = tc.CalibrationError(tc.Binary(), tc.Quantile(2))
    return float(metric.decompose(y, u).U)


def root(y, u) -> float:
    return float(tc.binary_error(y, u, n_bins=2) ** 0.5)


@pytest.mark.parametrize("offender", [factor_of_nonempty_bins, size_normalised, debiased, root])
def test_the_enumeration_convicts_known_offenders(offender):
    gains = []
    for truth, lies in worlds_and_lies(tc.ERRORS["binary"]):
        gains += [expected(offender, truth, truth) - expected(offender, truth, lie) for lie in lies]
    assert max(gains) > 1e-6


def test_sorting_pairs_of_report_and_label_is_not_truthful_and_averaging_ties_is():
    """Four reports of 1/2, two bins: an order that looks at labels scores truth .09375, a jitter .0625."""

    def sorts_labels_too(y, u):
        order = np.lexsort((y, u))
        return tc.binary_error(y[order], u[order], n_bins=2, ties="row")

    truth = np.full(4, 0.5)
    jitter = truth + 1e-6 * np.arange(4)
    assert round(expected(sorts_labels_too, truth, truth), 5) == 0.09375
    assert round(expected(sorts_labels_too, truth, jitter), 5) == 0.0625
    honest = tc.CalibrationError(tc.Binary(), tc.Quantile(2))
    assert expected(honest, truth, truth) <= expected(honest, truth, jitter) + TINY


def test_the_square_of_weights_in_the_correction_is_needed():
    """With Σ w(1−z)/W² in place of Σ w²(1−z)/W², changing the top class pays."""
    weights = np.array([100.0])
    truth = np.array([[1 / 3, 1 / 2, 1 / 6]])
    uniform = np.full((1, 3), 1 / 3)

    def linear_weights(y, p):
        plain = tc.confidence_error(y, p, n_bins=1, corrected=False, sample_weight=weights)
        z = np.asarray(y) == p.argmax(axis=1)
        return plain + float((weights * (1 - z)).sum() / weights.sum() ** 2)

    def ours(y, p):
        return tc.confidence_error(y, p, n_bins=1, sample_weight=weights)

    assert expected(linear_weights, truth, truth) > expected(linear_weights, truth, uniform) + 1e-3
    assert expected(ours, truth, truth) < expected(ours, truth, uniform)


# -- 2. the confidence counterexample and its repair -------------------------------------------------------------------


@pytest.mark.parametrize("k", [3, 4, 5])
def test_confidence_without_correction_rewards_changing_the_top_class(k):
    n = 2
    truth = np.zeros((n, k))
    truth[:, 0], truth[:, 1], truth[:, 2] = 1 / k, 0.5, 0.5 - 1 / k  # ties of the uniform report go to class 0
    uniform = np.full((n, k), 1 / k)
    for rule in (tc.Quantile(1), tc.Quantile(2), tc.EqualWidth(5), tc.TwoBin()):
        plain = tc.CalibrationError(tc.Confidence(), rule, corrected=False)
        assert expected(plain, truth, truth) == pytest.approx(1 / (4 * n), rel=1e-12)
        assert expected(plain, truth, uniform) == pytest.approx((1 / k) * (1 - 1 / k) / n, rel=1e-12)
        assert expected(plain, truth, uniform) < expected(plain, truth, truth)
        fixed = tc.CalibrationError(tc.Confidence(), rule)
        assert expected(fixed, truth, truth) < expected(fixed, truth, uniform)


def test_confidence_without_correction_is_truthful_for_two_classes():
    plain = tc.CalibrationError(tc.Confidence(), tc.Quantile(2), corrected=False)
    for p in ((0.5, 0.6, 0.9), (0.2, 0.2, 0.7)):
        truth = np.stack([1 - np.array(p), p], axis=1)
        rng = np.random.default_rng(0)
        for _ in range(25):
            assert expected(plain, truth, truth) <= expected(plain, truth, rng.dirichlet([1, 1], 3)) + TINY


# -- 3 to 6. predictors on a finite space, samples drawn from it -------------------------------------------------------


class Space:
    """A few situations with chances and label distributions; a predictor reports a row of the simplex in each."""

    def __init__(self, seed: int, situations: int = 3, k: int = 3):
        rng = np.random.default_rng(seed)
        self.chance = rng.dirichlet([2] * situations)
        self.truth = rng.dirichlet([0.8] * k, situations)
        self.k = k

    def expected(self, metric, reports, n: int = 2) -> float:
        """E of the metric over n independent draws of (situation, label)."""
        total = 0.0
        for situations in product(range(len(self.chance)), repeat=n):
            x = np.array(situations)
            total += np.prod(self.chance[x]) * expected(metric, self.truth[x], reports[x])
        return total

    def expected_loss(self, loss, reports) -> float:
        return sum(
            self.chance[x] * self.truth[x, y] * loss([y], reports[x : x + 1])
            for x, y in product(range(len(self.chance)), range(self.k))
        )

    def posterior(self, reports) -> np.ndarray:
        """The distribution of the label given the report: canonical recalibration."""
        out = np.empty_like(self.truth)
        for x in range(len(self.chance)):
            same = (reports == reports[x]).all(axis=1)
            weights = self.chance * same
            out[x] = weights @ self.truth / weights.sum()
        return out


MULTICLASS = [(i, m) for i, m in TRUTHFUL if is_multiclass(m) and "quantile-many" not in i and "Linear" not in i]
PHI = np.array([0.0, 1.0, 0.4])
LINEAR = [
    (f"Linear-{name}", tc.CalibrationError(tc.Linear(PHI), rule))
    for name, rule in SCALAR_RULES.items()
    if name not in ("edges", "quantile-many")
]
LOSS_OF = {
    tc.Linear: lambda y, p: tc.losses.linear_loss(PHI[np.asarray(y)], np.asarray(p) @ PHI),
    tc.Classwise: lambda y, p: tc.brier(y, p) / np.shape(p)[1],
    tc.Full: tc.brier,
    tc.Confidence: tc.losses.confidence_loss,
    tc.properties.Cumulative: lambda y, p: tc.losses.rps(y, p) / (np.shape(p)[1] - 1),
}


@pytest.mark.heavy
@over_all_outcomes(MULTICLASS + LINEAR)
def test_a_garbling_of_a_calibrated_predictor_never_scores_lower(metric):
    """Situations 0..3 carry a coin seen by the garbled predictor only: g is a random function of f's report."""
    for seed in range(2):
        base = Space(seed, situations=2)
        rng = np.random.default_rng(seed)
        coin = rng.random(2)
        split = Space(seed)
        split.chance = np.concatenate([base.chance * coin, base.chance * (1 - coin)])
        split.truth = np.concatenate([base.truth, base.truth])
        f = split.truth
        for g in (split.posterior(f[[0, 0, 1, 1]]), rng.dirichlet([1] * 3, 4), f[[0, 1, 0, 0]]):
            assert split.expected(metric, f) <= split.expected(metric, g) + TINY


@over_all_outcomes([(i, m) for i, m in MULTICLASS + LINEAR if not isinstance(m.property, tc.Confidence)])
def test_canonical_recalibration_never_raises_the_expected_error(metric):
    for seed in range(2):
        space = Space(seed)
        rng = np.random.default_rng(seed + 100)
        h = rng.dirichlet([1] * 3, 3)
        h[1] = h[0]  # two situations with one report
        assert space.expected(metric, space.posterior(h)) <= space.expected(metric, h) + TINY


@over_all_outcomes(MULTICLASS + LINEAR)
def test_calibrated_predictors_score_the_associated_loss(metric):
    loss = LOSS_OF[type(metric.property)]
    for seed in range(2):
        space = Space(seed)
        for h in (space.truth, space.posterior(np.array([[1.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0]]))):
            assert 2 * space.expected(metric, h) == pytest.approx(space.expected_loss(loss, h), rel=1e-10)


def test_matching_calibration_is_enough_for_the_loss_identity():
    """Confidence-calibrated, not fully calibrated: the confidence identity holds, the full one does not."""
    space = Space(0)
    space.chance = np.array([0.25, 0.25, 0.5])
    space.truth = np.array([[0.6, 0.4, 0.0], [0.6, 0.0, 0.4], [0.2, 0.2, 0.6]])
    h = np.array([[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [0.35, 0.05, 0.6]])
    conf = tc.CalibrationError(tc.Confidence(), tc.Quantile(2))
    assert 2 * space.expected(conf, h) == pytest.approx(space.expected_loss(tc.losses.confidence_loss, h), rel=1e-10)
    full = tc.CalibrationError(tc.Full(), tc.rules.Exact())
    assert 2 * space.expected(full, h) > space.expected_loss(tc.brier, h) + 1e-3


def test_a_predictor_that_is_only_classwise_calibrated_can_lose_to_its_garbling():
    """Blackwell's order needs full calibration: f is calibrated class by class, and a garbling of it beats it."""
    orders = list(permutations(range(3)))
    sign = np.array([np.linalg.det(np.eye(3)[list(order)]) for order in orders])
    f = np.array([[0.6, 0.3, 0.1]])[:, orders].reshape(6, 3)
    space = Space(0)
    space.chance = np.full(6, 1 / 6)
    space.truth = f + sign[:, None] * np.array([0.05, -0.05, 0.0])
    for r in range(3):
        for value in (0.1, 0.3, 0.6):
            assert space.truth[f[:, r] == value, r].mean() == pytest.approx(value)
    garbled = space.posterior(f)  # a function of f's report, made without a label
    full = tc.CalibrationError(tc.Full(), tc.rules.Exact())
    assert space.expected(full, garbled) < space.expected(full, f) - 1e-4
    classwise = tc.CalibrationError(tc.Classwise(), tc.rules.Exact())
    assert 2 * space.expected(classwise, f) == pytest.approx(space.expected_loss(tc.brier, f) / 3, rel=1e-10)


@pytest.mark.heavy
@over_all_outcomes(MULTICLASS)
def test_small_bias_against_the_loss_gap_keeps_the_order(metric):
    loss = LOSS_OF[type(metric.property)]
    held = 0
    for seed in range(4):
        space = Space(seed)
        rng = np.random.default_rng(seed + 50)
        near = 0.97 * space.truth + 0.03 * rng.dirichlet([1] * 3, 3)
        coarse = np.tile(rng.dirichlet([1] * 3), (3, 1))
        scores, risks, biases = [], [], []
        for h in (near, coarse):
            scores.append(space.expected(metric, h))
            posterior = space.posterior(h)
            if isinstance(metric.property, tc.Classwise):  # each class conditions on its own coordinate
                risks.append(classwise_risk(space, h))
            else:
                risks.append(space.expected_loss(loss, posterior))
            biases.append(2 * scores[-1] - risks[-1])
            assert biases[-1] >= -TINY
        for a, b in ((0, 1), (1, 0)):
            if risks[a] + biases[a] <= risks[b]:
                held += 1
                assert scores[a] <= scores[b] + TINY
    assert held >= 3


def classwise_risk(space: Space, h: np.ndarray) -> float:
    total = 0.0
    for r in range(space.k):
        for x in range(len(space.chance)):
            weights = space.chance * (h[:, r] == h[x, r])
            q = float(weights @ space.truth[:, r] / weights.sum())
            total += space.chance[x] * (space.truth[x, r] * (q - 1) ** 2 + (1 - space.truth[x, r]) * q**2)
    return total / space.k


# -- 7. limits, by simulation ------------------------------------------------------------------------------------------


def test_limits_need_the_factor_of_bins():
    """scale="bins" with m = n^(1/3): to zero if calibrated, to E gap² if not; the raw error vanishes in both."""
    rng = np.random.default_rng(3)
    gap = 0.1
    calibrated, off, raw = [], [], []
    for n in (10**3, 10**4, 10**5, 10**6):
        m = int(np.ceil(n ** (1 / 3)))
        p = rng.uniform(0.1, 0.8, n)
        y = rng.random(n) < p
        calibrated.append(tc.binary_error(y, p, n_bins=m, scale="bins"))
        off.append(tc.binary_error(y, p + gap, n_bins=m, scale="bins"))
        raw.append(tc.binary_error(y, p + gap, n_bins=m))
    assert calibrated[-1] < 1e-4 < calibrated[0]
    assert off[-1] == pytest.approx(gap**2, rel=0.05)
    assert raw[0] > 5 * raw[-1] and raw[-1] < 2e-4


# -- 8. the example of the paper's introduction ------------------------------------------------------------------------


def test_the_introductory_example():
    """p_i = i/n under l1. One bin per value: truth scores a constant, 1/2 scores 1/√n; with m bins truth has √(m/n)."""
    rng = np.random.default_rng(4)

    def mean_error(n, report, repeats=200, **options):
        p = np.arange(1, n + 1) / n
        u = p if report is None else np.full(n, report)
        return np.mean([tc.binary_error(rng.random(n) < p, u, norm="l1", **options) for _ in range(repeats)])

    exact = [mean_error(n, None, strategy="exact") for n in (100, 400, 1600)]
    assert exact == pytest.approx([1 / 3] * 3, rel=0.02)  # E|p − y| = 2p(1 − p), mean 1/3
    half = [mean_error(n, 0.5, strategy="exact") for n in (100, 1600)]
    assert half[0] / half[1] == pytest.approx(4, rel=0.35) and half[0] < 0.06
    with_bins = [mean_error(n, None, n_bins=16, strategy="uniform") for n in (100, 1600)]
    assert with_bins[0] / with_bins[1] == pytest.approx(4, rel=0.15)
    fine = mean_error(1600, None, n_bins=64, strategy="uniform")
    assert fine / with_bins[1] == pytest.approx(2, rel=0.15)
