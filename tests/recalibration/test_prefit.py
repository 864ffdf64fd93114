"""calibrate: a fitted classifier and a map make a classifier; the fitted one is never fitted again."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, softmax
from scipy.stats import t as student
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_digits, make_classification
from sklearn.ensemble import AdaBoostClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_val_predict
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import truecal as tc
from closeness import assert_close
from recalibration_cases import MAPS
from truecal.recalibration.base import Recalibrator
from truecal.recalibration.guard import judge
from truecal.recalibration.prefit import METHODS

NAMES = np.array(["ant", "bee", "cat"])


def data(k: int) -> tuple[Any, Any]:
    return make_classification(600, 8, n_informative=6, n_redundant=0, n_classes=k, random_state=0)


MODELS = {
    "logistic regression": (LogisticRegression(), "decision_function"),
    "boosted trees": (HistGradientBoostingClassifier(max_iter=3, max_leaf_nodes=4), "decision_function"),
    "support vectors": (SVC(), "decision_function"),
    "naive Bayes": (GaussianNB(), "predict_log_proba"),
    "neighbours": (KNeighborsClassifier(), "predict_proba"),
    "pipeline": (make_pipeline(StandardScaler(), LogisticRegression()), "decision_function"),
    "pipeline of support vectors": (make_pipeline(StandardScaler(), SVC()), "decision_function"),
}


@pytest.mark.slow
@pytest.mark.parametrize("strings", [True, False], ids=["strings", "numbers"])
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", MODELS)
def test_a_fitted_classifier_and_a_map_make_a_classifier(name, k, strings):
    X, y = data(k)
    y = NAMES[y] if strings else y + 5
    model, response = MODELS[name]
    model = clone(model).fit(X[:300], y[:300])
    before = getattr(model, response)(X)
    calibrated = tc.calibrate(model, X[300:450], y[300:450], method="isotonic", guard=False)
    assert_close(getattr(model, response)(X), before)  # it was not fitted again
    assert calibrated.response_ == response
    assert calibrated.classes_.tolist() == model.classes_.tolist()
    p = calibrated.predict_proba(X[450:])
    assert p.shape == (150, k)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (calibrated.predict(X[450:]) == calibrated.classes_[p.argmax(axis=1)]).all()
    assert calibrated.score(X[450:], y[450:]) > 1 / k
    assert get_scorer("neg_log_loss")(calibrated, X[450:], y[450:]) < 0


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("name", ["logistic regression", "boosted trees", "naive Bayes", "neighbours", "pipeline"])
def test_without_a_map_the_probabilities_are_those_of_the_classifier(name, k):
    X, y = data(k)
    model = clone(MODELS[name][0]).fit(X[:300], y[:300])
    calibrated = tc.calibrate(model, X[300:450], y[300:450], method="identity")
    np.testing.assert_allclose(calibrated.predict_proba(X[450:]), model.predict_proba(X[450:]), atol=1e-6)


def test_the_map_is_that_of_the_logits():
    X, y = data(3)
    model = LogisticRegression().fit(X[:300], y[:300])
    calibrated = tc.calibrate(model, X[300:], y[300:])
    alone = tc.TemperatureScaling().fit(model.decision_function(X[300:]), y[300:])
    assert_close(calibrated.recalibrator_.temperature_, alone.temperature_)
    weight = np.arange(300.0)
    weighted = tc.calibrate(model, X[300:], y[300:], sample_weight=weight)
    alone.fit(model.decision_function(X[300:]), y[300:], weight)
    assert weighted.recalibrator_.temperature_ == alone.temperature_ != calibrated.recalibrator_.temperature_


def test_scores_that_are_no_logits_are_not_taken_for_logits():
    """Where the softmax of decision_function is not predict_proba, the probabilities are what the classifier says."""
    X, y = data(3)
    model = AdaBoostClassifier(n_estimators=10).fit(X[:300], y[:300])
    assert np.abs(softmax(model.decision_function(X), axis=1) - model.predict_proba(X)).max() > 0.01
    calibrated = tc.calibrate(model, X[300:], y[300:])
    assert calibrated.response_ == "predict_log_proba"
    expected = tc.TemperatureScaling.from_probabilities().fit(model.predict_proba(X[300:]), y[300:])
    assert calibrated.recalibrator_.temperature_ == pytest.approx(expected.temperature_)


@pytest.mark.parametrize("k", [3, 4])
def test_pairwise_scores_are_refused(k):
    X, y = make_classification(400, 8, n_informative=6, n_redundant=0, n_classes=k, random_state=0)
    model = SVC(decision_function_shape="ovo").fit(X[:200], y[:200])
    message = {3: r"in only \d+% of the rows", 4: r"one column for each of the 4 classes, got shape \(200, 6\)"}[k]
    with pytest.raises(ValueError, match=message + r".*decision_function_shape='ovr'"):
        tc.calibrate(model, X[200:], y[200:])


def test_every_map_has_a_name_and_may_be_given_itself():
    X, y = data(3)
    model = GaussianNB().fit(X[:300], y[:300])
    assert set(METHODS.values()) == set(MAPS)
    for name, cls in METHODS.items():
        assert type(tc.calibrate(model, X[300:], y[300:], method=name, guard=False).recalibrator_) is cls
    mine = tc.recalibration.HistogramBinning(n_bins=4)
    calibrated = tc.calibrate(model, X[300:], y[300:], method=mine, guard=False)
    assert calibrated.recalibrator_.n_bins == 4 and calibrated.recalibrator_ is not mine
    assert not hasattr(mine, "edges_")
    floored = tc.calibrate(
        model, X[300:], y[300:], method=tc.TemperatureScaling.from_probabilities(floor=0.1), guard=False
    )
    assert floored.response_ == "predict_proba" and floored.recalibrator_.floor == 0.1


def test_a_class_missing_from_validation_keeps_its_column():
    X, y = data(3)
    model = GaussianNB().fit(X[:300], NAMES[y[:300]])
    some = y[300:] != 1
    calibrated = tc.calibrate(model, X[300:][some], NAMES[y[300:][some]], method="vector")
    assert calibrated.predict_proba(X).shape == (600, 3)


def test_exact_zeros_that_came_true_are_a_warning_and_the_message_names_the_way_out():
    X, y = data(3)
    words = r"(0 or next to it|left as they are.*exactly 0).*floor=0\.01"
    for model in (RandomForestClassifier(10, random_state=0), KNeighborsClassifier()):
        model.fit(X[:300], y[:300])
        with pytest.warns(UserWarning, match=words) as caught:
            calibrated = tc.calibrate(model, X[300:], y[300:])
        assert [warning.filename for warning in caught] == [__file__]
        before, after = (tc.brier(y[300:], each.predict_proba(X[300:])) for each in (model, calibrated))
        assert after <= before + 1e-9


def digits_naive_bayes():
    X, y = load_digits(return_X_y=True)
    return GaussianNB().fit(X[:700], y[:700]), X[700:1250], y[700:1250], X[1250:], y[1250:]


def test_near_zero_probabilities_do_not_decide_the_fit():
    """Naive Bayes gives wrong classes 1e-300: read as they are, these rows made the temperature infinite."""
    model, X_val, y_val, X_test, y_test = digits_naive_bayes()
    with pytest.warns(UserWarning, match="0 or next to it"):
        calibrated = tc.calibrate(model, X_val, y_val)
    before, after = (tc.brier(y_test, each.predict_proba(X_test)) for each in (model, calibrated))
    assert 0.2 < after < before < 0.5


def test_a_map_that_makes_the_brier_score_worse_is_not_kept():
    model, X_val, y_val, X_test, _ = digits_naive_bayes()
    wrong = np.where(np.arange(len(y_val)) % 40 == 0, (y_val + 5) % 10, y_val)
    sharp = tc.TemperatureScaling.from_probabilities(floor=1e-200)
    with pytest.warns(
        UserWarning, match=r"TemperatureScaling gains .* their Brier score worse by 0\.\d+ ± 0\.\d+: .*left as"
    ):
        calibrated = tc.calibrate(model, X_val, wrong, method=sharp)
    assert isinstance(calibrated.recalibrator_, tc.recalibration.Identity)
    np.testing.assert_allclose(calibrated.predict_proba(X_test), model.predict_proba(X_test), atol=1e-9)


def calibrated_logits(n, rng, temperature=1.0):
    s = 2 * rng.normal(size=n)
    return temperature * s, (rng.random(n) < 1 / (1 + np.exp(-s))).astype(int)


@pytest.mark.filterwarnings("ignore:.*left as they are")
@pytest.mark.parametrize(("temperature", "kept"), [(1.0, 0.3), (2.0, 0.95)])
def test_the_guard_keeps_maps_that_help_and_no_others(temperature, kept):
    """Of a calibrated model it keeps at most 30% of the maps here (16% where gains are normal), of T = 2 nearly all."""
    found = []
    for seed in range(40):
        s, y = calibrated_logits(400, np.random.default_rng(seed), temperature)
        calibrated = tc.calibrate(Logit(), s[:, None], y)
        assert calibrated.guard_.keeps == (not isinstance(calibrated.recalibrator_, tc.recalibration.Identity))
        found.append(calibrated.guard_.keeps)
    assert np.mean(found) <= kept if temperature == 1 else np.mean(found) >= kept


def test_a_map_can_be_forced_and_the_guard_still_reports():
    s, y = calibrated_logits(300, np.random.default_rng(0))
    with pytest.warns(UserWarning, match="not more than one standard error: predictions are left as they are"):
        plain = tc.calibrate(Logit(), s[:, None], y, method="isotonic")
    forced = tc.calibrate(Logit(), s[:, None], y, method="isotonic", guard=False)
    assert isinstance(plain.recalibrator_, tc.recalibration.Identity)
    assert isinstance(forced.recalibrator_, tc.recalibration.IsotonicOneVsRest)
    assert plain.guard_.to_dict() == forced.guard_.to_dict() and not forced.guard_.keeps
    assert "nats of log loss per unseen row" in repr(forced.guard_)


def test_the_guard_keeps_no_map_because_a_rare_event_has_not_come():
    """A map that calls it impossible gains a little in every row seen."""
    s = np.random.default_rng(1).normal(-4, 0.5, 50)
    p = expit(s)
    before, after = (np.column_stack([1 - u, u]) for u in (p, p / 100))
    found = judge("map", np.zeros(50, int), before, after)
    assert found.gain > 0.01 and not found.keeps


def test_the_guard_is_the_gain_in_five_folds():
    s, y = calibrated_logits(203, np.random.default_rng(3), 2.0)
    weight = np.random.default_rng(0).integers(1, 4, len(s)).astype(float)
    found = tc.calibrate(Logit(), s[:, None], y, sample_weight=weight).guard_
    fold = np.random.default_rng(0).permutation(len(y)) % 5
    gain, either = np.empty(len(y)), np.empty((len(y), 3))
    for f in range(5):
        fit = fold != f
        t = tc.TemperatureScaling().fit(s[fit], y[fit], weight[fit]).temperature_
        sign = np.where(y[~fit] == 1, -1, 1) * s[~fit]
        gain[~fit] = np.logaddexp(0, sign) - np.logaddexp(0, sign / t)
        z = s[~fit]
        each = (np.logaddexp(0, way * z) - np.logaddexp(0, way * z / t) for way in (1, -1))
        either[~fit] = np.column_stack([*each, (expit(z) + expit(z / t)) / 2])
    mean, chance = np.average(gain, weights=weight), either[:, 2]
    high, low = either[:, :2].max(axis=1), either[:, :2].min(axis=1)
    counts = weight * chance * (1 - chance) * (high - low)
    high, low = np.average(high, weights=counts), np.average(low, weights=counts)
    extra = np.square(weight).sum() / weight.sum()  # half a row at either end
    total = weight.sum() + extra
    centre = (weight @ gain + extra * (high + low) / 2) / total
    squares = np.square(weight * (gain - centre)).sum() + extra**2 / 2 * ((high - centre) ** 2 + (low - centre) ** 2)
    factor = student.isf((1 - 0.6827) / 2, weight.sum() ** 2 / np.square(weight).sum() - 1)
    error = mean - (centre - factor * np.sqrt(squares) / total)
    assert (found.gain, found.standard_error) == (pytest.approx(mean, rel=1e-6), pytest.approx(error, rel=1e-4))


def test_clones_and_copies_keep_the_classifier():
    X, y = data(3)
    model = LogisticRegression().fit(X[:300], y[:300])
    calibrated = tc.calibrate(model, X[300:], y[300:], method="vector")
    copied = pickle.loads(pickle.dumps(calibrated))
    assert_close(copied.predict_proba(X), calibrated.predict_proba(X))
    fresh = clone(calibrated)
    assert not hasattr(fresh, "recalibrator_") and fresh.estimator.estimator is model
    with pytest.raises(NotFittedError):
        fresh.predict_proba(X)
    assert_close(fresh.fit(X[300:], y[300:]).predict_proba(X), calibrated.predict_proba(X))
    assert repr(fresh) == "CalibratedClassifier(estimator=FrozenEstimator(estimator=LogisticRegression()),\n" + (
        " " * 21 + "method='vector')"
    )
    assert tc.calibrate(FrozenEstimator(model), X[300:], y[300:]).estimator.estimator is model


def test_cross_val_predict_fits_the_map_and_not_the_classifier():
    X, y = data(3)
    model = LogisticRegression().fit(X[:300], y[:300])
    calibrated = tc.calibrate(model, X[300:], y[300:])
    p = cross_val_predict(calibrated, X[300:], y[300:], method="predict_proba")
    direct = cross_val_predict(
        tc.TemperatureScaling(), model.decision_function(X[300:]), y[300:], method="predict_proba"
    )
    np.testing.assert_allclose(p, direct)


def test_cross_val_predict_numbers_strings_and_the_message_names_the_way_around():
    X, y = data(3)
    model = LogisticRegression().fit(X[:300], NAMES[y[:300]])
    calibrated = tc.calibrate(model, X[300:], NAMES[y[300:]])
    with pytest.raises(ValueError, match=r"not in labels.*cross_val_predict.*np\.searchsorted\(labels, y\)"):
        cross_val_predict(calibrated, X[300:], NAMES[y[300:]], method="predict_proba")
    assert set(cross_val_predict(calibrated, X[300:], NAMES[y[300:]])) <= set(NAMES)


@pytest.mark.parametrize("model", [LogisticRegression(), make_pipeline(StandardScaler(), SVC()), GaussianNB()])
def test_an_unfitted_classifier_is_refused_in_words(model):
    X, y = data(2)
    with pytest.raises(NotFittedError, match=f"this {type(model).__name__} has no classes_: .*never fitted here"):
        tc.calibrate(model, X, y)
    assert not hasattr(model, "classes_")


def test_what_is_no_classifier_is_refused_in_words():
    X, y = data(2)
    for other in (LinearRegression().fit(X, y), StandardScaler().fit(X), "model", None):
        with pytest.raises(TypeError, match="must be a classifier with predict_proba or decision_function"):
            tc.calibrate(other, X, y)
    several = MultiOutputClassifier(GaussianNB()).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="one target of at least two classes"):
        tc.calibrate(several, X, y)


@pytest.mark.parametrize(
    ("method", "kind", "message"),
    [
        ("sigmoid", ValueError, "method must be one of 'identity', 'temperature'.* got 'sigmoid'"),
        (3, TypeError, "or a recalibration estimator, got 3"),
        (tc.TemperatureScaling, TypeError, "or a recalibration estimator, got <class"),
        (LogisticRegression(), TypeError, "or a recalibration estimator, got LogisticRegression"),
        (tc.TemperatureScaling(labels=[0, 1]), ValueError, "an estimator without labels"),
    ],
)
def test_methods_that_are_none_are_refused(method, kind, message):
    X, y = data(2)
    with pytest.raises(kind, match=message):
        tc.calibrate(GaussianNB().fit(X, y), X, y, method=method)


def test_a_label_the_classifier_does_not_know_is_refused():
    X, y = data(2)
    model = GaussianNB().fit(X, NAMES[y])
    wrong = NAMES[y]
    wrong[7] = "elk"
    with pytest.raises(ValueError, match="y has elk at row 7, which is not in labels"):
        tc.calibrate(model, X, wrong)


def test_data_frames_go_to_the_classifier_as_they_are():
    X, y = data(2)
    frame = pd.DataFrame(X).add_prefix("x")
    model = LogisticRegression().fit(frame[:300], y[:300])
    calibrated = tc.calibrate(model, frame[300:], pd.Series(y[300:]), method="vector", guard=False)
    assert calibrated.predict_proba(frame).shape == (600, 2)


class Logit(ClassifierMixin, BaseEstimator):
    """The first column is the logit of class 1."""

    classes_ = np.array([0, 1])

    def decision_function(self, X):
        return np.asarray(X)[:, 0]

    def predict(self, X):
        return (np.asarray(X)[:, 0] > 0).astype(int)


class Duck(ClassifierMixin, BaseEstimator):
    """A classifier of two columns that nobody fitted, as one that was loaded from elsewhere."""

    classes_ = np.array([False, True])

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-3 * np.asarray(X)[:, 0]))
        return np.column_stack([1 - p, p])


def test_anything_with_classes_and_probabilities_will_do():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 1))
    y = rng.random(2000) < 1 / (1 + np.exp(-X[:, 0]))
    calibrated = tc.calibrate(Duck(), X, y)
    assert isinstance(calibrated.recalibrator_, Recalibrator)
    assert calibrated.recalibrator_.temperature_ == pytest.approx(3, rel=0.15)
    assert calibrated.predict(X).dtype == bool
