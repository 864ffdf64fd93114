"""Every engine gives the numbers of memory: kinds, types, bins, defaults and hostile names."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import fuzz_sql
import truecal as tc
from closeness import assert_close
from sql_engines import QUICK, tables_in, world

ibis = pytest.importorskip("ibis")
sql: Any = tc.sql
SERVERS = (pytest.mark.heavy, pytest.mark.filterwarnings("ignore"))
NAMES = ("^q$", "*", "^.*$", "a.b", "c[0]", "{x}", "é 😀", "p0", "u", "cell", "by_0", " ", "q'\"`\\", "select")
"""Names that an engine could take for something else, and names that our queries use."""
N, BINS = 300, 8


@pytest.fixture(scope="module", params=[*QUICK, pytest.param("postgres", marks=SERVERS)])
def make(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Makes tables in an engine, whose name is its attribute `engine`."""
    with tables_in(request.param) as tables:
        made: Any = tables
        made.engine = request.param
        yield made


def predictions(kind: str, dtype: str) -> tuple[Any, Any, dict[str, Any]]:
    """Labels, predictions as memory takes them, and the columns of the table."""
    y, p = world(N, 4, dtype=dtype)
    if kind == "classes":
        return y, p, {f"p{j}": p[:, j] for j in range(4)}
    return (y == 1).astype(int), p[:, 1], {"p": p[:, 1]}


def same(found: Any, y: Any, p: Any, **more: Any) -> None:
    """What was found over fixed edges is what a stream in memory finds over them."""
    edges: dict[str, Any] = {name: diagram.table.rule for name, diagram in found.reliability.items()}
    edges |= {row.error: tc.EqualWidth(row.n_bins) for row in found.errors if row.error.endswith("_l1")}
    edges = {name: edges[name] for name in found.error_names}
    stream = tc.stream(found.error_names, edges=edges)
    stream.update(y, p, **more)
    wanted = stream.result()
    for row, other in zip(found.errors, wanted.errors, strict=True):
        assert_close((row.value, row.loss or 0.0), (other.value, other.loss or 0.0), 1, where=row.error)
    for loss, theirs in zip(found.losses, wanted.losses, strict=True):
        assert_close((loss.name, loss.value), (theirs.name, theirs.value), 1)
    assert found.n_samples == len(y)


