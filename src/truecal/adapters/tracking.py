"""log_result: an evaluation or a comparison as numbers, a table and a page of a run of MLflow or Weights & Biases."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, final

from ..core.data import shown
from ..core.extras import require
from ..render.report import render_report
from ..results import columns
from ..results.comparison import Comparison
from ..results.evaluation import Evaluation
from ..results.measurement import LOGGERS
from .logged_numbers import numbers

__all__ = ["log_result"]

_FOREIGN = re.compile(r"[^\w.\- ]")  # what MLflow refuses in the name of a number, and the slash, which makes groups


@final
@dataclass(frozen=True)
class Record:
    """Everything that is logged to a run, made before any of it is sent."""

    values: dict[str, float]
    rows: list[dict[str, Any]]
    files: dict[str, str]

    @property
    def columns(self) -> list[str]:
        return list(self.rows[0])

    @property
    def data(self) -> list[list[Any]]:
        """The rows of the table, without titles."""
        return [[row[column] for column in self.columns] for row in self.rows]


def log_result(result: Evaluation | Comparison, run: Any, *, prefix: str, step: int | None) -> None:
    """Log to the framework that `run` belongs to: its module, with an active run, or one of its runs."""
    framework = str(getattr(run, "__name__", type(run).__module__)).partition(".")[0]
    log, has = _FRAMEWORKS.get(framework, (None, ""))
    if log is None or not (isinstance(run, ModuleType) or hasattr(run, has)):
        raise TypeError(f"run must be mlflow, wandb, or a run of one of them, got {shown(run)}")
    log(result, run, prefix, step)


LOGGERS[:] = [log_result]


def record_of(result: Evaluation | Comparison) -> Record:
    """The numbers of each model (or subgroup), the leaderboard (or all errors), the page and the whole as JSON."""
    whole = result.to_dict()
    if isinstance(result, Comparison):
        rows: list[dict[str, Any]] = whole["leaderboard"]
        found = {row.model.name: columns.numbers(row) for row in result.rows_of_columns()}
    else:
        rows = whole["errors"]
        found = {name: numbers(part) for name, part in result.subgroups.items()}
    values = {} if isinstance(result, Comparison) else numbers(result)
    for label, named in zip(labels(found), found.values(), strict=True):
        values |= {f"{label}/{name}": value for name, value in named.items()}
    return Record(values, rows, {"report.html": render_report(result), "result.json": json.dumps(whole, indent=1)})


def labels(names: Iterable[str]) -> list[str]:
    """Names as parts of a number's name: other signs become _, and names that would be the same get a number.

    >>> from truecal.adapters.tracking import labels
    >>> labels(["resnet 50", "a/b", "a:b", ".."])
    ['resnet 50', 'a_b', 'a_b_2', '_']
    """
    found: list[str] = []
    for name in names:
        label = _FOREIGN.sub("_", name)[:100].strip(". ") or "_"  # MLflow takes 250 signs in all
        same = 1
        while (numbered := label if same == 1 else f"{label}_{same}") in found:
            same += 1
        found.append(numbered)
    return found


def _mlflow(result: Evaluation | Comparison, run: Any, prefix: str, step: int | None) -> None:
    mlflow = require("mlflow", "mlflow")
    record = record_of(result)
    run_id = None if run is mlflow else run.info.run_id  # None: the run under way, or a new one, as in all of MLflow
    folder = prefix if step is None else f"{prefix}/{step}"
    mlflow.log_metrics({f"{prefix}/{name}": value for name, value in record.values.items()}, step=step, run_id=run_id)
    columns = {column: [row[column] for row in record.rows] for column in record.columns}
    mlflow.log_table(columns, f"{folder}/table.json", run_id=run_id)  # adds to what an earlier call left there
    whole = json.dumps({"columns": record.columns, "data": record.data})
    for name, text in ({"table.json": whole} | record.files).items():
        mlflow.log_text(text, f"{folder}/{name}", run_id=run_id)


def _wandb(result: Evaluation | Comparison, run: Any, prefix: str, step: int | None) -> None:
    wandb = require("wandb", "wandb")
    run = wandb.run if run is wandb else run
    if run is None:
        raise ValueError("no active wandb run: start one with wandb.init()")
    record = record_of(result)
    shown_in_run = {
        "table": wandb.Table(columns=record.columns, data=record.data, allow_mixed_types=True),
        "report": wandb.Html(record.files["report.html"], inject=False),
    }
    run.log({f"{prefix}/{name}": value for name, value in (record.values | shown_in_run).items()}, step=step)
    artifact = wandb.Artifact(f"{_FOREIGN.sub('_', prefix)}-{run.id}".replace(" ", "_"), type="calibration")
    for name, text in record.files.items():
        with artifact.new_file(name, encoding="utf-8") as file:
            file.write(text)
    run.log_artifact(artifact)


_FRAMEWORKS: dict[str, tuple[Callable[[Evaluation | Comparison, Any, str, int | None], None], str]] = {
    "mlflow": (_mlflow, "info"),
    "wandb": (_wandb, "log"),
}
"""How to log to each, and what a run of it has that clients and other objects have not."""
