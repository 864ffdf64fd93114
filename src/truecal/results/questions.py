"""by_question: one evaluation per question of a log of decisions, with verdicts corrected over all questions."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from typing import Any, final

from ..core.parameters import described
from ..core.result import plain
from ..core.tables import Head, Table, Tabular
from ..core.words import some_of
from ..inference.checks import check_level
from ..io.decision_logs import DecisionLog, DecisionQuestion, read_decisions
from .assembly import judged
from .columns import Row, columns_at, number_text, record, texts
from .evaluate import evaluate
from .evaluation import Evaluation

_SHOWN = ("gap", "interval", "direction", "calibrated", "pvalue", "ece")


@final
@dataclass(frozen=True, repr=False, eq=False)
class Questions(Tabular):
    """The evaluation of each question of a log, whose tests are corrected over the questions (Holm).

    `refused` counts the answers of each question that the model refused, which are left out.
    """

    name: str
    evaluations: dict[str, Evaluation]
    refused: dict[str, int]
    level: float
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The log, and how many questions it has."""
        return f"{self.name}: {len(self.evaluations)} questions"

    @property
    def sentences(self) -> tuple[str, ...]:
        """Which questions are not calibrated."""
        return (self.sentence,)

    @property
    def sentence(self) -> str:
        """Which questions are not calibrated."""
        off = [
            f"{name} ({found.direction.word})"
            for name, found in self.evaluations.items()
            if found.as_row.standing.state == "rejected"
        ]
        over = f"(corrected over {len(self.evaluations)} question{'s' * (len(self.evaluations) > 1)})"
        return f"Not calibrated {over}: {some_of(off)}." if off else f"No miscalibration detected {over}."

    def rows_of_columns(self) -> list[Row]:
        """One row per question, from which every column is read."""
        return [found.as_row for found in self.evaluations.values()]

    def rows(self) -> list[dict[str, Any]]:
        """One row per question."""
        found = self.rows_of_columns()
        return [{"question": row.model.name, "refused": self.refused[row.model.name]} | record(row) for row in found]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: one row and one evaluation per question."""
        about = {"name": self.name, "level": self.level, "sentence": self.sentence, "notes": list(self.notes)}
        return about | {
            "rows": plain(self.rows()),
            "evaluations": {n: e.to_dict() for n, e in self.evaluations.items()},
        }

    def table(self) -> Table:
        """The heads and rows of a table of questions; ECE is shown with that of a calibrated model."""
        every = self.rows_of_columns()
        columns = [column for column in columns_at(every, "table") if column.name in _SHOWN]
        heads = [Head("question", False), Head("rows"), Head("refused"), Head("says"), Head("happens")]
        heads += [Head(column.title, column.right) for column in columns] + [Head("ECE if calibrated", False)]
        rows = []
        for row, cells in zip(every, texts(every, columns), strict=True):
            found = row.model
            said = [f"{value:.1%}" for value in (found.direction.mean_report, found.direction.mean_outcome)]
            refused = str(self.refused[found.name] or "")
            rows.append([found.name, str(found.n_samples), refused, *said, *cells, _floor(found)])
        kept = [i for i in range(len(heads)) if any(row[i] for row in rows)]
        return [heads[i] for i in kept], [[row[i] for i in kept] for row in rows]


def _floor(found: Evaluation) -> str:
    """The range of the usual ECE under calibration: its noise floor."""
    if found.ece_name is None:
        return ""
    row = found.row(found.ece_name)
    if row.null_low is None or row.null_high is None:
        return ""
    return f"{number_text(row.null_low)} to {number_text(row.null_high)}"


@described(
    "A Questions; its `evaluations` are those of `tc.evaluate` with tests corrected over the questions.",
    log="A log of decisions, as `truecal.io.read_decisions` reads it, or its path.",
    settings="Options of `tc.evaluate`: level, n_bins, n_resamples, seed and advise.",
)
def by_question(log: DecisionLog | str | os.PathLike[str], **settings: Any) -> Questions:
    """Measure every question of a log of a decision model.

    Each question is measured by its type: a
    predicate (noul) as two classes, a choice as classes, a score as ordered classes. Where the options of a choice
    differ by row, only the confidence can be measured.

    >>> import json, numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> with open("log.jsonl", "w") as file:
    ...     for p in rng.beta(.5, .5, 800):
    ...         sharp = p**2 / (p**2 + (1 - p)**2)
    ...         answers = {"urgent": {"type": "noul", "noul": p}, "spam": {"type": "noul", "noul": sharp}}
    ...         gold = {"urgent": bool(rng.random() < p), "spam": bool(rng.random() < p)}
    ...         _ = file.write(json.dumps({"answers": answers, "labels": gold}) + "\\n")
    >>> found = tc.language.by_question("log.jsonl")
    >>> {name: e.as_row.standing.answer for name, e in found.evaluations.items()}
    {'urgent': 'yes', 'spam': 'no'}
    """
    if not isinstance(log, DecisionLog):
        log = read_decisions(log)
    level = check_level(settings.pop("level", 0.95))
    questions = list(log.questions.values())
    draws = settings.pop("n_resamples", None)
    if draws is None and len(questions) > 20:  # enough for the smallest corrected p-value
        draws = max(999, math.ceil(2 * len(questions) / (1 - level)))
    found = {
        question.name: evaluate_question(question, level=level, n_resamples=draws, **settings) for question in questions
    }
    notes = tuple(f"{question.name}: {note}" for question in questions for note in question.notes)
    refused = {question.name: question.refused for question in questions}
    return Questions(log.name, judged(found, level), refused, level, (*log.notes, *notes))


def evaluate_question(question: DecisionQuestion, **settings: Any) -> Evaluation:
    """One question as `tc.evaluate` measures it."""
    about = {name: value for name, value in (question.arguments | settings).items() if value is not None}
    about.setdefault("y_true", None)
    labels = question.labels
    if labels is not None and len(set(labels)) == len(labels) > 2:
        about |= {"labels": labels, "y_true": [labels[i] for i in question.y_true]}
    result = evaluate(**about, name=question.name)
    return replace(result, notes=(*(f"{question.name}: {note}" for note in question.notes), *result.notes))
