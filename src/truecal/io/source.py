"""A file opened but not read: what its columns or keys hold, and the parts that the rules find among them."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from truecal.core.data import are_distributions, check_probabilities, check_reports, rounding_slack, row_blocks
from truecal.io.column_rules import (
    COLUMNS_OPTION,
    HEADER_OPTION,
    INCOMPLETE_OPTION,
    LABEL_OPTION,
    LOGITS_OPTION,
    NORMALIZE_OPTION,
    ODDS_OPTION,
    PERCENT_OPTION,
    POSITIVE_OPTION,
    Labels,
    Layout,
    Request,
    check_names,
    find_labels,
    is_prediction,
    label_family,
    likely_labels,
)
from truecal.io.failures import FileError, NoRowsError, failure, listing, quote
from truecal.io.label_values import (
    FEWEST,
    Outcomes,
    Values,
    as_values,
    label_indices,
    named_by_decisions,
    numbers_if_whole,
    shares,
)
from truecal.io.layouts import MOST_MODELS, find_layout, unnamed_layout
from truecal.io.prediction_file import Floats, Indices
from truecal.io.roles import (
    NUMBER,
    VECTOR,
    Forms,
    Peek,
    above,
    called,
    facts_of,
    is_called,
    is_identifier,
    is_pandas_index,
    is_percent,
    key_of,
    peeked,
)
from truecal.io.truths import is_decision, settled

ROUNDED = 1e-3  # how far a row of probabilities may sum from 1


@dataclass(frozen=True)
class Dense:
    """An array of predictions for pixels or tokens: its shape, the axis of the classes, and the shape of the rest."""

    shape: tuple[int, ...]
    axis: int | None
    rows: tuple[int, ...]

    @property
    def note(self) -> str:
        classes = "" if self.axis is None else f", classes on axis {self.axis}"
        groups = "" if self.rows[0] == 1 else f", the {self.rows[0]} entries of the first axis are groups"
        return f"shape {self.shape}{classes}: one row per entry{groups}"

    def groups(self) -> Indices:
        """The image, or sequence, that each row is from."""
        return np.repeat(np.arange(self.rows[0]), int(np.prod(self.rows[1:])))


@dataclass(frozen=True)
class Source:
    """The columns of a table or the arrays of a file, described before any is read.

    `numbers` reads the named ones as (n,) or (n, k) floats; its second argument says whether a missing value is NaN
    instead of an error. `values` reads one as labels. `named` is False for a single array, or columns, without names.
    """

    path: str
    what: str  # "column" or "key", for messages
    forms: Forms
    numbers: Callable[[Sequence[str], bool], Floats]
    values: Callable[[str], Values]
    named: bool = True
    notes: tuple[str, ...] = ()
    dense: Dense | None = None
    unordered: bool = False  # classes have names and no order, so that numbers cannot be their indices
    objects: Callable[[str], list[Any]] | None = None  # one column as Python's values, None for what is missing
    groups: Indices | None = None  # the question that each row is about, where there are several rows per question
    peek: Peek | None = None
    together: Callable[[str, Sequence[str]], tuple[Values, Floats] | None] | None = None
    """Reads a column of labels and columns of numbers in one pass; None where that is not possible, or finds a fault
    that reading one after the other names."""


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
    unused: tuple[str, ...] = ()  # columns or keys of which nothing was read
    rows: Indices | None = None  # the rows that were kept, where some had no prediction
    n_rows: int = 0  # with those that were not
    used: frozenset[str] = frozenset()  # columns or keys that were read
    groups: Indices | None = None  # the image that each row is from
    dense: bool = False  # rows are pixels or tokens
    label: str = ""  # the column of the labels
    told: bool = False  # which the caller named
    weak: bool = False  # which another column could be called
    what: str = "column"
    unordered: bool = False
    can_label: tuple[str, ...] = ()  # columns whose values would do as labels, where none were found
    stacked: str = ""  # the column that says which of several models each row is of
    batch: bool = False  # of a table whose columns were found before
    decided: str | None = None  # the label that a text column of decisions has where the one number is large
    facts: Any = None  # of rows, as `sums.compiled_columns` has them, where they are known


@dataclass(frozen=True)
class Found:
    """Which columns or keys hold labels and predictions, by the rules: batches of one table share it."""

    forms: Forms
    labels: Labels
    layout: Layout
    family: tuple[str, ...]  # of labels, one per class

    @property
    def label(self) -> str | None:
        return self.labels.name


def found_in(request: Request, source: Source, labels_elsewhere: bool) -> Found:
    """Find labels and predictions by the rules."""
    what, forms, peek = source.what, source.forms, source.peek
    if not (source.named or request.label_column is not None):
        return Found(forms, Labels(), unnamed_layout(request, forms, Labels(), what), ())
    labels = find_labels(request, forms, what, elsewhere=labels_elsewhere, peek=peek)
    if not source.named:
        return Found(forms, labels, unnamed_layout(request, forms, labels, what), ())
    layout = find_layout(request, forms, labels, what, elsewhere=labels_elsewhere, peek=peek)
    family = () if labels_elsewhere or labels.names else label_family(request, forms, layout, peek)
    if not labels_elsewhere and not labels.names and not family and what == "column" and not layout.correct:
        labels = likely_labels(request, forms, layout, what, peek)
    labels = replace(labels, names=tuple(name for name in labels.names if name != layout.prediction))
    return Found(forms, labels, layout, family)


def extract(request: Request, source: Source, labels_elsewhere: bool, found: Found | None = None) -> FileParts:
    """Read labels and predictions, and only those: what the rules find, or found before."""
    fresh, found = found is None, found or found_in(request, source, labels_elsewhere)
    what, forms, layout, family = source.what, found.forms, found.layout, found.family
    label, rule = found.label, found.labels.rule
    notes = [layout.note, *source.notes, *(_beside(found, source.peek) if fresh else ())]
    batch, fresh = not fresh, fresh and not labels_elsewhere
    columns = layout.columns or (layout.confidence or "",)
    both = None
    if label is not None and source.together is not None and not (labels_elsewhere or request.drop_incomplete):
        both = source.together(label, columns)
    labels, where, missing = None, "", None
    if label is not None and request.drop_incomplete and source.objects is not None:
        labels, missing = _with_gaps(source, label)
    elif label is not None:
        labels = source.values(label) if both is None else both[0]
    numbers = source.numbers(columns, request.drop_incomplete) if both is None else both[1]
    if layout.log:
        numbers = np.exp(numbers)
    by_name = layout.kind != "probabilities" and request.told is None and numbers.ndim == 2 and numbers.size > 0
    if by_name and _near_one(numbers) <= ROUNDED:
        layout = replace(layout, kind="probabilities", note=layout.note.replace("logits", "probabilities", 1))
        notes[0] = f"{layout.note}: every row sums to 1"
    percents = all(is_percent(name) for name in columns) and layout.kind != "logits" and numbers.size > 0
    if request.percent or (percents and 1 < float(np.nanmax(numbers)) <= 100):
        if layout.kind == "logits":
            raise request.refuse(f"expected probabilities or confidences for {PERCENT_OPTION}, found logits")
        numbers = numbers / 100
        notes.append(f"divided by 100 ({'percent' if request.percent else 'by the names of the columns'})")
    if request.odds:
        numbers, note = from_odds(request, numbers, layout)
        notes.append(note)
    if labels is not None and layout.weak and request.proba_columns is None and shares(labels) is not None:
        raise request.refuse(
            f"fractions in {quote(label)} and {quote(columns[0])} may be numbers that were predicted: if they are "
            f"shares and probabilities, pass --columns {shlex.quote(columns[0])}"
        )
    if label is not None and labels is not None and fresh and missing is None:
        label, labels, rule = _settled(request, source, found, label, labels, numbers)
    if label is not None:
        where = f"{what} {quote(label)}"
        notes.append(f"labels from the {where} ({rule})")
    elif family:
        labels, where = source.numbers(family, False).astype(np.float64), f"{what}s {listing(family)}"
        notes.append(f"labels from the {where} (one per class, by their names)")
    classes, key, decided = layout.classes, None, None
    if what == "key" and layout.kind != "top_label":
        key = next((name for name in forms if is_called(name, "classes")), None)
    elif (
        labels is not None and not batch and (told := _named_by_decisions(source, layout, numbers, labels)) is not None
    ):
        named_so, decision = told
        if len(named_so) == 1:
            decided = named_so[0]
        else:
            classes, what_of = named_so, "which is the class of the largest probability in all rows"
            notes.append(f"class names from {quote(decision)}, {what_of}")
    if key is not None:
        classes = tuple(str(v) for v in _per_row(source, key).tolist())
        check_names(request.path, classes, "class")
        notes.append(f"class names from the key {quote(key)}")
    named = {label, key, *columns, *family, layout.correct, layout.prediction}
    used = frozenset(name for name in named if name is not None)
    parts = FileParts(
        layout,
        numbers,
        classes,
        labels,
        where,
        predicted=None if layout.prediction is None else numbers_if_whole(_per_row(source, layout.prediction)),
        correct=None if layout.correct is None else _hits(source, layout.correct),
        notes=tuple(notes),
        unused=tuple(name for name in forms if name not in used),
        n_rows=len(numbers),
        used=used,
        unordered=source.unordered,
        groups=source.groups,
        batch=batch,
        decided=decided,
        label=label or "",
        told=found.labels.told or bool(request.label_column),
        weak=found.labels.weak,
        what=what,
        can_label=found.labels.can,
        stacked="" if batch else _stacked(found, source.peek),
    )
    if source.dense is not None and len(numbers) == np.prod(source.dense.rows):
        groups = source.dense.groups() if source.dense.rows[0] > 1 else None
        parts = replace(parts, notes=(*notes, source.dense.note), groups=groups, dense=True)
    return _complete(request, parts, missing) if request.drop_incomplete else parts


def _named_by_decisions(
    source: Source, layout: Layout, numbers: Floats, labels: Values
) -> tuple[tuple[str, ...], str] | None:
    """The classes of columns or vectors that have numbers or no names where labels are text, or that of one number."""
    known = layout.classes is not None and numbers_if_whole(np.array(layout.classes, dtype=object)).dtype == object
    if known or numbers.ndim > 2 or labels.dtype != object or len(labels) != len(numbers):
        return None
    if numbers_if_whole(labels).dtype != object:
        return None
    found: tuple[str, ...] | None
    for name in (n for n in source.forms if is_prediction(n) and source.forms[n] not in (NUMBER, VECTOR)):
        try:
            decisions = source.values(name)
        except FileError:  # gaps, or lists
            continue
        if decisions.shape != labels.shape:
            continue
        if numbers.ndim == 2 and numbers.shape[1] > 1:
            found = named_by_decisions(numbers, decisions, labels)
        else:
            one = above(numbers.ravel(), decisions.tolist())
            found = None if one is None else (one,)
        if found is not None:
            return found, name
    return None


def _beside(found: Found, peek: Peek | None) -> list[str]:
    """Notes from unused columns: parts of a split, weights, repeated keys."""
    layout = found.layout
    used = {*layout.columns, *found.labels.names, *found.family, layout.confidence, layout.prediction, layout.correct}
    left = [name for name in found.forms if name not in used]
    notes = [f"weights in {quote(name)} are not used: pass --weights" for name in called(left, "weight")]
    ids = [name for name in left if is_identifier(name) and key_of(name).endswith(("id", "ids"))]
    facts = peeked(peek, [*called(left, "split"), *ids])
    for name, each in facts.items():
        if name not in ids and 1 < len(each.distinct) <= MOST_PARTS:
            notes.append(f"rows of different {quote(name)} are measured together: see --by")
        elif name in ids and not each.is_fraction and 1 < len(each.distinct) < each.rows - each.missing:
            notes.append(f"values of {quote(name)} repeat: pass --groups {name} if rows of one are not independent")
    return notes


def _stacked(found: Found, peek: Peek | None) -> str:
    """The column whose values are models that have as many rows each."""
    names = called(found.forms, "model")
    rows = (None if peek is None or not names else peek(names)) or {}
    for name, values in rows.items():
        counts = Counter(map(str, values)).values()
        if 1 < len(counts) <= MOST_PARTS and min(counts) > 1 and max(counts) <= 1.1 * min(counts) + 2:
            return name
    return ""


MOST_PARTS = 50
"""Parts of a split, at most."""


def _with_gaps(source: Source, label: str) -> tuple[Values, npt.NDArray[np.bool_] | None]:
    """Labels of which some may be missing, and which rows have none."""
    assert source.objects is not None
    found = source.objects(label)
    numeric = facts_of([v for v in found if str(v).strip().lower() not in _MISSING]).numbers is not None
    blank = [v is None or v != v or (numeric and str(v).strip().lower() in _MISSING) for v in found]
    if not any(blank) or all(blank) or any(isinstance(v, (list, dict)) for v in found):
        return source.values(label), None
    first = next(v for v, gone in zip(found, blank, strict=True) if not gone)
    filled = [first if gone else v for v, gone in zip(found, blank, strict=True)]
    return as_values(source.path, filled, f"{source.what} {quote(label)}"), np.array(blank)


_MISSING = ("", "na", "nan", "null", "none", "n/a")


def _settled(
    request: Request, source: Source, found: Found, label: str, labels: Values, numbers: Floats
) -> tuple[str, Values, str]:
    """The labels that are the outcome, where others are decisions made from the predictions."""
    layout, forms = found.layout, found.forms

    def read(name: str) -> Values:
        return labels if name == label else source.values(name)

    def decided(values: Values) -> bool | None:
        if layout.kind == "top_label":
            if layout.prediction is None or values.ndim != 1:
                return False
            same = numbers_if_whole(values) == numbers_if_whole(_per_row(source, layout.prediction))
            return bool(np.all(same)) and len(values) >= FEWEST and len(np.unique(values)) > 1
        if len(values) != len(numbers) or numbers.ndim > 2:
            return None if len(found.labels.names) > 1 else False
        width = 2 if numbers.ndim == 1 else numbers.shape[1]
        try:
            outcomes = Outcomes(width, layout.classes, layout.of, label, numbers=numbers)
            indices, _ = label_indices(request, values, outcomes, label)
        except FileError:
            return None
        return is_decision(numbers, indices)

    def others() -> Labels:
        left = {name: form for name, form in forms.items() if name not in found.labels.names}
        return likely_labels(request, left, layout, source.what, source.peek)

    return settled(request, found.labels, others, read, decided)


def from_odds(request: Request, odds: Floats, layout: Layout) -> tuple[Floats, str]:
    """Probabilities in proportion to inverse decimal odds, and the bookmaker's margin in words."""
    if odds.ndim != 2 or layout.kind != "probabilities":
        raise request.refuse(f"expected odds of every outcome for {ODDS_OPTION}, found {layout.note}")
    bad = ~(odds > 1)
    if request.drop_incomplete:
        bad &= ~np.isnan(odds)
    if bad.any():
        row, column = (int(v) for v in np.argwhere(bad)[0])
        place = f"row {row}, column {quote(layout.columns[column])}"
        raise request.refuse(f"expected decimal odds above 1 at {place}, got {odds[row, column]:g}")
    chances = 1 / odds.astype(np.float64)
    total = chances.sum(axis=1, keepdims=True)
    margin = np.nanmean(total) - 1
    note = f"inverse odds divided by their sums; the bookmaker's margin is {margin:.1%} on average"
    return np.asarray(chances / total), note


