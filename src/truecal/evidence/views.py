"""One line per label, class or threshold: how often it came, how far its probabilities are off, and its test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.properties import Property
from ..core.sample import Sample
from ..core.types import Groups
from ..core.words import p_text, points_text
from ..inference.calibration_result import CalibrationTest
from ..inference.gaps import Gap, agreeing, gap_interval, gap_text, gaps_of, widest
from ..inference.label_tests import label_test, one_view
from ..inference.omnibus import fewest_draws
from ..kinds.named_errors import COMPOSED
from .budget import Plan


@dataclass(frozen=True)
class ViewValue:
    """One label, class or threshold of a model, as one probability per row.

    `frequency` is how often it came, `mean_report` the mean prediction. `pvalue` is that of its calibration test,
    corrected over all of them by Holm's method; None where they are not tested one by one.
    """

    name: str
    frequency: float
    mean_report: float
    gap: Gap
    pvalue: float | None = None
    at_floor: bool = False
    """Whether no draw was as extreme, so that the p-value is a bound."""

    def __str__(self) -> str:
        said, came, *_ = self.texts
        return f"{self.name}: says {said}, happens {came}, gap {gap_text(self.gap)}{self.p and f', p {self.p}'}"

    @property
    def texts(self) -> tuple[str, str, str, str]:
        """What it says and what happens, the gap, and its interval where it can be trusted."""
        gap = self.gap
        return (
            f"{self.mean_report:.1%}",
            f"{self.frequency:.1%}",
            points_text(gap.points),
            gap_interval(gap) or "unreliable",
        )

    @property
    def p(self) -> str:
        """The p-value, such as "0.4" or "≤ 0.02"."""
        text = "" if self.pvalue is None else p_text(self.pvalue, self.at_floor)
        return text.removeprefix("p ").removeprefix("= ")

    def to_row(self) -> dict[str, Any]:
        """A row of a table."""
        gap = {"gap": self.gap.points, "gap_low": self.gap.low, "gap_high": self.gap.high}
        about = {"name": self.name, "frequency": self.frequency, "mean_report": self.mean_report}
        return about | gap | {"direction": self.gap.direction, "pvalue": self.pvalue, "note": self.gap.note}


def view_values(
    sample: Sample, property: Property, level: float, clusters: Groups | None, names: Sequence[str] | None = None
) -> list[ViewValue]:
    """Every view with its gap and direction."""
    found = []
    for j in range(sample.views):
        view = one_view(sample, j)
        (gap,) = gaps_of(COMPOSED["binary"], view, level, clusters)
        w = view.row_weights
        outcome = view.outcome(slice(0, 1))[0]
        came, told = (float(w @ x / w.sum()) for x in (outcome, view.reports.astype(np.float64)))
        found.append(ViewValue(property.view_name(j, names), came, told, gap))
    return found


def worst_first(views: Sequence[ViewValue]) -> tuple[ViewValue, ...]:
    """By corrected p-value, and by gap among equals."""
    return tuple(sorted(views, key=lambda v: (1.0 if v.pvalue is None else v.pvalue, -v.gap.points)))


def tested_views(
    sample: Sample,
    views: Sequence[ViewValue],
    plan: Plan,
    level: float,
    seed: int,
    clusters: Groups | None,
    noun: str,
) -> tuple[CalibrationTest, list[ViewValue]]:
    """The test of all labels, and each with its corrected p-value."""
    plan = replace(plan, fewest=max(plan.fewest, fewest_draws(sample.views, level)))
    names = [view.name for view in views]
    test, corrected = label_test(sample, lambda view: plan.test(view), seed, names, level, clusters, noun)
    return replace(test, widest=widest(names, [view.gap for view in views])), [
        replace(
            view,
            gap=agreeing(view.gap, p <= 1 - level, detail.low),
            pvalue=p,
            at_floor=test.at_floor and p <= test.pvalue,
        )
        for view, p, detail in zip(views, corrected, test.details, strict=True)
    ]
