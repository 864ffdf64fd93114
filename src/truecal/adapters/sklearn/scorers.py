"""Scorers for scikit-learn's searches: minus a measure of a fitted classifier, with its labels and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np

from ...baselines import ERRORS, Baseline
from ...core.data import as_array, shown
from ...core.extras import require
from ...core.labels import check_labels
from ...core.losses import LOSSES, Loss
from ...core.parameters import described
from ...core.properties import Binary
from ...core.rules import read_bins
from ...core.types import Array
from ...core.words import nearest
from ...kinds.named_errors import default_error, get_error
from ...sums.errors import CalibrationError, Scale

Measure = CalibrationError | Baseline | Loss

_NO_GAP = (
    "measure='gap' cannot be used: a model that knows nothing and predicts base rates has gap 0, and a search would "
    "choose it; use scorer('brier'), and read the gap of the chosen model with evaluate()"
)


@final
@dataclass(frozen=True)
class Scorer:
    """A measure as a scikit-learn scorer: called as scorer(estimator, X, y), greater is better.

    The value is minus the measure, which is why the name begins with neg_. Labels are those of `estimator.classes_`; a
    label that the estimator never saw had probability 0. `set_score_request` gives a scorer that asks for weights.
    """

    measure: Measure | None
    """What is measured; None: the score of the default error."""
    scale: Scale = "raw"
    pos_label: Any = None
    sample_weight: bool | str | None = None
    """Whether the scorer asks for sample weights where scikit-learn routes metadata; see `set_score_request`."""

    @property
    def __name__(self) -> str:
        if self.measure is None:
            return "neg_score"
        named = self.measure.__name__
        return f"neg_{named}" if self.scale == "raw" else f"neg_{named}_score"

    def __repr__(self) -> str:
        return f"<scorer {self.__name__}>"

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        measure = self.measure
        if isinstance(measure, CalibrationError) and measure.property.label_by_label:
            return -float(measure(y, _probabilities(estimator, X), sample_weight=sample_weight, scale=self.scale))
        proba, classes = predict(estimator, X)
        y = as_array(y, "y")
        wanted = np.union1d(classes, y) if _alike(classes, y) else classes
        return -self._value(y, columns_of(proba, classes, wanted), wanted, sample_weight)

    def _value(self, y: Array, proba: Array, classes: Array, weight: Any) -> float:
        measure, options = self.measure, {} if self.scale == "raw" else {"scale": self.scale}
        if measure is None:
            measure = get_error(default_error(proba))
        if isinstance(measure, Loss) or not measure.property.event:
            call: Callable[..., float] = measure
            return float(call(y, proba, sample_weight=weight, labels=classes, **options))
        column = positive_column(classes, self.pos_label)
        came = check_labels(y, 2, classes, "y") == column
        return float(replace(measure, property=Binary())(came, proba[:, column], sample_weight=weight, **options))

    def set_score_request(self, *, sample_weight: bool | str | None) -> Scorer:
        """The same scorer that asks for sample weights (True), does not (False), or takes them under another name."""
        return replace(self, sample_weight=sample_weight)

    def get_metadata_routing(self) -> Any:
        """Metadata that scikit-learn routes to the scorer."""
        request = require("sklearn.utils.metadata_routing", "recalibration").MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self.sample_weight)
        return request


def _alike(one: Array, two: Array) -> bool:
    """Whether both hold texts or both hold numbers: only then can labels be looked up."""
    return (one.dtype.kind in "US") == (two.dtype.kind in "US") and two.ndim == 1


@described("A scorer for scikit-learn; larger is better.")
def scorer(
    measure: str | Measure = "score",
    *,
    error: str | CalibrationError | None = None,
    n_bins: int | Literal["auto"] | None = None,
    pos_label: Any = None,
    **options: Any,
) -> Scorer:
    """A scorer for scikit-learn's cross_validate, GridSearchCV and the like: minus a measure, so greater is better.

    measure: the name of a loss ("brier", which chooses best, "cross_entropy" ...), "score" (the Brier score in which
    miscalibration counts twice), the name of a member of ERRORS, or one of those objects. `error` is what the score is
    about: by default as in `tc.score`, the positive class of two and each of more classes. n_bins is by default the
    measure's own, and the score has none; further `options` are those of a named baseline.
    error="labelwise" is for classifiers of several labels per row, such as MultiOutputClassifier.
    `pos_label` is the positive class of measures of one probability: by default the second of two.

    Do not choose models by an error that is not truthful, such as ECE. The gap raises an error: it is smallest for a
    model that predicts base rates.

    >>> import truecal as tc
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> search = GridSearchCV(GaussianNB(), {"var_smoothing": [1e-9, 10.0]}, scoring=tc.scorer("brier"))
    >>> search.fit(X, load_iris().target_names[y]).best_params_
    {'var_smoothing': 1e-09}
    """
    if isinstance(measure, str) and measure == "gap":
        raise ValueError(_NO_GAP)
    if isinstance(measure, str) and measure == "score":
        if n_bins is not None:
            raise ValueError(f"n_bins={shown(n_bins)} cannot be used: the score has no bins")
        found = None if error is None else get_error(error)
        if found is not None and not found.truthful:
            raise ValueError(f"error must be truthful; {found.__name__} is not: {found.reason}")
        return Scorer(found, "score", pos_label, **_no_more(options))
    if error is not None:
        raise ValueError(f"error={shown(error)} applies to measure='score' only")
    return Scorer(_changed(_measure(measure), n_bins, options), "raw", pos_label)


def _measure(measure: Any) -> Measure:
    if isinstance(measure, str):
        known: dict[str, Measure] = {**LOSSES, **ERRORS}
        if measure not in known:
            close = nearest(measure, ("score", *known), 2)
            meant = f"; did you mean {' or '.join(map(repr, close))}?" if close else ";"
            raise ValueError(
                f"measure must be 'score', the name of a loss or of a member of ERRORS, got {shown(measure)}{meant} "
                "truecal.SCORERS lists all"
            )
        measure = known[measure]
    if not isinstance(measure, (CalibrationError, Baseline, Loss)):
        raise TypeError(f"measure must be a name, a loss or a member of ERRORS, got {shown(measure)}")
    if not _of_classes(measure):
        raise ValueError(
            f"measure={shown(measure.__name__)} cannot be used: it takes outcomes, and a classifier is scored "
            "on its labels; for the confidence in the top class use 'confidence'"
        )
    return measure


def _of_classes(measure: Measure) -> bool:
    """Whether a measure takes labels and the probabilities of their classes."""
    if isinstance(measure, Loss) or (measure.property.label_by_label and measure.property.of_classes):
        return True
    return measure.property.event or measure.property.of_distributions


def _changed(measure: Measure, n_bins: Any, options: dict[str, Any]) -> Measure:
    """The measure at another number of bins, and a baseline with other options."""
    if isinstance(measure, Baseline):
        return measure.with_options(**options, **({} if n_bins is None else {"n_bins": n_bins}))
    _no_more(options)
    if n_bins is None:
        return measure
    if isinstance(measure, Loss):
        raise ValueError(f"n_bins={shown(n_bins)} cannot be used with a loss")
    if n_bins == "auto" and not measure.binning.has_counts:
        return measure
    if isinstance(read_bins(n_bins), tuple):
        raise ValueError(f"n_bins must be one number: a scorer returns one value, got {shown(n_bins)}")
    return measure.with_bins(n_bins)


def _no_more(options: Mapping[str, Any]) -> dict[str, Any]:
    if options:
        raise TypeError(f"scorer has no option {next(iter(options))!r} for this measure")
    return {}


SCORERS: dict[str, Scorer] = {
    made.__name__: made
    for made in (scorer(), *(Scorer(each) for each in (*LOSSES.values(), *ERRORS.values()) if _of_classes(each)))
}
"""Every scorer by its name, neg_score first: those of all losses and of every member of ERRORS about labels. Those of
measures of one probability (property Binary) need two classes."""


def predict(estimator: Any, X: Any) -> tuple[Array, Array]:
    """The probabilities of a fitted classifier, and the class of each column."""
    proba, classes = _probabilities(estimator, X), getattr(estimator, "classes_", None)
    if classes is None or isinstance(classes, list) or isinstance(proba, list):
        name = type(estimator).__name__
        raise TypeError(f"{name} must be a classifier of one target with classes_, got classes_ {shown(classes)}")
    return as_array(proba, "predict_proba(X)"), as_array(classes, "classes_")


def _probabilities(estimator: Any, X: Any) -> Any:
    """What a classifier predicts; of several labels per row it may be a list of tables."""
    if not hasattr(estimator, "predict_proba"):
        name = type(estimator).__name__
        raise TypeError(
            f"{name} has no predict_proba: wrap it in scikit-learn's CalibratedClassifierCV, or pass the fitted "
            "classifier to truecal.calibrate"
        )
    return estimator.predict_proba(X)


def columns_of(proba: Array, classes: Array, wanted: Array) -> Array:
    """Probabilities with a column for each wanted class: a class that was not there to learn has probability 0."""
    if np.array_equal(classes, wanted):
        return proba
    whole = np.zeros((len(proba), len(wanted)), dtype=proba.dtype)
    whole[:, np.searchsorted(wanted, classes)] = proba
    return whole


def positive_column(classes: Array, pos_label: Any) -> int:
    """The column of the positive class: the second of two unless it is named."""
    if len(classes) != 2:
        raise ValueError(f"one probability per row needs two classes, got {len(classes)}: {shown(classes.tolist())}")
    found = [1] if pos_label is None else np.flatnonzero(classes == pos_label)
    if len(found) != 1:
        raise ValueError(f"pos_label must be one of the classes {shown(classes.tolist())}, got {shown(pos_label)}")
    return int(found[0])
