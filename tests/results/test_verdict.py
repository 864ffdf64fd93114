"""The verdict claims no more than its intervals and tests allow, and its words are true."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import truecal as tc
from inference_cases import draw_labels, softmax, world
from truecal import paired_difference
from truecal.inference.calibration_result import Standing
from truecal.kinds import TopPredictions
from truecal.results.compare import compare
from truecal.results.verdict import CalibrationClaim, favoured, standings

pytestmark = pytest.mark.slow


def test_a_distorted_model_is_rejected_with_its_size_and_the_words_are_apart():
    z, y = world(n=2000)
    verdict = compare(y, {"true": softmax(z), "sharp": softmax(2 * z)}, n_resamples=99, errors=["classwise"]).verdict
    assert verdict.predictive.startswith("true predicts best: Brier 0.") and "for sharp" in verdict.predictive
    assert "calibrat" not in verdict.predictive
    assert verdict.calibration == "Not calibrated: sharp (over-confident). Calibrated: true."
    assert verdict.rejected == ("sharp",) and verdict.best == ("true",)
    assert [(c.better, c.worse, c.notion) for c in verdict.better_calibrated] == [("true", "sharp", "classwise")]
    (claim,) = verdict.better_calibrated
    assert claim.low <= claim.difference <= claim.high < 0


def test_a_better_predictor_is_not_called_better_calibrated():
    """Both are calibrated, one knows more: its error is lower at every bin count, and that is the loss alone."""
    rng = np.random.default_rng(4)
    mu = rng.uniform(size=2000)
    y = (rng.random(2000) < mu).astype(int)
    models = {"flat": np.full(2000, 0.5), "sharp": mu}
    result = compare(y, models, n_bins=(5, 20, 800), errors=["binary"], n_resamples=199)
    table, _ = result.values("binary")
    assert (table[:, 1] < table[:, 0])[1:].all()
    assert result.verdict.predictive.startswith("sharp predicts best") and result.verdict.best == ("sharp",)
    assert result.verdict.better_calibrated == () and result.verdict.rejected == ()
    assert result.verdict.calibration == "Calibrated: flat and sharp."


def test_equal_models_cannot_be_told_apart():
    z, y = world()
    p = softmax(z)
    verdict = compare(y, {"one": p, "two": p}, n_resamples=99, errors=["classwise", "confidence_l1"]).verdict
    assert (
        verdict.predictive.startswith("one and two predict best: Brier 0.") and "no significant" in verdict.predictive
    )
    assert verdict.best == ("one", "two")
    gap = verdict.behind["two"]
    assert (gap.difference, gap.low, gap.high, gap.note) == (0.0, 0.0, 0.0, "")


def test_rows_that_differ_alike_tell_no_models_apart():
    """Three equal rows that came true: what was seen does not vary, which is no evidence."""
    result = compare(np.ones(3, int), {"a": [0.4] * 3, "b": [0.9] * 3}, n_bins=1, errors=["binary"])
    assert "b and a predict best: Brier 0.0100, no significant difference" in result.verdict.predictive
    assert result.pair("a", "b").lower_loss is None and result.pair("a", "b").condition == "cannot be told"


def test_gaps_behind_the_best_have_joint_intervals(comparison):
    verdict = comparison.verdict
    best = verdict.best[0]
    assert set(verdict.behind) == set(comparison.names) - {best}
    for name, gap in verdict.behind.items():
        one = comparison.pair(name, best).loss
        brier = 4  # the headline loss is Brier/k; people read Brier
        assert gap.difference == pytest.approx(brier * one.estimate)
        assert gap.low is not None and gap.high is not None
        assert gap.high - gap.low > brier * (one.high - one.low)  # three pairs: wider than one by itself
        assert (name in verdict.best) == (gap.low <= 0)


def test_weights_make_one_verdict_with_the_losses_beside_it():
    """Few heavy rows favour one model, many light ones the other: the w²-weighted loss would contradict the table."""
    rng = np.random.default_rng(0)
    n = 8000
    w = np.where(np.arange(n) < 400, 5.0, 1.0)
    q = rng.uniform(0.1, 0.9, n)
    y = (rng.random(n) < q).astype(int)
    dull = 0.5 + 0.2 * (q - 0.5)
    models = {"heavy": np.where(w > 1, q, dull), "light": np.where(w > 1, dull, q)}
    squared = {name: np.average((p - y) ** 2, weights=w**2) for name, p in models.items()}
    assert squared["heavy"] < squared["light"]
    result = compare(y, models, sample_weight=w, errors=["binary"], n_resamples=99)
    losses = {name: e.loss("brier").value for name, e in result.evaluations.items()}
    assert min(losses, key=lambda name: losses[name]) == "light" and result.verdict.best == ("light",)
    assert result.verdict.behind["heavy"].difference == pytest.approx(losses["heavy"] - losses["light"])
    assert result.pair("heavy", "light").loss.beyond_noise and result.pair("heavy", "light").lower_loss == "light"
    said = paired_difference(y, models["heavy"], models["light"], error="binary", sample_weight=w)
    assert said.conclusions[0] == "b predicts better than a: smaller loss"


def test_who_is_right_more_often_is_said_where_the_loss_says_otherwise():
    z, y = world(n=3000)
    rng = np.random.default_rng(1)
    models = {"forest": softmax(6 * z), "linear": softmax(0.7 * (z + 0.8 * rng.normal(size=z.shape)))}
    result = compare(y, models, errors=["classwise"], n_resamples=99)
    a, b = (result.evaluations[name].accuracy for name in models)
    assert result.verdict.best == ("linear",) and a > b
    assert result.verdict.predictive.endswith(f" forest is right more often: {a:.1%} against {b:.1%}.")
    assert (
        "more often" not in compare(y, {"x": softmax(z), "y": softmax(2 * z)}, errors=["classwise"]).verdict.predictive
    )


def two_notions(n=3000, k=6):
    """Labels, a model whose confidence is too high, and one whose classes below the top are mixed up."""
    rng = np.random.default_rng(3)
    p = softmax(1.2 * rng.normal(size=(n, k)))
    y, top, rows = draw_labels(rng, p), p.argmax(axis=1), np.arange(n)
    bold = p.copy()
    bold[rows, top] *= 1.4
    mixed = p.copy()
    for i in rows:
        rest = [r for r in range(k) if r != top[i]]
        mixed[i, rest] = mixed[i, rest[::-1]]
    return y, {"bold": bold / bold.sum(axis=1, keepdims=True), "mixed": mixed}


def test_notions_that_disagree_are_both_named():
    y, models = two_notions()
    result = compare(y, models, errors=["classwise", "confidence"], n_resamples=199)
    claims = {(claim.notion, claim.better) for claim in result.verdict.better_calibrated}
    assert claims == {("confidence", "mixed"), ("classwise", "bold")}
    words = "Top-class calibration favours mixed over bold, per-class favours bold."
    assert result.verdict.calibration.endswith(words)
    assert result.verdict.calibration.startswith(
        "Not calibrated: bold (over-confident), mixed (over-confident over all classes, by at least "
    )


def claim(notion, better, worse):
    return CalibrationClaim(notion, better, worse, -1.0, -2.0, -0.5)


def test_pairs_that_two_notions_turn_are_counted():
    agree = [claim("confidence", "a", "b"), claim("classwise", "a", "b")]
    assert favoured(agree) == []
    many = [claim("confidence", "a", "b"), claim("confidence", "a", "c"), claim("classwise", "b", "a")]
    assert favoured(many) == ["Top-class calibration favours a over b, per-class favours b."]
    both = [*many, claim("classwise", "c", "a")]
    assert favoured(both) == ["Top-class calibration favours a over b, per-class favours b (2 pairs in all)."]


# -- standings --------------------------------------------------------------------------------------------------------


def models_with(n_resamples: int = 999, **pvalues: float) -> Any:
    """Evaluations that hold nothing but a test."""

    def test(p):
        floor = 1 / (1 + n_resamples)
        return SimpleNamespace(pvalue=p, floor=floor, at_floor=p <= floor, settled=False, reason="")

    return {name: SimpleNamespace(test=None if p != p else test(p), standing=None) for name, p in pvalues.items()}


@pytest.mark.parametrize(
    ("evaluations", "states", "pvalues"),
    [
        (models_with(a=0.04), ["rejected"], [0.04]),
        (models_with(a=0.04, b=0.5), ["not rejected"] * 2, [0.08, 0.5]),
        (models_with(a=0.02, b=0.04), ["rejected"] * 2, [0.04, 0.04]),
        (models_with(a=0.03, b=0.04), ["not rejected"] * 2, [0.06, 0.06]),  # .03 · 2 stops Holm's steps
        (models_with(a=0.8, b=0.9, c=0.001), ["not rejected", "not rejected", "rejected"], [1.0, 1.0, 0.003]),
        (models_with(18, a=1 / 19), ["too few draws"], [1 / 19]),
        (models_with(19, a=1 / 20), ["rejected"], [0.05]),
        (models_with(39, a=1 / 40, b=0.5), ["rejected", "not rejected"], [0.05, 0.5]),
        (models_with(38, a=1 / 39, b=0.5), ["too few draws"] * 2, [2 / 39, 0.5]),  # two models need 39 draws
        (models_with(a=0.01, b=float("nan")), ["rejected", "untested"], [0.01, None]),
    ],
)
def test_rejections_are_corrected_over_the_models(evaluations, states, pvalues):
    found = standings(evaluations, 0.95)
    assert [s.state for s in found.values()] == states
    assert [s.pvalue for s in found.values()] == [None if p is None else pytest.approx(p) for p in pvalues]


def test_the_same_run_shows_the_same_p_everywhere(data):
    y, models = data
    result = compare(y, models, errors=["classwise"], n_resamples=199)
    for row in result.leaderboard():
        standing = result.verdict.standings[row["model"]]
        assert row["pvalue"] == standing.pvalue and row["calibrated"] == standing.words
        assert standing.p.removeprefix("= ") in repr(result) and result.to_dict()["verdict"]["standings"][row["model"]]
    assert result.verdict.standings["sharp"].words == "no (p ≤ 0.015)"  # three models, the floor of 199 draws


def test_too_few_draws_and_clusters_are_no_test(data):
    y, models = data
    few = compare(y, models, n_bins=(5, 20), errors=["classwise"], n_resamples=9).verdict
    assert few.calibration == "Calibration was not tested." and few.rejected == few.better_calibrated == ()
    clustered = compare(y, models, errors=["classwise"], groups=np.arange(len(y)) // 80).verdict  # five clusters
    assert clustered.calibration == "Calibration was not tested."
    assert all(s.state == "untested" for s in clustered.standings.values())


def test_untested_models_are_never_called_better_calibrated():
    z, y = world(n=2000)
    models = {"true": softmax(z), "sharp": softmax(3 * z)}
    result = compare(y, models, errors=["classwise"], groups=np.arange(2000) // 400)  # five clusters: no test
    assert result.pair("true", "sharp").gap_sq.high < 0
    assert result.verdict.better_calibrated == ()


MORE = "a gap of up to 26 points"


@pytest.mark.parametrize(
    ("standing", "said"),
    [
        (Standing("rejected", 0.002, True, seen=True), "no (p ≤ 0.002)"),
        (
            Standing("rejected", 0.032, reason="class 3 is 4.1 points too low"),
            "no (p = 0.032): class 3 is 4.1 points too low",
        ),
        (Standing("rejected", 0.032, reason="over-confident", seen=True), "no (p = 0.032)"),
        (Standing("not rejected", 0.4, allows=5.4), "yes (p = 0.40)"),
        (
            Standing("not rejected", 0.4, allows=26.2, rows="20 rows"),
            "undecided: 20 rows allow a gap of up to 26 points",
        ),
        (
            Standing("not rejected", 0.4, allows=5.4, rows="400 rows", widest=("sports", 13.2)),
            "undecided: 400 rows allow a gap of up to 13 points (sports)",
        ),
        (Standing("not rejected", 0.4, allows=5.4, widest=("sports", 9.2)), "yes (p = 0.40)"),
        (Standing("not rejected", 0.4), "undecided: too few rows"),
        (Standing("too few rows"), "undecided: too few rows"),
        (Standing("untested"), "untested"),
        (Standing("too few draws", 0.2, True), "untested: too few draws"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_standing_answers_with_its_reason(standing, said):
    assert standing.words == said and said.startswith(standing.answer)


def test_what_no_gap_shows_is_said_in_the_words_of_the_test():
    """Every other class comes too seldom by a little: the rates show it, the gaps of many bins do not."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(3000, 30))
    y = draw_labels(rng, softmax(z + 0.3 * (np.arange(30) % 2)))
    models = {"model": softmax(z), "other": softmax(z)}
    result = compare(y, models, errors=["classwise", "confidence"], n_bins=1000, n_resamples=199)
    assert result.verdict.rejected == ("model", "other")
    assert result.verdict.calibration == "Not calibrated: model and other (class 17 is 1.3 points too low)."


