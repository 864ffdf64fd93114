"""Two queries on real engines give the numbers of memory, over the same edges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from sql_engines import QUICK, Make, tables_in, world

ibis = pytest.importorskip("ibis")
pa = pytest.importorskip("pyarrow")
from truecal.scale.sql.counted import QuerySums  # noqa: E402  # after importorskip
from truecal.scale.sql.expressions import number_of_block  # noqa: E402  # after importorskip

sql: Any = tc.sql  # what a test hands in need not be of the right type
SERVERS = (pytest.mark.heavy, pytest.mark.filterwarnings("ignore"))  # clients call old names of pandas and others
ENGINES = [*QUICK, *(pytest.param(name, marks=SERVERS) for name in ("postgres", "spark"))]


@pytest.fixture(scope="module", params=ENGINES)
def make(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Makes tables in an engine, whose name is its attribute `engine`."""
    with tables_in(request.param) as tables:
        made: Any = tables
        made.engine = request.param
        yield made


@pytest.fixture
def duck() -> Iterator[Make]:
    with tables_in("duckdb") as made:
        yield made


def wide(y: Any, p: Any, **more: Any) -> dict[str, Any]:
    return {"id": np.arange(len(y)) * 7 - 40, "y": y, **{f"p{j}": p[:, j] for j in range(p.shape[1])}, **more}


def names(k: int) -> list[str]:
    return [f"p{j}" for j in range(k)]


def by_block(y: Any, p: Any, blocks: Any, edges: Any, errors: Any, **options: Any) -> Any:
    """What one stream for each block counts, put together as blocks of one."""
    streams = []
    for b in range(64):
        stream = tc.stream(errors, edges=edges, blocks=0)
        rows = blocks == b
        stream.update(y[rows], p[rows], **{key: value[rows] for key, value in options.items()})
        streams.append(stream)
    return streams


def compare_numbers(found: Any, wanted: Any, intervals: bool = False) -> None:
    """Everything that does not depend on the blocks is that of a stream in memory."""
    assert (found.kind, found.n_samples, found.n_classes) == (wanted.kind, wanted.n_samples, wanted.n_classes)
    assert found.error_names == wanted.error_names
    for row, other in zip(found.errors, wanted.errors, strict=True):
        assert (row.error, row.n_bins, row.headline) == (other.error, other.n_bins, other.headline)
        for field in ("value", "loss", "U", "score"):
            assert_close(getattr(row, field), getattr(other, field), 1, where=f"{row.error} {field}")
        assert row.gap is None or abs(row.gap * abs(row.gap) - other.gap * abs(other.gap)) < 1e-12 * 1e4
    for loss, other in zip(found.losses, wanted.losses, strict=True):
        assert_close((loss.name, loss.value), (other.name, other.value), 1)
    assert_close(found.direction.gap, wanted.direction.gap, 1)
    assert found.direction.word == wanted.direction.word
    for name, diagram in wanted.reliability.items():
        for field in ("count", "mean_report", "mean_outcome"):
            assert_close(getattr(found.reliability[name], field), getattr(diagram, field), 1)


def edges_from(found: Any, errors: Any) -> dict[str, Any]:
    """The edges that were used, for a stream in memory."""
    return {name: found.reliability[name].table.rule for name in errors if name in found.reliability}


def stream_of(found: Any, y: Any, p: Any, **weights: Any) -> Any:
    """A stream in memory over the same edges, and the usual ECE over its own."""
    edges = edges_from(found, found.error_names)
    edges |= {row.error: tc.EqualWidth(row.n_bins) for row in found.errors if row.error.endswith("_l1")}
    stream = tc.stream(found.error_names, edges=edges)
    stream.update(y, p, **weights)
    return stream.result()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_many_classes(make: Any, dtype: Any):
    y, p = world(dtype=dtype)
    if make.engine == "sqlite":
        p = p.astype(np.float64)  # it has no other
    table = make(wide(y, p), f"many_{np.dtype(dtype).name}")
    found = sql.evaluate(table, label="y", proba=names(4), id="id")
    assert found.error_names == ("classwise", "confidence", "confidence_l1")
    compare_numbers(found, stream_of(found, y, p))
    assert_close(found.ece, tc.ece(y, p), 1)
    assert 0 < found.gap.low < found.gap.points < found.gap.high
    assert found.test is not None and found.test.pvalue <= 0.001 and "64 blocks of rows" in found.test.name
    assert any("flips the signs of the residuals of 64 blocks" in note for note in found.notes)
    counts = found.reliability["classwise"].table.count
    assert counts.shape == (4, 20) and counts.min() > 0.5 * 3000 / 20 and counts.max() < 1.5 * 3000 / 20


