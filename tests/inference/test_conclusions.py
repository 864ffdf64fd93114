"""Conclusions that were wrong too often, each in a world where the right one is known; few samples, generous bounds.

`python -m benchmarks.conclusions` measures the same with many samples.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax

import truecal as tc
from conclusion_worlds import PAIRS, base_rates, cross_entropy, directions, power, regret, same_order, subgroups
from truecal.inference.direction import Direction, mean_gap_of_table
from truecal.inference.omnibus import fold_test
from truecal.inference.spread import fold_bins
from truecal.kinds import TopPredictions
from truecal.results.evaluation import Evaluation

ROOT = Path(__file__).parents[2]


# -- the order of two models at every number of bins ------------------------------------------------------------------


@pytest.mark.skipif(not (ROOT / "results").is_dir(), reason="results are in the repository alone")
def test_the_page_of_the_theorem_shows_the_stored_shares():
    with open(ROOT / "results" / "conclusions" / "same-order.csv") as file:
        rows = list(csv.DictReader(file))
    wrong = [float(row["wrong"]) for row in rows]
    words = " ".join((ROOT / "docs" / "compare.md").read_text().split())
    assert {row["world"] for row in rows} == set(PAIRS) and {row["samples"] for row in rows} == {"200"}
    assert f"at most {max(wrong):.2f} of the answers".replace("0.", ".") in words


@pytest.mark.heavy
@pytest.mark.parametrize("world", PAIRS)
def test_whether_the_theorem_applies_is_rarely_wrong(world):
    held, _, _, wrong = same_order(world, 2000, 60)
    assert held >= 0.85 and wrong <= 0.09


# -- directions -------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("t", [2.0, 3.0])
def test_an_over_confident_model_that_is_right_on_average_is_not_too_high(t):
    """Its outcomes vary more than it says: under "calibrated" alone a level was named in .12 and .2."""
    level, spread = directions(t, 300, 200)
    assert level <= 0.09 and spread >= 0.95


@pytest.mark.slow
def test_calibrated_predictions_rarely_get_a_direction_on_either_axis():
    level, spread = directions(1.0, 300, 200)
    assert level + spread <= 0.09


@pytest.mark.slow
def test_a_shift_of_the_logits_is_a_level_and_no_spread():
    level, spread = directions(1.0, 500, 100, shift=0.6)
    assert level >= 0.95 and spread <= 0.12


@pytest.mark.parametrize(("t", "word"), [(1.6, "over-confident"), (0.6, "under-confident")])
def test_too_extreme_is_over_confident(t, word):
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, 2000)
    y = (rng.random(2000) < expit(z)).astype(int)
    found = tc.analysis.mean_gap(y, expit(t * z), error="binary")
    assert found.direction == Direction("", word, 100 * found.gap) and found.word == word
    assert tc.gap(y, expit(t * z), error="binary").direction == word
    assert tc.evaluate(y, expit(t * z), errors=["binary"], n_resamples=99).to_dict()["direction"]["spread"] == word
    both = tc.analysis.mean_gap(y, expit(t * z + 1), error="binary").direction
    assert (both.level, both.spread) == ("too high", word) and both.points > 10
    assert str(both) == f"too high and {word}"


def test_the_spread_survives_weights_clusters_and_tables():
    rng = np.random.default_rng(1)
    z = rng.normal(0, 1.5, 20_000)
    y, u = (rng.random(20_000) < expit(z)).astype(int), expit(1.6 * z)
    heavy = tc.analysis.mean_gap(y, u, error="binary", sample_weight=rng.lognormal(0, 0.5, 20_000))
    clusters = tc.analysis.mean_gap(y, u, error="binary", groups=np.arange(20_000) // 4)
    (table,) = tc.analysis.tabulate(tc.Binary(), tc.EqualWidth(50), y, u)
    for found in (heavy, clusters, mean_gap_of_table(table, tc.Binary())):
        assert found.word == "over-confident" and found.extreme > 0
    one = tc.analysis.mean_gap(y, np.full(20_000, y.mean()), error="binary")
    assert np.isnan(one.spread_pvalue) and one.word == "no clear direction"


def test_confidences_have_one_axis_and_its_size_is_confidence_minus_accuracy():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(4), 2000)
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    y = (p.cumsum(axis=1) < rng.random((2000, 1))).sum(axis=1)
    found = tc.analysis.mean_gap(y, sharp)
    points = 100 * (sharp.max(axis=1).mean() - (sharp.argmax(axis=1) == y).mean())
    assert found.direction.level == "" and found.direction.spread == "over-confident"
    assert found.direction.points == pytest.approx(points, rel=1e-12)


def test_a_few_misses_of_a_sure_model_still_have_a_direction():
    """Where few surprises are expected the t test has no power; the binomial law at the mean report has."""
    right = np.arange(50) >= 3
    found = tc.analysis.mean_gap(right, np.full(50, 0.999), error="top_label")
    assert found.word == "over-confident" and abs(found.gap) < 2 * found.se


# -- subgroups --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.heavy
def test_calibrated_subgroups_are_rarely_called_miscalibrated():
    """Thirty of them, each tested alone: some was rejected in two of three samples."""
    rejected, named = subgroups(30, 40, 15)
    assert rejected <= 4 / 15 and named <= 4 / 15


@pytest.mark.heavy
def test_subgroups_have_draws_enough_to_reject_and_a_bad_one_is_found():
    rng = np.random.default_rng(1)
    q = rng.uniform(0.1, 0.9, 30 * 80)
    by = np.repeat(np.arange(30), 80)
    u = np.where(by == 7, np.clip(q + 0.35, 0, 1), q)
    y = (rng.random(len(q)) < q).astype(int)
    found = tc.evaluate(y, u, by=by, errors=["binary"])
    standings = {name: part.verdict.standings[name] for name, part in found.subgroups.items()}
    assert [name for name, standing in standings.items() if standing.answer == "no"] == ["7"]
    part = found.subgroups["7"]
    assert part.test is not None and part.test.n_resamples >= 30 / 0.05 and part.standing == standings["7"]
    assert standings["7"].pvalue == pytest.approx(30 * part.test.pvalue)
    assert part.direction.word == "too high" and part.direction.clear == pytest.approx(0.05 / 30)
    pair = tc.compare(y, {"a": u, "b": u}, by=by, errors=["binary"])
    worst = pair.evaluations["a"].subgroups["7"]
    assert worst.test is not None and worst.standing is not None
    assert worst.standing.pvalue == pytest.approx(60 * worst.test.pvalue)


# -- cross-validation -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("folds", "n"), [(100, 100), (20, 200), (5, 200)])
@pytest.mark.heavy
def test_cross_validated_base_rates_are_not_called_miscalibrated(folds, n):
    """Pooled they were rejected in all leave-one-out runs, and in half of those with twenty folds."""
    pytest.importorskip("sklearn")
    rejected, off = base_rates(folds, n, 15)
    assert rejected <= 1 / 15 and off <= 6 / 15


def test_folds_are_tested_apart_and_joined_by_twice_the_mean():
    rng = np.random.default_rng(0)
    u = rng.random(300)
    y, folds = (rng.random(300) < u).astype(int), np.arange(300) % 3
    found = tc.evaluate(y, u, folds=folds, errors=["binary"], n_resamples=99).test
    assert found is not None and found.folds == 3 and found.n_samples == found.tested == 300
    each = [detail.pvalue for detail in found.details]
    alone = [tc.calibration_test(y[folds == f], u[folds == f], n_resamples=found.n_resamples).pvalue for f in range(3)]
    assert each == alone and found.pvalue == pytest.approx(min(1.0, 2 * np.mean(each)))
    sample = tc.Binary().read(y, np.clip(u + 0.4, 0, 1))
    off = fold_test(sample, (folds, 3), 99, 0)
    assert off.at_floor and off.pvalue == pytest.approx(0.02) and off.pvalue_text == "p ≤ 0.02"


def test_where_folds_are_too_small_test_and_gap_are_left_out_and_the_notes_say_so():
    rng = np.random.default_rng(0)
    y = (rng.random(60) < 0.4).astype(int)
    left_out = np.array([np.delete(y, i).mean() for i in range(60)])
    found = tc.evaluate(y, left_out, folds=np.arange(60), errors=["binary"], n_resamples=99)
    assert found.test is None and found.gap is None and found.row("binary").gap is None
    assert found.verdict.calibration == "Calibration was not tested."
    notes = " ".join(found.notes)
    assert "folds have fewer than 20 rows" in notes and "too few rows share a fold and a bin" in notes
    pooled: Any = tc.evaluate(y, left_out, errors=["binary"], n_resamples=99)
    assert found.score is not None and found.score < pooled.score - 0.05
    assert found.direction.word == "no clear direction"


def test_bins_of_folds_are_their_own_quantiles():
    rng = np.random.default_rng(0)
    reports, fold = rng.random(120), np.repeat([0, 1, 2], [60, 50, 10])
    bins = fold_bins(reports, (fold, 3), 10)
    for f, rows in ((0, 60), (1, 50), (2, 10)):
        m = min(max(1, round(10 * (rows / 120) ** 0.4)), rows // 2)
        rank = np.argsort(np.argsort(reports[fold == f]))
        own = ((rank + 1) * m - 1) // rows
        assert (bins[fold == f] - bins[fold == f].min() == own).all()
    assert len(set(bins[fold == 0]) & set(bins[fold != 0])) == 0
    tied = fold_bins(np.repeat([0.1, 0.5], 30), (np.zeros(60, int), 1), 6)
    assert [len(set(tied[:30])), len(set(tied[30:]))] == [1, 1]


# -- losses, maps, power ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_intervals_of_the_cross_entropy_cover_for_models_that_are_too_sure():
    """The reports themselves say how much surprises cost: coverage was .61 where sure rows are wrong in one of 100."""
    held, _ = cross_entropy("nine rows in ten too sure", 100, 100)
    assert held >= 0.93
    held, width = cross_entropy("calibrated", 300, 100)
    assert held >= 0.9 and width < 0.12


@pytest.mark.heavy
def test_maps_are_chosen_by_the_score():
    pytest.importorskip("sklearn")
    chosen, by_error = regret("temperature 1.5", 300, 3, 12)
    assert chosen < by_error


@pytest.mark.slow
@pytest.mark.heavy
def test_a_wiggle_is_found():
    """.12·sin(6πu) at n = 500: .6 with U at 5 and 20 bins, .9 for Hosmer and Lemeshow."""
    assert power("wiggle .12·sin(6πu)", 500, 100)[0] >= 0.72
    assert power("temperature 1.35", 500, 100)[0] >= 0.75


# -- decisions, gaps without pairs, tolerances ------------------------------------------------------------------------


def test_hard_predictions_get_a_note():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    hard = np.eye(3)[np.where(rng.random(200) < 0.8, y, 0)]
    words = "decisions, not probabilities"
    assert any(words in note for note in tc.evaluate(y, hard, errors=["confidence"], n_resamples=99).notes)
    binary = (y == 1).astype(int)
    assert any(words in n for n in tc.evaluate(binary, hard[:, 1], errors=["binary"], n_resamples=99).notes)
    soft = 0.98 * hard + 0.01
    assert not any(words in n for n in tc.evaluate(binary, soft[:, 1], errors=["binary"], n_resamples=99).notes)


@pytest.mark.parametrize("weighted", [False, True])
def test_one_row_per_bin_has_no_gap(weighted):
    rng = np.random.default_rng(0)
    u, w = rng.random(1000), rng.lognormal(0, 3, 1000) if weighted else None
    parts = tc.decompose(rng.random(1000) < u, u, error="binary", n_bins=1000, sample_weight=w)
    assert parts.gap is None and "no gap" in repr(parts) and parts.to_dict()["gap"] is None
    several: Any = tc.decompose(rng.random(1000) < u, u, error="binary", n_bins=(20, 1000), sample_weight=w)
    assert np.isnan(np.ravel(several.gap)).tolist() == [False, True]


def test_running_sums_leave_no_pairs_where_there_are_none():
    """Bins cut from running sums: a single row's weight squared is off by the rounding of all weights together."""
    torch = pytest.importorskip("torch")
    from truecal.sums.torch import read

    for seed in range(8):
        rng = np.random.default_rng(seed)
        u, w = rng.random(1000), 10 ** rng.uniform(-9, 0, 1000)
        arrays = (torch.tensor(x) for x in ((rng.random(1000) < u).astype(int), u, w))
        error = tc.ERRORS["binary"].with_bins(1000)
        assert np.isnan(error.parts(read(error.property, *arrays))[0].gap_sq)


