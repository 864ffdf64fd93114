"""Laws stated once and run over every composed error, each with its domain and an offender that breaks it.

Those that hold for baselines as well are run over them in tests/baselines/test_baseline_laws.py.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

import reference
import truecal
from closeness import assert_close
from truecal.core.data import check_probabilities
from truecal.kinds.named_errors import COMPOSED
from worlds import AVERAGED, bounded, cumulated, is_multiclass, kind, label_table, times, variants

tc: Any = truecal  # what a test hands in need not be of the right type

CASES = [(name, bounded(metric)) for name, metric in variants()]


def by_id(cases):
    return pytest.mark.parametrize("metric", [m for _, m in cases], ids=[i for i, _ in cases])


def sample_for(metric, rng, n=30, k=4, tied=True):
    """Labels and reports in the metric's own form; tied: reports are multiples of 1/8."""
    if metric.property.label_by_label and metric.property.kind != "survival":
        return label_table(rng, n, k, tied)
    proba = rng.multinomial(8, np.full(k, 1 / k), size=n) / 8 if tied else rng.dirichlet(np.ones(k), n)
    y = rng.integers(0, k, n)
    if metric.property.kind == "distribution":
        return y, cumulated(proba)
    if metric.property.kind == "survival":
        return times(y, metric, rng.integers(1, 4, (n, k - 1)) / 2), cumulated(proba)
    if is_multiclass(metric):
        return y, proba
    return (y == 0).astype(int), proba[:, 0]


def take(y, p, rows):
    return y[rows], p[rows]


def test_every_named_error_is_covered():
    """No member is forgotten: each kind of composed error stands among the cases the laws run over."""
    covered = {kind(metric) for _, metric in CASES}
    assert {kind(metric) for metric in COMPOSED.values()} <= covered
    assert all(metric.reason for metric in tc.ERRORS.values())


def test_truthfulness_is_what_the_theorem_says():
    """Squared sums, and for confidence the correction; nothing else decides."""
    for metric in COMPOSED.values():
        corrects = isinstance(metric.property, (tc.Confidence, tc.TopLabel, tc.properties.Survival))
        assert metric.truthful == (metric.norm == "l2" and (not corrects or metric.corrected))


# -- order of rows -----------------------------------------------------------------------------------------------------


def breaks_row_order(metric, rng) -> bool:
    y, p = sample_for(metric, rng)
    value = metric(y, p)
    shuffles = [rng.permutation(len(y)) for _ in range(5)]
    return any(abs(metric(*take(y, p, s)) - value) > 1e-12 * max(value, 1e-6) for s in shuffles)


@by_id([(i, m) for i, m in CASES if not i.endswith("row")])
def test_the_order_of_rows_does_not_matter(metric, rng):
    assert not breaks_row_order(metric, rng)


@by_id([(i, m) for i, m in CASES if i.endswith("row")])
def test_breaking_ties_by_row_depends_on_the_order_of_rows(metric, rng):
    assert breaks_row_order(metric.with_bins(7), rng)


# -- names of classes --------------------------------------------------------------------------------------------------

RENAMABLE = [
    (i, m)
    for i, m in CASES
    # phi and an order belong to columns
    if is_multiclass(m) and m.property.kind != "cumulative"
    if "Linear" not in i
]


def breaks_renaming(metric, rng) -> bool:
    y, p = sample_for(metric, rng, tied=False)
    value = metric(y, p)
    order = rng.permutation(p.shape[1])
    renamed = np.argsort(order)[y]
    return abs(metric(renamed, p[:, order]) - value) > 1e-12 * max(value, 1e-6)


@by_id(RENAMABLE)
def test_the_names_of_classes_do_not_matter(metric, rng):
    for _ in range(5):
        assert not breaks_renaming(metric, rng)


def test_a_metric_that_favours_a_column_breaks_renaming(rng):
    def first_column_counts_double(y, p):
        return tc.classwise_error(y, p) + tc.binary_error(y == 0, p[:, 0])

    assert any(breaks_renaming_call(first_column_counts_double, rng) for _ in range(5))


