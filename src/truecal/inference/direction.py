"""The direction of miscalibration and its size: too high or too low, too extreme or too moderate.

The level is mean report − mean outcome with the usual standard error. A direction needs more care. A sharp predictor's
outcomes mostly agree, the standard error then collapses, and a gap of nothing would look significant; the outcomes of
an over-confident predictor vary more than its reports say, and a gap of nothing would surprise under calibration. So a
level is named where both p-values are small: that of a calibrated predictor with these reports, and that of the t test.
The first is exact where outcomes are 0/1 and rows count alike, normal where many rows carry it, and otherwise a bound
that holds for any weights and any dependence within clusters, E exp(Σ_C w_i x_i) ≤ Π_C (E exp(W_C x_i))^{w_i/W_C}
(Hölder), W_C the weight of the cluster. Where few surprises are expected, the t test gives way to the binomial law at
the mean report, whose tails exceed those of all chances with that mean (Hoeffding 1956).

The spread of one probability per row: the score of the slope b at 1 in logit q = a + b·logit u (Cox 1958) and in q = a
+ b·u, with a fitted, so that a level that is off does not look like a spread that is. A shift of the logits bends
probabilities, and a shift of the probabilities bends logits, so both must agree. The variance of a score is the larger
of the one under calibration and the one seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np
from scipy.special import bdtr, bdtrc, expit, logit, ndtr, stdtr

from ..core.data import row_blocks
from ..core.frames import matching_rows
from ..core.properties import Property
from ..core.result import Result
from ..core.sample import Sample
from ..core.table import BinTable
from ..core.types import Array, Groups
from ..kinds.ordered import ON_SCALE
from ..sums.errors import CalibrationError
from .checks import check_groups, effective_number, per_unit, read_error
from .poisson_binomial import poisson_binomial

CLEAR = 0.05
"""A direction is named where a calibrated predictor would show so large a gap in at most this share of samples."""
FEW_CLUSTERS = 10.0
"""With fewer effective clusters, (Σ size)²/Σ size², no direction is named: one of them may be all there is to see."""
NO_DIRECTION = "no clear direction"
_SPREADS = {"over-confident": "too extreme", "under-confident": "too moderate"}
_ABOUT_RIGHT = 2.0  # points, of a mean beside which only the spread is named
_MANY = 1000  # this many rows' worth of variance, and the normal distribution is good enough
_SURPRISES = 20  # so many expected, Σ u(1 − u), and the t test of the level can be trusted
_MANY_CLUSTERS = 30  # this many clusters expected to hold a surprise, and their spread can be trusted
_FARTHEST = 14.0  # logits are cut here, about 1e-6 from 0 and 1
_STEP = 0.01  # rows whose logits differ by no more share a cell when the spread is looked at
_MOST_CELLS = 1 << 20  # of logits, over all folds; with more the folds hold too few rows to say anything of a spread


@final
@dataclass(frozen=True)
class Direction:
    """The direction of miscalibration; an axis that is not clear, or does not apply, is empty.

    `level`: "too high" or "too low", mean prediction against observed frequency. `spread`: "over-confident" (too
    extreme) or "under-confident" (too moderate). `points` is 100·(mean prediction − observed frequency), the size of
    the level. For anything about classes it is 100·(mean confidence − accuracy), and over-confidence is by so many
    points.

    >>> from truecal.inference.direction import Direction
    >>> str(Direction("too high", "over-confident", 5.0)), str(Direction())
    ('too high and over-confident', 'no clear direction')
    """

    level: str = ""
    spread: str = ""
    points: float = 0.0

    def __str__(self) -> str:
        return " and ".join(filter(None, (self.level, self.spread))) or NO_DIRECTION


@final
@dataclass(frozen=True, repr=False, eq=False)
class MeanGap(Result):
    """Mean report minus mean outcome with its standard error; positive: the reports are too high.

    `pvalue` is that of a gap as large if the reports are right on average, and `spread_pvalue` that of a slope as far
    from 1 (NaN where it does not apply); `extreme` is positive where predictions are too extreme. Both axes together
    name a wrong direction in at most the share `clear` of samples (Holm); `clear` is 0, so that no direction is named,
    where a calibration test did not reject. `se` is undefined (NaN) where all rows are
    alike.

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
    spread_pvalue: float = np.nan
    extreme: float = np.nan
    clear: float = CLEAR
    place: str = ""
    """What follows "too high" and "too low", such as "on the scale" of ordered classes."""

    @cached_property
    def direction(self) -> Direction:
        """The level and the spread, where they are clear."""
        pvalues = [p if p == p else 2.0 for p in (self.pvalue, self.spread_pvalue)]
        looks = 1 if self.spread_pvalue != self.spread_pvalue else 2
        first = min(pvalues) * looks <= self.clear
        level, spread = [first and (p == min(pvalues) or p <= self.clear) for p in pvalues]
        points = 100 * self.gap
        if self.confidence:
            return Direction("", ("over-confident" if points > 0 else "under-confident") if level else "", points)
        return Direction(
            f"{'too high' if points > 0 else 'too low'}{self.place}" if level else "",
            ("over-confident" if self.extreme > 0 else "under-confident") if spread else "",
            points,
        )

    @property
    def word(self) -> str:
        """The direction in words: "over-confident", "too high", "too low and over-confident", "no clear direction"."""
        return str(self.direction)

    @property
    def sized(self) -> str:
        """The direction with its size; empty where none is clear.

        >>> from truecal.inference.direction import MeanGap
        >>> MeanGap(.085, .01, .278, .193, False, 99, 1e-9).sized
        'too high by 8.5 points'
        >>> MeanGap(-.003, .01, .474, .477, False, 99, .8, spread_pvalue=1e-9, extreme=1.0).sized
        'about right on average, but too extreme'
        """
        shown = abs(round(100 * self.mean_report, 1) - round(100 * self.mean_outcome, 1))  # so that digits add up
        found, size = self.direction, f" by {shown:.1f} points"
        if self.confidence:
            return found.spread and found.spread + size
        level = found.level and found.level + ("" if self.place else size)
        spread = _SPREADS.get(found.spread, "")
        if spread and not level and shown <= _ABOUT_RIGHT:
            return f"about right on average, but {spread}"
        return " and ".join(filter(None, (level, spread)))

    def __repr__(self) -> str:
        names = ("mean confidence", "accuracy") if self.confidence else ("mean prediction", "mean outcome")
        size = f"± {self.se:.2g}" if np.isfinite(self.se) else "without a standard error"
        return (
            f"{self.word}: gap {self.gap:+.4g} {size} "
            f"({names[0]} {self.mean_report:.4g}, {names[1]} {self.mean_outcome:.4g})"
        )


