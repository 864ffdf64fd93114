"""Every command of docs/SKILL.md, and of the way from a log to a gate, runs on files of the names that it uses."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import decision_records as shapes
from decision_records import lines
from truecal.cli.app import run

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "SKILL.md").read_text()
COMMANDS = re.findall(r"\| `(truecal [^`]*)` \|$", PAGE, flags=re.MULTILINE)
SECTION = (ROOT / "docs" / "language-models.md").read_text().partition("### From a log to a gate")[2]
THREE = SECTION.partition("```\n")[2].partition("```")[0].splitlines()
N = 500


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the page names, of calibrated models."""
    folder = tmp_path_factory.mktemp("skill")
    rng = np.random.default_rng(0)
    for name in ("preds", "val", "old", "new", "unlabelled"):
        rng_rows = np.random.default_rng(1) if name in ("old", "new") else rng
        p, region = rng_rows.beta(0.4, 0.4, N), rng_rows.choice(["north", "south"], N)
        table = pd.DataFrame({"id": range(N), "y": (rng_rows.random(N) < p).astype(int), "prob": p, "region": region})
        if name == "new":
            table["prob"] = 0.8 * p + 0.1
        table.drop(columns=["y", "region"] if name == "unlabelled" else []).to_csv(folder / f"{name}.csv", index=False)
    made = shapes.world(N)
    gold = pd.DataFrame([{"id": f"t{i}", **row} for i, row in enumerate(made.gold)])
    gold.to_csv(folder / "gold.csv", index=False)
    for name in ("decisions", "week"):
        bare = name == "week"
        records: list[dict[str, Any]] = [
            {"custom_id": f"t{i}", "response": {"body": shapes.openai(made, i)}}
            | ({} if bare else {"labels": made.gold[i]})
            for i in range(N)
        ]
        lines(
            folder / f"{name}.jsonl",
            records if not bare else [r | {"labels": g} for r, g in zip(records, made.gold, strict=True)],
        )
    chance = rng.uniform(0.5, 1, N)
    rows = [{"said": f"{100 * c:.0f}%", "correct": bool(rng.random() < c)} for c in chance]
    lines(folder / "answers.jsonl", rows)
    asked = [{"id": i, "answers": rng.choice(list("ab"), 6).tolist(), "target": "a"} for i in range(60)]
    (folder / "samples.jsonl").write_text("\n".join(map(json.dumps, asked)))
    return folder


def runs(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    return run()


def test_the_page_is_one_page_and_names_every_command():
    assert len(PAGE.splitlines()) < 60 and len(COMMANDS) == len(
        re.findall(r"^\| [A-Z].* \| `", PAGE, flags=re.MULTILINE)
    )
    from typer.main import get_command

    from truecal.cli import app as cli

    known = set(get_command(cli.app).commands) - {"demo", "sql"}  # type: ignore[attr-defined]
    assert {command.split()[1] for command in COMMANDS} == known


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_every_line_of_the_page_runs(command, files, monkeypatch, capsys):
    """An earlier line of the page writes the gates that a later one reads."""
    if "--gate gates.json" in command:
        runs(next(c for c in COMMANDS if "--save gates.json" in c), files, monkeypatch)
        capsys.readouterr()
    code = runs(command, files, monkeypatch)
    out = capsys.readouterr()
    assert code in ((3,) if "audit" in command else (0, 3, 4)), out.err
    assert out.out.strip() and "error:" not in out.err


@pytest.mark.slow
def test_from_a_log_to_a_gate_in_three_commands(files, monkeypatch, capsys):
    assert [command.split()[1] for command in THREE] == ["evaluate", "threshold", "gate"]
    codes = [runs(command, files, monkeypatch) for command in THREE]
    assert codes[0] == 0 and codes[1] in (0, 3) and codes[2] in (0, 4)
    assert "wrote gate.json" in capsys.readouterr().err
