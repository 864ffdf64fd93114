"""Survival: the predicted chance of an event by each horizon, against what censored times show of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.data import check_report_table, check_same_length, check_weights
from ..core.properties import Property
from ..core.sample import Sample, unit_weights
from ..core.types import Array
from .censoring import check_horizons, event_share, outcomes, read_censored, read_risks
from .inputs import Inputs
from .kind import Given, Kind, LossTable, Scale

LOSS = "ipcw_brier"
NO_HORIZONS = "horizons must be given: the times at which risks are predicted, such as horizons=[1, 2, 5]"


class _OfTimes(Property):
    """Abstract: a property of censored times and risks at horizons."""

    of_classes = False
    horizons: tuple[float, ...] = ()

    @property
    def shares(self) -> Array | None:  # type: ignore[override]  # known only with the horizons
        """What each horizon counts in the integral over them by the trapezoid rule, 1 on average."""
        if len(self.horizons) < 3:
            return None
        steps = np.diff(self.horizons)
        widths = (np.append(0.0, steps) + np.append(steps, 0.0)) / 2
        return None if (widths == widths[0]).all() else np.asarray(widths / widths.mean())

    def check(self, y_true: Any, y_proba: Any, labels: Any = None) -> tuple[Array, Array]:
        return self.given(Given(y_true, y_proba, labels))[:2]

    def read(self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None) -> Sample:
        """Rows with weights count in the estimate of the censoring as well."""
        return self.sample(*self.given(Given(y_true, y_proba, labels, sample_weight=sample_weight)))

    def given(self, given: Given) -> tuple[Array, Array, Array | None]:
        """What is known of each row at each horizon, the risks, and the weights of rows."""
        if not self.horizons:
            raise ValueError(f"error cannot be measured without horizons: {NO_HORIZONS}")
        for name in ("labels", "thresholds"):
            if getattr(given, name) is not None:
                raise ValueError(f"{name} cannot be used with horizons: outcomes are times")
        times = read_censored(given.y_true, given.censoring_by)
        n = len(times.time)
        reports = read_risks(given.y_proba, self.horizons, n, given.survival)
        check_same_length(time=times.time, y_proba=reports)
        weights = check_weights(given.sample_weight, n)
        return outcomes(times, self.horizons, np.ones(n) if weights is None else weights), reports, weights


@final
@dataclass(frozen=True)
class Survival(_OfTimes):
    """A view per horizon t: the risk u of an event by t, against 1[T ≤ t] where it is known, weighted by censoring.

    A known outcome y counts w, the inverse chance of being known, and the residual is w(u − y). That is u − φ with the
    outcome φ = u − w(u − y), which has mean P(T ≤ t) for every report where the censoring is known. The loss w(u − y)²
    is the IPCW Brier score (Graf et al. 1999), for three or more horizons integrated over them. With an estimated
    censoring distribution all this holds in the limit.
    """

    horizons: tuple[float, ...] = ()
    kind = "survival"
    label_by_label = True
    per_view = True
    corrects = True
    in_order = True
    loss_name = LOSS
    notion = "per-horizon"
    noun = "horizon"
    asks = "the event by each horizon, of censored times"
    residual_text = "w(u − 1[T ≤ t])"
    mean_text = "the mean over horizons t of "
    loss_text = "w²(u − 1[T ≤ t])²"
    correction_text = "n⁻² Σ(w − w²)(u − 1[T ≤ t])²"
    corrected_loss_text = "IPCW Brier w(u − 1[T ≤ t])²"
    corrected_reason = (
        "squared bin sums plus a correction after which its loss is the IPCW Brier score, which is proper"
    )
    uncorrected_reason = "squares of weights favour extreme risks: the correction repairs this"

    def __init__(self, horizons: Any = ()) -> None:
        object.__setattr__(self, "horizons", check_horizons(horizons) if np.size(horizons) else ())

    def symbol(self, name: str) -> str:
        return f"Lin{name}_survival"

    def at_thresholds(self, thresholds: tuple[float, ...]) -> Property:
        return Survival(thresholds)

    def views(self, classes: int) -> int:
        return classes

    def direction_property(self) -> Property:
        return MeanRisk(self.horizons)

    def view_name(self, j: int, names: Sequence[str] | None = None) -> str:
        return f"by {self.horizons[j]:g}" if names is None else f"by {names[j]}"

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        u, w = reports.astype(np.float64), y["counts"]
        residual = w * (u - y["came"])
        shares = 1.0 if self.shares is None else self.shares
        beyond = (shares * (w - w * w) * np.square(u - y["came"])).mean(axis=1)
        return Sample(
            self.kind,
            reports,
            values=np.where(w == 1, y["came"], u - residual),
            variance=u * (1 - u) * ((1 - u) * y["early"] + u * y["late"]),
            wrong=beyond,
            shares=self.shares,
            distributions=u,
            labels=y,
            **unit_weights(weights),
        )

    def observed(self, sample: Sample, rows: Array) -> Array:
        """The Kaplan-Meier estimate of the event by each horizon among some rows."""
        assert sample.labels is not None
        y = sample.labels[rows]
        return event_share(y["time"], y["event"], sample.row_weights[rows], np.asarray(self.horizons))


@final
@dataclass(frozen=True)
class MeanRisk(_OfTimes):
    """The mean risk over the horizons, weighted as in the integrated loss: what "too high" is about."""

    horizons: tuple[float, ...] = ()
    kind = "mean risk"

    def direction_property(self) -> Property:
        return self

    def sample(self, y: Array, reports: Array, weights: Array | None = None) -> Sample:
        each = Survival(self.horizons).sample(y, reports, weights)
        assert each.values is not None and each.variance is not None
        shares = np.ones(each.views) if self.shares is None else self.shares
        mean, came = (np.asarray(x.astype(np.float64) @ shares / each.views) for x in (reports, each.values))
        about: dict[str, Any] = {"distributions": reports, "labels": y} | unit_weights(weights)
        one = each.views == 1
        return Sample(self.kind, mean, values=came, variance=each.variance[:, 0] if one else None, event=one, **about)


class SurvivalKind(Kind):
    """A column per horizon: the risk of an event by then, of rows whose times may be censored."""

    name = "survival"
    task = "survival"
    properties = (Survival,)
    segment_errors = ("survival",)
    usual_ece = None
    class_losses = False
    ranks_confidence = False
    row_signs = True
    columns = "horizons"
    note = (
        "the censoring is estimated, so that tests and intervals need many rows; pass censoring_by= if it depends on "
        "columns"
    )

    def claims(self, given: Given) -> bool:
        return given.horizons is not None or given.task == self.task

    def read(self, given: Given) -> Inputs:
        if given.horizons is None:
            raise ValueError(NO_HORIZONS)
        if given.task not in ("auto", self.task):
            raise ValueError(f"horizons cannot be used with task={given.task!r}")
        property = Survival(given.horizons)
        return Inputs(self, *property.given(given), thresholds=property.horizons)

    def basics(self, thresholds: tuple[float, ...] = ()) -> tuple[Property, ...]:
        return (MeanRisk(thresholds),)

    def check_reports(self, reports: Any) -> Array:
        return check_report_table(reports, "y_proba")

    def outcomes(self, y: Array) -> list[Array]:
        return [y["event"], *y["came"].T]

    def loss_tables(self, inputs: Inputs) -> Iterator[LossTable]:
        y, u = inputs.y, inputs.reports.astype(np.float64)
        rows = y["counts"] * np.square(u - y["came"])
        shares = Survival(inputs.thresholds).shares
        yield LossTable(LOSS, u, LOSS, value=(rows if shares is None else rows * shares).mean(axis=1), shares=shares)
        for j, t in enumerate(inputs.thresholds):
            yield LossTable(f"{LOSS}_at_{t:g}", u[:, [j]], LOSS, value=rows[:, j])

    def scale(self, thresholds: tuple[float, ...], labels: Sequence[str] | None, classes: int) -> Scale | None:
        several = f" on average over {len(thresholds)} horizons"
        return Scale(0.0, 1.0, f" by {thresholds[0]:g}" if len(thresholds) == 1 else several)

    def says_text(self, predicted: float, observed: float, scale: Scale | None = None) -> str:
        return f"says {predicted:.1%}, happens {observed:.1%}{'' if scale is None else scale.about}"

    def rates_text(self, predicted: float, observed: float, scale: Scale | None = None) -> str:
        about = "" if scale is None else scale.about
        return f"On average it says {predicted:.1%}, and that happens {observed:.1%} of the time{about}"

    def width_text(self, n_classes: int | None) -> str:
        return f"{n_classes} horizon{'s' * (n_classes != 1)}"

    def view_names(self, thresholds: Sequence[float], labels: Sequence[str] | None) -> tuple[str, ...] | None:
        return tuple(f"{t:g}" for t in thresholds)


SURVIVAL = SurvivalKind()
