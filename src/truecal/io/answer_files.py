"""Files of sampled answers: one row per answer, one row per question with a list, and logs of evaluation harnesses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from truecal.io.column_rules import Request
from truecal.io.columnar import OBJECT_BYTES
from truecal.io.declared import check_pages, column_chunks
from truecal.io.failures import FileError, failure, listing, need, parsing, quote
from truecal.io.harness import has_repeats, json_lines, repeated_texts
from truecal.io.inspect_log import correct_by_score, inspect_samples, is_inspect_log, score_of, stated_key
from truecal.io.limits import within_memory
from truecal.io.read_file import file_format, open_source
from truecal.io.roles import first_called, is_called
from truecal.io.streams import whole_json

OPTIONS = "--samples ANSWERS --question ID, and --correct COLUMN or --reference COLUMN"


@dataclass(frozen=True)
class SampledAnswers:
    """The answers of each question, with marks or references, as `truecal.from_samples` takes them."""

    path: str
    questions: list[Any]
    answers: list[list[Any]]
    correct: list[list[Any]] | None = None
    reference: list[Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `from_samples`."""
        given = {"answers": self.answers, "correct": self.correct, "reference": self.reference}
        return {**given, "questions": self.questions}


def read_samples(
    path: str,
    *,
    samples: str | None = None,
    question: str | None = None,
    correct: str | None = None,
    reference: str | None = None,
    pattern: str | None = None,
) -> SampledAnswers:
    """Read sampled answers from a file: a table or jsonl, or a log of lm-evaluation-harness or inspect_ai.

    `samples` is the column of the answers: one per row, or a list of all answers of a question. `question`, `correct`
    and `reference` are the columns of the question, of whether an answer is right, and of the right answer; without
    them usual names are looked for. `pattern` is a regular expression whose first group is the answer within a longer
    text; its last match counts, and a text without one is the answer 'no answer'. Raises FileError.

    >>> import pathlib, tempfile
    >>> from truecal.io import read_samples
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.jsonl")
    ...     _ = path.write_text('{"id": "q1", "answer": ["4", "4", "5", "4"], "target": "4"}')
    ...     read = read_samples(str(path), samples="answer")
    >>> read.questions, read.answers, read.reference
    (['q1'], [['4', '4', '5', '4']], ['4'])
    """
    request = Request(str(path))
    find = _finder(request, pattern)
    columns = {"samples": samples, "question": question, "correct": correct, "reference": reference}
    with within_memory(request.path):
        return _read(request, columns, find)


def _read(request: Request, columns: Mapping[str, str | None], find: Any) -> SampledAnswers:
    """Sampled answers of a table or a log, by the format of the file."""
    form = file_format(request.path)
    if form == "inspect" or (form == "json" and is_inspect_log(request)):
        return _from_inspect(request, columns, find)
    if form == "jsonl":
        records = _records(request, json_lines(request, kept=True))
        if columns["samples"] is None and has_repeats(records[0][1]):
            return _from_harness(request, records, columns, find)
        return _from_rows(request, [record for _, record in records], columns, find)
    return _from_rows(request, _table_rows(request, form, columns), columns, find)


@dataclass(frozen=True)
class StatedAnswers:
    """One row per answer: the confidence as it is stated, whether it is right, and its question where there is one."""

    stated: list[Any]
    correct: list[Any]
    questions: list[Any] | None
    notes: tuple[str, ...]


def read_stated(path: str, confidence: str, correct: str | None, question: str | None) -> StatedAnswers:
    """Read a column of stated confidences, as text or numbers, with whether each answer is right."""
    request = Request(str(path))
    form = file_format(request.path)
    columns = {"confidence": confidence, "correct": correct, "question": question}
    if form == "jsonl":
        rows = [record for _, record in _records(request, json_lines(request, kept=True))]
    else:
        rows = _table_rows(request, form, columns)
    keys = {key for row in rows[:1000] for key in row}
    for option, name in columns.items():
        if name is not None and name not in keys:
            raise request.refuse(f"expected the column {quote(name)} (--{option}), found {listing(sorted(keys))}")
    marks = correct or first_called(keys, "correct")
    if marks is None:
        raise request.refuse(f"expected which answers are right, found {listing(sorted(keys))}: pass --correct")
    note = f"stated confidence from {quote(confidence)}, right answers from {quote(marks)}"
    ids = None if question is None else [row.get(question) for row in rows]
    return StatedAnswers([row.get(confidence) for row in rows], [row.get(marks) for row in rows], ids, (note,))


def is_sampled(path: str) -> bool:
    """Whether a log holds several generated answers per question."""
    request = Request(str(path))
    try:
        form = file_format(request.path)
        if form == "jsonl":
            _, first = next(json_lines(request), (0, {}))
            return has_repeats(first)
        if form == "inspect" or (form == "json" and is_inspect_log(request)):
            found, _ = inspect_samples(request)
            told = any(_tells(sample, score_of(request, sample)) for sample in found)
            return len({sample.epoch for sample in found}) > 1 and not told
    except FileError:
        return False  # what is wrong with it is said where it is read
    return False


