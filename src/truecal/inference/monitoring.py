"""monitor: a calibration test for a stream of labelled predictions, valid however often one looks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..core.data import as_array, row_blocks, shown
from ..core.frames import matching_rows
from ..core.locks import Shared, one_at_a_time
from ..core.parameters import described
from ..core.result import Result, on_one_line, plain
from ..core.types import Array
from ..core.words import count_text
from ..io.state_files import read_state, reading_field, write_state
from ..kinds import KINDS
from ..kinds.inputs import Inputs, read_inputs
from .change import Change, Place, change_of, fresh_trail, longer_trail, place_text
from .eprocesses import FITTED, Map, Maps, Rows, fit_maps
from .monitor_state import EDGES, Setup, State, placed
from .omnibus import omnibus_test

if TYPE_CHECKING:
    from .repair import Repair

FEWEST_ROWS = 100
"""A reference of fewer rows could tell hardly any two maps apart."""
UNSURE = 0.01
_REFERENCE_BINS = 10
_TESTED = 20_000
_VERSION = 1


@final
@dataclass(frozen=True, repr=False, eq=False)
class Evidence(Result):
    """One e-process of a monitor: its e-value now and the largest so far. 1/largest is a p-value."""

    name: str
    evalue: float
    largest: float

    def __repr__(self) -> str:
        return f"{self.name}: e-value {self.evalue:.3g}, largest {self.largest:.3g}"


@final
@dataclass(frozen=True, repr=False, eq=False)
class MonitorUpdate(Result):
    """The state of a monitor: the e-value now, whether it has ever reached 1/alpha, and since when.

    An e-value measures the evidence against calibration: near 1 or below there is none, and calibrated predictions ever
    reach 1/alpha with chance at most alpha. An alarm stays.
    """

    evalue: float
    largest: float
    alarm: bool
    since: int | None
    """The row of the alarm, the first row being 0."""
    since_time: str | None
    """The `time` that was given with that row."""
    place: str | None
    """That row among those of its `time`: "row 166 of day2.csv"."""
    change: Change | None
    """After an alarm: from which row on the predictions are probably off."""
    direction: str
    """over-confident, under-confident, too high or too low, where that direction alone is clear at level alpha."""
    processes: tuple[Evidence, ...]
    n_samples: int
    new: int
    """How many rows the last update brought."""
    alpha: float
    impossible: int | None
    """The first row whose label had been given probability 0: infinite evidence."""
    against: str
    """What an alarm speaks against: a calibrated model, or one that stays as its reference."""
    notes: tuple[str, ...]

    @property
    def pvalue(self) -> float:
        """A p-value that is valid at every time, 1 over the largest e-value so far."""
        return float(min(1.0, 1 / self.largest))

    @property
    def strongest(self) -> str:
        """The process that has grown most."""
        return max(self.processes, key=lambda process: process.largest).name

    @property
    def sentence(self) -> str:
        """Whether there is an alarm, where, since when the predictions are off, and how often that is chance."""
        if self.change is None:
            return f"no alarm after {self.n_samples} rows"
        return (
            f"Alarm at {self.place}: {self._what}; {self.change.text}; "
            f"{self.against} alarms in at most {100 * self.alpha:.4g}% of all streams"
        )

    def explain(self) -> str:
        """The result in three sentences, for people who do not read tables.

        >>> import truecal as tc
        >>> print(tc.monitor().update([0, 1] * 200, [.01, .4] * 200).explain())
        The probabilities are no longer right: they are too low.
        Predictions are probably off from the first rows on (90% interval: row 0 to row 1).
        This is more than chance: a calibrated model alarms in at most 5% of all streams. Recalibrate it before anyone \
