"""calibration_test: is this predictor calibrated? Exact at every sample size, by drawing from its predictions."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, final

import numpy as np

from ..core.arrays import HOST, compiled_loops, doubled, on_cpu, to_device_of
from ..core.data import check_weights, shown
from ..core.dispatch import DISPATCH
from ..core.parameters import described
from ..core.result import Result
from ..core.rules import BinCounts, bins_text
from ..core.sample import Sample
from ..core.types import Array, Groups
from ..core.words import p_text, points_text
from ..kinds import TopPredictions
from ..kinds.own_levels import NAME as OWN_LEVELS
from ..kinds.own_levels import own_levels
from ..sums.errors import CalibrationError
from .binned_sample import BinnedSample
from .checks import check_draws, check_groups, check_level, p_of_draws, read_error, shown_bins
from .forms import ClassForms, Form, ScalarForms, combined, farthest, limits, tails, words
from .gaps import agreeing, gaps_of
from .null import (
    BERNOULLI,
    CATEGORICAL,
    POSITIVE,
    Draws,
    Sampler,
    calibrated_world,
    draw_labels,
    draws_pvalue,
    simulate,
    snapped,
)
from .standing import Standing

FEWEST = 3
"""With fewer rows no gap has an interval."""
NAMED = 0.1  # with a larger p-value no violation is named
MOST_ROWS = 1 << 18
"""Of more rows than this, so many chosen at random are tested: the level stays exact, and the power is there."""
MOST_PLANNED, FEWEST_PLANNED = 999, 99
"""A p-value from fewer draws than the second could not reach 1%."""
_LABEL, _COIN = 5e-8, 2e-8  # seconds per draw and row: several classes, one probability
FIRST_DRAWS, SETTLED = 99, 0.2
"""The test stops after so many draws where the p-value is larger than this. Its level stays exact at every α: below .2
only the p-value of all draws counts, and P(p ≤ α) is at most that of the first draws above."""
_BLOCK = 1 << 21
ALL_CLASSES = " over all classes"
"""What the temperature is about: not the confidence alone, whose gap is printed."""
SMALLEST = 0.01
"""A form that rejects shows this share of its size or more."""


@final
@dataclass(frozen=True, repr=False, eq=False)
class FormDetail(Result):
    """One thing the test looked at, with its own p-value, not corrected for the others."""

    name: str
    pvalue: float
    U: float | None = None
    n_bins: int | None = None
    null_sd: float | None = None
    low: float = 0.0
    """Where this form rejects, how many points the probabilities are off at least, at the level of all forms."""

    @property
    def text(self) -> str:
        """The name of the form, with U and its noise where it has one."""
        if self.U is None:
            return self.name
        return f"{self.name}: U {self.U:+.4g}, if calibrated ± {self.null_sd:.4g}"

    def __repr__(self) -> str:
        return f"{self.text}; {p_text(self.pvalue)}"


ALONE = "no two rows share a bin, so that p = 1 whatever the outcomes are; take fewer bins"


@final
@dataclass(frozen=True, repr=False, eq=False)
class CalibrationTest(Result):
    """The outcome of a calibration test; `pvalue` has exact level at every n under `null`.

    `strongest` is the strongest violation in words; `details` holds every form that was tested. `gap`, `low` and `high`
    are the gap in points and its interval, where there is one. `standing` answers "calibrated?" as `evaluate` does.
    With `max_gap`, in points, `verdict` is "yes" where `high` is at most `max_gap`, "no" where `low` exceeds it, and
    "undecided" otherwise; `sentence` is the result in words.
    """

    pvalue: float
    strongest: str
    null: str
    n_bins: int | tuple[int, ...] | None
    n_resamples: int
    details: tuple[FormDetail, ...]
    n_samples: int
    tested: int
    """How many rows the test looked at: all, or as many as were chosen at random."""
    name: str
    settled: bool = False
    """Whether draws stopped early, because the p-value is far from rejecting."""
    looks: int = 1
    """Of how many tests, one per label, the p-value is the smallest, corrected."""
    folds: int = 0
    """Of cross-validated predictions, how many folds were tested: then `pvalue` is min(1, 2·mean of theirs)."""
    max_gap: float | None = None
    gap: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    """Why the interval of the gap is unreliable."""
    level: float = 0.95
    """The test rejects at p ≤ 1 − level."""
    low_gap: float = 0.0
    """Where the forms that reject are about the gap that is printed, that gap is at least so many points; else 0."""
    reason: str = ""
    """Where the test rejects, the strongest violation with its own number of points."""

    @property
    def floor(self) -> float:
        """The smallest p-value that so many draws can give."""
        return (2 if self.folds else self.looks) / (1 + self.n_resamples)

    @property
    def at_floor(self) -> bool:
        """Whether no draw was as extreme: the p-value is then a bound, not a value."""
        return self.pvalue <= 1.0000001 * self.floor

    @property
    def pvalue_text(self) -> str:
        """ "p = 0.032", or "p ≤ 0.001" where no draw was as extreme."""
        return p_text(self.pvalue, self.at_floor)

    @property
    def passed(self) -> bool | None:
        """Whether the gap is at most `max_gap`: None where the data cannot tell, or where there is no `max_gap`."""
        if self.max_gap is None or self.low is None or self.high is None or self.note:
            return None
        return True if self.high <= self.max_gap else False if self.low > self.max_gap else None

    @property
    def standing(self) -> Standing:
        """Whether the model is calibrated, and why not: the p-value and the interval of the gap together."""
        rejected = self.pvalue <= 1 - self.level
        state: Literal["rejected", "not rejected", "too few draws", "too few rows"]
        state = "rejected" if rejected else "not rejected"
        if not self.n_resamples:
            state = "too few rows"
        elif not self.settled and self.floor > 1 - self.level:  # draws stop early only where p is large
            state = "too few draws"
        rows = f"{self.n_samples} rows"
        found = Standing(state, self.pvalue, self.at_floor, self.reason, rows=rows)
        if self.gap is None and self.n_samples >= FEWEST:  # an error without a gap: the p-value alone decides
            return replace(found, allows=0.0, seen=True)
        if self.note or self.low is None or self.high is None or self.high != self.high:
            return found
        return replace(found, allows=self.high, seen=self.low > 0 and self.name != OWN_LEVELS)

    @property
    def verdict(self) -> Literal["yes", "no", "undecided", "untested"]:
        """Whether the model is calibrated; with `max_gap`, whether its gap is at most that."""
        if self.max_gap is None:
            return self.standing.answer
        return "undecided" if self.passed is None else "yes" if self.passed else "no"

    @property
    def sentence(self) -> str:
        """The result in words."""
        if self.max_gap is None or self.gap is None or self.low is None or self.high is None:
            return f"undecided: {self.null}" if not self.n_resamples else self.standing.words
        limit = f"{self.max_gap:g} points"
        if self.note:
            return f"The gap cannot be compared with {limit}: its interval is {self.note}."
        gap = f"The gap of {points_text(self.gap)} points [{points_text(self.low)}, {points_text(self.high)}]"
        if self.passed is None:
            return f"{gap} may be below or above {limit}: take more rows."
        return f"{gap} {'is at most' if self.passed else 'exceeds'} {limit}."

    def __repr__(self) -> str:
        some = "" if self.tested == self.n_samples else f" ({self.tested} of them, chosen at random)"
        lines = [f"calibration test of {self.n_samples} samples{some}"]
        lines += [] if self.max_gap is None else [f"  {self.sentence}"]
        if self.gap is not None and self.low is not None and self.high is not None:
            size = f"[{points_text(self.low)}, {points_text(self.high)}]" if not self.note else "(interval unreliable)"
            lines.append(f"  gap           {points_text(self.gap)} points {size}")
        if not self.n_resamples:
            return "\n".join([*lines, f"  calibrated?   undecided: {self.null}"])
        lines.append(f"  calibrated?   {self.standing.words}")
        if self.pvalue <= NAMED and self.strongest and not (self.standing.answer == "no" and self.standing.why):
            lines.append(f"  strongest violation: {self.strongest}")
        joint = ", together" if len(self.details) > 1 else ""
        lines.append(f"  {self.name}, {self.n_resamples} draws: {self.pvalue_text}{joint}")
        lines += [f"    {detail.text}; {p_of_draws(detail.pvalue, self.n_resamples)}" for detail in self.details]
        lines.append(f"  null hypothesis: {self.null}")
        return "\n".join(lines)


@described("A CalibrationTest.")
def calibration_test(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError | None = None,
    n_bins: BinCounts | None = None,
    n_resamples: int | None = None,
    seed: int = 0,
    sample_weight: Any = None,
    labels: Any = None,
    sampler: Sampler | None = None,
    max_gap: float | None = None,
    level: float = 0.95,
    groups: Any = None,
    overlap: int = 1,
    progress: Callable[[float], None] | None = None,
) -> CalibrationTest:
    """Test of calibration with exact level at every sample size: outcomes are drawn from the predictions.

    By default several forms are tested in the same draws: means, slopes, bins and neighbouring predictions; for several
    classes also the temperature, class frequencies and each class. The result names the strongest violation. There are
    999 draws, fewer with more than 20,000 rows so that the test takes about a second, and never fewer than 99. They
    stop after 99 where p > .2. Both keep the level exactly. `n_resamples` sets another number: p ≥ 1/(1 + draws).

    With `error` or `n_bins` the test is on U = n⁻¹ Σ_{i≠j} G_ij ⟨r_i, r_j⟩ of that error (classwise, or binary for one
    probability per row; at the automatic count by default), p = (1 + #{U* ≥ U})/(1 + n_resamples). Several bin counts
    are tested together through the largest U over its null rms. Labels drawn from the whole of p_i are calibrated in
    full; the result states its null. Bare (outcomes, reports) need `sampler`, a function of a
    numpy Generator that returns outcomes. With error="labelwise" each label is tested by itself, and the p-value is the
    smallest, corrected by Holm's method: labels of a row may depend on each other in any way.

    Rows must be independent, or `groups` gives each its cluster: signs of whole clusters are then flipped, over level,
    slope, bins, temperature and class frequencies. With `overlap=h` rows are in time order and the outcomes of h
    consecutive rows overlap: clusters are blocks of 2h to 3h rows. Fewer than 12 clusters are undecided.

    With many rows every model is rejected. `max_gap`, in points, is the gap that can be tolerated: `verdict` is "yes"
    where the upper end of the interval of the gap (of the confidence, or of the one probability there is; of `error`
    where it is named) is at most that, "no" where the lower end exceeds it, "undecided" otherwise. `level` is that of
    the test and of the interval.

    >>> import truecal as tc
    >>> test = tc.calibration_test([1, 1, 0, 1, 1, 1] * 2, [.1, .2, .2, .1, .3, .2] * 2)
    >>> test.pvalue < .01, test.strongest
    (True, 'probabilities are too low overall')
    >>> rng = np.random.default_rng(0)
    >>> chances = rng.uniform(.2, .8, 20_000)
    >>> y = rng.random(20_000) < chances
    >>> test = tc.calibration_test(y, chances + .02, n_resamples=99, max_gap=3)
    >>> print(test.pvalue_text, test.sentence)
    p ≤ 0.01 The gap of 2.0 points [1.1, 2.9] is at most 3 points.
    """
    tolerated, level = check_max_gap(max_gap), check_level(level)
    draws, seed = check_draws(MOST_PLANNED if n_resamples is None else n_resamples, seed)
    if error is None and n_bins is None and (own := own_levels(y_true, y_proba)) is not None:
        from .level_tests import OWN, own_test

        if sampler is not None or labels is not None:
            raise ValueError("sampler and labels cannot be used with forecasts of a number")
        weights, clusters = check_weights(sample_weight, len(own)), check_groups(groups, len(own), overlap=overlap)
        sample = own.sample(weights)
        draws = planned_draws(sample) if n_resamples is None else draws
        found = own_test(own, weights, clusters, draws, seed, level)
        return with_gap(found, OWN, sample, level, clusters, tolerated, direction=False)
    usual = None
    if isinstance(y_proba, TopPredictions):
        y_true, y_proba, usual = y_proba.correct, y_proba.confidence, y_proba.error
    metric = read_error(error or usual, n_bins, y_proba)
    sample = metric.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
    clusters = check_groups(groups, sample.rows, y_true=y_true, overlap=overlap)
    if clusters is not None and (n_bins is not None or sampler is not None):
        raise ValueError(
            "n_bins and sampler cannot be used with groups or overlap: signs of whole clusters are flipped"
        )
    if metric.property.label_by_label:
        from .label_tests import label_test

        if n_bins is not None or sampler is not None:
            raise ValueError("n_bins and sampler cannot be used: labels are tested one by one, each by several forms")
        sample = sample.on_host()
        names = [metric.property.view_name(j) for j in range(sample.views)]
        found, _ = label_test(sample, lambda _: draws, seed, names, level, clusters, metric.property.noun)
    elif clusters is not None:
        from .sign_flips import cluster_test

        found = cluster_test(sample, clusters, draws, seed, level, None if labels is None else list(map(str, labels)))
    elif error is None and n_bins is None and sampler is None:
        if n_resamples is None:
            draws = max(planned_draws(sample), math.ceil(2 / (1 - level)))
        classes = None if labels is None else [str(name) for name in labels]
        found = omnibus_test(sample, draws, seed, progress, level, classes)
    else:
        found = u_test(BinnedSample.of(metric, sample), draws, seed, sampler, level)
    if error is None and n_bins is None and sampler is None:
        of_gap = read_error(usual, None, y_proba, of_gap=True)
        if of_gap.property is not metric.property:
            assert sample.labels is not None and sample.distributions is not None
            sample = of_gap.property.sample(sample.labels, sample.distributions, sample.weights)
        metric = of_gap
    shown_gap = metric.has_gap and not metric.binning.several
    if sample.rows < FEWEST or (tolerated is None and not shown_gap):
        return replace(found, max_gap=tolerated)
    return with_gap(found, metric, sample, level, clusters, tolerated)


def planned_draws(sample: Sample, seconds: float = 1.0) -> int:
    """The draws of a test that takes about so many seconds: a function of sizes alone."""
    cost = min(sample.rows, MOST_ROWS) * (_COIN if sample.views == 1 else _LABEL)
    return int(min(MOST_PLANNED, max(FEWEST_PLANNED, seconds / cost)))


def check_max_gap(max_gap: Any) -> float | None:
    """A gap in points that can be tolerated."""
    if max_gap is None:
        return None
    if isinstance(max_gap, bool) or not isinstance(max_gap, (int, float, np.number)) or not 0 <= max_gap < 100:
        raise ValueError(f"max_gap must be points from 0 to 100, for example 3, got {shown(max_gap)}")
    return float(max_gap)


def with_gap(
    test: CalibrationTest,
    metric: CalibrationError,
    sample: Sample,
    level: float = 0.95,
    clusters: Groups | None = None,
    max_gap: float | None = None,
    direction: bool = True,
) -> CalibrationTest:
    """The test with the gap of a sample, which may be so many points."""
    if metric.binning.several:
        raise ValueError(f"max_gap needs one number of bins, got {shown(metric.binning.counts)}")
    (gap,) = gaps_of(metric, sample, level, clusters, direction)
    if test.n_resamples and test.floor <= 1 - level:
        gap = agreeing(gap, test.pvalue <= 1 - level, test.low_gap)
    return replace(test, max_gap=max_gap, gap=gap.points, low=gap.low, high=gap.high, note=gap.note)


def u_test(
    frozen: BinnedSample, draws: int, seed: int, sampler: Sampler | None = None, level: float = 0.95
) -> CalibrationTest:
    """The test on U of one error, at one bin count or at several together."""
    if frozen.error.norm == "l1":
        raise ValueError("calibration_test works on U, which norm='l1' errors do not have; use confidence_interval")
    simulated, null = _simulated(frozen, draws, seed, sampler)
    details = _details(frozen, simulated)
    pvalue = details[0].pvalue
    standard = standardised(simulated)
    if len(details) > 1:
        pvalue = draws_pvalue(float(standard.observed.max()), standard.drawn.max(axis=1))
    if not simulated.drawn.any() and not simulated.observed.any():
        rows, bins = frozen.sample.rows, shown_bins(frozen.error)
        return CalibrationTest(1.0, "", ALONE, bins, 0, (), rows, rows, frozen.error.symbol, level=level)
    best = int(np.argmax(standard.observed))
    low = 0.0
    if pvalue <= 1 - level:
        ratio = critical(standard.drawn.max(axis=1), level) / standard.observed[best]
        low = frozen.parts[best].gap * (1 - float(np.sqrt(np.clip(ratio, 0.0, 1.0))))
    bins, rows, name = shown_bins(frozen.error), frozen.sample.rows, details[best].name
    about = (pvalue, name, null, bins, draws, details, rows, rows, frozen.error.symbol)
    return CalibrationTest(*about, level=level, low_gap=max(low, 0.0), reason=name)


def _simulated(frozen: BinnedSample, draws: int, seed: int, sampler: Sampler | None) -> tuple[Draws, str]:
    """Draws of U, and what they are drawn from.

    Predictions on a GPU are drawn from and counted there, over quantile bins without weights; else on the CPU.
    """
    sample = frozen.sample
    if not isinstance(sample.reports, HOST):
        found = _device().simulate(frozen.error, sample, draws, seed) if sampler is None else None
        if found is not None:
            one = POSITIVE if sample.wrong is None else BERNOULLI
            return snapped(found[0], found[1], sample), CATEGORICAL if sample.reports.ndim == 2 else one
        frozen = frozen.on_host
    world = calibrated_world(frozen, sampler)
    return simulate(world, draws, seed), world.null


def _device() -> Any:
    """Draws where the predictions lie, which needs torch."""
    return importlib.import_module("truecal.inference.device_draws")


def _details(frozen: BinnedSample, draws: Draws) -> tuple[FormDetail, ...]:
    return tuple(
        FormDetail(
            name="U" if m is None else bins_text(m),
            pvalue=draws_pvalue(draws.observed[c], draws.drawn[:, c]),
            U=float(draws.observed[c]),
            n_bins=m,
            null_sd=float(draws.drawn[:, c].std()),
        )
        for c, m in enumerate(frozen.counts)
    )


def standardised(draws: Draws) -> Draws:
    """Divided by the root mean square over observed and drawn values together: the observed one keeps no special place,
    so the largest over bin counts is exchangeable and the level stays exact (the null mean of U is 0). Counts at which
    U is always 0, such as a bin for every row, have nothing to say."""
    unit = np.frexp(np.maximum(abs(draws.drawn).max(axis=0), abs(draws.observed)))[1]  # squares of 2^unit may be none
    square = (np.square(np.ldexp(draws.drawn, -unit)).sum(axis=0) + np.square(np.ldexp(draws.observed, -unit))) / (
        1 + len(draws.drawn)
    )
    speaks = square > 0
    scale = np.ldexp(np.sqrt(np.where(speaks, square, 1.0)), unit)
    silent = 0.0 if not speaks.any() else -np.inf
    observed, drawn = (np.where(speaks, x / scale, silent) for x in (draws.observed, draws.drawn))
    return Draws(observed, drawn)


# -- several forms at once ---------------------------------------------------------------------------------------------


def omnibus_test(
    sample: Sample,
    draws: int,
    seed: int,
    progress: Callable[[float], None] | None = None,
    level: float = 0.95,
    names: Sequence[str] | None = None,
) -> CalibrationTest:
    """The test of all forms together, of class labels or of one probability per row; progress gets the share done.

    Where it rejects, every form says how far off the probabilities are at least: its observed size, less what it
    would have to be to reject. `names`: of the classes.
    """
    if sample.marks is None and (sample.labels is None or sample.labels.ndim == 2):
        raise ValueError("calibration_test needs one label per row; these are distributions over labels")
    rng = np.random.default_rng(seed)
    rows = sample.rows
    if rows > MOST_ROWS:
        sample = sample.take(to_device_of(np.sort(rng.choice(rows, MOST_ROWS, replace=False)), sample.reports))
    null = CATEGORICAL if sample.distributions is not None else POSITIVE if sample.wrong is None else BERNOULLI
    made = _Made.of(sample, seed, rng)
    first, settled = min(draws, FIRST_DRAWS), False
    values, signs = made.observed()
    values = np.concatenate([values, *made.drawn(first, draws, progress)])
    if first < draws and largest_pvalue(combined(values, made.forms.forms)) > SETTLED:
        draws, settled = first, True
    else:
        values = np.concatenate([values, *made.drawn(draws - first, draws, progress)])
    if progress is not None:
        progress(1.0)
    forms = made.forms
    loud = combined(values, forms.forms)
    best = forms.forms[farthest(loud[0], forms.forms)]
    sign = float(signs[[form for form in forms.forms if form.signed].index(best)]) if best.signed else 0.0
    pvalue, strongest = largest_pvalue(loud), words(best.name, sign)
    low, reason = np.zeros(len(forms.forms)), ""
    if pvalue <= 1 - level:
        made = _Made.of(sample.on_host(), seed, rng)
        low = made.least(values, critical(loud.max(axis=1)[1:], level))
        reason = made.reason(best, strongest, float(low[forms.forms.index(best)]), names)
    details = [
        FormDetail(form.name, draws_pvalue(column[0], column[1:]), low=float(least))
        for form, column, least in zip(forms.forms, values.T, low, strict=True)
    ]
    shown = forms.scalar.forms if isinstance(forms, ClassForms) else forms.forms
    return CalibrationTest(
        pvalue=pvalue,
        strongest=strongest,
        null=null,
        n_bins=None,
        n_resamples=draws,
        details=tuple(details),
        n_samples=rows,
        tested=sample.rows,
        name="several forms",
        settled=settled,
        level=level,
        low_gap=float(low[: len(shown)].max()),
        reason=reason,
    )


def reason_of(strongest: str, low: float) -> str:
    """A violation with the points that it shows at least."""
    return f"{strongest}, by at least {low:.1f} points"


def class_reason(rates: Array, names: Sequence[str] | None) -> str:
    """The class whose mean prediction less its frequency, of these, is farthest from 0."""
    j = int(abs(rates).argmax())
    name = str(j) if names is None else f'"{names[j]}"'
    return f"class {name} is {100 * abs(rates[j]):.1f} points too {'high' if rates[j] > 0 else 'low'}"


def critical(drawn: Array, level: float) -> float:
    """The test rejects at p ≤ 1 − level where the observed value is larger than this one of the drawn values."""
    rank = int((1 - level) * (1 + len(drawn)) + 1e-9)
    return float(np.sort(drawn)[-min(rank, len(drawn))]) if rank else np.inf


def fold_test(sample: Sample, folds: Groups, draws: int, seed: int, level: float = 0.95) -> CalibrationTest:
    """The test of cross-validated predictions: one for each fold, joined by twice the mean of their p-values.

    Given the model of a fold its rows are fresh, but predictions of one fold depend on the labels of the others, so
    that tests of different folds depend on each other. Twice the mean p-value keeps the level under any dependence
    (Rüschendorf 1982).
    """
    number, count = folds
    parts = [sample.take(np.flatnonzero(number == f)) for f in range(count)]
    each = [omnibus_test(part, draws, seed, level=level) for part in parts]
    low = [test.low_gap * float(np.sqrt(part.rows / sample.rows)) for test, part in zip(each, parts, strict=True)]
    loudest = min(each, key=lambda test: test.pvalue)
    return replace(
        loudest,
        pvalue=min(1.0, 2 * float(np.mean([test.pvalue for test in each]))),
        null=f"in each fold, {loudest.null}",
        details=tuple(FormDetail(f"fold {f + 1}", test.pvalue) for f, test in enumerate(each)),
        n_samples=sample.rows,
        tested=sum(test.tested for test in each),
        name=f"several forms in each of {count} folds",
        folds=count,
        low_gap=max(low),
    )


def largest_pvalue(loud: Array) -> float:
    """The p-value of the observed row, the first of `combined`, among all."""
    largest = loud.max(axis=1)
    return draws_pvalue(float(largest[0]), largest[1:])


@dataclass(eq=False)
class _Made:
    """The forms of a sample, and how its outcomes are drawn: in compiled loops, as arrays, or on a GPU."""

    forms: ScalarForms | ClassForms
    first: Array
    """The observed outcomes."""
    rows: int
    draw: Callable[[int], Array]
    """So many draws of outcomes, as an array."""
    compiled: Callable[[int, int], tuple[Array, Array]]
    """Values of draws from a number on, in compiled loops."""
    done: int = 0

    @staticmethod
    def of(sample: Sample, seed: int, rng: np.random.Generator) -> _Made:
        proba, there, n = sample.distributions, not isinstance(sample.reports, HOST), sample.rows
        if proba is not None and proba.ndim == 2 and proba.shape[1] > 2:
            assert sample.labels is not None
            classes = ClassForms.of(proba, sample.weights)
            draw = _device().drawer(proba, rng) if there else partial(draw_labels, rng, proba)
            return _Made(classes, sample.labels, n, draw, partial(classes.drawn, seed))
        if proba is not None:
            assert sample.labels is not None
            u, outcome = proba if proba.ndim == 1 else proba[:, 1], sample.labels == 1
        else:
            assert sample.marks is not None
            u, outcome = sample.reports, sample.marks
        scalar = ScalarForms.of(u, sample.weights, "confidence: " if sample.wrong is not None and proba is None else "")
        chances, first = doubled(u[scalar.order]), doubled(outcome[scalar.order])
        came = _device().drawer(chances, rng) if there else lambda b: rng.random((b, n)) < chances
        return _Made(scalar, first, n, lambda b: doubled(came(b)), partial(scalar.drawn, chances, seed))

    def least(self, values: Array, loudest: float) -> Array:
        """How many points the probabilities are off at least by each form that rejects.

        By the triangle inequality: its size in points, times one less the ratio of the norm from which it rejects and
        that observed; where outcomes vary more than if calibrated the former is larger by as much. The statistic of the
        bins divides by variances, which their size does not: its norm from which it rejects is that of noise.
        """
        forms, first = self.forms.forms, self.first
        size, noise = self.forms.sizes(first)
        limit, seen = np.maximum(limits(values, forms, loudest) + noise, 0.0), values[0] + noise
        share = 1 - np.sqrt(limit * self.forms.dispersion(first) / np.maximum(seen, 1e-300))
        bins = next(j for j, form in enumerate(forms) if form.name.endswith("bins"))
        reached = self.forms.noise_in_bins(first, float(tails(forms, loudest)[bins]))
        share[bins] = 1 - np.sqrt(reached / max(self.total * size[bins] ** 2, 1e-300))
        return np.asarray(np.where(seen > limit, 100 * size * np.clip(share, SMALLEST, 1.0), 0.0))

    def reason(self, best: Form, strongest: str, low: float, names: Sequence[str] | None) -> str:
        """The strongest violation with the points that it shows."""
        if best.name != "class frequencies":
            return reason_of(strongest + ALL_CLASSES * (best.name == "temperature"), low)
        assert isinstance(self.forms, ClassForms)
        return class_reason(self.forms.class_sums(self.first) / self.total, names)

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.rows if self.forms.weights is None else self.forms.weights.sum())

    def observed(self) -> tuple[Array, Array]:
        """The statistics of the observed outcomes, (1, forms), and the signs of the signed ones."""
        values, signs = self._read(self.first[None])
        return values, signs[0]

    def drawn(self, draws: int, planned: int, progress: Callable[[float], None] | None) -> list[Array]:
        """The statistics of further draws, block by block; `progress` gets the share of the planned ones."""
        there = not isinstance(self.first, HOST)
        large = not there and self.rows * planned >= DISPATCH.compiled_draws and compiled_loops("_draws") is not None
        size = max(1, min(1 + planned // 10, _BLOCK // self.rows))  # ten blocks or more, so that progress can be shown
        if large:  # rows are prepared once for each block
            size = planned if progress is None else max(size, 1 + planned // 10)
        found = []
        for start in range(0, draws, size):
            number = min(size, draws - start)
            values = self.compiled(self.done, number)[0] if large else self._read(self.draw(number))[0]
            found.append(values)
            self.done += number
            if progress is not None:
                progress(self.done / (planned + 1))
        return found

    def _read(self, outcomes: Array) -> tuple[Array, Array]:
        values, signs = self.forms.values(outcomes)
        if isinstance(values, np.ndarray):
            return values, signs
        return np.asarray(on_cpu(values)), np.asarray(on_cpu(signs))
