"""Logs of decision models: typed answers with probabilities, of OpenAI, systemone and the tools that record them."""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from truecal.io.column_rules import LABELS_OPTION, NORMALIZE_OPTION, Request
from truecal.io.containers import inside
from truecal.io.failures import FileError, listing, parsing, path_text, quote, readable
from truecal.io.harness import json_lines
from truecal.io.prediction_file import FileKind, Predictions
from truecal.io.read_file import file_format, open_source
from truecal.io.roles import is_called, key_of
from truecal.io.streams import byte_stream, whole_json
from truecal.kinds import ORDERED, TopPredictions
from truecal.kinds.answers import read_mark

_SNIFF = 1 << 20
_MOST = 1 << 30
_MARKS = re.compile(
    rb'\\?"answers\\?"\s*:\s*(\[\s*)?\{|"noul"\s*:|"type"\s*:\s*"(predicate|refusal|noul|choice|score)"|"testCases"\s*:|"evalId"\s*:'
    rb'|"kind"\s*:\s*"decision"'
)
_PREDICATES, _CHOICES, _SCORES, _REFUSED = ("predicate", "noul", "boolean"), ("choice",), ("score",), ("refusal",)
_WRAPPERS = ("response", "body", "decision", "result", "output", "answer", "raw", "data")
_GOLD = frozenset(("golds", "goldlabels", "expectedlabels", "expectedoutput", "outcomes", "expectations"))
_ABOUT = ("metadata", "meta", "vars")
_IDS = ("custom_id", "requestId", "request_id", "id", "row", "testIdx", "name", "state_hash")
_OUTCOME = re.compile(
    r"^\d+\. \[(noul|score|choice), weight=[^\]]*\] (.*)\n\s+value=.*? applicable=\w+ probabilities=(\{.*?\})"
    r"(?: confidence=([\d.]+))?",
    re.MULTILINE,
)


@dataclass(frozen=True)
class _Answer:
    """One answer: the options with their probabilities, none where the model refused or failed."""

    line: int
    key: str
    type: str
    options: tuple[Any, ...] = ()
    texts: tuple[str, ...] = ()
    chances: tuple[float, ...] = ()
    confidence: float | None = None
    gold: Any = None


