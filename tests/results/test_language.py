"""Stated confidence, stated against sampled, judges, and recalibrated confidences."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close

language: Any = tc.language


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("85%", 0.85),
        ("85 %", 0.85),
        ("0.85", 0.85),
        (".85", 0.85),
        ("85 / 100", 0.85),
        ("17 out of 20", 0.85),
        ("8/10", 0.8),
        ("Confidence: 85", 0.85),
        ("confidence = 0.85", 0.85),
        ("Answer: 42. Confidence: 85%", 0.85),
        ("42 (confidence 60)", 0.6),
        ("Probability: .7", 0.7),
        ("Confidence (0-100): 80", 0.8),
        ("On a scale of 0 to 1, my confidence is 0.9.", 0.9),
        ("I am 70 percent sure", 0.7),
        ("3/4 of people say so; confidence 55%", 0.55),
        ("almost certain", 0.95),
        ("I am almost\ncertain.", 0.95),
        ("Very likely, but not certain", 0.9),
        ("unlikely", 0.2),
        ("Confidence: High", 0.85),
        ("100", 1.0),
        ("0", 0.0),
        ("1", 1.0),
        (0.85, 0.85),
        (85, 0.85),
        (1, 1.0),
        ("My answer is 42", None),
        ("It is not likely", None),
        ("150%", None),
        ("5/0", None),
        ("", None),
        (None, None),
        (float("nan"), None),
    ],
)
def test_a_confidence_in_text(text: Any, value: float | None) -> None:
    found = language.stated_confidence([text])
    if value is None:
        assert found.missing == (0,) and np.isnan(found.values[0])
    else:
        assert_close(float(found.values[0]), value)


def test_a_bare_one_beside_percentages_is_one_percent() -> None:
    assert_close(language.stated_confidence(["1", "85"]).values.tolist(), [0.01, 0.85])
    assert_close(language.stated_confidence(["1", "85%"]).values.tolist(), [1.0, 0.85])
    assert_close(language.stated_confidence(["1.0", "85"]).values.tolist(), [1.0, 0.85])


def test_rows_without_a_confidence_are_counted() -> None:
    found = language.stated_confidence(["85%", "no", None, "likely"])
    assert found.missing == (1, 2) and found.share_missing == 0.5
    assert repr(found).startswith("2 of 4 rows (50.0%) state no confidence: row 1, 2")
    assert found.to_dict() == {"values": [0.85, None, None, 0.7], "missing": [1, 2], "ranges": [], "scale": ""}
    assert repr(language.stated_confidence(["85%"])) == "1 stated confidences, mean 0.850"


def test_words_can_be_given() -> None:
    found = language.stated_confidence(["dead sure", "sure", "likely"], words={"sure": 0.8, "dead sure": 1.0})
    assert found.values[:2].tolist() == [1.0, 0.8] and found.missing == (2,)
    with pytest.raises(ValueError, match="words must map phrases to probabilities, got 80 for 'sure'"):
        language.stated_confidence(["sure"], words={"sure": 80})


def test_every_word_of_the_table_reads_as_it_says() -> None:
    found = language.stated_confidence([f"It is {phrase}." for phrase in language.WORDS])
    assert found.values.tolist() == list(language.WORDS.values())


@pytest.mark.parametrize("texts", ["85%", [], [["85%"]]])
def test_texts_must_be_a_list_of_texts(texts: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="texts"):
        language.stated_confidence(texts)


def test_stated_confidences_are_evaluated_beside_a_count_of_the_others(rng: np.random.Generator) -> None:
    right = rng.random(300) < 0.6
    said: list[Any] = [f"Confidence: {value}%" for value in rng.choice([80, 90, 95], 300)]
    said[7] = "I cannot say."
    result = language.from_stated(said, right)
    assert result.n_samples == 299 and result.gap.direction == "over-confident" and result.gap.low > 15
    assert result.notes[0].startswith("1 of 300 rows (0.3%) state no confidence and are left out; accuracy there")
    keep = np.arange(300) != 7
    values = np.array([int(text[12:14]) / 100 for i, text in enumerate(said) if i != 7])
    assert_close(result.score, tc.score(right[keep], values, error="top_label"))
    grouped = language.from_stated(said, right, questions=np.arange(300) // 2)
    assert "150 groups" in grouped.test.null and grouped.test.pvalue <= 0.01
    assert language.from_stated(said, right, questions=np.arange(300)) == result


@pytest.mark.parametrize(
    ("said", "right", "options", "words"),
    [
        (["no"] * 3, [True] * 3, {}, "no row states a confidence, for example 'no'"),
        (["90%"] * 3, [True] * 2, {}, "correct has 2 entries and stated 3"),
        (["90%"] * 3, [True, "so", False], {}, "correct must be true or false, got 'so' at row 1"),
        (["90%"] * 3, [True] * 3, {"questions": [1]}, "expected one per row, 3 rows"),
    ],
)
def test_wrong_stated_confidences(said: Any, right: Any, options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        language.from_stated(said, right, **options)


def test_every_parameter_is_described() -> None:
    for name, value in vars(language).items():
        if callable(value) and not isinstance(value, type):
            section = (value.__doc__ or "").partition("Parameters\n----------\n")[2].partition("\n\n")[0]
            told = {line.strip() for line in section.splitlines() if re.fullmatch(r"\s{0,4}\w+", line)}
            assert set(inspect.signature(value).parameters) == told, name


# -- stated against sampled --------------------------------------------------------------------------------------------


def asked(rng: np.random.Generator, n: int, k: int) -> tuple[Any, Any, Any]:
    """Answers of a calibrated sampler, the truth, and the chance of each sampled answer."""
    chances = rng.dirichlet([0.5] * 4, n)
    drawn = (chances.cumsum(1)[:, None] < rng.random((n, k + 1, 1))).sum(2).clip(0, 3)
    return drawn[:, :k], drawn[:, k], np.take_along_axis(chances, drawn[:, :k], 1)


def test_sampled_confidence_beats_a_model_that_is_always_sure(rng: np.random.Generator) -> None:
    answers, truth, _ = asked(rng, 300, 6)
    said = [["95%"] * 6 for _ in range(300)]
    said[0] = ["?"] * 6
    said[1][0] = "?"
    found = language.compare_stated(said, answers, reference=truth)
    assert found.better == "sampled" and found.low > 0 and found.missing == 7 and found.n_questions == 299
    assert found.sampled.n_samples == 299 and found.stated.n_samples == 299 * 6 - 1
    assert "The sampled confidence predicts better" in repr(found) and "7 answers state no confidence" in repr(found)
    assert found.to_dict()["better"] == "sampled"
    ids = np.repeat(np.arange(300), 6)
    flat = [text for own in said for text in own]
    shuffled = rng.permutation(1800)
    rows = language.compare_stated(
        [flat[i] for i in shuffled],
        answers.ravel()[shuffled],
        reference=dict(enumerate(truth.tolist())),
        questions=ids[shuffled],
    )
    assert_close(rows.stated.score, found.stated.score)


def test_a_model_that_states_its_chances_is_as_good_as_many_samples(rng: np.random.Generator) -> None:
    """Of one answer given at random against the majority of half: the stated chance is calibrated."""
    answers, truth, chance = asked(rng, 400, 8)
    found = language.compare_stated(chance.round(2).tolist(), answers, reference=truth)
    assert found.stated.gap.low <= 0.5 and found.sampled.gap.low <= 0.5


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([["90%"] * 3] * 4, "a confidence for each of the 4 answers of question 0"),
        (["90%"] * 5, "stated has 5 entries and answers 16"),
        ([["no"] * 4] * 4, "at least 3 questions must state a confidence, got 0"),
    ],
)
def test_wrong_pairs(said: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        language.compare_stated(said, [["a", "a", "b", "a"]] * 4, reference=["a"] * 4)


# -- judges ------------------------------------------------------------------------------------------------------------


def judged(rng: np.random.Generator, n: int, labelled: int) -> tuple[Any, Any]:
    """A judge who passes three in ten of what people do not, and labels of people on some rows."""
    good = rng.random(n) < 0.6
    verdict = np.where(rng.random(n) < 0.7, good, True)
    return verdict, [bool(g) if i < labelled else None for i, g in enumerate(good)]


def test_a_pass_rate_from_a_lenient_judge(rng: np.random.Generator) -> None:
    verdict, human = judged(rng, 4000, 300)
    found = language.pass_rate(verdict, human)
    assert found.low < 0.6 < found.high and found.naive > 0.68
    assert found.high - found.low < found.labelled_high - found.labelled_low
    assert found.n_labelled == 300 and found.n_new == 3700 and found.gap is None
    good = np.array(human[:300], dtype=bool)
    assert_close(found.agreement, float((verdict[:300] == good).mean()))
    assert 0.5 < found.kappa < 0.9 and not found.warning
    assert "judge alone" in repr(found) and "random draw" in repr(found)
    same = tc.estimate(good, verdict[:300].astype(float), verdict[300:].astype(float))["positive rate"]
    assert_close((found.rate, found.low, found.high), (same.value, same.low, same.high))


def test_probabilities_of_a_judge_have_a_gap(rng: np.random.Generator) -> None:
    chance = rng.uniform(0.2, 0.8, 2000)
    good = rng.random(2000) < chance
    human = [bool(g) if i % 5 == 0 else None for i, g in enumerate(good)]
    found = language.pass_rate(np.clip(chance + 0.15, 0, 1), human)
    assert found.gap.direction == "too high" and found.gap.low > 5
    assert found.low < good.mean() < found.high < found.naive + 0.05
    assert "gap of the judge's probabilities" in repr(found)
    grouped = language.pass_rate(chance, human, questions=np.arange(2000) // 20)
    assert grouped.low < good.mean() < grouped.high


def test_texts_of_verdicts_are_read() -> None:
    found = language.pass_rate(["true", "false"] * 40, ["C", None, "i", None] * 20)
    assert found.n_labelled == 40 and found.labelled == 0.5


@pytest.mark.parametrize(
    ("judge", "human", "words"),
    [
        ([1, 0, 1], [True, None], "human has 2 entries and judge 3"),
        ([1, 0, 1], [True, False, True], "human has a verdict for every row"),
        ([1, "so", 1], [True, None, True], "judge must be true, false or a probability, got 'so' at row 1"),
        ([1, 0, 1], [True, None, "so"], "human must be true, false or None, got 'so' at row 2"),
        ([1, 0, 3], [True, None, True], "judge"),
        ([1, 0, 1], [True, None, True], "at least 10 labelled rows"),
    ],
)
def test_wrong_verdicts(judge: Any, human: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        language.pass_rate(judge, human)


@pytest.mark.heavy
def test_the_interval_of_a_pass_rate_covers() -> None:
    """Of 300 samples with a lenient judge and 100 labels; the judge alone is 12 points off."""
    covered = 0
    for seed in range(300):
        verdict, human = judged(np.random.default_rng(seed), 1500, 100)
        found = language.pass_rate(verdict, human)
        covered += found.low <= 0.6 <= found.high
    assert covered >= 273


# -- maps --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["platt", "beta", "isotonic"])
def test_a_map_makes_the_majority_share_a_probability(method: str) -> None:
    answers, truth, _ = asked(np.random.default_rng(2), 1500, 5)
    top = language.majority_share(answers, reference=truth)
    found = language.recalibrate(top.confidence, top.correct, method=method)
    assert found.before.gap.low > 8 and found.after.gap.low < 1
    assert found.after.score < found.before.score
    assert abs(found.confidence.mean() - top.correct.mean()) < 0.01
    new = found.map.predict_proba(np.array([0.4, 1.0]))[:, 1]
    assert 0 < new[0] < new[1] < 1
    assert "before" in repr(found) and found.to_dict()["method"] == method


def test_rows_of_a_question_stay_in_one_fold(rng: np.random.Generator) -> None:
    """Copies of a question would otherwise tell the map their own outcome."""
    right = np.repeat(rng.random(60) < 0.5, 4)
    said = np.repeat(rng.uniform(0.3, 0.9, 60), 4)
    found = language.recalibrate(said, right, questions=np.repeat(np.arange(60), 4), method="isotonic")
    assert all(len(set(found.confidence[i : i + 4].tolist())) == 1 for i in range(0, 240, 4))
    assert "60 groups" in found.before.test.null and found.after.gap.n_samples == 240


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "spline"}, "method must be one of 'platt', 'beta', 'isotonic', got 'spline'"),
        ({"folds": 1}, "folds must be from 2 to half of the 20 questions, got 1"),
        ({"questions": [1, 2]}, "questions has 2 entries and confidence 20"),
    ],
)
def test_wrong_maps(options: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        language.recalibrate([0.6, 0.7] * 10, [True, False] * 10, **options)


def test_folds_need_right_and_wrong_answers() -> None:
    with pytest.raises(ValueError, match="right and wrong answers in every fold"):
        language.recalibrate([0.6, 0.7] * 10, [True] * 20)
