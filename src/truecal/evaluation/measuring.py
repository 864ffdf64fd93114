"""Everything measured about one model: losses, errors with gap and score, the test, and the tables of diagrams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..baselines import BASELINES, ERRORS
from ..core.errors import COMPOSED, CalibrationError, signed_root
from ..core.result import plain
from ..core.rules import DEFAULT_BINS, ArgmaxQuantile, bins_text
from ..core.sample import Sample
from ..core.table import BinTable
from ..core.types import Array, Groups
from .budget import Plan
from .inputs import Inputs, several_bins
from .ranking import ECE_NAMES

if TYPE_CHECKING:
    from ..inference.bands import ConsistencyBands
    from ..inference.calibration import CalibrationTest
    from ..inference.direction import MeanGap
    from ..inference.frozen import Frozen, FrozenCells
    from ..inference.gaps import Gap
    from ..inference.mean_losses import Part
    from ..inference.spread import Spread

Progress = Callable[[float], None]

NOTIONS = ("classwise", "binary", "confidence", "top_label")
"""The errors that have a gap with an interval and a reliability diagram; the first that applies is the headline."""
MOST_SPREAD, MOST_VIEWS = 1 << 27, 2000
"""With more predictions or classes than this, the gap of single classes has no interval."""


@dataclass(frozen=True)
class LossValue:
    """A mean loss with its interval, none where nothing bounds what a label would have cost."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ErrorValue:
    """One error at one bin count (None: a rule without bins).

    Squared errors: n·value = loss + U, `gap` in probability points, and `score` = loss + λU, what to rank by. With
    clusters U takes pairs of rows from different clusters only; those inside clusters, where dependence looks like
    miscalibration, are kept apart as `within`, and n·value = loss + U + within. l1 errors have neither: the null band
    [null_low, null_high] is where the value would lie under calibration. `headline`: the count that summaries speak of.
    """

    error: str
    symbol: str
    truthful: bool
    n_bins: int | None
    value: float
    headline: bool = True
    loss: float | None = None
    U: float | None = None
    U_low: float | None = None
    U_high: float | None = None
    gap: float | None = None
    gap_low: float | None = None
    gap_high: float | None = None
    score: float | None = None
    null_low: float | None = None
    null_high: float | None = None
    null_pvalue: float | None = None
    within: float | None = None

    @property
    def ranks(self) -> bool:
        """Whether models may be ranked by its score: it is truthful and has one, which baselines have not."""
        return self.truthful and self.score is not None


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


@dataclass(frozen=True)
class Settings:
    """Options shared by all errors of one model; n_bins None is the automatic count, beside those of comparisons."""

    names: tuple[str, ...]
    n_bins: tuple[int, ...] | None
    level: float
    seed: int
    plan: Plan
    diagram_bins: int
    notes: tuple[str, ...] = ()


