"""Stated confidence: evaluated beside a count of rows that state none, and against the share of sampled answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np

from ..core.data import shown
from ..core.parameters import described
from ..core.result import Result
from ..core.types import Array
from ..evidence.of_answers import answer_losses, answers_evidence
from ..inference.checks import check_level
from ..inference.gaps import gap_text
from ..inference.samples import auto_cells, mean_over_questions, split_answers
from ..kinds import TopPredictions
from ..kinds.answers import read_answers, read_mark
from ..kinds.stated_text import stated_confidence
from .assembly import make_evaluation
from .evaluate import evaluate
from .evaluation import Evaluation


@described(
    "An Evaluation of the rows that state a confidence, with a note on the others.",
    stated="What the model said of its confidence, one text or number per answer.",
    correct="Whether each answer is right.",
    questions="The question of each row, where questions come several times: rows of one question are a cluster.",
    words="What words mean, instead of the table in `truecal.language.WORDS`.",
)
def from_stated(
    stated: Any,
    correct: Any,
    *,
    questions: Any = None,
    words: Mapping[str, float] | None = None,
    level: float = 0.95,
    n_resamples: int | None = None,
    seed: int = 0,
    name: str = "model",
) -> Evaluation:
    """Measure stated confidences: read from text, and compared with whether the answers are right.

    Rows without a confidence are counted in a note, with the accuracy there. Models round to 5 or 10 points: such ties
    need no care, since errors average over their orders.

    >>> import truecal as tc
    >>> said = ["90%", "60%", "Confidence: 90", "likely", "no idea"] * 20
    >>> result = tc.language.from_stated(said, [True, True, False, True, False] * 20)
    >>> result.n_samples, result.notes[0]
    (80, '20 of 100 rows (20.0%) state no confidence and are left out; accuracy there 0.0%')
    """
    read = stated_confidence(stated, words=words)
    right = _marks(correct, len(read.values))
    found = read.found
    if not found.any():
        raise ValueError(f"no row states a confidence, for example {shown(next(iter(stated)))}")
    groups = None if questions is None else _repeated(questions, found)
    top = TopPredictions(right[found], read.values[found])
    result = evaluate(None, top, groups=groups, level=level, n_resamples=n_resamples, seed=seed, name=name)
    said = read.reading
    if read.missing:
        said = (f"{read.missing_text} and are left out; accuracy there {float(right[~found].mean()):.1%}", *said)
    return replace(result, notes=(*said, *result.notes))


def _marks(correct: Any, n: int) -> Array:
    marks = list(correct.tolist() if hasattr(correct, "tolist") else correct)
    if len(marks) != n:
        raise ValueError(f"correct has {len(marks)} entries and stated {n}: expected one each")
    read = [read_mark(mark) for mark in marks]
    if None in read:
        row = read.index(None)
        raise ValueError(f"correct must be true or false, got {shown(marks[row])} at row {row}")
    return np.array(read, dtype=bool)


def _repeated(questions: Any, found: Array) -> Array | None:
    """Clusters of rows, None where every question comes once."""
    ids = np.asarray(questions)
    if ids.shape != found.shape:
        raise ValueError(f"questions has shape {ids.shape}: expected one per row, {len(found)} rows")
    kept = ids[found]
    return kept if len(np.unique(kept)) < len(kept) else None


@final
@dataclass(frozen=True, repr=False, eq=False)
class StatedComparison(Result):
    """Stated against sampled confidence on the same questions.

    `difference` is the mean over questions of the loss of the stated confidence minus that of the sampled one, with its
    interval: negative where the stated confidence predicts better. Losses are (confidence − right)² + 1 − right; the
    loss of samples is less its sampling variance.
    """

    stated: Evaluation
    sampled: Evaluation
    difference: float
    low: float
    high: float
    n_questions: int
    missing: int
    """Answers that state no confidence."""
    derived = ("better", "sentence")

    @property
    def better(self) -> str:
        """ "stated" or "sampled" where the interval excludes 0, else nothing."""
        return "stated" if self.high < 0 else "sampled" if self.low > 0 else ""

    @property
    def sentence(self) -> str:
        """Which confidence predicts better, as a sentence."""
        interval = f"{self.difference:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"
        if not self.better:
            return f"No significant difference between stated and sampled confidence (loss {interval})."
        return f"The {self.better} confidence predicts better (stated − sampled loss {interval})."

    def __repr__(self) -> str:
        lines = [f"stated against sampled confidence, {self.n_questions} questions"]
        for name, found in (("stated", self.stated), ("sampled", self.sampled)):
            gap = "no gap" if found.gap is None else f"gap {gap_text(found.gap)}"
            score = "" if found.score is None else f", score {found.score:.4f}"
            told = f"confidence {found.direction.mean_report:.1%}, accuracy {found.direction.mean_outcome:.1%}"
            lines.append(f"  {name:<8} {told}, {gap}{score}")
        if self.missing:
            lines.append(f"  {self.missing} answers state no confidence")
        return "\n".join([*lines, f"  {self.sentence}"])


@described(
    "A StatedComparison.",
    stated="What the model said of its confidence: one text or number for every answer, in the shape of `answers`.",
    answers="A list of answers per question, at least four each; or one answer per row together with `questions`.",
    correct="Whether each answer is right, in the shape of `answers`; or pass `reference`.",
    reference="The right answer of each question: a list, or a dict by question.",
    questions="With one answer per row the question of each row; else names of the questions.",
    words="What words mean, instead of the table in `truecal.language.WORDS`.",
    normalize="Whether answers are compared after `normalize_answer`.",
)
def compare_stated(
    stated: Any,
    answers: Any,
    correct: Any = None,
    *,
    reference: Any = None,
    questions: Any = None,
    words: Mapping[str, float] | None = None,
    normalize: bool = True,
    level: float = 0.95,
    seed: int = 0,
) -> StatedComparison:
    """Compare the confidence a model states with the share of its sampled answers, on the same questions.

    Both are measured with questions as units. Questions none of whose answers states a confidence are left out.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> right = rng.random(300) < .6                                    # the share of right answers is 60% ...
    >>> answers = np.where(rng.random((300, 6)) < .6, 0, 1)
    >>> said = [["95%"] * 6] * 300                                      # ... and the model says 95%
    >>> found = tc.language.compare_stated(said, answers, reference=np.where(right, 0, 1))
    >>> found.better, found.stated.gap.direction
    ('sampled', 'over-confident')
    """
    level = check_level(level)
    found = read_answers(answers, correct, reference, questions, normalize)
    read = stated_confidence(_flat(stated, answers, questions, len(found.question)), words=words)
    keep = np.zeros(found.n, dtype=bool)
    keep[found.question[read.found]] = True
    if np.count_nonzero(keep) < 3:
        raise ValueError(f"at least 3 questions must state a confidence, got {np.count_nonzero(keep)}")
    chosen = found.take(keep)
    right = found.right[found.cluster]
    rows = read.found
    own = TopPredictions(right[rows], read.values[rows])
    by_stated = evaluate(None, own, groups=found.question[rows], level=level, seed=seed, name="stated")
    by_sampled = make_evaluation(answers_evidence(chosen, auto_cells(chosen.n), level, 999, seed), "sampled")
    loss = np.square(read.values[rows] - right[rows]) + ~right[rows]
    totals = np.bincount(found.question[rows], loss, found.n)[keep]
    counts = np.bincount(found.question[rows], minlength=found.n)[keep]
    difference = totals / counts - answer_losses(split_answers(chosen, seed))
    return StatedComparison(by_stated, by_sampled, *mean_over_questions(difference, level), chosen.n, len(read.missing))


def _flat(stated: Any, answers: Any, questions: Any, n: int) -> list[Any]:
    """One text per answer, by question in the order in which answers are read."""
    rows = stated.tolist() if hasattr(stated, "tolist") else list(stated)
    nested = bool(rows) and isinstance(rows[0], (list, tuple))
    if nested:
        given = answers.tolist() if hasattr(answers, "tolist") else list(answers)
        for i, (own, theirs) in enumerate(zip(rows, given, strict=False)):
            if not isinstance(own, (list, tuple)) or len(own) != len(theirs):
                raise ValueError(f"stated must have a confidence for each of the {len(theirs)} answers of question {i}")
        rows = [text for own in rows for text in own]
    elif questions is not None and len(rows) == n:
        ids = list(questions.tolist() if hasattr(questions, "tolist") else questions)
        order: dict[Any, list[Any]] = {}
        for name, text in zip(ids, rows, strict=True):
            order.setdefault(name, []).append(text)
        rows = [text for own in order.values() for text in own]
    if len(rows) != n:
        raise ValueError(f"stated has {len(rows)} entries and answers {n}: expected one each")
    return rows
