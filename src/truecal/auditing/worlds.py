"""Small worlds in which a forecaster knows every chance, and the ways to lie in them, all as exact fractions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, cycle, islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[Any]
"""Rows of Fractions that sum to one: the chances of a world, or what is predicted in it."""

JITTER = Fraction(1, 10**6)
WAYS = {
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
"""Every way to lie, with the finding of a metric that rewards it."""


def matrix(rows: Any) -> Matrix:
    """Rows of numbers as Fractions; text such as "1/3" and "0.1" is read exactly."""
    values = [[Fraction(value) for value in row] for row in rows]
    made = np.empty((len(values), len(values[0])), dtype=object)
    made[:] = values
    return made


def as_floats(fractions: Matrix) -> NDArray[np.float64]:
    """The nearest double of every entry."""
    return fractions.astype(np.float64)


def worlds(n: int, k: int, seed: int = 0) -> dict[str, Matrix]:
    """True chances of n rows and k classes, by name; those that break known things come first."""
    found = _binary_worlds(n) if k == 2 else _multiclass_worlds(n, k)
    rng = np.random.default_rng([seed, n, k])
    for spread in (1.0, 0.3, 10.0):
        found[f"drawn {spread:g}"] = drawn(rng, n, k, spread)
    return found


def _binary_worlds(n: int) -> dict[str, Matrix]:
    half = (n + 1) // 2
    chances: dict[str, list[Any]] = {
        "constant": [Fraction(1, 2)] * n,
        "pairs": ["0.1"] * half + ["0.9"] * (n - half),
        "skewed": ["0.3"] * n,
        "near vertex": list(islice(cycle(["0.02", "0.97", "0.03", "0.5"]), n)),
        "around edges": list(islice(cycle(["0.39", "0.41", "0.59", "0.61"]), n)),
    }
    if n > 1:
        chances["ladder"] = [Fraction(i, n) for i in range(1, n + 1)]
    return {name: matrix([(1 - Fraction(p), p) for p in given]) for name, given in chances.items()}


def _multiclass_worlds(n: int, k: int) -> dict[str, Matrix]:
    """Equal rows, unequal rows, nearly certain rows, and first the row whose top class it pays to change."""
    split = [Fraction(1, k), Fraction(1, 2), *[(Fraction(1, 2) - Fraction(1, k)) / (k - 2)] * (k - 2)]
    sure, other = _peaked(k, 0, "0.9"), _peaked(k, 1, "0.8")
    near = [_peaked(k, 0, "0.98"), _peaked(k, k - 1, "0.98"), _peaked(k, 0, "0.4")]
    return {
        "split": matrix([split] * n),
        "constant": matrix([[Fraction(1, k)] * k] * n),
        "pairs": matrix(list(islice(cycle([sure, other]), n))),
        "near vertex": matrix(list(islice(cycle(near), n))),
    }


def _peaked(k: int, top: int, chance: str) -> list[Fraction]:
    """One class with the given chance, the others with equal shares of the rest."""
    row = [(1 - Fraction(chance)) / (k - 1)] * k
    row[top] = Fraction(chance)
    return row


def drawn(rng: np.random.Generator, n: int, k: int, spread: float, parts: int = 64) -> Matrix:
    """Dirichlet draws rounded to multiples of 1/parts, which floats hold exactly if it is a power of two."""
    cuts = np.rint(np.cumsum(rng.dirichlet([spread] * k, n), axis=1) * parts).astype(int)
    cuts[:, -1] = parts
    counts = np.diff(cuts, axis=1, prepend=0)
    return matrix([[Fraction(int(c), parts) for c in row] for row in counts])


def lies(world: Matrix, seed: int = 0) -> list[tuple[str, Matrix]]:
    """(kind, predictions) for every way to misreport the world; those that change nothing are left out."""
    n, k = world.shape
    rng = np.random.default_rng([seed, n, k])
    uniform = np.full_like(world, Fraction(1, k))
    pooled = np.tile(world.sum(axis=0) / Fraction(n), (n, 1))
    top = world.argmax(axis=1)
    certain = matrix([[int(j == t) for j in range(k)] for t in top])
    made = [
        ("pool", pooled),
        ("pool", _paired_means(world)),
        ("uniform", uniform),
        ("shrink", (7 * world + 3 * pooled) / Fraction(10)),
        ("shrink", (7 * world + 3 * uniform) / Fraction(10)),
        ("sharpen", _normalised(world**2)),
        ("sharpen", certain),
        ("sharpen", (9 * world + certain) / Fraction(10)),
        ("round", _rounded(world, 10)),
        ("round", _rounded(world, 4)),
        ("jitter", _moved(world, [JITTER * (i + 1) for i in range(n)])),
        ("jitter", _moved(world, [JITTER * (-1) ** i for i in range(n)])),
        ("spread", _moved(world, [Fraction((-1) ** i, 10) for i in range(n)])),
        ("spread", _moved(world, [Fraction((-1) ** i, 50) for i in range(n)])),
        ("change the top", _swapped(world, top)),
        ("hide small chances", _hidden(world)),
        ("exchange rows", world[::-1]),
        ("anything", drawn(rng, n, k, 1.0)),
    ]
    return [(kind, lie) for kind, lie in made if (lie != world).any()]


def _normalised(rows: Matrix) -> Matrix:
    result: Matrix = rows / rows.sum(axis=1, keepdims=True)
    return result


def _rounded(world: Matrix, parts: int) -> Matrix:
    return _normalised(matrix([[Fraction(round(p * parts), parts) for p in row] for row in world]))


def _moved(world: Matrix, shifts: Sequence[Fraction]) -> Matrix:
    """Chance moved in every row from its largest class to the next, or back, as far as there is any."""
    result = world.copy()
    for row, shift in zip(result, shifts, strict=True):
        a, b = np.argsort(-row, kind="stable")[:2]
        shift = min(shift, row[a]) if shift > 0 else max(shift, -row[b])
        row[a], row[b] = row[a] - shift, row[b] + shift
    return result


def _paired_means(world: Matrix) -> Matrix:
    """Neighbours in the order of their first class get their mean."""
    result = world.copy()
    order = np.argsort(world[:, 0], kind="stable")
    for first, second in zip(order[::2], order[1::2], strict=False):
        result[[first, second]] = (world[first] + world[second]) / Fraction(2)
    return result


def _swapped(world: Matrix, top: NDArray[np.intp]) -> Matrix:
    result = world.copy()
    for row, a in zip(result, top, strict=True):
        b = max((j for j in range(len(row)) if j != a), key=lambda j: row[j])
        row[a], row[b] = row[b], row[a]
    return result


def _hidden(world: Matrix) -> Matrix:
    """Chances of a fifth or less pushed to 1/2000, under any threshold in use; the largest class takes the rest."""
    result = world.copy()
    result[(world <= Fraction(1, 5)) & (world > 0)] = Fraction(1, 2000)
    for row, a in zip(result, world.argmax(axis=1), strict=True):
        row[a] += 1 - row.sum()
    return result


def grid(k: int, parts: int) -> list[list[Fraction]]:
    """Every distribution over k classes whose chances are multiples of 1/parts: k − 1 bars between `parts` stars."""
    places = (np.array([-1, *bars, parts + k - 1]) for bars in combinations(range(parts + k - 1), k - 1))
    return [[Fraction(int(gap) - 1, parts) for gap in np.diff(at)] for at in places]


def grid_predictions(points: Sequence[Sequence[Fraction]], n: int) -> Iterator[Matrix]:
    """Every way to give n rows a distribution of the grid."""
    return (matrix(rows) for rows in product(points, repeat=n))
