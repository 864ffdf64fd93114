"""A monitor over prediction files: opened from its state, and each row of each file counted once, in batches."""

from __future__ import annotations

import hashlib
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from itertools import chain
from itertools import count as count_from
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import typer

from truecal.core.extras import require
from truecal.io import FileError, atomic_path
from truecal.io.containers import FORMATS, inside
from truecal.io.dataset import can_stream
from truecal.io.failures import NoRowsError, failure, path_text
from truecal.io.streams import whole_lines
from truecal.kinds.inputs import Inputs, read_inputs

from .loading import Loaded, open_table, split_kind
from .shared_options import Reading, fraction

if TYPE_CHECKING:
    from truecal.inference.monitoring import Monitor
    from truecal.inference.repair import Repair

DEFAULT_ALPHA = 0.05
FEWEST_COPIED = 30
"""A file that goes on after the rows of another is a copy of it that has grown, if these are so many; fewer may be
equal by chance. A file that has the rows of another and no more is always a copy."""
Content = tuple[int, str]
"""What a file holds: how many rows, and the digest of their labels and predictions."""
_COPY = " (copy)"
"""After the name of a file that was skipped as a copy: `--again` counts it, but no file that was counted itself."""
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
        raise typer.BadParameter(f"{state} exists already: use another state file", param_hint="--reference")
    watched = Monitor.load(state)
    if alpha is not None and alpha != watched.alpha:
        raise typer.BadParameter(f"{state} has alpha = {watched.alpha:g}: use another state file", param_hint="--alpha")
    return watched


def _pair(loaded: Loaded) -> tuple[object, object]:
    """Labels and predictions, of the top class alone where rows have their own choices."""
    model = next(iter(loaded.models.values()))
    if loaded.errors is None:
        return loaded.y_true, model
    top = read_inputs(loaded.y_true, model).top_label()
    return None, (top.y, top.reports)


def count(
    watched: Monitor, file: Path, reading: Reading, read: Reader, replaced: bool = False, again: bool = False
) -> tuple[int, str]:
    """Count the new rows of a file; their number, and a sentence about it.

    Rows are known by their content: a file that begins with the rows of another that was counted is a copy of it, or
    has its new name. `again` counts them all the same.
    """
    path, _ = split_kind(file)
    with _whole_lines(path) as size:
        waits = "" if size is None else "; its last line has no line break and is left for the next run"
        try:
            if size == 0:
                raise NoRowsError
            new, said = _count(watched, file, reading, read, replaced, again)
        except NoRowsError:  # a day on which nothing came
            before, _ = watched.files.get(os.path.realpath(path), (0, ""))
            if before and not replaced:
                raise _changed(path, before) from None
            new, said = 0, f"{path_text(path)}: no rows"
        return new, said + waits


def _whole_lines(path: Path) -> AbstractContextManager[int | None]:
    """The block reads whole lines alone, of a file that has lines."""
    has_lines = path.is_file() and FORMATS.get(inside(str(path)).suffix) in ("csv", "jsonl")
    return whole_lines(str(path)) if has_lines else nullcontext()


def _count(
    watched: Monitor, file: Path, reading: Reading, read: Reader, replaced: bool, again: bool
) -> tuple[int, str]:
    path, _ = split_kind(file)
    place = os.path.realpath(path)
    own = watched.files.get(place) or (None if again else watched.files.get(place + _COPY))
    before, digest = own or (0, "")
    classes, rows, batches = _rows(watched, file, reading, read)
    if watched.columns is not None and classes is not None and watched.columns != classes:
        expected, came = (", ".join(names[:8]) for names in (watched.columns, classes))
        raise failure(path, f"expected columns of the classes {expected} as before, got {came}")
    known = {} if again else _known(watched, place)
    copied = ""
    while True:
        try:
            seen = _count_new(watched, batches(), path.name, before, digest, known)
            break
        except FileError:
            raise
        except ValueError as error:  # of another kind than the rows before, say
            raise failure(path, str(error)) from error
        except _KnownError as found:  # the rows after these may be new
            (before, digest), copied = found.content, known[found.content]
        except _ChangedError:
            if not replaced or own is None:
                raise _changed(path, before) from None
            watched.files[_kept(watched, place)] = own  # a copy of what the file was is still known
            known |= {} if again else {own: place}
            own, before, digest = None, 0, ""
    new = seen.rows - before
    if seen.rows > (0 if own is None else own[0]):
        watched.files[place if new else place + _COPY] = (seen.rows, seen.digest)
        watched.columns = watched.columns or classes
    if new:
        watched.files.pop(place + _COPY, None)
    said = [f"{new} new rows"]
    if copied:
        said += [
            f"{before} counted before as {path_text(copied)}{'' if new else ' (pass --again to count them again)'}"
        ]
    elif before:
        said += [f"{before} counted before"]
    said += [f"{rows - seen.rows} without a prediction dropped"] * (rows > seen.rows)
    return new, f"{path_text(path)}: {', '.join(said)}"


