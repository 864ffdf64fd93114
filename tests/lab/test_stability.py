"""What README and the documentation say of the paper's experiment is what the committed tables show."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from truecal.evaluation.ranking import flips, spearman
from truecal.lab.checkpoints import with_scores
from truecal.lab.correlations import paper_table

ROOT = Path(__file__).parents[2]
LONG = "cifar100-long"
COLUMNS = ("ConfECE_fix", "ConfCE_corr_qua", "score_ConfCE_corr_qua", "LinCE_cw_qua", "score_LinCE_cw_qua")
FOLDERS = {
    "letter, one model": "letter/within",
    "letter, across models": "letter/cross",
    "CIFAR-100, one model": "cifar100/within",
    "CIFAR-100, across models": "cifar100/cross",
    "CIFAR-100, long, learning rate 0.001": "cifar100-long/within-lr0.001",
    "CIFAR-100, long, learning rate 0.02": "cifar100-long/within-lr0.02",
    "CIFAR-100, long, across models": "cifar100-long/cross",
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


README = (ROOT / "README.md").read_text().partition("## The paper, run again\n")[2].partition("\n## ")[0]
ERRORS = ("ConfECE_fix", "ConfCE_corr_qua", "LinCE_cw_qua", "score_ConfCE_corr_qua", "score_LinCE_cw_qua")
MANY_TO_FEW = (2000, 20, 5)


@cache
def after_warm_up(folder: str, experiment: str) -> pd.DataFrame:
    """The checkpoints of a committed experiment that its tables and figures are made of."""
    root = ROOT / "results" / folder
    table = with_scores(pd.read_csv(root / experiment / "checkpoints.csv"))
    return table[table["validation_error"] <= json.loads((root / "run.json").read_text())["warm_up"]]


def arm(rate: str) -> pd.DataFrame:
    return after_warm_up(LONG, f"within-lr{rate}")


def listed(values: list[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in values)


@pytest.mark.parametrize(("part", "name"), [("within_r", "one other network"), ("cross_r", "across nine networks")])
def test_readme_has_the_papers_own_numbers(part: str, name: str) -> None:
    table = paper_table().query("item1 == 'classification_error'").groupby("error", sort=False)[part].agg(list)
    cells = [listed(table[error]) for error in ("ConfECE", "ConfCE_corr", "LinCE_cw")]
    assert f"| paper, {name} | {' | '.join(cells)} | – | – |" in README


@pytest.mark.parametrize(
    ("experiment", "row", "told"),
    [
        ("within-lr0.001", "learning rate 0.001", "at learning rate 0.001"),
        ("within-lr0.02", "learning rate 0.02", "at learning rate 0.02"),
        ("cross", "across our eight", "across models"),
    ],
)
def test_readme_has_the_correlations_of_the_long_run(experiment: str, row: str, told: str) -> None:
    kept = after_warm_up(LONG, experiment)
    r = [[spearman(kept["classification_error"], kept[f"{error}_{bins}"]) for bins in MANY_TO_FEW] for error in ERRORS]
    assert f"| {row} | {' | '.join(map(listed, r))} |" in README
    first_lines = (ROOT / "results" / LONG / "RESULTS.md").read_text().partition("\n## ")[0]
    assert f"{listed(r[0])} {told}" in first_lines


def test_readme_counts_fractions_and_networks_as_they_were_trained() -> None:
    assert [arm(rate)["fraction"].nunique() for rate in ("0.001", "0.02")] == [12, 12]
    cross = after_warm_up(LONG, "cross")
    assert (cross["model"].nunique(), cross["fraction"].nunique()) == (8, 5)
    assert cross["model"].str.split("@", expand=True).nunique().tolist() == [4, 2]
    text = " ".join(README.split())
    assert "on twelve fractions of the same data, and four networks at two image sizes on five fractions" in text


def test_readme_tells_the_gap_and_its_repair_as_measured() -> None:
    text = " ".join(README.split())
    last = {rate: arm(rate).groupby("trace").last() for rate in ("0.001", "0.02")}
    gap = {rate: table["gap_ConfCE_corr_qua_auto"].median() for rate, table in last.items()}
    assert f"to {gap['0.02']:.1f} points in the median trace ({gap['0.001']:.1f} at the low rate)" in text
    repaired = arm("0.02").dropna(subset="top_ConfECE_fix_5")
    left = repaired.groupby("trace")["top_gap_ConfCE_corr_qua_auto"].last()
    assert len(left) == 10 and f"leaves {left.median():.1f} points of it" in text
    before, after = (
        spearman(repaired["classification_error"], repaired[column])
        for column in ("ConfECE_fix_5", "top_ConfECE_fix_5")
    )
    assert f"takes ECE at 5 bins from {before:.2f} to {after:.2f} on the ten traces" in text


def test_both_arms_have_the_same_traces() -> None:
    """What differs between them is the learning rate, not the choice of data."""
    low, high = (pd.read_csv(ROOT / "results" / LONG / f"within-lr{r}" / "checkpoints.csv") for r in ("0.001", "0.02"))
    assert (low[["trace", "epoch", "fraction"]] == high[["trace", "epoch", "fraction"]]).all(axis=None)


@pytest.mark.parametrize("folder", ["letter", "cifar100", LONG])
def test_the_first_lines_name_the_traces_that_are_there(folder: str) -> None:
    root = ROOT / "results" / folder
    planned = json.loads((root / "run.json").read_text())["traces"]
    there = {path.parent.name for path in root.glob("*/checkpoints.csv")}
    counts = [after_warm_up(folder, name)["trace"].nunique() if name in there else 0 for name in planned]
    told = re.findall(r"(\d+) of (\d+) planned", (root / "RESULTS.md").read_text().partition("\n- ")[0])
    assert told == [(str(count), str(len(traces))) for count, traces in zip(counts, planned.values(), strict=True)]