VOID = (255, -100, -1)
"""Labels that mean "no label" in images and sequences."""


def without_void(parts: FileParts, labels: Values) -> tuple[FileParts, Values]:
    """Rows of images and sequences that have a label; 255, -100 and -1 are none, where they are no class."""
    if not parts.dense or labels.ndim != 1 or labels.dtype.kind not in "iu" or len(labels) != len(parts.numbers):
        return parts, labels
    k = 2 if parts.numbers.ndim == 1 else parts.numbers.shape[1]
    gone = np.isin(labels, VOID) & ((labels < 0) | (labels >= k))
    if not gone.any() or gone.all():
        return parts, labels
    kept = np.flatnonzero(~gone)
    marks = ", ".join(str(v) for v in np.unique(labels[gone]).tolist())
    note = f"{np.count_nonzero(gone)} of {len(labels)} rows dropped: their label is {marks} (no label)"
    own = parts.labels if parts.labels is None or len(parts.labels) != len(gone) else parts.labels[kept]
    rows = kept if parts.rows is None else parts.rows[kept]
    groups = None if parts.groups is None else parts.groups[kept]
    found = replace(parts, numbers=parts.numbers[kept], labels=own, groups=groups, rows=rows)
    return replace(found, notes=(*parts.notes, note)), labels[kept]


