"""Which columns or keys hold the labels and the predictions: the documented rules, and what their names say."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from truecal.io.failures import FileError, failure, listing, quote
from truecal.io.predictions import KINDS, Kind

LABEL_NAMES = ("label", "labels", "y_true", "target", "targets", "true_label", "gold", "truth", "ground_truth")
PROBA_NAMES = ("probs", "probabilities", "proba", "probas", "prob", "probability", "y_proba", "y_prob", "p")
LOGIT_NAMES = ("logits", "logit", "y_logits", "log_probs", "logprobs", "log_prob", "logprob", "log_proba")
PREDICTION_NAMES = ("prediction", "pred", "predicted", "predicted_label", "pred_label", "y_pred")
CONFIDENCE_NAMES = ("confidence", "conf", "max_prob", "top_prob")
CORRECT_NAMES = ("correct", "is_correct")
CLASSES_NAMES = ("classes", "class_names")
ID_NAMES = ("id", "ids", "index", "idx", "row", "sample_id", "doc_id", "fold", "split", "weight", "sample_weight")

WEAK_LABEL = (
    "y"  # also a class of its own in files with one column per letter, so it counts only if nothing better does
)
WEAK_PROBA = "p"

LOGITS_OPTION = "logits=True (--logits)"  # as the library and as the command line call it
COLUMNS_OPTION = "proba_columns (--columns)"
LABEL_OPTION = "label_column (--label-column)"
LABELS_OPTION = "labels (--labels)"
MOST_LISTED = 12  # names of columns in a note

_BEHIND = r"(?:[_.:](.+)|([0-9]+))"
_PROBA_PREFIX = re.compile(rf"({'|'.join(PROBA_NAMES)}){_BEHIND}", re.IGNORECASE | re.DOTALL)
_LOGIT_PREFIX = re.compile(rf"({'|'.join(LOGIT_NAMES)}){_BEHIND}", re.IGNORECASE | re.DOTALL)

Scale = Literal["probabilities", "logits"]


@dataclass(frozen=True)
class Request:
    """What the caller said about a file; None leaves it to the rules."""

    path: str
    label_column: str | None = None
    proba_columns: tuple[str, ...] | None = None
    logits: bool = False
    kind: Kind | None = None

    def __post_init__(self) -> None:
        if self.kind is not None and self.kind not in KINDS:
            raise ValueError(f"kind: expected one of {', '.join(KINDS)} or None, got {quote(self.kind)}")
        if self.logits and self.kind not in (None, "logits"):
            raise ValueError(f"logits=True and kind={self.kind!r} contradict each other: give one of them")
        if self.proba_columns is not None and not self.proba_columns:
            raise ValueError("proba_columns: expected at least one name or None, got an empty sequence")

    @property
    def told(self) -> Scale | None:
        """What the caller said the numbers are."""
        if self.logits or self.kind == "logits":
            return "logits"
        return "probabilities" if self.kind == "probabilities" else None


@dataclass(frozen=True)
class Layout:
    """Where the predictions of a file are. `sure` is False when only the default says they are probabilities."""

    kind: Kind
    columns: tuple[str, ...] = ()
    classes: tuple[str, ...] | None = None
    sure: bool = True
    prediction: str | None = None
    confidence: str | None = None
    correct: str | None = None
    note: str = ""


def is_pandas_index(name: str) -> bool:
    return name == "" or name.startswith(("__index_level_", "Unnamed: "))


def check_names(path: str, names: Sequence[str], what: str = "column") -> None:
    """Every name once: a repeated name leaves open which of the two is meant."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise failure(
                path, f"expected every {what} name once, {quote(name)} appears {list(names).count(name)} times"
            )
        seen.add(name)


