"""Confidence that is stated in text: "85%", "0.85", "85 / 100", "Confidence: 85", "almost certain"."""

from __future__ import annotations

import math
import numbers
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.data import shown
from ..core.parameters import described
from ..core.result import Result
from ..core.types import Array

WORDS: dict[str, float] = {
    "certain": 0.99,
    "absolutely certain": 0.99,
    "almost certain": 0.95,
    "nearly certain": 0.95,
    "very high": 0.95,
    "highly likely": 0.9,
    "very likely": 0.9,
    "very confident": 0.9,
    "high": 0.85,
    "confident": 0.8,
    "very good chance": 0.8,
    "likely": 0.7,
    "probable": 0.7,
    "probably": 0.7,
    "somewhat likely": 0.6,
    "better than even": 0.6,
    "more likely than not": 0.6,
    "medium": 0.6,
    "moderate": 0.6,
    "about even": 0.5,
    "even chance": 0.5,
    "toss-up": 0.5,
    "coin flip": 0.5,
    "coin toss": 0.5,
    "somewhat unlikely": 0.4,
    "low": 0.3,
    "unlikely": 0.2,
    "improbable": 0.2,
    "very low": 0.1,
    "very unlikely": 0.1,
    "highly unlikely": 0.1,
    "almost no chance": 0.05,
    "almost impossible": 0.05,
    "impossible": 0.01,
}
"""What words of confidence mean, as Kent's words of estimative probability and later surveys of readers have them."""

_UNIT = r"(?:\d+(?:\.\d+)?|\.\d+)"
_NUMBER = rf"(?<![\w.,/])(?<!\d[-–])(?P<number>[-−]?{_UNIT}(?:e[-+]?\d+)?)"
_IN = r"in\s+(?=(?:[2-9]|1[02]|20|50|1000?)\b)"
_OF = rf"(?:\s*(?P<percent>%)(?P<range>≈)?|\s*(?:(?:/|out of)\s*|{_IN})(?P<whole>\d+(?:\.\d+)?))"
_WORD = r"\b(?:confidence|probability|certainty|likelihood|chance)\b[^\d.]{0,30}?"
_KEY = re.compile(_WORD + _NUMBER + _OF + "?")
_KEYED = re.compile(_WORD + "$")
_SCALED = re.compile(_NUMBER + _OF)
_WHOLE = re.compile(r"\s*~?" + _NUMBER + _OF + r"?\s*\.?\s*")
_DECIMAL = re.compile(r"(?<![\w.,/−-])(?P<number>0?\.\d+|1\.0+)(?![\w%/])")
_SCALE = re.compile(r"[\[(]?\b0(?:\.0)?\s*%?\s*(?:-|–|to)\s*(?:1(?:\.0)?|100)\b\s*%?[\])]?")
_NOT = re.compile(r"\b(?:not|n't|never)\s+(?:\w+\s+)?$")
_ANSWER = re.compile(rf"\b(?:answer|result)\s*(?:is|was|:|=)?\s*{_UNIT}\s*%")
_PERCENT = re.compile(r"(?:(?<=\d)|\b)(?:per\s?cent|pct)\b\.?")
_COMMA = re.compile(r"(?<![\d.,])(?:(0),(\d+)(?![\d,])|(\d{1,2}),(\d{1,2})(?=\s*%))")
_SPAN = re.compile(
    rf"(?<![\w.,/])(?P<between>between\s+)?(?P<a>{_UNIT})\s*(?P<unit>%)?\s*(?:-|–|—|to\b|and\b)\s*"
    rf"(?P<b>{_UNIT})(?![\d.]*\d)"
    r"(?:\s*(?P<percent>%)|\s*(?:/|out of)\s*(?P<whole>\d+))?"
)
_BOUND = re.compile(
    r"(?<!just )(?<!slightly )(?<!\w)(?:(?P<below>less than|under|below|at most|no more than|<=?|≤)"
    rf"|more than|over|above|at least|no less than|>=?|≥)\s*(?P<a>{_UNIT})(?P<unit>\s*%)?"
)
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SPELLED = {word: i for i, word in enumerate(_ONES.split())} | {"hundred": 100, "one hundred": 100, "a hundred": 100}
_SPELLED |= {
    f"{tens}{'-' * bool(i)}{one}": 10 * j + i
    for j, tens in enumerate(_TENS.split(), 2)
    for i, one in enumerate(["", *_ONES.split()[1:10]])
}
_ANY = "|".join(word.replace("-", r"[\s-]") for word in sorted(_SPELLED, key=len, reverse=True))
_MORE = re.compile(rf"\b(?:(?:one|a)\s)?hundred\s(?:and\s)?(?P<rest>{_ANY})\b")
_IN_WORDS = re.compile(
    rf"\b(?P<a>{_ANY}|\d+)\s+(?P<of>out of|in)\s+(?P<b>{_ANY}|\d+)\b"
    rf"|\b(?P<alone>{_ANY})(?=\s*(?:%|\.?\s*$|(?:to|-|–|and)\s*(?:{_ANY})\s*%))"
)
_PARTS = re.compile(r"\b(one|two|three)[\s-](third|quarter)s?\b")
_EVEN = re.compile(r"\b(?:fifty|50)\s*[-/–]\s*(?:fifty|50)\b")


