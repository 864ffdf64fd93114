"""Stated confidence: 75 phrases of every class, alone and in one file, against what a reader takes them to mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

import truecal as tc

NONE = math.nan
PHRASES: dict[str, float] = {
    # percentages
    "85%": 0.85,
    "85 %": 0.85,
    "85 percent": 0.85,
    "85 per cent": 0.85,
    "85pct": 0.85,
    "85.5%": 0.855,
    "85,5 %": 0.855,
    "~85%": 0.85,
    "about 85% sure": 0.85,
    "I'm 85% confident that it is 42.": 0.85,
    "**Confidence:** 85%": 0.85,
    "100%": 1.0,
    "0%": 0.0,
    "0.5%": 0.005,
    "99.9 %": 0.999,
    # probabilities
    "0.85": 0.85,
    ".85": 0.85,
    "0,85": 0.85,
    "1.0": 1.0,
    "p = 0.85": 0.85,
    "P(correct) = 0.85": 0.85,
    "probability 1e-3": 0.001,
    "Probability: 0.85 (high)": 0.85,
    '{"answer": "B", "confidence": 0.85}': 0.85,
    "<confidence>0.85</confidence>": 0.85,
    # numbers after a word, and scales that are named
    "Confidence: 85": 0.85,
    "Answer: 42. Confidence: 85": 0.85,
    "Confidence (0-100): 85": 0.85,
    "On a scale of 0 to 100, 85%": 0.85,
    "My confidence is around 85.": 0.85,
    "Confidence: 85/100": 0.85,
    # fractions
    "17/20": 0.85,
    "I give it 17 out of 20.": 0.85,
    "9/10": 0.9,
    "9 in 10": 0.9,
    "nine out of ten": 0.9,
    "one in four chance": 0.25,
    "50/50": 0.5,
    "90/10": 0.9,
    # words for numbers
    "eighty-five percent": 0.85,
    "Ninety per cent.": 0.9,
    "one hundred percent": 1.0,
    "fifty-fifty": 0.5,
    "a coin flip": 0.5,
    "It is a coin toss.": 0.5,
    "three quarters": 0.75,
    # ranges are their middle
    "80-90%": 0.85,
    "80–90 %": 0.85,
    "80% to 90%": 0.85,
    "between 80 and 90 percent": 0.85,
    "0.8-0.9": 0.85,
    "Confidence: 80-90": 0.85,
    "7-8 out of 10": 0.75,
    "less than 10%": 0.05,
    "under 10%": 0.05,
    "more than 90%": 0.95,
    "at least 90% sure": 0.95,
    # words
    "almost certain": 0.95,
    "The answer is 50%. I am almost certain.": 0.95,
    "Very likely.": 0.9,
    "Confidence: high": 0.85,
    "probably": 0.7,
    "toss-up": 0.5,
    "rather unlikely, I would say": 0.2,
    "highly unlikely": 0.1,
    "almost impossible": 0.05,
    # outside [0, 1], or no confidence
    "-5%": NONE,
    "Confidence: -5%": NONE,
    "1.2": NONE,
    "150%": NONE,
    "Confidence: 7/5": NONE,
    "I am not certain.": NONE,
    "I refuse to answer.": NONE,
    "N/A": NONE,
    "The war of 1914-1918 was won 3-2.": NONE,
}
RANGES = [
    text
    for text in PHRASES
    if text.startswith(("80", "between", "0.8-", "Confidence: 80-", "7-8", "less", "under", "more", "at least"))
]


def agrees(value: float, wanted: float) -> bool:
    return math.isnan(value) if math.isnan(wanted) else abs(value - wanted) < 1e-9


def test_there_are_75():
    assert len(PHRASES) == 75


@pytest.mark.parametrize("text", PHRASES)
def test_a_phrase_alone(text):
    found = tc.language.stated_confidence([text])
    assert agrees(float(found.values[0]), PHRASES[text])
    assert found.ranges == ((0,) if text in RANGES else ())


def test_all_of_them_in_one_file():
    """One scale: beside "Confidence: 85" the bare 1.2 is a percentage, and nothing else changes."""
    found = tc.language.stated_confidence(list(PHRASES))
    wrong = [t for t, v in zip(PHRASES, found.values, strict=True) if not agrees(float(v), PHRASES[t])]
    assert wrong == ["1.2"]
    assert len(found.ranges) == len(RANGES) and f"{len(RANGES)} of 75 rows state a range" in found.text
    assert "numbers without a unit are percentages" in found.text


def test_one_scale_is_decided_per_file():
    def values(*rows: object) -> list[float]:
        return [round(float(v), 6) for v in tc.language.stated_confidence(list(rows)).values]

    assert values("1", "0.5", "0") == [1.0, 0.5, 0.0]
    assert values("1", "80", "0") == [0.01, 0.8, 0.0]
    assert values("1.5", "80") == [0.015, 0.8]
    assert values(85, 0.5, 1) == [0.85, 0.5, 0.01]
    found = tc.language.stated_confidence(["1.5", "0.5", "101", -0.2])
    assert found.missing == (0, 2, 3)
    assert np.isnan(tc.language.stated_confidence(["250"]).values).all()


def test_what_is_printed():
    found = tc.language.stated_confidence(["85", "80-90%", "no idea"])
    assert found.text == (
        "1 of 3 rows (33.3%) state no confidence; 1 of 3 rows state a range, which counts as its middle; "
        "numbers without a unit are percentages"
    )
    assert repr(tc.language.stated_confidence(["0.5"])) == "1 stated confidences, mean 0.500"
