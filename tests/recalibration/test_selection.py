"""The choice among maps by a truthful error, on rows that no map was fitted on."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

import truecal as tc
from closeness import assert_close
from truecal.recalibration import CanonicalRecalibration, Identity, TemperatureScaling, select_recalibration


def overconfident(n, rng):
    truth = 2 * rng.normal(size=(n, 5))
    return 2.5 * truth, (truth + rng.gumbel(size=truth.shape)).argmax(axis=1)


PAIR = {"temperature": TemperatureScaling(), "pooled": CanonicalRecalibration(n_bins=1)}


@pytest.mark.heavy
@pytest.mark.parametrize("n_bins", [15, 100])
def test_ece_chooses_the_worse_map_and_a_truthful_error_the_better_one(n_bins):
    """Both at the same bin count; chance would be 10 of 20 each."""
    wins = {"confidence_l1": 0, "classwise": 0}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        parts = (*overconfident(2000, rng), *overconfident(500, rng))
        for error in wins:
            chosen = select_recalibration(PAIR, *parts, error=error, n_bins=n_bins, allow_untruthful=True)
            wins[error] += chosen.name == "temperature"
    assert wins["confidence_l1"] <= 5
    assert wins["classwise"] >= 15


def test_the_scores_are_those_of_the_fitted_maps():
    rng = np.random.default_rng(0)
    fit, select = overconfident(400, rng), overconfident(300, rng)
    chosen = select_recalibration(PAIR, *fit, *select, error="classwise")
    assert [s.value for s in chosen.scores] == sorted(s.value for s in chosen.scores)
    for score in chosen.scores:
        p = clone(PAIR[score.name]).fit(*fit).predict_proba(select[0])
        assert score.value == pytest.approx(tc.score(select[1], p, error="classwise"), rel=1e-12)
        assert score.gap == pytest.approx(tc.decompose(select[1], p, n_bins="auto").gap, rel=1e-9)
    assert chosen.name == chosen.scores[0].name
    assert_close(chosen.best.predict_proba(select[0]), clone(PAIR[chosen.name]).fit(*fit).predict_proba(select[0]))
    assert not hasattr(PAIR["temperature"], "temperature_")  # candidates are cloned
    assert chosen.n_samples == 300 and chosen.truthful


def test_a_selection_can_be_read_and_stored():
    rng = np.random.default_rng(0)
    fit, select = overconfident(200, rng), overconfident(100, rng)
    chosen = select_recalibration([Identity(), TemperatureScaling()], *fit, *select)
    assert_close(chosen, select_recalibration([Identity(), TemperatureScaling()], *fit, *select), 1)
    assert chosen != select_recalibration([TemperatureScaling()], *fit, *select)
    assert "best" not in chosen.to_dict()
    assert "TemperatureScaling, chosen by cross_entropy (truthful) on 100 samples" in repr(chosen)
    assert repr(chosen).splitlines()[1].lstrip().startswith("TemperatureScaling  0.")
    assert repr(chosen).endswith("optimistic: the map was chosen on these rows")
    assert chosen._repr_html_().startswith('<pre style="white-space: pre-wrap">')
    assert json.loads(json.dumps(chosen.to_dict()))["scores"][1]["name"] == "Identity"
    assert chosen.to_pandas().index.tolist() == ["TemperatureScaling", "Identity"]


def test_named_labels_reach_the_score():
    rng = np.random.default_rng(0)
    fit, select = overconfident(200, rng), overconfident(100, rng)
    names = np.array(list("vwxyz"))
    plain = select_recalibration([TemperatureScaling()], *fit, *select)
    named = select_recalibration([TemperatureScaling(labels=names)], fit[0], names[fit[1]], select[0], names[select[1]])
    assert_close(named.scores, plain.scores, 1)


@pytest.mark.parametrize("error", ["confidence_l1", "classwise_l1", "confidence_uncorrected", "full_l1"])
def test_an_untruthful_error_is_refused_unless_allowed(error):
    rng = np.random.default_rng(0)
    parts = (*overconfident(200, rng), *overconfident(100, rng))
    with pytest.raises(ValueError, match=r"is not truthful .* can prefer the worse map.*allow_untruthful=True"):
        select_recalibration(PAIR, *parts, error=error)
    assert not select_recalibration(PAIR, *parts, error=error, allow_untruthful=True).truthful


def test_a_callable_must_say_that_it_is_truthful():
    rng = np.random.default_rng(0)
    parts = (*overconfident(200, rng), *overconfident(100, rng))

    def mine(y, p):
        return tc.brier(y, p)

    with pytest.raises(ValueError, match="error mine is not truthful"):
        select_recalibration(PAIR, *parts, error=mine)
    setattr(mine, "truthful", True)  # noqa: B010  # a function has no such attribute to a type checker
    assert select_recalibration(PAIR, *parts, error=mine).name == "temperature"


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"error": "nope"}, ValueError, "error must be one of"),
        ({"error": 3}, TypeError, "error must be a name in ERRORS, a CalibrationError or a callable, got 3"),
        ({"error": "binary"}, ValueError, "does not take one probability per class"),
        ({"n_bins": 5}, ValueError, "n_bins cannot be used with the loss cross_entropy"),
        ({"error": "classwise", "n_bins": (5, 20)}, ValueError, "n_bins must be one count"),
        ({"error": lambda y, p: 0.0, "n_bins": 5}, ValueError, "n_bins cannot be used with a callable"),
        ({"candidates": {1: Identity()}}, TypeError, "the name of a candidate must be a string, got 1"),
        ({"candidates": []}, ValueError, "candidates is empty"),
        ({"candidates": [Identity(), Identity()]}, ValueError, "candidates has several of Identity"),
        ({"candidates": {"lr": LogisticRegression()}}, TypeError, "candidate 'lr' must be a recalibration estimator"),
    ],
)
def test_select_refuses(options, kind, message):
    rng = np.random.default_rng(0)
    candidates = options.pop("candidates", PAIR)
    with pytest.raises(kind, match=message):
        select_recalibration(candidates, *overconfident(50, rng), *overconfident(50, rng), **options)


def test_without_selection_rows_five_folds_choose_and_all_rows_are_fitted():
    z, y = overconfident(400, np.random.default_rng(0))
    chosen = select_recalibration([Identity(), TemperatureScaling()], z, y)
    assert chosen.name == "TemperatureScaling" and chosen.n_samples == 400
    assert chosen.best.temperature_ == pytest.approx(TemperatureScaling().fit(z, y).temperature_)
    assert chosen.guard is not None and chosen.guard.keeps
    assert chosen.guard.gain == pytest.approx(chosen.scores[1].value - chosen.scores[0].value)
    with pytest.raises(ValueError, match="logits_select and y_select belong together"):
        select_recalibration([Identity()], z, y, z)


@pytest.mark.parametrize("named", [{}, {"none": Identity()}])
def test_no_map_is_kept_that_gains_too_little(named):
    rng = np.random.default_rng(5)
    z, y = overconfident(200, rng)
    candidates = {"temperature": TemperatureScaling(), **named}
    chosen = select_recalibration(candidates, z / 2.5, y)
    forced = select_recalibration({"temperature": TemperatureScaling()}, z / 2.5, y, guard=False)
    assert isinstance(chosen.best, Identity) and chosen.name in ("identity", "none")
    assert isinstance(forced.best, TemperatureScaling)
    assert forced.guard is not None and not forced.guard.keeps
    assert "not more than one standard error" in repr(forced)


def test_a_map_that_gives_a_label_probability_zero_is_the_last():
    z, y = overconfident(300, np.random.default_rng(0))
    chosen = select_recalibration(PAIR | {"cells": CanonicalRecalibration()}, z, y)
    assert chosen.scores[-1].value == np.inf and chosen.name == "temperature"
    with pytest.raises(ValueError, match="cross_entropy of candidate 'cells' is inf: expected a finite number"):
        select_recalibration({"cells": CanonicalRecalibration()}, z, y)


def shuffled(z, y):
    order = np.random.default_rng(1).permutation(len(y))
    return z[order], y[order]


def with_replacement(z, y):
    rows = np.random.default_rng(2).integers(0, len(y), len(y))
    return z[rows], y[rows]


REUSED = {
    "equal": lambda z, y: (z.copy(), y.copy()),
    "lists": lambda z, y: (z.tolist(), y.tolist()),
    "shuffled": shuffled,
    "subset": lambda z, y: (z[:50], y[:50]),
    "drawn with replacement": with_replacement,
    "labels of another type": lambda z, y: (z, y.astype(np.int8)),
    "data frame": lambda z, y: (pd.DataFrame(z), pd.Series(y)),
    "half of it": lambda z, y: (np.concatenate([z[:50], -z[:50]]), np.concatenate([y[:50], y[:50]])),
}
REUSED_IN_ANOTHER_TYPE = {
    "float32": lambda z, y: (z.astype(np.float32), y),
    "float16": lambda z, y: shuffled(z.astype(np.float16), y),
    "next float": lambda z, y: (np.nextafter(z, 1e9), y),
}
WERE_FITTED_ON = r"\d+ of the \d+ selection rows are among the rows fitted on.*split the validation data in two"


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e300])
@pytest.mark.parametrize("how", REUSED)
def test_rows_that_were_fitted_on_are_refused_in_any_form(how, scale):
    z, y = overconfident(100, np.random.default_rng(0))
    with pytest.raises(ValueError, match=WERE_FITTED_ON):
        select_recalibration(PAIR, z * scale, y, *REUSED[how](z * scale, y))


@pytest.mark.parametrize("how", REUSED_IN_ANOTHER_TYPE)
def test_rows_that_were_fitted_on_are_refused_in_any_type(how):
    z, y = overconfident(100, np.random.default_rng(0))
    again = REUSED_IN_ANOTHER_TYPE[how](z, y)
    for parts in ((z, y, *again), (*again, z, y)):
        with pytest.raises(ValueError, match=WERE_FITTED_ON):
            select_recalibration(PAIR, *parts)


def test_a_few_shared_rows_are_a_warning():
    rng = np.random.default_rng(0)
    (z, y), (z_other, y_other) = overconfident(200, rng), overconfident(100, rng)
    z_other[40:43], y_other[40:43] = z[:3], y[:3]
    with pytest.warns(UserWarning, match="3 of the 100 selection rows are among the rows fitted on") as caught:
        select_recalibration(PAIR, z, y, z_other, y_other)
    assert [warning.filename for warning in caught] == [__file__]


def test_equal_predictions_with_other_labels_are_not_the_same_rows():
    z, y = overconfident(100, np.random.default_rng(0))
    select_recalibration(PAIR, z, y, z, (y + 1) % 5)  # a warning is an error here


@pytest.mark.slow
@pytest.mark.parametrize("levels", [2, 30, 300, 3000])
@pytest.mark.parametrize("n_fit", [40, 100, 900])
def test_predictions_of_few_values_coincide_by_chance_and_are_let_through(levels, n_fit):
    """Rows of a few predictions coincide between the parts as often as within them: no sample was used twice."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        z = rng.normal(size=(levels, 3))

        def part(n, rng=rng, z=z):
            rows = rng.integers(0, levels, n)
            return z[rows], (z[rows] + rng.gumbel(size=(n, 3))).argmax(axis=1)

        fit, select = part(n_fit), part(100)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=r"\d of the 100 selection rows")  # one digit: at most 9
            select_recalibration([Identity()], *fit, *select)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_never_wins(value):
    rng = np.random.default_rng(0)
    parts = (*overconfident(200, rng), *overconfident(100, rng))

    def mine(y, p):
        return value if p.max() > 0.999 else tc.brier(y, p)

    with pytest.raises(ValueError, match=rf"mine of candidate 'none' is {value}: expected a finite number"):
        select_recalibration({"pooled": PAIR["pooled"], "none": Identity()}, *parts, error=mine, allow_untruthful=True)
    for answer in ("a", np.zeros(2), None):
        with pytest.raises(TypeError, match="mine of candidate 'none' must be one number, got"):
            select_recalibration({"none": Identity()}, *parts, error=named_mine(answer), allow_untruthful=True)


def named_mine(answer):
    def mine(y, p):
        return answer

    return mine


def test_a_callable_gets_column_indices_whatever_the_labels():
    rng = np.random.default_rng(0)
    fit, select = overconfident(200, rng), overconfident(100, rng)
    names = np.array(list("vwxyz"))
    named = {name: clone(estimator).set_params(labels=names) for name, estimator in PAIR.items()}
    plain = select_recalibration(PAIR, *fit, *select, error=tc.brier, allow_untruthful=True)
    by_name = select_recalibration(
        named, fit[0], names[fit[1]], select[0], names[select[1]], error=tc.brier, allow_untruthful=True
    )
    assert_close(by_name.scores, plain.scores, 1)
    wrong = names[select[1]]
    wrong[3] = "q"
    with pytest.raises(ValueError, match="y_select has q at row 3, which is not in labels"):
        select_recalibration(named, fit[0], names[fit[1]], select[0], wrong, error=tc.brier, allow_untruthful=True)
    with pytest.raises(ValueError, match="numbers of rows disagree: logits_select has 100, y_select has 50"):
        select_recalibration(PAIR, fit[0], fit[1], select[0], select[1][:50], error=tc.brier, allow_untruthful=True)
