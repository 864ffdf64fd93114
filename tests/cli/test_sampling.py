"""The command line with sampled answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from command_line import Run


@pytest.fixture
def answers(tmp_path: Path, rng: np.random.Generator) -> Path:
    """A calibrated model, asked six times."""
    chances = rng.dirichlet([0.5] * 4, 120)
    drawn = (chances.cumsum(1)[:, None] < rng.random((120, 7, 1))).sum(2).clip(0, 3)
    rows = [
        {"id": f"q{i}", "answer": "ABCD"[a], "correct": bool(a == own[6]), "target": f"({'abcd'[own[6]]})"}
        for i, own in enumerate(drawn)
        for a in own[:6]
    ]
    path = tmp_path / "samples.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


OPTIONS = ("--samples", "answer", "--question", "id", "--correct", "correct")


@pytest.mark.slow
def test_text_json_and_html(answers: Path, tmp_path: Path, truecal: Run) -> None:
    out, page, table, picture = (tmp_path / name for name in ("a.json", "a.html", "a.csv", "a.png"))
    wanted = ("--json", str(out), "--html", str(page), "--csv", str(table), "--plot", str(picture))
    code, shown, _ = truecal("evaluate", str(answers), *OPTIONS, *wanted)
    assert code == 0 and "120 questions, 6 answers each" in shown
    assert "The majority share" in shown
    found = json.loads(out.read_text())
    rows = [json.loads(line) for line in answers.read_text().splitlines()]
    marks = [row["correct"] for row in rows]
    result = tc.from_samples([row["answer"] for row in rows], marks, questions=[row["id"] for row in rows])
    assert result.gap is not None and result.sampling is not None
    assert_close(found["score"], result.score)
    assert_close(found["gaps"]["top_label"]["points"], result.gap.points)
    assert_close(found["sampling"]["naive_gap"], result.sampling.naive_gap)
    text = page.read_text()
    assert "120 questions" in text and "6 answers each" in text and "majority share" in text
    assert "confidence_loss" in table.read_text() and picture.read_bytes().startswith(b"\x89PNG")


def test_references_are_compared_by_the_normaliser(answers: Path, truecal: Run) -> None:
    by_mark = truecal("evaluate", str(answers), *OPTIONS)[1]
    by_reference = truecal("evaluate", str(answers), *OPTIONS[:4], "--reference", "target")[1]
    assert by_mark.split("note")[0] == by_reference.split("note")[0]
    assert "(b)" in answers.read_text() and '"B"' in answers.read_text()


def test_one_error_that_names_the_question(answers: Path, truecal: Run) -> None:
    with answers.open("a") as file:
        file.write('\n{"id": "late", "answer": "A", "correct": true}')
    code, _, error = truecal("evaluate", str(answers), *OPTIONS)
    assert code == 1 and "question 'late' has 1 answer: sample each question at least 4 times" in error
    assert "samples.jsonl: " in error


@pytest.mark.parametrize(
    "options", [("--task", "ordered"), ("--labels", "y.npy"), ("--advise",), ("--weights", "w"), ("--segments", "a")]
)
def test_options_that_cannot_apply(answers: Path, truecal: Run, options: tuple[str, ...]) -> None:
    code, _, error = truecal("evaluate", str(answers), *OPTIONS, *options)
    assert code == 2 and "cannot apply to sampled answers or stated" in " ".join(error.replace("│", " ").split())
    assert options[0] in error


def test_repeats_of_the_harness_need_no_options(tmp_path: Path, truecal: Run, rng: np.random.Generator) -> None:
    path = tmp_path / "samples_task.jsonl"
    with path.open("w") as file:
        for i in range(30):
            texts = [str(a) for a in rng.integers(0, 3, 5)]
            line = {"doc_id": i, "target": "1", "resps": [texts], "filtered_resps": texts, "filter": "none"}
            file.write(json.dumps(line) + "\n")
    code, shown, _ = truecal("evaluate", str(path))
    assert code == 0 and "30 questions, 5 answers each" in shown
    code, shown, _ = truecal("evaluate", str(path), "--bins", "2", "--resamples", "99", "--seed", "3")
    assert code == 0
    code, _, error = truecal("evaluate", str(path), "--bins", "2,3")
    assert code == 2 and "takes one number" in error


def test_a_list_of_answers_without_options_says_what_to_do(tmp_path: Path, truecal: Run) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"id": i, "answers": [0, 0, 1, 0], "label": 2}) for i in range(9)))
    code, _, error = truecal("evaluate", str(path))
    assert code == 1 and "pass --samples answers --question ID and --correct or --reference COLUMN" in error


def test_stated_confidence_in_text(tmp_path: Path, truecal: Run, rng: np.random.Generator) -> None:
    right = rng.random(80) < 0.5
    said = ["I am 90% sure.", "Confidence: 80", "no idea", "almost certain"] * 20
    rows = [
        {"q": i // 2, "said": text, "correct": bool(hit)} for i, (text, hit) in enumerate(zip(said, right, strict=True))
    ]
    path = tmp_path / "stated.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    code, shown, _ = truecal("evaluate", str(path), "--confidence", "said", "-v")
    assert code == 0 and "60 samples" in shown and "20 of 80 rows (25.0%) state no confidence" in shown
    assert "over-confident" in shown
    table = tmp_path / "stated.csv"
    table.write_text(
        "\n".join(["said,correct", *(f"{text},{int(hit)}" for text, hit in zip(said, right, strict=True))])
    )
    assert truecal("evaluate", str(table), "--confidence", "said", "-v")[1].replace("stated.csv", "") == shown
    code, _, _ = truecal("evaluate", str(path), "--confidence", "said", "--question", "q")
    assert code == 0
    code, _, error = truecal("evaluate", str(path), "--confidence", "text")
    assert code == 1 and "expected the column 'text' (--confidence), found 'correct', 'q', 'said'" in error
    code, _, error = truecal("evaluate", str(path), "--confidence", "q", "--correct", "said")
    assert code == 1 and "correct must be true or false" in error
    code, _, error = truecal("evaluate", str(path), "--confidence", "said", "--samples", "said")
    assert code == 2 and "cannot apply beside --confidence" in " ".join(error.replace("│", " ").split())


def test_stated_numbers_of_a_table(tmp_path: Path, truecal: Run) -> None:
    table = tmp_path / "stated.csv"
    table.write_text("\n".join(["said,correct", *["0.9,1", "0.85,0", "0.5,1"] * 20]))
    code, shown, _ = truecal("evaluate", str(table), "--confidence", "said")
    assert code == 0 and "60 samples" in shown and "75.0%" in shown
