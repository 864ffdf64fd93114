"""evaluate, compare, streams, scorers and reports of ordered classes, several labels, images and forecasts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit

import truecal
from closeness import assert_close

tc: Any = truecal  # what a test hands in need not be of the right type


@pytest.fixture
def grades(rng):
    p = rng.dirichlet([1.0, 2.0, 1.0, 0.5], 800)
    y = (p.cumsum(axis=1) < rng.random((800, 1))).sum(axis=1).clip(0, 3)
    raised = np.column_stack([np.zeros(800), p[:, :-2], p[:, -2:].sum(axis=1)])
    return y, p, 0.5 * p + 0.5 * raised


@pytest.fixture
def tags(rng):
    p = expit(rng.standard_normal((600, 4)))
    y = (rng.random((600, 4)) < p).astype(int)
    off = p.copy()
    off[:, 2] = expit(logit(p[:, 2]) + 1.0)
    return y, p, off


# -- ordered classes ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ordered_classes_are_ranked_by_rps_and_placed_on_their_scale(grades):
    y, p, high = grades
    found = tc.evaluate(y, high, task="ordered", n_resamples=99)
    assert found.headline == "ordinal" and found.direction.word == "too high on the scale"
    assert_close(found.score, tc.score(y, high, error="ordinal"))
    assert_close(found.score - found.score_gap, tc.losses.rps(y, high))
    assert found.gap.points == pytest.approx(tc.gap(y, high, error="ordinal").points)
    assert "RPS" in repr(found) and "too high on the scale" in found.verdict.calibration
    assert [view.name for view in found.views] == ["class 0 or below", "class 1 or below", "class 2 or below"]
    assert all(view.gap.direction.startswith("too low") for view in found.views)  # of a class or below, too low
    both = tc.compare(y, {"true": p, "high": high}, task="ordered", n_resamples=99)
    assert [row["model"] for row in both.leaderboard()] == ["true", "high"]
    assert "RPS" in both.verdict.predictive and "RPS" in both._repr_html_()


def test_calibrated_ordered_classes_have_no_direction(grades):
    y, p, _ = grades
    found = tc.evaluate(y, p, task="ordered", n_resamples=99, labels=None)
    assert found.direction.word == "no clear direction" and found.test.pvalue > 0.05
    assert found.reliability["ordinal"].low is not None  # bands of every threshold


def test_names_of_ordered_classes_name_the_thresholds(grades):
    y, p, _ = grades
    names = np.array(["bad", "fair", "good", "best"])
    found = tc.evaluate(names[y], p, task="ordered", labels=names, n_resamples=99)
    assert found.views[1].name == "fair or below"
    assert_close(found.score, tc.score(y, p, error="ordinal"))


def test_a_stream_of_ordered_classes_gives_the_same_numbers(grades, tmp_path):
    y, _, high = grades
    stream = tc.stream(["ordinal", "confidence"], n_bins=10, edges="uniform")
    for rows in np.split(np.arange(len(y)), 4):
        stream.update(y[rows], high[rows])
    stream.save(tmp_path / "state.npz")
    found = tc.Stream.load(tmp_path / "state.npz").result()
    whole = tc.evaluate(y, high, task="ordered", n_resamples=99)
    uniform = tc.CalibrationError(tc.properties.Cumulative(), tc.EqualWidth(10))
    assert_close(found.score, uniform(y, high, scale="score"))
    assert_close(found.loss("rps").value, whole.loss("rps").value)
    assert_close(found.direction.gap, whole.direction.gap)
    assert found.kind == "ordered" and found.direction.place == whole.direction.place


def test_task_must_be_known_and_apply(grades):
    y, p, _ = grades
    with pytest.raises(ValueError, match="task must be one of 'auto', 'ordered', 'ordinal', 'multilabel'"):
        tc.evaluate(y, p, task="ordinary")
    with pytest.raises(ValueError, match="needs the probabilities of all classes"):
        tc.evaluate(None, (y == 0, p[:, 0]), task="ordered")


# -- several labels ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_labels_are_listed_worst_first_and_tested_one_by_one(tags):
    y, p, off = tags
    found = tc.evaluate(y, off, labels=list("abcd"), n_resamples=399)
    assert found.kind == "multilabel" and found.views[0].name == "c"
    assert found.views[0].gap.direction == "too high" and found.views[0].pvalue == pytest.approx(4 / 400)
    assert found.test.pvalue == found.views[0].pvalue and found.test.strongest.startswith("c: ")
    assert found.test.floor == pytest.approx(4 / 400)
    assert all(view.pvalue > 0.05 for view in found.views[1:])
    assert_close(found.score, tc.score(y, off, error="labelwise"))
    assert_close(found.loss("brier").value, np.mean((off - y) ** 2))
    assert np.isnan(found.accuracy) and "4 labels" in repr(found)
    frame = found.to_pandas("views")
    assert frame["name"].tolist()[0] == "c" and frame["frequency"][0] == pytest.approx(y[:, 2].mean())
    both = tc.compare(y, {"true": p, "off": off}, n_resamples=399)
    assert both.verdict.rejected == ("off",) and both.verdict.best == ("true",)


def test_a_table_of_single_labels_is_read_as_told(tags):
    """Rows that sum to 1 may be shares of one label, or several labels: `task` decides."""
    y, p, _ = tags
    single, whole = np.eye(4)[y.argmax(axis=1)], p / p.sum(axis=1, keepdims=True)
    assert tc.evaluate(single, whole, n_resamples=99).kind == "multiclass"
    assert tc.evaluate(single, whole, task="multilabel", n_resamples=99).kind == "multilabel"


def test_the_test_of_labels_is_the_smallest_corrected_pvalue(tags):
    y, _, off = tags
    test = tc.calibration_test(y, off, error="labelwise", n_resamples=99)
    assert test.pvalue == pytest.approx(4 / 100) and len(test.details) == 4
    with pytest.raises(ValueError, match="labels are tested one by one"):
        tc.calibration_test(y, off, error="labelwise", n_bins=5)


def test_many_labels_get_enough_draws_to_reject():
    """999 draws of 60 labels would give p ≥ 0.06 after the correction, however wrong a label is."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.6, (200, 60))
    y = rng.random((200, 60)) < p
    p[:, 0] += 0.35
    test = tc.calibration_test(y, p, error="labelwise")
    assert test.verdict == "no" and test.n_resamples == 2400
    assert tc.calibration_test(y, p, error="labelwise", n_resamples=999).verdict == "untested"


