"""How often two checkpoints change places between bin counts: eight classifiers along training on 30 data sets.

``python -m reproduction places --out results/places`` measures twelve checkpoints per classifier with the paper's
errors at 2000, 20 and 5 bins and with measures without bins, as they are and after temperature scaling. The data sets
are those of the study of maps. The stored checkpoints of the paper's experiment stand beside them.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import as_file, files
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import truecal as tc
from reproduction.maps import DATASETS, DRAWS, SEED, clipped_log_loss, head, read, resumed, split
from truecal.core.types import Array
from truecal.io import FileError, atomic_path, write_atomic

if TYPE_CHECKING:
    import pandas as pd

BINS = (2000, 20, 5)
BETWEEN = ("2000 and 20", "2000 and 5", "20 and 5")
LOSSES = ("classification error", "log loss")
BINNED = {"ECE": "confidence_l1", "ConfCE^corr": "confidence", "LinCE^cw": "classwise"}
POISSON = tc.CalibrationError(tc.Confidence(), tc.rules.Poisson(0.1))
WITHOUT_BINS: dict[str, Callable[[Array, Array], float]] = {
    "two-bin": lambda y, p: float(tc.ERRORS["confidence_two_bin"](y, p)),
    "Poisson cuts": lambda y, p: float(POISSON(y, p)),
    "kernel (MMCE)": lambda y, p: float(tc.ERRORS["mmce"](y, p)),
    "smooth ECE": lambda y, p: float(tc.ERRORS["smooth_ece"](*top(y, p))),
    "smooth calibration": lambda y, p: float(tc.ERRORS["smooth_calibration"](*top(y, p))),
    "score": lambda y, p: float(tc.score(y, p)),
    "Brier score": lambda y, p: float(tc.brier(y, p)),
    "log loss": lambda y, p: clipped_log_loss(y, p),
}
MAPS = ("as they are", "after temperature scaling")
ASSOCIATED = {"ConfCE^corr": "confidence loss", "LinCE^cw": "Brier score / k"}
"""The loss that n·error is in expectation where the predictions are calibrated."""
CHECKPOINTS = (1, 2, 3, 5, 8, 12, 18, 27, 40, 60, 80, 100)
"""Rounds, trees or epochs after which a classifier is measured."""


def top(y: Array, p: Array) -> tuple[Array, Array]:
    """Whether the top class was right, and its probability."""
    first = p.argmax(axis=1)
    return (first == y).astype(int), p[np.arange(len(y)), first]


def staged(classifier: Any, X: Array, y: Array, new: Array) -> Iterator[Array]:
    """Predictions after so many rounds of boosting."""
    rounds = list(classifier.fit(X, y).staged_predict_proba(new))
    return (rounds[min(i, len(rounds)) - 1] for i in CHECKPOINTS)


def grown(classifier: Any, X: Array, y: Array, new: Array) -> Iterator[Array]:
    """Predictions of the first trees of a forest."""
    trees = np.cumsum([tree.predict_proba(new) for tree in classifier.fit(X, y).estimators_], axis=0)
    return (trees[i - 1] / i for i in CHECKPOINTS)


def trained(classifier: Any, X: Array, y: Array, new: Array) -> Iterator[Array]:
    """Predictions after so many epochs, of standardised features."""
    centre, scale = X.mean(axis=0), X.std(axis=0) + 1e-9
    X, new, classes = (X - centre) / scale, (new - centre) / scale, np.unique(y)
    for epoch in range(1, CHECKPOINTS[-1] + 1):
        classifier.partial_fit(X, y, classes=classes)
        if epoch in CHECKPOINTS:
            yield classifier.predict_proba(new)


def classifiers(seed: int) -> dict[str, tuple[Callable[..., Iterator[Array]], Any]]:
    """Eight classifiers, each with the way in which it is followed along training."""
    from sklearn import ensemble
    from sklearn.linear_model import SGDClassifier
    from sklearn.neural_network import MLPClassifier

    most: dict[str, Any] = {"random_state": seed}
    return {
        "boosting": (staged, ensemble.HistGradientBoostingClassifier(max_iter=CHECKPOINTS[-1], **most)),
        "deep boosting": (staged, ensemble.GradientBoostingClassifier(max_depth=5, subsample=0.5, **most)),
        "AdaBoost": (staged, ensemble.AdaBoostClassifier(n_estimators=CHECKPOINTS[-1], **most)),
        "forest": (grown, ensemble.RandomForestClassifier(CHECKPOINTS[-1], **most)),
        "extra trees": (grown, ensemble.ExtraTreesClassifier(CHECKPOINTS[-1], min_samples_leaf=3, **most)),
        "logistic regression": (trained, SGDClassifier(loss="log_loss", alpha=1e-3, **most)),
        "network": (trained, MLPClassifier((50,), **most)),
        "wide network": (trained, MLPClassifier((300,), learning_rate_init=0.003, **most)),
    }


def trace(name: str, model: str, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Two rows per checkpoint: every error on test rows, as it is and after temperature scaling."""
    X, y = read(name)
    train, validation, test = split(y, seed)
    follow, classifier = classifiers(seed)[model]
    known, truth = y[validation], y[test]
    predictions = follow(classifier, X[train], y[train], X[np.concatenate([validation, test])])
    for checkpoint, p in zip(CHECKPOINTS, predictions, strict=True):
        seen, new = np.split(p / p.sum(axis=1, keepdims=True), [len(validation)])
        scaled = tc.TemperatureScaling.from_probabilities().fit(seen, known).predict_proba(new)
        for map_, q in zip(MAPS, (new, scaled), strict=True):
            row: dict[str, Any] = {"dataset": name, "model": model, "checkpoint": checkpoint, "map": map_}
            row |= {"n": len(test), "classification error": float((q.argmax(axis=1) != truth).mean())}
            for title, error in BINNED.items():
                values = tc.ERRORS[error].with_bins(BINS)(truth, q)
                row |= {f"{title} {m}": float(value) for m, value in zip(BINS, values, strict=True)}
            row["confidence loss"] = float(tc.losses.confidence_loss(truth, q))
            row["Brier score / k"] = float(np.square(q - np.eye(q.shape[1])[truth]).mean())
            yield row | {title: measure(truth, q) for title, measure in WITHOUT_BINS.items()}


