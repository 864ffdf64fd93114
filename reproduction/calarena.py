"""What ECE chooses: the maps that each criterion picks in CalArena's results, and how they compare with no map.

``python -m reproduction calarena DIR --out results/calarena`` reads the csv files of CalArena (arXiv 2605.30188), one
per benchmark and map, and writes tables, a figure and RESULTS.md. The csv files stay where they are.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truecal.io import FileError, atomic_path, write_atomic
from truecal.io.failures import failure, parsing

if TYPE_CHECKING:
    import pandas as pd

NONE = "Base-model"
CRITERIA = {"ece-15": "ECE (15 bins)", "logloss": "log loss", "brier": "Brier score"}
BINNING = ("Hist-uniform", "Hist-quantile", "BBQ", "Scaling-Binning")
"""Maps that give all rows of a bin one probability, its observed frequency."""
ABLATION = ("CB", "CB-monotone", "CB-tiny", "CB-tiny-monotone")
"""Variants of one map that CalArena tries on one benchmark and leaves out of its win rates."""
FEWEST = 5  # data sets: fewer give no limits
WORSE = 0.01  # a Brier score that is more than 1% above that of no map
DRAWS, SEED = 2000, 2026
ORDER = (
    *("tabrepo-binary", "tabarena-binary", "cv-binary"),
    *("tabrepo-multiclass", "tabarena-multiclass", "cv-multiclass", "imagenet-multiclass"),
)


def read_benchmark(folder: Path) -> dict[str, pd.DataFrame]:
    """One table per metric, experiments × maps, and the data sets of the experiments under "dataset"."""
    import pandas as pd

    found: dict[str, dict[str, pd.Series[float]]] = {metric: {} for metric in CRITERIA}
    datasets = None
    for path in sorted(folder.glob("*.csv")):
        name = path.stem
        with parsing(path, "results of one map"):
            table = pd.read_csv(path)
        about = [column for column in table.columns if not column.startswith(f"{name}_")]
        missing = {f"{name}_{metric}" for metric in CRITERIA} - set(table.columns)
        if missing or "dataset" not in about:
            raise failure(path, f"expected the columns dataset and {', '.join(sorted(missing)) or 'of the map'}")
        keys = table[about].astype(str).agg("|".join, axis=1)
        if keys.duplicated().any():
            raise failure(path, f"expected every experiment once, {keys[keys.duplicated()].iloc[0]} appears twice")
        for metric in CRITERIA:
            found[metric][name] = pd.Series(table[f"{name}_{metric}"].to_numpy(np.float64), index=keys)
        if name == NONE:
            datasets = pd.Series(table["dataset"].to_numpy(), index=keys)
    if datasets is None:
        raise failure(folder, f"expected {NONE}.csv, the results without a map")
    tables = {metric: pd.DataFrame(columns).loc[datasets.index] for metric, columns in found.items()}
    return {**tables, "dataset": datasets.to_frame("dataset")}


def choices(name: str, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """A row per experiment and criterion: the map that is best by it, and its Brier score relative to no map."""
    import pandas as pd

    rows = []
    for metric in CRITERIA:
        chosen = tables[metric].idxmin(axis=1)
        places = np.arange(len(chosen)), tables["brier"].columns.get_indexer(pd.Index(chosen))
        change = tables["brier"].to_numpy()[places] / tables["brier"][NONE].to_numpy() - 1
        about = {"benchmark": name, "dataset": tables["dataset"]["dataset"].to_numpy(), "criterion": metric}
        rows.append(pd.DataFrame({**about, "map": chosen.to_numpy(), "change": change}))
    return pd.concat(rows, ignore_index=True)


def _shares(found: pd.DataFrame) -> dict[str, Any]:
    return {
        "worse": found["change"] > 0,
        "worse by 1%": found["change"] > WORSE,
        "binning": found["map"].isin(BINNING),
    }


def shares(found: pd.DataFrame) -> pd.DataFrame:
    """Per benchmark and criterion: shares of experiments with 95% limits by resampled data sets, and median changes."""
    import pandas as pd

    out = []
    whole = found.assign(benchmark="all")
    for (name, metric), part in pd.concat([found, whole]).groupby(["benchmark", "criterion"], sort=False):
        row: dict[str, Any] = {"benchmark": name, "criterion": metric, "experiments": len(part)}
        codes, sets = pd.factorize(part["benchmark"] + part["dataset"].astype(str))
        size = np.bincount(codes)
        drawn = np.random.default_rng(SEED).integers(len(sets), size=(DRAWS, len(sets)))
        for share, marks in _shares(part).items():
            counts = np.bincount(codes, marks)
            draws = counts[drawn].sum(axis=1) / size[drawn].sum(axis=1)
            low, high = np.quantile(draws, [0.025, 0.975]) if len(sets) >= FEWEST else (np.nan, np.nan)
            row |= {share: marks.mean(), f"{share}, low": low, f"{share}, high": high}
        out.append({**row, "median change": part["change"].median(), "mean change": part["change"].mean()})
    return pd.DataFrame(out)


def win_rates(name: str, tables: dict[str, pd.DataFrame]) -> pd.DataFrame:
    """The mean share of other maps with a higher Brier score, as CalArena reports it; ties win nothing."""
    import pandas as pd

    table = tables["brier"].drop(columns=list(ABLATION), errors="ignore")
    brier = table.to_numpy()
    above = (brier[:, None, :] > brier[:, :, None]).sum(axis=2) / (brier.shape[1] - 1)
    rows = {"benchmark": name, "map": table.columns, "win rate": above.mean(axis=0)}
    return pd.DataFrame(rows).sort_values("win rate", ascending=False)


def draw(table: pd.DataFrame, path: Path) -> None:
    """Two panels: how often a choice is worse than no map, and how often it is a binning map."""
    import matplotlib.pyplot as plt

    names = [name for name in (*ORDER, "all") if (table["benchmark"] == name).any()]
    colours = {"ece-15": "#D55E00", "logloss": "#0072B2"}
    with as_file(files("reproduction.data") / "figures.mplstyle") as style, plt.style.context(style):
        figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), sharey=True, layout="constrained")
        titles = {"worse": "choice has a worse Brier score than no map", "binning": "choice is a binning map"}
        for axis, (share, title) in zip(axes, titles.items(), strict=True):
            for offset, (metric, colour) in zip((0.13, -0.13), colours.items(), strict=True):
                part = table[table["criterion"] == metric].set_index("benchmark").loc[names]
                y = np.arange(len(names))[::-1] + offset
                limits = np.abs(part[[f"{share}, low", f"{share}, high"]].to_numpy().T - part[share].to_numpy())
                limits = np.nan_to_num(limits)
                axis.errorbar(part[share], y, xerr=limits, fmt="o", color=colour, markersize=4.5, linewidth=1.3)
                axis.text(part[share].iloc[-1], y[-1] + (0.2 if offset > 0 else -0.5), CRITERIA[metric], color=colour,
                          ha="center", fontsize=8)  # fmt: skip
            axis.set(title=title, xlim=(-0.03, 1.0), xlabel="share of experiments")
            axis.xaxis.set_major_formatter("{x:.0%}")
            axis.set_ylim(-0.8, len(names) - 0.4)
        sizes = table[table["criterion"] == "ece-15"].set_index("benchmark")["experiments"]
        axes[0].set_yticks(np.arange(len(names))[::-1], [f"{name} ({sizes[name]})" for name in names])
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=130, format="png")
        plt.close(figure)


def text(table: pd.DataFrame, missing: int) -> str:
    """RESULTS.md."""
    titles = [title for metric, title in CRITERIA.items() if metric != "brier"]
    heads = [f"{title}: worse than none | by more than 1% | binning map" for title in titles]
    rows = [f"| benchmark | experiments | {' | '.join(heads)} |"]
    rows.append("| --- " * 8 + "|")
    for name in (*ORDER, "all"):
        part = table[table["benchmark"] == name].set_index("criterion")
        if part.empty:
            continue
        cells = [name, str(part["experiments"].iloc[0])]
        for metric in ("ece-15", "logloss"):
            row = part.loc[metric]
            limits = f" [{row['worse, low']:.0%}, {row['worse, high']:.0%}]" if row["worse, low"] >= 0 else ""
            cells += [f"{row['worse']:.0%}{limits}", f"{row['worse by 1%']:.0%}", f"{row['binning']:.0%}"]
        rows.append(f"| {' | '.join(cells)} |")
    return f"""# What each criterion chooses in CalArena

