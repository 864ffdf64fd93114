"""Several files of the same samples: the check that they are, one class order, and a name for each."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from truecal.core.types import Array
from truecal.io.failures import NoRowsError, failure, listing, path_text, quote, readable
from truecal.io.matching import IdColumn, match_rows
from truecal.io.prediction_file import Predictions

Get = Callable[[Predictions], Array | None]


def check_same_samples(predictions: Sequence[Predictions], *, id_column: IdColumn = None) -> tuple[Predictions, ...]:
    """The predictions, with rows and columns in one order, after checking that all are of the same samples.

    Rows are matched with those of the first file by `id_column`; by default by a column of the same name with unique
    values in both files, where there is one; False takes rows in the order they are in.

    Each field (row count, document numbers, class names, numbers of choices and of classes, labels) is compared with
    the first file that has it; otherwise a FileError names the file that differs, the first differing row (from 0) and
    both values. The class order is that of the first file that names its classes; the columns of files without names
    are taken to be in that order, which their `notes` then say. Files that give only `correct` can be checked by their
    row count alone.

    >>> import numpy as np
    >>> from truecal.io import FileError, Predictions, check_same_samples
    >>> half = np.full((3, 2), 0.5)
    >>> a = Predictions("a", "a.npz", "probabilities", y_true=np.array([0, 1, 1]), proba=half)
    >>> b = Predictions("b", "b.npz", "probabilities", y_true=np.array([0, 1, 0]), proba=half)
    >>> len(check_same_samples([a, a]))
    2
    >>> try:
    ...     check_same_samples([a, b])
    ... except FileError as error:
    ...     print(error)
    b.npz: the labels differ from those of a.npz: at row 2 it has 0 where a.npz has 1
    """
    predictions = [*predictions[:1], *(_in_row_order(predictions[0], p, id_column) for p in predictions[1:])]
    for other in predictions[1:]:
        ours, theirs = (p.n_rows or p.n for p in (predictions[0], other))
        if ours != theirs:
            raise failure(other.path, f"expected {ours} rows as in {predictions[0].path}, got {theirs}")
    predictions = _rows_of_all(predictions)
    _check_field(predictions, "the doc_id values", lambda p: p.ids)
    several = tuple(in_index_order(p) for p in predictions)  # numbers 0 to k-1 are indices, not names
    first = next((p for p in several if names_classes(p)), None)
    if first is not None:
        several = tuple(in_order_of(first, p) for p in several)
    _check_field(several, "the numbers of choices", lambda p: p.n_choices)
    wide = [p for p in several if p.n_classes is not None]
    for other in wide[1:]:
        if other.n_classes != wide[0].n_classes:
            expected = f"{wide[0].n_classes} classes as in {wide[0].path}"
            raise failure(other.path, f"expected {expected}, got {other.n_classes}")
    _check_field(several, "the labels", lambda p: p.y_true)
    _check_written_labels(several)
    return several


def _in_row_order(first: Predictions, other: Predictions, id_column: IdColumn) -> Predictions:
    """The other file's rows in the order of the first one's, where both have a column of identifiers."""
    if os.path.realpath(first.path) == os.path.realpath(other.path):
        return other
    match = match_rows(first.keys, other.keys, id_column)
    if match is None:
        return other
    notes = (*other.notes, match.note)
    if other.rows is None:
        return replace(other.take(match.order), notes=notes)
    rows = np.argsort(match.order)[other.rows]  # the numbers that the rows have in the first file
    order = np.argsort(rows)
    return replace(other.take(order), rows=rows[order], notes=notes)


def _rows_of_all(predictions: Sequence[Predictions]) -> Sequence[Predictions]:
    """The rows for which no file lacks a prediction."""
    kept = [p.rows for p in predictions if p.rows is not None]
    if not kept:
        return predictions
    common = reduce(np.intersect1d, kept)
    if len(common) == 0:
        words = "no row has a prediction in every file"
        raise NoRowsError(failure(predictions[0].path, words))
    result = []
    for p in predictions:
        if p.n > len(common):
            note = f"{p.n - len(common)} rows dropped: other files have no prediction for them"
            rows = common if p.rows is None else np.searchsorted(p.rows, common)
            p = replace(p.take(rows), rows=common, notes=(*p.notes, note))
        result.append(p)
    return result


def first_difference(ours: Array, theirs: Array) -> int | None:
    """The first row in which two arrays differ, 0 where their shapes do, None where they are equal."""
    if ours.shape != theirs.shape:
        return 0
    differs = np.asarray(ours != theirs).reshape(len(ours), -1).any(axis=1)
    return int(np.argmax(differs)) if differs.any() else None


def _check_field(several: Sequence[Predictions], what: str, get: Get) -> None:
    """Hold every file that has a field against the first that has it."""
    having = [p for p in several if get(p) is not None]
    for other in having[1:]:
        _check_equal(having[0], other, get, what)


def _check_equal(first: Predictions, other: Predictions, get: Get, what: str) -> None:
    ours, theirs = get(first), get(other)
    if ours is None or theirs is None or (row := first_difference(ours, theirs)) is None:
        return
    mine, his = _shown(first, ours[row], ours), _shown(other, theirs[row], theirs)
    codes = ours[row], theirs[row]
    hint = ""
    if ours is first.y_true and theirs.ndim == 1 and (first.classes is None) != (other.classes is None):
        unnamed = first.path if first.classes is None else other.path
        mine, his = _class_at(first, codes[0]), _class_at(other, codes[1])
        hint = f": {unnamed} has no class names, its columns are taken to be in the order of the other's"
    where = f"at row {row} it has {his} where {first.path} has {mine}"
    raise failure(other.path, f"{what} differ from those of {first.path}: {where}{hint}")


def _shown(predictions: Predictions, value: Any, of: Array) -> str:
    if predictions.classes is not None and of is predictions.y_true and of.ndim == 1:
        return quote(predictions.classes[value])
    return quote(value.item() if isinstance(value, np.generic) else value)


def _class_at(predictions: Predictions, index: int) -> str:
    return f"class {index}" + ("" if predictions.classes is None else f" ({quote(predictions.classes[index])})")


def in_index_order(predictions: Predictions) -> Predictions:
    """Columns named by the numbers 0 to k-1, put in the order of these numbers, as in files without names."""
    classes = predictions.classes
    if classes is None or not _is_numbered(classes) or classes == (ordered := tuple(sorted(classes, key=int))):
        return predictions
    return _reordered(predictions, ordered, "columns were put in the order of their numbers")


def _is_numbered(classes: tuple[str, ...]) -> bool:
    return set(classes) == {str(j) for j in range(len(classes))}


def names_classes(predictions: Predictions) -> bool:
    """Whether the columns have names other than their indices 0 to k-1."""
    return predictions.classes is not None and not _is_numbered(predictions.classes)


def in_order_of(first: Predictions, other: Predictions) -> Predictions:
    """The other predictions with their columns in the class order of the first."""
    assert first.classes is not None
    if not names_classes(other) or other.classes is None:
        if other.n_classes is None or other.n_choices is not None:
            return other
        note = f"no class names: its columns are taken to be in the class order of {path_text(first.path)}"
        return replace(other, notes=(*other.notes, f"{note} ({listing(first.classes, 12)})"))
    if first.classes == other.classes:
        return other
    if sorted(first.classes) != sorted(other.classes):
        odd = sorted(set(first.classes) ^ set(other.classes))[0]
        home, away = (first.path, other.path) if odd in first.classes else (other.path, first.path)
        raise failure(
            other.path, f"the classes differ from those of {first.path}: {quote(odd)} is in {home} and not in {away}"
        )
    return _reordered(other, first.classes, f"columns were put in the class order of {path_text(first.path)}")


def _reordered(predictions: Predictions, classes: tuple[str, ...], note: str) -> Predictions:
    position = {name: j for j, name in enumerate(predictions.classes or ())}
    order = np.array([position[name] for name in classes], dtype=np.intp)
    y_true = predictions.y_true
    if y_true is not None:
        y_true = y_true[:, order] if y_true.ndim == 2 else np.argsort(order)[y_true]  # old column -> new column
    both = {"proba": predictions.proba, "logits": predictions.logits}
    moved: dict[str, Any] = {name: rows[:, order] for name, rows in both.items() if rows is not None}
    return replace(predictions, classes=classes, y_true=y_true, notes=(*predictions.notes, note), **moved)


def _check_written_labels(several: Sequence[Predictions]) -> None:
    """Labels as written, where at least one side has no indices: names with names, numbers with numbers, and across."""
    if all(p.y_true is not None for p in several):
        return
    for i, other in enumerate(several):
        compared = False
        for form in (_label_names, _label_numbers):
            first = next((p for p in several[:i] if form(p) is not None), None)
            if first is None or form(other) is None:
                continue
            compared = True
            if first.y_true is None or other.y_true is None:
                _check_equal(first, other, form, "the labels")
        first = next((p for p in several[:i] if _written(p) is not None), None)
        if not compared and first is not None and (first.y_true is None or other.y_true is None):
            _check_renaming(first, other)


def _label_names(predictions: Predictions) -> Array | None:
    values, classes = predictions.label_values, predictions.classes
    if values is not None and values.dtype == object:
        return values
    y_true = predictions.y_true
    if y_true is None or y_true.ndim == 2 or classes is None or not names_classes(predictions):
        return None
    return np.array(classes, dtype=object)[y_true]


def _label_numbers(predictions: Predictions) -> Array | None:
    values = predictions.label_values
    if values is not None:
        return values.astype(np.int64) if values.dtype.kind in "iub" else None
    return None if names_classes(predictions) else predictions.y_true


def _written(predictions: Predictions) -> Array | None:
    names = _label_names(predictions)
    return _label_numbers(predictions) if names is None else names


def _check_renaming(first: Predictions, other: Predictions) -> None:
    """Names on one side and numbers on the other: each name must go with one number, and each number with one name."""
    ours, theirs = _written(first), _written(other)
    if ours is None or theirs is None:
        return
    pairs = list(zip(ours.tolist(), theirs.tolist(), strict=True))
    forth: dict[Any, tuple[Any, int]] = {}
    back: dict[Any, tuple[Any, int]] = {}
    for row, (mine, his) in enumerate(pairs):
        for seen, key, value in ((forth, mine, his), (back, his, mine)):
            known, earlier = seen.setdefault(key, (value, row))
            if known != value:
                was = pairs[earlier]
                now = f"row {row} has {quote(his)} where {first.path} has {quote(mine)}"
                before = f"row {earlier} has {quote(was[1])} where that has {quote(was[0])}"
                raise failure(
                    other.path, f"the labels are not those of {first.path} in another coding: {now}, but {before}"
                )


def distinct_names(predictions: Sequence[Predictions]) -> tuple[str, ...]:
    """A name for each file: its `name`; files that would share one get as many folders in front as tell them apart.

    Where folders do not (the same name with two suffixes, a file given twice), the suffix or a number is added.

    >>> import numpy as np
    >>> from truecal.io import Predictions, distinct_names
    >>> one = np.ones(1)
    >>> distinct_names([Predictions("p", f"{m}/p.npz", "top_label", confidence=one) for m in ("small", "large")])
    ('small/p', 'large/p')
    """
    names = [readable(p.name) for p in predictions]
    groups = [[i for i, other in enumerate(names) if other == name] for name, n in Counter(names).items() if n > 1]
    for members in groups:
        for i, name in zip(members, _told_apart([predictions[i] for i in members]), strict=True):
            names[i] = name
    return _numbered(names)


def _told_apart(group: Sequence[Predictions]) -> list[str]:
    """The shortest folders, else the suffixes, that give each file of a group its own name, if any do."""
    paths = [Path(p.path) for p in group]
    folders = [["" if part == path.anchor else readable(part) for part in path.parts[:-1]] for path in paths]
    for last in ([readable(p.name) for p in group], [readable(path.name) for path in paths]):
        for depth in range(max(map(len, folders)) + 1):
            both = zip(folders, last, strict=True)
            names = ["/".join([*above[max(0, len(above) - depth) :], name]) for above, name in both]
            if len(set(names)) == len(names):
                return names
    return [readable(p.name) for p in group]


def _numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Names that still are the same, with (1), (2), ... behind them."""
    taken = set(names)
    result = []
    for name in names:
        free = name
        if names.count(name) > 1:
            free = next(n for j in itertools.count(1) if (n := f"{name} ({j})") not in taken)
            taken.add(free)
        result.append(free)
    return tuple(result)
