"""Ordered classes: the probability of each class or a lower one, against whether one of them came."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.arrays import LIBRARY, doubled, to_device_of
from ..core.data import as_array, check_weights
from ..core.labels import check_multiclass
from ..core.losses import LOSSES, Loss, define_loss
from ..core.properties import Classwise, Confidence, Full, OfDistributions, Property
from ..core.sample import Sample, unit_weights
from ..core.types import Array
from .inputs import Inputs, on_host
from .kind import Given, Kind, Scale

ON_SCALE = " on the scale"


class OfScale(OfDistributions):
    """Abstract: a property of outcomes that have an order."""

    place = ON_SCALE
    in_order = True


@final
@dataclass(frozen=True)
class Cumulative(OfScale):
    """k − 1 views of k classes in their order: the probability of class j or below, against 1[y ≤ j], averaged over j.

    The loss, summed over j, is the ranked probability score (Epstein 1969).
    """

    kind = "cumulative"
    per_view = True
    loss_name = "rps"
    notion = "per-threshold"
    asks = "each class or below, in their order"
    residual_text = "P(class j or below) − 1[y ≤ j]"
    mean_text = "the mean over j of "
    loss_text = "RPS/(k − 1)"

    def symbol(self, name: str) -> str:
        return f"Lin{name}_ordinal"

    def views(self, classes: int) -> int:
        return classes - 1

    def score_unit(self, views: int) -> float:
        return float(views)

    def direction_property(self) -> Property:
        return Position()

    def view_name(self, j: int, names: Sequence[str] | None = None) -> str:
        return f"{super().view_name(j, names)} or below"

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        about: dict[str, Any] = {"distributions": reports, "labels": y} | unit_weights(weights)
        return Sample(self.kind, below(reports), values=came_below(y, reports), **about)

    def drawn(self, labels: Array, classes: int) -> Array:
        return np.asarray(labels[..., None] <= np.arange(classes - 1))

    def losses_by_label(self, proba: Array, corrected: bool) -> Array:
        return threshold_losses(below(proba))


def below(proba: Array) -> Array:
    """(n, k − 1): the probability of class j or below."""
    sums: Array = doubled(proba).cumsum(1)[:, :-1]
    return sums.clip(0.0, 1.0)


def came_below(y: Array, proba: Array) -> Array:
    """(n, k − 1): whether class j or one below came, or how much of a label distribution."""
    if y.ndim == 2:
        return below(y)
    steps = LIBRARY[type(proba)].arange(proba.shape[1] - 1, device=y.device)
    return doubled(y[:, None] <= steps)  # type: ignore[no-any-return]  # an array or a tensor


def threshold_losses(u: Array, shares: Array | None = None) -> Array:
    """(n, k): the mean over thresholds of (u_t − 1[j ≤ t])² for each label j, of reports u (n, k − 1)."""
    w = np.ones(u.shape[1]) if shares is None else shares
    above = np.cumsum((w * (1 - 2 * u))[:, ::-1], axis=1)[:, ::-1]
    steps = np.concatenate([above, np.zeros((len(u), 1))], axis=1)
    return np.asarray((np.einsum("ij,ij,j->i", u, u, w)[:, None] + steps) / u.shape[1])


@final
@dataclass(frozen=True)
class Position(OfScale):
    """The mean place on the scale, from 0 for the lowest class to 1 for the highest: what "too high" is about.

    `widths` are the distances between neighbours on the scale, 1 on average; empty where all are the same.
    """

    widths: tuple[float, ...] = ()
    kind = "position"
    of_classes = False

    def direction_property(self) -> Property:
        return self

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        u = below(reports)
        width = to_device_of(np.asarray(self.widths or [1.0] * u.shape[1]), u)
        # Var y = Σ_s Σ_t w_s w_t (S(max) − S(s)S(t)) = Σ_t w_t (w_t + 2 Σ_{s<t} w_s) S_t − (Σ_t w_t S_t)², S = 1 − F
        over = 1.0 - u
        mean = (over * width).sum(1)
        variance = (over * width * (2 * width.cumsum(0) - width)).sum(1) - mean * mean
        scale = u.shape[1]
        return Sample(
            self.kind,
            mean / scale,
            values=1.0 - (came_below(y, reports) * width).sum(1) / scale,
            variance=variance.clip(0.0) / scale**2,
            distributions=reports,
            labels=y,
            **unit_weights(weights),
        )


@define_loss(lambda p: Cumulative().losses_by_label(p, False) * (p.shape[1] - 1))
def rps(y: Array, proba: Array) -> Array:
    """Σ_j (P(class j or below) − 1[y ≤ j])², the ranked probability score of ordered classes.

    >>> import truecal as tc
    >>> round(tc.losses.rps([0], [[.8, .1, .1]]), 6), round(tc.losses.rps([0], [[.8, 0, .2]]), 6)
    (0.05, 0.08)
    """
    return Cumulative().sample(y, proba).residual_sq


class OrderedKind(Kind):
    """A column per class, in their order."""

    name = "ordered"
    task = "ordered"
    also_called = ("ordinal",)
    over_classes = True
    properties = (Cumulative, Confidence)
    more_properties = (Classwise, Full)
    stream_errors = ("ordinal", "confidence_l1")
    segment_errors = ("ordinal",)

    def claims(self, given: Given) -> bool:
        return given.task == self.task

    def read(self, given: Given) -> Inputs:
        if given.y_true is None or hasattr(given.y_proba, "confidence"):
            raise ValueError("task='ordered' needs the probabilities of all classes, not only of the top one")
        given = on_host(given)
        y, proba = as_array(given.y_true, "y_true"), as_array(given.y_proba, "y_proba")
        y, proba = check_multiclass(y, proba, given.labels)
        return Inputs(self, y, proba, check_weights(given.sample_weight, len(y)))

    def basics(self, thresholds: tuple[float, ...] = ()) -> tuple[Property, ...]:
        return Position(), Confidence()

    def losses(self) -> dict[str, Loss]:
        return {"rps": rps, **LOSSES}

    def scale(self, thresholds: tuple[float, ...], labels: Sequence[str] | None, classes: int) -> Scale | None:
        """Labels that are numbers in equal steps are the scale; others are counted from 0."""
        if labels is None:
            return Scale(0.0, classes - 1.0, f" (classes 0 to {classes - 1})")
        try:
            numbers = [float(label) for label in labels]
        except ValueError:
            numbers = []
        steps = np.diff(numbers)
        if len(steps) and steps[0] > 0 and np.allclose(steps, steps[0]):
            return Scale(numbers[0], numbers[-1])
        return Scale(1.0, float(classes), f" (1 is {labels[0]}, {classes} is {labels[-1]})")

    def says_text(self, predicted: float, observed: float, scale: Scale | None = None) -> str:
        if scale is None:
            return super().says_text(predicted, observed)
        return scale.says_text(predicted, observed)


ORDERED = OrderedKind()
