"""Distributions of a number: the predicted chance of an outcome up to each threshold, against whether it was so low."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.arrays import HOST, LIBRARY, doubled, on_cpu
from ..core.data import as_array, check_positive_int, check_report_table, check_same_length, check_weights, shown
from ..core.frames import matching_rows
from ..core.parameters import described
from ..core.properties import Property
from ..core.result import Result
from ..core.sample import Sample, unit_weights
from ..core.types import Array
from .inputs import Inputs
from .kind import Given, Kind, LossTable, Scale
from .ordered import OfScale, Position, threshold_losses
from .own_levels import OwnLevels, of_members, of_quantiles, own_levels

NO_THRESHOLDS = (
    "thresholds must be given, as increasing numbers that are fixed before forecasts and outcomes are seen, or by "
    "tc.forecasts.thresholds(y_train) from training outcomes: with thresholds from the forecasts or from these "
    "outcomes, moving them would pay, and the score could be gamed"
)
_EVEN = 1e-6  # steps that differ by no more than this share are equal


class Forecast(ABC):
    """Abstract: a predictive distribution of a number per row."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def at(self, points: Array) -> Array:
        """The predicted chance of an outcome of at most each point: points (T,), or (n, 1), one per row."""

    def own(self, y_true: Any) -> OwnLevels | None:
        """Evidence at the own levels of a forecast; None where it has none and F is tested."""
        return None


