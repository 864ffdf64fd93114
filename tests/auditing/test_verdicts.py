"""The audit judges rightly: it convicts what is known to be gamed, with proofs, and nothing that is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import offenders
import truecal
from closeness import assert_close
from worlds import bounded, expected, over_all_outcomes, variants

pytestmark = pytest.mark.slow

tc: Any = truecal  # what a test hands in need not be of the right type

OF_CLASSES = {
    name: metric
    for name, metric in tc.ERRORS.items()
    if metric.property.kind not in ("labelwise", "distribution", "survival")
}  # the others are audited in test_kinds.py
TRUTHFUL = [name for name, metric in OF_CLASSES.items() if metric.truthful]
INFINITE = ("cox_slope",)
"""Infinite where predictions part the labels, which has a chance in every world: nothing has an expected value."""
UNTRUTHFUL = [name for name, metric in OF_CLASSES.items() if not metric.truthful and name not in INFINITE]
VARIANTS = [
    (name, bounded(metric))
    for name, metric in variants(classes=3)
    if metric.truthful and metric.property.kind not in ("labelwise", "distribution", "survival")
]
FEW, SOME = 400, 1500


def classes_for(metric):
    return len(metric.property.phi) if isinstance(metric.property, tc.Linear) else (2, 3)


def assert_proof_holds(report, metric):
    """The expected values once more, by plain loops over the arrays that `reproduce` gives."""
    world, lie, outcomes, chances = report.reproduce()
    honest, lying = (sum(c * metric(y, p) for y, c in zip(outcomes, chances, strict=True)) for p in (world, lie))
    assert honest == pytest.approx(report.proof.expected_truth, rel=1e-6, abs=1e-12)
    assert lying == pytest.approx(report.proof.expected_lie, rel=1e-6, abs=1e-12)
    assert abs(honest - lying) == pytest.approx(report.proof.gain, rel=1e-6)
    assert report.proof.gain > 10 * report.proof.bound
    assert chances.sum() == pytest.approx(1)


# -- what cannot be gamed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRUTHFUL)
@pytest.mark.heavy
def test_no_truthful_error_is_convicted(name):
    report = tc.audit(bounded(tc.ERRORS[name]), budget=FEW)
    assert report.verdict == "certified" and report.proof is None and not report.findings


@over_all_outcomes(VARIANTS)
@pytest.mark.heavy
def test_no_rule_and_no_treatment_of_ties_is_convicted(metric):
    report = tc.audit(metric, classes=classes_for(metric), budget=150)
    assert report.verdict != "gamed"


@pytest.mark.parametrize(
    "name", ["brier", *(pytest.param(n, marks=pytest.mark.heavy) for n in tc.LOSSES if n != "brier")]
)
def test_proper_losses_are_certified(name):
    report = tc.audit(tc.LOSSES[name], budget=SOME)
    assert report.verdict == "certified"
    assert {certificate.classes for certificate in report.certificates} == {2, 3}


@pytest.mark.heavy
@pytest.mark.parametrize("error", ["confidence", "classwise", "binary"])
def test_the_score_is_not_convicted(error):
    assert tc.audit(tc.score, metric_options={"error": error}, budget=FEW).verdict == "certified"


def accuracy(y, p):
    return float(np.mean(p.argmax(axis=1) == y))


def mean_confidence(y, p):
    return float(p.max(axis=1).mean())


def test_higher_may_be_better():
    assert tc.audit(accuracy, higher_is_better=True, budget=SOME).verdict == "certified"
    report = tc.audit(mean_confidence, higher_is_better=True, budget=SOME)
    assert report.verdict == "gamed" and report.findings[0].name == "sharpen"
    assert report.proof.expected_lie > report.proof.expected_truth and report.proof.gain > 0


# -- what can ----------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize("name", UNTRUTHFUL)
def test_every_error_marked_untruthful_is_convicted(name):
    metric = bounded(tc.ERRORS[name])
    report = tc.audit(metric, budget=FEW)
    assert report.verdict == "gamed"
    assert_proof_holds(report, metric)


@pytest.mark.parametrize("name", INFINITE)
def test_where_nothing_has_an_expected_value_no_verdict_is_given(name):
    with pytest.raises(ValueError, match="no finite value for any case that was tried: it gave NaN or inf"):
        tc.audit(tc.ERRORS[name], budget=FEW)


@pytest.mark.heavy
@pytest.mark.parametrize("metric", offenders.BINARY, ids=lambda metric: metric.__name__)
def test_every_known_mistake_is_convicted(metric):
    report = tc.audit(metric, classes=2, binary="column", budget=1500)
    assert report.verdict == "gamed"
    assert_proof_holds(report, metric)


@pytest.mark.parametrize("metric", offenders.MULTICLASS, ids=lambda metric: metric.__name__)
def test_every_known_mistake_with_classes_is_convicted(metric):
    report = tc.audit(metric, budget=FEW)
    assert report.verdict == "gamed" and report.proof.rows == 1
    assert_proof_holds(report, metric)


def test_the_dropped_correction_shows_in_the_world_of_the_paper():
    proof = tc.audit(offenders.dropped_correction, budget=FEW).proof
    np.testing.assert_allclose(proof.world, [[1 / 3, 1 / 2, 1 / 6]])
    np.testing.assert_allclose(proof.lie, [[1 / 3] * 3])
    assert proof.expected_truth == pytest.approx(1 / 4) and proof.expected_lie == pytest.approx(2 / 9)


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (offenders.labels_sorted_into_ties, "jitter"),
        (offenders.fifteen_bins_sorting_labels_into_ties, "jitter"),
        (offenders.size_normalised, "pool"),
        (offenders.gap_alone, "exchange rows"),
    ],
)
@pytest.mark.heavy
def test_findings_name_what_pays(metric, name):
    report = tc.audit(metric, classes=2, binary="column", budget=2500)
    assert name in [finding.name for finding in report.findings]


@pytest.mark.heavy
def test_findings_with_classes():
    top = [f.name for f in tc.audit(offenders.dropped_correction, classes=3, budget=4000).findings]
    assert "change the top" in top
    hidden = tc.audit(offenders.thresholded_squares, classes=3, budget=SOME).findings
    assert "hide small chances" in [finding.name for finding in hidden]


def test_a_minimum_that_is_only_a_little_off_is_found_by_climbing():
    report = tc.audit(offenders.tilted, budget=SOME)
    assert report.verdict == "gamed" and 1e-8 < report.proof.gain < 1e-5
    assert_proof_holds(report, offenders.tilted)


# -- at 300 rows -------------------------------------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "truth", "lie"),
    [("ece", 0.046, 0.016), ("smooth_ece", 0.043, 0.016), ("kolmogorov_smirnov", 0.026, 0.016)],
)
def test_a_conviction_says_first_what_a_lie_gains_at_300_rows(name, truth, lie):
    """Pooling at the mean: the expected values of the issue that asked for it, in another world of the same kind."""
    report = tc.audit(tc.ERRORS[name], classes=2, budget=2000)
    found = report.lasting
    assert found.survives and found.kind == "pool" and found.gain > 8 * found.error
    assert found.expected_truth == pytest.approx(truth, abs=0.002)
    assert found.expected_lie == pytest.approx(lie, abs=0.002)
    assert report.summary.startswith(f"gamed: at 300 rows the truth has {found.expected_truth:.3g} and a lie")
    assert report.proof.rows == 1 and "1 row, 2 classes" in report.summary


@pytest.mark.parametrize("name", ["debiased_squared", "confidence_uncorrected"])
@pytest.mark.heavy
def test_where_no_plain_lie_gains_the_lie_of_the_proof_is_tried_at_300_rows(name):
    found = tc.audit(tc.ERRORS[name], budget=2000).lasting
    assert found.survives and found.code.startswith("world = np.tile([[")


def test_a_lie_that_does_not_last_is_said_not_to():
    def one_row_only(y, u):
        return abs(u - y).mean() if len(y) < 20 else ((u - y) ** 2).mean()

    report = tc.audit(one_row_only, classes=2, binary="column", budget=2000)
    assert report.verdict == "gamed" and not report.lasting.survives and report.lasting.gain < 0
    assert "no lie that was tried gains significantly at 300 rows" in report.summary


@pytest.mark.heavy
def test_the_intercept_of_cox_has_a_proof_in_a_world_that_is_not_certain():
    """Certain worlds convict it through clipping alone; six uncertain rows between two certain ones are fair."""
    proof = tc.audit(tc.ERRORS["cox_intercept"], budget=2000).proof
    np.testing.assert_allclose(proof.world[:, 1], [0, 0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 1])
    np.testing.assert_allclose(proof.lie[:, 1], [0, *[0.5] * 6, 1])
    assert proof.expected_truth == pytest.approx(0.727, abs=5e-4)
    assert proof.expected_lie == pytest.approx(0.340, abs=5e-4)


def test_a_certain_world_convicts_when_nothing_else_does():
    def clipped(y, u):
        """Squares, but certain rows are punished: a bug at 0 and 1 alone."""
        return float(((u - y) ** 2).mean() + ((u == 0) | (u == 1)).any())

    report = tc.audit(clipped, classes=2, binary="column", budget=2000)
    assert report.verdict == "gamed" and set(report.proof.world.ravel()) == {0.0, 1.0}
    assert any("the proof has no uncertain row" in note for note in report.notes)


# -- rounding is no gain -----------------------------------------------------------------------------------------------


def test_noise_in_the_last_digits_convicts_nobody():
    rng = np.random.default_rng(1)
    report = tc.audit(lambda y, p: tc.brier(y, p) + 1e-13 * rng.standard_normal(), budget=SOME)
    assert report.verdict == "certified"


def test_a_metric_that_is_zero_but_for_rounding_is_not_convicted():
    report = tc.audit(lambda y, p: float((p * 3.3).sum() / 3.3 - len(p)), budget=SOME)
    assert report.verdict == "no gain found"  # and not certified: no gain could have been seen
    assert any("all values are closer to each other than a gain that would be seen" in note for note in report.notes)


def test_chance_in_a_metric_is_no_gain():
    rng = np.random.default_rng(1)
    report = tc.audit(lambda y, p: tc.brier(y, p) + 0.01 * rng.random(), budget=SOME)
    assert report.verdict == "no verdict" and report.summary.startswith("no verdict: not deterministic, values from")
    assert report.calls < 200 and not report.passed  # nothing is searched


def test_noise_is_never_certified():
    rng = np.random.default_rng(2)
    ece = tc.ERRORS["ece"]
    report = tc.audit(lambda y, p: ece(y, p) + 0.05 * rng.standard_normal(), budget=SOME)
    assert report.verdict == "no verdict" and not report.certificates and report.proof is None


def test_single_precision_is_recognised():
    report = tc.audit(lambda y, p: np.float32(tc.brier(y, p)), budget=FEW)
    assert report.verdict == "certified" and 1e-6 < report.resolution < 1e-3
    assert tc.audit(lambda y, p: np.float32(accuracy(y, p) ** 0.5), budget=SOME).verdict == "gamed"


# -- the same audit every time -----------------------------------------------------------------------------------------


def test_an_audit_is_repeatable_and_keeps_to_its_calls():
    calls = []

    def counted(y, p):
        calls.append(1)
        return tc.brier(y, p)

    first, second = (tc.audit(counted, budget=300, seed=3) for _ in range(2))
    assert_close(first, second, 1)
    assert first.calls + second.calls == len(calls)
    assert first.calls <= 300 + 150  # the form and the noise come first, whatever the budget


@pytest.mark.heavy
def test_a_conviction_ends_the_calls_early():
    calls: list[int] = []

    def counted(y, p):
        calls.append(len(y))
        return tc.ERRORS["confidence_l1"](y, p)

    report = tc.audit(counted, budget=60_000)
    assert report.verdict == "gamed" and report.calls == len(calls) < 5000
    assert {"pool", "sharpen", "round"} <= {finding.name for finding in report.findings}


@pytest.mark.parametrize("slow_from", [0, 200])
def test_seconds_cover_everything(slow_from, monkeypatch):
    """The clock counts calls here: each is two seconds, from the first on or from the 200th on."""
    now = [0.0]
    calls = []
    monkeypatch.setattr("truecal.auditing.metric.time.monotonic", lambda: now[0])

    def slow(y, p):
        calls.append(len(y))
        now[0] += 2.0 if len(calls) > slow_from else 1e-6
        return tc.ERRORS["confidence_l1"](y, p)

    report = tc.audit(slow, seconds=3)
    assert len(calls) - slow_from <= 2 and now[0] <= 5
    if not slow_from:
        assert report.verdict == "no verdict" and "time limit" in report.summary
        assert not report.passed
    else:
        assert report.verdict == "gamed"
    assert any("the time limit ended the search early" in note for note in report.notes)


@pytest.mark.heavy
@pytest.mark.parametrize("lie", ["none", "uniform"])
def test_small_worlds_leave_time_for_300_rows(lie, monkeypatch):
    """A metric that is slow with few rows, and with a lie that others follow: both are cut short, and noted."""
    now = [0.0]
    monkeypatch.setattr("truecal.auditing.metric.time.monotonic", lambda: now[0])

    def slow(y, p):
        few = 1 < len(y) < 10
        now[0] += 2.0 if few or (lie == "uniform" and len(y) == 300 and (p == 0.5).all()) else 0.01
        return tc.ERRORS["confidence_l1"](y, p)

    report = tc.audit(slow, seconds=60)
    assert report.verdict == "gamed" and report.lasting is not None and report.lasting.kind == "pool"
    assert report.lasting.survives and report.lasting.draws >= 100
    assert now[0] <= 62 and any("the time limit ended the search early" in note for note in report.notes)


def test_a_grid_is_certified_by_every_pair_of_it():
    """The certificate once more by plain loops: every world and every prediction, by the expectation of the tests."""
    report = tc.audit(tc.ERRORS["binary"], budget=FEW)
    (certificate,) = report.certificates
    points = [i / certificate.parts for i in range(certificate.parts + 1)]
    pairs = [np.array([a, b])[: certificate.rows] for a in points for b in points]
    for world in pairs[:: len(points) - 1]:
        honest = expected(tc.ERRORS["binary"], world, world)
        assert all(expected(tc.ERRORS["binary"], world, lie) >= honest - 1e-12 for lie in pairs)
