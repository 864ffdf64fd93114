"""Every kind of prediction from every source with every slice gives the stored numbers and texts."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

import source_worlds as worlds

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*\.?\d*")
CASES = [(kind, source) for kind in worlds.KINDS for source in worlds.SOURCES]
REWRITE = "python tests/source_worlds.py stores what is shown now"


@cache
def stored() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(worlds.GOLDEN.read_text(encoding="utf-8"))
    return found


def test_every_combination_is_stored() -> None:
    assert list(stored()) == [" | ".join(one) for one in worlds.combinations()]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "source"), CASES)
def test_the_stored_answers_are_given(kind: str, source: str) -> None:
    if source == "SQL":
        pytest.importorskip("ibis")
        pytest.importorskip("duckdb")
    changes = []
    for slice_ in worlds.SLICES:
        name = " | ".join((kind, source, slice_))
        mine, wanted = (worlds.leaves(one) for one in (worlds.as_stored(kind, source, slice_), stored()[name]))
        for place in {**wanted, **mine}:
            if not agree(mine.get(place), wanted.get(place), place):
                changes.append(f"{name}{place}: {wanted.get(place)!r} is now {mine.get(place)!r}")
    assert not changes, "\n".join([*changes[:20], f"{len(changes)} changes; {REWRITE}"])


def test_no_reason_is_of_no_size() -> None:
    assert "at least 0.0 points" not in worlds.GOLDEN.read_text(encoding="utf-8")


def agree(one: Any, other: Any, place: str) -> bool:
    """Numbers to nine digits, or to 2% where they are from draws; texts with numbers within 2% or two last digits."""
    if isinstance(one, str) and isinstance(other, str):
        if NUMBER.sub("#", one).split() != NUMBER.sub("#", other).split():
            return False
        pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
        return all(
            _near(a.replace(",", ""), b.replace(",", ""), 2.01 * 10.0 ** -len(b.partition(".")[2])) for a, b in pairs
        )
    drawn = re.search(r"pvalue|low|high|test|standing|verdict|pairs|rankings|leaderboard", place)
    return worlds.same(one, other) or bool(
        drawn and isinstance(one, float) and isinstance(other, (int, float)) and _near(one, other, 1e-3)
    )


def _near(one: Any, other: Any, least: float) -> bool:
    return abs(float(one) - float(other)) <= max(0.02 * abs(float(other)), least)


def test_a_change_is_seen() -> None:
    """A number in the eighth digit, a word, a place that is new or gone."""
    assert agree(0.123456789, 0.123456789 + 1e-11, ".score") and not agree(0.1, 0.1 + 1e-8, ".score")
    assert agree(0.5, 0.505, ".pvalue") and not agree(0.5, 0.55, ".pvalue")
    assert agree("gap 1.23 points", "gap 1.24 points", ".text") and not agree("gap 1.2", "the gap 1.2", ".text")
    assert not agree(None, 1.0, ".score") and not agree("", "note", ".notes")
