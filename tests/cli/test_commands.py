"""The command line as a stranger uses it: files in, words and files out, exit codes, bad input in one line."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer
import typer.rich_utils

import truecal as tc
from command_line import FAST, Run, child
from truecal.cli import app, common


@pytest.mark.slow
def test_evaluate_says_how_far_off_and_details_are_loss_and_U(folder: Path, truecal: Run) -> None:
    code, out, _ = truecal("evaluate", "sharp.parquet", *FAST)
    assert code == 0
    assert "n·error" not in out and "over-confident by" in out
    assert "n·error = loss + U" in truecal("evaluate", "sharp.parquet", "--details", *FAST)[1]
    assert "probabilities from 4 columns" in out  # which columns were used, and by which rule


@pytest.mark.slow
def test_compare_says_the_verdict_in_three_sentences(folder: Path, truecal: Run) -> None:
    code, out, _ = truecal("compare", "good.npz", "sharp.csv", "--bins", "2,5", "--resamples", "199")
    assert code == 0
    assert "good predicts best: Brier" in out and "for sharp" in out
    assert "Not calibrated: sharp (over-confident)" in out and "ECE ranks" in out


@pytest.mark.slow
def test_results_are_written_whole(folder: Path, truecal: Run) -> None:
    names = ("--json", "out.json", "--csv", "out.csv")
    code, _, err = truecal("compare", "good.npz", "sharp.csv", *FAST, *names)
    assert code == 0 and "wrote out.json" in err
    stored = json.loads((folder / "out.json").read_text())
    assert stored["names"] == ["good", "sharp"]
    table = pd.read_csv(folder / "out.csv")
    assert list(table.model) == ["good", "sharp"] and table.score[0] == stored["leaderboard"][0]["score"]
    truecal("compare", "good.npz", "sharp.csv", *FAST, "--csv", "out.csv", "--details")
    table = pd.read_csv(folder / "out.csv")
    row = table[(table.model == "good") & (table.error == "classwise") & (table.n_bins == 5)].iloc[0]
    assert row.loss + row.U == pytest.approx(300 * row.value)


def test_labels_may_be_elsewhere(folder: Path, truecal: Run) -> None:
    np.savez("bare.npz", probs=np.load("good.npz")["probs"])
    code, out, _ = truecal("evaluate", "bare.npz", "--labels", "y.npy", *FAST)
    assert code == 0 and "300 samples" in out
    code, _, err = truecal("evaluate", "bare.npz", *FAST)
    assert code == 1 and "--labels" in err


def test_temperature_is_fitted_on_other_samples(folder: Path, truecal: Run) -> None:
    arguments = ("evaluate", "sharp-logits.npz", "--temperature", "sharp-val.npz", *FAST)
    code, out, _ = truecal(*arguments)
    fitted = re.search(r"temperature (\d\.\d+) fitted on 300 samples", out)
    assert code == 0 and fitted is not None
    assert 3 < float(fitted[1]) < 5.5  # the logits were made four times too wide
    again = ("evaluate", "sharp-logits.npz", "--temperature", "sharp-logits.npz", *FAST)
    code, _, err = truecal(*again)
    assert code == 1 and "the validation rows are the test rows" in err
    code, _, err = truecal("evaluate", "good.npz", "--temperature", "sharp-val.npz", *FAST)
    assert code == 1 and "good.npz: --temperature needs logits" in err
    both = ("compare", "sharp-logits.npz", "good.npz", "--temperature", "sharp-val.npz", *FAST)
    code, _, err = truecal(*both)
    assert code == 2 and "one validation file per model" in err


def test_test_exits_with_three_when_calibration_is_rejected(folder: Path, truecal: Run) -> None:
    code, out, _ = truecal("test", "sharp.csv", "--alpha", "0.05", "--resamples", "99")
    assert code == 3 and out.startswith("Calibrated? no (p ≤ 0.01)")
    code, out, _ = truecal("test", "good.npz", "--alpha", "0.001", "--resamples", "1999")
    assert code == 4 and out.startswith("Calibrated? undecided: 300 rows allow a gap of up to ")
    assert "null hypothesis:" in out


def test_a_tolerated_gap_decides_where_it_is_given(folder: Path, truecal: Run) -> None:
    code, out, _ = truecal("test", "sharp.csv", "--resamples", "99", "--max-gap", "60")
    assert code == 0 and "p ≤ 0.01" in out and "Passed at --max-gap 60" in out and "is at most 60 points." in out
    code, out, _ = truecal("test", "sharp.csv", "--resamples", "9", "--max-gap", "1")
    assert code == 3 and "Failed at --max-gap 1" in out and "exceeds 1 points." in out
    code, out, _ = truecal("test", "good.npz", "--resamples", "99", "--max-gap", "1")
    assert code == 4 and "Undecided at --max-gap 1" in out and "take more rows." in out
    code, _, _ = truecal("test", "good.npz", "--resamples", "99", "--max-gap", "1", "--allow-undecided")
    assert code == 0
    code, _, err = truecal("test", "sharp.csv", "--max-gap", "-1")
    assert code == 2 and "--max-gap" in err


def test_the_smallest_p_rejects_and_too_few_draws_are_refused(folder: Path, truecal: Run) -> None:
    """p can be no smaller than 1/(1 + draws): at that alpha it rejects, and below it the test could never fire."""
    code, _, _ = truecal("test", "sharp.csv", "--alpha", "0.01", "--resamples", "99")
    assert code == 3
    code, _, err = truecal("test", "sharp.csv", "--alpha", "0.01", "--resamples", "50")
    assert code == 2 and "at least 99" in err


@pytest.mark.parametrize("chosen", [(), ("--error", "confidence")])
def test_more_draws_than_are_allowed_are_refused(folder: Path, truecal: Run, chosen: tuple[str, ...]) -> None:
    code, _, err = truecal("test", "sharp.csv", *chosen, "--resamples", "2000000")
    assert code == 1 and "n_resamples" in err and "2000000" in err


@pytest.mark.slow
def test_top_label_files_allow_confidence_errors_only(folder: Path, truecal: Run) -> None:
    code, out, _ = truecal("evaluate", "top.csv", *FAST)
    assert code == 0 and "only the top class is known" in out and "classwise" not in out
    code, out, _ = truecal("test", "top.csv", "--resamples", "1999", "--alpha", "0.001")
    assert code == 4 and "300 rows allow a gap of up to" in out
    code, out, _ = truecal("compare", "top.csv", "sharp.csv", *FAST)
    assert code == 0 and "ECE ranks" in out


@pytest.mark.slow
def test_one_probability_per_row_is_binary_here_as_in_python(folder: Path, truecal: Run) -> None:
    code, out, _ = truecal("evaluate", "binary.csv", "--json", "o.json", *FAST)
    frame = pd.read_csv("binary.csv")
    there = tc.evaluate(frame.label, frame.prob, n_bins=(2, 5), n_resamples=19)
    stored = json.loads((folder / "o.json").read_text())
    assert code == 0 and stored["kind"] == there.kind == "binary" and there.headline == "binary"
    assert stored["errors"][0]["value"] == pytest.approx(there.errors[0].value, rel=1e-12)
    np.savez("two.npz", probs=np.column_stack([1 - frame.prob, frame.prob]), labels=frame.label)
    code, out, _ = truecal("evaluate", "two.npz", "--json", "two.json", *FAST)
    two = json.loads((folder / "two.json").read_text())
    assert two["kind"] == "binary" and two["score"] == pytest.approx(stored["score"], rel=1e-12)
    code, out, _ = truecal("compare", "binary.csv", "two.npz", *FAST)
    assert code == 0 and "2 models" in out


def test_every_error_that_test_offers_can_be_tested(folder: Path, truecal: Run) -> None:
    code, out, _ = truecal("test", "binary.csv", "--error", "binary", "--resamples", "99", "--alpha", "0.01")
    assert code in (0, 3, 4) and out.startswith("Calibrated? ")
    code, out, _ = truecal("test", "binary.csv", "--error", "confidence", "--resamples", "99", "--alpha", "0.01")
    assert code in (0, 3, 4) and out.startswith("Calibrated? ")
    code, _, err = truecal("test", "good.npz", "--error", "binary")
    assert code == 1 and "'binary' cannot be used with multiclass predictions" in err
    code, _, err = truecal("test", "good.npz", "--error", "linear")
    assert code == 2 and "expected one of classwise," in err and "linear," not in err


@pytest.mark.slow
def test_subgroups(folder: Path, truecal: Run) -> None:
    np.save("group.npy", np.arange(300) % 2)
    code, out, _ = truecal("evaluate", "good.npz", "--by", "group.npy", *FAST)
    assert code == 0 and out.count(" 150 ") == 2


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("evaluate", "missing.npz"), 1, "missing.npz"),
        (("evaluate", "good.npz", "--bins", "five"), 2, "--bins"),
        (("evaluate", "good.npz", "--bins", "0"), 2, "whole numbers"),
        (("compare", "good.npz"), 2, "at least two"),
        (("compare",), 2, "files"),
        (("nonsense",), 2, "nonsense"),
        (("test", "good.npz", "--alpha", "2"), 2, "alpha"),
        (("test", "good.npz", "--error", "classwise_l1"), 1, "use confidence_interval"),
        (("evaluate", "good.npz", "--json", "no/such/folder.json", *FAST), 1, "does not exist"),
        (("evaluate", "good.npz", "--level", "3", *FAST), 2, "level"),
        (("evaluate", "good.npz", "--seed", "-1", *FAST), 2, "seed"),
        (("evaluate", "good.npz", "--json", "good.npz", *FAST), 2, "an input"),
        (("evaluate", "good.npz", "--json", "o.txt", "--csv", "o.txt", *FAST), 2, "--json"),
        (("test", "good.npz", "--error", "nope"), 2, "classwise"),
    ],
)
def test_bad_calls_get_one_line_and_a_code(
    folder: Path, truecal: Run, arguments: tuple[str, ...], code: int, words: str
) -> None:
    got, _, err = truecal(*arguments)
    assert got == code
    assert words in err.lower() or words in err
    assert "Traceback" not in err
    assert err.startswith("error: ") and err.count("\n") == 1


def test_outputs_are_checked_before_the_work(folder: Path, truecal: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing folder is said at once, and nothing is written, not even the outputs that could be."""

    def never(*_, **__):
        raise AssertionError("the work was begun")

    monkeypatch.setattr(common, "load", never)
    arguments = ("evaluate", "good.npz", "--json", "j.json", "--html", "missing/r.html", *FAST)
    code, _, err = truecal(*arguments)
    assert code == 1 and "missing" in err
    assert not (folder / "j.json").exists()


