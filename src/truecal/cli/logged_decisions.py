"""Logs of decision models on the command line: one evaluation per question, and gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import typer

from truecal.io import FileError
from truecal.io.decision_logs import DecisionLog, is_decision_log, paired_rows, read_decisions
from truecal.io.failures import listing, path_text
from truecal.kinds.inputs import Progress, read_inputs

from .shared_options import Reading, split
from .sources import Asked, Measured

_TAKEN = (
    "--labels",
    "--columns",
    "--normalize",
    "--bins",
    "--level",
    "--resamples",
    "--seed",
    "--confidence",
    "--gate",
)


@dataclass(frozen=True)
class Decisions:
    """Logs of decision models."""

    asked: Asked
    logs: tuple[DecisionLog, ...]
    rows: int = 0

    @classmethod
    def of(cls, asked: Asked) -> Self | None:
        if not all(is_decision_log(str(place)) for place in asked.places):
            if asked.sampling.gate is not None:
                raise typer.BadParameter("applies to a log of decisions", param_hint="--gate")
            return None
        asked.allow((*_TAKEN, "--confidence", "--gate", "--advise"), "cannot apply to a log of decisions")
        logs = [log_of(place, asked.reading) for place in asked.places]
        if asked.sampling.confidence is not None:
            logs = [_stated(log, asked.sampling.confidence) for log in logs]
        if asked.sampling.gate is not None:
            logs = [_accepted(log, asked.sampling.gate) for log in logs]
        if asked.advise and len(logs[0].questions) > 1:
            why = f"is for one question: choose one of {listing(logs[0].questions)} with --columns"
            raise typer.BadParameter(why, param_hint="--advise and --html")
        return cls(asked, tuple(logs))

    def measure(self, progress: Progress | None) -> Measured:
        from truecal.results.questions import by_question, evaluate_question

        settings = self.asked.measuring.settings()
        del settings["task"]
        if not self.asked.one:
            return self._compare(settings, progress)
        log = self.logs[0]
        if len(log.questions) > 1:
            return Measured(by_question(log, **settings))
        question = next(iter(log.questions.values()))
        result = evaluate_question(question, **settings, advise=self.asked.advise, progress=progress)
        return Measured(result.with_notes(log.notes), question.labels)

    def _compare(self, settings: dict[str, Any], progress: Progress | None) -> Measured:
        """One question as `tc.compare`; several by the confidence of their answers, as tasks of a leaderboard."""
        import truecal as tc

        names = [log.name for log in self.logs]
        models = names if len(set(names)) == len(names) else [str(place) for place in self.asked.places]
        shared = [name for name in self.logs[0].questions if all(name in log.questions for log in self.logs)]
        if not shared:
            raise FileError(f"{path_text(self.logs[1].path)}: expected a question of {listing(self.logs[0].questions)}")
        found, notes = {}, []
        for name in shared:
            rows, alone = paired_rows([log[name] for log in self.logs])
            notes += [f"{name}: {alone} rows are not in every log and are left out"] if alone else []
            y, options = rows[0].y_true, dict(rows[0].arguments, **settings)
            one = len(shared) == 1 and all(row.n_choices is None and row.y_true is not None for row in rows)
            if one and any((row.y_true != y).any() for row in rows):
                raise ValueError(f"question {name!r}: expected the same gold answers in all logs")
            tables = [row.y_proba if one else row.top for row in rows]
            options |= {"y_true": y} if one else {"y_true": None, "task": "auto", "errors": None}
            options["y_proba"] = dict(zip(models, tables, strict=True))
            found[name] = tc.compare(options.pop("y_true"), options.pop("y_proba"), **options, progress=progress)
        if len(found) == 1:
            return Measured(next(iter(found.values())).with_notes([*notes, *self.logs[0].notes]), rows[0].labels)
        return Measured(replace(tc.analysis.leaderboard(found, level=settings["level"]), notes=tuple(notes)))


def log_of(file: Path, reading: Reading) -> DecisionLog:
    """A log of decisions, as the options have it."""
    found = read_decisions(file, labels=reading.labels, normalize=reading.normalize)
    return found.only(split(reading.columns))


def inputs_of(log: DecisionLog) -> dict[str, Any]:
    """The top answers of each question, for thresholds."""
    return {name: read_inputs(None, question.top) for name, question in log.questions.items()}


def _stated(log: DecisionLog, column: str) -> DecisionLog:
    if column != "confidence":
        raise typer.BadParameter(f"a log of decisions states 'confidence', got {column!r}", param_hint="--confidence")
    found = {name: q.stated() for name, q in log.questions.items() if q.confidence is not None}
    if not found:
        raise FileError(f"{path_text(log.path)}: no question states a confidence beside its probabilities")
    return replace(log, questions=found, notes=(*log.notes, "measured: the confidence that the log states"))


def _accepted(log: DecisionLog, file: Path) -> DecisionLog:
    """The other questions, on the records in which every gate of a file accepts."""
    from truecal.inference.gates import load_gates

    gates = [gate for gate in load_gates(file).gates if gate.threshold is not None]
    own: Sequence[str] = [gate.called for gate in gates]
    kept: set[str] | None = None
    for gate in gates:
        top = log[gate.called].top
        sure = top.confidence >= gate.threshold
        keys = {key for key, one in zip(log[gate.called].keys, sure, strict=True) if one}
        kept = keys if kept is None else kept & keys
    questions = {}
    for name, question in log.questions.items():
        rows = [i for i, key in enumerate(question.keys) if key in (kept or ())]
        if name not in own and rows:
            questions[name] = question.take(rows)
    if not questions:
        raise FileError(
            f"{path_text(log.path)}: expected a question beside {listing(own)} on rows that the gate accepts"
        )
    note = f"rows on which the gate of {listing(own)} accepts: {len(kept or ())}"
    return replace(log, questions=questions, notes=(*log.notes, note))
