"""from_samples: is the confidence of sampled answers true? Questions that were answered several times, evaluated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from ..core.answers import Answers, read_answers
from ..core.data import check_positive_int, check_seed
from ..core.errors import COMPOSED, signed_root
from ..core.parameters import described
from ..core.result import Result
from ..core.rules import Quantile
from ..core.sample import Totals
from ..core.table import BinTable
from ..core.types import Array
from ..inference.calibration import MOST_PLANNED
from ..inference.gaps import gap, gap_from
from ..inference.inputs import TopPredictions
from ..inference.options import check_draws, check_level
from ..inference.samples import (
    SPLITS,
    Halves,
    answers_test,
    auto_cells,
    majority,
    mean_gap_of,
    mean_over_questions,
    share_cells,
    split_answers,
    split_spread,
)
from .measuring import ErrorValue, LossValue, Reliability, spread_ends
from .model import Evaluation

ERROR = "top_label"
WHY = "the samples that choose the answer also report its share, so that chance agreement counts as confidence"
ALL_DIFFERENT = "most answers are unlike all others: cluster answers that mean the same, or their shares say nothing"


@final
@dataclass(frozen=True, repr=False, eq=False)
class Sampling(Result):
    """How questions were answered, and the naive confidence: the share of the most common of all answers.

    `naive_gap` is the gap in points of that share, which is no estimate of the gap of the model.
    """

    fewest: int
    most: int
    """Answers per question."""
    splits: int
    """How often the answers of each question were halved."""
    naive_confidence: float
    naive_accuracy: float
    naive_gap: float

    @property
    def answers_text(self) -> str:
        """ "10 answers each"."""
        return f"{self.fewest if self.fewest == self.most else f'{self.fewest} to {self.most}'} answers each"

    @property
    def naive_text(self) -> str:
        """What the naive confidence would say."""
        return (
            f"mean {self.naive_confidence:.1%}, accuracy {self.naive_accuracy:.1%}, "
            f"gap {max(0.0, self.naive_gap):.1f} points"
        )

    @property
    def sentence(self) -> str:
        """The naive number, and why it is wrong."""
        return f"The majority share ({self.naive_text}) is biased: {WHY}."

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types."""
        return super().to_dict() | {"sentence": self.sentence}

    def __repr__(self) -> str:
        return f"{self.answers_text}, halved {self.splits} times\n  {self.sentence}"


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
    unbiased. The loss is less the sampling variance of the share, and the score is loss + gap². Gap and cells are at
    the resolution that half of the samples have. The test asks whether the right answer is distributed like one more
    sample, and has exact level; where a question has several right answers, signs of blocks of questions are flipped.

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
    return evaluate_answers(found, cells, level, draws, seed, name)


def evaluate_answers(answers: Answers, n_bins: int, level: float, draws: int, seed: int, name: str) -> Evaluation:
    """The Evaluation of validated answers."""
    n = answers.n
    if n < 3:
        raise ValueError(f"expected at least 3 questions, got {n}")
    split = split_answers(answers, seed)
    cell = share_cells(split, n_bins)
    spread = split_spread(split, cell)
    direction, sampling = mean_gap_of(answers, split, seed), _sampling(answers, seed)
    symbol, m = COMPOSED[ERROR].symbol, int(cell.max()) + 1
    found = gap_from(spread, direction.word, level, m, n, symbol)
    mean, low, high = mean_over_questions(answer_losses(split), level)
    wrong = mean_over_questions(split.per_question(~split.right), level)
    u = split_spread(split, cell, "U").theta
    ends: dict[str, Any] = spread_ends(spread, u, level)
    row = ErrorValue(
        ERROR,
        symbol,
        True,
        m,
        (mean + u) / n,
        loss=mean,
        U=u,
        gap=100 * signed_root(spread.theta),
        score=mean + spread.theta,
        **ends,
    )
    return Evaluation(
        name=str(name),
        kind="top_label",
        n_samples=n,
        n_classes=None,
        level=level,
        losses=(
            LossValue("classification_error", wrong[0], max(0.0, wrong[1]), min(1.0, wrong[2])),
            LossValue("confidence_loss", mean, low, high),
        ),
        errors=(row,),
        gaps={ERROR: found},
        test=answers_test(answers, spread, draws, seed),
        direction=direction,
        reliability={ERROR: Reliability(ERROR, m, _table(split, cell, n_bins), None)},
        notes=(*_notes(answers, spread.note), sampling.sentence),
        sampling=sampling,
    )


def answer_losses(split: Halves) -> Array:
    """(confidence − right)² + 1 − right of each question, less the sampling variance of the confidence."""
    return split.per_question(np.square(split.report - split.right) - split.excess + ~split.right)


def _table(split: Halves, cell: Array, n_bins: int) -> BinTable:
    """Sums of each cell, in units of questions."""
    per = len(split.report) / split.question[1]
    n, residual = split.question[1], split.report - split.right

    def sums(values: Array) -> Array:
        return np.asarray(np.bincount(cell, values)[None] / per)

    wrong = float((~split.right).sum()) / per
    return BinTable(
        kind=ERROR,
        rule=Quantile(n_bins, ties="together"),
        count=sums(np.ones(len(cell))),
        outcome=sums(split.right),
        residual=sums(residual),
        tie_variance=sums(np.zeros(len(cell))),
        residual_sq=sums(np.square(residual) - split.excess),
        totals=Totals(n, n, n, 1.0, wrong, wrong),
    )


def _sampling(answers: Answers, seed: int) -> Sampling:
    share, right = majority(answers, seed)
    naive = gap(right, share, error=ERROR)
    sizes = answers.sizes
    means = float(share.mean()), float(right.mean())
    return Sampling(int(sizes.min()), int(sizes.max()), SPLITS, *means, naive.points)


def _notes(answers: Answers, unreliable: str) -> tuple[str, ...]:
    notes = []
    if unreliable:
        notes.append(f"the interval of the gap is {unreliable}")
    top = np.zeros(answers.n)
    np.maximum.at(top, answers.owner, answers.counts)
    if np.count_nonzero(top == 1) > answers.n / 2:
        notes.append(ALL_DIFFERENT)
    several = int(np.count_nonzero(answers.rights > 1))
    if several:
        notes.append(
            f"{several} of {answers.n} questions have several right answers: give answers that mean the same one "
            "cluster number; the test flips signs of blocks of questions"
        )
    return tuple(notes)


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
