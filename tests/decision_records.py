"""Records of decision models in the shape in which each tool writes them, from one calibrated world."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from closeness import assert_close
from truecal.io import DecisionLog

TEAMS = ("billing", "tech", "sales")
LEVELS = ("can wait", "this week", "today")


class World(NamedTuple):
    """The probabilities of three questions, and their gold answers."""

    team: Any
    urgent: Any
    level: Any
    gold: list[dict[str, Any]]


def world(n: int, seed: int = 0, digits: int | None = None) -> World:
    """A choice, a predicate and a score; gold answers are drawn from the probabilities."""
    rng = np.random.default_rng(seed)
    team, urgent, level = rng.dirichlet([0.8] * 3, n), rng.beta(0.8, 0.9, n), rng.dirichlet([0.9] * 3, n)
    drawn = [(p.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, 2) for p in (team, level)]
    yes = rng.random(n) < urgent
    gold = [
        {"team": TEAMS[t], "urgent": bool(u), "level": int(v)} for t, u, v in zip(drawn[0], yes, drawn[1], strict=True)
    ]
    if digits is not None:
        team, urgent, level = (np.round(p, digits) for p in (team, urgent, level))
    return World(team, urgent, level, gold)


def openai(made: World, i: int, options: tuple[str, ...] = TEAMS) -> dict[str, Any]:
    """A response of the Decisions API: every tenth choice is refused."""
    p = made.team[i][[TEAMS.index(option) for option in options]]
    p = p / p.sum()
    chosen: dict[str, Any] = {
        "type": "choice",
        "name": "team",
        "choice": options[int(p.argmax())],
        "confidence": float((len(p) * p.max() - 1) / (len(p) - 1)),
        "probabilities": [{"value": v, "probability": float(q)} for v, q in zip(options, p, strict=True)],
    }
    levels = [{"value": j, "label": LEVELS[j], "probability": float(q)} for j, q in enumerate(made.level[i])]
    answers = [
        {"type": "refusal", "name": "team"} if i % 10 == 9 else chosen,
        {"type": "predicate", "name": "urgent", "probability": float(made.urgent[i])},
        {"type": "score", "name": "level", "score": 1.0, "confidence": 0.5, "probabilities": levels},
    ]
    details = {"input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}}
    usage = {"input_tokens": 9, "output_tokens": 0, "total_tokens": 9, "output_tokens_details": {"reasoning_tokens": 0}}
    return {"answers": answers, "model": "gpt-6-luna", "usage": usage | details}


def systemone(made: World, i: int) -> dict[str, Any]:
    """A response of systemone: answers are a map, and so are their probabilities."""
    team = dict(zip(TEAMS, map(float, made.team[i]), strict=True))
    chosen = max(team, key=lambda t: team[t])
    answers = {
        "team": {
            "type": "choice",
            "choice": chosen,
            "confidence": 0.5,
            "probabilities": team,
        },
        "urgent": {"type": "noul", "noul": float(made.urgent[i])},
        "level": {
            "type": "score",
            "score": 1.0,
            "confidence": 0.5,
            "legend": {str(j): text for j, text in enumerate(LEVELS)},
            "probabilities": {str(j): float(q) for j, q in enumerate(made.level[i])},
        },
    }
    return {"model": "jev-1.13.0", "answers": answers, "usage": {"input_tokens": 9, "output_tokens": 1}}


def jevl(made: World, i: int) -> dict[str, Any]:
    """A line of a .jevl file."""
    criteria: dict[str, Any] = {"team": dict.fromkeys(TEAMS), "level": list(LEVELS)}
    response = systemone(made, i)
    return {
        "v": 1,
        "id": f"sha256:{i}",
        "ts": "2026-11-01T00:00:00Z",
        "model": response["model"],
        "request": {"state": f"ticket {i}", "questions": {name: {"criteria": c} for name, c in criteria.items()}},
        "answers": response["answers"],
        "label": made.gold[i],
    }


def jev_eval(made: World, i: int) -> list[dict[str, Any]]:
    """Lines of a cache of jev-eval, one per question; keys of probabilities are sorted, gold levels are texts."""
    criteria = {"team": {t: t for t in TEAMS}, "urgent": None, "level": list(LEVELS)}
    lines = []
    for name, answer in systemone(made, i)["answers"].items():
        gold = LEVELS[made.gold[i][name]] if name == "level" else made.gold[i][name]
        question = {"type": answer["type"], "instructions": "?", "criteria": criteria[name]}
        about = {"model": "jev-latest", "row": i, "state_hash": f"h{i}", "id": name, "type": answer["type"]}
        lines.append({**about, "question": question, "answer": answer, "gold": gold, "meta": {}})
    return [json.loads(json.dumps(line, sort_keys=True)) for line in lines]


def jevcal(made: World, i: int) -> list[dict[str, Any]]:
    """Lines of .jevcal/decisions.jsonl: a decision, and one outcome per field."""
    urgent, team = float(made.urgent[i]), dict(zip(TEAMS, map(float, made.team[i]), strict=True))
    native = {"kind": "native", "probability": 0.5, "distribution": team}
    fields = {
        "team": {"value": max(team, key=lambda t: team[t]), "probability": 0.5, "raw": native},
        "urgent": {"value": urgent > 0.5, "probability": max(urgent, 1 - urgent), "raw": None},
    }
    result = {"requestId": f"r{i}", "decisionName": "triage", "model": "jev", "fields": fields, "raw": None}
    outcomes: list[dict[str, Any]] = [
        {"kind": "outcome", "requestId": f"r{i}", "outcome": {"field": name, "actualValue": made.gold[i][name]}}
        for name in fields
    ]
    return [*outcomes[:1], {"kind": "decision", "result": result, "input": {"input": "x"}}, *outcomes[1:]]


def deepeval(made: World, n: int) -> dict[str, Any]:
    """A test run of deepeval: its logs have three digits."""
    cases = []
    for i in range(n):
        p = round(float(made.urgent[i]), 3)
        team = {t: round(float(q), 3) for t, q in zip(TEAMS, made.team[i], strict=True)}
        logs = [
            f"1. [noul, weight=1] It is urgent.\n   value={p:.3f} applicable=True "
            f"probabilities={ {'true': p, 'false': round(1 - p, 3)} } confidence=0.540",
            f"1. [choice, weight=1] Which team?\n   value=0.1 applicable=True probabilities={team} confidence=0.500",
        ]
        metrics = [
            {"name": f"{name} [JevEval]", "score": 0.5, "verboseLogs": f"Questions:\n{log} \n \nScore: 0.5"}
            for name, log in zip(("urgent", "team"), logs, strict=True)
        ]
        cases.append({"name": f"case {i}", "input": "x", "metricsData": metrics, "metadata": made.gold[i]})
    return {"testCases": cases, "conversationalTestCases": [], "testPassed": 0}


def promptfoo(made: World, n: int) -> dict[str, Any]:
    """Results of promptfoo: the response is a text, the gold answers are metadata."""
    results = [
        {
            "id": f"uuid-{i}",
            "testIdx": i,
            "vars": {"ticket": f"ticket {i}"},
            "metadata": made.gold[i] | {"http": {"status": 200}},
            "provider": {"id": "openai:decisions", "label": ""},
            "response": {"output": json.dumps(openai(made, i)), "cached": False},
        }
        for i in range(n)
    ]
    return {"evalId": "eval-1", "results": {"version": 3, "results": results}, "config": {}}


def lines(path: Path, records: list[dict[str, Any]]) -> Path:
    """A jsonl file of records."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def flat(made: World) -> dict[str, Any]:
    """The arrays of the three questions."""
    team = [TEAMS.index(gold["team"]) for gold in made.gold]
    return {
        "team": (team, made.team / made.team.sum(axis=1, keepdims=True)),
        "urgent": ([int(gold["urgent"]) for gold in made.gold], made.urgent),
        "level": ([gold["level"] for gold in made.gold], made.level / made.level.sum(axis=1, keepdims=True)),
    }


def check(log: DecisionLog, made: World, rows: slice | list[int] = slice(None), tolerance: float = 1e-12) -> None:
    """Every question of a log has the numbers of the world, on these rows of the choice."""
    for name, question in log.questions.items():
        y, p = flat(made)[name]
        if name == "team":  # the options may be in another order
            order = [TEAMS.index(label) for label in question.labels or ()]
            y, p = [order.index(i) for i in y], p[:, order]
        kept = rows if name == "team" else slice(None)
        assert np.array_equal(question.y_true, np.array(y)[kept])
        assert_close(question.y_proba, p[kept], tolerance=tolerance)
