"""Consistency bands of diagrams and null bands of errors, with the exact law of the number of ones."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

import truecal as tc
from closeness import assert_close
from inference_cases import rows_of
from truecal.analysis import consistency_bands
from truecal.inference.bands import _divided_draws
from truecal.inference.binned_sample import BinnedSample
from truecal.inference.null import null_quantiles
from truecal.inference.poisson_binomial import poisson_binomial, quantiles_of_runs
from truecal.kinds.named_errors import COMPOSED, get_error


def test_bands_of_equal_predictions_are_binomial_quantiles():
    n = 60
    bands = consistency_bands([0, 1] * 30, [0.3] * n, error="binary", n_bins=1)
    low, high = np.asarray(stats.binom.ppf([0.025, 0.975], n, 0.3)) / n
    assert (bands.low[0, 0], bands.high[0, 0]) == pytest.approx((low, high))
    assert bands.mean_outcome[0, 0] == 0.5 and bands.outside.all()


@pytest.mark.parametrize("n", [1, 2, 3, 7, 10])
def test_the_law_of_a_bin_count_is_that_of_all_outcomes(n):
    u = np.random.default_rng(n).random(n)
    law = np.zeros(n + 1)
    for y in product((0, 1), repeat=n):
        law[sum(y)] += np.prod(np.where(y, u, 1 - u))
    np.testing.assert_allclose(poisson_binomial(u).chance, law, atol=1e-14)


@pytest.mark.parametrize("block", [1, 3, 64])
def test_the_law_of_many_draws_is_that_of_their_blocks(monkeypatch, block):
    u = np.random.default_rng(0).random(150) ** 9
    whole = poisson_binomial(u)
    monkeypatch.setattr("truecal.inference.poisson_binomial._MANY", 20)
    monkeypatch.setattr("truecal.inference.poisson_binomial._BLOCK", block)
    law = poisson_binomial(u)
    for ones in (0, 3, 9, 15, 22, 150):
        assert law.at_most(ones) == pytest.approx(whole.at_most(ones), abs=1e-12)
        assert law.at_least(ones) == pytest.approx(whole.at_least(ones), abs=1e-12)
    assert [law.quantile(q) for q in (0.025, 0.5, 0.975)] == [whole.quantile(q) for q in (0.025, 0.5, 0.975)]


def test_drawn_bands_agree_with_exact_ones():
    """Equal weights change nothing but the method: the drawn quantiles lie within one outcome of the exact ones."""
    y, u = rows_of(2, 90, 3, tied=False)
    exact = consistency_bands(y, u[:, 1], error="binary", n_bins=3)
    drawn = consistency_bands(y, u[:, 1], error="binary", n_bins=3, sample_weight=np.full(90, 2.0), n_resamples=9999)
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
    bands: Any = [
        one.band for one in tc.confidence_interval(y, p, error="confidence_l1", n_bins=(5, 10), n_resamples=99)
    ]
    usual = tc.confidence_error(y, p, n_bins=(5, 10), norm="l1", strategy="uniform")
    np.testing.assert_allclose([band.estimate for band in bands], usual)
    assert min(band.low for band in bands) > 0  # a calibrated predictor never shows an ECE of 0
    assert "if calibrated" in repr(bands[0])
    alone: Any = tc.confidence_interval(y, p, error="confidence_l1", n_bins=10, n_resamples=99).band
    assert_close(bands[1].to_dict(), alone.to_dict(), 1)


@pytest.mark.parametrize("draws", [39, 59, 99, 199])
@pytest.mark.parametrize("level", [0.95, 0.9])
def test_bands_of_draws_keep_their_level(draws, level):
    """One more value of the same law lies strictly between the ends with chance 1 − 2r/(B + 1) at least."""
    low, high = null_quantiles(np.arange(draws, dtype=float)[::-1], level)
    rank = int(low) + 1
    assert high == draws - rank
    assert 1 - 2 * rank / (draws + 1) >= level - 1e-12 > 1 - 2 * (rank + 1) / (draws + 1)


@pytest.mark.parametrize("chance", [0.0, 1e-9, 0.003, 0.5, 0.9999, 1.0])
def test_the_law_of_many_equal_draws_is_binomial(chance):
    n = 70_001
    law = poisson_binomial(np.full(n, chance))
    ones = np.arange(law.first, law.first + len(law.chance))
    np.testing.assert_allclose(law.chance, stats.binom.pmf(ones, n, chance), atol=1e-11)
    assert ones[0] >= 0 and ones[-1] <= n


@pytest.mark.parametrize("sizes", [[3, 4, 4, 0, 1], [70, 71, 70], [1, 90]])
def test_laws_of_all_bins_at_once_have_the_quantiles_of_each(rng, sizes):
    u, levels = rng.random(sum(sizes)), (0.025, 0.5, 0.975)
    each = [poisson_binomial(run) for run in np.split(u, np.cumsum(sizes)[:-1])]
    expected = [[law.quantile(level) for level in levels] for law in each]
    assert quantiles_of_runs(u, np.array(sizes), levels).tolist() == expected


def test_divided_blocks_follow_the_law_of_drawn_rows():
    rng = np.random.default_rng(1)
    u = np.round(rng.beta(2, 2, 200), 1)
    frozen = BinnedSample.of(COMPOSED["binary"].with_bins(7), tc.properties.Binary().read(u < 0.5, u))
    (piece,) = frozen
    cells: Any = piece.cells
    (bins,) = cells.bins
    assert bins.split
    drawn = [cells.atom_sums((rng.random((100, 200)) < u).astype(float)) for _ in range(200)]
    by_rows = np.concatenate([bins.sums(sums).T for sums in drawn]).round(9)
    by_law = _divided_draws(u, cells, bins, len(by_rows), rng).round(9)
    for one, other in zip(by_rows.T, by_law.T, strict=True):
        values = np.union1d(one, other)
        first, second = (np.searchsorted(np.sort(x), values, side="right") / len(x) for x in (one, other))
        assert abs(first - second).max() < 0.02  # Kolmogorov and Smirnov: .0195 at level .001
