"""Results on a terminal: one line per model, three short sentences, notes last; plain text in a pipe."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from truecal.core.result import clean_lines
from truecal.core.tables import Head, Tabular, csv_text, ranked_lines, table_lines
from truecal.core.words import merged_notes, points_text
from truecal.results.columns import record
from truecal.results.first_screen import first_screen

if TYPE_CHECKING:
    from truecal.auditing import AuditReport
    from truecal.evidence.values import ErrorValue
    from truecal.inference.calibration_result import CalibrationTest
    from truecal.inference.monitoring import MonitorUpdate
    from truecal.inference.repair import Repair
    from truecal.results.comparison import Comparison
    from truecal.results.evaluation import Evaluation

Columns = Mapping[str, Sequence[str]]
"""Cells by the title of their column; a title that ends in ">" is of a column aligned to the right."""
MOST_NOTES = 3


class QuietConsole(Console):
    """A console whose reader may leave: `truecal ... | head` is no failure, and keeps the command's own exit code.

    Nothing that is printed on it has control characters: names come from files.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        for found in objects:
            if isinstance(found, Text):
                found.plain = clean_lines(found.plain)
        super().print(*(clean_lines(found) if isinstance(found, str) else found for found in objects), **options)

    def on_broken_pipe(self) -> None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # stays open: the interpreter flushes it at exit


def _console() -> Console:
    console = QuietConsole(highlight=False)  # which has no colours where NO_COLOR is set
    return console if console.is_terminal else QuietConsole(highlight=False, width=100_000, no_color=True)


# -- tables ------------------------------------------------------------------------------------------------------------


def _table(console: Console, title: str, columns: Columns) -> None:
    """A table in which a long name has a line of its own; where that is too wide, every row is a sentence."""
    columns = {name: cells for name, cells in columns.items() if any(cells)}
    heads = [Head(name.rstrip(">"), name.endswith(">")) for name in columns]
    rows = list(zip(*columns.values(), strict=True))
    _say(console, title)
    _lines(console, table_lines(heads, rows, _width(console)), 1 + max(head.title.count("\n") for head in heads))


def _lines(console: Console, lines: Sequence[str], deep: int = 1) -> None:
    """The lines of a table, its titles in bold."""
    whole = max(map(cell_len, lines)) <= console.width
    for i, line in enumerate(lines):
        style = "bold" if i < deep and whole else ""
        console.print(Text(line, style=style), soft_wrap=whole or not console.is_terminal)


def _width(console: Console) -> int | None:
    """What a table must fit; a pipe takes any width."""
    return console.width if console.is_terminal else None


