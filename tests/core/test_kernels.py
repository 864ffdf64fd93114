"""Fast paths against the plain ones, on inputs that would separate them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truecal as tc
from closeness import assert_close
from truecal.core import row_kernels
from truecal.core.dispatch import Dispatch
from truecal.sums import plain as cpu


def agree(metric, y, p, forced):
    """The forced way gives the same numbers as the usual one, and as the general way that weights of 1 take."""
    sample = metric.read(y, p)
    n = sample.rows
    np.testing.assert_allclose(metric.of(sample, forced), metric.of(sample), rtol=1e-12, atol=1e-16 / n)
    general = metric.parts(metric.read(y, p, sample_weight=np.ones(n)))
    for way in (forced, Dispatch()):
        for fast, plain in zip(metric.parts(sample, way), general, strict=True):
            np.testing.assert_allclose(fast, plain, rtol=1e-9, atol=1e-13 * plain.loss + 1e-25, equal_nan=True)


@pytest.mark.slow
@settings(max_examples=150)
@given(
    st.integers(0, 2**20),
    st.integers(1, 200),
    st.sampled_from(["tied", "generic", "vertex", "crowded"]),
    st.lists(st.integers(1, 220), min_size=1, max_size=3),
    st.sampled_from(["average", "together"]),
    st.sampled_from([np.float32, np.float64]),
)
def test_sorted_values_give_what_cells_give(seed, n, kind, counts, ties, dtype):
    """Ties across cuts, values at both ends, everything nearly equal."""
    rng = np.random.default_rng(seed)
    u = {
        "tied": rng.integers(0, 9, n) / 8,
        "generic": rng.random(n),
        "vertex": rng.choice([0.0, 1e-9, 0.5, 1 - 1e-9, 1.0], n),
        "crowded": 0.3 + 1e-6 * rng.random(n),
    }[kind].astype(dtype)
    y = rng.random(n) < rng.choice([0.1, 0.5, 0.95])
    metric = tc.CalibrationError(tc.Binary(), tc.Quantile(tuple(counts), ties=ties))
    agree(metric, y, u, Dispatch())


@settings(max_examples=60)
@given(
    st.integers(0, 2**20),
    st.integers(1, 40),
    st.sampled_from(["tied", "generic", "vertex"]),
    st.sampled_from(
        [
            tc.Quantile((2, 7, 60), ties="average"),
            tc.Quantile((2, 7, 60), ties="together"),
            tc.EqualWidth((5, 3000)),
            tc.TwoBin(),
            tc.Poisson(0.1),
        ]
    ),
)
def test_views_of_few_rows_are_summed_together(seed, n, kind, rule):
    rng = np.random.default_rng(seed)
    p = {
        "tied": rng.integers(1, 4, (n, 5)).astype(float),
        "generic": rng.random((n, 5)),
        "vertex": rng.choice([1e-9, 1.0, 1e9], (n, 5)),
    }[kind]
    y = rng.integers(0, 5, n)
    agree(tc.CalibrationError(tc.Classwise(), rule), y, p / p.sum(axis=1, keepdims=True), Dispatch(few_rows=0))


@given(st.integers(0, 2**20), st.integers(1, 60), st.integers(2, 60), st.booleans())
def test_the_running_maximum_is_argmax(seed, n, k, tied):
    rng = np.random.default_rng(seed)
    p = rng.integers(0, 3, (n, k)).astype(np.float32) if tied else rng.random((n, k))
    index, value = row_kernels.top_class_and_value(p)
    assert (index == p.argmax(axis=1)).all() and (value == p.max(axis=1)).all()


def test_the_running_maximum_crosses_its_blocks(monkeypatch, rng):
    monkeypatch.setattr(row_kernels, "_COLUMN_ROWS", 7)
    p = rng.random((100, 5))
    assert (row_kernels.top_class(p) == p.argmax(axis=1)).all()


@given(st.integers(0, 2**20), st.integers(1, 40), st.integers(2, 6), st.integers(1, 30))
def test_fixed_cells_without_a_sort(seed, n, k, m):
    """Against the general table, which assigns every entry to its interval."""
    rng = np.random.default_rng(seed)
    p = rng.multinomial(m, np.full(k, 1 / k), size=n) / m if seed % 2 else rng.dirichlet(np.full(k, 0.3), n)
    y = rng.integers(0, k, n)
    metric = tc.CalibrationError(tc.Classwise(), tc.EqualWidth(m))
    plain = metric.tables(y, p, sample_weight=np.ones(n))[0]
    fast = metric.tables(y, p)[0]
    for field in ("count", "outcome", "residual", "residual_sq"):
        np.testing.assert_allclose(getattr(fast, field), getattr(plain, field), rtol=1e-12, atol=1e-14)


def test_runs_of_a_sum_may_be_empty_and_end_at_the_end():
    x = np.arange(5.0)
    assert cpu.run_sums(x, np.array([0, 2, 2, 5, 5])).tolist() == [1.0, 0.0, 9.0, 0.0, 0.0]


@pytest.mark.parametrize("theta", [1e-12, 1e-3, 0.1, 10.0, 1e6])
def test_the_decayed_prefix_is_its_recursion(theta, rng):
    u = np.sort(rng.random(50))
    s = rng.standard_normal(50)
    carried, total = 0.0, 0.0
    for j in range(50):
        if j:
            carried = (carried + s[j - 1]) * np.exp(-(u[j] - u[j - 1]) / theta)
        total += s[j] ** 2 + 2 * s[j] * carried
    assert tc.Poisson(theta).form(u, s[None, :], None)[0] == pytest.approx(total, rel=1e-12)


SIZES = [5_000, 40_000, 300_000]


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("values", [(0.3,), (0.1, 0.3, 0.7), tuple(j / 20 for j in range(21)), (1 - 1e-9, 0.3)])
def test_twelve_digits_at_every_size(n, values, rng):
    """Reports with few distinct values, where plain summation drifts: against exact fractions per value."""
    u = rng.choice(values, n)
    y = rng.random(n) < np.where(u > 0.5, 1 - (1 - u) * 0.9, u * 1.02)
    levels = sorted(set(values))
    sums = {v: int((u == v).sum()) * Fraction(v) - int(y[u == v].sum()) for v in levels}
    loss = (
        sum(int((u == v).sum()) * Fraction(v) ** 2 + int(y[u == v].sum()) * (1 - 2 * Fraction(v)) for v in levels) / n
    )
    cells: dict[int, Fraction] = {}
    edges = [float(j / 10) for j in range(11)]
    for v in levels:
        cell = next(j for j in range(1, 11) if v <= edges[j])
        cells[cell] = cells.get(cell, Fraction(0)) + sums[v]
    expected = {
        "uniform": sum(s * s for s in cells.values()),
        "exact": sum(s * s for s in sums.values()),
        "two_bin": sum(sums[a] * sums[b] * (1 - abs(Fraction(a) - Fraction(b))) for a in levels for b in levels),
        "one": sum(sums.values()) ** 2,
    }
    got = {
        "uniform": tc.binary_error(y, u, strategy="uniform", n_bins=10),
        "exact": tc.binary_error(y, u, strategy="exact"),
        "two_bin": tc.binary_error(y, u, strategy="two_bin"),
        "one": tc.binary_error(y, u, n_bins=1),
    }
    p = np.column_stack([1 - u, u])
    if (1 - p[:, 0] == u).all():  # both columns exact, so that both classes have the same sums
        got["classwise"] = tc.classwise_error(y, p, strategy="uniform", n_bins=1)
        expected["classwise"] = expected["one"]
    for name, value in got.items():
        exact = float(expected[name] / Fraction(n) ** 2)
        assert abs(value - exact) <= 1e-12 * max(exact, float(loss) / n), name


def test_many_fixed_cells_take_the_sorted_path(rng):
    """Whichever way the cells are found, the tables are the same."""
    p = rng.dirichlet(np.full(5, 0.3), 300)
    y = rng.integers(0, 5, 300)
    rule = tc.EqualWidth((3, 40, 7))
    agree(tc.CalibrationError(tc.Classwise(), rule), y, p, Dispatch(unsorted_cells=60))
    metric = tc.CalibrationError(tc.Classwise(), rule, "l1")
    sample = metric.read(y, p)
    np.testing.assert_allclose(metric.of(sample, Dispatch(unsorted_cells=60)), metric.of(sample), rtol=1e-12)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_intervals_of_one_view_by_row_and_by_order(norm, dtype, rng):
    """Reports on the edges, such as 0.7 with ten bins, ends of the range, ties, and more bins than rows."""
    metric = tc.CalibrationError(tc.Binary(), tc.EqualWidth((10, 1, 7, 200)), norm)
    for chance in (0.0, 0.3, 0.9, 1.0):
        u = np.concatenate([np.arange(11) / 10, rng.random(40), [0.0, 1.0, 1e-7, 0.7, 0.7]]).astype(dtype)[::-1]
        sample = metric.read(rng.random(len(u)) < chance, u)
        by_row, by_order = (metric.of(sample, Dispatch(sorted_rows=rows)) for rows in (1 << 20, 0))
        assert_close(by_order, by_row)


def test_more_bins_than_rows_cost_no_more_than_rows(rng):
    p = rng.dirichlet(np.ones(3), 20)
    y = rng.integers(0, 3, 20)
    for call in (tc.classwise_error, tc.confidence_error, tc.full_error):
        assert call(y, p, n_bins=10**8) == pytest.approx(call(y, p, n_bins=20), rel=1e-12)
    assert tc.full_error(y, p, strategy="kd", n_bins=10**6) == pytest.approx(tc.brier(y, p) / 20, rel=1e-12)


def test_runs_of_a_formula_in_blocks_are_those_of_its_values(monkeypatch, rng):
    x, starts = rng.random(40), np.array([0, 3, 3, 11, 12, 30, 40, 40])
    whole = np.stack([cpu.run_sums(x, starts), cpu.run_sums(x * x, starts)])
    for block in (1, 2, 7, 40, 100):
        monkeypatch.setattr(cpu, "_RUN_ROWS", block)
        np.testing.assert_allclose(cpu.run_sums_of(lambda u: np.stack([u, u * u]), x, starts), whole, rtol=1e-14)


@pytest.mark.parametrize("block", [1, 2, 5])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", [tc.TwoBin(), tc.Poisson(0.07), tc.Poisson(1e-9)], ids=repr)
def test_points_in_blocks_are_all_points_at_once(monkeypatch, rule, weighted, block, rng):
    """Ties reach over the ends of blocks, and one value fills several of them."""
    u = np.concatenate([rng.random(20).round(1), np.full(11, 0.4), [0.0, 1.0]])
    y = rng.random(len(u)) < u
    w = rng.uniform(0.5, 2.0, len(u)) if weighted else None
    error = tc.CalibrationError(tc.Binary(), rule)
    whole = error.parts(error.read(y, u, sample_weight=w))[0]
    for module in ("core.averages", "sums.building"):
        monkeypatch.setattr(f"truecal.{module}.FORM_BLOCK", block)
    assert error.parts(error.read(y, u, sample_weight=w))[0] == pytest.approx(whole, rel=1e-12)
    assert error(y, u, sample_weight=w) == pytest.approx(whole.error, rel=1e-12)
