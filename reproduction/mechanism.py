"""How miscalibration goes along with the classification error inside a trace, before and after recalibration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

from reproduction.checkpoints import BINS, RECALIBRATIONS, TABLE_BINNING, error_column, gap_column
from reproduction.correlations import REFERENCE, correlation

if TYPE_CHECKING:
    import pandas as pd

TEMPERATURE = "temperature"
ALL = "all"  # in the place of a trace: every checkpoint of the experiment together
TWIN = "twin"  # the same reports, labels drawn from them: calibration repaired in full
VARIANTS = {TEMPERATURE: "temperature scaling"} | RECALIBRATIONS | {TWIN: "calibrated twins"}
ERRORS = ("ConfECE", "ConfCE", "ConfCE_corr", "LinCE_cw", "score_ConfCE_corr", "score_LinCE_cw")
LEAST = 10  # checkpoints below which a trace has no line


def mechanism_table(kept: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """One line per experiment, recalibration and trace (and for all traces together).

    ``r_gap`` is the rank correlation of the gap of the confidence with the classification error: negative where
    training lowers the error and spoils calibration. ``gap_first`` and ``gap_last`` are in points. The other columns
    are the correlations of the errors with the classification error, each after the same recalibration.
    """
    import pandas as pd

    lines = []
    for experiment, table in kept.items():
        for name in VARIANTS:
            prefix = "" if name == TEMPERATURE else f"{name}_"
            for trace, part in _parts(table, f"{prefix}{error_column('ConfECE', 'fix', min(BINS))}"):
                lines.append({"experiment": experiment, "recalibration": name, "trace": trace, **_line(part, prefix)})
    return pd.DataFrame(lines, columns=None if lines else ["experiment", "recalibration", "trace"])


def gap_of(table: pd.DataFrame, prefix: str = "") -> str | None:
    """The column of the gap at the automatic number of bins; at 20 in tables that do not hold that."""
    wanted = (f"{prefix}{gap_column('ConfCE_corr', count)}" for count in ("auto", 20))
    return next((column for column in wanted if column in table), None)


def _parts(table: pd.DataFrame, needed: str) -> Iterator[tuple[str, pd.DataFrame]]:
    """The checkpoints that have the needed column, all together and then by trace."""
    known = table[table[needed].notna()] if needed in table else table[:0]
    if len(known) >= LEAST:
        yield ALL, known
    for trace, part in known.groupby("trace", sort=False):
        if len(part) >= LEAST:
            yield str(trace), part


def _line(part: pd.DataFrame, prefix: str) -> dict[str, Any]:
    line: dict[str, Any] = {"checkpoints": len(part)}
    reference, gap = f"{prefix}{REFERENCE}", gap_of(part, prefix)
    if gap is not None:
        line |= {"r_gap": correlation(part, reference, gap), "gap_first": part[gap].iloc[0]}
        line["gap_last"] = part[gap].iloc[-1]
    for family, bins in product(ERRORS, BINS):
        name = error_column(family, TABLE_BINNING[family], bins)
        if f"{prefix}{name}" in part:
            line[f"r_{name}"] = correlation(part, reference, f"{prefix}{name}")
    return line
