"""monitor: is a deployed model still calibrated? Looked at as often as one likes, with false alarms at most alpha."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, final

import numpy as np

from ..backends.numpy import top_class
from ..core.data import as_array, both_classes, row_blocks, shown
from ..core.result import Result, plain
from ..core.types import Array
from ..evaluation.inputs import PROPERTIES, Inputs, Kind, read_inputs
from ..io.failures import failure, parsing
from ..io.state import read_state, write_state
from .eprocesses import (
    BinRates,
    ClassRates,
    Map,
    OneSided,
    Process,
    Rows,
    grow,
    log_unstarted,
    mean_of_logs,
)
from .reference_maps import Maps, fit_maps

EDGES = (0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""Bins of probability where no reference gives others: equal widths, and finer where predictions are sure."""
MOST_CLASSES = 100
"""Of more classes the rates are not learnt: each costs evidence, and their sum would bury what there is."""
FEWEST_ROWS = 100
"""A reference of fewer rows could tell hardly any two maps apart."""
HISTORY = 1000
"""At least half as many points are kept for the plot, evenly spread over the rows, and never twice as many."""
UNSURE = 0.01
_REFERENCE_BINS = 10
_TESTED = 20_000
_VERSION = 1
_LABELS = "one label per row: a distribution over labels never comes"


@final
@dataclass(frozen=True, repr=False, eq=False)
class Evidence(Result):
    """One e-process of a monitor: its e-value now and the largest so far. 1/largest is a p-value of its own."""

    name: str
    evalue: float
    largest: float

    def __repr__(self) -> str:
        return f"{self.name}: e-value {self.evalue:.3g}, largest {self.largest:.3g}"


@final
@dataclass(frozen=True, repr=False, eq=False)
class MonitorUpdate(Result):
    """Where a monitor stands: the e-value now, whether it has ever reached 1/alpha, and since when.

    An e-value is the factor by which a bet against calibration has multiplied its stake: near 1 or below nothing has
    been seen, and calibrated predictions reach 1/alpha with chance at most alpha, ever. An alarm stays.
    """

    evalue: float
    largest: float
    alarm: bool
    since: int | None
    """The row of the alarm, the first row being 0."""
    since_time: str | None
    """The `time` that was given with that row."""
    direction: str
    """over-confident, under-confident, too high or too low, where the alarm has one at level alpha of its own."""
    processes: tuple[Evidence, ...]
    n_samples: int
    new: int
    """How many rows the last update brought."""
    alpha: float
    impossible: int | None
    """The first row whose label had been given probability 0: infinite evidence."""
    notes: tuple[str, ...]

    @property
    def pvalue(self) -> float:
        """A p-value that is valid at every time, 1 over the largest e-value so far."""
        return float(min(1.0, 1 / self.largest))

    @property
    def spoke(self) -> str:
        """The process that has grown most."""
        return max(self.processes, key=lambda process: process.largest).name

    def __repr__(self) -> str:
        when = "" if self.since_time is None else f" ({self.since_time})"
        word = f"ALARM since row {self.since}{when}: {self._what}" if self.alarm else "no alarm"
        lines = [f"Monitor, {self.n_samples} rows: {word}"]
        lines.append(f"  e-value {self.evalue:.3g}, largest {self.largest:.3g}; alarm at {1 / self.alpha:.4g}")
        lines += [f"  {process!r}" for process in self.processes]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    @property
    def _what(self) -> str:
        return self.spoke if self.direction == "no clear direction" else self.direction


@final
@dataclass(frozen=True, eq=False)
class History:
    """The logarithms of e-values over the rows, as `plots.evidence` draws them; the last point is now."""

    rows: Array
    log_evalues: Array
    log_processes: Mapping[str, Array]


