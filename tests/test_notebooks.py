"""The notebooks of the docs run from top to bottom, are kept with what they show, and have their line in the index."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parent.parent / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]


def shown(cell: dict[str, Any]) -> str | None:
    """The text of the value that a cell ends with, as it was kept."""
    kept = [output["data"].get("text/plain") for output in cell["outputs"] if output["output_type"] == "execute_result"]
    return "".join(kept[0]) if kept else None


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["classifier", "language-model-log", "monitoring"]
    index = (DOCS / "index.md").read_text()
    assert all(f"(notebooks/{path.name})" in index for path in NOTEBOOKS)


@pytest.mark.heavy
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_keeps(path, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells(path), 1):
        assert cell["execution_count"] == number and cell["outputs"] is not None
        *body, last = ast.parse("".join(cell["source"])).body
        exec(compile(ast.Module(body, []), path.name, "exec"), names)
        if not isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), path.name, "exec"), names)
            continue
        value = eval(compile(ast.Expression(last.value), path.name, "eval"), names)
        if value is not None:
            assert repr(value).splitlines()[0] == (shown(cell) or "").splitlines()[0]
            assert hasattr(value, "_repr_html_")
    plt.close("all")


def test_nothing_of_the_machine_is_kept():
    for path in NOTEBOOKS:
        text = path.read_text()
        assert not re.search(r"[\"'\s]/\w+/\w+", text.replace("</", "")), "an absolute path"
        assert not any(output["output_type"] == "error" for cell in cells(path) for output in cell["outputs"])