@pytest.mark.slow
def test_a_tolerated_gap_passes_however_many_rows_there_are():
    rng = np.random.default_rng(0)
    chances = rng.uniform(0.2, 0.8, 50_000)
    y, u = (rng.random(50_000) < chances).astype(int), chances + 0.02
    found: Any = tc.calibration_test(y, u, n_resamples=99, max_gap=3)
    assert found.pvalue <= 0.01 and found.passed and found.low < 2 < found.high < 3
    assert found.sentence.endswith("is at most 3 points.") and found.sentence in repr(found)
    gap = tc.gap(y, u, error="binary")
    assert (found.gap, found.low, found.high, found.max_gap) == (gap.points, gap.low, gap.high, 3.0)
    assert not tc.calibration_test(y, u, n_resamples=99, max_gap=0.5).passed
    exceeds = tc.calibration_test(y, u, n_resamples=99, max_gap=0.5).sentence
    assert exceeds.endswith("exceeds 0.5 points.")
    near = tc.calibration_test(y, u, n_resamples=99, max_gap=2).sentence
    assert near.endswith("may be below or above 2 points: take more rows.")
    few = tc.calibration_test(y[:20], u[:20], n_resamples=99, max_gap=3)
    assert few.passed is None and few.verdict == "undecided"
    assert tc.calibration_test(y[:50], u[:50], n_resamples=99).passed is None
    two = np.column_stack([1 - u, u])
    assert tc.calibration_test(y, two, error="classwise", n_resamples=99, max_gap=3).passed


