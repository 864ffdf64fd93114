"""Sample logs of lm-evaluation-harness: log-likelihoods of any number of choices per line."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truecal.backends.numpy import softmax
from truecal.io.columns import COLUMNS_OPTION, LABEL_OPTION, LABELS_OPTION, LOGITS_OPTION, Request
from truecal.io.failures import failure, listing, parsing, quote
from truecal.io.predictions import Floats, Indices, Predictions

LONGEST_LINE = 1 << 26  # bytes; a line holds a document and its prompts
MOST_CHOICES = 10_000
MOST_CELLS = 1 << 28  # rows times the largest number of choices


@dataclass(frozen=True)
class Sample:
    """One document: its number, the log-likelihood of each choice, and what the log says the answer is."""

    line: int
    doc_id: int
    scores: tuple[float, ...]
    choices: tuple[str, ...] | None  # the texts, where the log has them
    target: Any
    acc: float | None


def read_samples(request: Request, name: str, with_labels: bool) -> Predictions:
    """Lines with doc_id, target and resps (or filtered_resps), in the order of doc_id."""
    path = request.path
    if request.told is not None or request.kind == "top_label":
        raise failure(
            path, f"expected no kind= and no {LOGITS_OPTION} for a sample log: it holds log-likelihoods of choices"
        )
    if request.proba_columns is not None and len(request.proba_columns) != 1:
        raise failure(path, f"expected one key of responses in {COLUMNS_OPTION}, got {listing(request.proba_columns)}")
    samples, notes = _samples(request)
    counts = np.array([len(sample.scores) for sample in samples], dtype=np.intp)
    logits = _padded(path, samples, counts)
    answers, how = (None, "no labels in use from the log") if with_labels else _answers(request, samples)
    ragged = len(np.unique(counts)) > 1
    scope = (
        f"{counts.min()} to {counts.max()} choices per row: classwise and full calibration do not apply"
        if ragged
        else f"{counts[0]} choices in every row"
    )
    return Predictions(
        name=name,
        path=path,
        kind="choices",
        y_true=answers,
        proba=softmax(logits),
        logits=logits,
        n_choices=counts,
        ids=np.array([sample.doc_id for sample in samples], dtype=np.intp),
        notes=(*notes, how, scope),
    )


def _samples(request: Request) -> tuple[list[Sample], tuple[str, ...]]:
    path = request.path
    first_filter: object = None
    kept: dict[int, Sample] = {}
    key = request.proba_columns[0] if request.proba_columns is not None else ""
    dropped = False
    for line, record in _records(path):
        if not kept:
            first_filter = record.get("filter")
            key = key or next((k for k in ("filtered_resps", "resps") if k in record), "")
        elif record.get("filter") != first_filter:  # the log repeats every document once per filter
            dropped = True
            continue
        sample = _sample(request, line, record, key)
        if sample.doc_id in kept:
            where = f"lines {kept[sample.doc_id].line} and {line}"
            raise failure(path, f"expected every doc_id once, {sample.doc_id} is on {where}")
        kept[sample.doc_id] = sample
    if not kept:
        raise failure(path, "expected a sample on each line, the file has none")
    notes = [f"log-likelihoods of choices from the key {quote(key)}, softmax over each row's choices, rows by doc_id"]
    if dropped:
        notes.append(f"only the lines with filter {quote(first_filter)} were used")
    return [kept[doc_id] for doc_id in sorted(kept)], tuple(notes)


def _records(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of every line that is not blank."""
    with open(path, "rb") as stream:
        number = 0
        while content := stream.readline(LONGEST_LINE):
            number += 1
            if len(content) == LONGEST_LINE:
                raise failure(path, f"expected lines of at most {LONGEST_LINE} bytes, line {number} is longer")
            if not content.strip():
                continue
            with parsing(path, f"a JSON object on line {number}"):
                record = json.loads(content.decode("utf-8-sig" if number == 1 else "utf-8"))
            if not isinstance(record, dict):
                raise failure(path, f"expected a JSON object on line {number}, got {quote(record)}")
            yield number, record