@pytest.mark.slow
def test_what_was_read_reaches_every_output(folder: Path, truecal: Run) -> None:
    names = ("--json", "o.json", "--html", "o.html")
    code, out, _ = truecal("evaluate", "sharp-logits.npz", "--temperature", "sharp-val.npz", *FAST, *names)
    assert code == 0 and "temperature" in out
    assert "fitted on 300 samples" in (folder / "o.json").read_text()
    assert "fitted on 300 samples" in (folder / "o.html").read_text()


@pytest.mark.heavy
def test_a_reader_that_leaves_changes_no_exit_code(folder: Path) -> None:
    """`truecal test ... | true` still says 3, without a traceback."""
    with child("test", "sharp.csv", "--resamples", "99") as running:
        assert running.stdout is not None and running.stderr is not None
        running.stdout.close()
        err = running.stderr.read()
        assert running.wait() == 3
    assert "Traceback" not in err and "BrokenPipe" not in err


def test_version(truecal: Run) -> None:
    import truecal as tc

    code, out, _ = truecal("--version")
    assert code == 0 and out.strip() == f"truecal {tc.__version__}"


def test_disagreeing_files_are_named(folder: Path, truecal: Run) -> None:
    with np.load("good.npz") as good:
        probs, y = good["probs"], good["labels"].copy()
    y[7] = (y[7] + 1) % 4
    np.savez("other.npz", probs=probs, labels=y)
    code, _, err = truecal("compare", "good.npz", "other.npz", *FAST)
    assert code == 1 and "other.npz" in err and "row 7" in err


