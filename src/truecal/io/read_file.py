"""Prediction files in: the format by the suffix, checked by the first bytes; then one judgement for all formats."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from truecal.io import array_files as arrays
from truecal.io import columnar, databases, tensor_files, text_tables
from truecal.io.agreement import first_difference, in_index_order
from truecal.io.column_rules import LABEL_OPTION, LABELS_OPTION, MOST_LISTED, Request, find_labels
from truecal.io.containers import CONVERTED, FORMATS, TEXT, by_name, check_members, dialect, inside, said, split_member
from truecal.io.failures import FileError, failure, listing, numbered, path_text, quote, readable
from truecal.io.harness import is_sample_log, read_sample_log
from truecal.io.hub_tables import from_hub, hub_columns
from truecal.io.inspect_log import is_inspect_log, read_inspect_log
from truecal.io.label_values import Outcomes, Values, as_values, hits, label_indices, numbers_if_whole
from truecal.io.limits import within_memory
from truecal.io.long_tables import from_long, from_sides
from truecal.io.matching import IdColumn, Keys, keys_of, match_rows
from truecal.io.prediction_file import FileKind, Labels, Predictions
from truecal.io.refused import LFS, PICKLES, converted_error, missing_error, pickle_error, pointer_error
from truecal.io.roles import NUMBER, is_called, is_identifier, peeked, polarity, scale_of, sum_to_one
from truecal.io.source import (
    FileParts,
    Source,
    are_plain,
    check_confidence,
    check_numbers,
    extract,
    from_bfloat16,
    normalized,
    only_column,
    without_void,
)
from truecal.io.token_logs import is_token_log, read_token_log
from truecal.io.truths import check_is_of_one, check_not_below_chance, check_stated

Given = tuple[Values, str] | None  # labels from elsewhere, and what to call them


_OPENERS: dict[str, tuple[Any, bytes]] = {"inspect": (None, b"PK")}
for _reader in (arrays, columnar, databases, tensor_files, text_tables):
    _OPENERS |= _reader.OPENERS
"""Who opens files of a format, as the readers list it (None for logs), and how their bytes must start."""
_MAGIC: tuple[tuple[bytes, str, tuple[str, ...]], ...] = (
    (b"PK\x03\x04", "a zip archive (npz, torch, Excel or inspect_ai)", ("npz", "torch", "inspect", "excel")),
    (b"\x93NUMPY", "a numpy array (npy)", ("npy",)),
    (b"PAR1", "a parquet file", ("parquet",)),
    (b"ARROW1", "an arrow file", ("arrow",)),
    (b"FEA1", "a feather file of version 1", ("arrow",)),
    *((bytes([0x80, version]), "a pickle, which is never loaded", ()) for version in (2, 3, 4, 5)),
    (b"\x1f\x8b", "a gzip archive", ()),
    (b"\x28\xb5\x2f\xfd", "a zstd archive", ()),
)


def read_predictions(
    path: str | os.PathLike[str],
    *,
    labels: Any = None,
    label_column: str | None = None,
    proba_columns: str | Sequence[str] | None = None,
    logits: bool = False,
    kind: FileKind | None = None,
    label_base: int = 0,
    normalize: bool = False,
    percent: bool = False,
    drop_incomplete: bool = False,
    header: bool | None = None,
    length_normalized: bool = False,
    id_column: IdColumn = None,
    class_axis: int | None = None,
    odds: bool = False,
    positive: str | None = None,
) -> Predictions:
    """Read the predictions of one model from a file; the suffix says the format, names of columns or keys the rest.

    `labels`: a path or an array, when the labels are elsewhere. `label_column`, `proba_columns`: names of columns or
    keys, when the documented rules do not find the right ones (beside `labels`, `label_column` is of that file).
    `logits=True`: the numbers are logits; without it a name decides, and numbers without a telling name are read as
    probabilities only if every row is a distribution. `kind`: "probabilities", "logits", "top_label", "choices"
    or "tokens" (observed text), to insist on one. `label_base=1`: label indices count from 1. `normalize`: divide rows
    of rounded probabilities by their sums. `percent`: probabilities or confidences run from 0 to 100.
    `drop_incomplete`: leave out rows without a prediction (`rows` then says which were kept). `header`: whether the
    first line of a csv holds names, where the file does not say. `length_normalized`: divide the log-likelihoods of a
    sample log by the lengths of the choices. `id_column`: the column by which the rows of `labels` are matched with
    those of the predictions. By default a column of the same name with unique values in both files is used, where there
    is one; False takes rows in the order they are in. Identifiers that do not match one to one raise an error that
    counts and shows them. `class_axis`: the axis of the classes in an array of images or sequences, where the shapes
    leave it open. `odds`: the numbers are decimal odds of a bookmaker. `positive`: of two classes the label that is 1,
    or the class or column that the label 1 is of. Raises FileError.

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
    label dog = column 'prob_dog'
    """
    place = os.fsdecode(path)
    own = label_column if labels is None else None
    columns = (proba_columns,) if isinstance(proba_columns, str) else proba_columns
    columns = None if columns is None else tuple(columns)
    request = Request(
        place, own, columns, logits, kind, label_base, normalize, percent, drop_incomplete, header, length_normalized
    )
    request = replace(request, id_column=id_column, class_axis=class_axis, odds=odds, positive=positive)
    with within_memory(place):
        return _read(request, labels, label_column)


def _read(request: Request, labels: Any, label_column: str | None) -> Predictions:
    """The predictions of a file, by its format and what it is a log of."""
    place, kind, length_normalized = request.path, request.kind, request.length_normalized
    name = readable(inside(place).stem)
    form = file_format(place)
    if form in ("npy", "npz", "torch", "safetensors"):
        request = replace(request, label_shapes=arrays.label_shapes(labels))
    if labels is not None and label_column is not None and not isinstance(labels, (str, os.PathLike)):
        raise ValueError("label_column names a column of a file: pass labels as a path, not as an array")
    found: Source | Predictions
    if form in ("json", "jsonl") and is_token_log(request):
        found = read_token_log(request, name, labels is not None)
        if isinstance(found, Predictions):
            return found
        request = replace(request, label_column=None, kind="top_label")
    elif form == "jsonl" and is_sample_log(request):
        found = read_sample_log(request, name, labels is not None)
    elif form == "inspect" or (form == "json" and is_inspect_log(request)):
        found = read_inspect_log(request, name, labels is not None)
        request = replace(request, label_column=None, proba_columns=None, kind="top_label")  # names of the log's own
    elif kind in ("choices", "tokens") or length_normalized:
        if kind == "tokens":
            raise failure(place, "expected a .jsonl or .json log of responses for kind='tokens'")
        raise failure(place, "expected a .jsonl sample log for kind='choices' and for length_normalized")
    else:
        found = open_source(request, form)
        target = None
        if isinstance(labels, (str, os.PathLike)) and hub_columns(found.forms) is not None:
            target, labels = open_source(Request(os.fsdecode(labels)), file_format(os.fsdecode(labels))), None
        request, found = from_hub(request, found, target)
        request, found = from_long(request, found, labels is not None)
        found = from_sides(request, found)
    if isinstance(found, Predictions):
        if request.normalize or request.percent:
            raise request.refuse("normalize and percent cannot be used with a sample log of choices: its rows sum to 1")
        ids = found.ids
        if ids is not None and form == "jsonl":
            found = replace(found, keys=Keys(place, "key", ("doc_id",), (), lambda name: ids))
        given, matched = _given_labels(labels, request, label_column, found.n, found.keys)
        found = replace(found, notes=(*found.notes, *matched))
        return found if given is None else _label_choices(found, request, *given)
    parts = extract(request, found, labels is not None)
    keys = keys_of(place, found.what, found.forms, found.values, parts.used, found.named)
    given, matched = _given_labels(labels, request, label_column, parts.n_rows, keys)
    if given is not None and parts.rows is not None and len(given[0]) == parts.n_rows:
        given = given[0][parts.rows], given[1]
    parts = replace(parts, notes=(*parts.notes, *matched))
    if given is not None:
        parts, values = without_void(parts, given[0])
        given = values, given[1]
    elif parts.labels is not None:
        parts, _ = without_void(parts, parts.labels)
    return replace(judge(name, request, parts, given), keys=keys)


def judge(name: str, request: Request, parts: FileParts, given: Given) -> Predictions:
    """What a file holds, checked, as predictions; rows are named as they are numbered in the file."""
    checked = _judge_top_label if parts.layout.kind == "top_label" else _judge
    if (rows := parts.rows) is None:
        return checked(name, request, parts, given)
    with numbered(lambda row: int(rows[row]) if row < len(rows) else row):
        return checked(name, request, parts, given)


def read_labels(path: str | os.PathLike[str], *, label_column: str | None = None, header: bool | None = None) -> Values:
    """The labels of a file: whole numbers, booleans or text, one per row, or soft labels. It may hold only them.

    >>> import pathlib, tempfile
    >>> from truecal.io import read_labels
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "y.csv")
    ...     _ = path.write_text("animal\\ncat\\ndog\\n")
    ...     read_labels(path)
    array(['cat', 'dog'], dtype=object)
    """
    with within_memory(path):
        values, _ = _column(Request(os.fsdecode(path), label_column, header=header))
        return numbers_if_whole(values)


def model_columns(path: str | os.PathLike[str], label_column: str | None = None) -> tuple[str, ...]:
    """The columns of a table that hold one probability per row of several models: fractions that do not sum to 1.

    >>> import pathlib, tempfile
    >>> from truecal.io.read_file import model_columns
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "small.csv")
    ...     _ = path.write_text("label,forest,linear\\n1,0.75,0.5\\n0,0.5,0.25\\n")
    ...     model_columns(path)
    ('forest', 'linear')
    """
    request = Request(os.fsdecode(path), label_column)
    source = open_source(request, file_format(request.path))
    labels = find_labels(request, source.forms, source.what, peek=source.peek)
    numbers = [n for n, form in source.forms.items() if form == NUMBER and n not in labels.names]
    facts = peeked(source.peek, [n for n in numbers if not is_identifier(n) and not is_called(n, "weight", "split")])
    found = tuple(name for name, each in facts.items() if each.is_fraction)
    told = tuple(name for name in found if scale_of(name) is not None)
    found = told if len(told) > 1 else found
    return () if sum_to_one(facts, found) else found


def read_column(
    path: str | os.PathLike[str],
    column: str | None = None,
    *,
    rows: int | None = None,
    numbers: bool = False,
    of: Predictions | None = None,
    id_column: IdColumn = None,
) -> Values:
    """One column or key of a file: groups, or weights where `numbers`. The file may hold only that column.

    `rows`, the number of rows there should be, tells a first row from a header where a csv could have either. Rows are
    put in the order of the predictions `of` where both have a column of identifiers, as in `read_predictions`.
    """
    request = Request(os.fsdecode(path), column, rows=rows, id_column=id_column)
    with within_memory(path):
        values, keys = _column(request, numbers)
    same = of is None or os.path.realpath(of.path) == os.path.realpath(request.path)
    if of is not None and not same and (match := match_rows(of.keys, keys, id_column)) is not None:
        values = values[match.order]
    if rows is not None and len(values) != rows:
        raise request.refuse(f"expected {rows} rows as in the predictions, got {len(values)}")
    return values if numbers else numbers_if_whole(values)


def _column(request: Request, numbers: bool = False) -> tuple[Values, Keys]:
    """The only column of a file, or the one that is named; and those that its rows can be matched by."""
    form = file_format(request.path)
    if form == "inspect" or (form == "jsonl" and is_sample_log(request)):
        raise request.refuse("expected labels in an array or a table, not in a sample log")
    source = open_source(request, form)
    name = only_column(request, source)
    values = source.numbers((name,), False) if numbers else source.values(name)
    return values, keys_of(request.path, source.what, source.forms, source.values, {name}, source.named)


def open_source(request: Request, form: str) -> Source:
    """The columns of a table or the arrays of a file, described before any is read."""
    opened: Source = _OPENERS[form][0](request)
    return replace(opened, notes=(*said(request.path), *opened.notes))


def is_found(path: str) -> bool:
    """Whether a file in a folder is taken for predictions by its name: a .txt may be anything, and has to be named."""
    found = by_name(path)
    known = found.suffix in FORMATS and (found.packed is None or FORMATS[found.suffix] in TEXT)
    return known and found.suffix != ".txt"


def file_format(path: str) -> str:
    """The format a file's suffix says, if the file is there, readable, and does not start like another format."""
    found = inside(path)
    place, member = split_member(path)
    if os.path.isfile(place):
        if found.suffix in PICKLES:
            raise pickle_error(place)
        if found.suffix in CONVERTED:
            raise converted_error(place, CONVERTED[found.suffix])
        check_members(path, found)
    if found.suffix not in FORMATS and not os.path.isdir(place) and (os.path.isfile(place) or by_name(place).suffix):
        known = f"{', '.join(FORMATS)} (text also with .gz, .zst, .bz2, .xz, .zip or .tar)"
        raise failure(path, f"expected a file name that ends in one of {known}, got {quote(Path(path).suffix)}")
    form = FORMATS.get(found.suffix, "csv")
    if member is not None and form not in ("excel", "database") and found.packed not in ("zip", "tar"):
        raise failure(path, f"expected one table in a {found.suffix} file: drop ::{member}")
    try:
        mode = os.stat(place).st_mode  # before opening: a pipe without a writer would wait for ever
        with open(place if stat.S_ISREG(mode) else os.devnull, "rb") as stream:
            start = stream.read(4096)
    except FileNotFoundError as error:
        raise missing_error(path) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise failure(path, f"the file cannot be opened ({reason})") from error
    if not stat.S_ISREG(mode) and found.packed != "folder":
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise failure(path, f"expected a file, but it is {what}")
    if start.startswith(LFS):
        raise pointer_error(path)
    if found.packed is None:
        _check_start(path, form, start)
    elif found.packed in ("gzip", "zstd") and start[:2] not in (b"\x1f\x8b", b"\x28\xb5"):
        raise failure(path, f"expected a {Path(path).suffix} archive, but it does not start like one")
    return form


