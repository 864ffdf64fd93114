"""Two classes: one probability per row, that of the positive class."""

from __future__ import annotations

from typing import Any

from ..core.arrays import indices
from ..core.data import as_array, both_classes, check_reports, check_weights
from ..core.labels import check_multiclass
from ..core.properties import Binary, Classwise, Confidence, Full, Property
from ..core.types import Array
from .inputs import Inputs, on_host, shape_of
from .kind import Given, Kind, Scale


class BinaryKind(Kind):
    """One column, or two of which the second counts."""

    name = "binary"
    properties = (Binary, Confidence)
    more_properties = (Classwise, Full)
    usual_ece = "binary_l1"
    stream_errors = ("binary", "binary_l1")
    segment_errors = ("binary",)
    wide = False
    one_event = True

    def claims(self, given: Given) -> bool:
        if given.y_true is None or given.task != "auto":
            return False
        shape, labels = shape_of(given.y_proba, "y_proba"), shape_of(given.y_true, "y_true")
        one = len(shape) == 1 and len(labels) == 1
        return one or (len(shape) == 2 and shape[1] == 2 and len(labels) == 1 and not given.columns)

    def read(self, given: Given) -> Inputs:
        given = on_host(given)
        y, proba = as_array(given.y_true, "y_true"), as_array(given.y_proba, "y_proba")
        property = Binary(given.pos_label)
        if proba.ndim == 1:
            marks, reports = property.check(y, proba, given.labels)
        else:
            labels, table = check_multiclass(y, proba, given.labels)
            marks, reports = property.of_two_columns(labels, table, given.labels)
        return Inputs(self, marks, reports, check_weights(given.sample_weight, len(marks)))

    def basics(self, thresholds: tuple[float, ...] = ()) -> tuple[Property, ...]:
        return Binary(), Confidence()

    def fits(self, shape: tuple[int, ...]) -> bool:
        return super().fits(shape) or shape[1:] == (2,)

    def check_reports(self, reports: Any) -> Array:
        if shape_of(reports, "y_proba")[1:] == (2,):
            return super().check_reports(reports)[:, 1].copy()
        return check_reports(reports, "y_proba")

    def unlabelled(self, reports: Array) -> Array:
        return super().unlabelled(reports).astype(bool)

    def of_property(self, property: Property, y: Array, reports: Array) -> tuple[Array, Array]:
        """Properties of every class take both columns."""
        if isinstance(property, (Classwise, Full)):
            return indices(y), both_classes(reports)
        return y, reports

    def n_classes(self, width: int | None) -> int | None:
        return 2

    def says_text(self, predicted: float, observed: float, scale: Scale | None = None) -> str:
        return f"says {predicted:.1%}, happens {observed:.1%}"

    def rates_text(self, predicted: float, observed: float, scale: Scale | None = None) -> str:
        return f"On average it says {predicted:.1%}, and that happens {observed:.1%} of the time"


BINARY = BinaryKind()
