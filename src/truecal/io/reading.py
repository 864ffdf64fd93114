"""Prediction files in: the format by the suffix, checked by the first bytes; then one judgement for all formats."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from truecal.io import arrays, delimited, tables
from truecal.io.columns import LABEL_OPTION, LABELS_OPTION, MOST_LISTED, Request
from truecal.io.contents import Contents, check_matrix, two_columns
from truecal.io.failures import FileError, failure, listing, path_text, quote
from truecal.io.labels import Values, as_values, hits, label_indices, numbers_if_whole
from truecal.io.predictions import Indices, Kind, Predictions, in_index_order, readable
from truecal.io.samples import read_samples

Reader = Callable[[Request, bool], Contents]

FORMATS: dict[str, str] = {
    ".npz": "npz",
    ".npy": "npy",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".feather": "arrow",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".pt": "torch",
    ".pth": "torch",
    ".safetensors": "safetensors",
}

_READERS: dict[str, Reader] = {
    "npz": arrays.read_npz,
    "npy": arrays.read_npy,
    "csv": delimited.read_csv,
    "parquet": tables.read_parquet,
    "arrow": tables.read_arrow,
    "torch": arrays.read_torch,
    "safetensors": arrays.read_safetensors,
}

_MAGIC: tuple[tuple[bytes, str, frozenset[str]], ...] = (
    (b"PK\x03\x04", "a zip archive (npz or torch)", frozenset({"npz", "torch"})),
    (b"\x93NUMPY", "a numpy array (npy)", frozenset({"npy"})),
    (b"PAR1", "a parquet file", frozenset({"parquet"})),
    (b"ARROW1", "an arrow file", frozenset({"arrow"})),
    (b"FEA1", "a feather file of version 1", frozenset({"arrow"})),
    (b"\x80\x02", "a pickle", frozenset()),
    (b"\x80\x03", "a pickle", frozenset()),
    (b"\x80\x04", "a pickle", frozenset()),
    (b"\x80\x05", "a pickle", frozenset()),
    (b"\x1f\x8b", "a gzip archive", frozenset()),
)
_MUST_START: dict[str, bytes] = {"npz": b"PK\x03\x04", "npy": b"\x93NUMPY", "parquet": b"PAR1", "torch": b"PK\x03\x04"}


def read_predictions(
    path: str | os.PathLike[str],
    *,
    labels: Any = None,
    label_column: str | None = None,
    proba_columns: str | Sequence[str] | None = None,
    logits: bool = False,
    kind: Kind | None = None,
) -> Predictions:
    """Read the predictions of one model from a file; the suffix says the format, names of columns or keys the rest.

    `labels`: a path or an array, when the labels are elsewhere. `label_column`, `proba_columns`: names of columns or
    keys, when the documented rules do not find the right ones (beside `labels`, `label_column` is of that file).
    `logits=True`: the numbers are logits; without it a name decides, and numbers no name speaks of are read as
    probabilities only if every row is a distribution. `kind`: "probabilities", "logits", "top_label" or "choices",
    to insist on one. Raises FileError.

    >>> import pathlib, tempfile
    >>> from truecal.io import read_predictions
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "small.csv")
    ...     _ = path.write_text("label,prob_cat,prob_dog\\ndog,0.25,0.75\\ncat,0.5,0.5\\n")
    ...     read = read_predictions(path)
    >>> read
    <Predictions 'small': probabilities, 2 x 2, labelled>
    >>> read.y_true, read.classes
    (array([1, 0]), ('cat', 'dog'))
    >>> for note in read.notes:
    ...     print(note)
    probabilities from 2 columns 'prob_cat', 'prob_dog' (by the prefix 'prob')
    labels from the column 'label' (by its name)
    """
    place, name = os.fsdecode(path), readable(Path(os.fsdecode(path)).stem)
    columns = (proba_columns,) if isinstance(proba_columns, str) else proba_columns
    own_label = label_column if labels is None else None
    request = Request(place, own_label, None if columns is None else tuple(columns), logits, kind)
    given = None if labels is None else _given_labels(labels, place, label_column)
    form = file_format(place)
    if form == "jsonl":
        read = read_samples(request, name, given is not None)
        return read if given is None else _label_choices(read, *given)
    if kind == "choices":
        raise failure(place, "expected a .jsonl sample log for kind='choices'")
    found = _READERS[form](request, given is not None)
    if found.layout.kind == "top_label":
        return _judge_top_label(name, place, found, given)
    return _judge(name, place, found, given)


def read_labels(path: str | os.PathLike[str], *, label_column: str | None = None) -> Values:
    """The labels of a file that may hold nothing else: whole numbers, booleans or text, one per row.

    >>> import pathlib, tempfile
    >>> from truecal.io import read_labels
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "y.csv")
    ...     _ = path.write_text("animal\\ncat\\ndog\\n")
    ...     read_labels(path)
    array(['cat', 'dog'], dtype=object)
    """
    place = os.fsdecode(path)
    request = Request(place, label_column)
    form = file_format(place)
    if form in ("parquet", "arrow", "csv"):
        openers = {"parquet": tables.open_parquet, "arrow": tables.open_arrow}
        table = openers.get(form, lambda p: delimited.open_csv(request))
        values, _ = tables.label_values(request, table(place))
    elif form == "jsonl":
        raise failure(place, "expected labels in an array or a table, not in a sample log")
    else:
        opened = {
            "npz": arrays.open_npz,
            "npy": arrays.open_npy,
            "torch": arrays.open_torch,
            "safetensors": arrays.open_safetensors,
        }[form](place)
        values, _ = arrays.label_array(request, opened)
    return numbers_if_whole(values)


def file_format(path: str) -> str:
    """The format a file's suffix says, if the file is there, readable, and does not start like another format."""
    form = FORMATS.get(Path(path).suffix.lower())
    if form is None:
        known = ", ".join(FORMATS)
        raise failure(path, f"expected a file name that ends in one of {known}, got {quote(Path(path).suffix)}")
    try:
        mode = os.stat(path).st_mode  # before opening: a pipe without a writer would wait for ever
        with open(path if stat.S_ISREG(mode) else os.devnull, "rb") as stream:
            start = stream.read(4096)
    except FileNotFoundError as error:
        raise failure(path, "expected a file, there is none") from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise failure(path, f"expected a file, it cannot be opened ({reason})") from error
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise failure(path, f"expected a file, it is {what}")
    _check_start(path, form, start)
    return form