def changed(a: Array, b: Array) -> float:
    """The share of pairs that two columns put in opposite orders; a tie in either is no change."""
    i, j = np.triu_indices(len(a), 1)
    return float((np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) < 0).mean())


def shares(part: pd.DataFrame) -> pd.DataFrame:
    """Per measure: pairs that change places between bin counts, and pairs in another order than each loss's."""
    import pandas as pd

    rows: list[dict[str, Any]] = []
    ece: dict[str, float] = {}
    for title in BINNED:
        columns = [part[f"{title} {m}"].to_numpy() for m in BINS]
        moved = dict(zip(BETWEEN, (changed(a, b) for a, b in combinations(columns, 2)), strict=True))
        ece = moved if title == "ECE" else ece
        for m in BINS:
            rows.append({"measure": f"{title} {m}", **_against(part, f"{title} {m}"), **moved})
            if title in ASSOCIATED:
                loss = part[ASSOCIATED[title]]
                rows[-1]["fewer than ECE"] = ece[BETWEEN[1]] - moved[BETWEEN[1]]
                rows[-1]["U"] = (part["n"] * part[f"{title} {m}"] - loss).mean() / loss.mean()
    rows += [{"measure": title, **_against(part, title)} for title in WITHOUT_BINS if title in part]
    return pd.DataFrame(rows)


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """The means of `shares` over data sets, with and without temperature scaling, with 95% limits.

    Pairs are checkpoints of one data set, of one classifier or of two. U is n·error less its loss, of the mean loss.
    """
    import pandas as pd

    groups: Any = found.groupby(["map", "dataset"], sort=False)
    each = pd.concat([shares(part).assign(map=key[0], dataset=key[1]) for key, part in groups], ignore_index=True)
    sets = found["dataset"].unique()
    drawn = np.random.default_rng(SEED).integers(len(sets), size=(DRAWS, len(sets)))
    out = []
    for (map_, measure), part in each.groupby(["map", "measure"], sort=False):
        row: dict[str, Any] = {"map": map_, "measure": measure}
        for column in part.columns.difference(["map", "measure", "dataset"], sort=False):
            values = part.set_index("dataset")[column].loc[sets].to_numpy(np.float64)
            row[column] = values.mean()
            row[f"{column}, low"], row[f"{column}, high"] = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
        out.append(row)
    return pd.DataFrame(out)


def _against(part: pd.DataFrame, column: str) -> dict[str, float]:
    return {f"against {title}": changed(part[column].to_numpy(), part[title].to_numpy()) for title in LOSSES}


RUNS = {
    "Letter, one perceptron": "letter/within",
    "Letter, nine perceptrons": "letter/cross",
    "CIFAR-100, 64 px, learning rate 0.001": "cifar100-long/within-lr0.001",
    "CIFAR-100, 64 px, learning rate 0.02": "cifar100-long/within-lr0.02",
    "CIFAR-100, 64 and 96 px, four networks": "cifar100-long/cross",
    "CIFAR-100, 128 px, one network": "cifar100/within",
    "CIFAR-100, 224 px, one network": "cifar100-224/within",
}
"""Stored runs of the paper's experiment, after temperature scaling and without their warm-up."""
STORED_RUNS = Path(__file__).parent.parent / "results"
STORED = {"ECE": "ConfECE_fix", "ConfCE^corr": "ConfCE_corr_qua", "LinCE^cw": "LinCE_cw_qua"}
STORED_COLUMNS = {
    "n_test": "n",
    "classification_error": "classification error",
    "confidence_loss": "confidence loss",
    "brier": "Brier score",
    "cross_entropy": "log loss",
    "ConfCE_corr_two_bin": "two-bin",
    "ConfCE_corr_poisson": "Poisson cuts",
    "mmce": "kernel (MMCE)",
    "smooth_ece": "smooth ECE",
    "smooth_calibration": "smooth calibration",
}


