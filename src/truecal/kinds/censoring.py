"""Censored times: what is known of the outcome of each row at each horizon, and what it counts.

X = min(T, C) and Δ = 1[T ≤ C] are seen. At horizon t the outcome 1[T ≤ t] is known where the event came by then, which
counts 1/G(X−), and where X > t, which counts 1/G(t); G is the survival function of C. With the true G the weight of a
row has mean 1 given its covariates, whatever the outcome (Graf et al. 1999, Gerds and Schumacher 2006). Of equal times
events come before censoring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.arrays import on_cpu
from ..core.data import as_array, check_report_table, check_same_length, shown
from ..core.frames import columns_of, has_columns
from ..core.types import Array

ONE_EVENT = "competing risks are not supported: code the event of interest as 1 and end follow-up at other events"
FORMS = "y_true must be (time, event), (time, event, weights) or a structured array of a time and a bool"


@final
@dataclass(frozen=True, eq=False)
class Censored:
    """Times X, whether each ended in the event, the stratum of each row, and weights (n, horizons) where given."""

    time: Array
    event: Array
    stratum: Array
    weights: Array | None = None


def read_censored(y_true: Any, censoring_by: Any = None) -> Censored:
    """The times and events of every row, validated."""
    parts = _parts(y_true)
    time = np.asarray(as_array(on_cpu(parts[0]), "time"))
    if time.ndim != 1 or time.dtype.kind not in "biuf" or not time.size:
        raise ValueError(f"time must be numbers, one per row, got shape {time.shape} of {time.dtype}")
    time = time.astype(np.float64)
    if not (bad := np.isfinite(time) & (time >= 0)).all():
        row = int(np.argmin(bad))
        raise ValueError(f"time must be finite and not negative, got {time[row]:g} at row {row}")
    event = _events(parts[1])
    check_same_length(time=time, event=event)
    if not event.any() and len(parts) == 2:
        raise ValueError("event is 0 in every row: without an event nothing can be said of risks")
    stratum = np.zeros(len(time), dtype=np.intp)
    if censoring_by is not None:
        stratum = _strata(censoring_by, len(time))
    weights = None
    if len(parts) == 3:
        if censoring_by is not None:
            raise ValueError("censoring_by cannot be used: y_true has the weights already")
        weights = _given_weights(parts[2], len(time))
    return Censored(time, event, stratum, weights)


def _parts(y_true: Any) -> tuple[Any, ...]:
    """Time, event and perhaps weights, of any form."""
    names = getattr(getattr(y_true, "dtype", None), "names", None)
    if names is not None:  # as scikit-survival has them
        flags = [name for name in names if y_true[name].dtype.kind == "b"]
        rest = [name for name in names if name not in (*flags, "weights")]
        if len(rest) != 1 or len(flags) != 1:
            raise ValueError(f"{FORMS}; got the fields {', '.join(names)}")
        return tuple(y_true[name] for name in (*rest, *flags, *(name for name in names if name == "weights")))
    if not isinstance(y_true, (tuple, list)) or len(y_true) not in (2, 3):
        got = f"{len(y_true)} parts" if isinstance(y_true, (tuple, list)) else type(y_true).__name__
        raise ValueError(f"{FORMS}; got {got}")
    return tuple(y_true)


def _events(given: Any) -> Array:
    event = np.asarray(as_array(on_cpu(given), "event"))
    if event.ndim != 1 or event.dtype.kind not in "biuf":
        raise ValueError(f"event must be 0 or 1, one per row, got shape {event.shape} of {event.dtype}")
    if not (known := np.isin(event, (0, 1))).all():
        row = int(np.argmin(known))
        raise ValueError(f"event must be 0 (censored) or 1, got {event[row]} at row {row}; {ONE_EVENT}")
    return event.astype(bool)


def _strata(by: Any, n: int) -> Array:
    """The number of the stratum of each row; several columns are taken together."""
    columns = [values for _, values in columns_of(by)] if has_columns(by) else [by]
    codes = []
    for values in columns:
        array = as_array(on_cpu(values), "censoring_by")
        if array.shape != (n,):
            raise ValueError(f"censoring_by must give one stratum per row, shape ({n},), got shape {array.shape}")
        codes.append(np.unique(array, return_inverse=True)[1].reshape(-1))
    return np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].reshape(-1)


def _given_weights(given: Any, n: int) -> Array:
    weights = np.asarray(as_array(on_cpu(given), "weights"))
    if weights.dtype.kind not in "biuf" or weights.ndim not in (1, 2) or len(weights) != n:
        raise ValueError(f"weights of y_true must be numbers (n, horizons), got shape {weights.shape}")
    weights = weights.astype(np.float64).reshape(n, -1)
    if not (good := np.isfinite(weights) & (weights >= 0)).all():
        row, column = np.argwhere(~good)[0]
        raise ValueError(f"weights of y_true must be finite and not negative, got {weights[row, column]} at row {row}")
    return weights


# -- curves ------------------------------------------------------------------------------------------------------------


def steps(time: Array, ends: Array, w: Array, others_first: bool) -> tuple[Array, Array]:
    """Times and the Kaplan-Meier estimate from each on; `others_first`: of equal times the other ends come before."""
    values, place = np.unique(time, return_inverse=True)
    total, ended = (np.bincount(place.reshape(-1), x, len(values)) for x in (w, w * ends))
    at_risk = total[::-1].cumsum()[::-1] - (total - ended if others_first else 0.0)
    share = np.divide(ended, at_risk, out=np.zeros(len(values)), where=ended > 0)
    return values, np.cumprod(1 - np.minimum(share, 1.0))


def value_at(curve: tuple[Array, Array], t: Any, before: bool = False) -> Array:
    """A step function at times, or just before them."""
    at = np.searchsorted(curve[0], t, side="left" if before else "right")
    return np.asarray(np.append(1.0, curve[1])[at])


def event_share(time: Array, event: Array, w: Array, horizons: Array) -> Array:
    """The Kaplan-Meier estimate of P(T ≤ t) at each horizon; NaN without rows."""
    if not len(time):
        return np.full(len(horizons), np.nan)
    return np.asarray(1 - value_at(steps(time, event, w, others_first=False), horizons))


# -- outcomes at horizons ----------------------------------------------------------------------------------------------


def outcomes(given: Censored, horizons: tuple[float, ...], w: Array) -> Array:
    """One record per row: time, event, stratum; and at each horizon, which is there as well, whether the event came,
    what the outcome counts (0 where it is unknown), and the weighted mean of that in the stratum, of events and others.
    """
    n, at = len(given.time), np.asarray(horizons)
    many = (len(at),)
    fields: list[Any] = [("time", "f8"), ("event", "?"), ("stratum", "i8"), ("came", "?", many)]
    fields += [(name, "f8", many) for name in ("counts", "early", "late", "at")]
    out = np.zeros(n, dtype=fields)
    out["at"] = at
    out["time"], out["event"], out["stratum"] = given.time, given.event, given.stratum
    out["came"] = (given.time[:, None] <= at) & given.event[:, None]
    known = out["came"] | (given.time[:, None] > at)
    if given.weights is None:
        refuse_horizons(given, at)
    else:
        if given.weights.shape[1] != len(at):
            raise ValueError(f"weights of y_true have {given.weights.shape[1]} columns for {len(at)} horizons")
        out["counts"] = np.where(known, given.weights, 0.0)
    for s in range(int(given.stratum.max()) + 1):
        rows = given.stratum == s
        if given.weights is None:
            time, event = given.time[rows], given.event[rows]
            G = steps(time, ~event, w[rows], others_first=True)
            with np.errstate(divide="ignore"):
                weight = 1 / np.where(out["came"][rows], value_at(G, time, before=True)[:, None], value_at(G, at))
            out["counts"][rows] = np.where(known[rows], weight, 0.0)
        for name, chosen in (("early", out["came"][rows]), ("late", ~out["came"][rows])):
            c = out["counts"][rows] * chosen * w[rows][:, None]
            total = c.sum(axis=0)
            mean = np.divide((c * out["counts"][rows]).sum(axis=0), total, out=np.ones(len(at)), where=total > 0)
            out[name][rows] = np.maximum(mean, 1.0)
    return out


def refuse_horizons(given: Censored, at: Array) -> None:
    """Raise for a horizon after the last event, or at which some stratum has only censored rows left behind."""
    most = float(given.time[given.event].max())
    for s in range(int(given.stratum.max()) + 1):
        rows = given.stratum == s
        time, event = given.time[rows], given.event[rows]
        last = time == time.max()
        if not event[last].all():  # the estimate of G ends at 0
            earlier = time[~last]
            most = min(most, float(earlier.max()) if len(earlier) else 0.0)
    if at[-1] > most:
        several = " in every stratum of censoring_by" if int(given.stratum.max()) else ""
        raise ValueError(
            f"horizon {at[-1]:g} is beyond what the times show: the largest usable horizon{several} is {most:g}"
        )


def check_horizons(horizons: Any) -> tuple[float, ...]:
    """Increasing positive numbers."""
    values = np.atleast_1d(np.asarray(as_array(horizons, "horizons")))
    good = values.ndim == 1 and values.dtype.kind in "biuf" and bool(values.size) and bool(np.isfinite(values).all())
    if not good or values[0] <= 0 or not (np.diff(values.astype(np.float64)) > 0).all():
        raise ValueError(f"horizons must be increasing positive times, such as [1, 2, 5], got {shown(horizons)}")
    return tuple(values.astype(np.float64).tolist())


# -- predictions -------------------------------------------------------------------------------------------------------


def read_risks(y_proba: Any, horizons: tuple[float, ...], n: int, survival: bool) -> Array:
    """P(T ≤ t) of every row at each horizon, from risks or from survival functions."""
    y_proba = on_cpu(y_proba)
    given = 1 - _survival(y_proba, np.asarray(horizons), n) if survival else y_proba
    if _has_functions(given):
        raise TypeError("y_proba holds functions: pass survival=True if they are survival functions")
    table = np.asarray(as_array(given, "y_proba"))
    if table.ndim == 1 and len(horizons) == 1 and table.dtype.kind in "biuf":
        table = table[:, None]
    if table.ndim != 2 or table.shape[1] != len(horizons):
        raise ValueError(
            f"y_proba has shape {table.shape}: expected the risk of each row at each of {len(horizons)} horizons, "
            f"({n}, {len(horizons)})"
        )
    risks = check_report_table(table, "y_proba")
    falls = np.diff(risks.astype(np.float64), axis=1) < -1e-6
    if not survival and falls.size and falls.any(axis=1).mean() > 0.5:
        raise ValueError("y_proba falls with the horizon: pass survival=True if it holds survival functions")
    return risks


def _has_functions(y_proba: Any) -> bool:
    several = isinstance(y_proba, (list, tuple)) or getattr(getattr(y_proba, "dtype", None), "kind", "") == "O"
    return several and getattr(y_proba, "ndim", 1) == 1 and len(y_proba) > 0 and callable(y_proba[0])


def _survival(y_proba: Any, at: Array, n: int) -> Array:
    """S(t): of step functions, of a table with times as its index and a column per row, or as given (n, horizons)."""
    if _has_functions(y_proba):
        try:
            return np.array([[float(function(t)) for t in at] for function in y_proba])
        except ValueError as error:
            raise ValueError(f"a survival function of y_proba is not defined at every horizon: {error}") from error
    index, shape = getattr(y_proba, "index", None), tuple(getattr(y_proba, "shape", ()))
    if index is not None and not callable(index) and len(shape) == 2 and shape[1] == n and shape != (n, len(at)):
        times = np.asarray(index, dtype=np.float64)
        if not (np.diff(times) > 0).all():
            raise ValueError("y_proba must have increasing times as its index, and a column per row")
        if at[-1] > times[-1]:
            raise ValueError(f"y_proba ends at {times[-1]:g}: horizon {at[-1]:g} is beyond its last time")
        rows = np.asarray(y_proba, dtype=np.float64)
        return np.vstack([np.ones((1, n)), rows])[np.searchsorted(times, at, side="right")].T
    return np.asarray(as_array(y_proba, "y_proba"), dtype=np.float64)
