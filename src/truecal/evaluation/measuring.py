"""Everything measured about one model: losses, errors as loss + U with intervals, the test, the tables of diagrams."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import ERRORS, CalibrationError
from ..core.rules import ArgmaxQuantile
from ..core.sample import Sample
from ..core.table import BinTable
from .budget import Plan
from .inputs import Inputs

if TYPE_CHECKING:
    from ..inference import CalibrationTest, ConsistencyBands, MeanGap
    from ..inference.jackknife import LeftOut

Array = NDArray[Any]
Clusters = tuple[Array, int]

TESTED = ("classwise", "binary", "confidence", "top_label")
"""The errors whose calibration test and reliability diagram are computed; the first that applies is the headline."""


def plain(value: Any) -> Any:
    """Plain JSON types: dataclasses become dictionaries, arrays lists, and numbers that JSON lacks become None."""
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return value


def bins_text(n_bins: int | tuple[int, ...] | None) -> str:
    """Bin counts in words, such as "1 bin" or "5, 20 and 2000 bins"; loads scipy with the rest of inference."""
    from ..inference.options import bins_text

    return bins_text(n_bins)


@dataclass(frozen=True)
class LossValue:
    """A mean loss with its interval (t interval of a mean, over clusters where those were given; none where all rows
    are alike, since nothing is then known of the spread)."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ErrorValue:
    """One error at one bin count (None: a rule without bins).

    Squared errors: n·value = loss + U, `score` is that sum, with an interval for U and one for the score. With clusters
    U takes pairs of rows from different clusters only; those inside clusters, where dependence looks like
    miscalibration, are kept apart as `within`, and n·value = loss + U + within. l1 errors: `score` is the value itself,
    and the null band [null_low, null_high] is where it would lie under calibration.
    """

    error: str
    symbol: str
    truthful: bool
    n_bins: int | None
    value: float
    score: float
    loss: float | None = None
    U: float | None = None
    U_low: float | None = None
    U_high: float | None = None
    low: float | None = None
    high: float | None = None
    null_low: float | None = None
    null_high: float | None = None
    null_pvalue: float | None = None
    within: float | None = None


@dataclass(frozen=True, eq=False)
class Reliability:
    """The bins of a reliability diagram, one row per view (class), and their consistency bands."""

    error: str
    n_bins: int
    table: BinTable
    bands: ConsistencyBands | None

    @property
    def count(self) -> Array:
        """Rows (or weight) per view and bin."""
        return self.table.count if self.bands is None else self.bands.count

    @property
    def mean_report(self) -> Array:
        return self.table.mean_report if self.bands is None else self.bands.mean_report

    @property
    def mean_outcome(self) -> Array:
        return self.table.mean_outcome if self.bands is None else self.bands.mean_outcome

    @property
    def low(self) -> Array | None:
        """Where a calibrated model's mean outcome would begin, or None without bands."""
        return None if self.bands is None else self.bands.low

    @property
    def high(self) -> Array | None:
        return None if self.bands is None else self.bands.high

    def to_dict(self) -> dict[str, Any]:
        """Lists of one row per view; empty bins have no means (None)."""
        names = ("count", "mean_report", "mean_outcome", "low", "high")
        return {"error": self.error, "n_bins": self.n_bins} | {name: plain(getattr(self, name)) for name in names}


@dataclass(frozen=True, eq=False)
class Measured:
    """What `measure` found; `left_out` keeps the leave-one-out values, from which pairs of models are compared."""

    losses: tuple[LossValue, ...]
    errors: tuple[ErrorValue, ...]
    tests: dict[str, CalibrationTest]
    direction: MeanGap
    reliability: dict[str, Reliability]
    left_out: dict[str, LeftOut]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Settings:
    """Options shared by all errors of one model."""

    names: tuple[str, ...]
    n_bins: tuple[int, ...]
    level: float
    seed: int
    plan: Plan
    diagram_bins: int
    notes: tuple[str, ...] = ()


