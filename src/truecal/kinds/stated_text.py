"""Confidence that is stated in text: "85%", "0.85", "85 / 100", "Confidence: 85", "almost certain"."""

from __future__ import annotations

import math
import numbers
import re
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
    "medium": 0.6,
    "moderate": 0.6,
    "about even": 0.5,
    "even chance": 0.5,
    "toss-up": 0.5,
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

_NUMBER = r"(?<![\w.,/])(?P<number>\d+(?:\.\d+)?|\.\d+)"
_OF = r"(?:\s*(?P<percent>%|percent\b)|\s*(?:/|out of)\s*(?P<whole>\d+(?:\.\d+)?))"
_KEY = re.compile(
    r"\b(?:confidence|probability|certainty|likelihood|chance)\b[^\d.]{0,30}?" + _NUMBER + _OF + "?", re.IGNORECASE
)
_SCALED = re.compile(_NUMBER + _OF, re.IGNORECASE)
_WHOLE = re.compile(r"\s*~?" + _NUMBER + _OF + r"?\s*\.?\s*", re.IGNORECASE)
_DECIMAL = re.compile(r"(?<![\w.,/])(?P<number>0?\.\d+|1\.0+)(?![\w%/])")
_RANGE = re.compile(r"[\[(]?\b0(?:\.0)?\s*%?\s*(?:-|–|to)\s*(?:1(?:\.0)?|100)\b\s*%?[\])]?", re.IGNORECASE)
_NOT = re.compile(r"\b(?:not|n't|never)\s+(?:\w+\s+)?$", re.IGNORECASE)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Stated(Result):
    """Stated confidences as probabilities; rows without one are NaN, and are counted, never dropped."""

    values: Array
    missing: tuple[int, ...]
    """The rows that state none."""

    @property
    def found(self) -> Array:
        """Which rows state a confidence."""
        return ~np.isnan(self.values)

    @property
    def share_missing(self) -> float:
        return len(self.missing) / len(self.values)

    @property
    def text(self) -> str:
        """How many rows state no confidence."""
        return f"{len(self.missing)} of {len(self.values)} rows ({self.share_missing:.1%}) state no confidence"

    def __repr__(self) -> str:
        if not self.missing:
            return f"{len(self.values)} stated confidences, mean {float(self.values.mean()):.3f}"
        some = ", ".join(map(str, self.missing[:5])) + (", ..." if len(self.missing) > 5 else "")
        mean = "" if not self.found.any() else f"; mean of the others {float(np.nanmean(self.values)):.3f}"
        return f"{self.text}: row {some}{mean}"


@described(
    "A Stated, with one value per row, NaN where a row states none.",
    texts="What the model said, one text per row; numbers are taken as they are.",
    words="What words mean, instead of the table in `truecal.language.WORDS`.",
)
def stated_confidence(texts: Any, *, words: Mapping[str, float] | None = None) -> Stated:
    """Read confidences from text: percentages, probabilities, fractions, a number after "confidence", or words.

    A number after a word such as "confidence" comes first, then a text that is a number, then "85%" or "85/100", then
    a decimal such as 0.85, then the longest phrase of the table of words; the last one in the text counts. A bare
    number above 1 is a percentage. A bare 1 is 100%, or 1% where other rows have bare numbers above 1. Phrases after
    "not" are not read.

    >>> import truecal as tc
    >>> said = ["85%", "0.85", "Confidence: 85", "I give it 17/20.", "It is almost certain.", "I refuse."]
    >>> found = tc.language.stated_confidence(said)
    >>> found.values.tolist()
    [0.85, 0.85, 0.85, 0.85, 0.95, nan]
    >>> found
    1 of 6 rows (16.7%) state no confidence: row 5; mean of the others 0.870
    """
    if isinstance(texts, (str, bytes)) or not hasattr(texts, "__len__"):
        raise TypeError(f"texts must be a list, one per row, got {shown(texts)}")
    rows = texts.tolist() if hasattr(texts, "tolist") else list(texts)
    if not rows:
        raise ValueError("texts is empty: expected one per row")
    table = _table(words)
    read = [_read(row, text, table) for row, text in enumerate(rows)]
    percent = any(bare and value > 1 for value, bare in read)
    values = np.array([_scaled(value, bare, percent) for value, bare in read])
    return Stated(values, tuple(np.flatnonzero(np.isnan(values)).tolist()))


def _scaled(value: float, bare: bool, percent: bool) -> float:
    """A probability: a bare number above 1 is a percentage, and so is a bare 1 beside such numbers."""
    if bare and (value > 1 or (percent and value == 1)):
        value /= 100
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
        found.append((re.compile(rf"(?<![\w-]){pattern}(?![\w-])", re.IGNORECASE), float(value)))
    return found


def _read(row: int, text: Any, words: list[tuple[re.Pattern[str], float]]) -> tuple[float, bool]:
    """The number of a row, and whether it has no unit."""
    if text is None:
        return math.nan, False
    if isinstance(text, numbers.Real) and not isinstance(text, bool):
        return float(text), not (isinstance(text, float) and text <= 1)
    if not isinstance(text, str):
        raise TypeError(f"texts must be text or numbers, got {shown(text)} at row {row}")
    text = _RANGE.sub(" ", text)  # "on a scale of 0 to 100" is no confidence
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
    return (math.nan, False) if best is None else (best[2], False)


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for found in pattern.finditer(text):  # noqa: B007  # the last one counts
        pass
    return found


def _value(match: re.Match[str]) -> tuple[float, bool]:
    groups = match.groupdict()
    number = float(groups["number"])
    if groups.get("percent"):
        return number / 100, False
    if groups.get("whole"):
        whole = float(groups["whole"])
        return (number / whole if whole > 0 else math.nan), False
    return number, "." not in groups["number"] or number > 1
