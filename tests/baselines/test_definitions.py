"""Every baseline equals its definition as plain loops, on inputs with ties, weights and awkward sizes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import reference_baselines as reference
import truecal
from closeness import assert_close
from on_device import OnDevice
from truecal.baselines import BASELINES
from truecal.baselines.clinical import MOST_CURVE_POINTS, local_quadratic
from truecal.baselines.without_bins import NARROWEST, lipschitz_sup

tc: Any = truecal


def scalar(rng, n: int, tied: bool) -> tuple[list[float], list[float]]:
    u = (rng.integers(1, 10, n) / 10 if tied else rng.beta(0.7, 0.9, n)).tolist()
    return u, (rng.random(n) < np.asarray(u) ** 1.5).astype(float).tolist()


def classes(rng, n: int, tied: bool, k: int = 4):
    p = rng.multinomial(8, np.full(k, 1 / k), size=n) / 8 if tied else rng.dirichlet(np.full(k, 0.4), n)
    return (p.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, k - 1), p


def of_confidence(measure):
    return lambda y, p: measure(*reference.confidence(y, p))


CLASS_LOSSES = (1 - np.eye(4)).tolist()
CLASS_DEFINITIONS = {
    "ece": of_confidence(reference.ece),
    "ece_equal_mass": of_confidence(lambda u, z: reference.ece(u, z, None, 15, "quantile")),
    "sce": lambda y, p: reference.classwise(reference.ece, y, p),
    "ace": lambda y, p: reference.classwise(lambda u, z: reference.ece(u, z, None, 15, "quantile"), y, p),
    "tace": reference.tace,
    "mce": of_confidence(reference.mce),
    "debiased_squared": of_confidence(reference.debiased_squared),
    "top_label_ece": reference.top_label_ece,
    "ece_sweep": of_confidence(reference.ece_sweep),
    "mmce": lambda y, p: math.sqrt(reference.mmce_squared(y, p)),
    "mmce_corrected": lambda y, p: reference.mmce_squared(y, p, corrected=True),
    "skce": reference.skce,
    "skce_unbiased": lambda y, p: reference.skce(y, p, unbiased=True),
    "kolmogorov_smirnov": of_confidence(lambda u, z: reference.step_sum(u, z) / len(u)),
    "decision_calibration": lambda y, p: reference.decision_calibration(y, p, CLASS_LOSSES),
    "projected_smooth_calibration": lambda y, p: reference.projected_smooth(y, p, np.eye(4).tolist()),
}
SCALAR_DEFINITIONS = {
    "smooth_calibration": reference.smooth_calibration,
    "distance_to_calibration": reference.interval_calibration,
    "step_calibration": lambda u, y: reference.step_sum(u, y) / len(u),
    "ecce_range": lambda u, y: reference.interval_sum(u, y) / len(u),
    "u_calibration": reference.u_calibration,
    "calibration_decision_loss": reference.decision_loss,
    "hosmer_lemeshow": reference.hosmer_lemeshow,
    "spiegelhalter": lambda u, y: abs(reference.spiegelhalter(u, y)),
    "cox_slope": lambda u, y: abs(reference.cox(u, y, True)[1] - 1),
    "cox_intercept": lambda u, y: abs(reference.cox(u, y, False)[0]),
    "ici": lambda u, y: math.fsum(reference.curve_gaps(u, y)) / len(u),
    "e50": lambda u, y: float(np.median(reference.curve_gaps(u, y))),
    "e90": lambda u, y: float(np.quantile(reference.curve_gaps(u, y), 0.9)),
    "corp": reference.corp,
}
APART = {"smooth_ece", "smooth_calibration_subsampled", "step_calibration_subsampled"}
"""Compared below, where the sizes can be chosen."""
SMALL = {"distance_to_calibration": 9}
GRID_SEARCHED = {"u_calibration": 1e-6, "calibration_decision_loss": 1e-6, "cox_slope": 1e-6, "cox_intercept": 1e-6}


def test_every_baseline_is_compared():
    of_times = {"d_calibration", "one_calibration"}  # tests/kinds/test_survival.py
    assert {*CLASS_DEFINITIONS, *SCALAR_DEFINITIONS} | APART | of_times == set(BASELINES)


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", CLASS_DEFINITIONS)
def test_a_measure_of_classes_is_its_definition(name, tied, rng):
    for n in (2, 23, 40):
        y, p = classes(rng, n, tied)
        assert BASELINES[name](y, p) == pytest.approx(CLASS_DEFINITIONS[name](y, p), rel=1e-9, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("name", SCALAR_DEFINITIONS)
def test_a_measure_of_one_probability_is_its_definition(name, tied, rng):
    for n in (SMALL.get(name, 25), SMALL.get(name, 32)):
        u, y = scalar(rng, n, tied)
        value = BASELINES[name](np.asarray(y, dtype=int), u)
        allowed = GRID_SEARCHED.get(name, 1e-10)
        assert value == pytest.approx(SCALAR_DEFINITIONS[name](u, y), rel=allowed, abs=allowed)


@pytest.mark.slow
def test_smooth_ece_is_where_the_smoothed_residual_is_as_large_as_its_width(rng):
    """At the σ that is returned, mirrored Gaussians summed by hand have ∫ |…| = σ."""
    for n, tied in ((3, False), (12, True), (40, False)):
        u, y = scalar(rng, n, tied)
        sigma = BASELINES["smooth_ece"](np.asarray(y, dtype=int), u)
        assert reference.smoothed_size(u, y, sigma) == pytest.approx(sigma, abs=2e-4)


def test_smooth_ece_of_nothing_wrong_is_nothing():
    assert BASELINES["smooth_ece"]([0, 1, 1], [0, 1, 1]) == 0
    assert BASELINES["smooth_ece"]([1, 1], [0, 0]) == pytest.approx(1, abs=1e-6)
    many = np.full(2000, 0.5)
    assert BASELINES["smooth_ece"](np.arange(2000) % 2, many) < NARROWEST  # sums to nothing at one place


@pytest.mark.slow
@pytest.mark.parametrize("tied", [True, False])
def test_subsampled_measures_are_means_over_all_subsets(tied, rng):
    u, y = scalar(rng, 6, tied=False)
    if tied:
        u, y = [0.5, 0.5, 0.5, 0.25, 0.5, 0.25], [0.0, 1.0, 1.0, 0.0, 0.0, 1.0]
    labels = np.asarray(y, dtype=int)

    def sup(v, z) -> float:
        return reference.lipschitz_sup(v, [b - a for a, b in zip(v, z, strict=True)]) if v else 0.0

    steps = reference.subsampled(reference.step_sum, u, y)
    assert BASELINES["step_calibration_subsampled"](labels, u) == pytest.approx(steps, rel=1e-12)
    smooth = reference.subsampled(sup, u, y)
    assert BASELINES["smooth_calibration_subsampled"](labels, u) == pytest.approx(smooth, rel=1e-9)


@pytest.mark.parametrize("name", ["step_calibration_subsampled", "smooth_calibration_subsampled"])
def test_seeded_subsets_are_near_the_mean_over_all(name, rng, monkeypatch):
    u, y = scalar(rng, 7, tied=False)
    labels = np.asarray(y, dtype=int)
    exact = BASELINES[name](labels, u)
    for limit in ("_EXACT_STEPS", "_EXACT_SUBSETS"):
        monkeypatch.setattr(f"truecal.baselines.without_bins.{limit}", 0)
    drawn = BASELINES[name].with_options(draws=4000)
    assert drawn(labels, u) == pytest.approx(exact, rel=0.05)
    assert drawn(labels, u) != exact
    assert drawn.with_options(seed=1)(labels, u) != drawn(labels, u)


def test_the_chain_finds_what_a_general_solver_finds(rng):
    """Gaps and residuals of every size, long flat stretches, ends that are reached and left again."""
    for _ in range(40):
        d = int(rng.integers(1, 12))
        values = np.sort(rng.random(d) * rng.choice([0.05, 1.0, 5.0]))
        sums = rng.standard_normal(d) * rng.choice([0.0, 0.01, 1.0, 10.0], d)
        expected = reference.lipschitz_sup(values.tolist(), sums.tolist())
        assert lipschitz_sup(values, sums) == pytest.approx(expected, rel=1e-8, abs=1e-9)


def test_weights_enter_as_the_definitions_say(rng):
    u, y = scalar(rng, 9, tied=True)
    w = rng.integers(1, 4, 9).astype(float)
    labels = np.asarray(y, dtype=int)
    for name, definition in (
        ("smooth_calibration", reference.smooth_calibration),
        ("distance_to_calibration", reference.interval_calibration),
    ):
        found = BASELINES[name](labels, u, sample_weight=w)
        assert found == pytest.approx(definition(u, y, w.tolist()), rel=1e-9)


def test_a_given_set_of_actions(rng):
    y, p = classes(rng, 30, tied=False)
    losses = [[0.0, 1.0, 0.4, 0.2], [0.5, 0.5, 0.5, 0.5], [1.0, 0.0, 0.7, -0.3]]
    found = BASELINES["decision_calibration"].with_options(losses=losses)(y, p)
    assert found == pytest.approx(reference.decision_calibration(y, p, losses), rel=1e-10)
    subset = [[1.0, 1.0, 0.0, 0.0], [0.2, -1.0, 0.5, 0.0]]
    found = BASELINES["projected_smooth_calibration"].with_options(directions=subset)(y, p)
    assert found == pytest.approx(reference.projected_smooth(y, p, subset), rel=1e-8)


def test_other_settings(rng):
    y, p = classes(rng, 40, tied=False)
    u, z = reference.confidence(y, p)
    assert BASELINES["ece"].with_options(n_bins=4)(y, p) == pytest.approx(reference.ece(u, z, None, 4))
    assert BASELINES["mce"].with_options(strategy="quantile")(y, p) == pytest.approx(
        reference.mce(u, z, strategy="quantile")
    )
    assert BASELINES["tace"].with_options(threshold=0.2, n_bins=3)(y, p) == pytest.approx(reference.tace(y, p, 3, 0.2))
    assert BASELINES["ece_sweep"].with_options(norm="l1")(y, p) == pytest.approx(reference.ece_sweep(u, z, 1))
    assert BASELINES["skce"].with_options(bandwidth=0.3)(y, p) == pytest.approx(reference.skce(y, p, bandwidth=0.3))
    repeated = np.repeat(p[:5], [1, 9, 2, 1, 1], axis=0)  # the median is over different predictions
    assert BASELINES["skce"](y[:14], repeated) == pytest.approx(reference.skce(y[:14], repeated))
    assert BASELINES["mmce"].with_options(theta=0.1)(y, p) ** 2 == pytest.approx(reference.mmce_squared(y, p, 0.1))


def test_a_scalar_measure_of_every_class_is_the_mean_over_classes(rng):
    y, p = classes(rng, 30, tied=False)
    for name in ("step_calibration", "smooth_calibration", "corp", "spiegelhalter", "ici"):
        own = BASELINES[name]
        each = [own(y == r, p[:, r]) for r in range(4)]
        assert replace(own, property=tc.Classwise())(y, p) == pytest.approx(np.mean(each), rel=1e-12)
        top = replace(own, property=tc.Confidence())(y, p)
        assert top == pytest.approx(own(y == p.argmax(axis=1), p.max(axis=1)), rel=1e-12)


def test_what_is_composed_is_not_written_twice(rng):
    """The measures that are a property, a rule and a norm are exactly that."""
    y, p = classes(rng, 50, tied=True)
    poisson = tc.CalibrationError(tc.Confidence(), tc.Poisson(0.4))
    assert_close(BASELINES["ece"](y, p), tc.ERRORS["confidence_l1"](y, p), 1)
    assert_close(BASELINES["ace"](y, p), tc.ERRORS["classwise_l1"](y, p), 1)
    assert_close(BASELINES["sce"](y, p), tc.CalibrationError(tc.Classwise(), tc.EqualWidth(15), "l1")(y, p), 1)
    assert_close(BASELINES["mmce_corrected"](y, p), poisson(y, p), 1)


@pytest.mark.parametrize("weighted", [False, True])
def test_corp_is_isotonic_regression(rng, weighted):
    isotonic = pytest.importorskip("sklearn.isotonic")
    y, p = classes(rng, 150, tied=True)
    w = rng.uniform(0.1, 3.0, 150) if weighted else np.ones(150)
    outcome = (y == 0).astype(float)
    fitted = isotonic.IsotonicRegression().fit_transform(p[:, 0], outcome, sample_weight=w)
    expected = np.average((p[:, 0] - outcome) ** 2, weights=w) - np.average((fitted - outcome) ** 2, weights=w)
    assert_close(BASELINES["corp"](y == 0, p[:, 0], sample_weight=w), expected, 1)


def test_the_smooth_curve_between_its_points(rng):
    """Past the number of fitted points the curve is interpolated: here against the fit at every prediction."""
    n = 3 * MOST_CURVE_POINTS
    u = rng.beta(2, 2, n)
    y = (rng.random(n) < u).astype(float)
    at = np.unique(u)
    few = local_quadratic(u, y, np.ones(n), at, 0.75)
    some = at[:: len(at) // 40]
    each = np.array([reference.loess(u.tolist(), y.tolist(), point, 0.75) for point in some])
    np.testing.assert_allclose(few[:: len(at) // 40], each, atol=2e-4)


def test_kumar_et_al_by_hand():
    """.5 four times and .6 five times with label sums 1 and 4: what is taken off equals the square."""
    u = np.array([0.5] * 4 + [0.6] * 5)
    y = np.array([1, 0, 0, 0, 1, 1, 1, 1, 0])
    own = replace(BASELINES["debiased_squared"], property=tc.Binary())
    assert own.with_options(strategy="exact", n_bins=None)(y, u) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", sorted({*CLASS_DEFINITIONS, *SCALAR_DEFINITIONS} | APART))
def test_predictions_on_a_gpu_are_measured_or_moved(name, weighted, monkeypatch):
    """What numpy would read by itself from a tensor on the CPU it cannot read from a GPU."""
    baseline, rng = BASELINES[name], np.random.default_rng(3)
    y, p = classes(rng, 40, tied=True)
    w = rng.random(40) if weighted and baseline.weighted else None
    if baseline.property.kind in ("binary", "top_label"):
        y, p = (y == 0).astype(int), p[:, 0]
    expected = baseline(y, p, sample_weight=w)

    def refused(*arguments, **options):
        raise TypeError("numpy read a tensor")

    monkeypatch.setattr(torch.Tensor, "__array__", refused)
    there = None if w is None else OnDevice(w)
    assert baseline(OnDevice(y), OnDevice(p), sample_weight=there) == pytest.approx(expected, rel=1e-9, abs=1e-12)
