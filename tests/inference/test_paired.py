"""paired_difference: parts that add up, turn round, and conclude no more than they may."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

import truecal as tc
from closeness import assert_close
from inference_cases import rows_of, softmax, world
from truecal import confidence_interval, paired_difference
from truecal.core.rules import auto_bins
from truecal.inference.mean_losses import IntervalEstimate
from truecal.kinds.named_errors import get_error

PARTS = ("loss", "gap_sq", "U", "D")


def pair_of_predictors(seed: int = 0, n: int = 300):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), n)
    y = np.array([rng.choice(3, p=row) for row in p])
    return y, p, 0.6 * p + 0.4 * rng.dirichlet(np.ones(3), n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["classwise", "confidence", "full", "classwise_two_bin"])
def test_parts_are_the_differences_of_what_each_model_has(name, weighted):
    y, a, b = pair_of_predictors()
    w = np.random.default_rng(1).uniform(0.2, 2, 300) if weighted else None
    bins = None if name.endswith("two_bin") else 6
    metric = get_error(name, bins)
    found = paired_difference(y, a, b, error=name, n_bins=bins, sample_weight=w)
    one, two = (metric.parts(metric.read(y, p, sample_weight=w))[0] for p in (a, b))
    size = metric.read(y, a, sample_weight=w).size
    assert found.gap_sq.estimate == pytest.approx(one.gap_sq - two.gap_sq)
    assert found.U.estimate == pytest.approx(one.U - two.U)
    assert found.D.estimate == pytest.approx(size * (one.error - two.error))
    losses = [confidence_interval(y, p, error=metric, what="loss", sample_weight=w).estimate for p in (a, b)]
    assert found.loss.estimate == pytest.approx(losses[0] - losses[1])
    if not weighted:
        assert found.D.estimate == pytest.approx(found.loss.estimate + found.U.estimate)


def test_the_other_way_round_every_part_turns():
    y, a, b = pair_of_predictors()
    for one, other in zip(
        paired_difference(y, a, b, n_bins=(5, 9)), paired_difference(y, b, a, n_bins=(5, 9)), strict=True
    ):
        for name in PARTS:
            x, z = getattr(one, name), getattr(other, name).turned()
            assert (x.estimate, x.low, x.high, x.pvalue) == pytest.approx((z.estimate, z.low, z.high, z.pvalue))
            assert_close(z.turned(), getattr(other, name), 1)


def test_a_turned_part_keeps_its_note_and_its_certainty():
    part = IntervalEstimate(-1.0, -2.0, -0.5, 0.3, 0.01, "why not")
    assert part.turned() == IntervalEstimate(1.0, 0.5, 2.0, 0.3, 0.01, "why not")
    assert not part.beyond_noise and IntervalEstimate(-1.0, -2.0, -0.5, 0.3, 0.01).turned().beyond_noise
    assert not IntervalEstimate(1.0, -0.5, 2.0, 0.3, 0.2).beyond_noise


def test_a_predictor_does_not_differ_from_itself():
    y, a, _ = pair_of_predictors()
    found = paired_difference(y, a, a)
    for name in PARTS:
        part = getattr(found, name)
        assert (part.estimate, part.pvalue) == (0.0, 1.0)
    assert "no significant difference in loss" in repr(found) and "no significant difference in calibration" in repr(
        found
    )


def test_the_pvalue_agrees_with_the_interval():
    y, a, b = pair_of_predictors()
    for part in ("loss", "gap_sq", "U", "D"):
        p = getattr(paired_difference(y, a, b, n_bins=6), part).pvalue
        inside, outside = (
            getattr(paired_difference(y, a, b, n_bins=6, level=1 - factor * p), part) for factor in (0.99, 1.01)
        )
        assert inside.low <= 0 <= inside.high and outside.beyond_noise


def test_words_keep_loss_and_calibration_apart():
    """A sharper predictor with equal calibration wins on the loss part, and nothing is said about its calibration."""
    rng = np.random.default_rng(0)
    n = 3000
    q = rng.beta(0.4, 0.4, n)
    y = (rng.random(n) < q).astype(int)
    found = paired_difference(y, q, np.full(n, y.mean()), error="binary", names=("sharp", "flat"))
    loss, calibration = found.conclusions
    assert loss == "sharp predicts better than flat: smaller loss"
    assert "no significant difference in calibration" in calibration
    loss_line = repr(found).splitlines()[1]
    assert "calibrat" not in loss_line and "better calibrated" not in repr(found)
    off = paired_difference(y, expit(logit(q.clip(1e-9, 1 - 1e-9)) / 4), q, error="binary", names=("off", "true"))
    assert off.conclusions[1] == "true is closer to calibrated than off: smaller gap"


def test_a_gap_of_seven_points_is_smaller_than_one_of_ten_whatever_the_cells():
    """Equal-width bins: one model's predictions crowd a few cells, so its U is larger though its gap is smaller."""
    rng = np.random.default_rng(0)
    n = 4000
    q = rng.uniform(0.2, 0.8, n)
    y = (rng.random(n) < q).astype(int)
    wide = np.clip(q + 0.10, 0, 1)  # ten points off, over many cells
    narrow = np.full(n, q.mean() + 0.07) + 0.001 * rng.normal(size=n)  # seven points off, in one or two
    error = tc.CalibrationError(tc.Binary(), tc.EqualWidth(15))
    found = paired_difference(y, narrow, wide, error=error, n_bins=None, names=("narrow", "wide"))
    assert found.U.estimate > 0 > found.gap_sq.estimate
    assert found.conclusions[1] == "narrow is closer to calibrated than wide: smaller gap"