@dataclass(eq=False)
class Measured:
    """What `measure` found; frozen cells and spreads are kept, from which pairs of models are compared."""

    losses: tuple[LossValue, ...] = ()
    errors: list[ErrorValue] = field(default_factory=list)
    gaps: dict[str, Gap] = field(default_factory=dict)
    test: CalibrationTest | None = None
    direction: MeanGap | None = None
    reliability: dict[str, Reliability] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    copies: int = 0
    """Rows that repeat others in predictions and label."""
    frozen: dict[str, Frozen] = field(default_factory=dict)
    spreads: dict[str, dict[int | None, Spread]] = field(default_factory=dict)
    block_losses: dict[str, tuple[Array, Array, str]] = field(default_factory=dict)
    """Where the rows are gone: Σ w·loss and Σ w of each block of rows, by error, and why not to trust them."""

    def loss_part(
        self, error: str, other: Measured, level: float, groups: Groups | None, comparisons: int = 1
    ) -> Part | None:
        """The loss of an error minus that of another model, with an interval joint over so many comparisons."""
        from ..inference.paired import block_loss_part, loss_part

        if error in self.block_losses:
            (mine, weight, few), (theirs, _, fewer) = self.block_losses[error], other.block_losses[error]
            return block_loss_part(mine - theirs, weight, level, comparisons, few or fewer)
        if error not in self.frozen:
            return None
        return loss_part(self.frozen[error], other.frozen[error], level, groups, comparisons)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def measure(
    inputs: Inputs, settings: Settings, groups: Array | None, progress: Progress | None = None, *, keep: bool = False
) -> Measured:
    """Measure one model; every sample is made once and every rule cuts it once.

    `keep`: with cells and spreads, from which pairs of models are compared; else each is let go after its last use.
    """
    from ..inference.direction import gap_of

    found = Measured(notes=list(settings.notes))
    clusters = None if groups is None else cluster_numbers(groups)
    _say_about_rows(inputs, clusters, found)
    main = next((name for name in NOTIONS if name in inputs.error_names()), inputs.error_names()[0])
    scalar = inputs.sample("confidence" if inputs.kind == "multiclass" else main)
    found.direction = gap_of(scalar, clusters)
    shared: dict[Any, FrozenCells] = {}
    for i, name in enumerate(settings.names):
        if progress is not None:
            progress(i / (len(settings.names) + 1))
        _measure_error(name, inputs, settings, clusters, found, shared)
        if not keep:
            found.frozen.clear()
            found.spreads.clear()
            following = settings.names[i + 1 : i + 2]
            if not any(ERRORS[other].property.kind == ERRORS[name].property.kind for other in following):
                shared.clear()
                inputs.forget(name)
    if inputs.soft:
        found.note("labels are distributions: the calibration test and bands, which need single labels, are left out")
    elif clusters is None and any(ERRORS[name].truthful for name in settings.names):
        found.test = _test(inputs.sample(main), settings, found)
    found.losses = _losses(inputs, settings.level, clusters, found)
    return found


def cluster_numbers(groups: Array) -> Groups:
    """Cluster numbers and how many there are; a subgroup may hold fewer than an interval needs."""
    values, number = np.unique(groups, return_inverse=True)
    return number.reshape(-1), len(values)


def _say_about_rows(inputs: Inputs, clusters: Groups | None, found: Measured) -> None:
    if clusters is not None:
        found.note("rows come in clusters: the calibration test and bands, which need independent rows, are left out")
    else:
        found.copies = inputs.copies()
        if found.copies:
            found.note(copies_text(found.copies, inputs.n_samples))


def copies_text(copies: int, n: int) -> str:
    """The note about rows that repeat others."""
    return (
        f"{copies} of {n} rows are exact copies of others (same predictions, same label); "
        "if they are one case each, pass groups, or they pass for miscalibration"
    )


def _measure_error(
    name: str,
    inputs: Inputs,
    settings: Settings,
    clusters: Groups | None,
    found: Measured,
    shared: dict[Any, FrozenCells],
) -> None:
    from ..inference.frozen import Frozen

    sample = inputs.sample(name)
    if name in BASELINES:
        baseline = BASELINES[name]
        found.errors.append(ErrorValue(name, baseline.symbol, baseline.truthful, None, baseline.of(sample)))
        return
    metric, headline = _with_counts(name, sample, settings, found)
    key = (sample.kind, metric.binning, metric.ties)
    frozen = Frozen.of(metric, sample, shared.get(key))
    shared[key] = frozen.cells
    if metric.norm == "l1":
        found.errors += _absolute(name, frozen, headline, settings, clusters is not None, found)
        return
    spreads = _spreads(name, frozen, headline, settings, clusters, found) if name in NOTIONS else {}
    rows = _squared(name, frozen, headline, spreads, settings.level, clusters)
    found.errors += [row for row in rows if _asked(row, settings)]
    if name in NOTIONS:
        found.frozen[name], found.spreads[name] = frozen, spreads
        found.reliability[name] = _reliability(name, frozen, settings, clusters is not None, found)
        if headline in spreads:
            found.gaps[name] = _gap(name, spreads[headline], headline, inputs, settings.level, found)


