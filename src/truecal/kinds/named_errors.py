"""Errors by name: the properties of every kind of predictions under their usual rules."""

from __future__ import annotations

from typing import Any

from ..core.averages import TwoBin
from ..core.data import as_array, shown
from ..core.parameters import described
from ..core.properties import Binary, Classwise, Confidence, Full, Outcomes, Property, TopLabel
from ..core.rules import DEFAULT_BINS, BinCounts, BinningRule, EqualWidth, Quantile
from ..core.vectors import ArgmaxQuantile
from ..sums.errors import NAMED, CalibrationError, Corrected, Decomposition, Norm
from .multilabel import Labelwise
from .numbers import Distribution
from .ordered import Cumulative
from .survival import Survival


def _named(rule: BinningRule, property: Property, norm: Norm, corrected: Corrected = "auto") -> CalibrationError:
    return CalibrationError(property, rule, norm, corrected)


COMPOSED = NAMED
"""Every named error that is composed of a property, a rule and a norm: it knows whether it is truthful and why. What
is measured without being named is in this list, and `tc.ERRORS` begins with it. Change the bins with `with_bins(m)`."""
COMPOSED |= {
    "classwise": _named(Quantile(), Classwise(), "l2"),
    "classwise_l1": _named(EqualWidth(), Classwise(), "l1"),
    "classwise_two_bin": _named(TwoBin(), Classwise(), "l2"),
    "confidence": _named(Quantile(), Confidence(), "l2"),
    "confidence_uncorrected": _named(Quantile(), Confidence(), "l2", corrected=False),
    "confidence_l1": _named(EqualWidth(), Confidence(), "l1"),
    "confidence_two_bin": _named(TwoBin(), Confidence(), "l2"),
    "full": _named(ArgmaxQuantile(), Full(), "l2"),
    "full_l1": _named(ArgmaxQuantile(DEFAULT_BINS), Full(), "l1"),
    "top_label": _named(Quantile(), TopLabel(), "l2"),
    "top_label_l1": _named(EqualWidth(), TopLabel(), "l1"),
    "binary": _named(Quantile(), Binary(), "l2"),
    "binary_l1": _named(EqualWidth(), Binary(), "l1"),
    "binary_two_bin": _named(TwoBin(), Binary(), "l2"),
    "ordinal": _named(Quantile(), Cumulative(), "l2"),
    "ordinal_l1": _named(EqualWidth(), Cumulative(), "l1"),
    "labelwise": _named(Quantile(), Labelwise(), "l2"),
    "labelwise_l1": _named(EqualWidth(), Labelwise(), "l1"),
    "distribution": _named(Quantile(), Distribution(), "l2"),
    "survival": _named(Quantile(), Survival(), "l2"),
    "linear": _named(Quantile(), Outcomes(), "l2"),
    "linear_l1": _named(Quantile(DEFAULT_BINS), Outcomes(), "l1"),
}


def default_error(y_proba: Any, *, of_gap: bool = False) -> str:
    """What is measured where no error is named: two classes, as one column or two, by the positive one; more classes
    each by its own column, and their gap by the confidence."""
    shape = tuple(y_proba.shape) if hasattr(y_proba, "shape") else as_array(y_proba, "y_proba").shape
    if len(shape) < 2 or shape[1] <= 2:
        return "binary"
    return "confidence" if of_gap else "classwise"


def get_error(error: str | CalibrationError, n_bins: BinCounts | None = None) -> CalibrationError:
    """An error by name or as itself, at the given bin count(s) if any."""
    if isinstance(error, str):
        if error not in COMPOSED:
            raise ValueError(
                f"error must be one of {', '.join(map(repr, COMPOSED))} or a CalibrationError, got {shown(error)}"
            )
        error = COMPOSED[error]
    if not isinstance(error, CalibrationError):
        raise TypeError(f"error must be a name in ERRORS or a CalibrationError, got {shown(error)}")
    return error if n_bins is None else error.with_bins(n_bins)


@described("A Decomposition: error, loss, U, gap and score.")
def decompose(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError | None = None,
    n_bins: BinCounts | None = None,
    sample_weight: Any = None,
    labels: Any = None,
) -> Decomposition:
    """The two parts of a squared error: n·error = loss + U, U = n⁻¹ Σ_{i≠j} G_ij ⟨r_i, r_j⟩.

    error: "binary" for two classes and "classwise" for more, unless told.

    >>> import truecal as tc
    >>> parts = tc.decompose([0, 1, 1], [.1, .4, .8], error="binary", n_bins=2)
    >>> abs(parts.loss + parts.U - 3 * parts.error) < 1e-12
    True
    """
    metric = get_error(default_error(y_proba) if error is None else error, n_bins)
    return metric.decompose(y_true, y_proba, sample_weight=sample_weight, labels=labels)