@matching_rows
def mean_gap(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    labels: Any = None,
) -> MeanGap:
    """Signed mean gap, mean report − mean outcome, with its standard error (between clusters with `groups`).

    For errors about classes: mean confidence in the top class − accuracy; positive means over-confident. For binary and
    linear errors: mean report − mean outcome. A gap of zero does not mean calibrated: gaps of both signs cancel in it.
    One probability per row has a second axis, its spread: over-confident where predictions are too extreme. A wrong
    direction is named in at most 5% of samples.

    >>> import truecal as tc
    >>> tc.analysis.mean_gap([1] * 12, [.7] * 12, error="binary")  # .7 ** 12 is 1.4%, one side of two
    too low: gap -0.3 without a standard error (mean prediction 0.7, mean outcome 1)
    >>> tc.analysis.mean_gap([1] * 12, [.9] * 12, error="binary").word
    'no clear direction'
    >>> tc.analysis.mean_gap([0, 0, 0, 1] * 20 + [0, 1, 1, 1] * 20, [.05] * 80 + [.95] * 80, error="binary").word
    'over-confident'
    """
    property = read_error(error, None, y_proba, of_gap=True).property.direction_property()
    sample = property.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    return gap_of(sample, check_groups(groups, sample.rows, 1, y_true))


def gap_of(sample: Sample, groups: Groups | None = None, clear: float = CLEAR, folds: Groups | None = None) -> MeanGap:
    """The signed gap of a validated scalar sample, and the spread of one probability per row, within folds if given."""
    if sample.views > 1:
        raise ValueError("a signed mean gap needs one report per row; these outcomes are vectors")
    sample = sample.on_host()
    total = sample.total_weight
    sums = np.zeros(4)
    largest = 0.0
    for w, u, outcome in _rows(sample):
        sums += (w * np.stack([u - outcome, u, outcome, w * u * (1 - u)])).sum(axis=1)
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
    seen = t_pvalue(gap, se, units)
    if few:
        pvalue = np.nan
    elif sample.variance is not None:  # as for 0/1 outcomes, the larger of both p-values
        squares = float((np.square(sample.row_weights) * sample.variance).sum())
        null = 2 * float(ndtr(-abs(gap) * total / np.sqrt(squares))) if squares > 0 else float(abs(gap) < 1e-12)
        pvalue = float(np.fmax(null, seen))
    elif sample.values is not None:
        pvalue = seen
    elif groups is None and sums[3] >= _MANY * (1.0 if sample.weights is None else float(sample.weights.max()) ** 2):
        pvalue = float(np.fmax(2 * ndtr(-abs(gap) / (np.sqrt(sums[3]) / total)), seen))
    else:
        pvalue = _null_pvalue(sample, gap, se, units, groups, seen)
    spread, extreme = (np.nan, np.nan)
    if sample.event and not few:
        spread, extreme = _spread(sample, groups, folds)
    about = (gap, se, report, came, sample.wrong is not None, sample.rows, pvalue)
    return MeanGap(*about, spread, extreme, clear, ON_SCALE if sample.variance is not None and not sample.event else "")