def _asked(row: ErrorValue, settings: Settings) -> bool:
    """Whether a row is at a count people asked for, not only at that of a diagram."""
    if settings.n_bins is None or row.n_bins is None or row.error not in NOTIONS:
        return True
    return row.n_bins in settings.n_bins


def _with_counts(name: str, sample: Sample, settings: Settings, found: Measured) -> tuple[CalibrationError, int | None]:
    """The named error at every bin count that is measured, and the one that summaries speak of."""
    metric = COMPOSED[name]
    if not metric.binning.has_counts:
        return metric, None
    automatic = DEFAULT_BINS if metric.norm == "l1" else metric.binning.auto(sample.rows, sample.views)
    counts: tuple[int, ...] = settings.n_bins or several_bins(sample.rows)
    headline = min(counts, key=lambda m: abs(np.log(m / automatic)))
    if settings.n_bins is None:
        headline = max(1, min(automatic, 2 * sample.rows // 5))
        counts = tuple(sorted({*counts, headline}))
    if isinstance(metric.binning, ArgmaxQuantile):
        counts = vector_bins(counts, sample.rows, sample.views)
        headline = min(counts, key=lambda m: abs(m - (headline or 1)))
        if settings.n_bins is not None and counts != settings.n_bins:
            found.note(
                f"full errors use {bins_text(counts)} within each top class: with more there would be more cells than "
                "rows, and the error would be the Brier loss alone"
            )
    extra = {min(settings.diagram_bins, sample.rows)} if name in NOTIONS else set()
    return metric.with_bins(tuple(sorted({*counts, *extra}))), headline


def vector_bins(n_bins: tuple[int, ...], n: int, k: int) -> tuple[int, ...]:
    """Of the bin counts, those with at most n cells over all k top classes; the smallest, but at most n/k, if none."""
    return tuple(m for m in n_bins if m * k <= n) or (max(1, min(*n_bins, n // k) if n_bins else 1),)


def _spreads(
    name: str, frozen: Frozen, headline: int | None, settings: Settings, clusters: Groups | None, found: Measured
) -> dict[int | None, Spread]:
    """The spread of the gap at the counts people asked for, or at the headline one alone."""
    from ..inference.spread import spreads

    sample = frozen.sample
    units = sample.rows if sample.weights is None else np.count_nonzero(sample.weights)
    if clusters is not None:
        units = clusters[1]
    if units < 3:
        found.note("fewer than three rows or clusters with weight: no intervals")
        return {}
    if sample.reports.size > MOST_SPREAD or sample.views > MOST_VIEWS:
        found.note(f"the gap of {name} has no interval: too many rows and classes")
        return {}
    wanted = (headline,) if settings.n_bins is None else settings.n_bins
    chosen = tuple(c for c, m in enumerate(frozen.counts) if m in wanted)
    every = spreads(frozen, clusters, counts=chosen)
    return {frozen.counts[c]: spread for c, spread in zip(chosen, every, strict=True)}


def _gap(name: str, spread: Spread, n_bins: int | None, inputs: Inputs, level: float, found: Measured) -> Gap:
    from ..inference.gaps import gap_from

    assert found.direction is not None
    if spread.note:
        found.note(f"the interval of the {name} gap is {spread.note}")
    return gap_from(spread, found.direction.word, level, n_bins, inputs.n_samples, COMPOSED[name].symbol)


def _squared(
    name: str,
    frozen: Frozen,
    headline: int | None,
    spreads: dict[int | None, Spread],
    level: float,
    clusters: Groups | None,
) -> list[ErrorValue]:
    """Rows of a squared error, one per bin count."""
    from ..inference.intervals import within_parts

    inside = [None] * len(frozen.counts)
    if clusters is not None:
        inside = within_parts(frozen, clusters).sum(axis=1).tolist()
    rows = []
    for parts, m, within in zip(frozen.parts, frozen.counts, inside, strict=True):
        spread, u = spreads.get(m), parts.U - (within or 0.0)
        gap_sq = parts.gap_sq if spread is None else spread.theta
        gap = 100 * signed_root(gap_sq) if np.isfinite(gap_sq) else None
        more = {"loss": parts.loss, "U": u, "gap": gap, "score": parts.score, "within": within}
        rows.append(_row(name, frozen, m, parts.error, headline, **more, **spread_ends(spread, u, level)))
    return rows


def _row(
    name: str, frozen: Frozen, m: int | None, value: float, headline: int | None, **more: float | None
) -> ErrorValue:
    metric = frozen.error
    about: dict[str, Any] = {"headline": m == headline, **more}
    return ErrorValue(name, metric.symbol, metric.truthful, m, value, **about)


def spread_ends(spread: Spread | None, u: float, level: float) -> dict[str, float]:
    """Intervals of the gap in points, and of U, which is the squared gap in other units."""
    if spread is None:
        return {}
    low, high, _ = spread.interval(level)
    moved = {name: u + spread.unit * (end - spread.theta) for name, end in (("U_low", low), ("U_high", high))}
    return moved | {"gap_low": 100 * signed_root(low), "gap_high": 100 * signed_root(high)}


def _absolute(
    name: str, frozen: Frozen, headline: int | None, settings: Settings, clustered: bool, found: Measured
) -> list[ErrorValue]:
    """Rows of an l1 error; ECE has null bands where the plan allows, clusters have none."""
    from ..inference.null_band import null_band_of
    from ..inference.options import fewest_draws

    values = frozen.values.tolist()
    clustered = clustered or frozen.sample.marks is None
    draws = 0 if clustered or name not in ECE_NAMES else settings.plan.null_band(frozen.sample)
    nulls: list[dict[str, Any]] = [{}] * len(values)
    if draws:
        band = null_band_of(frozen, settings.level, max(draws, fewest_draws(settings.level)), settings.seed)
        nulls = [{"null_low": b.low, "null_high": b.high, "null_pvalue": b.pvalue} for b in band.each()]
    elif not clustered and name in ECE_NAMES:
        found.note(f"{name} has no null band: it needs more draws")
    each = zip(frozen.counts, values, nulls, strict=True)
    return [_row(name, frozen, m, value, headline, **null) for m, value, null in each]


def _test(sample: Sample, settings: Settings, found: Measured) -> CalibrationTest:
    from ..inference.calibration import MOST_ROWS, omnibus_test

    if sample.rows > MOST_ROWS:
        found.note(f"the calibration test looks at {MOST_ROWS:,} rows, chosen at random")
    return omnibus_test(sample, settings.plan.test(sample, MOST_ROWS), settings.seed)


def _reliability(name: str, frozen: Frozen, settings: Settings, clustered: bool, found: Measured) -> Reliability:
    """Quantile bins of the error, one table for all views, with bands where the plan allows."""
    from ..inference.bands import bands_of
    from ..inference.options import fewest_draws

    sample = frozen.sample
    m = min(settings.diagram_bins, sample.rows)
    place = frozen.counts.index(m)
    table = frozen.table(place)
    clustered = clustered or sample.marks is None
    draws = 0 if clustered else settings.plan.bands(sample)
    if not draws:
        if not clustered:
            found.note(f"the {name} diagram has no consistency bands: too many rows and classes for the planned draws")
        return Reliability(name, m, table, None)
    draws = max(draws, fewest_draws(settings.level))
    return Reliability(name, m, table, bands_of(frozen, place, settings.level, draws, settings.seed))


def infinite_text(name: str, rows: int) -> str:
    """Why a loss has no number."""
    return f"{name} is infinite: the label that came had probability 0 in {rows} rows"


def _losses(inputs: Inputs, level: float, clusters: Groups | None, found: Measured) -> tuple[LossValue, ...]:
    from ..inference.mean_losses import INFINITE, mean_interval

    values = []
    for name, losses in inputs.loss_values():
        mean = mean_interval(losses, inputs.weights, clusters, level)
        if mean.note == INFINITE:
            number = sum(int(np.count_nonzero(np.isinf(values.value))) for _, values in losses)
            found.note(infinite_text(name, number))
        ends = (mean.low, mean.high) if np.isfinite(mean.se) else (None, None)
        values.append(LossValue(name, mean.estimate, *ends))
    return tuple(values)
