"""Logs of decision models: every tool's shape gives the arrays that one would flatten by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decision_records as shapes
from closeness import assert_close
from decision_records import LEVELS, TEAMS, World, check, lines
from truecal.io import FileError, read_decisions
from truecal.io.decision_logs import is_decision_log, paired_rows

N = 40


def answered() -> list[int]:
    return [i for i in range(N) if i % 10 != 9]


def write(kind: str, made: World, path: Path) -> tuple[Path, Path | None]:
    """A file of that kind, and one of gold answers where it has none itself."""
    every = range(N)
    gold = lines(path / "gold.jsonl", [{"custom_id": f"t{i}", **made.gold[i]} for i in reversed(every)])
    table = path / "gold.csv"
    rows = [f"t{i},{g['team']},{g['urgent']},{g['level']}\n" for i, g in enumerate(made.gold)]
    table.write_text("id,team,urgent,level\n" + "".join(rows))
    if kind == "responses":
        return lines(path / "a.jsonl", [shapes.openai(made, i) for i in every]), table
    if kind == "pairs":
        asked = [{"name": "team", "choices": [{"value": team} for team in TEAMS]}]
        requests = [{"input": f"ticket {i}", "questions": asked} for i in every]
        pairs = [{"request": requests[i], "response": shapes.openai(made, i), "labels": made.gold[i]} for i in every]
        return lines(path / "a.jsonl", pairs), None
    if kind == "batch":
        body = [{"status_code": 200, "body": shapes.openai(made, i)} for i in every]
        batch = [{"id": f"b{i}", "custom_id": f"t{i}", "response": body[i]} for i in every]
        return lines(path / "a.jsonl", batch), gold
    if kind == "systemone":
        found = [{"response": shapes.systemone(made, i), "gold": made.gold[i]} for i in every]
        return lines(path / "a.jsonl", found), None
    if kind == "map":
        (path / "a.json").write_text(json.dumps({f"t{i}": shapes.systemone(made, i) for i in every}))
        return path / "a.json", table
    if kind == "jevl":
        return lines(path / "a.jevl", [shapes.jevl(made, i) for i in every]), None
    if kind == "jev-eval":
        return lines(path / "a.jsonl", [line for i in every for line in shapes.jev_eval(made, i)]), None
    if kind == "jevcal":
        return lines(path / "decisions.jsonl", [line for i in every for line in shapes.jevcal(made, i)]), None
    if kind == "deepeval":
        (path / "run.json").write_text(json.dumps(shapes.deepeval(made, N)))
        return path / "run.json", None
    (path / "results.json").write_text(json.dumps(shapes.promptfoo(made, N)))
    return path / "results.json", None


@pytest.mark.parametrize(
    "kind",
    [
        *("responses", "pairs", "batch", "systemone", "map", "jevl", "jev-eval", "jevcal", "deepeval", "promptfoo"),
    ],
)
def test_every_shape_is_read_as_flattened_by_hand(kind, tmp_path):
    digits = {"systemone": 2, "map": 2, "jevl": 2, "jev-eval": 2, "deepeval": 3}.get(kind)
    made = shapes.world(N, digits=digits)
    path, gold = write(kind, made, tmp_path)
    assert is_decision_log(str(path))
    log = read_decisions(path, labels=gold)
    refuses = kind in ("responses", "pairs", "batch", "promptfoo")
    assert set(log.questions) == {"team", "urgent"} | (set() if kind in ("jevcal", "deepeval") else {"level"})
    team = log["team"]
    assert team.refused == (N // 10 if refuses else 0)
    check(log, made, answered() if refuses else slice(None))
    assert any("rounded to" in note for note in team.notes) == (digits is not None)
    assert "level" not in log.questions or (log["level"].task, log["level"].labels) == ("ordered", LEVELS)


def test_options_that_differ_by_row_are_measured_by_the_confidence(tmp_path):
    made = shapes.world(N)
    every = [TEAMS if i % 2 else tuple(team for team in TEAMS if team != TEAMS[i % 3]) for i in range(N)]
    answers = [shapes.openai(made, i, options)["answers"][:1] for i, options in enumerate(every)]
    records = [{"response": {"answers": a}, "gold": made.gold[i]["team"]} for i, a in enumerate(answers)]
    question = read_decisions(lines(tmp_path / "a.jsonl", records))["team"]
    assert question.n_choices is not None and question.labels is None
    kept = answered()
    beyond = sum(made.gold[i]["team"] not in every[i] for i in kept)
    assert f"in {beyond} rows the gold answer is none of the options: the answer is wrong" in question.notes
    tops = [max(option["probability"] for option in answers[i][0]["probabilities"]) for i in kept]
    assert_close(question.top.confidence, np.array(tops))
    assert question.top.correct.tolist() == [answers[i][0]["choice"] == made.gold[i]["team"] for i in kept]


def test_shuffled_options_are_one_set_of_classes(tmp_path):
    made = shapes.world(N)
    records = [
        {"response": shapes.openai(made, i, TEAMS[i % 3 :] + TEAMS[: i % 3]), "labels": made.gold[i]} for i in range(N)
    ]
    log = read_decisions(lines(tmp_path / "a.jsonl", records))
    assert log["team"].labels == TEAMS
    check(log, made, answered())


def test_truth_values_and_texts_are_different_options(tmp_path):
    spread = [{"value": v, "probability": p} for v, p in ((True, 0.5), ("true", 0.3), ("no", 0.2))]
    answer = {"type": "choice", "name": "q", "choice": True, "confidence": 0.2, "probabilities": spread}
    records = [{"answers": [answer], "gold": gold} for gold in (True, "true", "NO")]
    assert read_decisions(lines(tmp_path / "a.jsonl", records))["q"].y_true.tolist() == [0, 1, 2]


def test_what_is_left_out_is_counted(tmp_path):
    made = shapes.world(N)
    records: list[dict[str, Any]] = [
        {"custom_id": f"t{i}", "response": {"body": shapes.openai(made, i)}, "labels": made.gold[i]} for i in range(N)
    ]
    records[3] = {"custom_id": "t3", "response": None, "error": {"code": "server_error"}}
    records[5]["labels"] = {"team": "tech"}
    log = read_decisions(lines(tmp_path / "a.jsonl", records))
    assert log.notes == ("1 of 40 records have no answers (failed requests) and are left out",)
    assert (log["team"].refused, log["team"].unlabelled, log["urgent"].unlabelled) == (4, 0, 1)
    assert "38 of 39 answers; left out: 1 without a gold answer" in log["urgent"].notes


def test_a_cassette_counts_the_last_record_of_each_id(tmp_path):
    made, later = shapes.world(N), shapes.world(N, seed=1)
    records = [shapes.jevl(made, i) for i in range(N)] + [shapes.jevl(later, 0)]
    log = read_decisions(lines(tmp_path / "a.jevl", records))
    assert_close(log["urgent"].y_proba, np.array([*made.urgent[1:], later.urgent[0]]))
    assert log.notes == ("recorded again, so that the last record of each id counts: 1",)


def test_two_models_in_one_log_are_kept_apart(tmp_path):
    made = shapes.world(N)
    records = [{"answers": {"a": {"type": "noul", "noul": 0.5}}, "model": f"m{i % 2}", "gold": True} for i in range(N)]
    assert list(read_decisions(lines(tmp_path / "a.jsonl", records)).questions) == ["a (m0)", "a (m1)"]
    assert made.gold


def test_the_confidence_is_apart_from_the_top_probability(tmp_path):
    made = shapes.world(N)
    records = [{"response": shapes.openai(made, i), "labels": made.gold[i]} for i in range(N)]
    question = read_decisions(lines(tmp_path / "a.jsonl", records))["team"]
    assert_close(question.confidence, (3 * made.team[answered()].max(axis=1) - 1) / 2)
    assert_close(question.stated().y_proba.confidence, question.confidence)
    assert any("is apart from the top probability" in note for note in question.notes)


def test_rows_of_two_logs_are_paired_by_id_and_options_by_name(tmp_path):
    made = shapes.world(N)
    one = lines(tmp_path / "a.jevl", [shapes.jevl(made, i) for i in range(N)])
    swapped = [{**shapes.jevl(made, i)} for i in reversed(range(5, N))]
    for record in swapped:
        team = record["answers"]["team"]
        team["probabilities"] = dict(reversed(team["probabilities"].items()))
        record["request"] = {"state": record["request"]["state"]}
    other = lines(tmp_path / "b.jevl", swapped)
    (a, b), alone = paired_rows([read_decisions(one)["team"], read_decisions(other)["team"]])
    assert alone == 5 and a.labels == b.labels and a.keys == b.keys
    assert np.array_equal(a.y_true, b.y_true) and np.array_equal(a.y_proba, b.y_proba)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"type": "noul", "noul": 1.4}, r"a number from 0 to 1 as the probability of 'a' in record 1"),
        ({"type": "noul", "noul": True}, "got True"),
        ({"type": "choice", "choice": "x", "probabilities": {"x": 0.5, "y": 0.3}}, r"sum to 1, got 0.8"),
        ({"type": "choice", "choice": "x", "probabilities": {"y": 0.5, "z": 0.5}}, "expected one of 'y', 'z'"),
        ({"type": "choice", "choice": "x"}, "expected probabilities of 'a' in record 1"),
        ({"type": "refusal"}, "'a' has no answers"),
    ],
)
def test_bad_answers_get_one_clear_error(answer, said, tmp_path):
    path = lines(tmp_path / "a.jsonl", [{"answers": {"a": answer}, "gold": "x"}])
    with pytest.raises(FileError, match=said):
        read_decisions(path)


def test_gold_answers_that_do_not_fit_are_refused(tmp_path):
    made = shapes.world(N)
    log = lines(tmp_path / "a.jsonl", [{"custom_id": f"t{i}", "response": shapes.openai(made, i)} for i in range(N)])
    with pytest.raises(FileError, match=r'no gold answers.*"labels"'):
        read_decisions(log)
    with pytest.raises(FileError, match="expected ids of the log, such as 't0', found others, such as 'other'"):
        read_decisions(log, labels=lines(tmp_path / "g.jsonl", [{"custom_id": "other", "team": "tech"}]))
    with pytest.raises(FileError, match=r"columns that are called as the questions of the log 'team', .*, found"):
        read_decisions(log, labels=lines(tmp_path / "k.jsonl", [{"custom_id": "t1", "group": "tech"}]))
    twice = lines(tmp_path / "h.jsonl", [{"custom_id": "t1", "team": "tech"}] * 2)
    with pytest.raises(FileError, match="one row of gold answers per id, 't1' comes twice"):
        read_decisions(log, labels=twice)
    with pytest.raises(FileError, match=r"expected 40 rows, one per record of the log, got 1"):
        read_decisions(log, labels=lines(tmp_path / "i.jsonl", [{"team": "tech"}]))
    with pytest.raises(FileError, match="expected a question of 'team', 'urgent', 'level', got 'spam'"):
        read_decisions(log, labels=lines(tmp_path / "j.jsonl", [{"custom_id": "t1", **made.gold[1]}]))["spam"]


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "q1", "answers": ["4", "4"], "target": "4"}\n',
        '{"label": 1, "probabilities": [0.2, 0.8], "score": 0.8}\n',
        '{"answers": {"text": ["a"], "answer_start": [1]}}\n',
        '{"type": "choice", "label": "a"}\n',
    ],
)
def test_other_files_are_no_logs_of_decisions(text, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    assert not is_decision_log(str(path))


def damaged(value: Any, rng: np.random.Generator, share: float = 0.05) -> Any:
    """The same records with some values replaced by others of any type."""
    if rng.random() < share:
        return [None, True, [], {}, "x", -1, 2.5, [1], {"a": 1}, [{}], {"type": "choice"}][rng.integers(11)]
    if isinstance(value, dict):
        return {key: damaged(one, rng, share) for key, one in value.items()}
    return [damaged(one, rng, share) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(3))
def test_damaged_logs_get_one_clear_error(seed, tmp_path):
    """Any value of any type anywhere: a log is read, or refused in one line."""
    rng, made = np.random.default_rng(seed), shapes.world(4, digits=2)
    every = range(4)
    logs = [
        [{"response": shapes.openai(made, i), "labels": made.gold[i]} for i in every],
        [shapes.jevl(made, i) for i in every],
        [line for i in every for line in shapes.jev_eval(made, i)],
        [line for i in every for line in shapes.jevcal(made, i)],
        [*shapes.deepeval(made, 4)["testCases"], *shapes.promptfoo(made, 4)["results"]["results"]],
    ]
    refused = 0
    for _ in range(20):
        for log in logs:
            found = [damaged(record, rng, 0.03) for record in log]
            path = lines(tmp_path / "a.jsonl", [record for record in found if isinstance(record, dict)])
            is_decision_log(str(path))
            try:
                read_decisions(path)
            except FileError as error:
                refused += "\n" not in str(error)
    assert refused > 20