def breaks_renaming_call(call, rng) -> bool:
    y, p = sample_for(tc.ERRORS["classwise"], rng, tied=False)
    order = np.roll(np.arange(p.shape[1]), 1)
    return abs(call(np.argsort(order)[y], p[:, order]) - call(y, p)) > 1e-9


@by_id(RENAMABLE)
def test_labels_name_the_columns(metric, rng):
    y, p = sample_for(metric, rng)
    names = np.array(["wolf", "ant", "bee", "cat"])
    assert_close(metric(names[y], p, labels=names), metric(y, p), 1)


# -- weights -----------------------------------------------------------------------------------------------------------

FIXED = ("uniform", "edges", "exact", "two-bin", "poisson")
REPLICABLE = [(i, m) for i, m in CASES if i.split("-", 1)[1] in FIXED and not m.corrected]


def replication_gap(metric, rng) -> float:
    y, p = sample_for(metric, rng, n=12)
    times = rng.integers(0, 4, len(y))
    times[0] = 2
    rows = np.repeat(np.arange(len(y)), times)
    return abs(metric(y, p, sample_weight=times) - metric(*take(y, p, rows)))


@by_id(REPLICABLE)
def test_a_weight_is_a_replication(metric, rng):
    for _ in range(5):
        assert replication_gap(metric, rng) < 1e-13


@pytest.mark.parametrize("name", ["confidence", "top_label", "classwise", "binary"])
def test_replicated_rows_are_not_independent_samples(name, rng):
    """Outside its domain the law fails, as it should: the correction and quantile bins count rows, not weight."""
    assert max(replication_gap(tc.ERRORS[name].with_bins(3), rng) for _ in range(5)) > 1e-6


@by_id(CASES)
def test_equal_weights_are_no_weights(metric, rng):
    y, p = sample_for(metric, rng)
    assert metric(y, p, sample_weight=np.full(len(y), 2.5)) == pytest.approx(metric(y, p), rel=1e-11)


# -- several bin counts ------------------------------------------------------------------------------------------------


@by_id([(i, m) for i, m in CASES if m.binning.counts])
def test_one_pass_over_many_bin_counts(metric, rng):
    y, p = sample_for(metric, rng)
    counts = (1, 2, 7, 30, 50)
    together = metric.with_bins(counts)(y, p)
    assert together.shape == (5,)
    np.testing.assert_allclose(together, [metric.with_bins(m)(y, p) for m in counts], rtol=1e-12)


def test_bins_cannot_be_set_where_there_are_none():
    with pytest.raises(ValueError, match="has no bin count"):
        tc.ERRORS["binary_two_bin"].with_bins(5)


# -- the table is a monoid ---------------------------------------------------------------------------------------------


@by_id([(i, m) for i, m in CASES if i.split("-", 1)[1] in ("uniform", "edges")])
def test_merged_tables_are_the_table_of_the_whole(metric, rng):
    y, p = sample_for(metric, rng)
    whole = metric.tables(y, p)[0]
    parts = [metric.tables(*take(y, p, rows))[0] for rows in np.split(np.arange(len(y)), [5, 6, 20])]
    empty = tc.BinTable.empty(metric.property, metric.binning, views=whole.views)
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        merged = empty
        for i in order:
            merged = merged.merge(parts[i])
        for field in ("count", "outcome", "residual", "residual_sq", "tie_variance"):
            np.testing.assert_allclose(getattr(merged, field), getattr(whole, field), rtol=1e-12, atol=1e-14)
        assert_close(list(vars(merged.totals).values()), list(vars(whole.totals).values()), 1)
        if metric.norm == "l2":
            np.testing.assert_allclose(metric.parts_of_table(merged), metric.parts(metric.read(y, p))[0], rtol=1e-12)