def test_pickles_are_refused(folder: Path, truecal: Run) -> None:
    np.savez("evil.npz", probs=np.array([{"a": 1}], dtype=object), labels=[0])
    code, _, err = truecal("evaluate", "evil.npz")
    assert code == 1 and "evil.npz" in err


def test_names_from_users_are_text_and_not_markup(folder: Path, truecal: Run) -> None:
    os.rename("good.npz", "[bold red]x[.npz")
    code, out, _ = truecal("evaluate", "[bold red]x[.npz", *FAST)
    assert code == 0 and "[bold red]x[" in out


def commands() -> dict[str, Any]:
    return typer.main.get_command(app.app).commands  # type: ignore[attr-defined]


@pytest.mark.parametrize("command", sorted(commands()))
def test_help_teaches_with_an_example_and_documents_each_option(truecal: Run, command: str) -> None:
    code, out, _ = truecal(command, "--help")
    assert code == 0 and (f"truecal {command}" in out or command == "demo")
    for option in commands()[command].params:
        assert option.name in out if option.param_type_name == "argument" else option.opts[0] in out
        assert option.help, f"{command} {option.name}"


def test_the_help_of_evaluate_has_panels_and_fits(truecal: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """What most people need comes first, names are whole, and hardly any option takes two lines of 80 characters."""
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 80)
    _, out, _ = truecal("evaluate", "--help")
    panels = re.findall(r"^╭─ ([^─]+) ─", out, flags=re.MULTILINE)
    wanted = ["Arguments", "Input", "Kind of numbers", "Measure", "Slice", "Output", "Large data"]
    assert panels == [*wanted, "Answers of a language model"]
    options = [option for option in commands()["evaluate"].params if option.param_type_name == "option"]
    rows = [line for line in out.partition("─ Input ─")[2].splitlines() if line.startswith("│")]
    assert all(" --" in row for row in rows) and len(rows) == len(options) + 1  # one more for --help
    assert "…" not in out and len(out.splitlines()) <= 100


