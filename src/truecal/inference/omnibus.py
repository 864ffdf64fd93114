"""Test class labels or one probability per row by several forms at once, in draws from the predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ..core.arrays import HOST, compiled_loops, doubled, on_cpu, to_device_of
from ..core.dispatch import DISPATCH
from ..core.sample import Sample
from ..core.types import Array, Groups
from .calibration_result import CalibrationTest, FormDetail
from .forms import ClassForms, ScalarForms
from .joint import JointTest, violation, words
from .null import BERNOULLI, CATEGORICAL, POSITIVE, device_draws, draw_labels

MOST_ROWS = 1 << 18
"""Of more rows than this, so many chosen at random are tested: the level stays exact, and the power is there."""
MOST_PLANNED, FEWEST_PLANNED = 999, 99
"""A p-value from fewer draws than the second could not reach 1%."""
_LABEL, _COIN = 5e-8, 2e-8  # seconds per draw and row: several classes, one probability
FIRST_DRAWS, SETTLED = 99, 0.2
"""The test stops after so many draws where the p-value is larger than this. Its level stays exact at every α: below .2
only the p-value of all draws counts, and P(p ≤ α) is at most that of the first draws above."""
_BLOCK = 1 << 21


def planned_draws(sample: Sample, seconds: float = 1.0) -> int:
    """Return how many draws take about so many seconds, from the sizes of the sample alone."""
    cost = min(sample.rows, MOST_ROWS) * (_COIN if sample.views == 1 else _LABEL)
    return int(min(MOST_PLANNED, max(FEWEST_PLANNED, seconds / cost)))


def fewest_draws(models: int, level: float) -> int:
    """Draws with which a p-value, corrected for so many models, can fall to half of what rejects.

    >>> from truecal.inference.omnibus import fewest_draws
    >>> fewest_draws(1, .95), fewest_draws(11, .95)
    (99, 440)
    """
    return max(FEWEST_PLANNED, min(10 * MOST_PLANNED, round(2 * models / (1 - level))))


def omnibus_test(
    sample: Sample,
    draws: int,
    seed: int,
    progress: Callable[[float], None] | None = None,
    level: float = 0.95,
    names: Sequence[str] | None = None,
) -> CalibrationTest:
    """The test of all forms together, of class labels or of one probability per row; progress gets the share done.

    Where it rejects, every form says how far off the probabilities are at least: its observed size, less what it
    would have to be to reject. `names`: of the classes.
    """
    if sample.marks is None and (sample.labels is None or sample.labels.ndim == 2):
        raise ValueError("calibration_test needs one label per row; these are distributions over labels")
    rng = np.random.default_rng(seed)
    rows = sample.rows
    if rows > MOST_ROWS:
        sample = sample.take(to_device_of(np.sort(rng.choice(rows, MOST_ROWS, replace=False)), sample.reports))
    null = CATEGORICAL if sample.distributions is not None else POSITIVE if sample.wrong is None else BERNOULLI
    made = _Drawn.of(sample, seed, rng)
    forms, first = made.forms.forms, min(draws, FIRST_DRAWS)
    values, signs = made.observed()
    values = np.concatenate([values, *made.drawn(first, draws, progress)])
    joint = JointTest(values, forms, level)
    settled = first < draws and joint.pvalue > SETTLED
    if settled:
        draws = first
    elif first < draws:
        joint = JointTest(np.concatenate([values, *made.drawn(draws - first, draws, progress)]), forms, level)
    if progress is not None:
        progress(1.0)
    best = forms[joint.best]
    sign = float(signs[[form for form in forms if form.signed].index(best)]) if best.signed else 0.0
    strongest = words(best.name, sign)
    low, reason = np.zeros(len(forms)), ""
    if joint.rejects:
        made = _Drawn.of(sample.on_host(), seed, rng)
        low = made.least(joint)
        reason = violation(best.name, strongest, float(low[joint.best]), made.rates, names)
    shown = made.forms.scalar.forms if isinstance(made.forms, ClassForms) else forms
    return CalibrationTest(
        pvalue=joint.pvalue,
        strongest=strongest,
        null=null,
        n_bins=None,
        n_resamples=draws,
        details=joint.details(low),
        n_samples=rows,
        tested=sample.rows,
        name="several forms",
        settled=settled,
        level=level,
        low_gap=float(low[: len(shown)].max()),
        reason=reason,
    )


def fold_test(sample: Sample, folds: Groups, draws: int, seed: int, level: float = 0.95) -> CalibrationTest:
    """The test of cross-validated predictions: one for each fold, joined by twice the mean of their p-values.

    Given the model of a fold its rows are fresh, but predictions of one fold depend on the labels of the others, so
    that tests of different folds depend on each other. Twice the mean p-value keeps the level under any dependence
    (Rüschendorf 1982).
    """
    number, count = folds
    parts = [sample.take(np.flatnonzero(number == f)) for f in range(count)]
    each = [omnibus_test(part, draws, seed, level=level) for part in parts]
    low = [test.low_gap * float(np.sqrt(part.rows / sample.rows)) for test, part in zip(each, parts, strict=True)]
    loudest = min(each, key=lambda test: test.pvalue)
    return replace(
        loudest,
        pvalue=min(1.0, 2 * float(np.mean([test.pvalue for test in each]))),
        null=f"in each fold, {loudest.null}",
        details=tuple(FormDetail(f"fold {f + 1}", test.pvalue) for f, test in enumerate(each)),
        n_samples=sample.rows,
        tested=sum(test.tested for test in each),
        name=f"several forms in each of {count} folds",
        folds=count,
        low_gap=max(low),
    )


@dataclass(eq=False)
class _Drawn:
    """The statistics of draws of a sample's outcomes: drawn in compiled loops, as arrays, or on a GPU."""

    forms: ScalarForms | ClassForms
    first: Array
    """The observed outcomes."""
    rows: int
    draw: Callable[[int], Array]
    """So many draws of outcomes, as an array."""
    compiled: Callable[[int, int], tuple[Array, Array]]
    """Values of draws from a number on, in compiled loops."""
    done: int = 0

    @staticmethod
    def of(sample: Sample, seed: int, rng: np.random.Generator) -> _Drawn:
        proba, there, n = sample.distributions, not isinstance(sample.reports, HOST), sample.rows
        if proba is not None and proba.ndim == 2 and proba.shape[1] > 2:
            assert sample.labels is not None
            classes = ClassForms.of(proba, sample.weights)
            draw = device_draws().drawer(proba, rng) if there else partial(draw_labels, rng, proba)
            return _Drawn(classes, sample.labels, n, draw, partial(classes.drawn, seed))
        if proba is not None:
            assert sample.labels is not None
            u, outcome = proba if proba.ndim == 1 else proba[:, 1], sample.labels == 1
        else:
            assert sample.marks is not None
            u, outcome = sample.reports, sample.marks
        scalar = ScalarForms.of(u, sample.weights, "confidence: " if sample.wrong is not None and proba is None else "")
        chances, first = doubled(u[scalar.order]), doubled(outcome[scalar.order])
        came = device_draws().drawer(chances, rng) if there else lambda b: rng.random((b, n)) < chances
        return _Drawn(scalar, first, n, lambda b: doubled(came(b)), partial(scalar.drawn, chances, seed))

    def least(self, joint: JointTest) -> Array:
        """How many points the probabilities are off at least by each form that rejects.

        The statistic of the bins divides by variances, which their size does not: its norm from which it rejects is
        that of noise.
        """
        size, noise = self.forms.sizes(self.first)
        bins = next(j for j, form in enumerate(joint.forms) if form.name.endswith("bins"))
        reached = self.forms.noise_in_bins(self.first, float(joint.tails[bins]))
        share = 1 - np.sqrt(reached / max(self.total * size[bins] ** 2, 1e-300))
        return joint.least(100 * size, self.forms.dispersion(self.first), noise, {bins: share})

    @property
    def rates(self) -> Array | None:
        """Per class, mean prediction less frequency; None for one probability per row."""
        return self.forms.class_sums(self.first) / self.total if isinstance(self.forms, ClassForms) else None

    @property
    def total(self) -> float:
        """The sum of the weights."""
        return float(self.rows if self.forms.weights is None else self.forms.weights.sum())

    def observed(self) -> tuple[Array, Array]:
        """The statistics of the observed outcomes, (1, forms), and the signs of the signed ones."""
        values, signs = self._read(self.first[None])
        return values, signs[0]

    def drawn(self, draws: int, planned: int, progress: Callable[[float], None] | None) -> list[Array]:
        """The statistics of further draws, block by block; `progress` gets the share of the planned ones."""
        there = not isinstance(self.first, HOST)
        large = not there and self.rows * planned >= DISPATCH.compiled_draws and compiled_loops("_draws") is not None
        size = max(1, min(1 + planned // 10, _BLOCK // self.rows))  # ten blocks or more, so that progress can be shown
        if large:  # rows are prepared once for each block
            size = planned if progress is None else max(size, 1 + planned // 10)
        found = []
        for start in range(0, draws, size):
            number = min(size, draws - start)
            values = self.compiled(self.done, number)[0] if large else self._read(self.draw(number))[0]
            found.append(values)
            self.done += number
            if progress is not None:
                progress(self.done / (planned + 1))
        return found

    def _read(self, outcomes: Array) -> tuple[Array, Array]:
        values, signs = self.forms.values(outcomes)
        if isinstance(values, np.ndarray):
            return values, signs
        return np.asarray(on_cpu(values)), np.asarray(on_cpu(signs))