def test_conclusions_withhold_what_is_not_to_be_trusted():
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(2), np.ones(98)].astype(int)
    a, b = rng.uniform(0.985, 0.999, 100), rng.uniform(0.95, 0.97, 100)
    found = paired_difference(y, a, b, error="binary", n_bins=15)
    assert found.conclusions[1].startswith("no conclusion about calibration: unreliable: too few surprising")
    few = paired_difference(y, a, b, error="binary", n_bins=2, groups=np.arange(100) % 5)
    assert "too few rows or clusters" in few.conclusions[1]
    outcomes = rng.normal(size=60)
    real = paired_difference(outcomes, outcomes * 0, outcomes / 2, error=_real(), n_bins=5)
    assert real.conclusions[0].startswith("no conclusion about loss: the outcomes are unbounded")


def _real() -> tc.CalibrationError:
    return tc.CalibrationError(tc.properties.Outcomes((-9.0, 9.0)), tc.Quantile(5))


def test_rows_that_differ_alike_are_told_from_none():
    """Three rows that all came true: the differences are equal, which is no evidence."""
    found = paired_difference([1, 1, 1], [0.4] * 3, [0.9] * 3, error="binary", n_bins=1)
    assert found.loss.low < 0 < found.loss.high and "no significant difference in loss" in found.conclusions[0]
    assert "no conclusion about calibration" in found.conclusions[1]


def test_weights_choose_the_loss_that_people_mean():
    """The difference is the w-weighted mean of losses, not the w²-weighted one, which here has the other sign."""
    y, a, b, w = heavy_rows()
    found = paired_difference(y, a, b, error="binary", sample_weight=w)
    values = (a - y) ** 2 - (b - y) ** 2
    assert found.loss.estimate == pytest.approx(np.average(values, weights=w)) and found.loss.estimate > 0
    assert np.average(values, weights=w**2) < 0
    assert found.loss.beyond_noise


def heavy_rows():
    """One model is better in the many light rows, the other in the few heavy ones."""
    rng = np.random.default_rng(0)
    n = 8000
    w = np.where(np.arange(n) < 400, 5.0, 1.0)
    q = rng.uniform(0.1, 0.9, n)
    y = (rng.random(n) < q).astype(int)
    noise = 0.5 + 0.2 * (q - 0.5)
    return y, np.where(w > 1, q, noise), np.where(w > 1, noise, q), w


def test_clusters_and_rows_agree_where_clusters_are_single_rows():
    y, a, b = pair_of_predictors()
    rows, own = (paired_difference(y, a, b, n_bins=6, groups=g) for g in (None, np.arange(300)))
    for name in PARTS:
        x, z = getattr(rows, name), getattr(own, name)
        assert (x.estimate, x.low, x.high) == pytest.approx((z.estimate, z.low, z.high))


def test_n_bins_is_automatic_unless_given():
    z, y = world(n=300)
    assert paired_difference(y, softmax(z), softmax(2 * z)).n_bins == auto_bins(300, 4)
    assert [d.n_bins for d in paired_difference(y, softmax(z), softmax(2 * z), n_bins=(5, 9))] == [5, 9]


def test_the_parts_of_a_top_label_comparison():
    y, p = rows_of(3, 200, 1, tied=False)
    other = softmax(2 * np.log(p))
    correct, first, second = p.argmax(axis=1) == y, p.max(axis=1), other.max(axis=1)
    found = paired_difference(correct, first, second, error="top_label", n_bins=6)
    whole = paired_difference(y, p, other, error="confidence", n_bins=6)
    assert found.loss.estimate == pytest.approx(whole.loss.estimate)
    assert found.gap_sq.estimate == pytest.approx(whole.gap_sq.estimate)


def test_gaps_are_not_compared_where_few_rows_differ():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.2, 0.8, 400)
    y = (rng.random(400) < p).astype(int)
    other = p.copy()
    other[:4] = 1 - other[:4]
    found = tc.paired_difference(y, p, other, error="binary")
    assert "the models differ in about" in found.conclusions[1] and not found.gap_sq.beyond_noise
    assert not tc.paired_difference(y, p, np.clip(p + 0.1, 0, 1), error="binary").gap_sq.note
    pair = tc.compare(y, {"a": p, "b": other}, errors=["binary"]).pairs[0]
    assert "the models differ in about" in pair.gap_sq.note
