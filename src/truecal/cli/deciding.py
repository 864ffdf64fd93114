"""The commands test, recalibrate, threshold and estimate: what to do with a model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from truecal.inference.checks import check_groups
from truecal.inference.gates import Gates, gate_of, joint_thresholds, load_gates
from truecal.inference.thresholds import Threshold
from truecal.io import write_atomic
from truecal.io.decision_logs import is_decision_log
from truecal.io.failures import failure, listing, need_extra
from truecal.kinds.inputs import read_inputs

from ..render import terminal as render
from . import watching
from .common import NO_VERDICT, REJECTED, File, app, as_json, check_paths, command, json_text, read, show, tell, waiting
from .in_memory import InMemory
from .loading import estimated, split_kind
from .logged_decisions import inputs_of, log_of
from .shared_options import Batching, Drawing, Measuring, Predicted, Printing, Reading, fraction, numbers
from .sources import Asked
from .streaming import refuse_test
from .two_tables import TwoTables


@command("test")
def run_calibration_test(
    file: File,
    reading: Reading,
    predicted: Predicted,
    drawing: Drawing,
    printing: Printing,
    alpha: Annotated[float, typer.Option("--alpha", help="Reject at this p-value or below.")] = 0.05,
    error: Annotated[str | None, typer.Option("--error", help="Which error's U is tested; see tc.ERRORS.")] = None,
    max_gap: Annotated[
        float | None,
        typer.Option("--max-gap", help="Points that are tolerated: what the interval of the gap must show."),
    ] = None,
    allow_undecided: Annotated[
        bool, typer.Option("--allow-undecided", help="Exit code 0 also where the data cannot tell.")
    ] = False,
    json: Annotated[Path | None, typer.Option("--json", help="Write the verdict and the result as JSON.")] = None,
) -> None:
    """Test whether one model is calibrated, for use in pipelines: exit code 0 for yes, 3 for no, 4 for undecided.

    The answer is that of `truecal evaluate`: undecided where the rows allow a gap of more than 10 points. With many
    rows every model is rejected. --max-gap 3 answers yes where the interval of the gap ends below 3 points, no where
    it begins above, and undecided otherwise. Examples:

    - `truecal test preds.npz --alpha 0.01 && deploy`

    - `truecal test preds.parquet --max-gap 3 && deploy`

    - `truecal test preds.csv --error confidence --bins 5,20`

    - `truecal test grades.csv --task ordered` (or multilabel, distribution, survival)

    - `truecal test preds.csv --groups patient` (or `--overlap 24`: hourly forecasts of the next day)
    """
    from truecal.kinds import COMPOSED, KINDS

    alpha = fraction(alpha, "--alpha")
    one_label = [kind for kind in KINDS.values() if kind.class_losses or kind.top_only]
    offered = [name for name, of in COMPOSED.items() if any(kind.checks(of.property) for kind in one_label)]
    if error is not None and error not in offered:
        raise typer.BadParameter(f"expected one of {', '.join(offered)}, got {error!r}", param_hint="--error")
    if max_gap is not None and not 0 <= max_gap < 100:
        raise typer.BadParameter(f"expected points from 0 to 100, got {max_gap:g}", param_hint="--max-gap")
    draws = drawing.n_resamples
    if draws is not None and max_gap is None and 1 / (1 + draws) > alpha:
        needed = math.ceil(1 / alpha) - 1
        raise typer.BadParameter(
            f"{draws} draws can never give p <= {alpha:g}: at least {needed} are needed", param_hint="--resamples"
        )
    measuring = Measuring(**vars(predicted), **vars(drawing), level=1 - alpha)
    check_paths([split_kind(file)[0], *reading.files], {"--json": json})
    refuse_test(file, reading)
    if predicted != Predicted():
        for option, given in (("--error", error), ("--bins", drawing.bins)):
            if given is not None:
                raise typer.BadParameter("cannot be used with --task; use Python", param_hint=option)
        asked = Asked([file], reading, measuring, Batching())
        source = TwoTables.of(asked) or InMemory.of(asked)
        with waiting("drawing outcomes from the predictions") as progress:
            found = source.measure(progress).result
        if found.test is None:
            raise failure(file, f"{found.n_samples} rows are too few to test")
        result, notes = replace(found.test, max_gap=max_gap), found.notes
    else:
        loaded = read([file], reading)
        with waiting("drawing labels from the predictions") as progress:
            result = loaded.test(error, measuring, progress, max_gap)
        notes = loaded.notes
    if json is not None:
        write_atomic(json, json_text({"verdict": result.verdict, **result.to_dict()}))
    written = [path for path in (json,) if path is not None]
    show(written, printing, render.calibration_test, result, notes, printing.verbose)
    if result.verdict == "no":
        raise typer.Exit(REJECTED)
    if result.verdict != "yes" and not allow_undecided:
        raise typer.Exit(NO_VERDICT)


@command()
def recalibrate(
    validation: Annotated[Path, typer.Argument(help="Labelled predictions to fit the map on: not the test rows.")],
    test: Annotated[Path, typer.Argument(help="Predictions to recalibrate, of the same model.")],
    out: Annotated[Path, typer.Option("--out", help="Write the result: .npz, .csv or .parquet.")],
    reading: Reading,
    printing: Printing,
    method: Annotated[
        str,
        typer.Option(
            "--method", help="temperature, platt, beta, isotonic, venn_abers, ...; auto chooses by the log loss."
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
    check_paths([validation, test, *reading.files], {"--out": out})
    with waiting("reading and fitting"):
        found = recalibrating.recalibrated(validation, test, reading, method)
    result = None
    if found.test.y_true is not None:
        with waiting("measuring") as progress:
            result = tc.compare(found.test.y_true, found.models(), progress=progress).with_notes(found.notes)
    recalibrating.write(found, out)
    show([out], printing, render.recalibration, found.headline, result, found.notes, printing.verbose)


@command("threshold")
def find_threshold(
    file: File,
    reading: Reading,
    printing: Printing,
    risk: Annotated[float, typer.Option("--risk", help="The largest error among accepted rows.")] = 0.05,
    delta: Annotated[float, typer.Option("--delta", help="The largest probability that the error exceeds it.")] = 0.05,
    groups: Annotated[str | None, typer.Option("--groups", help="Clusters: a column, FILE or FILE:COLUMN.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Write risk against coverage as a picture.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write the gate, for truecal gate check.")] = None,
) -> None:
    """Which predictions may be acted on? The loosest confidence threshold whose error is at most --risk.

    The guarantee holds with probability 1 − delta, for all questions of a log of decisions together. Exit code 3 when
    no threshold of any question keeps the risk. Examples:

    - `truecal threshold preds.parquet --risk 0.05`

    - `truecal threshold decisions.jsonl --labels gold.csv --save gate.json` (a gate per question)

    - `truecal threshold preds.csv --risk 0.01 --delta 0.1 --plot risk.png`
    """
    risk, delta = fraction(risk, "--risk"), fraction(delta, "--delta")
    check_paths([split_kind(file)[0], *reading.files], {"--json": json, "--plot": plot, "--save": save})
    if plot is not None:
        watching.check_picture(plot)
    result: Threshold | Gates
    if is_decision_log(str(file)) and len((log := log_of(file, reading)).questions) > 1:
        if plot is not None or groups is not None:
            what = "--groups" if plot is None else "--plot"
            raise typer.BadParameter("is for one question: choose it with --columns", param_hint=what)
        result = gates = joint_thresholds(inputs_of(log), risk=risk, delta=delta)
        notes = log.notes
    else:
        loaded = read([file], reading)
        result, notes = loaded.threshold(risk, delta, groups), loaded.notes
        question = loaded.first.name if is_decision_log(str(file)) else None
        gates = Gates(risk, delta, (gate_of(question, result),))
    tell(result, printing, notes, {json: as_json(result), save: as_json(gates)}, plot)
    if all(gate.threshold is None for gate in gates.gates):
        raise typer.Exit(REJECTED)


gate_app = typer.Typer(help="Gates that truecal threshold --save wrote.")
app.add_typer(gate_app, name="gate")


@command("check", gate_app)
def check_gate(
    file: File,
    reading: Reading,
    printing: Printing,
    gate: Annotated[Path, typer.Option("--gate", help="The file that threshold --save wrote.")],
    level: Annotated[float, typer.Option("--level", help="Level of the verdicts of all gates together.")] = 0.95,
    groups: Annotated[str | None, typer.Option("--groups", help="Clusters: a column, FILE or FILE:COLUMN.")] = None,
    json: Annotated[Path | None, typer.Option("--json", help="Write the result as JSON.")] = None,
    allow_undecided: Annotated[
        bool, typer.Option("--allow-undecided", help="Exit code 0 where the rows do not show the answer.")
    ] = False,
) -> None:
    """Does a gate keep its risk on new labelled rows? Exit code 0 within, 3 broken, 4 undecided.

    Examples:

    - `truecal gate check week.jsonl --gate gate.json`

    - `truecal gate check week.csv --gate gate.json --level 0.99 --allow-undecided`
    """
    level = fraction(level, "--level")
    check_paths([split_kind(file)[0], gate, *reading.files], {"--json": json})
    kept = load_gates(gate)
    questions, clusters = [one.called for one in kept.gates], None
    if is_decision_log(str(file)):
        if groups is not None:
            raise typer.BadParameter("cannot apply to a log of decisions", param_hint="--groups")
        log = log_of(file, reading)
        notes, data = log.notes, inputs_of(log)
        if missing := [name for name in questions if name not in data]:
            raise failure(
                file, f"expected the questions of the gates, found {listing(data)} without {listing(missing)}"
            )
    else:
        loaded = read([file], reading)
        if len(questions) > 1:
            raise failure(file, f"expected a log of the questions {listing(questions)}")
        inputs = read_inputs(loaded.y_true, next(iter(loaded.models.values())))
        notes, data = loaded.notes, {questions[0]: inputs}
        clusters = check_groups(loaded.clusters(groups), inputs.n_samples)
    result = kept.check(data, level=level, groups=clusters)
    tell(result, printing, notes, {json: as_json(result)})
    if result.verdict == "broken":
        raise typer.Exit(REJECTED)
    if result.verdict == "undecided" and not allow_undecided:
        raise typer.Exit(NO_VERDICT)


@command("estimate")
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
    check_paths([labelled, unlabelled, *reading.files], {"--json": json, "--plot": plot})
    if plot is not None:
        watching.check_picture(plot)
    costs = None if cost is None else numbers(cost, "--cost", "1,5")
    result, notes = estimated(labelled, unlabelled, reading, costs, level)
    tell(result, printing, notes, {json: as_json(result)}, plot, (6, 3.2))