def _check_start(path: str, form: str, start: bytes) -> None:
    expected = f"expected a {Path(path).suffix} file"
    if not start:
        raise failure(path, "the file is empty")
    if form == "safetensors":  # begins with the length of its header, whose bytes may look like anything
        if start[8:9] != b"{":
            raise failure(path, f"{expected}, but it does not start like one")
        return
    for magic, what, forms in _MAGIC:
        if start.startswith(magic) and form not in forms:
            raise failure(path, f"{expected}, but it starts like {what}")
    if not start.startswith(_OPENERS[form][1]):
        raise failure(path, f"{expected}, but it does not start like one")
    if form in TEXT and b"\x00" in start and dialect(path, inside(path)) is None:
        raise failure(path, f"expected text in a {Path(path).suffix} file, but it contains NUL bytes")


def _given_labels(
    labels: Any, request: Request, label_column: str | None, rows: int, keys: Keys | None
) -> tuple[Given, list[str]]:
    """Labels the caller handed in, as a path or an array, and what to call them; and how their rows were matched."""
    if labels is None:
        return None, []
    if not isinstance(labels, (str, os.PathLike)):
        array = np.asarray(labels) if hasattr(labels, "ndim") else None
        if array is not None and array.ndim > 1 and array.dtype.kind in "iub" and array.size == rows:
            labels = array.ravel()  # of pixels or tokens
        return (as_values(request.path, labels, "labels"), "labels"), []
    own = Request(os.fsdecode(labels), label_column, header=request.header, rows=rows, id_column=request.id_column)
    values, theirs = _column(own)
    match = match_rows(keys, theirs, request.id_column)
    if match is None:
        return (numbers_if_whole(values), path_text(labels)), []
    return (numbers_if_whole(values)[match.order], path_text(labels)), [match.note]