def _complete(request: Request, parts: FileParts, missing: npt.NDArray[np.bool_] | None = None) -> FileParts:
    """The rows that have a prediction and a label, and how many have none."""
    gone = np.asarray(np.isnan(parts.numbers).reshape(parts.n_rows, -1).any(axis=1))
    lacks = "prediction" if missing is None else "prediction or no label"
    gone = gone if missing is None else gone | missing
    if not gone.any():
        return parts
    if gone.all():
        raise NoRowsError(request.refuse(f"none of {len(gone)} rows has a prediction"))
    kept = np.flatnonzero(~gone)
    each = {name: getattr(parts, name) for name in ("numbers", "labels", "predicted", "correct", "groups")}
    left = {name: part[kept] for name, part in each.items() if part is not None and len(part) == len(gone)}
    note = f"{np.count_nonzero(gone)} of {len(gone)} rows dropped: they have no {lacks}"
    return replace(parts, notes=(*parts.notes, note), rows=kept, **left)


def only_column(request: Request, source: Source) -> str:
    """The column of labels (or groups, or weights) of a file that may hold nothing else but identifiers."""
    names = [name for name in source.forms if not is_pandas_index(name)]
    if len(names) == 1 and request.label_column is None:
        return names[0]
    labels = find_labels(request, source.forms, source.what)
    if len(labels.names) > 1:
        found = listing(labels.names)
        raise request.refuse(f"expected one label {source.what}, found {found}: name one with {LABEL_OPTION}")
    name = labels.name
    if name is None and "y" in source.forms:
        name = "y"
    others = [name for name in names if not is_identifier(name) and name != request.id_column]
    if name is None and len(others) == 1:
        name = others[0]
    if name is None:
        found = listing(source.forms)
        raise request.refuse(f"expected a {source.what} called label, found {found}: name it with {LABEL_OPTION}")
    return name