@pytest.mark.slow
@pytest.mark.parametrize("two", [False, True])
def test_two_classes(make: Any, two: bool):
    y, p = world(2000, 2)
    table = make(wide(y, p), f"two_{two}")
    found = sql.evaluate(table, label="y", proba=names(2) if two else "p1", id="id", n_bins=(5, 12))
    assert found.kind == "binary" and [row.n_bins for row in found.rows("binary")] == [5, 12]
    edges = {"confidence_l1": tc.EqualWidth(5)}
    again = sql.evaluate(table, label="y", proba="p1", errors=["binary", "confidence_l1"], n_bins=8, edges="uniform")
    stream = tc.stream(("binary", "confidence_l1"), n_bins=8, edges="uniform")
    stream.update(y, p[:, 1])
    compare_numbers(again, stream.result())
    assert again.test is None and any("pass id=" in note for note in again.notes)
    assert again.gap.note.startswith("left out") and edges


@pytest.mark.slow
def test_the_top_class_alone(make: Any):
    y, p = world(2000, 3)
    top, confidence = p.argmax(axis=1), p.max(axis=1)
    right = [bool(x) for x in top == y]
    table = make({"id": np.arange(2000), "y": y, "top": top, "c": confidence, "right": right}, "top_class")
    found = sql.evaluate(table, label="y", predicted="top", confidence="c", id="id", edges="uniform", n_bins=15)
    stream = tc.stream(("top_label", "top_label_l1"), edges="uniform", n_bins=15)
    stream.update(top == y, confidence)
    compare_numbers(found, stream.result())
    again = sql.evaluate(table, correct="right", confidence="c", id="id", edges="uniform", n_bins=15)
    assert_close(again.score, found.score)
    assert_close(again.gap.high, found.gap.high)


@pytest.mark.slow
def test_weights_and_subgroups(make: Any):
    y, p = world(2500, 3)
    rng = np.random.default_rng(1)
    w, site = rng.exponential(size=2500), rng.choice(["x", "it's", 'a"b'], 2500)
    w[rng.random(2500) < 0.1] = 0
    table = make(wide(y, p, w=w, site=site.tolist(), day=rng.integers(0, 2, 2500)), "weighted")
    found = sql.evaluate(table, label="y", proba=names(3), id="id", weight="w", by="site", n_bins=10)
    compare_numbers(found, stream_of(found, y, p, sample_weight=w))
    assert list(found.subgroups) == ['a"b', "it's", "x"]
    for key, part in found.subgroups.items():
        rows = site == key
        compare_numbers(part, stream_of(part, y[rows], p[rows], sample_weight=w[rows]))
        assert part.standing is not None
    both = sql.evaluate(table, label="y", proba=names(3), id="id", by=["site", "day"], edges="uniform", n_bins=10)
    assert list(both.subgroups) == ["day=0", "day=1", 'site=a"b', "site=it's", "site=x"]
    assert sum(part.n_samples for key, part in both.subgroups.items() if key.startswith("day")) == 2500


