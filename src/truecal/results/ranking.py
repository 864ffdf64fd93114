"""Orders of models: ranks, flips between bin counts, the dominance order and its longest chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.data import as_array, row_blocks
from ..core.extras import require
from ..core.result import Result
from ..core.types import Array

ECE_NAMES = ("confidence_l1", "top_label_l1", "binary_l1")
"""The errors that people call ECE."""
ROUNDING = 1e-6
"""Relative difference up to which two values are one: copies of a model in single and double precision differ by about
1e-7, which is no order; differences that mean anything are thousands of times larger."""
_BLOCK_ENTRIES = 1 << 20  # pairs of models compared at a time, so that the temporaries stay in cache


@dataclass(frozen=True, repr=False, eq=False)
class Dominance(Result):
    """A partial order of models by several losses, and its longest chain.

    order[i, j]: model i is no larger than model j on every loss and smaller on at least one. `chain` holds the indices
    of a longest chain of that order, best model first.
    """

    order: NDArray[np.bool_]
    chain: tuple[int, ...]
    names: tuple[str, ...]

    @property
    def chain_names(self) -> tuple[str, ...]:
        """The chain by name, best model first."""
        return tuple(self.names[i] for i in self.chain)

    @property
    def n_models(self) -> int:
        return len(self.order)

    @property
    def comparable(self) -> float:
        """The share of pairs of models that the order decides; 1 for a single model."""
        pairs = self.n_models * (self.n_models - 1) // 2
        return float(np.count_nonzero(self.order) / pairs) if pairs else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Names, the order as rows of booleans, and the chain as names."""
        return {"names": list(self.names), "order": self.order.tolist(), "chain": list(self.chain_names)}

    def to_pandas(self) -> Any:
        """The order as a frame: row dominates column."""
        pd = require("pandas", "pandas")
        return pd.DataFrame(self.order, index=list(self.names), columns=list(self.names))

    def __repr__(self) -> str:
        shown = " < ".join(self.chain_names[:8]) + (" < ..." if len(self.chain) > 8 else "")
        decided = f"{self.comparable:.0%} of pairs comparable"
        return f"Dominance of {self.n_models} models: {decided}, longest chain of {len(self.chain)}: {shown}"


def dominance(losses: Any) -> Dominance:
    """The dominance order of models and its longest chain: i before j when no loss of i is larger and one is smaller.

    `losses` is (n_models, n_losses), or {name: losses of that model}. Infinite losses are allowed, NaN is not. Of
    several longest chains the one whose models come first in lexicographic order of their losses is taken, found from
    its worst model backwards, so the answer depends on the order of rows only among models with identical losses.

    >>> import truecal as tc
    >>> result = tc.analysis.dominance({"a": [.1, .3], "b": [.2, .4], "c": [.3, .2], "d": [.4, .5]})
    >>> result.chain_names
    ('a', 'b', 'd')
    >>> bool(result.order[0, 2])
    False
    """
    values, names = _read_losses(losses)
    order = _dominates(values)
    return Dominance(order, _longest_chain(values, order), names)


def _read_losses(losses: Any) -> tuple[Array, tuple[str, ...]]:
    names: tuple[str, ...] | None = None
    if isinstance(losses, Mapping):
        names = tuple(str(name) for name in losses)
        rows = [np.atleast_1d(as_array(row, f"losses[{name!r}]")) for name, row in losses.items()]
        widths = {name: row.shape for name, row in zip(names, rows, strict=True)}
        if len(set(widths.values())) > 1:
            raise ValueError(f"every model needs the same losses, got shapes {widths}")
        losses = np.stack(rows) if rows else np.empty((0, 0))
    values = as_array(losses, "losses")
    if values.dtype.kind not in "biuf":
        raise TypeError(f"losses must hold numbers, got dtype {values.dtype}")
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"losses must have shape (n_models, n_losses) and not be empty, got shape {values.shape}")
    values = values.astype(np.float64)
    if np.isnan(values).any():
        row, column = np.argwhere(np.isnan(values))[0]
        raise ValueError(f"losses has NaN at row {row}, column {column}; a missing loss cannot be compared")
    return values, names or tuple(str(i) for i in range(len(values)))


