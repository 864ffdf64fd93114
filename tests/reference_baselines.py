"""Every baseline's definition as plain loops, sums over all subsets or partitions, or a general solver.

Written from the formulas and never from the package. Scalar measures take (u, y, w): predictions, outcomes and weights;
measures of classes take (y, proba).
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise, product
from statistics import median

import numpy as np
from scipy.optimize import linprog, minimize

from reference import edges_of, interval_bins, quantile_bins, top

Rows = list[int]


def ones(u) -> list[float]:
    return [1.0] * len(u)


def bins_of(u, m: int, strategy: str) -> list[int]:
    if strategy == "uniform":
        return interval_bins(u, edges_of(m, np.float64))
    return quantile_bins(list(u), m, "together")


def members(bins) -> list[Rows]:
    return [[i for i, b in enumerate(bins) if b == name] for name in sorted(set(bins))]


def confidence(y, proba) -> tuple[list[float], list[float]]:
    """The confidence of each row, and whether its top class came."""
    tops = [top(row) for row in proba]
    return [float(row[t]) for row, t in zip(proba, tops, strict=True)], [
        float(label == t) for label, t in zip(y, tops, strict=True)
    ]


def one_class(y, proba, r: int) -> tuple[list[float], list[float]]:
    return [float(row[r]) for row in proba], [float(label == r) for label in y]


# -- bins --------------------------------------------------------------------------------------------------------------


def ece(u, y, w=None, m=15, strategy="uniform") -> float:
    w = ones(u) if w is None else w
    total = 0.0
    for rows in members(bins_of(u, m, strategy)):
        total += abs(math.fsum(w[i] * (u[i] - y[i]) for i in rows))
    return total / math.fsum(w)


def classwise(measure, y, proba) -> float:
    k = len(proba[0])
    return math.fsum(measure(*one_class(y, proba, r)) for r in range(k)) / k


def tace(y, proba, m=15, threshold=0.01) -> float:
    total = 0.0
    k = len(proba[0])
    for r in range(k):
        u, z = one_class(y, proba, r)
        kept = [i for i in range(len(u)) if u[i] > threshold]
        if kept:
            total += ece([u[i] for i in kept], [z[i] for i in kept], None, m, "quantile")
    return total / k


def mce(u, y, m=15, strategy="uniform") -> float:
    worst = 0.0
    for rows in members(bins_of(u, m, strategy)):
        worst = max(worst, abs(math.fsum(u[i] - y[i] for i in rows)) / len(rows))
    return worst


def debiased_squared(u, y, m=15, strategy="quantile") -> float:
    total = 0.0
    for rows in members(bins_of(u, m, strategy)):
        n = len(rows)
        if n >= 2:
            rate = math.fsum(y[i] for i in rows) / n
            gap = math.fsum(u[i] for i in rows) / n - rate
            total += n / len(u) * (gap**2 - rate * (1 - rate) / (n - 1))
    return total


def top_label_ece(y, proba, m=15) -> float:
    u, z = confidence(y, proba)
    total = 0.0
    for rows in members([top(row) for row in proba]):
        total += len(rows) / len(u) * ece([u[i] for i in rows], [z[i] for i in rows], None, m)
    return total


def ece_sweep(u, y, power=2) -> float:
    """Count up until the mean outcome of some bin is below that of the bin before it."""
    value = None
    for m in range(1, len(u) + 1):
        groups = members(bins_of(u, m, "quantile"))
        rates = [math.fsum(y[i] for i in rows) / len(rows) for rows in groups]
        if any(after < before for before, after in pairwise(rates)):
            break
        gaps = [abs(math.fsum(u[i] - y[i] for i in rows)) / len(rows) for rows in groups]
        value = math.fsum(len(r) / len(u) * g**power for r, g in zip(groups, gaps, strict=True)) ** (1 / power)
    assert value is not None
    return value


# -- kernels -----------------------------------------------------------------------------------------------------------


def mmce_squared(y, proba, theta=0.4, corrected=False) -> float:
    c, z = confidence(y, proba)
    n = len(c)
    total = math.fsum(
        (c[i] - z[i]) * (c[j] - z[j]) * math.exp(-abs(c[i] - c[j]) / theta) for i, j in product(range(n), repeat=2)
    )
    return (total + (sum(1 - a for a in z) if corrected else 0.0)) / n**2


def distance(a, b) -> float:
    return math.sqrt(math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True)))


def skce(y, proba, unbiased=False, bandwidth=None) -> float:
    rows = [tuple(map(float, row)) for row in proba]
    n, k = len(rows), len(rows[0])
    if bandwidth is None:
        bandwidth = median(distance(a, b) for a, b in combinations(sorted(set(rows)), 2))
    total = 0.0
    for i, j in product(range(n), repeat=2):
        if i != j or not unbiased:
            dot = math.fsum((rows[i][r] - (y[i] == r)) * (rows[j][r] - (y[j] == r)) for r in range(k))
            total += math.exp(-distance(rows[i], rows[j]) / bandwidth) * dot
    return total / (n * (n - 1) if unbiased else n * n)


# -- without bins ------------------------------------------------------------------------------------------------------


def smoothed_size(u, y, sigma: float, points=4000, images=12) -> float:
    """∫ |n⁻¹ Σ (u_i − y_i) K_σ(u_i, t)| dt: Gaussians at u_i and its mirror images, by midpoints."""
    t = (np.arange(points) + 0.5) / points
    height = np.zeros(points)
    for a, b in zip(u, y, strict=True):
        for j in range(-images, images + 1):
            for centre in (2 * j + a, 2 * j - a):
                height += (a - b) * np.exp(-((t - centre) ** 2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
    return float(np.abs(height).mean() / len(u))


def lipschitz_sup(values, sums) -> float:
    """max Σ η_j s_j, |η_j| ≤ 1, |η_i − η_j| ≤ |v_i − v_j| for every pair: a linear programme with all constraints."""
    d = len(values)
    rows, limits = [], []
    for i, j in product(range(d), repeat=2):
        if i != j:
            row = [0.0] * d
            row[i], row[j] = 1.0, -1.0
            rows.append(row)
            limits.append(abs(values[i] - values[j]))
    found = linprog([-s for s in sums], A_ub=rows or None, b_ub=limits or None, bounds=[(-1, 1)] * d, method="highs")
    assert found.fun is not None
    return -float(found.fun)


def smooth_calibration(u, y, w=None) -> float:
    w = ones(u) if w is None else w
    return lipschitz_sup(list(u), [b * (z - a) for a, z, b in zip(u, y, w, strict=True)]) / math.fsum(w)


def every_subset(n: int) -> list[Rows]:
    return [[i for i in range(n) if chosen[i]] for chosen in product((False, True), repeat=n)]


def subsampled(measure_of_sums, u, y) -> float:
    """The mean over all subsets of a measure that is not divided by the number of rows."""
    values = [measure_of_sums([u[i] for i in s], [y[i] for i in s]) for s in every_subset(len(u))]
    return math.fsum(values) / len(values) / len(u)


def interval_calibration(u, y, w=None) -> float:
    """Every way to cut the distinct predictions in order."""
    w = ones(u) if w is None else w
    values = sorted(set(u))
    best = math.inf
    for cuts in every_subset(len(values) - 1):
        edges = [0, *(c + 1 for c in cuts), len(values)]
        cost = 0.0
        for a, b in pairwise(edges):
            rows = [i for i in range(len(u)) if u[i] in values[a:b]]
            cost += abs(math.fsum(w[i] * (u[i] - y[i]) for i in rows))
            cost += (values[b - 1] - values[a]) * math.fsum(w[i] for i in rows)
        best = min(best, cost)
    return best / math.fsum(w)


def step_sum(u, y) -> float:
    """max_v |Σ_{u_i ≤ v} (y_i − u_i)|, not divided."""
    return max([0.0, *(abs(math.fsum(z - a for a, z in zip(u, y, strict=True) if a <= v)) for v in u)])


def interval_sum(u, y) -> float:
    """max over intervals of |Σ (y_i − u_i)|, not divided."""
    sums = [
        abs(math.fsum(z - a for a, z in zip(u, y, strict=True) if low <= a <= high))
        for low, high in product(u, repeat=2)
    ]
    return max(sums)


# -- decisions ---------------------------------------------------------------------------------------------------------


def thresholds(points) -> list[float]:
    """A fine grid, and just below and above every point where something changes."""
    near = [p + side * 1e-9 for p in points for side in (-1, 1)]
    return [v for v in [*np.linspace(0.0005, 0.9995, 1000).tolist(), *near] if 0 < v < 1]


def v_loss(p: float, y: float, v: float) -> float:
    return -math.copysign(1, p - v) * (y - v)


def u_calibration(u, y) -> float:
    """The largest mean regret against the best constant, from the losses themselves."""
    rate = math.fsum(y) / len(y)
    worst = 0.0
    for v in thresholds([*u, rate]):
        constants = (math.fsum(v_loss(c, z, v) for z in y) for c in (0.0, rate, 1.0))
        own = math.fsum(v_loss(a, z, v) for a, z in zip(u, y, strict=True))
        worst = max(worst, own - min(constants))
    return worst / len(u)


def v_payoff(p: float, y: float, v: float) -> float:
    """The best decision under belief p, two actions, payoffs in [0, 1], indifferent at v."""
    side = 1 if p > v else -1
    return 0.5 + 0.5 * side * (y - v) / max(v, 1 - v)


def decision_loss(u, y) -> float:
    """The largest mean payoff gained by replacing each prediction with the outcome frequency of its rows."""
    groups = {q: [z for a, z in zip(u, y, strict=True) if a == q] for q in set(u)}
    rate = {q: math.fsum(zs) / len(zs) for q, zs in groups.items()}
    worst = 0.0
    for v in thresholds([*rate, *rate.values(), 0.5]):
        gain = math.fsum(v_payoff(rate[a], z, v) - v_payoff(a, z, v) for a, z in zip(u, y, strict=True))
        worst = max(worst, gain)
    return worst / len(u)


def decision_calibration(y, proba, losses) -> float:
    n, k = len(proba), len(proba[0])
    sums = [0.0] * len(losses)
    for label, p in zip(y, proba, strict=True):
        expected = [math.fsum(p[r] * row[r] for r in range(k)) for row in losses]
        action = expected.index(min(expected))
        sums[action] += expected[action] - losses[action][label]
    return math.fsum(map(abs, sums)) / n


def projected_smooth(y, proba, directions) -> float:
    found = []
    for a in directions:
        values = [math.fsum(x * p for x, p in zip(a, row, strict=True)) for row in proba]
        found.append(lipschitz_sup(values, [a[label] - v for label, v in zip(y, values, strict=True)]))
    return max(found) / len(proba)


# -- clinical statistics -----------------------------------------------------------------------------------------------


def hosmer_lemeshow(u, y, groups=10) -> float:
    total = 0.0
    for rows in members(quantile_bins(list(u), groups, "together")):
        expected, n = math.fsum(u[i] for i in rows), len(rows)
        total += (math.fsum(y[i] for i in rows) - expected) ** 2 / (expected * (1 - expected / n))
    return total


def spiegelhalter(u, y) -> float:
    score = math.fsum((z - a) * (1 - 2 * a) for a, z in zip(u, y, strict=True))
    return score / math.sqrt(math.fsum((1 - 2 * a) ** 2 * a * (1 - a) for a in u))


def cox(u, y, with_slope: bool) -> tuple[float, float]:
    """Largest likelihood by a general minimiser."""
    odds = np.log(u) - np.log1p(-np.asarray(u))

    def lost(beta) -> float:
        eta = beta[0] + (beta[1] if with_slope else 1.0) * odds
        return float(np.sum(np.logaddexp(0, eta) - np.asarray(y) * eta))

    found = minimize(lost, [0.1, 0.9][: 1 + with_slope], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-13})
    return float(found.x[0]), float(found.x[1]) if with_slope else 1.0


def loess(u, y, point: float, span: float) -> float:
    """One fitted value: a parabola through the nearest rows, by numpy's polyfit with tricube weights."""
    distances = sorted(abs(a - point) for a in u)
    reach = distances[max(1, math.floor(len(u) * span + 1e-5)) - 1]
    rows = [i for i in range(len(u)) if abs(u[i] - point) < reach]
    weights = [(1 - (abs(u[i] - point) / reach) ** 3) ** 3 for i in rows]
    x = np.array([u[i] - point for i in rows])
    return float(np.polyfit(x, [y[i] for i in rows], 2, w=np.sqrt(weights))[-1])


def curve_gaps(u, y, span=0.75) -> list[float]:
    return [abs(loess(u, y, a, span) - a) for a in u]


def corp(u, y) -> float:
    """Isotonic regression by the max-min of means over runs of distinct predictions."""
    values = sorted(set(u))

    def mean(a: int, b: int) -> float:
        inside = [z for x, z in zip(u, y, strict=True) if values[a] <= x <= values[b]]
        return math.fsum(inside) / len(inside)

    fitted = {
        v: max(min(mean(a, b) for b in range(j, len(values))) for a in range(j + 1)) for j, v in enumerate(values)
    }
    pairs = list(zip(u, y, strict=True))
    return math.fsum((a - z) ** 2 - (fitted[a] - z) ** 2 for a, z in pairs) / len(pairs)
