"""What each criterion chooses in CalArena's files: a small copy by hand, and pages that show the stored numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reproduction.__main__ import main
from reproduction.calarena import choices, read_benchmark, shares, win_rates

ROOT = Path(__file__).parents[2]
VALUES = {  # per map: Brier, log loss and ECE of two experiments on one data set and one on another
    "Base-model": ([0.20, 0.30, 0.10], [0.6, 0.7, 0.3], [0.05, 0.04, 0.03]),
    "Hist-uniform": ([0.25, 0.29, 0.11], [0.8, 0.9, np.nan], [0.01, 0.01, 0.01]),
    "TS": ([0.19, 0.31, 0.10], [0.5, 0.6, 0.2], [0.03, 0.02, 0.02]),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "results" / "tabrepo-binary"
    made.mkdir(parents=True)
    for name, (brier, log, ece) in VALUES.items():
        about = {"dataset": ["a", "a", "b"], "model": ["x", "y", "x"]}
        metrics = {f"{name}_brier": brier, f"{name}_logloss": log, f"{name}_ece-15": ece}
        pd.DataFrame(about | metrics).to_csv(made / f"{name}.csv", index=False)
    return tmp_path


def test_choices_and_their_shares(folder: Path) -> None:
    tables = read_benchmark(folder / "results" / "tabrepo-binary")
    found = choices("tabrepo-binary", tables)
    assert found[found["criterion"] == "ece-15"]["map"].tolist() == ["Hist-uniform"] * 3
    assert found[found["criterion"] == "logloss"]["map"].tolist() == ["TS"] * 3
    table: Any = shares(found).set_index(["benchmark", "criterion"])
    row = table.loc[("all", "ece-15")]
    assert row["worse"] == pytest.approx(2 / 3) and row["worse by 1%"] == pytest.approx(2 / 3) and row["binning"] == 1
    assert table.loc[("all", "logloss"), "worse"] == pytest.approx(1 / 3)
    assert np.isnan(row["worse, low"])  # two data sets give no limits
    tables["brier"]["CB-tiny"] = 0.0  # an ablation
    rates = win_rates("tabrepo-binary", tables).set_index("map")["win rate"]
    assert rates["TS"] == pytest.approx((1 + 0 + 0.5) / 3) and rates["Base-model"] == pytest.approx(
        (0.5 + 0.5 + 0.5) / 3
    )


@pytest.mark.slow
def test_the_command_writes_tables_and_a_figure(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calarena", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        *("RESULTS.md", "choices.csv", "figure.png", "winrates.csv")
    ]
    assert "of 3 experiments the choice by ECE is worse than no map in 67%" in capsys.readouterr().out


def test_a_damaged_file_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "results" / "tabrepo-binary" / "TS.csv"
    path.write_text("dataset,TS_brier\na,0.1\n")
    assert main(["calarena", str(folder)]) == 1
    assert str(path) in capsys.readouterr().err


def test_the_page_shows_the_stored_numbers() -> None:
    table: Any = pd.read_csv(ROOT / "results" / "calarena" / "choices.csv").set_index(["benchmark", "criterion"])
    ece, log = table.loc[("all", "ece-15")], table.loc[("all", "logloss")]
    shown = (ROOT / "docs" / "what-ece-chooses.md").read_text()
    part = shown.partition("<!-- calarena -->")[2].partition("<!-- end -->")[0]
    wanted = (ece["worse"], ece["worse by 1%"], log["worse"], ece["binning"], log["binning"])
    assert re.findall(r"\d+%", part) == [f"{wanted[0]:.0%}", "1%", *(f"{share:.0%}" for share in wanted[1:])]
    assert f"{ece['experiments']:,.0f}" in shown
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert f"a worse Brier score than no map in {ece['worse']:.0%}; the map" in readme
    assert f"the lowest log loss does in {log['worse']:.0%}" in readme
    assert f"In {ece['experiments']:,.0f} experiments of [CalArena]" in readme


PUBLISHED = {  # heights of bars in figures/binary_winrates.pdf and multiclass_winrates.pdf of CalArena
    "tabrepo-binary": {"Spline": 0.6275, "Quadratic": 0.6197, "Beta": 0.6156, "Hist-quantile": 0.2422},
    "tabarena-binary": {"Spline": 0.7382, "Quadratic": 0.7378, "Beta": 0.7330, "Hist-quantile": 0.1726},
    "cv-binary": {"Platt-logits": 0.8178, "Quadratic": 0.7854, "CatBoost": 0.7773, "Hist-uniform": 0.1538},
    "tabrepo-multiclass": {"SMS": 0.7030, "SVS": 0.6451, "CatBoost": 0.6236, "Hist-quantile": 0.1509},
    "tabarena-multiclass": {"Spline": 0.6839, "VS": 0.6799, "SMS": 0.6792, "Hist-quantile": 0.1283},
    "cv-multiclass": {"SMS": 0.9472, "SVS": 0.8500, "VS": 0.8167, "Kernel": 0.1361},
}


@pytest.mark.parametrize("benchmark", PUBLISHED)
def test_win_rates_are_those_of_the_published_figures(benchmark: str) -> None:
    stored = pd.read_csv(ROOT / "results" / "calarena" / "winrates.csv").query("benchmark == @benchmark")
    rates = stored.set_index("map")["win rate"]
    assert {name: rates[name] for name in PUBLISHED[benchmark]} == pytest.approx(PUBLISHED[benchmark], abs=1.1e-4)
