"""One score: every entry point gives the same number for the same data, with and without weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal
from closeness import assert_close
from command_line import Run

tc: Any = truecal  # what a test hands in need not be of the right type

N = 400


@pytest.fixture(params=[2, 3, pytest.param(100, marks=pytest.mark.heavy)], ids=lambda k: f"{k} classes")
def data(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    """Labels of every class, and probabilities."""
    rng = np.random.default_rng(request.param)
    p = rng.dirichlet(np.ones(request.param), N)
    y = (p.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1).clip(0, request.param - 1)
    y[: request.param] = np.arange(request.param)
    return y, p


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def weights(request: pytest.FixtureRequest) -> np.ndarray | None:
    return np.random.default_rng(5).random(N) + 0.5 if request.param else None


def headline(p: np.ndarray) -> str:
    return "binary" if p.shape[1] == 2 else "classwise"


@pytest.mark.slow
def test_functions_and_results(data, weights):
    y, p = data
    score = tc.score(y, p, sample_weight=weights)
    found = tc.evaluate(y, p, sample_weight=weights, errors=[headline(p)], n_resamples=99)
    assert_close(found.score, score)
    assert_close(found.loss("brier").value + found.score_gap, score)
    assert_close(found.loss("brier").value, tc.brier(y, p, sample_weight=weights))
    assert_close(tc.decompose(y, p, sample_weight=weights).score, score)
    assert_close(tc.confidence_interval(y, p, what="score", sample_weight=weights).estimate, score)
    both = tc.compare(y, {"a": p, "b": p}, sample_weight=weights, errors=[headline(p)], n_resamples=99)
    assert_close(both.leaderboard()[1]["score"], score)


@pytest.mark.slow
def test_two_classes_as_one_column_or_two(weights):
    rng = np.random.default_rng(0)
    u = rng.random(N)
    y, two = (rng.random(N) < u).astype(int), np.column_stack([1 - u, u])
    assert_close(tc.score(y, u, sample_weight=weights), tc.score(y, two, sample_weight=weights))
    one, both = (tc.evaluate(y, p, sample_weight=weights, n_resamples=99) for p in (u, two))
    assert_close(one.to_dict(), both.to_dict(), 1)
    assert one.gap.direction == both.gap.direction and one.kind == both.kind == "binary"


@pytest.mark.slow
def test_scorer(data, weights):
    y, p = data

    class Fixed:
        classes_ = np.arange(p.shape[1])

        def predict_proba(self, X: np.ndarray) -> np.ndarray:
            return p[X]

    scored = tc.scorer("score")(Fixed(), np.arange(N), y, sample_weight=weights)
    assert_close(-scored, tc.score(y, p, sample_weight=weights))


@pytest.mark.slow
def test_stream_table_and_torchmetrics(data, weights):
    """They need cells that are fixed before the labels: quantile edges of the same predictions are the same cells."""
    y, p = data
    stream = tc.stream()
    stream.observe(p)
    stream.freeze()
    for rows in np.array_split(np.arange(N), 3):
        stream.update(y[rows], p[rows], sample_weight=None if weights is None else weights[rows])
    score = tc.score(y, p, sample_weight=weights)
    assert_close(stream.result().score, score, 1)
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchmetrics")
    from truecal.adapters.torchmetrics import CalibrationMetric

    metric = CalibrationMetric(num_classes=p.shape[1])
    for rows in np.array_split(np.arange(N), 2):
        w = None if weights is None else torch.tensor(weights[rows])
        metric.update(torch.tensor(p[rows]), torch.tensor(y[rows]), w)
    assert_close(metric.compute().item(), score, 1)


@pytest.mark.slow
def test_command_line_and_report(data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truecal: Run):
    y, p = data
    monkeypatch.chdir(tmp_path)
    np.savez("preds.npz", y_true=y, y_proba=p)
    options = ("--json", "out.json", "--html", "out.html", "--resamples", "99", "--errors", headline(p))
    code, out, _ = truecal("evaluate", "preds.npz", *options)
    score = tc.score(y, p)
    assert code == 0 and f"  score         {score:.4f} = Brier " in out
    assert_close(json.loads(Path("out.json").read_text())["score"], score)
    assert f"{score:.4f}" in Path("out.html").read_text()
