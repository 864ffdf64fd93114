"""Findings of an audit: the kinds of lies that gain, in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from .search import Found

WORDS = {
    "pool": "rewards pooling: one common prediction for rows with different probabilities scores better",
    "uniform": "rewards ignorance: the same probability for every class scores better",
    "shrink": "rewards shrinking towards the base rate",
    "sharpen": "rewards over-confidence: predictions sharper than the truth score better",
    "round": "rewards rounding",
    "jitter": "rewards jitter: predictions changed by a millionth score better",
    "spread": "rewards predictions shifted by some points",
    "change the top": "rewards a changed top class",
    "hide small chances": "rewards pushing small probabilities under a threshold",
    "exchange rows": "rewards exchanging the predictions of rows",
    "anything": "rewards predictions without any pattern",
}
"""One sentence for every way to lie."""


@final
@dataclass(frozen=True)
class Rewarded:
    """A misreport that the metric rewards, and its largest gain."""

    name: str
    text: str
    gain: float


def findings(found: Found) -> tuple[Rewarded, ...]:
    """Return the ways to lie that gained beyond doubt, the largest gain first."""
    rest = sorted(found.gains.values(), key=lambda lie: -lie.gain)
    said = [Rewarded(lie.kind, WORDS[lie.kind], lie.gain) for lie in rest if lie.kind != "anything"]
    if not said and found.lies:
        best = max(found.lies, key=lambda lie: lie.gain)
        said = [Rewarded(best.kind, WORDS[best.kind], best.gain)]
    return tuple(said)