def find_label(request: Request, names: Sequence[str], what: str = "column", *, weak: bool = True) -> str | None:
    """The label column: the one that was named, else the only one called label, y_true, target, ..., else y."""
    if request.label_column is not None:
        return _present(request, request.label_column, names, what)
    found = [name for name in names if name.lower() in LABEL_NAMES]
    if len(found) > 1:
        raise failure(request.path, f"expected one label {what}, found {listing(found)}: name one with {LABEL_OPTION}")
    if found:
        return found[0]
    return WEAK_LABEL if weak and WEAK_LABEL in names else None


def find_layout(
    request: Request,
    names: Sequence[str],
    *,
    label: str | None,
    numeric: Collection[str],
    lists: Collection[str] = (),
    odd: Mapping[str, str] | None = None,
    what: str = "column",
) -> Layout:
    """Find the predictions among `names`; `numeric` hold a number per row, `lists` a vector per row, `odd` neither."""
    rest = [name for name in names if name != label]
    if request.kind == "top_label":
        return _top_label(request, rest, what) or _none_found(request, names, what)
    if request.proba_columns is not None:
        return _given(request, names, what)
    layout = (
        _by_vector_name(request, rest, lists, what)
        or _by_prefix(request, rest)
        or _by_scalar_name(request, rest, numeric, what)
        or (None if request.told else _top_label(request, rest, what))
        or _refuse_odd(request, rest, odd or {}, what)
        or _only_vector(request, rest, lists, what)
        or _plain_classes(request, rest, numeric)
    )
    return layout or _none_found(request, names, what)


def name_says(name: str) -> Scale | None:
    """What a name says its numbers are: probabilities, logits, or nothing."""
    if name.lower() in LOGIT_NAMES or _LOGIT_PREFIX.fullmatch(name):
        return "logits"
    return "probabilities" if name.lower() in PROBA_NAMES or _PROBA_PREFIX.fullmatch(name) else None


def settle(request: Request, said: Scale | None, subject: str) -> tuple[Scale, bool]:
    """Logits or probabilities: by the name or the caller, never by the values. False: only the default says so."""
    told = request.told
    if said is not None and told is not None and said != told:
        flag = LOGITS_OPTION if request.logits else f"kind={request.kind!r}"
        raise failure(request.path, f"expected {told} as {flag} says, {subject} says {said}: rename it or drop {flag}")
    return said or told or "probabilities", (said or told) is not None


def _present(request: Request, wanted: str, names: Sequence[str], what: str) -> str:
    if wanted not in names:
        raise failure(request.path, f"expected a {what} named {quote(wanted)}, found {listing(names)}")
    return wanted


def _given(request: Request, names: Sequence[str], what: str) -> Layout:
    wanted = request.proba_columns or ()
    check_names(request.path, wanted, "proba_columns")
    for name in wanted:
        _present(request, name, names, what)
    said = {name_says(name) for name in wanted}
    scale, sure = settle(request, said.pop() if len(said) == 1 else None, f"the name of {what} {quote(wanted[0])}")
    note = f"{scale} from {_shown(wanted, what)} (named by proba_columns)"
    if len(wanted) == 1:
        return Layout(scale, wanted, sure=sure, note=note)
    return Layout(scale, wanted, _strip(request, wanted) or wanted, sure, note=note)


def _by_vector_name(request: Request, names: Sequence[str], lists: Collection[str], what: str) -> Layout | None:
    """One column of vectors (or one array) called probs, probabilities, ..., or logits."""
    usable = [n for n in names if n in lists]
    name = _choose(request, _called(usable, PROBA_NAMES), _called(usable, LOGIT_NAMES), what)
    if name is None:
        return None
    scale, _ = settle(request, name_says(name), f"the name of {what} {quote(name)}")
    return Layout(scale, (name,), note=f"{scale} from {_shown([name], what)} (by its name)")


