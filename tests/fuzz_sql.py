"""Random tables in real engines: each gives the numbers of memory, or one ValueError or TypeError in one line.

Kinds, types, ids, weights, subgroups, bins, missing values and names that an engine could take for something else.
`python -m tests.fuzz_sql --engine duckdb --cases 1000 --seed 7` runs as many as wanted; the tests run a few.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import truecal as tc

sys.path.insert(0, str(Path(__file__).parent))  # python -m tests.fuzz_sql finds the modules beside it
import fuzzing
from closeness import assert_close
from sql_engines import softmax, tables_in

Generator = np.random.Generator
ENGINES = ("duckdb", "sqlite", "polars", "postgres")
NAMES = (
    "y",
    "p",
    "^q$",
    "*",
    "^.*$",
    "a.b",
    "c[0]",
    "{x}",
    "é 😀",
    "p0",
    "u",
    "cell",
    "by_0",
    " ",
    "q'\"`",
    "select",
)
ARRAYS = ("duckdb", "polars", "postgres")
"""Engines whose tables of the tests have columns of arrays."""


def pick(rng: Generator, *options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


class Case:
    """One table: its columns, what to ask of it, and the same rows for memory."""

    def __init__(self, rng: Generator, engine: str) -> None:
        self.rng, self.engine = rng, engine
        self.n = int(pick(rng, 1, 2, 5, 40, 200))
        self.columns: dict[str, Any] = {}
        self.ask: dict[str, Any] = {}
        self.more: dict[str, Any] = {}
        names = [NAMES[j] for j in rng.permutation(len(NAMES))]
        self.names = iter(names if engine != "postgres" else [name for name in names if len(name.encode()) < 60])
        self.predictions()
        self.beside()
        if rng.random() < 0.15:
            self.harm()

    def add(self, role: str, values: Any) -> str:
        name = next(self.names)
        self.columns[name] = values
        self.ask[role] = name
        return name

    def reports(self, k: int) -> Any:
        """Probabilities, now and then tied, certain or equal."""
        rng = self.rng
        p = softmax(rng.normal(size=(self.n, k)) * pick(rng, 0.1, 2, 30))
        if rng.random() < 0.3:
            p = np.round(p * 8) / 8
            p[:, 0] = 1 - p[:, 1:].sum(axis=1)
            p = np.where((p < 0).any(axis=1, keepdims=True), np.eye(k)[0], p)
        p = p.astype(pick(rng, np.float64, np.float64, np.float32))
        return p.astype(np.float64) if self.engine == "sqlite" else p  # it has no single precision

    def predictions(self) -> None:
        rng, kind = self.rng, pick(self.rng, "binary", "binary", "two", "classes", "classes", "array", "top")
        k = 2 if kind in ("binary", "two") else int(pick(rng, 3, 4, 6))
        p = self.reports(k)
        y = rng.integers(0, k, self.n)
        self.y, self.p = y, p[:, 1] if kind in ("binary", "two") else p
        if kind == "top":
            top, confidence = p.argmax(axis=1), p.max(axis=1)
            self.y, self.p = top == y, confidence
            self.add("confidence", confidence)
            if rng.random() < 0.5:
                self.add("predicted", top)
            else:
                self.add("correct", (top == y).astype(np.int64 if self.engine == "sqlite" else np.bool_))
                return
        elif kind == "binary":
            self.add("proba", p[:, 1])
        elif kind == "array" and self.engine in ARRAYS:
            import pyarrow

            self.add("proba", pyarrow.array(p.astype(np.float64).tolist()))
            self.p = p.astype(np.float64)
            self.ask["n_classes"] = k
        else:
            self.ask["proba"] = [self.add("proba", p[:, j]) for j in range(k)]
        if kind in ("binary", "two") and rng.random() < 0.2 and self.engine != "sqlite":
            self.add("label", y.astype(bool))
        elif rng.random() < 0.25 and kind != "top":
            texts = [f"class '{j}" for j in range(k)]
            self.add("label", [texts[j] for j in y])
            self.ask["labels"] = texts
            if k == 2:
                self.ask["pos_label"] = texts[1]
        else:
            self.add("label", y.astype(np.int64))

    def beside(self) -> None:
        """Ids, weights, subgroups, bins; and columns that nobody asks for."""
        rng, n = self.rng, self.n
        ids = pick(rng, None, np.arange(n), -np.arange(n), np.arange(n) // 3, np.arange(n) + 2**62, "text")
        if ids is not None:
            self.add("id", [f"row '{i}" for i in range(n)] if isinstance(ids, str) else ids.astype(np.int64))
        if rng.random() < 0.3:
            weight = pick(rng, rng.random(n) + 0.1, np.full(n, 1e100), rng.integers(0, 3, n) + 1.0)
            self.add("weight", weight)
            self.more["sample_weight"] = weight
        if rng.random() < 0.3:
            groups = pick(rng, rng.integers(0, 2, n).astype(np.int64), [pick(rng, "", "a", "ü'") for _ in range(n)])
            self.add("by", groups)
            self.groups = [str(group) for group in groups]
        self.columns["nobody asks"] = rng.normal(size=n)
        self.ask["edges"] = pick(rng, None, "uniform")
        self.ask["n_bins"] = pick(rng, None, 1, 3, 8, "auto")
        self.ask["blocks"] = pick(rng, 0, 4, 64)

    def harm(self) -> None:
        """One value that cannot be measured, or a column of another kind."""
        role = pick(self.rng, *(role for role in ("label", "proba", "confidence", "weight") if role in self.ask))
        name = self.ask[role] if isinstance(self.ask[role], str) else self.ask[role][0]
        values = self.columns[name]
        row, floating = int(self.rng.integers(self.n)), getattr(values, "dtype", None) in (np.float32, np.float64)
        import pyarrow

        listed = values.to_pylist() if isinstance(values, pyarrow.Array) else list(values)
        bad = pick(self.rng, None, float("nan"), -0.5, 1.5) if floating else None
        kind = values.type if isinstance(values, pyarrow.Array) else pyarrow.array(values).type
        self.columns[name] = pyarrow.array(
            [bad if i == row else x for i, x in enumerate(listed)], kind, from_pandas=False
        )
        self.broken = not (role == "weight" and bad == 1.5)
        self.harmed = True

    broken = harmed = False
    groups: list[str] | None = None


def compare(case: Case, found: Any) -> None:
    """The numbers of a stream in memory, over the same edges."""
    edges: dict[str, Any] = {name: diagram.table.rule for name, diagram in found.reliability.items()}
    edges |= {row.error: tc.EqualWidth(row.n_bins) for row in found.errors if row.error.endswith("_l1")}
    edges = {name: edges[name] for name in found.error_names}

    def streamed(rows: Any) -> Any:
        stream = tc.stream(found.error_names, edges=edges)
        stream.update(case.y[rows], case.p[rows], **{name: w[rows] for name, w in case.more.items()})
        return stream.result()

    wanted = streamed(slice(None))
    for row, other in zip(found.errors, wanted.errors, strict=True):
        assert_close((row.value, row.loss or 0.0), (other.value, other.loss or 0.0), 1, where=row.error)
    for loss, other in zip(found.losses, wanted.losses, strict=True):
        assert_close((loss.name, loss.value), (other.name, other.value), 1)
    assert found.n_samples == case.n
    if case.groups is not None:
        groups = np.array(case.groups, dtype=object)
        assert set(found.subgroups) == set(groups)
        for name, part in found.subgroups.items():
            assert part.n_samples == int((groups == name).sum())
            assert_close(part.losses[0].value, streamed(groups == name).losses[0].value, 1)


def attempt(make: Any, engine: str, seed: int, number: int) -> bool:
    """One table of a seed, the same every time; whether it was measured."""
    case = Case(np.random.default_rng([seed, number]), engine)
    ask = dict(case.ask)
    try:
        found = tc.sql.evaluate(make(case.columns, f"rows {number}"), **ask)
    except (ValueError, TypeError) as error:
        said = str(error)
        refused = case.harmed or "SQLite has no hash" in said or "by is the outcome" in said
        assert refused and "\n" not in said and 0 < len(said) < 600, said
        return False
    assert not case.broken, "a row that cannot be measured was measured"
    if not case.harmed:
        compare(case, found)
    return True


def run(engine: str, seed: int, numbers: range) -> Iterator[tuple[int, str]]:
    """The tables that fail, with what happened."""
    with tables_in(engine) as make:
        for number in numbers:
            try:
                attempt(make, engine, seed, number)
            except Exception as error:  # whatever it was, it is the finding
                yield number, fuzzing.failure(engine, error)


def main(given: list[str] | None = None) -> int:
    """Exit code 0 when every table ended as it should."""
    given = sys.argv[1:] if given is None else given
    engine = given[given.index("--engine") + 1] if "--engine" in given else ENGINES[0]
    rest = [word for word in given if word not in ("--engine", engine)]
    return fuzzing.main("fuzz_sql", f"Random tables in {engine}.", 200, "tables", partial(run, engine), rest)


if __name__ == "__main__":
    sys.exit(main())
