"""The demo: the cheat wins by ECE and comes last by the score; files hold what was compared, learners train once."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pytest

import truecal as tc
from truecal.cli import demo, letter


@pytest.fixture
def few_rows(monkeypatch):
    """Four hundred rows of each split, three letters."""
    data = letter.letter()

    def part(split):
        rows = np.flatnonzero(split.y < 3)[:400]
        return letter.Split(split.X[rows], split.y[rows])

    small = letter.Splits(part(data.train), part(data.validation), part(data.test), data.classes[:3])
    monkeypatch.setattr(letter, "letter", lambda: small)
    monkeypatch.setattr(demo, "BINS", (2, 5))
    return small


@pytest.mark.slow
def test_files_hold_what_was_compared(few_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(tc, "compare", partial(tc.compare, n_resamples=19))
    trained, fit = [], demo._fit

    def noted(model, data):
        trained.append(model.name)
        return fit(model, data)

    monkeypatch.setattr(demo, "_fit", noted)
    models = [model for model in demo.MODELS if model.learner == "naive_bayes"]
    monkeypatch.setattr(demo, "MODELS", (*models, demo.DemoModel("flat", "naive_bayes", temperature=4.0)))
    shares: list[float] = []
    result = demo.run_demo(tmp_path / "out", shares.append)
    assert result.names == ("naive-bayes", "naive-bayes-scaled", "flat", "cheat") and trained == ["naive-bayes"]
    assert shares == sorted(shares) and shares[0] == 0 and shares[-1] == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{name}.npz" for name in result.names)
    for name in result.names:
        with np.load(tmp_path / "out" / f"{name}.npz") as found:
            assert found["labels"].tolist() == few_rows.test.y.tolist()
            assert tc.brier(found["labels"], found["probs"]) == pytest.approx(
                result.evaluations[name].loss("brier").value, abs=1e-5
            )
    brier = {name: result.evaluations[name].loss("brier").value for name in result.names}
    assert brier["naive-bayes-scaled"] < brier["naive-bayes"]  # its temperature was fitted on other rows


@pytest.mark.heavy
def test_the_cheat_is_first_by_ece_and_last_by_loss_and_score(tmp_path, monkeypatch):
    """The whole demo, as people run it, but for the errors that the story does not speak of."""
    errors = ("classwise", "confidence", "confidence_l1")
    monkeypatch.setattr(tc, "compare", partial(tc.compare, errors=errors, n_resamples=39))
    result = demo.run_demo(tmp_path)
    assert len(result.names) == 11 and {5, 15, 20, 200} <= set(demo.BINS)
    by_ece = {r.n_bins: r.order[0] for r in result.rankings if r.error == "confidence_l1"}
    assert by_ece == dict.fromkeys(demo.BINS, "cheat")
    for error in ("classwise", "confidence"):
        (by_score,) = (r for r in result.rankings if (r.error, r.by) == (error, "score"))
        assert by_score.order[-1] == "cheat"
    assert "ECE ranks it first at every number of bins; by Brier it is last." in demo.story(result)
    assert result.verdict.ece.startswith("ECE ranks cheat first at every number of bins")
    assert result.verdict.ece.endswith("By Brier it is last.")


def test_the_story_claims_nothing_that_the_run_does_not_show():
    y, good, cheat = [0, 1] * 20, [0.1, 0.9] * 20, [0.3, 0.4] * 20
    result = tc.compare(
        y, {"good": good, demo.CHEAT: cheat}, n_bins=(2, 5), errors=["binary", "binary_l1"], n_resamples=9
    )
    assert demo.story(result) == demo.STAGE  # ECE saw through this one


@pytest.mark.slow
def test_a_cheat_that_is_rejected_for_next_to_nothing_is_explained():
    rng = np.random.default_rng(0)
    chances = rng.choice([0.005, 0.9], 30_000, p=[0.95, 0.05])
    y = rng.random(30_000) < chances
    for off, explained in ((0.004, True), (0.008, False)):
        models = {"sharp": np.where(chances > 0.5, 0.99, 0.02), demo.CHEAT: np.full(len(y), y.mean() + off)}
        result = tc.compare(y, models, n_bins=(2, 5), errors=["binary", "binary_l1"], n_resamples=99)
        assert demo.story(result).startswith(f"{demo.STAGE} ECE ranks it first at every number of bins; by Brier")
        assert (demo.TINY in demo.story(result)) == explained


def test_the_cheat_looks_at_validation_labels_alone(few_rows):
    p = demo.base_rates(few_rows)
    assert p.shape == (len(few_rows.test), 3) and (p == p[0]).all()
    np.testing.assert_allclose(p[0], np.bincount(few_rows.validation.y) / len(few_rows.validation))


@pytest.mark.slow
def test_every_learner_gives_probabilities(few_rows):
    for name in {model.learner for model in demo.MODELS}:
        model = demo.DemoModel(name, name, fraction=0.5, temperature=2.0)
        p = demo._probabilities(model, demo._fit(model, few_rows), few_rows)
        assert p.shape == (len(few_rows.test), 3) and p.min() > 0
        np.testing.assert_allclose(p.sum(axis=1), 1)


def test_it_says_what_to_install(few_rows, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.exceptions", None)
    with pytest.raises(ImportError, match=r'^this needs scikit-learn: run pip install "truecal\[recalibration\]"$'):
        demo.run_demo(tmp_path)
