"""Options that several commands share, in groups: each group is a dataclass whose fields are the options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import numpy as np
import typer
from typer import Option

from truecal.io.streams import split_member


@dataclass(frozen=True)
class Reading:
    """What the files hold, and where the labels are."""

    labels: Annotated[Path | None, Option("--labels", help="Labels, when they are in another file.")] = None
    label_column: Annotated[str | None, Option("--label-column", help="The column or key of the labels.")] = None
    columns: Annotated[str | None, Option("--columns", help="Columns or keys of predictions, comma-separated.")] = None
    id: Annotated[
        str | None, Option("--id", help="The column that rows of several files are matched by.", show_default=False)
    ] = None
    no_id: Annotated[bool, Option("--no-id", help="Rows of all files are in the same order.")] = False
    logits: Annotated[bool, Option("--logits", help="The numbers are logits; softmax is applied.")] = False
    label_base: Annotated[int, Option("--label-base", help="Label indices count from 0 or from 1.")] = 0
    normalize: Annotated[bool, Option("--normalize", help="Rescale rows to sum to 1 (for rounded probabilities).")] = (
        False
    )
    percent: Annotated[bool, Option("--percent", help="The probabilities run from 0 to 100.")] = False
    odds: Annotated[bool, Option("--odds", help="The numbers are a bookmaker's decimal odds.")] = False
    class_axis: Annotated[
        int | None, Option("--class-axis", help="The axis of the classes, for arrays of images or sequences.")
    ] = None
    drop_incomplete: Annotated[
        bool, Option("--drop-incomplete", help="Drop rows without a prediction and print how many.")
    ] = False
    header: Annotated[
        bool | None,
        Option("--header/--no-header", help="Whether the first line of a csv holds names.", show_default=False),
    ] = None
    length_normalized: Annotated[
        bool,
        Option(
            "--length-normalized",
            help="For logs of multiple-choice questions: divide log-likelihoods by the length of the answer.",
        ),
    ] = False
    temperature: Annotated[
        list[Path] | None,
        Option(
            "--temperature",
            help="Validation logits to fit a temperature on, one file per model, in order. Not the test file.",
        ),
    ] = None

    @property
    def files(self) -> tuple[Path | None, ...]:
        """The files that are read beside the predictions."""
        return (self.labels, *(self.temperature or ()))

    @property
    def arguments(self) -> dict[str, Any]:
        """The options of `read_predictions`, but for the labels."""
        same = ("label_column", "logits", "label_base", "normalize", "percent", "drop_incomplete", "header")
        options = {name: getattr(self, name) for name in (*same, "length_normalized", "odds", "class_axis")}
        return {**options, "proba_columns": split(self.columns), "id_column": self.id_column}

    @property
    def id_column(self) -> str | Literal[False] | None:
        """What rows are matched by, as `read_predictions` takes it."""
        if self.id is not None and self.no_id:
            raise typer.BadParameter("cannot be combined with --id", param_hint="--no-id")
        return False if self.no_id else self.id


@dataclass(frozen=True)
class Measuring:
    """How `evaluate` and `compare` measure."""

    task: Annotated[
        Literal["auto", "ordered", "multilabel", "distribution"],
        Option(
            "--task",
            help="ordered: ordinal classes. multilabel: several labels per row. distribution: forecasts of a number.",
        ),
    ] = "auto"
    thresholds: Annotated[
        str | None,
        Option("--thresholds", help="For --task distribution: 1,2,5 or LOW:HIGH:COUNT, not taken from these outcomes."),
    ] = None
    levels: Annotated[str | None, Option("--levels", help="The columns are quantiles at these levels.")] = None
    errors: Annotated[str | None, Option("--errors", help="Errors to measure, comma-separated; see tc.ERRORS.")] = None
    by: Annotated[str | None, Option("--by", help="Subgroups: columns, comma-separated, FILE or FILE:COLUMN.")] = None
    groups: Annotated[str | None, Option("--groups", help="Clusters: a column, FILE or FILE:COLUMN.")] = None
    weights: Annotated[str | None, Option("--weights", help="Weights: a column, FILE or FILE:COLUMN.")] = None
    bins: Annotated[str | None, Option("--bins", help="Bin counts, comma-separated, such as 5,20,2000.")] = None
    n_resamples: Annotated[int | None, Option("--resamples", help="Draws of the calibration test.", min=1)] = None
    seed: Annotated[int, Option("--seed", help="Seed of the draws.", min=0)] = 0
    level: Annotated[float, Option("--level", help="Level of the intervals.")] = 0.95
    memory: Annotated[
        str | None,
        Option(
            "--memory",
            help="Memory limit, such as 2GB; larger tables are read in batches. Default: a quarter of the free memory.",
        ),
    ] = None
    one_pass: Annotated[
        bool, Option("--one-pass", help="Read the table once, in batches, with bins of equal width.")
    ] = False
    dask: Annotated[
        str | None, Option("--dask", help="Process parquet files on the Dask cluster at this address, tcp://HOST:PORT.")
    ] = None
    workers: Annotated[
        int | None,
        Option(
            "--workers", help="Process parquet files in this many processes on this machine, if that is faster.", min=1
        ),
    ] = None

    @property
    def counts(self) -> tuple[int, ...] | None:
        return None if self.bins is None else whole_numbers(self.bins, "--bins", "5,20,2000")

    def settings(self) -> dict[str, Any]:
        """The arguments of `tc.evaluate` and `tc.compare` that no file is needed for."""
        level = fraction(self.level, "--level")
        about = {"n_bins": self.counts or "auto", "n_resamples": self.n_resamples, "seed": self.seed, "level": level}
        return about | {"task": self.task}

    @property
    def files(self) -> tuple[Path | None, ...]:
        """The files that are read beside the predictions."""
        given = (self.by, self.groups, self.weights)
        return tuple(None if spec is None else file_of(spec) for spec in given)


@dataclass(frozen=True)
class SamplingOptions:
    """Where the answers of a language model are: sampled several times, or with a stated confidence."""

    samples: Annotated[
        str | None, Option("--samples", help="Sampled answers: their column, one per row or a list per question.")
    ] = None
    question: Annotated[str | None, Option("--question", help="The column of the question of each answer.")] = None
    correct: Annotated[str | None, Option("--correct", help="The column that says which answers are right.")] = None
    reference: Annotated[str | None, Option("--reference", help="The column of the right answer, instead.")] = None
    confidence: Annotated[
        str | None, Option("--confidence", help="The column of the confidence that the model states, as text.")
    ] = None
    pattern: Annotated[
        str | None,
        Option("--answer-pattern", help="A regular expression: its group is the answer in a longer text."),
    ] = None

    @property
    def given(self) -> bool:
        return any(getattr(self, f.name) is not None for f in fields(self))


@dataclass(frozen=True)
class Outputs:
    """Files to write."""

    html: Annotated[Path | None, Option("--html", help="Write a self-contained report page.")] = None
    json: Annotated[Path | None, Option("--json", help="Write all results as JSON.")] = None
    csv: Annotated[Path | None, Option("--csv", help="Write a row per model, error and bin count.")] = None

    @property
    def wanted(self) -> dict[str, Path | None]:
        """Option and path of each file to write."""
        return {"--html": self.html, "--json": self.json, "--csv": self.csv}


@dataclass(frozen=True)
class Printing:
    """How much is printed."""

    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Print nothing; the exit code and the files hold the result.")
    ] = False
    verbose: Annotated[bool, Option("--verbose", "-v", help="Print every note, not only the first three.")] = False


def whole_numbers(text: str, option: str, example: str = "2,3") -> tuple[int, ...]:
    """Comma-separated numbers of at least 1, or a usage error."""
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise typer.BadParameter(f"expected positive whole numbers such as {example}, got {text!r}", param_hint=option)
    return counts


def numbers(text: str, option: str, example: str = "1,2,5 or LOW:HIGH:COUNT") -> tuple[float, ...]:
    """Comma-separated numbers, or LOW:HIGH:COUNT for so many in equal steps; else a usage error."""
    try:
        if text.count(":") == 2:
            low, high, count = text.split(":")
            return tuple(np.linspace(float(low), float(high), int(count)).tolist())
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"expected numbers such as {example}, got {text!r}", param_hint=option) from None


def split(text: str | None) -> tuple[str, ...] | None:
    """The parts of a comma-separated list."""
    return None if text is None else tuple(part.strip() for part in text.split(","))


def file_of(spec: str) -> Path | None:
    """The file that COLUMN, FILE or FILE:COLUMN speaks of, None for a column of the predictions."""
    places = (Path(spec), Path(spec.rpartition(":")[0]))
    return next((place for place in places if Path(split_member(str(place))[0]).is_file()), None)


def fraction(value: float, option: str) -> float:
    """A number between 0 and 1, or a usage error."""
    if not 0 < value < 1:
        raise typer.BadParameter(f"expected a number between 0 and 1, got {value:g}", param_hint=option)
    return value


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter that is a group of options replaced by the options of that group."""
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters
    groups = {name: hints[name] for name in parameters if is_dataclass(hints[name])}
    plain: list[inspect.Parameter] = []
    for name, parameter in parameters.items():
        members = get_type_hints(groups[name], include_extras=True) if name in groups else {}
        plain += [_option(f.name, members[f.name], f.default) for f in fields(groups[name])] if members else []
        plain += [] if members else [_option(name, hints[name], parameter.default)]

    @wraps(command)
    def called(**given: Any) -> None:
        made = {name: group(**{f.name: given.pop(f.name) for f in fields(group)}) for name, group in groups.items()}
        command(**given, **made)

    called.__signature__ = inspect.Signature(plain)  # type: ignore[attr-defined]  # what typer reads
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in plain}
    return called


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
