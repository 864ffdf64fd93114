"""A missing optional library is answered with the command that installs it; a broken one with its own error."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from truecal.core.extras import require

ROOT = Path(__file__).parents[2]


def test_it_returns_the_module_itself():
    assert require("json.decoder", "all") is sys.modules["json.decoder"]


@pytest.mark.parametrize(("module", "name"), [("sklearn", "scikit-learn"), ("pandas", "pandas")])
def test_a_missing_library_is_named_as_pip_names_it(module, name, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)  # what Python does where it is not installed
    with pytest.raises(ImportError, match=rf'^this needs {name}: run pip install "truecal\[plots\]"$') as caught:
        require(module, "plots")
    assert caught.value.name == module


def test_what_is_missing_is_named_not_what_asked_for_it(tmp_path, monkeypatch):
    (tmp_path / "asks.py").write_text("import is_not_there.at_all\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"^this needs is_not_there: run pip install"):
        require("asks", "all")


def test_a_broken_library_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("raise ImportError('libgomp.so.1 not found')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError, match=r"^libgomp\.so\.1 not found$"):
        require("broken", "all")


def test_one_small_extra_has_pandas():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert [name for name, needs in extras.items() if any(n.startswith("pandas>") for n in needs)] == ["pandas"]
