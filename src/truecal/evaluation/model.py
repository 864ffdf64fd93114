"""evaluate: one model's losses, errors as loss + U with intervals, calibration test and reliability tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.data import as_array, check_positive_int
from ..core.rules import read_bins
from .budget import MOST_REPORTS, Plan
from .inputs import Inputs, check_errors, check_groups, default_bins, read_inputs
from .measuring import TESTED, ErrorValue, LossValue, Measured, Reliability, Settings, bins_text, measure, plain

if TYPE_CHECKING:
    from ..inference import CalibrationTest, MeanGap

Array = NDArray[Any]

DIAGRAM_BINS = 15

# Errors left out unless they are named, by the number of reports above which they would dominate the work.
HEAVY = {"full_halfspace": 500_000, "full": MOST_REPORTS, "full_l1": MOST_REPORTS, "classwise_two_bin": MOST_REPORTS}


@dataclass(frozen=True, repr=False, eq=False)
class Evaluation:
    """One model, measured: n·error = loss + U for every squared error, null bands for l1 errors, test, tables.

    `losses`, `errors` (one entry per error and bin count), `tests` (by error), `direction` (mean confidence minus
    accuracy), `reliability` (by error), `subgroups` (with by=; each has its own n, so they are never ranked), `notes`.
    """

    name: str
    kind: str
    n_samples: int
    n_classes: int | None
    n_bins: tuple[int, ...]
    level: float
    losses: tuple[LossValue, ...]
    errors: tuple[ErrorValue, ...]
    tests: dict[str, CalibrationTest]
    direction: MeanGap
    reliability: dict[str, Reliability]
    notes: tuple[str, ...] = ()
    subgroups: dict[str, Evaluation] = field(default_factory=dict)

    @property
    def error_names(self) -> tuple[str, ...]:
        """The errors measured, in order."""
        return tuple(dict.fromkeys(row.error for row in self.errors))

    @property
    def headline(self) -> str:
        """The truthful error that words and summaries speak of: classwise, binary, confidence or top_label."""
        names = self.error_names
        chosen = next((name for name in TESTED if name in names), None)
        return chosen or next((row.error for row in self.errors if row.truthful), names[0])

    @property
    def test(self) -> CalibrationTest | None:
        """The calibration test of the headline error."""
        return self.tests.get(self.headline)

    def rows(self, error: str) -> tuple[ErrorValue, ...]:
        """The entries of one error, one per bin count."""
        found = tuple(row for row in self.errors if row.error == error)
        if not found:
            raise ValueError(f"{error!r} was not measured here; expected one of {', '.join(self.error_names)}")
        return found

    def loss(self, name: str) -> LossValue:
        """One of the losses by name."""
        found = next((value for value in self.losses if value.name == name), None)
        if found is None:
            raise ValueError(f"{name!r} is not defined here; expected one of {', '.join(v.name for v in self.losses)}")
        return found

    def with_notes(self, notes: Sequence[str]) -> Evaluation:
        """The same evaluation with these notes after its own, such as which file the predictions were read from."""
        return replace(self, notes=(*self.notes, *check_notes(notes)))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types; numbers that JSON lacks (infinite losses, undefined means) become None."""
        return {
            "name": self.name,
            "kind": self.kind,
            "n_samples": self.n_samples,
            "n_classes": self.n_classes,
            "n_bins": list(self.n_bins),
            "level": self.level,
            "headline": self.headline,
            "losses": plain([asdict(value) for value in self.losses]),
            "errors": plain([asdict(row) for row in self.errors]),
            "tests": plain(self.tests),
            "direction": plain(self.direction) | {"word": self.direction.word},
            "reliability": plain(self.reliability),
            "notes": list(self.notes),
            "subgroups": plain(self.subgroups),
        }

    def to_pandas(self) -> Any:
        """One row per error and bin count; with subgroups, theirs too, told apart by the column `subgroup`."""
        import pandas as pd

        rows = [{"subgroup": None, "n_samples": self.n_samples} | asdict(row) for row in self.errors]
        for name, part in self.subgroups.items():
            rows += [{"subgroup": name, "n_samples": part.n_samples} | asdict(row) for row in part.errors]
        frame = pd.DataFrame(rows)
        return frame if self.subgroups else frame.drop(columns="subgroup")

    def __repr__(self) -> str:
        lines = [self._heading(), *_table_lines(self.errors, self.level)]
        lines += [f"  test of {name} ({test.name}): p = {test.pvalue:.3g}" for name, test in self.tests.items()]
        lines.append(f"  {self.direction!r}")
        lines.append("  losses: " + ", ".join(f"{value.name} {value.value:.4g}" for value in self.losses))
        lines += [f"  note: {note}" for note in self.notes]
        for name, part in self.subgroups.items():
            lines.append(f"  subgroup {name}, {part.n_samples} samples: {_subgroup_line(part)}")
        return "\n".join(lines)

    def _heading(self) -> str:
        classes = "top class only" if self.n_classes is None else f"{self.n_classes} classes"
        parts = "loss + U + within clusters" if self._clustered else "loss + U"
        return f"{self.name}: {self.n_samples} samples, {classes}; n·error = {parts}, {self.level:.0%} intervals"

    @property
    def _clustered(self) -> bool:
        return any(row.within is not None for row in self.errors)

    def _repr_html_(self) -> str:
        cells = "".join(_html_row(row) for row in self.errors)
        head = "".join(f"<th>{title}</th>" for title in _COLUMNS)
        tests = "".join(f"<br>test of {name}: p = {test.pvalue:.3g}" for name, test in self.tests.items())
        rest = "".join(f"<br>{escape(note)}" for note in self.notes)
        return (
            f"<p>{escape(self._heading())}</p><table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table>"
            f"<p>{escape(repr(self.direction))}{tests}{rest}</p>"
        )