Source: the csv files of CalArena (arXiv 2605.30188), read by `python -m reproduction calarena DIR`. Each experiment is
one classifier on one data set, with 20 to 24 maps for 2 classes and 9 to 19 for more. A criterion chooses the map that
is best by it on the test rows, "no map" included. It is worse than none if its Brier score on these rows is higher.
Brackets: 95% limits, data sets resampled {DRAWS} times (seed {SEED}); fewer than {FEWEST} data sets give none.

{chr(10).join(rows)}

Binning maps: {", ".join(BINNING)}. {missing} values are missing in the csv files and cannot be chosen.
`winrates.csv` has the mean share of other maps that each map beats. It equals the bars of CalArena's two figures of win
rates to 0.0001, and leaves out, as they do, {", ".join(ABLATION)}.

![Shares per benchmark](figure.png)

Choice and measurement use the same rows. The table therefore isolates the criterion. It does not tell how well a choice
made on validation rows does on new rows.
"""


def summarise(folder: Path, out: Path) -> str:
    """Write choices.csv, winrates.csv, figure.png and RESULTS.md, and return a line per benchmark."""
    import pandas as pd

    root = folder / "results" if (folder / "results").is_dir() else folder
    names = [name for name in ORDER if (root / name).is_dir()]
    if not names:
        raise failure(folder, f"expected folders such as {ORDER[0]} with a csv file per map")
    found = {name: read_benchmark(root / name) for name in names}
    missing = sum(int(tables[metric].isna().sum().sum()) for tables in found.values() for metric in CRITERIA)
    table = shares(pd.concat([choices(name, tables) for name, tables in found.items()], ignore_index=True))
    rates = pd.concat([win_rates(name, tables) for name, tables in found.items()], ignore_index=True)
    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "choices.csv", table.to_csv(index=False, float_format="%.4f"))
    write_atomic(out / "winrates.csv", rates.to_csv(index=False, float_format="%.4f"))
    draw(table, out / "figure.png")
    write_atomic(out / "RESULTS.md", text(table, missing))
    row: Any = table[(table["benchmark"] == "all")].set_index("criterion")
    return re.sub(
        r"\s+",
        " ",
        f"""{out}: of {row["experiments"].iloc[0]} experiments the choice by ECE is worse than no
        map in {row.loc["ece-15", "worse"]:.0%}, that by log loss in {row.loc["logloss", "worse"]:.0%}""",
    )


def main(arguments: Sequence[str]) -> int:
    """Exit status 0, or 1 for files that are not as they should be."""
    made = argparse.ArgumentParser(prog="python -m reproduction calarena", description=__doc__.split("\n")[0])
    made.add_argument("folder", type=Path, help="a copy of CalArena, or its folder results")
    made.add_argument("--out", type=Path, default=Path("results/calarena"), help="where tables and figure are written")
    given = made.parse_args(arguments)
    try:
        print(summarise(given.folder, given.out))
    except (FileError, OSError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0