@final
@dataclass(frozen=True, repr=False, eq=False)
class Stated(Result):
    """Stated confidences as probabilities; rows without one are NaN, and are counted, never dropped."""

    values: Array
    missing: tuple[int, ...]
    """The rows that state none."""
    ranges: tuple[int, ...] = ()
    """The rows that state a range, such as "80-90%", which counts as its middle."""
    scale: str = ""
    """How numbers without a unit are read, "percentages" or "probabilities", where there are any."""

    @property
    def found(self) -> Array:
        """Which rows state a confidence."""
        return ~np.isnan(self.values)

    @property
    def share_missing(self) -> float:
        return len(self.missing) / len(self.values)

    @property
    def missing_text(self) -> str:
        """How many rows state no confidence."""
        return f"{len(self.missing)} of {len(self.values)} rows ({self.share_missing:.1%}) state no confidence"

    @property
    def reading(self) -> tuple[str, ...]:
        """How many rows state a range, and how numbers without a unit are read."""
        n = len(self.ranges)
        said = [f"{n} of {len(self.values)} rows state a range, which counts as its middle"] if n else []
        return (*said, *([f"numbers without a unit are {self.scale}"] if self.scale else []))

    @property
    def text(self) -> str:
        """How many rows state no confidence, and how the others are read."""
        return "; ".join([*([self.missing_text] if self.missing else []), *self.reading])

    def __repr__(self) -> str:
        more = "".join(f"; {said}" for said in self.reading)
        if not self.missing:
            return f"{len(self.values)} stated confidences, mean {float(self.values.mean()):.3f}{more}"
        some = ", ".join(map(str, self.missing[:5])) + (", ..." if len(self.missing) > 5 else "")
        mean = "" if not self.found.any() else f"; mean of the others {float(np.nanmean(self.values)):.3f}"
        return f"{self.missing_text}: row {some}{mean}{more}"


@described(
    "A Stated, with one value per row, NaN where a row states none.",
    texts="What the model said, one text per row; numbers are taken as they are.",
    words="What words mean, instead of the table in `truecal.language.WORDS`.",
)
def stated_confidence(texts: Any, *, words: Mapping[str, float] | None = None) -> Stated:
    """Read confidences from text: percentages, probabilities, fractions, a number after "confidence", or words.

    A number after a word such as "confidence" comes first, then a text that is a number, then "85%", "85/100" or "nine
    out of ten", then a decimal such as 0.85 or 0,85, then the longest phrase of the table of words; the last one in the
    text counts. A range such as "80-90%" or "less than 10%" is its middle, and is counted. Numbers outside [0, 1] state
    none. Numbers without a unit have one scale in all rows: where one is 2 or more they are percentages, but for
    decimals up to 1; else they are probabilities. Phrases after "not" are not read.

    >>> import truecal as tc
    >>> said = ["85%", "0.85", "Confidence: 85", "I give it 17/20.", "It is almost certain.", "I refuse."]
    >>> found = tc.language.stated_confidence(said)
    >>> found.values.tolist()
    [0.85, 0.85, 0.85, 0.85, 0.95, nan]
    >>> found
    1 of 6 rows (16.7%) state no confidence: row 5; mean of the others 0.870; numbers without a unit are percentages
    """
    if isinstance(texts, (str, bytes)) or not hasattr(texts, "__len__"):
        raise TypeError(f"texts must be a list, one per row, got {shown(texts)}")
    rows = texts.tolist() if hasattr(texts, "tolist") else list(texts)
    if not rows:
        raise ValueError("texts is empty: expected one per row")
    table = _table(words)
    read = [_read(row, text, table) for row, text in enumerate(rows)]
    bare = [value for value, unit, _ in read if not unit]
    percent = any(2 <= value <= 100 for value in bare)
    values = np.array([_scaled(value, not unit and percent) for value, unit, _ in read])
    missing = tuple(np.flatnonzero(np.isnan(values)).tolist())
    ranges = tuple(row for row, (_, _, range_) in enumerate(read) if range_)
    return Stated(values, missing, ranges, "" if not bare else "percentages" if percent else "probabilities")


def _scaled(value: float, percent: bool) -> float:
    """A probability, NaN for a number that is none."""
    value = value / 100 if percent else value
    return value if 0 <= value <= 1 else math.nan


