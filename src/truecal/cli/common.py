"""What the commands share: the application, its files, progress, and results that are written before they are shown."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from typer.core import TyperCommand

from truecal.io import write_atomic
from truecal.io.containers import split_member
from truecal.io.failures import path_text
from truecal.io.writing import check_writable

from ..render import terminal as render
from . import watching
from .loading import Loaded, load
from .shared_options import Outputs, Printing, Reading, Wording, with_options

REJECTED = 3
NO_VERDICT = 4
PARTS = "each file of a folder or pattern is compared as a model; a folder of parts must be called FOLDER.parquet"

app = typer.Typer(
    name="truecal",
    help="Whether a classifier's probabilities can be trusted, with calibration errors that cannot be gamed.",
    epilog="Files: npz, npy, csv, json, jsonl, parquet, feather/arrow, xlsx, SQLite, DuckDB, pt, safetensors; logs of "
    "lm-evaluation-harness and inspect_ai.",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _received(given: Any) -> Any:
    """The files of an argument, with standard input in the place of `-`."""
    if isinstance(given, list):
        return [_received(each) for each in given]
    return Path(_standard_input()) if str(given) == "-" else given


@cache
def _standard_input() -> str:
    """A file with what comes from standard input, which lives as long as the process."""
    folder = tempfile.TemporaryDirectory(prefix="truecal-")
    atexit.register(folder.cleanup)
    place = os.path.join(folder.name, "stdin")
    with open(place, "wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return place


def _files(words: str) -> Any:
    return typer.Argument(help=words, show_default=False, callback=_received)


Files = Annotated[list[Path], _files("One per model, or folders of them; FOLDER.parquet is one; FILE:logits.")]
File = Annotated[Path, _files("Predictions; or -, FOLDER.parquet, FILE:logits, FILE::TABLE.")]


class _Command(TyperCommand):
    """A command whose --help is listed with the options of its output."""

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)
        if option is not None:
            option.rich_help_panel = "Output"
        return option


def command(name: str | None = None, to: typer.Typer = app) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a function to the commands, its groups of options spelled out."""
    return lambda function: to.command(name, cls=_Command)(with_options(function))


@contextmanager
def waiting(text: str, rows: int = 0) -> Iterator[Callable[[float], None] | None]:
    """A bar with the share done and the time left while a person waits; nothing at all in a pipe.

    What it yields takes the share done; until it is called the bar only shows that something goes on. With a number of
    rows the bar also says how many are done in a second.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=None)
        began = time.monotonic()

        def show(share: float) -> None:
            speed = share * rows / max(time.monotonic() - began, 1e-9)
            said = f"{text}, {speed:,.0f} rows/s" if rows else text
            bar.update(task, total=1.0, completed=share, description=said)

        yield show


def check_paths(inputs: Sequence[Path | None], wanted: Mapping[str, Path | None]) -> None:
    """Before any work: every output can be written, none is an input, no two are the same file."""
    taken = {os.path.realpath(split_member(str(path))[0]): "an input" for path in inputs if path is not None}
    for option, path in wanted.items():
        if path is None:
            continue
        place = os.path.realpath(path)
        if place in taken:
            raise typer.BadParameter(f"{path} is {taken[place]} already", param_hint=option)
        check_writable(path)
        taken[place] = f"the output of {option}"


def _show_version(wanted: bool) -> None:
    if wanted:
        import truecal

        print(f"truecal {truecal.__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Whether a classifier's probabilities can be trusted, with calibration errors that cannot be gamed."""


def read(files: Sequence[Path], reading: Reading) -> Loaded:
    given = reading.temperature or []
    if len(given) not in (0, len(files)):
        message = f"takes one validation file per model: {len(files)} models, got {len(given)}"
        raise typer.BadParameter(message, param_hint="--temperature")
    with waiting(f"reading {len(files)} file{'s' * (len(files) > 1)}") as progress:
        return load(files, reading, progress)


def write(
    result: Any, outputs: Outputs, classes: Sequence[str] | None = None, details: bool = False, **words: Any
) -> list[Path]:
    """Everything is made first and written last, and each file appears whole or not at all; which were written."""
    made: dict[Path, str] = {}
    if outputs.json is not None:
        made[outputs.json] = as_json(result)
    if outputs.csv is not None:
        made[outputs.csv] = render.to_csv(result, details=details)
    if outputs.html is not None:
        from truecal.report import render_report

        made[outputs.html] = render_report(result, classes=classes, **words)
    for path, text in made.items():
        write_atomic(path, text)
    return list(made)


def as_json(result: Any) -> str:
    """Plain JSON of a result."""
    return json_text(result.to_dict())


def json_text(values: Any) -> str:
    """Plain values as JSON."""
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def show(
    written: Sequence[Path], printing: Printing, draw: Callable[..., None], *arguments: Any, **options: Any
) -> None:
    """Print a result, and which files hold it: they are written before, so that no failure to print can lose them."""
    if printing.quiet:
        return
    try:
        draw(*arguments, **options)
    except OSError as error:
        raise OSError(f"standard output cannot be written ({error.strerror or error})") from error
    for path in written:
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"wrote {path_text(path)}", markup=False)


def tell(
    result: Any,
    printing: Printing,
    notes: Sequence[str],
    texts: Mapping[Path | None, str],
    plot: Path | None = None,
    size: tuple[float, float] = (6, 4.2),
) -> None:
    """Write the texts and the picture that were asked for, and show a result with a table."""
    asked = {path: text for path, text in texts.items() if path is not None}
    for path, text in asked.items():
        write_atomic(path, text)
    if plot is not None:
        watching.save_picture(lambda axes: result.plot(ax=axes), plot, size)
    written = [*asked, *([] if plot is None else [plot])]
    show(written, printing, render.tabular, result, notes, printing.verbose)


def finish(
    result: Any,
    outputs: Outputs,
    printing: Printing,
    details: bool,
    plot: Path | None,
    classes: Sequence[str] | None = None,
    wording: Wording | None = None,
) -> None:
    """Write a result to the files asked for, and show it."""
    from truecal.results.evaluation import Evaluation

    evaluated = isinstance(result, Evaluation)
    if plot is not None and not evaluated:
        raise typer.BadParameter("is for one model, the sums are of several", param_hint="--plot")
    words = None if wording is None else wording.text(result)
    written = write(result, outputs, classes, details)
    if plot is not None:
        watching.save_picture(lambda axes: result.plot(ax=axes), plot, (5, 5))
        written.append(plot)
    if words is not None:
        show(written, printing, print, words)
    elif evaluated or _is_comparison(result):
        draw = render.evaluation if evaluated else render.comparison
        show(written, printing, draw, result, verbose=printing.verbose, details=details)
    else:
        show(written, printing, render.tabular, result, verbose=printing.verbose)


def _is_comparison(result: Any) -> bool:
    from truecal.results.comparison import Comparison

    return isinstance(result, Comparison)
