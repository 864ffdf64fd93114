"""Every definition as plain loops over exact fractions, written from the formulas and never from the package.

An l2 error is n⁻² Σ_ij G_ij r_i r_j, where G_ij is the chance that rows i and j share a bin; the functions below build
G from the reports alone. An l1 error needs the bins themselves. Reports and weights are floats, hence exact fractions.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations, product

import numpy as np

F = Fraction


def exact(values) -> list[Fraction]:
    return [F(float(v)) for v in values]


# -- bins of scalar reports --------------------------------------------------------------------------------------------


def quantile_bin(place: int, m: int, n: int) -> int:
    """The bin, from 0, of the sample at 1-based sorted place: the j with (j−1)n/m < place <= jn/m, less one."""
    for j in range(1, m + 1):
        if F((j - 1) * n, m) < place <= F(j * n, m):
            return j - 1
    raise AssertionError("every place has a bin")


def quantile_bins(reports, m: int, ties: str) -> list[int]:
    """One bin per row, with equal reports in the order of rows ("row") or in the bin of the first ("together")."""
    n = len(reports)
    order = sorted(range(n), key=lambda i: (reports[i], i))
    bins = [0] * n
    first_of_value: dict[float, int] = {}
    for place, i in enumerate(order, start=1):
        here = quantile_bin(place, m, n)
        first_of_value.setdefault(reports[i], here)
        bins[i] = here if ties == "row" else first_of_value[reports[i]]
    return bins


def edges_of(m: int, dtype, low: float = 0.0, high: float = 1.0) -> list[float]:
    return [float(np.dtype(dtype).type(low + (high - low) * (j / m))) for j in range(m + 1)]


def interval_bins(reports, edges) -> list[int]:
    """Intervals (e_{j−1}, e_j], the first with its left end; a report above every inner edge is in the last."""
    bins = []
    for u in reports:
        j = 0
        while j < len(edges) - 2 and u > edges[j + 1]:
            j += 1
        bins.append(j)
    return bins


def exact_bins(reports) -> list[int]:
    keys = [tuple(np.atleast_1d(u).tolist()) for u in reports]
    names = sorted(set(keys))
    return [names.index(key) for key in keys]


# -- bins of vectors ---------------------------------------------------------------------------------------------------


def top(row) -> int:
    best = 0
    for r in range(1, len(row)):
        if row[r] > row[best]:
            best = r
    return best


def kd_bins(rows, m: int) -> list[int]:
    depth = 0
    while 2**depth < m:
        depth += 1
    bins = [0] * len(rows)

    def split(members, level, name):
        if level == depth or not members:
            for i in members:
                bins[i] = name
            return
        widths = [max(rows[i][j] for i in members) - min(rows[i][j] for i in members) for j in range(len(rows[0]))]
        column = [rows[i][widths.index(max(widths))] for i in members]
        middle = np.median(np.array(column, dtype=rows.dtype))
        split([i for i, v in zip(members, column, strict=True) if v <= middle], level + 1, 2 * name)
        split([i for i, v in zip(members, column, strict=True) if v > middle], level + 1, 2 * name + 1)

    split(list(range(len(rows))), 0, 0)
    return bins


# -- the matrix G ------------------------------------------------------------------------------------------------------


def same_bin(bins) -> list[list[Fraction]]:
    return [[F(int(a == b)) for b in bins] for a in bins]


def quantile_average(reports, m: int) -> list[list[Fraction]]:
    """The chance over all orders of equal reports that two rows share a quantile bin."""
    n = len(reports)
    order = sorted(range(n), key=lambda i: reports[i])
    slots: dict[float, list[int]] = {}
    for place, i in enumerate(order, start=1):
        slots.setdefault(reports[i], [0] * m)[quantile_bin(place, m, n)] += 1
    chance = [[F(0)] * n for _ in range(n)]
    for i, j in product(range(n), repeat=2):
        a, b = slots[reports[i]], slots[reports[j]]
        size = sum(a)
        if i == j:
            chance[i][j] = F(1)
        elif reports[i] == reports[j]:
            chance[i][j] = F(sum(s * (s - 1) for s in a), size * (size - 1))
        else:
            chance[i][j] = F(sum(s * t for s, t in zip(a, b, strict=True)), size * sum(b))
    return chance


def quantile_average_by_orders(reports, m: int) -> list[list[Fraction]]:
    """The same by listing every order of the rows that sorts the reports: the definition of the definition."""
    n = len(reports)
    orders = [p for p in permutations(range(n)) if all(reports[p[i]] <= reports[p[i + 1]] for i in range(n - 1))]
    chance = [[F(0)] * n for _ in range(n)]
    for order in orders:
        bins = [0] * n
        for place, i in enumerate(order, start=1):
            bins[i] = quantile_bin(place, m, n)
        for i, j in product(range(n), repeat=2):
            chance[i][j] += F(int(bins[i] == bins[j]), len(orders))
    return chance


def two_bin(reports, low=0.0, high=1.0) -> list[list[Fraction]]:
    """One cut uniform on [low, high]: two reports are separated with chance |u − v|/(high − low)."""
    u = exact(reports)
    width = F(high) - F(low)
    return [[1 - abs(a - b) / width for b in u] for a in u]


def poisson(reports, theta: float) -> list[list[float]]:
    return [[math.exp(-abs(float(a) - float(b)) / theta) for b in reports] for a in reports]


def argmax_groups(rows) -> list[list[int]]:
    return [[i for i in range(len(rows)) if top(rows[i]) == r] for r in range(len(rows[0]))]


def argmax_quantile(rows, m: int, ties: str) -> list[list[Fraction]]:
    n = len(rows)
    chance = [[F(0)] * n for _ in range(n)]
    for members in argmax_groups(rows):
        if not members:
            continue
        confidence = [rows[i][top(rows[i])] for i in members]
        averaged = ties == "average"
        inner = quantile_average(confidence, m) if averaged else same_bin(quantile_bins(confidence, m, ties))
        for a, i in enumerate(members):
            for b, j in enumerate(members):
                chance[i][j] = inner[a][b]
    return chance


def argmax_quantile_bins(rows, m: int, ties: str) -> list[int]:
    bins = [0] * len(rows)
    for r, members in enumerate(argmax_groups(rows)):
        confidence = [rows[i][top(rows[i])] for i in members]
        for i, b in zip(members, quantile_bins(confidence, m, ties) if members else [], strict=True):
            bins[i] = r * m + b
    return bins


# -- residuals, errors, losses -----------------------------------------------------------------------------------------


def l2(chance, residuals, weights=None) -> Fraction | float:
    """W⁻² Σ_ij G_ij w_i w_j <r_i, r_j>; residuals are rows of fractions."""
    n = len(residuals)
    w = exact(weights) if weights is not None else [F(1)] * n
    total = 0
    for i, j in product(range(n), repeat=2):
        if chance[i][j]:
            dot = sum((a * b for a, b in zip(residuals[i], residuals[j], strict=True)), F(0))
            total += chance[i][j] * (w[i] * w[j] * dot)
    return total / sum(w) ** 2


def l1(bins, residuals, weights=None) -> Fraction:
    n = len(residuals)
    w = exact(weights) if weights is not None else [F(1)] * n
    total = F(0)
    for b in set(bins):
        for coordinate in range(len(residuals[0])):
            total += abs(sum((w[i] * residuals[i][coordinate] for i in range(n) if bins[i] == b), F(0)))
    return total / sum(w)


def class_residuals(y, proba, r: int) -> list[list[Fraction]]:
    return [[F(float(p[r])) - int(label == r)] for label, p in zip(y, proba, strict=True)]


def full_residuals(y, proba) -> list[list[Fraction]]:
    return [[F(float(p[r])) - int(label == r) for r in range(len(p))] for label, p in zip(y, proba, strict=True)]


def confidence_pairs(y, proba):
    """(confidence, whether the top class came) per row."""
    return [(p[top(p)], int(label == top(p))) for label, p in zip(y, proba, strict=True)]


def correction(correct, weights=None) -> Fraction:
    w = exact(weights) if weights is not None else [F(1)] * len(correct)
    return sum((a * a * (1 - z) for a, z in zip(w, correct, strict=True)), F(0)) / sum(w) ** 2


def brier(y, proba) -> list[Fraction]:
    """Σ_r (p_r − 1[y = r])², for two classes (p − y)² of the second column: in float32 the first is no exact 1 − p."""
    return [row[1] ** 2 if len(row) == 2 else sum((a * a for a in row), F(0)) for row in full_residuals(y, proba)]


def score_edges():
    """Where the score may cut: steps of 1/64 from 1/16 to 15/16, and two per halving beyond."""
    low = [x / 2**k for k in range(5, 21) for x in (1, 1.5)]
    return sorted([j / 64 for j in range(4, 61)] + low + [1 - x for x in low])


def gap_over_cuts(u, r, weights=None, groups=None, near=1):
    """The squared gap of the two sides of a cut, averaged over all cuts by rank."""
    n = len(u)
    w = [1.0] * n if weights is None else list(weights)
    group = list(range(n)) if groups is None else list(groups)

    def together(i, j):
        return group[i] == group[j] if near == 1 else abs(i - j) < near

    def side(rows):
        pairs = products = 0.0
        for i in rows:
            for j in rows:
                if not together(i, j):
                    pairs += w[i] * w[j]
                    products += w[i] * r[i] * w[j] * r[j]
        if pairs == 0:
            return 0.0
        most = max(sum(w[j] for j in rows if together(i, j)) for i in rows)
        if near > 1:
            most = (2 * near - 1) * max(w)
        elif groups is None:  # a bound that needs no largest weight of each side
            most = min(max(w), math.sqrt(sum(w[i] ** 2 for i in rows)))
        return min(sum(w[i] for i in rows) / pairs, 1 / most) * products

    places, values = [0.0], [side(range(n))]
    for edge in [*score_edges(), 1.0]:
        below, above = [i for i in range(n) if u[i] <= edge], [i for i in range(n) if u[i] > edge]
        places.append(sum(w[i] for i in below))
        values.append(side(below) + side(above))
    steps = [(places[i + 1] - places[i]) * (values[i] + values[i + 1]) / 2 for i in range(len(places) - 1)]
    return sum(steps) / sum(w) ** 2


def gap_sq(bins, residuals, weights=None) -> float:
    """W⁻¹ Σ_B λ_B (|Σ_B w r|² − Σ_B |w r|²): what a partition adds to the loss in the score; residuals are rows."""
    w = [1.0] * len(bins) if weights is None else [float(x) for x in weights]
    total = 0.0
    for cell in set(bins):
        rows = [i for i, b in enumerate(bins) if b == cell]
        pairs = sum(w[i] * w[j] for i in rows for j in rows if i != j)
        if len(rows) > 1 and pairs > 0:
            most = min(max(w), math.sqrt(sum(w[i] ** 2 for i in rows)))
            rate = min(sum(w[i] for i in rows) / pairs, 1 / most)
            products = (
                w[i] * w[j] * float(a) * float(b)
                for i in rows
                for j in rows
                if i != j
                for a, b in zip(residuals[i], residuals[j], strict=True)
            )
            total += rate * math.fsum(products)
    return total / sum(w)


def confidence_loss(y, proba) -> list[Fraction]:
    return [1 - z + (F(float(c)) - z) ** 2 for c, z in confidence_pairs(y, proba)]


def spherical(y, proba) -> list[float]:
    return [
        1 - float(p[label]) / math.sqrt(math.fsum(float(v) ** 2 for v in p)) for label, p in zip(y, proba, strict=True)
    ]


def cross_entropy(y, proba) -> list[float]:
    return [math.inf if p[label] == 0 else -math.log(float(p[label])) for label, p in zip(y, proba, strict=True)]


# -- ordered classes, several labels, distributions of a number --------------------------------------------------------


def cumulative_residuals(y, proba, j: int) -> list[list[Fraction]]:
    """P(class j or below) − 1[y ≤ j]; sums of floats as the package makes them, one after the other."""
    out = []
    for label, row in zip(y, proba, strict=True):
        total = 0.0
        for p in row[: j + 1]:
            total += float(p)
        out.append([F(min(total, 1.0)) - (1 if label <= j else 0)])
    return out


def label_residuals(table, proba, r: int) -> list[list[Fraction]]:
    return [[F(float(p[r])) - int(applies[r])] for applies, p in zip(table, proba, strict=True)]


def rps(y, proba) -> list[float]:
    """Σ_j (P(class j or below) − 1[y ≤ j])² of each row."""
    k = len(proba[0])
    each = [cumulative_residuals(y, proba, j) for j in range(k - 1)]
    return [float(sum(view[i][0] ** 2 for view in each)) for i in range(len(y))]


def crps_of_members(y: float, members) -> float:
    """E|X − y| − E|X − X'|/2 over the members of an ensemble."""
    m = len(members)
    first = sum(abs(x - y) for x in members) / m
    return first - sum(abs(a - b) for a in members for b in members) / (2 * m * m)


def widths(thresholds) -> list[Fraction]:
    """Δt: the stretch of numbers nearest to each threshold; the outer two reach as far out as in."""
    t = [F(float(x)) for x in thresholds]
    out = []
    for i, x in enumerate(t):
        left = (x - t[i - 1]) / 2 if i > 0 else (t[1] - x) / 2
        right = (t[i + 1] - x) / 2 if i + 1 < len(t) else (x - t[i - 1]) / 2
        out.append(left + right)
    return out


def quantile_cdf(t: float, values, levels) -> float:
    """Linear between quantiles, 0 below the first and 1 from the last on; of equal quantiles the upper level."""
    if t < values[0]:
        return 0.0
    if t >= values[-1]:
        return 1.0
    j = max(i for i, q in enumerate(values) if q <= t)
    return levels[j] + (t - values[j]) / (values[j + 1] - values[j]) * (levels[j + 1] - levels[j])
