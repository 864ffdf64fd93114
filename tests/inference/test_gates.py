"""Gates: one guarantee for several questions, a strict file, and checks on new rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import truecal as tc
from closeness import assert_close
from truecal.io import FileError


def rows(rng: np.random.Generator, n: int, sharp: float = 1.0) -> tuple[Any, Any]:
    """Answers and chances of a yes, told with exponent `sharp`."""
    p = rng.beta(0.4, 0.4, n)
    q = p**sharp / (p**sharp + (1 - p) ** sharp)
    return rng.random(n) < p, q


def test_each_question_is_tested_with_its_share_of_delta(rng):
    data = {name: rows(rng, 800) for name in "abc"}
    found = tc.analysis.joint_thresholds(data, risk=0.1, delta=0.06)
    for gate in found.gates:
        alone = tc.threshold(*data[gate.called], risk=0.1, delta=0.02)
        assert (gate.threshold, gate.coverage, gate.bound) == (alone.threshold, alone.coverage, alone.bound)
    assert any(gate.threshold for gate in found.gates)


@pytest.mark.slow
def test_all_gates_keep_their_risk_together():
    """100 logs of four over-confident questions: some gate is above the risk in at most 5% (binomial tolerance)."""
    rng = np.random.default_rng(7)
    far = rng.beta(0.4, 0.4, 20_000)
    broken = 0
    for _ in range(100):
        found = tc.analysis.joint_thresholds({name: rows(rng, 300, 1.7) for name in "abcd"}, risk=0.1)
        top = np.maximum(far, 1 - far)
        for gate in found.gates:
            if gate.threshold is not None:
                told = top**1.7 / (top**1.7 + (1 - top) ** 1.7)
                taken = told >= gate.threshold
                if taken.any() and (1 - top[taken]).mean() > 0.1:
                    broken += 1
                    break
    assert broken <= 11  # P(Binomial(100, .05) > 11) = .004


def test_a_file_holds_all_of_the_gates(rng, tmp_path):
    found = tc.analysis.joint_thresholds({"a": rows(rng, 500), "b": rows(rng, 40)}, risk=0.1)
    found.save(tmp_path / "gate.json")
    assert tc.analysis.load_gates(tmp_path / "gate.json") == found
    raw = json.loads((tmp_path / "gate.json").read_text())
    assert raw["version"] == 1 and [gate["rows"] for gate in raw["gates"]] == [500, 40]


GOOD: dict[str, Any] = {
    "version": 1,
    "risk": 0.05,
    "delta": 0.05,
    "gates": [{"question": "a", "threshold": 0.9, "rows": 10, "coverage": 0.5, "bound": 0.04}],
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (None, "expected a gate file as truecal threshold --save writes it"),
        ({"version": 2}, "expected 1 as version of the file, got 2"),
        ({"version": True}, "as version of the file, got True"),
        ({"more": 1}, "missing or unknown: 'more'"),
        ({"risk": 1}, "expected a number between 0 and 1 as risk of the file, got 1"),
        ({"delta": "0.1"}, "as delta of the file, got '0.1'"),
        ({"gates": []}, "expected a list of gates"),
        ({"gates": [3]}, "in gate 0; missing or unknown: 3"),
        ({"gates": [GOOD["gates"][0] | {"threshold": 1.2}]}, "a number from 0 to 1 or null as threshold of gate 0"),
        ({"gates": [GOOD["gates"][0] | {"threshold": float("nan")}]}, "as threshold of gate 0"),
        ({"gates": [GOOD["gates"][0] | {"rows": 1.5}]}, "a positive whole number as rows of gate 0, got 1.5"),
        ({"gates": [{"question": "a"}]}, "in gate 0; missing or unknown"),
        ({"gates": GOOD["gates"] * 2}, "expected every question once, got 'a', 'a'"),
    ],
)
def test_any_other_file_gets_one_clear_error(change, said, tmp_path):
    path = Path(tmp_path, "gate.json")
    path.write_text("{" if change is None else json.dumps(GOOD | change))
    with pytest.raises(FileError, match=said):
        tc.analysis.load_gates(path)


def test_a_key_that_comes_twice_is_refused(tmp_path):
    path = Path(tmp_path, "gate.json")
    path.write_text(json.dumps(GOOD)[:-1] + ', "risk": 0.5}')
    with pytest.raises(FileError, match="a key comes twice"):
        tc.analysis.load_gates(path)
    with pytest.raises(FileError, match="file not found"):
        tc.analysis.load_gates(tmp_path / "none.json")


def test_new_rows_say_within_broken_or_undecided(rng):
    gates = tc.analysis.joint_thresholds({"a": rows(rng, 3000)}, risk=0.1)
    threshold = gates.gates[0].threshold
    assert threshold is not None
    y, p = rows(rng, 4000, 0.5)
    within = gates.check({"a": (y, p)})
    [answer] = within.answers
    top = np.maximum(p, 1 - p)
    wrong = ((p >= 0.5) != y)[top >= threshold]
    ends = binomtest(int(wrong.sum()), len(wrong)).proportion_ci(0.9, "exact")  # 5% on each side
    assert_close(np.array([answer.low, answer.high]), np.array([ends.low, ends.high]), tolerance=1e-9)
    assert within.verdict == "within" and "keeps an error of at most 0.1" in within.sentence
    assert gates.check({"a": rows(rng, 4000, 6.0)}).verdict == "broken"
    few = gates.check({"a": (y[:30], p[:30])})
    assert few.verdict == "undecided" and "do not show" in repr(few)
    with pytest.raises(ValueError, match="no rows of question 'a', which has a gate: found b"):
        gates.check({"b": (y, p)})


def test_a_gate_without_a_threshold_accepts_nothing(rng):
    gates = tc.analysis.joint_thresholds({"a": rows(rng, 3000), "b": rows(rng, 10)}, risk=0.1)
    found = gates.check({"a": rows(rng, 4000, 0.5), "b": rows(rng, 10)})
    assert [answer.verdict for answer in found.answers] == ["within", "accepts nothing"]
    assert found.verdict == "within"
    none = tc.analysis.joint_thresholds({"b": rows(rng, 10)})
    assert none.check({"b": rows(rng, 10)}).verdict == "accepts nothing"