def _by_prefix(request: Request, names: Sequence[str]) -> Layout | None:
    """Two columns or more that share a prefix: prob_, p_, proba_, logit_, ..."""
    found = _families(names)
    wanted = {key: members for key, members in found.items() if request.told in (None, key[0])}
    if len(wanted) > 1:
        shown = " and ".join(listing(members, 2) for members in wanted.values())
        how = f"name the columns with {COLUMNS_OPTION}, or say {LOGITS_OPTION} or kind='probabilities'"
        raise failure(request.path, f"expected one family of prediction columns, found {shown}: {how}")
    if not wanted:
        for scale, prefix in found:  # the only family says the opposite of what the caller said
            settle(request, scale, f"the column prefix {quote(prefix)}")
        return None
    (scale, prefix), members = wanted.popitem()
    note = f"{scale} from {_shown(members, 'column')} (by the prefix {quote(prefix)})"
    return Layout(scale, tuple(members), _strip(request, members), note=note)


def _families(names: Sequence[str]) -> dict[tuple[Scale, str], list[str]]:
    families: dict[tuple[Scale, str], list[str]] = {}
    patterns: tuple[tuple[Scale, re.Pattern[str]], ...] = (("probabilities", _PROBA_PREFIX), ("logits", _LOGIT_PREFIX))
    for name in names:
        for scale, pattern in patterns:
            if match := pattern.fullmatch(name):
                families.setdefault((scale, match[1].lower()), []).append(name)
    return {key: members for key, members in families.items() if len(members) > 1}


def _by_scalar_name(request: Request, names: Sequence[str], numeric: Collection[str], what: str) -> Layout | None:
    """One number per row called prob, y_prob, ... or prob_1: the probability (or logit) of class 1 of two."""
    usable = [n for n in names if n in numeric]
    strong = [n for n in usable if n.lower() != WEAK_PROBA]
    if len(_plain(strong)) == 0:
        strong = usable  # p counts when nothing else could be a class
    probas = _called(strong, PROBA_NAMES) + [n for n in strong if _behind(_PROBA_PREFIX, n) == "1"]
    logits = _called(strong, LOGIT_NAMES) + [n for n in strong if _behind(_LOGIT_PREFIX, n) == "1"]
    name = _choose(request, probas, logits, what)
    if name is None:
        return None
    scale, _ = settle(request, name_says(name), f"the name of {what} {quote(name)}")
    return Layout(scale, (name,), note=f"{scale} of class 1 from {_shown([name], what)} (by its name)")


def _top_label(request: Request, names: Sequence[str], what: str) -> Layout | None:
    """(label, prediction, confidence) or (correct, confidence)."""
    confidence = _one_of(request, names, CONFIDENCE_NAMES, what)
    if request.proba_columns is not None:
        if len(request.proba_columns) != 1:
            raise failure(
                request.path, f"expected one confidence {what}, {COLUMNS_OPTION} names {listing(request.proba_columns)}"
            )
        confidence = _present(request, request.proba_columns[0], names, what)
    if confidence is None:
        return None
    correct, prediction = (_one_of(request, names, wanted, what) for wanted in (CORRECT_NAMES, PREDICTION_NAMES))
    if correct is None and prediction is None:
        wanted = f"{' or '.join(CORRECT_NAMES)}, or {', '.join(PREDICTION_NAMES)} with a label"
        raise failure(request.path, f"expected beside {quote(confidence)} a {what} {wanted}, found {listing(names)}")
    source = f"hits from {quote(correct)}" if correct is not None else f"predicted labels from {quote(prediction)}"
    note = f"confidence from {_shown([confidence], what)}, {source} (by their names): only confidence errors apply"
    prediction = None if correct is not None else prediction
    return Layout("top_label", prediction=prediction, confidence=confidence, correct=correct, note=note)


def _refuse_odd(request: Request, names: Sequence[str], odd: Mapping[str, str], what: str) -> Layout | None:
    """A column or key whose name says predictions and that holds none: nothing else may take its place unasked."""
    for name in _called(names, {*PROBA_NAMES, *LOGIT_NAMES} - {WEAK_PROBA}):
        if name in odd:
            wanted = "numbers, one per row or of shape (rows, classes),"
            raise failure(request.path, f"expected {wanted} in the {what} {quote(name)}, {odd[name]}")
    return None


