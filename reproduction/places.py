"""How often two checkpoints change places between bin counts: eight classifiers along training on 30 data sets.

``python -m reproduction places --out results/places`` measures twelve checkpoints per classifier with the paper's
errors at 2000, 20 and 5 bins and with measures without bins. The data sets are those of the study of maps.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import as_file, files
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import truecal as tc
from reproduction.maps import DATASETS, DRAWS, SEED, clipped_log_loss, read, split
from truecal.core.types import Array
from truecal.io import FileError, atomic_path, write_atomic

if TYPE_CHECKING:
    import pandas as pd

BINS = (2000, 20, 5)
BINNED = {"ECE": "confidence_l1", "ConfCE^corr": "confidence", "LinCE^cw": "classwise"}
POISSON = tc.CalibrationError(tc.Confidence(), tc.rules.Poisson(0.1))
WITHOUT_BINS: dict[str, Callable[[Array, Array], float]] = {
    "two-bin": lambda y, p: float(tc.ERRORS["confidence_two_bin"](y, p)),
    "smooth ECE": lambda y, p: float(tc.ERRORS["smooth_ece"](*top(y, p))),
    "Poisson cuts": lambda y, p: float(POISSON(y, p)),
    "score": lambda y, p: float(tc.score(y, p)),
    "Brier score": lambda y, p: float(tc.brier(y, p)),
    "log loss": lambda y, p: clipped_log_loss(y, p),
}
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


def trace(name: str, model: str, seed: int) -> Iterator[dict[str, Any]]:
    """A row per checkpoint: every error on test rows."""
    X, y = read(name)
    train, _, test = split(y, seed)
    follow, classifier = classifiers(seed)[model]
    for checkpoint, p in zip(CHECKPOINTS, follow(classifier, X[train], y[train], X[test]), strict=True):
        p = p / p.sum(axis=1, keepdims=True)
        row: dict[str, Any] = {"dataset": name, "model": model, "checkpoint": checkpoint, "n": len(test)}
        row["classification error"] = float((p.argmax(axis=1) != y[test]).mean())
        for title, error in BINNED.items():
            values = tc.ERRORS[error].with_bins(BINS)(y[test], p)
            row |= {f"{title} {m}": float(value) for m, value in zip(BINS, values, strict=True)}
        yield row | {title: measure(y[test], p) for title, measure in WITHOUT_BINS.items()}


def changed(a: Array, b: Array) -> float:
    """The share of pairs that two columns put in opposite orders; a tie in either is no change."""
    i, j = np.triu_indices(len(a), 1)
    return float((np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) < 0).mean())


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Per measure: pairs that change places between bin counts, and pairs in another order than each loss's.

    Pairs are checkpoints of one data set, of one classifier or of two.
    """
    import pandas as pd

    rows = []
    for name, part in found.groupby("dataset", sort=False):
        for title in BINNED:
            shares = [
                changed(part[f"{title} {a}"].to_numpy(), part[f"{title} {b}"].to_numpy())
                for a, b in combinations(BINS, 2)
            ]
            moved = dict(zip(("2000 and 20", "2000 and 5", "20 and 5"), shares, strict=True))
            for m in BINS:
                rows.append({"dataset": name, "measure": f"{title} {m}", **_against(part, f"{title} {m}"), **moved})
        for title in WITHOUT_BINS:
            rows.append({"dataset": name, "measure": title, **_against(part, title)})
    each = pd.DataFrame(rows)
    sets = found["dataset"].unique()
    drawn = np.random.default_rng(SEED).integers(len(sets), size=(DRAWS, len(sets)))
    out = []
    for measure, part in each.groupby("measure", sort=False):
        row: dict[str, Any] = {"measure": measure}
        for column in part.columns[2:]:
            values = part.set_index("dataset")[column].loc[sets].to_numpy(np.float64)
            row[column] = values.mean()
            row[f"{column}, low"], row[f"{column}, high"] = np.quantile(values[drawn].mean(axis=1), [0.025, 0.975])
        out.append(row)
    return pd.DataFrame(out)


def _against(part: pd.DataFrame, column: str) -> dict[str, float]:
    names = {"classification error": "classification error", "log loss": "log loss"}
    return {
        f"against {title}": changed(part[column].to_numpy(), part[name].to_numpy()) for title, name in names.items()
    }


