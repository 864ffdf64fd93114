"""Scorers: in scikit-learn's searches and cross-validations, with its labels, weights, signs and names."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import truecal

tc: Any = truecal  # what a test hands in need not be of the right type

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
CODES = (X @ RNG.normal(size=(3, 3)) + RNG.gumbel(size=(240, 3))).argmax(axis=1)
NAMES = np.array(["ant", "bee", "cat"])[CODES]
TWO = np.array(["no", "yes"])[(X[:, 0] + RNG.normal(size=240) > 0).astype(int)]
MODEL = GaussianNB().fit(X[:120], NAMES[:120])
BINARY = GaussianNB().fit(X[:120], TWO[:120])
REST, REST_NAMES, REST_TWO = X[120:], NAMES[120:], TWO[120:]


NOT_OF_LABELS = (tc.properties.Outcomes, tc.TopLabel, tc.properties.Distribution, tc.properties.Survival)


@pytest.mark.slow
def test_every_scorer_is_minus_its_measure_for_text_labels():
    p, q = MODEL.predict_proba(REST), BINARY.predict_proba(REST)[:, 1]
    seen = 0
    for name, scorer in tc.SCORERS.items():
        if name == "neg_score":
            value = tc.score(REST_NAMES, p, labels=MODEL.classes_)
        elif name.removeprefix("neg_") in tc.LOSSES:
            value = tc.LOSSES[name.removeprefix("neg_")](REST_NAMES, p, labels=MODEL.classes_)
        elif isinstance((measure := tc.ERRORS[name.removeprefix("neg_")]).property, tc.Binary):
            assert scorer(BINARY, REST, REST_TWO) == -measure(REST_TWO == "yes", q), name
            with pytest.raises(ValueError, match="needs two classes, got 3"):
                scorer(MODEL, REST, REST_NAMES)
            continue
        elif measure.property.label_by_label:  # tests/evaluation/test_kinds.py
            seen += 1
            continue
        else:
            value = measure(REST_NAMES, p, labels=MODEL.classes_)
        assert scorer(MODEL, REST, REST_NAMES) == -value, name
        assert scorer.__name__ == name
        seen += 1
    left = [n for n, e in tc.ERRORS.items() if isinstance(e.property, NOT_OF_LABELS)]
    assert seen > 20 and len(tc.SCORERS) == 1 + len(tc.LOSSES) + len(tc.ERRORS) - len(left)


def test_a_search_by_the_score_refuses_the_model_that_knows_nothing():
    pipeline = make_pipeline(StandardScaler(), GaussianNB())
    grid = {"gaussiannb": [GaussianNB(), DummyClassifier()]}
    scoring = {"score": tc.scorer("score"), "ece": tc.scorer("ece"), "acc": "accuracy"}
    search = GridSearchCV(pipeline, grid, scoring=scoring, refit="score", cv=3).fit(X, NAMES)
    assert isinstance(search.best_params_["gaussiannb"], GaussianNB)
    assert search.cv_results_["mean_test_ece"].argmax() == 1  # ECE would have chosen the one that knows nothing
    assert (search.cv_results_["mean_test_score"] < 0).all()
    assert clone(search).scoring["score"] == scoring["score"]


def test_other_processes_find_the_same_scorer():
    for scorer in tc.SCORERS.values():
        assert pickle.loads(pickle.dumps(scorer)) == scorer
    assert get_scorer(tc.scorer("brier")) == tc.SCORERS["neg_brier"]


def test_measures_go_through_make_scorer():
    how = {"greater_is_better": False, "response_method": "predict_proba"}
    codes = (REST_TWO == "yes").astype(int)
    model = GaussianNB().fit(X[:120], (TWO[:120] == "yes").astype(int))
    q = model.predict_proba(REST)
    for measure in (tc.score, tc.brier, tc.confidence_error, tc.ERRORS["confidence"], tc.ERRORS["classwise"]):
        made = make_scorer(measure, **how)
        assert made(model, REST, codes) == pytest.approx(-measure(codes, q), rel=1e-12)
        assert measure.__name__ in repr(made)
    made = make_scorer(tc.binary_error, pos_label="yes", **how)
    assert made(BINARY, REST, REST_TWO) == -tc.binary_error(codes, BINARY.predict_proba(REST)[:, 1])
    made = make_scorer(tc.brier, labels=MODEL.classes_, **how)
    assert made(MODEL, REST, REST_NAMES) == -tc.brier(REST_NAMES, MODEL.predict_proba(REST), labels=MODEL.classes_)


def test_one_probability_per_row_is_that_of_the_second_class():
    p = BINARY.predict_proba(REST)
    for measure in (tc.brier, tc.cross_entropy, tc.classwise_error, tc.full_error, tc.score):
        one = measure(REST_TWO, p[:, 1], labels=["no", "yes"])
        assert one == pytest.approx(measure(REST_TWO, p, labels=["no", "yes"]), rel=1e-12)
    assert tc.brier([1, 2], [0.2, 0.9], labels=[1, 2]) == pytest.approx(0.025)
    with pytest.raises(ValueError, match=r"for classes 0 and 1, and y_true has 2 at row 1"):
        tc.brier([0, 2], [0.2, 0.3])


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def test_weights_are_routed_where_they_are_asked_for(routing):
    w = RNG.random(len(X)) + 0.1
    asked = tc.scorer("score").set_score_request(sample_weight=True)
    renamed = tc.scorer("score").set_score_request(sample_weight="importance")
    ignored = tc.scorer("score").set_score_request(sample_weight=False)
    model = GaussianNB().set_fit_request(sample_weight=False)
    about = {"cv": 3, "return_estimator": True, "return_indices": True}
    scoring = {"asked": asked, "ignored": ignored, "brier": tc.scorer("brier").set_score_request(sample_weight=True)}
    found = cross_validate(model, X, NAMES, scoring=scoring, params={"sample_weight": w}, **about)
    also = cross_validate(model, X, NAMES, scoring=renamed, params={"importance": w}, **about)
    for i, (fitted, rows) in enumerate(zip(found["estimator"], found["indices"]["test"], strict=True)):
        p = fitted.predict_proba(X[rows])
        weighted = -tc.score(NAMES[rows], p, labels=fitted.classes_, sample_weight=w[rows])
        plain = -tc.score(NAMES[rows], p, labels=fitted.classes_)
        assert found["test_asked"][i] == also["test_score"][i] == weighted != plain == found["test_ignored"][i]


def test_weights_that_nobody_asked_for_are_refused(routing):
    model = GaussianNB().set_fit_request(sample_weight=False)
    with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="sample_weight"):
        cross_validate(model, X, NAMES, scoring=tc.scorer(), params={"sample_weight": np.ones(len(X))})


def test_a_search_routes_weights(routing):
    search = GridSearchCV(
        GaussianNB().set_fit_request(sample_weight=True),
        {"var_smoothing": [1e-9, 1.0]},
        scoring=tc.scorer().set_score_request(sample_weight=True),
        cv=3,
    )
    assert search.fit(X, NAMES, sample_weight=np.ones(len(X))).best_score_ < 0


def test_folds_without_some_class():
    few = REST_NAMES != "cat"
    p = MODEL.predict_proba(REST[few])
    assert tc.scorer("brier")(MODEL, REST[few], REST_NAMES[few]) == -tc.brier(REST_NAMES[few], p, labels=MODEL.classes_)
    never = GaussianNB().fit(X[CODES != 1], NAMES[CODES != 1])  # it gives bee no probability, and is charged for it
    p = never.predict_proba(REST)
    whole = np.column_stack([p[:, 0], np.zeros(len(p)), p[:, 1]])
    assert tc.scorer("brier")(never, REST, REST_NAMES) == -tc.brier(REST_NAMES, whole, labels=["ant", "bee", "cat"])
    assert tc.scorer("cross_entropy")(never, REST, REST_NAMES) == -np.inf


def test_the_positive_class_can_be_named():
    first = tc.scorer("binary", pos_label="no", n_bins=5)(BINARY, REST, REST_TWO)
    assert first == -tc.binary_error(REST_TWO == "no", BINARY.predict_proba(REST)[:, 0], n_bins=5)
    coded = GaussianNB().fit(X[:120], np.where(TWO[:120] == "yes", 2, 1))  # classes 1 and 2: the second is positive
    given = tc.scorer("binary")(coded, REST, np.where(REST_TWO == "yes", 2, 1))
    assert given == tc.scorer("binary")(BINARY, REST, REST_TWO)
    with pytest.raises(ValueError, match=r"pos_label must be one of the classes \['no', 'yes'\], got 'maybe'"):
        tc.scorer("binary", pos_label="maybe")(BINARY, REST, REST_TWO)


def test_options_reach_the_measure():
    p = MODEL.predict_proba(REST)
    about = {"labels": MODEL.classes_}
    assert tc.scorer("classwise", n_bins=4)(MODEL, REST, REST_NAMES) == -tc.classwise_error(
        REST_NAMES, p, n_bins=4, **about
    )
    error = tc.CalibrationError(tc.Full(), tc.rules.KdTree(8))
    assert tc.scorer(error)(MODEL, REST, REST_NAMES) == -error(REST_NAMES, p, **about)
    ece = tc.scorer("ece", n_bins=5, strategy="quantile")
    assert ece(MODEL, REST, REST_NAMES) == -tc.ERRORS["ece"].with_options(n_bins=5, strategy="quantile")(
        REST_NAMES, p, **about
    )
    classwise = tc.scorer("score", error="classwise")
    assert classwise.__name__ == "neg_classwise_score"
    assert classwise(MODEL, REST, REST_NAMES) == -tc.score(REST_NAMES, p, error="classwise", **about)


REFUSED = [
    (lambda: tc.scorer("gap"), ValueError, r"knows nothing and predicts base rates has gap 0.*use scorer\('brier'\)"),
    (lambda: tc.scorer("breir"), ValueError, r"measure must be 'score', .*got 'breir'; did you mean 'brier'"),
    (lambda: tc.scorer("linear"), ValueError, r"measure='linear' cannot be used: it takes outcomes"),
    (lambda: tc.scorer(tc.ERRORS["top_label"]), ValueError, r"for the confidence in the top class use 'confidence'"),
    (lambda: tc.scorer(3), TypeError, r"a name, a loss or a member of ERRORS, got 3"),
    (lambda: tc.scorer("brier", n_bins=5), ValueError, r"n_bins=5 cannot be used with a loss"),
    (lambda: tc.scorer("brier", error="classwise"), ValueError, r"error='classwise' applies to measure='score' only"),
    (lambda: tc.scorer("score", error="confidence_l1"), ValueError, r"confidence_l1 is not: absolute bin sums"),
    (
        lambda: tc.scorer("classwise", n_bins=(5, 20)),
        ValueError,
        r"one number: a scorer returns one value, got \(5, 20\)",
    ),
    (lambda: tc.scorer("score", strategy="uniform"), TypeError, r"no option 'strategy' for this measure"),
    (lambda: tc.scorer("ece", bins=3), TypeError, r"ece has no option 'bins'; its options: n_bins, strategy"),
    (
        lambda: tc.scorer()(RidgeClassifier().fit(X, NAMES), X, NAMES),
        TypeError,
        r"RidgeClassifier has no predict_proba",
    ),
    (lambda: tc.scorer()(MODEL, REST, CODES[120:]), TypeError, r"labels hold <U3 and y_true holds int64"),
]


@pytest.mark.parametrize(("call", "kind", "words"), REFUSED, ids=[words[:30] for _, _, words in REFUSED])
def test_refusals_say_why(call, kind, words):
    with pytest.raises(kind, match=words):
        call()


def test_bools_and_pandas_labels():
    pd = pytest.importorskip("pandas")
    truth = REST_TWO == "yes"
    model = LogisticRegression().fit(X[:120], TWO[:120] == "yes")
    expected = -tc.brier(truth.astype(int), model.predict_proba(REST))
    assert tc.scorer("brier")(model, REST, truth) == expected
    assert tc.scorer("brier")(model, REST, pd.Series(truth, index=range(500, 620))) == expected
    category = pd.Series(NAMES, dtype="category")
    assert tc.scorer("brier")(MODEL, REST, category[120:]) == tc.scorer("brier")(MODEL, REST, REST_NAMES)
