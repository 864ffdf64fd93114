"""Logs of token probabilities: responses of OpenAI-compatible servers and of vLLM, one per line.

Observed tokens are text that was given to the model (`prompt_logprobs`, or completions with `echo`): the next token is
an outcome. Generated tokens were drawn from the model: they are calibrated by construction, and only the answer as a
whole can be right or wrong.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from truecal.io.array_files import Entry, open_arrays
from truecal.io.column_rules import LABEL_OPTION, LABELS_OPTION, Request
from truecal.io.containers import inside
from truecal.io.failures import parsing, quote
from truecal.io.harness import json_lines
from truecal.io.prediction_file import Floats, Indices, Predictions
from truecal.io.source import Source
from truecal.io.streams import byte_stream, whole_json

BATCH = 1 << 16
LONGEST_JSON = 1 << 30  # bytes of a .json file, which is read as a whole
SLACK = 1e-3  # logged log-probabilities are rounded, and those of half precision sum to a little more than 1
_CORRECT = ("correct", "is_correct")
_NAMES = ("custom_id", "id", "request_id", "doc_id")
_DRAWN = (
    "the tokens were generated, so they are drawn from the model and calibrated by construction: give whether each "
    "answer is right under 'correct' on every line, or log text that was given (prompt_logprobs, or echo); if this "
    "text was given, pass kind='tokens' (FILE:tokens)"
)


@dataclass(frozen=True, eq=False)
class Tokens:
    """Observed tokens in the order of the text, with what the model predicted in their places.

    `correct`: whether the likeliest token came. `confidence`: its probability. `logprob`: the log-probability of the
    token that came. `outside` and `rest`: whether that token is none of those listed, and the probability left for
    such tokens. `document` counts the documents of the file from 0, and `position` the tokens of a document.
    `predicted` and `previous` are texts of the likeliest token and of the one before; `token` is the one that came.
    """

    correct: np.ndarray[Any, np.dtype[np.bool_]]
    confidence: Floats
    logprob: Floats
    outside: np.ndarray[Any, np.dtype[np.bool_]]
    rest: Floats
    document: Indices
    position: Indices
    token: np.ndarray[Any, np.dtype[np.object_]]
    predicted: np.ndarray[Any, np.dtype[np.object_]]
    previous: np.ndarray[Any, np.dtype[np.object_]]
    names: tuple[str, ...] = field(default=(), repr=False)
    """The documents, by their identifiers or the lines they are on."""

    def __len__(self) -> int:
        return len(self.correct)

    @property
    def perplexity(self) -> float:
        """exp of the mean of −log-probability of the tokens that came."""
        return float(np.exp(-self.logprob.mean()))

    def features(self, counts: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Columns for `tc.segments` that are known before the token: its position in the document, how frequent the
        predicted token is, and how frequent the one before.

        `counts`: how often each token is in the training text. By default predictions are counted, never outcomes.
        """
        if counts is None:
            found, each = np.unique(self.predicted.astype(str), return_counts=True)
            counts = dict(zip(found.tolist(), each.tolist(), strict=True))
        frequency, previous = (
            np.array([counts.get(token, 0) for token in column.tolist()], dtype=np.float64)
            for column in (self.predicted, self.previous)
        )
        return {"position": self.position.astype(np.float64), "frequency": frequency, "previous": previous}

    def __repr__(self) -> str:
        return f"<Tokens: {len(self)} of {len(self.names)} documents>"


def is_token_log(request: Request) -> bool:
    """Whether the first response has probabilities of tokens."""
    if request.kind not in (None, "top_label"):
        return request.kind == "tokens"
    if inside(request.path).suffix == ".json":
        with parsing(request.path, "JSON"), byte_stream(request.path) as stream:
            start = stream.read(4096)
        if b'"choices"' not in start and b'"prompt_logprobs"' not in start:
            return False
    _, first = next(_records(request), (0, {}))
    return any(_parts(first))  # observed or generated


def read_tokens(request: Request) -> Tokens:
    """All observed tokens of a log."""
    return next(token_batches(request, None))


def token_batches(request: Request, rows: int | None = BATCH) -> Iterator[Tokens]:
    """Observed tokens of whole documents, about so many at a time, in memory that does not grow with the file."""
    batch, made = _Batch(), 0
    for line, record in _records(request):
        for raw in _observed(request, line, record):
            batch.add(request, line, record, raw)
        if rows is not None and len(batch.correct) >= rows:
            yield batch.made()
            batch, made = _Batch(batch.first + len(batch.names), batch.k), made + 1
    if len(batch.correct):
        yield batch.made()
    elif not made:
        raise request.refuse("the file has no tokens with probabilities")


