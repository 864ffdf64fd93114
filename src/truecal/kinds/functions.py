"""The errors as functions of labels and probabilities: a property, with its rule and norm by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, final, overload

import numpy as np
from numpy.typing import NDArray

from ..core.arrays import on_device
from ..core.data import as_array
from ..core.frames import refuse_reordered
from ..core.parameters import described, described_text
from ..core.properties import Binary, Classwise, Confidence, Full, Outcomes, Property, TopLabel
from ..core.rules import DEFAULT_BINS, BinningRule, Exact, VectorRule
from ..core.sample import Bounds
from ..core.strategies import SCALAR_STRATEGIES, VECTOR_STRATEGIES, read_rule
from ..core.torch_compile import outside_torch_compile
from ..core.types import Array
from ..core.vectors import KdTree
from ..sums.errors import CalibrationError
from .multilabel import Labelwise
from .named_errors import default_error, get_error
from .numbers import Distribution
from .ordered import Cumulative

OneCount = int | Literal["auto"] | None
"""An n_bins that gives one number; a sequence of counts gives an array."""
Counts = Sequence[int] | NDArray[np.integer[Any]]
Strategies = dict[str, type[BinningRule]]
_COUNTED = ("quantile", "argmax", "kd")
_SHARED = {"n_bins": None, "strategy": "auto", "norm": "l2", "scale": "raw", "ties": "auto", "sample_weight": None}


@final
class ErrorFunction:
    """A named error as a function: error(y_true, y_proba, *, n_bins=None, strategy="auto", norm="l2", ...).

    `make` gives the property; its parameters are further options. `data` names the two arrays, `more` are options with
    their defaults, `vectors` the strategies for vector reports, and `words` what parameters mean where that is not
    usual.
    """

    def __init__(
        self,
        make: Callable[..., Property],
        *,
        data: tuple[str, str] = ("y_true", "y_proba"),
        more: Sequence[str] = (),
        vectors: Strategies | None = None,
        words: Mapping[str, str] | None = None,
    ) -> None:
        self._make, self._data, self._vectors = make, data, vectors
        self._own = inspect.signature(make).parameters
        extra = {"corrected": "auto", "labels": None}
        options = {name: each.default for name, each in self._own.items()} | _SHARED | {x: extra[x] for x in more}
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in data]
        parameters += [inspect.Parameter(x, inspect.Parameter.KEYWORD_ONLY, default=y) for x, y in options.items()]
        self.__signature__ = inspect.Signature(parameters)
        self.__name__, self.__qualname__, self.__module__ = make.__name__, make.__name__, make.__module__
        returns = "The error: a float, or an array for several bin counts."
        self.__doc__ = described_text(make.__doc__ or "", self.__signature__.parameters, returns, words)

    def __repr__(self) -> str:
        return f"<error function {self.__name__}>"

    def __reduce__(self) -> str:
        return self.__name__  # by its name in this module, so that other processes find the same function

    @overload
    def __call__(self, *data: Any, n_bins: OneCount = None, **options: Any) -> float: ...
    @overload
    def __call__(self, *data: Any, n_bins: Counts, **options: Any) -> Array: ...
    @outside_torch_compile
    def __call__(self, *data: Any, **options: Any) -> Any:
        try:
            bound = self.__signature__.bind(*data, **options)
        except TypeError as problem:
            raise TypeError(f"{self.__name__}() {problem}") from None
        bound.apply_defaults()
        given = bound.arguments
        refuse_reordered(**given)
        first, second = (given.pop(name) for name in self._data)
        about = {name: given.pop(name) for name in ("sample_weight", "scale", "labels") if name in given}
        wide = self._vectors is not None and _is_wide(second)
        plain = all(option is None or type(option) in (str, int, bool) for option in given.values())
        error = _remembered(self, wide, **given) if plain else self.error(wide, **given)
        return error(first, second, **about)

    def error(
        self, wide: bool, *, strategy: Any, n_bins: Any, ties: Any, norm: Any, corrected: Any = "auto", **own: Any
    ) -> CalibrationError:
        """The error of these options: l1 errors of one probability have 15 bins of equal width, the usual ECE."""
        property = self._make(**own)
        vector = self._vectors is not None and (wide or property.vector)
        names = self._vectors if vector and self._vectors is not None else SCALAR_STRATEGIES
        if isinstance(strategy, str) and strategy == "auto":
            usual = norm == "l1" and ties == "auto" and not vector and not isinstance(property, Outcomes)
            strategy = "uniform" if usual else next(iter(names))
        if n_bins is None and norm == "l1" and isinstance(strategy, str) and strategy in _COUNTED:
            n_bins = DEFAULT_BINS
        rule = read_rule(strategy, n_bins, ties, names=names)
        if isinstance(property, Outcomes):
            property = replace(property, vector_valued=isinstance(rule, VectorRule))
        return CalibrationError(property, rule, norm, corrected)


@lru_cache(maxsize=128, typed=True)
def _remembered(function: ErrorFunction, wide: bool, **given: Any) -> CalibrationError:
    """The error of plain options, cached."""
    return function.error(wide, **given)


def _is_wide(reports: Any) -> bool:
    shape = reports.shape if on_device(reports) else as_array(reports, "reports").shape
    return len(shape) == 2 and shape[1] > 1


def error_function(**about: Any) -> Callable[[Callable[..., Property]], ErrorFunction]:
    """Make an `ErrorFunction` of a function that gives its property."""
    return lambda make: ErrorFunction(make, **about)


@error_function(more=["labels"])
def classwise_error() -> Property:
    """Classwise error, LinCE^cw: the mean over classes r of n⁻² Σ_B (Σ_{i∈B} (p_i^(r) − 1[y_i = r]))².

    Truthful for norm="l2"; arXiv 2510.06388, section 3.

    >>> import truecal as tc
    >>> round(tc.classwise_error([0, 1, 1], [[.9, .1], [.6, .4], [.2, .8]], n_bins=2), 8)
    0.05222222
    """
    return Classwise()


@error_function(more=["corrected", "labels"])
def confidence_error() -> Property:
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
    return Confidence()


@error_function(data=("correct", "confidence"), more=["corrected"])
def top_label_error() -> Property:
    """The confidence error from the correctness and the confidence of the top class.

    >>> import truecal as tc
    >>> round(tc.top_label_error([1, 1, 0, 1], [.6, .7, .8, .9], n_bins=2), 6)
    0.12375
    """
    return TopLabel()


@error_function(more=["labels"], vectors=VECTOR_STRATEGIES)
def full_error() -> Property:
    """Full multiclass error: n⁻² Σ_B ||Σ_{i∈B} (p_i − e_{y_i})||² over cells of whole probability vectors.

    strategy: "argmax" (n_bins confidence quantiles within each argmax class), "kd" (median splits), "exact",
    or a rule object.

    >>> import truecal as tc
    >>> round(tc.full_error([0, 1, 1], [[.9, .1], [.6, .4], [.2, .8]], n_bins=1), 8)
    0.06444444
    """
    return Full()


@error_function()
def binary_error(*, pos_label: Any = 1) -> Property:
    """Binary error: n⁻² Σ_B (Σ_{i∈B} (u_i − y_i))² with u_i the probability of the positive class.

    >>> import truecal as tc
    >>> round(tc.binary_error([0, 1, 1], [.1, .4, .8], n_bins=2), 8)
    0.07222222
    """
    return Binary(pos_label)


@error_function(more=["labels"])
def ordinal_error() -> Property:
    """The error of classes in their order: the mean over j of n⁻² Σ_B (Σ_{i∈B} (P_i(class j or below) − 1[y_i ≤ j]))².

    scale="score" is the ranked probability score (Epstein 1969) + gap².

    >>> import truecal as tc
    >>> round(tc.ordinal_error([0, 1, 2], [[.7, .2, .1], [.2, .5, .3], [.1, .2, .7]], n_bins=1), 8)
    0.00055556
    """
    return Cumulative()


@error_function(
    more=["labels"],
    words={
        "y_true": "Which labels apply: a 0/1 table (n, k), a sparse one, or one list of labels per row.",
        "y_proba": "The probability of each label, (n, k), or a list of (n, 2) arrays, one per label.",
        "labels": "The name of each column, for lists of names.",
    },
)
def labelwise_error() -> Property:
    """The error of several labels per row: the mean over labels r of n⁻² Σ_B (Σ_{i∈B} (p_i^(r) − y_i^(r)))².

    Probabilities of a row need not sum to 1. scale="score" is the mean squared error over labels + gap².

    >>> import truecal as tc
    >>> round(tc.labelwise_error([[1, 0], [1, 1], [0, 0]], [[.9, .2], [.6, .7], [.2, .1]], n_bins=1), 8)
    0.005
    >>> round(tc.labelwise_error([{0}, {0, 1}, set()], [[.9, .2], [.6, .7], [.2, .1]], n_bins=1), 8)
    0.005
    """
    return Labelwise()


@error_function(data=("y_true", "forecast"), words={"y_true": "Outcomes, one number per row."})
def distribution_error(*, thresholds: Any) -> Property:
    """The error of distributions of a number: the mean over thresholds t of n⁻² Σ_B (Σ_{i∈B} (F_i(t) − 1[y_i ≤ t]))².

    scale="score" is CRPS + gap² for thresholds in equal steps (Matheson and Winkler 1976); the CRPS is that over the
    range of the thresholds. With unequal steps it is the mean Brier score over thresholds + gap².

    >>> import truecal as tc
    >>> forecast = tc.forecasts.normal([0., 1., 2.], [1., 1., 1.])
    >>> round(tc.distribution_error([.3, .8, 2.5], forecast, thresholds=[0., 1., 2.], n_bins=1), 6)
    0.030215
    """
    return Distribution(thresholds)


@error_function(data=("outcomes", "reports"), vectors={"kd": KdTree, "exact": Exact})
def linear_error(*, range: Bounds | None = None) -> Property:
    """The error of any linear property: outcome values φ(y_i) and reports about their expectation, (n,) or (n, d).

    strategy "auto": quantile bins for scalars, "kd" for vectors. "uniform" and "two_bin" need range=(low, high).

    >>> import truecal as tc
    >>> round(tc.linear_error([2.0, 5.0, 3.0], [2.5, 4.0, 3.5], n_bins=1), 6)
    0.0
    """
    return Outcomes(range)


@described("The score, lower is better.")
def score(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError | None = None,
    sample_weight: Any = None,
    labels: Any = None,
) -> float:
    """The Brier score in which miscalibration counts twice: loss + gap², without bins. Lower is better.

    gap² is that of the two sides of a cut, averaged over all cuts by rank. Two classes, as one column or two:
    (p − y)² + gap². More classes: Brier score + the squared gaps summed over classes. Another `error`: its own loss +
    gap². The score is truthful: no predictor lowers its expected score by reporting anything but the true
    probabilities. Weights must depend on neither labels nor reports. To choose a model, take the Brier score, which
    picks the better one more often.

    >>> import truecal as tc
    >>> y, p = [0, 1, 1, 0, 1, 1, 0, 1], [.1, .8, .7, .2, .9, .6, .3, .8]
    >>> tc.score(y, p) < tc.score(y, [.5] * 8)
    True
    >>> round(tc.score(y, p) - tc.brier(y, p), 4)  # what miscalibration adds
    0.0074
    """
    metric = get_error(default_error(y_proba) if error is None else error)
    value: float = metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale="score")
    return value
