"""The top class alone: whether it is right, and its confidence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.arrays import on_cpu
from ..core.data import check_reports, check_weights
from ..core.parameters import described
from ..core.properties import Property, TopLabel
from ..core.types import Array
from .inputs import Inputs
from .kind import Given, Kind, LossTable


@described()
@dataclass(frozen=True, eq=False)
class TopPredictions:
    """Predictions of which only the top class is known: whether it is right, and its confidence."""

    correct: Any
    confidence: Any

    @property
    def error(self) -> str:
        """The name of the error that measures them by default."""
        return TOP_LABEL.segment_errors[0]


def _confidence_losses(p: Array) -> Array:
    """(n, 2): the confidence loss if the top class is wrong, and if it is right."""
    return np.column_stack([1 + p[:, 1] ** 2, (1 - p[:, 1]) ** 2])


class TopLabelKind(Kind):
    """Rows of (correct, confidence)."""

    name = "top_label"
    properties = (TopLabel,)
    usual_ece = "top_label_l1"
    stream_errors = ("top_label", "top_label_l1")
    segment_errors = ("top_label",)
    wide = False
    class_losses = False
    top_only = True
    note = "only the top class is known: only confidence errors and two losses apply"

    def claims(self, given: Given) -> bool:
        if given.task != "auto":
            return False
        return isinstance(given.y_proba, TopPredictions) or given.y_true is None

    def read(self, given: Given) -> Inputs:
        top = given.y_proba
        if not isinstance(top, TopPredictions):
            if not (isinstance(top, tuple) and len(top) == 2):
                raise TypeError("y_true is None: y_proba must be TopPredictions(correct, confidence), or such a pair")
            top = TopPredictions(*top)
        return self._read(top.correct, top.confidence, given.sample_weight)

    def read_batch(self, given: Given) -> Inputs:
        return self._read(given.y_true, given.y_proba, given.sample_weight)

    def _read(self, correct: Any, confidence: Any, sample_weight: Any) -> Inputs:
        right, chances = TopLabel().check(on_cpu(correct), on_cpu(confidence))
        return Inputs(self, right, chances, check_weights(sample_weight, len(chances)))

    def basics(self, thresholds: tuple[float, ...] = ()) -> tuple[Property, ...]:
        return (TopLabel(),)

    def check_reports(self, reports: Any) -> Array:
        return check_reports(reports, "y_proba")

    def unlabelled(self, reports: Array) -> Array:
        return super().unlabelled(reports).astype(bool)

    def n_classes(self, width: int | None) -> int | None:
        return None

    def loss_tables(self, inputs: Inputs) -> Iterator[LossTable]:
        """The columns of the tables are a wrong and a right top class."""
        wrong = np.array([1.0, 0.0])
        yield LossTable("classification_error", inputs.reports, lambda p: np.tile(wrong, (len(p), 1)))
        yield LossTable("confidence_loss", inputs.reports, _confidence_losses)

    def width_text(self, n_classes: int | None) -> str:
        return "top class only"


TOP_LABEL = TopLabelKind()


class SampledAnswersKind(TopLabelKind):
    """Questions that were answered several times: the share of an answer is its confidence (`from_samples`)."""

    name = "sampled_answers"
    row_word = "questions"

    def claims(self, given: Given) -> bool:
        return False


SAMPLED_ANSWERS = SampledAnswersKind()
