"""Spearman correlations between losses and errors, with two kinds of interval, in csv, markdown and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from reproduction.checkpoints import (
    ALONE,
    BINNINGS,
    BINS,
    EVERY_FAMILY,
    FAMILIES,
    LOSSES,
    PAPER_BINNING,
    SCORES,
    TABLE_BINNING,
    WITHOUT_BINS,
    error_column,
)
from reproduction.traces import kind

if TYPE_CHECKING:
    import pandas as pd

REFERENCE = "classification_error"
KEYS = ["error", "item1", "item2"]  # what names a line of the table
COLUMNS = {*LOSSES, *WITHOUT_BINS}  # items that are columns as they are, without a number of bins
SPLITS = 40  # of the test rows in two halves, for limits by test rows
THRESHOLDS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class ColumnPair:
    """One line of the table: an error at one bin count, or a loss, against the reference loss or another bin count.

    Its items are named as in the paper's table, ``classification_error`` or such as ``qua-20``; or they are columns.
    """

    family: str
    items: tuple[str, str]

    @property
    def columns(self) -> tuple[str, str]:
        first, second = (
            item if item in COLUMNS else error_column(self.family, *item.split("-")) for item in self.items
        )
        return first, second


def pairs_of(families: Iterable[tuple[str, str]]) -> tuple[ColumnPair, ...]:
    """Six lines for each error and binning: against the classification error, then bin count against bin count."""
    result = []
    for family, binning in families:
        names = [f"{binning}-{bins}" for bins in sorted(BINS, reverse=True)]
        result += [ColumnPair(family, two) for two in (*((REFERENCE, name) for name in names), *combinations(names, 2))]
    return tuple(result)


PAPER_PAIRS = pairs_of(PAPER_BINNING.items())
TABLE_PAIRS = pairs_of(TABLE_BINNING.items()) + tuple(
    ColumnPair(name, (REFERENCE, name)) for name in (*ALONE, *WITHOUT_BINS)
)
RANKING_PAIRS = tuple(pair for pair in TABLE_PAIRS if pair.family in PAPER_BINNING or pair.family in SCORES)
ALL_PAIRS = pairs_of(product(FAMILIES, BINNINGS))


def after_warm_up(table: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """The checkpoints whose validation error is at most ``threshold``; the test labels have no say."""
    return table[table["validation_error"] <= threshold]


def plus_minus(r: float, n: int) -> float:
    """1.96 (1 − r²) / sqrt(n − 1), the ± that fits the paper's table; it takes checkpoints for independent.

    >>> round(plus_minus(0.972, 3543), 3)
    0.002
    """
    return 1.96 * (1 - r * r) / math.sqrt(n - 1) if n > 1 else math.nan


def rank_correlations(values: Matrix) -> Matrix:
    """Rank correlations between all columns, mid-ranks for ties; NaN where a column is constant or rows are few."""
    from scipy.stats import rankdata

    n, k = values.shape
    if n < 3:
        return np.full((k, k), np.nan)
    ranks = rankdata(values, axis=0)
    centred = ranks - ranks.mean(axis=0)
    length = np.sqrt(np.sum(centred**2, axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.clip(centred.T @ centred / np.outer(length, length), -1, 1))


def chain_correlation(values: Any, chain: Sequence[int]) -> float:
    """The rank correlation of places along a chain, best first, with the values of its members."""
    along = np.asarray(values, dtype=np.float64)[list(chain)]
    return float(rank_correlations(np.column_stack([np.arange(len(along)), along]))[0, 1])


def correlation(table: pd.DataFrame, first: str, second: str) -> float:
    """The rank correlation of two columns."""
    return float(rank_correlations(table[[first, second]].to_numpy(dtype=np.float64))[0, 1])


def by_clusters(values: Matrix, clusters: Sequence[Any]) -> Matrix:
    """95% limits (low, high) of all rank correlations, from leaving out one cluster at a time.

    Checkpoints of one trace resemble each other, so a trace is left out with all of its checkpoints. The jackknife's
    standard error is that of Fisher's z, and the limits are Student's. A bootstrap would draw some traces twice, lower
    correlations near 1 by that alone, and give limits that exclude the estimate.
    """
    from scipy.stats import t

    names = np.unique(np.asarray(clusters))
    k = len(names)
    if k < 2:
        return np.full((2, values.shape[1], values.shape[1]), np.nan)
    kept = [np.asarray(clusters) != name for name in names]
    left_out = np.array([fisher(rank_correlations(values[rows])) for rows in kept])
    error = np.sqrt((k - 1) * left_out.var(axis=0))
    return limits(rank_correlations(values), t.ppf(0.975, k - 1) * error)


def fisher(r: Matrix) -> Matrix:
    """Fisher's z of correlations, finite for those of 1."""
    return np.arctanh(np.clip(r, -1 + 1e-15, 1 - 1e-15))


def limits(r: Matrix, half_width: Matrix) -> Matrix:
    """Limits (low, high) around correlations, from half-widths on Fisher's scale."""
    return np.tanh([fisher(r) - half_width, fisher(r) + half_width])


