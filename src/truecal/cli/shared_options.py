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

from truecal.io.containers import split_member


def _panel(title: str) -> Callable[..., Any]:
    """Options of one panel of the help; a flag has no metavar."""

    def option(names: str, words: str, metavar: str = "", **about: Any) -> Any:
        return Option(*names.split(), help=words, metavar=metavar, rich_help_panel=title, show_default=False, **about)

    return option


_input, _kind, _measure, _slice = map(_panel, ("Input", "Kind of numbers", "Measure", "Slice"))
_output, _large, _answers = map(_panel, ("Output", "Large data", "Answers of a language model"))


@dataclass(frozen=True)
class Reading:
    """What the files hold, and where the labels are."""

    labels: Annotated[Path | None, _input("--labels", "Labels in another file.", "FILE")] = None
    label_column: Annotated[str | None, _input("--label-column", "Column or key of the labels.", "NAME")] = None
    columns: Annotated[str | None, _input("--columns", "Columns of the predictions.", "A,B,...")] = None
    positive: Annotated[str | None, _input("--positive", "Label that is 1.", "NAME")] = None
    id: Annotated[str | None, _input("--id", "Column that matches rows.", "NAME")] = None
    no_id: Annotated[bool, _input("--no-id", "Rows are in the same order.")] = False
    header: Annotated[bool | None, _input("--header/--no-header", "Does line 1 hold names?")] = None
    drop_incomplete: Annotated[bool, _input("--drop-incomplete", "Drop rows that lack values.")] = False
    logits: Annotated[bool, _kind("--logits", "Logits, to which softmax is applied.")] = False
    temperature: Annotated[
        list[Path] | None, _kind("--temperature", "Validation logits, one file per model.", "FILE")
    ] = None
    normalize: Annotated[bool, _kind("--normalize", "Rescale rounded rows to sum to 1.")] = False
    percent: Annotated[bool, _kind("--percent", "Probabilities run from 0 to 100.")] = False
    odds: Annotated[bool, _kind("--odds", "Decimal odds of a bookmaker.")] = False
    label_base: Annotated[int, _kind("--label-base", "Label indices count from 0 or from 1.", "0|1")] = 0
    class_axis: Annotated[int | None, _kind("--class-axis", "Axis of classes, in images or sequences.", "N")] = None
    length_normalized: Annotated[bool, _kind("--length-normalized", "Divide log-likelihoods by answers' length.")] = (
        False
    )

    @property
    def files(self) -> tuple[Path | None, ...]:
        """The files that are read beside the predictions."""
        return (self.labels, *(self.temperature or ()))

    @property
    def arguments(self) -> dict[str, Any]:
        """The options of `read_predictions`, but for the labels."""
        same = ("label_column", "logits", "label_base", "normalize", "percent", "drop_incomplete", "header", "positive")
        options = {name: getattr(self, name) for name in (*same, "length_normalized", "odds", "class_axis")}
        return {**options, "proba_columns": split(self.columns), "id_column": self.id_column}

    @property
    def id_column(self) -> str | Literal[False] | None:
        """What rows are matched by, as `read_predictions` takes it."""
        if self.id is not None and self.no_id:
            raise typer.BadParameter("cannot be combined with --id", param_hint="--no-id")
        return False if self.no_id else self.id


@dataclass(frozen=True)
class Predicted:
    """What is predicted, where the files do not show it."""

    task: Annotated[str, _kind("--task", "ordered, multilabel, survival ...", "KIND")] = "auto"
    thresholds: Annotated[str | None, _kind("--thresholds", "Of a number; or LOW:HIGH:COUNT.", "1,2")] = None
    levels: Annotated[str | None, _kind("--levels", "Columns are quantiles at these levels.", ".1,.5")] = None
    time: Annotated[str | None, _kind("--time", "Times of events or censoring.", "NAME")] = None
    event: Annotated[str | None, _kind("--event", "1 for the event, 0 for censoring.", "NAME")] = None
    horizons: Annotated[str | None, _kind("--horizons", "Times of predicted risks.", "1,2")] = None
    survival: Annotated[bool, _kind("--survival", "Columns are survival, not risk.")] = False
    censoring_by: Annotated[str | None, _kind("--censoring-by", "Strata of the censoring.", "A,B")] = None

    def __post_init__(self) -> None:
        if self.task != "auto":
            from truecal.kinds import NUMBERS  # kinds are loaded only where one is named
            from truecal.kinds.kind import tasks

            known = (*tasks(), NUMBERS.name)
            if self.task not in known:
                said = f"expected one of {', '.join(known)}, got {self.task!r}"
                raise typer.BadParameter(said, param_hint="--task")


@dataclass(frozen=True)
class Drawing:
    """Bins, draws and which rows depend on each other."""

    bins: Annotated[str | None, _measure("--bins", "Bin counts.", "5,20")] = None
    n_resamples: Annotated[int | None, _measure("--resamples", "Draws of the test.", "N", min=1)] = None
    seed: Annotated[int, _measure("--seed", "Seed of the draws.", "N", min=0)] = 0
    groups: Annotated[str | None, _slice("--groups", "Clusters of dependent rows (or FILE:COLUMN).", "COLUMN")] = None
    overlap: Annotated[int, _slice("--overlap", "Outcomes of H rows in time overlap.", "H", min=1)] = 1


