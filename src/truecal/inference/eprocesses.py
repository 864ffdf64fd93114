"""E-processes against "labels are drawn from the predictions": products of a better guess over the prediction.

If y_t is drawn from p_t given the past, then for any distribution q_t made of the past and of p_t alone

    E[q_t(y_t)/p_t(y_t) | past] = Σ_y q_t(y) ≤ 1,

so the product over rows is a non-negative martingale that starts at 1, and by Ville's inequality it ever reaches 1/α
with chance at most α, however often one looks. Averages of such martingales are such martingales. A change may come
late, so every bet is spread over all rows at which it may start, with weights π_1 + π_2 + ... = 1:

    W_t = (W_{t−1} + π_t)·q_t(y_t)/p_t(y_t),   E_t = W_t + Σ_{j>t} π_j,   Σ_{j>t} π_j = 1/(1 + log(1 + t)).

Money that has not started yet is kept, and nothing is restarted after a loss: the bound of Ville stays exact.
Reference: Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics and safe anytime-valid inference", 2023.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, final

import numpy as np

from ..core.averages import decayed_prefix
from ..core.data import row_blocks
from ..core.edges import interval_index
from ..core.types import Array

SHIFTS = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
"""Shifts of a logit that one-sided processes bet on, all alike: from a point of probability to a third of them."""
LOG_SLOPES = (-1.2, -0.8, -0.5, -0.3, -0.15, -0.07, 0.0, 0.07, 0.15, 0.3, 0.5, 0.8, 1.2)
"""Minus the logarithms of the temperatures that the map bets on, .3 to 3.3."""
MAP_SHIFTS = (-1.0, -0.5, -0.25, -0.1, 0.0, 0.1, 0.25, 0.5, 1.0)
PRIOR_COUNTS = (4.0, 40.0, 400.0)
"""How many outcomes as predicted the rates believe in before they bet on others."""
MEMORIES = (np.inf, 500.0)
"""After so many rows the rates have forgotten half: of all that came, and of what came lately."""


# -- rows --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rows:
    """Some rows of a stream: labels, their distributions under the null hypothesis, and top classes.

    `anchor` is the class whose logit is shifted: the top class, or class 1 of two. `level` is the probability that the
    model gave it, by which rows are put into bins; it is that of the model also where `proba` has been mapped.
    """

    y: Array
    proba: Array
    top: Array
    anchor: Array
    level: Array

    @cached_property
    def log_proba(self) -> Array:
        with np.errstate(divide="ignore"):  # −inf for what cannot come
            return np.log(self.proba)

    @cached_property
    def log_relative(self) -> Array:
        """log p less its largest value in the row."""
        return np.asarray(self.log_proba - self.log_proba.max(axis=1, keepdims=True))

    @property
    def number(self) -> Array:
        return np.arange(len(self.y))

    def take(self, part: slice) -> Rows:
        """Some of the rows."""
        return Rows(*(x[part] for x in (self.y, self.proba, self.top, self.anchor, self.level)))

    @property
    def impossible(self) -> Array:
        """Rows whose label had probability 0: the null is refuted for good."""
        return np.asarray(self.proba[self.number, self.y] == 0)

    def against(self, chosen: Array) -> tuple[Array, Array]:
        """The probability of one class per row, and of all others: of a tiny one, 1 − (1 − p) would be 0."""
        rest = self.proba.copy()
        rest[self.number, chosen] = 0.0
        return self.proba[self.number, chosen], rest.sum(axis=1)


# -- wealth ------------------------------------------------------------------------------------------------------------


def log_unstarted(rows: int | Array) -> Array:
    """log Σ_{j>t} π_j after t rows, −log(1 + log(1 + t)): what has not been bet yet."""
    return np.asarray(-np.log1p(np.log1p(rows)))


def log_start(row: Array) -> Array:
    """log π_t of row t = 1, 2, ...: the difference of two neighbours of `log_unstarted`, without cancellation."""
    return np.asarray(np.log(np.log1p(1 / row)) - np.log1p(np.log(row)) - np.log1p(np.log1p(row)))


def grow(log_wealth: Array, log_ratios: Array, rows: int) -> Array:
    """log W of each bet after each of n more rows, (n, bets), when `rows` came before: the recursion above.

    W_t = e^{S_t} (W_0 + Σ_{j≤t} π_j e^{−S_{j−1}}), S the sums of the log ratios.
    """
    total = log_ratios.cumsum(axis=0)
    before = np.concatenate([np.zeros_like(total[:1]), total[:-1]])
    started = log_start(rows + 1.0 + np.arange(len(total)))[:, None] - before
    return np.asarray(total + np.logaddexp.accumulate(np.concatenate([log_wealth[None], started]))[1:])


def mean_of_logs(values: Array) -> Array:
    """log of the mean over the last axis of e^values; a value may be infinite."""
    return np.asarray(np.logaddexp.reduce(values, axis=-1) - np.log(values.shape[-1]))


# -- bets --------------------------------------------------------------------------------------------------------------


class Process(ABC):
    """An equal mixture of bets, each spread over all starts: log q_t(y_t)/p_t(y_t) of rows, and what it learns."""

    name: str
    one_sided: bool = False
    """Whether it holds against "no more than this direction" alone, so that it can name the direction."""

    @property
    @abstractmethod
    def bets(self) -> int:
        """The number of bets."""

    def fresh(self) -> Array:
        """The memory before the first row."""
        return np.zeros(0)

    @abstractmethod
    def play(self, rows: Rows, memory: Array) -> tuple[Array, Array]:
        """Return the (n, bets) log ratios of rows, each from the rows before it alone, and the memory after them."""


@final
@dataclass(frozen=True)
class OneSided(Process):
    """The class is right less often than predicted (sign −1), or more often (sign +1): a shift of its logit by ±s.

    With c the probability of the class and z whether it came, e^{sz}/(1 − c + c·e^s) = 1 + λ(c − z) with a λ of one
    sign, so the product is a supermartingale also where the class is right at least (at most) as often as said.
    """

    name: str
    sign: Literal[-1, 1]
    of: Literal["top", "anchor"] = "top"
    one_sided = True

    @property
    def bets(self) -> int:
        return len(SHIFTS)

    def play(self, rows: Rows, memory: Array) -> tuple[Array, Array]:
        chosen = getattr(rows, self.of)
        chance, rest = rows.against(chosen)
        came = rows.y == chosen
        shift = self.sign * np.array(SHIFTS)
        ratios = shift * came[:, None] - np.log(rest[:, None] + np.exp(shift) * chance[:, None])
        refuted = came & (chance == 0) if self.sign > 0 else ~came & (rest == 0)
        ratios[refuted] = np.inf
        return ratios, memory


def powers_apart(rows: Rows, slope: float) -> tuple[Array, Array]:
    """(p/max p)^slope of all classes but the anchor, whose column is 0, and of the anchor.

    Relative to the largest of its row no power of a steep slope underflows to a row of zeros.
    """
    powers = np.exp(slope * rows.log_relative)
    of_anchor = powers[rows.number, rows.anchor]
    powers[rows.number, rows.anchor] = 0.0
    return powers, of_anchor


def log_mapped(rows: Rows, slope: float, shifts: Array) -> Array:
    """(n, shifts) log q(y) of q_j ∝ p_j^slope·e^{shift·1[j = anchor]}; a label that cannot come gets −inf."""
    powers, of_anchor = powers_apart(rows, slope)
    total = np.log(powers.sum(axis=1)[:, None] + np.exp(shifts) * of_anchor[:, None])
    own = slope * rows.log_relative[rows.number, rows.y]
    return np.asarray(own[:, None] + shifts * (rows.y == rows.anchor)[:, None] - total)


@final
@dataclass(frozen=True)
class Map(Process):
    """Another temperature and another shift of the anchor's logit: q ∝ p^b·e^{s·1[anchor]} over a grid of (b, s)."""

    name: str = "temperature and shift"

    @property
    def bets(self) -> int:
        return len(LOG_SLOPES) * len(MAP_SHIFTS)

    def play(self, rows: Rows, memory: Array) -> tuple[Array, Array]:
        shifts = np.array(MAP_SHIFTS)
        logs = [log_mapped(rows, float(slope), shifts) for slope in np.exp(LOG_SLOPES)]
        with np.errstate(invalid="ignore"):  # −inf − (−inf) where the label could not come: set below
            ratios = np.concatenate(logs, axis=1) - rows.log_proba[rows.number, rows.y][:, None]
        ratios[rows.impossible] = np.inf
        return ratios, memory


