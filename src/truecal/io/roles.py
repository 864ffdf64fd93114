"""The role of each column or key of a file, by one table of names and by values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

Scale = Literal["probabilities", "logits"]
NUMBER, WHOLE, VECTOR = "a number per row", "a whole number per row", "a vector per row"
Forms = Mapping[str, str]
"""What each column or key holds: NUMBER, WHOLE, VECTOR, or words for anything else."""

_CALLED = {
    "truth": "y_true true_label true_class true_y actual actuals actual_label actual_class actual_value actual_outcome "
    "actual_result expected_label expected_class truth ground_truth gold gold_label real_label y_actual y_test "
    "real_class",
    "label": "label labels target targets",
    "weak label": "y outcome class obs observed observation expected answer category result reference response "
    "key event species real true gt winner won win winflag",
    "prediction": "prediction predictions pred preds predict predicted predicted_label pred_label label_pred y_pred "
    "y_hat yhat predicted_class pred_class class_pred prediction_label scored_labels predicted_value predicted_y "
    "decision prediction_class y_predicted model_prediction em_classification "
    "top1_class top1_label top1_prediction top1",
    "confidence": "confidence conf max_prob top_prob max_probability prediction_score prediction_confidence "
    "pred_confidence confidence_score prediction_probability top1_prob top1_score top1_probability top1_confidence "
    "max_proba model_confidence em_probability",
    "correct": "correct is_correct hit is_hit",
    "classes": "classes class_names",
    "samples": "answers answer samples responses response completions completion generations",
    "id": "id ids index idx row rowid sample_id doc_id row_index inst",
    "weight": "weight weights sample_weight sample_weights w case_weight",
    "model": "model model_name classifier algorithm estimator method model_id",
    "split": "split fold folds cv_fold dataset_split subset usage partition resample version "
    "model model_name classifier algorithm estimator method",
    "class": "class class_name class_id category candidate choice option outcome output_type_id",
    "mark": "correct is_correct is_true is_label is_target actual",
    "question": "question_id question qid id doc_id example_id problem_id task_id",
    "reference": "reference target gold label truth solution expected",
    "repeat": "sample sample_id sample_index epoch repeat trial attempt",
    "observed": "y_true true_label truth ground_truth gold label labels target targets outcome actual observed "
    "observation obs value",
    "mean": "mean mu loc forecast_mean pred_mean y_mean predicted_mean",
    "measure": "accuracy acc auc roc_auc auroc auprc f1 f1_score precision recall logloss log_loss brier brier_score "
    "ece mcc kappa balanced_accuracy specificity sensitivity support rmse mae mse r2 loss val_loss val_accuracy",
    "box": "bbox box boxes xmin ymin xmax ymax x1 y1 x2 y2 x_min y_min x_max y_max iou",
    "time": "time duration survival_time time_to_event ttcancer os_time days months os_months followup follow_up t",
    "event": "event status censored dead death died os_status event_observed",
    "output type": "output_type type",
    "level": "output_type_id quantile",
    "hub value": "value",
    "sd": "std sd sigma scale stddev stdev std_dev pred_std y_std forecast_std",
}
ROLES = {role: tuple(names.split()) for role, names in _CALLED.items()}
"""What the columns of a role are called, compared without case, spaces and punctuation."""


_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")


def key_of(name: str) -> str:
    """A name without case, spaces and punctuation; a number stays one.

    >>> from truecal.io.roles import key_of
    >>> key_of("True Label") == key_of("trueLabel") == key_of("true_label")
    True
    """
    text = name.strip()
    if _NUMBER.fullmatch(text):
        return re.sub(r"\.0*$", "", text.removeprefix("+"))
    return re.sub(r"[\W_]+", "", text).casefold() or name


_KEYS = {role: frozenset(map(key_of, names)) for role, names in ROLES.items()}


_OF_A_PART = re.compile(r"(?:all|test|val|valid|validation|train|dev|eval)[_. ]+(?=..)", re.IGNORECASE)


def is_called(name: str, *roles: str) -> bool:
    """Whether a name, or what follows test_ or all_ in it, is one of those of some roles."""
    keys = {key_of(name), key_of(_OF_A_PART.sub("", name, count=1))}
    return any(keys & _KEYS[role] for role in roles)


_OUTCOME_WORDS = (
    "won win winner winflag outcome result actual truth true label target observed happened occurred correct"
)
_OUTCOMES = frozenset(_OUTCOME_WORDS.split())


def tells_outcome(name: str) -> bool:
    """Whether a word of a name says that something came true, as in favorite_win_flag and Awin."""
    words = [token[0].lower() for token in _TOKEN.finditer(name)]
    return any(word in _OUTCOMES or word.endswith(("win", "won", "outcome", "label", "target")) for word in words)


def called(names: Iterable[str], *roles: str) -> list[str]:
    """Those of some names that a role has."""
    return [name for name in names if is_called(name, *roles)]


def first_called(names: Iterable[str], role: str) -> str | None:
    """The name that comes first in the list of a role."""
    known = {key_of(name): name for name in sorted(names, reverse=True)}
    return next((known[key_of(name)] for name in ROLES[role] if key_of(name) in known), None)


def is_pandas_index(name: str) -> bool:
    return name == "" or name.startswith(("__index_level_", "Unnamed: "))


_ID_NAME = re.compile(
    r"(.*[_\W])?(ids?|idx|index|uuid|guid|row|rowid|sampleid)|.*[a-z](Id|ID)|inst#"
    r"|(.*[_\W])?(file|image|img)([_ -]?(name|path))?|filename|filepath|path|url"
    r"|(.*[_\W])?(date|time|datetime|timestamp)"
)


def is_identifier(name: str) -> bool:
    """Whether a column identifies rows by its name.

    >>> from truecal.io.roles import is_identifier
    >>> [name for name in ("id", "PassengerId", "image_id", "Unnamed: 0", "paid", "weight") if is_identifier(name)]
    ['id', 'PassengerId', 'image_id', 'Unnamed: 0']
    """
    return is_pandas_index(name) or any(_ID_NAME.fullmatch(text) for text in (name, name.lower()))


# -- names of predictions ----------------------------------------------------------------------------------------------

_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+(?:\.[0-9]+)?|[^\W\d_]+")
_PROBA = re.compile(
    r"(?:prob|proba|probability|probabilitie|prop?abilitie|chance|likelihood|phat|propensity|propensitie)s?"
)
_GLUED = re.compile(r"(prob)(?!lem|e|ab|ation|it)([a-z]+)|([a-z]+)(prob|proba|probability)")
_LOGIT = frozenset({"logit", "logits", "logprob", "logprobs", "logproba", "rawformulaval"})
_SCORE = frozenset({"score", "scores"})
_WEAK = frozenset({"prediction", "predictions", "predicted", "pred", "preds", "predict", "confidence", "conf", "oof"})
_NOISE_WORDS = (
    "y yhat hat pred preds predict predicted prediction predictions model test val valid validation train oof "
    "final calibrated cal raw est estimated mean avg average ensemble scored class classes for of the positive "
    "pos out uncalibrated dev label labels blend stacked stack event"
)
_NOISE = frozenset(_NOISE_WORDS.split())
_NOT_P = frozenset({"value", "val", "values", "adj", "id"})
_BEFORE_P = frozenset({"oof", "cv", "test", "val", "pred"})
_P = re.compile(r"[.$]?([a-z]+[_. ])?p(?!-)", re.IGNORECASE)
_SPREADS = frozenset(
    ["std", "sd", "var", "variance", "se", "stderr", "lo", "hi", "lower", "upper", "entropy", "uncertainty", "rank"]
)
Said = Literal["probabilities", "logits", "score", "weak"]


class Meaning(NamedTuple):
    """The meaning of a column name for predictions: kind of numbers, the word that names it, and the rest."""

    said: Said
    word: str
    rest: str  # the class, or whatever else the name holds beside the word; "" where there is nothing
    family: tuple[str, ...]  # the same for columns that differ by the class alone
    log: bool = False  # logarithms of probabilities

    @property
    def scale(self) -> Scale | None:
        return self.said if self.said in ("probabilities", "logits") else None


_SPSS = ((re.compile(r"\$[A-Z]{1,2}[PC]-(.+)"), "after"), (re.compile(r"PRE_[0-9]+"), "alone"))
_DECIDED = re.compile(r"\$[A-Z]{1,2}-.+|PGR_[0-9]+|top[ _]?1[ _]?(class|label|prediction)", re.IGNORECASE)
_RANKED = re.compile(r"(top|rank)[ _]?[0-9]+", re.IGNORECASE)


def meaning(name: str) -> Meaning | None:
    """The kind of numbers that a name means, None for other names.

    >>> from truecal.io.roles import meaning
    >>> [meaning(name).rest for name in ("prob_cat", "P (Species=setosa)", "home_win_prob", "y_prob")]
    ['cat', 'Species=setosa', 'home_win', '']
    """
    for pattern, where in _SPSS:
        if (match := pattern.fullmatch(name)) is not None:
            return Meaning("probabilities", "lp", match[1] if where == "after" else "", ("probabilities", where, "lp"))
    found = [(match[0].lower(), *match.span()) for match in _TOKEN.finditer(name)]
    words = [word for word, _, _ in found]
    place = None if words[-1:] and words[-1] in _SPREADS else _word(words, name)
    if place is None:
        return None
    first, last, said = place
    start, end = found[first][1], found[last][2]
    glued = _GLUED.fullmatch(words[first]) if said == "probabilities" and not _PROBA.fullmatch(words[first]) else None
    if glued is not None:
        length = len(glued[1] or glued[4])
        start, end = (start, start + length) if glued[1] else (end - length, end)
    word = name[start:end].lower()
    before, after = name[:start].strip(_MARKS), name[end:].strip(_MARKS)
    after = f"-{after}" if _SIGNED.fullmatch(name[end:].rstrip(_MARKS)) else after
    inner = [w for w in words[:first] if w not in _NOISE] if glued is None or glued[1] else [before]
    after = _without_noise(after)
    log = "log" in word and "prob" in word
    if after:
        return Meaning(said, name[:end].strip(_MARKS).lower(), after, (said, "after", *inner, word), log)
    if not any(inner):
        return Meaning(said, word, "", (said, "alone", word), log)
    return None if _RANKED.fullmatch(before) else Meaning(said, word, before, (said, "before", word), log)


_SIGNED = re.compile(r"[ _.:(=\[]+-[0-9]+")  # the class -1 of p_-1
_MARKS = " _.:()[]{}='\"-/|$"


def _word(words: Sequence[str], name: str) -> tuple[int, int, Said] | None:
    """Where the word is that says what the numbers are: its first and last token, and what it says."""
    for i, word in enumerate(words):
        if word in _LOGIT or "".join(words[i : i + 3]) == "rawformulaval":
            return i, i + (0 if word in _LOGIT else 2), "logits"
        if word == "log" and i + 1 < len(words) and _PROBA.fullmatch(words[i + 1]):
            return i, i + 1, "logits"
    for i, word in reversed(list(enumerate(words))):
        if _PROBA.fullmatch(word):
            return i, i, "probabilities"
    first = next((i for i, word in enumerate(words) if word not in _BEFORE_P), 0)
    if words[first : first + 1] == ["p"] and _P.match(name) and not set(words[first + 1 :]) & _NOT_P:
        return first, first, "probabilities"
    for i, word in enumerate(words):
        if _GLUED.fullmatch(word):
            return i, i, "probabilities"
    for i, word in enumerate(words):
        if word in _SCORE:
            return i, i, "score"
    weak = [i for i, word in enumerate(words) if word in _WEAK]
    return (weak[-1], weak[-1], "weak") if weak else None


def _without_noise(after: str) -> str:
    """The class behind a word: 'for Class "0"' is 0, 'class_a' is a, 'pred' is nothing."""
    tokens = list(_TOKEN.finditer(after))
    kept = next((i for i, token in enumerate(tokens) if token[0].lower() not in _NOISE), None)
    if kept is None:
        return "" if any(token[0].lower() not in ("class", "pos", "positive") for token in tokens) else after
    return after[tokens[kept].start() :] if kept else after


_MODEL_WORDS = "y yhat pred preds predict predicted prediction predictions model oof classifier clf"
_OF_A_MODEL = frozenset(_MODEL_WORDS.split())


_KINDS_OF_MODELS = (
    "model lr rf xgb xgboost lgb lgbm lightgbm catboost svm svc knn nb dt gb gbm mlp nn ann dnn cnn rnn lstm gru bert",
    "roberta distilbert electra gnn gcn gat vit resnet logistic regression linear forest tree random gradient boosting",
    "boost adaboost bayes naive ridge lasso ensemble blend blending stack stacking stacked meta fusion voting raw cal",
    "calibrated uncalibrated platt isotonic std tta base baseline elo glm logit bagging transformer",
)
_MODELS = frozenset(" ".join(_KINDS_OF_MODELS).split())


def says_model(name: str) -> bool:
    """Whether a word of a name is a kind of model, or a step that makes one of another."""
    return any(token[0].lower() in _MODELS for token in _TOKEN.finditer(name))


def says_prediction(name: str) -> bool:
    """Whether a word of a name says that a model gave the numbers, as in y_score and predicted_score."""
    return any(token[0].lower() in _OF_A_MODEL for token in _TOKEN.finditer(name))


def is_percent(name: str) -> bool:
    """Whether a name says percentages, as in Confidence (%) and prob_pct."""
    return "%" in name or any(token[0].lower() in ("pct", "percent", "percentage") for token in _TOKEN.finditer(name))


def is_decided(name: str) -> bool:
    """Whether a tool calls the classes that it predicts so."""
    return _DECIDED.fullmatch(name) is not None


def scale_of(name: str) -> Scale | None:
    """Whether a name says probabilities or logits."""
    found = meaning(name)
    return None if found is None else found.scale


def stripped(names: Sequence[str]) -> tuple[str, ...]:
    """Names without the words that all of them begin or end with: P_BAD0 and P_BAD1 are of 0 and 1.

    >>> from truecal.io.roles import stripped
    >>> stripped(["Democrat_Win", "Republican_Win"]), stripped(["Species=a", "Species=b"])
    (('Democrat', 'Republican'), ('a', 'b'))
    """
    tokens = [list(_TOKEN.finditer(name)) for name in names]
    words = [[token[0].lower() for token in each] for each in tokens]
    shortest = min(map(len, words), default=0)
    if len(names) < 2 or not shortest:
        return tuple(names)
    front = _shared(words, shortest - 1)
    back = _shared([each[::-1] for each in words], shortest - 1 - front)
    ends = [each[len(each) - 1 - back].end() for each in tokens]
    found = tuple(n[t[front].start() : end] for n, t, end in zip(names, tokens, ends, strict=True))
    return found if len({key_of(name) for name in found}) == len(names) else tuple(names)


def _shared(words: Sequence[Sequence[str]], most: int) -> int:
    same = itertools.takewhile(lambda each: len(set(each)) == 1, zip(*words, strict=False))
    return min(most, sum(1 for _ in same))


POSITIVE = frozenset({"1", "1.0", "+1", "true", "t", "yes", "y", "pos", "positive", "won", "win"})
NEGATIVE = frozenset({"0", "0.0", "-1", "-1.0", "false", "f", "no", "n", "neg", "negative", "lost", "loss", "lose"})


def poles(values: Sequence[str]) -> list[bool | None]:
    """The polarity of each value; of two such as toxic and non-toxic, or GON+ and GON-, the former is positive."""
    found = [polarity(value) for value in values]
    if len(values) == 2 and None in found:
        for one, other in (values, values[::-1]):
            opposite = {f"{prefix}{key_of(one)}" for prefix in ("non", "not", "no")}
            if key_of(other) in opposite or (one[-1:] == "+" and other == f"{one[:-1]}-"):
                return [value == one for value in values]
    return found


def polarity(value: object) -> bool | None:
    """True of 1, yes, true and positive, False of 0, -1, no, false and negative, None of other values."""
    text = str(value).strip().casefold()
    return True if text in POSITIVE else False if text in NEGATIVE else None


# -- values ------------------------------------------------------------------------------------------------------------

MOST_DISTINCT = 1000
SUMS_TO_ONE = 0.015
FEWEST_DECIDED = 10
"""Fewer rows may lie on the sides of a threshold by chance."""


@dataclass(frozen=True)
class Facts:
    """What the first rows of a column hold."""

    rows: int
    missing: int
    distinct: frozenset[str]
    numbers: Any  # array, where all that is there are numbers, else None

    @property
    def in_unit(self) -> bool:
        """Whether all are numbers between 0 and 1."""
        return self.numbers is not None and bool(((self.numbers >= 0) & (self.numbers <= 1)).all())

    @property
    def whole(self) -> bool:
        return self.numbers is not None and bool((self.numbers == np.floor(self.numbers)).all())

    @property
    def are_names(self) -> bool:
        """Whether it holds text that is not yes and no, or true and false."""
        return self.numbers is None and any(polarity(value) is None for value in self.distinct)

    @property
    def is_fraction(self) -> bool:
        """Whether it may be a probability: between 0 and 1, and not only 0 and 1."""
        return self.in_unit and not self.whole

    @property
    def may_be_label(self) -> bool:
        """Whether it has few values that repeat, none of them a fraction."""
        few = 0 < len(self.distinct) <= max(2, min(MOST_DISTINCT, self.rows // 2))
        return few and (self.numbers is None or self.whole)


def facts_of(values: Sequence[Any]) -> Facts:
    """What some values of a column are."""
    there = [v for v in values if v is not None and v == v and str(v).strip() != ""]
    numbers = None
    if there and not any(isinstance(v, (bool, list, dict, tuple, bytes)) for v in there):
        try:
            numbers = np.array([float(v) for v in there])
            numbers = numbers if np.isfinite(numbers).all() else None
        except (ValueError, TypeError):
            numbers = None
    distinct = frozenset(itertools.islice({str(v).strip(): None for v in there}, MOST_DISTINCT + 1))
    return Facts(len(values), len(values) - len(there), distinct, numbers)


Peek = Callable[[Sequence[str]], "Mapping[str, Sequence[Any]] | None"]
"""Reads the first rows of some columns; None where that would cost too much."""


def above(numbers: Any, values: Sequence[Any]) -> str | None:
    """The value of two that comes where numbers are above a threshold: a decision made from the numbers."""
    texts = np.array([str(value) for value in values])
    if len(numbers) != len(texts) or len(numbers) < FEWEST_DECIDED or len(distinct := np.unique(texts)) != 2:
        return None
    own = [numbers[texts == value] for value in distinct]
    low, high = sorted((p.min(), p.max(), str(value)) for p, value in zip(own, distinct, strict=True))
    return high[2] if low[1] < high[0] else None


def peeked(peek: Peek | None, names: Sequence[str]) -> dict[str, Facts]:
    """What the first rows of some columns hold, as far as that can be read."""
    found = None if peek is None or not names else peek(names)
    return {} if found is None else {name: facts_of(values) for name, values in found.items()}


def sum_to_one(facts: Mapping[str, Facts], names: Sequence[str]) -> bool:
    """Whether some columns of numbers in [0, 1] sum to 1 in all rows that were looked at."""
    tables = [facts[name].numbers for name in names if name in facts and facts[name].in_unit]
    if len(tables) != len(names) or len(names) < 2 or len({len(t) for t in tables}) > 1 or not len(tables[0]):
        return False
    return bool((abs(np.sum(tables, axis=0) - 1) <= max(SUMS_TO_ONE, 0.006 * len(names))).all())


def class_of(values: Collection[str], names: Sequence[str]) -> dict[str, str]:
    """The class whose name begins or ends with each value, as buff_dir with buff; no class is of two values."""
    keys = {name: key_of(short) for name, short in zip(names, stripped(names), strict=True)}
    found = {v: [n for n, key in keys.items() if key.startswith(key_of(v)) or key.endswith(key_of(v))] for v in values}
    one = {
        value: near[0] for value, near in found.items() if len(near) == 1 and (len(names) > 2 or len(key_of(value)) > 2)
    }
    return one if len(set(one.values())) == len(one) else {}


def matches(values: Collection[str], names: Sequence[str]) -> bool:
    """Whether all of some values are names of classes, or have the opposite meanings of two names."""
    known = {key_of(name) for name in (*names, *stripped(names))}
    if values and all(key_of(value) in known for value in values):
        return True
    if values and len(class_of(values, names)) == len(set(values)) == len(names):
        return True
    poles = {polarity(name) for name in stripped(names)}
    return bool(values) and poles == {True, False} and all(polarity(v) is not None for v in values)
