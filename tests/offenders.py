"""Metrics that reward lying, each by one known mistake."""

from __future__ import annotations

from typing import Any

import numpy as np

import truecal

tc: Any = truecal  # what a test hands in need not be of the right type


def residuals(y, p):
    return p - y


def binned(u, m=4):
    """Equal-width cells, by index."""
    return np.clip(np.ceil(np.asarray(u, dtype=float) * m).astype(int) - 1, 0, m - 1)


# -- one probability per row -------------------------------------------------------------------------------------------


def size_normalised(y, u):
    """Squares divided by the size of the bin: the diagonal moves with the predictions."""
    cells = binned(u)
    return sum((residuals(y, u)[cells == b].sum()) ** 2 / (cells == b).sum() for b in set(cells)) / len(u)


def factor_of_nonempty_bins(y, u):
    cells = binned(u)
    return len(set(cells)) * sum(residuals(y, u)[cells == b].sum() ** 2 for b in set(cells)) / len(u) ** 2


def labels_sorted_into_ties(y, u):
    order = np.lexsort((y, u))
    return tc.binary_error(y[order], u[order], n_bins=2, ties="row")


def fifteen_bins_sorting_labels_into_ties(y, u):
    order = np.lexsort((y, u))
    return tc.binary_error(y[order], u[order], ties="row")


def bins_that_see_labels(y, u):
    """Rows whose outcome surprised get a bin of their own."""
    cells = 2 * binned(u) + (np.abs(residuals(y, u)) > 0.5)
    return sum(residuals(y, u)[cells == b].sum() ** 2 for b in set(cells)) / len(u) ** 2


def bins_chosen_by_a_sweep(y, u):
    """The number of bins with the least error on these very labels."""
    return min(tc.binary_error(y, u, n_bins=m) for m in (1, 2, 3, 4))


def square_root(y, u):
    return tc.binary_error(y, u, n_bins=2) ** 0.5


def debiased(y, u):
    """The plug-in squared error less its estimated variance, as Kumar et al. have it, in fifteen equal-mass bins."""
    order = np.argsort(u, kind="stable")
    total = 0.0
    for part in np.array_split(order, 15):
        if len(part) > 1:
            mean = y[part].mean()
            gap = (u[part].mean() - mean) ** 2 - mean * (1 - mean) / (len(part) - 1)
            total += len(part) / len(u) * gap
    return total


def unbiased_pairs(y, u):
    """U alone: the truthful error without its diagonal."""
    return tc.decompose(y, u, error="binary", n_bins=2).U


def weights_from_predictions(y, u):
    return tc.score(y, u, error="binary", sample_weight=np.maximum(u, 1e-9))


def gap_alone(y, u):
    metric = tc.CalibrationError(tc.Binary(), tc.Quantile(2))
    return metric.parts(metric.read(y, u))[0].gap_sq


# -- a distribution per row --------------------------------------------------------------------------------------------


def dropped_correction(y, p):
    return tc.confidence_error(y, p, corrected=False)


def thresholded(y, p):
    """TACE: only probabilities above one in a hundred are looked at."""
    total, n = 0.0, len(y)
    for r in range(p.shape[1]):
        seen = p[:, r] > 0.01
        total += np.abs(np.where(seen, p[:, r] - (y == r), 0.0)).sum() / n
    return total / p.shape[1]


def thresholded_squares(y, p):
    """A squared error that looks away from small probabilities: gains come from hiding alone."""
    seen = p > 0.01
    return float((np.where(seen, p - np.eye(p.shape[1])[y], 0.0) ** 2).sum() / len(y))


def tilted(y, p):
    """Brier's, with a small bonus for the first class: the truth is not quite the minimum, and big lies lose."""
    return float(((p - np.eye(p.shape[1])[y]) ** 2).sum() / len(y) - 1e-3 * p[:, 0].mean())


BINARY = (
    size_normalised,
    factor_of_nonempty_bins,
    labels_sorted_into_ties,
    fifteen_bins_sorting_labels_into_ties,
    bins_that_see_labels,
    bins_chosen_by_a_sweep,
    square_root,
    debiased,
    unbiased_pairs,
    weights_from_predictions,
    gap_alone,
)
MULTICLASS = (dropped_correction, thresholded, thresholded_squares)
