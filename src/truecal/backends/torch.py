"""Cell sums with torch, where the tensors lie: samples are validated, ordered and summed there, and numbers return.

The same tables as numpy's, made of tensors: `core.table` reads both. Vocabulary as in `backends.numpy`: a *view* is one
scalar report per row, a *cut* a position between two neighbours of the sorted reports; the *block* of a cut holds the
reports that equal the one just before it. Sums over runs are differences of cumulative sums in float64.
"""

# A sample's arrays are typed for numpy: where they are tensors mypy sees Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.cells import refuse_misfit, refuse_outside_edges
from ..core.data import (
    HALF_ROW_SUM_TOLERANCE,
    LARGEST,
    ROW_SUM_TOLERANCE,
    SMALLEST,
    as_array,
    check_class_outcomes,
    check_weights,
    working_dtype,
)
from ..core.properties import Binary, Classwise, Confidence, Linear, Outcomes, Property, TopLabel
from ..core.rules import (
    ArgmaxEdges,
    ArgmaxQuantile,
    AveragedRule,
    BinningRule,
    Edges,
    EqualWidth,
    Exact,
    FixedRule,
    Halfspaces,
    KdTree,
    KMeans,
    OnGrid,
    Poisson,
    Quantile,
    TwoBin,
    VectorRule,
    _cuts_within,
    decayed_prefix,
    quantile_cuts,
)
from ..core.sample import Sample
from ..core.table import BinTable, Moments
from . import on_device
from .numpy import DISPATCH, Dispatch

Tables = tuple[BinTable, ...]

_MOST_CELLS = 1 << 22  # numbers in one array of cells that a raw error may make
_LANES = 64  # copies of a row of cells among which sums are spread, so that few additions meet in one place
_HALVES = (torch.float16, torch.bfloat16)

# -- what the user hands in -------------------------------------------------------------------------------------------


class _UnusualError(Exception):
    """Input that is not in the plain form which is checked on the device; the checks of the CPU decide."""


def tensor(x: Any) -> Tensor:
    """A tensor over the memory of x, which lies on a device already: torch's own, or anything with DLPack."""
    found: Tensor = x.detach() if hasattr(x, "detach") else torch.from_dlpack(x)
    return found


def like(array: Any, other: Tensor) -> Tensor:
    """A numpy array as a tensor beside another."""
    return torch.as_tensor(np.ascontiguousarray(array), device=other.device)


def on_cpu(x: Any) -> Any:
    """A tensor on the CPU; anything else as it is."""
    return tensor(x).cpu() if _is_here(x) else x


def _is_here(x: Any) -> bool:
    return isinstance(x, Tensor) or on_device(x)


def read(property: Property, y_true: Any, y_proba: Any, sample_weight: Any = None, labels: Any = None) -> Sample:
    """A validated sample of tensors beside the predictions; labels and weights from elsewhere are moved there.

    All conditions are tested on the device and read at once. Where one fails the arrays go to the CPU, whose checks
    name the row; labels to be translated (names, fractions) always do.
    """
    reports = tensor(y_proba)
    flags: list[Tensor] = []
    try:
        y, reports, top = _checked(property, y_true, reports, labels, flags)
        weights = _checked_weights(sample_weight, reports, flags)
        if not flags or bool(torch.stack(flags).all()):
            return _sample(property, y, reports, weights, top)
    except _UnusualError:
        pass
    found, host = property.check(on_cpu(y_true), on_cpu(y_proba), labels)
    weight = check_weights(on_cpu(sample_weight), len(host))
    y, reports = like(found, reports), like(host, reports)
    moved = None if weight is None else like(weight, reports)
    return _sample(property, y, reports, moved, None)


_Top = tuple[Tensor, Tensor, int] | None
"""Where they are known already: whether the top class came, its probability, and how often it came."""


def _sample(property: Property, y: Any, reports: Any, weights: Any, top: _Top) -> Sample:
    if top is None or not isinstance(property, Confidence):
        return property.sample(y, reports, weights)
    right, confidence, hits = top
    known = TopLabel().sample(right, confidence, weights)  # type: ignore[arg-type]  # tensors in place of arrays
    sample = replace(known, distributions=reports, labels=y)
    return sample if weights is not None else _with_hits(sample, hits)


def _with_hits(sample: Sample, hits: int) -> Sample:
    """A sample of confidences that knows how many of its top classes came, without another transfer."""
    if sample.wrong is not None:
        vars(sample)["wrong_weight"] = float(sample.rows - hits)  # a cached property
    return sample


def read_and_measure(
    error: Any, y_true: Any, y_proba: Any, sample_weight: Any, labels: Any
) -> tuple[Sample, list[Moments] | None]:
    """A sample, and what its raw error is made of where Triton has a short way there (else None).

    The check of the rows and the sums are under way together and read together: a number that comes from rows which
    turn out to be wrong is thrown away, and the checks of the CPU say what is wrong.
    """
    property, rule = error.property, error.binning
    plain = isinstance(property, (Classwise, Confidence)) and isinstance(rule, (Quantile, EqualWidth))
    ahead = _walked(y_true, tensor(y_proba), labels) if plain and sample_weight is None else None
    if ahead is not None:
        y, u, (status, top, right), fused = ahead
        sample = _sample(property, y, u, None, (right, top, 0))
        rule = error.at(sample).binning
        values = _raw_values(sample, rule, error.ties, error.norm, DISPATCH, fused)
        fine, hits = fused.verdict(status)
        if fine and values is not None:
            return _with_hits(sample, hits), _moments(*values, error.norm)
    return read(property, y_true, y_proba, sample_weight, labels), None


