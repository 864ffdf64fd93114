"""Which columns or keys hold the labels and the predictions: the documented rules, and what their names say."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from truecal.io.failures import FileError, failure, listing, quote
from truecal.io.prediction_file import FILE_KINDS, FileKind

LABEL_NAMES = ("label", "labels", "y_true", "target", "targets", "true_label", "gold", "truth", "ground_truth")
PROBA_NAMES = ("probs", "probabilities", "proba", "probas", "prob", "probability", "y_proba", "y_prob", "p")
LOGIT_NAMES = ("logits", "logit", "y_logits", "log_probs", "logprobs", "log_prob", "logprob", "log_proba")
SCORE_NAMES = ("score", "scores", "y_score", "y_scores")  # probabilities unless the caller says logits
PREDICTION_NAMES = ("prediction", "pred", "predicted", "predicted_label", "pred_label", "y_pred")
CONFIDENCE_NAMES = ("confidence", "conf", "max_prob", "top_prob")
CORRECT_NAMES = ("correct", "is_correct")
CLASSES_NAMES = ("classes", "class_names")
SAMPLED_NAMES = ("answers", "answer", "samples", "responses", "response", "completions", "completion", "generations")
"""What sampled answers are called: numbers of clusters, of which no vector is a distribution."""
ID_NAMES = ("id", "ids", "index", "idx", "row", "sample_id", "doc_id", "fold", "split", "weight", "sample_weight")

LIKELY_LABELS = ("answer", "class", "category", "outcome", "actual", "expected", "species", "y", "response", "key")

WEAK_LABEL = "y"  # also a class where columns are letters, so it counts only if nothing better does
WEAK_PROBA = "p"

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
MOST_LISTED = 12  # names of columns in a note

NUMBER, WHOLE, VECTOR = "a number per row", "a whole number per row", "a vector per row"
Forms = Mapping[str, str]
"""What each column or key holds: NUMBER, WHOLE, VECTOR, or words for anything else."""

Scale = Literal["probabilities", "logits"]
_NAMES: dict[Scale, tuple[str, ...]] = {"probabilities": PROBA_NAMES, "logits": LOGIT_NAMES}
_PREFIXES: dict[Scale | None, re.Pattern[str]] = {
    scale: re.compile(rf"({'|'.join(names)})(?:[_.:](.+)|([0-9]+))", re.IGNORECASE | re.DOTALL)
    for scale, names in [*_NAMES.items(), (None, SCORE_NAMES)]
}

_ODDS = re.compile(r"odds?[_.: ](.+)|(.+)[_.: ]odds?", re.IGNORECASE)


@dataclass(frozen=True)
class Request:
    """What the caller said about a file; None leaves it to the rules. See `read_predictions` for the options.

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
    label_shapes: tuple[tuple[int, ...], ...] = ()  # of arrays elsewhere that may be the labels

    def __post_init__(self) -> None:
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
        """What the caller said the numbers are."""
        if self.logits or self.kind == "logits":
            return "logits"
        return "probabilities" if self.kind == "probabilities" else None

    def refuse(self, what: str) -> FileError:
        return failure(self.path, what)


@dataclass(frozen=True)
class Layout:
    """Where the predictions of a file are. `sure` is False when only the default says they are probabilities."""

    kind: FileKind
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    sure: bool = True
    prediction: str | None = None
    confidence: str | None = None
    correct: str | None = None
    note: str = ""


def check_names(path: str, names: Sequence[str], what: str = "column") -> None:
    """Every name once: a repeated name leaves open which of the two is meant."""
    twice = (name for name, times in Counter(names).items() if times > 1)
    if (name := next(twice, None)) is not None:
        raise failure(path, f"expected every {what} name once, {quote(name)} appears {names.count(name)} times")


