"""What is counted: the errors of each model over edges that are fixed before a label is read, and the parts of a query.

A plan can be written as a text and read again, so that the result of a query says by itself what its sums are of.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, final
from urllib.parse import quote, unquote

import numpy as np

from ...core.data import shown
from ...core.properties import Property
from ...core.types import Array
from ...evidence.stream_losses import LossSums
from ...evidence.stream_plan import StreamEntry, at_rows, read_plan, refuse_other_edges
from ...evidence.stream_state import refuse_size
from ...evidence.stream_table import edges_of
from ...kinds import BINARY, CLASSES, COMPOSED, KINDS, TOP_LABEL, Kind
from ..files import check_applies
from ..saved_stream import read_rule, rule_words
from ..stream import Stream, check_blocks
from .expressions import EVENT, TOP, Columns, Row
from .statements import Histogram, QueryPart

VERSION = 1
DEFAULT_BINS = 20
"""Of squared errors, unless others are asked for: the automatic number grows with the rows, and so do the sums."""


@final
@dataclass(frozen=True)
class Counted:
    """One model: its name, what its predictions are, and the errors measured, each at one bin count."""

    name: str
    kind: Kind
    classes: int
    dtype: str
    entries: tuple[StreamEntry, ...]
    losses: bool = True
    """Whether cross-entropy and the spherical score are summed."""

    @property
    def shape(self) -> tuple[int | None, str]:
        """Classes (None: one number per row) and type of the predictions, as a stream knows them."""
        return (self.classes if self.kind.of_classes else None), self.dtype

    @property
    def n_classes(self) -> int:
        return 1 if self.kind.top_only else self.classes

    def stream(self, blocks: int, rows: int = 0, losses: LossSums | None = None) -> Stream:
        """A stream of these errors, without tables."""
        settings = {"blocks": blocks, "labels": None, "pos_label": 1, "rows": rows, "observed": 0, "shape": self.shape}
        return Stream.restored(self.entries, settings, losses, self.kind)

    def tables(self) -> dict[tuple[str, Any], tuple[Property, Any]]:
        """Every table that is counted: its key, its property, and its cells."""
        return self.stream(0).counted()

    def views_of(self, kind: str) -> list[str]:
        """The views of a property, by name."""
        return [kind] if kind in (TOP, EVENT) else [str(j) for j in range(self.classes)]


@final
@dataclass(frozen=True)
class QueryPlan:
    """All models, and how rows are put into blocks and subgroups."""

    models: tuple[Counted, ...]
    blocks: int
    weighted: bool = False
    by: tuple[str, ...] = ()

    @property
    def frozen(self) -> bool:
        """Whether all edges are known."""
        return not any(_is_open(entry) for model in self.models for entry in model.entries)

    def open_parts(self) -> tuple[QueryPart, ...]:
        """The views whose distributions the first query counts: those of quantile bins, or one, to count the rows."""
        found = []
        for i, model in enumerate(self.models):
            views: dict[str, None] = {}
            for entry in model.entries:
                if entry.open:
                    views |= dict.fromkeys(model.views_of(COMPOSED[entry.name].property.kind))
            found += [QueryPart(i, view) for view in views] or [QueryPart(i, TOP)]
        return tuple(found)

    def freeze(self, parts: Sequence[QueryPart], counts: Sequence[Array], rows: Sequence[int]) -> QueryPlan:
        """The same with edges from the distributions of predictions, for so many rows."""
        models = []
        for i, model in enumerate(self.models):
            if not rows[i]:
                raise ValueError("expected at least one row, the table has none")
            found = {part.view: count for part, count in zip(parts, counts, strict=True) if part.model == i}
            entries = at_rows(model.entries, rows[i], model.n_classes)
            refuse_size(entries, self.blocks, model.n_classes)
            frozen = []
            for entry in entries:
                kind = COMPOSED[entry.name].property.kind
                views = tuple(found[view] for view in model.views_of(kind)) if entry.open else ()
                frozen.append(entry.freeze(Histogram(views)) if entry.open else entry)
            models.append(replace(model, entries=tuple(dict.fromkeys(frozen))))
        return replace(self, models=tuple(models))

    def parts(self) -> tuple[QueryPart, ...]:
        """The group-bys of the second query: each view once, cut at the edges of all errors."""
        found = []
        for i, model in enumerate(self.models):
            cuts: dict[str, set[float]] = {"confidence": set()}
            for (kind, _), (_, rule) in model.tables().items():
                edges = np.atleast_2d(edges_of(rule, (0.0, 1.0), np.dtype(model.dtype))).astype(np.float64)
                if (edges[:, 0] > 0).any() or (edges[:, -1] < 1).any():
                    raise ValueError(f"edges must run from 0 to 1, got {edges[0, 0]:g} to {edges[0, -1]:g}")
                views = model.views_of(kind)
                for j, view in enumerate(views):
                    inner = edges[j if len(edges) > 1 else 0, 1:-1]
                    cuts.setdefault(view, set()).update(inner.tolist())
            found += [QueryPart(i, view, tuple(sorted(values))) for view, values in cuts.items()]
        return tuple(found)

    # -- as a text --------------------------------------------------------------------------------------------------

    def to_text(self) -> str:
        """JSON without quotes, backslashes or letters that an engine might read otherwise in a literal."""
        models = [
            [
                _safe(m.name),
                m.kind.name,
                m.classes,
                m.dtype,
                m.losses,
                [[e.name, rule_words(e.rule), e.n_bins] for e in m.entries],
            ]
            for m in self.models
        ]
        about = {"truecal": VERSION, "models": models, "blocks": self.blocks, "weighted": self.weighted}
        return json.dumps(about | {"by": [_safe(name) for name in self.by]}, separators=(",", ":"))

    @staticmethod
    def of_text(text: str) -> QueryPlan:
        """The plan that `to_text` wrote; anything else is refused."""
        try:
            about = json.loads(text)
            version = about["truecal"]
        except (ValueError, TypeError, KeyError) as error:
            raise ValueError(f"the row of part -1 must hold the plan of the query, got {shown(text)}") from error
        if version != VERSION:
            raise ValueError(f"the sums are of version {shown(version)}, expected {VERSION}: make the query again")
        try:
            models = tuple(
                Counted(
                    unquote(name), _kind(kind), _few(classes), str(np.dtype(dtype)), _entries(entries), bool(losses)
                )
                for name, kind, classes, dtype, losses, entries in about["models"]
            )
            blocks, weighted = check_blocks(about["blocks"]), bool(about["weighted"])
            by = tuple(unquote(name) for name in about["by"])
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"the plan of the query, in the row of part -1, is damaged: {error}") from error
        if not models:
            raise ValueError("the plan of the query, in the row of part -1, has no models")
        for model in models:
            refuse_size(model.entries, blocks, model.n_classes)
        return QueryPlan(models, blocks, weighted, by)


def plan_of(
    rows: Sequence[Row],
    names: Sequence[str],
    columns: Columns,
    errors: Sequence[str] | None,
    n_bins: Any,
    edges: Any,
    blocks: int,
) -> QueryPlan:
    """What is counted of some models; quantile edges may still be open. `columns` are named as the user names them."""
    models = []
    for row, name in zip(rows, names, strict=True):
        wanted = tuple(errors or row.kind.stream_errors)
        check_applies(wanted, row.kind)
        refuse_other_edges(edges, wanted)
        entries: list[StreamEntry] = []
        for error in wanted:
            if COMPOSED[error].property.vector:
                raise ValueError(
                    f"{error!r} needs cells for whole distributions, which no group-by has; use 'classwise'"
                )
            entries += read_plan(error, _bins(error, n_bins, edges), edges)
        models.append(Counted(str(name), row.kind, row.classes, row.dtype, tuple(dict.fromkeys(entries)), row.losses))
    return QueryPlan(tuple(models), check_blocks(blocks), columns.weight is not None, columns.by)


def _bins(error: str, n_bins: Any, edges: Any) -> Any:
    """The bins asked for; by default 20, and 15 of the usual ECE. Given edges have theirs."""
    given = edges is not None and not isinstance(edges, str)
    if n_bins is None:
        return None if given or COMPOSED[error].norm == "l1" else DEFAULT_BINS
    return None if isinstance(n_bins, str) and COMPOSED[error].norm == "l1" else n_bins


def _is_open(entry: StreamEntry) -> bool:
    return entry.open or getattr(entry.rule, "n_bins", None) == "auto"


def _safe(name: str) -> str:
    return quote(name, safe=" ()=,.")


def _kind(name: Any) -> Kind:
    if name not in (BINARY.name, CLASSES.name, TOP_LABEL.name):
        raise ValueError(f"kind {shown(name)}")
    return KINDS[name]


def _few(classes: Any) -> int:
    if not isinstance(classes, int) or not 1 <= classes <= 1 << 20:
        raise ValueError(f"classes {shown(classes)}")
    return classes


def _entries(words: Any) -> tuple[StreamEntry, ...]:
    found = tuple(StreamEntry(name, read_rule(rule), n_bins) for name, rule, n_bins in words)
    for entry in found:
        if entry.name not in COMPOSED or COMPOSED[entry.name].property.vector or _is_open(entry):
            raise ValueError(f"error {shown(entry.name)}")
    if not found:
        raise ValueError("no errors")
    return found
