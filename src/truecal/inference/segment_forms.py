"""Statistics of all segments at once: sums of residuals, and slopes in the logits, over their standard deviations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logit

from ..core.properties import Property
from ..core.types import Array, Groups
from ..kinds.inputs import Progress
from .features import Grouping
from .null import draw_labels

_BLOCK = 1 << 23  # numbers of a block of draws
_FARTHEST = 8.0  # logits are cut here


@dataclass(eq=False)
class SegmentForms:
    """Statistics of all segments: sums of values of rows, and their standard deviations under calibration."""

    weights: Array
    reports: Array
    """(rows, views)."""
    outcomes: Array
    x: Array | None
    """The logits of one probability per row, cut, for the spread; None where only levels are looked at."""
    proba: Array | None
    """What labels are drawn from; None: each view is 1 with its own chance."""
    claim: Property
    mean: Array
    """(segments,): the variance-weighted mean of the logits."""
    level_sd: Array
    """(segments, views)."""
    spread_sd: Array
    design: Array
    """(segments, views): how many times more clusters vary than independent rows."""
    clusters: Groups | None = None
    flipped_sd: Array | None = None
    """(segments, forms): those of the sums of clusters whose signs are drawn."""

    @staticmethod
    def of(
        groups: Grouping,
        w: Array,
        u: Array,
        outcomes: Array,
        proba: Array | None,
        claim: Property,
        spread: bool,
        clusters: Groups | None = None,
    ) -> SegmentForms:
        """The forms of these reports; `spread` where slopes are looked at as well."""
        variance = np.clip(u * (1 - u), 0.0, None) * np.square(w)[:, None]
        V = groups.sums(variance)
        one = (groups.sums(np.square(w)[:, None])[:, 0] / groups.rows)[:, None]  # what a surprise of a usual row adds
        x, design, mean, slope, width = None, np.ones((len(V), 1)), *(np.zeros(len(V)) for _ in range(3))
        if spread:
            with np.errstate(divide="ignore"):
                x = np.clip(logit(np.clip(u[:, 0], 0.0, 1.0)), -_FARTHEST, _FARTHEST)
            carried = np.where(V[:, 0] > 0, V[:, 0], 1.0)
            mean, second = groups.sums(variance * np.column_stack([x, x * x])).T / carried
            width = np.clip(second - mean**2, 0.0, None)
            slope = np.sqrt(width * (V[:, 0] + one[:, 0]))
            slope[slope <= 1e-6 * np.sqrt(V[:, 0] + one[:, 0])] = 0.0  # one value of the prediction has no slope
        seen = None
        if clusters is not None:
            r = (u - outcomes) * w[:, None]
            each = [groups.by_cluster(column, clusters) for column in r.T]
            own = np.column_stack([squares_by_segment(sums) for sums in each])
            design = _design_effects(groups, r, w, variance, clusters)
            seen, V, one = own + one, np.maximum(own, V * design), one * design
            if x is not None:
                own = squares_by_segment(groups.by_cluster(r[:, 0] * x, clusters) - each[0].multiply(mean[:, None]))[
                    :, None
                ]
                seen = np.column_stack([seen, own + width[:, None] * one / design])
                slope = np.where(slope > 0, np.sqrt(np.maximum(own[:, 0], slope**2 * design[:, 0])), 0.0)
        level = np.sqrt(V + one)
        forms = SegmentForms(w, u, outcomes, x, proba, claim, mean, level, slope, design, clusters)
        return forms if seen is None else replace(forms, flipped_sd=np.sqrt(seen))

    def moved(self, groups: Grouping, reports: Array) -> SegmentForms:
        """The forms of other reports of the same rows."""
        about = (self.outcomes, self.proba, self.claim, self.x is not None, self.clusters)
        return SegmentForms.of(groups, self.weights, reports, *about)

    def strengths(self, groups: Grouping) -> tuple[Array, Array]:
        """The statistics of the outcomes, (segments, forms), and the larger one of each segment and view."""
        raw = self.statistics(groups, self.observed()[:, :, None])[:, :, 0]
        views = self.reports.shape[1]
        each = np.abs(raw[:, :views])  # the spread belongs to the one view there is
        return raw, each if self.x is None else np.maximum(each, np.abs(raw[:, views:]))

    @property
    def rows(self) -> int:
        return len(self.reports)

    @property
    def columns(self) -> int:
        return int(self.reports.shape[1]) + (self.x is not None)

    def statistics(self, groups: Grouping, residuals: Array) -> Array:
        """(segments, forms, draws) standardised statistics of (rows, views, draws) weighted residuals."""
        return np.asarray(self._sums(groups, residuals) / self._sd[:, :, None])

    @property
    def _sd(self) -> Array:
        """(segments, forms)."""
        sd = self.level_sd if self.x is None else np.column_stack([self.level_sd, self.spread_sd])
        return np.where(sd > 0, sd, np.inf)

    def _sums(self, groups: Grouping, residuals: Array) -> Array:
        n, views, draws = residuals.shape
        level = groups.sums(residuals.reshape(n, -1)).reshape(-1, views, draws)
        if self.x is None:
            return level
        slope = groups.sums(residuals[:, 0] * self.x[:, None]) - self.mean[:, None] * level[:, 0]
        return np.concatenate([level, slope[:, None]], axis=1)

    def observed(self) -> Array:
        """(rows, views) weighted residuals."""
        return np.asarray((self.reports - self.outcomes) * self.weights[:, None])

    def largest(self, groups: Grouping, rng: np.random.Generator, draws: int, progress: Progress | None) -> Array:
        """The largest statistic over all segments in each draw of labels from the predictions."""
        step = max(1, min(draws, 64, _BLOCK // self.reports.size))
        sd = self._sd if self.flipped_sd is None else np.where(np.isfinite(self._sd), self.flipped_sd, np.inf)
        found = []
        for start in range(0, draws, step):
            if progress is not None:
                progress(start / draws)
            for residuals in self._drawn(rng, min(step, draws - start)):
                found.append(np.abs(self._sums(groups, residuals) / sd[:, :, None]).max(axis=(0, 1)))
        return np.concatenate(found)

    def _drawn(self, rng: np.random.Generator, draws: int) -> Iterator[Array]:
        """Weighted residuals of drawn labels, or with clusters of drawn signs, (rows, views, draws)."""
        if self.clusters is not None:
            signs = 2.0 * rng.integers(0, 2, (self.clusters[1], draws)) - 1
            yield self.observed()[:, :, None] * signs[self.clusters[0]][:, None, :]
            return
        if self.proba is None:
            came = rng.random((self.rows, draws)) < self.reports
            yield ((self.reports - came) * self.weights[:, None])[:, None, :]
            return
        for labels in draw_labels(rng, self.proba, draws):
            outcomes = self.claim.drawn(labels, self.proba.shape[1])
            residuals = self.reports.copy() if outcomes is None else self.reports - outcomes
            if outcomes is None:
                residuals[np.arange(self.rows), labels] -= 1.0
            yield (residuals * self.weights[:, None])[:, :, None]


def _design_effects(groups: Grouping, r: Array, w: Array, variance: Array, clusters: Groups) -> Array:
    """(segments, views): how many times more the sums of clusters vary than those of independent rows; 1 at least.

    Measured over all rows and brought to each segment by the rows that it has of a cluster: 1 + ρ(m − 1). The variance
    of rows is the smaller of the expected and the observed one: with fewer surprises clusters vary less as well."""
    off = r - w[:, None] * (r.sum(axis=0) / w.sum())
    seen = np.square([np.bincount(clusters[0], column, clusters[1]) for column in off.T]).sum(axis=1)
    rows = np.minimum(variance.sum(axis=0), np.square(off).sum(axis=0))
    more = np.maximum(seen / np.where(rows > 0, rows, np.inf) - 1, 0.0)
    number = squares_by_segment(groups.by_cluster(np.ones(len(w)), clusters)) / groups.rows
    most = np.square(np.bincount(clusters[0])).sum() / len(w)
    share = (number - 1) / (most - 1) if most > 1 else np.ones(len(number))
    return np.asarray(1 + share[:, None] * more)


def squares_by_segment(sums: Any) -> Array:
    """The sum over clusters of squared sums, for each segment."""
    return np.asarray(sums.multiply(sums).sum(axis=1)).reshape(-1)
