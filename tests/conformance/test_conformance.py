"""The conformance suite: its files are what the definitions give, and its runner tells who agrees."""

from __future__ import annotations

import json
import math
import sys
from contextlib import suppress
from pathlib import Path
from statistics import StatisticsError
from typing import Any

import numpy as np
import pytest
from conformance.__main__ import main

import conformance
import reference_baselines as reference
import truecal as tc
from conformance import generate
from truecal.baselines import BASELINES, ERRORS

ROOT = Path(__file__).parents[2]
SETS = conformance.sets()
OTHER_KINDS = ("cumulative", "labelwise", "distribution", "survival")
"""The sets hold classes without an order; these are compared with loops in tests/core/test_kinds.py."""


def same(a: float | None, b: float | None) -> bool:
    if a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):
        return a == b
    return math.isclose(a, b, rel_tol=1e-8, abs_tol=1e-12)  # fits by Newton steps stop near their optimum


def test_twenty_sets_and_every_measure():
    assert len(SETS) == 20 and {data.y_proba.shape[1] for data in SETS} >= {2, 3, 5, 10, 50}
    assert len(BASELINES) == 35
    of_classes = {name for name, error in ERRORS.items() if error.property.kind not in OTHER_KINDS}
    assert of_classes <= set(conformance.measures())
    assert sum(data.sample_weight is not None for data in SETS) == 3
    for data in SETS:
        assert set(data.values) == set(conformance.measures())
        np.testing.assert_allclose(data.y_proba.sum(axis=1), 1, atol=1e-12)


@pytest.mark.heavy
def test_the_files_are_what_the_generator_makes():
    """Up to rounding, which depends on the processor."""
    made = generate.contents()
    assert set(made) == {place.name for place in generate.FOLDER.glob("*.json")}
    for name, text in made.items():
        new, old = json.loads(text), json.loads((generate.FOLDER / name).read_text("utf-8"))
        if name == "measures.json":
            assert new == old
            continue
        assert {key: new[key] for key in ("name", "about", "y_true")} == {
            key: old[key] for key in ("name", "about", "y_true")
        }
        np.testing.assert_allclose(new["y_proba"], old["y_proba"], rtol=1e-12)
        values = ({n: math.inf if v == "inf" else v for n, v in x["values"].items()} for x in (new, old))
        mine, stored = values
        assert not [n for n in stored if not same(mine[n], stored[n])]


SCALAR: dict[str, Any] = {
    "step_calibration": lambda u, y: reference.step_sum(u, y) / len(u),
    "ecce_range": lambda u, y: reference.interval_sum(u, y) / len(u),
    "hosmer_lemeshow": reference.hosmer_lemeshow,
    "spiegelhalter": lambda u, y: abs(reference.spiegelhalter(u, y)),
    "corp": reference.corp,
    "binary_ece": reference.ece,
    "binary_mce": reference.mce,
}
CLASSES: dict[str, Any] = {
    "ece": lambda y, p: reference.ece(*reference.confidence(y, p)),
    "ece_equal_mass": lambda y, p: reference.ece(*reference.confidence(y, p), None, 15, "quantile"),
    "sce": lambda y, p: reference.classwise(reference.ece, y, p),
    "tace": reference.tace,
    "mce": lambda y, p: reference.mce(*reference.confidence(y, p)),
    "debiased_squared": lambda y, p: reference.debiased_squared(*reference.confidence(y, p)),
    "top_label_ece": reference.top_label_ece,
    "mmce": lambda y, p: math.sqrt(reference.mmce_squared(y, p)),
    "mmce_corrected": lambda y, p: reference.mmce_squared(y, p, corrected=True),
    "skce": reference.skce,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "data", [d for d in SETS if d.sample_weight is None and len(d.y_true) <= 100], ids=lambda data: data.name
)
@pytest.mark.heavy
def test_stored_values_are_those_of_plain_loops(data):
    """Other code than that which made the files; where the loops divide by nothing, nothing is compared."""
    y, u = data.inputs("event")[0].astype(float).tolist(), data.y_proba[:, 1].tolist()
    loops = {name: (call, (u, y)) for name, call in SCALAR.items()}
    loops |= {name: (call, (data.y_true, data.y_proba)) for name, call in CLASSES.items()}
    for name, (call, given) in loops.items():
        with suppress(ZeroDivisionError, StatisticsError):
            assert data.values[name] == pytest.approx(call(*given), rel=1e-9, abs=1e-12), name


