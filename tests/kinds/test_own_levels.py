"""Quantiles and ensembles at their own levels: draws by enumeration, losses and gap by loops, every entry point."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, poisson
from sklearn.metrics import mean_pinball_loss

import truecal as tc
from closeness import assert_close
from promise_worlds import FORECASTS, forecasts
from truecal.inference.level_tests import OWN
from truecal.kinds.own_levels import of_members, of_quantiles

LEVELS = np.array([0.1, 0.25, 0.5, 0.75, 0.9])
AT = np.linspace(-5, 5, 21)


def world(n: int = 400, seed: int = 0, spread: float = 1.0) -> tuple[np.ndarray, Any, Any]:
    """Outcomes, true quantiles, and perfect members, with so many times the spread."""
    rng = np.random.default_rng(seed)
    mean, sd = 2 * rng.normal(size=n), np.exp(0.4 * rng.normal(size=n))
    quantiles = mean[:, None] + spread * sd[:, None] * norm.ppf(LEVELS)
    members = mean[:, None] + spread * sd[:, None] * rng.standard_normal((n, 20))
    return mean + sd * rng.standard_normal(n), tc.forecasts.quantiles(quantiles, LEVELS), tc.forecasts.ensemble(members)


# -- definitions -------------------------------------------------------------------------------------------------------


def test_losses_are_the_pinball_loss_and_the_fair_crps():
    y, quantiles, ensemble = world(30)
    by_level = [mean_pinball_loss(y, quantiles.values[:, j], alpha=level) for j, level in enumerate(LEVELS)]
    assert_close(of_quantiles(y, quantiles.values, LEVELS).losses.mean(), np.mean(by_level))
    expected = []
    for outcome, members in zip(y, ensemble.members, strict=True):
        pairs = [abs(a - b) for i, a in enumerate(members) for j, b in enumerate(members) if i != j]
        expected.append(np.mean([abs(x - outcome) for x in members]) - np.mean(pairs) / 2)
    assert_close(of_members(y, ensemble.members).losses, np.array(expected))


def test_what_is_drawn_is_what_the_forecasts_claim():
    """Of quantiles the share of draws at or below a level is the level; of members each of all values is the outcome
    with equal chance, ties included: enumerated for three rows of two members."""
    rng = np.random.default_rng(0)
    members = np.array([[0.0, 1.0], [2.0, 2.0], [-1.0, 3.0]])
    y = np.array([0.5, 2.0, 3.0])
    own = of_members(y, members)
    pooled = np.column_stack([y, members])
    every = []
    for chosen in product(range(3), repeat=3):
        outcome = pooled[np.arange(3), chosen]
        rest = np.stack([np.delete(row, j) for row, j in zip(pooled, chosen, strict=True)])
        every.append(of_members(outcome, rest).below)
    assert_close(np.mean(every, axis=0), own.chances)
    drawn = np.array([own.drawn(rng) for _ in range(4000)])
    assert np.abs((drawn[:, :, None] <= np.arange(2)).mean(axis=0) - own.chances).max() < 0.04
    quantiles = of_quantiles(y, np.tile([0.0, 1.0], (3, 1)), np.array([0.2, 0.7]))
    drawn = np.array([quantiles.drawn(rng) for _ in range(4000)])
    assert np.abs((drawn[:, :, None] <= np.arange(2)).mean(axis=0) - [0.2, 0.7]).max() < 0.04


def test_the_gap_is_the_mean_product_of_residuals_that_share_a_cell():
    y, quantiles, _ = world(60)
    own, m = of_quantiles(y, quantiles.values, LEVELS), 4
    expected = []
    for j, level in enumerate(LEVELS):
        order = np.argsort(quantiles.values[:, j])
        for cell in np.array_split(order, m):
            r = level - (y[cell] <= quantiles.values[cell, j])
            expected.append((r.sum() ** 2 - (r**2).sum()) / (len(cell) - 1))
    (parts,) = OWN.with_bins(m).parts(own.sample())
    assert_close(parts.gap_sq, sum(expected) / 60 / len(LEVELS))


def test_the_order_of_members_does_not_matter():
    y, _, ensemble = world(100)
    own, mixed = (of_members(y, x) for x in (ensemble.members, np.sort(ensemble.members, axis=1)))
    for name in ("below", "keys", "residuals", "losses"):
        assert_close(getattr(own, name), getattr(mixed, name))
    assert own.slots is not None and mixed.slots is not None
    assert (np.sort(own.slots[:, 1:], axis=1) == np.sort(mixed.slots[:, 1:], axis=1)).all()


# -- what is found -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3 quantiles", "10 members"])
def test_perfect_forecasts_pass_and_narrow_ones_are_found(name):
    """Interpolated, perfect forecasts were rejected in all samples."""
    found = forecasts(name, 300, 25)
    assert found["perfect"] <= 4 / 25 and found["spread × .7"] >= 0.9 and found["contradictions"] == 0
    assert found["perfect, interpolated"] >= 0.5


def test_medians_that_alternate_are_found():
    y, *_ = world()
    odd = np.arange(400)[:, None] % 2 == 1
    found: Any = tc.calibration_test(y, tc.forecasts.quantiles(np.where(odd, -1e9, 1e9), [0.5]), n_resamples=99)
    assert found.pvalue <= 0.01 and found.low > 30 and "coverage varies with the prediction" in found.standing.words


def test_quantiles_of_counts_claim_no_more_than_they_can():
    """P(y < q) ≤ τ ≤ P(y ≤ q) is all that true quantiles of counts can keep."""
    rng = np.random.default_rng(0)
    rejected, off = 0, 0
    for seed in range(12):
        rate = np.exp(rng.normal(size=300))
        y = rng.poisson(rate)
        for factor in (1.0, 1.5):
            values = poisson.ppf(LEVELS, factor * rate[:, None])
            found = tc.calibration_test(y, tc.forecasts.quantiles(values, LEVELS), n_resamples=99, seed=seed)
            rejected += factor == 1 and found.pvalue <= 0.05
            off += factor > 1 and found.pvalue <= 0.05
    assert rejected <= 2 and off >= 11


def test_every_entry_point_has_the_same_test_and_gap():
    for forecast in world(spread=0.7)[1:]:
        y = world()[0]
        alone: Any = tc.calibration_test(y, forecast, n_resamples=199)
        found: Any = tc.evaluate(y, forecast, thresholds=AT, n_resamples=199, by=np.zeros(400))
        both = tc.compare(y, {"narrow": forecast}, thresholds=AT, n_resamples=199).evaluations["narrow"]
        for other in (found, both, found.subgroups["0.0"]):
            assert other.pvalue == alone.pvalue and other.gap is not None
            assert_close([other.gap.points, other.gap.low], [alone.gap, alone.low])
            assert other.standing is not None and other.standing.words == alone.standing.words
        assert "too narrow, by at least" in repr(found) and alone.low > 0
        assert_close(tc.gap(y, forecast).points, found.gap.points)
        assert tc.calibration_test(y, forecast, max_gap=1, n_resamples=99).verdict == "no"


def test_models_with_other_losses_are_ordered_by_the_crps():
    y, quantiles, ensemble = world()
    models = {"quantiles": quantiles, "members": ensemble, "normal": tc.forecasts.normal(np.zeros(400), np.ones(400))}
    found = tc.compare(y, models, thresholds=AT, n_resamples=99)
    assert found.verdict.best[0] == "quantiles" and found.verdict.rejected == ("normal",)
    names = {name: [loss.name for loss in e.losses] for name, e in found.evaluations.items()}
    assert names == {"quantiles": ["crps", "pinball"], "members": ["crps", "fair_crps"], "normal": ["crps"]}


def test_groups_time_weights_and_folds():
    y, quantiles, ensemble = world(spread=0.5)
    y = world()[0]
    for forecast in (quantiles, ensemble):
        for about in ({"groups": np.arange(400) // 4}, {"overlap": 3}, {"sample_weight": np.arange(1, 401)}):
            found: Any = tc.calibration_test(y, forecast, n_resamples=199, **about)
            assert found.pvalue <= 0.05 and found.low > 0
    left = tc.evaluate(y, quantiles, thresholds=AT, folds=np.arange(400) % 4, n_resamples=99)
    assert left.test is None and "the calibration test is left out: predictions are cross-validated" in left.notes


def test_a_stream_says_that_it_does_not_test_them():
    y, quantiles, _ = world()
    stream, other = (tc.stream(thresholds=AT, n_bins=8, edges="uniform") for _ in range(2))
    stream.update(y, quantiles)
    other.update(y, tc.forecasts.normal(np.zeros(400), np.ones(400)))
    for found in (stream, other.merge(stream), stream.merge(other)):
        assert any("evaluate tests them in memory" in note for note in found.result().notes)
    assert not any("own levels" in note for note in other.result().notes)


def test_arguments_that_cannot_be_used_are_refused():
    y, quantiles, _ = world(20)
    with pytest.raises(ValueError, match="sampler and labels cannot be used"):
        tc.calibration_test(y, quantiles, sampler=lambda rng: y)
    with pytest.raises(ValueError, match="numbers of rows disagree"):
        tc.calibration_test(y[:10], quantiles)
    with pytest.raises(ValueError, match="y_true must be finite numbers"):
        tc.gap(np.full(20, np.nan), quantiles)


@pytest.mark.heavy
@pytest.mark.parametrize("name", FORECASTS)
def test_perfect_forecasts_pass_at_every_number_of_levels(name):
    found = forecasts(name, 300, 60)
    assert found["perfect"] <= 0.12 and found["spread × .7"] >= 0.8
