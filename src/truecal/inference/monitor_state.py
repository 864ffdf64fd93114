"""The state of a monitor after the rows so far: how rows change it, and how it is read from a file and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..core.data import both_classes, shown
from ..core.row_kernels import top_class
from ..core.types import Array
from ..io.state_files import check_array, damaged
from ..kinds import KINDS
from ..kinds.inputs import Inputs
from .change import Place, fresh_trail, longer_trail
from .eprocesses import BinRates, ClassRates, Map, Maps, OneSided, Process, Rows, grow, log_unstarted, mean_of_logs

EDGES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Bins of probability where no reference gives others: equal widths, and finer where predictions are sure."""
MOST_CLASSES = 100
"""Of more classes the rates are not learnt: each costs evidence, and their sum would bury what there is."""
HISTORY = 1000
"""At least half as many points are kept for the plot, evenly spread over the rows, and never twice as many."""
MOST_PLACES = 1000
"""Of more names of rows the last are kept."""
_NUMBERS = ("rows", "new", "stride", "since", "impossible")
_ARRAYS = ("now", "largest", "history")
_LOGS = ("wealth", "now", "largest", "history", "maps.log_weights")
_MOST_ROWS = 1 << 53  # as far as floats count


@dataclass(frozen=True, eq=False)
class Setup:
    """Kind, classes and bins, which the first predictions fix."""

    kind: str
    n_classes: int
    edges: tuple[float, ...]

    @property
    def processes(self) -> tuple[Process, ...]:
        both: list[Process] = [OneSided("over-confident", -1), OneSided("under-confident", 1)]
        if KINDS[self.kind].one_event:
            both += [OneSided("too high", -1, "anchor"), OneSided("too low", 1, "anchor")]
        both += [Map(), BinRates(self.edges)]
        if KINDS[self.kind].over_classes and self.n_classes <= MOST_CLASSES:
            both.append(ClassRates(self.n_classes))
        return tuple(both)

    def rows(self, inputs: Inputs) -> Rows:
        """Return rows whose predictions sum to 1 exactly, as a martingale needs."""
        given = inputs.reports if inputs.kind.over_classes else both_classes(inputs.reports.astype(np.float64))
        one = np.ones(len(given), dtype=np.intp)
        top = one if inputs.kind.top_only else top_class(given).astype(np.intp)
        anchor = top if inputs.kind.over_classes else one
        proba = np.clip(given.astype(np.float64), 0.0, None)
        proba /= proba.sum(axis=1, keepdims=True)
        y = inputs.y.astype(np.intp)
        return Rows(y, proba, top, anchor, proba[np.arange(len(y)), anchor])

    @staticmethod
    def read(kind: Any, classes: Any, edges: Any) -> Setup:
        """The setup that a file names."""
        found = Setup(kind, int(classes), tuple(float(edge) for edge in edges))
        if kind not in KINDS or found.n_classes < 2:
            raise ValueError(f"no predictions of kind {shown(kind)} with {found.n_classes} classes")
        if found.edges[0] != 0 or found.edges[-1] != 1 or not (np.diff(found.edges) > 0).all():
            raise ValueError("the edges of the bins must rise from 0 to 1")
        return found


