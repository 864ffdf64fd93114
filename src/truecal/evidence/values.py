"""Losses, errors, gaps and diagrams of one model as every source of evidence gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from ..core.properties import Property
from ..core.result import plain
from ..core.table import BinTable
from ..core.types import Array
from ..inference.bands import ConsistencyBands
from ..inference.gaps import Gap, gap_from
from ..inference.spread import Spread
from ..kinds import COMPOSED
from ..sums.errors import CalibrationError, ErrorTerms, signed_root


@dataclass(frozen=True)
class LossValue:
    """A mean loss with its interval, if the loss of every possible label is bounded."""

    name: str
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class ErrorValue:
    """One error at one bin count (None: a rule without bins).

    Squared errors: n·value = loss + U, `gap` in probability points, and `score`, which has no bins: the same at every
    bin count, in units of the Brier score. With clusters U takes pairs of rows from different clusters only; those
    inside clusters, where dependence looks like miscalibration, are kept apart as `within`, and n·value = loss + U +
    within. l1 errors have neither: the null band [null_low, null_high] is the range of the value under calibration.
    `headline`: whether summaries show this count.
    """

    error: str
    symbol: str
    truthful: bool
    n_bins: int | None
    value: float
    headline: bool = True
    loss: float | None = None
    U: float | None = None
    U_low: float | None = None
    U_high: float | None = None
    gap: float | None = None
    gap_low: float | None = None
    gap_high: float | None = None
    score: float | None = None
    null_low: float | None = None
    null_high: float | None = None
    null_pvalue: float | None = None
    within: float | None = None

    @property
    def ranks(self) -> bool:
        """Whether models may be ranked by its score: it is truthful and has one, which baselines have not."""
        return self.truthful and self.score is not None


@dataclass(frozen=True, eq=False)
class Reliability:
    """The bins of a reliability diagram, one row per view (class), and their consistency bands."""

    error: str
    n_bins: int
    table: BinTable
    bands: ConsistencyBands | None
    histogram: Array | None = None
    """Rows (or weight) in equal parts of [0, 1], of diagrams with one view whose rows are known."""
    names: tuple[str, ...] = ()
    """What each view is called, where they are listed with their gaps."""

    @property
    def axes(self) -> tuple[str, str]:
        """What the axes are called: confidence and accuracy of the top class, or else probability and frequency."""
        top = COMPOSED[self.error].property.picks_outcome if self.error in COMPOSED else False
        return ("confidence", "accuracy") if top else ("predicted probability", "observed frequency")

    @property
    def count(self) -> Array:
        """Rows (or weight) per view and bin."""
        return self.table.count if self.bands is None else self.bands.count

    @property
    def mean_report(self) -> Array:
        return self.table.mean_report if self.bands is None else self.bands.mean_report

    @property
    def mean_outcome(self) -> Array:
        return self.table.mean_outcome if self.bands is None else self.bands.mean_outcome

    @property
    def low(self) -> Array | None:
        """Where a calibrated model's mean outcome would begin, or None without bands."""
        return None if self.bands is None else self.bands.low

    @property
    def high(self) -> Array | None:
        return None if self.bands is None else self.bands.high

    def to_dict(self) -> dict[str, Any]:
        """Lists of one row per view; empty bins have no means (None)."""
        names = ("count", "mean_report", "mean_outcome", "low", "high", "histogram")
        return {"error": self.error, "n_bins": self.n_bins} | {name: plain(getattr(self, name)) for name in names}


def called_views(property: Property, views: int, names: Sequence[str] | None) -> tuple[str, ...]:
    """What each view of a diagram is called, where views are listed with their gaps."""
    return tuple(property.view_name(j, names) for j in range(views)) if property.per_view else ()


def plain_error(
    name: str, error: CalibrationError, n_bins: int | None, value: float, headline: bool, null: Any = None
) -> ErrorValue:
    """An error without parts, with its null band where there is one."""
    band = {} if null is None else {"null_low": null.low, "null_high": null.high, "null_pvalue": null.pvalue}
    return ErrorValue(name, error.symbol, error.truthful, n_bins, value, headline, **band)


def squared_error(
    name: str,
    error: CalibrationError,
    n_bins: int | None,
    terms: ErrorTerms,
    spread: Spread | None,
    level: float,
    *,
    score: float | None,
    headline: bool = True,
    within: float | None = None,
) -> ErrorValue:
    """A squared error as loss + U, with gap and score; `within` is the part of U inside clusters."""
    u = terms.U - (within or 0.0)
    gap = terms.gap if spread is None else 100 * signed_root(spread.theta)
    return ErrorValue(
        name,
        error.symbol,
        error.truthful,
        n_bins,
        terms.error,
        headline,
        loss=terms.loss,
        U=u,
        gap=gap if np.isfinite(gap) else None,
        score=score,
        within=within,
        **({} if spread is None else interval_ends(spread, u, level)),
    )


def interval_ends(spread: Spread, u: float, level: float) -> dict[str, float]:
    """Intervals of the gap in points, and of U, which is the squared gap in other units."""
    low, high, _ = spread.interval(level)
    ends = {"U_low": u + spread.unit * (low - spread.theta), "U_high": u + spread.unit * (high - spread.theta)}
    return ends | {"gap_low": 100 * signed_root(low), "gap_high": 100 * signed_root(high)}


def gap_value(
    error: CalibrationError,
    n_bins: int | None,
    gap_sq: float,
    spread: Spread | None,
    word: str,
    level: float,
    rows: int,
    *,
    left_out: str,
) -> Gap:
    """The gap with its interval, or with the reason why there is none."""
    if spread is not None:
        return gap_from(spread, word, level, n_bins, rows, error.symbol)
    nan = float("nan")
    return Gap(100 * signed_root(gap_sq), nan, nan, word, level, n_bins, rows, error.symbol, left_out)


def errors_with_gap() -> tuple[str, ...]:
    """The errors that have a gap with an interval and a reliability diagram; the first that applies is the headline."""
    found = [(error.property.picks_outcome, name) for name, error in COMPOSED.items() if error.has_gap]
    return tuple([name for _, name in sorted(found, key=itemgetter(0))])


def infinite_text(name: str, rows: int) -> str:
    """Why a loss has no number."""
    return f"{name} is infinite: the observed label had probability 0 in {rows} rows"