def _known(watched: Monitor, place: str) -> dict[Content, str]:
    """What other files held when they were counted, and their names; a copy that was skipped is the last to ask."""
    names = sorted(watched.files, key=lambda name: not name.endswith(_COPY))
    return {watched.files[name]: name.removesuffix(_COPY) for name in names if name.removesuffix(_COPY) != place}


def _kept(watched: Monitor, place: str) -> str:
    """A name for what a file held before it was replaced."""
    return next(name for i in count_from(1) if (name := f"{place} (replaced {i})") not in watched.files)


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
    what = f"its first {before} rows were counted before and have changed"
    return failure(path, f"{what}; if it is a new file under an old name, pass --replaced")


class _ChangedError(Exception):
    """The rows that were counted before are not those of the file."""


class _KnownError(Exception):
    """The rows so far are those of another file that was counted."""

    def __init__(self, content: Content) -> None:
        self.content = content


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


def _count_new(
    watched: Monitor, batches: Iterator[Inputs], time: str, before: int, digest: str, known: Mapping[Content, str]
) -> _Seen:
    """Count the rows after the first `before`, whose digest is known; nothing at all if they have changed, or if more
    of the rows are those of a file that is known."""
    seen = _Seen()
    new = _new_rows(batches, seen, before, digest, known)
    first = next(new, None)
    if first is not None:
        watched.count(chain([first], new), time, before)
    return seen


def _new_rows(
    batches: Iterator[Inputs], seen: _Seen, before: int, digest: str, known: Mapping[Content, str]
) -> Iterator[Inputs]:
    stops = sorted({before, *(rows for rows, _ in known if rows >= FEWEST_COPIED)})
    for inputs in batches:
        start, end = seen.rows, seen.rows + inputs.n_samples
        for stop in [*stops[bisect_right(stops, start) : bisect_left(stops, end)], end]:
            seen.add(inputs.take(slice(seen.rows - start, stop - start)))
            if seen.rows == before and seen.digest != digest:
                raise _ChangedError
            if stop >= FEWEST_COPIED:
                _refuse_known(seen, before, known)
        if end > before:
            yield inputs.take(slice(max(0, before - start), None))
    if seen.rows < before:
        raise _ChangedError
    _refuse_known(seen, before, known)


def _refuse_known(seen: _Seen, before: int, known: Mapping[Content, str]) -> None:
    content = (seen.rows, seen.digest)
    if seen.rows > before and content in known:
        raise _KnownError(content)


def advice(watched: Monitor, files: Sequence[Path], reading: Reading, read: Reader) -> Repair | str:
    """What repairs the rows of the files after the estimated change, or why nothing is advised."""
    from truecal.inference.repair import FEWEST, MOST, TooFewRowsError

    kept: list[Inputs] = []
    for file in files:
        for inputs in _rows(watched, file, reading, read)[2]():
            kept.append(inputs)
            while sum(part.n_samples for part in kept[1:]) >= MOST:
                kept.pop(0)
    rows = sum(part.n_samples for part in kept)
    if rows < FEWEST:
        return f"no map is advised: these files have {rows} rows, and {FEWEST} are needed"
    try:
        y, reports = (np.concatenate([getattr(part, name) for part in kept]) for name in ("y", "reports"))
        return watched.repair(replace(kept[-1], y=y, reports=reports))
    except TooFewRowsError as error:
        return f"no map is advised: {error}"


def check_picture(path: Path) -> None:
    """Before any row is counted: a picture can have that form."""
    known = require("matplotlib.backend_bases", "plots").FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:].lower() not in known:
        raise typer.BadParameter(
            f"expected a name that ends in one of {', '.join(f'.{form}' for form in known)}, got {path.name!r}",
            param_hint="--plot",
        )


def save_picture(drawn: Callable[[Any], Any], path: Path, size: tuple[float, float]) -> None:
    """Write what is drawn on axes as a picture."""
    figure = require("matplotlib.figure", "plots").Figure(figsize=size, layout="constrained")
    drawn(figure.subplots())
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=150)
