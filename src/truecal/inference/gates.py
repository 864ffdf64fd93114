"""Gates: thresholds of several questions with one joint guarantee, kept in a file and checked on new rows."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, final

import numpy as np

from ..core.parameters import described
from ..core.tables import Head, Table, Tabular
from ..core.types import Groups
from ..io.failures import failure, listing, parsing, quote
from ..io.writing import write_atomic
from ..kinds.inputs import Inputs, read_inputs
from .checks import check_level
from .thresholds import Threshold, check_share, effective_rows, exact_limits, threshold_of

VERSION = 1
Verdict = Literal["within", "broken", "undecided", "accepts nothing"]


@final
@dataclass(frozen=True)
class Gate:
    """The threshold of one question: rows whose confidence is at least `threshold` are accepted.

    `question` is None for a file of one set of predictions, and `threshold` None where none keeps the risk. `coverage`
    of the `rows` that it was found on are accepted, and `bound` is the upper end of their error.
    """

    question: str | None
    threshold: float | None
    rows: int
    coverage: float
    bound: float | None

    @property
    def called(self) -> str:
        return "predictions" if self.question is None else self.question


@final
@dataclass(frozen=True, repr=False, eq=False)
class Gates(Tabular):
    """Gates that with probability 1 − `delta` all keep the error of accepted rows at or below `risk`."""

    risk: float
    delta: float
    gates: tuple[Gate, ...]

    @property
    def sentence(self) -> str:
        """What is guaranteed of all gates together."""
        n = len(self.gates)
        who = "the error of accepted rows is" if n == 1 else f"the errors of accepted rows of all {n} questions are"
        return f"With probability {1 - self.delta:.4g} {who} at most {self.risk:.4g}."

    headline = sentence

    def to_dict(self) -> dict[str, Any]:
        """What the file holds."""
        return {"version": VERSION, **super().to_dict()}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the gates as JSON; the file appears whole or not at all."""
        write_atomic(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    def rows(self) -> list[dict[str, Any]]:
        """One row per question."""
        return [asdict(gate) for gate in self.gates]

    def table(self) -> Table:
        """One row per question."""
        heads = [Head("question", False), *map(Head, ("confidence\nat least", "coverage", "bound", "rows"))]
        rows = []
        for gate in self.gates:
            least = "none" if gate.threshold is None else f"{gate.threshold:.4f}"
            bound = "" if gate.bound is None else f"{gate.bound:.4f}"
            rows.append([gate.called, least, f"{gate.coverage:.1%}", bound, str(gate.rows)])
        return heads, rows

    def check(self, data: Mapping[str, Any], *, level: float = 0.95, groups: Groups | None = None) -> GateCheck:
        """Whether the gates keep their risk on new rows: `data` maps each question to (y_true, y_proba).

        Exact binomial bounds of the error of accepted rows, corrected over the gates: at most 1 − `level` of the
        verdicts "within" and "broken" of a whole check are wrong.
        """
        alpha = (1 - check_level(level)) / max(1, sum(gate.threshold is not None for gate in self.gates))
        missing = [gate.called for gate in self.gates if gate.called not in data]
        if missing:
            raise ValueError(f"no rows of question {missing[0]!r}, which has a gate: found {', '.join(data)}")
        read = {gate: _inputs_of(data[gate.called]) for gate in self.gates}
        answers = tuple(_answer(gate, inputs, self.risk, alpha, groups) for gate, inputs in read.items())
        return GateCheck(self.risk, level, answers)


@final
@dataclass(frozen=True)
class GateAnswer:
    """How a gate does on new rows: [low, high] holds the error of accepted rows, each end at the corrected level."""

    question: str | None
    verdict: Verdict
    rows: int
    accepted: int
    errors: int
    low: float
    high: float


@final
@dataclass(frozen=True, repr=False, eq=False)
class GateCheck(Tabular):
    """Whether gates keep their risk on new rows."""

    risk: float
    level: float
    answers: tuple[GateAnswer, ...]
    derived = ("verdict", "sentence")

    @property
    def verdict(self) -> Verdict:
        """ "broken" where one gate is, else "undecided" where one is, else "within" where one accepts anything."""
        order: tuple[Verdict, ...] = ("broken", "undecided", "within", "accepts nothing")
        return min((answer.verdict for answer in self.answers), key=order.index)

    @property
    def sentence(self) -> str:
        """The verdict as a sentence."""
        names = [answer.question or "predictions" for answer in self.answers if answer.verdict == self.verdict]
        n, risk = len(names), f"error of at most {self.risk:.4g}"
        return {
            "broken": f"Broken: the {risk} is exceeded by {', '.join(names)}.",
            "undecided": f"Undecided: the accepted rows do not show whether the {risk} holds for {', '.join(names)}.",
            "within": f"Within: {'the gate keeps' if n == 1 else f'all {n} gates keep'} an {risk}.",
            "accepts nothing": "The gates accept nothing.",
        }[self.verdict]

    headline = sentence

    def rows(self) -> list[dict[str, Any]]:
        """One row per gate."""
        return [asdict(answer) for answer in self.answers]

    def table(self) -> Table:
        """One row per gate."""
        heads = [Head("question", False), Head("verdict", False), Head("accepted"), Head("wrong"), Head("error", False)]
        rows = []
        for a in self.answers:
            error = f"[{a.low:.4f}, {a.high:.4f}]" if a.accepted else ""
            rows.append([a.question or "predictions", a.verdict, f"{a.accepted} of {a.rows}", str(a.errors), error])
        return heads, rows


def _inputs_of(given: Any) -> Inputs:
    return given if isinstance(given, Inputs) else read_inputs(*given)


def _answer(gate: Gate, inputs: Inputs, risk: float, alpha: float, groups: Groups | None) -> GateAnswer:
    top = inputs.top_label()
    taken = top.reports >= (np.inf if gate.threshold is None else gate.threshold)
    errors, accepted = int(np.count_nonzero(taken & ~top.y.astype(bool))), int(taken.sum())
    size = np.array([float(accepted)])
    if accepted and groups is not None:
        size = effective_rows(groups[0][taken], groups[1], np.array([accepted]))
    low, high = (float(end[0]) for end in exact_limits(errors * size / max(1, accepted), size, alpha))
    verdict: Verdict = "within" if high <= risk else "broken" if low > risk else "undecided"
    verdict = "accepts nothing" if gate.threshold is None else verdict
    return GateAnswer(gate.question, verdict, inputs.n_samples, accepted, errors, low, high)


@described(
    "Gates: one per question.",
    questions="What each question is called, and its (y_true, y_proba).",
    risk="The largest error among accepted rows that is tolerated.",
    delta="The largest probability that the error of any question exceeds the risk.",
)
def joint_thresholds(questions: Mapping[str, Any], *, risk: float = 0.05, delta: float = 0.05) -> Gates:
    """Find the threshold of each of several questions, so that all of them keep the risk with probability 1 − `delta`.

    Each question is tested as by `tc.threshold` with an equal share of `delta` (Bonferroni).

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> p = rng.beta(.5, .5, (2, 3000))
    >>> y = rng.random((2, 3000)) < p
    >>> found = tc.analysis.joint_thresholds({"urgent": (y[0], p[0]), "spam": (y[1], p[1])}, risk=.1)
    >>> found.sentence
    'With probability 0.95 the errors of accepted rows of all 2 questions are at most 0.1.'
    >>> found.save("gate.json")
    >>> tc.analysis.load_gates("gate.json") == found
    True
    """
    risk, delta = check_share(risk, "risk"), check_share(delta, "delta")
    if not questions:
        raise ValueError("questions is empty: expected a question and its (y_true, y_proba)")
    read = {name: _inputs_of(given) for name, given in questions.items()}
    found = {name: threshold_of(inputs, risk, delta / len(read)) for name, inputs in read.items()}
    return Gates(risk, delta, tuple(gate_of(name, one) for name, one in found.items()))


def gate_of(question: str | None, found: Threshold) -> Gate:
    """A threshold as a gate."""
    return Gate(question, found.threshold, found.n_samples, found.coverage, found.bound)


def _share(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= 1


_Fields = dict[str, tuple[str, Any]]
_MAYBE = ("a number from 0 to 1 or null", lambda v: v is None or _share(v))
_BETWEEN = ("a number between 0 and 1", lambda v: _share(v) and 0 < v < 1)
_GATE: _Fields = {
    "question": ("text or null", lambda v: v is None or (isinstance(v, str) and v != "")),
    "threshold": _MAYBE,
    "rows": ("a positive whole number", lambda v: type(v) is int and v > 0),
    "coverage": ("a number from 0 to 1", _share),
    "bound": _MAYBE,
}
_FILE: _Fields = {
    "version": (str(VERSION), lambda v: type(v) is int and v == VERSION),
    "risk": _BETWEEN,
    "delta": _BETWEEN,
    "gates": ("a list of gates", lambda v: isinstance(v, list) and v != []),
}
"""What each key holds: a description and a check."""


@described("Gates, as they were saved.", path="The file that `Gates.save` or `truecal threshold --save` wrote.")
def load_gates(path: str | os.PathLike[str]) -> Gates:
    """Read gates from a file. Anything but a whole gate file of this version raises one FileError."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key comes twice")
        return dict(pairs)

    if not os.path.isfile(path):
        raise failure(path, "file not found")
    with parsing(path, "a gate file as truecal threshold --save writes it"), open(path, encoding="utf-8") as stream:
        found = json.load(stream, object_pairs_hook=once)
    _check(path, found, _FILE, "the file")
    for i, raw in enumerate(found["gates"]):
        _check(path, raw, _GATE, f"gate {i}")
    gates = [Gate(**raw) for raw in found["gates"]]
    names = [gate.question for gate in gates]
    if len(set(names)) < len(names) or (None in names and len(names) > 1):
        raise failure(path, f"expected every question once, got {listing(names)}")
    return Gates(float(found["risk"]), float(found["delta"]), tuple(gates))


def _check(path: Any, found: Any, fields: _Fields, where: str) -> None:
    if not isinstance(found, dict) or set(found) != set(fields):
        odd = sorted(set(found) ^ set(fields)) if isinstance(found, dict) else [found]
        raise failure(path, f"expected the keys {listing(fields)} in {where}; missing or unknown: {listing(odd)}")
    for name, (wanted, fits) in fields.items():
        if not fits(found[name]):
            raise failure(path, f"expected {wanted} as {name} of {where}, got {quote(found[name])}")
