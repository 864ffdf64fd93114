"""Sample logs of lm-evaluation-harness: log-likelihoods of any number of choices per line."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from truecal.core.row_kernels import softmax
from truecal.io.column_rules import COLUMNS_OPTION, LABEL_OPTION, LABELS_OPTION, LOGITS_OPTION, Request
from truecal.io.failures import listing, parsing, quote
from truecal.io.prediction_file import Indices, Predictions
from truecal.io.streams import bounded_lines, byte_stream

LONGEST_LINE = 1 << 26  # bytes; a line holds a document and its prompts
MOST_CHOICES = 10_000
_KEPT = 2  # bytes of memory per byte of a line whose object stays
MOST_CELLS = 1 << 28  # rows times the largest number of choices


@dataclass(frozen=True)
class Document:
    """One line of the log: the log-likelihood of each choice, and what the log says the answer is."""

    line: int
    doc_id: int
    scores: tuple[float, ...]
    choices: tuple[str, ...] | None  # the texts, where the log has them
    target: Any
    acc: float | None  # whether the likeliest choice is right, by the log's own word

    def as_index(self) -> int | None:
        """The target as the index of a choice, a number or a text that spells one."""
        target = self.target
        if isinstance(target, str):
            try:
                target = ast.literal_eval(target.strip()) if len(target) < 100 else None
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                return None
        if isinstance(target, list) and len(target) == 1:
            target = target[0]
        if isinstance(target, bool) and len(self.scores) == 2:
            target = int(target)
        return target if type(target) is int and 0 <= target < len(self.scores) else None

    def as_text(self) -> int | None:
        """The choice whose text the target is, if there is exactly one."""
        target, choices = self.target, self.choices
        if not isinstance(target, str) or choices is None or choices.count(target.strip()) != 1:
            return None
        return choices.index(target.strip())

    def contradicts(self, answer: int | None) -> bool:
        """Whether the log's own `acc` (1 if the likeliest choice is right) says that this is not the answer."""
        return self.acc is not None and (self.scores.index(max(self.scores)) == answer) != bool(self.acc)


def read_sample_log(request: Request, name: str, labels_elsewhere: bool) -> Predictions:
    """Lines with doc_id, target and resps (or filtered_resps), in the order of doc_id."""
    if request.told is not None or request.kind == "top_label":
        unwanted = f"no kind= and no {LOGITS_OPTION}"
        raise request.refuse(f"expected {unwanted} for a sample log: it holds log-likelihoods of choices")
    if request.proba_columns is not None and len(request.proba_columns) != 1:
        shown = listing(request.proba_columns)
        raise request.refuse(f"expected one key of responses in {COLUMNS_OPTION}, got {shown}")
    return predictions_of(request, name, labels_elsewhere, *_documents(request))


def predictions_of(
    request: Request, name: str, labels_elsewhere: bool, documents: Sequence[Document], notes: Sequence[str]
) -> Predictions:
    """Documents of any numbers of choices as padded rows, with the answers where no labels come from elsewhere."""
    counts = np.array([len(document.scores) for document in documents], dtype=np.intp)
    if len(documents) * int(counts.max()) > MOST_CELLS:
        sizes = f"{len(documents)} rows of up to {counts.max()} choices"
        raise request.refuse(f"expected rows of similar length, got {sizes}")
    logits = np.full((len(documents), counts.max()), -np.inf)
    for row, document in enumerate(documents):
        logits[row, : len(document.scores)] = document.scores
    answers, how = (None, "no labels in use from the log") if labels_elsewhere else _answers(request, documents)
    scope = f"{counts[0]} choices in every row"
    if counts.min() < counts.max():
        scope = f"{counts.min()} to {counts.max()} choices per row: classwise and full calibration do not apply"
    return Predictions(
        name=name,
        path=request.path,
        kind="choices",
        y_true=answers,
        proba=softmax(logits),
        logits=logits,
        n_choices=counts,
        ids=np.array([document.doc_id for document in documents], dtype=np.intp),
        notes=(*notes, how, scope),
    )


def is_sample_log(request: Request) -> bool:
    """Whether the first line is a sample of the harness, or the caller says so."""
    if request.kind == "choices" or request.length_normalized:
        return True
    _, first = next(json_lines(request), (0, {}))
    return "resps" in first or "filtered_resps" in first


