"""evaluate and compare hold what the public functions say one by one, and the verdict claims no more than that."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import truecal as tc
from truecal.core.properties import Outcomes
from truecal.evaluation.budget import Plan, draw_cost
from truecal.evaluation.comparison import _cells, _condition, compare
from truecal.evaluation.inputs import PROPERTIES, TopPredictions, default_bins, read_inputs
from truecal.evaluation.measuring import ErrorValue, vector_bins
from truecal.evaluation.model import HEAVY, evaluate
from truecal.evaluation.verdict import _claims, _differences, standing
from truecal.inference import (
    Part,
    calibration_test,
    confidence_interval,
    consistency_bands,
    mean_gap,
    null_band,
    paired_difference,
)


def softmax(z):
    p = np.exp(z - z.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def world(n=400, k=4, seed=0):
    """Logits, and labels drawn from their softmax."""
    rng = np.random.default_rng(seed)
    z = 1.5 * rng.normal(size=(n, k))
    return z, (softmax(z).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)


@pytest.fixture(scope="module")
def data():
    z, y = world()
    rng = np.random.default_rng(1)
    models = {"true": softmax(z), "sharp": softmax(2 * z), "noisy": softmax(z + 0.7 * rng.normal(size=z.shape))}
    return y, models


@pytest.fixture(scope="module")
def comparison(data):
    return compare(*data, n_bins=(3, 5, 20), resamples=59)


def test_every_named_error_is_measured_for_some_kind_of_predictions():
    covered = tuple(kind for kinds in PROPERTIES.values() for kind in kinds)
    rest = {name for name, error in tc.ERRORS.items() if not isinstance(error.property, covered)}
    assert all(isinstance(tc.ERRORS[name].property, Outcomes) for name in rest)
    inputs = read_inputs([0, 1, 1], [[0.5, 0.5], [0.2, 0.8], [0.4, 0.6]])
    assert {tc.ERRORS[name].property for name in inputs.error_names()} == {tc.Classwise(), tc.Confidence(), tc.Full()}


def test_values_and_parts_are_those_of_the_public_functions(data, comparison):
    y, models = data
    for name, proba in models.items():
        for row in comparison.evaluations[name].errors:
            error = tc.ERRORS[row.error] if row.n_bins is None else tc.ERRORS[row.error].with_bins(row.n_bins)
            assert row.value == pytest.approx(error(y, proba), rel=1e-12)
            assert (row.symbol, row.truthful) == (error.symbol, error.truthful)
            if error.norm == "l2":
                parts = error.decompose(y, proba)
                assert (row.loss, row.U) == pytest.approx((parts.loss, parts.U))
                assert row.score == pytest.approx(len(y) * row.value)


def test_intervals_bands_and_tests_are_those_of_inference(data, comparison):
    y, models = data
    p = models["sharp"]
    found = comparison.evaluations["sharp"]
    for name in ("classwise", "confidence", "confidence_two_bin"):
        for row in found.rows(name):
            for what, low, high in (("U", row.U_low, row.U_high), ("score", row.low, row.high)):
                ci = confidence_interval(y, p, error=name, n_bins=row.n_bins, what=what, resamples=59)
                assert (low, high) == pytest.approx((ci.low, ci.high))
    for name in ("classwise_l1", "confidence_l1"):
        band = null_band(y, p, error=name, n_bins=(3, 5, 20), resamples=59)
        assert [row.null_low for row in found.rows(name)] == pytest.approx(list(band.low))
        assert [row.null_high for row in found.rows(name)] == pytest.approx(list(band.high))
        assert [row.null_pvalue for row in found.rows(name)] == pytest.approx(list(band.pvalue))
        assert all(row.U is None and row.low is None for row in found.rows(name))
    test = calibration_test(y, p, error="classwise", n_bins=(3, 5, 20), resamples=59)
    assert found.test.pvalue == test.pvalue
    assert found.direction == mean_gap(y, p)
    assert found.direction.word == "over-confident"
    bands = consistency_bands(y, p, error="classwise", n_bins=15, resamples=59)
    np.testing.assert_array_equal(found.reliability["classwise"].low, bands.low)
    np.testing.assert_allclose(found.reliability["classwise"].table.count, bands.count)
    np.testing.assert_allclose(found.reliability["classwise"].table.mean_outcome, bands.mean_outcome)


def test_losses_have_the_t_interval_of_a_mean(data, comparison):
    y, models = data
    values = tc.brier(y, models["true"], per_example=True)
    loss = comparison.evaluations["true"].loss("brier")
    half = 1.9659 * values.std(ddof=1) / 20  # t quantile of 399 degrees of freedom
    assert (loss.value, loss.low, loss.high) == pytest.approx(
        (values.mean(), values.mean() - half, values.mean() + half), rel=1e-4
    )


@pytest.mark.parametrize("clustered", [False, True])
def test_pairs_are_paired_differences(data, clustered):
    y, models = data
    groups = np.arange(len(y)) // 4 if clustered else None
    result = compare(y, models, n_bins=(5, 20), errors=["classwise", "confidence"], resamples=19, groups=groups)
    for error in ("classwise", "confidence"):
        public = paired_difference(y, models["true"], models["noisy"], error=error, n_bins=(5, 20), groups=groups)
        for m, wanted in zip((5, 20), public, strict=True):
            pair = result.pair("true", "noisy", error, m)
            assert (pair.loss, pair.U, pair.D) == (wanted.loss, wanted.U, wanted.D)


def test_clusters_keep_their_pairs_apart_and_withhold_what_needs_independent_rows():
    """Four copies of each row: loss + U + within is n·error, and no test, null band or consistency band is shown."""
    rng = np.random.default_rng(0)
    u = rng.beta(0.5, 0.5, 60)
    y = (rng.random(60) < u).astype(int)
    names = ["binary", "binary_two_bin", "binary_l1"]
    groups = np.repeat(np.arange(60), 4)
    copies = np.repeat(np.stack([y, u], axis=1), 4, axis=0)
    found = evaluate(copies[:, 0].astype(int), copies[:, 1], n_bins=(5, 15), errors=names, groups=groups)
    for row in found.rows("binary") + found.rows("binary_two_bin"):
        assert row.loss + row.U + row.within == pytest.approx(240 * row.value)
        assert row.score == pytest.approx(row.loss + row.U) and row.low <= row.score <= row.high
    once = evaluate(y, u, n_bins=(5, 15), errors=names, resamples=39)
    assert pytest.approx(4 * once.rows("binary")[0].U) == found.rows("binary")[0].U
    assert once.rows("binary")[0].within is None and once.tests and once.rows("binary_l1")[0].null_low is not None
    assert not found.tests and found.rows("binary_l1")[0].null_low is None
    assert found.reliability["binary"].bands is None and once.reliability["binary"].bands is not None
    assert any("independent rows" in note for note in found.notes) and "within clusters" in repr(found)
    by = np.repeat(np.arange(60) < 2, 4)  # a subgroup of two clusters has its parts, but no intervals
    part = evaluate(copies[:, 0].astype(int), copies[:, 1], n_bins=5, errors=["binary"], groups=groups, by=by)
    row = part.subgroups["True"].rows("binary")[0]
    assert row.U_low is None and row.loss + row.U + row.within == pytest.approx(8 * row.value)


def test_rows_without_weight_do_not_narrow_the_interval_of_a_loss():
    rng = np.random.default_rng(0)
    y, u = rng.integers(0, 2, 40), rng.random(40)
    w = np.r_[np.ones(10), np.zeros(30)]
    whole = evaluate(y, u, n_bins=2, errors=["binary"], resamples=39, sample_weight=w)
    alone = evaluate(y[:10], u[:10], n_bins=2, errors=["binary"], resamples=39)
    for one, other in zip(whole.losses, alone.losses, strict=True):
        assert (one.low, one.high) == pytest.approx((other.low, other.high))
    few = evaluate(y, u, n_bins=5, errors=["binary"], resamples=39, sample_weight=np.r_[1, 2, np.zeros(38)])
    assert few.rows("binary")[0].U_low is None and few.losses[0].low is None
    assert any("with weight: no intervals" in note for note in few.notes)
    extreme = evaluate(y, u, n_bins=5, errors=["binary"], resamples=39, sample_weight=w * 1e170)
    assert (
        pytest.approx(evaluate(y, u, n_bins=5, errors=["binary"], resamples=39, sample_weight=w).rows("binary")[0].U)
        == extreme.rows("binary")[0].U
    )


def test_rows_that_differ_alike_tell_no_models_apart():
    """Three equal rows: the paired standard error is 0, which is no evidence."""
    result = compare(np.ones(3, int), {"a": [0.4] * 3, "b": [0.9] * 3}, n_bins=1, errors=["binary"])
    assert "cannot tell b" in result.verdict.predictive and "no interval" in result.verdict.predictive
    assert result.pair("a", "b").lower_loss is None and result.pair("a", "b").condition == "undecided"
    assert json.loads(json.dumps(result.to_dict(), allow_nan=False))["pairs"][0]["loss"]["pvalue"] is None


def test_sharp_models_get_a_note_instead_of_false_certainty():
    u = np.random.default_rng(0).uniform(0.985, 0.999, 100)
    found = evaluate(np.ones(100, int), u, n_bins=(5, 15), errors=["binary"])
    assert any("binary at 5 and 15 bins is not to be trusted" in note for note in found.notes)
    assert found.direction.word == "no clear direction"
    assert found.loss("classification_error").low is None  # no error was seen: that is no certainty of none


def test_weights_reach_every_part(data):
    y, models = data
    w = np.random.default_rng(3).random(len(y))
    found = evaluate(y, models["true"], n_bins=5, sample_weight=w, resamples=19, errors=["classwise", "confidence_l1"])
    assert found.errors[0].value == pytest.approx(tc.classwise_error(y, models["true"], n_bins=5, sample_weight=w))
    assert found.errors[1].value == pytest.approx(
        tc.confidence_error(y, models["true"], n_bins=5, norm="l1", strategy="uniform", sample_weight=w)
    )
    assert found.loss("brier").value == pytest.approx(tc.brier(y, models["true"], sample_weight=w))
    ci = confidence_interval(y, models["true"], error="classwise", n_bins=5, sample_weight=w)
    assert found.errors[0].U_low == pytest.approx(ci.low)


def test_subgroups_are_evaluations_of_their_rows(data):
    y, models = data
    by = np.where(np.arange(len(y)) < 150, "first", "second")
    found = evaluate(y, models["sharp"], by=by, resamples=19, errors=["classwise", "confidence_l1"])
    alone = evaluate(y[:150], models["sharp"][:150], resamples=19, errors=["classwise", "confidence_l1"], name="first")
    assert found.subgroups["first"].to_dict() == alone.to_dict()
    assert list(found.subgroups) == ["first", "second"]
    assert set(found.to_pandas()["subgroup"].dropna()) == {"first", "second"}
    assert "subgroup second, 250 samples" in repr(found)
    with pytest.raises(ValueError, match=r"by must give one group per row, shape \(400,\), got shape \(399,\)"):
        evaluate(y, models["true"], by=by[1:])


@pytest.mark.parametrize("rename", [lambda y: y, lambda y: 10 - 3 * y, lambda y: np.array(list("dcba"))[y]])
def test_subgroups_that_are_the_outcomes_are_refused(data, rename):
    y, models = data
    words = "by gives each outcome a subgroup of its own"
    with pytest.raises(ValueError, match=words):
        evaluate(y, models["true"], by=rename(y), errors=["classwise"])
    with pytest.raises(ValueError, match=words):
        compare(y, models, by=rename(y), errors=["classwise"])
    top = TopPredictions(y == models["true"].argmax(axis=1), models["true"].max(axis=1))
    with pytest.raises(ValueError, match=words):
        compare(y, {"top": top, "all": models["true"]}, by=rename(y))
    with pytest.raises(ValueError, match=words):
        evaluate(None, top, by=np.where(top.correct, "right", "wrong"))


def test_subgroups_that_only_resemble_the_outcomes_are_measured(data):
    y, models = data
    merged = np.minimum(y, 2)  # two classes together
    other = np.r_[(y[0] + 1) % 4, y[1:]]  # one row elsewhere
    for by in (merged, other, np.zeros(len(y), int)):
        found = evaluate(y, models["true"], n_bins=5, by=by, errors=["classwise"], resamples=9)
        assert len(found.subgroups) == len(np.unique(by))


def test_a_subgroup_of_two_rows_has_values_and_no_intervals(data):
    y, models = data
    by = (np.arange(len(y)) < 2).astype(int)
    part = evaluate(y, models["true"], by=by, resamples=19, errors=["classwise"]).subgroups["1"]
    assert part.errors[0].U_low is None and part.losses[0].low is None
    assert "fewer than three rows: no intervals" in part.notes


def test_binary_probabilities_get_binary_and_confidence_errors():
    u = np.random.default_rng(0).random(100)
    y = np.random.default_rng(1).random(100) < u
    found = evaluate(y.astype(int), u, n_bins=5, resamples=19)
    assert found.headline == "binary"
    assert found.rows("binary")[0].value == pytest.approx(tc.binary_error(y.astype(int), u, n_bins=5))
    columns = np.column_stack([1 - u, u])
    assert found.rows("confidence")[0].value == pytest.approx(tc.confidence_error(y.astype(int), columns, n_bins=5))
    assert found.loss("brier").value == pytest.approx(tc.brier(y.astype(int), columns))
    named = evaluate(np.where(y, "yes", "no"), u, pos_label="yes", n_bins=5, resamples=19)
    assert named.rows("binary")[0].value == found.rows("binary")[0].value


def test_top_label_predictions_get_confidence_errors_only_and_say_so(data):
    y, models = data
    top = models["true"].argmax(axis=1)
    pair = (y == top, models["true"].max(axis=1))
    found = evaluate(None, pair, n_bins=(5, 20), resamples=19)
    assert found.error_names == ("top_label", "top_label_l1")
    assert [v.name for v in found.losses] == ["classification_error", "confidence_loss"]
    assert found.loss("confidence_loss").value == pytest.approx(tc.confidence_loss(y, models["true"]))
    assert found.rows("top_label")[0].value == pytest.approx(tc.confidence_error(y, models["true"], n_bins=5))
    assert "only the top class is known" in found.notes[0]


def test_one_top_label_model_brings_all_models_to_their_top_class(data):
    y, models = data
    top = models["sharp"].argmax(axis=1)
    mixed = {"true": models["true"], "sharp": TopPredictions(y == top, models["sharp"].max(axis=1))}
    result = compare(y, mixed, n_bins=(5, 20), resamples=19)
    assert result.error_names == ("top_label", "top_label_l1")
    assert any("only the top class is known for sharp" in note for note in result.notes)
    assert any("dominance is by 2 losses" in note for note in result.notes)
    assert result.evaluations["true"].rows("top_label")[1].value == pytest.approx(
        tc.confidence_error(y, models["true"], n_bins=20)
    )
    assert "ECE would have put" in result.verdict.ece


def test_rankings_stability_dominance_and_chain(data, comparison):
    y, models = data
    table, counts = comparison.values("confidence_l1")
    assert counts == (3, 5, 20)
    assert table.shape == (3, 3)
    ranking = next(r for r in comparison.rankings if r.error == "confidence_l1" and r.n_bins == 5)
    assert ranking.order == tuple(np.array(comparison.names)[np.argsort(table[1])])
    assert comparison.stability["confidence_l1"].kendall.shape == (3, 3)
    assert "classwise_two_bin" not in comparison.stability
    losses = {name: [loss(y, p) for loss in tc.LOSSES.values()] for name, p in models.items()}
    assert comparison.dominance.chain == tc.dominance(losses).chain
    assert {(c.error, c.n_bins) for c in comparison.chain} == {(r.error, r.n_bins) for r in comparison.rankings}


def test_flips_are_pairs_that_change_places_and_l1_has_no_paired_interval():
    z, y = world(seed=5)
    rng = np.random.default_rng(6)
    models = {f"m{i}": softmax((z + 0.3 * rng.normal(size=z.shape)) * (1 + 0.05 * i)) for i in range(5)}
    result = compare(y, models, n_bins=(5, 20, 100), errors=["classwise", "confidence_l1"], resamples=19)
    assert {flip.error for flip in result.flips} == {"classwise", "confidence_l1"}
    for flip in result.flips:
        table, counts = result.values(flip.error)
        i, j = result.names.index(flip.first), result.names.index(flip.second)
        assert flip.first_lower_at == tuple(m for m, row in zip(counts, table, strict=True) if row[i] < row[j])
        assert flip.second_lower_at == tuple(m for m, row in zip(counts, table, strict=True) if row[i] > row[j])
        assert flip.first_lower_at and flip.second_lower_at
        assert (flip.beyond_noise is None) == (flip.error == "confidence_l1")
        if flip.beyond_noise is not None:
            parts = [result.pair(flip.first, flip.second, "classwise", m).D for m in counts]
            assert flip.beyond_noise == (any(d.high < 0 for d in parts) and any(d.low > 0 for d in parts))
    assert len(result.to_pandas("flips")) == len(result.flips)


def test_copies_of_a_model_in_other_precisions_do_not_flip():
    """Their errors differ in the eighth digit, with either sign."""
    z, y = world(n=1000)
    p = softmax(z)
    models = {"double": p, "single": p.astype(np.float32), "rounded": p.astype(np.float32).astype(float)}
    result = compare(y, models, n_bins=(2, 5, 20, 100, 300), resamples=39)
    values = {error: result.values(error)[0] for error in result.error_names}
    assert any((np.diff(v[:, :2]) < 0).any() and (np.diff(v[:, :2]) > 0).any() for v in values.values())
    assert result.flips == ()
    assert all(ranking.ranks == (2.0, 2.0, 2.0) for ranking in result.rankings)
    assert "double and single and rounded first at 2, 5, 20, 100 and 300 bins" in result.verdict.ece


def test_a_flip_of_a_squared_error_can_be_beyond_noise():
    """One model predicts better and is miscalibrated everywhere alike: few bins see that, many bins see the loss."""
    rng = np.random.default_rng(0)
    mu = rng.uniform(0.05, 0.95, size=4000)
    y = (rng.random(4000) < mu).astype(int)
    result = compare(
        y,
        {"coarse": np.full(4000, 0.5), "sharp": np.clip(mu + 0.1, 0, 1)},
        n_bins=(5, 1600),
        errors=["binary"],
        resamples=99,
    )
    (flip,) = result.flips
    assert (flip.first_lower_at, flip.second_lower_at, flip.beyond_noise) == ((5,), (1600,), True)
    assert result.pair("coarse", "sharp", "binary", 5).condition == "fails"


def part(value, half):
    return Part(value, value - half, value + half, half / 2, 0.5)


def error_row(u, half, m=10):
    return ErrorValue("binary", "LinCE_binary", True, m, 1.0, 1.0, 1.0, u, u - half, u + half)


@pytest.mark.parametrize(
    ("gap", "first", "second", "expected"),
    [
        (part(-0.10, 0.01), error_row(0.0, 0.02), error_row(0.0, 0.02), "holds"),
        (part(-0.10, 0.01), error_row(0.01, 0.2), error_row(0.0, 0.02), "plausible"),
        (part(-0.10, 0.01), error_row(0.9, 0.2), error_row(0.0, 0.02), "fails"),
        (part(+0.10, 0.01), error_row(0.9, 0.2), error_row(0.0, 0.02), "holds"),  # only U of the better one matters
        (part(-0.10, 0.20), error_row(0.0, 0.02), error_row(0.0, 0.02), "undecided"),
        (part(-0.10, 0.01), error_row(0.15, 0.2), error_row(0.0, 0.02), "undecided"),
        (
            part(-0.10, 0.01),
            error_row(0.0, 0.02, 900),
            error_row(5.0, 0.1, 900),
            "fails",
        ),  # the other could recalibrate
    ],
)
def test_the_condition_of_the_theorem(gap, first, second, expected):
    assert _condition(gap, first, second, 1000, first.n_bins) == expected


def test_cells_of_full_errors_are_counted_over_all_top_classes():
    """Ten bins in each of 40 top classes are 400 cells of 1000 rows: the other model could gain 2/3 of its U."""
    row = ErrorValue("full", "LinCE_full", True, 10, 1.0, 1.0, 1.0, 0.3, 0.29, 0.31)
    assert (_cells(row, 40), _cells(error_row(0.0, 0.1), 40), _cells(replace(row, n_bins=None), 40)) == (400, 10, None)
    calm = replace(row, U=0.0, U_low=-0.01, U_high=0.01)
    gap = part(-0.10, 0.01)
    assert _condition(gap, calm, row, 1000, 10) == "holds"
    assert _condition(gap, calm, row, 1000, 400) == "fails"


def test_pairs_of_full_errors_use_those_cells(data):
    y, models = data
    result = compare(y, models, n_bins=20, errors=["full"], resamples=39)
    for pair in result.pairs:
        rows = [result.evaluations[name].rows("full")[0] for name in (pair.first, pair.second)]
        assert pair.condition == _condition(pair.loss, *rows, 400, 80)


def test_the_condition_speaks_of_truthful_errors_only(comparison):
    by_error = {pair.error: pair.condition for pair in comparison.pairs}
    assert by_error["confidence_uncorrected"] is None
    assert by_error["confidence"] is not None


# -- the verdict ------------------------------------------------------------------------------------------------------


def test_a_distorted_model_is_worse_calibrated_and_the_words_are_two_sentences():
    z, y = world(n=2000)
    verdict = compare(y, {"true": softmax(z), "sharp": softmax(2 * z)}, resamples=99, errors=["classwise"]).verdict
    assert verdict.predictive.startswith("Predictive value: true predicts better than sharp (by 0.")
    assert "calibrated" not in verdict.predictive
    assert verdict.calibration.startswith("Calibration: rejected for sharp (U +")
    assert "over-confident by 0.1" in verdict.calibration
    assert "true is better calibrated than sharp (U smaller by" in verdict.calibration
    assert verdict.rejected == ("sharp",)
    assert [(c.better, c.worse) for c in verdict.better_calibrated] == [("true", "sharp")]
    assert verdict.best == ("true",)


class StubFacts:
    """Two models whose U parts differ by given intervals at two bin counts, and what the test says of each."""

    names = ("a", "b")
    counts = (5, 20)

    def __init__(self, parts, rejected):
        self.parts, self.rejected = parts, rejected

    def difference(self, a, b, c, what):
        assert (a, b, what) == ("a", "b", "U")
        return self.parts[c]

    def rejects(self, name):
        return self.rejected[name]


@pytest.mark.parametrize(
    ("parts", "rejected", "expected"),
    [
        ((part(-1.0, 0.5), part(0.0, 0.5)), {"a": False, "b": True}, [("a", "b", 5)]),
        ((part(0.0, 0.5), part(1.0, 0.5)), {"a": True, "b": False}, [("b", "a", 20)]),
        ((part(-1.0, 0.5), part(0.0, 0.5)), {"a": False, "b": False}, []),  # the test does not reject the worse one
        ((part(-1.0, 0.5), part(1.0, 0.5)), {"a": True, "b": True}, []),  # the bin counts disagree
        ((part(-1.0, 1.5), part(0.0, 0.5)), {"a": False, "b": True}, []),  # within noise
        ((part(-1.0, 0.5), part(0.0, 0.5)), {"a": None, "b": None}, []),  # untested: intervals alone claim nothing
        ((None, None), {"a": True, "b": True}, []),
    ],
)
def test_what_a_claim_of_better_calibration_needs(parts, rejected, expected):
    facts = StubFacts(parts, rejected)
    claims = _claims(facts, _differences(facts))
    assert [(c.better, c.worse, c.n_bins) for c in claims] == expected
    assert all(c.low <= c.difference <= c.high < 0 for c in claims)


def pvalues_of(resamples: int = 999, **pvalues):
    return {name: SimpleNamespace(pvalue=p, resamples=resamples) for name, p in pvalues.items()}


@pytest.mark.parametrize(
    ("tests", "state", "pvalue", "errors"),
    [
        (pvalues_of(classwise=0.04), "rejected", 0.04, ("classwise",)),
        (pvalues_of(classwise=0.4, confidence=0.0055), "rejected", 0.011, ("confidence",)),
        (pvalues_of(classwise=0.04, confidence=0.03), "not rejected", 0.06, ()),  # .03 · 2 stops Holm's steps
        (pvalues_of(classwise=0.04, confidence=0.02), "rejected", 0.04, ("classwise", "confidence")),
        (pvalues_of(classwise=0.8, confidence=0.9), "not rejected", 1.0, ()),
        (pvalues_of(18, classwise=1 / 19), "too few draws", 1 / 19, ()),
        (pvalues_of(19, classwise=1 / 20), "rejected", 0.05, ("classwise",)),
        (pvalues_of(38, classwise=1 / 39, confidence=0.5), "too few draws", 2 / 39, ()),  # two tests need 39 draws
        (pvalues_of(39, classwise=1 / 40, confidence=0.5), "rejected", 0.05, ("classwise",)),
        ({}, "untested", None, ()),
    ],
)
def test_all_tests_of_a_model_count_with_holms_correction(tests, state, pvalue, errors):
    found = standing(tests, 0.95)
    assert (found.state, found.errors, found.n_tests) == (state, errors, len(tests))
    assert found.pvalue == (None if pvalue is None else pytest.approx(pvalue))


def test_a_model_that_only_the_test_of_confidence_rejects_is_rejected_by_name():
    """The top class is said too surely and each class by itself is calibrated on average: classwise sees little."""
    rng = np.random.default_rng(3)
    n, k = 1500, 40
    z = rng.normal(size=(n, k))
    y = (softmax(z).cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    p = softmax(z)
    top = p.argmax(axis=1)
    p[np.arange(n), top] *= 1.25
    p /= p.sum(axis=1, keepdims=True)
    result = compare(y, {"bold": p}, n_bins=(5, 20), errors=["classwise", "confidence"], resamples=999)
    tests = result.evaluations["bold"].tests
    assert tests["classwise"].pvalue > 0.05 and tests["confidence"].pvalue < 0.025
    assert result.verdict.rejected == ("bold",)
    assert result.verdict.standings["bold"].errors == ("confidence",)
    p = 2 * tests["confidence"].pvalue
    assert re.match(rf"Calibration: rejected for bold \(confidence: U \+.*, p = {p:.2g}", result.verdict.calibration)
    assert "p for 2 tests each, by Holm" in result.verdict.calibration
    assert result.leaderboard()[0]["pvalue"] == p and "rejected (p = " in repr(result)


def test_too_few_draws_are_no_test(data):
    y, models = data
    verdict = compare(y, models, n_bins=(5, 20), errors=["classwise"], resamples=9).verdict
    assert verdict.calibration.startswith("Calibration: untested (too few draws) for true (U ")
    assert "rejected" not in verdict.calibration and "p =" not in verdict.calibration
    assert verdict.rejected == () and verdict.better_calibrated == ()


def test_untested_models_are_never_called_better_calibrated():
    z, y = world(n=2000)
    result = compare(y, {"true": softmax(z), "sharp": softmax(3 * z)}, n_bins=(5, 20), errors=["full"], resamples=39)
    assert result.pair("true", "sharp", "full", 5).U.high < 0
    assert result.verdict.better_calibrated == ()
    assert "untested for true" in result.verdict.calibration
    words = "true has the smaller U than sharp beyond noise, but no test rejects the larger"
    assert words in result.verdict.calibration and "cannot tell" not in result.verdict.calibration


def test_gaps_behind_the_best_have_the_joint_intervals_of_the_sentence(comparison):
    verdict = comparison.verdict
    best = verdict.best[0]
    assert set(verdict.behind) == set(comparison.names) - {best}
    for name, gap in verdict.behind.items():
        found = comparison.pair(*sorted((name, best), key=comparison.names.index)).loss
        assert abs(found.estimate) == pytest.approx(gap.difference)
        assert gap.high - gap.low > found.high - found.low  # three pairs: wider than one by itself
        assert (name in verdict.best) == (gap.low <= 0)
        assert f"{gap.low:.3g} to {gap.high:.3g}" in verdict.predictive


def test_each_part_of_the_verdict_is_one_sentence(comparison):
    for sentence in comparison.verdict.sentences:
        assert sentence.endswith(".") and ". " not in sentence
    assert len(comparison.verdict.sentences) == 3
    assert str(comparison.verdict) == "\n".join(comparison.verdict.sentences)


def test_a_better_predictor_is_not_called_better_calibrated():
    """Both are calibrated, one knows more: its error is lower at every bin count, and that is the loss alone."""
    rng = np.random.default_rng(2)
    mu = rng.uniform(size=2000)
    y = (rng.random(2000) < mu).astype(int)
    flat = np.full(2000, 0.5)
    result = compare(y, {"flat": flat, "sharp": mu}, n_bins=(5, 20, 800), errors=["binary"], resamples=199)
    table, _ = result.values("binary")
    assert (table[:, 1] < table[:, 0])[1:].all()
    assert "sharp predicts better than flat" in result.verdict.predictive
    assert "better calibrated than" not in result.verdict.calibration
    assert (
        "the data cannot tell which is better calibrated: to be seen, U would have to differ by"
        in result.verdict.calibration
    )
    assert re.search(r"against the loss gap of [0-9.e-]+, .*800 bins could", result.verdict.calibration)
    assert result.verdict.better_calibrated == ()


def test_equal_models_cannot_be_told_apart():
    z, y = world()
    p = softmax(z)
    verdict = compare(y, {"one": p, "two": p}, resamples=19, errors=["classwise", "confidence_l1"]).verdict
    assert "the data cannot tell one, which has the smallest Brier/k loss, from two" in verdict.predictive
    assert verdict.best == ("one", "two")
    assert verdict.calibration.endswith("; the data cannot tell which is better calibrated.")
    assert verdict.ece == "ECE would have put one and two first at 5, 20 and 160 bins."


def test_claims_of_better_calibration_are_rarely_false():
    """Two calibrated models, one the pooling of the other: few claims in 60 worlds at the nominal 5%."""
    claims = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mu = rng.choice([0.1, 0.3, 0.7, 0.9], size=300)
        y = (rng.random(300) < mu).astype(int)
        models = {"fine": mu, "coarse": np.where(mu < 0.5, 0.2, 0.8)}
        found = compare(y, models, n_bins=(5, 20), errors=["binary"], resamples=99, diagram_bins=2)
        claims += bool(found.verdict.better_calibrated)
    assert claims <= 6  # P(Binomial(60, .05) > 6) is 3%


def test_what_ece_would_have_said_depends_on_the_bins():
    confidence = np.repeat([0.55, 0.95], 50)
    correct = np.concatenate([np.arange(50) < 40, np.arange(50) < 35])  # .80 and .70: gaps that cancel in one bin
    steady = np.full(100, 0.79)
    models = {"cancels": TopPredictions(correct, confidence), "steady": TopPredictions(correct, steady)}
    verdict = compare(None, models, n_bins=(1, 10), resamples=19).verdict
    assert verdict.ece == (
        "ECE would have put cancels first at 1 bin and steady first at 10 bins: "
        "its answer depends on the number of bins."
    )
    models["off"] = TopPredictions(correct, np.full(100, 0.3))  # worst at any bin count
    verdict = compare(None, models, n_bins=(1, 10), resamples=19).verdict
    assert verdict.ece.endswith("; 1 of 3 pairs changes places with the number of bins.")


def test_many_models_are_named_in_part_and_counted(data):
    y, models = data
    z = np.log(models["true"])
    many = {f"model-{i}": softmax(z * (1 + 0.5 * i)) for i in range(10)}
    errors = ["classwise", "confidence", "confidence_l1"]
    verdict = compare(y, many, n_bins=(3, 5, 20, 40, 80, 160), resamples=99, errors=errors).verdict
    assert "intervals hold jointly for 45 pairs" in verdict.predictive
    named = r"model-\d \((classwise|confidence) p = [0-9.]+, [a-z -]+\)"
    assert re.match(rf"Calibration: rejected for ({named}, )+{named} and 6 more, not rejected for", verdict.calibration)
    assert len(verdict.calibration) <= 600
    assert len(re.findall(named, verdict.calibration)) == 4
    assert len(verdict.sentences) == 3
    untold = 45 - len(verdict.better_calibrated)
    assert f"cannot tell which is better calibrated in {untold} of 45 pairs, such as model-" in verdict.calibration


def test_a_single_model_and_untruthful_errors_have_a_verdict_too(data):
    y, models = data
    one = compare(y, {"true": models["true"]}, resamples=19, errors=["classwise"]).verdict
    assert one.predictive.startswith("Predictive value: true has a Brier/k loss of 0.")
    assert one.ece == ""
    l1 = compare(y, models, resamples=19, errors=["confidence_l1"])
    assert l1.verdict.predictive == "Predictive value: no truthful error was measured."
    assert "3 models" in repr(l1) and "<table>" in l1._repr_html_()


# -- what is shown and exported ---------------------------------------------------------------------------------------


def test_results_are_plain_json_even_with_an_infinite_loss():
    p = np.array([[1.0, 0.0], [0.0, 1.0], [0.4, 0.6], [0.5, 0.5], [0.3, 0.7]])
    result = compare([1, 1, 1, 0, 1], {"certain": p, "half": np.full((5, 2), 0.5)}, resamples=19)
    text = json.dumps(result.to_dict(), allow_nan=False)
    read = json.loads(text)
    losses = {v["name"]: v["value"] for v in read["evaluations"]["certain"]["losses"]}
    assert losses["cross_entropy"] is None
    assert any("cross_entropy is infinite" in note for note in read["notes"])
    assert read["verdict"]["predictive"] == result.verdict.predictive


def test_names_are_escaped_in_html_and_shown_as_they_are_in_text(data):
    y, models = data
    name = "<script>alert(1)</script>"
    result = compare(y, {name: models["true"], "b": models["sharp"]}, resamples=19, errors=["classwise"])
    for html in (result._repr_html_(), result.evaluations[name]._repr_html_(), result.dominance._repr_html_()):
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
    assert name in repr(result)


def test_text_shows_loss_and_U_first(comparison):
    first, *rest = repr(comparison).splitlines()
    assert first == "3 models, 400 samples, classwise (LinCE^cw): loss + U"
    assert rest[0].startswith("  true ")
    text = repr(comparison.evaluations["true"])
    assert text.splitlines()[1].split()[:4] == ["error", "bins", "loss", "U"]
    assert "if calibrated" in text
    for name, symbol in (("classwise", "LinCE^cw"), ("confidence", "ConfCE^corr")):
        assert f"test of {name} ({symbol}): p = " in text and text.count(symbol) == 1


def test_notes_can_be_added_and_are_shown_as_text(comparison):
    note = "a.npz: <b>columns</b> p0 to p3"
    for result in (comparison, comparison.evaluations["true"]):
        more = result.with_notes([note, "second"])
        assert more.notes == (*result.notes, note, "second") and result.notes == result.with_notes(()).notes
        assert f"note: {note}" in repr(more) and note in more.to_dict()["notes"]
        assert "&lt;b&gt;columns" in more._repr_html_() and "<b>columns" not in more._repr_html_()
        with pytest.raises(TypeError, match="notes must be a sequence of texts, got 'one'"):
            result.with_notes("one")
        with pytest.raises(TypeError, match="notes must be a sequence of texts"):
            result.with_notes([1])


def test_frames_have_a_row_per_entry(comparison):
    errors = comparison.to_pandas()
    assert len(errors) == sum(len(e.errors) for e in comparison.evaluations.values())
    assert len(comparison.to_pandas("pairs")) == len(comparison.pairs)
    assert list(comparison.to_pandas("rankings").columns) == ["error", "n_bins", *comparison.names]
    assert len(comparison.to_pandas("losses")) == 15
    with pytest.raises(ValueError, match="what must be errors, losses"):
        comparison.to_pandas("verdict")


def test_the_same_call_gives_the_same_result(data, comparison):
    again = compare(*data, n_bins=(3, 5, 20), resamples=59)
    assert again.to_dict() == comparison.to_dict()


# -- defaults and plans -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "bins"), [(5000, (5, 20, 2000)), (100000, (5, 20, 2000)), (100, (5, 20, 40)), (20, (5, 8)), (1, (1,))]
)
def test_default_bins(n, bins):
    assert default_bins(n) == bins


def test_full_errors_keep_the_bin_counts_with_fewer_cells_than_rows(data):
    y, models = data
    found = evaluate(y, models["true"], n_bins=(5, 20, 150), errors=["full", "full_l1"], resamples=19)
    assert [row.n_bins for row in found.rows("full")] == [5, 20]
    assert any("full errors use 5 and 20 bins" in note for note in found.notes)
    assert vector_bins((500,), read_inputs(y, models["true"])) == (100,)


def test_plans_drop_large_bin_counts_first_and_then_all_draws(data, monkeypatch):
    y, models = data
    sample = tc.Classwise().read(y, models["true"])
    assert Plan(None, 1.0).simulation(tc.Quantile((5, 20)), sample) == ((5, 20), 999)
    assert Plan(None, 0.01).simulation(tc.Quantile((5, 20, 2000)), sample) == (
        (5, 20),
        120,
    )  # .01/(400·2e-7 + 4·25·3e-8)
    assert Plan(None, 1e-6).simulation(tc.Quantile((5, 20, 2000)), sample) == ((5,), 0)
    assert Plan(None, 1e-6).simulation(tc.TwoBin(), sample) == (None, 0)
    assert Plan(None, 0.001).simulation(tc.TwoBin(), tc.Confidence().read(y, models["true"])) == (None, 99)
    assert Plan(7, 1e-6).simulation(tc.Quantile((5, 2000)), sample) == ((5, 2000), 7)
    assert Plan(None, 1e-9).bands(sample) == 0
    monkeypatch.setattr("truecal.evaluation.budget.MOST_REPORTS", 1599)
    assert Plan(None, 1.0).simulation(tc.Quantile((5, 20)), sample) == ((5, 20), 0)
    top = tc.Confidence().read(y, models["true"])
    assert Plan(None, 1.0).simulation(tc.Quantile((5, 20)), top) == ((5, 20), 999)  # one view needs one order
    assert Plan(None, 1e3).bands(sample) == 999
    wide = tc.Classwise().read(y, np.hstack([models["true"], models["true"]]) / 2)
    assert draw_cost(tc.TwoBin(), wide, None) == draw_cost(tc.TwoBin(), sample, None)  # one sort of the labels each
    assert draw_cost(tc.Halfspaces(8), wide, None) > draw_cost(tc.Halfspaces(4), wide, None)


def test_what_the_plan_leaves_out_is_said(data, monkeypatch):
    y, models = data
    monkeypatch.setattr("truecal.evaluation.comparison._SECONDS", 0.0)
    monkeypatch.setattr("truecal.evaluation.comparison._LEAST_SECONDS", 1e-6)
    result = compare(y, models, n_bins=(5, 20))
    assert result.evaluations["true"].tests == {}
    assert result.evaluations["true"].reliability["classwise"].low is None
    notes = " ".join(result.notes)
    for words in (
        "no calibration test of classwise",
        "confidence_l1 has no null band at 5 and 20 bins",
        "no consistency",
    ):
        assert words in notes
    assert "untested for true (U" in result.verdict.calibration


def test_a_headline_too_large_to_resample_borrows_the_test_of_confidence(data, monkeypatch):
    y, models = data
    monkeypatch.setattr("truecal.evaluation.budget.MOST_REPORTS", 100)
    result = compare(y, models, n_bins=(5, 20), errors=["classwise", "confidence"])
    assert list(result.evaluations["sharp"].tests) == ["confidence"]
    assert "rejected for sharp (confidence p = 0.001, over-confident)" in result.verdict.calibration
    assert "sharp" in result.verdict.rejected


def test_costly_errors_of_large_inputs_wait_to_be_named(data, monkeypatch):
    y, models = data
    monkeypatch.setitem(HEAVY, "full_halfspace", 3 * 1600 - 1)
    result = compare(y, models, n_bins=5, resamples=9)
    assert "full_halfspace" not in result.error_names and "full" in result.error_names
    assert any("unless named in errors" in note and "full_halfspace" in note for note in result.notes)
    named = compare(y, models, n_bins=5, resamples=9, errors=["full_halfspace"])
    assert named.error_names == ("full_halfspace",)


def test_bins_that_hold_one_row_each_say_nothing_about_calibration(data):
    y, models = data
    verdict = compare(y, models, n_bins=(5, 400), errors=["classwise"], resamples=39).verdict
    assert "at 400 bins" not in verdict.calibration
    assert "at 5 bins" in verdict.calibration


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y, m: (y, {}), "models is empty"),
        (lambda y, m: (y, {"a": m["true"], "b": m["true"][:-1]}), "model 'b': numbers of rows disagree"),
        (
            lambda y, m: (y % 2, {"a": m["true"], "b": m["true"][:, :2] / m["true"][:, :2].sum(1, keepdims=True)}),
            "same classes",
        ),
        (lambda y, m: (y, {"a": m["true"], "b": m["true"] * 2}), "model 'b': y_proba must hold probabilities"),
        (lambda y, m: (None, {"a": ([1, 0], [0.5, 0.6]), "b": ([1], [0.5])}), "'a' has 2 rows, 'b' 1"),
        (lambda y, m: (y, {1: m["true"], "1": m["true"]}), "two models are called '1'"),
    ],
)
def test_compare_refuses(data, change, words):
    with pytest.raises(ValueError, match=words):
        compare(*change(*data))


def test_options_that_cannot_apply_are_refused(data):
    y, models = data
    p = models["true"]
    with pytest.raises(TypeError, match="models must map names to predictions"):
        compare(y, [p])
    with pytest.raises(ValueError, match="'binary' cannot apply to multiclass predictions"):
        evaluate(y, p, errors=["binary"])
    with pytest.raises(TypeError, match="errors must be a sequence of names"):
        evaluate(y, p, errors="classwise")
    with pytest.raises(TypeError, match="y_true is None"):
        evaluate(None, p)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        evaluate(y, p, level=95)
    with pytest.raises(ValueError, match="resamples must be at least 1"):
        evaluate(y, p, resamples=0)
    with pytest.raises(ValueError, match="was not measured here"):
        evaluate(y, p, errors=["classwise"], resamples=9).rows("confidence")
    with pytest.raises(ValueError, match="at least three clusters"):
        evaluate(y, p, groups=np.zeros(len(y)), errors=["classwise"], resamples=9)
