"""The gain of a lie at 300 rows, with drawn outcomes: proofs are exact, but small.

A proof of one row is exact and small, and nobody computes a calibration error of one row. So every convicted metric is
asked what honesty and the best of some plain lies cost it at 300 rows, whose chances are drawn from Dirichlet(1/2).
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from .expectations import RELATIVE, Proof
from .metric import Metric, OutOfTimeError

ROWS = 300
SURE = 4.0
"""A gain of so many standard errors is one."""
_FIRST, _SECOND, _FEWEST = 20, 400, 100  # draws to choose a lie on, to judge it on, and the fewest to judge it on

WORLD = "world = np.random.default_rng(0).dirichlet([0.5] * {k}, 300)"
_TOP = "np.eye(world.shape[1])[world.argmax(axis=1)]"
LIES: tuple[tuple[str, str], ...] = (
    ("pool", "lie = np.tile(world.mean(axis=0), (300, 1))"),
    (
        "pool",
        "top = world.argmax(axis=1)\n"
        "lie = np.array([world[top == j].mean(axis=0) for j in range(world.shape[1])])[top]",
    ),
    ("uniform", "lie = np.full_like(world, 1 / world.shape[1])"),
    ("shrink", "lie = 0.7 * world + 0.3 * world.mean(axis=0)"),
    ("sharpen", f"lie = {_TOP}"),
    ("sharpen", f"lie = 0.9 * world + 0.1 * {_TOP}"),
    ("round", "lie = np.round(world, 1) / np.round(world, 1).sum(axis=1, keepdims=True)"),
    (
        "spread",
        "odd = np.argsort(np.argsort(world[:, 0])) % 2 == 1\n"
        "shift = np.where(odd, np.minimum(0.1, world[:, 1]), -np.minimum(0.1, world[:, 0]))\n"
        "lie = world.copy()\nlie[:, 0] += shift\nlie[:, 1] -= shift",
    ),
    ("exchange rows", "lie = world[::-1].copy()"),
    (
        "hide small chances",
        "lie = np.where(world <= 0.2, 0.0005, world)\nlie[np.arange(300), world.argmax(axis=1)] += 1 - lie.sum(axis=1)",
    ),
)
"""Ways to lie about 300 rows, as the lines that a script would have."""


@final
@dataclass(frozen=True)
class Lasting:
    """Truth and lie at 300 rows: the expected values, over drawn outcomes that are the same for both."""

    kind: str
    """The way of lying."""
    code: str
    """Lines of numpy that make `world` and `lie`."""
    classes: int
    expected_truth: float
    expected_lie: float
    gain: float
    """How much better the lie does on average; below 0 where honesty does better than every lie that was tried."""
    error: float
    """The standard error of the gain."""
    draws: int

    @property
    def survives(self) -> bool:
        """Whether a lie gains at 300 rows as well."""
        return self.gain > SURE * self.error and self.gain > RELATIVE * abs(self.expected_truth)


def at_300_rows(metric: Metric, proof: Proof, calls: int) -> Lasting | None:
    """The best of the lies at 300 rows, or the proof's own in its own world over and over where none of them gains;
    None where calls or values are missing."""
    k = proof.classes
    second = min(_SECOND, (calls - (len(LIES) + 1) * _FIRST) // 4)
    if second < _FEWEST:
        return None
    world = WORLD.format(k=k)
    best = _best(metric, world)
    found = None if best is None else _judged(metric, world, *best, second)
    if (found is None or not found.survives) and proof.rows <= 60:
        tiled = _tiled(metric, proof, second)
        if tiled is not None and (found is None or tiled.survives):
            return tiled
    return found


def made(code: str) -> dict[str, Any]:
    """Run lines of numpy and return their names and values."""
    scope: dict[str, Any] = {"np": np}
    exec(code, scope)  # the lines above
    return scope


def _best(metric: Metric, world: str) -> tuple[str, str] | None:
    """The lie with the largest gain on a few draws, or that is closest to one; None where nothing has a value."""
    rows = made(world)["world"]
    outcomes = draw(rows, _FIRST, np.random.default_rng(1))
    gains = []
    metric.meter.allow(0.5)
    with suppress(OutOfTimeError):  # the best of those that were tried
        honest = _values(metric, rows, outcomes)
        for kind, code in LIES if np.isfinite(honest).all() else ():
            gained = honest - _values(metric, made(f"{world}\n{code}")["lie"], outcomes)
            if np.isfinite(gained).all():
                gain, error = float(gained.mean()), float(gained.std(ddof=1)) / math.sqrt(_FIRST)
                gains.append((gain > 2 * error, gain if gain > 2 * error else gain / max(error, 1e-300), kind, code))
    metric.meter.allow_all()
    return max(gains)[2:] if gains else None


def _tiled(metric: Metric, proof: Proof, draws: int) -> Lasting | None:
    times = ROWS // proof.rows
    parts = (
        f"{name} = np.tile({rows.tolist()!r}, ({times}, 1))"
        for name, rows in (("world", proof.world), ("lie", proof.lie))
    )
    return _judged(metric, "", proof.kind, "\n".join(parts), draws)


def _judged(metric: Metric, world: str, kind: str, code: str, draws: int) -> Lasting | None:
    """Truth and lie on fresh draws, the same for both; on fewer of them where the time limit ends them."""
    code = f"{world}\n{code}".strip()
    rows = made(code)
    pairs: list[tuple[float, float]] = []
    with suppress(OutOfTimeError):
        for y in draw(rows["world"], draws, np.random.default_rng(2)):
            pairs.append((float(metric(y, rows["world"])), float(metric(y, rows["lie"]))))
    if len(pairs) < _FEWEST or not np.isfinite(pairs).all():
        return None
    truth, lie = np.array(pairs).T
    sign = -1 if metric.form.higher_is_better else 1
    return Lasting(
        kind=kind,
        code=code,
        classes=int(rows["world"].shape[1]),
        expected_truth=sign * float(truth.mean()),
        expected_lie=sign * float(lie.mean()),
        gain=float(np.mean(truth - lie)),
        error=float(np.std(truth - lie, ddof=1) / math.sqrt(len(pairs))),
        draws=len(pairs),
    )


def _values(metric: Metric, rows: NDArray[np.float64], outcomes: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.array([float(metric(y, rows)) for y in outcomes])


def draw(world: NDArray[np.float64], draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Independent outcomes of every row, one sample per line."""
    edges = world.cumsum(axis=1)[:, :-1]
    drawn: NDArray[np.int64] = (rng.random((draws, len(world), 1)) >= edges).sum(axis=2, dtype=np.int64)
    return drawn
