"""The numbers that every framework is given: an evaluation as a flat dictionary, also of bare (right?, confidence)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ..results import columns

if TYPE_CHECKING:
    from ..results.evaluation import Evaluation

__all__ = ["numbers", "numbers_of_pairs"]

CorrectAndConfidence = tuple[bool, float]
"""Whether an answer was right, and the confidence it was given."""

PAIR_NUMBERS = ("accuracy", "gap", "gap_low", "gap_high", "pvalue", "confidence_loss", "score", "ece")
"""What `numbers` gives for pairs, less those that the rows do not allow."""


def numbers(result: Evaluation) -> dict[str, float]:
    """The columns of an evaluation that are numbers: accuracy, gap in points with interval, p-value, loss, score, ECE.

    Numbers that are not defined are left out, such as an unreliable interval.

    >>> import truecal as tc
    >>> from truecal.adapters.logged_numbers import numbers
    >>> result = tc.evaluate([0, 1, 1, 0] * 10, [.2, .9, .6, .1] * 10, n_resamples=99)
    >>> list(numbers(result))
    ['accuracy', 'gap', 'gap_low', 'gap_high', 'pvalue', 'brier', 'score', 'ece']
    """
    return columns.numbers(result.as_row)


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
