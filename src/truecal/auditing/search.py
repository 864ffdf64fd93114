"""Search for lies that gain: named lies, certain rows that fill bins, every lie on a grid, and climbing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import permutations
from typing import Any, final

import numpy as np

from .expectations import BARE, Frame, LieTable, best_pair, tabulate
from .metric import Metric
from .worlds import JITTER, WAYS, Matrix, grid, grid_predictions, lies, worlds

Lies = dict[tuple[int, int], str]
"""(world, prediction) -> the way in which the prediction lies about the world."""

FRAMES = (Frame(13, 13), Frame(12, 14), Frame(27, 29), Frame(0, 26))
"""With four uncertain rows 30 or 60 in all: 10, 15, 20 and 30 bins of equal mass have whole numbers of rows."""
BOTH = Frame(1, 1)
_GRIDS = ((6, 4), (4, 4), (8, 3), (3, 3), (6, 2), (4, 3), (4, 2), (3, 2), (2, 2), (6, 1), (3, 1), (2, 1))
_IN_FRAMES = ("pool", "uniform", "shrink", "jitter", "spread", "sharpen")
_JUMP = 1000  # a jitter that gains less only goes down the slope on which any step gains
_STEPS = tuple(Fraction(1, 4**power) for power in range(1, 7))


@final
@dataclass(frozen=True)
class Searched:
    """A part of the search: the worlds and predictions with a value, and the smallest gain any would have shown."""

    where: str
    rows: int
    classes: int
    worlds: int
    predictions: int
    resolution: float


@final
@dataclass(frozen=True)
class Certificate:
    """For every world and every prediction whose chances are multiples of 1/parts, no gain above `resolution`."""

    classes: int
    parts: int
    rows: int
    resolution: float

    def __str__(self) -> str:
        return f"multiples of 1/{self.parts}, n ≤ {self.rows}, {self.classes} classes"


@final
@dataclass(frozen=True, eq=False)
class Lie:
    """A lie that pays, and where: uncertain rows of a world, within a frame of certain ones."""

    metric: Metric
    frame: Frame
    world: Matrix
    lie: Matrix
    kind: str
    gain: float

    @property
    def certain(self) -> bool:
        """Whether nothing is uncertain in the world: what gains there may be an accident of clipping at 0 and 1."""
        return all(value in (0, 1) for value in self.world.ravel())

    @property
    def plain(self) -> bool:
        """Whether the lie has a name and the world something to predict: a proof that people understand. The smallest
        change of a prediction is no such lie: it gains next to nothing where a larger one without a name gains."""
        return not self.certain and self.kind not in ("anything", "jitter")

    @property
    def rows(self) -> int:
        return len(self.world) + self.frame.before + self.frame.after


@final
@dataclass(frozen=True)
class Rewarded:
    """A misreport that the metric rewards, and its largest gain."""

    name: str
    text: str
    gain: float


@final
@dataclass(eq=False)
class Found:
    """The lies that gained in a search so far, what was searched, and certificates."""

    searched: list[Searched] = field(default_factory=list)
    certificates: list[Certificate] = field(default_factory=list)
    lies: list[Lie] = field(default_factory=list)
    gains: dict[str, Lie] = field(default_factory=dict)
    """The largest gain of each way to lie, wherever it was."""
    tables: list[tuple[LieTable, Lies]] = field(default_factory=list)
    explained: int | None = None
    """The number of calls up to which a convicted metric is asked for other ways of lying."""
    blind: list[int] = field(default_factory=list)
    """Numbers of classes of which all values are closer than a gain that would be seen."""

    @property
    def convicted(self) -> bool:
        """Whether a lie that has a name pays in a world that has something to predict."""
        return any(lie.plain for lie in self.lies)

    @property
    def rewarded(self) -> tuple[Rewarded, ...]:
        """The ways to lie that gained beyond doubt, the largest gain first."""
        named = [lie for kind, lie in self.gains.items() if kind != "anything"]
        best = named or sorted(self.lies, key=lambda lie: -lie.gain)[:1]
        return tuple(Rewarded(lie.kind, WAYS[lie.kind], lie.gain) for lie in sorted(best, key=lambda lie: -lie.gain))

    def note(self, table: LieTable, named: Lies, where: str, tried: int | None = None) -> None:
        """Add the findings of a table; every prediction in it is a world as well, unless one world was `tried`."""
        worlds, predictions = table.defined if tried is None else (1, tried)
        self.searched.append(Searched(where, table.rows, table.classes, worlds, predictions, table.resolution))
        pair = best_pair(table, named)
        if pair is not None:
            self.lies.append(_lie(table, pair, named.get(pair, "anything")))
        for each, way in named.items():
            gain = float(table.gains[each])
            steep = way != "jitter" or gain > _JUMP * JITTER * table.scale[each]
            if table.convicted[each] and steep and (way not in self.gains or gain > self.gains[way].gain):
                self.gains[way] = _lie(table, each, way)


def _lie(table: LieTable, pair: tuple[int, int], kind: str) -> Lie:
    inside = slice(table.frame.before, table.rows - table.frame.after)
    world, lie = (table.predictions[i][inside] for i in pair)
    return Lie(table.metric, table.frame, world, lie, kind, float(table.gains[pair]))


# -- named worlds and lies ---------------------------------------------------------------------------------------------


def _named(given: Sequence[Matrix], seed: int, kinds: Iterable[str] = WAYS) -> tuple[list[Matrix], Lies]:
    """Each world with its lies after it, none twice, and which prediction lies about which world in which way."""
    places: dict[tuple[Any, ...], int] = {}
    kept: list[Matrix] = []
    named: Lies = {}

    def place(rows: Matrix) -> int:
        key = tuple(rows.ravel())
        if key not in places:
            places[key] = len(kept)
            kept.append(rows)
        return places[key]

    for world in given:
        at = place(world)
        for kind, lie in lies(world, seed):
            if kind in kinds:
                named.setdefault((at, place(lie)), kind)
    return kept, named


def _examine(
    found: Found, metric: Metric, given: Sequence[Matrix], seed: int, calls: int, where: str, frame: Frame = BARE
) -> None:
    predictions, named = _named(given, seed, WAYS if frame == BARE else _IN_FRAMES)
    n, k = given[0].shape
    some = predictions[: max(0, min(calls, metric.meter.left)) // k**n]  # as many as the calls and the budget allow
    if len(some) > 1:
        table = tabulate(metric, some, frame)
        inside = {pair: kind for pair, kind in named.items() if max(pair) < len(some)}
        found.note(table, inside, where)
        if frame == BARE:
            found.tables.append((table, inside))


def examine_small(found: Found, metric: Metric, n: int, seed: int, calls: int, k: int) -> None:
    """Every named world of n rows, and every named lie about any of them, each held against each."""
    _examine(found, metric, list(worlds(n, k, seed).values()), seed, calls, "named worlds and lies, all outcomes")


def examine_framed(found: Found, metric: Metric, k: int, seed: int, calls: int) -> None:
    """Uncertain rows among certain ones: bins of equal mass, and of many rows, at the price of few outcomes."""
    last = metric.meter.calls + calls
    n = 4 if k == 2 else 2
    first = list(worlds(n, k, seed).values())[:3]
    for frame in FRAMES:
        text = f"{n} uncertain rows among {frame.before + frame.after} certain ones, all outcomes"
        _examine(found, metric, first, seed, last - metric.meter.calls, text, frame)


def examine_between(found: Found, metric: Metric, seed: int) -> None:
    """Six rows of two classes between one certain row of each, for metrics that want both classes among the labels."""
    text = f"6 uncertain rows among {BOTH.before + BOTH.after} certain ones, all outcomes"
    _examine(found, metric, [worlds(6, 2, seed)["pairs"]], seed, 5 * 2**6, text, BOTH)


# -- all of a grid -----------------------------------------------------------------------------------------------------


def _grid_cost(k: int, parts: int, rows: int) -> int:
    points = math.comb(parts + k - 1, k - 1)
    return sum((points * k) ** n for n in range(1, rows + 1))


def examine_grid(found: Found, metric: Metric, k: int, calls: int) -> None:
    """Compare every world and prediction of the finest grid that the calls allow: a certificate, or a lie."""
    sizes = ((_grid_cost(k, *size), size) for size in _GRIDS)
    fitting = max(((cost, size) for cost, size in sizes if cost <= min(calls, metric.meter.left)), default=None)
    if fitting is None:
        return
    parts, most = fitting[1]
    points = grid(k, parts)
    worst, reach = 0.0, 0.0
    for n in range(1, most + 1):
        table = tabulate(metric, grid_predictions(points, n))
        found.note(table, {}, f"all multiples of 1/{parts}, all outcomes")
        if table.convicted.any() or np.isnan(table.gains).any():
            return
        worst, reach = max(worst, table.resolution), max(reach, table.reach)
    if worst < reach:  # else no lie could have gained as much as would have been seen
        found.certificates.append(Certificate(k, parts, most, worst))
    else:
        found.blind.append(k)


# -- climbing ----------------------------------------------------------------------------------------------------------


def climb(found: Found, calls: int) -> None:
    """Climb from the truth and the closest lies: move chance between classes of single rows while that gains.

    The small steps from the truth see whether it is a minimum at all, however little is to be gained.
    """
    starts = [start for table, named in found.tables for start in _starts(table, named)]
    for table, world, lie in starts:
        _climb_from(found, table, world, lie, calls // max(1, len(starts)))


def _starts(table: LieTable, named: Lies) -> Iterator[tuple[LieTable, Matrix, Matrix]]:
    """The best two lies of a table, about different worlds, and the truth in those worlds."""
    gains = {pair: float(table.gains[pair]) for pair in named if np.isfinite(float(table.gains[pair]))}
    order = sorted(gains, key=gains.__getitem__, reverse=True)
    first = order[:1]
    for w, u in first + [pair for pair in order if first and pair[0] != first[0][0]][:1]:
        yield table, table.predictions[w], table.predictions[w]
        yield table, table.predictions[w], table.predictions[u]


def _climb_from(found: Found, start: LieTable, world: Matrix, lie: Matrix, calls: int) -> None:
    last = start.metric.meter.calls + calls
    seen = {tuple(world.ravel()), tuple(lie.ravel())}
    best = tabulate(start.metric, [world, lie])
    while (better := _improved(best, seen, last)) is not None:
        best = better
    found.note(best, {(0, 1): "anything"}, "climbing, all outcomes", len(seen))


def _improved(best: LieTable, seen: set[tuple[Any, ...]], last: int) -> LieTable | None:
    """The first neighbour that gains more, if the calls up to `last` allow to find one."""
    metric, world = best.metric, best.predictions[0]
    for tried in _neighbours(best.predictions[1]):
        key = tuple(tried.ravel())
        if key in seen:
            continue
        if len(best.outcomes) > min(last - metric.meter.calls, metric.meter.left):
            return None
        seen.add(key)
        table = tabulate(metric, [world, tried])
        if table.gains[0, 1] > best.gains[0, 1] + table.bound[0, 1]:
            return table
    return None


def _neighbours(rows: Matrix) -> Iterator[Matrix]:
    """The same predictions with some chance of one row moved from one class to another."""
    for step in _STEPS:
        for i in range(len(rows)):
            for a, b in permutations(range(rows.shape[1]), 2):
                if rows[i, a] > 0:
                    moved = rows.copy()
                    shift = min(step, rows[i, a])
                    moved[i, a], moved[i, b] = rows[i, a] - shift, rows[i, b] + shift
                    yield moved
