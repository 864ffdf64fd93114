"""Baseline: a measure of calibration known by its name, with its definition, its source and whether it is truthful."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, final

import numpy as np

from ..core.data import check_positive_int, check_seed, shown
from ..core.frames import matching_rows
from ..core.properties import Binary, Classwise, Confidence, Property, TopLabel
from ..core.sample import Sample
from ..core.types import Array

Measure = Callable[..., float]
"""A validated sample and options by name, to a number."""

SCALAR: tuple[type[Property], ...] = (Binary, Confidence, TopLabel, Classwise)
"""Properties of probabilities looked at one at a time; for `Classwise` the mean over classes is taken."""


@final
@dataclass(frozen=True)
class Baseline:
    """A measure of calibration that is not a property, a rule and a norm, or is better known by another name.

    Called as `baseline(y_true, y_proba)`, on what `property` takes; lower is better and 0 is best. `options` are its
    settings, changed by `with_options`; another of the properties in `takes` is chosen with
    `dataclasses.replace(baseline, property=...)`.

    >>> import truecal as tc
    >>> steps = tc.ERRORS["step_calibration"]
    >>> round(steps([0, 1, 1], [.1, .4, .8]), 4)
    0.2333
    >>> steps.truthful, tc.ERRORS["ece"].with_options(n_bins=5).options
    (False, {'n_bins': 5, 'strategy': 'uniform'})
    """

    name: str
    title: str
    property: Property
    definition: str
    """The formula in words: what is computed, to the letter."""
    reference: str
    truthful: bool = field(default=False, kw_only=True)
    reason: str
    """Why it is truthful, or why it is not."""
    compute: Measure = field(repr=False)
    settings: tuple[tuple[str, Any], ...] = ()
    takes: tuple[type[Property], ...] = field(default=SCALAR, repr=False)
    weighted: bool = True
    """Whether weights have a meaning: not for what counts rows."""

    def __post_init__(self) -> None:
        if not isinstance(self.property, self.takes):
            expected = ", ".join(f"{kind.__name__}()" for kind in self.takes)
            raise TypeError(f"property of {self.name} must be one of {expected}, got {shown(self.property)}")

    @builtins.property
    def options(self) -> dict[str, Any]:
        """The settings by name."""
        return dict(self.settings)

    @builtins.property
    def __name__(self) -> str:
        """The name that scikit-learn reads."""
        return self.name

    @builtins.property
    def symbol(self) -> str:
        """The name in tables."""
        return self.title

    def with_options(self, **changes: Any) -> Baseline:
        """The same measure with other settings."""
        unknown = [name for name in changes if name not in self.options]
        if unknown:
            known = ", ".join(self.options) or "none"
            raise TypeError(f"{self.name} has no option {unknown[0]!r}; its options: {known}")
        return replace(self, settings=tuple((self.options | changes).items()))

    @matching_rows
    def __call__(
        self, y_true: Any, y_proba: Any, *, sample_weight: Any = None, labels: Any = None, pos_label: Any = None
    ) -> float:
        """The measure of these predictions; pos_label names the positive class where there is one."""
        property = self.property
        if pos_label is not None:
            if not property.event:
                raise ValueError(f"pos_label={shown(pos_label)} cannot be used: {self.name} is about {property.kind}")
            property = Binary(pos_label)
        return self.of(property.read(y_true, y_proba, sample_weight=sample_weight, labels=labels))

    def of(self, sample: Sample) -> float:
        """The measure of a validated sample."""
        if sample.weights is not None and not self.weighted:
            raise ValueError(f"sample_weight cannot be used with {self.name}: it counts rows")
        if sample.marks is None and sample.variance is None and not self.weighted:
            raise ValueError(f"label distributions cannot be used with {self.name}: it counts rows")
        return float(self.compute(sample, **self.options))


def of_each_view(formula: Callable[..., float]) -> Measure:
    """A measure of (reports, outcomes, weights) as one of samples: for several classes, the mean over them."""

    @wraps(formula)
    def measure(sample: Sample, **options: Any) -> float:
        sample = sample.on_host()
        w = sample.row_weights
        counted = w > 0
        values = [
            formula(
                sample.view(j)[counted].astype(np.float64),
                sample.outcome(slice(j, j + 1))[0][counted],
                w[counted],
                **options,
            )
            for j in range(sample.views)
        ]
        return float(np.mean(values))

    return measure


def sums_by_value(u: Array, *columns: Array) -> tuple[Array, ...]:
    """The distinct values of u in order, and the sums of each column over the rows of each."""
    values, place = np.unique(u, return_inverse=True)
    return values, *(np.bincount(place, weights=column, minlength=len(values)) for column in columns)


def check_flag(value: Any, name: str) -> bool:
    """True or False, and nothing that merely looks like it."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)


def subsets(n: int, draws: Any, seed: Any, exact_up_to: int) -> Array:
    """Subsets of n rows as rows of booleans: all of them up to a size, else seeded draws."""
    draws, seed = check_positive_int(draws, "draws", 10**6), check_seed(seed)
    if n <= exact_up_to:
        return np.asarray((np.arange(1 << n)[:, None] >> np.arange(n)) & 1 == 1)
    return np.asarray(np.random.default_rng(seed).random((draws, n)) < 0.5)
