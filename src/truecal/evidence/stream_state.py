"""The sums of a stream: cells that are frozen by predictions alone, and batches of validated rows counted over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from ..core.arrays import compiled_loops
from ..core.cut_score import SCORE_CELLS, Sides, clusters
from ..core.data import working_dtype
from ..core.dispatch import DISPATCH
from ..core.locks import Shared, one_at_a_time
from ..core.properties import Property
from ..core.row_kernels import top_class
from ..core.rules import EqualWidth
from ..core.sample import Sample
from ..core.table import BinTable
from ..core.types import Array
from ..kinds import COMPOSED, KINDS, Kind
from ..kinds.inputs import Inputs
from ..sums.errors import CalibrationError
from ..sums.scores import cluster_tables, score_sample
from .kept_rows import EdgeSource, KeptRows, SortedViews
from .stream_losses import LossSums
from .stream_plan import CELL_BYTES, StreamEntry, at_rows, state_bytes
from .stream_table import StreamTable, check_cells, tally

Key = tuple[str, Any]

MOST_BYTES = 4 << 30
"""The most memory that the sums of a stream may take: larger ones are refused before any of it is asked for."""


class StreamState(Shared):
    """Sums and settings of a stream; `Stream` reads batches into it."""

    def __init__(self, entries: tuple[StreamEntry, ...], blocks: int, labels: Array | None, pos_label: Any) -> None:
        super().__init__()
        refuse_size(entries, blocks, 1)
        self._entries = entries
        self._blocks = blocks
        self._labels = labels
        self._pos_label = pos_label
        self._kind: Kind = kind_of(entries)
        self._thresholds = entries[0].thresholds
        if any(entry.thresholds != self._thresholds for entry in entries):
            raise ValueError("errors must have the same thresholds")
        self._rows = 0
        self._expected = 0
        """The rows that are known to come: many are worth compiled loops from the first on."""
        self._torn = False
        """Whether something (Ctrl-C, no memory) ended the counting of a batch half-way."""
        self._shape: tuple[int | None, str] | None = None
        """Classes (None: one number per row) and dtype of the predictions."""
        self.first_pass = KeptRows()
        """The predictions observed, until they are frozen into edges."""
        self._tallies: dict[Key, StreamTable] = {}
        self._losses: LossSums | None = None
        self._waiting: list[Inputs] = []
        """Rows that are kept until the edges are made from them."""
        self._last: dict[Key, tuple[int, Array, Array]] = {}
        """The number of the last cluster, which may go on, and its sums in the cells of the score."""
        self.units = 0
        """How many images or groups came, where rows are of them: they are the units of intervals."""
        self._group: tuple[Any] | None = None
        """The group of the last row."""
        self.interpolated = False
        """Whether forecasts came that claim F at their own levels alone; saved states do not tell."""
        self.kept = 0
        """From how many rows of a single pass the edges were made; 0 where they were given or observed."""
        self.of_two_classes: Callable[[], tuple[StreamEntry, ...]] | None = None
        """What is measured if the first predictions are of two classes; None where errors were named."""

    @property
    def frozen(self) -> bool:
        """Whether all cells are known, so that labels may be read."""
        return not any(entry.open or getattr(entry.rule, "n_bins", None) == "auto" for entry in self._entries)

    def expect(self, rows: int) -> Self:
        """Set how many rows will come. Returns the stream itself."""
        self._expected = rows
        return self

    @property
    def observed(self) -> int:
        """How many rows a first pass had."""
        return self.first_pass.observed

    @property
    def expected(self) -> int:
        """How many rows will come, 0 where that is not known."""
        return self._expected

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._rows + self._waiting_rows

    @property
    def _waiting_rows(self) -> int:
        return sum(one.n_samples for one in self._waiting)

    # -- cells from predictions alone ----------------------------------------------------------------------------------

    @one_at_a_time
    def look_at(self, reports: Array) -> None:
        """Predictions of a first pass that have been validated."""
        self._check_shape(reports)
        self.first_pass.add(reports)

    def _freeze(self, n: int, reports: Array) -> None:
        """Make the edges from predictions, for n rows."""
        assert self._shape is not None
        inputs = Inputs(self._kind, self._kind.unlabelled(reports), reports, thresholds=self._thresholds)
        top = top_class(reports) if reports.ndim == 2 else np.empty(0)
        sources: dict[Key, EdgeSource] = {}
        entries = []
        counted = at_rows(self._entries, n, self._shape[0] or 1, self._blocks)
        refuse_size(counted, self._blocks, self._shape[0] or 1)
        for entry in counted:
            key = (COMPOSED[entry.name].property.kind, type(entry.rule).__name__)
            if entry.open and key not in sources:
                sources[key] = SortedViews.of(entry.rule.ranked(inputs.sample(entry.name).reports, top))
            entries.append(entry.freeze(sources[key]) if entry.open else entry)
        self._entries = tuple(dict.fromkeys(entries))

    def _check_shape(self, reports: Array) -> None:
        found = (reports.shape[1] if reports.ndim == 2 else None, reports.dtype.name)
        if self._shape is None:
            refuse_size(self._entries, self._blocks, found[0] or 1)
            self._shape = found
        elif self._shape != found:
            raise ValueError(
                f"expected predictions as in earlier updates, {shape_text(*self._shape)}, got {shape_text(*found)}"
            )

    # -- the pass over labels and predictions --------------------------------------------------------------------------

    @one_at_a_time
    def count(
        self,
        inputs: Inputs,
        start: int | None = None,
        threads: int | None = None,
        unit: int | None = None,
        ids: Array | None = None,
    ) -> None:
        """One batch that has been validated; its first row is number `start` of all, where others are counted
        elsewhere. All its rows are unit number `unit` of the intervals, where that is given, and each is of the cluster
        in `ids`, by default that unit."""
        self._refuse_torn()
        shape = self._shape
        start = self._rows if start is None else start
        self._check_shape(inputs.reports)
        counted = self.counted()
        classes = inputs.reports.shape[1] if inputs.reports.ndim == 2 else 1
        views = max(classes if property.vector else property.views(classes) for property, _ in counted.values())
        come = max(self._rows + inputs.n_samples, self._expected) * max(views, classes / 8)
        compiled = compiled_loops() if come >= DISPATCH.compiled_stream else None
        try:
            facts = inputs.facts(compiled is not None)
            wanted = [(key, inputs.sample(property), rule) for key, (property, rule) in counted.items()]
            wanted = [(key, score_sample(each) if rule == SCORE_CELLS else each, rule) for key, each, rule in wanted]
            for _, sample, rule in wanted:
                check_cells(sample, rule)
            losses = LossSums.of(inputs, self._blocks, start, facts)
            if losses is not None and unit is not None and self._blocks:
                losses = losses.in_block(unit)
        except Exception:  # a refused batch leaves no trace, whatever refused it
            self._shape = shape
            raise
        options: dict[str, Any] = {"compiled": compiled, "threads": threads}
        self._torn = True  # until all is counted
        for key, sample, rule in wanted:
            before = self._tallies.get(key)
            if rule == SCORE_CELLS:
                self._tallies[key] = made = tally(sample, rule, 0, start, before=before, **options)
                if unit is not None:
                    of = np.full(inputs.n_samples, unit) if ids is None else ids
                    self._tallies[key] = self._leave_out(key, made, sample, of)
                continue
            if unit is None or not self._blocks:
                self._tallies[key] = tally(sample, rule, self._blocks, start, before=before, **options)
                continue
            image = tally(sample, rule, 1, 0, **options).in_block(unit, self._blocks)
            self._tallies[key] = image if before is None else before.plus(image)
        self._losses = losses if self._losses is None or losses is None else self._losses.plus(losses)
        self._rows += inputs.n_samples
        self._torn = False

    def _leave_out(self, key: Key, made: StreamTable, sample: Sample, ids: Array) -> StreamTable:
        """The table with the pairs of rows of one cluster; the first may be the last of the batch before."""
        numbers, codes = np.unique(ids, return_inverse=True)
        before, found = self._last.get(key), made.left_out
        for residual, weight in cluster_tables(sample, (codes.reshape(-1), len(numbers))):
            sums = [np.ldexp(x, sample.weight_exponent) for x in (residual, weight)]
            if before is not None and before[0] == numbers[0]:
                old = clusters(*(x[None] for x in before[1:]))
                if found is not None:
                    found = Sides(found.squares - old.squares, found.weights - old.weights, found.most)
                for x, more in zip(sums, before[1:], strict=True):
                    x[0] += more
            before, part = None, clusters(*sums)
            found = part if found is None else found.plus(part)
        if key not in self._last or self._last[key][0] <= numbers[-1]:
            self._last[key] = (int(numbers[-1]), sums[0][-1], sums[1][-1])
        return replace(made, left_out=found)

    def _refuse_torn(self) -> None:
        if self._torn:
            raise ValueError(
                "a batch was interrupted while it was counted and is only partly counted: load the "
                "last saved state or start again"
            )

    def counted(self) -> dict[Key, tuple[Property, Any]]:
        """Every table that is counted: its key, its property, and its cells."""
        wanted = {entry.key: (entry.error.property, entry.rule.counted) for entry in self._entries}
        for entry in self._entries:
            if entry.error.norm == "l2":
                wanted[entry.error.property.kind, SCORE_CELLS] = (entry.error.property, SCORE_CELLS)
        for property in self.basics:
            if not any(key[0] == property.kind for key in wanted):
                wanted[property.kind, EqualWidth(1)] = (property, EqualWidth(1))
        return wanted

    @property
    def basics(self) -> tuple[Property, ...]:
        """The properties whose sums give direction (the first) and accuracy."""
        return self._kind.basics(self._thresholds)

    @property
    def losses(self) -> LossSums | None:
        """The sums of the losses that no table holds, so far."""
        return self._losses

    def without_rows(self) -> Self:
        """A separate stream over the same bins, without rows."""
        made = type(self)(self._entries, self._blocks, self._labels, self._pos_label).expect(self._expected)
        made.interpolated = self.interpolated
        return made

    @one_at_a_time
    def absorb(self, other: StreamState) -> None:
        """Take over what a separate stream counted of rows with numbers among all (see `count`)."""
        for key, more in other._tallies.items():
            self._tallies[key] = self._tallies[key].plus(more) if key in self._tallies else more
        if other._losses is not None:
            self._losses = other._losses if self._losses is None else self._losses.plus(other._losses)
        self._shape = self._shape or other._shape
        self._rows += other._rows
        self.units += other.units
        self.interpolated |= other.interpolated

    # -- what was counted ----------------------------------------------------------------------------------------------

    @property
    def entries(self) -> tuple[StreamEntry, ...]:
        """The errors measured, each at one bin count and over separate cells."""
        return self._entries

    @property
    def tallies(self) -> dict[Key, StreamTable]:
        """The sums by property and cells."""
        return self._tallies

    @one_at_a_time
    def tally_of(self, entry: StreamEntry) -> StreamTable:
        """The sums behind the table of one of the entries."""
        self._need_rows()
        return self._tallies[entry.key]

    @one_at_a_time
    def score_of(self, error: CalibrationError) -> float:
        """The score of one of the squared errors."""
        held = self._tallies[error.property.kind, SCORE_CELLS]
        return error.score_of_table(held.whole(), held.left_out)

    @one_at_a_time
    def table_of(self, entry: StreamEntry) -> BinTable:
        """The table of one of the entries."""
        return entry.read(self.tally_of(entry).whole())

    @property
    def settings(self) -> dict[str, Any]:
        """All that is neither an error, a prediction nor a sum."""
        labels = listed(self._labels)
        counts = {"rows": self._rows, "observed": self.observed, "shape": self._shape, "units": self.units}
        return {"blocks": self._blocks, "labels": labels, "pos_label": self._pos_label, **counts}

    @property
    def dtype(self) -> str:
        """The type in which predictions are compared with edges."""
        assert self._shape is not None
        return working_dtype(np.empty(0, dtype=self._shape[1])).name

    @property
    def kind(self) -> Kind:
        """What the predictions are."""
        return self._kind

    @property
    def n_classes(self) -> int | None:
        """The number of classes, None where only the top class is known, or nothing yet."""
        return self._kind.n_classes(None if self._shape is None else self._shape[0])

    def _need_rows(self) -> None:
        self._refuse_torn()
        if not self.rows:
            raise ValueError("the stream has no rows yet: update(y_true, y_proba) with some")


def refuse_size(entries: Sequence[StreamEntry], blocks: int, classes: int) -> None:
    """Refuse sums of more than `MOST_BYTES`, by what they would take."""
    for entry in {entry.key: entry for entry in entries}.values():
        need, each = state_bytes(entry, classes, blocks), 8 * blocks + CELL_BYTES
        views = COMPOSED[entry.name].property.views(classes)
        if need > MOST_BYTES:
            of = f" of {classes} classes" if classes > 1 else ""
            per = "per bin and class" if views > 1 else "per bin"
            raise ValueError(
                f"n_bins={entry.n_bins} is too many for {entry.name!r}{of}: the sums of a stream would take "
                f"{need / 2**30:,.1f} GiB ({each} bytes {per} with blocks={blocks}), "
                f"at most {MOST_BYTES >> 30} GiB are allowed: use fewer bins, or blocks=0"
            )


def kind_of(entries: Sequence[StreamEntry]) -> Kind:
    """The kind of predictions that all errors can be measured on; confidence of one probability counts as binary."""
    properties = [COMPOSED[entry.name].property for entry in entries]
    for if_named in (False, True):
        for kind in KINDS.values():
            if all(kind.checks(property, if_named=if_named) for property in properties):
                return kind
    raise ValueError(
        f"errors must be of one kind of predictions, got {', '.join(dict.fromkeys(e.name for e in entries))}: "
        "classwise, confidence, full and ordinal go together, binary and confidence, or top_label, labelwise or "
        "distribution alone"
    )


def shape_text(classes: int | None, dtype: str) -> str:
    return f"{dtype} of {'one number per row' if classes is None else f'{classes} classes'}"


def listed(labels: Array | None) -> Any:
    return None if labels is None else labels.tolist()