def test_a_tolerance_that_looks_like_a_share_is_explained():
    rng = np.random.default_rng(0)
    u = rng.uniform(0.2, 0.8, 300)
    y = rng.random(300) < u
    about: Any = {"error": "binary", "n_bins": 5, "n_resamples": 99}
    unit = " The limit is in percentage points: 5 for five points."
    assert tc.calibration_test(y, u, max_gap=0.05, **about).sentence.endswith("take more rows." + unit)
    assert tc.calibration_test(y, u**4, max_gap=0.05, **about).sentence.endswith("exceeds 0.05 points." + unit)
    assert unit not in tc.calibration_test(y, u, max_gap=0.5, **about).sentence
    assert unit not in tc.calibration_test(y, u, max_gap=0, **about).sentence


@pytest.mark.parametrize("wrong", [-1, 100, "3", True, float("nan")])
def test_a_tolerance_is_a_number_of_points(wrong):
    with pytest.raises(ValueError, match="max_gap must be points from 0 to 100"):
        tc.calibration_test([0, 1], [0.2, 0.7], max_gap=wrong)
    with pytest.raises(ValueError, match="max_gap needs one number of bins"):
        tc.calibration_test([0, 1] * 10, [0.2, 0.7] * 10, n_bins=(2, 5), max_gap=3)