def _checked(
    property: Property, y_true: Any, reports: Tensor, labels: Any, flags: list[Tensor]
) -> tuple[Tensor, Tensor, _Top]:
    """Outcomes and reports in the plain form, with the conditions on their values added to `flags`."""
    top: _Top = None
    if isinstance(property, (Binary, TopLabel, Outcomes)):
        if labels is not None:
            raise _UnusualError
        y, u = _moved(y_true, "outcomes", reports), _floating(reports)
        if isinstance(property, Outcomes):
            y, u = _checked_pair(y, u, property, flags)
        else:
            y, u = _checked_marks(y, getattr(property, "pos_label", 1), flags), _checked_scalars(u, flags)
    else:
        y, u, top = _checked_rows(y_true, reports, labels, flags)
        if isinstance(property, Linear) and u.shape[1] != len(property.phi):
            raise _UnusualError
    if len(y) != len(u):
        raise _UnusualError
    return y, u, top


def _checked_rows(y_true: Any, reports: Tensor, labels: Any, flags: list[Tensor]) -> tuple[Tensor, Tensor, _Top]:
    """Class labels and distributions: plain ones on a GPU in one pass over the matrix."""
    ahead = _walked(y_true, reports, labels)
    if ahead is None:
        u = _checked_distributions(reports, flags)
        return _checked_classes(y_true, u, labels, flags), u, None
    y, u, (status, top, right), fused = ahead
    fine, hits = fused.verdict(status)
    if not fine:
        raise _UnusualError
    return y, u, (right, top, hits)


def _walked(y_true: Any, reports: Tensor, labels: Any) -> tuple[Tensor, Tensor, Any, Any] | None:
    """Class indices and distributions whose check is under way, with its status; None where they are not plain."""
    fused = _fused(reports)
    if fused is None or labels is not None or not _is_here(y_true) or reports.ndim != 2 or reports.shape[1] < 2:
        return None
    y = tensor(y_true).to(reports.device)
    if y.shape != reports.shape[:1] or y.dtype not in (torch.int64, torch.int32) or not len(y):
        return None
    u, y = _floating(reports), y.long().contiguous()
    return y, u, fused.check(u, y, _tolerance(reports), _slack(u)), fused


def _tolerance(x: Tensor) -> float:
    return HALF_ROW_SUM_TOLERANCE if x.dtype in _HALVES else ROW_SUM_TOLERANCE


def _floating(x: Tensor) -> Tensor:
    """Half precision as float32, whole numbers as float64."""
    if x.is_complex() or x.numel() == 0:
        raise _UnusualError
    if x.dtype in _HALVES:
        return x.float()
    return x if x.dtype in (torch.float32, torch.float64) else x.double()


def _moved(x: Any, name: str, other: Tensor) -> Tensor:
    """Numbers, from wherever they are, beside another tensor."""
    if _is_here(x):
        return tensor(x).to(other.device)
    array = np.asarray(as_array(x, name))
    if array.dtype.kind not in "biuf":
        raise _UnusualError
    return like(array.astype(np.int64) if array.dtype.kind == "u" else array, other)


def _slack(x: Tensor) -> float:
    return 8 * torch.finfo(x.dtype).eps


def _within(x: Tensor, low: float, high: float) -> Tensor:
    """Whether all of x lies in [low, high]; false with a NaN."""
    least, most = torch.aminmax(x)
    return (least >= low) & (most <= high)


def _checked_distributions(x: Tensor, flags: list[Tensor]) -> Tensor:
    if x.ndim != 2 or x.shape[1] < 2:
        raise _UnusualError
    tolerance = _tolerance(x)
    x = _floating(x)
    flags += [_within(x, -_slack(x), 1 + _slack(x)), _within(x.sum(1), 1 - tolerance, 1 + tolerance)]
    return x


def _checked_classes(y_true: Any, p: Tensor, labels: Any, flags: list[Tensor]) -> Tensor:
    y = tensor(y_true).to(p.device) if _is_here(y_true) else None
    if y is None or labels is not None or y.ndim > 2 or (y.is_floating_point() and y.ndim < 2) or y.dtype == torch.bool:
        return like(check_class_outcomes(on_cpu(y_true), p.shape[1], labels), p)
    if y.ndim == 2 and y.shape[1] > 1:
        if y.shape[1] != p.shape[1]:
            raise _UnusualError
        return _checked_distributions(y, flags).double()
    y = y.reshape(-1).long()
    if len(y) == 0:
        raise _UnusualError
    flags.append(_within(y, 0, p.shape[1] - 1))
    return y


def _checked_scalars(u: Tensor, flags: list[Tensor]) -> Tensor:
    if u.ndim != 1:
        raise _UnusualError
    flags.append(_within(u, -_slack(u), 1 + _slack(u)))
    return u


def _checked_marks(y: Tensor, positive: Any, flags: list[Tensor]) -> Tensor:
    if y.ndim != 1 or len(y) == 0 or (positive is not True and positive != 1):
        raise _UnusualError
    if y.dtype != torch.bool:
        flags.append(((y == 0) | (y == 1)).all())
    return y == 1


def _checked_pair(phi: Tensor, u: Tensor, property: Outcomes, flags: list[Tensor]) -> tuple[Tensor, Tensor]:
    phi = _floating(phi).double()
    if phi.shape != u.shape or u.ndim not in (1, 2):
        raise _UnusualError
    for x in (phi, u):
        size = x.abs().amax().double()
        flags.append((size <= LARGEST) & ((size == 0) | (size >= SMALLEST)))
    if (bounds := property.bounds) is not None:
        slack = _slack(u) * max(map(abs, bounds))
        flags.append(_within(u, bounds[0] - slack, bounds[1] + slack))
    return (phi[:, 0], u[:, 0]) if u.ndim == 2 and u.shape[1] == 1 else (phi, u)


