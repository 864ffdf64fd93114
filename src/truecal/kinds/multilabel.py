"""Several labels per row: the probability of each label, against whether it applies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.arrays import on_cpu
from ..core.data import as_array, check_report_table, check_same_length, check_weights, shown
from ..core.properties import Property
from ..core.sample import Sample, unit_weights
from ..core.types import Array
from .inputs import Inputs
from .kind import Given, Kind, LossTable, Scale


class _OfLabels(Property):
    """Abstract: a property of rows that may have several labels; probabilities have no sum."""

    def check(self, y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
        return check_label_table(y_true, y_proba, labels)


@final
@dataclass(frozen=True)
class Labelwise(_OfLabels):
    """k scalar properties φ_r(y) = y^(r) of the reports p^(r), each with its own bins, averaged over labels r."""

    kind = "labelwise"
    label_by_label = True
    per_view = True
    loss_name = "brier"
    notion = "per-label"
    asks = "each label of several per row"
    residual_text = "p^(r) − y^(r)"
    mean_text = "the mean over labels r of "
    loss_text = "(p^(r) − y^(r))² averaged over labels"

    def symbol(self, name: str) -> str:
        return f"Lin{name}_labels"

    def views(self, classes: int) -> int:
        return classes

    def direction_property(self) -> Property:
        return LabelRate()

    def view_name(self, j: int, names: Sequence[str] | None = None) -> str:
        return f"label {j}" if names is None else str(names[j])

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        return Sample(self.kind, reports, values=_numbers(y, reports), **unit_weights(weights))


@final
@dataclass(frozen=True)
class LabelRate(_OfLabels):
    """The mean probability over the labels of a row, against the share of labels that apply."""

    kind = "label rate"
    of_classes = False

    def direction_property(self) -> Property:
        return self

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        return Sample(self.kind, reports.mean(1), values=_numbers(y, reports).mean(1), **unit_weights(weights))


def _numbers(y: Array, reports: Array) -> Array:
    """0/1 in the type of the reports, which holds them exactly; shares stay as they are."""
    if "bool" not in str(y.dtype):
        return y
    return y.astype(reports.dtype) if isinstance(y, np.ndarray) else y.to(reports.dtype)


def check_label_table(y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
    """Which labels apply, (n, k) of bools or of shares in [0, 1], and the probability of each, (n, k).

    y_true is a 0/1 table, a sparse one, or one collection of labels per row: column indices, or names among `labels`.
    y_proba may be a list of (n, 2) arrays, one per label, as scikit-learn's MultiOutputClassifier gives.
    """
    reports = check_report_table(of_outputs(y_proba), "y_proba")
    k = reports.shape[1]
    names = None if labels is None else [str(name) for name in as_array(labels, "labels").ravel().tolist()]
    if names is not None and len(names) != k:
        raise ValueError(f"labels has {len(names)} names and y_proba has {k} columns: expected one name per column")
    table = from_label_lists(y_true, k, names) if is_label_lists(y_true, k) else _table(y_true, k)
    check_same_length(y_true=table, y_proba=reports)
    return table, reports


def of_outputs(y_proba: Any) -> Any:
    """A list of (n, 2) arrays, one per label, as one (n, k) table of the second columns; anything else as it is."""
    if not is_outputs(y_proba):
        return y_proba
    columns = [np.asarray(part) for part in y_proba]
    for j, part in enumerate(columns):
        if part.shape[1] != 2:
            raise ValueError(
                f"y_proba[{j}] has {part.shape[1]} column(s): expected two, of a label that is absent and present; "
                "the model saw only one of them"
            )
    return np.column_stack([part[:, 1] for part in columns])


def is_outputs(y_proba: Any) -> bool:
    """Whether predictions come as a list of tables, one per label."""
    return isinstance(y_proba, (list, tuple)) and bool(y_proba) and all(np.ndim(part) == 2 for part in y_proba)


def is_label_lists(y_true: Any, k: int) -> bool:
    """Whether every row is a collection of labels, not k numbers 0 or 1."""
    if hasattr(y_true, "toarray") or getattr(y_true, "ndim", 1) != 1 or hasattr(y_true, "detach"):
        return False
    rows = list(y_true)
    if not rows or not all(isinstance(row, Collection) and not isinstance(row, str) for row in rows):
        return False
    if any(isinstance(row, (set, frozenset)) or len(row) != k for row in rows):
        return True
    return not all(isinstance(x, (bool, int, float, np.number, np.bool_)) and 0 <= x <= 1 for row in rows for x in row)


def from_label_lists(y_true: Any, k: int, names: Sequence[str] | None) -> Array:
    """(n, k) bools from the labels of each row."""
    place = {name: j for j, name in enumerate(names)} if names is not None else {str(j): j for j in range(k)}
    table = np.zeros((len(y_true), k), dtype=np.bool_)
    for i, row in enumerate(y_true):
        for label in row:
            if str(label) not in place:
                known = f"names in labels, such as {next(iter(place))!r}" if names else f"column indices 0..{k - 1}"
                raise ValueError(f"y_true row {i} has the label {shown(label)}; expected {known}")
            if table[i, place[str(label)]]:
                raise ValueError(
                    f"y_true row {i} has the label {shown(label)} twice: labels or a table of {k} columns?"
                )
            table[i, place[str(label)]] = True
    return table


def _table(y_true: Any, k: int) -> Array:
    """(n, k) bools, or shares of labels that apply in part."""
    array = np.asarray(as_array(y_true.toarray() if hasattr(y_true, "toarray") else y_true, "y_true"))
    if array.ndim != 2 or array.shape[1] != k:
        raise ValueError(
            f"y_true has shape {array.shape} and y_proba has {k} columns: expected a 0/1 table with a column per "
            "label, or one list of labels per row"
        )
    if array.dtype.kind == "b":
        return array
    shares = check_report_table(array, "y_true").astype(np.float64)
    return shares == 1 if np.isin(shares, (0.0, 1.0)).all() else shares


def is_multilabel(y_true: Any, y_proba: Any) -> bool:
    """Whether labels can only be several per row: a 0/1 table whose rows do not all sum to 1, or lists of labels."""
    if y_true is None or hasattr(y_proba, "confidence"):
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


class MultilabelKind(Kind):
    """A column per label; several labels may apply to a row."""

    name = "multilabel"
    task = "multilabel"
    properties = (Labelwise,)
    stream_errors = ("labelwise",)
    segment_errors = ("labelwise",)
    usual_ece = None
    class_losses = False
    columns = "labels"

    def claims(self, given: Given) -> bool:
        return given.task == self.task or (given.task == "auto" and is_multilabel(given.y_true, given.y_proba))

    def read(self, given: Given) -> Inputs:
        table, reports = Labelwise().check(on_cpu(given.y_true), on_cpu(given.y_proba), given.labels)
        return Inputs(self, table, reports, check_weights(given.sample_weight, len(reports)))

    def basics(self, thresholds: tuple[float, ...] = ()) -> tuple[Property, ...]:
        return (LabelRate(),)

    def check_reports(self, reports: Any) -> Array:
        return check_report_table(reports, "y_proba")

    def unlabelled(self, reports: Array) -> Array:
        return np.zeros(reports.shape, dtype=bool)

    def loss_tables(self, inputs: Inputs) -> Iterator[LossTable]:
        yield LossTable("brier", inputs.reports, "brier", per_view=True)

    def says_text(self, predicted: float, observed: float, scale: Scale | None = None) -> str:
        return f"says {predicted:.1%} per label, happens {observed:.1%}"

    def rates_text(self, predicted: float, observed: float, scale: Scale | None = None) -> str:
        return f"On average it says {predicted:.1%} per label, and that happens {observed:.1%} of the time"


MULTILABEL = MultilabelKind()
