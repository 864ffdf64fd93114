"""What a fitted classifier predicts: probabilities, and the class of each column."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.data import as_array, shown
from ...core.types import Array


def predict(estimator: Any, X: Any) -> tuple[Array, Array]:
    """The probabilities of a fitted classifier, and the class of each column."""
    name = type(estimator).__name__
    proba = _probabilities(estimator, X)
    classes = getattr(estimator, "classes_", None)
    if classes is None or isinstance(classes, list) or isinstance(proba, list):
        raise TypeError(f"{name} must be a classifier of one target with classes_, got classes_ {shown(classes)}")
    return as_array(proba, "predict_proba(X)"), as_array(classes, "classes_")


def predict_labels(estimator: Any, X: Any) -> Any:
    """The probabilities of several labels per row: a table, or a list of tables."""
    return _probabilities(estimator, X)


def _probabilities(estimator: Any, X: Any) -> Any:
    name = type(estimator).__name__
    if not hasattr(estimator, "predict_proba"):
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
    if pos_label is None:
        return 1
    return column_of(classes, pos_label)


def column_of(classes: Array, label: Any) -> int:
    found = np.flatnonzero(classes == label)
    if len(found) != 1:
        raise ValueError(f"pos_label must be one of the classes {shown(classes.tolist())}, got {shown(label)}")
    return int(found[0])
