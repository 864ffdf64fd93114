"""What intervals of gap² and U rest on, against plain loops over units and cells; and the intervals they make."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import reference
import truecal as tc
from closeness import assert_close
from inference_cases import draw_labels, rows_of, scalar_chance, softmax
from truecal.inference.binned_sample import BinnedSample
from truecal.inference.spread import FEW_NOTE, SCARCE_NOTE, Spread, paired_spread, spreads
from truecal.inference.view_sums import Units
from truecal.kinds.named_errors import get_error

N = 26


def by_loops(cells, residuals, w, units, of, averaged):
    """theta, h, pairs between units, c0, effective pairs and evenly spread (v, c), over views, cells and units."""
    n, views = residuals.shape
    number = int(units.max()) + 1
    pairs = np.zeros((number, number))
    slope = norm = norm_one = meet = meet_sq = even_v = even_c = 0.0
    more = 4.0 * (2.0 / averaged if views > 1 else 1.0) * max(w) ** 2
    for v in range(views):
        rows = defaultdict(list)
        for i in range(n):
            rows[cells[v][i]].append(i)
        x: dict = {b: defaultdict(float) for b in rows}
        weight: dict = {b: defaultdict(float) for b in rows}
        for b, members in rows.items():
            for i in members:
                x[b][units[i]] += w[i] * residuals[i, v]
                weight[b][units[i]] += w[i]
        mass = {b: sum(weight[b].values()) ** 2 - sum(a * a for a in weight[b].values()) for b in rows}
        met = {b for b in rows if len(weight[b]) >= 2}
        whole = sum(sum(weight[b].values()) for b in met)
        f: dict = defaultdict(float)
        surprise = {b: {c: min(weight[b][c], 4 * x[b][c] ** 2 / weight[b][c]) for c in x[b]} for b in rows}
        one = sum(sum(s.values()) for s in surprise.values())
        two = sum(weight[b][c] * s for b in rows for c, s in surprise[b].items())
        own = sum(a * a for b in rows for a in x[b].values())
        everything = sum(w)
        for b in rows:
            total, size = sum(x[b].values()), sum(weight[b].values())
            a = 1 / (averaged * sum(w**2)) if of == "U" else (size / mass[b] / whole / averaged if b in met else 0.0)
            for c in x[b]:
                for d in x[b]:
                    if c != d:
                        pairs[c, d] += a * x[b][c] * x[b][d]
            bias = sum((w[i] * residuals[i, v]) ** 2 for i in rows[b]) / sum(w[i] ** 2 for i in rows[b])
            for c in x[b]:
                f[c] += a * bias * (x[b][c] - weight[b][c] * total / size) * (size - weight[b][c])
            norm += a * bias**2 * (mass[b] if b in met else 0.0)
            norm_one += a * (mass[b] if b in met else 0.0)
            s = list(surprise[b].values())
            both = 0.5 * (sum(s) ** 2 - sum(t * t for t in s)) * (one / two) ** 2
            meet, meet_sq = meet + a**2 * both, meet_sq + a**4 * both
            spread = (own + more) * size / everything
            even_v, even_c = even_v + 2 * a**2 * spread**2, even_c + 4 * a**2 * spread * size**2
        slope += 4 * sum(value**2 for value in f.values())
    c0 = (2.0 if views > 1 else 1.0) * slope / norm
    return pairs, c0, meet**2 / meet_sq, (even_v, even_c / norm_one)


def sample_of(kind, ties):
    """An error with definite cells, labels, predictions, the cells of each view and the residuals."""
    y, p = rows_of(3, N, 11, tied=ties)
    if kind == "binary":
        y, p = (y == 0).astype(int), p[:, 0]
        views, residuals = [p], (p - y)[:, None]
        error = tc.CalibrationError(tc.Binary(), tc.Quantile(4, ties="together"))
    elif kind == "confidence":
        pairs = reference.confidence_pairs(y, p)
        c, z = np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])
        views, residuals = [c], (c - z)[:, None]
        error = tc.CalibrationError(tc.Confidence(), tc.Quantile(4, ties="together"))
    else:
        views, residuals = list(p.T), p - np.eye(3)[y]
        error = tc.CalibrationError(tc.Classwise(), tc.Quantile(4, ties="together"))
    cells = [reference.quantile_bins(list(view), 4, "together") for view in views]
    return error, y, p, cells, residuals


@pytest.mark.parametrize("of", ["gap", "U"])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("kind", ["binary", "confidence", "classwise"])
def test_every_sum_is_its_definition(kind, ties, weighted, clustered, of):
    error, y, p, cells, residuals = sample_of(kind, ties)
    rng = np.random.default_rng(5)
    w = rng.uniform(0.2, 2.0, N) if weighted else np.ones(N)
    units = rng.permutation(np.arange(N) % 9) if clustered else np.arange(N)
    frozen = BinnedSample.of(error, error.read(y, p, sample_weight=w if weighted else None))
    (found,) = spreads(frozen, (units, 9) if clustered else None, of)
    unit = frozen.sample.row_weights[0] / w[0]  # weights are kept in units of a power of two: gap² and U have none
    pairs, c0, effective, even = by_loops(cells, residuals, w * unit, units, of, residuals.shape[1])
    assert found.theta == pytest.approx(pairs.sum(), abs=1e-14)
    np.testing.assert_allclose(found.h, pairs.sum(axis=1), atol=1e-14)
    np.testing.assert_allclose(found.H, pairs, atol=1e-14)  # fewer units than blocks: each is its own
    assert (found.c0, found.pairs) == pytest.approx((c0, effective))
    assert found.even == pytest.approx(even)
    exact = 2 * np.square(pairs).sum()
    assert found.v_exact == (pytest.approx(exact) if kind != "classwise" and not clustered else None)
    np.testing.assert_allclose(found.by.weights, np.bincount(units, w * unit))


@pytest.mark.slow
@pytest.mark.parametrize("of", ["gap", "U"])
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rule", [tc.TwoBin(), tc.Poisson(0.2)], ids=repr)
@pytest.mark.parametrize("kind", ["binary", "classwise"])
def test_kernels_give_the_same_sums(kind, rule, weighted, clustered, of):
    """Rows share a cell with chance G_ij: pairs of units are Σ G_ij x_i x_j, over the pairs' weight for gap²."""
    _, y, p, _, residuals = sample_of(kind, True)
    error = tc.CalibrationError(tc.Binary() if kind == "binary" else tc.Classwise(), rule)
    rng = np.random.default_rng(6)
    w = rng.uniform(0.2, 2.0, N) if weighted else np.ones(N)
    units = rng.permutation(np.arange(N) % 9) if clustered else np.arange(N)
    frozen = BinnedSample.of(error, error.read(y, p, sample_weight=w if weighted else None))
    (found,) = spreads(frozen, (units, 9) if clustered else None, of)
    member = np.eye(int(units.max()) + 1)[units]
    apart = units[:, None] != units[None, :]
    rows = np.zeros((N, N))
    for j, r in enumerate(residuals.T):
        g = scalar_chance(p if kind == "binary" else p[:, j], rule, None) * apart
        x = w * r
        scale = (w @ g @ w) if of == "gap" else (w @ w)
        rows += np.outer(x, x) * g / scale / residuals.shape[1]
    pairs = member.T @ rows @ member
    assert found.theta == pytest.approx(pairs.sum(), abs=1e-13)
    np.testing.assert_allclose(found.h, pairs.sum(axis=1), atol=1e-13)
    blocks = len(found.H)
    assert blocks == (len(pairs) if kind == "binary" and not clustered else min(16, len(pairs)))
    place = np.eye(blocks)[np.arange(len(pairs)) % blocks]
    between = place.T @ pairs @ place
    np.fill_diagonal(between, 0.0)
    np.testing.assert_allclose(found.H, between, atol=1e-13)
    if kind == "binary" and not clustered:
        assert found.v_exact == pytest.approx(2 * np.square(rows).sum())


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("rule", [tc.Quantile(5), tc.TwoBin(), tc.Poisson(0.2)], ids=repr)
def test_the_unit_turns_the_squared_gap_into_U(rule, clustered):
    """Equal cells: U is the squared gap times the pairs over n, whatever the clusters."""
    rng = np.random.default_rng(2)
    u = rng.random(100)
    y = (rng.random(100) < u**2).astype(int)
    error = tc.CalibrationError(tc.Binary(), rule)
    groups = (np.arange(100), 100) if clustered else None
    one, two = (spreads(BinnedSample.of(error, error.read(y, u)), groups, of)[0] for of in ("gap", "U"))
    assert one.unit * one.theta == pytest.approx(two.theta)


