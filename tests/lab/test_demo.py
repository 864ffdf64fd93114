"""The demo: each model's probabilities are written as they are compared, and a learner is trained once."""

from __future__ import annotations

import sys
from functools import partial

import numpy as np
import pytest

import truecal as tc
from truecal.lab import datasets, demo


@pytest.fixture
def few_rows(monkeypatch):
    """Four hundred rows of each split, three letters."""
    data = datasets.letter()

    def part(split):
        rows = np.flatnonzero(split.y < 3)[:400]
        return datasets.Split(split.X[rows], split.y[rows])

    small = datasets.Splits(part(data.train), part(data.validation), part(data.test), data.classes[:3])
    monkeypatch.setattr(datasets, "letter", lambda: small)
    monkeypatch.setattr(demo, "BINS", (2, 5))
    return small


def test_files_hold_what_was_compared(few_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(tc, "compare", partial(tc.compare, resamples=19))
    trained, fit = [], demo._fit

    def noted(model, data):
        trained.append(model.name)
        return fit(model, data)

    monkeypatch.setattr(demo, "_fit", noted)
    models = [model for model in demo.MODELS if model.learner == "naive_bayes"]
    monkeypatch.setattr(demo, "MODELS", (*models, demo.DemoModel("flat", "naive_bayes", temperature=4.0)))
    result = demo.run_demo(tmp_path / "out")
    assert result.names == ("naive-bayes", "naive-bayes-scaled", "flat") and trained == ["naive-bayes"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(f"{name}.npz" for name in result.names)
    for name in result.names:
        with np.load(tmp_path / "out" / f"{name}.npz") as found:
            assert found["labels"].tolist() == few_rows.test.y.tolist()
            assert tc.brier(found["labels"], found["probs"]) == pytest.approx(
                result.evaluations[name].loss("brier").value, abs=1e-5
            )
    brier = {name: result.evaluations[name].loss("brier").value for name in result.names}
    assert brier["naive-bayes-scaled"] < brier["naive-bayes"]  # its temperature was fitted on other rows


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