def read_token_log(request: Request, name: str, labels_elsewhere: bool) -> Source | Predictions:
    """The observed tokens of a log with documents as groups; or its answers, each with the probability of its text."""
    if request.told is not None or request.normalize or request.percent or request.odds:
        raise request.refuse("logits, normalize, percent and odds cannot be used with log-probabilities of tokens")
    _, first = next(_records(request), (1, {}))
    answered = labels_elsewhere or _correct_key(request, first) is not None
    if request.kind != "tokens" and _parts(first)[1] and (answered or not _parts(first)[0]):
        return _answers(request, labels_elsewhere)
    if labels_elsewhere:
        raise request.refuse(f"{LABELS_OPTION} cannot be used with observed tokens: the next token is the label")
    found = read_tokens(request)
    return Predictions(
        name,
        request.path,
        "top_label",
        correct=found.correct,
        confidence=found.confidence,
        label_values=found.token,
        groups=found.document,
        features=found.features(),
        notes=(
            f"the likeliest next token in {len(found)} places of {len(found.names)} documents, which are groups",
            f"the listed tokens have {1 - found.rest.mean():.1%} of the probability, and {1 - found.outside.mean():.1%}"
            " of the tokens that came",
        ),
    )


def sequence(values: Sequence[float], length_normalized: bool) -> float:
    """The probability of a text, exp Σ log p, or per token."""
    return math.exp(min(0.0, math.fsum(values) / (len(values) if length_normalized else 1)))


# -- answers: the probability of a generated text, and whether it is right --------------------------------------------


def _answers(request: Request, labels_elsewhere: bool) -> Source:
    chances, texts, names, hits = array("d"), [], [], []
    for line, record in _records(request):
        found = _parts(record)[1]
        if len(found) != 1:
            raise request.refuse(
                f"expected one answer with token probabilities on line {line}, got {len(found)}: several answers to a "
                "question are sampled answers, see tc.from_samples"
            )
        values = [step[1] for step in _steps(request, line, found[0]) if step is not None]
        if not values:
            raise request.refuse(f"expected an answer of at least one token on line {line}, got none")
        chances.append(sequence(values, request.length_normalized))
        texts.append(_text(record))
        names.append(_name(record, line))
        if not labels_elsewhere:
            hits.append(_hit(request, line, record))
    entries = {
        "confidence": Entry((len(chances),), "f", lambda: np.array(chances)),
        "id": Entry((len(names),), "U", lambda: np.array(names)),
        "prediction": Entry((len(texts),), "U", lambda: np.array(texts)),
        "correct": Entry((len(hits),), "b", lambda: np.array(hits, dtype=bool)),
    }
    del entries["correct" if labels_elsewhere else "prediction"]
    how = "probability per token, length-normalized," if request.length_normalized else "probability"
    return replace(open_arrays(request, entries), notes=(f"confidence: the {how} of the text of each answer",))


def _correct_key(request: Request, record: Mapping[str, Any]) -> str | None:
    wanted = _CORRECT if request.label_column is None else (request.label_column,)
    return next((key for key in wanted if key in record), None)


def _hit(request: Request, line: int, record: Mapping[str, Any]) -> bool:
    key = _correct_key(request, record)
    if key is None and request.label_column is not None:
        raise request.refuse(f"expected {quote(request.label_column)} ({LABEL_OPTION}) on line {line}")
    if key is None:
        raise request.refuse(f"expected 'correct' on line {line}; {_DRAWN}")
    if record[key] not in (0, 1):
        raise request.refuse(f"expected true or false in {quote(key)} on line {line}, got {quote(record[key])}")
    return bool(record[key])


def _text(record: Mapping[str, Any]) -> str:
    """The text of an answer, in any of the places where servers put it."""
    body = _body(record)
    for choice in _dicts(body.get("choices")) + _dicts(body.get("outputs")):
        message = choice.get("message")
        text = message.get("content") if isinstance(message, dict) else choice.get("text")
        if isinstance(text, str):
            return text.strip()
    return ""


# -- observed tokens --------------------------------------------------------------------------------------------------


