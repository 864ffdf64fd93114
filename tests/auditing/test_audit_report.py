"""What an audit hands back: words, HTML, JSON, arrays and a script; and what it refuses."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import truecal
from truecal.auditing.metric import name_of

tc: Any = truecal  # what a test hands in need not be of the right type

LITTLE = 400


@pytest.fixture(scope="module")
def gamed():
    return tc.audit(tc.confidence_error, metric_options={"norm": "l1"}, budget=1000)


@pytest.fixture(scope="module")
def clean():
    return tc.audit(tc.brier, budget=LITTLE)


@pytest.mark.slow
def test_the_text_says_verdict_proof_and_calls(gamed):
    text = repr(gamed)
    assert text.startswith("audit of truecal.kinds.functions:confidence_error\n  gamed: at 300 rows the truth has 0.0")
    assert "300 rows, 2 classes: the truth has 0.0" in text
    assert "all 2 outcomes listed" in text and "1 row with chances (0.7, 0.3), predicted as (1, 0)" in text
    assert f"{gamed.calls:,} calls, seed 0; numpy arrays, labels first, two classes as a matrix" in text


@pytest.mark.slow
def test_no_verdict_is_called_truthful(gamed, clean):
    assert clean.summary.startswith("certified on a grid (multiples of 1/")
    for report in (gamed, clean):
        assert "truthful" not in report.summary and "truthful" not in str(report.to_dict()["verdict"])


def test_json_has_everything_but_the_outcomes(gamed, clean):
    stored = json.loads(json.dumps(gamed.to_dict(), allow_nan=False))
    assert stored["verdict"] == "gamed" and stored["proof"]["gain"] == gamed.proof.gain
    assert stored["options"] == {"norm": "l1"} and stored["forms"]["2"]["binary"] == "matrix"
    stored = json.loads(json.dumps(clean.to_dict(), allow_nan=False))
    assert stored["proof"] is None and stored["certificates"][0]["classes"] == 2
    odd = tc.audit(tc.confidence_error, metric_options={"strategy": tc.EqualWidth(3), "norm": "l1"}, budget=LITTLE)
    assert "EqualWidth" in json.loads(json.dumps(odd.to_dict()))["options"]["strategy"]


def test_everything_from_outside_is_escaped():
    def metric(y, p, note=""):
        if len(y) == 2:
            raise ValueError("<script>alert(1)</script>")
        return float(abs(p[:, 1] - y).sum())

    metric.__qualname__ = "<img src=x>"
    report = tc.audit(metric, metric_options={"note": "<b>"}, budget=LITTLE)
    for text in (report.to_html(), report._repr_html_()):
        assert "<img" not in text and "<script" not in text and "<b>" not in text
        assert "&lt;img src=x&gt;" in text and "&lt;script&gt;" in text
    page = report.to_html()
    assert page.startswith("<!doctype html>") and "http" not in page.replace("http-equiv", "")


@pytest.mark.slow
def test_the_script_shows_the_gain_in_a_process_of_its_own(gamed, tmp_path):
    script = tmp_path / "check.py"
    script.write_text(gamed.snippet())
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    _, honest, _, lying = done.stdout.split()
    assert float(honest) == pytest.approx(gamed.proof.expected_truth)
    assert float(lying) == pytest.approx(gamed.proof.expected_lie)


def by_two_columns(preds, target):
    """As torch has it: predictions first, one column, tensors only."""
    return (preds - target.double()).abs().mean()


def run_snippet(report, metric):
    text = report.snippet().replace("metric = ...", "pass").replace("print(", "out.append(")
    lines = [line for line in text.splitlines() if " as metric" not in line]
    scope: dict[str, Any] = {"metric": metric, "out": []}
    text = "\n".join(lines).replace('out.append("truth", expected(world), "lie", expected(lie))', "")
    exec(text, scope)
    return scope["expected"](scope["world"]), scope["expected"](scope["lie"])


def test_the_script_speaks_the_form_of_the_metric():
    pytest.importorskip("torch")
    report = tc.audit(by_two_columns, convention="preds_first", budget=LITTLE)
    assert report.forms[2].array == "torch" and report.forms[2].binary == "column"
    assert "metric(torch.tensor(p[:, 1]), torch.tensor(np.array(y)))" in report.snippet()
    assert "3 classes were not tested: " in repr(report)
    assert report.unseen == (3,) and report.summary.endswith("; not tested: 3 classes")
    found = run_snippet(report, by_two_columns)
    np.testing.assert_allclose(found, (report.proof.expected_truth, report.proof.expected_lie))


def test_without_a_proof_there_is_nothing_to_reproduce(clean):
    for ask in (clean.reproduce, clean.snippet):
        with pytest.raises(ValueError, match="no counterexample to reproduce: certified"):
            ask()
    with pytest.raises(ValueError, match="no numbers at 300 rows to reproduce"):
        clean.snippet(lasting=True)


def test_scripts_import_only_what_is_there():
    assert name_of(tc.brier) == "brier" and name_of(tc.score) == "truecal.kinds.functions:score"
    assert name_of(tc.ERRORS["binary_l1"]) == "binary_l1"
    assert name_of(tc.ERRORS["binary_l1"].with_bins(3)).startswith("CalibrationError(")  # has a name; no module has it


@pytest.mark.slow
def test_the_script_of_a_member_of_errors_runs_as_it_is(tmp_path):
    report = tc.audit(tc.ERRORS["binary_l1"], budget=LITTLE)
    assert report.metric == "binary_l1" and report.proof is not None
    script = tmp_path / "check.py"
    script.write_text(report.snippet())
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    _, truth, _, lie = done.stdout.split()
    assert float(truth) == pytest.approx(report.proof.expected_truth)
    assert float(lie) == pytest.approx(report.proof.expected_lie)


@pytest.mark.slow
def test_partials_methods_and_instances_are_metrics():
    class Held:
        def measure(self, y, p):
            return tc.brier(y, p)

        __call__ = measure

    for metric in (functools.partial(tc.confidence_error, n_bins=2), Held().measure, Held()):
        assert tc.audit(metric, budget=LITTLE).verdict == "certified"


@pytest.mark.slow
def test_logits_go_in_as_logarithms():
    def from_logits(y, z):
        assert (z <= 0).all() and np.isneginf(z).any() | (z < 0).any()
        return tc.brier(y, np.exp(z))

    report = tc.audit(from_logits, input="logits", budget=LITTLE)
    assert report.verdict == "certified" and "logits" in repr(report)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": 3}, "metric must be a callable such as metric\\(y_true, y_proba\\), got 3"),
        ({"convention": "labels"}, "convention must be one of 'y_true_first', 'preds_first', got 'labels'"),
        ({"array": "jax"}, "array must be one of"),
        ({"binary": "both"}, "binary must be one of"),
        ({"input": "odds"}, "input must be one of"),
        ({"classes": (1,)}, "classes must be whole numbers of at least 2, got"),
        ({"classes": "ab"}, "classes must be whole numbers such as"),
        ({"classes": 100}, "classes must be at most 20"),
        ({"budget": "huge"}, "budget must be one of 'quick', 'default', 'thorough', got 'huge'"),
        ({"budget": 0}, "budget must be at least 1"),
        ({"seconds": -1}, "seconds must be a positive number or None"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"higher_is_better": "yes"}, "higher_is_better must be True or False"),
        ({"metric_options": [1]}, "metric_options must map names to values"),
        (
            {"metric": len},
            "the metric returned no number for any sample, with labels before predictions: 2 classes: Type",
        ),
        ({"metric": lambda y, p: p}, "must return one number, got array"),
        ({"metric": lambda y, p: float("nan")}, "the metric returned no finite value for any case"),
    ],
)
def test_what_is_refused(options, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        tc.audit(options.pop("metric", tc.brier), **{"budget": 50, **options})
    assert "\n" not in str(caught.value)


def test_an_interrupt_is_not_swallowed():
    def interrupted(y, p):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tc.audit(interrupted)


def test_progress_is_told_and_ends_within_one():
    told: list[float] = []
    tc.audit(tc.brier, budget=LITTLE, progress=told.append)
    assert told == sorted(told) and 0 < told[-1] <= 1


def test_too_little_time_is_said():
    with pytest.raises(ValueError, match="the time limit of 1e-06 s was too short to try them"):
        tc.audit(tc.brier, seconds=1e-6)
    report = tc.audit(tc.brier, budget=1)
    assert (report.verdict, report.summary) == ("no verdict", "no verdict: the budget allowed no search")
    assert not report.passed and "could not be judged" in report.to_html()


@pytest.mark.slow
def test_a_metric_that_leaves_is_one_that_raises():
    """sys.exit(0) in the middle of an audit once read as: no lie found."""

    def leaves(y, p):
        sys.exit(0)

    with pytest.raises(ValueError, match=r"returned no number for any sample.*the metric called sys\.exit\(0\)"):
        tc.audit(leaves)

    def leaves_at_times(y, p):
        return sys.exit(0) if len(y) == 2 else float(abs(p[:, 0] - (y == 0)).mean())

    report = tc.audit(leaves_at_times, budget=LITTLE)
    assert report.verdict == "gamed" and any("the metric called sys.exit(0)" in note for note in report.notes)

    calls: list[int] = []

    def leaves_later(y, p):
        calls.append(len(y))
        return tc.brier(y, p) if len(calls) <= 300 else sys.exit(0)

    report = tc.audit(leaves_later, budget=2000)
    assert report.summary == "no verdict: the metric called sys.exit(0)" and not report.passed


def test_an_exception_without_words():
    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    def metric(y, p):
        raise Silent

    with pytest.raises(ValueError, match=r"Silent: \(no message\)"):
        tc.audit(metric)


@pytest.mark.slow
def test_the_script_at_300_rows_prints_its_numbers(gamed, tmp_path):
    script = tmp_path / "check.py"
    script.write_text(gamed.snippet(lasting=True))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    _, honest, _, lying = done.stdout.split()
    assert float(honest) == pytest.approx(gamed.lasting.expected_truth)
    assert float(lying) == pytest.approx(gamed.lasting.expected_lie)


@pytest.mark.slow
def test_the_page_fits_a_phone():
    """It says how wide it is, and searches of one kind and size are one line."""
    page = tc.audit(tc.brier, budget=1500).to_html()
    assert 'name="viewport"' in page and "predicting the truth is best" in page
    cell = '<td style="text-align: left">'
    places = re.findall(rf"{cell}climbing, all outcomes</td>{cell}(\d+)</td>{cell}(\d+)", page)
    assert places and len(places) == len(set(places))


def test_the_page_marks_what_failed():
    page = tc.audit(tc.ERRORS["binary_l1"], budget=300).to_html()
    assert "by predicting something else" in page
