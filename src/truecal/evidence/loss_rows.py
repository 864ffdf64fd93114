"""Losses of validated predictions, per row, with what any label would have given."""

from __future__ import annotations

from dataclasses import replace

from ..inference.mean_losses import Losses, Values, given_values, loss_values, view_losses
from ..kinds.inputs import Inputs
from ..kinds.kind import LossTable


def loss_values_of(inputs: Inputs) -> dict[str, Losses]:
    """The losses that are defined for a kind of predictions, by name."""
    found = {}
    for table in inputs.kind.loss_tables(inputs):
        if table.distributions is None:
            assert table.value is not None
            losses = given_values(table.value)
        elif table.value is not None:
            losses = view_losses(table.value, table.distributions, None, table.shares)
        elif table.per_view:
            losses = view_losses(inputs.y, table.distributions, None)
        else:
            losses = loss_values(inputs.y, table.distributions, None, table.by_label)
        found[table.name] = losses if table.soft is None else _of_soft_labels(losses, table, inputs)
    return found


def _of_soft_labels(found: Losses, table: LossTable, inputs: Inputs) -> Losses:
    """Squared losses are distances from the label distribution, not means over its labels."""

    def of(rows: slice) -> Values:
        assert table.soft is not None
        return replace(found.of(rows), value=table.soft.per_row(inputs.y[rows], inputs.reports[rows]))

    return replace(found, of=of)
