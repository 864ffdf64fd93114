"""Which model and which task a log is of, by its own fields: lm-evaluation-harness and inspect_ai."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from truecal.io.column_rules import Request
from truecal.io.containers import inside
from truecal.io.failures import failure, need, parsing, path_text, quote
from truecal.io.inspect_log import is_inspect_log

_DATE = r"_(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d+)"
_SAMPLES = re.compile(rf"samples_(.+){_DATE}\.jsonl")
_RESULTS = re.compile(rf".*{_DATE}\.json")


@dataclass(frozen=True)
class Run:
    """A log of one model on one task."""

    model: str
    task: str
    path: Path


def find_runs(paths: Sequence[Path]) -> list[Run] | None:
    """The runs that all of these files are logs of; None where one is something else.

    Results of the harness stand for the samples that were logged with them, in the same folder at the same time.
    """
    found: list[Run] = []
    for path in paths:
        runs = _inspect_run(path) or _harness_runs(path)
        if not runs:
            return None
        found += [run for run in runs if run not in found]
    seen: dict[tuple[str, str], Path] = {}
    for run in found:
        other = seen.setdefault((run.model, run.task), run.path)
        if other != run.path:
            about = f"{path_text(other)} is a log of {quote(run.model)} on {quote(run.task)} too"
            raise failure(run.path, f"expected one log per model and task, but {about}: give one of them")
    return found


def _inspect_run(path: Path) -> list[Run]:
    suffix = inside(str(path)).suffix
    if not path.is_file() or (suffix != ".eval" and (suffix != ".json" or not is_inspect_log(Request(str(path))))):
        return []
    library = need("inspect_ai.log", "inspect", "inspect_ai logs")
    with parsing(path, "an inspect_ai log"):
        about = library.read_eval_log(str(path), header_only=True).eval
    return [Run(str(about.model), str(about.task), path)]


def _harness_runs(path: Path) -> list[Run]:
    if samples := _SAMPLES.fullmatch(path.name):
        return [Run(_model(path.parent, samples[2]), samples[1], path)]
    dated = _RESULTS.fullmatch(path.name)
    if dated is None or "results" not in _read(path):
        return []
    logged = sorted(path.parent.glob(f"samples_*_{dated[1]}.jsonl"))
    if not logged:
        raise failure(path, "expected sample logs of the same run beside it: run lm_eval with --log_samples")
    return [
        Run(_model(path.parent, dated[1]), found[1], one) for one in logged if (found := _SAMPLES.fullmatch(one.name))
    ]


def _model(folder: Path, date: str) -> str:
    """The name in the results of the run, or the folder that is called by it."""
    for path in sorted(folder.glob(f"*_{date}.json")):
        name = _read(path).get("model_name")
        if isinstance(name, str) and name:
            return name
    return folder.resolve().name or os.fspath(folder)


def _read(path: Path) -> dict[str, Any]:
    with parsing(path, "JSON"):
        found = json.loads(path.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}
