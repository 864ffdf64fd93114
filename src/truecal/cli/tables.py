"""Files of two tables: which of several labels apply and their probabilities, or numbers and forecasts of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit

from truecal.io import read_column
from truecal.io.failures import failure

from .options import Reading, numbers, split

Tables = tuple[Any, dict[str, Any], tuple[str, ...] | None]


def load_forecasts(files: Sequence[Path], reading: Reading, levels: str | None) -> tuple[Any, dict[str, Any]]:
    """Outcomes, and the forecasts of each model: quantiles at the given levels, or else ensemble members."""
    from truecal import forecasts

    models: dict[str, Any] = {}
    for file in files:
        name = file.stem if file.stem not in models else str(file)
        table = _table(file, reading.columns, "f", "--columns")
        if levels is None:
            models[name] = forecasts.ensemble(table)
        else:
            models[name] = forecasts.quantiles(table, numbers(levels, "--levels"))
    y = _table(reading.labels or files[0], reading.label_column or "y", "fiu", "--label-column")
    return np.asarray(y).reshape(len(y)), models


def load_tables(files: Sequence[Path], reading: Reading) -> Tables:
    """The label table, the predictions of each model, and the names of the labels, where columns have any."""
    models: dict[str, Any] = {}
    for file in files:
        name = file.stem if file.stem not in models else str(file)
        models[name] = _table(file, reading.columns, "f", "--columns")
        if reading.logits:
            models[name] = expit(models[name])
        elif reading.percent:
            models[name] = models[name] / 100
    labels = _table(reading.labels or files[0], reading.label_column, "biu", "--label-column")
    return labels, models, split(reading.label_column) if not _is_array(reading.labels or files[0]) else None


def _is_array(file: Path) -> bool:
    return file.suffix in (".npy", ".npz")


def _table(file: Path, columns: str | None, kinds: str, option: str) -> Any:
    """A table of numbers: a two-dimensional array of numpy's files, or the named columns of another file."""
    if not _is_array(file):
        if columns is None:
            raise failure(file, f"expected the columns of the labels, comma-separated, with {option}")
        return np.column_stack([read_column(file, name, numbers=True) for name in split(columns) or ()])
    if not file.is_file():
        raise failure(file, "file not found")
    loaded = np.load(file, allow_pickle=False)
    if file.suffix == ".npy":
        return loaded
    with loaded:
        tables = {key: loaded[key] for key in loaded.files}
    fit = [key for key, array in tables.items() if array.ndim == 2 and array.dtype.kind in kinds]
    names = [columns] if columns else fit
    if len(names) != 1 or names[0] not in tables:
        raise failure(file, f"expected one table to take: name its key with {option}, one of {', '.join(tables)}")
    return tables[names[0]]
