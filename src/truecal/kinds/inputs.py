"""One model's predictions as `evaluate` and `compare` take them in, and which errors and losses they allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import HOST, compiled_loops, device_backend, on_cpu, on_device, to_device_of
from ..core.data import as_array, row_blocks, shown, wide_blocks
from ..core.frames import column_classes
from ..core.properties import Binary, Classwise, Confidence, Property
from ..core.sample import Sample
from ..core.types import Array, Groups
from ..sums.errors import NAMED, CalibrationError
from .kind import KINDS, Given, Kind, tasks
from .own_levels import OwnLevels

Task = str
"""A value of task=: "auto", or the task of a kind, such as "ordered" or "multilabel"."""
Progress = Callable[[float], None]
"""A function of the share done."""

_MOST_COMPARED = 1 << 22  # predictions among which copies of rows are looked for
LEAST_ON_DEVICE = 1 << 20
"""Fewer predictions in the memory of a GPU are copied to the CPU."""


class RowFacts(NamedTuple):
    """Of each row p of its label and Σ p_r², and the least p of all."""

    own: Array
    squares: Array
    least: float


@dataclass(frozen=True, eq=False)
class Inputs:
    """Validated predictions of one model: outcomes `y` and `reports`, in the form that their kind reads them in."""

    kind: Kind
    y: Array
    reports: Array
    weights: Array | None = None
    folds: Groups | None = None
    """Where predictions are cross-validated: the fold of each row, and how many there are."""
    thresholds: tuple[float, ...] = ()
    """Of distributions of a number: `y` is how many each outcome exceeds, and `reports` F at each of them."""
    own: OwnLevels | None = None
    """Of quantiles and ensembles: what outcomes show of them at their own levels."""
    known: Any = None
    """The facts of rows of `sums.compiled_columns`, where their reader had them."""

    @cached_property
    def soft(self) -> bool:
        """Whether the labels are distributions over classes, or shares of labels that apply in part."""
        return self.y.ndim == 2 and self.y.dtype != np.bool_

    def check_one_label(self, what: str) -> None:
        """Raise where a row has no single label; `what` names the caller."""
        if not (self.kind.class_losses or self.kind.top_only):
            raise ValueError(f"{what} needs one label per row; these are {self.kind} predictions")
        if self.soft:
            raise ValueError(f"{what} needs one label per row; these are distributions over labels")

    @cached_property
    def n_samples(self) -> int:
        return len(self.y)

    @property
    def n_reports(self) -> int:
        """How many predictions there are: rows times columns."""
        return self.n_samples * (self.reports.shape[1] if self.reports.ndim == 2 else 1)

    def on_host(self) -> Inputs:
        """The same in numpy's arrays, for what is not computed on a GPU."""
        if isinstance(self.reports, HOST):
            return self
        y, reports, weights = (
            None if x is None else np.asarray(on_cpu(x)) for x in (self.y, self.reports, self.weights)
        )
        assert y is not None and reports is not None
        return replace(self, y=y, reports=reports, weights=weights)

    @property
    def n_classes(self) -> int | None:
        """The number of classes, labels or thresholds, None where only the top class is known."""
        return self.kind.n_classes(int(self.reports.shape[1]) if self.reports.ndim == 2 else None)

    def error_names(self) -> tuple[str, ...]:
        """The composed errors that these predictions are measured by where none are named."""
        return self.kind.measures(NAMED)

    def sample(self, error: str | Property) -> Sample:
        """What a composed error measures, or of a property, made once for all errors of it."""
        property = NAMED[error].property if isinstance(error, str) else error
        if self.thresholds and isinstance(error, str):
            property = property.at_thresholds(self.thresholds)
        if property.kind not in self._samples:
            y, reports = self.kind.of_property(property, self.y, self.reports)
            self._samples[property.kind] = property.sample(y, reports, self.weights)
        return self._samples[property.kind]

    def facts(self, compiled: bool) -> RowFacts | None:
        """What a stream needs of each row: what is known, or the facts of one compiled pass over columns of which each
        lies side by side; the sample of the confidence is then known too. None where weights, soft labels or the
        layout ask for more."""
        plain = self.kind.of_classes and self.y.ndim == 1 and self.weights is None
        facts = self.known if plain and self.known is not None and self.known.numbers is self.reports else None
        if facts is None and (not compiled or not plain or not self.reports.T.flags.c_contiguous):
            return None
        if facts is None and (loops := compiled_loops("_columns")) is not None:
            facts = loops.row_facts(self.reports)
        if facts is None:
            return None
        right, own = facts.of_labels(self.y)
        top = Confidence()
        self._samples[top.kind] = top.known(right, facts.confidence, self.y, self.reports)
        return RowFacts(own, facts.squares, facts.least)

    def error(self, name: str) -> CalibrationError:
        """The composed error of a name, in the units of these outcomes."""
        metric = NAMED[name]
        return replace(metric, property=metric.property.at_thresholds(self.thresholds)) if self.thresholds else metric

    def forget(self, error: str) -> None:
        """Let go of the sample of a composed error; it is made again if it is asked for."""
        self._samples.pop(NAMED[error].property.kind, None)

    @cached_property
    def _samples(self) -> dict[str, Sample]:
        return {}

    def top_label(self) -> Inputs:
        """The same predictions, reduced to their top class."""
        if self.kind.top_only:
            return self
        sample = self.sample(Confidence()).on_host()
        right = sample.values > 0.5 if sample.values is not None else sample.marks
        assert right is not None
        return Inputs(KINDS["top_label"], right, sample.reports, self.on_host().weights, self.folds)

    def take(self, rows: Array | slice) -> Inputs:
        """Some of the rows."""
        rows = rows if isinstance(rows, slice) else to_device_of(rows, self.reports)
        weights = None if self.weights is None else self.weights[rows]
        folds = None if self.folds is None else group_numbers(self.folds[0][rows])
        own = None if self.own is None else self.own.take(rows)
        return replace(self, y=self.y[rows], reports=self.reports[rows], weights=weights, folds=folds, own=own)

    def decisions(self) -> bool:
        """Whether every prediction is exactly 0 or 1."""
        width = self.n_reports // self.n_samples
        return all(
            bool((((block := self.reports[rows]) == 0) | (block == 1)).all())
            for rows in wide_blocks(self.reports, self.n_samples, width)
        )

    def _rounded(self) -> bool:
        """Whether every prediction has at most three digits."""
        for rows in row_blocks(self.n_samples, 8 * self.reports[:1].size):
            block = self.reports[rows].astype(np.float64)
            if not np.array_equal(block, block.round(3)):
                return False
        return True

    def copies(self) -> int:
        """How many rows repeat the predictions and the label of an earlier row, where that is no accident.

        Predictions with few digits, or few different ones, repeat by themselves.
        """
        if self.n_reports > _MOST_COMPARED:
            return 0
        if not isinstance(self.reports, HOST):
            return self.on_host().copies()
        if self._rounded():
            return 0
        if self.reports.ndim == 1:  # y is true or false
            distinct = sum(_distinct(self.reports[chosen]) for chosen in (self.y, ~self.y))
        else:
            parts = [np.ascontiguousarray(x).view(np.uint8).reshape(self.n_samples, -1) for x in (self.reports, self.y)]
            both = np.concatenate(parts, axis=1)
            distinct = len(np.unique(both.view(np.dtype((np.void, both.shape[1])))))
        copies = self.n_samples - distinct
        return copies if 50 * copies >= self.n_samples and 10 * distinct >= self.n_samples else 0


