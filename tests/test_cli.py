"""The command line as a stranger uses it: files in, words and files out, exit codes, bad input in one line."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import truecal as tc
from truecal.cli import app
from truecal.cli.loading import load


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    """Two models in different formats, labels apart, logits with a validation part."""
    monkeypatch.chdir(tmp_path)
    n, k = 300, 4
    scores = rng.standard_normal((2 * n, k)) * 1.5
    proba = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    y = (proba.cumsum(axis=1) < rng.random((2 * n, 1))).sum(axis=1)
    sharp = proba**4 / (proba**4).sum(axis=1, keepdims=True)
    test, val = slice(0, n), slice(n, None)
    np.savez("good.npz", probs=proba[test], labels=y[test])
    frame = pd.DataFrame(sharp[test], columns=[f"prob_{j}" for j in range(k)])
    frame.insert(0, "label", y[test])
    frame.to_csv("sharp.csv", index=False)
    frame.to_parquet("sharp.parquet")
    np.save("y.npy", y[test])
    np.savez("sharp-logits.npz", logits=4 * scores[test], labels=y[test])
    np.savez("sharp-val.npz", logits=4 * scores[val], labels=y[val])
    top = proba[test].argmax(axis=1)
    pd.DataFrame({"label": y[test], "prediction": top, "confidence": proba[test].max(axis=1)}).to_csv(
        "top.csv", index=False
    )
    return tmp_path


def truecal(*arguments: str, capsys) -> tuple[int, str, str]:
    before = sys.argv
    sys.argv = ["truecal", *arguments]
    try:
        code = app.run()
    finally:
        sys.argv = before
    out = capsys.readouterr()
    return code, out.out, out.err


def in_a_row(text: str) -> str:
    """The words of a message, out of the box they may be drawn in."""
    return " ".join(text.replace("│", " ").split())


FAST = ("--bins", "2,5", "--resamples", "19")


def test_evaluate_prints_loss_and_U_on_demand(folder, capsys):
    code, out, _ = truecal("evaluate", "sharp.parquet", *FAST, capsys=capsys)
    assert code == 0
    assert "n·error = loss + U" not in out and "over-confident" in out
    code, details, _ = truecal("evaluate", "sharp.parquet", *FAST, "--details", capsys=capsys)
    assert code == 0 and "n·error = loss + U" in details
    assert "probabilities from 4 columns" in out  # which columns were used, and by which rule


def test_results_are_written_whole(folder, capsys):
    names = ("--json", "out.json", "--csv", "out.csv")
    code, _, err = truecal("compare", "good.npz", "sharp.csv", *FAST, *names, capsys=capsys)
    assert code == 0 and "wrote out.json" in err
    stored = json.loads((folder / "out.json").read_text())
    assert stored["names"] == ["good", "sharp"]
    table = pd.read_csv(folder / "out.csv")
    row = table[(table.model == "good") & (table.error == "classwise") & (table.n_bins == 5)].iloc[0]
    assert row.loss + row.U == pytest.approx(300 * row.value)


def test_labels_may_be_elsewhere(folder, capsys):
    np.savez("bare.npz", probs=np.load("good.npz")["probs"])
    code, out, _ = truecal("evaluate", "bare.npz", "--labels", "y.npy", *FAST, capsys=capsys)
    assert code == 0 and "300 samples" in out
    code, _, err = truecal("evaluate", "bare.npz", *FAST, capsys=capsys)
    assert code == 1 and "--labels" in err


def test_temperature_is_fitted_on_other_samples(folder, capsys):
    arguments = ("evaluate", "sharp-logits.npz", "--temperature", "sharp-val.npz", *FAST)
    code, out, _ = truecal(*arguments, capsys=capsys)
    fitted = re.search(r"temperature (\d\.\d+) fitted on 300 samples", out)
    assert code == 0 and fitted is not None
    assert 3 < float(fitted[1]) < 5.5  # the logits were made four times too wide
    again = ("evaluate", "sharp-logits.npz", "--temperature", "sharp-logits.npz", *FAST)
    code, _, err = truecal(*again, capsys=capsys)
    assert code == 1 and "expected other samples" in err
    code, _, err = truecal("evaluate", "good.npz", "--temperature", "sharp-val.npz", *FAST, capsys=capsys)
    assert code == 1 and "good.npz: expected logits" in err
    both = ("compare", "sharp-logits.npz", "good.npz", "--temperature", "sharp-val.npz", *FAST)
    code, _, err = truecal(*both, capsys=capsys)
    assert code == 2 and "one validation file per model" in in_a_row(err)


def test_test_exits_with_three_when_calibration_is_rejected(folder, capsys):
    code, out, _ = truecal("test", "sharp.csv", "--alpha", "0.05", "--resamples", "99", capsys=capsys)
    assert code == 3 and "calibration is rejected" in out
    code, out, _ = truecal("test", "good.npz", "--alpha", "0.001", "--resamples", "1999", capsys=capsys)
    assert code == 0 and "calibration is not rejected" in out and "null:" in out


def test_the_smallest_p_rejects_and_too_few_draws_are_refused(folder, capsys):
    """p can be no smaller than 1/(1 + draws): at that alpha it rejects, and below it the test could never fire."""
    code, _, _ = truecal("test", "sharp.csv", "--alpha", "0.01", "--resamples", "99", capsys=capsys)
    assert code == 3
    code, _, err = truecal("test", "sharp.csv", "--alpha", "0.01", "--resamples", "50", capsys=capsys)
    assert code == 2 and "at least 99" in in_a_row(err)


def test_top_label_files_allow_confidence_errors_only(folder, capsys):
    code, out, _ = truecal("evaluate", "top.csv", *FAST, capsys=capsys)
    assert code == 0 and "only the top class is known" in out and "classwise" not in out
    code, out, _ = truecal("test", "top.csv", "--resamples", "1999", "--alpha", "0.001", capsys=capsys)
    assert code == 0
    code, out, _ = truecal("compare", "top.csv", "sharp.csv", *FAST, capsys=capsys)
    assert code == 0 and "ECE would" in out


def test_subgroups(folder, capsys):
    np.save("group.npy", np.arange(300) % 2)
    code, out, _ = truecal("evaluate", "good.npz", "--by", "group.npy", *FAST, capsys=capsys)
    assert code == 0 and out.count(" 150 ") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("evaluate", "missing.npz"), 1, "missing.npz"),
        (("evaluate", "good.npz", "--bins", "five"), 2, "--bins"),
        (("evaluate", "good.npz", "--bins", "0"), 2, "whole numbers"),
        (("compare", "good.npz"), 2, "at least two"),
        (("compare",), 2, ""),
        (("nonsense",), 2, "nonsense"),
        (("test", "good.npz", "--alpha", "2"), 2, "alpha"),
        (("test", "good.npz", "--error", "classwise_l1"), 1, "null_band"),
        (("evaluate", "good.npz", "--json", "no/such/folder.json", *FAST), 1, "does not exist"),
        (("evaluate", "good.npz", "--level", "3", *FAST), 2, "level"),
        (("evaluate", "good.npz", "--seed", "-1", *FAST), 2, "seed"),
        (("evaluate", "good.npz", "--json", "good.npz", *FAST), 2, "an input"),
        (("evaluate", "good.npz", "--json", "o.txt", "--csv", "o.txt", *FAST), 2, "--json"),
        (("test", "good.npz", "--error", "nope"), 2, "classwise"),
    ],
)
def test_bad_calls_get_one_line_and_a_code(folder, capsys, arguments, code, words):
    got, _, err = truecal(*arguments, capsys=capsys)
    assert got == code
    assert words in in_a_row(err)
    assert "Traceback" not in err
    if code == 1:
        assert err.startswith("error: ") and err.count("\n") == 1


def test_outputs_are_checked_before_the_work(folder, capsys, monkeypatch):
    """A missing folder is said at once, and nothing is written, not even the outputs that could be."""

    def never(*_, **__):
        raise AssertionError("the work was begun")

    monkeypatch.setattr(app, "load", never)
    arguments = ("evaluate", "good.npz", "--json", "j.json", "--html", "missing/r.html", *FAST)
    code, _, err = truecal(*arguments, capsys=capsys)
    assert code == 1 and "missing" in err
    assert not (folder / "j.json").exists()


def test_what_was_read_reaches_every_output(folder, capsys):
    names = ("--json", "o.json", "--html", "o.html")
    code, out, _ = truecal(
        "evaluate", "sharp-logits.npz", "--temperature", "sharp-val.npz", *FAST, *names, capsys=capsys
    )
    assert code == 0 and "temperature" in out
    assert "fitted on 300 samples" in (folder / "o.json").read_text()
    assert "fitted on 300 samples" in (folder / "o.html").read_text()


def test_a_reader_that_leaves_changes_no_exit_code(folder):
    """`truecal test ... | true` still says 3, without a traceback."""
    arguments = ["truecal", "test", "sharp.csv", "--resamples", "99"]
    code = f"import sys; sys.argv = {arguments!r}; from truecal.cli import main; main()"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child.stdout.close()
    with child.stderr as stream:
        err = stream.read()
    assert child.wait(timeout=60) == 3
    assert "Traceback" not in err and "BrokenPipe" not in err


def test_version(capsys):
    import truecal as tc

    code, out, _ = truecal("--version", capsys=capsys)
    assert code == 0 and out.strip() == f"truecal {tc.__version__}"


def test_disagreeing_files_are_named(folder, capsys):
    with np.load("good.npz") as good:
        probs, y = good["probs"], good["labels"].copy()
    y[7] = (y[7] + 1) % 4
    np.savez("other.npz", probs=probs, labels=y)
    code, _, err = truecal("compare", "good.npz", "other.npz", *FAST, capsys=capsys)
    assert code == 1 and "other.npz" in err and "row 7" in err


def test_pickles_are_refused(folder, capsys):
    np.savez("evil.npz", probs=np.array([{"a": 1}], dtype=object), labels=[0])
    code, _, err = truecal("evaluate", "evil.npz", capsys=capsys)
    assert code == 1 and "evil.npz" in err


def test_names_from_users_are_text_and_not_markup(folder, capsys):
    os.rename("good.npz", "[bold red]x[.npz")
    code, out, _ = truecal("evaluate", "[bold red]x[.npz", *FAST, capsys=capsys)
    assert code == 0 and "[bold red]x[" in out


def test_help_teaches_with_examples(capsys):
    for command in ("evaluate", "compare", "test"):
        code, out, _ = truecal(command, "--help", capsys=capsys)
        assert code == 0 and f"truecal {command}" in out
    code, out, _ = truecal("reproduce", "--help", capsys=capsys)
    assert code == 0 and "--tables-from" in out


def test_an_interrupted_run_leaves_nothing_broken(folder):
    """Ctrl-C in the middle: no output file, no temporary file, no traceback."""
    before = set(os.listdir(folder))
    arguments = ["compare", "good.npz", "sharp.csv", "--resamples", "2000000", "--json", "o.json", "--csv", "o.csv"]
    code = f"import sys; sys.argv = ['truecal', *{arguments!r}]; from truecal.cli import main; main()"
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(3)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert child.returncode not in (0, None)
    assert "Traceback" not in err
    assert set(os.listdir(folder)) == before


# ---------------------------------------------------------------- from files to what the library takes


def loaded(*files, **options):
    defaults = {"labels": None, "label_column": None, "columns": None, "logits": False, "temperature": []}
    return load([Path(file) for file in files], **{**defaults, **options})


@pytest.mark.parametrize("file", ["good.npz", "top.csv"])
def test_test_decides_as_evaluate_does(folder, file):
    read = loaded(file)
    (model,) = read.models.values()
    whole = tc.evaluate(read.y_true, model, resamples=49, seed=3).test
    assert whole is not None and read.test(None, resamples=49, seed=3).pvalue == whole.pvalue


def test_errors_without_bin_counts_can_be_tested(folder):
    assert 0 < loaded("good.npz").test("confidence_two_bin", resamples=19).pvalue <= 1


def test_class_names_are_those_of_all_columns(folder):
    frame = pd.read_csv("sharp.csv")
    frame.columns = ["label", "prob_ant", "prob_bee", "prob_cat", "prob_dog"]
    frame.to_csv("named.csv", index=False)
    assert loaded("sharp.csv", "named.csv").classes == ("ant", "bee", "cat", "dog")
    assert loaded("sharp.csv", "good.npz").classes == ("0", "1", "2", "3")
    assert loaded("top.csv", "named.csv").classes is None  # only the top class is compared: no columns to name


def test_validation_rows_are_not_the_test_rows_in_disguise(folder, rng):
    with np.load("sharp-logits.npz") as test, np.load("sharp-val.npz") as val:
        (z, y), (zv, yv) = (test["logits"], test["labels"]), (val["logits"], val["labels"])
    order = rng.permutation(len(z))
    disguises = {
        "rows.npz": (z[order], y[order]),
        "columns.npz": (z[:, ::-1], 3 - y),
        "digits.npz": (z[order].astype(np.float32), y[order]),
        "part.npz": (z[order[:100]], y[order[:100]]),
        "more.npz": (np.concatenate([zv, z]), np.concatenate([yv, y])),
    }
    for name, (logits, labels) in disguises.items():
        np.savez(name, logits=logits, labels=labels)
        with pytest.raises(ValueError, match=f"{name}: expected other samples than those of sharp-logits.npz"):
            loaded("sharp-logits.npz", temperature=[Path(name)])
    np.savez("mixed.npz", logits=np.concatenate([zv, z[:5]]), labels=np.concatenate([yv, y[:5]]))
    notes = loaded("sharp-logits.npz", temperature=[Path("mixed.npz")]).notes
    assert any("5 of the 305 validation rows of mixed.npz equal rows of sharp-logits.npz" in note for note in notes)


def test_a_model_with_few_outputs_may_repeat_them_on_other_samples(folder):
    table = np.array([[2.0, 0.0], [0.0, 1.0]])
    y = np.arange(40) % 2 ^ (np.arange(40) % 5 == 0)  # the higher logit is right four times in five
    np.savez("stump.npz", logits=table[np.arange(40) % 2], labels=y)
    np.savez("stump-val.npz", logits=table[np.arange(10) % 2], labels=y[:10])
    notes = loaded("stump.npz", temperature=[Path("stump-val.npz")]).notes
    assert any("10 of the 10 validation rows" in note for note in notes)


def test_trouble_of_the_fit_is_a_note(folder):
    with np.load("sharp-val.npz") as val:
        np.savez("wrong-val.npz", logits=-val["logits"], labels=val["labels"])
    notes = loaded("sharp-logits.npz", temperature=[Path("wrong-val.npz")]).notes
    assert any("do not agree with the logits" in note for note in notes)


def test_control_characters_are_never_printed(folder, capsys):
    os.rename("good.npz", "\x1b[31mgood.npz")
    code, out, err = truecal("evaluate", "\x1b[31mgood.npz", *FAST, capsys=capsys)
    assert code == 0 and "\x1b[31m" not in out + err
    for arguments in (["\x1b[31mmissing.npz"], ["\x1b[31mgood.npz", "--temperature", "sharp-val.npz"]):
        code, out, err = truecal("evaluate", *arguments, *FAST, capsys=capsys)
        assert code == 1 and "\x1b" not in out + err
