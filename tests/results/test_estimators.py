"""Fitted classifiers in the place of predictions, and the reliability diagram in notebooks."""

from __future__ import annotations

import re
import xml.etree.ElementTree as tree
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB

import truecal as tc

pytestmark = pytest.mark.slow

X, Y = make_classification(600, n_informative=6, n_classes=3, random_state=0)
NAMES = np.array(["ant", "bee", "cow"])[Y]
BAYES, LOGISTIC = GaussianNB().fit(X[:300], NAMES[:300]), LogisticRegression(max_iter=500).fit(X[:300], NAMES[:300])
FAST: dict[str, Any] = {"n_bins": 5, "n_resamples": 19}


def test_a_classifier_stands_for_its_predictions():
    test = X[300:]
    one = tc.evaluate(NAMES[300:], BAYES, X=test, **FAST)
    assert one == tc.evaluate(NAMES[300:], BAYES.predict_proba(test), labels=BAYES.classes_, **FAST)
    models = {"bayes": BAYES, "logistic": LOGISTIC.predict_proba(test)}
    both = tc.compare(NAMES[300:], models, X=test, **FAST)
    assert both.evaluations["bayes"].score == pytest.approx(one.score)


def test_a_classifier_needs_X():
    with pytest.raises(TypeError, match=r"model 'bayes' is a GaussianNB: pass X=, the rows to predict"):
        tc.compare(NAMES[300:], {"bayes": BAYES})
    with pytest.raises(TypeError, match=r"y_proba is a GaussianNB: pass X="):
        tc.evaluate(NAMES[300:], BAYES)
    with pytest.raises(TypeError, match=r"is a RidgeClassifier, which has no predict_proba"):
        tc.evaluate(NAMES[300:], RidgeClassifier().fit(X, NAMES), X=X[300:])
    with pytest.raises(TypeError, match=r"X= applies to fitted classifiers"):
        tc.evaluate(Y[300:], BAYES.predict_proba(X[300:]), X=X[300:])
    other = GaussianNB().fit(X[:300], Y[:300])
    with pytest.raises(ValueError, match="bayes and other have different classes"):
        tc.compare(NAMES[300:], {"bayes": BAYES, "other": other}, X=X[300:])


def test_notebooks_show_the_diagram():
    result = tc.evaluate(Y[300:], BAYES.predict_proba(X[300:]), name="<b>naive</b> & co", **FAST)
    html = result._repr_html_()
    (svg,) = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    root = tree.fromstring(svg)  # escaped, or it would not parse
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert "<b>naive</b> & co" in texts and "accuracy" in texts
    points = [node for node in root.iter() if node.tag.endswith("circle")]
    diagram = result.reliability["confidence"]
    assert len(points) == int((diagram.count[0] > 0).sum())
    models = {f"m{i}": BAYES.predict_proba(X[300:]) for i in range(6)}
    assert tc.compare(Y[300:], models, **FAST)._repr_html_().count("<svg") == 4


def test_pictures_straight_from_arrays():
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    p = BAYES.predict_proba(X[300:])
    ax = tc.plots.reliability(Y[300:], p, name="bayes")
    name, gap = ax.get_title().split("\n")
    assert name == "bayes" and gap.startswith("gap ") and "points" in gap
    result = tc.evaluate(Y[300:], p, name="bayes", **FAST)
    assert result.plot(title="mine").get_title() == "mine"
    assert tc.plots.reliability(result.reliability["classwise"], view=1).get_title() == ""
    with pytest.raises(TypeError, match=r"reliability\(y_true, y_proba\)"):
        tc.plots.reliability(Y[300:])
    plt.close("all")
