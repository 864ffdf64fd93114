"""Call any metric in one way: labels and chances in, one number out, lower is better."""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from truecal.core.data import shown
from truecal.core.extras import require

from .worlds import Matrix, as_floats, drawn

Convention = Literal["y_true_first", "preds_first"]
ArrayKind = Literal["auto", "numpy", "torch"]
BinaryForm = Literal["auto", "matrix", "column"]
InputKind = Literal["probabilities", "logits"]
OutcomeKind = Literal["classes", "ordered", "labels", "numbers"]
"""What the classes of a world are: classes, classes in their order, sets of labels, or numbers by thresholds 0, 1, …"""
Labels = NDArray[np.int64]
ROWS = 60
"""Rows of the sample on which a metric's noise is measured."""
ALIKE = 1e-6
"""Values closer than this, relative to their size, differ by rounding: it counts as the metric's noise."""
_TIMED = 200  # calls whose median time sets the pace

PROBES = (7, 61)
"""Rows of the samples with which a metric's form is found: few, and more for metrics that need them. As primes they fit
no number of columns, so that a metric of one column refuses two."""


@final
@dataclass(frozen=True)
class CallForm:
    """How a metric wants its arguments."""

    convention: Convention = "y_true_first"
    array: ArrayKind = "numpy"
    binary: BinaryForm = "matrix"
    input: InputKind = "probabilities"
    higher_is_better: bool = False
    outcomes: OutcomeKind = "classes"

    def predictions(self, rows: Matrix) -> Any:
        """A matrix of Fractions as floats in the metric's form."""
        values = as_floats(rows)
        if self.outcomes == "labels":
            values = values @ label_sets(rows.shape[1])
            return np.ascontiguousarray(np.log(values / (1 - values)) if self.input == "logits" else values)
        if self.outcomes == "numbers":
            return np.ascontiguousarray(np.cumsum(values, axis=1)[:, :-1])
        if self.input == "logits":
            with np.errstate(divide="ignore"):
                values = np.log(values)
            column = values[:, 1] - values[:, 0]
        else:
            column = values[:, 1]
        return np.ascontiguousarray(column if self.binary == "column" and rows.shape[1] == 2 else values)

    def labels(self, y: Labels, given: Any) -> Any:
        """Outcomes as the metric takes them: labels, tables of labels, or numbers."""
        if self.outcomes == "labels":
            return label_sets(2 ** given.shape[-1])[y]
        return y.astype(np.float64) if self.outcomes == "numbers" else y.copy()

    def arguments(self, y: Labels, given: Any) -> tuple[Any, Any]:
        """Labels and predictions as the metric's first two arguments, as fresh copies."""
        pair = (self.labels(y, given), given.copy())
        if self.array == "torch":
            torch = require("torch", "torch")
            pair = (torch.from_numpy(pair[0]), torch.from_numpy(pair[1]))
        return pair if self.convention == "y_true_first" else (pair[1], pair[0])


def label_sets(classes: int) -> NDArray[np.int64]:
    """(2^L, L): which of L labels are in each set of them."""
    labels = max(1, classes.bit_length() - 1)
    return np.asarray((np.arange(2**labels)[:, None] >> np.arange(labels)[::-1]) & 1, dtype=np.int64)


class OutOfTimeError(Exception):
    """The time limit has passed: the metric is not called any more."""


class ExitedError(RuntimeError):
    """The metric called sys.exit."""


