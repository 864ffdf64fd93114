"""The test of quantiles and ensembles at their own levels: exact, by drawing what they claim.

Given the forecasts, the levels below an outcome are drawn: of quantiles with one uniform number per row, of ensembles
by choosing one of the M + 1 values. Forms, in the same draws: the sum over levels (numbers too high or low), the outer
levels against each other (too narrow or wide), the coverage of each level, and coverage in cells of the middle and of
the width of the forecasts, which sees what the mean coverage hides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..core.arrays import LIBRARY
from ..core.cells import middle_cells
from ..core.rules import Quantile, auto_bins
from ..core.types import Array, Groups
from ..kinds.own_levels import NAME, AtOwnLevels, OwnLevels
from ..sums.errors import CalibrationError
from .calibration_result import CalibrationTest
from .forms import BINS, RANK_ONE, Form
from .joint import JointTest, reason_of
from .label_tests import label_test
from .omnibus import MOST_ROWS

OWN = CalibrationError(AtOwnLevels(), Quantile(), "l2")
"""The squared error whose gap is read at own levels."""
NULL = {
    False: "the share of outcomes at or below each quantile is its level, whatever the forecasts are",
    True: "the outcome of a row is one more member of its ensemble",
}


def own_test(
    own: OwnLevels,
    weights: Array | None,
    clusters: Groups | None,
    draws: int,
    seed: int,
    level: float = 0.95,
) -> CalibrationTest:
    """The test of forecasts at their own levels; of rows in clusters by flipped signs, level by level."""
    rows = len(own)
    if clusters is not None:
        draws = max(draws, int(2 * own.keys.shape[1] / (1 - level)))  # fewer could not reject: each level is corrected
        found, _ = label_test(own.sample(weights), lambda _: draws, seed, own.view_names, level, clusters, "level")
        return replace(found, name=NAME)
    rng = np.random.default_rng(seed)
    w = np.ones(rows) if weights is None else weights
    if rows > MOST_ROWS:
        chosen = np.sort(rng.choice(rows, MOST_ROWS, replace=False))
        own, w = own.take(chosen), w[chosen]
    sums = _Sums.of(own, w)
    values = np.stack([sums.values(sums.observed), *(sums.values(sums.drawn(rng)) for _ in range(draws))])
    joint, low, reason = JointTest(values, sums.forms, level), np.zeros(len(sums.forms)), ""
    strongest = sums.words(joint.best)
    if joint.rejects:
        low = joint.least(100 * np.sqrt(values[0] / sums.units), sums.dispersion)
        reason = reason_of(strongest, float(low[joint.best]))
    null, details = NULL[own.slots is not None], joint.details(low)
    about = (joint.pvalue, strongest, null, None, draws, details, rows, len(own), NAME)
    shown = [x for x, form in zip(low, sums.forms, strict=True) if " in " not in form.name]
    return CalibrationTest(*about, level=level, low_gap=float(max(shown)), reason=reason)


@dataclass(frozen=True, eq=False)
class _Sums:
    """Expected less observed outcomes at or below each level, in cells: the forms are squares of these sums."""

    own: OwnLevels
    w: Array
    cells: list[Array]
    """Of all rows together, and by the middle and the width of the forecasts."""
    names: list[str]
    """What the cells are made from."""
    m: int

    @staticmethod
    def of(own: OwnLevels, w: Array) -> _Sums:
        """Cells of the forecasts alone; those of a middle or a width that all rows share are left out."""
        found = _Sums(own, w, [np.zeros(len(own), np.intp)], [""], auto_bins(len(own), 1))
        for name, value in (("prediction", own.middle), ("width", own.width)):
            order, cell = LIBRARY[type(value)].argsort(value, stable=True), np.empty(len(own), np.intp)
            cell[order] = middle_cells(value, order, found.m)
            if (cell != cell[0]).any():
                found.cells.append(cell)
                found.names.append(name)
        return found

    @cached_property
    def sides(self) -> Array | None:
        """1 of levels above the median and −1 below; None where all are on one side."""
        sides = np.sign(np.round(self.own.levels - 0.5, 9))
        return sides if sides.max() > 0 > sides.min() else None

    @cached_property
    def forms(self) -> tuple[Form, ...]:
        width = [] if self.sides is None else [Form("width", RANK_ONE, True)]
        bins = [Form(f"coverage in {self.m} bins of the {name}", BINS) for name in self.names[1:]]
        return (Form("mean", RANK_ONE, True), *width, Form("coverage", BINS), *bins)

    @cached_property
    def units(self) -> Array:
        """What each form is for a difference of 1 in every level and row."""
        levels, total = len(self.own.levels), float(self.w.sum())
        width = [] if self.sides is None else [(float(np.abs(self.sides).sum()) * total) ** 2]
        return np.array([(levels * total) ** 2, *width, levels * total**2, *[levels * total] * (len(self.cells) - 1)])

    @cached_property
    def weights(self) -> list[Array]:
        return [np.bincount(cell, self.w, self.m) for cell in self.cells]

    def _table(self, values: Array) -> list[Array]:
        """(m, L) sums of values (n, L) over each system of cells."""
        return [np.stack([np.bincount(c, self.w * x, self.m) for x in values.T], axis=1) for c in self.cells]

    @cached_property
    def expected(self) -> list[Array]:
        return self._table(np.broadcast_to(self.own.chances, self.own.below.shape))

    @cached_property
    def observed(self) -> list[Array]:
        return self._table(self.own.below)

    @cached_property
    def dispersion(self) -> float:
        """Squared residuals over their mean if the forecasts are right, 1 or more."""
        chances, squares = self.own.chances, np.square(self.w)
        seen = float(squares @ np.square(chances - self.own.below).sum(axis=1))
        each = np.broadcast_to(chances * (1 - chances), self.own.below.shape)
        expected = float(squares @ each.sum(axis=1))
        return max(1.0, seen / expected) if expected > 0 else 1.0

    def drawn(self, rng: np.random.Generator) -> list[Array]:
        """Sums of outcomes that are drawn."""
        levels = len(self.own.levels)
        below = self.own.drawn(rng)
        return [
            np.bincount(cell * (levels + 1) + below, self.w, self.m * (levels + 1))
            .reshape(self.m, levels + 1)
            .cumsum(axis=1)[:, :-1]
            for cell in self.cells
        ]

    def values(self, came: list[Array]) -> Array:
        """The forms of these sums."""
        first, *others = (expected - x for expected, x in zip(self.expected, came, strict=True))
        whole = first[0]
        found = [whole.sum() ** 2]
        if self.sides is not None:
            found.append((whole @ self.sides) ** 2)
        found.append(whole @ whole)
        for rest, weight in zip(others, self.weights[1:], strict=True):
            found.append((np.square(rest).sum(axis=1) / np.where(weight > 0, weight, 1.0)).sum())
        return np.array(found)

    def words(self, place: int) -> str:
        """The description of the violation that a form shows."""
        whole, form = self.expected[0][0] - self.observed[0][0], self.forms[place]
        if form.name == "mean":
            return f"predicted numbers are too {'low' if whole.sum() > 0 else 'high'}"
        if form.name == "width":
            assert self.sides is not None
            return f"forecasts are too {'narrow' if whole @ self.sides > 0 else 'wide'}"
        if form.name == "coverage":
            return "coverage differs from the levels"
        return f"coverage varies with the {form.name.rsplit(' ', 1)[1]}"
