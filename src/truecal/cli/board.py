"""Logs of several models on several tasks: one comparison per task, and the leaderboard over them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import typer

from truecal.kinds import TopPredictions
from truecal.kinds.inputs import Progress

from .loading import load
from .sources import Asked, Measured

_OF_ONE_TASK = ("--labels", "--temperature", "--by", "--groups", "--overlap", "--weights", "--errors", "--task")


@dataclass(frozen=True)
class Board:
    """Logs of several models on several tasks."""

    asked: Asked
    rows: int = 0

    @classmethod
    def of(cls, asked: Asked) -> Self | None:
        if len({run.task for run in asked.runs}) < 2:
            return None
        why = "cannot be used with logs of several tasks: compare one task"
        asked.refuse(_OF_ONE_TASK, why)
        if asked.advise:
            raise typer.BadParameter(why, param_hint="--html")
        return cls(asked)

    def measure(self, progress: Progress | None) -> Measured:
        """Compare the models on each task by the confidence of their answers, and rank them over all."""
        import truecal as tc

        runs, settings = self.asked.runs, self.asked.measuring.settings()
        if settings["n_resamples"] is None:  # enough for the smallest corrected p-value
            settings["n_resamples"] = max(199, round(2 * len(runs) / (1 - settings["level"])))
        tasks = dict.fromkeys(run.task for run in runs)
        found = {}
        for i, task in enumerate(tasks):
            if progress is not None:
                progress(i / len(tasks))
            own = [run for run in runs if run.task == task]
            loaded = load([run.path for run in own], self.asked.reading)
            read = zip(own, loaded.models.values(), strict=True)
            models = {run.model: _top(loaded.y_true, model) for run, model in read}
            found[task] = tc.compare(None, models, groups=loaded.first.groups, **settings)
        return Measured(tc.analysis.leaderboard(found, level=settings["level"]))


def _top(y_true: Any, model: Any) -> TopPredictions:
    """Choices of different tasks are no common classes: what is compared is the confidence of the answer."""
    if isinstance(model, TopPredictions):
        return model
    return TopPredictions(model.argmax(axis=1) == y_true, model.max(axis=1))
