"""confidence_interval: each target, clusters, weights, notes, and the null band of l1 errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from inference_cases import rows_of, softmax, world
from truecal import calibration_test, paired_difference
from truecal.analysis import mean_gap
from truecal.kinds.named_errors import get_error

confidence_interval: Any = tc.confidence_interval  # its overloads want literal options

WHATS = ("gap_sq", "U", "loss", "score", "error")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["binary", "classwise", "confidence", "full", "confidence_two_bin"])
def test_each_target_is_the_number_it_is_named_after(name, weighted):
    y, p = rows_of(3, 90, 2)
    if name == "binary":
        y, p = (y == 0).astype(int), p[:, 0]
    w = np.random.default_rng(0).uniform(0.2, 2, 90) if weighted else None
    metric = get_error(name) if name.endswith("two_bin") else get_error(name, 6)
    (parts,) = metric.parts(metric.read(y, p, sample_weight=w))
    for what in WHATS:
        found = confidence_interval(y, p, error=metric, what=what, sample_weight=w)
        assert found.low is not None and found.high is not None and found.what == what
        assert found.low <= found.estimate <= found.high
        if what == "score":
            assert found.estimate == pytest.approx(metric(y, p, sample_weight=w, scale="score"))
        elif what != "loss":
            assert found.estimate == pytest.approx(getattr(parts, what))
    loss = confidence_interval(y, p, error=metric, what="loss", sample_weight=w)
    sample = metric.read(y, p)
    assert loss.estimate == pytest.approx(np.average(sample.loss(), weights=w))  # what sample_weight means to people


def test_gap_sq_and_U_are_one_interval_in_two_units():
    z, y = world()
    gap_sq, u = (confidence_interval(y, softmax(2 * z), n_bins=8, what=what) for what in ("gap_sq", "U"))
    unit = u.estimate / gap_sq.estimate  # 400 rows in eight bins of 50: U·m/(n − m)
    assert unit == pytest.approx(392 / 8)
    assert (u.low, u.high, u.se) == pytest.approx((unit * gap_sq.low, unit * gap_sq.high, unit * gap_sq.se))


def test_the_score_is_the_loss_and_what_the_gap_adds():
    z, y = world()
    found = confidence_interval(y, softmax(2 * z), n_bins=8, what="score")
    assert found.estimate == pytest.approx(tc.score(y, softmax(2 * z)))
    loss = confidence_interval(y, softmax(2 * z), n_bins=8, what="loss")
    assert found.estimate > loss.estimate and found.high - found.low > loss.high - loss.low


def test_levels_are_nested_and_several_counts_are_several_intervals():
    z, y = world()
    p = softmax(1.5 * z)
    for what in WHATS:
        widths = [
            (found.high or 0.0) - (found.low or 0.0)
            for found in (confidence_interval(y, p, n_bins=10, what=what, level=level) for level in (0.5, 0.9, 0.99))
        ]
        assert widths == sorted(widths) and widths[0] < widths[2]
        several = confidence_interval(y, p, n_bins=(5, 10), what=what)
        assert [found.n_bins for found in several] == [5, 10]
        assert_close(several[1], confidence_interval(y, p, n_bins=10, what=what), 1)


# -- clusters ---------------------------------------------------------------------------------------------------------


def test_clusters_split_the_error_into_three_parts():
    """n·error = loss + U + within; each cluster's rows being copies, U is that of one copy times the copies."""
    rng = np.random.default_rng(3)
    u = rng.random(30)
    y = (rng.random(30) < u).astype(int)
    groups = np.repeat(np.arange(30), 4)
    copies = (np.repeat(y, 4), np.repeat(u, 4))
    whole = tc.decompose(*copies, error="binary", n_bins=5)
    once = tc.decompose(y, u, error="binary", n_bins=5)
    found = confidence_interval(*copies, error="binary", n_bins=5, groups=groups)
    assert found.estimate == pytest.approx(4 * once.U)
    assert found.within == pytest.approx(3 * whole.loss) and "within clusters" in repr(found)
    assert whole.loss + found.estimate + found.within == pytest.approx(120 * whole.error)
    inside = confidence_interval(*copies, error="binary", n_bins=5, groups=groups, what="within")
    assert inside.estimate == pytest.approx(found.within)
    assert inside.low is not None and inside.low < inside.estimate
    assert confidence_interval(y, u, error="binary", n_bins=5).within is None