def draw(table: pd.DataFrame, path: Path) -> None:
    """Bars: shares of pairs that change places between two bin counts."""
    import matplotlib.pyplot as plt

    part = table.set_index("measure")
    with as_file(files("reproduction.data") / "figures.mplstyle") as style, plt.style.context(style):
        figure, axis = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
        colours = ("#0072B2", "#D55E00", "#009E73")
        for i, (between, colour) in enumerate(zip(("2000 and 20", "2000 and 5", "20 and 5"), colours, strict=True)):
            x = np.arange(len(BINNED)) + 0.25 * (i - 1)
            rows = part.loc[[f"{title} 5" for title in BINNED]]
            limits = np.abs(rows[[f"{between}, low", f"{between}, high"]].to_numpy().T - rows[between].to_numpy())
            axis.bar(x, rows[between], width=0.23, color=colour, label=f"{between} bins")
            axis.errorbar(x, rows[between], yerr=limits, fmt="none", ecolor="#333333", linewidth=1)
        axis.set_xticks(np.arange(len(BINNED) + 1), [*BINNED, "score, Brier:\nno bins"])
        axis.set(ylabel="pairs of checkpoints that\nchange places")
        axis.yaxis.set_major_formatter("{x:.0%}")
        axis.legend(frameon=False)
        with atomic_path(path) as temporary:
            figure.savefig(temporary, dpi=130, format="png")
        plt.close(figure)


def text(found: pd.DataFrame, table: pd.DataFrame) -> str:
    """RESULTS.md."""

    def cell(row: Any, column: str) -> str:
        if np.isnan(row[column]):
            return "–"
        return f"{row[column]:.0%} [{row[f'{column}, low']:.0%}, {row[f'{column}, high']:.0%}]"

    columns = ("2000 and 20", "2000 and 5", "20 and 5")
    moved = [
        f"| {title} | " + " | ".join(cell(row, c) for c in columns) + " |"
        for title in BINNED
        for _, row in table[table["measure"] == f"{title} 5"].iterrows()
    ]
    against = [
        f"| {row['measure'] + (' bins' if row['measure'][-1].isdigit() else '')} | "
        f"{cell(row, 'against classification error')} | {cell(row, 'against log loss')} |"
        for _, row in table.iterrows()
    ]
    sets, models = found["dataset"].nunique(), found["model"].nunique()
    return f"""# How often two checkpoints change places

{sets} data sets × {models} classifiers × {len(CHECKPOINTS)} checkpoints along training ({CHECKPOINTS[0]} to
{CHECKPOINTS[-1]} rounds, trees or epochs), measured on test rows without recalibration. Pairs are two checkpoints of
one data set, of one classifier or of two. `python -m reproduction places` repeats it.

## Between bin counts

| error | 2000 and 20 bins | 2000 and 5 bins | 20 and 5 bins |
| --- | --- | --- | --- |
{chr(10).join(moved)}

The score, the Brier score and the log loss have no bins.

![Pairs that change places between bin counts](figure.png)

## Against the order by classification error and by log loss

Share of pairs that a measure puts in the opposite order.

| measure | classification error | log loss |
| --- | --- | --- |
{chr(10).join(against)}

Brackets: 95% limits, data sets resampled {DRAWS} times (seed {SEED}). Two checkpoints may differ by noise alone: a
share is no rate of errors. At 2000 bins a data set with fewer test rows has one row per bin, where n·error is
the loss. Most models here are not recalibrated, so the theorem of approximate order, which is for nearly calibrated
models, does not apply.
"""


def run(out: Path, names: Sequence[str], seed: int = 0) -> None:
    """Measure what is missing in `out`, one file per data set and classifier, then write tables and figure."""
    import pandas as pd

    parts = out / "traces"
    parts.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name in names:
        for model in classifiers(seed):
            path = parts / f"{name}-{model.replace(' ', '-')}.csv"
            if not path.exists():
                write_atomic(path, pd.DataFrame(trace(name, model, seed)).to_csv(index=False, float_format="%.6g"))
                print(path.stem, flush=True)
    summarise(out)


def summarise(out: Path) -> None:
    """Tables, figure and RESULTS.md from the traces of a folder."""
    import pandas as pd

    paths = sorted((out / "traces").glob("*.csv"))
    if not paths:
        raise FileError(f"{out / 'traces'}: no traces yet; run python -m reproduction places --out {out}")
    found = pd.concat([pd.read_csv(path) for path in paths], ignore_index=True)
    table = summary(found)
    write_atomic(out / "places.csv", table.to_csv(index=False, float_format="%.4f"))
    draw(table, out / "figure.png")
    write_atomic(out / "RESULTS.md", text(found, table))


def main(arguments: Sequence[str]) -> int:
    """Exit status 0, or 1 for files that are not as they should be."""
    made = argparse.ArgumentParser(prog="python -m reproduction places", description=(__doc__ or "").split("\n")[0])
    made.add_argument("--out", type=Path, default=Path("results/places"), help="where traces and tables are written")
    made.add_argument("--only", nargs="*", default=DATASETS, choices=DATASETS, metavar="NAME", help="these data sets")
    made.add_argument("--tables", action="store_true", help="only write tables and figure of what is there")
    given = made.parse_args(arguments)
    try:
        summarise(given.out) if given.tables else run(given.out, given.only)
    except (FileError, OSError, ModuleNotFoundError) as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 1
    return 0
