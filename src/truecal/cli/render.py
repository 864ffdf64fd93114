"""Results on a terminal: tables that fit, plain text in a pipe, and the words last."""

from __future__ import annotations

import csv
import io
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from truecal.evaluation.ranking import ECE_NAMES
from truecal.evaluation.verdict import standing

if TYPE_CHECKING:
    from truecal.evaluation.comparison import Comparison
    from truecal.evaluation.model import Evaluation
    from truecal.inference import CalibrationTest

Columns = Sequence[tuple[str, str]]


class QuietConsole(Console):
    """A console whose reader may leave: `truecal ... | head` is no failure, and keeps the command's own exit code."""

    def on_broken_pipe(self) -> None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # stays open: the interpreter flushes it at exit


def _console() -> Console:
    console = QuietConsole(highlight=False)
    return console if console.is_terminal else QuietConsole(highlight=False, width=100_000, no_color=True)


def _table(console: Console, title: str, columns: Columns, rows: Sequence[Sequence[str]]) -> None:
    """A table if it fits the width; otherwise every row as a few lines of its own, so that nothing is cut off."""
    widths = [
        max([*(cell_len(part) for part in name.split("\n")), *(cell_len(row[j]) for row in rows)])
        for j, (name, _) in enumerate(columns)
    ]
    if console.is_terminal and sum(widths) + 3 * len(widths) > console.width:
        _say(console, title, *(_stacked(columns, row) for row in rows))
        return
    plain = not console.is_terminal
    table = Table(title=Text(title), title_justify="left", box=None if plain else box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]  # "left" or "right"
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text, never markup: names come from users
    with console.capture() as captured:
        console.print(table)
    _print_lines(console, captured.get())


def _stacked(columns: Columns, row: Sequence[str]) -> str:
    pairs = [f"{name} {cell}" for (name, _), cell in zip(columns[1:], row[1:], strict=True) if cell]
    return "\n".join([row[0], *(f"  {pair}".replace("\n", " ") for pair in pairs)])


def _print_lines(console: Console, text: str) -> None:
    """Text that is laid out already, without the blanks that fill its lines."""
    for line in text.splitlines():
        console.print(Text.from_ansi(line.rstrip()), soft_wrap=True)


def _say(console: Console, *lines: str) -> None:
    for line in lines:
        console.print(Text(line), soft_wrap=not console.is_terminal)


def _number(value: float | None, sign: str = "") -> str:
    return "" if value is None else f"{value:{sign}.4g}"


def _interval(low: float | None, high: float | None, sign: str = "+") -> str:
    return "" if low is None or high is None else f"[{low:{sign}.3g}, {high:{sign}.3g}]"


def _error_row(row: Any) -> tuple[str, ...]:
    bins = "-" if row.n_bins is None else str(row.n_bins)
    mark = "yes" if row.truthful else "no"
    if row.U is None:
        band = "" if row.null_low is None else f"if calibrated {row.null_low:.3g} to {row.null_high:.3g}"
        return row.error, mark, bins, "", "", band, _number(row.value)
    interval = _interval(row.U_low, row.U_high)
    return row.error, mark, bins, _number(row.loss), _number(row.U, "+"), interval, _number(row.value)


ERROR_COLUMNS = (
    ("error", "left"),
    ("truthful", "left"),
    ("bins", "right"),
    ("loss", "right"),
    ("U", "right"),
    ("interval of U", "left"),
    ("value", "right"),
)


def evaluation(result: Evaluation) -> None:
    """Losses, errors as loss + U, and what they say in words."""
    console = _console()
    classes = "top class only" if result.n_classes is None else f"{result.n_classes} classes"
    _losses(console, {result.name: result})
    title = f"{result.name}: {result.n_samples} samples, {classes}; n·error = loss + U, {result.level:.0%} intervals"
    _table(console, title, ERROR_COLUMNS, [_error_row(row) for row in result.errors])
    for name, part in result.subgroups.items():
        rows = [_error_row(row) for row in part.errors if row.error == part.headline]
        _table(console, f"subgroup {name}: {part.n_samples} samples, {part.direction.word}", ERROR_COLUMNS, rows)
    _say(console, *(f"note: {note}" for note in result.notes), "")
    _say(console, *_words(result))


def _words(result: Evaluation) -> list[str]:
    """Predictive value and calibration, never in one sentence; then what ECE says."""
    loss, row = result.losses[0], result.rows(result.headline)[0]
    value = f"{loss.name.replace('_', ' ')} {loss.value:.4g}"
    lines = [f"Predictive value: {value}, {row.symbol} loss part {_number(row.loss)}."]
    found = standing(result.tests, result.level)
    tests = ", ".join(f"{name} p = {test.pvalue:.3g}" for name, test in result.tests.items())
    lines.append(f"Calibration: {found.words}{f' ({tests})' if tests else ''}; {result.direction!r}.")
    for ece in (e for e in result.errors if e.error in ECE_NAMES):
        band = "" if ece.null_low is None else f" (a calibrated model: {ece.null_low:.3g} to {ece.null_high:.3g})"
        lines.append(f"ECE would have said {ece.value:.4g} at {ece.n_bins} bins{band}.")
    return lines