def _per_row(source: Source, name: str) -> Values:
    values = source.values(name)
    if values.ndim != 1:
        raise failure(source.path, f"expected one value per row in {quote(name)}, got shape {values.shape}")
    return values


def _hits(source: Source, name: str) -> npt.NDArray[np.bool_]:
    """Booleans, zeros and ones, or the words true and false."""
    values = _per_row(source, name)
    if values.dtype == object:
        words = {"true": 1, "false": 0, "1": 1, "0": 0, "1.0": 1, "0.0": 0}
        values = np.array([words.get(v.strip().lower(), -1) for v in values])
    bad = ~((values == 0) | (values == 1))
    if bad.any():
        where, row = f"{source.what} {quote(name)}", int(np.argmax(bad))
        raise failure(source.path, f"expected true or false (1 or 0) in {where}, but row {row} has something else")
    return values.astype(np.bool_)


def floats(path: str, array: npt.NDArray[Any], where: str) -> Floats:
    """Numbers as floats in their own precision; integers and booleans become float64, other kinds are refused."""
    if array.dtype.kind in "iub":
        return array.astype(np.float64)
    if array.dtype.kind != "f":
        raise failure(path, f"expected numbers in {where}, got dtype {array.dtype}")
    if array.dtype.itemsize > 8:
        return array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def check_confidence(path: str, layout: Layout, values: Floats) -> Floats:
    """Confidences are probabilities: one per row, present and in [0, 1]."""
    where = f"column {quote(layout.confidence)}"
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.ndim != 1:
        raise failure(path, f"expected one confidence per row in {where}, got shape {values.shape}")
    if len(values) == 0:
        raise NoRowsError(failure(path, "expected at least one row, got none"))
    bad = ~((values >= 0) & (values <= 1))
    if bad.any():
        row = int(np.argmax(bad))
        hint = f": if they are percentages, pass {PERCENT_OPTION}" if 1 < values[row] <= 100 else ""
        hint = f": rows without one can be dropped with {INCOMPLETE_OPTION}" if np.isnan(values[row]) else hint
        raise failure(path, f"expected confidences in [0, 1] in {where}, row {row} has {values[row]}{hint}")
    return values


