"""The commands, their options and their exit codes: 0 done, 1 bad input, 2 usage, 3 calibration rejected."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

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
Seed = Annotated[int, typer.Option("--seed", help="Seed of the draws.")]
Level = Annotated[float, typer.Option("--level", help="Level of the intervals.")]


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


def _columns(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(part.strip() for part in text.split(","))


@contextmanager
def _waiting(text: str) -> Iterator[None]:
    """A spinner while a person waits; nothing at all in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(text):
        yield


def _read(files: list[Path], **options: Any) -> Loaded:
    with _waiting(f"reading {len(files)} file{'s' * (len(files) > 1)}"):
        return load(files, **options)


def _write(
    result: Any, html: Path | None, json: Path | None, csv: Path | None, classes: Sequence[str] | None = None
) -> None:
    """Each file appears whole or not at all."""
    from truecal.io import write_atomic

    if json is not None:
        import json as writer

        write_atomic(json, writer.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n")
    if csv is not None:
        write_atomic(csv, render.to_csv(result))
    if html is not None:
        from truecal.report import write_report

        write_report(result, html, classes=classes)
    for path in (html, json, csv):
        if path is not None:
            Console(stderr=True, highlight=False, soft_wrap=True).print(f"wrote {path}", markup=False)


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
    html: Html = None,
    json: Json = None,
    csv: Csv = None,
    resamples: Resamples = None,
    seed: Seed = 0,
    level: Level = 0.95,
) -> None:
    """Measure one model: losses, every error as loss + U with intervals, the calibration test, the direction.

    Examples:

    - `truecal evaluate preds.parquet`

    - `truecal evaluate logits.npz --logits --temperature val.npz --bins 5,20 --html report.html`
    """
    import truecal as tc
    from truecal.io import read_labels

    counts = _bins(bins)
    loaded = _read(
        [file],
        labels=labels,
        label_column=label_column,
        columns=_columns(columns),
        logits=logits,
        temperature=temperature or [],
    )
    with _waiting("measuring"):
        name, model = next(iter(loaded.models.items()))
        result = tc.evaluate(
            loaded.y_true,
            model,
            name=name,
            n_bins=counts,
            errors=loaded.errors,
            by=None if by is None else read_labels(by),
            resamples=resamples,
            seed=seed,
            level=level,
        )
    render.evaluation(result, loaded.notes)
    _write(result, html, json, csv, loaded.classes)


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
) -> None:
    """Compare models on the same samples: who predicts better, who is miscalibrated, and how sure that is.

    The last lines are the verdict in words. Examples:

    - `truecal compare a.npz b.npz c.csv --labels y.npy`

    - `truecal compare small.npz large.npz --logits --temperature small-val.npz --temperature large-val.npz`

    - `truecal compare runs/*.parquet --bins 5,20,2000 --html report.html --json out.json`
    """
    import truecal as tc

    if len(files) < 2:
        raise typer.BadParameter("compare needs at least two; for one model use: truecal evaluate", param_hint="FILES")
    counts = _bins(bins)
    loaded = _read(
        files,
        labels=labels,
        label_column=label_column,
        columns=_columns(columns),
        logits=logits,
        temperature=temperature or [],
    )
    with _waiting(f"comparing {len(files)} models"):
        result = tc.compare(
            loaded.y_true,
            loaded.models,
            n_bins=counts,
            errors=loaded.errors,
            resamples=resamples,
            seed=seed,
            level=level,
        )
    render.comparison(result, loaded.notes)
    _write(result, html, json, csv, loaded.classes)


@app.command("test")
def run_calibration_test(
    file: File,
    alpha: Annotated[float, typer.Option("--alpha", help="Reject below this p-value.", min=0.0, max=1.0)] = 0.05,
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
    loaded = _read(
        [file],
        labels=labels,
        label_column=label_column,
        columns=_columns(columns),
        logits=logits,
        temperature=temperature or [],
    )
    with _waiting("drawing labels from the reports"):
        result = loaded.test(error, n_bins=_bins(bins), resamples=resamples, seed=seed)
    rejected = result.pvalue < alpha
    render.calibration_test(result, alpha, rejected)
    if rejected:
        raise typer.Exit(REJECTED)


@app.command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="Where files and the report go.")] = Path("demo"),
) -> None:
    """Train small models on the bundled Letter data, compare them, and write a report."""
    from truecal.demo import MODELS, run_demo
    from truecal.lab.datasets import letter

    with _waiting(f"training {len(MODELS)} models on Letter Recognition"):
        result = run_demo(out)
    render.comparison(result, (f"Letter Recognition (D. Slate, UCI, CC BY 4.0); predictions in {out}",))
    render.flips(result)
    _write(result, out / "report.html", out / "results.json", out / "results.csv", letter().classes)


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
    except BrokenPipeError:  # the reader of the pipe has seen enough
        sys.stderr.close()
        return 0
    except (ValueError, TypeError, OSError, ImportError, MemoryError) as problem:
        text = str(problem) or type(problem).__name__
        print(f"error: {' '.join(text.split())}", file=sys.stderr)
        return 1
    return 0
