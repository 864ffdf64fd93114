"""Logs of several models on several tasks: one comparison per task, and the leaderboard over them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from truecal.io.runs import Run
from truecal.kinds import TopPredictions
from truecal.kinds.inputs import Progress

from .loading import load
from .shared_options import Measuring, Outputs, Reading

if TYPE_CHECKING:
    from truecal.results.leaderboard import Leaderboard


def refuse_options(reading: Reading, measuring: Measuring, outputs: Outputs) -> None:
    """Options that speak of one task."""
    given = {
        "--labels": reading.labels,
        "--temperature": reading.temperature or None,
        "--by": measuring.by,
        "--groups": measuring.groups,
        "--weights": measuring.weights,
        "--errors": measuring.errors,
        "--task": None if measuring.task == "auto" else measuring.task,
        "--html": outputs.html,
    }
    for option, value in given.items():
        if value is not None:
            raise typer.BadParameter("cannot be used with logs of several tasks: compare one task", param_hint=option)


def measure_board(
    runs: Sequence[Run], reading: Reading, measuring: Measuring, progress: Progress | None
) -> Leaderboard:
    """Compare the models on each task by the confidence of their answers, and rank them over all."""
    import truecal as tc

    settings = measuring.settings()
    if settings["n_resamples"] is None:  # enough for the smallest corrected p-value
        settings["n_resamples"] = max(199, round(2 * len(runs) / (1 - settings["level"])))
    tasks = dict.fromkeys(run.task for run in runs)
    found = {}
    for i, task in enumerate(tasks):
        if progress is not None:
            progress(i / len(tasks))
        own = [run for run in runs if run.task == task]
        loaded = load([run.path for run in own], reading)
        models = {run.model: _top(loaded.y_true, model) for run, model in zip(own, loaded.models.values(), strict=True)}
        found[task] = tc.compare(None, models, groups=loaded.first.groups, **settings)
    return tc.analysis.leaderboard(found, level=settings["level"])


def _top(y_true: Any, model: Any) -> TopPredictions:
    """Choices of different tasks are no common classes: what is compared is the confidence of the answer."""
    if isinstance(model, TopPredictions):
        return model
    return TopPredictions(model.argmax(axis=1) == y_true, model.max(axis=1))