def check_numbers(path: str, numbers: Floats, layout: Layout) -> None:
    """Every number present, and probabilities (or logits) that are what they should be; says row and column by name."""
    if numbers.shape[0] == 0:
        raise NoRowsError(failure(path, "expected at least one row of predictions, got none"))
    if numbers.ndim == 2 and numbers.shape[1] < 2:
        raise failure(path, f"expected at least two classes, got predictions of shape {numbers.shape}")
    table = numbers.reshape(len(numbers), -1)
    highest = np.inf if layout.kind == "probabilities" else np.finfo(numbers.dtype).max
    for rows in row_blocks(table.shape[0], table.shape[1] * table.itemsize):
        block = np.asarray(table[rows])
        if not bool((block <= highest).all()):
            row, column = (int(v) for v in np.argwhere(~(block <= highest))[0])
            place, value = f"row {rows.start + row}, {_column(layout, column)}", block[row, column]
            hint = f": rows without one can be dropped with {INCOMPLETE_OPTION}" if np.isnan(value) else ""
            raise failure(path, f"expected a number at {place}, got {value}{hint}")
        if layout.kind == "logits" and not bool((block.max(axis=1) > -np.inf).all()):
            row = rows.start + int(np.argmin(block.max(axis=1)))
            raise failure(path, f"expected a logit above -inf in every row, row {row} has none")
    if layout.kind == "probabilities":
        _check_probabilities(path, numbers, layout)
    elif numbers.ndim == 2 and _near_one(numbers) <= ROUNDED:
        found = "every row is in [0, 1] and sums to 1: these are probabilities"
        raise failure(path, f"expected logits, {found}, drop {LOGITS_OPTION}")


