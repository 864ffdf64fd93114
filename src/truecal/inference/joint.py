"""The joint test of several forms: its p-value, the strongest violation, and how far off predictions are at least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaincc, gammainccinv

from ..core.types import Array
from .calibration_result import FormDetail
from .forms import Form
from .null import draws_pvalue

ALL_CLASSES = " over all classes"
"""What the temperature is about: not the confidence alone, whose gap is printed."""
SMALLEST = 0.01
"""A form that rejects shows this share of its size or more."""
_CERTAIN = 11.5  # −log of 1e-5: of smooth p-values below it there is no telling which form is farther off


@dataclass(frozen=True, eq=False)
class JointTest:
    """Statistics of several forms, (1 + draws, forms), first of the observed outcomes, then of the draws."""

    values: Array
    forms: tuple[Form, ...]
    level: float

    @cached_property
    def evidence(self) -> Array:
        """The evidence of every row and form."""
        return combined(self.values, self.forms)

    @cached_property
    def pvalue(self) -> float:
        """The share of rows whose largest evidence is at least the observed one."""
        largest = self.evidence.max(axis=1)
        return draws_pvalue(float(largest[0]), largest[1:])

    @property
    def rejects(self) -> bool:
        """Whether the p-value is at most 1 − level."""
        return self.pvalue <= 1 - self.level

    @cached_property
    def best(self) -> int:
        """The form with the strongest violation."""
        return farthest(self.evidence[0], self.forms)

    @cached_property
    def tails(self) -> Array:
        """The p-value of each form from which the joint test rejects."""
        limit = critical(self.evidence.max(axis=1)[1:], self.level)
        return np.asarray(np.minimum(np.array([form.share for form in self.forms]) * np.exp(-limit), 1.0))

    def least(
        self,
        points: Array | Sequence[float],
        dispersion: Array | float = 1.0,
        noise: Array | float = 0.0,
        shares: Mapping[int, float] | None = None,
    ) -> Array:
        """How many points the probabilities are off at least by each form that rejects; 0 by the others.

        By the triangle inequality: its size in points, times one less the ratio of the norm from which it rejects and
        that observed; where outcomes vary more than if calibrated the former is larger by as much. `noise` is what the
        statistics are lower by than a square of that norm, and `shares` replaces the last factor of some forms.
        """
        draws = self.values[1:]
        mean, sd = draws.mean(axis=0), np.maximum(draws.std(axis=0), 1e-300)
        shape = 4 / np.square(np.clip((((draws - mean) / sd) ** 3).mean(axis=0), 0.05, None))
        limit = mean + (gammainccinv(shape, self.tails) - shape) / np.sqrt(shape) * sd
        limit, seen = np.maximum(limit + noise, 0.0), self.values[0] + noise
        share = 1 - np.sqrt(limit * dispersion / np.maximum(seen, 1e-300))
        for place, other in (shares or {}).items():
            share[place] = other
        return np.asarray(np.where(seen > limit, points * np.clip(share, SMALLEST, 1.0), 0.0))

    def details(self, low: Array) -> tuple[FormDetail, ...]:
        """Every form with its own p-value, and by how many points it is off at least."""
        found = [
            FormDetail(form.name, draws_pvalue(column[0], column[1:]), low=float(least))
            for form, column, least in zip(self.forms, self.values.T, low, strict=True)
        ]
        return tuple(found)


def combined(values: Array, forms: tuple[Form, ...]) -> Array:
    """(rows, forms): the evidence of each form, −log of its smooth p-value plus the log of its share.

    The p-value of a row is that under a shifted gamma distribution (Pearson III) with mean, sd and skewness of the
    other rows, observed and drawn: all rows are treated alike, so the largest over forms has an exact test, and a row
    far from all others does not hide behind moments that it has made itself.
    """
    others = len(values) - 1
    centred = values - values.mean(axis=0)
    least = 1e-10 * np.maximum(np.abs(values).max(axis=0), 1e-300)
    moves = np.sqrt(np.square(centred).mean(axis=0)) > least
    scaled = np.where(moves, centred / np.where(moves, np.abs(centred).max(axis=0), 1.0), 0.0)
    mean, second, third = [(np.sum(scaled**r, axis=0) - scaled**r) / others for r in (1, 2, 3)]
    variance = np.maximum(second - mean**2, 1e-20)
    skew = (third - 3 * mean * second + 2 * mean**3) / variance**1.5
    shape = 4 / np.square(np.clip(skew, 0.05, None))
    tail = gammaincc(shape, np.maximum(shape + (scaled - mean) / np.sqrt(variance) * np.sqrt(shape), 0.0))
    small = np.where(moves, np.maximum(tail, 1e-300), 1.0)
    return np.asarray(-np.log(small) + np.log([form.share for form in forms]))


def farthest(evidence: Array, forms: tuple[Form, ...]) -> int:
    """The form with the strongest violation; of those beyond all doubt, the first with the largest share."""
    share = np.log([form.share for form in forms])
    return int(np.argmax(np.minimum(evidence - share, _CERTAIN) + share))


def critical(drawn: Array, level: float) -> float:
    """The test rejects at p ≤ 1 − level where the observed value is larger than this one of the drawn values."""
    rank = int((1 - level) * (1 + len(drawn)) + 1e-9)
    return float(np.sort(drawn)[-min(rank, len(drawn))]) if rank else np.inf


def words(name: str, sign: float) -> str:
    """The violation of a form in plain words; `sign` is that of the sum behind it."""
    high = "high" if sign > 0 else "low"
    over = "over-confident" if sign > 0 else "under-confident"
    if name == "mean":
        return f"probabilities are too {high} overall"
    if name == "slope":
        return "probabilities are too extreme" if sign > 0 else "probabilities are not extreme enough"
    if name in ("temperature", "confidence: mean"):
        return over
    if name == "confidence: slope":
        return "high confidence is too high" if sign > 0 else "high confidence is too low"
    if name == "class frequencies":
        return "some classes are predicted too often, others too rarely"
    what = "confidence and accuracy" if name.startswith("confidence") else "probabilities and outcomes"
    return f"{what} differ ({name.removeprefix('confidence: ')})"


def reason_of(strongest: str, low: float) -> str:
    """A violation with the points that it shows at least."""
    return strongest if low < 0.05 else f"{strongest}, by at least {low:.1f} points"


def violation(name: str, strongest: str, low: float, rates: Array | None, classes: Sequence[str] | None) -> str:
    """The strongest violation with its points: of class frequencies the class that is farthest off.

    `rates`: per class, mean prediction less frequency. `classes`: their names.
    """
    if name != "class frequencies" or rates is None:
        return reason_of(strongest + ALL_CLASSES * (name == "temperature"), low)
    j = int(abs(rates).argmax())
    label = str(j) if classes is None else f'"{classes[j]}"'
    return f"class {label} is {100 * abs(rates[j]):.1f} points too {'high' if rates[j] > 0 else 'low'}"
