"""Measures over bins: ECE and its variants (classwise, adaptive, thresholded, largest, debiased, swept)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import HOST, on_device, top_class_and_value
from ..core.data import as_array, check_positive_int, shown
from ..core.parameters import described
from ..core.properties import Binary, Classwise, Confidence, Outcomes
from ..core.rules import MOST_BINS, BinningRule, Quantile
from ..core.sample import Sample
from ..core.strategies import read_rule
from ..core.table import BinTable
from ..core.types import Array
from ..sums.errors import CalibrationError
from ..sums.tabulate import whole_tables
from .baseline import SCALAR, Baseline

_POOLING = "absolute bin sums reward pooling: a coarser prediction hides its noise in fewer bins"


@described("The error.")
def ece(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int = 15,
    strategy: str = "uniform",
    pos_label: Any = 1,
    sample_weight: Any = None,
    labels: Any = None,
) -> float:
    """The usual expected calibration error: Σ_B (n_B/n) |mean prediction − mean outcome| over bins.

    Of the positive class for two classes, given as (n,) or (n, 2) probabilities, and of the confidence in the top class
    for more. strategy: "uniform" (bins of equal width) or "quantile" (of equal mass). Not truthful: rank models by
    `tc.score`. Guo et al. 2017, arXiv 1706.04599.

    >>> import truecal as tc
    >>> round(tc.ece([0, 2, 1], [[.6, .3, .1], [.3, .1, .6], [.5, .3, .2]], n_bins=10), 6)
    0.433333
    >>> round(tc.ece([0, 1, 1], [.1, .4, .8]), 6), round(tc.ece([0, 1, 1], [[.9, .1], [.6, .4], [.2, .8]]), 6)
    (0.3, 0.3)
    """
    proba = y_proba if on_device(y_proba) else as_array(y_proba, "y_proba")
    property = Binary(pos_label) if proba.shape[1:] in ((), (2,)) else Confidence()
    sample = property.read(y_true, proba, sample_weight=sample_weight, labels=labels)
    return absolute(sample, n_bins=n_bins, strategy=strategy)


def one_rule(strategy: Any, n_bins: Any) -> BinningRule:
    """Return the rule at one number of bins; "auto", or None for the number of the rule, are allowed."""
    if n_bins is not None and n_bins != "auto":
        n_bins = check_positive_int(n_bins, "n_bins", MOST_BINS)
    return read_rule(strategy, n_bins, "auto")


def absolute(sample: Sample, *, n_bins: Any, strategy: Any) -> float:
    """Σ_B |Σ_{i∈B} r_i| / n, averaged over classes where there are several: a composed l1 error."""
    return float(CalibrationError(Outcomes(), one_rule(strategy, n_bins), "l1").of(sample)[0])


def thresholded(sample: Sample, *, n_bins: Any, threshold: Any) -> float:
    """The adaptive error of each class over the rows that give it more than the threshold, averaged over classes."""
    if not isinstance(threshold, (int, float)) or not 0 <= threshold < 1:
        raise ValueError(f"threshold must be at least 0 and below 1, got {shown(threshold)}")
    total = 0.0
    sample = sample.on_host()
    for j in range(sample.views):
        u = sample.view(j).astype(np.float64)
        kept = u > threshold
        if kept.any():
            weights = None if sample.weights is None else sample.weights[kept]
            part = Sample("linear", u[kept], values=sample.outcome(slice(j, j + 1))[0][kept], weights=weights)
            total += absolute(part, n_bins=n_bins, strategy="quantile") if part.total_weight > 0 else 0.0
    return total / sample.views


def _table(sample: Sample, n_bins: Any, strategy: Any) -> BinTable:
    """The table of an l1 error: equal predictions stay together."""
    error = CalibrationError(Outcomes(), one_rule(strategy, n_bins), "l1")
    return whole_tables(sample, error.binning, error.ties)[0]


def largest(sample: Sample, *, n_bins: Any, strategy: Any) -> float:
    """max_B |mean prediction − mean outcome| over bins that are not empty."""
    table = _table(sample, n_bins, strategy)
    gap = np.divide(np.abs(table.residual), table.count, out=np.zeros_like(table.count), where=table.count > 0)
    return float(gap.max(axis=1).mean())


def debiased(sample: Sample, *, n_bins: Any, strategy: Any) -> float:
    """Σ_B (n_B/n) [(mean prediction − ȳ_B)² − ȳ_B(1 − ȳ_B)/(n_B − 1)] over bins of two rows or more."""
    table = _table(sample, n_bins, strategy)
    several = table.count > 1
    n, rate = np.where(several, table.count, 2.0), table.mean_outcome
    squares = (table.residual / n) ** 2 - rate * (1 - rate) / (n - 1)
    return float(np.where(several, n * np.where(several, squares, 0.0), 0.0).sum() / sample.rows / sample.views)


def within_top_class(sample: Sample, *, n_bins: Any, strategy: Any) -> float:
    """The ECE of the rows of each predicted class, weighted by their share."""
    assert sample.distributions is not None  # of Confidence, which alone is taken
    top = top_class_and_value(sample.distributions)[0]
    if not isinstance(top, HOST):
        top, sample = top.cpu().numpy(), sample.on_host()
    parts = [sample.take(top == r) for r in np.unique(top)]
    counted = [part for part in parts if part.total_weight > 0]
    errors = [part.total_weight * absolute(part, n_bins=n_bins, strategy=strategy) for part in counted]
    return float(sum(errors) / sample.total_weight)


def swept(sample: Sample, *, norm: Any) -> float:
    """The equal-mass error at the largest number of bins up to which the mean outcomes of bins never fall."""
    if norm not in ("l1", "l2"):
        raise ValueError(f"norm must be 'l1' or 'l2', got {shown(norm)}")
    gap, weight = _last_monotone(sample)
    if norm == "l1":
        return float((weight * gap).sum() / weight.sum())
    return float(np.sqrt((weight * gap**2).sum() / weight.sum()))


def _last_monotone(sample: Sample) -> tuple[Array, Array]:
    """|gap| and weight of the bins at the last count before mean outcomes fall from one bin to the next."""
    last, count, step = None, 1, 8
    while count <= sample.rows:
        counts = tuple(range(count, min(count + step, sample.rows + 1)))
        for table in whole_tables(sample, Quantile(counts), "together"):
            filled = table.count[0] > 0
            rate = table.mean_outcome[0, filled]
            if last is not None and (np.diff(rate) < 0).any():
                return last
            weight = table.count[0, filled]
            last = np.abs(table.residual[0, filled]) / weight, weight
        count, step = counts[-1] + 1, 2 * step
    assert last is not None  # one bin never falls
    return last


_BINS = (("n_bins", 15), ("strategy", "uniform"))
_MASS = (("n_bins", 15), ("strategy", "quantile"))

BINNED = (
    Baseline(
        "ece",
        "ECE",
        Confidence(),
        definition="Σ_B (n_B/n) |mean confidence − accuracy| over 15 bins of equal width",
        reference="Naeini, Cooper, Hauskrecht 2015 (AAAI); Guo et al. 2017, arXiv 1706.04599",
        reason=_POOLING,
        compute=absolute,
        settings=_BINS,
    ),
    Baseline(
        "ece_equal_mass",
        "ECE, equal mass",
        Confidence(),
        definition=(
            "Σ_B (n_B/n) |mean confidence − accuracy| over 15 bins of equal numbers of rows, equal confidences together"
        ),
        reference="Nguyen, O'Connor 2015, arXiv 1508.05154",
        reason=_POOLING,
        compute=absolute,
        settings=_MASS,
    ),
    Baseline(
        "sce",
        "Classwise ECE (SCE)",
        Classwise(),
        definition=(
            "the mean over classes of Σ_B (n_B/n) |mean probability − class frequency| over 15 bins of equal width"
        ),
        reference="Nixon et al. 2019, arXiv 1904.01685; Kull et al. 2019, arXiv 1910.12656",
        reason=_POOLING,
        compute=absolute,
        settings=_BINS,
        takes=(Classwise,),
    ),
    Baseline(
        "ace",
        "ACE",
        Classwise(),
        definition=(
            "the mean over classes and over 15 ranges of equal numbers of rows of |mean probability − class "
            "frequency|; ranges count by their rows, which are n/15 where 15 divides n"
        ),
        reference="Nixon et al. 2019, arXiv 1904.01685",
        reason=_POOLING,
        compute=absolute,
        settings=_MASS,
        takes=(Classwise,),
    ),
    Baseline(
        "tace",
        "TACE",
        Classwise(),
        definition=(
            "ACE of each class over the rows that give it more than 0.01 (0 where there are none), averaged over "
            "classes"
        ),
        reference="Nixon et al. 2019, arXiv 1904.01685",
        reason=(
            "rows below the threshold are ignored, so pushing predictions there hides them; it rewards pooling as ACE "
            "does"
        ),
        compute=thresholded,
        settings=(("n_bins", 15), ("threshold", 0.01)),
        takes=(Classwise,),
    ),
    Baseline(
        "mce",
        "Maximum calibration error",
        Confidence(),
        definition="max_B |mean confidence − accuracy| over the bins of 15 of equal width that are not empty",
        reference="Naeini, Cooper, Hauskrecht 2015 (AAAI)",
        reason="a maximum over bins rewards pooling: one large bin has little noise, a bin of one row has much",
        compute=largest,
        settings=_BINS,
    ),
    Baseline(
        "debiased_squared",
        "Debiased squared error",
        Confidence(),
        definition=(
            "Σ_B (n_B/n) [(mean confidence − ȳ_B)² − ȳ_B(1 − ȳ_B)/(n_B − 1)], ȳ_B the accuracy, over 15 bins of equal "
            "mass with two rows or more"
        ),
        reference="Kumar, Liang, Ma 2019, arXiv 1909.10155",
        reason=(
            "the subtracted term depends on the bins of the predictions, and opposite biases in one "
            "bin make it negative"
        ),
        compute=debiased,
        settings=_MASS,
        weighted=False,
    ),
    Baseline(
        "top_label_ece",
        "Top-label ECE",
        Confidence(),
        definition="ECE over 15 bins of equal width within the rows of each predicted class, weighted by their share",
        reference="Gupta, Ramdas 2021, arXiv 2107.08353",
        reason=_POOLING,
        compute=within_top_class,
        settings=_BINS,
        takes=(Confidence,),
    ),
    Baseline(
        "ece_sweep",
        "ECE-sweep",
        Confidence(),
        definition=(
            "(Σ_B (n_B/n) |mean confidence − accuracy|²)^½ over b bins of equal mass, b the largest count such that "
            "at every count up to b the accuracies of the bins never fall"
        ),
        reference="Roelofs et al. 2022, arXiv 2012.08668",
        reason="the number of bins is chosen by the labels, a root is taken, and bins are weighted by their size",
        compute=swept,
        settings=(("norm", "l2"),),
        takes=tuple(kind for kind in SCALAR if kind is not Classwise),
    ),
)
