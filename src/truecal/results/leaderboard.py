"""leaderboard: models on several tasks, ranked by the mean of their losses, with verdicts corrected over them all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

from scipy.special import ndtr, ndtri

from ..core.parameters import described
from ..core.result import on_one_line, plain
from ..core.tables import Head, Table, Tabular
from ..core.words import SHOWN, some_of
from ..inference.calibration_result import Standing
from ..inference.checks import check_level
from .comparison import Comparison
from .verdict import standings


@final
@dataclass(frozen=True)
class MeanDifference:
    """First minus second: the mean over tasks of the differences of their losses.

    [low, high] holds for all pairs of models at once (Bonferroni); `pvalue` is corrected over them (Holm).
    """

    first: str
    second: str
    estimate: float
    low: float
    high: float
    pvalue: float


@final
@dataclass(frozen=True, repr=False, eq=False)
class Leaderboard(Tabular):
    """Models by the mean of their losses over tasks, and what is beyond noise.

    `losses` by model and task; `means` by model, best first, over the tasks that every model was run on; `pairs` the
    differences of mean losses; `standings` the calibration tests by model and task, corrected over all of them.
    """

    tasks: tuple[str, ...]
    losses: dict[str, dict[str, float]]
    means: dict[str, float]
    pairs: tuple[MeanDifference, ...]
    standings: dict[str, dict[str, Standing]]
    comparisons: dict[str, Comparison]
    level: float
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> tuple[str, ...]:
        """The model with the lowest mean loss, and those whose mean loss is not larger beyond noise."""
        top = next(iter(self.means))
        worse = {p.second for p in self.pairs if p.first == top and p.pvalue <= self._alpha and p.estimate < 0}
        worse |= {p.first for p in self.pairs if p.second == top and p.pvalue <= self._alpha and p.estimate > 0}
        return (top, *(name for name in self.means if name != top and name not in worse))

    @property
    def _alpha(self) -> float:
        return 1 - self.level + 1e-12

    @property
    def sentences(self) -> tuple[str, str]:
        """Which models predict best, and which are not calibrated where."""
        best, n = self.best, len(self.means)
        tasks, pairs = (
            f"{n} {word}{'s' * (n > 1)}" for n, word in ((len(self.tasks), "task"), (len(self.pairs), "pair"))
        )
        over = f"on average over {tasks} (corrected over {pairs} of models)"
        first = f"{best[0]} predicts best {over}."
        if len(best) > 1:
            none = "No model is worse beyond noise" if len(best) == n else f"{some_of(list(best))} predict best"
            first = f"{none} {over}."
        off = [
            f"{model} on {task} ({self.comparisons[task].evaluations[model].direction.word})"
            for model in self.means
            for task, standing in self.standings[model].items()
            if standing.state == "rejected"
        ]
        tests = sum(s.state != "untested" for each in self.standings.values() for s in each.values())
        shown = ", ".join(off[: 2 * SHOWN]) + (f" and {len(off) - 2 * SHOWN} more" if len(off) > 2 * SHOWN else "")
        second = f"Not calibrated (corrected over {tests} tests): {shown}." if off else "No miscalibration detected."
        return first, second if tests else "Calibration was not tested."

    def rows(self) -> list[dict[str, Any]]:
        """One row per model, lowest mean loss first."""
        return [
            {"rank": rank, "model": model, "mean": mean} | self.losses[model]
            for rank, (model, mean) in enumerate(self.means.items(), 1)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON types: rows, pairs, standings and sentences."""
        own = {"tasks": self.tasks, "rows": self.rows(), "pairs": self.pairs, "standings": self.standings}
        return {name: plain(value) for name, value in own.items()} | {
            "level": self.level,
            "sentences": list(self.sentences),
            "notes": list(self.notes),
        }

    @property
    def headline(self) -> str:
        """How many models and tasks there are."""
        return f"{len(self.means)} models, {len(self.tasks)} tasks: loss, lower is better"

    def table(self) -> Table:
        """Models by their mean loss, with that on every task."""
        columns = list(dict.fromkeys(task for each in self.losses.values() for task in each))
        heads = [Head("rank"), Head("model", False), Head("mean"), *map(Head, columns)]
        return heads, [
            [str(row["rank"]), row["model"], f"{row['mean']:.4f}"]
            + [f"{row[task]:.4f}" if task in row else "" for task in columns]
            for row in self.rows()
        ]


