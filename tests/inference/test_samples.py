"""Sampled answers: the split by plain loops and by enumeration, the exact test, and what is read."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.evidence.of_answers import answers_evidence
from truecal.inference.samples import Halves, auto_cells, majority, one_more, share_cells, split_answers, split_spread
from truecal.kinds.answers import Answers, read_answers
from truecal.results.assembly import make_evaluation


def draw(rng, n, k, sharp=1.0, m=5):
    """n questions with k samples each, and the truth: for sharp=1 one more draw, else the samples are too sure."""
    logits = rng.normal(0, 1.5, (n, m))

    def softmax(x):
        return np.exp(x) / np.exp(x).sum(1, keepdims=True)

    sampled, true = softmax(sharp * logits), softmax(logits)
    answers = (sampled.cumsum(1)[:, None] < rng.random((n, k, 1))).sum(2)
    return answers, (true.cumsum(1) < rng.random((n, 1))).sum(1)


def numbered(answers, truth, m=5):
    """Answers 0..m−1 as clusters, without the detour over texts."""
    n, k = answers.shape
    right = np.tile(np.arange(m), n) == np.repeat(truth, m)
    clusters = (answers + m * np.arange(n)[:, None]).ravel()
    return Answers(np.repeat(np.arange(n), k), clusters, np.repeat(np.arange(n), m), right)


def from_samples(*arguments: Any, **options: Any) -> Any:
    return tc.from_samples(*arguments, **options)


def test_the_gap_is_the_mean_product_of_different_questions():
    """Against plain loops over pairs of rows of different questions."""
    rng = np.random.default_rng(0)
    answers = numbered(*draw(rng, 12, 6, 2.0))
    split = split_answers(answers, 1, splits=2)
    cell = share_cells(split, 3)
    question = split.question[0]
    residual = split.report - split.right
    total = 0.0
    for b in range(cell.max() + 1):
        rows = [i for i in range(len(cell)) if cell[i] == b]
        pairs = [(i, j) for i in rows for j in rows if question[i] != question[j]]
        if pairs:
            rate = min(len(rows) / len(pairs), 1 / 4)  # a cell of very few questions counts less, as in any gap
            total += rate * sum(residual[i] * residual[j] for i, j in pairs) / len(cell)
    assert_close(split_spread(split, cell).theta, total)
    u = 0.0  # of the mean residual of each question in each cell
    for b in range(cell.max() + 1):
        x = [sum(residual[i] for i in range(len(cell)) if (question[i], cell[i]) == (q, b)) / 4 for q in range(12)]
        u += sum(x[q] * x[r] for q in range(12) for r in range(12) if q != r) / 12
    assert_close(split_spread(split, cell, "U").theta, u)


def test_halves_have_every_answer_once():
    answers = numbered(*draw(np.random.default_rng(0), 30, 7))
    split = split_answers(answers, 0, splits=3)
    assert sorted(set(split.size.tolist())) == [3, 4]
    assert len(split.report) == 30 * 6
    assert split.per_question(split.size).tolist() == [3.5] * 30


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("right", [True, False])
def test_the_loss_is_less_its_sampling_variance(size, right):
    """Over all outcomes of half B the mean is that of the probability itself."""
    chance, mean = 0.3, np.zeros(())
    for hits in product([0, 1], repeat=size):
        weight = np.prod([chance if hit else 1 - chance for hit in hits])
        none = np.zeros(1, int)
        one = Halves(np.ones(1), np.array([np.mean(hits)]), np.array([right]), np.array([size]), (none, 1), none)
        mean = mean + weight * (np.square(one.report - one.right) - one.excess)[0]
    assert_close(float(mean), (chance - right) ** 2)


def test_the_right_answer_added_is_the_leader_as_often_as_its_share_says():
    """All outcomes of four samples and the truth from one distribution, given what they are together."""
    chances = np.array([0.5, 0.3, 0.2])
    found: dict[tuple[int, ...], list[tuple[float, float, float]]] = {}
    for *samples, truth in product(range(3), repeat=5):
        counts = tuple(np.bincount([*samples, truth], minlength=3).tolist())
        if sorted(counts)[-1] == sorted(counts)[-2]:
            continue  # ties are drawn
        sample: Any = one_more(numbered(np.array([samples]), np.array([truth]), 3), 0)
        weight = float(chances[[*samples, truth]].prod())
        found.setdefault(counts, []).append((weight, sample.reports[0], sample.marks[0]))
    assert len(found) > 10
    for counts, rows in found.items():
        weights, reports, hits = (np.array(column) for column in zip(*rows, strict=True))
        assert set(reports.tolist()) == {max(counts) / 5}
        assert_close(float(weights @ hits / weights.sum()), max(counts) / 5)


def test_a_right_answer_that_was_never_sampled_is_a_further_cluster():
    answers = read_answers([["a", "a", "a", "b"]] * 3, reference=["z"] * 3)
    sample: Any = one_more(answers, 0)
    assert sample.reports.tolist() == [3 / 5] * 3 and not sample.marks.any()


def test_a_calibrated_sampler_looks_over_confident_by_its_majority_share():
    answers, truth = draw(np.random.default_rng(1), 2000, 4)
    result = from_samples(answers, reference=truth, seed=2)
    assert result.gap.low <= 0 <= result.gap.high < 5
    assert result.test.pvalue > 0.05 and "no clear" in result.direction.word
    assert result.sampling.naive_gap > 12
    assert result.sampling.naive_confidence - result.sampling.naive_accuracy > 0.1
    assert abs(result.score - result.loss("confidence_loss").value) < 0.001


def test_an_over_confident_sampler_is_found():
    answers, truth = draw(np.random.default_rng(1), 1000, 10, 2.5)
    result = from_samples(answers, reference=truth)
    assert result.gap.low > 10 and result.gap.direction == "over-confident"
    assert result.test.at_floor
    added = result.score - result.loss("confidence_loss").value
    assert 0.5 < added / (result.gap.points / 100) ** 2 < 1.2  # the gap of two cells, averaged over cuts
    row = result.errors[0]
    assert_close(1000 * row.value, row.loss + row.U)
    table = result.reliability["top_label"]
    assert_close(float(table.count.sum()), 1000.0)
    assert "The majority share" in repr(result) and "1000 questions, 10 answers each" in repr(result)
    assert result.to_dict()["sampling"]["fewest"] == 10


def test_several_right_answers_flip_signs_of_questions():
    answers, truth = draw(np.random.default_rng(1), 300, 6, 2.5)
    correct = (answers == truth[:, None]) | (answers == 4)
    result = from_samples(answers, correct)
    assert "several right answers" in " ".join(result.notes)
    assert "mean share and accuracy" in result.test.null


def test_answers_that_are_all_different_get_a_note():
    result = from_samples([["a", "b", "c", "d"]] * 20, reference=["a"] * 20)
    assert any("cluster answers" in note for note in result.notes)


def test_ragged_answers_rows_and_lists_agree():
    answers = [["a"] * 4 + ["b"], ["a", "b", "b", "b"], ["c"] * 6] * 5
    truth = ["a", "b", "d"] * 5
    nested = from_samples(answers, reference=truth)
    ids = [i for i, own in enumerate(answers) for _ in own]
    flat = [answer for own in answers for answer in own]
    rows = from_samples(flat, [a == truth[i] for a, i in zip(flat, ids, strict=True)], questions=ids)
    by_name = from_samples(flat, reference=dict(enumerate(truth)), questions=ids)
    assert nested == rows == by_name
    assert nested.sampling.answers_text == "4 to 6 answers each"


def test_results_are_deterministic():
    answers, truth = draw(np.random.default_rng(1), 60, 5)
    assert from_samples(answers, reference=truth) == from_samples(answers, reference=truth)


@pytest.mark.parametrize(
    ("answers", "options", "words"),
    [
        ([["a"] * 4, ["a"]], {"reference": ["a", "a"]}, "question 1 has 1 answer: sample each"),
        ([["a"] * 4, ["a"] * 3], {"reference": ["a", "a"], "questions": ["q1", "q2"]}, "question 'q2' has 3 answers"),
        ([["a"] * 4, ["a", None, "a", "b"]], {"reference": ["a", "a"]}, "answer 2 of question 1 is missing"),
        ([["a"] * 4, ["a", " ", "a", "b"]], {"reference": ["a", "a"]}, "answer 2 of question 1 is missing"),
        ([["a"] * 4, ["a", 3, "a", "b"]], {"reference": ["a", "a"]}, "question 1 mixes text and numbers, 'a' and 3"),
        ([["a"] * 4, "abcd"], {"reference": ["a", "a"]}, "question 1: expected a list of answers, got 'abcd'"),
        ([["a"] * 4, ["a", ["b"], "a", "b"]], {"reference": ["a", "a"]}, "answer 2 of question 1 must be a text"),
        ([["a"] * 4] * 2, {"reference": ["a", None]}, "the reference of question 1 is missing"),
        ([["a"] * 4] * 2, {"reference": ["a"]}, "reference has 1 entries and questions 2"),
        ([["a"] * 4] * 2, {"reference": {0: "a"}}, "question 1 has no reference"),
        ([["a"] * 4] * 2, {}, "pass either correct"),
        ([["a"] * 4] * 2, {"correct": [[True] * 4, [True] * 3]}, "question 1 has 4 answers and 3 marks"),
        ([["a"] * 4] * 2, {"correct": [[True] * 4, [True, False, True, True]]}, "question 1: the answer 'a' is marked"),
        ([["a"] * 4] * 2, {"correct": [[True] * 4, [True, "maybe"] * 2]}, "answer 2 of question 1: correct must be"),
        ([["a"] * 4] * 2, {"reference": ["a"] * 2, "questions": ["q", "q"]}, "question 'q' appears twice"),
        (["a"] * 4, {"correct": [True] * 4}, "pass questions with the question of each row"),
        (["a"] * 4, {"reference": ["a", "a", "b", "a"], "questions": [1] * 4}, "question 1 has two references"),
        (["a"] * 4, {"correct": [True] * 4, "questions": [1, 1, None, 1]}, "row 2 has no question"),
        ([["a"] * 4] * 2, {"reference": ["a", "a"]}, "expected at least 3 questions, got 2"),
        ([], {"reference": []}, "answers is empty"),
    ],
)
def test_bad_input_names_the_question(answers, options, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        from_samples(answers, **options)


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (("42", "42.0", "42.", "$42", " 42 ", 42, 42.0, "+42", "42.00"), "42"),
        (("1,000", "1000", "$1,000.00", 1000, "1e3"), "1000"),
        (("-3", "-3.0", "-$3", "$-3"), "-3"),
        (("B", "b", "(B)", "B.", "b)", "[B]", "(b).", "B:"), "b"),
        (("50%", "50.0%", "50 %"), "50%"),
        (("The  Nile", "the nile.", " THE NILE "), "the nile"),
        (("1/2",), "1/2"),
        (("1,23",), "1,23"),
        (("-0.0", "0", 0, "-0"), "0"),
        (("...",), ".."),
        ((True,), "true"),
    ],
)
def test_one_spelling_for_the_same_answer(written, wanted):
    assert {tc.language.normalize_answer(answer) for answer in written} == {wanted}


def test_without_the_normaliser_texts_are_taken_as_they_are():
    answers = [["B", "b", "B", "b"]] * 3
    assert len(read_answers(answers, reference=["B"] * 3).owner) == 3
    assert len(read_answers(answers, reference=["B"] * 3, normalize=False).owner) == 6


def test_equal_shares_have_the_cell_of_the_first():
    """As quantile bins with ties="together" have it."""
    split = split_answers(numbered(*draw(np.random.default_rng(3), 40, 6)), 0)
    ordered = np.sort(split.share)
    wanted = np.searchsorted(ordered, split.share) * 7 // len(ordered)
    assert np.array_equal(share_cells(split, 7), np.unique(wanted, return_inverse=True)[1])


def test_majority_is_the_naive_share():
    share, right = majority(read_answers([["a", "a", "a", "b"]] * 2, reference=["a", "b"]), 0)
    assert share.tolist() == [0.75, 0.75] and right.tolist() == [True, False]


@pytest.mark.heavy
@pytest.mark.parametrize(("n", "k"), [(150, 4), (150, 10), (30, 4)])
def test_level_and_coverage_of_a_calibrated_sampler(n, k):
    """400 samples of n questions: the gap has no bias, the interval covers 0, and the test keeps its level."""
    rng = np.random.default_rng(k)
    thetas, covered, rejected, named = [], 0, 0, 0
    for i in range(400):
        answers = numbered(*draw(rng, n, k))
        result: Any = make_evaluation(answers_evidence(answers, auto_cells(n), 0.95, 99, i), "")
        thetas.append(np.sign(result.gap.points) * (result.gap.points / 100) ** 2)
        covered += result.gap.low <= 0
        rejected += result.test.pvalue <= 0.05
        named += result.direction.word != "no clear direction"
    assert abs(np.mean(thetas)) < 3 * np.std(thetas) / 20
    assert covered >= 360
    assert rejected <= 32 and named <= 32
