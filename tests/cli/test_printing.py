"""Nothing that is printed keeps a result from being written: legacy encodings, full disks, readers that leave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import FAST, Run
from truecal.render import terminal as render

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-c", "from truecal.cli import main; main()"]


def started(*arguments: str, encoding: str = "utf-8", **streams: int) -> subprocess.CompletedProcess[bytes]:
    """`truecal` in a process of its own, its streams in an encoding."""
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    return subprocess.run([*COMMAND, *arguments], env=environment, check=False, **given)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "encoding", [pytest.param("cp1252", marks=pytest.mark.slow), pytest.param("ascii", marks=pytest.mark.heavy)]
)
def test_any_encoding_is_enough(folder: Path, encoding: str) -> None:
    os.rename("sharp.csv", "sharp−é–你.csv")
    run = started("evaluate", "sharp−é–你.csv", *FAST, "--details", "--json", "o.json", encoding=encoding)
    assert run.returncode == 0, run.stderr
    assert json.loads((folder / "o.json").read_text(encoding="utf-8"))["name"] == "sharp−é–你"
    text = run.stdout.decode(encoding)
    assert ("sharp-é–?" if encoding == "cp1252" else "sharp-?-?") in text  # U+2212 has no place in either
    assert "n·error" in text or "n*error" in text
    assert run.stderr.decode(encoding).strip() == "wrote o.json"


@pytest.mark.slow
@pytest.mark.parametrize("encoding", [pytest.param("cp1252", marks=pytest.mark.heavy), "ascii"])
def test_messages_and_help_too(folder: Path, encoding: str) -> None:
    run = started("evaluate", "none−.csv", encoding=encoding)
    assert run.returncode == 1 and b"none-.csv" in run.stderr and run.stderr.count(b"\n") == 1
    assert started("--help", encoding=encoding).returncode == 0


HEAVY = pytest.mark.heavy
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full, a disk that is always full")


@needs_full
@pytest.mark.heavy
@pytest.mark.parametrize(
    ("arguments", "files"),
    [
        (("evaluate", "good.npz", *FAST, "--json", "o.json", "--csv", "o.csv"), ["o.json", "o.csv"]),
        pytest.param(("compare", "good.npz", "sharp.csv", *FAST, "--json", "o.json"), ["o.json"], marks=HEAVY),
        (("monitor", "binary.csv", "--state", "s.npz", "--json", "o.json"), ["o.json", "s.npz"]),
        pytest.param(
            ("audit", "brier", "--classes", "2", "--budget", "200", "--json", "o.json"), ["o.json"], marks=HEAVY
        ),
        pytest.param(("test", "binary.csv", "--resamples", "39"), [], marks=HEAVY),
        (("--version",), []),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_a_full_disk_under_the_text(folder: Path, arguments: tuple[str, ...], files: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        run = started(*arguments, stdout=full.fileno())
    assert run.returncode == 1
    said = run.stderr.decode()
    assert said.startswith("error: ") and "No space left on device" in said and said.count("\n") == 1
    assert all(Path(name).stat().st_size for name in files)


@needs_full
@pytest.mark.slow
def test_a_full_disk_under_all_text(folder: Path) -> None:
    with open("/dev/full", "wb") as full:
        run = started("evaluate", "good.npz", *FAST, "--json", "o.json", stdout=full.fileno(), stderr=full.fileno())
    assert run.returncode == 1 and json.loads((folder / "o.json").read_text())["n_samples"] == 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "draw"),
    [
        (("evaluate", "good.npz", *FAST), "evaluation"),
        (("compare", "good.npz", "sharp.csv", *FAST), "comparison"),
        (("monitor", "binary.csv", "--state", "s.npz"), "monitoring"),
        (("audit", "brier", "--classes", "2", "--budget", "200"), "audit"),
    ],
)
def test_files_come_first(
    folder: Path, truecal: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], draw: str
) -> None:
    seen: list[bool] = []
    monkeypatch.setattr(render, draw, lambda *_, **__: seen.append(Path("o.json").is_file()))
    code, out, err = truecal(*command, "--json", "o.json")
    assert (code, out, seen) == (0, "", [True]) and err == "wrote o.json\n"