class _Batch:
    """Columns that grow token by token, without an object for each number."""

    def __init__(self, first: int = 0, k: int | None = None) -> None:
        self.first, self.k = first, k
        """The number of the first document, and how many tokens are listed in every place of those before."""
        self.correct, self.outside = bytearray(), bytearray()
        self.confidence, self.logprob, self.rest = array("d"), array("d"), array("d")
        self.document, self.position = array("q"), array("q")
        self.token: list[str] = []
        self.predicted: list[str] = []
        self.previous: list[str] = []
        self.names: list[str] = []
        self._texts: dict[str, str] = {}  # one object per distinct text

    def add(self, request: Request, line: int, record: Mapping[str, Any], raw: _Raw) -> None:
        """One document."""
        steps = list(_steps(request, line, raw))
        widths = [len(step[2]) for step in steps if step is not None]
        self.k = min(widths if self.k is None else [*widths, self.k], default=self.k)
        document = self.first + len(self.names)
        self.names.append(_name(record, line))
        before = raw.first
        for position, step in enumerate(steps):
            if step is None:
                continue
            token, logprob, _ = step
            predicted, confidence, rest, outside = _place(
                request, f"token {position} on line {line}", step, self.k or 0
            )
            token = self._texts.setdefault(token, token)
            self.correct.append(predicted == token)
            self.outside.append(outside)
            self.confidence.append(confidence)
            self.logprob.append(logprob)
            self.rest.append(rest)
            self.document.append(document)
            self.position.append(position)
            self.token.append(token)
            self.predicted.append(self._texts.setdefault(predicted, predicted))
            self.previous.append(before)
            before = token

    def made(self) -> Tokens:
        def text(values: list[str]) -> np.ndarray[Any, np.dtype[np.object_]]:
            found = np.empty(len(values), dtype=object)
            found[:] = values
            return found

        return Tokens(
            correct=np.array(self.correct, dtype=np.uint8).astype(bool),
            confidence=np.array(self.confidence),
            logprob=np.array(self.logprob),
            outside=np.array(self.outside, dtype=np.uint8).astype(bool),
            rest=np.array(self.rest),
            document=np.array(self.document, dtype=np.intp),
            position=np.array(self.position, dtype=np.intp),
            token=text(self.token),
            predicted=text(self.predicted),
            previous=text(self.previous),
            names=tuple(self.names),
        )


_Step = tuple[str, float, dict[str, float]]
"""The token, its log-probability, and those of the tokens that are listed."""


def _place(request: Request, where: str, step: _Step, k: int) -> tuple[str, float, float, bool]:
    """The likeliest token and its probability, what is left for tokens that are not listed, and whether it is one.

    Servers add the observed token to the k likeliest ones if it is not among them. It then does not count as listed:
    the list must not depend on the observed token.
    """
    token, logprob, listed = step
    outside = token not in listed
    if not outside and len(listed) > k and logprob <= min(listed.values()):
        listed, outside = {name: value for name, value in listed.items() if name != token}, True
    if not listed:
        how = "ask for at least one (prompt_logprobs=1, logprobs=1 or top_logprobs=1)"
        raise request.refuse(f"expected the likeliest tokens at {where}, found none: {how}")
    predicted = max(listed, key=listed.__getitem__)
    total = math.fsum(math.exp(value) for value in listed.values())
    if total > 1 + SLACK:
        raise request.refuse(f"expected probabilities that sum to at most 1 at {where}, they sum to {total:.4g}")
    if outside and logprob > listed[predicted] + SLACK:
        raise request.refuse(f"expected the likeliest tokens at {where}, but {quote(token)}, not listed, is likelier")
    return predicted, min(1.0, math.exp(listed[predicted])), max(0.0, 1 - total), outside


# -- the forms in which servers write ---------------------------------------------------------------------------------


class _Raw(NamedTuple):
    """The tokens of one text as a server wrote them: "content" (chat), "plain" (completions) or "ids" (vLLM)."""

    form: str
    steps: Sequence[Any]
    ids: Any = None
    first: str = ""  # the first token, which has no probability

    def __bool__(self) -> bool:
        return len(self.steps) > 0


def _observed(request: Request, line: int, record: Mapping[str, Any]) -> list[_Raw]:
    given, generated = _parts(record)
    found = given + generated if request.kind == "tokens" else given
    if not found:
        raise request.refuse(f"expected observed tokens on line {line}: {_DRAWN if generated else 'it has none'}")
    return found