def test_a_model_is_calibrated_only_if_no_single_label_allows_a_large_gap():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 0.9, (400, 8))
    y = rng.random((400, 8)) < p
    found = tc.evaluate(y, p, labels=list("abcdefgh"), n_resamples=199)
    test = tc.calibration_test(y, p, labels=list("abcdefgh"), error="labelwise", n_resamples=199)
    assert found.gap.high < 10 < max(view.gap.high for view in found.views)
    worst = max(found.views, key=lambda view: view.gap.high)
    assert found.standing.words.endswith(f"points ({worst.name})") and found.standing.answer == "undecided"
    assert f"points ({worst.name})." in found.explain()
    assert test.standing.words == found.standing.words


def test_holm_corrects_by_what_is_left():
    from truecal.inference.label_tests import holm

    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


def test_a_stream_of_labels_gives_the_same_numbers(tags):
    y, _, off = tags
    stream = tc.stream("labelwise", n_bins=10, edges="uniform")
    for rows in np.split(np.arange(len(y)), 4):
        stream.update(y[rows], off[rows])
    found = stream.result()
    uniform = tc.CalibrationError(tc.properties.Labelwise(), tc.EqualWidth(10))
    assert_close(found.score, uniform(y, off, scale="score"))
    assert_close(found.loss("brier").value, np.mean((off - y) ** 2))
    for view in found.views:
        j = int(view.name.removeprefix("label "))
        one = tc.CalibrationError(tc.Binary(), tc.EqualWidth(10)).decompose(y[:, j], off[:, j])
        assert view.gap.points == pytest.approx(one.gap) and view.gap.low <= view.gap.points <= view.gap.high
        assert view.frequency == pytest.approx(y[:, j].mean()) and view.mean_report == pytest.approx(off[:, j].mean())
    assert found.views[0].name == "label 2" and found.views[0].gap.direction == "too high"
    quantiles = tc.stream("labelwise")
    quantiles.update(y, off)
    assert quantiles.result().gap.low > 1


