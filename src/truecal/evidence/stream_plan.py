"""What a stream measures: named errors over cells that are fixed before the first label, and how they get fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..baselines import BASELINES, Baseline
from ..core.data import shown
from ..core.properties import Property
from ..core.rules import BinCounts, BinningRule, Edges, EqualWidth
from ..core.table import BinTable
from ..core.vectors import ArgmaxEdges
from ..kinds.named_errors import COMPOSED, get_error
from ..kinds.numbers import NO_THRESHOLDS, Distribution
from ..sums.errors import CalibrationError

if TYPE_CHECKING:
    from .kept_rows import EdgeSource

UNIFORM = "uniform"
STATE_BYTES = 64 << 20
"""An automatic number of bins is as large as the sums of a stream, or of each partition, fit into so much memory."""
CELL_BYTES = 250
"""Of a class and bin, beside the 8 for each block of rows."""


@dataclass(frozen=True)
class StreamEntry:
    """One error at one bin count; while the rule is a quantile rule its cells are still to be frozen."""

    name: str
    rule: BinningRule
    n_bins: int | None
    thresholds: tuple[float, ...] = ()
    """Of distributions of a number."""
    automatic: int | None = field(default=None, compare=False)
    """The automatic number of bins, where the sums of so many would take too much memory."""
    tied: bool = field(default=False, compare=False)
    """Whether predictions repeat at the edges: equal ones stay in one bin, where in memory cuts divide them."""

    @property
    def error(self) -> CalibrationError:
        known = COMPOSED[self.name].property
        property = Distribution(self.thresholds) if self.thresholds else known
        return replace(COMPOSED[self.name], binning=self.rule, property=property)

    @property
    def open(self) -> bool:
        """Whether the cells are still to be frozen."""
        return self.rule.open

    @property
    def key(self) -> tuple[str, BinningRule]:
        """Errors of one property over the same cells share a table."""
        return COMPOSED[self.name].property.kind, self.rule.counted

    def freeze(self, predictions: EdgeSource) -> StreamEntry:
        """The same error over edges between bins of about equal numbers of rows."""
        assert self.n_bins is not None
        edges = predictions.edges(self.n_bins, (0.0, 1.0))
        return replace(self, rule=self.rule.frozen(edges), tied=predictions.tied(edges))

    def read(self, table: BinTable) -> BinTable:
        """The counted cells as a table of the rule."""
        return table if table.rule == self.rule else replace(table, rule=self.rule)


def read_plan(errors: Any, n_bins: BinCounts | None, edges: Any, thresholds: Any = None) -> tuple[StreamEntry, ...]:
    """The entries behind the arguments of `stream`; a bin count may still be "auto"."""
    given = [errors] if isinstance(errors, (str, CalibrationError, Baseline)) else errors
    if not isinstance(given, Sequence) or not given:
        raise TypeError(f"errors must be names such as ('classwise', 'confidence'), got {shown(errors)}")
    entries = [
        replace(entry, thresholds=_thresholds(error, thresholds))
        for error in given
        for entry in _entries(error, n_bins, edges)
    ]
    return tuple(dict.fromkeys(entries))


def _thresholds(error: Any, given: Any) -> tuple[float, ...]:
    """The thresholds of an error of numbers; of no other can they be given."""
    property = get_error(error).property
    if not isinstance(property, Distribution):
        if given is not None:
            raise ValueError(f"thresholds cannot apply to {shown(error)}: they are for errors='distribution'")
        return ()
    found = property.thresholds if given is None else Distribution(given).thresholds
    if not found:
        raise ValueError(NO_THRESHOLDS)
    return found


def refuse_other_edges(edges: Any, names: Sequence[str]) -> None:
    """A mapping of names to edges has edges of the errors measured, and of no others."""
    others = [name for name in edges if name not in names] if isinstance(edges, Mapping) else []
    if others:
        raise ValueError(f"edges has {shown(others[0])}, which is not measured here; expected some of {list(names)}")


def refuse_baseline(error: Any) -> None:
    """Measures that no table holds are for rows in memory."""
    name = error.name if isinstance(error, Baseline) else error
    if isinstance(name, str) and name in BASELINES:
        hint = "; the usual ECE is 'confidence_l1' here" if name == "ece" else ""
        raise ValueError(f"{name!r} cannot be streamed: it needs all rows in memory, where evaluate measures it{hint}")


def _entries(error: Any, n_bins: BinCounts | None, edges: Any) -> list[StreamEntry]:
    refuse_baseline(error)
    metric = get_error(error)
    name = error if isinstance(error, str) else _name_of(metric)
    if not metric.property.of_classes:
        raise ValueError(f"{name!r} cannot be streamed: expected an error of class probabilities")
    own = _given(name, edges)
    if own is not None:
        if n_bins is not None:
            raise ValueError(f"n_bins={shown(n_bins)} cannot be used: edges= gives the bins of {name!r}")
        return [StreamEntry(name, *_fixed(name, metric.property, own))]
    rule = metric.binning
    if isinstance(edges, str):
        if metric.property.vector or not rule.has_counts:
            raise ValueError(f"edges='uniform' cannot be used with {name!r}, whose cells are {shown(rule)}")
        rule = EqualWidth() if rule.n_bins == "auto" else EqualWidth(rule.n_bins)
    streamed = rule.streamed()
    if streamed is None:
        raise ValueError(
            f"{name!r} cannot be streamed: {shown(metric.binning)} makes its cells from all predictions at once; "
            "expected quantile or equal-width bins, edges, or an average over cuts"
        )
    rule = streamed
    if n_bins is not None and rule.has_counts:
        rule = rule.with_bins(n_bins)
    if getattr(rule, "n_bins", None) == "auto" or not rule.has_counts:
        return [StreamEntry(name, rule, getattr(rule, "n_cells", None))]
    return [StreamEntry(name, one, (one.counts or (None,))[0]) for one in rule.each()]


def _name_of(metric: CalibrationError) -> str:
    """The named error of the same property, norm and correction."""
    for name, known in COMPOSED.items():
        same = type(known.property) is type(metric.property) and known.norm == metric.norm
        if same and known.corrected == metric.corrected:
            return name
    raise ValueError(f"{shown(metric)} cannot be streamed: expected an error of class probabilities")


def _given(name: str, edges: Any) -> Any:
    """The edges given for one error, None where its own rule decides."""
    if isinstance(edges, str):
        if edges != UNIFORM:
            raise ValueError(f"edges must be 'uniform', edges, or a mapping of names to edges, got {shown(edges)}")
        return None
    if isinstance(edges, Mapping):
        return edges.get(name)
    reliability = getattr(edges, "reliability", None)  # an Evaluation
    if isinstance(reliability, Mapping):
        if name not in reliability:
            raise ValueError(f"edges: {name!r} has no table there; expected one of {', '.join(reliability)}")
        return reliability[name].table
    return edges


def _fixed(name: str, property: Property, edges: Any) -> tuple[BinningRule, int]:
    """Edges of any form as a rule and its number of bins."""
    if isinstance(edges, BinTable):
        if edges.edges is None:
            raise ValueError(
                f"the cells of the table given for {name!r} come from its own predictions and have no edges: "
                "observe those predictions, then freeze"
            )
        if edges.kind != property.kind:
            raise ValueError(f"edges of {name!r}: expected a table of {property.kind}, got one of {edges.kind}")
        edges = edges.edges
    if isinstance(edges, (EqualWidth, Edges, ArgmaxEdges)):
        rule: BinningRule = edges
    else:
        rule = ArgmaxEdges(edges) if property.vector else Edges(edges)
    if property.vector != rule.of_vectors:
        raise ValueError(f"edges of {name!r}: expected {'ArgmaxEdges' if property.vector else 'Edges'}, got {rule!r}")
    if rule.several:
        raise ValueError(f"edges of {name!r}: expected one number of bins, got {shown(rule)}")
    return rule, rule.counts[0] if rule.counts else rule.n_cells


def at_rows(
    entries: Sequence[StreamEntry], rows: int, classes: int, blocks: int | None = None
) -> tuple[StreamEntry, ...]:
    """ "auto" as the count for so many rows and classes; of sums with so many blocks of rows, as large as fits."""
    out, needs = [], {}
    for entry in entries:
        rule = entry.rule.at(rows, COMPOSED[entry.name].property.views(classes))
        made = entry if rule is entry.rule else replace(entry, rule=rule, n_bins=(rule.counts or (None,))[0])
        out.append(made)
        if made is not entry and blocks is not None:
            needs[made.key] = state_bytes(made, classes, blocks)
    if sum(needs.values()) > STATE_BYTES:
        shares = _shares(needs, STATE_BYTES)
        out = [_fitting(entry, shares[entry.key], needs[entry.key]) if entry.key in shares else entry for entry in out]
    return tuple(dict.fromkeys(out))


def state_bytes(entry: StreamEntry, classes: int, blocks: int) -> int:
    """What the sums of an error take."""
    views = COMPOSED[entry.name].property.views(classes)
    return (8 * blocks + CELL_BYTES) * views * entry.rule.width(classes) * (entry.n_bins or 1)


def _shares(needs: Mapping[Any, int], budget: float) -> dict[Any, float]:
    """A budget shared out: what is left of small needs goes to large ones."""
    found = {}
    for left, key in zip(range(len(needs), 0, -1), sorted(needs, key=lambda key: needs[key]), strict=True):
        found[key] = min(float(needs[key]), budget / left)
        budget -= found[key]
    return found


def _fitting(entry: StreamEntry, share: float, need: int) -> StreamEntry:
    """The error at as many bins as its share of the memory allows."""
    if need <= share or entry.n_bins is None:
        return entry
    fewer = max(2, int(entry.n_bins * share / need))
    return replace(entry, rule=entry.rule.with_bins(fewer), n_bins=fewer, automatic=entry.n_bins)
