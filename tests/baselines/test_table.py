"""The table of docs/measures.md is what the package says of its measures; the column of the audit is the audit's."""

from __future__ import annotations

from pathlib import Path

from benchmarks.audit.measures_table import markdown

from truecal.baselines import BASELINES

PAGE = Path(__file__).parents[2] / "docs" / "measures.md"


def without_last_column(lines: list[str]) -> list[str]:
    return [line.rsplit(" | ", 1)[0] for line in lines]


def test_the_table_in_the_docs_is_the_one_that_is_made():
    written = [
        line
        for line in PAGE.read_text().partition("\n## Every measure\n")[2].splitlines()
        if line.startswith(("| name |", "| --- |", "| `"))
    ]
    assert without_last_column(written) == without_last_column(markdown().splitlines())


def test_a_verdict_has_its_place():
    lines = markdown({"ece": "gamed"}).splitlines()
    assert len(lines) == 2 + len(BASELINES)
    assert [line.rsplit(" | ", 1)[1] for line in lines if line.startswith(("| `ece` ", "| `sce` "))] == [
        "gamed |",
        "– |",
    ]
    assert all(line.replace(r"\|", "").count("|") == 6 for line in lines)
