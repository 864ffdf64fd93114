"""Audits of metrics of ordered classes, of several labels and of numbers: what is gamed, and what is certified."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import truecal
from truecal.auditing.metric import label_sets

tc: Any = truecal  # what a test hands in need not be of the right type


def labelwise_ece(y, p) -> float:
    """The usual ECE of each label, averaged: what people report."""
    return float(np.mean([tc.ece(y[:, r], p[:, r]) for r in range(p.shape[1])]))


def labelwise_score(y, p) -> float:
    return float(tc.labelwise_error(y, p, n_bins=2, scale="score"))


def labelwise_squares(y, p) -> float:
    return float(np.mean((p - y) ** 2))


def numbers_score(y, f) -> float:
    return float(tc.distribution_error(y, f, thresholds=np.arange(f.shape[1]), n_bins=2, scale="score"))


def crps(y, f) -> float:
    """Σ over thresholds, steps of 1."""
    return float(np.mean(np.sum((f - (y[:, None] <= np.arange(f.shape[1]))) ** 2, axis=1)))


def coverage_error(y, f) -> float:
    """How far the share of outcomes up to the predicted median is from what the median promises."""
    rows = np.arange(len(y))
    padded = np.column_stack([f, np.ones(len(f))])
    median = (padded >= 0.5).argmax(axis=1)
    return float(abs(np.mean(y <= median) - padded[rows, median].mean()))


def pit_error(y, f) -> float:
    """How far the histogram of the middle of F at the outcome is from flat: two bins."""
    rows = np.arange(len(y))
    padded = np.column_stack([np.zeros(len(f)), f, np.ones(len(f))])
    middle = (padded[rows, y.astype(int)] + padded[rows, y.astype(int) + 1]) / 2
    return float(abs(np.mean(middle < 0.5) - 0.5) + abs(np.mean(middle > 0.5) - 0.5))


def test_label_sets_are_binary_numbers():
    assert label_sets(2).tolist() == [[0], [1]]
    assert label_sets(4).tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("metric", "outcomes"), [(labelwise_ece, "labels"), (coverage_error, "numbers"), (pit_error, "numbers")]
)
def test_what_people_report_is_gamed(metric, outcomes):
    report = tc.audit(metric, outcomes=outcomes, budget=3000)
    assert report.verdict == "gamed", report.summary
    world, lie, given, chances = report.reproduce()
    truth, lying = (sum(c * metric(y, p) for y, c in zip(given, chances, strict=True)) for p in (world, lie))
    assert truth - lying == pytest.approx(report.proof.gain, abs=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("metric", "outcomes"),
    [
        (labelwise_squares, "labels"),
        (labelwise_score, "labels"),
        (crps, "numbers"),
        (numbers_score, "numbers"),
        (tc.losses.rps, "ordered"),
        (tc.ERRORS["ordinal"].with_bins(2), "ordered"),
    ],
    ids=["labels, squares", "labels, score", "crps", "numbers, score", "rps", "ordinal"],
)
def test_proper_losses_and_our_scores_are_certified(metric, outcomes):
    report = tc.audit(metric, outcomes=outcomes, budget=8000, seconds=None)
    assert report.verdict == "certified", report.summary


@pytest.mark.heavy
def test_the_script_of_a_proof_about_labels_runs():
    metric = tc.ERRORS["labelwise_l1"]
    report = tc.audit(metric, outcomes="labels", budget=3000)
    assert report.verdict == "gamed"
    script = report.snippet()
    assert "p @ labels" in script
    scope: dict[str, Any] = {}
    exec(script.replace("print(", "found = ("), scope)
    assert scope["found"][1] - scope["found"][3] == pytest.approx(report.proof.gain, abs=1e-9)


def test_sets_of_labels_come_in_powers_of_two():
    with pytest.raises(ValueError, match="classes must be 2, 4, 8"):
        tc.audit(labelwise_ece, outcomes="labels", classes=3)
    with pytest.raises(ValueError, match="outcomes must be one of 'classes', 'ordered', 'labels', 'numbers'"):
        tc.audit(labelwise_ece, outcomes="tags")
