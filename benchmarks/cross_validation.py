"""How cross-validated predictions behave: python -m benchmarks.cross_validation [draws] prints a table.

Labels are drawn from known chances, so the true gap of the fitted models is known. Beside the gap of rows of one fold,
which `evaluate(..., folds=)` gives, are that of all rows pooled and the test of as many fresh rows, predicted by one
model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB

import truecal as tc
from truecal.inference.binned_sample import BinnedSample
from truecal.inference.spread import spreads

from .calibration import table

MODELS: dict[str, tuple[Any, int]] = {
    "logistic, 2 features": (LogisticRegression(C=1e6), 2),
    "logistic, 20 features": (LogisticRegression(C=1e6, max_iter=500), 20),
    "naive Bayes, 2 features": (GaussianNB(), 2),
    "base rates": (DummyClassifier(), 2),
}
FOLDS = 5


def draw(rng: np.random.Generator, n: int, d: int) -> tuple[Any, Any, Any]:
    """Features, labels and the chances they were drawn from: logistic in the first two features."""
    X = rng.normal(size=(n, d))
    chances = 1 / (1 + np.exp(-1.5 * (X[:, 0] + X[:, 1])))
    return X, (rng.random(n) < chances).astype(int), chances


def gap_sq(points: float) -> float:
    return points * abs(points)


def true_gap_sq(chances: Any, u: Any, folds: Any) -> float:
    """The squared gap that the chances themselves have in the bins of each fold, in squared points."""
    error = tc.CalibrationError(tc.properties.Outcomes((0.0, 1.0)), tc.Quantile("auto"))
    frozen = BinnedSample.of(error, error.read(chances, u))
    return 1e4 * spreads(frozen, folds=folds)[0].theta


def one_draw(seed: int, splitter: Any, model: Any, n: int, d: int) -> list[float]:
    """What one sample says, in squared points for gaps and 0/1 for events."""
    rng = np.random.default_rng(seed)
    X, y, chances = draw(rng, n, d)
    u, fold = np.empty(n), np.empty(n, dtype=int)
    for number, (train, test) in enumerate(splitter(FOLDS, shuffle=True, random_state=seed).split(X, y)):
        fitted = model.fit(X[train], y[train])
        u[test], fold[test] = fitted.predict_proba(X[test])[:, 1], number
    fresh_X, fresh_y, _ = draw(rng, n, d)
    fresh = fitted.predict_proba(fresh_X)[:, 1]
    options: dict[str, Any] = {"errors": ["binary"], "n_resamples": 199}
    found: Any = tc.evaluate(y, u, folds=fold, **options)
    true = true_gap_sq(chances, u, (fold, FOLDS))
    held = gap_sq(found.gap.low) <= true <= gap_sq(found.gap.high)
    pooled, other = tc.gap(y, u, error="binary").points, tc.calibration_test(fresh_y, fresh, n_resamples=199).pvalue
    return [true, gap_sq(found.gap.points), gap_sq(pooled), held, found.test.pvalue <= 0.05, other <= 0.05]


def rows(draws: int, n: int = 500) -> Iterator[list[str]]:
    for splitter in (KFold, StratifiedKFold):
        for name, (model, d) in MODELS.items():
            means = np.mean([one_draw(seed, splitter, model, n, d) for seed in range(draws)], axis=0).tolist()
            numbers = [f"{x:.1f}" for x in means[:3]] + [f"{x:.2f}".removeprefix("0") for x in means[3:]]
            yield [splitter.__name__, name, *numbers]


if __name__ == "__main__":
    heads = ("folds", "model", "true gap²", "rows of one fold", "pooled", "interval held it", "rejected", "fresh rows")
    table(heads, rows(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