def _tells(sample: Any, score: Any) -> bool:
    """Whether a sample of inspect_ai has a stated confidence or log-probabilities."""
    logged = any(getattr(choice, "logprobs", None) is not None for choice in sample.output.choices)
    return logged or stated_key(sample, score) is not None


# -- rows of a table ---------------------------------------------------------------------------------------------------


def _table_rows(request: Request, form: str, columns: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """The rows of a csv, parquet or other table, of the columns that matter."""
    if form == "json":
        found = whole_json(request.path, request.budget)
        if not isinstance(found, list) or not found or not all(isinstance(record, dict) for record in found):
            raise request.refuse("expected a list of objects, one per answer or per question")
        return found
    if form == "parquet":  # whose lists of text no prediction has
        library = need("pyarrow.parquet", "cli", "tables")
        with parsing(request.path, "a parquet file"):
            about = library.read_metadata(request.path)
            names = about.schema.to_arrow_schema().names
        check_pages(request.path, column_chunks(request.path), names, request.budget)
        request.budget.charge(OBJECT_BYTES * about.num_rows * about.num_columns, "the answers")
        with parsing(request.path, "a parquet file"):
            table = library.read_table(request.path)
        request.budget.charge(table.nbytes, "the answers")
        with parsing(request.path, "a parquet file"):
            rows: list[dict[str, Any]] = table.to_pylist()
        return rows
    source = open_source(request, form)
    roles = ("question", "correct", "reference", "repeat")
    names = [name for name in source.forms if name in columns.values() or is_called(name, *roles)]
    values = {name: source.values(name) for name in names}
    length = min((len(column) for column in values.values()), default=0)
    return [{name: _item(column[row]) for name, column in values.items()} for row in range(length)]


def _item(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _from_rows(
    request: Request, rows: Sequence[dict[str, Any]], columns: Mapping[str, str | None], find: Any
) -> SampledAnswers:
    if not rows:
        raise request.refuse("the file has no rows")
    keys = {key for row in rows[:1000] for key in row}
    samples = columns["samples"]
    if samples is None:
        raise request.refuse(f"expected the column of the answers, found {listing(sorted(keys))}: pass {OPTIONS}")
    for option, name in columns.items():
        if name is not None and name not in keys:
            raise request.refuse(f"expected the column {quote(name)} (--{option}), found {listing(sorted(keys))}")
    used = dict(columns)
    nested = isinstance(rows[0].get(samples), (list, tuple))
    used["question"] = columns["question"] or first_called(keys, "question")
    if columns["correct"] is None and columns["reference"] is None:
        used["correct"] = first_called(keys - {samples}, "correct")
        used["reference"] = None if used["correct"] else first_called(keys - {samples}, "reference")
        if used["correct"] is None and used["reference"] is None:
            raise request.refuse(
                f"expected which answers are right, found {listing(sorted(keys))}: pass --correct or --reference"
            )
    if columns["correct"] is not None and columns["reference"] is not None:
        raise request.refuse("expected either --correct or --reference, got both")
    if used["question"] is None and not nested:
        raise request.refuse(f"expected the column of the questions, found {listing(sorted(keys))}: pass --question")
    groups = _nested(request, rows, used) if nested else _long(request, rows, used)
    notes = [f"answers from {quote(samples)}"]
    notes += [f"{what} from {quote(name)}" for what, name in used.items() if what != "samples" and name is not None]
    return groups.made(request, find, (", ".join(notes),))


@dataclass
class _Groups:
    """Questions in the order in which they come."""

    answers: dict[Any, list[Any]] = field(default_factory=dict)
    correct: dict[Any, list[Any]] = field(default_factory=dict)
    reference: dict[Any, Any] = field(default_factory=dict)

    def made(self, request: Request, find: Any, notes: tuple[str, ...]) -> SampledAnswers:
        answers = [[find(answer) for answer in own] for own in self.answers.values()]
        correct = list(self.correct.values()) if self.correct else None
        reference = [find(target) for target in self.reference.values()] if self.reference else None
        return SampledAnswers(request.path, list(self.answers), answers, correct, reference, notes)


def _nested(request: Request, rows: Sequence[dict[str, Any]], used: Mapping[str, str | None]) -> _Groups:
    """One row per question, which holds a list of answers."""
    found = _Groups()
    for number, row in enumerate(rows):
        name = number if used["question"] is None else row.get(used["question"])
        name = _hashable(request, name, number)
        if name in found.answers:
            raise request.refuse(f"question {quote(name)} appears twice: put all of its answers into one row")
        answers = row.get(used["samples"] or "")
        if not isinstance(answers, (list, tuple)):
            raise request.refuse(f"question {quote(name)}: expected a list of answers, got {quote(answers)}")
        found.answers[name] = list(answers)
        if used["correct"] is not None:
            marks = row.get(used["correct"])
            if not isinstance(marks, (list, tuple)):
                wanted = f"a list of true and false in {quote(used['correct'])}, one per answer"
                raise request.refuse(f"question {quote(name)}: expected {wanted}, got {quote(marks)}")
            found.correct[name] = list(marks)
        else:
            found.reference[name] = row.get(used["reference"] or "")
    return found


def _long(request: Request, rows: Sequence[dict[str, Any]], used: Mapping[str, str | None]) -> _Groups:
    """One row per answer."""
    found = _Groups()
    order = first_called({*rows[0]} - {name for name in used.values() if name}, "repeat")
    seen: set[tuple[Any, Any]] = set()
    for number, row in enumerate(rows):
        name = _hashable(request, row.get(used["question"] or ""), number)
        if order is not None and row.get(order) is not None:
            place = (name, json.dumps(row[order], default=str))
            if place in seen:
                raise request.refuse(f"question {quote(name)} has {quote(order)} {quote(row[order])} twice")
            seen.add(place)
        found.answers.setdefault(name, []).append(row.get(used["samples"] or ""))
        if used["correct"] is not None:
            found.correct.setdefault(name, []).append(row.get(used["correct"]))
        else:
            target = row.get(used["reference"] or "")
            if found.reference.setdefault(name, target) != target:
                both = f"{quote(found.reference[name])} and {quote(target)}"
                raise request.refuse(f"question {quote(name)} has two references, {both}")
    return found


def _hashable(request: Request, name: Any, row: int) -> Any:
    if name is None or isinstance(name, (list, dict)):
        raise request.refuse(f"row {row} has no question")
    return name


# -- logs --------------------------------------------------------------------------------------------------------------


def _records(request: Request, lines: Iterator[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    found = list(lines)
    if not found:
        raise request.refuse("the file has no rows")
    return found


def _from_harness(
    request: Request,
    records: Sequence[tuple[int, dict[str, Any]]],
    columns: Mapping[str, str | None],
    find: Any,
) -> SampledAnswers:
    """Generated texts with repeats: filtered ones where a filter keeps all of them, else the responses themselves."""
    filters = {record.get("filter"): repeated_texts(record.get("filtered_resps")) for _, record in reversed(records)}
    kept = next((name for name in dict.fromkeys(r.get("filter") for _, r in records) if filters[name]), None)
    key, chosen = ("filtered_resps", kept) if kept is not None else ("resps", records[0][1].get("filter"))
    target = columns["reference"] or "target"
    found = _Groups()
    for line, record in records:
        if record.get("filter") != chosen:  # every document comes once per filter
            continue
        name = record.get("doc_id")
        if name in found.answers:
            raise request.refuse(f"duplicate doc_id: {quote(name)} is on line {line} again")
        answers = repeated_texts(record.get(key))
        if answers is None:
            raise request.refuse(f"expected several texts in {quote(key)} of doc_id {quote(name)} on line {line}")
        if target not in record:
            raise request.refuse(f"expected the reference {quote(target)} on line {line}: name it with --reference")
        found.answers[name] = answers
        found.reference[name] = record[target]
    how = f"answers from {quote(key)} (filter {quote(chosen)}), references from {quote(target)}, by doc_id"
    return found.made(request, find, (how,))


def _from_inspect(request: Request, columns: Mapping[str, str | None], find: Any) -> SampledAnswers:
    """The answers of all epochs of a sample, and whether each is right, by its score."""
    for option in ("question", "correct", "reference"):
        if columns[option] is not None:
            raise request.refuse(f"--{option} cannot apply to an inspect_ai log: its samples and scores say it")
    samples, notes = inspect_samples(request)
    request = Request(request.path, columns["samples"])  # the name of the score, where there are several
    found = _Groups()
    seen: set[tuple[Any, int]] = set()
    for sample in samples:
        if (sample.id, sample.epoch) in seen:
            raise request.refuse(f"sample {quote(sample.id)} has epoch {sample.epoch} twice")
        seen.add((sample.id, sample.epoch))
        score = score_of(request, sample)
        answer = score.answer if score.answer is not None else sample.output.completion
        found.answers.setdefault(sample.id, []).append(answer or "no answer")
        found.correct.setdefault(sample.id, []).append(correct_by_score(request, sample, score.value))
    few = next((name for name, own in found.answers.items() if len(own) < 2), None)
    if few is not None:
        raise request.refuse(f"sample {quote(few)} has one epoch: run inspect eval with --epochs 4 or more")
    how = f"answers of {max(map(len, found.answers.values()))} epochs, right or wrong by their scores"
    return found.made(request, find, (how, *notes))


def _finder(request: Request, pattern: str | None) -> Any:
    """What finds the answer within a text."""
    if pattern is None:
        return lambda answer: answer
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise failure(request.path, f"--answer-pattern {quote(pattern)} is no regular expression ({error})") from error
    if compiled.groups < 1:
        raise failure(request.path, f"--answer-pattern {quote(pattern)} must have a group, such as 'answer is (.*)'")

    def find(answer: Any) -> Any:
        if not isinstance(answer, str):
            return answer
        matches = list(compiled.finditer(answer))
        return (matches[-1][1] or "no answer") if matches else "no answer"

    return find
