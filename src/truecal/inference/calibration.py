"""calibration_test: is this predictor calibrated? Exact at every sample size, by drawing from its predictions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.arrays import HOST
from ..core.data import check_weights, shown
from ..core.parameters import described
from ..core.result import on_one_line
from ..core.rules import BinCounts, bins_text
from ..core.sample import Sample
from ..core.types import Groups
from ..kinds import TopPredictions
from ..kinds.named_errors import COMPOSED
from ..kinds.own_levels import own_levels
from ..sums.errors import CalibrationError
from .binned_sample import BinnedSample
from .calibration_result import FEWEST, CalibrationTest, FormDetail
from .checks import check_draws, check_groups, check_level, read_error, shown_bins
from .direction import NO_DIRECTION
from .gaps import agreeing, gaps_of, widest
from .joint import critical
from .label_tests import label_test, one_view
from .level_tests import OWN, own_test
from .null import (
    BERNOULLI,
    CATEGORICAL,
    POSITIVE,
    Draws,
    Sampler,
    calibrated_world,
    device_draws,
    draws_pvalue,
    simulate,
    snapped,
    standardised,
)
from .omnibus import MOST_PLANNED, fewest_draws, omnibus_test, planned_draws
from .sign_flips import cluster_test

ALONE = "no two rows share a bin, so that p = 1 whatever the outcomes are; take fewer bins"


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
    smallest, corrected by Holm's method: labels of a row may depend on each other in any way. More than 25 labels take
    more draws, so that the corrected p-value can reject.

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
        if n_bins is not None or sampler is not None:
            raise ValueError("n_bins and sampler cannot be used: labels are tested one by one, each by several forms")
        sample = sample.on_host()
        if n_resamples is None:
            draws = max(draws, fewest_draws(sample.views, level))
        given = None if labels is None else list(map(on_one_line, labels))
        names = [metric.property.view_name(j, given) for j in range(sample.views)]
        found, _ = label_test(sample, lambda _: draws, seed, names, level, clusters, metric.property.noun)
        each = [one_view(sample, j) for j in range(sample.views)]
        gaps = [gaps_of(COMPOSED["binary"], view, level, clusters, direction=False)[0] for view in each]
        found = replace(found, widest=widest(names, gaps))
    elif clusters is not None:
        found = cluster_test(
            sample, clusters, draws, seed, level, None if labels is None else list(map(on_one_line, labels))
        )
    elif error is None and n_bins is None and sampler is None:
        if n_resamples is None:
            draws = max(planned_draws(sample), math.ceil(2 / (1 - level)))
        classes = None if labels is None else [on_one_line(name) for name in labels]
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


def check_max_gap(max_gap: Any) -> float | None:
    """Return `max_gap` as a number of points, or raise."""
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
    """Return the test with the gap of a sample, and with the gap that can be tolerated."""
    if metric.binning.several:
        raise ValueError(f"max_gap needs one number of bins, got {shown(metric.binning.counts)}")
    (gap,) = gaps_of(metric, sample, level, clusters, direction)
    if test.n_resamples and test.floor <= 1 - level:
        gap = agreeing(gap, test.pvalue <= 1 - level, test.low_gap)
    word = "" if gap.direction in ("no direction", NO_DIRECTION) else gap.direction
    about: dict[str, Any] = {"gap": gap.points, "low": gap.low, "high": gap.high, "note": gap.note, "direction": word}
    return replace(test, max_gap=max_gap, **about)


def u_test(
    frozen: BinnedSample, draws: int, seed: int, sampler: Sampler | None = None, level: float = 0.95
) -> CalibrationTest:
    """The test on U of one error, at one bin count or at several together."""
    if frozen.error.norm == "l1":
        raise ValueError("calibration_test works on U, which norm='l1' errors do not have; use confidence_interval")
    simulated, null = _simulated(frozen, draws, seed, sampler)
    details, standard = _details(frozen, simulated), standardised(simulated)
    pvalue = draws_pvalue(float(standard.observed.max()), standard.drawn.max(axis=1))
    if not simulated.drawn.any() and not simulated.observed.any():
        rows, bins = frozen.sample.rows, shown_bins(frozen.error)
        return CalibrationTest(1.0, "", ALONE, bins, 0, (), rows, rows, frozen.error.symbol, level=level)
    best, low = int(np.argmax(standard.observed)), 0.0
    if pvalue <= 1 - level:
        ratio = critical(standard.drawn.max(axis=1), level) / standard.observed[best]
        low = frozen.parts[best].gap * (1 - float(np.sqrt(np.clip(ratio, 0.0, 1.0))))
    bins, rows, name = shown_bins(frozen.error), frozen.sample.rows, details[best].name
    about = (pvalue, name, null, bins, draws, details, rows, rows, frozen.error.symbol)
    return CalibrationTest(*about, level=level, low_gap=max(low, 0.0))


def _simulated(frozen: BinnedSample, draws: int, seed: int, sampler: Sampler | None) -> tuple[Draws, str]:
    """Return draws of U, and the text of the null hypothesis.

    Predictions on a GPU are drawn from and counted there, over quantile bins without weights; else on the CPU.
    """
    sample = frozen.sample
    if not isinstance(sample.reports, HOST):
        found = device_draws().simulate(frozen.error, sample, draws, seed) if sampler is None else None
        if found is not None:
            one = POSITIVE if sample.wrong is None else BERNOULLI
            return snapped(found[0], found[1], sample), CATEGORICAL if sample.reports.ndim == 2 else one
        frozen = frozen.on_host
    world = calibrated_world(frozen, sampler)
    return simulate(world, draws, seed), world.null


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
