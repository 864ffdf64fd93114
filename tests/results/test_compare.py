"""compare: pairs, rankings, flips, dominance and exports are what the public functions say, on the same samples."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from inference_cases import softmax, world
from truecal import paired_difference
from truecal.evidence.values import ErrorValue
from truecal.inference.mean_losses import IntervalEstimate
from truecal.kinds import TopPredictions
from truecal.results.compare import compare
from truecal.results.evaluate import HEAVY, evaluate
from truecal.results.same_order import gap_squared, order_at, recalibrated_gap


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_pairs_are_paired_differences(data, weighted, clustered):
    y, models = data
    groups = np.arange(len(y)) // 4 if clustered else None
    w = np.random.default_rng(0).uniform(0.2, 2, len(y)) if weighted else None
    options: dict[str, Any] = {"groups": groups, "sample_weight": w}
    result = compare(y, models, n_bins=(5, 20), errors=["classwise", "confidence"], n_resamples=19, **options)
    for error in ("classwise", "confidence"):
        public = paired_difference(y, models["true"], models["noisy"], error=error, n_bins=(5, 20), **options)
        for m, wanted in zip((5, 20), public, strict=True):
            pair = result.pair("true", "noisy", error, m)
            turned = result.pair("noisy", "true", error, m)
            for name in ("loss", "gap_sq"):
                one, other = getattr(wanted, name).to_dict(), getattr(pair, name).to_dict()
                assert one.pop("note") == other.pop("note") == "" and one == pytest.approx(other)
                assert_close(getattr(turned, name), getattr(pair, name).turned(), 1)
    with pytest.raises(ValueError, match="no pair 'true', 'nobody'"):
        result.pair("true", "nobody")


@pytest.mark.slow
def test_each_evaluation_is_that_of_the_model_alone(data, comparison):
    y, models = data
    alone = evaluate(y, models["noisy"], n_bins=(3, 5, 20), n_resamples=99, name="noisy")
    found = replace(comparison.evaluations["noisy"], standing=alone.standing)  # corrected over the models
    assert_close(found.to_dict(), alone.to_dict(), 1)


@pytest.mark.slow
def test_n_bins_is_automatic_and_the_headline_ranks(data):
    y, models = data
    result = compare(y, models, errors=["classwise", "confidence", "confidence_l1"], n_resamples=99)
    assert result.headline == "classwise"
    assert {pair.n_bins for pair in result.pairs} == {19, 11}  # (400·4)^(2/5) and 400^(2/5)
    board = result.leaderboard()
    scores = {name: tc.score(y, p, error="classwise") for name, p in models.items()}
    assert [row["model"] for row in board] == sorted(scores, key=lambda name: scores[name])
    assert [row["score"] for row in board] == pytest.approx(sorted(scores.values()))
    (by_loss,) = (r for r in result.rankings if r.by == "loss")
    assert list(by_loss.order) == [row["model"] for row in board]


def test_one_top_label_model_brings_all_models_to_their_top_class(data):
    y, models = data
    top = models["sharp"].argmax(axis=1)
    mixed = {"true": models["true"], "sharp": TopPredictions(y == top, models["sharp"].max(axis=1))}
    result = compare(y, mixed, n_bins=(5, 20), n_resamples=19)
    assert result.error_names == ("top_label", "top_label_l1")
    assert any("only the top class is known for sharp" in note for note in result.notes)
    assert any("dominance is by 2 losses" in note for note in result.notes)
    assert result.evaluations["true"].rows("top_label")[1].value == pytest.approx(
        tc.confidence_error(y, models["true"], n_bins=20)
    )
    assert "ECE ranks" in result.verdict.ece


@pytest.mark.slow
def test_rankings_and_dominance(data, comparison):
    y, models = data
    table, counts = comparison.values("confidence_l1")
    assert counts == (3, 5, 20) and table.shape == (3, 3)
    ranking = next(r for r in comparison.rankings if r.error == "confidence_l1" and r.n_bins == 5)
    assert ranking.order == tuple(np.array(comparison.names)[np.argsort(table[1])]) and ranking.by == "value"
    losses = {name: [loss(y, p) for loss in tc.LOSSES.values()] for name, p in models.items()}
    assert comparison.dominance.chain == tc.analysis.dominance(losses).chain
    scored = {r.error for r in comparison.rankings if r.by == "score"}
    assert scored == {name for name in comparison.error_names if tc.ERRORS[name].truthful}


@pytest.mark.slow
def test_flips_are_pairs_that_change_places():
    z, y = world(seed=5)
    rng = np.random.default_rng(6)
    models = {f"m{i}": softmax((z + 0.3 * rng.normal(size=z.shape)) * (1 + 0.05 * i)) for i in range(5)}
    result = compare(y, models, n_bins=(5, 20, 100), errors=["classwise", "confidence_l1"], n_resamples=19)
    assert {flip.error for flip in result.flips} == {"classwise", "confidence_l1"}
    for flip in result.flips:
        table, counts = result.values(flip.error)
        i, j = result.names.index(flip.first), result.names.index(flip.second)
        assert flip.first_lower_at == tuple(m for m, row in zip(counts, table, strict=True) if row[i] < row[j])
        assert flip.second_lower_at == tuple(m for m, row in zip(counts, table, strict=True) if row[i] > row[j])
        assert flip.first_lower_at and flip.second_lower_at
    assert len(result.to_pandas("flips")) == len(result.flips)


def test_the_score_keeps_its_order_where_value_and_ece_turn():
    """One model predicts better and is off everywhere alike: few bins see that, many see the loss, the score both."""
    rng = np.random.default_rng(0)
    mu = rng.uniform(0.05, 0.95, size=4000)
    y = (rng.random(4000) < mu).astype(int)
    models = {"coarse": np.full(4000, 0.5), "sharp": np.clip(mu + 0.1, 0, 1)}
    result = compare(y, models, n_bins=(5, 1600), errors=["binary"], n_resamples=99)
    (flip,) = result.flips
    assert (flip.first_lower_at, flip.second_lower_at) == ((5,), (1600,))
    assert result.pair("coarse", "sharp", "binary", 5).condition == "does not apply"
    order = result.same_order("coarse", "sharp")
    assert order.better == "sharp" and order.condition == "does not apply"
    assert "may change with the bins: the theorem does not apply at 5" in order.sentence


@pytest.mark.slow
def test_copies_of_a_model_in_other_precisions_do_not_flip():
    """Their errors differ in the eighth digit, with either sign."""
    z, y = world(n=1000)
    p = softmax(z)
    models = {"double": p, "single": p.astype(np.float32), "rounded": p.astype(np.float32).astype(float)}
    result = compare(y, models, n_bins=(2, 5, 20, 100, 300), n_resamples=39)
    values = {error: result.values(error)[0] for error in result.error_names}
    assert any((np.diff(v[:, :2]) < 0).any() and (np.diff(v[:, :2]) > 0).any() for v in values.values())
    assert result.flips == ()
    assert all(ranking.ranks == (2.0, 2.0, 2.0) for ranking in result.rankings)


# -- the condition of the theorem -------------------------------------------------------------------------------------


def part(value, half):
    return IntervalEstimate(value, value - half, value + half, half / 2, 0.5)


def error_row(u, half, gap=0.0, off=0.0, m=10):
    ends = {"gap": gap, "gap_low": gap - off, "gap_high": gap + off}
    return ErrorValue("binary", "LinCE", True, m, 1.0, loss=1.0, U=u, U_low=u - half, U_high=u + half, **ends)


KNOWN = error_row(0.0, 0.0)


@pytest.mark.parametrize(
    ("loss", "better", "worse", "expected"),
    [
        (part(0.10, 0.01), error_row(0.0, 0.02), KNOWN, "applies"),
        (part(0.10, 0.01), error_row(0.01, 0.2), KNOWN, "cannot be told"),
        (part(0.10, 0.01), error_row(0.9, 0.2), KNOWN, "does not apply"),
        (part(0.10, 0.20), error_row(0.0, 0.02), KNOWN, "cannot be told"),
        (part(0.10, 0.01), error_row(0.15, 0.2), KNOWN, "cannot be told"),
        (part(0.10, 0.01), error_row(0.0, 0.02), error_row(0.0, 0.0, 40, 2), "does not apply"),  # it could gain 0.16
        (part(0.10, 0.01), error_row(0.0, 0.02), error_row(0.0, 0.0, 20, 2), "applies"),  # and here 0.04
        (part(0.10, 0.01), error_row(0.0, 0.02), error_row(0.0, 0.0, -40, 2), "applies"),  # a gap² below 0 is noise
        (part(0.10, 0.01), replace(KNOWN, U_high=None), KNOWN, "cannot be told"),
        (part(0.10, 0.01), KNOWN, replace(KNOWN, gap_low=None), "cannot be told"),
    ],
)
def test_the_condition_of_the_theorem(loss, better, worse, expected):
    assert order_at(loss, better, gap_squared(better), gap_squared(worse)).condition == expected


def test_rho_and_the_margin_are_the_theorems():
    """margin = gap of the recalibrated losses − ρ, by the definitions of the paper."""
    loss, better, worse = part(0.3, 0.02), error_row(0.04, 0.01, 10, 1), error_row(0.2, 0.01, 20, 1)
    found = order_at(loss, better, gap_squared(better), gap_squared(worse))
    assert found.rho.estimate == pytest.approx(0.04 + 0.1**2)
    between = recalibrated_gap(loss, gap_squared(better), gap_squared(worse)).estimate
    assert between == pytest.approx((0.3 - 0.2**2) + 0.1**2)
    assert found.margin.estimate == pytest.approx(between - found.rho.estimate)
    assert found.margin.low == pytest.approx(0.28 - 0.05 - 0.21**2)


def test_same_order_of_the_function_is_that_of_the_comparison():
    rng = np.random.default_rng(3)
    mu = rng.random(4000)
    y, flat = (rng.random(4000) < mu).astype(int), np.full(4000, 0.5)
    found = tc.analysis.same_order(y, flat, mu, n_bins=(100, 800), names=("flat", "true"))
    result = compare(y, {"flat": flat, "true": mu}, n_bins=(100, 800), n_resamples=19)
    of_errors, of_decisions = found.sentence.split("; ", 1)
    assert of_errors == result.same_order("true", "flat").sentence == result.same_order("flat", "true").sentence
    assert of_errors == "the order of true and flat is the same at 100 and 800 bins: the theorem applies"
    (pair,) = tc.decision_curve(y, {"true": mu, "flat": flat}).differences
    assert of_decisions == pair.sentence and pair.better and not pair.worse
    assert found.condition == "applies" and found.better == "true" and found.loss_gap.low > 0
    assert found.to_dict()["condition"] == "applies" and "ρ of true" in repr(found)
    few = tc.analysis.same_order(y, flat, mu, n_bins=(5, 800), names=("flat", "true"))
    assert few.condition == "cannot be told" and "the theorem applies at 800 bins; " in few.sentence
    p = rng.dirichlet([1, 1, 1], 300)  # of several classes there is no one decision
    assert tc.analysis.same_order(np.arange(300) % 3, p, p[:, ::-1]).decisions is None


# -- what is shown and exported ---------------------------------------------------------------------------------------


def test_results_are_plain_json_even_with_an_infinite_loss():
    p = np.array([[1.0, 0.0], [0.0, 1.0], [0.4, 0.6], [0.5, 0.5], [0.3, 0.7]])
    result = compare([1, 1, 1, 0, 1], {"certain": p, "half": np.full((5, 2), 0.5)}, n_resamples=19)
    read = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    losses = {v["name"]: v["value"] for v in read["evaluations"]["certain"]["losses"]}
    assert losses["cross_entropy"] is None
    assert any("cross_entropy is infinite" in note for note in read["notes"])
    assert read["verdict"]["predictive"] == result.verdict.predictive
    assert [row["model"] for row in read["leaderboard"]] == [row["model"] for row in result.leaderboard()]
    assert read["errors"]["binary"]["truthful"] is True and read["headline"] == "binary"


def test_names_are_escaped_in_html_and_shown_as_they_are_in_text(data):
    y, models = data
    name = "<script>alert(1)</script>"
    result = compare(y, {name: models["true"], "b": models["sharp"]}, n_resamples=19, errors=["classwise"])
    for html in (result._repr_html_(), result.evaluations[name]._repr_html_(), result.dominance._repr_html_()):
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
    assert name in repr(result)


def test_text_shows_the_leaderboard_and_the_verdict(comparison):
    first, *rest = repr(comparison).splitlines()
    assert first == "3 models, 400 samples, lowest Brier first"
    assert rest[1].split()[:2] == ["#", "model"] and "Brier" in rest[1] and rest[2].split()[:2] == ["1", "true"]
    assert max(map(len, rest[1:5])) <= 80
    assert list(comparison.verdict.sentences) == rest[6:9]


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
    assert list(comparison.to_pandas()["model"]) == [row["model"] for row in comparison.leaderboard()]
    assert len(comparison.to_pandas("errors")) == sum(len(e.errors) for e in comparison.evaluations.values())
    pairs = comparison.to_pandas("pairs")
    assert len(pairs) == len(comparison.pairs) and {"gap_sq_low", "loss_pvalue", "condition"} <= set(pairs.columns)
    assert list(comparison.to_pandas("rankings").columns) == ["error", "by", "n_bins", *comparison.names]
    assert len(comparison.to_pandas("losses")) == 15
    with pytest.raises(ValueError, match="what must be leaderboard, errors, losses"):
        comparison.to_pandas("verdict")


def test_without_a_truthful_error_models_stand_by_their_confidence_loss(data):
    y, models = data
    result = compare(y, models, n_resamples=19, errors=["confidence_l1"])
    board = result.leaderboard()
    assert [row["score"] for row in board] == [None] * 3
    order = sorted(models, key=lambda name: tc.losses.confidence_loss(y, models[name]))
    assert [row["model"] for row in board] == order and "<table>" in result._repr_html_()


@pytest.mark.slow
def test_the_same_call_gives_the_same_result(data, comparison):
    again = compare(*data, n_bins=(3, 5, 20), n_resamples=99)
    assert_close(again.to_dict(), comparison.to_dict(), 1)


def test_progress_is_shared_by_the_models(data):
    y, models = data
    said: list[float] = []
    compare(y, models, n_resamples=19, errors=["classwise"], progress=said.append)
    assert said == pytest.approx([0.0, 1 / 3, 2 / 3, 1.0])


@pytest.mark.slow
def test_subgroups_of_every_model(data):
    y, models = data
    by = np.where(np.arange(len(y)) < 150, "first", "second")
    result = compare(y, models, by=by, errors=["classwise"], n_resamples=19)
    for name in models:
        assert list(result.evaluations[name].subgroups) == ["first", "second"]


@pytest.mark.parametrize("rename", [lambda y: y, lambda y: 10 - 3 * y, lambda y: np.array(list("dcba"))[y]])
def test_subgroups_that_are_the_outcomes_are_refused(data, rename):
    y, models = data
    words = "by is the outcome under another name"
    with pytest.raises(ValueError, match=words):
        evaluate(y, models["true"], by=rename(y), errors=["classwise"])
    with pytest.raises(ValueError, match=words):
        compare(y, models, by=rename(y), errors=["classwise"])
    top = TopPredictions(y == models["true"].argmax(axis=1), models["true"].max(axis=1))
    with pytest.raises(ValueError, match=words):
        compare(y, {"top": top, "all": models["true"]}, by=rename(y))
    with pytest.raises(ValueError, match=words):
        evaluate(None, top, by=np.where(top.correct, "right", "wrong"))


def test_what_the_plan_leaves_out_is_said(data, monkeypatch):
    y, models = data
    monkeypatch.setattr("truecal.results.compare._SECONDS", 0.0)
    monkeypatch.setattr("truecal.results.compare._LEAST_SECONDS", 1e-6)
    result = compare(y, models, n_bins=(5, 20), errors=["classwise", "confidence_l1"])
    test = result.evaluations["true"].test
    assert test is not None and 99 <= test.n_resamples < 999
    assert result.evaluations["true"].reliability["classwise"].low is None
    notes = " ".join(result.notes)
    assert "confidence_l1 has no null band" in notes and "no consistency bands" in notes


def test_costly_errors_count_all_models(data, monkeypatch):
    y, models = data
    monkeypatch.setitem(HEAVY, "full_l1", 3 * 1600 - 1)
    result = compare(y, models, n_bins=5, n_resamples=9)
    assert "full_l1" not in result.error_names and "full" in result.error_names


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
        (lambda y, m: (y, {"a": m["true"], "b": m["true"] * 2}), "model 'b': row 0 of y_proba sums to 2"),
        (lambda y, m: (None, {"a": ([1, 0], [0.5, 0.6]), "b": ([1], [0.5])}), "'a' has 2 rows, 'b' 1"),
        (lambda y, m: (y, {1: m["true"], "1": m["true"]}), "two models are called '1'"),
    ],
)
def test_compare_refuses(data, change, words):
    with pytest.raises(ValueError, match=words):
        compare(*change(*data))


def test_models_must_have_names(data):
    y, models = data
    anything: Any = [models["true"]]
    with pytest.raises(TypeError, match="models must map names to predictions"):
        compare(y, anything)
