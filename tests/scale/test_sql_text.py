"""The two queries as text in every dialect, what can be wrong with their results, and the command line around them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from command_line import Run
from sql_engines import Make, tables_in, world

ibis = pytest.importorskip("ibis")
sqlglot = pytest.importorskip("sqlglot")
pa = pytest.importorskip("pyarrow")
from pyarrow import csv  # noqa: E402  # after importorskip

sql: Any = tc.sql
SNAPSHOTS = Path(__file__).parent / "sql_snapshots"
STORED = ("bigquery", "snowflake")  # engines that no test runs; test_sql.py runs the others
SLOW = pytest.mark.slow
SCHEMA = {
    "row id": "int64",
    "y": "int64",
    "p0": "float64",
    "p1": "float64",
    "p2": "float64",
    "w": "float64",
    "site": "string",
}
OPTIONS: dict[str, Any] = {"label": "y", "id": "row id", "n_bins": 4}
WAYS: dict[str, dict[str, Any]] = {
    "quantile": {},
    "uniform": {"edges": "uniform"},
    "weighted": {"edges": "uniform", "weight": "w", "by": "site", "errors": ["confidence"]},
}


@pytest.fixture
def duck() -> Iterator[Make]:
    with tables_in("duckdb") as made:
        yield made


@pytest.fixture
def truecal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    import sys

    from truecal.cli.app import run

    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["truecal", *arguments])
        code = run()
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def text_of(way: str, dialect: str) -> str:
    table = ibis.table(SCHEMA, name="predictions", database="logs")
    found = sql.queries(table, ["p0", "p1", "p2"], dialect=dialect, **OPTIONS | WAYS[way])
    return found.first + ";\n" if way == "quantile" else found.second + ";\n"


@pytest.mark.slow
@pytest.mark.parametrize("dialect", STORED)
@pytest.mark.parametrize("way", WAYS)
def test_queries_are_those_that_were_stored(way: str, dialect: str):
    """Written by this file, run with src and tests on the path; SQLGlot reads them."""
    text = text_of(way, dialect)
    assert text == (SNAPSHOTS / f"{way}.{dialect}.sql").read_text(encoding="utf-8")
    (tree,) = sqlglot.parse(text, dialect=dialect)
    named = {column.name for column in tree.find_all(sqlglot.exp.Column)}
    assert {"p0", "p1", "p2"} <= named
    assert ("y" in named) == (way != "quantile")  # the first query sees no label
    assert [table.name for table in tree.find_all(sqlglot.exp.Table) if table.name != ""].count("predictions") >= 1
    if way == "weighted":
        assert {"w", "site"} <= named


@pytest.mark.slow
@pytest.mark.parametrize("dialect", sql.DIALECTS)
def test_hostile_names_stay_names(dialect: str):
    """Whatever a column or table is called, the text is one statement that reads that column and table."""
    names = ['a"; DROP TABLE x; --', "b'); DELETE FROM y; --", "c*/ d /*", "e -- f"]
    names += [] if dialect == "bigquery" else ["g`; DROP TABLE x; --", "h\\"]
    label, key, place = "l'\"; --", "k); --", 'pred"s; DROP TABLE x; --'
    table = ibis.table(dict.fromkeys(names, "float64") | {label: "int64", key: "int64"}, name=place)
    asked = {"dialect": dialect, "label": label, "id": key, "n_bins": 3, "errors": ["confidence"]}
    first = sql.queries(table, {"m'--\\": names}, **asked).first
    for text in (first, sql.queries(table, {"m'--\\": names}, edges="uniform", **asked).second):
        trees = sqlglot.parse(text, dialect=dialect)
        assert len(trees) == 1 and isinstance(trees[0], sqlglot.exp.Query)
        assert not list(trees[0].find_all(sqlglot.exp.Drop, sqlglot.exp.Delete, sqlglot.exp.Command))
        if dialect != "bigquery":  # Ibis leaves out letters that its names cannot have
            assert set(names) <= {column.name for column in trees[0].find_all(sqlglot.exp.Column)}
        assert place in {one.name for one in trees[0].find_all(sqlglot.exp.Table)}
    if dialect == "bigquery":
        for bad in ("a`", "a\\"):
            with pytest.raises(ValueError, match="BigQuery has no names with backticks or backslashes"):
                sql.queries(table.rename({bad: names[0]}), [bad, *names[1:]], dialect=dialect, label=label)


def saved(duck: Make, path: Path, **options: Any) -> Any:
    """The table, with the result of its second query as csv."""
    y, p = world(1000, 3)
    table = duck({"id": np.arange(1000), "y": y, **{f"p{j}": p[:, j] for j in range(3)}, "site": ["a", "b"] * 500})
    found = sql.queries(
        table, options.pop("models", ["p0", "p1", "p2"]), dialect="duckdb", label="y", id="id", **options
    )
    csv.write_csv(table.get_backend().con.sql(found.second).to_arrow_table(), path)
    return table


@SLOW
def test_sums_that_were_pasted(duck: Make, tmp_path: Path, truecal: Run):
    table = saved(duck, tmp_path / "sums.csv", n_bins=10, edges="uniform", by="site")
    wanted = sql.evaluate(
        table, label="y", proba=["p0", "p1", "p2"], id="id", n_bins=10, edges="uniform", by="site", name="model"
    )
    found = sql.read_sums(tmp_path / "sums.csv")
    for field in ("errors", "losses"):
        assert_close(getattr(found, field), getattr(wanted, field), 1)
    assert list(found.subgroups) == ["a", "b"] and found.notes == wanted.notes
    code, out, _ = truecal("evaluate", "--sums", "sums.csv", "--json", "out.json", "--details")
    assert code == 0 and "1000 samples, 3 classes" in out
    assert_close(json.loads(Path("out.json").read_text())["score"], wanted.score, 1)
    for option in (("--bins", "5"), ("--logits",), ("--by", "site")):
        code, _, err = truecal("evaluate", "--sums", "sums.csv", *option)
        assert code == 2 and "cannot be used with --sums" in err


@SLOW
def test_several_models_that_were_pasted(duck: Make, tmp_path: Path, truecal: Run):
    models = {"sharp": ["p0", "p1", "p2"], "turned": ["p1", "p2", "p0"]}
    saved(duck, tmp_path / "sums.csv", models=models, n_bins=10, edges="uniform")
    found = sql.read_sums(tmp_path / "sums.csv")
    assert found.names == ("sharp", "turned") and found.verdict.best == ("sharp",)
    code, out, _ = truecal("evaluate", "--sums", "sums.csv")
    assert code == 0 and "turned" in out


@pytest.mark.slow
def test_sums_that_are_not_whole(duck: Make, tmp_path: Path, truecal: Run):
    saved(duck, tmp_path / "sums.csv", n_bins=10, edges="uniform")
    lines = (tmp_path / "sums.csv").read_text().splitlines()
    head, body = lines[0], lines[1:]
    plan = next(i for i, line in enumerate(body) if line.startswith("-1,"))
    rest = [line for i, line in enumerate(body) if i != plan]

    def refused(*kept: str) -> str:
        (tmp_path / "bad.csv").write_text("\n".join(kept) + "\n")
        code, _, err = truecal("evaluate", "--sums", "bad.csv")
        assert code == 1 and "bad.csv" in err and err.count("\n") < 6
        return err.replace("\n", " ")

    assert "no row of part -1" in refused(head, *rest)
    assert "different numbers of rows" in refused(head, body[plan], *rest[:-3])
    assert "a cell twice" in refused(head, body[plan], *rest, rest[0])
    assert "plan of the query" in refused(head, body[plan].replace("truecal", "other"), *rest)
    assert "version" in refused(head, body[plan].replace('truecal"":1', 'truecal"":9'), *rest)
    assert "expected the result of the second query" in refused("a,b", "1,2")
    shifted = [",".join(["0", "777", *line.split(",")[2:]]) if i == 0 else line for i, line in enumerate(rest)]
    assert "outside 0 to" in refused(head, body[plan], *shifted)


@SLOW
def test_quantile_bins_through_files(duck: Make, tmp_path: Path, truecal: Run):
    y, p = world(1000, 3)
    table = duck({"id": np.arange(1000), "y": y, **{f"p{j}": p[:, j] for j in range(3)}})
    connection = table.get_backend().con
    command = ("sql", "--dialect", "duckdb", "--table", "predictions", "--label", "y", "--columns", "p0,p1,p2")
    code, out, _ = truecal(*command, "--id", "id", "--bins", "8")
    assert code == 0 and out.count("-- 1.") == out.count("-- 2.") == 1
    first, second = out.split("-- 2.")
    csv.write_csv(connection.sql(first).to_arrow_table(), tmp_path / "edges.csv")
    code, out, _ = truecal(*command, "--id", "id", "--bins", "8", "--edges", "edges.csv")
    assert code == 0 and "-- 1." not in out
    csv.write_csv(connection.sql(out).to_arrow_table(), tmp_path / "sums.csv")
    wanted = sql.evaluate(table, label="y", proba=["p0", "p1", "p2"], id="id", n_bins=8)
    assert_close(sql.read_sums(tmp_path / "sums.csv").errors, wanted.errors, 1)
    csv.write_csv(connection.sql("-- 2." + second).to_arrow_table(), tmp_path / "uniform.csv")
    assert sql.read_sums(tmp_path / "uniform.csv").reliability["classwise"].table.rule == tc.EqualWidth(8)


@pytest.mark.slow
def test_usage_of_the_command(truecal: Run):
    plain = ("sql", "--table", "t", "--label", "y")
    assert truecal(*plain, "--dialect", "oracle", "--columns", "p")[0] == 2
    assert truecal(*plain, "--dialect", "duckdb")[0] == 2
    assert truecal(*plain, "--dialect", "duckdb", "--columns", "p", "--model", "a=p")[0] == 2
    assert truecal(*plain, "--dialect", "duckdb", "--columns", "p", "--edges", "missing.csv")[0] == 1
    code, out, _ = truecal(*plain, "--dialect", "spark", "--predicted", "t", "--confidence", "c", "--by", "a,b")
    assert code == 0 and "`a`" in out and "`c`" in out
    code, out, _ = truecal(
        *plain, "--dialect", "snowflake", "--model", "a=p,q,r", "--model", "b=u,v,w", "--weight", "x"
    )
    assert code == 0 and '"u"' in out
    code, out, _ = truecal(*plain, "--dialect", "bigquery", "--columns", "ps", "--array", "3", "--classes", "x,y,it's")
    assert code == 0 and "safe_offset" in out.lower()


@pytest.mark.slow
def test_what_cannot_be_asked(duck: Make):
    y, p = world(300, 3)
    table = duck({"id": np.arange(300), "y": y, "t": ["x"] * 300, **{f"p{j}": p[:, j] for j in range(3)}, "copy": y})
    names = ["p0", "p1", "p2"]
    for options, words in (
        ({"proba": ["p0", "p9"]}, "no column 'p9'"),
        ({"proba": ["p0", "p0"]}, "names a column twice"),
        ({"proba": names, "label": None}, "label= is missing"),
        ({"proba": names, "label": "t"}, "labels must be whole numbers"),
        ({"proba": names, "id": "p0"}, "id must be a column of whole numbers or text"),
        ({"proba": names, "by": "y"}, "by is the outcome under another name"),
        ({"proba": names, "by": "copy"}, "by is the outcome under another name"),
        ({"proba": names, "errors": ["full"]}, "'full' needs cells for whole distributions"),
        ({"proba": names, "errors": ["ece"]}, "cannot be streamed"),
        ({"proba": names, "edges": [0.2, 0.9]}, "edges must run from 0 to 1"),
        ({"proba": names, "labels": ["a"]}, "labels must name the 3 classes"),
        ({"confidence": "p0"}, "'confidence' with 'predicted'"),
        ({}, "pass either proba="),
        ({"proba": "t"}, "columns of numbers"),
        ({"proba": names, "blocks": 3, "id": "id"}, "blocks must be 0"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            sql.evaluate(table, **{"label": "y"} | options)
    with pytest.raises(TypeError, match="must be an Ibis table"):
        sql.evaluate({"y": y}, label="y", proba="p0")
    with pytest.raises(ValueError, match="at least one row"):
        sql.evaluate(table.filter(table.id < 0), label="y", proba=names)
    with pytest.raises(ValueError, match="dialect must be one of"):
        sql.queries(table, names, dialect="oracle", label="y")


@SLOW
def test_edges_of_an_earlier_result(duck: Make):
    y, p = world(1000, 3)
    table = duck({"id": np.arange(1000), "y": y, **{f"p{j}": p[:, j] for j in range(3)}})
    options = {"label": "y", "proba": ["p0", "p1", "p2"], "errors": ["classwise", "confidence"]}
    first = sql.evaluate(table, n_bins=6, **options)
    again = sql.evaluate(table, edges=first, **options)
    assert_close([row.value for row in again.errors], [row.value for row in first.errors])
    auto = sql.evaluate(table, n_bins="auto", **options)
    assert auto.row("confidence").n_bins == tc.rules.auto_bins(1000)


@pytest.mark.slow
def test_impossible_labels_have_infinite_loss(duck: Make):
    y, p = world(400, 3)
    p[7] = np.where(np.arange(3) == y[7], 0, 0.5)
    table = duck({"id": np.arange(400), "y": y, **{f"p{j}": p[:, j] for j in range(3)}})
    found = sql.evaluate(table, label="y", proba=["p0", "p1", "p2"], id="id", edges="uniform", n_bins=5)
    loss = found.loss("cross_entropy")
    assert np.isinf(loss.value) and loss.low is None and any("infinite" in note for note in found.notes)
    assert_close(found.loss("spherical").value, tc.losses.spherical(y, p), 1)
    without = sql.evaluate(table, label="y", proba=["p0", "p1", "p2"], losses=False)
    assert [value.name for value in without.losses] == ["classification_error", "brier", "confidence_loss"]


if __name__ == "__main__":
    SNAPSHOTS.mkdir(exist_ok=True)
    for each in WAYS:
        for one in STORED:
            (SNAPSHOTS / f"{each}.{one}.sql").write_text(text_of(each, one), encoding="utf-8")


@pytest.mark.slow
def test_errors_of_equal_width_need_one_query(truecal: Run):
    command = ("sql", "--dialect", "duckdb", "--table", "t", "--label", "y", "--columns", "p0,p1,p2")
    code, out, _ = truecal(*command, "--errors", "confidence_l1")
    assert code == 0 and "-- 1." not in out and "None;" not in out
    assert "MISSING" not in truecal("sql", "--help")[1]
