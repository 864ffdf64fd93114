"""Laws of kinds: no other code compares their names, and every entry point gives one answer for one data set."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal
from closeness import assert_close
from truecal.cli import app
from truecal.kinds import KINDS

tc: Any = truecal  # what a test hands in need not be of the right type
PACKAGE = Path(truecal.__file__).parent
NAMES = {*KINDS, *(kind.task for kind in KINDS.values() if kind.task)}
N = 400


# -- no other code asks which kind it is -------------------------------------------------------------------------------


def names_compared(tree: ast.AST) -> Iterator[str]:
    """Names of kinds that code compares with, looks up by or branches on."""
    for node in ast.walk(tree):
        asked: list[Any] = []
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            asked = node.keys
        elif isinstance(node, ast.MatchValue):
            asked = [node.value]
        elif isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "Literal":
            asked = [node.slice]
        for value in asked:
            inner = value.elts if isinstance(value, (ast.Tuple, ast.List, ast.Set)) else [value]
            yield from (one.value for one in inner if isinstance(one, ast.Constant) and one.value in NAMES)


@pytest.mark.parametrize(
    "code",
    ["x == 'ordered'", "x in ('binary', 1)", "{'multiclass': f}[x]", "'top_label' != x", "x: Literal['ordered']"],
)
def test_the_law_finds_offenders(code):
    assert list(names_compared(ast.parse(code)))


def test_no_code_outside_kinds_asks_for_a_kind_by_name():
    """Layouts of files (io/) and outcomes of audited metrics have names of their own, some of them the same."""
    found = {
        (str(path.relative_to(PACKAGE)), name)
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in ("kinds", "io", "auditing")
        for name in names_compared(ast.parse(path.read_text()))
    }
    files = ("core/parameters.py", "results/evaluate.py", "results/compare.py", "cli/two_tables.py")
    names = {("core/parameters.py", "binary"), *((file, "survival") for file in files)}  # of parameters
    assert found == names | {("cli/serving.py", "ordered")}  # and an outcome of audited metrics


# -- two classes are one kind, however they are given ------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def world(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Outcomes, probabilities that are too high, and weights."""
    rng = np.random.default_rng(3)
    u = rng.random(N)
    y = (rng.random(N) < u**1.5).astype(int)
    return y, u, rng.random(N) + 0.5 if request.param else None


def facts(result: Any) -> dict[str, Any]:
    """The numbers of the first screen that need no draws and no bins of their own."""
    losses = {loss.name: loss.value for loss in result.losses}
    return losses | {"ece": result.ece, "accuracy": result.accuracy}


def words(result: Any) -> tuple[str, ...]:
    """Kind, width and the sentence of the means."""
    head, means = repr(result).splitlines()[:2]
    return result.kind, head.partition(", ")[2], means.partition(":")[0]


def in_memory(y: Any, p: Any, w: Any) -> Any:
    return tc.evaluate(y, p, sample_weight=w, n_resamples=19)


def of_stream(y: Any, p: Any, w: Any) -> Any:
    stream = tc.stream(n_bins=15, edges="uniform")
    for rows in np.array_split(np.arange(N), 3):
        stream.update(y[rows], p[rows], sample_weight=None if w is None else w[rows])
    return stream.result()


def of_dask(y: Any, p: Any, w: Any) -> Any:
    da = pytest.importorskip("dask.array")
    y, p, w = (None if a is None else da.from_array(a, chunks=(100, *a.shape[1:])) for a in (y, p, w))
    from truecal.scale import cluster

    return cluster.evaluate(y, p, sample_weight=w, n_bins=15, edges="uniform")