def test_equal_reports_divided_by_cuts_keep_the_exact_estimate():
    rng = np.random.default_rng(0)
    u = rng.choice([0.2, 0.7], 120)
    y = (rng.random(120) < u).astype(int)
    error = get_error("binary", 7)
    frozen = BinnedSample.of(error, error.read(y, u))
    (found,) = spreads(frozen)
    g = scalar_chance(u, tc.Quantile(7), 7)
    np.fill_diagonal(g, 0.0)
    r = u - y
    assert pytest.approx(r @ g @ r / 120) == frozen.parts[0].U
    assert_close(found.theta, frozen.parts[0].gap_sq, 1)
    assert found.h.sum() == pytest.approx(found.theta, abs=0.01)  # divided blocks count for the cell of most of them


@pytest.mark.slow
def test_the_block_form_estimates_the_closed_form():
    """v from the pairs between 64 blocks is unbiased for 2 Σ pairs²: over 200 samples within 3% of its mean."""
    rng = np.random.default_rng(1)
    blocks, exact = [], []
    error = get_error("binary", 8)
    for _ in range(200):
        u = rng.random(256)
        y = (rng.random(256) < np.clip(u + 0.1, 0, 1)).astype(int)
        (found,) = spreads(BinnedSample.of(error, error.read(y, u)))
        assert found.v_exact is not None
        exact.append(found.v_exact)
        blocks.append(replace(found, v_exact=None).variances()[0])
    # the noise of each block estimate is about 5%, so that of the mean of 200 is below 1%; the rest is centring
    assert np.mean(blocks) == pytest.approx(np.mean(exact), rel=0.03)


