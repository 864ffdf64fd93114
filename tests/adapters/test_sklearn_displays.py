"""Displays: scikit-learn's conventions, and the picture of truecal.plots."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

import truecal as tc
from closeness import assert_close
from truecal.adapters.sklearn import ComparisonDisplay, ReliabilityDisplay

matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

RNG = np.random.default_rng(4)
N = 160
X = RNG.normal(size=(N, 3))
CODES = (X @ RNG.normal(size=(3, 3)) + RNG.gumbel(size=(N, 3))).argmax(axis=1)
Y = np.array(["ant", "bee", "cat"])[CODES]
TWO = np.where(CODES == 0, "yes", "no")
MODEL, BINARY = GaussianNB().fit(X[:80], Y[:80]), GaussianNB().fit(X[:80], TWO[:80])


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def points(display):
    return np.column_stack([display.line_.get_xdata(), display.line_.get_ydata()])


def expected(diagram, view=0):
    full = diagram.count[view] > 0
    return np.column_stack([diagram.mean_report[view][full], diagram.mean_outcome[view][full]])


def test_two_classes_show_the_second_or_the_named_one():
    q = BINARY.predict_proba(X)
    for label, came, column in (("yes", TWO == "yes", 1), ("no", TWO == "no", 0)):
        named = {} if label == "yes" else {"pos_label": label}
        display = ReliabilityDisplay.from_estimator(BINARY, X, TWO, n_bins=6, **named)
        wanted = tc.evaluate(came, q[:, column], errors=["binary"], diagram_bins=6).reliability["binary"]
        assert_close(points(display), expected(wanted))
        assert display.line_.get_label() == "GaussianNB" and display.figure_ is display.ax_.figure
        also = ReliabilityDisplay.from_predictions(TWO, q[:, column], pos_label=label, n_bins=6)
        assert_close(points(also), points(display))
        assert also.line_.get_label() == "Classifier"


def test_more_classes_show_the_confidence_or_one_class():
    p = MODEL.predict_proba(X)
    result = tc.evaluate(Y, p, labels=MODEL.classes_, diagram_bins=8, errors=["confidence", "classwise"])
    display = ReliabilityDisplay.from_estimator(MODEL, X, Y, n_bins=8)
    assert_close(points(display), expected(result.reliability["confidence"]))
    display = ReliabilityDisplay.from_estimator(MODEL, X, Y, n_bins=8, pos_label="cat")
    assert_close(points(display), expected(result.reliability["classwise"], 2))
    display = ReliabilityDisplay.from_predictions(Y, pd.DataFrame(p, columns=MODEL.classes_), n_bins=8, pos_label="cat")
    assert_close(points(display), expected(result.reliability["classwise"], 2))


def test_axes_names_and_styles_are_those_given():
    _, ax = plt.subplots()
    display = ReliabilityDisplay.from_estimator(MODEL, X, Y, name="mine", ax=ax, color="red", linestyle=":")
    assert display.ax_ is ax and display.line_.get_color() == "red" and display.line_.get_linestyle() == ":"
    assert display.plot(name="other") is display
    assert display.ax_ is not ax and display.line_.get_label() == "other"
    display.plot(display.ax_, name="second")
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts.count("calibrated") == 1 and {"other", "second"} < set(texts)


def test_folds_make_one_diagram():
    found = cross_validate(GaussianNB(), X, TWO, cv=4, return_estimator=True, return_indices=True)
    display = ReliabilityDisplay.from_cv_results(found, X, TWO, n_bins=5, name="folds")
    assert display.evaluation.n_samples == N and display.line_.get_label() == "folds"
    came = [np.count_nonzero(TWO == "yes"), display.diagram.mean_outcome[0] @ display.diagram.count[0]]
    assert came[0] == pytest.approx(came[1])
    flipped = ReliabilityDisplay.from_cv_results(found, X, TWO, n_bins=5, pos_label="no")
    np.testing.assert_allclose(points(flipped), 1 - points(display)[::-1], atol=1e-12)


@pytest.mark.slow
def test_comparisons_draw_the_score_of_each_model():
    models = {"naive Bayes": MODEL, "tree": DecisionTreeClassifier(max_depth=2).fit(X[:80], Y[:80])}
    display = ComparisonDisplay.from_estimators(models, X[80:], Y[80:])
    assert display.error == "classwise" and "score" in display.ax_.get_ylabel()
    assert [text.get_text() for text in display.ax_.get_legend().get_texts()] == list(models)
    assert display.comparison.leaderboard()[0]["model"] == "naive Bayes"
    _, ax = plt.subplots()
    assert display.plot(ax, name="both", by="value").ax_ is ax and ax.get_title() == "both"


@pytest.mark.slow
def test_cross_validations_are_compared_on_the_same_folds_only():
    about = {"return_estimator": True, "return_indices": True}
    found = {
        "naive Bayes": cross_validate(GaussianNB(), X, Y, cv=3, **about),
        "tree": cross_validate(DecisionTreeClassifier(max_depth=2), X, Y, cv=3, **about),
    }
    display = ComparisonDisplay.from_cv_results(found, X, Y)
    assert display.comparison.n_samples == N
    other = cross_validate(GaussianNB(), X, Y, cv=4, **about)
    with pytest.raises(ValueError, match="'tree' was tested on other folds than 'naive Bayes'"):
        ComparisonDisplay.from_cv_results({"naive Bayes": other, "tree": found["tree"]}, X, Y)


def test_a_diagram_that_is_not_there_is_refused():
    result = tc.evaluate(Y, MODEL.predict_proba(X), labels=MODEL.classes_, errors=["confidence"], n_resamples=99)
    with pytest.raises(ValueError, match="no diagram of 'classwise'; this evaluation has confidence"):
        ReliabilityDisplay(result, error="classwise")
    bare = tc.evaluate(Y, MODEL.predict_proba(X), labels=MODEL.classes_, errors=["confidence_l1"], n_resamples=99)
    with pytest.raises(ValueError, match="this evaluation has none"):
        ReliabilityDisplay(bare)