def find_label(request: Request, forms: Forms, what: str, *, elsewhere: bool = False) -> tuple[str | None, str]:
    """The label column and the rule that found it: the one that was named, else by its name, else y.

    Among arrays the only one with a whole number per row will do. `elsewhere`: the caller gave labels already, so that
    only a telling name counts.
    """
    if request.label_column is not None:
        return _present(request, request.label_column, forms, what), "named by label_column"
    found = _called(forms, LABEL_NAMES)
    if len(found) > 1:
        raise request.refuse(f"expected one label {what}, found {listing(found)}: name one with {LABEL_OPTION}")
    if not found and not elsewhere:
        found = [WEAK_LABEL] if WEAK_LABEL in forms else []
    if found:
        return found[0], "by its name"
    whole = [name for name, form in forms.items() if form == WHOLE and name.lower() not in CLASSES_NAMES]
    whole = [name for name in whole if not is_identifier(name)]
    if len(whole) == 1 and not elsewhere:
        return whole[0], "the only array with one whole number per row"
    return None, ""


def label_family(forms: Forms, classes: Sequence[str] | None) -> tuple[str, ...]:
    """Columns of numbers such as label_cat and label_dog, one per class in the order of the classes: soft labels."""
    for prefix in LABEL_NAMES if classes else ():
        named = {match[1]: n for n in forms if (match := re.fullmatch(rf"{prefix}[_.:](.+)", n, re.I | re.S))}
        if set(named) == set(classes or ()) and all(forms[name] in (NUMBER, WHOLE) for name in named.values()):
            return tuple(named[name] for name in classes or ())
    return ()


def find_layout(request: Request, forms: Forms, label: str | None, what: str) -> Layout:
    """Find the predictions among the columns or keys."""
    others = {name: form for name, form in forms.items() if name not in (label, request.id_column)}
    search = _Search(request, others, what)
    if request.kind == "top_label":
        return search.top_label() or search.nothing()
    if request.proba_columns is not None:
        return search.named(forms)
    if request.odds:
        return search.odds() or search.nothing()
    return (
        search.by_vector_name()
        or search.by_prefix()
        or search.by_scalar_name()
        or (None if request.told else search.top_label())
        or search.by_score()
        or search.refuse_odd()
        or search.only_vector()
        or search.plain_classes()
        or search.nothing()
    )


def unnamed_layout(request: Request, forms: Forms, label: str | None, what: str) -> Layout:
    """The predictions of an array, or columns, without names: the caller's word, or the default, says what they are."""
    if request.kind in ("top_label", "choices"):
        raise request.refuse(f"expected names of arrays or columns for kind={request.kind!r}, there are none")
    columns = request.proba_columns or tuple(name for name in forms if name != label)
    for name in columns:
        _present(request, name, forms, what)
        if forms[name] not in (NUMBER, VECTOR):
            how = "pass labels with labels= (--labels)"
            if what == "column":
                how = f"if it holds the labels, name it with {LABEL_OPTION}; if it has a header, {HEADER_OPTION}"
            raise request.refuse(f"expected predictions (floating-point numbers) in {name}, got {forms[name]}: {how}")
    scale, sure = settle(request, None, "")
    why = "without a name" if what == "key" else "there is no header"
    return Layout(scale, columns, sure=sure, note=f"{scale} from {_shown(columns, what)} ({why})")


def name_says(name: str) -> Scale | None:
    """What a name says its numbers are: probabilities, logits, or nothing."""
    said = (scale for scale in reversed(_NAMES) if name.lower() in _NAMES[scale] or _PREFIXES[scale].fullmatch(name))
    return next(said, None)


def settle(request: Request, said: Scale | None, subject: str) -> tuple[Scale, bool]:
    """Logits or probabilities: by the name or the caller, never by the values. False: only the default says so."""
    told = request.told
    if said is not None and told is not None and said != told:
        flag = LOGITS_OPTION if request.logits else f"kind={request.kind!r}"
        raise request.refuse(f"{flag} means {told}, but {subject} means {said}: rename it or drop {flag}")
    return said or told or "probabilities", (said or told) is not None


