"""The commands, their options and their exit codes: 0 done, 1 bad input, 2 usage, 3 calibration rejected."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from truecal.io import FileError
from truecal.io.failures import one_line, path_text

from . import render
from .loading import Loaded, load

REJECTED = 3

app = typer.Typer(
    name="truecal",
    help="Whether a classifier's probabilities can be trusted, with calibration errors that cannot be gamed.",
    epilog="Files: npz, npy, csv, parquet, feather/arrow, pt, safetensors, and jsonl sample logs of multiple choice.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

Files = Annotated[list[Path], typer.Argument(help="Prediction files, one per model.", show_default=False)]
File = Annotated[Path, typer.Argument(help="A prediction file.", show_default=False)]
Labels = Annotated[Path | None, typer.Option("--labels", help="Labels, when they are in a file of their own.")]
LabelColumn = Annotated[str | None, typer.Option("--label-column", help="The column or key that holds the labels.")]
Columns = Annotated[
    str | None, typer.Option("--columns", help="Columns or keys of the probabilities, comma-separated.")
]
Logits = Annotated[bool, typer.Option("--logits", help="The numbers are logits; softmax is applied.")]
Temperature = Annotated[
    list[Path] | None,
    typer.Option(
        "--temperature",
        help="Validation logits to fit a temperature on, one file per model, in order. Never the test labels.",
    ),
]
Bins = Annotated[str | None, typer.Option("--bins", help="Bin counts, comma-separated, such as 5,20,2000.")]
Html = Annotated[Path | None, typer.Option("--html", help="Write a self-contained report page.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write all results as JSON.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write a row per model, error and bin count.")]
Resamples = Annotated[int | None, typer.Option("--resamples", help="Draws of the calibration test.", min=1)]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the draws.", min=0)]
Level = Annotated[float, typer.Option("--level", help="Level of the intervals.")]
Details = Annotated[bool, typer.Option("--details", help="Every error as loss + U, bin counts, flips, dominance.")]


def _bins(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise typer.BadParameter(f"expected whole numbers such as 5,20,2000, got {text!r}", param_hint="--bins")
    return counts


@contextmanager
def _waiting(text: str) -> Iterator[Callable[[float], None] | None]:
    """A bar with the share done and the time left while a person waits; nothing at all in a pipe.

    What it yields takes the share done; until it is called the bar only shows that something goes on.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=None)
        yield lambda share: bar.update(task, total=1.0, completed=share)


