"""One model's predictions as `evaluate` and `compare` take them in, and which errors and losses they allow."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..backends.arrays import beside, device_backend, is_tensor, on_cpu, on_device
from ..baselines import BASELINES, ERRORS
from ..core.data import as_array, check_multiclass, check_weights, row_blocks, shown, wide_blocks
from ..core.distributions import Distribution, Forecast, intervals
from ..core.errors import COMPOSED, CalibrationError
from ..core.frames import column_classes, refuse_reordered
from ..core.labelwise import Labelwise, is_label_lists, is_outputs
from ..core.losses import LOSSES, Loss, rps
from ..core.parameters import described
from ..core.properties import Binary, Classwise, Property, TopLabel
from ..core.sample import Sample
from ..core.types import Array, Groups

if TYPE_CHECKING:
    from .mean_losses import Losses, Values

Kind = Literal["multiclass", "binary", "top_label", "ordered", "multilabel", "distribution"]
KINDS: tuple[Kind, ...] = ("multiclass", "binary", "top_label", "ordered", "multilabel", "distribution")
Task = Literal["auto", "ordered", "multilabel"]
TASKS: tuple[Task, ...] = ("auto", "ordered", "multilabel")
"""What the columns are: classes, classes in their order, or labels of which several may apply."""
Progress = Callable[[float], None]
"""A function of the share done."""

_MOST_COMPARED = 1 << 22  # predictions among which copies of rows are looked for
LEAST_ON_DEVICE = 1 << 20
"""Fewer predictions in the memory of a GPU are copied to the CPU."""


@described()
@dataclass(frozen=True, eq=False)
class TopPredictions:
    """Predictions of which only the top class is known: whether it is right, and its confidence."""

    correct: Any
    confidence: Any


@dataclass(frozen=True, eq=False)
class Inputs:
    """Validated predictions of one model.

    kind "multiclass" and "ordered": `y` class indices and `reports` (n, k); "multilabel": both (n, k); "binary": `y`
    bools and `reports` the probability of the positive class; "top_label": `y` whether the top class was right and
    `reports` its confidence.
    """

    kind: Kind
    y: Array
    reports: Array
    weights: Array | None = None
    folds: Groups | None = None
    """Where predictions are cross-validated: the fold of each row, and how many there are."""
    thresholds: tuple[float, ...] = ()
    """Of distributions of a number: `y` is how many each outcome exceeds, and `reports` F at each of them."""

    @cached_property
    def soft(self) -> bool:
        """Whether the labels are distributions over classes, or shares of labels that apply in part."""
        return self.y.ndim == 2 and self.y.dtype != np.bool_

    @cached_property
    def n_samples(self) -> int:
        return len(self.y)

    @property
    def n_reports(self) -> int:
        """How many predictions there are: rows times columns."""
        return self.n_samples * (self.reports.shape[1] if self.reports.ndim == 2 else 1)

    def on_host(self) -> Inputs:
        """The same in numpy's arrays, for what is not computed on a GPU."""
        if not is_tensor(self.reports):
            return self
        y, reports, weights = (
            None if x is None else np.asarray(on_cpu(x)) for x in (self.y, self.reports, self.weights)
        )
        assert y is not None and reports is not None
        return replace(self, y=y, reports=reports, weights=weights)

    @property
    def n_classes(self) -> int | None:
        """The number of classes, labels or thresholds, None where only the top class is known."""
        if self.kind == "top_label":
            return None
        return 2 if self.kind == "binary" else int(self.reports.shape[1])

    def error_names(self) -> tuple[str, ...]:
        """The composed members of ERRORS that these predictions can be measured by, in its order."""
        return _names_of(self.kind, tuple(ERRORS))[0]

    def possible_names(self) -> tuple[str, ...]:
        """The same with what is measured only where it is named: baselines, and for two classes those of columns."""
        return _names_of(self.kind, tuple(ERRORS))[1]

    def sample(self, error: str | Property) -> Sample:
        """What an error measures, or of a property, made once for all errors of it and never validated again."""
        property = error if not isinstance(error, str) else ERRORS[error].property
        if self.thresholds and isinstance(error, str):
            property = self._of_thresholds(property)
        if property.kind not in self._samples:
            y, reports = property.of_kind(self.kind, self.y, self.reports)
            self._samples[property.kind] = property.sample(y, reports, self.weights)
        return self._samples[property.kind]

    def error(self, name: str) -> CalibrationError:
        """The composed error of a name, in the units of these outcomes."""
        metric = COMPOSED[name]
        return replace(metric, property=self._of_thresholds(metric.property)) if self.thresholds else metric

    def _of_thresholds(self, property: Property) -> Property:
        return Distribution(self.thresholds) if isinstance(property, Distribution) else property

    def forget(self, error: str) -> None:
        """Let go of the sample of an error; it is made again if it is asked for."""
        self._samples.pop(ERRORS[error].property.kind, None)

    @cached_property
    def _samples(self) -> dict[str, Sample]:
        return {}

    def loss_values(self) -> Iterator[tuple[str, Losses]]:
        """The losses that are defined here, one after the other: per row, with what any label would have given."""
        from .mean_losses import loss_values, top_label_table, view_losses

        if self.kind == "distribution":
            property = Distribution(self.thresholds)
            unit = property.score_unit(self.reports.shape[1])
            yield (
                "crps",
                loss_values(self.y, intervals(self.reports), None, lambda p: unit * property.losses_by_label(p, False)),
            )
            return
        if self.kind == "multilabel":
            yield "brier", view_losses(self.y, self.reports, None)
            return
        named: dict[str, Loss] = {"rps": rps, **LOSSES} if self.kind == "ordered" else LOSSES
        tables: dict[str, Any] = {name: name if name in LOSSES else loss.by_label for name, loss in named.items()}
        if self.kind == "top_label":  # the columns are of a wrong and of a right top class
            wrong = np.array([1.0, 0.0])
            tables = {"classification_error": lambda p: np.tile(wrong, (len(p), 1))}
            tables["confidence_loss"] = lambda p: top_label_table(p[:, 1])
        for name, table in tables.items():
            found = loss_values(self.y, self.reports, None, table)
            if self.soft:  # squared losses are distances from the distribution, not means over its labels
                found = replace(found, of=partial(self._soft_losses, found, named[name]))
            yield name, found

    def _soft_losses(self, found: Losses, loss: Loss, rows: slice) -> Values:
        return replace(found.of(rows), value=loss.per_row(self.y[rows], self.reports[rows]))

    def top_label(self) -> Inputs:
        """The same predictions, reduced to their top class."""
        if self.kind == "top_label":
            return self
        sample = self.sample("confidence").on_host()
        right = sample.values > 0.5 if sample.values is not None else sample.marks
        assert right is not None
        return Inputs("top_label", right, sample.reports, self.on_host().weights, self.folds)

    def take(self, rows: Array | slice) -> Inputs:
        """Some of the rows."""
        rows = rows if isinstance(rows, slice) else beside(rows, self.reports)
        weights = None if self.weights is None else self.weights[rows]
        folds = None if self.folds is None else group_numbers(self.folds[0][rows])
        return replace(self, y=self.y[rows], reports=self.reports[rows], weights=weights, folds=folds)

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
        if is_tensor(self.reports):
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
) -> Inputs:
    """Validate one model: (n, k) distributions, (n,) probabilities of the positive class, or TopPredictions.

    Two columns are one probability, that of the positive class, unless the labels are distributions or `columns` says
    to keep them. With task "ordered" the columns are classes in their order, with "multilabel" labels of which several
    may apply; a table of 0 and 1 whose rows do not all sum to 1 is always read as labels.
    Many predictions of classes in the memory of a GPU stay there; others are copied to the CPU.
    """
    if task not in TASKS:
        raise ValueError(f"task must be one of {', '.join(map(repr, TASKS))}, got {shown(task)}")
    if (
        y_true is not None
        and task == "auto"
        and thresholds is None
        and on_device(y_proba)
        and (found := _read_on_device(y_true, y_proba, labels, pos_label, sample_weight, columns))
    ):
        return found
    sample_weight = on_cpu(sample_weight)
    if task == "ordered" and (y_true is None or isinstance(y_proba, TopPredictions)):
        raise ValueError("task='ordered' needs the probabilities of all classes, not only of the top one")
    if thresholds is not None or is_forecast(y_proba):
        property = Distribution(() if thresholds is None else thresholds)
        number, reports = property.check(on_cpu(y_true), on_cpu(y_proba), labels)
        weights = check_weights(sample_weight, len(reports))
        return Inputs("distribution", number, reports, weights, thresholds=property.thresholds)
    if task == "multilabel" or (task == "auto" and is_multilabel(y_true, y_proba)):
        table, reports = Labelwise().check(on_cpu(y_true), on_cpu(y_proba), labels)
        return Inputs("multilabel", table, reports, check_weights(sample_weight, len(reports)))
    if isinstance(y_proba, TopPredictions):
        return _read_top(y_proba, sample_weight)
    if y_true is None:
        if isinstance(y_proba, tuple) and len(y_proba) == 2:
            return _read_top(TopPredictions(*y_proba), sample_weight)
        raise TypeError("y_true is None: y_proba must be TopPredictions(correct, confidence), or such a pair")
    y_true, y_proba = on_cpu(y_true), on_cpu(y_proba)
    refuse_reordered(y_true=y_true, y_proba=y_proba, sample_weight=sample_weight)
    labels = column_classes(y_true, y_proba, labels)
    y, array = as_array(y_true, "y_true"), as_array(y_proba, "y_proba")
    if array.ndim == y.ndim == 1 and task != "ordered":
        marks, reports = Binary(pos_label).check(y, array, labels)
        return Inputs("binary", marks, reports, check_weights(sample_weight, len(reports)))
    y, proba = check_multiclass(y, array, labels)
    weights = check_weights(sample_weight, len(y))
    if task == "ordered":
        return Inputs("ordered", y, proba, weights)
    if proba.shape[1] == 2 and y.ndim == 1 and not columns:
        return Inputs("binary", *Binary(pos_label).of_two_columns(y, proba, labels), weights)
    return Inputs("multiclass", y, proba, weights)


