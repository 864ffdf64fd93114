"""Pictures of segments, thresholds, estimates and repairs draw what they are given."""

from __future__ import annotations

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pytest

import truecal as tc
from truecal.render import plots


@pytest.fixture
def ax():
    figure, axes = plt.subplots()
    yield axes
    plt.close(figure)


def world(n=1200):
    rng = np.random.default_rng(0)
    side = rng.choice(["left $1", "right"], n)
    q = rng.beta(0.5, 0.5, n)
    return (rng.random(n) < q).astype(int), np.clip(q + 0.2 * (side == "right"), 0, 1), {"side": side}


def test_segments_are_sorted_by_their_gap(ax):
    y, p, features = world()
    found = tc.segments(y, p, features, n_resamples=99)
    found.plot(ax=ax)
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names[-1] == "finding 1: side = right" and "side = left \\$1" in names
    gaps = [line.get_xdata()[0] for line in ax.get_lines() if len(line.get_xdata()) == 1]
    assert gaps == sorted(gaps) and max(gaps) == found.findings[0].segment.gap
    assert len(plots.segments(found, most=2, ax=ax).get_yticklabels()) == 2


def test_threshold_draws_the_curve_and_the_choice(ax):
    y, p, _ = world()
    found = tc.threshold(y, p, risk=0.3)
    found.plot(ax=ax)
    lines = {line.get_label(): line for line in ax.get_lines()}
    np.testing.assert_array_equal(lines["observed error"].get_ydata(), found.risks)
    np.testing.assert_array_equal(lines["expected by the model"].get_ydata(), found.expectations)
    assert "no threshold" in tc.threshold(y, p, risk=0.0001).plot(ax=ax).get_title()


def test_estimates_and_repairs_have_a_line_each(ax):
    y, p, _ = world()
    ax = tc.estimate(y[:300], p[:300], p[300:]).plot(ax=ax)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["Brier score", "positive rate", "accuracy"]
    found = tc.monitor().advise(y, p)
    own = found.plot()
    assert own.get_title().endswith(found.best) and len(own.get_yticklabels()) == 5
    plt.close(own.figure)
