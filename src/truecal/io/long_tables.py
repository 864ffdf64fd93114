"""Long tables, one row per sample and class (id, class, probability), turned into one row per sample."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truecal.io.column_rules import Request
from truecal.io.failures import FileError, listing, quote
from truecal.io.label_values import Values, numbers_if_whole
from truecal.io.prediction_file import Floats, Indices
from truecal.io.roles import (
    NUMBER,
    VECTOR,
    called,
    is_called,
    is_identifier,
    meaning,
    scale_of,
    stripped,
    tells_outcome,
)
from truecal.io.source import Source

MOSTLY = 0.8  # the share of samples that must have every class once, for a table to count as long
SUMS_TO_ONE = 0.01


@dataclass(frozen=True)
class _Long:
    """Where each sample and class of a long table is: `cell[row] = (sample, class)`."""

    id_name: str
    class_name: str
    ids: Values  # one per sample, in the order in which they come first
    classes: tuple[str, ...]
    sample: Indices
    column: Indices
    first: Indices  # the first row of each sample

    def matrix(self, values: Floats) -> Floats:
        found = np.full((len(self.ids), len(self.classes)), np.nan, dtype=values.dtype)
        found[self.sample, self.column] = values
        return found


def from_long(request: Request, source: Source | object, labels_elsewhere: bool) -> tuple[Request, Source]:
    """The request and the source, with one row per sample where the table has one per sample and class."""
    assert isinstance(source, Source)
    if source.what != "column" or not source.named:
        return request, source
    given = request.proba_columns
    said = {n: m for n, form in source.forms.items() if form == NUMBER and (m := meaning(n)) is not None and not m.rest}
    strong = [n for n, means in said.items() if means.scale is not None]
    numbers = list(given) if given is not None else strong or [n for n, m in said.items() if m.said == "score"]
    named = request.id_column
    ids = [named] if isinstance(named, str) else [n for n in source.forms if is_identifier(n)]
    others = [name for name in source.forms if name != request.label_column]
    classes = called(others, "class") + called(others, "truth", "label")
    if len(numbers) != 1 or numbers[0] not in source.forms or not classes:
        return request, source
    for id_name in ids:
        if id_name not in source.forms or id_name in (classes[0], *numbers):
            continue
        found = _long(request, source, id_name, classes[0], numbers[0])
        if found is not None:
            request = replace(request, proba_columns=None, id_column=False if named is False else id_name)
            return request, _wide(request, source, found, numbers[0])
    return request, source


DRAWS = ("draw", "tie", "d", "x")
MOST_TEXTS = 12


def from_sides(request: Request, source: Source) -> Source:
    """The source, with `home` and `away` in the place of outcomes that repeat home_team or away_team, as winners do."""
    texts = [name for name, form in source.forms.items() if form not in (NUMBER, VECTOR)]
    told = [request.label_column] if request.label_column in texts else []
    named = told or [name for name in texts if tells_outcome(name) and request.label_column is None]
    rows = source.peek(texts) if named and source.peek is not None and len(texts) <= MOST_TEXTS else None
    for name in named if rows else ():
        for one, other in itertools.combinations([text for text in texts if text != name], 2):
            assert rows is not None
            if (sides := _sides(rows[name], rows[one], rows[other], stripped((one, other)))) is not None:
                return _with_sides(source, name, one, other, sides)
    return source


def _with_sides(source: Source, name: str, one: str, other: str, sides: list[str]) -> Source:
    def peek(names: Sequence[str]) -> dict[str, Any] | None:
        found = None if source.peek is None else source.peek(names)
        return None if found is None else {n: sides if n == name else values for n, values in found.items()}

    note = f"{quote(name)} says which of {quote(one)} and {quote(other)} it was"
    values = functools.partial(_side_values, source, name, one, other)
    return replace(source, notes=(note, *source.notes), peek=peek, values=values, together=None, objects=None)


def _side_values(source: Source, name: str, one: str, other: str, wanted: str) -> Values:
    """A column, with the sides in the place of those who were on them."""
    found = source.values(wanted)
    if wanted != name:
        return found
    both = source.values(one).tolist(), source.values(other).tolist()
    sides = _sides(found.tolist(), *both, stripped((one, other)))
    return found if sides is None else np.array(sides, dtype=object)


def _sides(
    outcomes: Sequence[object], ones: Sequence[object], others: Sequence[object], names: Sequence[str]
) -> list[str] | None:
    """Which side each outcome is, or a draw; None where some are neither, or one side is hardly ever."""
    sides = []
    for outcome, one, other in zip(outcomes, ones, others, strict=True):
        if one == other or outcome not in (one, other, *DRAWS, *map(str.title, DRAWS)):
            return None
        sides.append(names[0] if outcome == one else names[1] if outcome == other else "draw")
    return sides if min(map(sides.count, names)) >= 3 and len(set(ones)) > 2 else None


def _long(request: Request, source: Source, id_name: str, class_name: str, number: str) -> _Long | None:
    try:
        ids, names = source.values(id_name), source.values(class_name)
    except FileError:  # no identifiers or no classes: another rule will say what is wrong
        return None
    if ids.ndim != 1 or names.ndim != 1 or len(ids) != len(names):
        return None
    texts = [str(v) for v in names.tolist()]
    order: dict[object, int] = {}
    sample = np.array([order.setdefault(v, len(order)) for v in ids.tolist()], dtype=np.intp)
    classes = _ordered(names, texts)
    if not 2 <= len(classes) <= len(ids) // 2 or len(order) == len(ids):
        return None
    place = {name: j for j, name in enumerate(classes)}
    column = np.array([place[text] for text in texts], dtype=np.intp)
    count = np.zeros((len(order), len(classes)), dtype=np.intp)
    np.add.at(count, (sample, column), 1)
    whole = (count == 1).all(axis=1)
    if whole.mean() < MOSTLY:
        return None
    first = np.full(len(order), len(ids), dtype=np.intp)
    np.minimum.at(first, sample, np.arange(len(ids)))
    found = _Long(id_name, class_name, ids[first], classes, sample, column, first)
    if is_called(class_name, "truth", "label") and not _sums_to_one(found, source, number, whole):
        return None  # clusters of rows with a label each
    _check_whole(request, found, count)
    return found


def _ordered(names: Values, texts: Sequence[str]) -> tuple[str, ...]:
    """The classes in the order of their numbers, where they are numbers, else as they come first."""
    different = dict.fromkeys(texts)
    numbers = numbers_if_whole(np.array(list(different), dtype=object))
    return tuple(different) if numbers.dtype == object else tuple(sorted(different, key=lambda t: float(t)))


def _sums_to_one(found: _Long, source: Source, number: str, whole: Values) -> bool:
    totals = found.matrix(source.numbers((number,), True))[whole].sum(axis=1)
    return bool((abs(totals - 1) <= SUMS_TO_ONE).mean() >= MOSTLY)


def _check_whole(request: Request, found: _Long, count: Values) -> None:
    """Every sample has every class once."""
    if (count == 1).all():
        return
    sample, column = (int(v) for v in np.argwhere(count != 1)[0])
    rows = np.flatnonzero((found.sample == sample) & (found.column == column))
    who = f"{quote(found.id_name)} {quote(found.ids[sample])}"
    what = f"class {quote(found.classes[column])}"
    if len(rows):
        raise request.refuse(f"duplicate class in {who}: {what} is at row {rows[0]} and at row {rows[1]}")
    where = f"its first row is row {found.first[sample]}"
    among = f"the classes are {listing(found.classes)}"
    raise request.refuse(f"expected a row for each class, {who} has none for {what} ({where}; {among})")


def _wide(request: Request, source: Source, found: _Long, number: str) -> Source:
    """The table with a column of predictions per class, and one row per sample of the others."""
    prefix = {"probabilities": "prob", "logits": "logit", None: "score"}[scale_of(number)]
    columns = {f"{prefix}_{name}": j for j, name in enumerate(found.classes)}
    marks = _marks(request, source, found)
    used = (found.class_name, number)
    forms = dict.fromkeys(columns, NUMBER) | {name: form for name, form in source.forms.items() if name not in used}
    if marks is not None:
        forms = {name: form for name, form in forms.items() if name != marks[0]} | {"label": "text"}

    def numbers(names: Sequence[str], gaps: bool) -> Floats:
        if all(name in columns for name in names):
            matrix = found.matrix(source.numbers((number,), gaps))[:, [columns[name] for name in names]]
            return matrix[:, 0] if len(names) == 1 else matrix
        return source.numbers(names, gaps)[found.first]

    def values(name: str) -> Values:
        if marks is not None and name == "label":
            return marks[1]
        per_row = source.values(name)
        per_sample = per_row[found.first]
        odd = np.flatnonzero(np.asarray(per_row != per_sample[found.sample]).reshape(len(per_row), -1).any(axis=1))
        if len(odd) and name != found.id_name:
            row, who = int(odd[0]), f"{quote(found.id_name)} {quote(found.ids[found.sample[odd[0]]])}"
            raise request.refuse(f"expected one value of {quote(name)} per {who}, but row {row} has another")
        return per_sample

    sizes = f"{len(found.sample)} rows are {len(found.ids)} samples of {len(found.classes)} classes"
    note = f"a row per class: {sizes}, by {quote(found.id_name)} and {quote(found.class_name)}"
    return Source(source.path, "column", forms, numbers, values, True, (note, *source.notes), unordered=True)


def _marks(request: Request, source: Source, found: _Long) -> tuple[str, Values] | None:
    """A column of zeros and ones that marks the class that came true, as labels."""
    named = request.label_column
    for name in called(source.forms, "truth", "label", "mark") if named is None else [named]:
        if name == found.class_name or name not in source.forms:
            continue
        try:
            values = numbers_if_whole(source.values(name))
        except FileError:
            continue
        words = {"true": 1, "false": 0}
        if values.dtype == object and {str(v).lower() for v in values.tolist()} <= set(words):
            values = np.array([words[str(v).lower()] for v in values.tolist()])
        if values.ndim != 1 or values.dtype.kind not in "iub" or not np.isin(values, (0, 1)).all():
            continue
        marked = np.zeros((len(found.ids), len(found.classes)), dtype=np.intp)
        marked[found.sample, found.column] = values
        if (marked.sum(axis=1) == 1).all():
            return name, np.array(found.classes, dtype=object)[marked.argmax(axis=1)]
        if (marked.sum(axis=1) == 1).mean() >= MOSTLY:
            sample = int(np.argmax(marked.sum(axis=1) != 1))
            who = f"{quote(found.id_name)} {quote(found.ids[sample])} (first row {found.first[sample]})"
            raise request.refuse(
                f"expected one class marked in {quote(name)} per sample, {who} has {marked[sample].sum()}"
            )
    return None