def _judge(name: str, request: Request, parts: FileParts, given: Given) -> Predictions:
    """Probabilities or logits of all classes, checked, with labels as column indices."""
    path, layout, numbers, classes, notes = request.path, parts.layout, parts.numbers, parts.classes, list(parts.notes)
    if numbers.ndim == 2 and numbers.shape[1] == 1:
        numbers = numbers[:, 0]
    if numbers.ndim == 1:
        notes.append("one number per row: two classes, the number is class 1's")
    elif numbers.ndim != 2:
        raise failure(path, f"expected predictions of shape (rows, classes), got {numbers.shape}")
    if request.normalize:
        numbers, note = normalized(path, numbers, layout)
        notes.append(note)
    if not are_plain(numbers, layout, parts.facts):  # else all that follows has nothing to say
        if not request.normalize and layout.kind == "probabilities" and (whole := from_bfloat16(numbers)) is not None:
            numbers = whole
            notes.append("bfloat16 probabilities, by their resolution: rows divided by their sums")
        check_numbers(path, numbers, layout)
    width = 2 if numbers.ndim == 1 else numbers.shape[1]
    if classes is not None and len(classes) != width:
        raise failure(path, f"expected {width} class names, one per column, got {len(classes)}")
    values, y_true = _labels_of(request, parts, given, (len(numbers), width), classes, notes)
    if y_true is not None and (said := _against(request, parts, given, numbers, y_true)):
        notes.append(said)
    if y_true is not None and y_true.ndim == 2 and numbers.ndim == 1 and layout.kind == "probabilities":
        numbers = np.stack([1 - numbers, numbers], axis=1)
    read = Predictions(
        name,
        path,
        layout.kind,
        y_true=y_true,
        proba=numbers if layout.kind == "probabilities" else None,
        logits=numbers if layout.kind == "logits" else None,
        classes=None if numbers.ndim == 1 else classes,
        label_values=values,
        facts=parts.facts,
        **_about(parts, notes),
    )
    return in_index_order(read)


