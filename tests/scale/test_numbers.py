"""A stream of forecasts of a number gives the numbers of memory, with equal and with unequal steps of thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import truecal
from closeness import assert_close

tc: Any = truecal  # what a test hands in need not be of the right type

EVEN, UNEVEN = np.linspace(-4.0, 4.0, 9), np.array([-4.0, -3.0, -1.0, -0.5, 0.0, 0.25, 2.0, 5.0])
BATCHES = np.split(np.arange(600), [100, 350])


def world(rng: Any, n: int = 600) -> tuple[Any, Any, Any]:
    mean, sd = 2 * rng.standard_normal(n), rng.uniform(0.5, 1.5, n)
    return rng.normal(mean, sd), mean + 0.3, sd / 1.3


def fed(stream: Any, y: Any, mean: Any, sd: Any, w: Any = None) -> Any:
    for rows in BATCHES:
        forecast = tc.forecasts.normal(mean[rows], sd[rows])
        stream.update(y[rows], forecast, sample_weight=None if w is None else w[rows])
    return stream


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("at", [EVEN, UNEVEN], ids=["even", "uneven"])
def test_a_stream_of_forecasts_gives_the_numbers_of_memory(rng, tmp_path, at, weighted):
    y, mean, sd = world(rng)
    w = rng.uniform(0.5, 2, 600) if weighted else None
    stream = fed(tc.stream(thresholds=at, n_bins=10, edges="uniform"), y, mean, sd, w)
    stream.save(tmp_path / "state.npz")
    found = tc.Stream.load(tmp_path / "state.npz").result()
    metric = tc.CalibrationError(tc.properties.Distribution(at), tc.EqualWidth(10))
    forecast = tc.forecasts.normal(mean, sd)
    parts = metric.decompose(y, forecast, sample_weight=w)
    whole = tc.evaluate(y, forecast, thresholds=at, sample_weight=w, n_resamples=99)
    assert found.kind == "distribution" and found.n_classes == len(at)
    assert_close(found.score, parts.score)
    assert_close(found.gap.points, parts.gap)
    assert_close(found.loss("crps").value, whole.loss("crps").value)
    assert_close(found.direction.gap, whole.direction.gap)
    assert found.direction.place == whole.direction.place == " on the scale"
    assert [view.name for view in found.views] == [view.name for view in whole.views]
    for one, other in zip(found.views, whole.views, strict=True):
        assert_close((one.frequency, one.mean_report), (other.frequency, other.mean_report))
    assert found.gap.low < whole.gap.high and whole.gap.low < found.gap.high
    assert_close(found.score_gap, found.score - found.loss("crps").value)


def test_quantile_bins_of_a_single_pass_are_those_of_memory(rng):
    y, mean, sd = world(rng)
    kept = fed(tc.stream("distribution", thresholds=UNEVEN, n_bins=8), y, mean, sd)
    first = tc.stream("distribution", thresholds=UNEVEN, n_bins=8)
    first.observe(tc.forecasts.normal(mean, sd))
    found, observed = kept.result(), fed(first.freeze(), y, mean, sd).result()
    memory = tc.evaluate(y, tc.forecasts.normal(mean, sd), thresholds=UNEVEN, n_bins=8, n_resamples=99)
    assert_close(found.score, memory.score, scale=1.0, tolerance=1e-6)  # edges between the same two predictions
    assert abs(observed.score - memory.score) < 0.01


def test_merged_streams_are_one_and_every_form_is_read(rng):
    y, mean, sd = world(rng)
    whole = fed(tc.stream(thresholds=UNEVEN, n_bins=10, edges="uniform"), y, mean, sd)
    forms: list[Any] = [
        tc.forecasts.normal(mean[BATCHES[0]], sd[BATCHES[0]]),
        stats.norm(mean[BATCHES[1]], sd[BATCHES[1]]),
        [stats.norm(a, b) for a, b in zip(mean[BATCHES[2]], sd[BATCHES[2]], strict=True)],
    ]
    parts = [tc.stream(thresholds=UNEVEN, n_bins=10, edges="uniform") for _ in forms]
    for part, rows, form in zip(parts, BATCHES, forms, strict=True):
        part.update(y[rows], form)
    merged = parts[0].merge(parts[1]).merge(parts[2])
    assert merged.rows == 600
    assert_close(merged.result().score, whole.result().score)
    assert_close(merged.result().gap.high, whole.result().gap.high, tolerance=1e-9)
    with pytest.raises(ValueError, match="cannot merge streams of different thresholds"):
        parts[0].merge(tc.stream(thresholds=EVEN, n_bins=10, edges="uniform"))


def test_streams_without_thresholds_say_so():
    with pytest.raises(ValueError, match="moving them would pay"):
        tc.stream("distribution")
    with pytest.raises(ValueError, match="thresholds cannot apply to 'classwise'"):
        tc.stream("classwise", thresholds=[0.0, 1.0])
    with pytest.raises(ValueError, match="thresholds must increase"):
        tc.stream(thresholds=[1.0, 0.0])
    stream = tc.stream(thresholds=[0.0, 1.0], n_bins=4, edges="uniform")
    with pytest.raises(ValueError, match=r"row 0 decreases from threshold 0 to 1"):
        stream.update([0.5], [[0.6, 0.4]])
    with pytest.raises(ValueError, match="the 2 thresholds"):
        stream.update([0.5], [[0.2, 0.4, 0.6]])
    assert stream.rows == 0


def test_losses_of_many_views_are_saved(tmp_path, rng):
    """Losses add up over views: a block may have more than its rows."""
    stream = tc.stream("labelwise", n_bins=4, edges="uniform")
    y = np.ones((4, 200), dtype=int)
    y[:, 0] = 0
    stream.update(y, np.full((4, 200), 0.01))
    stream.save(tmp_path / "state.npz")
    assert tc.Stream.load(tmp_path / "state.npz").rows == 4
