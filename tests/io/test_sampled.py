"""Files of sampled answers: rows of answers, rows of questions, and logs with repeats or epochs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

import truecal as tc
from closeness import assert_close
from prediction_files import refusal as unread
from truecal.io import FileError, read_samples
from truecal.io.answer_files import is_sampled

ANSWERS = [["4", "4", "5", "4"], ["7", "8", "7", "7", "9"], ["1", "2", "1", "1"]]
TRUTH = ["4", "8", "3"]
NAMES = ["q1", "q2", "q3"]


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records))
    return path


def long_records() -> list[dict[str, Any]]:
    return [
        {"id": name, "answer": answer, "correct": answer == truth, "target": truth}
        for name, own, truth in zip(NAMES, ANSWERS, TRUTH, strict=True)
        for answer in own
    ]


def nested_records() -> list[dict[str, Any]]:
    return [
        {"id": name, "answers": own, "target": truth, "correct": [answer == truth for answer in own]}
        for name, own, truth in zip(NAMES, ANSWERS, TRUTH, strict=True)
    ]


def refusal(path: Path, **options: Any) -> str:
    with pytest.raises(FileError) as caught:
        read_samples(str(path), **options)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message.removeprefix(f"{path}: ")


def test_rows_of_answers_and_rows_of_questions_agree(tmp_path: Path) -> None:
    rows = lines(tmp_path / "a.jsonl", long_records())
    nested = lines(tmp_path / "b.jsonl", nested_records())
    for path, samples in ((rows, "answer"), (nested, "answers")):
        marked = read_samples(str(path), samples=samples)
        assert marked.questions == NAMES and marked.answers == ANSWERS and marked.reference is None
        assert marked.correct == [[a == t for a in own] for own, t in zip(ANSWERS, TRUTH, strict=True)]
        referred = read_samples(str(path), samples=samples, question="id", reference="target")
        assert referred.reference == TRUTH and referred.correct is None
        found, wanted = (tc.from_samples(**one.arguments).to_dict() for one in (marked, referred))
        assert_close(found, wanted, scale=100)


def test_tables_of_other_formats(tmp_path: Path) -> None:
    records = long_records()
    table = pa.table({name: [record[name] for record in records] for name in records[0]})
    parquet.write_table(table, tmp_path / "a.parquet")
    text = ["id,answer,correct", *(f"{r['id']},{r['answer']},{int(r['correct'])}" for r in records)]
    (tmp_path / "a.csv").write_text("\n".join(text))
    (tmp_path / "a.json").write_text(json.dumps(records))
    found = [tc.from_samples(**read_samples(str(path), samples="answer").arguments) for path in tmp_path.iterdir()]
    assert len(found) == 3
    for other in found[1:]:
        assert_close(other.to_dict(), found[0].to_dict(), scale=100)
    nested = nested_records()
    lists = pa.table({name: [record[name] for record in nested] for name in nested[0]})
    parquet.write_table(lists, tmp_path / "b.parquet")
    assert read_samples(str(tmp_path / "b.parquet"), samples="answers").answers == ANSWERS


def test_answers_are_found_in_longer_texts(tmp_path: Path) -> None:
    records = [
        {"id": i, "answer": [f"2 or 3? The answer is {a}." for a in "2232"] + ["?"], "target": "2"} for i in range(3)
    ]
    path = lines(tmp_path / "a.jsonl", records)
    read = read_samples(str(path), samples="answer", pattern=r"answer is (\d+)")
    assert read.answers == [["2", "2", "3", "2", "no answer"]] * 3
    assert "is no regular expression" in refusal(path, samples="answer", pattern="(")
    assert "must have a group" in refusal(path, samples="answer", pattern="answer")


@pytest.mark.parametrize(
    ("records", "options", "words"),
    [
        ([{"id": 1, "answer": "a", "correct": True}], {}, "expected the column of the answers"),
        ([{"id": 1, "answer": "a", "correct": True}], {"samples": "text"}, "expected the column 'text' (--samples)"),
        ([{"x": 1, "answer": "a", "correct": True}], {"samples": "answer"}, "pass --question"),
        ([{"id": 1, "answer": "a"}], {"samples": "answer"}, "pass --correct or --reference"),
        (
            [{"id": 1, "answer": "a", "correct": 1, "target": "a"}],
            {"samples": "answer", "correct": "correct", "reference": "target"},
            "either --correct or --reference, got both",
        ),
        ([{"id": 1, "answer": "a", "correct": 1}, {"answer": "a"}], {"samples": "answer"}, "row 1 has no question"),
        (
            [{"id": 7, "answer": "a", "target": "a"}, {"id": 7, "answer": "b", "target": "b"}],
            {"samples": "answer"},
            "question 7 has two references, 'a' and 'b'",
        ),
        (
            [{"id": 7, "answer": "a", "correct": 1, "epoch": 2}] * 2,
            {"samples": "answer"},
            "question 7 has 'epoch' 2 twice",
        ),
        ([{"id": 7, "answer": ["a"], "target": "a"}] * 2, {"samples": "answer"}, "question 7 appears twice"),
        (
            [{"id": 7, "answer": ["a"], "target": "a"}, {"id": 8, "answer": "a", "target": "a"}],
            {"samples": "answer"},
            "question 8: expected a list of answers, got 'a'",
        ),
        ([{"id": 7, "answer": ["a"], "correct": True}], {"samples": "answer"}, "a list of true and false in 'correct'"),
    ],
)
def test_wrong_files_name_the_question(tmp_path: Path, records: Any, options: Any, words: str) -> None:
    assert words in refusal(lines(tmp_path / "a.jsonl", records), **options)


def test_lists_of_answers_are_no_classes(tmp_path: Path) -> None:
    """Numbers of clusters, of which exactly one is 1 in every row, would pass for probabilities."""
    path = lines(tmp_path / "a.jsonl", [{"question": i, "answers": [0, 0, 1, 0], "label": 2} for i in range(9)])
    assert "looks like sampled answers: pass --samples answers --question ID" in unread(path)
    rows = lines(tmp_path / "b.jsonl", long_records())
    assert "if these are sampled answers, pass --samples answer" in unread(rows)


# -- logs --------------------------------------------------------------------------------------------------------------


def generated(doc_id: int, texts: list[str], filtered: Any, target: str, filter: str) -> dict[str, Any]:
    """A line as lm-evaluation-harness 0.4 writes it for generate_until with repeats."""
    about = {"doc_id": doc_id, "doc": {}, "target": target, "arguments": [["Q", {}]], "resps": [texts]}
    return {**about, "filtered_resps": filtered, "filter": filter, "exact_match": 0.0}


def test_repeats_of_the_harness(tmp_path: Path) -> None:
    records = []
    for i, (own, truth) in enumerate(zip(ANSWERS, TRUTH, strict=True)):
        texts = [f"So the answer is {answer}" for answer in own]
        records += [generated(i, texts, [own[0]], truth, "maj"), generated(i, texts, [own], truth, "each")]
    path = lines(tmp_path / "samples_a.jsonl", records)
    assert is_sampled(str(path))
    read = read_samples(str(path))
    assert read.answers == ANSWERS and read.reference == TRUTH and read.questions == [0, 1, 2]
    assert "filter 'each'" in read.notes[0]
    bare = lines(tmp_path / "samples_b.jsonl", [record for record in records if record["filter"] == "maj"])
    assert read_samples(str(bare), pattern="answer is (.*)").answers == ANSWERS
    assert read_samples(str(bare)).answers[0][0] == "So the answer is 4"
    assert "duplicate doc_id: 0 is on line 2" in refusal(lines(tmp_path / "c.jsonl", [records[1]] * 2))
    for log in (path, bare):  # answers that are numbers would pass for log-likelihoods
        assert "the log holds sampled answers, not probabilities of choices: run truecal evaluate" in unread(log)
    short = [records[1], {**records[3], "filtered_resps": ["7"]}]
    assert "several texts in 'filtered_resps' of doc_id 1 on line 2" in refusal(lines(tmp_path / "d.jsonl", short))


def inspect_log(monkeypatch: pytest.MonkeyPatch, *samples: Any) -> None:
    """inspect_ai's reader, as far as it is used here."""
    library = ModuleType("inspect_ai.log")
    library.read_eval_log = lambda path: SimpleNamespace(samples=samples, status="success")  # type: ignore[attr-defined]  # a stand-in
    monkeypatch.setitem(sys.modules, "inspect_ai", ModuleType("inspect_ai"))
    monkeypatch.setitem(sys.modules, "inspect_ai.log", library)


