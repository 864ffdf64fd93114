"""The first screen of one model: what Python and the command line print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..core.tables import Head, table_lines
from .columns import columns_at, lines, off_text, texts

if TYPE_CHECKING:
    from ..evidence.views import ViewValue
    from .evaluation import Evaluation

MOST_VIEWS = 5
_NAME = 14


def first_screen(found: Evaluation, width: int | None = None, *, notes: bool = True) -> list[str]:
    """Name and size, rates, one line per column; then views, notes, subgroups, segments and advice, where there are."""
    rows = [f"{found.name}: {found.size_text}", f"  {found.says}", *column_lines(found)]
    rows += view_lines(found, width)
    rows += [f"  note: {note}" for note in found.notes if notes]
    rows += ["", *subgroup_lines(found, width)] if found.subgroups else []
    if found.segments is not None:
        rows += [f"  {found.segments.headline}", *(f"    {line}" for line in found.segments.lines())]
    return [*rows, *(f"  → {line}" for line in found.advice)]


def column_lines(found: Evaluation) -> list[str]:
    """One line per column: its title and its text."""
    return [f"  {title:<{_NAME - 1}} {text}" for title, text in lines(found.as_row)]


def view_table(found: Evaluation) -> tuple[list[Head], list[list[str]]]:
    """The heads and rows of a table of the labels, classes or thresholds that are farthest off."""
    views = found.views
    if len(views) > MOST_VIEWS and all(view.pvalue is None for view in views):
        views = tuple(sorted(views, key=_least_first))
    heads = [Head("", False), Head("says"), Head("happens"), Head("gap"), Head("interval", False), Head("off", False)]
    rows = [[view.name, *view.texts, off_text(view.gap.direction)] for view in views[:MOST_VIEWS]]
    if any(view.pvalue is not None for view in views):
        heads.append(Head("p", False))
        rows = [[*row, view.p] for row, view in zip(rows, views, strict=False)]
    return heads, rows


def view_lines(found: Evaluation, width: int | None = None) -> list[str]:
    """The table of views as text."""
    if not found.views:
        return []
    rest = len(found.views) - MOST_VIEWS
    table = table_lines(*view_table(found), None if width is None else width - 2)
    return [f"  {line}" for line in (*table, *([f"and {rest} more"] if rest > 0 else []))]


def _least_first(view: ViewValue) -> tuple[float, float]:
    """The lower end of the interval, largest first, and the gap among equals."""
    return 0.0 if view.gap.note else -max(view.gap.low, 0.0), -view.gap.points


def subgroup_table(found: Evaluation) -> tuple[list[Head], list[list[str]]]:
    """The heads and rows of a table of subgroups."""
    rows = [part.as_row for part in found.subgroups.values()]
    columns = columns_at(rows, "table")
    heads = [Head("subgroup", False), Head("samples"), *(Head(column.title, column.right) for column in columns)]
    cells = texts(rows, columns)
    named = zip(found.subgroups.items(), cells, strict=True)
    return heads, [[name, str(part.n_samples), *line] for (name, part), line in named]


def subgroup_lines(found: Evaluation, width: int | None = None) -> list[str]:
    """The table of subgroups as text."""
    return table_lines(*subgroup_table(found), width)