def _dominates(values: Array) -> NDArray[np.bool_]:
    """No larger on all losses, and not the other way round too (which would mean equal losses)."""
    n = len(values)
    no_larger = np.ones((n, n), dtype=bool)
    columns = np.ascontiguousarray(values.T)
    for rows in row_blocks(n, n, _BLOCK_ENTRIES):
        for column in columns:
            no_larger[rows] &= column[rows, None] <= column[None, :]
    return no_larger & ~no_larger.T


def _longest_chain(values: Array, order: NDArray[np.bool_]) -> tuple[int, ...]:
    """Longest path in a transitive order, models taken in lexicographic order of their losses.

    A dominating model comes strictly first in that order, with no rounding (a sum of losses could tie, or be infinite).
    """
    sequence = np.lexsort(values.T[::-1])
    sorted_order = order[np.ix_(sequence, sequence)]
    length = np.ones(len(sequence), dtype=np.intp)
    for j in range(1, len(sequence)):
        length[j] = 1 + np.max(length[:j], where=sorted_order[:j, j], initial=0)
    place = int(np.argmax(length))
    chain = [place]
    while length[place] > 1:
        candidates = sorted_order[:place, place] & (length[:place] == length[place] - 1)
        place = int(np.argmax(candidates))
        chain.append(place)
    return tuple(int(sequence[i]) for i in reversed(chain))


def ranks(values: Any) -> Array:
    """Ranks along the last axis, 1 for the smallest; exactly equal values share the average of their ranks.

    >>> from truecal.results.ranking import ranks
    >>> ranks([.3, .1, .3, .2]).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    table = np.asarray(values, dtype=np.float64)  # scipy.stats has this too, but takes half a second to load
    order = np.argsort(table, axis=-1, kind="stable")
    ordered = np.take_along_axis(table, order, -1)
    place, new = np.arange(table.shape[-1]), np.ones(table.shape, dtype=np.bool_)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    first = np.maximum.accumulate(np.where(new, place, 0), axis=-1)
    new[..., :-1], new[..., -1:] = new[..., 1:], True
    last = np.minimum.accumulate(np.where(new, place, len(place))[..., ::-1], axis=-1)[..., ::-1]
    found = np.full(table.shape, np.nan)
    np.put_along_axis(found, order, 1 + (first + last) / 2, -1)
    found[np.isnan(table).any(axis=-1)] = np.nan
    return found


def tied(values: Any) -> Array:
    """The values, with those along the last axis that differ by rounding alone set to the smallest of them.

    Neighbours in sorted order are one when they differ by at most `ROUNDING` times the larger magnitude.

    >>> from truecal.results.ranking import tied
    >>> tied([.3, .1, .3 + 1e-9]).tolist()
    [0.3, 0.1, 0.3]
    """
    table = np.asarray(values, dtype=np.float64)
    order = np.argsort(table, axis=-1, kind="stable")
    ordered = np.take_along_axis(table, order, -1)
    low, high = ordered[..., :-1], ordered[..., 1:]
    # Infinite values equal each other and nothing else; a difference or a multiple of them would say otherwise.
    larger = np.maximum(abs(low), abs(high))
    apart = (low < high) & (np.isinf(larger) | (low + ROUNDING * larger < high))
    start = np.zeros(table.shape, dtype=np.intp)
    start[..., 1:] = np.maximum.accumulate(np.where(apart, np.arange(1, table.shape[-1]), 0), axis=-1)
    found = np.empty_like(table)
    np.put_along_axis(found, order, np.take_along_axis(ordered, start, -1), -1)
    return found


def flips(values: Any) -> NDArray[np.intp]:
    """Pairs of models that change places between bin counts: an (f, 2) array of indices i < j.

    values[b, i] is the error of model i at bin count b. A pair flips when i is strictly below j at one count and
    strictly above at another; values that are equal, or differ by at most 1e-6 of their size, are no flip.

    >>> from truecal.results.ranking import flips
    >>> flips([[.1, .2, .3], [.2, .1, .3]]).tolist()
    [[0, 1]]
    """
    table = tied(values)
    n = table.shape[1]
    found = []
    for rows in row_blocks(n, n, _BLOCK_ENTRIES):
        below = np.zeros((rows.stop - rows.start, n), dtype=bool)
        above = below.copy()
        for counted in table:
            below |= counted[rows, None] < counted[None, :]
            above |= counted[rows, None] > counted[None, :]
        i, j = np.nonzero(below & above)
        keep = i + rows.start < j
        found.append(np.column_stack([i[keep] + rows.start, j[keep]]))
    return np.concatenate(found).astype(np.intp)