@pytest.mark.slow
@pytest.mark.parametrize("bins", [None, pytest.param(BINS, marks=pytest.mark.heavy), "auto"])
@pytest.mark.parametrize("edges", [None, "uniform"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["classes", "binary"])
def test_every_kind_type_and_rule(make: Any, kind: str, dtype: str, edges: Any, bins: Any):
    y, p, columns = predictions(kind, "float64" if make.engine == "sqlite" else dtype)
    types = {"int64": np.int64, "bool": np.bool_} if kind == "binary" else {"int64": np.int64}
    for word, label in types.items():
        if make.engine == "sqlite" and word == "bool":
            continue
        table = make(
            {"id": np.arange(N) * 7, "y": y.astype(label), **columns}, f"rows_{kind}_{dtype}_{edges}_{bins}_{word}"
        )
        found = sql.evaluate(table, label="y", proba=list(columns), id="id", edges=edges, n_bins=bins)
        same(found, y, p)


def test_a_default_of_polars_joins_cells_of_one_type():
    y, p, columns = predictions("binary", "float32")
    with tables_in("polars") as make:
        table = make({"y": y, **columns})
        same(sql.evaluate(table, label="y", proba="p", edges="uniform", n_bins=BINS), y, p)


@pytest.mark.parametrize("engine", QUICK)
def test_a_name_is_no_pattern(engine: str):
    """A column of another name, whose predictions are wrong, is never read instead."""
    y, p, _ = predictions("binary", "float64")
    with tables_in(engine) as make:
        for number, name in enumerate(NAMES):
            table = make({"y": y, "q": 1 - p, name: p}, f"rows{number}")
            same(sql.evaluate(table, label="y", proba=name, edges="uniform", n_bins=BINS), y, p)


@pytest.mark.parametrize("engine", QUICK)
def test_hostile_names_in_every_role(engine: str):
    y, p = world(N, 4)
    group = np.array(["north", "south"])[np.arange(N) % 2]
    w, plain = np.linspace(0.1, 1, N), {"y": 1 - y % 2, "w": np.zeros(N), "region": group[::-1]}
    plain |= {f"q{j}": p[:, 0] for j in range(4)}
    turns = [[f"^{name}$" for name in plain], ["y'", 'w"', "group by", "*", "^q0$", "p3", "é 😀"]]
    turns += [["cell", "n", "by_0", "u", "z", "r", "fault"], ["from", "null", "--", ";", "/*", "%s", "{}"]]
    with tables_in(engine) as make:
        for number, (label, weight, by, *proba) in enumerate(turns):
            hostile = {label: y, weight: w, by: group, **dict(zip(proba, p.T, strict=True)), " id ": np.arange(N)}
            table = make(plain | hostile, f"turn{number}")
            roles = {"label": label, "weight": weight, "proba": proba, "id": " id "}
            for groups in (by, [by, "region"]):
                found = sql.evaluate(table, by=groups, edges="uniform", n_bins=BINS, **roles)
                same(found, y, p, sample_weight=w)
                assert {*found.subgroups} == {"north", "south"} or isinstance(groups, list)
            assert {name.rpartition("=")[0] for name in found.subgroups} == {by, "region"}


def test_sqlite_has_no_ids_of_text():
    y, _, columns = predictions("binary", "float64")
    with tables_in("sqlite") as make:
        table = make({"id": [f"row {i}" for i in range(N)], "y": y, **columns})
        with pytest.raises(TypeError, match="id must be a column of whole numbers: SQLite has no hash of text"):
            sql.evaluate(table, label="y", proba="p", id="id")
    table = ibis.table({"id": "string", "y": "int64", "p": "float64"}, name="predictions")
    with pytest.raises(TypeError, match="SQLite has no hash"):
        sql.queries(table, "p", dialect="sqlite", label="y", id="id")


@pytest.mark.parametrize("weight", [1e-155, 1e-165, 1e-300, 1e140])
@pytest.mark.parametrize("engine", QUICK)
def test_weights_whose_squares_are_no_numbers_are_refused_as_in_memory(engine: str, weight: float):
    y, p, columns = predictions("binary", "float64")
    w = np.full(N, weight)
    with tables_in(engine) as make:
        table = make({"id": np.arange(N), "y": y, "w": w, **columns})
        for call in (
            lambda: sql.evaluate(table, label="y", proba="p", id="id", weight="w"),
            lambda: streamed(y, p, w),
        ):
            with pytest.raises(ValueError, match="too large or too small: rescale it"):
                call()


def streamed(y: Any, p: Any, weight: Any) -> Any:
    stream = tc.stream()
    stream.update(y, p, sample_weight=weight)
    return stream.result()


def test_large_weights_are_measured():
    y, _, columns = predictions("binary", "float64")
    with tables_in("duckdb") as make:
        tables = [make({"id": np.arange(N), "y": y, "w": np.full(N, w), **columns}, f"w{w:g}") for w in (1.0, 1e100)]
        one, large = (sql.evaluate(table, label="y", proba="p", id="id", weight="w") for table in tables)
        assert_close((large.gap.points, large.pvalue), (one.gap.points, one.pvalue), 1)


@pytest.mark.parametrize("through", ["engine", "csv"])
def test_a_subgroup_may_be_empty_text(through: str, tmp_path: Any):
    y, _, columns = predictions("binary", "float64")
    with tables_in("duckdb") as make:
        table = make({"y": y, "g": np.where(np.arange(N) % 2, "", "x"), **columns})
        if through == "engine":
            found = sql.evaluate(table, label="y", proba="p", by="g")
        else:
            text = sql.queries(table, "p", dialect="duckdb", label="y", by="g", edges="uniform").second
            rows = table.get_backend().con.sql(text).to_arrow_table()
            with open(tmp_path / "sums.csv", "w", newline="") as file:  # '' and NULL are both empty cells
                writer = csv.writer(file)
                writer.writerows([rows.column_names, *zip(*rows.to_pydict().values(), strict=True)])
            found = sql.read_sums(tmp_path / "sums.csv")
        assert set(found.subgroups) == {"", "x"}


def test_an_empty_table_is_refused_by_its_name():
    with tables_in("duckdb") as make:
        table = make({"y": np.zeros(0, int), "p": np.zeros(0)})
        for edges in (None, "uniform"):
            with pytest.raises(ValueError, match="expected at least one row, the table has none"):
                sql.evaluate(table, label="y", proba="p", edges=edges)
        text = sql.queries(table, "p", dialect="duckdb", label="y", edges="uniform").second
        with pytest.raises(ValueError, match="the sums have no rows: the table of the query is empty"):
            sql.read_sums(table.get_backend().con.sql(text).to_arrow_table())


@pytest.mark.slow
@pytest.mark.parametrize("engine", QUICK)
def test_random_tables_give_the_numbers_of_memory(engine: str):
    assert list(fuzz_sql.run(engine, 0, range(12))) == []
