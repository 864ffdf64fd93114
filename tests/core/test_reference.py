"""Every public error against its definition as plain loops, to twelve digits."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference as ref
import truecal
from closeness import assert_close
from strategies import bin_counts, multiclass
from truecal.core.dispatch import Dispatch
from truecal.core.strategies import read_rule

tc: Any = truecal  # what a test hands in need not be of the right type

EXAMPLES = settings(max_examples=100)
TIES = st.sampled_from(["average", "together", "row"])


def loss_over_n(residuals, weights, views: int = 1) -> float:
    w = ref.exact(weights) if weights is not None else [Fraction(1)] * len(residuals)
    total = sum((a * a * sum(x * x for x in r) for a, r in zip(w, residuals, strict=True)), Fraction(0))
    return float(total / sum(w) ** 2 / views)


def scalar_chance(reports, strategy: str, m: int, ties: str):
    if strategy == "quantile":
        if ties == "average":
            return ref.quantile_average(reports, m)
        return ref.same_bin(ref.quantile_bins(reports, m, ties))
    if strategy == "uniform":
        return ref.same_bin(ref.interval_bins(reports, ref.edges_of(m, reports.dtype)))
    if strategy == "exact":
        return ref.same_bin(ref.exact_bins(reports))
    return ref.two_bin(reports) if strategy == "two_bin" else ref.poisson(reports, 0.1)


def scalar_bins(reports, strategy: str, m: int, ties: str):
    if strategy == "quantile":
        return ref.quantile_bins(reports, m, ties)
    return ref.interval_bins(reports, ref.edges_of(m, reports.dtype))


def options(strategy: str, m: int, ties: str) -> dict:
    more: dict[str, Any] = {"strategy": strategy}
    if strategy in ("quantile", "uniform"):
        more["n_bins"] = m
    if strategy == "quantile":
        more["ties"] = ties
    return more


STRATEGIES = st.sampled_from(["quantile", "quantile", "uniform", "exact", "two_bin", "poisson"])


def test_tie_chances_are_the_average_over_all_orders():
    for reports in ([0.5] * 4, [0.1, 0.5, 0.5, 0.5, 0.9], [0.2, 0.2, 0.2, 0.7, 0.7, 0.7]):
        for m in range(1, 8):
            assert ref.quantile_average(reports, m) == ref.quantile_average_by_orders(reports, m)


@EXAMPLES
@given(multiclass(), bin_counts, STRATEGIES, TIES)
def test_classwise_l2(sample, m, strategy, ties):
    y, proba, w = sample
    k = proba.shape[1]
    value = tc.classwise_error(y, proba, sample_weight=w, **options(strategy, m, ties))
    residuals = [ref.class_residuals(y, proba, r) for r in range(k)]
    expected = sum(ref.l2(scalar_chance(proba[:, r], strategy, m, ties), residuals[r], w) for r in range(k)) / k
    assert_close(value, expected, loss_over_n(ref.full_residuals(y, proba), w, k))


@pytest.mark.slow
@EXAMPLES
@given(multiclass(), bin_counts, st.sampled_from(["quantile", "uniform"]), st.sampled_from(["together", "row"]))
def test_classwise_l1(sample, m, strategy, ties):
    y, proba, w = sample
    k = proba.shape[1]
    value = tc.classwise_error(y, proba, norm="l1", sample_weight=w, **options(strategy, m, ties))
    expected = sum(
        ref.l1(scalar_bins(proba[:, r], strategy, m, ties), ref.class_residuals(y, proba, r), w) for r in range(k)
    )
    assert abs(value - float(expected / k)) <= 1e-12 * max(float(expected / k), 1e-3)


@EXAMPLES
@given(multiclass(), bin_counts, STRATEGIES, TIES, st.booleans())
def test_confidence_l2(sample, m, strategy, ties, corrected):
    y, proba, w = sample
    value = tc.confidence_error(y, proba, sample_weight=w, corrected=corrected, **options(strategy, m, ties))
    pairs = ref.confidence_pairs(y, proba)
    confidence = np.array([c for c, _ in pairs], dtype=proba.dtype)
    correct = [z for _, z in pairs]
    residuals = [[Fraction(float(c)) - z] for c, z in pairs]
    expected = ref.l2(scalar_chance(confidence, strategy, m, ties), residuals, w)
    if corrected:
        expected += ref.correction(correct, w)
    assert_close(value, expected, loss_over_n(residuals, w))
    again = tc.top_label_error(correct, confidence, sample_weight=w, corrected=corrected, **options(strategy, m, ties))
    assert_close(again, value, loss_over_n(residuals, w))


@pytest.mark.slow
@EXAMPLES
@given(multiclass(), bin_counts, st.sampled_from(["quantile", "uniform"]), st.sampled_from(["together", "row"]))
def test_confidence_l1(sample, m, strategy, ties):
    y, proba, w = sample
    value = tc.confidence_error(y, proba, norm="l1", sample_weight=w, **options(strategy, m, ties))
    pairs = ref.confidence_pairs(y, proba)
    confidence = np.array([c for c, _ in pairs], dtype=proba.dtype)
    expected = ref.l1(scalar_bins(confidence, strategy, m, ties), [[Fraction(float(c)) - z] for c, z in pairs], w)
    assert abs(value - float(expected)) <= 1e-12 * max(float(expected), 1e-3)


@pytest.mark.slow
@EXAMPLES
@given(multiclass(max_k=2), bin_counts, STRATEGIES, TIES)
def test_binary_l2(sample, m, strategy, ties):
    y, proba, w = sample
    u = proba[:, 1]
    value = tc.binary_error(y, u, sample_weight=w, **options(strategy, m, ties))
    residuals = ref.class_residuals(y, proba, 1)
    assert_close(value, ref.l2(scalar_chance(u, strategy, m, ties), residuals, w), loss_over_n(residuals, w))


@pytest.mark.slow
@EXAMPLES
@given(multiclass(), bin_counts, st.sampled_from(["argmax", "argmax", "kd", "exact"]), TIES)
def test_full_l2(sample, m, cells, ties):
    y, proba, w = sample
    more = {} if cells == "exact" else {"n_bins": m}
    if cells == "argmax":
        more["ties"] = ties
        chance = ref.argmax_quantile(proba, m, ties)
    else:
        chance = ref.same_bin(ref.kd_bins(proba, m) if cells == "kd" else ref.exact_bins(proba))
    value = tc.full_error(y, proba, strategy=cells, sample_weight=w, **more)
    residuals = ref.full_residuals(y, proba)
    assert_close(value, ref.l2(chance, residuals, w), loss_over_n(residuals, w))


@pytest.mark.slow
@EXAMPLES
@given(multiclass(), bin_counts, st.sampled_from(["argmax", "kd"]), st.sampled_from(["together", "row"]))
def test_full_l1(sample, m, cells, ties):
    y, proba, w = sample
    more = {"ties": ties} if cells == "argmax" else {}
    bins = ref.argmax_quantile_bins(proba, m, ties) if cells == "argmax" else ref.kd_bins(proba, m)
    value = tc.full_error(y, proba, strategy=cells, n_bins=m, norm="l1", sample_weight=w, **more)
    expected = float(ref.l1(bins, ref.full_residuals(y, proba), w))
    assert abs(value - expected) <= 1e-12 * max(expected, 1e-3)


@pytest.mark.slow
@EXAMPLES
@given(
    multiclass(max_k=7),
    bin_counts,
    st.sampled_from(["quantile", "uniform", "exact"]),
    st.sampled_from(["together", "row"]),
)
def test_scalar_l1(sample, m, strategy, ties):
    """binary, top-label and linear errors with absolute sums, over every rule that has bins."""
    y, proba, w = sample
    u, z = proba[:, 0], (y == 0).astype(int)
    residuals = [[Fraction(float(a)) - int(b)] for a, b in zip(u, z, strict=True)]
    bins = ref.exact_bins(u) if strategy == "exact" else scalar_bins(u, strategy, m, ties)
    expected = float(ref.l1(bins, residuals, w))
    more = options(strategy, m, ties)
    ranged = {"range": (0.0, 1.0)} if strategy == "uniform" else {}
    for value in (
        tc.binary_error(z, u, norm="l1", sample_weight=w, **more),
        tc.top_label_error(z, u, norm="l1", sample_weight=w, **more),
        tc.linear_error(z, u, norm="l1", sample_weight=w, **more, **ranged),
    ):
        assert abs(value - expected) <= 1e-12 * max(expected, loss_over_n(residuals, w))


@pytest.mark.slow
@EXAMPLES
@given(multiclass(max_k=60, max_n=10), st.sampled_from(["l1", "l2"]), st.integers(0, 50))
def test_given_edges_and_many_classes(sample, norm, seed):
    y, proba, w = sample
    inner = np.sort(np.random.default_rng(seed).choice(np.arange(1, 20) / 20, 4, replace=False))
    edges = [0.0, *inner.tolist(), 1.0]
    k = proba.shape[1]
    value = tc.classwise_error(y, proba, strategy=tc.Edges(edges), norm=norm, sample_weight=w)
    cast = [float(proba.dtype.type(e)) for e in edges]
    expected: Any = Fraction(0)
    for r in range(k):
        bins = ref.interval_bins(proba[:, r], cast)
        residuals = ref.class_residuals(y, proba, r)
        expected += ref.l1(bins, residuals, w) if norm == "l1" else ref.l2(ref.same_bin(bins), residuals, w)
    loss = loss_over_n(ref.full_residuals(y, proba), w, k)
    assert abs(value - float(expected / k)) <= 1e-12 * max(float(expected / k), loss) + 1e-300
    top = tc.confidence_error(y, proba, n_bins=3, sample_weight=w)
    pairs = ref.confidence_pairs(y, proba)
    chance = ref.quantile_average([c for c, _ in pairs], 3)
    exact = ref.l2(chance, [[Fraction(float(c)) - z] for c, z in pairs], w) + ref.correction([z for _, z in pairs], w)
    assert_close(top, exact, loss)


@pytest.mark.slow
@EXAMPLES
@given(multiclass(weighted=False), bin_counts)
def test_half_precision_reports_are_their_own_values(sample, m):
    y, proba, _ = sample
    half = proba.astype(np.float16)
    value = tc.classwise_error(y, half, n_bins=m)
    k = half.shape[1]
    expected = sum(
        ref.l2(ref.quantile_average(half[:, r].tolist(), m), ref.class_residuals(y, half, r)) for r in range(k)
    )
    assert_close(value, expected / k, loss_over_n(ref.full_residuals(y, half), None, k))


@pytest.mark.slow
@EXAMPLES
@given(multiclass(), bin_counts, STRATEGIES, TIES, st.integers(0, 99))
def test_linear_scalar_property(sample, m, strategy, ties, seed):
    y, proba, w = sample
    phi = np.random.default_rng(seed).integers(-3, 4, proba.shape[1]).astype(float)
    phi[0], phi[-1] = -4.0, 4.0
    reports = proba.astype(np.float64) @ phi
    more = options(strategy, m, ties)
    if strategy in ("uniform", "two_bin"):
        more["range"] = (-4.0, 4.0)
        reports = np.clip(reports, -4, 4)
    value = tc.linear_error(phi[y], reports, sample_weight=w, **more)
    residuals = [[Fraction(float(u)) - Fraction(float(phi[label]))] for u, label in zip(reports, y, strict=True)]
    if strategy == "uniform":
        chance = ref.same_bin(ref.interval_bins(reports, ref.edges_of(m, np.float64, -4.0, 4.0)))
    elif strategy == "two_bin":
        chance = ref.two_bin(reports, -4.0, 4.0)
    else:
        chance = scalar_chance(reports, strategy, m, ties)
    assert_close(value, ref.l2(chance, residuals, w), loss_over_n(residuals, w))
    if proba.dtype == np.float64 and strategy != "uniform":  # float32 probabilities give float32-rounded reports
        rule = {"quantile": tc.Quantile(m, ties=ties), "exact": tc.rules.Exact(), "two_bin": tc.TwoBin()}.get(
            strategy, tc.Poisson()
        )
        by_label = tc.CalibrationError(tc.Linear(phi), rule)(y, proba, sample_weight=w)
        assert abs(by_label - value) <= 1e-12 * max(value, loss_over_n(residuals, w))


@pytest.mark.slow
@EXAMPLES
@given(multiclass(), bin_counts, st.integers(0, 99))
def test_linear_vector_property(sample, m, seed):
    y, proba, w = sample
    phi = np.random.default_rng(seed).integers(-3, 4, (proba.shape[1], 2)).astype(float)
    reports = proba.astype(np.float64) @ phi
    residuals = [
        [Fraction(float(a)) - Fraction(float(b)) for a, b in zip(u, phi[label], strict=True)]
        for u, label in zip(reports, y, strict=True)
    ]
    value = tc.linear_error(phi[y], reports, n_bins=m, sample_weight=w)
    expected = ref.l2(ref.same_bin(ref.kd_bins(reports, m)), residuals, w)
    assert_close(value, expected, loss_over_n(residuals, w))


@pytest.mark.slow
@EXAMPLES
@given(multiclass())
def test_losses(sample):
    y, proba, _ = sample
    for loss, values in (
        (tc.brier, ref.brier(y, proba)),
        (tc.losses.confidence_loss, ref.confidence_loss(y, proba)),
        (tc.losses.spherical, ref.spherical(y, proba)),
        (tc.cross_entropy, ref.cross_entropy(y, proba)),
        (tc.classification_error, [1 - z for _, z in ref.confidence_pairs(y, proba)]),
    ):
        expected = np.array([float(v) for v in values])
        np.testing.assert_allclose(loss(y, proba, per_example=True), expected, rtol=1e-12, atol=4e-16)
        if np.isfinite(expected).all():
            assert loss(y, proba) == pytest.approx(expected.mean(), rel=1e-12, abs=4e-16)


@pytest.mark.slow
@EXAMPLES
@given(multiclass(), st.lists(bin_counts, min_size=1, max_size=5), st.sampled_from(["quantile", "uniform"]))
def test_one_pass_over_many_bin_counts_is_many_passes(sample, counts, strategy):
    y, proba, w = sample
    for call in (tc.classwise_error, tc.confidence_error):
        for norm in ("l1", "l2"):
            together = call(y, proba, n_bins=counts, strategy=strategy, norm=norm, sample_weight=w)
            apart = [call(y, proba, n_bins=m, strategy=strategy, norm=norm, sample_weight=w) for m in counts]
            assert isinstance(together, np.ndarray)
            np.testing.assert_allclose(together, apart, rtol=1e-12, atol=1e-15 if norm == "l1" else 1e-18)


@pytest.mark.slow
@settings(max_examples=40)
@given(multiclass(max_n=40), bin_counts, STRATEGIES)
def test_threads_and_tiles_change_nothing(sample, m, strategy):
    y, proba, w = sample
    more = options(strategy, m, "auto")
    rule = read_rule(strategy, more.get("n_bins"), more.get("ties", "auto"))
    metric = tc.CalibrationError(tc.Classwise(), rule)
    sample = metric.read(y, proba, sample_weight=w)
    for what in (metric.of, metric.parts):
        many = what(sample, Dispatch(threads=3, parallel_views=1))
        np.testing.assert_allclose(many, what(sample), rtol=1e-13, atol=1e-15)


def test_small_values_of_the_theory():
    y, u = [0, 1, 1], [0.1, 0.4, 0.8]
    for m, value in ((1, 0.05444444), (2, 0.07222222), (3, 0.04555556)):
        assert round(tc.binary_error(y, u, n_bins=m), 8) == value
    assert round(tc.binary_error(y, u, strategy="two_bin"), 8) == 0.05088889
    assert round(tc.binary_error(y, u, strategy=tc.Poisson(theta=0.4)), 8) == 0.04829512
    assert round(tc.binary_error([0, 1, 1, 1], [0.2, 0.2, 0.6, 0.9], strategy="two_bin"), 6) == 0.056875


def test_a_report_on_an_edge_falls_in_the_interval_it_closes():
    for dtype in (np.float32, np.float64):
        u = np.array([0.7, 0.6, 0.1, 0.0, 1.0], dtype=dtype)
        table_ = tc.CalibrationError(tc.Binary(), tc.EqualWidth(10)).tables([1, 0, 1, 0, 1], u)[0]
        assert table_.count[0].tolist() == [2, 0, 0, 0, 0, 1, 1, 0, 0, 1]