def _distinct(values: Array) -> int:
    """How many different values there are; a copy is sorted."""
    values.sort()
    return int(len(values) > 0) + int(np.count_nonzero(values[1:] != values[:-1]))


def read_inputs(
    y_true: Any,
    y_proba: Any,
    *,
    labels: Any = None,
    pos_label: Any = 1,
    sample_weight: Any = None,
    columns: bool = False,
    task: str = "auto",
    thresholds: Any = None,
    horizons: Any = None,
    survival: bool = False,
    censoring_by: Any = None,
) -> Inputs:
    """Validate one model: (n, k) distributions, (n,) probabilities of the positive class, or TopPredictions.

    Two columns are one probability, that of the positive class, unless the labels are distributions or `columns` says
    to keep them. With task "ordered" the columns are classes in their order, with "multilabel" labels of which several
    may apply; a table of 0 and 1 whose rows do not all sum to 1 is always read as labels. With `horizons` they are
    risks of an event by then, or `survival` functions, and `censoring_by` has the strata of the censoring.
    Many predictions of classes in the memory of a GPU stay there; others are copied to the CPU.
    """
    known = tasks()
    if not isinstance(task, str) or task not in known:
        raise ValueError(f"task must be one of {', '.join(map(repr, known))}, got {shown(task)}")
    task = known[task]
    if horizons is None and (survival or censoring_by is not None):
        raise ValueError("survival and censoring_by are for risks of censored times: pass horizons=")
    given = Given(
        y_true, y_proba, labels, pos_label, sample_weight, columns, task, thresholds, horizons, survival, censoring_by
    )
    if task == "auto" and thresholds is horizons is None and y_true is not None and on_device(y_proba):
        found = _read_on_device(given)
        if found is not None:
            return found
    given = replace(given, sample_weight=on_cpu(sample_weight))
    for kind in reversed(KINDS.values()):
        if kind.claims(given):
            return kind.read(given)
    raise TypeError(f"predictions of type {type(y_proba).__name__} are of no known kind")