def repeated_texts(value: Any) -> list[str] | None:
    """Two texts or more, as repeats are logged: a list of them, or such a list within another."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]
    repeated = isinstance(value, list) and len(value) > 1 and all(isinstance(text, str) for text in value)
    likelihood = repeated and len(value) == 2 and value[1] in ("True", "False")  # ["-12.3", "False"]
    return value if repeated and not likelihood else None


def has_repeats(record: Mapping[str, Any]) -> bool:
    """Whether a line has several generated texts for its one request."""
    responses = record.get("resps")
    one = isinstance(responses, list) and len(responses) == 1
    return "doc_id" in record and one and repeated_texts(responses) is not None


def _documents(request: Request) -> tuple[list[Document], list[str]]:
    first_filter: object = None
    kept: dict[int, Document] = {}
    key = request.proba_columns[0] if request.proba_columns is not None else ""
    dropped = False
    for line, record in json_lines(request, kept=True):
        if not kept:
            if has_repeats(record):
                raise request.refuse(
                    "the log holds sampled answers, not probabilities of choices: run truecal evaluate on it, or "
                    "truecal.io.read_samples"
                )
            first_filter = record.get("filter")
            key = key or next((k for k in ("filtered_resps", "resps") if k in record), "filtered_resps")
        elif record.get("filter") != first_filter:  # the log repeats every document once per filter
            dropped = True
            continue
        found = _document(request, line, record, key)
        if found.doc_id in kept:
            where = f"lines {kept[found.doc_id].line} and {line}"
            raise request.refuse(f"duplicate doc_id: {found.doc_id} is on {where}")
        kept[found.doc_id] = found
    if not kept:
        raise request.refuse("the file has no samples; expected one per line")
    per = " per character" if request.length_normalized else ""
    notes = [f"log-likelihoods{per} of choices from the key {quote(key)}, softmax over each row's choices, by doc_id"]
    if dropped:
        notes.append(f"only the lines with filter {quote(first_filter)} were used")
    return [kept[doc_id] for doc_id in sorted(kept)], notes


def json_lines(request: Request, kept: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of every line that is not blank; `kept`: they stay in memory."""
    with byte_stream(request.path) as stream:
        for number, content in bounded_lines(request.path, stream, LONGEST_LINE, "bytes"):
            if not content.strip():
                continue
            if kept:
                request.budget.charge(_KEPT * len(content), "the lines")
            with parsing(request.path, f"a JSON object on line {number}"):
                record = json.loads(content.decode("utf-8-sig" if number == 1 else "utf-8"))
            if not isinstance(record, dict):
                raise request.refuse(f"expected a JSON object on line {number}, got {quote(record)}")
            yield number, record


def _document(request: Request, line: int, record: dict[str, Any], key: str) -> Document:
    responses = _at(request, record, key, line)
    doc_id = record.get("doc_id", line - 1)
    if type(doc_id) is not int or not 0 <= doc_id < 2**62:
        raise request.refuse(f"expected a whole number as doc_id on line {line}, got {quote(doc_id)}")
    if not isinstance(responses, list) or not 2 <= len(responses) <= MOST_CHOICES:
        what = f"{len(responses)} responses" if isinstance(responses, list) else quote(responses)
        if _is_loglikelihood(responses):
            raise request.refuse(
                f"expected two or more choices (a multiple-choice task) on line {line}, got one log-likelihood, that "
                "of the correct answer: the probability of the model's answer is not logged"
            )
        raise request.refuse(
            f"expected two or more choices (a multiple-choice task) on line {line}, got {what}: a task that generates "
            "text logs no probabilities; run one with output_type multiple_choice (such as mmlu) with --log_samples, "
            "or set repeats in the task to sample answers"
        )
    scores = [_log_likelihood(request, response, f"line {line}, choice {i}") for i, response in enumerate(responses)]
    prompts = _prompts(record.get("arguments"), len(scores))
    if "acc_mutual_info" in record:  # such tasks also score every choice without its prompt: these are left out
        kept = [] if prompts is None else [i for i, (prompt, _) in enumerate(prompts) if prompt != ""]
        if prompts is None or 2 * len(kept) != len(scores):
            raise request.refuse(f"expected the prompts of 2 requests per choice (acc_mutual_info) on line {line}")
        if len(kept) < 2:
            raise request.refuse(f"expected two or more choices on line {line}, got {len(kept)}")
        scores, prompts = [scores[i] for i in kept], [prompts[i] for i in kept]
    if max(scores) == -np.inf:
        raise request.refuse(f"expected a log-likelihood above -inf on line {line}, but every choice has -inf")
    choices = None if prompts is None else tuple(text.strip() for _, text in prompts)
    if request.length_normalized:  # as the harness does for acc_norm: log-likelihood per character of the choice
        if choices is None or "" in choices:
            wanted = f"the texts of the choices in 'arguments' on line {line}"
            raise request.refuse(f"expected {wanted}, to normalize by length")
        scores = [score / len(choice) for score, choice in zip(scores, choices, strict=True)]
    target = record.get("target") if request.label_column is None else _at(request, record, request.label_column, line)
    acc = record.get(_accuracy(request))
    return Document(line, doc_id, tuple(scores), choices, target, float(acc) if acc in (0, 1) else None)


