"""Every example in README, docs and docstrings runs, and says what it prints."""

from __future__ import annotations

import doctest
import importlib
import pickle
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import truecal as tc

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = [
    info.name
    for info in pkgutil.walk_packages(tc.__path__, "truecal.")
    if info.name not in ("truecal.lab.cifar_models", "truecal.lab.__main__")  # need a network's library; run on import
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_of_a_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    results = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert results.failed == 0


def test_pages_have_examples():
    assert sum(">>> " in page.read_text() for page in PAGES) >= 2


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


def test_losses_carry_their_examples():
    """Losses are objects, which doctest does not look into by itself."""
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=FLAGS)
    for loss in tc.LOSSES.values():
        test = parser.get_doctest(loss.__doc__, {}, loss.name, None, 0)
        assert test.examples, loss.name
        assert runner.run(test).failed == 0


def test_losses_and_errors_travel_to_other_processes():
    for thing in (*tc.LOSSES.values(), *tc.ERRORS.values()):
        there = pickle.loads(pickle.dumps(thing))
        assert there is thing or there == thing


def test_import_loads_numpy_and_nothing_heavier():
    code = (
        "import sys, truecal; heavy = {'scipy', 'sklearn', 'torch', 'pandas', 'matplotlib', 'pyarrow', 'typer', 'rich',"
        " 'altair', 'polars', 'jinja2'}; print(sorted(heavy & {m.split('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_and_explains_itself():
    for name in tc.__all__:
        thing = getattr(tc, name)
        assert getattr(thing, "__doc__", None), name


def test_the_table_of_errors_in_the_readme_is_the_list():
    rows = dict(re.findall(r"^\| `(\w+)` \| .*? \| (yes|no) \|", (ROOT / "README.md").read_text(), flags=re.MULTILINE))
    assert rows == {name: "yes" if error.truthful else "no" for name, error in tc.ERRORS.items()}
