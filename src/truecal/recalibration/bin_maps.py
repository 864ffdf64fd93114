"""Maps that replace a prediction by a mean: over its bin, its cell, or its block of isotonic regression."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.isotonic import IsotonicRegression
from sklearn.utils.metaestimators import available_if

from truecal.core.data import check_positive_int, shown
from truecal.core.frames import refuse_reordered
from truecal.core.parameters import described
from truecal.recalibration.base import (
    Codes,
    Float64s,
    Logits,
    ProbabilityMap,
    Recalibrator,
    ValidationData,
    check_number,
    normalise,
    probabilities_of,
)
from truecal.recalibration.temperature import TemperatureScaling

_BINS = {
    "n_bins": "The number of bins of each class.",
    "strategy": 'How bins are made: "quantile" (about equally many samples) or "uniform" (equal width).',
}


def inner_edges(p: Float64s, n_bins: int, strategy: str) -> Float64s:
    """Return the values that separate the bins, from predictions alone; equal predictions share a bin.

    Quantile bin j ends with the sample at sorted position floor(j n / n_bins), as in `truecal.Quantile`; more bins than
    samples are as many. Of very many equal-width bins only those near a sample are told apart, so that the cost follows
    the samples: the others are empty, and how the empty ones are divided changes nothing.
    """
    n = len(p)
    if strategy == "quantile":
        m = min(n_bins, n)
        return np.unique(np.sort(p)[np.arange(1, m) * n // m - 1])
    if strategy != "uniform":
        raise ValueError(f"strategy must be 'quantile' or 'uniform', got {shown(strategy)}")
    if n_bins <= 4 * n:
        return np.asarray(np.arange(1, n_bins) / n_bins)
    near = np.unique(np.floor(p * n_bins)[:, None] + np.arange(-1, 3))  # p lies between two of these four, if rounded
    return np.unique(near[(near > 0) & (near < n_bins)] / n_bins)


def bin_of(edges: Float64s, p: Float64s) -> Codes:
    """The bin of each prediction: bin j is (edges[j-1], edges[j]]."""
    return np.asarray(np.searchsorted(edges, p, side="left"), dtype=np.intp)


def bin_means(edges: Float64s, p: Float64s, values: NDArray[Any], weight: Float64s) -> Float64s:
    """Weighted mean of the values in each bin; NaN for an empty bin."""
    bins, n_bins = bin_of(edges, p), len(edges) + 1
    mass = np.bincount(bins, weights=weight, minlength=n_bins)
    total = np.bincount(bins, weights=weight * values, minlength=n_bins)
    return np.asarray(np.divide(total, mass, out=np.full(n_bins, np.nan), where=mass > 0))


@dataclass(eq=False, repr=False, kw_only=True)
class OneVsRestBins(ProbabilityMap):
    """Abstract: each class's probability replaced by the mean of its bin, then rows divided by their sums."""

    n_bins: int = 15
    strategy: str = "quantile"

    @abstractmethod
    def _binned(self, logits: Logits) -> Float64s:
        """The probabilities that are sorted into bins."""

    def _fill(self, p: Float64s, columns: Iterable[NDArray[Any]], weight: Float64s) -> None:
        """Edges from the probabilities, means of one column of values per class."""
        m = check_positive_int(self.n_bins, "n_bins")
        self.edges_ = [inner_edges(column, m, self.strategy) for column in p.T]
        parts = zip(self.edges_, p.T, columns, strict=True)
        self.means_ = [bin_means(edges, column, values, weight) for edges, column, values in parts]

    def _probabilities(self, logits: Logits) -> Float64s:
        p = self._binned(logits)
        found = [m[bin_of(edges, column)] for edges, m, column in zip(self.edges_, self.means_, p.T, strict=True)]
        means = np.column_stack(found)
        return normalise(np.where(np.isnan(means), p, means), p)  # a prediction in an empty bin stays


