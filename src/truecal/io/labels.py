"""Labels as files write them (numbers, names, booleans), turned into column indices."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from truecal.core.data import as_array, check_labels
from truecal.io.failures import failure, listing, quote
from truecal.io.predictions import Indices

Values = npt.NDArray[Any]

LONGEST_LABEL = 1000  # characters; longer text is a document, not a class
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")


def as_values(path: str, values: Any, where: str) -> Values:
    """Labels as integers, booleans or text (objects), one per row; text that spells whole numbers stays text."""
    try:
        array = np.asarray(as_array(values, where))
    except (TypeError, ValueError) as error:
        raise failure(path, str(error)) from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise failure(path, f"expected one label per row in {where}, got an array of shape {array.shape}")
    if len(array) == 0:
        raise failure(path, f"expected at least one label in {where}, it has none")
    if array.dtype.kind == "f":
        return _whole_numbers(path, array, where)
    return array.astype(object) if array.dtype.kind in "UST" else array


def text_values(path: str, texts: Sequence[str], where: str) -> Values:
    """Text labels as an object array; refuses documents in the place of labels."""
    for row, text in enumerate(texts):
        if len(text) > LONGEST_LABEL:
            raise failure(path, f"expected a label in {where}, row {row} holds a text of {len(text)} characters")
    result = np.empty(len(texts), dtype=object)
    result[:] = texts
    return result


def _whole_numbers(path: str, array: Values, where: str) -> Values:
    with np.errstate(invalid="ignore"):
        bad = ~(np.isfinite(array) & (array == np.floor(array)) & (abs(array) < 2**53))
    if bad.any():
        row = int(np.argmax(bad))
        raise failure(path, f"expected whole numbers or names in {where}, row {row} has {array[row]!s}")
    return array.astype(np.int64)


def numbers_if_whole(values: Values) -> Values:
    """Text that spells whole numbers in every row, as numbers; everything else unchanged."""
    if values.dtype != object or not all(_WHOLE.fullmatch(v) for v in values):
        return values
    return np.array([int(v.partition(".")[0]) for v in values], dtype=np.int64)


def label_indices(path: str, values: Values, n_classes: int, classes: tuple[str, ...] | None, where: str) -> Indices:
    """Column indices: names are looked up among the class names, numbers are names of numbered classes or indices."""
    if classes is not None and values.dtype == object:
        known = {name: j for j, name in enumerate(classes)}
        found = [known.get(v, -1) for v in values]
        if -1 not in found:
            return np.array(found, dtype=np.intp)
        if len(numbers_if_whole(values)) and numbers_if_whole(values).dtype == object:
            row = found.index(-1)
            raise failure(
                path,
                f"expected labels of {where} among the classes {listing(classes)}, row {row} has {quote(values[row])}",
            )
    values = numbers_if_whole(values)
    if values.dtype == object:
        raise failure(
            path,
            f"expected class indices 0 to {n_classes - 1} in {where} (the columns have no names), row 0 has "
            f"{quote(values[0])}: add an array 'classes' or name the columns by class",
        )
    if values.dtype.kind == "b":
        return _from_booleans(path, values, n_classes, classes, where)
    numbered = None if classes is None else numbers_if_whole(np.array(classes, dtype=object))
    names = None if numbered is None or numbered.dtype == object else numbered
    if names is None and values.min() >= 1 and values.max() == n_classes:
        how = f"subtract 1, or name the class columns 1 to {n_classes}"
        raise failure(path, f"expected class indices 0 to {n_classes - 1} in {where}, it counts from 1: {how}")
    try:
        return np.asarray(check_labels(values, n_classes, labels=names, name=where), dtype=np.intp)
    except (TypeError, ValueError) as error:
        hint = "" if names is None else f" (the class columns are {listing(classes or ())})"
        raise failure(path, f"{error}{hint}") from error


def _from_booleans(path: str, values: Values, n_classes: int, classes: tuple[str, ...] | None, where: str) -> Indices:
    names = [c.lower() for c in classes or ()]
    if sorted(names) == ["false", "true"]:
        return np.where(values, names.index("true"), names.index("false")).astype(np.intp)
    if n_classes != 2:
        raise failure(path, f"expected class indices 0 to {n_classes - 1} in {where}, got booleans")
    return values.astype(np.intp)


def hits(path: str, labels: Values, predicted: Values, where: str) -> npt.NDArray[np.bool_]:
    """Which predicted labels equal the labels, both as numbers or both as names."""
    labels, predicted = numbers_if_whole(labels), numbers_if_whole(predicted)
    if (labels.dtype == object) != (predicted.dtype == object):
        raise failure(
            path,
            f"expected labels and {where} in the same coding, row 0 has {quote(labels[0])} and {quote(predicted[0])}",
        )
    if len(labels) != len(predicted):
        raise failure(path, f"expected one label per row, got {len(labels)} labels and {len(predicted)} rows")
    return np.asarray(labels == predicted, dtype=np.bool_)