@final
class Metric:
    """A callable with the form of its arguments, its noise, and the values that are known."""

    def __init__(self, call: Callable[[Any, Any], Any], form: CallForm, meter: Meter) -> None:
        self.call, self.form, self.meter = call, form, meter
        self.noise = 0.0
        """How far apart values have been seen that should be equal: of two equal calls, or of rows in other orders."""
        self.refusal: str | None = None
        """What the metric said when it first refused."""
        self.exited = ""
        """How it called sys.exit, if it did."""
        self.known: dict[Any, NDArray[Any]] = {}
        """Values by predictions and outcomes."""

    def __call__(self, y: Labels, rows: Matrix) -> Any:
        """The value, lower is better; NaN where the metric raises or has none."""
        value = self.attempt(y, self.form.predictions(rows))
        if isinstance(value, Exception):
            self.refusal = self.refusal or said(value)
            if isinstance(value, ExitedError):
                self.exited = str(value)
            return math.nan
        return -value if self.form.higher_is_better else value

    def attempt(self, y: Labels, given: Any) -> Any:
        """The number that the metric returns for predictions in its own form, or the exception that it raises.

        A metric that leaves the process (sys.exit) has given no number: it is one that raises.
        """
        if self.meter.late:
            raise OutOfTimeError
        start = time.perf_counter()
        try:
            value = number(self.call(*self.form.arguments(y, given)))
        except Exception as problem:  # the metric may raise anything
            return problem
        except SystemExit as problem:
            return ExitedError(f"the metric called sys.exit({problem.code!r})")
        finally:
            self.meter.count(time.perf_counter() - start)
        if not self.meter.double and math.isfinite(value):
            with np.errstate(over="ignore", under="ignore"):
                self.meter.double = float(np.float32(value)) != value
        return value

    @property
    def rounding(self) -> float:
        """The relative rounding error of one operation of the metric."""
        return 2.0**-53 if self.meter.double else 2.0**-24


@final
class Meter:
    """Calls made and allowed, the time limit, and whether any number came that needs double precision."""

    def __init__(self, limit: int, seconds: float | None, progress: Callable[[float], None] | None = None) -> None:
        self.calls, self.limit, self.double, self.shortened = 0, limit, False, False
        self.seconds = seconds
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds
        self._end = self.deadline
        self.progress = progress
        self._first: list[float] = []

    def count(self, seconds: float) -> None:
        """Count one call and its duration."""
        self.calls += 1
        if len(self._first) < _TIMED:
            self._first.append(seconds)

    def begin(self) -> None:
        """The search begins: its budget does not count the calls before it, and ends in time at their pace.

        A quarter of the time is kept for what a conviction is worth at 300 rows.
        """
        pace = statistics.median(self._first)
        allowed = max(0.0, self.deadline - time.monotonic()) / max(pace, 1e-9)
        self.shortened = allowed < self.limit
        self.limit = self.calls + int(min(self.limit, allowed))
        self.allow(0.75)

    def allow(self, share: float) -> None:
        """Limit what begins now to a share of the time that is left."""
        if self.seconds is not None:
            now = time.monotonic()
            self.deadline = min(self.deadline, now + share * (self._end - now))

    def allow_all(self) -> None:
        """Lift the limit that `allow` set."""
        self.shortened |= self.late
        self.deadline = self._end

    @property
    def left(self) -> int:
        """Calls that may still be made."""
        return 0 if self.late else max(0, self.limit - self.calls)

    def tell(self) -> None:
        """Report the share of the search that is done."""
        if self.progress is not None:
            self.progress(min(1.0, self.calls / self.limit))

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline


