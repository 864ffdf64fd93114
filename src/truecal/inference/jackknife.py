"""The jackknife with frozen bins: what loss, U and the rest become without each row, or without each cluster.

With G frozen, h_i = r_i Σ_{j≠i} G_ij r_j and P = Σ h_i = n·U, leaving row i out changes P by −2 h_i, so all
leave-one-out values come from one pass. What is left out changes the number of pairs too; the mean over pairs
θ = P/(n(n−1)) does not depend on it, and U = (n−1)·θ.

Clusters. Rows of one cluster are not independent, so r_i r_j has no mean of 0 for them even under calibration: with c
copies of each row their pairs add up to (c − 1) losses. U then takes pairs of rows from different clusters only, and
the rest is a part of its own: n·error = loss + U + within, within = n⁻¹ Σ_C Σ_{i≠j∈C} G_ij r_i r_j. Leaving cluster C
out takes 2 Σ_{i∈C} h_i − 2 within_C from the pairs between clusters.

The spread of U grows with its mean: near E[U] = e its variance is Var₀ + 4κe, κ = n⁻¹ Σ_{i≠j} G_ij r_i² r_j² / Σ r²
(for m equal bins κ = loss/m). A low U thus comes with a low se, and U ± t·se would miss above. On the scale of the
square root the spread is constant, which moves the interval by t²κ: its upper end reaches that much further.

That needs enough surprising outcomes. A sharp predictor's r² sits in a few rows; unless several of them share a bin, U,
its se and κ are all near 0 whatever the truth. Where fewer than `SCARCE` pairs of surprises are expected to meet, the
upper end solves (e − U)² = t²(se² + 4κ₀e), with κ₀ that of the surprises spread evenly and four more, and a note says
that the interval is not to be trusted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core.cells import Cells, pieces
from ..core.errors import CalibrationError
from ..core.rules import AveragedRule, Exact, Halfspaces
from ..core.sample import Sample
from .options import counts_of

Array = NDArray[Any]
What = Literal["U", "loss", "within", "error", "score", "sum"]
"""A part, loss + U ("sum"), or all parts together, as n·error ("score") or as the raw error."""

FEW_BINS = 5
"""Below this many bins the jackknife alone covers too seldom under calibration, and the exact null is used as well."""
SCARCE = 15
"""With fewer pairs of surprising outcomes expected to share a bin, no interval for U is to be trusted."""
ROUNDING = 1e-12
SCARCE_NOTE = (
    "not to be trusted: too few surprising outcomes share a bin for U or its spread to be seen; "
    "take more rows or fewer bins"
)


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Loss, U and within part (per bin count) of all rows, and of all rows but one unit; U at the whole sample's size.

    Units are the rows with weight, or the clusters with weight.
    """

    loss: float
    U: Array
    within: Array
    losses_without: Array
    Us_without: Array
    withins_without: Array
    kappa: Array
    kappa_even: Array
    """κ₀: the surprises, and four more, spread evenly over the bins; at least that of single pairs that meet."""
    surprises: Array
    """How many pairs of surprising outcomes are expected to share a bin."""
    clustered: bool

    @property
    def units(self) -> int:
        return len(self.losses_without)


def leave_out(metric: CalibrationError, sample: Sample, groups: tuple[Array, int] | None) -> LeftOut:
    """Every leave-one-out value of the loss part, the U part and the within part, in O(n) after one sort per view."""
    sums = _pair_sums(metric, sample, groups)
    w = np.ones(sample.rows) if sample.weights is None else sample.weights
    losses = sample.loss(bool(metric.corrected))
    each = [w, w * w, w * w * losses]
    if groups is not None:
        each = [np.bincount(groups[0], weights=x, minlength=groups[1]) for x in each]
    units = each[0] > 0
    unit_w, unit_sq, unit_loss = (x[units] for x in each)
    removed, inside = sums.removed[:, units], sums.within[:, units]
    rest_w, rest_sq, rest_loss = (x.sum() - x for x in (unit_w, unit_sq, unit_loss))
    own = np.square(unit_w)
    mass = unit_w.sum() ** 2 - own.sum()  # Σ w_i w_j over rows of different units
    rest_mass = np.square(rest_w) - (own.sum() - own)
    total_sq = sample.total_weight_sq
    if len(unit_w) < 3 or not (rest_mass > 0).all():
        raise ValueError(
            f"an interval needs at least three {'rows' if groups is None else 'clusters'} with weight, and no unit "
            f"that holds all: n={sample.rows}"
        )
    return LeftOut(
        loss=float(unit_loss.sum() / total_sq),
        U=sums.between / total_sq,
        within=inside.sum(axis=1) / total_sq,
        losses_without=rest_loss / rest_sq,
        Us_without=(sums.between[:, None] - removed) / rest_mass * (mass / total_sq),
        withins_without=(inside.sum(axis=1, keepdims=True) - inside) / rest_sq,
        kappa=sums.kappa / total_sq,
        kappa_even=sums.kappa_even / total_sq,
        surprises=sums.surprises,
        clustered=groups is not None,
    )


def cluster_parts(metric: CalibrationError, sample: Sample, groups: tuple[Array, int]) -> tuple[Array, Array]:
    """U over pairs from different clusters, and the within part, per bin count; for any number of clusters."""
    sums = _pair_sums(metric, sample, groups)
    return sums.between / sample.total_weight_sq, sums.within.sum(axis=1) / sample.total_weight_sq


@dataclass(frozen=True, eq=False)
class _PairSums:
    """Per bin count: pairs between units, what leaving each unit out takes from them, pairs within each unit, n·κ,
    n·κ₀, and expected pairs of surprises."""

    between: Array
    removed: Array
    within: Array
    kappa: Array
    kappa_even: Array
    surprises: Array


