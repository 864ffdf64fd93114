"""Thresholds and discrimination against plain loops, the promise by simulation, and what is refused."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom

import truecal as tc
import where_worlds as worlds
from closeness import assert_close
from promise_worlds import all_outcomes, gates, worst_level
from truecal.inference.thresholds import _passed, discrimination
from truecal.kinds.inputs import read_inputs


def world(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet([0.3, 0.3, 0.3], n)
    y = (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return y, p


def passed_by_loops(errors, sizes, budget, risk):
    """Which tests reject, row by row: walks are numbers of errors, and those at or below a bound are taken out."""
    chance, spent, rows, passed = {0: 1.0}, 0.0, 0, []
    for seen, size, most in zip(errors, sizes, budget, strict=True):
        for _ in range(size - rows):
            step = dict.fromkeys(range(max(chance) + 2), 0.0)
            for k, p in chance.items():
                step[k] += p * (1 - risk)
                step[k + 1] += p * risk
            chance = {k: p for k, p in step.items() if p > 1e-20}
        rows, total, bound = size, 0.0, -1
        for k in sorted(chance):
            total += chance[k]
            if total > (most - spent) * (1 + 1e-12):
                break
            bound = k
        passed.append(seen <= bound)
        if not passed[-1]:
            spent += sum(p for k, p in chance.items() if k <= bound)
            chance = {k: p for k, p in chance.items() if k > bound}
    return passed


def budget_by_loops(expected, sizes, n, risk, delta):
    """Half of delta from the test of the largest expected coverage on, half in proportion to the root of coverage."""

    def gain(j):
        most = int(np.count_nonzero(binom.cdf(np.arange(sizes[j] + 1), sizes[j], risk) <= delta / 2)) - 1
        return 0.0 if most < 0 else float(binom.cdf(most, sizes[j], expected[j])) * sizes[j] / n

    planned = max(range(len(sizes)), key=gain)
    return [delta / 2 * (j >= planned) + delta / 2 * (sizes[j] / n) ** 0.5 for j in range(len(sizes))]


def test_the_curve_and_the_choice_are_those_of_loops():
    y, p = world()
    found = tc.threshold(y, p, risk=0.1, delta=0.05)
    c, wrong = p.max(axis=1), p.argmax(axis=1) != y
    errors, sizes = [], []
    for t, coverage, risk, bound, promise in zip(
        found.thresholds, found.coverages, found.risks, found.bounds, found.expectations, strict=True
    ):
        kept = c >= t
        n, k = int(kept.sum()), int(wrong[kept].sum())
        expected = [n / len(y), k / n, beta.ppf(0.95, k + 1, n - k), float((1 - c[kept]).mean())]
        assert_close([coverage, risk, bound, promise], expected, tolerance=1e-9)
        errors.append(k)
        sizes.append(n)
    budget = budget_by_loops(found.expectations, sizes, len(y), 0.1, 0.05)
    passed = passed_by_loops(errors, sizes, budget, 0.1)
    last = [t for t, one in zip(found.thresholds, passed, strict=True) if one][-1]
    assert found.threshold == last and found.accepted == (c >= last).sum()
    assert found.bound is not None and found.bound <= 0.1
    kept = c >= found.own_threshold
    assert (1 - c[kept]).mean() <= 0.1 and found.own_coverage == kept.mean()
    assert found.own_observed == wrong[kept].mean()
    assert "Accept rows with confidence at least" in repr(found) and "Going by the confidences alone" in repr(found)
    assert list(found.to_pandas()) == ["threshold", "coverage", "risk", "bound", "expected"]


@pytest.mark.parametrize(
    ("risk", "sizes"), [(0.3, (3, 6, 9, 10)), (0.4, (4, 6, 8, 10)), (0.5, (5, 7, 10)), (0.5, (2, 4, 6, 8, 10))]
)
def test_no_chances_of_errors_break_the_promise(risk, sizes):
    """Exactly, over all 1,024 outcomes of ten rows and 1,650 patterns of chances: the probability that a test
    rejects although its mean chance is at least the risk. Tests that have all of delta each are found out."""
    delta, places, rng = 0.2, np.array(sizes), np.random.default_rng(0)
    errors = all_outcomes(10).cumsum(axis=1)[:, places - 1]
    ours = np.array([_passed(row, places, delta * places / 10, risk) for row in errors])
    each = binom.cdf(errors, sizes, risk) <= delta
    assert worst_level(ours, places, risk, 150, rng) <= delta < worst_level(each, places, risk, 2, rng)


def test_an_unlucky_top_does_not_end_everything():
    """All starts were among the first quarter of the rows: coverage was a tenth of what the rows allow."""
    _, coverage, best, known = gates("bad at the top", 2000, 0.05, 8)
    assert coverage > 0.6 and best == 1.0 and known > 0.9


def test_rows_that_would_name_a_threshold():
    rng = np.random.default_rng(2)
    c = 0.5 + 0.5 * rng.beta(2, 1, 300)
    few: Any = tc.threshold(None, tc.TopPredictions(rng.random(300) < c, c))
    assert few.threshold is None and 1500 < few.rows_needed < 6000
    assert f"collect about {few.rows_needed:,} labelled rows" in few.sentence
    named = 0
    for _ in range(20):
        c = 0.5 + 0.5 * rng.beta(2, 1, few.rows_needed)
        named += tc.threshold(None, tc.TopPredictions(rng.random(len(c)) < c, c)).threshold is not None
    assert named >= 11  # of 16 expected
    unsure = tc.threshold(None, tc.TopPredictions(rng.random(300) < 0.6, np.full(300, 0.6)))
    assert unsure.rows_needed is None and "expect more errors" in unsure.sentence


def test_equal_confidences_are_accepted_together():
    rng = np.random.default_rng(1)
    c = rng.choice([0.6, 0.9, 0.99], 3000)
    right = rng.random(3000) < np.where(c == 0.99, 0.99, 0.8)
    found = tc.threshold(None, tc.TopPredictions(right, c))
    assert found.threshold == 0.99 and found.coverage == (c == 0.99).mean()
    assert found.thresholds.tolist() == [0.99, 0.9, 0.6]


def test_nothing_is_accepted_where_nothing_can_be_promised():
    y, p = world(50)
    found = tc.threshold(y, p)
    assert (found.threshold, found.coverage, found.observed) == (None, 0.0, None)
    assert "accept nothing" in repr(found) and "at least 59 rows without an error" in repr(found)
    assert found.to_dict()["threshold"] is None


def test_clusters_count_with_their_effective_size():
    y, p = world(4000)
    single = tc.threshold(y, p, risk=0.1)
    alike = tc.threshold(np.repeat(y, 3), np.repeat(p, 3, axis=0), risk=0.1, groups=np.repeat(np.arange(4000), 3))
    assert alike.threshold == pytest.approx(single.threshold, abs=0.02)
    assert "effective rows" in alike.notes[0]
    naive = tc.threshold(np.repeat(y, 3), np.repeat(p, 3, axis=0), risk=0.1)
    assert naive.coverage >= alike.coverage


def test_refused():
    y, p = world(200)
    for words, options in (("risk must lie", {"risk": 1.5}), ("delta must lie", {"delta": 0})):
        with pytest.raises(ValueError, match=words):
            tc.threshold(y, p, **options)
    with pytest.raises(ValueError, match="distributions over labels"):
        tc.threshold(np.eye(3)[y], p)


# -- discrimination ----------------------------------------------------------------------------------------------------


def area(wrong, n, general):
    rates = [sum(wrong[:k]) / k * (k / n if general else 1) for k in range(1, n + 1)]
    return sum((a + b) / 2 for a, b in pairwise(rates)) / n / (1 - 1 / n)


def test_areas_are_means_over_the_orders_of_ties():
    confidence, right = np.array([0.9, 0.8, 0.8, 0.8, 0.6, 0.6]), np.array([1, 0, 1, 1, 0, 1], dtype=bool)
    found = {d.name: d.value for d in discrimination(read_inputs(None, (right, confidence)), 0.95)}
    wrong = (~right).astype(float)
    for name, general in (("aurc", False), ("augrc", True)):
        values = [
            area([wrong[0], *(wrong[i] for i in middle), *(wrong[i] for i in last)], 6, general)
            for middle in permutations((1, 2, 3))
            for last in permutations((4, 5))
        ]
        assert_close(found[name], float(np.mean(values)))
    pairs = [(a, b) for a in confidence[right] for b in confidence[~right]]
    assert_close(found["auroc"], float(np.mean([(a > b) + (a == b) / 2 for a, b in pairs])))
    assert_close(found["accuracy_at_50%"], 1 - (0 + 2 / 3) / 3)


def test_values_of_torch_uncertainty():
    """AURC and AUGRC of version 0.13 on these rows."""
    rng = np.random.default_rng(1)
    p, y = rng.dirichlet(np.ones(3), 7), rng.integers(0, 3, 7)
    y = np.where(rng.random(7) < 0.6, p.argmax(axis=1), y)
    found = {d.name: d.value for d in discrimination(read_inputs(y, p), 0.95)}
    assert found["aurc"] == pytest.approx(0.1126984, abs=1e-6)
    assert found["augrc"] == pytest.approx(0.0952381, abs=1e-6)


def test_influences_are_derivatives():
    """The intervals rest on them: they are what a small weight more on a row changes."""
    from truecal.inference.thresholds import aurc_influence

    rng = np.random.default_rng(2)
    wrong = (rng.random(40) < 0.3).astype(float)
    k = np.arange(1, 41)
    found = aurc_influence(wrong, np.cumsum(wrong) / k)

    def weighted(w):
        rate = np.cumsum(w * wrong) / np.cumsum(w)
        return (w * rate).sum() / w.sum()

    for i in (0, 7, 39):
        w = np.ones(40)
        w[i] += 1e-6
        slope = (weighted(w) - weighted(np.ones(40))) / 1e-6 * 40
        assert slope == pytest.approx(found[i] - found.mean(), abs=1e-3)


def test_evaluate_has_discrimination_with_intervals():
    y, p = world(3000)
    found = {d.name: d for d in tc.evaluate(y, p, errors=["confidence"], n_resamples=19).discrimination}
    assert list(found) == ["aurc", "augrc", "auroc", "accuracy_at_50%", "accuracy_at_80%", "accuracy_at_90%"]
    for value in found.values():
        assert value.low is not None and value.high is not None and value.low < value.value < value.high
    few = tc.evaluate([0] * 50, [0.01] * 45 + [0.9] * 5, errors=["binary"], n_resamples=19).discrimination
    assert few[0].low is None and few[2].title == "AUROC"
    assert tc.evaluate(y, p, errors=["confidence"], n_resamples=19).to_dict()["discrimination"][0]["name"] == "aurc"


@pytest.mark.heavy
@pytest.mark.parametrize("kind", worlds.CONFIDENCES)
def test_the_promise_is_kept(kind):
    for n in (60, 200, 1000):
        broken, coverage, best = worlds.threshold_rates(kind, n, 300)
        assert broken <= 0.14 and coverage <= best + 0.05, n


@pytest.mark.heavy
def test_intervals_of_areas_cover():
    missed = np.zeros(3)
    truth = {d.name: d.value for d in discrimination(read_inputs(*world(200_000, 99)), 0.95)}
    for seed in range(150):
        found = discrimination(read_inputs(*world(300, seed)), 0.95)[:3]
        missed += [not (d.low or 0) <= truth[d.name] <= (d.high or 1) for d in found]
    assert (missed / 150 <= 0.11).all()