def _only_vector(request: Request, names: Sequence[str], lists: Collection[str], what: str) -> Layout | None:
    """The only column of vectors (or the only matrix), whatever its name."""
    found = [n for n in names if n in lists]
    if not found:
        return None
    if len(found) > 1:
        raise _several_found(request, found, what)
    scale, sure = settle(request, name_says(found[0]), f"the name of {what} {quote(found[0])}")
    note = f"{scale} from {_shown(found, what)} (the only one with a vector per row)"
    return Layout(scale, (found[0],), sure=sure, note=note)


def _plain_classes(request: Request, names: Sequence[str], numeric: Collection[str]) -> Layout | None:
    """All numeric columns that are not labels, identifiers, weights or parts of a top-label file: one per class."""
    found = _plain([n for n in names if n in numeric])
    if len(found) < 2:
        return None
    scale, sure = settle(request, None, "")
    note = f"{scale} from {_shown(found, 'column')} (the numeric columns that are left, one per class)"
    return Layout(scale, found, found, sure, note=note)


def _plain(names: Sequence[str]) -> tuple[str, ...]:
    """The names that no other rule speaks of."""
    reserved = {*LABEL_NAMES, *ID_NAMES, *PREDICTION_NAMES, *CONFIDENCE_NAMES, *CORRECT_NAMES}
    return tuple(n for n in names if n.lower() not in reserved and not is_pandas_index(n))


def _none_found(request: Request, names: Sequence[str], what: str) -> Layout:
    wanted = f"predictions: a {what} called probs or logits, or columns such as prob_a, prob_b"
    if request.kind == "top_label":
        wanted = f"a confidence {what} ({', '.join(CONFIDENCE_NAMES)})"
    raise failure(request.path, f"expected {wanted}, found {listing(names)}: name them with {COLUMNS_OPTION}")


def _choose(request: Request, probas: list[str], logits: list[str], what: str) -> str | None:
    """One of the names that say probabilities or logits; between the two only the caller's word decides."""
    if probas and logits and request.told is None:
        both = listing([*probas, *logits])
        raise failure(
            request.path,
            f"expected probabilities or logits, found both ({both}): say {LOGITS_OPTION}, or name one with "
            f"{COLUMNS_OPTION}",
        )
    found = (logits or probas) if request.told == "logits" else (probas or logits)
    if len(found) > 1:
        raise _several_found(request, found, what)
    return found[0] if found else None


def _several_found(request: Request, found: Sequence[str], what: str) -> FileError:
    return failure(
        request.path, f"expected one {what} of predictions, found {listing(found)}: name one with {COLUMNS_OPTION}"
    )


def _one_of(request: Request, names: Sequence[str], wanted: tuple[str, ...], what: str) -> str | None:
    found = _called(names, wanted)
    if len(found) > 1:
        raise failure(request.path, f"expected one {what} of {', '.join(wanted)}, found {listing(found)}")
    return found[0] if found else None


def _called(names: Sequence[str], wanted: Collection[str]) -> list[str]:
    return [n for n in names if n.lower() in wanted]


def _behind(pattern: re.Pattern[str], name: str) -> str | None:
    """The class name behind a prefix."""
    match = pattern.fullmatch(name)
    return (match[2] or match[3]) if match else None


def _strip(request: Request, names: Sequence[str]) -> tuple[str, ...] | None:
    """The class names behind the prefixes, or None where a column has no prefix."""
    classes = [_behind(_PROBA_PREFIX, n) or _behind(_LOGIT_PREFIX, n) for n in names]
    known = tuple(c for c in classes if c is not None)
    if len(known) != len(names):
        return None
    check_names(request.path, known, "class")
    return known


def _shown(names: Sequence[str], what: str) -> str:
    return f"the {what} {quote(names[0])}" if len(names) == 1 else f"{len(names)} {what}s {listing(names, MOST_LISTED)}"