def _read_on_device(
    y_true: Any, y_proba: Any, labels: Any, pos_label: Any, sample_weight: Any, columns: bool
) -> Inputs | None:
    """The predictions where they are; None for few of them, which the CPU measures as fast, and for unusual shapes."""
    shape, soft = tuple(y_proba.shape), len(np.shape(y_true)) == 2
    if np.prod(shape) < LEAST_ON_DEVICE or len(shape) not in (1, 2) or (len(shape) == 2) < soft or shape[-1] < 2:
        return None
    one = len(shape) == 1 or (shape[1] == 2 and not soft and not columns)
    property: Property = Binary(pos_label) if one else Classwise()
    y, reports, weights, _ = device_backend().read_arrays(property, y_true, y_proba, sample_weight, labels)
    return Inputs("binary" if one else "multiclass", y, reports, weights)


def is_forecast(y_proba: Any) -> bool:
    """Whether predictions are distributions of a number, of this package or of scipy, or a list of scipy's."""
    first = y_proba[0] if isinstance(y_proba, (list, tuple)) and y_proba else y_proba
    return isinstance(y_proba, Forecast) or callable(getattr(first, "cdf", None))


def is_multilabel(y_true: Any, y_proba: Any) -> bool:
    """Whether labels can only be several per row: a 0/1 table whose rows do not all sum to 1, or lists of labels."""
    if y_true is None or isinstance(y_proba, TopPredictions):
        return False
    if hasattr(y_true, "toarray") or is_outputs(y_proba):
        return True
    shape, of = (np.shape(on_cpu(x)) if hasattr(x, "shape") else None for x in (y_true, y_proba))
    if isinstance(y_true, (list, tuple)) and y_true and isinstance(y_true[0], (list, tuple, set, frozenset)):
        width = of[1] if of is not None and len(of) == 2 else len(y_proba[0]) if np.ndim(y_proba[0]) == 1 else 0
        return width > 0 and is_label_lists(y_true, width)
    if shape is None or len(shape) != 2 or shape != of:
        return False
    table = np.asarray(as_array(on_cpu(y_true), "y_true"))
    return table.dtype.kind in "biuf" and bool(np.isin(table, (0, 1)).all()) and not (table.sum(axis=1) == 1).all()


