"""Every check that the page of the audit shows passes a careful metric and fails an offender."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal
from truecal.auditing.metric import CallForm

sys.path.append(str(Path(__file__).parents[2]))  # benchmarks are no part of the package
contracts: Any = importlib.import_module("benchmarks.audit.contracts")

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


MATRIX, COLUMN = {2: CallForm(), 3: CallForm()}, {2: CallForm(binary="column")}


def failed(metric, forms=MATRIX) -> list[str]:
    return [check.name for check in contracts.check_contracts(metric, forms, 0) if not check.passed]


def test_no_check_is_without_an_offender():
    assert set(OFFENDERS) == set(contracts.CHECKS)


@pytest.mark.parametrize("name", contracts.CHECKS)
@pytest.mark.filterwarnings("ignore")
def test_an_offender_fails(name):
    assert name in failed(OFFENDERS[name])


@pytest.mark.parametrize(
    ("metric", "forms"), [(tc.brier, MATRIX), (tc.ERRORS["classwise"], MATRIX), (tc.ERRORS["binary"], COLUMN)]
)
def test_our_own_metrics_pass_every_check(metric, forms):
    assert not failed(metric, forms)


def test_ties_alone_give_the_order_of_rows_away():
    assert failed(ties_by_row) == ["row_order_with_ties"]


def test_warnings_of_a_metric_are_not_raised():
    """Tests turn warnings into errors; a metric that warns of strange input is not refused for it."""

    def warns(y, p):
        return careless(y, p) + 0 * float(np.log(np.zeros(1)).clip(0)[0])

    assert tc.audit(warns, budget=LITTLE).verdict != "gamed"
