"""What the adapters do by themselves, with the least of a framework around them: arrays in, numbers out."""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import truecal as tc
from truecal.adapters.logged_numbers import PAIR_NUMBERS, numbers, numbers_of_pairs
from truecal.io import read_predictions

PAIRS = [(True, 0.9), (False, 0.7), (True, 0.8), (False, 0.95), (True, 0.6)] * 12


def stand_in(monkeypatch: pytest.MonkeyPatch, name: str, **contents: Any) -> ModuleType:
    """A module under the name of a framework's, and its parents, for the length of a test."""
    parts = name.split(".")
    for i in range(1, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:i]), ModuleType(".".join(parts[:i])))
    module = ModuleType(name)
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def fresh(monkeypatch: pytest.MonkeyPatch, name: str) -> Any:
    """The adapter, imported over the stand-in and forgotten after the test."""
    monkeypatch.delitem(sys.modules, f"truecal.adapters.{name}", raising=False)
    module = importlib.import_module(f"truecal.adapters.{name}")
    del sys.modules[f"truecal.adapters.{name}"]  # not by monkeypatch, which would put it back for the tests to come
    return module


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_numbers_of_pairs_are_those_of_the_top_class(rng):
    proba = rng.dirichlet([1, 1, 1], 100)
    y = np.array([rng.choice(3, p=row) for row in proba])
    pairs = [(bool(row.argmax() == label), float(row.max())) for row, label in zip(proba, y, strict=True)]
    found = numbers_of_pairs(pairs)
    assert tuple(found) == PAIR_NUMBERS
    gap = tc.gap(y, proba)
    assert found["score"] == pytest.approx(tc.score(y, proba, error="confidence"), abs=1e-12)
    assert (found["gap"], found["gap_low"], found["gap_high"]) == pytest.approx((gap.points, gap.low, gap.high))
    assert found["accuracy"] == pytest.approx(np.mean([right for right, _ in pairs]))


