"""Compiled loops against numpy's sums, forced on small samples whose ties, ends and crowds would tell them apart."""

from __future__ import annotations

import sys
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truecal as tc
from closeness import assert_close
from truecal.core import dispatch
from truecal.core.arrays import compiled_loops
from truecal.core.dispatch import Dispatch
from truecal.sums.tabulate import whole_tables

pytest.importorskip("numba", reason="the compiled loops need numba: pip install 'truecal[fast]'")

COMPILED, PLAIN = Dispatch(compiled_reports=0), Dispatch(compiled_reports=1 << 62)
FIELDS = ("outcome", "residual", "residual_sq", "tie_variance")


def reports(rng: np.random.Generator, kind: str, n: int) -> Any:
    """One view: ties, ends of the range, everything in one bucket, and the roundings that validation lets pass."""
    near = rng.choice([1e-9, 1e-7, 3e-5], n)
    return {
        "tied": rng.integers(0, 9, n) / 8,
        "generic": rng.random(n),
        "vertex": rng.choice([0.0, 1e-9, 0.5, 1 - 1e-9, 1.0], n),
        "crowded": 0.5 + 1e-7 * rng.standard_normal(n),
        "sharp": np.where(rng.random(n) < 0.5, near * rng.random(n), 1 - near * rng.random(n)),
        "tiny": 10.0 ** rng.uniform(-44, 0, n) * (rng.random(n) < 0.8),
        "rounded": rng.choice([-1e-8, -0.0, 0.0, 1.0, 1 + 2.4e-7, 0.3], n),
    }[kind]


KINDS = ("tied", "generic", "vertex", "crowded", "sharp", "tiny", "rounded")


def assert_same_tables(sample: Any, rule: Any, ties: str, **sizes: int) -> None:
    ways = (replace(way, **sizes) for way in (COMPILED, PLAIN))
    compiled, plain = (whole_tables(sample, rule, ties, dispatch=way) for way in ways)
    for fast, slow in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(fast.count, slow.count)
        for name in FIELDS:
            got, wanted = getattr(fast, name), getattr(slow, name)
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-15 * sample.rows, err_msg=name)


@pytest.mark.heavy
@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**20),
    st.integers(1, 200),
    st.sampled_from(KINDS),
    st.lists(st.integers(1, 220), min_size=1, max_size=3),
    st.sampled_from(["average", "together"]),
    st.sampled_from([np.float32, np.float64]),
)
def test_quantile_bins_of_every_class(seed, n, kind, counts, ties, dtype):
    rng = np.random.default_rng(seed)
    p = np.column_stack([reports(rng, kind, n) for _ in range(3)]).astype(dtype)
    y = rng.choice(3, n, p=rng.dirichlet(np.ones(3)))
    assert_same_tables(tc.Classwise().sample(y, p), tc.Quantile(tuple(counts)), ties)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**20),
    st.integers(1, 200),
    st.sampled_from(KINDS),
    st.lists(st.integers(1, 220), min_size=1, max_size=3),
    st.sampled_from(["average", "together"]),
    st.sampled_from([np.float32, np.float64]),
)
def test_quantile_bins_of_one_view(seed, n, kind, counts, ties, dtype):
    rng = np.random.default_rng(seed)
    u, y = reports(rng, kind, n).astype(dtype), rng.random(n) < rng.choice([0.0, 0.1, 0.5, 0.95, 1.0])
    assert_same_tables(tc.Binary().sample(y, u), tc.Quantile(tuple(counts)), ties)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 2**20),
    st.integers(1, 60),
    st.integers(2, 40),
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0.02, 0.5]),
)
def test_intervals_of_every_class(seed, n, k, counts, dtype, sharp):
    """Reports on the edges, and nearly certain ones, whose digits must stay; threads share the rows."""
    rng = np.random.default_rng(seed)
    m = counts[0]
    p = rng.multinomial(m, np.full(k, 1 / k), size=n) / m if seed % 2 else rng.dirichlet(np.full(k, sharp), n)
    p = np.asarray(p.astype(dtype), order=rng.choice(["C", "F"]))
    y = np.where(rng.random(n) < 0.8, p.argmax(axis=1), rng.integers(0, k, n))
    sample, rule = tc.Classwise().sample(y, p), tc.EqualWidth(tuple(counts))
    assert_same_tables(sample, rule, "together", parallel_views=0)


