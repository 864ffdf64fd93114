"""recalibrate: one confidence per answer through a map fitted on other questions, measured before and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, final

import numpy as np

from ..core.data import check_positive_int, shown
from ..core.extras import require
from ..core.parameters import described
from ..core.result import Result
from ..core.types import Array
from ..inference.gaps import gap_text
from ..kinds import TopPredictions
from ..kinds.inputs import group_numbers
from .evaluate import evaluate
from .evaluation import Evaluation

Method = Literal["platt", "beta", "isotonic"]
MAPS: dict[str, str] = {"platt": "PlattScaling", "beta": "BetaScaling", "isotonic": "IsotonicOneVsRest"}
FLOOR = 0.01  # confidences of 0 and 1, as few samples have them, have no log-odds


@final
@dataclass(frozen=True, repr=False, eq=False)
class Recalibrated(Result):
    """Confidences after a map that was fitted on other questions; `before` and `after` are measured on all of them.

    `map` is fitted on all rows, for new ones: `map.predict_proba(confidence)[:, 1]`.
    """

    method: str
    folds: int
    confidence: Array
    before: Evaluation
    after: Evaluation
    map: Any

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types, without the fitted map."""
        about = {"method": self.method, "folds": self.folds, "confidence": self.confidence.tolist()}
        return about | {"before": self.before.to_dict(), "after": self.after.to_dict()}

    def __repr__(self) -> str:
        lines = [f"{self.method}, fitted on other questions in {self.folds} folds, {len(self.confidence)} rows"]
        for name, found in (("before", self.before), ("after", self.after)):
            gap = "no gap" if found.gap is None else f"gap {gap_text(found.gap)}"
            score = "" if found.score is None else f", score {found.score:.4f}"
            lines.append(f"  {name:<7}confidence {found.direction.mean_report:.1%}, {gap}{score}")
        return "\n".join(lines)


@described(
    "A Recalibrated.",
    confidence="The confidence of each answer: stated, a majority share, or any number from 0 to 1.",
    correct="Whether each answer is right.",
    questions="The question of each row: rows of one question stay in one fold.",
    method='"platt" (a line through the log-odds), "beta" or "isotonic".',
    folds="How many parts the questions are divided into.",
)
def recalibrate(
    confidence: Any,
    correct: Any,
    *,
    questions: Any = None,
    method: Method = "platt",
    folds: int = 5,
    level: float = 0.95,
    seed: int = 0,
) -> Recalibrated:
    """Turn a confidence into a probability of being right, by a map that is fitted on other questions.

    Any confidence will do: the majority share of sampled answers, which is over-confident as it is, becomes calibrated
    by a map. Confidences of 0 and 1 count as 0.01 and 0.99.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(1)
    >>> chance = rng.uniform(.3, .9, 1000)
    >>> said = np.clip(chance + .2, 0, 1).round(1)                       # 20 points too high, rounded
    >>> found = tc.language.recalibrate(said, rng.random(1000) < chance)
    >>> found                                                            # doctest: +ELLIPSIS
    platt, fitted on other questions in 5 folds, 1000 rows
      before confidence 79.4%, gap 20 points [17, 23], over-confident, score 0.69...
      after  confidence 59.4%, gap 2.9 points [0.0, 8.0], score 0.61...
    """
    if method not in MAPS:
        raise ValueError(f"method must be one of {', '.join(map(repr, MAPS))}, got {shown(method)}")
    before = evaluate(None, TopPredictions(correct, confidence), level=level, seed=seed, name="before")
    p, y = np.asarray(confidence, dtype=np.float64), np.asarray(correct).astype(np.intp)
    number, count = group_numbers(np.arange(len(p)) if questions is None else np.asarray(questions))
    if len(number) != len(p):
        raise ValueError(f"questions has {len(number)} entries and confidence {len(p)}: expected one each")
    folds = check_positive_int(folds, "folds")
    if not 2 <= folds <= count // 2:
        raise ValueError(f"folds must be from 2 to half of the {count} questions, got {folds}")
    fold = (np.random.default_rng(seed).permutation(count) % folds)[number]
    after = np.empty(len(p))
    for f in range(folds):
        after[fold == f] = _fitted(method, p[fold != f], y[fold != f]).predict_proba(p[fold == f])[:, 1]
    options: dict[str, Any] = {"level": level, "seed": seed}
    repeated = count < len(p)
    if repeated:
        before = evaluate(None, TopPredictions(correct, p), groups=number, name="before", **options)
    clusters = {"groups": number} if repeated else {"folds": fold}
    found = evaluate(None, TopPredictions(correct, after), name="after", **clusters, **options)
    return Recalibrated(method, folds, after, before, found, _fitted(method, p, y))


def _fitted(method: str, p: Array, y: Array) -> Any:
    if len(np.unique(y)) < 2:
        raise ValueError("correct must hold right and wrong answers in every fold: use fewer folds or more questions")
    maps = require("truecal.recalibration", "recalibration")
    return getattr(maps, MAPS[method]).from_probabilities(floor=FLOOR).fit(p, y)