def test_values_known_by_hand():
    values = {data.name: data.values for data in SETS}
    assert values["one row"]["ece"] == pytest.approx(0.3) and values["one row"]["binary"] == pytest.approx(0.09)
    assert values["three rows"]["binary_two_bin"] == pytest.approx(0.05088889, abs=1e-8)
    assert values["a pair of ties"]["binary_two_bin"] == pytest.approx(0.056875)


# -- the runner --------------------------------------------------------------------------------------------------------


def wrong_edges(y, p):
    """ECE whose bins are closed on the left."""
    top, right = p.max(axis=1), p.argmax(axis=1) == y
    cell = np.minimum((top * 15).astype(int), 14)
    return sum(abs((top - right)[cell == b].sum()) for b in range(15)) / len(y)


def first_predictions(preds, target):
    """As torch has it: tensors, predictions first, one column."""
    return (preds.double().round(decimals=9) * 0 + tc.ERRORS["spiegelhalter"](target.numpy(), preds.numpy())).mean()


def weighted(y, p, w=None):
    return tc.confidence_error(y, p, norm="l1", sample_weight=w)


@pytest.mark.slow
def test_who_agrees_is_told(capsys, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(Path(__file__).parent), *sys.path])
    assert main(["ece", "--measure", "ece", "--weights", "sample_weight"]) == 0
    assert "20 of 20 data sets agree with ece" in capsys.readouterr().out
    assert main(["test_conformance:wrong_edges", "--measure", "ece"]) == 3
    out = capsys.readouterr().out
    assert "DIFFERS  edges: expected" in out and "agrees   uniform: expected" in out and "17 data sets agree" in out
    assert main(["test_conformance:weighted", "--measure", "ece", "--weights", "w"]) == 0
    assert main(["test_conformance:weighted", "--measure", "sce"]) == 3
    assert main(["json:dumps", "--measure", "ece"]) == 3 and "raises   three rows" in capsys.readouterr().out


def test_tensors_and_columns_are_found_by_trying():
    pytest.importorskip("torch")
    found = conformance.check(first_predictions, "spiegelhalter", convention="preds_first")
    assert len(found) == 17 and all(outcome.agrees() for outcome in found)


def test_mistakes_are_one_line(capsys):
    assert main(["no.such:thing", "--measure", "ece"]) == 1 and "no module 'no'" in capsys.readouterr().err
    assert main(["ece", "--measure", "nope"]) == 1 and "measure must be one of classwise" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([])
    capsys.readouterr()
    assert main(["--list"]) == 0 and "smooth_ece (event): " in capsys.readouterr().out


def test_infinite_and_missing_values():
    assert (
        conformance.Outcome("a", math.inf, math.inf).agrees() and not conformance.Outcome("a", math.inf, 5.0).agrees()
    )
    assert not conformance.Outcome("a", 0.5, None, "raised").agrees()
    assert len(conformance.check(ERRORS["hosmer_lemeshow"], "hosmer_lemeshow", weight_option="sample_weight")) == 17


def test_the_page_is_what_the_results_say():
    sys.path.append(str(ROOT))  # benchmarks are no part of the package
    page: Any = pytest.importorskip("benchmarks.conformance", reason="the benchmarks are in the repository alone")
    assert page.PAGE.read_text("utf-8") == page.page(page.stored())
    assert [(p.library, p.name, p.code) for p in page.PEERS] == [
        (p["library"], p["name"], p["code"]) for p in page.stored()["peers"]
    ]
