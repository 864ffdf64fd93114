"""Logs of decision models on the command line: a table over questions, and from a log to a gate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decision_records as shapes
import truecal as tc
from closeness import assert_close
from command_line import Run
from decision_records import TEAMS, lines

N = 400


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of OpenAI decisions with gold answers, another by systemone, and gold answers apart."""
    folder = tmp_path_factory.mktemp("logs")
    made = shapes.world(N)
    lines(folder / "a.jsonl", [{"response": shapes.openai(made, i), "labels": made.gold[i]} for i in range(N)])
    lines(folder / "b.jsonl", [{"id": f"t{i}", "response": shapes.systemone(made, i)} for i in range(N)])
    lines(folder / "gold.jsonl", [{"id": f"t{i}", **made.gold[i]} for i in range(N)])
    return folder


@pytest.mark.slow
def test_every_question_has_the_numbers_of_evaluate(logs: Path, tmp_path: Path, truecal: Run) -> None:
    out, table = tmp_path / "a.json", tmp_path / "a.csv"
    code, shown, _ = truecal("evaluate", str(logs / "a.jsonl"), "--json", str(out), "--csv", str(table))
    assert (
        code == 0 and "a: 3 questions" in shown and "No miscalibration detected (corrected over 3 questions)." in shown
    )
    found = json.loads(out.read_text())
    made = shapes.world(N)
    kept = [i for i in range(N) if i % 10 != 9]
    gold: dict[str, Any] = {name: np.array([row[name] for row in made.gold]) for name in ("team", "urgent", "level")}
    wanted = {
        "team": tc.evaluate(gold["team"][kept], made.team[kept], labels=TEAMS),
        "urgent": tc.evaluate(gold["urgent"], made.urgent),
        "level": tc.evaluate(gold["level"], made.level, task="ordered"),
    }
    for name, one in wanted.items():
        own = found["evaluations"][name]
        assert_close(own["score"], one.score)
        assert one.test is not None and own["test"]["pvalue"] == one.test.pvalue
        assert {row["question"]: row["refused"] for row in found["rows"]} == {"team": 40, "urgent": 0, "level": 0}
    assert len(table.read_text().splitlines()) == 4


@pytest.mark.slow
def test_gold_answers_apart_one_question_and_its_page(logs: Path, tmp_path: Path, truecal: Run) -> None:
    about = ("--labels", str(logs / "gold.jsonl"), "--columns", "team")
    code, shown, _ = truecal("evaluate", str(logs / "b.jsonl"), *about)
    assert code == 0 and "team: 400 samples, 3 classes" in shown and "matched by id" in shown
    code, _, said = truecal("evaluate", str(logs / "b.jsonl"), *about[:2], "--html", str(tmp_path / "a.html"))
    assert code == 2 and "is for one question: choose one of 'team', 'urgent', 'level' with --columns" in said
    code, _, said = truecal("test", str(logs / "a.jsonl"))
    assert code == 1 and "choose one with --columns" in said
    assert truecal("test", str(logs / "a.jsonl"), "--columns", "urgent")[0] == 0
    code, _, said = truecal("evaluate", str(logs / "a.jsonl"), "--by", "team")
    assert code == 2 and "cannot apply to a log of decisions" in said


@pytest.mark.slow
def test_two_models_on_the_same_rows(logs: Path, truecal: Run) -> None:
    pair = (str(logs / "a.jsonl"), str(logs / "c.jsonl"))
    made = shapes.world(N)
    made = made._replace(urgent=made.urgent**3 / (made.urgent**3 + (1 - made.urgent) ** 3))
    lines(logs / "c.jsonl", [{"response": shapes.systemone(made, i), "gold": made.gold[i]} for i in range(N)])
    code, shown, _ = truecal("compare", *pair)
    assert code == 0 and "2 models, 3 tasks" in shown and "Not calibrated" in shown and "c on urgent" in shown
    assert "team: 40 rows are not in every log and are left out" in shown
    code, shown, _ = truecal("compare", *pair, "--columns", "urgent")
    assert code == 0 and "a predicts best: Brier" in shown and "Not calibrated: c (over-confident)" in shown
    code, shown, _ = truecal("compare", *pair, "--columns", "team")
    assert code == 0 and "a and c predict best" in shown  # the same probabilities


@pytest.mark.slow
def test_the_confidence_of_the_log_is_measured_when_asked(logs: Path, truecal: Run) -> None:
    code, shown, _ = truecal("evaluate", str(logs / "a.jsonl"), "--confidence", "confidence", "--columns", "team")
    assert code == 0 and "under-confident" in shown and "measured: the confidence that the log states" in shown
    assert truecal("evaluate", str(logs / "a.jsonl"), "--confidence", "x")[0] == 2


@pytest.mark.slow
def test_from_a_log_to_a_gate_and_to_new_rows(logs: Path, tmp_path: Path, truecal: Run) -> None:
    gate, told = str(tmp_path / "gate.json"), tmp_path / "check.json"
    code, shown, said = truecal("threshold", str(logs / "a.jsonl"), "--risk", "0.25", "--save", gate)
    assert code == 0 and "the errors of accepted rows of all 3 questions are at most 0.25" in shown and "wrote" in said
    kept = tc.analysis.load_gates(gate)
    assert [one.question for one in kept.gates] == ["team", "urgent", "level"]
    new, bad = shapes.world(2000, seed=5), shapes.world(2000, seed=6)
    lines(
        tmp_path / "new.jsonl",
        [{"answers": shapes.systemone(new, i)["answers"], "gold": new.gold[i]} for i in range(2000)],
    )
    flipped = [row | {"urgent": not row["urgent"]} for row in bad.gold]
    lines(
        tmp_path / "bad.jsonl",
        [{"answers": shapes.systemone(bad, i)["answers"], "gold": flipped[i]} for i in range(2000)],
    )
    code, shown, _ = truecal("gate", "check", str(tmp_path / "new.jsonl"), "--gate", gate, "--json", str(told))
    assert code == 0 and shown.startswith("Within") and json.loads(told.read_text())["verdict"] == "within"
    code, shown, _ = truecal("gate", "check", str(tmp_path / "bad.jsonl"), "--gate", gate)
    assert code == 3 and "exceeded by urgent" in shown
    few = lines(
        tmp_path / "few.jsonl",
        [{"answers": shapes.systemone(new, i)["answers"], "gold": new.gold[i]} for i in range(9)],
    )
    assert truecal("gate", "check", str(few), "--gate", gate)[0] == 4
    assert truecal("gate", "check", str(few), "--gate", gate, "--allow-undecided")[0] == 0
    code, shown, _ = truecal("evaluate", str(logs / "a.jsonl"), "--gate", gate)
    assert code == 0 and "rows on which the gate of" in shown
    code, _, said = truecal("gate", "check", str(logs / "a.jsonl"), "--gate", gate, "--columns", "level")
    assert code == 1 and "found 'level' without 'team', 'urgent'" in said


@pytest.mark.slow
def test_a_gate_of_ordinary_predictions(folder: Path, truecal: Run) -> None:
    code, shown, _ = truecal("threshold", "binary.csv", "--risk", "0.3", "--save", "gate.json")
    assert code == 0 and "Accept rows" in shown
    code, shown, _ = truecal("gate", "check", "binary.csv", "--gate", "gate.json")
    assert code == 0 and "the gate keeps an error of at most 0.3" in shown
    assert truecal("evaluate", "binary.csv", "--gate", "gate.json")[0] == 2
