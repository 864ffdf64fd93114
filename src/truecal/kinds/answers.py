"""Sampled answers as cluster numbers: which answers of a question are the same, and which of them is right."""

from __future__ import annotations

import functools
import math
import numbers
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from ..core.data import shown
from ..core.parameters import described
from ..core.types import Array

FEWEST = 4
"""Answers per question: each half needs two, so that its sampling variance can be taken off."""
_NUMBER = re.compile(r"([-+]?)[$€£]?([-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?(?:[eE][-+]?\d{1,3})?)(\s*%)?")
_CHOICE = re.compile(r"[\[(]?([a-z])[\])]?[.):]?")
_RIGHT: dict[str, bool] = {"true": True, "false": False, "1": True, "0": False, "c": True, "i": False}
"""Marks as texts: files spell them so, and inspect_ai writes C and I."""


@described("The answer as text.", answer="A text, a number or a truth value.")
def normalize_answer(answer: Any) -> str:
    """One spelling for the same answer: numbers, choices, and text without case, outer spaces and a final full stop.

    "42", "42.0", "$42" and 42 are "42"; "1,000" is "1000"; "(B)", "B." and "b" are "b". "50%" stays apart from "50".

    >>> import truecal as tc
    >>> [tc.language.normalize_answer(a) for a in ("42.0", "$42", "1,000", "(B)", "b.", " The  Nile. ", 7, True)]
    ['42', '42', '1000', 'b', 'b', 'the nile', '7', 'true']
    """
    text = " ".join(str(answer).casefold().split())
    found = _CHOICE.fullmatch(text)
    if found is not None:
        return found[1]
    bare = text.removesuffix(".")
    number = _NUMBER.fullmatch(bare)
    if number is not None and any(c.isdigit() for c in number[2]) and not (number[1] and number[2][0] in "-+"):
        value = Decimal(number[1] + number[2].replace(",", "")).normalize()
        return f"{value + 0:f}" + ("%" if number[3] else "")
    return bare.strip() or text


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of n questions as clusters, numbered through, question by question."""

    question: Array
    """(answers,) the question of each answer, 0..n−1, in order."""
    cluster: Array
    """(answers,) the cluster of each answer."""
    owner: Array
    """(clusters,) the question of each cluster, in order."""
    right: Array
    """(clusters,) whether its answer is right."""

    @property
    def n(self) -> int:
        return int(self.owner[-1]) + 1

    @property
    def sizes(self) -> Array:
        """How many answers each question has."""
        return np.bincount(self.question, minlength=self.n)

    @property
    def counts(self) -> Array:
        """How many answers each cluster has."""
        return np.bincount(self.cluster, minlength=len(self.owner))

    @property
    def rights(self) -> Array:
        """How many different answers of each question are right."""
        return np.bincount(self.owner, self.right, self.n).astype(np.intp)

    def take(self, keep: Array) -> Answers:
        """Some of the questions, chosen by truth values."""
        number, clusters = np.cumsum(keep) - 1, keep[self.owner]
        place, rows = np.cumsum(clusters) - 1, keep[self.question]
        return Answers(
            number[self.question[rows]],
            place[self.cluster[rows]],
            number[self.owner[clusters]],
            self.right[clusters],
        )


def read_answers(
    answers: Any, correct: Any = None, reference: Any = None, questions: Any = None, normalize: bool = True
) -> Answers:
    """Validate sampled answers: a list of answers per question, or one answer per row with the question of each row."""
    if (correct is None) == (reference is None):
        raise ValueError(
            "pass either correct, whether each answer is right, or reference, one right answer per question"
        )
    if len(_listed(answers, "answers")) == 0:
        raise ValueError("answers is empty: expected at least one question")
    names, given, marks, targets = _by_question(answers, correct, reference, questions)
    question: list[int] = []
    cluster: list[int] = []
    owner: list[int] = []
    right: list[bool] = []
    for q, (name, own) in enumerate(zip(names, given, strict=True)):
        keys = _keys(name, own, normalize)
        first = len(owner)
        number: dict[Any, int] = {}
        for key in keys:
            number.setdefault(key, first + len(number))
        if marks is not None:
            right += _marked(name, own, keys, list(number), marks[q])
        else:
            assert targets is not None
            wanted = _key(name, targets[q], normalize, "the reference of ")
            right += [key == wanted for key in number]
        owner += [q] * len(number)
        question += [q] * len(own)
        cluster += [number[key] for key in keys]
    return Answers(np.array(question), np.array(cluster), np.array(owner), np.array(right, dtype=bool))


def _by_question(
    answers: Any, correct: Any, reference: Any, questions: Any
) -> tuple[list[Any], list[list[Any]], list[list[Any]] | None, list[Any] | None]:
    """Names of the questions, their answers, and the marks or the references, one list per question."""
    rows = _listed(answers, "answers")
    nested = bool(rows) and not isinstance(rows[0], (str, bytes)) and hasattr(rows[0], "__len__")
    if nested:
        names = list(range(len(rows))) if questions is None else _listed(questions, "questions")
        _same_length(names, rows, "questions", "answers")
        seen: set[Any] = set()
        for name in names:
            if name in seen:
                raise ValueError(f"question {shown(name)} appears twice: put all of its answers into one list")
            seen.add(name)
        given = [_answers_of(name, own) for name, own in zip(names, rows, strict=True)]
        marks = None
        if correct is not None:
            column = _listed(correct, "correct")
            _same_length(column, rows, "correct", "answers")
            marks = [_marks_of(name, own) for name, own in zip(names, column, strict=True)]
        targets = None if reference is None else _references(reference, names)
        return names, given, marks, targets
    if questions is None:
        raise ValueError("answers must hold a list per question, or pass questions with the question of each row")
    ids = _listed(questions, "questions")
    _same_length(ids, rows, "questions", "answers")
    place: dict[Any, list[int]] = {}
    for row, name in enumerate(ids):
        if _is_missing(name):
            raise ValueError(f"row {row} has no question")
        place.setdefault(name, []).append(row)
    names = list(place)
    given = [[rows[row] for row in own] for own in place.values()]
    marks = None
    if correct is not None:
        column = _listed(correct, "correct")
        _same_length(column, rows, "correct", "answers")
        marks = [[column[row] for row in own] for own in place.values()]
    targets = None
    if reference is not None and not isinstance(reference, Mapping) and len(reference) == len(rows):
        column = _listed(reference, "reference")
        targets = [_one_reference(name, [column[row] for row in own]) for name, own in place.items()]
    elif reference is not None:
        targets = _references(reference, names)
    return names, given, marks, targets


def _one_reference(name: Any, column: list[Any]) -> Any:
    """The reference that all rows of a question have."""
    other = next((value for value in column if value != column[0]), column[0])
    if other is not column[0] and other != column[0]:
        raise ValueError(f"question {shown(name)} has two references: {shown(column[0])} and {shown(other)}")
    return column[0]


def _references(reference: Any, names: list[Any]) -> list[Any]:
    if isinstance(reference, Mapping):
        missing = next((name for name in names if name not in reference), None)
        if missing is not None:
            raise ValueError(f"question {shown(missing)} has no reference")
        return [reference[name] for name in names]
    found = _listed(reference, "reference")
    _same_length(found, names, "reference", "questions")
    return found


def _listed(values: Any, name: str) -> list[Any]:
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0:
        raise TypeError(f"{name} must be a list, got {shown(values)}")
    return values.tolist() if hasattr(values, "tolist") else list(values)


def _same_length(a: Sequence[Any], b: Sequence[Any], first: str, second: str) -> None:
    if len(a) != len(b):
        raise ValueError(f"{first} has {len(a)} entries and {second} {len(b)}: expected one each")


def _answers_of(name: Any, own: Any) -> list[Any]:
    if isinstance(own, (str, bytes, Mapping)) or not hasattr(own, "__len__"):
        raise ValueError(f"question {shown(name)}: expected a list of answers, got {shown(own)}")
    return own.tolist() if hasattr(own, "tolist") else list(own)


def _marks_of(name: Any, own: Any) -> list[Any]:
    if isinstance(own, (str, bytes, Mapping)) or not hasattr(own, "__len__"):
        raise ValueError(f"question {shown(name)}: correct must hold a mark per answer, got {shown(own)}")
    return list(own)


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, numbers.Real) and math.isnan(value))


def _keys(name: Any, own: list[Any], normalize: bool) -> list[Any]:
    """What tells the answers of a question apart."""
    keys = [_key(name, answer, normalize, f"answer {i + 1} of ") for i, answer in enumerate(own)]
    if len(own) < FEWEST:
        few = "1 answer" if len(own) == 1 else f"{len(own)} answers"
        raise ValueError(f"question {shown(name)} has {few}: sample each question at least {FEWEST} times")
    text = next((answer for answer in own if isinstance(answer, str)), None)
    other = next((answer for answer in own if not isinstance(answer, str)), None)
    if text is not None and other is not None:
        raise ValueError(
            f"question {shown(name)} mixes text and numbers, {shown(text)} and {shown(other)}: pass answers as text, "
            "or a cluster number for each"
        )
    return keys


def _key(name: Any, answer: Any, normalize: bool, which: str) -> Any:
    if _is_missing(answer) or (isinstance(answer, str) and not answer.strip()):
        raise ValueError(f"{which}question {shown(name)} is missing: replace it with a text such as 'no answer'")
    if not isinstance(answer, (str, numbers.Real)):
        raise ValueError(f"{which}question {shown(name)} must be a text or a number, got {shown(answer)}")
    plain: Any = answer  # text and numbers can be looked up
    return _normalized(plain) if normalize else plain


@functools.lru_cache(maxsize=1 << 16, typed=True)
def _normalized(answer: Any) -> str:
    return normalize_answer(answer)


def read_mark(value: Any) -> bool | None:
    """Whether a mark means right: true or false, 1 or 0, also as text, or C or I; None for anything else."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, str):
        return _RIGHT.get(value.strip().casefold())
    return bool(value) if isinstance(value, numbers.Real) and value in (0, 1) else None


def _marked(name: Any, own: list[Any], keys: list[Any], different: list[Any], marks: list[Any]) -> list[bool]:
    """Whether each of the different answers is right; the same answer cannot be both."""
    if len(marks) != len(own):
        raise ValueError(f"question {shown(name)} has {len(own)} answers and {len(marks)} marks in correct")
    found: dict[Any, bool] = {}
    for i, (key, mark) in enumerate(zip(keys, marks, strict=True)):
        right = read_mark(mark)
        if right is None:
            where = f"answer {i + 1} of question {shown(name)}"
            raise ValueError(f"{where}: correct must be true or false, got {shown(mark)}")
        if found.setdefault(key, right) != right:
            raise ValueError(
                f"question {shown(name)}: the answer {shown(own[i])} is marked right and wrong; mark equal answers "
                "alike, or give different answers different texts or cluster numbers"
            )
    return [found[key] for key in different]
