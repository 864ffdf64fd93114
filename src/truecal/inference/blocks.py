"""Intervals of the gap of a table whose rows are gone, from 64 label-blind blocks with the sums of their cells.

Rows are gone, so a block of rows takes the place of a row in the formulas of `spread`: with S_a the residual sums of
block a, H_ab = Σ_B a_B S_aB S_bB are the pairs between blocks, their interaction part estimates the variance v that is
there under calibration, and R_a = B/(B − 1)·Σ_{b≠a} H_ab is what block a adds, of which the jackknife takes
V = 4 Σ (R_a − R̄)². Everything else, the slope c and how many surprises there are, is read off the table itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from ..core.cells import KernelCells
from ..core.table import BinTable, has_pairs, pair_rates
from ..core.types import Array
from ..sums.tabulate import scaled
from .spread import Spread
from .view_sums import MORE, Units, even_parts, over

_FAR = 64  # powers of two: in units farther from the weights than this, their eighth powers might be no numbers


def block_spread(table: BinTable, residual: Array, weight: Array, theta: float | None) -> Spread:
    """The spread of gap² = theta of a table, from residual sums (blocks, views, cells) and weights of its blocks.

    theta None is the gap² of pairs from different blocks alone, for rows that depend on each other within blocks.
    """
    exponent = math.frexp(table.totals.largest)[1]
    if abs(exponent) > _FAR:
        table, residual, weight = scaled(table, -exponent), np.ldexp(residual, -exponent), np.ldexp(weight, -exponent)
    cells = _kernel_sums(table, residual) if table.rule.averages else _bin_sums(table, residual)
    used = weight > 0
    H = cells.H[np.ix_(used, used)].copy()
    np.fill_diagonal(H, 0.0)
    blocks = len(H)
    grow = blocks / (blocks - 1) if blocks > 1 else 1.0  # pairs inside blocks are missing
    each = H.sum(axis=1) * grow
    if theta is None:
        theta = float(each.sum())
    each += (theta - each.sum()) / max(blocks, 1)
    return Spread(
        theta=theta,
        influence=each.__getitem__,
        H=H,
        by=Units(weight[used]),
        c0=cells.c0,
        pairs=cells.pairs,
        even=cells.even,
        unit=cells.pair_weight / table.totals.weight_sq,
    )


@dataclass(frozen=True)
class _Sums:
    """Sums of the cells over the views."""

    H: Array
    c0: float
    pairs: float
    even: tuple[float, float]
    pair_weight: float


def _pairs(a: Array, surprise: Array, share: Array) -> float:
    """Effective number of pairs of surprising outcomes that share a cell; surprises are counted by Σ r², which is
    no more than there are. Of two counts of pairs the smaller: as if few rows surprised a lot, and many a little."""
    found = []
    a = a / max(float(np.abs(a).max(initial=0.0)), np.finfo(np.float64).tiny)  # whatever the unit of the weights
    for pairs in (np.maximum(np.square(surprise) - surprise, 0.0), np.square(surprise) * share):
        total, squares = float((a**2 * pairs).sum()), float((a**4 * pairs).sum())
        found.append(0.5 * total**2 / squares if squares > 0 else 0.0)
    return min(found)


def _bin_sums(table: BinTable, residual: Array) -> _Sums:
    assert table.residual_sq is not None
    weight, own = table.count, table.residual_sq
    mass = np.square(weight) - table.cell_weight_sq
    mass = np.where(has_pairs(weight, mass), mass, 0.0)
    averaged, several = 1 if table.joint else table.views, table.views > 1
    a = pair_rates(weight, table.cell_weight_sq, mass, table.totals.largest) / (averaged * table.totals.weight)
    shares = np.ones(table.views) if table.shares is None else table.shares
    a = a * shares[:, None]
    bias = over(own, table.cell_weight_sq)
    others = weight - over(table.cell_weight_sq, weight)
    spread = np.maximum(own - np.square(over(table.residual, weight)) * table.cell_weight_sq, 0.0)
    slope = 4 * float((np.square(a * bias * others) * spread).sum())  # of 4 Σ_rows (a·bias·(x − w·mean)·others)²
    norm, plain_norm = float((a * bias * bias * mass).sum()), float((a * mass).sum())
    even, H = np.zeros(2), np.zeros((len(residual),) * 2)
    for v in range(table.views):  # one at a time: a product of all is as large as all blocks
        H += (residual[:, v] * a[v]) @ residual[:, v].T
        part = weight[v] / weight[v].sum()
        even += even_parts(a[v], weight[v], part, own[v].sum(), averaged, several, table.totals.largest**2)
    return _Sums(
        H=H,
        c0=(2.0 if several else 1.0) * slope / norm if norm > 0 else 0.0,
        pairs=_pairs(a, own / table.totals.largest**2, over(mass, np.square(weight))),
        even=(float(even[0]), float(even[1]) / plain_norm if plain_norm > 0 else 0.0),
        pair_weight=float(shares @ mass.sum(axis=1)) / table.views,
    )


def _kernel_sums(table: BinTable, residual: Array) -> _Sums:
    """The sums of `_bin_sums` for averages over cuts, by the kernel between the cells of a grid."""
    assert table.residual_sq is not None
    rule: Any = table.rule
    points = rule.midpoints(table.bounds)
    cells = KernelCells(rule.kernel(), np.arange(len(points)), points, table.bounds)
    largest, several = table.totals.largest, table.views > 1
    H = np.zeros((len(residual),) * 2)
    slope = norm = plain_norm = pairs = even_v = even_c = pair_weight = 0.0

    def near(x: Array) -> Array:
        return cells.others(x) + x

    for v in range(table.views):
        w, own, w_sq = table.count[v], table.residual_sq[v], table.cell_weight_sq[v]
        field, near_own, near_sq, near_w = near(np.stack([table.residual[v], own, w_sq, w]))
        mass = float(w @ near_w - w_sq.sum())
        if mass <= 0:
            continue
        share = (1.0 if table.shares is None else float(table.shares[v])) / table.views
        scale = share / mass
        pair_weight += share * mass
        bias, mean = over(near_own, near_sq), over(field, near_w)
        pull = near((w * bias)[None])[0]
        spread = np.maximum(own - 2 * mean * table.residual[v] * over(w_sq, w) + mean**2 * w_sq, 0.0)
        slope += 4 * float(np.square(scale * pull) @ spread)
        norm += scale * float((w * bias) @ pull)
        plain_norm += scale * float(w @ near_w)
        pairs += 0.5 * float(cells.pairs_of_squares(own / largest**2)[0])  # the kernel is flat: pairs count alike
        even = (own.sum() + MORE * largest**2) * w / w.sum()
        even_v += 2 * scale**2 * float(cells.pairs_of_squares(even)[0])
        even_c += 4 * scale**2 * float(even @ np.square(near_w))
        H += scale * near(residual[:, v]) @ residual[:, v].T
    return _Sums(
        H=H,
        c0=(2.0 if several else 1.0) * slope / norm if norm > 0 else 0.0,
        pairs=pairs,
        even=(even_v, even_c / plain_norm if plain_norm > 0 else 0.0),
        pair_weight=pair_weight,
    )


def block_se(total: Array, weight: Array) -> tuple[float, float, int]:
    """m = Σ total/Σ weight over blocks, its delete-a-block standard error, and its degrees of freedom.

    se² = (B − 1)/B Σ (m_(−b) − m̄)², m_(−b) the mean without block b; undefined for fewer than three blocks.
    """
    used = weight > 0
    total, weight = total[used], weight[used]
    blocks, mean = len(total), float(total.sum() / weight.sum())
    if blocks < 3:
        return mean, float("nan"), 1
    without = (total.sum() - total) / (weight.sum() - weight)
    return mean, float(np.sqrt((blocks - 1) / blocks * np.square(without - without.mean()).sum())), blocks - 1


def block_mean(total: Array, weight: Array, level: float) -> tuple[float, float, float]:
    """The mean of blocks and the ends of its interval."""
    mean, se, freedom = block_se(total, weight)
    half = float(stdtrit(freedom, (1 + level) / 2)) * se
    return mean, mean - half, mean + half
