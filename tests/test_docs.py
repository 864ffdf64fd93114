"""Every example in README, docs and docstrings runs, and says what it prints."""

from __future__ import annotations

import doctest
import importlib
import pickle
import pkgutil
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import truecal as tc
from truecal.kinds import functions
from truecal.kinds.named_errors import COMPOSED

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
MODULES = [
    info.name
    for info in pkgutil.walk_packages(tc.__path__, "truecal.")
    if info.name
    not in ("reproduction.cifar_models", "reproduction.__main__")  # need a network's library; run on import
    and not info.name.startswith("truecal.sums.torch.fused")  # need Triton
]
NEEDED = {"frameworks.md": "torchmetrics", "survival.md": "lifelines", "migrate.md": "torchmetrics"}
"""Pages that train, and what they need for it."""
SLOW = ("compare", "frameworks", "gallery", "language-models", "recalibration", "scale", "segments")
MARKS = {f"{name}.md": pytest.mark.slow for name in SLOW}
SCRIPT = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```", re.MULTILINE | re.DOTALL)
"""A block that begins with the name of a file is that file, beside the examples of its page."""


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=MARKS.get(page.name, ())) for page in PAGES],
    ids=lambda page: page.name,
)
def test_examples_of_a_page(page, tmp_path, monkeypatch):
    if page.name in NEEDED:
        pytest.importorskip(NEEDED[page.name], reason=f"the page trains with {NEEDED[page.name]}")
    monkeypatch.chdir(tmp_path)
    for name, text in SCRIPT.findall(page.read_text()):
        Path(name).write_text(text)
    for log in (ROOT / "docs" / "logs").iterdir():  # pages read them as if they were here
        if log.name in page.read_text():
            shutil.copy(log, tmp_path)
    results = doctest.testfile(str(page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert results.failed == 0


def test_pages_have_examples():
    assert sum(">>> " in page.read_text() for page in PAGES) >= 2


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


def test_losses_and_error_functions_carry_their_examples():
    """They are objects, which doctest does not look into by itself."""
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=FLAGS)
    made = [value for value in vars(functions).values() if isinstance(value, functions.ErrorFunction)]
    assert len(made) == 9
    things: list[Any] = [*tc.LOSSES.values(), *made]
    for thing in things:
        test = parser.get_doctest(thing.__doc__ or "", {}, thing.__name__, None, 0)
        assert test.examples, thing
        assert runner.run(test).failed == 0


def test_losses_and_errors_travel_to_other_processes():
    for thing in (*tc.LOSSES.values(), *tc.ERRORS.values(), tc.classwise_error, tc.linear_error):
        there = pickle.loads(pickle.dumps(thing))
        assert there is thing or there == thing


def test_the_table_of_errors_in_the_docs_is_the_list():
    page = (ROOT / "docs" / "measures.md").read_text()
    section = page.partition("\n## The errors\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| .*? \| (yes|no) \|", section, flags=re.MULTILINE))
    assert rows == {name: "yes" if error.truthful else "no" for name, error in COMPOSED.items()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_functions_and_commands_that_exist(page):
    """Also in tables and in text that no example runs."""
    from typer.main import get_command

    from truecal.cli import app as cli

    text = page.read_text("utf-8")
    assert [name for name in re.findall(r"\btc\.([a-zA-Z]\w*)", text) if not hasattr(tc, name)] == []
    known = set(get_command(cli.app).commands)  # type: ignore[attr-defined]
    assert set(re.findall(r"`truecal ([a-z]+)", text)) <= known


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 500
