"""Everything measured about one model: losses, errors with gap and score, the test, and the tables of diagrams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..backends.arrays import is_tensor, namespace
from ..backends.numpy import DISPATCH, THREADS
from ..baselines import BASELINES, ERRORS
from ..core.errors import COMPOSED, CalibrationError, signed_root
from ..core.properties import Property
from ..core.result import plain
from ..core.rules import DEFAULT_BINS, bins_text
from ..core.sample import Sample
from ..core.table import BinTable
from ..core.types import Array, Groups
from ..inference import calibration
from ..inference.bands import ConsistencyBands, bands_of
from ..inference.calibration import CalibrationTest
from ..inference.direction import CLEAR, MeanGap, gap_of
from ..inference.frozen import Frozen, FrozenCells
from ..inference.gaps import Gap, gap_from
from ..inference.inputs import Inputs, Progress, several_bins
from ..inference.intervals import within_parts
from ..inference.mean_losses import INFINITE, Losses, Part, mean_interval
from ..inference.null_band import null_band_of
from ..inference.options import counts_of, draws_for_band
from ..inference.paired import block_loss_part, loss_part
from ..inference.spread import Spread, spreads
from .budget import Plan
from .ranking import ECE_NAMES
from .views import ViewValue, tested_views, view_values, worst_first

FEWEST_IN_FOLD = 20
"""With fewer rows per fold the tests of single folds say next to nothing."""
DECISIONS = "every prediction is 0 or 1: these are decisions, not probabilities; pass predict_proba, not predict"
MOST_SPREAD, MOST_VIEWS = 1 << 27, 2000
"""With more predictions or classes than this, the gap of single classes has no interval."""
BESIDE = 1 << 15
"""From so many predictions on, the calibration test runs in a second thread while errors are measured."""


@dataclass(frozen=True)
class LossValue:
    """A mean loss with its interval, if the loss of every possible label is bounded."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ErrorValue:
    """One error at one bin count (None: a rule without bins).

    Squared errors: n·value = loss + U, `gap` in probability points, and `score` = loss + gap² in units of the Brier
    score, what to rank by. With clusters U takes pairs of rows from different clusters only; those inside clusters,
    where dependence looks like miscalibration, are kept apart as `within`, and n·value = loss + U + within. l1 errors
    have neither: the null band [null_low, null_high] is the range of the value under calibration. `headline`: whether
    summaries show this count.
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
    view_names: tuple[str, ...] | None = None
    """The names of the columns, where they have any."""
    per_view: bool = False
    """Whether every class is listed with its gap, whatever the property."""
    looks: int = 1
    """Among how many subgroups this is one: a direction pays for all of them."""


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
    views: tuple[ViewValue, ...] = ()
    """Every label or threshold of the main error."""
    block_losses: dict[str, tuple[Array, Array, str]] = field(default_factory=dict)
    """Where the rows are gone: Σ w·loss and Σ w of each block of rows, by error, and why not to trust them."""

    def loss_part(
        self, error: str, other: Measured, level: float, groups: Groups | None, comparisons: int = 1
    ) -> Part | None:
        """The loss of an error minus that of another model, with an interval joint over so many comparisons."""
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
    inputs: Inputs, settings: Settings, clusters: Groups | None, progress: Progress | None = None, *, keep: bool = False
) -> Measured:
    """Measure one model; every sample is made once and every rule cuts it once.

    `keep`: with cells and spreads, from which pairs of models are compared; else each is let go after its last use.
    """
    found = Measured(notes=list(settings.notes))
    work = _Work(inputs, settings, clusters, found)
    if clusters is not None:
        found.note("rows come in clusters: the calibration test and bands, which need independent rows, are left out")
    elif copies := inputs.copies():
        found.copies = copies
        found.note(copies_text(copies, inputs.n_samples))
    if inputs.decisions():
        found.note(DECISIONS)
    folds, possible = work.folds, inputs.error_names()
    main = next((name for name in work.notions if name in possible), possible[0])
    seen = inputs.sample(inputs.error(main).property.directed())
    found.direction = gap_of(seen, clusters, CLEAR / settings.looks, folds)
    with ThreadPoolExecutor(1) as pool:
        test, why = work.start_test(main, pool)
        for i, name in enumerate(settings.names):
            if progress is not None:
                progress(i / (len(settings.names) + 1))
            work.error(name)
            if not keep:
                found.frozen.clear()
                found.spreads.clear()
                following = settings.names[i + 1] if i + 1 < len(settings.names) else None
                if following is None or ERRORS[following].property.kind != ERRORS[name].property.kind:
                    work.shared.clear()
                    inputs.forget(name)
        if main in settings.names and (COMPOSED[main].property.per_view or settings.per_view) and folds is None:
            work.views(main)
        found.test = found.test if test is None else test()
    if why:
        found.note(why)
    found.losses = tuple(work.losses())
    return found


def notions() -> tuple[str, ...]:
    """The errors that have a gap with an interval and a reliability diagram; the first that applies is the headline."""
    names = (name for name, error in COMPOSED.items() if error.has_gap)
    return tuple(sorted(names, key=lambda name: COMPOSED[name].property.picks_outcome))


def main_property(kind: str) -> Property:
    """What is checked first of predictions of a kind; its directed property names the direction."""
    return next(COMPOSED[name].property for name in notions() if kind in COMPOSED[name].property.kinds)


def copies_text(copies: int, n: int) -> str:
    """The note about rows that repeat others."""
    return f"{copies} of {n} rows are duplicates (same predictions and label): pass groups= if duplicates are one case"


@dataclass(frozen=True, eq=False)
class _Work:
    """One model on its way through the errors: what was given, and what is found."""

    inputs: Inputs
    settings: Settings
    clusters: Groups | None
    found: Measured
    shared: dict[Any, FrozenCells] = field(default_factory=dict)
    """Cells of the sample of one property, by rule."""
    notions: tuple[str, ...] = field(default_factory=lambda: notions())

    def start_test(self, main: str, pool: ThreadPoolExecutor) -> tuple[Callable[[], CalibrationTest] | None, str]:
        """The calibration test, made beside the errors where there is much to do, or None; and a note about it."""
        inputs, settings, folds = self.inputs, self.settings, self.folds
        if inputs.soft:
            what = "the calibration test and bands, which need single labels, are left out"
            return None, f"labels are distributions: {what}"
        if COMPOSED[main].property.label_by_label:
            left_out = "the tests of labels are left out: predictions are cross-validated"
            return None, left_out if folds is not None else ""
        if self.clusters is not None or not any(ERRORS[name].truthful for name in settings.names):
            return None, ""
        sample, most = inputs.sample(main), calibration.MOST_ROWS
        draws = settings.plan.test(sample)
        if folds is not None and sample.rows < FEWEST_IN_FOLD * folds[1]:
            return None, f"the calibration test is left out: folds have fewer than {FEWEST_IN_FOLD} rows"
        if folds is not None:
            draws = max(draws, 2 * settings.plan.fewest)
            return partial(calibration.fold_test, sample, folds, draws, settings.seed), ""
        why = f"the calibration test looks at {most:,} rows, chosen at random" if sample.rows > most else ""
        test = partial(calibration.omnibus_test, sample, draws, settings.seed)
        small = is_tensor(sample.reports) or sample.reports.size < BESIDE
        return test if small else pool.submit(test).result, why

    def error(self, name: str) -> None:
        """Measure the named error at every bin count."""
        found, sample = self.found, self.inputs.sample(name)
        if name in BASELINES:
            baseline = BASELINES[name]
            found.errors.append(ErrorValue(name, baseline.symbol, baseline.truthful, None, baseline.of(sample)))
            return
        metric, headline, listed = self._with_counts(name, sample)
        key = (sample.kind, metric.binning, metric.ties)
        frozen = Frozen.of(metric, sample, self.shared.get(key))
        self.shared[key] = frozen.cells
        if metric.norm == "l1":
            found.errors += self._absolute(name, frozen, headline)
            return
        by_count = self._spreads(name, frozen, headline) if name in self.notions else {}
        found.errors += self._squared(name, frozen, headline, listed, by_count)
        if name in self.notions:
            found.frozen[name], found.spreads[name] = frozen, by_count
            found.reliability[name] = self._reliability(name, frozen)
            if headline in by_count:
                found.gaps[name] = self._gap(name, by_count[headline], headline)

    def views(self, name: str) -> None:
        """One line per label or threshold; labels are tested one by one."""
        found, settings, sample = self.found, self.settings, self.inputs.sample(name)
        property = COMPOSED[name].property
        if sample.reports.size > MOST_SPREAD or sample.views > MOST_VIEWS or not found.gaps:
            return
        each = view_values(sample, property, settings.level, self.clusters, settings.view_names)
        if property.label_by_label and self.clusters is None and not self.inputs.soft:
            found.test, each = tested_views(sample, each, settings.plan, settings.level, settings.seed)
        found.views = tuple(each) if property.place else worst_first(each)

    def _with_counts(self, name: str, sample: Sample) -> tuple[CalibrationError, int | None, tuple[int | None, ...]]:
        """The named error at every bin count that is measured, the one in summaries, and those that have a row."""
        metric, asked = self.inputs.error(name), self.settings.n_bins
        if not metric.binning.has_counts:
            return metric, None, counts_of(metric.binning)
        automatic = DEFAULT_BINS if metric.norm == "l1" else metric.binning.auto(sample.rows, sample.views)
        counts: tuple[int, ...] = asked or several_bins(sample.rows)
        if asked is None:
            headline = max(1, min(automatic, 2 * sample.rows // 5))
            counts = tuple(sorted({*counts, headline}))
        else:
            headline = min(counts, key=lambda m: abs(np.log(m / automatic)))
        if metric.binning.width(sample.views) > 1:
            counts = vector_bins(counts, sample.rows, sample.views)
            headline = min(counts, key=lambda m: abs(m - (headline or 1)))
            if asked is not None and counts != asked:
                self.found.note(
                    f"full errors use {bins_text(counts)} within each top class: with more there would be more cells "
                    "than rows, and the error would be the Brier loss alone"
                )
        every = counts
        if metric.binning.open and metric.norm == "l2" and not metric.property.vector:
            # Those of a diagram, whether this error has one or not: errors of the same bins share their tables.
            every = tuple(sorted({*counts, min(self.settings.diagram_bins, sample.rows)}))
        return metric.with_bins(every), headline, every if asked is None and name in self.notions else counts

    def _spreads(self, name: str, frozen: Frozen, headline: int | None) -> dict[int | None, Spread]:
        """The spread of the gap at the counts people asked for, or at the headline one alone."""
        sample = frozen.sample
        units = sample.rows if sample.weights is None else int((sample.weights != 0).sum())
        if (units if self.clusters is None else self.clusters[1]) < 3:
            self.found.note("fewer than three rows or clusters with weight: no intervals")
            return {}
        if sample.rows * sample.views > MOST_SPREAD or sample.views > MOST_VIEWS:
            self.found.note(f"the gap of {name} has no interval: too many rows and classes")
            return {}
        wanted = self.settings.n_bins or (headline,)
        chosen = tuple(c for c, m in enumerate(frozen.counts) if m in wanted)
        every = spreads(frozen, self.clusters, counts=chosen, folds=self.folds)
        if self.folds is not None and any(spread.note for spread in every):
            self.found.note(f"the gap of {name} is left out: too few rows share a fold and a bin")
            return {}
        return {frozen.counts[c]: spread for c, spread in zip(chosen, every, strict=True)}

    def _gap(self, name: str, spread: Spread, n_bins: int | None) -> Gap:
        assert self.found.direction is not None
        if spread.note:
            self.found.note(f"the interval of the {name} gap is {spread.note}")
        word, symbol = self.found.direction.word, COMPOSED[name].symbol
        return gap_from(spread, word, self.settings.level, n_bins, self.inputs.n_samples, symbol)

    def _squared(
        self,
        name: str,
        frozen: Frozen,
        headline: int | None,
        listed: tuple[int | None, ...],
        by_count: dict[int | None, Spread],
    ) -> list[ErrorValue]:
        """Rows of a squared error, one per listed bin count."""
        inside = [None] * len(frozen.counts)
        if self.clusters is not None:
            inside = within_parts(frozen, self.clusters).sum(axis=1).tolist()
        rows = []
        for parts, m, within in zip(frozen.parts, frozen.counts, inside, strict=True):
            if m not in listed:
                continue
            spread, u = by_count.get(m), parts.U - (within or 0.0)
            gap_sq = parts.gap_sq if spread is None else spread.theta
            score = parts.score
            if self.folds is not None and name in self.notions:  # pairs of one fold only, or none
                gap_sq = np.nan if spread is None else gap_sq
                score += np.nan_to_num(gap_sq) - np.nan_to_num(parts.gap_sq)
            gap = 100 * signed_root(gap_sq) if np.isfinite(gap_sq) else None
            more = {"loss": parts.loss, "U": u, "gap": gap, "score": score, "within": within}
            ends = {} if spread is None else spread_ends(spread, u, self.settings.level)
            rows.append(_row(name, frozen, m, parts.error, headline, **more, **ends))
        return rows

    def _absolute(self, name: str, frozen: Frozen, headline: int | None) -> list[ErrorValue]:
        """Rows of an l1 error; ECE has null bands where the plan allows, clusters have none."""
        settings, values = self.settings, frozen.values.tolist()
        nulls: list[dict[str, Any]] = [{}] * len(values)
        if name in ECE_NAMES and not self._dependent(frozen):
            draws = settings.plan.null_band(frozen.sample)
            if draws:
                band = null_band_of(
                    frozen.on_host, settings.level, max(draws, draws_for_band(settings.level)), settings.seed
                )
                nulls = [{"null_low": b.low, "null_high": b.high, "null_pvalue": b.pvalue} for b in band.each()]
            else:
                self.found.note(f"{name} has no null band: it needs more draws")
        each = zip(frozen.counts, values, nulls, strict=True)
        return [_row(name, frozen, m, value, headline, **null) for m, value, null in each]

    def _reliability(self, name: str, frozen: Frozen) -> Reliability:
        """Quantile bins of the error, one table for all views, with bands where the plan allows."""
        settings, sample = self.settings, frozen.sample
        m = min(settings.diagram_bins, sample.rows)
        place = frozen.counts.index(m)
        bands = None
        if not self._dependent(frozen):
            draws = settings.plan.bands(sample)
            if draws:
                draws = max(draws, draws_for_band(settings.level))
                bands = bands_of(frozen.on_host, place, settings.level, draws, settings.seed)
            else:
                self.found.note(
                    f"the {name} diagram has no consistency bands: too many rows and classes for the planned draws"
                )
        return Reliability(name, m, frozen.table(place), bands)

    def _dependent(self, frozen: Frozen) -> bool:
        """Whether outcomes cannot be drawn row by row: they come in clusters, are distributions, or were fitted on."""
        return self.clusters is not None or self.inputs.soft or self.folds is not None

    @cached_property
    def folds(self) -> Groups | None:
        """The folds of cross-validated predictions, where there are several."""
        folds = self.inputs.folds
        return None if folds is None or folds[1] < 2 else folds

    def losses(self) -> Iterator[LossValue]:
        """Every loss that is defined here, with its interval."""
        every = list(self.inputs.loss_values())

        def interval(losses: Losses) -> Part:
            return mean_interval(losses, self.inputs.weights, self.clusters, self.settings.level)

        means: Iterable[Part] = map(interval, (losses for _, losses in every))
        if self.inputs.n_reports >= DISPATCH.parallel_views and not is_tensor(self.inputs.reports):
            with ThreadPoolExecutor(THREADS) as pool:
                means = list(pool.map(interval, (losses for _, losses in every)))
        for (name, losses), mean in zip(every, means, strict=True):
            if mean.note == INFINITE:
                number = sum(int(namespace(values.value).isinf(values.value).sum()) for _, values in losses)
                self.found.note(infinite_text(name, number))
            ends = (mean.low, mean.high) if np.isfinite(mean.se) else (None, None)
            yield LossValue(name, mean.estimate, *ends)


def _row(
    name: str, frozen: Frozen, m: int | None, value: float, headline: int | None, **more: float | None
) -> ErrorValue:
    metric = frozen.error
    about: dict[str, Any] = {"headline": m == headline, **more}
    return ErrorValue(name, metric.symbol, metric.truthful, m, value, **about)


def vector_bins(n_bins: tuple[int, ...], n: int, k: int) -> tuple[int, ...]:
    """Of the bin counts, those with at most n cells over all k top classes; the smallest, but at most n/k, if none."""
    return tuple(m for m in n_bins if m * k <= n) or (max(1, min(*n_bins, n // k) if n_bins else 1),)


def spread_ends(spread: Spread | None, u: float, level: float) -> dict[str, float]:
    """Intervals of the gap in points, and of U, which is the squared gap in other units."""
    if spread is None:
        return {}
    low, high, _ = spread.interval(level)
    moved = {name: u + spread.unit * (end - spread.theta) for name, end in (("U_low", low), ("U_high", high))}
    return moved | {"gap_low": 100 * signed_root(low), "gap_high": 100 * signed_root(high)}


def infinite_text(name: str, rows: int) -> str:
    """Why a loss has no number."""
    return f"{name} is infinite: the observed label had probability 0 in {rows} rows"
