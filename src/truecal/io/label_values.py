"""Labels as files write them (numbers, names, booleans, distributions), turned into column indices."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from truecal.core.data import as_array, check_probabilities
from truecal.core.labels import check_labels
from truecal.io.column_rules import BASE_OPTION, POSITIVE_OPTION, Request
from truecal.io.failures import failure, listing, quote
from truecal.io.prediction_file import Floats, Indices
from truecal.io.roles import class_of, key_of, polarity, poles, stripped

Values = npt.NDArray[Any]

FEWEST = 20
"""Fewer rows may agree by chance."""
ROUNDING = 1e-5
"""So small a share of the largest prediction shows nothing."""
MOST = 1 << 14
"""Of more rows so many, spread evenly, are looked at."""
AGREE = 4.0
"""So many standard errors of the covariance between labels and predictions are no chance."""

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
            if bool(((array >= 0) & (array <= 1)).all()):  # shares of class 1
                return array.astype(np.float64)
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


@dataclass(frozen=True)
class Outcomes:
    """The classes that labels are of: how many, their names, and what tells which of two is 1."""

    n: int
    names: tuple[str, ...] | None = None
    of: str = ""  # the class that one number per row is of, as its column is called
    label: str = ""  # the column of the labels
    strict: bool = False  # the order of the names says nothing
    numbers: Floats | None = None  # the predictions
    batch: bool = False  # of a table, whose other rows may tell more
    decided: str | None = None  # the label that is predicted where the one number is large

    @property
    def one(self) -> bool:
        """Whether there is one number per row."""
        return self.numbers is not None and self.numbers.size == len(self.numbers)

    def leaning(self, values: Values, kept: list[Any]) -> tuple[str, str] | None:
        """Label 1 of two, and why: predicted where the last column is large, or with larger predictions."""
        if self.numbers is None or self.batch or len(kept) != 2 or len(self.numbers) != len(values):
            return None
        if self.decided is not None and self.decided in map(str, kept):
            return self.decided, "which is predicted where the probability is large"
        z = agreement(self.numbers.reshape(len(values), -1)[:, -1], np.asarray(values == kept[1], dtype=np.intp))
        if z is None or abs(z) < AGREE:
            return None
        one, other = str(kept[int(z > 0)]), str(kept[int(z <= 0)])
        turn = f"if label 1 is {quote(other)}, pass {POSITIVE_OPTION} {shlex.quote(other)}"
        return one, f"whose rows have the larger probabilities: {turn}"


def label_indices(request: Request, values: Values, outcomes: Outcomes, where: str) -> tuple[Indices | Floats, str]:
    """Column indices, and what to say about them: names are looked up among the class names, whatever their case and
    punctuation; numbers are names of numbered classes or indices, which may count from the base of the request.

    Of two classes, 1, yes, true and positive are one and 0, -1, no, false and negative the other. Rows of numbers must
    be distributions over the classes: one-hot rows become indices, others stay as they are. Fractions are shares of
    class 1.
    """
    path, names = request.path, outcomes.names
    if values.ndim == 2:
        return _soft_labels(path, values, outcomes.n, where), ""
    if outcomes.n == 2 and (ones := shares(values)) is not None and _poles(names) in (None, (False, True)):
        return np.stack([1 - ones, ones], axis=1), "soft labels: shares of class 1"
    if values.dtype.kind == "f":
        row = int(np.argmax(values != np.floor(values)))
        raise failure(path, f"expected whole numbers or names in {where}, row {row} has {values[row]!s}")
    if names is not None and values.dtype == object and not set(values.tolist()) <= set(names):
        for known in (names, stripped(names)):
            place = {key_of(name): names[j] for j, name in enumerate(known)}
            found = {text: place.get(key_of(text)) for text in set(values.tolist())}
            if len(place) == len(names) and None not in found.values():
                values = np.array([found[text] for text in values.tolist()], dtype=object)
                break
        else:
            near = class_of(set(values.tolist()), names)
            if len(near) == len(names) == len(set(values.tolist())):
                values = np.array([near[text] for text in values.tolist()], dtype=object)
    if outcomes.n == 2 and not request.label_base and (found_two := _of_two(request, values, outcomes, where)):
        return found_two
    return _plain_indices(path, values, outcomes.n, names, where, request.label_base), ""


def shares(values: Values) -> Floats | None:
    """Shares of class 1: numbers in [0, 1] with a fraction among them."""
    if values.dtype == object:
        try:
            values = np.array([float(v) for v in values.tolist()])
        except ValueError:
            return None
    if values.dtype.kind != "f" or not bool(((values >= 0) & (values <= 1)).all()):
        return None
    return values.astype(np.float64) if bool((values != np.floor(values)).any()) else None


def _poles(names: tuple[str, ...] | None) -> tuple[bool | None, ...] | None:
    return None if names is None else tuple(polarity(name) for name in stripped(names))


def _in_order(values: Values) -> list[Any]:
    """The different values, in the order in which they come."""
    if values.dtype == object:
        return list(dict.fromkeys(values.tolist()))
    different: dict[Any, None] = {}
    number = len(np.unique(values))
    for start in range(0, len(values), 1 << 16):  # all may be seen soon
        different |= dict.fromkeys(values[start : start + (1 << 16)].tolist())
        if len(different) >= number:
            break
    return list(different)


def _of_two(request: Request, values: Values, outcomes: Outcomes, where: str) -> tuple[Indices, str] | None:
    """Indices of two classes, by what labels, columns and the caller call them; None where indices are as written."""
    names, wanted = outcomes.names, request.positive
    kept = _in_order(values)
    distinct = list(dict.fromkeys(map(str, kept)))
    signs = poles(distinct)

    def are(positive: Iterable[str], note: str = "") -> tuple[Indices, str]:
        wanted = set(positive)
        chosen = [v for v in kept if str(v) in wanted]
        if values.dtype != object:
            return np.isin(values, np.array(chosen, dtype=values.dtype)).astype(np.intp), note
        return np.array([v in chosen for v in values.tolist()], dtype=np.intp), note

    if names is None and (wanted or outcomes.of):
        named = [v for v in distinct if v == (wanted or outcomes.of)]
        named = named or [v for v in distinct if key_of(v) == key_of(wanted or outcomes.of)]
        named = named if len(named) == 1 else []
        if not named and not wanted:  # churn_probability beside churned and stayed
            of = key_of(outcomes.of)
            named = [v for v in distinct if len(of) > 2 and (key_of(v).startswith(of) or of.startswith(key_of(v)))]
            named = named if len(named) == 1 else []
        told = (
            wanted or (None not in signs and polarity(outcomes.of) is False) or numbers_if_whole(values).dtype == object
        )
        if named and told and (len(distinct) <= 2 or wanted):
            rest = " and 0 = the other labels" if len(distinct) > 2 else ""
            return are(named, f"label 1 = {quote(named[0])}{rest}")
        if wanted and not named:
            raise request.refuse(
                f"expected one of the labels {listing(distinct)} for {POSITIVE_OPTION}, got {quote(wanted)}"
            )
    if names is None:
        plain = values.dtype.kind in "iub" and set(distinct) <= {"0", "1", "True", "False"}
        poled = values.dtype == object and None not in signs and {True, False} == set(signs)
        if (len(distinct) > 2 and not poled) or plain or set(distinct) <= {"0", "1"}:
            return None
        if None not in signs:
            chosen = [v for v, pole in zip(distinct, signs, strict=True) if pole]
            return are(chosen, f"label 1 = {listing(chosen)}" if chosen else "")
        if (larger := outcomes.leaning(values, kept)) is not None:
            return are(larger[:1], f"label 1 = {quote(larger[0])}, {larger[1]}")
        if outcomes.one and numbers_if_whole(values).dtype == object and len(distinct) == 2:
            each = " or ".join(f"--positive {shlex.quote(label)}" for label in distinct)
            how = f"say which label the probability is of: pass {each}"
            raise request.refuse(
                f"expected two labels such as 0 and 1 or no and yes, {where} has {listing(distinct)}: {how}"
            )
        return None
    keys = [key_of(name) for name in names], [key_of(name) for name in stripped(names)]
    if set(distinct) <= set(names) and wanted is None:
        return None
    one: int | None = None
    if wanted is not None:
        one = next((known.index(key_of(wanted)) for known in keys if key_of(wanted) in known), None)
        one = next((j for j, name in enumerate(names) if key_of(name) in key_of(wanted)), None) if one is None else one
        if one is None and wanted in distinct and len(distinct) == 2:  # of two columns the last
            return are([wanted], f"label {wanted} = the last column")
        if one is None or None in signs:
            raise request.refuse(f"expected one of {listing(names)} for {POSITIVE_OPTION}, got {quote(wanted)}")
    elif None not in signs:
        of_names, inside = _poles(names), [key in key_of(outcomes.label) for key in keys[1]]
        if of_names is not None and set(of_names) == {True, False}:
            one = of_names.index(True)
        elif sum(inside) == 1 and outcomes.strict:
            one = inside.index(True)
        elif polarity(outcomes.of) is not None:
            one = int(bool(polarity(outcomes.of)))
        elif outcomes.strict and numbers_if_whole(np.array(names, dtype=object)).dtype == object:
            if (larger := outcomes.leaning(values, kept)) is None:
                how = f"pass {POSITIVE_OPTION}, such as --positive {quote(names[1])}"
                raise request.refuse(
                    f"cannot tell which of {listing(names)} the label {quote(distinct[0])} in {where} means: {how}"
                )
            one = int(bool(polarity(larger[0])))
    elif values.dtype == object and (larger := outcomes.leaning(values, kept)) is not None:
        return are(larger[:1], f"label {larger[0]} = the last column, {larger[1]}")
    if one is None:
        return None
    indices, _ = are(v for v, pole in zip(distinct, signs, strict=True) if pole)
    return (indices if one == 1 else 1 - indices), ""


def _plain_indices(
    path: str, values: Values, n_classes: int, classes: tuple[str, ...] | None, where: str, base: int
) -> Indices:
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


def _numbered(values: Values) -> Values:
    """0 of LABEL_0, as models without names of classes write it, where all values are like that."""
    if values.dtype != object or not all(re.fullmatch("LABEL_[0-9]+", str(v)) for v in set(values.tolist())):
        return values
    return np.array([v.removeprefix("LABEL_") for v in values.tolist()], dtype=object)


def hits(path: str, labels: Values, predicted: Values, where: str) -> npt.NDArray[np.bool_]:
    """Which predicted labels equal the labels, both as numbers or both as names."""
    labels, predicted = (numbers_if_whole(_numbered(values)) for values in (labels, predicted))
    if (labels.dtype == object) != (predicted.dtype == object):  # 1 and POSITIVE
        signs = [{v: polarity(v) for v in set(values.tolist())} for values in (labels, predicted)]
        if not any(None in each.values() for each in signs):
            labels, predicted = (
                np.array([each[v] for v in values.tolist()])
                for each, values in zip(signs, (labels, predicted), strict=True)
            )
    if (labels.dtype == object) != (predicted.dtype == object):
        values = f"row 0 has {quote(labels[0])} and {quote(predicted[0])}"
        raise failure(path, f"labels and {where} are coded differently: {values}")
    return np.asarray(labels == predicted, dtype=np.bool_)


def named_by_decisions(numbers: Floats, decisions: Values, labels: Values) -> tuple[str, ...] | None:
    """The classes of columns without names, where decisions say which class the largest number of each row is of."""
    ordered = np.sort(numbers, axis=1)
    clear = ordered[:, -1] > ordered[:, -2]
    largest, said = numbers.argmax(axis=1)[clear], decisions[clear]
    own = [set(said[largest == j].tolist()) for j in range(numbers.shape[1])]
    names = [str(next(iter(each))) if len(each) == 1 else "" for each in own]
    rest = set(map(str, labels.tolist())) - set(names)
    if any(len(each) > 1 for each in own) or names.count("") > 1:
        return None
    if names.count("") == 1 == len(rest):
        names[names.index("")] = rest.pop()
    return tuple(names) if not rest and "" not in names and len(set(names)) == len(names) else None


def agreement(numbers: Floats, y: Any) -> float | None:
    """How far predictions of the labels' own classes exceed those of independent labels, in standard errors."""
    if y.ndim != 1 or len(y) < FEWEST or len(y) != len(numbers):
        return None
    step = -(-len(y) // MOST)
    numbers, y = numbers[::step], y[::step]
    n = len(y)
    if numbers.ndim == 1:
        a, b = numbers - numbers.mean(), (y - y.mean()).astype(np.float64)
        scale = float(np.sqrt((a * a).sum() * (b * b).sum() / max(1, n - 1)))
        return None if not scale > 0 or not np.isfinite(scale) else float((a * b).sum() / scale)
    own = numbers[np.arange(n), y]
    shares = np.bincount(y, minlength=numbers.shape[1]) / n
    spread = (own - numbers @ shares.astype(numbers.dtype)).astype(np.float64)
    if abs(spread.mean()) <= ROUNDING * float(np.abs(own).max()):
        return None
    scale = float(spread.std() * np.sqrt(n))
    return None if not scale > 0 or not np.isfinite(scale) else float(spread.sum() / scale)