@pytest.mark.slow
def test_a_scorer_takes_classifiers_of_several_labels():
    pytest.importorskip("sklearn")
    from sklearn.datasets import make_multilabel_classification
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.multioutput import MultiOutputClassifier

    X, y = make_multilabel_classification(200, n_classes=3, random_state=0)
    scorer = tc.scorer("score", error="labelwise")
    for wrapper in (MultiOutputClassifier, OneVsRestClassifier):
        model = wrapper(LogisticRegression()).fit(X, y)
        proba = model.predict_proba(X)
        assert_close(scorer(model, X, y), -tc.score(y, proba, error="labelwise"))
        assert_close(tc.evaluate(y, model, X=X, n_resamples=99).score, tc.score(y, proba, error="labelwise"))


# -- images ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def images(rng):
    p = rng.dirichlet([1.0, 1.0, 1.0], (6, 5, 4))
    y = (p.cumsum(axis=-1) < rng.random((6, 5, 4, 1))).sum(axis=-1).clip(0, 2)
    y[:, 0] = 255
    return y, p**2 / (p**2).sum(axis=-1, keepdims=True)


@pytest.mark.slow
def test_images_are_rows_with_their_images_as_groups(images):
    y, p = images
    kept = y.reshape(-1) != 255
    rows, groups = p.reshape(-1, 3)[kept], np.repeat(np.arange(6), 20)[kept]
    flat = tc.evaluate(y.reshape(-1)[kept], rows, groups=groups, n_resamples=99)
    for given in (p, np.moveaxis(p, -1, 1)):
        found = tc.evaluate(y, given, ignore_index=255, n_resamples=99)
        assert_close(found.score, flat.score)
        assert_close(found.gap.points, flat.gap.points)
        assert {view.name for view in found.views} == {"class 0", "class 1", "class 2"}
        assert any("96 pixels of 6 images, 24 left out" in note for note in found.notes)
    by_image = tc.evaluate(y, p, ignore_index=255, n_resamples=99, by=np.arange(6) % 2)
    assert set(by_image.subgroups) == {"0", "1"}


def test_sequences_and_one_probability_per_pixel_are_read_too(rng):
    p = rng.dirichlet([1.0, 1.0], (5, 7))
    y = (rng.random((5, 7)) < p[..., 1]).astype(int)
    rows = tc.io.as_rows(y, np.moveaxis(p, -1, 1))
    assert_close(rows.y_proba, p.reshape(-1, 2))
    assert rows.groups.tolist() == np.repeat(np.arange(5), 7).tolist() and rows.kept is None
    one = tc.io.as_rows(y[:, None], p[..., 1][:, None])
    assert_close(one.y_proba, p[..., 1].reshape(-1))


def test_shapes_that_do_not_fit_say_so():
    with pytest.raises(ValueError, match=r"shape \(2, 3, 4, 5\) and y_true has shape \(2, 9, 9\)"):
        tc.io.as_rows(np.zeros((2, 9, 9), int), np.zeros((2, 3, 4, 5)))
    with pytest.raises(ValueError, match="pass class_axis="):
        tc.io.as_rows(np.zeros((2, 3, 3), int), np.zeros((2, 3, 3, 3)))
    with pytest.raises(ValueError, match="predictions of three axes or more"):
        tc.evaluate([0, 1], [0.2, 0.6], ignore_index=255)
    with pytest.raises(ValueError, match="every label is 255"):
        tc.io.as_rows(np.full((2, 2), 255), np.zeros((2, 2)), ignore_index=255)


