"""Which columns or keys hold the labels and the predictions: the documented rules, applied to roles and values."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from truecal.io.containers import split_member
from truecal.io.failures import FileError, failure, listing, quote
from truecal.io.limits import Budget
from truecal.io.prediction_file import FILE_KINDS, FileKind
from truecal.io.roles import (
    NUMBER,
    ROLES,
    VECTOR,
    WHOLE,
    Facts,
    Forms,
    Peek,
    Scale,
    above,
    called,
    is_called,
    is_decided,
    is_identifier,
    is_pandas_index,
    key_of,
    matches,
    meaning,
    peeked,
    polarity,
    stripped,
    tells_outcome,
)

LOGITS_OPTION = "logits=True (--logits)"  # as the library and as the command line call it
COLUMNS_OPTION = "proba_columns (--columns)"
LABEL_OPTION = "label_column (--label-column)"
LABELS_OPTION = "labels (--labels)"
PERCENT_OPTION = "percent=True (--percent)"
NORMALIZE_OPTION = "normalize=True (--normalize)"
INCOMPLETE_OPTION = "drop_incomplete=True (--drop-incomplete)"
BASE_OPTION = "label_base=1 (--label-base 1)"
CLASS_AXIS_OPTION = "class_axis (--class-axis)"
ODDS_OPTION = "odds=True (--odds)"
HEADER_OPTION = "pass header=True or header=False (--header or --no-header)"
POSITIVE_OPTION = "positive (--positive)"
MOST_LISTED = 12  # names of columns in a note


BOXES = "are boxes: match detections with objects, and write whether each is correct, beside its score"
_TRUTHS = ("truth", "label")  # roles whose names say labels


@dataclass(frozen=True)
class Request:
    """The options of `read_predictions` for a file; None leaves the choice to the rules.

    `rows` is how many rows there should be, where that is known: it tells a header from a first row.
    """

    path: str
    label_column: str | None = None
    proba_columns: tuple[str, ...] | None = None
    logits: bool = False
    kind: FileKind | None = None
    label_base: int = 0
    normalize: bool = False
    percent: bool = False
    drop_incomplete: bool = False
    header: bool | None = None
    length_normalized: bool = False
    rows: int | None = None
    id_column: str | Literal[False] | None = None
    class_axis: int | None = None
    odds: bool = False
    positive: str | None = None  # the label, class or column that counts as 1
    label_shapes: tuple[tuple[int, ...], ...] = ()  # of arrays elsewhere that may be the labels
    budget: Budget = field(default=None, repr=False, compare=False)  # type: ignore[assignment]  # made below

    def __post_init__(self) -> None:
        if self.budget is None:
            object.__setattr__(self, "budget", Budget(split_member(self.path)[0]))
        if self.label_base not in (0, 1):
            raise ValueError(f"label_base: expected 0 or 1, got {quote(self.label_base)}")
        if self.kind is not None and self.kind not in FILE_KINDS:
            raise ValueError(f"kind: expected one of {', '.join(FILE_KINDS)} or None, got {quote(self.kind)}")
        if self.logits and self.kind not in (None, "logits"):
            raise ValueError(f"logits=True and kind={self.kind!r} contradict each other: give one of them")
        if self.odds and (self.logits or self.percent or self.kind not in (None, "probabilities")):
            raise ValueError("odds=True cannot be used with logits, percentages or another kind: give one of them")
        if self.proba_columns is not None and not self.proba_columns:
            raise ValueError("proba_columns: expected at least one name or None, got an empty sequence")

    @property
    def told(self) -> Scale | None:
        """The kind of numbers that the options name."""
        if self.logits or self.kind == "logits":
            return "logits"
        return "probabilities" if self.kind == "probabilities" else None

    def refuse(self, what: str) -> FileError:
        return failure(self.path, what)


def check_names(path: str, names: Sequence[str], what: str = "column") -> None:
    """Every name once: a repeated name leaves open which of the two is meant."""
    twice = (name for name, times in Counter(names).items() if times > 1)
    if (name := next(twice, None)) is not None:
        raise failure(path, f"expected every {what} name once, {quote(name)} appears {names.count(name)} times")


@dataclass(frozen=True)
class Layout:
    """Where the predictions of a file are. `sure` is False where they are probabilities by default only."""

    kind: FileKind
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    sure: bool = True
    prediction: str | None = None
    confidence: str | None = None
    correct: str | None = None
    note: str = ""
    of: str = ""  # the class that one number per row is of, where its name says it
    log: bool = False  # logarithms of probabilities
    weak: bool = False  # the name says a prediction, not a probability


@dataclass(frozen=True)
class Labels:
    """The columns that may hold the labels, the likeliest first, and the rule that found them."""

    names: tuple[str, ...] = ()
    rule: str = ""
    told: bool = False  # by the caller
    weak: bool = False  # the name alone could be that of another column
    can: tuple[str, ...] = ()  # columns whose values would do, where no rule finds the labels

    @property
    def name(self) -> str | None:
        return self.names[0] if self.names else None


def find_labels(
    request: Request, forms: Forms, what: str, *, elsewhere: bool = False, peek: Peek | None = None
) -> Labels:
    """The columns that are called labels: the one that was named, else those with telling names.

    Among arrays the only one with a whole number per row will do. `elsewhere`: the caller gave labels already, so that
    a column of fractions is no label, whatever its name.
    """
    if request.label_column is not None:
        if request.label_column not in forms and "," in request.label_column:
            return Labels()  # one column per class
        return Labels((present(request, request.label_column, forms, what),), "named by label_column", True)
    found = called(forms, *_TRUTHS)
    if found:  # a list of the names of all classes in every row
        facts = peeked(peek, [name for name in found if forms[name] not in (NUMBER, WHOLE, VECTOR)])
        found = [n for n in found if n not in facts or not all(v.startswith("[") for v in facts[n].distinct)]
    if elsewhere and found:
        facts = peeked(peek, [name for name in found if forms[name] == NUMBER])
        found = [name for name in found if not (name in facts and facts[name].is_fraction)]
    if found:
        found.sort(key=lambda name: not is_called(name, "truth"))
        return Labels(tuple(found), "by its name")
    whole = [n for n, form in forms.items() if form == WHOLE and not is_called(n, "classes") and not is_identifier(n)]
    if "y" in whole and not elsewhere:
        return Labels(("y",), "by its name")
    if len(whole) == 1 and not elsewhere:
        return Labels((whole[0],), "the only array with one whole number per row")
    return Labels()


def likely_labels(request: Request, forms: Forms, layout: Layout, what: str, peek: Peek | None) -> Labels:
    """The labels of predictions that were found, where no name says so: by names that fit, and values that can be."""
    used = {*layout.columns, layout.prediction, layout.confidence, layout.correct}
    left = [
        n for n in forms if n not in used and not is_identifier(n) and forms[n] != VECTOR and n != request.id_column
    ]
    left = [n for n in left if not is_called(n, "split", "weight", "confidence") and not is_prediction(n)]
    marks = [n for n in left if re.match(r"(is_)?(hit|correct)s?(_|$)", n, re.IGNORECASE)]
    facts = peeked(peek, marks)
    left = [n for n in left if n not in marks or (n in facts and facts[n].are_names)]
    if peek is None:
        return Labels(("y",), "by its name") if "y" in left else Labels(can=tuple(left))
    names = layout.classes or ()
    ids = [n for n in forms if is_identifier(n) and n not in used and forms[n] != VECTOR and not is_pandas_index(n)]
    known = peeked(peek, ids if len(names) > 1 else [])
    left += [n for n, f in known.items() if f.are_names and matches(f.distinct, names)]
    facts = peeked(peek, left)
    others = left
    said = peeked(peek, [layout.prediction] if layout.prediction else [])
    predicted = said[layout.prediction].distinct if layout.prediction in said else None
    left = [name for name in left if name in facts and _can_label(facts[name], layout, predicted)]
    decided = _decisions(forms, left, peek)
    left = [name for name in left if name not in decided]
    stems = _stems(forms, layout)
    linked = [name for name in left if key_of(name) in stems]
    linked = linked or [n for n in left if len(n) > 2 and any(key_of(d).endswith(key_of(n)) for d in decided)]
    linked = [name for name in linked if _FIRST.match(name)] or linked
    if linked:
        linked.sort(key=lambda n: stems.index(key_of(n)) if key_of(n) in stems else len(stems))
        return Labels(tuple(linked), "by the names of the predictions")
    weak = called(left, "weak label")
    if len(weak) > 1 and "y" in weak:
        weak = ["y"]
    if weak:
        return Labels(tuple(weak), "by its name", weak=True)
    if layout.classes is not None:
        named = [n for n in left if facts[n].numbers is None and matches(facts[n].distinct, layout.classes)]
        if named:
            return Labels(tuple(named), "by its values, which are the classes")
    if len(left) == 1 and not [n for n in others if n != left[0]]:
        return Labels((left[0],), "the only other column", weak=True)
    if len(told := [n for n in left if tells_outcome(n)]) == 1:
        return Labels((told[0],), "by its name and values", weak=True)
    return Labels(can=likeliest_first(left or decided, layout.columns, list(forms)))


def likeliest_first(can: Sequence[str], predictions: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Columns that can be the labels: those that are called so, then the nearest ones to the predictions."""
    place = {name: i for i, name in enumerate(names)}
    first = min((place[name] for name in predictions if name in place), default=0)

    def rank(name: str) -> tuple[bool, int]:
        called_so = is_called(name, *_TRUTHS, "weak label") or tells_outcome(name)
        return not called_so, abs(place.get(name, first) - first)

    return tuple(sorted(can, key=rank))


