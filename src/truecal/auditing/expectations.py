"""Exact expectations: a metric's value for every prediction and outcome, and what each lie gains in each world."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from truecal.core.result import plain
from truecal.core.types import Array

from .metric import Metric, OutOfTimeError
from .worlds import Matrix, as_floats, matrix

CLEAR = 10.0
"""A gain counts when it is this many times what rounding could fake,"""
RELATIVE = 1e-9
"""and this share of the values it is a difference of."""
FLOOR = 1 / 16
"""Values smaller than this are judged as if they were of this size."""
_OPERATIONS = 16  # roundings a metric is granted per row


@final
@dataclass(frozen=True)
class Frame:
    """Rows that are certain, before and after the rows that are not: they cost no outcomes and fill bins."""

    before: int = 0
    after: int = 0

    def around(self, rows: Matrix) -> Matrix:
        """The rows with certain ones of the first class before them and of the last class after them."""
        if not self.before + self.after:
            return rows
        k = rows.shape[1]
        first, last = ([int(j == at) for j in range(k)] for at in (0, k - 1))
        above, below = [first] * self.before, [last] * self.after
        return np.vstack([part for part in (above and matrix(above), rows, below and matrix(below)) if len(part)])

    def outcomes(self, n: int, k: int) -> NDArray[np.int64]:
        """Every outcome of n uncertain rows, one per line, with the certain ones in their places."""
        free = np.array(list(product(range(k), repeat=n)), dtype=np.int64).reshape(-1, n)
        sides = [np.full((len(free), self.before), 0), free, np.full((len(free), self.after), k - 1)]
        return np.hstack(sides)


BARE = Frame()


def chances(world: Matrix, outcomes: NDArray[np.int64]) -> Array:
    """Return the exact chance of every outcome of independent rows."""
    rows = np.arange(len(world))
    return np.array([np.prod(world[rows, y]) for y in outcomes], dtype=object)


def values(metric: Metric, rows: Matrix, outcomes: NDArray[np.int64]) -> Array:
    """The metric of one prediction at every outcome; what was asked before is not asked again."""
    key = (tuple(rows.ravel()), outcomes.tobytes())
    if key not in metric.known:
        metric.known[key] = np.array([metric(y, rows) for y in outcomes], dtype=np.float64)
    return metric.known[key]


@final
@dataclass(frozen=True, eq=False)
class LieTable:
    """Predictions that are worlds as well: `values[u, y]` of the metric, `chances[w, y]`, over the same outcomes."""

    metric: Metric
    frame: Frame
    predictions: tuple[Matrix, ...]
    outcomes: NDArray[np.int64]
    values: Array
    chances: Array

    @property
    def rows(self) -> int:
        return int(self.outcomes.shape[1])

    @property
    def classes(self) -> int:
        return int(self.predictions[0].shape[1])

    @cached_property
    def expected(self) -> Array:
        """E[w, u]: the expectation of u's value in world w; NaN where it is not defined, infinite where it is."""
        return expectation(self.chances, self.values)

    @cached_property
    def gains(self) -> Array:
        """gains[w, u]: by how much u beats the truth in world w; NaN where that is not defined."""
        with np.errstate(invalid="ignore"):
            gains = np.diag(self.expected)[:, None] - self.expected
        return np.where(np.isposinf(gains), np.nan, gains)

    @cached_property
    def scale(self) -> Array:
        """scale[w, u]: the size of the values that a gain is the difference of, and no less than is usual here.

        Values may be small differences of probabilities, which round as numbers of size one do: hence the floor.
        """
        sizes = np.abs(self.values)
        sizes = np.where(np.isfinite(sizes), sizes, 0).max(axis=1)
        floor = max(float(np.quantile(sizes, 0.9)), FLOOR)
        scale: Array = np.maximum(np.maximum.outer(sizes, sizes), floor)
        return scale

    @cached_property
    def bound(self) -> Array:
        """bound[w, u]: what rounding, and the noise that was seen, could make of a gain that is none."""
        return _OPERATIONS * (self.rows + 8) * self.metric.rounding * self.scale + 2 * self.metric.noise

    @cached_property
    def needed(self) -> Array:
        """needed[w, u]: the gain above which a lie is convicted."""
        return np.maximum(CLEAR * self.bound, RELATIVE * self.scale)

    @property
    def defined(self) -> tuple[int, int]:
        """How many worlds have an expected value of the truth, and how many predictions have one in those."""
        missing = np.isnan(self.gains)
        known = ~missing.all(axis=1)
        return int(known.sum()), int((~missing[known].all(axis=0)).sum()) if known.any() else 0

    @property
    def resolution(self) -> float:
        """The smallest gain that would have been seen in every pair."""
        return float(self.needed.max(initial=0.0))

    @property
    def reach(self) -> float:
        """How far apart the finite values are: no gain can be larger."""
        values = self.values
        values = values[np.isfinite(values)]
        return float(np.ptp(values)) if values.size else 0.0

    @cached_property
    def convicted(self) -> Array:
        """convicted[w, u]: whether u gains in world w beyond doubt."""
        with np.errstate(invalid="ignore"):
            found: Array = self.gains > self.needed
        return found.astype(bool)


