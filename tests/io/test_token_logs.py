"""Token probabilities in the forms in which servers write them, and what is wrong with a file."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal import tokens
from truecal.io import FileError, read_predictions

LOGGED = [("the", None, {}), ("cat", -0.5, {"cat": -0.5, "dog": -1.2}), ("sat", -3.0, {"ran": -0.7, "lay": -1.6})]
"""The token that came, its log-probability, and the two likeliest: "sat" is none of them."""


def chat(rows) -> dict:
    content = [
        {"token": t, "logprob": v, "top_logprobs": [{"token": a, "logprob": b} for a, b in top.items()]}
        for t, v, top in rows
        if v is not None
    ]
    return {"choices": [{"message": {"content": "cat sat"}, "logprobs": {"content": content}}]}


def echo(rows, generated: int = 0) -> dict:
    logged = {
        "tokens": [t for t, _, _ in rows],
        "token_logprobs": [v for _, v, _ in rows],
        "top_logprobs": [top or None for _, _, top in rows],
    }
    usage = {"prompt_tokens": len(rows) - generated, "completion_tokens": generated}
    return {"choices": [{"text": "the cat sat", "logprobs": logged}], "usage": usage}


def vllm(rows, ids: bool = False) -> dict:
    """As vLLM writes prompts: the token that came first, whether it is among the likeliest or not."""
    known = {"the": 1, "cat": 2, "dog": 3, "sat": 4, "ran": 5, "lay": 6}
    steps = []
    for token, value, top in rows:
        listed = {known[token]: {"logprob": value, "rank": 1 + len(top), "decoded_token": token}}
        for rank, (name, logprob) in enumerate(top.items(), 1):
            listed[known[name]] = {"logprob": logprob, "rank": rank, "decoded_token": name}
        steps.append(None if value is None else {str(k): v for k, v in listed.items()})
    body = {"prompt_logprobs": steps, "outputs": [{"text": "!", "logprobs": [], "token_ids": []}]}
    return body | ({"prompt_token_ids": [known[t] for t, _, _ in rows]} if ids else {})


def write(path: Path, *records: dict) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


FORMS = {
    "echo": lambda: (echo(LOGGED), False),
    "vllm": lambda: (vllm(LOGGED), False),
    "vllm with ids": lambda: (vllm(LOGGED, ids=True), False),
    "batch": lambda: ({"custom_id": "a", "response": {"body": echo(LOGGED)}}, False),
    "chat, said to be observed": lambda: (chat(LOGGED), True),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_the_same_tokens(form, tmp_path):
    record, observed = FORMS[form]()
    read = tokens.read(write(tmp_path / "log.jsonl", record, record), observed=observed)
    assert read.token.tolist() == ["cat", "sat"] * 2
    assert read.predicted.tolist() == ["cat", "ran"] * 2
    assert read.correct.tolist() == [True, False] * 2
    assert_close(read.confidence, np.exp([-0.5, -0.7] * 2))
    assert read.logprob.tolist() == [-0.5, -3.0] * 2
    assert read.outside.tolist() == [False, True] * 2
    rest = [1 - math.exp(-0.5) - math.exp(-1.2), 1 - math.exp(-0.7) - math.exp(-1.6)]
    assert_close(read.rest, np.array(rest * 2), scale=1)
    assert read.document.tolist() == [0, 0, 1, 1]
    assert np.diff(read.position).tolist()[::2] == [1, 1]
    assert_close(read.perplexity, math.exp(1.75))
    assert read.features()["frequency"].tolist() == [2, 2, 2, 2]
    assert read.features({"cat": 9, "the": 4})["frequency"].tolist() == [9, 0, 9, 0]


def test_a_json_file_is_one_response_or_a_list(tmp_path):
    path = tmp_path / "log.json"
    path.write_text(json.dumps([vllm(LOGGED)] * 3))
    assert len(tokens.read(path).names) == 3
    path.write_text(json.dumps(vllm(LOGGED)))
    assert read_predictions(path).n == 2


def test_batches_are_whole_documents_and_count_on(tmp_path):
    path = write(tmp_path / "log.jsonl", *[echo(LOGGED)] * 5)
    found = list(tokens.batches(path, rows=3))
    assert [batch.document.tolist() for batch in found] == [[0, 0, 1, 1], [2, 2, 3, 3], [4, 4]]
    whole = tokens.read(path)
    assert_close(np.concatenate([batch.rest for batch in found]), whole.rest)


def test_the_next_token_is_the_label_and_documents_are_groups(tmp_path):
    read = read_predictions(write(tmp_path / "log.jsonl", *[echo(LOGGED)] * 3))
    assert read.kind == "top_label" and read.n == 6
    assert read.groups is not None and read.groups.tolist() == [0, 0, 1, 1, 2, 2]
    assert set(read.features or ()) == {"position", "frequency", "previous"}
    assert "3 documents, which are groups" in read.notes[0]
    assert "50.0% of the tokens that came" in read.notes[1]


def test_an_echo_with_a_completion_has_both(tmp_path):
    """The prompt was given, the rest was drawn: only the prompt is observed."""
    rows = [*LOGGED, ("dog", -0.9, {"dog": -0.9, "cat": -1.1})]
    read = tokens.read(write(tmp_path / "log.jsonl", echo(rows, generated=1)))
    assert read.token.tolist() == ["cat", "sat"]


def test_the_probability_of_an_answer(tmp_path):
    lines = [chat(LOGGED) | {"correct": i % 2 == 0} for i in range(4)]
    path = write(tmp_path / "answers.jsonl", *lines)
    whole = read_predictions(path)
    assert whole.correct is not None and whole.correct.tolist() == [True, False, True, False]
    assert_close(whole.confidence, np.exp([-3.5] * 4))
    assert_close(read_predictions(path, length_normalized=True).confidence, np.exp([-1.75] * 4))
    named = write(tmp_path / "graded.jsonl", *[chat(LOGGED) | {"grade": 1}] * 2)
    graded = read_predictions(named, label_column="grade").correct
    assert graded is not None and graded.all()
    with pytest.raises(FileError, match=r"expected 'grade' .* on line 1"):
        read_predictions(path, label_column="grade")


def test_answers_are_compared_with_labels_elsewhere(tmp_path):
    lines = [chat(LOGGED) | {"custom_id": name} for name in "abc"]
    path = write(tmp_path / "answers.jsonl", *lines)
    (tmp_path / "truth.csv").write_text("id,label\nc,cat sat\na,cat ran\nb,cat sat\n")
    read = read_predictions(path, labels=tmp_path / "truth.csv")
    assert read.correct is not None and read.correct.tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([chat(LOGGED)], "expected 'correct' on line 1; the tokens were generated, so they are drawn from the model"),
        ([chat(LOGGED) | {"correct": 1}, chat(LOGGED)], "expected 'correct' on line 2"),
        ([chat(LOGGED) | {"correct": "yes"}], "expected true or false in 'correct' on line 1, got 'yes'"),
        ([chat(LOGGED) | {"correct": 1}, {"correct": 0}], "expected one answer .* on line 2, got 0"),
        ([echo(LOGGED), {"choices": []}], "expected observed tokens on line 2: it has none"),
        ([echo([LOGGED[0], ("cat", -0.5, {})])], "expected the likeliest tokens at token 1 on line 1, found none"),
        ([echo([LOGGED[0], ("cat", 0.5, {"cat": 0.5})])], "expected a token with its log-probability at token 1 on"),
        ([echo([LOGGED[0], ("cat", "x", {"cat": -1})])], "at token 1 on line 1"),
        ([echo([LOGGED[0], ("a", -0.1, {"a": -0.1, "b": -0.1})])], "sum to at most 1 at token 1 on line 1, they sum"),
        ([echo([LOGGED[0], ("a", -0.1, {"b": -2.0})])], "'a', not listed, is likelier"),
        ([{"prompt_logprobs": [None, {"1": {"rank": 1}}]}], "at token 1 on line 1"),
        ([{"prompt_logprobs": [None, {"1": {"logprob": -2.0, "rank": 5}}]}], "found none: ask for at least one"),
        ([{"prompt_logprobs": [None]}], "the file has no tokens with probabilities"),
    ],
)
def test_what_is_wrong_is_said_with_the_line(records, said, tmp_path):
    with pytest.raises(FileError, match=said):
        read_predictions(write(tmp_path / "log.jsonl", *records))


def test_several_answers_per_question_are_samples(tmp_path):
    record = chat(LOGGED) | {"correct": True}
    record["choices"] = record["choices"] * 3
    with pytest.raises(FileError, match="on line 1, got 3: several answers to a question are sampled answers"):
        read_predictions(write(tmp_path / "log.jsonl", record))


def test_options_that_cannot_apply_are_refused(tmp_path):
    path = write(tmp_path / "log.jsonl", echo(LOGGED))
    with pytest.raises(FileError, match="cannot be used with log-probabilities of tokens"):
        read_predictions(path, percent=True)
    with pytest.raises(FileError, match="cannot be used with observed tokens: the next token is the label"):
        read_predictions(path, labels=[0, 1])
    (tmp_path / "log.csv").write_text("a,b\n1,2\n")
    with pytest.raises(FileError, match="expected a log of responses"):
        tokens.read(tmp_path / "log.csv")


def test_sequence_probability_refuses_what_is_no_log_probability():
    assert_close(tokens.sequence_probability([[-1, -2]], length_normalized=True), np.exp([-1.5]))
    for bad in ([], [0.5], [float("nan")]):
        with pytest.raises(ValueError, match="row 0"):
            tokens.sequence_probability([bad])


def test_two_models_on_the_same_text_are_compared(tmp_path, rng):
    other = [LOGGED[0], ("cat", -0.9, {"dog": -0.6, "cat": -0.9}), ("sat", -0.7, {"sat": -0.7, "lay": -1.6})]
    a = write(tmp_path / "a.jsonl", *[echo(LOGGED)] * 30)
    b = write(tmp_path / "b.jsonl", *[echo(other)] * 30)
    from truecal.io import check_same_samples

    first, second = check_same_samples([read_predictions(a), read_predictions(b)])
    models = {p.name: tc.TopPredictions(p.correct, p.confidence) for p in (first, second)}
    result = tc.compare(None, models, groups=first.groups)
    assert result.n_samples == 60
    c = write(tmp_path / "c.jsonl", *[echo([LOGGED[0], LOGGED[1], ("ran", -0.7, LOGGED[2][2])])] * 30)
    with pytest.raises(FileError, match="labels differ"):
        check_same_samples([read_predictions(a), read_predictions(c)])