def _rows(sample: Sample) -> Iterator[tuple[Array, Array, Array]]:
    """Weights, reports and outcomes, a block of rows at a time."""
    for rows in row_blocks(sample.rows, 32):
        yield sample.row_weights[rows], sample.reports[rows].astype(np.float64), sample.outcome(slice(0, 1), rows)[0]


def mean_gap_of_table(table: BinTable, property: Property) -> MeanGap:
    """The signed gap of a table of one view, whose rows are gone: a direction is named only where the squared residuals
    are those of a thousand rows' worth of surprises or more. The spread is read off the bins."""
    assert table.residual_sq is not None
    totals = table.totals
    gap, own = float(table.residual.sum()) / totals.weight, float(table.residual_sq.sum())
    spread = max(own - gap * gap * totals.weight_sq, 0.0)
    se = float(np.sqrt(spread)) / totals.weight if spread > 0 else float("nan")
    many = own >= _MANY * totals.largest**2
    pvalue = t_pvalue(gap, se, totals.rows) if many else float("nan")
    means = float(table.report.sum()) / totals.weight, float(table.outcome.sum()) / totals.weight
    found = MeanGap(gap, se, *means, property.picks_outcome, totals.rows, pvalue, place=property.place)
    used = table.count[0] > 0
    if not property.event or not many or np.count_nonzero(used) < 2:
        return found
    count, residual, *squares = (
        sums[0][used] for sums in (table.count, table.residual, table.cell_weight_sq, table.residual_sq)
    )
    with np.errstate(divide="ignore"):
        x = np.clip(logit(np.clip(table.report[0][used] / count, 0.0, 1.0)), -_FARTHEST, _FARTHEST)
    slopes = _slope_scores(x, count, residual, *squares)
    if slopes is None:
        return found
    pvalue, extreme = _joined(np.array([each[:2] for each in slopes]), totals.rows - 1)
    return replace(found, spread_pvalue=pvalue, extreme=extreme)


def between_units(found: MeanGap, residual: Array, weight: Array) -> MeanGap:
    """The same gap with the standard error between units, of residual sums and weights per unit."""
    used = weight > 0
    units, score = int(np.count_nonzero(used)), (residual - weight * found.gap)[used]
    se = float(np.sqrt(units / (units - 1) * np.square(score).sum()) / weight.sum()) if units > 1 else np.nan
    few = units < 2 or effective_number(weight[used]) < FEW_CLUSTERS
    pvalue = np.nan if few else t_pvalue(found.gap, se, units)
    return replace(found, se=se, pvalue=pvalue, spread_pvalue=np.nan, extreme=np.nan)


def t_pvalue(gap: float, se: float, units: int) -> float:
    return float(2 * stdtr(units - 1, -abs(gap) / se)) if np.isfinite(se) and units > 2 else np.nan


def _null_pvalue(sample: Sample, gap: float, se: float, units: int, groups: Groups | None, seen: float) -> float:
    """Two-sided p-value of the gap of 0/1 outcomes if the reports are right, or right on average, where few rows carry
    it or clusters do; `seen` is that of the t test."""
    u, w = sample.reports.astype(np.float64), sample.row_weights
    if groups is not None:
        null_sd = float(np.sqrt((np.square(w) * u * (1 - u)).sum()) / w.sum())
        most = np.zeros(groups[1])  # how many clusters hold a surprise, if the rows of a cluster go together
        np.maximum.at(most, groups[0], np.where(w > 0, np.minimum(u, 1 - u), 0.0))
        if most.sum() >= _MANY_CLUSTERS:
            return t_pvalue(gap, max(se if np.isfinite(se) else 0.0, null_sd), units)
        return float(np.fmax(_bound(u, w, per_unit(w, groups)[groups[0]], gap * w.sum()), seen))
    used = w > 0
    if (w[used] == w[used][0]).all():
        assert sample.marks is not None
        return count_pvalue(u[used], sample.marks[used], seen)
    return float(np.fmax(_bound(u, w, w, gap * w.sum()), seen))


def count_pvalue(u: Array, marks: Array | None, seen: float) -> float:
    """Two-sided p-value of the number of ones among draws with these chances, and with others of the same mean."""
    assert marks is not None
    open_rows = (u > 0) & (u < 1)
    law, ones = poisson_binomial(u[open_rows]), int(np.count_nonzero(marks))
    inside = ones - int(np.count_nonzero(u >= 1))
    pvalue = 2 * min(law.at_most(inside), law.at_least(inside))
    u = u.astype(np.float64)
    if (u * (1 - u)).sum() < _SURPRISES:
        n, mean = len(u), min(float(u.mean()), 1.0)
        at_least = float(bdtrc(ones - 1, n, mean)) if ones else 1.0
        seen = 2 * min(float(bdtr(ones, n, mean)), at_least)
    return float(min(1.0, np.fmax(pvalue, seen)))


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