@dataclass(frozen=True, eq=False)
class _Setup:
    """What is fixed with the first predictions."""

    kind: Kind
    n_classes: int
    edges: tuple[float, ...]

    @property
    def processes(self) -> tuple[Process, ...]:
        both: list[Process] = [OneSided("over-confident", -1), OneSided("under-confident", 1)]
        if self.kind == "binary":
            both += [OneSided("too high", -1, "anchor"), OneSided("too low", 1, "anchor")]
        both += [Map(), BinRates(self.edges)]
        if self.kind == "multiclass" and self.n_classes <= MOST_CLASSES:
            both.append(ClassRates(self.n_classes))
        return tuple(both)

    def rows(self, inputs: Inputs) -> Rows:
        """Rows whose predictions sum to 1 exactly, as a martingale needs it."""
        given = inputs.reports if self.kind == "multiclass" else both_classes(inputs.reports.astype(np.float64))
        one = np.ones(len(given), dtype=np.intp)
        top = one if self.kind == "top_label" else top_class(given).astype(np.intp)
        anchor = top if self.kind == "multiclass" else one
        proba = np.clip(given.astype(np.float64), 0.0, None)
        proba /= proba.sum(axis=1, keepdims=True)
        y = inputs.y.astype(np.intp)
        return Rows(y, proba, top, anchor, proba[np.arange(len(y)), anchor])


@dataclass(frozen=True, eq=False)
class _State:
    """All that the rows so far have left behind."""

    wealth: tuple[Array, ...]
    memory: tuple[Array, ...]
    now: Array
    """log e-values: of the monitor, then of each process."""
    largest: Array
    history: Array
    maps: Maps | None
    rows: int = 0
    new: int = 0
    stride: int = 1
    since: int | None = None
    since_time: str | None = None
    impossible: int | None = None

    @staticmethod
    def fresh(processes: tuple[Process, ...], maps: Maps | None) -> _State:
        nothing = np.zeros(1 + len(processes))
        wealth = tuple(np.full(process.bets, -np.inf) for process in processes)
        memory = tuple(process.fresh() for process in processes)
        return _State(wealth, memory, nothing, nothing, np.empty((0, 2 + len(processes))), maps)


def monitor(*, reference: Any = None, alpha: float = 0.05, labels: Any = None, pos_label: Any = 1) -> Monitor:
    """A test of calibration for a stream of predictions whose labels become known, at every time and for ever.

    `update(y_true, y_proba)` takes rows in the order in which their labels come, any number at a time, and says
    whether there is an alarm. If labels are drawn from the predictions, given all that came before, an alarm comes with
    chance at most `alpha` over the whole stream, however often one looks (Ville's inequality; see
    truecal.inference.eprocesses). Processes look at over- and under-confidence, temperature and shift, bins of
    probability and class rates, and at changes that come late; the alarm is raised by the mean of their e-values.

    `reference` is a pair (y_true, y_proba) from the time when the model was accepted, miscalibrated or not: the
    question is then whether labels still follow the temperature and the shift that the reference shows. The level then
    holds on average over the maps that the reference leaves open, if the model was off in temperature and shift only.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> monitor = tc.monitor(alpha=.05)
    >>> p = rng.random(1000)
    >>> monitor.update(rng.random(1000) < p, p).alarm
    False
    >>> p = rng.random(500)                                   # from now on things happen less often than predicted
    >>> found = monitor.update(rng.random(500) < .8 * p, p, time="Tuesday")
    >>> found.alarm, found.since_time, found.direction
    (True, 'Tuesday', 'too high')
    """
    if isinstance(alpha, bool) or not isinstance(alpha, (int, float, np.floating)) or not 0 < alpha < 1:
        raise ValueError(f"alpha must lie strictly between 0 and 1, for example 0.05, got {shown(alpha)}")
    names = None if labels is None else np.asarray(as_array(labels, "labels")).tolist()
    made = Monitor(float(alpha), names, pos_label)
    if reference is not None:
        made._refer(reference)
    return made


