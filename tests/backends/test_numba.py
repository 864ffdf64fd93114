"""Compiled loops against numpy's sums, forced on small samples whose ties, ends and crowds would tell them apart."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import truecal as tc
from truecal.backends.numpy import Dispatch
from truecal.core.tabulate import whole_tables

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


def assert_same_tables(sample: Any, rule: Any, ties: str) -> None:
    compiled, plain = (whole_tables(sample, rule, ties, dispatch=way) for way in (COMPILED, PLAIN))
    for fast, slow in zip(compiled, plain, strict=True):
        np.testing.assert_array_equal(fast.count, slow.count)
        for name in FIELDS:
            got, wanted = getattr(fast, name), getattr(slow, name)
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-15 * sample.rows, err_msg=name)


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


def test_more_cuts_take_finer_buckets(rng):
    p = rng.dirichlet(np.full(4, 0.2), 5000).astype(np.float32)
    sample = tc.Classwise().sample(rng.integers(0, 4, 5000), p)
    for counts in ((15,), (15, 300), (4000, 7)):
        assert_same_tables(sample, tc.Quantile(counts), "average")