@pytest.mark.slow
def test_blocks_are_those_of_a_hash_of_the_id(make: Any, monkeypatch: pytest.MonkeyPatch):
    y, p = world(3000, 3)
    rows = wide(y, p)
    table = make(rows, "hashed")
    kept: list[Any] = []
    stream = QuerySums.stream

    def keep(self: QuerySums, number: int) -> Any:
        kept.append(stream(self, number))
        return kept[-1]

    monkeypatch.setattr(QuerySums, "stream", keep)
    found = sql.evaluate(table, label="y", proba=names(3), id="id", edges="uniform", n_bins=10)
    block = number_of_block(rows["id"], 64)
    sizes = np.bincount(block, minlength=64)
    assert sizes.min() > 20 and sizes.max() < 80
    edges = {name: tc.EqualWidth(10) for name in found.error_names}
    for b, one in enumerate(by_block(y, p, block, edges, found.error_names)):
        for entry in kept[0].entries:
            blocks, alone = kept[0].tally_of(entry).blocks, one.tally_of(entry).table
            assert_close(blocks.residual[b], alone.residual, 1)
            assert_close(blocks.of("weight")[b], alone.totals.weight)
            assert_close(blocks.of("loss")[b], alone.loss_total, 1)
            assert_close(blocks.of("wrong")[b], alone.totals.wrong)
        assert_close(kept[0].losses.sums[:, b], one.losses.sums[:, 0], 1)


@pytest.mark.slow
def test_several_models_in_one_pass(make: Any):
    y, p = world(2000, 3)
    q = world(2000, 3, factor=1.0)[1]
    columns = wide(y, p) | {f"q{j}": q[:, j] for j in range(3)}
    table = make(columns, "models")
    models = {"sharp": names(3), "honest": [f"q{j}" for j in range(3)]}
    found = sql.compare(table, models, label="y", id="id", edges="uniform", n_bins=10)
    wanted = {}
    for name, proba in (("sharp", p), ("honest", q)):
        stream = tc.stream(found.error_names, edges={e: tc.EqualWidth(10) for e in found.error_names})
        stream.update(y, proba)
        wanted[name] = stream.result()
        compare_numbers(found.evaluations[name], wanted[name])
    assert found.verdict.best == ("honest",) and found.verdict.rejected == ("sharp",)
    pair = found.pair("sharp", "honest")
    assert pair.loss.low > 0 and pair.gap_sq.low > 0


@pytest.mark.slow
def test_rows_that_cannot_be_measured(make: Any):
    """Every kind of them is counted in one query, with the id of a row."""
    y, p = world(300, 3)
    columns: dict[str, list[Any]] = {f"p{j}": p[:, j].tolist() for j in range(3)}
    labels: list[Any] = y.tolist()
    weights: list[Any] = [1.0] * 300
    labels[10] = labels[11] = None
    columns["p1"][20] = None
    columns["p1"][30] = columns["p0"][31] = float("nan")
    columns["p0"][32], columns["p1"][32], columns["p2"][32] = 1.0, -0.5, 0.5
    columns["p2"][40] += 0.01
    labels[50], labels[51] = 3, -1
    weights[60], weights[61] = -1.0, None
    rows = {"id": np.arange(300), "y": pa.array(labels, pa.int64()), "w": pa.array(weights, pa.float64())}
    table = make(rows | {name: pa.array(values, pa.float64()) for name, values in columns.items()}, "faults")
    null, nan = ("3 a prediction is NULL", 1) if make.engine in ("sqlite", "spark") else ("1 a prediction is NULL", 3)
    for options, words in (
        ({"weight": "w"}, "in 2 the weight is NULL, NaN, negative or above 1e150, such as the row with id '60'"),
        ({}, "in 2 the label is NULL, such as the row with id '10'"),
    ):
        with pytest.raises(ValueError, match=r"^\d+ rows cannot be measured: ") as raised:
            sql.evaluate(table, label="y", proba=names(3), id="id", edges="uniform", errors=["confidence"], **options)
        said = str(raised.value)
        assert (
            words in said and f"in {null}, such as the row with id '20'" in said
        )  # SQLite and Ibis over Spark read NaN as NULL
        assert f"in {nan} a prediction is NaN or outside [0, 1], such as the row with id '3" in said
        assert "in 1 the predictions do not sum to 1, such as the row with id '40'" in said
        assert "in 2 the label is none of the classes, such as the row with id '50'" in said
    assert said.startswith("9 rows")