def _losses(console: Console, evaluations: dict[str, Evaluation]) -> None:
    first = next(iter(evaluations.values()))
    columns = [("model", "left"), *((value.name.replace("_", "\n"), "right") for value in first.losses)]
    rows = [[name, *(_number(value.value) for value in e.losses)] for name, e in evaluations.items()]
    _table(console, "losses (lower predicts better)", columns, rows)


def comparison(result: Comparison, *, every_flip: bool = False) -> None:
    """Losses, the leaderboard as loss + U, rankings by bin count, and the verdict as the last lines."""
    console = _console()
    _losses(console, result.evaluations)
    _leaderboard(console, result)
    _ranking_table(console, result)
    if every_flip:
        _say(console, *_flip_lines(result))
    _say(console, *(f"note: {note}" for note in result.notes), "")
    _say(console, *result.verdict.sentences)


def _leaderboard(console: Console, result: Comparison) -> None:
    """One row per model and bin count; the model, its loss, test and direction stand in the first of them."""
    columns = (
        ("model", "left"),
        ("loss", "right"),
        ("bins", "right"),
        ("U", "right"),
        ("interval of U", "left"),
        ("p", "right"),
        ("direction", "left"),
    )
    rows = []
    for entry in result.leaderboard():
        pvalue = "" if entry["pvalue"] is None else f"{entry['pvalue']:.3g}"
        head = (entry["model"], _number(entry["loss"]), pvalue, entry["direction"])
        for i, (m, (u, low, high)) in enumerate(entry["U"].items()):
            name, loss, p, direction = head if i == 0 else ("", "", "", "")
            bins = "-" if m is None else str(m)
            rows.append((name, loss, bins, f"{u:+.3g}", _interval(low, high), p, direction))
    name = f"{result.headline} ({result.symbol(result.headline)}), {result.n_samples} samples"
    _table(console, f"{name}: n·error = loss + U, {result.level:.0%} intervals", columns, rows)


def _ranking_table(console: Console, result: Comparison) -> None:
    """Per error, how its ranking of the models holds across bin counts."""
    rows = []
    for error in result.error_names:
        found = [r for r in result.rankings if r.error == error]
        first: dict[str, list[str]] = {}
        for ranking in found:
            best = result.names[_best(ranking.ranks)]
            first.setdefault(best, []).append("-" if ranking.n_bins is None else str(ranking.n_bins))
        count = sum(flip.error == error for flip in result.flips)
        words = "; ".join(f"{name} ({', '.join(bins)})" for name, bins in first.items())
        truthful = "yes" if result.evaluations[result.names[0]].rows(error)[0].truthful else "no"
        rows.append((error, truthful, str(count) if len(found) > 1 else "-", words))
    columns = (("error", "left"), ("truthful", "left"), ("flips", "right"), ("ranked first (at bins)", "left"))
    _table(console, "pairs of models whose order flips with the number of bins", columns, rows)


def _best(ranks: Sequence[float]) -> int:
    return min(range(len(ranks)), key=lambda i: ranks[i])


def _flip_lines(result: Comparison) -> list[str]:
    """Every error's flips, truthful ones included, with which of them are beyond noise."""
    lines = []
    for error in result.error_names:
        found = [flip for flip in result.flips if flip.error == error]
        beyond = sum(bool(flip.beyond_noise) for flip in found)
        known = any(flip.beyond_noise is not None for flip in found)
        lines.append(
            f"{error}: {len(found)} flip{'s' * (len(found) != 1)}" + (f", {beyond} beyond noise" if known else "")
        )
    return lines


def calibration_test(result: CalibrationTest, alpha: float, rejected: bool) -> None:
    """The test, and what it decides at this level."""
    console = _console()
    _say(console, repr(result))
    word = "rejected" if rejected else "not rejected"
    _say(console, f"calibration is {word} at alpha = {alpha:g} (p = {result.pvalue:.3g})")


def to_csv(result: Any) -> str:
    """One row per model, subgroup, error and bin count."""
    evaluations = getattr(result, "evaluations", None) or {result.name: result}
    out = io.StringIO()
    writer: Any = None
    for name, found in evaluations.items():
        for group, part in ((None, found), *found.subgroups.items()):
            for row in part.errors:
                record = {"model": name, "subgroup": group, "n_samples": part.n_samples, **asdict(row)}
                if writer is None:
                    writer = csv.DictWriter(out, fieldnames=list(record), lineterminator="\n")
                    writer.writeheader()
                writer.writerow(record)
    return out.getvalue()