def _check_start(path: str, form: str, start: bytes) -> None:
    if not start:
        raise failure(path, "expected a file with content, it is empty")
    if form == "safetensors":  # begins with the length of its header, whose bytes may look like anything
        if start[8:9] != b"{":
            raise failure(path, f"expected a {Path(path).suffix} file, it does not start like one")
        return
    for magic, what, forms in _MAGIC:
        if start.startswith(magic) and form not in forms:
            never = ", which is never loaded" if what == "a pickle" else ""
            raise failure(path, f"expected a {Path(path).suffix} file, it starts like {what}{never}")
    if not start.startswith(_MUST_START.get(form, b"")):
        raise failure(path, f"expected a {Path(path).suffix} file, it does not start like one")
    if form in ("csv", "jsonl") and b"\x00" in start:
        raise failure(path, f"expected text in a {Path(path).suffix} file, it holds zero bytes")


def _given_labels(labels: Any, path: str, label_column: str | None) -> tuple[Values, str]:
    """Labels the caller handed in, as a path or an array, and what to call them."""
    if isinstance(labels, (str, os.PathLike)):
        return read_labels(labels, label_column=label_column), path_text(labels)
    if label_column is not None:
        raise ValueError("label_column names a column of a file: expected labels as a path beside it, got an array")
    return as_values(path, labels, "labels"), "labels"


def _judge(name: str, path: str, found: Contents, given: tuple[Values, str] | None) -> Predictions:
    """Probabilities or logits of all classes, checked, with labels as column indices."""
    layout, matrix = found.layout, found.matrix
    if matrix is None:
        raise TypeError("Contents of probabilities or logits need a matrix")
    notes = [layout.note, *found.notes]
    if matrix.ndim == 1 or (matrix.ndim == 2 and matrix.shape[1] == 1):
        matrix = two_columns(matrix.reshape(-1), layout.kind)
        notes.append("one number per row: two classes, the number is class 1's")
    if matrix.ndim != 2:
        raise failure(path, f"expected predictions of shape (rows, classes), got {matrix.shape}")
    check_matrix(path, matrix, layout)
    classes = found.classes
    if classes is not None and len(classes) != matrix.shape[1]:
        raise failure(path, f"expected {matrix.shape[1]} class names, one per column, got {len(classes)}")
    values, y_true = _labels_of(path, found, given, matrix.shape, classes, notes)
    if y_true is not None:
        notes += _absent(y_true, matrix.shape[1], classes)
    numbers = {"proba": matrix} if layout.kind == "probabilities" else {"logits": matrix}
    read = Predictions(
        name=name,
        path=path,
        kind=layout.kind,
        y_true=y_true,
        classes=classes,
        label_values=values,
        notes=tuple(notes),
        **numbers,  # type: ignore[arg-type]  # the kind's own fields
    )
    return in_index_order(read)


