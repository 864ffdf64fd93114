"""Maps that repair drifted predictions: which is advised, that it is the best fit, and files that hold one."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit, softmax

import truecal as tc
from closeness import assert_close
from truecal.inference.repair import PredictionMap
from truecal.results import Repair

BENT = {
    "none": lambda p: p,
    "offset": lambda p: expit(logit(p) - 0.6),
    "temperature": lambda p: expit(logit(p) / 1.7),
    "temperature and offset": lambda p: expit(logit(p) / 1.7 - 0.6),
    "refit": lambda p: np.clip(p + 0.15 * np.sin(2 * np.pi * p), 0, 1),
}


def advised(kind: str, n: int = 3000, seed: int = 0) -> Repair:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.6, 0.6, n)
    return tc.monitor().advise(rng.random(n) < BENT[kind](p), p)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BENT)
def test_the_map_that_is_needed_is_advised(kind):
    found = advised(kind, 10_000)
    assert found.best == kind
    names = [candidate.name for candidate in found.candidates]
    assert names == ["none", "offset", "temperature", "temperature and offset", "refit"]
    before, after = found.candidate("none"), found.candidate(kind)
    if kind != "none":
        assert before.low > 0 and after.low <= 0 and after.score < before.score
        assert found.sentence.startswith("Refit" if kind == "refit" else "Apply a")
    assert found.to_dict()["sentence"] == found.sentence and kind in repr(found)
    assert list(found.to_pandas()["name"]) == names


def test_parameters_minimise_the_cross_entropy():
    rng = np.random.default_rng(1)
    p = rng.beta(0.6, 0.6, 2000)
    y = rng.random(2000) < expit(logit(p) / 1.7 - 0.6)
    found = tc.monitor().advise(y, p)
    assert found.best == "temperature and offset"

    def loss(parameters):
        t = parameters[0] * logit(p) + parameters[1]
        return np.mean(np.logaddexp(0, t) - y * t)

    best = minimize(loss, [1.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12}).x
    assert_close([found.map.slopes[0], found.map.offsets[0]], best.tolist(), tolerance=1e-3)


@pytest.mark.slow
def test_classes_get_a_temperature_or_offsets_and_top_classes_a_map():
    rng = np.random.default_rng(2)
    p = rng.dirichlet(np.ones(4), 2500)

    def labels(q):
        return (q.cumsum(axis=1) < rng.random((2500, 1))).sum(axis=1)

    hot = tc.monitor().advise(labels(softmax(np.log(p) / 1.8, axis=1)), p)
    assert hot.best == "temperature" and 1.5 < 1 / hot.map.slopes[0] < 2.1
    moved = tc.monitor().advise(labels(softmax(np.log(p) + np.array([1, 0, 0, -1]), axis=1)), p)
    assert moved.best == "offset" and moved.map.offsets[0] - moved.map.offsets[3] == pytest.approx(2, abs=0.3)
    after = moved.map.predict_proba(p)
    assert_close(after.sum(axis=1), np.ones(2500))
    c = rng.uniform(0.5, 1, 2500)
    top = tc.monitor().advise(None, tc.TopPredictions(rng.random(2500) < c - 0.15, c))
    assert top.best != "none" and top.map.kind == "top_label"


def test_maps_travel_as_json(tmp_path):
    rng = np.random.default_rng(3)
    p, classes = rng.random(50), rng.dirichlet(np.ones(3), 50)
    maps = [
        (PredictionMap("temperature and offset", "binary", 2, (0.7,), (0.2,)), p),
        (PredictionMap("refit", "binary", 2, knots=((0.1, 0.2), (0.9, 0.7))), p),
        (PredictionMap("offset", "multiclass", 3, (1.0,), (0.1, 0.0, -0.1)), classes),
        (PredictionMap("refit", "multiclass", 3, (1.0, 0.9, 1.1), (0.1, 0.0, -0.1)), classes),
    ]
    for i, (made, given) in enumerate(maps):
        made.save(tmp_path / f"{i}.json")
        read = tc.load_map(tmp_path / f"{i}.json")
        assert read == made
        assert_close(read.predict_proba(given), made.predict_proba(given))
    assert_close(maps[0][0].predict_proba(p), expit(0.7 * logit(p) + 0.2))
    both = maps[0][0].predict_proba(np.column_stack([1 - p, p]))
    assert_close(both[:, 1], expit(0.7 * logit(p) + 0.2))
    assert_close(maps[1][0].predict_proba([0.5, 0.0]), np.array([0.45, 0.2]))
    with pytest.raises(ValueError, match="for 3 classes"):
        maps[2][0].predict_proba(np.full((2, 2), 0.5))


@pytest.mark.parametrize(
    "change",
    [
        {"format": "pickle"},
        {"slopes": [1, 2]},
        {"slopes": ["a"]},
        {"offsets": [float("inf")]},
        {"kind": "nope"},
        {"knots": [[0.5, 0.5], [0.1, 0.9]]},
        {"knots": [[0.5, 2.0]]},
        {"n_classes": 1},
        {"version": None},
        {"slopes": None},
    ],
)
def test_damaged_maps_are_refused(tmp_path, change):
    PredictionMap("temperature", "binary", 2, (0.5,)).save(tmp_path / "map.json")
    held = json.loads((tmp_path / "map.json").read_text()) | change
    (tmp_path / "map.json").write_text(json.dumps(held))
    with pytest.raises(ValueError, match=r"map\.json: expected a map as truecal writes it"):
        tc.load_map(tmp_path / "map.json")


def test_files_that_are_no_maps_are_refused(tmp_path):
    for name, content in {"a.json": b"[1, 2]", "b.json": b"\x80\x04K\x01.", "c.json": b"[" * 100_000}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="expected a map"):
            tc.load_map(tmp_path / name)
    with pytest.raises(ValueError, match="cannot be read"):
        tc.load_map(tmp_path / "nothing.json")


def test_few_rows_get_no_advice():
    with pytest.raises(ValueError, match="at least 100 rows are needed, got 40"):
        tc.monitor().advise([0, 1] * 20, [0.2, 0.7] * 20)


def test_no_map_is_advised_because_a_rare_event_has_not_come():
    """One event is expected, and a map that calls it impossible gains a little in every row."""
    p = expit(np.random.default_rng(0).normal(-5, 1, 120))
    assert 1 < p.sum() < 1.5 and tc.monitor().advise(np.zeros(120, int), p).best == "none"