def spread(theta, v, c0=0.0, units=400, pairs=100.0):
    h = np.full(units, theta / units)
    return Spread(theta, h.__getitem__, np.zeros((64, 64)), Units(np.ones(units)), v, c0, pairs, (0.5, 0.1))


@pytest.mark.parametrize("theta", [-3.0, -1.0, 0.0, 0.5, 2.5, 9.0])
def test_the_ends_solve_the_quadratic(theta):
    """(θ − μ)² = t²(v + cμ) at both ends, unless the upper one would be below 0, where it is 0."""
    found = spread(theta, 1.0, c0=0.7)
    low, high, se = found.interval(0.95)
    t = stats.t.ppf(0.975, 63)
    c = 0.7 / (max(theta, 0) + 1.0)  # the jackknife sees no spread here
    for end in (low, high):
        if end != 0.0:
            assert (theta - end) ** 2 == pytest.approx(t * t * (1.0 + c * max(end, 0.0)))
    assert low < theta < high and high >= 0
    assert se == pytest.approx(np.sqrt(1 + c * max(theta, 0)))


def test_far_below_zero_the_upper_end_is_zero():
    low, high, _ = spread(-3.0, 1.0).interval(0.95)
    assert high == 0.0 and low < -3


def test_scarce_surprises_and_few_units_are_said():
    assert spread(0.1, 1.0).note == ""
    scarce = spread(0.1, 0.01, pairs=3.0)
    assert scarce.note == SCARCE_NOTE
    assert scarce.interval(0.95)[1] > spread(0.1, 0.01).interval(0.95)[1]  # as wide as evenly spread surprises make it
    assert spread(0.1, 1.0, units=8).note == FEW_NOTE
    uneven = Units(np.r_[100.0, np.ones(39)])
    one_large = Spread(0.1, np.zeros(40).__getitem__, np.zeros((40, 40)), uneven, None, 0.0, 100.0)
    assert one_large.by.effective < 2 and one_large.note == FEW_NOTE


def test_the_difference_of_a_model_and_itself_is_nothing():
    y, p = rows_of(3, 300, 1, tied=False)
    error = get_error("classwise", 10)
    (one,) = spreads(BinnedSample.of(error, error.read(y, p)))
    assert paired_spread(one, one, 0.95) == (0.0, 0.0, 0.0, "")


def test_a_paired_interval_is_shorter_than_two_single_ones():
    rng = np.random.default_rng(4)
    z = 1.5 * rng.normal(size=(2000, 3))
    y = draw_labels(rng, softmax(z))
    error = get_error("classwise", 20)
    a, b = (spreads(BinnedSample.of(error, error.read(y, softmax(t * z))))[0] for t in (1.5, 1.6))
    low, high, _, note = paired_spread(a, b, 0.95)
    assert note == "" and low < a.theta - b.theta < high
    alone = [found.interval(0.95) for found in (a, b)]
    assert high - low < 0.5 * sum(h - s for s, h, _ in alone)


def test_where_one_model_is_not_to_be_trusted_the_difference_holds_both_intervals():
    rng = np.random.default_rng(0)
    y = np.r_[np.zeros(3), np.ones(97)].astype(int)
    error = get_error("binary", 15)
    a, b = (
        spreads(BinnedSample.of(error, error.read(y, u)))[0]
        for u in (rng.uniform(0.985, 0.999, 100), rng.uniform(0.9, 0.99, 100))
    )
    low, high, _, note = paired_spread(a, b, 0.95)
    assert note == SCARCE_NOTE
    (low_a, high_a, _), (low_b, high_b, _) = a.interval(0.95), b.interval(0.95)
    assert low <= low_a - high_b and high >= high_a - low_b