@final
class Monitor:
    """Rows counted one after the other, and the evidence against calibration; made by `truecal.monitor`."""

    def __init__(self, alpha: float, labels: Any, pos_label: Any) -> None:
        self.alpha, self._labels, self._pos_label = alpha, labels, pos_label
        self._setup: _Setup | None = None
        self._state: _State | None = None
        self._notes: tuple[str, ...] = ()
        self.files: dict[str, tuple[int, str]] = {}
        """Of each prediction file that the command line has counted, how many rows, and their digest."""
        self.columns: tuple[str, ...] | None = None
        """The classes of the columns of those files, where they have names."""

    def update(self, y_true: Any, y_proba: Any, *, time: Any = None, sample_weight: None = None) -> MonitorUpdate:
        """Count more rows, in the order in which their labels became known.

        Predictions are (n, k) distributions, (n,) probabilities of the positive class, or TopPredictions with y_true
        None, and of the same kind every time. `time` says in a word or a number when these rows came; an alarm is told
        by it. Rows that are refused leave everything as it was.
        """
        if sample_weight is not None:
            raise ValueError(
                "sample_weight cannot apply: a weighted likelihood is no bet whose fair price is known; "
                "leave out rows that do not count"
            )
        return self.count([self.read(y_true, y_proba)], time)

    def count(self, batches: Iterable[Inputs], time: Any = None) -> MonitorUpdate:
        """`update` of predictions that have been read, one batch after the other."""
        setup, state = self._setup, self._state
        start = 0 if state is None else state.rows
        for inputs in batches:
            setup = self._fits(inputs, setup)
            state = state or _State.fresh(setup.processes, None)
            for part in row_blocks(inputs.n_samples, 8 * (setup.n_classes + 400)):
                state = _after(state, setup.processes, setup.rows(inputs.take(part)), self.alpha)
        if state is not None:
            if time is not None and state.since is not None and state.since >= start:
                state = replace(state, since_time=str(time))
            self._setup, self._state = setup, replace(state, new=state.rows - start)
        return self.result()

    def result(self) -> MonitorUpdate:
        """Where the monitor stands."""
        state, setup = self._started()
        with np.errstate(over="ignore"):  # beyond the range an e-value is infinite
            now, largest = np.exp(state.now).tolist(), np.exp(state.largest).tolist()
        named = zip(setup.processes, now[1:], largest[1:], strict=True)
        processes = tuple(Evidence(process.name, e, most) for process, e, most in named)
        return MonitorUpdate(
            evalue=now[0],
            largest=largest[0],
            alarm=state.since is not None,
            since=state.since,
            since_time=state.since_time,
            direction=self._direction(state, setup),
            processes=processes,
            n_samples=state.rows,
            new=state.new,
            alpha=self.alpha,
            impossible=state.impossible,
            notes=self._notes + _impossible_note(state.impossible),
        )

    @property
    def history(self) -> History:
        """The e-values over the rows, thinned out to at most a thousand points or so."""
        state, setup = self._started()
        last = np.concatenate([[state.rows], state.now])
        points = state.history
        if not len(points) or points[-1, 0] != state.rows:
            points = np.concatenate([points, last[None]])
        named = {process.name: points[:, 2 + i] for i, process in enumerate(setup.processes)}
        return History(points[:, 0].astype(np.int64), points[:, 1], named)

    def __repr__(self) -> str:
        if self._state is None or not self._state.rows:
            return f"Monitor: no rows yet; alarm at an e-value of {1 / self.alpha:.4g}"
        return repr(self.result())

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, y_true: Any, y_proba: Any) -> Inputs:
        """Validated predictions, as `count` takes them."""
        return read_inputs(y_true, y_proba, labels=self._labels, pos_label=self._pos_label)

    def _fits(self, inputs: Inputs, before: _Setup | None) -> _Setup:
        """The setup of these predictions, which are to be of the kind of those before."""
        if inputs.soft:
            raise ValueError(f"y_true has a column per class; a monitor needs {_LABELS}")
        classes = inputs.n_classes or 2
        if before is None:
            return _Setup(inputs.kind, classes, EDGES)
        if (inputs.kind, classes) != (before.kind, before.n_classes):
            expected = _kind_text(before.kind, before.n_classes)
            raise ValueError(f"expected {expected} as before, got {_kind_text(inputs.kind, classes)}")
        return before

    def _refer(self, reference: Any) -> None:
        """Bins and maps from a reference sample."""
        if not isinstance(reference, (tuple, list)) or len(reference) != 2:
            raise TypeError(
                f"reference must be a pair (y_true, y_proba), since rows are needed, got {shown(reference)}"
            )
        try:
            inputs = self.read(*reference)
        except (ValueError, TypeError) as error:
            raise type(error)(f"reference: {error}") from error
        if inputs.n_samples < FEWEST_ROWS:
            raise ValueError(f"reference must have at least {FEWEST_ROWS} rows, got {inputs.n_samples}")
        setup = self._fits(inputs, None)
        rows = setup.rows(inputs)
        if rows.impossible.any():
            row = int(np.argmax(rows.impossible))
            raise ValueError(f"reference has probability 0 for the label of row {row}: no map can mend that")
        inner = np.quantile(rows.level, np.arange(1, _REFERENCE_BINS) / _REFERENCE_BINS, method="lower")
        inner = inner[(inner > 0) & (inner < 1)]
        setup = replace(setup, edges=(0.0, *np.unique(inner).tolist(), 1.0))
        maps = fit_maps(rows)
        self._notes = _reference_notes(inputs, rows, maps)
        self._setup, self._state = setup, _State.fresh(setup.processes, maps)

    def _direction(self, state: _State, setup: _Setup) -> str:
        """The one-sided process that has itself reached an alarm, at alpha shared by all of them."""
        sides = [(state.largest[1 + i], p.name) for i, p in enumerate(setup.processes) if p.one_sided]
        most, name = max(sides)
        clear = state.since is not None and most >= np.log(len(sides) / self.alpha)
        return name if clear else "no clear direction"

    def _started(self) -> tuple[_State, _Setup]:
        if self._state is None or self._setup is None or not self._state.rows:
            raise ValueError("the monitor has no rows yet; call update(y_true, y_proba) first")
        return self._state, self._setup

    # -- saving --------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything the monitor knows to one file, which appears whole or not at all."""
        about: dict[str, Any] = {"alpha": self.alpha, "labels": self._labels, "pos_label": plain(self._pos_label)}
        about |= {"notes": self._notes, "files": self.files, "columns": self.columns, "setup": None}
        arrays: dict[str, Array] = {}
        if self._setup is not None and self._state is not None:
            state = self._state
            about["setup"] = [self._setup.kind, self._setup.n_classes, self._setup.edges]
            about["state"] = {name: getattr(state, name) for name in (*_NUMBERS, "since_time")}
            arrays = {name: getattr(state, name) for name in _ARRAYS}
            for name in ("wealth", "memory"):
                arrays |= {f"{name}.{i}": x for i, x in enumerate(getattr(state, name))}
            if state.maps is not None:
                arrays |= {f"maps.{f.name}": getattr(state.maps, f.name) for f in fields(Maps)}
        write_state(path, "monitor", _VERSION, about, arrays)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Monitor:
        """A monitor as `save` wrote it; it goes on as if it had never been away."""
        about, arrays = read_state(path, "monitor", _VERSION)
        with parsing(path, "the state of a monitor"):
            made = monitor(alpha=about["alpha"], labels=about["labels"], pos_label=about["pos_label"])
            made._notes = tuple(str(note) for note in about["notes"])
            made.files = {str(name): (int(rows), str(digest)) for name, (rows, digest) in about["files"].items()}
            made.columns = None if about["columns"] is None else tuple(str(name) for name in about["columns"])
            if about["setup"] is not None:
                kind, classes, edges = about["setup"]
                made._setup = _Setup(kind, int(classes), tuple(float(edge) for edge in edges))
                made._state = _restored(made._setup, about["state"], arrays)
        if made._state is not None and not _is_whole(made._state, made._setup):
            raise failure(path, "expected arrays of one shape in the state of a monitor, it is damaged")
        return made


