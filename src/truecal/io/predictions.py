"""What a prediction file holds, and the check that several files speak of the same samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from truecal.io.failures import failure, quote
from truecal.kernels.cpu import softmax

Kind = Literal["probabilities", "logits", "top_label", "choices"]
KINDS: tuple[Kind, ...] = ("probabilities", "logits", "top_label", "choices")

Floats = npt.NDArray[np.floating[Any]]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Predictions:
    """The predictions of one model on n samples, as one file gives them.

    kind "probabilities": `proba` (n, k), float32 or float64 as stored. "logits": `logits` (n, k). "top_label": only
    `confidence` (n,) and, when the labels are known, `correct` (n,). "choices": rows with their own number of choices
    `n_choices` (n,); `logits` are the log-likelihoods padded with −inf and `proba` their softmax, padded with zeros.
    A zero-padded row is a probability vector over the padded choices, so the confidence errors and all five losses of
    `proba` are exact; classwise and full calibration mean something only if a column is the same class in every row.

    `y_true` holds column indices, or is None where the file has no labels (and always for "top_label"); `label_values`
    are the labels as written. `ids` are document numbers, where the format has them. `notes` say what was read and by
    which rule.
    """

    name: str
    path: str
    kind: Kind
    y_true: Indices | None = None
    proba: Floats | None = None
    logits: Floats | None = None
    classes: tuple[str, ...] | None = None
    correct: npt.NDArray[np.bool_] | None = None
    confidence: Floats | None = None
    n_choices: Indices | None = None
    ids: Indices | None = None
    label_values: npt.NDArray[Any] | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self._rows)

    @property
    def n_classes(self) -> int | None:
        """The number of columns (of the longest row for "choices"), None for "top_label"."""
        return None if self.kind == "top_label" else int(self._rows.shape[1])

    @property
    def supports(self) -> tuple[str, ...]:
        """The properties whose calibration these predictions can be checked for."""
        ragged = self.n_choices is not None and len(np.unique(self.n_choices)) > 1
        return ("confidence",) if self.kind == "top_label" or ragged else ("confidence", "classwise", "full")

    def probabilities(self) -> Floats:
        """`proba`, or the softmax of `logits`: p_r = exp z_r / Σ_s exp z_s.

        >>> import numpy as np
        >>> from truecal.io import Predictions
        >>> Predictions("a", "a.npz", "logits", logits=np.log([[1.0, 3.0]])).probabilities()
        array([[0.25, 0.75]])
        """
        if self.proba is not None:
            return self.proba
        if self.logits is None:
            raise failure(self.path, "expected probabilities of all classes, the file gives the top label's only")
        return softmax(self.logits)

    @property
    def _rows(self) -> npt.NDArray[Any]:
        for rows in (self.proba, self.logits, self.confidence):
            if rows is not None:
                return rows
        raise TypeError("Predictions needs proba, logits or confidence, got none of them")

    def __repr__(self) -> str:
        width = "" if self.n_classes is None else f" x {self.n_classes}"
        labels = "labelled" if self.y_true is not None or self.correct is not None else "no labels"
        return f"<Predictions {self.name!r}: {self.kind}, {self.n}{width}, {labels}>"


def check_same_samples(predictions: Sequence[Predictions]) -> tuple[Predictions, ...]:
    """The predictions, with columns in the first file's class order, if all of them speak of the same samples.

    Row counts, document numbers, class names and labels must agree with the first file, wherever both sides have them;
    otherwise a FileError names the file that differs, the first differing row (from 0) and both values. Files that
    give only `correct` can be checked by their row count alone.

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
    b.npz: expected the labels of a.npz, at row 2 it has 0 where a.npz has 1
    """
    if not predictions:
        return ()
    first = predictions[0]
    return (first, *(_check_against(first, other) for other in predictions[1:]))


def _check_against(first: Predictions, other: Predictions) -> Predictions:
    if other.n != first.n:
        raise failure(other.path, f"expected {first.n} rows as in {first.path}, got {other.n}")
    if first.ids is not None and other.ids is not None:
        _check_equal(first, other, first.ids, other.ids, "the doc_id values")
    other = _in_class_order(first, other)
    if first.n_choices is not None and other.n_choices is not None:
        _check_equal(first, other, first.n_choices, other.n_choices, "the numbers of choices")
    elif first.n_classes is not None and other.n_classes is not None and first.n_classes != other.n_classes:
        raise failure(other.path, f"expected {first.n_classes} classes as in {first.path}, got {other.n_classes}")
    if first.y_true is not None and other.y_true is not None:
        _check_equal(first, other, first.y_true, other.y_true, "the labels")
    else:
        _check_written_labels(first, other)
    return other


def _in_class_order(first: Predictions, other: Predictions) -> Predictions:
    if first.classes is None or other.classes is None or first.classes == other.classes:
        return other
    if sorted(first.classes) != sorted(other.classes):
        odd = sorted(set(first.classes) ^ set(other.classes))[0]
        home, away = (first.path, other.path) if odd in first.classes else (other.path, first.path)
        raise failure(other.path, f"expected the classes of {first.path}, {quote(odd)} is in {home} and not in {away}")
    position = {name: j for j, name in enumerate(other.classes)}
    order = np.array([position[name] for name in first.classes], dtype=np.intp)
    rank = np.argsort(order)  # old column -> new column
    return replace(
        other,
        classes=first.classes,
        y_true=None if other.y_true is None else rank[other.y_true],
        proba=None if other.proba is None else other.proba[:, order],
        logits=None if other.logits is None else other.logits[:, order],
        notes=(*other.notes, f"columns were put in the class order of {first.path}"),
    )


def _check_written_labels(first: Predictions, other: Predictions) -> None:
    """Compare labels as written, where at least one side has no class indices; names cannot be held against numbers."""
    ours, theirs = _written(first), _written(other)
    if ours is not None and theirs is not None and ours.dtype.kind == theirs.dtype.kind:
        _check_equal(first, other, ours, theirs, "the labels")


def _written(predictions: Predictions) -> npt.NDArray[Any] | None:
    values = predictions.label_values
    if values is None:
        return predictions.y_true
    return values.astype(np.int64) if values.dtype.kind in "iub" else values


def _check_equal(
    first: Predictions, other: Predictions, ours: npt.NDArray[Any], theirs: npt.NDArray[Any], what: str
) -> None:
    differs = np.flatnonzero(ours != theirs)
    if len(differs):
        row = int(differs[0])
        mine, his = _shown(first, ours, row, what), _shown(other, theirs, row, what)
        raise failure(
            other.path, f"expected {what} of {first.path}, at row {row} it has {his} where {first.path} has {mine}"
        )


def _shown(predictions: Predictions, values: npt.NDArray[Any], row: int, what: str) -> str:
    value = values[row].item()
    if what == "the labels" and predictions.classes is not None and values is predictions.y_true:
        return quote(predictions.classes[value])
    return quote(value)


def distinct_names(predictions: Sequence[Predictions]) -> tuple[str, ...]:
    """A name for each file: its `name`, with as many folders in front as it takes to tell all of them apart.

    >>> import numpy as np
    >>> from truecal.io import Predictions, distinct_names
    >>> one = np.ones(1)
    >>> distinct_names([Predictions("p", f"{m}/p.npz", "top_label", confidence=one) for m in ("small", "large")])
    ('small/p', 'large/p')
    """
    paths = [Path(p.path) for p in predictions]
    for depth in range(max((len(path.parts) for path in paths), default=1)):
        names = [
            "/".join([*path.parts[:-1][::-1][:depth][::-1], p.name]) for path, p in zip(paths, predictions, strict=True)
        ]
        if len(set(names)) == len(names):
            return tuple(names)
    return tuple(f"{p.path} ({i})" for i, p in enumerate(predictions, start=1))  # one file given twice