@dataclass(frozen=True)
class _Search:
    """The rules, in the order of the documentation; each gives a Layout, or None where it finds nothing."""

    request: Request
    forms: Forms  # without the label
    what: str

    def named(self, everything: Forms) -> Layout:
        """The columns that the caller named; also the label's own, if that is what they say."""
        wanted = self.request.proba_columns or ()
        check_names(self.request.path, wanted, "proba_columns")
        for name in wanted:
            _present(self.request, name, everything, self.what)
        said = {name_says(name) for name in wanted}
        classes = None if len(wanted) == 1 else self._class_names(wanted) or wanted
        if self.request.odds and classes is not None:
            classes = _odds_names(classes)
        return self._found(wanted, "named by proba_columns", said.pop() if len(said) == 1 else None, classes)

    def by_vector_name(self) -> Layout | None:
        """One column of vectors (or one array) called probs, probabilities, ..., or logits."""
        vectors = self._having(VECTOR)
        name = self._choose(_called(vectors, PROBA_NAMES), _called(vectors, LOGIT_NAMES))
        return None if name is None else self._found([name], "by its name", name_says(name))

    def by_prefix(self) -> Layout | None:
        """Two columns or more that share a prefix: prob_, p_, proba_, logit_, ..., or at last score_."""
        found: dict[tuple[Scale | None, str], list[str]] = {}
        for name in self.forms:
            for scale, pattern in _PREFIXES.items():
                if match := pattern.fullmatch(name):
                    found.setdefault((scale, match[1].lower()), []).append(name)
        found = {key: members for key, members in found.items() if len(members) > 1}
        found = {key: members for key, members in found.items() if key[0] is not None} or found
        told = self.request.told
        wanted = {key: members for key, members in found.items() if None in (told, key[0]) or told == key[0]}
        if len(wanted) > 1:
            shown = " and ".join(listing(members, 2) for members in wanted.values())
            how = f"name the columns with {COLUMNS_OPTION}, or pass {LOGITS_OPTION} or kind='probabilities'"
            raise self.request.refuse(f"expected one set of prediction columns, found {shown}: {how}")
        if not wanted:
            for said, prefix in found:  # the only family says the opposite of what the caller said
                settle(self.request, said, f"the column prefix {quote(prefix)}")
            return None
        (said, prefix), members = wanted.popitem()
        return self._found(members, f"by the prefix {quote(prefix)}", said, self._class_names(members))

    def by_scalar_name(self) -> Layout | None:
        """One number per row called prob, y_proba, ... or prob_1: the probability (or logit) of class 1 of two."""
        usable = self._having(NUMBER)
        strong = [n for n in usable if n.lower() != WEAK_PROBA]
        if not _plain(strong):
            strong = usable  # p counts when nothing else could be a class
        probas, logits = (
            _called(strong, _NAMES[scale]) + [n for n in strong if _behind(scale, n) == "1"] for scale in _NAMES
        )
        name = self._choose(probas, logits)
        return None if name is None else self._found([name], "by its name", name_says(name), of=" of class 1")

    def odds(self) -> Layout | None:
        """Two columns or more called odds_home, odds_away, ... or home_odds, away_odds, ..."""
        found = [name for name in self.forms if _ODDS.fullmatch(name)]
        if len(found) < 2:
            return None
        return self._found(found, "by the word odds", None, _odds_names(found))

    def top_label(self) -> Layout | None:
        """(label, prediction, confidence) or (correct, confidence)."""
        confidence = self._one_of(CONFIDENCE_NAMES)
        if (columns := self.request.proba_columns) is not None:
            if len(columns) != 1:
                shown = f"{COLUMNS_OPTION} names {listing(columns)}"
                raise self.request.refuse(f"expected one confidence {self.what}, {shown}")
            confidence = _present(self.request, columns[0], self.forms, self.what)
        if confidence is None:
            return None
        correct = self._one_of(CORRECT_NAMES)
        prediction = None if correct is not None else self._one_of(PREDICTION_NAMES)
        if correct is None and prediction is None:
            wanted = f"{' or '.join(CORRECT_NAMES)}, or {', '.join(PREDICTION_NAMES)} with a label"
            found = listing(self.forms)
            raise self.request.refuse(f"expected with {quote(confidence)} a {self.what} {wanted}, found {found}")
        source = f"hits from {quote(correct)}" if correct is not None else f"predicted labels from {quote(prediction)}"
        shown = _shown([confidence], self.what)
        note = f"confidence from {shown}, {source} (by their names): only confidence errors apply"
        return Layout("top_label", prediction=prediction, confidence=confidence, correct=correct, note=note)

    def by_score(self) -> Layout | None:
        """One column of vectors, or of numbers where nothing else could be a class, called score, y_score, ..."""
        vectors, numbers = (_called(self._having(form), SCORE_NAMES) for form in (VECTOR, NUMBER))
        if not vectors and _plain(name for name in self._having(NUMBER) if name not in numbers):
            return None
        found = vectors or numbers
        if len(found) > 1:
            raise self._several(found)
        return self._found(found, "by its name", None, of="" if vectors else " of class 1") if found else None

    def refuse_odd(self) -> Layout | None:
        """A column or key whose name says predictions and that holds none: nothing else may take its place unasked."""
        for name in _called(self.forms, {*PROBA_NAMES, *LOGIT_NAMES} - {WEAK_PROBA}):
            if self.forms[name] not in (NUMBER, VECTOR):
                wanted = f"numbers, one per row or of shape (rows, classes), in the {self.what} {quote(name)}"
                raise self.request.refuse(f"expected {wanted}, it holds {self.forms[name]}")
        return None

    def only_vector(self) -> Layout | None:
        """The only column of vectors (or the only matrix), whatever its name."""
        found = self._having(VECTOR)
        if not found:
            return None
        if len(found) > 1:
            raise self._several(found)
        if self.request.told is None and found[0].lower() in SAMPLED_NAMES:
            how = f"{self._sampled(found[0])}; if these are probabilities, name them with {COLUMNS_OPTION}"
            raise self.request.refuse(f"the {self.what} {quote(found[0])} looks like sampled answers: {how}")
        return self._found(found, "the only one with a vector per row", name_says(found[0]))

    def _sampled(self, name: str) -> str:
        return f"pass --samples {name} --question ID and --correct or --reference COLUMN"

    def plain_classes(self) -> Layout | None:
        """All numeric columns that are not labels, identifiers, weights or parts of a top-label file: one per class."""
        found = _plain(self._having(NUMBER))
        why = "the numeric columns besides the labels, one per class"
        return self._found(found, why, None, found) if len(found) > 1 else None

    def nothing(self) -> Layout:
        wanted = f"predictions: a {self.what} called probs or logits, or {self.what}s such as prob_a, prob_b"
        if self.request.odds:
            wanted = "columns such as odds_home, odds_draw, odds_away"
        if self.request.kind == "top_label":
            wanted = f"a confidence {self.what} ({', '.join(CONFIDENCE_NAMES)})"
        how = f"name them with {COLUMNS_OPTION}"
        answers = next((name for name in self.forms if name.lower() in SAMPLED_NAMES), None)
        if answers is not None:
            how += f"; if these are sampled answers, {self._sampled(answers)}"
        raise self.request.refuse(f"expected {wanted}, found {listing(self.forms)}: {how}")

    def _found(
        self, names: Sequence[str], why: str, said: Scale | None, classes: tuple[str, ...] | None = None, of: str = ""
    ) -> Layout:
        """The columns or keys that a rule found, once it is settled what their numbers are."""
        scale, sure = settle(self.request, said, f"the name of {self.what} {quote(names[0])}")
        note = f"{scale}{of} from {_shown(names, self.what)} ({why})"
        return Layout(scale, tuple(names), classes, sure, note=note)

    def _having(self, form: str) -> list[str]:
        return [name for name, held in self.forms.items() if held == form]

    def _choose(self, probas: list[str], logits: list[str]) -> str | None:
        """One of the names that say probabilities or logits; between the two only the caller's word decides."""
        told = self.request.told
        if probas and logits and told is None:
            both = listing([*probas, *logits])
            how = f"pass {LOGITS_OPTION}, or name one with {COLUMNS_OPTION}"
            raise self.request.refuse(f"expected probabilities or logits, found both ({both}): {how}")
        found = (logits or probas) if told == "logits" else (probas or logits)
        if len(found) > 1:
            raise self._several(found)
        return found[0] if found else None

    def _several(self, found: Sequence[str]) -> FileError:
        return self.request.refuse(
            f"expected one {self.what} of predictions, found {listing(found)}: name one with {COLUMNS_OPTION}"
        )

    def _one_of(self, wanted: tuple[str, ...]) -> str | None:
        found = _called(self.forms, wanted)
        if len(found) > 1:
            raise self.request.refuse(f"expected one {self.what} of {', '.join(wanted)}, found {listing(found)}")
        return found[0] if found else None

    def _class_names(self, names: Sequence[str]) -> tuple[str, ...] | None:
        """The class names behind the prefixes, or None where a column has no prefix."""
        classes = tuple(c for n in names if (c := next(filter(None, (_behind(scale, n) for scale in _PREFIXES)), None)))
        if len(classes) != len(names):
            return None
        check_names(self.request.path, classes, "class")
        return classes


