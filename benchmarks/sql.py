"""Two queries against the same ECE written by hand, and how often intervals over hash blocks hold what they should.

    python -m benchmarks.sql                       # 10 million rows x 10 classes in memory, some minutes
    python -m benchmarks.sql --rows 100000000 --files FOLDER    # over parquet files, 5 GB that are written there first
    python -m benchmarks.sql --coverage --draws 500
    python -m benchmarks.sql --small

Engines run over tables in memory, or with --files over parquet files, float32 predictions. Ours and the hand-written
query take turns; times are the least of the rounds, ratios those of processor time. By hand is what people write: bins
of equal width by rounding, counts and two sums; no row is checked.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = 10
NAMES = [f"p{j}" for j in range(CLASSES)]
BINS = 15


def rows_of(n: int, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    p = np.exp(2 * rng.standard_normal((n, CLASSES), dtype=np.float32))
    p /= p.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((n, 1), dtype=np.float32)).sum(axis=1).clip(max=CLASSES - 1)
    return {
        "id": np.arange(n) + seed * n,
        "y": y,
        **{name: np.ascontiguousarray(p[:, j]) for j, name in enumerate(NAMES)},
    }


FILE_ROWS = 5_000_000


def write_files(folder: Path, n: int, each: int = FILE_ROWS) -> str:
    """Parquet files of some million rows each, made one at a time; those that are there are kept."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for number in range(-(-n // each)):
        path = folder / f"part-{number:03}.parquet"
        if not path.exists():
            pq.write_table(pa.table(rows_of(each, number)), path, compression="none", use_dictionary=False)
    return str(folder / "*.parquet")


# -- by hand ----------------------------------------------------------------------------------------------------------


def duckdb_ece() -> str:
    top = "CASE " + " ".join(f"WHEN p{j} = c THEN {j}" for j in range(CLASSES)) + " END"
    return f"""
        SELECT CAST(greatest(ceil(c * {BINS}) - 1, 0) AS INT) AS bin, count(*), sum(c::DOUBLE), sum((top = y)::INT)
        FROM (SELECT *, {top} AS top FROM (SELECT *, greatest({", ".join(NAMES)}) AS c FROM predictions)) GROUP BY 1"""


def duckdb_classes() -> str:
    return " UNION ALL ".join(
        f"SELECT {j}, CAST(greatest(ceil(p{j} * {BINS}) - 1, 0) AS INT), count(*), sum(p{j}::DOUBLE), "
        f"sum((y = {j})::INT) FROM predictions GROUP BY 1, 2"
        for j in range(CLASSES)
    )


def polars_ece(frame: Any) -> Any:
    import polars as pl

    top: Any = pl.lit(CLASSES - 1)
    for j in reversed(range(CLASSES - 1)):
        top = pl.when(pl.col(f"p{j}") == pl.col("c")).then(j).otherwise(top)
    rows = frame.with_columns(c=pl.max_horizontal(NAMES)).with_columns(z=top == pl.col("y"))
    bins = ((pl.col("c") * BINS).ceil() - 1).clip(0).cast(pl.Int32).alias("bin")
    return rows.group_by(bins).agg(pl.len(), pl.col("c").cast(pl.Float64).sum(), pl.col("z").sum())


def polars_classes(frame: Any) -> Any:
    import polars as pl

    parts = []
    for j in range(CLASSES):
        bins = ((pl.col("u") * BINS).ceil() - 1).clip(0).cast(pl.Int32).alias("bin")
        rows = frame.select(u=pl.col(f"p{j}"), z=pl.col("y") == j)
        parts.append(rows.group_by(bins).agg(pl.len(), pl.col("u").cast(pl.Float64).sum(), pl.col("z").sum()))
    return pl.concat(parts)


# -- speed ------------------------------------------------------------------------------------------------------------


def measured(tasks: dict[str, Callable[[], Any]], rounds: int, moved: list[int]) -> dict[str, tuple[float, float, int]]:
    """Of each task the least processor seconds, the least seconds, and the bytes that came back."""
    best: dict[str, tuple[float, float, int]] = {}
    for _ in range(rounds):
        for name, task in tasks.items():
            moved.clear()
            began, used = time.perf_counter(), time.process_time()
            task()
            found = (time.process_time() - used, time.perf_counter() - began)
            old = best.get(name, (np.inf, np.inf, 0))
            best[name] = (min(found[0], old[0]), min(found[1], old[1]), sum(moved))
    return best


