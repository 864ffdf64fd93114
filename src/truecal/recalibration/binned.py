"""Maps that replace a report by a mean over its bin: histogram binning, scaling-binning, canonical recalibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from truecal.core.data import check_positive_int
from truecal.recalibration.base import (
    Codes,
    Float64s,
    Logits,
    ProbabilityMap,
    Recalibrator,
    check_number,
    normalise,
    reports,
)
from truecal.recalibration.temperature import TemperatureScaling


def inner_edges(reports: Float64s, n_bins: int, strategy: str) -> Float64s:
    """The n_bins - 1 values that separate the bins, from the reports alone; equal reports share a bin.

    Quantile bin j ends with the sample at sorted position floor(j n / n_bins), as in `truecal.Quantile`.
    """
    if strategy == "uniform":
        return np.asarray(np.arange(1, n_bins) / n_bins)
    if strategy != "quantile":
        raise ValueError(f"strategy must be 'quantile' or 'uniform', got {strategy!r}")
    last = np.arange(1, n_bins) * len(reports) // n_bins
    return np.asarray(
        np.concatenate([[-np.inf], np.sort(reports)])[last]
    )  # position 0: more bins than samples, an empty one


def bin_of(edges: Float64s, reports: Float64s) -> Codes:
    """The bin of each report: bin j is (edges[j-1], edges[j]]."""
    return np.asarray(np.searchsorted(edges, reports, side="left"), dtype=np.intp)


def bin_means(cells: Codes, n_bins: int, values: NDArray[Any], weight: Float64s) -> Float64s:
    """Weighted mean of the values in each bin; NaN for an empty bin."""
    mass = np.bincount(cells, weights=weight, minlength=n_bins)
    total = np.bincount(cells, weights=weight * values, minlength=n_bins)
    return np.asarray(np.divide(total, mass, out=np.full(n_bins, np.nan), where=mass > 0))


def look_up(edges: list[Float64s], means: list[Float64s], p: Float64s) -> Float64s:
    """Each class's report replaced by the mean of its bin; a report in an empty bin stays."""
    out = np.empty_like(p)
    for r, (cuts, values) in enumerate(zip(edges, means, strict=True)):
        mapped = values[bin_of(cuts, p[:, r])]
        out[:, r] = np.where(np.isnan(mapped), p[:, r], mapped)
    return out


