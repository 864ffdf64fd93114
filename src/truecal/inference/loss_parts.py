"""The loss part of an error: the losses of its rows for every label, and how their mean varies together with U."""

from __future__ import annotations

from functools import partial

import numpy as np

from ..core.types import Array, Groups
from .binned_sample import BinnedSample
from .checks import per_unit
from .mean_losses import (
    IntervalEstimate,
    Losses,
    given_values,
    loss_values,
    top_label_table,
    top_label_values,
    view_losses,
)
from .spread import Spread


def own_losses(frozen: BinnedSample, other: BinnedSample | None = None) -> Losses:
    """Return the associated losses of one model, or first minus second, with the range that labels can give."""
    a, b = frozen.sample, None if other is None else other.sample
    property, corrected = frozen.error.property, bool(frozen.error.corrected)
    second = None if b is None else b.reports
    if a.labels is None and a.marks is not None:  # one probability per row, of one event or of a model's top class
        if b is not None and b.marks is not None and property.picks_outcome:
            return top_label_values((a.marks, b.marks), (a.reports, b.reports), float(corrected))
        return loss_values(a.marks, a.reports, second, lambda p: top_label_table(p[:, 1], float(corrected)))
    if property.label_by_label:
        assert a.values is not None
        if not property.corrects:
            return view_losses(a.values, a.reports, second)
        rows = a.loss(corrected) - (0.0 if b is None else b.loss(corrected))
        return view_losses(rows, a.reports, second, a.shares)
    if a.labels is None or a.distributions is None:
        return given_values(a.loss() if b is None else a.loss() - b.loss())
    return loss_values(
        a.labels,
        a.distributions,
        None if b is None else b.distributions,
        partial(property.losses_by_label, corrected=corrected),
    )


def with_losses(loss: IntervalEstimate, influence: Array, spread: Spread, level: float) -> tuple[float, float, float]:
    """Return the distances to the low and the high end, and the se, of loss + U or of loss + gap²."""
    se = joint_se(influence, spread)
    half = spread.quantile(level) * se
    return -max(half, loss.estimate - loss.low), max(half, loss.high - loss.estimate), se


def joint_se(influence: Array, spread: Spread) -> float:
    """The standard error of loss + U or of loss + gap²: both vary together, row by row.

    The jackknife's variance of the sum counts the part of U that is there under calibration twice; one is taken off.
    """
    v = spread.variances()[0]
    return float(np.sqrt(max(float(((influence + 2 * spread.centred) ** 2).sum()) - v, v)))


def loss_influence(frozen: BinnedSample, groups: Groups | None, power: int) -> Array:
    """Return the centred influence of each unit on a mean loss weighted by w (power 1) or w² (2)."""
    losses = frozen.sample.loss(bool(frozen.error.corrected))
    w = frozen.sample.row_weights**power
    return per_unit(w * (losses - w @ losses / w.sum()) / w.sum(), groups)
