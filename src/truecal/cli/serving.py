"""The commands monitor, sql, audit and demo."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from truecal.io import FileError, write_atomic
from truecal.io.failures import need_extra, path_text
from truecal.io.writing import taking_turns

from ..render import terminal as render
from . import warehouse, watching
from .callables import find_metric, read_options
from .common import NO_VERDICT, REJECTED, as_json, check_paths, command, json_text, read, show, waiting, write
from .loading import expand, split_kind
from .shared_options import Outputs, Printing, Reading, whole_numbers


@command("monitor")
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
    explain: Annotated[bool, typer.Option("--explain", help="Print three sentences in plain words.")] = False,
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
    check_paths([*(split_kind(file)[0] for file in files), *reading.files, reference], outputs)
    if plot is not None:
        watching.check_picture(plot)
    if reading.labels is not None and len(files) > 1:
        raise typer.BadParameter(f"is for one file of predictions, got {len(files)}", param_hint="--labels")
    with taking_turns(state):
        watched = watching.opened(state, reference, alpha, reading, read)
        counted = [watching.count(watched, file, reading, read, replaced, again) for file in files]
        new, notes = sum(rows for rows, _ in counted), [words for _, words in counted]
        if not new and not watched.files:
            raise FileError(f"{path_text(files[0])}: no rows; a new state needs at least one")
        if len(files) > 1:
            notes.insert(0, f"{new} new rows in {len(files)} files")
        result = replace(watched.result(), new=new)
        advice = watching.advice(watched, files, reading, read) if result.alarm else None
        if isinstance(advice, str):
            notes.append(advice)
            advice = None
        if plot is not None:
            from truecal.plots import evidence

            watching.save_picture(lambda axes: evidence(watched, ax=axes), plot, (8, 4))
        if json is not None:
            found = result.to_dict() | ({} if advice is None else {"advice": advice.to_dict()})
            write_atomic(json, json_text(found))
        if fix is not None and advice is not None:
            advice.map.save(fix)
        watched.save(state)  # the last thing that can fail: a run that fails has counted nothing
    written = [path for path in (plot, json, None if advice is None else fix) if path is not None]
    if explain:
        show(written, printing, print, result.explain())
    else:
        show(written, printing, render.monitoring, result, notes, printing.verbose, advice)
    if result.alarm:
        raise typer.Exit(REJECTED)


@command("sql")
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


@command()
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

    check_paths([], {"--html": html, "--json": json, "--script": script})
    call, options = find_metric(metric, read_options(option or []))
    with waiting("searching for a misreport that scores better") as progress:
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
    show(list(made), Printing(), render.audit, result)
    if result.verdict == "gamed":
        raise typer.Exit(REJECTED)
    if result.verdict == "no verdict":
        raise typer.Exit(NO_VERDICT)


@command()
def demo(
    out: Annotated[Path, typer.Option("--out", help="The folder for the files and the report.")] = Path("demo"),
) -> None:
    """Compare ten models and a cheat that predicts class frequencies on bundled data, by ECE and by the score.

    Trains, compares and writes a report page, in about a minute.
    """
    need_extra("demo", "recalibration", "report")
    from truecal.cli.demo import TITLE, run_demo, story
    from truecal.cli.letter import letter

    outputs = Outputs(out / "report.html", out / "results.json", out / "results.csv")
    out.mkdir(parents=True, exist_ok=True)
    check_paths([], outputs.wanted)
    with waiting("eleven models of letters") as progress:
        result = run_demo(out, progress)
    result = result.with_notes([f"Letter Recognition (D. Slate, UCI, CC BY 4.0); predictions in {path_text(out)}"])
    written = write(result, outputs, letter().classes, title=TITLE, intro=story(result))
    show(written, Printing(), render.comparison, result, story=story(result))