def _about(parts: FileParts, notes: list[str]) -> dict[str, Any]:
    """Notes and features of a file, whatever it holds."""
    same = ("unused", "can_label", "rows", "n_rows", "groups", "stacked")
    return {"notes": tuple(notes), **{name: getattr(parts, name) for name in same}}


def _labels_of(
    request: Request,
    parts: FileParts,
    given: Given,
    shape: tuple[int, int],
    classes: tuple[str, ...] | None,
    notes: list[str],
) -> tuple[Values | None, Labels | None]:
    """Labels as written and as indices: those from elsewhere, which the file's own must equal, else the file's own."""
    path = request.path
    for labels, where in ((parts.labels, parts.label_where), given or (None, "")):
        _refuse_numbers(request, parts, labels, classes, where)
    own = None
    if parts.labels is not None:
        own = _indices(request, parts, parts.labels, shape, classes, parts.label_where, notes)
    values, indices = parts.labels, own
    if given is not None:
        values, indices = given[0], _indices(request, parts, given[0], shape, classes, given[1], notes)
        notes.append(f"labels from {given[1]}")
        if own is not None and indices.ndim == 2 > own.ndim:
            notes.append(f"soft labels replace those in {parts.label_where}")
        elif own is not None and (row := first_difference(own, indices)) is not None:
            raise _labels_differ(path, parts, given, row)
    if values is None or indices is None:
        notes.append("no labels in the file")
        return None, None
    if indices.ndim == 2:
        notes.append("soft labels: a share of each class in every row")
        return None, indices
    never = np.flatnonzero(np.bincount(indices, minlength=shape[1]) == 0)
    if len(never):  # a class that no label is of may be a column that is no class
        names = listing([int(j) if classes is None else classes[j] for j in never], MOST_LISTED)
        occur = "occurs" if len(never) == 1 else "occur"
        notes.append(f"{len(never)} of {shape[1]} classes never {occur} as a label: {names}")
    return numbers_if_whole(values), indices


