"""Every kind of prediction on eight data sets, as a reader sees it: the stored texts, and laws that hold in all."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest

import answer_worlds as worlds
from truecal.results import columns

NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*\.?\d*")
CASES = [(world, kind) for world in worlds.SMALL for kind in worlds.KINDS]
LARGE = [(world, kind) for world in worlds.LARGE for kind in worlds.KINDS]
BOTH = [*(pytest.param(*one) for one in CASES), *(pytest.param(*one, marks=pytest.mark.heavy) for one in LARGE)]
pytestmark = [pytest.mark.slow, pytest.mark.parametrize(("world", "kind"), BOTH)]


@cache
def result(world: str, kind: str) -> Any:
    return worlds.WORLDS[world](kind)


@cache
def goldens() -> dict[str, str]:
    parts = re.split(r"^## (.*)\n", worlds.GOLDEN.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}


def found_in(world: str, kind: str) -> Any:
    found = result(world, kind)
    if found is None:
        assert f"{world}: {kind}" not in goldens()
        pytest.skip("this kind does not have this data set")
    return found


def test_the_stored_text_is_shown(world, kind):
    """Words are the same, numbers within 2% or two units of the last digit: draws differ in their last bits."""
    shown, stored = worlds.shown(found_in(world, kind)), goldens()[f"{world}: {kind}"]
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (shown, stored)]
    assert words[0] == words[1]
    for one, two in zip(NUMBER.findall(shown), NUMBER.findall(stored), strict=True):
        a, b, digits = float(one.replace(",", "")), float(two.replace(",", "")), len(two.partition(".")[2])
        assert abs(a - b) <= max(0.02 * abs(b), 2.01 * 10.0**-digits), (one, two)


def test_no_answer_contradicts_another(world, kind):
    found = found_in(world, kind)
    standing, gap, said = found.as_row.standing, found.gap, found.explain()
    assert "at least 0.0 points" not in standing.words
    known = gap is not None and not gap.note
    if standing.answer == "no":
        assert standing.why or (known and gap.low > 0 and found.direction.sized), "a reason, or a gap that is one"
    else:
        assert (not found.direction.sized and not known) or gap.low <= 0
        assert all(view.gap.direction == "no clear direction" for view in found.views if view.pvalue is None)
    for view in found.views:
        assert standing.answer != "yes" or view.pvalue is None or view.gap.note or view.gap.high <= 10
        assert view.pvalue is None or view.pvalue <= 0.05 or view.gap.direction == "no clear direction"
    assert ("recalibrate" in said.lower()) <= (standing.answer == "no")
    assert ("Collect more rows" in said) == (standing.answer == "undecided")
    assert ("can be used as they are" in said) == (standing.answer == "yes")


def test_every_output_has_the_same_numbers(world, kind):
    """The texts of the columns stand in the first screen, the notebook and the report; nothing is undefined."""
    from truecal.report import render_report

    found = found_in(world, kind)
    page = render_report(found)
    page = re.sub(r"<style>.*?</style>", "", page[: page.index('<script type="application/json"')], flags=re.DOTALL)
    texts: Any = {
        "line": (repr(found), re.sub(r"<[^>]*>", " ", found._repr_html_())),
        "table": (re.sub(r"<[^>]*>", " ", page),),
    }
    for place, outputs in texts.items():
        for column in columns.columns_at([found.as_row], place):
            cell = column.cell(found.as_row, place)
            for text in outputs:
                assert cell.replace('"', "&quot;") in text.replace('"', "&quot;").replace("&#34;", "&quot;"), (
                    column.name
                )
    for view in found.views[:5] if len(found.views) <= 5 else ():
        assert all(cell in text for cell in (view.name, *view.texts) for outputs in texts.values() for text in outputs)
    for text in (*texts["line"], *texts["table"], found.explain()):
        assert not re.search(r"\b(nan|None|inf)\b", text)


def test_tables_fit_a_terminal(world, kind):
    lines = repr(found_in(world, kind)).split("\n")
    assert all(len(line) <= 80 for line in lines if not line.startswith(("  note:", "  calibrated?")))