def _decisions(forms: Forms, names: Sequence[str], peek: Peek) -> list[str]:
    """The columns that say which of some fractions are above a threshold: decisions of models, no outcomes."""
    facts = peeked(peek, [n for n, form in forms.items() if form == NUMBER and n not in names])
    p = [each.numbers for each in facts.values() if each.is_fraction and not each.missing]
    values = (peek(names) if names and p else None) or {}
    return [name for name, each in values.items() if any(above(numbers, each) is not None for numbers in p)]


def _can_label(facts: Facts, layout: Layout, predicted: frozenset[str] | None = None) -> bool:
    """Whether values can be the labels of predictions: names or numbers of their classes, or two values."""
    if 2 * facts.missing > facts.rows:
        return False
    if layout.kind == "top_label":
        return facts.may_be_label and (predicted is None or bool(facts.distinct & predicted))
    if layout.classes is None:
        number = facts.numbers is not None and facts.in_unit and len(facts.distinct) <= 3
        signs = {polarity(value) for value in facts.distinct}
        return 0 < len(facts.distinct) <= 2 or number or signs == {True, False}
    if facts.numbers is not None and facts.whole and facts.numbers.min() >= 0 and len(facts.distinct) > 1:
        return bool(facts.numbers.max() <= len(layout.classes)) or matches(facts.distinct, layout.classes)
    return matches(facts.distinct, layout.classes) or (
        len(layout.classes) == 2 and len(facts.distinct) <= 2 and all(polarity(v) is not None for v in facts.distinct)
    )