def _refuse_numbers(
    request: Request, parts: FileParts, labels: Values | None, classes: tuple[str, ...] | None, where: str
) -> None:
    """Numbers as labels of named classes that have no order: which class a number means would be a guess."""
    if not parts.unordered or labels is None or classes is None or numbers_if_whole(labels).dtype.kind not in "iu":
        return
    if numbers_if_whole(np.array(classes, dtype=object)).dtype == object:
        found = f"{listing(classes)} have no order, and {where} has the number {labels[0]}"
        raise request.refuse(f"expected names of classes as labels, the classes {found}: write names there")


def _labels_differ(path: str, parts: FileParts, given: tuple[Values, str], row: int) -> FileError:
    values, where = given
    ours = "another" if parts.labels is None else quote(parts.labels[row])
    both = f"row {row} has {ours} and {quote(values[row])}: rename or drop the former if it is not the label"
    return failure(path, f"expected the same labels in {parts.label_where} and in {where}, {both}")


def _indices(
    request: Request,
    parts: FileParts | None,
    values: Values,
    shape: tuple[int, int],
    classes: tuple[str, ...] | None,
    where: str,
    notes: list[str],
) -> Labels:
    if len(values) != shape[0]:
        raise request.refuse(f"expected a label for each of {shape[0]} rows, {where} has {len(values)}")
    outcomes = Outcomes(shape[1], classes)
    if parts is not None:
        told = (parts.layout.of, parts.label, parts.what == "column", parts.numbers, parts.batch, parts.decided)
        outcomes = Outcomes(shape[1], classes, *told)
    indices, note = label_indices(request, values, outcomes, where)
    columns = () if parts is None else parts.layout.columns
    if note:
        notes.append(note)
    elif shape[1] == len(columns) == 2 and indices.ndim == values.ndim == 1:
        first = {int(j): numbers_if_whole(values)[int(np.argmax(indices == j))] for j in np.unique(indices)}
        one = next((j for j, value in first.items() if polarity(value)), max(first))
        notes.append(f"label {first[one]} = column {quote(columns[one])}")
    return indices