def _table(words: Mapping[str, float] | None) -> list[tuple[re.Pattern[str], float]]:
    """Phrases as patterns, longest first."""
    given = WORDS if words is None else words
    found = []
    for phrase in sorted(given, key=len, reverse=True):
        value = given[phrase]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise ValueError(f"words must map phrases to probabilities, got {shown(value)} for {shown(phrase)}")
        pattern = r"\s+".join(map(re.escape, phrase.split()))
        found.append((re.compile(rf"(?<![\w-]){pattern.lower()}(?![\w-])"), float(value)))
    return found


_Read = tuple[float, bool, bool]
"""A number, whether it has a unit, and whether it is the middle of a range."""


def _read(row: int, text: Any, words: list[tuple[re.Pattern[str], float]]) -> _Read:
    """What a row states."""
    if text is None:
        return math.nan, True, False
    if isinstance(text, numbers.Real) and not isinstance(text, bool):
        return float(text), isinstance(text, float) and text <= 1, False
    if not isinstance(text, str):
        raise TypeError(f"texts must be text or numbers, got {shown(text)} at row {row}")
    text = _spelled(unicodedata.normalize("NFKC", text).lower())
    without = _ANSWER.sub(" ", text)  # "the answer is 50%" is no confidence, where the text states one
    found = _stated(without, words)
    return _stated(text, words) if math.isnan(found[0]) and without != text else found


def _stated(text: str, words: list[tuple[re.Pattern[str], float]]) -> _Read:
    """The number that comes first by its kind and last in the text."""
    for match in (_last(_KEY, text), _WHOLE.fullmatch(text), _last(_SCALED, text), _last(_DECIMAL, text)):
        if match is not None:
            return _value(match)
    best: tuple[int, int, float] | None = None
    taken: list[tuple[int, int]] = []
    for pattern, value in words:
        for match in pattern.finditer(text):
            start, end = match.span()
            if any(a < end and start < b for a, b in taken):
                continue  # a part of a longer phrase
            taken.append((start, end))
            if not _NOT.search(text[:start]) and (best is None or start > best[0]):
                best = (start, end, value)
    return (math.nan if best is None else best[2]), True, False


def _spelled(text: str) -> str:
    """Text whose numbers are digits, whose percentages end in %, and whose ranges are their middle, marked by ≈."""

    def digits(match: re.Match[str]) -> str:
        if match["alone"]:
            return _of_words(match["alone"])
        return f"{_of_words(match['a'])} {match['of']} {_of_words(match['b'])}"

    text = _EVEN.sub("50%", _PERCENT.sub("%", text))
    text = _MORE.sub(lambda match: f"1{int(_of_words(match['rest'])):02}", text)
    text = _IN_WORDS.sub(digits, text)
    text = _PARTS.sub(lambda m: f"{100 * _SPELLED[m[1]] / {'third': 3, 'quarter': 4}[m[2]]:.9g}%", text)
    text = _COMMA.sub(lambda m: f"{m[1] or m[3]}.{m[2] or m[4]}", text)
    text = _SCALE.sub(" ", text)  # "on a scale of 0 to 100" is no confidence
    return _BOUND.sub(_half, _SPAN.sub(_middle, text))


def _of_words(text: str) -> str:
    """The digits of a number from 0 to 100."""
    if text.isdigit():
        return text
    word = re.sub(r"[\s-]+", " ", text)
    return str(_SPELLED[word if word.endswith("hundred") else word.replace(" ", "-")])


def _middle(match: re.Match[str]) -> str:
    """A range as its middle."""
    a, b, text = float(match["a"]), float(match["b"]), match.string
    if a >= b or (" and" in match[0] and not match["between"]):
        return match[0]
    if match["whole"]:
        return _percent((a + b) / 2 / float(match["whole"]))
    if match["percent"] or match["unit"]:
        return _percent((a + b) / 200)
    if b <= 1 and "." in match["a"] + match["b"]:
        return _percent((a + b) / 2)
    alone = match[0].strip() == text.strip(" .")
    return _percent((a + b) / 200) if alone or _KEYED.search(text[: match.start()]) else match[0]


def _half(match: re.Match[str]) -> str:
    """ "less than 10%" as the middle of 0 and 10%, "more than 90%" as that of 90% and 1."""
    value = float(match["a"]) / (100 if match["unit"] else 1)
    if value > 1 or not (match["unit"] or "." in match["a"]):
        return match[0]
    return _percent(value / 2 if match["below"] else (1 + value) / 2)


def _percent(value: float) -> str:
    return f"{100 * value:.9g}%≈"


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007  # the last one counts
        pass
    return found


def _value(match: re.Match[str]) -> _Read:
    groups = match.groupdict()
    number = float(groups["number"].replace("−", "-"))
    if groups.get("percent"):
        return number / 100, True, groups.get("range") is not None
    if groups.get("whole"):
        whole = float(groups["whole"])
        if number + whole == 100 and number > whole:  # 90/10
            whole = 100
        return (number / whole if whole > 0 else math.nan), True, False
    return number, number <= 1 and not groups["number"].isdigit(), False
