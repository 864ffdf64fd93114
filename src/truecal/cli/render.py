"""Results on a terminal: tables that fit, plain text in a pipe, and the verdict last."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from truecal.comparison import Comparison
    from truecal.evaluation import Evaluation
    from truecal.inference import CalibrationTest

PIPE_WIDTH = 160


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPE_WIDTH, no_color=True)


def _table(console: Console, title: str, columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> None:
    plain = not console.is_terminal
    table = Table(title=Text(title), title_justify="left", box=None if plain else box.SIMPLE_HEAD, pad_edge=False)
    for name, justify in columns:
        overflow = "fold" if name == "model" else "ellipsis"
        table.add_column(name, justify=justify, overflow=overflow, no_wrap=name != "model")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # Text, never markup: names come from users
    console.print(table)


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
    return (
        row.symbol,
        mark,
        bins,
        _number(row.loss),
        _number(row.U, "+"),
        _interval(row.U_low, row.U_high),
        _number(row.value),
    )


ERROR_COLUMNS = (
    ("error", "left"),
    ("truthful", "left"),
    ("bins", "right"),
    ("loss", "right"),
    ("U", "right"),
    ("interval of U", "left"),
    ("value", "right"),
)


def evaluation(result: Evaluation, notes: Sequence[str]) -> None:
    """Losses, errors as loss + U, the test, the direction."""
    console = _console()
    _say(console, *(f"· {note}" for note in notes))
    classes = "top class only" if result.n_classes is None else f"{result.n_classes} classes"
    _losses(console, {result.name: result})
    title = f"{result.name}: {result.n_samples} samples, {classes}; n·error = loss + U, {result.level:.0%} intervals"
    _table(console, title, ERROR_COLUMNS, [_error_row(row) for row in result.errors])
    for name, part in result.subgroups.items():
        rows = [_error_row(row) for row in part.errors if row.error == part.headline]
        _table(console, f"subgroup {name}: {part.n_samples} samples, {part.direction.word}", ERROR_COLUMNS, rows)
    _say(console, *(f"note: {note}" for note in result.notes))
    _say(console, *(f"test of {name}: p = {test.pvalue:.3g}" for name, test in result.tests.items()))
    _say(console, f"direction: {result.direction!r}")


def _losses(console: Console, evaluations: dict[str, Evaluation]) -> None:
    first = next(iter(evaluations.values()))
    columns = [("model", "left"), *((value.name.replace("_", " "), "right") for value in first.losses)]
    rows = [[name, *(_number(value.value) for value in e.losses)] for name, e in evaluations.items()]
    _table(console, "losses (lower predicts better)", columns, rows)


def comparison(result: Comparison, notes: Sequence[str]) -> None:
    """Losses, the leaderboard as loss + U, what each error ranks first at each bin count, and the verdict."""
    console = _console()
    _say(console, *(f"· {note}" for note in notes))
    _losses(console, result.evaluations)
    _leaderboard(console, result)
    _ranking_table(console, result)
    _say(console, *(f"note: {note}" for note in result.notes))
    _say(console, "")
    _say(console, *result.verdict.sentences)


def _leaderboard(console: Console, result: Comparison) -> None:
    board = result.leaderboard()
    counts = list(board[0]["U"])
    columns = [("model", "left"), ("loss", "right")]
    columns += [(f"U, {m} bins" if m is not None else "U", "right") for m in counts]
    columns += [("p", "right"), ("direction", "left")]
    rows = [
        [
            row["model"],
            _number(row["loss"]),
            *(f"{u:+.3g} {_interval(low, high)}".strip() for u, low, high in row["U"].values()),
            "" if row["pvalue"] is None else f"{row['pvalue']:.3g}",
            row["direction"],
        ]
        for row in board
    ]
    name = f"{result.headline} ({result.symbol(result.headline)}), {result.n_samples} samples"
    title = f"{name}: n·error = loss + U, {result.level:.0%} intervals"
    _table(console, title, columns, rows)


def _ranking_table(console: Console, result: Comparison) -> None:
    """Per error, how its ranking of the models holds across bin counts."""
    rows = []
    for error in result.error_names:
        found = [r for r in result.rankings if r.error == error]
        first = " ".join(f"{'-' if r.n_bins is None else r.n_bins}:{result.names[_best(r.ranks)]}" for r in found)
        count = sum(flip.error == error for flip in result.flips)
        row = result.evaluations[result.names[0]].rows(error)[0]
        rows.append((error, "yes" if row.truthful else "no", str(count) if len(found) > 1 else "-", first))
    columns = (("error", "left"), ("truthful", "left"), ("flips", "right"), ("ranked first at each bin count", "left"))
    _table(console, "pairs of models whose order flips with the number of bins", columns, rows)


def _best(ranks: Sequence[float]) -> int:
    return min(range(len(ranks)), key=lambda i: ranks[i])


def flips(result: Comparison) -> None:
    """Every error's flips, truthful ones included, with which of them are beyond noise."""
    console = _console()
    for error in result.error_names:
        found = [flip for flip in result.flips if flip.error == error]
        beyond = sum(bool(flip.beyond_noise) for flip in found)
        known = any(flip.beyond_noise is not None for flip in found)
        tail = f", {beyond} beyond noise" if known else ""
        _say(console, f"{error}: {len(found)} flip{'s' * (len(found) != 1)}{tail}")


def calibration_test(result: CalibrationTest, alpha: float, rejected: bool) -> None:
    """The test, and what it decides at this level."""
    console = _console()
    _say(console, repr(result))
    word = "rejected" if rejected else "not rejected"
    _say(console, f"calibration is {word} at alpha = {alpha:g} (p = {result.pvalue:.3g})")


def to_csv(result: Any) -> str:
    """One row per model, error and bin count."""
    evaluations = getattr(result, "evaluations", None) or {result.name: result}
    out = io.StringIO()
    writer: Any = None
    for name, found in evaluations.items():
        for row in found.errors:
            record = {"model": name, "n_samples": found.n_samples, **asdict(row)}
            if writer is None:
                writer = csv.DictWriter(out, fieldnames=list(record), lineterminator="\n")
                writer.writeheader()
            writer.writerow(record)
    return out.getvalue()
