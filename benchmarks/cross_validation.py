"""How pooled out-of-fold predictions behave: python -m benchmarks.cross_validation [draws] prints one line per model.

Labels are drawn from known chances, so the true gap of the fitted models is known. Beside the pooled rows stand the two
other ways to read them: folds as clusters, and each fold on its own (the mean squared gap of the folds); and a sample
of as many fresh rows, predicted by one of the models.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB

import truecal as tc

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


def one_draw(seed: int, model: Any, n: int, d: int) -> dict[str, float]:
    """What one sample says, in squared points for gaps and 0/1 for events."""
    rng = np.random.default_rng(seed)
    X, y, chances = draw(rng, n, d)
    u, fold = np.empty(n), np.empty(n, dtype=int)
    for number, (train, test) in enumerate(StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(X, y)):
        fitted = model.fit(X[train], y[train])
        u[test], fold[test] = fitted.predict_proba(X[test])[:, 1], number
    fresh_X, fresh_y, fresh_chances = draw(rng, n, d)
    fresh_u = fitted.predict_proba(fresh_X)[:, 1]
    pooled, clusters = tc.gap(y, u, error="binary"), tc.gap(y, u, error="binary", groups=fold)
    # chances as outcome values: U per pair of rows is then the true squared gap
    true, fresh_true = (
        tc.decompose(p, v, error="linear", n_bins=pooled.n_bins).gap
        for p, v in ((chances, u), (fresh_chances, fresh_u))
    )
    each = [tc.gap(y[fold == f], u[fold == f], error="binary").points for f in range(FOLDS)]
    fresh = tc.gap(fresh_y, fresh_u, error="binary")
    return {
        "gap²: true": gap_sq(true),
        "pooled": gap_sq(pooled.points),
        "clusters": gap_sq(clusters.points),
        "folds": float(np.mean([gap_sq(points) for points in each])),
        "fresh true": gap_sq(fresh_true),
        "fresh": gap_sq(fresh.points),
        "covered: pooled": float(pooled.low <= true <= pooled.high),
        "clusters covered": float(clusters.low <= true <= clusters.high),
        "fresh covered": float(fresh.low <= fresh_true <= fresh.high),
        "rejected: pooled": float(tc.calibration_test(y, u, error="binary", n_resamples=199).pvalue <= 0.05),
        "fresh rejected": float(tc.calibration_test(fresh_y, fresh_u, error="binary", n_resamples=199).pvalue <= 0.05),
    }


def lines(draws: int, n: int = 500) -> Iterator[str]:
    for name, (model, d) in MODELS.items():
        found = [one_draw(seed, model, n, d) for seed in range(draws)]
        means = {key: np.mean([each[key] for each in found]) for key in found[0]}
        yield f"{name}: " + ", ".join(f"{key} {value:.3g}" for key, value in means.items())


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
        print(line, flush=True)
