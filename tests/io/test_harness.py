"""Sample logs of lm-evaluation-harness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from prediction_files import log, refusal, sample, write
from truecal.io import read_predictions


def arguments(*texts: str) -> dict[str, Any]:
    return {f"gen_args_{i}": {"arg_0": "Question", "arg_1": text} for i, text in enumerate(texts)}


def answers(path: Path, **options: Any) -> list[int]:
    read = read_predictions(path, **options)
    assert read.y_true is not None
    return list(read.y_true)


def test_targets_as_texts_of_choices(tmp_path: Path) -> None:
    path = log(
        tmp_path / "a.jsonl",
        sample(0, "no", [-1, -2], arguments=arguments(" yes", " no")),
        sample(1, "yes", [-1, -2], arguments=[["Question", " yes"], ["Question", " no"]]),
    )
    assert answers(path) == [1, 0]


def test_acc_decides_between_index_and_text(tmp_path: Path) -> None:
    """Choices that are numbers: '1' may be the second choice, or the choice that reads 1."""
    choices = arguments(" 1", " 0")
    unclear = log(tmp_path / "a.jsonl", sample(0, "1", [-1, -2], arguments=choices))
    assert "it fits as index and as text of a choice" in refusal(unclear)
    assert answers(log(tmp_path / "b.jsonl", sample(0, "1", [-1, -2], arguments=choices, acc=1.0))) == [0]
    assert answers(log(tmp_path / "c.jsonl", sample(0, "1", [-1, -2], arguments=choices, acc=0.0))) == [1]


def test_target_that_contradicts_acc(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", sample(0, 0, [-1, -2], acc=1.0), sample(1, 1, [-1, -2], acc=1.0))
    assert "expected 'target' to agree with 'acc' of the log, line 2 has target 1 and acc 1" in refusal(path)
    assert answers(path, label_column="target") == [0, 1]
    assert answers(path, labels=[1, 1]) == [1, 1]


def test_two_choices_with_a_shared_target(tmp_path: Path) -> None:
    """A task that varies the prompt: the target is the continuation both choices share, acc tells the answer."""
    shared = [["He", " ran"], ["She", " ran"]]
    path = log(
        tmp_path / "a.jsonl",
        sample(0, "ran", [-1, -2], arguments=shared, acc=1.0),
        sample(1, "ran", [-1, -2], arguments=shared, acc=0.0),
        sample(2, "ran", [-2, -1], arguments=shared, acc=1.0),
    )
    assert answers(path) == [0, 1, 1]


def test_unconditional_requests_are_left_out(tmp_path: Path) -> None:
    interleaved = [["Q", " a"], ["", " a"], ["Q", " b"], ["", " b"]]
    appended = [["Q", " a"], ["Q", " b"], ["", " a"], ["", " b"]]
    for prompts, scores in ((interleaved, [-1, -9, -2, -9]), (appended, [-1, -2, -9, -9])):
        path = log(tmp_path / "a.jsonl", sample(0, 1, scores, arguments=prompts, acc_mutual_info=0.0))
        read = read_predictions(path)
        assert read.logits is not None and read.logits.tolist() == [[-1, -2]]
    bare = log(tmp_path / "b.jsonl", sample(0, 1, [-1, -2, -9, -9], acc_mutual_info=0.0))
    assert "expected the prompts of 2 requests per choice (acc_mutual_info) on line 1" in refusal(bare)


def test_filters_repeat_documents(tmp_path: Path) -> None:
    first, second = sample(0, 0, [-1, -2], filter="none"), sample(0, 0, [-5, -2], filter="other")
    read = read_predictions(log(tmp_path / "a.jsonl", first, second))
    assert read.n == 1 and read.logits is not None and read.logits.tolist() == [[-1, -2]]
    assert "only the lines with filter 'none' were used" in read.notes
    assert "duplicate doc_id: 0 is on lines 1 and 2" in refusal(log(tmp_path / "b.jsonl", first, first))


def test_labels_of_a_document_key(tmp_path: Path) -> None:
    path = log(tmp_path / "a.jsonl", sample(0, "?", [-1, -2, -3], doc={"gold": 2}))
    assert "got '?': name the key with label_column (--label-column), or give labels" in refusal(path)
    assert answers(path, label_column="doc.gold") == [2]
    assert "expected the key 'doc.answer' on line 1" in refusal(path, label_column="doc.answer")
    assert "expected an index below 3 at row 0" in refusal(
        log(tmp_path / "b.jsonl", sample(0, 0, [-1, -2, -3]), sample(1, 0, [-1] * 5)), labels=[3, 4]
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "expected a JSON object on line 1, but it cannot be read"),
        ("[1]", "expected a JSON object on line 1, got [1]"),
        (
            '{"doc_id": 0, "resps": [["text"]]}',
            "expected two or more choices (a multiple-choice task) on line 1, got 1",
        ),
        ('{"doc_id": 0, "resps": [["text"], ["b"]]}', "expected a log-likelihood on line 1, choice 0, got ['text']"),
        ('{"doc_id": 0, "resps": [[NaN, false], [-1, false]]}', "expected a log-likelihood on line 1, choice 0"),
        ('{"doc_id": 0, "resps": [[[-1, 1], [-2, 1]], [[-1, 1]]]}', "expected one response per choice on line 1"),
        ('{"doc_id": "a", "resps": [[-1, 1], [-2, 1]]}', "expected a whole number as doc_id on line 1, got 'a'"),
        ('{"doc_id": 0, "resps": [[-Infinity, 1], [-Infinity, 1]]}', "every choice has -inf"),
        ('{"resps": [[-1, 1], [-2, 1]]}\n{"prediction": 1}', "expected the key 'resps' on line 2, found 'prediction'"),
    ],
)
def test_bad_sample_logs(tmp_path: Path, line: str, message: str) -> None:
    assert message in refusal(write(tmp_path / "a.jsonl", line))


def test_a_task_that_logs_the_likelihood_of_the_target_alone(tmp_path: Path) -> None:
    """The probability of the model's answer is known only where it is the target: that cannot be measured."""
    for resps in ([[-3.2, False]], [[["-3.2", "False"]]]):
        path = log(tmp_path / "a.jsonl", {"doc_id": 0, "target": "word", "resps": resps, "filter": "none"})
        assert "the probability of the model's answer is not logged" in refusal(path)
