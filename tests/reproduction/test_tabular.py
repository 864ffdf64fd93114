"""The studies on tabular data: choices and changes of place by hand, and one data set from end to end."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from reproduction.__main__ import main

from reproduction import maps, places

ROOT = Path(__file__).parents[2]


def test_choices_of_every_criterion_by_hand() -> None:
    about = {"dataset": ["a"] * 3, "model": ["m"] * 3, "seed": [0] * 3, "map": [maps.NONE, "A", "HistogramBinning"]}
    values: dict[str, Any] = {criterion: [3.0, 1.0, 2.0] for criterion in maps.CRITERIA}
    values["ECE (15 bins)"] = [3.0, 2.0, 1.0]
    values["score"] = [2.0, 2.0, 3.0]  # a tie goes to no map
    values |= {"keeps": [True, False, True], "seconds": [0.0] * 3}
    values |= {"test Brier": [0.2, 0.1, 0.3], "test log loss": [0.5, 0.4, 0.9]}
    chosen = maps.choices(pd.DataFrame(about | values)).set_index("criterion")
    assert chosen.loc["ECE (15 bins)", "map"] == "HistogramBinning" and chosen.loc["ECE (15 bins)", "binning"]
    assert chosen.loc["log loss", "map"] == "A" and chosen.loc[maps.GUARDED, "map"] == maps.NONE
    assert chosen.loc["ECE (15 bins)", "regret in Brier"] == pytest.approx(0.2)
    assert chosen.loc["never a map", "regret in log loss"] == pytest.approx(0.1)
    assert chosen.loc["score", "map"] == maps.NONE
    assert chosen["worse than none in Brier"].tolist() == [True] + [False] * (len(chosen) - 1)


def test_every_part_of_a_data_set_has_every_class() -> None:
    y = np.repeat([0, 1, 2], [500, 40, 10])
    parts = maps.split(y, 0)
    assert sorted(np.concatenate(parts)) == list(range(550))
    assert all(set(y[rows]) == {0, 1, 2} for rows in parts)


def test_the_cost_of_a_choice_is_averaged_over_data_sets() -> None:
    about = {"dataset": ["a", "a", "a", "a", "b", "b"], "model": ["m", "m", "n", "n", "m", "m"]}
    names = {"criterion": [maps.GUARDED, "gap"] * 3, "regret in Brier": [0.0, 0.1, 0.0, 0.3, 0.1, 0.4]}
    rest = dict.fromkeys(set(maps.MEASURES) - {"regret in Brier"}, [0.0] * 6)
    table = maps.summary(pd.DataFrame(about | names | rest)).set_index(["classifier", "criterion"])
    assert table.loc[("all", "gap"), "regret in Brier"] == pytest.approx((0.2 + 0.4) / 2)
    assert table.loc[("all", "gap"), f"regret in Brier{maps.ABOVE}"] == pytest.approx((0.2 + 0.3) / 2)
    assert table.loc[("n", "gap"), "regret in Brier"] == pytest.approx(0.3)


def test_changed_places_by_hand() -> None:
    a, b = np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 1.0])
    assert places.changed(a, b) == pytest.approx(2 / 3)  # the tie in b is no change
    assert places.changed(a, a) == 0


@pytest.mark.slow
def test_both_studies_run_on_a_data_set_of_scikit_learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    every, followed = maps.candidates(), places.classifiers(0)
    chosen = {name: every[name] for name in ("TemperatureScaling", "HistogramBinning")}
    monkeypatch.setattr(maps, "candidates", lambda: chosen)
    one = {"naive Bayes": maps.classifiers(0)["naive Bayes"]}
    monkeypatch.setattr(maps, "classifiers", lambda seed: one)
    monkeypatch.setattr(places, "classifiers", lambda seed: {"forest": followed["forest"]})
    for study in ("maps", "places"):
        out, more = tmp_path / study, ["--seeds", "1"] if study == "maps" else []
        assert main([study, "--out", str(out), "--only", "breast_cancer", *more]) == 0
        assert {path.name for path in out.iterdir()} == {path.name for path in (ROOT / "results" / study).iterdir()}
        assert capsys.readouterr().out.startswith("breast_cancer")
        text = (out / "RESULTS.md").read_text()
        assert main([study, "--out", str(out), "--only", "breast_cancer", *more]) == 0
        assert not capsys.readouterr().out and (out / "RESULTS.md").read_text() == text  # it resumes


def test_an_empty_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for study in ("maps", "places"):
        assert main([study, "--out", str(tmp_path), "--tables"]) == 1
        assert "no rows yet; leave --tables out to measure them" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(("study", "rows"), [("maps", "experiments.csv"), ("places", "checkpoints.csv")])
def test_results_are_those_of_the_stored_rows(study: str, rows: str, tmp_path: Path) -> None:
    stored = ROOT / "results" / study
    shutil.copy(stored / rows, tmp_path)
    assert main([study, "--out", str(tmp_path), "--tables"]) == 0
    assert (tmp_path / "RESULTS.md").read_text() == (stored / "RESULTS.md").read_text()


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


def block(page: str, mark: str) -> tuple[list[list[str]], str]:
    """The table between two marks of a page, and the text after it up to the next heading."""
    _, _, rest = (ROOT / "docs" / page).read_text().partition(f"<!-- {mark} -->\n")
    table, _, after = rest.partition("<!-- end -->")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return rows, " ".join(after.partition("\n## ")[0].split())


def limits(row: Any, column: str, form: str, unit: float = 1) -> str:
    low, high = unit * row[f"{column}, low"], unit * row[f"{column}, high"]
    return f"{unit * row[column]:{form}} [{low:{form}}, {high:{form}}]"


def test_the_page_of_choices_shows_the_stored_numbers() -> None:
    table: Any = pd.read_csv(ROOT / "results" / "maps" / "criteria.csv").query("classifier == 'all'")
    table = table.sort_values("regret in Brier")
    rows, after = block("what-ece-chooses.md", "maps")
    assert rows == [
        [
            *(row["criterion"], limits(row, "regret in Brier", ".1f", 1000)),
            *(limits(row, "worse than none in Brier", ".0%"), f"{row['binning']:.0%}"),
        ]
        for _, row in table.iterrows()
    ]
    named = table.set_index("criterion")
    for loss in maps.REGRETS:
        assert named[loss].idxmin() == maps.GUARDED and "costs least** in both losses" in after
    above = f"regret in Brier{maps.ABOVE}"
    assert f"ECE costs {limits(named.loc['ECE (15 bins)'], above, '.1f', 1000)} × 10⁻³ more" in after
    assert f"the gap {limits(named.loc['gap'], above, '.1f', 1000)} × 10⁻³" in after
    alike = named[(named[f"{above}, low"] <= 0) & (named[f"{above}, high"] >= 0)].index.drop(maps.GUARDED)
    assert set(alike) == {"log loss", "Brier score", "score"} and "score are not told apart from it" in after
    costly = f"regret in log loss{maps.ABOVE}, low"
    assert min(named.loc["Brier score", costly], named.loc["score", costly]) > 0 > named.loc["log loss", costly]
    assert f"no map in {named.loc['ECE (15 bins)', 'worse than none in Brier']:.0%} of the experiments" in after


def test_the_page_of_the_paper_shows_the_changes_of_place() -> None:
    table: Any = pd.read_csv(ROOT / "results" / "places" / "places.csv").set_index(["map", "measure"])
    rows, after = block("reproduce.md", "places")
    wanted = []
    for column, title in (
        ("2000 and 5", "pairs that change"),
        ("U", "mean U"),
        ("against log loss", "pairs in another"),
    ):
        for map_ in places.MAPS:
            cells = [table.loc[(map_, f"{error} 5")] for error in places.BINNED]
            wanted.append(["–" if np.isnan(cell[column]) else limits(cell, column, ".0%") for cell in cells])
            assert rows[len(wanted) - 1][0].startswith(title) and rows[len(wanted) - 1][0].endswith(map_)
    assert [row[1:] for row in rows] == wanted
    fewer = [
        limits(table.loc[(map_, f"{error} 5")], "fewer than ECE", ".0f", 100)
        for map_ in places.MAPS
        for error in places.ASSOCIATED
    ]
    assert f"as often as ECE: {fewer[0]} points less often. LinCE^cw does {fewer[1]} points" in after
    assert f"ConfCE^corr {fewer[2]} and LinCE^cw {fewer[3]} points less often" in after
    order = table["against log loss"].unstack("map").drop("log loss")
    assert [order[map_].idxmin() for map_ in places.MAPS] == ["Brier score"] * 2
    shares = [f"{order.loc['Brier score', map_]:.0%}" for map_ in places.MAPS]
    assert f"{shares[0]} of the pairs are in another order, and {shares[1]} after" in after


def test_the_page_of_the_paper_shows_how_estimators_without_bins_order_checkpoints() -> None:
    folder = ROOT / "results" / "places"
    sets: Any = pd.read_csv(folder / "places.csv").query("map == @places.MAPS[1]").assign(run="30 data sets")
    runs: Any = pd.read_csv(folder / "runs.csv")
    estimators = ["two-bin", "Poisson cuts", "kernel (MMCE)", "smooth ECE", "smooth calibration"]
    rows, after = block("reproduce.md", "estimators")
    share = pd.concat([sets, runs]).pivot(index="run", columns="measure", values="against log loss")
    for run, *cells in rows:
        ends = [f"{end:.0%}" for end in (share.loc[run, estimators].min(), share.loc[run, estimators].max())]
        others = [f"{share.loc[run, name]:.0%}" for name in ("ECE 5", "score", "Brier score")]
        assert cells == [" to ".join(dict.fromkeys(ends)), *others]
    measured = share[estimators].notna()
    assert measured.to_numpy().sum(axis=1).tolist() == [5 * (run in {row[0] for row in rows}) for run in share.index]
    assert {run.partition(",")[0] for run in share.index[~measured.all(axis=1)]} == {
        "CIFAR-100"
    } and "CIFAR-100 is not" in after


def test_the_page_of_maps_shows_where_they_do_harm() -> None:
    simulated: Any = pd.read_csv(ROOT / "results" / "conclusions" / "harm.csv").query("world == 'T 1'")
    measured: Any = pd.read_csv(ROOT / "results" / "maps" / "maps.csv")
    part = (ROOT / "docs" / "recalibration.md").read_text().partition("<!-- harm -->")[2].partition("<!-- end -->")[0]
    text = " ".join(part.split())

    def limits_of(shares: Any) -> str:
        return f"{shares.min():.0%} to {shares.max():.0%}"

    assert set(measured["map"]) == set(simulated["map"]) == set(maps.candidates())
    real, kept = limits_of(measured["worse in log loss"]), limits_of(measured["kept and worse in log loss"])
    assert (
        f"{len(measured)} maps worsen the log loss in {real} of the experiments, and with the guard in {kept}." in text
    )
    assert set(simulated["n"]) == {50, 200, 1000} and (simulated["worse"] == 1).all() and "every map does harm" in text
    assert f"With the guard {limits_of(simulated['worse, guarded'])} of the fits do." in text
