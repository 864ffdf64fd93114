"""The studies on tabular data: choices and changes of place by hand, and one data set from end to end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reproduction.__main__ import main

from reproduction import maps, places


def test_choices_of_every_criterion_by_hand() -> None:
    about = {"dataset": ["a"] * 3, "model": ["m"] * 3, "seed": [0] * 3, "map": [maps.NONE, "A", "HistogramBinning"]}
    values: dict[str, Any] = {criterion: [3.0, 1.0, 2.0] for criterion in maps.CRITERIA}
    values["ECE (15 bins)"] = [3.0, 2.0, 1.0]
    values |= {"keeps": [True, False, True], "seconds": [0.0] * 3}
    values |= {"test Brier": [0.2, 0.1, 0.3], "test log loss": [0.5, 0.4, 0.9]}
    chosen = maps.choices(pd.DataFrame(about | values)).set_index("criterion")
    assert chosen.loc["ECE (15 bins)", "map"] == "HistogramBinning" and chosen.loc["ECE (15 bins)", "pooling"]
    assert chosen.loc["log loss", "map"] == "A" and chosen.loc[maps.GUARDED, "map"] == maps.NONE
    assert chosen.loc["ECE (15 bins)", "regret in Brier"] == pytest.approx(0.2)
    assert chosen.loc["never a map", "regret in log loss"] == pytest.approx(0.1)
    assert chosen["worse than none in Brier"].tolist() == [True] + [False] * (len(chosen) - 1)


def test_every_part_of_a_data_set_has_every_class() -> None:
    y = np.repeat([0, 1, 2], [500, 40, 10])
    parts = maps.split(y, 0)
    assert sorted(np.concatenate(parts)) == list(range(550))
    assert all(set(y[rows]) == {0, 1, 2} for rows in parts)


def test_changed_places_by_hand() -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 1.0])
    assert places.changed(a, b) == pytest.approx(2 / 3)  # the tie in b is no change
    assert places.changed(a, a) == 0


@pytest.mark.slow
def test_both_studies_run_on_a_data_set_of_scikit_learn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every, followed = maps.candidates(), places.classifiers(0)
    chosen = {name: every[name] for name in ("TemperatureScaling", "HistogramBinning")}
    monkeypatch.setattr(maps, "candidates", lambda: chosen)
    one = {"naive Bayes": maps.classifiers(0)["naive Bayes"]}
    monkeypatch.setattr(maps, "classifiers", lambda seed: one)
    monkeypatch.setattr(places, "classifiers", lambda seed: {"forest": followed["forest"]})
    for study, table in (("maps", "criteria.csv"), ("places", "places.csv")):
        out, more = tmp_path / study, ["--seeds", "1"] if study == "maps" else []
        assert main([study, "--out", str(out), "--only", "breast_cancer", *more]) == 0
        assert {"RESULTS.md", "figure.png", table} <= {path.name for path in out.iterdir()}
    assert "| score |" in (tmp_path / "places" / "RESULTS.md").read_text()


def test_an_empty_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for study in ("maps", "places"):
        assert main([study, "--out", str(tmp_path), "--tables"]) == 1
        assert f"run python -m reproduction {study}" in capsys.readouterr().err


ROOT = Path(__file__).parents[2]
EXPERIMENTS = {  # in the table of docs/reproduce.md: the folder, and which of its experiments
    "the paper's setting": ("cifar100-224", 0),
    "learning rate 0.001": ("cifar100-long", 0),
    "learning rate 0.02": ("cifar100-long", 1),
    "across networks, 64 and 96 px": ("cifar100-long", 2),
    "one network, 128 px": ("cifar100", 0),
    "nine variants of it": ("cifar100", 1),
    "letter, one perceptron": ("letter", 0),
    "letter, nine perceptrons": ("letter", 1),
}


@pytest.mark.parametrize("title", EXPERIMENTS)
def test_the_page_shows_how_far_each_run_is_from_calibrated(title: str) -> None:
    folder, place = EXPERIMENTS[title]
    told = (ROOT / "results" / folder / "RESULTS.md").read_text()
    page = (ROOT / "docs" / "reproduce.md").read_text()
    section = page.partition("## Does the theorem apply?")[2].partition("\n## ")[0]
    row = next(line for line in section.splitlines() if line.startswith(f"| {title} |"))
    cells = [cell.strip() for cell in row.split("|")[2:6]]
    wanted = []
    for error in ("ConfCE_corr", "LinCE_cw"):
        mean = re.findall(rf"{error} at 5 bins: mean U is \+([\d.]+)% of the mean loss", told)[place]
        pairs = re.findall(rf"^\| {error} \| 5 \|.*\| ([\d.]+%) \|$", told, flags=re.MULTILINE)[place]
        wanted += [float(mean), pairs]
    assert [cells[1], cells[3]] == [wanted[1], wanted[3]]
    assert [float(cells[0][:-1]), float(cells[2][:-1])] == pytest.approx([wanted[0], wanted[2]], abs=0.51)
    assert len(re.findall("nearly calibrated: does not hold", told)) > place  # the sentence above the table
