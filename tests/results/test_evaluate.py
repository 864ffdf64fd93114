"""evaluate holds what the public functions say one by one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from inference_cases import softmax, world
from truecal import calibration_test, gap
from truecal.analysis import consistency_bands, mean_gap
from truecal.core.rules import auto_bins
from truecal.evidence.budget import FEWEST_DRAWS, MOST_DRAWS, Plan
from truecal.evidence.memory import vector_bins
from truecal.kinds import KINDS, TopPredictions
from truecal.kinds.inputs import read_inputs, several_bins
from truecal.kinds.named_errors import COMPOSED
from truecal.results.evaluate import HEAVY, evaluate

confidence_interval: Any = tc.confidence_interval


def test_every_named_error_is_measured_for_some_kind_of_predictions():
    rest = {name for name, error in COMPOSED.items() if not any(kind.checks(error.property) for kind in KINDS.values())}
    assert all(isinstance(tc.ERRORS[name].property, tc.properties.Outcomes) for name in rest)
    inputs = read_inputs([0, 1, 1], [[0.5, 0.5], [0.2, 0.8], [0.4, 0.6]])
    assert {tc.ERRORS[name].property for name in inputs.error_names()} == {tc.Binary(), tc.Confidence()}
    three = read_inputs([0, 1, 1], np.full((3, 4), 0.25))
    assert {tc.ERRORS[name].property for name in three.error_names()} == {tc.Classwise(), tc.Confidence(), tc.Full()}


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
                assert (row.gap, row.score) == pytest.approx((parts.gap, parts.score))
                assert row.score == pytest.approx(tc.score(y, proba, error=row.error))


def test_gaps_bands_and_the_test_are_those_of_inference(data, comparison):
    y, models = data
    p = models["sharp"]
    found = comparison.evaluations["sharp"]
    for name in ("classwise", "confidence"):
        for row in found.rows(name):
            alone = gap(y, p, error=name, n_bins=row.n_bins)
            assert (row.gap, row.gap_low, row.gap_high) == pytest.approx((alone.points, alone.low, alone.high))
            ci = confidence_interval(y, p, error=name, n_bins=row.n_bins)
            assert (row.U_low, row.U_high) == pytest.approx((ci.low, ci.high), rel=0.01)  # bins of 133 and 134 rows
        (headline,) = (row for row in found.rows(name) if row.headline)
        assert repr(found.gaps[name]) == repr(gap(y, p, error=name, n_bins=headline.n_bins))
    bands = [one.band for one in confidence_interval(y, p, error="confidence_l1", n_bins=(3, 5, 20), n_resamples=99)]
    rows = found.rows("confidence_l1")
    for what in ("low", "high", "pvalue"):
        assert [getattr(row, f"null_{what}") for row in rows] == pytest.approx([getattr(band, what) for band in bands])
    assert all(row.U is None and row.gap is None and row.score is None for row in rows)
    test = calibration_test(y, p, n_resamples=99)
    assert_close((found.test.pvalue, found.test.details), (test.pvalue, test.details), 1)
    assert_close(found.direction, mean_gap(y, p), 1)
    assert found.direction.word == "over-confident"
    band: Any = consistency_bands(y, p, error="classwise", n_bins=15, n_resamples=99)
    diagram = found.reliability["classwise"]
    assert_close(diagram.low, band.low, 1)
    np.testing.assert_allclose(diagram.table.count, band.count)
    np.testing.assert_allclose(diagram.table.mean_outcome, band.mean_outcome)


def test_bins_are_chosen_from_the_sizes_and_stand_beside_those_of_comparisons():
    z, y = world(n=1000)
    found = evaluate(y, softmax(z), errors=["classwise", "confidence", "confidence_l1"], n_resamples=99)
    automatic = {"classwise": auto_bins(1000, 4), "confidence": auto_bins(1000), "confidence_l1": 15}
    assert automatic == {"classwise": 28, "confidence": 16, "confidence_l1": 15}
    for name, m in automatic.items():
        rows = found.rows(name)
        assert found.row(name).n_bins == m and found.row(name).headline
        assert {row.n_bins for row in rows} >= {5, 20, 400, m} and sum(row.headline for row in rows) == 1
    assert found.gaps["confidence"].n_bins == 16 and found.headline == "classwise"
    assert_close(found.score, tc.score(y, softmax(z), error="classwise"))
    assert found.ece == pytest.approx(tc.confidence_error(y, softmax(z), norm="l1"))
    asked = evaluate(y, softmax(z), errors=["classwise"], n_bins=7, n_resamples=99)
    assert [row.n_bins for row in asked.rows("classwise")] == [7] and asked.gaps["classwise"].n_bins == 7


@pytest.mark.parametrize(
    ("n", "bins"), [(5000, (5, 20, 2000)), (100000, (5, 20, 2000)), (100, (5, 20, 40)), (20, (5, 8)), (1, (1,))]
)
def test_bins_of_comparisons(n, bins):
    assert several_bins(n) == bins


@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_a_handful_of_rows_is_measured(n):
    z, y = world(n=n)
    found = evaluate(y, softmax(z))
    assert found.n_samples == n and json.dumps(found.to_dict(), allow_nan=False)


# -- weights, clusters, subgroups -------------------------------------------------------------------------------------


def test_weights_reach_every_part(data):
    y, models = data
    p = models["true"]
    w = np.random.default_rng(3).random(len(y))
    found = evaluate(y, p, n_bins=5, sample_weight=w, n_resamples=99, errors=["classwise", "confidence_l1"])
    assert found.errors[0].value == pytest.approx(tc.classwise_error(y, p, n_bins=5, sample_weight=w))
    assert found.errors[1].value == pytest.approx(
        tc.confidence_error(y, p, n_bins=5, norm="l1", strategy="uniform", sample_weight=w)
    )
    assert found.loss("brier").value == pytest.approx(tc.brier(y, p, sample_weight=w))
    alone = gap(y, p, error="classwise", n_bins=5, sample_weight=w)
    assert (found.errors[0].gap, found.errors[0].gap_low) == pytest.approx((alone.points, alone.low))
    test = calibration_test(y, p, sample_weight=w, n_resamples=99)
    assert found.test is not None
    assert_close((found.test.pvalue, found.test.details), (test.pvalue, test.details), 1)
    diagram = found.reliability["classwise"].table
    (table,) = tc.ERRORS["classwise"].with_bins(15).tables(y, p, sample_weight=w)
    np.testing.assert_allclose(diagram.count, table.count)


def test_rows_without_weight_do_not_narrow_the_interval_of_a_loss():
    rng = np.random.default_rng(0)
    y, u = rng.integers(0, 2, 40), rng.random(40)
    w = np.r_[np.ones(10), np.zeros(30)]
    whole = evaluate(y, u, n_bins=2, errors=["binary"], n_resamples=39, sample_weight=w)
    alone = evaluate(y[:10], u[:10], n_bins=2, errors=["binary"], n_resamples=39)
    for one, other in zip(whole.losses, alone.losses, strict=True):
        assert (one.low, one.high) == pytest.approx((other.low, other.high))
    few = evaluate(y, u, n_bins=5, errors=["binary"], n_resamples=39, sample_weight=np.r_[1, 2, np.zeros(38)])
    assert few.rows("binary")[0].gap_low is None
    assert any("with weight: no intervals" in note for note in few.notes)
    extreme = evaluate(y, u, n_bins=5, errors=["binary"], n_resamples=39, sample_weight=w * 1e100)
    usual = evaluate(y, u, n_bins=5, errors=["binary"], n_resamples=39, sample_weight=w)
    assert pytest.approx(extreme.rows("binary")[0].U) == usual.rows("binary")[0].U


def test_clusters_keep_their_pairs_apart_and_withhold_what_needs_independent_rows():
    """Four copies of each row: loss + U + within is n·error, and no test, null band or consistency band is shown."""
    rng = np.random.default_rng(0)
    u = rng.beta(0.5, 0.5, 60)
    y = (rng.random(60) < u).astype(int)
    names = ["binary", "binary_two_bin", "binary_l1"]
    groups = np.repeat(np.arange(60), 4)
    copies = (np.repeat(y, 4), np.repeat(u, 4))
    found = evaluate(*copies, n_bins=(5, 15), errors=names, groups=groups)
    for row in found.rows("binary") + found.rows("binary_two_bin"):
        assert row.loss is not None and row.U is not None and row.within is not None
        assert row.loss + row.U + row.within == pytest.approx(240 * row.value)
    for row in found.rows("binary"):
        ci = confidence_interval(*copies, error="binary", n_bins=row.n_bins, groups=groups)
        assert (row.U, row.U_low, row.U_high) == pytest.approx((ci.estimate, ci.low, ci.high), rel=0.01)
    once = evaluate(y, u, n_bins=(5, 15), errors=names, n_resamples=39)
    first = once.rows("binary")[0]
    assert first.U is not None and pytest.approx(4 * first.U) == found.rows("binary")[0].U
    assert first.within is None and once.test is not None and once.rows("binary_l1")[0].null_low is not None
    assert found.test is not None and "60 groups" in found.test.null and found.rows("binary_l1")[0].null_low is None
    assert found.reliability["binary"].bands is None and once.reliability["binary"].bands is not None
    assert any("whole groups" in note for note in found.notes) and "undecided" in repr(found)
    alone = gap(*copies, error="binary", n_bins=5, groups=groups)
    assert (found.rows("binary")[0].gap, found.rows("binary")[0].gap_low) == pytest.approx((alone.points, alone.low))
    by = np.repeat(np.arange(60) < 2, 4)  # a subgroup of two clusters has its parts, but no intervals
    part = evaluate(*copies, n_bins=5, errors=["binary"], groups=groups, by=by).subgroups["True"]
    row = part.rows("binary")[0]
    assert row.gap_low is None and row.loss is not None and row.U is not None and row.within is not None
    assert row.loss + row.U + row.within == pytest.approx(8 * row.value)


@pytest.mark.slow
def test_exact_copies_of_rows_are_noticed_and_groups_are_offered():
    rng = np.random.default_rng(0)
    p = softmax(rng.normal(size=(100, 3)))
    y = rng.integers(0, 3, 100)
    twice = evaluate(np.tile(y, 2), np.tile(p, (2, 1)), errors=["classwise"])
    (note,) = (note for note in twice.notes if "are duplicates" in note)
    assert note.startswith("100 of 200 rows are duplicates") and "pass groups" in note
    told = evaluate(np.tile(y, 2), np.tile(p, (2, 1)), errors=["classwise"], groups=np.tile(np.arange(100), 2))
    for quiet in (
        told,  # the clusters are known
        evaluate(y, p, errors=["classwise"]),
        evaluate([0, 1] * 100, [0.25, 0.75] * 100),  # few digits repeat by themselves
        evaluate(np.r_[y, y[:1]], np.r_[p, p[:1]], errors=["classwise"]),  # one in a hundred may be an accident
        evaluate(rng.integers(0, 2, 300), rng.choice([1 / 3, 2 / 3, 1 / 7], 300)),  # few different predictions
    ):
        assert not any("are duplicates" in note for note in quiet.notes)


def test_subgroups_are_evaluations_of_their_rows(data):
    y, models = data
    by = np.where(np.arange(len(y)) < 150, "first", "second")
    found = evaluate(y, models["sharp"], by=by, n_resamples=99, errors=["classwise", "confidence_l1"])
    alone = evaluate(
        y[:150], models["sharp"][:150], n_resamples=99, errors=["classwise", "confidence_l1"], name="first"
    )
    part = found.subgroups["first"]
    plain = replace(part, standing=alone.standing, direction=replace(part.direction, clear=0.05))
    assert_close(plain.to_dict(), alone.to_dict(), 1)
    assert part.standing is not None and alone.test is not None
    assert part.standing.pvalue == 2 * alone.test.pvalue  # Holm over the two subgroups
    assert "corrected for their number, 2" in found.notes[-1]
    assert list(found.subgroups) == ["first", "second"]
    assert set(found.to_pandas()["subgroup"].dropna()) == {"first", "second"}
    assert re.search(r"^second +250 ", repr(found), re.MULTILINE)
    with pytest.raises(ValueError, match=r"by must give one group per row, shape \(400,\), got shape \(399,\)"):
        evaluate(y, models["true"], by=by[1:])


def test_several_columns_of_subgroups(data):
    y, models = data
    columns = {"side": np.arange(len(y)) % 2, "third": np.arange(len(y)) % 3}
    found = evaluate(y, models["sharp"], by=columns, errors=["confidence"], n_resamples=19)
    assert list(found.subgroups) == ["side: 0", "side: 1", "third: 0", "third: 1", "third: 2"]
    alone = evaluate(y, models["sharp"], by=columns["third"], errors=["confidence"], n_resamples=19)
    assert_close(found.subgroups["third: 2"].score, alone.subgroups["2"].score)
    with pytest.raises(ValueError, match=r"by\['label'\] is the outcome under another name"):
        evaluate(y, models["sharp"], by={"label": y}, n_resamples=19)


@pytest.mark.slow
def test_subgroups_that_only_resemble_the_outcomes_are_measured(data):
    y, models = data
    merged = np.minimum(y, 2)  # two classes together
    other = np.r_[(y[0] + 1) % 4, y[1:]]  # one row elsewhere
    for by in (merged, other, np.zeros(len(y), int)):
        found = evaluate(y, models["true"], n_bins=5, by=by, errors=["classwise"], n_resamples=9)
        assert len(found.subgroups) == len(np.unique(by))


def test_a_subgroup_of_two_rows_has_values_and_no_intervals(data):
    y, models = data
    by = (np.arange(len(y)) < 2).astype(int)
    part = evaluate(y, models["true"], by=by, n_resamples=19, errors=["classwise"]).subgroups["1"]
    assert part.errors[0].gap_low is None
    assert any("fewer than three rows" in note for note in part.notes)


# -- kinds of predictions ---------------------------------------------------------------------------------------------


def test_binary_probabilities_get_binary_and_confidence_errors():
    u = np.random.default_rng(0).random(100)
    y = np.random.default_rng(1).random(100) < u
    found = evaluate(y.astype(int), u, n_bins=5, n_resamples=19)
    assert found.headline == "binary"
    assert found.rows("binary")[0].value == pytest.approx(tc.binary_error(y.astype(int), u, n_bins=5))
    columns = np.column_stack([1 - u, u])
    assert found.rows("confidence")[0].value == pytest.approx(tc.confidence_error(y.astype(int), columns, n_bins=5))
    assert found.loss("brier").value == pytest.approx(tc.brier(y.astype(int), columns))
    assert found.gap is found.gaps["binary"] and found.direction.confidence is False
    named = evaluate(np.where(y, "yes", "no"), u, pos_label="yes", n_bins=5, n_resamples=19)
    assert_close(named.rows("binary")[0].value, found.rows("binary")[0].value, 1)


def test_top_label_predictions_get_confidence_errors_only_and_say_so(data):
    y, models = data
    top = models["true"].argmax(axis=1)
    pair = (y == top, models["true"].max(axis=1))
    found = evaluate(None, pair, n_bins=(5, 20), n_resamples=19)
    assert found.error_names == ("top_label", "top_label_l1")
    assert [v.name for v in found.losses] == ["classification_error", "confidence_loss"]
    whole = evaluate(y, models["true"], n_bins=(5, 20), n_resamples=19, errors=["confidence"])
    for name in ("classification_error", "confidence_loss"):
        assert found.loss(name).value == pytest.approx(whole.loss(name).value)
    assert found.rows("top_label")[0].value == pytest.approx(tc.confidence_error(y, models["true"], n_bins=5))
    assert found.gap is not None and whole.gap is not None and found.gap.points == pytest.approx(whole.gap.points)
    assert "only the top class is known" in found.notes[0]
    assert_close(found, evaluate(None, TopPredictions(*pair), n_bins=(5, 20), n_resamples=19), 1)


def test_sharp_models_get_a_note_instead_of_false_certainty():
    u = np.random.default_rng(0).uniform(0.985, 0.999, 100)
    found = evaluate(np.ones(100, int), u, n_bins=(5, 15), errors=["binary"])
    assert sum("the interval of the gap is unreliable" in note for note in found.notes) == 1
    assert found.direction.word == "no clear direction" and "interval unreliable" in repr(found)
    right = found.loss("classification_error")
    assert right.low == 0.0 and right.high is not None and right.high > 0.02  # no error seen is no certainty of none


def test_full_errors_keep_the_bin_counts_with_fewer_cells_than_rows(data):
    y, models = data
    found = evaluate(y, models["true"], n_bins=(5, 20, 150), errors=["full", "full_l1"], n_resamples=19)
    assert [row.n_bins for row in found.rows("full")] == [5, 20]
    assert any("full errors use 5 and 20 bins" in note for note in found.notes)
    assert vector_bins((500,), 400, 4) == (100,) and vector_bins((5, 20, 150), 400, 4) == (5, 20)


# -- what is shown, exported, planned, refused ------------------------------------------------------------------------


def test_the_first_screen_is_the_contract(data):
    """The shape of the lines, byte for byte; only digits may differ."""
    y, models = data
    found = evaluate(y, models["sharp"], n_resamples=199, name="net")
    lines = repr(found).splitlines()[:7]
    assert lines[0] == "net: 400 samples, 4 classes"
    assert [re.sub(r"[\d.]+", "0", line) for line in lines[1:]] == [
        "  says 0%, is right 0%: over-confident by 0 points",
        "  gap           0 points [0, 0]",
        "  calibrated?   no (p ≤ 0)",
        "  Brier         0",
        "  score         0 = Brier 0 + 0",
        "  ECE           0 (0 bins)",
    ]
    says = [float(x) for x in re.findall(r"[\d.]+", lines[1])]
    assert says[2] == pytest.approx(says[0] - says[1])
    score, brier, added = (float(x) for x in re.findall(r"[\d.]+", lines[5]))
    assert score == pytest.approx(brier + added) and score == pytest.approx(found.score, abs=1e-4)
    assert "calibrated?   undecided: 400 rows allow a gap of up to 11 points\n" in repr(
        evaluate(y, models["true"], n_resamples=199)
    )


def test_evaluations_are_plain_json_and_frames(data):
    y, models = data
    found = evaluate(y, models["true"], n_resamples=39)
    read = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert read["headline"] == "classwise" and read["direction"]["word"] == found.direction.word
    assert read["gaps"]["confidence"]["points"] == found.gaps["confidence"].points
    assert read["test"]["pvalue"] == found.test.pvalue if found.test else None
    frame = found.to_pandas()
    assert len(frame) == len(found.errors) and {"gap", "gap_low", "score", "headline"} <= set(frame.columns)
    certain = evaluate(
        [1, 1, 1, 0, 1], np.array([[1.0, 0], [0, 1], [0.4, 0.6], [0.5, 0.5], [0.3, 0.7]]), n_resamples=19
    )
    assert certain.to_dict()["losses"][1] == {"name": "cross_entropy", "value": None, "low": None, "high": None}
    assert any("cross_entropy is infinite: the observed label had probability 0 in 1 rows" in n for n in certain.notes)


def test_progress_goes_from_nothing_towards_all(data):
    y, models = data
    said: list[float] = []
    evaluate(y, models["true"], n_resamples=19, errors=["classwise", "confidence"], progress=said.append)
    assert said == [0.0, pytest.approx(1 / 3)]


def test_plans_give_between_fewest_and_most_draws(data, monkeypatch):
    y, models = data
    classes, top = (prop.read(y, models["true"]) for prop in (tc.Classwise(), tc.Confidence()))
    assert Plan(None, 1.0).test(classes) == MOST_DRAWS == 999
    assert Plan(None, 1e-9).test(classes) == FEWEST_DRAWS == 99
    assert Plan(None, 0.005).test(classes) == 250  # .005/(400·5e-8)
    assert Plan(None, 0.004).test(top) == 500  # one coin a row: .004/(400·2e-8)
    monkeypatch.setattr("truecal.inference.omnibus.MOST_ROWS", 100)  # the test looks at no more rows
    assert Plan(None, 0.002).test(classes) == 400
    assert Plan(7, 1e-9).test(classes) == Plan(7, 1e-9).bands(classes) == Plan(7, 1e-9).null_band(top) == 7
    assert Plan(None, 1e-9).bands(classes) == 0 == Plan(None, 1e-9).null_band(top)
    assert Plan(None, 1e3).bands(classes) == MOST_DRAWS


def test_costly_errors_of_large_inputs_wait_to_be_named(data, monkeypatch):
    y, models = data
    monkeypatch.setitem(HEAVY, "full_l1", 1600 - 1)
    found = evaluate(y, models["true"], n_bins=5, n_resamples=9)
    assert "full_l1" not in found.error_names and "full" in found.error_names
    assert any("name them in errors=" in note and "full_l1" in note for note in found.notes)
    assert evaluate(y, models["true"], n_resamples=9, errors=["full_l1"]).error_names == ("full_l1",)


def test_very_many_predictions_leave_classes_without_an_interval(data, monkeypatch):
    y, models = data
    monkeypatch.setattr("truecal.evidence.memory.MOST_SPREAD", 1599)
    found = evaluate(y, models["true"], n_resamples=39, errors=["classwise", "confidence"])
    assert "classwise" not in found.gaps and found.row("classwise").gap is not None
    assert found.gap is found.gaps["confidence"]
    assert any("the gap of classwise has no interval" in note for note in found.notes)


def test_options_that_cannot_apply_are_refused(data):
    y, models = data
    p = models["true"]
    with pytest.raises(ValueError, match="'binary' cannot be used with multiclass predictions"):
        evaluate(y, p, errors=["binary"])
    with pytest.raises(TypeError, match="errors must be a sequence of names"):
        evaluate(y, p, errors="classwise")
    with pytest.raises(TypeError, match="y_true is None"):
        evaluate(None, p)
    with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
        evaluate(y, p, level=95)
    with pytest.raises(ValueError, match="resamples must be at least 1"):
        evaluate(y, p, n_resamples=0)
    with pytest.raises(ValueError, match="was not measured here"):
        evaluate(y, p, errors=["classwise"], n_resamples=9).rows("confidence")
    with pytest.raises(ValueError, match="'cross' is not available for these predictions"):
        evaluate(y, p, errors=["classwise"], n_resamples=9).loss("cross")
    with pytest.raises(ValueError, match="at least 3 different values"):
        evaluate(y, p, groups=np.zeros(len(y)), errors=["classwise"], n_resamples=9)


def test_a_subgroup_needs_a_few_rows():
    rng = np.random.default_rng(0)
    u = rng.random(100)
    with pytest.raises(ValueError, match=r"by has 100 distinct values in 100 rows.*features="):
        tc.evaluate(rng.random(100) < u, u, by=rng.random(100))


def test_an_unknown_error_names_the_nearest():
    with pytest.raises(ValueError, match=r"there is no error 'claswise'; did you mean 'classwise'\?"):
        tc.evaluate([0, 1], [[0.5, 0.5], [0.2, 0.8]], errors=["claswise"])


def test_many_bin_counts_of_many_classes_have_one_interval_or_are_refused(rng):
    """So that few rows cost little whatever is asked for: the time grows with the bins of all classes and counts."""
    y, p = rng.integers(0, 400, 40), rng.dirichlet(np.ones(400), 40)
    found = tc.evaluate(y, p, n_bins=range(1, 41), errors=["classwise"], n_resamples=19)
    assert "classwise has intervals at" in " ".join(found.notes)
    assert [row.headline for row in found.errors if row.gap_low is not None] == [True]
    with pytest.raises(ValueError, match=r"n_bins asks for 12,200,000 bins in all, over 50 counts.*pass fewer counts"):
        tc.evaluate(y, np.tile(p, 25) / 25, n_bins=range(1, 51))
