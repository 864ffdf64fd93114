"""truecal audit: metrics by name, their options, exit codes and files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import Run
from truecal.cli.callables import find_metric, read_options

LITTLE = ("--budget", "300")

MODULE = """
import numpy as np

def brier(y, p, *, weight=1):
    return weight * float(((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean())

def ece(p, y):
    return float(np.abs(p[:, 0] - (y == 0)).mean())

class Held:
    def __init__(self, weight):
        self.weight = weight
    def measure(self, y, p):
        return brier(y, p, weight=self.weight)
    __call__ = measure

rng = np.random.default_rng(0)

def noisy(y, p):
    return ece(p, y) + 0.05 * rng.standard_normal()

def leaves(y, p):
    raise SystemExit(0)

number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    name = f"metrics_{tmp_path.name.replace('-', '_')}"  # each test has a module of its own
    Path(f"{name}.py").write_text(MODULE)
    return name


def test_gamed_ends_with_three_and_writes_its_proof(module: str, truecal: Run) -> None:
    files = ("--html", "a.html", "--json", "a.json", "--script", "check.py")
    code, out, err = truecal("audit", f"{module}:ece", "--convention", "preds_first", *LITTLE, *files)
    assert code == 3 and out.startswith(f"audit of {module}:ece\n  gamed: a lie gains") and "wrote check.py" in err
    assert json.loads(Path("a.json").read_text())["verdict"] == "gamed"
    assert "<!doctype html>" in Path("a.html").read_text()
    assert f"from {module} import ece as metric" in Path("check.py").read_text()


def test_no_verdict_ends_with_four_and_leaving_with_one(module: str, truecal: Run) -> None:
    code, out, _ = truecal("audit", f"{module}:noisy", *LITTLE)
    assert code == 4 and "no verdict: not deterministic" in out and "certified" not in out
    code, _, err = truecal("audit", f"{module}:leaves", *LITTLE)
    assert code == 1 and "the metric called sys.exit(0)" in err and err.count("\n") == 1
    Path(f"{module}_left.py").write_text("raise SystemExit(0)")
    code, _, err = truecal("audit", f"{module}_left:f")
    assert code == 1 and "importing" in err and "SystemExit: 0" in err


@pytest.mark.slow
def test_nothing_found_ends_with_zero(module: str, truecal: Run) -> None:
    for name in (f"{module}:brier", f"{module}:Held", f"{module}:Held.measure"):
        code, out, _ = truecal("audit", name, "-k", "weight=2", "--classes", "2", *LITTLE, "--script", "none.py")
        assert code == 0 and "certified on a grid" in out
    assert not Path("none.py").exists()  # there is no proof to check


@pytest.mark.slow
def test_our_own_errors_and_losses_go_by_their_names(truecal: Run) -> None:
    assert truecal("audit", "confidence_l1", *LITTLE)[0] == 3
    assert truecal("audit", "brier", *LITTLE)[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("no_such",), 1, "expected module:callable, or one of classwise"),
        (("no.such:thing",), 1, "no module 'no' is installed or in this folder"),
        (("math:nope",), 1, "math:nope: there is no 'nope' in 'math'"),
        (("math:",), 1, "there is no '' in 'math'"),
        (("math:pi",), 1, "expected a callable, got 'float'"),
        (("json:dumps",), 1, "the metric returned no number for any sample"),
        (("brier", "-k", "weight"), 1, "-k: expected name=value, got 'weight'"),
        (("brier", "--classes", "two"), 2, "expected positive whole numbers such as 2,3, got 'two'"),
        (("brier", "--budget", "much"), 1, "budget must be one of 'quick'"),
        (("brier", "--convention", "p"), 1, "convention must be one of"),
        (("brier", "--json", "no/such/folder.json"), 1, "does not exist"),
        (("decimal:Decimal.sqrt", "-k", "value=x"), 1, "Decimal could not be made"),
    ],
)
def test_mistakes_are_one_line(arguments: tuple[str, ...], code: int, words: str, truecal: Run) -> None:
    got, _, err = truecal("audit", *arguments)
    assert got == code and words in err and err.count("\n") == 1


def test_a_module_that_fails_to_import_is_one_line(module: str, truecal: Run) -> None:
    Path(f"{module}_broken.py").write_text("raise RuntimeError('broken\\nmodule')")
    code, _, err = truecal("audit", f"{module}_broken:f")
    assert code == 1 and "RuntimeError: broken module" in err and err.count("\n") == 1


def test_options_are_literals_or_text() -> None:
    given = ["num_classes=3", "norm=l1", "bins=(1, 2)", "flag=True", "text='3'", "empty="]
    assert read_options(given) == {
        "num_classes": 3,
        "norm": "l1",
        "bins": (1, 2),
        "flag": True,
        "text": "3",
        "empty": "",
    }


def test_a_class_takes_the_options_and_its_calls_none(module: str) -> None:
    held, left = find_metric(f"{module}:Held", {"weight": 5})
    assert held.weight == 5 and left == {}
    function, left = find_metric(f"{module}:brier", {"weight": 5})
    assert function.__name__ == "brier" and left == {"weight": 5}
