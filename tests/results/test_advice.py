"""What to do now: at most three lines, each of what was measured; and how many rows a gap needs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import chi2, ncx2, norm

import truecal as tc
from conclusion_worlds import planned_power
from truecal.report import render_report


def world(n=2500, seed=0, temperature=1.8):
    rng = np.random.default_rng(seed)
    q = rng.beta(0.4, 0.4, n)
    side = rng.choice(["left", "right", "top"], n)
    u = np.where(side == "left", expit(logit(q) + 0.9), expit(temperature * logit(q)))
    return (rng.random(n) < q).astype(int), np.clip(u, 1e-6, 1 - 1e-6), {"side": side}


@pytest.mark.slow
def test_three_lines_of_what_was_found():
    y, p, features = world(6000)
    result = tc.evaluate(y, p, features=features, advise=True, errors=["binary"], n_resamples=99)
    first, second = result.advice[:2]
    assert first.startswith("Recalibrate: ") and "points, score" in first
    assert second.startswith("Look at side = ") and len(result.advice) <= 3
    assert f"→ {first}" in repr(result) and "Recalibrate" in result._repr_html_()
    assert result.to_dict()["advice"] == list(result.advice)
    page = render_report(result)
    assert "What should I do now?" in page and "Look at side = " in page


def test_a_threshold_is_named_where_one_keeps_its_promise():
    rng = np.random.default_rng(2)
    p = rng.beta(0.3, 0.3, 4000)
    result = tc.evaluate(rng.random(4000) < p, p, advise=True, errors=["binary"], n_resamples=99)
    assert result.advice[0].startswith("Accept predictions with a confidence of at least")


def test_a_calibrated_model_with_few_rows_should_see_more():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.3, 0.7, 400)
    result = tc.evaluate(rng.random(400) < p, p, advise=True, errors=["binary"], n_resamples=99)
    (line,) = result.advice
    needed = tc.rows_needed(2, y_proba=p)
    assert line == f"Collect {needed - 400:,} more rows to see a gap of 2 points with a chance of 80%."


@pytest.mark.slow
def test_advice_is_given_where_less_applies():
    y, p, _ = world(300)
    cases: list[dict[str, Any]] = [{"groups": np.arange(300) // 2}, {"sample_weight": np.ones(300)}]
    for options in cases:
        result = tc.evaluate(y, p, advise=True, errors=["binary"], n_resamples=19, **options)
        assert 1 <= len(result.advice) <= 3
        assert "groups" not in options or not any("Recalibrate" in line for line in result.advice)
    both = np.column_stack([1 - p, p])
    assert 1 <= len(tc.evaluate(both, both, advise=True, errors=["classwise"]).advice) <= 3
    assert tc.evaluate(y, p, errors=["binary"], n_resamples=19).advice == ()


def test_rows_needed_has_the_wanted_power():
    n = tc.rows_needed(5, 0.9, alpha=0.01)
    for rows, enough in ((n, True), (n - 1, False)):
        m = rows**0.4
        power = 1 - ncx2.cdf(chi2.ppf(1 - 0.01 * 2 / 11, m), m, rows * 0.05**2 / 0.25)
        assert (power >= 0.9) == enough
    assert tc.rows_needed(5, shape="level") == np.ceil((norm.isf(0.05 * 2 / 11) + 0.8416212) ** 2 * 0.25 / 0.05**2)
    assert tc.rows_needed(2, y_proba=[[0.9, 0.1]]) == tc.rows_needed(2, y_proba=[0.9]) < tc.rows_needed(2)
    wrong: list[dict[str, Any]] = [{"gap": 0}, {"power": 1.0}, {"shape": "x"}]
    for options in wrong:
        with pytest.raises(ValueError, match="must"):
            tc.rows_needed(**options)


def test_a_level_is_seen_with_the_wanted_power_by_the_test_that_is_run():
    """The formula of one test alone gave .65 to .73."""
    rows, power = planned_power("level", 15, 60)
    assert rows == tc.rows_needed(15, shape="level") and power >= 0.71


@pytest.mark.heavy
def test_the_gap_is_seen_with_the_wanted_power():
    rng = np.random.default_rng(3)
    n, seen = tc.rows_needed(8), 0
    for seed in range(100):
        p = rng.uniform(0.3, 0.7, n)
        y = rng.random(n) < p + np.where(p > 0.5, 0.08, -0.08)
        seen += tc.calibration_test(y, p, error="binary", n_resamples=99, seed=seed).pvalue <= 0.05
    assert 0.65 <= seen / 100 <= 0.95


@pytest.mark.slow
def test_names_of_features_are_text():
    y, p, features = world()
    hostile = {"<script>x</script>": np.where(features["side"] == "left", "<b>", "'\"&")}
    result = tc.evaluate(y, p, features=hostile, advise=True, errors=["binary"], n_resamples=99)
    page = render_report(result)
    assert result.segments is not None and result.segments.findings
    assert "<script>x" not in page and "&lt;script&gt;x" in page
    assert "<script>x" not in result._repr_html_()
