"""Worlds with known chances, calibrated and not: what rates of error are measured on, here and in the benchmarks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtr, softmax

import truecal as tc

Array = np.ndarray[Any, np.dtype[Any]]
Rng = np.random.Generator


def labels(rng: Rng, p: Array) -> Array:
    """One label per row, from its distribution."""
    return (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1).clip(max=p.shape[1] - 1)


# -- predictions and the chances behind them ---------------------------------------------------------------------------


def binary(name: str, n: int, rng: Rng, z: Array | None = None) -> tuple[Array, Array]:
    """(predictions, chances): logits N(0, 1.5²), or near 0 and 1 where the name begins with "sharp"."""
    if name.startswith("sharp"):
        z, name = rng.choice([-1, 1], n) * rng.normal(5.5, 1.2, n), name.removeprefix("sharp ")
    elif z is None:
        z = rng.normal(0, 1.5, n)
    q = expit(z)
    if name == "calibrated":
        return q, q
    if name.startswith("T"):
        return expit(z * float(name[1:])), q
    if name == "shift":
        return expit(z + 0.4), q
    assert name == "S-curve"
    return np.clip(q + 0.1 * np.sin(2 * np.pi * q), 0.001, 0.999), q


def classes(name: str, n: int, k: int, rng: Rng) -> tuple[Array, Array]:
    """(predictions, chances) of k classes, one of them likely."""
    sharp = name.startswith("sharp")
    z = rng.normal(0, 0.5 if sharp else 1.3, (n, k))
    height = rng.normal(5.6 + np.log(k - 1), 1.0, n) if sharp else np.log(k) * rng.uniform(0.5, 2.0, n)
    z[np.arange(n), rng.integers(0, k, n)] += height
    q = softmax(z, axis=1)
    name = name.removeprefix("sharp ")
    if name == "calibrated":
        return q, q
    if name.startswith("T"):
        return softmax(z * float(name[1:]), axis=1), q
    assert name == "shift"
    return softmax(z + np.linspace(-0.5, 0.5, k), axis=1), q


WEIGHTS: dict[str, Callable[[int, Rng], Array | None]] = {
    "": lambda n, rng: None,
    "lognormal": lambda n, rng: rng.lognormal(0, 1, n),
    "one in ten": lambda n, rng: np.where(rng.random(n) < 0.1, 20.0, 1.0),
}


_PROPERTIES = {"binary": tc.Binary(), "confidence": tc.Confidence(), "classwise": tc.Classwise()}


@dataclass(frozen=True)
class Cell:
    """One cell of a coverage grid. `clusters`: rows per cluster, 0 for none; their rows share logits and luck."""

    kind: str
    world: str
    n: int
    k: int = 2
    weights: str = ""
    clusters: int = 0
    n_bins: Any = "auto"
    rule: Any = None

    def samples(self, draws: int, each: int, seed: int = 7) -> Iterator[tuple[Any, float]]:
        """`draws` sets of predictions with `each` sets of outcomes: the interval, and the gap² of the chances."""
        rng = np.random.default_rng([seed, self.n, self.k])
        groups = np.arange(self.n) // self.clusters if self.clusters else None
        for _ in range(draws):
            u, q = self._predictions(rng, groups)
            options = {"sample_weight": WEIGHTS[self.weights](self.n, rng), "groups": groups, "what": "gap_sq"}
            target = float(
                np.mean(
                    [
                        self._interval(*pair, tc.properties.Outcomes((0.0, 1.0)), options).estimate
                        for pair in self._known(u, q)
                    ]
                )
            )
            for _ in range(each):
                y = self._outcomes(rng, u, q, groups)
                yield self._interval(y, u, _PROPERTIES[self.kind], options), target

    def _predictions(self, rng: Rng, groups: Array | None) -> tuple[Array, Array]:
        if self.kind != "binary":
            return classes(self.world, self.n, self.k, rng)
        z = None
        if groups is not None:
            shared = rng.normal(0, 1.5, int(groups.max()) + 1)[groups]
            z = shared * 0.7**0.5 + rng.normal(0, 1.5 * 0.3**0.5, self.n)
        return binary(self.world, self.n, rng, z)

    def _outcomes(self, rng: Rng, u: Array, q: Array, groups: Array | None) -> Array:
        if self.kind != "binary":
            return labels(rng, q)
        if groups is None:
            return (rng.random(self.n) < q).astype(int)
        luck = rng.normal(size=int(groups.max()) + 1)[groups]  # outcomes of a cluster go together
        return (ndtr(0.6**0.5 * luck + 0.4**0.5 * rng.normal(size=self.n)) < q).astype(int)

    def _known(self, u: Array, q: Array) -> list[tuple[Array, Array]]:
        """Per view, what comes on average and what was predicted of it: the true gap is the gap of these."""
        if self.kind == "classwise":
            return list(zip(q.T, u.T, strict=True))
        if self.kind == "binary":
            return [(q, u)]
        top, rows = u.argmax(axis=1), np.arange(self.n)
        return [(q[rows, top], u[rows, top])]

    def _interval(self, y: Array, u: Array, prop: Any, options: dict[str, Any]) -> Any:
        interval: Any = tc.confidence_interval
        return interval(y, u, error=tc.CalibrationError(prop, self.rule or tc.Quantile(self._bins())), **options)

    def _bins(self) -> Any:
        """The same count for the outcomes and for the chances behind them."""
        if self.n_bins != "auto":
            return self.n_bins
        views = self.k if self.kind == "classwise" else 1
        return tc.Quantile("auto").at(self.n, views).counts[0]  # type: ignore[index]  # quantile rules have counts


@dataclass(frozen=True)
class Coverage:
    """Of so many intervals: how many hold the gap, are withheld, and are wrong without being withheld."""

    trials: int
    covered: int
    withheld: int
    wrong: int
    gap: float
    """The true gap in points, on the mean of its square."""

    @property
    def share(self) -> float:
        return self.covered / self.trials


def coverage(cell: Cell, draws: int = 12, each: int = 25) -> Coverage:
    """How often the 95% interval of the gap holds what the chances say, given the predictions."""
    covered = withheld = wrong = 0
    targets = []
    for found, target in cell.samples(draws, each):
        inside = found.low <= target <= found.high
        covered += inside
        withheld += bool(found.note)
        wrong += not inside and not found.note
        targets.append(target)
    mean = float(np.mean(targets))
    return Coverage(draws * each, covered, withheld, wrong, 100 * float(np.sign(mean) * np.sqrt(abs(mean))))


# -- what the test should find ----------------------------------------------------------------------------------------

BINARY_POWER: dict[str, Callable[[Array], Array]] = {
    "calibrated": lambda u: u,
    "shift of the logits by .31": lambda u: expit(logit(u) + 0.31),
    "temperature 1.35": lambda u: expit(logit(u) / 1.35),
    "S-curve": lambda u: np.clip(u + 0.0925 * np.sin(2 * np.pi * u), 0, 1),
}
"""Chances as a function of predictions Beta(½, ½)."""


def powered(name: str, n: int, rng: Rng) -> tuple[Array, Array]:
    """(outcomes, predictions)."""
    u = rng.beta(0.5, 0.5, n)
    return (rng.random(n) < BINARY_POWER[name](u)).astype(int), u


def tempered(t: float, n: int, k: int, rng: Rng) -> tuple[Array, Array]:
    """Labels from logits N(0, 2²) divided by t, and predictions from the logits themselves."""
    z = rng.normal(0, 2.0, (n, k))
    return labels(rng, softmax(z / t, axis=1)), softmax(z, axis=1)


# -- models of equal loss ---------------------------------------------------------------------------------------------


def equal_models(n: int, models: int, miss: float, rng: Rng, differ: float = 1.0) -> tuple[Array, list[Array]]:
    """Outcomes that the likelier class misses at this rate, and predictions of models none of which is better.

    Half of the models expect too few misses and half too many, by as much, in the share `differ` of the rows: their
    expected squared errors are the same, and what tells them apart is seen only where a miss happens.
    """
    q = np.clip(miss * rng.lognormal(0, 0.5, n), 1e-6, 0.45)
    y = (rng.random(n) < q).astype(int)
    some = rng.random(n) < differ
    out = []
    for j in range(models):
        u = q * (1 + (-1) ** j * some * rng.uniform(0.4, 0.8, n))
        out.append(np.column_stack([1 - u, u]))
    return y, out


# -- pairs of models equally far from calibrated ----------------------------------------------------------------------


def equal_gaps(name: str, n: int, rng: Rng) -> tuple[Array, Array, Array]:
    """(outcomes, first, second) with the same gap, or both without any."""
    if name == "one knows more":
        b = expit(rng.normal(0, 1.2, n))
        q = a = b + np.minimum(b, 1 - b) * 0.8 * rng.uniform(-1, 1, n)
    elif name == "one is constant":
        q = a = expit(rng.normal(0, 1.5, n))
        b = np.full(n, 0.5)
    else:
        assert name == "shifts of either sign"
        z = rng.normal(0, 1.5, n)
        q, a, b = expit(z), expit(z + 0.4), expit(z - 0.4)
    return (rng.random(n) < q).astype(int), a, b