def measure(inputs: Inputs, settings: Settings, groups: Array | None) -> Measured:
    """Measure one model."""
    from ..inference import mean_gap

    notes = list(settings.notes)
    clusters = None if groups is None else _clusters(groups)
    alone = inputs.n_samples < 3 or (clusters is not None and clusters[1] < 3)
    if clusters is not None and clusters[1] < 3:
        notes.append("fewer than three clusters here: no intervals")
    if clusters is not None:
        notes.append(
            "rows come in clusters: calibration tests and null bands, which need independent rows, are left out"
        )
    if inputs.n_samples < 3:
        notes.append("fewer than three rows: no intervals")
    errors: list[ErrorValue] = []
    left_out = {}
    for name in settings.names:
        metric, sample = _prepared(inputs, name, settings, notes)
        if metric.norm == "l1":
            errors += _absolute(name, metric, sample, inputs, settings, clusters is not None, notes)
            continue
        rows, left = _squared(name, metric, sample, inputs, settings, clusters, alone, notes)
        errors += rows
        if left is not None:
            left_out[name] = left
    tested = [name for name in TESTED if name in settings.names]
    tests = {}
    if clusters is None:
        tests = {name: test for name in tested if (test := _test(name, inputs, settings, notes)) is not None}
    main = tested[0] if tested else inputs.error_names()[0]
    direction = mean_gap(
        *inputs.arguments(main),
        error=main,
        groups=groups,
        sample_weight=inputs.weights,
    )
    reliability = {name: _reliability(name, inputs, settings, clusters is not None, notes) for name in tested}
    losses = _losses(inputs, settings.level, clusters, alone, notes)
    return Measured(losses, tuple(errors), tests, direction, reliability, left_out, tuple(dict.fromkeys(notes)))


def _clusters(groups: Array) -> Clusters:
    """Cluster numbers and how many there are; a subgroup may hold fewer than an interval needs."""
    values, number = np.unique(groups, return_inverse=True)
    return number.reshape(-1), len(values)


def _prepared(inputs: Inputs, name: str, settings: Settings, notes: list[str]) -> tuple[CalibrationError, Sample]:
    """The named error at the bin counts that make sense for it, and the sample it reads."""
    metric = ERRORS[name]
    counts = settings.n_bins
    if isinstance(metric.binning, ArgmaxQuantile):
        counts = vector_bins(settings.n_bins, inputs)
        if counts != settings.n_bins:
            notes.append(
                f"full errors use {bins_text(counts)} within each top class: with more there would be more cells than "
                "rows, and the error would be the Brier loss alone"
            )
    if metric.binning.counts is not None:
        metric = metric.with_bins(counts)
    y, reports = inputs.arguments(name)
    return metric, metric.read(y, reports, sample_weight=inputs.weights)


