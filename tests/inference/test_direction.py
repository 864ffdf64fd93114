"""mean_gap: sign, size, and a direction that a calibrated sample rarely gets, exactly where that can be listed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from inference_cases import rows_of
from truecal.analysis import mean_gap
from truecal.inference.poisson_binomial import poisson_binomial


def test_mean_gap_has_sign_size_and_usual_error():
    y, p = rows_of(3, 200, 4, tied=False)
    found = mean_gap(y, p)
    gap = p.max(axis=1) - (p.argmax(axis=1) == y)
    assert found.gap == pytest.approx(gap.mean()) and found.se == pytest.approx(gap.std(ddof=1) / np.sqrt(200))
    over = mean_gap(np.zeros(50, int), np.tile([0.05, 0.9, 0.05], (50, 1)))
    assert over.word == "over-confident" and over.gap == pytest.approx(0.9)
    two = mean_gap(np.zeros(50, int), np.tile([0.1, 0.9], (50, 1)))
    assert two.word == "too high" and two.gap == pytest.approx(0.9)
    assert mean_gap([1] * 9, [0.4] * 9, error="binary").word == "too low"
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
    certain = mean_gap([0] * 4, [1.0] * 4, error="binary", sample_weight=[1, 2, 3, 4])
    assert certain.word == "too high"


@pytest.mark.parametrize(
    ("sizes", "named"), [([40], False), ([200, *[10] * 20], False), ([10] * 9, False), ([10] * 40, True)], ids=str
)
def test_a_direction_needs_enough_effective_clusters(sizes, named):
    """(Σ size)²/Σ size² below ten: one of the clusters may be all there is to see."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    found = mean_gap(np.zeros(len(groups), int), np.full(len(groups), 0.6), error="binary", groups=groups)
    assert (found.word == "too high") == named
    assert np.isnan(found.pvalue) == (not named)


def test_many_rows_use_the_normal_distribution_and_agree_with_the_exact_law():
    rng = np.random.default_rng(0)
    u = rng.uniform(0.3, 0.7, 5000)
    y = rng.random(5000) < u + 0.015
    ones, law = y.sum(), poisson_binomial(u)
    exact = 2 * min(law.at_most(ones), law.at_least(ones))
    assert mean_gap(y.astype(int), u, error="binary").pvalue == pytest.approx(exact, rel=0.1)


def test_the_bound_for_weights_is_above_the_exact_tail():
    """All outcomes of five rows listed: the bound exceeds the true tail."""
    u, w = np.full(5, 0.8), np.array([1.0, 2.0, 0.5, 1.5, 1.0])
    outcomes = list(product((0, 1), repeat=5))
    found = [mean_gap(y, u, error="binary", sample_weight=w) for y in outcomes]
    check_bounds(found, [np.prod(np.where(y, u, 1 - u)) for y in outcomes])


def test_the_bound_for_clusters_is_above_the_exact_tail():
    """Ten perfectly dependent pairs, of two chances: outcomes that matter are how many pairs of each came true."""
    u = np.repeat([0.8, 0.3], [5, 5])
    found, chances = [], []
    for a, b in product(range(6), repeat=2):
        y = np.r_[np.arange(5) < a, np.arange(5) < b].astype(int)
        found.append(mean_gap(np.repeat(y, 2), np.repeat(u, 2), error="binary", groups=np.repeat(np.arange(10), 2)))
        chances.append(stats.binom.pmf(a, 5, 0.8) * stats.binom.pmf(b, 5, 0.3))
    check_bounds(found, chances)


def check_bounds(found, chances):
    gaps, bounds = np.array([f.gap for f in found]), np.array([f.pvalue for f in found])
    chance = np.array(chances)
    for gap, bound in zip(gaps, bounds, strict=True):
        side = gaps >= gap - 1e-12 if gap > 0 else gaps <= gap + 1e-12
        assert bound >= min(1.0, 2 * chance @ side) - 1e-9
    assert bounds.min() < 0.05  # and it is not idle


def test_mean_gap_weights_are_means_of_weighted_rows():
    u, y, w = np.array([0.9, 0.4, 0.6]), np.array([1, 0, 1]), np.array([1.0, 2.0, 0.5])
    found = mean_gap(y, u, error="binary", sample_weight=w)
    assert found.gap == pytest.approx(np.average(u - y, weights=w))