def _parts(record: Mapping[str, Any]) -> tuple[list[_Raw], list[_Raw]]:
    """The texts of a response with token probabilities: those that were given, and those that were generated."""
    body = _body(record)
    choices = _dicts(body.get("choices"))
    given: list[_Raw] = []
    generated: list[_Raw] = []
    for holder in (body, *choices):
        steps = holder.get("prompt_logprobs")
        if isinstance(steps, list) and not any(steps == raw.steps for raw in given):  # once per prompt
            given.append(_Raw("ids", steps, holder.get("prompt_token_ids")))
    for choice in choices:
        logged = choice.get("logprobs")
        if not isinstance(logged, dict):
            continue
        if isinstance(logged.get("content"), list):
            generated.append(_Raw("content", logged["content"]))
        elif isinstance(logged.get("tokens"), list):
            lists = [logged["tokens"], _list(logged.get("token_logprobs")), _list(logged.get("top_logprobs"))]
            steps = list(zip(*lists, strict=False))
            echoed = bool(steps) and steps[0][1] is None
            usage = body.get("usage")
            n = usage.get("prompt_tokens") if echoed and isinstance(usage, dict) else None
            n = n if isinstance(n, int) and len(choices) == 1 else len(steps) if echoed else 0
            given += [_Raw("plain", steps[:n], first=str(steps[0][0]))] if n else []
            generated += [_Raw("plain", steps[n:])] if steps[n:] else []
    for output in _dicts(body.get("outputs")):
        if isinstance(output.get("logprobs"), list):
            generated.append(_Raw("ids", output["logprobs"], output.get("token_ids")))
    return given, generated


def _steps(request: Request, line: int, raw: _Raw) -> Iterator[_Step | None]:
    """Token by token; None where there is no probability, as for the first."""
    for position, step in enumerate(raw.steps):
        if step is None or (raw.form == "plain" and step[1] is None):
            yield None
            continue
        try:
            yield _FORMS[raw.form](step, raw.ids and raw.ids[position])
        except (TypeError, ValueError, KeyError, AttributeError, IndexError, StopIteration) as error:
            where = f"token {position} on line {line}"
            raise request.refuse(f"expected a token with its log-probability at {where}, got {quote(step)}") from error


def _of_content(step: Any, chosen: Any) -> _Step:
    top = {str(entry["token"]): _number(entry["logprob"]) for entry in step.get("top_logprobs") or ()}
    return str(step["token"]), _number(step["logprob"]), top


def _of_plain(step: Any, chosen: Any) -> _Step:
    token, logprob, top = step
    return str(token), _number(logprob), {str(name): _number(value) for name, value in (top or {}).items()}


def _of_ids(step: Any, chosen: Any) -> _Step:
    """{id: {"logprob", "rank", "decoded_token"}}; vLLM lists the token that came first."""
    came = next(iter(step)) if chosen is None else str(chosen)
    texts = [entry.get("decoded_token") for entry in step.values()]
    names = {
        key: text if isinstance(text, str) and texts.count(text) == 1 else f"<{key}>"
        for key, text in zip(step, texts, strict=True)
    }
    top = {names[key]: _number(entry["logprob"]) for key, entry in step.items()}
    if len(step) == 1 and step[came].get("rank", 1) != 1:  # prompt_logprobs=0: the likeliest is not known
        return names[came], top[names[came]], {}
    return names[came], top[names[came]], top


_FORMS = {"content": _of_content, "plain": _of_plain, "ids": _of_ids}


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value <= SLACK:  # also refuses NaN
        raise ValueError(value)
    return float(value)


def _records(request: Request) -> Iterator[tuple[int, dict[str, Any]]]:
    """Responses and the lines they are on; a .json file holds one, or a list of them, counted from 1."""
    if inside(request.path).suffix != ".json":
        yield from json_lines(request)
        return
    found = whole_json(request.path, request.budget, LONGEST_JSON, "write a response per line (.jsonl)")
    for number, record in enumerate(found if isinstance(found, list) else [found], 1):
        if not isinstance(record, dict):
            raise request.refuse(f"expected responses, got {quote(record)} as number {number}")
        yield number, record


def _body(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The response itself: a line of a batch has it under response.body."""
    for key in ("response", "body"):
        inner = record.get(key)
        record = inner if isinstance(inner, dict) else record
    return record


def _name(record: Mapping[str, Any], line: int) -> str:
    return str(next((record[key] for key in _NAMES if record.get(key) is not None), f"line {line}"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in _list(value) if isinstance(one, dict)]
