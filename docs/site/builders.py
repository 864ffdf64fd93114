"""Writes the table of docs/how-it-works.md, rule by property by builder: python docs/site/builders.py.

A cell is what works when it is called: M in memory, G as torch tensors on a GPU, S in a stream, Q as an SQL query.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import truecal as tc
from truecal.core.arrays import HOST
from truecal.core.averages import Poisson, TwoBin
from truecal.core.properties import Binary, Classwise, Confidence, Full, Outcomes, TopLabel
from truecal.core.rules import Edges, EqualWidth, Exact, Quantile
from truecal.core.vectors import ArgmaxQuantile, KdTree
from truecal.kinds import COMPOSED
from truecal.kinds.multilabel import Labelwise
from truecal.kinds.numbers import Distribution
from truecal.kinds.ordered import Cumulative
from truecal.kinds.survival import Survival
from truecal.sums.torch import read

PAGE = Path(__file__).parents[1] / "how-it-works.md"
RULES: tuple[Any, ...] = (
    *(Quantile(4), EqualWidth(4), Edges([0.0, 0.3, 0.6, 1.0]), Exact(), TwoBin(), Poisson()),
    *(ArgmaxQuantile(2), KdTree(4)),
)
BINS = ("Quantile", "EqualWidth", "Edges")


def inputs() -> dict[str, tuple[Any, Any, Any]]:
    """Each property with outcomes and predictions that it takes."""
    rng = np.random.default_rng(0)
    p, u, t = rng.dirichlet([1.0, 1.0, 1.0], 40), rng.random(40), np.array([0.0, 1.0, 2.0])
    y, z, several = rng.integers(0, 3, 40), rng.random(40) < 0.5, rng.integers(0, 2, (40, 3))
    of_numbers = (rng.normal(1, 1, 40), np.sort(rng.random((40, 3)), axis=1))
    return {
        "Binary": (Binary(), z, u),
        "Classwise": (Classwise(), y, p),
        "Confidence": (Confidence(), y, p),
        "TopLabel": (TopLabel(), z, u),
        "Full": (Full(), y, p),
        "Cumulative": (Cumulative(), y, p),
        "Labelwise": (Labelwise(), several, rng.random((40, 3))),
        "Distribution": (Distribution(tuple(t)), *of_numbers),
        "Survival": (Survival((0.5, 1.0, 2.0)), (rng.exponential(2, 40), np.ones(40)), of_numbers[1]),
        "Outcomes": (Outcomes((0.0, 1.0)), rng.random(40), u),
    }


def works(call: Callable[[], Any]) -> bool:
    """Whether a call is one that truecal takes."""
    try:
        call()
    except (TypeError, ValueError, ImportError):
        return False
    return True


def on_device(error: Any, y: Any, p: Any) -> None:
    """The error of torch tensors, on the CPU as on a GPU."""
    if not error.binning.on_device:
        raise ValueError("its sums are made by numpy")
    import torch

    sample = read(error.property, torch.tensor(np.asarray(y)), torch.tensor(p))
    if isinstance(sample.reports, HOST):
        raise ValueError("its predictions are read by numpy")
    error.of(sample)


def streamed(error: Any, y: Any, p: Any) -> None:
    """The error of a stream."""
    stream = tc.stream(error, thresholds=getattr(error.property, "thresholds", None) or None)
    stream.update(y, p)
    stream.result()


def queried(error: Any, y: Any, p: Any) -> None:
    """The query that measures it: of bins, by the named error of the property and the edges of the rule."""
    rule = type(error.binning).__name__
    alike = Quantile if rule in BINS else type(error.binning)
    names = [n for n, e in COMPOSED.items() if (e.property, type(e.binning), e.norm) == (error.property, alike, "l2")]
    edges = {"EqualWidth": "uniform", "Edges": error.binning}.get(rule)
    if not names:
        raise ValueError("no named error")
    import ibis

    columns = [f"p{j}" for j in range(p.shape[1])] if p.ndim == 2 else ["p"]
    rows = ibis.table({"y": "int64", "id": "int64", **dict.fromkeys(columns, "float64")}, name="rows")
    top = error.property == TopLabel()
    model = {"confidence": "p", "correct": "y"} if top else columns if p.ndim == 2 else "p"
    tc.sql.queries(rows, model, label=None if top else "y", id="id", errors=names[:1], edges=edges, dialect="duckdb")


def cell(property: Any, rule: Any, y: Any, p: Any) -> str:
    """The letters of the builders that make a table of this rule and property."""
    if not works(lambda: tc.CalibrationError(property, rule)(y, p)):
        return ""
    error = tc.CalibrationError(property, rule)
    ways = {"G": on_device, "S": streamed, "Q": queried}
    return "M" + "".join(letter for letter, way in ways.items() if works(lambda way=way: way(error, y, p)))


def table() -> Iterator[str]:
    """The lines of the table."""
    given = inputs()
    yield "| rule | " + " | ".join(f"`{name}`" for name in given) + " |"
    yield "| --- |" + " --- |" * len(given)
    for rule in RULES:
        cells = (cell(property, rule, y, p) or "–" for property, y, p in given.values())
        yield f"| `{type(rule).__name__}` | " + " | ".join(cells) + " |"


def page() -> str:
    """The page with its table made again."""
    made = "\n".join(table())
    return re.sub(r"\| rule \|.*?\n(?=\n)", lambda _: made + "\n", PAGE.read_text("utf-8"), count=1, flags=re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
