"""Calibration errors: the composable CalibrationError, its special cases by name, and n·CAL = loss + U."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from ..core.cells import Piece
from ..core.cut_score import Sides, gap_over_cuts
from ..core.data import shown
from ..core.dispatch import DISPATCH, Dispatch
from ..core.frames import matching_rows
from ..core.parameters import described
from ..core.properties import Property
from ..core.result import Result
from ..core.rules import BinCounts, BinningRule, resolve_ties
from ..core.sample import Sample, Totals
from ..core.table import BinTable, TableSums
from ..core.types import Array
from .scores import squares_and_gap
from .tabulate import moments, raw_error_sums, whole_tables

Norm = Literal["l1", "l2"]
Scale = Literal["raw", "loss", "bins", "score"]
SCALES = ("raw", "loss", "bins", "score")
Corrected = Literal["auto"] | bool


@described()
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
            raise TypeError(
                f"property must be Binary(), Classwise(), Full(), Linear(phi) ..., got {shown(self.property)}"
            )
        if not isinstance(self.binning, BinningRule):
            raise TypeError(f"binning must be a rule such as Quantile(15), got {shown(self.binning)}")
        if self.norm not in ("l1", "l2"):
            raise ValueError(f"norm must be 'l1' or 'l2', got {shown(self.norm)}")
        if self.norm == "l1" and self.binning.averages:
            raise ValueError(
                f"norm='l1' cannot be used with {shown(self.binning)}: an average over cuts is a quadratic form"
            )
        resolve_ties(self.binning, self.norm)
        object.__setattr__(self, "corrected", self._resolve_correction())

    def _resolve_correction(self) -> bool:
        if self.corrected not in ("auto", True, False):
            raise ValueError(f"corrected must be 'auto', True or False, got {shown(self.corrected)}")
        if self.corrected == "auto":
            return self.property.corrects and self.norm == "l2"
        if self.corrected and not self.property.corrects:
            raise ValueError(f"corrected=True cannot be used with {shown(self.property)}: it has no correction")
        if self.corrected and self.norm == "l1":
            raise ValueError("corrected=True cannot be used with norm='l1': the correction repairs the squared error")
        return bool(self.corrected)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Errors are looked up by their parts again and again."""
        return hash((self.property, self.binning, self.norm, self.corrected))

    @cached_property
    def truthful(self) -> bool:
        """Whether reporting the true conditional probabilities always minimises the expected error."""
        return self.norm == "l2" and (bool(self.corrected) or not self.property.corrects)

    @cached_property
    def has_gap(self) -> bool:
        """Whether results show its gap with an interval and a reliability diagram."""
        shown = self.property.of_classes or self.property.per_view
        return self.truthful and self.binning.open and shown and not self.property.vector

    @builtins.property
    def reason(self) -> str:
        """Why the error is truthful, or why it is not."""
        if self.norm == "l1":
            return "absolute bin sums reward pooling: a coarser report hides its noise in fewer bins"
        if not self.truthful:
            return self.property.uncorrected_reason
        if self.corrected:
            return self.property.corrected_reason
        return "squared bin sums over bins that never see a label: bias² plus a variance no report can change"

    @cached_property
    def symbol(self) -> str:
        """The paper's name of the error."""
        symbol = self.property.symbol("ECE" if self.norm == "l1" else "CE")
        return f"{symbol}^corr" if self.corrected and self.property.picks_outcome else symbol

    @builtins.property
    def __name__(self) -> str:
        """Its name in ERRORS, or its symbol if it is not there at any number of bins: what scikit-learn calls it."""
        made = (self.property, type(self.binning), self.norm, self.corrected)
        every = ((name, (e.property, type(e.binning), e.norm, e.corrected)) for name, e in NAMED.items())
        return next((name for name, parts in every if parts == made), self.symbol)

    @builtins.property
    def associated_loss(self) -> str:
        """The proper loss whose mean is n·error for a calibrated predictor, in words."""
        return self.property.corrected_loss_text if self.corrected else self.property.loss_text

    def with_bins(self, n_bins: BinCounts) -> CalibrationError:
        """The same error at another bin count, at several, or at the automatic one."""
        return replace(self, binning=self.binning.with_bins(n_bins))

    def at(self, sample: Sample) -> CalibrationError:
        """The same error with its number of bins: "auto" becomes the count for the rows and classes of the sample."""
        if self.binning.n_bins != "auto":
            return self
        return replace(self, binning=self.binning.at(sample.rows, sample.views))

    @matching_rows
    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        """Validate the user's arrays once, for use with `of` and `parts`."""
        return self.property.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)

    @matching_rows
    def __call__(
        self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None, scale: Scale = "raw"
    ) -> Any:
        """The error: a float, or an array with one value per bin count where the rule has a sequence of them.

        The score has no bins: with scale="score" it is one float for every rule.
        """
        if scale not in SCALES:
            raise ValueError(f"scale must be one of {', '.join(map(repr, SCALES))}, got {shown(scale)}")
        if scale != "raw" and self.norm == "l1":
            raise ValueError(f"scale={shown(scale)} cannot be used with norm='l1': it is for squared errors")
        if scale == "bins" and not self.binning.has_counts:
            raise ValueError(f"scale='bins' cannot be used: {shown(self.binning)} has no requested bin count")
        if scale == "score":
            return self.score(self.read(y_true, y_proba, sample_weight=sample_weight, labels=labels))
        rule, totals, averaged, found = raw_error_sums(self, y_true, y_proba, sample_weight, labels)
        values = self._values(found, totals, averaged)
        if scale == "loss":
            values *= totals.weight**2 / totals.weight_sq
        if scale == "bins":
            values *= np.array(rule.counts, dtype=float)
        return self.present(values)

    @cached_property
    def counts(self) -> tuple[int | None, ...]:
        """The bin counts as people asked for them; (None,) for a rule without any."""
        return self.binning.counts or (self.binning.n_cells,)

    @cached_property
    def cells(self) -> str:
        """What tells the cells of errors of one property apart."""
        return f"{self.binning!r}, {self.ties}"

    @cached_property
    def ties(self) -> str:
        """How equal reports at a quantile boundary are treated."""
        return resolve_ties(self.binning, self.norm)

    def of(self, sample: Sample, dispatch: Dispatch = DISPATCH, *, cells: Iterable[Piece] | None = None) -> Array:
        """Raw values of a validated sample, one per bin count; cells that are made already are read."""
        return self._values(self._moments(sample, False, cells, dispatch), sample.totals, sample.averaged)

    def parts(
        self, sample: Sample, dispatch: Dispatch = DISPATCH, *, cells: Iterable[Piece] | None = None
    ) -> tuple[ErrorTerms, ...]:
        """Error, loss, U and gap of a validated sample, one per bin count; cells made already are read."""
        return self.parts_of(self._moments(sample, True, cells, dispatch), sample.totals, sample.averaged)

    def _moments(
        self, sample: Sample, squares: bool, cells: Iterable[Piece] | None, dispatch: Dispatch
    ) -> list[TableSums]:
        """The sums of the tables over their views, one per bin count."""
        rule = self.at(sample).binning
        return moments(sample, rule, self.ties, self.norm, squares=squares, cells=cells, dispatch=dispatch)

    def of_table(self, table: BinTable) -> float:
        """The raw error read off a table, for example off one merged from parts of a sample.

        >>> import truecal as tc
        >>> error = tc.CalibrationError(tc.Binary(), tc.EqualWidth(4))
        >>> first, second = error.tables([0, 1], [.1, .6])[0], error.tables([1], [.7])[0]
        >>> round(error.of_table(first.merge(second)) - error([0, 1, 1], [.1, .6, .7]), 12)
        0.0
        """
        self._refuse_misfit(table)
        return float(self._values([table.moments], table.totals, 1 if table.joint else table.views)[0])

    def parts_of_table(self, table: BinTable) -> ErrorTerms:
        """Error, loss, U and gap read off a table.

        >>> import truecal as tc
        >>> error = tc.CalibrationError(tc.Binary(), tc.EqualWidth(4))
        >>> parts = error.parts_of_table(error.tables([0, 1, 1], [.1, .6, .7])[0])
        >>> abs(parts.loss + parts.U - 3 * parts.error) < 1e-12
        True
        """
        self._refuse_misfit(table)
        return self.parts_of([table.moments], table.totals, 1 if table.joint else table.views)[0]

    def score(self, sample: Sample, left_out: Sides | None = None, dispatch: Dispatch = DISPATCH) -> float:
        """The score of a validated sample, where pairs of rows that depend on each other may be left out.

        With weights it is that of the w-weighted loss, as people mean it, where n·error = loss + U holds for the
        w²-weighted one.
        """
        if self.norm == "l1":
            raise ValueError("norm='l1' has no score: the score is that of a squared error")
        return self.score_from(sample, *squares_and_gap(sample, left_out, dispatch))

    def score_from(self, sample: Sample, squares: float, gap_sq: float) -> float:
        """The score of a sample whose `squares_and_gap` are known."""
        wrong = sample.wrong_weight if self.corrected else 0.0
        loss = (squares / sample.averaged + wrong) / sample.total_weight
        return float(self.property.score_unit(sample.views) * (loss + gap_sq / sample.averaged))

    def score_of_table(self, table: BinTable, left_out: Sides | None = None) -> float:
        """The score read off a table of `ScoreCells`, for example one merged from parts of a sample."""
        averaged, wrong = 1 if self.property.vector else table.views, table.totals.wrong if self.corrected else 0.0
        loss = (table.loss_total / averaged + wrong) / table.totals.weight
        return float(self.property.score_unit(table.views) * (loss + gap_over_cuts(table, left_out) / averaged))

    def _refuse_misfit(self, table: BinTable) -> None:
        """A table is read by the error of its own property, cells and ties, or not at all."""
        if not isinstance(table, BinTable):
            raise TypeError(f"expected a BinTable, got {type(table).__name__}")
        if table.kind != self.property.kind:
            raise ValueError(f"expected a table of {self.property.kind} predictions, got one of {table.kind}")
        if table.rows == 0:
            raise ValueError("the table is empty: expected at least one row")
        wanted = self.binning.at(table.rows, table.views).singles(self.ties)
        if table.rule not in wanted:
            raise ValueError(f"expected a table of the cells of {wanted[0]!r}, got one of {table.rule!r}")

    def _values(self, found: Sequence[TableSums], totals: Totals, averaged: int) -> Array:
        """n⁻¹ or n⁻² times the sums over bins, with the correction."""
        if self.norm == "l1":
            return np.array([float(sums.absolute) for sums in found]) / averaged / totals.weight
        squared = np.array([float(sums.squared) for sums in found]) / averaged
        return np.asarray((squared + (totals.wrong_sq if self.corrected else 0.0)) / totals.weight**2)

    def parts_of(self, found: Sequence[TableSums], totals: Totals, averaged: int) -> tuple[ErrorTerms, ...]:
        """Error, loss, U and gap from the sums of tables."""
        if self.norm == "l1":
            raise ValueError("norm='l1' has no loss part: n·error = loss + U holds for squared errors")
        wrong_sq = totals.wrong_sq if self.corrected else 0.0
        squared, _, own, gap_sq, pairs = np.array(found, dtype=np.float64).T / averaged
        gap_sq = np.where(pairs > 0, gap_sq, np.nan)
        error, loss = (squared + wrong_sq) / totals.weight**2, (own + wrong_sq) / totals.weight_sq
        u, gap = (squared - own) / totals.weight_sq, 100 * np.copysign(np.sqrt(abs(gap_sq)), gap_sq)
        return tuple(map(ErrorTerms._make, np.stack([error, loss, u, gap_sq, gap], axis=1).tolist()))

    @matching_rows
    def tables(
        self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None
    ) -> tuple[BinTable, ...]:
        """The tables behind the value, one per bin count: what reliability diagrams read."""
        sample = self.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
        return whole_tables(sample, self.binning, self.ties)

    @matching_rows
    def decompose(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Decomposition:
        """The two parts of the error, n·error = loss + U, with the gap and the score."""
        sample = self.read(y_true, y_proba, sample_weight=sample_weight, labels=labels)
        parts = self.parts(sample)
        counts = self.at(sample).binning.counts

        def each(values: list[float]) -> float | Array:
            return self.present(np.array(values))

        return Decomposition(
            loss=parts[0].loss,
            U=each([p.U for p in parts]),
            error=each([p.error for p in parts]),
            gap=None if len(parts) == 1 and math.isnan(parts[0].gap_sq) else each([p.gap for p in parts]),
            score=self.score(sample),
            n_samples=sample.rows,
            n_bins=counts if self.binning.several else (counts or (None,))[0],
            name=self.symbol,
        )

    def present(self, values: Array) -> float | Array:
        """One value, or an array of them where the rule has a sequence of bin counts."""
        return values if self.binning.several else float(values[0])


class ErrorTerms(NamedTuple):
    """The terms of a squared error of a sample or a table, at one bin count."""

    error: float
    """The raw error, n⁻² Σ_B |S_B|² and the correction."""
    loss: float
    """The loss part: n·error = loss + U (with weights, the w²-weighted mean, and n stands for W²/Σw²)."""
    U: float
    """n⁻¹ Σ_{i≠j} G_ij ⟨r_i, r_j⟩, 0 on average for a calibrated predictor."""
    gap_sq: float
    """The debiased mean squared gap between prediction and observed frequency; NaN where no cell holds two rows."""
    gap: float = math.nan
    """Its root in points, negative where the debiased square is."""


def signed_root(square: float) -> float:
    """sign(x)·√|x|: a squared gap as a gap, negative where the debiased square is."""
    return math.copysign(math.sqrt(abs(square)), square)


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Result):
    """n·error = loss + U: how good the predictions are, and what their miscalibration adds (0 on average without any).

    `gap` is the miscalibration in probability points (U grows with n, the gap does not); None where no two rows share a
    bin (NaN among several bin counts). `score` is the loss plus the squared gap of two cells, averaged over all cuts:
    it has no bins, and is in units of the Brier score, for k > 2 classes k times that per class. With weights, n is
    W²/Σw², `loss` is the w²-weighted mean and the score is that of the w-weighted loss.
    """

    loss: float
    U: float | Array
    error: float | Array
    gap: float | Array | None
    score: float
    n_samples: int
    n_bins: int | tuple[int, ...] | None
    name: str

    def __repr__(self) -> str:
        bins = self.n_bins if isinstance(self.n_bins, tuple) else (self.n_bins,)
        lines = [f"{self.name}, {self.n_samples} samples: n·error = loss + U; score {self.score:.6g}"]
        gaps = np.nan if self.gap is None else self.gap
        columns = (np.atleast_1d(x) for x in (self.U, self.error, gaps))
        for m, u, e, gap in zip(bins, *columns, strict=True):
            where = "" if m is None else f"{m:>6} bins: "
            off = "no gap" if np.isnan(gap) else f"gap {gap:+.2f} points"
            lines.append(f"  {where}loss {self.loss:.6g}, U {u:+.6g}  (error {e:.6g}; {off})")
        return "\n".join(lines)


NAMED: dict[str, CalibrationError] = {}
"""Every error that has a name and is composed of a property, a rule and a norm; the kinds of predictions fill it."""