@dataclass(frozen=True, eq=False)
class DecisionQuestion:
    """One question of a log: its answers with a gold answer, as `tc.evaluate` takes them.

    `y_true` and `y_proba` are those of `tc.evaluate`, `labels` the options or levels where all rows have the same,
    `n_choices` how many options each row has where rows differ, `confidence` what the log states beside the
    probabilities. `keys` name the rows, and `places` number them among all `asked` answers. `refused` and `unlabelled`
    answers are left out, and counted.
    """

    name: str
    y_true: Any
    y_proba: Any
    keys: tuple[str, ...]
    places: tuple[int, ...]
    asked: int
    task: str = "auto"
    labels: tuple[str, ...] | None = None
    n_choices: Any = None
    confidence: Any = None
    refused: int = 0
    unlabelled: int = 0
    notes: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `tc.evaluate`."""
        about: dict[str, Any] = {"y_true": self.y_true, "y_proba": self.y_proba, "task": self.task}
        if self.n_choices is not None:
            about["errors"] = ("confidence", "confidence_uncorrected", "confidence_l1", "confidence_two_bin")
        return about

    @property
    def top(self) -> TopPredictions:
        """Whether the likeliest option is right, and its probability."""
        if isinstance(self.y_proba, TopPredictions):
            return self.y_proba
        if self.y_proba.ndim == 1:
            return TopPredictions((self.y_proba >= 0.5) == self.y_true, np.maximum(self.y_proba, 1 - self.y_proba))
        return TopPredictions(self.y_proba.argmax(axis=1) == self.y_true, self.y_proba.max(axis=1))

    def take(self, rows: Any) -> DecisionQuestion:
        """Some of the rows."""
        p = self.y_proba
        if isinstance(p, TopPredictions):
            p, y = TopPredictions(p.correct[rows], p.confidence[rows]), None
        else:
            p, y = p[rows], self.y_true[rows]
        own = {name: getattr(self, name) for name in ("n_choices", "confidence")}
        parts: dict[str, Any] = {name: values[rows] for name, values in own.items() if values is not None}
        keys, places = (tuple(values[row] for row in rows) for values in (self.keys, self.places))
        return replace(self, y_true=y, y_proba=p, keys=keys, places=places, **parts)

    def stated(self) -> DecisionQuestion:
        """The same question with the confidence that the log states, in place of the probabilities."""
        if self.confidence is None:
            raise ValueError(f"question {quote(self.name)} states no confidence beside its probabilities")
        top = TopPredictions(self.top.correct, self.confidence)
        return replace(self, y_true=None, y_proba=top, task="auto", labels=None, n_choices=None)

    def predictions(self, path: str) -> Predictions:
        """The question as the predictions of a file."""
        about: dict[str, Any] = {"notes": self.notes or ("a log of decisions",), "n_rows": len(self.keys)}
        p = self.y_proba
        if isinstance(p, TopPredictions):
            return Predictions(self.name, path, "top_label", correct=p.correct, confidence=p.confidence, **about)
        kind: FileKind = "probabilities" if self.n_choices is None else "choices"
        classes = None if p.ndim == 1 else self.labels
        return Predictions(self.name, path, kind, self.y_true, p, classes=classes, n_choices=self.n_choices, **about)

    def matched(self, other: DecisionQuestion) -> DecisionQuestion:
        """The same rows with the options in the order of another log's."""
        if self.labels is None or other.labels is None or self.labels == other.labels:
            return self
        if set(self.labels) != set(other.labels):
            raise ValueError(f"question {quote(self.name)}: expected the same options in both logs")
        place = [self.labels.index(label) for label in other.labels]
        y = np.array([other.labels.index(self.labels[i]) for i in self.y_true], dtype=np.intp)
        return replace(self, labels=other.labels, y_proba=np.ascontiguousarray(self.y_proba[:, place]), y_true=y)

    def __repr__(self) -> str:
        return f"<DecisionQuestion {self.name!r}: {len(self.keys)} rows, {self.refused} refused>"


@dataclass(frozen=True, eq=False)
class DecisionLog:
    """The questions of a log of decisions, by their names."""

    path: str
    name: str
    questions: dict[str, DecisionQuestion]
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> DecisionQuestion:
        if name not in self.questions:
            raise Request(self.path).refuse(f"expected a question of {listing(self.questions)}, got {quote(name)}")
        return self.questions[name]

    def only(self, names: Sequence[str] | None) -> DecisionLog:
        """Some of the questions; all without names."""
        return self if names is None else replace(self, questions={name: self[name] for name in names})


def paired_rows(questions: Sequence[DecisionQuestion]) -> tuple[list[DecisionQuestion], int]:
    """The same rows of a question in several logs, in one order, and how many rows only some logs have.

    Rows are paired by their keys; without common keys by their places, where as many were asked in all logs.
    """
    first = questions[0]
    names: list[tuple[Any, ...]] = [question.keys for question in questions]
    if not set(names[0]).intersection(*names[1:]):
        if len({question.asked for question in questions}) > 1:
            raise ValueError(f"question {quote(first.name)}: expected the same rows in all logs, found no common ids")
        names = [question.places for question in questions]
    shared = set(names[0]).intersection(*names[1:])
    order = [name for name in names[0] if name in shared]
    found = []
    for question, own in zip(questions, names, strict=True):
        row = {name: i for i, name in enumerate(own)}
        found.append(question.take([row[name] for name in order]).matched(first))
    return found, len(set().union(*names)) - len(order)


def is_decision_log(path: str) -> bool:
    """Whether a file holds typed answers of a decision model."""
    request = Request(str(path))
    try:
        form = file_format(request.path)
        if form not in ("json", "jsonl"):
            return False
        with byte_stream(request.path) as stream:
            if _MARKS.search(stream.read(_SNIFF)) is None:
                return False
        return any(record.answers for record in islice(_records(request), 20))
    except FileError:
        return False  # what is wrong with it is said where it is read


