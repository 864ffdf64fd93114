"""Every kind of file of docs/files.md, written as people write it, read by the command of the table at once."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import torch

from truecal.cli.app import run as run_app
from truecal.io import FileError, read_predictions

N = 300
NAMES = np.array(["cat", "dog", "fox"])
rng = np.random.default_rng(0)
LOGITS = 2 * rng.normal(size=(N, 3))
PROBA = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
Y = np.array([rng.choice(3, p=row) for row in PROBA])
IDS = rng.permutation(10 * N)[:N]
SHUFFLED = rng.permutation(N)
RIGHT = f"is right {np.mean(PROBA.argmax(axis=1) == Y):.1%}"
VOTES = 0.7 * np.eye(3)[Y] + 0.1
IMAGES = np.moveaxis(PROBA.reshape(6, 5, 10, 3), 3, 1)
WIDE = pd.DataFrame(PROBA, columns=[f"prob_{name}" for name in NAMES]).assign(label=NAMES[Y])
IDENTIFIED = WIDE.assign(id=IDS)
SOLUTION = pd.DataFrame({"id": IDS, "label": NAMES[Y]}).iloc[SHUFFLED]
ODDS = pd.DataFrame(np.maximum(1 / PROBA / 1.05, 1.0001), columns=["B365H", "B365D", "B365A"])
FAST = ("--resamples", "19", "--bins", "5")
PAGE = Path(__file__).parents[2] / "docs" / "files.md"
TABLE = PAGE.read_text().partition("<!-- kinds -->")[2].partition("<!-- end -->")[0]
COMMANDS = re.findall(r"\| `truecal (.*)` \|$", TABLE, re.MULTILINE)


def tensors(kind: Any = torch.float32) -> torch.Tensor:
    return torch.tensor(PROBA, dtype=kind)


def save_long(path: str) -> None:
    wide = pd.DataFrame(PROBA, columns=NAMES).assign(id=IDS)
    wide.melt(id_vars="id", var_name="class", value_name="probability").to_csv(path, index=False)
    SOLUTION.to_csv("solution.csv", index=False)


def save_submission(path: str) -> None:
    IDENTIFIED.drop(columns="label").to_csv(path, index=False)
    SOLUTION.to_csv("solution.csv", index=False)


def save_sqlite(path: str) -> None:
    with sqlite3.connect("runs.db") as database:
        IDENTIFIED.to_sql("preds", database, index=False)
        SOLUTION.to_sql("truth", database, index=False)
    database.close()


def save_duckdb(path: str) -> None:
    with duckdb.connect("runs.duckdb") as database:
        database.register("frame", IDENTIFIED)
        database.execute("CREATE TABLE preds AS SELECT * FROM frame")
        database.execute("CREATE TABLE other (a INTEGER)")


def save_book(path: str) -> None:
    with pd.ExcelWriter("book.xlsx") as book:
        SOLUTION.to_excel(book, sheet_name="truth", index=False)
        IDENTIFIED.drop(columns="label").to_excel(book, sheet_name="preds", index=False)


def save_log(path: str) -> None:
    with open(path, "w") as file:
        for i in range(N):
            resps = [[[value, False]] for value in LOGITS[i].tolist()]
            line: dict[str, Any] = {"doc_id": i, "doc": {"question": "?"}, "target": str(Y[i]), "resps": resps}
            acc = float(LOGITS[i].argmax() == Y[i])
            print(
                json.dumps({**line, "filtered_resps": [r[0] for r in resps], "filter": "none", "acc": acc}), file=file
            )


def save_responses(path: str) -> None:
    """Token probabilities in the forms of servers: 6 documents of 50 tokens, or 300 answers of one token."""
    logs, rows = np.log(PROBA), []
    for i in range(N):
        top = {f"t{j}": float(logs[i, j]) for j in np.argsort(-PROBA[i])[:2]}
        rows.append((f"t{Y[i]}", float(logs[i, Y[i]]), top))
    lines: list[dict[str, Any]] = []
    for start in range(0, N, 50):
        part = rows[start : start + 50]
        if path == "prompts.jsonl":
            steps = [{t[1:]: {"logprob": v, "decoded_token": t}} for t, v, _ in part]
            for step, (_, _, top) in zip(steps, part, strict=True):
                step |= {t[1:]: {"logprob": v, "decoded_token": t} for t, v in top.items() if t[1:] not in step}
            lines.append({"id": f"d{start}", "prompt_logprobs": [None, *steps]})
        elif path == "echo.jsonl":
            tokens, values, tops = zip(("t0", None, None), *part, strict=True)
            logged = {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops}
            lines.append({"choices": [{"text": "", "logprobs": logged}], "usage": {"prompt_tokens": 51}})
        else:
            for truth, _, top in part:
                token, value = max(top.items(), key=lambda item: item[1])
                likely = [{"token": t, "logprob": v} for t, v in top.items()]
                content = [{"token": token, "logprob": value, "top_logprobs": likely}]
                choice = {"message": {"role": "assistant", "content": token}, "logprobs": {"content": content}}
                lines.append({"object": "chat.completion", "choices": [choice], "correct": token == truth})
    Path(path).write_text("".join(json.dumps(line) + "\n" for line in lines))


def with_labels(save: Callable[[str], Any]) -> Callable[[str], None]:
    def both(path: str) -> None:
        save(path)
        np.save("labels.npy", Y)

    return both


def save_images(path: str) -> None:
    labels = Y.reshape(6, 5, 10).copy()
    np.savez(path, probs=IMAGES.astype(np.float32), labels=labels.astype(np.uint8))


def save_image(path: str) -> None:
    np.save(path, PROBA.reshape(30, 10, 3))
    np.save("mask.npy", Y.reshape(30, 10).astype(np.uint8))


def save_votes(path: str) -> None:
    np.savez(path, probs=PROBA, labels=Y)
    np.save("votes.npy", VOTES)


def save_texts(path: str) -> None:
    np.savetxt("probs.txt", PROBA)
    np.savetxt("labels.txt", Y, fmt="%d")


def save_pipeline(path: str) -> None:
    rows = [[{"label": name, "score": p} for name, p in zip(NAMES, row, strict=True)] for row in PROBA]
    Path(path).write_text(json.dumps(rows))
    np.save("names.npy", NAMES[Y])


def save_decisions(path: str) -> None:
    answers = [
        {"type": "choice", "name": "animal", "choice": NAMES[int(p.argmax())], "confidence": float(p.max())}
        | {"probabilities": [{"value": name, "probability": float(q)} for name, q in zip(NAMES, p, strict=True)]}
        for p in PROBA
    ]
    lines = [{"response": {"answers": [a]}, "labels": {"animal": NAMES[y]}} for a, y in zip(answers, Y, strict=True)]
    Path(path).write_text("\n".join(map(json.dumps, lines)))


def save_both_orders(path: str) -> None:
    IDENTIFIED.to_csv("preds.csv", index=False)
    IDENTIFIED.iloc[SHUFFLED].to_csv("shuffled.csv", index=False)


TOP = pd.DataFrame({"correct": PROBA.argmax(axis=1) == Y, "confidence": PROBA.max(axis=1)})
BINARY = pd.DataFrame({"label": Y == 1, "prob": PROBA[:, 1]}).astype({"label": int})
PERCENT = pd.DataFrame(100 * PROBA, columns=NAMES).assign(label=NAMES[Y])
BATCHES = [batch.clone() for batch in tensors().split(64)]  # a slice would store the whole tensor
STEPS = [{"logits": a.log(), "labels": b.clone()} for a, b in zip(BATCHES, torch.tensor(Y).split(64), strict=True)]

WRITERS: dict[str, Callable[[str], Any]] = {
    "evaluate preds.csv": lambda path: WIDE.to_csv(path, index=False),
    "evaluate european.csv": lambda path: WIDE.to_csv(path, index=False, sep=";", decimal=","),
    "evaluate bars.csv": lambda path: WIDE.to_csv(path, index=False, sep="|"),
    "evaluate preds.tsv": lambda path: WIDE.to_csv(path, index=False, sep="\t"),
    "evaluate bare.csv": lambda path: np.savetxt(path, np.column_stack([Y, PROBA]), delimiter=","),
    "evaluate probs.txt": save_texts,
    "evaluate preds.csv.gz": lambda path: WIDE.to_csv(path, index=False),
    "evaluate submission.csv": save_submission,
    "evaluate preds.parquet": lambda path: WIDE.to_parquet(path),
    "evaluate preds.feather": lambda path: WIDE.to_feather(path),
    "evaluate preds.jsonl": lambda path: WIDE.to_json(path, orient="records", lines=True, double_precision=15),
    "evaluate preds.xlsx": lambda path: WIDE.to_excel(path, index=False),
    "evaluate book.xlsx::preds": save_book,
    "evaluate runs.db::preds": save_sqlite,
    "evaluate runs.duckdb::preds": save_duckdb,
    "evaluate preds.npz": lambda path: np.savez(path, probs=PROBA, labels=Y),
    "evaluate logits.npy": with_labels(lambda path: np.save(path, LOGITS)),
    "evaluate batches.pt": with_labels(lambda path: torch.save(BATCHES, path)),
    "evaluate steps.pt": lambda path: torch.save(STEPS, path),
    "evaluate preds.safetensors": lambda path: safetensors.numpy.save_file({"probs": PROBA, "labels": Y}, path),
    "evaluate images.npz": save_images,
    "evaluate image.npy": save_image,
    "evaluate bfloat16.npz": lambda path: np.savez(path, probs=tensors().bfloat16().float().numpy(), labels=Y),
    "evaluate lists.csv": lambda path: pd.DataFrame({"probs": list(PROBA), "label": Y}).to_csv(path, index=False),
    "evaluate pipeline.json": save_pipeline,
    "evaluate long.csv": save_long,
    "evaluate E0.csv": lambda path: ODDS.assign(FTR=np.array(["H", "D", "A"])[Y]).to_csv(path, index=False),
    "evaluate preds.npz --labels": save_votes,
    "evaluate binary.csv": lambda path: BINARY.to_csv(path, index=False),
    "evaluate answers.csv": lambda path: TOP.to_csv(path, index=False),
    "evaluate percent.csv": lambda path: PERCENT.to_csv(path, index=False),
    "evaluate logprobs.npz": lambda path: np.savez(path, log_probs=np.log(PROBA), labels=Y),
    "evaluate samples_mmlu.jsonl": save_log,
    "evaluate prompts.jsonl": save_responses,
    "evaluate echo.jsonl": save_responses,
    "evaluate responses.jsonl --length-normalized": save_responses,
    "evaluate decisions.jsonl": save_decisions,
    "compare preds.csv": save_both_orders,
}
OTHERS = {
    "evaluate binary.csv": f"happens {np.mean(Y == 1):.1%}",
    "evaluate preds.npz --labels": f"is right {VOTES[np.arange(N), PROBA.argmax(axis=1)].mean():.1%}",
    "compare preds.csv": "preds and shuffled predict best",
}


def kind_of(command: str) -> str:
    """The longest key of WRITERS that a command begins with."""
    return max((key for key in WRITERS if command.startswith(key)), key=len)


def test_every_kind_has_a_writer():
    assert sorted(map(kind_of, COMMANDS)) == sorted(WRITERS)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_of_a_kind(folder, command, capsys, monkeypatch):
    kind = kind_of(command)
    WRITERS[kind](command.split()[1])
    before = sorted(path.name for path in folder.iterdir())
    monkeypatch.setattr(sys, "argv", ["truecal", *shlex.split(command), *FAST])
    assert run_app() == 0
    assert OTHERS.get(kind, RIGHT) in capsys.readouterr().out
    assert sorted(path.name for path in folder.iterdir()) == before


def refusal(path: str, **options: Any) -> str:
    with pytest.raises(FileError) as caught:
        read_predictions(path, **options)
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["frame", "dict", "list"])
def test_a_pickle_is_never_opened_and_its_message_converts_it(folder, what):
    import pickle

    if what == "frame":
        WIDE.to_pickle("preds.pkl")
    else:
        held: Any = {"probs": PROBA, "labels": Y} if what == "dict" else PROBA.tolist()
        Path("preds.pkl").write_bytes(pickle.dumps(held))
    said = refusal("preds.pkl")
    assert "never does" in said
    code = said.partition("python -c '")[2].removesuffix("'")
    subprocess.run([sys.executable, "-c", code], check=True)
    made = next(path for path in folder.iterdir() if path.suffix in (".npz", ".csv"))
    assert read_predictions(made).n == N


def test_a_pointer_of_git_lfs(folder):
    Path("preds.parquet").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    assert refusal("preds.parquet").endswith("run git lfs pull --include preds.parquet")


def test_logs_without_probabilities_name_the_option_that_writes_them(folder):
    Path("results.json").write_text(json.dumps({"results": {"mmlu": {"acc": 0.5}}, "configs": {}, "versions": {}}))
    assert "run lm_eval with --log_samples --output_path DIR" in refusal("results.json")
    Path("samples_gsm8k.jsonl").write_text(json.dumps({"doc_id": 0, "target": "7", "resps": [["7"]]}))
    assert "run one with output_type multiple_choice" in refusal("samples_gsm8k.jsonl")


def test_a_long_table_lacks_or_repeats_a_row(folder):
    save_long("long.csv")
    table = pd.read_csv("long.csv")
    table.drop(index=4).to_csv("bad.csv", index=False)
    assert f"'id' '{IDS[4]}' has none for class 'cat' (its first row is row {N + 3}" in refusal("bad.csv")
    pd.concat([table, table.iloc[[4]]]).to_csv("bad.csv", index=False)
    assert f"class 'cat' is at row 4 and at row {3 * N}" in refusal("bad.csv")


def test_long_tables_with_their_truth(folder):
    save_long("long.csv")
    table = pd.read_csv("long.csv").merge(SOLUTION)
    shuffled = table.sample(frac=1, random_state=0)
    shuffled.to_csv("named.csv", index=False)
    marked = table.assign(is_true=table["class"] == table["label"]).drop(columns="label")
    marked.to_parquet("marked.parquet")
    hugging = table.drop(columns="label").rename(columns={"class": "label", "probability": "score"})
    hugging.to_csv("hugging.csv", index=False)
    for path in ("named.csv", "marked.parquet"):
        read = read_predictions(path)
        assert read.n == N and np.mean(read.probabilities().argmax(axis=1) == read.y_true) == np.mean(
            PROBA.argmax(axis=1) == Y
        )
    assert read_predictions("hugging.csv", labels="solution.csv").n == N
    marked.loc[0, "is_true"] = not marked.loc[0, "is_true"]
    marked.to_parquet("marked.parquet")
    assert "expected one class marked in 'is_true' per sample" in refusal("marked.parquet")


def test_a_long_table_beside_labels_in_its_order(folder):
    save_long("long.csv")
    np.save("labels.npy", NAMES[Y])
    assert "expected a key named 'id' to match rows by" in refusal("long.csv", labels="labels.npy")
    assert np.array_equal(np.asarray(read_predictions("long.csv", labels="labels.npy", id_column=False).y_true), Y)
    said = refusal("long.csv", labels=Y)
    assert "expected names of classes as labels, the classes 'cat', 'dog', 'fox' have no order" in said


def test_a_pipeline_of_hugging_face(folder):
    rows = [
        sorted(({"label": name, "score": p} for name, p in zip(NAMES, row, strict=True)), key=lambda x: -x["score"])
        for row in PROBA
    ]
    Path("hf.json").write_text(json.dumps(rows))
    read = read_predictions("hf.json", labels=NAMES[Y])
    assert np.mean(read.probabilities().argmax(axis=1) == read.y_true) == np.mean(PROBA.argmax(axis=1) == Y)
    assert "have no order, and labels has the number" in refusal("hf.json", labels=Y)
    numbered = [[{**x, "label": f"LABEL_{list(NAMES).index(x['label'])}"} for x in row] for row in rows]
    Path("numbered.json").write_text(json.dumps(numbered))
    assert np.abs(read_predictions("numbered.json", labels=Y).probabilities() - PROBA).max() < 1e-12
    rows[3] = rows[3][:2]
    Path("hf.json").write_text(json.dumps(rows))
    assert "row 3 differs by" in refusal("hf.json") and refusal("hf.json").endswith("pass top_k=None")


@pytest.mark.parametrize("form", [str, lambda row: str(list(row)), lambda row: " ".join(map(repr, row.tolist()))])
def test_lists_as_numpy_and_python_print_them(folder, form):
    pd.DataFrame({"probs": [form(row) for row in PROBA], "label": Y}).to_csv("lists.csv", index=False)
    read = read_predictions("lists.csv")
    assert np.abs(read.probabilities() - PROBA).max() < 1e-7
    pd.DataFrame({"probs": ["[0.1 0.2 ... 0.3]"], "label": [0]}).to_csv("lists.csv", index=False)
    assert refusal("lists.csv").endswith("save the array as .npz")


def test_messages_end_with_the_option(folder):
    PERCENT.to_csv("percent.csv", index=False)
    assert refusal("percent.csv").endswith("pass percent=True (--percent)")
    np.savetxt("bare.csv", np.column_stack([Y, PROBA]), delimiter=",")
    assert refusal("bare.csv").endswith("if it has the labels, pass label_column (--label-column) '0'")
    ODDS.to_csv("odds.csv", index=False)
    assert refusal("odds.csv").endswith("pass odds=True (--odds)")


def test_file_names_in_an_index_are_identifiers(folder):
    names = [f"{i}.png" for i in range(N)]
    pd.DataFrame(PROBA, columns=NAMES, index=names).to_csv("preds.csv")
    pd.DataFrame({"label": NAMES[Y]}, index=names).iloc[SHUFFLED].to_csv("truth.csv")
    assert np.array_equal(np.asarray(read_predictions("preds.csv", labels="truth.csv").y_true), Y)


def test_clusters_are_no_long_table(folder):
    table = pd.DataFrame({"patient_id": [1, 1, 2, 2], "label": [0, 1, 0, 1], "prob": [0.2, 0.9, 0.3, 0.6]})
    table.to_csv("clusters.csv", index=False)
    assert read_predictions("clusters.csv").n == 4


def test_odds_name_the_row(folder):
    ODDS.assign(FTR="H", B365D=0.9).to_csv("odds.csv", index=False)
    said = refusal("odds.csv", odds=True, proba_columns=["B365H", "B365D", "B365A"], label_column="FTR")
    assert "expected decimal odds above 1 at row 0, column 'B365D', got 0.9" in said
    ODDS.rename(columns=lambda c: f"odds_{c[-1]}").assign(label="H").to_csv("odds.csv", index=False)
    read = read_predictions("odds.csv", odds=True)
    assert read.classes == ("H", "D", "A") and any("the bookmaker's margin is" in note for note in read.notes)
    assert np.abs(read.probabilities() - PROBA).max() < 0.05


def test_images_without_labels_leave_the_axis_open(folder):
    np.savez("images.npz", logits=np.zeros((2, 3, 4, 5)))
    assert "pass class_axis (--class-axis), one of 1, 3" in refusal("images.npz")
    assert read_predictions("images.npz", class_axis=1).proba is None
    read = read_predictions("images.npz", labels=np.zeros((2, 4, 5), dtype=int))
    assert read.n == 40 and read.groups is not None and read.groups.tolist() == [0] * 20 + [1] * 20


def test_pixels_without_a_label_are_dropped(folder):
    labels = Y.reshape(6, 5, 10).copy()
    labels[0, 0, :4] = 255
    np.savez("images.npz", probs=IMAGES, labels=labels)
    read = read_predictions("images.npz")
    assert read.n == N - 4 and any("their label is 255 (no label)" in note for note in read.notes)
    labels[0, 0, 0] = 7
    np.savez("images.npz", probs=IMAGES, labels=labels)
    assert "row 0 has 7" in refusal("images.npz")


def test_tables_and_sheets_have_names(folder):
    save_sqlite("runs.db")
    assert refusal("runs.db").endswith("expected one table, found 'preds', 'truth': name one, runs.db::preds")
    assert "'probs' is not among 'preds', 'truth'" in refusal("runs.db::probs")
    WIDE.to_csv("preds.csv")
    assert "drop ::preds" in refusal("preds.csv::preds")
    Path("none.db").write_bytes(b"nothing")
    assert "expected a SQLite or DuckDB database" in refusal("none.db")


BAD = {
    "missing": lambda table: table.iloc[1:],
    "other": lambda table: table.assign(id=table["id"].where(table.index != table.index[3], -1)),
    "duplicated": lambda table: pd.concat([table, table.iloc[[3]]]),
    "extra": lambda table: pd.concat([table, pd.DataFrame({"id": [99_999], "label": ["cat"]})]),
}


def save_truth(path: str, truth: pd.DataFrame) -> None:
    if path.endswith(".xlsx"):
        truth.to_excel(path, index=False)
    elif path.endswith(".db"):
        with sqlite3.connect(path) as database:
            truth.to_sql("truth", database, index=False)
        database.close()
    else:
        truth.to_parquet(path) if path.endswith(".parquet") else truth.to_csv(path, index=False)


@pytest.mark.slow
@pytest.mark.parametrize("variant", BAD)
@pytest.mark.parametrize("path", ["truth.csv", "truth.xlsx", "truth.db", "truth.parquet"])
@pytest.mark.parametrize("predictions", ["submission.csv", "long.csv"])
def test_identifiers_that_do_not_match_are_named_and_nothing_is_written(
    folder, variant, path, predictions, capsys, monkeypatch
):
    (save_submission if predictions == "submission.csv" else save_long)(predictions)
    save_truth(path, BAD[variant](SOLUTION))
    before = sorted(item.name for item in folder.iterdir())
    outputs = ["--json", "o.json", "--html", "o.html", "--csv", "o.csv", "--plot", "o.png"]
    monkeypatch.setattr(sys, "argv", ["truecal", "evaluate", predictions, "--labels", path, *outputs])
    assert run_app() == 1
    said = capsys.readouterr()
    rows = {"missing": SHUFFLED[0], "other": SHUFFLED[3], "duplicated": N, "extra": N}
    assert said.out == "" and f"at row {rows[variant]}" in said.err
    assert ("(--no-id)" in said.err) == (predictions == "submission.csv")  # samples of a long table have no other order
    assert sorted(item.name for item in folder.iterdir()) == before


def test_a_view_has_to_be_named(folder):
    with sqlite3.connect("runs.db") as database:
        IDENTIFIED.to_sql("preds", database, index=False)
        database.execute("CREATE VIEW half AS SELECT * FROM preds LIMIT 150")
    database.close()
    assert read_predictions("runs.db").n == N and read_predictions("runs.db::half").n == 150


def test_a_log_of_inspect_without_logprobs(folder):
    log = pytest.importorskip("inspect_ai.log")
    model, scorer = pytest.importorskip("inspect_ai.model"), pytest.importorskip("inspect_ai.scorer")
    spec = log.EvalSpec(
        created="2026-01-01T00:00:00+00:00", task="t", dataset=log.EvalDataset(), model="m", config=log.EvalConfig()
    )

    def refused(status: str, scores: Any) -> str:
        answer = model.ModelOutput.from_content("m", "ANSWER: A")
        more = {"input": "?", "target": "A", "choices": ["x", "y"], "output": answer, "scores": scores}
        log.write_eval_log(
            log.EvalLog(status=status, eval=spec, samples=[log.EvalSample(id=1, epoch=1, **more)]), "a.eval"
        )
        return refusal("a.eval")

    scored = {"choice": scorer.Score(value="C", answer="A")}
    assert refused("success", scored).endswith("run inspect eval with --logprobs --top-logprobs 20")
    assert refused("error", {}).endswith("run inspect eval-retry")


def test_text_among_the_numbers_of_a_sheet(folder):
    odd = WIDE.astype({"prob_dog": object})
    odd.loc[2, "prob_dog"] = "0,25"
    odd.to_excel("preds.xlsx", index=False)
    assert "expected a number at row 2, column 'prob_dog', got the text '0,25'" in refusal("preds.xlsx")


def test_a_decimal_comma_that_is_none(folder):
    lines = WIDE.to_csv(index=False, sep=";", decimal=",").splitlines()
    lines[5] = lines[5].replace("0,", "O,", 1)
    Path("european.csv").write_text("\n".join(lines))
    assert "expected a number at row 4 (line 6), column 'prob_" in refusal("european.csv")


def test_bfloat16_is_known_by_its_resolution(folder):
    rounded = tensors().bfloat16().float().numpy()
    off = np.abs(rounded.sum(axis=1) - 1) > 1e-3
    assert off.any()
    np.savez("a.npz", probs=rounded, labels=Y)
    read = read_predictions("a.npz")
    assert read.proba is not None and np.abs(read.proba.sum(axis=1) - 1).max() < 1e-6
    np.savez("b.npz", probs=rounded * np.float32(1.0001), labels=Y)
    assert "expected probabilities" in refusal("b.npz")


def test_batches_of_different_widths(folder):
    torch.save([torch.zeros(2, 3), torch.zeros(2, 4)], "a.pt")
    assert "batch 0 has the shape (2, 3) and batch 1 has (2, 4)" in refusal("a.pt")
    torch.save([(batch["logits"], batch["labels"]) for batch in STEPS], "pairs.pt")
    assert read_predictions("pairs.pt", logits=True).n == N
