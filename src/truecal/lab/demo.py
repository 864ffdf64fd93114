"""The demo: real models on the bundled Letter data, at different training sizes and temperatures, compared.

The list of models and the seed were fixed before the first look at any result.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.extras import require

if TYPE_CHECKING:
    from ..evaluation.comparison import Comparison
    from .datasets import Splits

SEED = 0
BINS = (5, 10, 20, 50, 200, 2000)


@dataclass(frozen=True)
class DemoModel:
    """A learner, the share of the training rows it sees, and the temperature applied to its log-probabilities."""

    name: str
    learner: str
    fraction: float = 1.0
    temperature: float | None = 1.0
    """None: fitted on the validation rows."""


MODELS = (
    DemoModel("logistic", "logistic"),
    DemoModel("naive-bayes", "naive_bayes"),
    DemoModel("naive-bayes-scaled", "naive_bayes", temperature=None),
    DemoModel("forest", "forest"),
    DemoModel("network-10pct", "network", fraction=0.1),
    DemoModel("network-30pct", "network", fraction=0.3),
    DemoModel("network", "network"),
    DemoModel("network-sharp", "network", temperature=0.5),
    DemoModel("network-flat", "network", temperature=2.0),
    DemoModel("network-scaled", "network", temperature=None),
)


def run_demo(out: Path) -> Comparison:
    """Train, write one file of test probabilities per model under `out`, and compare."""
    from .. import compare
    from ..io import atomic_path
    from .datasets import letter

    data = letter()
    out.mkdir(parents=True, exist_ok=True)
    models: dict[str, NDArray[Any]] = {}
    fitted: dict[tuple[str, float], Any] = {}
    for model in MODELS:
        key = (model.learner, model.fraction)
        if key not in fitted:
            fitted[key] = _fit(model, data)
        models[model.name] = _probabilities(model, fitted[key], data)
        with atomic_path(out / f"{model.name}.npz") as path, open(path, "wb") as stream:
            np.savez_compressed(stream, probs=models[model.name].astype(np.float32), labels=data.test.y)
    return compare(data.test.y, models, n_bins=BINS)


def _fit(model: DemoModel, data: Splits) -> Any:
    rows = np.random.default_rng(SEED).permutation(len(data.train))[: round(model.fraction * len(data.train))]
    with warnings.catch_warnings():  # a demo network stops when its time is up
        warnings.simplefilter("ignore", require("sklearn.exceptions", "recalibration").ConvergenceWarning)
        return _learner(model.learner).fit(data.train.X[rows], data.train.y[rows])


def _learner(name: str) -> Any:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if name == "naive_bayes":
        return GaussianNB()
    if name == "forest":
        return RandomForestClassifier(100, min_samples_leaf=2, random_state=SEED)
    network = MLPClassifier((100,), max_iter=60, random_state=SEED)
    return make_pipeline(StandardScaler(), network if name == "network" else LogisticRegression(max_iter=300))


def _probabilities(model: DemoModel, fitted: Any, data: Splits) -> NDArray[Any]:
    from scipy.special import softmax

    from ..recalibration import TemperatureScaling

    validation, scores = (np.log(np.maximum(fitted.predict_proba(x), 1e-12)) for x in (data.validation.X, data.test.X))
    if model.temperature is None:
        return np.asarray(TemperatureScaling().fit(validation, data.validation.y).predict_proba(scores))
    return np.asarray(softmax(scores / model.temperature, axis=1))
