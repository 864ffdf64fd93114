"""The command on files as people have them: kinds per file, folders, columns beside predictions, one line a file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import truecal as tc
from command_line import FAST, Run
from truecal.cli.loading import expand, split_kind


def results(name: str = "o.json") -> Any:
    return json.loads(Path(name).read_text())


@pytest.mark.slow
def test_files_of_different_kinds(folder: Path, truecal: Run) -> None:
    with np.load("good.npz") as good:
        np.save("bare.npy", good["probs"])
        np.savez("both.npz", probs=good["probs"], logits=np.log(good["probs"]), labels=good["labels"])
    code, out, _ = truecal("compare", "sharp-logits.npz:logits", "bare.npy:probs", "both.npz:logits", *FAST)
    assert code == 0 and "probabilities from the key 'the array'" in out and "logits from the key" in out
    code, _, err = truecal("compare", "sharp-logits.npz", "bare.npy", "--logits", *FAST)
    assert code == 1 and "bare.npy: expected logits" in err and "drop logits=True (--logits)" in err
    os.rename("bare.npy", "a.npy:probs")
    assert split_kind(Path("a.npy:probs")) == (Path("a.npy:probs"), None)  # a file that is there is itself
    assert split_kind(Path("b.npy:probs")) == (Path("b.npy"), "probabilities")


@pytest.mark.slow
def test_folders_and_patterns(folder: Path, truecal: Run) -> None:
    os.mkdir("runs")
    for name in ("good.npz", "sharp.csv", "y.npy"):
        os.rename(name, f"runs/{name}")
    Path("runs/notes.txt").write_text("not a prediction")
    Path("runs/.hidden.npz").write_text("")
    for _ in range(2):  # the second time the output lies among the inputs
        code, _, _ = truecal("compare", "runs", "--labels", "runs/y.npy", "--json", "runs/o.json", *FAST)
        assert code == 0 and results("runs/o.json")["names"] == ["good", "sharp"]
    assert expand([Path("runs/*.csv")], []) == [Path("runs/sharp.csv")]
    os.mkdir("empty")
    for nothing in ("empty", "*.parq"):
        code, _, err = truecal("compare", nothing, "sharp.parquet")
        assert code == 1 and f"{nothing}: no prediction files found" in err


@pytest.mark.slow
def test_columns_beside_the_predictions_are_as_in_python(folder: Path, truecal: Run) -> None:
    frame = pd.read_csv("sharp.csv")
    frame["patient"], frame["weight"], frame["ward"] = np.arange(300) // 3, 1 + np.arange(300) % 2, np.arange(300) % 2
    frame.to_csv("all.csv", index=False)
    frame[["patient"]].to_csv("patient.csv", index=False, header=False)
    frame.to_parquet("table.parquet")
    columns = ("--columns", "prob_0,prob_1,prob_2,prob_3", "--errors", "classwise,confidence_l1", "--json", "o.json")
    proba = frame[[f"prob_{j}" for j in range(4)]].to_numpy()
    settings: dict[str, Any] = {"n_bins": (2, 5), "n_resamples": 19, "errors": ("classwise", "confidence_l1")}
    cases: list[tuple[tuple[str, ...], dict[str, Any]]] = [
        (("--groups", "patient"), {"groups": frame.patient}),
        (("--groups", "patient.csv"), {"groups": frame.patient}),
        (("--weights", "weight"), {"sample_weight": frame.weight}),
        (("--weights", "table.parquet:weight"), {"sample_weight": frame.weight}),
        (("--by", "ward"), {"by": frame.ward}),
        (("--by", "table.parquet:ward"), {"by": frame.ward}),
    ]
    for arguments, same in cases:
        code, _, err = truecal("evaluate", "all.csv", *arguments, *columns, *FAST)
        assert code == 0, err
        there = tc.evaluate(frame.label, proba, **settings, **same).to_dict()
        for part in ("errors", "losses"):
            for mine, theirs in zip(results()[part], there[part], strict=True):
                assert mine["value"] == pytest.approx(theirs["value"], rel=1e-9)
        assert list(results()["subgroups"]) == list(there["subgroups"])
    code, _, err = truecal(
        "compare", "all.csv", "good.npz", "--groups", "patient", "--weights", "weight", *columns[2:], *FAST
    )
    assert code == 0, err
    code, _, err = truecal("evaluate", "all.csv", "--by", "nothing", *columns, *FAST)
    assert code == 1 and "expected a column named 'nothing'" in err
    code, _, err = truecal("evaluate", "all.csv", "--errors", "nothing", *FAST)
    assert code == 1 and "there is no error 'nothing'" in err


def test_a_label_column_is_suggested(folder: Path, truecal: Run) -> None:
    frame = pd.read_csv("sharp.csv").rename(columns={"label": "kategorie"})
    frame["text"] = "some words"
    frame.to_csv("asked.csv", index=False)
    code, _, err = truecal("evaluate", "asked.csv", *FAST)
    words = "columns that can hold them: 'kategorie': pass --label-column kategorie, or --labels FILE"
    assert code == 1 and words in err
    code, _, _ = truecal("evaluate", "asked.csv", "--label-column", "kategorie", *FAST)
    assert code == 0


def test_rows_of_several_models_are_measured_apart(folder: Path, truecal: Run) -> None:
    p = np.random.default_rng(0).random(60)
    one = pd.DataFrame({"y_true": (p > np.random.default_rng(1).random(60)).astype(int), "y_prob": p})
    pd.concat([one.assign(model="a"), one.assign(model="b", y_prob=p**2)]).to_csv("stacked.csv", index=False)
    code, _, err = truecal("evaluate", "stacked.csv", *FAST)
    assert code == 1 and "run: truecal evaluate stacked.csv --by model" in err
    code, out, _ = truecal("evaluate", "stacked.csv", "--by", "model", *FAST)
    assert code == 0 and "\na " in out and "\nb " in out


@pytest.mark.slow
def test_options_of_reading(folder: Path, truecal: Run) -> None:
    frame = pd.read_csv("sharp.csv")
    rounded = frame.round(2).assign(label=frame.label + 1)
    rounded.to_csv("rounded.csv", index=False, header=False)
    code, _, err = truecal("evaluate", "rounded.csv", "--label-column", "0", *FAST)
    assert code == 1 and "--normalize" in err
    arguments = ("--label-column", "0", "--normalize", "--label-base", "1", "--no-header")
    code, out, _ = truecal("evaluate", "rounded.csv", *arguments, *FAST)
    assert code == 0 and "300 samples" in out and "rows divided by their sums" in out
    frame.loc[[3, 5], "prob_0"] = np.nan
    frame.to_csv("gaps.csv", index=False)
    code, _, err = truecal("compare", "gaps.csv", "good.npz", *FAST)
    assert code == 1 and "row 3" in err and "--drop-incomplete" in err
    code, out, _ = truecal("compare", "gaps.csv", "good.npz", "--drop-incomplete", "--groups", "label", *FAST)
    assert code == 0 and "298 samples" in out and "2 of 300 rows dropped" in out
    pd.DataFrame({"correct": np.arange(300) % 2, "confidence": 50 + np.arange(300) % 50}).to_csv(
        "said.csv", index=False
    )
    code, _, err = truecal("evaluate", "said.csv", *FAST)
    assert code == 1 and "--percent" in err
    code, out, _ = truecal("evaluate", "said.csv", "--percent", *FAST)
    assert code == 0 and "divided by 100" in out


@pytest.mark.slow
def test_what_was_read_is_one_line_a_file(folder: Path, truecal: Run) -> None:
    code, out, _ = truecal("compare", "good.npz", "sharp.csv", "--labels", "y.npy", *FAST)
    read = [line for line in out.splitlines() if " rows of 4 classes; " in line]
    assert code == 0 and len(read) == 2
    assert read[0] == (
        "note: good: 300 rows of 4 classes; probabilities from the key 'probs' (by its name); labels from the key "
        "'labels' (by its name); labels from y.npy"
    )


def test_baselines_are_measured_where_they_are_named(folder: Path, truecal: Run) -> None:
    code, out, _ = truecal("evaluate", "binary.csv", "--errors", "binary,ici,smooth_ece", "--details", *FAST)
    assert code == 0
    assert "smooth_ece  no" in out and "ici" in out
    code, _, err = truecal("evaluate", "binary.csv", "--errors", "linear", *FAST)
    assert code == 1 and "'linear' cannot be used with binary predictions" in err


@pytest.mark.slow
def test_rows_are_matched_by_id(folder: Path, truecal: Run) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=60)
    y = np.array([rng.choice(3, p=row) for row in p])
    lines = [f"{i},{','.join(map(repr, row.tolist()))}" for i, row in enumerate(p)]
    (folder / "a.csv").write_text("\n".join(["id,prob_0,prob_1,prob_2", *lines]))
    (folder / "b.csv").write_text("\n".join(["id,prob_0,prob_1,prob_2", *lines[::-1]]))
    (folder / "y.csv").write_text("\n".join(["id,label", *(f"{i},{y[i]}" for i in rng.permutation(60))]))
    files = [str(folder / name) for name in ("a.csv", "b.csv")]
    labels = ("--labels", str(folder / "y.csv"))
    code, out, _ = truecal("evaluate", files[0], *labels, *FAST)
    assert code == 0 and f"{np.mean(p.argmax(axis=1) == y):.1%}" in out and "matched by 'id'" in out
    code, out, _ = truecal("compare", *files, *labels, *FAST)
    assert code == 0 and "a and b predict best" in out
    assert truecal("evaluate", files[0], *labels, "--id", "prob_9")[0] == 1
    assert truecal("evaluate", files[0], *labels, "--id", "id", "--no-id")[0] == 2