def of_runs(folder: Path) -> pd.DataFrame:
    """The table of `shares` of every stored run."""
    import pandas as pd

    out = []
    for name, place in RUNS.items():
        path = folder / place / "checkpoints.csv"
        if not path.exists():
            raise FileError(f"file not found: {path}")
        table = pd.read_csv(path)
        table = table[table["validation_error"] <= json.loads((path.parents[1] / "run.json").read_text())["warm_up"]]
        names = {f"{stored}_{m}": f"{title} {m}" for title, stored in STORED.items() for m in BINS}
        part = table.assign(**{"Brier score / k": table["brier"] / table["n_classes"]})
        part = part.rename(columns=names | STORED_COLUMNS)
        out.append(shares(part).assign(run=name, checkpoints=len(part)))
    return pd.concat(out, ignore_index=True)


def draw(table: pd.DataFrame, path: Path) -> None:
    """Two panels of bars: shares of pairs that change places, as they are and after temperature scaling."""
    import matplotlib.pyplot as plt

    with as_file(files("reproduction.data") / "figures.mplstyle") as style, plt.style.context(style):
        figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.2), sharey=True, layout="constrained")
        for axis, (map_, part) in zip(axes, table.groupby("map", sort=False), strict=True):
            rows = part.set_index("measure").loc[[f"{title} 5" for title in BINNED]]
            for i, (between, colour) in enumerate(zip(BETWEEN, ("#0072B2", "#D55E00", "#009E73"), strict=True)):
                x = np.arange(len(BINNED)) + 0.25 * (i - 1)
                limits = np.abs(rows[[f"{between}, low", f"{between}, high"]].to_numpy().T - rows[between].to_numpy())
                axis.bar(x, rows[between], width=0.23, color=colour, label=f"{between} bins")
                axis.errorbar(x, rows[between], yerr=limits, fmt="none", ecolor="#333333", linewidth=1)
            axis.set_xticks(np.arange(len(BINNED) + 1), [*BINNED, "no bins:\nscore, Brier"])
            axis.set(title=map_, xlim=(-0.6, len(BINNED) + 0.6))
        axes[0].set(ylabel="pairs of checkpoints that\nchange places")
        axes[0].yaxis.set_major_formatter("{x:.0%}")
        axes[0].legend(frameon=False, loc="upper right")
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=130, format="png")
        plt.close(figure)


