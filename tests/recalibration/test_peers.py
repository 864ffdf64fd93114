"""SMS, SVS, ETS, quadratic, spline and centred isotonic maps beside the packages of their authors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from recalibration_cases import draw
from truecal.recalibration import (
    CenteredIsotonic,
    EnsembleTemperatureScaling,
    Identity,
    QuadraticScaling,
    SplineScaling,
    StructuredMatrixScaling,
    StructuredVectorScaling,
)
from truecal.recalibration.spline import PRIOR, Curve
from truecal.recalibration.temperature import best_shares


def three(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of three classes, over-confident and with a wrong level per class, and labels."""
    z, y = draw(n, 3, scale=2.0, true_temperature=1.5)
    return Identity().fit(z - np.array([0.0, 0.4, 0.8]), y).predict_proba(z - np.array([0.0, 0.4, 0.8])), y


def two(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of one event, and outcomes."""
    p, y = three(n)
    return p[:, 1], (y == 1).astype(int)


# Made by probmetrics 1.3.0 with its logits in float64 and solved to a gradient of 1e-12 (it stops earlier, in float32),
# splinecalib 0.0.13 at the chosen penalty on all rows, cir-model 0.2.0 and scikit-learn at tolerance 1e-12.
STORED = {
    StructuredMatrixScaling: [
        [0.296649532, 0.211917707, 0.491432761],
        [0.381156052, 0.171082476, 0.447761472],
        [0.513057498, 0.446479007, 0.040463495],
        [0.121850398, 0.277224517, 0.600925085],
    ],
    StructuredVectorScaling: [
        [0.274253296, 0.229375133, 0.496371571],
        [0.358517994, 0.185446105, 0.456035901],
        [0.579020658, 0.380735447, 0.040243895],
        [0.109598158, 0.299890402, 0.590511439],
    ],
    EnsembleTemperatureScaling: [
        [0.367223011, 0.206103597, 0.426673392],
        [0.459314875, 0.16006618, 0.380618946],
        [0.644245299, 0.312162885, 0.043591816],
        [0.170255037, 0.293043065, 0.536701898],
    ],
    CenteredIsotonic: [
        [0.269044291, 0.235257742, 0.495697966],
        [0.341242398, 0.220757392, 0.43800021],
        [0.670589085, 0.329410915, 0.0],
        [0.107934892, 0.268386253, 0.623678855],
    ],
    QuadraticScaling: [
        [0.755817098, 0.244182902],
        [0.802282051, 0.197717949],
        [0.688286058, 0.311713942],
        [0.683169183, 0.316830817],
    ],
    SplineScaling: [
        [0.704114846, 0.295885154],
        [0.771196833, 0.228803167],
        [0.73264133, 0.26735867],
        [0.735766345, 0.264233655],
    ],
}


@pytest.mark.parametrize("cls", STORED)
def test_stored_values_of_the_authors_packages(cls):
    p, y = two() if cls in (QuadraticScaling, SplineScaling) else three()
    found = fitted(cls, p, y).predict_proba(p[:4])
    np.testing.assert_allclose(found, STORED[cls], atol=1e-6)


def fitted(cls, p, y):
    options = {"monotone": False} if cls is SplineScaling else {}
    return cls.from_probabilities(**options).fit(p, y)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, where probmetrics is imported
@pytest.mark.parametrize("cls", [StructuredMatrixScaling, StructuredVectorScaling])
def test_structured_maps_are_those_of_probmetrics(cls, monkeypatch):
    pytest.importorskip("probmetrics", reason="SMS and SVS are compared with probmetrics, which is not installed")
    from probmetrics.calibrators import factory, logistic

    solve = logistic.torchmin.minimize
    monkeypatch.setattr(logistic, "multiclass_probs_to_logits", lambda p: np.log(np.asarray(p, np.float64)))
    monkeypatch.setattr(
        logistic.torchmin, "minimize", lambda loss, start, method: solve(loss, start, method="newton-exact", tol=1e-12)
    )
    p, y = three()
    theirs = factory.get_calibrator("sms" if cls is StructuredMatrixScaling else "svs").fit(p, y)
    np.testing.assert_allclose(fitted(cls, p, y).predict_proba(p), theirs.predict_proba(p), atol=1e-6)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_ensemble_is_that_of_probmetrics():
    pytest.importorskip("probmetrics", reason="ETS is compared with probmetrics, which is not installed")
    from probmetrics.calibrators.temperature_scaling import ETSCalibrator

    p, y = three()
    ours, theirs = fitted(EnsembleTemperatureScaling, p, y), ETSCalibrator().fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p), theirs.predict_proba(p), atol=1e-6)


@pytest.mark.parametrize("digits", [2, 9])
def test_centred_isotonic_is_that_of_cir_model(digits):
    cir_model = pytest.importorskip("cir_model", reason="CIR is compared with cir-model, which is not installed")
    p, y = two()
    p = np.round(p, digits)
    theirs = cir_model.CenteredIsotonicRegression().fit(p, y.astype(float))
    ours = CenteredIsotonic.from_probabilities().fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p)[:, 1], theirs.transform(p), atol=1e-6)


@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value", "ignore:.*did not converge")
def test_the_spline_is_that_of_splinecalib():
    """At the penalty that was chosen and on all rows: its last fit leaves out a fifth of them."""
    splinecalib = pytest.importorskip("splinecalib", reason="compared with splinecalib, which is not installed")
    p, y = two()
    ours = fitted(SplineScaling, p, y)
    options = {"reg_param_vec": [ours.maps_[0].penalty], "cv_spline": 40_000, "tol": 1e-12}
    theirs = splinecalib.SplineCalib(method="BFGS", max_iter=200_000, **options)
    theirs.fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p)[:, 1], theirs.calibrate(p), atol=1e-6)
    assert len(theirs.unity_prior_gridpts) == len(PRIOR)


def test_quadratic_scaling_is_logistic_regression_on_a_parabola():
    p, y = two(1000)
    s = np.log(p / (1 - p))
    features = np.column_stack([s, s * s])
    theirs = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(features, y)
    ours = QuadraticScaling.from_probabilities().fit(p, y)
    np.testing.assert_allclose(ours.predict_proba(p), theirs.predict_proba(features), atol=1e-6)


def test_the_best_shares_are_found_on_every_face_of_the_simplex():
    rng = np.random.default_rng(0)
    corners = 0
    for _ in range(200):
        points, target = rng.normal(size=(3, 4)), rng.normal(size=4)
        w = best_shares(points @ points.T, points @ target)
        assert w.min() >= 0 and w.sum() == pytest.approx(1)
        corners += (w == 0).any()
        others = rng.dirichlet(np.full(3, 0.5), 200)
        assert (np.square(others @ points - target).sum(axis=1) >= np.square(w @ points - target).sum() - 1e-9).all()
    assert 20 < corners < 180


def test_a_spline_that_falls_is_made_flat_there():
    rng = np.random.default_rng(1)
    s = rng.normal(size=2000)
    y = (rng.random(2000) < expit(2 * np.sin(2 * s))).astype(int)
    rising, free = SplineScaling().fit(s, y), SplineScaling(monotone=False).fit(s, y)
    places = np.linspace(-3, 3, 500)
    assert np.diff(free.predict_proba(places)[:, 1]).min() < 0
    assert np.diff(rising.predict_proba(places)[:, 1]).min() >= 0
    assert isinstance(free.maps_[0], Curve)


def test_centred_isotonic_keeps_the_order_of_different_predictions():
    p, y = two()
    q = CenteredIsotonic.from_probabilities().fit(p, y).predict_proba(np.sort(p))[:, 1]
    inside = (q > 0) & (q < 1)
    assert (np.diff(q[inside]) > 0).mean() > 0.9 and np.diff(q).min() >= 0
