"""Labels as files write them (numbers, names, booleans, distributions), turned into column indices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from truecal.core.data import as_array, check_probabilities
from truecal.core.labels import check_labels
from truecal.io.column_rules import BASE_OPTION
from truecal.io.failures import failure, listing, quote
from truecal.io.prediction_file import Floats, Indices

Values = npt.NDArray[Any]

LONGEST_LABEL = 1000  # characters; longer text is a document, not a class
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")
_SCIENTIFIC = re.compile(r"[+-]?[0-9](\.[0-9]*)?[eE][+-]?[0-9]{1,2}")  # 2.000e+00, as numpy.savetxt writes 2


def as_values(path: str, values: Any, where: str) -> Values:
    """Labels as integers, booleans or text (objects), one per row, or as rows of numbers (soft labels, one-hot rows).

    Text that spells whole numbers stays text.
    """
    try:
        array = np.asarray(as_array(values, where))
    except (TypeError, ValueError) as error:
        raise failure(path, str(error)) from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.dtype.kind not in "fiub"):
        raise failure(path, f"expected one label per row in {where}, got an array of shape {array.shape}")
    if len(array) == 0:
        raise failure(path, f"there are no labels in {where}")
    if array.ndim == 2:
        return array.astype(np.float64)
    if array.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            bad = ~(np.isfinite(array) & (array == np.floor(array)) & (abs(array) < np.float64(2**53)))
        if bad.any():
            row = int(np.argmax(bad))
            raise failure(path, f"expected whole numbers or names in {where}, row {row} has {array[row]!s}")
        return array.astype(np.int64)
    if array.dtype.kind == "S":  # as other tools write text: bytes are names in UTF-8
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError as error:
            raise failure(path, f"expected text in UTF-8 in {where}, but it has other bytes") from error
    return array.astype(object) if array.dtype.kind in "UT" else array


def check_texts(path: str, texts: Iterable[str], where: str) -> None:
    """Refuse documents in the place of labels."""
    for text in texts:
        if len(text) > LONGEST_LABEL:
            raise failure(path, f"expected labels in {where}, but it holds a text of {len(text)} characters")


def numbers_if_whole(values: Values) -> Values:
    """Text that spells whole numbers in every row, as numbers; everything else unchanged."""
    if values.dtype != object or not all(_is_whole(v) for v in set(values.tolist())):
        return values
    return _translated(values, lambda v: int(v.partition(".")[0]) if _WHOLE.fullmatch(v) else int(float(v)))


def _is_whole(text: str) -> bool:
    if _WHOLE.fullmatch(text):
        return True
    return bool(_SCIENTIFIC.fullmatch(text)) and float(text).is_integer() and abs(float(text)) < 2**53


def _translated(values: Values, number: Callable[[str], int]) -> npt.NDArray[np.int64]:
    """The number of each text; each different text is looked at once."""
    texts = values.tolist()  # a list is passed faster than an array of objects
    known = {text: number(text) for text in set(texts)}
    return np.fromiter(map(known.__getitem__, texts), dtype=np.int64, count=len(texts))


def label_indices(
    path: str, values: Values, n_classes: int, classes: tuple[str, ...] | None, where: str, base: int = 0
) -> Indices | Floats:
    """Column indices: names are looked up among the class names, numbers are names of numbered classes or indices.

    Indices may count from `base`. Rows of numbers must be distributions over the classes: one-hot rows become indices,
    others stay as they are.
    """
    if values.ndim == 2:
        return _soft_labels(path, values, n_classes, where)
    expected = f"expected class indices 0 to {n_classes - 1} in {where}"
    numbers = numbers_if_whole(values)
    if classes is not None and values.dtype == object:
        known = {name: j for j, name in enumerate(classes)}
        found = _translated(values, lambda v: known.get(v, -1))
        if found.min() >= 0:
            return found.astype(np.intp, copy=False)
        if numbers.dtype == object:
            row = int(np.argmin(found))
            raise failure(
                path, f"{where}, row {row}: {quote(values[row])} is not one of the classes {listing(classes)}"
            )
    if numbers.dtype == object:
        how = "add an array 'classes' or name the columns by class"
        raise failure(path, f"{expected} (the columns have no names), row 0 has {quote(values[0])}: {how}")
    if numbers.dtype.kind == "b":
        truth = [name.lower() for name in classes or ()]
        if sorted(truth) == ["false", "true"]:
            return np.where(numbers, truth.index("true"), truth.index("false")).astype(np.intp)
        if n_classes != 2:
            raise failure(path, f"{expected}, got booleans")
        return numbers.astype(np.intp)
    named = None if classes is None else numbers_if_whole(np.array(classes, dtype=object))
    names = None if named is None or named.dtype == object else named
    if names is None and base:
        if numbers.min() < base or numbers.max() >= n_classes + base:
            row = int(np.argmax((numbers < base) | (numbers >= n_classes + base)))
            last = n_classes + base - 1
            raise failure(path, f"expected labels {base} to {last} in {where}, row {row} has {numbers[row]}")
        return np.asarray(numbers - base, dtype=np.intp)
    if names is None and numbers.min() >= 1 and numbers.max() == n_classes:
        raise failure(
            path, f"{expected}, but it counts from 1: pass {BASE_OPTION}, or name the class columns by number"
        )
    in_order = names is not None and np.array_equal(names, np.arange(n_classes))  # names that are the places themselves
    try:
        checked = check_labels(numbers, n_classes, labels=None if in_order else names, name=where)
        return np.asarray(checked, dtype=np.intp)
    except (TypeError, ValueError) as error:
        hint = "" if names is None else f" (the class columns are {listing(classes or ())})"
        raise failure(path, f"{error}{hint}") from error


def _soft_labels(path: str, values: Values, n_classes: int, where: str) -> Indices | Floats:
    if values.shape[1] != n_classes:
        raise failure(path, f"expected one label per row in {where}, or {n_classes} shares, got shape {values.shape}")
    try:
        check_probabilities(values, where)
    except (TypeError, ValueError) as error:
        raise failure(path, str(error)) from error
    one_hot = bool(((values == 0) | (values == 1)).all())
    return values.argmax(axis=1).astype(np.intp) if one_hot else values


def hits(path: str, labels: Values, predicted: Values, where: str) -> npt.NDArray[np.bool_]:
    """Which predicted labels equal the labels, both as numbers or both as names."""
    labels, predicted = numbers_if_whole(labels), numbers_if_whole(predicted)
    if (labels.dtype == object) != (predicted.dtype == object):
        values = f"row 0 has {quote(labels[0])} and {quote(predicted[0])}"
        raise failure(path, f"labels and {where} are coded differently: {values}")
    return np.asarray(labels == predicted, dtype=np.bool_)
