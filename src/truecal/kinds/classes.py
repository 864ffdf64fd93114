"""Classes without an order, three or more: a distribution over them per row."""

from __future__ import annotations

from ..core.data import as_array, check_weights
from ..core.labels import check_multiclass
from ..core.properties import Classwise, Confidence, Full, Property
from ..core.types import Array
from .inputs import Inputs, on_host
from .kind import Given, Kind
from .ordered import Cumulative
from .top_label import TopPredictions


class ClassesKind(Kind):
    """A column per class; two columns where the labels are distributions or columns=True."""

    name = "multiclass"
    properties: tuple[type[Property], ...] = (Classwise, Confidence, Full)
    more_properties = (Cumulative,)
    stream_errors: tuple[str, ...] = ("classwise", "confidence", "confidence_l1")
    segment_errors = ("confidence", "classwise")
    of_classes = True
    over_classes = True

    def claims(self, given: Given) -> bool:
        return given.task == "auto" and given.y_true is not None and not isinstance(given.y_proba, TopPredictions)

    def read(self, given: Given) -> Inputs:
        given = on_host(given)
        y, proba = as_array(given.y_true, "y_true"), as_array(given.y_proba, "y_proba")
        y, proba = check_multiclass(y, proba, given.labels)
        return Inputs(self, y, proba, check_weights(given.sample_weight, len(y)))

    def basics(self, thresholds: tuple[float, ...] = ()) -> tuple[Property, ...]:
        return (Confidence(),)

    def confidence(self, reports: Array) -> Array:
        top: Array = reports.max(axis=1)
        return top


CLASSES = ClassesKind()