def expectation(chances: Array, values: Array) -> Array:
    """Σ_y chance · value, without the outcomes that cannot come: a value there may be infinite or missing."""
    finite = np.where(np.isfinite(values), values, 0.0)
    total: Array = chances @ finite.T
    total[(chances @ np.isposinf(values).T.astype(float)) > 0] = np.inf
    total[(chances @ (np.isnan(values) | np.isneginf(values)).T.astype(float)) > 0] = np.nan
    return total


def tabulate(metric: Metric, predictions: Iterable[Matrix], frame: Frame = BARE) -> LieTable:
    """The table of predictions of one shape, within a frame of certain rows."""
    kept = [frame.around(rows) for rows in predictions]
    sides = frame.before + frame.after
    outcomes = frame.outcomes(len(kept[0]) - sides, kept[0].shape[1])
    found = np.array([values(metric, rows, outcomes) for rows in kept])
    metric.meter.tell()
    weights = np.array([chances(world, outcomes) for world in kept], dtype=np.float64)
    return LieTable(metric, frame, tuple(kept), outcomes, found, weights)


class Reproduction(NamedTuple):
    """The arrays of a proof, in the form that the metric takes."""

    world: Array
    """The true chances, which the honest forecaster predicts."""
    lie: Array
    """The predictions that score better."""
    outcomes: NDArray[np.int64]
    """Every possible outcome, one per line."""
    chances: NDArray[np.float64]
    """The chance of each."""


@final
@dataclass(frozen=True, eq=False)
class Proof:
    """In `world` the metric expects `lie` to be better than the truth, by `gain`."""

    world: Array
    lie: Array
    kind: str
    """The way of lying."""
    expected_truth: float
    expected_lie: float
    gain: float
    """How much better the lie does on average, always positive."""
    bound: float
    """What rounding could account for."""
    outcomes: NDArray[np.int64]
    chances: NDArray[np.float64]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the outcomes."""
        names = ("world", "lie", "kind", "expected_truth", "expected_lie", "gain", "bound")
        return {name: plain(getattr(self, name)) for name in names}

    @property
    def rows(self) -> int:
        return len(self.world)

    @property
    def classes(self) -> int:
        return int(self.world.shape[1])


def best_pair(table: LieTable, lies: dict[tuple[int, int], str]) -> tuple[int, int] | None:
    """(world, prediction) that gains beyond doubt: a lie with a name, and round numbers unless others gain far more."""
    gains = {(int(w), int(u)): float(table.gains[w, u]) for w, u in np.argwhere(table.convicted)}
    named = {pair: gain for pair, gain in gains.items() if pair in lies} or gains
    most = max(named.values(), default=0.0)

    def roundness(pair: tuple[int, int]) -> tuple[int, float]:
        return sum(_digits(table.predictions[i]) for i in pair), -named[pair]

    return min((pair for pair, gain in named.items() if 4 * gain >= most), key=roundness, default=None)


def _digits(rows: Matrix) -> int:
    """How long the longest entry is to write, as a fraction or as a decimal."""
    return max(min(len(str(value)), len(repr(float(value)))) for value in rows.ravel())


def simplest(metric: Metric, frame: Frame, world: Matrix, lie: Matrix) -> Matrix:
    """The lie with as many rows told truthfully as half of the gain, still beyond doubt, and the time allow."""
    enough = tabulate(metric, [world, lie], frame).gains[0, 1] / 2
    for i in range(len(lie)):
        tried = lie.copy()
        tried[i] = world[i]
        if (tried == lie).all() or (tried == world).all():
            continue
        try:
            table = tabulate(metric, [world, tried], frame)
        except OutOfTimeError:
            break
        if table.convicted[0, 1] and table.gains[0, 1] >= enough:
            lie = tried
    return lie


def prove(metric: Metric, frame: Frame, world: Matrix, lie: Matrix, kind: str) -> Proof:
    """The expected values once more, as exact sums of the values that the metric returned."""
    table = tabulate(metric, [world, lie], frame)
    exact = [_exactly(table, row) for row in (0, 1)]
    possible = table.chances[0] > 0
    sign = -1 if metric.form.higher_is_better else 1
    return Proof(
        world=as_floats(table.predictions[0]),
        lie=as_floats(table.predictions[1]),
        kind=kind,
        expected_truth=float(sign * exact[0]),
        expected_lie=float(sign * exact[1]),
        gain=float(exact[0] - exact[1]),
        bound=float(table.bound[0, 1]),
        outcomes=table.outcomes[possible],
        chances=table.chances[0][possible].astype(np.float64),
    )


def _exactly(table: LieTable, row: int) -> Fraction:
    """The exact expectation in the first world."""
    weights = chances(table.predictions[0], table.outcomes)
    both = zip(weights, table.values[row], strict=True)
    return sum((weight * Fraction(value) for weight, value in both if weight), start=Fraction(0))