_WORDS = "outcome actual true truth real label result won target observed class flag"
_OUTCOME_WORDS = ("", *_WORDS.split())
_FIRST = re.compile(r"(actual|true|real|observed)(?![a-z])|(actual|true|real|observed)[A-Z_ ]", re.IGNORECASE)


def _stems(forms: Forms, layout: Layout) -> list[str]:
    """The names that labels have where predictions are called P(Species=a), churn_probability or predicted_churn."""
    found: list[str] = []
    for name in (*layout.columns, *(n for n in forms if is_prediction(n))):
        said = meaning(name)
        if said is None:
            continue
        found += list(said.family[2:-1]) if said.family[1] == "after" else []
        found += [said.rest] if said.said == "weak" or len(layout.columns) == 1 else []
    classes = layout.classes or ()
    for short, long in zip(stripped(classes), classes, strict=True):
        found += [text for text in long.split(short) if text] if short and short != long else []
        found += [short, long]
    keys = [key_of(text) for text in found if key_of(text)]
    ordered = [f"{key}{key_of(word) if word else ''}" for word in _OUTCOME_WORDS for key in keys]
    return list(dict.fromkeys([*ordered, *(f"{word}{key}" for word in _OUTCOME_WORDS if word for key in keys)]))


def is_prediction(name: str) -> bool:
    """Whether a name says predicted labels, such as pred, predicted_species or prediction(label)."""
    said = meaning(name)
    if is_called(name, "prediction") or is_decided(name):
        return True
    if key_of(name).endswith(("prediction", "predicted")) and not is_called(name, "correct"):  # win_classprediction
        return True
    weak = said is not None and said.said == "weak" and said.word not in ("oof", "conf", "confidence")
    return weak and not is_identifier(name)


