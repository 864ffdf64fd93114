"""What the documentation says of the experiment of the paper is what the committed tables show."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from reproduction.checkpoints import LOSSES, with_scores
from reproduction.correlations import correlation, paper_table, rank_correlations

from truecal.results.ranking import flips

ROOT = Path(__file__).parents[2]
LONG, FULL = "cifar100-long", "cifar100-224"
COLUMNS = ("ConfECE_fix", "ConfCE_corr_qua", "score_ConfCE_corr_qua", "LinCE_cw_qua", "score_LinCE_cw_qua")
FOLDERS = {
    "letter, one model": "letter/within",
    "letter, across models": "letter/cross",
    "CIFAR-100, one model": "cifar100/within",
    "CIFAR-100, across models": "cifar100/cross",
    "CIFAR-100, long, learning rate 0.001": "cifar100-long/within-lr0.001",
    "CIFAR-100, long, learning rate 0.02": "cifar100-long/within-lr0.02",
    "CIFAR-100, long, across models": "cifar100-long/cross",
    "CIFAR-100, 224 pixels, one model": "cifar100-224/within",
}


def turned(folder: str) -> list[float]:
    """For each column, the share of pairs of checkpoints that change places between 5, 20 and 2000 bins."""
    table = with_scores(pd.read_csv(ROOT / "results" / folder / "checkpoints.csv"))
    pairs = len(table) * (len(table) - 1) / 2
    return [len(flips(table[[f"{name}_{m}" for m in (5, 20, 2000)]].to_numpy().T)) / pairs for name in COLUMNS]


@pytest.mark.slow
def test_the_score_has_at_most_a_sixth_of_the_flips() -> None:
    shares = np.array([turned(FOLDERS[name]) for name in FOLDERS])
    ece, confidence, score, classwise, classwise_score = shares.T
    assert (score <= np.minimum(ece, confidence) / 6).all()
    assert (classwise_score <= np.minimum(ece, classwise) / 6).all()
    page = (ROOT / "docs" / "theory.md").read_text()
    row = next(line for line in page.splitlines() if line.startswith("| eight experiments |"))
    ends = zip(100 * shares.min(axis=0), 100 * shares.max(axis=0), strict=True)
    assert len(FOLDERS) == 8 and [cell.strip() for cell in row.split("|")[2:-1]] == [
        f"{low:.1f}% to {high:.1f}%" for low, high in ends
    ]


def section(page: str, heading: str) -> str:
    """The text of a section up to the next one."""
    text = (ROOT / page).read_text()
    assert f"## {heading}\n" in text
    return text.partition(f"## {heading}\n")[2].partition("\n## ")[0]


RESULTS = section("docs/reproduce.md", "Results: the paper's experiment, smaller")
WORDS = " ".join(RESULTS.split())
ERRORS = ("ConfECE_fix", "ConfCE_corr_qua", "LinCE_cw_qua")
MANY_TO_FEW = (2000, 20, 5)
RUNS = {  # in the table of docs/reproduce.md: folder, experiment and prefix of the columns
    "**the paper's setting**": (FULL, "within", ""),
    "its calibrated twins": (FULL, "within", "twin_"),
    "learning rate 0.001": (LONG, "within-lr0.001", ""),
    "learning rate 0.02": (LONG, "within-lr0.02", ""),
    "across networks": (LONG, "cross", ""),
}


@cache
def after_warm_up(folder: str, experiment: str) -> pd.DataFrame:
    """The checkpoints of a committed experiment that its tables and figures are made of."""
    root = ROOT / "results" / folder
    table = with_scores(pd.read_csv(root / experiment / "checkpoints.csv"))
    return table[table["validation_error"] <= json.loads((root / "run.json").read_text())["warm_up"]]


def arm(rate: str) -> pd.DataFrame:
    return after_warm_up(LONG, f"within-lr{rate}")


def listed(values: list[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in values)


def correlations(folder: str, experiment: str, prefix: str, error: str) -> list[float]:
    kept = after_warm_up(folder, experiment)
    return [correlation(kept, f"{prefix}classification_error", f"{prefix}{error}_{bins}") for bins in MANY_TO_FEW]


def cells(row: str) -> list[str]:
    """A row of the documentation's table: what was trained, then the numbers."""
    (line,) = (line for line in RESULTS.splitlines() if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


@pytest.mark.parametrize(("part", "row"), [("within_r", "paper, one network"), ("cross_r", "paper, across networks")])
def test_docs_have_the_papers_own_numbers(part: str, row: str) -> None:
    table = paper_table().query("item1 == 'classification_error'").groupby("error", sort=False)[part].agg(list)
    assert cells(row)[1:] == [listed(table[error]) for error in ("ConfECE", "ConfCE_corr", "LinCE_cw")]


@pytest.mark.slow
@pytest.mark.parametrize("row", RUNS)
def test_docs_have_the_correlations_of_the_runs(row: str) -> None:
    folder, experiment, prefix = RUNS[row]
    kept, told = after_warm_up(folder, experiment), cells(row)
    r = [correlations(folder, experiment, prefix, error) for error in ERRORS]
    assert told[1:] == [*map(listed, r)]
    assert f"{correlation(kept, f'{prefix}classification_error', f'{prefix}brier'):.2f}" == "1.00"
    scores = [correlations(folder, experiment, prefix, f"score_{error}") for error in ERRORS[1:]]
    assert np.min(scores) >= 0.99  # both in the sentence on the Brier score
    if not prefix:
        assert f"{kept['epoch'].max()} epochs, {kept['trace'].nunique()} traces" in told[0]
        first_lines = (ROOT / "results" / folder / "RESULTS.md").read_text().partition("\n## ")[0]
        assert listed(r[0]).replace(",", " /") in first_lines


@pytest.mark.slow
def test_docs_name_networks_and_pixels_as_they_were_trained() -> None:
    assert {str(model) for model in after_warm_up(FULL, "within")["model"]} == {"mobilenetv2_100"}
    assert json.loads((ROOT / "results" / FULL / "run.json").read_text())["settings"]["image_size"] == 224
    assert cells("**the paper's setting**")[0].startswith("mobilenetv2_100, 224 px")
    assert {str(model) for rate in ("0.001", "0.02") for model in arm(rate)["model"]} == {"tf_efficientnet_lite0@64"}
    models = after_warm_up(LONG, "cross")["model"].str.split("@", expand=True)
    assert models.nunique().tolist() == [4, 2] and set(models[1]) == {"64", "96"}
    assert cells("across networks")[0].startswith("four networks at 64 and 96 px")


def test_docs_tell_which_signs_are_open_in_the_papers_setting() -> None:
    table = pd.read_csv(ROOT / "results" / FULL / "tables" / "spearman.csv").query("item1 == 'classification_error'")
    shown = table[
        [f"{error}_{item}".startswith(ERRORS) for error, item in table[["error", "item2"]].itertuples(index=False)]
    ]
    limits = {
        (row["error"], row["item2"]): [[row[f"within_{key}{end}"] for end in ("low", "high")] for key in ("", "rows_")]
        for row in shown.to_dict("records")
    }
    left_open = {line for line, both in limits.items() if any(low <= 0 <= high for low, high in both)}
    assert left_open == {("ConfECE", "fix-5"), ("ConfECE", "fix-20"), ("ConfCE_corr", "qua-5")}
    traces, rows = (f"[{low:.2f}, {high:.2f}]" for low, high in limits["ConfECE", "fix-5"])
    assert f"The sign at 5 bins is open: the 95% limits are {traces} by traces and {rows} by test rows" in WORDS
    assert "Those of ECE at 20 bins and of ConfCE^corr at 5 are open too" in WORDS


def test_docs_tell_the_gap_and_its_repair_as_measured() -> None:
    last = {rate: arm(rate).groupby("trace").last() for rate in ("0.001", "0.02")}
    gap = {rate: table["gap_ConfCE_corr_qua_auto"].median() for rate, table in last.items()}
    assert f"to {gap['0.02']:.1f} points in the median trace ({gap['0.001']:.1f} at the low rate)" in WORDS
    repaired = arm("0.02").dropna(subset="top_ConfECE_fix_5")
    left = repaired.groupby("trace")["top_gap_ConfCE_corr_qua_auto"].last()
    assert len(left) == 10 and f"leaves {left.median():.1f} points of the gap" in WORDS
    before, after = (
        correlation(repaired, "classification_error", column) for column in ("ConfECE_fix_5", "top_ConfECE_fix_5")
    )
    assert f"takes ECE at 5 bins from {before:.2f} to {after:.2f} on the ten traces" in WORDS


def test_docs_tell_the_limits_at_the_high_rate() -> None:
    table = pd.read_csv(ROOT / "results" / LONG / "tables" / "spearman.csv")
    (line,) = table.query("item1 == 'classification_error' and error == 'ConfECE' and item2 == 'fix-5'").to_dict(
        "records"
    )
    low, high = (line[f"within-lr0.02_{end}"] for end in ("low", "high"))
    assert f"at 5 bins with limits [{low:.2f}, {high:.2f}] by traces" in WORDS


def test_docs_tell_how_far_losses_agree() -> None:
    runs = [after_warm_up(folder, experiment) for folder, experiment, prefix in RUNS.values() if not prefix]
    lowest = min(rank_correlations(kept[list(LOSSES)].to_numpy()).min() for kept in runs)
    (told,) = re.findall(r"the five losses agree \(rank correlation at least (0\.\d+)\)", WORDS)
    assert 0 <= lowest - float(told) < 0.001


def test_docs_tell_what_is_seen_where_the_theorem_does_not_apply() -> None:
    words = " ".join(section("docs/reproduce.md", "Does the theorem apply?").split())
    told = {
        folder: (ROOT / "results" / folder / "RESULTS.md").read_text() for folder in ("letter", "cifar100", LONG, FULL)
    }
    three = r"(\S+) / (\S+) / (\S+)"
    line = rf"rank correlation with it at 2000 / 20 / 5 bins: ConfCE_corr {three}; LinCE_cw {three}\.\n"
    found = {folder: [list(map(float, row)) for row in re.findall(line, text)] for folder, text in told.items()}
    every = [row for rows in found.values() for row in rows]
    assert len(every) == 8
    least = min(min(row[0], row[3]) for row in every), min(min(row[4:]) for row in every)
    assert 0 <= least[0] - 0.995 < 0.005 and "the chain of dominance 0.995 or more" in words
    assert 0 <= least[1] - 0.78 < 0.01 and "most of it (0.78 or more)" in words
    falls = found[FULL][0][2], min(row[2] for row in found[LONG])
    assert falls == pytest.approx((0.61, -0.47), abs=0.006)
    assert "falls to 0.61 in the paper's setting and to -0.47 at the high rate" in words


@pytest.mark.slow
def test_at_most_bins_every_run_is_near_the_calibrated_line() -> None:
    for folder in FOLDERS.values():
        kept = after_warm_up(*folder.split("/"))
        for error, loss in (("ConfCE_corr", kept["confidence_loss"]), ("LinCE_cw", kept["brier"] / kept["n_classes"])):
            assert abs(kept[f"U_{error}_qua_2000"].mean()) < loss.mean() / 10  # a tenth of the loss, says the page
    assert "at 2000 bins U is below a tenth of the loss" in " ".join(
        (ROOT / "docs" / "reproduce.md").read_text().split()
    )


@pytest.mark.slow
def test_both_arms_have_the_same_traces() -> None:
    """What differs between them is the learning rate, not the choice of data."""
    low, high = (pd.read_csv(ROOT / "results" / LONG / f"within-lr{r}" / "checkpoints.csv") for r in ("0.001", "0.02"))
    assert (low[["trace", "epoch", "fraction"]] == high[["trace", "epoch", "fraction"]]).all(axis=None)


@pytest.mark.parametrize("folder", ["letter", "cifar100", LONG, FULL])
def test_the_first_lines_name_the_traces_that_are_there(folder: str) -> None:
    root = ROOT / "results" / folder
    planned = json.loads((root / "run.json").read_text())["traces"]
    there = {path.parent.name for path in root.glob("*/checkpoints.csv")}
    counts = [after_warm_up(folder, name)["trace"].nunique() if name in there else 0 for name in planned]
    told = re.findall(r"(\d+) of (\d+) planned", (root / "RESULTS.md").read_text().partition("\n- ")[0])
    assert told == [(str(count), str(len(traces))) for count, traces in zip(counts, planned.values(), strict=True)]