def vector_bins(n_bins: tuple[int, ...], inputs: Inputs) -> tuple[int, ...]:
    """Of the bin counts, those with at most n cells over all k top classes; the smallest, but at most n/k, if none."""
    n, k = inputs.n_samples, inputs.n_classes or 1
    return tuple(m for m in n_bins if m * k <= n) or (max(1, min(*n_bins, n // k) if n_bins else 1),)


def _squared(
    name: str,
    metric: CalibrationError,
    sample: Sample,
    inputs: Inputs,
    settings: Settings,
    clusters: Clusters | None,
    alone: bool,
    notes: list[str],
) -> tuple[list[ErrorValue], LeftOut | None]:
    """Rows of a squared error, and its leave-one-out values (None where there are too few units)."""
    from ..inference.jackknife import cluster_parts, leave_out

    parts = metric.parts(sample)
    values, loss, u = [p.error for p in parts], parts[0].loss, np.array([p.U for p in parts])
    within: list[float | None] = [None] * len(values)
    left = None if alone or _few_units(sample, clusters, notes) else leave_out(metric, sample, clusters)
    if clusters is not None:
        u, inside = cluster_parts(metric, sample, clusters) if left is None else (left.U, left.within)
        within = inside.tolist()
    intervals = (
        [(None, None)] * len(values)
        if left is None
        else _intervals(name, metric, sample, inputs, left, settings, notes)
    )
    rows = []
    for value, part, inner, (for_u, for_score), m in zip(values, u, within, intervals, _counts(metric), strict=True):
        rows.append(
            ErrorValue(
                error=name,
                symbol=metric.symbol,
                truthful=metric.truthful,
                n_bins=m,
                value=float(value),
                score=loss + float(part),
                loss=loss,
                U=float(part),
                U_low=None if for_u is None else for_u.low,
                U_high=None if for_u is None else for_u.high,
                low=None if for_score is None else for_score.low,
                high=None if for_score is None else for_score.high,
                within=inner,
            )
        )
    return rows, left


def _few_units(sample: Sample, clusters: Clusters | None, notes: list[str]) -> bool:
    """Whether fewer than three rows or clusters carry weight."""
    if sample.weights is None:
        return False
    units = np.flatnonzero(sample.weights) if clusters is None else np.unique(clusters[0][sample.weights > 0])
    if len(units) < 3:
        notes.append("fewer than three rows or clusters with weight: no intervals")
    return len(units) < 3


def _counts(metric: CalibrationError) -> tuple[int | None, ...]:
    return metric.binning.counts or (None,)


def _intervals(
    name: str,
    metric: CalibrationError,
    sample: Sample,
    inputs: Inputs,
    left: LeftOut,
    settings: Settings,
    notes: list[str],
) -> list[tuple[Any, Any]]:
    """For each bin count, the intervals of U and of the score; none where they would need draws beyond the plan."""
    from ..inference.intervals import interval_of
    from ..inference.jackknife import SCARCE_NOTE, few_bins, scarce
    from ..inference.null import calibrated_world, simulate
    from ..inference.options import fewest_draws

    counts = _counts(metric)
    few = [few_bins(metric, m) for m in counts]
    thin = [scarce(left, c) for c in range(len(counts))]
    null: dict[int | None, Array] = {}
    if (any(few) or any(thin)) and not left.clustered:
        kept, draws = settings.plan.simulation(metric.binning, sample)
        some = metric if kept is None or kept == metric.binning.counts else metric.with_bins(kept)
        if draws:
            world = calibrated_world(some, sample)
            drawn = simulate(world, max(draws, fewest_draws(settings.level)), settings.seed).drawn
            null = dict(zip(_counts(some), drawn.T, strict=True))
    if any(thin):
        where = "" if metric.binning.counts is None else f" at {bins_text(_some(counts, thin))}"
        notes.append(f"the interval of {name}{where} is {SCARCE_NOTE}")
    found: list[tuple[Any, Any]] = []
    for c, needs in enumerate(few):
        draw = null.get(counts[c]) if needs or thin[c] else None
        if needs and draw is None and not left.clustered:
            notes.append(f"{name} without bins or with fewer than 5 has no interval here: it needs more draws")
            found.append((None, None))
            continue
        found.append(
            (
                interval_of(metric, sample, left, c, "U", settings.level, draw),
                interval_of(metric, sample, left, c, "sum", settings.level, draw),
            )
        )
    return found


def _some(counts: tuple[int | None, ...], chosen: list[bool]) -> tuple[int, ...]:
    return tuple(m for m, use in zip(counts, chosen, strict=True) if use and m is not None)


def _absolute(
    name: str,
    metric: CalibrationError,
    sample: Sample,
    inputs: Inputs,
    settings: Settings,
    clustered: bool,
    notes: list[str],
) -> list[ErrorValue]:
    """Rows of an l1 error, with null bands at the bin counts the plan allows; clusters have none."""
    from ..inference import null_band
    from ..inference.options import fewest_draws

    values = dict(zip(_counts(metric), metric.of(sample), strict=True))
    counts, draws = ((), 0) if clustered else settings.plan.simulation(metric.binning, sample)
    bands: dict[int | None, tuple[float, float, float]] = {}
    if draws and counts:
        y, reports = inputs.arguments(name)
        band = null_band(
            y,
            reports,
            error=metric.with_bins(counts),
            level=settings.level,
            resamples=max(draws, fewest_draws(settings.level)),
            seed=settings.seed,
            sample_weight=inputs.weights,
        )
        columns = (np.asarray(x).tolist() for x in (band.low, band.high, band.pvalue))
        bands = dict(zip(counts, zip(*columns, strict=True), strict=True))
    missing = [m for m in values if m not in bands]
    if missing and not clustered:
        # l1 errors have bin counts, never None
        notes.append(f"{name} has no null band at {bins_text(tuple(missing))}: it needs more draws")  # type: ignore[arg-type]
    return [
        ErrorValue(name, metric.symbol, metric.truthful, m, float(v), float(v), **_band_fields(bands.get(m)))
        for m, v in values.items()
    ]


def _band_fields(band: tuple[float, float, float] | None) -> dict[str, Any]:
    return {} if band is None else dict(zip(("null_low", "null_high", "null_pvalue"), band, strict=True))


def _test(name: str, inputs: Inputs, settings: Settings, notes: list[str]) -> CalibrationTest | None:
    from ..inference import calibration_test

    y, reports = inputs.arguments(name)
    metric = ERRORS[name].with_bins(settings.n_bins)
    sample = metric.read(y, reports)
    counts, draws = settings.plan.simulation(metric.binning, sample)
    if not draws or counts is None:
        notes.append(f"no calibration test of {name}: too many rows and classes for the planned draws")
        return None
    if counts != settings.n_bins:
        notes.append(f"the calibration test of {name} uses {bins_text(counts)}: more would need more draws")
    return calibration_test(
        y,
        reports,
        error=name,
        n_bins=counts,
        resamples=draws,
        seed=settings.seed,
        sample_weight=inputs.weights,
    )


def _reliability(name: str, inputs: Inputs, settings: Settings, clustered: bool, notes: list[str]) -> Reliability:
    """Quantile bins of the tested error, one table for all views, with bands where the plan allows."""
    from ..inference import consistency_bands
    from ..inference.options import fewest_draws

    y, reports = inputs.arguments(name)
    m = min(settings.diagram_bins, inputs.n_samples)
    metric = ERRORS[name].with_bins(m)
    (table,) = metric.tables(y, reports, sample_weight=inputs.weights)
    if clustered:
        return Reliability(name, m, table, None)
    draws = settings.plan.bands(metric.read(y, reports))
    if not draws:
        notes.append(f"the {name} diagram has no consistency bands: too many rows and classes for the planned draws")
        return Reliability(name, m, table, None)
    bands = consistency_bands(
        y,
        reports,
        error=name,
        n_bins=m,
        level=settings.level,
        resamples=max(draws, fewest_draws(settings.level)),
        seed=settings.seed,
        sample_weight=inputs.weights,
    )
    return Reliability(name, m, table, bands)


def _losses(
    inputs: Inputs, level: float, clusters: Clusters | None, alone: bool, notes: list[str]
) -> tuple[LossValue, ...]:
    found = []
    w = np.ones(inputs.n_samples) if inputs.weights is None else inputs.weights
    for name, values in inputs.per_example_losses().items():
        value = float(np.average(values, weights=w))
        if not np.isfinite(value):
            rows = int(np.count_nonzero(np.isinf(values)))
            notes.append(f"{name} is infinite: the label that came had probability 0 in {rows} rows")
        low = high = None
        if not alone and np.isfinite(value):
            low, high = _mean_interval(values, w, value, level, clusters)
        found.append(LossValue(name, value, low, high))
    return tuple(found)


def _mean_interval(
    values: Array, w: Array, value: float, level: float, clusters: Clusters | None
) -> tuple[float, float] | tuple[None, None]:
    """Leave-one-out t interval of a weighted mean: for equal weights the usual one. Units are those with weight."""
    from scipy.special import stdtrit

    from ..inference.jackknife import ROUNDING, jackknife_se

    sums, mass = w * values, w
    if clusters is not None:
        sums, mass = (np.bincount(clusters[0], weights=x, minlength=clusters[1]) for x in (sums, mass))
    sums, mass = sums[mass > 0], mass[mass > 0]
    if len(mass) < 3:
        return None, None
    without = (sums.sum() - sums) / (mass.sum() - mass)
    se = jackknife_se(without)
    if se <= ROUNDING * abs(value):
        return None, None
    half = float(stdtrit(len(without) - 1, (1 + level) / 2)) * se
    return value - half, value + half