def are_plain(numbers: Floats, layout: Layout, facts: Any = None) -> bool:
    """Whether rows are distributions over classes by far, so that no check of them could find anything."""
    if facts is not None and facts.numbers is numbers and layout.kind == "probabilities":
        slack = rounding_slack(numbers)
        return bool(facts.off == 0 and facts.least >= -slack and facts.most <= 1 + slack)
    wide = numbers.ndim == 2 and numbers.shape[0] > 0 and numbers.shape[1] > 1 and numbers.itemsize > 2
    return layout.kind == "probabilities" and wide and are_distributions(numbers, 0.9 * ROUNDED)


def _check_probabilities(path: str, numbers: Floats, layout: Layout) -> None:
    name = quote(layout.columns[0]) if len(layout.columns) == 1 else "the class columns"
    try:
        check_probabilities(numbers, name) if numbers.ndim == 2 else check_reports(numbers, name)
    except (TypeError, ValueError) as error:
        what = str(error)
        logits = bool((numbers < 0).any()) and not _has_whole(numbers)
        hint = "" if layout.sure or not logits else f"; if they are logits, pass {LOGITS_OPTION}"
        if numbers.ndim == 2:
            hint = _likely(numbers, layout) or hint
            if "divide each row" in what:  # which --normalize does only where it cannot hide another fault
                what, hint = (
                    what.partition(": divide each row")[0],
                    hint if hint.startswith((".", ":")) else _several(path, numbers, layout),
                )
        raise failure(path, f"{what}{hint}") from error


def _has_whole(numbers: Floats) -> bool:
    """Whether a column has whole numbers alone: ids, years, labels."""
    with np.errstate(invalid="ignore"):
        return len(numbers) >= FEWEST and bool((numbers == np.floor(numbers)).all(axis=0).any())


def _several(path: str, numbers: Floats, layout: Layout) -> str:
    """What to do about numbers in [0, 1] that are not shares of one whole."""
    if bool((numbers == np.floor(numbers)).all()):
        return ": these are decisions, 0 and 1; write the predicted probabilities"
    names = f" {shlex.quote(path)} --columns {shlex.quote(','.join(layout.columns))}"
    return (
        ": if several labels can apply, pass --task multilabel; if these are one-vs-rest scores, measure one class "
        f"with {COLUMNS_OPTION} and {POSITIVE_OPTION}; if they are models, run: truecal compare"
        f"{names if 1 < len(layout.columns) <= MOST_MODELS else ''}"
    )


