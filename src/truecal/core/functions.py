"""The errors as functions of labels and probabilities, with the bins as you like them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ..backends import on_device
from .data import as_array
from .errors import CalibrationError, Corrected, Norm, Scale, get_error
from .properties import Binary, Classwise, Confidence, Full, Outcomes, TopLabel
from .rules import VECTOR_STRATEGIES, BinCounts, BinningRule, Exact, KdTree, Ties, VectorRule, read_rule
from .sample import Bounds
from .types import Array

Strategy = Literal["quantile", "uniform", "two_bin", "poisson", "exact"] | BinningRule
VectorStrategy = Literal["argmax", "kd", "halfspace", "exact"] | BinningRule
OneCount = int | Literal["auto"] | None
"""An n_bins that gives one number; a sequence of counts gives an array."""
Counts = Sequence[int] | NDArray[np.integer[Any]]


class _Options(TypedDict, total=False):
    """What every function takes."""

    norm: Norm
    scale: Scale
    ties: Ties
    sample_weight: Any


class _ClassOptions(_Options, total=False):
    strategy: Strategy
    labels: Any


class _TopOptions(_Options, total=False):
    strategy: Strategy | Literal["auto"]
    corrected: Corrected


class _ConfidenceOptions(_TopOptions, total=False):
    labels: Any


class _FullOptions(_Options, total=False):
    cells: VectorStrategy
    labels: Any


class _BinaryOptions(_Options, total=False):
    strategy: Strategy
    pos_label: Any


class _LinearOptions(_Options, total=False):
    strategy: Strategy | Literal["auto", "kd"]
    range: Bounds | None


def _made(make: Callable[..., CalibrationError], *options: Any) -> CalibrationError:
    """The error of these options, remembered where they are plain: most calls ask for the same one again."""
    plain = all(option is None or type(option) in (str, int, bool) for option in options)
    return _remembered(make, *options) if plain else make(*options)


@lru_cache(maxsize=128, typed=True)
def _remembered(make: Callable[..., CalibrationError], *options: Any) -> CalibrationError:
    return make(*options)


def _classwise(strategy: Any, n_bins: Any, ties: Ties, norm: Norm, corrected: Corrected) -> CalibrationError:
    return CalibrationError(Classwise(), read_rule(strategy, n_bins, ties), norm, corrected)


def _confidence(strategy: Any, n_bins: Any, ties: Ties, norm: Norm, corrected: Corrected) -> CalibrationError:
    return CalibrationError(Confidence(), _usual_rule(strategy, n_bins, ties, norm), norm, corrected)


@overload
def classwise_error(
    y_true: Any, y_proba: Any, *, n_bins: OneCount = None, **options: Unpack[_ClassOptions]
) -> float: ...
@overload
def classwise_error(y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[_ClassOptions]) -> Array: ...
def classwise_error(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: BinCounts | None = None,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Any:
    """Classwise error, LinCE^cw: the mean over classes r of n⁻² Σ_B (Σ_{i∈B} (p_i^(r) − 1[y_i = r]))².

    Truthful for norm="l2"; arXiv 2510.06388, section 3.

    >>> import truecal as tc
    >>> round(tc.classwise_error([0, 1, 1], [[.9, .1], [.6, .4], [.2, .8]], n_bins=2), 8)
    0.05222222
    """
    metric = _made(_classwise, strategy, n_bins, ties, norm, "auto")
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale=scale)


@overload
def confidence_error(
    y_true: Any, y_proba: Any, *, n_bins: OneCount = None, **options: Unpack[_ConfidenceOptions]
) -> float: ...
@overload
def confidence_error(y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[_ConfidenceOptions]) -> Array: ...
def confidence_error(
    y_true: Any,
    y_proba: Any,
    *,
    corrected: Corrected = "auto",
    n_bins: BinCounts | None = None,
    strategy: Strategy | Literal["auto"] = "auto",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Any:
    """Confidence error, ConfCE^corr: n⁻² Σ_B (Σ_{i∈B} (c_i − z_i))² + n⁻² Σ (1 − z_i).

    c is the largest probability, z whether its class came. norm="l1" is the usual ECE (not truthful; no correction).
    strategy "auto": quantile bins for l2, equal-width bins for l1, as ECE has them everywhere.

    >>> import truecal as tc
    >>> proba = [[.6, .4], [.3, .7], [.8, .2], [.9, .1]]
    >>> round(tc.confidence_error([0, 1, 1, 0], proba, n_bins=2), 6)
    0.12375
    >>> round(tc.confidence_error([0, 1, 1, 0], proba, n_bins=10, norm="l1"), 6)
    0.4
    """
    metric = _made(_confidence, strategy, n_bins, ties, norm, corrected)
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale=scale)


def _usual_rule(strategy: Any, n_bins: BinCounts | None, ties: Ties, norm: Norm) -> BinningRule:
    """Quantile bins for squared errors of the confidence, and the equal widths that everybody's ECE has."""
    if strategy == "auto":
        strategy = "uniform" if norm == "l1" and ties == "auto" else "quantile"
    return read_rule(strategy, n_bins, ties)


