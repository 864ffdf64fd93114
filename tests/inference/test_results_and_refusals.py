"""Results are plain numbers and escaped text; one seed gives one answer; bad input gets one clear error."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import truecal as tc
from inference_cases import rows_of
from truecal import calibration_test, gap
from truecal.analysis import consistency_bands, mean_gap

confidence_interval: Any = tc.confidence_interval  # wrong options are the point
paired_difference: Any = tc.paired_difference


def test_results_are_plain_numbers_and_escaped_text():
    y, p = rows_of(3, 40, 0)
    results = [
        calibration_test(y, p, n_resamples=9),
        calibration_test(y, p, n_bins=(3, 5), n_resamples=9),
        confidence_interval(y, p),
        confidence_interval(y, p, error="confidence_l1", n_resamples=39),
        paired_difference(y, p, p, names=("<a>", "b")),
        paired_difference([1] * 3, [0.9] * 3, [0.4] * 3, error="binary"),
        confidence_interval(y, p, error="confidence_l1", n_resamples=39).band,
        consistency_bands(y, p, n_resamples=39),
        consistency_bands(y, p, error=tc.CalibrationError(tc.Confidence(), tc.EqualWidth(9))),  # empty bins
        calibration_test([1], [[0.2, 0.8]], n_resamples=9),
        mean_gap(y, p),
        mean_gap([1], [[0.2, 0.8]]),
        gap(y, p),
    ]
    for result in results:
        assert json.loads(json.dumps(result.to_dict(), allow_nan=False))
        html = result._repr_html_()
        assert html.startswith('<pre style="white-space: pre-wrap">') and "<a>" not in html


@pytest.mark.slow
def test_same_seed_same_answer_other_seed_other_draws():
    y, p = rows_of(3, 40, 0)
    for call in (
        lambda seed: confidence_interval(y, p, error="confidence_l1", n_resamples=39, seed=seed),
        lambda seed: consistency_bands(y, p, error="classwise", sample_weight=np.arange(1, 41), seed=seed),
        lambda seed: calibration_test(y, p, n_bins=5, seed=seed),
        lambda seed: calibration_test(y, p, seed=seed),
    ):
        assert call(4) == call(4) != call(5) and len({call(4), call(4)}) == 1


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda y, p: calibration_test(y, p, n_resamples=0), "resamples must be at least 1"),
        (lambda y, p: calibration_test(y, p, seed=-1), "seed must be a whole number"),
        (lambda y, p: calibration_test(y, p, sampler=lambda rng: y), "sampler cannot be used"),
        (lambda y, p: calibration_test(p[:, 0], p[:, 1], error="linear"), "pass sampler="),
        (
            lambda y, p: calibration_test(p[:, 0], p[:, 1], error="linear", sampler=lambda rng: [1.0]),
            "finite outcomes of shape",
        ),
        (lambda y, p: calibration_test(y, p, error="nonsense"), "error must be one of"),
        (lambda y, p: confidence_interval(y, p, level=95), "level must lie strictly between"),
        (lambda y, p: confidence_interval(y, p, what="V"), "what must be"),
        (lambda y, p: confidence_interval(y, p, groups=[1, 2]), "groups must give each of the 12 rows"),
        (lambda y, p: confidence_interval(y, p, groups=np.arange(12) % 2), "at least 3 different values"),
        (lambda y, p: paired_difference(y, p, p, names=("a",)), "names must be two strings"),
        (lambda y, p: paired_difference(y, p, p[:5]), "numbers of rows disagree"),
        (lambda y, p: consistency_bands(y, p, error="classwise_two_bin"), "averages over cuts"),
        (lambda y, p: consistency_bands(y, p, error="classwise", classes=7), "classes must be columns in 0..2"),
        (lambda y, p: consistency_bands(y, p, error="confidence", classes=0), "classes cannot be used"),
        (lambda y, p: consistency_bands(p[:, 0], p[:, 1], error="linear"), "needs 0/1 outcomes"),
        (lambda y, p: confidence_interval(y, p, error="confidence_l1", groups=np.arange(12)), "groups cannot be used"),
        (lambda y, p: confidence_interval(y, p, what="within"), "pass groups"),
        (lambda y, p: calibration_test(y, p, n_bins=(5, 3, 5)), "different counts, got 5 twice"),
        (lambda y, p: confidence_interval(y, p, n_bins=(5, 5)), "different counts"),
        (lambda y, p: paired_difference(y, p, p, n_bins=(5, 5)), "different counts"),
        (lambda y, p: confidence_interval(y, p, error="confidence_l1", n_resamples=1), "n_resamples=39, got 1"),
    ],
)
def test_bad_input_gets_one_clear_error(call, words):
    y, p = rows_of(3, 12, 0)
    with pytest.raises((ValueError, TypeError), match=words):
        call(y, p)


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_rows_have_an_answer_and_a_note(n):
    y, p = rows_of(3, n, 0)
    assert "unreliable" in confidence_interval(y, p, n_bins=5).note
    assert "unreliable" in gap(y, p).note


def test_several_labels_per_row_are_refused_where_one_is_needed():
    y, p = np.array([[1, 1], [0, 1], [1, 0]] * 50), np.array([[0.9, 0.8], [0.2, 0.7], [0.6, 0.1]] * 50)
    features = {"place": ["north", "south", "west"] * 50}
    for what, call in (
        ("segments", lambda: tc.segments(y, p, features)),
        ("estimate", lambda: tc.estimate(y, p, p)),
        ("a monitor", lambda: tc.monitor().update(y, p)),
        ("advice", lambda: tc.monitor().advise(y, p)),
    ):
        with pytest.raises(ValueError, match=f"{what} needs one label per row; these are multilabel predictions"):
            call()


def test_options_that_would_take_minutes_on_few_rows_are_refused_with_a_size_that_does_not():
    rng = np.random.default_rng(0)
    p, w = rng.dirichlet(np.ones(3000), 20), np.ones(20) + rng.random(20)
    y, wide = rng.integers(0, 3000, 20), range(1, 101)
    for function in (gap, confidence_interval, calibration_test):
        with pytest.raises(ValueError, match="n_bins asks for 5,430,000 bins in all, over 100 counts"):
            function(y, p, error="classwise", n_bins=wide)
    with pytest.raises(ValueError, match="bins in all, over 199 counts"):  # two rows cost as much
        confidence_interval(y[:2], p[:2], error="classwise", n_bins=range(1, 200))
    with pytest.raises(ValueError, match=r"n_resamples=99,999 draws of .* take fewer bin counts, or at most"):
        calibration_test(y, p, error="classwise", n_bins=range(1, 21), n_resamples=99_999)
    with pytest.raises(ValueError, match="n_resamples=999 draws of weighted rows for 3,000 classes: pass classes="):
        consistency_bands(y, p, error="classwise", sample_weight=w)
    assert consistency_bands(y, p, error="classwise", sample_weight=w, classes=[1], n_bins=2).classes == (1,)