def _odds_names(names: Sequence[str]) -> tuple[str, ...]:
    """The outcomes that columns of odds are for: home of odds_home, H of B365H beside B365D and B365A."""
    told = [match[1] or match[2] for name in names if (match := _ODDS.fullmatch(name))]
    if len(told) == len(names):
        return tuple(told)
    shared = sum(1 for _ in itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False)))
    rest = tuple(name[shared:] for name in names)
    return rest if all(rest) and len(set(rest)) == len(rest) else tuple(names)


def _present(request: Request, wanted: str, names: Collection[str], what: str) -> str:
    if wanted not in names:
        raise request.refuse(f"expected a {what} named {quote(wanted)}, found {listing(names)}")
    return wanted


def _plain(names: Iterable[str]) -> tuple[str, ...]:
    """The names that no other rule speaks of."""
    reserved = {*LABEL_NAMES, *ID_NAMES, *PREDICTION_NAMES, *CONFIDENCE_NAMES, *CORRECT_NAMES}
    return tuple(n for n in names if n.lower() not in reserved and not is_identifier(n))


def is_pandas_index(name: str) -> bool:
    return name == "" or name.startswith(("__index_level_", "Unnamed: "))


_ID_NAME = re.compile(r"(.*[_\W])?(ids?|idx|index|uuid|guid|row|rowid)|.*[a-z](Id|ID)")