def _read_top(top: TopPredictions, sample_weight: Any) -> Inputs:
    correct, confidence = TopLabel().check(on_cpu(top.correct), on_cpu(top.confidence))
    return Inputs("top_label", correct, confidence, check_weights(sample_weight, len(confidence)))


@cache
def _names_of(kind: Kind, names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of these errors, those of a kind of predictions: measured by default, and all that may be named."""
    properties = {name: ERRORS[name].property for name in names}
    usual = tuple(name for name, p in properties.items() if name not in BASELINES and kind in p.kinds)
    return usual, tuple(name for name, p in properties.items() if kind in (*p.kinds, *p.kinds_if_named))


def check_errors(errors: Any, inputs: Inputs) -> tuple[str, ...]:
    """The errors to compute: all that apply, or the named ones, each of which must apply."""
    possible = inputs.possible_names()
    if errors is None:
        return inputs.error_names()
    if isinstance(errors, str) or not isinstance(errors, Sequence) or not errors:
        raise TypeError(f"errors must be a sequence of names such as ('classwise', 'confidence'), got {shown(errors)}")
    for name in errors:
        if name not in ERRORS:
            close = difflib.get_close_matches(str(name), ERRORS, 1)
            meant = f"; did you mean {close[0]!r}?" if close else f"; expected some of {', '.join(possible)}"
            raise ValueError(f"there is no error {name!r}{meant}")
        if name not in possible:
            kind = inputs.kind.replace("_", "-")
            raise ValueError(f"{name!r} cannot be used with {kind} predictions; expected some of {', '.join(possible)}")
    return tuple(dict.fromkeys(errors))


@cache
def several_bins(n_samples: int) -> tuple[int, ...]:
    """The bin counts at which orders of models are compared: the paper's 5, 20 and 2000, at most 2n/5.

    >>> from truecal.inference.inputs import several_bins
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
