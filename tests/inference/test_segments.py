"""Segments against plain loops, their level and power, and what they refuse."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.special import expit, logit
from scipy.stats import binomtest

import truecal as tc
import where_worlds as worlds
from answer_worlds import arguments
from closeness import assert_close
from truecal.inference.features import group_rows, read_features


def world(n=900, seed=0, off=0.0):
    rng = np.random.default_rng(seed)
    columns = {
        "region": rng.choice(["north", "south", "west"], n, p=[0.2, 0.5, 0.3]),
        "age": rng.normal(45, 12, n),
        "device": rng.choice(["phone", "desktop"], n),
        "visits": rng.integers(0, 4, n),
    }
    q = expit(rng.normal(0, 1.2, n))
    inside = (columns["region"] == "south") & (columns["device"] == "phone")
    u = np.clip(np.where(inside, q + off, q), 0.01, 0.99)
    return columns, u, (rng.random(n) < q).astype(int)


def masks(columns, bins=5, min_rows=50):
    """Every segment as a mask, by loops."""
    n = len(next(iter(columns.values())))
    single: dict[str, dict[str, np.ndarray]] = {}
    for name, values in columns.items():
        single[name] = {}
        if values.dtype.kind == "f" and len(set(values.tolist())) > 2 * bins:
            ordered = sorted(values.tolist())
            edges = [ordered[n * j // bins - 1] for j in range(1, bins)]
            for j in range(bins):
                low, high = (-np.inf, *edges)[j], (*edges, np.inf)[j]
                single[name][f"{name} bin {j}"] = (values > low) & (values <= high)
        else:
            for value in sorted(set(values.tolist())):
                single[name][f"{name} = {value}"] = values == value
    found = {"all rows": np.ones(n, dtype=bool)}
    for parts in single.values():
        found |= parts
    for one, two in combinations(columns, 2):
        for (a, x), (b, y) in ((p, r) for p in single[one].items() for r in single[two].items()):
            both = x & y
            if (both != x).any() and (both != y).any():
                found[f"{a} & {b}"] = both
    return {name: mask for name, mask in found.items() if mask.sum() >= min_rows}


def spread_parts(u):
    x = np.clip(logit(u), -8, 8)
    s = u * (1 - u)
    mean = (s * x).sum() / s.sum()
    return x - mean, np.sqrt((s * (x - mean) ** 2).sum() / s.sum() * (s.sum() + 1))


def strongest(r, u):
    """The larger statistic of one segment."""
    level = abs(r.sum()) / np.sqrt((u * (1 - u)).sum() + 1)
    x, sd = spread_parts(u)
    return max(level, abs((x * r).sum()) / sd)


@pytest.mark.slow
def test_segments_are_those_of_plain_loops():
    columns, u, y = world(off=0.15)
    draws, seed = 40, 3
    found = tc.segments(y, u, columns, n_resamples=draws, seed=seed)
    wanted = masks(columns)
    assert found.compared == len(wanted) == len(found.segments)
    drawn = np.random.default_rng(seed).random((len(y), draws)) < u[:, None]
    largest = [max(strongest(u[m] - drawn[m, b], u[m]) for m in wanted.values()) for b in range(draws)]
    mine = sorted((s.rows, s.mean_prediction, s.observed, s.pvalue) for s in found.segments)
    theirs = []
    for m in wanted.values():
        statistic = strongest(u[m] - y[m], u[m])
        p = (1 + sum(other >= statistic - 1e-9 for other in largest)) / (1 + draws)
        theirs.append((int(m.sum()), float(u[m].mean()), float(y[m].mean()), p))
    assert_close(mine, sorted(theirs))
    order = [strongest(u[m] - y[m], u[m]) for m in wanted.values()]
    top = list(wanted.values())[int(np.argmax(order))]
    assert found.segments[0].rows == top.sum()
    critical = sorted(largest)[int(np.ceil(0.95 * (draws + 1))) - 1]
    first = found.segments[0]
    r = u[top] - y[top]
    own = max((u[top] * (1 - u[top])).sum(), np.square(r - r.mean()).sum()) + 1
    half = critical * np.sqrt(own) / top.sum()
    exact = binomtest(int(y[top].sum()), int(top.sum())).proportion_ci(1 - 0.05 / len(found.segments))
    wanted_low = min(max(r.mean() - half, u[top].mean() - 1), u[top].mean() - exact.high)
    wanted_high = max(min(r.mean() + half, u[top].mean()), u[top].mean() - exact.low)
    assert_close([first.low, first.high], [100 * wanted_low, 100 * wanted_high])


def test_sharp_predictions_that_are_wrong_do_not_narrow_intervals():
    """Their own variance let [0.00, 0.01] points pass as the interval of a segment without an outcome."""
    rng = np.random.default_rng(0)
    features = {"a": rng.integers(0, 6, 2000)}
    found = tc.segments((rng.random(2000) < 0.02).astype(int), np.full(2000, 1e-5), features, n_resamples=99)
    assert all(segment.low < -1.999 < segment.high for segment in found.segments)
    assert all(segment.low > -10 for segment in found.segments)


def test_sums_go_by_joint_cells_of_four_features_and_stay_the_same():
    rng = np.random.default_rng(1)
    columns = {f"f{j}": rng.integers(0, 3, 3000) for j in range(7)}
    read = read_features(columns, 3000, 5, 50)
    groups = group_rows(read, 3000, True, 50)
    assert len(groups.joints) == 6  # pairs of four blocks instead of 21 pairs of features
    values = rng.normal(size=(3000, 2))
    sums = groups.sums(values)
    for g in range(0, len(groups.names), 17):
        assert_close(sums[g], values[groups.rows_of(g)].sum(axis=0), scale=100.0)
        assert groups.rows_of(g).sum() == groups.rows[g]


def test_one_cause_is_one_finding():
    columns, u, y = world(6000, off=0.12)
    found = tc.segments(y, u, columns)
    assert sum(s.finding is not None for s in found.segments) > 3
    (finding,) = found.findings
    assert finding.segment.name == "region = south & device = phone" and finding.segment.direction == "too high"
    assert finding.segment.pvalue == 1 / 1000 and len(finding.overlapping) >= 3
    assert "device = phone" in finding.overlapping
    assert "1 finding" in repr(found) and "points too high" in repr(found)
    assert found.segments[0] == finding.segment


def test_two_causes_are_two_findings_and_extremes_have_a_word():
    rng = np.random.default_rng(2)
    n = 12_000
    a, b = rng.choice(["x", "y", "z"], n), rng.choice(["p", "q", "r", "s"], n)
    q = expit(rng.normal(0, 1.2, n))
    u = np.where(a == "x", expit(2.0 * logit(q)), np.where(a == "y", np.clip(q - 0.12, 0.01, 1), q))
    found = tc.segments(rng.random(n) < q, u, pd.DataFrame({"a": a, "b": b}))
    words = {finding.segment.name: finding.segment.direction for finding in found.findings}
    assert words.pop("a = x") == "over-confident"
    assert words["a = y"].startswith("too low")


def test_classes_by_confidence_and_one_by_one():
    rng = np.random.default_rng(3)
    n = 3000
    p = rng.dirichlet([1, 1, 1], n)
    side = rng.choice(["left", "right"], n)
    true = p.copy()
    true[side == "left"] = true[side == "left"] ** 0.5
    true /= true.sum(axis=1, keepdims=True)
    y = (true.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    found = tc.segments(y, p, {"side": side}, n_resamples=199)
    assert found.findings[0].segment.name == "side = left"
    assert found.findings[0].segment.direction == "over-confident"
    shifted = p * np.where(side == "left", 1.6, 1.0)[:, None] ** np.array([1, 0, 0])
    shifted /= shifted.sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    by_class = tc.segments(
        np.array(["a", "b", "c"])[y], shifted, {"side": side}, error="classwise", labels=["a", "b", "c"], n_resamples=99
    )
    assert by_class.compared == 9
    assert (by_class.findings[0].segment.name, by_class.findings[0].segment.of) == ("side = left", "a")
    assert by_class.findings[0].segment.direction == "too high"
    top = tc.TopPredictions(p.argmax(axis=1) == y, p.max(axis=1))
    assert tc.segments(None, top, {"side": side}, n_resamples=19).compared == 3


def test_weights_count_as_weights():
    columns, u, y = world(2000)
    same = tc.segments(y, u, columns, n_resamples=19, sample_weight=np.full(2000, 3.0))
    assert_close(same, tc.segments(y, u, columns, n_resamples=19), tolerance=1e-9)
    w = np.where(columns["device"] == "phone", 0.0, 1.0)
    half = tc.segments(y, u, {"region": columns["region"]}, n_resamples=19, sample_weight=w)
    kept = w > 0
    only = tc.segments(y[kept], u[kept], {"region": columns["region"][kept]}, n_resamples=19)
    ours, theirs = ({s.name: (s.mean_prediction, s.observed) for s in f.segments} for f in (half, only))
    assert_close(ours, {name: theirs[name] for name in ours})


def test_columns_of_every_kind():
    n = 400
    rng = np.random.default_rng(4)
    u, y = rng.random(n), rng.integers(0, 2, n)
    day = np.datetime64("2026-01-01") + np.arange(n).astype("timedelta64[D]")
    gaps = np.where(np.arange(n) % 4, rng.normal(size=n), np.nan)
    words = np.array(["x", None] * (n // 2), dtype=object)
    frame = pd.DataFrame({"day": day, "size": gaps, "word": words, "kind": pd.Categorical(["a", "b"] * (n // 2))})
    names = {s.name for s in tc.segments(y, u, frame, n_resamples=9).segments}
    assert {"size is missing", "word = x", "word is missing", "kind = a", "day ≤ 2026-03-21"} <= names
    first = {s.name for s in tc.segments(y, u, pl.DataFrame({"size": gaps}), n_resamples=9).segments}
    assert "size is missing" in first
    assert {"feature 0 = 1", "feature 1 = 0"} <= {
        s.name for s in tc.segments(y, u, rng.integers(0, 2, (n, 2)), n_resamples=9, pairs=False).segments
    }


def test_refused():
    columns, u, y = world(300)
    cases: dict[str, dict[str, Any]] = {
        "the outcome under another name": {"features": {"y": np.where(y, "yes", "no")}},
        "one value per row": {"features": {"a": [1, 2]}},
        "features is empty": {"features": {}},
        "min_rows": {"features": columns, "min_rows": 0},
        "error must be 'binary'": {"features": columns, "error": "classwise"},
    }
    for words, options in cases.items():
        with pytest.raises(ValueError, match=words):
            tc.segments(y, u, options.pop("features"), **options)
    many = {f"f{j}": np.random.default_rng(j).integers(0, 30, 300).astype(str) for j in range(40)}
    with pytest.raises(ValueError, match="more than 20,000 segments"):
        tc.segments(y, u, many, min_rows=1)
    with pytest.raises(ValueError, match="at least 12 groups, got 11"):
        tc.evaluate(y, u, features=columns, groups=np.arange(300) % 11)


def test_evaluate_holds_the_segments():
    columns, u, y = world(1500, off=0.2)
    result = tc.evaluate(y, u, features=columns, errors=["binary"], n_resamples=99)
    assert result.segments is not None and result.segments.findings
    assert "region = south & device = phone" in repr(result) and "finding" in result._repr_html_()
    assert result.to_dict()["segments"]["findings"][0]["segment"]["name"] == "region = south & device = phone"
    frame = result.segments.to_pandas()
    assert len(frame) == result.segments.compared and frame["pvalue"].is_monotonic_increasing
    assert "finding" in result.segments._repr_html_()


@pytest.mark.heavy
@pytest.mark.parametrize("of", ["spread", "rare"])
def test_the_level_is_familywise(of):
    for kind in worlds.SEGMENTS[:4]:
        _, wrong, plain = worlds.segment_level(kind, of, 100)
        assert wrong <= 0.12, kind
        assert plain >= 2 * wrong, kind


@pytest.mark.heavy
def test_a_segment_that_is_off_is_found():
    assert worlds.segment_power("80", 12, 20)[0] >= 0.9


@pytest.mark.heavy
def test_directions_and_intervals_hold_where_outcomes_vary_more():
    wrong, missed = worlds.segment_directions(3.0, "80", 60)
    assert wrong <= 0.12 and missed <= 0.12


def test_ordered_classes_are_checked_at_the_thresholds_that_are_shown():
    """Cumulative probabilities were divided by their sum: a class seemed 35 points too low."""
    y, p, options = arguments("ordered", 900, sharpen=1.6)
    found = tc.evaluate(y, p, errors=["ordinal"], features={"half": np.arange(900) % 2}, n_resamples=199, **options)
    assert found.segments is not None
    whole = {s.of: (s.mean_prediction, s.observed) for s in found.segments.segments if s.name == "all rows"}
    assert_close(
        {view.name: whole[view.name] for view in found.views},
        {v.name: (v.mean_report, v.frequency) for v in found.views},
        1.0,
    )
    true = [arguments("ordered", 300, seed=seed) for seed in range(20)]
    least = [
        tc.evaluate(y, p, errors=["ordinal"], features={"half": np.arange(300) % 2}, n_resamples=39, **options).segments
        for y, p, options in true
    ]
    assert (
        sum(min(s.pvalue for s in one.segments) <= 0.05 for one in least if one is not None) <= 4
    )  # binomial(20, .05)
