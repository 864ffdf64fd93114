"""Test and gap of sampled answers: whether the share of an answer is its chance of being right.

A model answers each question K times. The share of the majority answer overstates its confidence: noise picks the
winner, and the winner's share holds that noise. So the samples of a question are split. The answer and its cell come
from half A, its report is the share of that answer in half B: given A, the report is an unbiased estimate of the
model's probability π of the answer. With z whether the answer is right and d = report − z,

    gap² = mean over cells of the mean product d·d′ of two *different* questions,

which estimates the mean square of E[π − z | cell]: the sampling noise of two questions is independent. Cells come from
the shares themselves, so that the estimate is unbiased as the number of questions grows.
Each question is split several times, both halves in both roles; splits of a question are rows of one cluster, so that
no two of them meet in a product, and intervals take questions as units (`spread`). The loss (report − z)² + 1 − z holds
the sampling variance of the report, π(1 − π)/K_B, of which share·(1 − share)/(K_B − 1) is an unbiased estimate, taken
off.

The test needs no split. If the model is calibrated, the right answer is one more draw from the model's distribution.
Add it to the K samples: all K + 1 are then exchangeable, so the right answer is one of the M copies of the most common
answer with chance exactly M/(K + 1). That is a calibrated probability with a known chance, tested by the usual exact
test of one probability per row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit

from ..core.cells import block_bin
from ..core.properties import TopLabel
from ..core.rules import auto_bins
from ..core.sample import Sample
from ..core.types import Array, Groups
from ..kinds.answers import Answers
from ..sums.errors import signed_root
from .calibration_result import CalibrationTest
from .direction import FEW_CLUSTERS, MeanGap, count_pvalue, t_pvalue
from .omnibus import omnibus_test
from .sign_flips import BlockForm, block_test
from .spread import Spread, spread_of
from .view_sums import Of, Views, ViewSums

SPLITS = 8
"""How often each question is halved; both halves take both roles."""
ONE_MORE = "the right answer is one more draw from the distribution of the sampled answers"
MANY_RIGHT = "in each bin of questions the mean share and accuracy are equal"


@dataclass(frozen=True, eq=False)
class Halves:
    """One row per question and split: cell share, report and outcome, with the question of each row."""

    share: Array
    """Of the answer in half A."""
    report: Array
    """Of the same answer in half B."""
    right: Array
    size: Array
    """How many answers half B has."""
    question: Groups
    answer: Array
    """The cluster that half A chose."""

    @property
    def sample(self) -> Sample:
        """The sample of reports and outcomes, as of any confidence."""
        return Sample(TopLabel.kind, self.report, marks=self.right, wrong=~self.right)

    @property
    def excess(self) -> Array:
        """An unbiased estimate of what sampling adds to the squared residual of each row."""
        return np.asarray(self.report * (1 - self.report) / (self.size - 1))

    def per_question(self, values: Array) -> Array:
        """The mean over the splits of each question."""
        return np.bincount(self.question[0], values, self.question[1]) / (len(values) / self.question[1])


def split_answers(answers: Answers, seed: int, splits: int = SPLITS) -> Halves:
    """Halve the answers of each question at random, several times; ties for the most common answer are drawn."""
    rng = np.random.default_rng(seed)
    n, clusters, sizes = answers.n, len(answers.owner), answers.sizes
    first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    found = []
    for _ in range(splits):
        order = np.argsort(answers.question + rng.random(len(answers.question)))
        rank = np.empty(len(order), dtype=np.intp)
        rank[order] = np.arange(len(order)) - first[answers.question[order]]
        half = rank < (sizes // 2)[answers.question]
        counts = [np.bincount(answers.cluster[chosen], minlength=clusters) for chosen in (half, ~half)]
        for own, other in (counts, counts[::-1]):
            top = leaders(own, answers.owner, n, rng)
            total, rest = (np.bincount(answers.owner, x, n) for x in (own, other))
            found.append((own[top] / total, other[top] / rest, answers.right[top], rest, top))
    share, report, right, size, chosen = (np.concatenate(column) for column in zip(*found, strict=True))
    return Halves(share, report, right, size, (np.tile(np.arange(n), 2 * splits), n), chosen)


def leaders(counts: Array, owner: Array, n: int, rng: np.random.Generator) -> Array:
    """The most common cluster of each question; equal counts are drawn from, whatever is right."""
    value = (counts + rng.random(len(counts)) / 2) / (float(counts.max()) + 1)  # below 1: questions stay in order
    return np.argsort(owner + value)[np.cumsum(np.bincount(owner, minlength=n)) - 1]


def share_cells(split: Halves, n_bins: int) -> Array:
    """Quantile cells of the shares in half A; equal shares share the cell of the first, as with ties="together"."""
    _, place, counts = np.unique(split.share, return_inverse=True, return_counts=True)
    first, n = np.cumsum(counts) - counts, len(split.share)
    cell = block_bin(first, first + 1, n, min(n_bins, n // 2))
    return np.unique(cell[place.reshape(-1)], return_inverse=True)[1].reshape(-1)


def auto_cells(n: int) -> int:
    """The number of cells for n questions, as for n rows of one probability."""
    return auto_bins(n, 1)


def split_spread(split: Halves, cell: Array, of: Of = "gap") -> Spread:
    """The sums of gap², or U, over pairs of different questions; a question has weight 1."""
    sums = ViewSums(split.sample, split.question, of)
    sums.add_views(Views(split.sample, slice(0, 1), cell, (np.arange(int(cell.max()) + 1),)))
    found, rows = spread_of(sums, None, False), len(cell) / split.question[1]
    found.unit /= rows
    if of == "U":
        found.theta /= rows
    return found


def mean_over_questions(values: Array, level: float) -> tuple[float, float, float]:
    """A mean over questions and its t interval."""
    n, mean = len(values), float(values.mean())
    half = float(stdtrit(n - 1, (1 + level) / 2)) * float(values.std(ddof=1)) / np.sqrt(n) if n > 1 else np.inf
    return mean, float(mean - half), float(mean + half)


# -- the test ----------------------------------------------------------------------------------------------------------


def one_more(answers: Answers, seed: int) -> Sample:
    """The right answer added to the samples: the share M/(K + 1) of the most common answer, and whether it is right.

    Under calibration the second is 1 with chance exactly the first. Questions with several right answers have no single
    one to add.
    """
    rng = np.random.default_rng(seed)
    n = answers.n
    unseen = np.flatnonzero(answers.rights == 0)  # a right answer that was never sampled is a further cluster
    owner = np.concatenate([answers.owner, unseen])
    right = np.concatenate([answers.right, np.ones(len(unseen), dtype=bool)])
    counts = np.concatenate([answers.counts, np.zeros(len(unseen), dtype=np.intp)]) + right
    top = leaders(counts, owner, n, rng)
    marks = right[top]
    return Sample(TopLabel.kind, counts[top] / (answers.sizes + 1), marks=marks, wrong=~marks)


def answers_test(
    answers: Answers, spread: Spread, draws: int, seed: int, level: float = 0.95
) -> CalibrationTest | None:
    """The exact test where each question has one right answer; else signs of blocks of questions are flipped."""
    if int(answers.rights.max()) <= 1:
        return replace(omnibus_test(one_more(answers, seed), draws, seed, level=level), null=ONE_MORE)
    form = BlockForm("confidence and accuracy", spread.H, size=100 * signed_root(max(spread.theta, 0.0)))
    found, why = block_test([form], answers.n, draws, seed, level), "confidence and accuracy differ"
    return None if found is None else replace(found, null=MANY_RIGHT, strongest=why, reason=why)


def mean_gap_of(answers: Answers, split: Halves, seed: int) -> MeanGap:
    """Mean report minus accuracy with the standard error between questions.

    A direction is named where both the t test and, for questions with one right answer, the exact count are clear.
    """
    each = split.per_question(split.report - split.right)
    n, gap = len(each), float(each.mean())
    se = float(each.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    se = se if se > 1e-12 else np.nan
    pvalue = t_pvalue(gap, se, n) if n >= FEW_CLUSTERS else np.nan
    if int(answers.rights.max()) <= 1 and pvalue == pvalue:
        sample = one_more(answers, seed)
        pvalue = count_pvalue(sample.reports, sample.marks, pvalue)
    told, seen = float(split.report.mean()), float(split.right.mean())
    return MeanGap(gap, se, told, seen, True, n, pvalue)


# -- what people report today ------------------------------------------------------------------------------------------


def majority(answers: Answers, seed: int) -> tuple[Array, Array]:
    """The share of the most common answer of each question, and whether it is right: the naive confidence."""
    counts = answers.counts
    top = leaders(counts, answers.owner, answers.n, np.random.default_rng(seed))
    return counts[top] / answers.sizes, answers.right[top]