def test_numbers_leave_out_what_the_rows_do_not_allow():
    assert {"gap", "gap_low", "gap_high"}.isdisjoint(numbers_of_pairs(PAIRS[:2]))
    few = numbers_of_pairs(PAIRS[:3])  # an interval, but an unreliable one
    assert "gap" in few and "gap_low" not in few
    assert "pvalue" in numbers_of_pairs(PAIRS, [i // 3 for i in range(60)])
    assert numbers(tc.evaluate([0, 1] * 20, [[0.7, 0.3], [0.2, 0.8]] * 20, n_resamples=99))["brier"] == pytest.approx(
        0.065
    )


def test_numbers_do_not_leak_through_what_is_remembered():
    numbers_of_pairs(PAIRS)["score"] = -1.0
    assert numbers_of_pairs(PAIRS)["score"] > 0
    with pytest.raises(ValueError, match="at least one"):
        numbers_of_pairs([])


# -- lm-evaluation-harness ---------------------------------------------------------------------------------------------


class Harness:
    """As much of the harness's task as CalibratedTask stands on: gold and chances where brier_score is listed."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.given = config
        self.metrics = [entry["metric"] for entry in config["metric_list"]]

    def process_results(self, doc: dict[str, Any], results: Any) -> dict[str, Any]:
        return {name: (doc["gold"], results) if name == "brier_score" else 1.0 for name in self.metrics}

    def aggregation(self) -> dict[str, Any]:
        return dict.fromkeys(self.metrics, sum)

    def higher_is_better(self) -> dict[str, bool]:
        return dict.fromkeys(self.metrics, True)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Any:
    stand_in(monkeypatch, "lm_eval.api.task", ConfigurableTask=Harness)
    stand_in(monkeypatch, "lm_eval.api.registry", DEFAULT_METRIC_REGISTRY={"multiple_choice": ["acc", "acc_norm"]})
    return fresh(monkeypatch, "lm_eval")


def test_a_task_hands_on_pairs_and_aggregates_them(harness):
    task = harness.CalibratedTask({"output_type": "multiple_choice", "class": "itself"})
    assert "class" not in task.given and task.metrics == ["acc", "acc_norm", "brier_score"]
    found = task.process_results({"gold": 1}, np.array([0.2, 0.7, 0.1]))
    assert "brier_score" not in found and found["acc"] == 1.0
    assert found["truecal_gap"] == (True, 0.7)
    assert set(found) - {"acc", "acc_norm"} == {f"truecal_{name}" for name in PAIR_NUMBERS if name != "accuracy"}
    together = task.aggregation()
    assert together["acc"] is sum
    for name, value in numbers_of_pairs(PAIRS).items():
        assert name == "accuracy" or together[f"truecal_{name}"](PAIRS) == value
    assert math.isnan(together["truecal_gap"](PAIRS[:1]))
    assert task.higher_is_better()["truecal_score"] is False and "truecal_ece" not in task.higher_is_better()


def test_a_brier_score_that_was_asked_for_stays(harness):
    listed = [{"metric": "brier_score", "aggregation": "brier_score"}]
    task = harness.CalibratedTask({"output_type": "multiple_choice", "metric_list": listed})
    assert task.metrics == ["brier_score"] and listed == [{"metric": "brier_score", "aggregation": "brier_score"}]
    assert task.process_results({"gold": 0}, [0.2, 0.8])["brier_score"] == (0, [0.2, 0.8])


@pytest.mark.parametrize(
    ("gold", "wanted"), [(1, True), (0, False), ([0, 1], True), ([0, 2], False), (-100, False), ((1,), True)]
)
def test_right_is_the_likeliest_choice_among_those_that_are(harness, gold, wanted):
    assert harness.pair(gold, [0.25, 0.5, 0.25]) == (wanted, 0.5)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"output_type": "loglikelihood"}, "expects output_type multiple_choice, got 'loglikelihood'"),
        ({"output_type": "multiple_choice", "process_results": print}, "needs the default process_results"),
    ],
)
def test_other_tasks_are_refused(harness, config, words):
    with pytest.raises(ValueError, match=words):
        harness.CalibratedTask(config)


def test_the_log_of_a_real_run_holds_the_pairs_that_reading_it_gives():
    """Written by version 0.4.13 of the harness, with CalibratedTask and choices of different numbers."""
    log = Path(__file__).with_name("samples_my_task.jsonl")
    samples = [json.loads(line) for line in log.read_text().splitlines()]
    read = read_predictions(log)
    assert read.y_true is not None and read.n_choices is not None and len(set(read.n_choices)) > 1
    proba = read.probabilities()
    for row, label, sample in zip(proba, read.y_true, samples, strict=True):
        assert sample["truecal_score"] == [row.argmax() == label, pytest.approx(row.max(), abs=1e-12)]
    found = numbers_of_pairs([sample["truecal_score"] for sample in samples])
    assert found["score"] == pytest.approx(tc.score(read.y_true, proba, error="confidence"), abs=1e-12)


def test_without_the_harness_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "lm_eval", None)
    with pytest.raises(ImportError, match=r'needs lm_eval: run pip install "truecal\[lm-eval\]"'):
        fresh(monkeypatch, "lm_eval")


# -- inspect_ai --------------------------------------------------------------------------------------------------------


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch) -> Any:
    stand_in(monkeypatch, "inspect_ai.scorer", metric=lambda function: function)
    return fresh(monkeypatch, "inspect").calibration


def scored(value: Any, confidence: Any, *, in_sample: bool = False, **metadata: Any) -> Any:
    own, outer = ({}, {"confidence": confidence}) if in_sample else ({"confidence": confidence}, {})
    score = SimpleNamespace(value=value, metadata=own or None)
    return SimpleNamespace(score=score, sample_id="s1", sample_metadata=(outer | metadata) or None)


def test_scores_of_samples_are_measured(calibration):
    words = {True: "C", False: "I"}
    scores = [scored(words[right], chance, in_sample=i % 2 == 0) for i, (right, chance) in enumerate(PAIRS)]
    assert calibration()(scores) == numbers_of_pairs(PAIRS)
    scores = [scored(float(right), chance, passage=i // 3) for i, (right, chance) in enumerate(PAIRS)]
    assert calibration(cluster="passage")(scores) == numbers_of_pairs(PAIRS, [i // 3 for i in range(60)])
    assert calibration()([]) == {}


def test_no_answer_is_a_wrong_one(calibration):
    assert calibration()([scored("N", 0.5), scored("C", 0.5)] * 5)["accuracy"] == 0.5


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (scored("C", None), "expected a number under 'confidence' in the metadata .* sample 's1', got None"),
        (scored("C", "high"), "got 'high'"),
        (scored("C", True), "got True"),
        (scored("P", 0.5), "expected a score of C or I, or 1 or 0, for sample 's1', got 'P'"),
        (scored([1], 0.5), r"got \[1\]"),
    ],
)
def test_scores_that_cannot_be_measured(calibration, sample, words):
    with pytest.raises(ValueError, match=words):
        calibration()([sample])


def test_samples_without_a_cluster(calibration):
    with pytest.raises(ValueError, match="expected a cluster under 'passage' in the metadata of sample 's1'"):
        calibration(cluster="passage")([scored("C", 0.5)])


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def comparison() -> tc.Comparison:
    rng = np.random.default_rng(3)
    chances = rng.random(120)
    y = rng.random(120) < chances
    models = {"honest": chances, "a/b": chances**2, "a:b": np.full(120, 0.5)}
    return tc.compare(y, models, errors=["binary", "binary_l1"], n_resamples=99)


@pytest.fixture(scope="module")
def evaluation() -> tc.Evaluation:
    rng = np.random.default_rng(4)
    chances = rng.random(120)
    by = np.where(np.arange(120) % 2, "b", "../x")
    return tc.evaluate(rng.random(120) < chances, chances, errors=["binary", "binary_l1"], by=by, n_resamples=99)


class Run:
    """The calls that a framework's module was given, by name."""

    def __init__(self, module: ModuleType, *names: str) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        for name in names:
            setattr(module, name, self._keeping(name))

    def _keeping(self, name: str) -> Any:
        return lambda *args, **options: self.calls.append((name, args, options))


@pytest.mark.slow
@pytest.mark.heavy
def test_a_comparison_logged_to_mlflow(monkeypatch, comparison):
    mlflow = stand_in(monkeypatch, "mlflow")
    run = Run(mlflow, "log_metrics", "log_table", "log_text")
    comparison.log_to(mlflow)
    (_, (values,), options), (_, (table, table_name), _), rows, page, whole = run.calls
    assert options == {"step": None, "run_id": None}
    board = {row["model"]: row for row in comparison.leaderboard()}
    assert values["truecal/honest/score"] == board["honest"]["score"]
    assert {values["truecal/a_b/gap"], values["truecal/a_b_2/gap"]} == {board["a/b"]["gap"], board["a:b"]["gap"]}
    assert all(isinstance(value, float) for value in values.values())
    assert table_name == "truecal/table.json" and set(table["model"]) == {"honest", "a/b", "a:b"}
    assert rows[1][1] == table_name  # once more, in the place of what an earlier call may have left
    assert json.loads(rows[1][0])["columns"] == list(table) and len(json.loads(rows[1][0])["data"]) == 3
    assert page[1][1] == "truecal/report.html" and page[1][0].startswith("<!doctype html>")
    assert whole[1][1] == "truecal/result.json" and json.loads(whole[1][0]) == comparison.to_dict()


@pytest.mark.heavy
def test_an_evaluation_logged_to_a_run_of_mlflow_at_a_step(monkeypatch, evaluation):
    mlflow = stand_in(monkeypatch, "mlflow")
    calls = Run(mlflow, "log_metrics", "log_table", "log_text").calls
    ended = type("ActiveRun", (), {"__module__": "mlflow.tracking.fluent", "info": SimpleNamespace(run_id="r1")})()
    evaluation.log_to(ended, prefix="val", step=7)
    values = calls[0][1][0]
    assert values["val/score"] == evaluation.score
    assert values["val/b/gap"] == evaluation.subgroups["b"].gap.points
    assert values["val/_x/ece"] == evaluation.subgroups["../x"].ece
    assert calls[0][2] == {"step": 7, "run_id": "r1"}
    assert [call[1][1] for call in calls[2:]] == ["val/7/table.json", "val/7/report.html", "val/7/result.json"]
    assert calls[1][1][0]["error"] == [row.error for row in evaluation.errors]


def test_runs_of_nothing_known_are_refused_before_the_work(evaluation):
    with pytest.raises(TypeError, match="run must be mlflow, wandb, or a run of one of them, got"):
        evaluation.log_to({"run": 1})
    for other in (json, type("MlflowClient", (), {"__module__": "mlflow.tracking.client"})()):
        with pytest.raises(TypeError, match="run must be mlflow"):
            evaluation.log_to(other)


def test_wandb_without_a_run(monkeypatch, evaluation):
    wandb = stand_in(monkeypatch, "wandb", run=None)
    with pytest.raises(ValueError, match=r"start one with wandb.init\(\)"):
        evaluation.log_to(wandb)