_NUMBERS = ("rows", "new", "stride", "since", "impossible")
_ARRAYS = ("now", "largest", "history")


def _restored(setup: _Setup, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> _State:
    count = range(len(setup.processes))
    wealth, memory = (tuple(arrays[f"{name}.{i}"] for i in count) for name in ("wealth", "memory"))
    maps = Maps(**{f.name: arrays[f"maps.{f.name}"] for f in fields(Maps)}) if "maps.slopes" in arrays else None
    kept: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
    kept |= {name: None if about[name] is None else int(about[name]) for name in _NUMBERS}
    kept["since_time"] = None if about["since_time"] is None else str(about["since_time"])
    return _State(wealth, memory, maps=maps, **kept)


def _is_whole(state: _State, setup: _Setup | None) -> bool:
    """Whether all arrays have the shapes that the processes ask for."""
    assert setup is not None
    new = _State.fresh(setup.processes, state.maps)
    pairs = [(state.now, new.now), (state.largest, new.largest), (state.history[:0], new.history)]
    pairs += [*zip(state.wealth, new.wealth, strict=True), *zip(state.memory, new.memory, strict=True)]
    maps = state.maps
    fitting = maps is None or maps.shifts.shape == maps.log_weights.shape == (len(maps.slopes), maps.shifts.shape[1])
    counting = state.rows >= 0 and state.stride >= 1 and setup.kind in PROPERTIES
    return counting and fitting and all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs)