def _sample(request: Request, line: int, record: dict[str, Any], key: str) -> Sample:
    path = request.path
    if key not in record:
        raise failure(
            path, f"expected the key {quote(key or 'filtered_resps')} on line {line}, found {listing(record)}"
        )
    doc_id = record.get("doc_id", line - 1)
    if type(doc_id) is not int or not 0 <= doc_id < 2**62:
        raise failure(path, f"expected a whole number as doc_id on line {line}, got {quote(doc_id)}")
    responses = record[key]
    if not isinstance(responses, list) or not 2 <= len(responses) <= MOST_CHOICES:
        what = f"{len(responses)} responses" if isinstance(responses, list) else quote(responses)
        raise failure(path, f"expected two or more choices (a multiple-choice task) on line {line}, got {what}")
    scores = [_log_likelihood(path, response, line, i) for i, response in enumerate(responses)]
    prompts = _arguments(record.get("arguments"), len(scores))
    if "acc_mutual_info" in record:
        scores, prompts = _conditional(path, line, scores, prompts)
    choices = None if prompts is None else tuple(text.strip() for _, text in prompts)
    acc = record.get("acc")
    target = _target(path, record, request.label_column, line)
    return Sample(line, doc_id, tuple(scores), choices, target, float(acc) if acc in (0, 1) else None)


def _log_likelihood(path: str, response: Any, line: int, choice: int) -> float:
    """-12.3, "-12.3", [-12.3, false], ["-12.3", "False"] or one of these in a list of repeats of one."""
    value = response
    while isinstance(value, list) and value and isinstance(value[0], list):
        if len(value) != 1:
            raise failure(path, f"expected one response per choice on line {line}, choice {choice} has {len(value)}")
        value = value[0]
    if isinstance(value, list):
        value = value[0] if len(value) in (1, 2) else None
    try:
        score = float(value) if type(value) in (int, float, str) else float("nan")
    except (ValueError, OverflowError):
        score = float("nan")
    if not score < np.inf:  # also refuses NaN
        raise failure(path, f"expected a log-likelihood on line {line}, choice {choice}, got {quote(response)}")
    return score


def _arguments(arguments: Any, count: int) -> list[tuple[str, str]] | None:
    """(prompt, continuation) of each request: a list of pairs, or {"gen_args_0": {"arg_0": ..., "arg_1": ...}, ...}."""
    if isinstance(arguments, dict):
        arguments = [arguments.get(f"gen_args_{i}") for i in range(len(arguments))]
        arguments = [[a.get("arg_0"), a.get("arg_1")] if isinstance(a, dict) else None for a in arguments]
    if not isinstance(arguments, list) or len(arguments) != count:
        return None
    if not all(isinstance(a, list) and len(a) >= 2 and all(isinstance(t, str) for t in a[:2]) for a in arguments):
        return None
    return [(a[0], a[1]) for a in arguments]


def _conditional(
    path: str, line: int, scores: list[float], prompts: list[tuple[str, str]] | None
) -> tuple[list[float], list[tuple[str, str]]]:
    """Tasks with acc_mutual_info also score every choice without its prompt; those requests are left out."""
    kept = [] if prompts is None else [i for i, (prompt, _) in enumerate(prompts) if prompt != ""]
    if prompts is None or 2 * len(kept) != len(scores):
        raise failure(path, f"expected the prompts of 2 requests per choice (acc_mutual_info) on line {line}")
    if len(kept) < 2:
        raise failure(path, f"expected two or more choices on line {line}, got {len(kept)}")
    return [scores[i] for i in kept], [prompts[i] for i in kept]


def _target(path: str, record: dict[str, Any], key: str | None, line: int) -> Any:
    """record["target"], or a key such as doc.answer named by label_column."""
    if key is None:
        return record.get("target")
    value: Any = record
    for part in [key] if key in record else key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise failure(path, f"expected the key {quote(key)} on line {line}, found {listing(record)}")
        value = value[part]
    return value