def _absent(y_true: Indices, n_classes: int, classes: tuple[str, ...] | None) -> list[str]:
    """A class that no label is of may be a column that is no class."""
    never = np.flatnonzero(np.bincount(y_true, minlength=n_classes) == 0)
    if len(never) == 0:
        return []
    names = listing([int(j) if classes is None else classes[j] for j in never], MOST_LISTED)
    return [f"{len(never)} of {n_classes} classes never {'occurs' if len(never) == 1 else 'occur'} as a label: {names}"]


def _labels_of(
    path: str,
    found: Contents,
    given: tuple[Values, str] | None,
    shape: tuple[int, ...],
    classes: tuple[str, ...] | None,
    notes: list[str],
) -> tuple[Values | None, Any]:
    own = None
    if found.labels is not None:
        own = _indices(path, found.labels, shape, classes, found.label_where)
    if given is None:
        if own is None:
            notes.append("no labels in the file")
        return (None if found.labels is None else numbers_if_whole(found.labels)), own
    values, where = given
    indices = _indices(path, values, shape, classes, where)
    notes.append(f"labels from {where}")
    if own is not None and (own != indices).any():
        raise _labels_differ(path, found, given, int(np.argmax(own != indices)))
    return numbers_if_whole(values), indices


def _labels_differ(path: str, found: Contents, given: tuple[Values, str], row: int) -> FileError:
    values, where = given
    ours = "another" if found.labels is None else quote(found.labels[row])
    return failure(
        path,
        f"expected the same labels in {found.label_where} and in {where}, row {row} has {ours} and "
        f"{quote(values[row])}: rename or drop the former if it is not the label",
    )


def _indices(path: str, values: Values, shape: tuple[int, ...], classes: tuple[str, ...] | None, where: str) -> Any:
    if len(values) != shape[0]:
        raise failure(path, f"expected a label for each of {shape[0]} rows, {where} has {len(values)}")
    return label_indices(path, values, shape[1], classes, where)


def _judge_top_label(name: str, path: str, found: Contents, given: tuple[Values, str] | None) -> Predictions:
    """Confidence and hits; predicted labels become hits as soon as labels are known."""
    confidence, notes = found.confidence, [found.layout.note, *found.notes]
    if confidence is None:
        raise TypeError("Contents of a top-label file need confidences")
    if len(confidence) == 0:
        raise failure(path, "expected at least one row, got none")
    values, where = given or (found.labels, found.label_where)
    for part, what in ((values, where), (found.correct, "hits"), (found.predicted, "predicted labels")):
        if part is not None and len(part) != len(confidence):
            raise failure(path, f"expected {len(confidence)} rows as in the confidence, {what} has {len(part)}")
    if given is not None and found.labels is not None:
        wrong = np.flatnonzero(~hits(path, given[0], found.labels, found.label_where))
        if len(wrong):
            raise _labels_differ(path, found, given, int(wrong[0]))
    correct = found.correct
    if correct is None and found.predicted is not None:
        if values is None:
            raise failure(
                path,
                f"expected a label beside each predicted label: name it with {LABEL_OPTION}, or give {LABELS_OPTION}",
            )
        correct = hits(path, values, found.predicted, "predicted labels")
        notes.append("a row is a hit where the predicted label equals the label")
    values = None if values is None else numbers_if_whole(values)
    return Predictions(
        name, path, "top_label", correct=correct, confidence=confidence, label_values=values, notes=tuple(notes)
    )


def _label_choices(read: Predictions, values: Values, where: str) -> Predictions:
    """Labels from elsewhere for a sample log, in the order of doc_id."""
    counts = read.n_choices
    if counts is None:
        raise TypeError("choices need n_choices")
    indices = _indices(read.path, values, (read.n, int(counts.max())), None, where)
    beyond = np.flatnonzero(indices >= counts)
    if len(beyond):
        row = int(beyond[0])
        raise failure(read.path, f"expected an index below {counts[row]} at row {row}, {where} has {indices[row]}")
    return replace(read, y_true=indices, notes=(*read.notes, f"labels from {where}, in the order of doc_id"))
