"""Limits of correlations by test rows, from the logits that a run kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reproduction.__main__ import main
from reproduction.rows import PAIRS, row_errors
from reproduction.run import reproduce
from scipy.stats import spearmanr

import truecal as tc


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("run")
    reproduce("tiny", out=out, experiments=("within",), keep_logits=True, summary=False)
    return out


@pytest.mark.heavy
def test_standard_errors_against_plain_loops(run: Path) -> None:
    found = pd.read_csv(row_errors(run, splits=3, seed=5))
    assert len(found) == len(PAIRS)
    table = pd.read_csv(run / "within" / "checkpoints.csv").query("validation_error <= 0.9")
    y = np.load(run / "labels.npz")["test"]
    rng, squares = np.random.default_rng(5), []
    for _ in range(3):
        order, z = rng.permutation(len(y)), []
        for half in (order[: len(y) // 2], order[len(y) // 2 :]):
            wrong, ece = [], []
            for trace, epoch, temperature in table[["trace", "epoch", "temperature"]].itertuples(index=False):
                logits = (
                    np.load(run / "within" / "logits" / trace / f"epoch-{epoch:04d}.npz")["test"][half] / temperature
                )
                proba = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
                wrong.append(tc.classification_error(y[half], proba))
                ece.append(tc.confidence_error(y[half], proba, n_bins=20, strategy="uniform", norm="l1"))
            z.append(np.arctanh(spearmanr(wrong, ece).statistic))
        squares.append((z[0] - z[1]) ** 2)
    line = found.query("error == 'ConfECE' and item1 == 'classification_error' and item2 == 'fix-20'")
    assert line["standard_error"].item() == pytest.approx(np.sqrt(np.mean(squares)) / 2, rel=1e-6)


@pytest.mark.heavy
def test_tables_show_them_from_then_on(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows-from", str(run)]) == 0
    assert capsys.readouterr().out.strip().endswith("rows.csv")
    assert main(["--tables-from", str(run)]) == 0
    table = pd.read_csv(run / "tables" / "spearman.csv")
    known = table.dropna(subset="within_rows_low")  # a half has fewer rows than bins at 2000: no gap there
    binned = table[table["item2"].str.match("qua|fix")]  # halves are not measured without bins
    assert set(binned["item2"]) - set(known["item2"]) <= {"qua-2000"} and len(known) >= 40
    low, r, high = (known[f"within_{name}"].to_numpy() for name in ("rows_low", "r", "rows_high"))
    assert (low <= r + 1e-12).all() and (r <= high + 1e-12).all()
    assert "by test rows" in (run / "RESULTS.md").read_text()
