"""Do intervals, comparisons and tests keep their promises? Rates by seeded simulation, with binomial margins.

A rate that may be at most r is compared with the number of failures that a procedure of rate r exceeds once in a
thousand runs, a rate that must be at least r likewise from below. Every check names its r; seeds are fixed. Larger
tables of the same worlds are made by benchmarks/calibration.py and stored in results/conclusions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

import truecal as tc
from calibration_worlds import Cell, coverage, equal_gaps, equal_models, labels, powered, tempered
from truecal import calibration_test, paired_difference
from truecal.analysis import mean_gap
from truecal.inference.mean_losses import loss_values, mean_interval
from truecal.results.compare import compare

pytestmark = pytest.mark.heavy


def most(trials: int, rate: float) -> float:
    """The count that a Binomial(trials, rate) exceeds once in a thousand."""
    return float(stats.binom.isf(1e-3, trials, rate))


def least(trials: int, rate: float) -> float:
    """The count below which a Binomial(trials, rate) falls once in a thousand."""
    return float(stats.binom.ppf(1e-3, trials, rate))


# -- coverage of the gap ----------------------------------------------------------------------------------------------

# Every world, size and kind of rows, in pairs that change partners: calibrated and biased predictions lean on different
# terms of the interval, so each kind meets both, and both sizes.
PLAIN = [
    *[
        Cell("binary", world, n)
        for world, n in (("calibrated", 300), ("T1.35", 2000), ("shift", 300), ("S-curve", 2000))
    ],
    *[Cell("confidence", world, n, k) for world, n, k in (("calibrated", 2000, 10), ("T2", 300, 3))],
    *[Cell("classwise", world, n, 10) for world, n in (("calibrated", 300), ("T1.35", 2000))],
    *[Cell("binary", world, n, weights="lognormal") for world, n in (("calibrated", 2000), ("T1.35", 300))],
    *[Cell("binary", world, n, clusters=5) for world, n in (("calibrated", 300), ("shift", 2000))],
    *[Cell("classwise", world, 300, 3, rule=tc.TwoBin()) for world in ("calibrated", "T1.35")],
]
SHARP = [
    Cell(kind, f"sharp {world}", n, k)
    for kind, k, world, n in (
        ("binary", 2, "calibrated", 300),
        ("binary", 2, "T1.35", 2000),
        ("classwise", 3, "calibrated", 2000),
        ("classwise", 3, "T1.35", 300),
    )
]


def test_the_gap_is_held_between_93_and_98_and_a_half_percent_of_the_time():
    """Each cell at least .93 (300 samples, so .88 at the margin); all cells together between .94 and .985."""
    every = []
    for cell in PLAIN:
        found = coverage(cell, 12, 12 if cell.kind == "classwise" else 25)
        assert found.covered >= least(found.trials, 0.93), cell
        assert found.withheld <= most(found.trials, 0.01), cell
        every.append(found)
    trials, covered = sum(f.trials for f in every), sum(f.covered for f in every)
    assert least(trials, 0.94) <= covered <= most(trials, 0.985)


def test_sharp_predictions_are_withheld_or_held():
    """Few surprises: the wide interval holds the gap in at least .93, and at most .06 are wrong and not withheld."""
    for cell in SHARP:
        found = coverage(cell, 12, 12)
        assert found.covered >= least(found.trials, 0.93), cell
        assert found.wrong <= most(found.trials, 0.06), cell


def test_the_difference_of_errors_is_held():
    """D, losses and Us together, and its parts: two models off in different ways, coverage at least .93."""
    rng = np.random.default_rng(8)
    found = []
    for _ in range(250):
        z = 1.5 * rng.normal(size=(400, 2))
        y = labels(rng, softmax(z, axis=1))
        a, b = softmax(2 * z, axis=1)[:, 1], softmax(0.5 * z, axis=1)[:, 1]
        found.append(paired_difference(y, a, b, error="binary", n_bins=5))
    for name in ("loss", "gap_sq", "U", "D"):
        parts = [getattr(d, name) for d in found]
        target = np.mean([part.estimate for part in parts])
        assert sum(part.low <= target <= part.high for part in parts) >= least(250, 0.93), name


# -- who predicts better ----------------------------------------------------------------------------------------------


def leader_is_told_apart(y, models, weights=None, groups=None) -> bool:
    """Whether the verdict would call the model with the smallest loss better than some other one."""
    values = [loss_values(y, p, None, "brier").of(slice(None)).value for p in models]
    best = int(np.argmin([np.average(v, weights=weights) for v in values]))
    pairs = len(models) * (len(models) - 1) // 2
    for j, other in enumerate(models):
        if j != best:
            found = mean_interval(loss_values(y, other, models[best], "brier"), weights, groups, 0.95, pairs)
            if not found.low <= 0 <= found.high:
                return True
    return False


@pytest.mark.parametrize(
    ("n", "models", "differ", "trials"),
    [(100, 2, 1.0, 400), (300, 2, 1.0, 400), (1000, 2, 0.05, 400), (100, 20, 1.0, 60), (300, 20, 1.0, 60)],
)
def test_equal_models_are_rarely_told_apart_when_few_outcomes_surprise(n, models, differ, trials):
    """One miss in a hundred, models of exactly equal expected loss: some model is called better in at most .05."""
    rng = np.random.default_rng([n, models])
    told = sum(leader_is_told_apart(*equal_models(n, models, 0.01, rng, differ)) for _ in range(trials))
    assert told <= most(trials, 0.05)


def test_a_t_interval_would_tell_them_apart():
    """Why: the t interval of the same differences calls one of two equal models better in a quarter or more."""
    rng = np.random.default_rng(0)
    false = 0
    for _ in range(300):
        y, (a, b) = equal_models(100, 2, 0.01, rng)
        false += bool(stats.ttest_1samp(loss_values(y, a, b, "brier").of(slice(None)).value, 0.0).pvalue <= 0.05)
    assert false >= 75


@pytest.mark.parametrize(("clusters", "weighted"), [(12, False), (60, False), (0, True)])
def test_weights_and_clusters_keep_the_level(clusters, weighted):
    """Clusters of five copies, and lognormal weights, one miss in ten: equal models differ in at most .05."""
    rng = np.random.default_rng(clusters)
    told, trials = 0, 600
    for _ in range(trials):
        y, models = equal_models(clusters or 300, 2, 0.1, rng)
        w, groups = None, None
        if clusters:
            y, models = np.repeat(y, 5), [np.repeat(p, 5, axis=0) for p in models]
            groups = (np.repeat(np.arange(clusters), 5), clusters)
        if weighted:
            w = rng.lognormal(0, 1, len(y))
        told += leader_is_told_apart(y, models, w, groups)
    assert told <= most(trials, 0.05)


def test_a_better_model_is_still_found():
    """Half as noisy, three misses in ten, n = 1000: called better in at least .9."""
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(100):
        z = 1.2 * rng.normal(size=(1000, 3))
        y = labels(rng, softmax(z, axis=1))
        a, b = (softmax(z + s * rng.normal(size=z.shape), axis=1) for s in (0.4, 0.9))
        found += paired_difference(y, a, b).conclusions[0] == "a predicts better than b: smaller loss"
    assert found >= least(100, 0.9)


# -- who is closer to calibrated --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [300, 1000])
@pytest.mark.parametrize("world", ["one knows more", "one is constant", "shifts of either sign"])
def test_equal_gaps_are_rarely_called_different(world, n):
    """Both calibrated, or off by the same gap: one is called closer in at most .05."""
    rng = np.random.default_rng(n)
    trials = 200
    claims = 0
    for _ in range(trials):
        y, a, b = equal_gaps(world, n, rng)
        claims += paired_difference(y, a, b, error="binary").gap_sq.beyond_noise
    assert claims <= most(trials, 0.05)


def test_claims_of_a_comparison_are_rarely_false():
    """Two calibrated models, one the pooling of the other, all notions: a claim in at most .05 of 45 worlds."""
    claims = 0
    for seed in range(45):
        rng = np.random.default_rng(seed)
        mu = rng.choice([0.1, 0.3, 0.7, 0.9], size=300)
        y = (rng.random(300) < mu).astype(int)
        models = {"fine": mu, "coarse": np.where(mu < 0.5, 0.2, 0.8)}
        found = compare(y, models, errors=["binary", "confidence"], n_resamples=99, diagram_bins=2)
        claims += bool(found.verdict.better_calibrated)
    assert claims <= most(45, 0.05)


def test_rejections_hold_for_all_models_together():
    """Eight calibrated models on the same rows: some is rejected in at most .05 of 40 comparisons."""
    any_rejected = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        signals = rng.normal(0, 1, (8, 200))
        y = (rng.random(200) < 0.5).astype(int)
        shifted = signals + (y - 0.5)  # each model sees a signal of its own
        models = {f"m{i}": 1 / (1 + np.exp(-s)) for i, s in enumerate(shifted)}
        found = compare(y, models, errors=["binary"], n_resamples=199, diagram_bins=2)
        any_rejected += bool(found.verdict.rejected)
    assert any_rejected <= most(40, 0.05)


# -- the test ---------------------------------------------------------------------------------------------------------


def spread(rng, n):
    u = rng.beta(0.5, 0.5, n)
    return (rng.random(n) < u).astype(int), u, None


def sharp(rng, n):
    u = np.clip(rng.beta(0.02, 0.02, n), 1e-9, 1 - 1e-9)
    return (rng.random(n) < u).astype(int), u, None


def tied(rng, n):
    p = softmax(np.random.default_rng(0).normal(0, 2, (4, 3)), axis=1)[rng.integers(0, 4, n)]
    return labels(rng, p), p, None


def weighted(rng, n):
    p = softmax(rng.normal(0, 2, (n, 3)), axis=1)
    return labels(rng, p), p, rng.lognormal(0, 1, n)


@pytest.mark.parametrize("n", [30, 300])
@pytest.mark.parametrize("world", [spread, sharp, tied, weighted])
def test_the_level_of_the_test_is_exact(world, n):
    """P(p ≤ a) ≤ a at a = .05, .25 and .5; 19 draws put p on the grid 1/20, 2/20, ..."""
    rng = np.random.default_rng(n)
    trials = 300
    p = []
    for seed in range(trials):
        y, u, w = world(rng, n)
        p.append(calibration_test(y, u, sample_weight=w, n_resamples=19, seed=seed).pvalue)
    for a in (0.05, 0.25, 0.5):
        assert np.count_nonzero(np.array(p) <= a + 1e-9) <= most(trials, a)


@pytest.mark.parametrize(("error", "n_bins"), [("classwise", (2, 8)), ("confidence", 5), ("full", 2), ("binary", 5)])
def test_the_level_on_one_error_is_exact_too(error, n_bins):
    rng = np.random.default_rng(5)
    trials = 200
    p = []
    for seed in range(trials):
        y, u, _ = tied(rng, 100)
        if error == "binary":
            y, u = (y == 0).astype(int), u[:, 0]
        p.append(calibration_test(y, u, error=error, n_bins=n_bins, n_resamples=19, seed=seed).pvalue)
    for a in (0.05, 0.25, 0.5):
        rejected = np.count_nonzero(np.array(p) <= a + 1e-9)
        assert trials - most(trials, 1 - a) <= rejected <= most(trials, a)  # and not far below


@pytest.mark.parametrize(
    ("world", "power"), [("shift of the logits by .31", 0.5), ("temperature 1.35", 0.8), ("S-curve", 0.7)]
)
def test_power_at_500_rows(world, power):
    """Level .05, 199 draws: a power of at least .5, .8 and .7, where U at 15 bins has .3, .3 and .5."""
    rng = np.random.default_rng(11)
    trials = 200
    found = sum(
        calibration_test(*powered(world, 500, rng), n_resamples=199, seed=seed).pvalue <= 0.05 for seed in range(trials)
    )
    assert found >= least(trials, power)


def test_power_with_a_hundred_classes():
    """Temperature 1.1, n = 500, 99 draws: at least .5, mostly by the form that asks for a temperature."""
    rng = np.random.default_rng(21)
    found = [calibration_test(*tempered(1.1, 500, 100, rng), n_resamples=99, seed=seed) for seed in range(50)]
    assert sum(test.pvalue <= 0.05 for test in found) >= least(50, 0.5)
    spoke = [test.strongest for test in found if test.pvalue <= 0.05]
    assert sum("over-confident" in words for words in spoke) >= len(spoke) / 2


# -- direction --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "copies", "heavy", "reports"),
    [
        (50, 1, False, lambda rng, n: np.full(n, 0.99)),
        (100, 1, False, lambda rng, n: rng.beta(30, 1, n)),
        (5, 1, False, lambda rng, n: rng.random(n)),
        (8000, 1, False, lambda rng, n: rng.random(n)),
        (50, 1, True, lambda rng, n: np.full(n, 0.99)),
        (30, 1, True, lambda rng, n: rng.random(n)),
        (100, 4, False, lambda rng, n: np.full(n, 0.99)),
        (20, 5, False, lambda rng, n: rng.random(n)),
        (150, 3, False, lambda rng, n: rng.random(n)),
    ],
)
def test_a_calibrated_predictor_rarely_gets_a_direction(n, copies, heavy, reports):
    """Sharp, small, large, weighted and clustered samples: at most .05 get a word."""
    rng = np.random.default_rng(9)
    trials = 250
    named = 0
    for _ in range(trials):
        u = reports(rng, n)
        y = (rng.random(n) < u).astype(int)
        options: dict[str, Any] = {}
        if copies > 1:
            options["groups"] = np.repeat(np.arange(n), copies)
        if heavy:
            options["sample_weight"] = np.repeat(rng.exponential(size=n), copies)
        found = mean_gap(np.repeat(y, copies), np.repeat(u, copies), error="top_label", **options)
        named += found.word != "no clear direction"
    assert named <= most(trials, 0.05)


@pytest.mark.parametrize("options", [{}, {"groups": np.arange(600) // 3}, {"sample_weight": np.arange(600) % 5 + 1}])
def test_overconfidence_is_named(options):
    """Reports of .9 that come true in 80%, n = 600: seen in nine samples of ten at least, whatever the method."""
    rng = np.random.default_rng(4)
    found = [mean_gap(rng.random(600) < 0.8, np.full(600, 0.9), error="top_label", **options) for _ in range(60)]
    assert sum(gap.word == "over-confident" for gap in found) >= least(60, 0.95)