@pytest.mark.slow
def test_text_as_labels_and_ids(make: Any):
    y, p = world(1500, 3)
    classes = ["o'clock", "b", "c"]
    rows = {"name": [f"row {i}" for i in range(1500)], "y": [classes[j] for j in y]}
    table = make(rows | {f"p{j}": p[:, j] for j in range(3)}, "texts")
    options = {"label": "y", "proba": names(3), "labels": classes, "edges": "uniform", "n_bins": 10}
    if make.engine == "sqlite":
        found = sql.evaluate(table, **options)
    else:
        found = sql.evaluate(table, id="name", **options)
        assert found.gap.low > 0
    stream = tc.stream(found.error_names, edges={e: tc.EqualWidth(10) for e in found.error_names})
    stream.update(y, p)
    compare_numbers(found, stream.result())
    with pytest.raises(ValueError, match=r"rows cannot be measured: in \d+ the label is none of the classes"):
        sql.evaluate(table, **options | {"labels": ["o'clock", "b", "d"]})


@pytest.mark.slow
def test_hostile_names(make: Any):
    y, p = world(500, 3)
    bad = ['p"; DROP TABLE x; --', "p'1", "p 2"]
    label, key = 'y") OR 1=1 --', "id; SELECT"
    if make.engine == "spark":
        bad, label, key = ["p'; DROP TABLE x; --", 'p"1', "p 2"], "y') OR 1=1 --", "id SELECT"
    columns = {key: np.arange(500), label: y} | {bad[j]: p[:, j] for j in range(3)}
    table = make(columns, "hostile" if make.engine == "spark" else 'pre"d; DROP TABLE x')
    found = sql.evaluate(table, label=label, proba=bad, id=key, edges="uniform", n_bins=10)
    stream = tc.stream(found.error_names, edges={e: tc.EqualWidth(10) for e in found.error_names})
    stream.update(y, p)
    compare_numbers(found, stream.result())


@pytest.mark.slow
def test_array_columns(make: Any):
    if make.engine == "sqlite":
        pytest.skip("SQLite has no arrays")
    y, p = world(800, 3)
    table = make({"id": np.arange(800), "y": y, "p": pa.array(p.tolist(), pa.list_(pa.float64()))}, "arrays")
    found = sql.evaluate(table, label="y", proba="p", id="id", edges="uniform", n_bins=10)
    stream = tc.stream(found.error_names, edges={e: tc.EqualWidth(10) for e in found.error_names})
    stream.update(y, p)
    compare_numbers(found, stream.result())
    rows = p.tolist()
    rows[5] = [0.5, 0.5]
    table = make({"id": np.arange(800), "y": y, "p": pa.array(rows, pa.list_(pa.float64()))}, "ragged")
    with pytest.raises(ValueError, match="in 1 the array has another number of classes, such as the row with id '5'"):
        sql.evaluate(table, label="y", proba="p", id="id", n_classes=3)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m", [15, *(pytest.param(m, marks=pytest.mark.heavy) for m in (3, 10, 49))])
def test_predictions_on_edges_are_in_the_bins_of_memory(make, dtype, m):
    """0, 1, every edge j/m in its type, and the numbers next to it: engines that cut by arithmetic agree too."""
    if make.engine not in QUICK or (make.engine, dtype) == ("sqlite", "float32"):
        pytest.skip("the text of these queries is that of DuckDB, and SQLite has no single precision")
    edges = (np.arange(m + 1) / m).astype(dtype)
    near = [np.nextafter(edges[1:-1], end, dtype=dtype) for end in (np.float64(0).astype(dtype), edges[-1])]
    u = np.concatenate([edges, *near, edges[:1]])
    p = np.column_stack([u, (1 - u).astype(dtype), np.zeros(len(u), dtype=dtype)])
    y = np.arange(len(u)) % 3
    errors = ["classwise", "confidence"]
    table = make(wide(y, p), name=f"edges_{m}_{dtype}")
    found = sql.evaluate(table, label="y", proba=names(3), id="id", errors=errors, n_bins=m, edges="uniform")
    stream = tc.stream(errors, n_bins=m, edges="uniform")
    stream.update(y, p)
    for name in errors:
        mine, theirs = (x.reliability[name].table for x in (found, stream.result()))
        assert mine.count.tolist() == theirs.count.tolist(), (name, dtype)
        assert_close(mine.residual, theirs.residual, 1)
