"""A property written in this file alone, ordered classes, works everywhere: no code asks which property it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.baselines import ERRORS
from truecal.core.errors import COMPOSED
from truecal.core.properties import OfDistributions
from truecal.core.sample import Sample, unit_weights


@final
@dataclass(frozen=True)
class Ordered(OfDistributions):
    """k − 1 views of ordered classes: the probability of class j or below, against whether one of them came."""

    kind = "ordered"
    kinds = ("multiclass",)

    def views(self, classes: int) -> int:
        return classes - 1

    def score_unit(self, views: int) -> float:
        return float(views)

    def sample(self, y: Any, reports: Any, weights: Any = None) -> Sample:
        below = np.cumsum(reports, axis=1)[:, :-1].clip(0.0, 1.0)
        came = np.asarray(self.drawn(y, reports.shape[1])) if y.ndim == 1 else np.cumsum(y, axis=1)[:, :-1]
        about: dict[str, Any] = {"distributions": reports, "labels": y} | unit_weights(weights)
        return Sample(self.kind, below, values=came.astype(np.float64), **about)

    def drawn(self, labels: Any, classes: int) -> Any:
        return labels[..., None] <= np.arange(classes - 1)


@pytest.fixture(autouse=True)
def ordered(monkeypatch):
    error = tc.CalibrationError(Ordered(), tc.Quantile())
    for names in (COMPOSED, ERRORS):
        monkeypatch.setitem(names, "ordered", error)
    return error


@pytest.fixture
def world(rng):
    p = rng.dirichlet([1.0, 2.0, 1.0, 0.5], 2000)
    y = np.array([rng.choice(4, p=row) for row in p])
    sharp = p**2
    return y, p, sharp / sharp.sum(axis=1, keepdims=True)


def by_hand(y, p, bins):
    """The mean over views of the squared error of quantile bins, by loops over one view at a time."""
    found = []
    for j in range(p.shape[1] - 1):
        error = tc.CalibrationError(tc.Binary(), tc.Quantile(bins))
        found.append(error((y <= j).astype(int), p[:, : j + 1].sum(axis=1).clip(0, 1)))
    return np.mean(found)


def test_its_error_is_the_mean_over_its_views(world, ordered):
    y, p, _ = world
    assert_close(ordered.with_bins(12)(y, p), by_hand(y, p, 12))
    weights = np.linspace(0.5, 2, len(y))
    assert ordered(y, p, sample_weight=weights) > 0 and ordered.truthful


def test_the_score_is_the_ranked_probability_score_plus_the_squared_gap(world):
    y, p, _ = world
    below = np.cumsum(p, axis=1)[:, :-1]
    rps = np.square(below - (y[:, None] <= np.arange(3))).sum(axis=1).mean()
    parts: Any = tc.decompose(y, p, error="ordered")
    assert_close(parts.score, rps + 3 * np.sign(parts.gap) * (parts.gap / 100) ** 2)
    assert_close(tc.score(y, p, error="ordered"), parts.score)


def test_gap_interval_and_test_tell_the_calibrated_from_the_sharp(world):
    y, p, sharp = world
    gap = tc.gap(y, sharp, error="ordered")
    assert gap.low > 1 and gap.low < gap.points < gap.high
    assert tc.gap(y, p, error="ordered").low < 1
    assert tc.calibration_test(y, sharp, error="ordered", n_resamples=99).pvalue == pytest.approx(0.01)
    assert tc.calibration_test(y, p, error="ordered", n_resamples=99).pvalue > 0.02
    assert tc.paired_difference(y, p, sharp, error="ordered").loss.high < 0


def test_evaluate_measures_it_beside_the_others(world):
    y, p, sharp = world
    found = tc.evaluate(y, sharp, errors=["classwise", "ordered"], n_resamples=99)
    assert_close(found.gaps["ordered"].points, tc.gap(y, sharp, error="ordered").points)
    row = next(row for row in found.rows("ordered") if row.headline)
    assert_close(row.score, tc.score(y, sharp, error="ordered"))
    assert found.reliability["ordered"].table.views == 3
    both: Any = tc.compare(y, {"p": p, "sharp": sharp}, errors=["ordered"], n_resamples=99)
    assert both.evaluations["p"].rows("ordered")[0].score < both.evaluations["sharp"].rows("ordered")[0].score


def test_a_stream_gives_the_same_numbers(world):
    y, p, _ = world
    stream = tc.stream("ordered", n_bins=10, edges="uniform")
    for rows in np.split(np.arange(len(y)), 4):
        stream.update(y[rows], p[rows])
    uniform = tc.CalibrationError(Ordered(), tc.EqualWidth(10))
    row = stream.result().rows("ordered")[0]
    assert_close(row.value, uniform(y, p))
    assert_close(row.score, uniform(y, p, scale="score"))
