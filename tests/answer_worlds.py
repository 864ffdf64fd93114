"""Data sets on which every kind of prediction is shown to a reader: calibrated, wrong, tiny, large, rare, wide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import truecal as tc

SHOWN_AS = {"binary": 2, "multiclass": 3, "ordered": 5, "multilabel": 4, "distribution": 7, "top": 3, "answers": 3}
"""How many classes, labels or thresholds each kind has where a world does not say."""
KINDS = tuple(SHOWN_AS)


def _softmax(logits: Any) -> Any:
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _classes(rng: Any, n: int, k: int, sharpen: float, shift: float) -> tuple[Any, Any]:
    """Labels, and probabilities whose logits are those of the labels, sharpened, with the first column shifted."""
    logits = 1.5 * rng.normal(size=(n, k))
    y = (_softmax(logits).cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    logits[:, 0] += shift
    return y, _softmax(sharpen * logits)


def _marks(rng: Any, shape: Any, sharpen: float, shift: float, rare: bool) -> tuple[Any, Any]:
    """0/1 outcomes with their probabilities."""
    logits = rng.normal(size=shape) * (0.8 if rare else 1.5) - (4.9 if rare else 0.5)
    came = rng.random(shape) < 1 / (1 + np.exp(-logits))
    return came, 1 / (1 + np.exp(-sharpen * logits - shift))


def arguments(
    kind: str, n: int, *, k: int | None = None, sharpen: float = 1.0, rare: bool = False, seed: int = 0
) -> Any:
    """The arguments of `evaluate` for so many rows of a kind; `rare`: about 1% of the rows are positive."""
    rng, k = np.random.default_rng(seed), k or SHOWN_AS[kind]
    shift = 0.0 if sharpen == 1 else 0.3
    if kind == "binary":
        return *_marks(rng, n, sharpen, shift, rare), {}
    if kind == "multilabel":
        labels = [f"label-{j}" for j in range(k)] if k > 9 else ["sports", "politics", "science", "arts"]
        return *_marks(rng, (n, k), sharpen, shift, rare), {"task": "multilabel", "labels": labels}
    if kind == "distribution":
        centre = rng.normal(size=n)
        y = centre + rng.normal(size=n)
        return y, tc.forecasts.normal(centre + shift, np.full(n, 1 / sharpen)), {"thresholds": np.linspace(-3, 3, k)}
    y, p = _classes(rng, n, k, sharpen, -4.0 if rare else shift)
    if kind == "ordered":
        return y + 1, p, {"task": "ordered", "labels": list(range(1, k + 1))}
    if kind == "multiclass":
        names = [f"species-{j}" for j in range(k)] if k > 9 else ["cat", "dog", "bird"]
        return np.array(names)[y], p, {"labels": names}
    top = p.argmax(axis=1)
    return y == top, p.max(axis=1), {}


def _evaluate(kind: str, n: int, **about: Any) -> Any:
    y, p, options = arguments(kind, n, **about)
    if kind == "top":
        return tc.evaluate(None, tc.TopPredictions(y, p), name="model", n_resamples=199)
    if kind == "answers":
        rng = np.random.default_rng(1)
        right = rng.random((n, 8)) < p[:, None]
        answers = [["a" if one else f"b{rng.integers(3)}" for one in row] for row in right]
        return tc.from_samples(answers, ["a" if one else "c" for one in y], name="model", n_resamples=199)
    return tc.evaluate(y, p, name="model", n_resamples=199, **options)


def _recalibrated(kind: str) -> Any:
    """Probabilities of one half of the rows by a map that was fitted on the other half."""
    if kind == "distribution":
        return None
    y, p, options = arguments(kind, 4000, sharpen=1.6)
    flat = kind in ("binary", "top", "answers")
    if kind == "multilabel":
        maps = [tc.BetaScaling().fit(p[:2000, j], y[:2000, j]) for j in range(p.shape[1])]
        fixed = np.column_stack([one.predict_proba(p[2000:, j])[:, 1] for j, one in enumerate(maps)])
    elif flat:
        fixed = tc.BetaScaling().fit(p[:2000], np.asarray(y)[:2000]).predict_proba(p[2000:])[:, 1]
    else:
        fitted = tc.TemperatureScaling().fit(np.log(p[:2000]), np.searchsorted(np.asarray(options["labels"]), y[:2000]))
        fixed = fitted.predict_proba(np.log(p[2000:]))
    if kind == "top":
        return tc.evaluate(None, tc.TopPredictions(y[2000:], fixed), name="model", n_resamples=199)
    return None if kind == "answers" else tc.evaluate(y[2000:], fixed, name="model", n_resamples=199, **options)


WORLDS: dict[str, Callable[[str], Any]] = {
    "calibrated": lambda kind: _evaluate(kind, 2000),
    "over-confident": lambda kind: _evaluate(kind, 2000, sharpen=1.8),
    "20 rows": lambda kind: _evaluate(kind, 20, sharpen=1.8),
    "2 rows": lambda kind: _evaluate(kind, 2, sharpen=1.8),
    "1% positives": lambda kind: _evaluate(kind, 4000, rare=True, sharpen=1.3),
    "1,000 classes": lambda kind: None if kind in ("binary", "top", "answers") else _evaluate(kind, 400, k=1000),
    "recalibrated": _recalibrated,
    "one million": lambda kind: _evaluate(kind, 1_000_000, sharpen=1.02) if kind in ("binary", "top") else None,
}
"""The Evaluation of every kind on each data set; None where a kind does not have it."""
