"""Writes the data sets and their values: python -m conformance.generate. Values change with a definition only.

Sets are drawn with fixed seeds and rounded, so that they are the same on every machine; values are those of
`tc.ERRORS` with 15 bins wherever bins are counted, and of ECE and the largest gap of the event alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.audit.measures_table import rows as table_rows

from truecal.baselines import ERRORS, Baseline
from truecal.core.properties import Binary, Outcomes
from truecal.core.types import Array
from truecal.io.writing import write_atomic
from truecal.kinds import MULTILABEL, NUMBERS, ORDERED
from truecal.sums.errors import CalibrationError

FOLDER = Path(__file__).with_name("sets")
BINS = 15
OTHERS = tuple(kind.properties[0] for kind in (ORDERED, MULTILABEL, NUMBERS))
Raw = tuple[str, Array, Array, Array | None]
"""What a set is for, labels, probabilities (of class 1, or of all classes) and weights."""


def data_sets() -> dict[str, Raw]:
    """The twenty sets by name."""
    rng = np.random.default_rng(20)
    found: dict[str, Raw] = {
        "three rows": ("the smallest example", _labels("011"), np.array([0.1, 0.4, 0.8]), None),
        "a pair of ties": ("two equal predictions", _labels("0111"), np.array([0.2, 0.2, 0.6, 0.9]), None),
        "two values": (
            "four predictions of .5 and five of .6, from Kumar et al. 2019",
            _labels("100011110"),
            np.array([0.5] * 4 + [0.6] * 5),
            None,
        ),
        "one row": ("a single row", _labels("1"), np.array([0.7]), None),
        "one value": ("all predictions are equal", _drawn(rng, np.full(40, 0.5)), np.full(40, 0.5), None),
        "edges": (
            "predictions at the edges of 10 and 15 bins",
            _drawn(rng, _edges()),
            _edges(),
            None,
        ),
        "zeros and ones": ("certain predictions, two of them wrong", *_certain(rng), None),
        "empty bins": ("all predictions above .96", *_binary(rng, 120, lambda u: 0.96 + 0.04 * u), None),
        "seventeen rows": ("rows that no number of bins divides", *_binary(rng, 17, lambda u: u), None),
        "uniform": ("200 calibrated rows", *_binary(rng, 200, lambda u: u), None),
        "over-confident": ("200 rows whose log-odds are twice too large", *_sharp(rng), None),
        "votes of ten": ("150 rows of eleven values", *_votes(rng), None),
        "weights": ("weights between 0 and 2", *_binary(rng, 80, lambda u: u), np.round(2 * rng.random(80), 6)),
        "whole weights": (
            "weights 0, 1, 2 and 3, as counts of rows",
            *_binary(rng, 60, lambda u: u),
            rng.integers(0, 4, 60).astype(float),
        ),
        "three classes": ("100 calibrated rows", *_classes(rng, 100, 3, 1.0), None),
        "tied top classes": ("half of the rows have two or three largest probabilities", *_tied_tops(rng), None),
        "five classes, weights": ("weights between 0 and 1", *_classes(rng, 80, 5, 0.5), np.round(rng.random(80), 6)),
        "ten classes": ("over-confident, nearly certain rows", *_classes(rng, 100, 10, 0.1, power=1.6), None),
        "fifty classes": ("small probabilities", *_classes(rng, 60, 50, 0.3), None),
        "a class that never comes": ("labels of two of three classes", *_missing(rng), None),
    }
    return found


def _labels(text: str) -> Array:
    return np.array([int(c) for c in text])


def _drawn(rng: np.random.Generator, u: Array) -> Array:
    return np.asarray((rng.random(len(u)) < u).astype(np.int64))


def _edges() -> Array:
    return np.array([i / 10 for i in range(11)] * 3 + [i / 15 for i in range(16)] * 3)


def _binary(rng: np.random.Generator, n: int, of: Any) -> tuple[Array, Array]:
    u = np.round(of(rng.random(n)), 6)
    return _drawn(rng, u), u


def _certain(rng: np.random.Generator) -> tuple[Array, Array]:
    u = np.concatenate([np.zeros(15), np.ones(15), np.round(rng.random(30), 6)])
    y = _drawn(rng, u)
    y[0], y[15] = 1, 0
    return y, u


def _sharp(rng: np.random.Generator) -> tuple[Array, Array]:
    z = rng.normal(0, 1.5, 200)
    return _drawn(rng, 1 / (1 + np.exp(-z))), np.round(1 / (1 + np.exp(-2 * z)), 6)


def _votes(rng: np.random.Generator) -> tuple[Array, Array]:
    chance = rng.random(150)
    return _drawn(rng, chance), rng.binomial(10, chance) / 10


def _rounded(p: Array) -> Array:
    """Rows in multiples of 2⁻²⁰ that sum to 1 exactly."""
    cuts = np.rint(np.cumsum(p, axis=1) * 2**20)
    cuts[:, -1] = 2**20
    return np.asarray(np.diff(cuts, axis=1, prepend=0) / 2**20)


def _classes(rng: np.random.Generator, n: int, k: int, spread: float, power: float = 1.0) -> tuple[Array, Array]:
    p = rng.dirichlet([spread] * k, n)
    y = (rng.random((n, 1)) >= p.cumsum(axis=1)[:, :-1]).sum(axis=1)
    sharp = p**power
    return y, _rounded(sharp / sharp.sum(axis=1, keepdims=True))


def _tied_tops(rng: np.random.Generator) -> tuple[Array, Array]:
    y, p = _classes(rng, 60, 3, 1.0)
    p[:20] = [0.4375, 0.4375, 0.125]
    p[20:30] = [0.25, 0.375, 0.375]
    return y, p


def _missing(rng: np.random.Generator) -> tuple[Array, Array]:
    y, p = _classes(rng, 60, 3, 1.0)
    return np.where(y == 1, 0, y), p


# -- values ------------------------------------------------------------------------------------------------------------


def members() -> Iterator[tuple[str, Any, str]]:
    """Name, measure and definition of all that is stored."""
    told = {row[0].strip("`"): row[3] for row in table_rows()}
    for name, member in ERRORS.items():
        if isinstance(member.property, OTHERS):
            continue  # the data sets are of classes
        if isinstance(member, CalibrationError) and member.binning.has_counts:
            member = member.with_bins(BINS)
        yield name, member, told[name]
    for name, word in (("ece", "ECE"), ("mce", "the largest gap")):
        yield f"binary_{name}", replace(ERRORS[name], property=Binary()), f"{word} of the event: {told[name]}"


def aspect(member: Any) -> str:
    """Whether a measure looks at all classes, or at the event "class 1" alone."""
    return "classes" if member.property.of_distributions or member.property.picks_outcome else "event"


def value(member: Any, y: Array, p: Array, w: Array | None) -> float | None:
    """The measure of (n, k) predictions; None where it cannot apply: weights of what counts rows, pairs of one row."""
    if isinstance(member.property, Outcomes):
        member = CalibrationError(Outcomes((0.0, 1.0)), member.binning, member.norm)
    given: tuple[Array, Array] = (y, p)
    if aspect(member) == "event":
        given = ((y == 1).astype(np.int64), p[:, 1])
    elif not member.property.of_distributions:
        given = ((p.argmax(axis=1) == y).astype(np.int64), p.max(axis=1))
    try:
        return float(member(*given, sample_weight=w))
    except ValueError:
        return None


def contents() -> dict[str, str]:
    """Every file by its name."""
    about = {
        name: {"aspect": aspect(member), "definition": definition, "bins": BINS if _counts(member) else None}
        for name, member, definition in members()
    }
    files = {"measures.json": json.dumps(about, indent=1, ensure_ascii=False) + "\n"}
    for i, (name, (purpose, y, p, w)) in enumerate(data_sets().items(), 1):
        matrix = np.stack([1 - p, p], axis=1) if p.ndim == 1 else p
        stored = {
            "name": name,
            "about": purpose,
            "y_true": y.tolist(),
            "y_proba": matrix.tolist(),
            "sample_weight": None if w is None else w.tolist(),
            "values": {each: _json(value(member, y, matrix, w)) for each, member, _ in members()},
        }
        files[f"{i:02d}-{name.replace(',', '').replace(' ', '-')}.json"] = _written(stored)
    return files


def _counts(member: Any) -> bool:
    if isinstance(member, Baseline):
        return "n_bins" in member.options
    return bool(member.binning.has_counts)


def _json(number: float | None) -> float | str | None:
    return None if number is None or math.isnan(number) else "inf" if math.isinf(number) else number


def _written(stored: dict[str, Any]) -> str:
    """One line for each field, and for each value."""
    values = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in stored["values"].items())
    lines = [f' "{name}": {json.dumps(field)}' for name, field in stored.items() if name != "values"]
    return "{\n" + ",\n".join([*lines, ' "values": {\n' + values + "\n }"]) + "\n}\n"


def main() -> None:
    """Write all files and remove those that are no longer made."""
    made = contents()
    for place in FOLDER.glob("*.json"):
        if place.name not in made:
            place.unlink()
    for name, text in made.items():
        write_atomic(FOLDER / name, text)


if __name__ == "__main__":
    main()
