"""Advise a repair of predictions that have drifted (offset, temperature, both, refit), and store maps as JSON files.

Nested maps of the predictions are fitted on recent rows by cross-entropy, in five folds, and compared by that of
rows that a fold has not seen. The simplest map that no other beats by more than the standard error of their difference
is advised.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np
from scipy.special import expit, logit, logsumexp, softmax

from ..core.data import as_array, both_classes, check_probabilities, check_reports, shown
from ..core.extras import require
from ..core.parameters import described
from ..core.result import Pictured, Result, clean
from ..core.types import Array
from ..io.writing import write_atomic
from ..kinds import KINDS
from ..kinds.functions import score
from ..kinds.inputs import Inputs
from .gaps import gap
from .mean_losses import IntervalEstimate, loss_values, mean_interval

FEWEST = 100
"""With fewer rows no map is advised."""
MOST, FEW, MOST_NUMBERS = 20_000, 1000, 1_000_000
"""Of more rows the last so many count, of many classes fewer."""
FOLDS = 5
NONE, OFFSET, TEMPERATURE, BOTH, REFIT = "none", "offset", "temperature", "temperature and offset", "refit"
_FORMAT, _VERSION = "truecal map", 1
_LARGEST_FILE = 1 << 24
_STEEP, _FAR = (0.05, 20.0), (-8.0, 8.0)
LEAST_PROBABILITY = 1e-12
ONE_STANDARD_ERROR = 0.6827
"""The level of an interval of one standard error."""
_LARGEST, _MOST_CLASSES = 1e9, 1_000_000  # of maps that are read


@final
@dataclass(frozen=True, repr=False, eq=False)
class PredictionMap(Result):
    """A map of predictions: log p_j goes to slope_j·log p_j + offset_j; of one probability, its logit; or knots.

    `slopes` and `offsets` have one entry for all classes or one per class; one probability per row has one of each.
    With `knots`, pairs (prediction, probability), the map is linear between them.
    """

    name: str
    kind: str
    n_classes: int
    slopes: tuple[float, ...] = (1.0,)
    offsets: tuple[float, ...] = (0.0,)
    knots: tuple[tuple[float, float], ...] = ()

    def predict_proba(self, y_proba: Any) -> Array:
        """Predictions after the map, in the form they come in: (n,) probabilities or (n, k)."""
        array = as_array(y_proba, "y_proba")
        if KINDS[self.kind].over_classes:
            p = check_probabilities(array)
            if p.shape[1] != self.n_classes:
                raise ValueError(f"the map is for {self.n_classes} classes, y_proba has {p.shape[1]} columns")
            return self.apply(p)
        if array.ndim == 2 and array.shape[1] == 2 and KINDS[self.kind].one_event:
            return both_classes(self.apply(check_probabilities(array)[:, 1]))
        return self.apply(check_reports(array, "y_proba"))

    def apply(self, p: Array) -> Array:
        """The map of validated predictions."""
        p = p.astype(np.float64)
        if self.knots:
            x, y = zip(*self.knots, strict=True)
            return np.asarray(np.interp(p, x, y))
        if p.ndim == 1:
            return with_line(p, self.slopes[0], self.offsets[0])
        return np.asarray(softmax(np.array(self.slopes) * _logs(p) + np.array(self.offsets), axis=1))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the map as JSON, whole or not at all; `load_map` reads it."""
        about = {"format": _FORMAT, "version": _VERSION}
        write_atomic(path, json.dumps(about | self.to_dict(), indent=1, allow_nan=False) + "\n")

    @property
    def text(self) -> str:
        """The map in a few words."""
        if self.name == TEMPERATURE:
            return f"a temperature of {1 / self.slopes[0]:.3g}"
        if self.name == OFFSET and len(self.offsets) == 1:
            return f"an offset of {self.offsets[0]:+.3g} (logits)"
        if self.name == BOTH and len(self.offsets) == 1:
            return f"a temperature of {1 / self.slopes[0]:.3g} and an offset of {self.offsets[0]:+.3g} (logits)"
        words = {OFFSET: "an offset per class", BOTH: "a temperature and an offset per class", NONE: "no map"}
        return words.get(self.name, "a refit")

    def __repr__(self) -> str:
        return f"map of {self.kind} predictions: {self.text}"


