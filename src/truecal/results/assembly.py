"""From evidence to results: the one place where an Evaluation is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from ..core.result import on_one_line
from ..core.words import count_text
from ..evidence.evidence import Evidence
from ..evidence.values import ErrorValue
from ..evidence.views import ViewValue
from ..inference.calibration_result import FEWEST
from ..inference.gaps import Gap, agreeing
from ..kinds import COMPOSED
from ..kinds.own_levels import NAME as OWN_LEVELS
from .evaluation import Evaluation
from .verdict import standings

Name = TypeVar("Name")


def make_evaluation(evidence: Evidence, name: str, subgroups: Mapping[str, Evaluation] | None = None) -> Evaluation:
    """One model's evidence as an Evaluation."""
    found = Evaluation(
        name=on_one_line(name),
        kind=evidence.kind.name,
        n_samples=evidence.n_samples,
        n_classes=evidence.n_classes,
        level=evidence.level,
        losses=evidence.losses,
        errors=tuple(evidence.errors),
        gaps=evidence.gaps,
        test=evidence.test,
        direction=evidence.direction,
        reliability=evidence.reliability,
        notes=tuple(evidence.notes),
        views=evidence.views,
        subgroups=dict(subgroups or {}),
        discrimination=evidence.discrimination,
        sampling=evidence.sampling,
        scale=evidence.scale,
    )
    if found.gap is not None and found.gap.note:
        found = replace(found, notes=(*found.notes, f"the interval of the gap is {found.gap.note}"))
    return judged({"": found}, evidence.level)[""]


def judged(evaluations: Mapping[Name, Evaluation], level: float) -> dict[Name, Evaluation]:
    """Every model with the result of its test, corrected over all of them, and gaps that agree with it.

    The interval of a gap excludes 0 where the test rejects for a reason that the gap shows, and only where it rejects.
    A direction is named only where it rejects.
    """
    out = {}
    for name, standing in standings(evaluations, level).items():
        found = evaluations[name]
        if found.test is None and found.n_samples < FEWEST:
            standing = replace(standing, state="too few rows")
        gaps, errors, views, test = found.gaps, found.errors, found.views, found.test
        direction, rejected = found.direction, standing.state == "rejected"
        shown = next((key for key, gap in gaps.items() if gap is found.gap), "")
        if test is not None and standing.state in ("rejected", "not rejected"):
            sure = {shown} if shown and (tested(shown) or gaps[shown].name == OWN_LEVELS) else set()
            low = {key: test.low_gap if key in sure else 0.0 for key in gaps}
            gaps = {key: agreeing(gap, rejected, low[key]) for key, gap in gaps.items()}
            errors = tuple(
                [_with_gap(row, gaps) if row.headline and row.gap_low is not None else row for row in errors]
            )
            if not rejected:
                views = tuple([v if v.pvalue is not None else _not_rejected(v) for v in views])
                direction = replace(direction, clear=0.0)
        gap, about = gaps.get(shown), dict[str, Any]()
        word = direction.word if direction.sized else ""
        if gap is not None and not gap.note and gap.high == gap.high:
            about = {"allows": gap.high, "seen": gap.low > 0 and gap.name != OWN_LEVELS and word != ""}
        if test is not None and gap is not None:
            about["widest"] = test.widest
            test = replace(test, gap=gap.points, low=gap.low, high=gap.high, note=gap.note, direction=word)
        rows = f"{count_text(found.n_samples)} {found.about.row_word.replace('samples', 'rows')}"
        standing = replace(standing, rows=rows, **about)
        changed: dict[str, Any] = {"gaps": gaps, "errors": errors, "views": views, "direction": direction}
        out[name] = replace(found, test=test, standing=standing, **changed)
    return out


def _not_rejected(view: ViewValue) -> ViewValue:
    return replace(view, gap=agreeing(view.gap, False, 0.0))


def _with_gap(row: ErrorValue, gaps: Mapping[str, Gap]) -> ErrorValue:
    """The row in summaries with the interval that agrees with the test."""
    gap = gaps.get(row.error)
    return row if gap is None else replace(row, gap=gap.points, gap_low=gap.low, gap_high=gap.high)


def tested(error: str) -> bool:
    """Whether the test has forms about the gap of this error: that of the confidence, of one event or of labels."""
    property = COMPOSED[error].property
    return property.picks_outcome or property.event or property.label_by_label


def judge_subgroups(evaluations: Mapping[str, Evaluation]) -> None:
    """Correct the tests of subgroups over all of them, and over all models."""
    parts = {(model, key): part for model, found in evaluations.items() for key, part in found.subgroups.items()}
    for (model, key), part in judged(parts, next(iter(evaluations.values())).level).items():
        evaluations[model].subgroups[key] = part