@final
@dataclass(frozen=True)
class Distribution(OfScale):
    """T views of the distribution of a number: F(t) against 1[y ≤ t] at each of T fixed thresholds, averaged over t.

    Each threshold counts by its width Δt, the stretch of numbers nearest to it; the outer two reach as far out as in.
    So the loss is the CRPS over the range of the thresholds, Σ_t Δt (F(t) − 1[y ≤ t])². A single threshold has width 1:
    the loss is its Brier score.
    """

    thresholds: tuple[float, ...] = ()
    kind = "distribution"
    of_distributions = False
    per_view = True
    loss_name = "crps"
    notion = "per-threshold"
    asks = "a number of at most t, at each threshold t"
    residual_text = "F(t) − 1[y ≤ t]"
    mean_text = "the mean over thresholds t, by their widths, of "
    loss_text = "CRPS over the range of the thresholds"

    def __init__(self, thresholds: Any = ()) -> None:
        values = np.atleast_1d(np.asarray(as_array(thresholds, "thresholds"))) if np.size(thresholds) else np.empty(0)
        if values.ndim != 1 or values.dtype.kind not in "biuf" or not np.isfinite(values).all():
            raise ValueError(f"thresholds must be increasing finite numbers, got {shown(thresholds)}")
        if not (np.diff(values.astype(np.float64)) > 0).all():
            raise ValueError(f"thresholds must increase, got {shown(thresholds)}")
        object.__setattr__(self, "thresholds", tuple(values.astype(np.float64).tolist()))

    def symbol(self, name: str) -> str:
        return f"Lin{name}_CDF"

    @property
    def widths(self) -> Array:
        """Δt of each threshold: half of both steps beside it, and of the outer two their one step."""
        steps = np.diff(self.thresholds)
        if len(steps) == 0:
            return np.ones(len(self.thresholds))
        if float(np.ptp(steps)) <= _EVEN * float(steps.mean()):
            return np.full(len(steps) + 1, steps.mean())
        return np.asarray((np.append(steps[0], steps) + np.append(steps, steps[-1])) / 2)

    @property
    def shares(self) -> Array | None:  # type: ignore[override]  # known only with the thresholds
        widths = self.widths
        return None if len(widths) == 0 or (widths == widths[0]).all() else widths / widths.mean()

    def at_thresholds(self, thresholds: tuple[float, ...]) -> Property:
        return Distribution(thresholds)

    def views(self, classes: int) -> int:
        return classes

    def score_unit(self, views: int) -> float:
        return float(self.widths.sum()) if self.thresholds else 1.0

    def direction_property(self) -> Property:
        return Position() if self.shares is None else Position(tuple(self.shares.tolist()))

    def view_name(self, j: int, names: Sequence[str] | None = None) -> str:
        return f"threshold {j}" if names is None else f"at most {names[j]}"

    def check(self, y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
        """How many thresholds each outcome exceeds, and F at the thresholds (n, T)."""
        if not self.thresholds:
            raise ValueError(NO_THRESHOLDS)
        if labels is not None:
            raise ValueError("labels cannot be used: outcomes are numbers")
        y = outcomes_of(y_true)
        points = np.asarray(self.thresholds)
        if (points % 1 != 0).any() and len(points) > 2 and np.array_equal(points, np.unique(y)):
            raise ValueError(f"thresholds are the outcomes themselves; {NO_THRESHOLDS}")
        reports = cdf_values(y_proba, points)
        check_same_length(y_true=y, y_proba=reports)
        return np.searchsorted(points, y, side="left"), reports

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        steps = LIBRARY[type(reports)].arange(reports.shape[1], device=y.device)
        came = doubled(y[:, None] <= steps)
        about: dict[str, Any] = {"distributions": intervals(reports), "labels": y} | unit_weights(weights)
        return Sample(self.kind, reports, values=came, shares=self.shares, **about)

    def drawn(self, labels: Array, classes: int) -> Array:
        return np.asarray(labels[..., None] <= np.arange(classes - 1))

    def losses_by_label(self, proba: Array, corrected: bool) -> Array:
        return threshold_losses(np.cumsum(proba, axis=1)[:, :-1], self.shares)


def outcomes_of(y_true: Any, rows: int | None = None) -> Array:
    """Outcomes that are finite numbers, one for each of so many rows."""
    y = np.asarray(as_array(y_true, "y_true"))
    if y.ndim != 1 or y.dtype.kind not in "biuf" or not np.isfinite(y).all():
        raise ValueError(f"y_true must be finite numbers, one per row, got shape {y.shape} of {y.dtype}")
    if rows is not None:
        check_same_length(y_true=y, y_proba=np.empty(rows))
    return y


def intervals(reports: Array) -> Array:
    """(n, T + 1): the chances of the intervals between thresholds, from F (n, T)."""
    whole = doubled(reports)
    xp = LIBRARY[type(whole)]
    ends = xp.zeros_like(whole[:, :1])
    along: dict[str, Any] = {"axis" if isinstance(whole, HOST) else "dim": 1}
    return xp.diff(xp.concatenate([ends, whole, ends + 1], **along), **along).clip(0.0, 1.0)  # type: ignore[no-any-return]  # an array or a tensor


def cdf_values(forecast: Any, points: Array) -> Array:
    """F at the thresholds: of a forecast, of scipy's frozen distributions, or as given (n, T)."""
    if isinstance(forecast, Forecast):
        return forecast.at(points)
    if callable(getattr(forecast, "cdf", None)):
        return ScipyForecast(forecast).at(points)
    if isinstance(forecast, (list, tuple)) and forecast and callable(getattr(forecast[0], "cdf", None)):
        return np.stack([np.asarray(one.cdf(points), dtype=np.float64).reshape(len(points)) for one in forecast])
    values = np.asarray(as_array(forecast, "y_proba"))
    if values.ndim != 2 or values.shape[1] != len(points):
        raise ValueError(
            f"y_proba has shape {values.shape}: an array holds the predicted chance of at most each of the "
            f"{len(points)} thresholds; for other forms use tc.forecasts.quantiles, ensemble, cdf or normal"
        )
    table = check_report_table(values, "y_proba")
    falls = np.diff(table.astype(np.float64), axis=1) < -1e-6
    if falls.any():
        row, column = np.argwhere(falls)[0]
        raise ValueError(f"y_proba row {row} decreases from threshold {column} to {column + 1}: no distribution does")
    return table


def _numbers(x: Any, name: str, axes: int) -> Array:
    array = np.asarray(as_array(x, name))
    if array.ndim != axes or array.dtype.kind not in "biuf" or not array.size:
        raise ValueError(f"{name} must be numbers with {axes} axes, got shape {array.shape} of {array.dtype}")
    if np.isnan(array).any():
        raise ValueError(f"{name} has NaN at row {int(np.argwhere(np.isnan(array))[0][0])}")
    return array.astype(np.float64)


@final
@dataclass(frozen=True, eq=False)
class Quantiles(Forecast):
    """Quantiles (n, q) at increasing levels: F is linear between them, and the mass beyond lies at the outer two."""

    values: Array
    levels: Array

    def __len__(self) -> int:
        return len(self.values)

    def at(self, points: Array) -> Array:
        rows = np.broadcast_to(points, (len(self), points.shape[-1]))
        return np.stack([_interpolated(t, q, self.levels) for t, q in zip(rows, self.values, strict=True)])

    def own(self, y_true: Any) -> OwnLevels:
        return of_quantiles(outcomes_of(y_true, len(self)), self.values, self.levels)


def _interpolated(t: Array, q: Array, levels: Array) -> Array:
    """F at points of one row: 0 below the first quantile, 1 from the last on; of equal quantiles the upper level."""
    right = np.searchsorted(q, t, side="right")
    left = np.clip(right - 1, 0, len(q) - 1)
    after = np.clip(right, 0, len(q) - 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(q[after] > q[left], (t - q[left]) / (q[after] - q[left]), 0.0)
    share = np.where(np.isfinite(share), share, 0.0)  # between −∞ and ∞ nothing is known: the lower level
    inside = levels[left] + share * (levels[after] - levels[left])
    return np.asarray(np.where(right == 0, 0.0, np.where(right == len(q), 1.0, inside)))


@final
@dataclass(frozen=True, eq=False)
class Ensemble(Forecast):
    """Members (n, m): F(t) is the share of members that are at most t."""

    members: Array

    def __len__(self) -> int:
        return len(self.members)

    def at(self, points: Array) -> Array:
        ordered = np.sort(self.members, axis=1)
        rows = np.broadcast_to(points, (len(self), points.shape[-1]))
        counts = [np.searchsorted(own, t, side="right") for t, own in zip(rows, ordered, strict=True)]
        return np.asarray(np.stack(counts) / self.members.shape[1])

    def own(self, y_true: Any) -> OwnLevels | None:
        return of_members(outcomes_of(y_true, len(self)), self.members) if self.members.shape[1] > 1 else None


@final
@dataclass(frozen=True, eq=False)
class Gridded(Forecast):
    """F (n, g) on an increasing grid (g,), linear between its points."""

    values: Array
    grid: Array

    def __len__(self) -> int:
        return len(self.values)

    def at(self, points: Array) -> Array:
        rows = np.broadcast_to(points, (len(self), points.shape[-1]))
        each = (np.interp(t, self.grid, f, left=0.0, right=1.0) for t, f in zip(rows, self.values, strict=True))
        return np.stack(list(each))


@final
@dataclass(frozen=True, eq=False)
class Normal(Forecast):
    """Normal distributions by mean and standard deviation, (n,) each."""

    mean: Array
    sd: Array

    def __len__(self) -> int:
        return len(self.mean)

    def at(self, points: Array) -> Array:
        from scipy.special import ndtr

        with np.errstate(divide="ignore", invalid="ignore"):
            z = (points - self.mean[:, None]) / self.sd[:, None]
        certain = (points >= self.mean[:, None]).astype(np.float64)
        return np.asarray(np.where(self.sd[:, None] > 0, ndtr(z), certain))


@final
@dataclass(frozen=True, eq=False)
class ScipyForecast(Forecast):
    """A frozen distribution of scipy.stats whose parameters have one entry per row."""

    distribution: Any

    def __len__(self) -> int:
        return int(np.size(self.distribution.cdf(0.0)))

    def at(self, points: Array) -> Array:
        n = len(self)
        shape = np.shape(self.distribution.cdf(0.0))
        rows = np.broadcast_to(points, (n, points.shape[-1]))
        given = rows.T if len(shape) < 2 else rows
        found = np.asarray(self.distribution.cdf(given), dtype=np.float64)
        return np.ascontiguousarray(found.T if len(shape) < 2 else found)


def quantiles(values: Any, levels: Any) -> Quantiles:
    """Forecasts by quantiles: `values` (n, q) at increasing `levels` between 0 and 1.

    F is linear between quantiles; the mass below the first and above the last lies at these. Infinite quantiles are
    allowed at the ends.

    >>> import truecal as tc
    >>> tc.forecasts.quantiles([[1., 2., 4.]], levels=[.1, .5, .9]).at(np.array([0., 1., 3., 9.])).tolist()
    [[0.0, 0.1, 0.7, 1.0]]
    """
    table, at = _numbers(values, "values", 2), _numbers(levels, "levels", 1)
    if len(at) != table.shape[1] or not (np.diff(at) > 0).all() or at[0] <= 0 or at[-1] >= 1:
        raise ValueError(f"levels must be {table.shape[1]} increasing numbers between 0 and 1, got {shown(levels)}")
    with np.errstate(invalid="ignore"):  # between equal infinities
        falls = np.diff(table, axis=1) < 0
    if falls.any():
        row, column = np.argwhere(falls)[0]
        raise ValueError(
            f"quantiles cross in row {row}: that of level {at[column + 1]:g} is below that of {at[column]:g}; "
            "sort each row if the model allows it"
        )
    return Quantiles(table, at)


def ensemble(members: Any) -> Ensemble:
    """Forecasts by ensemble members or samples, (n, members).

    >>> import truecal as tc
    >>> tc.forecasts.ensemble([[1., 2., 2., 5.]]).at(np.array([0., 2., 4.])).tolist()
    [[0.0, 0.75, 0.75]]
    """
    return Ensemble(_numbers(members, "members", 2))


def cdf(values: Any, grid: Any) -> Gridded:
    """Forecasts by the chance of at most each point of an increasing `grid` (g,): `values` (n, g).

    >>> import truecal as tc
    >>> tc.forecasts.cdf([[0., .5, 1.]], grid=[0., 1., 2.]).at(np.array([.5, 3.])).tolist()
    [[0.25, 1.0]]
    """
    at = _numbers(grid, "grid", 1)
    if not (np.diff(at) > 0).all():
        raise ValueError(f"grid must increase, got {shown(grid)}")
    return Gridded(cdf_values(_numbers(values, "values", 2), at), at)


@matching_rows
def normal(mean: Any, sd: Any) -> Normal:
    """Forecasts by mean and standard deviation of a normal distribution, (n,) each.

    >>> import truecal as tc
    >>> tc.forecasts.normal([0., 1.], [1., 2.]).at(np.array([0.])).round(4).tolist()
    [[0.5], [0.3085]]
    """
    centre, width = _numbers(mean, "mean", 1), _numbers(sd, "sd", 1)
    check_same_length(mean=centre, sd=width)
    if (width < 0).any():
        raise ValueError(f"sd must not be negative, got {width.min():g} at row {int(width.argmin())}")
    return Normal(centre, width)


def thresholds(y_train: Any, n: int = 100) -> Array:
    """So many thresholds in equal steps over the range of training outcomes, with half a step at both ends.

    Never pass the outcomes that forecasts are judged on.

    >>> import truecal as tc
    >>> tc.forecasts.thresholds([0., 10., 4.], 5).tolist()
    [1.0, 3.0, 5.0, 7.0, 9.0]
    """
    y = _numbers(y_train, "y_train", 1)
    low, high = float(y.min()), float(y.max())
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"y_train must hold different finite numbers, got {low:g} to {high:g}")
    if isinstance(n, bool) or not isinstance(n, (int, np.integer)) or not 2 <= n <= 10_000:
        raise ValueError(f"n must be a whole number from 2 to 10,000, got {shown(n)}")
    return np.asarray(low + (np.arange(n) + 0.5) * (high - low) / n)


def is_forecast(y_proba: Any) -> bool:
    """Whether predictions are distributions of a number, of this package or of scipy, or a list of scipy's."""
    first = y_proba[0] if isinstance(y_proba, (list, tuple)) and y_proba else y_proba
    return isinstance(y_proba, Forecast) or callable(getattr(first, "cdf", None))


def has_own_levels(y_proba: Any) -> bool:
    """Whether a forecast states F at its own levels and is interpolated between them."""
    return isinstance(y_proba, Quantiles) or (isinstance(y_proba, Ensemble) and y_proba.members.shape[1] > 1)


class NumbersKind(Kind):
    """A predictive distribution of a number per row, read at fixed thresholds: a column for each."""

    name = "distribution"
    properties = (Distribution,)
    stream_errors = ("distribution",)
    segment_errors = ("distribution",)
    usual_ece = None
    class_losses = False
    ranks_confidence = False
    takes_thresholds = True
    columns = "thresholds"

    def claims(self, given: Given) -> bool:
        return given.thresholds is not None or is_forecast(given.y_proba)

    def read(self, given: Given) -> Inputs:
        property = Distribution(() if given.thresholds is None else given.thresholds)
        number, reports = property.check(on_cpu(given.y_true), on_cpu(given.y_proba), given.labels)
        weights, own = check_weights(given.sample_weight, len(reports)), own_levels(given.y_true, given.y_proba)
        return Inputs(self, number, reports, weights, thresholds=property.thresholds, own=own)

    def basics(self, thresholds: tuple[float, ...] = ()) -> tuple[Property, ...]:
        return (Distribution(thresholds).direction_property(),)

    def of_property(self, property: Property, y: Array, reports: Array) -> tuple[Array, Array]:
        """The place on the scale takes the chances of the intervals between thresholds."""
        return (y, intervals(reports)) if isinstance(property, Position) else (y, reports)

    def loss_tables(self, inputs: Inputs) -> Iterator[LossTable]:
        property = Distribution(inputs.thresholds)
        unit = property.score_unit(inputs.reports.shape[1])
        yield LossTable("crps", intervals(inputs.reports), lambda p: unit * property.losses_by_label(p, False))
        if inputs.own is not None:
            yield LossTable(inputs.own.loss_name, None, inputs.own.loss_name, value=inputs.own.losses)

    def scale(self, thresholds: tuple[float, ...], labels: Sequence[str] | None, classes: int) -> Scale | None:
        """Outcomes count as the middle of the thresholds that they lie between."""
        if not thresholds:
            return None
        widths = Distribution(thresholds).widths
        low = thresholds[0] - widths[0] / 2
        return Scale(low, low + float(widths.sum()))

    def says_text(self, predicted: float, observed: float, scale: Scale | None = None) -> str:
        if scale is None:
            return super().says_text(predicted, observed)
        return scale.says_text(predicted, observed)

    def view_names(self, thresholds: Sequence[float], labels: Sequence[str] | None) -> tuple[str, ...] | None:
        return tuple(f"{t:.4g}" for t in thresholds)


NUMBERS = NumbersKind()


GAMEABLE = (
    "descriptions, not scores: useless forecasts, with half of the intervals infinite and half empty, have perfect "
    "coverage; rank by the CRPS"
)
LEVELS = (0.5, 0.8, 0.9)


@final
@dataclass(frozen=True, repr=False, eq=False)
class Pit(Result):
    """Shares of rows whose F(y) lies in each of equal bins of [0, 1], and how often central intervals hold y.

    `coverage` maps the nominal level of central intervals to how often they held the outcome. `truthful` is False: a
    flat histogram and perfect coverage can be had by forecasts that know nothing.
    """

    shares: Array
    coverage: dict[float, float]
    n_samples: int
    truthful: bool = False

    def __repr__(self) -> str:
        held = ", ".join(f"{level:.0%} intervals held {share:.1%}" for level, share in self.coverage.items())
        bars = " ".join(f"{share:.1%}" for share in self.shares)
        return f"PIT of {self.n_samples} rows: {bars} (flat: {1 / len(self.shares):.1%})\n  {held}\n  {GAMEABLE}"


@described(
    "A Pit.",
    y_true="Outcomes, one number per row.",
    forecast="A forecast of `tc.forecasts`, or a frozen distribution of scipy.",
    n_bins="The number of bins of the histogram.",
)
def pit(y_true: Any, forecast: Any, *, n_bins: int = 10) -> Pit:
    """The histogram of F(y), which is flat for calibrated forecasts, and the coverage of central intervals.

    Both can be gamed: see the cheat in the documentation. Where F jumps at y, the middle of the jump counts. Dawid,
    JRSS A 1984; Gneiting, Balabdaoui and Raftery, JRSS B 2007.

    >>> import numpy as np, truecal as tc
    >>> y = np.random.default_rng(0).standard_normal(1000)
    >>> found = tc.forecasts.pit(y, tc.forecasts.normal(np.zeros(1000), np.ones(1000)))
    >>> {level: round(share, 1) for level, share in found.coverage.items()}
    {0.5: 0.5, 0.8: 0.8, 0.9: 0.9}
    """
    made = forecast if isinstance(forecast, Forecast) else ScipyForecast(forecast)
    y = np.asarray(as_array(y_true, "y_true"), dtype=np.float64)
    check_same_length(y_true=y, forecast=np.empty(len(made)))
    points = np.column_stack([np.nextafter(y, -np.inf), y])
    low, high = made.at(points).T
    value = (low + high) / 2
    bins = check_positive_int(n_bins, "n_bins")
    shares = np.bincount(np.minimum((value * bins).astype(int), bins - 1), minlength=bins) / len(y)
    tails = {level: ((1 - level) / 2, (1 + level) / 2) for level in LEVELS}
    if isinstance(made, Quantiles):  # beyond the outer quantiles nothing is said
        least, most = made.levels[0] - 1e-9, made.levels[-1] + 1e-9
        tails = {level: (a, b) for level, (a, b) in tails.items() if a >= least and b <= most}
    coverage = {level: float(((value >= a - 1e-9) & (value <= b + 1e-9)).mean()) for level, (a, b) in tails.items()}
    return Pit(shares, coverage, len(y))
