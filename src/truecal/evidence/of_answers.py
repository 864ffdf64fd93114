"""Evidence from sampled answers: questions that were answered several times, halved at random."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import numpy as np

from ..core.result import Result
from ..core.rules import Quantile
from ..core.sample import Totals
from ..core.table import BinTable
from ..core.types import Array
from ..inference.gaps import gap
from ..inference.samples import (
    SPLITS,
    Halves,
    answers_test,
    majority,
    mean_gap_of,
    mean_over_questions,
    share_cells,
    split_answers,
    split_spread,
)
from ..kinds import COMPOSED, SAMPLED_ANSWERS
from ..kinds.answers import Answers
from ..sums.errors import ErrorTerms
from ..sums.scores import of_clusters, squares_and_gap
from .evidence import Evidence
from .values import LossValue, Reliability, gap_value, squared_error

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
    derived = ("sentence",)

    @property
    def answers_text(self) -> str:
        """ "10 answers each"."""
        return f"{self.fewest if self.fewest == self.most else f'{self.fewest} to {self.most}'} answers each"

    @property
    def naive_text(self) -> str:
        """The naive confidence as text."""
        return (
            f"mean {self.naive_confidence:.1%}, accuracy {self.naive_accuracy:.1%}, "
            f"gap {max(0.0, self.naive_gap):.1f} points"
        )

    @property
    def sentence(self) -> str:
        """The naive number, and why it is wrong."""
        return f"The majority share ({self.naive_text}) is biased: {WHY}."

    def __repr__(self) -> str:
        return f"{self.answers_text}, halved {self.splits} times\n  {self.sentence}"


def answers_evidence(answers: Answers, n_bins: int, level: float, draws: int, seed: int) -> Evidence:
    """Evidence from validated answers."""
    n = answers.n
    if n < 3:
        raise ValueError(f"expected at least 3 questions, got {n}")
    split = split_answers(answers, seed)
    cell = share_cells(split, n_bins)
    spread = split_spread(split, cell)
    sampling, error, m = _sampling(answers, seed), COMPOSED[ERROR], int(cell.max()) + 1
    found = Evidence(SAMPLED_ANSWERS, n, None, level, mean_gap_of(answers, split, seed), sampling=sampling)
    mean, low, high = mean_over_questions(answer_losses(split), level)
    wrong = mean_over_questions(split.per_question(~split.right), level)
    found.losses = (
        LossValue("classification_error", wrong[0], max(0.0, wrong[1]), min(1.0, wrong[2])),
        LossValue("confidence_loss", mean, low, high),
    )
    u = split_spread(split, cell, "U").theta
    terms = ErrorTerms(error=(mean + u) / n, loss=mean, U=u, gap_sq=spread.theta)
    found.errors = [squared_error(ERROR, error, m, terms, spread, level, score=mean + _gap_over_cuts(split))]
    found.add_gap(ERROR, gap_value(error, m, spread.theta, spread, found.direction.word, level, n, left_out=""))
    found.test = answers_test(answers, spread, draws, seed, level)
    found.reliability = {ERROR: Reliability(ERROR, m, _table(split, cell, n_bins), None)}
    found.notes += [*_notes(answers), sampling.sentence]
    return found


def answer_losses(split: Halves) -> Array:
    """(confidence − right)² + 1 − right of each question, less the sampling variance of the confidence."""
    return split.per_question(np.square(split.report - split.right) - split.excess + ~split.right)


def _gap_over_cuts(split: Halves) -> float:
    """The squared gap averaged over all cuts of the shares in half A, from pairs of different questions."""
    sample = replace(split.sample, reports=split.share, marks=None, values=split.share - split.report + split.right)
    return squares_and_gap(sample, of_clusters(sample, split.question))[1]


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


def _notes(answers: Answers) -> list[str]:
    notes = []
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
    return notes
