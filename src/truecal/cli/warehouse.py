"""`truecal sql`: the two queries as text, and what the second one gave as a result."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

import typer
from typer import Option

from truecal.core.extras import require
from truecal.io.failures import FileError, failure
from truecal.kinds.inputs import Progress

from .shared_options import split, whole_numbers
from .sources import Asked, Measured

UNIFORM = "uniform"
FIRST = """-- 1. How predictions are distributed, for bins of equal numbers of rows. It reads no label. Save its
--    result with a header as edges.csv; --edges edges.csv then writes the second query over those bins."""
SECOND = """-- 2. The sums of every bin and block of rows, {}. Save its result with a header as sums.csv, then:
--    truecal evaluate --sums sums.csv"""


@dataclass(frozen=True)
class Warehouse:
    """Where predictions are and what their columns hold."""

    dialect: Annotated[
        str, Option("--dialect", help="duckdb, bigquery, snowflake, spark, postgres or sqlite.", show_default=False)
    ]
    table: Annotated[
        str, Option("--table", help="The table; dots separate catalog, schema and name.", show_default=False)
    ]
    label: Annotated[str | None, Option("--label", help="The column of the labels, class numbers from 0.")] = None
    columns: Annotated[
        list[str] | None, Option("--columns", help="The columns of the probabilities, in order, comma-separated.")
    ] = None
    model: Annotated[
        list[str] | None, Option("--model", help="One of several models as NAME=COLUMN,COLUMN; once for each.")
    ] = None
    confidence: Annotated[str | None, Option("--confidence", help="The confidence in the top class.")] = None
    predicted: Annotated[str | None, Option("--predicted", help="The top class, beside --confidence.")] = None
    correct: Annotated[str | None, Option("--correct", help="Whether the top class was right.")] = None
    id: Annotated[str | None, Option("--id", help="The column of row ids; without it there are no intervals.")] = None
    text_id: Annotated[bool, Option("--text-id", help="Row ids are text, not whole numbers.")] = False
    weight: Annotated[str | None, Option("--weight", help="The column of weights.")] = None
    by: Annotated[str | None, Option("--by", help="Columns of subgroups, comma-separated.")] = None
    classes: Annotated[
        str | None, Option("--classes", help="The values of the labels in order, where they are text, comma-separated.")
    ] = None
    array: Annotated[int | None, Option("--array", help="The column is an array of so many classes.", min=2)] = None
    float32: Annotated[bool, Option("--float32", help="The probabilities are of single precision.")] = False
    errors: Annotated[str | None, Option("--errors", help="Errors to measure, comma-separated; see tc.ERRORS.")] = None
    bins: Annotated[str | None, Option("--bins", help="Bin counts, comma-separated; 20 if unset.")] = None
    edges: Annotated[
        str | None, Option("--edges", help="uniform, or the result of the first query as csv: the second query alone.")
    ] = None
    blocks: Annotated[int, Option("--blocks", help="Blocks of rows behind intervals and test.")] = 64


def write_queries(wanted: Warehouse) -> str:
    """The queries with a comment before each."""
    tc_sql = require("truecal.sql", "sql")
    models = _models(wanted)
    names = {"label": wanted.label, "id": wanted.id, "weight": wanted.weight}
    options: dict[str, Any] = {
        **names,
        "by": split(wanted.by),
        "labels": split(wanted.classes),
        "n_classes": wanted.array,
        "errors": split(wanted.errors),
        "n_bins": None if wanted.bins is None else whole_numbers(wanted.bins, "--bins", "5,20"),
        "blocks": wanted.blocks,
        "dialect": wanted.dialect,
    }
    table = _unbound(wanted, models)
    given = None if wanted.edges in (None, UNIFORM) else Path(str(wanted.edges))
    try:
        if given is not None:
            if not given.is_file():
                raise failure(given, "file not found; expected the result of the first query as csv")
            found = tc_sql.queries(table, models, first=given, **options)
            return f"{SECOND.format('over bins of about equal numbers of rows')}\n{found.second};\n"
        second = tc_sql.queries(table, models, edges=UNIFORM, **options).second
        text = f"{SECOND.format('over bins of equal width')}\n{second};\n"
        if wanted.edges == UNIFORM:
            return text
        first = tc_sql.queries(table, models, **options).first
        return text if first is None else f"{FIRST}\n{first};\n\n{text}"
    except FileError:
        raise
    except (ValueError, TypeError) as error:
        raise typer.BadParameter(str(error)) from error


def _models(wanted: Warehouse) -> dict[str, Any]:
    top = {name: getattr(wanted, name) for name in ("confidence", "predicted", "correct")}
    top = {name: column for name, column in top.items() if column is not None}
    given = [bool(wanted.columns), bool(wanted.model), bool(top)]
    if sum(given) != 1:
        raise typer.BadParameter(
            "expected one of --columns, --model, or --confidence with --predicted or --correct", param_hint="--columns"
        )
    if top:
        return {"model": top}
    if wanted.columns:
        return {"model": [name for text in wanted.columns for name in _listed(text)]}
    found = {}
    for text in wanted.model or ():
        name, equals, columns = text.partition("=")
        if not equals or not name or name in found:
            raise typer.BadParameter(f"expected NAME=COLUMN,COLUMN, got {text!r}", param_hint="--model")
        found[name] = _listed(columns)
    return found


def _listed(text: str) -> list[str]:
    return [part for part in split(text) or () if part]


def _unbound(wanted: Warehouse, models: dict[str, Any]) -> Any:
    """A table without a connection, with the columns that were named."""
    ibis = require("ibis", "sql")
    number = "float32" if wanted.float32 else "float64"
    kind = f"array<{number}>" if wanted.array else number
    schema: dict[str, str] = {}
    for columns in models.values():
        if isinstance(columns, dict):
            kinds = {"confidence": number, "correct": "boolean", "predicted": "string" if wanted.classes else "int64"}
            schema |= {column: kinds[what] for what, column in columns.items()}
        else:
            schema |= dict.fromkeys(columns, kind)
    schema |= dict.fromkeys(split(wanted.by) or (), "string")
    for name, what in ((wanted.weight, "float64"), (wanted.id, "string" if wanted.text_id else "int64")):
        schema |= {} if name is None else {name: what}
    if wanted.label is not None:
        schema[wanted.label] = "string" if wanted.classes else "int64"
    *path, name = wanted.table.split(".")
    if not name or len(path) > 2 or not all(path):
        raise typer.BadParameter(f"expected [[CATALOG.]SCHEMA.]NAME, got {wanted.table!r}", param_hint="--table")
    places = dict(zip(("database", "catalog"), reversed(path), strict=False))
    return ibis.table(schema, name=name, **places)


@dataclass(frozen=True)
class Sums:
    """The result of the second query, of one model or of several."""

    asked: Asked
    rows: int = 0

    @classmethod
    def of(cls, asked: Asked) -> Self | None:
        if not asked.one_model.sums:
            return None
        asked.allow(("--sums", "--seed", "--level"), "cannot be used with --sums: the query decided what was counted")
        if not asked.files[0].is_file():
            raise failure(asked.files[0], "file not found")
        return cls(asked)

    def measure(self, progress: Progress | None) -> Measured:
        file, settings = self.asked.files[0], self.asked.measuring.settings()
        read_sums = require("truecal.sql", "sql").read_sums
        try:
            return Measured(read_sums(file, level=settings["level"], seed=settings["seed"]))
        except (ValueError, TypeError) as error:
            raise failure(file, str(error)) from error
