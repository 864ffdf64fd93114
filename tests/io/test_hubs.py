"""Forecast hubs: rows per level or category, pivoted and joined with target data as pandas does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from closeness import assert_close
from truecal.cli.app import run
from truecal.io import FileError, read_predictions
from truecal.io.forecast_files import read_forecasts

LEVELS = (0.025, 0.25, 0.5, 0.75, 0.975)
CATEGORIES = ("low", "moderate", "high")
TASKS = ["reference_date", "location", "horizon", "target_end_date"]
rng = np.random.default_rng(3)
UNITS = pd.DataFrame(
    [("2024-01-06", place, h, f"2024-01-{6 + 7 * h:02d}") for place in ("US", "01", "02") for h in range(3)],
    columns=TASKS,
)
TRUTH = pd.DataFrame({"location": ["US", "01", "02"]}).merge(
    pd.DataFrame({"target_end_date": UNITS.target_end_date[:3]}), how="cross"
)
TRUTH["observation"] = rng.integers(0, 100, len(TRUTH))
CHANCES = rng.dirichlet([1, 1, 1], len(UNITS))
HAPPENED = rng.integers(0, 3, len(UNITS))


def rows(kind: str, target: str, levels: tuple[object, ...], numbers: np.ndarray) -> pd.DataFrame:
    parts = []
    for j, level in enumerate(levels):
        more: dict[str, Any] = {"target": target, "output_type": kind, "output_type_id": level, "value": numbers[:, j]}
        parts.append(UNITS.assign(**more))
    return pd.concat(parts)


VALUES = np.sort(rng.normal(50, 20, (len(UNITS), len(LEVELS))), axis=1).round(3)
QUANTILES = rows("quantile", "wk inc flu hosp", LEVELS, VALUES)
PMF = rows("pmf", "wk rate", CATEGORIES, CHANCES)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    TRUTH.sample(frac=1, random_state=1)[:-1].to_csv("truth.csv", index=False)
    pd.concat([QUANTILES, PMF]).sample(frac=1, random_state=2).to_csv("hub.csv", index=False)
    oracle = UNITS[["location", "target_end_date"]].assign(target="wk rate", output_type="pmf")
    one = [oracle.assign(output_type_id=name, oracle_value=1 * (j == HAPPENED)) for j, name in enumerate(CATEGORIES)]
    pd.concat(one).to_csv("oracle.csv", index=False)


def test_quantiles_with_their_outcomes() -> None:
    read = read_forecasts("hub.csv", target="truth.csv")
    wanted = QUANTILES.pivot_table(index=TASKS, columns="output_type_id", values="value").reset_index()
    wanted = wanted.merge(pd.read_csv("truth.csv", dtype={"location": str}), on=["location", "target_end_date"])
    assert len(read.forecast) == len(wanted) == len(UNITS) - 1
    values: Any = read.forecast
    found = np.column_stack([np.asarray(read.y_true), values.values])
    hand = wanted[["observation", *LEVELS]].to_numpy()
    assert_close(found[np.lexsort(found.T)], hand[np.lexsort(hand.T)])
    assert "1 without an outcome are left out" in read.note


def test_categories_with_their_outcomes() -> None:
    read = read_predictions("hub.csv", labels="oracle.csv")
    assert read.proba is not None and read.y_true is not None and sorted(read.classes or ()) == sorted(CATEGORIES)
    order = [(read.classes or ()).index(name) for name in CATEGORIES]
    found = np.column_stack([read.proba[:, order], np.argsort(order)[read.y_true]])
    hand = np.column_stack([CHANCES, HAPPENED])
    assert_close(found[np.lexsort(found.T)], hand[np.lexsort(hand.T)], tolerance=1e-9)


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    command = "truecal evaluate hub.csv --labels truth.csv --task distribution --thresholds 0:100:5"
    monkeypatch.setattr("sys.argv", command.split())
    assert run() == 0
    assert "hub: 8 samples, 5 thresholds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t[t.output_type == "quantile"], "pass --task distribution --thresholds LOW:HIGH:COUNT"),
        (lambda t: t[1:], "expected one value of each of 3 levels per forecast"),
        (lambda t: pd.concat([t, t.assign(target="peak")]), "expected pmf rows of one target, found 'wk rate', 'peak'"),
    ],
)
def test_tables_that_are_no_one_forecast_per_row(change: object, said: str) -> None:
    table = pd.concat([PMF, QUANTILES])
    change(table).to_csv("odd.csv", index=False)  # type: ignore[operator]
    with pytest.raises(FileError) as caught:
        read_predictions("odd.csv", labels="oracle.csv")
    assert said in str(caught.value)
    with pytest.raises(FileError, match="pass the target data with --labels FILE"):
        read_forecasts("hub.csv")