def _checked_weights(sample_weight: Any, reports: Tensor, flags: list[Tensor]) -> Tensor | None:
    if sample_weight is None:
        return None
    w = _floating(_moved(sample_weight, "sample_weight", reports)).double()
    if w.shape != reports.shape[:1]:
        raise _UnusualError
    flags += [_within(w, 0.0, torch.finfo(w.dtype).max), w.any()]
    return w


# -- rows of a sample --------------------------------------------------------------------------------------------------


def views_of(sample: Sample, columns: slice) -> Tensor:
    """The reports of some views, (views, n)."""
    reports: Any = sample.reports
    return reports[None, :] if reports.ndim == 1 else reports[:, columns].T


def _outcome(sample: Sample, columns: slice) -> Tensor:
    """Outcomes of some views, (views, n) in float64."""
    values: Any = sample.values
    marks: Any = sample.marks
    if values is not None:
        return values[None, :].double() if values.ndim == 1 else values[:, columns].T.double()
    if marks.dtype == torch.bool:
        return marks[None, :].double()
    return (marks == torch.arange(columns.start, columns.stop, device=marks.device)[:, None]).double()


def _row_sums(sample: Sample, columns: slice) -> list[Tensor]:
    """weight·outcome, weight·residual, (weight·residual)² and, with weights, weight and weight²: each (views, n)."""
    outcome = _outcome(sample, columns)
    residual = views_of(sample, columns).double() - outcome
    w: Any = sample.weights
    if w is None:
        return [outcome, residual, residual.square()]
    residual = w * residual
    return [w * outcome, residual, residual.square(), w.expand_as(residual), (w * w).expand_as(residual)]


def residual_sq(sample: Sample) -> Tensor:
    """Per row, |u − φ(y)|², summed over the views."""
    plain = replace(sample, weights=None)
    return sum(_row_sums(plain, tile)[2].sum(0) for tile in _tiles(sample))  # type: ignore[return-value]  # never empty, so never 0