def watched_bytes() -> list[int]:
    """A list that gets the bytes of every result from now on."""
    from truecal.scale import sql as module

    moved: list[int] = []
    executed = module._executed

    def watched(query: Any) -> Any:
        found = executed(query)
        moved.append(found.nbytes)
        return found

    module._executed = watched  # type: ignore[assignment]  # counts the bytes of every result
    return moved


def speed(n: int, rounds: int, folder: Path | None = None) -> None:
    import ibis
    import polars as pl
    import pyarrow as pa

    import truecal as tc

    duck, bear = ibis.duckdb.connect(), ibis.polars.connect()
    frame: Any
    if folder is None:
        table = pa.table(rows_of(n))
        duck.con.register("given", table)
        duck.con.execute("CREATE TABLE predictions AS SELECT * FROM given")
        duck.con.unregister("given")
        made = pl.from_arrow(table)
        del table
        frame, tables = made.lazy(), {"DuckDB": duck.table("predictions")}
        tables["Polars"] = bear.create_table("predictions", made)
    else:
        files = write_files(folder, n)
        duck.con.execute(f"SET memory_limit = '4GB'; CREATE VIEW predictions AS SELECT * FROM read_parquet('{files}')")
        frame, tables = pl.scan_parquet(files), {"DuckDB": duck.table("predictions")}
        tables["Polars"] = bear.read_parquet(files)
    by_hand: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "DuckDB": (
            lambda: duck.con.execute(duckdb_ece()).fetchall(),
            lambda: duck.con.execute(duckdb_classes()).fetchall(),
        ),
        "Polars": (
            lambda: polars_ece(frame).collect(engine="streaming"),
            lambda: polars_classes(frame).collect(engine="streaming"),
        ),
    }
    moved = watched_bytes()
    columns: dict[str, Any] = {"label": "y", "proba": NAMES}
    uniform = columns | {"n_bins": BINS, "edges": "uniform", "losses": False}
    print(f"{n:,} rows x {CLASSES}, float32, {'in memory' if folder is None else 'parquet'}; {rounds} rounds")
    print("| engine | | processor seconds | of by hand | seconds | bytes back |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for engine, given in tables.items():

        def ours(given: Any = given, **options: Any) -> Callable[[], Any]:
            return lambda: tc.sql.evaluate(given, **options)

        tasks = {
            "ECE by hand": by_hand[engine][0],
            "ECE, `losses=False`": ours(errors=["confidence_l1"], **uniform),
            "ECE and losses, 64 blocks": ours(errors=["confidence_l1"], **uniform | {"losses": True, "id": "id"}),
            "ECE of each class by hand": by_hand[engine][1],
            "each class and ECE, `losses=False`": ours(errors=["classwise", "confidence_l1"], **uniform),
            "everything, two queries, 64 blocks": ours(id="id", **columns),
        }
        if folder is not None:
            tasks = {name: task for name, task in tasks.items() if "64 blocks" not in name}
        found = measured(tasks, rounds, moved)
        hand = 0.0
        for name, (used, seconds, size) in found.items():
            hand = hand + used if "by hand" in name else hand  # each class and ECE are two queries by hand
            ratio = "" if "by hand" in name or name.startswith("everything") else f"{used / hand:.2f}"
            back = "" if "by hand" in name else f"{size:,}"
            print(f"| {engine} | {name} | {used:.2f} | {ratio} | {seconds:.2f} | {back} |", flush=True)


# -- coverage ---------------------------------------------------------------------------------------------------------


def sums_of(y: Any, p: Any, block: Any, plan: Any) -> Any:
    """What the second query gives, by numpy."""
    import pyarrow as pa

    found: dict[str, list[Any]] = {}
    for number, part in enumerate(plan.parts()):
        if part.view == "confidence":
            both = np.column_stack([1 - p, p]) if p.ndim == 1 else p
            u, z = both.max(axis=1), (both.argmax(axis=1) == y).astype(float)
        elif part.view == "binary":
            u, z = p, y.astype(float)
        else:
            u, z = p[:, int(part.view)], (y == int(part.view)).astype(float)
        cells = len(part.cuts) + 1
        place = np.searchsorted(np.array(part.cuts), u, side="left") * 64 + block
        r = u - z
        sums = {"n": np.ones(len(u)), "outcome": z, "residual": r, "residual_sq": r * r}
        by_place = {name: np.bincount(place, values, 64 * cells) for name, values in sums.items()}
        used = by_place["n"] > 0
        where = np.flatnonzero(used)
        columns = {"part": np.full(len(where), number), "cell": where // 64, "block": where % 64}
        columns |= {name: values[used] for name, values in by_place.items()}
        columns |= {name: np.zeros(len(where)) for name in ("log_loss", "spherical", "infinite", "least")}
        for name, values in columns.items():
            found.setdefault(name, []).append(values)
    table = {name: np.concatenate(values) for name, values in found.items()}
    return pa.table(table | {"example": pa.nulls(len(table["n"]), pa.string())})


def target(u: Any, bias: Any, edges: Any) -> float:
    """E gap² given the predictions: of a cell, the mean product of the biases of two different rows."""
    cell = np.searchsorted(edges[1:-1], u, side="left")
    count = np.bincount(cell, minlength=len(edges) - 1)
    sums, own = (np.bincount(cell, x, len(count)) for x in (bias, bias * bias))
    pairs = count > 1
    return float(((sums**2 - own)[pairs] / (count[pairs] - 1)).sum() / len(u))


def coverage(draws: int) -> None:
    from truecal.core.rules import EqualWidth
    from truecal.evidence.stream_plan import StreamEntry
    from truecal.scale.sql.counted import QuerySums
    from truecal.scale.sql.expressions import number_of_block
    from truecal.scale.sql.query_plan import Counted, QueryPlan

    ids = {"0, 1, 2, ...": lambda n, rng: np.arange(n), "multiples of 64,000": lambda n, rng: 64_000 * np.arange(n)}
    ids["random 62 bits"] = lambda n, rng: rng.integers(0, 1 << 62, n)
    print(f"{draws} draws; 95% intervals of gap², test at .05; 10 bins of equal width, 64 blocks")
    print("| rows | classes | world | ids | intervals hold | test rejects |\n| ---: | ---: | --- | --- | ---: | ---: |")
    for n, k in ((1000, 2), (10_000, 2), (10_000, 5)):
        errors = ("binary",) if k == 2 else ("classwise", "confidence")
        entries = tuple(StreamEntry(name, EqualWidth(10), 10) for name in errors)
        plan = QueryPlan((Counted("m", "binary" if k == 2 else "multiclass", k, "float64", entries, False),), 64)
        for world, factor in (("calibrated", 1.0), ("too sharp by 1.3", 1.3)):
            for words, make in ids.items():
                rng = np.random.default_rng(7)
                held = rejected = 0
                for _ in range(draws):
                    z = 1.5 * rng.standard_normal((n, k))
                    chances, p = (np.exp(x) / np.exp(x).sum(axis=1, keepdims=True) for x in (z, factor * z))
                    y = (chances.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=k - 1)
                    block = number_of_block(make(n, rng), 64)
                    found = QuerySums.read(sums_of(y, p[:, 1] if k == 2 else p, block, plan), plan).evaluation(
                        0, 0.95, 0
                    )
                    gap = found.gap
                    assert gap is not None
                    if k == 2:
                        u, bias = p[:, 1], p[:, 1] - chances[:, 1]
                    else:
                        top = p.argmax(axis=1)[:, None]
                        u, bias = p.max(axis=1), (np.take_along_axis(p - chances, top, 1))[:, 0]
                    wanted = target(u, bias, np.linspace(0, 1, 11))
                    low, high = (np.sign(x) * x * x / 1e4 for x in (gap.low, gap.high))
                    held += bool(low - 1e-12 <= wanted <= high + 1e-12)
                    rejected += found.test is not None and found.test.pvalue <= 0.05
                print(f"| {n:,} | {k} | {world} | {words} | {held / draws:.3f} | {rejected / draws:.3f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=Path, help="a folder for parquet files, which are read instead of memory")
    parser.add_argument("--coverage", action="store_true")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # Ibis calls old names of its engines
    if given.coverage:
        coverage(20 if given.small else given.draws)
    else:
        speed(20_000 if given.small else given.rows, 1 if given.small else given.rounds, given.files)
