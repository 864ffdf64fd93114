"""A made-up table of checkpoints with every column, for the tests of tables, figures and words."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
from reproduction.checkpoints import (
    BINNINGS,
    BINS,
    FAMILIES,
    LOSSES,
    PAPER_BINNING,
    error_column,
    gap_column,
    u_column,
    with_scores,
)

N_TEST, N_CLASSES = 500, 10


def made_up_table(traces: int = 6, epochs: int = 7, models: int = 1, noise: float = 0.3, seed: int = 0) -> pd.DataFrame:
    """Losses that fall with the epochs, and errors that are (loss + U) / n with U pure noise."""
    return _made_up(traces, epochs, models, noise, seed).copy()


@cache
def _made_up(traces: int, epochs: int, models: int, noise: float, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(traces):
        for epoch in range(1, epochs + 1):
            wrong = 0.2 + 0.5 * np.exp(-epoch / 3) / (1 + i % 5) + 0.02 * rng.random()
            row: dict[str, object] = {
                "trace": f"trace-{i}", "model": f"model-{i % models}", "fraction": (i + 1) / traces, "epoch": epoch,
                "n_test": N_TEST, "n_classes": N_CLASSES, "temperature": 1.1,
                "validation_error": wrong + 0.01 * rng.normal(),
            }  # fmt: skip
            for prefix in ("", "twin_"):
                scale = 1 + 0.01 * rng.normal()
                losses = dict(zip(LOSSES, wrong * scale * np.array([1.0, 3.0, 1.4, 0.8, 1.3]), strict=True))
                row |= {
                    f"{prefix}{name}": value for name, value in losses.items() if prefix + name != "twin_cross_entropy"
                }
                for family in FAMILIES.values():
                    for binning in BINNINGS:
                        if prefix and PAPER_BINNING.get(family.name) != binning:
                            continue
                        for bins in BINS:
                            loss = (
                                losses["brier"] / N_CLASSES if family.name.endswith("cw") else losses["confidence_loss"]
                            )
                            u = noise * loss * rng.normal() / np.sqrt(bins)
                            row[prefix + error_column(family.name, binning, bins)] = (loss + u) / N_TEST
                            if not prefix and family.loss is not None:
                                row[u_column(family.name, binning, bins)] = u
            rows.append(row)
    return with_scores(pd.DataFrame(rows))


def overfitting_table(traces: int = 3, epochs: int = 15) -> pd.DataFrame:
    """The made-up table with a gap that grows as the error falls, which the repair of the confidence undoes."""
    table = made_up_table(traces, epochs)
    wrong = table["classification_error"]
    new = {gap_column("ConfCE_corr", "auto"): 20 * (1 - wrong)}
    for name, gap in (("none", 30 * (1 - wrong)), ("top", 20 * wrong)):
        new[f"{name}_classification_error"] = wrong
        new[f"{name}_{gap_column('ConfCE_corr', 'auto')}"] = gap
        new |= {f"{name}_ConfECE_fix_{bins}": gap / 100 for bins in BINS}
    new |= {f"ConfECE_fix_{bins}": 1 - wrong for bins in BINS if bins < 2000}
    return pd.concat([table.drop(columns=[c for c in new if c in table]), pd.DataFrame(new)], axis=1)