class HistogramBinning(ProbabilityMap):
    """For each class r the frequency of r in the bin of p_r, then rows divided by their sums.

    Zadrozny and Elkan, Obtaining calibrated probability estimates from decision trees and naive Bayesian classifiers,
    ICML 2001. A report in a bin that was empty keeps its value, and so does a class that no validation sample has.

    Parameters: `n_bins`; `strategy`, "quantile" (bins of about equally many samples) or "uniform" (equal width);
    `labels`, `space`, `floor` as in TemperatureScaling. Weights never move an edge. Attributes: `edges_`, `means_`
    (per class), `classes_`.

    >>> import truecal as tc
    >>> p = [[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.8, 0.2], [0.2, 0.8]]
    >>> binning = tc.HistogramBinning.from_probabilities(n_bins=2, strategy="uniform").fit(p, [0, 0, 0, 1, 1])
    >>> binning.predict_proba([[0.85, 0.15]]).tolist()
    [[0.75, 0.25]]
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        strategy: str = "quantile",
        labels: ArrayLike | None = None,
        space: str = "logits",
        floor: float | None = None,
    ) -> None:
        self.n_bins = n_bins
        self.strategy = strategy
        self.labels = labels
        self.space = space
        self.floor = floor

    def _fit(self, logits: Logits, y: Codes, weight: Float64s, unit: float) -> None:
        m = check_positive_int(self.n_bins, "n_bins")
        p = reports(logits)
        present = np.bincount(y, minlength=p.shape[1]) > 0
        self.edges_ = [inner_edges(column, m, self.strategy) for column in p.T]
        self.means_ = [
            bin_means(bin_of(edges, column), m, y == r, weight) if seen else np.full(m, np.nan)
            for r, (edges, column, seen) in enumerate(zip(self.edges_, p.T, present, strict=True))
        ]

    def _probabilities(self, logits: Logits) -> Float64s:
        p = reports(logits)
        return normalise(look_up(self.edges_, self.means_, p), p)


class ScalingBinning(ProbabilityMap):
    """Fit a smooth map, then replace each class's probability by the mean of the smooth map over its bin.

    Kumar, Liang and Ma, Verified Uncertainty Calibration, NeurIPS 2019: the outputs take few values, so their
    calibration can be verified, and the bin means average smooth reports and not noisy labels. The bins and their
    means use no label, so all validation samples serve both steps.

    Parameters: `scaling`, an estimator of logits (default TemperatureScaling()); `n_bins`; `strategy`; `labels`,
    `space`, `floor` as in HistogramBinning. Attributes: `scaling_`, `edges_`, `means_`, `classes_`.

    >>> import numpy as np
    >>> import truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(500, 2))
    >>> y = (rng.random(500) < 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))).astype(int)
    >>> binning = tc.ScalingBinning(n_bins=5).fit(logits, y)
    >>> len(np.unique(binning.predict_proba(logits)[:, 1].round(12)))
    5
    """

    def __init__(
        self,
        scaling: Recalibrator | None = None,
        *,
        n_bins: int = 15,
        strategy: str = "quantile",
        labels: ArrayLike | None = None,
        space: str = "logits",
        floor: float | None = None,
    ) -> None:
        self.scaling = scaling
        self.n_bins = n_bins
        self.strategy = strategy
        self.labels = labels
        self.space = space
        self.floor = floor

    def _fit(self, logits: Logits, y: Codes, weight: Float64s, unit: float) -> None:
        m = check_positive_int(self.n_bins, "n_bins")
        if not (self.scaling is None or isinstance(self.scaling, Recalibrator)):
            raise TypeError(f"scaling must be a recalibration estimator, got {self.scaling!r}")
        scaling = TemperatureScaling() if self.scaling is None else clone(self.scaling)
        if scaling.space != "logits" or scaling.labels is not None:
            raise ValueError("scaling must be an estimator of logits without labels; give both to ScalingBinning")
        self.scaling_ = scaling.fit(logits.values, y, unit * weight)
        p = self._scaled(logits)
        self.edges_ = [inner_edges(column, m, self.strategy) for column in p.T]
        self.means_ = [
            bin_means(bin_of(edges, column), m, column, weight) for edges, column in zip(self.edges_, p.T, strict=True)
        ]

    def _scaled(self, logits: Logits) -> Float64s:
        return np.asarray(self.scaling_.predict_proba(logits.values), dtype=np.float64)

    def _probabilities(self, logits: Logits) -> Float64s:
        p = self._scaled(logits)
        return normalise(look_up(self.edges_, self.means_, p), p)


class CanonicalRecalibration(ProbabilityMap):
    """Replace a report by the mean outcome of its cell: the empirical form of E[e_y | h(x)].

    The paper's recalibration theorem: in expectation no truthful error of E[φ(y) | h(x)] exceeds that of h. A cell
    is a class and a quantile bin of the confidence among the reports whose largest probability is that class; cells
    look at reports only. The value of cell B is (sum of e_y over B + smoothing * mean report of B) / (n_B + smoothing).
    With smoothing 0 (default, the theorem's form) a class not seen in a cell gets probability 0, which makes the
    cross-entropy infinite if it comes up later: choose smoothing > 0 where that matters. A report in a cell without
    validation samples stays.

    Parameters: `n_bins` per largest class; `smoothing`; `labels`, `space`, `floor` as in TemperatureScaling.
    Attributes: `edges_` (per class), `cells_` (the occupied ones), `means_`, `classes_`.

    >>> import truecal as tc
    >>> p = [[0.6, 0.3, 0.1]] * 4
    >>> canonical = tc.CanonicalRecalibration.from_probabilities().fit(p, [0, 0, 1, 2])
    >>> canonical.predict_proba(p[:1]).tolist()
    [[0.5, 0.25, 0.25]]
    """

    def __init__(
        self,
        *,
        n_bins: int = 15,
        smoothing: float = 0.0,
        labels: ArrayLike | None = None,
        space: str = "logits",
        floor: float | None = None,
    ) -> None:
        self.n_bins = n_bins
        self.smoothing = smoothing
        self.labels = labels
        self.space = space
        self.floor = floor

    def _fit(self, logits: Logits, y: Codes, weight: Float64s, unit: float) -> None:
        m = check_positive_int(self.n_bins, "n_bins")
        expected = "a finite number of at least 0"
        smoothing = check_number(self.smoothing, "smoothing", expected, low=0, high=np.inf)
        p = reports(logits)
        top, confidence = np.argmax(p, axis=1), p.max(axis=1)
        self.edges_ = {int(r): inner_edges(confidence[top == r], m, "quantile") for r in np.unique(top)}
        self.cells_, place = np.unique(self._cells(p), return_inverse=True)
        member = csr_array((weight, (place, np.arange(len(y)))), shape=(len(self.cells_), len(y)))
        mass: Any = member.sum(axis=1)[:, None]
        outcomes = csr_array((np.ones(len(y)), (np.arange(len(y)), y)), shape=p.shape)
        with np.errstate(over="ignore"):  # a mass of infinity leaves nothing to the report, as it should
            pull = smoothing / (unit * mass + smoothing) if smoothing else 0.0
        self.means_ = (1 - pull) * (np.asarray((member @ outcomes).toarray()) / mass) + pull * (member @ p / mass)

    def _cells(self, p: Float64s) -> Codes:
        """Cell numbers; -1 for a largest class that no validation report had."""
        top, confidence = np.argmax(p, axis=1), p.max(axis=1)
        cells = np.full(len(p), -1, dtype=np.intp)
        for r, edges in self.edges_.items():
            rows = top == r
            cells[rows] = r * self.n_bins + bin_of(edges, confidence[rows])
        return cells

    def _probabilities(self, logits: Logits) -> Float64s:
        p = reports(logits)
        cells = self._cells(p)
        place = np.minimum(np.searchsorted(self.cells_, cells), len(self.cells_) - 1)
        known = self.cells_[place] == cells
        return np.where(known[:, None], self.means_[place], p)