@described("A map with `predict_proba`.", path="A file that a map was saved to.")
def load_map(path: str | os.PathLike[str]) -> PredictionMap:
    """Read a map of predictions from JSON, as `truecal monitor --fix map.json` writes it.

    >>> import pathlib, tempfile
    >>> import truecal as tc
    >>> from truecal.inference.repair import PredictionMap
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     PredictionMap("temperature", "binary", 2, slopes=(.5,)).save(pathlib.Path(folder, "map.json"))
    ...     fixed = tc.load_map(pathlib.Path(folder, "map.json"))
    >>> fixed, fixed.predict_proba([.9, .5]).round(3).tolist()
    (map of binary predictions: a temperature of 2, [0.75, 0.5])
    """
    try:
        place = os.fsdecode(path)
    except TypeError as error:
        raise TypeError(f"path must be the name of a file, got {shown(path)}") from error
    try:
        with open(place, "rb") as stream:
            text = stream.read(_LARGEST_FILE + 1)
        if len(text) > _LARGEST_FILE:
            raise ValueError("it is too large for a map")
        return _read(json.loads(text))
    except OSError as error:
        raise ValueError(f"path {shown(clean(place))} cannot be read ({error.strerror or error})") from error
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        why = clean(error) if isinstance(error, ValueError) else "fields are missing or of another kind"
        raise ValueError(f"path {clean(place)}: expected a map as truecal writes it ({why})") from error


def _read(about: Any) -> PredictionMap:
    if about["format"] != _FORMAT or about["version"] != _VERSION:
        raise ValueError(f"format {shown(about['format'])}, version {shown(about['version'])}")
    slopes, offsets = (tuple(float(x) for x in about[name]) for name in ("slopes", "offsets"))
    knots = tuple((float(x), float(y)) for x, y in about["knots"])
    found = PredictionMap(str(about["name"]), about["kind"], int(about["n_classes"]), slopes, offsets, knots)
    several = found.n_classes if KINDS[found.kind].over_classes else 1
    values = np.array([*slopes, *offsets, *(x for pair in knots for x in pair)])
    sound = np.isfinite(values).all() and np.abs(values).max() <= _LARGEST and all(slopes)
    if found.kind not in KINDS or not 2 <= found.n_classes <= _MOST_CLASSES or not sound:
        raise ValueError("numbers or a kind that no map has")
    if {len(slopes), len(offsets)} - {1, several} or (knots and KINDS[found.kind].over_classes):
        raise ValueError(f"one slope and offset, or {several} of each, are expected")
    places = np.array(knots).reshape(-1, 2)
    if knots and (not (np.diff(places[:, 0]) > 0).all() or places.min() < 0 or places.max() > 1):
        raise ValueError("knots must rise between 0 and 1")
    return found


# -- advice ------------------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, repr=False, eq=False)
class Candidate(Result):
    """One map: the score of unseen rows after it, and the gap that is left in points, with its interval."""

    name: str
    score: float
    gap: float
    low: float
    high: float
    note: str = ""

    def __repr__(self) -> str:
        text = f"{self.name}: score {self.score:.4f}, gap left {_points(self.gap)} points"
        return f"{text} [{_points(self.low)}, {_points(self.high)}]"


@final
@dataclass(frozen=True, repr=False, eq=False)
class Repair(Pictured):
    """Which map repairs the predictions of recent rows: `best` by the log loss, `map` fitted on all of them."""

    best: str
    map: PredictionMap
    candidates: tuple[Candidate, ...]
    n_samples: int
    skipped: int
    """How many rows before the estimated change were left out."""
    text: str
    """The map in a few words, with standard errors."""
    derived = ("sentence",)

    def candidate(self, name: str) -> Candidate:
        """One of the candidates by its name."""
        return next(candidate for candidate in self.candidates if candidate.name == name)

    @property
    def sentence(self) -> str:
        """The advice in one sentence."""
        before, after = self.candidate(NONE), self.candidate(self.best)
        if self.best == NONE:
            return f"No map helps on the last {self.n_samples} rows{self._since}: score {before.score:.4f} as it is."
        left = f"gap {_points(before.gap)} → {_points(after.gap)} points [{_points(after.low)}, {_points(after.high)}]"
        change = f"{left}, score {before.score:.4f} → {after.score:.4f} on the last {self.n_samples} rows{self._since}"
        if self.best == REFIT:
            both = self.candidate(BOTH)
            return (
                f"Refit: temperature and offset leave a gap of {_points(both.gap)} points; a new map has {change}. "
                "Retrain the model if its inputs have changed."
            )
        more = " The remaining gap is still significant: plan a refit." if after.low > 0 and not after.note else ""
        return f"Apply {self.text}: {change}.{more}"

    @property
    def _since(self) -> str:
        return ", those after the estimated change" if self.skipped else ""

    def to_pandas(self) -> Any:
        """One row per candidate."""
        return require("pandas", "pandas").DataFrame([candidate.to_dict() for candidate in self.candidates])

    def __repr__(self) -> str:
        return "\n".join([self.sentence, *(f"  {candidate!r}" for candidate in self.candidates)])


