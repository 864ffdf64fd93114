"""Labels and outcomes as the user hands them in, validated: class indices, label distributions, two classes."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from .data import as_array, both_classes, check_probabilities, check_reports, check_same_length, shown
from .types import Array


def check_multiclass(y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
    """Class indices (n,), or label distributions (n, k), and probabilities (n, k) of the same rows.

    Two classes may come as one probability per row, that of class 1, as scikit-learn's scorers hand them over.
    """
    from .frames import column_classes

    labels = column_classes(y_true, y_proba, labels)
    y, proba = as_array(y_true, "y_true"), as_array(y_proba, "y_proba")
    refuse_swapped(y, proba)
    proba = check_probabilities(_of_two_classes(y, proba, labels) if proba.ndim == 1 else proba)
    outcomes = check_class_outcomes(y, proba.shape[1], labels)
    check_same_length(y_true=outcomes, y_proba=proba)
    return outcomes, proba


def _of_two_classes(y: Array, positive: Array, labels: Any) -> Array:
    """One probability per row as those of both classes; labels of more classes are refused."""
    if labels is None and y.dtype.kind in "iuf" and y.size and y.max() > 1:
        raise ValueError(
            f"y_proba must have shape (n_samples, n_classes), got shape {positive.shape}: one probability per row is "
            f"for classes 0 and 1, and y_true has {y.max():g} at row {int(y.argmax())}"
        )
    return both_classes(check_reports(positive, "y_proba"))


def check_class_outcomes(y_true: Any, n_classes: int, labels: Any = None) -> Array:
    """Class indices (n,), or label distributions (n, k)."""
    y = as_array(y_true, "y_true")
    if not (y.ndim == 2 and y.shape[1] > 1):
        return check_labels(y, n_classes, labels)
    if labels is not None:
        raise ValueError("labels cannot be used: y_true has a column per class already")
    return check_soft_labels(y, n_classes)


def check_soft_labels(y_true: Array, n_classes: int) -> Array:
    """Label distributions (n, k), such as shares of human votes: rows in [0, 1] that sum to 1, one column per class."""
    if y_true.shape[1] != n_classes:
        raise ValueError(f"y_true has {y_true.shape[1]} columns and y_proba has {n_classes}: expected one per class")
    return check_probabilities(y_true, "y_true").astype(np.float64)


def refuse_swapped(y_true: Any, y_proba: Any) -> None:
    """Labels come first, as in scikit-learn; catch the two arguments in the wrong order by their shapes."""
    if np.ndim(y_true) == 2 and np.ndim(y_proba) == 1:
        raise ValueError(
            f"y_true has shape {np.shape(y_true)} and y_proba has shape {np.shape(y_proba)}: "
            "the arguments look swapped; labels come first, then probabilities"
        )


def check_labels(y_true: Any, n_classes: int, labels: Any = None, name: str = "y_true") -> Array:
    """Class indices (n,) into the columns.

    `labels[j]` is the class of column j. Without `labels`, integers must be column indices 0..k−1.
    """
    y = np.asarray(as_array(y_true, name))
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        hint = "; one-hot rows must be turned into indices, with .argmax(axis=1)" if y.ndim == 2 else ""
        raise ValueError(f"{name} must be one-dimensional, got shape {y.shape}{hint}")
    if y.size == 0:
        raise ValueError(f"{name} is empty: expected at least one label")
    if labels is not None:
        return _indices_of_names(y, labels, n_classes, name)
    if y.dtype.kind not in "iuf":
        kind = "bools" if y.dtype.kind == "b" else "strings"
        raise TypeError(f"{name} holds {kind}; pass labels=[...] with the class of each column, in order")
    return _column_indices(y, n_classes, name)


def _column_indices(y: Array, n_classes: int, name: str) -> Array:
    if y.dtype.kind == "f":
        bad = ~(y == np.floor(y))  # also true for NaN
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(f"{name} must hold class indices, got {y[row]!s} at row {row}")
        if np.isinf(y).any():
            raise ValueError(f"{name} has an infinite value at row {int(np.argmax(np.isinf(y)))}")
    low, high = y.min(), y.max()
    if low < 0 or high >= n_classes:
        if low >= 1 and high == n_classes:
            raise ValueError(
                f"{name} runs from {low:g} to {high:g} for {n_classes} columns: 1-based coding; "
                f"expected 0..{n_classes - 1} (subtract 1, or pass labels=range(1, {n_classes + 1}))"
            )
        row = int(np.argmax((y < 0) | (y >= n_classes)))
        raise ValueError(f"{name} must hold column indices from 0 to {n_classes - 1}; row {row} has {y[row]:g}")
    return y.astype(np.intp, copy=False)


def _indices_of_names(y: Array, labels: Any, n_classes: int, name: str) -> Array:
    names = np.asarray(as_array(labels, "labels"))
    if names.ndim != 1 or len(names) != n_classes:
        raise ValueError(f"labels must name the {n_classes} columns, got shape {names.shape}")
    if (names.dtype.kind in "US") != (y.dtype.kind in "US"):
        raise TypeError(f"labels hold {names.dtype} and {name} holds {y.dtype}: expected the same kind")
    order = np.argsort(names, kind="stable")
    ordered = names[order]
    if (ordered[1:] == ordered[:-1]).any():
        twice = ordered[1:][ordered[1:] == ordered[:-1]][0]
        raise ValueError(f"labels must be distinct, got {twice!s} twice")
    place = np.minimum(np.searchsorted(ordered, y), n_classes - 1)
    unknown = ordered[place] != y
    if unknown.any():
        row = int(np.argmax(unknown))
        raise ValueError(f"{name} has {y[row]!s} at row {row}, which is not in labels")
    return order[place].astype(np.intp, copy=False)


def check_binary_outcomes(y_true: Any, pos_label: Any) -> Array:
    """Booleans: which outcomes are the positive class."""
    name = "y_true"
    y = np.asarray(as_array(y_true, name))
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.size == 0:
        raise ValueError(f"{name} must be a non-empty one-dimensional array, got shape {y.shape}")
    if y.dtype.kind == "f" and np.isnan(y).any():
        raise ValueError(f"{name} has NaN at row {int(np.argmax(np.isnan(y)))}; expected two classes")
    if isinstance(pos_label, tuple) or not isinstance(pos_label, Hashable):
        raise TypeError(f"pos_label must be one class, got {shown(pos_label)}")
    if y.dtype.kind == "S" and isinstance(pos_label, str):
        y = y.astype(np.str_)
    if (y.dtype.kind in "US") != isinstance(pos_label, (str, bytes)):
        raise TypeError(
            f"{name} holds {y.dtype} and pos_label is {shown(pos_label)}: pass the positive class as pos_label"
        )
    values = np.unique(y)
    known = set(values.tolist())
    usual = any(known <= pair and pos_label in pair for pair in ({0, 1}, {-1, 1}))
    if not usual and (len(values) > 2 or pos_label not in known):
        odd = next((v for v in values if v != pos_label and v not in (0, 1)), values[-1])
        row = int(np.argmax(y == odd))
        raise ValueError(
            f"{name} must hold two classes, one of them pos_label={shown(pos_label)}, got {odd!s} at row {row}"
        )
    if not usual and y.dtype.kind not in "US" and pos_label == 1:
        raise ValueError(f"{name} holds {values.tolist()}, not 0 and 1: recode them, or use strings and pos_label")
    return np.asarray(y == pos_label)