def _has_fixed_edges(binning: OneVsRestBins) -> bool:
    if binning.strategy != "uniform":
        raise AttributeError(f"partial_fit needs strategy='uniform': {shown(binning.strategy)} edges need all rows")
    return True


@described(**_BINS)
class HistogramBinning(OneVsRestBins):
    """For each class r the frequency of r in the bin of p_r, then rows divided by their sums.

    Zadrozny and Elkan, Obtaining calibrated probability estimates from decision trees and naive Bayesian classifiers,
    ICML 2001. A probability in a bin that was empty keeps its value, and so does that of a class that no validation
    sample has. Weights never move an edge. Attributes: `edges_`, `means_` (NaN for an empty bin), `classes_`.

    >>> from truecal.recalibration import HistogramBinning
    >>> p = [[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.8, 0.2], [0.2, 0.8]]
    >>> binning = HistogramBinning.from_probabilities(n_bins=2, strategy="uniform").fit(p, [0, 0, 0, 1, 1])
    >>> binning.predict_proba([[0.85, 0.15]]).tolist()
    [[0.75, 0.25]]
    """

    def _binned(self, logits: Logits) -> Float64s:
        return probabilities_of(logits)

    def _fit(self, data: ValidationData) -> None:
        self.sums_: Float64s | None = None
        p, y = self._binned(data.logits), data.y
        present = np.bincount(y, minlength=p.shape[1]) > 0
        unknown = np.full(len(y), np.nan)
        self._fill(p, (y == r if seen else unknown for r, seen in enumerate(present)), data.weight)

    @available_if(_has_fixed_edges)  # type: ignore[untyped-decorator]  # scikit-learn is untyped
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Add a batch of rows, for strategy="uniform": after the last one the map is that of a fit to all rows.

        Only sums per bin are kept. `fit` starts afresh. `classes` is for callers that pass it to every classifier; the
        classes are the columns of X, or `labels`.
        """
        refuse_reordered(X=X, y=y, sample_weight=sample_weight)
        fitted, sums = copy(self), getattr(self, "sums_", None)
        data = fitted._validation(X, y, sample_weight, reset=sums is None)
        p, m = fitted._binned(data.logits), check_positive_int(self.n_bins, "n_bins")
        edges, weight = np.arange(1, m) / m, data.unit * data.weight
        bins = [bin_of(edges, column) for column in p.T]
        rows = [(weight, weight * (data.y == r)) for r in range(len(bins))]
        more = np.array([[np.bincount(b, w, minlength=m) for w in pair] for b, pair in zip(bins, rows, strict=True)])
        fitted.sums_ = sums = more if sums is None else sums + more
        fitted.edges_ = [edges] * len(bins)
        fitted.means_ = [
            np.divide(total, mass, out=np.full(m, np.nan), where=(mass > 0) & total.any()) for mass, total in sums
        ]
        self.__dict__ = fitted.__dict__
        return self


@described(scaling="An estimator of logits. Default: TemperatureScaling().", **_BINS)
@dataclass(eq=False, repr=False, kw_only=True)
class ScalingBinning(OneVsRestBins):
    """Fit a smooth map, then replace each class's probability by the mean of the smooth map over its bin.

    Kumar, Liang and Ma, Verified Uncertainty Calibration, NeurIPS 2019: the outputs take few values, so their
    calibration can be verified, and the bin means average smooth predictions and not noisy labels. The bins and their
    means use no label, so all validation samples serve both steps. Attributes: `scaling_`, `edges_`, `means_`,
    `classes_`.

    >>> import numpy as np
    >>> import truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> logits = rng.normal(size=(500, 2))
    >>> y = (rng.random(500) < 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))).astype(int)
    >>> binning = tc.recalibration.ScalingBinning(n_bins=5).fit(logits, y)
    >>> len(np.unique(binning.predict_proba(logits)[:, 1].round(12)))
    5
    """

    scaling: Recalibrator | None = field(default=None, kw_only=False)

    def _binned(self, logits: Logits) -> Float64s:
        return np.asarray(self.scaling_.predict_proba(logits.values), dtype=np.float64)

    def _fit(self, data: ValidationData) -> None:
        if not (self.scaling is None or isinstance(self.scaling, Recalibrator)):
            raise TypeError(f"scaling must be a recalibration estimator, got {shown(self.scaling)}")
        scaling = TemperatureScaling() if self.scaling is None else clone(self.scaling)
        if scaling.space != "logits" or scaling.labels is not None:
            raise ValueError("scaling must be an estimator of logits without labels; give both to ScalingBinning")
        self.scaling_ = scaling.fit(data.logits.values, data.y, data.unit * data.weight)
        p = self._binned(data.logits)
        self._fill(p, p.T, data.weight)


@described(
    n_bins="The number of bins per largest class.",
    smoothing="The rows of the mean prediction that are added to each cell.",
)
@dataclass(eq=False, repr=False, kw_only=True)
class CanonicalRecalibration(ProbabilityMap):
    """Replace a prediction by the mean outcome of its cell: an estimate of E[e_y | h(x)].

    The paper's recalibration theorem is about E[e_y | h(x)] itself: in expectation no truthful error of that map
    exceeds the error of h. This estimator averages the outcomes of finitely many samples over cells that hold
    different predictions, so it can be worse than h: where h is calibrated already, or samples per cell are few. A cell
    is a class and a quantile bin of the confidence among the predictions whose largest probability is that class; cells
    look at predictions only. The value of cell B is (sum of e_y over B + smoothing * mean prediction of B) /
    (n_B + smoothing). With smoothing 0 (default, the theorem's form) a class not seen in a cell gets probability 0,
    which makes the cross-entropy infinite if it comes up later: choose smoothing > 0 where that matters. A prediction
    in a cell without validation samples stays.

    Attributes: `edges_` (per class), `means_` (a row per cell, class by class; NaN for an empty cell), `classes_`.

    >>> import truecal as tc
    >>> p = [[0.6, 0.3, 0.1]] * 4
    >>> canonical = tc.recalibration.CanonicalRecalibration.from_probabilities().fit(p, [0, 0, 1, 2])
    >>> canonical.predict_proba(p[:1]).tolist()
    [[0.5, 0.25, 0.25]]
    """

    n_bins: int = 15
    smoothing: float = 0.0

    def _fit(self, data: ValidationData) -> None:
        m = check_positive_int(self.n_bins, "n_bins")
        smoothing = check_number(self.smoothing, "smoothing", "a finite number of at least 0")
        p, n = probabilities_of(data.logits), len(data.y)
        top, confidence = np.argmax(p, axis=1), p.max(axis=1)
        self.edges_ = {int(r): inner_edges(confidence[top == r], m, "quantile") for r in np.unique(top)}
        n_cells = sum(len(edges) + 1 for edges in self.edges_.values())
        member = csr_array((data.weight, (self._cells(p), np.arange(n))), shape=(n_cells + 1, n))
        outcomes = csr_array((np.ones(n), (np.arange(n), data.y)), shape=p.shape)
        mass: Any = member.sum(axis=1)[:, None]
        # A huge mass leaves nothing to the prior; 0 / 0 is an empty cell.
        with np.errstate(over="ignore", invalid="ignore"):
            pull = smoothing / (data.unit * mass + smoothing) if smoothing else 0.0
            self.means_ = (1 - pull) * ((member @ outcomes).toarray() / mass) + pull * (member @ p / mass)

    def _cells(self, p: Float64s) -> Codes:
        """The row of `means_` of each prediction; -1, which is an empty one, for a largest class never seen."""
        top, confidence = np.argmax(p, axis=1), p.max(axis=1)
        cells, first = np.full(len(p), -1, dtype=np.intp), 0
        for r, edges in self.edges_.items():
            rows = top == r
            cells[rows] = first + bin_of(edges, confidence[rows])
            first += len(edges) + 1
        return cells

    def _probabilities(self, logits: Logits) -> Float64s:
        p = probabilities_of(logits)
        means = self.means_[self._cells(p)]
        return np.where(np.isnan(means), p, means)


@described()
class IsotonicOneVsRest(ProbabilityMap):
    """For each class r the best non-decreasing map of p_r to the frequency of r, then rows divided by their sums.

    Zadrozny and Elkan, Transforming classifier scores into accurate multiclass probability estimates, KDD 2002. A
    class that no validation sample has keeps its predicted probability; a row whose maps are all 0 stays as it was.

    Attributes: `maps_`, one IsotonicRegression per class (None for an absent class), of two classes one for the second;
    `classes_`.

    >>> import truecal as tc
    >>> p = [[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.2, 0.8]]
    >>> isotonic = tc.recalibration.IsotonicOneVsRest.from_probabilities().fit(p, [0, 0, 0, 1, 1])
    >>> isotonic.predict_proba([[0.9, 0.1]]).tolist()
    [[0.75, 0.25]]
    """

    def _fit(self, data: ValidationData) -> None:
        p, present = probabilities_of(data.logits), np.unique(data.y)
        self.maps_: list[IsotonicRegression | None] = [None] * p.shape[1]
        if len(present) == p.shape[1] == 2:  # the map of the other class is its mirror image
            self.maps_ = [self._curve(p[:, 1], data.y == 1, data.weight)]
            return
        for r in present:
            self.maps_[r] = self._curve(p[:, r], data.y == r, data.weight)

    def _curve(self, p: Float64s, outcome: NDArray[Any], weight: Float64s | None) -> IsotonicRegression:
        return IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p, outcome, weight)

    def _probabilities(self, logits: Logits) -> Float64s:
        p = probabilities_of(logits)
        if len(self.maps_) == 1 and self.maps_[0] is not None:
            q = self.maps_[0].predict(p[:, 1])
            return np.column_stack([1 - q, q])
        columns = [p[:, r] if f is None else f.predict(p[:, r]) for r, f in enumerate(self.maps_)]
        return normalise(np.column_stack(columns), p)


@described()
class CenteredIsotonic(IsotonicOneVsRest):
    """Isotonic regression whose steps are joined by lines: it keeps the order of different predictions.

    Oron and Flournoy, Centered isotonic regression, Statistics in Biopharmaceutical Research 2017: each level of the
    isotonic regression moves to the mean of its predictions, and the map is linear between these. Levels of 0 and 1
    stay, and so do both ends. Per class, then rows divided by their sums. Attributes as of IsotonicOneVsRest.

    >>> import truecal as tc
    >>> p = [0.1, 0.3, 0.5, 0.7, 0.8, 0.9]
    >>> centred = tc.recalibration.CenteredIsotonic.from_probabilities().fit(p, [0, 1, 0, 1, 0, 1])
    >>> centred.predict_proba([0.4, 0.6])[:, 1].round(3).tolist()             # isotonic: 0.5 twice
    [0.316, 0.538]
    """

    def _curve(self, p: Float64s, outcome: NDArray[Any], weight: Float64s | None) -> IsotonicRegression:
        order = np.argsort(p, kind="stable")
        x, w = p[order], np.asarray(weight)[order]
        start = np.flatnonzero(np.diff(x, prepend=-1))  # of equal predictions
        mass, total = np.add.reduceat(w, start), np.add.reduceat(w * outcome[order], start)
        found = np.clip(isotonic_regression(total / mass, weights=mass).x, 0, 1)
        head = np.flatnonzero(np.diff(found, prepend=-1))  # of equal levels
        level, first, last = found[head], x[start[head]], x[np.append(start[head[1:]], len(x)) - 1]
        middle = np.add.reduceat(mass * x[start], head) / np.add.reduceat(mass, head)
        flat = (level == 0) | (level == 1)
        places = np.concatenate([first[:1], first[flat], middle[~flat], last[flat], last[-1:]])
        levels = np.concatenate([level[:1], level[flat], level[~flat], level[flat], level[-1:]])
        return super()._curve(places, levels, None)
