"""Tests that flip the signs of clusters of rows and of blocks of time, and gaps of pairs that are far enough apart."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

import truecal as tc
from closeness import assert_close
from conclusion_worlds import IN_TIME, forecasts_in_time, in_time
from reference import quantile_bins
from truecal.inference import sign_flips
from truecal.inference.checks import time_blocks
from truecal.inference.forms import Form


def clustered(n: int, size: int, t: float, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outcomes, predictions and clusters, of which all rows share prediction and outcome."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, n // size)
    y = (rng.random(len(z)) < expit(z)).astype(int)
    return np.repeat(y, size), np.repeat(expit(t * z), size), np.repeat(np.arange(len(z)), size)


def test_copies_of_rows_in_one_cluster_change_nothing():
    y, u, cluster = clustered(60, 1, 1.4, 0)
    one = tc.calibration_test(y, u, groups=cluster, n_resamples=199)
    five = tc.calibration_test(np.repeat(y, 5), np.repeat(u, 5), groups=np.repeat(cluster, 5), n_resamples=199)
    assert [detail.pvalue for detail in one.details] == [detail.pvalue for detail in five.details]
    assert one.pvalue == five.pvalue and "60 groups of rows" in five.null
    assert tc.calibration_test(np.repeat(y, 5), np.repeat(u, 5), n_resamples=199).pvalue < one.pvalue / 2


@pytest.mark.slow
def test_the_level_is_kept_where_clusters_agree_and_over_confidence_is_found():
    """Without groups .8 of the calibrated samples are rejected."""
    rejected = np.zeros(2)
    for seed in range(200):
        for place, t in enumerate((1.0, 2.0)):
            y, u, cluster = clustered(1000, 10, t, seed)
            rejected[place] += tc.calibration_test(y, u, groups=cluster, n_resamples=99, seed=seed).pvalue <= 0.05
    assert rejected[0] / 200 <= 0.09 and rejected[1] / 200 >= 0.5


@pytest.mark.slow
def test_rare_outcomes_keep_the_level():
    """The few outcomes of a rare event make sums of one sign; when none came, their squares would be next to 0."""
    rejected = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        u = np.repeat(expit(rng.normal(-5.5, 1, 100)), 5)
        y = (rng.random(500) < u).astype(int)
        found = tc.calibration_test(y, u, groups=np.arange(500) // 5, n_resamples=99, seed=seed)
        rejected += found.pvalue <= 0.05
    assert rejected / 200 <= 0.09


@pytest.mark.parametrize("k", [2, 4])
def test_every_entry_point_gives_the_same_test(k):
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(k), 300)
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    sharp = p**2 / (p**2).sum(axis=1, keepdims=True)
    groups = np.arange(300) // 3
    test = tc.calibration_test(y, sharp, groups=groups)
    found = tc.evaluate(y, sharp, groups=groups)
    compared = tc.compare(y, {"a": sharp, "b": p}, groups=groups).evaluations["a"]
    assert found.test is not None and compared.test is not None
    assert found.test.pvalue == test.pvalue == compared.test.pvalue <= 0.01
    assert found.gap is not None and found.gap.low > 0
    assert found.verdict.standings["model"].answer == "no"


def test_labels_of_clusters_are_tested_one_by_one():
    rng = np.random.default_rng(0)
    u = np.repeat(rng.uniform(0.1, 0.9, (60, 3)), 5, axis=0)
    y = (rng.random((60, 3)) < u[::5]).repeat(5, axis=0).astype(int)
    u[:, 1] = np.clip(u[:, 1] + 0.3, 0, 1)
    groups = np.arange(300) // 5
    found = tc.evaluate(y, u, task="multilabel", groups=groups, seed=0)
    assert found.test is not None and found.test.pvalue <= 0.05 and "60 groups" in found.test.null
    assert [view.name for view in found.views if view.pvalue is not None and view.pvalue <= 0.05] == ["label 1"]
    assert tc.calibration_test(y, u, error="labelwise", groups=groups).pvalue == found.test.pvalue


def test_too_few_clusters_are_undecided():
    y, u, cluster = clustered(110, 10, 3.0, 0)
    found = tc.calibration_test(y, u, groups=cluster)
    assert found.verdict == "undecided" and "at least 12 groups of rows, got 11" in found.sentence
    assert "at least 12 groups" in repr(found)
    whole = tc.evaluate(y, u, groups=cluster)
    assert whole.test is None and any("got 11" in note for note in whole.notes)
    assert tc.calibration_test(y[:200], u[:200], overlap=20).verdict == "undecided"


def test_what_cannot_be_combined_raises():
    y, u, cluster = clustered(100, 5, 1.0, 0)
    with pytest.raises(ValueError, match="groups or overlap, not both"):
        tc.gap(y, u, groups=cluster, overlap=5)
    with pytest.raises(ValueError, match="overlap must be"):
        tc.calibration_test(y, u, overlap=0)
    with pytest.raises(ValueError, match="cannot be used with groups or overlap"):
        tc.calibration_test(y, u, groups=cluster, n_bins=5)


# -- rows in time ------------------------------------------------------------------------------------------------------


def test_blocks_have_two_to_three_times_the_overlap_and_one_row_overlaps_with_none():
    for n, h in ((500, 20), (500, 5), (2000, 20), (90, 20)):
        blocks = time_blocks(n, h)
        assert blocks is not None
        sizes = np.bincount(blocks[0])
        assert sizes[:-1].min(initial=10**6) >= 2 * h and sizes[:-1].max(initial=0) <= 3 * h and sizes.sum() == n
    assert time_blocks(500, 1) is None


@pytest.mark.parametrize("weights", [False, True])
def test_gaps_leave_out_pairs_that_are_closer(weights):
    rng = np.random.default_rng(2)
    y, u = forecasts_in_time("sum of shocks", 4, 90, 1.5, rng)
    w = rng.integers(1, 4, 90) if weights else np.ones(90)
    found = tc.gap(y, u, overlap=4, n_bins=3, sample_weight=w if weights else None)
    bins, total = np.array(quantile_bins(u, 3, "row")), 0.0
    for cell in (np.flatnonzero(bins == b).tolist() for b in range(3)):
        pairs = [(i, j) for i in cell for j in cell if abs(i - j) >= 4]
        products = sum(w[i] * (u[i] - y[i]) * w[j] * (u[j] - y[j]) for i, j in pairs)
        total += sum(w[i] for i in cell) * products / sum(w[i] * w[j] for i, j in pairs)
    assert_close(found.points, 100 * np.sign(total) * np.sqrt(abs(total) / w.sum()))
    assert abs(found.points - tc.gap(y, u, n_bins=3, sample_weight=w if weights else None).points) > 0.1


def test_subgroups_keep_their_places_in_time():
    """Every second row: rows of one subgroup are two steps apart, so that fewer pairs are left out."""
    y, u = forecasts_in_time("sum of shocks", 3, 600, 1.5, np.random.default_rng(0))
    half = np.arange(600) % 2
    found = tc.evaluate(y, u, overlap=3, by=half, errors=["binary"], n_bins=5)
    even = tc.gap(y[::2], u[::2], overlap=2, n_bins=5, error="binary")  # two rows that are next to each other
    assert found.subgroups["0"].gap is not None
    assert_close(found.subgroups["0"].gap.points, even.points)


@pytest.mark.heavy
@pytest.mark.parametrize("name", IN_TIME)
@pytest.mark.parametrize("h", [1, 5, 10, 20])
def test_forecasts_in_time_keep_the_level(name, h):
    _, rejected, _, held = in_time(name, h, 500, 1.0, 200)
    assert rejected <= 0.1 and held >= 0.9


@pytest.mark.slow
def test_over_confident_forecasts_in_time_are_found():
    _, rejected, _, _ = in_time("sum of shocks", 10, 500, 1.6, 60)
    assert rejected >= 0.65


def test_thousands_of_columns_are_flipped_through_pairs_of_clusters():
    rng = np.random.default_rng(0)
    sums, signs = rng.normal(size=(12, 40)), rng.choice([-1.0, 1.0], (50, 12))
    for pooled in (True, False):
        form = sign_flips._Form(Form("class frequencies", 1.0), sums, np.ones(40), 1.0, pooled)
        square = np.square(sums).sum(axis=0)
        scale = np.full(40, square.sum()) if pooled else square
        assert_close(form.values(signs)[1:], (np.square(signs @ sums) / scale).sum(axis=1))