class Rates(Process):
    """Outcomes that come more or less often than they were given: q_j ∝ p_j·(N_j + a)/(P_j + a).

    N_j counts the earlier rows in which outcome j came, P_j sums the probabilities it was given there; one bet for each
    prior count a, and for each memory.
    """

    cells: int

    @property
    def bets(self) -> int:
        return len(MEMORIES) * len(PRIOR_COUNTS)

    def fresh(self) -> Array:
        return np.zeros((len(MEMORIES), 2, self.cells))

    @abstractmethod
    def outcomes(self, rows: Rows) -> tuple[Array, Array]:
        """Which outcome came in each row, and the probabilities of all, (n, cells)."""

    def play(self, rows: Rows, memory: Array) -> tuple[Array, Array]:
        came, given = self.outcomes(rows)
        counted = np.zeros((2, self.cells, len(came)))
        counted[0, came, rows.number] = 1.0
        counted[1] = given.T
        ratios, known = [], np.empty_like(memory)
        for i, half_life in enumerate(MEMORIES):
            flat = np.concatenate([memory[i][:, :, None], counted], axis=2).reshape(2 * self.cells, -1)
            earlier = decayed_prefix(np.full(flat.shape[1], 0.5 ** (1 / half_life)), flat)
            known[i] = (earlier[:, -1] + flat[:, -1]).reshape(2, self.cells)
            came_often, expected = earlier[:, 1:].reshape(2, self.cells, -1)
            for prior in PRIOR_COUNTS:
                factor = (came_often + prior) / (expected + prior)
                ratios.append(np.log(factor[came, rows.number] / np.einsum("nc,cn->n", given, factor)))
        log_ratios = np.stack(ratios, axis=1)
        log_ratios[rows.impossible] = np.inf
        return log_ratios, known


