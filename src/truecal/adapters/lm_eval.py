"""CalibratedTask: multiple-choice tasks of lm-evaluation-harness that also report calibration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from ..core.extras import require
from .logged_numbers import PAIR_NUMBERS, CorrectAndConfidence, numbers_of_pairs

if TYPE_CHECKING:
    from lm_eval.api.task import ConfigurableTask
else:
    ConfigurableTask = require("lm_eval.api.task", "lm-eval").ConfigurableTask

__all__ = ["CalibratedTask"]

_CHANCES = "brier_score"  # the harness hands this metric of its own the right choice and the softmax over all choices
_MEAN = {"aggregation": "mean", "higher_is_better": True}
_OWN = {f"truecal_{name}": name for name in PAIR_NUMBERS if name != "accuracy"}  # `acc` is the harness's


@final
class CalibratedTask(ConfigurableTask):  # type: ignore[misc]  # the harness comes without types where it is absent
    """A multiple-choice task whose results hold truecal_score, _gap, _gap_low, _gap_high, _pvalue and _ece as well.

    Set `class` in the YAML of a task and leave the rest unchanged:

        include: arc_easy.yaml
        task: arc_easy_calibrated
        class: !function truecal.adapters.lm_eval.CalibratedTask

    The confidence of an answer is the largest probability of the softmax over the log-likelihoods of the choices, and
    the answer is right where the harness's `acc` is 1. The interval of the gap is reported as separate numbers, because
    the harness computes standard errors of means or by a bootstrap, which is biased for calibration errors.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        listed = _listed(config)
        self._brier_asked = any(entry.get("metric") == _CHANCES for entry in listed)
        if not self._brier_asked:
            listed.append({"metric": _CHANCES, "aggregation": _CHANCES, "higher_is_better": False})
        rest = {key: value for key, value in config.items() if key != "class"}
        super().__init__(config=rest | {"metric_list": listed})

    def process_results(self, doc: Any, results: Any) -> dict[str, Any]:
        """The harness's results of a document, and (right?, confidence) under each of our names."""
        found = dict(super().process_results(doc, results))
        gold, chances = found[_CHANCES] if self._brier_asked else found.pop(_CHANCES)
        return found | dict.fromkeys(_OWN, pair(gold, chances))

    def aggregation(self) -> dict[str, Callable[[Sequence[Any]], float]]:
        """The harness's aggregations, and ours."""
        return {**super().aggregation(), **{name: partial(aggregate, number) for name, number in _OWN.items()}}

    def higher_is_better(self) -> dict[str, bool]:
        """Only the score ranks models: lower is better."""
        return {**super().higher_is_better(), "truecal_score": False}


def _listed(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The metrics that the task has by its YAML or by default; other kinds of tasks are refused."""
    if config.get("output_type") != "multiple_choice":
        raise ValueError(f"CalibratedTask expects output_type multiple_choice, got {config.get('output_type')!r}")
    if config.get("process_results") is not None:
        raise ValueError("CalibratedTask needs the default process_results; this task overrides it")
    if config.get("metric_list"):
        return [dict(entry) for entry in config["metric_list"]]
    defaults = require("lm_eval.api.registry", "lm-eval").DEFAULT_METRIC_REGISTRY["multiple_choice"]
    return [{"metric": name} | _MEAN for name in defaults]


def pair(gold: Any, chances: Any) -> CorrectAndConfidence:
    """Whether the likeliest choice is right, or one of several right ones, and its probability."""
    values = np.asarray(chances, dtype=np.float64)
    top = int(values.argmax())
    return top in (gold if isinstance(gold, (list, tuple)) else [gold]), float(values[top])


def aggregate(number: str, pairs: Sequence[Any]) -> float:
    """One of our numbers over all documents; NaN where they do not allow it."""
    return numbers_of_pairs(pairs).get(number, float("nan"))