def is_identifier(name: str) -> bool:
    """Whether a column identifies rows by its name.

    >>> from truecal.io.column_rules import is_identifier
    >>> [name for name in ("id", "PassengerId", "image_id", "Unnamed: 0", "paid", "weight") if is_identifier(name)]
    ['id', 'PassengerId', 'image_id', 'Unnamed: 0']
    """
    return is_pandas_index(name) or any(_ID_NAME.fullmatch(text) for text in (name, name.lower()))


def _called(names: Iterable[str], wanted: Collection[str]) -> list[str]:
    return [n for n in names if n.lower() in wanted]


def _behind(scale: Scale | None, name: str) -> str | None:
    """The class name behind a prefix."""
    match = _PREFIXES[scale].fullmatch(name)
    return (match[2] or match[3]) if match else None


def _shown(names: Sequence[str], what: str) -> str:
    return f"the {what} {quote(names[0])}" if len(names) == 1 else f"{len(names)} {what}s {listing(names, MOST_LISTED)}"


def choose_label(names: Sequence[str]) -> str:
    """What to do about labels that were not found among these names, for a message: take a likely word, else the first
    that is no identifier."""
    left = _plain(names)
    likely = next(iter([n for n in left if n.lower() in LIKELY_LABELS] or left), "NAME")
    return f"columns not in use: {listing(names)}: use --label-column {likely}"
