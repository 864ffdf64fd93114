"""The errors as functions of labels and probabilities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, TypedDict, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import on_device
from ..core.data import as_array
from ..core.parameters import described
from ..core.properties import Binary, Classwise, Confidence, Full, Outcomes, TopLabel
from ..core.rules import DEFAULT_BINS, BinCounts, BinningRule, Exact, Ties, VectorRule
from ..core.sample import Bounds
from ..core.strategies import VECTOR_STRATEGIES, read_rule
from ..core.types import Array
from ..core.vectors import KdTree
from ..sums.errors import CalibrationError, Corrected, Norm, Scale
from .multilabel import Labelwise
from .named_errors import default_error, get_error
from .numbers import Distribution
from .ordered import Cumulative

Strategy = Literal["auto", "quantile", "uniform", "two_bin", "poisson", "exact"] | BinningRule
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
    strategy: Strategy
    corrected: Corrected


class _ConfidenceOptions(_TopOptions, total=False):
    labels: Any


class _FullOptions(_Options, total=False):
    strategy: VectorStrategy
    labels: Any


class _BinaryOptions(_Options, total=False):
    strategy: Strategy
    pos_label: Any


class _ForecastOptions(_Options, total=False):
    strategy: Strategy


class _LinearOptions(_Options, total=False):
    strategy: Strategy | Literal["kd"]
    range: Bounds | None


def _made(make: Callable[..., CalibrationError], *options: Any) -> CalibrationError:
    """The error of these options, remembered where they are plain: most calls ask for the same one again."""
    plain = all(option is None or type(option) in (str, int, bool) for option in options)
    return _remembered(make, *options) if plain else make(*options)


@lru_cache(maxsize=128, typed=True)
def _remembered(make: Callable[..., CalibrationError], *options: Any) -> CalibrationError:
    return make(*options)


def _classwise(strategy: Any, n_bins: Any, ties: Ties, norm: Norm, corrected: Corrected) -> CalibrationError:
    return CalibrationError(Classwise(), _usual_rule(strategy, n_bins, ties, norm), norm, corrected)


def _confidence(strategy: Any, n_bins: Any, ties: Ties, norm: Norm, corrected: Corrected) -> CalibrationError:
    return CalibrationError(Confidence(), _usual_rule(strategy, n_bins, ties, norm), norm, corrected)


@overload
def classwise_error(
    y_true: Any, y_proba: Any, *, n_bins: OneCount = None, **options: Unpack[_ClassOptions]
) -> float: ...
@overload
def classwise_error(y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[_ClassOptions]) -> Array: ...
@described("The error: a float, or an array for several bin counts.")
def classwise_error(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: BinCounts | None = None,
    strategy: Strategy = "auto",
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
@described("The error: a float, or an array for several bin counts.")
def confidence_error(
    y_true: Any,
    y_proba: Any,
    *,
    corrected: Corrected = "auto",
    n_bins: BinCounts | None = None,
    strategy: Strategy = "auto",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Any:
    """Confidence error, ConfCE^corr: n⁻² Σ_B (Σ_{i∈B} (c_i − z_i))² + n⁻² Σ (1 − z_i).

    c is the largest probability, z whether its class is right. norm="l1" is the usual ECE (not truthful; no
    correction). strategy "auto": quantile bins for l2, equal-width bins for l1, as ECE has them everywhere.

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
    """Squared errors: quantile bins, as many as the rows allow. l1: 15 bins of equal width, the usual ECE."""
    if isinstance(strategy, str) and strategy == "auto":
        strategy = "uniform" if norm == "l1" and ties == "auto" else "quantile"
    return read_rule(strategy, _usual_bins(strategy, n_bins, norm), ties)


def _usual_bins(strategy: Any, n_bins: BinCounts | None, norm: Norm) -> BinCounts | None:
    counted = isinstance(strategy, str) and strategy in ("quantile", "argmax", "kd")
    return DEFAULT_BINS if n_bins is None and norm == "l1" and counted else n_bins