@pytest.mark.parametrize("k", [63, 64, 65, 200])
@pytest.mark.parametrize(
    "rule", [tc.EqualWidth((10, 3, 51)), tc.EqualWidth(1), tc.Edges([0, 1e-6, 1e-5, 2e-5, 0.5, 1])]
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_intervals_of_long_rows(k, rule, dtype, rng):
    """Small entries are summed as they stand, and parts of a row with a large one are looked through: reports on edges,
    nearly certain ones, and rows that are not contiguous."""
    n = 90
    p = rng.dirichlet(np.full(k, 0.02), n)
    p[::3] = rng.multinomial(10, np.full(k, 1 / k), size=n // 3) / 10
    p[1, :], p[2, :], p[1, k - 1], p[2, 0] = 1e-9, 0.0, 1 - 1e-9, 1.0
    y = np.where(rng.random(n) < 0.5, p.argmax(axis=1), rng.integers(0, k, n))
    for laid in (p.astype(dtype), np.asfortranarray(p, dtype=dtype), np.repeat(p.astype(dtype), 2, axis=1)[:, ::2]):
        assert_same_tables(tc.Classwise().sample(y, laid), rule, "together", parallel_views=0)


@pytest.mark.parametrize("values", [(0.3,), (0.1, 0.3, 0.7), tuple(j / 20 for j in range(21)), (1 - 1e-9, 0.3)])
def test_twelve_digits_where_plain_summation_drifts(values, rng):
    """Few distinct values, of which each sum rounds the same way again and again: against exact fractions."""
    n = 100_000
    u = rng.choice(values, n)
    y = rng.random(n) < np.where(u > 0.5, 1 - (1 - u) * 0.9, u * 1.02)
    (table,) = whole_tables(tc.Binary().sample(y, u), tc.Quantile(1), "average", dispatch=COMPILED)
    residual, own = Fraction(0), Fraction(0)
    for v in sorted(set(values)):
        rows, ones = int((u == v).sum()), int(y[u == v].sum())
        residual += rows * Fraction(v) - ones
        own += (rows - ones) * Fraction(v) ** 2 + ones * (1 - Fraction(v)) ** 2
    assert abs(Fraction(float(table.residual[0, 0])) - residual) <= 1e-12 * abs(residual) + 1e-14 * n**0.5
    assert table.residual_sq is not None
    assert abs(Fraction(float(table.residual_sq[0, 0])) - own) <= 1e-13 * own


def test_few_and_many_cuts(rng):
    p = rng.dirichlet(np.full(4, 0.2), 5000).astype(np.float32)
    sample = tc.Classwise().sample(rng.integers(0, 4, 5000), p)
    for counts in ((15,), (15, 300), (4000, 7)):
        assert_same_tables(sample, tc.Quantile(counts), "average")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_two_bin_errors_over_all_cuts(kind, dtype, rng):
    """Every class and one view: few rows, more than a block of rows, all outcomes alike, and either order in memory."""
    with np.errstate(over="ignore"):
        for n in (1, 2, 7, 3000):
            p = np.column_stack([reports(rng, kind, n) for _ in range(3)]).astype(dtype)
            p = np.asarray(p, order=rng.choice(["C", "F"]))
            samples: list[tuple[Any, Any]] = [
                (tc.Classwise(), tc.Classwise().sample(rng.choice(3, n, p=[0.7, 0.3, 0.0]), p))
            ]
            for chance in (0.0, 0.1, 0.95, 1.0):
                samples.append((tc.Binary(), tc.Binary().sample(rng.random(n) < chance, p[::-1, 0])))
            for property, sample in samples:
                error = tc.CalibrationError(property, tc.TwoBin())
                assert_close(error.of(sample, COMPILED), error.of(sample, PLAIN))


@pytest.mark.parametrize("rule", [tc.Quantile((3, 7, 50)), tc.Quantile((60,)), tc.EqualWidth((10, 3, 7))])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_errors_without_their_tables(rule, norm, rng):
    """An error sums residuals alone, at several bin counts; its value is that of the whole table."""
    p = rng.integers(0, 11, (50, 4)) / 10
    y = rng.integers(0, 4, 50)
    error = tc.CalibrationError(tc.Classwise(), rule, norm)
    sample = tc.Classwise().sample(y, p)
    wanted = np.array([error.of_table(t) for t in whole_tables(sample, rule, error.ties, dispatch=PLAIN)])
    for way in (COMPILED, PLAIN, replace(COMPILED, parallel_views=0), replace(PLAIN, unsorted_cells=60)):
        assert_close(error.of(sample, way), wanted)


def streamed(y: Any, p: Any, rule: Any, division: list[int], rows_to_come: int) -> tc.Stream:
    stream = tc.stream("classwise" if p.ndim == 2 else "binary", edges=rule, blocks=7).expect(rows_to_come)
    for a, b in pairwise([0, *division, len(y)]):
        stream.update(y[a:b], p[a:b])
    return stream


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**20),
    st.integers(2, 300),
    st.sampled_from(["tied", "generic", "vertex", "crowded", "sharp", "tiny"]),
    st.integers(1, 40),
    st.sampled_from([np.float32, np.float64]),
    st.booleans(),
)
def test_streams_over_fixed_intervals(seed, n, kind, m, dtype, classes):
    """Edges equal to reports, crowded together and repeated; rows in batches, in either order of memory."""
    rng = np.random.default_rng(seed)
    u = reports(rng, kind, n).astype(dtype)
    p = np.asarray(np.column_stack([u, 1 - u]), order=rng.choice(["C", "F"])) if classes else u
    y = rng.integers(0, 2, n)
    inner = np.sort(rng.choice([*u, *rng.random(5)], (2, m - 1)), axis=1)
    edges = np.column_stack([np.zeros(2), inner, np.ones(2)])
    rule = tc.Edges(edges if classes else np.unique(edges[0]))
    division = sorted(rng.integers(0, n + 1, 2).tolist())
    fast, plain = (streamed(y, p, rule, division, rows) for rows in (1 << 60, 0))
    mine, theirs = (stream.tally_of(stream.entries[0]) for stream in (fast, plain))
    np.testing.assert_array_equal(mine.table.count, theirs.table.count)
    for name in ("outcome", "residual", "residual_sq"):
        got, wanted = getattr(mine.whole(), name), getattr(theirs.whole(), name)
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-15 * n, err_msg=name)
    assert mine.blocks is not None and theirs.blocks is not None
    np.testing.assert_allclose(mine.blocks.residual, theirs.blocks.residual, rtol=1e-12, atol=1e-15 * n)
    np.testing.assert_allclose(mine.blocks.sums, theirs.blocks.sums, rtol=1e-12)


