"""Files of predictions, and the command run on them in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_line import Run
from truecal.cli import app


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two models in different formats, labels apart, logits with a validation part, a binary model."""
    monkeypatch.chdir(tmp_path)
    n, k = 300, 4
    scores = rng.standard_normal((2 * n, k)) * 1.5
    proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = (proba.cumsum(axis=1) < rng.random((2 * n, 1))).sum(axis=1)
    sharp = proba**4 / (proba**4).sum(axis=1, keepdims=True)
    test, val = slice(0, n), slice(n, None)
    np.savez("good.npz", probs=proba[test], labels=y[test])
    frame = pd.DataFrame(sharp[test], columns=[f"prob_{j}" for j in range(k)])
    frame.insert(0, "label", y[test])
    frame.to_csv("sharp.csv", index=False)
    frame.to_parquet("sharp.parquet")
    np.save("y.npy", y[test])
    np.savez("sharp-logits.npz", logits=4 * scores[test], labels=y[test])
    np.savez("sharp-val.npz", logits=4 * scores[val], labels=y[val])
    top = proba[test].argmax(axis=1)
    pd.DataFrame({"label": y[test], "prediction": top, "confidence": proba[test].max(axis=1)}).to_csv(
        "top.csv", index=False
    )
    chance = rng.random(n)
    pd.DataFrame({"label": (rng.random(n) < chance).astype(int), "prob": chance}).to_csv("binary.csv", index=False)
    return tmp_path


@pytest.fixture
def truecal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `truecal` with arguments: the exit code, and what it wrote to standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["truecal", *arguments])
            code = app.run()
        out = capsys.readouterr()
        return code, out.out, out.err

    return run
