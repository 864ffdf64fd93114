"""from_samples: whether the confidence of sampled answers is true."""

from __future__ import annotations

from typing import Any

from ..core.data import check_positive_int, check_seed
from ..core.parameters import described
from ..evidence.of_answers import answers_evidence
from ..inference.checks import check_draws, check_level
from ..inference.omnibus import MOST_PLANNED
from ..inference.samples import auto_cells, majority
from ..kinds import TopPredictions
from ..kinds.answers import read_answers
from .assembly import make_evaluation
from .evaluation import Evaluation

_ANSWERS = {
    "answers": "A list of answers per question, at least four each, as text or cluster ids; or one answer per row "
    "together with `questions`.",
    "correct": "Whether each answer is right, in the shape of `answers`; or pass `reference`.",
    "reference": "The right answer of each question: a list, or a dict by question.",
    "questions": "With one answer per row the question of each row; else names of the questions, for error messages.",
    "normalize": "Whether answers are compared after `normalize_answer`.",
}
"""How sampled answers are passed."""


@described(
    "An Evaluation of one row per question; `sampling` holds the naive number.",
    **_ANSWERS,
    n_bins="The number of cells of questions; automatic by default.",
)
def from_samples(
    answers: Any,
    correct: Any = None,
    *,
    reference: Any = None,
    questions: Any = None,
    normalize: bool = True,
    n_bins: int | None = None,
    level: float = 0.95,
    n_resamples: int | None = None,
    seed: int = 0,
    name: str = "model",
) -> Evaluation:
    """Measure the confidence of sampled answers: each question is answered several times, and shares are confidences.

    The share of the majority answer overstates the confidence even of a calibrated model. Here the samples of a
    question are halved: the answer and its cell are from one half, the confidence is the share of that answer in the
    other half; halves swap, and several splits are averaged. Only pairs of different questions enter the gap, which is
    unbiased as the number of questions grows. The loss is less the sampling variance of the share, and the score is
    loss + gap². Gap and cells are at the resolution that half of the samples have. The test asks whether the right
    answer is distributed like one more sample, and has exact level; where a question has several right answers, signs
    of blocks of questions are flipped.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(1)
    >>> chances = rng.dirichlet([.5] * 5, 400)                       # of five answers to each question
    >>> draw = lambda: (chances.cumsum(1) < rng.random((400, 1))).sum(1)
    >>> answers, truth = np.stack([draw() for _ in range(6)], 1), draw()
    >>> result = tc.from_samples(answers, reference=truth)  # calibrated: the truth is one more draw
    >>> result.gap.low < 0 < result.gap.high, result.test.pvalue > .05
    (True, True)
    >>> print(f"{result.sampling.naive_gap:.0f} points")             # what the majority share would say
    13 points
    """
    level = check_level(level)
    draws, seed = check_draws(MOST_PLANNED if n_resamples is None else n_resamples, seed)
    found = read_answers(answers, correct, reference, questions, normalize)
    cells = auto_cells(found.n) if n_bins is None else check_positive_int(n_bins, "n_bins")
    return make_evaluation(answers_evidence(found, cells, level, draws, seed), name)


@described("TopPredictions: the share of the majority answer of each question, and whether it is right.", **_ANSWERS)
def majority_share(
    answers: Any,
    correct: Any = None,
    *,
    reference: Any = None,
    questions: Any = None,
    normalize: bool = True,
    seed: int = 0,
) -> TopPredictions:
    """The share of the majority answer: over-confident as it is, and a score that `recalibrate` makes a probability.

    >>> import truecal as tc
    >>> top = tc.language.majority_share([["a", "a", "a", "b"], ["c", "d", "d", "d"]], reference=["a", "c"])
    >>> top.confidence.tolist(), top.correct.tolist()
    ([0.75, 0.75], [True, False])
    """
    share, right = majority(read_answers(answers, correct, reference, questions, normalize), check_seed(seed))
    return TopPredictions(right, share)