@described("A Leaderboard.", comparisons="The Comparison of each task, by its name: models must have the same names.")
def leaderboard(comparisons: Mapping[str, Comparison], *, level: float = 0.95) -> Leaderboard:
    """Rank models over several tasks by the mean of their losses.

    Each task is a `tc.compare` of the models on its questions; tasks of choices need errors=["confidence"], so that
    their losses are in one unit. Models that were not run on all tasks are ranked by those that all were run on. The
    difference of two models is the mean over tasks of the differences of their losses, and its variance the sum of
    the variances: tasks are taken as given, not as a sample of all tasks.

    >>> import numpy as np, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> tasks = {}
    >>> for name in ("history", "physics"):
    ...     chances = rng.random(600)
    ...     y = rng.random(600) < chances
    ...     tasks[name] = tc.compare(y, {"honest": chances, "sharp": chances > .5}, errors=["binary"], n_resamples=99)
    >>> board = tc.analysis.leaderboard(tasks)
    >>> print(board.sentences[0])
    honest predicts best on average over 2 tasks (corrected over 1 pair of models).
    """
    level = check_level(level)
    if not comparisons or not all(isinstance(found, Comparison) for found in comparisons.values()):
        raise TypeError("comparisons must map tasks to results of tc.compare")
    comparisons = {on_one_line(task): found for task, found in comparisons.items()}
    models = list(dict.fromkeys(name for found in comparisons.values() for name in found.names))
    tasks = tuple(task for task, found in comparisons.items() if set(found.names) == set(models))
    if not tasks or len(models) < 2:
        raise ValueError(f"expected two or more models and a task that all were run on, got {', '.join(models)}")
    losses: dict[str, dict[str, float]] = {model: {} for model in models}
    for task, found in comparisons.items():
        if len({found.headline, comparisons[tasks[0]].headline}) > 1:
            raise ValueError(
                f"task {task!r} is measured by {found.headline!r} and {tasks[0]!r} by "
                f'{comparisons[tasks[0]].headline!r}: compare all with the same errors, such as errors=["confidence"]'
            )
        for name, evaluation in found.evaluations.items():
            if evaluation.score is None:
                raise ValueError(f"task {task!r}: no truthful error was measured for {name!r}")
            losses[name][task] = evaluation.ranking_loss
    means = {model: math.fsum(losses[model][task] for task in tasks) / len(tasks) for model in models}
    judged = standings({(m, t): c.evaluations[m] for t, c in comparisons.items() for m in c.names}, level)
    left = [task for task in comparisons if task not in tasks]
    return Leaderboard(
        tasks=tasks,
        losses=losses,
        means=dict(sorted(means.items(), key=lambda item: item[1])),
        pairs=_pairs(comparisons, tasks, models, level),
        standings={m: {t: judged[m, t] for t in comparisons if (m, t) in judged} for m in models},
        comparisons=dict(comparisons),
        level=level,
        notes=(f"not every model was run on {some_of(left)}: the mean leaves them out",) if left else (),
    )


def _pairs(
    comparisons: Mapping[str, Comparison], tasks: tuple[str, ...], models: list[str], level: float
) -> tuple[MeanDifference, ...]:
    """Differences of mean losses, with joint intervals and Holm's p-values."""
    found = []
    for a, b in combinations(models, 2):
        parts = [comparisons[task].pair(a, b).loss for task in tasks]
        estimate = math.fsum(part.estimate for part in parts) / len(parts)
        se = math.sqrt(math.fsum(part.se**2 for part in parts)) / len(parts)
        p = 2 * float(ndtr(-abs(estimate) / se)) if se > 0 else float(estimate == 0)
        found.append((a, b, estimate, se, p if math.isfinite(p) else 1.0))
    width = float(-ndtri((1 - level) / (2 * len(found))))
    adjusted, largest = {}, 0.0
    for i, (a, b, _, _, p) in enumerate(sorted(found, key=lambda one: one[-1])):
        largest = max(largest, min(1.0, (len(found) - i) * p))
        adjusted[a, b] = largest
    return tuple(
        MeanDifference(a, b, estimate, estimate - width * se, estimate + width * se, adjusted[a, b])
        for a, b, estimate, se, _ in found
    )
