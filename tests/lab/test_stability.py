"""What the documentation says of the score's order across bin counts is what the committed results show."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from truecal.evaluation.ranking import flips
from truecal.lab.checkpoints import with_scores

ROOT = Path(__file__).parents[2]
COLUMNS = ("ConfECE_fix", "ConfCE_corr_qua", "score_ConfCE_corr_qua", "LinCE_cw_qua", "score_LinCE_cw_qua")
FOLDERS = {
    "letter, one model": "letter/within",
    "letter, across models": "letter/cross",
    "CIFAR-100, one model": "cifar100/within",
    "CIFAR-100, across models": "cifar100/cross",
}


def turned(folder: str) -> list[float]:
    """For each column, the share of pairs of checkpoints that change places between 5, 20 and 2000 bins."""
    table = with_scores(pd.read_csv(ROOT / "results" / folder / "checkpoints.csv"))
    pairs = len(table) * (len(table) - 1) / 2
    return [len(flips(table[[f"{name}_{m}" for m in (5, 20, 2000)]].to_numpy().T)) / pairs for name in COLUMNS]


@pytest.mark.parametrize("name", FOLDERS)
def test_the_score_has_at_most_a_tenth_of_the_flips(name: str) -> None:
    ece, confidence, score, classwise, classwise_score = turned(FOLDERS[name])
    assert score <= 0.1 * min(ece, confidence)
    assert classwise_score <= 0.1 * min(ece, classwise)
    page = (ROOT / "docs" / "score-and-gap.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
    told = [float(number) for number in re.findall(r"([\d.]+)%", row)]
    assert told == [round(100 * share, 1) for share in (ece, confidence, score, classwise, classwise_score)]