def test_a_stream_in_chunks(rng):
    """More rows than are looked up, or summed, at a time."""
    n = (1 << 16) + 3000
    u = rng.random(n).astype(np.float32)
    y = rng.random(n) < u
    rule = tc.Edges(np.unique([0, *rng.random(200), 1]))
    fast, plain = (streamed(y, u, rule, [5], rows) for rows in (1 << 60, 0))
    mine, theirs = (stream.tally_of(stream.entries[0]) for stream in (fast, plain))
    np.testing.assert_array_equal(mine.table.count, theirs.table.count)
    own, wanted = (one.whole().residual_sq for one in (mine, theirs))
    assert mine.blocks is not None and theirs.blocks is not None and own is not None and wanted is not None
    np.testing.assert_allclose(own, wanted, rtol=1e-13)
    np.testing.assert_allclose(mine.blocks.residual, theirs.blocks.residual, atol=1e-10)


def test_threads_share_the_classes_of_a_batch(rng, monkeypatch):
    monkeypatch.setattr(dispatch, "THREADS", 3)
    n, k = 70_000, 5
    p = rng.dirichlet(np.ones(k), n).astype(np.float32)
    y = rng.integers(0, k, n)
    for rule in (tc.EqualWidth(7), tc.Edges(np.sort(np.column_stack([np.zeros(k), rng.random((k, 9)), np.ones(k)])))):
        fast, plain = (streamed(y, p, rule, [1000], rows) for rows in (1 << 60, 0))
        mine, theirs = (stream.tally_of(stream.entries[0]) for stream in (fast, plain))
        np.testing.assert_array_equal(mine.table.count, theirs.table.count)
        np.testing.assert_allclose(mine.whole().residual, theirs.whole().residual, rtol=1e-12, atol=1e-10)
        assert mine.blocks is not None and theirs.blocks is not None
        np.testing.assert_allclose(mine.blocks.residual, theirs.blocks.residual, atol=1e-10)
        np.testing.assert_allclose(mine.blocks.sums, theirs.blocks.sums, rtol=1e-12)