def read_decisions(
    path: str | os.PathLike[str], *, labels: str | os.PathLike[str] | None = None, normalize: bool = False
) -> DecisionLog:
    """Read a log of typed decisions: probabilities and gold answers of every question.

    It may be a jsonl or JSON file of responses, or of requests and responses, of OpenAI's Decisions API or its batches,
    of systemone, a .jevl file, a cache of jev-eval, the decisions of jevcal, or results of deepeval or promptfoo.
    Gold answers are in each record ("labels": {"team": "sales"}, or "gold"), or in the file `labels`, matched by id, in
    columns that are called as the questions. `normalize` divides any row of probabilities by its sum. Raises FileError.

    >>> import json, pathlib, tempfile
    >>> from truecal.io import read_decisions
    >>> answer = {"type": "predicate", "name": "urgent", "probability": 0.8}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.jsonl")
    ...     _ = path.write_text(json.dumps({"response": {"answers": [answer]}, "labels": {"urgent": True}}))
    ...     log = read_decisions(path)
    >>> log["urgent"].y_true, log["urgent"].y_proba
    (array([1]), array([0.8]))
    """
    request = Request(os.fsdecode(path), normalize=normalize)
    file_format(request.path)
    records = [replace(record, place=place) for place, record in enumerate(_records(request))]
    answered = [record for record in records if record.answers]
    if not answered:
        raise request.refuse("expected answers of a decision model (predicate, noul, choice or score), found none")
    notes = []
    if failed := len(records) - len(answered):
        notes.append(f"{failed} of {len(records)} records have no answers (failed requests) and are left out")
    answered, repeated = _last_of_each(answered)
    if repeated:
        notes.append(f"recorded again, so that the last record of each id counts: {repeated}")
    gold = None if labels is None else _GoldFile.read(Request(os.fsdecode(labels)), len(records), answered)
    several = len({record.model for record in answered} - {""}) > 1
    names = dict.fromkeys(name for record in answered for name in record.answers)
    found: dict[str, list[_Answer]] = {}
    for record in answered:
        for name, raw in record.answers.items():
            truth = record.gold(name) if gold is None else gold.of(record, name, len(names) == 1)
            answer = replace(_answer(request, record, name, raw), gold=truth)
            found.setdefault(f"{name} ({record.model})" if several else name, []).append(answer)
    if gold is not None and not gold.used:
        raise gold.refused(answered, names)
    questions, empty = {}, []
    for name, answers in found.items():
        made = _question(request, name, answers)
        if isinstance(made, str):
            empty.append(made)
        else:
            questions[name] = made
    if not questions:
        how = f'put them into each record, such as "labels": {{{next(iter(names))!r}: ...}}, or give {LABELS_OPTION}'
        raise request.refuse(f"no gold answers: {how}".replace("'", '"') if not empty else f"{empty[0]}: {how}")
    notes += [gold.note] if gold is not None else []
    return DecisionLog(request.path, readable(inside(request.path).stem), questions, (*notes, *empty))


# -- records -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Record:
    """One record: the raw answer of each question, and where gold answers may be."""

    line: int
    answers: dict[str, Any]
    model: str
    raw: Mapping[str, Any]
    asked: Mapping[str, Any]
    ids: tuple[str, ...] = ()
    key: str = ""
    again: str | None = None
    place: int = 0

    def gold(self, name: str) -> Any:
        """The gold answer in the record itself."""
        request = self.raw.get("request")
        places = [self.raw, *([request] if isinstance(request, dict) else [])]
        for place in places:
            own = [v for k, v in place.items() if is_called(k, "truth", "label", "reference") or key_of(k) in _GOLD]
            for value in (*own, *(place.get(key) for key in _ABOUT)):
                if isinstance(value, dict) and value.get(name) is not None:
                    return value[name]
            for value in own:
                if value is not None and not isinstance(value, (dict, list)) and len(self.answers) == 1:
                    return value
        value = self.raw.get(name)
        return None if isinstance(value, (dict, list)) else value


