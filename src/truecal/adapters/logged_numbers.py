"""The numbers that every framework is given: an evaluation as a flat dictionary, also of bare (right?, confidence)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..results.evaluation import Evaluation

__all__ = ["numbers", "numbers_of_pairs"]

CorrectAndConfidence = tuple[bool, float]
"""Whether an answer was right, and the confidence it was given."""

PAIR_NUMBERS = ("score", "gap", "gap_low", "gap_high", "pvalue", "ece", "accuracy")
"""What `numbers` gives for pairs, less those that the rows do not allow."""


def numbers(result: Evaluation) -> dict[str, float]:
    """The headline of an evaluation: score, gap in points with its interval, p-value, ECE, accuracy and Brier score.

    Numbers that are not defined are left out, such as an unreliable interval.

    >>> import truecal as tc
    >>> from truecal.adapters.logged_numbers import numbers
    >>> result = tc.evaluate([0, 1, 1, 0] * 10, [.2, .9, .6, .1] * 10, n_resamples=99)
    >>> list(numbers(result))
    ['score', 'gap', 'gap_low', 'gap_high', 'pvalue', 'ece', 'accuracy', 'brier']
    """
    gap, test = result.gap, result.test
    losses = {value.name: value.value for value in result.losses}
    found = {
        "score": result.score,
        "gap": None if gap is None else gap.points,
        "gap_low": None if gap is None or gap.note else gap.low,
        "gap_high": None if gap is None or gap.note else gap.high,
        "pvalue": None if test is None else test.pvalue,
        "ece": result.ece,
        "accuracy": result.accuracy,
        "brier": losses.get("brier"),
    }
    return {name: float(value) for name, value in found.items() if value is not None}


def numbers_of_pairs(pairs: Sequence[Any], groups: Sequence[Any] | None = None) -> dict[str, float]:
    """The numbers of answers of which only (right?, confidence) is known; `groups` gives each one a cluster.

    A framework asks for one number at a time, so the last few sets of pairs are remembered.

    >>> from truecal.adapters.logged_numbers import numbers_of_pairs
    >>> found = numbers_of_pairs([(True, .9), (False, .6), (True, .7), (True, .8)] * 10)
    >>> found["accuracy"], round(found["ece"], 3)
    (0.75, 0.3)
    """
    clusters = None if groups is None else tuple(groups)
    return dict(_measured(tuple((right, chance) for right, chance in pairs), clusters))


@lru_cache(maxsize=4)
def _measured(pairs: tuple[CorrectAndConfidence, ...], groups: tuple[Any, ...] | None) -> dict[str, float]:
    import truecal as tc

    right, chances = zip(*pairs, strict=True) if pairs else ((), ())
    top = tc.TopPredictions(list(right), list(chances))
    return numbers(tc.evaluate(None, top, groups=None if groups is None else list(groups)))