# -- test and interval ------------------------------------------------------------------------------------------------


def _kinds(t: float, rng: np.random.Generator) -> Iterator[Evaluation]:
    """One evaluation per kind and source of predictions whose logits are multiplied by t."""
    n = 150
    z = rng.normal(0, 1.5, n)
    y, u = (rng.random(n) < expit(z)).astype(int), expit(t * z)
    few: dict[str, Any] = {"n_resamples": 99}
    yield tc.evaluate(y, u, errors=["binary"], **few)
    yield from tc.evaluate(y, u, errors=["binary"], by=np.arange(n) % 2, **few).subgroups.values()
    yield from tc.compare(y, {"a": u, "b": u**2}, errors=["binary"], **few).evaluations.values()
    yield tc.evaluate(y, u, errors=["binary"], folds=np.arange(n) % 2, **few)
    z = rng.normal(0, 1.5, (n, 3))
    labels = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    p = softmax(t * z, axis=1)
    yield tc.evaluate(labels, p, errors=["confidence", "classwise"], **few)
    yield tc.evaluate(labels, np.roll(p, 1, axis=0), errors=["confidence", "classwise"], **few)
    right = labels == p.argmax(axis=1)
    yield tc.evaluate(None, TopPredictions(right, p.max(axis=1)), **few)


@pytest.mark.parametrize("t", [1.0, 1.5, 2.0])
def test_the_interval_of_the_gap_excludes_zero_exactly_where_the_test_rejects(t: float) -> None:
    rng = np.random.default_rng(round(10 * t))
    for _ in range(4):
        for found in _kinds(t, rng):
            standing, gap = found.verdict.standings[found.name], found.gap
            assert found.test is not None and gap is not None
            if standing.state == "not rejected":
                assert gap.low <= 0 <= gap.high
            elif found.test.low_gap:
                assert 0 < gap.low <= gap.points <= gap.high
            else:  # the reason is not about this gap, and the sentence names it
                assert standing.reason in found.verdict.calibration
            row = found.row(found.headline)
            assert row.error not in found.gaps or row.gap_low == found.gaps[row.error].low


def test_lower_ends_hold_where_predictions_of_1_are_wrong() -> None:
    """A bin that expects no variance made its whole noise a gap: lower ends were too high in .41 of samples."""
    rng, held = np.random.default_rng(7), 0
    for seed in range(25):
        q = rng.beta(0.8, 0.8, 150)
        u = np.clip(np.where(q > 0.6, q + 0.12, q), 0, 1)
        found = tc.calibration_test((rng.random(150) < q).astype(int), u, n_resamples=99, seed=seed)
        cells = np.array_split(np.argsort(u, kind="stable"), 7)
        true = 100 * np.sqrt(sum((u[cell] - q[cell]).sum() ** 2 / len(cell) for cell in cells) / 150)
        assert found.low is not None
        held += found.low <= true
    assert held >= 22


def test_what_is_about_all_classes_is_not_said_of_the_confidence_alone() -> None:
    """The temperature rejects, and the gap of the confidence may be 0: the reason names what it is about."""
    rng = np.random.default_rng(0)
    z = rng.gumbel(size=(400, 20))
    y, p = (z + rng.gumbel(size=z.shape)).argmax(axis=1), softmax(1.25 * z, axis=1)
    found = tc.calibration_test(y, p, n_resamples=99)
    assert found.strongest == "over-confident" and found.reason.startswith("over-confident over all classes, by at")
