"""A file opened but not read: what its columns or keys hold, and the parts that the rules find among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truecal.core.data import check_probabilities, check_reports, row_blocks
from truecal.io.columns import (
    CLASSES_NAMES,
    LABEL_OPTION,
    LOGITS_OPTION,
    Forms,
    Layout,
    Request,
    check_names,
    find_label,
    find_layout,
    unnamed_layout,
)
from truecal.io.failures import failure, listing, quote
from truecal.io.labels import Values, numbers_if_whole
from truecal.io.predictions import Floats

SMALL = 1 << 26  # bytes; up to this a file may expand as it likes
MOST_EXPANSION = 40  # how many times its own size a compressed file may declare beyond that


@dataclass(frozen=True)
class Source:
    """The columns of a table or the arrays of a file, described before any is read.

    `numbers` reads the named ones as (n,) or (n, k) floats, `values` reads one as labels. `named` is False for a
    single array, or columns, without names.
    """

    path: str
    what: str  # "column" or "key", for messages
    forms: Forms
    numbers: Callable[[Sequence[str]], Floats]
    values: Callable[[str], Values]
    named: bool = True


@dataclass(frozen=True)
class FileParts:
    """What a file holds, as it writes it: numbers (n,) or (n, k), or confidences with hits or predicted labels."""

    layout: Layout
    numbers: Floats
    classes: tuple[str, ...] | None = None
    labels: Values | None = None
    label_where: str = ""
    predicted: Values | None = None
    correct: npt.NDArray[np.bool_] | None = None
    notes: tuple[str, ...] = ()


def extract(request: Request, source: Source, labels_elsewhere: bool) -> FileParts:
    """Find labels and predictions by the rules, and read only those."""
    what, forms, path = source.what, source.forms, source.path
    if source.named or request.label_column is not None:
        label, rule = find_label(request, forms, what, elsewhere=labels_elsewhere)
    else:
        label, rule = None, ""
    layout = (find_layout if source.named else unnamed_layout)(request, forms, label, what)
    notes = [layout.note]
    labels, where = None, ""
    if label is not None:
        labels, where = source.values(label), f"{what} {quote(label)}"
        notes.append(f"labels from the {where} ({rule})")
    if layout.kind == "top_label":
        name = layout.confidence or ""
        confidence = _check_confidence(path, source.numbers((name,)), f"{what} {quote(name)}")
        correct = None if layout.correct is None else _hits(source, layout.correct)
        predicted = None if layout.prediction is None else numbers_if_whole(source.values(layout.prediction))
        return FileParts(layout, confidence, None, labels, where, predicted, correct, tuple(notes))
    classes = layout.classes
    key = next((name for name in forms if name.lower() in CLASSES_NAMES), None) if what == "key" else None
    if key is not None:
        classes = tuple(str(v) for v in source.values(key).tolist())
        check_names(path, classes, "class")
        notes.append(f"class names from the key {quote(key)}")
    return FileParts(layout, source.numbers(layout.columns), classes, labels, where, notes=tuple(notes))


def only_labels(request: Request, source: Source) -> Values:
    """The labels of a file that may hold nothing else."""
    name: str | None
    if len(source.forms) == 1 and request.label_column is None:
        name = next(iter(source.forms))
    else:
        name, _ = find_label(request, source.forms, source.what)
    if name is None:
        found = listing(source.forms)
        raise request.refuse(f"expected a {source.what} called label, found {found}: name it with {LABEL_OPTION}")
    return source.values(name)


def _check_confidence(path: str, values: Floats, where: str) -> Floats:
    """Confidences are probabilities: one per row, present and in [0, 1]."""
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise failure(path, f"expected one confidence per row in {where}, got shape {values.shape}")
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        raise failure(path, f"expected confidences in [0, 1] in {where}, row {row} has {values[row]}")
    return values


def _hits(source: Source, name: str) -> npt.NDArray[np.bool_]:
    """Booleans, zeros and ones, or the words true and false."""
    values = source.values(name)
    if values.dtype == object:
        words = {"true": 1, "false": 0, "1": 1, "0": 0, "1.0": 1, "0.0": 0}
        values = np.array([words.get(v.strip().lower(), -1) for v in values])
    bad = ~((values == 0) | (values == 1))
    if bad.any():
        where = f"{source.what} {quote(name)}"
        raise failure(
            source.path, f"expected true or false (1 or 0) in {where}, row {int(np.argmax(bad))} has something else"
        )
    return values.astype(np.bool_)


def check_expansion(path: str, declared: int, stored: int, what: str) -> None:
    """Refuse a file whose few bytes declare a huge array, before memory is asked for."""
    if declared > max(SMALL, MOST_EXPANSION * stored):
        sizes = f"{what} declares {declared} bytes in {stored}"
        how = f"if it is yours, save it with less compression (at most {MOST_EXPANSION} times)"
        raise failure(path, f"expected an array in proportion to the file, {sizes}: {how}")


def floats(path: str, array: npt.NDArray[Any], where: str) -> Floats:
    """Numbers as floats in their own precision; integers and booleans become float64, other kinds are refused."""
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise failure(path, f"expected numbers in {where}, got dtype {array.dtype}")
    if array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def check_numbers(path: str, numbers: Floats, layout: Layout) -> None:
    """Every number present, and probabilities that are probabilities; says row and column by name."""
    if numbers.shape[0] == 0:
        raise failure(path, "expected at least one row of predictions, got none")
    if numbers.ndim == 2 and numbers.shape[1] < 2:
        raise failure(path, f"expected at least two classes, got predictions of shape {numbers.shape}")
    table = numbers.reshape(len(numbers), -1)
    highest = np.inf if layout.kind == "probabilities" else np.finfo(numbers.dtype).max
    for rows in row_blocks(table.shape[0], table.shape[1] * table.itemsize):
        block = np.asarray(table[rows])
        if not bool((block <= highest).all()):
            row, column = (int(v) for v in np.argwhere(~(block <= highest))[0])
            place = f"row {rows.start + row}, {_column(layout, column)}"
            raise failure(path, f"expected a number at {place}, got {block[row, column]}")
        if layout.kind == "logits" and not bool((block.max(axis=1) > -np.inf).all()):
            row = rows.start + int(np.argmin(block.max(axis=1)))
            raise failure(path, f"expected a logit above -inf in every row, row {row} has none")
    if layout.kind == "probabilities":
        name = quote(layout.columns[0]) if len(layout.columns) == 1 else "the class columns"
        try:
            check_probabilities(numbers, name) if numbers.ndim == 2 else check_reports(numbers, name)
        except (TypeError, ValueError) as error:
            hint = f". No name says what these numbers are: if they are logits, say {LOGITS_OPTION}"
            raise failure(path, f"{error}{'' if layout.sure else hint}") from error


def _column(layout: Layout, column: int) -> str:
    if len(layout.columns) > 1:
        return f"column {quote(layout.columns[column])}"
    return f"{quote(layout.columns[0])} column {column}" if layout.columns else f"column {column}"