def of_sql(y: Any, p: Any, w: Any) -> Any:
    pytest.importorskip("ibis")
    from sql_engines import tables_in

    columns = {"p": p} if p.ndim == 1 else {"p0": p[:, 0], "p1": p[:, 1]}
    with tables_in("duckdb") as make:
        table = make({"id": np.arange(N), "y": y, **columns, **({} if w is None else {"w": w})})
        about = {"label": "y", "proba": "p" if p.ndim == 1 else list(columns), "id": "id"}
        return tc.sql.evaluate(table, **about, weight=None if w is None else "w", n_bins=15, edges="uniform")


@pytest.mark.parametrize("source", [in_memory, of_stream, of_dask, of_sql])
def test_two_classes_are_one_kind_in_every_source(world, source):
    y, u, w = world
    one, two = (source(y, p, w) for p in (u, np.column_stack([1 - u, u])))
    assert words(one) == words(two) == words(in_memory(y, u, w))
    assert_close(facts(one), facts(in_memory(y, u, w)), 1)
    assert_close(facts(two), facts(one), 1)
    assert_close(two.score, one.score, 1)
    assert_close(two.gap.points, one.gap.points)
    assert one.gap.direction == two.gap.direction
    assert_close(one.ece, tc.ece(y, u, sample_weight=w), 1)
    assert_close(two.ece, tc.ece(y, np.column_stack([1 - u, u]), sample_weight=w), 1)


# -- every entry point agrees, or notes why not ------------------------------------------------------------------------


@pytest.fixture(params=[2, 3], ids=lambda k: f"{k} classes")
def rows(request: pytest.FixtureRequest) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and predictions that are too sharp."""
    rng = np.random.default_rng(4)
    p = rng.dirichlet(np.ones(request.param), N)
    y = (p.cumsum(axis=1) < rng.random((N, 1))).sum(axis=1)
    return y, p**3 / (p**3).sum(axis=1, keepdims=True)


def test_functions_and_evaluate_agree(rows):
    y, p = rows
    found = tc.evaluate(y, p, n_resamples=99)
    assert_close(tc.score(y, p), found.score)
    assert_close(tc.ece(y, p), found.ece, 1)
    gap = tc.gap(y, p)
    assert_close(gap.points, found.gap.points)
    assert gap.direction == found.gap.direction == found.direction.word
    both = tc.compare(y, {"a": p, "b": p}, n_resamples=99).evaluations["a"]
    assert_close([both.score, both.ece, both.gap.points], [found.score, found.ece, found.gap.points])
    assert both.gap.direction == found.gap.direction and both.direction.word == found.direction.word


def test_the_command_line_agrees(rows, tmp_path, monkeypatch):
    y, p = rows
    monkeypatch.chdir(tmp_path)
    np.savez("rows.npz", y_true=y, y_proba=p)
    monkeypatch.setattr(sys, "argv", ["truecal", "evaluate", "rows.npz", "--json", "out.json", "--resamples", "99"])
    assert app.run() == 0
    found, written = tc.evaluate(y, p, n_resamples=99), json.loads(Path("out.json").read_text())
    wanted = {"score": found.score, "ece": found.ece, "gap": found.gap.points, "brier": found.brier}
    assert_close({name: written[name] for name in wanted}, wanted)
    assert written["direction"]["word"] == found.direction.word


def test_a_stream_agrees_or_notes_why_not(rows):
    """Its cells are fixed before all rows are seen, and without rows there are no draws."""
    y, p = rows
    memory, stream = tc.evaluate(y, p, n_resamples=99), tc.stream()
    for part in np.array_split(np.arange(N), 4):
        stream.update(y[part], p[part])
    found = stream.result()
    assert_close([found.ece, found.brier, found.accuracy], [memory.ece, memory.brier, memory.accuracy], 1)
    assert found.direction.word == memory.direction.word or any("no direction is named" in note for note in found.notes)
    assert found.test is None and any("test" in note for note in found.notes)
    same_cells = [row.n_bins for row in found.errors if row.headline] == [
        row.n_bins for row in memory.errors if row.headline
    ]
    assert same_cells or any("edges" in note for note in found.notes)
