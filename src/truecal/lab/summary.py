"""From tables of checkpoints to everything people look at: figures, correlation tables, RESULTS.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truecal.io import atomic_path, write_atomic
from truecal.lab.correlations import (
    ALL_PAIRS,
    PAPER_PAIRS,
    after_warm_up,
    beside_paper,
    spearman_table,
    threshold_table,
    to_latex,
    to_markdown,
)
from truecal.lab.traces import read_rows

if TYPE_CHECKING:
    import pandas as pd

EXPERIMENTS = ("within", "cross")


def summarise(folder: str | Path) -> Path:
    """Write figures/, tables/ and RESULTS.md beside the experiments' checkpoints.csv; return RESULTS.md's path."""
    from truecal.lab.figures import draw_all
    from truecal.lab.results_text import results_text

    out = Path(folder)
    run, tables = read_run(out)
    kept = {name: after_warm_up(table, run["warm_up"]) for name, table in tables.items()}
    for name, table in kept.items():
        if len(table) < 3:
            raise ValueError(
                f"{out / name}: {len(table)} of {len(tables[name])} checkpoints have a validation error of at most "
                f"{run['warm_up']}; train longer, or there is nothing to compare"
            )
    main = spearman_table(kept, PAPER_PAIRS)
    if run.get("beside_paper"):
        main = beside_paper(main)
    combinations = spearman_table(kept, ALL_PAIRS)
    thresholds = threshold_table(tables)
    (out / "tables").mkdir(exist_ok=True)
    names = list(tables)
    _write_csv(main, out / "tables" / "spearman.csv")
    write_atomic(out / "tables" / "spearman.md", to_markdown(main, names))
    write_atomic(out / "tables" / "spearman.tex", to_latex(main, names))
    _write_csv(combinations, out / "tables" / "combinations.csv")
    _write_csv(thresholds, out / "tables" / "thresholds.csv")
    for name, table in tables.items():
        with atomic_path(out / name / "checkpoints.parquet") as temporary:
            table.to_parquet(temporary, index=False)
        draw_all(kept[name], name, out / "figures")
    write_atomic(out / "RESULTS.md", results_text(run, tables, kept, main, combinations, thresholds))
    return out / "RESULTS.md"


def read_run(out: Path) -> tuple[dict[str, Any], dict[str, pd.DataFrame]]:
    """What `run.json` says and the tables of the experiments that are there."""
    try:
        import pandas as pd
    except ImportError as missing:
        raise ImportError('figures and tables need pandas: pip install "truecal[lab]"') from missing
    if not (out / "run.json").is_file():
        raise FileNotFoundError(f"{out / 'run.json'}: no such file; expected the folder of a run")
    run = json.loads((out / "run.json").read_text(encoding="utf-8"))
    paths = {name: out / name / "checkpoints.csv" for name in EXPERIMENTS}
    tables = {name: pd.DataFrame(read_rows(path)) for name, path in paths.items() if path.is_file()}
    if not tables:
        raise FileNotFoundError(f"{out}: expected within/checkpoints.csv or cross/checkpoints.csv")
    return run, tables


def _write_csv(table: pd.DataFrame, path: Path) -> None:
    with atomic_path(path) as temporary:
        table.to_csv(temporary, index=False, lineterminator="\n")
