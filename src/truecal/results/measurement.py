"""Measurement: what evaluations and comparisons share."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

from ..core.data import shown
from ..core.result import Result
from ..core.rules import bins_text
from ..core.tables import Head, latex, markdown
from .columns import Row, columns_at, texts

LOGGERS: list[Callable[..., None]] = []
"""The function that logs to experiment trackers; `adapters.tracking` registers it when it is loaded."""
_INNER = {
    "about",
    "as_row",
    "derived",
    "main_loss",
    "ranking_loss",
    "rows_of_columns",
    "says",
    "scored_by_loss",
    "size_text",
}
"""What outputs are made of: readers have no use for it."""


class Measurement(Result, ABC):
    """Abstract: what has been measured of one model or of several, with notes on it."""

    notes: tuple[str, ...]

    def __dir__(self) -> list[str]:
        return sorted(set(super().__dir__()) - _INNER)

    @abstractmethod
    def rows_of_columns(self) -> list[Row]:
        """What columns are read from: one row per model, best first."""

    @abstractmethod
    def explain(self) -> str:
        """What was found, in sentences for people who do not read tables."""

    def to_latex(self) -> str:
        """A table for a paper, with the rules of the package booktabs: loss, gap with interval, p-value, ECE and n."""
        return latex(*paper_table(self.rows_of_columns()))

    def to_markdown(self) -> str:
        """The same table in Markdown."""
        return markdown(*paper_table(self.rows_of_columns()))

    def with_notes(self, notes: Sequence[str]) -> Self:
        """The same with these notes after its own, such as which files the predictions were read from."""
        if isinstance(notes, str) or not isinstance(notes, Sequence) or not all(isinstance(n, str) for n in notes):
            raise TypeError(f"notes must be a sequence of texts, got {shown(notes)}")
        # every Measurement is a dataclass
        return replace(self, notes=(*self.notes, *notes))  # type: ignore[type-var]

    def log_to(self, run: Any, *, prefix: str = "truecal", step: int | None = None) -> None:
        """Log numbers, the table and the HTML page to `run`: mlflow, wandb, or a run of one of them.

        Numbers are called `prefix`/score, `prefix`/gap and so on; those of each model of a comparison, and of each
        subgroup, `prefix`/name/score.
        """
        importlib.import_module("truecal.adapters.tracking")
        LOGGERS[0](self, run, prefix=prefix, step=step)


def paper_table(rows: Sequence[Row]) -> tuple[list[Head], list[list[str]]]:
    """The heads and rows of a table for a paper; ECE has its number of bins where all models have the same."""
    columns = columns_at(rows, "paper")
    bins = {row.model.row(row.model.ece_name).n_bins for row in rows if row.model.ece_name is not None}
    titles = {"ece": f"ECE ({bins_text(bins.pop())})"} if len(bins) == 1 and None not in bins else {}
    heads = [Head("model", False), *(Head(titles.get(column.name, column.title), column.right) for column in columns)]
    return heads, [[row.model.name, *cells] for row, cells in zip(rows, texts(rows, columns, "paper"), strict=True)]
