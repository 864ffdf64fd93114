"""How far the correlations of a run would move on other test rows, from its kept logits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import truecal as tc
from reproduction.checkpoints import BINS, LOSSES, WITHOUT_BINS, error_column, errors, gap_column, with_scores
from reproduction.correlations import KEYS, SPLITS, TABLE_PAIRS, after_warm_up, fisher, rank_correlations
from reproduction.presets import load_logits
from reproduction.summary import ROWS, read_run
from reproduction.traces import Labels, Row
from truecal.io import write_atomic

if TYPE_CHECKING:
    import pandas as pd

PAIRS = tuple(pair for pair in TABLE_PAIRS if pair.family not in WITHOUT_BINS)  # which would take most of the time
EPOCHS = 20  # of a trace that are measured, evenly spaced: neighbours move together


def row_errors(folder: str | Path, *, splits: int = SPLITS, seed: int = 0) -> Path:
    """Write ``tables/rows.csv``: the standard error of each rank correlation on Fisher's scale, over test rows.

    The test rows are split into random halves, ``splits`` times, and the correlations are measured on either half. Two
    halves are independent samples, so the difference of their correlations has four times the variance that the
    correlation of all rows has. A bootstrap would draw rows twice, and two copies of a row in one bin pass for
    miscalibration. A half has half as many rows per bin, so the errors of bins with two or three rows are rough.
    `EPOCHS` epochs of each trace are measured.
    """
    import pandas as pd

    out = Path(folder)
    run, stored = read_run(out)
    y = load_logits(out / "labels.npz")["test"].astype(np.intp)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(y)) for _ in range(splits)]
    halves = [half for order in orders for half in (order[: len(y) // 2], order[len(y) // 2 :])]
    lines: list[tuple[Any, ...]] = []
    for experiment, table in stored.items():
        kept = after_warm_up(table, run["warm_up"])
        kept = kept[kept["epoch"] % max(1, table["epoch"].max() // EPOCHS) == 0]
        z = np.array([_correlations(half) for half in _measured(out / experiment / "logits", kept, y, halves)])
        found = np.sqrt(np.mean((z[::2] - z[1::2]) ** 2, axis=0)) / 2
        lines += [(experiment, p.family, *p.items, error) for p, error in zip(PAIRS, found, strict=True)]
    (out / "tables").mkdir(exist_ok=True)
    result = pd.DataFrame(lines, columns=["experiment", *KEYS, "standard_error"])
    write_atomic(out / ROWS, result.to_csv(index=False, lineterminator="\n"))
    return out / ROWS


def _measured(logits: Path, kept: pd.DataFrame, y: Labels, halves: list[NDArray[Any]]) -> list[list[Row]]:
    """For each half of the test rows, every checkpoint measured on it."""
    measured: list[list[Row]] = [[] for _ in halves]
    for trace, epoch, temperature in kept[["trace", "epoch", "temperature"]].itertuples(index=False):
        values = load_logits(logits / str(trace) / f"epoch-{epoch:04d}.npz")["test"] / temperature
        reports = np.exp(values - values.max(axis=1, keepdims=True))
        reports /= reports.sum(axis=1, keepdims=True)
        for rows, half in zip(measured, halves, strict=True):
            rows.append(_measure(y[half], reports[half]))
    return measured


def _measure(y: Labels, reports: NDArray[Any]) -> Row:
    """The losses, and every error and gap of the table of correlations."""
    row: Row = {"n_test": len(y), "n_classes": reports.shape[1]}
    row |= {loss: tc.LOSSES[loss](y, reports) for loss in LOSSES}
    row |= errors(y, reports, [("ConfECE", "fix"), ("ConfCE", "qua")])
    for family, measured in (("ConfCE_corr", tc.Confidence()), ("LinCE_cw", tc.Classwise())):
        parts = tc.CalibrationError(measured, tc.Quantile(BINS)).decompose(y, reports)
        for bins, error, gap in zip(BINS, np.ravel(parts.error), np.asarray(parts.gap, float).ravel(), strict=True):
            row |= {error_column(family, "qua", bins): float(error), gap_column(family, bins): float(gap)}
    return row


def _correlations(rows: list[Row]) -> NDArray[np.float64]:
    """Fisher's z of every pair of the table."""
    import pandas as pd

    table = with_scores(pd.DataFrame(rows))
    columns = sorted({column for pair in PAIRS for column in pair.columns})
    r = rank_correlations(table[columns].to_numpy(dtype=np.float64))
    return fisher(np.array([r[*(columns.index(column) for column in pair.columns)] for pair in PAIRS]))
