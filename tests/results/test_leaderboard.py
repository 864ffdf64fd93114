"""Models on several tasks: means, joint intervals and familywise verdicts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close

pytestmark = pytest.mark.slow


def task(rng: np.random.Generator, n: int = 400, **sharpness: float):
    """Predictions whose log-odds are so many times those of the truth."""
    logits = rng.normal(0, 1.2, n)
    y = rng.random(n) < 1 / (1 + np.exp(-logits))
    models = {name: 1 / (1 + np.exp(-times * logits)) for name, times in sharpness.items()}
    return tc.compare(y, models, errors=["binary"], n_resamples=199)


def test_means_and_pairs(rng):
    tasks = {name: task(rng, honest=1.0, sharp=3.0, flat=0.3) for name in ("a", "b", "c")}
    board = tc.analysis.leaderboard(tasks)
    for model, mean in board.means.items():
        assert_close(mean, float(np.mean([found.evaluations[model].brier for found in tasks.values()])))
    assert next(iter(board.means)) == "honest" and board.best[0] == "honest"
    pair = next(p for p in board.pairs if {p.first, p.second} == {"honest", "sharp"})
    parts = [found.pair(pair.first, pair.second).loss for found in tasks.values()]
    assert_close(pair.estimate, float(np.mean([part.estimate for part in parts])))
    width = np.sqrt(sum(part.se**2 for part in parts)) / 3 * 2.3939798  # normal, .05/6 on each side
    assert_close(np.array([pair.low, pair.high]), pair.estimate + width * np.array([-1.0, 1.0]), tolerance=1e-6)
    assert board.standings["sharp"]["a"].state == "rejected"
    assert "sharp on a (over-confident)" in board.sentences[1]
    assert json.dumps(board.to_dict()) and len(board.rows()) == 3
    assert "mean" in repr(board).splitlines()[1] and "<table>" in board._repr_html_()


def test_a_task_that_not_all_were_run_on_is_left_out_of_the_mean(rng):
    tasks = {"a": task(rng, x=1.0, y=2.0), "b": task(rng, x=1.0)}
    board = tc.analysis.leaderboard(tasks)
    assert board.tasks == ("a",) and "b" in board.losses["x"] and "b" not in board.losses["y"]
    assert board.notes == ("not every model was run on b: the mean leaves them out",)
    assert_close(board.means["x"], board.losses["x"]["a"])


def test_what_cannot_be_ranked_is_refused(rng):
    with pytest.raises(TypeError, match=r"results of tc\.compare"):
        tc.analysis.leaderboard({"a": 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="a task that all were run on"):
        tc.analysis.leaderboard({"a": task(rng, x=1.0), "b": task(rng, y=1.0)})
    chances = rng.dirichlet([1, 1, 1], 60)
    other = tc.compare(chances.argmax(1), {"x": chances, "y": chances}, n_resamples=99)
    with pytest.raises(ValueError, match="'b' is measured by 'classwise' and 'a' by 'binary'"):
        tc.analysis.leaderboard({"a": task(rng, x=1.0, y=2.0), "b": other})


@pytest.mark.slow
@pytest.mark.heavy
def test_the_familywise_rate(rng):
    """Five models of one quality, three tasks: some difference is called real in at most about 5% of boards."""
    false = 0
    for _ in range(60):
        tasks = {}
        for name in "abc":
            logits = rng.normal(0, 1.2, 250)
            y = rng.random(250) < 1 / (1 + np.exp(-logits))
            noisy = {f"m{j}": 1 / (1 + np.exp(-(logits + rng.normal(0, 0.5, 250)))) for j in range(5)}
            tasks[name] = tc.compare(y, noisy, errors=["binary"], n_resamples=99)
        false += min(p.pvalue for p in tc.analysis.leaderboard(tasks).pairs) <= 0.05
    assert false <= 8