def test_tables_over_different_cells_refuse_to_merge(rng):
    y, p = sample_for(tc.ERRORS["binary"], rng)
    five, six = (tc.CalibrationError(tc.Binary(), tc.EqualWidth(m)).tables(y, p)[0] for m in (5, 6))
    with pytest.raises(ValueError, match="different cells"):
        five.merge(six)
    with pytest.raises(ValueError, match="table of binary predictions with one of confidence predictions"):
        five.merge(tc.CalibrationError(tc.TopLabel(), tc.EqualWidth(5)).tables(y, p)[0])
    with pytest.raises(ValueError, match="compared in float64 and in float32"):
        five.merge(tc.CalibrationError(tc.Binary(), tc.EqualWidth(5)).tables(y, p.astype(np.float32))[0])
    with pytest.raises(TypeError, match="only be merged with a table, got int"):
        five.merge(3)
    single = tc.CalibrationError(tc.Binary(), tc.EqualWidth(5)).tables(y, p.astype(np.float32))[0]
    assert tc.BinTable.empty(tc.Binary(), tc.EqualWidth(5)).merge(single).rows == len(y)
    quantile = tc.ERRORS["binary"].tables(y, p)[0]
    with pytest.raises(ValueError, match="cells of at least one table come from its own predictions"):
        quantile.merge(quantile)


@by_id([(i, m) for i, m in CASES if i.split("-", 1)[1] not in AVERAGED])  # those have one cell per report
def test_the_error_is_read_off_the_table(metric, rng):
    """The fast path and the table with squares agree, so diagrams show what the number says."""
    y, p = sample_for(metric, rng)
    table = metric.tables(y, p)[0]
    assert metric.of_table(table) == pytest.approx(metric(y, p), rel=1e-12)
    np.testing.assert_allclose(table.count.sum(axis=1), len(y))
    assert np.nansum(table.mean_report * table.count) == pytest.approx(table.report.sum())


# -- scale -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@by_id([(i, m) for i, m in CASES if m.norm == "l2"])
def test_scales_are_fixed_factors(metric, rng):
    y, p = sample_for(metric, rng)
    w = rng.integers(1, 5, len(y))
    raw = metric(y, p)
    assert metric(y, p, scale="loss") == pytest.approx(len(y) * raw, rel=1e-12)
    weighted = metric(y, p, sample_weight=w)
    factor = w.sum() ** 2 / (w**2).sum()
    assert metric(y, p, sample_weight=w, scale="loss") == pytest.approx(factor * weighted, rel=1e-12)
    if metric.binning.counts:
        assert metric(y, p, scale="bins") == pytest.approx(metric.binning.counts[0] * raw, rel=1e-12)
    else:
        with pytest.raises(ValueError, match="has no requested bin count"):
            metric(y, p, scale="bins")


@pytest.mark.parametrize("scale", ["loss", "bins"])
def test_scales_are_for_squared_errors(scale, rng):
    y, p = sample_for(tc.ERRORS["confidence_l1"], rng)
    with pytest.raises(ValueError, match="cannot be used with norm='l1'"):
        tc.confidence_error(y, p, norm="l1", scale=scale)


# -- loss + U ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["binary", "confidence", "classwise"])
def test_U_is_the_sum_over_pairs(name, weighted, rng):
    """U = Σ_{i≠j} G_ij w_i w_j r_i r_j / Σw², from G written out, so that the identity is not its own definition."""
    metric = tc.ERRORS[name].with_bins(4)
    y, p = sample_for(metric, rng, n=12, k=3)
    w = rng.integers(1, 4, len(y)).astype(float) if weighted else np.ones(len(y))
    columns = [(p, y)] if p.ndim == 1 else [(p[:, r], y == r) for r in range(p.shape[1])]
    if name == "confidence":
        columns = [(p.max(axis=1), y == p.argmax(axis=1))]
    expected = 0.0
    for u, z in columns:
        chance = reference.quantile_average(u.tolist(), 4)
        r = u - z
        for i in range(len(y)):
            expected += sum(float(chance[i][j]) * w[i] * w[j] * r[i] * r[j] for j in range(len(y)) if j != i)
    expected /= len(columns) * (w**2).sum()
    assert pytest.approx(expected, rel=1e-10, abs=1e-14) == metric.decompose(y, p, sample_weight=w).U