WORK_BEGINS = """
import truecal
def begin(*arguments, compare=truecal.compare, **options):
    print("working", flush=True)
    return compare(*arguments, **options)
truecal.compare = begin
"""


@pytest.mark.slow
def test_an_interrupted_run_leaves_nothing_broken(folder: Path) -> None:
    """Ctrl-C in the middle of the work: no output file, no temporary file, one line, exit code 130."""
    before = set(os.listdir(folder))
    outputs = ("--json", "o.json", "--csv", "o.csv")
    with child("compare", "good.npz", "sharp.csv", "--resamples", "100000", *outputs, before=WORK_BEGINS) as running:
        assert running.stdout is not None and running.stdout.readline() == "working\n"
        running.send_signal(signal.SIGINT)
        _, err = running.communicate()
        assert running.returncode == 130
    assert err == "interrupted\n"
    assert set(os.listdir(folder)) == before


@pytest.mark.slow
def test_control_characters_are_never_printed(folder: Path, truecal: Run) -> None:
    os.rename("good.npz", "\x1b[31mgood.npz")
    code, out, err = truecal("evaluate", "\x1b[31mgood.npz", *FAST)
    assert code == 0 and "\x1b[31m" not in out + err
    for arguments in (["\x1b[31mmissing.npz"], ["\x1b[31mgood.npz", "--temperature", "sharp-val.npz"]):
        code, out, err = truecal("evaluate", *arguments, *FAST)
        assert code == 1 and "\x1b" not in out + err