relies on its probabilities, and find what has changed.
        """
        rare = f"{self.against} alarms in at most {100 * self.alpha:.4g}% of all streams"
        if self.change is None:
            return (
                f"{count_text(self.n_samples)} rows show no more than chance.\nThe probabilities can be used as they "
                f"are.\nIf an alarm comes, it is more than chance: {rare}."
            )
        what = f"they are {self.direction}" if self._what == self.direction else f"what is off most: {self.strongest}"
        return (
            f"The probabilities are no longer right: {what}.\n{self.change.text[:1].upper()}{self.change.text[1:]}.\n"
            f"This is more than chance: {rare}. "
            "Recalibrate it before anyone relies on its probabilities, and find what has changed."
        )

    def __repr__(self) -> str:
        lines = [f"Monitor, {self.n_samples} rows: {self.sentence if self.alarm else 'no alarm'}"]
        lines.append(f"  e-value {self.evalue:.3g}, largest {self.largest:.3g}; alarm at {1 / self.alpha:.4g}")
        lines += [f"  {process!r}" for process in self.processes]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    @property
    def _what(self) -> str:
        return self.strongest if self.direction == "no clear direction" else self.direction


@final
@dataclass(frozen=True, eq=False)
class History:
    """The logarithms of e-values over the rows, as `plots.evidence` draws them; the last point is now."""

    rows: Array
    log_evalues: Array
    log_processes: Mapping[str, Array]
    places: tuple[Place, ...] = ()
    """Where the rows of each `time`, such as a file, begin."""


@described("A Monitor.")
def monitor(*, reference: Any = None, alpha: float = 0.05, labels: Any = None, pos_label: Any = 1) -> Monitor:
    """A test of calibration for a stream of labelled predictions that is valid at every time.

    `update(y_true, y_proba)` takes rows in the order in which their labels become known, any number at a time, and
    returns whether there is an alarm. If labels follow the predictions, the chance of an alarm is at most `alpha` over
    the whole stream, however often one looks (Ville's inequality; see
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
class Monitor(Shared):
    """A stream of rows and the evidence against calibration; made by `truecal.monitor`.

    Threads may share a monitor: rows are counted one batch at a time.
    """

    def __init__(self, alpha: float, labels: Any, pos_label: Any) -> None:
        super().__init__()
        self.alpha, self._labels, self._pos_label = alpha, labels, pos_label
        self._setup: Setup | None = None
        self._state: State | None = None
        self._notes: tuple[str, ...] = ()
        self.files: dict[str, tuple[int, str]] = {}
        """Of each prediction file that the command line has counted, how many rows, and their digest."""
        self.columns: tuple[str, ...] | None = None
        """The classes of the columns of those files, where they have names."""

    @matching_rows
    def update(self, y_true: Any, y_proba: Any, *, time: Any = None, sample_weight: None = None) -> MonitorUpdate:
        """Count more rows, in the order in which their labels became known.

        Predictions are (n, k) distributions, (n,) probabilities of the positive class, or TopPredictions with y_true
        None, and of the same kind every time. `time` is a label or a number for these rows; an alarm reports it. Rows
        that raise an error change nothing.
        """
        if sample_weight is not None:
            raise ValueError(
                "sample_weight cannot be used: e-values of weighted rows have no guarantee; "
                "drop rows that should not count"
            )
        return self.count([self.read(y_true, y_proba)], time)

    @one_at_a_time
    def count(self, batches: Iterable[Inputs], time: Any = None, first: int | None = None) -> MonitorUpdate:
        """`update` of predictions that have been read, one batch after the other; `first` says how many
        rows of that time came before these, by default those of the update before."""
        setup, state = self._setup, self._state
        start = 0 if state is None else state.rows
        for inputs in batches:
            setup = self._fits(inputs, setup)
            state = state or State.fresh(setup.processes, None)
            for part in row_blocks(inputs.n_samples, 8 * (setup.n_classes + 400)):
                state = state.after(setup.processes, setup.rows(inputs.take(part)), self.alpha)
        if state is not None:
            if time is not None:
                state = replace(state, places=placed(state.places, start, on_one_line(time), first))
                if state.since is not None and state.since >= start:
                    state = replace(state, since_time=on_one_line(time))
            if (name := state.unsound()) is not None:
                raise ValueError(
                    f"the monitor's {name} would not be a finite number after these rows; they were not counted"
                )
            self._setup, self._state = setup, replace(state, new=state.rows - start)
        return self.result()

    @one_at_a_time
    def result(self) -> MonitorUpdate:
        """The state of the monitor."""
        state, setup = self._started()
        with np.errstate(over="ignore"):  # beyond the range an e-value is infinite
            now, largest = np.exp(state.now).tolist(), np.exp(state.largest).tolist()
        named = zip(setup.processes, now[1:], largest[1:], strict=True)
        processes = tuple(Evidence(process.name, e, most) for process, e, most in named)
        notes = self._notes
        if (row := state.impossible) is not None:
            what = f"the label of row {row} had been given probability 0"
            notes += (f"{what}: infinite evidence, whatever the other rows are",)
        return MonitorUpdate(
            evalue=now[0],
            largest=largest[0],
            alarm=state.since is not None,
            since=state.since,
            since_time=state.since_time,
            place=None if state.since is None else place_text(state.places, state.since),
            change=None if state.since is None or len(state.trail) < 2 else change_of(state.trail, state.places),
            direction=self._direction(state, setup),
            processes=processes,
            n_samples=state.rows,
            new=state.new,
            alpha=self.alpha,
            impossible=state.impossible,
            against="a calibrated model" if state.maps is None else "a model that stays as its reference",
            notes=notes,
        )

    def advise(self, y_true: Any, y_proba: Any) -> Repair:
        """Advise a repair of recent predictions: an offset, a temperature, both, or a refit.

        Rows before the estimated change are left out, so all recent rows may be given; at least a hundred must remain.
        Nested maps are fitted in five folds and compared by the log loss of rows that a fold has not seen; the result
        has the gap that each leaves. `result.map.save("map.json")` writes the map and `truecal.load_map` reads it.
        """
        return self.repair(self.read(y_true, y_proba))

    def repair(self, inputs: Inputs) -> Repair:
        """`advise` of predictions that have been read."""
        from .repair import latest, repair_of

        inputs = latest(inputs)
        setup, state = self._fits(inputs, self._setup), self._state
        parts = list(row_blocks(inputs.n_samples, 8 * (setup.n_classes + 400)))
        trail = fresh_trail()
        for part in parts:
            rows = setup.rows(inputs.take(part))
            if state is not None and state.maps is not None:
                rows = replace(rows, proba=state.maps.typical(rows))
            trail = longer_trail(trail, Map().play(rows, np.zeros(0))[0])
        change = change_of(trail)
        return repair_of(inputs, change.row if change.told and change.low > 0 else 0)

    @property
    def history(self) -> History:
        """The e-values over the rows, thinned out to at most a thousand points or so."""
        state, setup = self._started()
        last = np.concatenate([[state.rows], state.now])
        points = state.history
        if not len(points) or points[-1, 0] != state.rows:
            points = np.concatenate([points, last[None]])
        named = {process.name: points[:, 2 + i] for i, process in enumerate(setup.processes)}
        return History(points[:, 0].astype(np.int64), points[:, 1], named, state.places)

    def __repr__(self) -> str:
        if self._state is None or not self._state.rows:
            return f"Monitor: no rows yet; alarm at an e-value of {1 / self.alpha:.4g}"
        return repr(self.result())

    # -- reading -------------------------------------------------------------------------------------------------------

    @matching_rows
    def read(self, y_true: Any, y_proba: Any) -> Inputs:
        """Validated predictions, as `count` takes them."""
        return read_inputs(y_true, y_proba, labels=self._labels, pos_label=self._pos_label)

    def _fits(self, inputs: Inputs, before: Setup | None) -> Setup:
        """The setup of these predictions, which are to be of the kind of those before."""
        inputs.check_one_label("a monitor")
        classes = inputs.n_classes or 2
        if before is None:
            return Setup(inputs.kind.name, classes, EDGES)
        if (inputs.kind.name, classes) != (before.kind, before.n_classes):
            expected = _kind_text(before.kind, before.n_classes)
            raise ValueError(f"expected {expected} as before, got {_kind_text(inputs.kind.name, classes)}")
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
            raise ValueError(f"reference has probability 0 for the label of row {row}: no map can correct that")
        inner = np.quantile(rows.level, np.arange(1, _REFERENCE_BINS) / _REFERENCE_BINS, method="lower")
        inner = inner[(inner > 0) & (inner < 1)]
        setup = replace(setup, edges=(0.0, *np.unique(inner).tolist(), 1.0))
        maps = fit_maps(rows)
        self._notes = _reference_notes(inputs, rows, maps)
        self._setup, self._state = setup, State.fresh(setup.processes, maps)

    def _direction(self, state: State, setup: Setup) -> str:
        """The one-sided process that has itself reached an alarm, at alpha shared by all of them."""
        sides = [(state.largest[1 + i], p.name) for i, p in enumerate(setup.processes) if p.one_sided]
        most, name = max(sides)
        clear = state.since is not None and most >= np.log(len(sides) / self.alpha)
        return name if clear else "no clear direction"

    def _started(self) -> tuple[State, Setup]:
        if self._state is None or self._setup is None or not self._state.rows:
            raise ValueError("the monitor has no rows yet; call update(y_true, y_proba) first")
        return self._state, self._setup

    # -- saving --------------------------------------------------------------------------------------------------------

    @one_at_a_time
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the monitor to one file, whole or not at all."""
        for label in [*(self._labels or ()), self._pos_label]:
            if not isinstance(plain(label), (str, int, float)):
                raise TypeError(f"labels must be text, numbers or booleans to be saved, got {shown(label)}")
        about: dict[str, Any] = {"alpha": self.alpha, "labels": self._labels, "pos_label": plain(self._pos_label)}
        about |= {"notes": self._notes, "files": self.files, "columns": self.columns, "setup": None}
        arrays: dict[str, Array] = {}
        if self._setup is not None and self._state is not None:
            state = self._state
            about["setup"] = [self._setup.kind, self._setup.n_classes, self._setup.edges]
            about["state"], arrays = state.numbers(), state.arrays()
        write_state(path, "monitor", _VERSION, about, arrays)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Monitor:
        """A monitor as `save` wrote it; it continues where it stopped."""
        about, arrays = read_state(path, "monitor", _VERSION)

        def field(name: str, make: Callable[[Any], Any]) -> Any:
            with reading_field(path, "monitor", name):
                return make(about[name])

        names, pos_label = field("labels", lambda x: x), field("pos_label", lambda x: x)
        made = field("alpha", lambda x: monitor(alpha=x, pos_label=pos_label))
        made._labels = field("labels", lambda _: monitor(labels=names)._labels)
        made._notes = field("notes", lambda x: tuple(str(note) for note in x))
        made.files = field("files", lambda x: {str(name): (int(n), str(digest)) for name, (n, digest) in x.items()})
        made.columns = field("columns", lambda x: None if x is None else tuple(str(name) for name in x))
        made._setup = field("setup", lambda x: None if x is None else Setup.read(*x))
        if made._setup is not None:
            made._state = field("state", lambda x: State.read(made._setup, x, arrays))
            made._state.check(path, made._setup)
        return made  # type: ignore[no-any-return]  # made by `monitor`


# -- words -------------------------------------------------------------------------------------------------------------


def _kind_text(kind: str, classes: int) -> str:
    return f"{kind} predictions" + (f" of {classes} classes" if KINDS[kind].over_classes else "")


def _reference_notes(inputs: Inputs, rows: Rows, maps: Maps) -> tuple[str, ...]:
    """The miscalibration of the reference, and warnings where temperature and shift do not describe it."""
    best = np.unravel_index(int(np.argmax(maps.log_weights)), maps.log_weights.shape)
    usual = f"temperature {1 / maps.slopes[best[0]]:.3g} and shift {maps.shifts[best]:+.2g}"
    notes = [f"the usual miscalibration, from {inputs.n_samples} reference rows: {usual}"]
    sizes = np.abs([np.log(maps.slopes[best[0]]), maps.shifts[best]])
    if (sizes > np.array(FITTED) - 1e-6).any():
        notes.append(
            "the reference is more miscalibrated than the monitor can represent: it may raise an alarm without a change"
        )
    some = slice(0, _TESTED)
    proba = maps.typical(rows.take(some))
    mapped = replace(inputs, y=inputs.y[some], reports=proba if inputs.kind.over_classes else proba[:, 1])
    test = omnibus_test(mapped.sample(mapped.kind.segment_errors[-1]), 199, 0)
    if test.pvalue <= UNSURE:
        notes.append(
            "the reference is miscalibrated in a way that temperature and shift do not describe "
            f"({test.strongest}, {test.pvalue_text}): "
            "the monitor may raise an alarm without a change"
        )
    return tuple(notes)