def _tiles(sample: Sample, budget: int = DISPATCH.device_numbers) -> list[slice]:
    """Runs of views that hold about `budget` reports."""
    width = max(1, budget // sample.rows)
    return [slice(j, min(j + width, sample.views)) for j in range(0, sample.views, width)]


def times(reports: Tensor, direction: np.ndarray[Any, Any]) -> Tensor:
    """reports @ direction in float64, a block of rows at a time."""
    vector = like(direction, reports)
    step = max(1, DISPATCH.device_numbers // reports.shape[1])
    return torch.cat([reports[i : i + step].double() @ vector for i in range(0, len(reports), step)])


# -- tables ------------------------------------------------------------------------------------------------------------


def tables(build: Any) -> Iterator[Tables]:
    """The tables of a sample, a few views at a time; `build` knows the sample, the rule, ties and what is asked for."""
    sample, rule = build.sample, build.rule
    if sample.joint:
        yield from _vector_tables(build)
    elif isinstance(rule, FixedRule) and _listed(build):
        yield _interval_tables(build)
    elif isinstance(rule, Quantile) and not (build.squares or build.needs_cells):
        for tile in _tiles(sample, build.dispatch.device_numbers):
            yield _quantile_tables(build, tile)
    else:
        for tile in _tiles(sample, build.dispatch.device_numbers >> 2):
            yield _sorted_tables(build, tile)


def has(rule: BinningRule) -> bool:
    """Whether the rule is measured here; frozen cells of single views and classes are left to numpy."""
    if isinstance(rule, Edges):
        return not rule.per_view
    return not isinstance(rule, (OnGrid, ArgmaxEdges))


def on_host(table: BinTable) -> BinTable:
    """The same table in numpy's arrays."""
    parts: dict[str, Any] = {name: part for name, part in vars(table).items() if isinstance(part, Tensor)}
    return replace(table, **{name: part.cpu().numpy() for name, part in parts.items()})


def as_numbers(pieces: Sequence[Sequence[Moments]]) -> list[list[Moments]]:
    """Moments as plain numbers, all of them in one transfer."""
    found = [x for piece in pieces for moments in piece for x in moments if isinstance(x, Tensor)]
    numbers = iter(torch.stack(found).tolist())
    return [[Moments(*(next(numbers) if isinstance(x, Tensor) else x for x in m)) for m in piece] for piece in pieces]


@dataclass(frozen=True)
class Cut:
    """Where bins end, (views or 1, bins) positions, and the block at each end: first, last (both the end: no block)."""

    end: Tensor
    first: Tensor
    last: Tensor

    @property
    def share(self) -> Tensor:
        """The share of the block that lies before the end; of an empty block, none."""
        return (self.end - self.first).double() / (self.last - self.first).clamp(min=1)

    @staticmethod
    def plain(end: Tensor) -> Cut:
        """Ends that divide no block, or whose rows keep their order."""
        return Cut(end, end, end)


def _table(build: Any, c: int, rows: Sequence[Tensor], cut: Cut) -> BinTable:
    """The bins between the ends, from cumulative sums of the rows in order, (views, n + 1) each."""
    views = len(rows[0])
    end, first, last = (x.expand(views, -1) for x in (cut.end, cut.first, cut.last))
    blocks = [(x.gather(1, first), x.gather(1, last)) for x in rows]
    upto = [low + (high - low) * cut.share for low, high in blocks]
    sums = [steps_of(x) for x in upto]
    outcome, residual, own, *weight = sums
    count = weight[0] if weight else steps_of(end.double())
    if cut.first is cut.last:
        return build.table(c, (count, outcome, residual, own), _zeros(count), **_weight_sq(weight))
    parts = [high - low for low, high in blocks]
    variance = tie_variance(end, first, last, parts[1], parts[2])
    of_weight = tie_variance(end, first, last, parts[3], parts[4]) if weight else None
    more = _weight_sq(weight) | {"weight_variance": of_weight}
    return build.table(c, (count, outcome, residual, own), variance, **more)


def _weight_sq(weight: Sequence[Tensor]) -> dict[str, Any]:
    return {"weight_sq": weight[1] if weight else None}


def _zeros(other: Tensor) -> Tensor:
    return other.new_zeros(()).expand_as(other)


def steps_of(x: Tensor) -> Tensor:
    """Differences of neighbours along the last axis, the first from 0."""
    return torch.diff(x, prepend=x.new_zeros(()).expand(*x.shape[:-1], 1))


def _summed(rows: Sequence[Tensor], order: Tensor) -> list[Tensor]:
    """Cumulative sums of the rows in an order, from 0: (views, n + 1)."""
    return [torch.nn.functional.pad(x.gather(1, order.expand_as(x)).cumsum(1), (1, 0)) for x in rows]


def tie_variance(end: Tensor, first: Tensor, last: Tensor, total: Tensor, squares: Tensor) -> Tensor:
    """Variance of each bin's sum over the orders of the blocks at its two ends.

    A block of t rows with sum R and sum of squares Q that gives s rows to the bin adds s(t − s)/(t²(t − 1))·(tQ − R²);
    a block that covers the whole bin counts once.
    """
    size = (last - first).double()
    spread = (size * squares - total.square()).clamp(min=0) / (size.square() * (size - 1)).clamp(min=1)
    start, (old_first, old_last, old_size, old_spread) = (
        _before(end),
        (_before(x) for x in (first, last, size, spread)),
    )
    from_left = torch.minimum(old_last, end) - start
    from_right = end - torch.maximum(first, start)
    same = (old_first == first) & (old_last > start)
    left = from_left * (old_size - from_left) * old_spread
    right = from_right * (size - from_right) * spread
    return left + right.masked_fill(same, 0.0)


def _before(x: Tensor) -> Tensor:
    """What the bin before has, 0 for the first."""
    return torch.nn.functional.pad(x[..., :-1], (1, 0))


# -- one number per row ------------------------------------------------------------------------------------------------


def _sorted_tables(build: Any, columns: slice) -> Tables:
    """Views in the order of their reports, whatever the rule, weights and outcomes."""
    sample, rule = build.sample, build.rule
    x, order = views_of(sample, columns).contiguous().sort(dim=1, stable=True)
    rows = _row_sums(sample, columns)
    if isinstance(rule, Quantile):
        summed = _summed(rows, order)
        cuts = [_rank_cut(x, end, build.ties) for end in _ends(build, x)]
        return tuple(_table(build, c, summed, cut) for c, cut in enumerate(cuts))
    assert isinstance(rule, (Exact, FixedRule))
    cells = [x] if isinstance(rule, Exact) else [_intervals(x, edges) for edges in build.edges()]
    return tuple(_cells_table(build, c, cell, order, rows) for c, cell in enumerate(cells))


def _ends(build: Any, other: Tensor) -> list[Tensor]:
    """For each bin count, the positions at which quantile bins end, (1, bins)."""
    n = build.sample.rows
    return [like(np.append(cuts, n)[None], other) for cuts in build.rule.shared_cuts(n)]


def _rank_cut(x: Tensor, end: Tensor, ties: str) -> Cut:
    """Ends among sorted reports with their blocks, under a treatment of ties."""
    if ties == "row":
        return Cut.plain(end)
    value = x[:, end[0] - 1]
    last = torch.searchsorted(x, value, right=True)
    return Cut.plain(last) if ties == "together" else Cut(end, torch.searchsorted(x, value), last)


def _cells_table(build: Any, c: int, cell: Tensor, order: Tensor, rows: Sequence[Tensor]) -> BinTable:
    """Runs of equal numbers `cell` (views, n), in order, are the cells; empty ones are left out."""
    place = torch.nn.functional.pad((cell[:, 1:] != cell[:, :-1]).cumsum(1), (1, 0))
    width = int(place.max()) + 1
    ones = torch.ones_like(rows[0])
    every = [x.gather(1, order) for x in rows] if len(rows) > 3 else [ones, *(x.gather(1, order) for x in rows)]
    sums = [x.new_zeros(len(x), width).scatter_add_(1, place, x) for x in every]
    if len(rows) > 3:
        sums = [sums[3], *sums[:3], sums[4]]
    return build.table(c, sums[:4], _zeros(sums[0]), **_weight_sq([sums[0], *sums[4:]][: len(rows) - 3]))


# -- averages over cuts ------------------------------------------------------------------------------------------------


def point_moments(sample: Sample, rule: AveragedRule | Halfspaces, dispatch: Dispatch) -> list[Moments]:
    """What an average over cuts needs, a few views at a time: every row is a point, and all of them are held."""
    refuse_misfit(sample, rule)
    found = []
    if isinstance(rule, Halfspaces):
        keys: Any = rule.keys(sample.reports)
        for key in keys:
            points, order = key.sort(stable=True)
            for tile in _tiles(sample, dispatch.device_numbers >> 2):
                found.append(_of_points(TwoBin(), (0.0, 1.0), points[None], order[None], _row_sums(sample, tile)))
        return found
    for tile in _tiles(sample, dispatch.device_numbers >> 2):
        points, order = views_of(sample, tile).contiguous().sort(dim=1, stable=True)
        found.append(_of_points(rule, sample.bounds, points.double(), order, _row_sums(sample, tile)))
    return found


def _of_points(rule: AveragedRule, bounds: Any, points: Tensor, order: Tensor, rows: Sequence[Tensor]) -> Moments:
    """As `core.table.PointSums.moments`, for points (views or 1, n) and rows in their own order."""
    residual, own = rows[1].gather(1, order.expand_as(rows[1])), rows[2].sum(1)
    weight = rows[3].gather(1, order.expand_as(residual)) if len(rows) > 3 else torch.ones_like(residual)
    squared = _form(rule, bounds, points, residual)
    whole = _form(rule, bounds, points, weight)
    pairs = whole - weight.square().sum(1)
    pairs = torch.where(pairs > 1e-9 * whole, pairs, 0.0)  # a single row meets no other
    gaps = torch.where(pairs > 0, (squared - own) / pairs, torch.nan)
    return Moments(squared=squared.sum(), own=own.sum(), gap_sq=gaps.sum(), pair_weight=pairs.sum())


def _form(rule: AveragedRule, bounds: Any, points: Tensor, sums: Tensor) -> Tensor:
    """S'GS of each row of sums: the rule's running form, with all points at once."""
    if isinstance(rule, Poisson):
        decay = torch.exp(-torch.diff(points, prepend=points[:, :1]) / rule.theta)
        carried: Any = decayed_prefix(decay, sums)  # type: ignore[arg-type]  # tensors in place of arrays
        smooth: Tensor = (sums * (sums + 2 * carried)).sum(1)
        return smooth
    rule.running(1, bounds)  # refuses a missing range
    low, high = bounds
    gaps = torch.cat([torch.diff(points), high - points[:, -1:]], 1) / (high - low)
    centred = sums.cumsum(1)
    half = centred[:, -1:] / 2
    centred = centred - half  # L − T/2 keeps the sum free of cancellation
    first = (points[:, 0] - low) / (high - low) * half[:, 0].square()
    whole: Tensor = 2 * (first + (gaps * centred.square()).sum(1)) + 2 * half[:, 0].square()
    return whole


# -- quantile bins from sorted values alone ----------------------------------------------------------------------------


def _quantile_tables(build: Any, columns: slice) -> Tables:
    """0/1 outcomes without weights: of the rows only the reports are sorted, and outcomes are counted by their values.

    With L the report before a cut at place c, and its block from `first` to `last`, a row with outcome 1 lies before
    the cut if its report is below L, and with chance (c − first)/(last − first) if it equals L.
    """
    sample = build.sample
    n = sample.rows
    x = views_of(sample, columns).contiguous().sort(dim=1).values
    every = [np.append(cuts, n) for cuts in build.rule.shared_cuts(n)]
    union = every[0] if len(every) == 1 else np.unique(np.concatenate(every))
    end = like(union, x)[None]
    place = end[0] - 1
    value = x[:, place]
    total = x.cumsum(1, dtype=torch.float64)[:, place]
    below, upto = _counted(sample, columns, value)
    cut = Cut(end, torch.searchsorted(x, value), torch.searchsorted(x, value, right=True))
    if build.ties == "together":
        total = total + (cut.last - end) * value.double()
        cut, hits, marked = Cut.plain(cut.last), upto, None
    else:
        marked = upto - below
        hits = below + marked * cut.share
    count = cut.end.expand_as(hits).double()
    return _coarse_tables(build, every, union, torch.stack([count, hits, total - hits]), cut, marked)


def _coarse_tables(
    build: Any, every: Sequence[Any], union: Any, upto: Tensor, cut: Cut, marked: Tensor | None
) -> Tables:
    """The tables of every bin count, side by side, from sums up to the union of all their cuts."""
    if len(every) > 1:
        index = like(np.concatenate([np.searchsorted(union, ends) for ends in every]), upto)
        upto, marked = upto[..., index], None if marked is None else marked[:, index]
        cut = Cut(*(x[:, index] for x in (cut.end, cut.first, cut.last)))
    starts = np.cumsum([0, *(len(ends) for ends in every)])
    sums = steps_of(upto)
    variance = None if marked is None else tie_variance(cut.end, cut.first, cut.last, marked, marked)
    found = []
    for c, (start, stop) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        here = sums[..., start:stop]
        ties = _zeros(here[0]) if variance is None else variance[:, start:stop]
        if start:  # the first bin begins at 0, where the one before it in line belongs to another count
            here = torch.cat([upto[..., start : start + 1], here[..., 1:]], -1)
        if start and variance is not None:
            assert marked is not None
            one = slice(start, start + 1)
            ends = (x[:, one] for x in (cut.end, cut.first, cut.last, marked, marked))
            ties = torch.cat([tie_variance(*ends), ties[:, 1:]], -1)
        found.append(build.table(c, here, ties))
    return tuple(found)


def _counted(sample: Sample, columns: slice, value: Tensor) -> tuple[Tensor, Tensor]:
    """Per view and cut, how many rows with outcome 1 have a report below, and at most, the value at the cut."""
    reports: Any = sample.reports
    marks: Any = sample.marks
    views, cuts = value.shape
    if reports.ndim == 1:
        row, own, weight = torch.zeros_like(marks, dtype=torch.long), reports.contiguous(), marks.double()
        at_most = torch.searchsorted(value[0], own)
        below = torch.searchsorted(value[0], own, right=True)
    else:
        own = reports.gather(1, marks[:, None])[:, 0]
        weight = ((marks >= columns.start) & (marks < columns.stop)).double()
        row = (marks - columns.start).clamp(0, views - 1)
        at_most, below = search_rows(value, row, own)
    width = cuts + 1
    counts = value.new_zeros(2, views * width, dtype=torch.float64)
    counts[0].index_add_(0, row * width + below, weight)
    counts[1].index_add_(0, row * width + at_most, weight)
    found = counts.view(2, views, width)[..., :-1].cumsum(-1)
    return found[0], found[1]


def search_rows(table: Tensor, row: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Where values[i] would go in the sorted table[row[i]]: before its equals, and after them."""
    width = table.shape[1]
    flat = table.reshape(-1)
    begin = torch.cat([row, row]) * width
    wanted = torch.cat([value, value])
    after = torch.zeros_like(begin, dtype=torch.bool)
    after[len(row) :] = True
    low, high = begin, begin + width
    for _ in range(width.bit_length()):
        middle = (low + high) // 2
        found = flat[middle.clamp(max=len(flat) - 1)]
        right = ((found < wanted) | (after & (found == wanted))) & (middle < high)
        low, high = torch.where(right, middle + 1, low), torch.where(right, high, middle)
    place = low - begin
    return place[: len(row)], place[len(row) :]


# -- fixed intervals ---------------------------------------------------------------------------------------------------


def _listed(build: Any) -> bool:
    """Whether all cells of all views can be held at once; else each report looks for its own, in order."""
    if max(build.rule.counts or (1,)) > 1 << 20:
        return False
    edges = sum(len(e) for e in build.edges())
    return bool(edges * build.sample.views <= max(1 << 22, build.sample.reports.numel()))


def _intervals(x: Tensor, edges: Any) -> Tensor:
    """The interval (e_{j−1}, e_j] of each report."""
    return torch.bucketize(x.contiguous(), like(edges[1:-1], x))


def _interval_tables(build: Any) -> Tables:
    """All views over fixed intervals, without a sort, over the union of all edges."""
    sample = build.sample
    _refuse_outside(sample, build.rule)
    every = build.edges()
    union = every[0] if len(every) == 1 else np.unique(np.concatenate(every))
    sums = _interval_sums(sample, union, build.dispatch.device_numbers >> 2)
    found = []
    for c, edges in enumerate(every):
        here = sums
        if len(edges) != len(union):
            index = like(np.searchsorted(edges[1:-1], union[1:], side="left"), sums)
            here = sums.new_zeros(*sums.shape[:-1], len(edges) - 1).index_add_(2, index, sums)
        more = _weight_sq([here[0], here[4]] if len(here) > 4 else ())
        found.append(build.table(c, here[:4], _zeros(here[0]), edges=edges, **more))
    return tuple(found)


def _refuse_outside(sample: Sample, rule: FixedRule) -> None:
    """Given edges must cover every report."""
    if not isinstance(rule, Edges):
        return
    reports: Any = sample.reports
    (edges,) = rule.edges(sample.bounds, working_dtype(reports))
    if not bool(_within(reports, float(edges[0]), float(edges[-1]))):
        host = sample.on_host()
        refuse_outside_edges(host, rule, host.reports)


def _interval_sums(sample: Sample, edges: Any, budget: int) -> Tensor:
    """count, outcome, residual and residual² sums (with weights, those of weight² too): (4 or 5, views, intervals)."""
    m = len(edges) - 1
    total: Any = 0.0
    for start in range(0, sample.rows, step := max(1, budget // sample.views)):
        rows = slice(start, start + step)
        part = sample.take(rows)
        outcome, residual, own, *weight = _row_sums(part, slice(0, sample.views))
        count = weight[0] if weight else torch.ones_like(outcome)
        every = [count, outcome, residual, own, *weight[1:]]
        total = total + _added(every, _intervals(views_of(part, slice(0, sample.views)), edges), m)
    return total


def _added(rows: Sequence[Tensor], cell: Tensor, m: int) -> Tensor:
    """Sums of rows (views, n) by cell: those of the first cell, where most are, as what the others leave."""
    views, n = cell.shape
    lanes = _LANES if views == 1 else 1
    rest = (cell > 0).reshape(-1).nonzero()[:, 0] if views > 1 else torch.arange(n, device=cell.device)
    place = rest // n * m + cell.reshape(-1)[rest]
    place += torch.arange(len(rest), device=cell.device) % lanes * (views * m)
    found = []
    for x in rows:
        flat = x.reshape(-1)[rest]
        sums = x.new_zeros(lanes * views * m).index_add_(0, place, flat).view(lanes, views, m).sum(0)
        if views > 1:
            sums[:, 0] += x.sum(1) - sums.sum(1)
        found.append(sums)
    return torch.stack(found)


# -- raw errors in a few steps -----------------------------------------------------------------------------------------


def _fused(reports: Tensor) -> Any:
    """The kernels in Triton, where there are any and the tensor is on their device."""
    return _kernels(reports.device) if reports.is_cuda else None


@lru_cache(maxsize=16)
def _kernels(device: torch.device) -> Any:
    """The module of the kernels, if Triton is there and can compile: it also needs a C compiler, and a recent GPU."""
    try:
        fused = importlib.import_module("truecal.backends.fused")
        fused.check(
            torch.full((1, 2), 0.5, device=device), torch.zeros(1, dtype=torch.int64, device=device), 1e-3, 1e-6
        )
    except Exception:  # whatever Triton's tools raise; torch alone gives the same numbers
        return None
    return fused


def raw_moments(
    sample: Sample, rule: BinningRule, ties: str, norm: str, dispatch: Dispatch, fused: Any = None
) -> list[Moments] | None:
    """The squared, or absolute, sums of the bins at each count, where Triton has a short way to them; else None.

    It has one for 0/1 outcomes without weights, over quantile bins and fixed intervals.
    """
    fused = fused or _fused(sample.reports)  # type: ignore[arg-type]  # a tensor
    found = None if fused is None else _raw_values(sample, rule, ties, norm, dispatch, fused)
    return None if found is None else _moments(*found, norm)


def _moments(values: Tensor, starts: Any, norm: str) -> list[Moments]:
    """One number for each bin count, from those of its bins."""
    found = np.add.reduceat(values.cpu().numpy(), starts).tolist()
    return [Moments(absolute=x) if norm == "l1" else Moments(squared=x) for x in found]


def _raw_values(
    sample: Sample, rule: BinningRule, ties: str, norm: str, dispatch: Dispatch, fused: Any
) -> tuple[Tensor, Any] | None:
    """The value of every bin of every count, side by side, summed over views; and where each count begins."""
    if sample.joint or sample.marks is None or sample.weights is not None or ties == "row":
        return None
    if isinstance(rule, Quantile):
        return _quantile_values(sample, rule, ties, norm, dispatch, fused)
    if isinstance(rule, FixedRule) and sum(rule.counts or (1,)) * sample.views <= _MOST_CELLS:
        return _interval_values(sample, rule, norm, fused)
    return None


def _quantile_values(
    sample: Sample, rule: Quantile, ties: str, norm: str, dispatch: Dispatch, fused: Any
) -> tuple[Tensor, Any]:
    reports: Any = sample.reports
    ends, upper, lower, starts = _quantile_places(sample.rows, rule.counts or (), reports.device)
    total: Any = 0.0
    for tile in _tiles(sample, dispatch.device_numbers):
        ordered = views_of(sample, tile).contiguous().sort(dim=1).values
        how: dict[str, Any] = {"together": ties == "together", "absolute": norm == "l1"}
        about = (reports, sample.marks, tile.start, ends, upper, lower)
        found = fused.quantile_bins(ordered, *about, **how)
        total = total + found.sum(0) if sample.views > 1 else found[0]
    return total, starts


@lru_cache(maxsize=16)
def _quantile_places(n: int, counts: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor, Tensor, Any]:
    """All cuts of all counts, and for each bin the places of its two ends among them (−1: the beginning)."""
    every = [np.append(quantile_cuts(n, m), n) for m in counts]
    union = np.unique(np.concatenate(every))
    upper = [np.searchsorted(union, ends) for ends in every]
    lower = [np.concatenate([[-1], places[:-1]]) for places in upper]
    starts = np.cumsum([0, *(len(places) for places in upper[:-1])])
    there = (torch.as_tensor(x, device=device) for x in (union, np.concatenate(upper), np.concatenate(lower)))
    return (*there, starts)  # type: ignore[return-value]  # `there` has three


def _interval_values(sample: Sample, rule: FixedRule, norm: str, fused: Any) -> tuple[Tensor, Any]:
    _refuse_outside(sample, rule)
    reports: Any = sample.reports
    marks: Any = sample.marks
    upper, places, starts = _interval_places(rule, sample.bounds, reports.dtype, reports.device)
    if reports.ndim == 2:
        residual = fused.interval_residuals(reports, marks, upper)
    else:
        residual = fused.view_residuals(reports, marks, upper)
    if places is not None:
        upto = torch.nn.functional.pad(residual.cumsum(1), (1, 0))
        residual = upto[:, places[1]] - upto[:, places[0]]
    values = residual.abs() if norm == "l1" else residual.square()
    return values.sum(0) if sample.views > 1 else values[0], starts


@lru_cache(maxsize=16)
def _interval_places(
    rule: FixedRule, bounds: Any, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, tuple[Tensor, Tensor] | None, Any]:
    """The upper ends of the intervals between all edges of all counts, the last one open; for several counts the ends
    of each of their bins among these; and where each count begins."""
    every = rule.edges(bounds, np.dtype(f"f{dtype.itemsize}"))
    union = every[0] if len(every) == 1 else np.unique(np.concatenate(every))
    upper = torch.as_tensor(np.append(union[1:-1], union.dtype.type(np.inf)), device=device)
    starts = np.cumsum([0, *(len(edges) - 1 for edges in every[:-1])])
    if len(every) == 1:
        return upper, None, starts
    sides = (
        np.concatenate([np.searchsorted(union, side) for side in sides])
        for sides in zip(*((edges[:-1], edges[1:]) for edges in every), strict=True)
    )
    low, high = (torch.as_tensor(x, device=device) for x in sides)
    return upper, (low, high), starts


# -- vectors -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Order:
    """Rows in an order in which each cell is a run, as `core.rules.Partition`, in tensors."""

    order: Tensor
    cuts: tuple[Tensor, ...]
    tied: Tensor | None = None

    @staticmethod
    def from_cells(cell: Tensor) -> _Order:
        order = cell.argsort(stable=True)
        ordered = cell[order]
        return _Order(order, ((ordered[1:] != ordered[:-1]).nonzero()[:, 0] + 1,))

    def cut(self, cuts: Tensor, ties: str) -> Cut:
        """The ends of the bins of one count, with their blocks."""
        n = len(self.order)
        end = torch.cat([cuts, cuts.new_tensor([n])])
        if self.tied is None or ties == "row":
            return Cut.plain(end[None])
        place = torch.arange(n, device=end.device)
        first = torch.where(self.tied, 0, place).cummax(0).values[end - 1]
        begins = torch.cat([torch.where(self.tied, n, place), end[-1:]])
        last = begins.flip(0).cummin(0).values.flip(0)[end]
        return Cut.plain(last[None]) if ties == "together" else Cut(end[None], first[None], last[None])


def _vector_tables(build: Any) -> Iterator[Tables]:
    sample = build.sample
    found = _partition(build.rule, sample.reports)
    cuts = [found.cut(cuts, build.ties) for cuts in found.cuts]
    for tile in _tiles(sample, build.dispatch.device_numbers >> 2):
        rows = _summed(_row_sums(sample, tile), found.order[None])
        yield tuple(_table(build, c, rows, cut) for c, cut in enumerate(cuts))


def _partition(rule: VectorRule, reports: Tensor) -> _Order:
    if isinstance(rule, ArgmaxQuantile):
        return _argmax_quantiles(rule, reports)
    if isinstance(rule, KdTree):
        return _kd_tree(rule, reports)
    if isinstance(rule, KMeans):
        return _Order.from_cells(_k_means(rule, reports.double()))
    assert isinstance(rule, Exact)
    return _Order.from_cells(torch.unique(reports, dim=0, return_inverse=True)[1])


def _argmax_quantiles(rule: ArgmaxQuantile, reports: Tensor) -> _Order:
    confidence, top = reports.max(1)
    order = confidence.argsort(stable=True)
    order = order[top[order].argsort(stable=True)]
    sizes = torch.bincount(top, minlength=reports.shape[1]).cpu().numpy()
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    cuts = tuple(like(_cuts_within(starts, sizes, m), reports) for m in rule.counts or ())
    value, group = confidence[order], top[order]
    same = (value[1:] == value[:-1]) & (group[1:] == group[:-1])
    return _Order(order, cuts, torch.nn.functional.pad(same, (1, 0)))


def _kd_tree(rule: KdTree, reports: Tensor) -> _Order:
    """As `core.rules._kd_levels`: median splits of the widest coordinate."""
    depths = [int(m - 1).bit_length() for m in rule.counts or ()]
    runs = [torch.arange(len(reports), device=reports.device)]
    levels = [runs[0][:0]]
    for _ in range(max(depths)):
        runs = [half for run in runs for half in _split_at_median(reports, run) if len(half)]
        levels.append(like(np.cumsum([len(run) for run in runs])[:-1], reports))
    return _Order(torch.cat(runs), tuple(levels[depth] for depth in depths))


def _split_at_median(reports: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    here = reports[rows]
    least, most = torch.aminmax(here, dim=0)
    column = here[:, (most - least).argmax()]
    ordered = column.sort().values
    middle = (ordered[(len(rows) - 1) // 2] + ordered[len(rows) // 2]) / 2
    left = column <= middle
    return rows[left], rows[~left]


def _k_means(rule: KMeans, points: Tensor) -> Tensor:
    """The cluster of each row: scipy's iteration from the same rows, until the mean distance settles."""
    distinct = torch.unique(points, dim=0)
    clusters = min(int(rule.n_bins), len(distinct))  # type: ignore[arg-type]  # one count
    chosen = np.random.default_rng(rule.seed).choice(len(distinct), clusters, replace=False)
    centres = distinct[like(chosen, points)]
    last = float("inf")
    while True:
        distance, cell = torch.cdist(points, centres, compute_mode="donot_use_mm_for_euclid_dist").min(1)
        mean = float(distance.mean())
        size = torch.bincount(cell, minlength=len(centres))
        sums = torch.zeros_like(centres).index_add_(0, cell, points)
        centres = (sums / size[:, None])[size > 0]
        if last - mean <= 1e-5:
            break
        last = mean
    return torch.cdist(points, centres, compute_mode="donot_use_mm_for_euclid_dist").argmin(1)


# -- losses ------------------------------------------------------------------------------------------------------------


def losses(name: str, sample: Sample) -> Tensor:
    """One of the losses of `core.losses` for every row of labels (or label distributions) and distributions."""
    y: Any = sample.labels
    p: Any = sample.distributions
    step = max(1, DISPATCH.device_numbers // p.shape[1])
    blocks = [(y[i : i + step], p[i : i + step].double()) for i in range(0, len(y), step)]
    return torch.cat([_LOSSES[name](*block) for block in blocks])


def _own(y: Tensor, p: Tensor) -> Tensor:
    """The probability of the label that came."""
    return (y * p).sum(1) if y.ndim == 2 else p.gather(1, y[:, None])[:, 0]


def _top(y: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
    """The largest probability, and whether its class came."""
    confidence, top = p.max(1)
    return confidence, (y.gather(1, top[:, None])[:, 0] if y.ndim == 2 else (y == top).double())


def _cross_entropy(y: Tensor, p: Tensor) -> Tensor:
    return (-torch.xlogy(y, p).sum(1) if y.ndim == 2 else -_own(y, p).log()) + 0.0


def _brier(y: Tensor, p: Tensor) -> Tensor:
    residual = p - y if y.ndim == 2 else p.scatter_add(1, y[:, None], -torch.ones_like(p[:, :1]))
    return residual.square().sum(1)


def _confidence_loss(y: Tensor, p: Tensor) -> Tensor:
    confidence, right = _top(y, p)
    return (1 - right) + (confidence - right).square()


_LOSSES = {
    "classification_error": lambda y, p: 1 - _top(y, p)[1],
    "cross_entropy": _cross_entropy,
    "brier": _brier,
    "spherical": lambda y, p: 1 - _own(y, p) / p.square().sum(1).sqrt(),
    "confidence_loss": _confidence_loss,
}