def _check_outputs(inputs: Sequence[Path | None], outputs: dict[str, Path | None]) -> None:
    """Before any work: every output can be written, none is an input, no two are the same file."""
    taken = {os.path.realpath(path): "an input" for path in inputs if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        place = os.path.realpath(path)
        if place in taken:
            raise typer.BadParameter(f"{path} is {taken[place]} already", param_hint=option)
        if not os.path.isdir(os.path.dirname(place)):
            raise FileError(f"{path}: expected to write into the folder {os.path.dirname(place)}, which does not exist")
        if os.path.isdir(place):
            raise FileError(f"{path}: expected a file to write, it is a folder")
        taken[place] = f"the output of {option}"
    if outputs.get("--html") is not None:
        import truecal.report.page  # noqa: F401  # a missing extra is said before the work, not after


def _fraction(value: float, option: str) -> float:
    if not 0 < value < 1:
        raise typer.BadParameter(f"expected a number between 0 and 1, got {value:g}", param_hint=option)
    return value


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


def _read(
    files: list[Path],
    labels: Path | None,
    label_column: str | None,
    columns: str | None,
    logits: bool,
    temperature: list[Path] | None,
) -> Loaded:
    given = temperature or []
    if len(given) not in (0, len(files)):
        message = f"takes one validation file per model: {len(files)} models, got {len(given)}"
        raise typer.BadParameter(message, param_hint="--temperature")
    names = None if columns is None else tuple(part.strip() for part in columns.split(","))
    with _waiting(f"reading {len(files)} file{'s' * (len(files) > 1)}"):
        return load(files, labels=labels, label_column=label_column, columns=names, logits=logits, temperature=given)


def _write(result: Any, outputs: dict[str, Path | None], classes: Sequence[str] | None = None, **words: str) -> None:
    """Everything is made first and written last, and each file appears whole or not at all."""
    import json

    from truecal.io import write_atomic

    made: dict[Path, str] = {}
    if (path := outputs.get("--json")) is not None:
        made[path] = json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n"
    if (path := outputs.get("--csv")) is not None:
        made[path] = render.to_csv(result)
    if (path := outputs.get("--html")) is not None:
        from truecal.report import render_report

        made[path] = render_report(result, classes=classes, **words)
    for path, text in made.items():
        write_atomic(path, text)
        Console(stderr=True, highlight=False, soft_wrap=True).print(f"wrote {path_text(path)}", markup=False)


@app.command()
def evaluate(
    file: File,
    labels: Labels = None,
    label_column: LabelColumn = None,
    columns: Columns = None,
    logits: Logits = False,
    temperature: Temperature = None,
    bins: Bins = None,
    by: Annotated[Path | None, typer.Option("--by", help="A file with one subgroup per row.")] = None,
    by_column: Annotated[str | None, typer.Option("--by-column", help="The column of --by to group by.")] = None,
    html: Html = None,
    json: Json = None,
    csv: Csv = None,
    resamples: Resamples = None,
    seed: Seed = 0,
    level: Level = 0.95,
    details: Details = False,
) -> None:
    """Measure one model: how often it is right, how far its probabilities are off, and whether they are calibrated.

    Examples:

    - `truecal evaluate preds.parquet`

    - `truecal evaluate logits.npz --logits --temperature val.npz --bins 5,20 --html report.html`
    """
    import truecal as tc
    from truecal.io import read_labels

    counts, level = _bins(bins), _fraction(level, "--level")
    outputs = {"--html": html, "--json": json, "--csv": csv}
    _check_outputs([file, labels, by, *(temperature or [])], outputs)
    loaded = _read([file], labels, label_column, columns, logits, temperature)
    with _waiting("measuring") as progress:
        name, model = next(iter(loaded.models.items()))
        result = tc.evaluate(
            loaded.y_true,
            model,
            name=name,
            n_bins=counts or "auto",
            errors=loaded.errors,
            by=None if by is None else read_labels(by, label_column=by_column),
            resamples=resamples,
            seed=seed,
            level=level,
            progress=progress,
        ).with_notes(loaded.notes)
    render.evaluation(result, details=details)
    _write(result, outputs, loaded.classes)


@app.command()
def compare(
    files: Files,
    labels: Labels = None,
    label_column: LabelColumn = None,
    columns: Columns = None,
    logits: Logits = False,
    temperature: Temperature = None,
    bins: Bins = None,
    html: Html = None,
    json: Json = None,
    csv: Csv = None,
    resamples: Resamples = None,
    seed: Seed = 0,
    level: Level = 0.95,
    details: Details = False,
) -> None:
    """Compare models on the same samples: who predicts better, who is miscalibrated, and how sure that is.

    One line a model, best score first, then what it means in three sentences. Examples:

    - `truecal compare a.npz b.npz c.csv --labels y.npy`

    - `truecal compare small.npz large.npz --logits --temperature small-val.npz --temperature large-val.npz`

    - `truecal compare runs/*.parquet --bins 5,20,2000 --html report.html --json out.json`
    """
    import truecal as tc

    if len(files) < 2:
        raise typer.BadParameter("compare needs at least two; for one model use: truecal evaluate", param_hint="FILES")
    counts, level = _bins(bins), _fraction(level, "--level")
    outputs = {"--html": html, "--json": json, "--csv": csv}
    _check_outputs([*files, labels, *(temperature or [])], outputs)
    loaded = _read(files, labels, label_column, columns, logits, temperature)
    with _waiting(f"comparing {len(files)} models") as progress:
        result = tc.compare(
            loaded.y_true,
            loaded.models,
            n_bins=counts or "auto",
            errors=loaded.errors,
            resamples=resamples,
            seed=seed,
            level=level,
            progress=progress,
        ).with_notes(loaded.notes)
    render.comparison(result, details=details)
    _write(result, outputs, loaded.classes)


@app.command("test")
def run_calibration_test(
    file: File,
    alpha: Annotated[float, typer.Option("--alpha", help="Reject at this p-value or below.")] = 0.05,
    error: Annotated[str | None, typer.Option("--error", help="Which error's U is tested; see tc.ERRORS.")] = None,
    labels: Labels = None,
    label_column: LabelColumn = None,
    columns: Columns = None,
    logits: Logits = False,
    temperature: Temperature = None,
    bins: Bins = None,
    resamples: Annotated[int, typer.Option("--resamples", help="Draws under calibration.", min=1)] = 999,
    seed: Seed = 0,
) -> None:
    """Test whether one model is calibrated; exit code 3 when it is rejected, for use in pipelines.

    Examples:

    - `truecal test preds.npz --alpha 0.01 && deploy`

    - `truecal test preds.csv --error confidence --bins 5,20`
    """
    from truecal.core.errors import ERRORS

    alpha = _fraction(alpha, "--alpha")
    if error is not None and error not in ERRORS:
        raise typer.BadParameter(f"expected one of {', '.join(ERRORS)}, got {error!r}", param_hint="--error")
    if 1 / (1 + resamples) > alpha:
        needed = math.ceil(1 / alpha) - 1
        raise typer.BadParameter(
            f"{resamples} draws can never give p <= {alpha:g}: at least {needed} are needed", param_hint="--resamples"
        )
    counts = _bins(bins)
    loaded = _read([file], labels, label_column, columns, logits, temperature)
    with _waiting("drawing labels from the predictions"):
        result = loaded.test(error, n_bins=counts, resamples=resamples, seed=seed)
    rejected = result.pvalue <= alpha
    render.calibration_test(result, alpha, rejected)
    if rejected:
        raise typer.Exit(REJECTED)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Where files and the report go.")] = Path("demo"),
) -> None:
    """Ten honest models and a cheat that knows nothing, on the bundled Letter data: who wins by ECE, and who by score?

    Trains, compares and writes a report page, in about a minute.
    """
    from truecal.lab.datasets import letter
    from truecal.lab.demo import TITLE, run_demo, story

    with _waiting("eleven models of letters") as progress:
        result = run_demo(out, progress)
    result = result.with_notes([f"Letter Recognition (D. Slate, UCI, CC BY 4.0); predictions in {out}"])
    render.comparison(result, story=story(result))
    outputs: dict[str, Path | None] = {
        "--html": out / "report.html",
        "--json": out / "results.json",
        "--csv": out / "results.csv",
    }
    _write(result, outputs, letter().classes, title=TITLE, intro=story(result))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def reproduce(context: typer.Context) -> None:
    """Run the paper's experiment end to end, or draw its figures from stored logits; see `truecal reproduce --help`."""
    from truecal.lab.__main__ import main as lab

    raise typer.Exit(lab(context.args, prog="truecal reproduce"))


def run() -> int:
    """The exit code of one invocation: bad input is one line on standard error, never a traceback."""
    try:
        app()
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as problem:
        print(f"error: {one_line(str(problem) or type(problem).__name__, 2000)}", file=sys.stderr)
        return 1
    return 0
