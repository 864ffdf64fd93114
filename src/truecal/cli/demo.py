"""The demo: ten honest models of the bundled Letter data and a cheat that knows nothing, compared.

The list of models and the seed were fixed before the first look at any result.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.extras import require

if TYPE_CHECKING:
    from ..results.comparison import Comparison
    from .letter import Splits

SEED = 0
BINS = (5, 15, 20, 200, 2000)
CHEAT = "cheat"
TITLE = "Ten honest models and a cheat"
STAGE = (
    "Ten models learned to read letters. The eleventh, the cheat, predicts the class frequencies of the validation "
    "labels for every row."
)
TINY = (
    "With so many rows the test rejects even the cheat, whose frequencies are off by a fraction of a point. "
    "The gap shows how small that is."
)
SMALL_GAP = 0.5  # points


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


def run_demo(out: Path, progress: Callable[[float], None] | None = None) -> Comparison:
    """Train, write one file of test probabilities per model under `out`, and compare; training is a third of it."""
    from .. import compare
    from ..io import atomic_path
    from .letter import letter

    data = letter()
    out.mkdir(parents=True, exist_ok=True)
    models: dict[str, NDArray[Any]] = {}
    fitted: dict[tuple[str, float], Any] = {}
    say = progress or (lambda share: None)
    for i, model in enumerate(MODELS):
        say(i / len(MODELS) / 3)
        key = (model.learner, model.fraction)
        if key not in fitted:
            fitted[key] = _fit(model, data)
        models[model.name] = _probabilities(model, fitted[key], data)
    models[CHEAT] = base_rates(data)
    for name, p in models.items():
        with atomic_path(out / f"{name}.npz") as path, open(path, "wb") as stream:
            np.savez_compressed(stream, probs=p.astype(np.float32), labels=data.test.y)
    return compare(data.test.y, models, n_bins=BINS, progress=lambda share: say((1 + 2 * share) / 3))


def base_rates(data: Splits) -> NDArray[Any]:
    """What the cheat predicts: for every test row how often each class came in the validation labels."""
    rates = np.bincount(data.validation.y, minlength=data.n_classes) / len(data.validation)
    return np.tile(rates, (len(data.test), 1))


def story(result: Comparison) -> str:
    """What the demo shows, as far as this run bears it out."""
    from ..results.ranking import ECE_NAMES
    from ..results.verdict import loss_title

    by_ece = [r.order[0] == CHEAT for r in result.rankings if r.error in ECE_NAMES]
    last = result.rows_of_columns()[-1].model
    if not all(by_ece) or last.name != CHEAT:
        return STAGE
    told = f"{STAGE} ECE ranks it first at every number of bins; by {loss_title(last)} it is last."
    gap = result.evaluations[CHEAT].gap
    if result.verdict.standings[CHEAT].state == "rejected" and gap is not None and gap.points < SMALL_GAP:
        told += f" {TINY}"
    return told


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