@overload
def top_label_error(
    correct: Any, confidence: Any, *, n_bins: OneCount = None, **options: Unpack[_TopOptions]
) -> float: ...
@overload
def top_label_error(correct: Any, confidence: Any, *, n_bins: Counts, **options: Unpack[_TopOptions]) -> Array: ...
@described("The error: a float, or an array for several bin counts.")
def top_label_error(
    correct: Any,
    confidence: Any,
    *,
    corrected: Corrected = "auto",
    n_bins: BinCounts | None = None,
    strategy: Strategy = "auto",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> Any:
    """The confidence error from the correctness and the confidence of the top class.

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
@described("The error: a float, or an array for several bin counts.")
def full_error(
    y_true: Any,
    y_proba: Any,
    *,
    strategy: VectorStrategy = "argmax",
    n_bins: BinCounts | None = None,
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Any:
    """Full multiclass error: n⁻² Σ_B ||Σ_{i∈B} (p_i − e_{y_i})||² over cells of whole probability vectors.

    strategy: "argmax" (n_bins confidence quantiles within each argmax class), "kd" (median splits), "halfspace"
    (two-bin average along random directions), "exact", or a rule object.

    >>> import truecal as tc
    >>> round(tc.full_error([0, 1, 1], [[.9, .1], [.6, .4], [.2, .8]], n_bins=1), 8)
    0.06444444
    """
    rule = read_rule(strategy, _usual_bins(strategy, n_bins, norm), ties, names=VECTOR_STRATEGIES)
    metric = CalibrationError(Full(), rule, norm)
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale=scale)


@overload
def binary_error(y_true: Any, y_proba: Any, *, n_bins: OneCount = None, **options: Unpack[_BinaryOptions]) -> float: ...
@overload
def binary_error(y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[_BinaryOptions]) -> Array: ...
@described("The error: a float, or an array for several bin counts.")
def binary_error(
    y_true: Any,
    y_proba: Any,
    *,
    pos_label: Any = 1,
    n_bins: BinCounts | None = None,
    strategy: Strategy = "auto",
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
    metric = CalibrationError(Binary(pos_label), _usual_rule(strategy, n_bins, ties, norm), norm)
    return metric(y_true, y_proba, sample_weight=sample_weight, scale=scale)


@overload
def ordinal_error(y_true: Any, y_proba: Any, *, n_bins: OneCount = None, **options: Unpack[_ClassOptions]) -> float: ...
@overload
def ordinal_error(y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[_ClassOptions]) -> Array: ...
@described("The error: a float, or an array for several bin counts.")
def ordinal_error(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: BinCounts | None = None,
    strategy: Strategy = "auto",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Any:
    """The error of classes in their order: the mean over j of n⁻² Σ_B (Σ_{i∈B} (P_i(class j or below) − 1[y_i ≤ j]))².

    scale="score" is the ranked probability score (Epstein 1969) + gap².

    >>> import truecal as tc
    >>> round(tc.ordinal_error([0, 1, 2], [[.7, .2, .1], [.2, .5, .3], [.1, .2, .7]], n_bins=1), 8)
    0.00055556
    """
    metric = CalibrationError(Cumulative(), _usual_rule(strategy, n_bins, ties, norm), norm)
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale=scale)


@overload
def labelwise_error(
    y_true: Any, y_proba: Any, *, n_bins: OneCount = None, **options: Unpack[_ClassOptions]
) -> float: ...
@overload
def labelwise_error(y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[_ClassOptions]) -> Array: ...
@described(
    "The error: a float, or an array for several bin counts.",
    y_true="Which labels apply: a 0/1 table (n, k), a sparse one, or one list of labels per row.",
    y_proba="The probability of each label, (n, k), or a list of (n, 2) arrays, one per label.",
    labels="The name of each column, for lists of names.",
)
def labelwise_error(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: BinCounts | None = None,
    strategy: Strategy = "auto",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Any:
    """The error of several labels per row: the mean over labels r of n⁻² Σ_B (Σ_{i∈B} (p_i^(r) − y_i^(r)))².

    Probabilities of a row need not sum to 1. scale="score" is the mean squared error over labels + gap².

    >>> import truecal as tc
    >>> round(tc.labelwise_error([[1, 0], [1, 1], [0, 0]], [[.9, .2], [.6, .7], [.2, .1]], n_bins=1), 8)
    0.005
    >>> round(tc.labelwise_error([{0}, {0, 1}, set()], [[.9, .2], [.6, .7], [.2, .1]], n_bins=1), 8)
    0.005
    """
    metric = CalibrationError(Labelwise(), _usual_rule(strategy, n_bins, ties, norm), norm)
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale=scale)


@overload
def distribution_error(
    y_true: Any, forecast: Any, *, thresholds: Any, n_bins: OneCount = None, **options: Unpack[_ForecastOptions]
) -> float: ...
@overload
def distribution_error(
    y_true: Any, forecast: Any, *, thresholds: Any, n_bins: Counts, **options: Unpack[_ForecastOptions]
) -> Array: ...
@described(
    "The error: a float, or an array for several bin counts.",
    y_true="Outcomes, one number per row.",
)
def distribution_error(
    y_true: Any,
    forecast: Any,
    *,
    thresholds: Any,
    n_bins: BinCounts | None = None,
    strategy: Strategy = "auto",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> Any:
    """The error of distributions of a number: the mean over thresholds t of n⁻² Σ_B (Σ_{i∈B} (F_i(t) − 1[y_i ≤ t]))².

    scale="score" is CRPS + gap² for thresholds in equal steps (Matheson and Winkler 1976); the CRPS is that over the
    range of the thresholds. With unequal steps it is the mean Brier score over thresholds + gap².

    >>> import truecal as tc
    >>> forecast = tc.forecasts.normal([0., 1., 2.], [1., 1., 1.])
    >>> round(tc.distribution_error([.3, .8, 2.5], forecast, thresholds=[0., 1., 2.], n_bins=1), 6)
    0.030215
    """
    metric = CalibrationError(Distribution(thresholds), _usual_rule(strategy, n_bins, ties, norm), norm)
    return metric(y_true, forecast, sample_weight=sample_weight, scale=scale)


@overload
def linear_error(
    outcomes: Any, reports: Any, *, n_bins: OneCount = None, **options: Unpack[_LinearOptions]
) -> float: ...
@overload
def linear_error(outcomes: Any, reports: Any, *, n_bins: Counts, **options: Unpack[_LinearOptions]) -> Array: ...
@described("The error: a float, or an array for several bin counts.")
def linear_error(
    outcomes: Any,
    reports: Any,
    *,
    range: Bounds | None = None,
    n_bins: BinCounts | None = None,
    strategy: Strategy | Literal["kd"] = "auto",
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
    rule = _linear_rule(reports, strategy, n_bins, ties, norm)
    metric = CalibrationError(Outcomes(range, isinstance(rule, VectorRule)), rule, norm)
    return metric(outcomes, reports, sample_weight=sample_weight, scale=scale)


def _linear_rule(reports: Any, strategy: Any, n_bins: BinCounts | None, ties: Ties, norm: Norm) -> BinningRule:
    shape = tuple(reports.shape) if on_device(reports) else as_array(reports, "reports").shape
    vector = len(shape) == 2 and shape[1] > 1
    if strategy == "auto":
        strategy = "kd" if vector else "quantile"
    n_bins = _usual_bins(strategy, n_bins, norm)
    names: dict[str, type[BinningRule]] = {"kd": KdTree, "exact": Exact}
    return read_rule(strategy, n_bins, ties, names=names) if vector else read_rule(strategy, n_bins, ties)


class ScoreOptions(TypedDict, total=False):
    """What functions of a named error take beside the number of bins."""

    error: str | CalibrationError | None
    sample_weight: Any
    labels: Any


@overload
def score(y_true: Any, y_proba: Any, *, n_bins: OneCount = None, **options: Unpack[ScoreOptions]) -> float: ...
@overload
def score(y_true: Any, y_proba: Any, *, n_bins: Counts, **options: Unpack[ScoreOptions]) -> Array: ...
@described("The score, lower is better: a float, or an array for several bin counts.")
def score(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError | None = None,
    n_bins: BinCounts | None = None,
    sample_weight: Any = None,
    labels: Any = None,
) -> Any:
    """The score to rank models by: loss + gap², in units of the Brier score. Lower is better.

    Two classes, as one column or two: (p − y)² + gap². More classes: Brier score + the squared gaps summed over
    classes. Another `error`: its own loss + gap². The score is truthful: no predictor lowers its expected score by
    reporting anything but the true probabilities. Weights must depend on neither labels nor reports. The default
    `n_bins` depends on the numbers of rows and classes.

    >>> import truecal as tc
    >>> y, p = [0, 1, 1, 0, 1, 1, 0, 1], [.1, .8, .7, .2, .9, .6, .3, .8]
    >>> tc.score(y, p) < tc.score(y, [.5] * 8)
    True
    >>> round(tc.score(y, p) - tc.brier(y, p), 4)  # what miscalibration adds
    0.0083
    """
    metric = get_error(default_error(y_proba) if error is None else error, n_bins)
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale="score")
