"""Larger samples: outcomes are drawn, a lie is chosen on one stream of them and judged on a fresh one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .expectations import RELATIVE
from .metric import Metric
from .proof import Proof
from .search import Found, Searched
from .worlds import Matrix, as_floats, lies, worlds

SIZES = (20, 60, 200)
RISK = 1e-6
"""The chance that any drawn proof of an audit is wrong,"""
MOST = 200
"""which judges no more lies than this on fresh draws: three sizes, three worlds, up to twenty numbers of classes."""
_FIRST, _SECOND = 40, 1500  # draws to choose a lie on, and at least as many to judge it on


def simulate(found: Found, metric: Metric, k: int, seed: int, calls: int) -> Proof | None:
    """The first drawn proof, over sizes and worlds; what was looked at is noted."""
    last = metric.meter.calls + calls
    for n in SIZES:
        for world in list(worlds(n, k, seed).values())[:3]:
            candidates = lies(world, seed)
            left = min(last - metric.meter.calls, metric.meter.left)
            second = (left - (len(candidates) + 1) * _FIRST) // 2
            if second < _SECOND:
                return None
            proof = _judge(found, metric, world, candidates, np.random.default_rng([seed, n, k]), min(second, 4000))
            if proof is not None:
                return proof
    return None


def draw(world: Matrix, draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Independent outcomes of every row, one sample per line."""
    edges = as_floats(world).cumsum(axis=1)[:, :-1]
    drawn: NDArray[np.int64] = (rng.random((draws, len(world), 1)) >= edges).sum(axis=2, dtype=np.int64)
    return drawn


def _judge(
    found: Found, metric: Metric, world: Matrix, candidates: Any, rng: np.random.Generator, second: int
) -> Proof | None:
    """The lie that looks best on the first draws, on the second draws; the same draws for truth and lie."""
    first = draw(world, _FIRST, rng)
    honest = _values(metric, world, first)
    kind, lie = max(candidates, key=lambda c: _promise(honest - _values(metric, c[1], first)))
    difference = honest - _values(metric, lie, first)
    if not _promise(difference) > 2:  # no lie looks better than chance: what could have been seen is said all the same
        _note(found, world, len(candidates), _width(difference, second))
        return None
    outcomes = draw(world, second, rng)
    truth, other = (_values(metric, rows, outcomes) for rows in (world, lie))
    gain, width = float(np.mean(truth - other)), _width(truth - other, second)
    _note(found, world, len(candidates), width)
    if not gain > max(width, RELATIVE * float(np.abs(truth).max())):
        return None
    sign = -1 if metric.form.higher_is_better else 1
    return Proof(
        world=as_floats(world),
        lie=as_floats(lie),
        kind=kind,
        expected_truth=sign * float(truth.mean()),
        expected_lie=sign * float(other.mean()),
        gain=gain,
        bound=width,
        exact=False,
        outcomes=outcomes,
        chances=np.full(second, 1 / second),
    )


def _note(found: Found, world: Matrix, lies: int, width: float) -> None:
    """What was looked at: no world at all where a value was missing."""
    n, k = world.shape
    seen = int(math.isfinite(width))
    found.searched.append(Searched("named lies, drawn outcomes", n, k, seen, seen * lies, width, exact=False))


def _values(metric: Metric, rows: Matrix, outcomes: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.array([float(metric(y, rows)) for y in outcomes])


def _promise(difference: NDArray[np.float64]) -> float:
    """How many standard errors the mean is above zero; nothing where a value is missing."""
    if not np.isfinite(difference).all():
        return -math.inf
    mean, error = float(difference.mean()), float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return mean / error if error > 0 else math.copysign(math.inf, mean) if mean else 0.0


def _width(difference: NDArray[np.float64], draws: int) -> float:
    """How far a mean of so many draws may be off, but for `RISK`: the empirical Bernstein bound (arXiv 0907.3740).

    It needs the range of the differences, which nobody knows of a stranger's metric: twice the range seen is taken.
    """
    if not np.isfinite(difference).all():
        return math.nan
    log = math.log(2 * MOST / RISK)
    spread, reach = float(difference.var(ddof=1)), 2 * float(np.ptp(difference))
    return math.sqrt(2 * spread * log / draws) + 7 * reach * log / (3 * (draws - 1))
