"""A sign and a size a person understands: are the reports too high or too low on average, and by how much.

The size has the usual standard error. The word needs more care: a sharp predictor's outcomes mostly agree, the standard
error then collapses, and a gap of nothing would look significant. So the word asks how often a calibrated predictor
with these reports would show so large a gap: exactly where outcomes are 0/1 and rows count alike, by the normal
distribution where many rows carry it, and otherwise by a bound that holds for any weights and any dependence within
clusters, E exp(Σ_C w_i x_i) ≤ Π_C (E exp(W_C x_i))^{w_i/W_C} (Hölder), W_C the weight of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy.special import ndtr, stdtr

from ..backends.numpy import dot
from ..core.data import row_blocks
from ..core.errors import CalibrationError
from ..core.properties import Binary, Confidence, Outcomes, TopLabel
from ..core.result import Result
from ..core.sample import Sample
from ..core.table import BinTable
from ..core.types import Array, Groups
from .options import check_groups, effective_number, per_unit, read_error
from .poisson_binomial import poisson_binomial

CLEAR = 0.05
"""A direction is named where a calibrated predictor would show so large a gap in at most this share of samples."""
FEW_CLUSTERS = 10.0
"""With fewer effective clusters, (Σ size)²/Σ size², no direction is named: one of them may be all there is to see."""
_MANY = 1000  # this many rows' worth of variance, and the normal distribution is good enough
_MANY_CLUSTERS = 30  # this many clusters expected to hold a surprise, and their spread can be trusted


@final
@dataclass(frozen=True, repr=False, eq=False)
class MeanGap(Result):
    """Mean report minus mean outcome with its standard error; positive: the reports promise too much.

    `pvalue` is the share of samples, or a bound on it, in which a calibrated predictor with these reports shows a gap
    as large; a direction is named up to 5%. `se` is undefined (NaN) where all rows are alike.

    For anything about classes the report is the confidence in the top class and the outcome whether it was right, so a
    positive gap is over-confidence.
    """

    gap: float
    se: float
    mean_report: float
    mean_outcome: float
    confidence: bool
    n_samples: int
    pvalue: float

    @property
    def word(self) -> str:
        """over-confident, under-confident, too high, too low, or that no direction is visible."""
        if not self.pvalue <= CLEAR:  # also where it is undefined
            return "no clear direction"
        if self.confidence:
            return "over-confident" if self.gap > 0 else "under-confident"
        return "too high" if self.gap > 0 else "too low"

    def __repr__(self) -> str:
        names = ("mean confidence", "accuracy") if self.confidence else ("mean prediction", "mean outcome")
        size = f"± {self.se:.2g}" if np.isfinite(self.se) else "without a standard error"
        return (
            f"{self.word}: gap {self.gap:+.4g} {size} "
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
    A direction is named where at most 5% of calibrated samples would show such a gap.

    >>> import truecal as tc
    >>> tc.mean_gap([1] * 12, [.7] * 12, error="binary")  # .7 ** 12 is 1.4%, one side of two
    too low: gap -0.3 without a standard error (mean prediction 0.7, mean outcome 1)
    >>> tc.mean_gap([1] * 12, [.9] * 12, error="binary").word
    'no clear direction'
    """
    property = read_error(error, None).property
    property = property if isinstance(property, (Binary, Outcomes, TopLabel)) else Confidence()
    sample = property.read(y_true, y_proba, sample_weight=sample_weight, labels=labels).on_host()
    return gap_of(sample, check_groups(groups, sample.rows, 1, y_true))


def gap_of(sample: Sample, groups: Groups | None = None) -> MeanGap:
    """The signed gap of a validated scalar sample."""
    if sample.views > 1:
        raise ValueError("a signed mean gap needs one report per row; these outcomes are vectors")
    total = sample.total_weight
    sums = np.zeros(4)
    largest = 0.0
    for w, u, outcome in _rows(sample):
        sums += [dot(w, u - outcome), dot(w, u), dot(w, outcome), dot(np.square(w), u * (1 - u))]
        largest = max(largest, float(np.abs(u).max()))
    gap, report, came = (sums[:3] / total).tolist()
    squares, units, few = 0.0, 0, False
    if groups is None:
        for w, u, outcome in _rows(sample):
            squares += float(np.square(w * (u - outcome - gap)).sum())
            units += int(np.count_nonzero(w))
    else:
        w = sample.row_weights
        score, weight = (per_unit(x, groups) for x in (sample.residuals(slice(0, 1))[0] - w * gap, w))
        squares, units = float(np.square(score).sum()), int(np.count_nonzero(weight))
        few = effective_number(weight) < FEW_CLUSTERS
    se = float(np.sqrt(units / (units - 1) * squares) / total) if units > 1 else np.nan
    if se <= 1e-12 * max(abs(gap), largest * 1e-3):  # what rounding leaves of 0
        se = np.nan
    if few:
        pvalue = np.nan
    elif sample.values is not None:
        pvalue = _t_pvalue(gap, se, units)
    elif groups is None and sums[3] >= _MANY * (1.0 if sample.weights is None else float(sample.weights.max()) ** 2):
        pvalue = float(2 * ndtr(-abs(gap) / (np.sqrt(sums[3]) / total)))
    else:
        pvalue = _null_pvalue(sample, gap, se, units, groups)
    return MeanGap(gap, se, report, came, sample.wrong is not None, sample.rows, pvalue)