def spearman_table(
    tables: Mapping[str, pd.DataFrame],
    pairs: Sequence[ColumnPair] = TABLE_PAIRS,
    row_errors: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """One line per pair: for each experiment r, the paper's ±, limits by traces, limits by test rows where their
    standard errors are known (`reproduction.rows`), and r of the calibrated twins where all checkpoints have one.
    Pairs that no experiment measured have no line."""
    import pandas as pd

    pairs = [pair for pair in pairs if any(set(pair.columns) <= set(table) for table in tables.values())]
    result = pd.DataFrame([(pair.family, *pair.items) for pair in pairs], columns=KEYS)
    columns = sorted({column for pair in pairs for column in pair.columns})
    at = [[columns.index(pair.columns[side]) for pair in pairs] for side in (0, 1)]
    for experiment, table in tables.items():
        values = table.reindex(columns=columns).to_numpy(dtype=np.float64)
        r = rank_correlations(values)[*at]
        low, high = by_clusters(values, table["trace"].tolist())
        twins = [_twin_r(table, pair) for pair in pairs]
        pm = [plus_minus(value, len(values)) for value in r]
        found = {"r": r, "pm": pm, "low": low[*at], "high": high[*at], "twin_r": twins}
        if row_errors is not None and experiment in set(row_errors["experiment"]):
            errors = result[KEYS].merge(row_errors[row_errors["experiment"] == experiment], how="left", on=KEYS)
            half_width = 1.96 * errors["standard_error"].to_numpy(dtype=np.float64)
            found["rows_low"], found["rows_high"] = limits(r, half_width)
        result = result.assign(**{f"{experiment}_{name}": column for name, column in found.items()})
    return result


def _twin_r(table: pd.DataFrame, pair: ColumnPair) -> float:
    """The same correlation with labels drawn from the reports: what sampling noise alone leaves of it."""
    first, second = (f"twin_{column}" for column in pair.columns)
    return correlation(table, first, second) if first in table and second in table else math.nan


def threshold_table(tables: Mapping[str, pd.DataFrame], thresholds: Sequence[float] = THRESHOLDS) -> pd.DataFrame:
    """The errors and scores under every warm-up threshold: tidy, one line per experiment, threshold and pair."""
    import pandas as pd

    lines = []
    for experiment, table in tables.items():
        for threshold in thresholds:
            kept = after_warm_up(table, threshold)
            for pair in RANKING_PAIRS:
                r = correlation(kept, *pair.columns)
                lines.append((experiment, threshold, len(kept), pair.family, *pair.items, r))
    return pd.DataFrame(lines, columns=["experiment", "threshold", "n", "error", "item1", "item2", "r"])


def paper_table() -> pd.DataFrame:
    """The paper's own table: error, item1, item2, then r and ± within one model and across models."""
    import pandas as pd

    with files("reproduction").joinpath("data/paper_table.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file)


def beside_paper(table: pd.DataFrame) -> pd.DataFrame:
    """The table with the paper's figures in columns of their own; it has none for scores and gaps."""
    published = table[KEYS].merge(paper_table(), how="left", on=KEYS)
    for name in [column.removesuffix("_twin_r") for column in map(str, table) if column.endswith("_twin_r")]:
        for what in ("r", "pm"):
            table = table.assign(**{f"paper_{name}_{what}": published[f"{kind(name)}_{what}"]})
    return table


def to_markdown(table: pd.DataFrame, experiments: Sequence[str]) -> str:
    """The table for reading: r ± the paper's half-width, limits by traces and by test rows in brackets."""
    with_paper = [name for name in experiments if f"paper_{name}_r" in table]
    with_rows = [name for name in experiments if f"{name}_rows_low" in table]
    head = ["Error", "Item 1", "Item 2"]
    for name in experiments:
        head += [f"{name} r ±", "by traces", *(["by test rows"] if name in with_rows else [])]
        head += [*(["paper"] if name in with_paper else []), "if calibrated"]
    lines = []
    for _, row in table.iterrows():
        cells = [row["error"], *(row[item].replace("_", " ") for item in ("item1", "item2"))]
        for name in experiments:
            cells += [_r_pm(row, name), _limits(row, name)]
            if name in with_rows:
                cells.append(_limits(row, f"{name}_rows"))
            if name in with_paper:
                cells.append(_r_pm(row, f"paper_{name}") if row["error"] in PAPER_BINNING else "–")
            cells.append(_r(row[f"{name}_twin_r"]))
        lines.append(cells)
    return markdown_table(head, lines, words=3) + "\n"


def markdown_table(head: Sequence[str], lines: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table whose first columns hold words and whose others hold numbers."""
    aligned = ["---"] * words + ["---:"] * (len(head) - words)
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, aligned, *lines))


def to_latex(table: pd.DataFrame, experiments: Sequence[str]) -> str:
    """The table for a paper: needs booktabs and multirow."""
    head = ["Calibration Error", "Item 1", "Item 2", *(f"{name.title()}-Model Spearman" for name in experiments)]
    lines = [r"\begin{tabular}{" + "l" * len(head) + "}", r"\toprule", " & ".join(head) + r" \\"]
    for family, part in table.groupby("error", sort=False):
        latex = EVERY_FAMILY[str(family)].latex
        lines.append(r"\midrule")
        first = f"\\multirow{{{len(part)}}}{{*}}{{${latex}$}}"
        for i, (_, row) in enumerate(part.iterrows()):
            cells = [first if i == 0 else "", _latex_item(latex, row["item1"]), _latex_item(latex, row["item2"])]
            for name in experiments:
                cells.append(_r_pm(row, name, r"$\pm$") + " " + _limits(row, name))
            lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _latex_item(latex: str, item: str) -> str:
    if item in COLUMNS:
        return item.replace("_", " ").title()
    binning, bins = item.split("-")
    return f"${latex}_{{(\\mathrm{{{binning}}}, {'2k' if bins == '2000' else bins})}}$"


def _r(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:.3f}"


def _r_pm(row: Any, name: str, sign: str = "±") -> str:
    return f"{_r(row[f'{name}_r'])} {sign} {_r(row[f'{name}_pm'])}"


def _limits(row: Any, name: str) -> str:
    return f"[{_r(row[f'{name}_low'])}, {_r(row[f'{name}_high'])}]"
