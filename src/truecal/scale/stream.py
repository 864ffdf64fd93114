"""stream: errors, gaps and scores of predictions that come in batches, in memory that does not grow with the rows."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, final

import numpy as np

from ..core.arrays import on_cpu
from ..core.data import as_array, check_positive_int, shown
from ..core.frames import refuse_reordered
from ..core.locks import one_at_a_time
from ..core.parameters import described
from ..core.rules import BinCounts
from ..core.table import BinTable
from ..core.types import Array
from ..evidence.kept_rows import KeptRows
from ..evidence.of_stream import stream_evidence
from ..evidence.stream_losses import LossSums
from ..evidence.stream_plan import StreamEntry, read_plan, refuse_other_edges
from ..evidence.stream_state import Key, StreamState, kind_of, listed, shape_text
from ..inference.checks import check_level
from ..kinds import BINARY, CLASSES, NUMBERS, Kind, ece_names
from ..kinds.images import ONLY_DENSE, as_rows, is_dense
from ..kinds.inputs import Inputs
from ..kinds.kind import Given
from ..kinds.numbers import cdf_values, has_own_levels, is_forecast
from ..results.assembly import make_evaluation
from ..results.comparison import Comparison, make_comparison
from ..results.evaluation import Evaluation
from ..sums.errors import CalibrationError

BLOCKS = 64
KEPT_ROWS = 1 << 16
"""The rows whose predictions give quantile edges where there is no first pass: they are kept until then."""
KEPT_BYTES = 1 << 28


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
    gap of 10 points [9.4, 11], too high (LinCE_binary, 10 bins, 20000 samples, 95% interval)
    """
    usual = (CLASSES if thresholds is None else NUMBERS).stream_errors
    if errors is None:
        entries = _usual_plan(usual, n_bins, edges, thresholds)
    else:
        entries = read_plan(errors, n_bins, edges, thresholds)
    refuse_other_edges(edges, [*(entry.name for entry in entries), *(BINARY.stream_errors if errors is None else ())])
    made = empty_stream(entries, blocks, labels, pos_label)
    if errors is None and thresholds is None:
        made.of_two_classes = lambda: _usual_plan(BINARY.stream_errors, n_bins, edges)
    return made