def test_a_rejection_that_the_gap_does_not_show_is_named_once_with_its_number():
    z, y = world(n=400)
    found = tc.evaluate(y, softmax(z), errors=["confidence"], n_resamples=99)
    assert found.test is not None and found.standing is not None
    gap = replace(found.gaps["confidence"], points=3.0, low=-0.5, high=5.0)
    standing = replace(found.standing, state="rejected", seen=False, reason='class "cat" is 4.1 points too low')
    said = replace(found, gaps={"confidence": gap}, standing=standing).verdict.calibration
    assert said == 'Not calibrated: class "cat" is 4.1 points too low.'


# -- ECE, many models, one model --------------------------------------------------------------------------------------


def test_what_ece_would_have_said_depends_on_the_bins():
    confidence = np.repeat([0.55, 0.95], 50)
    correct = np.concatenate([np.arange(50) < 40, np.arange(50) < 35])  # .80 and .70: gaps that cancel in one bin
    steady = np.full(100, 0.79)
    models = {"cancels": TopPredictions(correct, confidence), "steady": TopPredictions(correct, steady)}
    verdict = compare(None, models, n_bins=(1, 10), n_resamples=19).verdict
    assert verdict.ece == (
        "ECE ranks steady first at 10 bins, cancels at 1 bin; 1 of 1 pairs swap places as the number of bins changes."
    )
    models["off"] = TopPredictions(correct, np.full(100, 0.3))  # worst at any bin count
    verdict = compare(None, models, n_bins=(1, 10), n_resamples=19).verdict
    assert verdict.ece.endswith("; 1 of 3 pairs swap places as the number of bins changes.")


