"""What a conviction means in plain words, read off the lies that gain."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .expectations import Proof, tabulate, values
from .metric import Metric, OutOfTimeError
from .search import Found, Lie
from .worlds import JITTER, Matrix

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
SORTS = "sorts labels into ties"
JOINS = "judges rows together"


@final
@dataclass(frozen=True)
class Rewarded:
    """A misreport that the metric rewards, and its largest gain."""

    name: str
    text: str
    gain: float


def findings(found: Found) -> tuple[Rewarded, ...]:
    """The ways to lie that gained beyond doubt, the largest gain first, after what explains them."""
    rest = sorted(found.gains.values(), key=lambda lie: -lie.gain)
    said = [Rewarded(lie.kind, WORDS[lie.kind], lie.gain) for lie in rest if lie.kind != "anything"]
    if not said and found.lies:
        best = max(found.lies, key=lambda lie: lie.gain)
        said = [Rewarded(best.kind, WORDS[best.kind], best.gain)]
    jittered = found.gains.get("jitter")
    with suppress(OutOfTimeError):  # what explains them costs calls
        if jittered is not None and sorts_labels(jittered.metric, jittered):
            text = f"{SORTS}: rows with equal predictions are ordered by their labels, so bins depend on outcomes"
            said.insert(0, Rewarded(SORTS, text, jittered.gain))
        said += _joined(found.gains.get("pool"))
    return tuple(said)


def drawn_finding(proof: Proof) -> Rewarded:
    """What a proof from drawn outcomes says: the one lie that was judged."""
    return Rewarded(proof.kind, WORDS[proof.kind], proof.gain)


def sorts_labels(metric: Metric, lie: Lie) -> bool:
    """Whether ties have the value of predictions that are parted in the order of their labels, and no other has."""
    world = lie.frame.around(lie.world)
    outcomes = lie.frame.outcomes(*lie.world.shape)
    tied = values(metric, world, outcomes)
    plain = [_parted(metric, y, world, np.arange(len(y))) for y in outcomes]
    if np.allclose(tied.astype(float), plain, rtol=1e-4):
        return False  # the order of rows decides, which is no order of labels
    for sign in (1, -1):
        sorted_ = [_parted(metric, y, world, np.argsort(np.argsort(sign * y, kind="stable"))) for y in outcomes]
        if np.allclose(tied.astype(float), sorted_, rtol=1e-4):
            return True
    return False


def _parted(metric: Metric, y: NDArray[Any], rows: Matrix, order: NDArray[Any]) -> float:
    """The metric with every uncertain prediction moved a little, the more the later its row in the order."""
    moved = rows.copy()
    for i, place in enumerate(order):
        if 0 < moved[i, -1] < 1 and moved[i, 0] > 0:
            shift = JITTER * int(place) / 100
            moved[i, -1], moved[i, 0] = moved[i, -1] + shift, moved[i, 0] - shift
    return float(metric(y, moved))


def _joined(lie: Lie | None) -> tuple[Rewarded, ...]:
    """Pairs of rows whose outcomes are judged together under the lie and apart under the truth.

    The second difference of the value in two outcomes is zero when the metric adds up over the two rows. It explains
    a conviction; it proves nothing.
    """
    if lie is None or lie.world.shape[1] != 2 or lie.frame.before + lie.frame.after:
        return ()
    table = tabulate(lie.metric, [lie.world, lie.lie])
    n = table.rows
    honest, lying = (row.astype(float).reshape((2,) * n) for row in table.values)
    pairs = [
        (i, j)
        for i, j in combinations(range(n), 2)
        if _second_difference(honest, i, j) < 1e-9 < 1e-6 < _second_difference(lying, i, j)
    ]
    if not pairs:
        return ()
    shown = ", ".join(f"{i} and {j}" for i, j in pairs[:3])
    text = f"{JOINS}: under the pooling lie the residuals of rows {shown} cancel, under the truth they do not"
    return (Rewarded(JOINS, text, lie.gain),)


def _second_difference(value: NDArray[np.float64], i: int, j: int) -> float:
    """The largest |Δ_i Δ_j value| over the outcomes of the other rows."""
    return float(np.abs(np.diff(np.diff(value, axis=i), axis=j)).max())
