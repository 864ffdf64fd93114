"""What people type first: recalibrate, --plot, --quiet, -v, verdicts before numbers, and help in one style."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_line import FAST, Run, child
from truecal.io import read_predictions


def files() -> set[str]:
    return {path.name for path in Path().iterdir()}


@pytest.mark.slow
def test_recalibrate_writes_what_evaluate_reads(folder: Path, truecal: Run) -> None:
    code, out, err = truecal("recalibrate", "sharp-val.npz", "sharp-logits.npz", "--out", "calibrated.npz")
    assert code == 0 and err == "wrote calibrated.npz\n"
    first = out.splitlines()[0]
    before, after = map(float, re.findall(r"Score ([0-9.]+) → ([0-9.]+)", first)[0])
    assert first.startswith("Recalibrated by ") and after < before
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("before", "after"))] == ["before", "after"]
    read = read_predictions("calibrated.npz")
    assert read.kind == "probabilities" and read.n == 300 and read.y_true is not None
    assert truecal("evaluate", "calibrated.npz", *FAST)[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_recalibrate_tables_keep_ids_and_names(folder: Path, truecal: Run, suffix: str) -> None:
    with np.load("sharp-val.npz") as val, np.load("sharp-logits.npz") as test:
        for name, data in (("val", val), ("new", test)):
            frame = pd.DataFrame(data["logits"], columns=[f"logit_{c}" for c in "abcd"])
            frame.assign(id=np.arange(300) + 7, label=np.array(list("abcd"))[data["labels"]]).to_csv(f"{name}.csv")
    code, out, _ = truecal("recalibrate", "val.csv", "new.csv", "--method", "temperature", "--out", f"out.{suffix}")
    assert code == 0 and out.startswith("Recalibrated by temperature: 300 rows.")
    read = read_predictions(f"out.{suffix}")
    assert read.classes == tuple("abcd") and read.keys is not None and read.keys.values("id")[0] in (7, "7")


def test_recalibrate_one_column_without_labels(folder: Path, truecal: Run) -> None:
    pd.read_csv("binary.csv")[["prob"]].to_csv("new.csv", index=False)
    rng = np.random.default_rng(5)
    p = rng.random(300)
    pd.DataFrame({"label": (rng.random(300) < p).astype(int), "prob": p}).to_csv("val.csv", index=False)
    code, out, _ = truecal("recalibrate", "val.csv", "new.csv", "--method", "venn_abers", "--out", "out.csv")
    assert code == 0 and "no labels to measure it on" in out
    assert list(pd.read_csv("out.csv").columns) == ["prob"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("sharp-val.npz", "sharp-val.npz", "--out", "x.npz"), 1, "the validation rows are the test rows"),
        (("sharp-val.npz", "good.npz", "--out", "x.npz"), 1, "expected logits as in sharp-val.npz"),
        (("top.csv", "good.npz", "--out", "x.npz"), 1, "expected the probabilities or logits of the same classes"),
        (("sharp-val.npz", "sharp-logits.npz", "--out", "x.docx"), 2, "expected a name that ends in .npz, .csv"),
        (("sharp-val.npz", "sharp-logits.npz", "--out", "x.npz", "--method", "magic"), 2, "expected one of auto"),
        (("sharp-val.npz", "sharp-logits.npz", "--out", "sharp-val.npz"), 2, "is an input already"),
    ],
)
def test_recalibrate_refuses_and_writes_nothing(
    folder: Path, truecal: Run, arguments: tuple[str, ...], code: int, words: str
) -> None:
    before = files()
    found, out, err = truecal("recalibrate", *arguments)
    assert found == code and words in err and out == ""
    assert files() == before


@pytest.mark.slow
def test_a_picture_of_the_reliability(folder: Path, truecal: Run) -> None:
    code, _, err = truecal("evaluate", "good.npz", *FAST, "--plot", "good.png")
    assert code == 0 and "wrote good.png" in err and Path("good.png").read_bytes()[:4] == b"\x89PNG"
    code, _, err = truecal("evaluate", "good.npz", *FAST, "--plot", "good.xyz")
    assert code == 2 and "expected a name that ends in one of" in err and not Path("good.xyz").exists()


@pytest.mark.slow
def test_quiet_prints_nothing_and_still_writes(folder: Path, truecal: Run) -> None:
    code, out, err = truecal("evaluate", "good.npz", *FAST, "--quiet", "--json", "o.json")
    assert (code, out, err) == (0, "", "") and Path("o.json").exists()
    assert truecal("test", "sharp.csv", "-q", "--resamples", "99") == (3, "", "")
    assert truecal("compare", "good.npz", "sharp.csv", *FAST, "-q") == (0, "", "")


@pytest.mark.slow
def test_notes_are_few_unless_asked_for(folder: Path, truecal: Run) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), size=(4, 5, 6))
    np.savez("images.npz", probs=np.moveaxis(p, 3, 1), labels=rng.integers(0, 3, (4, 5, 6)))
    code, out, _ = truecal("evaluate", "images.npz", *FAST)
    lines = [line for line in out.splitlines() if line.startswith("note: ")]
    assert code == 0 and lines[0].startswith("note: images: 120 rows")
    np.savez(
        "images.npz", probs=np.moveaxis((p > p.max(axis=3, keepdims=True) - 1e-9) * 1.0, 3, 1), labels=p.argmin(axis=3)
    )
    _, some, _ = truecal("evaluate", "images.npz", *FAST)
    assert some.count("note: ") == 3 and re.search(r"^\d more notes?: -v for more$", some, re.MULTILINE)
    _, more, _ = truecal("evaluate", "images.npz", *FAST, "-v")
    assert more.count("note: ") > 3 and "-v for more" not in more
    code, out, _ = truecal("test", "images.npz")  # images are clusters
    assert code == 4 and out.startswith("Calibrated? undecided: a test needs at least 12 groups of rows, got 4")


def test_the_details_have_the_cross_entropy(folder: Path, truecal: Run) -> None:
    _, out, _ = truecal("evaluate", "good.npz", *FAST, "--details")
    with np.load("good.npz") as good:
        expected = -np.log(good["probs"][np.arange(300), good["labels"]]).mean()
    row = next(line for line in out.splitlines() if line.startswith("cross entropy"))
    assert row.split()[-1] == f"{expected:.3g}"


@pytest.mark.slow
def test_the_verdict_comes_first(folder: Path, truecal: Run) -> None:
    _, out, _ = truecal("test", "sharp.csv", "--resamples", "99")
    assert out.splitlines()[0] == "Calibrated? no (p ≤ 0.01)"
    _, out, _ = truecal("test", "sharp.csv", "--resamples", "99", "--max-gap", "50")
    assert out.splitlines()[0].startswith("Passed at --max-gap 50: The gap of ")
    _, out, _ = truecal("monitor", "good.npz", "--state", "state.npz")
    assert out.splitlines()[0] == "No alarm: calibration is not rejected after 300 rows."
    code, out, _ = truecal("monitor", "sharp.csv", "--state", "other.npz")
    assert code == 3 and re.match(
        r"Alarm at row \d+ of sharp\.csv: over-confident; .*; a calibrated model alarms in", out
    )


@pytest.mark.slow
def test_no_colour_is_kept() -> None:
    os.environ["NO_COLOR"], os.environ["FORCE_COLOR"] = "1", "1"
    try:
        with child("--help") as process:
            out, _ = process.communicate(timeout=60)
    finally:
        del os.environ["NO_COLOR"], os.environ["FORCE_COLOR"]
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]m", out) and "recalibrate" in out


@pytest.mark.slow
def test_python_m_truecal() -> None:
    import subprocess

    done = subprocess.run([sys.executable, "-m", "truecal", "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("truecal ")
