"""The command decide: at which thresholds predictions are worth acting on, and which model is better for whom."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from truecal.io.failures import need_extra

from ..core.tables import csv_text
from . import watching
from .common import Files, as_json, check_paths, command, read, tell, waiting
from .loading import Loaded, expand, split_kind
from .shared_options import Outputs, Printing, Reading, file_of, fraction, numbers


@command("decide")
def run_decide(
    files: Files,
    reading: Reading,
    outputs: Outputs,
    printing: Printing,
    thresholds: Annotated[
        str | None, typer.Option("--thresholds", help="Thresholds, or LOW:HIGH:COUNT. Default: 0.01:0.99:99.")
    ] = None,
    of: Annotated[
        str | None, typer.Option("--class", help="The class to act on, of several. Default: act on the top class.")
    ] = None,
    prevalence: Annotated[
        float | None, typer.Option("--prevalence", help="Share of events in the population that is acted on.")
    ] = None,
    resource: Annotated[
        float | None, typer.Option("--resource", help="Share of rows that can be acted on, such as 0.1.")
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Level of intervals and bands.")] = 0.95,
    groups: Annotated[str | None, typer.Option("--groups", help="Clusters: a column, FILE or FILE:COLUMN.")] = None,
    weights: Annotated[str | None, typer.Option("--weights", help="Weights: a column, FILE or FILE:COLUMN.")] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the draws.", min=0)] = 0,
    profile: Annotated[
        Literal["decisions", "clinical"],
        typer.Option("--profile", help="clinical: the measures of one model that clinical papers report."),
    ] = "decisions",
    plot: Annotated[Path | None, typer.Option("--plot", help="Write the curve as a picture.")] = None,
) -> None:
    """At which thresholds is a model worth acting on, and which of several models is better for whom?

    Net benefit over thresholds with bands that hold at all of them, and differences of models with p-values corrected
    over thresholds and pairs. Examples:

    - `truecal decide preds.csv --thresholds 0.05:0.5:10`

    - `truecal decide old.csv new.csv --resource 0.1 --html report.html`

    - `truecal decide preds.csv --groups hospital --plot curve.png`

    - `truecal decide preds.csv --profile clinical --groups hospital --html report.html`
    """
    import truecal as tc

    level = fraction(level, "--level")
    files = expand(files, [*reading.files, *outputs.wanted.values()])
    beside = [None if spec is None else file_of(spec) for spec in (groups, weights)]
    check_paths([*(split_kind(file)[0] for file in files), *reading.files, *beside], {**outputs.wanted, "--plot": plot})
    if plot is not None:
        watching.check_picture(plot)
    if outputs.html is not None:
        need_extra("--html", "report")
    if profile == "clinical":
        if len(files) > 1:
            raise typer.BadParameter(f"is for one model, got {len(files)}", param_hint="--profile")
        for option, given in (("--weights", weights), ("--prevalence", prevalence), ("--resource", resource)):
            if given is not None:
                raise typer.BadParameter("cannot be used with --profile clinical", param_hint=option)
    at = None if thresholds is None else numbers(thresholds, "--thresholds", "0.1,0.2 or LOW:HIGH:COUNT")
    loaded = read(files, reading)
    about: dict[str, Any] = {"groups": loaded.clusters(groups), "sample_weight": loaded.weights(weights)}
    options: dict[str, Any] = {"thresholds": at, "of": _class_of(of, loaded), "level": level, "seed": seed}
    result: Any
    with waiting("measuring"):
        if profile == "clinical":
            ((name, model),) = loaded.models.items()
            result = tc.clinical(loaded.y_true, model, name=name, groups=about["groups"], **options)
        else:
            options |= {"prevalence": prevalence, "resource": resource, **about}
            result = tc.decision_curve(loaded.y_true, loaded.models, **options)
    texts = {outputs.json: as_json(result), outputs.csv: csv_text(result.rows())}
    if outputs.html is not None:
        from truecal.report import render_report

        evaluated: Any = tc.compare(loaded.y_true, loaded.models, errors=loaded.errors, level=level, **about)
        if len(loaded.models) == 1:
            evaluated = next(iter(evaluated.evaluations.values()))
        texts[outputs.html] = render_report(evaluated, classes=loaded.classes, decisions=result)
    tell(result, printing, loaded.notes, texts, plot, (6.4, 4.4) if profile == "decisions" else (5.2, 5.6))


def _class_of(of: str | None, loaded: Loaded) -> int | str | None:
    """The column of a class that is called by its name or number."""
    if of is None or of == "confidence":
        return of
    if loaded.classes is not None and of in loaded.classes:
        return loaded.classes.index(of)
    if of.isdecimal():
        return int(of)
    known = "" if loaded.classes is None else f"one of {', '.join(loaded.classes[:8])}, "
    raise typer.BadParameter(f"expected {known}confidence or the number of a column, got {of!r}", param_hint="--class")
