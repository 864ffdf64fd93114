"""The commands evaluate and compare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from truecal.io import FileError
from truecal.io.dataset import can_stream
from truecal.io.failures import SeveralModelsError, need_extra
from truecal.io.read_file import model_columns
from truecal.io.runs import find_runs

from . import watching
from .board import Board
from .common import PARTS, File, Files, check_paths, command, finish, waiting
from .in_memory import InMemory
from .loading import expand, split_kind
from .logged_decisions import Decisions
from .sampling import Answers
from .shared_options import (
    Batching,
    Details,
    Measuring,
    OneModel,
    Outputs,
    Plot,
    Printing,
    Reading,
    SamplingOptions,
    Wording,
    split,
)
from .sources import Asked, Source
from .streaming import Batches, TokenLog
from .two_tables import TwoTables
from .warehouse import Sums

SOURCES: tuple[type[Source], ...] = (Sums, Decisions, Answers, Board, TwoTables, TokenLog, Batches, InMemory)
"""The first that a call is about measures it."""


@command()
def evaluate(
    file: File,
    reading: Reading,
    measuring: Measuring,
    one_model: OneModel,
    outputs: Outputs,
    printing: Printing,
    wording: Wording,
    batching: Batching,
    sampling: SamplingOptions,
    plot: Plot = None,
    details: Details = False,
) -> None:
    """Measure one model: accuracy, losses, the calibration gap and a calibration test.

    Examples:

    - `truecal evaluate preds.csv --html report.html`

    - `truecal evaluate submission.csv --labels solution.csv` (rows matched by id)

    - `truecal evaluate logits.npz --logits --temperature val.npz --bins 5,20`

    - `truecal evaluate preds.csv --segments region,age --advise` (where it is off)

    - `truecal evaluate grades.csv --task ordered` (or multilabel, distribution)

    - `truecal evaluate 'parts/*.parquet' --memory 2GB` (larger than memory)

    - `truecal evaluate preds.csv --explain` (three sentences to forward; `--markdown`, `--latex`: a table)

    - `truecal evaluate samples.jsonl --samples answer --question id --correct ok`

    - `truecal evaluate decisions.jsonl --labels gold.csv` (one row per question)
    """
    advise = one_model.advise or outputs.html is not None
    asked = Asked([file], reading, measuring, batching, sampling, one_model, advise)
    try:
        _run(asked, outputs, printing, details, wording, plot)
    except SeveralModelsError as error:
        if plot is not None or one_model != OneModel():
            raise
        told = replace(reading, columns=",".join(error.columns))
        asked = replace(asked, files=[file] * len(error.columns), reading=told)
        typer.echo(f"note: {file.name} has {len(error.columns)} models: compared as with truecal compare", err=True)
        _run(asked, outputs, printing, details, wording)


@command()
def compare(
    files: Files,
    reading: Reading,
    measuring: Measuring,
    outputs: Outputs,
    printing: Printing,
    wording: Wording,
    batching: Batching,
    details: Details = False,
) -> None:
    """Compare models on the same samples: which predicts better, which is miscalibrated, and how certain that is.

    One line per model, lowest loss first, then three sentences. Examples:

    - `truecal compare a.npz b.npz c.csv --labels y.npy`

    - `truecal compare small.npz large.npz --logits --temperature small-val.npz --temperature large-val.npz`

    - `truecal compare runs/ --bins 5,20,2000 --html report.html --json out.json` (all prediction files of a folder)

    - `truecal compare a.npz:logits b.npy:probs --labels y.csv --groups patient.csv`

    - `truecal compare preds.csv --columns forest,linear` (columns of one table, one model each)

    - `truecal compare logs/` (of lm-evaluation-harness or inspect_ai, several models and tasks: a leaderboard)
    """
    found = expand(files, [*reading.files, *measuring.files, *outputs.wanted.values()])
    runs = find_runs(found)
    asked = Asked(found, reading, measuring, batching, advise=outputs.html is not None, runs=runs or ())
    if runs is not None:
        asked = replace(asked, files=[run.path for run in runs])
    if len(found) == 1 and runs is None:  # models side by side in one table
        columns = split(reading.columns) or model_columns(split_kind(found[0])[0], reading.label_column)
        if len(columns) > 1:
            told = replace(reading, columns=",".join(columns))
            asked = replace(asked, files=[found[0]] * len(columns), reading=told)
    if len(asked.files) < 2:
        raise typer.BadParameter("compare needs at least two; for one model use: truecal evaluate", param_hint="FILES")
    try:
        _run(asked, outputs, printing, details, wording)
    except FileError as error:
        if len(found) == len(files) or not all(can_stream(split_kind(file)[0]) for file in found):
            raise
        raise FileError(f"{error}; {PARTS}") from error


def _run(
    asked: Asked, outputs: Outputs, printing: Printing, details: bool, wording: Wording, plot: Path | None = None
) -> None:
    """Measure one model or compare several, show what was found, and write it."""
    asked.measuring.settings()
    beside = [*asked.reading.files, *asked.measuring.files]
    check_paths([*asked.places, *beside], {**outputs.wanted, "--plot": plot})
    if plot is not None:
        watching.check_picture(plot)
    if outputs.html is not None:
        need_extra("--html", "report")
    source = next(made for kind in SOURCES if (made := kind.of(asked)) is not None)
    with waiting("measuring" if asked.one else f"comparing {len(asked.files)} models", source.rows) as progress:
        found = source.measure(progress)
    finish(found.result, outputs, printing, details, plot, found.classes, wording)
