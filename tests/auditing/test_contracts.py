"""Every check of a metric's manners passes a metric that has them and fails one that has not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truecal
from truecal.auditing.contracts import CHECKS, NO_GAIN

pytestmark = pytest.mark.slow

tc: Any = truecal  # what a test hands in need not be of the right type

STATE = np.random.default_rng(0)


def careless(y, p):
    return float(((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean()) if len(y) else 0.0


def infinite_on_ties(y, p):
    return float("inf") if len(np.unique(p, axis=0)) < len(p) else careless(y, p)


def random(y, p):
    return careless(y, p) + 0.1 * STATE.random()


def clips_in_place(y, p):
    np.clip(p, 0.1, 0.9, out=p)
    return careless(y, p)


def looks_at_the_first_row(y, p):
    return careless(y[:1], p[:1])


def ties_by_row(y, p):
    """Quantile bins in the order of rows: only equal predictions give that order away."""
    return tc.classwise_error(y, p, n_bins=7, ties="row")


def favours_a_column(y, p):
    return careless(y, p) + float((p[:, 0] - (y == 0)).mean() ** 2)


def blind_to_nan(y, p):
    return careless(y, np.nan_to_num(p, posinf=1.0))


def needs_two_classes(y, p):
    if len(set(y.tolist())) < 2 and len(y) > 50:
        raise ValueError("only one class in y_true")
    return careless(y, p)


OFFENDERS = {
    "finite": infinite_on_ties,
    "deterministic": random,
    "leaves_input_alone": clips_in_place,
    "row_order": looks_at_the_first_row,
    "row_order_with_ties": ties_by_row,
    "class_names": favours_a_column,
    "refuses_nan": blind_to_nan,
    "refuses_infinite": blind_to_nan,
    "refuses_bad_rows": careless,
    "refuses_empty": careless,
    "single_class": needs_two_classes,
}
LITTLE = 150


def failed(report) -> list[str]:
    return [check.name for check in report.checks if not check.passed]


def test_no_check_is_without_an_offender():
    assert set(OFFENDERS) == set(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_a_careful_metric_passes_and_an_offender_fails(name):
    assert name in failed(tc.audit(OFFENDERS[name], budget=LITTLE))


@pytest.mark.parametrize("metric", [tc.brier, tc.ERRORS["classwise"], tc.ERRORS["binary"]], ids=str)
def test_our_own_metrics_pass_every_check(metric):
    report = tc.audit(metric, budget=LITTLE)
    assert not failed(report) and report.passed
    assert len(report.checks) == len(CHECKS) + 1


def test_ties_alone_give_the_order_of_rows_away():
    assert "row_order" not in failed(tc.audit(ties_by_row, budget=LITTLE))


def test_expected_failures_have_reasons_and_unexpected_passes_are_said():
    reasons = {"refuses_empty": "kept for an old caller", "refuses_bad_rows": "scores need not sum to one"}
    report = tc.audit(careless, budget=LITTLE, expected=reasons)
    assert report.passed and set(failed(report)) == set(reasons)
    assert "refuses_empty: gives 0 and raises nothing (expected: kept for an old caller)" in repr(report)
    report = tc.audit(tc.brier, budget=LITTLE, expected={"refuses_nan": "not yet"})
    assert not report.passed and [check.name for check in report.surprises] == ["refuses_nan"]
    assert "refuses_nan: passed, though a failure was expected (expected: not yet)" in repr(report)


def test_being_gamed_can_be_expected():
    ece = tc.ERRORS["binary_l1"]
    assert NO_GAIN in [check.name for check in tc.audit(ece, budget=LITTLE).surprises]
    assert tc.audit(ece, budget=LITTLE, expected={NO_GAIN: "the usual error rewards pooling"}).passed


def test_warnings_of_a_metric_are_not_raised():
    """Tests turn warnings into errors; a metric that warns of strange input is not refused for it."""

    def warns(y, p):
        return careless(y, p) + 0 * float(np.log(np.zeros(1)).clip(0)[0])

    assert tc.audit(warns, budget=LITTLE).verdict != "gamed"
