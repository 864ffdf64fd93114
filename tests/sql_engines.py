"""Tables of predictions in real engines, for the tests of truecal.sql: DuckDB, Polars, SQLite, PostgreSQL and Spark."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

QUICK = ("duckdb", "polars", "sqlite")
Make = Callable[..., Any]


def softmax(z: Any) -> Any:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def world(n: int = 3000, k: int = 4, seed: int = 0, factor: float = 1.5, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Labels, and predictions that are too sharp by a factor."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    p = softmax(z)
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1), softmax(factor * z).astype(dtype)


def arrow_table(columns: dict[str, Any]) -> Any:
    pa = pytest.importorskip("pyarrow")
    return pa.table(
        {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    )


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def tables_in(engine: str) -> Iterator[Make]:
    """A function that puts columns into a table of an engine and gives the table."""
    ibis = pytest.importorskip("ibis")
    made = {"sqlite": _sqlite, "postgres": _postgres, "spark": _spark}.get(engine)
    if made is not None:
        with made(ibis) as found:
            yield found
        return
    connection = getattr(ibis, engine).connect()

    def make(columns: dict[str, Any], name: str = "predictions") -> Any:
        if engine == "polars":
            import polars as pl

            return connection.create_table(name, pl.from_arrow(arrow_table(columns)))
        rows = arrow_table(columns)
        connection.con.register("rows_of_the_test", rows)
        connection.con.execute(f"CREATE TABLE {quoted(name)} AS SELECT * FROM rows_of_the_test")
        return connection.table(name)

    yield make
    if engine == "duckdb":
        connection.disconnect()


def _plain(values: Any) -> list[Any]:
    return [None if x is None else x.item() if isinstance(x, np.generic) else x for x in values]


@contextmanager
def _sqlite(ibis: Any) -> Iterator[Make]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.db")

        def make(columns: dict[str, Any], name: str = "predictions") -> Any:
            rows = arrow_table(columns)
            kinds = {"i": "INTEGER", "u": "INTEGER", "b": "INTEGER", "f": "REAL", "d": "REAL", "h": "REAL"}
            types = [kinds.get(str(field.type)[0], "TEXT") for field in rows.schema]
            with sqlite3.connect(path) as file:
                heads = ", ".join(f"{quoted(c)} {t}" for c, t in zip(rows.column_names, types, strict=True))
                file.execute(f"CREATE TABLE {quoted(name)} ({heads})")
                marks = ", ".join("?" * rows.num_columns)
                values = zip(*(_plain(rows.column(c).to_pylist()) for c in rows.column_names), strict=True)
                file.executemany(f"INSERT INTO {quoted(name)} VALUES ({marks})", values)
            file.close()
            return connection.table(name)

        connection = ibis.sqlite.connect(path)
        yield make
        connection.disconnect()


def _server_program(name: str) -> str | None:
    found = shutil.which(name) or next(iter(sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")))), None)
    return None if found is None else os.path.realpath(found)


@contextmanager
def _postgres(ibis: Any) -> Iterator[Make]:
    """A server of our own in a folder, on a socket there; it refuses to run as root, so another user runs it."""
    psycopg = pytest.importorskip("psycopg", reason="needs psycopg: pip install 'ibis-framework[postgres]'")
    server, initdb = _server_program("postgres"), _server_program("initdb")
    if server is None or initdb is None:
        pytest.skip("needs PostgreSQL: apt-get install postgresql")
    user: dict[str, Any] = {}
    folder = tempfile.mkdtemp(prefix="truecal-pg-", dir="/tmp")
    if os.geteuid() == 0:
        import pwd

        try:
            account = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
        user = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        os.chown(folder, account.pw_uid, account.pw_gid)
    try:
        subprocess.run(
            [initdb, "-D", f"{folder}/data", "-U", "tests", "-A", "trust"],
            check=True,
            capture_output=True,
            cwd="/",
            **user,
        )
        process = subprocess.Popen(
            [server, "-D", f"{folder}/data", "-k", folder, "-h", "", "-F"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            **user,
        )
        try:
            yield from _connected(ibis, psycopg, process, folder)
        finally:
            process.terminate()
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _connected(ibis: Any, psycopg: Any, process: Any, folder: str) -> Iterator[Make]:
    import time

    where = {"host": folder, "user": "tests", "dbname": "postgres"}
    for _ in range(100):
        try:
            plain = psycopg.connect(**where, autocommit=True)
            break
        except psycopg.OperationalError:
            assert process.poll() is None, "the server ended"
            time.sleep(0.1)
    else:
        pytest.fail("the server did not start")
    connection = ibis.postgres.connect(host=folder, user="tests", database="postgres")
    kinds = {"int64": "BIGINT", "float": "REAL", "double": "DOUBLE PRECISION", "bool": "BOOLEAN", "string": "TEXT"}
    kinds |= {f"list<{field}: double>": "DOUBLE PRECISION[]" for field in ("item", "element")}

    def make(columns: dict[str, Any], name: str = "predictions") -> Any:
        rows = arrow_table(columns)
        heads = ", ".join(f"{quoted(f.name)} {kinds[str(f.type)]}" for f in rows.schema)
        with plain.cursor() as cursor:
            cursor.execute(f"DROP TABLE IF EXISTS {quoted(name)}")
            cursor.execute(f"CREATE TABLE {quoted(name)} ({heads})")
            with cursor.copy(f"COPY {quoted(name)} FROM STDIN") as copy:
                for row in zip(*(rows.column(c).to_pylist() for c in rows.column_names), strict=True):
                    copy.write_row(row)
        return connection.table(name)

    yield make
    connection.disconnect()
    plain.close()


@contextmanager
def _spark(ibis: Any) -> Iterator[Make]:
    pytest.importorskip("pyspark", reason="needs Spark: pip install 'ibis-framework[pyspark]'")
    if shutil.which("java") is None:
        pytest.skip("needs Java: apt-get install default-jre-headless")
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in (("spark.sql.shuffle.partitions", "2"), ("spark.driver.host", "127.0.0.1")):
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    connection = ibis.pyspark.connect(session)

    def make(columns: dict[str, Any], name: str = "predictions") -> Any:
        session.createDataFrame(arrow_table(columns)).createOrReplaceTempView(f"`{name}`")
        return connection.table(name)

    yield make
    session.stop()