@final
@dataclass(frozen=True)
class ClassRates(Rates):
    """The rates of the classes."""

    cells: int
    name: str = "class rates"

    def outcomes(self, rows: Rows) -> tuple[Array, Array]:
        return rows.y, rows.proba


@final
@dataclass(frozen=True)
class BinRates(Rates):
    """The rate of the anchor in each bin of its probability: an outcome is a bin and whether the anchor came."""

    edges: tuple[float, ...]
    name: str = "bins of probability"

    @property
    def cells(self) -> int:  # type: ignore[override]  # known with the edges
        return 2 * (len(self.edges) - 1)

    def outcomes(self, rows: Rows) -> tuple[Array, Array]:
        first = 2 * interval_index(rows.level, np.array(self.edges))
        chance, rest = rows.against(rows.anchor)
        given = np.zeros((len(first), self.cells))
        given[rows.number, first], given[rows.number, first + 1] = rest, chance
        return first + (rows.y == rows.anchor), given


RADIUS, STEP = 4.0, 0.4
"""The grid of maps in standard errors around the best fit."""
STEEPEST, FARTHEST = 4.0, 8.0
"""No map has |log b| or |s| beyond these, whatever the reference shows: temperatures of .02 to 55."""
FITTED = 3.0, 5.0
"""The best fit is looked for within these; one at their border explains the reference as well as it can, and no
better."""
_SLOPE = 1e-3  # a step for second differences of a smooth function


