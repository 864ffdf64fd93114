"""Logs written by the packages of decision models: `make frameworks` installs them, elsewhere they are skipped."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import decision_records as shapes
from decision_records import LEVELS, TEAMS, check, lines
from truecal.io import read_decisions

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # packages warn of each other
]
N = 60
KEPT = [i for i in range(N) if i % 10 != 9]
MADE = shapes.world(N)
ROUNDED = shapes.world(N, digits=2)


def test_decisions_of_openai(tmp_path):
    """Its own type takes the answers and writes them: as text, as a dict, and in a batch."""
    types = pytest.importorskip("openai.types.decision", reason="openai is not installed: make frameworks")
    found = [types.Decision.model_validate(shapes.openai(MADE, i)) for i in range(N)]
    assert {answer.type for one in found for answer in one.answers} == {"choice", "predicate", "score", "refusal"}
    told = tmp_path / "told.jsonl"
    told.write_text("\n".join(one.model_dump_json() for one in found))
    gold = lines(tmp_path / "gold.jsonl", [{"id": f"t{i}", **MADE.gold[i]} for i in range(N)])
    check(read_decisions(told, labels=gold), MADE, KEPT)
    pairs = lines(
        tmp_path / "a.jsonl",
        [{"response": one.to_dict(), "labels": g} for one, g in zip(found, MADE.gold, strict=True)],
    )
    check(read_decisions(pairs), MADE, KEPT)
    batch = [
        {"custom_id": f"t{i}", "response": {"status_code": 200, "body": one.to_dict()}} for i, one in enumerate(found)
    ]
    check(read_decisions(lines(tmp_path / "b.jsonl", batch), labels=gold), MADE, KEPT)


def test_responses_of_systemone(tmp_path):
    models = pytest.importorskip(
        "typesafe_sdk._core.response_types", reason="typesafe-sdk is not installed: make frameworks"
    )
    adapter = pytest.importorskip("pydantic").TypeAdapter(
        dict[str, models.Answer]  # type: ignore[name-defined]
    )
    records = []
    for i in range(N):
        answers = adapter.validate_json(json.dumps(shapes.systemone(ROUNDED, i)["answers"]))
        records.append({"answers": json.loads(adapter.dump_json(answers)), "gold": ROUNDED.gold[i]})
    check(read_decisions(lines(tmp_path / "a.jsonl", records)), ROUNDED)


def test_records_of_jevkit(tmp_path):
    record = pytest.importorskip("jevkit_core.record", reason="jevkit-core is not installed: make frameworks")
    questions = {
        "team": {"type": "choice", "criteria": dict.fromkeys(TEAMS)},
        "level": {"type": "score", "criteria": LEVELS},
    }
    kept = [
        record.Record("jev", f"ticket {i}", questions, shapes.systemone(ROUNDED, i)["answers"], label=ROUNDED.gold[i])
        for i in range(N)
    ]
    record.write_records(tmp_path / "golden.jevl", [*kept, kept[0]])
    log = read_decisions(tmp_path / "golden.jevl")
    assert log.notes == ("recorded again, so that the last record of each id counts: 1",)
    order = np.roll(np.arange(N), -1)  # the last record of the first id counts
    assert log["urgent"].y_proba.tolist() == ROUNDED.urgent[order].tolist()


def test_caches_of_jev_eval(tmp_path):
    jev_eval = pytest.importorskip("jev_eval", reason="jev-eval is not installed: make frameworks")
    from jev_eval.dataset import LabeledRow, choice, noul, score

    questions = {"team": choice({t: t for t in TEAMS}, "?"), "urgent": noul("?"), "level": score(list(LEVELS), "?")}
    gold = [g | {"level": LEVELS[g["level"]]} for g in ROUNDED.gold]

    class Fake:
        model = "jev"

        def evaluate(self, state: Any, asked: Any) -> dict[str, Any]:
            return shapes.systemone(ROUNDED, int(state))

    rows = [LabeledRow(str(i), g) for i, g in enumerate(gold)]
    jev_eval.run(rows, questions, Fake(), cache_path=tmp_path / "run.jsonl")
    check(read_decisions(tmp_path / "run.jsonl"), ROUNDED)


def test_decisions_of_jevcal(tmp_path):
    store = pytest.importorskip("jevcal.store", reason="jevcal is not installed: make frameworks")
    from jevcal.types import DecisionResult, OutcomeLabel

    kept = store.JsonlStore(str(tmp_path / ".jevcal" / "decisions.jsonl"))
    for i in range(N):
        decision = shapes.jevcal(MADE, i)[1]["result"] | {"schemaVersion": "1", "backendId": "jev", "timestamp": "2026"}
        kept.log_decision(DecisionResult.model_validate(decision), {"input": "x"})
        for name in ("team", "urgent"):
            outcome = OutcomeLabel(field=name, actual_value=MADE.gold[i][name], observed_at="2026")
            kept.attach_outcome(f"r{i}", outcome)
    check(read_decisions(tmp_path / ".jevcal" / "decisions.jsonl"), MADE)
