"""explain(): three sentences in plain words that agree with the first screen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal as tc
from command_line import Run


def binary(n: int, temperature: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, n)
    y = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    return y, 1 / (1 + np.exp(-temperature * z))


def test_three_sentences_follow_the_answer():
    yes: Any = tc.evaluate(*binary(20_000, 1.0), n_resamples=99)
    assert yes.standing.answer == "yes" and yes.explain().endswith("Its probabilities can be used as they are.")
    no: Any = tc.evaluate(*binary(3000, 2.0), n_resamples=99)
    assert no.standing.answer == "no" and no.explain().count("\n") == 2
    assert "a calibrated model looks so in at most one sample in 100." in no.explain()
    assert no.explain().endswith("so recalibrate it before anyone relies on them.")
    few: Any = tc.evaluate(*binary(20, 1.0), n_resamples=99)
    assert few.standing.answer == "undecided" and "20 rows cannot tell" in few.explain()
    assert "2 rows are too few to tell" in tc.evaluate([0, 1], [0.2, 0.7]).explain()
    tiny: Any = tc.evaluate(*binary(400_000, 1.05), n_resamples=99)
    assert tiny.standing.answer == "no" and tiny.explain().endswith("which is too little to act on.")


def test_a_comparison_explains_the_best_model():
    y, p = binary(3000, 2.0)
    result = tc.compare(y, {"sharp": p, "true": binary(3000, 1.0)[1]}, n_resamples=99)
    lines = result.explain().splitlines()
    assert lines[0].startswith("true predicts best") and lines[1] == "What to know of true:" and len(lines) == 5


@pytest.mark.slow
def test_the_command_line_prints_the_words_asked_for(tmp_path: Path, truecal: Run, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    y, p = binary(500, 1.0)
    rows = "\n".join(f"{a},{b}" for a, b in zip(y, p, strict=True))
    Path("p.csv").write_text(f"y,p\n{rows}\n")
    found = tc.evaluate(y, p, name="p")
    for option, text in (("explain", found.explain()), ("markdown", found.to_markdown()), ("latex", found.to_latex())):
        code, out, _ = truecal("evaluate", "p.csv", f"--{option}")
        assert code == 0 and out == text + "\n"
    code, _, err = truecal("evaluate", "p.csv", "--latex", "--explain")
    assert code == 2 and "cannot be used together" in err


def test_results_speak_of_classes_by_the_names_of_the_file(tmp_path: Path, truecal: Run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    p = rng.dirichlet([1, 1, 1], 300)
    y = np.array([rng.choice(3, p=row) for row in p])
    rows = "\n".join(",".join(map(str, [*row, label + 3])) for row, label in zip(p, y, strict=True))
    Path("grades.csv").write_text(f"p_3,p_4,p_5,label\n{rows}\n")
    _, out, _ = truecal("evaluate", "grades.csv", "--task", "ordered", "--resamples", "99")
    assert f"happens {y.mean() + 3:.2f}" in out and "3 or below" in out
