"""gap: miscalibration in points with its interval."""

from __future__ import annotations

import json

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from inference_cases import rows_of, softmax, world
from truecal import gap
from truecal.core.rules import auto_bins
from truecal.kinds.named_errors import COMPOSED
from truecal.sums.errors import signed_root


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [n for n, e in COMPOSED.items() if e.norm == "l2" and not n.startswith(("linear", "distribution", "survival"))],
)
def test_points_are_the_root_of_the_gap_of_the_decomposition(name):
    y, p = rows_of(4, 120, 7)
    if name.startswith(("binary", "top_label")):
        y, p = (y == 0).astype(int), p[:, 0]
    if name == "labelwise":
        y = np.eye(p.shape[1])[y]
    found = gap(y, p, error=name)
    counted = tc.ERRORS[name].binning.has_counts
    parts = tc.decompose(y, p, error=name, n_bins="auto" if counted else None)
    assert found.points == pytest.approx(parts.gap)
    assert found.low <= found.points <= found.high and found.n_samples == 120
    ci = tc.confidence_interval(y, p, error=name, n_bins="auto" if counted else None, what="gap_sq")
    assert ci.low is not None and ci.high is not None
    assert (found.low, found.high) == pytest.approx((100 * signed_root(ci.low), 100 * signed_root(ci.high)))


def test_the_number_of_bins_is_chosen_from_rows_and_classes_alone():
    y, p = rows_of(3, 300, 1, tied=False)
    assert gap(y, p).n_bins == auto_bins(300) == 10
    assert gap(y, p, error="classwise").n_bins == auto_bins(300, 3) == 15
    assert gap((y + 1) % 3, softmax(3 * p), error="classwise").n_bins == 15
    several = gap(y, p, n_bins=(5, 20))
    assert [found.n_bins for found in several] == [5, 20]
    assert gap(y, p, error="confidence_two_bin").n_bins is None


def test_a_shift_of_ten_points_is_ten_points_at_every_number_of_rows_and_bins():
    """U grows with n, the gap does not: at 500, 5,000 and 50,000 rows each interval holds 10 points."""
    us = []
    for n in (500, 5000, 50_000):
        rng = np.random.default_rng(n)
        chances = rng.uniform(0.1, 0.8, n)
        y = (rng.random(n) < chances).astype(int)
        for found in gap(y, chances + 0.1, error="binary", n_bins=(5, 15, 60)):
            assert found.low < 10 < found.high and found.direction == "too high" and found.note == ""
        us.append(tc.decompose(y, chances + 0.1, error="binary", n_bins=15).U)
    assert us[1] / us[0] == pytest.approx(10, rel=0.5) and us[2] / us[1] == pytest.approx(10, rel=0.2)


def test_a_constant_base_rate_has_no_gap_so_the_gap_is_no_score():
    rng = np.random.default_rng(0)
    chances = rng.random(2000)
    y = (rng.random(2000) < chances).astype(int)
    constant = np.full(2000, y.mean())
    found = gap(y, constant, error="binary")
    assert found.points < 1 and found.low < 0
    assert tc.score(y, constant, error="binary") > tc.score(y, np.clip(chances + 0.05, 0, 1), error="binary")


def test_directions_by_kind_of_prediction():
    z, y = world(n=2000)
    assert gap(y, softmax(2 * z)).direction == "over-confident"
    assert gap(y, softmax(0.5 * z), error="classwise").direction == "under-confident"
    assert gap(y, softmax(z), error="full").direction == "no clear direction"
    assert (
        gap(y, softmax(2 * z), error=tc.CalibrationError(tc.Linear([0.0, 1, 2, 3]), tc.Quantile())).direction
        == "over-confident"
    )
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(50, 2))
    error = tc.CalibrationError(tc.properties.Outcomes(None, True), tc.rules.KdTree(4))
    assert gap(vectors + 0.1, vectors, error=error, n_bins=None).direction == "no direction"


def test_one_large_cluster_names_no_direction_and_carries_a_note():
    """Half of the rows are one case: four effective clusters, whatever the outcomes say."""
    rng = np.random.default_rng(0)
    groups = np.r_[np.zeros(200, int), 1 + np.arange(200) // 10]
    u = np.full(400, 0.7)
    y = np.r_[np.zeros(200), rng.random(200) < 0.7].astype(int)
    found = gap(y, u, error="binary", groups=groups)
    assert found.direction == "no clear direction" and "too few rows or clusters" in found.note
    assert "too few" in repr(found)
    apart = gap(y, u, error="binary", groups=np.arange(400) // 4)
    assert apart.direction == "too high" and apart.note == ""


def test_copies_in_clusters_are_no_miscalibration():
    """Four copies of every row: without groups a calibrated model seems miscalibrated; with groups it does not."""
    rng = np.random.default_rng(3)
    u = rng.beta(0.5, 0.5, 300)
    y = (rng.random(300) < u).astype(int)
    copies = (np.repeat(y, 4), np.repeat(u, 4))
    grouped = gap(*copies, error="binary", n_bins=60, groups=np.repeat(np.arange(300), 4))
    assert gap(*copies, error="binary", n_bins=60).low > 5 and grouped.low < 0 < grouped.high
    once = gap(y, u, error="binary", n_bins=60)
    assert grouped.points == pytest.approx(once.points, abs=1.0)


def test_weights_of_one_are_no_weights_and_their_unit_does_not_matter():
    y, p = rows_of(3, 200, 4, tied=False)
    plain = gap(y, p, error="classwise")
    for unit in (1.0, 1e-150, 1e150):
        found = gap(y, p, error="classwise", sample_weight=np.full(200, unit))
        assert (found.points, found.low, found.high) == pytest.approx((plain.points, plain.low, plain.high))


def test_text_json_and_refusals():
    y, p = rows_of(3, 200, 4, tied=False)
    found = gap(y, p, n_bins=5)
    assert repr(found).startswith("gap of ") and "5 bins, 200 samples, 95% interval" in repr(found)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["points"] == found.points
    with pytest.raises(ValueError, match="norm='l1' errors have none"):
        gap(y, p, error="confidence_l1")
    with pytest.raises(ValueError, match="at least 3 different values"):
        gap(y, p, groups=np.arange(200) % 2)
    with pytest.raises(ValueError, match="different counts, got 5 twice"):
        gap(y, p, n_bins=(5, 5))


@pytest.mark.parametrize("beyond", [1 + 2**-52, -(2.0**-60)])
def test_a_rounding_beyond_0_or_1_is_0_or_1(beyond):
    """Mixtures of probabilities sum to 1 + 2e-16; the logit of that is not a number."""
    p, y = np.linspace(0.05, 0.95, 60), np.arange(60) % 3 == 0
    p[7] = beyond
    assert_close(tc.gap(y, p).points, tc.gap(y, np.clip(p, 0, 1)).points)
    found, clipped = (tc.evaluate(y, u, n_resamples=19) for u in (p, p.clip(0, 1)))
    assert found.direction.word == clipped.direction.word
