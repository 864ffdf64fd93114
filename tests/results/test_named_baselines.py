"""Baselines in evaluate, compare, the command line and the report: measured where they are named, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import truecal
from truecal.baselines import BASELINES
from truecal.kinds import TopPredictions
from truecal.kinds.named_errors import COMPOSED
from truecal.render.report.measures import measure
from truecal.report import render_report

tc: Any = truecal
FAST: dict[str, Any] = {"n_bins": (5,), "n_resamples": 19}


@pytest.fixture
def one(rng):
    u = rng.beta(2, 2, 120)
    return (rng.random(120) < u**1.3).astype(int), u


def names_of(*kinds) -> list[str]:
    return [name for name, baseline in BASELINES.items() if isinstance(baseline.property, kinds)]


def test_unnamed_baselines_are_not_measured(one, comparison):
    assert set(tc.evaluate(*one, **FAST).error_names) <= set(COMPOSED)
    assert set(comparison.error_names) <= set(COMPOSED)


def test_every_baseline_of_one_probability_can_be_named(one):
    names = names_of(tc.Binary, tc.Confidence)
    result = tc.evaluate(*one, errors=["binary", *names], **FAST)
    y, u = one
    classes = y, np.column_stack([1 - u, u])
    for name in names:
        row = result.row(name)
        baseline = BASELINES[name]
        value = baseline(*(one if isinstance(baseline.property, tc.Binary) else classes))
        assert row.value == pytest.approx(value, rel=1e-12)
        assert (row.n_bins, row.score, row.truthful) == (None, None, baseline.truthful)
    assert result.headline == "binary" and result.score is not None


def test_every_baseline_of_classes_can_be_named(data):
    y, models = data
    y, models = y[:80], {name: models[name][:80] for name in ("true", "sharp")}
    names = names_of(tc.Confidence, tc.Classwise, tc.Full)
    result = tc.compare(y, models, errors=["classwise", *names], **FAST)
    for name in names:
        assert result.evaluations["sharp"].row(name).value == pytest.approx(BASELINES[name](y, models["sharp"]))
        (ranking,) = [ranking for ranking in result.rankings if ranking.error == name]
        assert ranking.by == "value" and ranking.truthful == BASELINES[name].truthful
    stored = json.loads(json.dumps(result.to_dict()))["errors"]
    assert stored["skce"]["truthful"] and stored["skce"]["loss"] is None and stored["tace"]["reason"]


@pytest.mark.slow  # draws a page
def test_a_baseline_alone_gives_no_score(data):
    """Neither a verdict nor a score comes of a truthful baseline: it has no loss part."""
    y, models = data
    models = {name: models[name][:80] for name in ("true", "sharp")}
    result = tc.compare(y[:80], models, errors=["skce", "tace"], **FAST)
    assert result.evaluations["sharp"].score is None
    assert result.verdict.predictive == "No truthful error with a score was measured."
    page = render_report(result)
    assert "SKCE" in page and "Widmann" in page and "as published" in page


def test_what_does_not_fit_is_refused_by_name(one):
    y, u = one
    with pytest.raises(
        ValueError, match=r"'linear' cannot be used with binary predictions; expected some of classwise, "
    ):
        tc.evaluate(y, u, errors=["linear"])
    with pytest.raises(ValueError, match="'ici' cannot be used with top-label predictions"):
        tc.evaluate(None, TopPredictions(y == 1, u), errors=["ici"])
    with pytest.raises(ValueError, match="sample_weight cannot be used with spiegelhalter: it counts rows"):
        tc.evaluate(y, u, errors=["spiegelhalter"], sample_weight=np.ones(120))


def test_a_baseline_has_no_parts(one):
    with pytest.raises(ValueError, match="error must be one of 'classwise'"):
        tc.score(*one, error="ici")
    with pytest.raises(TypeError, match="a name in ERRORS or a CalibrationError, got Baseline"):
        tc.decompose(*one, error=BASELINES["ici"])


@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_is_explained(name):
    said = measure(name)
    assert (said.label, said.formula, said.loss) == (BASELINES[name].title, "", None)
    assert said.asks == BASELINES[name].definition and said.letters == BASELINES[name].reference