# -- counting ----------------------------------------------------------------------------------------------------------


def _after(state: _State, processes: tuple[Process, ...], rows: Rows, alpha: float) -> _State:
    """The state after more rows."""
    maps = state.maps
    if maps is not None:
        rows, maps = maps.apply(rows)
    number = state.rows + 1 + rows.number
    wealth, memory, logs = [], [], []
    for process, money, known in zip(processes, state.wealth, state.memory, strict=True):
        ratios, known = process.play(rows, known)
        path = grow(money, ratios, state.rows)
        wealth.append(path[-1])
        memory.append(known)
        logs.append(np.logaddexp(mean_of_logs(path), log_unstarted(number)))
    values = np.stack(logs, axis=1)
    values = np.column_stack([mean_of_logs(values), values])
    alarms, never = values[:, 0] >= -np.log(alpha), rows.impossible
    history, stride = _thinned(np.concatenate([state.history, np.column_stack([number, values])]), state.stride)
    return replace(
        state,
        wealth=tuple(wealth),
        memory=tuple(memory),
        now=values[-1],
        largest=np.maximum(state.largest, values.max(axis=0)),
        history=history,
        maps=maps,
        rows=int(number[-1]),
        stride=stride,
        since=_first(alarms, state.since, state.rows),
        impossible=_first(never, state.impossible, state.rows),
    )


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


# -- words -------------------------------------------------------------------------------------------------------------


def _kind_text(kind: Kind, classes: int) -> str:
    return f"multiclass predictions of {classes} classes" if kind == "multiclass" else f"{kind} predictions"


def _impossible_note(row: int | None) -> tuple[str, ...]:
    if row is None:
        return ()
    return (f"the label of row {row} had been given probability 0: infinite evidence, whatever else came",)


def _reference_notes(inputs: Inputs, rows: Rows, maps: Maps) -> tuple[str, ...]:
    """What the reference is taken to show, and whether a temperature and a shift can show it."""
    from .calibration import omnibus_test

    best = np.unravel_index(int(np.argmax(maps.log_weights)), maps.log_weights.shape)
    usual = f"temperature {1 / maps.slopes[best[0]]:.3g} and shift {maps.shifts[best]:+.2g}"
    notes = [f"usual is what {inputs.n_samples} rows of reference show: {usual}"]
    some = slice(0, _TESTED)
    proba = maps.typical(rows.take(some))
    mapped = replace(inputs, y=inputs.y[some], reports=proba if inputs.kind == "multiclass" else proba[:, 1])
    test = omnibus_test(mapped.sample("classwise" if inputs.kind == "multiclass" else inputs.kind), 199, 0)
    if test.pvalue <= UNSURE:
        notes.append(
            f"the reference is off in another way than temperature and shift ({test.spoke}, {test.pvalue_text}): "
            "an alarm may come without a change"
        )
    return tuple(notes)