@dataclass(frozen=True, eq=False)
class State:
    """The evidence of the rows so far: wealth and memory of each process, history and trail."""

    wealth: tuple[Array, ...]
    memory: tuple[Array, ...]
    now: Array
    """log e-values: of the monitor, then of each process."""
    largest: Array
    history: Array
    trail: Array
    maps: Maps | None
    rows: int = 0
    new: int = 0
    stride: int = 1
    since: int | None = None
    since_time: str | None = None
    impossible: int | None = None
    places: tuple[Place, ...] = ()

    def numbers(self) -> dict[str, Any]:
        """The numbers by name, as they are saved."""
        found: dict[str, Any] = {name: getattr(self, name) for name in (*_NUMBERS, "since_time")}
        return found | {"places": [[place.start, place.name, place.first] for place in self.places]}

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as they are saved."""
        found = {name: getattr(self, name) for name in (*_ARRAYS, "trail")}
        found |= {f"{name}.{i}": x for name in ("wealth", "memory") for i, x in enumerate(getattr(self, name))}
        return found | {f"maps.{f.name}": getattr(self.maps, f.name) for f in fields(Maps) if self.maps is not None}

    def unsound(self) -> str | None:
        """The name of an array that has values it cannot have: e-values and stakes may be infinite, nothing is NaN."""
        for name, array in self.arrays().items():
            if np.isnan(array).any() or not (name.startswith(_LOGS) or np.isfinite(array).all()):
                return name
        return None

    @staticmethod
    def fresh(processes: tuple[Process, ...], maps: Maps | None) -> State:
        nothing = np.zeros(1 + len(processes))
        wealth = tuple(np.full(process.bets, -np.inf) for process in processes)
        memory = tuple(process.fresh() for process in processes)
        return State(wealth, memory, nothing, nothing, np.empty((0, 2 + len(processes))), fresh_trail(), maps)

    def after(self, processes: tuple[Process, ...], rows: Rows, alpha: float) -> State:
        """The state after more rows."""
        maps = self.maps
        if maps is not None:
            rows, maps = maps.apply(rows)
        number = self.rows + 1 + rows.number
        wealth, memory, logs, trail = [], [], [], self.trail
        for process, money, known in zip(processes, self.wealth, self.memory, strict=True):
            ratios, known = process.play(rows, known)
            trail = longer_trail(trail, ratios) if isinstance(process, Map) else trail
            path = grow(money, ratios, self.rows)
            wealth.append(path[-1])
            memory.append(known)
            logs.append(np.logaddexp(mean_of_logs(path), log_unstarted(number)))
        values = np.stack(logs, axis=1)
        values = np.column_stack([mean_of_logs(values), values])
        alarms, never = values[:, 0] >= -np.log(alpha), rows.impossible
        history, stride = _thinned(np.concatenate([self.history, np.column_stack([number, values])]), self.stride)
        return replace(
            self,
            wealth=tuple(wealth),
            memory=tuple(memory),
            now=values[-1],
            largest=np.maximum(self.largest, values.max(axis=0)),
            history=history,
            trail=trail,
            maps=maps,
            rows=int(number[-1]),
            stride=stride,
            since=_first(alarms, self.since, self.rows),
            impossible=_first(never, self.impossible, self.rows),
        )

    @staticmethod
    def read(setup: Setup, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> State:
        """The state from the numbers and arrays of a file."""
        count = range(len(setup.processes))
        wealth, memory = (tuple(arrays[f"{name}.{i}"] for i in count) for name in ("wealth", "memory"))
        maps = Maps(**{f.name: arrays[f"maps.{f.name}"] for f in fields(Maps)}) if "maps.slopes" in arrays else None
        kept: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        kept |= {name: None if about[name] is None else int(about[name]) for name in _NUMBERS}
        kept["trail"] = arrays["trail"] if "trail" in arrays else fresh_trail(kept["rows"])
        kept["places"] = tuple(Place(int(start), str(n), int(first)) for start, n, first in about.get("places", ()))
        kept["since_time"] = None if about["since_time"] is None else str(about["since_time"])
        found = State(wealth, memory, maps=maps, **kept)
        last = found.rows - 1
        if not (0 <= found.new <= found.rows < _MOST_ROWS and found.stride >= 1):
            raise ValueError(f"{found.new} new rows of {found.rows}, stride {found.stride}")
        for name in ("since", "impossible"):
            if (row := getattr(found, name)) is not None and not 0 <= row <= last:
                raise ValueError(f"{name} is row {row} of {found.rows}")
        return found

    def check(self, path: str | os.PathLike[str], setup: Setup) -> None:
        """Raise where arrays have other shapes than the processes need, or values that no monitor writes."""
        shapes = {name: x.shape for name, x in State.fresh(setup.processes, None).arrays().items()}
        shapes |= {name: (-1, *shapes[name][1:]) for name in ("history", "trail")}
        if self.maps is not None:
            wide = (self.maps.slopes.size, -1)
            shapes |= {"maps.slopes": (-1,), "maps.shifts": wide, "maps.log_weights": self.maps.shifts.shape}
        found = self.arrays()
        for name, shape in shapes.items():
            check_array(path, "monitor", name, found[name], shape, logs=name.startswith(_LOGS))
        if any((known < 0).any() or (known > self.rows).any() for known in self.memory):
            raise damaged(path, "monitor", "memory", f"must count from 0 to {self.rows} rows")
        rows = self.history[:, 0]
        if not (np.diff(rows, prepend=0.0, append=self.rows + 1.0) > 0).all():
            raise damaged(path, "monitor", "history", f"must be of rows in order, up to {self.rows}")
        rows = self.trail[:, 0]
        if not ((np.diff(rows) > 0).all() and len(rows) and rows[0] >= 0 and rows[-1] == self.rows):
            raise damaged(path, "monitor", "trail", f"must be of rows in order, up to {self.rows}")
        if (self.largest < self.now).any():
            raise damaged(path, "monitor", "largest", "is below the e-values now")
        if self.maps is not None and not self.maps.allowed:
            raise damaged(path, "monitor", "maps", "holds maps that no reference gives")


def placed(places: tuple[Place, ...], start: int, name: str, first: int | None) -> tuple[Place, ...]:
    """The last names of rows, with one more unless the rows go on under the same name."""
    if places and places[-1].name == name and first in (None, start - places[-1].start + places[-1].first):
        return places
    return (*places, Place(start, name, first or 0))[-MOST_PLACES:]


def _first(found: Array, before: int | None, start: int) -> int | None:
    """The row at which something was first seen."""
    return start + int(np.argmax(found)) if before is None and found.any() else before


def _thinned(history: Array, stride: int) -> tuple[Array, int]:
    """The rows whose number is a multiple of the stride, doubled until they are few; whatever the batches were."""
    kept = history[history[:, 0] % stride == 0]
    while len(kept) > HISTORY:
        stride *= 2
        kept = kept[kept[:, 0] % stride == 0]
    return kept, stride