# -- the spread of one probability per row ----------------------------------------------------------------------------


def _spread(sample: Sample, groups: Groups | None, folds: Groups | None) -> tuple[float, float]:
    """p-value of a slope as far from 1 as this, and the statistic: positive where predictions are too extreme.

    With folds each has its own intercept: predictions of a fold as a whole move against its labels.
    """
    fold, strata = (None, 1) if folds is None else folds
    size = round(2 * _FARTHEST / _STEP) + 1
    if strata * size > _MOST_CELLS:
        return np.nan, np.nan
    sums, cells, units, start = np.zeros((4, strata * size)), [], 0, 0
    for w, u, outcome in _rows(sample):
        cell, r = _logit_cells(u), w * (u - outcome)
        if fold is not None:
            cell = cell + size * fold[start : start + len(u)]
        start += len(u)
        sums += [np.bincount(cell, y, strata * size) for y in (w, r, w * w, r * r)]
        units += int(np.count_nonzero(w))
        cells += [cell] if groups is not None else []
    x, found = _STEP * np.arange(size) - _FARTHEST, []
    for first in range(0, strata * size, size):
        used = first + np.flatnonzero(sums[0, first : first + size] > 0)
        found += [(used, each) for each in [_slope_scores(x[used - first], *sums[:, used])] if each is not None]
    if not found:
        return np.nan, np.nan
    scores = np.sum([[(one.score, one.variance) for one in each] for _, each in found], axis=0)
    if groups is not None:
        w, cell = sample.row_weights, np.concatenate(cells)
        units = int(np.count_nonzero(per_unit(w, groups)))
        for scale in range(2):
            coefficient, moved = np.zeros((2, strata * size))
            for used, each in found:
                coefficient[used], moved[used] = each[scale].coefficient, each[scale].moved
            by_unit = per_unit(coefficient[cell] * (sample.residuals(slice(0, 1))[0] + w * moved[cell]), groups)
            scores[scale, 1] = max(scores[scale, 1], float(np.square(by_unit).sum()))
    return _joined(scores, units - strata)


def _joined(scores: Array, units: int) -> tuple[float, float]:
    """Join the scores of both scales: the larger p-value where their signs agree, 1 where they do not."""
    (logits, plain), sd = scores[:, 0].tolist(), np.sqrt(scores[:, 1])
    pvalue = max(t_pvalue(float(score), float(each), units) for score, each in zip((logits, plain), sd, strict=True))
    return (pvalue if logits * plain > 0 else 1.0), logits


def _logit_cells(u: Array) -> Array:
    with np.errstate(divide="ignore"):
        x = np.clip(logit(u), -_FARTHEST, _FARTHEST)
    return np.asarray(np.rint((x + _FARTHEST) / _STEP), dtype=np.intp)


class _Slope(NamedTuple):
    """The score of a slope at 1 with the intercept fitted."""

    score: float
    variance: float
    """The larger of the one under calibration and the one seen."""
    coefficient: Array
    """What a residual of each cell counts."""
    moved: Array
    """What the intercept adds to a residual of each cell."""


def _slope_scores(
    x: Array, weight: Array, residual: Array, weight_sq: Array, residual_sq: Array
) -> tuple[_Slope, _Slope] | None:
    """The slope of the logits x and that of the probabilities; None where all outcomes or all logits are the same."""
    u = expit(x)
    low, high = -2 * _FARTHEST, 2 * _FARTHEST
    for _ in range(60):  # Σ w(σ(x + a) − outcome) grows with a
        a = (low + high) / 2
        low, high = (low, a) if float((residual + weight * (expit(x + a) - u)).sum()) > 0 else (a, high)
    chance = expit(x + a)
    s = chance * (1 - chance)
    if len(x) < 2 or abs(a) > 1.9 * _FARTHEST or not float(weight @ s) > 0:
        return None
    level = np.full(len(x), -float(residual.sum() / weight.sum()))
    of_logits = x - float(weight * s @ x) / float(weight @ s), chance - u, s
    of_chances = u - float(weight @ u) / float(weight.sum()), level, u * (1 - u)
    found = []
    for coefficient, moved, variance in (of_logits, of_chances):
        seen = residual_sq + weight_sq * moved * (2 * residual / weight + moved)
        squares = np.square(coefficient)
        score = float((residual + weight * moved) @ coefficient)
        spread = max(float(weight_sq * variance @ squares), float(seen @ squares))
        found.append(_Slope(score, spread, coefficient, moved))
    return (found[0], found[1]) if min(each.variance for each in found) > 0 else None
