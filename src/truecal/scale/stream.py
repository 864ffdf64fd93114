"""stream: errors, gaps and scores of predictions that come in batches, in memory that does not grow with the rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, final

import numpy as np

from ..backends.arrays import compiled_backend, on_cpu
from ..backends.numpy import DISPATCH, top_class
from ..core.cumulative import Position
from ..core.data import (
    as_array,
    check_positive_int,
    check_probabilities,
    check_report_table,
    check_reports,
    check_weights,
    shown,
    working_dtype,
)
from ..core.dense import ONLY_DENSE, as_rows, is_dense
from ..core.distributions import Distribution, cdf_values
from ..core.errors import COMPOSED, CalibrationError
from ..core.labelwise import LabelRate
from ..core.parameters import described
from ..core.properties import Binary, Confidence, Property, TopLabel
from ..core.rules import BinCounts, EqualWidth
from ..core.table import BinTable
from ..core.threads import Shared, one_at_a_time
from ..core.types import Array
from ..evaluation.model import Evaluation
from ..inference.inputs import TASKS, Inputs, Kind, is_forecast, read_inputs
from .losses import LossSums
from .plan import CELL_BYTES, StreamEntry, at_rows, read_plan, refuse_other_edges, state_bytes
from .sketch import ACCURACY, Kept, Sketch
from .tally import Tally, check_cells, tally

Key = tuple[str, Any]

BLOCKS = 64
KEPT_ROWS = 1 << 16
"""The rows whose predictions give quantile edges where there is no first pass: they are kept until then."""
KEPT_BYTES = 1 << 28
_MORE_CLASSES, _TWO_CLASSES = ("classwise", "confidence"), ("binary",)
MOST_BYTES = 4 << 30
"""The most memory that the sums of a stream may take: larger ones are refused before any of it is asked for."""
BASICS: dict[Kind, tuple[Property, ...]] = {
    "multiclass": (Confidence(),),
    "binary": (Binary(), Confidence()),
    "top_label": (TopLabel(),),
    "ordered": (Position(), Confidence()),
    "multilabel": (LabelRate(),),
    "distribution": (Position(),),
}
"""The properties whose sums give direction (the first) and accuracy; one cell is enough where nobody asked for more."""
WIDE = ("multiclass", "ordered", "multilabel", "distribution")
"""Kinds of predictions with a column per class, label or threshold."""


@described("A Stream.")
def stream(
    errors: str | CalibrationError | Sequence[str | CalibrationError] | None = None,
    n_bins: BinCounts | None = None,
    edges: Any = None,
    *,
    blocks: int = BLOCKS,
    labels: Any = None,
    pos_label: Any = 1,
    thresholds: Any = None,
) -> Stream:
    """A stream of predictions: `update(y, p)` in batches, `merge` with others, `result()` at any time.

    `errors` are names of ERRORS (or CalibrationErrors) of one kind of predictions; by default "binary" for two classes,
    "classwise" and "confidence" for more, as the first batch has them. `edges`: "uniform" for bins of equal
    width; an array, `Edges`, table or Evaluation whose frozen edges to use, or a mapping of error names to these; None
    leaves each error its own rule. Quantile edges then come from the predictions of the first 65,536 rows, which are
    kept until then (a note of the result has their number); a first pass, `observe(p)` and `freeze()`, takes them from
    all rows instead. Averages over cuts are taken over a grid (`OnGrid`). `blocks` is the number of label-blind blocks
    of rows behind the intervals (0: no intervals); memory is 8·blocks bytes for each class and bin, and 150 to 350
    beside. With `thresholds` batches are outcomes and forecasts of a number, as `distribution_error` takes them.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> stream = tc.stream("binary", n_bins=10, edges="uniform")
    >>> for _ in range(4):
    ...     chances = rng.random(5000)
    ...     stream.update(rng.random(5000) < chances, np.clip(chances + .1, 0, 1))
    >>> stream.result().gap
    gap of 10.0 points [9.4, 10.6], too high (LinCE_binary, 10 bins, 20000 samples, 95% interval)
    """
    usual = _MORE_CLASSES if thresholds is None else ("distribution",)
    entries = read_plan(usual if errors is None else errors, n_bins, edges, thresholds)
    refuse_other_edges(edges, [*(entry.name for entry in entries), *(_TWO_CLASSES if errors is None else ())])
    made = empty_stream(entries, blocks, labels, pos_label)
    if errors is None and thresholds is None:
        made.of_two_classes = lambda: read_plan(_TWO_CLASSES, n_bins, edges)
    return made


def empty_stream(entries: tuple[StreamEntry, ...], blocks: int, labels: Any, pos_label: Any) -> Stream:
    """A stream of these errors, without rows."""
    names = None if labels is None else np.asarray(as_array(labels, "labels"))
    return Stream(entries, check_blocks(blocks), names, pos_label)


def check_blocks(blocks: Any) -> int:
    """The number of blocks: intervals compare every two of them."""
    whole = isinstance(blocks, (int, np.integer)) and not isinstance(blocks, bool)
    if not whole or not (blocks == 0 or 4 <= blocks <= 4096):
        raise ValueError(f"blocks must be 0, or a whole number from 4 to 4096, got {shown(blocks)}")
    return int(blocks)


@final
class Stream(Shared):
    """Predictions in batches, measured; made by `truecal.stream`, or restored by `Stream.load`.

    Threads may share a stream: batches are counted one at a time.
    """

    def __init__(self, entries: tuple[StreamEntry, ...], blocks: int, labels: Array | None, pos_label: Any) -> None:
        super().__init__()
        refuse_size(entries, blocks, 1)
        self._entries = entries
        self._blocks = blocks
        self._labels = labels
        self._pos_label = pos_label
        self._kind: Kind = _kind_of(entries)
        self._thresholds = entries[0].thresholds
        if any(entry.thresholds != self._thresholds for entry in entries):
            raise ValueError("errors must have the same thresholds")
        self._rows = 0
        self._observed = 0
        self._expected = 0
        """The rows that are known to come: many are worth compiled loops from the first on."""
        self._torn = False
        """Whether something (Ctrl-C, no memory) ended the counting of a batch half-way."""
        self.accuracy = ACCURACY
        self._shape: tuple[int | None, str] | None = None
        """Classes (None: one number per row) and dtype of the predictions."""
        self._sketches: dict[Key, Sketch] = {}
        self._tallies: dict[Key, Tally] = {}
        self._losses: LossSums | None = None
        self._waiting: list[Inputs] = []
        """Rows that are kept until the edges are made from them."""
        self.units = 0
        """How many images or groups came, where rows are of them: they are the units of intervals."""
        self._group: tuple[Any] | None = None
        """The group of the last row."""
        self.kept = 0
        """From how many rows of a single pass the edges were made; 0 where they were given or observed."""
        self.of_two_classes: Callable[[], tuple[StreamEntry, ...]] | None = None
        """What is measured if the first predictions are of two classes; None where errors were named."""

    def _meet(self, shape: tuple[int, ...]) -> None:
        """Choose what is measured by the first predictions, where no errors were named."""
        if self.of_two_classes is not None and self._shape is None and (len(shape) == 1 or shape[1:] == (2,)):
            self._entries = self.of_two_classes()
            self._kind = _kind_of(self._entries)
        self.of_two_classes = None

    # -- the first pass: predictions alone --------------------------------------------------------------------------

    @property
    def frozen(self) -> bool:
        """Whether all cells are known, so that labels may be read."""
        return not any(entry.open or getattr(entry.rule, "n_bins", None) == "auto" for entry in self._entries)

    @one_at_a_time
    def observe(self, y_proba: Any) -> None:
        """Predictions of a first pass, or of a reference sample: what quantile bins are made from. No labels."""
        if self.rows:
            raise ValueError("observe comes before update: the bins are frozen, and labels have been read")
        array = as_array(self._at_thresholds(y_proba), "y_proba")
        if array.shape[:1] == (0,):
            return
        self._meet(array.shape)
        if self.frozen:
            raise ValueError("observe cannot be used: the bins are known already")
        if self._kind == "binary" and array.shape[1:] == (2,):
            self.look_at(np.ascontiguousarray(check_probabilities(array)[:, 1]))
        else:
            self.look_at(self._checked(array))

    def _at_thresholds(self, y_proba: Any) -> Any:
        """Forecasts of a number as F at the thresholds; all else as it is."""
        return cdf_values(y_proba, np.asarray(self._thresholds)) if is_forecast(y_proba) else y_proba

    def _checked(self, array: Array) -> Array:
        """Predictions of the kind that comes."""
        if self._kind == "distribution":
            return cdf_values(array, np.asarray(self._thresholds))
        if self._kind == "multilabel":
            return check_report_table(array, "y_proba")
        return check_probabilities(array) if self._kind in WIDE else check_reports(array, "y_proba")

    @one_at_a_time
    def look_at(self, reports: Array) -> None:
        """Predictions of a first pass that have been validated."""
        self._check_shape(reports)
        inputs = self._without_labels(reports)
        top = top_class(reports) if reports.ndim == 2 else np.empty(0)
        for key, entry in self._open().items():
            columns = entry.rule.sketched(inputs.sample(entry.name).reports, top)
            if key not in self._sketches:
                self._sketches[key] = Sketch.empty(len(columns), self.accuracy)
            self._sketches[key].add(columns)
        self._observed += len(reports)

    def _open(self) -> dict[Key, StreamEntry]:
        """An entry for every kind of sketch."""
        return {(COMPOSED[e.name].property.kind, type(e.rule).__name__): e for e in self._entries if e.open}

    @one_at_a_time
    def freeze(self, rows: int | None = None) -> Stream:
        """Make the edges of quantile bins from the predictions observed, for good; n_bins="auto" takes the number of
        `rows` that will come, by default that of the rows observed. Returns the stream itself."""
        if self.frozen:
            return self
        if self._waiting:
            self._settle()
            return self
        n = self._observed if rows is None else check_positive_int(rows, "rows")
        if not n or self._shape is None:
            raise ValueError("no predictions were observed: observe(y_proba) in a first pass, then freeze()")
        self._freeze(n, self._sketches)
        self._sketches = {}
        return self

    @one_at_a_time
    def freeze_by(self, kept: Sequence[Array], rows: int) -> None:
        """Make the edges from predictions that have been validated, for so many rows."""
        for reports in kept:
            self._check_shape(reports)
        every = np.concatenate(kept)
        self._freeze(rows, self._kept_distributions(every))
        self._observed = len(every)

    def _freeze(self, n: int, distributions: Mapping[Key, Sketch | Kept]) -> None:
        """Edges from the distributions of predictions, for n rows."""
        assert self._shape is not None
        entries = []
        counted = at_rows(self._entries, n, self._shape[0] or 1, self._blocks)
        refuse_size(counted, self._blocks, self._shape[0] or 1)
        for entry in counted:
            key = (COMPOSED[entry.name].property.kind, type(entry.rule).__name__)
            entries.append(entry.freeze(distributions[key]) if entry.open else entry)
        self._entries = tuple(dict.fromkeys(entries))

    # -- a single pass: rows are kept until their predictions give the edges ----------------------------------------

    def _keep(self, inputs: Inputs) -> None:
        """Rows to wait; enough of them give the edges."""
        self._check_shape(inputs.reports)
        weights = None if inputs.weights is None else inputs.weights.copy()
        self._waiting.append(replace(inputs, y=inputs.y.copy(), reports=inputs.reports.copy(), weights=weights))
        if self._waiting_rows >= KEPT_ROWS or sum(one.reports.nbytes for one in self._waiting) >= KEPT_BYTES:
            self._settle()

    @property
    def _waiting_rows(self) -> int:
        return sum(one.n_samples for one in self._waiting)

    def _settled(self) -> Stream:
        """The stream as it would be if no more rows came: edges from the rows kept, and these counted."""
        made = self.without_rows()
        made._shape = self._shape
        reports = np.concatenate([one.reports for one in self._waiting])[:KEPT_ROWS]
        made._freeze(self._expected or len(reports), self._kept_distributions(reports))
        made.kept = len(reports)
        for one in self._waiting:
            made.count(one)
        return made

    def _kept_distributions(self, reports: Array) -> dict[Key, Kept]:
        """The predictions that edges are made from, by property and kind of rule."""
        inputs = self._without_labels(reports)
        top = top_class(reports) if reports.ndim == 2 else np.empty(0)
        return {
            key: Kept.of(entry.rule.sketched(inputs.sample(entry.name).reports, top))
            for key, entry in self._open().items()
        }

    def _without_labels(self, reports: Array) -> Inputs:
        """Predictions alone, for what looks at nothing else."""
        shape = reports.shape if self._kind == "multilabel" else len(reports)
        of_classes = reports.ndim == 2 and self._kind != "multilabel"
        y = np.zeros(shape, dtype=np.intp if of_classes else bool)
        return Inputs(self._kind, y, reports, thresholds=self._thresholds)

    def _settle(self) -> None:
        """Freeze the edges for good and count the rows kept."""
        made = self._settled()
        self._entries, self._tallies, self._losses = made._entries, made._tallies, made._losses
        self._rows, self.kept, self._waiting = made._rows, made.kept, []

    def _now(self) -> Stream:
        """The stream with all its rows counted; this one where none wait."""
        return self._settled() if self._waiting else self

    def _check_shape(self, reports: Array) -> None:
        found = (reports.shape[1] if reports.ndim == 2 else None, reports.dtype.name)
        if self._shape is None:
            refuse_size(self._entries, self._blocks, found[0] or 1)
            self._shape = found
        elif self._shape != found:
            raise ValueError(
                f"expected predictions as in earlier updates, {_shape_text(*self._shape)}, got {_shape_text(*found)}"
            )

    def expect(self, rows: int, accuracy: int = ACCURACY) -> Stream:
        """So many rows will come, and sketches are to have that accuracy (KLL's k). Returns the stream itself."""
        self._expected, self.accuracy = rows, accuracy
        return self

    @property
    def expected(self) -> tuple[int, int]:
        """The arguments of `expect`."""
        return self._expected, self.accuracy

    # -- the pass over labels and predictions -----------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """The number of rows so far."""
        return self._rows + self._waiting_rows

    @one_at_a_time
    def update(
        self,
        y_true: Any,
        y_proba: Any,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        ignore_index: int | None = None,
        class_axis: int | None = None,
    ) -> None:
        """Add one batch; a batch that raises an error changes nothing.

        `groups` is the cluster of each row, such as the document of a token: intervals then rest on clusters. Rows of a
        cluster must follow each other, in one batch or in several.

        Images or sequences, such as probabilities (N, C, H, W) and labels (N, H, W), are counted one after the other,
        without the pixels whose label is `ignore_index`; intervals then rest on images, not on pixels.
        """
        if is_dense(y_proba):
            if groups is not None:
                raise ValueError("groups cannot be used with images: each is a group")
            self._update_dense(y_true, y_proba, sample_weight, ignore_index, class_axis)
            return
        if ignore_index is not None or class_axis is not None:
            raise ValueError(ONLY_DENSE)
        y_proba = self._at_thresholds(y_proba)
        self._meet(as_array(y_proba, "y_proba").shape)
        if not self.frozen and self._observed:
            raise ValueError("the quantile bins are not frozen: freeze() after the last observe(y_proba)")
        if as_array(y_proba, "y_proba").shape[:1] == (0,):
            if labels := as_array(y_true, "y_true").size:
                raise ValueError(f"y_true and y_proba must have the same length, got {labels} and 0")
            return
        try:
            inputs = self._read(y_true, y_proba, sample_weight)
            if groups is not None:
                self._count_groups(inputs, groups)
            elif self.units:
                raise ValueError("groups are needed: earlier rows have them, and intervals rest on them")
            else:
                self.count(inputs) if self.frozen else self._keep(inputs)
        except (ValueError, TypeError) as error:
            if not self.rows:
                raise
            raise type(error)(f"{error} (in the batch that begins at row {self.rows} of the stream)") from error

    def _count_groups(self, inputs: Inputs, groups: Any) -> None:
        """Rows of clusters that follow each other: clusters are the units of the intervals, all of a block at once."""
        if not self.units and self.rows:
            raise ValueError("groups cannot follow rows without them: intervals rest on groups")
        values = np.asarray(as_array(groups, "groups"))
        if values.shape != (inputs.n_samples,):
            raise ValueError(f"groups must have one value per row, {inputs.n_samples}, got shape {values.shape}")
        new = np.r_[self._group is None or values[0] != self._group[0], values[1:] != values[:-1]]
        units = self.units + np.cumsum(new) - 1
        if not self.frozen:  # quantile edges come from the first batch
            self._check_shape(inputs.reports)
            self._freeze_at([inputs])
        for block in np.unique(units % (self._blocks or 1)):
            rows = np.flatnonzero(units % (self._blocks or 1) == block)
            weights = None if inputs.weights is None else inputs.weights[rows]
            part = replace(inputs, y=inputs.y[rows], reports=inputs.reports[rows], weights=weights)
            self.count(part, unit=int(block))
        self.units, self._group = int(units[-1]) + 1, (values[-1],)

    def _update_dense(self, y_true: Any, y_proba: Any, sample_weight: Any, ignore_index: Any, class_axis: Any) -> None:
        """Images one by one, each as one unit of the intervals."""
        if sample_weight is not None:
            raise ValueError("sample_weight cannot be used with images: weight rows, with io.as_rows")
        if not self.units and self.rows:
            raise ValueError("images cannot follow rows: they are units of intervals, and rows are others")
        y, proba = on_cpu(y_true), on_cpu(y_proba)
        rows = as_rows(y, proba, ignore_index=ignore_index, class_axis=class_axis)
        self._meet(rows.y_proba.shape)
        if not self.frozen and self._observed:
            raise ValueError("the quantile bins are not frozen: freeze() after the last observe(y_proba)")
        ends = np.searchsorted(rows.groups, np.arange(len(y) + 1))
        images = [self._read(rows.y_true[a:b], rows.y_proba[a:b], None) for a, b in pairwise(ends.tolist()) if b > a]
        if not self.frozen:  # quantile edges come from the first images
            self._shape = None
            self._check_shape(images[0].reports)
            self._freeze_at(images)
        for image in images:
            self.count(image, unit=self.units)
            self.units += 1

    def _freeze_at(self, images: Sequence[Inputs]) -> None:
        """Edges from the predictions of some images, evenly thinned to the rows that are kept elsewhere."""
        reports = np.concatenate([image.reports for image in images])
        reports = reports[:: max(1, len(reports) // KEPT_ROWS)]
        self._freeze(self._expected or len(reports), self._kept_distributions(reports))
        self.kept = len(reports)

    @one_at_a_time
    def count(
        self, inputs: Inputs, start: int | None = None, threads: int | None = None, unit: int | None = None
    ) -> None:
        """One batch that has been validated; its first row is number `start` of all, where others are counted
        elsewhere. All its rows are unit number `unit` of the intervals, where that is given."""
        self._refuse_torn()
        shape = self._shape
        start = self._rows if start is None else start
        self._check_shape(inputs.reports)
        counted = self.counted()
        classes = inputs.reports.shape[1] if inputs.reports.ndim == 2 else 1
        views = max(classes if property.vector else property.views(classes) for property, _ in counted.values())
        come = max(self._rows + inputs.n_samples, self._expected) * views
        compiled = compiled_backend() if come >= DISPATCH.compiled_stream else None
        try:
            facts = inputs.facts() if compiled is not None else None
            wanted = [(key, inputs.sample(property), rule) for key, (property, rule) in counted.items()]
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
            if unit is None or not self._blocks:
                self._tallies[key] = tally(sample, rule, self._blocks, start, before=before, **options)
                continue
            image = tally(sample, rule, 1, 0, **options).in_block(unit, self._blocks)
            self._tallies[key] = image if before is None else before.plus(image)
        self._losses = losses if self._losses is None or losses is None else self._losses.plus(losses)
        self._rows += inputs.n_samples
        self._torn = False

    def _refuse_torn(self) -> None:
        if self._torn:
            raise ValueError(
                "a batch was interrupted while it was counted and is only partly counted: load the "
                "last saved state or start again"
            )

    def _read(self, y_true: Any, y_proba: Any, sample_weight: Any) -> Inputs:
        weights = None if sample_weight is None else np.asarray(as_array(sample_weight, "sample_weight"))
        nothing = weights is not None and weights.dtype.kind in "iuf" and weights.size and not weights.any()
        checked = np.ones(weights.shape) if nothing and weights is not None else weights
        # a batch in which no row counts is a batch all the same
        shape = np.shape(as_array(y_proba, "y_proba"))
        two = self._kind == "binary" and shape[1:] == (2,)
        if len(shape) != (2 if self._kind in WIDE else 1) and not two:
            wanted = "a column per class" if self._kind in WIDE else "one probability per row"
            raise ValueError(f"expected {wanted}, got predictions of shape {shape}")
        if self._kind == "top_label":
            correct, confidence = TopLabel().check(y_true, y_proba)
            inputs = Inputs("top_label", correct, confidence, check_weights(checked, len(confidence)))
        else:
            options: dict[str, Any] = {"labels": self._labels, "pos_label": self._pos_label, "sample_weight": checked}
            task = self._kind if self._kind in TASKS else "auto"
            options |= {"columns": self._kind == "multiclass", "thresholds": self._thresholds or None}
            inputs = read_inputs(y_true, y_proba, task=task, **options)
        return replace(inputs, weights=weights.astype(np.float64)) if nothing and weights is not None else inputs

    def counted(self) -> dict[Key, tuple[Property, Any]]:
        """Every table that is counted: its key, its property, and its cells."""
        wanted = {entry.key: (entry.error.property, entry.rule.counted) for entry in self._entries}
        for property in self.basics:
            if not any(key[0] == property.kind for key in wanted):
                wanted[property.kind, EqualWidth(1)] = (property, EqualWidth(1))
        return wanted

    @property
    def basics(self) -> tuple[Property, ...]:
        """The properties whose sums give direction (the first) and accuracy."""
        return (Distribution(self._thresholds).directed(),) if self._thresholds else BASICS[self._kind]

    @property
    def losses(self) -> LossSums | None:
        """The sums of the losses that no table holds, so far."""
        return self._losses

    def merge(self, other: Stream) -> Stream:
        """A stream of the rows of both, those of `other` after these; neither is changed."""
        if not isinstance(other, Stream):
            raise TypeError(f"a stream can only be merged with a stream, got {type(other).__name__}")
        first, second = sorted((self, other), key=id)  # in one order everywhere, so that no two merges wait for ever
        with first._lock, second._lock:
            return self._merged(other)

    def _merged(self, other: Stream) -> Stream:
        if self.frozen and other._waiting:  # rows that wait are counted by the edges that are known
            other = _counted_by(self, other)
        elif other.frozen and self._waiting:
            self = _counted_by(other, self)
        self._refuse_other(other)
        both = self.without_rows().expect(self._expected, min(self.accuracy, other.accuracy))
        both.units = self.units + other.units
        both._rows, both._observed = self._rows + other._rows, self._observed + other._observed
        both._shape = self._shape or other._shape
        both.kept = self.kept or other.kept
        both._waiting = [*self._waiting, *other._waiting]
        both._sketches = _joined(self._sketches, other._sketches)
        for key in self._sketches.keys() ^ other._sketches.keys():  # observe writes into sketches: they are not shared
            both._sketches[key] = both._sketches[key].copied()
        both._tallies = _joined(self._tallies, other._tallies)
        both._losses = self._losses
        if other._losses is not None:
            after = other._losses.turned(self._rows)
            both._losses = after if self._losses is None else self._losses.plus(after)
        for key in self._tallies.keys() ^ other._tallies.keys():  # update writes into blocks: they are not shared
            one = both._tallies[key]
            both._tallies[key] = replace(one, blocks=None if one.blocks is None else one.blocks.copied())
        if both._waiting_rows >= KEPT_ROWS:
            both._settle()
        return both

    def without_rows(self) -> Stream:
        """A separate stream over the same bins, without rows."""
        return Stream(self._entries, self._blocks, self._labels, self._pos_label).expect(self._expected, self.accuracy)

    @one_at_a_time
    def absorb(self, other: Stream) -> None:
        """Take over what a separate stream counted of rows with numbers among all (see `count`)."""
        for key, more in other._tallies.items():
            self._tallies[key] = self._tallies[key].plus(more) if key in self._tallies else more
        if other._losses is not None:
            self._losses = other._losses if self._losses is None else self._losses.plus(other._losses)
        self._shape = self._shape or other._shape
        self._rows += other._rows
        self.units += other.units

    def _refuse_other(self, other: Stream) -> None:
        self._refuse_torn()
        other._refuse_torn()
        if bool(self.units) != bool(other.units) and self.rows and other.rows:
            raise ValueError("cannot merge a stream of images with one of rows")
        for what, mine, theirs in (
            ("errors", [e.name for e in self._entries], [e.name for e in other._entries]),
            ("thresholds", self._thresholds, other._thresholds),
            ("bins", [e.n_bins for e in self._entries], [e.n_bins for e in other._entries]),
            ("edges", [e.rule for e in self._entries], [e.rule for e in other._entries]),
            ("numbers of blocks", self._blocks, other._blocks),
            ("labels", _listed(self._labels), _listed(other._labels)),
            ("positive labels", self._pos_label, other._pos_label),
        ):
            if mine != theirs:
                raise ValueError(f"cannot merge streams of different {what}: {shown(mine)} and {shown(theirs)}")
        if self._shape and other._shape and self._shape != other._shape:
            mine, theirs = _shape_text(*self._shape), _shape_text(*other._shape)
            raise ValueError(f"cannot merge streams of different predictions: {mine} and {theirs}")

    # -- what it says -----------------------------------------------------------------------------------------------

    @property
    def entries(self) -> tuple[StreamEntry, ...]:
        """The errors measured, each at one bin count and over separate cells."""
        return self._entries

    def entry(self, error: str, n_bins: int | None = None) -> StreamEntry:
        """One of the errors, at the given number of bins or at the first."""
        for entry in self._entries:
            if entry.name == error and n_bins in (None, entry.n_bins):
                return entry
        known = ", ".join(f"{entry.name!r} at {entry.n_bins}" for entry in self._entries)
        raise ValueError(f"{shown(error)} at {n_bins} bins is not measured here; expected one of {known}")

    def rule(self, error: str, n_bins: int | None = None) -> Any:
        """The frozen cells of an error, for `CalibrationError`, or for edges= of another stream; rows that wait for
        edges freeze them."""
        return self.freeze().entry(error, n_bins).rule if self._waiting else self.entry(error, n_bins).rule

    def table(self, error: str, n_bins: int | None = None) -> BinTable:
        """The table of an error so far."""
        now = self._now()
        return now.table_of(now.entry(error, n_bins))

    @one_at_a_time
    def table_of(self, entry: StreamEntry) -> BinTable:
        """The table of one of the entries."""
        return entry.read(self.tally_of(entry).whole())

    @one_at_a_time
    def tally_of(self, entry: StreamEntry) -> Tally:
        """The sums behind the table of one of the entries."""
        self._need_rows()
        return self._tallies[entry.key]

    @property
    def tallies(self) -> dict[Key, Tally]:
        """The sums by property and cells."""
        return self._tallies

    @property
    def sketches(self) -> dict[Key, Sketch]:
        """The distributions observed, by property and kind of rule, until they are frozen into edges."""
        return self._sketches

    @property
    def settings(self) -> dict[str, Any]:
        """All that is neither an error, a sketch nor a sum."""
        labels = _listed(self._labels)
        counts = {"rows": self._rows, "observed": self._observed, "shape": self._shape, "units": self.units}
        return {"blocks": self._blocks, "labels": labels, "pos_label": self._pos_label, **counts}

    @staticmethod
    def restored(
        entries: tuple[StreamEntry, ...], settings: dict[str, Any], losses: LossSums | None, kind: Kind | None = None
    ) -> Stream:
        """A stream without tables, in the state that `settings` describe; of predictions of a kind, where more than
        one would do."""
        labels = settings["labels"]
        stream = Stream(
            entries, settings["blocks"], None if labels is None else np.asarray(labels), settings["pos_label"]
        )
        stream._rows, stream._observed = int(settings["rows"]), int(settings["observed"])
        stream.units = int(settings.get("units", 0))
        stream._shape = None if settings["shape"] is None else tuple(settings["shape"])
        stream._losses = losses
        stream._kind = stream._kind if kind is None else kind
        return stream

    @property
    def dtype(self) -> str:
        """The type in which predictions are compared with edges."""
        assert self._shape is not None
        return working_dtype(np.empty(0, dtype=self._shape[1])).name

    @property
    def kind(self) -> Kind:
        """What the predictions are: multiclass, binary, top_label or ordered."""
        return self._kind

    @property
    def n_classes(self) -> int | None:
        """The number of classes, None where only the top class is known, or nothing yet."""
        return {"binary": 2, "top_label": None}.get(self._kind, None if self._shape is None else self._shape[0])

    def _need_rows(self) -> None:
        self._refuse_torn()
        if not self.rows:
            raise ValueError("the stream has no rows yet: update(y_true, y_proba) with some")

    @one_at_a_time
    def result(self, *, level: float = 0.95, name: str = "stream") -> Evaluation:
        """Everything measured so far: losses, errors as loss + U, gap and score with intervals from blocks of rows.

        What needs the rows themselves, the calibration test and the bands of calibrated predictors, is left out.
        """
        from .reading import evaluation_of

        self._need_rows()
        return evaluation_of(self._now(), level, name)

    @one_at_a_time
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state: one npz file without pickles, replaced only when it is complete. Rows that
        wait for edges freeze them first."""
        from .state import save_stream

        self._refuse_torn()
        if self._waiting:  # a state holds no rows
            self._settle()
        save_stream(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Stream:
        """A stream as `save` wrote it; a damaged state, or one of another version, raises an error."""
        from .state import load_stream

        return load_stream(path)

    def __repr__(self) -> str:
        bins = ", ".join(f"{e.name} ({'no' if e.n_bins is None else e.n_bins} bins)" for e in self._entries)
        state = f"{self._rows} rows" if self.frozen else f"{self._observed} observed, not frozen"
        if self._waiting:
            state = f"{self.rows} rows, kept until {KEPT_ROWS:,} give the edges"
        return f"<Stream of {bins}: {state}>"


def _counted_by(known: Stream, waiting: Stream) -> Stream:
    """The rows that wait in one stream, counted by the edges of another of the same errors."""
    names, theirs = ([*dict.fromkeys(entry.name for entry in stream.entries)] for stream in (known, waiting))
    if names != theirs:
        raise ValueError(f"cannot merge streams of different errors: {shown(names)} and {shown(theirs)}")
    made = known.without_rows()
    for one in waiting._waiting:
        made.count(one)
    return made


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


def _kind_of(entries: Sequence[StreamEntry]) -> Kind:
    """The kind of predictions that all errors can be measured on; confidence of one probability counts as binary."""
    properties = [COMPOSED[entry.name].property for entry in entries]
    order: tuple[Kind, ...] = ("top_label", "multiclass", "binary", "ordered", "multilabel", "distribution")
    for kind in order:
        if all(kind in p.kinds for p in properties):
            return kind
    if all("multiclass" in (*p.kinds, *p.kinds_if_named) for p in properties):
        return "multiclass"
    raise ValueError(
        f"errors must be of one kind of predictions, got {', '.join(dict.fromkeys(e.name for e in entries))}: "
        "classwise, confidence, full and ordinal go together, binary and confidence, or top_label, labelwise or "
        "distribution alone"
    )


def _shape_text(classes: int | None, dtype: str) -> str:
    return f"{dtype} of {'one number per row' if classes is None else f'{classes} classes'}"


def _joined(first: dict[Key, Any], second: dict[Key, Any]) -> dict[Key, Any]:
    """Both by key; what both have is merged."""
    common = {key: first[key].merge(second[key]) for key in first.keys() & second.keys()}
    return {**first, **second, **common}


def _listed(labels: Array | None) -> Any:
    return None if labels is None else labels.tolist()
