"""A sign and a size a person understands: are the reports too high or too low on average, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from ..errors import CalibrationError, get_error
from ..properties import Binary, Confidence, Outcomes, Sample, TopLabel
from .results import Result, check_groups

Array = NDArray[Any]


@final
@dataclass(frozen=True, repr=False)
class MeanGap(Result):
    """Mean report minus mean outcome with its standard error; positive: the reports promise too much.

    For anything about classes the report is the confidence in the top class and the outcome whether it was right, so a
    positive gap is over-confidence.
    """

    gap: float
    se: float
    mean_report: float
    mean_outcome: float
    confidence: bool
    n_samples: int

    @property
    def word(self) -> str:
        """over-confident, under-confident, too high, too low, or that no direction is visible."""
        if not abs(self.gap) > 2 * self.se:  # also where a single row has no standard error
            return "no clear direction"
        if self.confidence:
            return "over-confident" if self.gap > 0 else "under-confident"
        return "too high" if self.gap > 0 else "too low"

    def __repr__(self) -> str:
        names = ("mean confidence", "accuracy") if self.confidence else ("mean report", "mean outcome")
        return (
            f"{self.word}: gap {self.gap:+.4g} ± {self.se:.2g} "
            f"({names[0]} {self.mean_report:.4g}, {names[1]} {self.mean_outcome:.4g})"
        )


def mean_gap(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "confidence",
    groups: Any = None,
    sample_weight: Any = None,
    labels: Any = None,
) -> MeanGap:
    """Signed mean gap, mean report − mean outcome, with its standard error (between clusters with `groups`).

    For errors about classes: mean confidence in the top class − accuracy; positive means over-confident. For binary and
    linear errors: mean report − mean outcome. A gap of zero does not mean calibrated: gaps of both signs cancel in it.

    >>> import truecal as tc
    >>> tc.mean_gap([1, 0, 1, 1], [[.2, .8], [.9, .1], [.4, .6], [.7, .3]])
    no clear direction: gap +0 ± 0.24 (mean confidence 0.75, accuracy 0.75)
    """
    metric = get_error(error)
    if not isinstance(metric.property, (Binary, Outcomes, TopLabel)):
        sample = Confidence().read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    else:
        sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    return gap_of(sample, check_groups(groups, sample.rows))


def gap_of(sample: Sample, groups: tuple[Array, int] | None = None) -> MeanGap:
    """The signed gap of a validated scalar sample."""
    if sample.views > 1:
        raise ValueError("a signed mean gap needs one report per row; these outcomes are vectors")
    u = sample.reports.astype(np.float64)
    outcome = sample.outcome(slice(0, 1))[0]
    w = np.ones(sample.rows) if sample.weights is None else sample.weights
    total = w.sum()
    gap = float(w @ (u - outcome) / total)
    score = w * (u - outcome - gap)
    if groups is not None:
        score = np.bincount(groups[0], weights=score, minlength=groups[1])
    units = len(score)
    se = float(np.sqrt(units / (units - 1) * np.square(score).sum()) / total) if units > 1 else float("nan")
    return MeanGap(gap, se, float(w @ u / total), float(w @ outcome / total), sample.wrong is not None, sample.rows)