def _against(request: Request, parts: FileParts, given: Given, numbers: Any, y_true: Labels) -> str:
    """Labels that the predictions are against are refused, unless the caller named them."""
    told = given is not None or parts.told or request.positive is not None or not parts.label or parts.what == "key"
    whole = request.proba_columns is None and not parts.batch  # rows may be sorted by their probabilities
    if whole and numbers.ndim == 1 and parts.layout.kind != "logits":
        check_is_of_one(request, parts.layout.columns[0] if parts.layout.columns else "", numbers, y_true)
    weak = parts.label if parts.weak and not told else ""
    return check_not_below_chance(request, numbers, y_true, parts.label_where or "the labels", told, weak)


def _judge_top_label(name: str, request: Request, parts: FileParts, given: Given) -> Predictions:
    """Confidence and hits; predicted labels become hits as soon as labels are known."""
    path, correct, notes = request.path, parts.correct, list(parts.notes)
    confidence = check_confidence(path, parts.layout, parts.numbers)
    values, where = given or (parts.labels, parts.label_where)
    for part, what in ((values, where), (correct, "hits"), (parts.predicted, "predicted labels")):
        if part is not None and len(part) != len(confidence):
            raise failure(path, f"expected {len(confidence)} rows as in the confidence, {what} has {len(part)}")
    if given is not None and parts.labels is not None:
        wrong = np.flatnonzero(~hits(path, given[0], parts.labels, parts.label_where))
        if len(wrong):
            raise _labels_differ(path, parts, given, int(wrong[0]))
    told = request.kind == "top_label" or parts.layout.log or is_called(parts.layout.confidence or "", "confidence")
    if correct is not None and not told:
        check_stated(request, parts.layout.confidence or "", confidence, correct)
    if correct is None and parts.predicted is not None:
        if values is None:
            how = f"name it with {LABEL_OPTION}, or give {LABELS_OPTION}"
            raise failure(path, f"expected a label for each predicted label: {how}")
        correct = hits(path, values, parts.predicted, "predicted labels")
        notes.append("a row is a hit where the predicted label equals the label")
    values = None if values is None else numbers_if_whole(values)
    found: dict[str, Any] = {"correct": correct, "confidence": confidence, "label_values": values}
    return Predictions(name, path, "top_label", **found, **_about(parts, notes))


def _label_choices(read: Predictions, request: Request, values: Values, where: str) -> Predictions:
    """Labels from elsewhere for a sample log, in the order of doc_id."""
    counts = read.n_choices
    if counts is None:
        raise TypeError("choices need n_choices")
    indices = _indices(request, None, values, (read.n, int(counts.max())), None, where, [])
    if indices.ndim == 2:
        raise failure(read.path, f"expected the index of the right choice in every row, {where} has shares of each")
    beyond = np.flatnonzero(indices >= counts)
    if len(beyond):
        row = int(beyond[0])
        raise failure(read.path, f"expected an index below {counts[row]} at row {row}, {where} has {indices[row]}")
    return replace(read, y_true=indices, notes=(*read.notes, f"labels from {where}, in the order of doc_id"))
