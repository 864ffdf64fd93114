"""Ordered classes, several labels and distributions of a number against loops, and what their readers take."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

import reference as ref
import truecal
from closeness import assert_close
from worlds import label_table

tc: Any = truecal  # what a test hands in need not be of the right type


def by_loops(views, reports, m: int, weights: Any = None) -> float:
    """The (weighted) mean over views of the squared error of quantile bins, ties averaged."""
    found = [ref.l2(ref.quantile_average(u.tolist(), m), r) for u, r in zip(reports, views, strict=True)]
    weights = [1] * len(found) if weights is None else weights
    return float(sum(w * x for w, x in zip(weights, found, strict=True)) / sum(weights))


# -- ordered classes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 3, 20])
def test_the_ordinal_error_is_the_mean_over_thresholds(m, rng):
    p = rng.multinomial(8, [0.25] * 4, 15) / 8
    y = rng.integers(0, 4, 15)
    views = [ref.cumulative_residuals(y, p, j) for j in range(3)]
    reports = [np.minimum(p.cumsum(axis=1)[:, j], 1.0) for j in range(3)]
    assert_close(tc.ordinal_error(y, p, n_bins=m), by_loops(views, reports, m))


def test_rps_is_the_sum_over_thresholds_and_the_loss_of_the_score(rng):
    p, y = rng.dirichlet([1.0] * 5, 60), rng.integers(0, 5, 60)
    assert_close(tc.losses.rps(y, p), np.mean(ref.rps(y, p)))
    assert_close(tc.losses.rps.by_label(p)[np.arange(60), y], tc.losses.rps(y, p, per_example=True))
    parts = tc.decompose(y, p, error="ordinal", n_bins=5)
    views = [(p.cumsum(axis=1)[:, j], y <= j) for j in range(4)]
    assert_close(parts.score, tc.losses.rps(y, p) + sum(ref.gap_over_cuts(told, told - came) for told, came in views))


def test_two_ordered_classes_are_the_binary_error(rng):
    u = rng.random(40)
    y = (rng.random(40) < u).astype(int)
    both = np.column_stack([1 - u, u])
    assert_close(tc.ordinal_error(y, both, n_bins=4), tc.binary_error(1 - y, 1 - u, n_bins=4))
    assert tc.evaluate(y, both, task="ordered", n_resamples=99).kind == "ordered"


def test_shares_of_ordered_labels_are_their_means(rng):
    p, shares = rng.dirichlet([1.0] * 3, 30), rng.dirichlet([1.0] * 3, 30)
    below = [(p.cumsum(axis=1)[:, j], shares.cumsum(axis=1)[:, j]) for j in range(2)]
    expected = np.mean([tc.linear_error(came, told, n_bins=3) for told, came in below])
    assert_close(tc.ordinal_error(shares, p, n_bins=3), expected)


def test_the_place_on_the_scale_has_the_variance_of_its_distribution(rng):
    p = rng.dirichlet([1.0] * 4, 6)
    sample = tc.ERRORS["ordinal"].property.direction_property().sample(np.zeros(6, dtype=int), p)
    places = np.arange(4) / 3
    assert_close(sample.reports, p @ places)
    assert_close(sample.variance, p @ places**2 - (p @ places) ** 2)


# -- several labels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 3, 20])
def test_the_labelwise_error_is_the_mean_over_labels(m, rng):
    y, p = label_table(rng, 15, 3, tied=True)
    views = [ref.label_residuals(y, p, r) for r in range(3)]
    assert_close(tc.labelwise_error(y, p, n_bins=m), by_loops(views, p.T, m))
    added = np.mean([ref.gap_over_cuts(u, u - came) for u, came in zip(p.T, y.T, strict=True)])
    assert_close(tc.score(y, p, error="labelwise"), np.mean((p - y) ** 2) + added)


def test_every_form_of_labels_says_the_same(rng):
    y, p = label_table(rng, 30, 4, tied=False)
    value = tc.labelwise_error(y, p)
    names = np.array(["ant", "bee", "cat", "dog"])
    rows = [np.flatnonzero(row) for row in y]
    for given in (y.astype(bool), y.tolist(), sparse.csr_matrix(y), [set(row.tolist()) for row in rows], rows):
        assert_close(tc.labelwise_error(given, p), value)
    assert_close(tc.labelwise_error([tuple(names[row]) for row in rows], p, labels=names), value)
    assert_close(tc.labelwise_error(y, [np.column_stack([1 - u, u]) for u in p.T]), value)
    assert_close(tc.labelwise_error(y.astype(float), p), value)


def test_labels_that_apply_in_part_keep_their_share(rng):
    _, p = label_table(rng, 30, 2, tied=False)
    shares = rng.random((30, 2))
    expected = np.mean([tc.linear_error(shares[:, r], p[:, r], n_bins=3) for r in range(2)])
    assert_close(tc.labelwise_error(shares, p, n_bins=3), expected)


@pytest.mark.parametrize(
    ("y", "p", "words"),
    [
        ([[1, 0]], [[0.5, 1.5]], r"y_proba must lie in \[0, 1\], got 1.5 at row 0, column 1"),
        ([[1, 0]], [[0.5, -3.0]], "logits passed through a sigmoid"),
        ([[1, 2]], [[0.5, 0.5]], "row 0 has the label 2; expected column indices 0..1"),
        (np.array([[1, 2]]), [[0.5, 0.5]], r"y_true must lie in \[0, 1\]"),
        ([[1, 0, 1]], [[0.5, 0.5]], "row 0 has the label 1 twice"),
        (np.array([[1, 0, 1]]), [[0.5, 0.5]], "expected a 0/1 table"),
        ([{0, 5}], [[0.5, 0.5]], "row 0 has the label 5; expected column indices 0..1"),
        ([[1, 0], [0, 1]], [[0.5, 0.5]], "numbers of rows disagree"),
        ([1, 0], [[0.5, 0.5], [0.1, 0.2]], "expected a 0/1 table with a column per label"),
        ([[1, 0]], [np.array([[0.5, 0.5]]), np.array([[1.0]])], r"y_proba\[1\] has 1 column"),
    ],
)
def test_label_tables_that_cannot_be_read_say_why(y, p, words):
    with pytest.raises(ValueError, match=words):
        tc.labelwise_error(y, p)


# -- distributions of a number -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [np.array([-1.0, 0.0, 1.0]), np.array([-1.0, 0.0, 0.5])])
def test_the_distribution_error_is_the_mean_over_thresholds_by_their_widths(at, rng):
    mean, sd, y = rng.standard_normal(20), rng.uniform(0.5, 2, 20), rng.standard_normal(20)
    u = stats.norm.cdf(at[None], mean[:, None], sd[:, None])
    views = [[[ref.F(float(a)) - int(b <= t)] for a, b in zip(u[:, j], y, strict=True)] for j, t in enumerate(at)]
    forecast = tc.forecasts.normal(mean, sd)
    expected = by_loops(views, forecast.at(at).T, 4, ref.widths(at))
    assert_close(tc.distribution_error(y, forecast, thresholds=at, n_bins=4), expected)


def test_the_score_is_crps_and_gaps_by_their_widths(rng):
    """Σ_t Δt [mean (F(t) − 1[y ≤ t])² + the gap of its cuts], by loops over thresholds; gap² is the weighted mean."""
    at, n = np.array([-2.0, -0.5, 0.0, 0.25, 3.0]), 60
    mean, sd, y = rng.standard_normal(n), rng.uniform(0.5, 2, n), rng.standard_normal(n)
    forecast, dt = tc.forecasts.normal(mean, sd), [float(w) for w in ref.widths(at)]
    u = forecast.at(at)
    each = [tc.decompose((y <= t).astype(int), u[:, j], error="binary", n_bins=6) for j, t in enumerate(at)]
    gaps = [float(np.sign(part.gap) * (part.gap / 100) ** 2) for part in each]
    metric = tc.CalibrationError(tc.properties.Distribution(at), tc.Quantile(6))
    found = metric.decompose(y, forecast)
    crps = sum(w * float(np.mean((u[:, j] - (y <= t)) ** 2)) for j, (w, t) in enumerate(zip(dt, at, strict=True)))
    added = [ref.gap_over_cuts(u[:, j], u[:, j] - (y <= t)) for j, t in enumerate(at)]
    assert_close(found.score, crps + float(np.dot(dt, added)))
    assert_close(np.sign(found.gap) * (found.gap / 100) ** 2, np.average(gaps, weights=dt))
    assert_close(found.loss + found.U, n * found.error)
    whole = tc.evaluate(y, forecast, thresholds=at, n_resamples=99, n_bins=6)
    assert_close(whole.score, found.score)
    assert_close(whole.gap.points, found.gap)
    assert_close(next(loss.value for loss in whole.losses if loss.name == "crps"), crps)


def test_weights_of_thresholds_do_not_depend_on_how_the_grid_is_cut(rng):
    """A threshold in the middle of a wide step changes the quadrature, not its total width."""
    dense, sparse = (tc.properties.Distribution(at) for at in (np.arange(9.0), [0, 1, 2, 3, 5, 8]))
    assert_close(dense.widths.sum(), 9.0)
    assert_close(sparse.widths.tolist(), [1.0, 1.0, 1.0, 1.5, 2.5, 3.0])
    assert dense.shares is None and abs(sparse.shares.mean() - 1) < 1e-12
    assert tc.properties.Distribution([2.0]).widths.tolist() == [1.0]


def test_an_outcome_on_a_threshold_is_at_most_that(rng):
    error = tc.distribution_error([1.0], [[0.3, 0.6]], thresholds=[1.0, 2.0], n_bins=1)
    assert_close(error, (0.7**2 + 0.4**2) / 2)


def mean_loss(property, y, forecast) -> float:
    """The loss in the score, in its units."""
    sample = property.read(y, forecast)
    return float(property.score_unit(sample.views) * sample.loss().mean())


def test_crps_is_reached_as_the_steps_get_smaller(rng):
    members, y = rng.standard_normal((25, 7)), rng.standard_normal(25)
    exact = np.mean([ref.crps_of_members(a, row) for a, row in zip(y, members, strict=True)])
    forecast = tc.forecasts.ensemble(members)
    found = []
    for steps in (50, 400, 3200):
        at = -6 + 12 * (np.arange(steps) + 0.5) / steps
        found.append(abs(mean_loss(tc.properties.Distribution(at), y, forecast) - exact))
    assert found[2] < 1e-3 < 0.02 and found[2] < found[0]
    mean, sd = rng.standard_normal(25), rng.uniform(0.5, 2, 25)
    z = (y - mean) / sd
    # Gneiting, Raftery, Westveld and Goldman 2005
    closed = sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    at = np.linspace(-12, 12, 2401)
    loss = mean_loss(tc.properties.Distribution(at), y, tc.forecasts.normal(mean, sd))
    assert loss == pytest.approx(closed.mean(), abs=2e-3)
    uneven = np.sinh(np.linspace(-3.2, 3.2, 2401))  # dense in the middle, steps up to 13 times as wide outside
    loss = mean_loss(tc.properties.Distribution(uneven), y, tc.forecasts.normal(mean, sd))
    assert loss == pytest.approx(closed.mean(), abs=2e-3)


@pytest.mark.heavy  # it compiles
@pytest.mark.parametrize("uneven", [False, True])
def test_crps_agrees_with_scoringrules(rng, uneven):
    scoringrules = pytest.importorskip("scoringrules")
    mean, sd, y = rng.standard_normal(30), rng.uniform(0.5, 2, 30), rng.standard_normal(30)
    at = np.sinh(np.linspace(-3.2, 3.2, 4001)) if uneven else np.linspace(-12, 12, 4001)
    property = tc.properties.Distribution(at)
    theirs = scoringrules.crps_normal(y, mean, sd).mean()
    assert mean_loss(property, y, tc.forecasts.normal(mean, sd)) == pytest.approx(theirs, abs=1e-3)
    members = mean[:, None] + sd[:, None] * rng.standard_normal((30, 9))
    theirs = scoringrules.crps_ensemble(y, members, estimator="nrg").mean()
    assert mean_loss(property, y, tc.forecasts.ensemble(members)) == pytest.approx(theirs, abs=5e-3)


@pytest.mark.heavy
def test_rps_agrees_with_scoringrules(rng):
    scoringrules = pytest.importorskip("scoringrules")
    p, y = rng.dirichlet([1.0] * 5, 40), rng.integers(0, 5, 40)
    assert_close(tc.losses.rps(y, p), float(np.mean(scoringrules.rps_score(y + 1, p))))


def test_every_form_of_a_forecast_is_its_distribution_function(rng):
    mean, sd, at = rng.standard_normal(8), rng.uniform(0.5, 2, 8), np.linspace(-2, 2, 9)
    expected = stats.norm.cdf(at[None], mean[:, None], sd[:, None])
    y = rng.standard_normal(8)
    value = tc.distribution_error(y, expected, thresholds=at, n_bins=2)
    wide = np.linspace(-9, 9, 2001)
    levels = np.linspace(0.0005, 0.9995, 999)
    forms = {
        "normal": tc.forecasts.normal(mean, sd),
        "scipy": stats.norm(mean, sd),
        "column": stats.norm(mean[:, None], sd[:, None]),
        "list": [stats.norm(a, b) for a, b in zip(mean, sd, strict=True)],
        "cdf": tc.forecasts.cdf(stats.norm.cdf(wide[None], mean[:, None], sd[:, None]), wide),
        "quantiles": tc.forecasts.quantiles(stats.norm.ppf(levels[None], mean[:, None], sd[:, None]), levels),
    }
    for name, forecast in forms.items():
        assert tc.distribution_error(y, forecast, thresholds=at, n_bins=2) == pytest.approx(value, rel=1e-3), name


def test_quantiles_are_joined_as_by_loops(rng):
    values = np.sort(rng.integers(0, 4, (12, 5)).astype(float), axis=1)
    levels = [0.1, 0.3, 0.5, 0.8, 0.9]
    at = np.array([-1.0, 0.0, 0.5, 1.0, 2.5, 3.0, 7.0])
    found = tc.forecasts.quantiles(values, levels).at(at)
    for (i, row), (j, t) in product(enumerate(values.tolist()), enumerate(at.tolist())):
        assert found[i, j] == pytest.approx(ref.quantile_cdf(t, row, levels))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: tc.evaluate([1.0, 2.0], tc.forecasts.normal([0, 0], [1, 1])), "thresholds must be given"),
        (lambda: tc.ERRORS["distribution"]([1.0], [[0.5]]), "moving them would pay"),
        (lambda: tc.forecasts.quantiles([[2.0, 1.0]], [0.1, 0.9]), "quantiles cross in row 0"),
        (lambda: tc.forecasts.quantiles([[1.0, 2.0]], [0.9, 0.1]), "levels must be 2 increasing numbers"),
        (lambda: tc.forecasts.normal([0.0], [-1.0]), "sd must not be negative"),
        (
            lambda: tc.distribution_error([0.0], [[0.5, 0.4]], thresholds=[0, 1]),
            "row 0 decreases",
        ),
        (lambda: tc.distribution_error([0.0], [[0.5]], thresholds=[0, 1]), "tc.forecasts.quantiles"),
        (lambda: tc.distribution_error([0.0], [[0.5, 0.6]], thresholds=[1, 0]), "thresholds must increase"),
        (lambda: tc.distribution_error([np.nan], [[0.5]], thresholds=[1]), "y_true must be finite numbers"),
    ],
)
def test_forecasts_that_cannot_be_read_say_why(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_thresholds_that_are_the_outcomes_are_refused(rng):
    y = rng.standard_normal(20)
    with pytest.raises(ValueError, match="thresholds are the outcomes themselves"):
        tc.distribution_error(y, tc.forecasts.normal(np.zeros(20), np.ones(20)), thresholds=np.unique(y))


def test_coverage_and_pit_are_gamed_and_the_score_is_not(rng):
    """Forecasts that alternate between everything and nothing cover exactly as often as they should."""
    n = 400
    mean, y = rng.standard_normal(n), np.empty(n)
    y[:] = mean + rng.standard_normal(n)
    levels = [0.25, 0.75]
    honest = tc.forecasts.quantiles(mean[:, None] + stats.norm.ppf(levels), levels)
    ends = np.where(np.arange(n)[:, None] % 2 == 0, [[-np.inf, np.inf]], [[np.inf, np.inf]])
    cheat = tc.forecasts.quantiles(ends, levels)
    assert tc.forecasts.pit(y, cheat).coverage[0.5] == 0.5
    assert not tc.forecasts.pit(y, cheat).truthful and "not scores" in repr(tc.forecasts.pit(y, cheat))
    at = np.linspace(-4, 4, 33)
    scores = [tc.distribution_error(y, each, thresholds=at, scale="score") for each in (honest, cheat)]
    assert scores[0] < scores[1] / 2


# -- peers -------------------------------------------------------------------------------------------------------------


def test_the_usual_error_of_labels_agrees_with_torchmetrics(rng):
    torchmetrics = pytest.importorskip("torchmetrics.functional.classification")
    torch = pytest.importorskip("torch")
    y, p = label_table(rng, 200, 3, tied=False)
    theirs = [
        float(torchmetrics.binary_calibration_error(torch.tensor(p[:, r]), torch.tensor(y[:, r]), n_bins=15))
        for r in range(3)
    ]
    assert tc.labelwise_error(y, p, norm="l1") == pytest.approx(np.mean(theirs), abs=1e-6)


def test_the_loss_of_labels_agrees_with_scikit_learn(rng):
    metrics = pytest.importorskip("sklearn.metrics")
    y, p = label_table(rng, 200, 3, tied=False)
    theirs = np.mean([metrics.brier_score_loss(y[:, r], p[:, r]) for r in range(3)])
    assert tc.decompose(y, p, error="labelwise").loss == pytest.approx(theirs)
