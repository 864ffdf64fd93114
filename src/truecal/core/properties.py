"""What is being checked: each property turns labels and probabilities into scalar reports and outcomes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from .arrays import HOST, at_columns, device_backend, on_device, top_class_and_value
from .data import (
    as_array,
    check_bounds,
    check_pair,
    check_reports,
    check_same_length,
    check_size,
    check_weights,
)
from .labels import check_binary_outcomes, check_labels, check_multiclass
from .losses_by_label import confidence_losses, squares
from .parameters import described
from .sample import Bounds, Sample, unit_weights
from .types import Array


class Property(ABC):
    """A claim that can be checked: reports u_i about the expectation of outcomes φ(y_i)."""

    kind = ""
    """The name by which tables of different properties are told apart."""
    vector = False
    bounds: Bounds | None = (0.0, 1.0)
    """The range of reports."""
    of_classes = True
    """Whether outcomes are 0 or 1, drawn with the reports as chances, so that streams and bands can be made."""
    of_distributions = False
    """Whether it takes a distribution over classes per row."""
    event = False
    """Whether it takes the probability of one event per row."""
    device_shortcut = False
    """Whether a GPU has a short way from class indices and distributions to its errors."""
    picks_outcome = False
    """Whether the report chooses its outcome, as the top class does."""
    corrects = False
    """Whether the squared error needs a correction: the report chooses its outcome, or outcomes have weights."""
    label_by_label = False
    """Whether outcomes of one row depend on each other in unknown ways: then each view is tested by itself."""
    per_view = False
    """Whether `evaluate` lists every view with its gap."""
    in_order = False
    """Whether views have an order, in which they are listed; else the worst comes first."""
    noun = "label"
    """What a view is."""
    loss_name = ""
    """The loss in the score, as results call it, where it has a name there."""
    notion = ""
    """What this calibration is called in a sentence."""
    place = ""
    """What follows "too high" and "too low"."""
    shares: Array | None = None
    """What each view counts in their mean, 1 on average; None where all count the same."""
    asks = "any expectation"
    """What is checked, in words."""
    residual_text = "u − φ(y)"
    mean_text = ""
    """How a formula in words begins, where views are averaged."""
    loss_text = "||u − φ(y)||²"
    correction_text = ""
    """What the correction adds, where there is one."""
    corrected_loss_text = ""
    corrected_reason = ""
    uncorrected_reason = ""

    def symbol(self, name: str) -> str:
        """The paper's symbol of an error, given ECE or CE."""
        return f"Lin{name}_φ"

    def score_unit(self, views: int) -> float:
        """What turns the loss of the property into the Brier score: Σ over classes, halved for two classes."""
        return 1.0

    def views(self, classes: int) -> int:
        """How many scalar views predictions of so many classes have."""
        return 1

    def direction_property(self) -> Property:
        """The property whose mean gap names the direction: that of the top class, unless it has one number itself."""
        return Confidence()

    def view_name(self, j: int, names: Sequence[str] | None = None) -> str:
        """What view j is called, with the names of the columns if they have any."""
        return f"class {j}" if names is None else str(names[j])

    def at_thresholds(self, thresholds: tuple[float, ...]) -> Property:
        """The same property of numbers at these thresholds; of classes the property itself."""
        return self

    def drawn(self, labels: Array, classes: int) -> Array | None:
        """The outcome values φ of drawn labels; None where labels are the outcomes."""
        return None

    def losses_by_label(self, proba: Array, corrected: bool) -> Array:
        """(n, k): the loss of each row if label j came; of distributions (n, k)."""
        n, k = proba.shape
        samples = (self.sample(np.full(n, j), proba) for j in range(k))
        return np.stack([np.asarray(sample.loss(corrected)) for sample in samples], axis=1)

    def observed(self, sample: Sample, rows: Array) -> Array:
        """How often the outcome of each view came among some rows."""
        w = sample.row_weights[rows]
        return np.asarray(sample.outcome(slice(None), rows) @ w / w.sum())

    @abstractmethod
    def check(self, y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
        """The user's arrays, validated: outcomes and what was reported of them."""

    @abstractmethod
    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        """Arrays that `check` has passed, as scalar views; nothing is validated again."""

    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        """Validate the user's arrays and express them as scalar views; predictions on a GPU stay there."""
        if on_device(y_proba):
            # a module loaded by name
            return device_backend().read(self, y_true, y_proba, sample_weight, labels)  # type: ignore[no-any-return]  # an array or a tensor
        y, reports = self.check(y_true, y_proba, labels)
        return self.sample(y, reports, check_weights(sample_weight, len(reports)))


class OfDistributions(Property):
    """A property of class labels and distributions over them."""

    of_distributions = True

    def check(self, y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
        return check_multiclass(y_true, y_proba, labels)


class _OfEveryClass(OfDistributions):
    """A property with a view for each class; one probability per row stands for both classes."""

    loss_name = "brier"

    def views(self, classes: int) -> int:
        return classes


class _OfTopClass(Property):
    """A property of the confidence in the top class and of whether it is right."""

    kind = "confidence"
    picks_outcome = True
    corrects = True
    loss_name = "confidence_loss"
    notion = "top-class"
    residual_text = "c − z"
    loss_text = "(c − z)²"
    correction_text = "n⁻² Σ(1 − z_i)"
    corrected_loss_text = "confidence loss 1 − z + (c − z)²"
    corrected_reason = "squared bin sums plus the correction (1 − accuracy)/n: naming the likeliest class is optimal"
    uncorrected_reason = (
        "for three or more classes it pays to change which class is on top; the correction repairs this"
    )

    def symbol(self, name: str) -> str:
        return f"Conf{name}"

    def direction_property(self) -> Property:
        return self


def _outcomes(y: Array) -> dict[str, Any]:
    """The outcomes of every class: marks for labels, values for label distributions."""
    return {"marks": y} if y.ndim == 1 else {"values": y}


@described()
@final
@dataclass(frozen=True)
class Binary(Property):
    """φ(y) = 1[y = pos_label]; the report is the probability of the positive class.

    Reports may have both columns: the second is that of the positive class, or that of pos_label among `labels`.
    """

    pos_label: Any = 1
    kind = "binary"
    event = True
    loss_name = "brier"
    notion = "positive-class"
    asks = "one probability"
    residual_text = "u − y"
    loss_text = "(u − y)²"

    def symbol(self, name: str) -> str:
        return f"Lin{name}_binary"

    def direction_property(self) -> Property:
        return self

    def check(self, y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
        if len(_shape(y_proba)) == 2 and _shape(y_proba)[1] == 2:
            return self.of_two_columns(*check_multiclass(y_true, y_proba, labels), labels)
        reports = check_reports(y_proba, "y_proba")
        if labels is None:
            marks = check_binary_outcomes(y_true, self.pos_label)
        else:
            marks = check_labels(y_true, 2, labels) == self._column(labels)
        check_same_length(y_true=marks, y_proba=reports)
        return marks, reports

    def of_two_columns(self, y: Array, proba: Array, labels: Any) -> tuple[Array, Array]:
        """The outcomes and the column of the positive class; label distributions keep their share of it."""
        column = self._column(labels)
        return (y == column if y.ndim == 1 else y[:, column]), proba[:, column]

    def _column(self, labels: Any) -> int:
        names = [] if labels is None else list(as_array(labels, "labels"))
        return names.index(self.pos_label) if isinstance(self.pos_label, str) and self.pos_label in names else 1

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        about: dict[str, Any] = {"marks": y} if _is_bool(y) else {"values": y}
        return Sample(self.kind, reports, **about, event=True, **unit_weights(weights))


def _shape(y_proba: Any) -> tuple[int, ...]:
    return tuple(y_proba.shape) if hasattr(y_proba, "shape") else as_array(y_proba, "y_proba").shape


def _is_bool(y: Array) -> bool:
    return "bool" in str(y.dtype)


@final
@dataclass(frozen=True)
class Classwise(_OfEveryClass):
    """k scalar properties φ_r(y) = 1[y = r] of the reports p^(r), each with its own bins, averaged over r."""

    kind = "classwise"
    notion = "per-class"
    asks = "each class"
    residual_text = "p^(r) − 1[y = r]"
    mean_text = "the mean over classes r of "
    device_shortcut = True
    loss_text = "Brier/k"

    def symbol(self, name: str) -> str:
        return f"Lin{name}^cw"

    def score_unit(self, views: int) -> float:
        return float(views) if views > 2 else 1.0

    def losses_by_label(self, proba: Array, corrected: bool) -> Array:
        return squares(proba) / proba.shape[1]  # type: ignore[no-any-return]  # an array or a tensor

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        return Sample(self.kind, reports, **_outcomes(y), distributions=reports, labels=y, **unit_weights(weights))


@final
@dataclass(frozen=True)
class Full(_OfEveryClass):
    """φ(y) = e_y: the whole distribution at once, with cells for vectors."""

    kind = "full"
    vector = True
    asks = "whole distribution"
    residual_text = "p − e_y"
    loss_text = "Brier"

    def symbol(self, name: str) -> str:
        return f"Lin{name}_full"

    def score_unit(self, views: int) -> float:
        return 1.0 if views > 2 else 0.5

    def losses_by_label(self, proba: Array, corrected: bool) -> Array:
        return squares(proba)

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        about: dict[str, Any] = {"joint": True, "distributions": reports, "labels": y} | unit_weights(weights)
        return Sample(self.kind, reports, **_outcomes(y), **about)


@final
@dataclass(frozen=True)
class Confidence(_OfTopClass, OfDistributions):
    """The probability of the top class (lowest index on ties) against whether it is right: the outcome depends on the
    report, which is why the squared error needs its correction Σ(1 − z)/n²."""

    device_shortcut = True
    asks = "top class"

    def losses_by_label(self, proba: Array, corrected: bool) -> Array:
        return confidence_losses(proba, float(corrected))

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        top, confidence = top_class_and_value(reports)
        if y.ndim == 2:
            right = at_columns(y, top)
            soft: dict[str, Any] = {"values": right, "wrong": 1 - right, "distributions": reports, "labels": y}
            return Sample(self.kind, confidence, **soft, **unit_weights(weights))
        correct = (y.astype(top.dtype, copy=False) if isinstance(y, HOST) else y) == top  # indices of one width: faster
        return self.known(correct, confidence, y, reports, weights)

    def known(
        self, correct: Array, confidence: Array, y: Array, reports: Array, weights: Array | None = None
    ) -> Sample:
        """The sample of rows whose confidence is known, and whether their top class is right."""
        known: dict[str, Any] = {"marks": correct, "wrong": ~correct, "distributions": reports, "labels": y}
        return Sample(self.kind, confidence, **known, **unit_weights(weights))


@final
@dataclass(frozen=True)
class TopLabel(_OfTopClass):
    """Confidence, given whether the top class is correct and its confidence."""

    asks = "top class, given (correct?, confidence)"

    def check(self, y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
        if labels is not None:
            raise ValueError("labels cannot be used: top_label_error takes whether each top class was correct")
        confidence = check_reports(y_proba, "confidence")
        correct = _check_correct(y_true)
        check_same_length(correct=correct, confidence=confidence)
        return correct.astype(bool), confidence

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        return Sample(self.kind, reports, marks=y, wrong=~y, **unit_weights(weights))


def _check_correct(correct: Any) -> Array:
    array = np.asarray(as_array(correct, "correct"))
    if array.ndim != 1:
        raise ValueError(f"correct must be one-dimensional, got shape {array.shape}")
    known = np.isin(array, (0, 1)) if array.dtype.kind in "biuf" else np.zeros(len(array), dtype=np.bool_)
    if not known.all():
        row = int(np.argmin(known))
        raise ValueError(
            "correct must hold only true/false or 1/0, whether the top class was right, and comes before confidence; "
            f"got {array[row]!s} at row {row}"
        )
    return array


@described()
@final
@dataclass(frozen=True, eq=False)
class Linear(OfDistributions):
    """Any linear property: φ maps class j to row j of `phi`, (k,) or (k, d); the report is Σ_r p_r φ(r)."""

    phi: Array
    of_classes = False

    def __init__(self, phi: Any) -> None:
        array = np.asarray(as_array(phi, "phi"))
        if array.dtype.kind not in "biuf" or array.ndim not in (1, 2) or len(array) < 2:
            raise ValueError(f"phi must give each class (two or more) a number or a vector, got shape {array.shape}")
        array = array.astype(np.float64)
        check_size(array, "phi")
        object.__setattr__(self, "phi", array[:, 0] if array.ndim == 2 and array.shape[1] == 1 else array)

    @property
    def kind(self) -> str:  # type: ignore[override]  # known only with phi
        return f"linear with phi {self.phi.tolist()}"

    @property
    def vector(self) -> bool:  # type: ignore[override]  # known only with phi
        return self.phi.ndim == 2

    @property
    def bounds(self) -> Bounds:  # type: ignore[override]  # known only with phi
        low, high = float(self.phi.min()), float(self.phi.max())
        return (low, high) if low < high else (low - 0.5, low + 0.5)

    def drawn(self, labels: Array, classes: int) -> Array:
        return np.asarray(self.phi[labels])

    def losses_by_label(self, proba: Array, corrected: bool) -> Array:
        phi = self.phi.reshape(len(self.phi), -1)
        u = proba @ phi
        return np.asarray(np.einsum("id,id->i", u, u)[:, None] - 2 * u @ phi.T + np.einsum("kd,kd->k", phi, phi))

    def check(self, y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
        y, proba = check_multiclass(y_true, y_proba, labels)
        if proba.shape[1] != len(self.phi):
            raise ValueError(f"phi has {len(self.phi)} classes and y_proba has {proba.shape[1]} columns")
        return y, proba

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        phi = self.phi if isinstance(reports, HOST) else device_backend().like(self.phi, reports)
        return Sample(
            self.kind,
            _mean_values(reports, phi),
            values=phi[y] if y.ndim == 1 else _mean_values(y, phi),
            joint=self.vector,
            bounds=self.bounds,
            distributions=reports,
            labels=y,
            **unit_weights(weights),
        )


def _mean_values(proba: Array, phi: Array) -> Array:
    """Σ_r p_r φ(r), one class after the other: a matrix product may round equal rows differently, and part ties."""
    total: Any = 0.0
    for r, value in enumerate(phi):
        column = proba[:, r].astype(np.float64) if isinstance(proba, np.ndarray) else proba[:, r].double()
        total = total + (column * value if phi.ndim == 1 else column[:, None] * value)
    return total  # type: ignore[no-any-return]  # an array or a tensor


@final
@dataclass(frozen=True)
class Outcomes(Property):
    """A linear property given directly: outcome values φ(y_i) and reports about their expectation, (n,) or (n, d)."""

    range: Bounds | None = None
    vector_valued: bool = False
    kind = "linear"
    of_classes = False

    def direction_property(self) -> Property:
        return self

    @property
    def bounds(self) -> Bounds | None:  # type: ignore[override]  # as given
        return None if self.range is None else check_bounds(self.range)

    @property
    def vector(self) -> bool:  # type: ignore[override]  # known only with the data
        return self.vector_valued

    def check(self, y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
        if labels is not None:
            raise ValueError("labels cannot be used with outcome values")
        return check_pair(y_true, y_proba, self.range)

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        joint = reports.ndim == 2
        return Sample(self.kind, reports, values=y, joint=joint, bounds=self.bounds, **unit_weights(weights))
