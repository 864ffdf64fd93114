"""Estimates for unlabelled rows: their formula, coverage, the check of sameness, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2_contingency, ks_2samp

import truecal as tc
import where_worlds as worlds
from closeness import assert_close
from truecal.inference.estimation import _chi_square, _kolmogorov


def world(n=400, N=3000, seed=0, kind="over-confident"):
    rng = np.random.default_rng(seed)
    p, q = worlds.population(kind, n + N, rng)
    y = (rng.random(n + N) < q).astype(int)
    return y, p


def test_estimates_are_those_of_the_formula():
    y, p = world()
    found = tc.estimate(y[:400], p[:400], p[400:], cost=(1, 5))
    lab, new, z = p[:400], p[400:], y[:400]
    decide = p > 1 / 6
    values = {
        "accuracy": ((lab > 0.5) == z, np.maximum(lab, 1 - lab), np.maximum(new, 1 - new)),
        "positive rate": (z, lab, new),
        "Brier score": ((lab - z) ** 2, lab * (1 - lab), new * (1 - new)),
        "expected cost": (
            np.where(decide[:400], 1 - z, 5 * z),
            np.where(decide[:400], 1 - lab, 5 * lab),
            np.where(decide[400:], 1 - new, 5 * new),
        ),
    }
    for name, (seen, own, expected) in values.items():
        one = found[name]
        seen = seen.astype(float)
        power = np.cov(seen, own, bias=True)[0, 1] / ((1 + 400 / 3000) * np.append(own, expected).var())
        power = min(max(power, 0.0), 1.0)
        assert_close(one.power, power, tolerance=1e-9)
        assert_close(one.value, seen.mean() + power * (expected.mean() - own.mean()), tolerance=1e-9)
        assert_close([one.naive, one.labelled], [expected.mean(), seen.mean()], tolerance=1e-9)
        assert one.low < one.value < one.high and one.labelled_low < one.labelled < one.labelled_high
    assert found["accuracy"].naive > found["accuracy"].high
    assert found["positive rate"].high - found["positive rate"].low < 0.95 * (
        found["positive rate"].labelled_high - found["positive rate"].labelled_low
    )
    assert not found.warning and "random draw" in repr(found) and "Assumes" in found._repr_html_()
    assert list(found.to_pandas()["name"]) == list(values)


def test_several_classes_and_top_predictions():
    rng = np.random.default_rng(1)
    p = rng.dirichlet([0.5] * 4, 1500)
    y = (p.cumsum(axis=1) < rng.random((1500, 1))).sum(axis=1)
    found = tc.estimate(y[:300], p[:300], p[300:], cost=1 - np.eye(4))
    assert [q.name for q in found.quantities] == ["accuracy", "Brier score", "expected cost"]
    assert_close(found["expected cost"].value, 1 - found["accuracy"].value, tolerance=1e-9)
    top = tc.TopPredictions(p[:300].argmax(axis=1) == y[:300], p[:300].max(axis=1))
    alone = tc.estimate(None, top, p[300:].max(axis=1))
    assert_close(alone["accuracy"].value, found["accuracy"].value, tolerance=1e-9)


def test_no_error_seen_still_leaves_some():
    rng = np.random.default_rng(2)
    p = np.clip(rng.choice([0.001, 0.999], 1030), 0, 1)
    y = (p[:30] > 0.5).astype(int)
    accuracy = tc.estimate(y, p[:30], p[30:])["accuracy"]
    assert accuracy.low < 0.9 and accuracy.high == 1.0


@pytest.mark.slow
def test_a_shift_is_noticed_and_sameness_is_that_of_scipy():
    y, p = world(400, 3000)
    assert tc.estimate(y[:400], p[:400], p[400:] ** 2).warning
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=300), rng.normal(size=900) + 0.1
    assert _kolmogorov(a, b) == pytest.approx(ks_2samp(a, b, method="asymp").pvalue, abs=0.03)
    counts = np.array([[30, 50, 20], [80, 120, 90]])
    assert_close(_chi_square(*counts), float(chi2_contingency(counts, correction=False).pvalue), tolerance=1e-9)
    wrong = [
        tc.estimate(*(lambda y, p: (y[:200], p[:200], p[200:]))(*world(200, 500, s))).shift_pvalue for s in range(40)
    ]
    assert np.mean(np.array(wrong) <= 0.05) <= 0.15


def test_clusters_widen_the_interval():
    y, p = world(400)
    rows = np.repeat(np.arange(400), 4)
    together = tc.estimate(y[rows], p[rows], p[400:], groups=rows)["accuracy"]
    apart = tc.estimate(y[rows], p[rows], p[400:])["accuracy"]
    assert together.high - together.low > 1.5 * (apart.high - apart.low)


def test_refused():
    y, p = world(100)
    for words, arguments in (
        ("y_true must have at least 10 labelled rows", (y[:5], p[:5], p)),
        ("p_new must lie", (y, p, p + 1)),
    ):
        with pytest.raises(ValueError, match=words):
            tc.estimate(*arguments)
    with pytest.raises(ValueError, match="cost must be finite numbers"):
        tc.estimate(y, p, p, cost=[1, 2, 3])
    with pytest.raises(KeyError, match="was not estimated"):
        tc.estimate(y, p, p)["F1"]


@pytest.mark.heavy
@pytest.mark.parametrize("kind", worlds.POPULATIONS)
def test_intervals_cover(kind):
    for n in (30, 300):
        for name, (held, *_) in worlds.estimate_rates(kind, n, 150, 2000).items():
            assert held >= (0.85 if n == 30 else 0.9), (n, name)