@overload
def top_label_error(
    correct: Any, confidence: Any, *, n_bins: OneCount = None, **options: Unpack[_TopOptions]
) -> float: ...
@overload
def top_label_error(correct: Any, confidence: Any, *, n_bins: Counts, **options: Unpack[_TopOptions]) -> Array: ...
def top_label_error(
    correct: Any,
    confidence: Any,
    *,
    corrected: Corrected = "auto",
    n_bins: BinCounts | None = None,
    strategy: Strategy | Literal["auto"] = "auto",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> Any:
    """The confidence error for those who only have whether the top class was correct, and its confidence.

    >>> import truecal as tc
    >>> round(tc.top_label_error([1, 1, 0, 1], [.6, .7, .8, .9], n_bins=2), 6)
    0.12375
    """
    metric = CalibrationError(TopLabel(), _usual_rule(strategy, n_bins, ties, norm), norm, corrected)
    return metric(correct, confidence, sample_weight=sample_weight, scale=scale)


@overload
def full_error(y_true: Any, y_proba: Any, *, n_bins: OneCount = None, **options: Unpack[_FullOptions]) -> float: ...
@overload
def full_error(y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[_FullOptions]) -> Array: ...
def full_error(
    y_true: Any,
    y_proba: Any,
    *,
    cells: VectorStrategy = "argmax",
    n_bins: BinCounts | None = None,
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Any:
    """Full multiclass error: n⁻² Σ_B ||Σ_{i∈B} (p_i − e_{y_i})||² over cells of whole probability vectors.

    cells: "argmax" (n_bins confidence quantiles within each argmax class), "kd" (median splits), "halfspace" (two-bin
    average along random directions), "exact", or a rule object.

    >>> import truecal as tc
    >>> round(tc.full_error([0, 1, 1], [[.9, .1], [.6, .4], [.2, .8]], n_bins=1), 8)
    0.06444444
    """
    metric = CalibrationError(Full(), read_rule(cells, n_bins, ties, name="cells", names=VECTOR_STRATEGIES), norm)
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale=scale)


@overload
def binary_error(y_true: Any, y_prob: Any, *, n_bins: OneCount = None, **options: Unpack[_BinaryOptions]) -> float: ...
@overload
def binary_error(y_true: Any, y_prob: Any, *, n_bins: Counts, **options: Unpack[_BinaryOptions]) -> Array: ...
def binary_error(
    y_true: Any,
    y_prob: Any,
    *,
    pos_label: Any = 1,
    n_bins: BinCounts | None = None,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> Any:
    """Binary error: n⁻² Σ_B (Σ_{i∈B} (u_i − y_i))² with u_i the probability of the positive class.

    >>> import truecal as tc
    >>> round(tc.binary_error([0, 1, 1], [.1, .4, .8], n_bins=2), 8)
    0.07222222
    """
    metric = CalibrationError(Binary(pos_label), read_rule(strategy, n_bins, ties), norm)
    return metric(y_true, y_prob, sample_weight=sample_weight, scale=scale)


@overload
def linear_error(
    outcomes: Any, reports: Any, *, n_bins: OneCount = None, **options: Unpack[_LinearOptions]
) -> float: ...
@overload
def linear_error(outcomes: Any, reports: Any, *, n_bins: Counts, **options: Unpack[_LinearOptions]) -> Array: ...
def linear_error(
    outcomes: Any,
    reports: Any,
    *,
    range: Bounds | None = None,
    n_bins: BinCounts | None = None,
    strategy: Strategy | Literal["auto", "kd"] = "auto",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> Any:
    """The error of any linear property: outcome values φ(y_i) and reports about their expectation, (n,) or (n, d).

    strategy "auto": quantile bins for scalars, "kd" for vectors. "uniform" and "two_bin" need range=(low, high).

    >>> import truecal as tc
    >>> round(tc.linear_error([2.0, 5.0, 3.0], [2.5, 4.0, 3.5], n_bins=1), 6)
    0.0
    """
    rule = _linear_rule(reports, strategy, n_bins, ties)
    metric = CalibrationError(Outcomes(range, isinstance(rule, VectorRule)), rule, norm)
    return metric(outcomes, reports, sample_weight=sample_weight, scale=scale)


def _linear_rule(reports: Any, strategy: Any, n_bins: BinCounts | None, ties: Ties) -> BinningRule:
    shape = tuple(reports.shape) if on_device(reports) else as_array(reports, "reports").shape
    vector = len(shape) == 2 and shape[1] > 1
    if strategy == "auto":
        strategy = "kd" if vector else "quantile"
    names: dict[str, type[BinningRule]] = {"kd": KdTree, "exact": Exact}
    return read_rule(strategy, n_bins, ties, names=names) if vector else read_rule(strategy, n_bins, ties)


class ScoreOptions(TypedDict, total=False):
    """What functions of a named error take beside the number of bins."""

    error: str | CalibrationError
    sample_weight: Any
    labels: Any


@overload
def score(y_true: Any, y_proba: Any, *, n_bins: OneCount = "auto", **options: Unpack[ScoreOptions]) -> float: ...
@overload
def score(y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[ScoreOptions]) -> Array: ...
def score(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "confidence",
    n_bins: BinCounts | None = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Any:
    """What to rank models by: loss + λU, λ = min(1, m/n), about loss + gap² at every number of bins. Lower is better.

    Truthful: no predictor lowers its expected score by reporting anything but the true probabilities, with weights too
    as long as those depend on neither labels nor reports. A rule without bins ignores n_bins="auto".

    >>> import truecal as tc
    >>> y = [0, 1, 1, 0, 1, 1, 0, 1]
    >>> tc.score(y, [.1, .8, .7, .2, .9, .6, .3, .8], error="binary") < tc.score(y, [.5] * 8, error="binary")
    True
    """
    metric = get_error(error, None)
    if n_bins is not None and (n_bins != "auto" or metric.binning.has_counts):
        metric = metric.with_bins(n_bins)
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale="score")
