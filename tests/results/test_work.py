"""evaluate and compare validate every matrix once, and make the cells of every sample, rule and tie setting once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import truecal as tc
from inference_cases import softmax, world
from truecal.core import data, labels, properties
from truecal.core.rules import BinningRule
from truecal.kinds import TopPredictions, binary, classes, inputs
from truecal.kinds.named_errors import COMPOSED
from truecal.results.compare import compare
from truecal.results.evaluate import evaluate


class Work:
    """What was validated, and which cells were really made: a generator that nobody reads makes none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.validated: Counter[Any] = Counter()
        self.made: Counter[Any] = Counter()
        self.kept: list[Any] = []
        for name in ("check_probabilities", "check_reports", "check_multiclass", "check_binary_outcomes"):
            counted = self._counting(name, getattr(data if hasattr(data, name) else labels, name))
            for module in (data, labels, properties, inputs, binary, classes):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, counted)
        monkeypatch.setattr(BinningRule, "pieces", self._pieces(BinningRule.pieces))

    def _counting(self, name: str, check: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            self.validated[name] += 1
            return check(*args, **options)

        return counted

    def _pieces(self, made: Any) -> Any:
        def pieces(rule: Any, seen: Any, ties: str, columns: Any = None) -> Iterator[Any]:
            self.kept.append(seen.values)  # so that no other array gets its id
            self.made[id(seen.values), seen.views, seen.joint, rule, ties] += (
                1  # runs only when the first piece is asked for
            )
            yield from made(rule, seen, ties, columns)

        return pieces


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    return Work(monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_bins", ["auto", (3, 20)])
def test_classes_are_validated_once_and_cut_once(work, n_bins, weighted, clustered):
    z, y = world()
    p = softmax(z)
    w = np.arange(1.0, 401.0) if weighted else None
    groups = np.arange(400) // 2 if clustered else None
    found = evaluate(y, p, n_bins=n_bins, n_resamples=39, groups=groups, sample_weight=w)
    wanted = {name for name in COMPOSED if name.startswith(("class", "conf", "full"))}
    assert set(found.error_names) == wanted
    assert work.validated == {"check_multiclass": 1, "check_probabilities": 1}
    assert work.made and set(work.made.values()) == {1}


@pytest.mark.parametrize("weighted", [False, True])
def test_one_probability_is_validated_once_and_cut_once(work, weighted):
    rng = np.random.default_rng(0)
    u = rng.random(300)
    y = (rng.random(300) < u).astype(int)
    evaluate(y, u, n_resamples=39, sample_weight=rng.random(300) if weighted else None)
    assert work.validated == {"check_reports": 1, "check_binary_outcomes": 1}
    assert work.made and set(work.made.values()) == {1}
    evaluate(None, TopPredictions(y, u.copy()), n_resamples=39)
    assert work.validated["check_reports"] == 2 and set(work.made.values()) == {1}


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_every_model_of_a_comparison_is_validated_once_and_cut_once(work, weighted):
    z, y = world()
    models = {f"m{i}": softmax((1 + 0.3 * i) * z) for i in range(4)}
    w = np.arange(1.0, 401.0) if weighted else None
    result = compare(y, models, n_resamples=39, sample_weight=w)
    assert len(result.pairs) == 2 * 6  # gaps of both notions were compared in all pairs, from the cells that were there
    assert work.validated == {"check_multiclass": 4, "check_probabilities": 4}
    assert set(work.made.values()) == {1}
    assert len(work.made) == 4 * len({key[1:] for key in work.made})


def test_subgroups_are_validated_with_the_whole(work):
    z, y = world()
    evaluate(y, softmax(z), n_resamples=19, errors=["classwise"], by=np.arange(400) % 3)
    assert work.validated["check_probabilities"] == 1


def test_public_functions_validate_once_too(work):
    z, y = world()
    p = softmax(z)
    calls = (
        lambda: tc.gap(y, p),
        lambda: tc.gap(y, p, error="classwise"),
        lambda: tc.analysis.mean_gap(y, p),
        lambda: tc.calibration_test(y, p, n_resamples=9),
        lambda: tc.confidence_interval(y, p, what="score", sample_weight=np.arange(1.0, 401.0)),
    )
    for number, call in enumerate(calls, start=1):
        call()
        assert work.validated["check_probabilities"] == number
        assert set(work.made.values()) <= {1}
        work.made.clear()
    tc.paired_difference(y, p, softmax(2 * z))
    assert work.validated["check_probabilities"] == len(calls) + 2
