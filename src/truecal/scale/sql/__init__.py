"""evaluate and compare where the predictions are: two queries on any engine of Ibis.

The first query counts how predictions are distributed, without their labels, and gives quantile edges. The second adds
up outcomes and residuals by class, bin and block of rows. What comes back is a few thousand rows of sums, which are
read by the code that reads streams: with the same edges every number is that of memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, final

from ...core.data import check_positive_int, shown
from ...core.extras import require
from ...core.parameters import described
from ...core.rules import BinCounts
from ...inference.checks import check_draws, check_level
from ...results.comparison import Comparison
from ...results.evaluation import Evaluation
from ..stream import BLOCKS
from .counted import QuerySums
from .expressions import Columns, ModelColumns, Row, engine
from .query_plan import QueryPlan, plan_of
from .statements import engine_name, first_query, histograms, second_query

__all__ = ["DIALECTS", "Queries", "compare", "evaluate", "queries", "read_sums"]

DIALECTS = ("duckdb", "bigquery", "snowflake", "spark", "postgres", "sqlite")
"""What `queries` writes; Polars runs no SQL of ours, and takes an Ibis table."""


_WORDS = {
    "table": "An Ibis table expression, such as `ibis.duckdb.connect().read_parquet('predictions/*.parquet')`.",
    "models": "Names and columns: each a column or list of columns as `proba` of `evaluate`, or a mapping with "
    '"confidence" and "predicted" or "correct".',
    "label": "The column of the labels: class numbers from 0, true or false, or one of `labels`.",
    "proba": "The column of the probability of `pos_label`, a column for each class in order, or one array column.",
    "confidence": "Instead of `proba`, for tables of the top class: its confidence.",
    "predicted": "Beside `confidence`: the class.",
    "correct": "Beside `confidence`: whether the class was right.",
    "id": "A column of row ids, whole numbers or text. Its hash puts rows into blocks, from which intervals and the "
    "test come; rows of one id share a block. An example is named where rows cannot be measured.",
    "weight": "A column of weights.",
    "by": "A column, or several, whose values are subgroups to measure as well.",
    "labels": "The values of `label`, in the order of the classes.",
    "pos_label": "The positive label of two classes.",
    "n_classes": "The length of an array column, by default that of the first row.",
    "errors": "Names of ERRORS, by default classwise or binary, confidence, and the usual ECE.",
    "n_bins": 'The number of bins: by default 20, and 15 for the usual ECE. "auto" grows with the rows, and so does '
    "what is moved.",
    "edges": '"uniform" for bins of equal width, which need one query; an array, `Edges`, table or Evaluation with '
    "edges, or a mapping of error names to these. By default quantile edges from a first query.",
    "blocks": "The number of blocks of rows behind intervals and test, 0 for none.",
    "losses": "Whether losses are summed that no table holds, such as the cross-entropy.",
    "seed": "The seed of the sign flips of the calibration test by blocks.",
    "dialect": "One of DIALECTS.",
    "first": "What the first query gave, a path of csv or an Arrow table: its quantile edges are put into the second.",
    "source": "The path of a csv file with a header, or an Arrow table.",
}
"""The words of parameters that differ from those of `truecal.evaluate`."""


@described("An Evaluation.", **_WORDS)
def evaluate(
    table: Any,
    *,
    label: str | None = None,
    proba: str | Sequence[str] | None = None,
    confidence: str | None = None,
    predicted: str | None = None,
    correct: str | None = None,
    id: str | None = None,
    weight: str | None = None,
    by: str | Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    pos_label: Any = 1,
    n_classes: int | None = None,
    errors: Sequence[str] | None = None,
    n_bins: BinCounts | None = None,
    edges: Any = None,
    blocks: int = BLOCKS,
    losses: bool = True,
    level: float = 0.95,
    seed: int = 0,
    name: str = "model",
) -> Evaluation:
    """`truecal.evaluate` on the engine that has the predictions: DuckDB, Polars, Spark, BigQuery, Snowflake, Postgres.

    The calibration test is by blocks of rows; null bands are left out. Rows with NULL, NaN, probabilities that do not
    sum to 1 or labels out of range raise a ValueError with their number and the id of one of them.

    >>> import ibis, numpy as np, pyarrow, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> chances = rng.random(20_000)
    >>> rows = {"id": np.arange(20_000), "y": rng.random(20_000) < chances, "p": np.clip(chances + .1, 0, 1)}
    >>> table = ibis.duckdb.connect().create_table("predictions", pyarrow.table(rows))
    >>> tc.sql.evaluate(table, label="y", proba="p", id="id", n_bins=10, edges="uniform").gap
    gap of 9.4 points [8.9, 10], too high (LinCE_binary, 10 bins, 20000 samples, 95% interval)
    """
    top = {"confidence": confidence, "predicted": predicted, "correct": correct}
    columns = Columns(label, id, weight, _by(by), None if labels is None else tuple(labels), pos_label)
    rows = _rows(table, {name: _one(proba, top)}, columns, n_classes, losses)
    level, seed = check_level(level), check_draws(1, seed)[1]
    plan = plan_of(rows, [name], columns, errors, n_bins, edges, blocks if id is not None else 0)
    found = _run(plan, rows).result(level, seed)
    assert isinstance(found, Evaluation)
    return found


@described("A Comparison.", **_WORDS)
def compare(
    table: Any,
    models: Mapping[str, Any],
    *,
    label: str | None = None,
    id: str | None = None,
    weight: str | None = None,
    by: str | Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    pos_label: Any = 1,
    n_classes: int | None = None,
    errors: Sequence[str] | None = None,
    n_bins: BinCounts | None = None,
    edges: Any = None,
    blocks: int = BLOCKS,
    losses: bool = True,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """`truecal.compare` where the predictions are, all models in the same two queries; tests are by blocks of rows.

    >>> import ibis, numpy as np, pyarrow, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5_000)
    >>> rows = {"id": np.arange(5_000), "y": rng.random(5_000) < p, "a": p, "b": p**2}
    >>> table = ibis.duckdb.connect().create_table("predictions", pyarrow.table(rows))
    >>> tc.sql.compare(table, {"a": "a", "b": "b"}, label="y", id="id").verdict.best
    ('a',)
    """
    if not isinstance(models, Mapping) or not models:
        raise TypeError(f"models must be a mapping of names to columns, got {shown(models)}")
    columns = Columns(label, id, weight, _by(by), None if labels is None else tuple(labels), pos_label)
    rows = _rows(table, models, columns, n_classes, losses)
    if len({(row.kind, row.classes) for row in rows}) > 1:
        raise ValueError("models must have the same classes, or all one probability, or all the top class alone")
    level, seed = check_level(level), check_draws(1, seed)[1]
    plan = plan_of(rows, list(models), columns, errors, n_bins, edges, blocks if id is not None else 0)
    return _run(plan, rows).comparison(level, seed)


@final
@dataclass(frozen=True)
class Queries:
    """Two queries as text: `first` is None where all edges are known, and `second` until they are."""

    first: str | None
    second: str | None


@described("The Queries.", **_WORDS | {"models": "As for `compare`, or the columns of one model."})
def queries(
    table: Any,
    models: Any,
    *,
    dialect: str,
    label: str | None = None,
    id: str | None = None,
    weight: str | None = None,
    by: str | Sequence[str] | None = None,
    labels: Sequence[Any] | None = None,
    pos_label: Any = 1,
    n_classes: int | None = None,
    errors: Sequence[str] | None = None,
    n_bins: BinCounts | None = None,
    edges: Any = None,
    first: Any = None,
    blocks: int = BLOCKS,
    losses: bool = True,
) -> Queries:
    """The two queries as text, for an engine that Python cannot reach; `read_sums` reads the result of `second`.

    >>> import ibis, truecal as tc
    >>> table = ibis.table({"id": "int64", "y": "int64", "p": "float64"}, name="predictions")
    >>> found = tc.sql.queries(table, "p", dialect="duckdb", label="y", id="id", n_bins=10)
    >>> found.second is None, '"y"' in found.first
    (True, False)
    """
    if dialect not in DIALECTS:
        raise ValueError(f"dialect must be one of {', '.join(DIALECTS)}, got {shown(dialect)}")
    named = _named(models)
    columns = Columns(label, id, weight, _by(by), None if labels is None else tuple(labels), pos_label)
    rows = _rows(table, named, columns, n_classes, losses, dialect)
    for name in (*table.columns, getattr(table.op(), "name", "")):
        if dialect == "bigquery" and any(
            sign in name for sign in "`\\"
        ):  # it has no such names, and no way to quote them
            raise ValueError(f"BigQuery has no names with backticks or backslashes, got {shown(name)}")
    plan = plan_of(rows, list(named), columns, errors, n_bins, edges, blocks if id is not None else 0)
    parts = plan.open_parts()
    if first is not None:
        plan = plan.freeze(parts, *histograms(read_table(first), parts))
    if not plan.frozen:
        return Queries(to_sql(first_query(rows, parts), dialect), None)
    return Queries(None, to_sql(second_query(rows, plan.parts(), plan.blocks, plan.to_text()), dialect))


@described("An Evaluation, or a Comparison.", **_WORDS)
def read_sums(source: Any, *, level: float = 0.95, seed: int = 0) -> Evaluation | Comparison:
    """Read what the second query gave as an Evaluation, or a Comparison of several models.

    Other tables, and sums of which some are missing or of rows that cannot be measured, raise a ValueError.

    >>> import ibis, numpy as np, pyarrow, truecal as tc
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random(5_000)
    >>> rows = {"id": np.arange(5_000), "y": (rng.random(5_000) < p).astype(int), "p": p}
    >>> connection = ibis.duckdb.connect()
    >>> table = connection.create_table("predictions", pyarrow.table(rows))
    >>> found = tc.sql.queries(table, "p", dialect="duckdb", label="y", id="id", edges="uniform")
    >>> tc.sql.read_sums(connection.con.sql(found.second).to_arrow_table()).n_samples
    5000
    """
    table = read_table(source)
    if "example" not in table.column_names or "part" not in table.column_names:
        raise ValueError(f"expected the result of the second query, got columns {', '.join(table.column_names[:12])}")
    if not table.num_rows:
        raise ValueError("the sums have no rows: the table of the query is empty, or its result was not saved")
    about = [
        text
        for part, text in zip(*(table.column(n).to_pylist() for n in ("part", "example")), strict=True)
        if part == -1
    ]
    if len(about) != 1 or about[0] is None:
        raise ValueError(
            "the sums have no row of part -1, which holds the plan of the query: keep every row of the result"
        )
    return QuerySums.read(table, QueryPlan.of_text(str(about[0]))).result(check_level(level), check_draws(1, seed)[1])


# -- how they run -----------------------------------------------------------------------------------------------------


def _run(plan: QueryPlan, rows: Sequence[Row]) -> QuerySums:
    """Both queries, or the second alone where all edges are known."""
    if not plan.frozen:
        parts = plan.open_parts()
        plan = plan.freeze(parts, *histograms(_executed(first_query(rows, parts)), parts))
    return QuerySums.read(_executed(second_query(rows, plan.parts(), plan.blocks)), plan)


def _executed(query: Any) -> Any:
    if engine_name(query) == "polars":  # its streaming engine holds a few batches of rows at a time
        return query.to_pyarrow(engine="streaming")
    return query.to_pyarrow()


def to_sql(query: Any, dialect: str) -> str:
    """The text of a query, quoted as the dialect quotes."""
    ibis = engine()
    with _spark_options(ibis, dialect):
        return str(ibis.to_sql(query, dialect="pyspark" if dialect == "spark" else dialect))


@contextmanager
def _spark_options(ibis: Any, dialect: str) -> Any:
    """Ibis knows its options of Spark only where pyspark is installed; the text of a query needs one of them."""
    missing = dialect == "spark" and ibis.options.pyspark is None
    if missing:
        about = {"treat_nan_as_null": False, "__annotations__": {"treat_nan_as_null": bool}}
        ibis.options.pyspark = type("SparkText", (ibis.config.Config,), about)()
    try:
        yield
    finally:
        if missing:
            ibis.options.pyspark = None


def read_table(source: Any) -> Any:
    """A csv file or anything like an Arrow table as an Arrow table with lower-case names."""
    arrow = require("pyarrow", "sql")
    if isinstance(source, (str, os.PathLike)):
        csv = require("pyarrow.csv", "sql")
        names = csv.open_csv(source).schema.names
        kinds = {name: arrow.string() for name in names if _is_text(name)}
        kinds |= {name: arrow.float64() for name in names if not _is_text(name)}
        options = csv.ConvertOptions(column_types=kinds, strings_can_be_null=True, quoted_strings_can_be_null=False)
        source = csv.read_csv(source, convert_options=options)
    elif not isinstance(source, arrow.Table):
        source = arrow.table(source)
    return source.rename_columns([name.lower() for name in source.column_names])


def _is_text(name: str) -> bool:
    return name.lower() == "example" or name.lower().startswith("by_")


def _rows(
    table: Any, models: Mapping[str, Any], columns: Columns, n_classes: int | None, losses: bool, dialect: str = ""
) -> list[Row]:
    ibis = engine()
    if not isinstance(table, ibis.expr.types.Table):
        raise TypeError(
            f"table must be an Ibis table, got {shown(table)}; for a DataFrame there is truecal.evaluate, or "
            "ibis.memtable(frame)"
        )
    schema = table.schema()
    columns.check(schema, dialect or engine_name(table))
    read = [ModelColumns.read(given, schema) for given in models.values()]
    if engine_name(table) == "polars" and not dialect:
        table, columns, read = _renamed(table, columns, read)
    found = []
    for model in read:
        classes = None if n_classes is None else check_positive_int(n_classes, "n_classes")
        if model.array is not None and classes is None:
            classes = len(columns.labels) if columns.labels is not None else _length(table, model.array)
        row = Row.of(table, columns, model, classes, losses)
        if columns.labels is not None and not row.kind.top_only and len(columns.labels) != row.classes:
            raise ValueError(f"labels must name the {row.classes} classes, got {len(columns.labels)}")
        found.append(row)
    return found


def _renamed(table: Any, columns: Columns, models: Sequence[ModelColumns]) -> tuple[Any, Columns, list[ModelColumns]]:
    """The table with names of ours: Polars takes a name such as ^q$ or * for a pattern, and would read other columns.

    A frame is renamed by Polars itself, as every expression of Ibis names its columns by such a pattern.
    """
    backends, _ = table._find_backends()
    frame = backends[0].compile(table)
    names = {name: f"column {j}" for j, name in enumerate(table.columns)}

    def ours(of: Any, wanted: Sequence[str]) -> dict[str, Any]:
        given = {field: getattr(of, field) for field in wanted}
        return {
            field: names[value] if isinstance(value, str) else tuple(names[name] for name in value)
            for field, value in given.items()
            if value is not None
        }

    connection = engine().polars.connect({"rows": frame.rename(names)})
    found = [replace(model, **ours(model, [field.name for field in fields(model)])) for model in models]
    return connection.table("rows"), replace(columns, **ours(columns, ("label", "id", "weight", "by"))), found


def _length(table: Any, array: str) -> int:
    """The number of classes of an array column, by its first row."""
    found = table.filter(table[array].notnull()).limit(1).select(n=table[array].length()).to_pyarrow()
    if not found.num_rows:
        raise ValueError(f"expected at least one row with the array {shown(array)}, the table has none")
    return int(found.column("n")[0].as_py())


def _one(proba: Any, top: Mapping[str, str | None]) -> Any:
    given = {name: column for name, column in top.items() if column is not None}
    if (proba is None) == (not given):
        raise ValueError("pass either proba=, or confidence= with predicted= or correct=")
    return given if proba is None else proba


def _named(models: Any) -> Mapping[str, Any]:
    """Models by name; the columns of a single one have none."""
    if isinstance(models, Mapping) and "confidence" not in models:
        return models
    return {"model": models}


def _by(by: Any) -> tuple[str, ...]:
    if by is None:
        return ()
    names = (by,) if isinstance(by, str) else tuple(by)
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise TypeError(f"by must be a column or several different ones, got {shown(by)}")
    return names