def epoch(name: str, number: int, answer: str | None, right: bool, metadata: Any = None) -> SimpleNamespace:
    score = SimpleNamespace(value="C" if right else "I", answer=answer, metadata=metadata)
    output = SimpleNamespace(completion=f"I say {answer}", choices=[])
    about: dict[str, Any] = {"metadata": {}, "choices": None, "target": "4", "output": output}
    return SimpleNamespace(id=name, epoch=number, scores={"match": score}, **about)


def test_epochs_of_inspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"version": 2, "status": "success", "eval": {"eval_id": "x"}}')
    samples = [
        epoch(name, i + 1, answer, answer == truth)
        for name, own, truth in zip(NAMES, ANSWERS, TRUTH, strict=True)
        for i, answer in enumerate(own)
    ]
    inspect_log(monkeypatch, *samples)
    assert is_sampled(str(path))
    read = read_samples(str(path))
    assert read.questions == NAMES and read.answers == ANSWERS
    assert read.correct == [[a == t for a in own] for own, t in zip(ANSWERS, TRUTH, strict=True)]
    assert "--reference cannot apply to an inspect_ai log" in refusal(path, reference="target")
    inspect_log(monkeypatch, *samples, samples[0])
    assert "sample 'q1' has epoch 1 twice" in refusal(path)
    inspect_log(monkeypatch, *samples, epoch("q4", 1, "4", True))
    assert "sample 'q4' has one epoch: run inspect eval with --epochs 4 or more" in refusal(path)
    inspect_log(monkeypatch, *(epoch("q1", i, "4", True, {"confidence": 0.5}) for i in (1, 2)))
    assert not is_sampled(str(path))  # stated confidences have rows of their own
    inspect_log(monkeypatch, *(epoch("q1", i, None, True) for i in (1, 2)))
    assert read_samples(str(path)).answers == [["I say None"] * 2]


def test_what_is_no_log_of_samples(tmp_path: Path) -> None:
    assert not is_sampled(str(tmp_path / "none.jsonl"))
    assert not is_sampled(str(lines(tmp_path / "a.jsonl", long_records())))
    likelihood = {"doc_id": 0, "target": "a", "resps": [["-12.3", "False"]], "filtered_resps": [["-12.3", "False"]]}
    assert not is_sampled(str(lines(tmp_path / "b.jsonl", [likelihood])))
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    assert not is_sampled(str(tmp_path / "a.csv"))