def test_models_that_ece_cannot_tell_apart_are_first_together():
    confidence, correct = np.repeat([0.55, 0.95], 50), np.arange(100) % 4 > 0
    models = {name: TopPredictions(correct, confidence) for name in ("one", "other")}
    words = "By ECE, {} share the first rank (15 bins)."
    assert compare(None, models, n_resamples=19).verdict.ece == words.format("one and other")
    models |= {"third": models["one"], "off": TopPredictions(correct, np.full(100, 0.3))}
    assert compare(None, models, n_resamples=19).verdict.ece == words.format("3 models")


@pytest.mark.heavy
def test_many_models_are_named_in_part_and_counted(data):
    y, models = data
    z = np.log(models["true"])
    many = {f"model-{i}": softmax(z * (1 + 0.5 * i)) for i in range(12)}
    verdict = compare(y, many, errors=["classwise", "confidence"], n_resamples=999).verdict
    assert len(verdict.calibration) <= 400 and " more" in verdict.calibration
    assert "7 more (over-confident)" in verdict.calibration and "model-0" in verdict.calibration
    close = compare(y, {f"m{i}": models["true"] for i in range(9)}, errors=["classwise"], n_resamples=199).verdict
    assert "m0, m1, m2, m3 and 5 more predict best: Brier 0.4898, no significant difference" in close.predictive