def _points(value: float) -> str:
    return f"{max(0.0, value):.1f}"


class TooFewRowsError(ValueError):
    """Too few rows to advise a map."""


def latest(inputs: Inputs) -> Inputs:
    """The last rows of predictions, as many as a map is fitted to."""
    inputs.check_one_label("advice")
    most = min(MOST, max(FEW, MOST_NUMBERS // (inputs.n_classes or 2)))
    return inputs.take(slice(max(0, inputs.n_samples - most), None))


def repair_of(inputs: Inputs, start: int = 0) -> Repair:
    """The map that is advised for validated predictions, the last rows of them from row `start` on."""
    inputs = latest(inputs)
    inputs = inputs.take(slice(start, None))
    n = inputs.n_samples
    if n < FEWEST:
        since = f" after the estimated change (row {start} of the last {n + start})" if start else ""
        raise TooFewRowsError(f"at least {FEWEST} rows{since} are needed, got {n}")
    y, p = inputs.y.astype(np.intp), inputs.reports.astype(np.float64)
    error = inputs.kind.segment_errors[0] if inputs.kind.top_only else None
    fold = np.random.default_rng(0).permutation(n) % FOLDS
    fits, predictions, candidates = _fits(inputs.kind.name), [], []
    for name, fit in fits.items():
        after = p.copy()
        for f in range(FOLDS if name != NONE else 0):
            after[fold == f] = fit(y[fold != f], p[fold != f]).apply(p[fold == f])
        predictions.append(after)
        left = gap(y, after, error=error)
        value = float(score(y, after, error=error))
        candidates.append(Candidate(name, value, left.points, left.low, left.high, left.note))
    best = int(np.argmax([gain_of(y, p, after, nats).estimate for after in predictions]))
    worse = [gain_of(y, after, predictions[best], nats).low > 0 for after in predictions[:best]]
    name = candidates[worse.index(False) if False in worse else best].name  # the simplest that is not clearly worse
    fitted = fits[name](y, p)
    return Repair(name, fitted, tuple(candidates), n, start, _map_text(fitted, p))


def gain_of(
    y: Array, before: Array, after: Array, loss: Callable[[Array], Array], weight: Array | None = None
) -> IntervalEstimate:
    """The mean gain in a loss, with its interval of one standard error.

    The interval counts surprises that have not come. Without them, a map that calls a rare event impossible gains a
    little in every row seen.
    """
    return mean_interval(loss_values(y, before, after, loss), weight, None, ONE_STANDARD_ERROR)


def nats(p: Array) -> Array:
    """The log loss of every label, of at most 27.6 nats."""
    return np.asarray(-np.log(np.maximum(p, LEAST_PROBABILITY)))


# -- fits --------------------------------------------------------------------------------------------------------------

Fit = Callable[[Array, Array], PredictionMap]


def _fits(kind: str) -> dict[str, Fit]:
    """Return the function that fits each map to labels and predictions, the simplest map first."""
    free = {NONE: (False, False), TEMPERATURE: (True, False), OFFSET: (False, True), BOTH: (True, True)}
    fits: dict[str, Fit] = {}
    if KINDS[kind].over_classes:
        fits |= {name: partial(_fit_classes, name, kind, *free[name]) for name in free}
        return fits | {REFIT: partial(_fit_classes, REFIT, kind, True, True, each=True)}

    def line(name: str, y: Array, p: Array) -> PredictionMap:
        slope, offset = fit_line(y, p, *free[name])
        return PredictionMap(name, kind, 2, (slope,), (offset,))

    fits |= {name: partial(line, name) for name in (NONE, OFFSET, TEMPERATURE, BOTH)}
    return fits | {REFIT: partial(_monotone, kind)}


def with_line(p: Array, slope: float, offset: float) -> Array:
    """The probabilities whose logits are slope·logit p + offset."""
    with np.errstate(divide="ignore"):
        return np.asarray(expit(slope * logit(p) + offset))


def _map_text(fitted: PredictionMap, p: Array) -> str:
    """The text of a map of rows; a temperature or an offset of one probability with its standard error."""
    if fitted.name == TEMPERATURE:
        x, b = (
            (logit(np.clip(p, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)) if p.ndim == 1 else _logs(p)),
            fitted.slopes[0],
        )
        q = fitted.apply(p)
        spread = x**2 * q * (1 - q) if p.ndim == 1 else (q * x**2).sum(axis=1) - (q * x).sum(axis=1) ** 2
        error = 1 / np.sqrt(max(float(spread.sum()), 1e-12)) / b**2
        return f"a temperature of {1 / b:.2g} ± {error:.1g}" if error < 1 / b else fitted.text
    return fitted.text


def fit_line(y: Array, p: Array, slope: bool, offset: bool) -> tuple[float, float]:
    """b and s of least cross-entropy in logit q = b·logit p + s, 1 and 0 where they are not to be fitted."""
    if not (slope or offset):
        return 1.0, 0.0
    x = np.clip(logit(np.clip(p, LEAST_PROBABILITY, 1 - LEAST_PROBABILITY)), -28, 28)

    def value(parameters: Array) -> tuple[float, Array]:
        b, s = parameters
        t = b * x + s
        off = (expit(t) - y) / len(y)
        pull = np.array([off @ x, off.sum()]) * [slope, offset]
        return float((np.logaddexp(0, t) - y * t).mean() + 1e-9 * (s * s)), pull + 2e-9 * np.array([0.0, s])

    b, s = _minimiser(value, np.array([1.0, 0.0]), 1, slope, offset).tolist()
    return b, s


def _fit_classes(
    name: str, kind: str, slope: bool, offset: bool, y: Array, p: Array, each: bool = False
) -> PredictionMap:
    """Slopes (one, or one per class) and offsets of least cross-entropy; offsets are drawn to 0 by one row's worth."""
    x, k, n = _logs(p), p.shape[1], len(y)
    rows, width = np.arange(n), k if each else 1

    def value(parameters: Array) -> tuple[float, Array]:
        b, s = parameters[:width], parameters[width:]
        t = b * x + s
        total = logsumexp(t, axis=1)
        off = np.exp(t - total[:, None])
        off[rows, y] -= 1
        by_class = np.einsum("ij,ij->j", off, x)
        pull_b = (by_class if each else by_class.sum(keepdims=True)) * slope
        pull_s = (off.sum(axis=0) + s) * offset
        loss = (total - t[rows, y]).sum() + 0.5 * float(s @ s)
        if each:
            loss, pull_b = loss + 0.5 * float((b - 1) @ (b - 1)), pull_b + (b - 1)
        return float(loss / n), np.concatenate([pull_b, pull_s]) / n

    found = np.concatenate([np.ones(width), np.zeros(k)])
    if slope or offset:
        found = _minimiser(value, found, width, slope, offset)
    return PredictionMap(name, kind, k, tuple(found[:width].tolist()), tuple(found[width:].tolist()))


def _minimiser(value: Callable[[Array], Any], start: Array, slopes: int, slope: bool, offset: bool) -> Array:
    """The slopes and offsets of least value; what is not fitted keeps its start."""
    from scipy.optimize import minimize  # which takes longer to load than most commands take

    bounds = [_STEEP if slope else (1.0, 1.0)] * slopes + [_FAR if offset else (0.0, 0.0)] * (len(start) - slopes)
    return np.asarray(minimize(value, start, jac=True, method="L-BFGS-B", bounds=bounds).x)


def _monotone(kind: str, y: Array, p: Array) -> PredictionMap:
    """Isotonic regression, linear between the means of its blocks and kept away from 0 and 1."""
    from scipy.optimize import isotonic_regression

    order = np.argsort(p, kind="stable")
    x, rate = p[order], isotonic_regression(y[order].astype(np.float64)).x
    block = np.append(0, np.cumsum(np.diff(rate) > 0))
    size = np.bincount(block)
    places, heights = np.bincount(block, x) / size, np.bincount(block, rate) / size
    least = 0.5 / len(y)
    kept = np.append(True, np.diff(places) > 1e-9)
    pairs = zip(places[kept].tolist(), np.clip(heights[kept], least, 1 - least).tolist(), strict=True)
    return PredictionMap(REFIT, kind, 2, knots=tuple(pairs))


def _logs(p: Array) -> Array:
    return np.log(np.maximum(p.astype(np.float64), LEAST_PROBABILITY))
