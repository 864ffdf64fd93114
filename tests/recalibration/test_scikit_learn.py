"""scikit-learn's own checks of every map, with the list of those that do not apply, and why."""

from __future__ import annotations

import pickle
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from closeness import assert_close
from recalibration_cases import AFFINE, MAPS, draw
from truecal.recalibration import (
    EnsembleTemperatureScaling,
    Identity,
    ScalingBinning,
    SplineScaling,
    TemperatureScaling,
    VectorScaling,
)
from truecal.recalibration.base import Recalibrator
from truecal.recalibration.one_vs_rest import OneVsRest

pytestmark = pytest.mark.slow

COLUMNS = "its data have fewer columns than classes, or labels that are not column indices: not logits of classes"
ABSENT = "a class that no validation sample has keeps its column and may still be predicted"
ACCURACY = "its columns are not scores of the classes, so no map of them can be accurate"
INAPPLICABLE = {
    "check_estimators_overwrite_params": COLUMNS,
    "check_estimators_fit_returns_self": COLUMNS,
    "check_readonly_memmap_input": COLUMNS,
    "check_sample_weights_pandas_series": COLUMNS,
    "check_sample_weights_not_an_array": COLUMNS,
    "check_sample_weights_shape": COLUMNS,
    "check_sample_weights_not_overwritten": COLUMNS,
    "check_classifier_data_not_an_array": COLUMNS,
    "check_classifiers_classes": "strings need labels=, as everywhere in truecal: the order of columns is not guessed",
    "check_classifiers_train": ACCURACY,
}
EDGES = "weights never move a bin edge or a fold: each holds equally many rows, whatever they weigh"


def run_checks(estimator, listed):
    """Every check passes but the listed ones, and each of those fails, so that the list cannot grow stale."""
    results = check_estimator(estimator, expected_failed_checks=listed, on_skip=None)
    assert {result["check_name"] for result in results if result["status"] == "xfail"} == set(listed)
    assert len(results) > len(listed) + 30


def inapplicable(estimator):
    listed = dict(INAPPLICABLE)
    if isinstance(estimator, (TemperatureScaling, EnsembleTemperatureScaling, Identity, ScalingBinning, OneVsRest)):
        listed["check_classifiers_one_label"] = ABSENT
    if isinstance(estimator, (ScalingBinning, SplineScaling)):
        listed["check_sample_weight_equivalence_on_dense_data"] = EDGES
    return listed


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", [pytest.param(cls, marks=pytest.mark.heavy) if cls in AFFINE else cls for cls in MAPS])
def test_scikit_learn_checks(cls):
    run_checks(cls(), inapplicable(cls()))


class AnyFeatures(Recalibrator):
    """Lets scikit-learn's data through: a naive Bayes classifier turns any features into one logit per class."""

    def fit(self, X, y, sample_weight=None):
        self._given = (y, sample_weight)
        try:
            return super().fit(X, y, sample_weight)
        finally:
            del self._given

    def _values(self, X, *, reset):
        values = super()._values(X, reset=reset)
        if reset:
            y, weight = self._given
            if y is None:
                raise ValueError("requires y to be passed, but the target y is None")
            self._model = GaussianNB().fit(values, y, weight)
            if len(self._model.classes_) < 2:
                raise ValueError("one class only")
        with np.errstate(divide="ignore"):  # a class whose samples all weigh nothing has prior 0, logit -inf
            return self._model.predict_joint_log_proba(values)

    def _read_labels(self, y, n, k):
        codes = super()._read_labels(np.searchsorted(self._model.classes_, np.asarray(y)), n, k)
        self.classes_ = self._model.classes_
        return codes


NEED_MODEL = {*INAPPLICABLE, "check_classifiers_one_label"}
"""What no bare map can be asked; all else was asked of the maps themselves."""
WITH_MODEL = [type(f"{cls.__name__}OfNaiveBayes", (AnyFeatures, cls), {"__module__": __name__}) for cls in MAPS]
globals().update({cls.__name__: cls for cls in WITH_MODEL})  # the checks pickle what they fit


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", WITH_MODEL, ids=lambda cls: cls.__name__)
def test_scikit_learn_checks_on_data_of_any_width(cls):
    asked = set()
    for estimator, check in estimator_checks_generator(cls()):
        name = check.func.__name__ if isinstance(check, partial) else check.__name__
        if name in NEED_MODEL:
            check(estimator)
            asked.add(name)
    assert asked == NEED_MODEL


def test_warnings_point_at_the_call():
    for scaling, data in ((TemperatureScaling(), ([[2.0, 0.0]], [0])), (VectorScaling(max_iter=1), draw())):
        with pytest.warns(ConvergenceWarning) as caught:
            scaling.fit(*data)
        assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("cls", MAPS)
def test_estimators_are_copied_stored_and_shown_as_scikit_learn_does(cls):
    z, y = draw(100, 3)
    options = {name: value for name, value in {"l2": 2.0, "n_bins": 4}.items() if name in cls().get_params()}
    estimator = cls(labels=["a", "b", "c"], **options)
    assert estimator.get_params() == {**cls().get_params(), "labels": ["a", "b", "c"], **options}
    assert repr(cls()) == f"{cls.__name__}()" and "labels=['a', 'b', 'c']" in repr(estimator)
    assert clone(estimator).get_params() == estimator.get_params()
    estimator.set_params(labels=None).fit(z, y)
    again = pickle.loads(pickle.dumps(estimator))
    assert_close(again.predict_proba(z), estimator.predict_proba(z))
    assert estimator == estimator and estimator != clone(estimator) and hash(estimator)
    with pytest.raises(TypeError, match="positional argument"):
        cls(*[None] * (2 if cls is ScalingBinning else 1))


def test_importing_truecal_does_not_import_scikit_learn():
    code = "import sys, truecal; sys.exit('sklearn' in sys.modules or 'scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_missing_scikit_learn_is_named():
    code = "import sys; sys.modules['sklearn'] = None; import truecal.recalibration"
    result = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert 'pip install "truecal[recalibration]"' in result.stderr
