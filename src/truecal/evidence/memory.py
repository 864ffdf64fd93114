"""Evidence from rows in memory: losses, errors with gap and score, the test, and the tables of diagrams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any
from weakref import ref

import numpy as np

from ..baselines import BASELINES, ERRORS
from ..core.arrays import HOST, LIBRARY, on_cpu
from ..core.dispatch import DISPATCH, THREADS
from ..core.rules import DEFAULT_BINS, bins_text
from ..core.sample import Sample
from ..core.types import Groups
from ..inference import omnibus
from ..inference.bands import bands_of
from ..inference.binned_sample import BinnedSample, SampleCells
from ..inference.calibration_result import CalibrationTest
from ..inference.checks import FEW_COUNTS, TimeBlocks, draws_for_band, pairs_left_out
from ..inference.direction import CLEAR, gap_of
from ..inference.intervals import within_parts
from ..inference.level_tests import OWN, own_test
from ..inference.mean_losses import INFINITE, IntervalEstimate, Losses, mean_interval
from ..inference.null import null_bands
from ..inference.sign_flips import cluster_test
from ..inference.spread import Spread, spreads
from ..inference.thresholds import discrimination
from ..kinds import COMPOSED, ece_names
from ..kinds.inputs import Inputs, Progress, several_bins
from ..sums.errors import CalibrationError
from ..sums.scores import by_fold, squares_and_gap
from .budget import Plan
from .evidence import Evidence
from .loss_rows import loss_values_of
from .values import (
    ErrorValue,
    LossValue,
    Reliability,
    called_views,
    errors_with_gap,
    gap_value,
    infinite_text,
    plain_error,
    squared_error,
)
from .views import tested_views, view_values, worst_first

FEWEST_IN_FOLD = 20
"""With fewer rows per fold the tests of single folds say next to nothing."""
DECISIONS = "every prediction is 0 or 1: these are decisions, not probabilities; pass predict_proba, not predict"
MOST_ORDERED = 1 << 20
"""Of more rows the confidences are not put in order: discrimination is left out."""
HISTOGRAM_BARS = 20
"""Parts of [0, 1] in which predictions are counted for a diagram."""
MOST_SPREAD, MOST_VIEWS = 1 << 27, 2000
"""With more predictions or classes than this, the gap of single classes has no interval."""
MOST_CELLS = 1 << 18
"""With more bin counts, and more bins in all of them and all classes, only the headline gap has an interval."""
BESIDE = 1 << 15
"""From so many predictions on, the calibration test runs in a second thread while errors are measured."""


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


def measure(
    inputs: Inputs,
    settings: Settings,
    clusters: Groups | None,
    progress: Progress | None = None,
    *,
    keep: bool = False,
    order: bool = True,
) -> Evidence:
    """Measure one model in memory: every sample is made once and every rule bins it once.

    `keep`: with bins and spreads, from which pairs of models are compared; else each is freed after its last use.
    `order`: whether to measure how well the confidence ranks right before wrong predictions.
    """
    work = _Work.of(inputs, settings, clusters)
    found = work.found
    if clusters is not None:
        found.note(clusters_text(clusters, tested=work.folds is None))
    elif copies := inputs.copies():
        found.copies = copies
        found.note(copies_text(copies, inputs.n_samples))
    if inputs.decisions():
        found.note(DECISIONS)
    with ThreadPoolExecutor(1) as pool:
        test, why = work.start_test(pool)
        for i, name in enumerate(settings.names):
            if progress is not None:
                progress(i / (len(settings.names) + 1))
            work.error(name)
            if not keep:
                found.binned.clear()
                found.spreads.clear()
                following = settings.names[i + 1] if i + 1 < len(settings.names) else None
                if following is None or ERRORS[following].property.kind != ERRORS[name].property.kind:
                    work.shared.clear()
                    if name in COMPOSED and not COMPOSED[name].property.picks_outcome:  # the confidence is small
                        inputs.forget(name)
        per_view = COMPOSED[work.main].property.per_view or settings.per_view
        if work.main in settings.names and per_view and work.folds is None:
            work.views()
        found.test = found.test if test is None else test()
    if found.test is not None and not found.test.n_resamples:
        found.note(f"not tested: {found.test.null}")
        found.test = None
    if why:
        found.note(why)
    found.losses = work.losses()
    if order and inputs.n_samples <= MOST_ORDERED:
        found.discrimination = discrimination(inputs, settings.level, clusters)
        inputs.forget("confidence")
    return found


def clusters_text(clusters: Groups, tested: bool = True) -> str:
    """The note about rows that depend on each other, in one fold or, not tested, in several."""
    if not isinstance(clusters, TimeBlocks):
        test = "the calibration test flips the signs of whole groups, and bands are left out"
        return f"rows come in groups: {test if tested else 'bands are left out'}"
    size = int(np.bincount(clusters[0])[0])
    return (
        f"outcomes of {clusters.overlap} consecutive rows overlap: test and intervals use {clusters[1]} blocks of "
        f"{size} rows, gaps leave out pairs of rows closer than {clusters.overlap}, and bands are left out"
    )


def copies_text(copies: int, n: int) -> str:
    """The note about rows that repeat others."""
    return f"{copies} of {n} rows are duplicates (same predictions and label): pass groups= if duplicates are one case"


@dataclass(frozen=True, eq=False)
class _Work:
    """One model on its way through the errors: what was given, and what is found."""

    inputs: Inputs
    settings: Settings
    clusters: Groups | None
    main: str
    """The error whose property names the direction and is tested."""
    found: Evidence
    with_gap: tuple[str, ...]
    shared: dict[Any, SampleCells] = field(default_factory=dict)
    """Cells of the sample of one property, by rule."""
    cuts: list[tuple[ref[Any], tuple[float, float]]] = field(default_factory=list)
    """Reports, and what the score needs of them."""

    @staticmethod
    def of(inputs: Inputs, settings: Settings, clusters: Groups | None) -> _Work:
        """Nothing measured yet but the direction."""
        possible, with_gap = inputs.error_names(), errors_with_gap()
        main = next((name for name in with_gap if name in possible), possible[0])
        seen = inputs.sample(inputs.error(main).property.direction_property())
        folds = several_folds(inputs)
        direction = gap_of(seen, clusters, CLEAR / settings.looks, folds)
        notes = [*filter(None, [inputs.kind.note]), *settings.notes]
        about = (inputs.kind, inputs.n_samples, inputs.n_classes, settings.level, direction)
        scale = inputs.kind.scale(inputs.thresholds, settings.view_names, inputs.n_classes or 2)
        return _Work(inputs, settings, clusters, main, Evidence(*about, notes=notes, scale=scale), with_gap)

    def start_test(self, pool: ThreadPoolExecutor) -> tuple[Callable[[], CalibrationTest] | None, str]:
        """The calibration test, made beside the errors where there is much to do, or None; and a note about it."""
        inputs, settings, folds = self.inputs, self.settings, self.folds
        if inputs.soft:
            what = "the calibration test and bands, which need single labels, are left out"
            return None, f"labels are distributions: {what}"
        if COMPOSED[self.main].property.label_by_label:
            left_out = "the tests of labels are left out: predictions are cross-validated"
            return None, left_out if folds is not None else ""
        if not any(ERRORS[name].truthful for name in settings.names):
            return None, ""
        if inputs.own is not None:
            if folds is not None:
                return None, "the calibration test is left out: predictions are cross-validated"
            draws = settings.plan.test(inputs.sample(self.main))
            about = (inputs.own, inputs.weights, self.clusters, draws, settings.seed, settings.level)
            return partial(own_test, *about), ""
        if self.clusters is not None and folds is not None:
            return None, "the calibration test is left out: predictions are cross-validated, and rows come in groups"
        sample, most = inputs.sample(self.main), omnibus.MOST_ROWS
        draws = settings.plan.test(sample)
        if folds is not None and sample.rows < FEWEST_IN_FOLD * folds[1]:
            return None, f"the calibration test is left out: folds have fewer than {FEWEST_IN_FOLD} rows"
        if folds is not None:
            draws = max(draws, 2 * settings.plan.fewest)
            return partial(omnibus.fold_test, sample, folds, draws, settings.seed, settings.level), ""
        why = f"the calibration test looks at {most:,} rows, chosen at random" if sample.rows > most else ""
        level, names = settings.level, settings.view_names
        if self.clusters is not None:
            draws = max(settings.plan.fewest, omnibus.MOST_PLANNED) if settings.plan.draws is None else draws
            return partial(cluster_test, sample, self.clusters, draws, settings.seed, level, names), ""
        test = partial(omnibus.omnibus_test, sample, draws, settings.seed, level=level, names=names)
        small = not isinstance(sample.reports, HOST) or sample.reports.size < BESIDE
        return test if small else pool.submit(test).result, why

    def error(self, name: str) -> None:
        """Measure the named error at every bin count."""
        found = self.found
        if name in BASELINES:
            baseline = BASELINES[name]
            value = baseline.of(self.inputs.sample(baseline.property.at_thresholds(self.inputs.thresholds)))
            found.errors.append(ErrorValue(name, baseline.symbol, baseline.truthful, None, value))
            return
        sample = self.inputs.sample(name)
        metric, headline, listed = self._with_counts(name, sample)
        key = (sample.kind, metric.cells)
        if key not in self.shared:
            self.shared[key] = SampleCells(sample, metric.binning, metric.ties)
        frozen = BinnedSample(metric, sample, self.shared[key])
        if metric.norm == "l1":
            found.errors += self._absolute(name, frozen, headline)
            return
        by_count = self._spreads(name, frozen, headline) if name in self.with_gap else {}
        found.errors += self._squared(name, frozen, headline, listed, by_count)
        if name in self.with_gap:
            found.binned[name], found.spreads[name] = frozen, by_count
            found.reliability[name] = self._reliability(name, frozen)
            if headline in by_count:
                shown, bins = COMPOSED[name], headline
                if self.inputs.own is not None and name == self.main:
                    shown, own = OWN, BinnedSample.of(OWN, self.inputs.own.sample(self.inputs.weights))
                    (bins,), (by_count[headline],) = own.error.counts, spreads(own, self.clusters, folds=self.folds)
                self._add_gap(name, shown, by_count[headline], bins)

    def views(self) -> None:
        """One line per label or threshold; labels are tested one by one."""
        found, settings, sample = self.found, self.settings, self.inputs.sample(self.main)
        property = COMPOSED[self.main].property
        if sample.reports.size > MOST_SPREAD or sample.views > MOST_VIEWS or not found.gaps:
            return
        each = view_values(sample, property, settings.level, self.clusters, settings.view_names)
        if property.label_by_label and not self.inputs.soft:
            about = (settings.plan, settings.level, settings.seed, self.clusters, property.noun)
            found.test, each = tested_views(sample, each, *about)
        found.views = tuple(each) if property.in_order else worst_first(each)

    def _with_counts(self, name: str, sample: Sample) -> tuple[CalibrationError, int | None, tuple[int | None, ...]]:
        """The named error at every bin count that is measured, the one in summaries, and those that have a row."""
        asked, gap = self.settings.n_bins, name in self.with_gap
        about = (sample.rows, sample.views, asked, self.settings.diagram_bins, gap)
        metric, headline, listed = at_counts(self.inputs.error(name), *about)
        if asked is not None and metric.binning.width(sample.views) > 1 and listed != asked:
            self.found.note(
                f"full errors use {bins_text(metric.binning.counts)} within each top class: with more there would be "
                "more cells than rows, and the error would be the Brier loss alone"
            )
        return metric, headline, listed

    def _spreads(self, name: str, frozen: BinnedSample, headline: int | None) -> dict[int | None, Spread]:
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
        if len(wanted) > FEW_COUNTS and sum(min(m or 1, sample.rows) for m in wanted) * sample.views > MOST_CELLS:
            self.found.note(f"{name} has intervals at {bins_text(headline)} alone: {len(wanted)} bin counts are many")
            wanted = (headline,)
        chosen = tuple(c for c, m in enumerate(frozen.error.counts) if m in wanted)
        every = spreads(frozen, self.clusters, counts=chosen, folds=self.folds)
        if self.folds is not None and any(spread.note for spread in every):
            self.found.note(f"the gap of {name} is left out: too few rows share a fold and a bin")
            return {}
        return {frozen.error.counts[c]: spread for c, spread in zip(chosen, every, strict=True)}

    def _add_gap(self, name: str, error: CalibrationError, spread: Spread, n_bins: int | None) -> None:
        word, rows = self.found.direction.word, self.inputs.n_samples
        gap = gap_value(error, n_bins, spread.theta, spread, word, self.settings.level, rows, left_out="")
        self.found.add_gap(name, gap)

    def _squared(
        self,
        name: str,
        frozen: BinnedSample,
        headline: int | None,
        listed: tuple[int | None, ...],
        by_count: dict[int | None, Spread],
    ) -> list[ErrorValue]:
        """Rows of a squared error, one per listed bin count."""
        inside = [None] * len(frozen.error.counts)
        if self.clusters is not None:
            inside = within_parts(frozen, self.clusters).sum(axis=1).tolist()
        rows, score = [], self._score(name, frozen)
        for terms, m, within in zip(frozen.parts, frozen.error.counts, inside, strict=True):
            if m not in listed:
                continue
            spread = by_count.get(m)
            if self.folds is not None and name in self.with_gap:  # pairs of one fold only, or none
                terms = terms._replace(gap=np.nan)
            about: dict[str, Any] = {"score": score, "headline": m == headline, "within": within}
            rows.append(squared_error(name, frozen.error, m, terms, spread, self.settings.level, **about))
        return rows

    def _score(self, name: str, frozen: BinnedSample) -> float:
        """The score, of cross-validated predictions fold by fold."""
        error, sample = frozen.error, frozen.sample
        if self.folds is not None and name in self.with_gap:
            return sum(share * error.score(fold) for share, fold in by_fold(sample, self.folds))
        for reports, found in self.cuts:  # errors of the same reports share what is summed over cuts
            if reports() is sample.reports:
                return error.score_from(sample, *found)
        found = squares_and_gap(sample, pairs_left_out(sample, self.clusters))
        self.cuts.append((ref(sample.reports), found))
        return error.score_from(sample, *found)

    def _absolute(self, name: str, frozen: BinnedSample, headline: int | None) -> list[ErrorValue]:
        """Rows of an l1 error; ECE has null bands where the plan allows, clusters have none."""
        settings, values = self.settings, frozen.values.tolist()
        nulls: Sequence[Any] = [None] * len(values)
        if name in ece_names() and not self._dependent(frozen):
            draws = settings.plan.null_band(frozen.sample)
            if draws:
                draws = max(draws, draws_for_band(settings.level))
                nulls = null_bands(frozen.on_host, settings.level, draws, settings.seed)
            else:
                self.found.note(f"{name} has no null band: it needs more draws")
        each = zip(frozen.error.counts, values, nulls, strict=True)
        return [plain_error(name, frozen.error, m, value, m == headline, null) for m, value, null in each]

    def _reliability(self, name: str, frozen: BinnedSample) -> Reliability:
        """Quantile bins of the error, one table for all views, with bands where the plan allows."""
        settings, sample = self.settings, frozen.sample
        m = min(settings.diagram_bins, sample.rows)
        place = frozen.error.counts.index(m)
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
        histogram = None
        if sample.views == 1:
            reports, weights = (np.asarray(on_cpu(x), dtype=float) for x in (sample.reports, sample.row_weights))
            histogram = np.histogram(reports.ravel(), HISTOGRAM_BARS, (0.0, 1.0), weights=weights)[0]
        called = called_views(frozen.error.property, sample.views, settings.view_names)
        return Reliability(name, m, frozen.table(place), bands, histogram, called)

    def _dependent(self, frozen: BinnedSample) -> bool:
        """Whether outcomes cannot be drawn row by row: they come in clusters, are distributions, or were fitted on."""
        return self.clusters is not None or self.inputs.soft or self.folds is not None

    @cached_property
    def folds(self) -> Groups | None:
        """The folds of cross-validated predictions, where there are several."""
        return several_folds(self.inputs)

    def losses(self) -> tuple[LossValue, ...]:
        """Every loss that is defined here, with its interval."""
        every, found = loss_values_of(self.inputs), []

        def interval(losses: Losses) -> IntervalEstimate:
            return mean_interval(losses, self.inputs.weights, self.clusters, self.settings.level, test=False)

        means: Iterable[IntervalEstimate] = map(interval, every.values())
        if self.inputs.n_reports >= DISPATCH.parallel_views and isinstance(self.inputs.reports, HOST):
            with ThreadPoolExecutor(THREADS) as pool:
                means = list(pool.map(interval, every.values()))
        for (name, losses), mean in zip(every.items(), means, strict=True):
            if mean.note == INFINITE:
                number = sum(int(LIBRARY[type(values.value)].isinf(values.value).sum()) for _, values in losses)
                self.found.note(infinite_text(name, number))
            ends = (mean.low, mean.high) if np.isfinite(mean.se) else (None, None)
            found.append(LossValue(name, mean.estimate, *ends))
        return tuple(found)


def several_folds(inputs: Inputs) -> Groups | None:
    """The folds of cross-validated predictions, where there are several."""
    return None if inputs.folds is None or inputs.folds[1] < 2 else inputs.folds


@lru_cache(maxsize=256)
def at_counts(
    metric: CalibrationError, rows: int, views: int, asked: tuple[int, ...] | None, diagram_bins: int, gap: bool
) -> tuple[CalibrationError, int | None, tuple[int | None, ...]]:
    """An error at every bin count that is measured, the one in summaries, and those that have a row; `gap`: whether it
    has a gap with an interval."""
    if not metric.binning.has_counts:
        return metric, None, metric.counts
    automatic = DEFAULT_BINS if metric.norm == "l1" else metric.binning.auto(rows, views)
    counts: tuple[int, ...] = asked or several_bins(rows)
    if asked is None:
        few = max(1, 2 * rows // 5)  # the usual ECE has its bins however few rows there are
        headline = automatic if metric.norm == "l1" else min(automatic, few)
        counts = tuple(sorted({*counts, headline}))
    else:
        headline = min(counts, key=lambda m: abs(np.log(m / automatic)))
    if metric.binning.width(views) > 1:
        counts = vector_bins(counts, rows, views)
        headline = min(counts, key=lambda m: abs(m - headline))
    every = counts
    if metric.binning.open and metric.norm == "l2" and not metric.property.vector:
        # Those of a diagram, whether this error has one or not: errors of the same bins share their tables.
        every = tuple(sorted({*counts, min(diagram_bins, rows)}))
    return metric.with_bins(every), headline, every if asked is None and gap else counts


def vector_bins(n_bins: tuple[int, ...], n: int, k: int) -> tuple[int, ...]:
    """Of the bin counts, those with at most n cells over all k top classes; the smallest, but at most n/k, if none."""
    return tuple(m for m in n_bins if m * k <= n) or (max(1, min(*n_bins, n // k) if n_bins else 1),)
