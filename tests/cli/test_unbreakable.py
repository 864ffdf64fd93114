"""What an attack found: interrupts at any moment, missing extras, escapes, places that cannot be written."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import FAST, Run, child
from truecal.cli import common
from truecal.io import FileError

INTERRUPT_AT = """
import os, signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.heavy
@pytest.mark.parametrize("module", ["truecal.cli.app", "typer", "rich.console", "numpy", "truecal.results.evaluate"])
def test_ctrl_c_while_libraries_load_is_one_line(folder: Path, module: str) -> None:
    before = "import truecal.cli\n" + INTERRUPT_AT.format(module=module)
    with child("evaluate", "good.npz", *FAST, before=before) as running:
        out, err = running.communicate()
        assert (running.returncode, out, err) == (130, "", "interrupted\n")


def test_nothing_is_loaded_before_ctrl_c_is_answered() -> None:
    """Up to the first line of `main` Python's own traceback would be printed: a few milliseconds, no library."""
    code = "import sys; before = set(sys.modules); import truecal.cli; print(*sorted(set(sys.modules) - before))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "truecal.cli" in found
    assert not {"ast", "pkgutil", "typing", "importlib.util", "numpy", "typer"} & set(found), found


@pytest.mark.heavy
def test_ctrl_c_while_writing_leaves_nothing(folder: Path) -> None:
    files = set(os.listdir(folder))
    before = "import os, signal\nos.fsync = lambda handle: os.kill(os.getpid(), signal.SIGINT)"
    with child("evaluate", "good.npz", "--json", "o.json", *FAST, before=before) as running:
        _, err = running.communicate()
        assert (running.returncode, err) == (130, "interrupted\n")
    assert set(os.listdir(folder)) == files


@pytest.mark.parametrize(
    ("arguments", "missing", "words"),
    [
        (
            ("evaluate", "good.npz", "--html", "o.html"),
            ["jinja2"],
            '--html needs jinja2: pip install "truecal[report]"',
        ),
        (("demo",), ["sklearn", "altair"], 'demo needs sklearn, altair: pip install "truecal[recalibration,report]"'),
    ],
)
def test_a_missing_extra_is_named_before_the_work(
    folder: Path,
    truecal: Run,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    missing: list[str],
    words: str,
) -> None:
    for module in missing:
        monkeypatch.setitem(sys.modules, module, None)
    files = set(os.listdir(folder))
    code, _, err = truecal(*arguments)
    assert (code, err) == (1, f"error: {words}\n")
    assert set(os.listdir(folder)) == files


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", "good.npz", "--bins", "\x1b[31m5"),
        ("evaluate", "good.npz", "--\x1b[31mnonsense"),
        ("\x1b[31mnonsense",),
        ("evaluate", "good.npz", "--json", "no\x1b[31m/o.json"),
        ("evaluate", "good.npz", "--labels", "\x1b[31my.npy"),
        ("evaluate", "good.npz", "--columns", "\x1b[31m"),
        ("test", "good.npz", "--error", "\x1b[31m"),
    ],
)
def test_no_message_carries_an_escape(folder: Path, truecal: Run, arguments: tuple[str, ...]) -> None:
    code, out, err = truecal(*arguments)
    assert code in (1, 2) and "\x1b" not in out + err
    assert err.startswith("error: ") and err.count("\n") == 1


def test_an_output_that_cannot_be_written_is_noticed_before_the_work(
    folder: Path, truecal: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("the work was begun")

    def deny(path: Path) -> None:
        raise FileError(f"{path}: cannot be written (Permission denied)")

    monkeypatch.setattr(common, "load", never)
    monkeypatch.setattr(common, "check_writable", deny)
    code, _, err = truecal("evaluate", "good.npz", "--json", "o.json", *FAST)
    assert code == 1 and "o.json: cannot be written (Permission denied)" in err


def test_too_little_memory_is_one_line(folder: Path, truecal: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(*_: Any, **__: Any) -> None:
        np.empty(1 << 60, dtype=np.int8)

    monkeypatch.setattr(common, "load", starve)
    code, _, err = truecal("evaluate", "good.npz")
    assert (
        code == 1 and err.startswith("error: not enough memory: Unable to allocate 1.00 EiB") and err.count("\n") == 1
    )


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on linux")
def test_a_file_name_that_is_no_utf8(folder: Path, truecal: Run) -> None:
    odd = os.fsdecode(b"\xffsharp.csv")
    os.rename("sharp.csv", odd)
    code, out, _ = truecal("evaluate", odd, "--json", "o.json", *FAST)
    assert code == 0 and "sharp" in out
    out.encode()  # and it can be printed


@pytest.mark.heavy
@pytest.mark.parametrize("arguments", [("--help",), ("evaluate", "--help"), ("--version",), ()], ids=str)
def test_a_reader_of_the_help_may_leave(arguments: tuple[str, ...]) -> None:
    """truecal --help | head -1 is no failure."""
    before = "import os; reading, writing = os.pipe(); os.close(reading); os.dup2(writing, 1)"
    with child(*arguments, before=before) as running:
        _, err = running.communicate()
        assert (running.returncode, err) == (0, "")


@pytest.mark.slow
def test_names_in_the_csv_are_no_formulas(folder: Path, truecal: Run) -> None:
    names = ["=cmd|' /C calc'!A0", "@sum", "+1+cmd", "-2-3"]
    for name in names:
        np.savez(f"{name.replace('/', '_')}.npz", **np.load("good.npz"))
    files = [f"{name.replace('/', '_')}.npz" for name in names]
    np.savez("-5.npz", **np.load("good.npz"))
    code, _, err = truecal("compare", *(f"./{file}" for file in [*files, "-5.npz"]), "--csv", "o.csv", *FAST)
    assert code == 0, err
    with open("o.csv", newline="") as stream:
        found = {row["model"] for row in csv.DictReader(stream)}
    assert found == {"'" + name.replace("/", "_") for name in names} | {"-5"}