@by_id([(i, m) for i, m in CASES if m.norm == "l2"])
def test_n_times_the_error_is_loss_plus_U(metric, rng):
    y, p = sample_for(metric, rng)
    parts = metric.decompose(y, p)
    assert len(y) * parts.error == pytest.approx(parts.loss + parts.U, rel=1e-12)
    w = rng.random(len(y))
    parts = metric.decompose(y, p, sample_weight=w)
    factor = w.sum() ** 2 / (w**2).sum()
    assert factor * parts.error == pytest.approx(parts.loss + parts.U, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        ("classwise", lambda y, p: tc.brier(y, p) / p.shape[1]),
        ("confidence", tc.losses.confidence_loss),
        ("full", tc.brier),
        ("ordinal", lambda y, p: tc.losses.rps(y, p) / (p.shape[1] - 1)),
        ("labelwise", lambda y, p: tc.losses.linear_loss(y, p) / p.shape[1]),
        ("binary", tc.losses.linear_loss),
        ("linear", tc.losses.linear_loss),
    ],
)
def test_the_loss_part_is_the_associated_loss(name, loss, rng):
    metric = tc.ERRORS[name]
    y, p = sample_for(metric, rng)
    assert metric.decompose(y, p).loss == pytest.approx(loss(y, p), rel=1e-12)


@by_id([(i, m) for i, m in CASES if i.endswith(("-quantile", "-quantile-row")) and m.norm == "l2"])
@pytest.mark.parametrize("more", [0, 1, 100])
def test_one_bin_per_row_leaves_the_loss(metric, more, rng):
    y, p = sample_for(metric, rng)
    parts = metric.with_bins(len(y) + more).decompose(y, p)
    assert abs(parts.U) <= 1e-12 * parts.loss


def test_equal_rows_are_equal_reports_of_a_linear_property(rng):
    """A matrix product may round equal rows differently by their place; reports must not part because of it."""
    p = np.tile(rng.dirichlet(np.ones(26)), (17, 1))
    y = rng.integers(0, 26, 17)
    for phi in (rng.standard_normal(26), rng.standard_normal((26, 3))):
        metric = tc.CalibrationError(tc.Linear(phi), tc.rules.Exact())
        assert metric(y, p) == pytest.approx(metric(y[::-1], p), rel=1e-12)
        assert len(metric.tables(y, p)[0].count[0]) == 1


def test_ties_kept_together_do_not_leave_the_loss(rng):
    metric = tc.CalibrationError(tc.Binary(), tc.Quantile(30, ties="together"))
    assert abs(metric.decompose(*sample_for(metric, rng)).U) > 1e-3


# -- nothing that depends on the data multiplies an error --------------------------------------------------------------


NO_RESIDUAL = ("uniform", "edges", "exact")


@by_id([(i, m) for i, m in CASES if i.split("-", 1)[1] in NO_RESIDUAL and m.norm == "l2" and "Linear" not in i])
def test_rows_without_residual_only_enter_through_n(metric, rng):
    """Rows that are exactly right fill more bins and add nothing: n²·error must not move with the number of bins."""
    y: Any
    p: Any
    sure: Any
    if metric.property.kind == "survival":
        y, p = times([0, 0], metric, 2.0), np.array([[0.5, 0.7, 0.9], [0.5, 0.7, 0.9]])
        more, sure = times(range(3), metric, 2.0), (np.arange(3)[:, None] <= np.arange(3)).astype(float)
    elif metric.property.label_by_label:
        y, p = np.array([[0, 1], [0, 1]]), np.array([[0.5, 0.3], [0.5, 0.3]])
        more = np.array([[0, 1], [1, 1]])
        sure = more.astype(float)
    elif metric.property.kind == "distribution":
        y, p = np.array([0, 0]), np.array([[0.5, 0.7, 0.9], [0.5, 0.7, 0.9]])
        more, sure = np.arange(3), (np.arange(3)[:, None] <= np.arange(3)).astype(float)
    elif is_multiclass(metric):
        y, p = np.array([0, 0]), np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]])
        more, sure = np.arange(3), np.eye(3)
    else:
        y, p = np.array([1, 1]), np.array([0.5, 0.5])
        more = np.array([1, 1]) if isinstance(metric.property, tc.TopLabel) else np.array([0, 1])
        sure = more.astype(float)
    before = metric(y, p) * 4
    both = np.concatenate([y, more]), np.concatenate([p, sure])
    assert before > 0
    assert metric(*both) * len(both[0]) ** 2 == pytest.approx(before, rel=1e-12)


