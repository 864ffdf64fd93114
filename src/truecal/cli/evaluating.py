"""The commands evaluate and compare."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from truecal.io import FileError
from truecal.io.dataset import can_stream
from truecal.io.failures import need_extra, path_text
from truecal.io.runs import find_runs

from ..render import terminal as render
from . import board, warehouse, watching
from .common import PARTS, Details, File, Files, app, check_paths, finish, read, show, waiting, write
from .loading import expand, split_kind
from .sampling import measure_samples, sampled
from .shared_options import Measuring, Outputs, Printing, Reading, SamplingOptions, numbers, split, with_options
from .streaming import measure_tables, streamed, streamed_tokens
from .two_tables import load_forecasts, load_tables


@app.command()
@with_options
def evaluate(
    file: File,
    reading: Reading,
    measuring: Measuring,
    sampling: SamplingOptions,
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
        check_paths([file], {**outputs.wanted, "--plot": plot})
        if plot is not None:
            watching.check_picture(plot)
        if outputs.html is not None:
            need_extra("--html", "report")
        with waiting("measuring"):
            result = measure_samples(file, sampling, measuring)
        finish(result, outputs, printing, details, plot, one=True)
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
        check_paths(found, outputs.wanted)
        with waiting(f"comparing {len(runs)} logs") as progress:
            result = board.measure_board(runs, reading, measuring, progress)
        show(write(result, outputs), printing, render.leaderboard, result, verbose=printing.verbose)
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
    check_paths([file], {**outputs.wanted, "--plot": plot})
    if plot is not None:
        watching.check_picture(plot)
    if outputs.html is not None:
        need_extra("--html", "report")
    result = warehouse.read_result(file, reading, measuring)
    one = not hasattr(result, "evaluations")
    if plot is not None and not one:
        raise typer.BadParameter("is for one model, the sums are of several", param_hint="--plot")
    finish(result, outputs, printing, details, plot, one)


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
    check_paths([*(split_kind(file)[0] for file in files), *reading.files, *measuring.files], wanted)
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
            y_true, models, classes, notes = load_tables(places, reading)
            about["labels"] = classes
        else:
            if measuring.thresholds is None:
                raise typer.BadParameter("is needed: thresholds fixed before the outcomes", param_hint="--thresholds")
            y_true, models, _, notes = load_forecasts(places, reading, measuring.levels)
            about |= {"task": "auto", "thresholds": numbers(measuring.thresholds, "--thresholds")}
        with waiting(doing) as progress:
            arguments = settings | about | {"progress": progress}
            if one:
                result = tc.evaluate(y_true, next(iter(models.values())), name=next(iter(models)), **arguments)
            else:
                result = tc.compare(y_true, models, **arguments)
        result = result.with_notes(notes)
    elif (tokens := streamed_tokens(files, reading, measuring)) is not None:
        if rows_only is not None:
            raise typer.BadParameter("cannot be used with --one-pass", param_hint=rows_only)
        result = tokens
    elif (datasets := streamed(files, reading, measuring)) is not None:
        if rows_only is not None:
            raise FileError(f"{path_text(files[0])}: {rows_only} needs all rows in memory, and this table is larger")
        with waiting(doing, len(files) * datasets[0].n_rows) as progress:
            result = measure_tables(datasets, measuring, progress)
    else:
        loaded = read(files, reading)
        with waiting(doing) as progress:
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
    finish(result, outputs, printing, details, plot, one, classes)