def label_family(request: Request, forms: Forms, layout: Layout, peek: Peek | None = None) -> tuple[str, ...]:
    """Columns of numbers, one per class in the order of the classes: soft labels, or zeros and a one.

    As named (`a,b,c`), or called label_cat, cat_actual, or as the classes are.
    """
    classes = layout.classes
    if request.label_column is not None and request.label_column not in forms and "," in request.label_column:
        given = tuple(part.strip() for part in request.label_column.split(","))
        for name in given:
            present(request, name, forms, "column")
        return _in_order(given, classes) or given
    if classes is None or request.label_column is not None:
        return ()
    numbers = [n for n, form in forms.items() if form in (NUMBER, WHOLE) and n not in layout.columns]
    words = [*ROLES["label"], *ROLES["truth"], "y", "true", "outcome", "is", "won", "win", "winner", "result"]
    for word in map(re.escape, dict.fromkeys(words)):
        parts = re.compile(rf"{word}[ _.:]+(.+)|(.+)[ _.:]+{word}", re.IGNORECASE | re.DOTALL)
        named = {name: m[1] or m[2] for name in numbers if (m := parts.fullmatch(name))}
        if found := _in_order(tuple(named), classes, tuple(named.values())):
            return found
    found = _in_order(tuple(numbers), classes)
    facts = peeked(peek, found or ())
    return found if found and all(name in facts and facts[name].whole and facts[name].in_unit for name in found) else ()


def _in_order(
    names: tuple[str, ...], classes: tuple[str, ...] | None, texts: tuple[str, ...] | None = None
) -> tuple[str, ...]:
    """Names of columns in the order of the classes that they, or texts of them, name; nothing where some are left."""
    if not names or len(names) < len(classes or ()):
        return ()
    for known in (classes or (), stripped(classes or ())):
        place = {key_of(text): name for name, text in zip(names, texts or names, strict=True)}
        if (
            known
            and len(place) == len(names)
            and {key_of(c) for c in known} <= set(place)
            and (texts is None or len(names) == len(known))
        ):
            return tuple(place[key_of(c)] for c in known)
    return ()


def present(request: Request, wanted: str, names: Collection[str], what: str) -> str:
    if wanted not in names:
        raise request.refuse(f"expected a {what} named {quote(wanted)}, found {listing(names)}")
    return wanted


def plain_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names that no other rule covers."""
    roles = ("truth", "label", "id", "weight", "split", "prediction", "confidence", "correct")
    return tuple(n for n in names if not is_called(n, *roles) and not is_identifier(n))


def shown_columns(names: Sequence[str], what: str) -> str:
    return f"the {what} {quote(names[0])}" if len(names) == 1 else f"{len(names)} {what}s {listing(names, MOST_LISTED)}"


def choose_label(unused: Sequence[str], can: Sequence[str]) -> str:
    """What to do about labels that were not found, for a message: name a column whose values can be the labels."""
    if called(unused, "box"):
        return f"{listing(called(unused, 'box'))} {BOXES}"
    if not can:
        why = f"no values of {listing(unused)} can be the labels: " if unused else ""
        return f"{why}pass them with --labels FILE"
    own = shlex.quote(can[0]) if len(can) == 1 else "with the one of the outcomes"
    how = f"pass --label-column {own}, or --labels FILE"
    return f"columns that can hold them: {listing(can)}: {how}"


def settle(request: Request, said: Scale | None, subject: str) -> tuple[Scale, bool]:
    """Logits or probabilities: by the name or the caller, never by the values. False: only the default says so."""
    told = request.told
    if said is not None and told is not None and said != told:
        flag = LOGITS_OPTION if request.logits else f"kind={request.kind!r}"
        raise request.refuse(f"{flag} means {told}, but {subject} means {said}: rename it or drop {flag}")
    return said or told or "probabilities", (said or told) is not None
