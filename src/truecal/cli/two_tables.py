"""Files of two tables: labels that apply and their probabilities, numbers and forecasts, or times and risks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import typer

from truecal.io.forecast_files import (
    read_forecasts,
    read_label_sets,
    read_label_tables,
    read_outcomes,
    read_risk_table,
)
from truecal.io.read_file import read_column
from truecal.kinds import MULTILABEL, NUMBERS, SURVIVAL
from truecal.kinds.inputs import Progress

from .shared_options import Reading, numbers, split
from .sources import Asked, Measured, measure_models

Tables = tuple[Any, dict[str, Any], tuple[str, ...] | None, tuple[str, ...]]
_TAKEN = ("--task", "--labels", "--label-column", "--columns", "--header", "--errors", "--bins", "--memory")
TIMES = ("--time", "--event", "--horizons", "--survival", "--censoring-by")
_DRAWS = ("--resamples", "--seed", "--level")


@dataclass(frozen=True)
class TwoTables:
    """Files of several labels per row, of forecasts of a number, or of risks of censored times."""

    asked: Asked
    tables: Tables
    about: dict[str, Any]
    rows: int = 0

    @classmethod
    def of(cls, asked: Asked) -> Self | None:
        task, measuring = asked.measuring.task, asked.measuring
        why = f"cannot be used with --task {task}; use Python"
        if task == MULTILABEL.task:
            asked.allow((*_TAKEN, *_DRAWS, "--logits", "--percent"), why)
            tables = load_tables(asked.places, asked.reading)
            return cls(asked, tables, {"labels": tables[2]})
        if task == NUMBERS.name:
            asked.allow((*_TAKEN, *_DRAWS, "--thresholds", "--levels"), why)
            if measuring.thresholds is None:
                raise typer.BadParameter("is needed: thresholds fixed before the outcomes", param_hint="--thresholds")
            tables = load_forecasts(asked.places, asked.reading, measuring.levels)
            return cls(asked, tables, {"task": "auto", "thresholds": numbers(measuring.thresholds, "--thresholds")})
        if task == SURVIVAL.task:
            columns = ("--task", "--columns", "--header", "--errors", "--bins", "--by", "--segments")
            asked.allow((*columns, *_DRAWS, *TIMES), why)
            for option, value in zip(TIMES[:3], (measuring.time, measuring.event, measuring.horizons), strict=True):
                if value is None:
                    raise typer.BadParameter("is needed with --task survival", param_hint=option)
            horizons = numbers(measuring.horizons or "", "--horizons")
            tables, named = load_risks(asked, horizons)
            about = {"horizons": horizons, "survival": measuring.survival}
            return cls(asked, tables, about | named)
        return None

    def measure(self, progress: Progress | None) -> Measured:
        y_true, models, classes, notes = self.tables
        about = self.about | {"errors": split(self.asked.measuring.errors)}
        return Measured(measure_models(self.asked, y_true, models, about, progress).with_notes(notes), classes)


def load_forecasts(files: Sequence[Path], reading: Reading, levels: str | None) -> Tables:
    """Outcomes, the forecasts of each model by the names of their columns, and what was read."""
    models: dict[str, Any] = {}
    notes: list[str] = []
    y: Any = None
    at = None if levels is None else numbers(levels, "--levels")
    for file in files:
        name = file.stem if file.stem not in models else str(file)
        wanted = y is None and reading.labels is None
        found = read_forecasts(
            file,
            label_column=reading.label_column if reading.labels is None else None,
            columns=split(reading.columns),
            levels=at,
            header=reading.header,
            outcomes=wanted,
            target=reading.labels,
        )
        models[name], y = found.forecast, found.y_true if y is None else y
        notes.append(f"{name}: {len(found.forecast)} rows; {found.note}")
    if y is None and reading.labels is not None:
        y = read_outcomes(reading.labels, reading.label_column, reading.header)
    return y, models, None, tuple(notes)


def load_risks(asked: Asked, horizons: Sequence[float]) -> tuple[Tables, dict[str, Any]]:
    """Times and events of the first file, the risks of each model, and the columns that options name."""
    measuring, reading, first = asked.measuring, asked.reading, asked.places[0]
    columns = {"by": measuring.by, "censoring_by": measuring.censoring_by, "features": asked.one_model.segments}
    named = {role: split(spec) or () for role, spec in columns.items()}
    times = (measuring.time or "", measuring.event or "")
    others = (*times, *(column for several in named.values() for column in several))
    models: dict[str, Any] = {}
    notes: list[str] = []
    for file in asked.places:
        name = file.stem if file.stem not in models else str(file)
        found = read_risk_table(file, others, horizons, columns=split(reading.columns), header=reading.header)
        models[name], note = found
        notes.append(f"{name}: {len(models[name])} rows; {note}")
    n = len(models[next(iter(models))])
    y_true = tuple(read_column(first, column, rows=n, numbers=True) for column in times)
    tables = y_true, models, None, tuple(notes)
    values = {column: read_column(first, column, rows=n) for several in named.values() for column in several}
    return tables, {role: {column: values[column] for column in several} for role, several in named.items() if several}


def load_tables(files: Sequence[Path], reading: Reading) -> Tables:
    """The label table, the predictions of each model, the names of the labels where columns have any, and notes."""
    models: dict[str, Any] = {}
    notes: list[str] = []
    y: Any = None
    names: tuple[str, ...] | None = None
    for file in files:
        name = file.stem if file.stem not in models else str(file)
        found = read_label_tables(
            file,
            label_column=reading.label_column if reading.labels is None else None,
            columns=split(reading.columns),
            logits=reading.logits,
            header=reading.header,
            labels=reading.labels is None and y is None,
        )
        scores = found.numbers / 100 if reading.percent else found.numbers
        models[name] = _sigmoid(found.numbers) if found.logits else scores
        names = names or found.names
        if y is None:
            y = found.y_true
        if y is None and reading.labels is not None:
            y = read_label_sets(reading.labels, reading.label_column, found.numbers.shape[1], names)
        notes.append(f"{name}: {len(found.numbers)} rows of {found.numbers.shape[1]} labels; {found.note}")
    return y, models, names, tuple(notes)


def _sigmoid(logits: Any) -> Any:
    from scipy.special import expit  # not before it is needed: it takes long to load

    return expit(logits)