def _padded(path: str, samples: Sequence[Sample], counts: Indices) -> Floats:
    if len(samples) * int(counts.max()) > MOST_CELLS:
        raise failure(path, f"expected rows of similar length, got {len(samples)} rows of up to {counts.max()} choices")
    logits = np.full((len(samples), counts.max()), -np.inf)
    for row, sample in enumerate(samples):
        logits[row, : len(sample.scores)] = sample.scores
        if max(sample.scores) == -np.inf:
            raise failure(path, f"expected a log-likelihood above -inf on line {sample.line}, every choice has -inf")
    return logits


def _answers(request: Request, samples: Sequence[Sample]) -> tuple[Indices | None, str]:
    """The index of the right choice of each row: target as an index, or as the text of a choice, one way for all rows.

    Where both ways fit, the log's own `acc` (1 if the likeliest choice is right) must single one out.
    """
    key = request.label_column or "target"
    if all(sample.target is None for sample in samples):
        return None, "no labels: the log has no target"
    ways = {f"index in {quote(key)}": _as_index, f"text of the choice in {quote(key)}": _as_text}
    found = {how: [way(sample) for sample in samples] for how, way in ways.items()}
    whole = {how: indices for how, indices in found.items() if None not in indices}
    if not whole and request.label_column is None and (told := _from_acc(samples)) is not None:
        return told, "labels: of two choices the likelier one where 'acc' is 1, the other where it is 0"
    if not whole:
        row = max(next(i for i, index in enumerate(indices) if index is None) for indices in found.values())
        raise failure(
            request.path,
            f"expected an index or the text of one of {len(samples[row].scores)} choices in {quote(key)} on line "
            f"{samples[row].line}, got {quote(samples[row].target)}: name the key with {LABEL_OPTION}, "
            f"or give {LABELS_OPTION}",
        )
    fits = {how: indices for how, indices in whole.items() if _first_conflict(samples, indices) is None}
    if len({tuple(i for i in indices if i is not None) for indices in (fits or whole).values()}) > 1:
        raise failure(
            request.path,
            f"expected one meaning of {quote(key)}, it fits as index and as text of a choice: give {LABELS_OPTION}",
        )
    if not fits and request.label_column is None:
        row = next(r for r in (_first_conflict(samples, i) for i in whole.values()) if r is not None)
        raise failure(
            request.path,
            f"expected 'target' to agree with 'acc' of the log, line {samples[row].line} has target "
            f"{quote(samples[row].target)} and acc {samples[row].acc:g}: give {LABEL_OPTION} or {LABELS_OPTION}",
        )
    how, indices = next(iter((fits or whole).items()))
    return np.array(indices, dtype=np.intp), f"labels: {how}"


def _as_index(sample: Sample) -> int | None:
    target = sample.target
    if isinstance(target, str):
        try:
            target = ast.literal_eval(target.strip()) if len(target) < 100 else None
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return None
    if isinstance(target, list) and len(target) == 1:
        target = target[0]
    if isinstance(target, bool) and len(sample.scores) == 2:
        target = int(target)
    return target if type(target) is int and 0 <= target < len(sample.scores) else None


def _as_text(sample: Sample) -> int | None:
    target = sample.target
    if not isinstance(target, str) or sample.choices is None or sample.choices.count(target.strip()) != 1:
        return None
    return sample.choices.index(target.strip())


def _from_acc(samples: Sequence[Sample]) -> Indices | None:
    """With two choices everywhere, acc alone tells the answer; targets that are shared continuations tell nothing."""
    if any(len(sample.scores) != 2 or sample.acc is None for sample in samples):
        return None
    likelier = np.array([sample.scores[1] > sample.scores[0] for sample in samples])
    return np.where([sample.acc == 1 for sample in samples], likelier, ~likelier).astype(np.intp)


def _first_conflict(samples: Sequence[Sample], answers: Sequence[int | None]) -> int | None:
    """The first row where "the likeliest choice is the answer" is not what the log says in acc."""
    for row, (sample, answer) in enumerate(zip(samples, answers, strict=True)):
        if sample.acc is not None and (sample.scores.index(max(sample.scores)) == answer) != bool(sample.acc):
            return row
    return None
