"""The monitor: martingales proved by enumeration, plain loops beside the fast sums, states, and what is refused."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal as tc
from calibration_worlds import binary, classes, labels, tempered
from closeness import assert_close
from truecal.inference import eprocesses, monitor_state, monitoring
from truecal.inference.eprocesses import LOG_SLOPES, MAP_SHIFTS, MEMORIES, PRIOR_COUNTS, SHIFTS
from truecal.io import FileError

KINDS = ("binary", "multiclass", "top_label")


def predictions(kind: str, n: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """(n, k) distributions; of the kinds with one number, that of class 1."""
    return rng.dirichlet(np.ones(3 if kind == "multiclass" else 2), n)


def updated(monitor: tc.Monitor, kind: str, y: Any, p: Any) -> tc.results.MonitorUpdate:
    y = np.asarray(y)
    if kind == "multiclass":
        return monitor.update(y, p)
    if kind == "binary":
        return monitor.update(y, p[:, 1])
    return monitor.update(None, tc.TopPredictions(y, p[:, 1]))


def numbers(found: tc.results.MonitorUpdate) -> np.ndarray[Any, Any]:
    return np.array([found.evalue, *(process.evalue for process in found.processes)])


# -- martingales -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_process_has_mean_one_if_labels_are_drawn_from_the_predictions(kind, rng):
    n = 4 if kind == "multiclass" else 5
    p = predictions(kind, n, rng)
    mean: Any = 0.0
    for y in itertools.product(range(p.shape[1]), repeat=n):
        chance = np.prod(p[np.arange(n), y])
        mean = mean + chance * numbers(updated(tc.monitor(), kind, y, p))
    np.testing.assert_allclose(mean, 1.0, rtol=1e-12)


@pytest.mark.parametrize(("side", "better"), [("over-confident", 1), ("under-confident", -1)])
def test_a_direction_is_not_charged_for_the_other_one(side, better, rng):
    """Right more often than said is no over-confidence: the mean of that process stays at most 1, and is below it."""
    confidence = rng.uniform(0.55, 0.9, 6)
    truth = confidence + better * 0.08
    mean = 0.0
    for right in itertools.product((0, 1), repeat=6):
        chance = np.prod(np.where(right, truth, 1 - truth))
        found = tc.monitor().update(None, (np.array(right), confidence))
        mean += chance * next(process.evalue for process in found.processes if process.name == side)
    assert 0.5 < mean < 1


def test_weights_of_the_starts_sum_to_one():
    rows = np.arange(1, 2001)
    started = np.exp(eprocesses.log_start(rows)).cumsum() + np.exp(eprocesses.log_unstarted(rows))
    np.testing.assert_allclose(started, 1.0, rtol=1e-12)


@pytest.mark.slow
def test_with_a_reference_the_mean_is_one_over_the_maps_that_it_allows(rng):
    n = 4
    reference_y, reference_p = tempered(1.4, 150, 3, rng)
    p = predictions("multiclass", n, rng)
    made = tc.monitor(reference=(reference_y, reference_p))
    assert made._state is not None and made._state.maps is not None
    maps = made._state.maps
    weights = np.exp(maps.log_weights - maps.log_weights.max())
    weights /= weights.sum()
    anchor = np.arange(3) == p.argmax(axis=1)[:, None]
    tilted = p ** maps.slopes[:, None, None, None] * np.exp(maps.shifts[:, :, None, None] * anchor)
    tilted /= tilted.sum(axis=-1, keepdims=True)
    mean: Any = 0.0
    for y in itertools.product(range(3), repeat=n):
        chance = float((weights * tilted[:, :, np.arange(n), y].prod(axis=-1)).sum())
        again = tc.monitor()
        again._setup, again._state = made._setup, made._state
        mean += chance * numbers(again.update(np.array(y), p))
    np.testing.assert_allclose(mean, 1.0, rtol=1e-10)


# -- plain loops -------------------------------------------------------------------------------------------------------


def started(ratios: list[float]) -> float:
    """Σ_j π_j Π_{t≥j} ratio_t, starts that have not come keeping their stake: the definition."""
    left = [1 / (1 + np.log(1 + t)) for t in range(len(ratios) + 1)]
    total = left[-1]
    for j in range(len(ratios)):
        total += (left[j] - left[j + 1]) * np.prod(ratios[j:])
    return float(total)


def mapped(p: np.ndarray[Any, Any], slope: float, shift: float, anchor: int) -> np.ndarray[Any, Any]:
    q = p**slope * np.exp(shift * (np.arange(len(p)) == anchor))
    return q / q.sum()


def rates(outcomes: list[int], given: np.ndarray[Any, Any], prior: float, half_life: float) -> list[float]:
    count, total, found = np.zeros(given.shape[1]), np.zeros(given.shape[1]), []
    for came, p in zip(outcomes, given, strict=True):
        count, total = count * 0.5 ** (1 / half_life), total * 0.5 ** (1 / half_life)
        factor = (count + prior) / (total + prior)
        found.append(float(factor[came] / (p @ factor)))
        count[came] += 1
        total += p
    return found


def test_processes_are_their_definitions(rng):
    n = 40
    p = predictions("multiclass", n, rng)
    y = labels(rng, p)
    top = p.argmax(axis=1)
    ones: dict[str, list[float]] = {name: [] for name in ("over-confident", "under-confident")}
    for s in SHIFTS:
        for name, sign in (("over-confident", -1), ("under-confident", 1)):
            ones[name].append(started([mapped(p[t], 1, sign * s, top[t])[y[t]] / p[t, y[t]] for t in range(n)]))
    grid = [
        started([mapped(p[t], np.exp(b), s, top[t])[y[t]] / p[t, y[t]] for t in range(n)])
        for b in LOG_SLOPES
        for s in MAP_SHIFTS
    ]
    edges = np.array(monitor_state.EDGES)
    given, outcomes = np.zeros((n, 2 * (len(edges) - 1))), []
    for t in range(n):
        cell = max(j for j in range(len(edges) - 1) if p[t, top[t]] > edges[j])
        given[t, 2 * cell : 2 * cell + 2] = 1 - p[t, top[t]], p[t, top[t]]
        outcomes.append(2 * cell + int(y[t] == top[t]))
    both = [(prior, half_life) for half_life in MEMORIES for prior in PRIOR_COUNTS]
    expected = [np.mean(ones["over-confident"]), np.mean(ones["under-confident"]), np.mean(grid)]
    expected.append(np.mean([started(rates(outcomes, given, *pair)) for pair in both]))
    expected.append(np.mean([started(rates(list(y), p, *pair)) for pair in both]))
    found = numbers(tc.monitor().update(y, p))
    np.testing.assert_allclose(found, [np.mean(expected), *expected], rtol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_batches_do_not_matter(kind, rng, tmp_path):
    p = predictions(kind, 1300, rng)
    y = labels(rng, p**1.5 / (p**1.5).sum(axis=1, keepdims=True))
    reference = None
    if kind == "multiclass":
        reference = (labels(rng, p), p)
    whole, parts = tc.monitor(reference=reference), tc.monitor(reference=reference)
    expected = updated(whole, kind, y, p)
    for rows in np.split(np.arange(1300), (1, 2, 3, 700, 701)):
        found = updated(parts, kind, y[rows], p[rows])
        parts.save(tmp_path / "state.npz")
        parts = tc.Monitor.load(tmp_path / "state.npz")
        assert_close(parts.result(), found, 1)
    np.testing.assert_allclose(numbers(found), numbers(expected), rtol=1e-9)
    assert (found.since, found.n_samples, found.new) == (expected.since, 1300, 599)
    np.testing.assert_array_equal(parts.history.rows, whole.history.rows)
    np.testing.assert_allclose(parts.history.log_evalues, whole.history.log_evalues, rtol=1e-9, atol=1e-9)


def test_the_history_is_short_and_spread_evenly(rng, monkeypatch):
    monkeypatch.setattr(monitor_state, "HISTORY", 40)
    monitor = tc.monitor()
    for _ in range(7):
        p = rng.random(50)
        monitor.update(rng.random(50) < p, p)
    history = monitor.history
    assert len(history.rows) <= 42 and history.rows[-1] == 350
    assert len(set(np.diff(history.rows)[:-1])) == 1
    assert history.log_evalues[-1] == pytest.approx(np.log(monitor.result().evalue))


# -- what is found -----------------------------------------------------------------------------------------------------


def test_the_alarm_names_row_time_and_direction(rng):
    z = rng.normal(0, 1.5, 4000)
    q = 1 / (1 + np.exp(-z))
    y = rng.random(4000) < q
    monitor = tc.monitor()
    assert not monitor.update(y[:2000], q[:2000], time="Monday").alarm
    sharp = 1 / (1 + np.exp(-2 * z))
    found = monitor.update(y[2000:], sharp[2000:], time="Tuesday")
    assert found.alarm and found.since_time == "Tuesday" and found.direction == "over-confident"
    assert found.since is not None and 2000 < found.since < 2600
    assert found.pvalue == pytest.approx(1 / found.largest) and found.pvalue < 0.05
    later = monitor.update(y[:10], q[:10], time="Wednesday")
    assert later.alarm and (later.since, later.since_time) == (found.since, "Tuesday")  # an alarm stays
    assert f"Alarm at row {found.since - 2000} of Tuesday: over-confident; the change is probably near" in repr(later)
    assert later.sentence.endswith("; a calibrated model alarms in at most 5% of all streams")


def two_days(rng, first=600, second=600, t=1.8):
    """Outcomes and predictions whose logits are multiplied by t on the second day."""
    z = rng.normal(0, 1.5, first + second)
    day = np.arange(len(z)) < first
    return (rng.random(len(z)) < 1 / (1 + np.exp(-z))).astype(int), 1 / (1 + np.exp(-np.where(day, 1, t) * z))


def test_the_change_is_found_whatever_the_batches_and_survives_a_state(rng, tmp_path):
    y, p = two_days(rng)
    whole, parts = tc.monitor(), tc.monitor()
    change = whole.update(y, p).change
    for start in range(0, 1200, 7):
        parts.update(y[start : start + 7], p[start : start + 7])
    assert change is not None and change.told and change == parts.result().change
    assert change.low <= 600 <= change.high and change.high - change.low < 300 and "row 5" in change.text
    parts.save(tmp_path / "state.npz")
    assert tc.Monitor.load(tmp_path / "state.npz").result() == parts.result()
    flat = tc.monitor(alpha=0.9)
    found = flat.update(rng.random(300) < 0.5, np.full(300, 0.45)).change
    assert found is None or found.low == 0 or not found.told


def test_advice_leaves_out_rows_before_the_change(rng):
    """Over both days the best map bends, and a refit was advised."""
    y, p = two_days(rng, 1500, 1500)
    advice = tc.monitor().advise(y, p)
    assert advice.best == "temperature" and "± 0.1" in advice.sentence and 1300 < advice.skipped < 1700
    assert 1.5 < 1 / advice.map.slopes[0] < 2.1
    with pytest.raises(ValueError, match=r"at least 100 rows after the estimated change \(row .* of the last 1560\)"):
        tc.monitor().advise(
            *(np.concatenate([a[:1500], b]) for a, b in zip((y, p), (y[-60:], p[-60:] ** 6), strict=True))
        )


@pytest.mark.parametrize(("factor", "word"), [(0.7, "too high"), (1.4, "too low")])
def test_directions_of_one_probability(factor, word, rng):
    p = rng.uniform(0.05, 0.6, 2000)
    assert tc.monitor().update(rng.random(2000) < factor * p, p).direction == word


def test_class_rates_are_seen(rng):
    p = rng.dirichlet(np.full(6, 5.0), 3000)
    tilted = p * np.linspace(0.7, 1.3, 6)
    found = tc.monitor().update(labels(rng, tilted / tilted.sum(axis=1, keepdims=True)), p)
    assert found.alarm and found.strongest == "class rates"


@pytest.mark.slow
def test_a_reference_makes_its_miscalibration_usual(rng):
    y, p = tempered(1.5, 6000, 4, rng)
    reference = (y[:3000], p[:3000])
    assert tc.monitor().update(y[3000:], p[3000:]).alarm
    usual = tc.monitor(reference=reference)
    found = usual.update(y[3000:], p[3000:])
    assert not found.alarm and "from 3000 reference rows: temperature 1.4" in found.notes[0]
    worse = tempered(2.2, 1500, 4, rng)
    found = usual.update(*worse)
    assert found.alarm and found.since is not None and found.since > 3000 and found.direction == "over-confident"


@pytest.mark.slow
def test_a_reference_that_is_off_in_another_way_is_told(rng):
    p = rng.random(3000)
    y = rng.random(3000) < np.clip(p + 0.2 * np.sin(4 * np.pi * p), 0, 1)
    assert "in a way that temperature and shift do not describe" in tc.monitor(reference=(y, p)).update(y, p).notes[1]


def test_probability_zero_for_what_came_is_infinite_evidence(tmp_path):
    monitor = tc.monitor()
    monitor.update([0, 1], [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2]])
    found = monitor.update([2, 0], [[0.6, 0.4, 0.0], [0.5, 0.3, 0.2]])
    assert found.alarm and found.evalue == np.inf and (found.since, found.impossible) == (2, 2)
    assert "row 2 had been given probability 0" in found.notes[0] and found.pvalue == 0
    sides = {process.name: process.evalue for process in found.processes}
    assert np.isfinite(sides["over-confident"]) and np.isfinite(sides["under-confident"])
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["evalue"] is None
    monitor.save(tmp_path / "state.npz")
    monitor = tc.Monitor.load(tmp_path / "state.npz")
    assert monitor.update([0], [[0.5, 0.3, 0.2]]).evalue == np.inf
    sure = tc.monitor().update([0, 1], [1.0, 1.0])
    sides = {process.name: process.evalue for process in sure.processes}
    assert sides["over-confident"] == sides["too high"] == np.inf and sides["too low"] < 1


def test_certain_and_right_costs_nothing():
    found = tc.monitor().update([0, 1] * 20, [0.0, 1.0] * 20)
    np.testing.assert_allclose(numbers(found), 1.0)


def test_rows_that_nearly_sum_to_one_are_no_evidence(rng):
    """A row may sum to 1 within a thousandth; the null is about its shares."""
    p = rng.dirichlet(np.ones(4), 3000)
    y = labels(rng, p)
    exact, rounded = tc.monitor().update(y, p), tc.monitor().update(y, p * 1.0009)
    np.testing.assert_allclose(numbers(rounded), numbers(exact), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("world", ["calibrated", "sharp calibrated", "four classes", "reference"])
@pytest.mark.heavy
def test_false_alarms_are_at_most_alpha_at_every_row(world, rng):
    """Streams at alpha = .2: more alarms than are allowed here would come with chance .003 at most."""
    streams, allowed = (16, 9) if world == "reference" else (40, 15)
    alarms = 0
    for _ in range(streams):
        monitor = tc.monitor(alpha=0.2)
        if world == "reference":
            y, p = tempered(1.3, 500, 3, rng)
            monitor = tc.monitor(alpha=0.2, reference=(y[:200], p[:200]))
            y, p = y[200:], p[200:]
        elif world == "four classes":
            p, _ = classes("calibrated", 600, 4, rng)
            y = labels(rng, p)
        else:
            p, _ = binary(world, 600, rng)
            y = rng.random(600) < p
        alarms += monitor.update(y, p).alarm
    assert alarms <= allowed


# -- refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0, 1, True, "much", float("nan")])
def test_alpha_is_checked(alpha):
    with pytest.raises(ValueError, match="alpha must lie strictly between 0 and 1"):
        tc.monitor(alpha=alpha)


def test_references_are_checked(rng):
    y, p = tempered(1, 120, 3, rng)
    with pytest.raises(ValueError, match="at least 100 rows, got 50"):
        tc.monitor(reference=(y[:50], p[:50]))
    with pytest.raises(TypeError, match=r"reference must be a pair \(y_true, y_proba\)"):
        tc.monitor(reference=tc.evaluate(y, p, n_resamples=19))
    with pytest.raises(ValueError, match=r"reference: row .* of y_proba sums.*expected probabilities"):
        tc.monitor(reference=(y, 2 * p))
    p[7] = np.eye(3)[(y[7] + 1) % 3]
    with pytest.raises(ValueError, match="probability 0 for the label of row 7"):
        tc.monitor(reference=(y, p))


def test_rows_that_are_refused_leave_everything_as_it_was(rng):
    p = rng.dirichlet(np.ones(3), 20)
    monitor = tc.monitor()
    before = monitor.update(labels(rng, p), p)
    cases: Any = (
        ("expected multiclass predictions of 3 classes as before, got binary", ([0, 1], [0.2, 0.3]), {}),
        ("predictions of 3 classes as before, got binary predictions", ([0], [[0.2, 0.8]]), {}),
        ("a monitor needs one label per row", (p[:2], p[:2]), {}),
        ("sample_weight cannot be used", ([0], p[:1]), {"sample_weight": [2.0]}),
        ("that sum to 1", ([0], [[0.2, 0.2, 0.2]]), {}),
    )
    for words, arguments, more in cases:
        with pytest.raises(ValueError, match=words):
            monitor.update(*arguments, **more)
        assert_close(monitor.result(), before, 1)


def test_labels_and_positive_classes_have_names(rng, tmp_path):
    p = rng.dirichlet(np.ones(3), 60)
    y = labels(rng, p)
    named = tc.monitor(labels=["a", "b", "c"])
    found = named.update(np.array(["a", "b", "c"])[y], p)
    assert_close(found, tc.monitor().update(y, p), 1)
    named.save(tmp_path / "s.npz")
    assert tc.Monitor.load(tmp_path / "s.npz").update(["c"], p[:1]).n_samples == 61
    yes = tc.monitor(pos_label="yes").update(["yes", "no"], [0.9, 0.2])
    assert_close(yes, tc.monitor().update([1, 0], [0.9, 0.2]), 1)


def test_a_monitor_without_rows_says_so(tmp_path):
    monitor = tc.monitor(alpha=0.1)
    assert repr(monitor) == "Monitor: no rows yet; alarm at an e-value of 10"
    with pytest.raises(ValueError, match="no rows yet"):
        monitor.result()
    monitor.save(tmp_path / "empty.npz")
    assert tc.Monitor.load(tmp_path / "empty.npz").alpha == 0.1


def test_states_of_others_are_refused(tmp_path, monkeypatch):
    path = Path(tmp_path, "s.npz")
    with pytest.raises(FileError, match="file not found"):
        tc.Monitor.load(path)
    monitor = tc.monitor()
    monitor.update([0, 1], [0.2, 0.7])
    monkeypatch.setattr(monitoring, "_VERSION", 2)
    monitor.save(path)
    monkeypatch.undo()
    with pytest.raises(FileError, match="expected version 1 of the state of a monitor, got version 2"):
        tc.Monitor.load(path)
    monitor.save(path)
    content = path.read_bytes()
    with np.load(path) as kept:
        arrays = dict(kept)
    np.savez(path, **{**arrays, "now": np.zeros(3)})
    with pytest.raises(FileError, match="damaged: 'now' must be float64 of shape"):
        tc.Monitor.load(path)
    np.savez(path, **{name: x for name, x in arrays.items() if name != "wealth.0"})
    with pytest.raises(FileError, match=r"the state of a monitor is damaged: 'wealth\.0' is missing"):
        tc.Monitor.load(path)
    path.write_bytes(content[:-40])
    with pytest.raises(FileError):
        tc.Monitor.load(path)
