"""The row from which predictions changed: its posterior, given maps that fit later rows better than the null.

Under "the first s rows follow the predictions, and the rows after them a map of these", the likelihood over that of no
change is the product of the map's ratios after s. s is uniform over the rows and maps are alike. Sums of the logarithms
of the ratios are kept at evenly spread rows, so that no row has to be. That predictions were off from the first row on
has the same prior weight as all later changes together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from ..core.result import Result
from ..core.types import Array
from .eprocesses import LOG_SLOPES, MAP_SHIFTS

POINTS = 256
"""At least half as many sums are kept, and never more."""
LEVEL = 0.9
_UNTOLD = 0.8  # an interval of so many of the rows says nothing
ALTERNATIVES = np.flatnonzero(
    [(b == 0) != (s == 0) for b in LOG_SLOPES for s in MAP_SHIFTS]  # a temperature or a shift
)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Change(Result):
    """The row from which predictions are probably off, the first being 0, and the ends of its 90% interval.

    `text` says so with the names that were given with rows. `told` is False where the rows cannot tell.
    """

    row: int
    low: int
    high: int
    told: bool
    text: str

    def __repr__(self) -> str:
        return self.text


@final
@dataclass(frozen=True)
class Place:
    """From row `start` on rows have this name, and the first of them is row `first` of those of that name."""

    start: int
    name: str
    first: int


def place_text(places: Sequence[Place], row: int) -> str:
    """ "row 3 of day2.csv", or "row 403" where rows have no names."""
    found = next((place for place in reversed(places) if place.start <= row), None)
    return f"row {row}" if found is None else f"row {row - found.start + found.first} of {found.name}"


def fresh_trail(rows: int = 0) -> Array:
    """Return a trail without sums after so many rows: (points, 1 + alternatives), the first column counts rows."""
    return np.append(float(rows), np.zeros(len(ALTERNATIVES)))[None]


def longer_trail(trail: Array, ratios: Array) -> Array:
    """The trail after the log ratios (rows, bets of `Map`) of more rows, thinned; the last entry is now."""
    kept = ratios[:, ALTERNATIVES]
    kept = np.where(np.isfinite(kept), kept, 0.0)  # a label that could not come says nothing about when
    steps = np.column_stack([np.ones(len(kept)), kept])
    found = np.concatenate([trail, trail[-1] + np.cumsum(steps, axis=0)])
    stride = 1
    while found[-1, 0] / stride > POINTS - 2:
        stride *= 2
    inside = found[:, 0] % stride == 0
    inside[-1] = True
    return np.asarray(found[inside])


def change_of(trail: Array, places: Sequence[Place] = ()) -> Change:
    """Return the median and the interval of the posterior."""
    rows, gains = trail[:, 0], trail[-1, 1:] - trail[:-1, 1:]
    width = np.diff(rows)
    width[0] += rows[-1] - rows[0]
    weight = np.exp(gains - gains.max()).sum(axis=1) * width
    below = np.cumsum(weight) / weight.sum()
    low, row, high = (
        int(np.searchsorted(below, share, side="left")) for share in ((1 - LEVEL) / 2, 0.5, (1 + LEVEL) / 2)
    )
    first, last, found = int(rows[low]), int(rows[high + 1]) - 1, int(rows[row])
    told = last + 1 - first < _UNTOLD * (rows[-1] - rows[0])
    between = f"{LEVEL:.0%} interval: {place_text(places, first)} to {place_text(places, last)}"
    if not told:
        text = "the rows do not tell when it changed"
    elif low == 0:
        text = f"predictions are probably off from the first rows on ({between})"
    else:
        text = f"the change is probably near {place_text(places, found)} ({between})"
    return Change(found, first, last, told, text)