@dataclass(frozen=True)
class Measuring(Drawing, Predicted):
    """How `evaluate` and `compare` measure."""

    errors: Annotated[str | None, _measure("--errors", "Errors to measure; see tc.ERRORS.", "A,B,...")] = None
    level: Annotated[float, _measure("--level", "Level of the intervals.", "0.95")] = 0.95
    weights: Annotated[str | None, _slice("--weights", "Weights of rows (or FILE:COLUMN).", "COLUMN")] = None
    by: Annotated[str | None, _slice("--by", "Columns of subgroups (or FILE:COLUMN).", "A,B,...")] = None

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
class Batching:
    """How tables that are larger than memory are read."""

    memory: Annotated[str | None, _large("--memory", "Read larger tables in batches.", "2GB")] = None
    one_pass: Annotated[bool, _large("--one-pass", "Read the table once, with bins of equal width.")] = False
    workers: Annotated[int | None, _large("--workers", "Count parquet files in N processes.", "N", min=1)] = None
    dask: Annotated[str | None, _large("--dask", "Count them on a cluster, tcp://HOST:PORT.", "ADDRESS")] = None


@dataclass(frozen=True)
class OneModel:
    """Options of `evaluate` only."""

    segments: Annotated[str | None, _slice("--segments", "Find miscalibrated segments of these.", "A,B,...")] = None
    advise: Annotated[bool, _output("--advise", "Print what to do next, in three lines.")] = False
    sums: Annotated[bool, _large("--sums", "FILE is the result of a query of truecal sql.")] = False


@dataclass(frozen=True)
class SamplingOptions:
    """Where the answers of a language model are: sampled several times, or with a stated confidence."""

    samples: Annotated[str | None, _answers("--samples", "The answers, or a list per question.", "COLUMN")] = None
    question: Annotated[str | None, _answers("--question", "The question of each answer.", "COLUMN")] = None
    correct: Annotated[str | None, _answers("--correct", "Whether each answer is right.", "COLUMN")] = None
    reference: Annotated[str | None, _answers("--reference", "Instead: the right answer.", "COLUMN")] = None
    confidence: Annotated[str | None, _answers("--confidence", "The stated confidence, as text.", "COLUMN")] = None
    gate: Annotated[Path | None, _answers("--gate", "Decisions: only rows that it accepts.", "FILE")] = None
    pattern: Annotated[str | None, _answers("--answer-pattern", "Its group is the answer in a text.", "REGEX")] = None

    @property
    def given(self) -> bool:
        return any(getattr(self, f.name) is not None for f in fields(self))


@dataclass(frozen=True)
class Outputs:
    """Files to write."""

    html: Annotated[Path | None, _output("--html", "Write a self-contained report page.", "FILE")] = None
    json: Annotated[Path | None, _output("--json", "Write all results as JSON.", "FILE")] = None
    csv: Annotated[Path | None, _output("--csv", "Write a row per model; --details: per error.", "FILE")] = None

    @property
    def wanted(self) -> dict[str, Path | None]:
        """Option and path of each file to write."""
        return {"--html": self.html, "--json": self.json, "--csv": self.csv}


@dataclass(frozen=True)
class Printing:
    """How much is printed."""

    quiet: Annotated[bool, _output("--quiet -q", "Print nothing.")] = False
    verbose: Annotated[bool, _output("--verbose -v", "Print every note, not the first three alone.")] = False


@dataclass(frozen=True)
class Wording:
    """In which words and tables the result is printed."""

    explain: Annotated[bool, _output("--explain", "Print three sentences in plain words.")] = False
    markdown: Annotated[bool, _output("--markdown", "Print the table of a paper in Markdown.")] = False
    latex: Annotated[bool, _output("--latex", "Print the table of a paper in LaTeX.")] = False

    def text(self, result: Any) -> str | None:
        """The result in the words asked for, None where it is printed as usual."""
        asked = [name for name in ("explain", "markdown", "latex") if getattr(self, name)]
        if not asked:
            return None
        method = getattr(result, asked[0] if asked[0] == "explain" else f"to_{asked[0]}", None)
        if len(asked) > 1 or method is None:
            why = (
                "cannot be used together with another of them" if len(asked) > 1 else "cannot be used with this result"
            )
            raise typer.BadParameter(why, param_hint=f"--{asked[0]}")
        return str(method())


Details = Annotated[bool, _output("--details", "Print all errors, bin counts, flips and orders.")]
Plot = Annotated[Path | None, _output("--plot", "Write the reliability diagram as a picture.", "FILE")]


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
    """The file that FILE or FILE:COLUMN names, None for a column of the predictions."""
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


def option_names(group: type) -> dict[str, str]:
    """The fields of a group and the options of the command line that they are, such as --resamples."""
    made = {name: hint.__metadata__[0] for name, hint in get_type_hints(group, include_extras=True).items()}
    return {name: (info.param_decls or (info.default,))[0].partition("/")[0] for name, info in made.items()}
