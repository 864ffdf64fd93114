"""Laws that every baseline obeys, each with its domain, and what a baseline refuses in which words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import truecal
from closeness import assert_close
from truecal.baselines import BASELINES as NAMED
from truecal.kinds.named_errors import COMPOSED
from worlds import cumulated, is_multiclass, times

tc: Any = truecal

TIMES = [name for name, baseline in NAMED.items() if baseline.property.kind == "survival"]
BASELINES = NAMED | {name: replace(NAMED[name], property=tc.properties.Survival([1, 2, 4])) for name in TIMES}
ALL = pytest.mark.parametrize("name", BASELINES)
UNBOUNDED = {"cox_slope", "cox_intercept"}
"""Infinite where the outcomes are separated or all the same."""
SIGNED = {"debiased_squared", "skce_unbiased"}
"""Below 0 in some samples: unbiased estimates of what may be 0."""
COUNTING = {"ece_equal_mass", "ace", "tace", "ece_sweep", "ici"}
"""Bins and neighbourhoods hold numbers of rows, whatever their weights."""
INDEPENDENT = {"mmce_corrected", "skce_unbiased", "smooth_calibration_subsampled", "step_calibration_subsampled"}
"""Pairs and subsets of rows: a row twice is not a row of weight 2."""


def sample_for(baseline, rng, n=24, k=4, tied=True):
    p = rng.multinomial(8, np.full(k, 1 / k), size=n) / 8 if tied else rng.dirichlet(np.ones(k), n)
    y = rng.integers(0, k, n)
    if baseline.property.kind == "survival":
        return times(y, baseline), cumulated(p)
    return (y, p) if is_multiclass(baseline) else ((y == 0).astype(int), p[:, 0])


def test_every_baseline_says_what_it_is():
    assert set(tc.ERRORS) == {*COMPOSED, *BASELINES} and len(tc.ERRORS) == len(COMPOSED) + len(BASELINES)
    assert len({baseline.title for baseline in BASELINES.values()}) == len(BASELINES)
    for name, baseline in BASELINES.items():
        assert name == baseline.name and isinstance(baseline, tc.results.Baseline)
        assert all((baseline.title, baseline.definition, baseline.reason, baseline.symbol, baseline.compute.__doc__))
        assert any(year in baseline.reference for year in map(str, range(1950, 2030))), name
        assert hash(baseline) == hash(replace(baseline)) and baseline.name in repr(baseline)


@ALL
def test_the_order_of_rows_does_not_matter(name, rng):
    y, p = sample_for(BASELINES[name], rng)
    value = BASELINES[name](y, p)
    for _ in range(3):
        rows = rng.permutation(len(y))
        assert BASELINES[name](y[rows], p[rows]) == pytest.approx(value, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("name", [name for name, baseline in BASELINES.items() if is_multiclass(baseline)])
def test_the_names_of_classes_do_not_matter(name, rng):
    y, p = sample_for(BASELINES[name], rng, tied=False)
    order = rng.permutation(p.shape[1])
    value = BASELINES[name](y, p)
    assert BASELINES[name](np.argsort(order)[y], p[:, order]) == pytest.approx(value, rel=1e-9)
    names = np.array(["wolf", "ant", "bee", "cat"])
    assert_close(BASELINES[name](names[y], p, labels=names), value, 1)


@pytest.mark.parametrize("name", [name for name, baseline in BASELINES.items() if baseline.weighted])
def test_equal_weights_are_no_weights(name, rng):
    y, p = sample_for(BASELINES[name], rng)
    found = BASELINES[name](y, p, sample_weight=np.full(len(y), 2.5))
    assert found == pytest.approx(BASELINES[name](y, p), rel=1e-7)


@pytest.mark.parametrize("name", [n for n, b in BASELINES.items() if b.weighted and n not in COUNTING | INDEPENDENT])
def test_a_weight_is_a_replication(name, rng):
    y, p = sample_for(BASELINES[name], rng, n=12)
    times = rng.integers(0, 4, len(y))
    times[:2] = 2
    rows = np.repeat(np.arange(len(y)), times)
    found = BASELINES[name](y, p, sample_weight=times)
    assert found == pytest.approx(BASELINES[name](y[rows], p[rows]), rel=1e-7, abs=1e-12)


def test_outside_its_domain_that_law_fails(rng):
    for name in (*COUNTING, *INDEPENDENT):
        gaps = []
        for _ in range(5):
            y, p = sample_for(BASELINES[name], rng, n=12, tied=False)
            times = rng.integers(1, 4, len(y))
            rows = np.repeat(np.arange(len(y)), times)
            gaps.append(abs(BASELINES[name](y, p, sample_weight=times) - BASELINES[name](y[rows], p[rows])))
        assert max(gaps) > 1e-6, name


@ALL
def test_layout_and_types_do_not_matter_and_nothing_is_changed(name, rng):
    y, p = sample_for(BASELINES[name], rng)
    before = y.copy(), p.copy()
    value = BASELINES[name](y, p)
    assert (y == before[0]).all() and (p == before[1]).all()
    p.setflags(write=False)
    if y.dtype.names is None:
        assert_close(BASELINES[name](y.tolist(), p.tolist()), value, 1)
        assert BASELINES[name](y.astype(np.int8), p.astype(np.float32)) == pytest.approx(value, rel=1e-9)
    assert_close(BASELINES[name](y, np.repeat(p, 2, axis=0)[::2]), value, 1)


@pytest.mark.parametrize("name", [name for name in BASELINES if name not in UNBOUNDED | set(TIMES)])
def test_who_is_sure_and_right_scores_nothing(name):
    y = np.array([0, 1, 2, 1, 0, 2, 1, 0])
    p = np.eye(3)[y]
    found = BASELINES[name](y, p) if is_multiclass(BASELINES[name]) else BASELINES[name]((y == 1) * 1, p[:, 1])
    assert found == pytest.approx(0.0, abs=1e-12)


@ALL
def test_one_row_and_a_few(name, rng):
    for n in (1, 2, 3):
        for _ in range(5):
            y, p = sample_for(BASELINES[name], rng, n=n)
            if name == "skce_unbiased" and n == 1:
                with pytest.raises(ValueError, match="pairs of different rows: expected two rows or more, got 1"):
                    BASELINES[name](y, p)
                continue
            found = BASELINES[name](y, p)
            assert isinstance(found, float) and not np.isnan(found)
            assert found >= 0 or name in SIGNED


def test_label_distributions_are_outcomes(rng):
    """One-hot rows are the labels themselves; what counts rows refuses them."""
    for name, baseline in BASELINES.items():
        if is_multiclass(baseline):
            y, p = sample_for(baseline, rng)
            if baseline.weighted:
                assert baseline(np.eye(4)[y], p) == pytest.approx(baseline(y, p), rel=1e-12)
            else:
                with pytest.raises(ValueError, match=f"label distributions cannot be used with {name}: it counts rows"):
                    baseline(np.eye(4)[y], p)


def test_the_positive_class_is_named():
    steps = BASELINES["step_calibration"]
    assert_close(steps(["no", "yes", "yes"], [0.1, 0.4, 0.8], pos_label="yes"), steps([0, 1, 1], [0.1, 0.4, 0.8]), 1)
    with pytest.raises(ValueError, match="pos_label='yes' cannot be used: sce is about classwise"):
        BASELINES["sce"]([0, 1], [[0.5, 0.5], [0.2, 0.8]], pos_label="yes")


def test_ece_is_of_the_top_class_or_of_the_positive_one(rng):
    y, p = sample_for(BASELINES["ece"], rng)
    assert tc.ece(y, p) == BASELINES["ece"](y, p)
    assert tc.ece(y, p, n_bins=4, strategy="quantile") == BASELINES["ece_equal_mass"].with_options(n_bins=4)(y, p)
    named = np.where(y == 0, "yes", "no")
    one = replace(BASELINES["ece"], property=tc.Binary())(y == 0, p[:, 0])
    assert tc.ece(named, p[:, 0], pos_label="yes") == one


Y, P = [0, 1, 1], [[0.5, 0.5], [0.2, 0.8], [0.6, 0.4]]
REFUSED = [
    ("ece", {"n_bins": (5, 10)}, TypeError, r"n_bins must be a whole number of at least 1, got \(5, 10\)"),
    ("ece", {"strategy": "wide"}, ValueError, "strategy must be one of 'quantile', 'uniform'"),
    ("ece", {"bins": 5}, TypeError, "ece has no option 'bins'; its options: n_bins, strategy"),
    ("tace", {"threshold": 1}, ValueError, "threshold must be at least 0 and below 1, got 1"),
    ("ece_sweep", {"norm": 2}, ValueError, "norm must be 'l1' or 'l2', got 2"),
    ("mmce", {"theta": -1.0}, ValueError, "theta must be a positive number"),
    ("mmce", {"corrected": 1}, TypeError, "corrected must be True or False, got 1"),
    ("skce", {"bandwidth": "wide"}, ValueError, "bandwidth must be a positive number or 'median', got 'wide'"),
    ("decision_calibration", {"losses": [[1, 2, 3]]}, ValueError, r"a row of 2 numbers .* got shape \(1, 3\)"),
    ("decision_calibration", {"losses": [[0, 2]]}, ValueError, "losses must lie between −1 and 1, got 2.0"),
    ("projected_smooth_calibration", {"directions": [[0, float("nan")]]}, ValueError, "between −1 and 1, got nan"),
]


@pytest.mark.parametrize(("name", "options", "kind", "words"), REFUSED)
def test_what_an_option_refuses(name, options, kind, words):
    with pytest.raises(kind, match=words):
        BASELINES[name].with_options(**options)(Y, P)


SCALAR_REFUSED = [
    ("spiegelhalter", {"distance": 0}, TypeError, "distance must be True or False, got 0"),
    ("ici", {"span": 0}, ValueError, "span must be a share of the rows, above 0 and at most 1, got 0"),
    ("ici", {"statistic": "median"}, ValueError, "statistic must be 'mean' or a quantile between 0 and 1"),
    ("step_calibration_subsampled", {"draws": 0}, ValueError, "draws must be at least 1, got 0"),
    ("step_calibration_subsampled", {"seed": -1}, ValueError, "seed must be a whole number of at least 0, got -1"),
]


@pytest.mark.parametrize(("name", "options", "kind", "words"), SCALAR_REFUSED)
def test_what_an_option_of_one_probability_refuses(name, options, kind, words):
    with pytest.raises(kind, match=words):
        BASELINES[name].with_options(**options)([0, 1, 1], [0.1, 0.4, 0.8])


def test_what_cannot_apply_is_said():
    with pytest.raises(TypeError, match=r"property of skce must be one of Full\(\), got Binary"):
        replace(BASELINES["skce"], property=tc.Binary())
    with pytest.raises(ValueError, match="sample_weight cannot be used with spiegelhalter: it counts rows"):
        BASELINES["spiegelhalter"]([0, 1, 1], [0.1, 0.4, 0.8], sample_weight=[1, 2, 3])
    with pytest.raises(ValueError, match="y_proba"):
        BASELINES["ici"]([0, 1, 1], [0.1, 0.4, 1.8])


def test_sizes_that_are_refused(monkeypatch):
    monkeypatch.setattr("truecal.baselines.of_kernels.MOST_ROWS", 2)
    with pytest.raises(ValueError, match="visits every pair of rows: at most 2 rows, got 3"):
        BASELINES["skce"](Y, P)
    monkeypatch.setattr("truecal.baselines.without_bins.MOST_VALUES", 2)
    with pytest.raises(ValueError, match="at most 2 of them, got 3; round the predictions"):
        BASELINES["distance_to_calibration"]([0, 1, 1], [0.1, 0.4, 0.8])


EXTREME = [
    np.array([0.0, 5e-324, 1e-300, 0.5, 1 - 1e-16, 1.0]),
    np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0]),
    np.full(6, 0.5),
    np.array([0.5, 0.5 + 1e-16, 0.5 + 2e-16, 0.5, 0.5, 0.25]),
]


@pytest.mark.slow
@pytest.mark.parametrize("u", EXTREME)
@ALL
def test_extreme_predictions_have_a_number(name, u, rng):
    """Warnings are errors here: no division by nothing, no overflow, and never NaN."""
    for y in rng.integers(0, 2, (4, 6)):
        arrays = (y, np.column_stack([1 - u, u])) if is_multiclass(BASELINES[name]) else (y, u)
        if name in TIMES:
            arrays = times(y, BASELINES[name]), np.column_stack([u, u, u])
        assert not np.isnan(BASELINES[name](*arrays))
        if BASELINES[name].weighted:
            w = np.array([1e-100, 1.0, 1e100, 0.0, 1e100, 3.0])
            assert not np.isnan(BASELINES[name](*arrays, sample_weight=w))
