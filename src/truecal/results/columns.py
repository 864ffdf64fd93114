"""The one list of columns: what every output shows of a model.

Texts, tables, notebooks, the report, CSV, JSON, frames, LaTeX, Markdown and experiment trackers read this list. To add
a column, append it to `COLUMNS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

from ..core.result import clean
from ..core.rules import bins_text
from ..core.words import LOSS_TITLES, accuracy_text, digits_of, points_text, sum_text
from ..inference.gaps import gap_interval
from ..kinds.ordered import ON_SCALE

if TYPE_CHECKING:
    from ..inference.calibration_result import Standing
    from .evaluation import Evaluation

Place = Literal["line", "table", "wide", "data", "log", "paper"]
"""Where a column is shown: in the short text of one model, in tables with one line per model, in tables with enough
space, in JSON, CSV and frames, among the numbers of experiment trackers, in LaTeX and Markdown."""
Value = float | str | None
_SHORT = {"over-confident": "over", "under-confident": "under", "too high": "high", "too low": "low"}


@final
@dataclass(frozen=True)
class Row:
    """One model with its test, corrected over the models, and its rank by ECE: what columns are read from."""

    model: Evaluation
    standing: Standing
    ece_rank: float | None = None


@final
@dataclass(frozen=True)
class Column:
    """One number or word of every model.

    `value` is what data holds. Tables show `text`, which is `value` with these `digits` by default, and the short text
    of one model shows `line`, which is `text` by default. A column without a text in any row is left out.
    """

    name: str
    title: str
    value: Callable[[Row], Value]
    digits: str = ""
    text: Callable[[Row], str] | None = None
    line: Callable[[Row], str] | None = None
    shown: frozenset[Place] = frozenset(("line", "table", "data", "log", "paper"))
    right: bool = True
    """Whether tables align it to the right, as numbers are."""
    applies: Callable[[Evaluation], bool] = lambda model: True
    """Whether data of such a model has it."""

    def cell(self, row: Row, place: Place = "table") -> str:
        """The text of a row, in which nothing is hidden."""
        text = self.line if place == "line" and self.line is not None else self.text
        value = self.value(row) if text is None else text(row)
        return "" if value is None else clean(value) if isinstance(value, str) else number_text(value, self.digits)


def number_text(value: float, digits: str = "") -> str:
    """A number as tables show it: four decimal places, or three digits of a smaller one; "∞" for infinity.

    >>> from truecal.results.columns import number_text
    >>> number_text(.43214), number_text(.00001234), number_text(float("inf"))
    ('0.4321', '0.0000123', '∞')
    """
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:{digits or f'.{digits_of(abs(value))}f'}}"


def off_text(direction: str) -> str:
    """A direction as tables show it.

    >>> from truecal.results.columns import off_text
    >>> off_text("too high and over-confident"), off_text("no clear direction")
    ('high, over', '')
    """
    return ", ".join(filter(None, (_SHORT.get(part.removesuffix(ON_SCALE)) for part in direction.split(" and "))))


def _at(*places: Place) -> frozenset[Place]:
    return frozenset(places)


def _gap(name: Literal["points", "low", "high"]) -> Callable[[Row], Value]:
    def value(row: Row) -> Value:
        gap = row.model.gap
        return None if gap is None or (gap.note and name != "points") else float(getattr(gap, name))

    return value


def _gap_line(row: Row) -> str:
    gap = row.model.gap
    if gap is None:
        return ""
    return f"{points_text(gap.points)} points {gap_interval(gap) or '(interval unreliable)'}"


def _loss(name: str) -> Column:
    """The loss that models are ordered by, under its usual name."""

    def applies(model: Evaluation) -> bool:
        return model.main_loss is not None and model.main_loss.name == name

    def value(row: Row) -> Value:
        return row.model.loss(name).value if applies(row.model) else None

    return Column(name, LOSS_TITLES[name], value, applies=applies)


def _score_line(row: Row) -> str:
    """The score as a sum, "0.4436 = Brier 0.4321 + 0.0115"."""
    score, loss = row.model.score, row.model.main_loss
    if score is None or loss is None or not row.model.scored_by_loss:
        return "" if score is None else number_text(score)
    return sum_text(score, LOSS_TITLES[loss.name], loss.value)


def _named_loss(row: Row, name: str) -> Value:
    return next((loss.value for loss in row.model.losses if loss.name == name), None)


def _ece_line(row: Row) -> str:
    found = row.model
    if found.ece is None or found.ece_name is None:
        return ""
    bins = found.row(found.ece_name).n_bins
    return number_text(found.ece) + ("" if bins is None else f" ({bins_text(bins)})")


COLUMNS: list[Column] = [
    Column(
        "accuracy",
        "accuracy",
        lambda row: None if math.isnan(row.model.accuracy) else row.model.accuracy,
        text=lambda row: accuracy_text(row.model.accuracy),
        shown=_at("wide", "data", "log"),
    ),
    Column(
        "gap",
        "gap",
        _gap("points"),
        text=lambda row: "" if row.model.gap is None else points_text(row.model.gap.points),
        line=_gap_line,
    ),
    Column("gap_low", "gap, low", _gap("low"), shown=_at("data", "log")),
    Column("gap_high", "gap, high", _gap("high"), shown=_at("data", "log")),
    Column(
        "interval",
        "interval",
        lambda row: None,
        text=lambda row: "" if row.model.gap is None else gap_interval(row.model.gap),
        shown=_at("table", "paper"),
        right=False,
    ),
    Column(
        "direction",
        "off",
        lambda row: row.model.direction.word,
        text=lambda row: off_text(row.model.direction.word),
        shown=_at("table", "data"),
        right=False,
    ),
    Column(
        "calibrated",
        "calibrated?",
        lambda row: row.standing.words,
        text=lambda row: row.standing.answer,
        line=lambda row: row.standing.words,
        shown=_at("line", "table", "data"),
        right=False,
    ),
    Column(
        "pvalue",
        "p",
        lambda row: row.standing.pvalue,
        text=lambda row: row.standing.p.removeprefix("= "),
        shown=_at("table", "data", "log", "paper"),
        right=False,
    ),
    *(_loss(name) for name in LOSS_TITLES),
    Column(
        "score",
        "score",
        lambda row: row.model.score,
        line=_score_line,
        shown=_at("line", "table", "data", "log"),
    ),
    Column("ece", "ECE", lambda row: row.model.ece, line=_ece_line),
    Column("cross_entropy", "cross-entropy", lambda row: _named_loss(row, "cross_entropy"), shown=_at("wide")),
    Column("ece_rank", "rank by ECE", lambda row: row.ece_rank, "g", shown=_at("data")),
    Column("n_samples", "n", lambda row: row.model.n_samples, "d", shown=_at("data", "paper")),
]
"""Every column, in the order of all outputs."""


def columns_at(rows: Sequence[Row], *places: Place) -> list[Column]:
    """The columns of these places that have a text in some row."""
    found = [column for column in COLUMNS if column.shown.intersection(places)]
    return [column for column in found if any(column.cell(row, places[0]) for row in rows)]


def lines(row: Row) -> list[tuple[str, str]]:
    """Title and text of every column of one model's short text."""
    return [(column.title, column.cell(row, "line")) for column in columns_at([row], "line")]


def record(row: Row) -> dict[str, Value]:
    """Name and value of every column, as data has them."""
    columns = (column for column in COLUMNS if "data" in column.shown and column.applies(row.model))
    return {column.name: column.value(row) for column in columns}


def numbers(row: Row) -> dict[str, float]:
    """Name and value of every number for an experiment tracker, less those that are not defined."""
    values = {column.name: column.value(row) for column in COLUMNS if "log" in column.shown}
    return {name: float(value) for name, value in values.items() if value is not None and not isinstance(value, str)}


def texts(rows: Sequence[Row], columns: Iterable[Column], place: Place = "table") -> list[list[str]]:
    """The cells of a table."""
    return [[column.cell(row, place) for column in columns] for row in rows]