def check_notes(notes: Any) -> tuple[str, ...]:
    """Notes as a tuple of texts; a single text would become one note per letter and is refused."""
    if isinstance(notes, str) or not isinstance(notes, Sequence) or not all(isinstance(note, str) for note in notes):
        raise TypeError(f"notes must be a sequence of texts, got {notes!r}")
    return tuple(notes)


_COLUMNS = ("error", "bins", "loss", "U", "loss + U", "value")


def _interval_text(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f" [{low:+.3g}, {high:+.3g}]"


def _cells(row: ErrorValue) -> tuple[str, ...]:
    bins = "-" if row.n_bins is None else str(row.n_bins)
    if row.loss is None or row.U is None:
        band = "" if row.null_low is None else f"if calibrated {row.null_low:.3g} to {row.null_high:.3g}"
        return row.error, bins, "", band, "", f"{row.value:.4g}"
    u = f"{row.U:+.4g}{_interval_text(row.U_low, row.U_high)}"
    return row.error, bins, f"{row.loss:.4g}", u, f"{row.score:.4g}", f"{row.value:.4g}"


def _table_lines(errors: Sequence[ErrorValue], level: float) -> list[str]:
    table = [_COLUMNS, *(_cells(row) for row in errors)]
    widths = [max(len(line[j]) for line in table) for j in range(len(_COLUMNS))]
    return ["  " + "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in table]


def _html_row(row: ErrorValue) -> str:
    return "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in _cells(row)) + "</tr>"


def _subgroup_line(part: Evaluation) -> str:
    row = part.rows(part.headline)[0]
    test = "" if part.test is None else f", p = {part.test.pvalue:.3g}"
    size = f"{row.error} {row.value:.4g}" if row.U is None else f"loss {row.loss:.4g}, U {row.U:+.4g}"
    return f"{size} at {bins_text(row.n_bins)}{test}, {part.direction.word}"


def evaluate(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int | Sequence[int] | None = None,
    errors: Sequence[str] | None = None,
    labels: Any = None,
    pos_label: Any = 1,
    by: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
    resamples: int | None = None,
    seed: int = 0,
    diagram_bins: int = DIAGRAM_BINS,
    name: str = "model",
) -> Evaluation:
    """Measure one model: every loss, every applicable error as n·error = loss + U, the calibration test, the tables.

    `y_proba` is (n, k), or (n,) for the probability of `pos_label`, or TopPredictions(correct, confidence) with
    y_true=None, for which only confidence errors apply. `by` gives each row a subgroup and measures each as well (the
    outcome itself is refused: given the outcome, every model looks miscalibrated); `groups` gives each row a cluster,
    left out as a whole in the intervals; n·error is then loss + U + within, U of pairs from different clusters, and the
    calibration test and bands, which need independent rows, are withheld. n_bins defaults to 5, 20 and 2000, none above
    2n/5. `errors` defaults to every member of ERRORS that applies, less the costliest ones for very large inputs.
    `resamples=None` plans up to 999 draws within about a second per error and says in `notes` what it left out; a
    number is used everywhere, or for bands the fewest that the level needs (39 at 95%) if that is more.

    >>> import truecal as tc
    >>> y, p = [0, 1, 1, 0, 1, 1, 0, 1], [.1, .6, .7, .3, .9, .4, .2, .8]
    >>> result = tc.evaluate(y, p, n_bins=2, errors=["binary"], resamples=99)
    >>> row = result.errors[0]
    >>> round(row.loss + row.U - 8 * row.value, 12)
    0.0
    """
    inputs = read_inputs(y_true, y_proba, labels=labels, pos_label=pos_label, sample_weight=sample_weight)
    settings = read_settings(inputs, n_bins, errors, level, resamples, seed, diagram_bins)
    clusters = None if groups is None else _read_clusters(groups, inputs.n_samples)
    subgroups = None if by is None else read_subgroups(by, y_true, inputs)
    result, _ = evaluate_inputs(inputs, settings, name, clusters)
    if subgroups is not None:
        result = with_subgroups(result, inputs, settings, clusters, subgroups, n_bins is None)
    return result


def read_settings(
    inputs: Inputs,
    n_bins: Any,
    errors: Any,
    level: Any,
    resamples: Any,
    seed: Any,
    diagram_bins: Any,
    models: int = 1,
    seconds: float = 1.0,
) -> Settings:
    """Validate the options that all models share."""
    from ..inference.options import check_draws, check_level

    counts = default_bins(inputs.n_samples) if n_bins is None else _sorted_bins(n_bins)
    names = check_errors(errors, inputs)
    notes: tuple[str, ...] = ()
    if errors is None:
        size = inputs.reports.size * models
        heavy = [name for name in names if size > HEAVY.get(name, size)]
        names = tuple(name for name in names if name not in heavy)
        if heavy:
            notes = (f"not measured unless named in errors, for their cost at this size: {', '.join(heavy)}",)
    check_draws(1 if resamples is None else resamples, seed)
    return Settings(
        names=names,
        n_bins=counts,
        level=check_level(level),
        seed=int(seed),
        plan=Plan(resamples, seconds),
        diagram_bins=check_positive_int(diagram_bins, "diagram_bins"),
        notes=notes,
    )


def _sorted_bins(n_bins: Any) -> tuple[int, ...]:
    bins = read_bins(n_bins)
    return tuple(sorted(set(bins))) if isinstance(bins, tuple) else (int(bins),)


def _read_clusters(groups: Any, n: int) -> Array:
    from ..inference.options import check_groups as check_clusters

    clusters = check_clusters(groups, n)
    assert clusters is not None
    return clusters[0]


def evaluate_inputs(
    inputs: Inputs, settings: Settings, name: str, clusters: Array | None
) -> tuple[Evaluation, Measured]:
    """An Evaluation of validated predictions, and all that was measured on the way."""
    found = measure(inputs, settings, clusters)
    notes = found.notes
    if inputs.kind == "top_label":
        notes = ("only the top class is known: only confidence errors and two losses apply", *notes)
    result = Evaluation(
        name=str(name),
        kind=inputs.kind,
        n_samples=inputs.n_samples,
        n_classes=inputs.n_classes,
        n_bins=settings.n_bins,
        level=settings.level,
        losses=found.losses,
        errors=found.errors,
        tests=found.tests,
        direction=found.direction,
        reliability=found.reliability,
        notes=notes,
    )
    return result, found


def read_subgroups(by: Any, y_true: Any, inputs: Inputs) -> Array:
    """One subgroup per row; refused where the subgroups are the outcomes under other names."""
    groups = check_groups(by, inputs.n_samples, "by")
    outcomes = [inputs.y]
    if inputs.kind == "top_label" and y_true is not None:
        outcomes.append(as_array(y_true, "y_true"))  # the labels too, where only the top class is measured
    if any(_one_to_one(groups, outcome) for outcome in outcomes):
        raise ValueError(
            "by gives each outcome a subgroup of its own: given the outcome, every model looks miscalibrated, even the "
            "true probabilities; group by something known before the outcome"
        )
    return groups


def _one_to_one(groups: Array, outcomes: Array) -> bool:
    """Whether two vectors, of at least two values each, name the same parts of the rows."""
    if groups.shape != outcomes.shape:
        return False
    _, first = np.unique(groups, return_inverse=True)
    _, second = np.unique(outcomes, return_inverse=True)
    pairs = len(set(zip(first.reshape(-1).tolist(), second.reshape(-1).tolist(), strict=True)))
    return bool(2 <= pairs == first.max() + 1 == second.max() + 1)


def with_subgroups(
    result: Evaluation, inputs: Inputs, settings: Settings, clusters: Array | None, groups: Array, own_bins: bool
) -> Evaluation:
    """The evaluation with one more per subgroup, in sorted order."""
    parts = {}
    for value in np.unique(groups):
        rows = np.flatnonzero(groups == value)
        part = inputs.take(rows)
        if part.weights is not None and not part.weights.any():
            raise ValueError(f"sample_weight is zero in every row of subgroup {value!s}")
        mine = replace(settings, n_bins=default_bins(len(rows))) if own_bins else settings
        parts[str(value)] = evaluate_inputs(part, mine, str(value), None if clusters is None else clusters[rows])[0]
    return replace(result, subgroups=parts)