def _records(request: Request) -> Iterator[_Record]:
    """The records of a log, whichever tool wrote it."""
    outcomes: dict[str, dict[str, Any]] = {}
    later: list[tuple[int, dict[str, Any]]] = []
    for line, raw in _raw(request):
        if raw.get("kind") == "outcome" and isinstance(raw.get("outcome"), dict):  # jevcal joins them when it reads
            truth = raw["outcome"]
            outcomes.setdefault(str(raw.get("requestId")), {})[str(truth.get("field"))] = truth.get("actualValue")
        elif raw.get("kind") == "decision" and isinstance(raw.get("result"), dict):
            later.append((line, raw["result"]))
        elif "metricsData" in raw:
            yield _record(line, {**raw, "answers": _of_metrics(request, raw), "error": None})
        else:
            yield _record(line, raw)
    for line, result in later:
        labels = outcomes.get(str(result.get("requestId")), {})
        given = result.get("fields")
        fields = {name: _of_field(value) for name, value in given.items()} if isinstance(given, dict) else {}
        answers = (_answers(result.get("raw")) or (fields, {}))[0]
        yield _record(line, {**result, "answers": answers, "raw": None, "labels": labels})


def _raw(request: Request) -> Iterator[tuple[int, dict[str, Any]]]:
    if inside(request.path).suffix != ".json":
        yield from json_lines(request)
        return
    found = whole_json(request.path, request.budget, _MOST)
    if isinstance(found, dict):
        results = found.get("results", found.get("testCases"))
        results = results.get("results") if isinstance(results, dict) else results
        if isinstance(results, list):
            found = results
        elif _answers(found) is not None:
            found = [found]
        else:
            found = [{"id": name, "response": value} for name, value in found.items() if isinstance(value, dict)]
    for number, raw in enumerate(found if isinstance(found, list) else [], 1):
        if isinstance(raw, dict):
            yield number, raw


def _record(line: int, raw: dict[str, Any]) -> _Record:
    answers, about = _answers(raw) or ({}, {})
    given = raw.get("request")
    request: dict[str, Any] = given if isinstance(given, dict) else {}
    asked = _asked(request.get("questions"))
    taken: tuple[str, ...] = ()
    if list(answers) == [""]:  # one answer per record: the question is named beside it
        name = raw.get("question") if isinstance(raw.get("question"), str) else None
        if name is None and isinstance(raw.get("question"), dict):
            name, asked, taken = raw.get("id"), {str(raw.get("id")): raw["question"]}, ("id",)
        answers = {str(name or "decision"): answers[""]}
    provider = raw.get("provider")
    provider = provider.get("id") if isinstance(provider, dict) else provider
    model = str(about.get("model") or raw.get("model") or provider or "")
    ids = [str(raw[key]) for key in _IDS if key not in taken and isinstance(raw.get(key), (str, int))]
    state = request.get("state", request.get("input"))
    key = raw.get("custom_id") or (json.dumps(state, sort_keys=True) if state is not None else None)
    key = raw.get("state_hash") or key or raw.get("testIdx", ids[0] if ids else line)
    again = ids[0] if "v" in raw and ids else None
    return _Record(line, answers, model, raw, asked, tuple(ids), str(key), again)


def _answers(value: Any, depth: int = 0) -> tuple[dict[str, Any], Mapping[str, Any]] | None:
    """The answers of a response by their questions, and the object that holds them, however they are wrapped."""
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            value = json.loads(value)
        except ValueError:
            return None
    if not isinstance(value, dict) or depth > 4:
        return None
    found = value.get("answers")
    if isinstance(found, list) and found and all(isinstance(answer, dict) for answer in found):
        found = _named(found)
    if isinstance(found, dict) and any(_type(answer) for answer in found.values()):
        return found, value
    if depth and _type(value):
        return {str(value.get("name") or ""): value}, value
    for key in _WRAPPERS:
        if (inner := _answers(value.get(key), depth + 1)) is not None:
            return inner[0], {"model": value.get("model"), **{k: v for k, v in inner[1].items() if v is not None}}
    return ({str(value.get("name") or ""): value}, value) if "type" in value and _type(value) else None