def test_a_single_model_and_untruthful_errors_have_a_verdict_too(data):
    y, models = data
    one = compare(y, {"true": models["true"]}, n_resamples=99, errors=["classwise"]).verdict
    assert one.sentences == ("Calibrated: 400 rows show a gap of at most 7.8 points.",)
    off = compare(y, {"sharp model": models["sharp"]}, n_resamples=99, errors=["classwise", "confidence"]).verdict
    sure, right = (getattr(tc.analysis.mean_gap(y, models["sharp"]), name) for name in ("mean_report", "mean_outcome"))
    points = f"{100 * (sure - right):.1f}"  # mean confidence − accuracy, and nothing else
    assert off.sentences == (f"Not calibrated: over-confident by {points} points.",)
    l1 = compare(y, models, n_resamples=19, errors=["confidence_l1"])
    assert l1.verdict.predictive == "No truthful error with a score was measured."
    assert "3 models" in repr(l1) and "<table>" in l1._repr_html_()


def test_sentences_are_three_and_end(comparison):
    sentences = comparison.verdict.sentences
    assert len(sentences) == 3 and all(s.endswith(".") for s in sentences)
    assert str(comparison.verdict) == "\n".join(sentences)


def test_losses_without_a_bound_are_no_verdict():
    """Cross-entropy is not the headline loss; the verdict stands on Brier even where a label had probability 0."""
    p = np.array([[1.0, 0.0]] * 5 + [[0.4, 0.6]] * 45)
    y = np.r_[np.ones(5, int), np.random.default_rng(0).integers(0, 2, 45)]
    result = compare(y, {"certain": p, "half": np.full((50, 2), 0.5)}, errors=["classwise"], n_resamples=99)
    assert result.verdict.behind["certain"].low is not None
    assert tc.cross_entropy(y, p) == np.inf
