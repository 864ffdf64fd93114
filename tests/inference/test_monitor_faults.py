"""Monitors that broke: flat references, threads, and states that were crafted."""

from __future__ import annotations

import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal as tc
from truecal.inference import monitoring
from truecal.inference.monitor_state import State
from truecal.io import FileError
from truecal.io.state_files import read_state, write_state


def flat(concentration: float, classes: int, n: int, seed: int = 4) -> Any:
    return np.random.default_rng(seed).dirichlet([concentration] * classes, n)


def test_a_flat_reference_that_is_always_right_still_raises_an_alarm():
    p = np.random.default_rng(4).dirichlet([100, 100], 120)
    y = p.argmax(axis=1)
    monitor = tc.monitor(reference=(y, p))
    later = np.random.default_rng(5).dirichlet([100, 100], 2000)
    found = monitor.update(1 - later.argmax(axis=1), later)
    assert found.alarm and not np.isnan(found.evalue) and found.since is not None and found.since < 200
    assert "the reference is more miscalibrated than the monitor can represent" in found.notes[1]
    p = np.random.default_rng(6).random(500)
    usual = tc.monitor(reference=((np.random.default_rng(7).random(500) < p).astype(int), p)).update([1], [0.6])
    assert not any("extreme" in note for note in usual.notes)


SPREAD = [(c, k) for c in (0.01, 0.3, 1, 10, 100, 1000, 1e6) for k in (2, 3, 10)]


@pytest.mark.heavy
@pytest.mark.parametrize(("concentration", "classes"), SPREAD)
@pytest.mark.parametrize("labels", ["right", "wrong", "random", "one class"])
def test_any_small_reference_gives_finite_evidence(concentration, classes, labels, tmp_path):
    """Whatever 120 rows show, the monitor goes on as numbers, in both directions, and its state can be kept."""
    p = np.clip(flat(concentration, classes, 120), 1e-12, None)
    p /= p.sum(axis=1, keepdims=True)
    kinds = {
        "right": p.argmax(axis=1),
        "wrong": p.argmin(axis=1),
        "random": np.random.default_rng(1).integers(0, classes, 120),
        "one class": np.zeros(120, dtype=int),
    }
    monitor = tc.monitor(reference=(kinds[labels], p))
    now = monitor.update(kinds[labels], p)
    assert np.isfinite(np.log(now.evalue)) and all(process.evalue >= 0 for process in now.processes)
    monitor.save(tmp_path / "s.npz")
    again = tc.Monitor.load(tmp_path / "s.npz").update(np.roll(kinds[labels], 7), p)
    assert not np.isnan(again.evalue) and again.n_samples == 240


def test_maps_are_of_a_bounded_family():
    p = flat(1000, 10, 120)
    made: Any = tc.monitor(reference=(p.argmax(axis=1), p))
    maps = made._state.maps
    assert (np.abs(np.log(maps.slopes)) <= 4 + 1e-12).all() and (np.abs(maps.shifts) <= 8).all()
    assert np.isfinite(maps.log_weights.max())


def test_what_the_model_holds_possible_stays_possible_after_a_map():
    rng = np.random.default_rng(0)
    z = rng.normal(0, 1.5, 400)
    sharp = 1 / (1 + np.exp(-3 * z))
    monitor = tc.monitor(reference=((rng.random(400) < 1 / (1 + np.exp(-z))).astype(int), sharp))
    assert monitor.update([1], [1e-300]).impossible is None
    assert monitor.update([1], [0.0]).impossible == 1


def test_a_state_that_is_no_number_is_not_taken_over(monkeypatch):
    monitor = tc.monitor()
    before = monitor.update([0, 1], [0.2, 0.7])
    after = State.after
    monkeypatch.setattr(State, "after", lambda *given: replace(after(*given), now=np.full(7, np.nan)))
    with pytest.raises(ValueError, match="would not be a finite number after these rows; they were not counted"):
        monitor.update([0, 1], [0.2, 0.7])
    assert monitor.result() == before


# -- threads -----------------------------------------------------------------------------------------------------------


def test_threads_that_share_a_monitor_lose_no_rows(monkeypatch):
    """Each counting lets the others run in its middle, which lost most rows before."""
    after = State.after
    turns = threading.Barrier(4, timeout=20)

    def slow(*given: Any) -> Any:
        found = after(*given)
        threading.Event().wait(0.001)
        return found

    monkeypatch.setattr(State, "after", slow)
    monitor = tc.monitor()

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        turns.wait()
        for _ in range(10):
            p = rng.random(10)
            monitor.update((rng.random(10) < p).astype(int), p)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert monitor.result().n_samples == 400


# -- crafted states ----------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    rng = np.random.default_rng(0)
    p = rng.random(200)
    monitor = tc.monitor(reference=((rng.random(200) < p).astype(int), p))
    monitor.update((rng.random(200) < p).astype(int), p)
    path = tmp_path / "s.npz"
    monitor.save(path)
    return (path, *read_state(path, "monitor", monitoring._VERSION))


def with_value(array: Any, value: float) -> Any:
    changed = array.copy()
    changed.flat[0] = value
    return changed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, np.nan) for name in ("wealth.0", "memory.5", "now", "largest", "history", "maps.shifts")),
        *(("memory.5", value) for value in (np.inf, -1.0)),
        *(("maps.slopes", value) for value in (np.inf, -1.0, 0.0, 5e-324, 1e300)),
        *(("maps.shifts", value) for value in (-1e308, 1e308)),
        ("maps.log_weights", np.nan),
    ],
)
def test_values_that_no_monitor_writes_are_refused_by_name(saved, name, value):
    path, about, arrays = saved
    write_state(path, "monitor", monitoring._VERSION, about, {**arrays, name: with_value(arrays[name], value)})
    with pytest.raises(FileError, match=rf"s.npz: the state of a monitor is damaged: '{name.partition('.')[0]}"):
        tc.Monitor.load(path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("setup", ["binary", 2, [0.0, 0.7, 0.2, 1.0]], "'setup' cannot be read .the edges of the bins must rise"),
        ("setup", ["ternary", 2, [0.0, 1.0]], "'setup' cannot be read .no predictions of kind 'ternary'"),
        ("setup", 5, "'setup' cannot be read"),
        ("alpha", float("nan"), "'alpha' cannot be read .alpha must lie strictly between"),
        ("files", {"a": 5}, "'files' cannot be read"),
        ("notes", 3, "'notes' cannot be read"),
        ("state", {"rows": 5}, "'new' is missing"),
        (
            "state",
            {"rows": -3, "new": 0, "stride": 1, "since": None, "impossible": None, "since_time": None},
            "'state'",
        ),
    ],
)
def test_fields_that_no_monitor_writes_are_refused_by_name(saved, name, value, words):
    path, about, arrays = saved
    write_state(path, "monitor", monitoring._VERSION, {**about, name: value}, arrays)
    with pytest.raises(FileError, match=words):
        tc.Monitor.load(path)


@pytest.mark.parametrize(
    "options",
    [
        {"labels": [b"a", b"b"]},
        {"pos_label": b"a"},
        {"pos_label": Decimal(1)},
        {"pos_label": np.datetime64("2026-01-01")},
    ],
)
def test_labels_that_cannot_be_saved_are_named(tmp_path, options):
    with pytest.raises(TypeError, match="labels must be text, numbers or booleans to be saved, got"):
        tc.monitor(**options).save(tmp_path / "s.npz")
    assert not list(tmp_path.iterdir())
