"""Ten data sets on which decision curves and clinical measures are compared with other packages."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

Array = np.ndarray[Any, np.dtype[Any]]
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7)


def data_sets() -> dict[str, tuple[Array, Array]]:
    """Outcomes and predictions by name: five that are drawn, and five of scikit-learn with fixed risk scores."""
    found = {}
    worlds = {"calibrated": (0.0, 1.0, 400), "over-confident": (0.0, 2.0, 400), "too high": (1.0, 1.0, 300)}
    for i, (name, (shift, slope, n)) in enumerate((worlds | {"small": (0.0, 1.5, 60)}).items()):
        rng = np.random.default_rng(i)
        z = rng.normal(-0.5, 1.2, n)
        found[name] = (rng.random(n) < expit(z)).astype(int), expit(slope * z + shift)
    rng = np.random.default_rng(9)
    z = rng.normal(-4, 1, 2000)
    found["rare"] = (rng.random(2000) < expit(z)).astype(int), expit(z)
    return found | {name: _of_features(name) for name in ("breast_cancer", "wine", "iris", "digits", "diabetes")}


def _of_features(name: str) -> tuple[Array, Array]:
    """Class 0 against the others, or a large number, and a blurred score of the best features, without any fit."""
    from sklearn import datasets

    X, target = getattr(datasets, f"load_{name}")(return_X_y=True)
    y = (target > 140 if name == "diabetes" else target == 0).astype(int)
    spread = X.std(axis=0)
    X = (X[:, spread > 0] - X[:, spread > 0].mean(axis=0)) / spread[spread > 0]
    strength = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
    score = X @ (strength * (np.abs(strength) >= 0.5 * np.abs(strength).max()))
    noise = np.sin(1e4 * np.arange(1, len(y) + 1))
    return y, expit(1.2 * score / score.std() + 1.5 * noise - 0.5)
