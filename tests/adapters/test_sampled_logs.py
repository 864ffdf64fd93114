"""Logs of sampled answers that the real frameworks write, offline: `make frameworks` installs them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import truecal as tc
from closeness import assert_close
from truecal.io import read_samples
from truecal.io.answer_files import is_sampled

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # frameworks warn of each other
]

YAML = r"""
task: sampled
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
output_type: generate_until
test_split: test
doc_to_text: question
doc_to_target: answer
repeats: 6
generation_kwargs: {until: ["\n"], do_sample: true}
filter_list:
  - name: majority
    filter:
      - {function: regex, regex_pattern: "The answer is (\\d+)"}
      - {function: majority_vote}
      - {function: take_first}
  - name: each
    filter:
      - {function: regex, regex_pattern: "The answer is (\\d+)"}
      - {function: take_first_k, k: 6}
metric_list:
  - {metric: exact_match, aggregation: mean, higher_is_better: true}
"""


@pytest.fixture(autouse=True)
def offline(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No framework may ask the network, or write beside the tests."""
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path_factory.getbasetemp() / "huggingface"))


def test_repeats_of_the_harness(tmp_path: Any, rng: np.random.Generator) -> None:
    lm_eval = pytest.importorskip("lm_eval", reason="lm_eval is not installed: make frameworks")
    from lm_eval.api.model import LM
    from lm_eval.tasks import TaskManager

    drawn: dict[str, list[str]] = {}

    class Sampler(LM):
        def generate_until(self, requests: Any) -> list[str]:
            found = []
            for request in requests:
                answer = str(rng.choice([1, 1, 2, 3]))
                drawn.setdefault(request.args[0], []).append(answer)
                found.append(f"Let me see. The answer is {answer}.")
            return found

        loglikelihood = loglikelihood_rolling = None

    Sampler.__abstractmethods__ = frozenset()
    questions = [{"question": f"Q{i}", "answer": str(rng.choice([1, 2]))} for i in range(40)]
    data = tmp_path / "questions.json"
    data.write_text("\n".join(map(json.dumps, questions)))
    (tmp_path / "sampled.yaml").write_text(YAML.replace("DATA", str(data)))
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    done = lm_eval.simple_evaluate(
        Sampler(), tasks=["sampled"], task_manager=manager, bootstrap_iters=2, log_samples=True
    )
    log = tmp_path / "samples_sampled.jsonl"
    log.write_text("\n".join(json.dumps(sample, default=str) for sample in done["samples"]["sampled"]))
    assert is_sampled(str(log))
    read = read_samples(str(log))
    assert read.answers == [drawn[question["question"]] for question in questions]
    assert read.reference == [question["answer"] for question in questions]
    raw = [s for s in done["samples"]["sampled"] if s["filter"] == "majority"]
    log.write_text("\n".join(json.dumps(sample, default=str) for sample in raw))
    assert read_samples(str(log), pattern=r"answer is (\d+)").answers == read.answers
    result = tc.from_samples(**read.arguments)
    assert result.n_samples == 40 and result.sampling is not None and result.sampling.most == 6


def test_epochs_of_inspect(tmp_path: Any, rng: np.random.Generator) -> None:
    inspect_ai = pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: make frameworks")
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import answer
    from inspect_ai.solver import solver

    drawn: dict[str, list[str]] = {}

    @solver
    def sampler() -> Any:  # the framework's mock model counts tokens with a tokenizer that it downloads
        async def solve(state: Any, generate: Any) -> Any:
            said = str(rng.choice([1, 1, 2, 3]))
            drawn.setdefault(state.sample_id, []).append(said)
            state.output = ModelOutput.from_content("mockllm/model", f"Let me see.\nANSWER: {said}")
            return state

        return solve

    truth = {f"q{i:02}": str(rng.choice([1, 2])) for i in range(20)}
    dataset = [Sample(input=f"{name}?", target=target, id=name) for name, target in truth.items()]
    task = inspect_ai.Task(dataset=dataset, solver=sampler(), scorer=answer("word"))
    [log] = inspect_ai.eval(task, model="mockllm/model", epochs=5, log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    [path] = tmp_path.glob("*.eval")
    assert is_sampled(str(path))
    read = read_samples(str(path))
    assert read.questions == sorted(truth) and read.correct is not None
    assert [sorted(own) for own in read.answers] == [sorted(drawn[name]) for name in sorted(truth)]
    for name, own, marks in zip(read.questions, read.answers, read.correct, strict=True):
        assert marks == [said == truth[name] for said in own]
    assert tc.from_samples(**read.arguments).n_samples == 20


def test_epochs_without_a_stated_confidence_are_sampled_answers(tmp_path: Any, rng: np.random.Generator) -> None:
    inspect_ai = pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: make frameworks")
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import CORRECT, INCORRECT, Score, scorer
    from inspect_ai.solver import solver

    from truecal.adapters.inspect import calibration

    @solver
    def sampler() -> Any:
        async def solve(state: Any, generate: Any) -> Any:
            state.output = ModelOutput.from_content("mockllm/model", str(rng.choice([1, 1, 2, 3])))
            return state

        return solve

    @scorer(metrics=[calibration()])
    def exact() -> Any:
        async def score(state: Any, target: Any) -> Any:
            said = state.output.completion
            return Score(value=CORRECT if said == target.text else INCORRECT, answer=said)

        return score

    dataset = [Sample(input=f"q{i}?", target=str(rng.choice([1, 2])), id=f"q{i:02}") for i in range(20)]
    task = inspect_ai.Task(dataset=dataset, solver=sampler(), scorer=exact())
    [log] = inspect_ai.eval(task, model="mockllm/model", epochs=5, log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    found = {metric.name.rpartition("/")[2]: metric.value for metric in log.results.scores[0].metrics.values()}
    [path] = tmp_path.glob("*.eval")
    expected = tc.from_samples(**read_samples(str(path)).arguments)
    assert expected.gap is not None
    assert_close([found["gap"], found["score"]], [expected.gap.points, expected.score], scale=100)