def test_the_spread_of_within_is_that_of_clusters():
    y, p = rows_of(3, 60, 1, tied=False)
    groups = np.arange(60) // 3
    found = confidence_interval(y, p, n_bins=4, groups=groups, what="within")
    g = [np.equal.outer(c, c) for c in (((np.argsort(np.argsort(p[:, j])) + 1) * 4 - 1) // 60 for j in range(3))]
    r = p - np.eye(3)[y]
    each = [
        sum(r[i, v] * r[j, v] * g[v][i, j] for v in range(3) for i in rows for j in rows if i != j) / 60 / 3
        for rows in (np.flatnonzero(groups == c) for c in range(20))
    ]
    assert found.estimate == pytest.approx(sum(each))
    assert found.se == pytest.approx(np.sqrt(20) * np.std(each, ddof=1))


def test_every_row_its_own_cluster_is_no_cluster():
    y, p = rows_of(3, 120, 5, tied=False)
    for what in WHATS:
        rows = confidence_interval(y, p, n_bins=6, what=what)
        own = confidence_interval(y, p, n_bins=6, what=what, groups=np.arange(120))
        assert (own.estimate, own.low, own.high) == pytest.approx((rows.estimate, rows.low, rows.high))


def test_few_clusters_are_said():
    y, p = rows_of(3, 120, 5, tied=False)
    few = confidence_interval(y, p, n_bins=6, groups=np.arange(120) % 5)
    assert "too few rows or clusters" in few.note and "too few" in repr(few)


# -- weights ----------------------------------------------------------------------------------------------------------


def test_rows_without_weight_are_no_units():
    """Fixed cells: rows of weight 0 change nothing at all, neither in intervals nor in gaps, rows or clusters."""
    y, p = rows_of(2, 120, 5, tied=False)
    u, w = p[:, 1], np.r_[np.ones(90), np.zeros(30)]
    error = tc.CalibrationError(tc.Binary(), tc.EqualWidth(5))
    groups = np.r_[np.arange(90) // 2, np.arange(30) + 100]
    for cluster in (False, True):
        for what in ("U", "gap_sq", "loss", "error"):
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
    parts = [
        paired_difference(y[:n], u[:n], u[:n] ** 2, error=error, n_bins=None, sample_weight=w[:n]).U for n in (120, 90)
    ]
    assert parts[0].pvalue == pytest.approx(parts[1].pvalue)


@pytest.mark.slow
@pytest.mark.parametrize("power", [-170, 170, -300, 300])
def test_the_unit_of_the_weights_does_not_matter(power):
    y, p = rows_of(3, 40, 2)
    w = np.random.default_rng(0).random(40) + 0.1
    for call in (
        lambda w: calibration_test(y, p, n_bins=5, sample_weight=w, n_resamples=99).to_dict(),
        lambda w: calibration_test(y, p, sample_weight=w, n_resamples=99).to_dict(),
        lambda w: confidence_interval(y, p, n_bins=5, sample_weight=w).to_dict(),
        lambda w: confidence_interval(y, p, n_bins=5, sample_weight=w, what="error").to_dict(),
        lambda w: confidence_interval(y, p, n_bins=5, sample_weight=w, what="score").to_dict(),
        lambda w: paired_difference(y, p, p[::-1], n_bins=5, sample_weight=w).gap_sq.to_dict(),
        lambda w: mean_gap(y, p, sample_weight=w).to_dict(),
        lambda w: {"low": confidence_interval(y, p, error="confidence_l1", sample_weight=w, n_resamples=99).band.low},
    ):
        usual, extreme = call(w), call(w * 10.0**power)
        for key, value in usual.items():
            if isinstance(value, float):
                assert extreme[key] == pytest.approx(value, rel=1e-9)


def test_an_offset_of_phi_changes_nothing():
    y, p = rows_of(3, 40, 2, tied=False)
    rule = tc.Quantile(5)
    plain, moved = (
        confidence_interval(y, p, error=tc.CalibrationError(tc.Linear(np.arange(3.0) + offset), rule)).estimate
        for offset in (0.0, 1e9)
    )
    assert moved == pytest.approx(plain, rel=1e-6)


# -- what is unreliable ----------------------------------------------------------------------------------------


def test_too_few_surprises_are_said():
    """One wrong in a hundred sharp rows: whether its bin holds another says next to nothing; at 1/2 all is well."""
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(3), np.ones(97)].astype(int)
    found = confidence_interval(y, rng.uniform(0.985, 0.999, 100), error="binary", n_bins=15)
    assert "unreliable" in found.note and "surprising" in repr(found)
    assert found.high is not None and found.high >= 0.02  # 3 in 100 may well be 7, for which E[U] = 100/15 · .062²
    good = confidence_interval(rng.integers(0, 2, 100), rng.uniform(0.4, 0.6, 100), error="binary", n_bins=15)
    assert good.note == ""
    none = confidence_interval(np.ones(50, int), rng.uniform(0.985, 0.999, 50), error="top_label", n_bins=5)
    assert "unreliable" in none.note and none.high is not None and none.high > 0


def test_real_outcomes_have_parts_with_intervals():
    rng = np.random.default_rng(0)
    mean = rng.uniform(0, 10, 300)
    outcomes = mean + rng.normal(size=300)
    error = tc.CalibrationError(tc.properties.Outcomes((0.0, 10.0)), tc.Quantile(6))
    calm, off = (confidence_interval(outcomes, u, error=error, what="gap_sq") for u in (mean, np.clip(mean + 1, 0, 10)))
    assert calm.low is not None and off.low is not None and calm.low < 0 < off.low
    loss = confidence_interval(outcomes, mean, error=error, what="loss")
    assert "the outcomes are unbounded" in loss.note


def test_l1_gets_a_band_and_the_reason_but_no_interval():
    y, p = rows_of(3, 60, 0)
    found = confidence_interval(y, p, error="confidence_l1", n_bins=5)
    assert found.low is None and found.high is None and found.se is None
    assert found.band is not None and np.all(found.band.low <= found.band.high)
    assert "no interval" in found.note and "no interval" in repr(found)
    assert found.estimate == pytest.approx(tc.confidence_error(y, p, n_bins=5, norm="l1", strategy="uniform"))
    several = confidence_interval(y, p, error="confidence_l1", n_bins=(5, 9))
    assert [f.n_bins for f in several] == [5, 9]
    for what in ("loss", "gap_sq", "score"):
        with pytest.raises(ValueError, match="no loss part"):
            confidence_interval(y, p, error="confidence_l1", what=what)
    with pytest.raises(ValueError, match="use confidence_interval"):
        calibration_test(y, p, error="confidence_l1")
    with pytest.raises(ValueError, match="norm='l1'"):
        paired_difference(y, p, p, error="confidence_l1")


def test_the_interval_of_an_error_holds_that_of_its_parts():
    """Loss and U vary together: added in squares their interval held the expected error in .83 to .93."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, 300)
    y, u = (rng.random(300) < 1 / (1 + np.exp(-z))).astype(int), 1 / (1 + np.exp(-2 * z))
    error, loss, U = (
        confidence_interval(y, u, error="binary", n_bins=10, what=what) for what in ("error", "loss", "U")
    )
    assert_close(300 * error.low, loss.low + U.low)
    assert_close(300 * error.high, loss.high + U.high)
