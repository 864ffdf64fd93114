"""The commands.

Exit codes: 0 done, 1 bad input, 2 usage, 3 rejected, gamed, alarm or no threshold, 4 no verdict or time limit,
130 Ctrl-C.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from truecal.io import FileError, write_atomic
from truecal.io.dataset import can_stream
from truecal.io.failures import need_extra, one_line, path_text
from truecal.io.runs import find_runs
from truecal.io.streams import split_member
from truecal.io.writing import check_writable, taking_turns

from . import board, render, warehouse, watching
from .borrowed_help import show_help
from .callables import find_metric, read_options
from .loading import Loaded, estimated, expand, load, split_kind
from .options import (
    Measuring,
    Outputs,
    Printing,
    Reading,
    Sampling,
    fraction,
    numbers,
    split,
    whole_numbers,
    with_options,
)
from .sampling import measure_samples, sampled
from .streaming import measure_tables, refuse_test, streamed, streamed_tokens
from .tables import load_forecasts, load_tables

REJECTED = 3
NO_VERDICT = 4
PARTS = "each file of a folder or pattern is compared as a model; a folder of parts must be called FOLDER.parquet"
USAGE: type[Exception] = typer.BadParameter.__mro__[2]  # every error of the parser, which some typers bring along

app = typer.Typer(
    name="truecal",
    help="Whether a classifier's probabilities can be trusted, with calibration errors that cannot be gamed.",
    epilog="Files: npz, npy, csv, json, jsonl, parquet, feather/arrow, xlsx, SQLite, DuckDB, pt, safetensors; logs of "
    "lm-evaluation-harness and inspect_ai.",
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)

Files = Annotated[
    list[Path],
    typer.Argument(
        help="Prediction files, one per model; folders of them; FOLDER.parquet as one; FILE:logits; FILE.db::TABLE.",
        show_default=False,
    ),
]
File = Annotated[
    Path,
    typer.Argument(
        help="A prediction file; a folder or glob of parquet; FILE:logits if it holds logits; FILE.db::TABLE.",
        show_default=False,
    ),
]
Details = Annotated[
    bool, typer.Option("--details", help="Also print all errors and bin counts, flips, dominance and discrimination.")
]


@contextmanager
def _waiting(text: str, rows: int = 0) -> Iterator[Callable[[float], None] | None]:
    """A bar with the share done and the time left while a person waits; nothing at all in a pipe.

    What it yields takes the share done; until it is called the bar only shows that something goes on. With a number of
    rows the bar also says how many are done in a second.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=None)
        began = time.monotonic()

        def show(share: float) -> None:
            speed = share * rows / max(time.monotonic() - began, 1e-9)
            said = f"{text}, {speed:,.0f} rows/s" if rows else text
            bar.update(task, total=1.0, completed=share, description=said)

        yield show


def _check_paths(inputs: Sequence[Path | None], wanted: Mapping[str, Path | None]) -> None:
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


def _read(files: Sequence[Path], reading: Reading) -> Loaded:
    given = reading.temperature or []
    if len(given) not in (0, len(files)):
        message = f"takes one validation file per model: {len(files)} models, got {len(given)}"
        raise typer.BadParameter(message, param_hint="--temperature")
    with _waiting(f"reading {len(files)} file{'s' * (len(files) > 1)}") as progress:
        return load(files, reading, progress)


def _write(result: Any, outputs: Outputs, classes: Sequence[str] | None = None, **words: str) -> list[Path]:
    """Everything is made first and written last, and each file appears whole or not at all; which were written."""
    made: dict[Path, str] = {}
    if outputs.json is not None:
        made[outputs.json] = as_json(result)
    if outputs.csv is not None:
        made[outputs.csv] = render.to_csv(result)
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