def _rows(sample: Sample) -> Iterator[tuple[Array, Array, Array]]:
    """Weights, reports and outcomes, a block of rows at a time."""
    for rows in row_blocks(sample.rows, 32):
        yield sample.weights_of(rows), sample.reports[rows].astype(np.float64), sample.outcome(slice(0, 1), rows)[0]


def mean_gap_of_table(table: BinTable) -> MeanGap:
    """The signed gap of a table of one view, whose rows are gone: a direction is named only where the squared residuals
    of at least a thousand rows' worth of surprises stand for what a calibrated predictor would show."""
    assert table.residual_sq is not None
    totals = table.totals
    gap, own = float(table.residual.sum()) / totals.weight, float(table.residual_sq.sum())
    spread = max(own - gap * gap * totals.weight_sq, 0.0)
    se = float(np.sqrt(spread)) / totals.weight if spread > 0 else float("nan")
    many = own >= _MANY * totals.largest**2
    pvalue = _t_pvalue(gap, se, totals.rows) if many else float("nan")
    means = float(table.report.sum()) / totals.weight, float(table.outcome.sum()) / totals.weight
    return MeanGap(gap, se, *means, table.kind == Confidence.kind, totals.rows, pvalue)


def _t_pvalue(gap: float, se: float, units: int) -> float:
    return float(2 * stdtr(units - 1, -abs(gap) / se)) if np.isfinite(se) and units > 2 else np.nan


def _null_pvalue(sample: Sample, gap: float, se: float, units: int, groups: Groups | None) -> float:
    """Two-sided p-value of the gap of 0/1 outcomes if the reports are right, where few rows carry it or clusters do."""
    if groups is None and sample.weights is None:
        return _count_pvalue(sample.reports, sample.marks)
    u, w = sample.reports.astype(np.float64), sample.row_weights
    if groups is not None:
        null_sd = float(np.sqrt((np.square(w) * u * (1 - u)).sum()) / w.sum())
        most = np.zeros(groups[1])  # how many clusters hold a surprise, if the rows of a cluster go together
        np.maximum.at(most, groups[0], np.where(w > 0, np.minimum(u, 1 - u), 0.0))
        if most.sum() >= _MANY_CLUSTERS:
            return _t_pvalue(gap, max(se if np.isfinite(se) else 0.0, null_sd), units)
        return _bound(u, w, per_unit(w, groups)[groups[0]], gap * w.sum())
    used = w > 0
    if (w[used] == w[used][0]).all():
        assert sample.marks is not None
        return _count_pvalue(u[used], sample.marks[used])
    return _bound(u, w, w, gap * w.sum())


def _count_pvalue(u: Array, marks: Array | None) -> float:
    """Two-sided p-value of the number of ones among draws with these chances."""
    assert marks is not None
    open_rows = (u > 0) & (u < 1)
    law, ones = poisson_binomial(u[open_rows]), int(np.count_nonzero(marks)) - int(np.count_nonzero(u >= 1))
    return min(1.0, 2 * min(law.at_most(ones), law.at_least(ones)))


def _bound(u: Array, w: Array, whole: Array, gap: float) -> float:
    """Chernoff's bound of both tails of Σ w(u − z): 2 min_t exp(Σ (w/W) log E exp(t W (u − z)) − t·gap)."""
    from scipy.optimize import minimize_scalar

    kept = (w > 0) & (u > 0) & (u < 1)
    if not kept.any():  # certain reports: any gap is impossible
        return 1.0 if gap == 0 else 0.0
    u, w, whole = (x[kept] for x in (u, w, whole))
    v = 1 - u  # kept beside u: of a tiny u, 1 − (1 − u) would be 0
    if gap < 0:
        u, v, gap = v, u, -gap
    share, scale, log_u, log_v = w / whole, float(whole.max()), np.log(u), np.log(v)

    def exponent(t: float) -> float:
        return float(share @ (whole * t * u + np.logaddexp(log_v, log_u - whole * t)) - t * gap)

    found = minimize_scalar(exponent, bounds=(0.0, 700.0 / scale), method="bounded")
    return min(1.0, 2 * float(np.exp(min(0.0, found.fun))))
