"""Fitted classifiers in the place of their predictions: `predict_proba` is called on X."""

from __future__ import annotations

from typing import Any

import numpy as np


def predicted(model: Any, X: Any, name: str) -> tuple[Any, Any]:
    """What a model predicts for X, and the classes of its columns; arrays as they are, without classes.

    >>> from truecal.results.estimators import predicted
    >>> predicted([.2, .7], None, "y_proba")
    ([0.2, 0.7], None)
    """
    if not hasattr(model, "predict_proba"):
        if hasattr(model, "predict") and hasattr(model, "fit"):
            kind = type(model).__name__
            raise TypeError(f"{name} is a {kind}, which has no predict_proba: pass its probabilities instead")
        return model, None
    if X is None:
        kind = type(model).__name__
        raise TypeError(f"{name} is a {kind}: pass X=, the rows to predict, or its model.predict_proba(X)")
    classes = getattr(model, "classes_", None)
    return model.predict_proba(X), None if isinstance(classes, list) else classes  # a list: one entry per label


def check_X(X: Any, models: Any) -> None:
    """X applies to classifiers alone."""
    if X is not None and not any(hasattr(model, "predict") for model in models):
        raise TypeError("X= applies to fitted classifiers, and every model is an array of predictions: drop X=")


def common_classes(classes: dict[str, Any], labels: Any) -> Any:
    """The labels as given, or the classes of the classifiers, which must be the same."""
    if labels is not None or not classes:
        return labels
    first, found = next(iter(classes.items()))
    for name, other in classes.items():
        if not np.array_equal(found, other):
            raise ValueError(f"{first} and {name} have different classes: {list(found)[:8]} and {list(other)[:8]}")
    return found