@final
@dataclass(frozen=True, eq=False)
class Maps:
    """A grid of maps: the slopes b (B,), the shifts s (B, S) and the logarithms of their weights (B, S)."""

    slopes: Array
    shifts: Array
    log_weights: Array

    @property
    def allowed(self) -> bool:
        """Whether all maps are of the family, and one of them has any weight."""
        slack = 1e-9
        steep = (self.slopes < np.exp(-STEEPEST - slack)) | (self.slopes > np.exp(STEEPEST + slack))
        far = np.abs(self.shifts) > FARTHEST + slack
        return not steep.any() and not far.any() and bool(np.isfinite(self.log_weights.max()))

    def apply(self, rows: Rows) -> tuple[Rows, Maps]:
        """The rows with the null's predictions, each made of the rows before it alone, and the maps after them."""
        logs = self._log_likelihoods(rows)
        earlier = np.concatenate([np.zeros_like(logs[:1]), logs.cumsum(axis=0)])
        weights = _normalised(self.log_weights + earlier)
        mapped = replace(rows, proba=self._mean(rows, weights[:-1]))
        after = self.log_weights + earlier[-1]
        return mapped, replace(self, log_weights=after - after.max())

    def typical(self, rows: Rows) -> Array:
        """The predictions by today's weights."""
        weights = _normalised(self.log_weights[None])
        return np.concatenate([self._mean(rows.take(part), weights) for part in _blocks(rows)])

    def _log_likelihoods(self, rows: Rows) -> Array:
        """(n, B, S): log q(y) of each row under each map; rows that no map can explain say nothing about them."""
        pairs = zip(self.slopes, self.shifts, strict=True)
        logs = np.stack([log_mapped(rows, float(slope), shifts) for slope, shifts in pairs], axis=1)
        logs[rows.impossible] = 0.0
        return logs

    def _mean(self, rows: Rows, weights: Array) -> Array:
        """Σ_maps w·q, (n, k), for weights of each row or of all; what the model holds possible stays possible."""
        proba = np.zeros_like(rows.proba)
        for b, slope in enumerate(self.slopes):
            powers, of_anchor = powers_apart(rows, float(slope))
            lift = np.exp(self.shifts[b])
            share = weights[:, b] / (powers.sum(axis=1)[:, None] + lift * of_anchor[:, None])
            proba += powers * share.sum(axis=1)[:, None]
            proba[rows.number, rows.anchor] += of_anchor * (share @ lift)
        proba = np.where(rows.proba > 0, np.maximum(proba, np.finfo(np.float64).tiny), 0.0)
        return np.asarray(proba / proba.sum(axis=1, keepdims=True))


def _normalised(logs: Array) -> Array:
    """e^logs with sum 1 over the last two axes."""
    weights = np.exp(logs - logs.max(axis=(-2, -1), keepdims=True))
    return np.asarray(weights / weights.sum(axis=(-2, -1), keepdims=True))


def _blocks(rows: Rows) -> list[slice]:
    return list(row_blocks(len(rows.y), 8 * (rows.proba.shape[1] + 400)))


def fit_maps(rows: Rows) -> Maps:
    """The maps that a reference allows: the posterior of (log b, s) under independent standard normal priors."""
    from scipy.optimize import minimize

    def surprise(x: Array) -> float:
        slope, shift = float(np.exp(x[0])), x[1:]
        parts = (log_mapped(rows.take(part), slope, shift).sum() for part in _blocks(rows))
        return float(x @ x / 2 - sum(parts))

    best = np.asarray(minimize(surprise, np.zeros(2), method="L-BFGS-B", bounds=[(-most, most) for most in FITTED]).x)
    root = np.linalg.cholesky(_spread(_curvature(surprise, best)))
    z = np.arange(-RADIUS, RADIUS + STEP / 2, STEP)
    log_slopes = best[0] + root[0, 0] * z
    shifts = best[1] + root[1, 0] * z[:, None] + root[1, 1] * z
    prior = -(np.square(log_slopes)[:, None] + np.square(shifts)) / 2
    outside = (np.abs(log_slopes) > STEEPEST)[:, None] | (np.abs(shifts) > FARTHEST)
    prior[outside | (np.square(z)[:, None] + np.square(z) > RADIUS**2)] = -np.inf
    maps = Maps(np.exp(np.clip(log_slopes, -STEEPEST, STEEPEST)), np.clip(shifts, -FARTHEST, FARTHEST), prior)
    logs = sum((maps._log_likelihoods(rows.take(part)).sum(axis=0) for part in _blocks(rows)), start=prior)
    return replace(maps, log_weights=logs - logs.max())


def _spread(curvature: Array) -> Array:
    """The covariance of a fit, no wider than that of the prior: less curvature than the prior's is no information.

    The likelihood is not concave in log b, so that a flat reference may have none, or less than none, in a direction.
    """
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    return np.asarray(vectors / np.maximum(values, 1.0) @ vectors.T)


def _curvature(f: Callable[[Array], float], at: Array) -> Array:
    """Second differences of a function of two numbers."""
    a, b = _SLOPE * np.eye(2)
    corners = [[f(at + x + y) - f(at + x - y) - f(at - x + y) + f(at - x - y) for y in (a, b)] for x in (a, b)]
    return np.array(corners) / (4 * _SLOPE**2)
