"""What quantiles and ensembles claim, at levels that they choose themselves.

At its own quantiles a forecast claims P(y ≤ q_τ | forecast) = τ, and nothing between them. For an ensemble the outcome
is one more member: given the M + 1 values, each of them is the outcome with equal chance. Both can be drawn from
exactly, so nothing is interpolated. The gap of quantiles takes the residuals τ − 1[y ≤ q_τ] in cells by the rank of
q_τ. That of an ensemble takes thresholds, and their cells, from one half of the members, and their probabilities from
the other; then the halves change places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from ..core.properties import Property
from ..core.sample import Sample, unit_weights
from ..core.types import Array

NAME = "own levels"
RANKS, PLACES = 19, 9
"""The levels at which the rank of the outcome among many members is looked at, and the thresholds of half of them."""


@final
@dataclass(frozen=True)
class AtOwnLevels(Property):
    """A view per level of quantiles, or per threshold of half of an ensemble: `OwnLevels` has its samples."""

    kind = NAME
    of_classes = False
    residual_text = "τ − 1[y ≤ q_τ]"

    def symbol(self, name: str) -> str:
        return NAME

    def direction_property(self) -> Property:
        return self

    def check(self, y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
        raise ValueError("pass a forecast of tc.forecasts.quantiles or tc.forecasts.ensemble")

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        raise ValueError("pass a forecast of tc.forecasts.quantiles or tc.forecasts.ensemble")


@final
@dataclass(frozen=True, eq=False)
class OwnLevels:
    """What outcomes show of forecasts at their own levels; arrays have an entry per row."""

    levels: Array
    """(L,): of quantiles; of ensembles shares of the members."""
    below: Array
    """(n, L): whether the outcome is at most the value of each level."""
    chances: Array
    """(n, L) or (1, L): how likely that is if the forecasts are right."""
    middle: Array
    width: Array
    keys: Array
    """(n, V): the place of each threshold of the gap among those of all rows, which makes its cell."""
    residuals: Array
    """(n, V): the probability of an outcome of at most it, less whether it came."""
    loss_name: str
    losses: Array
    slots: Array | None = None
    """Of ensembles (n, M + 1): how many levels lie below each of the values that could be the outcome."""

    def __len__(self) -> int:
        return len(self.below)

    def take(self, rows: Array | slice) -> OwnLevels:
        """Some of the rows."""
        parts = {
            name: getattr(self, name)[rows] for name in ("below", "middle", "width", "keys", "residuals", "losses")
        }
        if self.slots is not None:
            parts |= {"slots": self.slots[rows], "chances": self.chances[rows]}
        return replace(self, **parts)

    def drawn(self, rng: np.random.Generator) -> Array:
        """How many levels lie below the outcome of each row, if the forecasts are right."""
        if self.slots is None:
            return np.searchsorted(self.levels, rng.random(len(self)))
        chosen = rng.integers(self.slots.shape[1], size=len(self))
        return np.asarray(self.slots[np.arange(len(self)), chosen])

    def sample(self, weights: Array | None = None) -> Sample:
        """The residuals of the gap, in cells by the places of their thresholds."""
        told = np.clip(self.residuals, 0.0, 1.0) + (self.residuals < 0) * (1 + self.residuals)
        about = unit_weights(weights)
        return Sample(NAME, self.keys, values=self.keys - self.residuals, variance=told * (1 - told), **about)

    @property
    def view_names(self) -> tuple[str, ...]:
        """What the views of the gap are called."""
        if self.slots is None:
            return tuple(f"level {level:g}" for level in self.levels)
        return tuple(f"threshold {j + 1}" for j in range(self.keys.shape[1]))


def own_levels(y_true: Any, y_proba: Any) -> OwnLevels | None:
    """The claims of a forecast at its own levels; None for predictions of other forms."""
    found: Callable[[Array], OwnLevels | None] | None = getattr(y_proba, "own", None)
    return None if found is None else found(y_true)


def of_quantiles(y: Array, values: Array, levels: Array) -> OwnLevels:
    """The claims of quantiles (n, L). Where outcomes equal a quantile, as those of counts do, the claim is
    P(y < q) ≤ τ ≤ P(y ≤ q): such outcomes count as below in the share that suits the forecast best."""
    from scipy.stats import rankdata

    less, same = y[:, None] > values, y[:, None] == values
    under, ties = (~less & ~same).sum(axis=0), same.sum(axis=0)
    share = np.clip((len(y) * levels - under) / np.maximum(ties, 1), 0.0, 1.0)
    below = np.where(same, share, ~less & ~same)
    with np.errstate(invalid="ignore"):
        width = np.nan_to_num(values[:, -1] - values[:, 0], nan=0.0)
        excess = y[:, None] - values
        pinball = np.where(same, 0.0, np.maximum(levels * excess, (levels - 1) * excess))
    return OwnLevels(
        levels=levels,
        below=below,
        chances=levels[None],
        middle=values[:, len(levels) // 2],
        width=width,
        keys=(rankdata(values, axis=0) - 0.5) / len(y),
        residuals=levels - below,
        loss_name="pinball",
        losses=pinball.mean(axis=1),
    )


def of_members(y: Array, members: Array) -> OwnLevels:
    """The claims of ensembles (n, M). Equal values share the mean of their ranks."""
    from scipy.stats import rankdata

    n, number = members.shape
    pooled = np.column_stack([y, members])
    place = (rankdata(pooled, axis=1) - 0.5) / (number + 1)
    levels = np.arange(1, min(RANKS, number) + 1) / (min(RANKS, number) + 1)
    slots = np.searchsorted(levels, place - 1e-12).astype(np.int16)
    chances = np.stack([(slots <= j).mean(axis=1) for j in range(len(levels))], axis=1)
    ordered = np.sort(members, axis=1)
    mixed = np.random.default_rng(0).permuted(np.tile(np.arange(number), (n, 1)), axis=1)  # whatever their order is
    halves = [np.sort(np.take_along_axis(ordered, part, axis=1), axis=1) for part in np.array_split(mixed, 2, axis=1)]
    keys, residuals = [], []
    for own, other in (halves, halves[::-1]):
        for j in np.unique(np.linspace(0, own.shape[1] - 1, PLACES).round().astype(int)):
            at = own[:, j, None]
            told, came = (((x < at) + 0.5 * (x == at)).mean(axis=1) for x in (other, y[:, None]))
            keys.append((rankdata(at[:, 0]) - 0.5) / n)
            residuals.append(told - came)
    step = 2 * np.arange(number) - number + 1.0
    all_sorted = np.sort(pooled, axis=1)
    with np.errstate(invalid="ignore"):
        crps = np.abs(members - y[:, None]).mean(axis=1) - ordered @ step / (number * (number - 1))
        width = np.nan_to_num(all_sorted[:, -1 - number // 10] - all_sorted[:, number // 10], nan=0.0)
    return OwnLevels(
        levels=levels,
        below=(slots[:, :1] <= np.arange(len(levels))).astype(np.float64),
        chances=chances,
        middle=np.median(pooled, axis=1),
        width=width,
        keys=np.column_stack(keys),
        residuals=np.column_stack(residuals),
        loss_name="fair_crps",
        losses=crps,
        slots=slots,
    )
