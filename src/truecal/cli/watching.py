"""A monitor over prediction files: opened from its state, and each row of each file counted once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import typer

from truecal.core.extras import require
from truecal.evaluation.inputs import Inputs, read_inputs
from truecal.io import atomic_path
from truecal.io.failures import failure, path_text

from .loading import Loaded, split_kind
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


def count(watched: Monitor, file: Path, loaded: Loaded, replaced: bool) -> str:
    """Count the rows of a file that have not been counted; what was done, in words."""
    path, _ = split_kind(file)
    if watched.columns is not None and loaded.classes is not None and watched.columns != loaded.classes:
        expected, came = (", ".join(names[:8]) for names in (watched.columns, loaded.classes))
        raise failure(path, f"expected columns of the classes {expected} as before, got {came}")
    inputs = watched.read(*_pair(loaded))
    place = os.path.realpath(path)
    rows, digest = watched.files.get(place, (0, ""))
    if rows and _digest(inputs, rows) != digest:
        if not replaced:
            what = f"expected its first {rows} rows to be those counted before, they have changed"
            raise failure(path, f"{what}; if it is a new file under an old name, say --replaced")
        rows = 0
    if rows < inputs.n_samples:
        watched.count(inputs.take(np.arange(rows, inputs.n_samples)), path.name)
        watched.files[place] = (inputs.n_samples, _digest(inputs, inputs.n_samples))
        watched.columns = watched.columns or loaded.classes
    before = f", {rows} counted before" if rows else ""
    return f"{path_text(path)}: {inputs.n_samples - rows} new rows{before}"


def _digest(inputs: Inputs, rows: int) -> str:
    """Of the first rows, labels and predictions; nothing of fewer rows."""
    if rows > inputs.n_samples:
        return ""
    both = np.column_stack([inputs.y[:rows], inputs.reports[:rows]]).astype(np.float64)
    return hashlib.blake2b(both.tobytes(), digest_size=16).hexdigest()


def draw(watched: Monitor, path: Path) -> None:
    """The evidence over the rows as a picture."""
    from truecal.plots import evidence

    figure = require("matplotlib.figure", "plots").Figure(figsize=(8, 4), layout="constrained")
    evidence(watched, ax=figure.subplots())
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
