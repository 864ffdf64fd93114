"""Calibration tests that flip the signs of blocks of rows, where rows depend on each other or only sums are kept.

If predictions are calibrated, the sum over a cluster of f(prediction)·residual has mean 0 for every f, and sums of
different clusters are independent: for clusters of many rows both signs are about equally likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.special import logit

from ..core.arrays import LIBRARY, doubled, top_class_and_value
from ..core.cells import middle_cells
from ..core.rules import auto_bins
from ..core.sample import Sample
from ..core.types import Array, Groups
from .calibration_result import CalibrationTest, FormDetail
from .checks import clusters_word, per_unit
from .forms import BINS, CLIP, RANK_ONE, RATES, Form
from .joint import JointTest, critical, violation, words
from .null import Draws, draws_pvalue, standardised

FEWEST_BLOCKS = 12
MOST_BLOCKS = 1024
"""More clusters are joined, label-blind, to so many blocks."""
BY_SIGNS = "the residuals of each of {} {} of rows are as likely to have the opposite signs, as if calibrated"
TOO_FEW = "a test needs at least {} {} of rows, got {}"


# -- sums over blocks of rows ------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class BlockForm:
    """A quadratic form of residuals: H_ab is the sum over pairs of rows of blocks a and b."""

    name: str
    H: Array
    sign: float = 0.0
    """That of the sum behind a form of one number."""
    size: float = 0.0
    """How many points off the printed gap is by it; 0 where it is about something else."""


def block_test(
    forms: Sequence[BlockForm], rows: int, draws: int, seed: int, level: float = 0.95
) -> CalibrationTest | None:
    """Test calibration from sums over blocks: T = Σ_{a≠b} H_ab against Σ_{a≠b} ε_a ε_b H_ab, ε = ±1.

    Given the predictions, the residual sums of a block of a calibrated predictor have mean 0 and, for many rows, are
    nearly normal: then the signs of whole blocks may be flipped. Several forms are tested together through the largest
    T over its rms, in the same flips. None where there are too few blocks.
    """
    if not forms or len(forms[0].H) < FEWEST_BLOCKS:
        return None
    blocks = len(forms[0].H)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (draws, blocks))
    observed, drawn = np.empty(len(forms)), np.empty((draws, len(forms)))
    for i, form in enumerate(forms):
        H = form.H - np.diag(np.diag(form.H))
        observed[i] = H.sum()
        drawn[:, i] = np.einsum("da,da->d", signs @ H, signs)
    standard = standardised(Draws(observed, drawn))
    details = tuple(FormDetail(form.name, draws_pvalue(observed[i], drawn[:, i])) for i, form in enumerate(forms))
    pvalue = draws_pvalue(float(standard.observed.max()), standard.drawn.max(axis=1))
    best = forms[int(np.argmax(standard.observed))]
    limit = critical(standard.drawn.max(axis=1), level)
    beyond = [(form.size, float(x)) for form, x in zip(forms, standard.observed, strict=True) if x > limit]
    low = max((size * (1 - np.sqrt(max(limit, 0.0) / x)) for size, x in beyond), default=0.0)
    why = words(best.name, best.sign)
    null, name = BY_SIGNS.format(blocks, "blocks"), f"{blocks} blocks of rows"
    about = (pvalue, why, null, None, draws, details, rows, rows, name)
    return CalibrationTest(*about, level=level, low_gap=float(low) if pvalue <= 1 - level else 0.0, reason=why)


# -- rows that depend on each other ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Form:
    """Sums over the rows of each cluster, (clusters, columns), that have mean 0 under calibration."""

    form: Form
    sums: Array
    rare: Array
    """Per column, the variance under calibration over the squares seen, 1 or more: rare outcomes may be absent."""
    size: float
    """How many points the probabilities are off by it."""
    pooled: bool = False
    """Whether the columns have one scale, that of their sum."""

    def values(self, signs: Array) -> Array:
        """Σ over columns of the squared sum over its variance: observed, and with the signs of each draw."""
        square = np.square(self.sums).sum(axis=0)
        square = np.full(len(square), square.sum()) if self.pooled else square
        scale = np.where(square > 0, square, 1.0)
        observed = (np.square(self.sums.sum(axis=0)) / (scale * self.rare)).sum()
        if len(scale) <= len(self.sums):
            return np.append(observed, (np.square(signs @ self.sums) / scale).sum(axis=1))
        pairs = (self.sums / scale) @ self.sums.T  # of clusters: with thousands of columns far fewer numbers
        return np.append(observed, np.einsum("da,da->d", signs @ pairs, signs))


def cluster_test(
    sample: Sample,
    clusters: Groups,
    draws: int,
    seed: int,
    level: float = 0.95,
    names: Sequence[str] | None = None,
) -> CalibrationTest:
    """The test of calibration of rows in clusters: every form's sums over clusters against those with flipped signs.

    Each form is divided by its variance over clusters, so that a few of them cannot carry it; where outcomes are rare,
    the observed one by the larger variance that is expected. The largest over forms rejects. Undecided with fewer
    than 12 clusters.
    """
    sample = sample.on_host()
    noun, rows = clusters_word(clusters), sample.rows
    number = per_unit(sample.row_weights, clusters) > 0
    units = int(np.count_nonzero(number))
    name = f"{units} {noun} of rows"
    if units < FEWEST_BLOCKS:
        null = TOO_FEW.format(FEWEST_BLOCKS, noun, units)
        return CalibrationTest(1.0, "", null, None, 0, (), rows, rows, name, level=level)
    block = ((np.cumsum(number) - 1) % MOST_BLOCKS)[clusters[0]]
    found, signed, rates = _forms_of(sample, block, min(units, MOST_BLOCKS))
    forms = tuple(each.form for each in found)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (draws, min(units, MOST_BLOCKS)))
    joint = JointTest(np.column_stack([each.values(signs) for each in found]), forms, level)
    best = forms[joint.best].name
    strongest, low, reason = words(best, signed[joint.best]), np.zeros(len(forms)), ""
    if joint.rejects:
        low = joint.least(np.array([each.size for each in found]))
        reason = violation(best, strongest, float(low[joint.best]), rates, names)
    null, details = BY_SIGNS.format(units, noun), joint.details(low)
    about = (joint.pvalue, strongest, null, None, draws, details, rows, rows, name)
    return CalibrationTest(*about, level=level, low_gap=float(low[:3].max()), reason=reason)


def _forms_of(sample: Sample, block: Array, blocks: int) -> tuple[list[_Form], list[float], Array | None]:
    """The forms, the signs of their sums, and how far each class is predicted too often."""
    proba, w = sample.distributions, sample.row_weights
    top_only, rates = sample.wrong is not None and proba is None, None
    found: list[_Form] = []
    if proba is not None and proba.ndim == 2 and proba.shape[1] > 2:
        assert sample.labels is not None
        p, labels, total = doubled(proba), sample.labels, w.sum()
        top, u = top_class_and_value(p)
        r, top_only = w * (u - (labels == top)), True
        log = np.log(np.clip(p, CLIP, None))
        mean = (p * log).sum(axis=1)
        spread = float(w @ log.var(axis=1)) * p.shape[1] ** 2
        temperature = w * (mean - log[np.arange(len(p)), labels])
        expected = np.square(w) * ((p * np.square(log)).sum(axis=1) - np.square(mean))
        size = 100 * abs(temperature.sum()) / np.sqrt(max(spread * total, CLIP))
        found.append(_of_rows(Form("temperature", RANK_ONE, True), temperature, expected, size, block, blocks))
        sums, seen, expect = np.zeros((blocks, p.shape[1])), 0.0, 0.0
        for j in range(p.shape[1]):
            residual = w * (p[:, j] - (labels == j))
            sums[:, j] = np.bincount(block, residual, blocks)
            seen, expect = seen + residual @ residual, expect + np.square(w) @ (p[:, j] * (1 - p[:, j]))
        rates = sums.sum(axis=0) / total
        rare = np.full(1, max(1.0, expect / seen) if seen > 0 else 1.0)
        found.append(_Form(Form("class frequencies", RATES), sums, rare, 100 * float(abs(rates).max()), pooled=True))
    else:
        outcome = sample.labels if sample.marks is None else sample.marks
        outcome = sample.values if sample.variance is not None else outcome
        if outcome is None or outcome.ndim == 2:
            raise ValueError("calibration_test needs one label per row; these are distributions over labels")
        u = doubled(sample.reports if proba is None else proba if proba.ndim == 1 else proba[:, 1])
        r = w * (u - outcome)
    variance = np.square(w) * (u * (1 - u) if sample.variance is None else sample.variance)
    found = [*_scalar_forms(u, r, w, variance, block, blocks, "confidence: " if top_only else ""), *found]
    return found, [float(each.sums.sum()) for each in found], rates


def _scalar_forms(u: Array, r: Array, w: Array, variance: Array, block: Array, blocks: int, prefix: str) -> list[_Form]:
    """Level, slope and quantile bins of one probability per row, with the variance of each residual r."""
    inside, total = np.clip(u, CLIP, 1 - CLIP), float(w.sum())
    x = logit(inside)
    sizes = 100 * abs(r.sum()) / total, 100 * abs(r @ x) / np.sqrt(max(float(w @ np.square(x)), CLIP) * total)
    found = [
        _of_rows(Form(prefix + "mean", RANK_ONE, True), r, variance, sizes[0], block, blocks),
        _of_rows(Form(prefix + "slope", RANK_ONE, True), r * x, variance * np.square(x), sizes[1], block, blocks),
    ]
    m = auto_bins(5 * blocks)
    bins, order = np.empty(len(u), np.intp), LIBRARY[type(u)].argsort(u, stable=True)
    bins[order] = middle_cells(u, order, m)
    weight, seen, expected, whole = (np.bincount(bins, y, m) for y in (w, r * r, variance, r))
    size = 100 * float(np.sqrt((np.square(whole) / np.where(weight > 0, weight, 1.0)).sum() / total))
    sums = np.bincount(block * m + bins, r, blocks * m).reshape(blocks, m)
    return [*found, _Form(Form(f"{prefix}{m} bins", BINS), sums, _rare(expected, seen), size)]


def _of_rows(form: Form, rows: Array, expected: Array, size: float, block: Array, blocks: int) -> _Form:
    """A form of one sum: its rows and their variances under calibration."""
    rare = _rare(np.atleast_1d(expected.sum()), np.atleast_1d(rows @ rows))
    return _Form(form, np.bincount(block, rows, blocks)[:, None], rare, float(size))


def _rare(expected: Array, seen: Array) -> Array:
    return np.where(seen > 0, np.maximum(expected / np.where(seen > 0, seen, 1.0), 1.0), 1.0)