def _show(
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


@app.command()
@with_options
def evaluate(
    file: File,
    reading: Reading,
    measuring: Measuring,
    sampling: Sampling,
    outputs: Outputs,
    printing: Printing,
    details: Details = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Write the reliability diagram as a picture.")] = None,
    segments: Annotated[
        str | None,
        typer.Option(
            "--segments", help="Find miscalibrated segments of these columns (comma-separated; FILE or FILE:COLUMN)."
        ),
    ] = None,
    advise: Annotated[
        bool, typer.Option("--advise", help="Also print advice on what to do next, at most three lines.")
    ] = False,
    sums: Annotated[
        bool, typer.Option("--sums", help="FILE is the result of the second query of `truecal sql`.")
    ] = False,
) -> None:
    """Measure one model: accuracy, losses, the calibration gap and a calibration test.

    Examples:

    - `truecal evaluate preds.parquet`

    - `truecal evaluate logits.npz --logits --temperature val.npz --bins 5,20 --html report.html`

    - `truecal evaluate 'predictions/*.parquet' --memory 2GB` (larger than memory: read in batches)

    - `truecal evaluate predictions/ --workers 8`, or `--dask tcp://scheduler:8786` (several processes, or a cluster)

    - `truecal evaluate submission.csv --labels solution.csv --plot reliability.png` (rows matched by id)

    - `truecal evaluate preds.csv --segments region,age,device --advise` (where is it miscalibrated, and what to do)

    - `truecal evaluate --sums sums.csv` (predictions that stayed in a database, see `truecal sql`)

    - `truecal evaluate grades.csv --task ordered` (classes in their order: score = RPS + gap²)

    - `truecal evaluate tags.npz --task multilabel --logits` (several labels per row: a 0/1 table and one of logits)

    - `truecal evaluate rain.npz --task distribution --thresholds 0:50:26 --levels .1,.5,.9` (quantiles of a number)

    - `truecal evaluate samples.jsonl --samples answer --question id --correct correct` (a model asked several times)
    """
    if sampled(file, sampling, reading, measuring, segments, advise, sums):
        _check_paths([file], {**outputs.wanted, "--plot": plot})
        if plot is not None:
            watching.check_picture(plot)
        if outputs.html is not None:
            need_extra("--html", "report")
        with _waiting("measuring"):
            result = measure_samples(file, sampling, measuring)
        _finish(result, outputs, printing, details, plot, one=True)
        return
    if sums:
        if segments is not None or advise:
            option = "--advise" if segments is None else "--segments"
            raise typer.BadParameter("needs the rows, and sums have none", param_hint=option)
        _read_sums(file, reading, measuring, outputs, printing, details, plot)
        return
    _measure([file], reading, measuring, outputs, printing, details, plot, segments, advise)


@app.command()
@with_options
def compare(
    files: Files,
    reading: Reading,
    measuring: Measuring,
    outputs: Outputs,
    printing: Printing,
    details: Details = False,
) -> None:
    """Compare models on the same samples: which predicts better, which is miscalibrated, and how certain that is.

    One line per model, best score first, then three sentences. Examples:

    - `truecal compare a.npz b.npz c.csv --labels y.npy`

    - `truecal compare small.npz large.npz --logits --temperature small-val.npz --temperature large-val.npz`

    - `truecal compare runs/ --bins 5,20,2000 --html report.html --json out.json` (all prediction files of a folder)

    - `truecal compare a.npz:logits b.npy:probs --labels y.csv --groups patient.csv`

    - `truecal compare logs/` (of lm-evaluation-harness or inspect_ai, several models and tasks: a leaderboard)
    """
    found = expand(files, [*reading.files, *measuring.files, *outputs.wanted.values()])
    runs = find_runs(found)
    if runs is not None and len({run.task for run in runs}) > 1:
        board.refuse_options(reading, measuring, outputs)
        _check_paths(found, outputs.wanted)
        with _waiting(f"comparing {len(runs)} logs") as progress:
            result = board.measure_board(runs, reading, measuring, progress)
        _show(_write(result, outputs), printing, render.leaderboard, result, verbose=printing.verbose)
        return
    found = found if runs is None else [run.path for run in runs]
    if len(found) < 2:
        raise typer.BadParameter("compare needs at least two; for one model use: truecal evaluate", param_hint="FILES")
    try:
        _measure(found, reading, measuring, outputs, printing, details)
    except FileError as error:
        if len(found) == len(files) or not all(can_stream(split_kind(file)[0]) for file in found):
            raise
        raise FileError(f"{error}; {PARTS}") from error


def _read_sums(
    file: Path,
    reading: Reading,
    measuring: Measuring,
    outputs: Outputs,
    printing: Printing,
    details: bool,
    plot: Path | None,
) -> None:
    """Show and write what a query counted, of one model or of several."""
    _check_paths([file], {**outputs.wanted, "--plot": plot})
    if plot is not None:
        watching.check_picture(plot)
    if outputs.html is not None:
        need_extra("--html", "report")
    result = warehouse.read_result(file, reading, measuring)
    one = not hasattr(result, "evaluations")
    if plot is not None and not one:
        raise typer.BadParameter("is for one model, the sums are of several", param_hint="--plot")
    _finish(result, outputs, printing, details, plot, one)


def _measure(
    files: list[Path],
    reading: Reading,
    measuring: Measuring,
    outputs: Outputs,
    printing: Printing,
    details: bool,
    plot: Path | None = None,
    segments: str | None = None,
    advise: bool = False,
) -> None:
    """Measure one model or compare several, from memory or in batches; show what was found, and write it."""
    import truecal as tc

    settings, one = measuring.settings(), len(files) == 1
    wanted = {**outputs.wanted, "--plot": plot}
    _check_paths([*(split_kind(file)[0] for file in files), *reading.files, *measuring.files], wanted)
    if plot is not None:
        watching.check_picture(plot)
    if outputs.html is not None:
        need_extra("--html", "report")
    doing, classes = "measuring" if one else f"comparing {len(files)} models", None
    result: Any
    rows_only = None if segments is None and not advise else "--advise" if segments is None else "--segments"
    if measuring.task in ("multilabel", "distribution"):
        if rows_only is not None:
            raise typer.BadParameter(f"cannot be used with --task {measuring.task}", param_hint=rows_only)
        for option, given in (("--by", measuring.by), ("--groups", measuring.groups), ("--weights", measuring.weights)):
            if given is not None:
                raise typer.BadParameter(f"cannot be used with --task {measuring.task}; use Python", param_hint=option)
        places = [split_kind(file)[0] for file in files]
        about: dict[str, Any] = {"errors": split(measuring.errors)}
        if measuring.task == "multilabel":
            y_true, models, classes = load_tables(places, reading)
            about["labels"] = classes
        else:
            if measuring.thresholds is None:
                raise typer.BadParameter("is needed: thresholds fixed before the outcomes", param_hint="--thresholds")
            y_true, models = load_forecasts(places, reading, measuring.levels)
            about |= {"task": "auto", "thresholds": numbers(measuring.thresholds, "--thresholds")}
        with _waiting(doing) as progress:
            arguments = settings | about | {"progress": progress}
            if one:
                result = tc.evaluate(y_true, next(iter(models.values())), name=next(iter(models)), **arguments)
            else:
                result = tc.compare(y_true, models, **arguments)
    elif (tokens := streamed_tokens(files, reading, measuring)) is not None:
        if rows_only is not None:
            raise typer.BadParameter("cannot be used with --one-pass", param_hint=rows_only)
        result = tokens
    elif (datasets := streamed(files, reading, measuring)) is not None:
        if rows_only is not None:
            raise FileError(f"{path_text(files[0])}: {rows_only} needs all rows in memory, and this table is larger")
        with _waiting(doing, len(files) * datasets[0].n_rows) as progress:
            result = measure_tables(datasets, measuring, progress)
    else:
        loaded = _read(files, reading)
        with _waiting(doing) as progress:
            arguments = settings | loaded.arguments(measuring) | {"progress": progress}
            if one:
                name, model = next(iter(loaded.models.items()))
                if segments is not None:
                    arguments["features"] = loaded.features(segments)
                arguments["advise"] = advise or outputs.html is not None
                result = tc.evaluate(loaded.y_true, model, name=name, **arguments)
            else:
                result = tc.compare(loaded.y_true, loaded.models, **arguments)
        result, classes = result.with_notes(loaded.notes), loaded.classes
    _finish(result, outputs, printing, details, plot, one, classes)


def _finish(
    result: Any,
    outputs: Outputs,
    printing: Printing,
    details: bool,
    plot: Path | None,
    one: bool,
    classes: Sequence[str] | None = None,
) -> None:
    """Write a result to the files asked for, and show it."""
    written = _write(result, outputs, classes)
    if plot is not None:
        watching.save_picture(lambda axes: result.plot(ax=axes), plot, (5, 5))
        written.append(plot)
    draw: Callable[..., None] = render.evaluation if one else render.comparison
    _show(written, printing, draw, result, details=details, verbose=printing.verbose)


@app.command("test")
@with_options
def run_calibration_test(
    file: File,
    reading: Reading,
    printing: Printing,
    alpha: Annotated[float, typer.Option("--alpha", help="Reject at this p-value or below.")] = 0.05,
    error: Annotated[str | None, typer.Option("--error", help="Which error's U is tested; see tc.ERRORS.")] = None,
    bins: Annotated[str | None, typer.Option("--bins", help="Bin counts, comma-separated, such as 5,20.")] = None,
    n_resamples: Annotated[
        int | None, typer.Option("--resamples", help="Draws under calibration; 999, fewer with many rows.", min=1)
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draws.", min=0)] = 0,
    max_gap: Annotated[
        float | None, typer.Option("--max-gap", help="Points that are tolerated: reject only if the gap exceeds them.")
    ] = None,
) -> None:
    """Test whether one model is calibrated; exit code 3 when it is rejected, for use in pipelines.

    With many rows every model is rejected: --max-gap 3 rejects only where the gap is significantly above 3 points.
    Examples:

    - `truecal test preds.npz --alpha 0.01 && deploy`

    - `truecal test preds.parquet --max-gap 3 && deploy`

    - `truecal test preds.csv --error confidence --bins 5,20`
    """
    from truecal.core.errors import COMPOSED

    alpha = fraction(alpha, "--alpha")
    of_files = {"multiclass", "binary", "top_label", "ordered"}  # outcomes of files are classes
    offered = [name for name, of in COMPOSED.items() if of_files & {*of.property.kinds}]
    if error is not None and error not in offered:
        raise typer.BadParameter(f"expected one of {', '.join(offered)}, got {error!r}", param_hint="--error")
    if max_gap is not None and not 0 <= max_gap < 100:
        raise typer.BadParameter(f"expected points from 0 to 100, got {max_gap:g}", param_hint="--max-gap")
    if n_resamples is not None and max_gap is None and 1 / (1 + n_resamples) > alpha:
        needed = math.ceil(1 / alpha) - 1
        raise typer.BadParameter(
            f"{n_resamples} draws can never give p <= {alpha:g}: at least {needed} are needed", param_hint="--resamples"
        )
    counts = Measuring(bins=bins).counts
    refuse_test(file, reading)
    loaded = _read([file], reading)
    if loaded.first.groups is not None:
        raise FileError(
            f"{path_text(file)}: the test needs independent rows, and those of one image or sequence are not: "
            f"run truecal evaluate {path_text(file)}, which takes them as groups"
        )
    with _waiting("drawing labels from the predictions") as progress:
        result = loaded.test(error, counts, n_resamples, seed, progress, max_gap, 1 - alpha)
    _show([], printing, render.calibration_test, result, alpha, loaded.notes, printing.verbose)
    if result.pvalue <= alpha if result.passed is None else not result.passed:
        raise typer.Exit(REJECTED)


@app.command()
@with_options
def recalibrate(
    validation: Annotated[Path, typer.Argument(help="Labelled predictions to fit the map on: not the test rows.")],
    test: Annotated[Path, typer.Argument(help="Predictions to recalibrate, of the same model.")],
    out: Annotated[Path, typer.Option("--out", help="Write the result: .npz, .csv or .parquet.")],
    reading: Reading,
    printing: Printing,
    method: Annotated[
        str,
        typer.Option(
            "--method", help="temperature, platt, beta, isotonic, venn_abers, ...; auto chooses by the score."
        ),
    ] = "auto",
) -> None:
    """Fit a recalibration map on one file, apply it to another, and write the result.

    If the test file has labels (or --labels), predictions are measured before and after. Examples:

    - `truecal recalibrate val.npz test.npz --out calibrated.npz`

    - `truecal recalibrate val.csv test.csv --method beta --out calibrated.csv`
    """
    import truecal as tc

    need_extra("recalibrate", "recalibration")
    from . import recalibrating

    recalibrating.check_output(out, method)
    _check_paths([validation, test, *reading.files], {"--out": out})
    with _waiting("reading and fitting"):
        found = recalibrating.recalibrated(validation, test, reading, method)
    result = None
    if found.test.y_true is not None:
        with _waiting("measuring") as progress:
            result = tc.compare(found.test.y_true, found.models(), progress=progress).with_notes(found.notes)
    recalibrating.write(found, out)
    _show([out], printing, render.recalibration, found.headline, result, found.notes, printing.verbose)


@app.command("threshold")
@with_options
def find_threshold(
    file: File,
    reading: Reading,
    printing: Printing,
    risk: Annotated[float, typer.Option("--risk", help="The largest error among accepted rows.")] = 0.05,
    delta: Annotated[float, typer.Option("--delta", help="The largest probability that the error exceeds it.")] = 0.05,
    groups: Annotated[str | None, typer.Option("--groups", help="Clusters: a column, FILE or FILE:COLUMN.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Write risk against coverage as a picture.")] = None,
) -> None:
    """Which predictions may be acted on? The loosest confidence threshold whose error is at most --risk.

    The guarantee holds with probability 1 − delta. Exit code 3 when no threshold keeps the risk. Examples:

    - `truecal threshold preds.parquet --risk 0.05`

    - `truecal threshold preds.csv --risk 0.01 --delta 0.1 --plot risk.png`
    """
    risk, delta = fraction(risk, "--risk"), fraction(delta, "--delta")
    _check_paths([split_kind(file)[0], *reading.files], {"--json": json, "--plot": plot})
    if plot is not None:
        watching.check_picture(plot)
    loaded = _read([file], reading)
    result = loaded.threshold(risk, delta, groups)
    if json is not None:
        write_atomic(json, as_json(result))
    if plot is not None:
        watching.save_picture(lambda axes: result.plot(ax=axes), plot, (6, 4.2))
    written = [path for path in (plot, json) if path is not None]
    _show(written, printing, render.threshold, result, loaded.notes, printing.verbose)
    if result.threshold is None:
        raise typer.Exit(REJECTED)


@app.command("estimate")
@with_options
def run_estimate(
    labelled: Annotated[Path, typer.Argument(help="Predictions with labels: a random draw of the others.")],
    unlabelled: Annotated[Path, typer.Argument(help="Predictions without labels, of the same model.")],
    reading: Reading,
    printing: Printing,
    cost: Annotated[
        str | None, typer.Option("--cost", help="Cost of a false positive and of a false negative, such as 1,5.")
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Level of the intervals.")] = 0.95,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Write the estimates as a picture.")] = None,
) -> None:
    """How good is a model on rows nobody labelled? Accuracy, positive rate, Brier score and cost there, with intervals.

    **The labelled rows must be a random draw from the same population as the others.** Examples:

    - `truecal estimate labelled.csv unlabelled.csv`

    - `truecal estimate labelled.parquet week.parquet --cost 1,5 --json estimate.json`
    """
    level = fraction(level, "--level")
    _check_paths([labelled, unlabelled, *reading.files], {"--json": json, "--plot": plot})
    if plot is not None:
        watching.check_picture(plot)
    costs = None if cost is None else numbers(cost, "--cost", "1,5")
    result, notes = estimated(labelled, unlabelled, reading, costs, level)
    if json is not None:
        write_atomic(json, as_json(result))
    if plot is not None:
        watching.save_picture(lambda axes: result.plot(ax=axes), plot, (6, 3.2))
    written = [path for path in (plot, json) if path is not None]
    _show(written, printing, render.estimate, result, notes, printing.verbose)


@app.command("monitor")
@with_options
def run_monitor(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Prediction files of one model, in order; folders of them; FOLDER.parquet as one; FILE:logits.",
            show_default=False,
        ),
    ],
    reading: Reading,
    printing: Printing,
    state: Annotated[Path, typer.Option("--state", help="The file that keeps the monitor; the first run creates it.")],
    reference: Annotated[
        Path | None, typer.Option("--reference", help="Labelled predictions from when the model was accepted.")
    ] = None,
    alpha: Annotated[
        float | None, typer.Option("--alpha", help="Largest chance of any false alarm. Default: 0.05.")
    ] = None,
    replaced: Annotated[
        bool, typer.Option("--replaced", help="Treat a file whose counted rows have changed as a new file.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Count rows again that a file of another name already brought.")
    ] = False,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Write a picture of the evidence over the rows.")] = None,
    fix: Annotated[
        Path | None, typer.Option("--fix", help="After an alarm, write the map that repairs recent rows, as JSON.")
    ] = None,
) -> None:
    """Is a deployed model still calibrated? Counts labelled predictions as they arrive; exit code 3 after an alarm.

    Files are counted in the order given, those of a folder by name, and each row once: of a file that has grown only
    the new rows, of a copy or a renamed file none. Run it as often as you like: if the predictions are calibrated, the
    chance that it ever raises an alarm is at most alpha. After an alarm it advises an offset, a temperature or a refit,
    from the last rows of the files; `tc.load_map` applies what --fix writes. Examples:

    - `truecal monitor predictions/ --state monitor.npz`

    - `truecal monitor log.csv --state release.npz --reference accepted.csv` (the first run)

    - `truecal monitor log.csv --state release.npz --plot release.png --fix map.json || notify` (for cron)
    """
    outputs = {"--state": state, "--json": json, "--plot": plot, "--fix": fix}
    files = expand(files, [*reading.files, reference, *outputs.values()])
    _check_paths([*(split_kind(file)[0] for file in files), *reading.files, reference], outputs)
    if plot is not None:
        watching.check_picture(plot)
    if reading.labels is not None and len(files) > 1:
        raise typer.BadParameter(f"is for one file of predictions, got {len(files)}", param_hint="--labels")
    with taking_turns(state):
        watched = watching.opened(state, reference, alpha, reading, _read)
        counted = [watching.count(watched, file, reading, _read, replaced, again) for file in files]
        new, notes = sum(rows for rows, _ in counted), [words for _, words in counted]
        if not new and not watched.files:
            raise FileError(f"{path_text(files[0])}: no rows; a new state needs at least one")
        if len(files) > 1:
            notes.insert(0, f"{new} new rows in {len(files)} files")
        result = replace(watched.result(), new=new)
        advice = watching.advice(watched, files, reading, _read) if result.alarm else None
        if isinstance(advice, str):
            notes.append(advice)
            advice = None
        if plot is not None:
            watching.draw(watched, plot)
        if json is not None:
            found = result.to_dict() | ({} if advice is None else {"advice": advice.to_dict()})
            write_atomic(json, json_text(found))
        if fix is not None and advice is not None:
            advice.map.save(fix)
        watched.save(state)  # the last thing that can fail: a run that fails has counted nothing
    written = [path for path in (plot, json, None if advice is None else fix) if path is not None]
    _show(written, printing, render.monitoring, result, notes, printing.verbose, advice)
    if result.alarm:
        raise typer.Exit(REJECTED)


