"""Calibration errors: the composable CalibrationError, its special cases by name, and n·CAL = loss + U."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from .data import as_array
from .properties import Binary, Classwise, Confidence, Full, Linear, Outcomes, Property, Sample, TopLabel
from .rules import (
    VECTOR_STRATEGIES,
    ArgmaxQuantile,
    AveragedRule,
    BinningRule,
    Bounds,
    EqualWidth,
    Exact,
    Halfspaces,
    KdTree,
    Quantile,
    Ties,
    TwoBin,
    VectorRule,
    read_bins,
    read_rule,
)
from .table import BinTable, full_tables, map_tables, resolve_ties

Array = NDArray[Any]
Norm = Literal["l1", "l2"]
Scale = Literal["raw", "loss", "bins"]
Corrected = Literal["auto"] | bool
Strategy = Literal["quantile", "uniform", "two_bin", "poisson", "exact"] | BinningRule
VectorStrategy = Literal["argmax", "kd", "halfspace", "exact"] | BinningRule


@dataclass(frozen=True)
class CalibrationError:
    """A property, a binning rule and a norm: everything a calibration error is made of.

    l1: Σ_B |Σ_{i∈B} r_i| / n, the usual ECE. l2: Σ_B |Σ_{i∈B} r_i|² / n², truthful; for confidence with the correction
    Σ(1 − z)/n² (corrected="auto": for l2, not for l1). Reference: arXiv 2510.06388.

    >>> import truecal as tc
    >>> error = tc.CalibrationError(tc.Binary(), tc.TwoBin())
    >>> round(error([0, 1, 1], [.1, .4, .8]), 8)
    0.05088889
    >>> error.truthful
    True
    """

    property: Property
    binning: BinningRule
    norm: Norm = "l2"
    corrected: Corrected = "auto"

    def __post_init__(self) -> None:
        if not isinstance(self.property, Property):
            raise TypeError(f"property must be Binary(), Classwise(), Full(), Linear(phi) ..., got {self.property!r}")
        if not isinstance(self.binning, BinningRule):
            raise TypeError(f"binning must be a rule such as Quantile(15), got {self.binning!r}")
        if self.norm not in ("l1", "l2"):
            raise ValueError(f"norm must be 'l1' or 'l2', got {self.norm!r}")
        if self.norm == "l1" and isinstance(self.binning, (AveragedRule, Halfspaces)):
            raise ValueError(f"norm='l1' cannot apply to {self.binning!r}: an average over cuts is a quadratic form")
        resolve_ties(self.binning, self.norm)
        object.__setattr__(self, "corrected", self._resolve_correction())

    def _resolve_correction(self) -> bool:
        if self.corrected not in ("auto", True, False):
            raise ValueError(f"corrected must be 'auto', True or False, got {self.corrected!r}")
        confidence = isinstance(self.property, (Confidence, TopLabel))
        if self.corrected == "auto":
            return confidence and self.norm == "l2"
        if self.corrected and not confidence:
            raise ValueError(f"corrected=True cannot apply to {self.property!r}: only confidence has a correction")
        if self.corrected and self.norm == "l1":
            raise ValueError("corrected=True cannot apply to norm='l1': the correction repairs the squared error")
        return bool(self.corrected)

    @builtins.property
    def truthful(self) -> bool:
        """Whether reporting the true conditional probabilities always minimises the expected error."""
        return self.norm == "l2" and (bool(self.corrected) or not isinstance(self.property, (Confidence, TopLabel)))

    @builtins.property
    def reason(self) -> str:
        """Why the error is truthful, or why it is not."""
        if self.norm == "l1":
            return "absolute bin sums reward pooling: a coarser report hides its noise in fewer bins"
        if not self.truthful:
            return "for three or more classes it pays to change which class is on top; the correction repairs this"
        if self.corrected:
            return "squared bin sums plus the correction (1 − accuracy)/n: naming the likeliest class is optimal"
        return "squared bin sums over bins that never see a label: bias² plus a variance no report can change"

    @builtins.property
    def symbol(self) -> str:
        """The paper's name of the error."""
        if isinstance(self.property, (Confidence, TopLabel)):
            return "ConfECE" if self.norm == "l1" else ("ConfCE^corr" if self.corrected else "ConfCE")
        suffix = {Classwise: "^cw", Full: "_full", Binary: "_binary"}.get(type(self.property), "_φ")
        return ("LinECE" if self.norm == "l1" else "LinCE") + suffix

    @builtins.property
    def associated_loss(self) -> str:
        """The proper loss whose mean is n·error for a calibrated predictor, in words."""
        if isinstance(self.property, (Confidence, TopLabel)):
            return "confidence loss 1 − z + (c − z)²" if self.corrected else "(c − z)²"
        names = {Classwise: "Brier/k", Full: "Brier", Binary: "(u − y)²"}
        return names.get(type(self.property), "||u − φ(y)||²")

    def with_bins(self, n_bins: int | Sequence[int] | Array) -> CalibrationError:
        """The same error at another bin count, or at several."""
        if self.binning.counts is None:
            raise ValueError(f"n_bins={n_bins!r} cannot apply: {self.binning!r} has no bin count")
        # a rule with counts is a dataclass
        return replace(self, binning=replace(self.binning, n_bins=read_bins(n_bins)))  # type: ignore[type-var]

    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        """Validate the user's arrays once, for use with `of`, `split` and `tables`."""
        return self.property.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)

    def __call__(
        self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None, scale: Scale = "raw"
    ) -> Any:
        """The error: a float, or an array with one value per bin count where the rule has a sequence of them."""
        sample = self.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
        return self._present(self.of(sample) * self._factor(sample, scale))

    def of(self, sample: Sample) -> Array:
        """Raw values of a validated sample, one per bin count."""
        rule, bounds = self.binning, sample.bounds

        def view_totals(tables: tuple[BinTable, ...]) -> Array:
            if self.norm == "l1":
                return np.array([table.absolute().sum() for table in tables])
            return np.array([table.squared(rule, bounds).sum() for table in tables])

        total = np.sum(map_tables(sample, rule, resolve_ties(rule, self.norm), view_totals), axis=0)
        if not sample.joint:
            total = total / sample.views
        if isinstance(rule, Halfspaces):
            total = total / rule.n_directions
        return np.asarray(self._normalised(total, sample.total_weight, sample.wrong_weight_sq))

    def _normalised(self, total: Any, weight: float, wrong_weight_sq: float) -> Any:
        """n⁻¹ or n⁻² times the sum over bins, with the correction."""
        if self.norm == "l1":
            return total / weight
        return (total + (wrong_weight_sq if self.corrected else 0.0)) / weight**2

    def of_table(self, table: BinTable) -> float:
        """The raw error read off a table, for example off one merged from parts of a sample.

        >>> import truecal as tc
        >>> error = tc.CalibrationError(tc.Binary(), tc.EqualWidth(4))
        >>> first, second = error.tables([0, 1], [.1, .6])[0], error.tables([1], [.7])[0]
        >>> round(error.of_table(first.merge(second)) - error([0, 1, 1], [.1, .6, .7]), 12)
        0.0
        """
        if table.rows == 0:
            raise ValueError("the table is empty: expected at least one row")
        views = table.absolute() if self.norm == "l1" else table.squared(self.binning)
        total = float(views.sum() if table.joint else views.mean())
        return float(self._normalised(total, table.weight, table.wrong_weight_sq))

    def tables(
        self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None
    ) -> tuple[BinTable, ...]:
        """The tables behind the value, one per bin count: what reliability diagrams read."""
        sample = self.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
        return full_tables(sample, self.binning, resolve_ties(self.binning, self.norm))

    def decompose(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Decomposition:
        """The two parts of the error: n·error = loss + U."""
        sample = self.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
        error, loss, u = self.split(sample)
        return Decomposition(
            error=self._present(error),
            loss=loss,
            U=self._present(u),
            n_samples=sample.rows,
            n_bins=self.binning.counts if self.binning.several else (self.binning.counts or (None,))[0],
            name=self.symbol,
        )

    def split(self, sample: Sample) -> tuple[Array, float, Array]:
        """Raw errors, the loss part and the U parts of a validated sample."""
        if self.norm == "l1":
            raise ValueError("norm='l1' has no loss part: n·error = loss + U holds for squared errors")
        error = self.of(sample)
        losses = sample.loss()
        if sample.wrong is not None and not self.corrected:
            losses = losses - sample.wrong
        weights = None if sample.weights is None else np.square(sample.weights)
        loss = float(losses.mean() if weights is None else np.average(losses, weights=weights))
        return error, loss, np.asarray(error * self._factor(sample, "loss") - loss)

    def _factor(self, sample: Sample, scale: Scale) -> float | Array:
        """What multiplies the raw error; never anything that depends on reports or outcomes."""
        if scale == "raw":
            return 1.0
        if scale not in ("loss", "bins"):
            raise ValueError(f"scale must be 'raw', 'loss' or 'bins', got {scale!r}")
        if self.norm == "l1":
            raise ValueError(f"scale={scale!r} cannot apply to norm='l1': it is for squared errors")
        if scale == "loss":
            return sample.total_weight**2 / sample.total_weight_sq
        if self.binning.counts is None:
            raise ValueError(f"scale='bins' cannot apply: {self.binning!r} has no requested bin count")
        return np.array(self.binning.counts, dtype=np.float64)

    def _present(self, values: Array) -> float | Array:
        return values if self.binning.several else float(values[0])


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition:
    """n·error = loss + U: how good the predictor is, and how far from calibrated (E[U] = 0 when it is calibrated).

    With weights, n stands for W²/Σw² and the loss is the w²-weighted mean.
    """

    loss: float
    U: float | Array
    error: float | Array
    n_samples: int
    n_bins: int | tuple[int, ...] | None
    name: str

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and lists."""
        return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in asdict(self).items()}

    def __repr__(self) -> str:
        bins = self.n_bins if isinstance(self.n_bins, tuple) else (self.n_bins,)
        lines = [f"{self.name}, {self.n_samples} samples: n·error = loss + U"]
        for m, u, e in zip(bins, np.atleast_1d(self.U), np.atleast_1d(self.error), strict=True):
            where = "" if m is None else f"{m:>6} bins: "
            lines.append(f"  {where}loss {self.loss:.6g}, U {u:+.6g}  (error {e:.6g})")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


def _named(rule: BinningRule, property: Property, norm: Norm, corrected: Corrected = "auto") -> CalibrationError:
    return CalibrationError(property, rule, norm, corrected)


ERRORS: dict[str, CalibrationError] = {
    "classwise": _named(Quantile(), Classwise(), "l2"),
    "classwise_l1": _named(Quantile(), Classwise(), "l1"),
    "classwise_two_bin": _named(TwoBin(), Classwise(), "l2"),
    "confidence": _named(Quantile(), Confidence(), "l2"),
    "confidence_uncorrected": _named(Quantile(), Confidence(), "l2", corrected=False),
    "confidence_l1": _named(EqualWidth(), Confidence(), "l1"),
    "confidence_two_bin": _named(TwoBin(), Confidence(), "l2"),
    "full": _named(ArgmaxQuantile(), Full(), "l2"),
    "full_l1": _named(ArgmaxQuantile(), Full(), "l1"),
    "full_halfspace": _named(Halfspaces(), Full(), "l2"),
    "top_label": _named(Quantile(), TopLabel(), "l2"),
    "top_label_l1": _named(EqualWidth(), TopLabel(), "l1"),
    "binary": _named(Quantile(), Binary(), "l2"),
    "binary_l1": _named(Quantile(), Binary(), "l1"),
    "binary_two_bin": _named(TwoBin(), Binary(), "l2"),
    "linear": _named(Quantile(), Outcomes(), "l2"),
    "linear_l1": _named(Quantile(), Outcomes(), "l1"),
}
"""Every named error: each knows its property, whether it is truthful and why. The CLI, the report, the documentation,
the law tests and the audit all read this list. Change the bins with `ERRORS[name].with_bins(m)`."""


def get_error(error: str | CalibrationError, n_bins: int | Sequence[int] | Array | None = None) -> CalibrationError:
    """An error by name or as itself, at the given bin count(s) if any."""
    if isinstance(error, str):
        if error not in ERRORS:
            raise ValueError(
                f"error must be one of {', '.join(map(repr, ERRORS))} or a CalibrationError, got {error!r}"
            )
        error = ERRORS[error]
    if not isinstance(error, CalibrationError):
        raise TypeError(f"error must be a name in ERRORS or a CalibrationError, got {error!r}")
    return error if n_bins is None else error.with_bins(n_bins)


def decompose(
    y_true: Any,
    y_proba: Any,
    *,
    error: str | CalibrationError = "classwise",
    n_bins: int | Sequence[int] | Array | None = None,
    sample_weight: Any = None,
    labels: Any = None,
) -> Decomposition:
    """The two parts of a squared error: n·error = loss + U, U = n⁻¹ Σ_{i≠j} G_ij ⟨r_i, r_j⟩.

    >>> import truecal as tc
    >>> parts = tc.decompose([0, 1, 1], [.1, .4, .8], error="binary", n_bins=2)
    >>> round(parts.loss + parts.U - 3 * parts.error, 12)
    0.0
    """
    metric = get_error(error, n_bins)
    return metric.decompose(y_true, y_proba, sample_weight=sample_weight, labels=labels)


@overload
def classwise_error(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int | None = None,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> float: ...
@overload
def classwise_error(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: Sequence[int] | Array,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Array: ...
def classwise_error(
    y_true: Any,
    y_proba: Any,
    *,
    n_bins: int | Sequence[int] | Array | None = None,
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
    metric = CalibrationError(Classwise(), read_rule(strategy, n_bins, ties), norm)
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale=scale)


@overload
def confidence_error(
    y_true: Any,
    y_proba: Any,
    *,
    corrected: Corrected = "auto",
    n_bins: int | None = None,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> float: ...
@overload
def confidence_error(
    y_true: Any,
    y_proba: Any,
    *,
    corrected: Corrected = "auto",
    n_bins: Sequence[int] | Array,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Array: ...
def confidence_error(
    y_true: Any,
    y_proba: Any,
    *,
    corrected: Corrected = "auto",
    n_bins: int | Sequence[int] | Array | None = None,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Any:
    """Confidence error, ConfCE^corr: n⁻² Σ_B (Σ_{i∈B} (c_i − z_i))² + n⁻² Σ (1 − z_i).

    c is the largest probability, z whether its class came. norm="l1" is the usual ECE (not truthful; no correction).

    >>> import truecal as tc
    >>> proba = [[.6, .4], [.3, .7], [.8, .2], [.9, .1]]
    >>> round(tc.confidence_error([0, 1, 1, 0], proba, n_bins=2), 6)
    0.12375
    >>> round(tc.confidence_error([0, 1, 1, 0], proba, n_bins=10, norm="l1", strategy="uniform"), 6)
    0.4
    """
    metric = CalibrationError(Confidence(), read_rule(strategy, n_bins, ties), norm, corrected)
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale=scale)


@overload
def top_label_error(
    correct: Any,
    confidence: Any,
    *,
    corrected: Corrected = "auto",
    n_bins: int | None = None,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> float: ...
@overload
def top_label_error(
    correct: Any,
    confidence: Any,
    *,
    corrected: Corrected = "auto",
    n_bins: Sequence[int] | Array,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> Array: ...
def top_label_error(
    correct: Any,
    confidence: Any,
    *,
    corrected: Corrected = "auto",
    n_bins: int | Sequence[int] | Array | None = None,
    strategy: Strategy = "quantile",
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
    metric = CalibrationError(TopLabel(), read_rule(strategy, n_bins, ties), norm, corrected)
    return metric(correct, confidence, sample_weight=sample_weight, scale=scale)


@overload
def full_error(
    y_true: Any,
    y_proba: Any,
    *,
    cells: VectorStrategy = "argmax",
    n_bins: int | None = None,
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> float: ...
@overload
def full_error(
    y_true: Any,
    y_proba: Any,
    *,
    cells: VectorStrategy = "argmax",
    n_bins: Sequence[int] | Array,
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
    labels: Any = None,
) -> Array: ...
def full_error(
    y_true: Any,
    y_proba: Any,
    *,
    cells: VectorStrategy = "argmax",
    n_bins: int | Sequence[int] | Array | None = None,
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
    rule = read_rule(cells, n_bins, ties, name="cells", names=VECTOR_STRATEGIES)
    metric = CalibrationError(Full(), rule, norm)
    return metric(y_true, y_proba, sample_weight=sample_weight, labels=labels, scale=scale)


@overload
def binary_error(
    y_true: Any,
    y_prob: Any,
    *,
    pos_label: Any = 1,
    n_bins: int | None = None,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> float: ...
@overload
def binary_error(
    y_true: Any,
    y_prob: Any,
    *,
    pos_label: Any = 1,
    n_bins: Sequence[int] | Array,
    strategy: Strategy = "quantile",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> Array: ...
def binary_error(
    y_true: Any,
    y_prob: Any,
    *,
    pos_label: Any = 1,
    n_bins: int | Sequence[int] | Array | None = None,
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
    outcomes: Any,
    reports: Any,
    *,
    range: Bounds | None = None,
    n_bins: int | None = None,
    strategy: Strategy | Literal["auto", "kd"] = "auto",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> float: ...
@overload
def linear_error(
    outcomes: Any,
    reports: Any,
    *,
    range: Bounds | None = None,
    n_bins: Sequence[int] | Array,
    strategy: Strategy | Literal["auto", "kd"] = "auto",
    norm: Norm = "l2",
    scale: Scale = "raw",
    ties: Ties = "auto",
    sample_weight: Any = None,
) -> Array: ...
def linear_error(
    outcomes: Any,
    reports: Any,
    *,
    range: Bounds | None = None,
    n_bins: int | Sequence[int] | Array | None = None,
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


def _linear_rule(reports: Any, strategy: Any, n_bins: int | Sequence[int] | Array | None, ties: Ties) -> BinningRule:
    shape = as_array(reports, "reports").shape
    vector = len(shape) == 2 and shape[1] > 1
    if strategy == "auto":
        strategy = "kd" if vector else "quantile"
    names: dict[str, type[BinningRule]] = {"kd": KdTree, "exact": Exact}
    return read_rule(strategy, n_bins, ties, names=names) if vector else read_rule(strategy, n_bins, ties)


__all__ = [
    "ERRORS",
    "CalibrationError",
    "Decomposition",
    "Linear",
    "binary_error",
    "classwise_error",
    "confidence_error",
    "decompose",
    "full_error",
    "get_error",
    "linear_error",
    "top_label_error",
]
