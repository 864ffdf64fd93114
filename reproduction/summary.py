"""From tables of checkpoints to everything people look at: figures, correlation tables, RESULTS.md."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from reproduction.checkpoints import MEASURED, with_scores
from reproduction.correlations import (
    ALL_PAIRS,
    after_warm_up,
    beside_paper,
    spearman_table,
    threshold_table,
    to_latex,
    to_markdown,
)
from reproduction.folder import read_run_file
from reproduction.mechanism import mechanism_table
from reproduction.traces import TABLE, read_rows
from truecal.core.extras import require
from truecal.io import atomic_path, write_atomic
from truecal.io.failures import failure

if TYPE_CHECKING:
    import pandas as pd


ROWS = "tables/rows.csv"  # standard errors of the correlations over test rows, where `reproduction.rows` was run


def summarise(folder: str | Path) -> Path:
    """Write figures/, tables/ and RESULTS.md beside the experiments' checkpoints.csv; return RESULTS.md's path."""
    from reproduction.figures import draw_all, draw_mechanism
    from reproduction.results_text import results_text

    pd = require("pandas", "reproduction")
    out = Path(folder)
    run, stored = read_run(out)
    tables = {name: with_scores(table) for name, table in stored.items()}
    kept = {name: after_warm_up(table, run["warm_up"]) for name, table in tables.items()}
    for name, table in kept.items():
        if len(table) < 3:
            raise ValueError(
                f"{out / name}: {len(table)} of {len(tables[name])} checkpoints have a validation error of at most "
                f"{run['warm_up']}; train longer, or there is nothing to compare"
            )
    main = spearman_table(kept, row_errors=pd.read_csv(out / ROWS) if (out / ROWS).is_file() else None)
    if run.get("beside_paper"):
        main = beside_paper(main)
    found = {"spearman": main, "combinations": spearman_table(kept, ALL_PAIRS), "thresholds": threshold_table(tables)}
    found["mechanism"] = mechanism_table(kept)
    (out / "tables").mkdir(exist_ok=True)
    for name, table in found.items():
        write_atomic(out / "tables" / f"{name}.csv", table.to_csv(index=False, lineterminator="\n"))
    write_atomic(out / "tables" / "spearman.md", to_markdown(main, list(tables)))
    write_atomic(out / "tables" / "spearman.tex", to_latex(main, list(tables)))
    for name, table in tables.items():
        with atomic_path(out / name / "checkpoints.parquet") as temporary:
            table.to_parquet(temporary, index=False)
        draw_all(kept[name], name, out / "figures")
    draw_mechanism(tables, found["mechanism"], out / "figures")
    write_atomic(out / "RESULTS.md", results_text(run, tables, kept, *found.values()))
    return out / "RESULTS.md"


def read_run(out: Path) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """What `run.json` says and the tables of the experiments that are there."""
    pd = require("pandas", "reproduction")
    run = read_run_file(out)
    paths = {name: out / name / TABLE for name in run["traces"]}
    tables = {name: _numeric(pd.DataFrame(read_rows(path)), path) for name, path in paths.items() if path.is_file()}
    if not tables:
        raise FileNotFoundError(f"{out}: expected one of {', '.join(f'{name}/{TABLE}' for name in paths)}")
    return run, tables


def _numeric(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The table, refused where a column that figures and tables need is missing or holds text."""
    for column in MEASURED:
        if column not in table:
            raise failure(path, f"expected a column {column!r}, there is none")
        if table[column].dtype.kind not in "if":
            row = next(i for i, value in enumerate(table[column]) if not isinstance(value, (int, float)))
            raise failure(path, f"expected a number in column {column!r}, got {table[column][row]!r} at row {row}")
    return table