def _is_loglikelihood(responses: Any) -> bool:
    """[[-12.3, False]]: the log-likelihood of the target, and whether it is the model's greedy answer."""
    while isinstance(responses, list) and len(responses) == 1:
        responses = responses[0]
    return isinstance(responses, list) and len(responses) == 2 and str(responses[1]) in ("True", "False")


def _accuracy(request: Request) -> str:
    return "acc_norm" if request.length_normalized else "acc"


def _at(request: Request, record: dict[str, Any], key: str, line: int) -> Any:
    """record[key], or a value further down by a key such as doc.answer."""
    value: Any = record
    for part in [key] if key in record else key.split("."):
        if not isinstance(value, dict) or part not in value:
            raise request.refuse(f"expected the key {quote(key)} on line {line}, found {listing(record)}")
        value = value[part]
    return value


def _log_likelihood(request: Request, response: Any, place: str) -> float:
    """-12.3, "-12.3", [-12.3, false], ["-12.3", "False"] or one of these in a list of repeats of one."""
    value = response
    while isinstance(value, list) and value and isinstance(value[0], list):
        if len(value) != 1:
            raise request.refuse(f"expected one response per choice on {place}, got {len(value)}")
        value = value[0]
    if isinstance(value, list):
        value = value[0] if len(value) in (1, 2) else None
    try:
        score = float(value) if type(value) in (int, float, str) else float("nan")
    except (ValueError, OverflowError):
        score = float("nan")
    if not score < np.inf:  # also refuses NaN
        raise request.refuse(f"expected a log-likelihood on {place}, got {quote(response)}")
    return score


def _prompts(arguments: Any, count: int) -> list[tuple[str, str]] | None:
    """(prompt, continuation) of each request: a list of pairs, or {"gen_args_0": {"arg_0": ..., "arg_1": ...}, ...}."""
    if isinstance(arguments, dict):
        arguments = [arguments.get(f"gen_args_{i}") for i in range(len(arguments))]
        arguments = [[a.get("arg_0"), a.get("arg_1")] if isinstance(a, dict) else None for a in arguments]
    if not isinstance(arguments, list) or len(arguments) != count:
        return None
    if not all(isinstance(a, list) and len(a) >= 2 and all(isinstance(t, str) for t in a[:2]) for a in arguments):
        return None
    return [(a[0], a[1]) for a in arguments]


def _answers(request: Request, documents: Sequence[Document]) -> tuple[Indices | None, str]:
    """The index of the right choice of each row: target as an index, or as the text of a choice, one way for all rows.

    Where both ways fit, the log's own `acc` must single one out.
    """
    key = request.label_column or "target"
    if all(document.target is None for document in documents):
        return None, "no labels: the log has no target"
    ways: dict[str, Callable[[Document], int | None]] = {
        f"index in {quote(key)}": Document.as_index,
        f"text of the choice in {quote(key)}": Document.as_text,
    }
    found = {how: [way(document) for document in documents] for how, way in ways.items()}
    whole = {how: indices for how, indices in found.items() if None not in indices}
    # Two choices everywhere: acc alone tells the answer where the targets are continuations that both share.
    if not whole and request.label_column is None and all(len(d.scores) == 2 and d.acc is not None for d in documents):
        likelier = np.array([d.scores[1] > d.scores[0] for d in documents])
        told = np.where([d.acc == 1 for d in documents], likelier, ~likelier).astype(np.intp)
        return told, "labels of two choices, by the logged accuracy: the likelier one where it is right, else the other"
    if not whole:
        document = documents[max(indices.index(None) for indices in found.values())]
        raise request.refuse(
            f"expected an index or the text of one of {len(document.scores)} choices in {quote(key)} on line "
            f"{document.line}, got {quote(document.target)}: name the key with {LABEL_OPTION}, or give {LABELS_OPTION}"
        )
    odd = {how: [d for d, i in zip(documents, found[how], strict=True) if d.contradicts(i)] for how in whole}
    fits = {how: indices for how, indices in whole.items() if not odd[how]}
    if len({tuple(indices) for indices in (fits or whole).values()}) > 1:
        twice = "it fits as index and as text of a choice"
        raise request.refuse(f"expected one meaning of {quote(key)}, {twice}: give {LABELS_OPTION}")
    how, indices = next(iter((fits or whole).items()))
    if odd[how] and request.label_column is None:
        line, acc = odd[how][0], _accuracy(request)
        raise request.refuse(
            f"expected 'target' to agree with {quote(acc)} of the log, line {line.line} has target "
            f"{quote(line.target)} and {acc} {line.acc:g}: give {LABEL_OPTION} or {LABELS_OPTION}"
        )
    return np.array(indices, dtype=np.intp), f"labels: {how}"
