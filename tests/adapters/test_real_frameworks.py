"""The adapters against the real frameworks, offline: `make frameworks` installs them, elsewhere they are skipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truecal as tc
from truecal.adapters.logged_numbers import numbers_of_pairs

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # frameworks warn of each other
]


@pytest.fixture(autouse=True)
def offline(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No framework may ask the network, or write beside the tests."""
    home = str(tmp_path_factory.getbasetemp() / "huggingface")  # one for all tests: it is read when first imported
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "1")
    for name, value in {"HF_HOME": home, "WANDB_MODE": "offline", "MLFLOW_DISABLE_TELEMETRY": "true"}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def questions(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Questions of two to four choices, with the log-likelihoods that an over-confident model gives to the choices."""
    found = []
    for i in range(150):
        logits = rng.normal(0, 1, 2 + i % 3)
        chances = np.exp(logits) / np.exp(logits).sum()
        answer = int(rng.choice(len(logits), p=chances))
        choices = [f"choice {i} {j}" for j in range(len(logits))]
        found.append({"question": f"Q{i}", "choices": choices, "answer": answer, "logits": (3 * logits - 20).tolist()})
    return found


PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"


def example(heading: str) -> str:
    """The first fenced block under a heading of the page about the frameworks."""
    return PAGE.read_text().split(f"\n## {heading}\n")[1].split("```")[1].partition("\n")[2]


def softmax(logits: list[float]) -> list[float]:
    weights = [np.exp(v - max(logits)) for v in logits]
    return [float(w / sum(weights)) for w in weights]


def expected(questions: list[dict[str, Any]]) -> dict[str, float]:
    """The numbers by plain loops from questions to pairs."""
    pairs = []
    for question in questions:
        chances = softmax(question["logits"])
        top = chances.index(max(chances))
        pairs.append((top == question["answer"], chances[top]))
    return numbers_of_pairs(pairs)


def fixed_model(questions: list[dict[str, Any]]) -> Any:
    """A model of the harness that knows the log-likelihood of each choice by heart."""
    from lm_eval.api.model import LM

    known = {text: v for q in questions for text, v in zip(q["choices"], q["logits"], strict=True)}

    class Fixed(LM):
        def loglikelihood(self, requests: Any) -> Any:
            return [(known[request.args[1].strip()], False) for request in requests]

        loglikelihood_rolling = generate_until = None

    Fixed.__abstractmethods__ = frozenset()
    return Fixed()


YAML = """\
task: my_task
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
{metrics}
"""
TASK = "my_task_calibrated"
METRICS = """\
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
"""


@pytest.mark.parametrize("metrics", ["", METRICS], ids=["default", "listed"])
def test_a_task_of_the_harness(questions, tmp_path, metrics):
    lm_eval = pytest.importorskip("lm_eval", reason="lm_eval is not installed: make frameworks")
    from lm_eval.tasks import TaskManager

    data = tmp_path / "questions.json"
    data.write_text("\n".join(json.dumps({k: v for k, v in q.items() if k != "logits"}) for q in questions))
    (tmp_path / "my_task.yaml").write_text(YAML.format(data=data, metrics=metrics))
    (tmp_path / "calibrated.yaml").write_text(example("lm-evaluation-harness"))
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    done = lm_eval.simple_evaluate(
        fixed_model(questions), tasks=[TASK], task_manager=manager, bootstrap_iters=10, log_samples=True
    )
    results, wanted = done["results"][TASK], expected(questions)
    assert results["acc,none"] == pytest.approx(wanted["accuracy"])
    assert ("acc_norm,none" in results) == (not metrics)
    assert "brier_score,none" not in results
    for name in ("score", "gap", "gap_low", "gap_high", "pvalue", "ece"):
        assert results[f"truecal_{name},none"] == pytest.approx(wanted[name], abs=1e-9), name
        assert results[f"truecal_{name}_stderr,none"] == "N/A"
    assert done["higher_is_better"][TASK]["truecal_score"] is False
    assert wanted["gap"] > 5 and wanted["gap_low"] > 0  # the model is over-confident, and the numbers show it

    # and the log of the same run, read as a file, is the same model
    log = tmp_path / "samples_tiny.jsonl"
    log.write_text("\n".join(json.dumps(sample, default=str) for sample in done["samples"][TASK]))
    from truecal.io import read_predictions

    read = read_predictions(log)
    assert read.y_true is not None and read.n_choices is not None
    assert read.y_true.tolist() == [q["answer"] for q in questions]
    assert tc.score(read.y_true, read.probabilities(), error="confidence") == pytest.approx(wanted["score"], abs=1e-9)


def test_a_task_of_another_kind_is_refused(tmp_path):
    pytest.importorskip("lm_eval", reason="lm_eval is not installed: make frameworks")
    from truecal.adapters.lm_eval import CalibratedTask

    with pytest.raises(ValueError, match="expects output_type multiple_choice, got 'generate_until'"):
        CalibratedTask(config={"task": "a", "output_type": "generate_until"})
    with pytest.raises(ValueError, match="this task overrides it"):
        CalibratedTask(config={"output_type": "multiple_choice", "process_results": print})


def test_a_metric_of_inspect(tmp_path, rng):
    inspect_ai = pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: make frameworks")
    from inspect_ai.dataset import Sample
    from inspect_ai.model import ModelOutput
    from inspect_ai.scorer import SampleScore
    from inspect_ai.solver import solver

    from truecal.adapters.inspect import calibration

    names: dict[str, Any] = {}
    exec(example("inspect_ai"), names)

    @solver
    def by_heart():  # the framework's mock model counts tokens with a tokenizer that it downloads
        async def solve(state, generate):
            state.output = ModelOutput.from_content("mockllm/model", state.metadata["says"])
            return state

        return solve

    chances = rng.uniform(0.5, 1, 40).round(2).tolist()
    right = [bool(rng.random() < chance - 0.2) for chance in chances]
    pairs = list(zip(right, chances, strict=True))
    dataset = [
        Sample(input=f"{i}?", target="yes", metadata={"passage": i // 2, "says": f"{'yes' if hit else 'no'} {chance}"})
        for i, (hit, chance) in enumerate(pairs)
    ]
    task = inspect_ai.Task(dataset=dataset, solver=by_heart(), scorer=names["stated_confidence"]())
    [log] = inspect_ai.eval(task, model="mockllm/model", log_dir=str(tmp_path), display="none")
    assert log.status == "success", log.error
    found = {name: metric.value for score in log.results.scores for name, metric in score.metrics.items()}
    wanted, clustered = numbers_of_pairs(pairs), numbers_of_pairs(pairs, [i // 2 for i in range(40)])
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, abs=1e-9), name
    scores = [
        SampleScore(score=sample.scores["stated_confidence"], sample_metadata=sample.metadata, sample_id=sample.id)
        for sample in log.samples
    ]
    assert calibration(cluster="passage")(scores) == pytest.approx(clustered, abs=1e-9)
    assert clustered["gap"] != wanted["gap"] and clustered["pvalue"] != wanted["pvalue"]  # whole clusters flip signs


@pytest.fixture
def results(rng: np.random.Generator) -> tuple[Any, Any]:
    chances = rng.random(200)
    y = rng.random(200) < chances
    sharp = np.clip(1.6 * chances - 0.3, 0, 1)
    by = np.where(np.arange(200) % 2, "odd: ones", "even")
    return tc.evaluate(y, chances, by=by), tc.compare(y, {"honest": chances, "sharp/2": sharp})


def test_runs_of_mlflow(results, tmp_path):
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed: make frameworks")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = mlflow.create_experiment("truecal", artifact_location=f"file://{tmp_path}/artifacts")
    mlflow.set_experiment(experiment_id=experiment)
    one, two = results
    with mlflow.start_run() as run:
        one.log_to(mlflow)
    for _ in range(2):  # a run that has ended, by itself; what is logged again takes the place of what was there
        two.log_to(run, prefix="models", step=3)
    names: dict[str, Any] = {}
    exec(example("MLflow"), names)
    client = mlflow.MlflowClient()
    with pytest.raises(TypeError, match="run must be mlflow"):
        one.log_to(client)
    assert "models/a/score" in client.get_run(names["run"].info.run_id).data.metrics
    logged = client.get_run(run.info.run_id).data.metrics
    assert logged["truecal/score"] == pytest.approx(one.score)
    assert logged["truecal/odd_ ones/gap"] == pytest.approx(one.subgroups["odd: ones"].gap.points)
    assert logged["models/sharp_2/gap"] == pytest.approx(two.evaluations["sharp/2"].gap.points)
    assert client.get_metric_history(run.info.run_id, "models/honest/score")[0].step == 3
    read = mlflow.artifacts.load_text
    uri = run.info.artifact_uri
    assert read(f"{uri}/truecal/report.html").startswith("<!doctype html>")
    assert json.loads(read(f"{uri}/models/3/result.json")) == two.to_dict()
    table = mlflow.load_table("models/3/table.json", run_ids=[run.info.run_id])
    assert table["model"].tolist() == [row["model"] for row in two.leaderboard()]


def pages_in(folder: Path) -> list[Path]:
    """The reports among the files of offline runs."""
    return [page for page in folder.rglob("*.html") if page.read_text().startswith("<!doctype html>")]


def test_runs_of_wandb(results, tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="wandb is not installed: make frameworks")
    one, two = results
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    names: dict[str, Any] = {}
    exec(example("Weights & Biases"), names)
    assert pages_in(tmp_path)
    with pytest.raises(TypeError, match="run must be mlflow, wandb"):
        one.log_to(wandb.Settings())
    with pytest.raises(ValueError, match="no active wandb run"):
        one.log_to(wandb)
    run = wandb.init(project="truecal", mode="offline", dir=str(tmp_path))
    one.log_to(wandb)
    two.log_to(run, prefix="models")
    assert run.summary["truecal/score"] == pytest.approx(one.score)
    assert run.summary["models/sharp_2/gap"] == pytest.approx(two.evaluations["sharp/2"].gap.points)
    run.finish()
    assert len(pages_in(tmp_path)) >= 3
    tables = [json.loads(path.read_text()) for path in Path(tmp_path).rglob("*.table.json")]
    assert any({"rank", "model"} <= set(table["columns"]) for table in tables)


def answering(
    samples: list[Any],
    log_dir: Path,
    scorer: Any,
    epochs: int = 1,
    model: str = "mockllm/model",
    task: str = "words",
) -> Any:
    """A log of inspect_ai: each sample's metadata holds what is answered, with which log-probabilities."""
    import inspect_ai
    from inspect_ai.model import ChatCompletionChoice, Logprob, Logprobs, ModelOutput
    from inspect_ai.solver import solver

    @solver
    def by_heart():
        async def solve(state, generate):
            text, values = state.metadata["says"][(state.epoch - 1) % len(state.metadata["says"])]
            logged = Logprobs(content=[Logprob(token=text, logprob=v, bytes=None) for v in values])
            choice = ChatCompletionChoice(message={"role": "assistant", "content": text}, logprobs=logged)
            state.output = ModelOutput(model=model, choices=[choice])
            return state

        return solve

    made = inspect_ai.Task(dataset=samples, solver=by_heart(), scorer=scorer, epochs=epochs, name=task)
    [log] = inspect_ai.eval(made, model=model, log_dir=str(log_dir), display="none")
    assert log.status == "success", log.error
    return log


def test_answers_of_inspect_with_logprobs(tmp_path, rng):
    """The probability of a generated text is a confidence that it is right; epochs of a sample are a group."""
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: make frameworks")
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import match

    from truecal.io import read_predictions

    said = [[("yes" if rng.random() < 0.6 else "no", rng.uniform(-1, 0, 3).tolist()) for _ in "ab"] for _ in range(30)]
    samples = [Sample(input=f"{i}?", target="yes", id=i, metadata={"says": one}) for i, one in enumerate(said)]
    log = answering(samples, tmp_path, match(), epochs=2)
    read = read_predictions(log.location.removeprefix("file://"))
    wanted = {
        (str(i), e): (text == "yes", values) for i, one in enumerate(said) for e, (text, values) in enumerate(one)
    }
    order = sorted(wanted)
    assert read.correct is not None and read.correct.tolist() == [wanted[key][0] for key in order]
    assert read.confidence == pytest.approx([np.exp(sum(wanted[key][1])) for key in order])
    assert read.groups is not None and np.bincount(read.groups).tolist() == [2] * 30
    per_token = read_predictions(log.location.removeprefix("file://"), length_normalized=True)
    assert per_token.confidence == pytest.approx([np.exp(np.mean(wanted[key][1])) for key in order])


def test_epochs_of_inspect_are_clusters(tmp_path, rng):
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: make frameworks")
    from inspect_ai.dataset import Sample

    names: dict[str, Any] = {}
    exec(example("inspect_ai"), names)
    says = [
        [(f"{'yes' if rng.random() < 0.6 else 'no'} {rng.uniform(0.5, 1):.2f}", [-0.1]) for _ in "ab"]
        for _ in range(20)
    ]
    samples = [Sample(input=f"{i}?", target="yes", id=i, metadata={"says": one}) for i, one in enumerate(says)]
    log = answering(samples, tmp_path, names["stated_confidence"](), epochs=2)
    found = {name: metric.value for score in log.results.scores for name, metric in score.metrics.items()}
    pairs = [(text.startswith("yes"), float(text.split()[1])) for one in says for text, _ in one]
    wanted = numbers_of_pairs(pairs, [i // 2 for i in range(40)])
    assert found["gap"] == pytest.approx(wanted["gap"]) and found["pvalue"] == pytest.approx(wanted["pvalue"])


def test_a_leaderboard_of_harness_runs(questions, tmp_path):
    """Two models on two tasks, run and logged by the harness; the results files stand for the samples beside them."""
    lm_eval = pytest.importorskip("lm_eval", reason="lm_eval is not installed: make frameworks")
    from lm_eval.loggers import EvaluationTracker
    from lm_eval.tasks import TaskManager
    from typer.testing import CliRunner

    from truecal.cli.app import app
    from truecal.io.runs import find_runs

    data = tmp_path / "questions.json"
    data.write_text("\n".join(json.dumps({k: v for k, v in q.items() if k != "logits"}) for q in questions))
    for task in ("my_task", "other_task"):
        text = YAML.format(data=data, metrics=METRICS).replace("task: my_task", f"task: {task}")
        (tmp_path / f"{task}.yaml").write_text(text)
    manager = TaskManager(include_path=str(tmp_path), include_defaults=False)
    mild = [q | {"logits": [v / 3 for v in q["logits"]]} for q in questions]
    for name, known in (("org/sharp", questions), ("org/mild", mild)):
        tracker = EvaluationTracker(output_path=str(tmp_path / "runs"))
        tracker.general_config_tracker.log_experiment_args("hf", f"pretrained={name}", None, None, None)
        done = lm_eval.simple_evaluate(
            fixed_model(known),
            tasks=["my_task", "other_task"],
            task_manager=manager,
            bootstrap_iters=0,
            log_samples=True,
        )
        samples = done.pop("samples")
        tracker.save_results_aggregated(results=done, samples=samples)
        for task, rows in samples.items():
            tracker.save_results_samples(task_name=task, samples=rows)
    results = sorted((tmp_path / "runs").glob("*/results_*.json"))
    runs = find_runs(results)
    assert runs is not None
    assert {(r.model, r.task) for r in runs} == {
        (m, t) for m in ("org/sharp", "org/mild") for t in ("my_task", "other_task")
    }
    for given in ([str(path) for path in results], [str(tmp_path / "runs")]):
        found = CliRunner().invoke(app, ["compare", *given, "--json", str(tmp_path / "board.json")])
        assert found.exit_code == 0, found.output
        assert "2 models, 2 tasks: loss, lower is better" in found.output
        assert "org/mild predicts best on average over 2 tasks" in found.output
        assert "org/sharp on my_task (over-confident)" in found.output
        board = json.loads((tmp_path / "board.json").read_text())
        assert [row["model"] for row in board["rows"]] == ["org/mild", "org/sharp"]
        (tmp_path / "board.json").unlink()


def test_a_leaderboard_of_inspect_logs(tmp_path, rng):
    pytest.importorskip("inspect_ai", reason="inspect_ai is not installed: make frameworks")
    from inspect_ai.dataset import Sample
    from inspect_ai.scorer import match
    from typer.testing import CliRunner

    from truecal.cli.app import app
    from truecal.io.runs import find_runs

    says = [[("yes" if rng.random() < 0.6 else "no", [float(np.log(rng.uniform(0.4, 0.8)))])] for _ in range(80)]
    samples = [Sample(input=f"{i}?", target="yes", id=i, metadata={"says": one}) for i, one in enumerate(says)]
    sure = [[(text, [-0.01]) for text, _ in one] for one in says]
    certain = [Sample(input=f"{i}?", target="yes", id=i, metadata={"says": one}) for i, one in enumerate(sure)]
    for name, data in (("mockllm/careful", samples), ("mockllm/sure", certain)):
        answering(data, tmp_path / "logs", match(), model=name)
        answering(data, tmp_path / "logs", match(), model=name, task="more")
    runs = find_runs(sorted((tmp_path / "logs").glob("*")))
    assert runs is not None and {run.task for run in runs} == {"words", "more"}
    assert {run.model for run in runs} == {"mockllm/careful", "mockllm/sure"}
    found = CliRunner().invoke(app, ["compare", str(tmp_path / "logs"), "--csv", str(tmp_path / "board.csv")])
    assert found.exit_code == 0, found.output
    assert "mockllm/careful predicts best on average over 2 tasks" in found.output
    assert (tmp_path / "board.csv").read_text().startswith("task,model,")
