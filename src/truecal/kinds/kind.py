"""Kind: what predictions are, with everything that depends on it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import on_cpu
from ..core.data import check_probabilities
from ..core.losses import LOSSES, Loss
from ..core.properties import Property
from ..core.types import Array

if TYPE_CHECKING:
    from .inputs import Inputs


@dataclass(frozen=True)
class Given:
    """The arguments of `evaluate` that determine the kind of predictions."""

    y_true: Any
    y_proba: Any
    labels: Any = None
    pos_label: Any = 1
    sample_weight: Any = None
    columns: bool = False
    """Whether two columns are two classes, not one probability."""
    task: str = "auto"
    thresholds: Any = None
    horizons: Any = None
    survival: bool = False
    """Whether predictions are survival functions, not risks."""
    censoring_by: Any = None
    """The strata within which censoring is estimated."""


@dataclass(frozen=True)
class LossTable:
    """A loss of every row for every label that could have come, for intervals of its mean."""

    name: str
    distributions: Array | None
    """(n, k): the chances of the labels; (n,): that of the second of two. None where losses alone are known."""
    by_label: str | Callable[[Array], Array]
    """(n, k) losses from distributions, or the name of a loss that has compiled loops."""
    soft: Loss | None = None
    """Where labels are distributions: the loss, whose value per row is no mean over labels."""
    per_view: bool = False
    """Whether the loss is the mean squared distance over columns that depend on each other in unknown ways."""
    value: Array | None = None
    """The losses of the rows, where outcomes have weights."""
    shares: Array | None = None
    """What each column counts in their mean, 1 on average."""


@dataclass(frozen=True)
class Scale:
    """The outcomes that the lowest and the highest place on a scale are, and what they are called."""

    low: float
    high: float
    about: str = ""

    def texts(self, *places: float) -> list[str]:
        """Places from 0 to 1 in the units of outcomes, to a thousandth of the scale."""
        digits = max(0, 3 - math.ceil(math.log10(self.high - self.low)))
        return [f"{self.low + place * (self.high - self.low):.{digits}f}" for place in places]

    def says_text(self, predicted: float, observed: float) -> str:
        """The mean prediction and outcome in the units of outcomes."""
        said, came = self.texts(predicted, observed)
        return f"says {said} on average, happens {came}{self.about}"


class Kind(ABC):
    """Abstract: a kind of prediction. It reads input and names properties, losses, the usual ECE and words."""

    name: str
    """As results and states call it."""
    properties: tuple[type[Property], ...]
    """What `evaluate` checks: every error of these properties is measured."""
    more_properties: tuple[type[Property], ...] = ()
    """What is checked as well where an error of it is named."""
    task: str | None = None
    """The value of task= that asks for this kind, where input alone does not tell."""
    also_called: tuple[str, ...] = ()
    """Other values of task= that ask for it."""
    usual_ece: str | None = "confidence_l1"
    """The error that people call ECE for these predictions, where they have one."""
    stream_errors: tuple[str, ...] = ()
    """The errors that streams, files, clusters and SQL measure where none are named."""
    segment_errors: tuple[str, ...] = ()
    """The errors by which segments are tested, the first by default."""
    wide = True
    """Whether predictions have a column per class, label or threshold, not one number per row."""
    of_classes = False
    """Whether predictions are distributions over classes without an order, two or more."""
    over_classes = False
    """Whether each row is a distribution over classes, ordered or not, one per column."""
    class_losses = True
    """Whether the losses of distributions over classes apply."""
    one_event = False
    """Whether predictions are the probability of one event."""
    top_only = False
    """Whether only the top class is known: right or wrong, and its confidence."""
    ranks_confidence = True
    """Whether each row has a top class that may be right, in the order of whose confidence rows are accepted."""
    row_signs = False
    """Whether outcomes cannot be drawn from predictions: tests flip the signs of residuals."""
    takes_thresholds = False
    """Whether outcomes are numbers, compared with thresholds."""
    note = ""
    """A note that every result of this kind has."""
    columns = "classes"
    """What the columns of predictions are."""
    row_word = "samples"
    """What rows are."""

    @abstractmethod
    def claims(self, given: Given) -> bool:
        """Whether the arguments are predictions of this kind."""

    @abstractmethod
    def read(self, given: Given) -> Inputs:
        """Validate the arguments."""

    @abstractmethod
    def basics(self, thresholds: tuple[float, ...] = ()) -> tuple[Property, ...]:
        """The properties whose sums give the direction (the first) and the accuracy."""

    def checks(self, property: Property, *, if_named: bool = False) -> bool:
        """Whether errors of a property are measured by default, or may be named."""
        return isinstance(property, (*self.properties, *(self.more_properties if if_named else ())))

    def measures(self, errors: Mapping[str, Any], *, if_named: bool = False) -> tuple[str, ...]:
        """The names of the errors that are measured by default, or may be named."""
        properties = (*self.properties, *(self.more_properties if if_named else ()))
        return tuple([name for name, error in errors.items() if isinstance(error.property, properties)])

    def check_reports(self, reports: Any) -> Array:
        """Predictions without labels, validated."""
        return np.asarray(check_probabilities(reports))

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether predictions have a shape that this kind can have."""
        return len(shape) == (2 if self.wide else 1)

    def read_batch(self, given: Given) -> Inputs:
        """One batch of a stream of this kind."""
        return self.read(given)

    def unlabelled(self, reports: Array) -> Array:
        """Outcomes in the form that predictions of this kind need, for what looks at predictions alone."""
        return np.zeros(len(reports), dtype=np.intp)

    def of_property(self, property: Property, y: Array, reports: Array) -> tuple[Array, Array]:
        """Validated predictions as a property takes them."""
        return y, reports

    def outcomes(self, y: Array) -> list[Array]:
        """What is known of outcomes, each as one value per row."""
        return [np.asarray(on_cpu(y))]

    def n_classes(self, width: int | None) -> int | None:
        """The number of classes, labels or thresholds of predictions with so many columns, None where unknown."""
        return width

    def confidence(self, reports: Array) -> Array:
        """One probability per row, for sample sizes: that of the top class or of the event."""
        return reports

    def losses(self) -> dict[str, Loss]:
        """The losses that are defined here, by name."""
        return LOSSES

    def loss_tables(self, inputs: Inputs) -> Iterator[LossTable]:
        """Every loss that is defined here."""
        for name, loss in self.losses().items():
            table = name if name in LOSSES else loss.by_label
            yield LossTable(name, inputs.reports, table, loss if inputs.soft else None)

    def scale(self, thresholds: tuple[float, ...], labels: Sequence[str] | None, classes: int) -> Scale | None:
        """What the mean place on a scale from 0 to 1 is in the units of outcomes, where they have an order."""
        return None

    def says_text(self, predicted: float, observed: float, scale: Scale | None = None) -> str:
        """The means of prediction and outcome, for the first screen."""
        return f"says {predicted:.1%}, is right {observed:.1%}"

    def rates_text(self, predicted: float, observed: float, scale: Scale | None = None) -> str:
        """The same as a sentence."""
        if scale is not None:
            said, came = scale.texts(predicted, observed)
            return f"On average it says {said}, and the outcome is {came}{scale.about}"
        return f"On average it says {predicted:.1%} and is right {observed:.1%} of the time"

    def width_text(self, n_classes: int | None) -> str:
        """How wide predictions are, such as "3 classes"."""
        return f"{n_classes} {self.columns}"

    def view_names(self, thresholds: Sequence[float], labels: Sequence[str] | None) -> tuple[str, ...] | None:
        """The names of the columns, as texts."""
        return None if labels is None else tuple(labels)

    def __repr__(self) -> str:
        return self.name


KINDS: dict[str, Kind] = {}
"""Every kind by name, in the order in which errors that fit several kinds choose one."""


def register(kind: Kind) -> Kind:
    """Add a kind, so that `evaluate`, streams, files and reports know it."""
    KINDS[kind.name] = kind
    return kind


def tasks() -> dict[str, str]:
    """The values of task=, and the name of the task that each asks for."""
    known = [(kind.task, kind.also_called) for kind in KINDS.values() if kind.task is not None]
    return {"auto": "auto"} | {name: task for task, others in known for name in (task, *others)}


def ece_names() -> tuple[str, ...]:
    """The errors that people call ECE, of every kind."""
    return tuple(dict.fromkeys([kind.usual_ece for kind in KINDS.values() if kind.usual_ece is not None]))
