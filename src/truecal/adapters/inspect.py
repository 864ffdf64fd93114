"""calibration: a metric of inspect_ai over scores that carry a confidence."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from ..core.extras import require
from ..io.inspect_log import CONFIDENCE, HITS
from ..kinds.answers import FEWEST
from .logged_numbers import PAIR_NUMBERS, CorrectAndConfidence, numbers, numbers_of_pairs

__all__ = ["calibration"]

_decorate = require("inspect_ai.scorer", "inspect").metric


def _by_epoch(decorate: Any) -> Any:
    """Every epoch by itself, where the framework can give them: their mean is no outcome."""
    try:
        return decorate(scores="unreduced") if "scores" in signature(decorate).parameters else decorate
    except TypeError:  # a stand-in for the framework, of which no signature is known
        return decorate


_metric = _by_epoch(_decorate)


@_metric  # type: ignore[untyped-decorator]  # the framework comes without types where it is absent
def calibration(confidence: str = CONFIDENCE, cluster: str | None = None) -> Callable[[Sequence[Any]], dict[str, Any]]:
    """Score, gap in points with its interval, p-value, ECE and accuracy of answers that state their confidence.

    Scores must be C or I, or 1 or 0, with a number from 0 to 1 under `confidence` in the metadata of the score or of
    the sample. `cluster` names a key of the sample's metadata, as it does in inspect_ai's `stderr`: samples that share
    it are not independent, and the test, which needs independent ones, is left out. So are several epochs of a sample.

    Without any stated confidence, at least four epochs of each sample are measured as `tc.from_samples` does: the share
    of an answer is its confidence, and the answers that choose it are not those that report its share. Samples with
    fewer epochs are left out, and fewer than three samples give no numbers.
    """

    def measure(scores: Sequence[Any]) -> dict[str, Any]:
        if not scores:
            return {}
        if all(_stated(score, confidence) is None for score in scores):
            return _sampled(scores, confidence)
        ids = [score.sample_id for score in scores]
        groups = ids if 3 <= len(set(ids)) < len(ids) else None  # fewer clusters give no interval
        groups = groups if cluster is None else [_cluster(score, cluster) for score in scores]
        found = numbers_of_pairs([_pair(score, confidence) for score in scores], groups)
        return {name: found[name] for name in PAIR_NUMBERS if name in found}

    return measure


def _stated(sample: Any, key: str) -> Any:
    both = (sample.score.metadata, sample.sample_metadata)
    return next((m[key] for m in both if m and m.get(key) is not None), None)


def _sampled(scores: Sequence[Any], key: str) -> dict[str, Any]:
    import truecal as tc

    ids = [score.sample_id for score in scores]
    if any(getattr(score.score, "answer", None) is None for score in scores):
        _pair(scores[0], key)  # raises: neither a stated confidence nor answers of several epochs
    if len(set(ids)) == len(ids):  # also on the way, while the first epoch runs: an error would end the evaluation
        logging.getLogger("truecal").warning("calibration: no confidence is stated; run at least 4 epochs")
        return {}
    asked = Counter(ids)
    scores = [score for score in scores if asked[score.sample_id] >= FEWEST]  # the framework also asks on the way
    ids = [score.sample_id for score in scores]
    if len(set(ids)) < 3:
        return {}
    answers, correct = [score.score.answer for score in scores], [_right(score) for score in scores]
    found = numbers(tc.from_samples(answers, correct, questions=ids))
    return {name: found[name] for name in PAIR_NUMBERS if name in found}


def _pair(sample: Any, key: str) -> CorrectAndConfidence:
    stated = _stated(sample, key)
    if isinstance(stated, bool) or not isinstance(stated, (int, float)):
        raise ValueError(
            f"calibration: expected a number under {key!r} in the metadata of the score or of sample "
            f"{sample.sample_id!r}, got {stated!r}; without any, run at least 4 epochs of every sample"
        )
    return _right(sample), float(stated)


def _right(sample: Any) -> bool:
    value = sample.score.value
    if not isinstance(value, (str, bool, int, float)) or value not in HITS:
        raise ValueError(
            f"calibration: expected a score of C or I, or 1 or 0, for sample {sample.sample_id!r}, got {value!r} "
            "(several epochs need a reducer that keeps one of these, such as 'mode')"
        )
    return HITS[value]


def _cluster(sample: Any, key: str) -> Any:
    found = (sample.sample_metadata or {}).get(key)
    if found is None:
        raise ValueError(
            f"calibration: expected a cluster under {key!r} in the metadata of sample {sample.sample_id!r}"
        )
    return found