def _pair_sums(metric: CalibrationError, sample: Sample, groups: tuple[Array, int] | None) -> _PairSums:
    counts = len(counts_of(metric.binning))
    shape = (counts, sample.rows if groups is None else groups[1])
    removed, within = np.zeros(shape), np.zeros(shape)
    pairs, spread, even, surprises = (np.zeros(counts) for _ in range(4))
    own = own_more = 0.0
    directions = isinstance(metric.binning, Halfspaces)  # one form, the mean of several: adds up, where views average
    largest = 1.0 if sample.weights is None else float(np.square(sample.weights).max())
    more, jump = _MORE * largest / sample.views, 0.0
    for piece in pieces(sample, metric.binning, metric.ties):
        square = piece.weight if directions else piece.weight**2
        jump = largest / 2 * (1.0 if directions else piece.weight)  # two surprises that meet move n·U by 2: 4nκ ≥ 2
        meet = _mean_chance(piece.cells, sample)
        for tile in piece.tiles(sample.rows):
            r = sample.residuals(tile)
            energy = np.square(r).sum(axis=1)
            own += piece.weight * float(energy.sum())
            own_more += piece.weight * float((energy + more).sum())
            spread += square * piece.cells.pairs(np.square(r)).sum(axis=1)
            even += square * meet * float(np.square(energy + more).sum())
            surprises += (piece.weight if directions else 1.0) * meet * _surprise_pairs(sample, tile, groups)
            h = piece.weight * piece.cells.influence(r).sum(axis=1)
            pairs += h.sum(axis=1)
            if groups is None:
                removed += 2 * h
                continue
            for c in range(counts):
                removed[c] += 2 * np.bincount(groups[0], weights=h[c], minlength=groups[1])
            within += piece.weight * piece.cells.within(r, *groups)
    inside = within.sum(axis=1)
    # Residuals of different classes of one row are correlated, and those of one cluster: at most about this much.
    factor = (2.0 if sample.views > 1 else 1.0) * np.maximum(1.0, 1.0 + inside / own if own > 0 else 1.0)
    kappa = factor * np.maximum(spread, 0.0) / own if own > 0 else np.zeros(counts)
    kappa_even = np.maximum(factor * even / own_more, jump)
    return _PairSums(pairs - inside, removed - 2 * within, within, kappa, kappa_even, surprises)


_MORE = 4.0  # about as many more surprises as may be expected where none was seen (95% bound: 3.7)


def _mean_chance(cells: Cells, sample: Sample) -> Array:
    """Per bin count, the mean of G_ij over pairs of rows with weight: 1/m for m equal bins."""
    used = np.ones(sample.rows) if sample.weights is None else (sample.weights > 0).astype(np.float64)
    n = used.sum()
    return np.asarray(cells.pairs(used[None])[:, 0] / max(1.0, n * (n - 1)))


def _surprise_pairs(sample: Sample, columns: slice, groups: tuple[Array, int] | None) -> float:
    """½ Σ K² over views, K = Σ min(1, 4r²) the number of surprising outcomes; one a cluster at most, Kish's by weight.

    A row at 1/2 is worth one, a row at .99 that came true next to nothing. Outcomes that are not 0/1 are measured by
    the largest residual, so that a few outliers count as few.
    """
    plain = replace(sample, weights=None)
    r = np.abs(plain.residuals(columns))
    unit = 1.0 if sample.values is None else np.maximum(r.max(axis=1, keepdims=True), np.finfo(float).tiny)
    each = np.minimum(1.0, 4 * np.square(r / unit))
    w = np.ones(sample.rows) if sample.weights is None else np.square(sample.weights)
    total = 0.0
    for row in each:
        one, two = w * row, w * w * row
        if groups is not None:
            one, two = (_largest(x, *groups) for x in (one, two))
        total += 0.5 * (float(one.sum() ** 2 / two.sum()) ** 2 if two.any() else 0.0)
    return total


def _largest(values: Array, group: Array, groups: int) -> Array:
    out = np.zeros(groups)
    np.maximum.at(out, group, values)
    return out


def jackknife_se(without: Array) -> float:
    """sqrt((G − 1)/G Σ (θ_(−g) − mean)²) over the G leave-one-out values."""
    units = len(without)
    return float(np.sqrt((units - 1) / units * np.square(without - without.mean()).sum()))


def target(left: LeftOut, c: int, what: What) -> tuple[Array, float]:
    """Leave-one-out values and the whole value of what is asked for, on the scale of the loss."""
    if what == "loss":
        return left.losses_without, left.loss
    if what == "U":
        return left.Us_without[c], float(left.U[c])
    if what == "within":
        return left.withins_without[c], float(left.within[c])
    if what == "sum":
        return left.losses_without + left.Us_without[c], left.loss + float(left.U[c])
    values = left.losses_without + left.Us_without[c] + left.withins_without[c]
    return values, left.loss + float(left.U[c]) + float(left.within[c])


def few_bins(metric: CalibrationError, m: int | None) -> bool:
    """Whether the jackknife alone is not enough: few bins, or a kernel, which acts like one or two bins."""
    if isinstance(metric.binning, (AveragedRule, Halfspaces)):
        return True
    return m is not None and m < FEW_BINS and not isinstance(metric.binning, Exact)


def scarce(left: LeftOut, c: int) -> bool:
    """Whether too few surprising outcomes meet for an interval of U; where no two rows meet, U is 0 and needs none."""
    return bool(left.surprises[c] < SCARCE and (left.U[c] != 0 or np.any(left.Us_without[c] != 0)))