def on_host(given: Given) -> Given:
    """The same arguments in the memory of the CPU, with the classes of columns."""
    if given.y_true is None or hasattr(given.y_proba, "confidence"):
        return given
    y_true, y_proba = on_cpu(given.y_true), on_cpu(given.y_proba)
    return replace(given, y_true=y_true, y_proba=y_proba, labels=column_classes(y_true, y_proba, given.labels))


def _read_on_device(given: Given) -> Inputs | None:
    """The predictions where they are; None for few of them, which the CPU measures as fast, and for unusual shapes."""
    shape, soft = tuple(given.y_proba.shape), len(np.shape(given.y_true)) == 2
    if np.prod(shape) < LEAST_ON_DEVICE or len(shape) not in (1, 2) or (len(shape) == 2) < soft or shape[-1] < 2:
        return None
    one = len(shape) == 1 or (shape[1] == 2 and not soft and not given.columns)
    property: Property = Binary(given.pos_label) if one else Classwise()
    arrays = (given.y_true, given.y_proba, given.sample_weight, given.labels)
    y, reports, weights, _ = device_backend().read_arrays(property, *arrays)
    return Inputs(KINDS["binary" if one else "multiclass"], y, reports, weights)


def shape_of(values: Any, name: str) -> tuple[int, ...]:
    """The shape of an argument, read only where it has none."""
    return tuple(values.shape) if hasattr(values, "shape") else as_array(values, name).shape


@cache
def several_bins(n_samples: int) -> tuple[int, ...]:
    """The bin counts at which orders of models are compared: the paper's 5, 20 and 2000, at most 2n/5.

    >>> from truecal.kinds.inputs import several_bins
    >>> several_bins(5000), several_bins(100), several_bins(10)
    ((5, 20, 2000), (5, 20, 40), (4,))
    """
    most = max(1, 2 * n_samples // 5)
    return tuple(sorted({min(m, most) for m in (5, 20, 2000)}))


def group_numbers(values: Array) -> Groups:
    """Numbers 0, 1, ... for the values of each row, and how many there are."""
    found, number = np.unique(values, return_inverse=True)
    return number.reshape(-1), len(found)


def check_by(values: Any, n: int, name: str) -> Array:
    """One group per row, as an array of numbers or strings."""
    array = as_array(on_cpu(values), name)
    if array.shape != (n,):
        raise ValueError(f"{name} must give one group per row, shape ({n},), got shape {array.shape}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name} has NaN at row {int(np.argmax(np.isnan(array)))}; every row must have a subgroup")
    return array


def one_to_one(groups: Array, outcomes: Array) -> bool:
    """Whether two vectors, of at least two values each, name the same parts of the rows."""
    if groups.shape != outcomes.shape:
        return False
    _, first = np.unique(groups, return_inverse=True)
    _, second = np.unique(outcomes, return_inverse=True)
    pairs = len(set(zip(first.reshape(-1).tolist(), second.reshape(-1).tolist(), strict=True)))
    return bool(2 <= pairs == first.max() + 1 == second.max() + 1)
