"""What the tables of a sample say, summed over their views: the one place where an error meets the backends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays import device_backend, on_device
from ..core.cells import Piece
from ..core.dispatch import DISPATCH, Dispatch
from ..core.rules import BinningRule
from ..core.sample import Sample, Totals
from ..core.table import BinTable, PointSums, TableSums
from .tabulate import map_points, map_tables, measurable


class Raw(NamedTuple):
    """What a raw error is made of."""

    rule: BinningRule
    """The rule at its bin counts."""
    totals: Totals
    averaged: int
    """What sums over views are divided by."""
    moments: list[TableSums]
    """One per bin count."""


def raw_error_sums(error: Any, y_true: Any, y_proba: Any, sample_weight: Any = None, labels: Any = None) -> Raw:
    """What a raw error is made of, from the user's arrays; a GPU checks and sums plain ones in the same pass."""
    if on_device(y_proba):
        quick = device_backend().raw_error_sums(error, y_true, y_proba, sample_weight, labels)
        if quick is not None:
            return Raw(*quick)
    sample = error.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    rule = error.binning.at(sample.rows, sample.views)
    return Raw(rule, sample.totals, sample.averaged, moments(sample, rule, error.ties, error.norm))


def moments(
    sample: Sample,
    rule: BinningRule,
    ties: str,
    norm: str,
    *,
    squares: bool = False,
    cells: Iterable[Piece] | None = None,
    dispatch: Dispatch = DISPATCH,
) -> list[TableSums]:
    """The moments of a sample at each bin count; without `squares` those that a raw error needs, and no more.

    `cells` of the same rule, where they are made already, are read.
    """
    sample = measurable(sample, rule)
    if sample.tensors and not squares and not rule.averages:
        quick = device_backend().raw_moments(sample, rule, ties, norm, dispatch)
        if quick is not None:
            return quick  # type: ignore[no-any-return]  # a module loaded by name
    if rule.averages:
        of_points = PointSums.moments if squares else PointSums.squared_moments
        pieces = [[found] for found in map_points(sample, rule, of_points, cells=cells, dispatch=dispatch)]
    else:
        plain = BinTable.absolute_moments if norm == "l1" else BinTable.squared_moments
        reading = (lambda table: table.moments) if squares else plain
        pieces = map_tables(
            sample,
            rule,
            ties,
            lambda tables: [reading(table) for table in tables],
            squares=squares,
            cells=cells,
            dispatch=dispatch,
        )
    if sample.tensors:
        pieces = device_backend().as_numbers(pieces)
    return [TableSums(*np.sum(column, axis=0).tolist()) for column in zip(*pieces, strict=True)]