def _say(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(Text(line), soft_wrap=not console.is_terminal)


def _number(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.3g}"


# -- results -----------------------------------------------------------------------------------------------------------


def evaluation(result: Evaluation, *, details: bool = False, verbose: bool = False) -> None:
    """The first screen, subgroups, findings and advice; with details every error as loss + U."""
    console = _console()
    _say(console, *first_screen(result, _width(console), notes=False))
    if details:
        _table(console, f"\nn·error = loss + U, {result.level:.0%} intervals", _errors(result.errors))
        losses = {"loss": [value.name.replace("_", " ") for value in result.losses]}
        _table(console, "", losses | {"mean>": [_number(value.value) for value in result.losses]})
        if result.discrimination:
            title = "\ndiscrimination: does the confidence rank correct predictions above wrong ones? (not calibration)"
            _table(console, title, _ordered(result))
        _say(console, "", "" if result.test is None else repr(result.test))
    _notes(console, _of_files_first(result.notes, [result.name]), verbose)


def _ordered(result: Evaluation) -> dict[str, list[str]]:
    """How well the confidence tells right from wrong predictions."""
    found = result.discrimination
    return {
        "measure": [value.title for value in found],
        "value>": [_number(value.value) for value in found],
        "interval": [_interval(value.low, value.high) for value in found],
        "better": ["higher" if value.higher_is_better else "lower" for value in found],
    }


def _errors(rows: Sequence[ErrorValue]) -> dict[str, list[str]]:
    return {
        "error": [row.error for row in rows],
        "truthful": ["yes" if row.truthful else "no" for row in rows],
        "bins>": ["-" if row.n_bins is None else str(row.n_bins) for row in rows],
        "loss>": [_number(row.loss) for row in rows],
        "U>": [_number(row.U, "+") for row in rows],
        "interval of U": [_interval(row.U_low, row.U_high, "+") for row in rows],
        "value>": [_number(row.value) for row in rows],
        "if calibrated": [_interval(row.null_low, row.null_high) for row in rows],
    }


def _interval(low: float | None, high: float | None, sign: str = "") -> str:
    return "" if low is None or high is None else f"[{low:{sign}.3g}, {high:{sign}.3g}]"


def comparison(result: Comparison, *, details: bool = False, story: str = "", verbose: bool = False) -> None:
    """One line per model, lowest loss first, then the sentences; with details loss + U, flips, theorem, dominance."""
    console = _console()
    _say(console, f"{result.title}\n")
    heads, rows = result.table()
    _lines(console, ranked_lines(heads, rows, _width(console)))
    _say(console, "", *([story, ""] if story else []), *result.verdict.sentences)
    if details:
        _parts(console, result, [row[1] for row in rows])
        _orders(console, result)
        _say(console, "", *_theorem(result), repr(result.dominance))
    _notes(console, _of_files_first(result.notes, result.names), verbose)


def tabular(result: Tabular, notes: Sequence[str] = (), verbose: bool = False) -> None:
    """The headline, the table or tables, sentences, and notes."""
    console = _console()
    console.print(Text(result.headline, style="bold"), soft_wrap=not console.is_terminal)
    for heads, rows in result.tables():
        _say(console, "")
        deep = 1 + max(head.title.count("\n") for head in heads)
        _lines(console, table_lines(heads, rows, _width(console)), deep)
    _say(console, *(["", *result.sentences] if result.sentences else []))
    _notes(console, [*result.notes, *notes], verbose)


def _parts(console: Console, result: Comparison, names: Sequence[str]) -> None:
    """The headline error as loss + U: one line a model, a column for every bin count."""
    rows = [result.evaluations[name].rows(result.headline) for name in names]
    columns = {"model": list(names), "score>": [_number(result.evaluations[name].score) for name in names]}
    columns["loss>"] = [_number(found[0].loss) for found in rows]
    for c, row in enumerate(rows[0]):
        columns[f"U at {row.n_bins or 'no'}\nbins>"] = [_number(found[c].U, "+") for found in rows]
    _table(console, f"\n{result.headline} ({result.symbol(result.headline)}): n·error = loss + U", columns)


def _orders(console: Console, result: Comparison) -> None:
    """Per error, score and loss, who is first at which bin counts, and how many pairs change places."""
    flips: Counter[str] = Counter(flip.error for flip in result.flips)
    first: dict[tuple[str, str, bool], dict[str, list[str]]] = {}
    for ranking in result.rankings:
        winners = first.setdefault((ranking.error, ranking.by, ranking.truthful), {})
        winners.setdefault(ranking.order[0], []).append("-" if ranking.n_bins is None else str(ranking.n_bins))
    columns = {
        "ranked by": [error if by == "value" else f"{error}, {by}" for error, by, _ in first],
        "truthful": ["yes" if truthful else "no" for _, _, truthful in first],
        "flips>": [str(flips[error]) if by == "value" else "-" for error, by, _ in first],
        "first (at bins)": ["; ".join(f"{name} ({', '.join(m)})" for name, m in w.items()) for w in first.values()],
    }
    _table(console, "\npairs of models that change places with the number of bins (flips)", columns)


def _theorem(result: Comparison) -> list[str]:
    """Whether a theorem keeps the models in the order of their losses: a sentence for two, counts of pairs for more."""
    pairs = dict.fromkeys((pair.first, pair.second) for pair in result.pairs if pair.error == result.headline)
    found = [result.same_order(*pair) for pair in pairs]
    if len(found) == 1:
        return [found[0].sentence]
    said = Counter(one.condition for one in found)
    answers = ", ".join(f"{word} for {said[word]}" for word in ("applies", "does not apply", "cannot be told"))
    return [f"theorem (the same order at every number of bins), pairs: {answers}"] if found else []


def _of_files_first(notes: Sequence[str], names: Sequence[str]) -> list[str]:
    """What was read, before what was found."""
    starts = tuple(f"{name}: " for name in names)
    return sorted(notes, key=lambda note: not note.startswith(starts))


def _notes(console: Console, notes: Sequence[str], verbose: bool) -> None:
    """The first notes, dimmed, and how many there are beyond them."""
    merged = merged_notes(notes)
    shown = merged if verbose else merged[:MOST_NOTES]
    lines = [f"note: {note}" for note in shown]
    if rest := len(merged) - len(shown):
        lines.append(f"{rest} more {'note' if rest == 1 else 'notes'}: -v for more")
    if lines:
        _say(console, "")
    for line in lines:
        console.print(Text(line, style="dim"), soft_wrap=not console.is_terminal)


def calibration_test(result: CalibrationTest, notes: Sequence[str] = (), verbose: bool = False) -> None:
    """The answer, or whether the gap is tolerated, then the test itself."""
    console = _console()
    verdict = f"Calibrated? {result.sentence}"
    if result.max_gap is not None:
        word = {"yes": "Passed", "no": "Failed"}.get(result.verdict, "Undecided")
        verdict = f"{word} at --max-gap {result.max_gap:g}: {result.sentence}"
    console.print(Text(verdict, style="bold"), soft_wrap=not console.is_terminal)
    told = (f"  calibrated?   {result.sentence}", f"  {result.sentence}")
    _say(console, "", *(line for line in repr(result).split("\n") if line not in told))
    _notes(console, notes if verbose else (), verbose)


def recalibration(headline: str, result: Comparison | None, notes: Sequence[str], verbose: bool = False) -> None:
    """What was done, and the predictions before and after, where there are labels to measure them on."""
    console = _console()
    if result is None:
        console.print(Text(f"{headline} The test file has no labels to measure it on.", style="bold"), soft_wrap=True)
        _notes(console, notes, verbose)
        return
    both = [result.evaluations[name] for name in ("before", "after")]
    scores = " → ".join("?" if e.score is None else f"{e.score:.4f}" for e in both)
    gaps = " → ".join("?" if e.gap is None else points_text(e.gap.points) for e in both)
    words = f"{headline} Score {scores}, gap {gaps} points."
    console.print(Text(words, style="bold"), soft_wrap=not console.is_terminal)
    _say(console, f"\n{result.n_samples} samples\n")
    heads, rows = result.table()
    _lines(console, table_lines(heads[1:], sorted((row[1:] for row in rows), reverse=True), _width(console)))
    _notes(console, result.notes, verbose)


def monitoring(
    result: MonitorUpdate, notes: Sequence[str], verbose: bool = False, advice: Repair | None = None
) -> None:
    """Whether there is an alarm, what to do then, the e-values, and what was counted."""
    console = _console()
    verdict = f"No alarm: calibration is not rejected after {result.n_samples} rows."
    if result.alarm:
        verdict = f"{result.sentence}."
    console.print(Text(verdict, style="bold"), soft_wrap=not console.is_terminal)
    if advice is not None:
        _say(console, *repr(advice).split("\n"))
    _say(console, "", repr(result))
    _notes(console, notes, verbose)


def audit(result: AuditReport) -> None:
    """The verdict, its proof and what else was found."""
    _say(_console(), *repr(result).split("\n"))


def to_csv(result: Any, *, details: bool = False) -> str:
    """One row per model and subgroup with every column; with details one per error and bin count; also per task."""
    tasks = getattr(result, "comparisons", None) or {None: result}
    records = []
    for task, one in tasks.items():
        for row in one.rows_of_columns():
            for group, part in ((None, row), *((name, found.as_row) for name, found in row.model.subgroups.items())):
                head = {"task": task, "model": row.model.name, "subgroup": group}
                head = {name: value for name, value in head.items() if name != "task" or value is not None}
                if details:
                    head["n_samples"] = part.model.n_samples
                    records += [head | asdict(error) for error in part.model.errors]
                else:
                    records.append(head | record(part))
    return csv_text(records)
