"""Cross-validation: out-of-fold predictions belong to the right rows, and become one evaluation or one comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedStratifiedKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
    cross_validate,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import truecal as tc
from closeness import assert_close
from truecal.adapters.sklearn import cross_compare, cross_evaluate, out_of_fold

RNG = np.random.default_rng(3)
N = 180
X = RNG.normal(size=(N, 3))
CODES = (X @ RNG.normal(size=(3, 3)) + RNG.gumbel(size=(N, 3))).argmax(axis=1)
Y = np.array(["ant", "bee", "cat"])[CODES]
TWO = np.where(CODES == 0, "yes", "no")
FEW: dict[str, Any] = {"n_resamples": 99, "errors": ["classwise", "confidence", "confidence_l1"]}


def kept(estimator, y, cv=3):
    return cross_validate(estimator, X, y, cv=cv, return_estimator=True, return_indices=True)


def test_rows_have_the_predictions_of_cross_val_predict():
    cv = KFold(4, shuffle=True, random_state=0)
    found = out_of_fold(kept(GaussianNB(), Y, cv), X, Y)
    again = cross_val_predict(GaussianNB(), X, Y, cv=cv, method="predict_proba")
    assert_close(found.proba, again[found.row])
    np.testing.assert_array_equal(found.classes[found.y], Y[found.row])
    assert sorted(found.row) == list(range(N)) and found.groups is None
    two = out_of_fold(kept(GaussianNB(), TWO, cv), X, TWO)
    assert two.proba.shape == (N,) and two.classes.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(two.y == 1, TWO[two.row] == "yes")


@pytest.mark.slow
def test_one_evaluation_of_all_folds():
    cv = StratifiedKFold(3)
    weights = RNG.random(N) + 0.5
    result = cross_evaluate(GaussianNB(), X, Y, cv=cv, sample_weight=weights, by="fold", **FEW)
    proba = cross_val_predict(GaussianNB(), X, Y, cv=cv, method="predict_proba")
    order = np.concatenate([test for _, test in cv.split(X, Y)])
    fold = np.repeat(np.arange(3), [len(test) for _, test in cv.split(X, Y)])
    plain = tc.evaluate(CODES[order], proba[order], sample_weight=weights[order], folds=fold, **FEW)
    assert result.name == "GaussianNB"
    assert_close(result.errors, plain.errors, 1)
    assert_close(result.test, plain.test, 1)
    assert "predictions of 3 fitted models" in result.notes[-1]
    assert list(result.subgroups) == ["0", "1", "2"]
    for number, (_, test) in enumerate(cv.split(X, Y)):
        alone = tc.evaluate(CODES[test], proba[test], sample_weight=weights[test], **FEW)
        assert_close(result.subgroups[str(number)].errors, alone.errors, 1)


@pytest.mark.slow
def test_pipelines_frames_and_fit_weights():
    frame, y = pd.DataFrame(X, columns=list("abc")), pd.Series(Y)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    plain = cross_evaluate(pipeline, X, Y, **FEW)
    assert cross_evaluate(pipeline, frame, y, **FEW).score == pytest.approx(plain.score, rel=1e-9)
    with pytest.raises(ValueError, match="X and y have the same index in another order"):
        cross_evaluate(pipeline, frame, y.iloc[::-1])
    weighted = cross_evaluate(pipeline, X, Y, params={"logisticregression__sample_weight": X[:, 0] ** 2}, **FEW)
    assert weighted.score != plain.score


def test_groups_split_and_are_clusters():
    groups = np.arange(N) % 30
    result = cross_evaluate(GaussianNB(), X, TWO, cv=GroupKFold(3), groups=groups, n_resamples=99)
    assert result.test is None and any("rows come in groups" in note for note in result.notes)
    row: Any = result.row("binary")
    assert row.within is not None and row.loss + row.U + row.within == pytest.approx(N * row.value)


def test_rows_that_are_predicted_twice_are_clusters():
    result = cross_evaluate(GaussianNB(), X, Y, cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2), **FEW)
    assert result.n_samples == 2 * N and result.test is None
    assert any("each row is a cluster" in note for note in result.notes)


def test_rows_that_are_never_predicted_are_left_out():
    by = np.where(np.arange(N) % 2, "odd", "even")
    result = cross_evaluate(GaussianNB(), X, Y, cv=TimeSeriesSplit(3), by=by, **FEW)
    assert result.n_samples == 3 * (N // 4)
    assert result.subgroups["odd"].n_samples == np.count_nonzero(np.arange(N // 4, N) % 2)


def test_a_class_missing_from_a_training_fold_had_probability_0():
    sorted_rows = np.argsort(CODES, kind="stable")
    x, y = X[sorted_rows], Y[sorted_rows]
    tests = np.split(np.arange(N), np.flatnonzero(np.diff(CODES[sorted_rows])) + 1)  # a fold for each class
    splits = [(np.setdiff1d(np.arange(N), test), test) for test in tests]
    found = out_of_fold(
        cross_validate(DummyClassifier(), x, y, cv=splits, return_estimator=True, return_indices=True), x, y
    )
    assert found.unseen == ("ant", "bee", "cat") and "given probability 0: ant, bee, cat" in found.notes[-1]
    np.testing.assert_array_equal(found.proba[np.arange(N), found.y], 0)
    np.testing.assert_allclose(found.proba.sum(axis=1), 1)


@pytest.mark.slow
def test_estimators_are_compared_on_the_same_folds():
    cv = KFold(3, shuffle=True, random_state=np.random.RandomState(0))  # another order at every call of split
    models = {"naive Bayes": GaussianNB(), "again": GaussianNB(), "base rates": DummyClassifier()}
    result = cross_compare(models, X, Y, cv=cv, **FEW)
    assert_close(result.evaluations["naive Bayes"].errors, result.evaluations["again"].errors, 1)
    assert result.leaderboard()[-1]["model"] == "base rates" and "3 fitted models" in result.notes[-1]


def test_refusals_say_what_is_missing():
    with pytest.raises(ValueError, match=r"return_estimator=True and return_indices=True; got 'fit_time'"):
        out_of_fold(cross_validate(GaussianNB(), X, Y, cv=3), X, Y)
    with pytest.raises(TypeError, match="estimators must map names to estimators, got GaussianNB"):
        cross_compare(GaussianNB(), X, Y)


def test_calibrate_takes_pipelines_names_and_weights():
    pipeline = make_pipeline(StandardScaler(), GaussianNB()).fit(X[:80], Y[:80])
    weights = np.r_[np.ones(50), np.zeros(50)]
    whole = tc.calibrate(pipeline, X[80:], Y[80:], method="vector", sample_weight=weights, guard=False)
    part = tc.calibrate(pipeline, X[80:130], Y[80:130], method="vector", guard=False)
    np.testing.assert_allclose(whole.predict_proba(X), part.predict_proba(X), rtol=1e-6)
    assert set(whole.predict(X)) <= set(Y)
    assert tc.scorer("brier")(whole, X[80:], Y[80:]) > tc.scorer("brier")(pipeline, X[80:], Y[80:]) - 0.05