def test_a_stream_of_images_compares_images_with_each_other(images):
    """The gap takes pairs of rows from different images, as evaluate does with groups."""
    y, p = images
    stream = tc.stream("classwise", n_bins=4, edges="uniform")
    for i in range(6):
        stream.update(y[i : i + 1], p[i : i + 1], ignore_index=255)
    found = stream.result()
    kept = y.reshape(-1) != 255
    rows, groups = p.reshape(-1, 3)[kept], np.repeat(np.arange(6), 20)[kept]
    uniform = tc.CalibrationError(tc.Classwise(), tc.EqualWidth(4))
    assert_close(found.score, tc.evaluate(y.reshape(-1)[kept], rows, groups=groups, n_resamples=99).score)
    whole = tc.gap(y.reshape(-1)[kept], rows, error=uniform, groups=groups)
    assert found.gaps["classwise"].points == pytest.approx(whole.points, rel=0.05)
    assert {view.name for view in found.views} == {"class 0", "class 1", "class 2"}
    assert stream.units == 6 and any("compare 6 images" in note for note in found.notes)
    together = tc.stream("classwise", n_bins=4, edges="uniform")
    together.update(y, p, ignore_index=255)
    assert_close(together.result().gap.low, found.gap.low)


@pytest.mark.slow
def test_dependence_within_images_is_no_miscalibration(rng):
    """Every pixel of an image has one outcome: pairs within images would look like a gap of tens of points."""
    p = np.repeat(np.repeat(rng.uniform(0.2, 0.8, (300, 1, 1)), 4, axis=1), 4, axis=2)
    y = np.repeat(np.repeat((rng.random((300, 1, 1)) < p[:, :1, :1]).astype(int), 4, axis=1), 4, axis=2)
    stream = tc.stream("binary", n_bins=5, edges="uniform")
    stream.update(y, p)
    found = stream.result()
    assert found.gap.low <= 0 and found.direction.word == "no clear direction"
    stream = tc.stream("binary", n_bins=5, edges="uniform")
    stream.update(y.reshape(-1), p.reshape(-1))
    assert abs(found.gap.points) < 6 and stream.result().gap.points > abs(found.gap.points)


# -- distributions of a number -----------------------------------------------------------------------------------------


@pytest.fixture
def numbers(rng):
    mean, sd = 2 * rng.standard_normal(500), rng.uniform(0.5, 1.5, 500)
    return rng.normal(mean, sd), mean, sd, tc.forecasts.thresholds(rng.normal(0, 2.3, 300), 20)


@pytest.mark.slow
def test_forecasts_are_ranked_by_crps(numbers):
    y, mean, sd, at = numbers
    models = {"true": tc.forecasts.normal(mean, sd), "narrow": tc.forecasts.normal(mean, sd / 2)}
    both = tc.compare(y, models, thresholds=at, n_resamples=99)
    assert [row["model"] for row in both.leaderboard()] == ["true", "narrow"]
    assert "CRPS" in both.verdict.predictive and both.verdict.rejected == ("narrow",)
    found = both.evaluations["true"]
    assert_close(found.score, tc.distribution_error(y, models["true"], thresholds=at, scale="score"))
    assert_close(found.score - found.score_gap, found.loss("crps").value)
    assert found.n_classes == 20 and len(found.views) == 20 and found.views[0].name.startswith("at most ")
    high = tc.evaluate(y, tc.forecasts.normal(mean + 1, sd), thresholds=at, n_resamples=99)
    assert high.discrimination == (), "there is no top class"
    assert high.direction.word == "too high on the scale"


@pytest.mark.heavy
def test_a_page_and_a_table_are_made_of_every_kind(grades, tags, numbers):
    pytest.importorskip("jinja2")
    from truecal.report import render_report

    y, p, high = grades
    table, chances, off = tags
    values, mean, sd, at = numbers
    for found, word in (
        (tc.compare(y, {"a": p, "b": high}, task="ordered", n_resamples=99), "RPS"),
        (tc.compare(table, {"a": chances, "b": off}, n_resamples=99), "label 2"),
        (tc.evaluate(values, tc.forecasts.normal(mean, sd), thresholds=at, n_resamples=99), "CRPS"),
    ):
        assert word in render_report(found)
        assert found.to_dict() and found._repr_html_()