@app.command("sql")
@with_options
def print_queries(wanted: warehouse.Warehouse) -> None:
    """Print the two queries that measure predictions where they are: in DuckDB, BigQuery, Snowflake, Spark, Postgres.

    The first gives quantile bins and may be left out; the result of the second is read by `truecal evaluate --sums`.
    From Python `tc.sql.evaluate` runs both. Examples:

    - `truecal sql --dialect bigquery --table project.set.predictions --label y --columns p0,p1,p2 --id row_id`

    - `truecal sql --dialect snowflake --table predictions --label y --columns p --id id --edges edges.csv`

    - `truecal sql --dialect spark --table logs --label y --predicted top --confidence c --id id --by country`
    """
    need_extra("sql", "sql")
    print(warehouse.write_queries(wanted), end="")


@app.command()
def audit(
    metric: Annotated[
        str, typer.Argument(help="A member of tc.ERRORS or tc.LOSSES, or module:callable.", show_default=False)
    ],
    option: Annotated[list[str] | None, typer.Option("-k", help="An option of the metric, name=value.")] = None,
    classes: Annotated[
        str | None, typer.Option("--classes", help="Numbers of classes, comma-separated; 2,3 unless told.")
    ] = None,
    outcomes: Annotated[
        Literal["classes", "ordered", "labels", "numbers"],
        typer.Option("--outcomes", help="What the metric takes: classes, tables of labels, or numbers by thresholds."),
    ] = "classes",
    convention: Annotated[str, typer.Option("--convention", help="y_true_first or preds_first.")] = "y_true_first",
    higher_is_better: Annotated[
        bool, typer.Option("--higher-is-better", help="Larger values are better, as for accuracy.")
    ] = False,
    logits: Annotated[bool, typer.Option("--logits", help="The metric takes log-probabilities.")] = False,
    budget: Annotated[
        str, typer.Option("--budget", help="quick, default, thorough, or a number of calls.")
    ] = "default",
    seconds: Annotated[float, typer.Option("--seconds", help="Time limit in seconds.", min=1)] = 100.0,
    seed: Annotated[int, typer.Option("--seed", help="Seed of drawn worlds and outcomes.", min=0)] = 0,
    html: Annotated[Path | None, typer.Option("--html", help="Write a self-contained page.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write all results as JSON.")] = None,
    script: Annotated[Path | None, typer.Option("--script", help="Write a script that checks the proof.")] = None,
) -> None:
    """Does a metric reward misreporting? Searches for a prediction that scores better than the truth; exit code 3 when
    one is found, 4 when there is no verdict (the metric is not deterministic, or the time limit was reached).

    The metric is imported and called, so its code runs. Examples:

    - `truecal audit confidence_l1`

    - `truecal audit sklearn.metrics:brier_score_loss --classes 2`

    - `truecal audit torchmetrics.functional.classification:multiclass_calibration_error --convention preds_first
    -k num_classes=3`

    - `truecal audit netcal.metrics:ECE.measure -k bins=10 --convention preds_first`
    """
    import truecal as tc

    _check_paths([], {"--html": html, "--json": json, "--script": script})
    call, options = find_metric(metric, read_options(option or []))
    with _waiting("searching for a misreport that scores better") as progress:
        result = tc.audit(
            call,
            classes=None if classes is None else whole_numbers(classes, "--classes"),
            outcomes=outcomes,
            convention=cast(Any, convention),
            higher_is_better=higher_is_better,
            metric_options=options,
            input="logits" if logits else "probabilities",
            budget=int(budget) if budget.isdecimal() else cast(Any, budget),
            seconds=seconds,
            seed=seed,
            progress=progress,
        )
    result = replace(result, metric=metric)
    made: dict[Path, str] = {}
    if html is not None:
        made[html] = result.to_html()
    if json is not None:
        made[json] = as_json(result)
    if script is not None and result.proof is not None:
        both = [result.snippet(lasting=True)] if result.lasting is not None else []
        made[script] = "\n\n".join([*both, result.snippet()]) + "\n"
    for path, text in made.items():
        write_atomic(path, text)
    _show(list(made), Printing(), render.audit, result)
    if result.verdict == "gamed":
        raise typer.Exit(REJECTED)
    if result.verdict == "no verdict":
        raise typer.Exit(NO_VERDICT)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder for the files and the report.")] = Path("demo"),
) -> None:
    """Compare ten models and a cheat that predicts class frequencies on bundled data, by ECE and by the score.

    Trains, compares and writes a report page, in about a minute.
    """
    need_extra("demo", "recalibration", "report")
    from truecal.lab.datasets import letter
    from truecal.lab.demo import TITLE, run_demo, story

    outputs = Outputs(out / "report.html", out / "results.json", out / "results.csv")
    out.mkdir(parents=True, exist_ok=True)
    _check_paths([], outputs.wanted)
    with _waiting("eleven models of letters") as progress:
        result = run_demo(out, progress)
    result = result.with_notes([f"Letter Recognition (D. Slate, UCI, CC BY 4.0); predictions in {path_text(out)}"])
    written = _write(result, outputs, letter().classes, title=TITLE, intro=story(result))
    _show(written, Printing(), render.comparison, result, story=story(result))


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def reproduce(context: typer.Context) -> None:
    """Run the paper's experiment end to end, or draw its figures from stored logits; see `truecal reproduce --help`."""
    need_extra("reproduce", "lab")
    from truecal.lab.__main__ import main as lab
    from truecal.lab.__main__ import parser

    if {"--help", "-h"} & {*context.args}:
        show_help(parser("truecal reproduce"))
        raise typer.Exit
    raise typer.Exit(lab(context.args, prog="truecal reproduce"))


def run() -> int:
    """The exit code of one invocation: bad input is one line on standard error, never a traceback."""
    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
        return code if isinstance(code, int) else 0
    except SystemExit as leaving:
        asked = not sys.argv[1:] or {"--help", "--version"} & {*sys.argv[1:]}
        if leaving.code == 1 and asked:
            return 0  # whoever reads the help has left before its end, as head does
        return leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
    except USAGE as problem:
        return _refused(getattr(problem, "format_message", problem.__str__)(), 2)
    except MemoryError as problem:
        return _refused(f"not enough memory: {problem or 'the allocation failed'}", 1)
    except (ValueError, TypeError, OSError, ImportError) as problem:
        return _refused(str(problem) or type(problem).__name__, 1)


def _refused(what: str, code: int) -> int:
    with suppress(OSError):  # a full disk under standard error
        print(f"error: {one_line(what, 2000)}", file=sys.stderr, flush=True)
    return code