def _type(answer: Any) -> str | None:
    """The type of an answer, by its own word or by what it holds; None where it is no answer."""
    if not isinstance(answer, dict):
        return None
    said = answer.get("type")
    if said in _REFUSED:
        return "refusal"
    for names, key in ((_PREDICATES, "noul"), (_PREDICATES, "probability"), (_CHOICES, "choice"), (_SCORES, "score")):
        if (said in names or said is None) and key in answer and (said is not None or key != "probability"):
            return names[0]
    return None


def _asked(questions: Any) -> dict[str, Any]:
    """The questions of a request by their names."""
    if isinstance(questions, list):
        return _named([question for question in questions if isinstance(question, dict)])
    return questions if isinstance(questions, dict) else {}


def _named(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Questions or answers by their names; one without a name, or with that of another, has its number."""
    found: dict[str, Any] = {}
    for i, item in enumerate(items, 1):
        name = str(item.get("name") or f"question {i}")
        found[f"{name} ({i})" if name in found else name] = item
    return found


def _of_metrics(request: Request, case: Mapping[str, Any]) -> dict[str, Any]:
    """The answers behind the metrics of a test case of deepeval: its logs have them, with three digits."""
    found: dict[str, Any] = {}
    metrics = case.get("metricsData")
    for metric in metrics if isinstance(metrics, list) else ():
        if not isinstance(metric, dict):
            continue
        name = str(metric.get("name")).removesuffix(" [JevEval]")
        told = _OUTCOME.findall(str(metric.get("verboseLogs")))
        for type_, question, chances, confidence in told:
            with parsing(request.path, "probabilities in verboseLogs"):
                values = dict(ast.literal_eval(chances))
            answer = {"type": type_, "probabilities": values, "noul": values.get("true"), type_: values.get("true")}
            answer["confidence"] = float(confidence) if confidence and type_ not in _PREDICATES else None
            found[name if len(told) == 1 else question] = answer
        if not told and isinstance(metric.get("score"), (int, float)) and 0 <= metric["score"] <= 1:
            found[name] = {"type": "predicate", "probability": metric["score"]}
    return found


def _of_field(value: Any) -> Any:
    """A prediction of jevcal as an answer; its probability is that of the predicted value."""
    if not isinstance(value, dict) or not isinstance(chance := value.get("probability"), (int, float)):
        return {"type": "refusal"}
    said, native = value.get("value"), value.get("raw")
    if isinstance(said, bool):
        return {"type": "predicate", "probability": chance if said else 1 - chance}
    spread = native.get("distribution") if isinstance(native, dict) else None
    return {"type": "choice", "choice": said, "confidence": chance, "probabilities": spread}


def _last_of_each(records: Sequence[_Record]) -> tuple[list[_Record], int]:
    """A cassette appends what it records again: the last record of each id counts."""
    last = {record.again: i for i, record in enumerate(records) if record.again is not None}
    kept = [r for i, r in enumerate(records) if r.again is None or last[r.again] == i]
    return kept, len(records) - len(kept)


# -- gold answers in another file --------------------------------------------------------------------------------------


@dataclass
class _GoldFile:
    """Rows of gold answers: by id where the log has ids, else in order."""

    request: Request
    rows: list[dict[str, Any]]
    by_id: dict[str, dict[str, Any]]
    in_order: bool
    used: int = 0

    @classmethod
    def read(cls, request: Request, n: int, records: Sequence[_Record]) -> _GoldFile:
        form = file_format(request.path)
        if form in ("json", "jsonl"):
            rows = [{**r, **(r["labels"] if isinstance(r.get("labels"), dict) else {})} for _, r in _raw(request)]
        else:
            source = open_source(request, form)
            columns = {name: source.values(name).tolist() for name in source.forms}
            rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
        names = list(dict.fromkeys(name for row in rows for name in row))
        of_id = next((name for key in _IDS for name in names if key_of(name) == key_of(key)), None)
        in_order = of_id is None or not any(record.ids for record in records)
        if in_order and len(rows) != n:
            why = "have no ids in common" if of_id is None else "the log has no ids"
            raise request.refuse(f"expected {n} rows, one per record of the log, got {len(rows)}: {why}")
        of_question = next((name for name in names if is_called(name, "question") and name != of_id), None)
        by_id: dict[str, dict[str, Any]] = {}
        for number, row in enumerate(rows):
            id_ = str(number if in_order else row.get(of_id or ""))
            own = {str(row[of_question]): _called_gold(row)} if of_question is not None else row
            if id_ in by_id and not own.keys().isdisjoint(by_id[id_]):
                raise request.refuse(f"expected one row of gold answers per id, {quote(id_)} comes twice")
            by_id.setdefault(id_, {}).update(own)
        return cls(request, rows, by_id, in_order)

    @property
    def note(self) -> str:
        """How rows were matched."""
        how = "in the order of the records" if self.in_order else "by id"
        return f"gold answers from {path_text(self.request.path)}, matched {how}"

    def refused(self, records: Sequence[_Record], names: Iterable[str]) -> FileError:
        """Why no gold answer was found: other ids, or other columns."""
        ids = [id_ for record in records for id_ in record.ids]
        if not self.in_order and self.by_id.keys().isdisjoint(ids):
            own = quote(next(iter(self.by_id), ""))
            return self.request.refuse(f"expected ids of the log, such as {quote(ids[0])}, found others, such as {own}")
        found = listing(self.rows[0] if self.rows else ())
        return self.request.refuse(
            f"expected columns that are called as the questions of the log {listing(names)}, found {found}"
        )

    def of(self, record: _Record, name: str, alone: bool) -> Any:
        """The gold answer of a question; None where the file has none."""
        ids = (str(record.place),) if self.in_order else record.ids
        row: dict[str, Any] = next((self.by_id[own] for own in ids if own in self.by_id), {})
        value = row.get(name, _called_gold(row) if alone else None)
        missing = value is None or value == "" or (isinstance(value, float) and math.isnan(value))
        self.used += not missing
        return None if missing else value


def _called_gold(row: Mapping[str, Any]) -> Any:
    return next((v for k, v in row.items() if is_called(k, "truth", "label", "reference") and v is not None), None)


# -- answers -----------------------------------------------------------------------------------------------------------


def _answer(request: Request, record: _Record, name: str, raw: Any) -> _Answer:
    """An answer with its options in the order in which they were asked for."""
    type_, where = _type(raw), f"{quote(name)} in record {record.line}"
    base = _Answer(record.line, record.key, type_ or "refusal")
    if type_ is None or type_ in _REFUSED:
        return base
    confidence = (
        None if raw.get("confidence") is None else _chance(request, raw["confidence"], f"confidence of {where}")
    )
    if type_ in _PREDICATES:
        p = _chance(request, raw.get("noul", raw.get("probability")), f"probability of {where}")
        return replace(base, options=(False, True), chances=(1 - p, p))
    spread = raw.get("probabilities")
    if not spread:
        if confidence is None or not _plain(raw.get("choice")):
            raise request.refuse(f"expected probabilities of {where}, got {quote(spread)}")
        return replace(base, options=(raw["choice"],), chances=(confidence,))
    if isinstance(spread, dict):
        spread = [{"value": value, "probability": p} for value, p in spread.items()]
    if not isinstance(spread, list) or not all(isinstance(one, dict) and _plain(one.get("value")) for one in spread):
        raise request.refuse(f"expected probabilities with their values of {where}, got {quote(spread)}")
    found = {one["value"]: one for one in spread}
    if len(found) < len(spread):
        raise request.refuse(f"expected every option once in the probabilities of {where}")
    asked = record.asked.get(name)
    asked = asked if isinstance(asked, dict) else {}
    levels = asked.get("criteria", asked.get("levels", asked.get("choices")))
    levels = levels if isinstance(levels, (list, dict)) else ()
    order = [one.get("value", one.get("label")) if isinstance(one, dict) else one for one in levels]
    options = list(found)
    if type_ in _SCORES and all(_whole(option) is not None for option in options):
        options.sort(key=float)
        legend = raw.get("legend")
        legend = legend if isinstance(legend, dict) else dict(enumerate(order))
        said = [found[o].get("label") or legend.get(str(o), legend.get(_whole(o), o)) for o in options]
    else:
        options, said = (order if set(map(str, order)) == set(map(str, options)) else options), []
        options = [option if option in found else str(option) for option in options]
    chances = tuple(_chance(request, found[option].get("probability"), f"probability of {where}") for option in options)
    texts = tuple(str(text) for text in said) or tuple(_text(option) for option in options)
    return replace(base, options=tuple(options), texts=texts, chances=chances, confidence=confidence)


def _plain(value: Any) -> bool:
    return isinstance(value, (str, int, float))


def _chance(request: Request, value: Any, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -1e-6 <= value <= 1 + 1e-6:
        raise request.refuse(f"expected a number from 0 to 1 as the {what}, got {quote(value)}")
    return min(1.0, max(0.0, float(value)))


def _whole(value: Any) -> int | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return int(number) if number.is_integer() else None


def _text(value: Any) -> str:
    """One spelling of an option: truth values and whole numbers as JSON has them."""
    if isinstance(value, bool):
        return str(value).lower()
    number = None if isinstance(value, str) and not value.strip() else _whole(value)
    return str(value).strip() if number is None else str(number)


def _index(answer: _Answer, gold: Any) -> int:
    """The option that the gold answer is, −1 where it is none of them."""
    exact = [i for i, option in enumerate(answer.options) if type(option) is type(gold) and option == gold]
    if exact:
        return exact[0]
    for texts in (tuple(map(_text, answer.options)), answer.texts):
        same = [i for i, text in enumerate(texts) if text.casefold() == _text(gold).casefold()]
        if len(same) == 1:
            return same[0]
    return -1


# -- questions ---------------------------------------------------------------------------------------------------------


def _question(request: Request, name: str, answers: list[_Answer]) -> DecisionQuestion | str:
    """The arrays of a question, or why there are none."""
    given = [answer for answer in answers if answer.chances]
    rows = [answer for answer in given if answer.gold is not None]
    places = tuple(i for i, answer in enumerate(answers) if answer.chances and answer.gold is not None)
    refused, unlabelled = len(answers) - len(given), len(given) - len(rows)
    types = sorted({answer.type for answer in given})
    if len(types) > 1:
        raise request.refuse(f"expected answers of one type to {quote(name)}, got {listing(types)}: name them apart")
    if not rows:
        return f"{quote(name)} has no answers" if not given else f"{quote(name)} has no gold answers"
    left = [f"{n} {what}" for n, what in ((refused, "refused"), (unlabelled, "without a gold answer")) if n]
    notes = [f"{len(rows)} of {len(answers)} answers; left out: {', '.join(left)}"] if left else []
    first = rows[0]
    single = all(len(row.options) == 1 for row in rows)
    fixed = all(set(row.options) == set(first.options) for row in rows)
    golds = np.array([_gold_index(request, name, row, fixed and not single) for row in rows])
    about: dict[str, Any] = {"refused": refused, "unlabelled": unlabelled, "asked": len(answers), "places": places}
    about["keys"] = _unique([row.key for row in rows])
    if single:
        top = TopPredictions(golds == 0, np.array([row.chances[0] for row in rows]))
        return DecisionQuestion(name, None, top, notes=(*notes, "only the likeliest option has a probability"), **about)
    if types[0] in _PREDICATES:
        p = np.array([row.chances[1] for row in rows])
        return DecisionQuestion(name, golds, p, labels=("false", "true"), notes=tuple(notes), **about)
    if fixed:
        order = [[row.options.index(option) for option in first.options] for row in rows]
        table = np.array([[row.chances[j] for j in place] for row, place in zip(rows, order, strict=True)])
        golds = np.array([place.index(gold) for place, gold in zip(order, golds, strict=True)])
        about |= {"labels": first.texts, "task": ORDERED.task if types[0] in _SCORES else "auto"}
    else:
        counts = np.array([len(row.options) for row in rows])
        table = np.zeros((len(rows), counts.max() + int((golds < 0).any())))
        for i, row in enumerate(rows):
            table[i, : len(row.chances)] = row.chances
        if beyond := int((golds < 0).sum()):
            notes.append(f"in {beyond} rows the gold answer is none of the options: the answer is wrong")
            golds = np.where(golds < 0, table.shape[1] - 1, golds)
        notes.append(f"{counts.min()} to {counts.max()} options, which differ by row: measured by the confidence alone")
        about |= {"n_choices": counts}
    table, said = _whole_rows(request, name, rows, table)
    notes += said
    stated = np.array([math.nan if row.confidence is None else row.confidence for row in rows])
    if not np.isnan(stated).any():
        about["confidence"] = stated
        if abs(stated - table.max(axis=1)).max() > 0.011:  # more than rounding
            notes.append(
                f"confidence (mean {stated.mean():.3f}) is apart from the top probability (mean "
                f"{table.max(axis=1).mean():.3f}): --confidence confidence measures it"
            )
    return DecisionQuestion(name, golds, table, notes=tuple(notes), **about)


def _unique(keys: Sequence[str]) -> tuple[str, ...]:
    """A state that comes again has a number behind it."""
    seen: Counter[str] = Counter()
    found = []
    for key in keys:
        seen[key] += 1
        found.append(key if seen[key] == 1 else f"{key} #{seen[key]}")
    return tuple(found)


def _gold_index(request: Request, name: str, row: _Answer, must: bool) -> int:
    gold, where = row.gold, f"{quote(name)} in record {row.line}"
    if row.type in _PREDICATES:
        mark = read_mark({"yes": True, "no": False}.get(str(gold).strip().lower(), gold))
        if mark is None:
            raise request.refuse(f"expected true or false as the gold answer of {where}, got {quote(gold)}")
        return int(mark)
    found = _index(row, gold)
    if found < 0 and must:
        options = listing(dict.fromkeys((*map(_text, row.options), *row.texts)))
        raise request.refuse(f"expected one of {options} as the gold answer of {where}, got {quote(gold)}")
    return found


def _whole_rows(request: Request, name: str, rows: Sequence[_Answer], table: Any) -> tuple[Any, list[str]]:
    """Rows that sum to 1: rounded ones are recognised by their digits, and divided by their sums."""
    sums = np.sort(table, axis=1).sum(axis=1)  # the same in every order of the options
    off = abs(sums - 1)
    words = {2: "hundredths", 3: "thousandths", 4: "ten-thousandths"}
    digits = next((d for d in words if abs(table * 10**d - np.round(table * 10**d)).max() < 1e-6), None)
    within = 1e-3 if digits is None else 0.5 * 10.0**-digits * table.shape[1] + 1e-9
    if request.normalize:
        within = math.inf if sums.min() > 0 else within
    if off.max() > within:
        row = int(off.argmax())
        raise request.refuse(
            f"expected probabilities of {quote(name)} in record {rows[row].line} that sum to 1, got {sums[row]:.4g}: "
            f"pass {NORMALIZE_OPTION} to divide rows by their sums"
        )
    if off.max() <= 1e-9:
        return table, []
    how = f"rounded to {words[digits]}" if digits is not None else f"off by up to {off.max():.2g}"
    return table / sums[:, None], [f"probabilities {how}: rows divided by their sums"]
