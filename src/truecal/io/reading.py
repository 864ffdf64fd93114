"""Prediction files in: the format by the suffix, checked by the first bytes; then one judgement for all formats."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from truecal.io import arrays, columnar, delimited
from truecal.io.agreement import in_index_order
from truecal.io.columns import LABEL_OPTION, LABELS_OPTION, MOST_LISTED, Request
from truecal.io.failures import FileError, failure, listing, path_text, quote, readable
from truecal.io.harness import read_sample_log
from truecal.io.labels import Values, as_values, hits, label_indices, numbers_if_whole
from truecal.io.predictions import FileKind, Indices, Predictions
from truecal.io.source import FileParts, Source, check_numbers, extract, only_labels

Given = tuple[Values, str] | None  # labels from elsewhere, and what to call them

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

_OPENERS: dict[str, Callable[[Request], Source]] = {
    "npz": arrays.open_npz,
    "npy": arrays.open_npy,
    "csv": delimited.open_csv,
    "parquet": columnar.open_parquet,
    "arrow": columnar.open_arrow,
    "torch": arrays.open_torch,
    "safetensors": arrays.open_safetensors,
}

_MAGIC: tuple[tuple[bytes, str, tuple[str, ...]], ...] = (
    (b"PK\x03\x04", "a zip archive (npz or torch)", ("npz", "torch")),
    (b"\x93NUMPY", "a numpy array (npy)", ("npy",)),
    (b"PAR1", "a parquet file", ("parquet",)),
    (b"ARROW1", "an arrow file", ("arrow",)),
    (b"FEA1", "a feather file of version 1", ("arrow",)),
    *((bytes([0x80, version]), "a pickle, which is never loaded", ()) for version in (2, 3, 4, 5)),
    (b"\x1f\x8b", "a gzip archive", ()),
)
_MUST_START: dict[str, bytes] = {"npz": b"PK\x03\x04", "npy": b"\x93NUMPY", "parquet": b"PAR1", "torch": b"PK\x03\x04"}


def read_predictions(
    path: str | os.PathLike[str],
    *,
    labels: Any = None,
    label_column: str | None = None,
    proba_columns: str | Sequence[str] | None = None,
    logits: bool = False,
    kind: FileKind | None = None,
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
        read = read_sample_log(request, name, given is not None)
        return read if given is None else _label_choices(read, *given)
    if kind == "choices":
        raise failure(place, "expected a .jsonl sample log for kind='choices'")
    parts = extract(request, _OPENERS[form](request), given is not None)
    return (_judge_top_label if parts.layout.kind == "top_label" else _judge)(name, place, parts, given)


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
    request = Request(os.fsdecode(path), label_column)
    form = file_format(request.path)
    if form == "jsonl":
        raise request.refuse("expected labels in an array or a table, not in a sample log")
    return numbers_if_whole(only_labels(request, _OPENERS[form](request)))


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
    expected = f"expected a {Path(path).suffix} file"
    if not start:
        raise failure(path, "expected a file with content, it is empty")
    if form == "safetensors":  # begins with the length of its header, whose bytes may look like anything
        if start[8:9] != b"{":
            raise failure(path, f"{expected}, it does not start like one")
        return
    for magic, what, forms in _MAGIC:
        if start.startswith(magic) and form not in forms:
            raise failure(path, f"{expected}, it starts like {what}")
    if not start.startswith(_MUST_START.get(form, b"")):
        raise failure(path, f"{expected}, it does not start like one")
    if form in ("csv", "jsonl") and b"\x00" in start:
        raise failure(path, f"expected text in a {Path(path).suffix} file, it holds zero bytes")


def _given_labels(labels: Any, path: str, label_column: str | None) -> tuple[Values, str]:
    """Labels the caller handed in, as a path or an array, and what to call them."""
    if isinstance(labels, (str, os.PathLike)):
        return read_labels(labels, label_column=label_column), path_text(labels)
    if label_column is not None:
        raise ValueError("label_column names a column of a file: expected labels as a path beside it, got an array")
    return as_values(path, labels, "labels"), "labels"


def _judge(name: str, path: str, parts: FileParts, given: Given) -> Predictions:
    """Probabilities or logits of all classes, checked, with labels as column indices."""
    layout, numbers, classes, notes = parts.layout, parts.numbers, parts.classes, list(parts.notes)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.ndim == 1:
        notes.append("one number per row: two classes, the number is class 1's")
    elif numbers.ndim != 2:
        raise failure(path, f"expected predictions of shape (rows, classes), got {numbers.shape}")
    check_numbers(path, numbers, layout)
    width = 2 if numbers.ndim == 1 else numbers.shape[1]
    if classes is not None and len(classes) != width:
        raise failure(path, f"expected {width} class names, one per column, got {len(classes)}")
    values, y_true = _labels_of(path, parts, given, (len(numbers), width), classes, notes)
    read = Predictions(
        name=name,
        path=path,
        kind=layout.kind,
        y_true=y_true,
        proba=numbers if layout.kind == "probabilities" else None,
        logits=numbers if layout.kind == "logits" else None,
        classes=None if numbers.ndim == 1 else classes,
        label_values=values,
        notes=tuple(notes),
    )
    return in_index_order(read)


def _labels_of(
    path: str,
    parts: FileParts,
    given: Given,
    shape: tuple[int, int],
    classes: tuple[str, ...] | None,
    notes: list[str],
) -> tuple[Values | None, Indices | None]:
    """Labels as written and as indices: those from elsewhere, which the file's own must equal, else the file's own."""
    own = None if parts.labels is None else _indices(path, parts.labels, shape, classes, parts.label_where)
    values, indices = parts.labels, own
    if given is not None:
        values, indices = given[0], _indices(path, given[0], shape, classes, given[1])
        notes.append(f"labels from {given[1]}")
        if own is not None and (own != indices).any():
            raise _labels_differ(path, parts, given, int(np.argmax(own != indices)))
    if values is None or indices is None:
        notes.append("no labels in the file")
        return None, None
    never = np.flatnonzero(np.bincount(indices, minlength=shape[1]) == 0)
    if len(never):  # a class that no label is of may be a column that is no class
        names = listing([int(j) if classes is None else classes[j] for j in never], MOST_LISTED)
        occur = "occurs" if len(never) == 1 else "occur"
        notes.append(f"{len(never)} of {shape[1]} classes never {occur} as a label: {names}")
    return numbers_if_whole(values), indices


def _labels_differ(path: str, parts: FileParts, given: tuple[Values, str], row: int) -> FileError:
    values, where = given
    ours = "another" if parts.labels is None else quote(parts.labels[row])
    both = f"row {row} has {ours} and {quote(values[row])}: rename or drop the former if it is not the label"
    return failure(path, f"expected the same labels in {parts.label_where} and in {where}, {both}")


def _indices(path: str, values: Values, shape: tuple[int, int], classes: tuple[str, ...] | None, where: str) -> Indices:
    if len(values) != shape[0]:
        raise failure(path, f"expected a label for each of {shape[0]} rows, {where} has {len(values)}")
    return label_indices(path, values, shape[1], classes, where)


def _judge_top_label(name: str, path: str, parts: FileParts, given: Given) -> Predictions:
    """Confidence and hits; predicted labels become hits as soon as labels are known."""
    confidence, correct, notes = parts.numbers, parts.correct, list(parts.notes)
    if len(confidence) == 0:
        raise failure(path, "expected at least one row, got none")
    values, where = given or (parts.labels, parts.label_where)
    for part, what in ((values, where), (correct, "hits"), (parts.predicted, "predicted labels")):
        if part is not None and len(part) != len(confidence):
            raise failure(path, f"expected {len(confidence)} rows as in the confidence, {what} has {len(part)}")
    if given is not None and parts.labels is not None:
        wrong = np.flatnonzero(~hits(path, given[0], parts.labels, parts.label_where))
        if len(wrong):
            raise _labels_differ(path, parts, given, int(wrong[0]))
    if correct is None and parts.predicted is not None:
        if values is None:
            how = f"name it with {LABEL_OPTION}, or give {LABELS_OPTION}"
            raise failure(path, f"expected a label beside each predicted label: {how}")
        correct = hits(path, values, parts.predicted, "predicted labels")
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