def _likely(numbers: Floats, layout: Layout) -> str:
    """What rows that are no distributions seem to be, and the option that says so; nothing where that is open."""
    if _near_one(numbers) <= _rounding(numbers):
        return f". If they are rounded probabilities, pass {NORMALIZE_OPTION}"
    if numbers.min() >= 0 and _near_one(numbers / 100) <= _rounding(numbers):
        return f": pass {PERCENT_OPTION}"
    if numbers.min() > 1 and 0.9 <= float((1 / numbers).sum(axis=1).mean()) <= 1.5:
        return f". If they are a bookmaker's odds, pass {ODDS_OPTION}"
    for column in (0, numbers.shape[1] - 1) if len(layout.columns) > 1 else ():
        rest = np.delete(numbers, column, axis=1)
        if rest.shape[1] == 1:
            rest = np.concatenate([rest, 1 - rest], axis=1)
        if (numbers[:, column] == np.floor(numbers[:, column])).all() and _near_one(rest) <= ROUNDED:
            name = quote(layout.columns[column])
            others = f". Without column {name} the others can be probabilities"
            return f"{others}: if it has the labels, pass {LABEL_OPTION} {name}"
    whole = (numbers == np.floor(numbers)).all(axis=1)
    if "there is no header" in layout.note and whole[0] and not whole[1:].any():
        return f". If the first line has names, {HEADER_OPTION}"
    return ""


def _near_one(numbers: Floats) -> float:
    """How far the rows sum from 1, at most; infinite if any entry lies outside [0, 1]."""
    if numbers.min() < 0 or numbers.max() > 1:
        return float("inf")
    return float(abs(numbers.sum(axis=1, dtype=np.float64) - 1).max())


def _rounding(numbers: Floats) -> float:
    """How far from 1 rows of probabilities with two decimals may sum."""
    return float(min(0.5, max(0.1, 0.005 * numbers.shape[1])))


def normalized(path: str, numbers: Floats, layout: Layout) -> tuple[Floats, str]:
    """Rows of rounded probabilities divided by their sums, and the sentence that says so."""
    if layout.kind != "probabilities" or numbers.ndim != 2:
        raise failure(path, f"expected probabilities of all classes for {NORMALIZE_OPTION}, found {layout.note}")
    sums = numbers.sum(axis=1, dtype=np.float64)
    bad = ~((numbers >= 0).all(axis=1) & (abs(sums - 1) <= _rounding(numbers)))
    if bad.any():
        row = int(np.argmax(bad))
        wanted = f"rows that sum to about 1 (within {_rounding(numbers):g}), without negative entries,"
        raise failure(path, f"expected {wanted} to normalize, row {row} sums to {sums[row]:.6g}")
    note = f"rows divided by their sums, which run from {sums.min():.4g} to {sums.max():.4g}"
    return numbers / sums[:, None].astype(numbers.dtype), note


def from_bfloat16(numbers: Floats) -> Floats | None:
    """Probabilities that were rounded to bfloat16, divided by their sums; None where they were not, or sum to 1.

    A bfloat16 has 8 significant bits: as float32 its last 16 bits are 0, and rows of rounded probabilities sum to 1
    within 2⁻⁹ or so, which is more than rows of other probabilities may be off.
    """
    if (
        numbers.ndim != 2
        or numbers.dtype == np.float16
        or numbers.size == 0
        or not ROUNDED < _near_one(numbers) < 2**-8
    ):
        return None
    for rows in row_blocks(len(numbers), numbers.shape[1] * 8):
        if (numbers[rows].astype(np.float32).view(np.uint32) & 0xFFFF).any():
            return None
    wide = numbers.astype(np.float64)
    return np.asarray((wide / wide.sum(axis=1, keepdims=True)).astype(np.float32))


def _column(layout: Layout, column: int) -> str:
    if len(layout.columns) > 1:
        return f"column {quote(layout.columns[column])}"
    return f"{quote(layout.columns[0])} column {column}" if layout.columns else f"column {column}"