@pytest.mark.parametrize("kind", ["tied", "generic", "crowded", "tiny"])
def test_many_classes_with_edges_of_their_own(rng, kind):
    """Their tables are smaller, so that more edges share a bucket: memory goes with the bins."""
    n, k, m = 300, 70, 15
    u = reports(rng, kind, n * (k - 1)).clip(0, 1).reshape(n, k - 1)
    p = np.column_stack([u, np.ones(n)])
    p /= p.sum(axis=1, keepdims=True)
    y = rng.integers(0, k, n)
    inner = np.sort(rng.permuted(p, axis=0)[: m - 1], axis=0).T
    edges = np.column_stack([np.zeros(k), inner, np.ones(k)])
    fast, plain = (streamed(y, p, tc.Edges(edges), [100], rows) for rows in (1 << 60, 0))
    mine, theirs = (stream.tally_of(stream.entries[0]) for stream in (fast, plain))
    np.testing.assert_array_equal(mine.table.count, theirs.table.count)
    np.testing.assert_allclose(mine.whole().residual, theirs.whole().residual, rtol=1e-12, atol=1e-13)
    tables = compiled_loops().interval_tables(edges)
    assert tables.starts.nbytes < 2**8 * edges.size


def test_a_refused_batch_leaves_no_trace_of_any_error(rng):
    """The last of several edges does not cover it; the first have not counted it."""
    p = rng.dirichlet([1, 1, 1], 50)
    given = {"classwise": [0, 0.5, 1], "confidence": [0.3, 0.5, 0.9]}
    stream = tc.stream(("classwise", "confidence"), edges=given).expect(1 << 60)
    good = p[p.max(axis=1) < 0.9]
    stream.update(np.zeros(len(good), int), good)
    before = stream.tally_of(stream.entry("classwise"))
    assert before.blocks is not None
    kept = before.blocks.residual.copy()
    with pytest.raises(ValueError, match="do not cover the prediction"):
        stream.update([0, 1], [[0.2, 0.5, 0.3], [0.95, 0.05, 0.0]])
    after = stream.tally_of(stream.entry("classwise"))
    assert after.blocks is not None and stream.rows == len(good)
    np.testing.assert_array_equal(after.blocks.residual, kept)


def test_compiled_code_that_cannot_be_kept_is_compiled_anyway(monkeypatch, tmp_path):
    numba = pytest.importorskip("numba")
    module = compiled_loops()
    folder = tmp_path / "kept"
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))

    def twice(x):
        return 2 * x

    entry = module.entry(twice)
    for place in sorted(folder.rglob("*"), reverse=True):
        place.rmdir()
    folder.rmdir()
    folder.write_text("no folder any more")
    assert entry(3) == 6
    space: dict[str, Any] = {}
    exec("def thrice(x):\n    return 3 * x", space)  # a function of no file, beside which nothing can be kept
    assert module.entry(space["thrice"])(3) == 9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suffix", "damage"),
    [("nbi", lambda kept: b""), ("nbi", lambda kept: b"garbage"), ("nbc", lambda kept: kept[: len(kept) // 2])],
    ids=["empty index", "garbage in the index", "truncated code"],
)
def test_damaged_code_in_the_cache_is_compiled_again(monkeypatch, tmp_path, suffix, damage):
    numba = pytest.importorskip("numba")
    module = compiled_loops()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    def twice(x):
        return 2 * x

    assert module.entry(twice)(3) == 6
    (kept,) = tmp_path.rglob(f"*.{suffix}")
    kept.write_bytes(damage(kept.read_bytes()))
    again = module.entry(twice)
    with pytest.warns(RuntimeWarning, match="compiled code in numba's cache, .*, is damaged .* and was compiled again"):
        assert again(3) == 6
    assert again(4) == 8  # said once
    assert module.entry(twice)(5) == 10  # and the next process finds nothing damaged


def test_a_mistake_in_compiled_code_is_raised():
    module = compiled_loops()

    def fails(x):
        raise ValueError("as it is")

    with pytest.raises(ValueError, match="as it is"):
        module.entry(fails)(3)


def test_without_numba_everything_is_measured_by_numpy(monkeypatch, rng):
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.delitem(sys.modules, "truecal.sums.compiled", raising=False)
    compiled_loops.cache_clear()
    try:
        assert compiled_loops() is None
        error = tc.ERRORS["binary"]
        sample = error.read(rng.random(50) < 0.5, rng.random(50))
        assert error.of(sample, COMPILED) == error.of(sample, PLAIN)
    finally:
        compiled_loops.cache_clear()
