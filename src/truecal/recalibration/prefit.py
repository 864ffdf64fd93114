"""Recalibrate a fitted classifier by a map of its outputs; the classifier is never fitted again."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from truecal.core.data import as_array, shown
from truecal.core.frames import refuse_reordered
from truecal.core.parameters import described
from truecal.recalibration import affine, bin_maps, one_vs_rest, spline
from truecal.recalibration.base import FLOOR, Classifier, Floats, Recalibrator, softmax_of
from truecal.recalibration.guard import judge, unseen
from truecal.recalibration.temperature import EnsembleTemperatureScaling, Identity, TemperatureScaling

METHODS: dict[str, type[Recalibrator]] = {
    "identity": Identity,
    "temperature": TemperatureScaling,
    "ets": EnsembleTemperatureScaling,
    "vector": affine.VectorScaling,
    "matrix": affine.MatrixScaling,
    "dirichlet": affine.DirichletScaling,
    "svs": affine.StructuredVectorScaling,
    "sms": affine.StructuredMatrixScaling,
    "platt": one_vs_rest.PlattScaling,
    "beta": one_vs_rest.BetaScaling,
    "quadratic": one_vs_rest.QuadraticScaling,
    "spline": spline.SplineScaling,
    "isotonic": bin_maps.IsotonicOneVsRest,
    "centered_isotonic": bin_maps.CenteredIsotonic,
    "venn_abers": one_vs_rest.VennAbers,
    "histogram": bin_maps.HistogramBinning,
    "scaling_binning": bin_maps.ScalingBinning,
    "canonical": bin_maps.CanonicalRecalibration,
}
_OF_LOGARITHMS = (TemperatureScaling, affine.AffineMap, bin_maps.ScalingBinning)
SAME = 1e-6  # how far the softmax of decision_function may lie from predict_proba and still be the same prediction
SMALLEST = float(np.log(FLOOR))


@described("A classifier with the map behind it.")
def calibrate(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    method: str | Recalibrator = "temperature",
    guard: bool = True,
    sample_weight: Any = None,
) -> CalibratedClassifier:
    """Recalibrate a fitted classifier on validation data (X, y) that it was not trained on.

    method: "temperature", "ets", "vector", "matrix", "dirichlet", "svs", "sms", "platt", "beta", "quadratic", "spline",
    "isotonic", "centered_isotonic", "venn_abers", "histogram", "scaling_binning", "canonical", "identity", or a
    recalibration estimator with options of your choice. The classifier is never fitted again.

    Predictions stay as they are, with a warning, unless the map gains more than one standard error in log loss in a
    five-fold cross-validation; `guard_` has what was found, and guard=False uses the map whatever was found. Forests
    and nearest neighbours predict exact zeros, which no temperature can repair (this warns too): use
    `TemperatureScaling.from_probabilities(floor=0.01)` or "centered_isotonic".

    >>> import truecal as tc
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_classification(1000, 20, n_informative=5, n_redundant=15, random_state=0)
    >>> model = GaussianNB().fit(X[:500], y[:500])
    >>> calibrated = tc.calibrate(model, X[500:], y[500:])
    >>> calibrated.predict_proba(X[:1]).shape, calibrated.guard_.keeps
    ((1, 2), True)
    """
    frozen = estimator if isinstance(estimator, FrozenEstimator) else FrozenEstimator(estimator)
    return CalibratedClassifier(frozen, method=method, guard=guard).fit(X, y, sample_weight)


@described(estimator="A fitted classifier, in scikit-learn's FrozenEstimator if it is to stay so in clones.")
@dataclass(eq=False, repr=False)
class CalibratedClassifier(Classifier, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A fitted classifier followed by a recalibration map: what `calibrate` returns.

    fit(X, y) fits the map alone, on validation data. The map takes the estimator's decision_function where the softmax
    of its scores is what predict_proba says, or where there is no predict_proba (a binary score s stands for the logits
    0, s); otherwise it takes the logarithms of the probabilities.

    Attributes: `recalibrator_`, the fitted map, or `Identity` where the guard did not keep it; `guard_`, the gain of
    the map on unseen rows; `response_`, the method of the estimator whose outputs the map takes; `classes_`, those of
    the estimator.
    """

    estimator: Any
    method: str | Recalibrator = field(default="temperature", kw_only=True)
    guard: bool = field(default=True, kw_only=True)

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the map on validation data that the estimator was not trained on."""
        refuse_reordered(X=X, y=y, sample_weight=sample_weight)
        classes = _fitted_classes(self.estimator)
        method = _recalibrator(self.method)
        response = "predict_proba" if method.space == "probabilities" else _response(self.estimator, X, classes)
        space = "probabilities" if response == "predict_proba" else "logits"
        outputs = _outputs(self.estimator, response, X, len(classes))
        self.recalibrator_: Recalibrator = method.set_params(labels=classes, space=space).fit(outputs, y, sample_weight)
        self.classes_, self.response_ = classes, response
        same = Identity(labels=classes, space=space).fit(outputs, y, sample_weight)
        codes = np.searchsorted(classes, as_array(y, "y").reshape(-1))
        after = unseen(method, outputs, y, sample_weight)
        weight = None if sample_weight is None else as_array(sample_weight, "sample_weight")
        self.guard_ = judge(type(method).__name__, codes, same.predict_proba(outputs), after, weight)
        if self.guard and not self.guard_.keeps and not isinstance(method, Identity):
            self.recalibrator_ = same
            warnings.warn(
                f"{self.guard_.sentence}: predictions are left as they are. guard=False uses the map; where "
                "predictions are exactly 0 try method=TemperatureScaling.from_probabilities(floor=0.01)",
                UserWarning,
                stacklevel=4,
            )
        elif method.floor is None and isinstance(method, _OF_LOGARITHMS):
            _warn_of_zeros(outputs, classes, y, response)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """Recalibrated probabilities, (n, k), columns in the order of classes_."""
        check_is_fitted(self)
        return self.recalibrator_.predict_proba(_outputs(self.estimator, self.response_, X, len(self.classes_)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of largest recalibrated probability; the first one wins a tie."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])


def _warn_of_zeros(outputs: Floats, classes: NDArray[Any], y: Any, response: str) -> None:
    if response == "decision_function":
        return
    zero = outputs <= FLOOR if response == "predict_proba" else outputs <= SMALLEST
    count = np.count_nonzero(zero & (as_array(y, "y").reshape(-1, 1) == classes))
    if count:
        warnings.warn(
            f"{count} of the {len(outputs)} validation rows have a class whose predicted probability is 0 or next to "
            f"it, as forests and nearest neighbours give it; read as {FLOOR:g}, these rows decide the fit. Give a "
            "larger floor, such as method=TemperatureScaling.from_probabilities(floor=0.01), or method='isotonic'",
            UserWarning,
            stacklevel=5,
        )


def _recalibrator(method: Any) -> Recalibrator:
    if isinstance(method, str) and method in METHODS:
        return METHODS[method]()
    if not isinstance(method, Recalibrator):
        kind = ValueError if isinstance(method, str) else TypeError
        raise kind(
            f"method must be one of {', '.join(map(repr, METHODS))} or a recalibration estimator, got {shown(method)}"
        )
    if method.labels is not None:
        raise ValueError("method must be an estimator without labels: its classes are those of the classifier")
    copy: Recalibrator = clone(method)
    return copy


def _name(estimator: Any) -> str:
    return type(estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator).__name__


def _fitted_classes(estimator: Any) -> NDArray[Any]:
    if not (hasattr(estimator, "predict_proba") or hasattr(estimator, "decision_function")):
        raise TypeError(
            f"estimator must be a classifier with predict_proba or decision_function, got {shown(estimator)}"
        )
    if not hasattr(estimator, "classes_"):
        raise NotFittedError(
            f"this {_name(estimator)} has no classes_: expected a classifier that is already fitted, for it is never "
            "fitted here; call its fit on training data first, and recalibrate on other data"
        )
    classes = estimator.classes_
    if isinstance(classes, list) or np.ndim(classes) != 1 or len(classes) < 2:
        raise ValueError(f"estimator must have one target of at least two classes, got classes_ {shown(classes)}")
    return np.asarray(classes)


def _response(estimator: Any, X: Any, classes: NDArray[Any]) -> str:
    """Return the method whose outputs are logits: decision_function only where its softmax is predict_proba."""
    if not hasattr(estimator, "predict_proba"):
        scores = _outputs(estimator, "decision_function", X, len(classes))
        agree = float(np.mean(classes[scores.argmax(axis=1)] == np.asarray(estimator.predict(X))))
        if agree < 0.5:  # a pairwise SVC of three classes has three scores too
            raise ValueError(
                f"the class with the largest decision_function score is the prediction of {_name(estimator)} in only "
                f"{agree:.0%} of the rows: expected one score per class (SVC: decision_function_shape='ovr')"
            )
        return "decision_function"
    if hasattr(estimator, "decision_function"):
        p, scores = np.asarray(estimator.predict_proba(X)), _two_columns(estimator.decision_function(X))
        if scores.shape == p.shape and np.abs(softmax_of(scores) - p).max() <= SAME:
            return "decision_function"
    return "predict_log_proba" if hasattr(estimator, "predict_log_proba") else "predict_proba"


def _two_columns(scores: Any) -> NDArray[Any]:
    """A binary score s as the logits 0, s; the scores of several classes as they are."""
    scores = np.asarray(scores)
    return np.column_stack([np.zeros_like(scores), scores]) if scores.ndim == 1 else scores


def _outputs(estimator: Any, response: str, X: Any, k: int) -> Floats:
    """One finite logit, or one probability, per row and class."""
    with np.errstate(divide="ignore"):  # the logarithm of a probability of 0
        values = np.asarray(getattr(estimator, response)(X))
    if response == "decision_function":
        values = _two_columns(values)
    if values.ndim != 2 or values.shape[1] != k:
        raise ValueError(
            f"{response} of {_name(estimator)} must give one column for each of the {k} classes, "
            f"got shape {values.shape} (SVC: decision_function_shape='ovr')"
        )
    # a probability next to 0, as in from_probabilities
    return np.maximum(values, SMALLEST) if response == "predict_log_proba" else values
