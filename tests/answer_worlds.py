"""Data sets on which every kind of prediction is shown to a reader: calibrated, wrong, tiny, large, rare, wide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import truecal as tc

SHOWN_AS = {"binary": 2, "multiclass": 3, "ordered": 5, "multilabel": 4, "distribution": 7, "top": 3, "answers": 3}
SHOWN_AS["survival"] = 3
"""How many classes, labels or thresholds each kind has where a world does not say."""
KINDS = tuple(SHOWN_AS)
GOLDEN = Path(__file__).parent / "goldens" / "answers.txt"
"""What readers see of every kind on every data set; `python tests/answer_worlds.py` writes it."""


def _softmax(logits: Any) -> Any:
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    return odds / odds.sum(axis=1, keepdims=True)


def _classes(rng: Any, n: int, k: int, sharpen: float, shift: float, rare: bool) -> tuple[Any, Any]:
    """Labels, and probabilities whose logits are those of the labels, sharpened, with the first column shifted."""
    logits = 1.5 * rng.normal(size=(n, k))
    logits[:, 0] -= 5.0 * rare
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
    if kind == "survival":
        rate = np.exp(rng.normal(size=n) - (5.5 if rare else 1.3))
        event, end = rng.exponential(1 / rate), rng.exponential(8.0, size=n)
        horizons = np.arange(1.0, k + 1)
        risk = 1 - np.exp(-sharpen * rate[:, None] * horizons)
        return (np.minimum(event, end), event <= end), risk, {"horizons": horizons}
    y, p = _classes(rng, n, k, sharpen, shift, rare)
    if kind == "ordered":
        return y + 1, p, {"task": "ordered", "labels": list(range(1, k + 1))}
    if kind == "multiclass":
        names = [f"species-{j}" for j in range(k)] if k > 9 else ["cat", "dog", "bird"]
        return np.array(names)[y], p, {"labels": names}
    top = p.argmax(axis=1)
    return y == top, p.max(axis=1), {}


def evaluated(kind: str, y: Any, p: Any, options: Any) -> Any:
    """The Evaluation of arguments of a kind."""
    if kind == "top":
        return tc.evaluate(None, tc.TopPredictions(y, p), name="model", n_resamples=199)
    if kind == "answers":  # "a" is the right answer, and given so often
        rng = np.random.default_rng(1)
        answers = np.where(rng.random((len(y), 8)) < np.asarray(p)[:, None], "a", "b")
        return tc.from_samples(answers, reference=np.where(y, "a", "b"), name="model", n_resamples=199)
    return tc.evaluate(y, p, name="model", n_resamples=199, **options)


def _evaluate(kind: str, n: int, **about: Any) -> Any:
    return evaluated(kind, *arguments(kind, n, **about))


def _recalibrated(kind: str) -> Any:
    """Probabilities of one half of the rows by a map that was fitted on the other half."""
    if kind in ("distribution", "answers", "survival"):
        return None
    y, p, options = arguments(kind, 4000, sharpen=1.6)
    if kind in ("binary", "top", "multilabel"):
        columns = list(zip(np.atleast_2d(p.T), np.atleast_2d(np.asarray(y).T), strict=True))
        fitted = [tc.BetaScaling.from_probabilities().fit(u[:2000], z[:2000]) for u, z in columns]
        fixed = [one.predict_proba(u[2000:])[:, 1] for one, (u, _) in zip(fitted, columns, strict=True)]
        return evaluated(kind, y[2000:], fixed[0] if p.ndim == 1 else np.column_stack(fixed), options)
    place = {name: j for j, name in enumerate(options["labels"])}
    logits, index = np.log(p), np.array([place[name] for name in y])
    fitted_map = tc.TemperatureScaling().fit(logits[:2000], index[:2000])
    return evaluated(kind, y[2000:], fitted_map.predict_proba(logits[2000:]), options)


SMALL: dict[str, Callable[[str], Any]] = {
    "calibrated": lambda kind: _evaluate(kind, 2000),
    "over-confident": lambda kind: _evaluate(kind, 2000, sharpen=1.8),
    "20 rows": lambda kind: _evaluate(kind, 20, sharpen=1.8),
    "2 rows": lambda kind: None if kind in ("answers", "survival") else _evaluate(kind, 2, sharpen=1.8),
    "1% positives": lambda kind: _evaluate(kind, 4000, rare=True, sharpen=1.3),
    "recalibrated": _recalibrated,
}
LARGE: dict[str, Callable[[str], Any]] = {
    "1,000 classes": lambda kind: (
        None if kind in ("binary", "top", "answers", "survival") else _evaluate(kind, 400, k=1000)
    ),
    "one million": lambda kind: _evaluate(kind, 1_000_000, sharpen=1.02) if kind in ("binary", "top") else None,
}
WORLDS = SMALL | LARGE
"""The Evaluation of every kind on each data set; None where a kind does not have it."""


def shown(found: Any) -> str:
    """What a result tells a reader: its first screen without the score, its explanation, and its row of a paper."""
    lines = [line for line in repr(found).split("\n") if not line.startswith("  score ")]
    return "\n".join([*lines, *found.explain().split("\n"), found.to_markdown().split("\n")[-1]])


def written(worlds: Mapping[str, Callable[[str], Any]]) -> str:
    """The outputs of all data sets and kinds, as the golden file has them."""
    results = {(name, kind): make(kind) for name, make in worlds.items() for kind in KINDS}
    return "\n".join(f"## {name}: {kind}\n{shown(one)}\n" for (name, kind), one in results.items() if one is not None)


if __name__ == "__main__":
    GOLDEN.write_text(written(WORLDS), encoding="utf-8")
