"""One question has one answer: the same object and the same text in every output, on every kind of prediction."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import answer_worlds as worlds
import truecal as tc
from truecal.core.words import nearest


@pytest.mark.parametrize(
    ("said", "meant"), [("ECE", "ece"), ("log_loss", "cross_entropy"), ("Brier", "brier"), ("neg_brier_score", "brier")]
)
def test_names_of_other_libraries_are_understood(said, meant):
    with pytest.raises(ValueError, match=rf"got '{said}'; did you mean '{meant}'"):
        tc.scorer(said)
    assert nearest("no such thing at all", ["brier"]) == []


def test_a_loss_among_errors_is_found():
    with pytest.raises(
        ValueError, match=r"'log_loss' is a loss, which is always measured: result.loss\('cross_entropy'"
    ):
        tc.evaluate([0, 1] * 9, [0.2, 0.9] * 9, errors=["log_loss"])


def test_dir_shows_what_a_reader_may_use():
    found = dir(tc.evaluate([0, 1] * 9, [0.2, 0.9] * 9, n_resamples=19))
    assert {"brier", "gap", "pvalue", "explain", "to_latex"} <= set(found)
    assert not {"as_row", "size_text", "row_word", "width_text", "about"} & set(found)


def test_ordinal_is_another_word_for_ordered():
    y, p, options = worlds.arguments("ordered", 100)
    found = tc.evaluate(y, p, **options | {"task": "ordinal"}, n_resamples=19)
    assert found == tc.evaluate(y, p, **options, n_resamples=19) and found.kind == "ordered"


@pytest.mark.parametrize(
    ("missing", "code", "extra"),
    [
        ("torch", "import truecal.adapters.torchmetrics", "torchmetrics"),
        ("torchmetrics", "import truecal.adapters.torchmetrics", "torchmetrics"),
        ("typer", "import sys; sys.argv = ['truecal', '--help']; import truecal.cli; truecal.cli.main()", "cli"),
        ("matplotlib", "import truecal; truecal.evaluate([0, 1] * 9, [.2, .9] * 9, n_resamples=19).plot()", "plots"),
    ],
)
def test_a_missing_library_is_answered_with_its_extra(missing, code, extra):
    program = f"import sys; sys.modules[{missing!r}] = None; {code}"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.returncode == 1 and f'pip install "truecal[{extra}]"' in found.stderr.splitlines()[-1]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "top"])
@pytest.mark.parametrize("sharpen", [1.0, 1.8])
def test_the_test_and_the_evaluation_print_the_same_gap(kind, sharpen):
    y, p, options = worlds.arguments(kind, 400, sharpen=sharpen)
    given = (None, tc.TopPredictions(y, p)) if kind == "top" else (y, p)
    found: Any = tc.evaluate(*given, n_resamples=99, **options)
    test: Any = tc.calibration_test(*given, n_resamples=99, max_gap=3, **options)
    np.testing.assert_allclose([test.gap, test.low, test.high], [found.gap.points, found.gap.low, found.gap.high])
    shown = found.as_row
    line = next(line for line in repr(found).split("\n") if line.startswith("  gap"))
    assert line.split(maxsplit=1)[1].replace(" points", "") in test.sentence.replace(" points", "")
    assert shown.standing.pvalue == found.test.pvalue == test.pvalue


@pytest.mark.parametrize(("kind", "error"), [("binary", None), ("multilabel", "labelwise"), ("top", None)])
def test_the_test_and_the_evaluation_give_the_same_reason(kind, error):
    """Of 20 rows no direction is clear."""
    y, p, options = worlds.arguments(kind, 20, sharpen=1.8, seed=7)
    given = (None, tc.TopPredictions(y, p)) if kind == "top" else (y, p)
    found: Any = tc.evaluate(*given, **options)
    test: Any = tc.calibration_test(*given, error=error, labels=options.get("labels"))
    assert found.standing.words == test.standing.words == found.test.standing.words
    assert test.standing.answer == "no" and ": " in test.standing.words


def test_a_test_that_too_few_rows_leave_out_says_so() -> None:
    """The reason of survival predictions was the null hypothesis."""
    y, p, options = worlds.arguments("survival", 6)
    found = tc.evaluate(y, p, **options)
    assert found.test is None and any("not tested: a test needs at least" in note for note in found.notes)


def test_a_no_without_a_direction_names_what_is_wrong():
    """Of twelve images no mean is clear: the headline had neither a direction nor a reason, beside classes with one."""
    rng = np.random.default_rng(0)
    z = 1.5 * rng.normal(size=(12, 3, 16, 16))
    odds, sharp = np.exp(z), np.exp(1.8 * z)
    y = ((odds / odds.sum(1, keepdims=True)).cumsum(1) < rng.random((12, 1, 16, 16))).sum(1)
    found: Any = tc.evaluate(y, sharp / sharp.sum(1, keepdims=True), n_resamples=199)
    assert found.direction.sized == "" and {view.gap.direction for view in found.views} == {"over-confident"}
    assert found.standing.answer == "no" and found.gap.low > 0
    assert found.standing.words.split("): ")[1].startswith("over-confident")
    assert "What is off: over-confident" in found.explain() and "over-confident" in found.verdict.calibration


@pytest.mark.parametrize("kind", ["binary", "multilabel"])
def test_a_table_for_a_paper_has_few_numbers_and_the_bins_of_ece(kind):
    y, p, options = worlds.arguments(kind, 200)
    heads = tc.evaluate(y, p, n_resamples=99, **options).to_markdown().split("\n")[0]
    ece = "ECE (15 bins) | " if kind == "binary" else ""
    assert heads == f"| model | gap | interval | p | Brier | {ece}n |"


def test_ece_has_one_value_per_data_set_at_every_entry_point():
    y, p, _ = worlds.arguments("binary", 500, sharpen=1.8)
    y, two, stream = y.astype(int), np.column_stack([1 - p, p]), tc.stream()
    stream.update(y, p)
    edges = np.ceil(15 * p).clip(1) - 1  # bins are closed on the right, as in torchmetrics
    plain = sum(abs((p - y)[edges == b].sum()) for b in range(15)) / len(y)
    found: Any = [tc.ece(y, p), tc.ece(y, two), tc.evaluate(y, p, n_resamples=19).ece, tc.evaluate(y, two).ece]
    found += [tc.compare(y, {"a": p, "b": two}, n_resamples=19).evaluations[name].ece for name in "ab"]
    np.testing.assert_allclose([*found, stream.result().ece], plain)


@pytest.mark.parametrize(
    ("kind", "axes"),
    [("binary", ("predicted probability", "observed frequency")), ("multiclass", ("confidence", "accuracy"))],
)
def test_a_diagram_draws_what_the_gap_of_its_title_measures(kind, axes):
    y, p, options = worlds.arguments(kind, 500, sharpen=1.8)
    found: Any = tc.evaluate(y, p, n_resamples=99, **options)
    ax: Any = tc.plots.reliability(found)
    assert (ax.get_xlabel(), ax.get_ylabel()) == axes
    assert f"gap {found.gap.points:.2g} points" in ax.get_title()
    smallest = ax.get_lines()[-1].get_xdata().min()
    assert smallest < 0.1 if kind == "binary" else smallest > 1 / 3
    ax.figure.clear()
