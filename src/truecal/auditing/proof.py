"""A proof that a metric rewards lying: a world, a lie, and the expected values of truth and lie."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from truecal.core.result import plain
from truecal.core.types import Array

from .expectations import Frame, LieTable, chances, tabulate
from .metric import Metric, OutOfTimeError
from .worlds import Matrix, as_floats


class Reproduction(NamedTuple):
    """The arrays of a proof, in the form that the metric takes."""

    world: Array
    """The true chances, which the honest forecaster predicts."""
    lie: Array
    """The predictions that score better."""
    outcomes: NDArray[np.int64]
    """Every possible outcome, one per line; for a simulated proof, the draws."""
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
    """What rounding could account for; of a simulated proof, how far the gain may be off."""
    exact: bool
    """Whether all outcomes were listed; else they were drawn, and the gain is beyond `bound` but for one in 10⁶."""
    outcomes: NDArray[np.int64]
    chances: NDArray[np.float64]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the outcomes."""
        names = ("world", "lie", "kind", "expected_truth", "expected_lie", "gain", "bound", "exact")
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
        exact=True,
        outcomes=table.outcomes[possible],
        chances=table.chances[0][possible].astype(np.float64),
    )


def _exactly(table: LieTable, row: int) -> Fraction:
    """The expectation in the first world without any rounding of its own."""
    weights = chances(table.predictions[0], table.outcomes)
    both = zip(weights, table.values[row], strict=True)
    return sum((weight * Fraction(value) for weight, value in both if weight), start=Fraction(0))
