"""The command line on logs of language models: next tokens, answers, and several models on several tasks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from truecal.cli.app import app

pytestmark = pytest.mark.slow

LOGS = Path(__file__).parents[2] / "docs" / "logs"
DATE = "2026-01-01T00-00-00.000000"


def run(*arguments: object):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def words(text: str) -> str:
    return " ".join(text.split())


def head(folder: Path, documents: int = 15) -> Path:
    """The first documents of the stored log."""
    import gzip

    lines = gzip.decompress((LOGS / "tokens.jsonl.gz").read_bytes()).splitlines(keepends=True)[:documents]
    (folder / "tokens.jsonl").write_bytes(b"".join(lines))
    return folder / "tokens.jsonl"


def test_next_tokens_with_segments(tmp_path):
    found = run("evaluate", head(tmp_path), "--segments", "position,frequency", "--resamples", 199)
    assert found.exit_code == 0, found.output
    assert "documents, which are groups" in words(found.stdout) and "segments of 2 features" in words(found.stdout)


def test_next_tokens_in_one_pass(tmp_path):
    path = head(tmp_path)
    found = run("evaluate", path, "--one-pass", "--json", tmp_path / "out.json")
    assert found.exit_code == 0, found.output
    result = json.loads((tmp_path / "out.json").read_text())
    assert result["n_samples"] == 15 * 319 and "15 images or groups" in words(found.stdout)
    refused = run("evaluate", path, "--one-pass", "--segments", "position")
    assert refused.exit_code == 2 and "cannot be used with" in words(refused.stderr)


def test_generated_tokens_are_refused_unless_they_are_said_to_be_observed(tmp_path):
    step = {"token": "a", "logprob": -0.2, "top_logprobs": [{"token": "a", "logprob": -0.2}]}
    lines = [json.dumps({"choices": [{"logprobs": {"content": [step] * 5}}]})] * 4
    (tmp_path / "chat.jsonl").write_text("\n".join(lines))
    found = run("evaluate", tmp_path / "chat.jsonl")
    assert "calibrated by construction" in words(str(found.exception))
    assert run("evaluate", f"{tmp_path / 'chat.jsonl'}:tokens").exit_code == 0


def write_runs(folder: Path, rng: np.random.Generator, n: int = 120) -> None:
    """Two models on two tasks as lm-evaluation-harness leaves them: a folder per model, results and samples."""
    tasks = {}
    for task in ("arc", "mmlu"):
        logits = rng.normal(0, 1.5, (n, 4))
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        tasks[task] = logits, [int(rng.choice(4, p=row)) for row in chances]
    for model, times in (("org/honest", 1.0), ("org/sharp", 4.0)):
        place = folder / model.replace("/", "__")
        place.mkdir(parents=True)
        (place / f"results_{DATE}.json").write_text(json.dumps({"results": {}, "configs": {}, "model_name": model}))
        for task, (logits, answers) in tasks.items():
            lines = [
                {"doc_id": i, "target": str(y), "filter": "none", "filtered_resps": [[v, False] for v in row]}
                for i, (row, y) in enumerate(zip((times * logits).tolist(), answers, strict=True))
            ]
            (place / f"samples_{task}_{DATE}.jsonl").write_text("\n".join(map(json.dumps, lines)))


def test_a_leaderboard_of_a_folder(tmp_path, rng):
    write_runs(tmp_path / "runs", rng)
    found = run("compare", tmp_path / "runs", "--json", tmp_path / "out.json", "--csv", tmp_path / "out.csv")
    assert found.exit_code == 0, found.output
    assert "2 models, 2 tasks: loss, lower is better" in found.stdout
    assert "org/honest predicts best on average over 2 tasks" in words(found.stdout)
    assert "org/sharp on arc (over-confident), org/sharp on mmlu (over-confident)" in words(found.stdout)
    board = json.loads((tmp_path / "out.json").read_text())
    assert board["tasks"] == ["arc", "mmlu"] and [row["rank"] for row in board["rows"]] == [1, 2]
    assert (tmp_path / "out.csv").read_text().startswith("task,model,")
    refused = run("compare", tmp_path / "runs", "--by", "doc_id")
    assert refused.exit_code == 2 and "several tasks" in words(refused.stderr)


def test_results_of_one_task_are_compared_as_before(tmp_path, rng):
    write_runs(tmp_path / "runs", rng)
    for path in tmp_path.rglob("samples_mmlu*"):
        path.unlink()
    results = sorted(tmp_path.rglob("results_*.json"))
    found = run("compare", *results)
    assert found.exit_code == 0 and "2 models, 120 samples" in found.stdout


def test_two_logs_of_one_run_are_refused(tmp_path, rng):
    write_runs(tmp_path / "runs", rng)
    place = tmp_path / "runs" / "org__sharp"
    later = DATE.replace("2026", "2027")
    for path in list(place.iterdir()):
        (place / path.name.replace(DATE, later)).write_bytes(path.read_bytes())
    found = run("compare", tmp_path / "runs")
    assert "expected one log per model and task" in words(str(found.exception))
    (place / f"samples_arc_{later}.jsonl").unlink()
    (place / f"samples_mmlu_{later}.jsonl").unlink()
    found = run("compare", place / f"results_{later}.json", place / f"results_{DATE}.json")
    assert "run lm_eval with --log_samples" in words(str(found.exception))