def text(found: pd.DataFrame, table: pd.DataFrame, runs: pd.DataFrame) -> str:
    """RESULTS.md."""

    def cell(row: Any, column: str) -> str:
        shown = f"{row[column]:.0%} [{row[f'{column}, low']:.0%}, {row[f'{column}, high']:.0%}]"
        return shown.replace("-0%", "0%")

    parts: dict[str, Any] = {str(map_): part.set_index("measure") for map_, part in table.groupby("map", sort=False)}
    moved = [
        f"| {title}, {map_} | " + " | ".join(cell(part.loc[f"{title} 5"], c) for c in BETWEEN) + " |"
        for title in BINNED
        for map_, part in parts.items()
    ]
    far = [
        f"| {title}, {map_} | " + " | ".join(cell(part.loc[f"{title} {m}"], "U") for m in BINS) + " |"
        for title in ASSOCIATED
        for map_, part in parts.items()
    ]
    against = [
        f"| {measure + (' bins' if measure[-1].isdigit() else '')} | "
        + " | ".join(cell(part.loc[measure], f"against {title}") for title in LOSSES for part in parts.values())
        + " |"
        for measure in parts[MAPS[0]].index
    ]
    every: dict[str, Any] = {str(run): part.set_index("measure") for run, part in runs.groupby("run", sort=False)}
    stored = [
        f"| {run} | {part['checkpoints'].iloc[0]} | "
        + " | ".join(f"{part.loc[f'{title} 5', c]:.0%}" for title in BINNED for c in BETWEEN)
        + " |"
        for run, part in every.items()
    ]
    orders = [
        f"| {measure} | "
        + " | ".join(
            " / ".join(f"{part.loc[measure, f'against {title}']:.0%}" for title in LOSSES)
            if measure in part.index
            else "–"
            for part in every.values()
        )
        + " |"
        for measure in parts[MAPS[0]].index
    ]
    both = [f"{title}, {map_}" for title in LOSSES for map_ in MAPS]
    sets, models = found["dataset"].nunique(), found["model"].nunique()
    return f"""# How often two checkpoints change places

{sets} data sets × {models} classifiers × {len(CHECKPOINTS)} checkpoints along training ({CHECKPOINTS[0]} to
{CHECKPOINTS[-1]} rounds, trees or epochs), measured on test rows, as they are and after temperature scaling on
validation rows. Pairs are two checkpoints of one data set, of one classifier or of two.
`python -m reproduction places` repeats it.

{_in_words(parts)}

## Between bin counts

{head("error", *(f"{between} bins" for between in BETWEEN))}
{chr(10).join(moved)}

The score, the Brier score and the log loss have no bins.

![Pairs that change places between bin counts](figure.png)

## Does the theorem apply?

The theorem of approximate order is for nearly calibrated predictors: U, which is n·error less its loss, must be small.
Its mean in percent of the mean loss:

{head("error", *(f"{m} bins" for m in BINS))}
{chr(10).join(far)}

At 2000 bins a data set with at most 2000 test rows has one row per bin, where n·error is the loss and U is 0.

## Against the order by classification error and by log loss

Share of pairs that a measure puts in the opposite order.

{head("measure", *both)}
{chr(10).join(against)}

Brackets: 95% limits, data sets resampled {DRAWS} times (seed {SEED}). Two checkpoints may differ by noise alone: a
share is no rate of mistakes. ECE has bins of equal width, the truthful errors have bins of equal numbers of rows.
Two-bin, Poisson cuts, kernel and the smooth measures are those of the confidence.

## The runs of the paper's experiment

The same shares in the [stored runs](../../docs/reproduce.md), after temperature scaling and without warm-up.

{head("run", "checkpoints", *(f"{title}, {between}" for title in BINNED for between in BETWEEN))}
{chr(10).join(stored)}

Share of pairs that a measure puts in the opposite order to the classification error / to the log loss. "–": not
measured in that run, whose predictions were not kept.

{head("measure", *every)}
{chr(10).join(orders)}
"""


def _in_words(parts: dict[str, Any]) -> str:
    """The results in a few lines."""
    lines = []
    for map_, part in parts.items():
        moved = ", ".join(f"{part.loc[f'{title} 5', BETWEEN[1]]:.0%} for {title}" for title in BINNED)
        fewer = [
            f"{100 * row['fewer than ECE']:.0f} [{100 * row['fewer than ECE, low']:.0f}, "
            f"{100 * row['fewer than ECE, high']:.0f}] for {title}"
            for title in ASSOCIATED
            for row in [part.loc[f"{title} 5"]]
        ]
        far = ", ".join(f"{part.loc[f'{title} 5', 'U']:.0%} for {title}" for title in ASSOCIATED)
        order = part["against log loss"].drop("log loss").sort_values()
        first, second, last = (f"{name} ({order[name]:.0%})" for name in order.index[[0, 1, -1]])
        lines.append(
            f"- **{map_.capitalize()}**, pairs that change places between 2000 and 5 bins: {moved}. Points fewer than\n"
            f"  for ECE: {', '.join(fewer)}. Mean U at 5 bins in percent of the loss: {far}.\n"
            f"  Pairs in another order than by log loss: fewest with {first} and {second}, most with {last}."
        )
    return "\n".join(lines)


def run(out: Path, names: Sequence[str]) -> None:
    """Measure what is missing in `out`, then write tables and figure."""
    out.mkdir(parents=True, exist_ok=True)
    found = resumed(out / "checkpoints.csv", ["dataset", "model"], product(names, classifiers(0)), trace)
    table, stored = summary(found), of_runs(STORED_RUNS)
    write_atomic(out / "places.csv", table.to_csv(index=False, float_format="%.6f"))
    write_atomic(out / "runs.csv", stored.to_csv(index=False, float_format="%.4f"))
    draw(table, out / "figure.png")
    write_atomic(out / "RESULTS.md", text(found, table, stored))


def main(arguments: Sequence[str]) -> int:
    """Exit status 0, or 1 for files that are not as they should be."""
    made = argparse.ArgumentParser(prog="python -m reproduction places", description=(__doc__ or "").split("\n")[0])
    made.add_argument(
        "--out", type=Path, default=Path("results/places"), help="where checkpoints and tables are written"
    )
    made.add_argument("--only", nargs="*", default=DATASETS, choices=DATASETS, metavar="NAME", help="these data sets")
    made.add_argument("--tables", action="store_true", help="only write tables and figure of what is there")
    given = made.parse_args(arguments)
    try:
        run(given.out, () if given.tables else given.only)
    except (FileError, OSError, ModuleNotFoundError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0