def _usual_plan(
    names: Sequence[str], n_bins: BinCounts | None, edges: Any, thresholds: Any = None
) -> tuple[StreamEntry, ...]:
    """The plan of default errors: the usual ECE has bins of equal width, 15 unless n_bins is a number."""
    plans: list[StreamEntry] = []
    for name in names:
        usual = name in ece_names()
        own = edges if not usual else edges.get(name) if isinstance(edges, Mapping) else None
        plans += read_plan(name, None if usual and isinstance(n_bins, str) else n_bins, own, thresholds)
    return tuple(plans)


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
class Stream(StreamState):
    """Predictions in batches, measured; made by `truecal.stream`, or restored by `Stream.load`.

    Threads may share a stream: batches are counted one at a time.
    """

    def _meet(self, shape: tuple[int, ...]) -> None:
        """Choose what is measured by the first predictions, where no errors were named."""
        if self.of_two_classes is not None and self._shape is None and (len(shape) == 1 or shape[1:] == (2,)):
            self._entries = self.of_two_classes()
            self._kind = kind_of(self._entries)
        self.of_two_classes = None

    # -- the first pass: predictions alone -----------------------------------------------------------------------------

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
        self.look_at(self._checked(array))

    def _at_thresholds(self, y_proba: Any) -> Any:
        """Forecasts of a number as F at the thresholds; all else as it is."""
        self.interpolated |= has_own_levels(y_proba)
        return cdf_values(y_proba, np.asarray(self._thresholds)) if is_forecast(y_proba) else y_proba

    def _checked(self, array: Array) -> Array:
        """Predictions of the kind that comes."""
        if self._kind.takes_thresholds:
            return cdf_values(array, np.asarray(self._thresholds))
        return self._kind.check_reports(array)

    @one_at_a_time
    def freeze(self, rows: int | None = None) -> Stream:
        """Make the edges of quantile bins from the predictions observed, for good; n_bins="auto" takes the number of
        `rows` that will come, by default that of the rows observed. Returns the stream itself."""
        if self.frozen:
            return self
        if self._waiting:
            self._settle()
            return self
        n = self.observed if rows is None else check_positive_int(rows, "rows")
        if not n or self._shape is None:
            raise ValueError("no predictions were observed: observe(y_proba) in a first pass, then freeze()")
        self._freeze(n, self.first_pass.rows)
        self.first_pass = KeptRows(observed=self.observed)
        return self

    # -- a single pass: rows are kept until their predictions give the edges -------------------------------------------

    def _keep(self, inputs: Inputs) -> None:
        """Rows to wait; enough of them give the edges."""
        self._check_shape(inputs.reports)
        weights = None if inputs.weights is None else inputs.weights.copy()
        self._waiting.append(replace(inputs, y=inputs.y.copy(), reports=inputs.reports.copy(), weights=weights))
        if self._waiting_rows >= KEPT_ROWS or sum(one.reports.nbytes for one in self._waiting) >= KEPT_BYTES:
            self._settle()

    def _settled(self) -> Stream:
        """The stream as it would be if no more rows came: edges from the rows kept, and these counted."""
        made = self.without_rows()
        made._shape = self._shape
        reports = np.concatenate([one.reports for one in self._waiting])[:KEPT_ROWS]
        made._freeze(self._expected or len(reports), reports)
        made.kept = len(reports)
        for one in self._waiting:
            made.count(one)
        return made

    def _settle(self) -> None:
        """Freeze the edges for good and count the rows kept."""
        made = self._settled()
        self._entries, self._tallies, self._losses = made._entries, made._tallies, made._losses
        self._rows, self.kept, self._waiting = made._rows, made.kept, []

    def _now(self) -> Stream:
        """The stream with all its rows counted; this one where none wait."""
        return self._settled() if self._waiting else self

    # -- the pass over labels and predictions --------------------------------------------------------------------------

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
        refuse_reordered(y_true=y_true, y_proba=y_proba, sample_weight=sample_weight, groups=groups)
        if is_dense(y_proba):
            if groups is not None:
                raise ValueError("groups cannot be used with images: each is a group")
            self._update_dense(y_true, y_proba, sample_weight, ignore_index, class_axis)
            return
        if ignore_index is not None or class_axis is not None:
            raise ValueError(ONLY_DENSE)
        y_proba = self._at_thresholds(y_proba)
        self._meet(as_array(y_proba, "y_proba").shape)
        if not self.frozen and self.observed:
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
        home = units % (self._blocks or 1)
        for block in dict.fromkeys(home.tolist()):  # that of the first cluster first: it may go on
            rows = np.flatnonzero(home == block)
            weights = None if inputs.weights is None else inputs.weights[rows]
            part = replace(inputs, y=inputs.y[rows], reports=inputs.reports[rows], weights=weights)
            self.count(part, unit=block, ids=units[rows])
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
        if not self.frozen and self.observed:
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
        self._freeze(self._expected or len(reports), reports)
        self.kept = len(reports)

    def _read(self, y_true: Any, y_proba: Any, sample_weight: Any) -> Inputs:
        weights = None if sample_weight is None else np.asarray(as_array(sample_weight, "sample_weight"))
        nothing = weights is not None and weights.dtype.kind in "iuf" and weights.size and not weights.any()
        checked = np.ones(weights.shape) if nothing and weights is not None else weights
        # a batch in which no row counts is a batch all the same
        shape = np.shape(as_array(y_proba, "y_proba"))
        if not self._kind.fits(shape):
            wanted = "a column per class" if self._kind.wide else "one probability per row"
            raise ValueError(f"expected {wanted}, got predictions of shape {shape}")
        columns, thresholds = self._kind.of_classes, self._thresholds or None
        given = Given(y_true, y_proba, self._labels, self._pos_label, checked, columns, thresholds=thresholds)
        inputs = self._kind.read_batch(given)
        return replace(inputs, weights=weights.astype(np.float64)) if nothing and weights is not None else inputs

    # -- both of two ---------------------------------------------------------------------------------------------------

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
        both = self.without_rows().expect(self._expected)
        both.units, both.interpolated = self.units + other.units, self.interpolated or other.interpolated
        both._rows, both.first_pass = self._rows + other._rows, self.first_pass.merge(other.first_pass)
        both._shape = self._shape or other._shape
        both.kept = self.kept or other.kept
        both._waiting = [*self._waiting, *other._waiting]
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
            ("labels", listed(self._labels), listed(other._labels)),
            ("positive labels", self._pos_label, other._pos_label),
        ):
            if mine != theirs:
                raise ValueError(f"cannot merge streams of different {what}: {shown(mine)} and {shown(theirs)}")
        if self._shape and other._shape and self._shape != other._shape:
            mine, theirs = shape_text(*self._shape), shape_text(*other._shape)
            raise ValueError(f"cannot merge streams of different predictions: {mine} and {theirs}")

    # -- what it says --------------------------------------------------------------------------------------------------

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

    @staticmethod
    def restored(
        entries: tuple[StreamEntry, ...], settings: dict[str, Any], losses: LossSums | None, kind: Kind | None = None
    ) -> Stream:
        """A stream without tables, in the state that `settings` describe; of predictions of a kind, where more than
        one would do."""
        stream = empty_stream(entries, settings["blocks"], settings["labels"], settings["pos_label"])
        stream._rows, stream.first_pass = int(settings["rows"]), KeptRows(observed=int(settings["observed"]))
        stream.units = int(settings.get("units", 0))
        stream._shape = None if settings["shape"] is None else tuple(settings["shape"])
        stream._losses = losses
        stream._kind = stream._kind if kind is None else kind
        return stream

    @one_at_a_time
    def result(self, *, level: float = 0.95, name: str = "stream") -> Evaluation:
        """Everything measured so far: losses, errors as loss + U, gap and score with intervals from blocks of rows.

        What needs the rows themselves, the calibration test and the bands of calibrated predictors, is left out.
        """
        self._need_rows()
        return evaluation_of(self._now(), level, name)

    @one_at_a_time
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state: one npz file without pickles, replaced only when it is complete. Rows that
        wait for edges freeze them first."""
        from .saved_stream import save_stream

        self._refuse_torn()
        if self._waiting:  # a state holds no rows
            self._settle()
        save_stream(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Stream:
        """A stream as `save` wrote it; a damaged state, or one of another version, raises an error."""
        from .saved_stream import load_stream

        return load_stream(path)

    def __repr__(self) -> str:
        bins = ", ".join(f"{e.name} ({'no' if e.n_bins is None else e.n_bins} bins)" for e in self._entries)
        state = f"{self._rows} rows" if self.frozen else f"{self.observed} observed, not frozen"
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


def _joined(first: dict[Key, Any], second: dict[Key, Any]) -> dict[Key, Any]:
    """Both by key; what both have is merged."""
    common = {key: first[key].merge(second[key]) for key in first.keys() & second.keys()}
    return {**first, **second, **common}


def evaluation_of(stream: StreamState, level: float, name: str, seed: int | None = None) -> Evaluation:
    """The stream so far, as `evaluate` would give it, without what needs rows; with a seed, tested by its blocks."""
    return make_evaluation(stream_evidence(stream, check_level(level), seed), name)


def compare_streams(
    streams: Mapping[str, StreamState], level: float = 0.95, evaluations: dict[str, Evaluation] | None = None
) -> Comparison:
    """Models whose streams saw the same rows in the same order, as `compare` would give them without the rows; with
    `evaluations` that have been made of them already."""
    first = next(iter(streams.values()))
    for name, stream in streams.items():
        same = [(e.name, e.n_bins) for e in stream.entries] == [(e.name, e.n_bins) for e in first.entries]
        if stream.rows != first.rows or not same:
            raise ValueError(f"streams must have the same rows, errors and bins: {name!r} differs from the first")
    evidence = {name: stream_evidence(stream, check_level(level)) for name, stream in streams.items()}
    if evaluations is None:
        evaluations = {name: make_evaluation(found, name) for name, found in evidence.items()}
    return make_comparison(evaluations, evidence, None, check_level(level), [])