def number(value: Any) -> float:
    """Return what a metric gives as a float."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    array = np.asarray(value)
    if array.size != 1 or array.dtype.kind not in "biuf":
        raise TypeError(f"the metric must return one number, got {shown(value)}")
    return float(array.reshape(()))


def said(problem: Exception) -> str:
    """Return the kind of an exception and the first 200 characters of its message."""
    try:
        text = str(problem)
    except Exception:  # an exception may not have a message
        text = "(no message)"
    return f"{type(problem).__name__}: {' '.join(text.split())[:200]}"


def measure_noise(metric: Metric, k: int, seed: int) -> str:
    """Why a metric of k classes is not deterministic, or nothing; it remembers how far apart equal values were.

    Equal calls show its own noise, rows in another order what rounding makes of their sum.
    """
    rng = np.random.default_rng([seed, k])
    y, rows = np.arange(ROWS) % k, drawn(rng, ROWS, k, 2.0, parts=1 << 16)
    orders = [np.arange(ROWS), np.arange(ROWS)[::-1], *(rng.permutation(ROWS) for _ in range(3))]
    for given in (rows, np.repeat(rows[:3], ROWS // 3, axis=0)):
        again = np.array([float(metric(y, given)) for _ in range(4)])
        apart, size = float(np.ptp(again)), float(np.abs(again).max())
        if math.isfinite(apart):  # however large: no gain below it can be told from chance
            metric.noise = max(metric.noise, apart)
        if apart > ALIKE * size or not (math.isfinite(apart) or np.array_equal(again, again[[0] * 4], equal_nan=True)):
            return f"not deterministic, values from {again.min():.6g} to {again.max():.6g}"
        shuffled = float(np.ptp([float(metric(y[order], given[order])) for order in orders]))
        if shuffled <= ALIKE * size:
            metric.noise = max(metric.noise, shuffled)
    return ""


def probe(n: int, k: int) -> tuple[Labels, Matrix]:
    """A sample on which a metric of k classes should have a value: every class occurs."""
    return np.arange(n) % k, drawn(np.random.default_rng(k), n, k, 2.0)


def find_form(call: Callable[[Any, Any], Any], k: int, wanted: CallForm, meter: Meter) -> CallForm | str:
    """The form in which the metric gives k classes a number, best with one class among the labels; or its refusal."""
    arrays: tuple[ArrayKind, ...] = ("numpy", "torch") if wanted.array == "auto" else (wanted.array,)
    if wanted.array == "auto" and _module(call).partition(".")[0] in ("torch", "torchmetrics"):
        arrays = ("torch", "numpy")
    taken: list[CallForm] = []
    reasons: list[Exception] = []
    try:
        for array in arrays:
            for binary in _binary_forms(call, k, wanted, array, meter):
                form = replace(wanted, array=array, binary=binary)
                answer = _answer(call, k, form, meter)
                if isinstance(answer, Exception):
                    reasons.append(answer)
                else:
                    taken.append(form)
            if taken:
                return next((form for form in taken if _takes_one_class(call, k, form, meter)), taken[0])
    except OutOfTimeError:
        return taken[0] if taken else f"the time limit of {meter.seconds:g} s was too short to try them"
    return said(reasons[0])


def _answer(call: Callable[[Any, Any], Any], k: int, form: CallForm, meter: Meter) -> Any:
    """Return the value for a few rows, or for more rows if that raises; or the exception."""
    answer: Any = None
    for n in PROBES:
        y, rows = probe(n, k)
        answer = Metric(call, form, meter).attempt(y, form.predictions(rows))
        if not isinstance(answer, Exception):
            break
    return answer


def _takes_one_class(call: Callable[[Any, Any], Any], k: int, form: CallForm, meter: Meter) -> bool:
    y, rows = probe(PROBES[0], k)
    answer = Metric(call, form, meter).attempt(np.zeros_like(y), form.predictions(rows))
    return not isinstance(answer, Exception) and not math.isnan(answer)


def _binary_forms(
    call: Callable[[Any, Any], Any], k: int, wanted: CallForm, array: ArrayKind, meter: Meter
) -> tuple[BinaryForm, ...]:
    """Two classes as a matrix, unless that is refused or the metric refuses three columns as well."""
    if wanted.outcomes in ("labels", "numbers"):
        return ("matrix",)
    if k != 2 or wanted.binary != "auto":
        return (wanted.binary if k == 2 else "matrix",)
    three = replace(wanted, array=array, binary="matrix")
    one_column = isinstance(_answer(call, 3, three, meter), Exception)
    return ("column", "matrix") if one_column else ("matrix", "column")


def _module(call: Any) -> str:
    """The module of a callable, also of partials, methods and instances."""
    inner = getattr(call, "func", call)
    return getattr(inner, "__module__", None) or type(inner).__module__


def members() -> dict[str, dict[str, Any]]:
    """The errors and losses of this package by name."""
    from truecal.baselines import ERRORS  # here: metrics of others do not need them
    from truecal.core.losses import LOSSES

    return {"ERRORS": ERRORS, "LOSSES": LOSSES}


def name_of(call: Any) -> str:
    """A callable by the name that its module gives it; members of ERRORS and LOSSES by theirs."""
    for known in members().values():
        for key, member in known.items():
            if member is call:
                return key
    inner = getattr(call, "func", call)
    name = getattr(inner, "__qualname__", None)
    if name is None:  # an instance: by name only if its module has it there, so that a script can import it
        name = getattr(inner, "__name__", None)
        name = name if getattr(sys.modules.get(_module(call)), str(name), None) is inner else None
    return f"{_module(call)}:{name}" if isinstance(name, str) else shown(inner)
