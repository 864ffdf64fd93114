"""From files to what the library takes: labels, models, class names, temperatures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import truecal as tc
from closeness import assert_close
from truecal.cli.loading import Loaded, load
from truecal.cli.shared_options import Measuring, Reading


def loaded(*files: str, **options: Any) -> Loaded:
    return load([Path(file) for file in files], Reading(**options))


@pytest.mark.parametrize(("file", "name"), [("good.npz", "classwise"), ("good.npz", None), ("top.csv", None)])
def test_test_decides_as_evaluate_does(folder: Path, file: str, name: str | None) -> None:
    read = loaded(file)
    (model,) = read.models.values()
    alone = read.test(name, Measuring(n_resamples=49, seed=3))
    if name is None:
        whole = tc.evaluate(read.y_true, model, n_resamples=49, seed=3)
        assert whole.test is not None
        assert_close(alone.pvalue, whole.test.pvalue)
    else:
        assert_close(alone.pvalue, tc.calibration_test(read.y_true, model, error=name, n_resamples=49, seed=3).pvalue)


def test_errors_without_bin_counts_can_be_tested(folder: Path) -> None:
    read = loaded("good.npz")
    assert 0 < read.test("confidence_two_bin", Measuring(n_resamples=19)).pvalue <= 1
    assert np.max(np.array(read.test("full", Measuring(n_resamples=19)).n_bins)) * 4 <= 300  # no more cells than rows


def test_class_names_are_those_of_all_columns(folder: Path) -> None:
    frame = pd.read_csv("sharp.csv")
    frame.columns = ["label", "prob_ant", "prob_bee", "prob_cat", "prob_dog"]
    frame.to_csv("named.csv", index=False)
    assert loaded("sharp.csv", "named.csv").classes == ("ant", "bee", "cat", "dog")
    assert loaded("sharp.csv", "good.npz").classes == ("0", "1", "2", "3")
    assert loaded("top.csv", "named.csv").classes is None  # only the top class is compared: no columns to name


def test_validation_rows_are_not_the_test_rows_in_disguise(folder: Path, rng: np.random.Generator) -> None:
    with np.load("sharp-logits.npz") as test, np.load("sharp-val.npz") as val:
        (z, y), (zv, yv) = (test["logits"], test["labels"]), (val["logits"], val["labels"])
    order = rng.permutation(len(z))
    disguises = {
        "rows.npz": (z[order], y[order]),
        "columns.npz": (z[:, ::-1], 3 - y),
        "digits.npz": (z[order].astype(np.float32), y[order]),
        "part.npz": (z[order[:100]], y[order[:100]]),
        "more.npz": (np.concatenate([zv, z]), np.concatenate([yv, y])),
    }
    for name, (logits, labels) in disguises.items():
        np.savez(name, logits=logits, labels=labels)
        with pytest.raises(ValueError, match=f"{name}: the validation rows are the test rows of sharp-logits.npz"):
            loaded("sharp-logits.npz", temperature=[Path(name)])
    np.savez("mixed.npz", logits=np.concatenate([zv, z[:5]]), labels=np.concatenate([yv, y[:5]]))
    notes = loaded("sharp-logits.npz", temperature=[Path("mixed.npz")]).notes
    assert any("5 of the 305 validation rows of mixed.npz equal rows of sharp-logits.npz" in note for note in notes)


def test_a_model_with_few_outputs_may_repeat_them_on_other_samples(folder: Path) -> None:
    table = np.array([[2.0, 0.0], [0.0, 1.0]])
    y = np.arange(40) % 2 ^ (np.arange(40) % 5 == 0)  # the higher logit is right four times in five
    np.savez("stump.npz", logits=table[np.arange(40) % 2], labels=y)
    np.savez("stump-val.npz", logits=table[np.arange(10) % 2], labels=y[:10])
    notes = loaded("stump.npz", temperature=[Path("stump-val.npz")]).notes
    assert any("10 of the 10 validation rows" in note for note in notes)


def test_trouble_of_the_fit_is_a_note(folder: Path) -> None:
    with np.load("sharp-val.npz") as val:
        np.savez("wrong-val.npz", logits=-val["logits"], labels=val["labels"])
    notes = loaded("sharp-logits.npz", temperature=[Path("wrong-val.npz")]).notes
    assert any("do not agree with the logits" in note for note in notes)
