"""A monitor over prediction files: opened from its state, and each row of each file counted once, in batches."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, final

import numpy as np
import typer

from truecal.core.extras import require
from truecal.evaluation.inputs import Inputs, read_inputs
from truecal.io import FileError, atomic_path
from truecal.io.dataset import can_stream
from truecal.io.failures import NoRowsError, failure, path_text

from .loading import Loaded, open_table, split_kind
from .options import Reading, fraction

if TYPE_CHECKING:
    from truecal.inference.monitoring import Monitor

DEFAULT_ALPHA = 0.05
Reader = Callable[[Sequence[Path], Reading], Loaded]


def opened(state: Path, reference: Path | None, alpha: float | None, reading: Reading, read: Reader) -> Monitor:
    """The monitor of a state that is there, or a new one."""
    from truecal.inference.monitoring import Monitor, monitor

    if alpha is not None:
        fraction(alpha, "--alpha")
    if not state.exists():
        found = None if reference is None else read([reference], reading)
        made = monitor(alpha=alpha or DEFAULT_ALPHA, reference=None if found is None else _pair(found))
        made.columns = None if found is None else found.classes
        return made
    if reference is not None:
        raise typer.BadParameter(f"{state} has begun already: take another state", param_hint="--reference")
    watched = Monitor.load(state)
    if alpha is not None and alpha != watched.alpha:
        raise typer.BadParameter(f"{state} has alpha = {watched.alpha:g}: take another state", param_hint="--alpha")
    return watched


def _pair(loaded: Loaded) -> tuple[object, object]:
    """Labels and predictions, of the top class alone where rows have their own choices."""
    model = next(iter(loaded.models.values()))
    if loaded.errors is None:
        return loaded.y_true, model
    top = read_inputs(loaded.y_true, model).top_label()
    return None, (top.y, top.reports)


def count(watched: Monitor, file: Path, reading: Reading, read: Reader, replaced: bool) -> tuple[int, str]:
    """Count the rows of a file that have not been counted; how many, and what was done in words."""
    path, _ = split_kind(file)
    place = os.path.realpath(path)
    before, digest = watched.files.get(place, (0, ""))
    try:
        classes, rows, batches = _rows(watched, file, reading, read)
    except NoRowsError:  # a day on which nothing came
        if before and not replaced:
            raise _changed(path, before) from None
        return 0, f"{path_text(path)}: no rows"
    if watched.columns is not None and classes is not None and watched.columns != classes:
        expected, came = (", ".join(names[:8]) for names in (watched.columns, classes))
        raise failure(path, f"expected columns of the classes {expected} as before, got {came}")
    try:
        seen = _count_new(watched, batches(), path.name, before, digest)
    except FileError:
        raise
    except ValueError as error:  # of another kind than the rows before, say
        raise failure(path, str(error)) from error
    except _ChangedError:
        if not replaced:
            raise _changed(path, before) from None
        before = 0
        seen = _count_new(watched, batches(), path.name, before, "")
    if seen.rows > before:
        watched.files[place] = (seen.rows, seen.digest)
        watched.columns = watched.columns or classes
    said = [f"{seen.rows - before} new rows"]
    said += [f"{before} counted before"] * bool(before)
    said += [f"{rows - seen.rows} without a prediction dropped"] * (rows > seen.rows)
    return seen.rows - before, f"{path_text(path)}: {', '.join(said)}"


def _rows(
    watched: Monitor, file: Path, reading: Reading, read: Reader
) -> tuple[tuple[str, ...] | None, int, Callable[[], Iterator[Inputs]]]:
    """The classes of a file's columns, how many rows it has, and these: of a table in batches, else all at once."""
    path, _ = split_kind(file)
    if can_stream(path) and reading.labels is None and not reading.temperature:
        from truecal.scale.files import inputs_of

        table = open_table(file, reading)
        return table.first().classes, table.n_rows, lambda: (inputs_of(batch, None) for batch, _ in table.batches())
    loaded = read([file], reading)
    return loaded.classes, loaded.first.n_rows or loaded.first.n, lambda: iter([watched.read(*_pair(loaded))])


def _changed(path: Path, before: int) -> FileError:
    what = f"expected its first {before} rows to be those counted before, they have changed"
    return failure(path, f"{what}; if it is a new file under an old name, say --replaced")


class _ChangedError(Exception):
    """The rows that were counted before are not those of the file."""


@final
class _Seen:
    """How many rows have gone by, and the digest of their labels and predictions."""

    def __init__(self) -> None:
        self.rows = 0
        self._hash = hashlib.blake2b(digest_size=16)

    def add(self, inputs: Inputs) -> None:
        self._hash.update(np.column_stack([inputs.y, inputs.reports]).astype(np.float64).tobytes())
        self.rows += inputs.n_samples

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def _count_new(watched: Monitor, batches: Iterator[Inputs], time: str, before: int, digest: str) -> _Seen:
    """Count the rows after the first `before`, whose digest is known; nothing at all if they have changed."""
    seen = _Seen()
    new = _new_rows(batches, seen, before, digest)
    first = next(new, None)
    if first is not None:
        watched.count(chain([first], new), time)
    return seen


def _new_rows(batches: Iterator[Inputs], seen: _Seen, before: int, digest: str) -> Iterator[Inputs]:
    for inputs in batches:
        old = min(before - seen.rows, inputs.n_samples) if seen.rows < before else 0
        if old:
            seen.add(inputs.take(slice(0, old)))
            if seen.rows == before and seen.digest != digest:
                raise _ChangedError
        if old < inputs.n_samples:
            fresh = inputs.take(slice(old, None))
            seen.add(fresh)
            yield fresh
    if seen.rows < before:
        raise _ChangedError


def check_picture(path: Path) -> None:
    """Before any row is counted: a picture can have that form."""
    known = require("matplotlib.backend_bases", "plots").FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise typer.BadParameter(
            f"expected a name that ends in one of {', '.join(f'.{form}' for form in known)}, got {path.name!r}",
            param_hint="--plot",
        )


def draw(watched: Monitor, path: Path) -> None:
    """The evidence over the rows as a picture."""
    from truecal.plots import evidence

    figure = require("matplotlib.figure", "plots").Figure(figsize=(8, 4), layout="constrained")
    evidence(watched, ax=figure.subplots())
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