def test_counting_filled_bins_breaks_that_law():
    def offender(y, u):
        table = tc.CalibrationError(tc.Binary(), tc.EqualWidth(3)).tables(y, u)[0]
        return (table.count > 0).sum() * tc.binary_error(y, u, n_bins=3, strategy="uniform")

    before = offender([1, 1], [0.5, 0.5]) * 4
    assert offender([1, 1, 0, 1], [0.5, 0.5, 0.0, 1.0]) * 16 != pytest.approx(before)


# -- copies, layouts, dtypes -------------------------------------------------------------------------------------------


@by_id(CASES)
def test_layout_and_integer_types_do_not_matter(metric, rng):
    y, p = sample_for(metric, rng)
    value = metric(y, p)
    frozen = p.copy()
    frozen.setflags(write=False)
    wide = np.repeat(p, 2, axis=0)[::2]
    if y.dtype.names is None:
        assert_close(metric(y.astype(np.int8), frozen), value, 1)
        assert_close(metric(y.tolist(), p.tolist()), value, 1)
    else:
        assert_close(metric(tuple(y[name].tolist() for name in y.dtype.names), p.tolist()), value, 1)
    assert_close(metric(y[::-1][::-1], wide), value, 1)
    if p.ndim == 2:
        assert metric(y, np.asfortranarray(p)) == pytest.approx(value, rel=1e-12)
    assert metric(y, p.astype(np.float32)) == pytest.approx(value, rel=1e-12)  # multiples of 1/8 are exact
    assert metric(y, p.astype(np.float16)) == pytest.approx(value, rel=1e-12)


def test_inputs_are_never_changed(rng):
    for name, metric in variants():
        y, p = sample_for(metric, rng)
        before = y.copy(), p.copy()
        bounded(metric)(y, p)
        assert (y == before[0]).all() and (p == before[1]).all(), name


def test_a_rule_cannot_see_an_outcome():
    """The signature is the guarantee: no method of any rule takes anything but reports and what is known before."""
    import inspect

    from truecal.core import averages, rules, vectors
    from truecal.core.sample import Reports

    assert {field.name for field in fields(Reports)} == {"values", "joint", "bounds", "distributions", "shares"}
    allowed = {
        "self",
        "seen",
        "reports",
        "ordered",
        "n",
        "bounds",
        "dtype",
        "points",
        "sums",
        "values",
        "n_bins",
        "ties",
    }
    allowed |= {"theta", "seed", "n_directions", "rule", "cells", "rows", "views", "classes", "view", "columns", "j"}
    allowed |= {"edges", "top", "other"}
    sums_of_a_form = {"others", "before", "squared_form"}  # of numbers at points, when the cells are made
    every = {c for m in (rules, averages, vectors) for c in vars(m).values() if inspect.isclass(c)}
    every = {c for c in every if issubclass(c, rules.BinningRule)}
    assert len(every) > 14
    for rule in every:
        for name, method in vars(rule).items():
            if inspect.isfunction(method) and name not in sums_of_a_form | {
                "__setattr__",
                "__delattr__",
                "__replace__",
            }:
                assert set(inspect.signature(method).parameters) <= allowed, (rule, name)


def test_replacing_the_rule_keeps_the_rest():
    metric = replace(tc.ERRORS["confidence_uncorrected"], binning=tc.TwoBin())
    assert not metric.corrected and not metric.truthful


def test_validation_returns_the_users_own_memory(rng):
    p = rng.dirichlet(np.ones(3), 10).astype(np.float32)
    assert np.shares_memory(check_probabilities(p), p)
